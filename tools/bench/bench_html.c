/* `doorbell bench --html`: the page is report.html, with the runs' documents in
 * the two places that are marked; what draws them is in the page. */
#include "tools/bench/bench.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tools/report_html.h"

/* Where the documents go. */
static const char run_mark[] = "@RUN@", other_mark[] = "@OTHER@";

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

static bell_status
write_parts(const char *path, const char *run, const char *other)
{
    const char *first = strstr(report_html, run_mark);
    const char *second = first ? strstr(first, other_mark) : NULL;
    const char *between = first ? first + strlen(run_mark) : NULL;
    const char *rest = second ? second + strlen(other_mark) : NULL;

    if (!rest)
        return bell_fail(BELL_E_INTERNAL, "report.html has lost its marks");
    return file_write(path,
                      (const struct file_part[]){
                          {report_html, (size_t)(first - report_html)},
                          {run, strlen(run)},
                          {between, (size_t)(second - between)},
                          {other, strlen(other)},
                          {rest, strlen(rest)},
                      },
                      5);
}

bell_status
bench_write_html(const char *path, const char *document, const char *other,
                 size_t other_bytes)
{
    char *run = escape(document, strlen(document));
    char *second = escape(other, other_bytes);
    bell_status status;

    if (run && second)
        status = write_parts(path, run, second);
    else
        status = bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", path);
    host_free(second);
    host_free(run);
    return status;
}
