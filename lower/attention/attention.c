/* Which kernels are attention (lower/attention/attention.h). */
#include "lower/attention/attention.h"

#include <string.h>

#include "base/bits.h"
#include "lower/attention/decode_attention.h"

#define MIN_ROWS   16 /* of queries, for a matrix instruction */
#define MIN_KEYS   16
#define MAX_WIDE   256   /* elements of a query, of a value. guess: registers */
#define MAX_BACK   128   /* the same of gradients. guess: registers */
#define MIN_SHARED 45056 /* what 16 keys of MAX_WIDE elements of F32 take */

uint32_t
lower_attends(const struct lower_target *t)
{
    uint32_t kinds;

    if (!t->is_gpu && !t->no_opts && t->vector_bytes >= 16 && t->has_fma)
        return LOWER_ATTENDS_HALVES | LOWER_ATTENDS_WORDS | LOWER_ATTENDS_SMALL;
    if (!t->is_gpu || t->no_opts || t->max_threads < 256 ||
        t->max_shared_bytes < MIN_SHARED ||
        (t->warp_lanes != 32 && t->warp_lanes != 64))
        return 0;
    kinds = LOWER_ATTENDS_HALVES | LOWER_ATTENDS_BACK | LOWER_ATTENDS_FEW;
    /* three kernels are faster if they may use TF32 and this may not */
    return t->is_tf32 && t->matrix_layout == UOP_WMMA_NV
               ? kinds
               : kinds | LOWER_ATTENDS_WORDS;
}

bell_status
expand_attend(struct kernel *k, const struct attend *a,
              const struct uop **out_sink, struct lower_program *program)
{
    const struct lower_target *t = k->target;

    if (!t->is_gpu)
        return expand_attend_host(k, a, out_sink, program);
    if (a->is_few && attend_few_fits_matrix(k, a))
        return expand_attend_few_matrix(k, a, out_sink, program);
    if (a->is_few)
        return expand_attend_few(k, a, out_sink, program);
    if (a->v->dtype != UOP_F32 && t->has_wmma_rows &&
        t->matrix_layout == UOP_WMMA_NV && t->matrix_k[UOP_F16] == 16 &&
        t->matrix_k[UOP_BF16] == 16)
        return expand_attend_nv(k, a, out_sink, program);
    return expand_attend_gpu(k, a, out_sink, program);
}

/* A factor as it was before it was widened, if it is of one of these kinds;
 * else NULL. */
static const struct uop *
narrow(const struct uop *u, uint32_t kinds)
{
    if (u->op == UOP_CAST && u->dtype == UOP_F32 &&
        (u->src[0]->dtype == UOP_F16 || u->src[0]->dtype == UOP_BF16))
        return kinds & LOWER_ATTENDS_HALVES ? u->src[0] : NULL;
    return kinds & LOWER_ATTENDS_WORDS && u->dtype == UOP_F32 ? u : NULL;
}

/* M, if there is one, and up to three sums; false if there is more. */
static bool
find_reduces(const struct kernel *k, struct attend *a,
             const struct uop *sums[3], uint32_t *out_n)
{
    uint32_t i, n = 0;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op != UOP_REDUCE)
            continue;
        if (u->dtype != UOP_F32 || u->n_src != 2)
            return false;
        if (u->arg.i == UOP_MAX && !a->max)
            a->max = u;
        else if (u->arg.i == UOP_ADD && n < 3)
            sums[n++] = u;
        else
            return false;
    }
    *out_n = n;
    return true;
}

/* E, from L; x - M is in it. */
static bool
find_exp(struct attend *a)
{
    const struct uop *u = a->sum->src[0];

    a->exp = u;
    if (u->op != UOP_EXP2)
        return false;
    u = u->src[0];
    if (u->op == UOP_MUL && u->src[1]->op == UOP_CONST)
        u = u->src[0];
    a->diff = u;
    a->seen = a->max->src[0];
    return u->op == UOP_SUB && u->src[0] == a->seen && u->src[1] == a->max;
}

/* q and k of a product of scores. */
static bool
find_factors(const struct kernel *k, uint32_t kinds, uint32_t key,
             const struct uop *score, const struct uop **q,
             const struct uop **out_k)
{
    const struct uop *body = score->src[0];
    uint32_t i;

    if (body->op != UOP_MUL)
        return false;
    i = kernel_deps(k, body->src[0]) >> key & 1;
    *out_k = narrow(body->src[1 - i], kinds);
    *q = narrow(body->src[i], kinds);
    return *out_k && *q && (*out_k)->dtype == (*q)->dtype;
}

