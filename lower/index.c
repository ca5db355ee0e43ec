/* Index arithmetic, before the program is put in order: how wide it is, and
 * what accesses share.
 *
 * Up to here indices are I64. Where the target wants narrow ones, an I64 that
 * is known to fit is made as an I32 if all I64 that it is made of are so too;
 * what needs it in 64 bits gets a CAST of it. Elsewhere vectors alone are made
 * so: a vector has twice as many of them.
 *
 * An access to element x + c is made one to element c of INDEX(memory, x), so
 * that all accesses that differ by constants have one address, which is in the
 * program once. INDEX also says what is known of x. Where lanes lie anywhere, x
 * is the part that they share: it is known before the loops, and the rest does
 * not change as they go on.
 */
#include "lower/index.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/bits.h"

/* Constants up to here, times 8, are offsets in any instruction. */
#define MAX_OFFSET (INT64_C(1) << 27)
#define MAX_ALIGN  (UINT32_C(1) << 16)

#define MAX_SUM_DEPTH 8 /* of an index of lanes */

struct indexer {
    struct uop_graph *g;
    bool narrow;
    const struct uop **to; /* by id: what is in a node's place */
    uint64_t *align;       /* by id, of I64: see lowest_bit */
    const struct uop **src;
};

/* ---- what divides an index ---- */

static uint64_t
align_of_product(uint64_t a, uint64_t b)
{
    uint64_t both = a * b;

    return a && b && !both ? (uint64_t)1 << 32 : both;
}

static uint64_t
find_align(const struct indexer *x, const struct uop *u)
{
    struct uop_bounds b = uop_bounds(x->g, u);
    uint64_t src[3] = {1, 1, 1}, r;
    uint32_t i;

    if (b.min == b.max)
        return lowest_bit((uint64_t)b.min);
    for (i = 0; i < u->n_src && i < 3; i++)
        src[i] = x->align[u->src[i]->id];
    switch (u->op) {
    case UOP_BROADCAST:
    case UOP_LANE:
    case UOP_NEG:
        return src[0];
    case UOP_LANES:
        for (r = src[0], i = 1; i < u->n_src; i++)
            r = least_align(r, x->align[u->src[i]->id]);
        return r;
    case UOP_MUL:
        return align_of_product(src[0], src[1]);
    case UOP_MULACC:
        return least_align(align_of_product(src[0], src[1]), src[2]);
    case UOP_SHL:
        b = uop_bounds(x->g, u->src[1]);
        return b.min < 0
                   ? 1
                   : align_of_product(src[0], (uint64_t)1 << (b.min & 63));
    case UOP_WHERE:
        return least_align(src[1], src[2]);
    case UOP_AND:
        return src[0] > src[1] ? src[0] : src[1];
    case UOP_ADD:
    case UOP_SUB:
    case UOP_IMOD:
    case UOP_OR:
    case UOP_XOR:
    case UOP_MAX:
    case UOP_MIN:
        return least_align(src[0], src[1]);
    default:
        return 1;
    }
}

/* ---- how wide it is ---- */

static bool
is_narrow(const struct indexer *x, const struct uop *u)
{
    return u->dtype == UOP_I64 && x->to[u->id]->dtype == UOP_I32;
}

static bool
fits_i32(const struct indexer *x, const struct uop *u)
{
    struct uop_bounds b = uop_bounds(x->g, u);

    return b.min >= INT32_MIN && b.max <= INT32_MAX;
}

