/* One kernel by itself: memory for it, runs of it, what it computes. */
#include "tensor/runtime/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define POISON 0xcbcbcbcbu

/* ---- values ---- */

/* Floats between -1 and 1, integers 0..9 and 0..1 for truth. */
static uint64_t
random_bits(uint64_t *rng, enum uop_dtype dtype)
{
    uint64_t r = hash_mix(++*rng) >> 11;

    if (dtype == UOP_BOOL)
        return r & 1;
    if (!uop_dtype_infos[dtype].is_float)
        return r % 10;
    return uop_float_bits(dtype,
                          (double)((int64_t)(r % 2049) - 1024) * (1.0 / 1024));
}

/* A table is filled once, and repeated with a shift: rows differ. */
static void
fill_random(void *data, uint64_t n, enum uop_dtype dtype, uint64_t *rng)
{
    size_t size = uop_dtype_infos[dtype].size_bytes;
    uint64_t table[1021], i;

    for (i = 0; i < 1021; i++)
        table[i] = random_bits(rng, dtype);
    for (i = 0; i < n; i++)
        memcpy((char *)data + i * size, &table[(i + i / 1021 * 7) % 1021],
               size);
}

static uint64_t
buffer_bytes(const struct rt_bench *b, uint32_t i, enum uop_dtype *out_dtype,
             uint64_t *out_n)
{
    *out_dtype = b->with->bufs[i].dtype;
    *out_n = b->with->bufs[i].n_elems;
    return *out_n * uop_dtype_infos[*out_dtype].size_bytes;
}

static bell_status
fill_inputs(struct rt_bench *b)
{
    uint64_t rng = 0x9e3779b97f4a7c15ull, n, n_bytes;
    enum uop_dtype dtype;
    uint32_t i;

    if (b->rt->info.flags & HCQ_DEVICE_NULL)
        return BELL_OK;
    for (i = b->with->n_outs; i < b->with->n_bufs; i++) {
        bell_status status;
        void *data;
        n_bytes = buffer_bytes(b, i, &dtype, &n);
        data = host_alloc(n_bytes + 1);
        if (!data)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory searching");
        fill_random(data, n, dtype, &rng);
        status = hcq_buffer_write(b->bufs[i], 0, data, n_bytes);
        host_free(data);
        BELL_TRY(status);
    }
    return BELL_OK;
}

/* ---- memory ---- */

static bell_status
make_objects(struct rt_bench *b)
{
    struct hcq_device *dev = b->rt->dev;
    uint64_t n, n_bytes, most = 1;
    enum uop_dtype dtype;
    uint32_t i;

    BELL_TRY(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &b->queue));
    BELL_TRY(hcq_signal_create(dev, 0, &b->begin));
    BELL_TRY(hcq_signal_create(dev, 0, &b->end));
    BELL_TRY(hcq_signal_create(dev, 0, &b->never));
    b->want = host_calloc(b->with->n_outs + 1, sizeof(*b->want));
    if (!b->want)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory searching");
    for (i = 0; i < b->with->n_bufs; i++) {
        n_bytes = buffer_bytes(b, i, &dtype, &n);
        BELL_TRY(hcq_buffer_create(dev, n_bytes, HCQ_MEM_DEVICE, &b->bufs[i]));
        b->args[i] = b->bufs[i]->va;
        if (i >= b->with->n_outs)
            continue;
        most = n_bytes > most ? n_bytes : most;
        b->want[i] = host_alloc(n_bytes + 1);
        if (!b->want[i])
            return bell_fail(BELL_E_NO_MEMORY, "out of memory searching");
    }
    b->got = host_alloc(most);
    if (!b->got)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory searching");
    memcpy(&b->args[b->with->n_bufs], b->with->words,
           b->with->n_words * sizeof(*b->args));
    return fill_inputs(b);
}

bell_status
rt_bench_init(struct rt_bench *b, struct tensor_runtime *rt,
              const struct rt_bench_args *with)
{
    bell_status status;

    memset(b, 0, sizeof(*b));
    b->rt = rt;
    b->with = with;
    status = make_objects(b);
    if (status != BELL_OK)
        rt_bench_fini(b);
    return status;
}

void
rt_bench_fini(struct rt_bench *b)
{
    uint32_t i;

    hcq_queue_destroy(b->queue);
    hcq_signal_destroy(b->begin);
    hcq_signal_destroy(b->end);
    hcq_signal_destroy(b->never);
    for (i = 0; i < b->with->n_bufs; i++)
        hcq_buffer_destroy(b->bufs[i]);
    for (i = 0; b->want && i < b->with->n_outs; i++)
        host_free(b->want[i]);
    host_free(b->want);
    host_free(b->got);
    memset(b, 0, sizeof(*b));
}

/* ---- runs ---- */

/* After a fault inputs are what they were: a kernel that goes astray may have
 * written there. */
static bell_status
recover(struct rt_bench *b, bell_status status)
{
    struct bell_error error = *bell_error_last();

    BELL_TRY(hcq_device_recover(b->rt->dev));
    BELL_TRY(fill_inputs(b));
    hcq_signal_set(b->never, 0);
    (void)bell_error_set(&error);
    return status;
}