static bool
find_forward(const struct kernel *k, uint32_t kinds, struct attend *a,
             const struct uop *const sums[3])
{
    const struct uop *keys = a->max->src[1], *body, *p;
    uint32_t i;

    for (i = 0; i < 3; i++) {
        if (sums[i]->src[1] != keys)
            a->score = sums[i];
        else if (sums[i]->src[0]->op == UOP_MUL)
            a->out = sums[i];
        else
            a->sum = sums[i];
    }
    if (!a->score || !a->out || !a->sum || !find_exp(a))
        return false;
    a->key = kernel_range_no(k, keys);
    a->in = kernel_range_no(k, a->score->src[1]);
    body = a->out->src[0];
    for (i = 0; i < 2 && !a->v; i++) {
        p = narrow(body->src[i], kinds);
        if (!p || (p != a->exp && (p->op != UOP_CAST || p->src[0] != a->exp)))
            continue;
        a->weight = body->src[i];
        a->v = narrow(body->src[1 - i], kinds);
        if (!a->v || a->v->dtype != p->dtype)
            return false;
    }
    return a->v && find_factors(k, kinds, a->key, a->score, &a->q, &a->k);
}

/* Nodes are in order: the product is the last of the sums. */
static bool
find_back(const struct kernel *k, uint32_t kinds, struct attend *a,
          const struct uop *const *sums, uint32_t n)
{
    const struct uop *body, *p;
    uint64_t in;
    uint32_t i;

    a->is_back = true;
    a->out = sums[n - 1];
    body = a->out->src[0];
    if (!(kinds & LOWER_ATTENDS_BACK) || body->op != UOP_MUL)
        return false;
    a->key = kernel_range_no(k, a->out->src[1]);
    for (i = 0, in = 0; i + 1 < n; i++)
        in |= (uint64_t)1 << kernel_range_no(k, sums[i]->src[1]);
    /* W is made of what has no range but i, j and the batch's; v is loaded */
    i = k->levels[kernel_pos(k, body->src[0])] <
        k->levels[kernel_pos(k, body->src[1])];
    a->weight = body->src[i];
    p = narrow(a->weight, kinds);
    a->v = narrow(body->src[1 - i], kinds);
    if (!p || !a->v || a->v->dtype != p->dtype ||
        k->levels[kernel_pos(k, a->v)] != 0)
        return false;
    a->seen = a->weight;
    a->score = sums[0];
    a->in = kernel_range_no(k, a->score->src[1]);
    if (n == 3) {
        a->score2 = sums[1];
        a->in2 = kernel_range_no(k, a->score2->src[1]);
        if (!find_factors(k, kinds, a->key, a->score2, &a->q2, &a->k2))
            return false;
    }
    return find_factors(k, kinds, a->key, a->score, &a->q, &a->k);
}

static bool
find_parts(const struct kernel *k, uint32_t kinds, struct attend *a)
{
    const struct uop *sums[3];
    uint32_t n;

    if (!find_reduces(k, a, sums, &n) || n < 2)
        return false;
    return a->max ? n == 3 && find_forward(k, kinds, a, sums)
                  : find_back(k, kinds, a, sums, n);
}

int64_t
attend_most(const struct kernel *k, uint32_t r)
{
    return k->sizes[r] < 0 ? uop_bounds(k->g, k->ranges[r]->src[0]).max
                           : k->sizes[r];
}

const struct uop *
attend_end(const struct kernel *k, uint32_t r)
{
    uint32_t i;

    for (i = 0; i < k->n_ends; i++) {
        if (k->ends[i].value == k->ranges[r])
            return k->ends[i].size;
    }
    return NULL;
}

/* The largest range of the set; false if there is none. */
static bool
largest(const struct kernel *k, uint64_t set, uint32_t *out)
{
    uint64_t rest;

    for (rest = set; rest; rest &= rest - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(rest);
        if (rest == set || attend_most(k, r) >= attend_most(k, *out))
            *out = r;
    }
    return set != 0;
}

/* May all rows be those of one work-group, by matrix instructions? A kernel
 * that has no target yet: no. */
static bool
is_one_tile(const struct kernel *k, const struct attend *a)
{
    return k->target && k->target->is_gpu && !a->is_back &&
           attend_few_fits(k, a) &&
           attend_few_count(k, a) <= ATTEND_FEW_MATRIX &&
           attend_few_fits_matrix(k, a);
}

