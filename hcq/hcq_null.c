/* The device that compiles and runs nothing. Its limits are those that the
 * backends' drivers give (test_chip compares them with simulated cards). */
#include "hcq/hcq_null.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/thread.h"
#include "hcq/hcq_packet.h"

#define FIRST_VA   ((uint64_t)1 << 32)
#define PAGE_BYTES 4096u

struct null_device {
    struct hcq_device base;
    _Atomic uint64_t next_va, used_bytes;
};

/* Work-groups and grids as each backend's driver says. */
static const struct limits {
    const char *backend;
    uint32_t max_grid_x, max_grid_yz;
    uint32_t max_local[3], max_local_total;
} limits[] = {
    {"NV", INT32_MAX, 65535, {1024, 1024, 64}, 1024},
    {"AMD", UINT32_MAX / 1024, 65535, {1024, 1024, 1024}, 1024},
    {"QCOM", 65535, 65535, {1024, 1024, 1024}, 1024},
    {"CPU", INT32_MAX, 65535, {1, 1, 1}, 1},
};

static struct null_device *
null_device(struct hcq_device *dev)
{
    return HCQ_CONTAINER(dev, struct null_device, base);
}

/* ---- memory that is not there ---- */

static bell_status
null_mem_alloc(struct hcq_device *base, uint64_t size_bytes, uint32_t flags,
               struct hcq_backing *out)
{
    struct null_device *dev = null_device(base);
    uint64_t bytes = align_up(size_bytes ? size_bytes : 1, PAGE_BYTES);

    if (flags & HCQ_MEM_HOST_VISIBLE)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s has no memory that the host could see",
                         base->info.name);
    if (atomic_fetch_add(&dev->used_bytes, bytes) + bytes >
        base->info.memory_bytes) {
        atomic_fetch_sub(&dev->used_bytes, bytes);
        return bell_fail(BELL_E_NO_MEMORY,
                         "%s: out of memory: no room for %llu bytes",
                         base->info.name, (unsigned long long)size_bytes);
    }
    *out = (struct hcq_backing){
        .va = atomic_fetch_add(&dev->next_va, bytes),
        .size_bytes = bytes,
    };
    return BELL_OK;
}

static void
null_mem_free(struct hcq_device *base, const struct hcq_backing *mem)
{
    assert(atomic_load(&null_device(base)->used_bytes) >= mem->size_bytes);
    atomic_fetch_sub(&null_device(base)->used_bytes, mem->size_bytes);
}

static bell_status
null_mem_pin(struct hcq_device *base, void *ptr, uint64_t size_bytes,
             struct hcq_backing *out)
{
    (void)base;
    *out = (struct hcq_backing){
        .va = (uint64_t)(uintptr_t)ptr,
        .host = ptr,
        .size_bytes = size_bytes,
    };
    return BELL_OK;
}

static void
null_mem_unpin(struct hcq_device *base, const struct hcq_backing *mem)
{
    (void)base;
    (void)mem;
}

static bell_status
null_mem_write(struct hcq_device *base, uint64_t va, const void *data,
               uint64_t size_bytes)
{
    (void)base;
    (void)va;
    (void)data;
    (void)size_bytes;
    return BELL_OK;
}

static bell_status
null_mem_read(struct hcq_device *base, uint64_t va, void *data,
              uint64_t size_bytes)
{
    (void)va;
    (void)data;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s compiles kernels and runs none: there are no %llu "
                     "bytes of a result to read",
                     base->info.name, (unsigned long long)size_bytes);
}

/* ---- signals: a value and a timestamp in memory of our own ---- */

static bell_status
null_signal_alloc(struct hcq_device *base, uint64_t *out_va,
                  uint64_t **out_host)
{
    uint64_t *words = host_calloc(2, sizeof(*words));

    if (!words)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a signal",
                         base->info.name);
    *out_va = (uint64_t)(uintptr_t)words;
    *out_host = words;
    return BELL_OK;
}

static void
null_signal_free(struct hcq_device *base, struct hcq_signal *sig)
{
    (void)base;
    host_free(sig->host);
}

static const struct hcq_device_ops null_ops;

