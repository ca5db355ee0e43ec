/* Numbers and offsets of a graph that vary.
 *
 * Numbers that arithmetic knows and that stay constants: log2(e) and its
 * negative, with which 2^x is e^x and made with more care (decompose_math.c),
 * infinities and NaN.
 */
#include "tensor/runtime/vary.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "tensor/core/dims.h"
#include "tensor/core/node.h"
#include "tensor/runtime/runtime.h"

/* Plans that differ in sizes alone before the program is told. */
#define MANY_PLANS 32

static bool
has_wgmma(const struct tensor_runtime *rt)
{
    return rt->target.lower.wgmma_k[UOP_F16] > 0;
}

/* ---- which plan is for them ---- */

static bool
is_known_number(const struct rt_value *v)
{
    double x;

    if (v->dtype == UOP_VOID || !uop_dtype_infos[v->dtype].is_float)
        return false;
    memcpy(&x, &v->bits, sizeof(x));
    return !isfinite(x) || fabs(x) == M_LOG2E ||
           fabs(x) == (double)(float)M_LOG2E;
}

bool
rt_vary_may(const struct rt_value *v)
{
    return !v->is_fixed && !is_known_number(v);
}

/* 1 + log2 of the factor of an offset; 1 for a number. */
static uint32_t
step_of(const struct rt_value *v)
{
    uint32_t log2;

    if (v->dtype != UOP_VOID)
        return 1;
    log2 = v->bits ? log2_floor(lowest_bit(v->bits)) : v->max_step;
    return 1 + (log2 < v->max_step ? log2 : v->max_step);
}

/* Products that a matrix instruction takes from memory as it lies add up in
 * another order than others: there a plan is for offsets of one factor, not
 * for those that it divides too. */
static bool
has_exact_steps(const struct tensor_runtime *rt)
{
    return has_wgmma(rt) && rt->values.has_product;
}

/* May value v of the graph be an argument that is divided so (as in
 * rt_plan.steps)? */
static bool
takes_step(const struct tensor_runtime *rt, const struct rt_value *v,
           uint32_t step)
{
    if (!rt_vary_may(v))
        return false;
    return has_exact_steps(rt) ? step_of(v) == step : step_of(v) >= step;
}

/* Is it an argument in any case? */
static bool
is_forced(const struct rt_value *v)
{
    return v->code || v->n_coords;
}

/* As what; 0: it is not. */
static uint8_t
forced_step(const struct rt_value *v)
{
    return v->n_coords ? (uint8_t)step_of(v) : v->code != 0;
}

static bool
fits_value(const struct tensor_runtime *rt, const struct rt_plan *plan,
           uint32_t i)
{
    const struct rt_value *v = &rt->values.list[i];

    return plan->steps[i] ? takes_step(rt, v, plan->steps[i])
                          : v->bits == plan->values[i].bits && !is_forced(v);
}

bool
rt_vary_fits(const struct tensor_runtime *rt, const struct rt_plan *plan)
{
    uint32_t i;

    assert(plan->n_values == rt->values.n);
    for (i = 0; i < plan->n_values; i++) {
        if (!fits_value(rt, plan, i))
            return false;
    }
    return true;
}

/* The plan of the structure that fits best; NULL where there is none, or it is
 * known that constants are wanted. */
static const struct rt_plan *
find_nearest(const struct tensor_runtime *rt, uint32_t first)
{
    const struct rt_plan *nearest = NULL;
    uint32_t least = UINT32_MAX, at, i, n;

    for (at = first; at != RT_NO_PLAN; at = rt->plans[at].next) {
        const struct rt_plan *plan = &rt->plans[at];

        if (plan->keeps_constants)
            return NULL;
        for (i = n = 0; i < plan->n_values; i++)
            n += !fits_value(rt, plan, i);
        if (n < least) {
            least = n;
            nearest = plan;
        }
    }
    return nearest;
}

/* What the new plan makes of a value that `old` has otherwise. */
static uint8_t
choose_step(const struct tensor_runtime *rt, const struct rt_plan *old,
            uint32_t i)
{
    const struct rt_value *v = &rt->values.list[i];
    uint32_t step = step_of(v), was;

    if (!rt_vary_may(v))
        return 0;
    if (has_exact_steps(rt))
        return (uint8_t)step;
    was = old->steps[i] ? old->steps[i] : step_of(&old->values[i]);
    return (uint8_t)(was < step ? was : step);
}

