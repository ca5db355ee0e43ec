/* How the cards of a machine reach each other: what RM says of pairs of cards,
 * the objects that make two of them peers, links and their switches.
 *
 * src: docs/hardware/nvidia-kernel.md, "Peers"; NVIDIA/open-gpu-kernel-modules
 * 595.45.04: p2p_caps.c (p2pGetCapsStatus), client_resource.c
 * (CliGetSystemP2pCaps, cliresCtrlCmdSystemGetP2pCapsV2_IMPL,
 * cliresCtrlCmdSystemGetP2pCapsMatrix_IMPL), p2p_api.c (p2papiConstruct_IMPL),
 * subdevice_ctrl_gpu_kernel.c (subdeviceCtrlCmdGetGpuFabricProbeInfo_IMPL).
 *
 * guess: which copy engines are the best ones of a link, and which peer a card
 * gets which number for; a box of one card shows no links, as the one that was
 * observed (H100, 2026-11-22).
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "ioctl/nv_uapi.h"

/* NV0000_CTRL_SYSTEM_GET_P2P_CAPS_* */
#define CAP_WRITES   (1u << 0)
#define CAP_READS    (1u << 1)
#define CAP_PROP     (1u << 2)
#define CAP_NVLINK   (1u << 3)
#define CAP_ATOMICS  (1u << 4)
#define CAP_PCI      (1u << 6)
#define CAP_PCI_BAR1 (1u << 13)

/* NV0000_CTRL_P2P_CAPS_INDEX_* */
enum {
    INDEX_READ,
    INDEX_WRITE,
    INDEX_NVLINK,
    INDEX_ATOMICS,
    INDEX_PROP,
    INDEX_LOOPBACK,
    INDEX_PCI,
    INDEX_C2C,
    INDEX_PCI_BAR1,
    INDEX_COUNT
};

#define STATUS_OK            0u /* NV0000_P2P_CAPS_STATUS_ */
#define STATUS_GPU           2u
#define STATUS_NOT_SUPPORTED 5u
#define NO_PEER              0xffffffffu
#define MAX_GROUP            8u
#define FABRIC_NOT_STARTED   1u /* NV2080_CTRL_GPU_FABRIC_PROBE_STATE_ */
#define FABRIC_COMPLETE      3u
#define FABRIC_CAP_MULTICAST 1u
#define NO_DMA_ADDRESS       UINT64_MAX
#define NO_FABRIC_ADDRESS    UINT64_MAX

/* ---- pairs ---- */

enum rm_link
rm_link_of(const struct rm_machine *machine, uint32_t a, uint32_t b)
{
    enum rm_link link = machine->links[a][b];

    assert(a < machine->n_cards && b < machine->n_cards && a != b);
    /* Behind a switch there is no other way. */
    return link == RM_LINK_NVLINK && machine->no_fabric ? RM_LINK_NONE : link;
}

bool
rm_has_nvlink(const struct rm_machine *machine, uint32_t card)
{
    uint32_t i;

    for (i = 0; i < machine->n_cards; i++) {
        if (i != card && machine->links[card][i] == RM_LINK_NVLINK)
            return true;
    }
    return false;
}

static uint32_t
caps_of(enum rm_link link)
{
    static const uint32_t caps[] = {
        [RM_LINK_NONE] = 0,
        [RM_LINK_PCIE] = CAP_READS | CAP_WRITES | CAP_PCI | CAP_PROP,
        [RM_LINK_BAR1] = CAP_READS | CAP_WRITES | CAP_PCI | CAP_PCI_BAR1,
        [RM_LINK_NVLINK] = CAP_READS | CAP_WRITES | CAP_NVLINK | CAP_ATOMICS,
    };

    assert(link < ARRAY_LEN(caps));
    return caps[link];
}

/* What is common to all pairs. */
static uint32_t
caps_of_all(const struct rm_machine *machine, const uint32_t *cards, uint32_t n)
{
    uint32_t caps = UINT32_MAX, i, k;

    for (i = 0; i < n; i++) {
        for (k = 0; k < n; k++) {
            if (cards[i] != cards[k])
                caps &= caps_of(rm_link_of(machine, cards[i], cards[k]));
        }
    }
    return caps == UINT32_MAX ? 0 : caps; /* one card */
}

/* Copy engines for a link of NVLink, from `from` to `to`. */
static uint32_t
best_engines(const struct rm_machine *machine, uint32_t from, uint32_t to)
{
    const struct nvgpu_chip *chip = machine->chip;
    uint32_t n_shared = (uint32_t)__builtin_popcount(chip->grce_mask);
    uint32_t n_own = chip->n_copy_engines - n_shared;

    if (from == to || rm_link_of(machine, from, to) != RM_LINK_NVLINK || !n_own)
        return 0;
    return 1u << (n_shared + (to > from ? to - 1 : to) % n_own);
}

/* ---- what a client may ask ---- */

