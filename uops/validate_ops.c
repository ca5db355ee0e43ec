/* What each op demands of its dtype, lanes, arg and sources. */
#include "uops/validate.h"

#include <math.h>

#include "base/bits.h"
#include "uops/dim.h"
#include "uops/wmma.h"

#define SAME_DTYPE 1u /* as the node */
#define SAME_LANES 2u

static bell_status
check_like(const struct uop *u, uint32_t i, unsigned what)
{
    const struct uop *s = u->src[i];

    if ((what & SAME_DTYPE) && s->dtype != u->dtype)
        return uop_bad(u, "source %u is %s", i,
                       uop_dtype_infos[s->dtype].short_name);
    if ((what & SAME_LANES) && s->lanes != u->lanes)
        return uop_bad(u, "source %u has %u lanes", i, s->lanes);
    return BELL_OK;
}

static bell_status
check_dtype(const struct uop *u, uint32_t i, enum uop_dtype dtype)
{
    if (u->src[i]->dtype != dtype)
        return uop_bad(u, "source %u is %s, not %s", i,
                       uop_dtype_infos[u->src[i]->dtype].short_name,
                       uop_dtype_infos[dtype].short_name);
    return BELL_OK;
}

static bell_status
check_scalar(const struct uop *u)
{
    if (u->lanes != 1)
        return uop_bad(u, "has %u lanes", u->lanes);
    return BELL_OK;
}

static bell_status
check_value(const struct uop *u)
{
    if (u->dtype == UOP_VOID)
        return uop_bad(u, "is a value and has no dtype");
    return BELL_OK;
}

/* Sources from `first` on are effects. */
static bell_status
check_effects(const struct uop *u, uint32_t first)
{
    uint32_t i;

    for (i = first; i < u->n_src; i++) {
        if (!uop_has(u->src[i], UOP_FLAG_EFFECT))
            return uop_bad(u, "source %u is not an effect", i);
    }
    return BELL_OK;
}

static bool
is_reduction(int64_t op)
{
    switch (op) {
    case UOP_ADD:
    case UOP_MUL:
    case UOP_MAX:
    case UOP_MIN:
    case UOP_AND:
    case UOP_OR:
    case UOP_XOR:
        return true;
    default:
        return false;
    }
}

/* Tensor graphs: elementwise sources have one shape, or are constants, which
 * have none, or VARs. */
static bell_status
check_shapes(const struct uop_graph *g, const struct uop *u)
{
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        if (u->src[i]->op != UOP_CONST && u->src[i]->op != UOP_VAR &&
            uop_shape(g, u->src[i]) != uop_shape(g, u))
            return uop_bad(u, "source %u has another shape", i);
    }
    return BELL_OK;
}

static bell_status
check_alu(const struct uop_graph *g, const struct uop *u, enum uop_stage stage)
{
    const struct uop_op_info *info = &uop_op_infos[u->op];
    bool is_cmp = info->flags & UOP_FLAG_CMP;
    uint32_t i;

    BELL_TRY(check_value(u));
    for (i = 0; i < u->n_src; i++) {
        const struct uop *s = u->src[i];
        BELL_TRY(check_like(u, i, SAME_LANES));
        if (u->op == UOP_WHERE && i == 0)
            BELL_TRY(check_dtype(u, 0, UOP_BOOL));
        else if (is_cmp)
            BELL_TRY(check_dtype(u, i, u->src[0]->dtype));
        else
            BELL_TRY(check_like(u, i, SAME_DTYPE));
        if (s->dtype == UOP_VOID)
            return uop_bad(u, "source %u has no value", i);
        if ((info->flags & UOP_FLAG_FLT) && !uop_is_float(s))
            return uop_bad(u, "is for floats only");
        if ((info->flags & UOP_FLAG_INT) && uop_is_float(s))
            return uop_bad(u, "is for integers only");
    }
    if (is_cmp && u->dtype != UOP_BOOL)
        return uop_bad(u, "a comparison is bool");
    if (stage == UOP_STAGE_T)
        BELL_TRY(check_shapes(g, u));
    return BELL_OK;
}

static bell_status
check_conversion(const struct uop_graph *g, const struct uop *u,
                 enum uop_stage stage)
{
    const struct uop *s = u->src[0];

    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_LANES));
    if (s->dtype == UOP_VOID)
        return uop_bad(u, "source 0 has no value");
    if (u->op == UOP_BITCAST && uop_dtype_infos[s->dtype].size_bytes !=
                                    uop_dtype_infos[u->dtype].size_bytes)
        return uop_bad(u, "source 0 has another size");
    return stage == UOP_STAGE_T ? check_shapes(g, u) : BELL_OK;
}

