/* Prices and counts. Prices are throughput on a recent out-of-order core,
 * where a vector operation costs about what a scalar one does.
 * guess: tuned by measuring matmul, softmax, sums and convolutions on one
 * AVX-512 machine; only ratios matter. */
#include "lower/opt/opt_model.h"

#include <assert.h>

#define DECOMPOSED_CAST 12  /* instructions, of F16 where it is not native */
#define GATHER_PENALTY  0.7 /* per element, over a scalar load */
#define INDEX_PENALTY   2.0 /* per division of an index, done in lanes */
#define SCATTER_PENALTY 1.0 /* per element, over a scalar store */

static double
op_price(const struct uop *u)
{
    bool by_const = u->n_src > 1 && u->src[1]->op == UOP_CONST;

    switch ((int)u->op) {
    case UOP_FDIV:
    case UOP_RECIP:
    case UOP_SQRT:
        return 5;
    case UOP_EXP2:
        return 20;
    case UOP_LOG2:
        return 22;
    case UOP_SIN:
    case UOP_COS:
        return 40;
    case UOP_POW:
        return 80;
    case UOP_FMOD:
        return 150;
    case UOP_FFLOORDIV:
        return 15;
    case UOP_IDIV:
    case UOP_IMOD:
    case UOP_FLOORDIV:
    case UOP_FLOORMOD:
        return by_const ? 5 : 25;
    default:
        return 1;
    }
}

static double
op_code(const struct uop *u)
{
    bool by_const = u->n_src > 1 && u->src[1]->op == UOP_CONST;

    switch ((int)u->op) {
    case UOP_EXP2:
        return 25;
    case UOP_LOG2:
        return 30;
    case UOP_SIN:
    case UOP_COS:
        return 60;
    case UOP_POW:
    case UOP_FMOD:
        return 100;
    case UOP_FFLOORDIV:
        return 12;
    case UOP_IDIV:
    case UOP_IMOD:
    case UOP_FLOORDIV:
    case UOP_FLOORMOD:
        return by_const ? 5 : 15;
    default:
        return 1;
    }
}

static bool
is_free(const struct kernel *k, uint32_t pos)
{
    const struct uop *u = k->nodes[pos];

    assert(pos < k->n_nodes);
    return u->n_src == 0 || u->op == UOP_RANGE || u->op == UOP_SINK ||
           k->coefs[pos] != NULL || k->deps[pos] == 0;
}

static bool
is_half_type(const struct uop *u)
{
    return uop_dtype_is_small(u->dtype);
}

/* Whether CASTs to and from it are several instructions. */
static bool
is_decomposed(const struct kernel *k, unsigned dtype)
{
    return uop_dtype_is_f8(dtype) || (dtype == UOP_F16 && !k->target->has_f16);
}

/* A product that the reduction above adds in the same instruction. */
static bool
is_fused_sum(const struct kernel *k, const struct uop *u)
{
    return u->op == UOP_REDUCE && u->arg.i == UOP_ADD &&
           u->src[0]->op == UOP_MUL && k->target->has_fma &&
           (u->dtype == UOP_F32 || u->dtype == UOP_F64);
}

static void
mark_values(struct opt_model *m)
{
    const struct kernel *k = m->k;
    uint32_t i, j;

    for (i = k->n_nodes; i-- > 0;) {
        const struct uop *u = k->nodes[i];
        if (u->op == UOP_STORE) {
            m->is_value[kernel_pos(k, u->src[2])] = true;
        } else if (u->op == UOP_LOAD) {
            if (u->n_src > 2 && m->is_value[i])
                m->is_value[kernel_pos(k, u->src[2])] = true;
        } else if (m->is_value[i]) {
            for (j = 0; j < (u->op == UOP_REDUCE ? 1 : u->n_src); j++)
                m->is_value[kernel_pos(k, u->src[j])] = true;
        }
    }
}

/* The loops that something is in which varies with `ranges`: a reduction's
 * loop stands inside all that the reduction depends on, an output loop inside
 * the output loops before it. */
static uint64_t
loops_around(const struct kernel *k, uint64_t ranges)
{
    uint64_t outputs;
    uint32_t i;

    for (i = 0; i < k->n_groups; i++) { /* by level: inner loops first */
        if (ranges & k->groups[i].bound)
            ranges |= k->groups[i].bound | k->groups[i].context;
    }
    outputs = ranges & ~k->reduce_ranges;
    if (outputs)
        ranges |= ~k->reduce_ranges &
                  (((uint64_t)2 << (63 - __builtin_clzll(outputs))) - 1);
    return ranges;
}

