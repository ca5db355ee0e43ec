/* Memory of other cards of the machine, of other processes and drivers.
 *
 * The owner's kernel object is duplicated into our client and put into our
 * address space as our own memory is. Host memory (signals, host-visible
 * buffers) goes below our device. The other card's own memory goes below a
 * device object for that card, and both cards are made peers first; between
 * which cards that can be, the machine decides (nv_link.c).
 * src: docs/hardware/nvidia-kernel.md, "Calls", "Peers". Duplicating between
 * clients of one process is not seen on a GPU.
 */
#include "hcq/nv/nv_control.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

/* The share of that object that we have already, or NULL. */
static struct nv_backing *
find_share(const struct nv_control *control, const struct nv_backing *model)
{
    size_t i;

    assert(model->kind == NV_BACKING_SHARED);
    for (i = 0; i < control->n_backings; i++) {
        struct nv_backing *b = control->backings[i];

        if (b->kind == NV_BACKING_SHARED &&
            b->source_client == model->source_client &&
            b->source_memory == model->source_memory)
            return b;
    }
    return NULL;
}

/* What a share is made from: the owner's backing at `va`. */
static bell_status
describe_share(struct nv_device *owner, uint64_t va, struct nv_backing *model,
               bool *out_on_card, uint64_t *out_offset)
{
    struct nv_control *control = owner->control;
    const struct nv_backing *b;
    uint32_t kind = 0;

    pthread_mutex_lock(&control->lock);
    b = nv_backing_find(control, va, 1);
    if (b) {
        kind = b->kind;
        *model = (struct nv_backing){
            .kind = NV_BACKING_SHARED,
            .size_bytes = b->size_bytes,
            .source_client = owner->rm->client,
            .source_memory = b->memory,
        };
        if (kind == NV_MEM_SYSTEM)
            model->cpu = b->cpu;
        *out_offset = va - b->va;
    }
    pthread_mutex_unlock(&control->lock);
    if (!b)
        return bell_fail(BELL_E_INVALID, "%s has nothing at 0x%llx",
                         owner->base.info.name, (unsigned long long)va);
    if (kind >= NV_MEM_KIND_COUNT)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "0x%llx of %s is pinned or another's: pin it, or ask "
                         "its owner",
                         (unsigned long long)va, owner->base.info.name);
    *out_on_card = kind != NV_MEM_SYSTEM;
    return BELL_OK;
}

/* Says why, where the one card cannot reach the other. */
static bell_status
check_link(struct nv_device *dev, struct nv_device *owner)
{
    struct hcq_device_link link = {.struct_size = sizeof(link)};

    BELL_TRY(nv_get_link(&dev->base, &owner->base, &link));
    if (link.kind > HCQ_LINK_HOST)
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED, "%s cannot reach memory of %s: %s",
                     dev->base.info.name, owner->base.info.name, link.reason);
}