static bell_status
check_const(const struct uop *u)
{
    enum uop_dtype dtype = u->dtype;

    BELL_TRY(check_value(u));
    BELL_TRY(check_scalar(u));
    if (uop_is_float(u)
            ? !isnan(u->arg.f) && uop_round_float(dtype, u->arg.f) != u->arg.f
            : uop_wrap_int(dtype, u->arg.i) != u->arg.i)
        return uop_bad(u, "is not a value of its dtype");
    return BELL_OK;
}

/* ---- tensor graph ---- */

static bool
is_negative(const struct uop_graph *g, int64_t d)
{
    return g->sizes ? dim_at_most(g->sizes, 0, d) != DIM_ALWAYS : d < 0;
}

static bool
product_of(const struct uop_graph *g, const struct uop_dims *dims, int64_t *out)
{
    uint32_t i;

    *out = 1;
    for (i = 0; i < dims->n; i++) {
        if (is_negative(g, dims->d[i]))
            return false;
        if (g->sizes)
            *out = dim_mul(g->sizes, *out, dims->d[i]);
        else if (__builtin_mul_overflow(*out, dims->d[i], out))
            return false;
    }
    return true;
}

/* The order must name every axis once: a set of bits is enough, there are at
 * most 64. */
static bool
is_permuted(const struct uop_dims *from, const struct uop_dims *to,
            const struct uop_dims *order)
{
    uint64_t seen = 0;
    uint32_t i;

    if (order->n != from->n || to->n != from->n || from->n > 64)
        return false;
    for (i = 0; i < order->n; i++) {
        int64_t axis = order->d[i];
        if (axis < 0 || axis >= from->n || (seen >> axis & 1) ||
            to->d[i] != from->d[axis])
            return false;
        seen |= (uint64_t)1 << axis;
    }
    return true;
}

/* Dimension i of a PAD or SHRINK from a dimension of `from` elements; -1 where
 * the pair (a, b) makes no sense. */
static int64_t
cut_dim(const struct uop_graph *g, enum uop_op op, int64_t from, int64_t a,
        int64_t b)
{
    struct dim_table *t = g->sizes;
    int64_t sum;

    if (t && op == UOP_SHRINK)
        return is_negative(g, a) || dim_at_most(t, a, b) == DIM_NEVER ||
                       dim_at_most(t, b, from) == DIM_NEVER
                   ? -1
                   : dim_sub(t, b, a);
    if (t)
        return is_negative(g, a) || is_negative(g, b)
                   ? -1
                   : dim_add(t, dim_add(t, a, b), from);
    if (op == UOP_SHRINK)
        return a < 0 || a > b || b > from ? -1 : b - a;
    if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ||
        __builtin_add_overflow(sum, from, &sum))
        return -1;
    return sum;
}

/* A range that a VAR moves begins at the front, where it is when the VAR is
 * 0. */
static bool
is_moved_right(const int64_t var[2], const int64_t pair[2])
{
    return var[0] >= 0 && (var[0] == 0 || (var[1] > 0 && pair[0] == 0));
}

/* Movement ops carry their arguments as numbers; the shape of the result must
 * be the one that they make of the source's. */
static bool
moves_rightly(const struct uop_graph *g, const struct uop *u,
              const struct uop_dims *from, const struct uop_dims *to)
{
    const struct uop_dims *arg = u->arg.dims;
    int64_t n_from, n_to;
    uint32_t i;
    bool moves;

    switch (u->op) {
    case UOP_RESHAPE:
        return arg == to && product_of(g, from, &n_from) &&
               product_of(g, to, &n_to) && n_from == n_to;
    case UOP_PERMUTE:
        return is_permuted(from, to, arg);
    case UOP_EXPAND:
        if (arg != to || from->n != to->n)
            return false;
        for (i = 0; i < to->n; i++) {
            if (is_negative(g, to->d[i]) ||
                (from->d[i] != 1 && from->d[i] != to->d[i]))
                return false;
        }
        return true;
    case UOP_FLIP:
        return from == to && from->n < 64 && u->arg.i >= 0 &&
               (uint64_t)u->arg.i >> from->n == 0;
    default:
        break;
    }
    moves = arg->n == 4 * from->n && from->n;
    if ((arg->n != 2 * from->n && !moves) || to->n != from->n)
        return false;
    for (i = 0; i < from->n; i++) {
        int64_t want =
            cut_dim(g, u->op, from->d[i], arg->d[2 * i], arg->d[2 * i + 1]);
        if (want < 0 || want != to->d[i])
            return false;
        if (moves &&
            !is_moved_right(&arg->d[2 * (from->n + i)], &arg->d[2 * i]))
            return false;
    }
    return true;
}

