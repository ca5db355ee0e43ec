/* The function table: matrix products, convolution and pooling, activations,
 * normalisation, losses. */
#include "tensor/functions/functions_internal.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/core/dims.h"
#include "doorbell/vision.h"

#define A args->a

/* ---- matrix products -------------------------------------------------- */

/* The product of a matrix and something of row->constant axes. */
static struct bell_tensor *
call_ranked(struct fn_args *args)
{
    uint32_t x = bell_ndim(A[0].t), y = bell_ndim(A[1].t);

    if (x != 2 || y != args->row->constant)
        return fn_fail(args, "operands of %u and %u axes, not 2 and %d", x, y,
                       (int)args->row->constant);
    return fn_forward(args);
}

/* beta * input + alpha * (mat1 @ mat2), also by integers above 2^53. */
static struct bell_tensor *
call_addmm(struct fn_args *args)
{
    if (fn_is_exact(&A[3]) && fn_is_exact(&A[4]))
        return fn_forward(args);
    return bell_add(
        bell_mul(A[0].t, fn_scalar(args, &A[3])),
        bell_mul(bell_matmul(A[1].t, A[2].t), fn_scalar(args, &A[4])));
}

static int64_t
count_heads(const struct bell_tensor *t)
{
    return bell_ndim(t) < 3 ? 1 : bell_dim_at(t, -3).word;
}

/* query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa */
static struct bell_tensor *
call_attention(struct fn_args *args)
{
    int64_t heads = count_heads(A[0].t), few;
    uint32_t k;

    for (k = 1; k < 3 && !A[7].b; k++) {
        few = count_heads(A[k].t);
        if (few > 1 && heads > 1 && few != heads)
            return fn_fail(args,
                           "query has %lld heads, not the %lld of key or "
                           "value; enable_gqa lets these serve several",
                           (long long)heads, (long long)few);
    }
    if (A[6].given && A[6].f == 0) { /* which means "default" to the API */
        A[0].t = bell_mul(A[0].t, bell_scalar(args->ctx, 0));
        A[6].f = 1;
    }
    return fn_forward(args);
}

/* ---- convolution and pooling ------------------------------------------ */

/* Whether it is not the size of a symbol; if it is, that is told. */
static bool
is_plain(struct fn_args *args, int64_t size)
{
    if (!dim_is_expr(size))
        return true;
    fn_fail(args, "an axis has the size of a symbol: places in it are numbers");
    return false;
}

/* One number for all axes, or one each. */
static bool
bind_axes(struct fn_args *args, uint32_t k, int64_t out[3])
{
    uint32_t n_axes = (uint32_t)args->row->constant, i;

    if (A[k].n != 1 && A[k].n != n_axes) {
        fn_fail(args,
                n_axes == 1 ? "%u numbers where one is due"
                            : "%u numbers where one or %u are due",
                A[k].n, n_axes);
        return false;
    }
    for (i = 0; i < n_axes; i++)
        out[i] = A[k].ints[A[k].n == 1 ? 0 : i];
    return true;
}

/* 0 means "default" to the API, so what must be positive is checked here. */
static bool
take_positive(struct fn_args *args, uint32_t k, const char *what,
              int64_t out[3])
{
    uint32_t i;

    if (!bind_axes(args, k, out))
        return false;
    for (i = 0; i < (uint32_t)args->row->constant; i++) {
        if (out[i] < 1) {
            fn_fail(args, "%s %lld is not positive", what, (long long)out[i]);
            return false;
        }
    }
    return true;
}

static bool
take_groups(struct fn_args *args, uint32_t k, struct bell_conv_options *opt)
{
    opt->groups = A[k].i;
    if (opt->groups >= 1)
        return true;
    fn_fail(args, "groups %lld is not positive", (long long)A[k].i);
    return false;
}

/* 'valid' is none; 'same' as much as keeps the sizes, an odd zero at the end;
 * a list of two numbers for each axis is as pad's, the last axis first. */
