/* Requests on the device nodes: which escape goes to which file, with which
 * struct, and who does it. A request of the wrong size, on the wrong file or
 * of an unknown number fails as a system call; what RM itself refuses comes
 * back as a status in the struct. src: docs/hardware/nvidia-kernel.md,
 * "Device files", "Calls".
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/log.h"
#include "ioctl/nv_uapi.h"

#define REQUEST_NR(r)   ((uint32_t)(r)&0xffu)
#define REQUEST_TYPE(r) ((uint32_t)((r) >> 8) & 0xffu)
#define REQUEST_SIZE(r) ((uint32_t)((r) >> 16) & 0x3fffu)
#define REQUEST_DIR(r)  ((uint32_t)((r) >> 30) & 3u)
#define REQUEST_KIND    0x46u /* 'F' */
#define DIR_READ_WRITE  3u
#define CARD_INFO_MAX   227u /* 14 bits of size */
#define PCI_VENDOR      0x10deu
#define BAR0_BYTES      (16ull << 20)
#define MEMBLOCK_BYTES  (1ull << 30)
#define VERSION_MATCHES 1u /* reply of CHECK_VERSION_STR */

/* ---- why ---- */

/* As the error record: each thread its own, so that what one is told is not
 * another's failure. */
static _Thread_local char why_text[256];

enum rm_status
rm_refuse(enum rm_status status, const char *fmt, ...)
{
    char text[256];
    va_list args;

    assert(status != RM_OK);
    if (!LOG_ON(LOG_IOCTL))
        return status;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    log_print(LOG_IOCTL, "simulated kernel: status 0x%x %s: %s",
              (unsigned)status, nv_status_name((uint32_t)status), text);
    return status;
}

int
rm_fail(int error, const char *fmt, ...)
{
    va_list args;

    assert(error > 0);
    va_start(args, fmt);
    vsnprintf(why_text, sizeof(why_text), fmt, args);
    va_end(args);
    LOG(LOG_IOCTL, "simulated kernel: %s: %s", strerror(error), why_text);
    return -error;
}

const char *
rm_why(void)
{
    return why_text;
}

void
rm_why_clear(void)
{
    why_text[0] = '\0';
}

/* ---- memory of the process ---- */

/* The kernel copies with a check; where that is forbidden (seccomp), without.
 */
bool
rm_user_read(void *dst, uint64_t addr, size_t n_bytes)
{
    struct iovec to = {dst, n_bytes};
    struct iovec from = {(void *)(uintptr_t)addr, n_bytes};
    ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

    if (n < 0 && (errno == EPERM || errno == ENOSYS)) {
        memcpy(dst, (const void *)(uintptr_t)addr, n_bytes);
        return true;
    }
    return n >= 0 && (size_t)n == n_bytes;
}

bool
rm_user_write(uint64_t addr, const void *src, size_t n_bytes)
{
    struct iovec from = {(void *)(uintptr_t)src, n_bytes};
    struct iovec to = {(void *)(uintptr_t)addr, n_bytes};
    ssize_t n = process_vm_writev(getpid(), &from, 1, &to, 1, 0);

    if (n < 0 && (errno == EPERM || errno == ENOSYS)) {
        memcpy((void *)(uintptr_t)addr, src, n_bytes);
        return true;
    }
    return n >= 0 && (size_t)n == n_bytes;
}

void
rm_wire_answer(struct rm_machine *machine, uint32_t struct_id)
{
    const struct kio_struct *desc = nv_struct(machine->abi.branch, struct_id);
    const struct kio_struct *newest = nv_struct(NV_BRANCH_NEWEST, struct_id);
    uint8_t passed[64];
    uint32_t i;

    assert(nv_struct(machine->abi.branch, struct_id));
    for (i = 0; i < desc->n_fields; i++) {
        const struct kio_field *f = &desc->fields[i];
        if (kio_struct_field(newest, f->name) || f->size_bytes > sizeof(passed))
            continue;
        memcpy(passed, (uint8_t *)machine->wire + f->offset_bytes,
               f->size_bytes);
        nv_wire_pack(&machine->abi, struct_id, machine->params, machine->wire);
        memcpy((uint8_t *)machine->wire + f->offset_bytes, passed,
               f->size_bytes);
        return; /* no layout lost more than one field */
    }
    nv_wire_pack(&machine->abi, struct_id, machine->params, machine->wire);
}

