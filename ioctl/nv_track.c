/* Following NVIDIA's calls. Objects are named by client and handle. */
#include "ioctl/nv_track.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ioctl/kio_capture.h"

#define USERD_BYTES    512u
#define USERD_GP_PUT   0x8cu
#define QMD_BYTES      384u /* the largest; all versions start alike */
#define METHOD_PCAS_A  0x2b4u
#define REGIONS_MAX    256u
#define ENTRY_LEN(e)   ((uint32_t)((e) >> 42) & 0x1fffffu)
#define ENTRY_VA(e)    ((e)&0xfffffffffcull)
#define ENTRY_EXTEND   4u /* SET_PB_SEGMENT_EXTENDED_BASE */
#define CHANNEL_SUFFIX 0x6fu

/* A file that the next mmap shows memory through. */
struct pending {
    int fd;
    uint64_t memory, offset;
};

struct cpu_map {
    uint8_t *addr;
    uint64_t size_bytes, memory, offset;
};

struct gpu_map {
    uint64_t va, size_bytes, memory, offset;
};

struct channel {
    uint64_t name, ring_va, userd_memory, userd_offset;
    uint32_t n_entries, put;
};

/* A growing array; adding to it may be refused. */
struct list {
    void *items; /* owned */
    size_t n, cap, item_bytes;
};

struct nv_track {
    struct list pending, cpu, gpu, channels;
};

struct nv_track *
nv_track_create(void)
{
    struct nv_track *track = host_calloc(1, sizeof(*track));

    if (!track)
        return NULL;
    track->pending.item_bytes = sizeof(struct pending);
    track->cpu.item_bytes = sizeof(struct cpu_map);
    track->gpu.item_bytes = sizeof(struct gpu_map);
    track->channels.item_bytes = sizeof(struct channel);
    return track;
}

void
nv_track_destroy(struct nv_track *track)
{
    if (!track)
        return;
    host_free(track->pending.items);
    host_free(track->cpu.items);
    host_free(track->gpu.items);
    host_free(track->channels.items);
    host_free(track);
}

static void
track_add(struct list *list, const void *item)
{
    assert(list->item_bytes > 0);
    if (host_grow(&list->items, &list->cap, list->n + 1, list->item_bytes) < 0)
        return;
    memcpy((uint8_t *)list->items + list->n++ * list->item_bytes, item,
           list->item_bytes);
}

/* Takes item i out; the last one takes its place. */
static void
drop(struct list *list, size_t i)
{
    uint8_t *items = list->items;

    assert(i < list->n);
    list->n--;
    memmove(items + i * list->item_bytes, items + list->n * list->item_bytes,
            list->item_bytes);
}

/* ---- calls ------------------------------------------------------------ */

static uint64_t
track_field(const struct kio_blob *blob, const char *name)
{
    assert(blob->desc);
    return kio_struct_get(blob->desc, blob->data, blob->size_bytes, name);
}

static uint64_t
track_name_of(uint64_t client, uint64_t handle)
{
    return client << 32 | handle;
}

static void
forget_pending(struct nv_track *track, int fd)
{
    struct pending *p = track->pending.items;
    size_t i = 0;

    while (i < track->pending.n) {
        if (p[i].fd == fd)
            drop(&track->pending, i);
        else
            i++;
    }
}

static void
add_pending(struct nv_track *track, uint64_t fd, uint64_t memory,
            uint64_t offset)
{
    struct pending pending = {(int)(int32_t)fd, memory, offset};

    if (pending.fd < 0)
        return;
    forget_pending(track, pending.fd);
    track_add(&track->pending, &pending);
}

static void
take_channel(struct nv_track *track, uint64_t name, const struct kio_blob *args,
             uint64_t client)
{
    struct channel channel = {
        .name = name,
        .ring_va = track_field(args, "gpFifoOffset"),
        .n_entries = (uint32_t)track_field(args, "gpFifoEntries"),
        .userd_memory =
            track_name_of(client, track_field(args, "hUserdMemory")),
        .userd_offset = track_field(args, "userdOffset"),
    };

    if (channel.n_entries && channel.n_entries <= 1u << 20)
        track_add(&track->channels, &channel);
}

