/* What the tests of tensor/ share: a context for each test, tensors from
 * numbers, comparisons. The tests run on tensor_fake.c, where the
 * reference evaluator is the device, on the CPU's queue, and some on simulated
 * cards. */
#ifndef BELL_TESTS_TENSOR_HOST_H
#define BELL_TESTS_TENSOR_HOST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "doorbell/tensor.h"

/* The context of the running test: tests' set-up and tear-down. The tear-down
 * fails if an error was not looked at. */
extern struct bell_context *ctx;
int make_context(void **state);
int end_context(void **state);

/* tensor_fake.c only. Pretends that device memory is at an end when false. */
extern bool host_memory_left;
/* tensor_fake.c only. Calls of tensor_realize so far. */
extern size_t host_realizes;

/* Is the device simulated, where small sizes have to do? */
bool is_slow_device(void);

/* A float64 tensor of the given values. */
struct bell_tensor *tensor_of(const double *values, const int64_t *shape,
                              uint32_t ndim);
#define T(values, ...) tensor_of((double[])values, BELL_DIMS(__VA_ARGS__))
#define V(...)                                                                 \
    {                                                                          \
        __VA_ARGS__                                                            \
    }
/* An int64 tensor. */
struct bell_tensor *ints_of(const int64_t *values, const int64_t *shape,
                            uint32_t ndim);
#define I(values, ...) ints_of((int64_t[])values, BELL_DIMS(__VA_ARGS__))

/* The same numbers, computed: the host does not know them. */
struct bell_tensor *hidden(struct bell_tensor *t);

/* Deterministic numbers in [low, high), float64. */
struct bell_tensor *noise(double low, double high, const int64_t *shape,
                          uint32_t ndim);

/* Reads t and compares with n values, relative and absolute to `eps`; NaN
 * equals NaN. */
void expect_values(const char *file, int line, struct bell_tensor *t,
                   const double *values, size_t n, double eps);
#define EXPECT(t, ...)                                                         \
    expect_values(__FILE__, __LINE__, t, (double[]){__VA_ARGS__},              \
                  ARRAY_LEN(((double[]){__VA_ARGS__})), 1e-12)
#define EXPECT_NEAR(t, eps, ...)                                               \
    expect_values(__FILE__, __LINE__, t, (double[]){__VA_ARGS__},              \
                  ARRAY_LEN(((double[]){__VA_ARGS__})), eps)

void expect_shape(const char *file, int line, const struct bell_tensor *t,
                  const int64_t *shape, uint32_t ndim);
#define EXPECT_SHAPE(t, ...)                                                   \
    expect_shape(__FILE__, __LINE__, t, BELL_DIMS(__VA_ARGS__))

/* `t` is the error tensor, and the message is exactly this. */
void expect_error(const char *file, int line, const struct bell_tensor *t,
                  const char *message);
#define EXPECT_ERROR(t, message) expect_error(__FILE__, __LINE__, t, message)
/* A call that returns a status failed with exactly this message. */
void expect_status(const char *file, int line, bell_status status,
                   const char *message);
#define EXPECT_STATUS(status, message)                                         \
    expect_status(__FILE__, __LINE__, status, message)

#endif