/* Are there enough rows and keys? */
static bool
has_enough(const struct kernel *k, uint32_t kinds, const struct attend *a)
{
    int64_t keys = attend_most(k, a->key);

    if (!(kinds & LOWER_ATTENDS_SMALL))
        return keys >= MIN_KEYS;
    return keys >= 2 && (attend_most(k, a->row) >= MIN_ROWS ||
                         (k->sizes[a->row] >= 2 && k->sizes[a->key] >= 2 &&
                          keys <= ATTEND_ONE_TILE));
}

static bool
find_ranges(const struct kernel *k, uint32_t kinds, struct attend *a)
{
    uint64_t q = kernel_deps(k, a->q), key = kernel_deps(k, a->k),
             v = kernel_deps(k, a->v), in = (uint64_t)1 << a->in,
             j = (uint64_t)1 << a->key, out, columns, rows;
    int64_t wide = a->is_back ? MAX_BACK : MAX_WIDE;
    uint32_t r;

    for (r = 0, out = 0; r < k->n_ranges; r++) {
        if (k->sizes[r] == 0 || attend_most(k, r) > INT32_MAX)
            return false;
        out |= (uint64_t) !(k->reduce_ranges >> r & 1) << r;
    }
    columns = v & out & ~kernel_deps(k, a->seen);
    if (!largest(k, columns, &a->col) || columns & (columns - 1))
        return false;
    if (!largest(k, q & out & ~key & ~v, &a->row))
        a->row = ATTEND_NO_ROW;
    rows = a->row == ATTEND_NO_ROW ? 0 : (uint64_t)1 << a->row;
    a->few_rows = q & out & ~key & ~v;
    a->is_few |= !rows || is_one_tile(k, a) ||
                 (attend_most(k, a->row) < MIN_ROWS &&
                  !(kinds & LOWER_ATTENDS_SMALL && has_enough(k, kinds, a)));
    if (a->is_few)
        rows = a->few_rows;
    if (a->is_few && (a->is_back || !(kinds & LOWER_ATTENDS_FEW)))
        return false;
    a->batch = out & ~columns & ~rows;
    if (a->score2) {
        uint64_t q2 = kernel_deps(k, a->q2), k2 = kernel_deps(k, a->k2),
                 in2 = (uint64_t)1 << a->in2;
        if ((q2 & (in | in2 | j)) != in2 ||
            (k2 & (in | in2 | j)) != (in2 | j) || k2 >> a->row & 1 ||
            k->sizes[a->in2] > MAX_WIDE)
            return false;
    }
    return (q & (in | j)) == in && (key & (in | j)) == (in | j) &&
           (v & (in | j)) == j &&
           (kernel_deps(k, a->store->src[2]) & ~out) == 0 &&
           (a->is_few ? attend_most(k, a->key) >= MIN_KEYS
                      : has_enough(k, kinds, a)) &&
           k->sizes[a->in] > 0 && k->sizes[a->in] <= wide &&
           k->sizes[a->col] > 0 && k->sizes[a->col] <= wide &&
           (!a->is_few || attend_few_fits(k, a));
}

/* L and M, stored for every row. */
static bool
find_kept(const struct kernel *k, struct attend *a)
{
    uint32_t i;

    for (i = 1; i < k->sink->n_src; i++) {
        const struct uop *store = k->sink->src[i];
        if (a->is_back || store->n_src != 3 ||
            kernel_deps(k, store->src[1]) >> a->col & 1)
            return false;
        if (store->src[2] == a->sum)
            a->kept[0] = store;
        else if (store->src[2] == a->max)
            a->kept[1] = store;
        else
            return false;
    }
    return true;
}

/* attend_find; `is_few`: rows are few whatever their ranges. */
static bool
find(const struct kernel *k, uint32_t kinds, bool is_few, struct attend *out)
{
    struct attend a = {.is_few = is_few};

    if (k->sink->n_src > (kinds & LOWER_ATTENDS_BACK ? 3 : 1))
        return false;
    a.store = k->sink->src[0];
    if (a.store->n_src != 3 || !find_parts(k, kinds, &a) ||
        !find_ranges(k, kinds, &a) || !find_kept(k, &a))
        return false;
    *out = a;
    return true;
}

bool
attend_find(const struct kernel *k, uint32_t kinds, struct attend *out)
{
    return find(k, kinds, false, out);
}