static bool
take_padding(struct fn_args *args, uint32_t k, struct bell_conv_options *opt)
{
    uint32_t n_axes = (uint32_t)args->row->constant, i;
    int64_t all;

    if (!A[k].str && A[k].n == 2 * n_axes) {
        for (i = 0; i < n_axes; i++) {
            opt->padding[i] = A[k].ints[2 * (n_axes - 1 - i)];
            opt->padding_end[i] =
                A[k].ints[2 * (n_axes - 1 - i) + 1] - opt->padding[i];
        }
        return true;
    }
    if (!A[k].str)
        return bind_axes(args, k, opt->padding);
    if (strcmp(A[k].str, "valid") == 0)
        return true;
    if (strcmp(A[k].str, "same") != 0) {
        fn_fail(args, "padding '%s' is not 'valid', 'same' or numbers",
                A[k].str);
        return false;
    }
    for (i = 0; i < n_axes; i++) {
        if (opt->stride[i] != 1) {
            fn_fail(args, "padding 'same' with a stride of %lld, not 1",
                    (long long)opt->stride[i]);
            return false;
        }
        if (bell_ndim(A[1].t) != n_axes + 2)
            return true; /* an error of its own */
        all = opt->dilation[i] * (bell_size(A[1].t, (int)i + 2) - 1);
        opt->padding[i] = all / 2;
        opt->padding_end[i] = all % 2;
    }
    return true;
}

/* input, weight, bias, stride, padding, dilation, groups; over row->constant
 * axes */
static struct bell_tensor *
call_conv(struct fn_args *args)
{
    struct bell_conv_options opt = {.struct_size = sizeof(opt), .groups = 0};

    if (!take_positive(args, 3, "stride", opt.stride) ||
        !take_positive(args, 5, "dilation", opt.dilation) ||
        !take_padding(args, 4, &opt) || !take_groups(args, 6, &opt))
        return bell_error_tensor(args->ctx);
    A[3].conv = &opt;
    return fn_forward(args);
}

/* input, weight, bias, stride, padding, output_padding, groups, dilation */
static struct bell_tensor *
call_conv_transpose(struct fn_args *args)
{
    struct bell_conv_options opt = {.struct_size = sizeof(opt), .groups = 0};

    if (!take_positive(args, 3, "stride", opt.stride) ||
        !bind_axes(args, 4, opt.padding) ||
        !bind_axes(args, 5, opt.output_padding) ||
        !take_groups(args, 6, &opt) ||
        !take_positive(args, 7, "dilation", opt.dilation))
        return bell_error_tensor(args->ctx);
    A[3].conv = &opt;
    return fn_forward(args);
}

/* input, kernel_size, stride, padding */
static bool
bind_pool(struct fn_args *args, struct bell_pool_options *opt)
{
    *opt = (struct bell_pool_options){.struct_size = sizeof(*opt)};
    if (!take_positive(args, 1, "kernel_size", opt->kernel))
        return false;
    if (A[2].given && A[2].n > 0) {
        if (!take_positive(args, 2, "stride", opt->stride))
            return false;
    }
    return bind_axes(args, 3, opt->padding);
}

/* input, kernel_size, stride, padding, dilation, ceil_mode, return_indices */
static struct bell_tensor *
call_max_pool(struct fn_args *args)
{
    struct bell_call *call = args->call;
    struct bell_pool_options opt;

    if (!bind_pool(args, &opt) ||
        !take_positive(args, 4, "dilation", opt.dilation))
        return bell_error_tensor(args->ctx);
    opt.ceil_mode = A[5].b;
    A[1].pool = &opt;
    if (!A[6].b)
        return fn_forward(args);
    call->n_results = 2;
    bell_max_pool_indices(A[0].t, (uint32_t)args->row->constant, &opt,
                          &call->results[0], &call->results[1]);
    return NULL;
}

/* input, indices, kernel_size, stride, padding, output_size */
static struct bell_tensor *
call_max_unpool(struct fn_args *args)
{
    uint32_t n_axes = (uint32_t)args->row->constant, i;
    int64_t kernel[3], stride[3], padding[3], sizes[3];
    const int64_t *given = A[5].ints;

    if (!take_positive(args, 2, "kernel_size", kernel) ||
        !bind_axes(args, 4, padding))
        return bell_error_tensor(args->ctx);
    memcpy(stride, kernel, sizeof(stride));
    if (A[3].given && A[3].n > 0 && !take_positive(args, 3, "stride", stride))
        return bell_error_tensor(args->ctx);
    if (bell_ndim(A[0].t) < n_axes)
        return fn_fail(args, "input has %u axes; %u are needed",
                       bell_ndim(A[0].t), n_axes);
    if (A[5].given && A[5].n != n_axes && A[5].n != bell_ndim(A[0].t))
        return fn_fail(args, "output_size has %u numbers, not %u", A[5].n,
                       n_axes);
    for (i = 0; i < n_axes; i++) {
        int64_t size = bell_dim_at(A[0].t, (int)i - (int)n_axes).word;
        if (!is_plain(args, size))
            return bell_error_tensor(args->ctx);
        sizes[i] = (size - 1) * stride[i] - 2 * padding[i] + kernel[i];
        if (!A[5].given)
            continue;
        size = given[A[5].n - n_axes + i];
        if (size <= sizes[i] - stride[i] || size >= sizes[i] + stride[i])
            return fn_fail(args,
                           "output_size %lld is not between %lld and %lld",
                           (long long)size, (long long)(sizes[i] - stride[i]),
                           (long long)(sizes[i] + stride[i]));
        sizes[i] = size;
    }
    return bell_max_unpool(A[0].t, A[1].t, sizes, n_axes);
}