/* Whether an op gives the same in 32 bits. */
static bool
can_narrow(const struct indexer *x, const struct uop *u)
{
    struct uop_bounds b;
    uint32_t i;

    if ((!x->narrow && u->lanes == 1) ||
        (u->dtype == UOP_I64 && !fits_i32(x, u)))
        return false;
    if (u->op == UOP_BROADCAST && !x->narrow)
        return u->dtype == UOP_I64;
    for (i = 0; i < u->n_src; i++) {
        if (u->src[i]->dtype == UOP_I64 && !is_narrow(x, u->src[i]))
            return false;
    }
    switch (u->op) {
    case UOP_CAST:
        return !uop_is_float(u->src[0]) && u->src[0]->dtype != UOP_U64;
    case UOP_SHL:
    case UOP_SHR:
        b = uop_bounds(x->g, u->src[1]);
        return b.min >= 0 && b.max <= 31;
    case UOP_IDIV:
    case UOP_IMOD:
        return uop_bounds(x->g, u->src[0]).min >= 0 &&
               uop_bounds(x->g, u->src[1]).min >= 0;
    case UOP_CONST:
    case UOP_VAR:
    case UOP_RANGE:
    case UOP_SPECIAL:
    case UOP_BROADCAST:
    case UOP_LANES:
    case UOP_LANE:
    case UOP_RAMP:
        return true;
    default:
        return uop_has(u, UOP_FLAG_ALU);
    }
}

/* In 32 bits, of a scalar in 64. */
static const struct uop *
narrow_scalar(struct indexer *x, const struct uop *u)
{
    union uop_arg none = {.bits = 0};

    if (u->op == UOP_CONST)
        return uop_const_int(x->g, UOP_I32, u->arg.i);
    return uop_new(x->g, UOP_CAST, UOP_I32, 1, none, &u, 1);
}

/* A source in 64 bits. */
static const struct uop *
widen_index(struct indexer *x, const struct uop *u)
{
    union uop_arg none = {.bits = 0};
    const struct uop *to = x->to[u->id];

    if (!is_narrow(x, u))
        return to;
    if (u->op == UOP_CONST || u->op == UOP_RAMP ||
        (u->op == UOP_BROADCAST && u->src[0]->op == UOP_CONST))
        return u;
    return uop_new(x->g, UOP_CAST, UOP_I64, u->lanes, none, &to, 1);
}

/* Whether an op takes src[i] for the loop that it is, not for its value. */
static bool
is_index_loop(const struct uop *u, uint32_t i)
{
    assert(i < u->n_src);
    if (u->src[i]->op != UOP_RANGE)
        return false;
    return u->op == UOP_END || u->op == UOP_BARRIER || u->op == UOP_COMMIT ||
           u->op == UOP_PINGPONG || u->op == UOP_PINGPONG_END ||
           u->op == UOP_WGMMA_WAIT ||
           ((u->op == UOP_ACC || u->op == UOP_ACC_GET) && i > 0);
}

/* ---- what accesses share ---- */

/* Splits a scalar into *out_base, NULL for 0, and a constant. */
static int64_t
split_index_sum(const struct indexer *x, const struct uop *memory,
                const struct uop *u, const struct uop **out_base)
{
    const struct uop *c = u->op == UOP_ADD ? u->src[1] : u;

    assert(uop_dtype_infos[u->dtype].is_int);
    *out_base = u;
    if (c->op != UOP_CONST || c->arg.i > MAX_OFFSET || c->arg.i < -MAX_OFFSET)
        return 0;
    /* nobody says what 32-bit addresses below 0 plus a constant are */
    if (u != c && memory->op == UOP_LOCAL &&
        uop_bounds(x->g, u->src[0]).min < 0)
        return 0;
    *out_base = u == c ? NULL : u->src[0];
    return c->arg.i;
}

/* INDEX(memory, base) under the AFTERs of `u`; `base` is rebuilt. */
static const struct uop *
displace_index(struct indexer *x, const struct uop *u, const struct uop *base,
               uint64_t align)
{
    const struct uop *memory = x->to[u->id], *src[2] = {memory, base}, **after;
    struct uop_bounds b;

    if (u->op != UOP_AFTER) {
        b = uop_bounds(x->g, base);
        align = align && align < MAX_ALIGN ? align : MAX_ALIGN;
        return uop_new(
            x->g, UOP_INDEX, u->dtype, 1,
            (union uop_arg){
                .i = uop_index_arg((uint32_t)align,
                                   b.min >= 0 && b.max <= INT32_MAX / 8)},
            src, 2);
    }
    after =
        arena_copy(&x->g->arena, memory->src, memory->n_src * sizeof(*after));
    if (!after || !memory->n_src)
        return &uop_failed;
    after[0] = displace_index(x, u->src[0], base, align);
    return uop_new(x->g, UOP_AFTER, u->dtype, 1, memory->arg, after,
                   memory->n_src);
}

