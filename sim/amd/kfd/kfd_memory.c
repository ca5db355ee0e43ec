/* Memory of processes: allocation, and mapping to cards. The address is the
 * caller's choice. src: docs/hardware/amd-kernel.md, "Memory". */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ioctl/kfd_uapi.h"
#include "sim/amd/kfd/kfd.h"
#include "sim/dmabuf.h"

#define TYPE_FLAGS                                                             \
    (KFD_MEM_VRAM | KFD_MEM_GTT | KFD_MEM_USERPTR | KFD_MEM_DOORBELL |         \
     KFD_MEM_MMIO)
/* bit 24 EXT_COHERENT, bit 23 CONTIGUOUS_BEST_EFFORT: newer headers */
#define KNOWN_FLAGS  (TYPE_FLAGS | 0xff800000u)
#define SYSTEM_LIMIT ((uint64_t)64 << 30)

/* Whose memory counts where others use it: pages have no room for more. */
#define COUNTED_CARDS 15u

/* How names of memory that may be exported begin: then comes the card. */
#define OWNER_FORMAT "AMD/%s/"

struct kfd_buffer *
kfd_find_handle(struct kfd_process *p, uint64_t handle)
{
    size_t i;

    for (i = 0; i < p->n_buffers; i++) {
        if (p->buffers[i]->handle == handle)
            return p->buffers[i];
    }
    return NULL;
}

struct kfd_buffer *
kfd_find_va(struct kfd_process *p, uint32_t card, uint64_t va)
{
    size_t i;

    assert(card < p->machine->n_cards);
    for (i = 0; i < p->n_buffers; i++) {
        if (p->buffers[i]->mapped >> card & 1 &&
            va - p->buffers[i]->va < p->buffers[i]->size_bytes)
            return p->buffers[i];
    }
    return NULL;
}

/* Offsets are handles in pages, far from each other. */
static uint64_t
offset_of(const struct kfd_buffer *buf)
{
    return (buf->handle & 0xffffffff) << 40;
}

struct kfd_buffer *
kfd_find_offset(struct kfd_process *p, uint64_t offset)
{
    size_t i;

    for (i = 0; i < p->n_buffers; i++) {
        if (p->buffers[i]->fd >= 0 && offset_of(p->buffers[i]) == offset)
            return p->buffers[i];
    }
    return NULL;
}

/* ---- allocation ---- */

/* Memory that the card's size limits. An APU's is the host's, as GTT is, and
 * one limit (TTM's) is for both. src: Linux 6.12, amdgpu_amdkfd_gpuvm.c,
 * amdgpu_amdkfd_reserve_mem_limit; softer: of several APUs, each has its own */
static bool
counts_as_cards(const struct kfd_machine *machine, uint32_t flags)
{
    return flags & KFD_MEM_VRAM ||
           (flags & KFD_MEM_GTT && machine->chip->is_apu);
}