bell_status
opt_model_init(struct opt_model *m, struct kernel *k)
{
    struct arena *mem = &k->mem;
    uint32_t i;

    m->k = k;
    m->is_value = arena_calloc(mem, k->n_nodes, sizeof(*m->is_value));
    m->price = arena_calloc(mem, k->n_nodes, sizeof(*m->price));
    m->code = arena_calloc(mem, k->n_nodes, sizeof(*m->code));
    m->trips = arena_calloc(mem, k->n_nodes, sizeof(*m->trips));
    m->step = arena_calloc(mem, k->n_nodes, sizeof(*m->step));
    if (!m->is_value || !m->price || !m->code || !m->trips || !m->step)
        return bell_fail(BELL_E_NO_MEMORY, "cost of %u nodes: out of memory",
                         k->n_nodes);
    mark_values(m);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        uint64_t ranges = k->deps[i];
        if (u->op == UOP_REDUCE)
            ranges |= kernel_bound(k, u);
        m->trips[i] = kernel_count(k, loops_around(k, ranges));
        if (is_free(k, i) && u->op != UOP_REDUCE)
            continue;
        m->price[i] = op_price(u);
        m->code[i] = op_code(u);
        if (is_half_type(u) && uop_has(u, UOP_FLAG_ALU)) {
            m->price[i] += 3;
            m->code[i] += 3;
        }
        if (u->op == UOP_CAST && (is_decomposed(k, u->dtype) ||
                                  is_decomposed(k, u->src[0]->dtype))) {
            m->price[i] += DECOMPOSED_CAST;
            m->code[i] += DECOMPOSED_CAST;
        }
        if (is_fused_sum(k, u))
            m->price[i] = m->code[i] = 0;
    }
    return BELL_OK;
}

/* Bytes of one lane of the node's work; 0 where it does not matter. */
static uint32_t
work_bytes(const struct opt_model *m, uint32_t pos)
{
    const struct kernel *k = m->k;
    const struct uop *u = k->nodes[pos];
    enum uop_dtype dtype = u->dtype;

    assert(pos < m->k->n_nodes);
    if (u->op == UOP_STORE)
        dtype = u->src[0]->dtype;
    else if (!m->is_value[pos] || k->coefs[pos] || u->n_src == 0 ||
             (dtype == UOP_BOOL && u->op != UOP_LOAD))
        return 0;
    if (is_half_type(u) && u->op != UOP_LOAD)
        return 4;
    return uop_dtype_infos[dtype].size_bytes;
}

int64_t
opt_model_lanes(const struct opt_model *m, uint32_t r, bool overlap)
{
    const struct kernel *k = m->k;
    bool reduce = k->reduce_ranges >> r & 1;
    int64_t n = k->sizes[r], lanes, least, best = 0;
    uint32_t i, widest = 0;

    assert(r < m->k->n_ranges);
    for (i = 0; i < k->n_nodes; i++) {
        uint32_t bytes = k->deps[i] >> r & 1 ? work_bytes(m, i) : 0;
        widest = bytes > widest ? bytes : widest;
    }
    if (!widest || n < 0)
        return 0;
    lanes = k->target->vector_bytes / widest;
    least = lanes / 4 > 2 ? lanes / 4 : 2;
    for (; lanes >= least; lanes /= 2) {
        if (lanes > n || (!reduce && !overlap && n % lanes))
            continue;
        if (!best ||
            (!reduce && (n + lanes - 1) / lanes == (n + best - 1) / best))
            best = lanes;
    }
    return best;
}

/* Step of a division's result, its source moving by `step` a lane. */
static int64_t
divided_step(const struct uop *u, int64_t step, int64_t lanes, bool whole)
{
    int64_t by = u->src[1]->op == UOP_CONST ? u->src[1]->arg.i : 0, extent;

    if (!whole || by <= 0 || step <= 0 ||
        __builtin_mul_overflow(step, lanes, &extent) || by % extent)
        return KERNEL_NONAFFINE;
    return u->op == UOP_FLOORDIV ? 0 : step;
}

