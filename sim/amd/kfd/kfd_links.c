/* Links between the cards of a machine: hives of XGMI, peers over PCIe, and
 * what sysfs tells of them. src: docs/hardware/amd-kernel.md, "Peers". */
#include <assert.h>
#include <stdio.h>

#include "base/bits.h"
#include "sim/amd/kfd/kfd.h"

#define TYPE_PCIE 2u
#define TYPE_XGMI 11u

#define FLAG_ENABLED      1u
#define FLAG_NON_COHERENT 2u

#define WEIGHT_PCIE   20u
#define WEIGHT_XGMI   15u
#define WEIGHT_SOCKET 13u /* between partitions of one GPU, to its CPU */

#define PCIE_LEAST_MB_S 312u /* one lane of generation 1 */

/* A row of io_links or p2p_links; nodes, not cards. */
struct row {
    uint32_t type, from, to, weight, min_mb_s, max_mb_s, engines, flags;
};

/* The engine that suits a link between two of eight GPUs, by their places in
 * the hive. src: Linux 6.12, kfd_topology.c, rec_sdma_eng_map */
static const uint8_t engine_of_eight[8][8] = {
    {0, 14, 12, 2, 4, 8, 10, 6}, {14, 0, 2, 10, 8, 4, 6, 12},
    {10, 2, 0, 12, 14, 6, 4, 8}, {2, 12, 10, 0, 6, 14, 8, 4},
    {4, 8, 14, 6, 0, 10, 12, 2}, {8, 4, 6, 14, 12, 0, 2, 10},
    {10, 6, 4, 8, 12, 2, 0, 14}, {6, 12, 8, 4, 2, 10, 14, 0},
};

/* The GPU that a card is on; several partitions may share it. */
static uint32_t
gpu_of(const struct kfd_machine *machine, uint32_t card)
{
    return card / machine->n_partitions;
}

/* From 1; 0: the card is in none. */
static uint32_t
hive_of(const struct kfd_machine *machine, uint32_t card)
{
    if (!machine->hive_gpus)
        return 0;
    return 1 + gpu_of(machine, card) / machine->hive_gpus;
}

uint64_t
kfd_hive_id(const struct kfd_card *card)
{
    uint32_t hive = hive_of(card->machine, card->index);

    return hive ? 0x9384a1b2c3d4e500ull + hive : 0;
}

/* src: docs/hardware/amd-kernel.md, "Peers": kfd_get_num_sdma_engines */
uint32_t
kfd_n_sdma(const struct kfd_machine *machine)
{
    uint32_t n = machine->chip->n_sdma;

    return machine->chip->has_xgmi && n > 2 ? 2 : n;
}

uint32_t
kfd_n_sdma_xgmi(const struct kfd_machine *machine)
{
    return machine->chip->n_sdma - kfd_n_sdma(machine);
}

/* src: Linux 6.12, amdgpu_device_is_peer_accessible */
bool
kfd_reaches_bar(const struct kfd_machine *machine)
{
    return machine->has_p2p && !machine->p2p_is_off &&
           !machine->acs_redirects && !machine->bar_mib;
}

enum kfd_link
kfd_link_between(const struct kfd_machine *machine, uint32_t a, uint32_t b)
{
    uint32_t hive = hive_of(machine, a);

    assert(a < machine->n_cards && b < machine->n_cards && a != b);
    if (hive && hive == hive_of(machine, b))
        return KFD_LINK_XGMI;
    return kfd_reaches_bar(machine) ? KFD_LINK_PCIE : KFD_LINK_NONE;
}

/* ---- sysfs ---- */

static uint32_t
all_engines(uint32_t first, uint32_t n)
{
    return (uint32_t)((1ull << n) - 1) << first;
}

/* src: Linux 6.12, kfd_topology.c, kfd_set_recommended_sdma_engines */
static uint32_t
xgmi_engines(const struct kfd_machine *machine, uint32_t from, uint32_t to)
{
    uint32_t n = kfd_n_sdma_xgmi(machine);

    if (machine->hive_gpus == 8 && machine->n_partitions == 1 && n >= 14 &&
        !machine->is_virtual && !machine->chip->is_apu)
        return 1u << engine_of_eight[from % 8][to % 8];
    return n ? all_engines(kfd_n_sdma(machine), n)
             : all_engines(0, kfd_n_sdma(machine));
}

/* Generation 5 of sixteen lanes, or 4; the kernel tells the most that the card
 * takes. src: Linux 6.12, amdgpu_amdkfd_get_pcie_bandwidth_mbytes */
static uint32_t
pcie_mb_s(const struct kfd_machine *machine)
{
    uint32_t version = machine->chip->gfx_target_version;

    return version >= 120000 || version / 100 == 904 ? 64000 : 32000;
}

/* PCIe, or XGMI within a socket. src: Linux 6.12, kfd_crat.c,
 * kfd_fill_gpu_direct_io_link_to_cpu */