static int
check_alloc(struct kfd_process *p, const struct kfd_alloc_memory *args,
            const struct kfd_card *card)
{
    uint32_t type = args->flags & TYPE_FLAGS;

    if (args->size_bytes == 0)
        return kfd_fail(EINVAL, "0 bytes");
    if (args->flags & ~KNOWN_FLAGS)
        return kfd_fail(EINVAL, "flags 0x%x: bits 0x%x", args->flags,
                        args->flags & ~KNOWN_FLAGS);
    if (type == 0 || (type & (type - 1)))
        return kfd_fail(EINVAL, "flags 0x%x: not one kind of memory",
                        args->flags);
    if (type == KFD_MEM_DOORBELL && args->size_bytes != KFD_DOORBELL_BYTES)
        return kfd_fail(EINVAL, "a process has %u bytes of doorbells, not %llu",
                        KFD_DOORBELL_BYTES,
                        (unsigned long long)args->size_bytes);
    /* src: Linux 6.12, nbio_v7_9.c (no remapped page), kfd_chardev.c */
    if (type == KFD_MEM_MMIO && p->machine->is_virtual)
        return kfd_fail(ENOMEM, "a virtual function has no MMIO page");
    if (type == KFD_MEM_MMIO && args->size_bytes != KFD_PAGE)
        return kfd_fail(EINVAL, "the MMIO page has %u bytes, not %llu",
                        KFD_PAGE, (unsigned long long)args->size_bytes);
    if (args->va & (KFD_PAGE - 1))
        return kfd_fail(EINVAL, "address 0x%llx is not one of a page",
                        (unsigned long long)args->va);
    if (!p->vms[card->index].space)
        return kfd_fail(EINVAL, "ACQUIRE_VM comes first");
    if (p->primary && type == KFD_MEM_USERPTR)
        return kfd_fail(EOPNOTSUPP, "user memory in a secondary process");
    /* src: Linux 6.12, kfd_ioctl_alloc_memory_of_gpu */
    if (type == KFD_MEM_VRAM && args->flags & KFD_MEM_PUBLIC &&
        card->machine->bar_mib)
        return kfd_fail(EINVAL, "PUBLIC memory on a card whose window is "
                                "smaller than its memory");
    kfd_sweep_stores(card->machine);
    if (counts_as_cards(card->machine, type) &&
        args->size_bytes > card->machine->chip->vram_bytes - card->used_bytes)
        return kfd_fail(ENOMEM, "%llu bytes; %llu of %llu are in use",
                        (unsigned long long)args->size_bytes,
                        (unsigned long long)card->used_bytes,
                        (unsigned long long)card->machine->chip->vram_bytes);
    if (args->size_bytes > SYSTEM_LIMIT)
        return kfd_fail(ENOMEM, "%llu bytes",
                        (unsigned long long)args->size_bytes);
    return 0;
}

/* Fresh memory holds what nobody may count on; only the first part of large
 * pieces is written, so that they stay sparse. */
static void
poison_buffer(struct kfd_buffer *buf)
{
    memset(buf->host, 0xcb, buf->size_bytes < 65536 ? buf->size_bytes : 65536);
}

static void
free_store(struct kfd_machine *machine, struct kfd_store *store)
{
    if (!store->is_import && counts_as_cards(machine, store->flags))
        machine->cards[store->card].used_bytes -= store->size_bytes;
    close(store->fd);
    host_free(store);
}

/* The buffer that had it goes. A dma-buf keeps the memory while a descriptor of
 * it is open somewhere. */
static void
drop_store(struct kfd_machine *machine, struct kfd_store *store)
{
    if (store->is_import || !store->was_exported ||
        !sim_dmabuf_is_out(store->fd)) {
        free_store(machine, store);
        return;
    }
    store->next = machine->left;
    machine->left = store;
}

void
kfd_sweep_stores(struct kfd_machine *machine)
{
    struct kfd_store **link = &machine->left;

    while (*link) {
        struct kfd_store *store = *link;

        if (sim_dmabuf_is_out(store->fd)) {
            link = &store->next;
            continue;
        }
        *link = store->next;
        free_store(machine, store);
    }
}

void
kfd_drop_stores(struct kfd_machine *machine)
{
    while (machine->left) {
        struct kfd_store *store = machine->left;

        machine->left = store->next;
        free_store(machine, store);
    }
}

/* Maps what the buffer's store is, which the buffer then owns. */
static int
map_store(struct kfd_buffer *buf, struct kfd_store *store)
{
    void *host = mmap(NULL, store->size_bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED, store->fd, 0);

    if (host == MAP_FAILED)
        return -errno;
    buf->host = host;
    buf->store = store;
    buf->fd = store->fd;
    return 0;
}

/* "AMD/gfx942*2/0/1": the machine, the card, whether its memory is the card's
 * own. */
static int
make_file(const struct kfd_machine *machine, const struct kfd_buffer *buf)
{
    char owner[SIM_DMABUF_OWNER_BYTES];

    snprintf(owner, sizeof(owner), OWNER_FORMAT "%u/%u", machine->spec,
             buf->card, (buf->flags & KFD_MEM_VRAM) != 0);
    return sim_dmabuf_create(owner, buf->size_bytes);
}

