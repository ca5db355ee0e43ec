/* The command half of hcq/amd on simulated cards: that the launch path
 * allocates nothing, takes no lock and calls nobody; commands of every kind at
 * random against a model, fresh, bound and patched; rings that are full; what
 * reports say; what is refused.
 *
 * The linker puts the functions below in the place of the C library's
 * (meson.build), so that they count what the test's own thread calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/map.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/amd_kfd.h"
#include "render/amdgpu.h"

#define LONG_NS (20ull * 1000000000)

static const char *const cards[] = {"AMD@sim:gfx1100", "AMD@sim:gfx942",
                                    "AMD@sim:gfx942*2"};

/* ---- counting ---------------------------------------------------------------- */

struct counts {
    unsigned allocations, locks, calls;
};

static __thread struct counts counts;

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

static struct kio *
kio_of(struct hcq_device *dev)
{
    return amd_device_of(dev)->process->kio;
}

static void
count_kio(struct hcq_device *dev)
{
    struct kio *kio = kio_of(dev);

    real_ops = kio->ops;
    counting_ops = *kio->ops;
    counting_ops.ioctl = count_ioctl;
    counting_ops.mmap = count_mmap;
    counting_ops.open = count_open;
    kio->ops = &counting_ops;
}

/* ---- kernels -------------------------------------------------------------------- */

#define ATTRIBUTES ATTRIBUTES_OF("1024")
#define ATTRIBUTES_OF(group)                                                   \
    "\"amdgpu-no-dispatch-ptr\" \"amdgpu-no-queue-ptr\" "                      \
    "\"amdgpu-no-dispatch-id\" \"amdgpu-no-lds-kernel-id\" "                   \
    "\"amdgpu-no-hostcall-ptr\" \"amdgpu-no-heap-ptr\" "                       \
    "\"amdgpu-no-default-queue\" \"amdgpu-no-completion-action\" "             \
    "\"amdgpu-no-multigrid-sync-arg\" \"amdgpu-no-flat-scratch-init\" "        \
    "nounwind \"amdgpu-flat-work-group-size\"=\"1," group "\" "

static const char declarations[] =
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"
    "declare i32 @llvm.amdgcn.workgroup.id.y()\n"
    "declare i32 @llvm.amdgcn.workgroup.id.z()\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
    "declare void @llvm.amdgcn.s.barrier()\n"
    "attributes #0 = { " ATTRIBUTES "\"amdgpu-no-implicitarg-ptr\" }\n"
    "attributes #1 = { " ATTRIBUTES "}\n"
    "attributes #2 = { " ATTRIBUTES_OF("64") "}\n";

struct kernel {
    const char *name;
    uint32_t n_bufs, n_vals, shared_bytes;
    const char *text;
};

/* out[(((z * 2) + y) * 4 + x) * 8 + thread] = value + groups * 100 + threads,
 * both along x, as the compiler's own arguments tell them. */
static const struct kernel shape_kernel = {
    "shape", 1, 1, 0,
    "define amdgpu_kernel void @shape(ptr addrspace(1) %out, i64 %value) #1 {\n"
    "  %x = call i32 @llvm.amdgcn.workgroup.id.x()\n"
    "  %y = call i32 @llvm.amdgcn.workgroup.id.y()\n"
    "  %z = call i32 @llvm.amdgcn.workgroup.id.z()\n"
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
    "  %n = load i32, ptr addrspace(4) %h\n"
    "  %at = getelementptr i8, ptr addrspace(4) %h, i64 12\n"
    "  %m16 = load i16, ptr addrspace(4) %at\n"
    "  %m = zext i16 %m16 to i32\n"
    "  %n100 = mul i32 %n, 100\n"
    "  %s = add i32 %n100, %m\n"
    "  %s64 = zext i32 %s to i64\n"
    "  %v = add i64 %value, %s64\n"
    "  %z2 = mul i32 %z, 2\n"
    "  %zy = add i32 %z2, %y\n"
    "  %zy4 = mul i32 %zy, 4\n"
    "  %g = add i32 %zy4, %x\n"
    "  %g8 = mul i32 %g, 8\n"
    "  %i = add i32 %g8, %t\n"
    "  %i64 = zext i32 %i to i64\n"
    "  %p = getelementptr i64, ptr addrspace(1) %out, i64 %i64\n"
    "  store i64 %v, ptr addrspace(1) %p\n"
    "  ret void\n}\n"};

/* out[t] = value + 63 - t + 7 * (63 - t), through LDS of both kinds. */
static const struct kernel lds_kernel = {
    "lds", 1, 1, 256,
    "@fixed = internal unnamed_addr addrspace(3) global [64 x i32] undef, "
    "align "
    "4\n"
    "@dynamic = external addrspace(3) global [0 x i32], align 4\n"
    "define amdgpu_kernel void @lds(ptr addrspace(1) %out, i64 %value) #0 {\n"
    "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %low = trunc i64 %value to i32\n"
    "  %a = add i32 %low, %t\n"
    "  %b = mul i32 %t, 7\n"
    "  %pa = getelementptr [64 x i32], ptr addrspace(3) @fixed, i32 0, i32 %t\n"
    "  %pb = getelementptr [0 x i32], ptr addrspace(3) @dynamic, i32 0, i32 "
    "%t\n"
    "  store i32 %a, ptr addrspace(3) %pa\n"
    "  store i32 %b, ptr addrspace(3) %pb\n"
    "  fence syncscope(\"workgroup\") release\n"
    "  call void @llvm.amdgcn.s.barrier()\n"
    "  fence syncscope(\"workgroup\") acquire\n"
    "  %u = sub i32 63, %t\n"
    "  %qa = getelementptr [64 x i32], ptr addrspace(3) @fixed, i32 0, i32 %u\n"
    "  %qb = getelementptr [0 x i32], ptr addrspace(3) @dynamic, i32 0, i32 "
    "%u\n"
    "  %c = load i32, ptr addrspace(3) %qa\n"
    "  %d = load i32, ptr addrspace(3) %qb\n"
    "  %e = add i32 %c, %d\n"
    "  %t64 = zext i32 %t to i64\n"
    "  %p = getelementptr i32, ptr addrspace(1) %out, i64 %t64\n"
    "  store i32 %e, ptr addrspace(1) %p\n"
    "  ret void\n}\n"};

