/* Calls that only build a graph, each with the release of its result: the
 * plain C beside which bench_python.py has Python's.
 *
 * usage: bench_calls [bench options]
 */
#include <stdio.h>
#include <time.h>

#include "base/bits.h"
#include "doorbell/jit.h"
#include "doorbell/ops.h"
#include "tests/bench/bench.h"

#define N_TURNS 201
#define N_CALLS 200

static struct bell_tensor *x, *y;
static struct bell_jit *jit;

/* A captured function: (x + y).softmax(-1).relu(). Its call queues a kernel. */
static bell_status
step(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    (void)ctx;
    (void)user;
    out[0] = bell_relu(bell_softmax(bell_add(in[0], in[1]), -1));
    return BELL_OK;
}

static struct bell_tensor *
call_step(void)
{
    struct bell_tensor *const in[] = {x, y};
    struct bell_tensor *out = NULL;

    return bell_jit_call(jit, in, &out) == BELL_OK ? out : NULL;
}

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
    ROW("x.reshape(3, 2)", bell_reshape(x, BELL_DIMS(3, 2)))                   \
    ROW("step(x, y)", call_step())
/* clang-format on */

/* Time of the caller alone: its processor may be others', and the queue has a
 * thread of its own. */
static uint64_t
thread_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of a row's call, the median of many turns; -1: it fails. */
static double
time_row(size_t row)
{
    static double turns[N_TURNS];
    int turn, k;

    for (turn = 0; turn < N_TURNS; turn++) {
        uint64_t start = thread_ns();

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
        turns[turn] = (double)(thread_ns() - start) / N_CALLS;
    }
    return bench_median(turns, N_TURNS);
}

int
main(int argc, char **argv)
{
#define NAME(name, call) name,
    static const char *const names[] = {ROWS(NAME)};
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    const struct bell_jit_desc desc = {sizeof(desc), "step", step, NULL, 2, 1};
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
    if (bell_jit_create(ctx, &desc, &jit) != BELL_OK) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        return 1;
    }
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
