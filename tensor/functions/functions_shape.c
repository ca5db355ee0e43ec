/* The function table: shapes, joining and splitting, indexing. */
#include "tensor/functions/functions_internal.h"

#include "base/bits.h"

#define A args->a

/* ---- shapes ----------------------------------------------------------- */

static struct bell_tensor *
call_reshape(struct fn_args *args)
{
    return bell_reshape(A[0].t, A[1].ints, A[1].n);
}

static struct bell_tensor *
call_permute(struct fn_args *args)
{
    return bell_permute(A[0].t, A[1].ints, A[1].n);
}

static struct bell_tensor *
call_transpose(struct fn_args *args)
{
    return bell_transpose(A[0].t, fn_axis(&A[1]), fn_axis(&A[2]));
}

static struct bell_tensor *
call_t(struct fn_args *args)
{
    if (bell_ndim(A[0].t) > 2)
        return fn_fail(args,
                       "input has %u axes, at most 2; mT swaps the last "
                       "two",
                       bell_ndim(A[0].t));
    return bell_t(A[0].t);
}

static struct bell_tensor *
call_movedim(struct fn_args *args)
{
    return bell_movedim(A[0].t, fn_axis(&A[1]), fn_axis(&A[2]));
}

static struct bell_tensor *
call_expand(struct fn_args *args)
{
    return bell_expand(A[0].t, A[1].ints, A[1].n);
}

static struct bell_tensor *
call_flip(struct fn_args *args)
{
    if (A[1].n == 0)
        return A[0].t;
    return bell_flip(A[0].t, A[1].ints, A[1].n);
}

static struct bell_tensor *
call_fliplr(struct fn_args *args)
{
    return bell_flip(A[0].t, BELL_DIMS(1));
}

static struct bell_tensor *
call_flipud(struct fn_args *args)
{
    return bell_flip(A[0].t, BELL_DIMS(0));
}

static struct bell_tensor *
call_squeeze(struct fn_args *args)
{
    if (A[1].given && A[1].n == 0)
        return A[0].t;
    return bell_squeeze(A[0].t, A[1].ints, A[1].n);
}

static struct bell_tensor *
call_unsqueeze(struct fn_args *args)
{
    return bell_unsqueeze(A[0].t, fn_axis(&A[1]));
}

static struct bell_tensor *
call_flatten(struct fn_args *args)
{
    return bell_flatten(A[0].t, fn_axis(&A[1]), fn_axis(&A[2]));
}

static struct bell_tensor *
call_ravel(struct fn_args *args)
{
    return bell_flatten(A[0].t, 0, -1);
}

static struct bell_tensor *
call_unflatten(struct fn_args *args)
{
    return bell_unflatten(A[0].t, fn_axis(&A[1]), A[2].ints, A[2].n);
}

/* PyTorch's order: the last axis first, and leading axes may be left out. */
static struct bell_tensor *
call_pad(struct fn_args *args)
{
    int64_t pads[2 * BELL_MAX_RANK] = {0};
    uint32_t rank = bell_ndim(A[0].t), i;

    if (A[1].n % 2 != 0 || A[1].n > 2 * rank)
        return fn_fail(args,
                       "pad has %u numbers: two for each of the last "
                       "axes, at most %u",
                       A[1].n, 2 * rank);
    for (i = 0; i < A[1].n / 2; i++) {
        pads[2 * (rank - 1 - i)] = A[1].ints[2 * i];
        pads[2 * (rank - 1 - i) + 1] = A[1].ints[2 * i + 1];
    }
    return bell_pad(A[0].t, pads, 2 * rank, A[2].f);
}

static struct bell_tensor *
call_repeat(struct fn_args *args)
{
    return bell_repeat(A[0].t, A[1].ints, A[1].n);
}