bell_status
rt_vary_choose(struct tensor_runtime *rt, uint32_t first, struct rt_plan *plan)
{
    const struct rt_plan *old = find_nearest(rt, first);
    uint32_t n = (uint32_t)rt->values.n, i;

    plan->values = host_alloc(n * sizeof(*plan->values) + 1);
    plan->steps = host_calloc(n + 1, sizeof(*plan->steps));
    if (!plan->values || !plan->steps)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    plan->n_values = n;
    plan->keeps_constants =
        first != RT_NO_PLAN && rt->plans[first].keeps_constants;
    if (n)
        memcpy(plan->values, rt->values.list, n * sizeof(*plan->values));
    for (i = 0; i < n; i++) {
        if (is_forced(&rt->values.list[i]))
            plan->steps[i] = forced_step(&rt->values.list[i]);
        else if (old)
            plan->steps[i] = fits_value(rt, old, i) ? old->steps[i]
                                                    : choose_step(rt, old, i);
    }
    plan->symbols = rt->values.symbols;
    return BELL_OK;
}

void
rt_vary_fix(struct rt_plan *plan)
{
    uint32_t i;

    for (i = 0; i < plan->n_values; i++)
        plan->steps[i] = forced_step(&plan->values[i]);
    plan->keeps_constants = true;
}

/* ---- what is an argument at once ---- */

/* Is `of` a product with `u`, or a sum, and the rest no number, too? */
static bool
is_term(const struct uop *u, const struct uop *of)
{
    if (of->op != UOP_MUL && of->op != UOP_ADD && of->op != UOP_SUB)
        return false;
    return (of->src[0] == u) != (of->src[1] == u) &&
           rt_vary_peel(of->src[of->src[0] == u])->op != UOP_VAR;
}

/* Is arithmetic with the number done, whichever it is? */
static bool
is_plain_number(const struct rt_value *v, enum uop_op op)
{
    double x;

    if (v->dtype == UOP_VOID || !uop_dtype_infos[v->dtype].is_float ||
        !rt_vary_may(v))
        return false;
    memcpy(&x, &v->bits, sizeof(x));
    return op == UOP_MUL ? fabs(x) != 1 : x != 0;
}

/* Is the number that node `at` of the list is, moved or not, only a factor or
 * a term? A node's users are behind it. */
static bool
is_only_term(const struct tensor_runtime *rt, const struct uop *const *list,
             size_t n, size_t at)
{
    const struct rt_value *v = &rt->values.list[list[at]->arg.i];
    uint64_t moved = (uint64_t)1 << at;
    size_t i, k;
    uint32_t s;

    for (k = at; k < n; k++) {
        for (i = k + 1; moved >> k & 1 && i < n; i++) {
            for (s = 0; s < list[i]->n_src && list[i]->src[s] != list[k]; s++)
                continue;
            if (s == list[i]->n_src)
                continue;
            if (uop_has(list[i], UOP_FLAG_MOVE) && list[i]->op != UOP_PAD)
                moved |= (uint64_t)1 << i;
            else if (!is_term(list[k], list[i]) ||
                     !is_plain_number(v, list[i]->op))
                return false;
        }
    }
    return true;
}

/* The value that says where rows of a tensor with data begin, if that is all
 * that is taken of it: 1 + its number; or 0. */
static int64_t
find_rows(const struct uop_graph *g, const struct uop *const *list, size_t n,
          size_t at)
{
    const struct uop *u = list[at];
    uint32_t rank, s;
    size_t i, n_uses = 0;

    if (u->op != UOP_SHRINK || u->src[0]->op != UOP_BUFFER)
        return 0;
    rank = uop_shape(g, u)->n;
    if (u->arg.dims->n != 4 * rank)
        return 0;
    for (i = 0; i < n; i++) {
        for (s = 0; s < list[i]->n_src; s++)
            n_uses += list[i]->src[s] == u->src[0];
    }
    for (s = 1; s < rank; s++) {
        if (u->arg.dims->d[2 * (rank + s)])
            return 0;
    }
    return n_uses == 1 ? u->arg.dims->d[2 * rank] : 0;
}

