/* Layers: their parameters and how they are applied. */
#include "doorbell/nn.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/elementwise.h"
#include "tensor/reduce.h"

/* ---- parameters ---- */

void
bell_params_fini(struct bell_params *params)
{
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

static bell_status
add_pair(struct bell_params *params, struct bell_tensor *a,
         struct bell_tensor *b)
{
    BELL_TRY(bell_params_add(params, a));
    return bell_params_add(params, b);
}

/* A parameter of its own: kept, marked for gradients. */
static struct bell_tensor *
own_param(struct bell_tensor *t)
{
    return bell_keep_forever(bell_requires_grad(t, true));
}

/* The same, without gradients: what a constant is made into stays. */
static struct bell_tensor *
own_state(struct bell_tensor *t)
{
    return bell_requires_grad(own_param(t), false);
}

static struct bell_tensor *
uniform_param(struct bell_context *ctx, const int64_t *shape, uint32_t ndim,
              double bound)
{
    return own_param(
        bell_uniform(ctx, shape, ndim, -bound, bound, BELL_FLOAT32));
}

/* Reports what went wrong while a layer was made; releases its tensors. */
static bell_status
finish_init(struct bell_context *ctx, struct bell_tensor *const *tensors,
            uint32_t n)
{
    bell_status status = bell_context_status(ctx);
    uint32_t i;

    for (i = 0; status != BELL_OK && i < n; i++)
        bell_tensor_release(tensors[i]);
    return status;
}

static void
release_pair(struct bell_tensor **a, struct bell_tensor **b)
{
    bell_tensor_release(*a);
    bell_tensor_release(*b);
    *a = *b = NULL;
}

static struct bell_tensor *
no_layer(const char *call, struct bell_tensor *x)
{
    struct bell_tensor *out;

    if (!tensor_check(call, x, &out))
        return out;
    return tensor_fail(tensor_at(x)->ctx, call, BELL_BAD_MISSING,
                       "the layer is NULL");
}

static bell_status
begin_init(const char *call, const struct bell_context *ctx,
           const void *out_layer)
{
    if (!out_layer)
        return bell_fail_at(call, BELL_BAD_MISSING, "%s: the layer is NULL",
                            call);
    return tensor_context_usable(call, ctx);
}

static bell_status
check_norm_sizes(const char *call, const int64_t *sizes, uint32_t n)
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

    BELL_TRY(begin_init(__func__, ctx, out_layer));
    BELL_TRY(check_norm_sizes(__func__, shape, 2));
    bound = 1 / sqrt((double)in);
    layer.weight = uniform_param(ctx, shape, 2, bound);
    if (with_bias)
        layer.bias = uniform_param(ctx, shape, 1, bound);
    BELL_TRY(finish_init(
        ctx, (struct bell_tensor *[]){layer.weight, layer.bias}, 2));
    *out_layer = layer;
    return BELL_OK;
}

void
bell_nn_linear_fini(struct bell_nn_linear *layer)
{
    release_pair(&layer->weight, &layer->bias);
}

struct bell_tensor *
bell_nn_linear(const struct bell_nn_linear *layer, struct bell_tensor *x)
{
    if (!layer)
        return no_layer(__func__, x);
    return bell_linear(x, layer->weight, layer->bias);
}

bell_status
bell_nn_linear_params(const struct bell_nn_linear *layer,
                      struct bell_params *params)
{
    return add_pair(params, layer->weight, layer->bias);
}

/* ---- conv2d ---- */

static const struct bell_module_field conv2d_fields[] = {
    BELL_PARAM(struct bell_nn_conv2d, weight),
    BELL_PARAM(struct bell_nn_conv2d, bias),
};
const struct bell_module_type bell_nn_conv2d_type =
    BELL_MODULE_TYPE(struct bell_nn_conv2d, conv2d_fields);

bell_status
bell_nn_conv2d_init(struct bell_context *ctx, int64_t in, int64_t out,
                    int64_t kh, int64_t kw,
                    const struct bell_conv_options *options, bool with_bias,
                    struct bell_nn_conv2d *out_layer)
{
    int64_t groups = options && options->groups ? options->groups : 1;
    const int64_t given[5] = {in, out, kh, kw, groups};
    struct bell_nn_conv2d layer = {0};
    int64_t shape[4];
    double bound;

    BELL_TRY(begin_init(__func__, ctx, out_layer));
    BELL_TRY(check_norm_sizes(__func__, given, 5));
    if (in % groups || out % groups)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_nn_conv2d_init: %lld to %lld channels in %lld "
                         "groups",
                         (long long)in, (long long)out, (long long)groups);
    shape[0] = out;
    shape[1] = in / groups;
    shape[2] = kh;
    shape[3] = kw;
    bound = 1 / sqrt((double)shape[1] * (double)kh * (double)kw);
    if (options)
        layer.options = *options;
    layer.weight = uniform_param(ctx, shape, 4, bound);
    if (with_bias)
        layer.bias = uniform_param(ctx, shape, 1, bound);
    BELL_TRY(finish_init(
        ctx, (struct bell_tensor *[]){layer.weight, layer.bias}, 2));
    *out_layer = layer;
    return BELL_OK;
}

void
bell_nn_conv2d_fini(struct bell_nn_conv2d *layer)
{
    release_pair(&layer->weight, &layer->bias);
}