/* ---- files ---- */

struct rm_file *
rm_file_of(struct rm_process *process, int fd, int *out_idx)
{
    int idx = fd - RM_FIRST_FD;

    if (idx < 0 || (size_t)idx >= process->n_files ||
        process->files[idx].kind == RM_FILE_NONE)
        return NULL;
    if (out_idx)
        *out_idx = idx;
    return &process->files[idx];
}

static void
destroy_clients(struct rm_process *process, int file)
{
    struct rm_client *c = process->machine->clients;

    assert(file >= 0);
    while (c) {
        if (c->process == process && c->file == file) {
            rm_client_destroy(c);
            c = process->machine->clients;
        } else {
            c = c->next;
        }
    }
}

void
rm_file_close(struct rm_process *process, int file)
{
    struct rm_file *f = &process->files[file];
    size_t i;

    assert(file >= 0 && (size_t)file < process->n_files);
    if (f->kind == RM_FILE_CTL)
        destroy_clients(process, file);
    if (f->kind == RM_FILE_UVM)
        rm_uvm_destroy(process, f->uvm);
    if (f->kind == RM_FILE_GPU)
        f->card->n_attached--;
    /* A node keeps what it was registered with, which is gone. */
    for (i = 0; i < process->n_files; i++) {
        if (process->files[i].ctl == file)
            process->files[i].ctl = -1;
    }
    *f = (struct rm_file){.kind = RM_FILE_NONE, .ctl = -1};
}

/* ---- escapes ---- */

/* A call in progress; the handlers return 0 or a negative errno. */
struct call {
    struct rm_process *process;
    int file;
};

static int
do_register_fd(struct call *c, void *arg)
{
    const struct nv_register_fd *p = arg;
    struct rm_file *node = &c->process->files[c->file], *ctl;
    int idx;

    ctl = rm_file_of(c->process, p->ctl_fd, &idx);
    if (!ctl || ctl->kind != RM_FILE_CTL)
        return rm_fail(EINVAL, "REGISTER_FD: file %d is not a control file",
                       p->ctl_fd);
    if (node->ctl >= 0 || node->is_team_member)
        return rm_fail(EINVAL, "REGISTER_FD: this file is %s already",
                       node->ctl >= 0 ? "registered" : "a team's");
    node->ctl = idx;
    return 0;
}

/* lead: only an exact match is one; the reply's number. */
static int
do_check_version(struct call *c, void *arg)
{
    struct nv_rm_api_version *p = arg;
    const char *version = c->process->machine->abi.version;

    p->versionString[sizeof(p->versionString) - 1] = '\0';
    p->reply = strcmp(p->versionString, version) == 0 ? VERSION_MATCHES : 0;
    snprintf(p->versionString, sizeof(p->versionString), "%s", version);
    return 0;
}

static int
do_sys_params(struct call *c, void *arg)
{
    struct nv_sys_params *p = arg;

    (void)c;
    p->memblock_size = MEMBLOCK_BYTES;
    return 0;
}

static int
do_wait_open(struct call *c, void *arg)
{
    struct nv_wait_open_complete *p = arg;

    (void)c;
    p->rc = 0;
    p->adapterStatus = 0;
    return 0;
}

/* Only events are made on a card's node. A process' root is always of one
 * class. src: NVIDIA/open-gpu-kernel-modules 580.142, RmIoctl */
