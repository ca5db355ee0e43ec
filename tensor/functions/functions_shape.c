/* The function table: shapes, joining and splitting, indexing. */
#include "tensor/functions/functions_internal.h"

#include <string.h>

#include "base/bits.h"
#include "doorbell/dim.h"

#define A args->a

/* ---- shapes ----------------------------------------------------------- */

static struct bell_tensor *
call_t(struct fn_args *args)
{
    if (bell_ndim(A[0].t) > 2)
        return fn_fail(args,
                       "input has %u axes, at most 2; mT swaps the last "
                       "two",
                       bell_ndim(A[0].t));
    return fn_forward(args);
}

/* An empty list means no axes here, and all of them in the API. */
static struct bell_tensor *
call_listed(struct fn_args *args)
{
    return A[1].given && A[1].n == 0 ? A[0].t : fn_forward(args);
}

static struct bell_tensor *
call_ravel(struct fn_args *args)
{
    return bell_flatten(A[0].t, 0, -1);
}

static struct bell_tensor *
call_pad(struct fn_args *args)
{
    static const char *const modes[] = {
        [BELL_PAD_REFLECT] = "reflect",
        [BELL_PAD_REPLICATE] = "replicate",
        [BELL_PAD_CIRCULAR] = "circular",
    };
    uint32_t rank = bell_ndim(A[0].t), i;

    if (A[1].n % 2 != 0 || A[1].n > 2 * rank)
        return fn_fail(args,
                       "pad has %u numbers: two for each of the last "
                       "axes, at most %u",
                       A[1].n, 2 * rank);
    if (strcmp(A[2].str, "constant") == 0)
        return fn_is_exact(&A[3]) ? bell_pad(A[0].t, A[1].ints, A[1].n, A[3].f)
                                  : bell_pad_by(A[0].t, A[1].ints, A[1].n,
                                                fn_scalar(args, &A[3]));
    for (i = 0; i < ARRAY_LEN(modes); i++) {
        if (strcmp(A[2].str, modes[i]) == 0)
            return bell_pad_with(A[0].t, A[1].ints, A[1].n,
                                 (enum bell_pad_mode)i);
    }
    return fn_fail(args,
                   "mode '%s'; constant, reflect, replicate and circular are "
                   "possible",
                   A[2].str);
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

/* A number or a tensor of counts. */
static struct bell_tensor *
call_repeat_interleave(struct fn_args *args)
{
    struct bell_tensor *x = A[0].t;

    if (A[1].v.kind != BELL_VALUE_INT || A[3].given)
        return bell_repeat_interleave_by(
            x, A[1].t, A[2].given ? fn_axis(&A[2]) : BELL_FLAT,
            A[3].given ? A[3].i : -1);
    if (!A[2].given)
        return bell_repeat_interleave(bell_flatten(x, 0, -1), A[1].v.i, 0);
    return bell_repeat_interleave(x, A[1].v.i, fn_axis(&A[2]));
}

static struct bell_tensor *
call_roll(struct fn_args *args)
{
    struct bell_tensor *x = A[0].t, *flat;
    uint32_t i;

    if (!A[2].given && A[1].n == 1) {
        flat = bell_roll(bell_flatten(x, 0, -1), A[1].ints[0], 0);
        return bell_reshape(flat, bell_dim_words(bell_dims(x)), bell_ndim(x));
    }
    if (A[1].n != A[2].n)
        return fn_fail(args, "%u shifts along %u axes", A[1].n, A[2].n);
    for (i = 0; i < A[1].n; i++) {
        struct fn_arg axis = {.given = true, .i = A[2].ints[i]};
        x = bell_roll(x, A[1].ints[i], fn_axis(&axis));
    }
    return x;
}

static struct bell_tensor *
call_trace(struct fn_args *args)
{
    if (bell_ndim(A[0].t) != 2)
        return fn_fail(args, "input has %u axes, not 2", bell_ndim(A[0].t));
    return bell_sum(bell_diagonal(A[0].t, 0, 0, 1), BELL_NO_DIMS, false);
}

/* ---- joining and splitting -------------------------------------------- */

static bool
fits_results(struct fn_args *args, int64_t n)
{
    if (n >= 0 && n <= BELL_MAX_RESULTS)
        return true;
    fn_fail(args, "%lld parts, at most %d", (long long)n, BELL_MAX_RESULTS);
    return false;
}

/* Size of the axis in args->a[k]; -1 after telling that there is none, or that
 * it is not `plain`. */
static int64_t
size_along(struct fn_args *args, uint32_t k, bool plain)
{
    int64_t size = bell_dim_at(A[0].t, fn_axis(&A[k])).word;

    if (size < 0)
        fn_fail(args, "no axis %lld in %u axes", (long long)A[k].i,
                bell_ndim(A[0].t));
    else if (!plain || size < (int64_t)1 << 40)
        return size;
    else
        fn_fail(args,
                "axis %lld has the size of a symbol: how many parts "
                "there are depends on its value",
                (long long)A[k].i);
    return -1;
}

static struct bell_tensor *
call_split(struct fn_args *args)
{
    int64_t sizes[BELL_MAX_RESULTS],
        size = size_along(args, 2, A[1].v.kind == BELL_VALUE_INT), n, i;
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
    if (A[1].ints[0] < 0 || (A[1].ints[0] == 0 && size > 0))
        return fn_fail(args, "parts of size %lld of an axis of size %lld",
                       (long long)A[1].ints[0], (long long)size);
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
    int64_t size = size_along(args, 1, true), i;

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
    bool turned = strcmp(A[1].str, "xy") == 0;
    struct bell_tensor **out = args->call->results;
    uint32_t i;

    if (!fits_results(args, A[0].n))
        return NULL;
    if (!turned && strcmp(A[1].str, "ij") != 0)
        return fn_fail(args, "indexing '%s'; 'ij' and 'xy' are possible",
                       A[1].str);
    bell_meshgrid(A[0].ts, A[0].n, out);
    for (i = 0; turned && A[0].n > 1 && i < A[0].n; i++)
        out[i] = bell_transpose(out[i], 0, 1);
    args->call->n_results = A[0].n;
    return NULL;
}
/* The sizes of axes are arguments of their names. */
static struct bell_tensor *
call_rearrange(struct fn_args *args)
{
    struct bell_named_size sizes[BELL_MAX_RANK];
    const struct bell_call *call = args->call;
    uint32_t n = 0, i;

    for (i = 0; i < call->n_args; i++) {
        const struct bell_arg *arg = &call->args[i];
        if (!arg->name || strcmp(arg->name, "input") == 0 ||
            strcmp(arg->name, "pattern") == 0)
            continue;
        if (arg->value.kind != BELL_VALUE_INT || n == BELL_MAX_RANK)
            return fn_fail(args, "'%s' is not the size of an axis", arg->name);
        sizes[n].name = arg->name;
        sizes[n++].size = arg->value.i;
    }
    return bell_rearrange(A[0].t, A[1].str, sizes, n);
}

/* ---- indexing --------------------------------------------------------- */

/* Assigns through a handle of its own: the argument stays what it is. */
static struct bell_tensor *
call_assign_slice(struct fn_args *args)
{
    return bell_assign_slice(bell_alias(A[0].t), A[1].ints, A[1].n, A[2].t);
}

#define X     "input: tensor"
#define SHAPE "Shape"
#define JOIN  "Joining and splitting"
#define INDEX "Indexing"

/* The diagonal of a matrix, or around a diagonal a matrix. */
static struct bell_tensor *
call_diag(struct fn_args *args)
{
    int64_t k = A[1].i, n = k < 0 ? -k : k, pads[4] = {0};
    struct bell_tensor *square, *out;

    if (bell_ndim(A[0].t) == 2)
        return bell_diagonal(A[0].t, k, 0, 1);
    square = bell_diag(A[0].t);
    if (k == 0)
        return square;
    pads[k > 0 ? 0 : 1] = n; /* columns before or behind, rows the other way */
    pads[k > 0 ? 3 : 2] = n;
    out = bell_pad(square, pads, 4, 0);
    bell_tensor_release(square);
    return out;
}

/* clang-format off */
static const struct fn_row rows[] = {
    {{"reshape", "input: tensor, shape: ints*",
      "the same elements in another shape; one size may be -1", SHAPE},
     FN(tl, bell_reshape), .aliases = "view"},
    {{"permute", "input: tensor, dims: ints* = None",
      "axis i of the result is axis dims[i] of input", SHAPE},
     FN(tl, bell_permute)},
    {{"transpose", "input: tensor, dim0: int, dim1: int", "two axes swapped",
      SHAPE}, FN(taa, bell_transpose), .aliases = "swapaxes swapdims"},
    {{"t", X, "transposed; input has at most 2 axes", SHAPE}, FN(t, bell_t),
     .glue = call_t},
    {{"mT", X, "the last two axes swapped", SHAPE}, FN(t, bell_t),
     .aliases = "adjoint"},
    {{"movedim", "input: tensor, source: int, destination: int",
      "one axis moved, the others in their order", SHAPE},
     FN(taa, bell_movedim), .aliases = "moveaxis"},
    {{"expand", "input: tensor, size: ints*",
      "axes of size 1 repeated, new ones in front; -1 keeps an axis", SHAPE},
     FN(tl, bell_expand), .aliases = "broadcast_to"},
    {{"squeeze", "input: tensor, dim: ints* = None",
      "without axes of size 1 (all, or those listed)", SHAPE},
     FN(tl, bell_squeeze), .glue = call_listed},
    {{"unsqueeze", "input: tensor, dim: int",
      "with an axis of size 1 more, at dim", SHAPE}, FN(ta, bell_unsqueeze)},
    {{"flatten", "input: tensor, start_dim: int = 0, end_dim: int = -1",
      "a run of axes merged into one", SHAPE}, FN(taa, bell_flatten)},
    {{"ravel", X, "all axes merged into one", SHAPE}, .glue = call_ravel},
    {{"unflatten", "input: tensor, dim: int, sizes: ints",
      "one axis split into several", SHAPE}, FN(tal, bell_unflatten)},
    {{"flip", "input: tensor, dims: ints*", "axes reversed", SHAPE},
     FN(tl, bell_flip), .glue = call_listed},
    {{"fliplr", X, "axis 1 reversed", SHAPE}, FN(tl, bell_flip), "0k",
     .constant = 1},
    {{"flipud", X, "axis 0 reversed", SHAPE}, FN(tl, bell_flip), "0k",
     .constant = 0},
    {{"roll", "input: tensor, shifts: ints, dims: ints = None",
      "shifted along axes, wrapping round; without dims as if flat", SHAPE},
     .glue = call_roll},
    {{"pad",
      "input: tensor, pad: ints, mode: str = 'constant', value: number = 0",
      "elements added around: before, after of the last axis, then of the "
      "one before it ...; negative ones cut. mode: constant, reflect, "
      "replicate, circular", SHAPE}, .glue = call_pad},
    {{"repeat", "input: tensor, repeats: ints*",
      "the whole repeated along each axis, new axes in front", SHAPE},
     FN(tl, bell_repeat)},
    {{"tile", "input: tensor, dims: ints*",
      "as repeat, but the last axes only if dims is short", SHAPE},
     .glue = call_tile},
    {{"repeat_interleave", "input: tensor, repeats: tensor, dim: int = None, "
      "output_size: int = None",
      "each element along an axis repeated, as often as a number or a tensor "
      "of counts says; without dim as if flat; counted on the host unless "
      "output_size is given", SHAPE},
     .glue = call_repeat_interleave},
    {{"tril", "input: tensor, diagonal: int = 0",
     "0 above a diagonal of the last two axes", SHAPE}, FN(ti, bell_tril)},
    {{"triu", "input: tensor, diagonal: int = 0",
     "0 below a diagonal of the last two axes", SHAPE}, FN(ti, bell_triu)},
    {{"diag", "input: tensor, diagonal: int = 0",
      "a matrix's diagonal, or the matrix of a diagonal", SHAPE},
     .glue = call_diag},
    {{"diagonal",
      "input: tensor, offset: int = 0, dim1: int = 0, dim2: int = 1",
      "a diagonal of two axes, as the last axis", SHAPE},
     FN(tiaa, bell_diagonal)},
    {{"trace", X, "sum of a matrix's diagonal", SHAPE}, .glue = call_trace},
    {{"rearrange", "input: tensor, pattern: str",
      "axes by name, split, moved, merged: 'b (h w) -> w b h', h=2", SHAPE},
     .glue = call_rearrange, .takes_names = true},
    {{"unfold", "input: tensor, dimension: int, size: int, step: int",
      "windows along an axis; their elements are the last axis", SHAPE},
     FN(taii, bell_unfold)},

    {{"cat", "tensors: tensors, dim: int = 0", "joined along an axis", JOIN},
     FN(sa, bell_cat), .aliases = "concat concatenate"},
    {{"stack", "tensors: tensors, dim: int = 0", "joined along a new axis",
      JOIN}, FN(sa, bell_stack)},
    {{"split", "input: tensor, split_size_or_sections: ints, dim: int = 0",
      "parts along an axis: of one size, or of the sizes listed", JOIN, true},
     .glue = call_split},
    {{"chunk", "input: tensor, chunks: int, dim: int = 0",
      "that many parts along an axis, the last ones smaller", JOIN, true},
     .glue = call_chunk},
    {{"unbind", "input: tensor, dim: int = 0",
      "the parts at each place of an axis", JOIN, true}, .glue = call_unbind},
    {{"meshgrid", "tensors: tensors*, indexing: str = 'ij'",
      "coordinates over the product of axes, in 'ij' or 'xy' order", JOIN,
      true},
     .glue = call_meshgrid},

    {{"select", "input: tensor, dim: int, index: int",
      "the part at one place of an axis", INDEX}, FN(tai, bell_select)},
    {{"narrow", "input: tensor, dim: int, start: int, length: int",
      "a run of places of an axis", INDEX}, FN(taii, bell_narrow)},
    {{"gather", "input: tensor, dim: int, index: tensor",
      "for each index the element there, along an axis; out of range: 0",
      INDEX}, FN(tat, bell_gather)},
    {{"index_select", "input: tensor, dim: int, index: tensor",
      "an axis indexed by a list", INDEX}, FN(tat, bell_index_select)},
    {{"take", "input: tensor, index: tensor",
      "the flattened input at each index", INDEX}, FN(tt, bell_take)},
    {{"assign_slice", "input: tensor, begin: ints, value: tensor",
      "input with the part that begins there replaced; has no gradient", INDEX},
     .glue = call_assign_slice},
    {{"masked_fill", "input: tensor, mask: tensor, value: tensor",
      "mask ? value : input", INDEX}, FN(ttt, bell_masked_fill_by)},
    {{"embedding", "input: tensor, weight: tensor",
      "the rows of weight at each index of input", INDEX},
     FN(tt, bell_embedding)},
    {{"one_hot", "input: tensor, num_classes: int",
     "1 at each class, else 0, along a new last axis", INDEX},
     FN(ti, bell_one_hot)},
};
/* clang-format on */

const struct fn_table fn_table_shape = {rows, ARRAY_LEN(rows)};
