/* What the lanes of a warp do together: shuffles, votes, reductions. Lanes
 * that a mask names wait until all of them are at the instruction; those that
 * have left the kernel are not waited for. */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>

static bool
is_matrix(unsigned op)
{
    return op == PX_MMA || op == PX_LDMATRIX || op == PX_STMATRIX ||
           (op >= PX_WGMMA && op <= PX_WGMMA_AWAIT);
}

bool
px_members_here(struct px_run *r, const struct px_warp *w,
                const struct px_insn *in, uint32_t mask)
{
    const uint32_t *members;
    uint32_t left, lane;

    if (in->op == PX_ACTIVEMASK)
        return true;
    if (is_matrix(in->op)) {
        if (mask != PX_FULL && mask == w->live)
            px_fault(r, w, px_first(mask), in, SIM_PTX_BARRIER, 0,
                     "it needs all 32 lanes of the warp");
        return mask == PX_FULL || r->failed;
    }
    members = px_read(r, w, in, in->src[3], mask);
    if (!members)
        return true;
    for (left = mask; left; left &= left - 1) {
        lane = px_first(left);
        if (!(members[lane] >> lane & 1)) {
            px_fault(r, w, lane, in, SIM_PTX_BARRIER, 0,
                     "a lane that its mask does not name");
            return true;
        }
        if (members[lane] & w->live & ~mask)
            return false;
    }
    return true;
}

/* ---- shuffles ---- */

/* The lane that a shuffle reads; *out_ok false where it keeps its own.
 * src: PTX ISA, shfl.sync: c holds the clamp (4:0) and the segment's mask
 * (12:8). */
static uint32_t
shuffle_source(unsigned mode, uint32_t lane, uint32_t b, uint32_t c,
               bool *out_ok)
{
    uint32_t segment = c >> 8 & 31, clamp = c & 31, j;
    uint32_t max = (lane & segment) | (clamp & ~segment);

    assert(lane < PX_LANES);
    b &= 31;
    switch (mode) {
    case PX_SHFL_UP:
        j = lane - b;
        *out_ok = (int32_t)j >= (int32_t)max;
        break;
    case PX_SHFL_DOWN:
        j = lane + b;
        *out_ok = j <= max;
        break;
    case PX_SHFL_BFLY:
        j = lane ^ b;
        *out_ok = j <= max;
        break;
    default:
        j = (lane & segment) | (b & ~segment);
        *out_ok = j <= max;
        break;
    }
    return *out_ok ? j : lane;
}

static void
do_shuffle(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           uint32_t mask)
{
    const uint32_t *a = px_read(r, w, in, in->src[0], mask);
    const uint32_t *b = px_read(r, w, in, in->src[1], mask);
    const uint32_t *c = px_read(r, w, in, in->src[2], mask);
    uint32_t left, lane, j, in_range = 0, *dst;
    px_row out;
    bool ok;

    assert(in->op == PX_SHFL);
    if (!a || !b || !c)
        return;
    for (left = mask; left; left &= left - 1) {
        lane = px_first(left);
        j = shuffle_source(in->mod[PX_MOD_MODE], lane, b[lane], c[lane], &ok);
        /* what a lane that is not here has is not known: its own */
        out[lane] = a[mask >> j & 1 ? j : lane];
        in_range |= (uint32_t)ok << lane;
    }
    dst = px_write(w, in->dst, mask);
    for (left = mask; left; left &= left - 1)
        dst[px_first(left)] = out[px_first(left)];
    if (in->dst2.row != PX_NO_ROW)
        px_set_pred(w, in->dst2, mask, in_range);
}

/* ---- votes ---- */

static void
give_word(struct px_warp *w, struct px_ref ref, uint32_t mask,
          const px_row values)
{
    uint32_t *dst = px_write(w, ref, mask), left;

    for (left = mask; left; left &= left - 1)
        dst[px_first(left)] = values[px_first(left)];
}

