/* Counters of pairs of cards. */
#include "sim/links.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "ioctl/kio.h"

struct sim_links {
    uint32_t n_cards;
    /* By card, owner, use, and whether it wrote. */
    _Atomic uint64_t bytes[][SIM_LINK_USE_COUNT][2];
};

bell_status
sim_links_create(uint32_t n_cards, struct sim_links **out_links)
{
    size_t n_pairs = (size_t)n_cards * n_cards;
    struct sim_links *links =
        host_calloc(1, sizeof(*links) + n_pairs * sizeof(links->bytes[0]));

    if (!links)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for counters of %u cards", n_cards);
    links->n_cards = n_cards;
    *out_links = links;
    return BELL_OK;
}

void
sim_links_destroy(struct sim_links *links)
{
    host_free(links);
}

void
sim_links_add(struct sim_links *links, uint32_t card, uint32_t owner,
              enum sim_link_use use, bool is_write, uint64_t bytes)
{
    assert(card < links->n_cards && owner < links->n_cards && card != owner);
    atomic_fetch_add_explicit(
        &links->bytes[card * links->n_cards + owner][use][is_write], bytes,
        memory_order_relaxed);
}

void
sim_links_get(const struct sim_links *links, uint32_t card, uint32_t owner,
              struct kio_link_bytes *out_bytes)
{
    const _Atomic uint64_t(*pair)[2];

    assert(card < links->n_cards && owner < links->n_cards);
    pair = links->bytes[card * links->n_cards + owner];
    *out_bytes = (struct kio_link_bytes){
        .copy_read = atomic_load(&pair[SIM_LINK_COPY][0]),
        .copy_written = atomic_load(&pair[SIM_LINK_COPY][1]),
        .kernel_read = atomic_load(&pair[SIM_LINK_KERNEL][0]),
        .kernel_written = atomic_load(&pair[SIM_LINK_KERNEL][1]),
    };
}