static bell_status
check_movement(const struct uop_graph *g, const struct uop *u)
{
    const struct uop_dims *from = uop_shape(g, u->src[0]);
    const struct uop_dims *to = uop_shape(g, u);

    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    if (!from && u->src[0]->op == UOP_CONST)
        return BELL_OK;
    if (!from || !to || !moves_rightly(g, u, from, to))
        return uop_bad(u, "arg, shape and source's shape disagree");
    return BELL_OK;
}

/* Where is a buffer's place, of the value's shape. */
static bell_status
check_assign(const struct uop_graph *g, const struct uop *u)
{
    const struct uop *at = u->src[0];

    while (at->op == UOP_SHRINK || at->op == UOP_RESHAPE)
        at = at->src[0];
    if (at->op != UOP_BUFFER)
        return uop_bad(u, "source 0 is not a part of a BUFFER");
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    BELL_TRY(check_like(u, 1, SAME_DTYPE));
    return check_shapes(g, u);
}

static bell_status
check_reduce_axis(const struct uop_graph *g, const struct uop *u)
{
    const struct uop_dims *from = uop_shape(g, u->src[0]);
    const struct uop_dims *to = uop_shape(g, u);
    uint32_t axes = uop_reduce_axes(u), i;

    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    if (!is_reduction((int64_t)uop_reduce_op(u)))
        return uop_bad(u, "arg is not a reduction");
    if (!from || !to || from->n != to->n || from->n > 32 ||
        (from->n < 32 && axes >> from->n))
        return uop_bad(u, "arg, shape and source's shape disagree");
    for (i = 0; i < to->n; i++) {
        if (to->d[i] != (axes >> i & 1 ? 1 : from->d[i]))
            return uop_bad(u, "dimension %u is %lld", i, (long long)to->d[i]);
    }
    return BELL_OK;
}

static bell_status
check_gather(const struct uop_graph *g, const struct uop *u)
{
    const struct uop_dims *x = uop_shape(g, u->src[0]);
    const struct uop_dims *index = uop_shape(g, u->src[1]);

    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    if (!uop_dtype_infos[u->src[1]->dtype].is_int)
        return uop_bad(u, "the index is not an integer");
    if (!x || u->arg.i < 0 || u->arg.i >= x->n || index != uop_shape(g, u))
        return uop_bad(u, "arg, shape and sources' shapes disagree");
    return BELL_OK;
}

static bell_status
check_scan(const struct uop_graph *g, const struct uop *u)
{
    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    BELL_TRY(check_shapes(g, u));
    if (u->dtype == UOP_BOOL || u->arg.i < 0 ||
        uop_scan_axis(u) >= uop_shape(g, u)->n)
        return uop_bad(u, "numbers, along an axis that they have");
    if (uop_scan_op(u) != UOP_ADD && uop_scan_op(u) != UOP_MUL &&
        uop_scan_op(u) != UOP_MAX && uop_scan_op(u) != UOP_MIN)
        return uop_bad(u, "arg is not a sum, product, maximum or minimum");
    return BELL_OK;
}

static bell_status
check_exchange(const struct uop_graph *g, const struct uop *u)
{
    const struct uop_dims *shape = uop_shape(g, u);

    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    BELL_TRY(check_shapes(g, u));
    if (!uop_dtype_infos[u->dtype].is_int || shape->n != 3 || shape->d[1] < 2 ||
        shape->d[1] > UOP_MOST_EXCHANGED || shape->d[1] & (shape->d[1] - 1) ||
        u->arg.i < 0 || u->arg.i > 1)
        return uop_bad(u, "integers along 2, 4, .. 4096, and arg 0 or 1");
    return BELL_OK;
}

/* ---- kernels and programs ---- */

/* I64, or what of it fits in I32. */
static bell_status
check_index(const struct uop *u, uint32_t i)
{
    return u->src[i]->dtype == UOP_I32 ? BELL_OK : check_dtype(u, i, UOP_I64);
}