/* An index of many lanes, rebuilt: what they share, and what is each one's, or
 * NULL. */
struct lanes_sum {
    const struct uop *shared, *own;
};

static const struct uop *
add_own(struct indexer *x, const struct uop *a, const struct uop *b)
{
    union uop_arg none = {.bits = 0};
    const struct uop *src[2] = {a, b};
    enum uop_dtype dtype = UOP_I32;
    struct uop_bounds p, q;
    uint32_t i;

    if (!a || !b)
        return a ? a : b;
    p = uop_bounds(x->g, a);
    q = uop_bounds(x->g, b);
    if (a->dtype != UOP_I32 || b->dtype != UOP_I32 ||
        p.min + q.min < INT32_MIN || p.max + q.max > INT32_MAX)
        dtype = UOP_I64;
    for (i = 0; i < 2; i++) {
        if (src[i]->dtype != dtype)
            src[i] = uop_new(x->g, UOP_CAST, dtype, a->lanes, none, &src[i], 1);
    }
    return uop_new(x->g, UOP_ADD, dtype, a->lanes, none, src, 2);
}

static struct lanes_sum
split_lanes(struct indexer *x, const struct uop *u, uint32_t depth)
{
    struct lanes_sum sum = {.own = x->to[u->id]}, a, b;

    if (u->op == UOP_BROADCAST) {
        sum.shared = x->to[u->src[0]->id];
        sum.own = NULL;
    } else if (u->op == UOP_ADD && depth < MAX_SUM_DEPTH) {
        a = split_lanes(x, u->src[0], depth + 1);
        b = split_lanes(x, u->src[1], depth + 1);
        if (!a.shared && !b.shared)
            return sum;
        sum.own = add_own(x, a.own, b.own);
        sum.shared = a.shared && b.shared
                         ? uop_alu2(x->g, UOP_ADD, a.shared, b.shared)
                     : a.shared ? a.shared
                                : b.shared;
    }
    return sum;
}

/* Memory src[0], and its index src[1], of lanes that lie anywhere. */
static void
rebuild_gather(struct indexer *x, const struct uop *const *old,
               const struct uop **src)
{
    struct lanes_sum sum = split_lanes(x, old[1], 0);

    if (!sum.shared || !sum.own)
        return;
    src[0] = displace_index(x, old[0], sum.shared, 1);
    src[1] = sum.own;
}

/* Memory src[0], and its index src[1]. */
static void
rebuild_pair(struct indexer *x, const struct uop *const *old,
             const struct uop **src)
{
    const struct uop *index = old[1], *base = NULL, *memory;
    enum uop_dtype dtype = x->narrow ? UOP_I32 : UOP_I64;
    bool is_sum = index->op == UOP_ADD && index->lanes > 1;
    const struct uop *first = is_sum ? index->src[0] : index;
    const struct uop *rest = is_sum ? index->src[1] : NULL;
    union uop_arg none = {.bits = 0};
    int64_t c, step;

    src[0] = x->to[old[0]->id];
    src[1] = x->to[index->id];
    if (index->lanes > 1 && (first->op != UOP_BROADCAST ||
                             (rest && !uop_index_steps(rest, &c, &step)))) {
        if (!x->narrow)
            rebuild_gather(x, old, src);
        return;
    }
    memory = uop_memory(old[0]);
    c = split_index_sum(x, memory, index->lanes > 1 ? first->src[0] : index,
                        &base);
    if (base)
        src[0] = displace_index(x, old[0], x->to[base->id], x->align[base->id]);
    if (rest) {
        rest = x->to[rest->id];
        dtype = rest->dtype;
    }
    src[1] = uop_const_int(x->g, dtype, c);
    if (index->lanes > 1 && (!rest || c))
        src[1] =
            uop_new(x->g, UOP_BROADCAST, dtype, index->lanes, none, &src[1], 1);
    if (rest) {
        src[1] = c ? uop_new(x->g, UOP_ADD, dtype, index->lanes, none,
                             (const struct uop *[]){src[1], rest}, 2)
                   : rest;
    }
}

