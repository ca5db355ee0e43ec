/* The Adreno device: finding chips, opening and closing one, its clock.
 * src: docs/hardware/adreno-kernel.md, "KGSL", "msm";
 * docs/hardware/adreno.md, "Chips"; docs/hardware/adreno-queues.md, "Clock". */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/qcom/qcom_move.h"
#include "ioctl/kio_interface.h"

#define BACKEND "QCOM"

#define MAX_GRID     65535u /* guess: what Vulkan's drivers promise */
#define MAX_LOCAL    1024u
#define SHARED_BYTES 32768u
#define COUNTER_HZ   19200000u

#define CLOCK_SAMPLES 4

/* The vendor's driver first: a kernel has one of them. */
static const struct qcom_kernel *const kernels[] = {&qcom_kgsl, &qcom_msm};

/* ---- the clock ----------------------------------------------------------- */

/* Both clocks at one moment: of some samples the one that took least. */
static bell_status
compare_clocks(struct hcq_device *base, struct hcq_clock_pair *out_pair)
{
    struct qcom_device *dev = qcom_device_of(base);
    uint64_t best = UINT64_MAX;
    int i;

    for (i = 0; i < CLOCK_SAMPLES; i++) {
        uint64_t before = time_now_ns(), ticks, after;

        BELL_TRY(dev->kernel->clock(dev, &ticks));
        after = time_now_ns();
        if (after - before >= best)
            continue;
        best = after - before;
        *out_pair = (struct hcq_clock_pair){
            .ticks = ticks,
            .host_ns = before + best / 2,
        };
    }
    return BELL_OK;
}

/* ---- what it is ---------------------------------------------------------- */

/* "740", "x1-85" */
static const char *
qcom_number_of(const struct chip_arch *chip)
{
    return chip->name + (chip->name[0] == 'a');
}

static void
fill_info(struct qcom_device *dev)
{
    struct hcq_device_info *info = &dev->base.info;
    uint64_t largest = UINT32_MAX & ~4095ull; /* of an object of KGSL */

    snprintf(info->arch, sizeof(info->arch), "%s", dev->chip->name);
    snprintf(info->model, sizeof(info->model), "%sAdreno %s (%s)",
             dev->kio->is_simulated ? "Simulated " : "",
             qcom_number_of(dev->chip), dev->kernel->name);
    info->n_units = dev->chip->n_units;
    info->max_grid[0] = info->max_grid[1] = info->max_grid[2] = MAX_GRID;
    info->max_local[0] = info->max_local[1] = info->max_local[2] = MAX_LOCAL;
    info->max_local_total = MAX_LOCAL;
    info->max_shared_bytes = SHARED_BYTES;
    /* Half of the host's memory, which is the chip's as well; no call tells. */
    info->memory_bytes =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    info->max_buffer_bytes =
        info->memory_bytes < largest ? info->memory_bytes : largest;
    info->timestamp_hz = COUNTER_HZ;
    info->flags |= HCQ_DEVICE_POLL_MASKS;
    if (dev->kio->is_simulated)
        info->flags |= HCQ_DEVICE_SIMULATED;
}

/* ---- life ---------------------------------------------------------------- */

static const struct hcq_device_ops qcom_ops;

static void
device_release(struct hcq_device *base)
{
    struct qcom_device *dev = qcom_device_of(base);

    if (dev->is_begun) {
        hcq_signal_pages_destroy(dev->signals);
        qcom_moves_free(dev);
        dev->kernel->end(dev);
    }
    kio_close(&dev->file);
    kio_destroy(dev->kio);
    pthread_mutex_destroy(&dev->map_lock);
    host_free(dev->maps);
    host_free(dev);
}

static void
device_close(struct hcq_device *base)
{
    struct hcq_queue *queue;

    /* nothing runs while memory goes */
    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue))
        qcom_feed_stop(&qcom_queue_of(queue)->feed);
    hcq_device_fini(base);
    device_release(base);
}

/* Node `idx` of those of both kernels. */
static bell_status
open_node(struct qcom_device *dev, unsigned idx)
{
    bell_status status = BELL_E_NO_DEVICE;
    size_t i;

    for (i = 0; i < ARRAY_LEN(kernels) && status == BELL_E_NO_DEVICE; i++) {
        dev->kernel = kernels[i];
        status = dev->kernel->open(dev->kio, idx, &dev->file);
    }
    if (status == BELL_E_NO_DEVICE)
        return bell_fail(BELL_E_NO_DEVICE,
                         "no chip %u: neither /dev/kgsl-3d0 nor a render node "
                         "of msm",
                         idx);
    return status;
}

static bell_status
check_chip(const struct chip_arch *chip, uint32_t chip_id)
{
    const char *why = chip_why_refused_adreno(chip_id);
    char known[160];

    if (chip)
        return BELL_OK;
    if (why)
        return bell_fail(BELL_E_UNSUPPORTED, "chip 0x%08x: %s", chip_id, why);
    chip_arch_list(BACKEND, known, sizeof(known));
    return bell_fail(BELL_E_UNSUPPORTED, "chip 0x%08x is not known; known: %s",
                     chip_id, known);
}

