/* Sizes of symbols in a model: Shape of a tensor whose sizes are symbols
 * (doorbell/dim.h) is a list of the host whose words are sizes. Nodes that move
 * such words run on the host as of any other list. Nodes that compute with them
 * are computed here by the calls on sizes. All others get them as a tensor of
 * the device, whose elements have the values that the symbols have by then. */
#include "tensor/onnx/ops.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "tensor/core/dims.h"
#include "tensor/core/tensor_internal.h"

bool
op_is_size(int64_t word)
{
    return dim_is_expr(word);
}

bool
op_has_sizes(const int64_t *words, uint32_t n)
{
    return dims_in(words, n);
}

const int64_t *
op_dims(const struct bell_tensor *x)
{
    return bell_dim_words(bell_dims(x));
}

int64_t
op_dim(const struct bell_tensor *x, int axis)
{
    return bell_dim_at(x, axis).word;
}

bool
op_varies(const struct bell_tensor *x)
{
    return op_has_sizes(op_dims(x), bell_ndim(x));
}

int64_t
op_dim_mul(struct onnx_op *op, int64_t a, int64_t b)
{
    return dim_mul(op->ctx->dims, a, b);
}

int64_t
op_dim_sub(struct onnx_op *op, int64_t a, int64_t b)
{
    return dim_sub(op->ctx->dims, a, b);
}

bool
op_dim_at_most(struct onnx_op *op, int64_t a, int64_t b)
{
    return dim_at_most(op->ctx->dims, a, b) == DIM_ALWAYS;
}

const char *
op_dim_text(struct onnx_op *op, int64_t dim, char *text, size_t size_bytes)
{
    if (dims_known(op->ctx->dims, dim))
        dim_print(op->ctx->dims, dim, text, size_bytes);
    else
        snprintf(text, size_bytes, "%lld", (long long)dim);
    return text;
}

bell_status
op_check_sizes(struct bell_context *ctx, const int64_t *shape, uint32_t ndim)
{
    int64_t most;
    uint32_t i;

    if (!dims_in(shape, ndim))
        return op_check_shape(shape, ndim);
    for (i = 0; i < ndim; i++) {
        if (!dims_known(ctx->dims, shape[i]) ||
            (!dim_is_expr(shape[i]) && shape[i] < 0))
            return bell_fail(BELL_E_UNSUPPORTED, "a size is negative");
    }
    most = dims_most(ctx->dims, shape, ndim);
    if (most < 0 || (uint64_t)most > ONNX_MAX_ELEMS)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "a value may have more than 2^31 elements, by the "
                         "bounds of its symbols");
    return BELL_OK;
}

/* ---- operators that take tensors of such sizes ---- */

static onnx_fn *const takers[] = {
    onnx_op_arg,
    onnx_op_arithmetic,
    onnx_op_attention,
    onnx_op_average_pool,
    onnx_op_batch_norm,
    onnx_op_bias_gelu,
    onnx_op_bit_shift,
    onnx_op_bitcast,
    onnx_op_cast,
    onnx_op_cast_like,
    onnx_op_clip,
    onnx_op_concat,
    onnx_op_constant_of_shape,
    onnx_op_conv,
    onnx_op_conv_integer,
    onnx_op_cumulate,
    onnx_op_dequantize,
    onnx_op_dropout,
    onnx_op_dynamic_quantize,
    onnx_op_einsum,
    onnx_op_expand,
    onnx_op_flatten,
    onnx_op_flex_attention,
    onnx_op_fused_conv,
    onnx_op_fused_matmul,
    onnx_op_gather,
    onnx_op_gather_elements,
    onnx_op_gemm,
    onnx_op_global_pool,
    onnx_op_group_norm,
    onnx_op_hard_sigmoid,
    onnx_op_identity,
    onnx_op_instance_norm,
    onnx_op_isinf,
    onnx_op_layer_norm,
    onnx_op_lp_normalization,
    onnx_op_lrn,
    onnx_op_matmul_integer,
    onnx_op_max_pool,
    onnx_op_mean_variance_norm,
    onnx_op_mod,
    onnx_op_one_hot,
    onnx_op_optional_get,
    onnx_op_pad,
    onnx_op_pow,
    onnx_op_prelu,
    onnx_op_qlinear_conv,
    onnx_op_qlinear_matmul,
    onnx_op_quantize,
    onnx_op_quick_gelu,
    onnx_op_range,
    onnx_op_recurrent,
    onnx_op_reduce,
    onnx_op_reshape,
    onnx_op_resize,
    onnx_op_rms_norm,
    onnx_op_rotary,
    onnx_op_selu,
    onnx_op_shape,
    onnx_op_shrink,
    onnx_op_size,
    onnx_op_skip_layer_norm,
    onnx_op_slice,
    onnx_op_softmax,
    onnx_op_split,
    onnx_op_squeeze,
    onnx_op_swiglu,
    onnx_op_swish,
    onnx_op_thresholded_relu,
    onnx_op_tile,
    onnx_op_transpose,
    onnx_op_trilu,
    onnx_op_unsqueeze,
    onnx_op_variadic,
};

