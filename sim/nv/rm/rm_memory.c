/* Memory: backing, its objects, and the contexts that mmap looks at.
 *
 * Video memory of a card, and system memory of the machine, are sparse memory
 * files in which every allocation has offsets of its own that are never used
 * again; freeing punches a hole. The card reaches them through a mapping that
 * is as aligned as the pages are, so a process' mapping and the card's are
 * the same bytes.
 *
 * The real driver gives zeroed pages; here fresh memory holds a pattern, so
 * that a driver which relies on zeros is found: all of an object up to
 * POISON_BYTES, of larger ones the first that many bytes. Machines that are
 * `lenient` are for programs that do rely on it.
 *
 * src: docs/hardware/nvidia-kernel.md, "Memory objects", "CPU mappings";
 * usermode windows: NVIDIA/open-gpu-kernel-modules 580.142,
 * usrmodeConstruct_IMPL; what is written back of an allocation or mapping:
 * observed: H100, 2026-11-22. Leads: which status each wrong flag has.
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "ioctl/nv_uapi.h"

#define POISON_BYTES (64u << 10)
#define POISON       0x7fbadbadu /* no number as a float, no address */

/* NV_MEMORY_ALLOCATION_PARAMS */
#define ATTR_PAGE(a)       ((a) >> 23 & 3) /* 1: 4K, 2: big, 3: huge */
#define ATTR2_NO_ZBC       1u
#define ATTR2_CACHEABLE(n) ((n) << 2) /* yes, no */
#define ATTR2_HUGE_2MB     (1u << 20)
#define KIND_GENERIC       6u
#define ATTR_LOCATION(a)   ((a) >> 25 & 3)
#define LOCATION_VIDEO     0u
#define LOCATION_PCI       1u
#define FLAG_FIXED_ADDRESS 0x10u
#define FLAG_VIRTUAL       0x80000u
#define FLAG_NOT_REQUIRED  0x8000u /* MAP_NOT_REQUIRED */
/* NVOS33 */
#define OS33_MAPPING(n) ((n) << 15) /* DIRECT, REFLECTED */
#define OS33_CACHING(n) ((n) << 23)
#define DIRECT          1u
#define REFLECTED       2u
#define UNCACHED        1u
#define WRITE_COMBINED  2u
#define BY_DEFAULT      6u
/* NVOS02 */
#define OS02_PHYSICALITY(f) ((f) >> 4 & 15)
#define OS02_LOCATION(f)    ((f) >> 8 & 15)
#define OS02_COHERENCY(f)   ((f) >> 12 & 15)
#define OS02_MAPPING(f)     ((f) >> 30 & 3)
#define OS02_NO_MAP         1u

/* ---- backing ---- */

