/* The function table: tensors from nothing, from numbers, at random. */
#include "tensor/functions/functions_internal.h"

#include "base/bits.h"
#include "reference/reference.h"
#include "tensor/core/node.h"
#include "tensor/core/tensor_internal.h"

#define A args->a

static struct bell_tensor *
call_full(struct fn_args *args)
{
    bool is_bool = A[1].v.kind == BELL_VALUE_BOOL;
    enum bell_dtype dtype = A[2].dtype;

    if (dtype == BELL_DEFAULT && is_bool)
        dtype = BELL_BOOL;
    if (A[1].is_int)
        return bell_full_int(args->ctx, A[0].ints, A[0].n, A[1].i, dtype);
    return bell_full(args->ctx, A[0].ints, A[0].n, A[1].f, dtype);
}

static struct bell_tensor *
call_full_like(struct fn_args *args)
{
    enum bell_dtype dtype = A[2].dtype;
    uint32_t n = bell_ndim(A[0].t);
    int64_t shape[BELL_MAX_RANK];
    uint32_t i;

    if (!A[1].is_int)
        return bell_full_like(A[0].t, A[1].f, dtype);
    for (i = 0; i < n; i++)
        shape[i] = bell_dim_at(A[0].t, (int)i).word;
    if (dtype == BELL_DEFAULT)
        dtype = bell_dtype_of(A[0].t);
    return bell_full_int(args->ctx, shape, n, A[1].i, dtype);
}

static struct bell_tensor *
call_eye(struct fn_args *args)
{
    return bell_eye(args->ctx, A[0].i, A[1].given ? A[1].i : A[0].i,
                    A[2].dtype);
}

/* arange(end), arange(start, end), arange(start, end, step) */
static struct bell_tensor *
call_arange(struct fn_args *args)
{
    bool one = !A[1].given;
    bool whole = A[0].is_int && (one || A[1].is_int) && A[2].is_int;
    enum bell_dtype dtype = A[3].dtype;

    if (whole && A[2].i == 1 && (dim_is_expr(A[0].i) || dim_is_expr(A[1].i)))
        return bell_arange_dims(args->ctx, (struct bell_dim){one ? 0 : A[0].i},
                                (struct bell_dim){one ? A[0].i : A[1].i},
                                dtype);
    if (whole)
        return bell_arange_int(args->ctx, one ? 0 : A[0].i,
                               one ? A[0].i : A[1].i, A[2].i, dtype);
    if (dtype == BELL_DEFAULT)
        dtype = BELL_FLOAT32;
    return bell_arange(args->ctx, one ? 0 : A[0].f, one ? A[0].f : A[1].f,
                       A[2].f, dtype);
}

/* ---- numbers in lists ------------------------------------------------- */

/* The shape of nested lists and what their numbers need. */
struct nest {
    int64_t shape[BELL_MAX_RANK];
    uint32_t rank;
    size_t n;
    bool any_float, any_int;
    struct ref_array array;
    size_t filled;
};

static bool
shape_of_nest(struct fn_args *args, const struct bell_value *v, struct nest *n)
{
    n->n = 1;
    while (v->kind == BELL_VALUE_LIST) {
        if (n->rank == BELL_MAX_RANK) {
            fn_fail(args, "lists nested more than %d deep", BELL_MAX_RANK);
            return false;
        }
        n->shape[n->rank++] = v->n_items;
        n->n *= v->n_items;
        if (v->n_items == 0)
            break;
        v = v->items;
    }
    return true;
}

static bool
store_number(struct fn_args *args, const struct bell_value *v, struct nest *n)
{
    bool is_float = v->kind == BELL_VALUE_FLOAT;
    struct ref_array *array = &n->array;
    int64_t i = v->kind == BELL_VALUE_BOOL ? v->b : v->i;

    if (v->kind != BELL_VALUE_BOOL && v->kind != BELL_VALUE_INT && !is_float) {
        fn_fail(args, "%s among the numbers", bell_value_kind_name(v));
        return false;
    }
    n->any_float |= is_float;
    n->any_int |= v->kind == BELL_VALUE_INT;
    if (!array->data)
        return true;
    if (!is_float &&
        !tensor_fits_int(args->ctx, args->row->fn.name, i, array->dtype))
        return false;
    if (uop_dtype_infos[array->dtype].is_float)
        array->f[n->filled++] =
            uop_round_float(array->dtype, is_float ? v->f : (double)i);
    else
        array->i[n->filled++] = is_float ? tn_saturate(array->dtype, v->f)
                                         : uop_wrap_int(array->dtype, i);
    return true;
}

/* Visits the numbers in order: first to see what they are, then, with an
 * array, to store them. Nested at most BELL_MAX_RANK deep. */
static bool
visit_nest(struct fn_args *args, const struct bell_value *v, uint32_t depth,
           struct nest *n)
{
    uint32_t i;

    if (depth == n->rank)
        return store_number(args, v, n);
    if (v->kind != BELL_VALUE_LIST || v->n_items != n->shape[depth]) {
        fn_fail(args, "the lists are not all of one shape");
        return false;
    }
    for (i = 0; i < v->n_items; i++) {
        if (!visit_nest(args, &v->items[i], depth + 1, n))
            return false;
    }
    return true;
}