/* The index, and the gate if there is one. */
static bell_status
check_place(const struct uop *u, uint16_t lanes)
{
    uint32_t i;

    if (!uop_is_memory(u->src[0]))
        return uop_bad(u, "source 0 is not memory");
    BELL_TRY(check_index(u, 1));
    if (u->n_src == 4)
        BELL_TRY(check_dtype(u, 3, UOP_BOOL));
    for (i = 1; i < u->n_src; i += 2) {
        if (u->src[i]->lanes != 1 && u->src[i]->lanes != lanes)
            return uop_bad(u, "source %u has %u lanes", i, u->src[i]->lanes);
    }
    return BELL_OK;
}

static bell_status
check_load(const struct uop *u)
{
    if (u->n_src == 3)
        return uop_bad(u, "has a value if not gate, and no gate");
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    BELL_TRY(check_place(u, u->lanes));
    return u->n_src == 4 ? check_like(u, 2, SAME_DTYPE | SAME_LANES) : BELL_OK;
}

static bell_status
check_store(const struct uop *u)
{
    BELL_TRY(check_dtype(u, 2, u->src[0]->dtype));
    return check_place(u, u->src[2]->lanes);
}

/* The pair of memory and index from source i on. */
static bell_status
check_pair(const struct uop *u, uint32_t i, enum uop_op memory)
{
    if (uop_memory(u->src[i])->op != memory || u->src[i + 1]->lanes != 1)
        return uop_bad(u, "source %u is not a %s, or %u not one lane", i,
                       uop_op_infos[memory].name, i + 1);
    return check_index(u, i + 1);
}

static bell_status
check_copy(const struct uop *u)
{
    uint32_t i;

    BELL_TRY(check_pair(u, 0, UOP_LOCAL));
    BELL_TRY(check_pair(u, 2, UOP_PARAM));
    BELL_TRY(check_dtype(u, 2, u->src[0]->dtype));
    for (i = 4; i < u->n_src; i++) {
        BELL_TRY(check_dtype(u, i, UOP_BOOL));
        if (u->src[i]->lanes != 1)
            return uop_bad(u, "source %u has %u lanes", i, u->src[i]->lanes);
    }
    if (u->arg.i != 4 && u->arg.i != 8 && u->arg.i != 16)
        return uop_bad(u, "%lld bytes at once", (long long)u->arg.i);
    return BELL_OK;
}

static bell_status
check_quad_turn(const struct uop *u)
{
    uint32_t i;

    for (i = 0; i < 4; i++) {
        BELL_TRY(check_like(u, i, SAME_DTYPE));
        if (u->src[i]->lanes * 4u != u->lanes ||
            u->src[i]->lanes * uop_dtype_infos[u->dtype].size_bytes != 4)
            return uop_bad(u, "source %u has %u lanes", i, u->src[i]->lanes);
    }
    return BELL_OK;
}

static bell_status
check_box(const struct uop *u)
{
    BELL_TRY(check_pair(u, 0, UOP_LOCAL));
    BELL_TRY(check_pair(u, 2, UOP_PARAM));
    BELL_TRY(check_dtype(u, 2, u->src[0]->dtype));
    BELL_TRY(check_index(u, 4));
    if (u->src[4]->op != UOP_CONST || u->src[4]->arg.i < 1)
        return uop_bad(u, "source 4 is not a distance of rows");
    BELL_TRY(check_dtype(u, 5, UOP_BOOL));
    if (u->arg.i < 1 || u->arg.i > UOP_TMA_COPY_ROWS)
        return uop_bad(u, "%lld rows at once", (long long)u->arg.i);
    return BELL_OK;
}

static bell_status
check_tiles(const struct uop *u)
{
    BELL_TRY(check_pair(u, 0, UOP_LOCAL));
    BELL_TRY(check_pair(u, 2, UOP_PARAM));
    BELL_TRY(check_pair(u, 4, UOP_LOCAL));
    BELL_TRY(check_dtype(u, 4, UOP_U32));
    BELL_TRY(
        check_dtype(u, 0, u->src[2]->dtype == UOP_BF16 ? UOP_F32 : UOP_I32));
    if (u->src[6]->op != UOP_CONST || u->src[6]->arg.i < 1 || u->arg.i < 1)
        return uop_bad(u, "no distance of rows, or no steps");
    return BELL_OK;
}

static bell_status
check_wmma_rows(const struct uop *u)
{
    uint32_t pack = uop_wmma_pack(u->dtype), n = u->lanes / pack;

    BELL_TRY(check_pair(u, 0, UOP_LOCAL));
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    if (pack == 1 || u->lanes % pack || (n != 1 && n != 2 && n != 4))
        return uop_bad(u, "no 1, 2 or 4 registers of small elements");
    if (u->arg.i < 0 || u->arg.i > (pack == 2))
        return uop_bad(u, "arg is 0, or 1 of 2-byte elements");
    return BELL_OK;
}