static void
take_alloc(struct nv_track *track, const struct kio_capture *out)
{
    const struct kio_blob *call = &out->blobs[0];
    const struct kio_blob *args = out->n_blobs > 1 ? &out->blobs[1] : NULL;
    uint64_t client = track_field(call, "hRoot");

    if (args && args->desc &&
        (track_field(call, "hClass") & 0xff) == CHANNEL_SUFFIX &&
        kio_struct_field(args->desc, "gpFifoOffset"))
        take_channel(track,
                     track_name_of(client, track_field(call, "hObjectNew")),
                     args, client);
}

static void
track_take_free(struct nv_track *track, const struct kio_blob *call)
{
    uint64_t client = track_field(call, "hRoot");
    uint64_t name = track_name_of(client, track_field(call, "hObjectOld"));
    struct channel *c = track->channels.items;
    struct gpu_map *g = track->gpu.items;
    size_t i;

    /* Freeing the client frees all below it. */
    for (i = track->channels.n; i-- > 0;) {
        if (c[i].name == name || (name == track_name_of(client, client) &&
                                  c[i].name >> 32 == client))
            drop(&track->channels, i);
    }
    for (i = track->gpu.n; i-- > 0;) {
        if (g[i].memory == name)
            drop(&track->gpu, i);
    }
}

/* Whether the driver did what it was asked: ioctl itself succeeds also when
 * the struct says that it failed. */
static bool
succeeded(const struct kio_blob *call)
{
    uint32_t i;

    for (i = 0; i < call->desc->n_fields; i++) {
        const struct kio_field *f = &call->desc->fields[i];
        if (f->kind == KIO_FIELD_STATUS && track_field(call, f->name) != 0)
            return false;
    }
    return true;
}

void
nv_track_ioctl(struct nv_track *track, const struct kio_capture *out)
{
    const struct kio_blob *call = &out->blobs[0];
    struct gpu_map map = {0};
    const char *name = out->call.name;

    if (!out->n_blobs || !call->desc ||
        call->size_bytes < call->desc->size_bytes || !succeeded(call))
        return;
    if (strcmp(name, "NV_ESC_RM_ALLOC") == 0) {
        take_alloc(track, out);
    } else if (strcmp(name, "NV_ESC_RM_FREE") == 0) {
        track_take_free(track, call);
    } else if (strcmp(name, "NV_ESC_RM_MAP_MEMORY") == 0) {
        add_pending(track, track_field(call, "fd"),
                    track_name_of(track_field(call, "params.hClient"),
                                  track_field(call, "params.hMemory")),
                    track_field(call, "params.offset"));
    } else if (strcmp(name, "NV_ESC_RM_ALLOC_MEMORY") == 0) {
        add_pending(track, track_field(call, "fd"),
                    track_name_of(track_field(call, "params.hRoot"),
                                  track_field(call, "params.hObjectNew")),
                    0);
    } else if (strcmp(name, "NV_ESC_RM_MAP_MEMORY_DMA") == 0) {
        map.va = track_field(call, "dmaOffset");
        map.size_bytes = track_field(call, "length");
        map.memory = track_name_of(track_field(call, "hClient"),
                                   track_field(call, "hMemory"));
        map.offset = track_field(call, "offset");
        track_add(&track->gpu, &map);
    } else if (strcmp(name, "UVM_MAP_EXTERNAL_ALLOCATION") == 0) {
        map.va = track_field(call, "base");
        map.size_bytes = track_field(call, "length");
        map.memory = track_name_of(track_field(call, "hClient"),
                                   track_field(call, "hMemory"));
        map.offset = track_field(call, "offset");
        track_add(&track->gpu, &map);
    }
}

