/* Layers: their parameters and how they are applied. */
#include "doorbell/nn.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/train/nn.h"
#include "tensor/ops/reduce.h"

/* ---- parameters ---- */

void
bell_params_fini(struct bell_params *params)
{
    if (!params)
        return;
    host_free(params->tensors);
    memset(params, 0, sizeof(*params));
}

bell_status
bell_params_add(struct bell_params *params, struct bell_tensor *t)
{
    if (!params)
        return bell_fail(BELL_BAD_MISSING, "bell_params_add: the list is NULL");
    if (!t)
        return BELL_OK;
    if (!handle_find(t))
        return tensor_usable(__func__, t);
    if (host_grow((void **)&params->tensors, &params->cap,
                  (size_t)params->n + 1, sizeof(*params->tensors)) != 0)
        return bell_fail(BELL_E_NO_MEMORY,
                         "bell_params_add: out of memory for %u parameters",
                         params->n + 1);
    params->tensors[params->n++] = t;
    return BELL_OK;
}

bell_status
bell_params_add_state(struct bell_params *params,
                      const struct bell_state *state)
{
    uint32_t i, k;

    if (!params || !state)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_params_add_state: the %s is NULL",
                         params ? "module's list" : "list");
    for (i = 0; i < state->n; i++) {
        if (state->items[i].kind != BELL_STATE_PARAM)
            continue;
        for (k = 0; k < params->n; k++) {
            if (params->tensors[k] == state->items[i].tensor)
                break;
        }
        if (k == params->n)
            BELL_TRY(bell_params_add(params, state->items[i].tensor));
    }
    return BELL_OK;
}

bell_status
bell_params_add_module(struct bell_params *params,
                       const struct bell_module_type *type, const void *module)
{
    struct bell_state state = {0};
    bell_status status = bell_module_state(type, module, NULL, &state);

    if (status == BELL_OK)
        status = bell_params_add_state(params, &state);
    bell_state_fini(&state);
    return status;
}

struct bell_tensor *
nn_param(struct bell_tensor *t)
{
    return bell_keep_forever(bell_requires_grad(t, true));
}

/* The same, without gradients: what a constant is made into stays. */
static struct bell_tensor *
own_state(struct bell_tensor *t)
{
    return bell_requires_grad(nn_param(t), false);
}

struct bell_tensor *
nn_uniform(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
           double bound)
{
    return nn_param(
        bell_uniform(ctx, shape, ndim, -bound, bound, BELL_FLOAT32));
}

bell_status
nn_finish(struct bell_context *ctx, const struct bell_module_type *type,
          void *layer)
{
    bell_status status = bell_context_status(ctx);

    if (status != BELL_OK)
        bell_module_fini(type, layer);
    return status;
}

struct bell_tensor *
nn_no_layer(const char *call, struct bell_tensor *x)
{
    struct bell_tensor *out;

    if (!tensor_takes(call, x, &out))
        return out;
    return tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_MISSING,
                       "the layer is NULL");
}

bell_status
nn_begin_init(const char *call, const struct bell_context *ctx,
              const void *options, const void *out_layer)
{
    if (!options || !out_layer)
        return bell_fail_at(call, BELL_BAD_MISSING, "%s: the %s NULL", call,
                            options ? "layer is" : "options are");
    return tensor_context_usable(call, ctx);
}

bell_status
nn_check_sizes(const char *call, const int64_t *sizes, uint32_t n)
{
    uint32_t i;

    if (n && !sizes)
        return bell_fail_at(call, BELL_BAD_MISSING, "%s: the sizes are NULL",
                            call);
    for (i = 0; i < n; i++) {
        if (sizes[i] < 1)
            return bell_fail_at(call, BELL_BAD_VALUE,
                                "%s: a size of %lld, not greater than 0", call,
                                (long long)sizes[i]);
    }
    return BELL_OK;
}

bool
nn_begin(const char *call, struct bell_tensor *x, struct bell_tensor **out)
{
    if (!tensor_takes(call, x, out))
        return false;
    if (bell_scope_begin(tensor_at(x)->ctx) == BELL_OK)
        return true;
    *out = tensor_fail_last(tensor_at(x)->ctx, call);
    return false;
}

void
nn_end(struct bell_context *ctx, struct bell_tensor *const *results, uint32_t n)
{
    struct bell_error error = ctx->error;
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (results[i] && tensor_at(results[i])->scope == ctx->n_scopes - 1)
            bell_keep(results[i]);
    }
    if (bell_scope_end(ctx) != BELL_OK)
        ctx->error = error; /* the user is to be told of it */
}