static void
fill_to_cpu(const struct kfd_machine *machine, uint32_t node, struct row *row)
{
    bool in_socket = machine->chip->has_no_memory;

    *row = (struct row){
        .type = in_socket ? TYPE_XGMI : TYPE_PCIE,
        .from = node,
        .to = 0,
        .weight = in_socket ? WEIGHT_SOCKET : WEIGHT_PCIE,
        .min_mb_s = PCIE_LEAST_MB_S,
        .max_mb_s = pcie_mb_s(machine),
        .engines = all_engines(0, kfd_n_sdma(machine)),
        .flags = FLAG_ENABLED,
    };
}

static void
fill_xgmi(const struct kfd_machine *machine, uint32_t from, uint32_t to,
          struct row *row)
{
    bool is_divided = machine->n_partitions > 1;
    bool is_near = gpu_of(machine, from) == gpu_of(machine, to);

    *row = (struct row){
        .type = TYPE_XGMI,
        .weight = !is_divided ? WEIGHT_XGMI
                  : is_near   ? WEIGHT_SOCKET
                              : 2 * WEIGHT_SOCKET + WEIGHT_XGMI,
        .engines = xgmi_engines(machine, from, to),
        .flags = FLAG_ENABLED,
    };
    row->max_mb_s = !is_divided ? machine->chip->xgmi_mb_s
                    : is_near   ? 819200
                                : 0;
    row->min_mb_s = row->max_mb_s;
}

/* Over both cards' links to the CPU. No engines are recommended for it. src:
 * Linux 6.12, kfd_add_peer_prop */
static void
fill_p2p(const struct kfd_machine *machine, struct row *row)
{
    *row = (struct row){
        .type = TYPE_PCIE,
        .weight = 2 * WEIGHT_PCIE,
        .min_mb_s = PCIE_LEAST_MB_S,
        .max_mb_s = pcie_mb_s(machine),
        .flags = FLAG_ENABLED | FLAG_NON_COHERENT,
    };
}

/* Link `number` of a card, of those of a kind; false: it has fewer. */
static bool
fill_of_kind(const struct kfd_machine *machine, uint32_t card,
             enum kfd_link kind, uint32_t number, struct row *row)
{
    uint32_t i;

    for (i = 0; i < machine->n_cards; i++) {
        if (i == card || kfd_link_between(machine, card, i) != kind ||
            number-- > 0)
            continue;
        if (kind == KFD_LINK_XGMI)
            fill_xgmi(machine, card, i, row);
        else
            fill_p2p(machine, row);
        row->from = card + KFD_CPU_NODES;
        row->to = i + KFD_CPU_NODES;
        return true;
    }
    return false;
}

/* A card lists its CPU first, then its hive; a CPU the cards whose memory it
 * sees. src: Linux 6.12, kfd_create_vcrat_image_gpu,
 * kfd_parse_subtype_iolink */
static bool
fill_link(const struct kfd_machine *machine, uint32_t node, uint32_t number,
          struct row *row)
{
    if (node >= KFD_CPU_NODES) {
        if (number == 0)
            fill_to_cpu(machine, node, row);
        return number == 0 || fill_of_kind(machine, node - KFD_CPU_NODES,
                                           KFD_LINK_XGMI, number - 1, row);
    }
    if (machine->bar_mib || number >= machine->n_cards)
        return false;
    fill_to_cpu(machine, 0, row);
    row->to = number + KFD_CPU_NODES;
    row->flags |= FLAG_NON_COHERENT;
    return true;
}

static bool
fill_p2p_link(const struct kfd_machine *machine, uint32_t node, uint32_t number,
              struct row *row)
{
    return node >= KFD_CPU_NODES && fill_of_kind(machine, node - KFD_CPU_NODES,
                                                 KFD_LINK_PCIE, number, row);
}

uint32_t
kfd_count_links(const struct kfd_machine *machine, uint32_t node, bool is_p2p)
{
    struct row row;
    uint32_t n = 0;

    while (is_p2p ? fill_p2p_link(machine, node, n, &row)
                  : fill_link(machine, node, n, &row))
        n++;
    return n;
}

bool
kfd_put_link(struct sim_text *text, const struct kfd_machine *machine,
             uint32_t node, bool is_p2p, uint32_t number)
{
    struct row row;

    if (!(is_p2p ? fill_p2p_link(machine, node, number, &row)
                 : fill_link(machine, node, number, &row)))
        return false;
    sim_text_put(text,
                 "type %u\nversion_major 0\nversion_minor 0\nnode_from %u\n"
                 "node_to %u\nweight %u\nmin_latency 0\nmax_latency 0\n",
                 row.type, row.from, row.to, row.weight);
    sim_text_put(text,
                 "min_bandwidth %u\nmax_bandwidth %u\n"
                 "recommended_transfer_size 0\n",
                 row.min_mb_s, row.max_mb_s);
    if (machine->kfd_minor >= 17)
        sim_text_put(text, "recommended_sdma_engine_id_mask %u\n", row.engines);
    sim_text_put(text, "flags %u\n", row.flags);
    return true;
}