static bell_status
qcom_device_tell(struct hcq_device *base, const struct kio_told *told)
{
    return kio_tell(qcom_device_of(base)->kio, told);
}

static bell_status
device_open(struct hcq_device *base, unsigned idx, const char *interface)
{
    struct qcom_device *dev = qcom_device_of(base);
    uint32_t chip_id;

    BELL_TRY(kio_open_interface(BACKEND, interface, &dev->kio));
    base->is_told = kio_watches(dev->kio);
    BELL_TRY(open_node(dev, idx));
    BELL_TRY(dev->kernel->identify(&dev->file, &chip_id));
    dev->chip = chip_adreno_find(chip_id);
    BELL_TRY(check_chip(dev->chip, chip_id));
    dev->is_begun = true;
    BELL_TRY(dev->kernel->begin(dev));
    fill_info(dev);
    BELL_TRY(qcom_signals_open(dev));
    BELL_TRY(qcom_moves_load(dev));
    BELL_TRY(hcq_device_init(base));
    return BELL_OK;
}

static struct hcq_device *
device_alloc(void)
{
    struct qcom_device *dev = host_calloc(1, sizeof(*dev));

    if (!dev)
        return NULL;
    static_assert(ARRAY_LEN(dev->moves) == QCOM_MOVE_COUNT, "moves");
    dev->base.ops = &qcom_ops;
    dev->base.timestamp_word = 1;
    dev->file.fd = -1;
    pthread_mutex_init(&dev->map_lock, NULL);
    return &dev->base;
}

static bell_status
qcom_open(unsigned idx, const char *interface, struct hcq_device **out_dev)
{
    static const struct hcq_card_driver driver = {
        .backend = BACKEND,
        .alloc = device_alloc,
        .open = device_open,
        .release = device_release,
    };

    return hcq_card_open(&driver, idx, interface, out_dev);
}

/* ---- finding chips ------------------------------------------------------- */

static bell_status
look_at_node(struct kio *kio, unsigned idx, uint32_t *out_chip_id)
{
    bell_status status = BELL_E_NO_DEVICE;
    struct kio_file file;
    size_t i;

    for (i = 0; i < ARRAY_LEN(kernels) && status == BELL_E_NO_DEVICE; i++) {
        status = kernels[i]->open(kio, idx, &file);
        if (status != BELL_OK)
            continue;
        status = kernels[i]->identify(&file, out_chip_id);
        kio_close(&file);
    }
    return status;
}

static bell_status
qcom_enumerate(unsigned idx, struct hcq_device_desc *out)
{
    const struct chip_arch *chip;
    uint32_t chip_id;
    struct kio *kio;
    bell_status status;

    BELL_TRY(kio_sys_create(&kio));
    status = look_at_node(kio, idx, &chip_id);
    kio_destroy(kio);
    if (status == BELL_E_NO_MEMORY)
        return status;
    if (status != BELL_OK)
        return BELL_E_NO_DEVICE;
    chip = chip_adreno_find(chip_id);
    snprintf(out->name, sizeof(out->name), BACKEND ":%u", idx);
    snprintf(out->description, sizeof(out->description), "Adreno %s",
             chip ? qcom_number_of(chip) : "of a kind that is not known");
    out->usable = check_chip(chip, chip_id) == BELL_OK;
    if (!out->usable)
        snprintf(out->why_not, sizeof(out->why_not), "%.150s",
                 bell_error_last()->message);
    return BELL_OK;
}

static const struct hcq_device_ops qcom_ops = {
    .packet_measure = qcom_packet_measure,
    .packet_fix = qcom_packet_fix,
    .packet_repack = qcom_stream_repack,
    .close = device_close,
    .stop = qcom_fault_stop,
    .resume = qcom_fault_resume,
    .describe = hcq_ring_describe_all,
    .compare_clocks = compare_clocks,
    .check = qcom_fault_check,
    .mem_alloc = qcom_buffer_alloc,
    .mem_free = qcom_buffer_free,
    .mem_pin = qcom_buffer_pin,
    .mem_unpin = qcom_buffer_free,
    .mem_write = qcom_buffer_write,
    .mem_read = qcom_buffer_read,
    .tell = qcom_device_tell,
    .signal_alloc = qcom_signal_alloc,
    .signal_free = qcom_signal_free,
    .signal_sleep = hcq_signal_nap,
    .signal_map = qcom_signal_map,
    .program_create = qcom_program_create,
    .program_destroy = qcom_program_destroy,
    .queue_create = qcom_queue_create,
    .queue_destroy = qcom_queue_destroy,
    .queue_submit = qcom_queue_submit,
    .stream_bind = qcom_stream_bind,
    .stream_unbind = qcom_stream_unbind,
    .stream_submit = qcom_stream_submit,
};

const struct hcq_backend hcq_qcom_backend = {
    .name = BACKEND,
    .interfaces = "sim, record, replay, fault",
    .enumerate = qcom_enumerate,
    .open = qcom_open,
};
