/* Random programs: leaves, choice of ops and operands, data from seeds. */
#include "tools/fuzz/fuzz_gen.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

static const struct fuzz_op_table *const tables[] = {
    &fuzz_ops_elementwise, &fuzz_ops_shape, &fuzz_ops_nn, &fuzz_ops_small,
    &fuzz_ops_named};

size_t
fuzz_op_count(void)
{
    size_t n = 0, i;

    for (i = 0; i < ARRAY_LEN(tables); i++)
        n += tables[i]->n_rows;
    return n;
}

const struct fuzz_op *
fuzz_op_at(size_t at)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(tables); i++) {
        if (at < tables[i]->n_rows)
            return &tables[i]->rows[at];
        at -= tables[i]->n_rows;
    }
    return NULL;
}

/* ---- choices ---------------------------------------------------------- */

bool
fuzz_any(struct bell_tensor *t)
{
    (void)t;
    return true;
}

bool
fuzz_is_float(struct bell_tensor *t)
{
    return bell_dtype_of(t) >= BELL_FLOAT16;
}

bool
fuzz_is_bool(struct bell_tensor *t)
{
    return bell_dtype_of(t) == BELL_BOOL;
}

bool
fuzz_is_int(struct bell_tensor *t)
{
    return !fuzz_is_float(t) && !fuzz_is_bool(t);
}

bool
fuzz_is_number(struct bell_tensor *t)
{
    return !fuzz_is_bool(t);
}

bool
fuzz_is_bits(struct bell_tensor *t)
{
    return !fuzz_is_float(t);
}

enum bell_dtype
fuzz_random_float(struct fuzz_gen *g)
{
    static const enum bell_dtype floats[] = {
        BELL_FLOAT32, BELL_FLOAT32, BELL_FLOAT32, BELL_FLOAT64,
        BELL_FLOAT64, BELL_FLOAT16, BELL_BFLOAT16};

    if (g->grad)
        return BELL_FLOAT64;
    return floats[fuzz_below(&g->rng, ARRAY_LEN(floats))];
}

enum bell_dtype
fuzz_random_dtype(struct fuzz_gen *g)
{
    if (g->grad || !fuzz_one_in(&g->rng, 3))
        return fuzz_random_float(g);
    return (enum bell_dtype)(BELL_BOOL + fuzz_below(&g->rng, 9));
}

int64_t
fuzz_random_size(struct fuzz_gen *g)
{
    static const int64_t sizes[] = {1, 2,  2,  3,  3,  4,  5,  7, 8,
                                    9, 13, 15, 16, 17, 31, 32, 33};

    if (fuzz_has_sizes(g) && fuzz_one_in(&g->rng, 2))
        return fuzz_some_size(g);
    if (g->shapes == FUZZ_SHAPES_ODD)
        return 3 + 2 * (int64_t)fuzz_below(&g->rng, g->grad ? 3 : 9);
    if (g->shapes == FUZZ_SHAPES_EMPTY && fuzz_one_in(&g->rng, 2))
        return 0;
    if (fuzz_one_in(&g->rng, 60) && !g->grad)
        return 0;
    if (g->grad)
        return sizes[fuzz_below(&g->rng, 8)];
    if (g->max_elems > 10000 && fuzz_one_in(&g->rng, 3))
        return 64 + (int64_t)fuzz_below(&g->rng, 200);
    return sizes[fuzz_below(&g->rng, ARRAY_LEN(sizes))];
}

int64_t
fuzz_random_axis(struct fuzz_gen *g, uint32_t rank)
{
    int64_t axis = (int64_t)fuzz_below(&g->rng, rank);

    return fuzz_one_in(&g->rng, 2) ? axis : axis - (int64_t)rank;
}

void
fuzz_random_axes(struct fuzz_gen *g, uint32_t rank, struct fuzz_node *node)
{
    uint32_t i;

    node->n_list = 0;
    for (i = 0; i < rank; i++) {
        if (fuzz_one_in(&g->rng, 2))
            node->list[node->n_list++] =
                fuzz_one_in(&g->rng, 3) ? (int64_t)i - rank : (int64_t)i;
    }
}

/* A shape within the limit of elements. */
static uint32_t
random_shape(struct fuzz_gen *g, uint32_t min_rank, uint32_t max_rank,
             int64_t *shape)
{
    uint32_t rank =
        min_rank + (uint32_t)fuzz_below(&g->rng, max_rank - min_rank + 1);
    uint64_t n = 1;
    uint32_t i;

    if (rank > 4 && rank > min_rank && !fuzz_one_in(&g->rng, 4))
        rank = min_rank > 3 ? min_rank : 3;
    for (i = 0; i < rank; i++) {
        shape[i] = fuzz_random_size(g);
        while (n * (uint64_t)shape[i] > g->max_elems)
            shape[i] = (shape[i] + 1) / 2;
        n *= (uint64_t)(shape[i] ? shape[i] : 1);
    }
    return rank;
}

