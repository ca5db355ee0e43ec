/* Operators that make, move and select elements. src: onnx 1.23,
 * Operators. */
#include "tensor/onnx/ops.h"

#include <math.h>
#include <string.h>

/* ---- values of the file, and of the host ---- */

bell_status
onnx_op_constant(struct onnx_op *op)
{
    const struct onnx_node *node = op->node;
    const struct onnx_attr *attr = node->n_attrs ? &node->attrs[0] : NULL;
    struct onnx_tensor *t;

    if (node->n_attrs != 1 || op->n_out != 1)
        return op_unsupported("expected one attribute and one output");
    attr = op_attr(op, attr->name);
    if (!attr)
        return op_unsupported("its attribute is not given");
    t = op_take(op, 1, sizeof(*t));
    if (!t)
        return onnx_no_memory();
    t->name = "constant";
    t->n_elems = 1;
    if (strcmp(attr->name, "value") == 0 && attr->t) {
        *t = *attr->t;
    } else if (strcmp(attr->name, "value_float") == 0) {
        t->type = ONNX_FLOAT;
        t->data = (const uint8_t *)&attr->f;
    } else if (strcmp(attr->name, "value_int") == 0) {
        t->type = ONNX_INT64;
        t->data = (const uint8_t *)&attr->i;
    } else if (strcmp(attr->name, "value_floats") == 0) {
        t->type = ONNX_FLOAT;
        t->data = (const uint8_t *)attr->floats;
    } else if (strcmp(attr->name, "value_ints") == 0) {
        t->type = ONNX_INT64;
        t->data = (const uint8_t *)attr->ints;
    } else {
        return op_unsupported("attribute '%.40s' is not supported", attr->name);
    }
    if (attr->floats || attr->ints) {
        t->ndim = 1;
        t->dims[0] = (int64_t)attr->n;
        t->n_elems = attr->n;
    }
    t->size_bytes = t->n_elems * bell_dtype_size(onnx_dtype(t->type));
    onnx_value_of(t, &op->out[0]);
    op->out[0].is_constant =
        t->n_elems <= ONNX_HOST_ELEMS && onnx_dtype(t->type) != BELL_DEFAULT;
    return BELL_OK;
}

/* An int64 value of the host as output 0. */
static bell_status
put_ints(struct onnx_op *op, const int64_t *v, uint32_t n, bool is_scalar)
{
    struct onnx_host *host = op_take(op, 1, sizeof(*host));
    int64_t *copy = op_take(op, n, sizeof(*copy));

    if (!host || !copy)
        return onnx_no_memory();
    if (n)
        memcpy(copy, v, n * sizeof(*v));
    host->dtype = BELL_INT64;
    host->ndim = is_scalar ? 0 : 1;
    host->shape[0] = n;
    host->n = n;
    host->bytes = (const uint8_t *)copy;
    op->out[0] = (struct onnx_value){.kind = ONNX_VALUE,
                                     .host = host,
                                     .is_constant = true,
                                     .has_sizes = op_has_sizes(v, n)};
    return BELL_OK;
}

bell_status
op_shape(struct onnx_op *op, uint32_t i, const int64_t **out_shape,
         uint32_t *out_ndim)
{
    struct onnx_value *v = op->in[i];
    struct bell_tensor *t;
    int64_t *copy;

    if (!op_has(op, i) || v->kind != ONNX_VALUE)
        return op_unsupported("input %u is not a tensor", i);
    if (v->host) {
        *out_shape = v->host->shape;
        *out_ndim = v->host->ndim;
        return BELL_OK;
    }
    if (v->from) {
        *out_shape = v->from->dims;
        *out_ndim = v->from->ndim;
        return BELL_OK;
    }
    t = v->t ? v->t : v->h;
    *out_ndim = bell_ndim(t);
    copy = op_take(op, *out_ndim, sizeof(*copy));
    if (!copy)
        return onnx_no_memory();
    if (*out_ndim)
        memcpy(copy, op_dims(t), *out_ndim * sizeof(*copy));
    *out_shape = copy;
    return BELL_OK;
}

bell_status
onnx_op_shape(struct onnx_op *op)
{
    const int64_t *shape;
    uint32_t ndim;
    int64_t begin, end;

    BELL_TRY(op_shape(op, 0, &shape, &ndim));
    begin = op_axis(op_int(op, "start", 0), ndim);
    end = op_axis(op_int(op, "end", ndim), ndim);
    begin = begin < 0 ? 0 : begin > ndim ? ndim : begin;
    end = end < begin ? begin : end > ndim ? ndim : end;
    return put_ints(op, shape + begin, (uint32_t)(end - begin), false);
}

bell_status
onnx_op_size(struct onnx_op *op)
{
    const int64_t *shape;
    uint32_t ndim, i;
    int64_t n = 1;

    BELL_TRY(op_shape(op, 0, &shape, &ndim));
    for (i = 0; i < ndim; i++)
        n = op_dim_mul(op, n, shape[i]);
    return put_ints(op, &n, 1, true);
}

bell_status
onnx_op_identity(struct onnx_op *op)
{
    if (op_has(op, 0))
        op->out[0] = *op->in[0];
    return BELL_OK;
}

/* ---- conversion ---- */

/* Floats beyond the range of an 8-bit float become its greatest number, unless
 * they may overflow. */