/* As repeat, but missing counts are 1. */
static struct bell_tensor *
call_tile(struct fn_args *args)
{
    int64_t counts[BELL_MAX_RANK];
    uint32_t rank = bell_ndim(A[0].t), i;

    if (A[1].n >= rank || A[1].n > BELL_MAX_RANK)
        return bell_repeat(A[0].t, A[1].ints, A[1].n);
    for (i = 0; i < rank; i++)
        counts[i] = i < rank - A[1].n ? 1 : A[1].ints[i - (rank - A[1].n)];
    return bell_repeat(A[0].t, counts, rank);
}

static struct bell_tensor *
call_repeat_interleave(struct fn_args *args)
{
    struct bell_tensor *x = A[0].t;

    if (!A[2].given)
        return bell_repeat_interleave(bell_flatten(x, 0, -1), A[1].i, 0);
    return bell_repeat_interleave(x, A[1].i, fn_axis(&A[2]));
}

static struct bell_tensor *
call_roll(struct fn_args *args)
{
    struct bell_tensor *x = A[0].t, *flat;
    uint32_t i;

    if (!A[2].given && A[1].n == 1) {
        flat = bell_roll(bell_flatten(x, 0, -1), A[1].ints[0], 0);
        return bell_reshape(flat, bell_shape(x), bell_ndim(x));
    }
    if (A[1].n != A[2].n)
        return fn_fail(args, "%u shifts along %u axes", A[1].n, A[2].n);
    for (i = 0; i < A[1].n; i++) {
        struct fn_arg axis = {.i = A[2].ints[i]};
        x = bell_roll(x, A[1].ints[i], fn_axis(&axis));
    }
    return x;
}

static struct bell_tensor *
call_tril(struct fn_args *args)
{
    return bell_tril(A[0].t, A[1].i);
}

static struct bell_tensor *
call_triu(struct fn_args *args)
{
    return bell_triu(A[0].t, A[1].i);
}

static struct bell_tensor *
call_diagonal(struct fn_args *args)
{
    return bell_diagonal(A[0].t, A[1].i, fn_axis(&A[2]), fn_axis(&A[3]));
}

static struct bell_tensor *
call_trace(struct fn_args *args)
{
    if (bell_ndim(A[0].t) != 2)
        return fn_fail(args, "input has %u axes, not 2", bell_ndim(A[0].t));
    return bell_sum(bell_diagonal(A[0].t, 0, 0, 1), BELL_NO_DIMS, false);
}

static struct bell_tensor *
call_unfold(struct fn_args *args)
{
    return bell_unfold(A[0].t, fn_axis(&A[1]), A[2].i, A[3].i);
}

/* ---- joining and splitting -------------------------------------------- */

static struct bell_tensor *
call_cat(struct fn_args *args)
{
    return bell_cat(A[0].ts, A[0].n, fn_axis(&A[1]));
}

static struct bell_tensor *
call_stack(struct fn_args *args)
{
    return bell_stack(A[0].ts, A[0].n, fn_axis(&A[1]));
}

static bool
fits_results(struct fn_args *args, int64_t n)
{
    if (n >= 0 && n <= BELL_MAX_RESULTS)
        return true;
    fn_fail(args, "%lld parts, at most %d", (long long)n, BELL_MAX_RESULTS);
    return false;
}

/* Size of the axis in args->a[k]; -1 after telling that there is none. */
static int64_t
size_along(struct fn_args *args, uint32_t k)
{
    int64_t size = bell_size(A[0].t, fn_axis(&A[k]));

    if (size < 0)
        fn_fail(args, "no axis %lld in %u axes", (long long)A[k].i,
                bell_ndim(A[0].t));
    return size;
}