bell_status
attend_bound(struct kernel *k, uint32_t kinds, struct attend *a)
{
    struct kernel_remap map[KERNEL_MAX_RANGES];
    const struct uop *bound[KERNEL_MAX_RANGES];
    uint32_t r, n = k->n_ranges;

    for (r = 0; r < n; r++) {
        const struct uop *range = k->ranges[r];

        bound[r] = k->sizes[r] < 0
                       ? uop_range(k->g, uop_range_id(range),
                                   uop_range_axis(range), attend_most(k, r))
                       : range;
        map[r] = (struct kernel_remap){
            .value = bound[r], .n_bound = 1, .bound = &bound[r]};
        k->ends[r] = (struct kernel_end){
            .value = range, .size = k->sizes[r] < 0 ? range->src[0] : NULL};
        k->n_ends += k->sizes[r] < 0;
    }
    if (!k->n_ends)
        return BELL_OK;
    k->n_ends = n;
    BELL_TRY(kernel_remap_ranges(k, map));
    if (!attend_find(k, kinds, a))
        return bell_fail(BELL_E_INTERNAL, "attention of bounds is another");
    return BELL_OK;
}

/* By what a node divides an output range of the batch that k or v has, or what
 * remainder it takes; *out_range is its number. 0: it does not. */
static int64_t
divides(const struct kernel *k, const struct attend *a, const struct uop *u,
        uint32_t *out_range)
{
    uint64_t set = a->batch & (kernel_deps(k, a->k) | kernel_deps(k, a->v));
    uint32_t r;

    if ((u->op != UOP_FLOORDIV && u->op != UOP_FLOORMOD) ||
        u->src[0]->op != UOP_RANGE || u->src[1]->op != UOP_CONST)
        return 0;
    r = *out_range = kernel_range_no(k, u->src[0]);
    return set >> r & 1 && u->src[1]->arg.i > 1 && !attend_end(k, r) &&
                   k->sizes[r] > u->src[1]->arg.i &&
                   k->sizes[r] % u->src[1]->arg.i == 0
               ? u->src[1]->arg.i
               : 0;
}

bell_status
attend_group(struct kernel *k, uint32_t kinds, struct attend *a)
{
    struct kernel_end ends[ARRAY_LEN(k->ends)];
    const struct uop *was;
    uint32_t i, r = 0;
    int64_t by;

    for (i = 0; a->is_few && i < k->n_nodes; i++) {
        by = divides(k, a, k->nodes[i], &r);
        if (!by || k->n_ranges + 1 >= KERNEL_MAX_RANGES)
            continue;
        was = k->sink;
        memcpy(ends, k->ends, k->n_ends * sizeof(*ends));
        BELL_TRY(kernel_split(k, r, by));
        if (find(k, kinds, true, a)) {
            i = 0;
            continue;
        }
        memcpy(k->ends, ends, k->n_ends * sizeof(*ends));
        BELL_TRY(kernel_set_sink(k, was));
    }
    return BELL_OK;
}

/* Is it E, or 1 / L, which is read? */
static bool
is_of_softmax(const struct uop *u)
{
    const struct uop *x = u->src[0];

    if (u->op == UOP_RECIP)
        return x->op == UOP_LOAD;
    if (u->op != UOP_EXP2)
        return false;
    if (x->op == UOP_MUL && x->src[1]->op == UOP_CONST)
        x = x->src[0];
    return x->op == UOP_SUB && x->src[1]->op == UOP_LOAD;
}

bool
attend_is_approx(const struct kernel *k, const struct attend *a)
{
    uint32_t i;

    if (!k->target->is_gpu || a->weight == a->exp ||
        (a->is_back && a->weight->op != UOP_CAST))
        return false;
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        bool is_own = u == a->exp ||
                      (u->op == UOP_RECIP && u->src[0] == a->sum) ||
                      (a->is_back && is_of_softmax(u));
        if (!is_own &&
            (u->op == UOP_EXP2 || u->op == UOP_LOG2 || u->op == UOP_SIN ||
             u->op == UOP_COS || u->op == UOP_POW || u->op == UOP_RECIP))
            return false;
    }
    return true;
}

bell_status
lower_is_attention(struct uop_graph *g, const struct uop *sink, uint32_t kinds,
                   bool *out_is)
{
    struct attend a;
    struct kernel k;

    BELL_TRY(kernel_init(&k, g, sink, NULL));
    *out_is = attend_find(&k, kinds, &a);
    kernel_fini(&k);
    return BELL_OK;
}