static struct bell_tensor *
saturate(struct bell_tensor *x, enum bell_dtype dtype)
{
    static const double greatest[BELL_DTYPE_COUNT] = {
        [BELL_FLOAT8_E4M3FN] = 448,
        [BELL_FLOAT8_E5M2] = 57344,
        [BELL_FLOAT8_E4M3FNUZ] = 240,
        [BELL_FLOAT8_E5M2FNUZ] = 57344,
    };

    return bell_clip(x, -greatest[dtype], greatest[dtype]);
}

static bool
is_float8(enum bell_dtype dtype)
{
    return dtype >= BELL_FLOAT8_E4M3FN && dtype < BELL_DTYPE_COUNT;
}

/* To an integer type of 4 or 2 bits, in a byte: wraps as integers do. */
static bell_status
cast_small(struct onnx_op *op, struct bell_tensor *x, uint32_t type)
{
    bool is_signed = type == ONNX_INT4 || type == ONNX_INT2;
    int64_t bits = type == ONNX_INT4 || type == ONNX_UINT4 ? 4 : 2;
    struct bell_tensor *count =
        bell_full_int(op->ctx, BELL_NO_DIMS, 8 - bits, BELL_INT8);
    struct bell_tensor *y;

    if (bell_dtype_of(x) >= BELL_FLOAT16)
        x = bell_trunc(bell_cast(x, BELL_FLOAT32));
    if (is_signed) {
        y = bell_cast(bell_cast(x, BELL_INT64), BELL_INT8);
        y = bell_rshift(bell_lshift(y, count), count);
    } else {
        y = bell_cast(bell_cast(x, BELL_INT64), BELL_UINT8);
        y = bell_bitwise_and(y, bell_full_int(op->ctx, BELL_NO_DIMS,
                                              ((int64_t)1 << bits) - 1,
                                              BELL_UINT8));
    }
    op_out(op, 0, y);
    op->out[0].type = type;
    return BELL_OK;
}

bell_status
op_cast_float8(struct onnx_op *op, struct bell_tensor *x, enum bell_dtype dtype)
{
    if (bell_dtype_of(x) != dtype) {
        /* rounded twice is rounded once: float32 has far more digits */
        x = op_to(x, BELL_FLOAT32);
        if (op_int(op, "saturate", 1))
            x = saturate(x, dtype);
    }
    op_out(op, 0, op_to(x, dtype));
    return BELL_OK;
}

static bell_status
cast_to(struct onnx_op *op, uint32_t type)
{
    enum bell_dtype dtype = onnx_dtype(type);
    struct bell_tensor *x = op_in(op, 0);

    if (type == ONNX_INT4 || type == ONNX_UINT4 || type == ONNX_INT2 ||
        type == ONNX_UINT2)
        return cast_small(op, x, type);
    if (dtype == BELL_DEFAULT)
        return op_unsupported("elements of %s are not supported",
                              onnx_type_name(type));
    if (is_float8(dtype))
        return op_cast_float8(op, x, dtype);
    op_out(op, 0, op_to(x, dtype));
    return BELL_OK;
}

bell_status
onnx_op_cast(struct onnx_op *op)
{
    return cast_to(op, (uint32_t)op_int(op, "to", 0));
}

bell_status
onnx_op_cast_like(struct onnx_op *op)
{
    return cast_to(op, op_type(op, 1));
}

bell_status
onnx_op_bitcast(struct onnx_op *op)
{
    enum bell_dtype dtype = onnx_dtype((uint32_t)op_int(op, "to", 0));

    if (dtype == BELL_DEFAULT)
        return op_unsupported("elements of that type are not supported");
    op_out(op, 0, bell_bitcast(op_in(op, 0), dtype));
    return BELL_OK;
}

/* ---- shapes ---- */

bell_status
onnx_op_reshape(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    struct onnx_ints want;
    bool allow_zero = op_int(op, "allowzero", 0);
    int64_t shape[BELL_MAX_RANK];
    uint32_t i;

    BELL_TRY(op_axes(op, "shape", 1, 5, &want));
    if (want.n > BELL_MAX_RANK)
        return op_unsupported("a shape of %u axes; expected at most %u", want.n,
                              BELL_MAX_RANK);
    for (i = 0; i < want.n; i++) {
        shape[i] = want.v[i];
        if (shape[i] == 0 && !allow_zero)
            shape[i] = op_dim(x, (int)i);
    }
    op_out(op, 0, bell_reshape(x, shape, want.n));
    op->out[0].type = op->in[0]->type;
    return BELL_OK;
}

bell_status
onnx_op_flatten(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    uint32_t ndim = bell_ndim(x), i;
    int64_t axis = op_axis(op_int(op, "axis", 1), ndim);
    int64_t shape[2] = {1, 1};

    if (axis < 0 || axis > ndim)
        return bell_fail(BELL_BAD_AXIS, "axis %lld is not one of %u",
                         (long long)axis, ndim);
    for (i = 0; i < ndim; i++)
        shape[i >= axis] = op_dim_mul(op, shape[i >= axis], op_dim(x, (int)i));
    op_out(op, 0, bell_reshape(x, shape, 2));
    return BELL_OK;
}

bell_status
onnx_op_squeeze(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    struct onnx_ints axes;

    BELL_TRY(op_axes(op, "axes", 1, 13, &axes));
    op_out(op, 0,
           axes.given && axes.n == 0 ? bell_alias(x)
                                     : bell_squeeze(x, axes.v, axes.n));
    op->out[0].type = op->in[0]->type;
    return BELL_OK;
}

