/* Memory for signals: pages that host and card both see, shared out a cache
 * line to each. The pages are the backend's. Any thread: it has a lock of its
 * own.
 */
#ifndef BELL_HCQ_HCQ_SIGNAL_PAGES_H
#define BELL_HCQ_HCQ_SIGNAL_PAGES_H

#include <stdint.h>

#include "base/status.h"

#define HCQ_SIGNAL_BYTES      64u
#define HCQ_SIGNAL_PAGE_BYTES 4096u

/* A page, as its backend made it. */
struct hcq_signal_page {
    void *mem; /* the backend's own */
    uint64_t va;
    uint8_t *host;
};

struct hcq_signal_page_ops {
    /* Makes a page of HCQ_SIGNAL_PAGE_BYTES. */
    bell_status (*alloc)(void *user, struct hcq_signal_page *out_page);
    void (*release)(void *user, const struct hcq_signal_page *page);
};

struct hcq_signal_pages; /* owned by who made it */

BELL_MUST_CHECK bell_status
hcq_signal_pages_create(const struct hcq_signal_page_ops *ops, void *user,
                        struct hcq_signal_pages **out_pages);
/* Gives all pages back. NULL is allowed. */
void hcq_signal_pages_destroy(struct hcq_signal_pages *pages);

/* HCQ_SIGNAL_BYTES, all zero. */
BELL_MUST_CHECK bell_status hcq_signal_pages_alloc(
    struct hcq_signal_pages *pages, uint64_t *out_va, uint64_t **out_host);
/* `va` as alloc gave it. */
void hcq_signal_pages_free(struct hcq_signal_pages *pages, uint64_t va);

/* Calls `fn` for each page; the lock is held meanwhile. */
typedef void hcq_signal_page_fn(void *user, const struct hcq_signal_page *page);
void hcq_signal_pages_each(struct hcq_signal_pages *pages,
                           hcq_signal_page_fn *fn, void *user);

#endif
