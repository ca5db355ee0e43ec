/* Selftest: NVIDIA's kernel driver, from the control node to memory and
 * registers that the CPU sees. No channel, no command.
 * src: docs/hardware/nvidia-kernel.md, "Bring-up" (steps 1 to 12), "Queries",
 * "Memory objects", "CPU mappings". */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/thread.h"
#include "hcq/nv/nv_gen.h"
#include "hcq/nv/nv_rm.h"
#include "hcq/nv/regs/nv_mem.h"
#include "ioctl/kio.h"
#include "ioctl/nv_uapi.h"
#include "tools/selftest/selftest.h"

#define CONTROL_NODE "/dev/nvidiactl"
#define MEMORY_BYTES (2u << 20)
#define WINDOW_BYTES 65536u
#define MAX_CLASSES  512

/* Client, device and subdevice. */
static bell_status
need_rm(struct selftest *st)
{
    if (st->rm)
        return BELL_OK;
    BELL_TRY(selftest_need_kio(st));
    return nv_rm_create(st->kio, st->idx, &st->rm);
}

void
selftest_close_rm(struct selftest *st)
{
    nv_rm_destroy(st->rm);
    st->rm = NULL;
}

bell_status
selftest_probe(struct selftest *st)
{
    struct nv_rm_card cards[NV_RM_MAX_CARDS];
    struct nv_abi abi;
    bell_status status;
    uint32_t n;

    status = selftest_need_kio(st);
    if (status == BELL_OK)
        status = nv_rm_list(st->kio, cards, &n, &abi);
    if (status == BELL_OK && st->idx >= n)
        return bell_fail(BELL_E_NO_DEVICE,
                         "%s: the driver lists %u cards, from 0 on", st->device,
                         n);
    return status == BELL_E_NO_DEVICE || status == BELL_E_PERMISSION ? status
                                                                     : BELL_OK;
}