void
nv_track_close(struct nv_track *track, int fd)
{
    forget_pending(track, fd);
}

void
nv_track_mmap(struct nv_track *track, int fd, void *addr, size_t size_bytes)
{
    struct pending *p = track->pending.items;
    struct cpu_map map = {.addr = addr, .size_bytes = size_bytes};
    size_t i;

    assert(size_bytes > 0);
    for (i = 0; i < track->pending.n; i++) {
        if (p[i].fd != fd)
            continue;
        map.memory = p[i].memory;
        map.offset = p[i].offset;
    }
    track_add(&track->cpu, &map);
}

static bool
meets(const struct cpu_map *map, const void *addr, size_t size_bytes)
{
    uintptr_t a = (uintptr_t)addr, b = (uintptr_t)map->addr;

    return a < b + map->size_bytes && b < a + size_bytes;
}

bool
nv_track_overlaps(const struct nv_track *track, const void *addr,
                  size_t size_bytes)
{
    const struct cpu_map *maps = track->cpu.items;
    size_t i;

    for (i = 0; i < track->cpu.n; i++) {
        if (meets(&maps[i], addr, size_bytes))
            return true;
    }
    return false;
}

/* A mapping of which any part goes is not read any more. */
void
nv_track_munmap(struct nv_track *track, const void *addr, size_t size_bytes)
{
    struct cpu_map *maps = track->cpu.items;
    size_t i;

    for (i = track->cpu.n; i-- > 0;) {
        if (meets(&maps[i], addr, size_bytes))
            drop(&track->cpu, i);
    }
}

/* ---- reading ---------------------------------------------------------- */

/* Is there memory? A program may unmap what it mapped past all that we see.
 * Files of devices cannot be copied by the kernel (process_vm_readv): it is
 * asked whether they are mapped. src: Linux 6.12, mm/mincore.c: ENOMEM if
 * not. */
static bool
is_mapped(const uint8_t *addr, uint64_t n)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t at = (uintptr_t)addr & ~(page - 1), end = (uintptr_t)addr + n;
    unsigned char seen[64];

    while (at < end) {
        uint64_t some =
            end - at < page * sizeof(seen) ? end - at : page * sizeof(seen);
        if (mincore((void *)(uintptr_t)at, some, seen) != 0)
            return errno != ENOMEM;
        at += page * sizeof(seen);
    }
    return true;
}

/* Where the CPU sees n bytes of a memory object; NULL if it does not. */
static const volatile void *
track_find_memory(const struct nv_track *track, uint64_t memory,
                  uint64_t offset, uint64_t n)
{
    const struct cpu_map *maps = track->cpu.items;
    size_t i;

    for (i = track->cpu.n; i-- > 0;) {
        const struct cpu_map *m = &maps[i];
        if (m->memory == memory && offset >= m->offset && n <= m->size_bytes &&
            offset - m->offset <= m->size_bytes - n &&
            is_mapped(m->addr + (offset - m->offset), n))
            return m->addr + (offset - m->offset);
    }
    return NULL;
}

/* The same for a GPU address. Where CPU and GPU addresses are the same (the
 * UVM model), the CPU's mapping itself may tell. */
static const volatile void *
find_va(const struct nv_track *track, uint64_t va, uint64_t n)
{
    const struct gpu_map *gpu = track->gpu.items;
    const struct cpu_map *cpu = track->cpu.items;
    size_t i;

    for (i = track->gpu.n; i-- > 0;) {
        const struct gpu_map *g = &gpu[i];
        const volatile void *p;
        if (va < g->va || n > g->size_bytes || va - g->va > g->size_bytes - n)
            continue;
        p = track_find_memory(track, g->memory, g->offset + (va - g->va), n);
        if (p)
            return p;
    }
    for (i = track->cpu.n; i-- > 0;) {
        uintptr_t a = (uintptr_t)cpu[i].addr;
        if (va >= a && n <= cpu[i].size_bytes &&
            va - a <= cpu[i].size_bytes - n &&
            is_mapped(cpu[i].addr + (va - a), n))
            return cpu[i].addr + (va - a);
    }
    return NULL;
}

