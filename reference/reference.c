/* The reference evaluator: one node after the other, in id order. */
#include "reference/reference.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "reference/reference_internal.h"

#define REF_MAX_RANK 32

/* State of one evaluation. The arrays are indexed by node id. */
struct ref_run {
    const struct uop_graph *g;
    void **data;     /* elements of evaluated nodes that are still needed */
    uint32_t *users; /* uses to come, plus one per root */
    ref_leaf_fn *leaf;
    void *user;
    const struct ref_noise *noise; /* or NULL */
};

static const struct uop_dims scalar_shape = {.n = 0};

static const struct uop_dims *
shape_of(const struct uop_graph *g, const struct uop *u)
{
    const struct uop_dims *shape = uop_shape(g, u);

    return shape ? shape : &scalar_shape;
}

static BELL_MUST_CHECK bell_status
count_elems(const struct uop_graph *g, const struct uop *u, size_t *out_n)
{
    const struct uop_dims *shape = shape_of(g, u);
    size_t n = 1;
    uint32_t i;

    if (shape->n > REF_MAX_RANK)
        return bell_fail(BELL_E_INVALID, "node %u %s: %u axes, at most %d",
                         u->id, uop_op_infos[u->op].name, shape->n,
                         REF_MAX_RANK);
    for (i = 0; i < shape->n; i++) {
        if (shape->d[i] < 0 ||
            __builtin_mul_overflow(n, (size_t)shape->d[i], &n) ||
            n > SIZE_MAX / 16)
            return bell_fail(BELL_E_INVALID, "node %u %s: size %lld of axis %u",
                             u->id, uop_op_infos[u->op].name,
                             (long long)shape->d[i], i);
    }
    *out_n = n;
    return BELL_OK;
}

static bell_status
bad_node(const struct uop *u, const char *what)
{
    return bell_fail(BELL_E_INVALID, "node %u %s: %s", u->id,
                     u->op < UOP_OP_COUNT ? uop_op_infos[u->op].name : "?",
                     what);
}

/* A source as an array (borrowed). */
static struct ref_array
ref_source(const struct ref_run *run, const struct uop *u, uint32_t k)
{
    const struct uop *s = u->src[k];
    struct ref_array array = {.dtype = s->dtype,
                              .shape = shape_of(run->g, s),
                              .data = run->data[s->id]};

    /* Its size was checked when it was evaluated. */
    if (count_elems(run->g, s, &array.n) != BELL_OK)
        array.n = 0;
    return array;
}

/* Movement ops and reductions walk the elements of one array, row-major, and
 * keep the matching position in another: `pos` plus, for axis i, index times
 * step[i]. For PAD the position is valid only inside lo..hi. */
struct walk {
    uint32_t rank;
    int64_t dim[REF_MAX_RANK], idx[REF_MAX_RANK], step[REF_MAX_RANK];
    int64_t pos;
};

static void
walk_init(struct walk *w, const struct uop_dims *shape)
{
    uint32_t i;

    w->rank = shape->n;
    w->pos = 0;
    for (i = 0; i < shape->n; i++) {
        w->dim[i] = shape->d[i];
        w->idx[i] = 0;
        w->step[i] = 0;
    }
}

static void
walk_next(struct walk *w)
{
    uint32_t i;

    for (i = w->rank; i-- > 0;) {
        w->pos += w->step[i];
        if (++w->idx[i] < w->dim[i])
            return;
        w->pos -= w->step[i] * w->dim[i];
        w->idx[i] = 0;
    }
}

/* Row-major distance between neighbours along each axis. */
static void
row_major(const struct uop_dims *shape, int64_t *steps)
{
    int64_t step = 1;
    uint32_t i;

    for (i = shape->n; i-- > 0;) {
        steps[i] = step;
        step *= shape->d[i];
    }
}

static bell_status
check_move(const struct ref_run *run, const struct uop *u)
{
    const struct uop_dims *to = shape_of(run->g, u);
    const struct uop_dims *from = shape_of(run->g, u->src[0]);
    uint32_t per_axis = u->op == UOP_PAD || u->op == UOP_SHRINK ? 2 : 1;

    if (u->dtype != u->src[0]->dtype)
        return bad_node(u, "its dtype is not its source's");
    if (to->n != from->n)
        return bad_node(u, "rank differs from its source's");
    if (u->op != UOP_FLIP && u->arg.dims->n != to->n * per_axis)
        return bad_node(u, "wrong number of arguments");
    return BELL_OK;
}

