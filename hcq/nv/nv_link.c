/* How one NVIDIA card reaches another's memory, by what the kernel's driver
 * says of the two: it decides by links, bridges, switches and kinds of cards,
 * and makes peers of those alone that it says can be.
 *
 * src: docs/hardware/nvidia-kernel.md, "Peers"; rates of links: base/chip.c;
 * PCI Express 5.0, table of link speeds and encodings
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chip.h"
#include "hcq/nv/nv_control.h"
#include "ioctl/nv_uapi.h"

/* NV0000_CTRL_SYSTEM_GET_P2P_CAPS_* */
#define CAP_WRITES   (1u << 0)
#define CAP_READS    (1u << 1)
#define CAP_NVLINK   (1u << 3)
#define CAP_ATOMICS  (1u << 4)
#define CAP_PCI_BAR1 (1u << 13)

/* NV0000_CTRL_P2P_CAPS_INDEX_READ */
#define INDEX_READ 0

/* NV2080_CTRL_GPU_FABRIC_PROBE_STATE_* */
#define FABRIC_NOT_STARTED 1u
#define FABRIC_IN_PROGRESS 2u

/* Whether switches that the card's links lead to still wait for somebody to
 * configure them. A driver that does not tell has none. */
static bool
waits_for_fabric(struct nv_device *dev)
{
    struct nv2080_get_gpu_fabric_probe_info info = {0};

    return nv_rm_control(dev->rm, dev->rm->subdevice,
                         NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO,
                         NV_S_NV2080_GET_GPU_FABRIC_PROBE_INFO,
                         &info) == BELL_OK &&
           (info.state == FABRIC_NOT_STARTED ||
            info.state == FABRIC_IN_PROGRESS);
}

/* Links of the card that are in use: 0 also where the driver does not tell. */
static uint32_t
count_links(struct nv_device *dev)
{
    struct nv2080_nvlink_get_nvlink_status status = {0};

    if (nv_rm_control(dev->rm, dev->rm->subdevice,
                      NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS,
                      NV_S_NV2080_NVLINK_GET_NVLINK_STATUS, &status) != BELL_OK)
        return 0;
    return (uint32_t)__builtin_popcount(status.enabledLinkMask);
}

static double
read_pci_number(struct nv_device *dev, const char *name)
{
    const struct nv_rm_card *card = &dev->rm->card;
    char path[96], text[64];
    size_t n;

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.0/%s",
             card->domain, card->bus, card->slot, name);
    if (kio_read_file(dev->kio, path, text, sizeof(text), &n) != BELL_OK)
        return 0;
    return strtod(text, NULL);
}

/* What the card's slot carries in one direction at its best; 0: not known. */
static uint64_t
pci_bytes_per_s(struct nv_device *dev)
{
    double gt_s = read_pci_number(dev, "max_link_speed");
    double n_lanes = read_pci_number(dev, "max_link_width");
    double coding = gt_s < 8 ? 8.0 / 10 : 128.0 / 130;

    return (uint64_t)(gt_s * 1e9 / 8 * coding * n_lanes);
}

static void
say_why_not(struct nv_device *dev, const uint8_t *status,
            struct hcq_device_link *link)
{
    static const char *const why[] = {
        "the kernel's driver offers no path between them",
        "the kernel's driver lets no peers across this machine's PCI bridges",
        "the kernel's driver makes no peers of this kind of card",
        "the cards are behind different I/O hubs",
        "peers are switched off by an option of the kernel's driver",
    };
    uint8_t code = status[INDEX_READ];

    link->kind = HCQ_LINK_HOST;
    link->hops = 2;
    if (waits_for_fabric(dev))
        snprintf(link->reason, sizeof(link->reason), NV_NO_FABRIC);
    else
        snprintf(link->reason, sizeof(link->reason), "%s",
                 why[code < sizeof(why) / sizeof(why[0]) ? code : 0]);
}