/* Behind rows that begin the tensor others of as many may follow. */
static uint8_t
guess_step(const struct tensor_runtime *rt, const struct rt_plan *plan,
           const struct uop *u, int64_t value)
{
    struct rt_value v = rt->values.list[value];

    if (u->op == UOP_SHRINK && !v.bits && !has_exact_steps(rt))
        v.bits = (uint64_t)rt_vary_place(plan, u->arg.dims->d[1]);
    return (uint8_t)step_of(&v);
}

bool
rt_vary_guess(const struct tensor_runtime *rt, struct rt_plan *plan)
{
    const struct uop **list;
    bool is_any = false;
    int64_t value;
    size_t n, i;

    assert(plan->next == RT_NO_PLAN);
    if (!plan->n_values || rt->values.n_codes)
        return false;
    if (uop_canonical_order(plan->sink, &list, &n) != BELL_OK) {
        bell_error_clear();
        return false;
    }
    for (i = 0; i < n && n <= RT_MAX_GUESSED; i++) {
        value = find_rows(&rt->graphs, list, n, i);
        if (list[i]->op == UOP_VAR && is_only_term(rt, list, n, i))
            value = 1 + list[i]->arg.i;
        if (!value)
            continue;
        plan->steps[value - 1] = guess_step(rt, plan, list[i], value - 1);
        is_any = true;
    }
    host_free(list);
    return is_any;
}

uint64_t
rt_vary_word(const struct tensor_runtime *rt, const struct rt_plan *plan,
             uint32_t i)
{
    const struct rt_value *v = &rt->values.list[i];
    double x;

    assert(i < rt->values.n && plan->steps[i]);
    if (v->dtype == UOP_VOID)
        return v->bits >> (plan->steps[i] - 1);
    if (!uop_dtype_infos[v->dtype].is_float)
        return v->bits;
    memcpy(&x, &v->bits, sizeof(x));
    return uop_float_bits(v->dtype, x);
}

uint64_t
rt_vary_word_at(const struct tensor_runtime *rt, const struct rt_plan *plan,
                uint32_t i, uint32_t place)
{
    const struct rt_value *v = &rt->values.list[i];

    if (!v->n_coords)
        return rt_vary_word(rt, plan, i);
    assert(plan->steps[i]);
    return v->bits * (place / v->coord_stride % v->n_coords) >>
           (plan->steps[i] - 1);
}

/* ---- its graph ---- */

int64_t
rt_vary_place(const struct rt_plan *plan, int64_t d)
{
    const struct rt_value *v;

    if (!rt_is_size(d))
        return d;
    v = &plan->values[rt_size_value(d)];
    return v->code ? v->code : (int64_t)v->bits;
}

static const struct uop_dims *
place_dims(const struct rt_plan *plan, struct uop_graph *g,
           const struct uop_dims *dims)
{
    int64_t d[4 * TN_MAX_RANK];
    uint32_t i;

    assert(dims->n <= sizeof(d) / sizeof(*d));
    for (i = 0; i < dims->n; i++)
        d[i] = rt_vary_place(plan, dims->d[i]);
    return uop_dims(g, d, dims->n);
}

/* The arg of a movement with offsets that are constants of the plan in
 * place. */
static const struct uop_dims *
place_offsets(const struct rt_plan *plan, struct uop_graph *g,
              const struct uop *u)
{
    const struct uop_dims *arg = u->arg.dims;
    int64_t d[4 * TN_MAX_RANK];
    uint32_t n = arg->n / 4, i;
    bool varies = false;

    memset(d, 0, sizeof(d));
    for (i = 0; i < n; i++) {
        const int64_t *var = &arg->d[2 * (n + i)];
        int64_t size = rt_vary_place(plan, arg->d[2 * i + 1]), at = 0;
        uint32_t step = var[0] ? plan->steps[var[0] - 1] : 0;

        if (var[0] && !step)
            at = rt_vary_place(plan, rt_size_of((uint32_t)var[0] - 1));
        d[2 * i] = at;
        d[2 * i + 1] = u->op == UOP_SHRINK ? dim_plus(g->sizes, size, at)
                                           : dim_less(g->sizes, size, at);
        if (step) {
            d[2 * (n + i)] = var[0];
            d[2 * (n + i) + 1] = (int64_t)1 << (step - 1);
            varies = true;
        }
    }
    return uop_dims(g, d, varies ? 4 * n : 2 * n);
}