static bool
is_full(const struct fuzz_gen *g)
{
    return g->prog->n_nodes == FUZZ_MAX_NODES;
}

/* Builds the node and keeps it if the API takes it. */
static int
append(struct fuzz_gen *g, const struct fuzz_node *node)
{
    uint32_t n = g->prog->n_nodes;
    struct bell_tensor *t;

    if (is_full(g))
        return -1;
    g->prog->nodes[n] = *node;
    if (g->lacks_f64 && node->dtype == BELL_FLOAT64)
        g->prog->nodes[n].dtype = BELL_FLOAT32;
    node = &g->prog->nodes[n];
    if (node->op != 0)
        t = fuzz_call(g->ctx, node, g->tensors);
    else /* shape and dtype are all that counts here */
        t = bell_zeros(g->ctx, node->list, node->n_list,
                       (enum bell_dtype)node->dtype);
    if (bell_context_status(g->ctx) != BELL_OK || bell_is_error(t) ||
        bell_numel(t) > 4 * g->max_elems || bell_ndim(t) > 6)
        return -1;
    g->tensors[n] = t;
    g->prog->n_nodes++;
    if (fuzz_has_sizes(g) && !fuzz_sizes_append(g)) {
        g->prog->n_nodes--;
        return -1;
    }
    return (int)n;
}

int
fuzz_leaf(struct fuzz_gen *g, enum bell_dtype dtype, const int64_t *shape,
          uint32_t ndim, enum fuzz_data data, int64_t bound)
{
    struct fuzz_node node = {
        .op = 0, .dtype = (uint8_t)dtype, .n_list = (uint8_t)ndim};

    if (ndim)
        memcpy(node.list, shape, ndim * sizeof(*shape));
    if (g->grad && data == FUZZ_DATA_COARSE)
        data = FUZZ_DATA_NORMAL; /* equal elements are kinks of a gradient */
    if (data == FUZZ_DATA_NORMAL && !g->grad) {
        if (fuzz_one_in(&g->rng, 3))
            data = FUZZ_DATA_COARSE;
        else if (fuzz_one_in(&g->rng, 4))
            data = FUZZ_DATA_SPECIAL;
        else if (fuzz_one_in(&g->rng, 12))
            data = FUZZ_DATA_WIDE;
    }
    node.i[0] = data;
    node.i[1] = bound;
    node.i[2] = (int64_t)(fuzz_next(&g->rng) >> 1);
    return append(g, &node);
}

int
fuzz_pick_rank(struct fuzz_gen *g, bool (*fits)(struct bell_tensor *t),
               uint32_t min_rank, uint32_t max_rank, enum fuzz_data data)
{
    int64_t shape[8];
    enum bell_dtype dtype;
    uint32_t tries, rank;

    for (tries = 0; tries < 6 && g->prog->n_nodes > 0; tries++) {
        uint32_t k = (uint32_t)fuzz_below(&g->rng, g->prog->n_nodes);
        struct bell_tensor *t = g->tensors[k];
        /* later nodes are more interesting */
        uint32_t other = (uint32_t)fuzz_below(&g->rng, g->prog->n_nodes);
        if (other > k)
            t = g->tensors[k = other];
        if (fits(t) && bell_ndim(t) >= min_rank && bell_ndim(t) <= max_rank &&
            (data == FUZZ_DATA_NORMAL || fuzz_one_in(&g->rng, 3)))
            return (int)k;
    }
    for (tries = 0; tries < 20; tries++) {
        dtype = fuzz_random_dtype(g);
        if (tries > 10)
            dtype = (enum bell_dtype)(BELL_BOOL +
                                      fuzz_below(&g->rng, BELL_FLOAT64));
        if (fits == fuzz_any ||
            (fits == fuzz_is_float && dtype >= BELL_FLOAT16) ||
            (fits == fuzz_is_bool && dtype == BELL_BOOL) ||
            (fits == fuzz_is_int && dtype > BELL_BOOL &&
             dtype < BELL_FLOAT16) ||
            (fits == fuzz_is_number && dtype > BELL_BOOL) ||
            (fits == fuzz_is_bits && dtype < BELL_FLOAT16))
            break;
    }
    if (tries == 20)
        dtype = fits == fuzz_is_float  ? fuzz_random_float(g)
                : fits == fuzz_is_bool ? BELL_BOOL
                                       : BELL_INT32;
    rank = random_shape(g, min_rank, max_rank, shape);
    return fuzz_leaf(g, dtype, shape, rank, data, 0);
}