/* out[t] = value + t, by way of a lane's own stack of %u words. */
static const char stack_text[] =
    "define amdgpu_kernel void @stack(ptr addrspace(1) %%out, i64 %%value) #0 "
    "{\n"
    "  %%mem = alloca [%u x i32], align 16, addrspace(5)\n"
    "  %%t = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %%low = trunc i64 %%value to i32\n"
    "  %%a = add i32 %%low, %%t\n"
    "  %%q = getelementptr [%u x i32], ptr addrspace(5) %%mem, i32 0, i32 %%t\n"
    "  store volatile i32 %%a, ptr addrspace(5) %%q\n"
    "  %%v = load volatile i32, ptr addrspace(5) %%q\n"
    "  %%t64 = zext i32 %%t to i64\n"
    "  %%p = getelementptr i32, ptr addrspace(1) %%out, i64 %%t64\n"
    "  store i32 %%v, ptr addrspace(1) %%p\n"
    "  ret void\n}\n";

/* out[0] += value, whoever else does */
static const struct kernel count_kernel = {
    "count", 1, 1, 0,
    "define amdgpu_kernel void @count(ptr addrspace(1) %out, i64 %value) #0 {\n"
    "  %old = atomicrmw add ptr addrspace(1) %out, i64 %value monotonic\n"
    "  ret void\n}\n"};

/* The same, compiled for groups of up to 64. */
static const struct kernel small_kernel = {
    "small", 1, 1, 0,
    "define amdgpu_kernel void @small(ptr addrspace(1) %out, i64 %value) #2 {\n"
    "  %old = atomicrmw add ptr addrspace(1) %out, i64 %value monotonic\n"
    "  ret void\n}\n"};

/* ---- a device with kernels ---------------------------------------------------- */

struct rig {
    struct hcq_device *dev;
    struct hcq_queue *queue, *copy;
    struct hcq_buffer *out;
};

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
expect_fails(bell_status status, bell_status want, const char *part)
{
    assert_int_equal(status, want);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, bell_error_last()->message);
}

static struct render_binary
build(const struct kernel *k, const char *gfx)
{
    struct amdgpu_target target = {{0}, 0};
    struct render_binary binary;
    char *text = calloc(1, 16384);

    assert_non_null(text);
    snprintf(target.gfx, sizeof(target.gfx), "%s", gfx);
    snprintf(text, 16384, "%s%s", k->text, declarations);
    expect_ok(render_amdgpu_ir(text, k->name, &target, &binary));
    free(text);
    return binary;
}

static struct hcq_program_desc
desc_of(const struct kernel *k, const struct render_binary *binary)
{
    return (struct hcq_program_desc){
        .struct_size = sizeof(struct hcq_program_desc),
        .name = k->name,
        .binary = binary->data,
        .binary_size_bytes = binary->size_bytes,
        .n_bufs = k->n_bufs,
        .n_vals = k->n_vals,
        .shared_bytes = k->shared_bytes,
    };
}

static struct hcq_program *
load(struct hcq_device *dev, const struct kernel *k)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_program_desc desc;
    struct render_binary binary;
    struct hcq_program *prog;

    hcq_device_info(dev, &info);
    binary = build(k, info.arch);
    desc = desc_of(k, &binary);
    expect_ok(hcq_program_create(dev, &desc, &prog));
    render_binary_fini(&binary);
    return prog;
}

static struct rig
open_rig(const char *name)
{
    struct rig r;

    expect_ok(hcq_device_open(name, &r.dev));
    expect_ok(hcq_queue_create(r.dev, HCQ_QUEUE_COMPUTE, &r.queue));
    expect_ok(hcq_queue_create(r.dev, HCQ_QUEUE_COPY, &r.copy));
    expect_ok(hcq_buffer_create(r.dev, 65536, HCQ_MEM_HOST_VISIBLE, &r.out));
    memset(r.out->host, 0, 65536);
    return r;
}

static void
close_rig(struct rig *r)
{
    hcq_device_close(r->dev);
}

static uint64_t
value_at(const struct rig *r, size_t i)
{
    return ((volatile uint64_t *)r->out->host)[i];
}

static void
exec(struct hcq_cs *cs, const struct rig *r, const struct hcq_program *prog,
     uint64_t value, const uint32_t grid[3], uint32_t threads)
{
    const uint64_t args[] = {r->out->va, value};
    const uint32_t local[] = {threads, 1, 1};

    hcq_cs_exec(cs, prog, args, 2, grid, local);
}