static int64_t
step_of(const struct opt_model *m, const struct uop *u, uint32_t r,
        int64_t lanes, bool whole)
{
    const struct kernel *k = m->k;
    int64_t a, b = 0, step = kernel_coef(k, u, r);
    bool by_const = u->n_src > 1 && u->src[1]->op == UOP_CONST;

    if (step != KERNEL_NONAFFINE || u->dtype != UOP_I64 || u->n_src == 0)
        return step;
    a = m->step[kernel_pos(k, u->src[0])];
    if (u->n_src > 1)
        b = m->step[kernel_pos(k, u->src[1])];
    if (a == KERNEL_NONAFFINE || b == KERNEL_NONAFFINE)
        return KERNEL_NONAFFINE;
    switch ((int)u->op) {
    case UOP_ADD:
        return a + b;
    case UOP_SUB:
        return a - b;
    case UOP_MUL:
        return by_const && !__builtin_mul_overflow(a, u->src[1]->arg.i, &step)
                   ? step
                   : KERNEL_NONAFFINE;
    case UOP_FLOORDIV:
    case UOP_FLOORMOD:
        return divided_step(u, a, lanes, whole);
    default:
        return KERNEL_NONAFFINE;
    }
}

void
opt_model_steps(struct opt_model *m, uint32_t r, int64_t lanes)
{
    const struct kernel *k = m->k;
    bool whole = k->sizes[r] % lanes == 0;
    uint32_t i;

    assert(r < m->k->n_ranges && lanes > 0);
    for (i = 0; i < k->n_nodes; i++)
        m->step[i] = step_of(m, k->nodes[i], r, lanes, whole);
}

/* Address arithmetic: 64-bit lanes win nothing over scalars. */
static bool
is_index(const struct opt_model *m, uint32_t pos)
{
    assert(pos < m->k->n_nodes);
    return !m->is_value[pos] && m->k->nodes[pos]->dtype == UOP_I64;
}

/* A load in a reduction serves this many results at once, where copies of
 * another output range can share it. */
static double
load_reuse(const struct opt_model *m, uint32_t pos, uint32_t r)
{
    const struct kernel *k = m->k;
    uint64_t context = 0;
    int64_t most = 1;
    uint32_t i;

    for (i = 0; i < k->n_groups; i++) {
        if (k->groups[i].bound & k->deps[pos])
            context |= k->groups[i].context;
    }
    context &= ~(k->deps[pos] | k->reduce_ranges | (uint64_t)1 << r);
    for (; context; context &= context - 1) {
        int64_t size = k->sizes[__builtin_ctzll(context)];
        most = size > most ? size : most;
    }
    return (double)(most < 8 ? most : 8);
}

/* No vector unit divides integers. */
static bool
is_scalar_division(const struct uop *u)
{
    return (u->op == UOP_IDIV || u->op == UOP_IMOD || u->op == UOP_FLOORDIV ||
            u->op == UOP_FLOORMOD) &&
           u->src[1]->op != UOP_CONST;
}

double
opt_model_gain(struct opt_model *m, uint32_t r, int64_t lanes)
{
    const struct kernel *k = m->k;
    double n = (double)k->sizes[r],
           vectors = (double)((k->sizes[r] + lanes - 1) / lanes);
    double saved = 1 - vectors / n, gain = 0;
    uint32_t i;

    opt_model_steps(m, r, lanes);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        bool bound = u->op == UOP_REDUCE && kernel_bound(k, u) >> r & 1;
        bool access = u->op == UOP_LOAD || u->op == UOP_STORE;
        double trips = m->trips[i];
        int64_t step;
        if (bound)
            gain += m->trips[i] * m->price[i] * saved -
                    m->trips[i] / n * OPT_LANES_REDUCE;
        if (bound || !(k->deps[i] >> r & 1) || m->price[i] == 0)
            continue;
        step = access ? m->step[kernel_pos(k, u->src[1])] : 0;
        if (u->op == UOP_LOAD)
            trips /= load_reuse(m, i, r);
        if (access && step != 1)
            gain -=
                trips * (u->op == UOP_LOAD ? GATHER_PENALTY : SCATTER_PENALTY);
        else if (is_index(m, i))
            gain -= m->step[i] == KERNEL_NONAFFINE && m->price[i] > 1
                        ? m->trips[i] * INDEX_PENALTY
                        : 0;
        else if (!is_scalar_division(u))
            gain += trips * m->price[i] * saved;
    }
    return gain;
}

double
opt_model_total(const struct opt_model *m, const int64_t *lanes)
{
    const struct kernel *k = m->k;
    double total = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        uint64_t ranges = k->deps[i];
        double cost = m->price[i] * m->trips[i];
        if (u->op == UOP_REDUCE)
            ranges |= kernel_bound(k, u);
        for (; ranges; ranges &= ranges - 1)
            cost /= (double)lanes[__builtin_ctzll(ranges)];
        total += cost;
    }
    return total;
}