bell_status
rt_bench_run(struct rt_bench *b, const struct hcq_program *program,
             const struct rt_facts *facts, uint64_t timeout_ns,
             enum rt_bench_spoil spoil, double *out_us)
{
    uint64_t was = b->args[0], value, ticks;
    struct hcq_cs *cs;
    bell_status status;

    *out_us = 0;
    BELL_TRY(hcq_queue_begin(b->queue, &cs));
    if (spoil == RT_BENCH_BAD_ADDRESS)
        b->args[0] = 64;
    if (spoil == RT_BENCH_NEVER_ENDS)
        hcq_cs_wait(cs, b->never, 1);
    hcq_cs_timestamp(cs, b->begin);
    hcq_cs_exec(cs, program, b->args, program->n_bufs + program->n_vals,
                facts->grid, facts->local);
    hcq_cs_timestamp(cs, b->end);
    b->args[0] = was;
    status = hcq_cs_submit(cs, &value);
    if (status == BELL_OK)
        status =
            hcq_signal_wait(hcq_queue_timeline(b->queue), value, timeout_ns);
    if (status == BELL_E_DEVICE_LOST || status == BELL_E_TIMEOUT)
        return recover(b, status);
    BELL_TRY(status);
    ticks = hcq_signal_timestamp(b->end) - hcq_signal_timestamp(b->begin);
    *out_us = (double)ticks * 1e6 / (double)b->rt->info.timestamp_hz;
    return BELL_OK;
}

/* ---- results ---- */

bell_status
rt_bench_poison(struct rt_bench *b)
{
    enum uop_dtype dtype;
    struct hcq_cs *cs;
    uint64_t n, n_bytes, value;
    uint32_t i;

    BELL_TRY(hcq_queue_begin(b->queue, &cs));
    for (i = 0; i < b->with->n_outs; i++) {
        n_bytes = buffer_bytes(b, i, &dtype, &n);
        if (n_bytes)
            hcq_cs_fill(cs, b->bufs[i]->va, POISON, n_bytes);
    }
    BELL_TRY(hcq_cs_submit(cs, &value));
    return hcq_signal_wait(hcq_queue_timeline(b->queue), value,
                           HCQ_WAIT_WHILE_MOVING);
}

bell_status
rt_bench_keep(struct rt_bench *b)
{
    enum uop_dtype dtype;
    uint64_t n, n_bytes;
    uint32_t i;

    for (i = 0; i < b->with->n_outs; i++) {
        n_bytes = buffer_bytes(b, i, &dtype, &n);
        BELL_TRY(hcq_buffer_read(b->bufs[i], 0, b->want[i], n_bytes));
    }
    return BELL_OK;
}

/* By how much two results may differ, of what they are about as large as. */
static double
tolerance(enum uop_dtype dtype)
{
    if (dtype == UOP_F64)
        return 1e-9;
    if (dtype == UOP_F32)
        return 2e-4;
    return 4 * ldexp(1, -uop_dtype_infos[dtype].fraction_bits);
}

static double
float_at(const void *data, uint64_t i, enum uop_dtype dtype)
{
    size_t size = uop_dtype_infos[dtype].size_bytes;
    uint64_t bits = 0;
    float f;

    if (dtype == UOP_F32) { /* by far the most */
        memcpy(&f, (const char *)data + i * size, sizeof(f));
        return (double)f;
    }
    memcpy(&bits, (const char *)data + i * size, size);
    return uop_float_value(dtype, bits);
}

static bool
same_floats(const void *want, const void *got, uint64_t n, enum uop_dtype dtype)
{
    double sum = 0, usual, most = tolerance(dtype);
    uint64_t i, n_finite = 0;

    for (i = 0; i < n; i++) {
        double x = float_at(want, i, dtype);
        if (!isfinite(x))
            continue;
        sum += x * x;
        n_finite++;
    }
    usual = n_finite ? sqrt(sum / (double)n_finite) : 0;
    for (i = 0; i < n; i++) {
        double x = float_at(want, i, dtype), y = float_at(got, i, dtype);
        double size = fabs(x) > usual ? fabs(x) : usual;
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        if (!isfinite(x) || !(fabs(x - y) <= most * size))
            return false;
    }
    return true;
}

bell_status
rt_bench_compare(struct rt_bench *b, bool *out_same)
{
    enum uop_dtype dtype;
    uint64_t n, n_bytes;
    uint32_t i;

    *out_same = true;
    for (i = 0; i < b->with->n_outs && *out_same; i++) {
        n_bytes = buffer_bytes(b, i, &dtype, &n);
        BELL_TRY(hcq_buffer_read(b->bufs[i], 0, b->got, n_bytes));
        *out_same = memcmp(b->got, b->want[i], n_bytes) == 0 ||
                    (uop_dtype_infos[dtype].is_float &&
                     same_floats(b->want[i], b->got, n, dtype));
    }
    return BELL_OK;
}
