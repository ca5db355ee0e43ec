/* Pages of HTML with documents in them. */
#include "tools/page.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

/* JSON as it may stand in a script of HTML: no '<' could end it. Freed with
 * host_free; NULL: out of memory. */
static char *
escape(const char *json, size_t n_bytes)
{
    static const char less[] = "\\u003c";
    size_t n_less = 0, used = 0, i;
    char *text;

    for (i = 0; i < n_bytes; i++)
        n_less += json[i] == '<';
    text = host_alloc(n_bytes + n_less * (sizeof(less) - 1) + 1);
    if (!text)
        return NULL;
    for (i = 0; i < n_bytes; i++) {
        if (json[i] == '<') {
            memcpy(text + used, less, sizeof(less) - 1);
            used += sizeof(less) - 1;
        } else {
            text[used++] = json[i];
        }
    }
    text[used] = '\0';
    return text;
}

bell_status
page_write(const char *path, const char *page,
           const struct page_document *documents, size_t n_documents)
{
    struct file_part parts[2 * PAGE_DOCUMENTS_MAX + 1];
    char *texts[PAGE_DOCUMENTS_MAX] = {NULL};
    bell_status status = BELL_OK;
    size_t i;

    assert(n_documents <= PAGE_DOCUMENTS_MAX);
    for (i = 0; i < n_documents && status == BELL_OK; i++) {
        const char *mark = strstr(page, documents[i].mark);

        texts[i] = escape(documents[i].json, documents[i].n_bytes);
        if (!mark)
            status = bell_fail(BELL_E_INTERNAL, "a page has lost its mark %s",
                               documents[i].mark);
        else if (!texts[i])
            status = bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", path);
        if (status != BELL_OK)
            break;
        parts[2 * i] = (struct file_part){page, (size_t)(mark - page)};
        parts[2 * i + 1] = (struct file_part){texts[i], strlen(texts[i])};
        page = mark + strlen(documents[i].mark);
    }
    parts[2 * n_documents] = (struct file_part){page, strlen(page)};
    if (status == BELL_OK)
        status = file_write(path, parts, 2 * n_documents + 1);
    for (i = 0; i < n_documents; i++)
        host_free(texts[i]);
    return status;
}