static enum rm_status
find_cards(const struct rm_machine *machine, const uint32_t *ids, uint32_t n,
           uint32_t *cards)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        const struct rm_card *card =
            rm_card_of_id((struct rm_machine *)machine, ids[i]);

        if (!card)
            return rm_refuse(RM_INVALID_ARGUMENT, "no card of id 0x%x", ids[i]);
        cards[i] = card->index;
    }
    return RM_OK;
}

static void
put_capability_statuses(uint8_t status[INDEX_COUNT], uint32_t caps)
{
    static const uint32_t masks[INDEX_COUNT] = {
        [INDEX_READ] = CAP_READS,        [INDEX_WRITE] = CAP_WRITES,
        [INDEX_NVLINK] = CAP_NVLINK,     [INDEX_ATOMICS] = CAP_ATOMICS,
        [INDEX_PROP] = CAP_PROP,         [INDEX_PCI] = CAP_PCI,
        [INDEX_PCI_BAR1] = CAP_PCI_BAR1,
    };
    uint32_t i;

    for (i = 0; i < INDEX_COUNT; i++)
        status[i] = caps & masks[i] ? STATUS_OK : STATUS_NOT_SUPPORTED;
}

static enum rm_status
get_p2p_caps_v2(struct rm_control *c)
{
    struct nv0000_system_get_p2p_caps_v2 *p = c->params;
    const struct rm_machine *machine = c->machine;
    uint32_t cards[ARRAY_LEN(p->gpuIds)], n = p->gpuCount, i, k;
    enum rm_status status;

    if (n == 0 || n > ARRAY_LEN(p->gpuIds))
        return rm_refuse(RM_INVALID_ARGUMENT, "capabilities of %u cards", n);
    status = find_cards(machine, p->gpuIds, n, cards);
    if (status != RM_OK)
        return status;
    p->p2pCaps = caps_of_all(machine, cards, n);
    put_capability_statuses(p->p2pCapsStatus, p->p2pCaps);
    /* GeForce cards say so themselves. guess: which of both does */
    if (!p->p2pCaps && n > 1 && !rm_has_nvlink(machine, cards[0]))
        p->p2pCapsStatus[INDEX_READ] = p->p2pCapsStatus[INDEX_WRITE] =
            STATUS_GPU;
    p->p2pOptimalReadCEs = p->p2pOptimalWriteCEs =
        n == 2 ? best_engines(machine, cards[0], cards[1]) : 0;
    for (i = 0; i < n; i++) {
        for (k = 0; k < n; k++) {
            bool is_peer = machine->n_peerings[cards[i]][cards[k]] > 0;

            p->busPeerIds[i * n + k] = is_peer ? cards[k] : NO_PEER;
            p->busEgmPeerIds[i * n + k] = NO_PEER;
        }
    }
    return RM_OK;
}

static enum rm_status
get_p2p_caps_matrix(struct rm_control *c)
{
    struct nv0000_system_get_p2p_caps_matrix *p = c->params;
    bool is_reflexive = p->grpBCount == 0;
    uint32_t a[MAX_GROUP], b[MAX_GROUP], n_b, i, k;
    enum rm_status status;

    if (!p->grpACount || p->grpACount > MAX_GROUP || p->grpBCount > MAX_GROUP)
        return rm_refuse(RM_INVALID_ARGUMENT, "groups of %u and %u cards",
                         p->grpACount, p->grpBCount);
    n_b = is_reflexive ? p->grpACount : p->grpBCount;
    status = find_cards(c->machine, p->gpuIdGrpA, p->grpACount, a);
    if (status == RM_OK)
        status = find_cards(c->machine,
                            is_reflexive ? p->gpuIdGrpA : p->gpuIdGrpB, n_b, b);
    for (i = 0; status == RM_OK && i < p->grpACount; i++) {
        for (k = 0; k < n_b; k++) {
            uint32_t at = i * MAX_GROUP + k, pair[2] = {a[i], b[k]};

            p->p2pCaps[at] = caps_of_all(c->machine, pair, 2);
            p->a2bOptimalReadCes[at] = p->a2bOptimalWriteCes[at] =
                best_engines(c->machine, a[i], b[k]);
            p->b2aOptimalReadCes[at] = p->b2aOptimalWriteCes[at] =
                best_engines(c->machine, b[k], a[i]);
        }
    }
    return status;
}

/* Only cards behind switches have something to be configured; from Hopper on
 * each is asked. */
static enum rm_status
get_fabric_info(struct rm_control *c)
{
    struct nv2080_get_gpu_fabric_probe_info *p = c->params;

    memset(p, 0, sizeof(*p));
    if (c->machine->chip->sm < 90 ||
        !rm_has_nvlink(c->machine, c->object->card->index))
        return RM_OK; /* UNSUPPORTED */
    p->state = c->machine->no_fabric ? FABRIC_NOT_STARTED : FABRIC_COMPLETE;
    p->fabricCaps = c->machine->no_fabric ? 0 : FABRIC_CAP_MULTICAST;
    return RM_OK;
}