static bell_status
check_axis(const struct uop *u, uint32_t i, const struct uop_dims *to,
           const struct uop_dims *from)
{
    const int64_t *a = u->op == UOP_FLIP ? NULL : u->arg.dims->d;
    int64_t t = to->d[i], f = from->d[i];
    bool ok = false;

    if (u->op == UOP_PERMUTE)
        ok = a[i] >= 0 && a[i] < (int64_t)from->n && t == from->d[a[i]];
    else if (u->op == UOP_EXPAND)
        ok = t == a[i] && (f == t || f == 1);
    else if (u->op == UOP_PAD)
        ok = a[2 * i] >= 0 && a[2 * i + 1] >= 0 &&
             t == f + a[2 * i] + a[2 * i + 1];
    else if (u->op == UOP_SHRINK)
        ok = a[2 * i] >= 0 && a[2 * i + 1] <= f && t == a[2 * i + 1] - a[2 * i];
    else
        ok = t == f;
    return ok ? BELL_OK : bad_node(u, "argument does not fit its shapes");
}

/* Sets up the position in the source while walking the result. */
static bell_status
walk_source(const struct ref_run *run, const struct uop *u, struct walk *w)
{
    const struct uop_dims *to = shape_of(run->g, u);
    const struct uop_dims *from = shape_of(run->g, u->src[0]);
    int64_t steps[REF_MAX_RANK];
    uint32_t i;

    BELL_TRY(check_move(run, u));
    walk_init(w, to);
    row_major(from, steps);
    for (i = 0; i < to->n; i++) {
        BELL_TRY(check_axis(u, i, to, from));
        w->step[i] = steps[i];
        if (u->op == UOP_PERMUTE)
            w->step[i] = steps[u->arg.dims->d[i]];
        else if (u->op == UOP_EXPAND && from->d[i] == 1)
            w->step[i] = 0;
        else if (u->op == UOP_SHRINK)
            w->pos += u->arg.dims->d[2 * i] * steps[i];
        else if (u->op == UOP_PAD)
            w->pos -= u->arg.dims->d[2 * i] * steps[i];
        else if (u->op == UOP_FLIP && u->arg.i >> i & 1) {
            w->pos += (from->d[i] - 1) * steps[i];
            w->step[i] = -steps[i];
        }
    }
    return BELL_OK;
}

static bool
in_padding(const struct uop *u, const struct walk *w)
{
    uint32_t i;

    for (i = 0; i < w->rank; i++) {
        if (w->idx[i] < u->arg.dims->d[2 * i] ||
            w->idx[i] >= w->dim[i] - u->arg.dims->d[2 * i + 1])
            return true;
    }
    return false;
}

static bell_status
eval_move(const struct ref_run *run, const struct uop *u, struct ref_array *out)
{
    struct ref_array x = ref_source(run, u, 0);
    struct walk w;
    size_t k;

    BELL_TRY(walk_source(run, u, &w));
    for (k = 0; k < out->n; k++) {
        /* All elements are 64 bits wide, and zero bits are zero. */
        out->i[k] = u->op == UOP_PAD && in_padding(u, &w) ? 0 : x.i[w.pos];
        walk_next(&w);
    }
    return BELL_OK;
}

static bell_status
eval_copy(const struct ref_run *run, const struct uop *u, struct ref_array *out)
{
    struct ref_array x = ref_source(run, u, u->op == UOP_ASSIGN);

    if (x.n != out->n || x.dtype != out->dtype)
        return bad_node(u, "size or dtype differs from its source's");
    if (x.n)
        memcpy(out->data, x.data, x.n * sizeof(*x.i));
    return BELL_OK;
}

/* What a reduction of floats needs beside its result, per element of it. */
struct fold {
    double comp;       /* Neumaier's: what additions lost */
    double mass, dust; /* for noise, see ref_noisy_reduce */
    bool coarse;       /* an element was not a multiple of 2^-8 */
    bool plus, minus;  /* one was infinite, of that sign */
    bool zero, nan;
};