static bell_status
check_range(const struct uop *u)
{
    BELL_TRY(check_scalar(u));
    BELL_TRY(check_index(u, 0));
    if (u->dtype != u->src[0]->dtype || u->src[0]->lanes != 1)
        return uop_bad(u, "an index is one lane of its extent's type");
    if (uop_range_axis(u) >= UOP_AXIS_COUNT)
        return uop_bad(u, "arg has no axis type");
    if (u->src[0]->op == UOP_CONST && u->src[0]->arg.i < 0)
        return uop_bad(u, "negative extent");
    return BELL_OK;
}

static bell_status
check_ranges_from(const struct uop *u, uint32_t first)
{
    uint32_t i;

    for (i = first; i < u->n_src; i++) {
        if (u->src[i]->op != UOP_RANGE)
            return uop_bad(u, "source %u is not a RANGE", i);
    }
    return BELL_OK;
}

static bell_status
check_reduce(const struct uop *u)
{
    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE | SAME_LANES));
    if (!is_reduction(u->arg.i))
        return uop_bad(u, "arg is not a reduction");
    return check_ranges_from(u, 1);
}

static bell_status
check_order_op(const struct uop *u)
{
    const struct uop *size;

    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE | SAME_LANES));
    BELL_TRY(check_ranges_from(u, 1));
    size = u->src[1]->src[0];
    if (!uop_dtype_infos[u->dtype].is_int || u->lanes != 1 ||
        size != u->src[2]->src[0] || size->op != UOP_CONST ||
        size->arg.i <= UOP_MOST_IN_REGISTERS ||
        size->arg.i > UOP_MOST_EXCHANGED || size->arg.i & (size->arg.i - 1) ||
        u->arg.i < 0 || u->arg.i > 1)
        return uop_bad(u, "integers by RANGEs of 32, 64, .. 4096, arg 0 or 1");
    return BELL_OK;
}

static bell_status
check_special(const struct uop *u)
{
    BELL_TRY(check_scalar(u));
    BELL_TRY(check_index(u, 0));
    if (u->dtype != u->src[0]->dtype || u->arg.i < 0 || u->arg.i > 6 ||
        u->arg.i == 3)
        return uop_bad(u, "is its extent's type, with arg 0..2 or 4..6");
    return BELL_OK;
}

static bell_status
check_index_op(const struct uop *u)
{
    BELL_TRY(check_scalar(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    BELL_TRY(check_index(u, 1));
    if (u->src[0]->op != UOP_PARAM && u->src[0]->op != UOP_LOCAL)
        return uop_bad(u, "source 0 is not memory");
    if (u->src[1]->lanes != 1 || !is_pow2(uop_index_align(u)))
        return uop_bad(u, "the index is one lane, and arg a power of two");
    return BELL_OK;
}

static bool
is_acc(const struct uop *u)
{
    return uop_memory(u)->op == UOP_ACC;
}

static bell_status
check_acc_get(const struct uop *u)
{
    uint32_t i;

    BELL_TRY(check_like(u, 0, SAME_DTYPE | SAME_LANES));
    if (!is_acc(u->src[0]))
        return uop_bad(u, "source 0 is not an ACC");
    for (i = 1; i < u->n_src; i++) {
        if (u->src[i]->op != UOP_RANGE && u->src[i]->op != UOP_END &&
            u->src[i]->op != UOP_ENDIF && u->src[i]->op != UOP_WGMMA_WAIT)
            return uop_bad(
                u, "source %u is not a RANGE, END, ENDIF or WGMMA_WAIT", i);
    }
    return BELL_OK;
}

static bell_status
check_acc_set(const struct uop *u)
{
    if (!is_acc(u->src[0]))
        return uop_bad(u, "source 0 is not an ACC");
    if (u->src[1]->dtype != u->src[0]->dtype ||
        u->src[1]->lanes != u->src[0]->lanes)
        return uop_bad(u, "the value and the ACC differ in type");
    return BELL_OK;
}

static bell_status
check_wmma(const struct uop *u)
{
    struct uop_wmma w = uop_wmma_shape(u->arg.i);
    uint32_t i;

    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 2, SAME_DTYPE | SAME_LANES));
    if (!uop_wmma_mixes(u->src[0]->dtype, u->src[1]->dtype))
        return uop_bad(u, "sources 0 and 1 differ in dtype");
    if (w.layout >= UOP_WMMA_N_LAYOUTS)
        return uop_bad(u, "there is no layout %u", (unsigned)w.layout);
    if (w.layout == UOP_WMMA_NV ? (w.m != 8 && w.m != 16) || w.n != 8
                                : w.m != 16 || w.n != 16)
        return uop_bad(u, "no shape has %u rows and %u columns", w.m, w.n);
    if (w.k < 1 || w.k > 32)
        return uop_bad(u, "no shape has %u steps", w.k);
    for (i = 0; i < 3; i++) {
        uint32_t n = uop_wmma_lanes(w, (enum uop_wmma_operand)i);
        if (u->src[i]->lanes != n)
            return uop_bad(u, "source %u has %u lanes, not %u", i,
                           u->src[i]->lanes, n);
    }
    return BELL_OK;
}