static int
back_with_file(struct kfd_machine *machine, struct kfd_buffer *buf)
{
    struct kfd_store *store = host_calloc(1, sizeof(*store));
    int result;

    if (!store)
        return kfd_fail(ENOMEM, "no memory for a buffer");
    store->card = buf->card;
    store->flags = buf->flags;
    store->size_bytes = buf->size_bytes;
    store->fd = make_file(machine, buf);
    if (store->fd < 0) {
        result = store->fd;
        host_free(store);
        return result;
    }
    if (counts_as_cards(machine, store->flags))
        machine->cards[store->card].used_bytes += store->size_bytes;
    result = map_store(buf, store);
    if (result < 0)
        free_store(machine, store);
    else
        poison_buffer(buf);
    return result;
}

/* The process's doorbells, for kernels that ring them. */
static int
back_with_doorbells(struct kfd_buffer *buf, int doorbell_fd)
{
    buf->fd = fcntl(doorbell_fd, F_DUPFD_CLOEXEC, 0);
    if (buf->fd < 0)
        return -errno;
    buf->host = mmap(NULL, buf->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                     buf->fd, 0);
    if (buf->host == MAP_FAILED) {
        int error = errno;
        close(buf->fd);
        return -error;
    }
    return 0;
}

/* The process's own memory has to be there. */
static int
back_with_user(struct kfd_buffer *buf, uint64_t address)
{
    unsigned char *in_core;
    uint64_t pages = buf->size_bytes / KFD_PAGE;
    int result;

    if (address & (KFD_PAGE - 1))
        return kfd_fail(EINVAL, "user memory at 0x%llx",
                        (unsigned long long)address);
    in_core = host_alloc(pages);
    if (!in_core)
        return kfd_fail(ENOMEM, "no memory for %llu pages",
                        (unsigned long long)pages);
    buf->host = (void *)(uintptr_t)address;
    buf->fd = -1;
    result = mincore(buf->host, buf->size_bytes, in_core);
    host_free(in_core);
    return result < 0 ? kfd_fail(EFAULT, "0x%llx is not mapped by the process",
                                 (unsigned long long)address)
                      : 0;
}

static void
free_buffer(struct kfd_machine *machine, struct kfd_buffer *buf)
{
    if (buf->fd >= 0)
        munmap(buf->host, buf->size_bytes);
    if (buf->store)
        drop_store(machine, buf->store);
    else if (buf->fd >= 0)
        close(buf->fd);
    host_free(buf);
}

int
kfd_do_alloc(struct kfd_process *p, void *arg)
{
    struct kfd_alloc_memory *args = arg;
    struct kfd_card *card = kfd_card_of(p, args->gpu_id);
    struct kfd_buffer *buf;
    int result = card ? check_alloc(p, args, card) : -EINVAL;

    if (result < 0)
        return result;
    buf = host_calloc(1, sizeof(*buf));
    if (!buf || host_grow((void **)&p->buffers, &p->cap_buffers,
                          p->n_buffers + 1, sizeof(*p->buffers)) != 0) {
        host_free(buf);
        return kfd_fail(ENOMEM, "no memory for a buffer");
    }
    buf->card = card->index;
    buf->flags = args->flags;
    buf->va = args->va;
    buf->size_bytes =
        (args->size_bytes + KFD_PAGE - 1) & ~(uint64_t)(KFD_PAGE - 1);
    buf->handle = (uint64_t)card->gpu_id << 32 | ++p->next_handle;
    if (args->flags & KFD_MEM_USERPTR)
        result = back_with_user(buf, args->mmap_offset);
    else if (args->flags & KFD_MEM_DOORBELL)
        result = back_with_doorbells(buf, p->vms[card->index].doorbell_fd);
    else
        result = back_with_file(p->machine, buf);
    if (result < 0) {
        host_free(buf);
        return result;
    }
    p->buffers[p->n_buffers++] = buf;
    args->handle = buf->handle;
    if (buf->fd >= 0)
        args->mmap_offset = args->flags & KFD_MEM_MMIO
                                ? (uint64_t)card->gpu_id << 46
                                : offset_of(buf);
    return 0;
}

static void
unmap_from(struct kfd_process *p, struct kfd_buffer *buf, uint32_t card)
{
    assert(card < p->machine->n_cards);
    amdsim_space_unmap(p->vms[card].space, buf->va, buf->size_bytes);
    buf->mapped &= ~(1ull << card);
}