/* ---- linear ---- */

static const struct bell_module_field linear_fields[] = {
    BELL_PARAM(struct bell_nn_linear, weight),
    BELL_PARAM(struct bell_nn_linear, bias),
};
const struct bell_module_type bell_nn_linear_type =
    BELL_MODULE_TYPE(struct bell_nn_linear, linear_fields);

bell_status
bell_nn_linear_init(struct bell_context *ctx, int64_t in, int64_t out,
                    bool with_bias, struct bell_nn_linear *out_layer)
{
    const int64_t shape[2] = {out, in};
    struct bell_nn_linear layer = {0};
    double bound;

    BELL_TRY(nn_begin_init(__func__, ctx, out_layer, out_layer));
    BELL_TRY(nn_check_sizes(__func__, shape, 2));
    bound = 1 / sqrt((double)in);
    layer.weight = nn_uniform(ctx, shape, 2, bound);
    if (with_bias)
        layer.bias = nn_uniform(ctx, shape, 1, bound);
    BELL_TRY(nn_finish(ctx, &bell_nn_linear_type, &layer));
    *out_layer = layer;
    return BELL_OK;
}

struct bell_tensor *
bell_nn_linear(const struct bell_nn_linear *layer, struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer)
        return nn_no_layer(__func__, x);
    hold = tensor_label_layer(__func__, layer->weight, 0);
    out = bell_linear(x, layer->weight, layer->bias);
    tensor_label_layer_end(&hold);
    return out;
}

/* ---- convolutions ---- */

static const struct bell_module_field conv_fields[] = {
    BELL_PARAM(struct bell_nn_conv, weight),
    BELL_PARAM(struct bell_nn_conv, bias),
};
const struct bell_module_type bell_nn_conv_type =
    BELL_MODULE_TYPE(struct bell_nn_conv, conv_fields);

/* The weight is [first, second / groups, kernel..]. */
static bell_status
init_conv(const char *call, struct bell_context *ctx, const int64_t *channels,
          const int64_t *kernel, uint32_t n_axes, int64_t first, int64_t second,
          const struct bell_conv_options *options, bool with_bias,
          struct bell_nn_conv *out_layer)
{
    struct bell_nn_conv layer = {0};
    int64_t shape[BELL_MAX_RANK], groups;
    double fan;
    uint32_t i;

    BELL_TRY(nn_begin_init(call, ctx, out_layer, out_layer));
    BELL_TRY(tensor_options(call, options, sizeof(layer.options),
                            sizeof(layer.options), &layer.options));
    groups = layer.options.groups ? layer.options.groups : 1;
    BELL_TRY(nn_check_sizes(call, channels, 2));
    BELL_TRY(nn_check_sizes(call, kernel, n_axes));
    BELL_TRY(nn_check_sizes(call, &groups, 1));
    if (channels[0] % groups || channels[1] % groups)
        return bell_fail_at(call, BELL_BAD_VALUE,
                            "%s: %lld to %lld channels in %lld groups: the "
                            "groups must divide both",
                            call, (long long)channels[0],
                            (long long)channels[1], (long long)groups);
    shape[0] = first;
    shape[1] = second / groups;
    fan = (double)shape[1];
    for (i = 0; i < n_axes; i++) {
        shape[2 + i] = kernel[i];
        fan *= (double)kernel[i];
    }
    layer.weight = nn_uniform(ctx, shape, 2 + n_axes, 1 / sqrt(fan));
    if (with_bias)
        layer.bias = nn_uniform(ctx, &channels[1], 1, 1 / sqrt(fan));
    BELL_TRY(nn_finish(ctx, &bell_nn_conv_type, &layer));
    *out_layer = layer;
    return BELL_OK;
}

bell_status
bell_nn_conv1d_init(struct bell_context *ctx, int64_t in, int64_t out,
                    int64_t k, const struct bell_conv_options *options,
                    bool with_bias, struct bell_nn_conv *out_layer)
{
    const int64_t channels[2] = {in, out};

    return init_conv(__func__, ctx, channels, &k, 1, out, in, options,
                     with_bias, out_layer);
}

bell_status
bell_nn_conv2d_init(struct bell_context *ctx, int64_t in, int64_t out,
                    int64_t kh, int64_t kw,
                    const struct bell_conv_options *options, bool with_bias,
                    struct bell_nn_conv *out_layer)
{
    const int64_t channels[2] = {in, out}, kernel[2] = {kh, kw};

