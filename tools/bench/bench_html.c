/* `doorbell bench --html`: the page is report.html, with the runs' documents in
 * the two places that are marked; what draws them is in the page. */
#include "tools/bench/bench.h"

#include <string.h>

#include "base/bits.h"
#include "tools/page.h"
#include "tools/report_html.h"

bell_status
bench_write_html(const char *path, const char *document, const char *other,
                 size_t other_bytes)
{
    const struct page_document documents[] = {
        {"@RUN@", document, strlen(document)},
        {"@OTHER@", other, other_bytes},
    };

    return page_write(path, report_html, documents, ARRAY_LEN(documents));
}
