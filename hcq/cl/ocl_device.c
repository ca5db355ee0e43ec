/* The OpenCL device: opening it, its memory and addresses. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/cl/ocl.h"
#include "ioctl/kio.h"

/* Where the device is the host's processor, who spins takes from it. */
#define SPIN_HOST_NS 20000u

#define HOST_ALIGN 4096u

/* ---- addresses ---- */

static uint64_t
slot_va(uint32_t number)
{
    assert(number < OCL_CHUNKS * OCL_CHUNK_SLOTS);
    return OCL_VA_BIT | (uint64_t)number << OCL_OFFSET_BITS;
}

static struct ocl_buffer *
slot_at(struct ocl_device *dev, uint64_t number)
{
    struct ocl_buffer *chunk;

    if (number >= (uint64_t)OCL_CHUNKS * OCL_CHUNK_SLOTS)
        return NULL;
    chunk = atomic_load_explicit(&dev->chunks[number / OCL_CHUNK_SLOTS],
                                 memory_order_acquire);
    return chunk ? &chunk[number % OCL_CHUNK_SLOTS] : NULL;
}

static uint32_t
number_of(uint64_t va)
{
    assert(va & OCL_VA_BIT);
    return (uint32_t)((va & ~OCL_VA_BIT) >> OCL_OFFSET_BITS);
}

struct ocl_buffer *
ocl_lookup(struct ocl_device *dev, uint64_t va, uint64_t size_bytes,
           uint64_t *out_offset)
{
    uint64_t offset = va & ((1ull << OCL_OFFSET_BITS) - 1);
    struct ocl_buffer *buf;

    if (va >> 62 != 1)
        return NULL;
    buf = slot_at(dev, number_of(va));
    if (!buf || !buf->mem || offset > buf->size_bytes ||
        size_bytes > buf->size_bytes - offset)
        return NULL;
    *out_offset = offset;
    return buf;
}

/* Takes a number for a buffer, whose fields are then filled in. */
static bell_status
take_slot(struct ocl_device *dev, uint32_t *out_number)
{
    struct ocl_buffer *chunk, *buf = NULL;
    uint32_t number = 0;

    pthread_mutex_lock(&dev->slot_lock);
    if (dev->free_slot) {
        number = dev->free_slot - 1;
        buf = slot_at(dev, number);
        assert(!buf->is_taken);
        dev->free_slot = buf->next_free;
    } else if (dev->n_slots < OCL_CHUNKS * OCL_CHUNK_SLOTS) {
        number = dev->n_slots;
        buf = slot_at(dev, number);
        if (!buf) {
            chunk = host_calloc(OCL_CHUNK_SLOTS, sizeof(*chunk));
            if (chunk)
                atomic_store_explicit(&dev->chunks[number / OCL_CHUNK_SLOTS],
                                      chunk, memory_order_release);
            buf = chunk;
        }
        dev->n_slots += buf != NULL;
    }
    if (buf)
        *buf =
            (struct ocl_buffer){.is_taken = true, .serial = ++dev->next_serial};
    pthread_mutex_unlock(&dev->slot_lock);
    if (!buf)
        return bell_fail(BELL_E_NO_MEMORY,
                         "%s: out of memory for another buffer",
                         dev->base.info.name);
    *out_number = number;
    return BELL_OK;
}

static void
give_slot(struct ocl_device *dev, uint32_t number)
{
    struct ocl_buffer *buf = slot_at(dev, number);

    pthread_mutex_lock(&dev->slot_lock);
    assert(buf->is_taken);
    *buf = (struct ocl_buffer){.next_free = dev->free_slot};
    dev->free_slot = number + 1;
    pthread_mutex_unlock(&dev->slot_lock);
}

/* ---- memory ---- */

/* The host's view of memory that is not the device's: it is mapped but for the
 * commands that use it. */
static bell_status
map_first(struct ocl_device *dev, const struct ocl_buffer *buf)
{
    cl_int err;
    void *at;

    assert(dev->is_apart && buf->host);
    at = OCL_NEW(&dev->api, &err, clEnqueueMapBuffer, dev->io, buf->mem,
                 CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                 (size_t)buf->size_bytes, 0, NULL, NULL);
    if (err != CL_SUCCESS)
        return ocl_fail(dev->base.info.name, "clEnqueueMapBuffer", err);
    if (at != buf->host)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: memory of the host was mapped elsewhere",
                         dev->base.info.name);
    return BELL_OK;
}

/* A buffer of size_bytes, not 0, that uses `host` if that is not NULL. */
static bell_status
create_buffer(struct ocl_device *dev, uint64_t size_bytes, void *host,
              struct hcq_backing *out)
{
    struct ocl_buffer *buf;
    bell_status status;
    uint32_t number;
    cl_int err;