static bell_status
null_signal_map(struct hcq_device *base, const struct hcq_signal *sig,
                uint64_t *out_va)
{
    if (sig->dev->ops != &null_ops)
        return bell_fail(BELL_E_UNSUPPORTED, "%s cannot use a signal of %s",
                         base->info.name, sig->dev->info.name);
    *out_va = sig->va;
    return BELL_OK;
}

/* ---- programs and submissions ---- */

static bell_status
null_program_create(struct hcq_device *base,
                    const struct hcq_program_desc *desc,
                    struct hcq_program_base **out_prog)
{
    struct hcq_program_base *prog = host_calloc(1, sizeof(*prog));

    if (!prog)
        return bell_fail(BELL_E_NO_MEMORY, "program '%s': out of memory for it",
                         desc->name);
    hcq_program_init(prog, base, desc);
    prog->pub.code_size_bytes = desc->binary_size_bytes;
    *out_prog = prog;
    return BELL_OK;
}

static void
null_program_destroy(struct hcq_program_base *prog)
{
    host_free(prog);
}

/* As the driver's for that chip. */
static enum hcq_words
words_of(const char *backend, enum hcq_queue_kind kind)
{
    if (strcmp(backend, "NV") == 0)
        return HCQ_WORDS_NV;
    if (strcmp(backend, "QCOM") == 0)
        return HCQ_WORDS_PKT7;
    if (strcmp(backend, "AMD") != 0)
        return HCQ_WORDS_NONE;
    return kind == HCQ_QUEUE_COPY ? HCQ_WORDS_SDMA : HCQ_WORDS_PM4;
}

static bell_status
null_queue_create(struct hcq_device *base, const struct hcq_queue_desc *desc,
                  struct hcq_queue **out_queue)
{
    struct hcq_queue *queue = host_calloc(1, sizeof(*queue));
    uint32_t ring_bytes;
    bell_status status;

    if (!queue)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a queue",
                         base->info.name);
    queue->sync_va_end = queue->copy_va_end = UINT64_MAX;
    queue->words = (uint8_t)words_of(base->info.backend, desc->kind);
    status = hcq_queue_ring_bytes(base, desc, 1u << 30, &ring_bytes);
    if (status == BELL_OK)
        status = hcq_queue_init(queue, base, desc, ring_bytes);
    if (status != BELL_OK) {
        host_free(queue);
        return status;
    }
    *out_queue = queue;
    return BELL_OK;
}

static void
null_queue_destroy(struct hcq_queue *queue)
{
    hcq_queue_fini(queue);
    host_free(queue);
}

/* Signals and timestamps of a stream, in its order; then the timeline. */
static void
complete(const struct hcq_cs *cs, struct hcq_queue *queue, uint64_t value)
{
    const struct hcq_packet *packet;
    uint32_t dw;

    for (dw = 0; dw < cs->n_dw; dw += packet->head.n_dw) {
        uint64_t *words;

        packet = hcq_packet_at(cs->words, dw);
        assert(packet->head.n_dw >= HCQ_HEAD_DW);
        words = (uint64_t *)(uintptr_t)packet->word[0];
        if (packet->head.op == HCQ_OP_SIGNAL)
            __atomic_store_n(&words[0], packet->word[1], __ATOMIC_RELEASE);
        else if (packet->head.op == HCQ_OP_TIMESTAMP)
            __atomic_store_n(&words[1], time_now_ns(), __ATOMIC_RELEASE);
    }
    hcq_signal_set(queue->timeline, value);
}

static bell_status
null_queue_submit(struct hcq_queue *queue, uint64_t value)
{
    complete(&queue->cs, queue, value);
    return BELL_OK;
}

static bell_status
null_stream_bind(struct hcq_stream *stream)
{
    (void)stream;
    return BELL_OK;
}

static void
null_stream_unbind(struct hcq_stream *stream)
{
    (void)stream;
}

static bell_status
null_stream_submit(struct hcq_stream *stream, uint64_t value)
{
    complete(&stream->cs, stream->queue, value);
    return BELL_OK;
}

/* ---- the device ---- */

static void
null_close(struct hcq_device *base)
{
    hcq_device_fini(base);
    host_free(null_device(base));
}

