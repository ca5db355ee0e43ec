/* Shapes as text: what `--in` takes in place of a file. */
#include "tools/shape.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doorbell/functions.h"

bool
tool_is_shape(const char *text)
{
    size_t n = 0;

    if (!*text || *text == ':') /* of rank 0 */
        return true;
    for (;;) {
        n = strspn(text, "0123456789");
        if (!n || text[n] != 'x')
            break;
        text += n + 1;
    }
    return n && (!text[n] || (text[n] == ':' && !strpbrk(text + n, "/.")));
}

bell_status
tool_parse_shape(const char *text, int64_t *shape, uint32_t *out_ndim,
                 enum bell_dtype *out_dtype)
{
    const char *whole = text;
    uint32_t ndim = 0;
    char *end;

    while (isdigit((unsigned char)*text)) {
        if (ndim == BELL_MAX_RANK)
            return bell_fail(BELL_E_INVALID, "%s: more than %d axes", whole,
                             BELL_MAX_RANK);
        shape[ndim++] = strtoll(text, &end, 10);
        text = *end == 'x' ? end + 1 : end;
    }
    *out_ndim = ndim;
    *out_dtype = BELL_FLOAT32;
    if (*text == ':')
        *out_dtype = bell_dtype_find(text + 1);
    if (*out_dtype == BELL_DEFAULT)
        return bell_fail(BELL_E_INVALID, "%s: no dtype '%s'", whole, text + 1);
    return BELL_OK;
}

bell_status
tool_check_file(const char *text)
{
    if (isdigit((unsigned char)*text) && access(text, F_OK) != 0)
        return bell_fail(BELL_E_INVALID,
                         "%s: is neither a shape, such as 2x3:float32, nor a "
                         "file",
                         text);
    return BELL_OK;
}