struct bell_tensor *
bell_nn_conv2d(const struct bell_nn_conv2d *layer, struct bell_tensor *x)
{
    if (!layer)
        return no_layer(__func__, x);
    return bell_conv2d(x, layer->weight, layer->bias, &layer->options);
}

bell_status
bell_nn_conv2d_params(const struct bell_nn_conv2d *layer,
                      struct bell_params *params)
{
    return add_pair(params, layer->weight, layer->bias);
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

    BELL_TRY(begin_init(__func__, ctx, out_layer));
    BELL_TRY(check_norm_sizes(__func__, &channels, 1));
    layer.weight = own_param(bell_ones(ctx, &channels, 1, BELL_FLOAT32));
    layer.bias = own_param(bell_zeros(ctx, &channels, 1, BELL_FLOAT32));
    layer.running_mean = own_state(bell_zeros(ctx, &channels, 1, BELL_FLOAT32));
    layer.running_var = own_state(bell_ones(ctx, &channels, 1, BELL_FLOAT32));
    BELL_TRY(finish_init(ctx,
                         (struct bell_tensor *[]){layer.weight, layer.bias,
                                                  layer.running_mean,
                                                  layer.running_var},
                         4));
    *out_layer = layer;
    return BELL_OK;
}

void
bell_nn_batch_norm_fini(struct bell_nn_batch_norm *layer)
{
    release_pair(&layer->weight, &layer->bias);
    release_pair(&layer->running_mean, &layer->running_var);
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
    double n = (double)tn_reduced_count(ctx, u, mask);
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
    var = tn_mul_c(ctx, tensor_at((*out_var))->uop, n > 1 ? n / (n - 1) : 1);
    if (bell_is_error(
            blend_running(call, layer->running_var, var, layer->momentum)))
        return ctx->error_tensor;
    return t;
}

struct bell_tensor *
bell_nn_batch_norm(const struct bell_nn_batch_norm *layer,
                   struct bell_tensor *x)
{
    struct bell_tensor *mean, *var, *out;

    if (!layer)
        return no_layer(__func__, x);
    if (!tensor_check2(__func__, x, layer->weight, &out))
        return out;
    if (tensor_at(x)->shape->n < 2 ||
        tensor_at(x)->shape->d[1] != tensor_at(layer->weight)->shape->d[0] ||
        !uop_dtype_infos[tensor_at(x)->dtype].is_float)
        return tensor_fail(
            tensor_at(x)->ctx, __func__,
            uop_dtype_infos[tensor_at(x)->dtype].is_float ? BELL_BAD_SHAPE
                                                          : BELL_BAD_DTYPE,
            "x %s %s for %lld channels", DTYPE_OF(x), SHAPE_OF(x),
            (long long)tensor_at(layer->weight)->shape->d[0]);
    if (!tensor_at(x)->ctx->training)
        return bell_batch_norm(x, layer->running_mean, layer->running_var,
                               layer->weight, layer->bias, layer->eps);
    mean = batch_statistics(__func__, layer, x, &var);
    if (bell_is_error(mean))
        return mean;
    return bell_batch_norm(x, mean, var, layer->weight, layer->bias,
                           layer->eps);
}

bell_status
bell_nn_batch_norm_params(const struct bell_nn_batch_norm *layer,
                          struct bell_params *params)
{
    return add_pair(params, layer->weight, layer->bias);
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

    BELL_TRY(begin_init(__func__, ctx, out_layer));
    BELL_TRY(check_norm_sizes(__func__, shape, ndim));
    layer.weight = own_param(bell_ones(ctx, shape, ndim, BELL_FLOAT32));
    layer.bias = own_param(bell_zeros(ctx, shape, ndim, BELL_FLOAT32));
    BELL_TRY(finish_init(
        ctx, (struct bell_tensor *[]){layer.weight, layer.bias}, 2));
    *out_layer = layer;
    return BELL_OK;
}

void
bell_nn_layer_norm_fini(struct bell_nn_layer_norm *layer)
{
    release_pair(&layer->weight, &layer->bias);
}

struct bell_tensor *
bell_nn_layer_norm(const struct bell_nn_layer_norm *layer,
                   struct bell_tensor *x)
{
    if (!layer)
        return no_layer(__func__, x);
    return bell_layer_norm(x, bell_ndim(layer->weight), layer->weight,
                           layer->bias, layer->eps);
}

bell_status
bell_nn_layer_norm_params(const struct bell_nn_layer_norm *layer,
                          struct bell_params *params)
{
    return add_pair(params, layer->weight, layer->bias);
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

    BELL_TRY(begin_init(__func__, ctx, out_layer));
    BELL_TRY(check_norm_sizes(__func__, shape, 2));
    layer.weight = own_param(bell_randn(ctx, shape, 2, BELL_FLOAT32));
    BELL_TRY(finish_init(ctx, &layer.weight, 1));
    *out_layer = layer;
    return BELL_OK;
}

void
bell_nn_embedding_fini(struct bell_nn_embedding *layer)
{
    bell_tensor_release(layer->weight);
    layer->weight = NULL;
}

struct bell_tensor *
bell_nn_embedding(const struct bell_nn_embedding *layer, struct bell_tensor *x)
{
    if (!layer)
        return no_layer(__func__, x);
    return bell_embedding(x, layer->weight);
}

bell_status
bell_nn_embedding_params(const struct bell_nn_embedding *layer,
                         struct bell_params *params)
{
    return bell_params_add(params, layer->weight);
}
