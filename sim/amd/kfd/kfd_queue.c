/* Queues: every size is checked as the kernel of 6.12 and later does.
 * src: docs/hardware/amd-kernel.md, "Queues", "Simulated rules". */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"

#include "base/bits.h"
#include "ioctl/kfd_uapi.h"
#include "sim/amd/kfd/kfd.h"

/* Sizes that the kernel computes for a chip. */
struct save_sizes {
    uint64_t control_stack, save, total;
};

/* Bytes of a compute unit's vector registers, as the kernel has them. src:
 * Linux, kfd_queue.c, kfd_get_vgpr_size_per_cu */
static uint64_t
vgpr_bytes(uint32_t version, bool is_old)
{
    switch (version) {
    case 90008:
    case 90010:
    case 90402:
        return 0x80000;
    case 110000:
    case 110001:
    case 120000:
    case 120001:
        return 0x60000;
    case 110501:
        return is_old ? 0x40000 : 0x60000;
    default:
        return 0x40000;
    }
}

/* src: docs/hardware/amd-kernel.md, "Save area" */
static struct save_sizes
save_sizes(const struct amdsim_chip *chip, bool is_old)
{
    bool gfx9 = chip->gfx == 9;
    uint64_t cu = chip->simd_count / chip->simd_per_cu / chip->n_xcc;
    uint64_t vgpr = vgpr_bytes(chip->gfx_target_version, is_old), lds = 0x10000,
             waves, data;
    struct save_sizes s;

    waves = cu * 32;
    if (gfx9) {
        uint64_t by_array =
            chip->array_count / chip->simd_arrays_per_engine * 512;
        waves = cu * 40 < by_array ? cu * 40 : by_array;
    }
    data = align_up(cu * (vgpr + 0x4000 + lds + 0x1000), 4096);
    s.control_stack = align_up(40 + waves * (gfx9 ? 8 : 12) + 8, 4096);
    if (chip->gfx == 10 && s.control_stack > 0x7000)
        s.control_stack = 0x7000;
    s.save = s.control_stack + data;
    s.total = align_up((s.save + align_up(waves * 32, 64)) * chip->n_xcc, 4096);
    return s;
}

/* ---- checks ---- */

static struct kfd_buffer *
mapped_at(struct kfd_process *p, uint32_t card, uint64_t va, const char *what)
{
    struct kfd_buffer *buf = kfd_find_va(p, card, va);

    assert(card < p->machine->n_cards);
    if (buf)
        return buf;
    (void)kfd_fail(EINVAL, "%s at 0x%llx is not mapped to the card", what,
                   (unsigned long long)va);
    return NULL;
}

/* A mapping that begins there and has that very size. */
static int
check_exact(struct kfd_process *p, uint32_t card, uint64_t va, uint64_t bytes,
            const char *what)
{
    const struct kfd_buffer *buf = mapped_at(p, card, va, what);

    assert(card < p->machine->n_cards);
    if (!buf)
        return -EINVAL;
    if (buf->va != va || buf->size_bytes != bytes)
        return kfd_fail(EINVAL,
                        "%s of %llu bytes at 0x%llx: the mapping there is of "
                        "%llu at 0x%llx",
                        what, (unsigned long long)bytes, (unsigned long long)va,
                        (unsigned long long)buf->size_bytes,
                        (unsigned long long)buf->va);
    return 0;
}

static int
check_pointer(struct kfd_process *p, uint32_t card, uint64_t va,
              const char *what)
{
    const struct kfd_buffer *buf = mapped_at(p, card, va, what);

    assert(card < p->machine->n_cards);
    if (!buf)
        return -EINVAL;
    if (buf->size_bytes != KFD_PAGE || va % 8)
        return kfd_fail(EINVAL,
                        "%s at 0x%llx is not in a mapping of one page (%llu "
                        "bytes)",
                        what, (unsigned long long)va,
                        (unsigned long long)buf->size_bytes);
    return 0;
}

static int
check_numbers(const struct kfd_process *p, const struct kfd_create_queue *args,
              uint32_t *ring)
{
    uint32_t most_type = p->machine->kfd_minor >= 17 ? KFD_QUEUE_SDMA_ENGINE
                                                     : KFD_QUEUE_SDMA_XGMI;

    if ((args->percentage & 0xff) > 100)
        return kfd_fail(EINVAL, "%u per cent", args->percentage & 0xff);
    if (args->priority > 15)
        return kfd_fail(EINVAL, "priority %u", args->priority);
    *ring = args->ring_bytes < 1024 ? 1024 : args->ring_bytes;
    if (args->ring_bytes == 0 || (args->ring_bytes & (args->ring_bytes - 1)))
        return kfd_fail(EINVAL, "ring of %u bytes, not a power of two",
                        args->ring_bytes);
    if (args->type > most_type)
        return kfd_fail(524, "queue type %u", args->type);
    return 0;
}