int
fuzz_pick(struct fuzz_gen *g, bool (*fits)(struct bell_tensor *t),
          enum fuzz_data data)
{
    return fuzz_pick_rank(g, fits, 0, 5, data);
}

int
fuzz_pick_like(struct fuzz_gen *g, int x, bool (*fits)(struct bell_tensor *t),
               enum fuzz_data data)
{
    struct bell_tensor *like = g->tensors[x];
    uint32_t rank = bell_ndim(like), drop, i, tries;
    enum bell_dtype dtype = bell_dtype_of(like);
    int64_t shape[8];

    for (tries = 0; tries < 4 && g->shapes != FUZZ_SHAPES_SPREAD; tries++) {
        uint32_t k = (uint32_t)fuzz_below(&g->rng, g->prog->n_nodes);
        struct bell_tensor *t = g->tensors[k];
        if (fits(t) && bell_ndim(t) == rank && data == FUZZ_DATA_NORMAL &&
            memcmp(bell_shape(t), bell_shape(like), rank * sizeof(int64_t)) ==
                0)
            return (int)k;
    }
    drop =
        fuzz_one_in(&g->rng, 3) ? (uint32_t)fuzz_below(&g->rng, rank + 1) : 0;
    for (i = drop; i < rank; i++)
        shape[i - drop] =
            fuzz_one_in(&g->rng, g->shapes == FUZZ_SHAPES_SPREAD ? 2 : 5)
                ? 1
                : bell_shape(like)[i];
    if (!fits(like) || (fits == fuzz_any && fuzz_one_in(&g->rng, 6)) ||
        (fits == fuzz_is_number && fuzz_one_in(&g->rng, 8)))
        dtype = fits == fuzz_is_bool    ? BELL_BOOL
                : fits == fuzz_is_float ? fuzz_random_float(g)
                : fits == fuzz_is_int || fits == fuzz_is_bits
                    ? (enum bell_dtype)(BELL_INT8 + fuzz_below(&g->rng, 8))
                : fits == fuzz_is_number
                    ? (enum bell_dtype)(BELL_INT8 + fuzz_below(&g->rng, 12))
                    : fuzz_random_dtype(g);
    if (g->grad && dtype != BELL_BOOL)
        dtype = BELL_FLOAT64;
    return fuzz_leaf(g, dtype, shape, rank - drop, data, 0);
}

/* ---- data ------------------------------------------------------------- */

/* Where a dtype's arithmetic changes its rules: zeros, the ends of the
 * subnormal and of the normal numbers, and some whose products and quotients
 * lie there. */
static double
special_float(struct fuzz_rng *rng, enum uop_dtype dtype)
{
    static const double others[] = {
        1,     0.5,  65504, 255.5,        1e38,   3e38,  1e-38,
        1e-40, 6e-8, 1e19,  2147483648.0, 0x1p63, 1e300, 1e-310};
    const struct uop_dtype_info *f = &uop_dtype_infos[dtype];
    double unit = ldexp(1, f->min_exp - f->fraction_bits), x;
    double n_units = ldexp(1, f->fraction_bits);

    switch (fuzz_below(rng, 10)) {
    case 0:
        x = 0;
        break;
    case 1:
        x = unit;
        break;
    case 2:
        x = unit * (n_units - 1);
        break;
    case 3:
        x = unit * floor(fuzz_uniform(rng, 1, n_units));
        break;
    case 4:
        x = ldexp(1, f->min_exp);
        break;
    case 5:
        x = f->greatest;
        break;
    case 6:
        x = fuzz_one_in(rng, 2) ? INFINITY : NAN;
        break;
    default:
        x = others[fuzz_below(rng, ARRAY_LEN(others))];
        break;
    }
    return fuzz_one_in(rng, 2) ? -x : x;
}

