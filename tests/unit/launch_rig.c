/* Tests of launches: see launch_rig.h. */
#include "tests/unit/launch_rig.h"

#include <stdlib.h>

__thread struct counts counts;

#define WRAP(kind, result, name, params, args)                                 \
    result __real_##name params;                                               \
    result __wrap_##name params;                                               \
    result __wrap_##name params                                                \
    {                                                                          \
        counts.kind++;                                                         \
        return __real_##name args;                                             \
    }

WRAP(allocations, void *, malloc, (size_t n), (n))
WRAP(allocations, void *, calloc, (size_t n, size_t m), (n, m))
WRAP(allocations, void *, realloc, (void *p, size_t n), (p, n))
WRAP(allocations, void *, aligned_alloc, (size_t a, size_t n), (a, n))
WRAP(locks, int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
WRAP(calls, int, sched_yield, (void), ())

/* Every form of the device's kio counts. */
static struct kio_ops counting_ops;
static const struct kio_ops *real_ops;

static int
count_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    counts.calls++;
    return real_ops->ioctl(kio, fd, request, arg);
}

static int
count_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
           int fd, uint64_t offset)
{
    counts.calls++;
    return real_ops->mmap(kio, addr, size_bytes, prot, flags, fd, offset);
}

static int
count_open(struct kio *kio, const char *path, int flags)
{
    counts.calls++;
    return real_ops->open(kio, path, flags);
}

void
count_kio(struct kio *kio)
{
    real_ops = kio->ops;
    counting_ops = *kio->ops;
    counting_ops.ioctl = count_ioctl;
    counting_ops.mmap = count_mmap;
    counting_ops.open = count_open;
    kio->ops = &counting_ops;
}

void
stop_counting(struct kio *kio)
{
    kio->ops = real_ops;
}

struct rig
open_rig(const char *name)
{
    struct rig r = {.shape = NULL};

    expect_ok(hcq_device_open(name, &r.dev));
    expect_ok(hcq_queue_create(r.dev, HCQ_QUEUE_COMPUTE, &r.queue));
    expect_ok(hcq_queue_create(r.dev, HCQ_QUEUE_COPY, &r.copy));
    expect_ok(hcq_buffer_create(r.dev, 65536, HCQ_MEM_HOST_VISIBLE, &r.out));
    memset(r.out->host, 0, 65536);
    return r;
}

void
close_rig(struct rig *r)
{
    hcq_device_close(r->dev);
}

uint64_t
value_at(const struct rig *r, size_t i)
{
    return ((volatile uint64_t *)r->out->host)[i];
}

struct hcq_signal *
hold(const struct rig *r, struct hcq_queue *queue)
{
    struct hcq_signal *go;
    struct hcq_cs *cs;

    expect_ok(hcq_signal_create(r->dev, 0, &go));
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_wait(cs, go, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    return go;
}