/* Maps part of a memory file at a multiple of align_bytes; NULL on failure. */
static uint8_t *
map_aligned(int fd, uint64_t offset, uint64_t size_bytes, uint64_t align_bytes)
{
    size_t room = size_bytes + align_bytes;
    uint8_t *base = mmap(NULL, room, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *at;

    assert(is_pow2(align_bytes));
    if (base == MAP_FAILED)
        return NULL;
    at = (uint8_t *)(uintptr_t)align_up((uintptr_t)base, align_bytes);
    if (mmap(at, size_bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
             (off_t)offset) == MAP_FAILED) {
        munmap(base, room);
        return NULL;
    }
    if (at > base)
        munmap(base, (size_t)(at - base));
    if (at + size_bytes < base + room)
        munmap(at + size_bytes, (size_t)(base + room - (at + size_bytes)));
    return at;
}

static struct rm_mem *
new_mem(struct rm_machine *machine, enum rm_mem_kind kind, uint64_t size_bytes,
        uint32_t page_bytes)
{
    struct rm_mem *mem = host_calloc(1, sizeof(*mem));

    assert(is_pow2(page_bytes) && size_bytes % page_bytes == 0);
    if (!mem)
        return NULL;
    mem->machine = machine;
    mem->refs = 1;
    mem->kind = kind;
    mem->size_bytes = size_bytes;
    mem->page_bytes = page_bytes;
    mem->fd = mem->own_fd = -1;
    return mem;
}

static void
poison_mem(struct rm_mem *mem)
{
    uint64_t n =
        mem->size_bytes < POISON_BYTES ? mem->size_bytes : POISON_BYTES;
    uint32_t *words = (uint32_t *)(void *)mem->host;
    uint64_t i;

    for (i = 0; i < n / 4; i++)
        words[i] = POISON;
}

/* Video memory of `card`, or system memory where card is NULL. */
static enum rm_status
mem_create(struct rm_machine *machine, struct rm_card *card,
           uint64_t size_bytes, uint32_t page_bytes, struct rm_mem **out_mem)
{
    uint64_t *next = card ? &card->next_byte : &machine->sysmem_next_byte;
    struct rm_mem *mem;

    assert(is_pow2(page_bytes) && size_bytes > 0);
    rm_exports_sweep(machine);
    if (card && size_bytes > machine->chip->vidmem_bytes - card->used_bytes)
        return rm_refuse(RM_NO_MEMORY,
                         "%llu bytes of video memory wanted, %llu of %llu used",
                         (unsigned long long)size_bytes,
                         (unsigned long long)card->used_bytes,
                         (unsigned long long)machine->chip->vidmem_bytes);
    mem = new_mem(machine, card ? RM_MEM_VIDEO : RM_MEM_SYSTEM, size_bytes,
                  page_bytes);
    if (!mem)
        return RM_NO_MEMORY;
    mem->card = card;
    mem->fd = card ? card->vidmem_fd : machine->sysmem_fd;
    mem->file_offset = align_up(*next, RM_HUGE_BYTES);
    mem->host = map_aligned(mem->fd, mem->file_offset, size_bytes, page_bytes);
    if (!mem->host) {
        host_free(mem);
        return rm_refuse(RM_NO_MEMORY, "mapping %llu bytes for the card: %s",
                         (unsigned long long)size_bytes, strerror(errno));
    }
    *next = mem->file_offset + size_bytes;
    if (card)
        card->used_bytes += size_bytes;
    machine->memory_bytes += size_bytes;
    if (!machine->chip->is_lenient)
        poison_mem(mem);
    *out_mem = mem;
    return RM_OK;
}

enum rm_status
rm_mem_create_system(struct rm_machine *machine, uint64_t size_bytes,
                     struct rm_mem **out_mem)
{
    assert(size_bytes > 0);
    return mem_create(machine, NULL, align_up(size_bytes, RM_PAGE_BYTES),
                      RM_PAGE_BYTES, out_mem);
}

enum rm_status
rm_mem_import(struct rm_machine *machine, int fd, uint64_t size_bytes,
              struct rm_mem **out_mem)
{
    struct rm_mem *mem =
        new_mem(machine, RM_MEM_IMPORT, align_up(size_bytes, RM_PAGE_BYTES),
                RM_PAGE_BYTES);

    if (!mem)
        return RM_NO_MEMORY;
    mem->host = map_aligned(fd, 0, mem->size_bytes, RM_PAGE_BYTES);
    if (!mem->host) {
        host_free(mem);
        return rm_refuse(RM_NO_MEMORY, "mapping a dma-buf: %s",
                         strerror(errno));
    }
    mem->own_fd = fd;
    machine->memory_bytes += mem->size_bytes;
    *out_mem = mem;
    return RM_OK;
}

void
rm_mem_punch(const struct rm_mem *mem)
{
    (void)fallocate(mem->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)mem->file_offset, (off_t)mem->size_bytes);
}

int
rm_mem_file(const struct rm_mem *mem, uint64_t *out_offset)
{
    *out_offset = mem->own_fd >= 0 ? 0 : mem->file_offset;
    return mem->own_fd >= 0 ? mem->own_fd : mem->fd;
}

void
rm_mem_retain(struct rm_mem *mem)
{
    assert(mem->refs > 0);
    mem->refs++;
}

