/* The calls of tensor/runtime/realize.c without a device: values are computed
 * by the reference evaluator, in host memory. Every graph that is realized is
 * validated first. A buffer that is left at the end is an error. */
#include "tests/unit/tensor_host.h"

#include <stdio.h>

#include "base/alloc.h"
#include "reference/reference.h"
#include "tensor/core/tensor_internal.h"

bool host_memory_left = true;
size_t host_realizes;

/* A context's runtime. */
struct tensor_runtime {
    int64_t n_buffers;
};

bell_status
tensor_device_open(struct bell_context *c, const char *name)
{
    c->runtime = host_calloc(1, sizeof(struct tensor_runtime));
    if (!c->runtime)
        return bell_fail(BELL_E_NO_MEMORY, "no memory for a device");
    snprintf(c->device_name, sizeof(c->device_name), "%s",
             name ? name : "HOST");
    return BELL_OK;
}

bool
tensor_device_has_f64(const struct bell_context *c)
{
    (void)c;
    return true;
}

uint32_t
tensor_device_blob_align(const struct bell_context *c, uint32_t elem_bytes)
{
    (void)c;
    return elem_bytes;
}

uint32_t
tensor_device_sort_bits(const struct bell_context *c)
{
    (void)c;
    return 4;
}

bool
tensor_device_is_cpu(const struct bell_context *c)
{
    (void)c;
    return false;
}

uint32_t
tensor_device_math(const struct bell_context *c)
{
    (void)c;
    return 0;
}

bool
tensor_device_is_inherited(const struct bell_context *c)
{
    (void)c;
    return false;
}

void
tensor_device_set_timeout(struct bell_context *c, double seconds)
{
    (void)c;
    (void)seconds;
}

bell_status
tensor_device_set_math(struct bell_context *c, uint32_t math)
{
    (void)c;
    (void)math; /* the reference is exact */
    return BELL_OK;
}

void
tensor_device_settle(struct bell_context *c)
{
    (void)c;
}

void
tensor_device_close(struct bell_context *c)
{
    const struct tensor_runtime *fake = c->runtime;

    if (fake)
        assert_int_equal(fake->n_buffers, 0);
    host_free(c->runtime);
    c->runtime = NULL;
}

bell_status
tensor_buffer_pin(struct bell_context *c, struct tensor_buffer *buf, void *data)
{
    c->runtime->n_buffers++;
    buf->device_mem = data;
    buf->is_blob = true;
    return BELL_OK;
}

bell_status
tensor_buffer_alloc(struct bell_context *c, struct tensor_buffer *buf)
{
    struct tensor_runtime *fake = c->runtime;

    buf->device_mem = host_memory_left ? host_alloc(buf->size_bytes + 1) : NULL;
    if (!buf->device_mem)
        return bell_fail(BELL_E_NO_MEMORY, "no room for %zu bytes",
                         buf->size_bytes);
    memset(buf->device_mem, 0x5a, buf->size_bytes);
    fake->n_buffers++;
    return BELL_OK;
}

void
tensor_buffer_free(struct tensor_buffer *buf)
{
    struct tensor_runtime *fake = buf->ctx->runtime;

    if (!buf->is_blob)
        host_free(buf->device_mem);
    else if (buf->release)
        buf->release(buf->release_user);
    buf->device_mem = NULL;
    fake->n_buffers--;
}

bell_status
tensor_buffer_write(struct tensor_buffer *buf, const void *src,
                    size_t size_bytes)
{
    memcpy(buf->device_mem, src, size_bytes);
    return BELL_OK;
}

bool
tensor_device_is_mesh(const struct bell_context *c)
{
    (void)c;
    return false;
}

bell_status
tensor_buffer_settle(struct tensor_buffer *buf)
{
    (void)buf;
    return BELL_OK;
}

bell_status
tensor_buffer_read(struct tensor_buffer *buf, void *dst, size_t size_bytes)
{
    memcpy(dst, buf->device_mem, size_bytes);
    return BELL_OK;
}

/* One is like the other: the host copies. */
bell_status
tensor_buffer_send(struct tensor_buffer *dst, struct tensor_buffer *src)
{
    (void)dst, (void)src;
    return bell_fail(BELL_E_UNSUPPORTED, "through the host");
}

