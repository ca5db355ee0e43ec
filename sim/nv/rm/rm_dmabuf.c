/* Memory by descriptors: dma-bufs that the driver exports, and those of other
 * drivers that it imports.
 *
 * Memory of a card lies in one file of the card; what is exported gets a file
 * of its own. A descriptor counts the memory, as the real driver duplicates the
 * object for it.
 *
 * src: NVIDIA/open-gpu-kernel-modules 595.45.04, nv-dmabuf.c,
 * nv_dma_buf_export; osapi.c, RmDmabufVerifyMemHandle; osmemdesc.c,
 * osCreateOsDescriptorFromFileHandle. Stricter: a dma-buf is one whole object,
 * and the driver's own ones are not imported. Softer: what the card writes
 * while the call runs may be lost.
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/nv_uapi.h"
#include "sim/dmabuf.h"

#define MAX_HANDLES        128u
#define MAPPING_FORCE_PCIE 1u
#define COPY_BYTES         8192u
#define OS_FILE_HANDLE     4u
#define OS_TYPES           7u
#define ATTR_LOCATION(a)   ((a) >> 25 & 3)
#define LOCATION_PCI       1u
#define OWNER_FORMAT       "NV/%s/%u"

/* A descriptor's hold on memory; goes when no descriptor is open. */
struct rm_export {
    struct rm_export *next;
    struct rm_mem *mem; /* counted */
};

/* ---- a file of its own --------------------------------------------------- */

/* Holes stay holes. */
static bool
copy_file(const struct rm_mem *mem, int to)
{
    uint8_t bytes[COPY_BYTES];
    off_t end = (off_t)(mem->file_offset + mem->size_bytes);
    off_t at = (off_t)mem->file_offset, hole;

    for (;;) {
        at = lseek(mem->fd, at, SEEK_DATA);
        if (at < 0 || at >= end)
            return true;
        hole = lseek(mem->fd, at, SEEK_HOLE);
        if (hole < 0 || hole > end)
            hole = end;
        while (at < hole) {
            size_t n = (size_t)(hole - at) < COPY_BYTES ? (size_t)(hole - at)
                                                        : COPY_BYTES;

            if (pread(mem->fd, bytes, n, at) != (ssize_t)n ||
                pwrite(to, bytes, n, at - (off_t)mem->file_offset) !=
                    (ssize_t)n)
                return false;
            at += (off_t)n;
        }
    }
}

/* Every mapping that there is shows the new file. */
static enum rm_status
move_mappings(const struct rm_mem *mem, int to)
{
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
    const struct rm_process *p;
    size_t i;

    if (mmap(mem->host, mem->size_bytes, prot, flags | MAP_NORESERVE, to, 0) ==
        MAP_FAILED)
        return rm_refuse(RM_NO_MEMORY, "mapping a dma-buf for the card: %s",
                         strerror(errno));
    for (p = mem->machine->processes; p; p = p->next) {
        for (i = 0; i < p->n_mappings; i++) {
            const struct rm_mapping *m = &p->mappings[i];

            if (m->mem == mem && mmap(m->addr, m->size_bytes, prot, flags, to,
                                      (off_t)m->offset_bytes) == MAP_FAILED)
                return rm_refuse(RM_NO_MEMORY, "mapping a dma-buf at %p: %s",
                                 (void *)m->addr, strerror(errno));
        }
    }
    return RM_OK;
}

static enum rm_status
give_file(struct rm_mem *mem)
{
    char owner[SIM_DMABUF_OWNER_BYTES];
    enum rm_status status;
    int fd;

    if (mem->own_fd >= 0)
        return RM_OK;
    snprintf(owner, sizeof(owner), OWNER_FORMAT, mem->machine->spec,
             mem->card->index);
    fd = sim_dmabuf_create(owner, mem->size_bytes);
    if (fd < 0)
        return rm_refuse(RM_NO_MEMORY, "a file for a dma-buf: %s",
                         strerror(-fd));
    status = copy_file(mem, fd)
                 ? move_mappings(mem, fd)
                 : rm_refuse(RM_NO_MEMORY, "memory for a dma-buf: %s",
                             strerror(errno));
    if (status != RM_OK) {
        close(fd);
        return status;
    }
    rm_mem_punch(mem);
    mem->own_fd = fd;
    return RM_OK;
}

/* ---- export -------------------------------------------------------------- */

void
rm_exports_sweep(struct rm_machine *machine)
{
    struct rm_export **link = &machine->exports;

    while (*link) {
        struct rm_export *export = *link;

        if (sim_dmabuf_is_out(export->mem->own_fd)) {
            link = &export->next;
            continue;
        }
        *link = export->next;
        rm_mem_release(export->mem);
        host_free(export);
    }
}

void
rm_exports_drop(struct rm_machine *machine)
{
    while (machine->exports) {
        struct rm_export *export = machine->exports;

        machine->exports = export->next;
        rm_mem_release(export->mem);
        host_free(export);
    }
}

static enum rm_status
check_export(const struct rm_machine *machine,
             const struct nv_export_to_dma_buf_fd *p)
{
    if (!p->totalSize || !p->numObjects || !p->totalObjects ||
        p->numObjects > MAX_HANDLES || p->numObjects > p->totalObjects ||
        p->mappingType > MAPPING_FORCE_PCIE || p->fd < -1)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "a dma-buf of %u objects of %u, 0x%llx bytes, mapped "
                         "by %u, file %d",
                         p->numObjects, p->totalObjects,
                         (unsigned long long)p->totalSize, p->mappingType,
                         p->fd);
    if (p->fd >= 0)
        return sim_dmabuf_is(p->fd)
                   ? rm_refuse(RM_IN_USE, "file %d has its objects", p->fd)
                   : rm_refuse(RM_OPERATING_SYSTEM, "file %d is not a dma-buf",
                               p->fd);
    if (p->mappingType == MAPPING_FORCE_PCIE || p->bAllowMmap ||
        machine->confidential)
        return rm_refuse(RM_NOT_SUPPORTED,
                         "a dma-buf by PCIe alone, one that is mapped, or with "
                         "confidential computing");
    if (p->index > p->totalObjects - p->numObjects)
        return rm_refuse(RM_INVALID_ARGUMENT, "index %u of %u objects",
                         p->index, p->totalObjects);
    return RM_OK;
}

