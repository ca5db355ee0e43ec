/* Attention in one kernel, by a processor's vectors
 * (lower/attention/attention.h).
 *
 * The lanes of a vector are queries: a work-group has some vectors of them. q
 * is turned into LOCAL memory once; then every product is one of a vector with
 * an element of k or v, which is the same for all lanes, and maxima and sums of
 * rows need no exchange. Tiles of keys: their scores in blocks that registers
 * hold, over all elements of a query; E, in place; then blocks of the result
 * over the tile's keys.
 *
 *   Q[c][row]   P[key][row]: x, then E   O[column][row]
 *
 * Where the last rows are fewer, some of the tile before are computed again;
 * or, where a tile may be all there is, lanes behind the last row load nothing.
 *
 * Sums of a row are in one order whatever the numbers of rows and keys, and
 * however many rows a work-group has: over all of c, over the keys of a tile,
 * then over tiles.
 */
#include <string.h>

#include "base/log.h"
#include "lower/attention/attention_code.h"

#define MAX_VECS    4
#define MAX_BLOCK   8          /* keys, or columns, of a block */
#define LOCAL_BYTES (96 << 10) /* on the stack of whoever runs it. guess */

static const union uop_arg no_arg = {.bits = 0};

/* q, k or v. */
struct part {
    const struct uop *value; /* what it is, of any float dtype */
    uint32_t range;          /* c, or the columns */
    const struct uop *copy;  /* k, v: a tile of it as F32; NULL: as it lies */
};

struct cpu_work {
    struct attend_code c;
    uint16_t lanes;
    uint32_t n_vecs, block;
    int64_t n_in, n_cols;
    struct part k, v;
    const struct uop *rows; /* how many there are; NULL: those of a work-group
                              * are never more */
    bool is_ragged;         /* keys may be no multiple of anything */
    const struct uop *row0; /* of the work-group */
    const struct uop *row;  /* of the vector's first lane, in lanes_of */
    const struct uop *own;  /* the first that is not of the one before */
    const struct uop *tile; /* RANGE over tiles */
    const struct uop *size; /* keys of the tile */
    const struct uop *q, *p, *o;
    /* by vector of queries */
    const struct uop *max[MAX_VECS], *sum[MAX_VECS], *scale[MAX_VECS];
    /* by place in the kernel: what the nodes become, in lane 0 and in all;
     * NULL: nothing, or the same in all */
    const struct uop **scalar, **vector;
};

/* ---- vectors of the kernel's expressions ---- */

static const struct uop *
all_lanes(const struct cpu_work *w, const struct uop *u)
{
    return expand_broadcast(w->c.e, u, w->lanes);
}

static const struct uop *
vector_at(const struct cpu_work *w, const struct uop *u)
{
    uint32_t at = kernel_pos(w->c.e->k, u);

    return w->vector[at] ? w->vector[at] : all_lanes(w, w->scalar[at]);
}

static bool
was_let(struct cpu_work *w, const struct uop *u, uint32_t at)
{
    uint32_t i;

    for (i = 0; i < w->c.n_pairs; i++) {
        if (w->c.from[i] != u)
            continue;
        if (w->c.to[i]->lanes > 1)
            w->vector[at] = w->c.to[i];
        else
            w->scalar[at] = w->c.to[i];
        return true;
    }
    return false;
}

/* Is the index first + lane * step? *out_step. */
static bool
is_cpu_ramp(const struct cpu_work *w, const struct uop *u, int64_t *out_step)
{
    *out_step = kernel_coef(w->c.e->k, u, w->c.a->row);
    return *out_step != KERNEL_NONAFFINE && w->scalar[kernel_pos(w->c.e->k, u)];
}

/* By lane: is it a row that there is? */
static const struct uop *
has_rows(const struct cpu_work *w)
{
    return expand_ramp_compare(w->c.e, UOP_CMPLT, w->row, w->rows, w->lanes, 1);
}