/* What compute queues have beyond the others. */
static int
check_compute(struct kfd_process *p, uint32_t card,
              const struct kfd_create_queue *args)
{
    struct save_sizes want =
        save_sizes(p->machine->chip, p->machine->exact_saves);
    int result;

    assert(card < p->machine->n_cards);
    if (args->eop_va) {
        if (args->eop_bytes != KFD_PAGE)
            return kfd_fail(EINVAL, "end-of-pipe buffer of %llu bytes",
                            (unsigned long long)args->eop_bytes);
        result =
            check_exact(p, card, args->eop_va, KFD_PAGE, "end-of-pipe buffer");
        if (result < 0)
            return result;
    }
    if (args->control_stack_bytes != want.control_stack)
        return kfd_fail(EINVAL, "control stack of 0x%x bytes, not 0x%llx",
                        args->control_stack_bytes,
                        (unsigned long long)want.control_stack);
    if (p->machine->exact_saves && args->save_bytes != want.save)
        return kfd_fail(EINVAL, "save area of 0x%x bytes, not 0x%llx",
                        args->save_bytes, (unsigned long long)want.save);
    if (args->save_bytes < want.save)
        return kfd_fail(EINVAL, "save area of 0x%x bytes, 0x%llx are needed",
                        args->save_bytes, (unsigned long long)want.save);
    return check_exact(p, card, args->save_va,
                       want.total + (args->save_bytes - want.save) *
                                        p->machine->chip->n_xcc,
                       "save area");
}

/* A word that was for nothing says how large a ring's metadata is, from KFD
 * 1.22 on; here no ring has any. src: Linux 7.3, kfd_ioctl.h,
 * metadata_ring_size */
static int
check_metadata(const struct kfd_process *p, const struct kfd_create_queue *args)
{
    if (p->machine->kfd_minor >= 22 && args->metadata_bytes)
        return kfd_fail(EINVAL, "a ring with %u bytes of metadata",
                        args->metadata_bytes);
    return 0;
}

static int
check_queue(struct kfd_process *p, uint32_t card,
            const struct kfd_create_queue *args, uint32_t *out_ring)
{
    int result = check_numbers(p, args, out_ring);

    assert(card < p->machine->n_cards);
    if (result == 0)
        result = check_metadata(p, args);
    if (result == 0)
        result = check_exact(p, card, args->ring_va, *out_ring, "ring");
    if (result == 0)
        result = check_pointer(p, card, args->rptr_va, "read pointer");
    if (result == 0)
        result = check_pointer(p, card, args->wptr_va, "write pointer");
    if (result == 0 &&
        (args->type == KFD_QUEUE_PM4 || args->type == KFD_QUEUE_AQL))
        result = check_compute(p, card, args);
    return result;
}

/* ---- copy engines ---- */

/* A queue of an engine, of `n` from `first` on, that the whole machine has
 * free; in turns over the engines. src: Linux 6.12, allocate_sdma_queue: the
 * first free bit, of which the remainder by the number of engines is the
 * engine */
static int
take_slot(struct kfd_machine *machine, struct kfd_queue *queue, uint32_t first,
          uint32_t n)
{
    uint32_t slot, i;

    assert(first + n <= 32 && machine->chip->n_sdma_queues <= 64);
    for (slot = 0; slot < machine->chip->n_sdma_queues; slot++) {
        for (i = first; i < first + n; i++) {
            if (machine->engine_queues[queue->card][i] >> slot & 1)
                continue;
            machine->engine_queues[queue->card][i] |= 1ull << slot;
            queue->engine = i;
            queue->slot = slot;
            return 0;
        }
    }
    return kfd_fail(ENOMEM, "no queue of copy engines %u to %u is left", first,
                    first + n);
}

static void
give_slot(struct kfd_machine *machine, const struct kfd_queue *queue)
{
    if (queue->is_sdma)
        machine->engine_queues[queue->card][queue->engine] &=
            ~(1ull << queue->slot);
}