static double
random_float(struct fuzz_rng *rng, enum fuzz_data data, enum uop_dtype dtype,
             size_t k)
{
    switch (data) {
    case FUZZ_DATA_COARSE:
        return (double)((int)fuzz_below(rng, 33) - 16) / 4;
    case FUZZ_DATA_POSITIVE:
        return fuzz_uniform(rng, 0.2, 2.2);
    case FUZZ_DATA_UNIT:
        return fuzz_uniform(rng, 0.05, 0.95);
    case FUZZ_DATA_WIDE:
        return ldexp(fuzz_uniform(rng, -1, 1), (int)fuzz_below(rng, 41) - 20);
    case FUZZ_DATA_SPECIAL:
        if (fuzz_one_in(rng, 5))
            return special_float(rng, dtype);
        break;
    case FUZZ_DATA_DISTINCT: /* each step of 1/700 once, then jittered */
        return (double)((k * (size_t)(1 + (rng->first >> 40)) + 1) % 4099) /
                   700 -
               3 + fuzz_uniform(rng, 0, 1e-4);
    case FUZZ_DATA_NORMAL:
    case FUZZ_DATA_INDEX:
    case FUZZ_DATA_CLASS:
    case FUZZ_DATA_COUNT:
        break;
    }
    return fuzz_uniform(rng, -2, 2);
}

static int64_t
random_int(struct fuzz_rng *rng, enum fuzz_data data, int64_t bound,
           enum uop_dtype dtype)
{
    bool is_signed = uop_dtype_infos[dtype].is_signed;
    int64_t value;

    if (dtype == UOP_BOOL)
        return (int64_t)fuzz_below(rng, 2);
    if (data == FUZZ_DATA_CLASS || (data == FUZZ_DATA_INDEX && !is_signed))
        return (int64_t)fuzz_below(rng, (uint64_t)bound);
    if (data == FUZZ_DATA_INDEX)
        return (int64_t)fuzz_below(rng, 2 * (uint64_t)bound) - bound;
    if (data == FUZZ_DATA_POSITIVE)
        return 1 + (int64_t)fuzz_below(rng, 9);
    if (data == FUZZ_DATA_WIDE ||
        (data == FUZZ_DATA_SPECIAL && fuzz_one_in(rng, 4)))
        value = (int64_t)(fuzz_next(rng) >> fuzz_below(rng, 64));
    else
        value = (int64_t)fuzz_below(rng, 13) - (is_signed ? 6 : 0);
    return uop_wrap_int(dtype, value);
}

void
fuzz_fill(const struct fuzz_program *prog, uint32_t node,
          struct ref_array *array)
{
    const struct fuzz_node *leaf = &prog->nodes[node];
    struct fuzz_rng rng = fuzz_rng(hash_add(prog->seed, (uint64_t)leaf->i[2]));
    enum fuzz_data data = (enum fuzz_data)leaf->i[0];
    size_t k;

    for (k = 0; k < array->n; k++) {
        if (uop_dtype_infos[array->dtype].is_float)
            array->f[k] = uop_round_float(
                array->dtype, random_float(&rng, data, array->dtype, k));
        else
            array->i[k] = random_int(&rng, data, leaf->i[1], array->dtype);
    }
}

/* ---- programs --------------------------------------------------------- */

static int
random_op(struct fuzz_gen *g)
{
    size_t n = fuzz_op_count(), i;
    uint64_t total = 0, at;

    for (i = 1; i < n; i++)
        total += fuzz_op_at(i)->weight;
    at = fuzz_below(&g->rng, total);
    for (i = 1; i + 1 < n && at >= fuzz_op_at(i)->weight; i++)
        at -= fuzz_op_at(i)->weight;
    return (int)i;
}

static bool
add_call(struct fuzz_gen *g, int op_index)
{
    struct fuzz_node node = {.op = (uint16_t)op_index};

    g->op = fuzz_op_at((size_t)op_index);
    if (g->grad && !g->op->differentiable)
        return false;
    /* if it fails, the leaves that were made for it stay for others */
    if (g->op->max_rank) {
        g->x = fuzz_pick_rank(g, g->op->fits, g->op->min_rank, g->op->max_rank,
                              FUZZ_DATA_NORMAL);
        if (!take(&node, g->x))
            return false;
    }
    return (!g->op->gen || g->op->gen(g, &node)) && append(g, &node) >= 0;
}

static void
add_root(struct fuzz_program *prog, uint32_t node)
{
    uint32_t k;

    for (k = 0; k < prog->n_roots && prog->roots[k] != node; k++)
        ;
    if (k == prog->n_roots && k < FUZZ_MAX_ROOTS && prog->nodes[node].op != 0)
        prog->roots[prog->n_roots++] = (uint16_t)node;
}

/* The last call, some that nothing uses, and sometimes one that others use
 * too. */