bell_status
onnx_op_unsqueeze(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    bool is_new[BELL_MAX_RANK] = {0};
    int64_t shape[BELL_MAX_RANK];
    struct onnx_ints axes;
    uint32_t i, k = 0, ndim;

    BELL_TRY(op_axes(op, "axes", 1, 13, &axes));
    ndim = bell_ndim(x) + axes.n;
    if (axes.n > BELL_MAX_RANK || ndim > BELL_MAX_RANK)
        return op_unsupported("a value of more than %u axes", BELL_MAX_RANK);
    for (i = 0; i < axes.n; i++) {
        int64_t axis = op_axis(axes.v[i], ndim);

        if (axis < 0 || axis >= ndim || is_new[axis])
            return bell_fail(BELL_BAD_AXIS,
                             "axis %lld is not one of %u, or is there twice",
                             (long long)axes.v[i], ndim);
        is_new[axis] = true;
    }
    for (i = 0; i < ndim; i++)
        shape[i] = is_new[i] ? 1 : op_dims(x)[k++];
    op_out(op, 0, bell_reshape(x, shape, ndim));
    op->out[0].type = op->in[0]->type;
    return BELL_OK;
}

bell_status
onnx_op_transpose(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    struct onnx_ints perm = op_ints(op, "perm");
    int64_t order[BELL_MAX_RANK];
    uint32_t i, ndim = bell_ndim(x);

    for (i = 0; i < ndim; i++)
        order[i] = ndim - 1 - i;
    op_out(op, 0,
           perm.given ? bell_permute(x, perm.v, perm.n)
                      : bell_permute(x, order, ndim));
    op->out[0].type = op->in[0]->type;
    return BELL_OK;
}

bell_status
onnx_op_expand(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    int64_t shape[BELL_MAX_RANK];
    struct onnx_ints want;
    uint32_t ndim = bell_ndim(x), i, n;
    char text[2][64];

    BELL_TRY(op_in_ints(op, 1, &want));
    n = want.n > ndim ? want.n : ndim;
    if (n > BELL_MAX_RANK)
        return op_unsupported("a value of more than %u axes", BELL_MAX_RANK);
    for (i = 0; i < n; i++) {
        int64_t a = i + ndim < n ? 1 : op_dims(x)[i + ndim - n];
        int64_t b = i + want.n < n ? 1 : want.v[i + want.n - n];

        if (a != b && a != 1 && b != 1)
            return bell_fail(BELL_BAD_SHAPE, "size %s is not expanded to %s",
                             op_dim_text(op, a, text[0], sizeof(text[0])),
                             op_dim_text(op, b, text[1], sizeof(text[1])));
        shape[i] = a == 1 ? b : a;
    }
    BELL_TRY(op_check_sizes(op->ctx, shape, n));
    op_out(op, 0, bell_expand(x, shape, n));
    return BELL_OK;
}

bell_status
onnx_op_tile(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    int64_t shape[BELL_MAX_RANK];
    struct onnx_ints repeats;
    uint32_t i;

    BELL_TRY(op_in_ints(op, 1, &repeats));
    if (repeats.n != bell_ndim(x))
        return bell_fail(BELL_BAD_SHAPE, "%u repeats; expected %u", repeats.n,
                         bell_ndim(x));
    for (i = 0; i < repeats.n; i++) {
        bool is_number =
            !op_is_size(repeats.v[i]) && !op_is_size(op_dim(x, (int)i));

        shape[i] =
            is_number ? 0 : op_dim_mul(op, repeats.v[i], op_dim(x, (int)i));
        if (repeats.v[i] < 0 ||
            (is_number && __builtin_mul_overflow(repeats.v[i],
                                                 op_dim(x, (int)i), &shape[i])))
            return bell_fail(BELL_BAD_VALUE, "repeats of %lld is not possible",
                             (long long)repeats.v[i]);
    }
    BELL_TRY(op_check_sizes(op->ctx, shape, repeats.n));
    op_out(op, 0, bell_repeat(x, repeats.v, repeats.n));
    return BELL_OK;
}

bell_status
onnx_op_concat(struct onnx_op *op)
{
    struct bell_tensor **list = op_take(op, op->n_in, sizeof(*list));
    uint32_t i;

    if (!list)
        return onnx_no_memory();
    for (i = 0; i < op->n_in; i++)
        list[i] = op_in(op, i);
    op_out(op, 0, bell_cat(list, op->n_in, (int)op_int(op, "axis", 1)));
    return BELL_OK;
}

bell_status
onnx_op_split(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    int64_t axis = op_axis(op_int(op, "axis", 0), bell_ndim(x));
    struct bell_tensor **parts = op_take(op, op->n_out, sizeof(*parts));
    int64_t *sizes = op_take(op, op->n_out, sizeof(*sizes));
    struct onnx_ints want;
    int64_t size, part;
    uint32_t i;

    BELL_TRY(op_axes(op, "split", 1, 13, &want));
    if (!parts || !sizes)
        return onnx_no_memory();
    if (axis < 0 || axis >= bell_ndim(x) || op->n_out == 0)
        return bell_fail(BELL_BAD_AXIS, "axis %lld is not one of %u",
                         (long long)axis, bell_ndim(x));
    if (want.given && want.n != op->n_out)
        return bell_fail(BELL_BAD_SHAPE, "%u sizes; expected %u", want.n,
                         op->n_out);
    size = op_dim(x, (int)axis);
    if (op_is_size(size) && !want.given)
        return op_unsupported("an axis of a symbol's size is split by sizes "
                              "that are given");
    part = want.given ? 0 : (size + op->n_out - 1) / op->n_out;
    for (i = 0; i < op->n_out; i++) {
        sizes[i] = want.given ? want.v[i] : part < size ? part : size;
        size -= want.given ? 0 : sizes[i];
    }
    bell_split(x, sizes, op->n_out, (int)axis, parts);
    for (i = 0; i < op->n_out; i++)
        op_out(op, i, parts[i]);
    return BELL_OK;
}