static struct bell_tensor *
call_avg_pool(struct fn_args *args)
{
    struct bell_pool_options opt;

    if (!bind_pool(args, &opt))
        return bell_error_tensor(args->ctx);
    opt.ceil_mode = A[4].b;
    opt.exclude_pad = !A[5].b;
    A[1].pool = &opt;
    return fn_forward(args);
}

/* bell_adaptive_avg_pool, for which a size of 0 is that of the axis; PyTorch's
 * is 0. */
static struct bell_tensor *
adapt(struct bell_tensor *x, const int64_t *sizes, uint32_t n)
{
    uint32_t rank = bell_ndim(x), i;

    for (i = 0; i < n && n <= rank; i++) {
        if (sizes[i] == 0)
            x = bell_narrow(x, (int)(rank - n + i), 0, 0);
    }
    return bell_adaptive_avg_pool(x, sizes, n);
}

/* input, output_size */
static struct bell_tensor *
call_adaptive_pool(struct fn_args *args)
{
    uint32_t n = (uint32_t)args->row->constant, i;
    int64_t sizes[3];

    if (!bind_axes(args, 1, sizes))
        return bell_error_tensor(args->ctx);
    for (i = 0; i < n; i++) {
        if (sizes[i] < 0)
            return fn_fail(args, "output_size %lld is negative",
                           (long long)sizes[i]);
    }
    return adapt(A[0].t, sizes, n);
}

/* ---- activations ------------------------------------------------------ */

static struct bell_tensor *
call_gelu(struct fn_args *args)
{
    bool tanh_form = strcmp(A[1].str, "tanh") == 0;

    if (!tanh_form && strcmp(A[1].str, "none") != 0)
        return fn_fail(args, "approximate '%s' is not 'none' or 'tanh'",
                       A[1].str);
    return bell_gelu(A[0].t, tanh_form);
}

static struct bell_tensor *
call_dropout(struct fn_args *args)
{
    bool before = bell_set_training(args->ctx, A[2].b);
    struct bell_tensor *y = bell_dropout(A[0].t, A[1].f);

    bell_set_training(args->ctx, before);
    return y;
}

/* ---- normalisation ---------------------------------------------------- */

/* Whether args->a[1] are the sizes of the input's last axes. */
static bool
is_tail_shape(struct fn_args *args)
{
    uint32_t rank = bell_ndim(A[0].t), n = A[1].n, i;

    if (n > 0 && n <= rank) {
        for (i = 0; i < n; i++) {
            if (bell_dim_at(A[0].t, (int)(rank - n + i)).word != A[1].ints[i])
                break;
        }
        if (i == n)
            return true;
    }
    fn_fail(args, "normalized_shape is not the shape of input's last axes");
    return false;
}

static struct bell_tensor *
call_layer_norm(struct fn_args *args)
{
    if (!is_tail_shape(args))
        return bell_error_tensor(args->ctx);
    return fn_forward(args);
}

/* Without eps: that of the dtype which the squares are summed in, as
 * PyTorch. */
static struct bell_tensor *
call_rms_norm(struct fn_args *args)
{
    double eps = bell_dtype_of(A[0].t) == BELL_FLOAT64 ? 0x1p-52 : 0x1p-23;

    if (!is_tail_shape(args))
        return bell_error_tensor(args->ctx);
    if (A[3].given)
        eps = A[3].f;
    if (A[1].n > 1 && !A[2].t)
        A[2].t = bell_ones(args->ctx, A[1].ints, A[1].n, bell_dtype_of(A[0].t));
    return bell_rms_norm(A[0].t, A[2].t, eps);
}

/* input, running_mean, running_var, weight, bias, use_input_stats, momentum,
 * eps */