bool
onnx_takes_sizes(const struct onnx_row *row)
{
    size_t i;

    if (!row->fn)
        return true; /* the library's function says itself */
    for (i = 0; i < ARRAY_LEN(takers); i++) {
        if (takers[i] == row->fn)
            return true;
    }
    return false;
}

bell_status
onnx_check_takes(struct onnx_op *op)
{
    char text[128] = "(";
    size_t n = 1;
    uint32_t i, k;

    if (onnx_takes_sizes(op->node->row))
        return BELL_OK;
    for (i = 0; i < op->n_in; i++) {
        const struct onnx_value *v = op->in[i];

        if (!v || v->kind != ONNX_VALUE || !v->t || !op_varies(v->t))
            continue;
        for (k = 0; k < bell_ndim(v->t) && n + 24 < sizeof(text); k++) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s",
                                  k ? ", " : "");
            op_dim_text(op, op_dim(v->t, (int)k), text + n, 20);
            n += strlen(text + n);
        }
        return op_unsupported("input %u has the sizes %s), and this operator "
                              "takes numbers alone, not symbols",
                              i, text);
    }
    return BELL_OK;
}

/* ---- values whose elements are sizes ---- */

struct bell_tensor *
onnx_sizes_tensor(struct onnx_run *run, const struct onnx_host *host)
{
    struct bell_tensor **list =
        arena_calloc(&run->arena, host->n + 1u, sizeof(*list));
    const int64_t *words = (const int64_t *)(const void *)host->bytes;
    uint64_t i;

    if (!list) {
        (void)!onnx_no_memory();
        return bell_error_tensor(run->ctx);
    }
    for (i = 0; i < host->n; i++)
        list[i] =
            dim_is_expr(words[i])
                ? bell_dim_value(run->ctx, (struct bell_dim){words[i]},
                                 BELL_INT64)
                : bell_full_int(run->ctx, BELL_NO_DIMS, words[i], BELL_INT64);
    return bell_reshape(bell_stack(list, (uint32_t)host->n, 0), host->shape,
                        host->ndim);
}

/* How a node is folded whose inputs are lists of the host. */
enum how {
    ON_DEVICE, /* not at all */
    MOVES,     /* as of any other list */
    COMPUTES,  /* here */
};

static enum how
find_how(const struct onnx_op *op)
{
    static const struct {
        const char *name;
        enum how how;
        uint32_t inputs; /* a bit for each that sizes may be in */
    } rows[] = {
        {"Add", COMPUTES, 3},        {"Sub", COMPUTES, 3},
        {"Mul", COMPUTES, 3},        {"Div", COMPUTES, 3},
        {"Mod", COMPUTES, 3},        {"Min", COMPUTES, 3},
        {"Max", COMPUTES, 3},        {"Equal", COMPUTES, 3},
        {"Greater", COMPUTES, 3},    {"GreaterOrEqual", COMPUTES, 3},
        {"Less", COMPUTES, 3},       {"LessOrEqual", COMPUTES, 3},
        {"ReduceProd", COMPUTES, 1}, {"Concat", MOVES, ~0u},
        {"Expand", MOVES, 1},        {"Flatten", MOVES, 1},
        {"Gather", MOVES, 1},        {"GatherElements", MOVES, 1},
        {"Reshape", MOVES, 1},       {"ScatterElements", MOVES, 5},
        {"ScatterND", MOVES, 5},     {"Slice", MOVES, 1},
        {"Split", MOVES, 1},         {"Squeeze", MOVES, 1},
        {"Tile", MOVES, 1},          {"Transpose", MOVES, 1},
        {"Unsqueeze", MOVES, 1},     {"Where", MOVES, 6},
    };
    size_t i;
    uint32_t k;

    if (*op->node->domain)
        return ON_DEVICE;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].name, op->node->op) != 0)
            continue;
        for (k = 0; k < op->n_in; k++) {
            if (op->in[k] && op->in[k]->has_sizes &&
                !(rows[i].inputs & 1u << (k < 31 ? k : 31)))
                return ON_DEVICE;
        }
        return rows[i].how;
    }
    return strcmp(op->node->op, "Cast") == 0 &&
                   op_int(op, "to", 0) == ONNX_INT64
               ? MOVES
               : ON_DEVICE;
}