static int
alloc_object(struct call *c, uint32_t root, uint32_t parent, uint32_t *nv_class,
             uint64_t params, uint32_t *handle, uint32_t *out_status)
{
    const struct rm_file *file = &c->process->files[c->file];
    int ctl = file->kind == RM_FILE_CTL ? c->file : file->ctl;

    if (file->kind != RM_FILE_CTL && *nv_class != NV01_EVENT_OS_EVENT)
        return rm_fail(EINVAL, "RM_ALLOC of class 0x%x on a card's node",
                       *nv_class);
    if (*nv_class == NV01_ROOT || *nv_class == NV01_ROOT_NON_PRIV)
        *nv_class = NV01_ROOT_CLIENT;
    *out_status = (uint32_t)rm_object_alloc(c->process, ctl, root, parent,
                                            *nv_class, params, handle);
    return 0;
}

static int
do_alloc(struct call *c, void *arg)
{
    struct nv_os64 *p = arg;

    return alloc_object(c, p->hRoot, p->hObjectParent, &p->hClass,
                        p->pAllocParms, &p->hObjectNew, &p->status);
}

static int
do_alloc_short(struct call *c, void *arg)
{
    struct nv_os21 *p = arg;

    return alloc_object(c, p->hRoot, p->hObjectParent, &p->hClass,
                        p->pAllocParms, &p->hObjectNew, &p->status);
}

/* One event a file, whoever's it is. src: allocate_os_event */
static int
do_alloc_event(struct call *c, void *arg)
{
    struct nv_alloc_os_event *p = arg;
    struct rm_file *file = rm_file_of(c->process, (int)p->fd, NULL);

    p->Status = RM_OK;
    if (!file || file->event_client)
        p->Status = (uint32_t)rm_refuse(RM_INSUFFICIENT_RESOURCES,
                                        "file %d is not open, or has an event",
                                        (int)p->fd);
    else
        file->event_client = p->hClient;
    return 0;
}

static int
do_free_event(struct call *c, void *arg)
{
    struct nv_free_os_event *p = arg;
    struct rm_file *file = rm_file_of(c->process, (int)p->fd, NULL);

    p->Status = RM_OK;
    if (!file || !p->hClient || file->event_client != p->hClient)
        p->Status = (uint32_t)rm_refuse(
            RM_INVALID_EVENT, "file %d has no such event", (int)p->fd);
    else
        file->event_client = 0;
    return 0;
}

/* The device's memory is not a NUMA node of the machine's. observed: H100,
 * 2026-11-22 */
static int
do_numa_info(struct call *c, void *arg)
{
    struct nv_numa_info *p = arg;

    (void)c;
    memset(p, 0, sizeof(*p));
    p->nid = -1;
    p->memblock_size = MEMBLOCK_BYTES;
    return 0;
}

static int
do_free(struct call *c, void *arg)
{
    struct nv_os00 *p = arg;
    struct rm_client *client = rm_client_find(c->process, c->file, p->hRoot);
    struct rm_object *object = client ? rm_find(client, p->hObjectOld) : NULL;

    p->status = RM_OK;
    if (!client)
        p->status = (uint32_t)rm_refuse(RM_INVALID_CLIENT,
                                        "no client 0x%x was made on this file",
                                        p->hRoot);
    else if (!object) /* which is not an error. src: serverFreeResourceTree */
        LOG(LOG_IOCTL, "simulated kernel: RM_FREE: client 0x%x has no 0x%x",
            p->hRoot, p->hObjectOld);
    else
        rm_object_free(object);
    return 0;
}

static int
do_control(struct call *c, void *arg)
{
    struct nv_os54 *p = arg;

    if (p->flags)
        p->status = (uint32_t)rm_refuse(RM_INVALID_FLAGS, "control flags 0x%x",
                                        p->flags);
    else
        p->status =
            (uint32_t)rm_control(c->process, c->file, p->hClient, p->hObject,
                                 p->cmd, p->params, p->paramsSize);
    return 0;
}

static int
do_alloc_memory(struct call *c, void *arg)
{
    struct nv_os02_fd *p = arg;

    p->params.status = (uint32_t)rm_alloc_memory(c->process, c->file, p);
    return 0;
}

static int
do_map(struct call *c, void *arg)
{
    struct nv_os33_fd *p = arg;

    p->params.status = (uint32_t)rm_map_memory(c->process, c->file, p);
    return 0;
}