static const struct uop *
build_node(const struct rt_plan *plan, struct uop_graph *g, const struct uop *u,
           const struct uop_dims *shape, const struct uop *const *built)
{
    const struct uop *src[UOP_MAX_CALL_SRC];
    union uop_arg arg = u->arg;
    enum uop_op op = u->op;
    uint32_t i;

    for (i = 0; i < u->n_src && i < UOP_MAX_CALL_SRC; i++)
        src[i] = built[u->src[i]->id];
    if (op == UOP_VAR && !plan->steps[u->arg.i]) {
        op = UOP_CONST;
        arg.bits = plan->values[u->arg.i].bits;
    }
    if (op == UOP_IOTA)
        arg.i = rt_vary_place(plan, arg.i);
    else if (op == UOP_PAD || op == UOP_SHRINK)
        arg.dims = arg.dims->n > 2 * shape->n ? place_offsets(plan, g, u)
                                              : place_dims(plan, g, arg.dims);
    else if (uop_op_infos[op].arg_kind == UOP_ARG_DIMS)
        arg.dims = place_dims(plan, g, arg.dims);
    shape = place_dims(plan, g, shape);
    return g->failed
               ? &uop_failed
               : uop_new_shaped(g, op, u->dtype, arg, src, u->n_src, shape);
}

bell_status
rt_vary_build(const struct rt_plan *plan, const struct uop_graph *from,
              struct uop_graph *g, const struct uop **roots)
{
    const struct uop *sink = plan->sink, **list, **built;
    uint32_t n_roots = sink->n_src;
    size_t n, i;

    BELL_TRY(uop_canonical_order(sink, &list, &n));
    built = host_alloc(((size_t)sink->id + 1) * sizeof(*built));
    g->has_marks = from->has_marks;
    for (i = 0; i + 1 < n && built; i++) {
        g->mark = (uint32_t)i + 1; /* named.h */
        built[list[i]->id] =
            build_node(plan, g, list[i], uop_shape(from, list[i]), built);
    }
    for (i = 0; i < n_roots && built; i++)
        roots[i] = built[sink->src[n_roots - 1 - i]->id];
    host_free(list);
    host_free(built);
    if (!built)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory making a plan");
    return uop_graph_status(g);
}

/* ---- why it is new ---- */

/* What tensor functions are called that make such a node. */
static const char *
function_of(const struct uop *u)
{
    switch ((int)u->op) {
    case UOP_BUFFER:
        return "a tensor with data";
    case UOP_SHRINK:
        return "bell_narrow or another slice";
    case UOP_PAD:
        return "bell_pad or bell_cat";
    case UOP_IOTA:
        return "bell_arange";
    case UOP_EXPAND:
        return "bell_expand, bell_full or a broadcast";
    case UOP_RESHAPE:
        return "bell_reshape";
    case UOP_CALL:
    case UOP_PART:
        return "bell_custom_kernel";
    case UOP_POW:
        return "bell_pow";
    case UOP_FMOD:
        return "bell_fmod or bell_remainder";
    case UOP_FFLOORDIV:
        return "bell_floor_divide";
    default:
        return uop_op_infos[u->op].name;
    }
}

static void
print_shape(const struct rt_plan *plan, const struct uop_dims *shape,
            char *text, size_t size_bytes)
{
    size_t at = 0;
    uint32_t i;

    text[0] = 0;
    for (i = 0; shape && i < shape->n && at + 24 < size_bytes; i++) {
        int64_t d = shape->d[i];

        d = rt_is_size(d) ? (int64_t)plan->values[rt_size_value(d)].bits : d;
        at += (size_t)snprintf(text + at, size_bytes - at, "%s%" PRId64,
                               i ? "x" : "", d);
    }
}