/* ---- making ---- */

bell_status
onnx_op_constant_of_shape(struct onnx_op *op)
{
    const struct onnx_attr *value = op_attr(op, "value");
    struct onnx_value of;
    struct bell_tensor *x;
    struct onnx_ints shape;

    BELL_TRY(op_in_ints(op, 0, &shape));
    if (shape.n > BELL_MAX_RANK)
        return op_unsupported("a shape of %u axes", shape.n);
    BELL_TRY(op_check_sizes(op->ctx, shape.v, shape.n));
    if (!value || !value->t) {
        op_out(op, 0, bell_zeros(op->ctx, shape.v, shape.n, BELL_FLOAT32));
        return BELL_OK;
    }
    if (value->t->n_elems != 1)
        return bell_fail(BELL_BAD_SHAPE,
                         "its value has %llu elements; "
                         "expected 1",
                         (unsigned long long)value->t->n_elems);
    onnx_value_of(value->t, &of);
    x = bell_reshape(onnx_tensor_in(op->run, op->ctx, &of), BELL_NO_DIMS);
    op_out(op, 0, bell_expand(x, shape.v, shape.n));
    return BELL_OK;
}

/* The range between sizes of symbols. */
static bell_status
range_of_sizes(struct onnx_op *op)
{
    struct onnx_ints v[3];
    uint32_t i;

    for (i = 0; i < 3; i++) {
        BELL_TRY(op_in_ints(op, i, &v[i]));
        if (v[i].n != 1)
            return bell_fail(BELL_BAD_SHAPE, "input %u is not one number", i);
    }
    if (v[2].v[0] != 1)
        return op_unsupported("a range of symbols in steps that are not 1");
    op_out(op, 0,
           bell_arange_dims(op->ctx, (struct bell_dim){v[0].v[0]},
                            (struct bell_dim){v[1].v[0]}, BELL_INT64));
    return BELL_OK;
}

bell_status
onnx_op_range(struct onnx_op *op)
{
    struct bell_tensor *start = op_in(op, 0);
    enum bell_dtype dtype = bell_dtype_of(start);
    struct onnx_ints whole[3];
    const double *v[3];
    uint32_t n[3], i;
    double count;

    for (i = 0; i < 3; i++) {
        if (op_has(op, i) && op->in[i]->has_sizes)
            return range_of_sizes(op);
    }
    for (i = 0; i < 3; i++) {
        BELL_TRY(op_in_floats(op, i, &v[i], &n[i]));
        if (n[i] != 1)
            return bell_fail(BELL_BAD_SHAPE, "input %u is not one number", i);
    }
    count = ceil((v[1][0] - v[0][0]) / v[2][0]);
    if (!(count <= (double)ONNX_MAX_ELEMS))
        return op_unsupported("a range of %g elements", count);
    if (count <= 0) {
        op_out(op, 0, bell_zeros(op->ctx, BELL_DIMS(0), dtype));
        return BELL_OK;
    }
    if (dtype <= BELL_UINT64) {
        for (i = 0; i < 3; i++)
            BELL_TRY(op_in_ints(op, i, &whole[i]));
        op_out(op, 0,
               bell_arange_int(op->ctx, whole[0].v[0], whole[1].v[0],
                               whole[2].v[0], dtype));
        return BELL_OK;
    }
    op_out(op, 0,
           bell_add(start, bell_mul(bell_arange_int(op->ctx, 0, (int64_t)count,
                                                    1, dtype),
                                    op_in(op, 2))));
    return BELL_OK;
}

bell_status
onnx_op_eye_like(struct onnx_op *op)
{
    uint32_t type = (uint32_t)op_int(op, "dtype", op_type(op, 0));
    struct bell_tensor *x = op_in(op, 0), *ones;
    int64_t k = op_int(op, "k", 0);

    if (bell_ndim(x) != 2 || onnx_dtype(type) == BELL_DEFAULT)
        return op_unsupported("expected a matrix of numbers");
    ones = bell_ones(op->ctx, bell_shape(x), 2, onnx_dtype(type));
    op_out(op, 0, bell_triu(bell_tril(ones, k), k));
    return BELL_OK;
}

