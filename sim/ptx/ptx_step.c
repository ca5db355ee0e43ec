/* Instructions that lanes do each by itself, memory aside. */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>

#include "base/thread.h"
#include "sim/ptx/ptx_rows.h"

#define WINDOW_BYTES ((uint64_t)1 << 24)

/* ---- arithmetic ---- */

static void
lane_by_lane(const struct px_insn *in, const void *const s[4], void *dst,
             uint32_t mask)
{
    uint64_t v[4] = {0, 0, 0, 0};
    uint32_t left, lane, i;

    assert(mask);
    for (left = mask; left; left &= left - 1) {
        lane = px_first(left);
        for (i = 0; i < in->n_src; i++)
            v[i] = px_get(s[i], in->src[i].bits, lane);
        px_set(dst, in->dst.bits, lane, px_eval(in, v));
    }
}

static void
do_plain(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         uint32_t mask)
{
    const void *s[4] = {NULL, NULL, NULL, NULL};
    uint32_t i;

    for (i = 0; i < in->n_src; i++) {
        s[i] = px_read(r, w, in, in->src[i], mask);
        if (!s[i])
            return;
    }
    lane_by_lane(in, s, px_write(w, in->dst, mask), mask);
}

void
px_do_rows(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           uint32_t mask)
{
    const void *a = px_read(r, w, in, in->src[0], mask), *b = a, *c = a;
    uint64_t scratch[PX_LANES];
    void *dst;

    assert(in->rows);
    if (in->n_src > 1)
        b = px_read(r, w, in, in->src[1], mask);
    if (in->n_src > 2)
        c = px_read(r, w, in, in->src[2], mask);
    if (!a || !b || !c)
        return;
    dst = px_write(w, in->dst, mask);
    if (mask == PX_FULL) {
        in->rows(dst, a, b, c);
    } else {
        in->rows(scratch, a, b, c);
        px_blend(dst, scratch, mask, in->dst.bits == 64);
    }
}

/* ---- predicates ---- */

static void
do_logic(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         uint32_t mask)
{
    const uint32_t *a = px_read(r, w, in, in->src[0], mask), *b = a;
    uint32_t v;

    assert(mask);
    if (a && in->n_src > 1)
        b = px_read(r, w, in, in->src[1], mask);
    if (!a || !b)
        return;
    switch (in->op) {
    case PX_AND:
        v = *a & *b;
        break;
    case PX_OR:
        v = *a | *b;
        break;
    case PX_XOR:
        v = *a ^ *b;
        break;
    case PX_NOT:
        v = ~*a;
        break;
    default:
        v = *a;
        break;
    }
    px_set_pred(w, in->dst, mask, v);
}

/* The comparison in each lane; of pairs, of the half at `shift`. */
static uint32_t
compare_lanes(const struct px_insn *in, const void *a, const void *b,
              uint32_t mask, bool is_pair, unsigned shift)
{
    uint32_t r = 0, left, lane;
    uint64_t x, y;

    if (in->test)
        return in->test(a, b);
    for (left = mask; left; left &= left - 1) {
        lane = px_first(left);
        x = px_get(a, in->src[0].bits, lane);
        y = b ? px_get(b, in->src[1].bits, lane) : 0;
        if (is_pair) {
            x = x >> shift & 0xffff;
            y = y >> shift & 0xffff;
        }
        r |= (uint32_t)px_eval_test(in, x, y) << lane;
    }
    return r;
}

/* The result joined with the other predicate. */
static uint32_t
joined(const struct px_insn *in, uint32_t p, uint32_t other)
{
    switch (in->mod[PX_MOD_BOOL]) {
    case PX_ATOM_AND:
        return p & other;
    case PX_ATOM_OR:
        return p | other;
    case PX_ATOM_XOR:
        return p ^ other;
    default:
        return p;
    }
}

