/* Small rings of hcq/amd. */
#include "amd_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/bits.h"
#include "render/llvm/amdgpu.h"

void
rig_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

void
rig_fails(bell_status status, bell_status want, const char *part)
{
    assert_int_equal(status, want);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, bell_error_last()->message);
}

/* ---- a queue with small rings -------------------------------------------- */

const struct kind ring_kinds[RING_KINDS] = {
    {"AMD@sim:gfx1100", HCQ_QUEUE_COMPUTE, false},      /* PM4 */
    {"AMD@sim:gfx1100", HCQ_QUEUE_COMPUTE, true},       /* PM4 */
    {"AMD@sim:gfx1100", HCQ_QUEUE_COPY, false},         /* SDMA 6 */
    {"AMD@sim:gfx942", HCQ_QUEUE_COMPUTE, false},       /* AQL */
    {"AMD@sim:gfx942", HCQ_QUEUE_COMPUTE, true, "aql"}, /* AQL */
    {"AMD@sim:gfx942", HCQ_QUEUE_COPY, false},          /* SDMA 4.4 */
    {"AMD@sim:gfx942*2", HCQ_QUEUE_COMPUTE, false},     /* AQL */
    {"AMD@sim:gfx942", HCQ_QUEUE_COMPUTE, true, "pm4"}, /* AQL, bound as PM4 */
};

/* counter[0] += value */
static const char count_text[] =
    "define amdgpu_kernel void @count(ptr addrspace(1) %p, i64 %value) #0 {\n"
    "  %old = atomicrmw add ptr addrspace(1) %p, i64 %value monotonic\n"
    "  ret void\n}\n"
    "attributes #0 = { nounwind "
    "\"amdgpu-flat-work-group-size\"=\"1,1024\" "
    "\"amdgpu-no-dispatch-ptr\" \"amdgpu-no-queue-ptr\" "
    "\"amdgpu-no-dispatch-id\" \"amdgpu-no-lds-kernel-id\" "
    "\"amdgpu-no-hostcall-ptr\" \"amdgpu-no-heap-ptr\" "
    "\"amdgpu-no-default-queue\" \"amdgpu-no-completion-action\" "
    "\"amdgpu-no-multigrid-sync-arg\" \"amdgpu-no-flat-scratch-init\" "
    "\"amdgpu-no-implicitarg-ptr\" }\n";

static struct hcq_program *
load_count(struct hcq_device *dev)
{
    struct amdgpu_target target = {{0}, 0};
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct render_binary binary;
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "count",
        .n_bufs = 1,
        .n_vals = 1,
    };
    struct hcq_program *prog;

    hcq_device_info(dev, &info);
    snprintf(target.gfx, sizeof(target.gfx), "%.15s", info.arch);
    rig_ok(render_amdgpu_ir(count_text, "count", &target, &binary));
    desc.binary = binary.data;
    desc.binary_size_bytes = binary.size_bytes;
    rig_ok(hcq_program_create(dev, &desc, &prog));
    render_binary_fini(&binary);
    return prog;
}

/* A page that nobody may touch, unless something is there already. */
static void *
guard(uint8_t *at)
{
    void *page = mmap(at, PAGE_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (page == at)
        return page;
    if (page != MAP_FAILED)
        munmap(page, PAGE_BYTES);
    return NULL;
}

static void
remove_guards(struct rig *r)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(r->guards); i++) {
        if (r->guards[i])
            munmap(r->guards[i], PAGE_BYTES);
        r->guards[i] = NULL;
    }
}

/* Another ring for the channel of a queue that has done nothing yet. */
void
rig_replace_ring(struct rig *r, uint32_t ring_bytes)
{
    struct amd_channel *channel = &r->queue->channel;
    struct amd_device *dev = channel->dev;
    enum amd_ring_kind kind = channel->kind;

    remove_guards(r);
    amd_channel_fini(channel);
    rig_ok(amd_channel_init(dev, kind, ring_bytes, channel));
    amd_queue_limit(r->queue);
    r->n_slots = r->queue->n_slots;
    r->guards[0] = guard((uint8_t *)channel->ring - PAGE_BYTES);
    r->guards[1] = guard((uint8_t *)channel->ring + ring_bytes);
}