/* One element of a result; DIM_BAD: it is not a size, or not known. */
static int64_t
compute_word(struct dim_table *t, const char *name, int64_t a, int64_t b)
{
    enum dim_answer answer = DIM_UNKNOWN;
    int64_t min, max;

    if (!dims_known(t, a) || !dims_known(t, b))
        return DIM_BAD;
    if (strcmp(name, "Add") == 0)
        return dim_add(t, a, b);
    if (strcmp(name, "Sub") == 0)
        return dim_sub(t, a, b);
    if (strcmp(name, "Mul") == 0)
        return dim_mul(t, a, b);
    if (strcmp(name, "Min") == 0)
        return dim_min(t, a, b);
    if (strcmp(name, "Max") == 0)
        return dim_max(t, a, b);
    if (strcmp(name, "Div") == 0 || strcmp(name, "Mod") == 0) {
        /* rounded to 0, which is down for what is not negative */
        dim_bounds(t, a, &min, &max);
        if (min < 0)
            return DIM_BAD;
        return *name == 'D' ? dim_floordiv(t, a, b) : dim_floormod(t, a, b);
    }
    if (strcmp(name, "Equal") == 0)
        answer = dim_equal(t, a, b);
    else if (strcmp(name, "LessOrEqual") == 0)
        answer = dim_at_most(t, a, b);
    else if (strcmp(name, "GreaterOrEqual") == 0)
        answer = dim_at_most(t, b, a);
    else if (strcmp(name, "Less") == 0)
        answer = dim_at_most(t, dim_add(t, a, 1), b);
    else if (strcmp(name, "Greater") == 0)
        answer = dim_at_most(t, dim_add(t, b, 1), a);
    return answer == DIM_UNKNOWN ? DIM_BAD : answer == DIM_ALWAYS;
}

/* Element i; constants of the file may lie at any byte. */
static int64_t
word_at(const struct onnx_host *host, uint64_t i)
{
    int64_t word;

    memcpy(&word, host->bytes + i * sizeof(word), sizeof(word));
    return word;
}

/* Both of the elements that broadcast: one of them is a number, or they are as
 * many. */
static bool
pairs_up(const struct onnx_host *a, const struct onnx_host *b)
{
    return a->ndim <= 1 && b->ndim <= 1 &&
           (a->n == b->n || a->n == 1 || b->n == 1);
}

static BELL_MUST_CHECK bell_status
put_result(struct onnx_op *op, const int64_t *words, uint64_t n, uint32_t ndim,
           bool is_bool)
{
    struct onnx_host *host = op_take(op, 1, sizeof(*host));
    uint8_t *flags = is_bool ? op_take(op, n, 1) : NULL;
    uint64_t i;

    if (!host || (is_bool && !flags))
        return onnx_no_memory();
    for (i = 0; is_bool && i < n; i++)
        flags[i] = words[i] != 0;
    host->dtype = is_bool ? BELL_BOOL : BELL_INT64;
    host->ndim = ndim;
    host->shape[0] = (int64_t)n;
    host->n = n;
    host->bytes = is_bool ? flags : (const uint8_t *)words;
    memset(op->out, 0, op->n_out * sizeof(*op->out));
    op->out[0] = (struct onnx_value){.kind = ONNX_VALUE,
                                     .host = host,
                                     .is_constant = true,
                                     .has_sizes = !is_bool &&
                                                  dims_in(words, (uint32_t)n)};
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
compute_product(struct onnx_op *op, bool *out_done)
{
    const struct onnx_host *a = op->in[0]->host;
    bool keep = op_int(op, "keepdims", 1);
    int64_t *word = op_take(op, 1, sizeof(*word));

    if (!word)
        return onnx_no_memory();
    if (a->ndim != 1)
        return BELL_OK;
    *word =
        dim_product(op->run->ctx->dims, (const int64_t *)(const void *)a->bytes,
                    (uint32_t)a->n);
    if (*word == DIM_BAD)
        return BELL_OK;
    *out_done = true;
    return put_result(op, word, 1, keep ? 1 : 0, false);
}

/* Elementwise, of two lists. */
static BELL_MUST_CHECK bell_status
compute_words(struct onnx_op *op, bool *out_done)
{
    const struct onnx_host *a, *b;
    const char *name = op->node->op;
    bool is_bool = *name == 'E' || *name == 'G' || *name == 'L';
    int64_t *words;
    uint64_t i, n;

    if (op->n_in != 2 || op->n_out != 1)
        return BELL_OK;
    for (i = 0; i < 2; i++)
        BELL_TRY(onnx_host_of(op->run, op->in[i], &a));
    a = op->in[0]->host;
    b = op->in[1]->host;
    if (!pairs_up(a, b) || a->dtype != BELL_INT64 || b->dtype != BELL_INT64)
        return BELL_OK;
    n = a->n == 1 ? b->n : a->n;
    words = op_take(op, n, sizeof(*words));
    if (!words)
        return onnx_no_memory();
    for (i = 0; i < n; i++) {
        words[i] = compute_word(op->run->ctx->dims, name,
                                word_at(a, a->n == 1 ? 0 : i),
                                word_at(b, b->n == 1 ? 0 : i));
        if (words[i] == DIM_BAD)
            return BELL_OK;
    }
    *out_done = true;
    return put_result(op, words, n, a->ndim > b->ndim ? a->ndim : b->ndim,
                      is_bool);
}

bell_status
onnx_fold_sizes(struct onnx_op *op, bool *out_folds, bool *out_done)
{
    bool any = false;
    enum how how;
    uint32_t i;

    *out_done = false;
    for (i = 0; i < op->n_in; i++)
        any |= op->in[i] && op->in[i]->has_sizes;
    if (!any)
        return BELL_OK;
    how = find_how(op);
    *out_folds = how == MOVES;
    if (how != COMPUTES)
        return BELL_OK;
    return op->node->op[0] == 'R' ? compute_product(op, out_done)
                                  : compute_words(op, out_done);
}