static int
take_engine(struct kfd_machine *machine, struct kfd_queue *queue,
            const struct kfd_create_queue *args)
{
    uint32_t n = kfd_n_sdma(machine), n_xgmi = kfd_n_sdma_xgmi(machine);
    int result;

    if (args->type == KFD_QUEUE_PM4 || args->type == KFD_QUEUE_AQL)
        return 0;
    if (args->type == KFD_QUEUE_SDMA)
        result = take_slot(machine, queue, 0, n);
    else if (args->type == KFD_QUEUE_SDMA_XGMI)
        result = take_slot(machine, queue, n, n_xgmi);
    else if (args->sdma_engine >= n + n_xgmi)
        return kfd_fail(EINVAL, "copy engine %u of %u", args->sdma_engine,
                        n + n_xgmi);
    else
        result = take_slot(machine, queue, args->sdma_engine, 1);
    queue->is_sdma = result == 0;
    return result;
}

/* ---- doorbells ---- */

static int
take_doorbell(struct kfd_vm *vm)
{
    uint32_t i;

    assert(vm->doorbells);
    for (i = 0; i < KFD_DOORBELL_BYTES / 8; i++) {
        if (!(vm->doorbell_used[i / 64] >> i % 64 & 1)) {
            vm->doorbell_used[i / 64] |= 1ull << i % 64;
            /* no value that a driver may store */
            __atomic_store_n(&vm->doorbells[i], UINT64_MAX, __ATOMIC_RELEASE);
            return (int)i;
        }
    }
    return kfd_fail(ENOSPC, "no doorbell is left");
}

static void
give_doorbell(struct kfd_vm *vm, uint32_t doorbell)
{
    assert(doorbell / 64 < ARRAY_LEN(vm->doorbell_used));
    vm->doorbell_used[doorbell / 64] &= ~(1ull << doorbell % 64);
}

/* ---- taking queues off the hardware ---- */

/* What the kernel waits for a queue to leave, and what stands for it here.
 * src: Linux 6.12, amdgpu_drv.c, queue_preemption_timeout_ms */
#define UNMAP_NS     9000000000ull
#define UNMAP_LOOKS  40
#define UNMAP_NAP_NS 500000

/* Queues that have to leave the card for a change: where the scheduler's run
 * list is rebuilt (up to gfx10) all of it, else the one that goes. */
static bool
must_leave(const struct kfd_queue *queue, const struct kfd_queue *goes,
           uint32_t card)
{
    bool all = queue->process->machine->chip->gfx < 11;

    return queue->card == card && (all || queue == goes);
}

/* The most that one of them does. */
static enum amdsim_doing
look_at_queues(const struct kfd_machine *machine, const struct kfd_queue *goes,
               uint32_t card)
{
    enum amdsim_doing most = AMDSIM_IDLE, doing;
    const struct kfd_process *p;
    size_t i;

    for (p = machine->processes; p; p = p->next) {
        for (i = 0; i < p->n_queues; i++) {
            if (!must_leave(p->queues[i], goes, card))
                continue;
            doing = amdsim_queue_doing(p->queues[i]->queue);
            most = doing > most ? doing : most;
        }
    }
    return most;
}

/* A queue comes, or `goes`. One that runs leaves in the middle of a kernel; one
 * that stands in a wait is given 9 s of the card's time to end it, and then the
 * kernel resets the card. guess: that firmware does not leave a plain wait;
 * behind the option `waits=block`. src: Linux 6.12, unmap_queues_cpsch */
static int
unmap_queues(struct kfd_machine *machine, const struct kfd_queue *goes,
             uint32_t card)
{
    const struct timespec nap = {0, UNMAP_NAP_NS};
    enum amdsim_doing doing = AMDSIM_RUNS;
    int i;

    if (!machine->waits_block)
        return 0;
    for (i = 0; i < UNMAP_LOOKS && doing != AMDSIM_IDLE; i++) {
        doing = look_at_queues(machine, goes, card);
        if (doing != AMDSIM_IDLE)
            nanosleep(&nap, NULL);
    }
    if (doing != AMDSIM_STANDS)
        return 0;
    amdsim_pass_time(machine->cards[card].gpu, UNMAP_NS);
    kfd_card_reset_locked(&machine->cards[card]);
    return kfd_fail(ETIME, "a queue that waits was not preempted in 9 s: the "
                           "card is reset");
}

/* ---- life ---- */

static enum amdsim_queue_kind
kind_of(uint32_t type)
{
    if (type == KFD_QUEUE_PM4)
        return AMDSIM_QUEUE_PM4;
    return type == KFD_QUEUE_AQL ? AMDSIM_QUEUE_AQL : AMDSIM_QUEUE_SDMA;
}