/* CPU mappings of memory that goes turn inaccessible. */
static void
revoke_mappings(struct rm_mem *mem)
{
    struct rm_process *p;
    size_t i;

    for (p = mem->machine->processes; p; p = p->next) {
        for (i = 0; i < p->n_mappings; i++) {
            struct rm_mapping *m = &p->mappings[i];
            if (m->mem != mem)
                continue;
            nvgpu_bar_unmap(m->addr, m->size_bytes);
            (void)mmap(m->addr, m->size_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                       -1, 0);
            m->mem = NULL;
        }
        for (i = 0; i < p->n_files; i++) {
            if (p->files[i].mem == mem)
                p->files[i].mem = NULL;
        }
    }
}

void
rm_mem_release(struct rm_mem *mem)
{
    assert(!mem || mem->refs > 0);
    if (!mem || --mem->refs > 0)
        return;
    revoke_mappings(mem);
    if (mem->kind == RM_MEM_VIDEO || mem->kind == RM_MEM_SYSTEM ||
        mem->kind == RM_MEM_IMPORT)
        munmap(mem->host, mem->size_bytes);
    if (mem->own_fd >= 0)
        close(mem->own_fd);
    else if (mem->kind == RM_MEM_VIDEO || mem->kind == RM_MEM_SYSTEM)
        rm_mem_punch(mem);
    if (mem->kind == RM_MEM_VIDEO)
        mem->card->used_bytes -= mem->size_bytes;
    if (mem->kind == RM_MEM_TEAM)
        rm_team_destroy(mem);
    else if (mem->kind != RM_MEM_WINDOW)
        mem->machine->memory_bytes -= mem->size_bytes;
    host_free(mem);
}

/* ---- objects ---- */

/* The page size that the attributes name; 0 where they are wrong. */
static uint32_t
page_attribute(const struct nv_memory_alloc *params, uint32_t default_bytes)
{
    switch (ATTR_PAGE(params->attr)) {
    case 1:
        return RM_PAGE_BYTES;
    case 2:
        return RM_BIG_BYTES;
    case 3:
        return RM_HUGE_BYTES;
    default:
        return default_bytes;
    }
}

void
rm_answer_attr(struct nv_memory_alloc *params, uint32_t page_bytes)
{
    uint32_t page = page_bytes == RM_PAGE_BYTES  ? 1
                    : page_bytes == RM_BIG_BYTES ? 2
                                                 : 3;
    bool is_system = ATTR_LOCATION(params->attr) == LOCATION_PCI;

    params->flags |= FLAG_NOT_REQUIRED;
    params->attr &= ~(RM_ATTR_PHYSICALITY(3) | RM_ATTR_PAGE(3));
    params->attr |= RM_ATTR_PAGE(page);
    if (page == 3)
        params->attr2 |= ATTR2_HUGE_2MB;
    if (!(params->attr2 & ATTR2_CACHEABLE(3)))
        params->attr2 |= ATTR2_CACHEABLE(is_system ? 2u : 1u);
    params->attr2 = (params->attr2 & ~3u) | ATTR2_NO_ZBC;
    params->format = KIND_GENERIC;
}

static enum rm_status
check_memory_alloc(const struct nv_memory_alloc *params, uint32_t location)
{
    if (!params->size || params->size > (uint64_t)1 << 46)
        return rm_refuse(RM_INVALID_ARGUMENT, "memory of %llu bytes",
                         (unsigned long long)params->size);
    if (params->alignment && !is_pow2(params->alignment))
        return rm_refuse(RM_INVALID_ARGUMENT, "alignment of 0x%llx",
                         (unsigned long long)params->alignment);
    if (ATTR_LOCATION(params->attr) != location)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "attr 0x%x: LOCATION is %u, the class wants %u",
                         params->attr, ATTR_LOCATION(params->attr), location);
    if (params->flags & FLAG_VIRTUAL)
        return rm_refuse(RM_INVALID_FLAGS,
                         "flags 0x%x: VIRTUAL is for class 0x50a0",
                         params->flags);
    if (params->flags & FLAG_FIXED_ADDRESS)
        return rm_refuse(RM_NOT_SUPPORTED, "memory at a fixed address");
    return RM_OK;
}