void
kfd_drop_buffer(struct kfd_process *p, struct kfd_buffer *buf)
{
    size_t i;
    uint32_t c;

    assert(p->n_buffers > 0 && buf->card < p->machine->n_cards);
    for (c = 0; c < p->machine->n_cards; c++) {
        if (buf->mapped >> c & 1)
            unmap_from(p, buf, c);
    }
    for (i = 0; i < p->n_buffers; i++) {
        if (p->buffers[i] == buf)
            p->buffers[i] = p->buffers[--p->n_buffers];
    }
    free_buffer(p->machine, buf);
}

int
kfd_do_free(struct kfd_process *p, void *arg)
{
    const struct kfd_free_memory *args = arg;
    struct kfd_buffer *buf = kfd_find_handle(p, args->handle);

    if (!buf)
        return kfd_fail(EINVAL, "no memory has handle 0x%llx",
                        (unsigned long long)args->handle);
    if (buf->is_event_page)
        return kfd_fail(EPERM, "the event page stays until the process ends");
    if (buf->mapped)
        return kfd_fail(EBUSY, "memory at 0x%llx is mapped to cards 0x%llx",
                        (unsigned long long)buf->va,
                        (unsigned long long)buf->mapped);
    kfd_drop_buffer(p, buf);
    return 0;
}

/* ---- as a file ---- */

/* The flags are for the descriptor. Memory of the process is nobody's to hand
 * on. src: Linux 6.12, kfd_ioctl_export_dmabuf, dma_buf_fd,
 * amdgpu_gem_prime_export; include/uapi/linux/kfd_ioctl.h, "1.12" */
int
kfd_do_export(struct kfd_process *p, void *arg)
{
    struct kfd_export_dmabuf *args = arg;
    struct kfd_buffer *buf = kfd_find_handle(p, args->handle);
    bool can_map;
    int fd;

    if (p->machine->kfd_minor < 12)
        return kfd_fail(ENOTTY, "KFD 1.%u has no EXPORT_DMABUF",
                        p->machine->kfd_minor);
    if (!buf)
        return kfd_fail(EINVAL, "no memory has handle 0x%llx",
                        (unsigned long long)args->handle);
    if (buf->flags & KFD_MEM_USERPTR)
        return kfd_fail(EPERM, "memory of the process is not exported");
    if (!buf->store)
        return kfd_fail(EINVAL, "handle 0x%llx is not memory to export",
                        (unsigned long long)args->handle);
    can_map = !(buf->flags & KFD_MEM_VRAM) || !p->machine->bar_mib;
    fd = sim_dmabuf_export(buf->fd, args->flags & O_CLOEXEC, can_map);
    if (fd < 0)
        return kfd_fail(-fd, "no descriptor: %s", strerror(-fd));
    buf->store->was_exported = true;
    args->fd = (uint32_t)fd;
    return 0;
}

/* A dma-buf, as a machine has it. */
struct dmabuf {
    struct sim_dmabuf file;
    bool is_amdgpus; /* of a card of this machine: */
    uint32_t card;
    bool is_vram;
};

/* The descriptor's; its file is the caller's to close. */
static int
open_dmabuf(struct kfd_process *p, uint32_t fd, struct dmabuf *out)
{
    char own[SIM_DMABUF_OWNER_BYTES];
    unsigned card = 0, is_vram = 0;
    size_t n;
    int result;

    memset(out, 0, sizeof(*out));
    result = sim_dmabuf_import((int)fd, &out->file);
    if (result == -EBADF)
        return kfd_fail(EBADF, "file %u is not open", fd);
    if (result < 0)
        return kfd_fail(-result, "file %u is not a dma-buf", fd);
    n = (size_t)snprintf(own, sizeof(own), OWNER_FORMAT, p->machine->spec);
    if (strncmp(out->file.owner, own, n) == 0 &&
        sscanf(out->file.owner + n, "%u/%u", &card, &is_vram) == 2 &&
        card < p->machine->n_cards) {
        out->is_amdgpus = true;
        out->card = card;
        out->is_vram = is_vram;
    } else if (strncmp(out->file.owner, "AMD/", 4) == 0) {
        close(out->file.fd);
        return kfd_fail(EINVAL, "file %u is memory of another machine", fd);
    }
    return 0;
}

/* It tells of the driver's own memory alone. src: Linux 6.12,
 * kfd_ioctl_get_dmabuf_info, amdgpu_amdkfd_get_dmabuf_info */