static struct bell_tensor *
call_split(struct fn_args *args)
{
    int64_t sizes[BELL_MAX_RESULTS], size = size_along(args, 2), n, i;
    bool equal = A[1].v.kind == BELL_VALUE_INT;
    struct bell_call *call = args->call;

    if (size < 0)
        return NULL;
    if (!equal) {
        if (fits_results(args, A[1].n))
            bell_split(A[0].t, A[1].ints, A[1].n, fn_axis(&A[2]),
                       call->results);
        call->n_results = A[1].n;
        return NULL;
    }
    if (A[1].ints[0] <= 0)
        return fn_fail(args, "parts of size %lld", (long long)A[1].ints[0]);
    n = size ? (size - 1) / A[1].ints[0] + 1 : 1;
    if (!fits_results(args, n))
        return NULL;
    for (i = 0; i < n; i++)
        sizes[i] = i < n - 1 ? A[1].ints[0] : size - A[1].ints[0] * i;
    bell_split(A[0].t, sizes, (uint32_t)n, fn_axis(&A[2]), call->results);
    call->n_results = (uint32_t)n;
    return NULL;
}

static struct bell_tensor *
call_chunk(struct fn_args *args)
{
    if (A[1].i < 1)
        return fn_fail(args, "%lld chunks", (long long)A[1].i);
    if (fits_results(args, A[1].i))
        args->call->n_results = bell_chunk(A[0].t, (uint32_t)A[1].i,
                                           fn_axis(&A[2]), args->call->results);
    return NULL;
}

static struct bell_tensor *
call_unbind(struct fn_args *args)
{
    int64_t size = size_along(args, 1), i;

    if (size < 0 || !fits_results(args, size))
        return NULL;
    for (i = 0; i < size; i++)
        args->call->results[i] = bell_select(A[0].t, fn_axis(&A[1]), i);
    args->call->n_results = (uint32_t)size;
    return NULL;
}

static struct bell_tensor *
call_meshgrid(struct fn_args *args)
{
    if (!fits_results(args, A[0].n))
        return NULL;
    bell_meshgrid(A[0].ts, A[0].n, args->call->results);
    args->call->n_results = A[0].n;
    return NULL;
}

/* ---- indexing --------------------------------------------------------- */

static struct bell_tensor *
call_select(struct fn_args *args)
{
    return bell_select(A[0].t, fn_axis(&A[1]), A[2].i);
}

static struct bell_tensor *
call_narrow(struct fn_args *args)
{
    return bell_narrow(A[0].t, fn_axis(&A[1]), A[2].i, A[3].i);
}

static struct bell_tensor *
call_gather(struct fn_args *args)
{
    return bell_gather(A[0].t, fn_axis(&A[1]), A[2].t);
}

static struct bell_tensor *
call_index_select(struct fn_args *args)
{
    return bell_index_select(A[0].t, fn_axis(&A[1]), A[2].t);
}

static struct bell_tensor *
call_take(struct fn_args *args)
{
    return bell_take(A[0].t, A[1].t);
}

/* The source of a scatter, in the index's shape: of shape () it stands for all
 * elements, and a larger one is cut, as PyTorch does. */
static struct bell_tensor *
scatter_source(struct fn_args *args)
{
    struct bell_tensor *src = A[3].t, *index = A[2].t;
    uint32_t rank = bell_ndim(src), i;
    int64_t bounds[2 * BELL_MAX_RANK] = {0};

    if (rank == 0) {
        src = bell_cast(src, bell_dtype_of(A[0].t));
        return bell_expand(src, bell_shape(index), bell_ndim(index));
    }
    for (i = 0; i < rank && rank == bell_ndim(index); i++) {
        if (bell_shape(src)[i] < bell_shape(index)[i])
            return src; /* the call below tells */
        bounds[2 * i + 1] = bell_shape(index)[i];
    }
    return i == rank ? bell_shrink(src, bounds, 2 * rank) : src;
}

static struct bell_tensor *
call_scatter(struct fn_args *args)
{
    return bell_scatter(A[0].t, fn_axis(&A[1]), A[2].t, scatter_source(args));
}

static struct bell_tensor *
call_scatter_add(struct fn_args *args)
{
    return bell_scatter_add(A[0].t, fn_axis(&A[1]), A[2].t,
                            scatter_source(args));
}