bell_status
onnx_op_one_hot(struct onnx_op *op)
{
    struct bell_tensor *index = op_in(op, 0), *values = op_in(op, 2);
    struct bell_tensor *depth_t, *range, *wrapped, *hit;
    int64_t depth, axis, shape[BELL_MAX_RANK];
    uint32_t ndim = bell_ndim(index) + 1, i;
    const double *d;
    uint32_t n;

    BELL_TRY(op_in_floats(op, 1, &d, &n));
    if (n != 1 || !(d[0] >= 0 && d[0] < (double)ONNX_MAX_ELEMS) ||
        ndim > BELL_MAX_RANK)
        return op_unsupported("its depth is not one number");
    depth = (int64_t)d[0];
    axis = op_axis(op_int(op, "axis", -1), ndim);
    if (axis < 0 || axis >= ndim)
        return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u", ndim);
    index = bell_unsqueeze(bell_cast(index, BELL_INT64), (int)axis);
    depth_t = bell_full_int(op->ctx, BELL_NO_DIMS, depth, BELL_INT64);
    wrapped = bell_where(
        bell_lt(index, bell_full_int(op->ctx, BELL_NO_DIMS, 0, BELL_INT64)),
        bell_add(index, depth_t), index);
    for (i = 0; i < ndim; i++)
        shape[i] = i == axis ? depth : 1;
    range = bell_reshape(bell_arange_int(op->ctx, 0, depth, 1, BELL_INT64),
                         shape, ndim);
    hit = bell_eq(wrapped, range);
    op_out(
        op, 0,
        bell_where(hit, bell_select(values, 0, 1), bell_select(values, 0, 0)));
    return BELL_OK;
}

bell_status
onnx_op_trilu(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    int64_t k = 0;

    if (op_has(op, 1))
        BELL_TRY(op_in_int(op, 1, &k));
    op_out(op, 0, op_int(op, "upper", 1) ? bell_triu(x, k) : bell_tril(x, k));
    return BELL_OK;
}

/* ---- selecting ---- */

bell_status
onnx_op_gather(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *index = op_in(op, 1);
    int64_t axis = op_axis(op_int(op, "axis", 0), bell_ndim(x));
    struct bell_index_item items[BELL_MAX_RANK];
    uint32_t i;

    if (axis < 0 || axis >= bell_ndim(x))
        return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u",
                         bell_ndim(x));
    for (i = 0; i < axis; i++)
        items[i] = bell_whole();
    items[axis] = bell_by(index);
    op_out(op, 0, bell_index(x, items, (uint32_t)axis + 1));
    return BELL_OK;
}

/* The last axis of indices as the index tensors of the first axes behind the
 * batch. */
static struct bell_tensor *
take_coordinate(struct bell_tensor *indices, int64_t k)
{
    return bell_select(indices, (int)bell_ndim(indices) - 1, k);
}

bell_status
onnx_op_gather_nd(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *indices = op_in(op, 1);
    int64_t batch = op_int(op, "batch_dims", 0), n, i;
    struct bell_index_item items[BELL_MAX_RANK];
    uint32_t ndim = bell_ndim(indices);

    if (ndim == 0 || batch < 0 || batch >= ndim)
        return bell_fail(BELL_BAD_SHAPE, "indices have %u axes", ndim);
    n = bell_shape(indices)[ndim - 1];
    if (n + batch > bell_ndim(x))
        return bell_fail(
            BELL_BAD_SHAPE,
            "indices of %lld axes; expected at most those of its input",
            (long long)(n + batch));
    for (i = 0; i < batch; i++) {
        int64_t shape[BELL_MAX_RANK];
        uint32_t k;

        for (k = 0; k + 1 < ndim; k++)
            shape[k] = k == i ? bell_shape(x)[i] : 1;
        items[i] = bell_by(bell_reshape(
            bell_arange_int(op->ctx, 0, bell_shape(x)[i], 1, BELL_INT64), shape,
            ndim - 1));
    }
    for (i = 0; i < n; i++)
        items[batch + i] = bell_by(take_coordinate(indices, i));
    op_out(op, 0,
           n + batch ? bell_index(x, items, (uint32_t)(n + batch))
                     : bell_alias(x));
    return BELL_OK;
}

static bell_status
find_combine(const char *name, enum bell_combine *out)
{
    static const struct {
        const char *name;
        enum bell_combine combine;
    } rows[] = {{"none", BELL_COMBINE_LAST},
                {"add", BELL_COMBINE_SUM},
                {"mul", BELL_COMBINE_PROD},
                {"max", BELL_COMBINE_AMAX},
                {"min", BELL_COMBINE_AMIN}};
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(name, rows[i].name) == 0) {
            *out = rows[i].combine;
            return BELL_OK;
        }
    }
    return op_unsupported("reduction '%.40s' is not known", name);
}

/* Indices that count from the end, as those from the beginning. */
static struct bell_tensor *
count_from_start(struct bell_context *ctx, struct bell_tensor *index,
                 int64_t size)
{
    index = op_to(index, BELL_INT64);
    return bell_where(
        bell_lt(index, bell_full_int(ctx, BELL_NO_DIMS, 0, BELL_INT64)),
        bell_add(index, bell_full_int(ctx, BELL_NO_DIMS, size, BELL_INT64)),
        index);
}

bell_status
onnx_op_gather_elements(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);

    op_out(op, 0, bell_gather(x, (int)op_int(op, "axis", 0), op_in(op, 1)));
    return BELL_OK;
}

bell_status
onnx_op_scatter_elements(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *index;
    int axis = (int)op_int(op, "axis", 0);
    enum bell_combine combine;

    BELL_TRY(find_combine(op_str(op, "reduction", "none"), &combine));
    index = count_from_start(op->ctx, op_in(op, 1), bell_size(x, axis));
    if (combine == BELL_COMBINE_LAST)
        op_out(op, 0, bell_scatter(x, axis, index, op_in(op, 2)));
    else
        op_out(
            op, 0,
            bell_scatter_reduce(x, axis, index, op_in(op, 2), combine, true));
    return BELL_OK;
}