int
kfd_do_dmabuf_info(struct kfd_process *p, void *arg)
{
    struct kfd_dmabuf_info *args = arg;
    struct dmabuf dmabuf;
    int result = open_dmabuf(p, args->fd, &dmabuf);

    if (result < 0)
        return result;
    close(dmabuf.file.fd);
    if (!dmabuf.is_amdgpus)
        return kfd_fail(EINVAL, "file %u is another driver's memory", args->fd);
    args->size_bytes = dmabuf.file.size_bytes;
    args->metadata_bytes = 0;
    args->gpu_id = p->machine->cards[dmabuf.card].gpu_id;
    args->flags = dmabuf.is_vram ? KFD_MEM_VRAM : KFD_MEM_GTT;
    if (dmabuf.is_vram && !p->machine->bar_mib)
        args->flags |= KFD_MEM_PUBLIC;
    return 0;
}

/* Memory of the card keeps its placement, that of other drivers is as the
 * host's; writing and executing are allowed. Nothing looks at the address
 * before it is mapped. Stricter: memory of another card of the driver goes into
 * the host's with Linux where PCI does not connect them. src: Linux 6.12,
 * import_obj_create, amdgpu_gem_prime_import, amdgpu_dma_buf_map */
int
kfd_do_import(struct kfd_process *p, void *arg)
{
    struct kfd_import_dmabuf *args = arg;
    struct kfd_card *card = kfd_card_of(p, args->gpu_id);
    struct kfd_store *store;
    struct kfd_buffer *buf;
    struct dmabuf dmabuf;
    int result;

    if (!card)
        return -EINVAL;
    if (!p->vms[card->index].space)
        return kfd_fail(EINVAL, "ACQUIRE_VM comes first");
    result = open_dmabuf(p, args->fd, &dmabuf);
    if (result < 0)
        return result;
    buf = host_calloc(1, sizeof(*buf));
    store = host_calloc(1, sizeof(*store));
    if (dmabuf.is_amdgpus && dmabuf.card != card->index)
        result = kfd_fail(EINVAL, "file %u is memory of card %u, not of %u",
                          args->fd, dmabuf.card, card->index);
    else if (!buf || !store ||
             host_grow((void **)&p->buffers, &p->cap_buffers, p->n_buffers + 1,
                       sizeof(*p->buffers)) != 0)
        result = kfd_fail(ENOMEM, "no memory for a buffer");
    if (result == 0) {
        *store = (struct kfd_store){
            .card = card->index,
            .flags = dmabuf.is_vram ? KFD_MEM_VRAM : KFD_MEM_GTT,
            .is_import = true,
            .size_bytes = dmabuf.file.size_bytes,
            .fd = dmabuf.file.fd,
        };
        buf->card = card->index;
        buf->flags = store->flags | KFD_MEM_WRITABLE | KFD_MEM_EXECUTABLE;
        buf->va = args->va;
        buf->size_bytes = store->size_bytes;
        result = map_store(buf, store);
    }
    if (result < 0) {
        close(dmabuf.file.fd);
        host_free(store);
        host_free(buf);
        return result;
    }
    buf->handle = (uint64_t)card->gpu_id << 32 | ++p->next_handle;
    p->buffers[p->n_buffers++] = buf;
    args->handle = buf->handle;
    return 0;
}

/* ---- mapping ---- */

/* Pages and doorbells of another card are reached over PCIe alone. src: Linux
 * 6.12, kfd_mem_attach, amdgpu_device_is_peer_accessible */
static bool
may_attach(const struct kfd_machine *machine, const struct kfd_buffer *buf,
           uint32_t card)
{
    if (card == buf->card)
        return true;
    if (buf->flags & (KFD_MEM_DOORBELL | KFD_MEM_MMIO))
        return kfd_reaches_bar(machine);
    return !(buf->flags & KFD_MEM_VRAM) ||
           kfd_link_between(machine, card, buf->card) != KFD_LINK_NONE;
}