static enum rm_status
alloc_physical(struct rm_alloc *a, struct rm_card *card, uint32_t page_bytes)
{
    struct nv_memory_alloc *params = a->params;
    uint64_t size_bytes = align_up(params->size, page_bytes);
    enum rm_status status =
        mem_create(a->machine, card, size_bytes, page_bytes, &a->object->mem);

    if (status != RM_OK)
        return status;
    params->size = size_bytes;
    params->limit = size_bytes - 1;
    rm_answer_attr(params, page_bytes);
    if (card) {
        params->offset = a->object->mem->file_offset;
        params->attr |= RM_ATTR_PHYSICALITY(RM_CONTIGUOUS);
    } else {
        params->alignment =
            params->alignment ? params->alignment : RM_PAGE_BYTES;
        params->attr |= RM_ATTR_PHYSICALITY(RM_NONCONTIGUOUS);
    }
    return RM_OK;
}

enum rm_status
rm_alloc_video(struct rm_alloc *a)
{
    const struct nv_memory_alloc *params = a->params;
    uint32_t page_bytes = RM_PAGE_BYTES;
    enum rm_status status = check_memory_alloc(params, LOCATION_VIDEO);

    if (status != RM_OK)
        return status;
    /* from 2 MiB on: observed: H100, 2026-11-22. lead: below */
    if (params->size >= RM_BIG_BYTES)
        page_bytes =
            params->size >= RM_HUGE_BYTES ? RM_HUGE_BYTES : RM_BIG_BYTES;
    if (params->alignment && params->alignment < page_bytes)
        page_bytes =
            params->alignment >= RM_BIG_BYTES ? RM_BIG_BYTES : RM_PAGE_BYTES;
    return alloc_physical(a, a->object->card,
                          page_attribute(params, page_bytes));
}

enum rm_status
rm_alloc_system(struct rm_alloc *a)
{
    enum rm_status status = check_memory_alloc(a->params, LOCATION_PCI);

    if (status != RM_OK)
        return status;
    return alloc_physical(a, NULL, RM_PAGE_BYTES);
}

/* A page in which the driver tells of the card: of what can be polled only the
 * clocks, told at once. src: gpu_user_shared_data.c, and cl00de.h at the tags
 * of ioctl/nv.uapi: places, order of the clocks (graphics, memory, video, SM).
 * 610's page is not public. */
enum rm_status
rm_alloc_shared_data(struct rm_alloc *a)
{
    static const uint32_t mhz[] = {1980, 2619, 1545, 1980}; /* guess */
    const struct nv00de_alloc *params = a->params;
    uint32_t major = a->machine->abi.major;
    size_t place = major < 550 ? 16 : major < 560 ? 32 : 72;
    uint64_t now = time_now_ns();
    enum rm_status status;

    if (a->machine->confidential)
        return rm_refuse(RM_NOT_SUPPORTED,
                         "shared data with confidential computing");
    status = rm_mem_create_system(a->machine, RM_PAGE_BYTES, &a->object->mem);
    if (status != RM_OK)
        return status;
    memset(a->object->mem->host, 0, RM_PAGE_BYTES);
    if (major >= 545 && major <= 595 && params->polledDataMask & 1) {
        uint8_t *at = (uint8_t *)a->object->mem->host + place;

        memcpy(at, &now, sizeof(now));
        memcpy(at + sizeof(now), mhz, sizeof(mhz));
    }
    return RM_OK;
}

enum rm_status
rm_alloc_usermode(struct rm_alloc *a)
{
    const struct nv_hopper_usermode_a *params = a->params;
    struct rm_mem *mem;

    if (params && params->bPriv)
        return params->bBar1Mapping
                   ? rm_refuse(RM_INSUFFICIENT_PERMISSIONS,
                               "the privileged doorbell is not for processes")
                   : rm_refuse(RM_INVALID_PARAMETER,
                               "bPriv without bBar1Mapping");
    mem = new_mem(a->machine, RM_MEM_WINDOW, RM_WINDOW_BYTES, RM_PAGE_BYTES);
    if (!mem)
        return RM_NO_MEMORY;
    if (params && params->bBar1Mapping)
        mem->file_offset = RM_WINDOW_BYTES;
    mem->card = a->object->card;
    mem->fd = nvgpu_window_fd(mem->card->gpu);
    a->object->mem = mem;
    return RM_OK;
}

