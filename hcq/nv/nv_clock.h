/* The frequency of a card, as the kernel's driver tells it while somebody
 * looks. Owned by who opened it; one thread. */
#ifndef BELL_HCQ_NV_NV_CLOCK_H
#define BELL_HCQ_NV_NV_CLOCK_H

#include "hcq/nv/nv_rm.h"

/* The page in which it does. */
struct nv_clock {
    uint32_t page; /* the object */
    struct nv_rm_mapping map;
    const char *place; /* in the mapping; NULL: not open */
};

/* BELL_E_UNSUPPORTED, or what the driver says: it tells of none. */
BELL_MUST_CHECK bell_status nv_clock_open(struct nv_rm *rm,
                                          struct nv_clock *out_clock);
void nv_clock_close(struct nv_rm *rm, struct nv_clock *clock);

/* In MHz. 0: not told yet; it takes up to a second after opening. */
uint32_t nv_clock_read(const struct nv_clock *clock);

#endif