static int
add_queue(struct kfd_process *p, struct kfd_queue *queue,
          const struct kfd_create_queue *args, uint32_t ring_bytes)
{
    struct kfd_vm *vm = &p->vms[queue->card];
    struct amdsim_queue_desc desc = {
        .space = vm->space,
        .kind = kind_of(args->type),
        .ring_va = args->ring_va,
        .ring_bytes = ring_bytes,
        .rptr_va = args->rptr_va,
        .wptr_va = args->wptr_va,
        .eop_va = args->eop_va,
        .doorbell = &vm->doorbells[queue->doorbell],
        .interrupt = kfd_interrupt,
        .fault = kfd_queue_fault,
        .user = queue,
    };

    assert(is_pow2(ring_bytes));
    if (amdsim_queue_create(p->machine->cards[queue->card].gpu, &desc,
                            &queue->queue) != BELL_OK)
        return kfd_fail(ENOMEM, "%s", bell_error_last()->message);
    p->queues[p->n_queues++] = queue;
    vm->n_queues++;
    return 0;
}

int
kfd_do_create_queue(struct kfd_process *p, void *arg)
{
    struct kfd_create_queue *args = arg;
    struct kfd_card *card = kfd_card_of(p, args->gpu_id);
    struct kfd_queue *queue;
    uint32_t ring_bytes = 0;
    int result, doorbell;

    if (!card)
        return -EINVAL;
    if (!p->vms[card->index].space)
        return kfd_fail(EINVAL, "ACQUIRE_VM comes first");
    result = check_queue(p, card->index, args, &ring_bytes);
    if (result == 0)
        result = unmap_queues(p->machine, NULL, card->index);
    if (result < 0)
        return result;
    queue = host_calloc(1, sizeof(*queue));
    if (!queue || host_grow((void **)&p->queues, &p->cap_queues,
                            p->n_queues + 1, sizeof(*p->queues)) != 0) {
        host_free(queue);
        return kfd_fail(ENOMEM, "no memory for a queue");
    }
    doorbell = take_doorbell(&p->vms[card->index]);
    queue->id = p->next_queue++;
    queue->card = card->index;
    queue->process = p;
    if (args->type == KFD_QUEUE_PM4 || args->type == KFD_QUEUE_AQL)
        queue->save_va = args->save_va;
    queue->doorbell = (uint32_t)doorbell;
    result = doorbell < 0 ? doorbell : take_engine(p->machine, queue, args);
    if (result == 0)
        result = add_queue(p, queue, args, ring_bytes);
    if (result < 0) {
        give_slot(p->machine, queue);
        if (doorbell >= 0)
            give_doorbell(&p->vms[card->index], queue->doorbell);
        host_free(queue);
        return result;
    }
    args->queue_id = queue->id;
    args->doorbell_offset = 3ull << 62 | (uint64_t)card->gpu_id << 46 |
                            (uint64_t)queue->doorbell * 8;
    return 0;
}

void
kfd_drop_queue(struct kfd_process *p, struct kfd_queue *queue)
{
    struct kfd_vm *vm = &p->vms[queue->card];
    size_t i;

    assert(p->n_queues > 0 && queue->card < p->machine->n_cards);
    amdsim_queue_destroy(queue->queue);
    give_slot(p->machine, queue);
    give_doorbell(vm, queue->doorbell);
    for (i = 0; i < p->n_queues; i++) {
        if (p->queues[i] == queue)
            p->queues[i] = p->queues[--p->n_queues];
    }
    vm->n_queues--;
    host_free(queue);
}

static struct kfd_queue *
kfd_find_queue(struct kfd_process *p, uint32_t id)
{
    size_t i;

    for (i = 0; i < p->n_queues; i++) {
        if (p->queues[i]->id == id)
            return p->queues[i];
    }
    (void)kfd_fail(EINVAL, "no queue %u", id);
    return NULL;
}

int
kfd_do_destroy_queue(struct kfd_process *p, void *arg)
{
    const struct kfd_queue_ref *args = arg;
    struct kfd_queue *queue = kfd_find_queue(p, args->queue_id);

    int result;

    if (!queue)
        return -EINVAL;
    result = unmap_queues(p->machine, queue, queue->card);
    kfd_drop_queue(p, queue); /* also where it did not leave */
    return result;
}

int
kfd_do_update_queue(struct kfd_process *p, void *arg)
{
    const struct kfd_update_queue *args = arg;

    if (!kfd_find_queue(p, args->queue_id))
        return -EINVAL;
    if (args->percentage > 100 || args->priority > 15)
        return kfd_fail(EINVAL, "%u per cent, priority %u", args->percentage,
                        args->priority);
    return 0;
}