/* Whether it is seen through BAR1, of which it takes some. */
static bool
is_in_bar1(const struct rm_mem *mem)
{
    return mem->kind == RM_MEM_VIDEO ||
           (mem->kind == RM_MEM_WINDOW && mem->file_offset);
}

/* RM's name for a view: an address on the bus, but for system memory. */
static uint64_t
linear_of(const struct rm_mem *mem, uint64_t offset)
{
    assert(offset <= mem->size_bytes);
    if (mem->kind == RM_MEM_WINDOW && is_in_bar1(mem))
        return mem->card->bar1_base + mem->machine->chip->bar1_bytes -
               RM_WINDOW_BYTES + offset;
    if (mem->kind == RM_MEM_WINDOW)
        return mem->card->bar0_base + 0x30000 + offset;
    if (mem->kind == RM_MEM_VIDEO)
        return mem->card->bar1_base + mem->file_offset + offset;
    return mem->file_offset + offset;
}

/* ---- RM_ALLOC_MEMORY ---- */

/* Whether every page of a range is mapped in this process. */
static bool
is_mapped(uint64_t addr, uint64_t size_bytes)
{
    unsigned char pages[512];
    uint64_t step = sizeof(pages) * RM_PAGE_BYTES, n;

    for (; size_bytes; addr += n, size_bytes -= n) {
        n = size_bytes < step ? size_bytes : step;
        if (mincore((void *)(uintptr_t)addr, n, pages) < 0)
            return false;
    }
    return true;
}

static enum rm_status
check_user_pages(const struct nv_os02_fd *call)
{
    uint32_t flags = call->params.flags, coherency = OS02_COHERENCY(flags);
    uint64_t addr = call->params.pMemory;

    if (OS02_LOCATION(flags) != 0 || OS02_MAPPING(flags) != OS02_NO_MAP ||
        OS02_PHYSICALITY(flags) != 1)
        return rm_refuse(RM_INVALID_FLAGS,
                         "flags 0x%x: user pages want NONCONTIG, PCI, NO_MAP",
                         flags);
    if (coherency != 0 && coherency != 1 && coherency != 5)
        return rm_refuse(RM_INVALID_FLAGS,
                         "flags 0x%x: user pages cannot have coherency %u",
                         flags, coherency);
    if (!addr || addr % RM_PAGE_BYTES)
        return rm_refuse(RM_INVALID_ADDRESS,
                         "user pages at 0x%llx: not page aligned",
                         (unsigned long long)addr);
    if (!is_mapped(addr, align_up(call->params.limit + 1, RM_PAGE_BYTES)))
        return rm_refuse(RM_INVALID_ADDRESS,
                         "user pages at 0x%llx: not mapped in the process",
                         (unsigned long long)addr);
    return RM_OK;
}

static enum rm_status
pin_pages(struct rm_process *process, const struct nv_os02_fd *call,
          struct rm_mem **out_mem)
{
    enum rm_status status = check_user_pages(call);
    struct rm_mem *mem;

    if (status != RM_OK)
        return status;
    mem =
        new_mem(process->machine, RM_MEM_USER,
                align_up(call->params.limit + 1, RM_PAGE_BYTES), RM_PAGE_BYTES);
    if (!mem)
        return RM_NO_MEMORY;
    mem->host = (uint8_t *)(uintptr_t)call->params.pMemory;
    process->machine->memory_bytes += mem->size_bytes;
    *out_mem = mem;
    return RM_OK;
}

/* The file that a mapping context goes to: fresh, and of the right kind. */
static enum rm_status
find_view_file(struct rm_process *process, int fd, const struct rm_mem *mem,
               struct rm_file **out_file)
{
    struct rm_file *file = rm_file_of(process, fd, NULL);
    bool wants_card = mem->kind == RM_MEM_VIDEO || mem->kind == RM_MEM_WINDOW;