static void
give_set(struct px_warp *w, const struct px_insn *in, uint32_t mask, uint32_t p)
{
    uint32_t one = in->type == PX_F32 ? 0x3f800000u : UINT32_MAX, left, lane;
    uint32_t *dst = px_write(w, in->dst, mask);

    for (left = mask; left; left &= left - 1) {
        lane = px_first(left);
        dst[lane] = p >> lane & 1 ? one : 0;
    }
}

static void
do_compare(struct px_run *r, struct px_warp *w, const struct px_insn *in,
           uint32_t mask)
{
    const void *a = px_read(r, w, in, in->src[0], mask), *b = NULL;
    const uint32_t *c;
    uint32_t p, q, other = 0;
    bool pair = in->op == PX_SETP && px_types[in->type].kind == 'x';

    if (a && in->op != PX_TESTP)
        b = px_read(r, w, in, in->src[1], mask);
    if (!a || (!b && in->op != PX_TESTP))
        return;
    if (in->mod[PX_MOD_BOOL]) {
        c = px_read(r, w, in, in->src[2], mask);
        if (!c)
            return;
        other = in->src2_negated ? ~*c : *c;
    }
    p = compare_lanes(in, a, b, mask, pair, 0);
    q = pair ? compare_lanes(in, a, b, mask, pair, 16) : ~p;
    p = joined(in, p, other);
    if (in->op == PX_SET) {
        give_set(w, in, mask, p);
        return;
    }
    px_set_pred(w, in->dst, mask, p);
    if (in->dst2.row != PX_NO_ROW)
        px_set_pred(w, in->dst2, mask, joined(in, q, other));
}

/* ---- addresses ---- */

static void
do_cvta(struct px_run *r, struct px_warp *w, const struct px_insn *in,
        uint32_t mask)
{
    const void *src = px_read(r, w, in, in->src[0], mask);
    uint64_t window = 0, v;
    uint32_t left, lane;
    void *dst;

    assert(in->op == PX_CVTA);
    if (!src)
        return;
    if (in->mod[PX_MOD_SPACE] == PX_SHARED)
        window = r->launch->shared_window_va;
    else if (in->mod[PX_MOD_SPACE] == PX_LOCAL)
        window = r->launch->local_window_va;
    dst = px_write(w, in->dst, mask);
    for (left = mask; left; left &= left - 1) {
        lane = px_first(left);
        v = px_get(src, in->src[0].bits, lane);
        px_set(dst, in->dst.bits, lane,
               in->mod[PX_MOD_TO] ? v - window : v + window);
    }
}

static void
do_isspacep(struct px_run *r, struct px_warp *w, const struct px_insn *in,
            uint32_t mask)
{
    const uint64_t *src = px_read(r, w, in, in->src[0], mask);
    const struct sim_ptx_launch *l = r->launch;
    uint32_t p = 0, lane;

    assert(in->op == PX_ISSPACEP);
    if (!src)
        return;
    for (lane = 0; lane < PX_LANES; lane++) {
        bool shared = l->shared_window_va &&
                      src[lane] - l->shared_window_va < WINDOW_BYTES;
        bool local =
            l->local_window_va && src[lane] - l->local_window_va < WINDOW_BYTES;
        bool is = in->mod[PX_MOD_SPACE] == PX_SHARED   ? shared
                  : in->mod[PX_MOD_SPACE] == PX_LOCAL  ? local
                  : in->mod[PX_MOD_SPACE] == PX_GLOBAL ? !shared && !local
                                                       : false;
        p |= (uint32_t)is << lane;
    }
    px_set_pred(w, in->dst, mask, p);
}

/* ---- moves ---- */

static void
do_clock(struct px_run *r, struct px_warp *w, const struct px_insn *in,
         uint32_t mask)
{
    const struct sim_ptx_launch *l = r->launch;
    uint64_t v = r->report->n_warp_steps;
    void *dst = px_write(w, in->dst, mask);
    uint32_t left;

    assert(in->op == PX_CLOCK);
    if (in->offset >= PX_TIMER_LO)
        v = l->time_ns ? l->time_ns(l->mem.user) : time_now_ns();
    if (in->offset == PX_CLOCK_HI || in->offset == PX_TIMER_HI)
        v >>= 32;
    for (left = mask; left; left &= left - 1)
        px_set(dst, in->dst.bits, px_first(left), v);
}