static void
fold_float(enum uop_op op, double *acc, struct fold *fold, double x)
{
    double sum = *acc + x, size = isfinite(x) ? fabs(x) : 0;

    fold->coarse |= size * 256 != floor(size * 256);
    fold->plus |= x == INFINITY;
    fold->minus |= x == -INFINITY;
    fold->zero |= x == 0;
    fold->nan |= isnan(x);
    if (op != UOP_ADD) {
        if (size > 1)
            fold->mass += log2(size);
        else if (size > 0)
            fold->dust += log2(size);
        *acc = ref_alu_float(op, UOP_F64, *acc, x);
        return;
    }
    fold->mass += size;
    if (isfinite(sum))
        fold->comp +=
            fabs(*acc) >= fabs(x) ? (*acc - sum) + x : (x - sum) + *acc;
    *acc = sum;
}

/* Element `at` of a sum or product, as the device may take it. */
static double
fold_element(const struct ref_run *run, const struct uop *u, enum uop_op op,
             size_t at, double x)
{
    if (!run->noise || (op != UOP_ADD && op != UOP_MUL))
        return x;
    return ref_noisy_flush(run->noise, (uint64_t)u->id << 32 ^ at,
                           (enum uop_dtype)u->dtype, x);
}

static double
finish_fold(const struct ref_run *run, const struct uop *u, enum uop_op op,
            size_t k, double acc, const struct fold *fold, size_t n)
{
    enum uop_dtype dtype = u->dtype;
    double value = op == UOP_ADD ? acc + fold->comp : acc; /* -0 stays -0 */
    bool nan = fold->nan ||
               (op == UOP_ADD ? fold->plus && fold->minus
                              : (fold->plus || fold->minus) && fold->zero);

    if (run->noise)
        value = ref_noisy_reduce(
            run->noise, ref_noise_salt(run->noise, u, k, value, fold->mass), op,
            dtype, value, fold->mass, fold->dust, n, !fold->coarse, nan);
    return uop_round_float(dtype, value);
}

static bell_status
ref_check_reduce(const struct ref_run *run, const struct uop *u)
{
    const struct uop_dims *to = shape_of(run->g, u);
    const struct uop_dims *from = shape_of(run->g, u->src[0]);
    enum uop_op op = uop_reduce_op(u);
    uint32_t i;

    if (u->dtype != u->src[0]->dtype || to->n != from->n)
        return bad_node(u, "dtype or rank differs from its source's");
    if (op != UOP_ADD && op != UOP_MUL && op != UOP_MAX && op != UOP_MIN &&
        op != UOP_AND && op != UOP_OR && op != UOP_XOR)
        return bad_node(u, "reduces by an op that is not associative");
    if (!ref_alu_known(op, u->dtype))
        return bad_node(u, "reduces by an op that its dtype lacks");
    for (i = 0; i < from->n; i++) {
        if (to->d[i] != (uop_reduce_axes(u) >> i & 1 ? 1 : from->d[i]))
            return bad_node(u, "shape does not follow from the reduced axes");
    }
    return BELL_OK;
}

static void
start_reduce(const struct uop *u, struct ref_array *out)
{
    enum uop_op op = uop_reduce_op(u);
    size_t k;

    for (k = 0; k < out->n; k++) {
        if (uop_dtype_infos[out->dtype].is_float)
            out->f[k] = ref_neutral_float(op);
        else
            out->i[k] = ref_neutral_int(op, out->dtype);
    }
}

/* Walks the source; the position is in the result. */
static bell_status
eval_reduce(const struct ref_run *run, const struct uop *u,
            struct ref_array *out)
{
    struct ref_array x = ref_source(run, u, 0);
    bool is_float = uop_dtype_infos[x.dtype].is_float;
    enum uop_op op = uop_reduce_op(u);
    struct fold *folds;
    struct walk w;
    uint32_t i;
    size_t k;

    BELL_TRY(ref_check_reduce(run, u));
    walk_init(&w, x.shape);
    row_major(out->shape, w.step);
    for (i = 0; i < w.rank; i++) {
        if (uop_reduce_axes(u) >> i & 1)
            w.step[i] = 0;
    }
    start_reduce(u, out);
    folds = host_calloc(out->n + 1, sizeof(*folds));
    if (!folds)
        return bell_fail(BELL_E_NO_MEMORY,
                         "reference reduction: out of memory");
    for (k = 0; k < x.n; k++, walk_next(&w)) {
        if (is_float)
            fold_float(op, &out->f[w.pos], &folds[w.pos],
                       fold_element(run, u, op, k, x.f[k]));
        else
            out->i[w.pos] = ref_alu_int(op, x.dtype, out->i[w.pos], x.i[k]);
    }
    for (k = 0; is_float && k < out->n; k++)
        out->f[k] =
            finish_fold(run, u, op, k, out->f[k], &folds[k], x.n / out->n);
    host_free(folds);
    return BELL_OK;
}