static struct bell_tensor *
tensor_of_nest(struct fn_args *args, const struct bell_value *v, struct nest *n)
{
    struct ref_array *array = &n->array;
    struct bell_tensor *t;
    void *bytes;

    array->n = n->n;
    array->data = arena_alloc(args->arena, (n->n + 1) * sizeof(int64_t));
    bytes = arena_alloc(args->arena, (n->n + 1) * sizeof(int64_t));
    if (!array->data || !bytes)
        return tensor_fail(args->ctx, args->row->fn.name, BELL_E_NO_MEMORY,
                           "out of memory for %zu numbers", n->n);
    if (!visit_nest(args, v, 0, n))
        return bell_error_tensor(args->ctx);
    ref_to_bytes(array, bytes);
    t = bell_from_data(args->ctx, n->shape, n->rank,
                       (enum bell_dtype)array->dtype, bytes);
    return t;
}

static struct bell_tensor *
call_tensor(struct fn_args *args)
{
    const struct bell_value *v = &A[0].v;
    struct nest n = {.n = 0};

    if (v->kind == BELL_VALUE_TENSOR)
        return fn_cast(args, v->tensor, 1);
    if (!shape_of_nest(args, v, &n) || !visit_nest(args, v, 0, &n))
        return bell_error_tensor(args->ctx);
    n.array.dtype = (enum uop_dtype)A[1].dtype;
    if (A[1].dtype == BELL_DEFAULT)
        n.array.dtype = n.any_float || n.n == 0 ? UOP_F32
                        : n.any_int             ? UOP_I64
                                                : UOP_BOOL;
    return tensor_of_nest(args, v, &n);
}

#define X     "input: tensor"
#define NEW   "Creation"
#define RND   "Random numbers"
#define SIZED "size: ints*, dtype: dtype = None"

/* clang-format off */
static const struct fn_row rows[] = {
    {{"tensor", "data: data, dtype: dtype = None",
      "of numbers in lists: float32, int64 or bool unless dtype says so", NEW},
     .glue = call_tensor},
    {{"zeros", SIZED, "0 everywhere", NEW}, FN(cly, bell_zeros)},
    {{"ones", SIZED, "1 everywhere", NEW}, FN(cly, bell_ones)},
    {{"full", "size: ints, fill_value: number, dtype: dtype = None",
      "one value everywhere", NEW}, .glue = call_full},
    {{"zeros_like", "input: tensor, dtype: dtype = None", "0 in input's shape",
      NEW}, FN(ty, bell_zeros_like)},
    {{"ones_like", "input: tensor, dtype: dtype = None", "1 in input's shape",
      NEW}, FN(ty, bell_ones_like)},
    {{"full_like", "input: tensor, fill_value: number, dtype: dtype = None",
      "one value in input's shape", NEW}, .glue = call_full_like},
    {{"eye", "n: int, m: int = None, dtype: dtype = None",
     "1 on the main diagonal, else 0", NEW}, .glue = call_eye},
    {{"arange", "start: number, end: number = None, step: number = 1, "
      "dtype: dtype = None",
      "start, start + step, ... below end; arange(end) starts at 0", NEW},
     .glue = call_arange},
    {{"linspace", "start: float, end: float, steps: int, dtype: dtype = None",
      "evenly spaced, both ends included", NEW}, FN(cffiy, bell_linspace)},

    {{"rand", SIZED, "uniform in [0, 1)", RND}, FN(cly, bell_rand)},
    {{"randn", SIZED, "standard normal", RND}, FN(cly, bell_randn)},
    {{"randint", "low: int, high: int, size: ints, dtype: dtype = None",
      "integers in [low, high)", RND}, FN(ciily, bell_randint)},
    {{"randperm", "n: int", "a random order of 0..n-1", RND},
     FN(ci, bell_randperm)},
    {{"rand_like", X, "uniform in [0, 1), in input's shape", RND},
     FN(t, bell_rand_like)},
    {{"randn_like", X, "standard normal, in input's shape", RND},
     FN(t, bell_randn_like)},
    {{"uniform", "size: ints, low: float = 0, high: float = 1, "
      "dtype: dtype = None", "uniform in [low, high)", RND},
     FN(clffy, bell_uniform)},
    {{"normal", "mean: float, std: float, size: ints, dtype: dtype = None",
      "normal", RND}, FN(clffy, bell_normal), "2013"},
    {{"scaled_uniform", SIZED, "uniform in +-1 / sqrt(number of elements)",
      RND}, FN(cly, bell_scaled_uniform)},
    {{"glorot_uniform", SIZED, "Glorot's initial weights, uniform", RND},
     FN(cly, bell_glorot_uniform)},
    {{"kaiming_uniform", "size: ints, a: float = 0, dtype: dtype = None",
      "He's initial weights, uniform", RND}, FN(clfy, bell_kaiming_uniform)},
    {{"kaiming_normal", "size: ints, a: float = 0, dtype: dtype = None",
      "He's initial weights, normal", RND}, FN(clfy, bell_kaiming_normal)},
};
/* clang-format on */

const struct fn_table fn_table_create = {rows, ARRAY_LEN(rows)};
