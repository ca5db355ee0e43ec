/* Selftest: AMD's kernel driver, from the control node to rings that the card
 * reads; and what to look at when a step fails on its cards. No command but
 * NOPs in the rings. src: docs/hardware/amd-kernel.md, "Opening", "Topology",
 * "Memory", "Events", "Queues"; docs/hardware/amd-queues.md, "PM4". */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/chip.h"
#include "base/thread.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/amd_kfd.h"
#include "ioctl/kfd_uapi.h"
#include "tools/selftest/selftest.h"

#define CONTROL_NODE "/dev/kfd"
#define MEMORY_BYTES (2u << 20)
#define USER_BYTES   65536u
#define RING_BYTES   65536u /* of a queue of each kind */
#define WAIT_MS      2000u
#define MAX_KINDS    3u

/* ---- what is there ---- */

static enum selftest_verdict
kfd_node(struct selftest *st)
{
    struct kio_file file;

    selftest_sent(st, "open(\"%s\", O_RDWR)", CONTROL_NODE);
    ST_OK(selftest_need_kio(st));
    ST_OK(kio_open(st->kio, CONTROL_NODE, O_RDWR, &file));
    kio_close(&file);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
kfd_version_is_known(struct selftest *st)
{
    struct kfd_version version = {0, 0};
    struct kio_file file;
    bell_status status;

    selftest_sent(st, "AMDKFD_IOC_GET_VERSION");
    ST_OK(selftest_need_kio(st));
    ST_OK(kio_open(st->kio, CONTROL_NODE, O_RDWR, &file));
    status = kio_ioctl(&file, KFD_GET_VERSION, &version);
    kio_close(&file);
    ST_OK(status);
    selftest_note(st, "KFD %u.%u: %s", version.major, version.minor,
                  version.minor >= 17   ? "queues of 96 bytes"
                  : version.minor >= 14 ? "queues of 88 bytes"
                                        : "no RUNTIME_ENABLE, queues of 88 "
                                          "bytes");
    if (version.major != 1)
        return selftest_fail(st, "KFD %u.%u; 1.x is known", version.major,
                             version.minor);
    return SELFTEST_PASSED;
}

/* The card under test. */
static bell_status
read_topology(struct selftest *st, struct amd_topology *list, uint32_t *out_n)
{
    BELL_TRY(selftest_need_kio(st));
    BELL_TRY(amd_topology_list(st->kio, list, AMD_MAX_CARDS, out_n));
    if (st->idx >= *out_n)
        return bell_fail(BELL_E_NO_DEVICE,
                         "the topology has %u cards, and %s is number %u",
                         *out_n, st->device, st->idx);
    return BELL_OK;
}

static enum selftest_verdict
topology(struct selftest *st)
{
    struct amd_topology list[AMD_MAX_CARDS];
    uint32_t n, i;

    selftest_sent(st, "reads /sys/devices/virtual/kfd/kfd/topology/nodes/*");
    ST_OK(read_topology(st, list, &n));
    for (i = 0; i < n; i++)
        selftest_note(st,
                      "%u: node %u, gpu_id 0x%x, %s, gfx_target_version %u, "
                      "%u XCC of %u CUs, %u SDMA engines and %u of XGMI, "
                      "%.1f GiB%s, renderD%u",
                      i, list[i].node, list[i].gpu_id, list[i].name,
                      list[i].gfx_target_version, list[i].n_xcc, list[i].n_cu,
                      list[i].n_sdma, list[i].n_sdma_xgmi,
                      (double)list[i].vram_bytes / (double)(1u << 30),
                      list[i].large_bar ? "" : " (not all of it open)",
                      list[i].render_minor);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
generation(struct selftest *st)
{
    struct amd_topology list[AMD_MAX_CARDS];
    const struct amd_topology *t = &list[st->idx];
    const struct amd_gen *gen;
    uint32_t n;

    selftest_sent(st, "looks the card up in the table of generations");
    ST_OK(read_topology(st, list, &n));
    gen = amd_gen_find(t->gfx_target_version);
    if (!gen)
        return selftest_fail(st, "gfx_target_version %u is not in the table",
                             t->gfx_target_version);
    selftest_note(st, "%s: %s queues, waves of %u, scratch %s",
                  chip_amd_find(t->gfx_target_version)->name,
                  gen->uses_aql ? "AQL" : "PM4", gen->wave_lanes,
                  gen->architected_scratch ? "by the hardware"
                                           : "by a descriptor");
    if (!t->large_bar)
        selftest_note(st, "no resizable BAR: copies go through host memory");
    if (t->n_cu == 0 || t->n_engines == 0 || t->n_sdma == 0 ||
        t->vram_bytes == 0)
        return selftest_fail(st,
                             "%u CUs, %u shader engines, %u SDMA engines, "
                             "%" PRIu64 " bytes",
                             t->n_cu, t->n_engines, t->n_sdma, t->vram_bytes);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
render_node(struct selftest *st)
{
    struct amd_topology list[AMD_MAX_CARDS];
    struct amdgpu_device_info device = {0};
    struct amdgpu_info info = {.return_pointer = (uintptr_t)&device,
                               .return_bytes = sizeof(device),
                               .query = AMDGPU_INFO_DEV_INFO};
    struct kio_file file;
    bell_status status;
    char path[64];
    uint32_t n;

    ST_OK(read_topology(st, list, &n));
    snprintf(path, sizeof(path), "/dev/dri/renderD%u",
             list[st->idx].render_minor);
    selftest_sent(st, "open(\"%s\", O_RDWR), AMDGPU_INFO_DEV_INFO", path);
    ST_OK(kio_open(st->kio, path, O_RDWR, &file));
    status = kio_ioctl(&file, AMDGPU_INFO_REQUEST, &info);
    kio_close(&file);
    ST_OK(status);
    selftest_note(st, "the card's clock: %u kHz", device.gpu_counter_khz);
    if (device.gpu_counter_khz == 0)
        return selftest_fail(st, "the clock's frequency is 0");
    return SELFTEST_PASSED;
}

/* ---- the process ---- */

/* KFD's state of this process with the card's address space. */
static bell_status
need_card(struct selftest *st, struct amd_card **out_card)
{
    if (!st->kfd)
        BELL_TRY(amd_process_get(st->interface, &st->kfd));
    if (st->idx >= st->kfd->n_cards)
        return bell_fail(BELL_E_NO_DEVICE, "no card %u: there are %u", st->idx,
                         st->kfd->n_cards);
    BELL_TRY(amd_card_open(st->kfd, st->idx));
    *out_card = &st->kfd->cards[st->idx];
    return BELL_OK;
}

void
selftest_close_kfd(struct selftest *st)
{
    if (st->kfd)
        amd_process_put(st->kfd);
    st->kfd = NULL;
}

static enum selftest_verdict
address_space(struct selftest *st)
{
    struct amd_card *card;

    selftest_sent(st, "AMDKFD_IOC_ACQUIRE_VM, RUNTIME_ENABLE from 1.14 on, the "
                      "page of the HDP flush, the event page, two events");
    ST_OK(need_card(st, &card));
    selftest_note(
        st, "gpu_id 0x%x; events %u and %u; %s; the clock at %.1f MHz",
        card->topology.gpu_id, st->kfd->memory_event, st->kfd->hardware_event,
        card->hdp ? "HDP flush page" : "no HDP flush page",
        (double)card->clock_hz / 1e6);
    return SELFTEST_PASSED;
}

static bell_status
take_kfd_moment(struct selftest *st, const struct amd_card *card,
                struct selftest_moment *out, uint64_t *out_ticks)
{
    struct kfd_clock_counters clocks = {.gpu_id = card->topology.gpu_id};

    out->before_ns = time_now_ns();
    BELL_TRY(amd_call(st->kfd, KFD_GET_CLOCKS, &clocks));
    out->after_ns = time_now_ns();
    *out_ticks = clocks.gpu_clock;
    out->device_ns =
        (uint64_t)((double)clocks.gpu_clock / (double)card->clock_hz * 1e9);
    return BELL_OK;
}

/* The card's seconds for each of the host's, over 20 ms. */
static enum selftest_verdict
clocks(struct selftest *st)
{
    struct selftest_moment first, last;
    uint64_t from, to;
    struct amd_card *card;
    double ratio;

    ST_OK(need_card(st, &card));
    selftest_sent(st, "AMDKFD_IOC_GET_CLOCK_COUNTERS, 20 ms apart");
    ST_OK(take_kfd_moment(st, card, &first, &from));
    usleep(20000);
    ST_OK(take_kfd_moment(st, card, &last, &to));
    ratio = selftest_clock_ratio(&first, &last);
    selftest_note(st, "%" PRIu64 " ticks, %.3f of the host's clock", to, ratio);
    if (ratio < 0.8 || ratio > 1.25)
        return selftest_fail(
            st, "%" PRIu64 " ticks in about 20 ms: %.3f times %.1f MHz",
            to - from, ratio, (double)card->clock_hz / 1e6);
    return SELFTEST_PASSED;
}

/* ---- memory ---- */

static enum selftest_verdict
try_memory(struct selftest *st, enum amd_mem_kind kind, void *user,
           uint32_t size_bytes)
{
    enum selftest_verdict verdict = SELFTEST_PASSED;
    struct amd_card *card;
    struct amd_mem mem;

    ST_OK(need_card(st, &card));
    ST_OK(amd_memory_create(st->kfd, st->idx, size_bytes, kind, user, &mem));
    selftest_note(st, "%u bytes at 0x%" PRIx64 ", handle 0x%" PRIx64,
                  size_bytes, mem.va, mem.held->handle);
    if (mem.cpu)
        verdict = selftest_check_mapping(st, mem.cpu, size_bytes);
    else if (kind != AMD_MEM_VRAM)
        verdict = selftest_fail(st, "the CPU has no mapping of it");
    amd_memory_destroy(st->kfd, &mem);
    return verdict;
}

static enum selftest_verdict
hidden_memory(struct selftest *st)
{
    selftest_sent(st, "ALLOC_MEMORY_OF_GPU of 2 MiB: VRAM; MAP_MEMORY_TO_GPU");
    return try_memory(st, AMD_MEM_VRAM, NULL, MEMORY_BYTES);
}

static enum selftest_verdict
visible_memory(struct selftest *st)
{
    struct amd_card *card;

    selftest_sent(st, "ALLOC_MEMORY_OF_GPU of 2 MiB: VRAM, PUBLIC; mmap of "
                      "the render node");
    ST_OK(need_card(st, &card));
    if (!card->topology.large_bar)
        return selftest_skip(st, "no resizable BAR: the CPU sees none");
    return try_memory(st, AMD_MEM_VISIBLE, NULL, MEMORY_BYTES);
}

static enum selftest_verdict
host_memory(struct selftest *st)
{
    selftest_sent(st, "ALLOC_MEMORY_OF_GPU of 2 MiB: GTT, COHERENT, UNCACHED; "
                      "mmap of the render node");
    return try_memory(st, AMD_MEM_GTT, NULL, MEMORY_BYTES);
}

static enum selftest_verdict
user_memory(struct selftest *st)
{
    uint32_t *memory;

    selftest_sent(st,
                  "ALLOC_MEMORY_OF_GPU of %u bytes of this process: "
                  "USERPTR",
                  USER_BYTES);
    ST_OK(selftest_host(st, USER_BYTES, &memory));
    return try_memory(st, AMD_MEM_GTT, memory, USER_BYTES);
}

/* ---- events ---- */

static bell_status
wait_event(struct selftest *st, uint32_t id, uint32_t timeout_ms,
           uint32_t *out_result)
{
    struct kfd_event_data data = {.event_id = id};
    struct kfd_wait_events wait = {
        .events = (uintptr_t)&data, .n = 1, .timeout_ms = timeout_ms};

    BELL_TRY(amd_call(st->kfd, KFD_WAIT_EVENTS, &wait));
    *out_result = wait.result;
    return BELL_OK;
}

/* Not set: a timeout. Set: complete, and reset by that. */
static enum selftest_verdict
check_event(struct selftest *st, uint32_t id)
{
    struct kfd_event_ref ref = {id, 0};
    uint32_t before, set, after;

    selftest_sent(st, "event %u: WAIT_EVENTS, SET_EVENT, WAIT_EVENTS twice",
                  id);
    ST_OK(wait_event(st, id, 1, &before));
    ST_OK(amd_call(st->kfd, KFD_SET_EVENT, &ref));
    ST_OK(wait_event(st, id, WAIT_MS, &set));
    ST_OK(wait_event(st, id, 1, &after));
    if (before != KFD_WAIT_TIMEOUT || set != KFD_WAIT_COMPLETE ||
        after != KFD_WAIT_TIMEOUT)
        return selftest_fail(st,
                             "the waits gave %u, %u and %u, not %d (timeout), "
                             "%d (complete) and %d",
                             before, set, after, KFD_WAIT_TIMEOUT,
                             KFD_WAIT_COMPLETE, KFD_WAIT_TIMEOUT);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
events(struct selftest *st)
{
    struct kfd_create_event event = {.type = KFD_EVENT_SIGNAL, .auto_reset = 1};
    enum selftest_verdict verdict;
    struct kfd_event_ref ref;
    struct amd_card *card;

    ST_OK(need_card(st, &card));
    selftest_sent(st, "AMDKFD_IOC_CREATE_EVENT: a signal that resets itself");
    ST_OK(amd_call(st->kfd, KFD_CREATE_EVENT, &event));
    ref = (struct kfd_event_ref){event.event_id, 0};
    verdict = check_event(st, event.event_id);
    amd_call_or_log(st->kfd, KFD_DESTROY_EVENT, &ref);
    return verdict;
}

/* ---- queues ---- */

static const char *const kind_names[MAX_KINDS] = {
    [AMD_RING_PM4] = "PM4", [AMD_RING_AQL] = "AQL", [AMD_RING_SDMA] = "SDMA"};

static struct amd_device *
device_of(struct selftest *st)
{
    return amd_device_of(st->dev);
}

/* An indirect buffer of NOPs in `words`, and the slot of the ring that names
 * it; moves `put` on. */
static void
put_nothing(struct amd_channel *channel, const struct amd_mem *words)
{
    struct amd_engine engine;
    struct amd_push push = {.engine = &engine,
                            .at = words->cpu,
                            .piece = words->cpu,
                            .slots = channel->ring};
    uint32_t slot_bytes;

    amd_engine_init(&engine, channel->dev, channel->kind);
    slot_bytes = engine.slot_dw * 4;
    push.slot_mask = channel->ring_bytes / slot_bytes - 1;
    if (channel->kind == AMD_RING_SDMA)
        amd_sdma_nothing(&push, 8);
    else
        amd_pm4_nothing(&push, 8);
    amd_push_end(&push);
    channel->put = push.slot;
    if (channel->kind == AMD_RING_PM4)
        channel->put *= engine.slot_dw;
    else if (channel->kind == AMD_RING_SDMA)
        channel->put *= slot_bytes;
}

/* The card reads what the ring has, and says so. */
static enum selftest_verdict
check_ring(struct selftest *st, struct amd_channel *channel,
           const struct amd_mem *words)
{
    uint64_t start_ns = time_now_ns(), read = 0;

    put_nothing(channel, words);
    selftest_sent(st,
                  "%s queue %u, ring of %u bytes at 0x%" PRIx64
                  ": a buffer of NOPs, write pointer %" PRIu64 ", doorbell",
                  kind_names[channel->kind], channel->queue_id,
                  channel->ring_bytes, channel->ring_mem.va, channel->put);
    amd_channel_ring(channel);
    while (time_now_ns() - start_ns < WAIT_MS * UINT64_C(1000000)) {
        read = __atomic_load_n(channel->rptr, __ATOMIC_ACQUIRE);
        if (read == channel->put)
            return SELFTEST_PASSED;
        usleep(20);
    }
    amd_check_faults(channel->dev);
    ST_OK(hcq_device_status(st->dev));
    return selftest_fail(st,
                         "the read pointer is %" PRIu64 " after %u ms, not "
                         "%" PRIu64,
                         read, WAIT_MS, channel->put);
}

/* A queue of that kind; then made anew so often, as recovery does. */
static enum selftest_verdict
try_ring(struct selftest *st, enum amd_ring_kind kind, unsigned n_again,
         const struct amd_mem *words)
{
    enum selftest_verdict verdict;
    struct amd_channel channel;

    selftest_sent(st, "AMDKFD_IOC_CREATE_QUEUE: %s, its doorbell mapped",
                  kind_names[kind]);
    ST_OK(amd_channel_init(device_of(st), kind, RING_BYTES, &channel));
    selftest_note(st, "queue %u, doorbell at byte 0x%zx of its page",
                  channel.queue_id,
                  (size_t)((uintptr_t)channel.doorbell & 0x1fff));
    verdict = check_ring(st, &channel, words);
    while (verdict == SELFTEST_PASSED && n_again--) {
        if (amd_channel_rebuild(&channel) != BELL_OK)
            verdict = selftest_error(st);
        else
            verdict = check_ring(st, &channel, words);
    }
    amd_channel_fini(&channel);
    return verdict;
}

static enum selftest_verdict
ring_of_kind(struct selftest *st, enum amd_ring_kind kind, unsigned n_again)
{
    enum selftest_verdict verdict;
    struct amd_mem words;

    ST_OK(amd_mem_alloc(device_of(st), 4096, AMD_MEM_GTT, &words));
    verdict = try_ring(st, kind, n_again, &words);
    amd_mem_free(device_of(st), &words);
    return verdict;
}

static enum selftest_verdict
sdma_ring(struct selftest *st)
{
    ST_OK(selftest_need_device(st));
    return ring_of_kind(st, AMD_RING_SDMA, 0);
}

/* What compute queues are on this card. */
static enum amd_ring_kind
kind_of_compute(struct selftest *st)
{
    return device_of(st)->gen->uses_aql ? AMD_RING_AQL : AMD_RING_PM4;
}

static enum selftest_verdict
compute_ring(struct selftest *st)
{
    ST_OK(selftest_need_device(st));
    return ring_of_kind(st, kind_of_compute(st), 0);
}

static enum selftest_verdict
ring_again(struct selftest *st)
{
    ST_OK(selftest_need_device(st));
    return ring_of_kind(st, kind_of_compute(st), 4);
}

/* ---- where to look ---- */

#define LOOK_LAUNCH                                                            \
    "the kernel descriptor (`doorbell decode --format aql --what kernel`): "   \
    "PGM_RSRC1 to 3, user registers; BELL_DEBUG=push; "                        \
    "docs/explanation/amd.md, A launch"
#define LOOK_FAULT                                                             \
    "the events of KFD (WAIT_EVENTS): memory and hardware exceptions; dmesg "  \
    "| grep amdgpu; docs/explanation/amd.md, Faults"
#define LOOK_COPY                                                              \
    "BELL_DEBUG=push and `doorbell decode --format sdma`; COUNT is one less "  \
    "than the bytes; the largest copy of one packet"

static const struct {
    const char *name, *look_at;
} amd_looks[] = {
    {"open-device",
     "the failing call; BELL_DEBUG=ioctl shows all of them; resizable BAR"},
    {"host-access", "the CPU's mapping of the card's memory: large BAR; the "
                    "HDP flush behind the CPU's writes"},
    {"copy-release",
     "write pointer before doorbell; FENCE's memory type; the signal's page"},
    {"copy-4k", LOOK_COPY},
    {"copy-sizes", LOOK_COPY},
    {"copy-large", LOOK_COPY},
    {"fill", LOOK_COPY "; CONST_FILL's element size"},
    {"host-visible", "GTT with COHERENT and UNCACHED: no cache between"},
    {"pinned", "USERPTR memory; an address of its own on the card"},
    {"host-large", "the card's window of addresses; GTT's and locked memory's "
                   "limits (ulimit -l)"},
    {"compute-release", "RELEASE_MEM with its cache words; on gfx942 the AQL "
                        "packet that carries PM4"},
    {"compute-idle", "EVENT_WRITE CS_PARTIAL_FLUSH"},
    {"queues-wait", "WAIT_REG_MEM and POLL_REGMEM: two 32-bit waits make one "
                    "of 64; docs/explanation/amd.md, Submitting"},
    {"timestamps", "GET_CLOCK_COUNTERS and AMDGPU_INFO's frequency; "
                   "RELEASE_MEM's data selection"},
    {"bound-stream", "the patch points; caches of the indirect buffer"},
    {"ring-wraps", "the read pointer's unit: words, bytes, packets"},
    {"shared", "LDS: group_segment_fixed_size in RSRC2, in granules"},
    {"shared-all", "LDS: the launch's size over the descriptor's; RSRC2"},
    {"stack", "scratch: COMPUTE_TMPRING_SIZE, its base, lanes of a wave; "
              "docs/explanation/amd.md, Scratch"},
    {"sizes", "the launch's grid in work-groups (PM4) or work-items (AQL)"},
    {"dims", "hidden arguments: counts and sizes of groups, which the driver "
             "writes behind the kernel's own"},
    {"barriers", "s_barrier; s_waitcnt of LDS before it"},
    {"atomics", "caches: what is atomic for the card is in L2"},
    {"chain", "ACQUIRE_MEM between dependent launches"},
    {"across-queues", "RELEASE_MEM's write-back, ACQUIRE_MEM behind waits, "
                      "the copy engine's view of L2"},
    {"kernel-stream", "patched words of the indirect buffer, or of AQL "
                      "packets and arguments"},
    {"bound-launches",
     "of several dies (gfx942): how launches are dealt out and dies meet; with "
     "BELL_AMD_BOUND=pm4 they are words, else packets of the ring: "
     "docs/explanation/amd.md"},
    {"store", LOOK_LAUNCH},
    {"blocks", LOOK_LAUNCH},
    {"wide-access", LOOK_LAUNCH},
    {"bad-store", LOOK_FAULT},
    {"bad-load", LOOK_FAULT},
    {"bad-copy", LOOK_FAULT},
    {"bad-large-copy", LOOK_FAULT},
    {"hung-kernel", "destroying a queue whose kernel runs: the kernel driver "
                    "may have to reset the card; dmesg"},
    {"two-devices", "MAP_MEMORY_TO_GPU of one card's memory for the other; "
                    "PCIe or XGMI between them; large BAR"},
    {"tensors", "BELL_DEBUG=render,asm shows the kernels; `doorbell kernel` "
                "times them"},
};

const char *
selftest_amd_look_at(const char *step)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(amd_looks); i++) {
        if (strcmp(amd_looks[i].name, step) == 0)
            return amd_looks[i].look_at;
    }
    return NULL;
}

#define LOOK_MEMORY                                                            \
    "flags of ALLOC_MEMORY_OF_GPU; the mmap offset that it gave; VRAM left; "  \
    "ulimit -l for pages of the process; docs/explanation/amd.md, Memory"
#define LOOK_QUEUE                                                             \
    "sizes of the save area (CREATE_QUEUE says EINVAL), the doorbell's "       \
    "offset, unit and value of the write pointer; docs/explanation/amd.md, "   \
    "Queues"

const struct selftest_step selftest_kfd_steps[] = {
    {"kfd-node", SELFTEST_AMD, "the kernel driver is loaded and lets us in",
     "is /dev/kfd there (lsmod | grep amdgpu), and may this user open it: "
     "groups render or video; containers need /dev/kfd and /dev/dri",
     kfd_node},
    {"kfd-version", SELFTEST_AMD, "KFD has a version whose structs are known",
     "docs/explanation/amd.md, What it needs from the kernel",
     kfd_version_is_known},
    {"topology", SELFTEST_AMD, "the kernel has the card and describes it",
     "/sys/devices/virtual/kfd/kfd/topology/nodes; cgroups hide cards; "
     "dmesg | grep amdgpu",
     topology},
    {"generation", SELFTEST_AMD,
     "the card's generation is known and its memory is open to the CPU",
     "docs/explanation/amd.md, the table of generations; resizable BAR in "
     "the firmware",
     generation},
    {"render-node", SELFTEST_AMD, "the card's render node opens and answers",
     "/dev/dri/renderD*: its number is drm_render_minor in sysfs; groups",
     render_node},
    {"address-space", SELFTEST_AMD,
     "the process has an address space on the card, and events for faults",
     "ACQUIRE_VM takes one render node per card and process: another user of "
     "KFD in this process has it",
     address_space},
    {"clocks", SELFTEST_AMD, "the card's clock goes at the rate it is said to",
     "GET_CLOCK_COUNTERS; gpu_counter_freq of AMDGPU_INFO", clocks},
    {"vram-hidden", SELFTEST_AMD,
     "memory on the card that the CPU does not see", LOOK_MEMORY,
     hidden_memory},
    {"vram-visible", SELFTEST_AMD,
     "memory on the card, mapped for the CPU, holds what is written",
     LOOK_MEMORY "; large BAR", visible_memory},
    {"gtt", SELFTEST_AMD, "host memory that the card sees", LOOK_MEMORY,
     host_memory},
    {"user-memory", SELFTEST_AMD, "pages of this process that the card sees",
     LOOK_MEMORY, user_memory},
    {"events", SELFTEST_AMD, "events are set, waited for and reset",
     "the event page comes with the first event of the process", events},
    {"sdma-ring", SELFTEST_AMD | SELFTEST_SLOW,
     "an SDMA queue is made, its doorbell reaches the card, NOPs are read",
     LOOK_QUEUE, sdma_ring},
    {"compute-ring", SELFTEST_AMD | SELFTEST_SLOW,
     "the same of a compute queue: PM4, or AQL where the card's queues are",
     LOOK_QUEUE, compute_ring},
    {"ring-again", SELFTEST_AMD | SELFTEST_SLOW,
     "a queue that is made anew over the same memory starts from nothing",
     LOOK_QUEUE, ring_again},
    {NULL, 0, NULL, NULL, NULL},
};
