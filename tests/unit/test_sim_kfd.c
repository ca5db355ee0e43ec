/* sim/amd: the simulated kernel driver and card: a bring-up by hand, launches
 * and copies by hand-written words, what is refused, and what is left over.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "ioctl/kfd_uapi.h"
#include "ioctl/kio.h"
#include "ioctl/kio_interface.h"
#include "sim/amd/sim_amd.h"

#define GTT_FLAGS                                                              \
    (KFD_MEM_GTT | KFD_MEM_WRITABLE | KFD_MEM_EXECUTABLE |                     \
     KFD_MEM_NO_SUBSTITUTE | KFD_MEM_COHERENT | KFD_MEM_UNCACHED |             \
     KFD_MEM_PUBLIC)
#define VRAM_FLAGS                                                             \
    (KFD_MEM_VRAM | KFD_MEM_WRITABLE | KFD_MEM_EXECUTABLE |                    \
     KFD_MEM_NO_SUBSTITUTE | KFD_MEM_PUBLIC)

/* A process on one card. */
struct rig {
    struct kio *kio;
    struct kio_file kfd, drm;
    uint32_t gpu_id;
    uint64_t *doorbells;
    uint32_t signal_event, memory_event, hang_event;
    uint64_t event_page; /* slots of 8 bytes */
};

struct memory {
    uint64_t va, size_bytes, handle;
    uint32_t *cpu;
};

static bell_status
call(struct rig *r, unsigned long request, void *arg)
{
    return kio_ioctl(&r->kfd, request, arg);
}