/* A device object for the owner's card; control->lock is held. */
static bell_status
find_peer(struct nv_device *dev, struct nv_device *owner, uint32_t *out_device)
{
    struct nv_control *control = dev->control;
    struct nv_peer peer = {.instance = owner->rm->instance};
    void *peers = control->peers;
    bell_status status;
    size_t i;

    for (i = 0; i < control->n_peers; i++) {
        if (control->peers[i].instance == peer.instance) {
            *out_device = control->peers[i].device;
            return BELL_OK;
        }
    }
    if (host_grow(&peers, &control->cap_peers, control->n_peers + 1,
                  sizeof(peer)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a list of cards");
    control->peers = peers;
    BELL_TRY(check_link(dev, owner));
    BELL_TRY(nv_rm_alloc_device(dev->rm, peer.instance, &peer.device));
    status = control->vm->add_peer(dev, owner, &peer);
    if (status != BELL_OK) {
        nv_rm_free(dev->rm, dev->rm->client, peer.device);
        return status;
    }
    control->peers[control->n_peers++] = peer;
    *out_device = peer.device;
    return BELL_OK;
}

/* Makes the share; control->lock is held. */
static bell_status
add_share(struct nv_device *dev, struct nv_device *owner,
          struct nv_backing *model, bool on_card, struct nv_backing **out_share)
{
    if (on_card && owner->rm->instance != dev->rm->instance)
        BELL_TRY(find_peer(dev, owner, &model->parent));
    model->is_host = !on_card;
    model->is_far = on_card && nv_memory_is_far(dev, model->size_bytes);
    BELL_TRY(nv_backing_add(dev, model, NULL, out_share));
    return BELL_OK;
}

bell_status
nv_memory_share(struct nv_device *dev, struct nv_device *owner,
                uint64_t owner_va, uint64_t *out_va)
{
    struct nv_control *control = dev->control;
    struct nv_backing model = {0}, *share;
    bell_status status = BELL_OK;
    bool on_card = false;
    uint64_t offset = 0;

    BELL_TRY(describe_share(owner, owner_va, &model, &on_card, &offset));
    pthread_mutex_lock(&control->lock);
    share = find_share(control, &model);
    if (!share)
        status = add_share(dev, owner, &model, on_card, &share);
    if (status == BELL_OK) {
        share->n_users++;
        *out_va = share->va + offset;
    }
    pthread_mutex_unlock(&control->lock);
    return status;
}

void
nv_memory_unshare(struct nv_device *dev, uint64_t va)
{
    struct nv_control *control = dev->control;
    struct nv_backing *share;

    pthread_mutex_lock(&control->lock);
    share = nv_backing_find(control, va, 1);
    if (share && --share->n_users == 0)
        nv_backing_drop(share);
    pthread_mutex_unlock(&control->lock);
}

bell_status
nv_buffer_peer(struct hcq_device *base, const struct hcq_buffer *of,
               struct hcq_backing *out)
{
    struct nv_device *dev = nv_device_of(base);
    uint64_t va;

    if (of->dev->ops != base->ops ||
        !nv_same_machine(dev, nv_device_of(of->dev)))
        return bell_fail(BELL_E_UNSUPPORTED, "%s cannot use a buffer of %s",
                         base->info.name, of->dev->info.name);
    BELL_TRY(nv_memory_share(dev, nv_device_of(of->dev), of->va, &va));
    *out = (struct hcq_backing){
        .va = va,
        .host = of->host,
        .size_bytes = of->size_bytes,
    };
    return BELL_OK;
}

void
nv_buffer_unpeer(struct hcq_device *base, const struct hcq_backing *mem)
{
    nv_memory_unshare(nv_device_of(base), mem->va);
}

/* ---- by descriptors ------------------------------------------------------ */

bell_status
nv_buffer_export(struct hcq_device *base, const struct hcq_backing *backing,
                 int *out_fd)
{
    const struct nv_mem *mem = (struct nv_mem *)(uintptr_t)backing->priv;
    struct nv_device *dev = nv_device_of(base);
    bell_status status;

    assert(mem->is_own && mem->kind == NV_MEM_VIDEO);
    BELL_TRY(hcq_check_descriptors(base, dev->kio));
    status =
        nv_rm_export(dev->rm, mem->handle, mem->backing->size_bytes, out_fd);
    if (status != BELL_OK)
        bell_error_prefix("%s: buffer export", base->info.name);
    return status;
}

/* NVIDIA's own dma-bufs lead through the window of the card that has the
 * memory, which that card itself may not reach, and nothing tells which one it
 * is. src: docs/hardware/nvidia-kernel.md, "Memory by descriptors" */
static bell_status
check_exporter(struct nv_device *dev, int fd)
{
    char exporter[HCQ_NAME_MAX];

    BELL_TRY(hcq_check_dmabuf(&dev->base, dev->kio, fd, exporter));
    if (strcmp(exporter, "nv_dmabuf") != 0)
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "descriptor %d is memory of an NVIDIA GPU, which NVIDIA's "
                     "driver lends to other vendors' devices; within a process "
                     "hcq_buffer_create_peer shares it",
                     fd);
}

bell_status
nv_buffer_import(struct hcq_device *base, int fd, uint64_t size_bytes,
                 struct hcq_backing *out)
{
    struct nv_device *dev = nv_device_of(base);
    struct nv_control *control = dev->control;
    struct nv_backing model = {
        .kind = NV_BACKING_IMPORT,
        .size_bytes = align_up(size_bytes, kio_page_bytes(dev->kio)),
        .is_host = true,
        .import_fd = fd,
    };
    struct nv_backing *backing;
    bell_status status;

    BELL_TRY(check_exporter(dev, fd));
    if (size_bytes > UINT32_MAX)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "NVIDIA's driver imports less than 4 GiB, not %llu "
                         "bytes",
                         (unsigned long long)size_bytes);
    pthread_mutex_lock(&control->lock);
    status = nv_backing_add(dev, &model, NULL, &backing);
    pthread_mutex_unlock(&control->lock);
    BELL_TRY(status);
    *out = (struct hcq_backing){
        .va = backing->va,
        .size_bytes = size_bytes,
        .priv = (uintptr_t)backing,
    };
    return BELL_OK;
}

void
nv_buffer_unimport(struct hcq_device *base, const struct hcq_backing *mem)
{
    struct nv_control *control = nv_device_of(base)->control;

    pthread_mutex_lock(&control->lock);
    nv_backing_drop((struct nv_backing *)(uintptr_t)mem->priv);
    pthread_mutex_unlock(&control->lock);
}
