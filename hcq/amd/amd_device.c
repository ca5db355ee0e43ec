/* The AMD device: finding cards, opening and closing one, its clock.
 * src: docs/hardware/amd-kernel.md, "Opening", "Topology";
 * docs/hardware/amd-queues.md, "PM4". */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/env.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/amd/amd_kfd.h"
#include "ioctl/kfd_uapi.h"
#include "ioctl/kio_interface.h"

#define BACKEND "AMD"

#define MAX_GRID_X  0x3fffffu /* times 1024 work-items: 32 bits of AQL */
#define MAX_GRID_YZ 65535u
#define MAX_LOCAL   1024u

#define CLOCK_SAMPLES 8

/* ---- the clock ----------------------------------------------------------- */

/* Both clocks at one moment: of some samples the one that took least. */
static bell_status
amd_compare_clocks(struct hcq_device *base, struct hcq_clock_pair *out_pair)
{
    struct amd_device *dev = amd_device_of(base);
    uint64_t best = UINT64_MAX;
    int i;

    for (i = 0; i < CLOCK_SAMPLES; i++) {
        struct kfd_clock_counters clocks = {.gpu_id = dev->topology.gpu_id};
        uint64_t before = time_now_ns(), after;

        BELL_TRY(amd_call(dev->process, KFD_GET_CLOCKS, &clocks));
        after = time_now_ns();
        if (after - before >= best)
            continue;
        best = after - before;
        *out_pair = (struct hcq_clock_pair){
            .ticks = clocks.gpu_clock,
            .host_ns = before + best / 2,
        };
    }
    return BELL_OK;
}

static bell_status
clock_mhz(struct hcq_device *base, uint32_t *out_mhz)
{
    struct amd_device *dev = amd_device_of(base);
    uint32_t mhz = 0;
    bell_status status;
    int error;
    struct amdgpu_info info = {
        .return_pointer = (uintptr_t)&mhz,
        .return_bytes = sizeof(mhz),
        .query = AMDGPU_INFO_SENSOR,
        .rest = {AMDGPU_INFO_SENSOR_GFX_SCLK},
    };

    status = kio_ioctl(&dev->process->cards[dev->card].drm, AMDGPU_INFO_REQUEST,
                       &info);
    error = bell_error_last()->sys_errno;
    /* Without power management, as in a virtual function.
     * src: Linux 6.12, amdgpu_kms.c */
    if (status != BELL_OK && (error == ENOENT || error == EINVAL))
        return bell_fail_errno(BELL_E_UNSUPPORTED, error,
                               "%s: the driver has no sensor of the clock",
                               base->info.name);
    BELL_TRY(status);
    if (mhz == 0)
        return bell_fail(BELL_E_UNSUPPORTED, "%s: the driver tells 0 MHz",
                         base->info.name);
    *out_mhz = mhz;
    return BELL_OK;
}

/* ---- what it is ---------------------------------------------------------- */

/* Adds which part of which GPU it is, if it is one. */
static void
name_partition(const struct amd_topology *card, char *text, size_t size_bytes)
{
    size_t n = strlen(text);

    if (card->is_partition)
        snprintf(text + n, size_bytes - n, ", part %u of %04x:%02x:%02x.%x",
                 card->partition, card->domain & 0xffff, card->location >> 8,
                 card->location >> 3 & 0x1f, card->location & 7);
}