    if (!file)
        return rm_refuse(RM_INVALID_ARGUMENT, "file %d is not open", fd);
    if (wants_card && (file->kind != RM_FILE_GPU || file->card != mem->card))
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "file %d: this memory is mapped through "
                         "/dev/nvidia%u",
                         fd, mem->card->index);
    if (!wants_card && file->kind != RM_FILE_CTL)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "file %d: system memory is mapped through "
                         "/dev/nvidiactl",
                         fd);
    if (file->has_view)
        return rm_refuse(RM_STATE_IN_USE,
                         "file %d has a mapping context already", fd);
    *out_file = file;
    return RM_OK;
}

static void
set_view(struct rm_file *file, struct rm_mem *mem, uint64_t offset,
         uint64_t size_bytes)
{
    file->has_view = true;
    file->is_bar = mem->kind == RM_MEM_VIDEO || mem->kind == RM_MEM_WINDOW;
    file->mem = mem;
    file->view_offset = offset;
    file->view_bytes = size_bytes;
}

static enum rm_status
alloc_host_pages(struct rm_process *process, const struct nv_os02_fd *call,
                 struct rm_mem **out_mem, struct rm_file **out_file)
{
    uint32_t flags = call->params.flags;
    enum rm_status status;
    struct rm_mem *mem;

    if (OS02_LOCATION(flags) != 0)
        return rm_refuse(RM_INVALID_FLAGS, "flags 0x%x: LOCATION is not PCI",
                         flags);
    status = mem_create(process->machine, NULL,
                        align_up(call->params.limit + 1, RM_PAGE_BYTES),
                        RM_PAGE_BYTES, &mem);
    if (status != RM_OK)
        return status;
    if (OS02_MAPPING(flags) != OS02_NO_MAP) {
        status = find_view_file(process, call->fd, mem, out_file);
        if (status != RM_OK) {
            rm_mem_release(mem);
            return status;
        }
    }
    *out_mem = mem;
    return RM_OK;
}

static enum rm_status
alloc_memory_below(struct rm_process *process, struct rm_client *client,
                   struct rm_object *device, struct nv_os02_fd *call)
{
    struct rm_file *view = NULL;
    struct rm_mem *mem = NULL;
    enum rm_status status;

    if (call->params.hClass == NV01_MEMORY_SYSTEM)
        status = alloc_host_pages(process, call, &mem, &view);
    else if (call->params.hClass == NV01_MEMORY_SYSTEM_OS_DESCRIPTOR)
        status = pin_pages(process, call, &mem);
    else
        return rm_refuse(RM_INVALID_CLASS,
                         "class 0x%x is not made by RM_ALLOC_MEMORY",
                         call->params.hClass);
    if (status != RM_OK)
        return status;
    status = rm_object_add_memory(client, device, call->params.hClass, mem,
                                  &call->params.hObjectNew);
    if (status == RM_OK && view)
        set_view(view, mem, 0, mem->size_bytes);
    if (status == RM_OK && mem->kind == RM_MEM_SYSTEM)
        call->params.pMemory = linear_of(mem, 0);
    rm_mem_release(mem); /* the object has it, or nobody */
    return status;
}

enum rm_status
rm_alloc_memory(struct rm_process *process, int file, struct nv_os02_fd *call)
{
    const struct rm_file *node = &process->files[file];
    struct rm_client *client =
        node->ctl < 0 ? NULL
                      : rm_client_find(process, node->ctl, call->params.hRoot);
    struct rm_object *device;

    if (!client)
        return rm_refuse(RM_INVALID_CLIENT,
                         "no client 0x%x on the control file that this node "
                         "is registered with",
                         call->params.hRoot);
    device = rm_find_kind(client, call->params.hObjectParent, RM_KIND_DEVICE);
    if (!device || device->card != node->card)
        return rm_refuse(RM_INVALID_OBJECT_PARENT,
                         "0x%x is not a device of this node's card",
                         call->params.hObjectParent);
    if (!call->params.hObjectNew)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "RM_ALLOC_MEMORY wants a handle that is chosen");
    if (call->params.limit >= (uint64_t)1 << 46)
        return rm_refuse(RM_INVALID_LIMIT, "limit 0x%llx",
                         (unsigned long long)call->params.limit);
    return alloc_memory_below(process, client, device, call);
}