static struct bell_tensor *
call_masked_fill(struct fn_args *args)
{
    return bell_masked_fill(A[0].t, A[1].t, A[2].f);
}

static struct bell_tensor *
call_embedding(struct fn_args *args)
{
    return bell_embedding(A[0].t, A[1].t);
}

static struct bell_tensor *
call_one_hot(struct fn_args *args)
{
    return bell_one_hot(A[0].t, A[1].i);
}

#define ROW(name, params, doc, section, aliases, function)                     \
    {                                                                          \
        {name, params, doc, section, false}, aliases, function,                \
        {                                                                      \
            NULL                                                               \
        }                                                                      \
    }
#define LIST_ROW(name, params, doc, section, aliases, function)                \
    {                                                                          \
        {name, params, doc, section, true}, aliases, function,                 \
        {                                                                      \
            NULL                                                               \
        }                                                                      \
    }
#define UNARY(name, doc, section, aliases, function)                           \
    {                                                                          \
        {name, "input: tensor", doc, section, false}, aliases, fn_call_unary,  \
        {                                                                      \
            .unary = function                                                  \
        }                                                                      \
    }
#define SHAPE "Shape"
#define JOIN  "Joining and splitting"
#define INDEX "Indexing"

/* clang-format off */
static const struct fn_row rows[] = {
    ROW("reshape", "input: tensor, shape: ints*",
        "the same elements in another shape; one size may be -1", SHAPE,
        "view", call_reshape),
    ROW("permute", "input: tensor, dims: ints*",
        "axis i of the result is axis dims[i] of input", SHAPE, NULL,
        call_permute),
    ROW("transpose", "input: tensor, dim0: int, dim1: int", "two axes swapped",
        SHAPE, "swapaxes swapdims", call_transpose),
    ROW("t", "input: tensor", "transposed; input has at most 2 axes", SHAPE,
        NULL, call_t),
    UNARY("mT", "the last two axes swapped", SHAPE, "adjoint", bell_t),
    ROW("movedim", "input: tensor, source: int, destination: int",
        "one axis moved, the others in their order", SHAPE, "moveaxis",
        call_movedim),
    ROW("expand", "input: tensor, size: ints*",
        "axes of size 1 repeated, new ones in front; -1 keeps an axis", SHAPE,
        "broadcast_to", call_expand),
    ROW("squeeze", "input: tensor, dim: ints* = None",
        "without axes of size 1 (all, or those listed)", SHAPE, NULL,
        call_squeeze),
    ROW("unsqueeze", "input: tensor, dim: int",
        "with an axis of size 1 more, at dim", SHAPE, NULL, call_unsqueeze),
    ROW("flatten", "input: tensor, start_dim: int = 0, end_dim: int = -1",
        "a run of axes merged into one", SHAPE, NULL, call_flatten),
    ROW("ravel", "input: tensor", "all axes merged into one", SHAPE, NULL,
        call_ravel),
    ROW("unflatten", "input: tensor, dim: int, sizes: ints",
        "one axis split into several", SHAPE, NULL, call_unflatten),
    ROW("flip", "input: tensor, dims: ints*", "axes reversed", SHAPE, NULL,
        call_flip),
    ROW("fliplr", "input: tensor", "axis 1 reversed", SHAPE, NULL,
        call_fliplr),
    ROW("flipud", "input: tensor", "axis 0 reversed", SHAPE, NULL,
        call_flipud),
    ROW("roll", "input: tensor, shifts: ints, dims: ints = None",
        "shifted along axes, wrapping round; without dims as if flat", SHAPE,
        NULL, call_roll),
    ROW("pad", "input: tensor, pad: ints, value: float = 0",
        "elements added around: before, after of the last axis, then of the "
        "one before it ...; negative ones cut", SHAPE, NULL, call_pad),
    ROW("repeat", "input: tensor, repeats: ints*",
        "the whole repeated along each axis, new axes in front", SHAPE, NULL,
        call_repeat),
    ROW("tile", "input: tensor, dims: ints*",
        "as repeat, but the last axes only if dims is short", SHAPE, NULL,
        call_tile),
    ROW("repeat_interleave", "input: tensor, repeats: int, dim: int = None",
        "each element along an axis repeated; without dim as if flat", SHAPE,
        NULL, call_repeat_interleave),
    ROW("tril", "input: tensor, diagonal: int = 0",
        "0 above a diagonal of the last two axes", SHAPE, NULL, call_tril),
    ROW("triu", "input: tensor, diagonal: int = 0",
        "0 below a diagonal of the last two axes", SHAPE, NULL, call_triu),
    UNARY("diag", "a matrix's diagonal, or the matrix of a diagonal", SHAPE,
          NULL, bell_diag),
    ROW("diagonal",
        "input: tensor, offset: int = 0, dim1: int = 0, dim2: int = 1",
        "a diagonal of two axes, as the last axis", SHAPE, NULL,
        call_diagonal),
    ROW("trace", "input: tensor", "sum of a matrix's diagonal", SHAPE, NULL,
        call_trace),
    ROW("unfold", "input: tensor, dimension: int, size: int, step: int",
        "windows along an axis; their elements are the last axis", SHAPE, NULL,
        call_unfold),

    ROW("cat", "tensors: tensors, dim: int = 0", "joined along an axis", JOIN,
        "concat concatenate", call_cat),
    ROW("stack", "tensors: tensors, dim: int = 0",
        "joined along a new axis", JOIN, NULL, call_stack),
    LIST_ROW("split",
             "input: tensor, split_size_or_sections: ints, dim: int = 0",
             "parts along an axis: of one size, or of the sizes listed", JOIN,
             NULL, call_split),
    LIST_ROW("chunk", "input: tensor, chunks: int, dim: int = 0",
             "that many parts along an axis, the last ones smaller", JOIN,
             NULL, call_chunk),
    LIST_ROW("unbind", "input: tensor, dim: int = 0",
             "the parts at each place of an axis", JOIN, NULL, call_unbind),
    LIST_ROW("meshgrid", "tensors: tensors*",
             "coordinates over the product of axes ('ij' order)", JOIN, NULL,
             call_meshgrid),

    ROW("select", "input: tensor, dim: int, index: int",
        "the part at one place of an axis", INDEX, NULL, call_select),
    ROW("narrow", "input: tensor, dim: int, start: int, length: int",
        "a run of places of an axis", INDEX, NULL, call_narrow),
    ROW("gather", "input: tensor, dim: int, index: tensor",
        "for each index the element there, along an axis; out of range: 0",
        INDEX, NULL, call_gather),
    ROW("index_select", "input: tensor, dim: int, index: tensor",
        "an axis indexed by a list", INDEX, NULL, call_index_select),
    ROW("take", "input: tensor, index: tensor",
        "the flattened input at each index", INDEX, NULL, call_take),
    ROW("scatter", "input: tensor, dim: int, index: tensor, src: tensor",
        "input with the indexed elements replaced, by the last of several",
        INDEX, NULL, call_scatter),
    ROW("scatter_add", "input: tensor, dim: int, index: tensor, src: tensor",
        "input with src added to the indexed elements", INDEX, NULL,
        call_scatter_add),
    ROW("masked_fill", "input: tensor, mask: tensor, value: float",
        "mask ? value : input", INDEX, NULL, call_masked_fill),
    ROW("embedding", "input: tensor, weight: tensor",
        "the rows of weight at each index of input", INDEX, NULL,
        call_embedding),
    ROW("one_hot", "input: tensor, num_classes: int",
        "1 at each class, else 0, along a new last axis", INDEX, NULL,
        call_one_hot),
};
/* clang-format on */

const struct fn_table fn_table_shape = {rows, ARRAY_LEN(rows)};
