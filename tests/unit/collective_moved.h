/* Which collectives the devices of a fleet can do, and the bytes that one moves
 * over each link: as simulated cards count them, as the plan says, and by
 * formula.
 */
#ifndef BELL_TESTS_UNIT_COLLECTIVE_MOVED_H
#define BELL_TESTS_UNIT_COLLECTIVE_MOVED_H

#include "collective_rig.h"

/* Whether the links allow the algorithm. */
bool rig_can(struct fleet *rig, const struct rig_case *c);
/* Whether one of the devices cannot sum the dtype: Adreno has no float64, for
 * one. bell_error_last says why. */
bool rig_lacks(struct fleet *rig, enum hcq_dtype dtype);

/* What one rank has read and written of another one's memory. */
struct rig_moved {
    bool is_counted;
    uint64_t read[RIG_RANKS_MAX][RIG_RANKS_MAX];
    uint64_t written[RIG_RANKS_MAX][RIG_RANKS_MAX];
};

void rig_count_moved(struct fleet *rig, struct rig_moved *moved);
/* What cards have counted since `before` is what the plan says. */
void rig_check_moved(struct fleet *rig, const struct rig_case *c,
                     const struct hcq_collective *collective,
                     const struct rig_moved *before);

/* Bytes from one rank's memory to another's where all reach each other, by
 * formula. The algorithm is not AUTO. */
uint64_t rig_formula(const struct rig_case *c, uint32_t n, uint32_t from,
                     uint32_t to);
/* And where none does: bytes that a rank writes to host memory, and reads. */
void rig_host_formula(const struct rig_case *c, uint32_t n, uint32_t rank,
                      uint64_t *out_up, uint64_t *out_down);

#endif