static bell_status
check_wgmma(const struct uop *u)
{
    struct uop_wgmma w = uop_wgmma_shape(u->arg.i);
    uint32_t i, bytes = uop_dtype_infos[u->src[1]->dtype].size_bytes;

    if (!is_acc(u->src[0]) || u->src[0]->dtype != UOP_F32 ||
        u->src[0]->lanes != w.n / 2)
        return uop_bad(u, "source 0 is not an ACC of %u f32", w.n / 2);
    for (i = u->op == UOP_WGMMA ? 1 : 2; i < u->n_src; i += 2) {
        if (!uop_is_memory(u->src[i]) ||
            !uop_wmma_mixes(u->src[1]->dtype, u->src[i]->dtype))
            return uop_bad(u, "source %u is not memory of that dtype", i);
        BELL_TRY(check_index(u, i + 1));
    }
    /* 64 x k of 128 threads */
    if (u->op == UOP_WGMMA_HELD &&
        (u->src[1]->lanes != w.pieces * w.k / 2 || bytes != 2 || w.a_turned))
        return uop_bad(u, "source 1 is not an A of %u x %u steps", w.pieces,
                       w.k);
    if (w.n < 8 || w.n > 256 || w.n % 8 || w.k * bytes != 32 || w.pieces < 1 ||
        (w.pieces * w.k * bytes > UOP_WGMMA_ROW_BYTES &&
         !(u->op == UOP_WGMMA_HELD && w.b_turned)))
        return uop_bad(u, "no shape has %u columns and %u x %u steps", w.n,
                       w.pieces, w.k);
    return bytes == 2 || !(w.a_turned || w.b_turned)
               ? BELL_OK
               : uop_bad(u, "only halves are turned");
}

static bell_status
check_lanes(const struct uop *u)
{
    uint32_t i;

    if (u->n_src != u->lanes)
        return uop_bad(u, "%u sources for %u lanes", u->n_src, u->lanes);
    for (i = 0; i < u->n_src; i++) {
        BELL_TRY(check_like(u, i, SAME_DTYPE));
        if (u->src[i]->lanes != 1)
            return uop_bad(u, "source %u has %u lanes", i, u->src[i]->lanes);
    }
    return check_value(u);
}