static void
exec_x(struct hcq_cs *cs, const struct rig *r, const struct hcq_program *prog,
       uint64_t value, uint32_t x, uint32_t threads)
{
    exec(cs, r, prog, value, (const uint32_t[]){x, 1, 1}, threads);
}

/* The queue does nothing until the signal is 1: what follows is the host's
 * alone. */
static struct hcq_signal *
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

/* ---- the launch path ----------------------------------------------------------- */

static void
launch_path(const char *card)
{
    struct rig r = open_rig(card);
    struct hcq_program *shape = load(r.dev, &shape_kernel);
    struct hcq_stream *stream;
    struct hcq_signal *go;
    struct hcq_cs *cs;
    uint32_t p, x;
    unsigned i;

    expect_ok(hcq_stream_create(r.queue, "many", &stream));
    p = hcq_stream_patch_point(stream, "p");
    x = hcq_stream_patch_point(stream, "x");
    for (i = 0; i < 50; i++) {
        exec_x(hcq_stream_cs(stream), &r, shape, i, 1, 1);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_ARG, p, 0);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_GRID, x, 0);
    }
    expect_ok(hcq_stream_end(stream));
    go = hold(&r, r.queue);
    count_kio(r.dev);
    memset(&counts, 0, sizeof(counts));
    for (i = 0; i < 200; i++) {
        expect_ok(hcq_queue_begin(r.queue, &cs));
        exec_x(cs, &r, shape, i, 2, 3);
        hcq_cs_copy(cs, r.out->va + 1024, r.out->va + 2048, 7);
        hcq_cs_fill(cs, r.out->va + 1024, i, 8);
        hcq_cs_signal(cs, go, 1);
        hcq_cs_wait(cs, go, 1);
        expect_ok(hcq_cs_submit(cs, NULL));
        expect_ok(hcq_queue_begin(r.copy, &cs));
        hcq_cs_wait(cs, go, 1);
        hcq_cs_copy(cs, r.out->va + 3072, r.out->va + 2048, 64);
        expect_ok(hcq_cs_submit(cs, NULL));
    }
    expect_ok(hcq_stream_patch(stream, p, r.out->va + 4096));
    expect_ok(hcq_stream_patch(stream, x, 3));
    for (i = 0; i < 100; i++)
        expect_ok(hcq_stream_submit(stream, NULL));
    assert_int_equal(counts.allocations, 0);
    assert_int_equal(counts.locks, 0);
    assert_int_equal(counts.calls, 0);
    kio_of(r.dev)->ops = real_ops;
    hcq_signal_set(go, 1);
    expect_ok(hcq_queue_wait(r.queue, LONG_NS));
    expect_ok(hcq_queue_wait(r.copy, LONG_NS));
    assert_int_equal(value_at(&r, 10), 199 + 2 * 100 + 3);
    assert_int_equal(value_at(&r, 512 + 16), 49 + 3 * 100 + 1);
    assert_int_equal(value_at(&r, 128), 199ull << 32 | 199);
    close_rig(&r);
}

static void
launch_path_is_free(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++)
        launch_path(cards[c]);
}

/* The counters do count. */
static void
counters_count(void **state)
{
    struct rig r;

    (void)state;
    memset(&counts, 0, sizeof(counts));
    r = open_rig(cards[0]);
    assert_true(counts.allocations > 10 && counts.locks > 10);
    count_kio(r.dev);
    memset(&counts, 0, sizeof(counts));
    hcq_queue_destroy(r.copy);
    assert_true(counts.calls > 2);
    kio_of(r.dev)->ops = real_ops;
    close_rig(&r);
}

/* ---- commands at random ------------------------------------------------------------ */

#define AREA 16384u /* bytes that commands work on; timestamps lie behind */

/* What is the same for a stream however it is submitted. */
struct walk {
    struct rig rig;
    struct hcq_signal *sig;
    uint64_t value; /* of the signal, behind what was emitted */
    uint64_t seed;
    uint8_t model[AREA];
};

static uint32_t
random_below(struct walk *w, uint32_t n)
{
    w->seed = hash_mix(w->seed + 1);
    return (uint32_t)(w->seed >> 32) % n;
}

/* Sizes of no multiple, small ones often. */
static uint32_t
random_size(struct walk *w)
{
    return random_below(w, 3) ? random_below(w, 40) : random_below(w, 3000);
}

static void
random_copy(struct walk *w, struct hcq_cs *cs)
{
    uint32_t half = AREA / 2, up = random_below(w, 2) * half;
    uint32_t n = random_size(w), dst = up + random_below(w, half - n);
    uint32_t src = half - up + random_below(w, half - n);

    hcq_cs_copy(cs, w->rig.out->va + dst, w->rig.out->va + src, n);
    memcpy(w->model + dst, w->model + src, n);
}

static void
random_fill(struct walk *w, struct hcq_cs *cs)
{
    uint32_t n = random_size(w), at = random_below(w, (AREA - n) / 4) * 4, i;
    uint32_t pattern = random_below(w, UINT32_MAX);

    hcq_cs_fill(cs, w->rig.out->va + at, pattern, n);
    for (i = 0; i < n; i++)
        w->model[at + i] = (uint8_t)(pattern >> (i % 4 * 8));
}

static void
random_write(struct walk *w, struct hcq_cs *cs)
{
    uint32_t n = random_below(w, 2) ? 4 : 8;
    uint32_t at = random_below(w, AREA / n) * n;
    uint64_t value = hash_mix(w->seed);

    hcq_cs_write(cs, w->rig.out->va + at, n == 4 ? (uint32_t)value : value,
                 n * 8);
    memcpy(w->model + at, &value, n);
}