static const struct uop *
make_cpu_vector(struct cpu_work *w, const struct uop *u)
{
    const struct kernel *k = w->c.e->k;
    const struct uop *src[4];
    int64_t a, b;
    uint32_t i, n;

    if (u->dtype == UOP_I64 && is_cpu_ramp(w, u, &a))
        return expand_ramp(w->c.e, w->scalar[kernel_pos(k, u)], UOP_I64,
                           w->lanes, a);
    if (uop_has(u, UOP_FLAG_CMP) && u->src[0]->dtype == UOP_I64 &&
        is_cpu_ramp(w, u->src[0], &a) && is_cpu_ramp(w, u->src[1], &b) &&
        expand_is_short(a) && expand_is_short(b))
        return expand_ramp_compare(
            w->c.e, u->op, w->scalar[kernel_pos(k, u->src[0])],
            w->scalar[kernel_pos(k, u->src[1])], w->lanes, a - b);
    for (i = 0; i < u->n_src; i++) {
        uint32_t at = kernel_pos(k, u->src[i]);
        src[i] = vector_at(w, u->src[i]);
        if (u->op != UOP_LOAD)
            continue;
        if (i == 0 || (i == 1 && is_cpu_ramp(w, u->src[1], &a) && a == 1))
            src[i] = w->scalar[at];
        if (i == 3 && !w->vector[at] && !w->rows)
            src[i] = w->scalar[at];
    }
    n = u->n_src;
    if (u->op == UOP_LOAD && w->rows) {
        const struct uop *there = has_rows(w);
        if (n < 3)
            src[2] = all_lanes(w, uop_const_int(w->c.g, u->dtype, 0));
        src[3] = n > 3 ? uop_alu2(w->c.g, UOP_AND, src[3], there) : there;
        n = 4;
    }
    return uop_make(w->c.g, u->op, u->dtype, w->lanes, u->arg, src, n);
}

/* The expression with what was let, whose rows are those from `row` on: a
 * vector where it differs. Only the first n of what was let hold further. */
static const struct uop *
lanes_of(struct cpu_work *w, const struct uop *u, const struct uop *row,
         uint32_t n)
{
    const struct kernel *k = w->c.e->k;
    uint32_t last = kernel_pos(k, u), at, i;
    const struct uop *src[4];

    attend_let_range(&w->c, w->c.a->row, row);
    w->row = row;
    for (at = 0; at <= last; at++) {
        const struct uop *node = k->nodes[at];
        bool differs = node == k->ranges[w->c.a->row], scalar = true;
        w->scalar[at] = w->vector[at] = NULL;
        if (was_let(w, node, at) && !differs)
            continue;
        if (node->op == UOP_RANGE || node->op == UOP_REDUCE ||
            node->op == UOP_STORE || node->op == UOP_SINK) {
            if (differs)
                w->vector[at] = make_cpu_vector(w, node);
            continue;
        }
        for (i = 0; i < node->n_src; i++) {
            uint32_t from = kernel_pos(k, node->src[i]);
            src[i] = w->scalar[from];
            scalar &= src[i] != NULL;
            differs |= w->vector[from] != NULL;
            if (!src[i] && !w->vector[from])
                break; /* made of what is not let: not of this expression */
        }
        if (i < node->n_src)
            continue;
        if (scalar)
            w->scalar[at] = uop_make(w->c.g, node->op, node->dtype, 1,
                                     node->arg, src, node->n_src);
        if (differs)
            w->vector[at] = make_cpu_vector(w, node);
    }
    w->c.n_pairs = n;
    u = w->vector[last] ? w->vector[last] : w->scalar[last];
    if (!u)
        w->c.g->failed = true;
    return u ? u : &uop_failed;
}

static const struct uop *
as_float(const struct cpu_work *w, const struct uop *u)
{
    return u->dtype == UOP_F32 ? u : uop_cast(w->c.g, u, UOP_F32);
}

static const struct uop *
cpu_row_of(const struct cpu_work *w, uint32_t vec)
{
    return op2(&w->c, UOP_ADD, w->row0, (int64_t)vec * w->lanes);
}

/* ---- LOCAL memory ---- */

/* Vector `vec` of row `row` of Q, P or O. */
static const struct uop *
vector_place(const struct cpu_work *w, const struct uop *row, uint32_t vec)
{
    return op2(&w->c, UOP_ADD,
               op2(&w->c, UOP_MUL, row, (int64_t)w->lanes * w->n_vecs),
               (int64_t)vec * w->lanes);
}

static const struct uop *
cpu_load(const struct cpu_work *w, const struct uop *memory,
         const struct uop *at, uint16_t lanes)
{
    const struct uop *src[2] = {memory, at};

    return uop_make(w->c.g, UOP_LOAD, memory->dtype, lanes, no_arg, src, 2);
}