/* The first node that a size is of which the other plan has otherwise. */
static const struct uop *
find_difference(const struct tensor_runtime *rt, const struct rt_plan *plan,
                const struct rt_plan *other, const struct uop *const *list,
                size_t n)
{
    size_t i;
    uint32_t k;

    for (i = 0; i < n; i++) {
        const struct uop_dims *shape = uop_shape(&rt->graphs, list[i]);

        for (k = 0; shape && k < shape->n; k++) {
            if (rt_is_size(shape->d[k]) &&
                plan->values[rt_size_value(shape->d[k])].bits !=
                    other->values[rt_size_value(shape->d[k])].bits)
                return list[i];
        }
    }
    return NULL;
}

static void
explain_sizes(struct tensor_runtime *rt, uint32_t number,
              const struct uop *const *list, size_t n)
{
    struct rt_plan *plan = &rt->plans[number];
    const struct uop *u = NULL;
    uint32_t i, other = RT_NO_PLAN, n_same = 0;
    char shape[160];

    for (i = 0; i < number; i++) {
        if (rt->plans[i].sink != plan->sink || rt->plans[i].table)
            continue;
        other = i;
        n_same++;
    }
    if (other != RT_NO_PLAN)
        u = find_difference(rt, plan, &rt->plans[other], list, n);
    if (!u) {
        LOG(LOG_PLAN, "plan %u, %u kernels: a new graph of %zu nodes", number,
            plan->sched.n_items, n);
        return;
    }
    print_shape(plan, uop_shape(&rt->graphs, u), shape, sizeof(shape));
    if (plan->table) {
        LOG(LOG_PLAN,
            "plan %u, %u kernels: as plan %u, but of any size up to %" PRId64
            ", an argument now: %s, %s",
            number, plan->sched.n_items, other, plan->counts->most[0],
            function_of(u), shape);
        return;
    }
    LOG(LOG_PLAN, "plan %u, %u kernels: as plan %u, but of other sizes: %s, %s",
        number, plan->sched.n_items, other, function_of(u), shape);
    if (n_same < MANY_PLANS || rt->told_plans)
        return;
    rt->told_plans = true;
    log_print(LOG_PLAN,
              "%u graphs that differ in sizes alone were compiled, each anew; "
              "the last by %s, now %s. Sizes that are symbols (bell_symbol) or "
              "stay the same (padded, or masked) are compiled once; "
              "BELL_DEBUG=plan tells each",
              n_same + 1, function_of(u), shape);
}

static void
explain_values(struct tensor_runtime *rt, uint32_t number)
{
    const struct rt_plan *plan = &rt->plans[number];
    const struct rt_plan *old = &rt->plans[plan->next];
    const struct rt_value *v;
    char text[64];
    uint32_t i;
    double x;

    for (i = 0; i < plan->n_values; i++) {
        v = &plan->values[i];
        if (plan->steps[i] == old->steps[i] &&
            (plan->steps[i] || v->bits == old->values[i].bits))
            continue;
        memcpy(&x, &v->bits, sizeof(x));
        if (v->dtype != UOP_VOID && uop_dtype_infos[v->dtype].is_float)
            snprintf(text, sizeof(text), "number %.9g", x);
        else
            snprintf(text, sizeof(text), "%s %" PRId64,
                     v->dtype == UOP_VOID ? "offset" : "number",
                     (int64_t)v->bits);
        LOG(LOG_PLAN, "plan %u, %u kernels: as plan %u, but for the %s, %s",
            number, plan->sched.n_items, plan->next, text,
            plan->steps[i] ? "an argument now" : "which stays a constant");
    }
}

void
rt_vary_explain(struct tensor_runtime *rt, uint32_t number)
{
    struct rt_plan *plan = &rt->plans[number];
    const struct uop **list;
    size_t n;

    if (plan->next != RT_NO_PLAN && !plan->table) {
        if (LOG_ON(LOG_PLAN))
            explain_values(rt, number);
        return;
    }
    if (uop_canonical_order(plan->sink, &list, &n) != BELL_OK) {
        bell_error_clear();
        return;
    }
    explain_sizes(rt, number, list, n);
    host_free(list);
}