static int
do_unmap(struct call *c, void *arg)
{
    struct nv_os34 *p = arg;

    p->status = (uint32_t)rm_unmap_memory(c->process, c->file, p);
    return 0;
}

static int
do_update_mapping(struct call *c, void *arg)
{
    struct nv_os56 *p = arg;

    p->status = (uint32_t)rm_update_mapping(c->process, c->file, p);
    return 0;
}

static int
do_map_dma(struct call *c, void *arg)
{
    struct nv_os46 *p = arg;

    p->status = (uint32_t)rm_map_memory_dma(c->process, c->file, p);
    return 0;
}

static int
do_unmap_dma(struct call *c, void *arg)
{
    struct nv_os47 *p = arg;

    p->status = (uint32_t)rm_unmap_memory_dma(c->process, c->file, p);
    return 0;
}

/* Memory of any client of this program, under a handle below a device of the
 * calling client, which may be another card's; a team's below the client.
 * Forms of one program are one process to the real driver, which goes by the
 * process' number. */
static enum rm_status
dup_object(struct call *c, struct nv_os55 *p)
{
    struct rm_client *to = rm_client_find(c->process, c->file, p->hClient);
    struct rm_client *from = rm_client_any(c->process->machine, p->hClientSrc);
    struct rm_object *parent, *source;

    if (!to || !from)
        return rm_refuse(RM_INVALID_CLIENT, "no client 0x%x",
                         to ? p->hClientSrc : p->hClient);
    source = rm_find(from, p->hObjectSrc);
    if (!source)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "client 0x%x has no object 0x%x", p->hClientSrc,
                         p->hObjectSrc);
    parent = rm_find_kind(to, p->hParent,
                          source->mem && source->mem->team ? RM_KIND_CLIENT
                                                           : RM_KIND_DEVICE);
    if (!parent)
        return rm_refuse(RM_INVALID_OBJECT_PARENT,
                         "0x%x is not a device, of a team's memory the client",
                         p->hParent);
    if (source->kind != RM_KIND_MEMORY)
        return rm_refuse(RM_NOT_SUPPORTED,
                         "an object of class 0x%x is not duplicated",
                         source->nv_class);
    return rm_object_add_memory(to, parent, source->nv_class, source->mem,
                                &p->hObject);
}

static int
do_dup(struct call *c, void *arg)
{
    struct nv_os55 *p = arg;

    p->status = (uint32_t)dup_object(c, p);
    return 0;
}

#define CTL  (1u << RM_FILE_CTL)
#define NODE (1u << RM_FILE_GPU)

static const struct escape {
    uint32_t number;
    uint32_t struct_id;
    uint32_t files; /* 1u << enum rm_file_kind */
    int (*fn)(struct call *c, void *arg);
} escapes[] = {
    {NV_ESC_REGISTER_FD, NV_S_NV_REGISTER_FD, NODE, do_register_fd},
    {NV_ESC_CHECK_VERSION_STR, NV_S_NV_RM_API_VERSION, CTL, do_check_version},
    {NV_ESC_SYS_PARAMS, NV_S_NV_SYS_PARAMS, CTL, do_sys_params},
    {NV_ESC_WAIT_OPEN_COMPLETE, NV_S_NV_WAIT_OPEN_COMPLETE, NODE, do_wait_open},
    {NV_ESC_RM_ALLOC_MEMORY, NV_S_NV_OS02_FD, NODE, do_alloc_memory},
    {NV_ESC_RM_FREE, NV_S_NV_OS00, CTL, do_free},
    {NV_ESC_RM_CONTROL, NV_S_NV_OS54, CTL, do_control},
    {NV_ESC_RM_ALLOC, NV_S_NV_OS64, CTL | NODE, do_alloc},
    {NV_ESC_RM_ALLOC, NV_S_NV_OS21, CTL | NODE, do_alloc_short},
    {NV_ESC_ALLOC_OS_EVENT, NV_S_NV_ALLOC_OS_EVENT, CTL | NODE, do_alloc_event},
    {NV_ESC_FREE_OS_EVENT, NV_S_NV_FREE_OS_EVENT, CTL | NODE, do_free_event},
    {NV_ESC_NUMA_INFO, NV_S_NV_NUMA_INFO, NODE, do_numa_info},
    {NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, NV_S_NV_OS56, CTL,
     do_update_mapping},
    {NV_ESC_RM_DUP_OBJECT, NV_S_NV_OS55, CTL, do_dup},
    {NV_ESC_RM_MAP_MEMORY, NV_S_NV_OS33_FD, CTL, do_map},
    {NV_ESC_RM_UNMAP_MEMORY, NV_S_NV_OS34, CTL, do_unmap},
    {NV_ESC_RM_MAP_MEMORY_DMA, NV_S_NV_OS46, CTL, do_map_dma},
    {NV_ESC_RM_UNMAP_MEMORY_DMA, NV_S_NV_OS47, CTL, do_unmap_dma},
};

