/* See tensor_host.h. */
#include "tests/unit/tensor_host.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tensor/core/tensor_internal.h"

struct bell_context *ctx;
static uint64_t noise_state;

int
make_context(void **state)
{
    (void)state;
    noise_state = 1;
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
    return status == BELL_OK ? 0 : -1;
}

bool
is_slow_device(void)
{
    return strstr(bell_context_device(ctx), "@sim") != NULL;
}

struct bell_tensor *
tensor_of(const double *values, const int64_t *shape, uint32_t ndim)
{
    return bell_from_data(ctx, shape, ndim, BELL_FLOAT64, values);
}

struct bell_tensor *
ints_of(const int64_t *values, const int64_t *shape, uint32_t ndim)
{
    return bell_from_data(ctx, shape, ndim, BELL_INT64, values);
}

struct bell_tensor *
hidden(struct bell_tensor *t)
{
    return bell_sub(bell_add(t, t), t);
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
