/* The device: finding and opening it, its memory, its signals, its faults. */
#include "hcq/template/template.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/kio_interface.h"

#define BACKEND "TEMPLATE"
#define NODE    "/dev/template%u"

/* ---- memory -------------------------------------------------------------- */

static bell_status
map_new(struct template_device *dev, uint64_t size_bytes,
        struct template_map *out_args)
{
    *out_args = (struct template_map){
        .size_bytes =
            align_up(size_bytes ? size_bytes : 1, TEMPLATE_PAGE_BYTES),
    };
    BELL_TRY(kio_ioctl(&dev->file, TEMPLATE_MAP, out_args));
    return BELL_OK;
}

bell_status
template_mem_new(struct template_device *dev, uint64_t size_bytes,
                 struct template_mem *out_mem)
{
    struct template_map args;
    bell_status status;
    void *host;

    BELL_TRY(map_new(dev, size_bytes, &args));
    status = kio_mmap(dev->kio, &dev->file, NULL, args.size_bytes,
                      PROT_READ | PROT_WRITE, MAP_SHARED, args.va, &host);
    if (status != BELL_OK) {
        (void)kio_ioctl_give_back(&dev->file, TEMPLATE_UNMAP, &args);
        return status;
    }
    *out_mem = (struct template_mem){args.va, args.size_bytes, host};
    return BELL_OK;
}

void
template_mem_end(struct template_device *dev, const struct template_mem *mem)
{
    struct template_map args = {.va = mem->va};

    if (mem->size_bytes == 0)
        return;
    kio_munmap(dev->kio, mem->host, mem->size_bytes);
    (void)kio_ioctl_give_back(&dev->file, TEMPLATE_UNMAP, &args);
}

static bell_status
template_mem_alloc(struct hcq_device *base, uint64_t size_bytes, uint32_t flags,
                   struct hcq_backing *out)
{
    struct template_device *dev = template_device_of(base);
    struct template_mem mem = {.host = NULL};
    struct template_map args;

    if (flags & HCQ_MEM_HOST_VISIBLE) {
        BELL_TRY(template_mem_new(dev, size_bytes, &mem));
    } else {
        BELL_TRY(map_new(dev, size_bytes, &args));
        mem.va = args.va;
        mem.size_bytes = args.size_bytes;
    }
    *out = (struct hcq_backing){
        .va = mem.va, .host = mem.host, .size_bytes = mem.size_bytes};
    return BELL_OK;
}

static void
template_mem_free(struct hcq_device *base, const struct hcq_backing *mem)
{
    template_mem_end(
        template_device_of(base),
        &(struct template_mem){mem->va, mem->size_bytes, mem->host});
}

static bell_status
template_mem_pin(struct hcq_device *base, void *ptr, uint64_t size_bytes,
                 struct hcq_backing *out)
{
    struct template_map args = {size_bytes, (uintptr_t)ptr, 0};

    BELL_TRY(kio_ioctl(&template_device_of(base)->file, TEMPLATE_MAP, &args));
    *out = (struct hcq_backing){
        .va = args.va, .host = ptr, .size_bytes = size_bytes};
    return BELL_OK;
}

static void
template_mem_unpin(struct hcq_device *base, const struct hcq_backing *mem)
{
    struct template_map args = {.va = mem->va};

    (void)kio_ioctl_give_back(&template_device_of(base)->file, TEMPLATE_UNMAP,
                              &args);
}

static bell_status
template_mem_write(struct hcq_device *base, uint64_t va, const void *data,
                   uint64_t size_bytes)
{
    struct template_move args = {va, (uintptr_t)data, size_bytes, 1};

    BELL_TRY(kio_ioctl(&template_device_of(base)->file, TEMPLATE_MOVE, &args));
    return BELL_OK;
}

static bell_status
template_mem_read(struct hcq_device *base, uint64_t va, void *data,
                  uint64_t size_bytes)
{
    struct template_move args = {va, (uintptr_t)data, size_bytes, 0};

    BELL_TRY(kio_ioctl(&template_device_of(base)->file, TEMPLATE_MOVE, &args));
    return BELL_OK;
}

/* ---- signals: a value, and a time behind it ------------------------------ */

static bell_status
new_signal_page(void *user, struct hcq_signal_page *out_page)
{
    struct template_mem *mem = host_alloc(sizeof(*mem));
    bell_status status;

    if (!mem)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for signals");
    status = template_mem_new(user, HCQ_SIGNAL_PAGE_BYTES, mem);
    if (status != BELL_OK) {
        host_free(mem);
        return status;
    }
    *out_page = (struct hcq_signal_page){mem, mem->va, mem->host};
    return BELL_OK;
}

static void
end_signal_page(void *user, const struct hcq_signal_page *page)
{
    template_mem_end(user, page->mem);
    host_free(page->mem);
}

