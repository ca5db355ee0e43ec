/* Calls that only build a graph, each with the release of its result: the
 * plain C beside which bench_python.py has Python's.
 *
 * usage: bench_calls [bench options]
 */
#include <stdio.h>

#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/ops.h"
#include "tests/bench/bench.h"

#define N_TURNS 201
#define N_CALLS 200

static struct bell_tensor *x, *y;

/* clang-format off */
#define ROWS(ROW)                                                              \
    ROW("x + y", bell_add(x, y))                                               \
    ROW("x.relu()", bell_relu(x))                                              \
    ROW("x.exp()", bell_exp(x))                                                \
    ROW("x.softmax(-1)", bell_softmax(x, -1))                                  \
    ROW("x[0]", bell_index(x, BELL_ITEMS(bell_at(0))))                         \
    ROW("x[:, 1]", bell_index(x, BELL_ITEMS(bell_whole(), bell_at(1))))        \
    ROW("x + 1.5", bell_add_scalar(x, 1.5))                                    \
    ROW("x.sum(1)", bell_sum(x, BELL_DIMS(1), false))                          \
    ROW("x.reshape(3, 2)", bell_reshape(x, BELL_DIMS(3, 2)))
/* clang-format on */

/* Nanoseconds of a row's call, the median of many turns; -1: it fails. */
static double
time_row(size_t row)
{
    static double turns[N_TURNS];
    int turn, k;

    for (turn = 0; turn < N_TURNS; turn++) {
        uint64_t start = time_now_ns();

        for (k = 0; k < N_CALLS; k++) {
            struct bell_tensor *made = NULL;
            size_t at = 0;

#define CALL(name, call)                                                       \
    if (row == at++)                                                           \
        made = call;
            ROWS(CALL)
            if (bell_is_error(made))
                return -1;
            bell_tensor_release(made);
        }
        turns[turn] = (double)(time_now_ns() - start) / N_CALLS;
    }
    return bench_median(turns, N_TURNS);
}

int
main(int argc, char **argv)
{
#define NAME(name, call) name,
    static const char *const names[] = {ROWS(NAME)};
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    struct bell_context *ctx;
    struct bench bench;
    size_t i;

    bench_begin(&bench, argc, argv);
    if (bell_context_create("CPU", &ctx) != BELL_OK) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        return 1;
    }
    x = bell_from_data(ctx, BELL_DIMS(2, 3), BELL_FLOAT32, data);
    y = bell_from_data(ctx, BELL_DIMS(2, 3), BELL_FLOAT32, data);
    for (i = 0; i < ARRAY_LEN(names); i++) {
        double ns = bench_wants(&bench, names[i]) ? time_row(i) : 0;

        if (ns < 0)
            bench.n_failed++;
        if (ns == 0)
            continue;
        json_object(&bench.json, NULL);
        json_str(&bench.json, "name", names[i]);
        json_num(&bench.json, "ns", ns);
        json_end(&bench.json);
    }
    bell_context_destroy(ctx);
    return bench_end(&bench);
}
