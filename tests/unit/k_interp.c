/* The kernel interpreter: evaluates expressions for one setting of all
 * ranges. */
#include "k_interp.h"

#include "base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct interp {
    struct k_buffer *bufs;
    uint32_t n_bufs;
    int64_t range[64]; /* value of each RANGE id */
    struct memo *memo; /* by node id */
    uint32_t max_id;
    uint64_t loaded; /* slots */
    bool forgets;    /* what was loaded: it may have changed */
    bool failed;
};

/* A node's value for one setting of the ranges that it depends on. */
struct memo {
    uint64_t deps; /* RANGE ids, a bit each; bound ones are not among them */
    uint64_t key;  /* hash of their values; 0: no value yet */
    bool visited;
    union uop_arg value;
};

static union uop_arg eval(struct interp *in, const struct uop *u);

static union uop_arg
give_up(struct interp *in, const char *why, const struct uop *u)
{
    union uop_arg zero = {.bits = 0};

    if (!in->failed)
        fprintf(stderr, "k_run: %s at %s %%%u\n", why, uop_op_infos[u->op].name,
                u->id);
    in->failed = true;
    return zero;
}

/* The ALU op `op` on values. */
static union uop_arg
apply(struct interp *in, enum uop_op op, enum uop_dtype dtype,
      const enum uop_dtype *src_dtype, const union uop_arg *values, uint32_t n,
      const struct uop *u)
{
    _Alignas(struct uop) char nodes[3][sizeof(struct uop)];
    const struct uop *src[3];
    union uop_arg out = {.bits = 0};
    uint32_t i;

    for (i = 0; i < n; i++) {
        struct uop *node = (struct uop *)(void *)nodes[i];
        memset(node, 0, sizeof(*node));
        node->op = UOP_CONST;
        node->dtype = (uint8_t)src_dtype[i];
        node->lanes = 1;
        node->arg = values[i];
        src[i] = node;
    }
    if (!uop_const_eval(op, dtype, src, n, &out))
        return give_up(in, "no value", u);
    return out;
}

static union uop_arg
identity(enum uop_op op, enum uop_dtype dtype)
{
    union uop_arg out = {.bits = 0};
    bool is_float = uop_dtype_infos[dtype].is_float;

    if (op == UOP_MUL) {
        if (is_float)
            out.f = 1;
        else
            out.i = 1;
    } else if (op == UOP_MAX || op == UOP_MIN) {
        if (is_float)
            out.f = op == UOP_MAX ? -__builtin_inf() : __builtin_inf();
        else if (dtype == UOP_U64)
            out.i = op == UOP_MAX ? 0 : -1;
        else
            out.i = op == UOP_MAX ? uop_dtype_bounds(dtype).min
                                  : uop_dtype_bounds(dtype).max;
    }
    return out;
}

static union uop_arg
eval_reduce(struct interp *in, const struct uop *u)
{
    enum uop_dtype dtype = u->dtype, both[2] = {dtype, dtype};
    enum uop_op op = u->arg.i;
    union uop_arg pair[2];
    uint32_t i;

    for (i = 1; i < u->n_src; i++) {
        in->range[uop_range_id(u->src[i])] = 0;
        if (u->src[i]->src[0]->arg.i == 0)
            return identity(op, dtype);
    }
    pair[0] = identity(op, dtype);
    for (;;) {
        pair[1] = eval(in, u->src[0]);
        pair[0] = apply(in, op, dtype, both, pair, 2, u);
        if (in->failed)
            return pair[0];
        for (i = u->n_src; i-- > 1;) {
            int64_t *at = &in->range[uop_range_id(u->src[i])];
            if (++*at < u->src[i]->src[0]->arg.i)
                break;
            *at = 0;
        }
        if (i == 0)
            break;
    }
    return pair[0];
}

static union uop_arg
eval_load(struct interp *in, const struct uop *u)
{
    struct k_buffer *buf;
    int64_t at;

    if (u->n_src == 4 && !eval(in, u->src[3]).i)
        return eval(in, u->src[2]);
    at = eval(in, u->src[1]).i;
    if ((uint64_t)u->src[0]->arg.i >= in->n_bufs)
        return give_up(in, "no such slot", u);
    buf = &in->bufs[u->src[0]->arg.i];
    if (at < 0 || (size_t)at >= buf->n)
        return give_up(in, "out of range", u);
    return buf->elems[at];
}

