/* Adreno's shaders, run instruction by instruction. */
#ifndef BELL_TESTS_RENDER_IR3_RUN_H
#define BELL_TESTS_RENDER_IR3_RUN_H

#include "render/ir3/ir3.h"

struct ir3_run {
    const struct ir3_object *object; /* with its code behind it */
    uint32_t grid[3];
    const uint64_t *args; /* of PARAMs and VARs */
    /* Memory at an address, or NULL; n_bytes of it are accessed. */
    void *(*at)(void *user, uint64_t va, uint32_t n_bytes, bool is_write);
    void *user;
    bool flush;      /* subnormal floats are 0, as on the chips */
    char error[512]; /* out: what is wrong, and where */
};

/* Runs all work-groups. False: an instruction that is not known, a register that
 * is read before it is set or before the chip has it, memory that is not there,
 * threads that part and are not joined, no end. */
bool ir3_run(struct ir3_run *run);

#endif