static struct bell_tensor *
call_instance_norm(struct fn_args *args)
{
    if (!A[5].b && (!A[1].t || !A[2].t))
        return fn_fail(args, "running_mean and running_var are needed unless "
                             "use_input_stats");
    if (!A[5].b)
        return bell_batch_norm(A[0].t, A[1].t, A[2].t, A[3].t, A[4].t, A[7].f);
    if (bell_ndim(A[0].t) < 2)
        return fn_fail(args, "input has %u axes; at least two are needed",
                       bell_ndim(A[0].t));
    return bell_group_norm(A[0].t, bell_dim_at(A[0].t, 1).word, A[3].t, A[4].t,
                           A[7].f);
}

/* The axes behind the first two as `size` or `scale_factor`, parameters 1 and
 * 2, say; scale: what is to be taken for out / size. */
static bool
take_sizes(struct fn_args *args, uint32_t n, int64_t *sizes, double *scale)
{
    uint32_t given = A[1].given ? A[1].n : A[2].n, i;

    if (A[1].given == A[2].given || (given != 1 && given != n)) {
        fn_fail(args,
                n == 1 ? "either size or scale_factor is due, one number"
                       : "either size or scale_factor is due, one number or "
                         "%u",
                n);
        return false;
    }
    for (i = 0; i < n; i++) {
        double size = (double)bell_dim_at(A[0].t, (int)i + 2).word;
        if (!is_plain(args, bell_dim_at(A[0].t, (int)i + 2).word))
            return false;
        if (A[1].given) {
            sizes[i] = A[1].ints[given == 1 ? 0 : i];
            continue;
        }
        scale[i] = A[2].floats[given == 1 ? 0 : i];
        if (!(scale[i] > 0 && floor(size * scale[i]) < 0x1p31)) {
            fn_fail(args, "scale_factor %g of a size of %g", scale[i], size);
            return false;
        }
        sizes[i] = (int64_t)floor(size * scale[i]);
    }
    return true;
}

/* input, size, scale_factor, mode, align_corners, recompute_scale_factor,
 * antialias */
static struct bell_tensor *
call_interpolate(struct fn_args *args)
{
    static const struct {
        const char *name;
        uint32_t n_axes; /* 0: any */
        enum bell_resize_mode mode;
    } modes[] = {
        {"nearest", 0, BELL_RESIZE_NEAREST},
        {"nearest-exact", 0, BELL_RESIZE_EXACT},
        {"linear", 1, BELL_RESIZE_LINEAR},
        {"bilinear", 2, BELL_RESIZE_LINEAR},
        {"trilinear", 3, BELL_RESIZE_LINEAR},
        {"bicubic", 2, BELL_RESIZE_CUBIC},
    };
    struct bell_resize_options opt = {.struct_size = sizeof(opt)};
    uint32_t rank = bell_ndim(A[0].t), n = rank > 2 ? rank - 2 : 0, k;
    int64_t sizes[BELL_MAX_RANK];

    if (n < 1 || n > 3)
        return fn_fail(args, "input has %u axes; 3 to 5 are possible", rank);
    if (!take_sizes(args, n, sizes, opt.scale))
        return bell_error_tensor(args->ctx);
    if (A[5].b)
        memset(opt.scale, 0, sizeof(opt.scale));
    opt.align_corners = A[4].b;
    opt.antialias = A[6].b;
    if (opt.antialias && strcmp(A[3].str, "bilinear") != 0 &&
        strcmp(A[3].str, "bicubic") != 0)
        return fn_fail(args,
                       "antialias of mode '%s'; bilinear and bicubic are "
                       "possible",
                       A[3].str);
    if (strcmp(A[3].str, "area") == 0)
        return adapt(A[0].t, sizes, n);
    for (k = 0; k < ARRAY_LEN(modes); k++) {
        if (strcmp(A[3].str, modes[k].name) != 0)
            continue;
        if (modes[k].n_axes && modes[k].n_axes != n)
            return fn_fail(args, "mode '%s' of input of %u axes", A[3].str,
                           rank);
        opt.mode = modes[k].mode;
        return bell_resize(A[0].t, sizes, n, &opt);
    }
    return fn_fail(args,
                   "mode '%s'; nearest, nearest-exact, linear, bilinear, "
                   "trilinear, bicubic and area are possible",
                   A[3].str);
}