static bell_status
ref_check_gather(const struct ref_run *run, const struct uop *u)
{
    const struct uop_dims *to = shape_of(run->g, u);
    const struct uop_dims *from = shape_of(run->g, u->src[0]);
    uint32_t i;

    if (u->dtype != u->src[0]->dtype)
        return bad_node(u, "its dtype is not its source's");
    if (!uop_dtype_infos[u->src[1]->dtype].is_int)
        return bad_node(u, "its index is not of an integer dtype");
    if (to->n != from->n || u->arg.i < 0 || u->arg.i >= (int64_t)from->n)
        return bad_node(u, "no such axis");
    for (i = 0; i < to->n; i++) {
        if ((int64_t)i != u->arg.i && to->d[i] > from->d[i])
            return bad_node(u, "its index is larger than its source");
    }
    return BELL_OK;
}

static bell_status
eval_gather(const struct ref_run *run, const struct uop *u,
            struct ref_array *out)
{
    struct ref_array x = ref_source(run, u, 0), index = ref_source(run, u, 1);
    int64_t steps[REF_MAX_RANK] = {0}, size;
    struct walk w;
    size_t k;

    BELL_TRY(ref_check_gather(run, u));
    if (index.n != out->n)
        return bad_node(u, "its index has another shape");
    walk_init(&w, out->shape);
    row_major(x.shape, steps);
    memcpy(w.step, steps, sizeof(w.step));
    w.step[u->arg.i] = 0;
    size = x.shape->d[u->arg.i];
    for (k = 0; k < out->n; k++, walk_next(&w)) {
        int64_t at = index.i[k];
        if (index.dtype == UOP_U64 && at < 0)
            at = size;
        else if (at < 0)
            at += size;
        if (at < 0 || at >= size)
            out->i[k] = 0;
        else
            out->i[k] = x.i[w.pos + at * steps[u->arg.i]];
    }
    return BELL_OK;
}

/* Sums, say, of what a position follows along the axis, or precedes, and
 * itself. */
static bell_status
eval_scan(const struct ref_run *run, const struct uop *u, struct ref_array *out)
{
    struct ref_array x = ref_source(run, u, 0);
    bool is_float = uop_dtype_infos[u->dtype].is_float;
    size_t k, i, step = 1, size, place;
    uint32_t axis = uop_scan_axis(u), r;
    enum uop_op op = uop_scan_op(u);

    if (!out->shape || axis >= out->shape->n || x.n != out->n ||
        u->dtype != x.dtype || u->dtype == UOP_BOOL)
        return bad_node(u, "its axis, dtype or shape is not its source's");
    for (r = axis + 1; r < out->shape->n; r++)
        step *= (size_t)out->shape->d[r];
    size = (size_t)out->shape->d[axis];
    for (k = 0; k < out->n; k++) {
        struct fold fold = {0};
        double part = op == UOP_ADD ? -0.0 : ref_neutral_float(op);
        int64_t whole = ref_neutral_int(op, u->dtype);
        place = k / step % size;
        for (i = uop_scan_back(u) ? size - 1 : 0;;
             i += uop_scan_back(u) ? -1 : 1) {
            size_t at = k - place * step + i * step;
            if (is_float)
                fold_float(op, &part, &fold,
                           fold_element(run, u, op, at, x.f[at]));
            else
                whole = ref_alu_int(op, u->dtype, whole, x.i[at]);
            if (i == place)
                break;
        }
        if (is_float)
            out->f[k] =
                finish_fold(run, u, op, k, part, &fold,
                            uop_scan_back(u) ? size - place : place + 1);
        else
            out->i[k] = whole;
    }
    return BELL_OK;
}

static bell_status
eval_exchange(const struct ref_run *run, const struct uop *u,
              struct ref_array *out)
{
    struct ref_array x = ref_source(run, u, 0);
    bool is_unsigned = u->dtype == UOP_U64;
    int64_t size, step, i, low, span;
    size_t k, j;

