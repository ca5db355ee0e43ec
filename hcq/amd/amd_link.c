/* Links between cards, as hcq tells them. src: docs/hardware/amd-kernel.md,
 * "Peers".
 */
#include <stdio.h>

#include "hcq/amd/amd_kfd.h"

/* One step's weight; partitions of one GPU are closer. */
#define HOP_WEIGHT 15u

static uint32_t
xgmi_engines(const struct amd_topology *t)
{
    uint64_t ordinary = (1ull << (t->n_sdma % 64)) - 1;
    uint64_t all = (1ull << ((t->n_sdma + t->n_sdma_xgmi) % 64)) - 1;

    return (uint32_t)(all & ~ordinary);
}

/* Memory of each reaches the other only by way of the host; why. */
static void
set_host(struct amd_device *dev, struct amd_device *other,
         struct hcq_device_link *link)
{
    link->kind = HCQ_LINK_HOST;
    link->hops = 2;
    amd_link_why_not(dev->process->kio, &dev->topology, &other->topology,
                     link->reason, sizeof(link->reason));
}

bell_status
amd_get_link(struct hcq_device *base, struct hcq_device *of,
             struct hcq_device_link *link)
{
    struct amd_device *dev = amd_device_of(base), *other = amd_device_of(of);
    struct amd_link found;

    if (dev->process != other->process) {
        link->kind = HCQ_LINK_HOST;
        link->hops = 2;
        snprintf(link->reason, sizeof(link->reason),
                 "cards of two machines: %s and %s", base->info.name,
                 of->info.name);
        return BELL_OK;
    }
    if (dev->card == other->card) {
        link->kind = HCQ_LINK_SELF;
        link->reads = link->writes = link->atomics = true;
        snprintf(link->reason, sizeof(link->reason), "one card");
        return BELL_OK;
    }
    if (!amd_link_find(dev->process->kio, &dev->topology, &other->topology,
                       &found)) {
        set_host(dev, other, link);
        return BELL_OK;
    }
    link->kind = found.is_xgmi ? HCQ_LINK_XGMI : HCQ_LINK_PCIE;
    link->hops = found.is_xgmi && found.weight > HOP_WEIGHT
                     ? found.weight / HOP_WEIGHT
                     : 1;
    link->engines = found.engines;
    if (!link->engines && found.is_xgmi) /* KFD before 1.17 recommends none */
        link->engines = xgmi_engines(&dev->topology);
    link->bytes_per_s = found.bytes_per_s;
    link->reads = link->writes = true;
    link->atomics = found.has_atomics;
    snprintf(link->reason, sizeof(link->reason),
             "KFD's topology: %s of weight %u", found.is_xgmi ? "XGMI" : "PCIe",
             found.weight);
    return BELL_OK;
}

static uint32_t
pci_place(const struct amd_topology *t)
{
    return kio_pci_place(t->domain, t->location >> 8, t->location >> 3 & 0x1f);
}

bell_status
amd_link_bytes(struct hcq_device *base, struct hcq_device *of,
               struct hcq_link_bytes *out_bytes)
{
    struct amd_device *dev = amd_device_of(base), *other = amd_device_of(of);

    return hcq_read_link_bytes(
        base, of, dev->process == other->process ? dev->process->kio : NULL,
        pci_place(&dev->topology), pci_place(&other->topology), out_bytes);
}

bell_status
amd_link_refuse(struct amd_device *dev, uint32_t owner, const char *name)
{
    const struct amd_topology *t = &dev->process->cards[owner].topology;
    struct amd_link found;
    char why[160];

    if (amd_link_find(dev->process->kio, &dev->topology, t, &found))
        snprintf(why, sizeof(why),
                 "KFD refuses it, although it tells of a link");
    else
        amd_link_why_not(dev->process->kio, &dev->topology, t, why,
                         sizeof(why));
    return bell_fail(BELL_E_UNSUPPORTED, "%s does not reach memory of %s: %s",
                     dev->base.info.name, name, why);
}
