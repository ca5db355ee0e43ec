/* What a kernel takes of a unit: as LLVM says, or where no assembler is there
 * to say it, by the values that are alive at once. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "render/llvm/amdgpu.h"
#include "render/render.h"
#include "uops/uop.h"

/* guess: addresses and what the hardware keeps, beside values */
#define OTHER_REGS 12u

/* 32-bit registers of a value; 0 of what is none, or is part of an
 * instruction. */
static uint32_t
words_of(const struct uop *u)
{
    switch (u->op) {
    case UOP_CONST:
    case UOP_PARAM:
    case UOP_VAR:
    case UOP_LOCAL:
    case UOP_STORE:
    case UOP_COPY:
    case UOP_BARRIER:
    case UOP_PINGPONG:
    case UOP_PINGPONG_END:
    case UOP_AFTER:
    case UOP_END:
    case UOP_ACC_SET:
    case UOP_ACC_GET: /* the ACC */
    case UOP_LANE:    /* a part of what is counted */
    case UOP_LANES:
        return 0;
    case UOP_INDEX:
        return 2;
    default:
        return (uint32_t)div_up(
            (uint64_t)uop_dtype_infos[u->dtype].size_bytes * u->lanes, 4);
    }
}

/* Where values are last used: what is made before a loop and used in it lives
 * to its end. `at` is by id, the others by place. */
static void
find_ends(const struct lower_program *p, const uint32_t *at, uint32_t *last)
{
    uint32_t i, j;

    for (i = 0; i < p->n_ops; i++) {
        const struct uop *u = p->ops[i];

        last[i] = i;
        for (j = 0; j < u->n_src; j++)
            last[at[u->src[j]->id]] = i;
        if (u->op != UOP_END)
            continue;
        assert(at[u->src[0]->id] < i);
        for (j = 0; j < at[u->src[0]->id]; j++) {
            if (last[j] > at[u->src[0]->id])
                last[j] = i;
        }
    }
}

bell_status
render_estimate_usage(const struct lower_program *p,
                      struct render_usage *out_usage)
{
    uint32_t n_ids = 0, alive = 0, most = 0, i;
    uint32_t *at, *last, *ending;

    for (i = 0; i < p->n_ops; i++)
        n_ids = p->ops[i]->id >= n_ids ? p->ops[i]->id + 1 : n_ids;
    at = host_calloc(n_ids + 1, sizeof(*at));
    last = host_calloc(p->n_ops + 1, sizeof(*last));
    ending = host_calloc(p->n_ops + 1, sizeof(*ending));
    if (!at || !last || !ending) {
        host_free(at);
        host_free(last);
        host_free(ending);
        return bell_fail(BELL_E_NO_MEMORY, "estimating %s: out of memory",
                         p->name);
    }
    for (i = 0; i < p->n_ops; i++)
        at[p->ops[i]->id] = i;
    find_ends(p, at, last);
    for (i = 0; i < p->n_ops; i++)
        ending[last[i]] += words_of(p->ops[i]);
    for (i = 0; i < p->n_ops; i++) {
        alive += words_of(p->ops[i]);
        most = alive > most ? alive : most;
        alive -= ending[i];
    }
    assert(alive == 0);
    host_free(at);
    host_free(last);
    host_free(ending);
    memset(out_usage, 0, sizeof(*out_usage));
    out_usage->n_regs = most + OTHER_REGS;
    out_usage->shared_bytes = p->shared_bytes;
    return BELL_OK;
}

/* The number behind a key of the metadata; 0: none. src: LLVM 19, "User
 * Guide for AMDGPU Backend", code object V5 metadata */
static uint32_t
metadata(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at ? (uint32_t)strtoul(at + strlen(key), NULL, 10) : 0;
}

bell_status
render_amdgpu_usage(const struct lower_program *program,
                    const struct amdgpu_target *target,
                    struct render_usage *out_usage)
{
    char *text;

    BELL_TRY(render_amdgpu_asm(program, target, &text));
    *out_usage = (struct render_usage){
        .n_regs = metadata(text, ".vgpr_count:"),
        .shared_bytes = metadata(text, ".group_segment_fixed_size:"),
        .stack_bytes = metadata(text, ".private_segment_fixed_size:"),
        /* each at least stored once and loaded once */
        .spill_bytes = 2 * 4 * metadata(text, ".vgpr_spill_count:"),
    };
    host_free(text);
    return BELL_OK;
}