/* mov between a register and its parts. */
static void
do_pack(struct px_run *r, struct px_warp *w, const struct px_insn *in,
        uint32_t mask)
{
    const struct px_ref *parts = px_operands(r, in);
    unsigned bits = px_types[in->type].bits / in->n_vec;
    uint64_t v[PX_LANES] = {0};
    uint32_t left, lane, i;
    void *dst;

    assert(in->op == PX_PACK);
    for (i = 0; i < in->n_vec; i++) {
        const uint32_t *s = px_read(r, w, in, parts[i], mask);
        if (!s)
            return;
        for (lane = 0; lane < PX_LANES; lane++)
            v[lane] |= (s[lane] & px_mask(bits)) << i * bits;
    }
    dst = px_write(w, in->dst, mask);
    for (left = mask; left; left &= left - 1) {
        lane = px_first(left);
        px_set(dst, in->dst.bits, lane, v[lane]);
    }
}

static void
do_unpack(struct px_run *r, struct px_warp *w, const struct px_insn *in,
          uint32_t mask)
{
    const struct px_ref *parts = px_operands(r, in);
    const void *src = px_read(r, w, in, in->src[0], mask);
    unsigned bits = px_types[in->type].bits / in->n_vec;
    uint64_t v[PX_LANES];
    uint32_t left, lane, i;

    assert(in->op == PX_UNPACK);
    if (!src)
        return;
    /* a part may be the source */
    for (lane = 0; lane < PX_LANES; lane++)
        v[lane] = px_get(src, in->src[0].bits, lane);
    for (i = 0; i < in->n_vec; i++) {
        uint32_t *dst = px_write(w, parts[i], mask);
        for (left = mask; left; left &= left - 1) {
            lane = px_first(left);
            dst[lane] = (uint32_t)(v[lane] >> i * bits & px_mask(bits));
        }
    }
}

/* ---- */

static void
do_arithmetic(struct px_run *r, struct px_warp *w, const struct px_insn *in,
              uint32_t mask)
{
    if (in->type == PX_PRED)
        do_logic(r, w, in, mask);
    else
        do_plain(r, w, in, mask);
}

void
px_do(struct px_run *r, struct px_warp *w, const struct px_insn *in,
      uint32_t mask)
{
    assert(mask);
    switch (in->op) {
    case PX_LD:
    case PX_ST:
    case PX_ATOM:
    case PX_RED:
        px_access(r, w, in, mask);
        break;
    case PX_TEAM:
        px_do_team(r, w, in, mask);
        break;
    case PX_SETP:
    case PX_SET:
    case PX_TESTP:
        do_compare(r, w, in, mask);
        break;
    case PX_PACK:
        do_pack(r, w, in, mask);
        break;
    case PX_UNPACK:
        do_unpack(r, w, in, mask);
        break;
    case PX_CLOCK:
        do_clock(r, w, in, mask);
        break;
    case PX_CVTA:
        do_cvta(r, w, in, mask);
        break;
    case PX_ISSPACEP:
        do_isspacep(r, w, in, mask);
        break;
    case PX_COPY:
    case PX_COMMIT:
    case PX_AWAIT:
        px_do_async(r, w, in, mask);
        break;
    case PX_MBAR_INIT:
    case PX_MBAR_EXPECT:
    case PX_MBAR_ARRIVE:
    case PX_MBAR_WAIT:
    case PX_MBAR_FENCE:
    case PX_BOX:
        px_do_bulk(r, w, in, mask);
        break;
    case PX_PROXY_FENCE:
        px_proxy_fence(r, w);
        break;
    case PX_FENCE:
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        break;
    case PX_PREFETCH: /* only tells caches */
    case PX_NANOSLEEP:
        break;
    default:
        do_arithmetic(r, w, in, mask);
        break;
    }
}