/* input, grid, mode, padding_mode, align_corners */
static struct bell_tensor *
call_grid_sample(struct fn_args *args)
{
    static const char *const modes[] = {[BELL_RESIZE_NEAREST] = "nearest",
                                        [BELL_RESIZE_LINEAR] = "bilinear",
                                        [BELL_RESIZE_CUBIC] = "bicubic"};
    static const char *const paddings[] = {[BELL_GRID_ZEROS] = "zeros",
                                           [BELL_GRID_BORDER] = "border",
                                           [BELL_GRID_REFLECT] = "reflection"};
    uint32_t mode, padding;

    for (mode = 0; mode < ARRAY_LEN(modes); mode++) {
        if (modes[mode] && strcmp(A[2].str, modes[mode]) == 0)
            break;
    }
    for (padding = 0; padding < ARRAY_LEN(paddings); padding++) {
        if (strcmp(A[3].str, paddings[padding]) == 0)
            break;
    }
    if (mode == ARRAY_LEN(modes))
        return fn_fail(args,
                       "mode '%s'; bilinear, nearest and bicubic are "
                       "possible",
                       A[2].str);
    if (padding == ARRAY_LEN(paddings))
        return fn_fail(args,
                       "padding_mode '%s'; zeros, border and reflection "
                       "are possible",
                       A[3].str);
    return bell_grid_sample(A[0].t, A[1].t, (enum bell_resize_mode)mode,
                            (enum bell_grid_padding)padding, A[4].b);
}

/* input, boxes, output_size, spatial_scale, sampling_ratio, aligned */
static struct bell_tensor *
call_roi_align(struct fn_args *args)
{
    int64_t sizes[3];

    if (!take_positive(args, 2, "output_size", sizes))
        return bell_error_tensor(args->ctx);
    return bell_roi_align(A[0].t, A[1].t, sizes, A[3].f,
                          A[4].i > 0 ? A[4].i : 0, A[5].b);
}

/* Halves as float32: they are rounded at the end of a function alone. */
static struct bell_tensor *
widened(struct bell_tensor *x)
{
    enum bell_dtype dtype = bell_dtype_of(x);

    return dtype == BELL_FLOAT16 || dtype == BELL_BFLOAT16
               ? bell_cast(x, BELL_FLOAT32)
               : x;
}

/* input, running_mean, running_var, weight, bias, training, momentum, eps */
static struct bell_tensor *
call_batch_norm(struct fn_args *args)
{
    struct bell_tensor *x = A[0].t, *mean = A[1].t, *var = A[2].t;
    int64_t axes[BELL_MAX_RANK];
    uint32_t n = 0, i;

    if (A[5].b) { /* the batch's own statistics: over all axes but 1 */
        struct bell_tensor *wide = widened(x);
        for (i = 0; i < bell_ndim(x); i++) {
            if (i != 1)
                axes[n++] = i;
        }
        mean = bell_mean(wide, axes, n, false);
        var = bell_var(wide, axes, n, false, 0);
    }
    if (!mean || !var)
        return fn_fail(args, "running_mean and running_var are needed unless "
                             "training");
    return bell_batch_norm(x, mean, var, A[3].t, A[4].t, A[7].f);
}

#define X    "input: tensor"
#define MAT  "Matrix products"
#define POOL "Convolution and pooling"
#define ACT  "Activations"
#define NORM "Normalisation"
#define LOSS "Losses"

