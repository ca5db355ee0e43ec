/* The frequency that the card runs at, from the page in which the kernel's
 * driver tells of the card (class 0x00DE). It looks only while somebody asks,
 * every 100 to 1000 ms, so this waits for it; nothing stays.
 *
 * src: NVIDIA/open-gpu-kernel-modules 580.142, cl00de.h (the page),
 * gpu_user_shared_data.c (who may have it: anyone; where nothing is polled the
 * object is refused: vGPU, confidential computing, GA100 without firmware),
 * nvrm_registry.h (how often). Made and mapped as CUDA does. observed: H100,
 * 2026-11-22: tests/hw/h100/cuda.cas; 2026-11-23: it told of 1980 MHz while
 * nvidia-smi did.
 */
#include "hcq/nv/nv_clock.h"

#include <time.h>

#include "base/thread.h"
#include "hcq/nv/nv_control.h"
#include "ioctl/nv_uapi.h"

#define POLL_CLOCK 1u
/* A time in ns where the clocks are told; otherwise 0, or this and above. */
#define NOT_A_TIME 0xff00000000000000ull
#define LIMIT_NS   2000000000ull
#define NAP_NS     5000000

/* Behind the time, in MHz. */
enum {
    GRAPHICS,
    MEMORY,
    VIDEO,
    SM,
    N_CLOCKS
};

/* Where the time of the clocks is, from that branch on; 0: nowhere, or in a
 * layout that is not public. src: cl00de.h at 535.183.01, 545.29.06, 550.54.14,
 * 550.163.01, 555.58.02, 560.28.03, 560.35.03, 565.77, 570.195.03, 575.64.05,
 * 580.142, 590.48.01 and 595.45.04 */
static const struct {
    uint32_t major, offset_bytes;
} places[] = {{610, 0}, {560, 72}, {550, 32}, {545, 16}, {0, 0}};

static uint32_t
find_clock_offset(uint32_t major)
{
    size_t i = 0;

    while (places[i].major > major)
        i++;
    return places[i].offset_bytes;
}

/* Zero: it is being written, or was not yet. */
static uint32_t
read_clock(const volatile uint64_t *time)
{
    const volatile uint32_t *mhz = (const volatile uint32_t *)(time + 1);
    uint64_t start = *time;
    uint32_t clock;

    /* the time is read before and after what it covers */
    hcq_order_reads();
    clock = mhz[SM] ? mhz[SM] : mhz[GRAPHICS];
    hcq_order_reads();
    return start && start < NOT_A_TIME && *time == start ? clock : 0;
}

bell_status
nv_clock_open(struct nv_rm *rm, struct nv_clock *out_clock)
{
    struct nv00de_alloc params = {.polledDataMask = POLL_CLOCK};
    struct nv_clock clock = {.page = 0};
    uint32_t place = find_clock_offset(rm->abi.major);
    bell_status status;

    if (!place)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "driver branch %u is not known to tell of clocks",
                         rm->abi.major);
    BELL_TRY(nv_rm_alloc(rm, rm->subdevice, RM_USER_SHARED_DATA,
                         NV_S_NV00DE_ALLOC, &params, &clock.page));
    status =
        nv_rm_map(rm, rm->subdevice, clock.page, 0,
                  place + sizeof(uint64_t) + N_CLOCKS * sizeof(uint32_t),
                  NV_RM_MAP_SYSTEM | NV_RM_MAP_READ_ONLY, NULL, &clock.map);
    if (status != BELL_OK) {
        nv_rm_free(rm, rm->subdevice, clock.page);
        return status;
    }
    clock.place = (const char *)clock.map.cpu + place;
    *out_clock = clock;
    return BELL_OK;
}

uint32_t
nv_clock_read(const struct nv_clock *clock)
{
    return read_clock((const volatile uint64_t *)(const void *)clock->place);
}

void
nv_clock_close(struct nv_rm *rm, struct nv_clock *clock)
{
    if (!clock->place)
        return;
    nv_rm_unmap(rm, &clock->map);
    nv_rm_free(rm, rm->subdevice, clock->page);
    clock->place = NULL;
}

bell_status
nv_clock_mhz(struct hcq_device *base, uint32_t *out_mhz)
{
    struct nv_rm *rm = ((struct nv_device *)base)->rm;
    struct timespec nap = {.tv_nsec = NAP_NS};
    uint64_t start = time_now_ns();
    struct nv_clock clock;
    uint32_t mhz;

    BELL_TRY(nv_clock_open(rm, &clock));
    while (!(mhz = nv_clock_read(&clock)) && time_now_ns() - start < LIMIT_NS)
        nanosleep(&nap, NULL);
    nv_clock_close(rm, &clock);
    if (!mhz)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: the driver tells of no clock in %u ms",
                         base->info.name, (unsigned)(LIMIT_NS / 1000000));
    *out_mhz = mhz;
    return BELL_OK;
}