static void
describe_nvlink(struct nv_device *dev, struct hcq_device_link *link)
{
    const struct chip_link *row = chip_link_find(dev->base.info.arch);
    uint32_t n = count_links(dev);
    double link_gb_s = row ? row->link_gb_s : 0;

    link->kind = HCQ_LINK_NVLINK;
    link->bytes_per_s = (uint64_t)(n * link_gb_s * 1e9);
    if (link->bytes_per_s)
        snprintf(link->reason, sizeof(link->reason),
                 "%u NVLinks of %.0f GB/s in each direction", n, link_gb_s);
    else
        snprintf(link->reason, sizeof(link->reason), "NVLink");
}

static void
describe_pci(struct nv_device *dev, struct nv_device *owner, uint32_t caps,
             struct hcq_device_link *link)
{
    uint64_t mine = pci_bytes_per_s(dev), theirs = pci_bytes_per_s(owner);

    link->kind = caps & CAP_PCI_BAR1 ? HCQ_LINK_BAR1 : HCQ_LINK_PCIE;
    link->bytes_per_s = mine < theirs ? mine : theirs;
    snprintf(link->reason, sizeof(link->reason),
             "PCI Express%s: the slower card's slot",
             caps & CAP_PCI_BAR1 ? ", all of the memory in BAR1" : "");
}

/* Two cards of one kernel. */
static void
ask_driver(struct nv_device *dev, struct nv_device *owner,
           struct hcq_device_link *link)
{
    struct nv0000_system_get_p2p_caps_v2 caps = {
        .gpuIds = {dev->rm->card.gpu_id, owner->rm->card.gpu_id},
        .gpuCount = 2,
    };
    const uint32_t both = CAP_READS | CAP_WRITES;

    if (nv_rm_control(dev->rm, dev->rm->client,
                      NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2,
                      NV_S_NV0000_SYSTEM_GET_P2P_CAPS_V2, &caps) != BELL_OK) {
        link->kind = HCQ_LINK_HOST;
        link->hops = 2;
        snprintf(link->reason, sizeof(link->reason), "%.*s",
                 (int)sizeof(link->reason) - 1, bell_error_last()->message);
        return;
    }
    if ((caps.p2pCaps & both) != both) {
        say_why_not(dev, caps.p2pCapsStatus, link);
        return;
    }
    link->hops = 1;
    link->reads = link->writes = true;
    link->atomics = caps.p2pCaps & CAP_ATOMICS;
    link->engines = caps.p2pOptimalWriteCEs | caps.p2pOptimalReadCEs;
    if (caps.p2pCaps & CAP_NVLINK)
        describe_nvlink(dev, link);
    else
        describe_pci(dev, owner, caps.p2pCaps, link);
}

bell_status
nv_get_link(struct hcq_device *base, struct hcq_device *other,
            struct hcq_device_link *link)
{
    struct nv_device *dev = nv_device_of(base), *owner = nv_device_of(other);
    struct bell_error_hold hold; /* a fact that is not reported is not a
                                  * failure */

    if (!nv_same_machine(dev, owner)) {
        link->kind = HCQ_LINK_HOST;
        link->hops = 2;
        snprintf(link->reason, sizeof(link->reason),
                 "they are of different machines");
        return BELL_OK;
    }
    if (dev->rm->instance == owner->rm->instance) {
        link->kind = HCQ_LINK_SELF;
        link->reads = link->writes = link->atomics = true;
        snprintf(link->reason, sizeof(link->reason),
                 "two openings of one card");
        return BELL_OK;
    }
    bell_error_hold(&hold);
    ask_driver(dev, owner, link);
    bell_error_release(&hold);
    return BELL_OK;
}

static uint32_t
nv_pci_place(const struct nv_device *dev)
{
    const struct nv_rm_card *card = &dev->rm->card;

    return kio_pci_place(card->domain, card->bus, card->slot);
}

bell_status
nv_link_bytes(struct hcq_device *base, struct hcq_device *other,
              struct hcq_link_bytes *out_bytes)
{
    struct nv_device *dev = nv_device_of(base), *owner = nv_device_of(other);

    return hcq_read_link_bytes(
        base, other, nv_same_machine(dev, owner) ? dev->kio : NULL,
        nv_pci_place(dev), nv_pci_place(owner), out_bytes);
}
