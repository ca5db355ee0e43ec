/* What the steps of the selftest stand on, made when the first one needs it. */
#include "tools/selftest/selftest.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/kio.h"
#include "ioctl/kio_interface.h"

/* ---- the kernel driver ---- */

bell_status
selftest_need_kio(struct selftest *st)
{
    if (st->kio)
        return BELL_OK;
    return kio_open_interface(st->backend, st->interface, &st->kio);
}

/* ---- the device ---- */

bell_status
selftest_need_device(struct selftest *st)
{
    bell_status status;

    if (st->dev && hcq_device_status(st->dev) != BELL_OK)
        selftest_close_device(st);
    if (st->dev)
        return BELL_OK;
    BELL_TRY(hcq_device_open(st->device, &st->dev));
    st->info.struct_size = sizeof(st->info);
    hcq_device_info(st->dev, &st->info);
    status = hcq_queue_create(st->dev, HCQ_QUEUE_COMPUTE, &st->compute);
    if (status == BELL_OK)
        status = hcq_queue_create(st->dev, HCQ_QUEUE_COPY, &st->copy);
    if (status != BELL_OK)
        selftest_close_device(st);
    return status;
}

bell_status
selftest_program_create(struct hcq_device *dev, enum selftest_kernel kernel,
                        struct hcq_program **out_prog)
{
    struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
    struct selftest_binary binary;
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    bell_status status;

    hcq_device_info(dev, &info);
    BELL_TRY(selftest_kernel_binary(&info, kernel, &binary));
    desc.name = binary.name;
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    desc.n_bufs = binary.n_bufs;
    desc.n_vals = binary.n_vals;
    if (kernel == SELFTEST_DYNAMIC)
        desc.shared_bytes = info.max_shared_bytes;
    status = hcq_program_create(dev, &desc, out_prog);
    host_free(binary.data);
    return status;
}

bell_status
selftest_need_kernel(struct selftest *st, enum selftest_kernel kernel,
                     struct hcq_program **out_prog)
{
    BELL_TRY(selftest_need_device(st));
    if (!st->programs[kernel])
        BELL_TRY(
            selftest_program_create(st->dev, kernel, &st->programs[kernel]));
    *out_prog = st->programs[kernel];
    return BELL_OK;
}

void
selftest_close_device(struct selftest *st)
{
    size_t i;

    selftest_end_step(st);
    for (i = 0; i < SELFTEST_KERNEL_COUNT; i++) {
        hcq_program_destroy(st->programs[i]);
        st->programs[i] = NULL;
    }
    hcq_queue_destroy(st->compute);
    hcq_queue_destroy(st->copy);
    st->compute = st->copy = NULL;
    hcq_device_close(st->dev);
    st->dev = NULL;
}

void
selftest_close(struct selftest *st)
{
    selftest_close_device(st);
    selftest_close_rm(st);
    selftest_close_kfd(st);
    kio_destroy(st->kio);
    st->kio = NULL;
}

void
selftest_forget(struct selftest *st)
{
    memset(st->programs, 0, sizeof(st->programs));
    st->compute = st->copy = NULL;
    st->dev = NULL;
    st->rm = NULL;
    st->kfd = NULL;
    st->kio = NULL;
}

/* ---- things of one step ---- */

static bell_status
check_room(size_t n)
{
    if (n == SELFTEST_KEEP_MAX)
        return bell_fail(BELL_E_INTERNAL, "a step keeps more than %d things",
                         SELFTEST_KEEP_MAX);
    return BELL_OK;
}

bell_status
selftest_buffer(struct selftest *st, uint64_t size_bytes, uint32_t flags,
                struct hcq_buffer **out_buf)
{
    BELL_TRY(check_room(st->n_buffers));
    BELL_TRY(hcq_buffer_create(st->dev, size_bytes, flags, out_buf));
    st->buffers[st->n_buffers++] = *out_buf;
    return BELL_OK;
}

bell_status
selftest_signal(struct selftest *st, uint64_t value,
                struct hcq_signal **out_sig)
{
    BELL_TRY(check_room(st->n_signals));
    BELL_TRY(hcq_signal_create(st->dev, value, out_sig));
    st->signals[st->n_signals++] = *out_sig;
    return BELL_OK;
}

bell_status
selftest_stream(struct selftest *st, struct hcq_queue *queue,
                struct hcq_stream **out_stream)
{
    BELL_TRY(check_room(st->n_streams));
    BELL_TRY(hcq_stream_create(queue, "selftest", out_stream));
    st->streams[st->n_streams++] = *out_stream;
    return BELL_OK;
}

bell_status
selftest_host(struct selftest *st, uint64_t size_bytes, uint32_t **out_words)
{
    BELL_TRY(check_room(st->n_hosts));
    *out_words = host_aligned(4096, align_up(size_bytes, 4096));
    if (!*out_words)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory on the host");
    st->hosts[st->n_hosts++] = *out_words;
    return BELL_OK;
}

void
selftest_end_step(struct selftest *st)
{
    while (st->n_streams)
        hcq_stream_destroy(st->streams[--st->n_streams]);
    while (st->n_signals)
        hcq_signal_destroy(st->signals[--st->n_signals]);
    while (st->n_buffers)
        hcq_buffer_destroy(st->buffers[--st->n_buffers]);
    while (st->n_hosts)
        host_free(st->hosts[--st->n_hosts]);
}

enum selftest_verdict
selftest_check_mapping(struct selftest *st, volatile uint32_t *cpu,
                       uint32_t size_bytes)
{
    uint32_t i, key = (uint32_t)st->run * 40503u;

    for (i = 0; i < size_bytes / 4; i += 61)
        cpu[i] = i * 2654435761u ^ key;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (i = 0; i < size_bytes / 4; i += 61) {
        uint32_t got = cpu[i];
        if (got != (i * 2654435761u ^ key))
            return selftest_fail(st, "byte %u: 0x%08x, not 0x%08x", 4 * i, got,
                                 i * 2654435761u ^ key);
    }
    return SELFTEST_PASSED;
}

bell_status
selftest_finish(struct hcq_queue *queue, struct hcq_cs *cs)
{
    BELL_TRY(hcq_cs_submit(cs, NULL));
    return hcq_queue_wait(queue, SELFTEST_WAIT_NS);
}