/* ---- the pass ---- */

/* A node that is not I64, and is not made of any, is made again of what its
 * sources have become. */
static bool
rebuild_other(struct indexer *x, const struct uop *u, const struct uop **out)
{
    bool changed = false;
    uint32_t i;

    if (u->dtype == UOP_I64)
        return false;
    for (i = 0; i < u->n_src; i++) {
        if (u->src[i]->dtype == UOP_I64)
            return false;
        x->src[i] = x->to[u->src[i]->id];
        changed |= x->src[i] != u->src[i];
    }
    *out = changed ? uop_new(x->g, u->op, u->dtype, u->lanes, u->arg, x->src,
                             u->n_src)
                   : u;
    return true;
}

static const struct uop *
rebuild_index(struct indexer *x, const struct uop *u)
{
    bool narrow = can_narrow(x, u), changed = false;
    const struct uop **src = x->src;
    enum uop_dtype dtype = u->dtype;
    uint32_t i;

    if (narrow && dtype == UOP_I64)
        dtype = UOP_I32;
    if (u->op == UOP_CONST)
        return dtype == u->dtype
                   ? u
                   : uop_new(x->g, u->op, dtype, 1, u->arg, NULL, 0);
    if (u->op == UOP_VAR)
        return dtype == UOP_I64 ? u
                                : uop_new(x->g, UOP_CAST, dtype, 1,
                                          (union uop_arg){.bits = 0}, &u, 1);
    for (i = 0; i < u->n_src; i++) {
        if (u->op != UOP_AFTER && i + 1 < u->n_src &&
            u->src[i + 1]->dtype == UOP_I64 && uop_is_memory(u->src[i])) {
            rebuild_pair(x, &u->src[i], &src[i]);
            changed |= src[i] != u->src[i];
            i++;
        } else {
            src[i] = narrow || is_index_loop(u, i) ? x->to[u->src[i]->id]
                                                   : widen_index(x, u->src[i]);
            if (narrow && u->op == UOP_BROADCAST && src[i]->dtype == UOP_I64)
                src[i] = narrow_scalar(x, src[i]);
        }
        changed |= src[i] != u->src[i];
    }
    if (u->op == UOP_CAST && src[0]->dtype == dtype)
        return src[0];
    if (!changed && dtype == u->dtype)
        return u;
    return uop_new(x->g, u->op, dtype, u->lanes, u->arg, src, u->n_src);
}

bell_status
lower_index(struct uop_graph *g, const struct uop **roots, size_t n_roots,
            const struct lower_target *target)
{
    struct indexer x = {.g = g, .narrow = target->narrow_index};
    const struct uop **list;
    uint32_t max_src = 1;
    size_t n_ids, n, i;

    assert(n_roots > 0 && target);
    BELL_TRY(uop_toposort(g, roots, n_roots, &list, &n));
    n_ids = n ? (size_t)list[n - 1]->id + 1 : 1;
    for (i = 0; i < n; i++)
        max_src = list[i]->n_src > max_src ? list[i]->n_src : max_src;
    x.to = host_alloc(n_ids * sizeof(*x.to));
    x.align = host_alloc(n_ids * sizeof(*x.align));
    x.src = host_alloc(max_src * sizeof(*x.src));
    for (i = 0; i < n && x.to && x.align && x.src; i++) {
        const struct uop *u = list[i], **to = &x.to[u->id];
        x.align[u->id] = u->dtype == UOP_I64 ? find_align(&x, u) : 1;
        if (!rebuild_other(&x, u, to))
            *to = rebuild_index(&x, u);
    }
    g->failed |= !x.to || !x.align || !x.src;
    for (i = 0; i < n_roots && !g->failed; i++)
        roots[i] = x.to[roots[i]->id];
    host_free(x.src);
    host_free(x.align);
    host_free(x.to);
    host_free(list);
    return uop_graph_status(g);
}