/* clang-format off */
static const struct fn_row rows[] = {
    {{"matmul", "input: tensor, other: tensor",
      "matrix product; leading axes broadcast", MAT}, FN(tt, bell_matmul)},
    {{"mm", "input: tensor, mat2: tensor", "product of two matrices", MAT},
     FN(tt, bell_matmul), .constant = 2, .glue = call_ranked},
    {{"mv", "input: tensor, vec: tensor", "product of a matrix and a vector",
      MAT}, FN(tt, bell_matmul), .constant = 1, .glue = call_ranked},
    {{"bmm", "input: tensor, mat2: tensor",
      "products of two batches of matrices", MAT}, FN(tt, bell_bmm)},
    {{"dot", "input: tensor, tensor: tensor", "sum of products of two vectors",
      MAT}, FN(tt, bell_dot), .aliases = "inner vdot"},
    {{"outer", "input: tensor, vec2: tensor",
      "all products of elements of two vectors", MAT}, FN(tt, bell_outer),
     .aliases = "ger"},
    {{"addmm", "input: tensor, mat1: tensor, mat2: tensor, beta: number = 1, "
      "alpha: number = 1", "beta * input + alpha * (mat1 @ mat2)", MAT},
     FN(tttff, bell_addmm), .glue = call_addmm},
    {{"einsum", "equation: str, operands: tensors*",
      "sums of products by letters: '...ij,...jk->...ik'", MAT}, FN(es, bell_einsum)},
    {{"linear", "input: tensor, weight: tensor, bias: tensor = None",
      "input @ weight.T + bias", MAT}, FN(ttt, bell_linear)},
    {{"scaled_dot_product_attention",
      "query: tensor, key: tensor, value: tensor, attn_mask: tensor = None, "
      "dropout_p: float = 0, is_causal: bool = False, scale: float = None, "
      "enable_gqa: bool = False",
      "softmax(query @ key.mT * scale + attn_mask) @ value; 0 in rows that see "
      "nothing; enable_gqa: a head of key and value serves several of query",
      MAT}, FN(ttttfbf, bell_scaled_dot_product_attention),
     .glue = call_attention},

    {{"conv1d", "input: tensor, weight: tensor, bias: tensor = None, "
      "stride: ints = 1, padding: ints/str = 0, dilation: ints = 1, "
      "groups: int = 1", "convolution of input[n, c, l]", POOL},
     FN(ttto, bell_conv1d), .constant = 1, .glue = call_conv},
    {{"conv2d", "input: tensor, weight: tensor, bias: tensor = None, "
      "stride: ints = 1, padding: ints/str = 0, dilation: ints = 1, "
      "groups: int = 1", "convolution of input[n, c, h, w]", POOL},
     FN(ttto, bell_conv2d), .constant = 2, .glue = call_conv},
    {{"conv3d", "input: tensor, weight: tensor, bias: tensor = None, "
      "stride: ints = 1, padding: ints/str = 0, dilation: ints = 1, "
      "groups: int = 1", "convolution of input[n, c, d, h, w]", POOL},
     FN(ttto, bell_conv3d), .constant = 3, .glue = call_conv},
    {{"conv_transpose1d",
      "input: tensor, weight: tensor, bias: tensor = None, stride: ints = 1, "
      "padding: ints = 0, output_padding: ints = 0, groups: int = 1, "
      "dilation: ints = 1", "what conv1d's gradient does with its input", POOL},
     FN(ttto, bell_conv_transpose1d), .constant = 1,
     .glue = call_conv_transpose},
    {{"conv_transpose2d",
      "input: tensor, weight: tensor, bias: tensor = None, stride: ints = 1, "
      "padding: ints = 0, output_padding: ints = 0, groups: int = 1, "
      "dilation: ints = 1", "what conv2d's gradient does with its input", POOL},
     FN(ttto, bell_conv_transpose2d), .constant = 2,
     .glue = call_conv_transpose},
    {{"conv_transpose3d",
      "input: tensor, weight: tensor, bias: tensor = None, stride: ints = 1, "
      "padding: ints = 0, output_padding: ints = 0, groups: int = 1, "
      "dilation: ints = 1", "what conv3d's gradient does with its input", POOL},
     FN(ttto, bell_conv_transpose3d), .constant = 3,
     .glue = call_conv_transpose},
    {{"max_pool1d", "input: tensor, kernel_size: ints, stride: ints = None, "
      "padding: ints = 0, dilation: ints = 1, ceil_mode: bool = False, "
      "return_indices: bool = False",
      "greatest element of windows over the last axis, and where it is", POOL},
     FN(tp, bell_max_pool1d), .constant = 1, .glue = call_max_pool},
    {{"max_pool2d", "input: tensor, kernel_size: ints, stride: ints = None, "
      "padding: ints = 0, dilation: ints = 1, ceil_mode: bool = False, "
      "return_indices: bool = False",
      "greatest element of windows over the last two axes, and where it is", POOL},
     FN(tp, bell_max_pool2d), .constant = 2, .glue = call_max_pool},
    {{"max_pool3d", "input: tensor, kernel_size: ints, stride: ints = None, "
      "padding: ints = 0, dilation: ints = 1, ceil_mode: bool = False, "
      "return_indices: bool = False",
      "greatest element of windows over the last three axes, and where it is", POOL},
     FN(tp, bell_max_pool3d), .constant = 3, .glue = call_max_pool},
    {{"max_unpool1d", "input: tensor, indices: tensor, kernel_size: ints, "
      "stride: ints = None, padding: ints = 0, output_size: ints = None",
      "zeros but for input, where the indices of max_pool1d say", POOL},
     .constant = 1, .glue = call_max_unpool},
    {{"max_unpool2d", "input: tensor, indices: tensor, kernel_size: ints, "
      "stride: ints = None, padding: ints = 0, output_size: ints = None",
      "zeros but for input, where the indices of max_pool2d say", POOL},
     .constant = 2, .glue = call_max_unpool},
    {{"max_unpool3d", "input: tensor, indices: tensor, kernel_size: ints, "
      "stride: ints = None, padding: ints = 0, output_size: ints = None",
      "zeros but for input, where the indices of max_pool3d say", POOL},
     .constant = 3, .glue = call_max_unpool},
    {{"avg_pool1d", "input: tensor, kernel_size: ints, stride: ints = None, "
      "padding: ints = 0, ceil_mode: bool = False, "
      "count_include_pad: bool = True", "mean of windows over the last axis", POOL},
     FN(tp, bell_avg_pool1d), .constant = 1, .glue = call_avg_pool},
    {{"avg_pool2d", "input: tensor, kernel_size: ints, stride: ints = None, "
      "padding: ints = 0, ceil_mode: bool = False, "
      "count_include_pad: bool = True", "mean of windows over the last two axes", POOL},
     FN(tp, bell_avg_pool2d), .constant = 2, .glue = call_avg_pool},
    {{"avg_pool3d", "input: tensor, kernel_size: ints, stride: ints = None, "
      "padding: ints = 0, ceil_mode: bool = False, "
      "count_include_pad: bool = True", "mean of windows over the last three axes", POOL},
     FN(tp, bell_avg_pool3d), .constant = 3, .glue = call_avg_pool},
    {{"adaptive_avg_pool1d", "input: tensor, output_size: ints",
      "means of windows, so many, over the last axis", POOL},
     FN(tl, bell_adaptive_avg_pool), .constant = 1,
     .glue = call_adaptive_pool},
    {{"adaptive_avg_pool2d", "input: tensor, output_size: ints",
      "means of windows, so many, over the last two axes", POOL},
     FN(tl, bell_adaptive_avg_pool), .constant = 2,
     .glue = call_adaptive_pool},
    {{"adaptive_avg_pool3d", "input: tensor, output_size: ints",
      "means of windows, so many, over the last three axes", POOL},
     FN(tl, bell_adaptive_avg_pool), .constant = 3,
     .glue = call_adaptive_pool},

    {{"interpolate",
      "input: tensor, size: ints = None, scale_factor: floats = None, "
      "mode: str = 'nearest', align_corners: bool = False, "
      "recompute_scale_factor: bool = False, antialias: bool = False",
      "the axes behind the first two resized; mode: nearest, nearest-exact, "
      "linear, bilinear, trilinear, bicubic, area", POOL},
     .glue = call_interpolate},
    {{"grid_sample",
      "input: tensor, grid: tensor, mode: str = 'bilinear', "
      "padding_mode: str = 'zeros', align_corners: bool = False",
      "input at the points of grid, in -1..1; mode: bilinear, nearest, "
      "bicubic; padding_mode: zeros, border, reflection", POOL},
     .glue = call_grid_sample},
    {{"roi_align",
      "input: tensor, boxes: tensor, output_size: ints, "
      "spatial_scale: float = 1, sampling_ratio: int = -1, "
      "aligned: bool = False",
      "means of equal parts of boxes[k, 5] (image, x1, y1, x2, y2)", POOL},
     .constant = 2, .glue = call_roi_align},
    {{"nms", "boxes: tensor, scores: tensor, iou_threshold: float",
      "the boxes that none of a higher score overlaps by more; chosen on the "
      "host", POOL}, FN(ttf, bell_nms)},
    {{"pixel_shuffle", "input: tensor, upscale_factor: int",
      "blocks of the last two axes out of channels", POOL},
     FN(ti, bell_pixel_shuffle)},
    {{"pixel_unshuffle", "input: tensor, downscale_factor: int",
      "blocks of the last two axes as channels", POOL},
     FN(ti, bell_pixel_unshuffle)},

    {{"relu", X, "max(input, 0)", ACT}, FN(t, bell_relu)},
    {{"relu6", X, "min(max(input, 0), 6)", ACT}, FN(t, bell_relu6)},
    {{"leaky_relu", "input: tensor, negative_slope: float = 0.01",
      "input, below 0 times negative_slope", ACT}, FN(tf, bell_leaky_relu)},
    {{"elu", "input: tensor, alpha: float = 1",
      "input, below 0 alpha * (exp(input) - 1)", ACT}, FN(tf, bell_elu)},
    {{"celu", "input: tensor, alpha: float = 1",
      "input, below 0 alpha * (exp(input / alpha) - 1)", ACT},
     FN(tf, bell_celu)},
    {{"selu", X, "elu with the constants that keep mean and variance", ACT},
     FN(t, bell_selu)},
    {{"sigmoid", X, "1 / (1 + exp(-input))", ACT}, FN(t, bell_sigmoid),
     .aliases = "expit"},
    {{"logsigmoid", X, "log(sigmoid(input))", ACT}, FN(t, bell_logsigmoid)},
    {{"silu", X, "input * sigmoid(input)", ACT}, FN(t, bell_silu),
     .aliases = "swish"},
    {{"gelu", "input: tensor, approximate: str = 'none'",
      "input * Phi(input); approximate 'tanh' is the other form", ACT},
     .glue = call_gelu},
    {{"quick_gelu", X, "input * sigmoid(1.702 input)", ACT},
     FN(t, bell_quick_gelu)},
    {{"softplus", "input: tensor, beta: float = 1",
      "log(1 + exp(beta * input)) / beta", ACT}, FN(tf, bell_softplus)},
    {{"softsign", X, "input / (1 + |input|)", ACT}, FN(t, bell_softsign)},
    {{"mish", X, "input * tanh(softplus(input))", ACT}, FN(t, bell_mish)},
    {{"hardtanh", "input: tensor, min_val: float = -1, max_val: float = 1",
      "limited to min_val..max_val", ACT}, FN(tff, bell_hardtanh)},
    {{"hardsigmoid", X, "relu6(input + 3) / 6", ACT}, FN(t, bell_hardsigmoid)},
    {{"hardswish", X, "input * relu6(input + 3) / 6", ACT},
     FN(t, bell_hardswish)},
    {{"dropout", "input: tensor, p: float = 0.5, training: bool = True",
      "each element 0 with probability p, the others over 1 - p", ACT},
     .glue = call_dropout},

    {{"layer_norm", "input: tensor, normalized_shape: ints, "
      "weight: tensor = None, bias: tensor = None, eps: float = 1e-05",
      "mean 0 and variance 1 over the last axes, times weight, plus bias",
      NORM}, FN(tnttf, bell_layer_norm), .glue = call_layer_norm},
    {{"rms_norm", "input: tensor, normalized_shape: ints, "
      "weight: tensor = None, eps: float = None",
      "mean square 1 over the last axes, times weight", NORM},
     .glue = call_rms_norm},
    {{"batch_norm", "input: tensor, running_mean: tensor = None, "
      "running_var: tensor = None, weight: tensor = None, "
      "bias: tensor = None, training: bool = False, momentum: float = 0.1, "
      "eps: float = 1e-05",
      "normalised by the statistics of each channel (axis 1)", NORM},
     .glue = call_batch_norm},
    {{"group_norm", "input: tensor, num_groups: int, "
      "weight: tensor = None, bias: tensor = None, eps: float = 1e-05",
      "normalised over groups of channels of each image", NORM},
     FN(tittf, bell_group_norm)},
    {{"instance_norm", "input: tensor, running_mean: tensor = None, "
      "running_var: tensor = None, weight: tensor = None, "
      "bias: tensor = None, use_input_stats: bool = True, "
      "momentum: float = 0.1, eps: float = 1e-05",
      "normalised over each channel of each image", NORM},
     .glue = call_instance_norm},

    {{"cross_entropy", "input: tensor, target: tensor, "
      "weight: tensor = None, ignore_index: int = -100, "
      "reduction: str = 'mean', label_smoothing: float = 0",
      "-log softmax of the right class", LOSS},
     FN(tttfir, bell_weighted_cross_entropy), "012534"},
    {{"nll_loss", "input: tensor, target: tensor, weight: tensor = None, "
      "ignore_index: int = -100, reduction: str = 'mean'",
      "-input at the right class; input is log-probabilities", LOSS},
     FN(tttir, bell_nll_loss)},
    {{"mse_loss", "input: tensor, target: tensor, reduction: str = 'mean'",
      "(input - target)^2", LOSS}, FN(ttr, bell_mse_loss)},
    {{"l1_loss", "input: tensor, target: tensor, reduction: str = 'mean'",
      "|input - target|", LOSS}, FN(ttr, bell_l1_loss)},
    {{"huber_loss", "input: tensor, target: tensor, "
      "reduction: str = 'mean', delta: float = 1",
      "quadratic below delta, linear above", LOSS}, FN(ttfr, bell_huber_loss),
     "0132"},
    {{"binary_cross_entropy",
      "input: tensor, target: tensor, reduction: str = 'mean'",
      "of probabilities and targets in 0..1", LOSS},
     FN(ttr, bell_binary_cross_entropy)},
    {{"binary_cross_entropy_with_logits", "input: tensor, target: tensor, "
      "reduction: str = 'mean', pos_weight: tensor = None",
      "the same of logits", LOSS},
     FN(tttr, bell_binary_cross_entropy_with_logits), "0132"},
};
/* clang-format on */

const struct fn_table fn_table_nn = {rows, ARRAY_LEN(rows)};
