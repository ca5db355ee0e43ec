/* Inputs, attributes and outputs of a node, for operators' functions. */
#include "tensor/onnx/op.h"

#include <math.h>
#include <string.h>

bool
op_has(const struct onnx_op *op, uint32_t i)
{
    return i < op->n_in && op->in[i] && op->in[i]->kind != ONNX_ABSENT;
}

struct bell_tensor *
op_in_or_null(struct onnx_op *op, uint32_t i)
{
    return op_has(op, i) ? onnx_tensor_in(op->run, op->ctx, op->in[i]) : NULL;
}

struct bell_tensor *
op_in(struct onnx_op *op, uint32_t i)
{
    struct bell_tensor *t = op_in_or_null(op, i);

    if (!t) {
        (void)!bell_fail(BELL_BAD_MISSING, "input %u is absent", i);
        t = bell_error_tensor(op->ctx);
    }
    return t;
}

uint32_t
op_type(struct onnx_op *op, uint32_t i)
{
    const struct onnx_value *v;

    if (!op_has(op, i))
        return ONNX_UNDEFINED;
    v = op->in[i];
    if (v->type)
        return v->type;
    if (v->from)
        return v->from->type;
    if (v->host)
        return onnx_type_of(v->host->dtype);
    return onnx_type_of(bell_dtype_of(v->t ? v->t : v->h));
}

void
op_out(struct onnx_op *op, uint32_t i, struct bell_tensor *t)
{
    if (i >= op->n_out)
        return;
    op->out[i].kind = ONNX_VALUE;
    if (op->ctx == op->run->host)
        op->out[i].h = t;
    else
        op->out[i].t = t;
}

/* ---- attributes ---- */

static const struct onnx_attr *
find_in(const struct onnx_attr *attrs, uint32_t n, const char *name)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (strcmp(attrs[i].name, name) == 0)
            return &attrs[i];
    }
    return NULL;
}

const struct onnx_attr *
op_attr(const struct onnx_op *op, const char *name)
{
    const struct onnx_attr *attr =
        find_in(op->node->attrs, op->node->n_attrs, name);
    const struct onnx_frame *frame = op->frame;

    /* The function's caller has it, or that one's caller. */
    while (attr && *attr->ref) {
        const struct onnx_function *fn = frame ? frame->function : NULL;
        const struct onnx_attr *given;

        if (!fn)
            return NULL;
        given = find_in(frame->call->attrs, frame->call->n_attrs, attr->ref);
        if (!given)
            return find_in(fn->attr_defaults, fn->n_attr_defaults, attr->ref);
        attr = given;
        frame = frame->caller;
    }
    return attr;
}

int64_t
op_int(const struct onnx_op *op, const char *name, int64_t fallback)
{
    const struct onnx_attr *attr = op_attr(op, name);

    return attr ? attr->i : fallback;
}

double
op_float(const struct onnx_op *op, const char *name, double fallback)
{
    const struct onnx_attr *attr = op_attr(op, name);

    return attr ? (double)attr->f : fallback;
}

const char *
op_str(const struct onnx_op *op, const char *name, const char *fallback)
{
    const struct onnx_attr *attr = op_attr(op, name);

    return attr ? attr->s : fallback;
}

struct onnx_ints
op_ints(const struct onnx_op *op, const char *name)
{
    const struct onnx_attr *attr = op_attr(op, name);

    if (!attr || !attr->ints)
        return (struct onnx_ints){0};
    return (struct onnx_ints){attr->ints, attr->n, true};
}

/* ---- inputs as numbers ---- */

void *
op_take(struct onnx_op *op, uint64_t n, size_t elem_bytes)
{
    return arena_calloc(&op->run->arena, n + 1, elem_bytes);
}

static int64_t
read_int(const struct onnx_host *host, uint64_t i)
{
    size_t size = bell_dtype_size(host->dtype);
    uint64_t bits = 0;

    memcpy(&bits, host->bytes + i * size, size);
    if (host->dtype == BELL_INT8 || host->dtype == BELL_INT16 ||
        host->dtype == BELL_INT32)
        return (int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size);
    return (int64_t)bits;
}

static bell_status
depends(uint32_t i)
{
    return op_unsupported("input %u must be a number, and it is a size of a "
                          "symbol",
                          i);
}