static bell_status
null_stop(struct hcq_device *base)
{
    (void)base;
    return BELL_OK;
}

static void
null_resume(struct hcq_device *base)
{
    (void)base;
}

static void
null_describe(struct hcq_device *base, char *text, size_t size_bytes)
{
    (void)base;
    snprintf(text, size_bytes, "nothing runs");
}

static const struct hcq_device_ops null_ops = {
    .close = null_close,
    .stop = null_stop,
    .resume = null_resume,
    .describe = null_describe,
    .mem_alloc = null_mem_alloc,
    .mem_free = null_mem_free,
    .mem_pin = null_mem_pin,
    .mem_unpin = null_mem_unpin,
    .mem_write = null_mem_write,
    .mem_read = null_mem_read,
    .signal_alloc = null_signal_alloc,
    .signal_free = null_signal_free,
    .signal_sleep = hcq_signal_nap,
    .signal_map = null_signal_map,
    .program_create = null_program_create,
    .program_destroy = null_program_destroy,
    .queue_create = null_queue_create,
    .queue_destroy = null_queue_destroy,
    .queue_submit = null_queue_submit,
    .stream_bind = null_stream_bind,
    .stream_unbind = null_stream_unbind,
    .stream_submit = null_stream_submit,
};

static void
null_fill_info(struct hcq_device_info *info, const struct limits *limit,
               const char *name, const struct chip_arch *arch,
               const struct chip *chip)
{
    int i;

    info->struct_size = sizeof(*info);
    info->flags = HCQ_DEVICE_SIMULATED | HCQ_DEVICE_NULL;
    snprintf(info->name, sizeof(info->name), "%s:0@null:%s", limit->backend,
             name);
    snprintf(info->backend, sizeof(info->backend), "%s", limit->backend);
    snprintf(info->arch, sizeof(info->arch), "%s", arch->name);
    snprintf(info->model, sizeof(info->model), "%s, compiled for, not run",
             chip ? chip->board : arch->name);
    info->n_units = chip ? chip->n_units : arch->n_units;
    info->max_grid[0] = limit->max_grid_x;
    info->max_grid[1] = info->max_grid[2] = limit->max_grid_yz;
    for (i = 0; i < 3; i++)
        info->max_local[i] = limit->max_local[i];
    info->max_local_total = limit->max_local_total;
    info->max_shared_bytes = arch->group_shared_bytes;
    info->max_args = HCQ_ARGS_MAX;
    info->memory_bytes = chip ? chip->memory_bytes : (uint64_t)8 << 30;
    info->max_buffer_bytes = info->memory_bytes;
    info->timestamp_hz = 1000000000u;
}

bell_status
hcq_null_open(const char *backend, unsigned idx, const char *name,
              struct hcq_device **out_dev)
{
    const struct chip *chip = chip_find(name);
    const struct chip_arch *arch = chip_arch_find(chip ? chip->arch : name);
    struct null_device *dev;
    char known[400];
    bell_status status;
    size_t i = 0;

    if (chip_why_refused(name))
        return bell_fail(BELL_E_UNSUPPORTED, "%s", chip_why_refused(name));
    if (!arch || strcmp(arch->backend, backend) != 0) {
        chip_list(backend, known, sizeof(known));
        return bell_fail(BELL_E_NO_DEVICE,
                         "no %s chip '%.40s' to compile for; known: %s",
                         backend, name, known);
    }
    if (idx)
        return bell_fail(BELL_E_NO_DEVICE,
                         "no device %s:%u@null:%s; there is %s:0", backend, idx,
                         name, backend);
    dev = host_calloc(1, sizeof(*dev));
    if (!dev)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %s@null:%s",
                         backend, name);
    while (strcmp(limits[i].backend, backend) != 0)
        i++;
    null_fill_info(&dev->base.info, &limits[i], name, arch, chip);
    dev->base.ops = &null_ops;
    dev->base.timestamp_word = 1;
    atomic_init(&dev->next_va, FIRST_VA);
    status = hcq_device_init(&dev->base);
    if (status != BELL_OK) {
        host_free(dev);
        return status;
    }
    *out_dev = &dev->base;
    return BELL_OK;
}