/* Of a word that has its value by then. */
static void
random_poll(struct walk *w, struct hcq_cs *cs)
{
    uint32_t at = random_below(w, AREA / 4) * 4, word;
    uint32_t mask = random_below(w, UINT32_MAX);

    memcpy(&word, w->model + at, 4);
    hcq_cs_poll(cs, w->rig.out->va + at, mask, word & mask);
}

/* Values of any 64 bits; a wait looks at each half by itself. */
static void
random_signal(struct walk *w, struct hcq_cs *cs)
{
    w->value += random_below(w, 4) ? random_below(w, 1000) : 1ull << 34;
    hcq_cs_signal(cs, w->sig, w->value);
    hcq_cs_wait(cs, w->sig,
                w->value - random_below(w, (uint32_t)w->value % 1000 + 1));
}

static void
random_commands(struct walk *w, struct hcq_cs *cs)
{
    static void (*const emit[])(struct walk *, struct hcq_cs *) = {
        random_copy,  random_copy,  random_fill, random_fill,
        random_write, random_write, random_poll, random_signal,
    };
    uint32_t n = 1 + random_below(w, 25), i;

    for (i = 0; i < n; i++) {
        uint32_t kind = random_below(w, ARRAY_LEN(emit) + 2);

        if (kind < ARRAY_LEN(emit))
            emit[kind](w, cs);
        else if (kind == ARRAY_LEN(emit))
            hcq_cs_timestamp(cs, w->sig);
        else
            hcq_cs_barrier(cs);
    }
}

static void
random_submission(struct walk *w, struct hcq_queue *queue)
{
    struct hcq_stream *stream;
    struct hcq_cs *cs;

    if (random_below(w, 2)) {
        expect_ok(hcq_queue_begin(queue, &cs));
        random_commands(w, cs);
        expect_ok(hcq_cs_submit(cs, NULL));
        return;
    }
    expect_ok(hcq_stream_create(queue, "random", &stream));
    random_commands(w, hcq_stream_cs(stream));
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_stream_submit(stream, NULL));
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    hcq_stream_destroy(stream);
}

static void
random_streams(void **state)
{
    static struct walk w;
    uint32_t i, round;
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        memset(&w, 0, sizeof(w));
        w.rig = open_rig(cards[c]);
        w.seed = c + 77;
        for (i = 0; i < AREA; i++)
            w.model[i] = (uint8_t)hash_mix(i);
        memcpy(w.rig.out->host, w.model, AREA);
        expect_ok(hcq_signal_create(w.rig.dev, 0, &w.sig));
        for (round = 0; round < 150; round++) {
            struct hcq_queue *queue = round & 1 ? w.rig.copy : w.rig.queue;

            for (i = random_below(&w, 4); i < 4; i++)
                random_submission(&w, queue);
            expect_ok(hcq_queue_wait(queue, LONG_NS));
            assert_memory_equal(w.rig.out->host, w.model, AREA);
            assert_int_equal(hcq_signal_value(w.sig), w.value);
        }
        assert_true(hcq_signal_timestamp(w.sig) != 0);
        close_rig(&w.rig);
    }
}

/* ---- patches ------------------------------------------------------------------------ */

static void
patched_shapes(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *shape = load(r.dev, &shape_kernel);
        struct hcq_stream *stream;
        struct hcq_cs *cs;
        uint32_t x, y, threads, value, i;
        uint64_t fresh[64];

        expect_ok(hcq_stream_create(r.queue, "shapes", &stream));
        x = hcq_stream_patch_point(stream, "x");
        y = hcq_stream_patch_point(stream, "y");
        threads = hcq_stream_patch_point(stream, "threads");
        value = hcq_stream_patch_point(stream, "value");
        cs = hcq_stream_cs(stream);
        hcq_cs_write(cs, r.out->va + 8192, 5, 32);
        exec_x(cs, &r, shape, 7, 1, 1);
        hcq_cs_patch(cs, HCQ_FIELD_GRID, x, 0);
        hcq_cs_patch(cs, HCQ_FIELD_GRID + 1, y, 0);
        hcq_cs_patch(cs, HCQ_FIELD_LOCAL, threads, 0);
        hcq_cs_patch(cs, HCQ_FIELD_ARG + 1, value, 1000000);
        hcq_cs_write(cs, r.out->va + 8192, 6, 32);
        expect_ok(hcq_stream_end(stream));
        for (i = 0; i < 30; i++) {
            uint32_t n = i % 4 + 1, m = i % 8 + 1, o = i % 2 + 1;

            memset(r.out->host, 0, 4096);
            expect_ok(hcq_queue_begin(r.queue, &cs));
            exec(cs, &r, shape, 1000000 + i, (const uint32_t[]){n, o, 1}, m);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_queue_wait(r.queue, LONG_NS));
            memcpy(fresh, r.out->host, sizeof(fresh));
            assert_int_equal(fresh[0], 1000000 + i + n * 100 + m);
            memset(r.out->host, 0, 4096);
            expect_ok(hcq_stream_patch(stream, x, n));
            expect_ok(hcq_stream_patch(stream, y, o));
            expect_ok(hcq_stream_patch(stream, threads, m));
            expect_ok(hcq_stream_patch(stream, value, i));
            expect_ok(hcq_stream_submit(stream, NULL));
            expect_ok(hcq_stream_wait(stream, LONG_NS));
            assert_memory_equal(r.out->host, fresh, sizeof(fresh));
            assert_int_equal(value_at(&r, 1024), 6);
        }
        expect_fails(hcq_stream_patch(stream, threads, 1025), BELL_E_INVALID,
                     "must be 1 to 1024");
        close_rig(&r);
    }
}

