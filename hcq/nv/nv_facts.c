/* NVIDIA: what tools may know of cards, devices and programs. */
#include "hcq/hcq_facts_internal.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/nv/nv.h"
#include "hcq/nv/nv_clock.h"
#include "hcq/nv/nv_gen.h"
#include "hcq/nv/nv_rm.h"
#include "hcq/nv/regs/nv_qmd.h"
#include "ioctl/nv_uapi.h"

/* Indices of FB_GET_INFO, in KiB. src: docs/hardware/nvidia-kernel.md,
 * "Queries" */
#define FB_HEAP_KIB      0x09
#define FB_HEAP_FREE_KIB 0x16

static bell_status
list_nv_cards(struct hcq_card out_list[HCQ_CARDS_MAX], size_t *out_n)
{
    struct nv_rm_card cards[NV_RM_MAX_CARDS];
    bell_status status;
    struct nv_abi abi;
    struct kio *kio;
    uint32_t n, i;

    BELL_TRY(kio_sys_create(&kio));
    status = nv_rm_list(kio, cards, &n, &abi);
    kio_destroy(kio);
    BELL_TRY(status);
    for (i = 0; i < n; i++) {
        snprintf(out_list[i].address, sizeof(out_list[i].address),
                 "%04x:%02x:%02x.0", cards[i].domain & 0xffff,
                 cards[i].bus & 0xff, cards[i].slot & 0xff);
        out_list[i].render_minor = -1;
    }
    *out_n = n;
    return BELL_OK;
}

/* ---- devices and programs ------------------------------------------------ */

static bell_status
tell_nv_device(struct hcq_device *dev, hcq_fact_fn *tell, void *user)
{
    const struct nv_chip *chip = &nv_device_of(dev)->chip;
    const struct hcq_fact facts[] = {
        {"host", .value = chip->host->number, .is_class = true},
        {"compute", .value = chip->compute->number, .is_class = true},
        {"copy", .value = chip->copy->number, .is_class = true},
    };

    return hcq_tell_facts(facts, ARRAY_LEN(facts), tell, user);
}

static const char *
tell_nv_unproven(struct hcq_device *dev)
{
    return nv_device_of(dev)->chip.host->unproven
               ? "its channel class with launches by PCAS action 10, waits by "
                 "ACQ_CIRC_GEQ"
               : "";
}

static void
tell_nv_assumed(struct hcq_device *dev, char *text, size_t size_bytes)
{
    const struct nv_chip *chip = &nv_device_of(dev)->chip;

    if (chip->is_assumed)
        snprintf(text, size_bytes,
                 "SM version 0x%x is not known: the device is used as sm_%u, "
                 "the lowest of its class",
                 chip->sm_version, chip->sm);
}

static bell_status
tell_nv_program(const struct hcq_program_base *base, hcq_fact_fn *tell,
                void *user)
{
    const struct nv_program *p =
        HCQ_CONTAINER(base, const struct nv_program, base);
    const struct hcq_fact facts[] = {
        {"qmd", .data = p->qmd,
         .size_bytes =
             4u * nv_size_qmd_launch((enum nv_qmd_gen)p->launch->gen)},
        {"bank", .data = p->bank0, .size_bytes = p->param_offset},
        {"registers", .value = p->n_regs},
        {"barriers", .value = p->n_barriers},
        {"shared_bytes", .value = p->shared_bytes},
        {"stack_bytes", .value = p->stack_bytes},
        {"bank_bytes", .value = p->bank0_bytes},
        {"params", .value = p->param_offset},
        {"action", .value = p->launch->action},
    };

    return hcq_tell_facts(facts, ARRAY_LEN(facts), tell, user);
}

/* ---- gauges -------------------------------------------------------------- */

struct nv_gauge {
    struct kio *kio; /* owned, with the client; NULL: a device's */
    struct nv_rm *rm;
    struct nv_clock clock; /* no place: the driver tells of none */
};

static bell_status
begin_nv_gauge(struct nv_gauge gauge, void **out_state)
{
    struct nv_gauge *state = host_alloc(sizeof(*state));

    if (!state)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a gauge");
    *state = gauge;
    if (nv_clock_open(state->rm, &state->clock) != BELL_OK)
        state->clock.place = NULL;
    *out_state = state;
    return BELL_OK;
}

static bell_status
open_nv_gauge(uint32_t idx, void **out_state)
{
    struct nv_gauge gauge = {.rm = NULL};
    bell_status status;

    BELL_TRY(kio_sys_create(&gauge.kio));
    status = nv_rm_create(gauge.kio, idx, &gauge.rm);
    if (status == BELL_OK)
        status = begin_nv_gauge(gauge, out_state);
    if (status != BELL_OK) {
        nv_rm_destroy(gauge.rm);
        kio_destroy(gauge.kio);
    }
    return status;
}

static bell_status
share_nv_gauge(struct hcq_device *dev, void **out_state)
{
    struct nv_gauge gauge = {.rm = nv_device_of(dev)->rm};

    return begin_nv_gauge(gauge, out_state);
}

static bell_status
read_nv_gauge(void *state, struct hcq_reading *out)
{
    struct nv_gauge *gauge = state;
    struct nv_index_data list[] = {{FB_HEAP_KIB, 0}, {FB_HEAP_FREE_KIB, 0}};
    struct nv2080_fb_get_info query = {
        .fbInfoListSize = ARRAY_LEN(list),
        .fbInfoList = (uintptr_t)list,
    };

    BELL_TRY(nv_rm_control(gauge->rm, gauge->rm->subdevice,
                           NV2080_CTRL_CMD_FB_GET_INFO, NV_S_NV2080_FB_GET_INFO,
                           &query));
    out->memory_bytes = list[0].data * UINT64_C(1024);
    out->used_bytes = list[0].data > list[1].data
                          ? (list[0].data - list[1].data) * UINT64_C(1024)
                          : 0;
    if (gauge->clock.place)
        out->clock_mhz = nv_clock_read(&gauge->clock);
    return BELL_OK;
}

static void
close_nv_gauge(void *state)
{
    struct nv_gauge *gauge = state;

    nv_clock_close(gauge->rm, &gauge->clock);
    if (gauge->kio) {
        nv_rm_destroy(gauge->rm);
        kio_destroy(gauge->kio);
    }
    host_free(gauge);
}

const struct hcq_facts_ops nv_facts = {
    .backend = "NV",
    .cards = list_nv_cards,
    .device = tell_nv_device,
    .program = tell_nv_program,
    .unproven = tell_nv_unproven,
    .assumed = tell_nv_assumed,
    .gauge_open = open_nv_gauge,
    .gauge_of = share_nv_gauge,
    .gauge_read = read_nv_gauge,
    .gauge_close = close_nv_gauge,
};