static bell_status
check_lane_of(const struct uop *u)
{
    BELL_TRY(check_value(u));
    BELL_TRY(check_scalar(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    if (u->op == UOP_LANE && (u->arg.i < 0 || u->arg.i >= u->src[0]->lanes))
        return uop_bad(u, "source 0 has %u lanes", u->src[0]->lanes);
    if (u->op == UOP_LANES_REDUCE && !is_reduction(u->arg.i))
        return uop_bad(u, "arg is not a reduction");
    return BELL_OK;
}

static bell_status
check_lanes_repeat(const struct uop *u)
{
    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    if (u->arg.i < 1 || u->arg.i * u->src[0]->lanes != u->lanes)
        return uop_bad(u, "source 0 has %u lanes", u->src[0]->lanes);
    return BELL_OK;
}

static bell_status
check_byte_dot(const struct uop *u)
{
    uint32_t i;

    BELL_TRY(check_value(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE | SAME_LANES));
    BELL_TRY(check_dtype(u, 0, UOP_I32));
    BELL_TRY(check_dtype(u, 1, UOP_U8));
    BELL_TRY(check_dtype(u, 2, UOP_I8));
    for (i = 1; i < 3; i++) {
        if (u->src[i]->lanes != 4u * u->lanes)
            return uop_bad(u, "source %u has %u lanes", i, u->src[i]->lanes);
    }
    return BELL_OK;
}

static bell_status
check_shuffle(const struct uop *u)
{
    BELL_TRY(check_value(u));
    BELL_TRY(check_scalar(u));
    BELL_TRY(check_like(u, 0, SAME_DTYPE | SAME_LANES));
    if (uop_dtype_infos[u->dtype].size_bytes != 4)
        return uop_bad(u, "has no 32 bits");
    if (u->arg.i < 1 || u->arg.i > 63)
        return uop_bad(u, "arg is bits of a thread's number in its warp");
    return BELL_OK;
}

/* Effects, RANGEs whose bodies it is in, and LOADs that are to stand before
 * it. */
static bell_status
check_barrier(const struct uop *u)
{
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        if (!uop_has(u->src[i], UOP_FLAG_EFFECT) &&
            u->src[i]->op != UOP_RANGE && u->src[i]->op != UOP_LOAD &&
            u->src[i]->op != UOP_ACC_GET)
            return uop_bad(
                u, "source %u is not an effect, RANGE, LOAD or ACC_GET", i);
    }
    return BELL_OK;
}

static bell_status
check_var(const struct uop_graph *g, const struct uop *u, enum uop_stage stage)
{
    uint32_t i;

    if (u->arg.i < 0 || u->lanes != 1 || u->dtype == UOP_VOID ||
        (stage == UOP_STAGE_P && u->dtype != UOP_I64))
        return uop_bad(u, "bad slot or type");
    if (stage == UOP_STAGE_T && uop_shape(g, u) && uop_shape(g, u)->n)
        return uop_bad(u, "is a scalar");
    for (i = 0; i < u->n_src; i++) {
        BELL_TRY(check_like(u, i, SAME_DTYPE | SAME_LANES));
        if (u->src[i]->op != UOP_CONST || uop_is_float(u) || u->n_src != 2)
            return uop_bad(u, "two CONSTs bound an integer");
    }
    return BELL_OK;
}

static bell_status
check_kernel_op(const struct uop *u)
{
    switch (u->op) {
    case UOP_PARAM:
        if (u->arg.i < 0 || u->lanes != 1 || u->dtype == UOP_VOID)
            return uop_bad(u, "bad slot or type");
        return BELL_OK;
    case UOP_RANGE:
        return check_range(u);
    case UOP_REDUCE:
        return check_reduce(u);
    case UOP_SORT:
        return check_order_op(u);
    case UOP_INDEX:
        return check_index_op(u);
    case UOP_LOAD:
        return check_load(u);
    case UOP_STORE:
        return check_store(u);
    case UOP_AFTER:
        BELL_TRY(check_like(u, 0, SAME_DTYPE | SAME_LANES));
        return check_effects(u, 1);
    case UOP_SPECIAL:
        return check_special(u);
    case UOP_ACC:
        BELL_TRY(check_like(u, 0, SAME_DTYPE | SAME_LANES));
        return check_ranges_from(u, 1);
    case UOP_ACC_GET:
        return check_acc_get(u);
    case UOP_ACC_SET:
        return check_acc_set(u);
    case UOP_END:
        if (u->src[0]->op != UOP_RANGE)
            return uop_bad(u, "source 0 is not a RANGE");
        return check_effects(u, 1);
    case UOP_LOCAL:
        return check_value(u);
    case UOP_BARRIER:
    case UOP_PINGPONG:
    case UOP_PINGPONG_END:
    case UOP_COMMIT:
    case UOP_WGMMA_WAIT:
        if (u->arg.i < 0)
            return uop_bad(u, "arg is a number of them");
        return check_barrier(u);
    case UOP_IF:
        BELL_TRY(check_dtype(u, 0, UOP_BOOL));
        return check_effects(u, 1);
    case UOP_ENDIF:
        if (u->src[0]->op != UOP_IF)
            return uop_bad(u, "source 0 is not an IF");
        return check_effects(u, 1);
    default:
        return BELL_OK;
    }
}

static bell_status
check_vector_op(const struct uop *u)
{
    switch (u->op) {
    case UOP_BROADCAST:
        BELL_TRY(check_value(u));
        BELL_TRY(check_like(u, 0, SAME_DTYPE));
        if (u->src[0]->lanes != 1)
            return uop_bad(u, "source 0 has %u lanes", u->src[0]->lanes);
        return BELL_OK;
    case UOP_LANES:
        return check_lanes(u);
    case UOP_LANE:
    case UOP_LANES_REDUCE:
        return check_lane_of(u);
    case UOP_LANES_REPEAT:
        return check_lanes_repeat(u);
    case UOP_BYTE_DOT:
        return check_byte_dot(u);
    case UOP_SHUFFLE:
        return check_shuffle(u);
    case UOP_WMMA:
        return check_wmma(u);
    case UOP_WMMA_ROWS:
        return check_wmma_rows(u);
    case UOP_COPY:
        return check_copy(u);
    case UOP_QUAD_TRANSPOSE:
        return check_quad_turn(u);
    case UOP_TMA_COPY:
        return check_box(u);
    case UOP_TILE_MATMUL:
        return check_tiles(u);
    case UOP_WGMMA:
    case UOP_WGMMA_HELD:
        return check_wgmma(u);
    case UOP_RAMP:
        if (!uop_dtype_infos[u->dtype].is_int)
            return uop_bad(u, "is an integer");
        return BELL_OK;
    default:
        return check_kernel_op(u);
    }
}

/* Its results have elements, and a place in what one kernel takes. */
static bell_status
check_call(const struct uop_graph *g, const struct uop *u)
{
    const struct uop *call = u->op == UOP_PART ? u->src[0] : u;
    const struct uop_dims *arg, *shape = uop_shape(g, u);
    int64_t n, which = u->op == UOP_PART ? u->arg.i : 0;

    if (call->op != UOP_CALL || call->n_src > UOP_MAX_CALL_SRC)
        return uop_bad(u, "is a CALL, or a part of one");
    arg = call->arg.dims;
    if (arg->n % 2 != 1 || which < 0 || which >= arg->n / 2 ||
        (u->op == UOP_PART && which == 0))
        return uop_bad(u, "is one of the results");
    if (!shape || !product_of(g, shape, &n) || n < 1 ||
        n != arg->d[2 + 2 * which] ||
        arg->d[1 + 2 * which] != (int64_t)u->dtype)
        return uop_bad(u, "has the result's dtype and elements");
    return BELL_OK;
}

static bell_status
check_given(const struct uop *u)
{
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        if (u->src[i]->op != UOP_PARAM)
            return uop_bad(u, "is of PARAMs");
    }
    return BELL_OK;
}