/* ---- RM_MAP_MEMORY ---- */

static enum rm_status
find_mappable(struct rm_process *process, int ctl_file, uint32_t client_handle,
              uint32_t device, uint32_t memory, struct rm_object **out_object)
{
    struct rm_client *client = rm_client_find(process, ctl_file, client_handle);
    struct rm_object *parent, *object;

    if (!client)
        return rm_refuse(RM_INVALID_CLIENT,
                         "no client 0x%x was made on this file", client_handle);
    parent = rm_find(client, device);
    if (!parent ||
        (parent->kind != RM_KIND_DEVICE && parent->kind != RM_KIND_SUBDEVICE))
        return rm_refuse(RM_INVALID_DEVICE, "0x%x is not a device", device);
    object = rm_find(client, memory);
    if (!object ||
        (object->kind != RM_KIND_MEMORY && object->kind != RM_KIND_USERMODE))
        return rm_refuse(RM_INVALID_OBJECT_HANDLE, "0x%x is not memory",
                         memory);
    if (object->card != parent->card)
        return rm_refuse(RM_INVALID_DEVICE, "memory 0x%x is not of device 0x%x",
                         memory, device);
    *out_object = object;
    return RM_OK;
}

static enum rm_status
check_view(const struct rm_object *object, const struct nv_os33_fd *call)
{
    const struct rm_mem *mem = object->mem;
    uint64_t offset = call->params.offset, length = call->params.length;

    if (mem->team)
        return rm_refuse(RM_NOT_SUPPORTED, "memory 0x%x is a team's",
                         object->handle);
    /* Stricter: some imports may be mapped. src: os_desc_mem.c,
     * ALLOW_EXT_SYSMEM_USER_CPU_MAPPING */
    if (mem->kind == RM_MEM_USER || mem->kind == RM_MEM_IMPORT)
        return rm_refuse(RM_NOT_SUPPORTED,
                         "memory 0x%x is the process' own: it has it mapped",
                         object->handle);
    /* Memory is protected where nothing else is asked for.
     * src: NVIDIA/open-gpu-kernel-modules 580.142, mapping_cpu.c */
    if (mem->kind == RM_MEM_VIDEO &&
        object->client->process->machine->confidential)
        return rm_refuse(RM_NOT_SUPPORTED,
                         "BAR1 mapping of memory 0x%x, which confidential "
                         "computing protects",
                         object->handle);
    if (offset % RM_PAGE_BYTES)
        return rm_refuse(RM_INVALID_OFFSET, "offset 0x%llx of a mapping",
                         (unsigned long long)offset);
    if (!length || offset > mem->size_bytes ||
        length > mem->size_bytes - offset)
        return rm_refuse(RM_INVALID_LIMIT,
                         "0x%llx bytes at 0x%llx of memory 0x%x, which has "
                         "0x%llx",
                         (unsigned long long)length, (unsigned long long)offset,
                         object->handle, (unsigned long long)mem->size_bytes);
    return RM_OK;
}

static enum rm_status
add_view(struct rm_object *object, uint64_t offset, uint64_t length,
         struct rm_view **out_view)
{
    struct rm_mem *mem = object->mem;
    uint64_t bar_bytes = is_in_bar1(mem) ? length : 0;
    struct rm_view *view;