    if (!out->shape || out->shape->n != 3 || x.n != out->n)
        return bad_node(u, "its shape is not of 3 axes, or not its source's");
    memcpy(out->i, x.i, out->n * sizeof(*out->i));
    size = out->shape->d[1];
    step = out->shape->d[2];
    for (k = 0; k < out->n; k++) {
        int64_t at = (int64_t)k / step % size, *first;
        if (at)
            continue;
        first = &out->i[k];
        /* all pairs some distance apart, in turn; in order, each of them by
         * distance 1, as often as there are elements */
        span = u->arg.i ? size / 2 : 1;
        for (j = 0; span && j < (size_t)size; j++) {
            bool any = false;
            for (i = 0; i + span < size; i++) {
                int64_t *a = &first[i * step], *b = &first[(i + span) * step];
                bool swap = is_unsigned ? (uint64_t)*b < (uint64_t)*a : *b < *a;
                if (u->arg.i && i & span)
                    continue;
                any |= swap;
                low = *a;
                *a = swap ? *b : *a;
                *b = swap ? low : *b;
            }
            if (!u->arg.i && !any)
                break;
            span = u->arg.i ? span / 2 : 1;
        }
    }
    return BELL_OK;
}

static void
ref_eval_cast(const struct ref_array *x, size_t k, struct ref_array *out)
{
    bool from_float = uop_dtype_infos[x->dtype].is_float;
    bool to_float = uop_dtype_infos[out->dtype].is_float;

    if (from_float && to_float)
        out->f[k] =
            isnan(x->f[k]) ? x->f[k] : uop_round_float(out->dtype, x->f[k]);
    else if (from_float)
        out->i[k] = ref_float_to_int(out->dtype, x->f[k]);
    else if (to_float)
        out->f[k] = ref_int_to_float(x->dtype, out->dtype, x->i[k]);
    else if (out->dtype == UOP_BOOL)
        out->i[k] = x->i[k] != 0;
    else
        out->i[k] = uop_wrap_int(out->dtype, x->i[k]);
}

static void
ref_eval_bitcast(const struct ref_run *run, const struct uop *u,
                 const struct ref_array *x, size_t k, struct ref_array *out)
{
    bool from_float = uop_dtype_infos[x->dtype].is_float;
    uint64_t bits = from_float ? 0 : (uint64_t)x->i[k], salt;
    double value;

    if (from_float && run->noise) {
        salt = ref_noise_salt(run->noise, u, k, x->f[k], 0);
        value = ref_noisy_zero(run->noise, salt, x->f[k]);
        bits = uop_float_bits(x->dtype, value);
        /* Which NaN it is, is nowhere promised. */
        if (isnan(value))
            bits = ref_noisy_nan(run->noise, salt, x->dtype, bits);
    } else if (from_float) {
        bits = uop_float_bits(x->dtype, x->f[k]);
    }
    if (uop_dtype_infos[out->dtype].is_float)
        out->f[k] = uop_float_value(out->dtype, bits);
    else if (out->dtype == UOP_BOOL)
        out->i[k] = bits != 0;
    else
        out->i[k] = uop_wrap_int(out->dtype, (int64_t)bits);
}

/* A softmax as halves: e^x / L. Where it is a factor, e^x may be rounded and
 * what comes of the product be divided. */
static bool
is_softmax_of_halves(const struct uop *u)
{
    const struct uop *s = u->src[0];

    return u->op == UOP_CAST && uop_dtype_is_small(u->dtype) &&
           s->op == UOP_MUL &&
           (s->src[0]->op == UOP_EXP2 || s->src[1]->op == UOP_EXP2);
}

static bell_status
eval_convert(const struct ref_run *run, const struct uop *u,
             struct ref_array *out)
{
    struct ref_array x = ref_source(run, u, 0);
    bool noisy = run->noise && is_softmax_of_halves(u);
    size_t k;

    if (x.n != out->n)
        return bad_node(u, "shape differs from its source's");
    if (u->op == UOP_BITCAST && uop_dtype_infos[x.dtype].size_bytes !=
                                    uop_dtype_infos[out->dtype].size_bytes)
        return bad_node(u, "the dtypes have different sizes");
    for (k = 0; k < out->n; k++) {
        if (u->op == UOP_CAST)
            ref_eval_cast(&x, k, out);
        else
            ref_eval_bitcast(run, u, &x, k, out);
        if (noisy)
            out->f[k] = ref_noisy_round(run->noise, (uint64_t)u->id << 32 ^ k,
                                        (enum uop_dtype)u->dtype, out->f[k]);
    }
    return BELL_OK;
}