static void
choose_roots(struct fuzz_gen *g)
{
    struct fuzz_program *prog = g->prog;
    bool used[FUZZ_MAX_NODES] = {false};
    uint32_t i, k;

    for (i = 0; i < prog->n_nodes; i++) {
        for (k = 0; k < prog->nodes[i].n_src; k++)
            used[prog->nodes[i].src[k]] = true;
    }
    add_root(prog, prog->n_nodes - 1);
    if (g->grad)
        return;
    for (i = prog->n_nodes; i-- > 0;) {
        if (!used[i] && prog->n_roots < 3 && !fuzz_one_in(&g->rng, 4))
            add_root(prog, i);
    }
    if (fuzz_one_in(&g->rng, 3))
        add_root(prog, (uint32_t)fuzz_below(&g->rng, prog->n_nodes));
}

bell_status
fuzz_generate(struct bell_context *ctx, uint64_t seed, uint32_t max_ops,
              bool grad, bool lacks_f64, int only_op, enum fuzz_shapes shapes,
              struct fuzz_program *out_prog)
{
    struct fuzz_gen g = {.rng = {seed},
                         .prog = out_prog,
                         .ctx = ctx,
                         .grad = grad,
                         .lacks_f64 = lacks_f64,
                         .shapes = shapes};
    bell_status status = BELL_OK, end;
    uint32_t n_ops, done = 0, tries;

    memset(out_prog, 0, sizeof(*out_prog));
    out_prog->seed = seed;
    out_prog->lacks_f64 = lacks_f64;
    g.max_elems = grad ? 200 : fuzz_one_in(&g.rng, 25) ? 40000 : 3000;
    n_ops = only_op >= 0 ? 1 : 1 + (uint32_t)fuzz_below(&g.rng, max_ops);
    BELL_TRY(bell_scope_begin(ctx));
    if (fuzz_has_sizes(&g))
        status = fuzz_sizes_begin(&g);
    for (tries = 0; status == BELL_OK && tries < 20 * n_ops && done < n_ops;
         tries++) {
        if (only_op < 0 && out_prog->n_nodes > FUZZ_MAX_NODES - 8)
            break;
        done += add_call(&g, only_op >= 0 ? only_op : random_op(&g));
        if (only_op >= 0 && !done)
            out_prog->n_nodes = 0;
    }
    if (done > 0)
        choose_roots(&g);
    fuzz_drop_dead(out_prog);
    end = bell_scope_end(ctx);
    return status == BELL_OK ? end : status;
}

/* What a node's sizes are those of; -1: no node, or no size. */
static uint32_t
size_node(const struct fuzz_node *node, uint32_t k)
{
    uint16_t size = k < FUZZ_MAX_LIST ? node->list_size[k]
                                      : node->i_size[k - FUZZ_MAX_LIST];

    return size / 8u - 1u;
}

static void
move_size(struct fuzz_node *node, uint32_t k, uint32_t to)
{
    uint16_t *size = k < FUZZ_MAX_LIST ? &node->list_size[k]
                                       : &node->i_size[k - FUZZ_MAX_LIST];

    *size = FUZZ_AXIS(to, *size % 8u);
}

void
fuzz_redirect_sizes(struct fuzz_node *node, const uint16_t *moved)
{
    uint32_t k;

    for (k = 0; k < FUZZ_MAX_LIST + FUZZ_N_NUMBERS; k++) {
        uint32_t from = size_node(node, k);

        if (from < FUZZ_MAX_NODES)
            move_size(node, k, moved[from]);
    }
}

void
fuzz_drop_dead(struct fuzz_program *prog)
{
    uint16_t moved[FUZZ_MAX_NODES] = {0};
    bool used[FUZZ_MAX_NODES] = {false};
    uint32_t n = 0, i, k;

    for (i = 0; i < prog->n_roots; i++)
        used[prog->roots[i]] = true;
    for (i = prog->n_nodes; i-- > 0;) {
        for (k = 0; used[i] && k < prog->nodes[i].n_src; k++)
            used[prog->nodes[i].src[k]] = true;
        for (k = 0; used[i] && k < FUZZ_MAX_LIST + FUZZ_N_NUMBERS; k++) {
            uint32_t from = size_node(&prog->nodes[i], k);
            if (from < FUZZ_MAX_NODES)
                used[from] = true;
        }
    }
    for (i = 0; i < prog->n_nodes; i++) {
        if (!used[i])
            continue;
        moved[i] = (uint16_t)n;
        prog->nodes[n] = prog->nodes[i];
        for (k = 0; k < prog->nodes[n].n_src; k++)
            prog->nodes[n].src[k] = moved[prog->nodes[n].src[k]];
        fuzz_redirect_sizes(&prog->nodes[n], moved);
        n++;
    }
    for (i = 0; i < prog->n_roots; i++)
        prog->roots[i] = moved[prog->roots[i]];
    prog->n_nodes = n;
}