static const struct uop *
store(const struct cpu_work *w, const struct uop *memory, const struct uop *at,
      const struct uop *value)
{
    const struct uop *src[3] = {memory, at, value};

    return uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 3);
}

static const struct uop *
cpu_loop(struct cpu_work *w, const struct uop *extent)
{
    union uop_arg arg = {.i =
                             uop_range_arg(w->c.e->k->n_ranges + w->c.e->n_accs,
                                           UOP_AXIS_REDUCE)};

    w->c.e->n_accs++; /* no two are the same */
    return uop_new(w->c.g, UOP_RANGE, UOP_I64, 1, arg, &extent, 1);
}

static const struct uop *
end(const struct cpu_work *w, const struct uop *range,
    const struct uop *const *effects, uint32_t n)
{
    const struct uop *src[1 + MAX_VECS * (MAX_BLOCK + 2)] = {range};

    assert(n < sizeof(src) / sizeof(src[0]));
    memcpy(src + 1, effects, n * sizeof(*effects));
    return uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n + 1);
}

/* n turns of a loop, and none where the work-group has no rows. */
static const struct uop *
turns_with_rows(const struct cpu_work *w, const struct uop *n)
{
    return w->c.valid
               ? uop_alu3(w->c.g, UOP_WHERE, w->c.valid, n, num(&w->c, 0))
               : n;
}

/* q, turned. */
static void
copy_cpu_queries(struct cpu_work *w)
{
    const struct uop *effects[MAX_VECS], *u,
        *in = cpu_loop(w, turns_with_rows(w, num(&w->c, w->n_in)));
    uint32_t i, n = w->c.n_pairs;

    w->q =
        expand_local(w->c.e, UOP_F32, (uint64_t)w->n_in * w->lanes * w->n_vecs);
    for (i = 0; i < w->n_vecs; i++) {
        attend_let_range(&w->c, w->c.a->in, in);
        u = all_lanes(w, lanes_of(w, w->c.a->q, cpu_row_of(w, i), n));
        effects[i] = store(w, w->q, vector_place(w, in, i), as_float(w, u));
    }
    u = end(w, in, effects, w->n_vecs);
    w->q = attend_after(&w->c, w->q, &u, 1);
}

/* Does it lie in memory as F32? */
static bool
lies_ready(const struct uop *u)
{
    return u->op == UOP_LOAD && u->n_src == 2 && u->dtype == UOP_F32;
}

/* A tile of k or v, as F32. */
static void
copy_part(struct cpu_work *w, struct part *p, const struct uop *memory)
{
    const struct kernel *k = w->c.e->k;
    int64_t n = k->sizes[p->range], each = 1;
    const struct uop *key = cpu_loop(w, w->size), *parts, *at, *u, *effect;
    uint32_t n_pairs = w->c.n_pairs;

    while (each < w->lanes && n % (2 * each) == 0)
        each *= 2;
    if (p->value->op != UOP_LOAD || p->value->n_src != 2 ||
        kernel_coef(k, p->value->src[1], p->range) != 1)
        each = 1;
    parts = cpu_loop(w, num(&w->c, n / each));
    at = op2(&w->c, UOP_MUL, parts, each);
    attend_let_range(&w->c, w->c.a->key, step(&w->c, key, w->tile, w->c.tile));
    attend_let_range(&w->c, p->range, at);
    if (each > 1)
        u = cpu_load(w, p->value->src[0],
                     attend_value(&w->c, p->value->src[1], n_pairs),
                     (uint16_t)each);
    else
        u = attend_value(&w->c, p->value, n_pairs);
    effect = store(w, memory, step(&w->c, at, key, n), as_float(w, u));
    effect = end(w, parts, &effect, 1);
    effect = end(w, key, &effect, 1);
    p->copy = attend_after(&w->c, memory, &effect, 1);
}

/* An element of k or v, for key `key` of the tile. */
static const struct uop *
element(struct cpu_work *w, const struct part *p, const struct uop *key,
        const struct uop *at)
{
    uint32_t n = w->c.n_pairs;

    if (p->copy)
        return cpu_load(w, p->copy,
                        step(&w->c, at, key, w->c.e->k->sizes[p->range]), 1);
    attend_let_range(&w->c, w->c.a->key, step(&w->c, key, w->tile, w->c.tile));
    attend_let_range(&w->c, p->range, at);
    return attend_value(&w->c, p->value, n);
}

/* ---- a tile of keys ---- */