    assert(size_bytes > 0);
    BELL_TRY(take_slot(dev, &number));
    buf = slot_at(dev, number);
    buf->size_bytes = size_bytes;
    buf->host = host;
    buf->mem = OCL_NEW(&dev->api, &err, clCreateBuffer, dev->context,
                       CL_MEM_READ_WRITE | (host ? CL_MEM_USE_HOST_PTR : 0),
                       (size_t)size_bytes, host);
    if (err != CL_SUCCESS) {
        status = ocl_fail(dev->base.info.name, "clCreateBuffer", err);
        bell_error_prefix("a buffer of %llu bytes",
                          (unsigned long long)size_bytes);
        goto fail_slot;
    }
    if (host && dev->is_apart) {
        status = map_first(dev, buf);
        if (status != BELL_OK)
            goto fail_mem;
    }
    *out = (struct hcq_backing){
        .va = slot_va(number),
        .host = host,
        .size_bytes = size_bytes,
        .priv = number,
    };
    return BELL_OK;

fail_mem:
    dev->api.clReleaseMemObject(buf->mem);
fail_slot:
    give_slot(dev, number);
    return status;
}

static void
destroy_buffer(struct ocl_device *dev, uint32_t number)
{
    struct ocl_buffer *buf = slot_at(dev, number);

    assert(buf->is_taken);
    if (buf->host && buf->mem && dev->is_apart) {
        /* Nothing is to be told of a failure: the memory goes anyway. */
        (void)dev->api.clEnqueueUnmapMemObject(dev->io, buf->mem, buf->host, 0,
                                               NULL, NULL);
        (void)dev->api.clFinish(dev->io);
    }
    if (buf->mem)
        dev->api.clReleaseMemObject(buf->mem);
    give_slot(dev, number);
}

static bell_status
ocl_mem_alloc(struct hcq_device *base, uint64_t size_bytes, uint32_t flags,
              struct hcq_backing *out)
{
    struct ocl_device *dev = ocl_device(base);
    bell_status status;
    void *host = NULL;

    if (flags & HCQ_MEM_HOST_VISIBLE) {
        host = host_aligned(HOST_ALIGN, (size_t)size_bytes);
        if (!host)
            return bell_fail(BELL_E_NO_MEMORY,
                             "%s: out of memory for %llu bytes",
                             base->info.name, (unsigned long long)size_bytes);
    }
    status = create_buffer(dev, size_bytes, host, out);
    if (status != BELL_OK)
        host_free(host);
    return status;
}

static void
ocl_mem_free(struct hcq_device *base, const struct hcq_backing *mem)
{
    if (ocl_device(base)->is_stuck) /* the kernel may use it */
        return;
    destroy_buffer(ocl_device(base), (uint32_t)mem->priv);
    host_free(mem->host);
}

static bell_status
ocl_mem_pin(struct hcq_device *base, void *ptr, uint64_t size_bytes,
            struct hcq_backing *out)
{
    struct ocl_device *dev = ocl_device(base);
    uint32_t number;

    if (size_bytes)
        return create_buffer(dev, size_bytes, ptr, out);
    BELL_TRY(take_slot(dev, &number));
    *out = (struct hcq_backing){
        .va = slot_va(number), .host = ptr, .priv = number};
    return BELL_OK;
}

static void
ocl_mem_unpin(struct hcq_device *base, const struct hcq_backing *mem)
{
    if (ocl_device(base)->is_stuck)
        return;
    destroy_buffer(ocl_device(base), (uint32_t)mem->priv);
}

static bell_status
ocl_mem_peer(struct hcq_device *base, const struct hcq_buffer *of,
             struct hcq_backing *out)
{
    if (!of->host || ocl_device(base)->is_apart)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s cannot see a buffer of %s: OpenCL contexts share "
                         "none but the host's memory",
                         base->info.name, of->dev->info.name);
    return ocl_mem_pin(base, of->host, of->size_bytes, out);
}

static bell_status
no_buffer(const struct ocl_device *dev, uint64_t va, uint64_t size_bytes)
{
    return bell_fail(BELL_BAD_VALUE, "%s: no buffer has %llu bytes at 0x%llx",
                     dev->base.info.name, (unsigned long long)size_bytes,
                     (unsigned long long)va);
}