/* Elementwise sources have the result's shape, but a CONST stands for any. */
static bell_status
ref_check_alu(const struct ref_run *run, const struct uop *u)
{
    bool is_where = u->op == UOP_WHERE;
    enum uop_dtype dtype = u->src[is_where]->dtype;
    uint32_t k;

    for (k = 0; k < u->n_src; k++) {
        const struct uop *s = u->src[k];
        const struct uop_dims *a = shape_of(run->g, s);
        const struct uop_dims *b = shape_of(run->g, u);
        if (s->dtype != (is_where && k == 0 ? UOP_BOOL : dtype))
            return bad_node(u, "its sources' dtypes differ");
        if (s->op != UOP_CONST &&
            (a->n != b->n || memcmp(a->d, b->d, a->n * sizeof(a->d[0])) != 0))
            return bad_node(u, "a source's shape is not its own");
    }
    if (u->dtype != (uop_has(u, UOP_FLAG_CMP) ? UOP_BOOL : dtype))
        return bad_node(u, "its dtype does not follow from its sources'");
    if (!ref_alu_known(u->op, dtype))
        return bad_node(u, "not an op on this dtype");
    return BELL_OK;
}

static bell_status
eval_where(const struct ref_run *run, const struct uop *u,
           struct ref_array *out)
{
    struct ref_array c = ref_source(run, u, 0), x = ref_source(run, u, 1),
                     y = ref_source(run, u, 2);
    size_t k;

    for (k = 0; k < out->n; k++) {
        bool cond = c.i[u->src[0]->op == UOP_CONST ? 0 : k] != 0;
        const struct ref_array *from = cond ? &x : &y;
        out->i[k] = from->i[u->src[cond ? 1 : 2]->op == UOP_CONST ? 0 : k];
    }
    return BELL_OK;
}

/* Element k of a float op. */
static double
alu_float(const struct ref_run *run, const struct uop *u, size_t k, double x,
          double y)
{
    enum uop_dtype dtype = u->dtype;
    double value = ref_alu_float(u->op, dtype, x, y);

    if (!run->noise)
        return value;
    return ref_noisy_alu(run->noise, ref_noise_salt(run->noise, u, k, x, y),
                         u->op, dtype, x, y, value);
}

static bell_status
eval_mulacc(const struct ref_run *run, const struct uop *u,
            struct ref_array *out)
{
    enum uop_dtype dtype = u->dtype;
    struct ref_array src[3];
    size_t step[3], k;
    uint32_t i;

    if (!uop_dtype_infos[dtype].is_float)
        return bad_node(u, "not an op on this dtype");
    for (i = 0; i < 3; i++) {
        src[i] = ref_source(run, u, i);
        step[i] = u->src[i]->op != UOP_CONST;
    }
    for (k = 0; k < out->n; k++) {
        double x = src[0].f[k * step[0]], y = src[1].f[k * step[1]],
               z = src[2].f[k * step[2]];
        double value = uop_round_float(dtype, fma(x, y, z)), product;
        uint64_t salt = (uint64_t)u->id << 32 ^ k;
        out->f[k] = value;
        if (!run->noise)
            continue;
        /* where the target has no such instruction */
        x = ref_noisy_flush(run->noise, salt ^ 4, dtype, x);
        y = ref_noisy_flush(run->noise, salt ^ 5, dtype, y);
        product = x * y;
        value = uop_round_float(dtype, fma(x, y, z));
        if (run->noise->lacks_fma) {
            product = ref_alu_float(UOP_MUL, dtype, x, y);
            product = ref_noisy_alu(run->noise, salt ^ 6, UOP_MUL, dtype, x, y,
                                    product);
            value = uop_round_float(dtype, product + z);
        }
        out->f[k] =
            ref_noisy_alu(run->noise, salt, UOP_ADD, dtype, product, z, value);
    }
    return BELL_OK;
}