/* Regions of one channel's new work. */
struct found {
    struct kio_region regions[REGIONS_MAX];
    uint32_t n;
};

static const volatile void *
track_add_region(const struct nv_track *track, struct found *found, uint64_t va,
                 uint64_t n, uint32_t kind)
{
    const volatile void *cpu = n ? find_va(track, va, n) : NULL;

    if (cpu && found->n < REGIONS_MAX)
        found->regions[found->n++] = (struct kio_region){cpu, va, n, kind};
    return cpu;
}

/* Looks for launches in a pushbuffer and adds their descriptors. */
static void
scan_push(const struct nv_track *track, struct found *found,
          const volatile uint32_t *push, uint32_t n_dw)
{
    uint32_t i = 0;

    while (i < n_dw) {
        uint32_t head = push[i++], op = head >> 29;
        uint32_t count = head >> 16 & 0x1fff, method = (head & 0xfff) << 2, k;
        if (op != 1 && op != 3 && op != 5)
            continue; /* immediate, or nothing that we know */
        for (k = 0; k < count && i < n_dw; k++, i++) {
            uint32_t at = op == 1   ? method + 4 * k
                          : op == 5 ? method + (k ? 4 : 0)
                                    : method;
            if (at == METHOD_PCAS_A)
                (void)track_add_region(track, found, (uint64_t)push[i] << 8,
                                       QMD_BYTES, KIO_REGION_DESCRIPTOR);
        }
    }
}

/* Adds the entries from the old put pointer to the new one. */
static void
take_entries(const struct nv_track *track, const struct channel *channel,
             const volatile uint64_t *ring, uint32_t put, struct found *found)
{
    uint64_t base = 0;
    uint32_t i;

    assert(channel->put < channel->n_entries && put < channel->n_entries);
    for (i = channel->put; i != put; i = (i + 1) % channel->n_entries) {
        uint64_t entry = ring[i], va;
        uint32_t n_dw = ENTRY_LEN(entry);
        const volatile void *push;
        (void)track_add_region(track, found, channel->ring_va + 8ull * i, 8,
                               KIO_REGION_RING);
        if (!n_dw) {
            if ((uint32_t)(entry >> 32) == ENTRY_EXTEND)
                base = (uint64_t)((uint32_t)entry >> 8) << 40;
            continue;
        }
        va = base | ENTRY_VA(entry);
        push = track_add_region(track, found, va, 4ull * n_dw, KIO_REGION_PUSH);
        if (push)
            scan_push(track, found, push, n_dw);
        base = 0;
    }
}

void
nv_track_sample(struct nv_track *track, nv_track_fn *fn, void *user)
{
    struct channel *channels = track->channels.items;
    struct found *found = NULL;
    size_t i;

    assert(fn);
    for (i = 0; i < track->channels.n; i++) {
        struct channel *c = &channels[i];
        const volatile uint8_t *userd = track_find_memory(
            track, c->userd_memory, c->userd_offset, USERD_BYTES);
        const volatile uint64_t *ring =
            find_va(track, c->ring_va, 8ull * c->n_entries);
        uint32_t put;
        if (!userd || !ring)
            continue;
        put = *(const volatile uint32_t *)(userd + USERD_GP_PUT);
        if (put == c->put || put >= c->n_entries)
            continue;
        if (!found)
            found = host_alloc(sizeof(*found));
        if (!found)
            return;
        found->n = 1;
        found->regions[0] =
            (struct kio_region){userd, 0, USERD_BYTES, KIO_REGION_CONTROL};
        take_entries(track, c, ring, put, found);
        c->put = put;
        fn(user, (uint32_t)c->name, found->regions, found->n);
    }
    host_free(found);
}