static void
amd_fill_info(struct amd_device *dev)
{
    struct hcq_device_info *info = &dev->base.info;
    const struct amd_topology *t = &dev->topology;

    snprintf(info->arch, sizeof(info->arch), "%s", dev->chip->name);
    snprintf(info->model, sizeof(info->model), "%s%.20s",
             dev->process->kio->is_simulated ? "Simulated " : "", t->name);
    name_partition(t, info->model, sizeof(info->model));
    info->n_units = t->n_cu * t->n_xcc;
    info->max_grid[0] = MAX_GRID_X;
    info->max_grid[1] = info->max_grid[2] = MAX_GRID_YZ;
    info->max_local[0] = info->max_local[1] = info->max_local[2] = MAX_LOCAL;
    info->max_local_total = MAX_LOCAL;
    info->max_shared_bytes = dev->gen->max_lds_bytes;
    info->memory_bytes = t->vram_bytes;
    info->max_buffer_bytes = t->vram_bytes;
    info->timestamp_hz = dev->process->cards[dev->card].clock_hz;
    info->flags |= HCQ_DEVICE_POLL_MASKS;
    if (dev->process->kio->is_simulated)
        info->flags |= HCQ_DEVICE_SIMULATED;
}

/* ---- life ---------------------------------------------------------------- */

static const struct hcq_device_ops amd_ops;

static void
amd_device_release(struct hcq_device *base)
{
    struct amd_device *dev = amd_device_of(base);
    struct amd_control *control = dev->control;

    if (dev->process) {
        hcq_signal_pages_destroy(dev->signals);
        hcq_signal_pages_destroy(dev->near_signals);
        amd_scratch_close(dev);
        amd_mem_free(dev, &dev->move.code);
        amd_process_unpark(dev);
        amd_process_put(dev->process);
    }
    pthread_mutex_destroy(&control->reader.lock);
    pthread_mutex_destroy(&control->buffer_lock);
    pthread_mutex_destroy(&control->scratch_lock);
    host_free(control);
    host_free(dev);
}

static void
amd_device_close(struct hcq_device *base)
{
    struct amd_device *dev = amd_device_of(base);
    struct hcq_queue *queue;

    /* nothing runs while memory goes; what does not stop keeps its own */
    for (queue = hcq_next_queue(base, NULL); queue;
         queue = hcq_next_queue(base, queue)) {
        if (amd_channel_stop(&amd_queue_of(queue)->channel) != BELL_OK)
            LOG(LOG_IOCTL, "%s: goes on: %s", queue->name,
                bell_error_last()->message);
    }
    amd_read_close(dev);
    hcq_device_fini(base);
    amd_device_release(base);
}

/* Why a card cannot be used, as one sentence; NULL: it can, as far as is seen
 * without opening it. */
static const char *
why_not(const struct amd_topology *card, char *text, size_t size_bytes)
{
    /* lead: before Linux 5.17 KFD did not tell it */
    if (!card->gfx_target_version)
        return "the kernel is too old: its KFD does not tell the chip "
               "(gfx_target_version), which Linux 5.17 and later do";
    if (!amd_gen_find(card->gfx_target_version)) {
        chip_amd_why_not(card->gfx_target_version, text, size_bytes);
        return text;
    }
    if (card->n_xcc > AMD_MAX_DIES) {
        snprintf(text, size_bytes, "%u XCCs; %u is the limit", card->n_xcc,
                 AMD_MAX_DIES);
        return text;
    }
    return NULL;
}

/* The card's generation, and whether we can use it as it is. */
static bell_status
choose_gen(struct amd_device *dev)
{
    uint32_t version = dev->topology.gfx_target_version;
    char text[160], known[256];
    const char *why = why_not(&dev->topology, text, sizeof(text));

    dev->chip = chip_amd_find(version);
    dev->gen = amd_gen_find(version);
    if (why && version && !dev->gen) {
        chip_arch_list(BACKEND, known, sizeof(known));
        return bell_fail(BELL_E_UNSUPPORTED, "%s; known: %s", why, known);
    }
    if (why)
        return bell_fail(BELL_E_UNSUPPORTED, "%s", why);
    return BELL_OK;
}

/* BELL_AMD_BOUND: what launches of bound streams are on AQL queues. Packets of
 * the ring, unless one asks for words: nobody is known to run those on all dies
 * of such a queue, and no card has shown it. Dies that meet count by a mask. */