static enum rm_status
find_exported(struct rm_machine *machine, const struct rm_card *card,
              const struct nv_export_to_dma_buf_fd *p, struct rm_mem **out_mem)
{
    struct rm_client *client = rm_client_any(machine, p->hClient);
    struct rm_object *object = client ? rm_find(client, p->handles[0]) : NULL;
    struct rm_mem *mem;

    if (!client)
        return rm_refuse(RM_INVALID_CLIENT, "no client 0x%x", p->hClient);
    if (!object)
        return rm_refuse(RM_OBJECT_NOT_FOUND, "client 0x%x has no object 0x%x",
                         p->hClient, p->handles[0]);
    if (object->kind != RM_KIND_MEMORY)
        return rm_refuse(RM_INVALID_OBJECT, "0x%x is not memory",
                         p->handles[0]);
    mem = object->mem;
    if (object->card != card || (mem->card && mem->card != card))
        return rm_refuse(RM_INVALID_OBJECT_PARENT,
                         "memory 0x%x is not of this node's card",
                         p->handles[0]);
    if (p->offsets[0] % RM_PAGE_BYTES || p->sizes[0] % RM_PAGE_BYTES ||
        mem->kind != RM_MEM_VIDEO || !p->sizes[0] ||
        p->sizes[0] > mem->size_bytes ||
        p->offsets[0] > mem->size_bytes - p->sizes[0] ||
        p->sizes[0] > p->totalSize ||
        (p->totalObjects == 1 && p->sizes[0] != p->totalSize))
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "0x%llx bytes at 0x%llx of memory 0x%x for a dma-buf "
                         "of 0x%llx: video memory, in pages",
                         (unsigned long long)p->sizes[0],
                         (unsigned long long)p->offsets[0], p->handles[0],
                         (unsigned long long)p->totalSize);
    if (p->totalObjects != 1 || p->sizes[0] != mem->size_bytes)
        return rm_refuse(RM_NOT_SUPPORTED,
                         "a dma-buf of several objects or of a part is not "
                         "simulated");
    *out_mem = mem;
    return RM_OK;
}

enum rm_status
rm_export_dmabuf(struct rm_process *process, int file,
                 struct nv_export_to_dma_buf_fd *p)
{
    struct rm_machine *machine = process->machine;
    const struct rm_card *card = process->files[file].card;
    enum rm_status status = check_export(machine, p);
    struct rm_export *export;
    struct rm_mem *mem = NULL;
    int fd;

    if (status == RM_OK)
        status = find_exported(machine, card, p, &mem);
    if (status == RM_OK)
        status = give_file(mem);
    if (status != RM_OK)
        return status;
    export = host_calloc(1, sizeof(*export));
    if (!export)
        return RM_NO_MEMORY;
    fd = sim_dmabuf_export(mem->own_fd, true, false);
    if (fd < 0) {
        host_free(export);
        return rm_refuse(RM_OPERATING_SYSTEM, "no descriptor: %s",
                         strerror(-fd));
    }
    rm_mem_retain(mem);
    *export = (struct rm_export){machine->exports, mem};
    machine->exports = export;
    p->fd = fd;
    return RM_OK;
}

/* ---- import -------------------------------------------------------------- */

/* The size has 32 bits there. */
static enum rm_status
open_import(const struct nv_os_desc_alloc *params, struct sim_dmabuf *out)
{
    int result;

    if (params->descriptorType != OS_FILE_HANDLE)
        return rm_refuse(params->descriptorType < OS_TYPES
                             ? RM_NOT_SUPPORTED
                             : RM_INVALID_ARGUMENT,
                         "a descriptor of type %u", params->descriptorType);
    if (ATTR_LOCATION(params->attr) != LOCATION_PCI)
        return rm_refuse(RM_INVALID_FLAGS, "attr 0x%x: LOCATION is not PCI",
                         params->attr);
    if (params->descriptor > INT32_MAX)
        return rm_refuse(RM_INVALID_ARGUMENT, "file 0x%llx",
                         (unsigned long long)params->descriptor);
    result = sim_dmabuf_import((int)params->descriptor, out);
    if (result < 0)
        return rm_refuse(RM_OPERATING_SYSTEM, "file %d is not a dma-buf: %s",
                         (int)params->descriptor, strerror(-result));
    out->size_bytes = (uint32_t)out->size_bytes;
    if (strncmp(out->owner, "NV/", 3) != 0 && out->size_bytes)
        return RM_OK;
    close(out->fd);
    return rm_refuse(RM_NOT_SUPPORTED,
                     "a dma-buf of this driver's, or of a multiple of 4 GiB");
}

enum rm_status
rm_alloc_os_desc(struct rm_alloc *a)
{
    struct sim_dmabuf file;
    enum rm_status status = open_import(a->params, &file);

    if (status != RM_OK)
        return status;
    status =
        rm_mem_import(a->machine, file.fd, file.size_bytes, &a->object->mem);
    if (status != RM_OK)
        close(file.fd);
    return status;
}
