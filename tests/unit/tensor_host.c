/* See tensor_host.h. */
#include "tests/unit/tensor_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tensor/reference.h"
#include "tensor/tensor_internal.h"

struct bell_context *ctx;
bool host_memory_left = true;
size_t host_realizes;
static int64_t n_host_buffers;
static uint64_t noise_state;

/* ---- the device ---- */

bell_status
tensor_device_open(struct bell_context *c, const char *name)
{
    c->runtime = host_alloc(1);
    if (!c->runtime)
        return bell_fail(BELL_E_NO_MEMORY, "no memory for a device");
    snprintf(c->device_name, sizeof(c->device_name), "%s",
             name ? name : "HOST");
    return BELL_OK;
}

void
tensor_device_close(struct bell_context *c)
{
    host_free(c->runtime);
    c->runtime = NULL;
}

bell_status
tensor_buffer_alloc(struct bell_context *c, struct tensor_buffer *buf)
{
    (void)c;
    buf->device_mem = host_memory_left ? host_alloc(buf->size_bytes + 1) : NULL;
    if (!buf->device_mem)
        return bell_fail(BELL_E_NO_MEMORY, "no room for %zu bytes",
                         buf->size_bytes);
    memset(buf->device_mem, 0x5a, buf->size_bytes);
    n_host_buffers++;
    return BELL_OK;
}

void
tensor_buffer_free(struct tensor_buffer *buf)
{
    host_free(buf->device_mem);
    buf->device_mem = NULL;
    n_host_buffers--;
}

bell_status
tensor_buffer_write(struct tensor_buffer *buf, const void *src,
                    size_t size_bytes)
{
    memcpy(buf->device_mem, src, size_bytes);
    return BELL_OK;
}

bell_status
tensor_buffer_read(struct tensor_buffer *buf, void *dst, size_t size_bytes)
{
    memcpy(dst, buf->device_mem, size_bytes);
    return BELL_OK;
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

    BELL_TRY(tensor_buffer_create(t->ctx, array->dtype, array->n, &buf));
    ref_to_bytes(array, buf->device_mem);
    status = tensor_set_buffer(t, buf);
    tensor_buffer_release(buf);
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
        roots[i] = tensors[i]->uop;
    status = uop_validate(&c->graph, roots, n, UOP_STAGE_T);
    if (status == BELL_OK)
        status = ref_eval(&c->graph, roots, n, read_leaf, NULL, out);
    for (i = 0; i < n && status == BELL_OK; i++) {
        if (!bell_is_realized(tensors[i]))
            status = store(tensors[i], &out[i]);
    }
    for (i = 0; i < n; i++)
        ref_array_fini(&out[i]);
    host_free(roots);
    host_free(out);
    return status;
}

/* ---- for tests ---- */

int
make_context(void **state)
{
    (void)state;
    noise_state = 1;
    host_memory_left = true;
    return bell_context_create(NULL, &ctx) == BELL_OK ? 0 : -1;
}

int
end_context(void **state)
{
    bell_status status = bell_context_status(ctx);

    (void)state;
    host_fail_after(0, 0);
    if (status != BELL_OK)
        print_error("an error was left: %s\n", bell_error_last()->message);
    bell_context_destroy(ctx);
    ctx = NULL;
    if (n_host_buffers)
        print_error("%lld buffers were left\n", (long long)n_host_buffers);
    return status == BELL_OK && n_host_buffers == 0 ? 0 : -1;
}

struct bell_tensor *
tensor_of(const double *values, const int64_t *shape, uint32_t ndim)
{
    return bell_from_data(ctx, BELL_FLOAT64, shape, ndim, values);
}

struct bell_tensor *
ints_of(const int64_t *values, const int64_t *shape, uint32_t ndim)
{
    return bell_from_data(ctx, BELL_INT64, shape, ndim, values);
}

static double
next_noise(void)
{
    noise_state = noise_state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(noise_state >> 11) * 0x1p-53;
}

struct bell_tensor *
noise(double low, double high, const int64_t *shape, uint32_t ndim)
{
    size_t n = 1, i;
    struct bell_tensor *t;
    double *values;

    for (i = 0; i < ndim; i++)
        n *= (size_t)shape[i];
    values = malloc(n * sizeof(*values) + 1);
    assert_non_null(values);
    for (i = 0; i < n; i++)
        values[i] = low + (high - low) * next_noise();
    t = tensor_of(values, shape, ndim);
    free(values);
    return t;
}

static bool
is_near(double a, double b, double eps)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (a == b)
        return true;
    return fabs(a - b) <= eps * fmax(1, fmax(fabs(a), fabs(b)));
}

void
expect_values(const char *file, int line, struct bell_tensor *t,
              const double *values, size_t n, double eps)
{
    double *got = malloc((n + 1) * sizeof(*got));
    size_t i;

    assert_non_null(got);
    if (bell_read_f64(t, got, n) != BELL_OK) {
        print_error("%s:%d: %s\n", file, line, bell_error_last()->message);
        free(got);
        _fail(file, line);
        return;
    }
    for (i = 0; i < n; i++) {
        if (!is_near(got[i], values[i], eps)) {
            print_error("%s:%d: element %zu is %.17g, not %.17g\n", file, line,
                        i, got[i], values[i]);
            free(got);
            _fail(file, line);
            return;
        }
    }
    free(got);
}

void
expect_shape(const char *file, int line, const struct bell_tensor *t,
             const int64_t *shape, uint32_t ndim)
{
    char got[TENSOR_SHAPE_STR], want[TENSOR_SHAPE_STR];

    tensor_shape_str(bell_shape(t), bell_ndim(t), got, sizeof(got));
    tensor_shape_str(shape, ndim, want, sizeof(want));
    if (strcmp(got, want) != 0 || bell_is_error(t)) {
        print_error("%s:%d: the shape is %s, not %s%s\n", file, line, got, want,
                    bell_is_error(t) ? " (an error tensor)" : "");
        _fail(file, line);
    }
}

void
expect_error(const char *file, int line, const struct bell_tensor *t,
             const char *message)
{
    bell_status status = bell_context_status(ctx);

    if (status == BELL_OK || t != bell_error_tensor(ctx) ||
        strcmp(bell_error_last()->message, message) != 0) {
        print_error("%s:%d: %s \"%s\", not \"%s\"\n", file, line,
                    status == BELL_OK ? "no failure" : "failed with",
                    status == BELL_OK ? "" : bell_error_last()->message,
                    message);
        _fail(file, line);
    }
}

void
expect_status(const char *file, int line, bell_status status,
              const char *message)
{
    if (status == BELL_OK || strcmp(bell_error_last()->message, message) != 0) {
        print_error("%s:%d: %s \"%s\", not \"%s\"\n", file, line,
                    status == BELL_OK ? "no failure" : "failed with",
                    status == BELL_OK ? "" : bell_error_last()->message,
                    message);
        _fail(file, line);
    }
}