/* lead: a list that is too short for the cards fails. */
static int
do_card_info(struct call *c, uint64_t addr, uint32_t size_bytes)
{
    const struct rm_machine *machine = c->process->machine;
    struct nv_card_info infos[CARD_INFO_MAX];
    uint32_t n = size_bytes / (uint32_t)sizeof(infos[0]), i;

    if (size_bytes % sizeof(infos[0]) || n == 0 || n > CARD_INFO_MAX)
        return rm_fail(EINVAL, "CARD_INFO of %u bytes: entries have %zu",
                       size_bytes, sizeof(infos[0]));
    if (n < machine->n_cards)
        return rm_fail(ENOMEM, "CARD_INFO for %u cards, there are %u", n,
                       machine->n_cards);
    memset(infos, 0, sizeof(infos));
    for (i = 0; i < machine->n_cards; i++) {
        const struct rm_card *card = &machine->cards[i];
        infos[i].valid = 1;
        infos[i].pci_info.bus = card->bus;
        infos[i].pci_info.vendor_id = PCI_VENDOR;
        infos[i].pci_info.device_id = (uint16_t)machine->chip->pci_device;
        infos[i].gpu_id = card->gpu_id;
        infos[i].reg_address = card->bar0_base;
        infos[i].reg_size = BAR0_BYTES;
        infos[i].fb_address = card->bar1_base;
        infos[i].fb_size = machine->chip->bar1_bytes;
        infos[i].minor_number = card->index;
    }
    if (!rm_user_write(addr, infos, size_bytes))
        return rm_fail(EFAULT, "CARD_INFO at 0x%llx", (unsigned long long)addr);
    return 0;
}

/* The one struct that is large. */
static int
do_export(struct call *c, uint64_t addr, uint32_t size_bytes)
{
    struct rm_machine *machine = c->process->machine;
    struct nv_export_to_dma_buf_fd call;
    uint64_t wire[sizeof(call) / 8];

    if (size_bytes !=
        nv_wire_bytes(&machine->abi, NV_S_NV_EXPORT_TO_DMA_BUF_FD))
        return rm_fail(EINVAL,
                       "EXPORT_TO_DMABUF_FD with %u bytes: not this branch's "
                       "size",
                       size_bytes);
    if (!rm_user_read(wire, addr, size_bytes))
        return rm_fail(EFAULT, "EXPORT_TO_DMABUF_FD at 0x%llx",
                       (unsigned long long)addr);
    memset(&call, 0, sizeof(call));
    nv_wire_unpack(&machine->abi, NV_S_NV_EXPORT_TO_DMA_BUF_FD, wire, &call);
    call.status = (uint32_t)rm_export_dmabuf(c->process, c->file, &call);
    nv_wire_pack(&machine->abi, NV_S_NV_EXPORT_TO_DMA_BUF_FD, &call, wire);
    if (!rm_user_write(addr, wire, size_bytes))
        return rm_fail(EFAULT, "EXPORT_TO_DMABUF_FD at 0x%llx",
                       (unsigned long long)addr);
    return 0;
}