static enum selftest_verdict
control_node(struct selftest *st)
{
    struct kio_file file;

    selftest_sent(st, "open(\"%s\", O_RDWR)", CONTROL_NODE);
    ST_OK(selftest_need_kio(st));
    ST_OK(kio_open(st->kio, CONTROL_NODE, O_RDWR, &file));
    kio_close(&file);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
version(struct selftest *st)
{
    struct nv_abi abi;

    selftest_sent(st, "the version: BELL_NV_BRANCH, /proc/driver/nvidia/"
                      "version, NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2");
    ST_OK(selftest_need_kio(st));
    ST_OK(nv_abi_detect(st->kio, &abi));
    selftest_note(st, "driver %s: structs of branch %u%s", abi.version,
                  abi.major, abi.forced ? ", forced" : "");
    return SELFTEST_PASSED;
}

static enum selftest_verdict
card_list(struct selftest *st)
{
    struct nv_rm_card cards[NV_RM_MAX_CARDS];
    struct nv_abi abi;
    uint32_t n, i;

    selftest_sent(st, "NV_ESC_CARD_INFO for %d cards", NV_RM_MAX_CARDS);
    ST_OK(selftest_need_kio(st));
    ST_OK(nv_rm_list(st->kio, cards, &n, &abi));
    for (i = 0; i < n; i++)
        selftest_note(st,
                      "%u: %04x:%02x:%02x, device 0x%04x, /dev/nvidia%u, id "
                      "0x%x, BAR1 %.1f GiB",
                      i, cards[i].domain, cards[i].bus, cards[i].slot,
                      cards[i].pci_device, cards[i].minor, cards[i].gpu_id,
                      (double)cards[i].bar1_bytes / (double)(1u << 30));
    if (st->idx >= n)
        return selftest_fail(st, "%u cards, and %s is number %u", n, st->device,
                             st->idx);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
object_tree(struct selftest *st)
{
    selftest_sent(st, "client, /dev/nvidiaN registered, device, subdevice");
    selftest_close_rm(st);
    ST_OK(need_rm(st));
    selftest_note(st, "%s: client 0x%x, device 0x%x, subdevice 0x%x",
                  st->rm->node_path, st->rm->client, st->rm->device,
                  st->rm->subdevice);
    return SELFTEST_PASSED;
}

/* ---- queries ---- */

/* Fills out_classes; *out_n how many. */
static bell_status
read_classes(struct selftest *st, uint32_t out_classes[MAX_CLASSES],
             uint32_t *out_n)
{
    struct nv0080_gpu_get_classlist list = {0};

    BELL_TRY(nv_rm_control(st->rm, st->rm->device,
                           NV0080_CTRL_CMD_GPU_GET_CLASSLIST,
                           NV_S_NV0080_GPU_GET_CLASSLIST, &list));
    if (list.numClasses > MAX_CLASSES)
        return bell_fail(BELL_E_UNSUPPORTED, "%u classes, more than %d",
                         list.numClasses, MAX_CLASSES);
    list.classList = (uintptr_t)out_classes;
    BELL_TRY(nv_rm_control(st->rm, st->rm->device,
                           NV0080_CTRL_CMD_GPU_GET_CLASSLIST,
                           NV_S_NV0080_GPU_GET_CLASSLIST, &list));
    *out_n = list.numClasses;
    return BELL_OK;
}

/* The highest class whose low byte is `kind` and that our tables name. */
static uint32_t
newest(const uint32_t *classes, uint32_t n, uint32_t kind)
{
    uint32_t best = 0, i;

    for (i = 0; i < n; i++) {
        if ((classes[i] & 0xff) == kind && classes[i] > best &&
            nv_class_name(classes[i]))
            best = classes[i];
    }
    return best;
}

static enum selftest_verdict
class_list(struct selftest *st)
{
    static const struct {
        uint32_t kind;
        const char *what;
    } rows[] = {{0x6f, "channel"},
                {0xc0, "compute"},
                {0xb5, "copy"},
                {0x61, "doorbell window"}};
    uint32_t classes[MAX_CLASSES], n = 0;
    size_t i;

    ST_OK(need_rm(st));
    selftest_sent(st, "NV0080_CTRL_CMD_GPU_GET_CLASSLIST");
    ST_OK(read_classes(st, classes, &n));
    selftest_note(st, "%u classes", n);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t found = newest(classes, n, rows[i].kind);
        const struct nv_class *known = nv_class_best(NV_CLASS_HOST, &found, 1);

        if (!found)
            return selftest_fail(st, "%u classes, and no %s class among them",
                                 n, rows[i].what);
        selftest_note(st, "%-15s 0x%04x %s", rows[i].what, found,
                      nv_class_name(found));
        if (known && known->unproven)
            selftest_note(st,
                          "unproven: nobody is known to have run class 0x%04x "
                          "with launches by PCAS action 10, and its header has "
                          "no ACQ_CIRC_GEQ, which queues wait by",
                          found);
    }
    return SELFTEST_PASSED;
}

/* One list query of index and data pairs. */
static bell_status
read_gr_info(struct selftest *st, uint32_t (*pairs)[2], uint32_t n)
{
    struct nv2080_gr_get_info args = {.grInfoListSize = n,
                                      .grInfoList = (uintptr_t)pairs};

    return nv_rm_control(st->rm, st->rm->subdevice, NV2080_CTRL_CMD_GR_GET_INFO,
                         NV_S_NV2080_GR_GET_INFO, &args);
}

static bell_status
read_fb_info(struct selftest *st, uint32_t (*pairs)[2], uint32_t n)
{
    struct nv2080_fb_get_info args = {.fbInfoListSize = n,
                                      .fbInfoList = (uintptr_t)pairs};

    return nv_rm_control(st->rm, st->rm->subdevice, NV2080_CTRL_CMD_FB_GET_INFO,
                         NV_S_NV2080_FB_GET_INFO, &args);
}

static enum selftest_verdict
shape(struct selftest *st)
{
    uint32_t gr[][2] = {{0x0c, 0}, {0x0d, 0}, {0x0e, 0}, {0x14, 0},
                        {0x17, 0}, {0x20, 0}, {0x07, 0}, {0x09, 0}};
    uint32_t fb[][2] = {{7, 0}, {9, 0}, {0x16, 0}, {0x1b, 0}, {5, 0}};
    struct nv2080_mc_get_arch_info arch = {0};
    uint32_t classes[MAX_CLASSES], n = 0;
    const struct nv_class *compute;
    const struct nv_gen *gen;
    bool is_known = false;

    ST_OK(need_rm(st));
    selftest_sent(st, "NV2080_CTRL_CMD_GR_GET_INFO, FB_GET_INFO, "
                      "MC_GET_ARCH_INFO");
    ST_OK(read_gr_info(st, gr, ARRAY_LEN(gr)));
    selftest_note(st,
                  "SM version 0x%x, %u warps an SM, %u threads a warp; at most "
                  "%u GPCs of %u TPCs of %u SMs; %u GPCs, %u TPCs present",
                  gr[0][1], gr[1][1], gr[2][1], gr[3][1], gr[4][1], gr[5][1],
                  gr[6][1], gr[7][1]);
    ST_OK(read_classes(st, classes, &n));
    compute = nv_class_best(NV_CLASS_COMPUTE, classes, n);
    gen = compute ? nv_gen_find(gr[0][1], compute->number, &is_known) : NULL;
    if (gen)
        selftest_note(st, "sm_%u%s; code is made for sm_%u", gen->sm,
                      is_known
                          ? ""
                          : ", the lowest of its class: the version is not "
                            "known",
                      gen->code_sm);
    ST_OK(read_fb_info(st, fb, ARRAY_LEN(fb)));
    selftest_note(st,
                  "memory %.1f GiB, heap %.1f GiB, free %.1f GiB; L2 %.1f MiB; "
                  "BAR1 %.1f GiB",
                  fb[0][1] / 1048576.0, fb[1][1] / 1048576.0,
                  fb[2][1] / 1048576.0, fb[3][1] / 1048576.0,
                  fb[4][1] / 1048576.0);
    ST_OK(nv_rm_control(st->rm, st->rm->subdevice,
                        NV2080_CTRL_CMD_MC_GET_ARCH_INFO,
                        NV_S_NV2080_MC_GET_ARCH_INFO, &arch));
    selftest_note(st, "architecture 0x%x, implementation 0x%x, revision 0x%x",
                  arch.architecture, arch.implementation, arch.revision);
    if (gr[0][1] == 0 || gr[2][1] != 32 || fb[0][1] == 0)
        return selftest_fail(st,
                             "SM version 0x%x, %u threads a warp, %u KiB of "
                             "memory",
                             gr[0][1], gr[2][1], fb[0][1]);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
copy_engines(struct selftest *st)
{
    struct nv2080_ce_get_all_caps caps = {0};
    unsigned i, n_own = 0;

    ST_OK(need_rm(st));
    selftest_sent(st, "NV2080_CTRL_CMD_CE_GET_ALL_CAPS");
    ST_OK(nv_rm_control(st->rm, st->rm->subdevice,
                        NV2080_CTRL_CMD_CE_GET_ALL_CAPS,
                        NV_S_NV2080_CE_GET_ALL_CAPS, &caps));
    for (i = 0; i < 64; i++) {
        const uint8_t *bytes = (const uint8_t *)&caps.capsTbl + 2 * i;
        bool shares = (bytes[0] & 1) != 0;
        if (!(caps.present >> i & 1))
            continue;
        n_own += !shares;
        if (i < 12)
            selftest_note(st, "COPY%u: caps 0x%02x%02x%s", i, bytes[1],
                          bytes[0], shares ? ", on the graphics runlist" : "");
    }
    if (n_own == 0)
        return selftest_fail(st,
                             "engines present: 0x%" PRIx64
                             ", and none with a runlist of its own",
                             (uint64_t)caps.present);
    return SELFTEST_PASSED;
}

/* ---- memory ---- */

static enum selftest_verdict
video_memory(struct selftest *st)
{
    /* src: docs/hardware/nvidia-kernel.md, "Memory objects" */
    struct nv_memory_alloc params = {.owner = 0,
                                     .flags = 0x1c101,
                                     .attr = 0x19800000,
                                     .attr2 = 0x00100005,
                                     .format = 6,
                                     .size = MEMORY_BYTES,
                                     .alignment = MEMORY_BYTES};
    struct nv_rm_mapping map = {.cpu = NULL};
    enum selftest_verdict verdict;
    uint32_t memory;
    bell_status status;

    ST_OK(need_rm(st));
    params.owner = st->rm->client;
    selftest_sent(st, "2 MiB of class 0x40 below the device, "
                      "NV_ESC_RM_MAP_MEMORY, mmap of a file of its own");
    ST_OK(nv_rm_alloc(st->rm, st->rm->device, NV01_MEMORY_LOCAL_USER,
                      NV_S_NV_MEMORY_ALLOC, &params, &memory));
    status = nv_rm_map(st->rm, st->rm->device, memory, 0, MEMORY_BYTES, false,
                       NULL, &map);
    if (status == BELL_OK)
        verdict = selftest_check_mapping(st, map.cpu, MEMORY_BYTES);
    else
        verdict = selftest_error(st);
    nv_rm_unmap(st->rm, &map);
    nv_rm_free(st->rm, st->rm->device, memory);
    return verdict;
}

#define CLOCK_TRIES_NS UINT64_C(2000000000)

/* The card's time, ns; the high word is read again until it stands still. */
static uint64_t
read_time(const volatile struct nv_mem_usermode *window)
{
    uint32_t high, low;

    do {
        high = window->time_1;
        low = window->time_0;
    } while (high != window->time_1);
    return (uint64_t)high << 32 | low;
}

static void
take_rm_moment(const volatile struct nv_mem_usermode *window,
               struct selftest_moment *out)
{
    out->before_ns = time_now_ns();
    out->device_ns = read_time(window);
    out->after_ns = time_now_ns();
}

static enum selftest_verdict
check_time(struct selftest *st, const volatile struct nv_mem_usermode *window)
{
    struct selftest_moment first, last;
    double ratio;

    /* A simulated card's clock is a thread of this machine: on a busy one it
     * stands now and then. */
    take_rm_moment(window, &first);
    do {
        usleep(20000);
        take_rm_moment(window, &last);
        ratio = selftest_clock_ratio(&first, &last);
    } while ((ratio < 0.8 || ratio > 1.25) &&
             last.after_ns - first.before_ns < CLOCK_TRIES_NS);
    selftest_note(st, "the card's clock: %" PRIu64 " ns, %.3f of the host's",
                  last.device_ns, ratio);
    if (ratio < 0.8 || ratio > 1.25)
        return selftest_fail(st,
                             "the card's clock shows %" PRIu64
                             " ns and goes %.3f times as fast as the host's",
                             last.device_ns, ratio);
    if (window->doorbell != 0)
        return selftest_fail(st, "the doorbell reads 0x%x, not 0",
                             window->doorbell);
    return SELFTEST_PASSED;
}

static enum selftest_verdict
doorbell_window(struct selftest *st)
{
    uint32_t classes[MAX_CLASSES], n = 0, object, nv_class;
    struct nv_rm_mapping map = {.cpu = NULL};
    enum selftest_verdict verdict;
    bell_status status;

    ST_OK(need_rm(st));
    ST_OK(read_classes(st, classes, &n));
    nv_class = newest(classes, n, 0x61);
    selftest_sent(st,
                  "class 0x%x below the subdevice, 64 KiB of it mapped, +0x80 "
                  "and +0x84 read",
                  nv_class);
    ST_OK(nv_rm_alloc(st->rm, st->rm->subdevice, nv_class, 0, NULL, &object));
    status = nv_rm_map(st->rm, st->rm->subdevice, object, 0, WINDOW_BYTES,
                       false, NULL, &map);
    if (status == BELL_OK)
        verdict = check_time(st, map.cpu);
    else
        verdict = selftest_error(st);
    nv_rm_unmap(st->rm, &map);
    nv_rm_free(st->rm, st->rm->subdevice, object);
    return verdict;
}

const struct selftest_step selftest_rm_steps[] = {
    {"control-node", SELFTEST_NV, "the kernel driver is loaded and lets us in",
     "is /dev/nvidiactl there (major 195, minor 255), and may this user open "
     "it; lsmod; containers need the node",
     control_node},
    {"version", SELFTEST_NV,
     "the driver is of a branch whose structs are known",
     "/proc/driver/nvidia/version; BELL_NV_BRANCH=580 forces the nearest",
     version},
    {"card-info", SELFTEST_NV, "the driver has the card",
     "/proc/driver/nvidia/gpus, dmesg | grep NVRM; another driver may hold it",
     card_list},
    {"object-tree", SELFTEST_NV | SELFTEST_SLOW,
     "client, device and subdevice; the card's own node is registered",
     "/dev/nvidiaN; the first open starts the card's firmware, which takes "
     "seconds; dmesg",
     object_tree},
    {"classes", SELFTEST_NV, "the card's classes are some that we know",
     "GET_CLASSLIST fails with MIG on; a class list of a chip that is not in "
     "the tables",
     class_list},
    {"shape", SELFTEST_NV, "what the card is: SMs, memory, window",
     "sizes of control structs: status 0x3a is a wrong size for this branch",
     shape},
    {"copy-engines", SELFTEST_NV,
     "there is a copy engine that is not on the graphics runlist",
     "NV2080_CTRL_CMD_CE_GET_ALL_CAPS: bit 0 of an engine's first byte",
     copy_engines},
    {"video-memory", SELFTEST_NV,
     "memory on the card, mapped for the CPU, holds what is written",
     "mmap: offset 0 and the very length; one mapping per file; a BAR1 "
     "smaller than the memory; confidential computing blocks it",
     video_memory},
    {"doorbell-window", SELFTEST_NV,
     "the registers that ring channels are mapped, and the clock in them runs",
     "the usermode class and its parent (the subdevice); mapped uncached",
     doorbell_window},
    {NULL, 0, NULL, NULL, NULL},
};
