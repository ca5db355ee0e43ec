/* What the cards of one simulated box move between each other: bytes of other
 * cards' memory that a card's copy engines and kernels read and write. Words of
 * semaphores and signals are not data and do not count.
 *
 * A page of an address space says whose card's memory it is
 * (SIM_PAGE_OWNER). Threads: any.
 */
#ifndef BELL_SIM_LINKS_H
#define BELL_SIM_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct kio_link_bytes;
struct sim_links;

enum sim_link_use {
    SIM_LINK_COPY,   /* by a copy engine */
    SIM_LINK_KERNEL, /* by a kernel */
    SIM_LINK_USE_COUNT
};

BELL_MUST_CHECK bell_status sim_links_create(uint32_t n_cards,
                                             struct sim_links **out_links);
/* NULL is allowed. */
void sim_links_destroy(struct sim_links *links);

/* Card `card` has read or written so many bytes of card `owner`'s memory. */
void sim_links_add(struct sim_links *links, uint32_t card, uint32_t owner,
                   enum sim_link_use use, bool is_write, uint64_t bytes);
/* All since the box was made. */
void sim_links_get(const struct sim_links *links, uint32_t card, uint32_t owner,
                   struct kio_link_bytes *out_bytes);

#endif