static bell_status
eval_alu(const struct ref_run *run, const struct uop *u, struct ref_array *out)
{
    enum uop_op op = u->op;
    uint32_t last = u->n_src - 1;
    struct ref_array x, y;
    size_t step_x, step_y, k;
    bool is_float, is_cmp = uop_has(u, UOP_FLAG_CMP);

    BELL_TRY(ref_check_alu(run, u));
    if (op == UOP_WHERE)
        return eval_where(run, u, out);
    if (op == UOP_MULACC)
        return eval_mulacc(run, u, out);
    x = ref_source(run, u, 0);
    y = ref_source(run, u, last);
    step_x = u->src[0]->op != UOP_CONST;
    step_y = u->src[last]->op != UOP_CONST;
    is_float = uop_dtype_infos[x.dtype].is_float;
    for (k = 0; k < out->n; k++) {
        size_t i = k * step_x, j = k * step_y;
        if (is_float && is_cmp)
            out->i[k] = ref_compare_float(op, x.f[i], y.f[j]);
        else if (is_float)
            out->f[k] = alu_float(run, u, k, x.f[i], y.f[j]);
        else if (is_cmp)
            out->i[k] = ref_compare_int(op, x.dtype, x.i[i], y.i[j]);
        else
            out->i[k] = ref_alu_int(op, x.dtype, x.i[i], y.i[j]);
    }
    return BELL_OK;
}

static bell_status
eval_iota(const struct uop *u, struct ref_array *out)
{
    size_t k;

    if (out->n != (size_t)u->arg.i)
        return bad_node(u, "its shape is not (arg)");
    for (k = 0; k < out->n; k++) {
        if (uop_dtype_infos[out->dtype].is_float)
            out->f[k] = uop_round_float(out->dtype, (double)k);
        else
            out->i[k] = uop_wrap_int(out->dtype, (int64_t)k);
    }
    return BELL_OK;
}

static bell_status
eval_into(const struct ref_run *run, const struct uop *u, struct ref_array *out)
{
    switch ((int)u->op) {
    case UOP_CONST:
        if (out->n != 1)
            return bad_node(u, "its shape is not ()");
        out->i[0] = u->arg.i; /* or the same 64 bits of arg.f */
        return BELL_OK;
    case UOP_BUFFER:
        return run->leaf(run->user, u, out);
    case UOP_IOTA:
        return eval_iota(u, out);
    case UOP_RESHAPE:
    case UOP_CONTIGUOUS:
    case UOP_DETACH:
    case UOP_LAYOUT:
    case UOP_ASSIGN:
        return eval_copy(run, u, out);
    case UOP_PERMUTE:
    case UOP_EXPAND:
    case UOP_PAD:
    case UOP_SHRINK:
    case UOP_FLIP:
        return eval_move(run, u, out);
    case UOP_REDUCE_AXIS:
        return eval_reduce(run, u, out);
    case UOP_GATHER:
        return eval_gather(run, u, out);
    case UOP_SCAN:
        return eval_scan(run, u, out);
    case UOP_SORT_AXIS:
        return eval_exchange(run, u, out);
    case UOP_CAST:
    case UOP_BITCAST:
        return eval_convert(run, u, out);
    default:
        if (uop_has(u, UOP_FLAG_ALU) && uop_has(u, UOP_FLAG_T))
            return eval_alu(run, u, out);
        return bad_node(u, "not an op with a value in a tensor graph");
    }
}

static bell_status
eval_node(struct ref_run *run, const struct uop *u)
{
    struct ref_array out = {.dtype = u->dtype, .shape = shape_of(run->g, u)};
    const struct uop_op_info *info = &uop_op_infos[u->op];
    uint32_t k;

    if (u->dtype == UOP_VOID || u->lanes != 1)
        return bad_node(u, "has no value in a tensor graph");
    if (u->n_src < info->min_src || u->n_src > info->max_src)
        return bad_node(u, "wrong number of sources");
    BELL_TRY(count_elems(run->g, u, &out.n));
    out.data = host_alloc((out.n + 1) * sizeof(*out.i));
    if (!out.data)
        return bell_fail(BELL_E_NO_MEMORY,
                         "reference value of %zu elements: out of memory",
                         out.n);
    run->data[u->id] = out.data;
    BELL_TRY(eval_into(run, u, &out));
    for (k = 0; k < u->n_src; k++) {
        uint32_t id = u->src[k]->id;
        if (--run->users[id] == 0) {
            host_free(run->data[id]);
            run->data[id] = NULL;
        }
    }
    return BELL_OK;
}

