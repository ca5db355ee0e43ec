/* Larger pages: see kio_pages.h. */
#include "ioctl/kio_pages.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/kfd_uapi.h"
#include "ioctl/kgsl_uapi.h"
#include "ioctl/kio.h"
#include "ioctl/nv_uapi.h"

/* The form. kgsl: the node whose mappings are named by numbers of pages. */
struct pages_kio {
    struct kio kio; /* first */
    _Atomic int kgsl;
};

static _Thread_local const char *refusal; /* of the last call; NULL: none */

static int
refuse(const char *why)
{
    refusal = why;
    return -EINVAL;
}

static const char *
pages_explain(struct kio *kio)
{
    if (refusal)
        return refusal;
    return kio->below->ops->explain ? kio->below->ops->explain(kio->below)
                                    : NULL;
}

static const char *
pages_broken(struct kio *kio)
{
    return kio->below->ops->broken ? kio->below->ops->broken(kio->below) : NULL;
}

static bool
is_whole(const struct kio *kio, uint64_t value)
{
    return value % kio->page_bytes == 0;
}

static int
pages_open(struct kio *kio, const char *path, int flags)
{
    struct pages_kio *pages = (struct pages_kio *)kio;
    int fd = kio->below->ops->open(kio->below, path, flags);

    if (fd >= 0 && strcmp(path, "/dev/kgsl-3d0") == 0)
        atomic_store(&pages->kgsl, fd);
    return fd;
}

static int
pages_close(struct kio *kio, int fd)
{
    struct pages_kio *pages = (struct pages_kio *)kio;

    if (fd == atomic_load(&pages->kgsl))
        atomic_store(&pages->kgsl, -1);
    return kio->below->ops->close(kio->below, fd);
}

/* What the calls that take memory of the caller, or choose an address, say.
 * src: Linux 6.12, amdgpu_amdkfd_gpuvm.c and kfd_chardev.c; kgsl.c of Android's
 * kernels; open-gpu-kernel-modules 580.142, os-mlock.c (os_lock_user_pages) */
static int
check_request(const struct kio *kio, unsigned long request, const void *arg)
{
    const struct kfd_alloc_memory *kfd = arg;
    const struct kgsl_map_user_mem *kgsl = arg;
    const struct nv_os02_fd *nv = arg;

    if (request == KFD_ALLOC_MEMORY) {
        if (!is_whole(kio, kfd->va) || !is_whole(kio, kfd->size_bytes))
            return refuse("memory that is not whole pages");
        if (kfd->flags & KFD_MEM_USERPTR && !is_whole(kio, kfd->mmap_offset))
            return refuse("user memory that does not begin with a page");
    } else if (request == IOCTL_KGSL_MAP_USER_MEM) {
        if (!is_whole(kio, kgsl->hostptr) || !is_whole(kio, kgsl->len))
            return refuse("user memory that is not whole pages");
    } else if (request == _IOWR('F', NV_ESC_RM_ALLOC_MEMORY, *nv)) {
        if (nv->params.hClass == NV01_MEMORY_SYSTEM_OS_DESCRIPTOR &&
            (!is_whole(kio, nv->params.pMemory) ||
             !is_whole(kio, nv->params.limit + 1)))
            return refuse("user memory that is not whole pages");
    }
    return 0;
}

static int
pages_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    int result;

    refusal = NULL;
    result = check_request(kio, request, arg);
    return result ? result
                  : kio->below->ops->ioctl(kio->below, fd, request, arg);
}

/* The kernel below has smaller pages: more is asked for, and what is around the
 * part that begins with a page is given back. */
static int
map_aligned(struct kio *kio, void **addr, size_t size_bytes, int prot,
            int flags)
{
    const struct kio_ops *below = kio->below->ops;
    size_t page = kio->page_bytes, before;
    void *at = NULL;
    int result =
        below->mmap(kio->below, &at, size_bytes + page, prot, flags, -1, 0);

    if (result < 0)
        return result;
    before = align_up((uintptr_t)at, page) - (uintptr_t)at;
    if (before)
        below->munmap(kio->below, at, before);
    *addr = (uint8_t *)at + before;
    if (before < page)
        below->munmap(kio->below, (uint8_t *)*addr + size_bytes, page - before);
    return 0;
}

static int
pages_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
           int fd, uint64_t offset)
{
    refusal = NULL;
    if (!is_whole(kio, offset))
        return refuse("an offset that is not a multiple of the page");
    if (flags & MAP_FIXED && !is_whole(kio, (uintptr_t)*addr))
        return refuse("an address that is not a multiple of the page");
    if (flags & MAP_FIXED && !is_whole(kio, size_bytes))
        return refuse("a part of a page, which would replace the whole");
    if (fd < 0 && !(flags & MAP_FIXED))
        return map_aligned(kio, addr, align_up(size_bytes, kio->page_bytes),
                           prot, flags);
    if (fd == atomic_load(&((struct pages_kio *)kio)->kgsl))
        offset = offset / kio->page_bytes * 4096;
    return kio->below->ops->mmap(kio->below, addr, size_bytes, prot, flags, fd,
                                 offset);
}

static int
pages_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    refusal = NULL;
    return kio->below->ops->munmap(kio->below, addr, size_bytes);
}

static int
pages_poll(struct kio *kio, int fd, short events, int timeout_ms,
           short *out_revents)
{
    return kio->below->ops->poll(kio->below, fd, events, timeout_ms,
                                 out_revents);
}

static int
pages_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    return kio->below->ops->read_file(kio->below, path, buf, cap);
}

static void
pages_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    kio->below->ops->doorbell(kio->below, bell);
}

static void
pages_destroy(struct kio *kio)
{
    host_free(kio);
}

#define PAGES_CALLS                                                            \
    .name = "pages", .destroy = pages_destroy, .open = pages_open,             \
    .close = pages_close, .ioctl = pages_ioctl, .mmap = pages_mmap,            \
    .munmap = pages_munmap, .poll = pages_poll, .read_file = pages_read_file,  \
    .explain = pages_explain, .broken = pages_broken

static const struct kio_ops pages_ops = {PAGES_CALLS};
static const struct kio_ops pages_watching_ops = {PAGES_CALLS,
                                                  .doorbell = pages_doorbell};

bell_status
kio_pages_create(struct kio *below, const char *text, struct kio **out_kio)
{
    unsigned long bytes;
    struct pages_kio *pages;
    char *end;

    bytes = strtoul(text, &end, 10);
    if (*end || !is_pow2(bytes) || bytes < 4096 || bytes > 65536)
        return bell_fail(BELL_E_INVALID,
                         "pages of '%.20s' bytes: 4096 to 65536 are possible",
                         text);
    pages = host_calloc(1, sizeof(*pages));
    if (!pages)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for pages");
    atomic_init(&pages->kgsl, -1);
    pages->kio = (struct kio){
        .ops = below->ops->doorbell ? &pages_watching_ops : &pages_ops,
        .below = below,
        .branch = below->branch,
        .page_bytes = (uint32_t)bytes,
    };
    *out_kio = &pages->kio;
    return BELL_OK;
}