/* acc[i][v] += x[v] * y[i], once for each value of a loop of `steps`. */
static const struct uop *
add_cpu_products(struct cpu_work *w, const struct uop *range,
                 const struct uop **acc, const struct uop *const *x,
                 const struct uop *const *y, uint32_t block)
{
    const struct uop *effects[MAX_BLOCK * MAX_VECS], *sum;
    uint32_t i, v, at = 0;

    for (i = 0; i < block; i++) {
        for (v = 0; v < w->n_vecs; v++, at++) {
            sum = attend_get(&w->c, acc[at], range);
            sum = uop_alu3(w->c.g, UOP_MULACC, x[v], all_lanes(w, y[i]), sum);
            effects[at] = attend_set(&w->c, acc[at], sum);
        }
    }
    return end(w, range, effects, at);
}

/* Key number `key` of the tile, as one that there is. */
static const struct uop *
clamp_key(const struct cpu_work *w, const struct uop *key)
{
    const struct uop *last = op2(&w->c, UOP_ADD, w->size, -1);

    return w->is_ragged || w->c.n_keys % w->block
               ? uop_alu2(w->c.g, UOP_MIN, key, last)
               : key;
}

/* The scores of a tile, what is made of them, and their maxima: most[]. */
static void
make_cpu_scores(struct cpu_work *w, const struct uop **most)
{
    const struct uop *blocks, *jb, *in, *loops[3], *acc[MAX_BLOCK * MAX_VECS],
        *zero = all_lanes(w, uop_const_float(w->c.g, UOP_F32, 0)), *x[MAX_VECS],
        *y[MAX_BLOCK], *key[MAX_BLOCK],
        *effects[MAX_BLOCK * MAX_VECS + MAX_VECS], *tops[MAX_VECS], *ok, *done;
    uint32_t i, v, at, n_pairs = w->c.n_pairs, count = 0;

    blocks = op2(&w->c, UOP_FLOORDIV,
                 op2(&w->c, UOP_ADD, w->size, w->block - 1), w->block);
    jb = cpu_loop(w, blocks);
    in = cpu_loop(w, num(&w->c, w->n_in));
    loops[0] = w->tile;
    loops[1] = jb;
    loops[2] = in;
    for (v = 0; v < w->n_vecs; v++) {
        tops[v] = attend_acc(&w->c, all_lanes(w, low(&w->c)), loops, 1);
        x[v] = cpu_load(w, w->q, vector_place(w, in, v), w->lanes);
    }
    for (i = 0, at = 0; i < w->block; i++) {
        key[i] = step(&w->c, num(&w->c, i), jb, w->block);
        y[i] = element(w, &w->k, clamp_key(w, key[i]), in);
        for (v = 0; v < w->n_vecs; v++)
            acc[at++] = attend_acc(&w->c, zero, loops, 2);
    }
    done = add_cpu_products(w, in, acc, x, y, w->block);
    for (v = 0; v < w->n_vecs; v++)
        most[v] = attend_get(&w->c, tops[v], jb);
    for (i = 0, at = 0; i < w->block; i++) {
        ok = w->is_ragged || w->c.n_keys % w->block
                 ? uop_alu2(w->c.g, UOP_CMPLT, key[i], w->size)
                 : NULL;
        for (v = 0; v < w->n_vecs; v++, at++) {
            const struct uop *u = attend_get(&w->c, acc[at], done);
            attend_let(&w->c, w->c.factor ? w->c.scaled : w->c.a->score, u);
            attend_let_range(
                &w->c, w->c.a->key,
                step(&w->c, clamp_key(w, key[i]), w->tile, w->c.tile));
            u = lanes_of(w, w->c.a->seen, cpu_row_of(w, v), n_pairs);
            if (ok)
                u = uop_alu3(w->c.g, UOP_WHERE, all_lanes(w, ok), u,
                             all_lanes(w, low(&w->c)));
            most[v] = uop_alu2(w->c.g, UOP_MAX, most[v], u);
            effects[count++] = store(w, w->p, vector_place(w, key[i], v), u);
        }
    }
    for (v = 0; v < w->n_vecs; v++)
        effects[count++] = attend_set(&w->c, tops[v], most[v]);
    done = end(w, jb, effects, count);
    for (v = 0; v < w->n_vecs; v++)
        most[v] = attend_get(&w->c, tops[v], done);
    w->p = attend_after(&w->c, w->p, &done, 1);
}

