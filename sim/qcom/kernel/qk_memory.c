/* Memory of the simulated kernels for Adreno. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sim/qcom/kernel/qk.h"

#define LINE 64u

/* Place of the first that ends beyond va. */
static size_t
place_of(const struct qk_machine *m, uint64_t va)
{
    size_t lo = 0, hi = m->n_bufs, mid;

    while (lo < hi) {
        mid = (lo + hi) / 2;
        if (m->bufs[mid]->va + m->bufs[mid]->size_bytes <= va)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Addresses that are free, behind those given out last, with an empty page
 * behind them; 0: there are none. */
static uint64_t
find_space(struct qk_machine *m, uint64_t size_bytes, uint64_t align)
{
    uint64_t va = m->next_va;
    bool has_wrapped = false;
    size_t i;

    for (;;) {
        va = (va + align - 1) & ~(align - 1);
        if (va + size_bytes + QK_PAGE > m->va_end) {
            if (has_wrapped)
                return 0;
            has_wrapped = true;
            va = m->va_first;
            continue;
        }
        i = place_of(m, va);
        if (i == m->n_bufs || m->bufs[i]->va >= va + size_bytes + QK_PAGE)
            break;
        va = m->bufs[i]->va + m->bufs[i]->size_bytes + QK_PAGE;
    }
    m->next_va = va + size_bytes + QK_PAGE;
    return va;
}

static int
insert(struct qk_machine *m, struct qk_buf *buf)
{
    size_t at = place_of(m, buf->va);

    if (host_grow((void **)&m->bufs, &m->cap_bufs, m->n_bufs + 1,
                  sizeof(*m->bufs)) != 0)
        return qk_fail(ENOMEM, "no memory for a list of buffers");
    memmove(m->bufs + at + 1, m->bufs + at,
            (m->n_bufs - at) * sizeof(*m->bufs));
    m->bufs[at] = buf;
    m->n_bufs++;
    return 0;
}

static void
free_memory(struct qk_buf *buf)
{
    if (buf->dev && buf->dev != buf->cpu)
        munmap(buf->dev, buf->size_bytes);
    if (buf->cpu && !buf->is_user)
        munmap(buf->cpu, buf->size_bytes);
    if (buf->fd >= 0)
        close(buf->fd);
    host_free(buf);
}

/* For system calls of this process that failed; takes the buffer. */
static int
memory_failed(struct qk_buf *buf, int error)
{
    uint64_t size_bytes = buf->size_bytes;

    free_memory(buf);
    return qk_fail(error, "memory of %llu bytes: %s",
                   (unsigned long long)size_bytes, strerror(error));
}

/* The rest, when the CPU's side is there. Takes the buffer. */
static int
place(struct qk_machine *m, struct qk_buf *buf, uint64_t align,
      bool has_two_sides, struct qk_buf **out_buf)
{
    void *dev = buf->cpu;
    int result;

    if (has_two_sides)
        dev = mmap(NULL, buf->size_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (dev == MAP_FAILED)
        return memory_failed(buf, errno);
    buf->dev = dev;
    if (buf->is_user && has_two_sides)
        memcpy(dev, buf->cpu, buf->size_bytes);
    buf->va = find_space(m, buf->size_bytes, align);
    buf->id = m->next_id++;
    if (!buf->va) {
        free_memory(buf);
        return qk_fail(ENOMEM, "no addresses left");
    }
    result = insert(m, buf);
    if (result == 0 &&
        qsim_space_map(m->space, buf->va, buf->dev, buf->size_bytes,
                       buf->is_read_only) != BELL_OK) {
        m->n_bufs--;
        memmove(m->bufs + place_of(m, buf->va),
                m->bufs + place_of(m, buf->va) + 1,
                (m->n_bufs - place_of(m, buf->va)) * sizeof(*m->bufs));
        result = qk_fail(ENOMEM, "no memory for page tables");
        bell_error_clear();
    }
    if (result < 0) {
        free_memory(buf);
        return result;
    }
    *out_buf = buf;
    return 0;
}

int
qk_alloc(struct qk_machine *m, uint64_t size_bytes, uint64_t align,
         bool has_two_sides, bool is_read_only, struct qk_buf **out_buf)
{
    struct qk_buf *buf = host_calloc(1, sizeof(*buf));
    void *cpu;

    if (!buf)
        return qk_fail(ENOMEM, "no memory for a buffer");
    buf->size_bytes = (size_bytes + QK_PAGE - 1) & ~(uint64_t)(QK_PAGE - 1);
    buf->is_read_only = is_read_only;
    buf->fd = memfd_create("simulated memory", MFD_CLOEXEC);
    if (buf->fd < 0 || ftruncate(buf->fd, (off_t)buf->size_bytes) != 0)
        return memory_failed(buf, errno);
    cpu = mmap(NULL, buf->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
               buf->fd, 0);
    if (cpu == MAP_FAILED)
        return memory_failed(buf, errno);
    buf->cpu = cpu;
    return place(m, buf, align, has_two_sides, out_buf);
}

int
qk_import(struct qk_machine *m, void *host, uint64_t size_bytes,
          bool has_two_sides, bool is_read_only, struct qk_buf **out_buf)
{
    struct qk_buf *buf = host_calloc(1, sizeof(*buf));

    if (!buf)
        return qk_fail(ENOMEM, "no memory for a buffer");
    buf->size_bytes = size_bytes;
    buf->is_read_only = is_read_only;
    buf->is_user = true;
    buf->fd = -1;
    buf->cpu = host;
    return place(m, buf, QK_PAGE, has_two_sides, out_buf);
}

struct qk_buf *
qk_find_buf(struct qk_machine *m, uint32_t id)
{
    size_t i;

    for (i = 0; id && i < m->n_bufs; i++) {
        if (m->bufs[i]->id == id)
            return m->bufs[i];
    }
    (void)qk_fail(EINVAL, "there is no buffer %u", id);
    return NULL;
}

struct qk_buf *
qk_find_va(struct qk_machine *m, uint64_t va)
{
    size_t i = place_of(m, va);

    if (i < m->n_bufs && m->bufs[i]->va <= va)
        return m->bufs[i];
    return NULL;
}

void
qk_drop_buf(struct qk_machine *m, struct qk_buf *buf)
{
    size_t at = place_of(m, buf->va);

    assert(m->bufs[at] == buf);
    qsim_space_unmap(m->space, buf->va, buf->size_bytes);
    m->n_bufs--;
    memmove(m->bufs + at, m->bufs + at + 1,
            (m->n_bufs - at) * sizeof(*m->bufs));
    free_memory(buf);
}

void
qk_sync(struct qk_buf *buf, uint64_t offset, uint64_t size_bytes, bool clean,
        bool invalidate)
{
    uint64_t end = (offset + size_bytes + LINE - 1) / LINE * LINE;

    offset = offset / LINE * LINE;
    end = end < buf->size_bytes ? end : buf->size_bytes;
    if (buf->dev == buf->cpu || offset >= end)
        return;
    if (clean)
        memcpy(buf->dev + offset, buf->cpu + offset, end - offset);
    if (invalidate)
        memcpy(buf->cpu + offset, buf->dev + offset, end - offset);
}