/* Each lane votes among those that its mask names. */
static void
do_vote(struct px_run *r, struct px_warp *w, const struct px_insn *in,
        uint32_t mask)
{
    const uint32_t *p = px_read(r, w, in, in->src[0], mask);
    const uint32_t *members = px_read(r, w, in, in->src[3], mask);
    uint32_t left, lane, yes, all, said = 0;
    px_row ballots;

    assert(in->op == PX_VOTE);
    if (!p || !members)
        return;
    yes = mask & (in->src2_negated ? ~*p : *p);
    for (left = mask; left; left &= left - 1) {
        lane = px_first(left);
        all = members[lane] & mask;
        ballots[lane] = yes & all;
        switch (in->mod[PX_MOD_MODE]) {
        case PX_VOTE_ALL:
            said |= (uint32_t)((yes & all) == all) << lane;
            break;
        case PX_VOTE_ANY:
            said |= (uint32_t)((yes & all) != 0) << lane;
            break;
        default:
            said |= (uint32_t)((yes & all) == all || (yes & all) == 0) << lane;
            break;
        }
    }
    if (in->mod[PX_MOD_MODE] == PX_VOTE_BALLOT)
        give_word(w, in->dst, mask, ballots);
    else
        px_set_pred(w, in->dst, mask, said);
}

static void
do_match(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         uint32_t mask)
{
    const void *a = px_read(r, w, in, in->src[0], mask);
    const uint32_t *members = px_read(r, w, in, in->src[3], mask);
    bool all = in->mod[PX_MOD_MODE] == PX_VOTE_ALL;
    unsigned bits = in->src[0].bits;
    uint32_t lane, i, same, said = 0;
    px_row out = {0};

    assert(in->op == PX_MATCH);
    if (!a || !members)
        return;
    for (lane = 0; lane < PX_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        for (same = 0, i = 0; i < PX_LANES; i++) {
            if (members[lane] & mask & 1u << i &&
                px_get(a, bits, i) == px_get(a, bits, lane))
                same |= 1u << i;
        }
        if (all && same != (members[lane] & mask))
            same = 0;
        out[lane] = same;
        said |= (uint32_t)(same != 0) << lane;
    }
    give_word(w, in->dst, mask, out);
    if (in->dst2.row != PX_NO_ROW)
        px_set_pred(w, in->dst2, mask, said);
}

static void
do_redux(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         uint32_t mask)
{
    const uint32_t *a = px_read(r, w, in, in->src[0], mask);
    const uint32_t *members = px_read(r, w, in, in->src[3], mask);
    uint32_t lane, left, of;
    uint64_t sum;
    px_row out = {0};

    assert(in->op == PX_REDUX);
    if (!a || !members)
        return;
    for (lane = 0; lane < PX_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        of = members[lane] & mask;
        sum = a[px_first(of)];
        for (left = of & (of - 1); left; left &= left - 1)
            sum = px_eval_atom(in, sum, a[px_first(left)], 0);
        out[lane] = (uint32_t)sum;
    }
    give_word(w, in->dst, mask, out);
}

static void
do_activemask(struct px_warp *w, const struct px_insn *in, uint32_t mask)
{
    px_row out;
    uint32_t lane;

    for (lane = 0; lane < PX_LANES; lane++)
        out[lane] = mask;
    give_word(w, in->dst, mask, out);
}

void
px_do_collective(struct px_run *r, struct px_warp *w, const struct px_insn *in,
                 uint32_t mask)
{
    assert(mask);
    if (r->failed)
        return;
    switch (in->op) {
    case PX_SHFL:
        do_shuffle(r, w, in, mask);
        break;
    case PX_VOTE:
        do_vote(r, w, in, mask);
        break;
    case PX_MATCH:
        do_match(r, w, in, mask);
        break;
    case PX_REDUX:
        do_redux(r, w, in, mask);
        break;
    case PX_ACTIVEMASK:
        do_activemask(w, in, mask);
        break;
    case PX_WARPSYNC:
        break;
    case PX_WGMMA:
    case PX_WGMMA_FENCE:
    case PX_WGMMA_COMMIT:
    case PX_WGMMA_AWAIT:
        px_do_wgmma(r, w, in);
        break;
    default:
        px_do_matrix(r, w, in);
        break;
    }
}