/* Counts every use under the roots, users before sources. */
static void
count_users(struct ref_run *run, const struct uop *const *roots, size_t n)
{
    size_t id, i;
    uint32_t k;

    for (i = 0; i < n; i++)
        run->users[roots[i]->id]++;
    for (id = run->g->n_nodes; id-- > 0;) {
        const struct uop *u = run->g->nodes[id];
        for (k = 0; run->users[id] && k < u->n_src; k++)
            run->users[u->src[k]->id]++;
    }
}

/* Hands a root's elements over, or a copy if another root has them too. */
static bell_status
take_root(struct ref_run *run, const struct uop *u, struct ref_array *out)
{
    struct ref_array array = {.dtype = u->dtype, .shape = shape_of(run->g, u)};

    BELL_TRY(count_elems(run->g, u, &array.n));
    if (array.shape == &scalar_shape)
        array.shape = NULL;
    array.data = run->data[u->id];
    if (--run->users[u->id] == 0) {
        run->data[u->id] = NULL;
    } else {
        array.data = host_alloc((array.n + 1) * sizeof(*array.i));
        if (!array.data)
            return bell_fail(BELL_E_NO_MEMORY, "reference root: out of memory");
        memcpy(array.data, run->data[u->id], array.n * sizeof(*array.i));
    }
    *out = array;
    return BELL_OK;
}

static bell_status
eval_all(struct ref_run *run, const struct uop *const *roots, size_t n,
         struct ref_array *out)
{
    bell_status status;
    size_t id, i;

    count_users(run, roots, n);
    for (id = 0; id < run->g->n_nodes; id++) {
        if (run->users[id])
            BELL_TRY(eval_node(run, run->g->nodes[id]));
    }
    for (i = 0; i < n; i++) {
        status = take_root(run, roots[i], &out[i]);
        if (status != BELL_OK) {
            while (i-- > 0)
                ref_array_fini(&out[i]);
            return status;
        }
    }
    return BELL_OK;
}

bell_status
ref_eval(const struct uop_graph *g, const struct uop *const *roots, size_t n,
         ref_leaf_fn *leaf, void *user, const struct ref_noise *noise,
         struct ref_array *out)
{
    struct ref_run run = {.g = g, .leaf = leaf, .user = user, .noise = noise};
    bell_status status;
    size_t id;

    BELL_TRY(uop_graph_status(g));
    run.data = host_calloc(g->n_nodes + 1, sizeof(*run.data));
    run.users = host_calloc(g->n_nodes + 1, sizeof(*run.users));
    if (run.data && run.users)
        status = eval_all(&run, roots, n, out);
    else
        status = bell_fail(BELL_E_NO_MEMORY,
                           "reference evaluation of %zu "
                           "nodes: out of memory",
                           g->n_nodes);
    for (id = 0; run.data && id < g->n_nodes; id++)
        host_free(run.data[id]);
    host_free(run.data);
    host_free(run.users);
    return status;
}

void
ref_array_fini(struct ref_array *array)
{
    host_free(array->data);
    memset(array, 0, sizeof(*array));
}

void
ref_from_bytes(struct ref_array *array, const void *bytes)
{
    const struct uop_dtype_info *info = &uop_dtype_infos[array->dtype];
    const uint8_t *at = bytes;
    size_t k;

    for (k = 0; k < array->n; k++, at += info->size_bytes) {
        uint64_t bits = 0;
        memcpy(&bits, at, info->size_bytes);
        if (info->is_float)
            array->f[k] = uop_float_value(array->dtype, bits);
        else if (array->dtype == UOP_BOOL)
            array->i[k] = bits != 0;
        else
            array->i[k] = uop_wrap_int(array->dtype, (int64_t)bits);
    }
}

void
ref_to_bytes(const struct ref_array *array, void *bytes)
{
    const struct uop_dtype_info *info = &uop_dtype_infos[array->dtype];
    uint8_t *at = bytes;
    size_t k;

    for (k = 0; k < array->n; k++, at += info->size_bytes) {
        uint64_t bits = info->is_float
                            ? uop_float_bits(array->dtype, array->f[k])
                            : (uint64_t)array->i[k];
        memcpy(at, &bits, info->size_bytes);
    }
}