/* ScatterND as a scatter of rows: the indexed axes are flattened. */
bell_status
onnx_op_scatter_nd(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *indices = op_in(op, 1);
    struct bell_tensor *updates = op_in(op, 2), *flat = NULL, *y;
    uint32_t ndim = bell_ndim(indices), rank = bell_ndim(x), i;
    int64_t n, rows = 1, inner = 1, count = 1, shape[BELL_MAX_RANK];
    enum bell_combine combine;

    BELL_TRY(find_combine(op_str(op, "reduction", "none"), &combine));
    if (ndim == 0 || bell_shape(indices)[ndim - 1] > rank)
        return bell_fail(BELL_BAD_SHAPE, "indices have %u axes", ndim);
    n = bell_shape(indices)[ndim - 1];
    for (i = 0; i < rank; i++) {
        shape[i] = bell_shape(x)[i];
        *(i < n ? &rows : &inner) *= shape[i];
    }
    for (i = 0; i + 1 < ndim; i++)
        count *= bell_shape(indices)[i];
    flat = bell_full_int(op->ctx, bell_shape(indices), ndim - 1, 0, BELL_INT64);
    for (i = 0; i < n; i++) {
        struct bell_tensor *at =
            count_from_start(op->ctx, take_coordinate(indices, i), shape[i]);

        flat = bell_add(bell_mul(flat, bell_full_int(op->ctx, BELL_NO_DIMS,
                                                     shape[i], BELL_INT64)),
                        at);
    }
    flat = bell_expand(bell_reshape(flat, BELL_DIMS(count, 1)),
                       BELL_DIMS(count, inner));
    updates = bell_reshape(updates, BELL_DIMS(count, inner));
    y = bell_reshape(x, BELL_DIMS(rows, inner));
    y = combine == BELL_COMBINE_LAST
            ? bell_scatter(y, 0, flat, updates)
            : bell_scatter_reduce(y, 0, flat, updates, combine, true);
    op_out(op, 0, bell_reshape(y, shape, rank));
    return BELL_OK;
}

/* Before opset 10 the bounds are attributes. */
static bell_status
slice_bounds(struct onnx_op *op, struct onnx_ints *starts,
             struct onnx_ints *ends, struct onnx_ints *axes,
             struct onnx_ints *steps)
{
    *steps = (struct onnx_ints){0};
    BELL_TRY(op_axes(op, "starts", 1, 10, starts));
    BELL_TRY(op_axes(op, "ends", 2, 10, ends));
    BELL_TRY(op_axes(op, "axes", 3, 10, axes));
    if (op->opset >= 10)
        BELL_TRY(op_in_ints(op, 4, steps));
    if (starts->n != ends->n || (axes->given && axes->n != starts->n) ||
        (steps->given && steps->n != starts->n))
        return bell_fail(BELL_BAD_SHAPE, "its lists are of different lengths");
    return BELL_OK;
}

/* A slice whose bounds are numbers of an axis that is a number. */
static struct bell_index_item
slice_numbers(int64_t begin, int64_t end, int64_t step, int64_t size)
{
    if (begin < -size - 1)
        begin = -size - 1;
    if (begin > size)
        begin = size;
    if (end > size)
        end = size;
    if (end < -size - 1)
        end = -size - 1;
    if (step < -size - 1)
        step = -size - 1;
    if (step > size + 1)
        step = size + 1;
    if (step < 0 && end < -size)
        end = BELL_NONE;
    return bell_slice(begin, end, step);
}

/* A bound, clamped to the axis, where that is the same for all values: a size
 * stays, a number below 0 counts from the end. */
static int64_t
clamp_bound(struct onnx_op *op, int64_t bound, int64_t size)
{
    if (!op_is_size(bound) && bound < 0)
        bound = op_dim_sub(op, size, -bound);
    return op_dim_at_most(op, size, bound) ? size : bound;
}

/* The same where the axis or a bound is a symbol's. */
static bell_status
slice_sizes(struct onnx_op *op, int64_t begin, int64_t end, int64_t step,
            int64_t size, struct bell_index_item *out)
{
    const int64_t far = (int64_t)1 << 39;

    if (step != 1)
        return op_unsupported("an axis of a symbol's size is sliced in steps "
                              "of 1");
    if (!op_is_size(begin) && (begin > far || begin < -far))
        return op_unsupported("a slice of a symbol's size begins at %lld",
                              (long long)begin);
    if (!op_is_size(end) && end < -far)
        return op_unsupported("a slice of a symbol's size ends at %lld",
                              (long long)end);
    if (!op_is_size(end) && end > far)
        end = far;
    begin = clamp_bound(op, begin, size);
    end = clamp_bound(op, end, size);
    *out = begin == 0 && end == size ? bell_whole() : bell_slice(begin, end, 1);
    return BELL_OK;
}

