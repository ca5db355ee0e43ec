/* Address spaces of simulated cards: page tables of five levels, pages of
 * 4 KiB and 2 MiB, with a small translation cache for each of their users.
 *
 * Any thread may change the mappings; each walk belongs to one thread.
 */
#ifndef BELL_SIM_SPACE_H
#define BELL_SIM_SPACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* What is kept with a page. */
enum sim_page_flag {
    SIM_PAGE_READ_ONLY = 1u << 1,
    SIM_PAGE_EXECUTABLE = 1u << 2,
    SIM_PAGE_SYSTEM = 1u << 3,   /* host memory; else the card's */
    SIM_PAGE_UNCACHED = 1u << 4, /* caches never hold it */
    SIM_PAGE_TEAM = 1u << 5,     /* several cards' memory: not to be touched */
};

/* Another card's memory: its number from 0, in the flags; and back. -1: it is
 * the card's own or the host's. */
#define SIM_PAGE_OF_CARD(n)   (((n) + 1u) << 8)
#define SIM_PAGE_OWNER(flags) ((int)((flags) >> 8 & 15) - 1)

struct sim_space {
    pthread_rwlock_t lock;       /* held for reading by who walks */
    _Atomic uint32_t n_changing; /* want it for writing */
    _Atomic uint64_t mapped_bytes;
    uint64_t generation; /* grows with every unmap */
    uint64_t *root;      /* owned; NULL: nothing was ever mapped */
};

BELL_MUST_CHECK bell_status sim_space_create(struct sim_space **out_space);
void sim_space_destroy(struct sim_space *space);

/* va, host and size are multiples of page_bytes (4 KiB, 64 KiB or 2 MiB).
 * BELL_E_INVALID where something is mapped there already. */
BELL_MUST_CHECK bell_status sim_space_map(struct sim_space *space, uint64_t va,
                                          void *host, uint64_t size_bytes,
                                          uint32_t page_bytes, uint32_t flags);
/* When it returns, no walk holds a translation of that range. */
void sim_space_unmap(struct sim_space *space, uint64_t va, uint64_t size_bytes);
/* Bytes mapped, for leak counts. */
uint64_t sim_space_mapped(const struct sim_space *space);

/* One user of a space. A translation between enter and leave (or pause) stays
 * valid until then. */
struct sim_walk {
    struct sim_space *space;
    uint64_t generation; /* that the entries below are of */
    struct {
        uint64_t tag, leaf; /* page number + 1; 0: none */
    } small[128], big[32];
};

void sim_walk_init(struct sim_walk *walk, struct sim_space *space);
void sim_walk_enter(struct sim_walk *walk);
void sim_walk_leave(struct sim_walk *walk);
/* Lets changes of the mappings in. True if there were any wishes: what was
 * translated is forgotten. */
bool sim_walk_pause(struct sim_walk *walk);
/* Host address behind va, how many bytes lie there in one piece, and the
 * page's flags; NULL: not mapped. */
void *sim_walk_span(struct sim_walk *walk, uint64_t va, uint64_t *out_bytes,
                    uint32_t *out_flags);

#endif
