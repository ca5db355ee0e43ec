/* The function table: reductions, running results, order. */
#include "tensor/functions/functions_internal.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"

#define A args->a

/* input, dim, keepdim */
static struct bell_tensor *
call_reduce(struct fn_args *args)
{
    return args->row->reduce(A[0].t, A[1].ints, A[1].n, A[2].b);
}

/* input, dim, keepdim, dtype */
static struct bell_tensor *
call_reduce_as(struct fn_args *args)
{
    A[0].t = fn_cast(args, A[0].t, 3);
    return call_reduce(args);
}

typedef struct bell_tensor *spread_fn(struct bell_tensor *x,
                                      const int64_t *axes, uint32_t n_axes,
                                      bool keepdim, double correction);

static struct bell_tensor *
call_var(struct fn_args *args)
{
    return bell_var(A[0].t, A[1].ints, A[1].n, A[3].b, A[2].f);
}

static struct bell_tensor *
call_std(struct fn_args *args)
{
    return bell_std(A[0].t, A[1].ints, A[1].n, A[3].b, A[2].f);
}

/* Two results: of `spread`, and the mean. */
static struct bell_tensor *
call_and_mean(struct fn_args *args, spread_fn *spread)
{
    args->call->results[0] = spread(A[0].t, A[1].ints, A[1].n, A[3].b, A[2].f);
    args->call->results[1] = bell_mean(A[0].t, A[1].ints, A[1].n, A[3].b);
    args->call->n_results = 2;
    return NULL;
}

static struct bell_tensor *
call_var_mean(struct fn_args *args)
{
    return call_and_mean(args, bell_var);
}

static struct bell_tensor *
call_std_mean(struct fn_args *args)
{
    return call_and_mean(args, bell_std);
}

static struct bell_tensor *
call_count_nonzero(struct fn_args *args)
{
    return bell_count_nonzero(A[0].t, A[1].ints, A[1].n);
}

static struct bell_tensor *
call_norm(struct fn_args *args)
{
    return bell_norm(A[0].t, A[1].f, A[2].ints, A[2].n, A[3].b);
}

typedef struct bell_tensor *arg_fn(struct bell_tensor *x, int axis,
                                   bool keepdim);

/* Without dim: of the flattened input; keepdim then keeps every axis. */
static struct bell_tensor *
call_arg(struct fn_args *args, arg_fn *function)
{
    int axis = A[1].given ? fn_axis(&A[1]) : BELL_FLAT;

    return function(A[0].t, axis, A[2].b);
}

static struct bell_tensor *
call_argmax(struct fn_args *args)
{
    return call_arg(args, bell_argmax);
}

static struct bell_tensor *
call_argmin(struct fn_args *args)
{
    return call_arg(args, bell_argmin);
}

static struct bell_tensor *
call_softmax(struct fn_args *args)
{
    return bell_softmax(fn_cast(args, A[0].t, 2), fn_axis(&A[1]));
}

static struct bell_tensor *
call_log_softmax(struct fn_args *args)
{
    return bell_log_softmax(fn_cast(args, A[0].t, 2), fn_axis(&A[1]));
}

static struct bell_tensor *
call_softmin(struct fn_args *args)
{
    return bell_softmin(fn_cast(args, A[0].t, 2), fn_axis(&A[1]));
}

static struct bell_tensor *
call_normalize(struct fn_args *args)
{
    return bell_normalize(A[0].t, A[1].f, fn_axis(&A[2]), A[3].f);
}

static struct bell_tensor *
call_cumsum(struct fn_args *args)
{
    return bell_cumsum(fn_cast(args, A[0].t, 2), fn_axis(&A[1]));
}

static struct bell_tensor *
call_cumprod(struct fn_args *args)
{
    return bell_cumprod(fn_cast(args, A[0].t, 2), fn_axis(&A[1]));
}

static struct bell_tensor *
call_cummax(struct fn_args *args)
{
    return bell_cummax(A[0].t, fn_axis(&A[1]));
}

static struct bell_tensor *
call_cummin(struct fn_args *args)
{
    return bell_cummin(A[0].t, fn_axis(&A[1]));
}