bell_status
onnx_op_slice(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    struct bell_index_item items[BELL_MAX_RANK];
    struct onnx_ints starts, ends, axes, steps;
    uint32_t ndim = bell_ndim(x), i;

    BELL_TRY(slice_bounds(op, &starts, &ends, &axes, &steps));
    for (i = 0; i < ndim; i++)
        items[i] = bell_whole();
    for (i = 0; i < starts.n; i++) {
        int64_t axis = axes.given ? op_axis(axes.v[i], ndim) : i;
        int64_t begin = starts.v[i], end = ends.v[i], size;
        int64_t step = steps.given ? steps.v[i] : 1;

        if (axis < 0 || axis >= ndim)
            return bell_fail(BELL_BAD_AXIS, "axis %lld is not one of %u",
                             (long long)axis, ndim);
        if (step == 0)
            return bell_fail(BELL_BAD_VALUE, "a step must not be 0");
        size = op_dim(x, (int)axis);
        if (op_is_size(size) || op_is_size(begin) || op_is_size(end))
            BELL_TRY(slice_sizes(op, begin, end, step, size, &items[axis]));
        else
            items[axis] = slice_numbers(begin, end, step, size);
    }
    op_out(op, 0, ndim ? bell_index(x, items, ndim) : bell_alias(x));
    return BELL_OK;
}

bell_status
onnx_op_pad(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    const char *mode = op_str(op, "mode", "constant");
    int64_t pads[2 * BELL_MAX_RANK] = {0}, axis;
    struct onnx_ints want, axes = {0};
    uint32_t ndim = bell_ndim(x), n, i;

    BELL_TRY(op_axes(op, "pads", 1, 11, &want));
    if (op->opset >= 18)
        BELL_TRY(op_in_ints(op, 3, &axes));
    n = axes.given ? axes.n : ndim;
    if (want.n != 2 * n)
        return bell_fail(BELL_BAD_SHAPE,
                         "%u pads are not two of each of %u axes", want.n, n);
    for (i = 0; i < n; i++) {
        axis = axes.given ? op_axis(axes.v[i], ndim) : i;
        if (axis < 0 || axis >= ndim)
            return bell_fail(BELL_BAD_AXIS, "axis %lld is not one of %u",
                             (long long)axis, ndim);
        pads[2 * (ndim - 1 - axis)] = want.v[i];
        pads[2 * (ndim - 1 - axis) + 1] = want.v[n + i];
        if ((want.v[i] > (int64_t)ONNX_MAX_ELEMS && !op_is_size(want.v[i])) ||
            (want.v[n + i] > (int64_t)ONNX_MAX_ELEMS &&
             !op_is_size(want.v[n + i])))
            return op_unsupported("pads of %lld and %lld", (long long)want.v[i],
                                  (long long)want.v[n + i]);
    }
    if (strcmp(mode, "constant") == 0) {
        if (op->opset >= 11 && op_has(op, 2))
            op_out(op, 0, bell_pad_by(x, pads, 2 * ndim, op_in(op, 2)));
        else
            op_out(op, 0,
                   bell_pad(x, pads, 2 * ndim, op_float(op, "value", 0)));
        return BELL_OK;
    }
    if (strcmp(mode, "reflect") != 0 && strcmp(mode, "edge") != 0 &&
        strcmp(mode, "wrap") != 0)
        return op_unsupported("mode '%.40s' is not known", mode);
    op_out(op, 0,
           bell_pad_with(x, pads, 2 * ndim,
                         *mode == 'r'   ? BELL_PAD_REFLECT
                         : *mode == 'e' ? BELL_PAD_REPLICATE
                                        : BELL_PAD_CIRCULAR));
    return BELL_OK;
}

bell_status
onnx_op_center_crop_pad(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    int64_t pads[2 * BELL_MAX_RANK] = {0};
    struct onnx_ints axes = op_ints(op, "axes"), want;
    uint32_t ndim = bell_ndim(x), i;

    BELL_TRY(op_in_ints(op, 1, &want));
    if (want.n != (axes.given ? axes.n : ndim))
        return bell_fail(BELL_BAD_SHAPE, "%u sizes; expected %u", want.n, ndim);
    for (i = 0; i < want.n; i++) {
        int64_t axis = axes.given ? op_axis(axes.v[i], ndim) : i, d, before;

        if (axis < 0 || axis >= ndim || want.v[i] < 0 ||
            want.v[i] > (int64_t)ONNX_MAX_ELEMS)
            return bell_fail(BELL_BAD_AXIS, "axis %lld is not one of %u",
                             (long long)axis, ndim);
        d = want.v[i] - bell_shape(x)[axis];
        before = d >= 0 ? d / 2 : -(-d / 2);
        pads[2 * (ndim - 1 - axis)] = before;
        pads[2 * (ndim - 1 - axis) + 1] = d - before;
    }
    op_out(op, 0, bell_pad(x, pads, 2 * ndim, 0));
    return BELL_OK;
}

bell_status
onnx_op_depth_to_space(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    int64_t b = op_int(op, "blocksize", 0), n, c, h, w;

    if (bell_ndim(x) != 4 || b <= 0 || b > 65536 || bell_shape(x)[1] % (b * b))
        return bell_fail(BELL_BAD_SHAPE, "expected four axes, and channels in "
                                         "blocks");
    n = bell_shape(x)[0];
    c = bell_shape(x)[1] / (b * b);
    h = bell_shape(x)[2];
    w = bell_shape(x)[3];
    if (strcmp(op_str(op, "mode", "DCR"), "CRD") == 0) {
        x = bell_reshape(x, BELL_DIMS(n, c, b, b, h, w));
        x = bell_permute(x, BELL_DIMS(0, 1, 4, 2, 5, 3));
    } else {
        x = bell_reshape(x, BELL_DIMS(n, b, b, c, h, w));
        x = bell_permute(x, BELL_DIMS(0, 3, 4, 1, 5, 2));
    }
    op_out(op, 0, bell_reshape(x, BELL_DIMS(n, c, h * b, w * b)));
    return BELL_OK;
}