/* It tells which links are in use, and nothing else of them. */
static enum rm_status
get_link_status(struct rm_control *c)
{
    struct nv2080_nvlink_get_nvlink_status *p = c->params;
    uint32_t n = c->machine->n_nvlinks;

    memset(p, 0, sizeof(*p));
    if (!rm_has_nvlink(c->machine, c->object->card->index))
        return RM_OK;
    p->enabledLinkMask = (uint32_t)(((uint64_t)1 << n) - 1);
    p->enabledLinks.lenMasks = 1;
    p->enabledLinks.masks[0] = p->enabledLinkMask;
    return RM_OK;
}

#define CLIENT    (1u << RM_KIND_CLIENT)
#define SUBDEVICE (1u << RM_KIND_SUBDEVICE)

/* clang-format off */
const struct rm_control_row rm_peer_controls[] = {
    {NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2, NV_S_NV0000_SYSTEM_GET_P2P_CAPS_V2, CLIENT, get_p2p_caps_v2},
    {NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_MATRIX, NV_S_NV0000_SYSTEM_GET_P2P_CAPS_MATRIX, CLIENT, get_p2p_caps_matrix},
    {NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO, NV_S_NV2080_GET_GPU_FABRIC_PROBE_INFO, SUBDEVICE, get_fabric_info},
    {NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS, NV_S_NV2080_NVLINK_GET_NVLINK_STATUS, SUBDEVICE, get_link_status},
};
/* clang-format on */
const size_t rm_n_peer_controls = ARRAY_LEN(rm_peer_controls);

/* ---- peers ---- */

/* As RM does when an object for the pair comes or goes, UVM's own too. */
void
rm_peering_add(struct rm_machine *machine, uint32_t a, uint32_t b)
{
    assert(rm_link_of(machine, a, b) != RM_LINK_NONE);
    machine->n_peerings[a][b]++;
    machine->n_peerings[b][a]++;
}

void
rm_peering_remove(struct rm_machine *machine, uint32_t a, uint32_t b)
{
    assert(machine->n_peerings[a][b] > 0 && machine->n_peerings[b][a] > 0);
    machine->n_peerings[a][b]--;
    machine->n_peerings[b][a]--;
}

static bool
is_one_bit_or_none(uint32_t mask)
{
    return (mask & (mask - 1)) == 0;
}

/* Class 0x503B, below the client: two subdevices of it. */
enum rm_status
rm_alloc_peers(struct rm_alloc *a)
{
    struct nv503b_alloc *p = a->params;
    const struct rm_object *near, *far;
    struct rm_object *object = a->object;

    near = rm_find_kind(a->client, p->hSubDevice, RM_KIND_SUBDEVICE);
    far = rm_find_kind(a->client, p->hPeerSubDevice, RM_KIND_SUBDEVICE);
    if (!near || !far)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "0x%x or 0x%x is not a subdevice of the client",
                         p->hSubDevice, p->hPeerSubDevice);
    if (!is_one_bit_or_none(p->subDevicePeerIdMask) ||
        !is_one_bit_or_none(p->peerSubDevicePeerIdMask))
        return rm_refuse(RM_INVALID_ARGUMENT, "peer numbers 0x%x, 0x%x",
                         p->subDevicePeerIdMask, p->peerSubDevicePeerIdMask);
    if (p->flags)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "peers by addresses of the system: no card of this "
                         "machine has ATS");
    if (near->card == far->card || rm_link_of(a->machine, near->card->index,
                                              far->card->index) == RM_LINK_NONE)
        return rm_refuse(RM_NOT_SUPPORTED, "cards %u and %u cannot be peers",
                         near->card->index, far->card->index);
    object->card = near->card;
    object->peer = far->card;
    rm_peering_add(a->machine, near->card->index, far->card->index);
    p->l2pBar1P2PDmaInfo.dma_address = p->p2lBar1P2PDmaInfo.dma_address =
        NO_DMA_ADDRESS;
    p->l2pBar1P2PDmaInfo.dma_size = p->p2lBar1P2PDmaInfo.dma_size = 0;
    p->l2pFabricP2PInfo.gpa = p->p2lFabricP2PInfo.gpa = NO_FABRIC_ADDRESS;
    return RM_OK;
}

void
rm_peers_fini(struct rm_object *object)
{
    if (object->peer)
        rm_peering_remove(object->card->machine, object->card->index,
                          object->peer->index);
    object->peer = NULL;
}

/* Peers go before a subdevice of theirs does. */
void
rm_peers_forget(struct rm_object *subdevice)
{
    struct rm_client *client = subdevice->client;
    size_t i = 0;

    while (i < client->n_objects) {
        struct rm_object *o = client->objects[i];

        if (o->kind == RM_KIND_PEERS &&
            (o->card == subdevice->card || o->peer == subdevice->card)) {
            rm_object_free(o);
            i = 0;
        } else {
            i++;
        }
    }
}