/* Axes are patched one by one; what is too large together is not launched,
 * and can be put right. */
static void
patched_too_large(void **state)
{
    struct rig r = open_rig(cards[0]);
    struct hcq_program *shape = load(r.dev, &shape_kernel);
    const uint64_t args[] = {r.out->va, 5};
    const uint32_t grid[] = {1, 1, 1}, local[] = {8, 1, 1};
    struct hcq_stream *stream;
    uint32_t p[2], i;

    (void)state;
    expect_ok(hcq_stream_create(r.queue, "large", &stream));
    p[0] = hcq_stream_patch_point(stream, "x");
    p[1] = hcq_stream_patch_point(stream, "y");
    hcq_cs_exec(hcq_stream_cs(stream), shape, args, 2, grid, local);
    for (i = 0; i < 2; i++)
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_LOCAL + i, p[i], 0);
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_stream_patch(stream, p[0], 512));
    expect_ok(hcq_stream_patch(stream, p[1], 3));
    expect_fails(hcq_stream_submit(stream, NULL), BELL_E_INVALID,
                 "'shape' was patched to 512x3x1 work-items in a group; it "
                 "takes 1024");
    expect_ok(hcq_stream_patch(stream, p[0], 7));
    expect_ok(hcq_stream_submit(stream, NULL));
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    assert_int_equal(value_at(&r, 6), 5 + 100 + 7);
    assert_int_equal(value_at(&r, 7), 0);
    close_rig(&r);
}

/* Copies and fills of random sizes and places, zero among them, and waits, in
 * one bound stream on each kind of queue. */
struct transfer {
    uint32_t dst, src, size, at, pattern, length;
    uint64_t value;
};

static const char *const points[] = {"dst",     "src",    "size", "fill",
                                     "pattern", "length", "value"};

static void
emit_transfers(struct hcq_cs *cs, const struct rig *r, struct hcq_signal *sig,
               const uint32_t p[7])
{
    uint64_t va = r->out->va;

    hcq_cs_copy(cs, va, va + AREA, 0);
    hcq_cs_patch(cs, HCQ_FIELD_DST, p[0], 0);
    hcq_cs_patch(cs, HCQ_FIELD_SRC, p[1], 0);
    hcq_cs_patch(cs, HCQ_FIELD_SIZE, p[2], 0);
    hcq_cs_fill(cs, va, 0, 4);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, p[3], 0);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, p[4], 0);
    hcq_cs_patch(cs, HCQ_FIELD_SIZE, p[5], 0);
    hcq_cs_signal(cs, sig, 1);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, p[6], 0);
    hcq_cs_wait(cs, sig, 1);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, p[6], 0);
}

static void
model_transfers(uint8_t *area, const struct transfer *t)
{
    uint32_t i;

    memcpy(area + t->dst, area + AREA + t->src, t->size);
    for (i = 0; i < t->length; i++)
        area[t->at + i] = (uint8_t)(t->pattern >> (i % 4 * 8));
}

static void
random_transfers(const struct rig *r, struct hcq_queue *queue)
{
    static uint8_t model[2 * AREA];
    struct hcq_stream *stream;
    struct hcq_signal *sig;
    uint64_t seed = 1, va = r->out->va;
    uint32_t p[7], i;

    expect_ok(hcq_signal_create(r->dev, 0, &sig));
    expect_ok(hcq_stream_create(queue, "transfers", &stream));
    for (i = 0; i < ARRAY_LEN(p); i++)
        p[i] = hcq_stream_patch_point(stream, points[i]);
    emit_transfers(hcq_stream_cs(stream), r, sig, p);
    expect_ok(hcq_stream_end(stream));
    for (i = 0; i < sizeof(model); i++)
        model[i] = (uint8_t)hash_mix(i);
    memcpy(r->out->host, model, sizeof(model));
    for (i = 0; i < 200; i++) {
        uint64_t h = seed = hash_mix(seed + i);
        struct transfer t = {
            .dst = (uint32_t)(h % 4096),
            .src = (uint32_t)(h >> 16) % 4096,
            .size = h >> 60 ? (uint32_t)(h >> 32) % 5000 : 0,
            .at = (uint32_t)(h >> 40) % 2048 * 4,
            .pattern = (uint32_t)(h >> 8),
            .length = (uint32_t)(h >> 20) % 40,
            .value = h & 1 ? h : (uint32_t)h,
        };

        expect_ok(hcq_stream_patch(stream, p[0], va + t.dst));
        expect_ok(hcq_stream_patch(stream, p[1], va + AREA + t.src));
        expect_ok(hcq_stream_patch(stream, p[2], t.size));
        expect_ok(hcq_stream_patch(stream, p[3], va + t.at));
        expect_ok(hcq_stream_patch(stream, p[4], t.pattern));
        expect_ok(hcq_stream_patch(stream, p[5], t.length));
        expect_ok(hcq_stream_patch(stream, p[6], t.value));
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        model_transfers(model, &t);
        assert_memory_equal(r->out->host, model, sizeof(model));
        assert_int_equal(hcq_signal_value(sig), t.value);
    }
    hcq_stream_destroy(stream);
}