bell_status
onnx_op_space_to_depth(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);
    int64_t b = op_int(op, "blocksize", 0), n, c, h, w;

    if (bell_ndim(x) != 4 || b <= 0 || bell_shape(x)[2] % b ||
        bell_shape(x)[3] % b)
        return bell_fail(BELL_BAD_SHAPE, "expected four axes, in blocks");
    n = bell_shape(x)[0];
    c = bell_shape(x)[1];
    h = bell_shape(x)[2] / b;
    w = bell_shape(x)[3] / b;
    x = bell_reshape(x, BELL_DIMS(n, c, h, b, w, b));
    if (strcmp(op_str(op, "mode", "DCR"), "CRD") == 0)
        x = bell_permute(x, BELL_DIMS(0, 1, 3, 5, 2, 4));
    else
        x = bell_permute(x, BELL_DIMS(0, 3, 5, 1, 2, 4));
    op_out(op, 0, bell_reshape(x, BELL_DIMS(n, c * b * b, h, w)));
    return BELL_OK;
}

bell_status
onnx_op_nonzero(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0);

    if (op->ctx == op->run->host)
        return op_unsupported("of a constant");
    op_out(op, 0, bell_t(bell_nonzero(x)));
    return BELL_OK;
}

/* The numbers of the true ones among a condition of the host. */
static bell_status
true_places(struct onnx_op *op, uint32_t i, struct onnx_ints *out)
{
    struct onnx_ints flags;
    int64_t *v;
    uint32_t k, n = 0;

    BELL_TRY(op_in_ints(op, i, &flags));
    v = op_take(op, flags.n, sizeof(*v));
    if (!v)
        return onnx_no_memory();
    for (k = 0; k < flags.n; k++) {
        if (flags.v[k])
            v[n++] = k;
    }
    *out = (struct onnx_ints){v, n, true};
    return BELL_OK;
}

bell_status
onnx_op_compress(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *index;
    const struct onnx_attr *axis = op_attr(op, "axis");
    struct onnx_ints places;

    BELL_TRY(true_places(op, 1, &places));
    if (!axis)
        x = bell_reshape(x, BELL_DIMS(-1));
    index = bell_from_data(op->ctx, BELL_DIMS(places.n), BELL_INT64, places.v);
    op_out(op, 0, bell_index_select(x, axis ? (int)axis->i : 0, index));
    return BELL_OK;
}

bell_status
onnx_op_reverse_sequence(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *lens = op_in(op, 1), *t, *index;
    int64_t time = op_int(op, "time_axis", 0),
            batch = op_int(op, "batch_axis", 1);
    int64_t t_shape[BELL_MAX_RANK], b_shape[BELL_MAX_RANK];
    uint32_t ndim = bell_ndim(x), i;

    if (ndim < 2 || time < 0 || batch < 0 || time >= ndim || batch >= ndim)
        return bell_fail(BELL_BAD_AXIS, "its axes are not two of %u", ndim);
    for (i = 0; i < ndim; i++) {
        t_shape[i] = i == time ? bell_shape(x)[i] : 1;
        b_shape[i] = i == batch ? bell_shape(x)[i] : 1;
    }
    t = bell_reshape(
        bell_arange_int(op->ctx, 0, bell_shape(x)[time], 1, BELL_INT64),
        t_shape, ndim);
    lens = bell_reshape(op_to(lens, BELL_INT64), b_shape, ndim);
    index = bell_sub(bell_sub(lens, t),
                     bell_full_int(op->ctx, BELL_NO_DIMS, 1, BELL_INT64));
    index = bell_where(bell_lt(t, lens), index, t);
    op_out(op, 0,
           bell_gather(x, (int)time, bell_expand(index, bell_shape(x), ndim)));
    return BELL_OK;
}

/* Where a cache is written: x with `update` at each row's own place. */
bell_status
onnx_op_tensor_scatter(struct onnx_op *op)
{
    struct bell_tensor *x = op_in(op, 0), *update = op_in(op, 1), *at, *t;
    bool circular = strcmp(op_str(op, "mode", "linear"), "circular") == 0;
    int64_t axis = op_axis(op_int(op, "axis", -2), bell_ndim(x));
    int64_t shape[BELL_MAX_RANK], size;
    uint32_t ndim = bell_ndim(x), i;

    if (axis < 1 || axis >= ndim || bell_ndim(update) != ndim)
        return bell_fail(BELL_BAD_AXIS, "its axis is not one of %u", ndim);
    size = bell_shape(x)[axis];
    for (i = 0; i < ndim; i++)
        shape[i] = i == axis ? bell_shape(update)[i] : 1;
    at = bell_reshape(bell_arange_int(op->ctx, 0, shape[axis], 1, BELL_INT64),
                      shape, ndim);
    if (op_has(op, 2)) {
        for (i = 0; i < ndim; i++)
            shape[i] = i == 0 ? bell_shape(x)[0] : 1;
        t = bell_reshape(op_to(op_in(op, 2), BELL_INT64), shape, ndim);
        at = bell_add(at, t);
    }
    if (circular)
        at = bell_remainder(
            at, bell_full_int(op->ctx, BELL_NO_DIMS, size, BELL_INT64));
    at = bell_expand(at, bell_shape(update), ndim);
    op_out(op, 0, bell_scatter(x, (int)axis, at, update));
    return BELL_OK;
}