    if (bar_bytes > mem->machine->chip->bar1_bytes -
                        (mem->card ? mem->card->bar1_used_bytes : 0))
        return rm_refuse(RM_INSUFFICIENT_RESOURCES,
                         "BAR1 has no 0x%llx bytes left",
                         (unsigned long long)bar_bytes);
    view = host_calloc(1, sizeof(*view));
    if (!view)
        return RM_NO_MEMORY;
    if (bar_bytes)
        mem->card->bar1_used_bytes += bar_bytes;
    *view = (struct rm_view){
        .next = mem->machine->views,
        .object = object,
        .mem = mem,
        .linear = linear_of(mem, offset),
        .bar_bytes = bar_bytes,
    };
    mem->machine->views = view;
    *out_view = view;
    return RM_OK;
}

static void
remove_view(struct rm_view **link)
{
    struct rm_view *view = *link;

    *link = view->next;
    if (view->bar_bytes)
        view->mem->card->bar1_used_bytes -= view->bar_bytes;
    host_free(view);
}

void
rm_views_forget(struct rm_object *object)
{
    struct rm_view **link = &object->client->process->machine->views;

    while (*link) {
        if ((*link)->object == object)
            remove_view(link);
        else
            link = &(*link)->next;
    }
}

/* What RM makes of a mapping's flags: the caller's caching does not count.
 * src: memMap_IMPL; observed: H100, 2026-11-22 */
static uint32_t
view_flags(const struct rm_mem *mem, uint32_t flags)
{
    uint32_t mapping = mem->kind == RM_MEM_SYSTEM ? DIRECT
                       : is_in_bar1(mem)          ? REFLECTED
                                                  : 0;
    uint32_t caching = !is_in_bar1(mem)            ? BY_DEFAULT
                       : mem->kind == RM_MEM_VIDEO ? WRITE_COMBINED
                                                   : UNCACHED;

    if (mapping)
        flags = (flags & ~OS33_MAPPING(3u)) | OS33_MAPPING(mapping);
    return (flags & ~OS33_CACHING(7u)) | OS33_CACHING(caching);
}

enum rm_status
rm_map_memory(struct rm_process *process, int file, struct nv_os33_fd *call)
{
    struct rm_object *object;
    struct rm_file *target;
    struct rm_view *view;
    enum rm_status status =
        find_mappable(process, file, call->params.hClient, call->params.hDevice,
                      call->params.hMemory, &object);

    if (status == RM_OK)
        status = check_view(object, call);
    if (status == RM_OK)
        status = find_view_file(process, call->fd, object->mem, &target);
    if (status == RM_OK)
        status =
            add_view(object, call->params.offset, call->params.length, &view);
    if (status != RM_OK)
        return status;
    set_view(target, object->mem, call->params.offset, call->params.length);
    call->params.pLinearAddress = view->linear;
    call->params.flags = view_flags(object->mem, call->params.flags);
    return RM_OK;
}

enum rm_status
rm_unmap_memory(struct rm_process *process, int file,
                const struct nv_os34 *call)
{
    struct rm_view **link = &process->machine->views;
    struct rm_object *object;
    enum rm_status status = find_mappable(
        process, file, call->hClient, call->hDevice, call->hMemory, &object);

    if (status != RM_OK)
        return status;
    for (; *link; link = &(*link)->next) {
        if ((*link)->object == object &&
            (*link)->linear == call->pLinearAddress) {
            remove_view(link);
            return RM_OK;
        }
    }
    return rm_refuse(RM_INVALID_ADDRESS, "memory 0x%x is not mapped at 0x%llx",
                     object->handle, (unsigned long long)call->pLinearAddress);
}

/* The process names a view as it has it mapped. */
enum rm_status
rm_update_mapping(struct rm_process *process, int file,
                  const struct nv_os56 *call)
{
    struct rm_view *view = process->machine->views;
    struct rm_object *object;
    enum rm_status status = find_mappable(
        process, file, call->hClient, call->hDevice, call->hMemory, &object);

    if (status != RM_OK)
        return status;
    while (view &&
           (view->object != object || view->linear != call->pOldCpuAddress))
        view = view->next;
    if (!view)
        return rm_refuse(RM_INVALID_ADDRESS,
                         "memory 0x%x is not mapped at 0x%llx", object->handle,
                         (unsigned long long)call->pOldCpuAddress);
    view->linear = call->pNewCpuAddress;
    return RM_OK;
}
