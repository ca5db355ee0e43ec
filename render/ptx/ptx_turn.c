/* PINGPONGs: groups of 128 threads take turns, by a barrier for each: a group
 * waits at its own, at which the one before it arrives. The first group finds
 * that the last has arrived, and awaits it once more in the end, when nobody
 * else does. src: PTX ISA, bar.sync and bar.arrive. */
#include <assert.h>

#include "render/ptx/ptx_internal.h"

#define GROUP_THREADS 128
#define FIRST_BARRIER 1 /* 0 is BARRIER's */

static uint32_t
n_groups(const struct ptx_emit *e)
{
    return e->prog->local[0] / GROUP_THREADS;
}

uint32_t
ptx_n_barriers(const struct lower_program *p)
{
    assert(p->local[0] / GROUP_THREADS <= PTX_MAX_GROUPS);
    return FIRST_BARRIER + p->local[0] / GROUP_THREADS;
}

/* `how` at the barrier of that group, by the threads of `who`. */
static void
meet(struct ptx_emit *e, uint32_t who, const char *how, uint32_t group)
{
    assert(who < n_groups(e) && group < n_groups(e));
    render_put(&e->body, "  @%%p%u bar.%s %u, %u;\n", e->of_group[who].reg, how,
               FIRST_BARRIER + group, 2 * GROUP_THREADS);
}

void
ptx_begin_turns(struct ptx_emit *e)
{
    struct ptx_opnd group = ptx_reg(e, PTX_B32);
    uint32_t i;

    assert(n_groups(e) > 0 && n_groups(e) <= PTX_MAX_GROUPS &&
           e->prog->local[0] % GROUP_THREADS == 0 && e->prog->local[1] == 1 &&
           e->prog->local[2] == 1);
    PTX_OP(e, "mov.u32 %, %%tid.x", group);
    PTX_OP(e, "div.u32 %, %, %", group, group, ptx_imm(PTX_B32, GROUP_THREADS));
    for (i = 0; i < n_groups(e); i++) {
        e->of_group[i] = ptx_reg(e, PTX_PRED);
        PTX_OP(e, "setp.eq.s32 %, %, %", e->of_group[i], group,
               ptx_imm(PTX_B32, i));
    }
    meet(e, n_groups(e) - 1, "arrive", 0);
}

void
ptx_take_turn(struct ptx_emit *e)
{
    uint32_t i;

    for (i = 0; i < n_groups(e); i++)
        meet(e, i, "sync", i);
}

void
ptx_end_turn(struct ptx_emit *e)
{
    uint32_t i;

    for (i = 0; i < n_groups(e); i++)
        meet(e, i, "arrive", (i + 1) % n_groups(e));
}

void
ptx_close_turns(struct ptx_emit *e)
{
    meet(e, 0, "sync", 0);
}