    return init_conv(__func__, ctx, channels, kernel, 2, out, in, options,
                     with_bias, out_layer);
}

bell_status
bell_nn_conv_transpose2d_init(struct bell_context *ctx, int64_t in, int64_t out,
                              int64_t kh, int64_t kw,
                              const struct bell_conv_options *options,
                              bool with_bias, struct bell_nn_conv *out_layer)
{
    const int64_t channels[2] = {in, out}, kernel[2] = {kh, kw};

    return init_conv(__func__, ctx, channels, kernel, 2, in, out, options,
                     with_bias, out_layer);
}

bell_status
bell_nn_conv3d_init(struct bell_context *ctx, int64_t in, int64_t out,
                    const int64_t kernel[3],
                    const struct bell_conv_options *options, bool with_bias,
                    struct bell_nn_conv *out_layer)
{
    const int64_t channels[2] = {in, out};

    return init_conv(__func__, ctx, channels, kernel, 3, out, in, options,
                     with_bias, out_layer);
}

bell_status
bell_nn_conv_transpose1d_init(struct bell_context *ctx, int64_t in, int64_t out,
                              int64_t k,
                              const struct bell_conv_options *options,
                              bool with_bias, struct bell_nn_conv *out_layer)
{
    const int64_t channels[2] = {in, out};

    return init_conv(__func__, ctx, channels, &k, 1, in, out, options,
                     with_bias, out_layer);
}

bell_status
bell_nn_conv_transpose3d_init(struct bell_context *ctx, int64_t in, int64_t out,
                              const int64_t kernel[3],
                              const struct bell_conv_options *options,
                              bool with_bias, struct bell_nn_conv *out_layer)
{
    const int64_t channels[2] = {in, out};

    return init_conv(__func__, ctx, channels, kernel, 3, in, out, options,
                     with_bias, out_layer);
}

typedef struct bell_tensor *conv_fn(struct bell_tensor *x,
                                    struct bell_tensor *weight,
                                    struct bell_tensor *bias,
                                    const struct bell_conv_options *options);

static struct bell_tensor *
call_conv(const char *call, conv_fn *conv, const struct bell_nn_conv *layer,
          struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer)
        return nn_no_layer(call, x);
    hold = tensor_label_layer(call, layer->weight, 0);
    out = conv(x, layer->weight, layer->bias, &layer->options);
    tensor_label_layer_end(&hold);
    return out;
}

struct bell_tensor *
bell_nn_conv1d(const struct bell_nn_conv *layer, struct bell_tensor *x)
{
    return call_conv(__func__, bell_conv1d, layer, x);
}

struct bell_tensor *
bell_nn_conv2d(const struct bell_nn_conv *layer, struct bell_tensor *x)
{
    return call_conv(__func__, bell_conv2d, layer, x);
}

struct bell_tensor *
bell_nn_conv3d(const struct bell_nn_conv *layer, struct bell_tensor *x)
{
    return call_conv(__func__, bell_conv3d, layer, x);
}

struct bell_tensor *
bell_nn_conv_transpose1d(const struct bell_nn_conv *layer,
                         struct bell_tensor *x)
{
    return call_conv(__func__, bell_conv_transpose1d, layer, x);
}

struct bell_tensor *
bell_nn_conv_transpose2d(const struct bell_nn_conv *layer,
                         struct bell_tensor *x)
{
    return call_conv(__func__, bell_conv_transpose2d, layer, x);
}

struct bell_tensor *
bell_nn_conv_transpose3d(const struct bell_nn_conv *layer,
                         struct bell_tensor *x)
{
    return call_conv(__func__, bell_conv_transpose3d, layer, x);
}

/* ---- batch norm ---- */

static const struct bell_module_field batch_norm_fields[] = {
    BELL_PARAM(struct bell_nn_batch_norm, weight),
    BELL_PARAM(struct bell_nn_batch_norm, bias),
    BELL_BUFFER(struct bell_nn_batch_norm, running_mean),
    BELL_BUFFER(struct bell_nn_batch_norm, running_var),
};
const struct bell_module_type bell_nn_batch_norm_type =
    BELL_MODULE_TYPE(struct bell_nn_batch_norm, batch_norm_fields);

bell_status
bell_nn_batch_norm_init(struct bell_context *ctx, int64_t channels,
                        struct bell_nn_batch_norm *out_layer)
{
    struct bell_nn_batch_norm layer = {.momentum = 0.1, .eps = 1e-5};

