/* AMD: what tools may know of cards, devices and programs. */
#include "hcq/hcq_facts_internal.h"

#include <stdio.h>

#include "base/bits.h"
#include "hcq/amd/amd_kfd.h"
#include "ioctl/kfd_uapi.h"

_Static_assert(AMD_MAX_CARDS <= HCQ_CARDS_MAX, "every card has a place");

static bell_status
list_amd_cards(struct hcq_card out_list[HCQ_CARDS_MAX], size_t *out_n)
{
    struct amd_topology cards[AMD_MAX_CARDS];
    bell_status status;
    struct kio *kio;
    uint32_t n, i;

    BELL_TRY(kio_sys_create(&kio));
    status = amd_topology_list(kio, cards, AMD_MAX_CARDS, &n);
    kio_destroy(kio);
    BELL_TRY(status);
    if (n > AMD_MAX_CARDS)
        n = AMD_MAX_CARDS;
    for (i = 0; i < n; i++) {
        snprintf(out_list[i].address, sizeof(out_list[i].address),
                 "%04x:%02x:%02x.%x", cards[i].domain & 0xffff,
                 cards[i].location >> 8 & 0xff, cards[i].location >> 3 & 0x1f,
                 cards[i].location & 7);
        out_list[i].render_minor = (int32_t)cards[i].render_minor;
    }
    *out_n = n;
    return BELL_OK;
}

static bell_status
tell_amd_device(struct hcq_device *dev, hcq_fact_fn *tell, void *user)
{
    const struct amd_topology *of = &amd_device_of(dev)->topology;
    const struct hcq_fact facts[] = {
        {"xcc", .value = of->n_xcc},
        {"sdma", .value = of->n_sdma},
        {"sdma_xgmi", .value = of->n_sdma_xgmi},
    };

    return hcq_tell_facts(facts, ARRAY_LEN(facts), tell, user);
}

static bell_status
tell_amd_program(const struct hcq_program_base *base, hcq_fact_fn *tell,
                 void *user)
{
    const struct amd_program *p =
        HCQ_CONTAINER(base, const struct amd_program, base);
    const struct hcq_fact facts[] = {
        {"entry", .value = p->entry_va},
        {"descriptor", .value = p->descriptor_va},
        {"rsrc1", .value = p->rsrc1},
        {"rsrc2", .value = p->rsrc2},
        {"rsrc3", .value = p->rsrc3},
        {"properties", .value = p->properties},
        {"lds_bytes", .value = p->lds_bytes},
        {"scratch_bytes", .value = p->scratch_bytes},
    };

    return hcq_tell_facts(facts, ARRAY_LEN(facts), tell, user);
}

/* A gauge's state is the device itself: nothing is kept. */
static bell_status
share_amd_gauge(struct hcq_device *dev, void **out_state)
{
    *out_state = dev;
    return BELL_OK;
}

static bell_status
read_amd_gauge(void *state, struct hcq_reading *out)
{
    struct amd_device *dev = amd_device_of(state);
    struct kfd_available_memory available = {.gpu_id = dev->topology.gpu_id};

    BELL_TRY(amd_call(dev->process, KFD_AVAILABLE_MEMORY, &available));
    out->used_bytes = out->memory_bytes > available.bytes
                          ? out->memory_bytes - available.bytes
                          : 0;
    if (hcq_device_clock_mhz(&dev->base, &out->clock_mhz) != BELL_OK)
        out->clock_mhz = 0;
    return BELL_OK;
}

static void
close_amd_gauge(void *state)
{
    (void)state;
}

const struct hcq_facts_ops amd_facts = {
    .backend = "AMD",
    .cards = list_amd_cards,
    .device = tell_amd_device,
    .program = tell_amd_program,
    .gauge_of = share_amd_gauge,
    .gauge_read = read_amd_gauge,
    .gauge_close = close_amd_gauge,
};
