/* The function table: reductions, running results, order. */
#include "tensor/functions/functions_internal.h"

#include "base/bits.h"

#define A args->a

/* Two results: the row's own, and the mean. */
static struct bell_tensor *
call_and_mean(struct fn_args *args)
{
    args->call->results[0] = fn_forward(args);
    args->call->results[1] = bell_mean(A[0].t, A[1].ints, A[1].n, A[3].b);
    args->call->n_results = 2;
    return NULL;
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
call_topk(struct fn_args *args)
{
    bell_topk(A[0].t, A[1].i, fn_axis(&A[2]), A[3].b, &args->call->results[0],
              &args->call->results[1]);
    args->call->n_results = 2;
    return NULL;
}

#define RED     "Reduction"
#define RUN     "Along an axis"
#define X       "input: tensor"
#define AXES    X ", dim: ints = None, keepdim: bool = False"
#define AXES_AS AXES ", dtype: dtype = None"
#define AXIS_AS X ", dim: int, dtype: dtype = None"
#define LAST_AS X ", dim: int = -1, dtype: dtype = None"
#define SPREAD                                                                 \
    X ", dim: ints = None, correction: float = 1, keepdim: bool = False"

/* clang-format off */
static const struct fn_row rows[] = {
    {{"sum", AXES_AS, "sum over all axes or those listed; integers as int64",
      RED}, FN(tlb, bell_sum)},
    {{"prod", AXES_AS, "product; integers as int64", RED}, FN(tlb, bell_prod)},
    {{"mean", AXES_AS, "mean; of float dtypes", RED}, FN(tlb, bell_mean)},
    {{"any", AXES, "whether any element is not 0", RED}, FN(tlb, bell_any)},
    {{"all", AXES, "whether no element is 0", RED}, FN(tlb, bell_all)},
    {{"count_nonzero", "input: tensor, dim: ints = None",
      "number of elements that are not 0", RED}, FN(tl, bell_count_nonzero)},
    {{"var", SPREAD, "variance: squared distances from the mean, summed, "
      "over n - correction", RED}, FN(tlbf, bell_var), "0132"},
    {{"std", SPREAD, "square root of the variance", RED}, FN(tlbf, bell_std),
     "0132"},
    {{"var_mean", SPREAD, "variance and mean", RED, true}, FN(tlbf, bell_var),
     "0132", .glue = call_and_mean},
    {{"std_mean", SPREAD, "standard deviation and mean", RED, true},
     FN(tlbf, bell_std), "0132", .glue = call_and_mean},
    {{"norm", "input: tensor, p: float = 2, dim: ints = None, "
      "keepdim: bool = False", "(sum |input|^p)^(1/p); p may be inf, -inf, 0",
      RED}, FN(tflb, bell_norm)},
    {{"logsumexp", AXES, "log(sum(exp(input))), without overflow", RED},
     FN(tlb, bell_logsumexp)},
    {{"argmax", "input: tensor, dim: int = None, keepdim: bool = False",
      "place of the first greatest element", RED}, FN(tab, bell_argmax)},
    {{"argmin", "input: tensor, dim: int = None, keepdim: bool = False",
      "place of the first smallest element", RED}, FN(tab, bell_argmin)},

    {{"softmax", LAST_AS, "exp(input) over its sum along an axis", RUN},
     FN(ta, bell_softmax)},
    {{"log_softmax", LAST_AS, "logarithm of softmax", RUN},
     FN(ta, bell_log_softmax)},
    {{"softmin", LAST_AS, "softmax of -input", RUN}, FN(ta, bell_softmin)},
    {{"normalize", "input: tensor, p: float = 2, dim: int = 1, "
      "eps: float = 1e-12", "input over its p-norm along an axis", RUN},
     FN(tfaf, bell_normalize)},
    {{"cumsum", AXIS_AS, "running sum; integers as int64", RUN},
     FN(ta, bell_cumsum)},
    {{"cumprod", AXIS_AS, "running product; integers as int64", RUN},
     FN(ta, bell_cumprod)},
    {{"sort", "input: tensor, dim: int = -1, descending: bool = False",
      "values in order, stable, and the places they came from", RUN, true},
     .glue = call_sort},
    {{"msort", X, "values in order along axis 0", RUN}, .glue = call_msort},
    {{"argsort", "input: tensor, dim: int = -1, descending: bool = False",
      "the places that sort would take values from", RUN},
     FN(tab, bell_argsort)},
    {{"topk", "input: tensor, k: int, dim: int = -1, largest: bool = True",
      "the k greatest (or smallest) in order, and their places", RUN, true},
     .glue = call_topk},
};
/* clang-format on */

const struct fn_table fn_table_reduce = {rows, ARRAY_LEN(rows)};