static bell_status
template_signal_alloc(struct hcq_device *base, uint64_t *out_va,
                      uint64_t **out_host)
{
    return hcq_signal_pages_alloc(template_device_of(base)->signals, out_va,
                                  out_host);
}

static void
template_signal_free(struct hcq_device *base, struct hcq_signal *sig)
{
    hcq_signal_pages_free(template_device_of(base)->signals, sig->va);
}

static bell_status
template_signal_map(struct hcq_device *base, const struct hcq_signal *sig,
                    uint64_t *out_va)
{
    (void)out_va; /* asked for signals of other devices alone */
    return bell_fail(BELL_E_UNSUPPORTED, "%s cannot use a signal of %s",
                     base->info.name, sig->dev->info.name);
}

/* ---- programs ------------------------------------------------------------ */

static bell_status
template_program_create(struct hcq_device *base,
                        const struct hcq_program_desc *desc,
                        struct hcq_program_base **out_prog)
{
    (void)out_prog;
    return bell_fail(BELL_E_UNSUPPORTED, "program '%s': %s runs no kernels",
                     desc->name, base->info.name);
}

static void
template_program_destroy(struct hcq_program_base *prog)
{
    host_free(prog);
}

/* ---- faults -------------------------------------------------------------- */

static struct hcq_queue *
find_queue(struct hcq_device *base, uint32_t id)
{
    struct hcq_queue *queue = hcq_next_queue(base, NULL);

    while (queue && template_queue_of(queue)->id != id)
        queue = hcq_next_queue(base, queue);
    return queue;
}

static void
describe_fault(struct hcq_device *base, uint32_t code, struct hcq_fault *fault)
{
    static const char *const words[] = {
        [TEMPLATE_FAULT_UNMAPPED] = "address not mapped",
        [TEMPLATE_FAULT_MISALIGNED] = "misaligned address",
        [TEMPLATE_FAULT_COMMAND] = "no such command",
        [TEMPLATE_FAULT_CODE] = "no such instruction",
    };
    const struct template_regs *regs = template_device_of(base)->regs;
    struct hcq_queue *queue = find_queue(base, regs->queue);
    char busy[128] = "";
    uint64_t n_groups;

    fault->kind = code == TEMPLATE_FAULT_COMMAND ? HCQ_FAULT_STREAM
                  : code == TEMPLATE_FAULT_CODE  ? HCQ_FAULT_INSTRUCTION
                                                 : HCQ_FAULT_MEMORY;
    fault->va = regs->va;
    fault->first_group = regs->group;
    fault->last_group = regs->group + 1;
    hcq_fault_add(fault, "%s at 0x%llx",
                  code < ARRAY_LEN(words) ? words[code] : "unknown fault",
                  (unsigned long long)regs->va);
    if (!queue)
        return;
    snprintf(fault->queue, sizeof(fault->queue), "%s", queue->name);
    hcq_ring_describe(queue, busy, sizeof(busy));
    if (hcq_ring_find_exec(queue, NULL, fault->program, &n_groups))
        hcq_fault_add(fault, " in '%s'", fault->program);
    hcq_fault_add(fault, " on %s; %s", queue->name, busy);
}

static void
template_check(struct hcq_device *base)
{
    const struct template_regs *regs = template_device_of(base)->regs;
    const char *why = kio_broken(template_device_of(base)->kio);
    uint32_t code = __atomic_load_n(&regs->fault, __ATOMIC_ACQUIRE);
    struct hcq_fault fault = {.kind = HCQ_FAULT_NONE};

    if (hcq_device_is_lost(base))
        return;
    if (why) {
        hcq_device_set_cut_off(base, why);
    } else if (code != TEMPLATE_FAULT_NONE) {
        pthread_mutex_lock(&base->lock);
        describe_fault(base, code, &fault);
        pthread_mutex_unlock(&base->lock);
        hcq_device_set_lost(base, &fault);
    }
}

static bell_status
template_stop(struct hcq_device *base)
{
    BELL_TRY(kio_ioctl(&template_device_of(base)->file, TEMPLATE_RESET, NULL));
    return BELL_OK;
}

/* The card's rings are empty, their counts are 0. */
static void
template_resume(struct hcq_device *base)
{
    struct hcq_queue *queue = NULL;

    while ((queue = hcq_next_queue(base, queue)) != NULL)
        hcq_ring_drop(queue->ring, 0);
}

/* ---- life ---------------------------------------------------------------- */

static const struct hcq_device_ops template_ops;