bell_status
op_in_ints(struct onnx_op *op, uint32_t i, struct onnx_ints *out)
{
    const struct onnx_host *host;
    int64_t *v;
    uint64_t k;

    *out = (struct onnx_ints){0};
    if (!op_has(op, i))
        return BELL_OK;
    if (op->in[i]->has_sizes && !onnx_takes_sizes(op->node->row))
        return depends(i);
    BELL_TRY(onnx_host_of(op->run, op->in[i], &host));
    if (host->dtype > BELL_UINT64)
        return bell_fail(BELL_BAD_DTYPE, "input %u must be of integers, not %s",
                         i, bell_dtype_name(host->dtype));
    v = op_take(op, host->n, sizeof(*v));
    if (!v)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for input %u", i);
    for (k = 0; k < host->n; k++)
        v[k] = read_int(host, k);
    *out = (struct onnx_ints){v, (uint32_t)host->n, true};
    return BELL_OK;
}

bell_status
op_in_int(struct onnx_op *op, uint32_t i, int64_t *out)
{
    struct onnx_ints ints;

    if (op_has(op, i) && op->in[i]->has_sizes)
        return depends(i);
    BELL_TRY(op_in_ints(op, i, &ints));
    if (ints.n != 1)
        return bell_fail(BELL_BAD_SHAPE, "input %u has %u elements; expected 1",
                         i, ints.n);
    *out = ints.v[0];
    return BELL_OK;
}

bell_status
op_axes(struct onnx_op *op, const char *name, uint32_t i, int64_t from_opset,
        struct onnx_ints *out)
{
    if (op->opset >= from_opset)
        return op_in_ints(op, i, out);
    *out = op_ints(op, name);
    return BELL_OK;
}

static double
read_half(uint16_t bits)
{
    unsigned exp = bits >> 10 & 31, frac = bits & 1023;
    double v = exp == 31 ? (frac ? (double)NAN : (double)INFINITY)
               : exp     ? ldexp(1024 + frac, (int)exp - 25)
                         : ldexp(frac, -24);

    return bits >> 15 ? -v : v;
}

static double
read_float(const struct onnx_host *host, uint64_t i)
{
    const uint8_t *at = host->bytes + i * bell_dtype_size(host->dtype);
    uint32_t word = 0;
    uint16_t half;
    double d;
    float f;

    if (host->dtype == BELL_FLOAT64) {
        memcpy(&d, at, sizeof(d));
        return d;
    }
    if (host->dtype == BELL_FLOAT32) {
        memcpy(&f, at, sizeof(f));
        return (double)f;
    }
    if (host->dtype == BELL_FLOAT16) {
        memcpy(&half, at, sizeof(half));
        return read_half(half);
    }
    if (host->dtype == BELL_BFLOAT16) {
        memcpy((uint8_t *)&word + 2, at, 2);
        memcpy(&f, &word, sizeof(f));
        return (double)f;
    }
    return (double)read_int(host, i);
}

bell_status
op_in_floats(struct onnx_op *op, uint32_t i, const double **out,
             uint32_t *out_n)
{
    const struct onnx_host *host;
    double *v;
    uint64_t k;

    *out = NULL;
    *out_n = 0;
    if (!op_has(op, i))
        return BELL_OK;
    if (op->in[i]->has_sizes)
        return depends(i);
    BELL_TRY(onnx_host_of(op->run, op->in[i], &host));
    v = op_take(op, host->n, sizeof(*v));
    if (!v)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for input %u", i);
    for (k = 0; k < host->n; k++)
        v[k] = read_float(host, k);
    *out = v;
    *out_n = (uint32_t)host->n;
    return BELL_OK;
}

bell_status
op_check_shape(const int64_t *shape, uint32_t ndim)
{
    uint64_t n = 1;
    uint32_t i;

    for (i = 0; i < ndim; i++) {
        if (shape[i] < 0 || __builtin_mul_overflow(n, (uint64_t)shape[i], &n) ||
            n > ONNX_MAX_ELEMS)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "a value has a negative size, or more than 2^31 "
                             "elements");
    }
    return BELL_OK;
}

struct bell_tensor *
op_to(struct bell_tensor *x, enum bell_dtype dtype)
{
    return bell_is_error(x) || bell_dtype_of(x) == dtype ? x
                                                         : bell_cast(x, dtype);
}