static union uop_arg
eval_node(struct interp *in, const struct uop *u)
{
    enum uop_dtype dtypes[3];
    union uop_arg values[3];
    uint32_t i;

    switch ((int)u->op) {
    case UOP_CONST:
        return u->arg;
    case UOP_RANGE:
        values[0].i = in->range[uop_range_id(u)];
        return values[0];
    case UOP_REDUCE:
        return eval_reduce(in, u);
    case UOP_LOAD:
        return eval_load(in, u);
    default:
        break;
    }
    if (u->n_src == 0 || u->n_src > 3)
        return give_up(in, "unexpected node", u);
    for (i = 0; i < u->n_src; i++) {
        dtypes[i] = u->src[i]->dtype;
        values[i] = eval(in, u->src[i]);
    }
    return apply(in, u->op, u->dtype, dtypes, values, u->n_src, u);
}

static union uop_arg
eval(struct interp *in, const struct uop *u)
{
    struct memo *memo = &in->memo[u->id];
    uint64_t key = 1, deps = memo->deps;
    union uop_arg value;

    for (; deps; deps &= deps - 1)
        key = hash_add(key, (uint64_t)in->range[__builtin_ctzll(deps)]);
    if (memo->key == key)
        return memo->value;
    value = eval_node(in, u);
    memo->key = key;
    memo->value = value;
    return value;
}

/* The output ranges under `u`, by id; notes what each node depends on. */
static void
find_ranges(struct interp *in, const struct uop *u, const struct uop **ranges)
{
    uint32_t i;

    if (in->memo[u->id].visited)
        return;
    in->memo[u->id].visited = true;
    if (u->op == UOP_RANGE && uop_range_axis(u) == UOP_AXIS_LOOP)
        ranges[uop_range_id(u)] = u;
    if (u->op == UOP_LOAD)
        in->loaded |= 1ull << u->src[0]->arg.i;
    for (i = 0; i < u->n_src; i++)
        find_ranges(in, u->src[i], ranges);
    for (i = 0; i < u->n_src; i++)
        in->memo[u->id].deps |= in->memo[u->src[i]->id].deps;
    if (u->op == UOP_RANGE)
        in->memo[u->id].deps |= 1ull << uop_range_id(u);
    for (i = 1; u->op == UOP_REDUCE && i < u->n_src; i++)
        in->memo[u->id].deps &= ~(1ull << uop_range_id(u->src[i]));
}

/* Does the STOREs for all settings of their ranges; their values are there
 * before the first is done. `back`: the last setting comes first. */
static void
run_stores(struct interp *in, const struct uop *const *stores, uint32_t n,
           bool back)
{
    const struct uop *ranges[64] = {NULL};
    uint32_t s, id;
    int i;

    for (id = 0; id <= in->max_id; id++)
        in->memo[id].visited = false;
    for (s = 0; s < n; s++)
        find_ranges(in, stores[s], ranges);
    memset(in->range, 0, sizeof(in->range));
    for (i = 0; back && i < 64; i++)
        in->range[i] = ranges[i] ? ranges[i]->src[0]->arg.i - 1 : 0;
    for (;;) {
        union uop_arg value[64];
        int64_t at[64];
        for (id = 0; in->forgets && id <= in->max_id; id++)
            in->memo[id].key = 0;
        for (s = 0; s < n; s++) {
            at[s] = eval(in, stores[s]->src[1]).i;
            value[s] = eval(in, stores[s]->src[2]);
        }
        for (s = 0; s < n && !in->failed; s++) {
            struct k_buffer *buf = &in->bufs[stores[s]->src[0]->arg.i];
            if (at[s] < 0 || (size_t)at[s] >= buf->n)
                give_up(in, "out of range", stores[s]);
            else
                buf->elems[at[s]] = value[s];
        }
        if (in->failed)
            return;
        for (i = 63; i >= 0; i--) {
            if (!ranges[i])
                continue;
            if (!back && ++in->range[i] < ranges[i]->src[0]->arg.i)
                break;
            if (back && in->range[i]-- > 0)
                break;
            in->range[i] = back ? ranges[i]->src[0]->arg.i - 1 : 0;
        }
        if (i < 0)
            return;
    }
}

bool
k_run(const struct uop *sink, struct k_buffer *bufs, uint32_t n_bufs)
{
    struct interp in = {.bufs = bufs, .n_bufs = n_bufs, .max_id = sink->id};
    const struct uop *ranges[64];
    uint64_t stored = 0;
    uint32_t i;

    in.memo = calloc(sink->id + 1, sizeof(*in.memo));
    find_ranges(&in, sink, ranges);
    for (i = 0; i < sink->n_src; i++)
        stored |= 1ull << sink->src[i]->src[0]->arg.i;
    in.forgets = in.loaded & stored;
    if (in.forgets)
        run_stores(&in, sink->src, sink->n_src, sink->id & 1);
    for (i = 0; i < sink->n_src && !in.forgets && !in.failed; i++)
        run_stores(&in, &sink->src[i], 1, sink->id & 1);
    free(in.memo);
    return !in.failed;
}