static void
patched_transfers(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);

        random_transfers(&r, r.queue);
        random_transfers(&r, r.copy);
        close_rig(&r);
    }
}

/* ---- kernels ------------------------------------------------------------------------- */

static void
run(const struct rig *r, const struct hcq_program *prog, uint64_t value,
    const uint32_t grid[3], uint32_t threads)
{
    struct hcq_cs *cs;

    memset(r->out->host, 0, 65536);
    expect_ok(hcq_queue_begin(r->queue, &cs));
    exec(cs, r, prog, value, grid, threads);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(r->queue, LONG_NS));
}

/* A program with a stack of that many words for each lane. */
static struct hcq_program *
load_stack(struct hcq_device *dev, uint32_t n)
{
    char text[2048];
    struct kernel k = {.name = "stack", .n_bufs = 1, .n_vals = 1, .text = text};

    snprintf(text, sizeof(text), stack_text, n, n);
    return load(dev, &k);
}

static void
expect_stack(const struct rig *r, uint32_t value)
{
    const uint32_t *out = r->out->host;
    uint32_t i;

    for (i = 0; i < 64; i++)
        assert_int_equal(out[i], value + i);
}

static void
kernels(void **state)
{
    static const uint32_t one[] = {1, 1, 1}, many[] = {3, 2, 4};
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *prog = load(r.dev, &lds_kernel);
        const uint32_t *out = r.out->host;
        uint32_t i;

        run(&r, prog, 1000, one, 64);
        for (i = 0; i < 64; i++)
            assert_int_equal(out[i], 1000 + (63 - i) + 7 * (63 - i));
        run(&r, load_stack(r.dev, 64), 500, one, 64);
        expect_stack(&r, 500);
        prog = load(r.dev, &shape_kernel);
        run(&r, prog, 9, many, 5);
        for (i = 0; i < 64 * 4; i++) {
            bool is_in = i / 8 % 4 < 3 && i % 8 < 5;

            assert_int_equal(value_at(&r, i), is_in ? 9 + 300 + 5 : 0);
        }
        close_rig(&r);
    }
}

/* A bound stream was made for scratch that has moved since. */
static void
scratch_moves(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *prog = load_stack(r.dev, 64);
        struct hcq_stream *stream;

        expect_ok(hcq_stream_create(r.queue, "before", &stream));
        exec_x(hcq_stream_cs(stream), &r, prog, 77, 1, 64);
        expect_ok(hcq_stream_end(stream));
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        expect_stack(&r, 77);
        run(&r, load_stack(r.dev, 4000), 6, (const uint32_t[]){1, 1, 1}, 64);
        expect_stack(&r, 6);
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        expect_stack(&r, 77);
        close_rig(&r);
    }
}

/* ---- limits of the rings --------------------------------------------------------- */

/* Rings of the smallest size, many times around. */
static void
rings_wrap(void **state)
{
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = HCQ_QUEUE_COMPUTE,
        .ring_size_bytes = 4096,
    };
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *count = load(r.dev, &count_kernel);
        struct hcq_stream *stream;
        struct hcq_queue *queue;
        struct hcq_cs *cs;
        uint32_t i;

        expect_ok(hcq_queue_create_with(r.dev, &desc, &queue));
        expect_ok(hcq_stream_create(queue, "three", &stream));
        for (i = 0; i < 3; i++) {
            exec_x(hcq_stream_cs(stream), &r, count, 1, 1, 1);
            hcq_cs_write(hcq_stream_cs(stream), r.out->va + 64, i, 32);
        }
        expect_ok(hcq_stream_end(stream));
        for (i = 0; i < 3000; i++) {
            expect_ok(hcq_queue_begin(queue, &cs));
            exec_x(cs, &r, count, 1000000, 1, 1);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_stream_submit(stream, NULL));
        }
        expect_ok(hcq_queue_wait(queue, LONG_NS));
        assert_int_equal(value_at(&r, 0), 3000 * 1000003ull);
        close_rig(&r);
    }
}

/* More launches than an AQL ring has packets, with others around them. */
static void
many_launches(void **state)
{
    enum {
        N = 20000
    };
    size_t c;

    (void)state;
    for (c = 0; c < 2; c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *count = load(r.dev, &count_kernel);
        struct hcq_stream *stream;
        struct hcq_cs *cs;
        uint32_t i;

        expect_ok(hcq_stream_create(r.queue, "many", &stream));
        for (i = 0; i < N; i++)
            exec_x(hcq_stream_cs(stream), &r, count, 1, 1, 1);
        expect_ok(hcq_stream_end(stream));
        for (i = 0; i < 2; i++) {
            expect_ok(hcq_queue_begin(r.queue, &cs));
            exec_x(cs, &r, count, 1000000, 1, 1);
            expect_ok(hcq_cs_submit(cs, NULL));
            expect_ok(hcq_stream_submit(stream, NULL));
        }
        expect_ok(hcq_queue_wait(r.queue, LONG_NS));
        assert_int_equal(value_at(&r, 0), 2 * (N + 1000000));
        close_rig(&r);
    }
}