/* P becomes E; effects that set the maxima and sums to effects[]. */
static uint32_t
make_cpu_exps(struct cpu_work *w, const struct uop *const *most,
              const struct uop **effects)
{
    const struct uop *key = cpu_loop(w, w->size), *sums[MAX_VECS],
                     *max[MAX_VECS], *safe[MAX_VECS], *made[2 * MAX_VECS], *u,
                     *done,
                     *zero = all_lanes(w, uop_const_float(w->c.g, UOP_F32, 0));
    uint32_t v, n = 0, count = 0, n_pairs = w->c.n_pairs;

    for (v = 0; v < w->n_vecs; v++) {
        u = attend_get(&w->c, w->max[v], w->tile);
        max[v] = uop_alu2(w->c.g, UOP_MAX, u, most[v]);
        safe[v] = attend_safe(&w->c, max[v]);
        w->scale[v] = attend_rescale(&w->c, u, safe[v]);
        sums[v] = attend_acc(&w->c, zero, &w->tile, 1);
        u = cpu_load(w, w->p, vector_place(w, key, v), w->lanes);
        u = attend_exp(&w->c, u, safe[v]);
        made[n++] = attend_set(
            &w->c, sums[v],
            uop_alu2(w->c.g, UOP_ADD, attend_get(&w->c, sums[v], key), u));
        attend_let(&w->c, w->c.a->exp, u);
        u = lanes_of(w, w->c.a->weight, cpu_row_of(w, v), n_pairs);
        made[n++] = store(w, w->p, vector_place(w, key, v), u);
    }
    done = end(w, key, made, n);
    for (v = 0; v < w->n_vecs; v++) {
        effects[count++] = attend_set(&w->c, w->max[v], max[v]);
        u = uop_alu3(w->c.g, UOP_MULACC, attend_get(&w->c, w->sum[v], w->tile),
                     w->scale[v], attend_get(&w->c, sums[v], done));
        effects[count++] = attend_set(&w->c, w->sum[v], u);
    }
    w->p = attend_after(&w->c, w->p, &done, 1);
    return count;
}

/* Adds E @ v to columns first .. first + n * block - 1 of O. */
static const struct uop *
add_cpu_values(struct cpu_work *w, int64_t first, int64_t n, uint32_t block)
{
    const struct uop *cb = cpu_loop(w, num(&w->c, n)), *key, *loops[2], *done,
                     *col, *acc[MAX_BLOCK * MAX_VECS], *x[MAX_VECS],
                     *y[MAX_BLOCK], *effects[MAX_BLOCK * MAX_VECS];
    uint32_t i, v, at;

    loops[0] = w->tile;
    loops[1] = cb;
    key = cpu_loop(w, w->size);
    for (v = 0; v < w->n_vecs; v++)
        x[v] = cpu_load(w, w->p, vector_place(w, key, v), w->lanes);
    for (i = 0, at = 0; i < block; i++) {
        col = step(&w->c, num(&w->c, first + i), cb, block);
        y[i] = element(w, &w->v, key, col);
        for (v = 0; v < w->n_vecs; v++, at++) {
            const struct uop *u =
                cpu_load(w, w->o, vector_place(w, col, v), w->lanes);
            u = uop_alu2(w->c.g, UOP_MUL, u, w->scale[v]);
            acc[at] = attend_acc(&w->c, u, loops, 2);
        }
    }
    done = add_cpu_products(w, key, acc, x, y, block);
    for (i = 0, at = 0; i < block; i++) {
        col = step(&w->c, num(&w->c, first + i), cb, block);
        for (v = 0; v < w->n_vecs; v++, at++)
            effects[at] = store(w, w->o, vector_place(w, col, v),
                                attend_get(&w->c, acc[at], done));
    }
    return end(w, cb, effects, at);
}

