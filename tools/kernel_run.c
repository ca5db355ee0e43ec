/* Kernels from text, launched and timed. */
#include "tools/kernel_run.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/hcq.h"

/* For all buffers of a kernel. */
#define BUFFERS_MAX_GIB 4

/* What a run needs; all of it is freed together. */
struct timed_run {
    struct hcq_device *dev;
    struct hcq_program *program;
    struct hcq_queue *queue;
    struct hcq_signal *signals[2]; /* before and behind a launch */
    struct hcq_buffer *buffers[TENSOR_IR_PARAMS];
    uint64_t args[2 * TENSOR_IR_PARAMS];
};

/* Floats from 1 to 2; integers of any size. */
static bell_status
fill_random(struct hcq_buffer *buf)
{
    uint32_t words[1024], seed = 1;
    uint64_t at, n;
    size_t i;

    for (at = 0; at < buf->size_bytes; at += n) {
        n = buf->size_bytes - at;
        if (n > sizeof(words))
            n = sizeof(words);
        for (i = 0; i < ARRAY_LEN(words); i++) {
            seed = seed * 1664525 + 1013904223;
            words[i] = 0x3f800000 | seed >> 9;
        }
        BELL_TRY(hcq_buffer_write(buf, at, words, n));
    }
    return BELL_OK;
}

static bell_status
make_args(struct timed_run *run, const struct tensor_ir *ir)
{
    const uint64_t float_one = 0x3f800000;
    uint64_t left = (uint64_t)BUFFERS_MAX_GIB << 30;
    uint32_t i;

    if (ir->n_params > TENSOR_IR_PARAMS || ir->n_vars > TENSOR_IR_PARAMS)
        return bell_fail(BELL_E_UNSUPPORTED, "%s: %u parameters and %u numbers",
                         ir->name, ir->n_params, ir->n_vars);
    for (i = 0; i < ir->n_params; i++) {
        if (!ir->param_bytes[i])
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: nothing bounds the indices of parameter %u: "
                             "it cannot be run on a buffer of random numbers",
                             ir->name, i);
        if (ir->param_bytes[i] > left)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: parameter %u has %" PRIu64
                             " bytes by its indices: a kernel's buffers of "
                             "random numbers have at most %d GiB",
                             ir->name, i, ir->param_bytes[i], BUFFERS_MAX_GIB);
        left -= ir->param_bytes[i];
        BELL_TRY(hcq_buffer_create(run->dev, ir->param_bytes[i], 0,
                                   &run->buffers[i]));
        BELL_TRY(fill_random(run->buffers[i]));
        run->args[i] = run->buffers[i]->va;
    }
    for (i = 0; i < ir->n_vars; i++)
        run->args[ir->n_params + i] = ir->is_float_var[i] ? float_one : 1;
    return BELL_OK;
}

/* The first launch is not counted. */
static bell_status
launch_kernel(struct timed_run *run, const struct tensor_ir *ir, int64_t n_runs,
              double *times)
{
    struct hcq_cs *cs;
    uint64_t first, last;
    int64_t i;

    for (i = -1; i < n_runs; i++) {
        BELL_TRY(hcq_queue_begin(run->queue, &cs));
        hcq_cs_timestamp(cs, run->signals[0]);
        hcq_cs_exec(cs, run->program, run->args, ir->n_params + ir->n_vars,
                    ir->grid, ir->local);
        hcq_cs_timestamp(cs, run->signals[1]);
        BELL_TRY(hcq_cs_submit(cs, NULL));
        BELL_TRY(hcq_queue_wait(run->queue, HCQ_WAIT_WHILE_MOVING));
        first = hcq_signal_timestamp(run->signals[0]);
        last = hcq_signal_timestamp(run->signals[1]);
        if (i >= 0)
            times[i] = (double)(hcq_timestamp_to_ns(run->dev, last) -
                                hcq_timestamp_to_ns(run->dev, first)) /
                       1e3;
    }
    return BELL_OK;
}

static bell_status
run_kernel_program(struct timed_run *run, const struct tensor_ir *ir,
                   int64_t n_runs, double *out_us)
{
    double *times = host_calloc((size_t)n_runs, sizeof(*times));
    bell_status status;

    if (!times)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    status = launch_kernel(run, ir, n_runs, times);
    if (status == BELL_OK) {
        qsort(times, (size_t)n_runs, sizeof(*times), compare_doubles);
        *out_us = times[n_runs / 2];
    }
    host_free(times);
    return status;
}

static bell_status
prepare_kernel(struct timed_run *run, const struct tensor_ir *ir)
{
    BELL_TRY(hcq_queue_create(run->dev, HCQ_QUEUE_COMPUTE, &run->queue));
    BELL_TRY(hcq_signal_create(run->dev, 0, &run->signals[0]));
    BELL_TRY(hcq_signal_create(run->dev, 0, &run->signals[1]));
    return make_args(run, ir);
}

bell_status
kernel_run_text(struct bell_context *ctx, const char *text, int64_t n_runs,
                struct tensor_ir *out_ir, double *out_us)
{
    struct timed_run run = {.dev = tensor_device(ctx)};
    bell_status status;
    size_t i;

    if (tensor_device_is_null(ctx))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "--run: a device of @null: runs nothing");
    BELL_TRY(tensor_load_ir(ctx, text, out_ir, &run.program));
    status = prepare_kernel(&run, out_ir);
    if (status == BELL_OK)
        status = run_kernel_program(&run, out_ir, n_runs, out_us);
    hcq_queue_destroy(run.queue);
    for (i = 0; i < TENSOR_IR_PARAMS; i++)
        hcq_buffer_destroy(run.buffers[i]);
    hcq_signal_destroy(run.signals[0]);
    hcq_signal_destroy(run.signals[1]);
    hcq_program_destroy(run.program);
    return status;
}
