/* A call by name beside the call of the C function: the first, the middle and
 * the last row of the function table and some between. Both make a node and
 * release it; nothing is computed. Turn by turn; medians.
 *
 * usage: bench_functions [bench options]
 * `ratio` is the time of the call by name over that of the C call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/functions.h"
#include "doorbell/linalg.h"
#include "doorbell/nn.h"
#include "doorbell/ops.h"
#include "tests/bench/bench.h"

#define N_TURNS 501
#define N_CALLS 100

static struct bell_context *ctx;
static struct bell_tensor *x, *y, *row;

/* Rows: what is called by name with which arguments, and the C call. */
#define X bell_of_tensor(x)
#define Y bell_of_tensor(y)
#define R bell_of_tensor(row)
#define N bell_of_int
#define F bell_of_float
#define L(...)                                                                 \
    bell_of_list((struct bell_value[]){__VA_ARGS__},                           \
                 ARRAY_LEN(((struct bell_value[]){__VA_ARGS__})))
#define DIMS(...) BELL_DIMS(__VA_ARGS__)
/* clang-format off */
#define ROWS(ROW)                                                              \
    ROW(add, bell_add(x, y), X, Y)                                             \
    ROW(square, bell_square(x), X)                                             \
    ROW(exp, bell_exp(x), X)                                                   \
    ROW(maximum, bell_maximum(x, y), X, Y)                                     \
    ROW(cosh, bell_cosh(x), X)                                                 \
    ROW(clamp, bell_clip(x, -1, 1), X, F(-1), F(1))                            \
    ROW(sum, bell_sum(x, DIMS(1), false), X, N(1))                             \
    ROW(mean, bell_mean(x, BELL_NO_DIMS, false), X)                            \
    ROW(argmax, bell_argmax(x, 1, false), X, N(1))                             \
    ROW(matmul, bell_matmul(x, y), X, Y)                                       \
    ROW(t, bell_t(x), X)                                                       \
    ROW(flip, bell_flip(x, DIMS(0)), X, N(0))                                  \
    ROW(reshape, bell_reshape(x, DIMS(2, 8)), X, N(2), N(8))                   \
    ROW(unflatten, bell_unflatten(x, 0, DIMS(2, 2)), X, N(0), L(N(2), N(2)))   \
    ROW(permute, bell_permute(x, DIMS(1, 0)), X, N(1), N(0))                   \
    ROW(cat, bell_cat((struct bell_tensor *[]){x, y}, 2, 0), L(X, Y), N(0))    \
    ROW(select, bell_select(x, 1, 2), X, N(1), N(2))                           \
    ROW(relu, bell_relu(x), X)                                                 \
    ROW(softmax, bell_softmax(x, 1), X, N(1))                                  \
    ROW(elu, bell_elu(x, 1), X)                                                \
    ROW(linear, bell_linear(x, y, row), X, Y, R)                               \
    ROW(full, bell_full(ctx, DIMS(4, 4), 2, BELL_FLOAT32), L(N(4), N(4)), F(2)) \
    ROW(kaiming_normal, bell_kaiming_normal(ctx, DIMS(4, 4), 0, BELL_FLOAT32), \
        L(N(4), N(4)))
/* clang-format on */

#define MEMBER(name, call, ...)                                                \
    static struct bell_tensor *c_##name(void)                                  \
    {                                                                          \
        return call;                                                           \
    }                                                                          \
    static struct bell_tensor *by_name_##name(                                 \
        const struct bell_function *function)                                  \
    {                                                                          \
        const struct bell_value values[] = {__VA_ARGS__};                      \
        struct bell_arg args[ARRAY_LEN(values)];                               \
        struct bell_call f; /* results are the callee's to fill in */          \
        size_t i;                                                              \
                                                                               \
        for (i = 0; i < ARRAY_LEN(values); i++)                                \
            args[i] = (struct bell_arg){NULL, values[i]};                      \
        f.function = function;                                                 \
        f.args = args;                                                         \
        f.n_args = ARRAY_LEN(values);                                          \
        return bell_function_call(ctx, &f) == BELL_OK ? f.results[0] : NULL;   \
    }
ROWS(MEMBER)

static const struct {
    const char *name;
    struct bell_tensor *(*c)(void);
    struct bell_tensor *(*by_name)(const struct bell_function *function);
} rows[] = {
#define ENTRY(name, call, ...) {#name, c_##name, by_name_##name},
    ROWS(ENTRY)};

/* Nanoseconds of a call and the release of its result; -1 where it failed. */
static double
time_calls(size_t i, const struct bell_function *function)
{
    uint64_t start = time_now_ns();
    int k;

    for (k = 0; k < N_CALLS; k++) {
        struct bell_tensor *t =
            function ? rows[i].by_name(function) : rows[i].c();
        if (!t || bell_is_error(t))
            return -1;
        bell_tensor_release(t);
    }
    return (double)(time_now_ns() - start) / N_CALLS;
}

static void
run_row(struct bench *bench, size_t i)
{
    static double by_name[N_TURNS], c[N_TURNS];
    const struct bell_function *function = bell_function_find(rows[i].name);
    double name_ns, c_ns;
    int turn;

    for (turn = 0; turn < N_TURNS; turn++) {
        by_name[turn] = time_calls(i, function);
        c[turn] = time_calls(i, NULL);
        if (!function || by_name[turn] < 0 || c[turn] < 0) {
            fprintf(stderr, "%s: %s\n", rows[i].name,
                    bell_error_last()->message);
            bench->n_failed++;
            return;
        }
    }
    name_ns = bench_median(by_name, N_TURNS);
    c_ns = bench_median(c, N_TURNS);
    json_object(&bench->json, NULL);
    json_str(&bench->json, "name", rows[i].name);
    json_num(&bench->json, "by_name_ns", name_ns);
    json_num(&bench->json, "c_ns", c_ns);
    json_num(&bench->json, "ratio", name_ns / c_ns);
    json_end(&bench->json);
}

int
main(int argc, char **argv)
{
    static const float data[16] = {1, 2, 3, 4};
    struct bench bench;
    size_t i;

    bench_begin(&bench, argc, argv);
    if (bell_context_create("CPU", &ctx) != BELL_OK) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        return 1;
    }
    x = bell_from_data(ctx, DIMS(4, 4), BELL_FLOAT32, data);
    y = bell_from_data(ctx, DIMS(4, 4), BELL_FLOAT32, data);
    row = bell_from_data(ctx, DIMS(4), BELL_FLOAT32, data);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (bench_wants(&bench, rows[i].name))
            run_row(&bench, i);
    }
    bell_context_destroy(ctx);
    return bench_end(&bench);
}