    BELL_TRY(nn_begin_init(__func__, ctx, out_layer, out_layer));
    BELL_TRY(nn_check_sizes(__func__, &channels, 1));
    layer.weight = nn_param(bell_ones(ctx, &channels, 1, BELL_FLOAT32));
    layer.bias = nn_param(bell_zeros(ctx, &channels, 1, BELL_FLOAT32));
    layer.running_mean = own_state(bell_zeros(ctx, &channels, 1, BELL_FLOAT32));
    layer.running_var = own_state(bell_ones(ctx, &channels, 1, BELL_FLOAT32));
    BELL_TRY(nn_finish(ctx, &bell_nn_batch_norm_type, &layer));
    *out_layer = layer;
    return BELL_OK;
}

/* t := (1 - momentum) t + momentum value, without a gradient. */
static struct bell_tensor *
blend_running(const char *call, struct bell_tensor *t, const struct uop *value,
              double momentum)
{
    struct bell_context *ctx = tensor_at(t)->ctx;
    struct bell_tensor *fresh, *out;
    const struct uop *u;

    value = tn_wrap(ctx, UOP_DETACH, tn_cast(ctx, value, tensor_at(t)->dtype));
    u = tn_add(ctx, tn_mul_c(ctx, tensor_at(t)->uop, 1 - momentum),
               tn_mul_c(ctx, value, momentum));
    fresh = tensor_new(ctx, call, u);
    out = bell_assign(t, fresh);
    bell_tensor_release(fresh);
    return out;
}

/* The batch's statistics over all axes but the channels, shape [c]. */
static struct bell_tensor *
batch_statistics(const char *call, const struct bell_nn_batch_norm *layer,
                 struct bell_tensor *x, struct bell_tensor **out_var)
{
    struct bell_context *ctx = tensor_at(x)->ctx;
    uint32_t mask = (uint32_t)((1ull << tensor_at(x)->shape->n) - 1) & ~2u;
    const struct uop *u = tn_widen(ctx, tensor_node(x)), *mean, *var;
    enum uop_dtype wide = u->dtype;
    const struct uop *n;
    struct bell_tensor *t;

    mean = tn_squeeze(ctx, tn_mean(ctx, u, mask), mask);
    var = tn_squeeze(ctx, tn_var(ctx, u, mask, 0), mask);
    *out_var = tensor_new(ctx, call, var);
    t = tensor_new(ctx, call, mean);
    if ((tensor_at(t)->flags | tensor_at((*out_var))->flags) & TENSOR_ERROR)
        return ctx->error_tensor;
    /* The handles keep the nodes; blending may collect. */
    if (bell_is_error(blend_running(call, layer->running_mean,
                                    tensor_at(t)->uop, layer->momentum)))
        return ctx->error_tensor;
    /* n / (n - 1), but of one element 1 */
    n = tn_count_axes(ctx, tensor_node(x), mask, wide);
    n = tn_fdiv(ctx, n, tn_max(ctx, tn_add_c(ctx, n, -1), tn_num(ctx, n, 1)));
    var = tn_mul(ctx, tensor_at((*out_var))->uop, n);
    if (bell_is_error(
            blend_running(call, layer->running_var, var, layer->momentum)))
        return ctx->error_tensor;
    return t;
}

/* By the batch's statistics, which the running ones learn from. */
static struct bell_tensor *
train_batch_norm(const char *call, const struct bell_nn_batch_norm *layer,
                 struct bell_tensor *x)
{
    struct bell_context *ctx = tensor_at(x)->ctx;
    struct bell_tensor *mean, *var, *out;

    if (!nn_begin(call, x, &out))
        return out;
    out = mean = batch_statistics(call, layer, x, &var);
    if (!bell_is_error(mean))
        out = bell_batch_norm(x, mean, var, layer->weight, layer->bias,
                              layer->eps);
    nn_end(ctx, &out, 1);
    return out;
}

