/* The function table: combining by index, by mask, order statistics, counts,
 * distances. */
#include "tensor/functions/functions_internal.h"

#include <string.h>

#include "base/bits.h"
#include "doorbell/dim.h"
#include "tensor/core/tensor_internal.h"

#define A args->a

/* The number of a word in a list; -1 after telling that it is none. */
static int
find_word(struct fn_args *args, const char *what, const char *word,
          const char *const *words, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        if (strcmp(words[i], word) == 0)
            return i;
    }
    fn_fail(args, "%s '%s' is not known", what, word);
    return -1;
}

/* ---- two results ------------------------------------------------------ */

typedef void fn_value_and_place(struct bell_tensor *x, int axis, bool keepdim,
                                struct bell_tensor **out_values,
                                struct bell_tensor **out_indices);

/* input, dim, keepdim. */
static struct bell_tensor *
give_both(struct fn_args *args, int axis, fn_value_and_place *call)
{
    call(A[0].t, axis, A[2].b, &args->call->results[0],
         &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

/* One axis gives two results; all of them or a list of axes give the value. */
static struct bell_tensor *
call_max(struct fn_args *args)
{
    if (A[1].given && A[1].v.kind == BELL_VALUE_INT) {
        struct fn_arg axis = {.given = true, .i = A[1].v.i};
        return give_both(args, fn_axis(&axis), bell_max_at);
    }
    return bell_max(A[0].t, A[1].ints, A[1].n, A[2].b);
}

static struct bell_tensor *
call_min(struct fn_args *args)
{
    if (A[1].given && A[1].v.kind == BELL_VALUE_INT) {
        struct fn_arg axis = {.given = true, .i = A[1].v.i};
        return give_both(args, fn_axis(&axis), bell_min_at);
    }
    return bell_min(A[0].t, A[1].ints, A[1].n, A[2].b);
}

static struct bell_tensor *
call_median(struct fn_args *args)
{
    struct bell_tensor *value = NULL;

    if (A[1].given)
        return give_both(args, fn_axis(&A[1]), bell_median);
    bell_median(A[0].t, BELL_FLAT, A[2].b, &value, NULL);
    return value;
}

static struct bell_tensor *
call_nanmedian(struct fn_args *args)
{
    struct bell_tensor *value = NULL;

    if (A[1].given)
        return give_both(args, fn_axis(&A[1]), bell_nanmedian);
    bell_nanmedian(A[0].t, BELL_FLAT, A[2].b, &value, NULL);
    return value;
}

static struct bell_tensor *
call_mode(struct fn_args *args)
{
    return give_both(args, fn_axis(&A[1]), bell_mode);
}

static struct bell_tensor *
call_kthvalue(struct fn_args *args)
{
    bell_kthvalue(A[0].t, A[1].i, fn_axis(&A[2]), A[3].b,
                  &args->call->results[0], &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

static struct bell_tensor *
call_cummax(struct fn_args *args)
{
    bell_cummax_at(A[0].t, fn_axis(&A[1]), &args->call->results[0],
                   &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

static struct bell_tensor *
call_cummin(struct fn_args *args)
{
    bell_cummin_at(A[0].t, fn_axis(&A[1]), &args->call->results[0],
                   &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

static struct bell_tensor *
call_aminmax(struct fn_args *args)
{
    args->call->results[0] = bell_min(A[0].t, A[1].ints, A[1].n, A[2].b);
    args->call->results[1] = bell_max(A[0].t, A[1].ints, A[1].n, A[2].b);
    args->call->n_results = 2;
    return NULL;
}

/* ---- order statistics ------------------------------------------------- */

typedef struct bell_tensor *fn_quantile(struct bell_tensor *x,
                                        struct bell_tensor *q, int axis,
                                        bool keepdim,
                                        enum bell_interpolation interpolation);

static struct bell_tensor *
quantile_of(struct fn_args *args, fn_quantile *call)
{
    static const char *const words[] = {
        [BELL_LINEAR] = "linear",     [BELL_LOWER] = "lower",
        [BELL_HIGHER] = "higher",     [BELL_NEAREST] = "nearest",
        [BELL_MIDPOINT] = "midpoint",
    };
    int how = find_word(args, "interpolation", A[4].str, words,
                        (int)ARRAY_LEN(words));

    if (how < 0)
        return bell_error_tensor(args->ctx);
    return call(A[0].t, A[1].t, fn_axis(&A[2]), A[3].b,
                (enum bell_interpolation)how);
}

static struct bell_tensor *
call_quantile(struct fn_args *args)
{
    return quantile_of(args, bell_quantile);
}

static struct bell_tensor *
call_nanquantile(struct fn_args *args)
{
    return quantile_of(args, bell_nanquantile);
}

/* ---- combining by index ----------------------------------------------- */

/* PyTorch's src may also be a number, or longer than the index along any axis
 * (what is beyond is not read). */
static void
fit_source(struct fn_args *args)
{
    struct bell_tensor *src = A[3].t, *index = A[2].t;
    enum uop_dtype dtype = (enum uop_dtype)bell_dtype_of(A[0].t);

    if (!bell_is_error(src) &&
        !tensor_fits_number(args->row->fn.name, src, dtype))
        A[3].t = bell_error_tensor(args->ctx);
    else if (bell_ndim(src) == 0 && bell_ndim(index) > 0)
        A[3].t =
            bell_expand(bell_cast(src, bell_dtype_of(A[0].t)),
                        bell_dim_words(bell_dims(index)), bell_ndim(index));
}

static struct bell_tensor *
call_scatter(struct fn_args *args)
{
    static const char *const words[] = {"add", "multiply"};
    int way;

    fit_source(args);
    if (!A[4].given)
        return bell_scatter(A[0].t, fn_axis(&A[1]), A[2].t, A[3].t);
    way = find_word(args, "reduce", A[4].str, words, 2);
    if (way < 0)
        return bell_error_tensor(args->ctx);
    return bell_scatter_reduce(A[0].t, fn_axis(&A[1]), A[2].t, A[3].t,
                               way ? BELL_COMBINE_PROD : BELL_COMBINE_SUM,
                               true);
}

static struct bell_tensor *
call_scatter_add(struct fn_args *args)
{
    fit_source(args);
    return fn_forward(args);
}

static struct bell_tensor *
call_scatter_reduce(struct fn_args *args)
{
    static const char *const words[] = {
        [BELL_COMBINE_LAST] = "", /* no word */
        [BELL_COMBINE_SUM] = "sum",   [BELL_COMBINE_PROD] = "prod",
        [BELL_COMBINE_MEAN] = "mean", [BELL_COMBINE_AMAX] = "amax",
        [BELL_COMBINE_AMIN] = "amin",
    };
    int way = find_word(args, "reduce", A[4].str, words, (int)ARRAY_LEN(words));

    if (way <= 0)
        return bell_error_tensor(args->ctx);
    fit_source(args);
    return bell_scatter_reduce(A[0].t, fn_axis(&A[1]), A[2].t, A[3].t,
                               (enum bell_combine)way, A[5].b);
}

/* The index of an axis, which has a number for each of src's places there,
 * repeated along src's others. */
static struct bell_tensor *
spread_index(struct fn_args *args)
{
    struct bell_tensor *index = A[2].t, *src = A[3].t;
    int64_t d[BELL_MAX_RANK], n = 1;
    uint32_t rank = bell_ndim(src), i;
    int axis = fn_axis(&A[1]);
    bool fits = bell_ndim(index) < 2;

    if (axis < 0)
        axis += rank ? (int)rank : 1;
    if (bell_ndim(index) == 1)
        n = bell_dim_at(index, 0).word;
    if (rank == 0)
        fits = fits && axis == 0 && n == 1;
    else
        fits = fits && axis >= 0 && axis < (int)rank &&
               bell_dim_at(src, axis).word == n;
    if (!fits)
        return fn_fail(args,
                       "indices of %u axes for axis %d of a source of %u axes: "
                       "as many as it has there are due",
                       bell_ndim(index), axis, rank);
    for (i = 0; i < rank; i++)
        d[i] = (int)i == axis ? n : 1;
    index = bell_reshape(index, d, rank);
    for (i = 0; i < rank; i++)
        d[i] = (int)i == axis ? -1 : bell_dim_at(src, (int)i).word;
    return bell_expand(index, d, rank);
}

/* A summand is not rounded before it is added. */
static struct bell_tensor *
call_index_add(struct fn_args *args)
{
    enum bell_dtype dtype = bell_dtype_of(A[0].t);
    struct bell_tensor *x = A[0].t, *src = A[3].t, *index, *alpha;
    bool is_half = dtype == BELL_FLOAT16 || dtype == BELL_BFLOAT16;

    if (A[4].f == 1)
        return bell_scatter_add(x, fn_axis(&A[1]), spread_index(args), src);
    index = spread_index(args);
    alpha = fn_scalar(args, &A[4]);
    if (is_half && bell_dtype_of(src) == dtype) {
        x = bell_cast(x, BELL_FLOAT32);
        src = bell_cast(src, BELL_FLOAT32);
    }
    src = bell_cast(bell_mul(src, alpha), bell_dtype_of(src));
    x = bell_scatter_add(x, fn_axis(&A[1]), index, src);
    return bell_cast(x, dtype);
}

static struct bell_tensor *
call_index_copy(struct fn_args *args)
{
    return bell_scatter(A[0].t, fn_axis(&A[1]), spread_index(args), A[3].t);
}

static struct bell_tensor *
call_index_put(struct fn_args *args)
{
    struct bell_index_item items[BELL_MAX_RANK];
    uint32_t i;

    if (A[1].n > BELL_MAX_RANK)
        return fn_fail(args, "%u indices", A[1].n);
    for (i = 0; i < A[1].n; i++)
        items[i] = bell_by(A[1].ts[i]);
    return A[3].b ? bell_index_put_add(A[0].t, items, A[1].n, A[2].t)
                  : bell_index_put(A[0].t, items, A[1].n, A[2].t);
}

/* Without dim of the flattened input; else the other axes are broadcast. */
static struct bell_tensor *
call_take_along_dim(struct fn_args *args)
{
    struct bell_tensor *x = A[0].t, *index = A[1].t;
    int64_t of_x[BELL_MAX_RANK], of_index[BELL_MAX_RANK];
    uint32_t rank = bell_ndim(x), i;
    int axis = fn_axis(&A[2]);

    if (!A[2].given)
        return bell_take(x, bell_flatten(index, 0, -1));
    if (axis < 0)
        axis += (int)rank;
    if (rank == 0 || bell_ndim(index) != rank || axis < 0 || axis >= (int)rank)
        return bell_gather(x, fn_axis(&A[2]), index);
    for (i = 0; i < rank; i++) {
        int64_t n = bell_dim_at(x, (int)i).word;
        int64_t m = bell_dim_at(index, (int)i).word;
        of_x[i] = n == 1 && (int)i != axis ? m : n;
        of_index[i] = m == 1 && (int)i != axis ? n : m;
    }
    for (i = 0; i < rank; i++) {
        if ((int)i != axis && of_x[i] != of_index[i])
            return fn_fail(args, "sizes of axis %u do not broadcast", i);
    }
    return bell_gather(bell_expand(x, of_x, rank), axis,
                       bell_expand(index, of_index, rank));
}

/* ---- what is different ------------------------------------------------ */

typedef void fn_unique(struct bell_tensor *x, struct bell_tensor **out_values,
                       struct bell_tensor **out_inverse,
                       struct bell_tensor **out_counts);

/* Alone, or with what was asked for. */
static struct bell_tensor *
give_unique(struct fn_args *args, bool inverse, bool counts, fn_unique *call)
{
    struct bell_tensor **results = args->call->results;
    uint32_t n = 1;

    call(A[0].t, &results[0], inverse ? &results[1] : NULL,
         counts ? &results[1 + inverse] : NULL);
    n += inverse;
    n += counts;
    args->call->n_results = n;
    return NULL;
}

static struct bell_tensor *
call_unique(struct fn_args *args)
{
    return give_unique(args, A[2].b, A[3].b, bell_unique);
}

static struct bell_tensor *
call_unique_consecutive(struct fn_args *args)
{
    return give_unique(args, A[1].b, A[2].b, bell_unique_consecutive);
}

/* ---- by mask ---- */

/* With a size that depends on values, or a given one. */
static struct bell_tensor *
call_nonzero(struct fn_args *args)
{
    return A[1].given ? bell_nonzero_sized(A[0].t, A[1].i, A[2].i)
                      : bell_nonzero(A[0].t);
}

static struct bell_tensor *
call_masked_select(struct fn_args *args)
{
    return A[2].given ? bell_masked_select_sized(A[0].t, A[1].t, A[2].i, A[3].t)
                      : bell_masked_select(A[0].t, A[1].t);
}

/* ---- products, losses ------------------------------------------------- */

/* dims: how many of the last axes with as many of the first, or two lists. */
static struct bell_tensor *
call_tensordot(struct fn_args *args)
{
    int64_t axes[2][BELL_MAX_RANK];
    const struct bell_value *v = &A[2].v;
    uint32_t n = 0, i, side;

    if (v->kind == BELL_VALUE_INT) {
        uint32_t rank = bell_ndim(A[0].t);
        if (v->i < 0 || v->i > rank)
            return fn_fail(args, "dims is %lld of %u axes", (long long)v->i,
                           rank);
        n = (uint32_t)v->i;
        for (i = 0; i < n; i++) {
            axes[0][i] = rank - n + i;
            axes[1][i] = i;
        }
        return bell_tensordot(A[0].t, A[1].t, axes[0], axes[1], n);
    }
    if (v->kind != BELL_VALUE_LIST || v->n_items != 2)
        return fn_fail(args, "dims is neither a number nor two lists of axes");
    for (side = 0; side < 2; side++) {
        const struct bell_value *list = &v->items[side];
        if (list->kind != BELL_VALUE_LIST || list->n_items > BELL_MAX_RANK ||
            (side && list->n_items != n))
            return fn_fail(args,
                           "dims is neither a number nor two lists of axes");
        n = list->n_items;
        for (i = 0; i < n; i++) {
            if (list->items[i].kind != BELL_VALUE_INT)
                return fn_fail(args, "an axis in dims is not an int");
            axes[side][i] = list->items[i].i;
        }
    }
    return bell_tensordot(A[0].t, A[1].t, axes[0], axes[1], n);
}

static struct bell_tensor *
call_kl_div(struct fn_args *args)
{
    bool batch = strcmp(A[2].str, "batchmean") == 0;

    if (!batch && !fn_take_reduction(args, &A[2]))
        return bell_error_tensor(args->ctx);
    return bell_kl_div(A[0].t, A[1].t, A[3].b,
                       batch ? BELL_BATCH_MEAN : A[2].reduction);
}

#define X       "input: tensor"
#define PLACED  X ", dim: int = None, keepdim: bool = False"
#define AXES    X ", dim: ints = None, keepdim: bool = False"
#define INDEXED X ", dim: int, index: tensor, "
#define QUANTILE                                                               \
    X ", q: tensor, dim: int = None, keepdim: bool = False, "                  \
      "interpolation: str = 'linear'"
#define COMB  "Combining by index"
#define ORDER "Order and counts"
#define DIST  "Products and distances"
#define LOSS  "Losses"

/* clang-format off */
static const struct fn_row rows[] = {
    {{"scatter", INDEXED "src: tensor, reduce: str = None",
      "input with the indexed elements replaced, by the last of several; "
      "reduce 'add', 'multiply': combined with what is there", COMB},
     .glue = call_scatter},
    {{"scatter_add", INDEXED "src: tensor",
      "input with src added to the indexed elements", COMB},
     FN(tatt, bell_scatter_add), .glue = call_scatter_add},
    {{"scatter_reduce",
      INDEXED "src: tensor, reduce: str, include_self: bool = True",
      "input with src's elements combined where they go: 'sum', 'prod', 'mean', "
      "'amax', 'amin'", COMB}, .glue = call_scatter_reduce},
    {{"index_add", INDEXED "source: tensor, alpha: number = 1",
      "input with alpha * source added at the indices of an axis", COMB},
     .glue = call_index_add},
    {{"index_copy", INDEXED "source: tensor",
      "input with source at the indices of an axis", COMB},
     .glue = call_index_copy},
    {{"index_put",
      "input: tensor, indices: tensors, values: tensor, "
      "accumulate: bool = False",
      "input with what the indices of its first axes name replaced, or added "
      "to", COMB}, .glue = call_index_put},
    {{"take_along_dim", X ", indices: tensor, dim: int = None",
      "gather along dim; without it of the flattened input", COMB},
     .glue = call_take_along_dim},

    {{"max", AXES, "greatest element; of one axis (dim an int) the values and "
      "where they are first", ORDER}, .glue = call_max},
    {{"min", AXES, "smallest element, likewise", ORDER}, .glue = call_min},
    {{"amax", AXES, "greatest element, over all axes or those listed", ORDER},
     FN(tlb, bell_max)},
    {{"amin", AXES, "smallest element, likewise", ORDER}, FN(tlb, bell_min)},
    {{"aminmax", AXES, "smallest and greatest element", ORDER, true},
     .glue = call_aminmax},
    {{"cummax", X ", dim: int", "running greatest, and where each last is",
      ORDER, true}, .glue = call_cummax},
    {{"cummin", X ", dim: int", "running smallest, and where each last is",
      ORDER, true}, .glue = call_cummin},
    {{"median", PLACED, "middle element, the lower of two; with dim also where "
      "it is", ORDER}, .glue = call_median},
    {{"nanmedian", PLACED, "the same of what is not NaN", ORDER},
     .glue = call_nanmedian},
    {{"mode", X ", dim: int = -1, keepdim: bool = False",
      "most frequent element (of several the smallest), and its last place",
      ORDER, true}, .glue = call_mode},
    {{"kthvalue", X ", k: int, dim: int = -1, keepdim: bool = False",
      "k-th smallest element, from 1 on, and where it is", ORDER, true},
     .glue = call_kthvalue},
    {{"quantile", QUANTILE, "what lies a share q of the way through the order; "
      "interpolation 'linear', 'lower', 'higher', 'nearest', 'midpoint'",
      ORDER}, .glue = call_quantile},
    {{"nanquantile", QUANTILE, "the same of what is not NaN", ORDER},
     .glue = call_nanquantile},
    {{"searchsorted",
      "sorted_sequence: tensor, input: tensor, right: bool = False",
      "how many elements, ascending along the last axis, are less than each of "
      "input (right: not greater)", ORDER}, FN(ttb, bell_searchsorted)},
    {{"bucketize", "input: tensor, boundaries: tensor, right: bool = False",
      "the same, the boundaries of rank 1", ORDER},
     FN(ttb, bell_searchsorted), "102"},
    {{"histc", X ", bins: int = 100, min: float = 0, max: float = 0",
      "how many elements lie in each of equal parts of min..max (equal: of "
      "input's own)", ORDER}, FN(tiff, bell_histc)},
    {{"bincount", X ", weights: tensor = None, minlength: int = 0",
      "how often 0, 1, .. occur, or the sum of weights there; counted on the "
      "host", ORDER}, FN(tti, bell_bincount)},
    {{"unique", X ", sorted: bool = True, return_inverse: bool = False, "
      "return_counts: bool = False", "the different elements, ascending; where "
      "each element is among them; how often each occurs; counted on the host",
      ORDER}, .glue = call_unique},
    {{"unique_consecutive", X ", return_inverse: bool = False, "
      "return_counts: bool = False", "the same of runs of equal elements",
      ORDER}, .glue = call_unique_consecutive},
    {{"nonzero", X ", size: int = None, fill_value: int = 0",
      "the places of what is not 0, a row each; counted on the host, or the "
      "first size, of fill_value where there are fewer", ORDER},
     .glue = call_nonzero, .aliases = "argwhere"},
    {{"masked_select",
      X ", mask: tensor, size: int = None, fill_value: tensor = 0",
      "the elements where mask is true, likewise", ORDER},
     .glue = call_masked_select},
    {{"logcumsumexp", X ", dim: int", "logarithm of running sums of exp", ORDER},
     FN(ta, bell_logcumsumexp)},
    {{"multinomial", X ", num_samples: int, replacement: bool = False",
      "indices drawn with input's weights along its last axis", ORDER},
     FN(tib, bell_multinomial)},

    {{"cdist", "x1: tensor, x2: tensor, p: float = 2",
      "p-norms of the differences of all pairs of rows", DIST},
     FN(ttf, bell_cdist)},
    {{"tensordot", "a: tensor, b: tensor, dims: data = 2",
      "sums of products over pairs of axes: a number of them, or two lists",
      DIST}, .glue = call_tensordot},
    {{"kron", X ", other: tensor", "Kronecker product", DIST},
     FN(tt, bell_kron)},

    {{"smooth_l1_loss", X ", target: tensor, reduction: str = 'mean', "
      "beta: float = 1", "quadratic below beta, |input - target| - beta / 2 "
      "above", LOSS}, FN(ttfr, bell_smooth_l1_loss), "0132"},
    {{"kl_div", X ", target: tensor, reduction: str = 'mean', "
      "log_target: bool = False", "target * (log(target) - input); reduction "
      "also 'batchmean'", LOSS}, .glue = call_kl_div},
};
/* clang-format on */

const struct fn_table fn_table_select = {rows, ARRAY_LEN(rows)};