static int
map_to(struct kfd_process *p, struct kfd_buffer *buf, uint32_t card)
{
    uint32_t flags = 0;
    bool system = !(buf->flags & KFD_MEM_VRAM) || p->machine->chip->is_apu;
    bell_status status;

    assert(card < p->machine->n_cards);
    if (buf->mapped >> card & 1)
        return 0;
    if (!p->vms[card].space)
        return kfd_fail(EINVAL, "card %u: ACQUIRE_VM comes first", card);
    if (!may_attach(p->machine, buf, card))
        return kfd_fail(EINVAL, "card %u does not reach the memory of card %u",
                        card, buf->card);
    if (buf->flags & KFD_MEM_WRITABLE)
        flags |= AMDSIM_MAP_WRITABLE;
    if (buf->flags & KFD_MEM_EXECUTABLE)
        flags |= AMDSIM_MAP_EXECUTABLE;
    if (system)
        flags |= AMDSIM_MAP_SYSTEM;
    if (buf->flags & (KFD_MEM_UNCACHED | KFD_MEM_COHERENT))
        flags |= AMDSIM_MAP_UNCACHED;
    if (!system && card != buf->card && buf->card < COUNTED_CARDS)
        flags |= AMDSIM_MAP_PEER(buf->card);
    /* src: Linux 6.12, amdgpu_vm_bo_map: EINVAL where another mapping is;
     * nothing looks before */
    status = amdsim_space_map(p->vms[card].space, buf->va, buf->host,
                              buf->size_bytes, flags, buf->fd);
    if (status != BELL_OK)
        return kfd_fail(status == BELL_E_INVALID ? EINVAL : ENOMEM, "%s",
                        bell_error_last()->message);
    buf->mapped |= 1ull << card;
    return 0;
}

int
kfd_do_map(struct kfd_process *p, void *arg)
{
    struct kfd_map_memory *args = arg;
    const uint32_t *ids = (const uint32_t *)(uintptr_t)args->gpu_ids;
    struct kfd_buffer *buf = kfd_find_handle(p, args->handle);

    if (args->n == 0 || args->n_done > args->n)
        return kfd_fail(EINVAL, "%u cards, %u done", args->n, args->n_done);
    if (!buf)
        return kfd_fail(ENOMEM, "no memory has handle 0x%llx",
                        (unsigned long long)args->handle);
    for (; args->n_done < args->n; args->n_done++) {
        struct kfd_card *card = kfd_card_of(p, ids[args->n_done]);
        int result = card ? map_to(p, buf, card->index) : -EINVAL;
        if (result < 0)
            return result;
    }
    return 0;
}

/* Queues keep what they were made with. */
static bool
is_in_use(const struct kfd_process *p, const struct kfd_buffer *buf,
          uint32_t card)
{
    assert(card < p->machine->n_cards);
    (void)buf;
    return p->vms[card].n_queues > 0 && buf->is_event_page;
}

int
kfd_do_unmap(struct kfd_process *p, void *arg)
{
    struct kfd_map_memory *args = arg;
    const uint32_t *ids = (const uint32_t *)(uintptr_t)args->gpu_ids;
    struct kfd_buffer *buf = kfd_find_handle(p, args->handle);

    if (args->n == 0 || args->n_done > args->n)
        return kfd_fail(EINVAL, "%u cards, %u done", args->n, args->n_done);
    if (!buf)
        return kfd_fail(ENOMEM, "no memory has handle 0x%llx",
                        (unsigned long long)args->handle);
    for (; args->n_done < args->n; args->n_done++) {
        struct kfd_card *card = kfd_card_of(p, ids[args->n_done]);
        if (!card)
            return -EINVAL;
        if (is_in_use(p, buf, card->index))
            return kfd_fail(EBUSY, "queues use the memory at 0x%llx",
                            (unsigned long long)buf->va);
        if (buf->mapped >> card->index & 1)
            unmap_from(p, buf, card->index);
    }
    return 0;
}

int
kfd_do_available(struct kfd_process *p, void *arg)
{
    struct kfd_available_memory *args = arg;
    struct kfd_card *card = kfd_card_of(p, args->gpu_id);

    if (!card)
        return -EINVAL;
    kfd_sweep_stores(p->machine);
    args->bytes = p->machine->chip->vram_bytes - card->used_bytes;
    if (!p->machine->chip->is_apu)
        args->bytes &= ~(((uint64_t)2 << 20) - 1);
    return 0;
}