/* The loop over tiles; its END. */
static const struct uop *
make_cpu_loop(struct cpu_work *w)
{
    const struct uop *effects[2 * MAX_VECS + 2], *most[MAX_VECS], *memory[2],
        *after[2], *zero = uop_const_float(w->c.g, UOP_F32, 0), *col, *tiles,
                   *done, *first;
    struct part *parts[2] = {&w->k, &w->v};
    int64_t rows = (int64_t)w->lanes * w->n_vecs;
    uint32_t i, n, block = w->block;

    col = cpu_loop(w, turns_with_rows(w, num(&w->c, w->n_cols)));
    w->o = expand_local(w->c.e, UOP_F32, (uint64_t)(w->n_cols * rows));
    for (i = 0; i < w->n_vecs; i++) {
        effects[i] =
            store(w, w->o, vector_place(w, col, i), all_lanes(w, zero));
        w->max[i] = attend_acc(&w->c, all_lanes(w, low(&w->c)), NULL, 0);
        w->sum[i] = attend_acc(&w->c, all_lanes(w, zero), NULL, 0);
    }
    after[0] = end(w, col, effects, w->n_vecs);
    w->p = expand_local(w->c.e, UOP_F32,
                        (uint64_t)((w->c.tile + block - 1) * rows));
    tiles = attend_count_tiles(&w->c, w->row0,
                               op2(&w->c, UOP_ADD, w->row0, rows - 1), &first);
    w->tile = cpu_loop(w, turns_with_rows(w, tiles));
    w->size = num(&w->c, w->c.tile);
    if (w->is_ragged || w->c.n_keys % w->c.tile) {
        w->size = op2(&w->c, UOP_MUL, w->tile, -w->c.tile);
        w->size = uop_alu2(w->c.g, UOP_ADD, w->size,
                           w->is_ragged ? attend_end(w->c.e->k, w->c.a->key)
                                        : num(&w->c, w->c.n_keys));
        w->size = op2(&w->c, UOP_MIN, w->size, w->c.tile);
    }
    for (i = 0; i < 2; i++) {
        struct part *p = parts[i];
        if (lies_ready(p->value))
            continue;
        memory[i] =
            expand_local(w->c.e, UOP_F32,
                         (uint64_t)(w->c.tile * w->c.e->k->sizes[p->range]));
        copy_part(w, p, memory[i]);
    }
    make_cpu_scores(w, most);
    n = make_cpu_exps(w, most, effects);
    after[1] = w->p->src[1]; /* in the loop, so */
    w->o = attend_after(&w->c, w->o, after, 2);
    if (w->n_cols >= block)
        effects[n++] = add_cpu_values(w, 0, w->n_cols / block, block);
    if (w->n_cols % block)
        effects[n++] = add_cpu_values(w, w->n_cols / block * block, 1,
                                      (uint32_t)(w->n_cols % block));
    done = end(w, w->tile, effects, n);
    w->o = attend_after(&w->c, w->o->src[0], &done, 1);
    return done;
}

static const struct uop *
make_cpu_stores(struct cpu_work *w, const struct uop *done)
{
    const struct uop *src[4], *effects[MAX_VECS],
        *col = cpu_loop(w, turns_with_rows(w, num(&w->c, w->n_cols)));
    const struct uop *sink = w->c.a->store;
    int64_t rows = (int64_t)w->lanes * w->n_vecs, step;
    uint32_t v, n = w->c.n_pairs;
    bool ahead = !w->rows && w->c.n_rows % rows;

    for (v = 0; v < w->n_vecs; v++) {
        attend_let(&w->c, w->c.a->out,
                   cpu_load(w, w->o, vector_place(w, col, v), w->lanes));
        attend_let(&w->c, w->c.a->sum, attend_get(&w->c, w->sum[v], done));
        attend_let(&w->c, w->c.a->max, attend_get(&w->c, w->max[v], done));
        attend_let_range(&w->c, w->c.a->col, col);
        src[2] = all_lanes(w, lanes_of(w, sink->src[2], cpu_row_of(w, v), n));
        attend_let_range(&w->c, w->c.a->col, col);
        src[1] = lanes_of(w, sink->src[1], cpu_row_of(w, v), n);
        if (is_cpu_ramp(w, sink->src[1], &step) && step == 1)
            src[1] = w->scalar[kernel_pos(w->c.e->k, sink->src[1])];
        src[0] = sink->src[0];
        if (ahead)
            src[3] = expand_ramp_compare(w->c.e, UOP_CMPLT,
                                         op2(&w->c, UOP_ADD, w->own, -1),
                                         cpu_row_of(w, v), w->lanes, -1);
        if (w->rows) {
            w->row = cpu_row_of(w, v);
            src[3] = has_rows(w);
            if (w->c.valid)
                src[3] =
                    uop_alu2(w->c.g, UOP_AND, src[3], all_lanes(w, w->c.valid));
        }
        effects[v] = uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src,
                              ahead || w->rows ? 4 : 3);
    }
    return end(w, col, effects, w->n_vecs);
}