static const struct escape *
rm_find_escape(const struct rm_machine *machine, uint32_t number,
               uint32_t size_bytes, bool *out_known)
{
    size_t i;

    *out_known = false;
    for (i = 0; i < ARRAY_LEN(escapes); i++) {
        const struct kio_struct *desc =
            nv_struct(machine->abi.branch, escapes[i].struct_id);
        if (escapes[i].number != number || !desc)
            continue;
        *out_known = true;
        if (desc->size_bytes == size_bytes)
            return &escapes[i];
    }
    return NULL;
}

static int
call_escape(struct call *c, uint32_t number, uint64_t addr, uint32_t size_bytes)
{
    const struct rm_machine *machine = c->process->machine;
    uint64_t wire[72], newest[72]; /* all of these structs are small */
    bool known;
    const struct escape *e =
        rm_find_escape(machine, number, size_bytes, &known);
    int result;

    if (!e)
        return rm_fail(EINVAL,
                       known ? "escape 0x%x with %u bytes: not this "
                               "branch's size"
                             : "escape 0x%x (%u bytes) is not known",
                       number, size_bytes);
    if (!(e->files & 1u << c->process->files[c->file].kind))
        return rm_fail(EINVAL, "escape 0x%x on a file of the wrong kind",
                       number);
    if (size_bytes > sizeof(wire) || !rm_user_read(wire, addr, size_bytes))
        return rm_fail(EFAULT, "argument of escape 0x%x at 0x%llx", number,
                       (unsigned long long)addr);
    nv_wire_unpack(&machine->abi, e->struct_id, wire, newest);
    result = e->fn(c, newest);
    nv_wire_pack(&machine->abi, e->struct_id, newest, wire);
    if (!rm_user_write(addr, wire, size_bytes))
        return rm_fail(EFAULT, "argument of escape 0x%x at 0x%llx", number,
                       (unsigned long long)addr);
    return result;
}

static int
do_escape(struct call *c, uint32_t number, uint64_t addr, uint32_t size_bytes)
{
    if (number == NV_ESC_EXPORT_TO_DMABUF_FD)
        return c->process->files[c->file].kind == RM_FILE_GPU
                   ? do_export(c, addr, size_bytes)
                   : rm_fail(EINVAL, "EXPORT_TO_DMABUF_FD not on a node");
    if (number != NV_ESC_CARD_INFO)
        return call_escape(c, number, addr, size_bytes);
    if (c->process->files[c->file].kind != RM_FILE_CTL)
        return rm_fail(EINVAL, "CARD_INFO on a card's node");
    return do_card_info(c, addr, size_bytes);
}

int
rm_ioctl(struct rm_process *process, int file, unsigned long request, void *arg)
{
    struct call c = {process, file};
    uint32_t number = REQUEST_NR(request), size_bytes = REQUEST_SIZE(request);
    struct nv_xfer xfer;

    assert(file >= 0 && (size_t)file < process->n_files);
    if (process->files[file].kind == RM_FILE_UVM)
        return rm_uvm_ioctl(process, file, request, arg);
    if (REQUEST_TYPE(request) != REQUEST_KIND || request > UINT32_MAX ||
        REQUEST_DIR(request) != DIR_READ_WRITE)
        return rm_fail(EINVAL, "request 0x%lx is not one of this driver's",
                       request);
    if (number != NV_ESC_IOCTL_XFER_CMD)
        return do_escape(&c, number, (uintptr_t)arg, size_bytes);
    if (size_bytes != sizeof(xfer))
        return rm_fail(EINVAL, "XFER of %u bytes", size_bytes);
    if (!rm_user_read(&xfer, (uintptr_t)arg, sizeof(xfer)))
        return rm_fail(EFAULT, "XFER at %p", arg);
    if (xfer.cmd == NV_ESC_IOCTL_XFER_CMD)
        return rm_fail(EINVAL, "XFER within XFER");
    return do_escape(&c, xfer.cmd, xfer.ptr, xfer.size);
}