static bell_status
read_leaf(void *user, const struct uop *u, struct ref_array *array)
{
    const struct tensor_buffer *buf = u->arg.data;

    (void)user;
    if (!buf->device_mem || buf->refcount == 0)
        return bell_fail(BELL_E_INTERNAL, "a leaf that was freed");
    ref_from_bytes(array, buf->device_mem);
    return BELL_OK;
}

static bell_status
store(struct bell_tensor *t, const struct ref_array *array)
{
    struct tensor_buffer *buf;
    bell_status status;

    BELL_TRY(
        tensor_buffer_create(tensor_at(t)->ctx, array->dtype, array->n, &buf));
    ref_to_bytes(array, buf->device_mem);
    status = tensor_set_buffer(t, buf);
    tensor_buffer_release(buf);
    return status;
}

/* A leaf whose elements are their numbers. */
static bell_status
number_leaf(void *user, const struct uop *u, struct ref_array *array)
{
    size_t k;

    (void)user;
    (void)u;
    for (k = 0; k < array->n; k++) {
        if (uop_dtype_infos[array->dtype].is_float)
            array->f[k] = (double)k;
        else
            array->i[k] = (int64_t)k;
    }
    return BELL_OK;
}

/* What an ASSIGN does. */
static bell_status
store_slice(struct bell_context *c, const struct uop *u,
            const struct ref_array *value)
{
    const struct uop *at = u->src[0];
    struct ref_array place, all = *value;
    const struct tensor_buffer *buf;
    bell_status status;
    size_t k;

    BELL_TRY(ref_eval(&c->graph, &at, 1, number_leaf, NULL, NULL, &place));
    while (at->op != UOP_BUFFER)
        at = at->src[0];
    buf = at->arg.data;
    all.n = (size_t)buf->n_elems;
    all.data = host_alloc((all.n + 1) * 8);
    status = all.data ? read_leaf(NULL, at, &all)
                      : bell_fail(BELL_E_NO_MEMORY, "no memory to assign");
    for (k = 0; k < value->n && status == BELL_OK; k++) {
        size_t i = uop_dtype_infos[value->dtype].is_float ? (size_t)place.f[k]
                                                          : (size_t)place.i[k];
        all.i[i] = value->i[k];
    }
    if (status == BELL_OK)
        ref_to_bytes(&all, buf->device_mem);
    host_free(all.data);
    ref_array_fini(&place);
    return status;
}

/* There is nothing to compile. */
bell_status
tensor_compile(struct bell_context *c, struct bell_tensor *const *tensors,
               size_t n)
{
    const struct uop **roots = host_alloc(n * sizeof(*roots));
    bell_status status;
    size_t i;

    if (!roots)
        return bell_fail(BELL_E_NO_MEMORY, "no memory to compile");
    for (i = 0; i < n; i++)
        roots[i] = tensor_at(tensors[i])->uop;
    status = uop_validate(&c->graph, roots, n, UOP_STAGE_T);
    host_free(roots);
    return status;
}

bell_status
tensor_realize(struct bell_context *c, struct bell_tensor *const *tensors,
               size_t n)
{
    const struct uop **roots = host_alloc(n * sizeof(*roots));
    struct ref_array *out = host_calloc(n, sizeof(*out));
    bell_status status = BELL_OK;
    size_t i;

    host_realizes++;
    if (!roots || !out) {
        host_free(roots);
        host_free(out);
        return bell_fail(BELL_E_NO_MEMORY, "no memory to realize");
    }
    for (i = 0; i < n; i++)
        roots[i] = tensor_at(tensors[i])->uop;
    status = uop_validate(&c->graph, roots, n, UOP_STAGE_T);
    if (status == BELL_OK)
        status = ref_eval(&c->graph, roots, n, read_leaf, NULL, NULL, out);
    for (i = 0; i < n && status == BELL_OK; i++) {
        if (roots[i]->op == UOP_ASSIGN)
            status = store_slice(c, roots[i], &out[i]);
        else if (!bell_is_realized(tensors[i]))
            status = store(tensors[i], &out[i]);
    }
    for (i = 0; i < n; i++)
        ref_array_fini(&out[i]);
    host_free(roots);
    host_free(out);
    return status;
}