/* ---- sizes ---- */

static int64_t
cpu_local_bytes(const struct cpu_work *w)
{
    int64_t rows = (int64_t)w->lanes * w->n_vecs;
    int64_t n = (w->n_in + w->n_cols + w->c.tile + w->block) * rows;

    n += lies_ready(w->k.value) ? 0 : w->c.tile * w->n_in;
    n += lies_ready(w->v.value) ? 0 : w->c.tile * w->n_cols;
    return 4 * n;
}

/* As many vectors, and keys or columns, as registers hold sums of: 16 of 32, 8
 * of 16, with rows for all threads. Tiles that the caches hold. guess: on a
 * busy Xeon (Sapphire Rapids, 2026-11-23) no number of 64 to 256 keys and 16 to
 * 24 sums was better than these beyond noise. */
static void
choose_cpu_sizes(struct cpu_work *w)
{
    const struct kernel *k = w->c.e->k;
    const struct lower_target *t = k->target;
    double rows = (double)w->c.n_rows;
    uint64_t set;

    for (set = w->c.a->batch; set; set &= set - 1)
        rows *= (double)k->sizes[__builtin_ctzll(set)];
    w->lanes = (uint16_t)(t->vector_bytes / 4);
    w->n_vecs = t->n_vector_regs >= 32 ? 4 : 2;
    w->block = 8;
    w->c.tile = ATTEND_ONE_TILE; /* and less by what all forms have in common */
    while (w->c.tile > 16 && cpu_local_bytes(w) > LOCAL_BYTES)
        w->c.tile /= 2;
    while (w->c.tile > 16 && w->c.tile / 2 >= w->c.n_keys)
        w->c.tile /= 2; /* one tile all the same */
    if (attend_end(k, w->c.a->row) && w->n_vecs > 2)
        w->n_vecs = 2; /* of rows that may be few */
    while (w->n_vecs > 1 &&
           (w->lanes * w->n_vecs > w->c.n_rows ||
            rows / (w->lanes * w->n_vecs) < 2 * (double)t->n_threads))
        w->n_vecs /= 2;
    w->block = t->n_vector_regs >= 32 && w->n_vecs < 4 ? 8 : 4;
}

/* Sets the rows of this work-group, and the sizes that a run alone knows. */
static void
set_ends(struct cpu_work *w, int64_t rows)
{
    const struct uop *n = attend_end(w->c.e->k, w->c.a->row);

    w->row0 = w->own;
    if (!n && w->c.n_rows >= rows && !w->c.valid)
        w->row0 = op2(&w->c, UOP_MIN, w->own, w->c.n_rows - rows);
    else
        w->rows = n ? n : num(&w->c, w->c.n_rows);
}

bell_status
expand_attend_host(struct kernel *k, const struct attend *a,
                   const struct uop **out_sink, struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct cpu_work w = {.c = {.e = &e, .g = k->g, .a = a}};
    const struct uop *done;
    int64_t rows;

    w.c.n_rows = k->sizes[a->row];
    w.c.n_keys = k->sizes[a->key];
    w.is_ragged = attend_end(k, a->key) != NULL;
    w.n_in = k->sizes[a->in];
    w.n_cols = k->sizes[a->col];
    w.k = (struct part){.value = a->k, .range = a->in};
    w.v = (struct part){.value = a->v, .range = a->col};
    w.scalar = arena_calloc(&k->mem, k->n_nodes, sizeof(*w.scalar));
    w.vector = arena_calloc(&k->mem, k->n_nodes, sizeof(*w.vector));
    if (!w.scalar || !w.vector)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of attention: out of memory");
    choose_cpu_sizes(&w);
    w.c.is_exact = true;
    attend_find_factor(&w.c);
    rows = (int64_t)w.lanes * w.n_vecs;
    LOG(LOG_OPT, "attention: %d rows by %d keys at a time", (int)rows,
        (int)w.c.tile);
    BELL_TRY(attend_map_groups(&w.c, rows, program, &w.own));
    set_ends(&w, rows);
    copy_cpu_queries(&w);
    done = make_cpu_loop(&w);
    done = make_cpu_stores(&w, done);
    *out_sink = uop_new(w.c.g, UOP_SINK, UOP_VOID, 1, no_arg, &done, 1);
    program->shared_bytes = e.shared_bytes;
    return uop_graph_status(w.c.g);
}