#define CALL(r, request, arg)                                                  \
    do {                                                                       \
        if (call(r, request, arg) != BELL_OK)                                  \
            fail_msg("%s: %s", #request, bell_error_last()->message);          \
    } while (0)

/* The call fails with a message that contains `part`. */
static void
refused(struct rig *r, unsigned long request, void *arg, const char *part)
{
    assert_int_not_equal(call(r, request, arg), BELL_OK);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("'%s' lacks '%s'", bell_error_last()->message, part);
}

/* ---- memory -------------------------------------------------------------- */

static void *
reserve(struct rig *r, uint64_t size_bytes)
{
    void *at = NULL;

    assert_int_equal(kio_mmap(r->kio, NULL, NULL, size_bytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, 0,
                              &at),
                     BELL_OK);
    return at;
}

static struct memory
allocate(struct rig *r, uint64_t size_bytes, uint32_t flags)
{
    struct memory m = {.size_bytes = size_bytes};
    struct kfd_alloc_memory alloc = {
        .size_bytes = size_bytes, .gpu_id = r->gpu_id, .flags = flags};
    struct kfd_map_memory map = {.gpu_ids = (uintptr_t)&r->gpu_id, .n = 1};
    void *at = reserve(r, size_bytes);

    alloc.va = (uintptr_t)at;
    CALL(r, KFD_ALLOC_MEMORY, &alloc);
    assert_int_equal(kio_mmap(r->kio, &r->drm, at, size_bytes,
                              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                              alloc.mmap_offset, &at),
                     BELL_OK);
    map.handle = m.handle = alloc.handle;
    CALL(r, KFD_MAP_MEMORY, &map);
    assert_int_equal(map.n_done, 1);
    m.va = alloc.va;
    m.cpu = at;
    memset(m.cpu, 0, size_bytes);
    return m;
}

static void
release(struct rig *r, struct memory *m)
{
    struct kfd_map_memory map = {
        .handle = m->handle, .gpu_ids = (uintptr_t)&r->gpu_id, .n = 1};
    struct kfd_free_memory mem = {m->handle};

    CALL(r, KFD_UNMAP_MEMORY, &map);
    CALL(r, KFD_FREE_MEMORY, &mem);
    kio_munmap(r->kio, m->cpu, m->size_bytes);
}

/* ---- bring-up ------------------------------------------------------------ */

static uint32_t
read_number(struct rig *r, const char *path, const char *key)
{
    char text[4096], *at;
    size_t n;

    if (kio_read_file(r->kio, path, text, sizeof(text), &n) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    at = key ? strstr(text, key) : text;
    if (!at)
        fail_msg("%s has no %s", path, key);
    return (uint32_t)strtoul(at + (key ? strlen(key) : 0), NULL, 10);
}

static uint32_t
new_event(struct rig *r, uint32_t type, uint64_t page)
{
    struct kfd_create_event event = {
        .type = type, .auto_reset = 1, .page_offset = page};

    CALL(r, KFD_CREATE_EVENT, &event);
    return event.event_id;
}

static void
open_files(struct rig *r)
{
    assert_int_equal(kio_open(r->kio, "/dev/kfd", O_RDWR, &r->kfd), BELL_OK);
    r->gpu_id = read_number(
        r, "/sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id", NULL);
    assert_int_equal(kio_open(r->kio, "/dev/dri/renderD128", O_RDWR, &r->drm),
                     BELL_OK);
}

/* The first time that the process is there. */
static void
bring_up(struct rig *r)
{
    struct kfd_acquire_vm vm;
    struct kfd_version version;
    struct kfd_runtime_enable enable = {0};
    struct memory page;

    open_files(r);
    CALL(r, KFD_GET_VERSION, &version);
    assert_int_equal(version.major, 1);
    vm.drm_fd = (uint32_t)r->drm.fd;
    vm.gpu_id = r->gpu_id;
    CALL(r, KFD_ACQUIRE_VM, &vm);
    if (version.minor >= 14)
        CALL(r, KFD_RUNTIME_ENABLE, &enable);
    page = allocate(r, 0x8000, GTT_FLAGS);
    r->event_page = page.va;
    r->signal_event = new_event(r, KFD_EVENT_SIGNAL, page.handle);
    r->memory_event = new_event(r, KFD_EVENT_MEMORY, 0);
    r->hang_event = new_event(r, KFD_EVENT_HW_EXCEPTION, 0);
}

/* A process of its own. */
static void
start(struct rig *r, const char *spec)
{
    memset(r, 0, sizeof(*r));
    assert_int_equal(kio_sim_create("AMD", spec, &r->kio), BELL_OK);
    bring_up(r);
}

/* The process exits. */
static void
quit(struct rig *r)
{
    if (r->doorbells)
        kio_munmap(r->kio, r->doorbells, 0x2000);
    kio_close(&r->drm);
    kio_close(&r->kfd);
    kio_destroy(r->kio);
}

/* Closing ends files, and nothing else: the process's exit does. */
static void
stop(struct rig *r)
{
    static const struct sim_amd_usage nothing;
    struct sim_amd_usage before, after;

    if (r->doorbells)
        kio_munmap(r->kio, r->doorbells, 0x2000);
    sim_amd_usage(r->kio, &before);
    assert_int_equal(before.files, 2);
    kio_close(&r->drm);
    kio_close(&r->kfd);
    sim_amd_usage(r->kio, &after);
    assert_true(after.spaces && after.buffers && after.events);
    before.files = before.processes = 0;
    assert_memory_equal(&before, &after, sizeof(before));
    kio_destroy(r->kio);
    sim_amd_usage_all(&after);
    assert_memory_equal(&after, &nothing, sizeof(after));
}

/* ---- queues -------------------------------------------------------------- */

struct queue {
    struct memory ring, pointers, eop, save;
    uint32_t id;
    uint64_t put;
    uint64_t *doorbell, *wptr, *rptr;
};

/* Sizes of the save area of the simulated chips, by the formulas. */
static void
save_sizes(bool gfx9, uint32_t *stack, uint32_t *save, uint64_t *total)
{
    uint64_t cu = gfx9 ? 4 : 8, xcc = gfx9 ? 4 : 1;
    uint64_t waves = gfx9 ? 160 : cu * 32;
    uint64_t data =
        cu * ((gfx9 ? 0x80000 : 0x60000) + 0x4000 + 0x10000 + 0x1000);

    data = (data + 4095) & ~4095ull;
    *stack = (uint32_t)(40 + waves * (gfx9 ? 8 : 12) + 8 + 4095) & ~4095u;
    *save = *stack + (uint32_t)data;
    *total = ((*save + ((waves * 32 + 63) & ~63ull)) * xcc + 4095) & ~4095ull;
}

static struct kfd_create_queue
queue_args(struct rig *r, struct queue *q, uint32_t type, bool gfx9)
{
    struct kfd_create_queue args = {
        .gpu_id = r->gpu_id, .type = type, .percentage = 100, .priority = 7};
    uint64_t total;

    q->ring = allocate(r, 0x4000, GTT_FLAGS);
    q->pointers = allocate(r, 4096, GTT_FLAGS);
    q->wptr = (uint64_t *)(void *)(q->pointers.cpu + 56 / 4);
    q->rptr = (uint64_t *)(void *)(q->pointers.cpu + 128 / 4);
    args.ring_va = q->ring.va;
    args.ring_bytes = 0x4000;
    args.wptr_va = q->pointers.va + 56;
    args.rptr_va = q->pointers.va + 128;
    if (type == KFD_QUEUE_SDMA)
        return args;
    save_sizes(gfx9, &args.control_stack_bytes, &args.save_bytes, &total);
    q->eop = allocate(r, 4096, VRAM_FLAGS);
    q->save = allocate(r, total, VRAM_FLAGS);
    args.eop_va = q->eop.va;
    args.eop_bytes = 4096;
    args.save_va = q->save.va;
    return args;
}

static void
open_queue(struct rig *r, struct queue *q, uint32_t type, bool gfx9)
{
    struct kfd_create_queue args = queue_args(r, q, type, gfx9);
    void *at = NULL;

    CALL(r, KFD_CREATE_QUEUE, &args);
    q->id = args.queue_id;
    q->put = 0;
    if (!r->doorbells) {
        assert_int_equal(kio_mmap(r->kio, &r->kfd, NULL, 0x2000,
                                  PROT_READ | PROT_WRITE, MAP_SHARED,
                                  args.doorbell_offset & ~0x1fffull, &at),
                         BELL_OK);
        r->doorbells = at;
    }
    q->doorbell = r->doorbells + (args.doorbell_offset & 0x1fff) / 8;
}

static void
ring(struct queue *q, uint64_t wptr, uint64_t bell)
{
    __atomic_store_n(q->wptr, wptr, __ATOMIC_RELEASE);
    __atomic_store_n(q->doorbell, bell, __ATOMIC_RELEASE);
}

static void
push(struct queue *q, const uint32_t *words, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        q->ring.cpu[q->put++ % 0x1000] = words[i];
}
#define PUSH(q, ...)                                                           \
    push(q, (const uint32_t[]){__VA_ARGS__},                                   \
         sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

/* Low and high word. */
#define LO(va) (uint32_t)(va)
#define HI(va) (uint32_t)((va) >> 32)

/* Until the word has the value; fails after five seconds. */
static void
await(const uint32_t *word, uint32_t value)
{
    uint64_t until = time_now_ns() + 5000000000ull;
    struct timespec nap = {0, 100000};

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
        if (time_now_ns() > until)
            fail_msg("0x%x, not 0x%x", *word, value);
        nanosleep(&nap, NULL);
    }
}

/* Group i writes i + 42 to word i of what the first argument points to. */
static const uint32_t code_gfx1100[] = {
    0xf4040080, 0xf8000000, 0xbf89fc07, 0x7e02020f, 0x30040282,
    0x4a0202aa, 0xdc6a0000, 0x00020102, 0xbfb00000,
};
static const uint32_t code_gfx942[] = {
    0xc0060100, 0x00000000, 0xbf8cc07f, 0x7e020202, 0x24040282,
    0x680202aa, 0xdc708000, 0x00040102, 0xbf810000,
};

static void
fault_text(struct rig *r, char text[256])
{
    sim_amd_fault_text(r->kio, text, 256);
}

/* Waits for one of the exceptions. */
static struct kfd_event_data
await_event(struct rig *r, uint32_t id)
{
    struct kfd_event_data data = {.event_id = id};
    struct kfd_wait_events wait = {
        .events = (uintptr_t)&data, .n = 1, .timeout_ms = 5000};

    CALL(r, KFD_WAIT_EVENTS, &wait);
    assert_int_equal(wait.result, KFD_WAIT_COMPLETE);
    return data;
}

/* ---- launches ------------------------------------------------------------ */

static void
push_dispatch(struct queue *q, uint64_t code, uint64_t args, uint32_t n_groups)
{
    PUSH(q, 0xc0065800, 0, 0xffffffff, 0xffffffff, 0, 0, 0, 0x0000c3f1);
    PUSH(q, 0xc0027600, 0x20c, LO(code >> 8), HI(code >> 8));
    /* one group of 8 registers; 15 user registers, then the group's x */
    PUSH(q, 0xc0027600, 0x212, 0x60bf0000, 0x0000009e);
    PUSH(q, 0xc0017600, 0x228, 0);
    PUSH(q, 0xc0017600, 0x218, 0);
    PUSH(q, 0xc0027600, 0x240, LO(args), HI(args));
    PUSH(q, 0xc0087600, 0x204, 0, 0, 0, 1, 1, 1, 0, 0);
    PUSH(q, 0xc0031500, n_groups, 1, 1, 0x8005);
    PUSH(q, 0xc0004600, 0x407);
}

static void
test_pm4(void **state)
{
    struct rig r;
    struct queue q = {0};
    struct memory code, args, out;
    uint32_t i;

    (void)state;
    start(&r, "gfx1100");
    open_queue(&r, &q, KFD_QUEUE_PM4, false);
    code = allocate(&r, 4096, VRAM_FLAGS);
    args = allocate(&r, 4096, GTT_FLAGS);
    out = allocate(&r, 4096, GTT_FLAGS);
    memcpy(code.cpu, code_gfx1100, sizeof(code_gfx1100));
    memcpy(args.cpu, &out.va, 8);
    push_dispatch(&q, code.va, args.va, 5);
    /* the value 7 with the flags of docs/hardware/amd-queues.md,
     * "Caches", then a time */
    PUSH(&q, 0xc0064900, 0x0070f514, 0x20000000, LO(out.va + 1024), HI(out.va),
         7, 0, 0);
    PUSH(&q, 0xc0064900, 0x00000514, 0x60000000, LO(out.va + 1032), HI(out.va),
         0, 0, 0);
    PUSH(&q, 0xc0033700, 5u << 8 | 1u << 20, LO(out.va + 1040), HI(out.va), 9);
    ring(&q, q.put, q.put);
    await(out.cpu + 260, 9);
    assert_int_equal(out.cpu[256], 7);
    assert_true(out.cpu[258] != 0);
    for (i = 0; i < 6; i++)
        assert_int_equal(out.cpu[i], i < 5 ? i + 42 : 0);

    /* from an indirect buffer, after a wait that the host ends */
    PUSH(&q, 0xc0053c00, 0x15, LO(out.va + 2048), HI(out.va), 3, 0xffffffff, 4);
    args.cpu[64] = 0xc0033700;
    args.cpu[65] = 5u << 8;
    args.cpu[66] = LO(out.va + 2052);
    args.cpu[67] = HI(out.va);
    args.cpu[68] = 77;
    PUSH(&q, 0xc0023f00, LO(args.va + 256), HI(args.va), 5u | 1u << 23);
    ring(&q, q.put, q.put);
    assert_int_equal(out.cpu[513], 0);
    __atomic_store_n(out.cpu + 512, 3, __ATOMIC_RELEASE);
    await(out.cpu + 513, 77);
    await((const uint32_t *)(const void *)q.rptr, (uint32_t)q.put % 0x1000);
    stop(&r);
}

/* What a wait for the signal says. */
static void
expect_signal(struct rig *r, uint64_t *age, uint32_t want)
{
    struct kfd_event_data data = {.event_id = r->signal_event};
    struct kfd_wait_events wait = {.events = (uintptr_t)&data,
                                   .n = 1,
                                   .timeout_ms =
                                       want == KFD_WAIT_TIMEOUT ? 50 : 20000};

    data.u.last_age = *age;
    CALL(r, KFD_WAIT_EVENTS, &wait);
    *age = data.u.last_age;
    assert_int_equal(wait.result, want);
}

/* A release with a value for an address, an interrupt as selected, an id. */
static void
release_mem(struct queue *q, uint32_t select, uint64_t va, uint32_t value,
            uint32_t id)
{
    PUSH(q, 0xc0064900, 0x00000514, select, LO(va), HI(va), value, 0, id);
    ring(q, q->put, q->put);
    await((const uint32_t *)(const void *)q->rptr, (uint32_t)q->put % 0x1000);
}

/* Who waits is woken by an interrupt that was asked for, after a write to the
 * event's slot; the id only says where the kernel looks first.
 * src: docs/hardware/amd-kernel.md, "Events" */
static void
test_interrupts(void **state)
{
    struct rig r;
    struct queue q = {0}, sdma = {0};
    uint64_t slot, no_age = 0, age = 1;
    struct kfd_event_ref ref;
    struct memory out;

    (void)state;
    start(&r, "gfx1100");
    open_queue(&r, &q, KFD_QUEUE_PM4, false);
    open_queue(&r, &sdma, KFD_QUEUE_SDMA, false);
    out = allocate(&r, 4096, GTT_FLAGS);
    slot = r.event_page + 8ull * r.signal_event;
    ref = (struct kfd_event_ref){r.signal_event, 0};
    expect_signal(&r, &no_age, KFD_WAIT_TIMEOUT);
    expect_signal(&r, &age, KFD_WAIT_TIMEOUT);
    /* an interrupt, and nothing in the slot */
    release_mem(&q, 0x22000000, out.va, 5, r.signal_event);
    expect_signal(&r, &no_age, KFD_WAIT_TIMEOUT);
    /* a write, and no interrupt */
    release_mem(&q, 0x20000000, slot, r.signal_event, r.signal_event);
    expect_signal(&r, &no_age, KFD_WAIT_TIMEOUT);
    /* another write to another slot: the kernel finds what was written */
    release_mem(&q, 0x22000000, out.va, 5, 77);
    expect_signal(&r, &no_age, KFD_WAIT_COMPLETE);
    expect_signal(&r, &no_age, KFD_WAIT_TIMEOUT);
    assert_int_equal(*(uint64_t *)(uintptr_t)slot, UINT64_MAX);
    /* both; it resets itself, but its age has grown */
    release_mem(&q, 0x22000000, slot, r.signal_event, r.signal_event);
    expect_signal(&r, &no_age, KFD_WAIT_COMPLETE);
    expect_signal(&r, &no_age, KFD_WAIT_TIMEOUT);
    expect_signal(&r, &age, KFD_WAIT_COMPLETE);
    assert_int_equal(age, 3);
    expect_signal(&r, &age, KFD_WAIT_TIMEOUT);
    CALL(&r, KFD_SET_EVENT, &ref);
    expect_signal(&r, &age, KFD_WAIT_COMPLETE);
    assert_int_equal(age, 4);
    /* SDMA: a fence, a trap */
    PUSH(&sdma, 0x00030005, LO(slot), HI(slot), r.signal_event, 0x00000006,
         r.signal_event);
    ring(&sdma, sdma.put * 4, sdma.put * 4);
    expect_signal(&r, &age, KFD_WAIT_COMPLETE);
    stop(&r);
    /* before 1.14 there is no age */
    start(&r, "gfx1100,kfd=1.13");
    ref = (struct kfd_event_ref){r.signal_event, 0};
    age = 9;
    expect_signal(&r, &age, KFD_WAIT_TIMEOUT);
    CALL(&r, KFD_SET_EVENT, &ref);
    expect_signal(&r, &age, KFD_WAIT_COMPLETE);
    assert_int_equal(age, 9);
    stop(&r);
}

static void
test_aql(void **state)
{
    struct rig r;
    struct queue q = {0};
    struct memory code, args, out;
    uint32_t i, *w, *kd;

    (void)state;
    start(&r, "gfx942");
    open_queue(&r, &q, KFD_QUEUE_AQL, true);
    for (i = 0; i < 0x4000 / 64; i++)
        q.ring.cpu[16 * i] = 1; /* not valid */
    code = allocate(&r, 4096, VRAM_FLAGS);
    args = allocate(&r, 4096, GTT_FLAGS);
    out = allocate(&r, 4096, GTT_FLAGS);
    memcpy(code.cpu + 64, code_gfx942, sizeof(code_gfx942));
    memcpy(args.cpu, &out.va, 8);
    kd = code.cpu;
    kd[4] = 256;         /* entry, from the descriptor */
    kd[11] = 0;          /* rsrc3 */
    kd[12] = 0x00af0000; /* rsrc1: 8 registers */
    kd[13] = 0x00000084; /* rsrc2: 2 user registers, the group's x */
    kd[14] = 0x0008;
    w = q.ring.cpu;
    w[1] = 64 | 1 << 16;
    w[2] = 1;
    w[3] = 64 * 11;
    w[4] = w[5] = 1;
    memcpy(w + 8, &code.va, 8);
    memcpy(w + 10, &args.va, 8);
    w[0] = 0x1502 | 3 << 16;
    /* a signal, once, by a vendor packet */
    args.cpu[64] = 0xc0002300;
    args.cpu[65] = 0x01000008;
    args.cpu[66] = 0xc0064900;
    args.cpu[67] = 0x00088514;
    args.cpu[68] = 0x20000000;
    args.cpu[69] = LO(out.va + 1024);
    args.cpu[70] = HI(out.va);
    args.cpu[71] = 7;
    w += 16;
    w[1] = 0xc0023f00;
    w[2] = LO(args.va + 256);
    w[3] = HI(args.va);
    w[4] = 10u | 1u << 23;
    w[5] = 10;
    w[0] = 0x1500 | 1 << 16;
    ring(&q, 2, 1);
    await(out.cpu + 256, 7);
    for (i = 0; i < 12; i++)
        assert_int_equal(out.cpu[i], i < 11 ? i + 42 : 0);
    await((const uint32_t *)(const void *)q.rptr, 2);
    assert_int_equal(q.ring.cpu[0], 1);
    stop(&r);
}

static void
test_sdma(void **state)
{
    struct rig r;
    struct queue q = {0};
    struct memory from, to;
    uint32_t i;

    (void)state;
    start(&r, "gfx1100");
    open_queue(&r, &q, KFD_QUEUE_SDMA, false);
    from = allocate(&r, 0x10000, VRAM_FLAGS);
    to = allocate(&r, 0x10000, GTT_FLAGS);
    for (i = 0; i < 0x4000; i++)
        from.cpu[i] = i * 2654435761u;
    PUSH(&q, 0x00000001, 0xefff, 0, LO(from.va + 4), HI(from.va), LO(to.va + 8),
         HI(to.va));
    PUSH(&q, 0x8000000b, LO(to.va + 0xf800), HI(to.va), 0x12345678, 0x3ff);
    PUSH(&q, 0x0000020d, LO(to.va + 0xff00), HI(to.va));
    PUSH(&q, 0x00030005, LO(to.va + 0xff80), HI(to.va), 5);
    ring(&q, q.put * 4, q.put * 4);
    await(to.cpu + 0xff80 / 4, 5);
    assert_memory_equal((char *)to.cpu + 8, (char *)from.cpu + 4, 0xf000);
    assert_int_equal(to.cpu[0xf800 / 4], 0x12345678);
    assert_int_equal(to.cpu[0xfbfc / 4], 0x12345678);
    assert_int_equal(to.cpu[0xfc00 / 4], 0);
    assert_true(to.cpu[0xff00 / 4] != 0);
    stop(&r);
}

/* ---- faults -------------------------------------------------------------- */

static void
test_memory_fault(void **state)
{
    struct rig r;
    struct queue q = {0}, later;
    const struct timespec nap = {0, 5000000};
    struct kfd_event_data data;
    struct kfd_queue_ref ref;
    char text[256];
    int turn;

    (void)state;
    start(&r, "gfx1100");
    open_queue(&r, &q, KFD_QUEUE_SDMA, false);
    PUSH(&q, 0x00030005, 0x12345000, 0, 5);
    ring(&q, q.put * 4, q.put * 4);
    data = await_event(&r, r.memory_event);
    assert_int_equal(data.u.memory.va, 0x12345000);
    assert_int_equal(data.u.memory.not_present, 1);
    assert_int_equal(data.u.memory.gpu_id, r.gpu_id);
    fault_text(&r, text);
    assert_non_null(strstr(text, "write at 0x12345000"));
    /* A second one in the process is not told again, with or without the
     * first: queues are made, and none runs. */
    for (turn = 0; turn < 3; turn++) {
        if (turn == 1) {
            ref.queue_id = q.id;
            CALL(&r, KFD_DESTROY_QUEUE, &ref);
        }
        memset(&later, 0, sizeof(later));
        open_queue(&r, &later, KFD_QUEUE_SDMA, false);
        PUSH(&later, 0x00030005, LO(later.pointers.va + 1024),
             HI(later.pointers.va), 5);
        ring(&later, later.put * 4, later.put * 4);
        nanosleep(&nap, NULL);
        assert_int_not_equal(later.pointers.cpu[256], 5);
        ref.queue_id = later.id;
        CALL(&r, KFD_DESTROY_QUEUE, &ref);
    }
    stop(&r);
    /* another process */
    start(&r, "gfx1100");
    memset(&q, 0, sizeof(q));
    open_queue(&r, &q, KFD_QUEUE_SDMA, false);
    PUSH(&q, 0x00030005, LO(q.pointers.va + 1024), HI(q.pointers.va), 5);
    ring(&q, q.put * 4, q.put * 4);
    await(q.pointers.cpu + 256, 5);
    stop(&r);
}

/* Until the card says so; fails after five seconds. */
static void
await_text(struct rig *r, const char *part)
{
    uint64_t until = time_now_ns() + 5000000000ull;
    struct timespec nap = {0, 100000};
    char text[256];

    do {
        fault_text(r, text);
        if (strstr(text, part))
            return;
        nanosleep(&nap, NULL);
    } while (time_now_ns() < until);
    fail_msg("'%s' lacks '%s'", text, part);
}

/* Which of the events are set: bit 0 the signal, 1 memory, 2 hardware. */
static unsigned
events_set(struct rig *r)
{
    const uint32_t ids[] = {r->signal_event, r->memory_event, r->hang_event};
    unsigned set = 0, i;

    for (i = 0; i < 3; i++) {
        struct kfd_event_data data = {.event_id = ids[i]};
        struct kfd_wait_events wait = {.events = (uintptr_t)&data, .n = 1};

        CALL(r, KFD_WAIT_EVENTS, &wait);
        set |= (unsigned)(wait.result == KFD_WAIT_COMPLETE) << i;
    }
    return set;
}

/* A queue and a submission to it, whose end writes 5 into the returned word. */
static const uint32_t *
submit_fence(struct rig *r, struct queue *q)
{
    if (!q->doorbell)
        open_queue(r, q, KFD_QUEUE_SDMA, false);
    PUSH(q, 0x00030005, LO(q->pointers.va + 1024), HI(q->pointers.va), 5);
    ring(q, q->put * 4, q->put * 4);
    return q->pointers.cpu + 256;
}

/* Memory of one state in another, at the same address. */
static struct memory
hand_over(struct rig *from, struct rig *to, const struct memory *m)
{
    struct kfd_export_dmabuf export = {.handle = m->handle};
    struct kfd_import_dmabuf import = {.va = m->va, .gpu_id = to->gpu_id};
    struct kfd_map_memory map = {.gpu_ids = (uintptr_t)&to->gpu_id, .n = 1};
    struct kio_file file = {.kio = from->kio};
    struct memory moved = *m;

    CALL(from, KFD_EXPORT_DMABUF, &export);
    import.fd = export.fd;
    CALL(to, KFD_IMPORT_DMABUF, &import);
    file.fd = (int)export.fd;
    kio_close(&file);
    map.handle = moved.handle = import.handle;
    CALL(to, KFD_MAP_MEMORY, &map);
    return moved;
}

/* From KFD 1.19 on a fresh file can have a process state of its own: after a
 * fault of the first it runs, with the first one's memory, and it ends with the
 * file. It takes no memory of the user's. */
static void
test_secondary(void **state)
{
    struct rig r, s = {0};
    struct sim_amd_usage before, after;
    struct kfd_alloc_memory user = {
        .size_bytes = 4096, .flags = KFD_MEM_USERPTR | KFD_MEM_WRITABLE};
    struct kfd_acquire_vm vm;
    struct queue bad = {0}, q = {0};
    struct memory vram, moved, page;
    int turn;

    (void)state;
    start(&r, "gfx1100,kfd=1.18");
    refused(&r, KFD_CREATE_PROCESS, NULL, "no CREATE_PROCESS");
    stop(&r);
    start(&r, "gfx1100,kfd=1.19");
    vram = allocate(&r, 8192, VRAM_FLAGS);
    vram.cpu[2047] = 7;
    open_queue(&r, &bad, KFD_QUEUE_SDMA, false);
    PUSH(&bad, 0x00030005, 0x12345000, 0, 5);
    ring(&bad, bad.put * 4, bad.put * 4);
    (void)await_event(&r, r.memory_event);
    sim_amd_usage(r.kio, &before);
    for (turn = 0; turn < 3; turn++) {
        s = (struct rig){.kio = r.kio};
        memset(&q, 0, sizeof(q));
        open_files(&s);
        CALL(&s, KFD_CREATE_PROCESS, NULL);
        refused(&s, KFD_CREATE_PROCESS, NULL, "already");
        vm.drm_fd = (uint32_t)s.drm.fd;
        vm.gpu_id = s.gpu_id;
        CALL(&s, KFD_ACQUIRE_VM, &vm);
        user.gpu_id = s.gpu_id;
        refused(&s, KFD_ALLOC_MEMORY, &user, "secondary");
        assert_int_equal(bell_error_last()->sys_errno, EOPNOTSUPP);
        page = allocate(&s, 0x8000, GTT_FLAGS);
        s.event_page = page.va;
        s.signal_event = new_event(&s, KFD_EVENT_SIGNAL, page.handle);
        assert_int_equal(s.signal_event, r.signal_event);
        moved = hand_over(&r, &s, &vram);
        open_queue(&s, &q, KFD_QUEUE_SDMA, false);
        PUSH(&q, 0x00030005, LO(moved.va + 4), HI(moved.va), 5 + turn);
        ring(&q, q.put * 4, q.put * 4);
        await(vram.cpu + 1, 5 + (uint32_t)turn);
        assert_int_equal(vram.cpu[2047], 7);
        kio_munmap(s.kio, s.doorbells, 0x2000);
        kio_close(&s.drm);
        kio_close(&s.kfd);
        sim_amd_usage(r.kio, &after);
        assert_memory_equal(&before, &after, sizeof(before));
    }
    stop(&r);
}

/* With `waits=block` a queue in a plain wait is not preempted, and the card is
 * reset where the kernel has to: up to gfx10 for every queue that comes or
 * goes, from gfx11 on for its own end. The preemptable wait is. */
static void
test_waits_block(void **state)
{
    static const struct {
        const char *spec;
        uint32_t info;
        bool blocks_others, blocks_itself;
    } rows[] = {
        {"gfx1030,waits=block", 0x13, true, true},
        {"gfx1030,waits=block", 0xd3, false, false},
        {"gfx1100,waits=block", 0x13, false, true},
        {"gfx1100,waits=block", 0xd3, false, false},
        {"gfx1030", 0x13, false, false},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct queue q = {0}, other = {0};
        struct kfd_create_queue args;
        struct kfd_queue_ref ref;
        struct kfd_clock_counters before = {0}, after = {0};
        struct rig r;

        start(&r, rows[i].spec);
        before.gpu_id = after.gpu_id = r.gpu_id;
        open_queue(&r, &q, KFD_QUEUE_PM4, false);
        args = queue_args(&r, &other, KFD_QUEUE_SDMA, false);
        CALL(&r, KFD_CREATE_QUEUE, &args); /* none waits yet */
        PUSH(&q, 0xc0033700, 0x00100500, LO(q.pointers.va + 1028),
             HI(q.pointers.va), 5); /* it has begun */
        PUSH(&q, 0xc0053c00, rows[i].info, LO(q.pointers.va + 1024),
             HI(q.pointers.va), 7, 0xffffffff, 4);
        ring(&q, q.put, q.put);
        await(q.pointers.cpu + 257, 5);
        CALL(&r, KFD_GET_CLOCKS, &before);
        memset(&other, 0, sizeof(other));
        args = queue_args(&r, &other, KFD_QUEUE_SDMA, false);
        if (rows[i].blocks_others) {
            refused(&r, KFD_CREATE_QUEUE, &args, "not preempted");
            assert_int_equal(bell_error_last()->sys_errno, ETIME);
            assert_int_equal(await_event(&r, r.hang_event).u.hw.memory_lost, 1);
            CALL(&r, KFD_GET_CLOCKS, &after);
            assert_true(after.gpu_clock - before.gpu_clock >= 900000000);
            stop(&r);
            continue;
        }
        CALL(&r, KFD_CREATE_QUEUE, &args);
        assert_int_equal(events_set(&r), 0);
        ref.queue_id = q.id;
        if (rows[i].blocks_itself) {
            refused(&r, KFD_DESTROY_QUEUE, &ref, "not preempted");
            assert_int_equal(events_set(&r), 4);
        } else {
            CALL(&r, KFD_DESTROY_QUEUE, &ref);
            assert_int_equal(events_set(&r), 0);
        }
        stop(&r);
    }
}

/* The second submission resets the card: every process with it is told, stays
 * evicted, and has lost what was in its memory; one that begins later has all
 * of it. */
static void
test_reset(void **state)
{
    static const char spec[] = "gfx1100,reset=2";
    const struct timespec nap = {0, 5000000};
    struct queue q[2] = {{.id = 0}}, later[3] = {{.id = 0}};
    struct rig r[2], next;
    struct memory vram, host;
    const uint32_t *word;
    int i;

    (void)state;
    for (i = 0; i < 2; i++)
        start(&r[i], spec);
    vram = allocate(&r[0], 8192, VRAM_FLAGS);
    host = allocate(&r[0], 8192, GTT_FLAGS);
    vram.cpu[2047] = host.cpu[2047] = 7;
    await(submit_fence(&r[0], &q[0]), 5);
    assert_int_equal(events_set(&r[0]), 0);
    word = submit_fence(&r[1], &q[1]);
    for (i = 0; i < 2; i++) {
        struct kfd_event_data data = await_event(&r[i], r[i].hang_event);

        assert_int_equal(data.u.hw.memory_lost, 1);
        assert_int_equal(data.u.hw.reset_cause, 0);
        assert_int_equal(data.u.hw.gpu_id, r[i].gpu_id);
        assert_int_equal(events_set(&r[i]), 0);
        (void)submit_fence(&r[i], &later[i]);
    }
    nanosleep(&nap, NULL);
    assert_int_equal(*word, 0);
    for (i = 0; i < 2; i++)
        assert_int_not_equal(later[i].pointers.cpu[256], 5);
    assert_int_equal(vram.cpu[2047], 0xdbdbdbdb);
    assert_int_equal(host.cpu[2047], 7);
    start(&next, spec);
    await(submit_fence(&next, &later[2]), 5);
    for (i = 0; i < 2; i++)
        quit(&r[i]);
    stop(&next);
}

/* A packet that ends a queue with a text: nobody is told, the queue stands, and
 * destroying it works; the process's others run. */
static void
bad_packet(const char *spec, uint32_t type, const uint32_t *words, size_t n,
           const char *part)
{
    struct rig r;
    struct queue q = {0};
    struct kfd_queue_ref ref;
    uint64_t unit = type == KFD_QUEUE_SDMA ? 4 : 1;

    start(&r, spec);
    open_queue(&r, &q, type, false);
    push(&q, words, n);
    ring(&q, q.put * unit, q.put * unit);
    await_text(&r, part);
    assert_int_equal(events_set(&r), 0);
    ref.queue_id = q.id;
    CALL(&r, KFD_DESTROY_QUEUE, &ref);
    memset(&q, 0, sizeof(q));
    open_queue(&r, &q, KFD_QUEUE_SDMA, false);
    PUSH(&q, 0x00030005, LO(q.pointers.va + 1024), HI(q.pointers.va), 5);
    ring(&q, q.put * 4, q.put * 4);
    await(q.pointers.cpu + 256, 5);
    stop(&r);
}
#define BAD(type, part, ...)                                                   \
    bad_packet("gfx1100", type, (const uint32_t[]){__VA_ARGS__},               \
               sizeof((const uint32_t[]){__VA_ARGS__}) / 4, part)

static void
test_bad_packets(void **state)
{
    (void)state;
    BAD(KFD_QUEUE_PM4, "not of type 3", 0x12345678);
    BAD(KFD_QUEUE_PM4, "opcode 0x77", 0xc0007700, 0);
    BAD(KFD_QUEUE_PM4, "reserved", 0xc0001001, 0);
    BAD(KFD_QUEUE_PM4, "body words", 0xc0021500, 1, 1, 1);
    BAD(KFD_QUEUE_PM4, "register 0x2e24", 0xc0017600, 0x224, 0);
    BAD(KFD_QUEUE_PM4, "valid bit", 0xc0023f00, 0x1000, 0, 4);
    BAD(KFD_QUEUE_PM4, "outside of", 0xc0002300, 0x01000001);
    BAD(KFD_QUEUE_PM4, "submitted", 0xc0011500, 1);
    BAD(KFD_QUEUE_SDMA, "not known", 0x00000003);
    BAD(KFD_QUEUE_SDMA, "are left", 0x00000005, 0);
    BAD(KFD_QUEUE_SDMA, "memory type", 0x00000005, 0x1000, 0, 1);
    BAD(KFD_QUEUE_SDMA, "gives up", 0xd0000008, 0x1000, 0, 1, 1, 4);
}

/* A compute queue that asked for it is told why it was stopped: the header of
 * the save area, through the process's own mapping, says where and by which
 * event. A copy queue is not, nor is what only a simulator looks at told. */
static void
test_exceptions(void **state)
{
    static const struct {
        const char *spec;
        uint32_t type, mode;
        bool is_mapped; /* the save area, for the CPU */
        uint32_t words[16], n;
        const char *part;
        uint64_t want;
    } rows[] = {
        {"gfx1100",
         KFD_QUEUE_PM4,
         1,
         true,
         {0xc0007700, 0},
         2,
         "opcode 0x77",
         1u << 19},
        {"gfx1100",
         KFD_QUEUE_PM4,
         3,
         true,
         {0xc0007700, 0},
         2,
         "opcode 0x77",
         1u << 19},
        {"gfx1100",
         KFD_QUEUE_PM4,
         0,
         true,
         {0xc0007700, 0},
         2,
         "opcode 0x77",
         0},
        {"gfx1100",
         KFD_QUEUE_PM4,
         1,
         false,
         {0xc0007700, 0},
         2,
         "opcode 0x77",
         0},
        {"gfx1100", KFD_QUEUE_PM4, 1, true, {0xc0001001, 0}, 2, "reserved", 0},
        {"gfx1100", KFD_QUEUE_SDMA, 1, true, {3}, 1, "not known", 0},
        {"gfx942", KFD_QUEUE_AQL, 1, true, {9}, 16, "type 9", 1u << 19},
        {"gfx942", KFD_QUEUE_AQL, 1, true, {2}, 16, "setup 0x0", 1u << 15},
        {"gfx942", KFD_QUEUE_AQL, 1, true, {0}, 16, "format 0", 1u << 22},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t unit = rows[i].type == KFD_QUEUE_SDMA ? 4 : 1, put, word;
        struct kfd_runtime_enable enable = {.mode = rows[i].mode};
        struct queue q = {0};
        struct rig r;

        start(&r, rows[i].spec);
        CALL(&r, KFD_RUNTIME_ENABLE, &enable);
        open_queue(&r, &q, rows[i].type, rows[i].type == KFD_QUEUE_AQL);
        word = q.pointers.va + 3072;
        if (rows[i].type != KFD_QUEUE_SDMA) {
            memcpy(q.save.cpu + 6, &word, 8);
            q.save.cpu[8] = r.signal_event;
        }
        if (!rows[i].is_mapped)
            assert_int_equal(mprotect(q.save.cpu, 4096, PROT_NONE), 0);
        q.pointers.cpu[3072 / 4 + 1] = 0x8; /* what is there stays */
        push(&q, rows[i].words, rows[i].n);
        put = rows[i].type == KFD_QUEUE_AQL ? q.put / 16 : q.put * unit;
        ring(&q, put, rows[i].type == KFD_QUEUE_AQL ? put - 1 : put);
        await_text(&r, rows[i].part);
        if (rows[i].want)
            await(q.pointers.cpu + 3072 / 4, (uint32_t)rows[i].want);
        assert_int_equal(q.pointers.cpu[3072 / 4], rows[i].want);
        assert_int_equal(q.pointers.cpu[3072 / 4 + 1], 0x8);
        assert_int_equal(events_set(&r), rows[i].want ? 1 : 0);
        stop(&r);
    }
}

static void
test_runtime(void **state)
{
    struct kfd_runtime_enable enable = {.mode = 4};
    struct kfd_queue_ref ref;
    struct queue q = {0};
    struct rig r;

    (void)state;
    start(&r, "gfx1100");
    refused(&r, KFD_RUNTIME_ENABLE, &enable, "mode 0x4");
    enable.mode = 1;
    CALL(&r, KFD_RUNTIME_ENABLE, &enable);
    refused(&r, KFD_RUNTIME_ENABLE, &enable, "there already");
    assert_int_equal(bell_error_last()->sys_errno, EBUSY);
    open_queue(&r, &q, KFD_QUEUE_SDMA, false);
    enable.mode = 0;
    CALL(&r, KFD_RUNTIME_ENABLE, &enable);
    enable.mode = 1;
    refused(&r, KFD_RUNTIME_ENABLE, &enable, "queues already");
    assert_int_equal(bell_error_last()->sys_errno, EEXIST);
    ref.queue_id = q.id;
    CALL(&r, KFD_DESTROY_QUEUE, &ref);
    CALL(&r, KFD_RUNTIME_ENABLE, &enable);
    stop(&r);
}

/* ---- what the kernel refuses --------------------------------------------- */

static void
test_refused_queues(void **state)
{
    struct rig r;
    struct queue q = {0};
    struct kfd_create_queue good, args;

    (void)state;
    start(&r, "gfx1100");
    good = queue_args(&r, &q, KFD_QUEUE_PM4, false);
#define WRONG(part, change)                                                    \
    do {                                                                       \
        args = good;                                                           \
        change;                                                                \
        refused(&r, KFD_CREATE_QUEUE, &args, part);                            \
    } while (0)
    WRONG("not a power of two", args.ring_bytes = 0x3000);
    WRONG("ring of", args.ring_bytes = 0x2000);
    WRONG("not mapped", args.ring_va = 0x1000);
    WRONG("one page", args.wptr_va = q.ring.va);
    WRONG("per cent", args.percentage = 101);
    WRONG("priority", args.priority = 16);
    WRONG("queue type", args.type = 9);
    WRONG("control stack", args.control_stack_bytes += 4096);
    WRONG("save area", args.save_bytes -= 4096);
    WRONG("save area", args.save_va += 4096);
    WRONG("end-of-pipe", args.eop_bytes = 8192);
    WRONG("no card", args.gpu_id = 1);
#undef WRONG
    args = good;
    args.metadata_bytes = 64; /* nobody looks before 1.22 */
    CALL(&r, KFD_CREATE_QUEUE, &args);
    CALL(&r, KFD_CREATE_QUEUE_OLD, &good);
    refused(&r, KFD_REQUEST(3, 0x7f, 8), &args, "no call 0x7f");
    stop(&r);
}

/* Queues of copy engines: how many there are, on which, and what else is said.
 * src: docs/hardware/amd-kernel.md, "Queues", "Peers" */
static void
test_engines(void **state)
{
    static const struct {
        const char *spec;
        uint32_t ordinary, xgmi; /* queues of each kind */
    } rows[] = {
        {"gfx1100", 12, 0}, {"gfx906", 16, 0},   {"gfx908", 16, 48},
        {"gfx90a", 16, 24}, {"mi300x", 16, 112}, {"mi300x,cpx", 16, 0},
    };
    struct kfd_create_queue args;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct queue q = {0};
        struct rig r;
        uint32_t n;

        start(&r, rows[i].spec);
        args = queue_args(&r, &q, KFD_QUEUE_SDMA_XGMI, false);
        for (n = 0; n < rows[i].xgmi; n++)
            CALL(&r, KFD_CREATE_QUEUE, &args);
        refused(&r, KFD_CREATE_QUEUE, &args, "is left");
        assert_int_equal(bell_error_last()->sys_errno, ENOMEM);
        args.type = KFD_QUEUE_SDMA_ENGINE;
        args.sdma_engine = (rows[i].ordinary + rows[i].xgmi) / 8;
        if (rows[i].ordinary == 12)
            args.sdma_engine = 2;
        refused(&r, KFD_CREATE_QUEUE, &args, "copy engine");
        assert_int_equal(bell_error_last()->sys_errno, EINVAL);
        args.sdma_engine = 1;
        for (n = 0; n < rows[i].ordinary / 2; n++)
            CALL(&r, KFD_CREATE_QUEUE, &args);
        refused(&r, KFD_CREATE_QUEUE, &args, "is left");
        args.type = KFD_QUEUE_SDMA;
        for (n = 0; n < rows[i].ordinary / 2; n++)
            CALL(&r, KFD_CREATE_QUEUE, &args);
        refused(&r, KFD_CREATE_QUEUE, &args, "is left");
        CALL(&r, KFD_DESTROY_QUEUE,
             &(struct kfd_queue_ref){.queue_id = args.queue_id});
        CALL(&r, KFD_CREATE_QUEUE, &args);
        stop(&r);
    }
    for (i = 16; i <= 17; i++) { /* by engine from KFD 1.17 on */
        struct queue q = {0};
        struct rig r;
        char spec[32];

        snprintf(spec, sizeof(spec), "mi300x,kfd=1.%zu", i);
        start(&r, spec);
        args = queue_args(&r, &q, KFD_QUEUE_SDMA_ENGINE, false);
        args.sdma_engine = 15;
        if (i < 17) {
            refused(&r, KFD_CREATE_QUEUE_OLD, &args, "queue type 4");
            assert_int_equal(bell_error_last()->sys_errno, 524);
        } else {
            CALL(&r, KFD_CREATE_QUEUE, &args);
        }
        stop(&r);
    }
}

/* What newer kernels refuse beyond that. */
static void
test_newer(void **state)
{
    static const struct {
        const char *spec;
        bool looks;
        int sys_errno;
    } rows[] = {
        {"gfx1100,kfd=1.17", false, EINVAL},
        {"gfx1100,kfd=1.18", false, ENOMEM},
        {"gfx1100,kfd=1.21", false, ENOMEM},
        {"gfx1100,kfd=1.22", true, ENOMEM},
        {"gfx1100,kfd=1.23", true, ENOMEM},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kfd_create_event event = {.type = KFD_EVENT_SIGNAL};
        struct kfd_create_queue args;
        struct queue q = {0};
        struct rig r = {0};

        assert_int_equal(kio_sim_create("AMD", rows[i].spec, &r.kio), BELL_OK);
        open_files(&r);
        refused(&r, KFD_CREATE_EVENT, &event, "no event page");
        assert_int_equal(bell_error_last()->sys_errno, rows[i].sys_errno);
        kio_close(&r.drm);
        kio_close(&r.kfd);
        bring_up(&r);
        args = queue_args(&r, &q, KFD_QUEUE_PM4, false);
        args.metadata_bytes = 64;
        if (rows[i].looks)
            refused(&r, KFD_CREATE_QUEUE, &args, "64 bytes of metadata");
        args.metadata_bytes = 0;
        CALL(&r, KFD_CREATE_QUEUE, &args);
        stop(&r);
    }
}

static void
test_refused_memory(void **state)
{
    struct rig r;
    struct memory m;
    struct kfd_free_memory mem;
    struct kfd_alloc_memory alloc;
    struct kfd_map_memory map = {.n = 1};
    void *at;

    (void)state;
    start(&r, "gfx1100");
    m = allocate(&r, 8192, VRAM_FLAGS);
    mem.handle = m.handle;
    refused(&r, KFD_FREE_MEMORY, &mem, "is mapped to cards");
    mem.handle = 1;
    refused(&r, KFD_FREE_MEMORY, &mem, "no memory has handle");
    at = reserve(&r, 8192);
#define WRONG(part, ...)                                                       \
    do {                                                                       \
        alloc = (struct kfd_alloc_memory){.va = (uintptr_t)at,                 \
                                          .size_bytes = 8192,                  \
                                          .gpu_id = r.gpu_id,                  \
                                          .flags = VRAM_FLAGS};                \
        __VA_ARGS__;                                                           \
        refused(&r, KFD_ALLOC_MEMORY, &alloc, part);                           \
    } while (0)
    WRONG("0 bytes", alloc.size_bytes = 0);
    WRONG("not one kind", alloc.flags |= KFD_MEM_GTT);
    WRONG("page", alloc.va += 8);
    WRONG("bytes; ", alloc.size_bytes = 9ull << 30);
    WRONG("MMIO", alloc.flags = KFD_MEM_MMIO);
#undef WRONG
    map.handle = m.handle;
    map.gpu_ids = (uintptr_t)&r.gpu_id;
    map.n = 0;
    refused(&r, KFD_MAP_MEMORY, &map, "0 cards");
    /* Addresses are compared when they are mapped, not before. */
    alloc = (struct kfd_alloc_memory){.va = m.va + 4096,
                                      .size_bytes = 4096,
                                      .gpu_id = r.gpu_id,
                                      .flags = VRAM_FLAGS};
    CALL(&r, KFD_ALLOC_MEMORY, &alloc);
    map.handle = mem.handle = alloc.handle;
    map.n = 1;
    refused(&r, KFD_MAP_MEMORY, &map, "something is mapped");
    assert_int_equal(bell_error_last()->sys_errno, EINVAL);
    release(&r, &m);
    CALL(&r, KFD_MAP_MEMORY, &map);
    map.n_done = 0;
    CALL(&r, KFD_UNMAP_MEMORY, &map);
    CALL(&r, KFD_FREE_MEMORY, &mem);
    kio_munmap(r.kio, at, 8192);
    stop(&r);
}

static void
test_order(void **state)
{
    struct rig r = {0};
    struct kfd_alloc_memory alloc = {
        .size_bytes = 4096, .flags = VRAM_FLAGS, .va = 0x10000};
    struct kfd_event_data data = {.event_id = 77};
    struct kfd_wait_events wait = {.events = (uintptr_t)&data, .n = 1};

    (void)state;
    assert_int_equal(kio_sim_create("AMD", "gfx942*2,kfd=1.11", &r.kio),
                     BELL_OK);
    assert_int_equal(kio_open(r.kio, "/dev/kfd", O_RDWR, &r.kfd), BELL_OK);
    assert_int_equal(kio_open(r.kio, "/dev/dri/renderD130", O_RDWR, &r.drm),
                     BELL_E_NO_DEVICE);
    alloc.gpu_id = read_number(
        &r, "/sys/devices/virtual/kfd/kfd/topology/nodes/2/gpu_id", NULL);
    refused(&r, KFD_ALLOC_MEMORY, &alloc, "ACQUIRE_VM");
    refused(&r, KFD_WAIT_EVENTS, &wait, "does not exist");
    assert_int_equal(read_number(&r,
                                 "/sys/devices/virtual/kfd/kfd/topology/nodes/"
                                 "2/properties",
                                 "num_xcc "),
                     4);
    kio_close(&r.kfd);
    kio_destroy(r.kio);
    assert_int_equal(kio_sim_create("AMD", "gfx905", &r.kio), BELL_E_NO_DEVICE);
    assert_int_equal(kio_sim_create("AMD", "gfx942*9", &r.kio),
                     BELL_E_NO_DEVICE);
}

/* What was there stays, for all forms of this program, and what the kernel
 * does once for a process it does not do again: with the same file number, too.
 * src: docs/hardware/amd-kernel.md, "Opening" */
static void
test_process_stays(void **state)
{
    static const char spec[] = "gfx1100,kfd=1.16";
    struct rig first = {0}, second = {0}, other;
    struct sim_amd_usage before, after;
    struct kfd_acquire_vm vm;
    struct kfd_create_event event = {.type = KFD_EVENT_SIGNAL};
    struct kfd_map_memory map = {.n = 1};
    struct kfd_alloc_memory alloc = {.size_bytes = 8192, .flags = GTT_FLAGS};
    struct memory m, page;
    struct queue q = {0};

    (void)state;
    assert_int_equal(kio_sim_join("AMD", spec, &first.kio), BELL_OK);
    assert_true(kio_outlives(first.kio));
    bring_up(&first);
    m = allocate(&first, 8192, GTT_FLAGS);
    open_queue(&first, &q, KFD_QUEUE_SDMA, false);
    sim_amd_usage(first.kio, &before);
    kio_close(&first.drm);
    kio_close(&first.kfd);
    kio_destroy(first.kio);

    assert_int_equal(kio_sim_join("AMD", spec, &second.kio), BELL_OK);
    open_files(&second);
    sim_amd_usage(second.kio, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    vm.drm_fd = (uint32_t)second.drm.fd;
    vm.gpu_id = second.gpu_id;
    refused(&second, KFD_ACQUIRE_VM, &vm, "another render node");
    assert_int_equal(bell_error_last()->sys_errno, EBUSY);
    page = allocate(&second, 0x8000, GTT_FLAGS);
    event.page_offset = page.handle;
    refused(&second, KFD_CREATE_EVENT, &event, "set already");
    assert_int_equal(bell_error_last()->sys_errno, EINVAL);
    /* The addresses that it gave up are still the card's. */
    kio_munmap(second.kio, m.cpu, 8192);
    alloc.va = m.va;
    alloc.gpu_id = second.gpu_id;
    CALL(&second, KFD_ALLOC_MEMORY, &alloc);
    map.handle = alloc.handle;
    map.gpu_ids = (uintptr_t)&second.gpu_id;
    refused(&second, KFD_MAP_MEMORY, &map, "something is mapped");

    /* A program of its own has nothing to do with that. */
    assert_int_equal(kio_sim_create("AMD", spec, &other.kio), BELL_OK);
    assert_false(kio_outlives(other.kio));
    bring_up(&other);
    kio_close(&other.drm);
    kio_close(&other.kfd);
    kio_destroy(other.kio);
    kio_close(&second.drm);
    kio_close(&second.kfd);
    kio_destroy(second.kio);
}

/* The render node of a chip with a CPU beside it tells of what firmware gave it
 * of the host's memory. src: Linux, amdgpu_drm.h, drm_amdgpu_memory_info */
static void
test_memory_queries(void **state)
{
    static const struct {
        const char *chip;
        uint64_t vram;
    } rows[] = {{"gfx1100", 8ull << 30}, {"gfx1151", 512ull << 20}};
    struct rig r;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t answer[12] = {0};
        struct amdgpu_info info = {.return_pointer = (uintptr_t)answer,
                                   .return_bytes = sizeof(answer),
                                   .query = 0x19}; /* MEMORY */

        start(&r, rows[i].chip);
        assert_int_equal(kio_ioctl(&r.drm, AMDGPU_INFO_REQUEST, &info), 0);
        assert_true(answer[0] == rows[i].vram && answer[4] == rows[i].vram);
        stop(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_queries),
        cmocka_unit_test(test_pm4),
        cmocka_unit_test(test_interrupts),
        cmocka_unit_test(test_aql),
        cmocka_unit_test(test_sdma),
        cmocka_unit_test(test_memory_fault),
        cmocka_unit_test(test_secondary),
        cmocka_unit_test(test_waits_block),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_bad_packets),
        cmocka_unit_test(test_exceptions),
        cmocka_unit_test(test_runtime),
        cmocka_unit_test(test_refused_queues),
        cmocka_unit_test(test_engines),
        cmocka_unit_test(test_newer),
        cmocka_unit_test(test_refused_memory),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_process_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