static struct bell_tensor *
call_sort(struct fn_args *args)
{
    bell_sort(A[0].t, fn_axis(&A[1]), A[2].b, &args->call->results[0],
              &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

static struct bell_tensor *
call_msort(struct fn_args *args)
{
    struct bell_tensor *values = NULL;

    bell_sort(A[0].t, 0, false, &values, NULL);
    return values;
}

static struct bell_tensor *
call_argsort(struct fn_args *args)
{
    return bell_argsort(A[0].t, fn_axis(&A[1]), A[2].b);
}

static struct bell_tensor *
call_topk(struct fn_args *args)
{
    bell_topk(A[0].t, A[1].i, fn_axis(&A[2]), A[3].b, &args->call->results[0],
              &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

#define REDUCE(name, doc, aliases, function)                                   \
    {                                                                          \
        {name, "input: tensor, dim: ints = None, keepdim: bool = False", doc,  \
         RED, false},                                                          \
            aliases, call_reduce,                                              \
        {                                                                      \
            .reduce = function                                                 \
        }                                                                      \
    }
#define REDUCE_AS(name, doc, function)                                         \
    {                                                                          \
        {name,                                                                 \
         "input: tensor, dim: ints = None, keepdim: bool = False, "            \
         "dtype: dtype = None",                                                \
         doc, RED, false},                                                     \
            NULL, call_reduce_as,                                              \
        {                                                                      \
            .reduce = function                                                 \
        }                                                                      \
    }
#define ROW(name, params, doc, section, function)                              \
    {                                                                          \
        {name, params, doc, section, false}, NULL, function,                   \
        {                                                                      \
            NULL                                                               \
        }                                                                      \
    }
#define LIST_ROW(name, params, doc, section, function)                         \
    {                                                                          \
        {name, params, doc, section, true}, NULL, function,                    \
        {                                                                      \
            NULL                                                               \
        }                                                                      \
    }
#define RED     "Reduction"
#define RUN     "Along an axis"
#define AXIS_AS "input: tensor, dim: int, dtype: dtype = None"
#define LAST_AS "input: tensor, dim: int = -1, dtype: dtype = None"
#define SPREAD                                                                 \
    "input: tensor, dim: ints = None, correction: float = 1, "                 \
    "keepdim: bool = False"

/* clang-format off */
static const struct fn_row rows[] = {
    REDUCE_AS("sum", "sum over all axes or those listed; integers as int64",
              bell_sum),
    REDUCE_AS("prod", "product; integers as int64", bell_prod),
    REDUCE_AS("mean", "mean; of float dtypes", bell_mean),
    REDUCE("max", "greatest element (values only: argmax gives the places; of "
           "two tensors: maximum)", "amax", bell_max),
    REDUCE("min", "smallest element (values only, as max)", "amin", bell_min),
    REDUCE("any", "whether any element is not 0", NULL, bell_any),
    REDUCE("all", "whether no element is 0", NULL, bell_all),
    ROW("count_nonzero", "input: tensor, dim: ints = None",
        "number of elements that are not 0", RED, call_count_nonzero),
    ROW("var", SPREAD, "variance: squared distances from the mean, summed, "
        "over n - correction", RED, call_var),
    ROW("std", SPREAD, "square root of the variance", RED, call_std),
    LIST_ROW("var_mean", SPREAD, "variance and mean", RED, call_var_mean),
    LIST_ROW("std_mean", SPREAD, "standard deviation and mean", RED,
             call_std_mean),
    ROW("norm", "input: tensor, p: float = 2, dim: ints = None, "
        "keepdim: bool = False", "(sum |input|^p)^(1/p); p may be inf, -inf, 0",
        RED, call_norm),
    REDUCE("logsumexp", "log(sum(exp(input))), without overflow", NULL,
           bell_logsumexp),
    ROW("argmax", "input: tensor, dim: int = None, keepdim: bool = False",
        "place of the first greatest element", RED, call_argmax),
    ROW("argmin", "input: tensor, dim: int = None, keepdim: bool = False",
        "place of the first smallest element", RED, call_argmin),

    ROW("softmax", LAST_AS, "exp(input) over its sum along an axis", RUN,
        call_softmax),
    ROW("log_softmax", LAST_AS, "logarithm of softmax", RUN, call_log_softmax),
    ROW("softmin", LAST_AS, "softmax of -input", RUN, call_softmin),
    ROW("normalize", "input: tensor, p: float = 2, dim: int = 1, "
        "eps: float = 1e-12", "input over its p-norm along an axis", RUN,
        call_normalize),
    ROW("cumsum", AXIS_AS, "running sum; integers as int64", RUN, call_cumsum),
    ROW("cumprod", AXIS_AS, "running product; integers as int64", RUN,
        call_cumprod),
    ROW("cummax", "input: tensor, dim: int", "running greatest (values only)",
        RUN, call_cummax),
    ROW("cummin", "input: tensor, dim: int", "running smallest (values only)",
        RUN, call_cummin),
    LIST_ROW("sort", "input: tensor, dim: int = -1, descending: bool = False",
             "values in order, stable, and the places they came from", RUN,
             call_sort),
    ROW("msort", "input: tensor", "values in order along axis 0", RUN,
        call_msort),
    ROW("argsort", "input: tensor, dim: int = -1, descending: bool = False",
        "the places that sort would take values from", RUN, call_argsort),
    LIST_ROW("topk", "input: tensor, k: int, dim: int = -1, "
             "largest: bool = True",
             "the k greatest (or smallest) in order, and their places", RUN,
             call_topk),
};
/* clang-format on */

const struct fn_table fn_table_reduce = {rows, ARRAY_LEN(rows)};