static bell_status
choose_bound(struct amd_device *dev)
{
    const char *text = env_get("BELL_AMD_BOUND");
    bool can = dev->gen->binds_pm4 && is_pow2(dev->topology.n_xcc);

    if (text && strcmp(text, "aql") != 0 && strcmp(text, "pm4") != 0)
        return bell_fail(BELL_E_INVALID,
                         "BELL_AMD_BOUND is '%.20s', not aql or pm4", text);
    if (text && dev->gen->uses_aql && !can && strcmp(text, "pm4") == 0)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "BELL_AMD_BOUND=pm4: %u XCCs are not a power of two",
                         dev->topology.n_xcc);
    dev->binds_pm4 = can && text && strcmp(text, "pm4") == 0;
    return BELL_OK;
}

/* BELL_AMD_WAIT: how compute queues wait. Plain, as working drivers do, until a
 * card has shown that such a wait cannot be preempted. */
static bell_status
choose_wait(struct amd_device *dev)
{
    const char *text = env_get("BELL_AMD_WAIT");

    if (text && strcmp(text, "plain") != 0 && strcmp(text, "preemptable") != 0)
        return bell_fail(BELL_E_INVALID,
                         "BELL_AMD_WAIT is '%.20s', not plain or preemptable",
                         text);
    dev->yields = text && strcmp(text, "preemptable") == 0;
    return BELL_OK;
}

static bell_status
amd_device_tell(struct hcq_device *base, const struct kio_told *told)
{
    return kio_tell(amd_device_of(base)->process->kio, told);
}

/* After a memory fault the process needs a fresh state. It is made here if
 * nobody else of the process has a card open. */
static bell_status
check_stopped(struct amd_device *dev)
{
    bool must_renew;

    BELL_TRY(amd_card_ask(dev->process, dev->card, &must_renew));
    if (!must_renew)
        return BELL_OK;
    if (amd_process_openings(dev->process) > 1)
        return amd_card_check(dev->process, dev->card);
    return amd_process_renew(dev->process, NULL);
}

static bell_status
amd_device_open(struct hcq_device *base, unsigned idx, const char *interface)
{
    struct amd_device *dev = amd_device_of(base);

    BELL_TRY(amd_process_get(interface, &dev->process));
    if (idx >= dev->process->n_cards)
        return bell_fail(BELL_E_NO_DEVICE, "no card %u: there %s %u", idx,
                         dev->process->n_cards == 1 ? "is" : "are",
                         dev->process->n_cards);
    base->is_told = kio_watches(dev->process->kio);
    dev->card = idx;
    dev->topology = dev->process->cards[idx].topology;
    BELL_TRY(choose_gen(dev));
    BELL_TRY(choose_bound(dev));
    BELL_TRY(choose_wait(dev));
    base->waits_near =
        amd_has_near(dev) && (dev->topology.n_xcc == 1 || dev->binds_pm4);
    BELL_TRY(amd_card_open(dev->process, idx));
    BELL_TRY(check_stopped(dev));
    amd_fill_info(dev);
    amd_fault_forget(dev);
    BELL_TRY(amd_signals_open(dev));
    BELL_TRY(hcq_device_init(base));
    return BELL_OK;
}

static struct hcq_device *
amd_device_alloc(void)
{
    struct amd_device *dev = host_calloc(1, sizeof(*dev));
    struct amd_control *control = host_calloc(1, sizeof(*control));

    if (!dev || !control) {
        host_free(dev);
        host_free(control);
        return NULL;
    }
    dev->control = control;
    dev->base.ops = &amd_ops;
    dev->base.timestamp_word = 1;
    pthread_mutex_init(&control->reader.lock, NULL);
    pthread_mutex_init(&control->buffer_lock, NULL);
    pthread_mutex_init(&control->scratch_lock, NULL);
    return &dev->base;
}

static bell_status
amd_open(unsigned idx, const char *interface, struct hcq_device **out_dev)
{
    static const struct hcq_card_driver driver = {
        .backend = BACKEND,
        .alloc = amd_device_alloc,
        .open = amd_device_open,
        .release = amd_device_release,
    };

    return hcq_card_open(&driver, idx, interface, out_dev);
}