struct bell_tensor *
bell_nn_batch_norm(const struct bell_nn_batch_norm *layer,
                   struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer)
        return nn_no_layer(__func__, x);
    if (!tensor_takes2(__func__, x, layer->weight, &out))
        return out;
    if (tensor_at(x)->shape->n < 2 ||
        tensor_at(x)->shape->d[1] != tensor_at(layer->weight)->shape->d[0] ||
        !uop_dtype_infos[tensor_at(x)->dtype].is_float)
        return tensor_fail(tensor_at(x)->ctx, __func__,
                           uop_dtype_infos[tensor_at(x)->dtype].is_float
                               ? BELL_BAD_SHAPE
                               : BELL_BAD_DTYPE,
                           "x %s %s for %lld channels: expected floats of 2 "
                           "axes or more, and that size of axis 1",
                           DTYPE_OF(x), SHAPE_OF(x),
                           (long long)tensor_at(layer->weight)->shape->d[0]);
    hold = tensor_label_layer(__func__, layer->weight, 0);
    if (tensor_at(x)->ctx->training)
        out = train_batch_norm(__func__, layer, x);
    else
        out = bell_batch_norm(x, layer->running_mean, layer->running_var,
                              layer->weight, layer->bias, layer->eps);
    tensor_label_layer_end(&hold);
    return out;
}

/* ---- layer norm ---- */

static const struct bell_module_field layer_norm_fields[] = {
    BELL_PARAM(struct bell_nn_layer_norm, weight),
    BELL_PARAM(struct bell_nn_layer_norm, bias),
};
const struct bell_module_type bell_nn_layer_norm_type =
    BELL_MODULE_TYPE(struct bell_nn_layer_norm, layer_norm_fields);

bell_status
bell_nn_layer_norm_init(struct bell_context *ctx, const int64_t *shape,
                        uint32_t ndim, struct bell_nn_layer_norm *out_layer)
{
    struct bell_nn_layer_norm layer = {.eps = 1e-5};

    BELL_TRY(nn_begin_init(__func__, ctx, out_layer, out_layer));
    BELL_TRY(nn_check_sizes(__func__, shape, ndim));
    layer.weight = nn_param(bell_ones(ctx, shape, ndim, BELL_FLOAT32));
    layer.bias = nn_param(bell_zeros(ctx, shape, ndim, BELL_FLOAT32));
    BELL_TRY(nn_finish(ctx, &bell_nn_layer_norm_type, &layer));
    *out_layer = layer;
    return BELL_OK;
}

struct bell_tensor *
bell_nn_layer_norm(const struct bell_nn_layer_norm *layer,
                   struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer)
        return nn_no_layer(__func__, x);
    hold = tensor_label_layer(__func__, layer->weight, 0);
    out = bell_layer_norm(x, bell_ndim(layer->weight), layer->weight,
                          layer->bias, layer->eps);
    tensor_label_layer_end(&hold);
    return out;
}

/* ---- group, instance and rms norm ---- */

static const struct bell_module_field group_norm_fields[] = {
    BELL_PARAM(struct bell_nn_group_norm, weight),
    BELL_PARAM(struct bell_nn_group_norm, bias),
};
const struct bell_module_type bell_nn_group_norm_type =
    BELL_MODULE_TYPE(struct bell_nn_group_norm, group_norm_fields);

bell_status
bell_nn_group_norm_init(struct bell_context *ctx, int64_t n_groups,
                        int64_t channels, struct bell_nn_group_norm *out_layer)
{
    struct bell_nn_group_norm layer = {.n_groups = n_groups, .eps = 1e-5};

    BELL_TRY(nn_begin_init(__func__, ctx, out_layer, out_layer));
    BELL_TRY(nn_check_sizes(__func__, &channels, 1));
    BELL_TRY(nn_check_sizes(__func__, &n_groups, 1));
    if (channels % n_groups)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_nn_group_norm_init: %lld channels in %lld "
                         "groups: the groups must divide them",
                         (long long)channels, (long long)n_groups);
    layer.weight = nn_param(bell_ones(ctx, &channels, 1, BELL_FLOAT32));
    layer.bias = nn_param(bell_zeros(ctx, &channels, 1, BELL_FLOAT32));
    BELL_TRY(nn_finish(ctx, &bell_nn_group_norm_type, &layer));
    *out_layer = layer;
    return BELL_OK;
}

struct bell_tensor *
bell_nn_group_norm(const struct bell_nn_group_norm *layer,
                   struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer)
        return nn_no_layer(__func__, x);
    hold = tensor_label_layer(__func__, layer->weight, 0);
    out = bell_group_norm(x, layer->n_groups, layer->weight, layer->bias,
                          layer->eps);
    tensor_label_layer_end(&hold);
    return out;
}