struct rig
rig_open(const struct kind *kind, uint32_t push_bytes)
{
    struct hcq_queue_desc desc = {
        .struct_size = sizeof(desc),
        .kind = kind->queue,
        .ring_size_bytes = push_bytes,
    };
    struct rig r = {.kind = kind};

    if (kind->bound)
        setenv("BELL_AMD_BOUND", kind->bound, 1);
    rig_ok(hcq_device_open(kind->card, &r.dev));
    unsetenv("BELL_AMD_BOUND");
    rig_ok(hcq_queue_create_with(r.dev, &desc, &r.base));
    rig_ok(hcq_buffer_create(r.dev, COUNTERS * COUNTER_WORDS * 8,
                             HCQ_MEM_HOST_VISIBLE, &r.counters));
    r.queue = amd_queue_of(r.base);
    r.n_wake = r.queue->engine.n_wake;
    r.queue->engine.n_wake = 0;
    amd_queue_limit(r.queue);
    if (kind->by_launch)
        r.prog = load_count(r.dev);
    rig_replace_ring(&r, RING_BYTES);
    r.queue->engine.max_bytes = 8; /* of a copy packet */
    r.queue->engine.move = NULL;
    r.queue->engine.piece_dw = 2; /* every command is a piece of its own */
    return r;
}

void
rig_close(struct rig *r)
{
    remove_guards(r);
    hcq_device_close(r->dev);
}

/* ---- counters ------------------------------------------------------------ */

uint64_t
rig_counter_va(const struct rig *r, uint32_t i)
{
    return r->counters->va + (uint64_t)i * COUNTER_WORDS * 8;
}

void
rig_reset_counters(struct rig *r)
{
    volatile uint64_t *words = r->counters->host;
    uint32_t i;

    for (i = 0; i < COUNTERS * COUNTER_WORDS; i++)
        words[i] = i % COUNTER_WORDS;
}

static bool
is_write(const struct rig *r)
{
    return !r->kind->by_launch && r->queue->channel.kind == AMD_RING_AQL;
}

/* The first n ran so often, the others did not. */
void
rig_expect_counts(const struct rig *r, uint32_t n, uint64_t times)
{
    const volatile uint64_t *words = r->counters->host;
    uint32_t i;

    if (is_write(r) && times > 1)
        times = 1;
    for (i = 0; i < COUNTERS; i++) {
        if (words[i * COUNTER_WORDS] != (i < n ? times : 0))
            fail_msg("%s: command %u of %u ran %llu times", r->base->name, i, n,
                     (unsigned long long)words[i * COUNTER_WORDS]);
    }
}

struct hcq_packet
rig_count_packet(const struct rig *r, uint32_t i)
{
    uint64_t va = rig_counter_va(r, i);

    if (is_write(r))
        return (struct hcq_packet){{.op = HCQ_OP_WRITE64}, {va, 1, 0}};
    return (struct hcq_packet){{.op = HCQ_OP_COPY},
                               {va, va + 8, (COUNTER_WORDS - 1) * 8}};
}

void
rig_emit_count(struct rig *r, struct hcq_cs *cs, uint32_t i)
{
    const uint64_t args[] = {rig_counter_va(r, i), 1};
    const uint32_t one[] = {1, 1, 1};

    assert_true(i < COUNTERS);
    if (r->kind->by_launch)
        hcq_cs_exec(cs, r->prog, args, 2, one, one);
    else if (is_write(r))
        hcq_cs_write(cs, args[0], 1, 64);
    else
        hcq_cs_copy(cs, args[0], args[0] + 8, (COUNTER_WORDS - 1) * 8);
}

/* ---- submissions --------------------------------------------------------- */

/* Nothing but the release of the timeline. */
bell_status
rig_submit_release(struct rig *r)
{
    const struct hcq_extent extent = {
        .n_dw = UNIT_DW,
        .n_slots = amd_finish_slots(&r->queue->engine),
    };
    uint64_t value = r->base->n_submitted + 1;
    struct amd_push push;

    BELL_TRY(amd_queue_room(r->queue, &extent, &push));
    amd_push_finish(&push, r->base->timeline->va, value);
    r->base->cs.n_dw = 0; /* commands to be noted for reports */
    amd_queue_commit(r->queue, value, &push, NULL);
    r->base->n_submitted = value;
    return BELL_OK;
}

/* The queue does nothing until the signal is 1. */
struct hcq_signal *
rig_hold(struct rig *r)
{
    struct hcq_signal *go;
    struct hcq_cs *cs;

    rig_ok(hcq_signal_create(r->dev, 0, &go));
    rig_ok(hcq_queue_begin(r->base, &cs));
    hcq_cs_wait(cs, go, 1);
    rig_ok(hcq_cs_submit(cs, NULL));
    return go;
}

void
rig_release(struct rig *r, struct hcq_signal *go)
{
    hcq_signal_set(go, 1);
    rig_ok(hcq_queue_wait(r->base, LONG_NS));
    hcq_signal_destroy(go);
}

void
rig_put_nothing(struct rig *r, struct amd_push *push, uint32_t n_dw)
{
    if (r->queue->channel.kind == AMD_RING_SDMA)
        amd_sdma_nothing(push, n_dw);
    else
        amd_pm4_nothing(push, n_dw);
}