static void
template_fill_info(struct template_device *dev)
{
    struct hcq_device_info *info = &dev->base.info;
    int i;

    info->flags = HCQ_DEVICE_POLL_MASKS;
    if (dev->kio->is_simulated)
        info->flags |= HCQ_DEVICE_SIMULATED;
    snprintf(info->arch, sizeof(info->arch), "template1");
    snprintf(info->model, sizeof(info->model), "Template accelerator");
    info->n_units = 1;
    for (i = 0; i < 3; i++) {
        info->max_grid[i] = i == 0 ? INT32_MAX : 65535;
        info->max_local[i] = 1;
    }
    info->max_local_total = 1;
    info->memory_bytes = info->max_buffer_bytes = 1u << 30;
    info->timestamp_hz = 1000000000u;
}

static struct hcq_device *
template_device_alloc(void)
{
    struct template_device *dev = host_calloc(1, sizeof(*dev));

    if (!dev)
        return NULL;
    dev->base.ops = &template_ops;
    dev->base.timestamp_word = 1;
    dev->file.fd = -1;
    return &dev->base;
}

static bell_status
template_device_open(struct hcq_device *base, unsigned idx,
                     const char *interface)
{
    static const struct hcq_signal_page_ops signal_ops = {
        .alloc = new_signal_page,
        .release = end_signal_page,
    };
    struct template_device *dev = template_device_of(base);
    char path[32];
    void *regs;

    BELL_TRY(kio_open_interface(BACKEND, interface, &dev->kio));
    snprintf(path, sizeof(path), NODE, idx);
    BELL_TRY(kio_open(dev->kio, path, O_RDWR, &dev->file));
    BELL_TRY(kio_mmap(dev->kio, &dev->file, NULL, TEMPLATE_PAGE_BYTES,
                      PROT_READ | PROT_WRITE, MAP_SHARED, 0, &regs));
    dev->regs = regs;
    template_fill_info(dev);
    BELL_TRY(hcq_signal_pages_create(&signal_ops, dev, &dev->signals));
    BELL_TRY(hcq_device_init(base));
    return BELL_OK;
}

static void
template_device_release(struct hcq_device *base)
{
    struct template_device *dev = template_device_of(base);

    hcq_signal_pages_destroy(dev->signals);
    if (dev->regs)
        kio_munmap(dev->kio, dev->regs, TEMPLATE_PAGE_BYTES);
    kio_close(&dev->file);
    kio_destroy(dev->kio);
    host_free(dev);
}

static void
template_device_close(struct hcq_device *base)
{
    hcq_device_fini(base);
    template_device_release(base);
}

static bell_status
template_open(unsigned idx, const char *interface, struct hcq_device **out_dev)
{
    static const struct hcq_card_driver driver = {
        .backend = BACKEND,
        .alloc = template_device_alloc,
        .open = template_device_open,
        .release = template_device_release,
    };

    return hcq_card_open(&driver, idx, interface, out_dev);
}

/* A card is there if its file can be opened. */
static bell_status
template_enumerate(unsigned idx, struct hcq_device_desc *out)
{
    struct kio_file file = {.fd = -1};
    struct kio *kio;
    bell_status status;
    char path[32];

    BELL_TRY(kio_sys_create(&kio));
    snprintf(path, sizeof(path), NODE, idx);
    status = kio_open(kio, path, O_RDWR, &file);
    kio_close(&file);
    kio_destroy(kio);
    if (status == BELL_E_NO_DEVICE)
        return status;
    snprintf(out->name, sizeof(out->name), BACKEND ":%u", idx);
    snprintf(out->description, sizeof(out->description),
             "Template accelerator");
    out->usable = status == BELL_OK;
    if (!out->usable)
        snprintf(out->why_not, sizeof(out->why_not), "%.150s",
                 bell_error_last()->message);
    return BELL_OK;
}

static const struct hcq_device_ops template_ops = {
    .packet_measure = template_packet_measure,
    .packet_repack = template_stream_repack,
    .close = template_device_close,
    .stop = template_stop,
    .resume = template_resume,
    .describe = hcq_ring_describe_all,
    .check = template_check,
    .mem_alloc = template_mem_alloc,
    .mem_free = template_mem_free,
    .mem_pin = template_mem_pin,
    .mem_unpin = template_mem_unpin,
    .mem_write = template_mem_write,
    .mem_read = template_mem_read,
    .signal_alloc = template_signal_alloc,
    .signal_free = template_signal_free,
    .signal_sleep = hcq_signal_nap,
    .signal_map = template_signal_map,
    .program_create = template_program_create,
    .program_destroy = template_program_destroy,
    .queue_create = template_queue_create,
    .queue_destroy = template_queue_destroy,
    .queue_submit = template_queue_submit,
    .stream_bind = template_stream_bind,
    .stream_unbind = template_stream_unbind,
    .stream_submit = template_stream_submit,
};

const struct hcq_backend hcq_template_backend = {
    .name = BACKEND,
    .interfaces = "sim, record, replay, fault",
    .enumerate = template_enumerate,
    .open = template_open,
};