static const struct bell_module_field instance_norm_fields[] = {
    BELL_PARAM(struct bell_nn_instance_norm, weight),
    BELL_PARAM(struct bell_nn_instance_norm, bias),
};
const struct bell_module_type bell_nn_instance_norm_type =
    BELL_MODULE_TYPE(struct bell_nn_instance_norm, instance_norm_fields);

bell_status
bell_nn_instance_norm_init(struct bell_context *ctx, int64_t channels,
                           bool is_affine,
                           struct bell_nn_instance_norm *out_layer)
{
    struct bell_nn_instance_norm layer = {.eps = 1e-5};

    BELL_TRY(nn_begin_init(__func__, ctx, out_layer, out_layer));
    BELL_TRY(nn_check_sizes(__func__, &channels, 1));
    if (is_affine) {
        layer.weight = nn_param(bell_ones(ctx, &channels, 1, BELL_FLOAT32));
        layer.bias = nn_param(bell_zeros(ctx, &channels, 1, BELL_FLOAT32));
    }
    BELL_TRY(nn_finish(ctx, &bell_nn_instance_norm_type, &layer));
    *out_layer = layer;
    return BELL_OK;
}

struct bell_tensor *
bell_nn_instance_norm(const struct bell_nn_instance_norm *layer,
                      struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer)
        return nn_no_layer(__func__, x);
    if (!tensor_takes(__func__, x, &out))
        return out;
    if (tensor_at(x)->shape->n < 3)
        return tensor_fail(tensor_at(x)->ctx, __func__, BELL_BAD_SHAPE,
                           "x is %s; axes after n and c are needed",
                           SHAPE_OF(x));
    hold = tensor_label_layer(__func__, layer->weight, 0);
    out = bell_group_norm(x, tensor_at(x)->shape->d[1], layer->weight,
                          layer->bias, layer->eps);
    tensor_label_layer_end(&hold);
    return out;
}

static const struct bell_module_field rms_norm_fields[] = {
    BELL_PARAM(struct bell_nn_rms_norm, weight),
};
const struct bell_module_type bell_nn_rms_norm_type =
    BELL_MODULE_TYPE(struct bell_nn_rms_norm, rms_norm_fields);

bell_status
bell_nn_rms_norm_init(struct bell_context *ctx, const int64_t *shape,
                      uint32_t ndim, double eps,
                      struct bell_nn_rms_norm *out_layer)
{
    struct bell_nn_rms_norm layer = {.eps = eps};

    BELL_TRY(nn_begin_init(__func__, ctx, out_layer, out_layer));
    BELL_TRY(nn_check_sizes(__func__, shape, ndim));
    layer.weight = nn_param(bell_ones(ctx, shape, ndim, BELL_FLOAT32));
    BELL_TRY(nn_finish(ctx, &bell_nn_rms_norm_type, &layer));
    *out_layer = layer;
    return BELL_OK;
}

struct bell_tensor *
bell_nn_rms_norm(const struct bell_nn_rms_norm *layer, struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer)
        return nn_no_layer(__func__, x);
    hold = tensor_label_layer(__func__, layer->weight, 0);
    out = bell_rms_norm(x, layer->weight, layer->eps);
    tensor_label_layer_end(&hold);
    return out;
}

/* ---- embedding ---- */

static const struct bell_module_field embedding_fields[] = {
    BELL_PARAM(struct bell_nn_embedding, weight),
};
const struct bell_module_type bell_nn_embedding_type =
    BELL_MODULE_TYPE(struct bell_nn_embedding, embedding_fields);

bell_status
bell_nn_embedding_init(struct bell_context *ctx, int64_t count, int64_t size,
                       struct bell_nn_embedding *out_layer)
{
    const int64_t shape[2] = {count, size};
    struct bell_nn_embedding layer = {0};

    BELL_TRY(nn_begin_init(__func__, ctx, out_layer, out_layer));
    BELL_TRY(nn_check_sizes(__func__, shape, 2));
    layer.weight = nn_param(bell_randn(ctx, shape, 2, BELL_FLOAT32));
    BELL_TRY(nn_finish(ctx, &bell_nn_embedding_type, &layer));
    *out_layer = layer;
    return BELL_OK;
}

struct bell_tensor *
bell_nn_embedding(const struct bell_nn_embedding *layer, struct bell_tensor *x)
{
    struct label_hold hold;
    struct bell_tensor *out;

    if (!layer)
        return nn_no_layer(__func__, x);
    hold = tensor_label_layer(__func__, layer->weight, 0);
    out = bell_embedding(x, layer->weight);
    tensor_label_layer_end(&hold);
    return out;
}
