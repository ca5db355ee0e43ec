/* Pages of HTML that need nothing else: a document of JSON in each of the
 * places that a page keeps for one.
 */
#ifndef BELL_TOOLS_PAGE_H
#define BELL_TOOLS_PAGE_H

#include <stddef.h>

#include "base/status.h"

struct page_document {
    const char *mark; /* "@RUN@": where it goes, once in the page */
    const char *json;
    size_t n_bytes;
};

#define PAGE_DOCUMENTS_MAX 2

/* Writes the page with its documents, of which the marks come in that order.
 * What is in them ends no script of the page. */
BELL_MUST_CHECK bell_status page_write(const char *path, const char *page,
                                       const struct page_document *documents,
                                       size_t n_documents);

#endif