/* ---- finding cards ------------------------------------------------------- */

static void
describe_card(const struct amd_topology *card, struct hcq_device_desc *out)
{
    const struct chip_arch *chip = chip_amd_find(card->gfx_target_version);
    char text[160];
    const char *why = why_not(card, text, sizeof(text));

    snprintf(out->description, sizeof(out->description), "AMD %.8s, %.20s",
             chip ? chip->name : "card", card->name);
    name_partition(card, out->description, sizeof(out->description));
    out->usable = !why;
    snprintf(out->why_not, sizeof(out->why_not), "%s", why ? why : "");
}

static bell_status
list_card(struct kio *kio, unsigned idx, struct hcq_device_desc *out)
{
    struct amd_topology list[AMD_MAX_CARDS];
    uint32_t n = 0;
    bell_status status = amd_topology_list(kio, list, AMD_MAX_CARDS, &n);

    if (status == BELL_E_NO_MEMORY)
        return status;
    snprintf(out->name, sizeof(out->name), BACKEND ":%u", idx);
    if (status == BELL_E_PERMISSION && idx == 0) { /* cards, none for us */
        snprintf(out->description, sizeof(out->description), "AMD card");
    } else if (status == BELL_OK && idx < n) {
        describe_card(&list[idx], out);
        status = kio_may_open(kio, "/dev/kfd");
    } else {
        return BELL_E_NO_DEVICE;
    }
    if (status != BELL_OK) {
        out->usable = false;
        snprintf(out->why_not, sizeof(out->why_not), "%.*s",
                 (int)sizeof(out->why_not) - 1, bell_error_last()->message);
    }
    return BELL_OK;
}

static bell_status
amd_enumerate(unsigned idx, struct hcq_device_desc *out)
{
    struct kio *kio;
    bell_status status;

    BELL_TRY(kio_sys_create(&kio));
    status = list_card(kio, idx, out);
    kio_destroy(kio);
    return status;
}

static const struct hcq_device_ops amd_ops = {
    .packet_measure = amd_packet_measure,
    .packet_fix = amd_packet_fix,
    .packet_repack = amd_stream_repack,
    .close = amd_device_close,
    .stop = amd_fault_stop,
    .resume = amd_fault_resume,
    .describe = amd_fault_describe,
    .clock_mhz = clock_mhz,
    .compare_clocks = amd_compare_clocks,
    .check = amd_fault_check,
    .mem_alloc = amd_buffer_alloc,
    .mem_free = amd_buffer_free,
    .mem_pin = amd_buffer_pin,
    .mem_unpin = amd_buffer_unpin,
    .mem_peer = amd_buffer_peer,
    .mem_unpeer = amd_buffer_unpeer,
    .mem_export = amd_buffer_export,
    .mem_import = amd_buffer_import,
    .mem_unimport = amd_buffer_free,
    .get_link = amd_get_link,
    .link_bytes = amd_link_bytes,
    .mem_write = amd_buffer_write,
    .mem_read = amd_buffer_read,
    .tell = amd_device_tell,
    .signal_alloc = amd_signal_alloc,
    .signal_alloc_near = amd_signal_alloc_near,
    .signal_settle = amd_signal_settle,
    .signal_free = amd_signal_free,
    .signal_sleep = amd_signal_sleep,
    .signal_map = amd_signal_map,
    .program_create = amd_program_create,
    .program_destroy = amd_program_destroy,
    .queue_create = amd_queue_create,
    .queue_destroy = amd_queue_destroy,
    .queue_submit = amd_queue_submit,
    .stream_bind = amd_stream_bind,
    .stream_unbind = amd_stream_unbind,
    .stream_submit = amd_stream_submit,
};

const struct hcq_backend hcq_amd_backend = {
    .name = BACKEND,
    .interfaces = "sim, record, replay, fault",
    .enumerate = amd_enumerate,
    .open = amd_open,
};