static bell_status
ocl_mem_write(struct hcq_device *base, uint64_t va, const void *data,
              uint64_t size_bytes)
{
    struct ocl_device *dev = ocl_device(base);
    struct ocl_buffer *buf;
    uint64_t offset;
    cl_int err;

    buf = ocl_lookup(dev, va, size_bytes, &offset);
    if (!buf)
        return no_buffer(dev, va, size_bytes);
    if (buf->host) {
        memcpy((char *)buf->host + offset, data, (size_t)size_bytes);
        return BELL_OK;
    }
    err = OCL(&dev->api, clEnqueueWriteBuffer, dev->io, buf->mem, CL_TRUE,
              (size_t)offset, (size_t)size_bytes, data, 0, NULL, NULL);
    if (err != CL_SUCCESS)
        return ocl_fail(base->info.name, "clEnqueueWriteBuffer", err);
    return BELL_OK;
}

static bell_status
ocl_mem_read(struct hcq_device *base, uint64_t va, void *data,
             uint64_t size_bytes)
{
    struct ocl_device *dev = ocl_device(base);
    struct ocl_buffer *buf;
    uint64_t offset;
    cl_int err;

    buf = ocl_lookup(dev, va, size_bytes, &offset);
    if (!buf)
        return no_buffer(dev, va, size_bytes);
    if (buf->host) {
        memcpy(data, (const char *)buf->host + offset, (size_t)size_bytes);
        return BELL_OK;
    }
    err = OCL(&dev->api, clEnqueueReadBuffer, dev->io, buf->mem, CL_TRUE,
              (size_t)offset, (size_t)size_bytes, data, 0, NULL, NULL);
    if (err != CL_SUCCESS)
        return ocl_fail(base->info.name, "clEnqueueReadBuffer", err);
    return BELL_OK;
}

/* ---- the device ---- */

static void
ocl_release(struct hcq_device *base)
{
    struct ocl_device *dev = ocl_device(base);
    size_t i;

    if (dev->io)
        dev->api.clReleaseCommandQueue(dev->io);
    if (dev->context)
        dev->api.clReleaseContext(dev->context);
    for (i = 0; i < OCL_CHUNKS; i++)
        host_free(atomic_load(&dev->chunks[i]));
    pthread_mutex_destroy(&dev->slot_lock);
    host_free(dev);
}

/* A thread that is still in a call of OpenCL may come back from it, and looks
 * at the device then. */
static void
ocl_close(struct hcq_device *base)
{
    hcq_device_fini(base);
    if (ocl_device(base)->is_stuck)
        LOG(LOG_MEM,
            "%s closed while it runs a kernel that does not end: its "
            "memory is left",
            base->info.name);
    else
        ocl_release(base);
}

/* "fault:7": call 7 fails; "apart": as if memory of the host were not the
 * device's. With commas between them. */
static bell_status
parse_interface(struct ocl_device *dev, const char *text)
{
    const char *at = text;

    while (*at) {
        if (strncmp(at, "fault:", 6) == 0 && at[6] >= '1' && at[6] <= '9') {
            char *end;

            dev->api.fail_at = strtoull(at + 6, &end, 10);
            at = end;
        } else if (strncmp(at, "apart", 5) == 0) {
            dev->is_apart = true;
            at += 5;
        } else {
            break;
        }
        if (*at == '\0')
            return BELL_OK;
        if (*at++ != ',')
            break;
    }
    if (text[0] == '\0')
        return BELL_OK;
    return bell_fail(BELL_E_NO_DEVICE,
                     "CL has no interface '%.40s'; it has fault:N (call N of "
                     "OpenCL fails) and apart",
                     text);
}

static bell_status
ocl_device_open(struct hcq_device *base, unsigned idx, const char *interface)
{
    struct ocl_device *dev = ocl_device(base);
    struct ocl_found found[OCL_FOUND_MAX];
    cl_context_properties props[3] = {CL_CONTEXT_PLATFORM};
    uint32_t n = 0;
    cl_int err;

    BELL_TRY(ocl_api_load(&dev->api));
    BELL_TRY(parse_interface(dev, interface));
    BELL_TRY(ocl_find(&dev->api, found, &n));
    if (idx >= n)
        return bell_fail(BELL_E_NO_DEVICE, "there %s %u of CL",
                         n == 1 ? "is" : "are", n);
    dev->found = found[idx];
    BELL_TRY(ocl_check(&dev->api, dev->found.id));
    BELL_TRY(ocl_fill_info(dev));
    dev->is_apart |= !dev->found.is_host;
    if (dev->found.is_host && base->spin_ns)
        base->spin_ns = SPIN_HOST_NS;
    props[1] = (cl_context_properties)dev->found.platform;
    dev->context = OCL_NEW(&dev->api, &err, clCreateContext, props, 1,
                           &dev->found.id, NULL, NULL);
    if (err != CL_SUCCESS)
        return ocl_fail(base->info.name, "clCreateContext", err);
    dev->io = OCL_NEW(&dev->api, &err, clCreateCommandQueue, dev->context,
                      dev->found.id, 0);
    if (err != CL_SUCCESS)
        return ocl_fail(base->info.name, "clCreateCommandQueue", err);
    BELL_TRY(hcq_device_init(base));
    return BELL_OK;
}