/* The part is of an axis that there is. */
static bell_status
check_layout(const struct uop_graph *g, const struct uop *u)
{
    const struct uop_dims *shape = uop_shape(g, u);

    BELL_TRY(check_like(u, 0, SAME_DTYPE));
    BELL_TRY(check_shapes(g, u));
    if (!shape || u->arg.i < -4 || (u->arg.i & 3) == 3 ||
        u->arg.i >> 2 > (int64_t)shape->n)
        return uop_bad(u, "is of an axis of the mesh and one of its own");
    return BELL_OK;
}

bell_status
uop_check_node(const struct uop_graph *g, const struct uop *u,
               enum uop_stage stage)
{
    if (uop_has(u, UOP_FLAG_ALU))
        return check_alu(g, u, stage);
    if (uop_has(u, UOP_FLAG_MOVE))
        return check_movement(g, u);
    if (uop_has(u, UOP_FLAG_EFFECT) && u->dtype != UOP_VOID)
        return uop_bad(u, "an effect has no value");
    switch (u->op) {
    case UOP_CONST:
        return check_const(u);
    case UOP_VAR:
        return check_var(g, u, stage);
    case UOP_CAST:
    case UOP_BITCAST:
        return check_conversion(g, u, stage);
    case UOP_SINK:
        return stage == UOP_STAGE_T ? BELL_OK : check_effects(u, 0);
    case UOP_BUFFER:
        return check_value(u);
    case UOP_IOTA:
        if (!uop_dtype_infos[u->dtype].is_int || u->arg.i < 0)
            return uop_bad(u, "is an integer with arg 0 or more");
        return BELL_OK;
    case UOP_REDUCE_AXIS:
        return check_reduce_axis(g, u);
    case UOP_GATHER:
        return check_gather(g, u);
    case UOP_SCAN:
        return check_scan(g, u);
    case UOP_SORT_AXIS:
        return check_exchange(g, u);
    case UOP_CALL:
    case UOP_PART:
        return check_call(g, u);
    case UOP_CUSTOM:
        return check_given(u);
    case UOP_ASSIGN:
        return check_assign(g, u);
    case UOP_CONTIGUOUS:
    case UOP_DETACH:
        BELL_TRY(check_like(u, 0, SAME_DTYPE));
        return check_shapes(g, u);
    case UOP_LAYOUT:
        return check_layout(g, u);
    default:
        return check_vector_op(u);
    }
}