/* Words beyond what one indirect buffer holds, on both kinds of queues. */
static void
long_stream(void **state)
{
    enum {
        N = 360000
    };
    struct rig r = open_rig(cards[0]);
    struct hcq_stream *stream;
    uint32_t round, i;

    (void)state;
    for (round = 0; round < 2; round++) {
        expect_ok(hcq_stream_create(round ? r.copy : r.queue, "long", &stream));
        for (i = 0; i < N; i++)
            hcq_cs_write(hcq_stream_cs(stream), r.out->va + i % 8192 * 8,
                         i + round, 64);
        expect_ok(hcq_stream_end(stream));
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        for (i = N - 8192; i < N; i++)
            assert_int_equal(value_at(&r, i % 8192), i + round);
        hcq_stream_destroy(stream);
    }
    close_rig(&r);
}

static void
many_submissions(void **state)
{
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .submit_timeout_ns = 20000000,
    };
    size_t c;

    (void)state;
    for (c = 0; c < 4; c++) {
        struct rig r = open_rig(cards[c / 2]);
        bell_status status = BELL_OK;
        struct hcq_queue *queue;
        struct hcq_signal *go;
        struct hcq_cs *cs;
        uint32_t n = 0;

        desc.kind = c % 2 ? HCQ_QUEUE_COPY : HCQ_QUEUE_COMPUTE;
        expect_ok(hcq_queue_create_with(r.dev, &desc, &queue));
        go = hold(&r, queue);
        while (status == BELL_OK && n < 10000) {
            expect_ok(hcq_queue_begin(queue, &cs));
            hcq_cs_write(cs, r.out->va, ++n, 32);
            status = hcq_cs_submit(cs, NULL);
        }
        expect_fails(status, BELL_E_TIMEOUT, "no room for");
        expect_fails(status, BELL_E_TIMEOUT, "wait for signal");
        assert_int_equal(n, HCQ_HISTORY_RECORDS);
        hcq_signal_set(go, 1);
        expect_ok(hcq_queue_wait(queue, LONG_NS));
        assert_int_equal((uint32_t)value_at(&r, 0), HCQ_HISTORY_RECORDS - 1);
        close_rig(&r);
    }
}

/* ---- reports ---------------------------------------------------------------------------- */

static void
expect_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void
reports(struct rig *r)
{
    struct hcq_program *shape = load(r->dev, &shape_kernel);
    struct amd_queue *queue = amd_queue_of(r->queue);
    struct hcq_stream *stream;
    struct hcq_cs *cs;
    char text[512], small[40];

    amd_queue_describe(queue, text, sizeof(text));
    assert_string_equal(text, "");
    expect_ok(hcq_queue_begin(r->queue, &cs));
    hcq_cs_poll(cs, r->out->va, UINT32_MAX, 0xabcd0123);
    exec_x(cs, r, shape, 0, 3, 2);
    hcq_cs_copy(cs, 0x2000, 0x1000, 64);
    expect_ok(hcq_cs_submit(cs, NULL));
    amd_queue_describe(queue, text, sizeof(text));
    expect_text(text, "poll 0x");
    expect_text(text, "& 0xffffffff == 0xabcd0123, exec shape 3x1x1 of 2x1x1");
    expect_text(text, "copy 64 bytes 0x1000 -> 0x2000");
    amd_queue_describe(queue, small, sizeof(small)); /* what fits */
    assert_memory_equal(small, text, sizeof(small) - 1);
    expect_fails(hcq_queue_wait(r->queue, 1000000), BELL_E_TIMEOUT,
                 "== 0xabcd0123");
    expect_ok(hcq_device_recover(r->dev));
    amd_queue_describe(queue, text, sizeof(text));
    assert_string_equal(text, "");

    expect_ok(hcq_stream_create(r->queue, "stuck", &stream));
    hcq_cs_poll(hcq_stream_cs(stream), r->out->va, 3, 1);
    exec_x(hcq_stream_cs(stream), r, shape, 40, 1, 2);
    expect_ok(hcq_stream_end(stream));
    expect_ok(hcq_stream_submit(stream, NULL));
    amd_queue_describe(queue, text, sizeof(text));
    expect_text(text, "stream 'stuck': poll 0x");
    *(volatile uint32_t *)r->out->host = 5; /* bit 1 clear, bit 0 set */
    expect_ok(hcq_stream_wait(stream, LONG_NS));
    assert_int_equal(value_at(r, 1), 40 + 100 + 2);
}

static void
reports_name_commands(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);

        reports(&r);
        close_rig(&r);
    }
}

/* ---- what is refused ---------------------------------------------------------------------- */

static void
bad_programs(void **state)
{
    struct rig r = open_rig(cards[0]);
    struct render_binary other = build(&shape_kernel, "gfx942");
    struct render_binary lds = build(&lds_kernel, "gfx1100");
    struct hcq_program_desc desc = desc_of(&shape_kernel, &other);
    struct hcq_program *prog;

    (void)state;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "'shape': machine code for gfx942 (0x4c) does not run on "
                 "AMD:0@sim:gfx1100, which is gfx1100");
    desc = desc_of(&lds_kernel, &lds);
    desc.n_vals = 2;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "'lds': the kernel takes 16 bytes of arguments, 1 + 2 words");
    desc.n_vals = 1;
    desc.shared_bytes = 65536 - 255;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "'lds': 256 + 65281 bytes of shared memory, static and "
                 "dynamic; a group on AMD:0@sim:gfx1100 has 65536");
    desc.shared_bytes = UINT32_MAX;
    expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                 "4294967295 bytes of shared memory");
    desc.shared_bytes = 65536 - 256;
    expect_ok(hcq_program_create(r.dev, &desc, &prog));
    run(&r, prog, 3, (const uint32_t[]){1, 1, 1}, 64);
    assert_int_equal((uint32_t)value_at(&r, 0), 3 + 8 * 63);
    render_binary_fini(&other);
    render_binary_fini(&lds);
    close_rig(&r);
}