static const struct hcq_device_ops ocl_ops = {
    .close = ocl_close,
    .stop = hcq_feed_stop,
    .resume = hcq_feed_resume,
    .describe = hcq_feed_describe,
    .progress = hcq_feed_progress,
    .mem_alloc = ocl_mem_alloc,
    .mem_free = ocl_mem_free,
    .mem_pin = ocl_mem_pin,
    .mem_unpin = ocl_mem_unpin,
    .mem_peer = ocl_mem_peer,
    .mem_unpeer = ocl_mem_unpin,
    .mem_write = ocl_mem_write,
    .mem_read = ocl_mem_read,
    .signal_alloc = hcq_slot_alloc,
    .signal_free = hcq_slot_free,
    .signal_wake = hcq_slot_signal_wake,
    .signal_help = ocl_signal_help,
    .signal_sleep = hcq_slot_signal_sleep,
    .signal_map = hcq_slot_map,
    .program_create = ocl_program_create,
    .program_destroy = ocl_program_destroy,
    .queue_create = ocl_queue_create,
    .queue_destroy = ocl_queue_destroy,
    .queue_submit = hcq_feed_submit,
    .stream_bind = hcq_feed_stream_bind,
    .stream_unbind = hcq_feed_stream_unbind,
    .stream_submit = hcq_feed_stream_submit,
};

static struct hcq_device *
ocl_alloc(void)
{
    struct ocl_device *dev = host_calloc(1, sizeof(*dev));

    if (!dev)
        return NULL;
    dev->base.ops = &ocl_ops;
    dev->base.timestamp_word = 1;
    pthread_mutex_init(&dev->slot_lock, NULL);
    return &dev->base;
}

static bell_status
ocl_open(unsigned idx, const char *interface, struct hcq_device **out_dev)
{
    static const struct hcq_card_driver driver = {
        .backend = OCL_BACKEND,
        .alloc = ocl_alloc,
        .open = ocl_device_open,
        .release = ocl_release,
    };

    return hcq_card_open(&driver, idx, interface, out_dev);
}

/* ---- which there are ---- */

static bell_status
ocl_enumerate(unsigned idx, struct hcq_device_desc *out)
{
    struct ocl_found found[OCL_FOUND_MAX];
    struct ocl_api api;
    uint32_t n = 0;

    BELL_TRY(ocl_api_load(&api));
    BELL_TRY(ocl_find(&api, found, &n));
    if (idx >= n)
        return BELL_E_NO_DEVICE;
    snprintf(out->name, sizeof(out->name), OCL_BACKEND ":%u", idx);
    BELL_TRY(ocl_text(&api, found[idx].id, CL_DEVICE_NAME, out->description,
                      sizeof(out->description)));
    if (ocl_check(&api, found[idx].id) == BELL_OK)
        out->usable = true;
    else
        snprintf(out->why_not, sizeof(out->why_not), "%.*s",
                 (int)sizeof(out->why_not) - 1, bell_error_last()->message);
    return BELL_OK;
}

/* Whether the kernel knows of a GPU: only then is it worth loading OpenCL to
 * find a default device, which takes tens of milliseconds. */
static bool
has_gpu_node(void)
{
    static const char *const paths[] = {
        "/sys/class/drm/renderD128/uevent", "/sys/class/drm/renderD129/uevent",
        "/sys/class/drm/renderD130/uevent", "/sys/class/drm/renderD131/uevent",
        "/sys/class/misc/mali0/uevent",     "/sys/class/kgsl/kgsl-3d0/uevent",
    };
    struct kio *kio;
    bool found = false;
    char text[256];
    size_t n, i;

    if (kio_sys_create(&kio) != BELL_OK)
        return false;
    for (i = 0; i < ARRAY_LEN(paths) && !found; i++)
        found = kio_read_file(kio, paths[i], text, sizeof(text), &n) == BELL_OK;
    kio_destroy(kio);
    return found;
}

static bool
ocl_stands_back(void)
{
    struct ocl_found found[OCL_FOUND_MAX];
    struct ocl_api api;
    uint32_t n = 0;

    return !has_gpu_node() || ocl_api_load(&api) != BELL_OK ||
           ocl_find(&api, found, &n) != BELL_OK || found[0].is_host;
}

const struct hcq_backend hcq_cl_backend = {
    .name = OCL_BACKEND,
    .interfaces = "fault, apart",
    .has_names = true,
    .stands_back = ocl_stands_back,
    .enumerate = ocl_enumerate,
    .open = ocl_open,
};