/* Changes a value of the notes of a kernel that stands behind its key. */
static void
change_note(struct render_binary *binary, const char *key, uint8_t value)
{
    uint8_t *data = (uint8_t *)binary->data;
    size_t n = strlen(key), i;

    for (i = 0; i + n < binary->size_bytes; i++) {
        if (memcmp(data + i, key, n) == 0) {
            data[i + n] = value;
            return;
        }
    }
    fail_msg("no %s", key);
}

/* Groups are as large as the program was compiled for, in launches and in
 * patches; what the notes say has to be what the descriptor says. */
static void
groups_as_compiled(void **state)
{
    size_t c;

    (void)state;
    for (c = 0; c < ARRAY_LEN(cards); c++) {
        struct rig r = open_rig(cards[c]);
        struct hcq_program *prog = load(r.dev, &small_kernel);
        struct render_binary binary =
            build(&small_kernel, c == 0 ? "gfx1100" : "gfx942");
        struct hcq_program_desc desc = desc_of(&small_kernel, &binary);
        struct hcq_stream *stream;
        struct hcq_cs *cs;
        uint32_t p;

        run(&r, prog, 2, (const uint32_t[]){3, 1, 1}, 64);
        assert_int_equal(value_at(&r, 0), 3 * 64 * 2);
        expect_ok(hcq_queue_begin(r.queue, &cs));
        exec_x(cs, &r, prog, 1, 1, 65);
        expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID,
                     "'small': 65x1x1 work-items in a group");
        expect_ok(hcq_stream_create(r.queue, "patched", &stream));
        p = hcq_stream_patch_point(stream, "x");
        exec_x(hcq_stream_cs(stream), &r, prog, 1, 1, 1);
        hcq_cs_patch(hcq_stream_cs(stream), HCQ_FIELD_LOCAL, p, 0);
        expect_ok(hcq_stream_end(stream));
        expect_fails(hcq_stream_patch(stream, p, 65), BELL_E_INVALID,
                     "must be 1 to 64");
        desc.local[0] = 65;
        desc.local[1] = desc.local[2] = 1;
        expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                     "'small': 65x1x1 work-items in a group; as compiled, it "
                     "takes 64");
        desc.local[0] = 64;
        expect_ok(hcq_program_create(r.dev, &desc, &prog));
        change_note(&binary, ".group_segment_fixed_size", 8);
        expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                     "'small.kd' has 0 bytes of LDS, and 8 in the notes");
        change_note(&binary, ".group_segment_fixed_size", 0xc1);
        expect_fails(hcq_program_create(r.dev, &desc, &prog), BELL_E_INVALID,
                     "section '.note': malformed at 0x");
        render_binary_fini(&binary);
        close_rig(&r);
    }
}

static void
refused(void **state)
{
    struct rig r = open_rig(cards[0]);
    struct hcq_queue_desc desc = {.struct_size = sizeof(desc)};
    struct hcq_stream *stream;
    struct hcq_queue *queue;
    struct hcq_cs *cs;
    uint32_t i;

    (void)state;
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_copy(cs, 1ull << 48, r.out->va, 4);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID,
                 "copy to of 4 bytes at 0x1000000000000: AMD:0@sim:gfx1100 "
                 "addresses less than 0x1000000000000");
    expect_ok(hcq_queue_begin(r.queue, &cs));
    hcq_cs_poll(cs, (1ull << 48) + 4, 1, 1);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "poll of 4 bytes");
    expect_ok(hcq_stream_create(r.copy, "vast", &stream));
    hcq_cs_copy(hcq_stream_cs(stream), 0, 0, (1ull << 48) - 1);
    expect_fails(hcq_stream_end(stream), BELL_E_INVALID,
                 "stream 'vast': a transfer of 281474976710655 bytes");
    desc.ring_size_bytes = 5000;
    expect_fails(hcq_queue_create_with(r.dev, &desc, &queue), BELL_E_INVALID,
                 "ring of 5000 bytes");
    desc.ring_size_bytes = 4096;
    expect_ok(hcq_queue_create_with(r.dev, &desc, &queue));
    expect_ok(hcq_queue_begin(queue, &cs));
    for (i = 0; i < 1000; i++)
        hcq_cs_write(cs, r.out->va, i, 32);
    expect_fails(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "larger than");
    expect_ok(hcq_queue_begin(queue, &cs));
    hcq_cs_write(cs, r.out->va, 12345, 32);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_queue_wait(queue, LONG_NS));
    assert_int_equal((uint32_t)value_at(&r, 0), 12345);
    close_rig(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_path_is_free),
        cmocka_unit_test(counters_count),
        cmocka_unit_test(random_streams),
        cmocka_unit_test(patched_shapes),
        cmocka_unit_test(patched_too_large),
        cmocka_unit_test(patched_transfers),
        cmocka_unit_test(kernels),
        cmocka_unit_test(scratch_moves),
        cmocka_unit_test(rings_wrap),
        cmocka_unit_test(many_launches),
        cmocka_unit_test(long_stream),
        cmocka_unit_test(many_submissions),
        cmocka_unit_test(reports_name_commands),
        cmocka_unit_test(bad_programs),
        cmocka_unit_test(groups_as_compiled),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
