/* Launches that are queued again and again. */
#include "tensor/runtime/tape.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tensor/runtime/run.h"

struct launch {
    uint32_t kernel, first, n_args; /* arguments, in tape->args */
};

struct rt_tape {
    struct tensor_runtime *rt;
    struct launch *launches;
    size_t n_launches, cap_launches;
    struct rt_arg *args;
    size_t n_args, cap_args;
    uint64_t *slots; /* values */
    uint32_t n_slots;
    double n_flops, n_bytes; /* of all launches */
};

bell_status
rt_tape_create(struct tensor_runtime *rt, uint32_t n_slots,
               struct rt_tape **out_tape)
{
    struct rt_tape *tape = host_calloc(1, sizeof(*tape));

    if (tape)
        tape->slots = host_calloc((size_t)n_slots + 1, sizeof(*tape->slots));
    if (!tape || !tape->slots) {
        host_free(tape);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %u slots",
                         n_slots);
    }
    tape->rt = rt;
    tape->n_slots = n_slots;
    *out_tape = tape;
    return BELL_OK;
}

void
rt_tape_destroy(struct rt_tape *tape)
{
    if (!tape)
        return;
    host_free(tape->launches);
    host_free(tape->args);
    host_free(tape->slots);
    host_free(tape);
}

bell_status
rt_tape_add(struct rt_tape *tape, uint32_t kernel, const struct rt_arg *args,
            uint32_t n_args)
{
    const struct rt_kernel *k = &tape->rt->kernel_list[kernel];

    assert(n_args == k->program->n_bufs + k->program->n_vals);
    if (host_grow((void **)&tape->launches, &tape->cap_launches,
                  tape->n_launches + 1, sizeof(*tape->launches)) != 0 ||
        host_grow((void **)&tape->args, &tape->cap_args,
                  tape->n_args + n_args + 1, sizeof(*tape->args)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu launches",
                         tape->n_launches + 1);
    tape->launches[tape->n_launches++] =
        (struct launch){kernel, (uint32_t)tape->n_args, n_args};
    memcpy(tape->args + tape->n_args, args, n_args * sizeof(*args));
    tape->n_args += n_args;
    tape->n_flops += k->n_flops;
    tape->n_bytes += k->n_bytes;
    return BELL_OK;
}

bell_status
rt_tape_end(struct rt_tape *tape)
{
    (void)tape;
    return BELL_OK;
}

void
rt_tape_set(struct rt_tape *tape, uint32_t slot, uint64_t value)
{
    assert(slot < tape->n_slots);
    tape->slots[slot] = value;
}

static void
resolve_args(const struct rt_tape *tape, const struct launch *launch,
             uint64_t *out)
{
    const struct rt_arg *args = tape->args + launch->first;
    uint32_t i;

    for (i = 0; i < launch->n_args; i++)
        out[i] = args[i].value +
                 (args[i].slot == RT_SLOT_NONE ? 0 : tape->slots[args[i].slot]);
}

bell_status
rt_tape_submit(struct rt_tape *tape)
{
    struct tensor_runtime *rt = tape->rt;
    uint64_t args[SCHED_MAX_PARAMS];
    struct rt_queue queue;
    size_t i;

    rt_queue_begin(rt, &queue);
    for (i = 0; i < tape->n_launches; i++) {
        const struct launch *launch = &tape->launches[i];
        resolve_args(tape, launch, args);
        BELL_TRY(rt_queue_kernel(&queue, launch->kernel, args, launch->n_args));
    }
    BELL_TRY(rt_queue_end(&queue));
    rt->stats.n_launches += tape->n_launches;
    rt->stats.n_flops += tape->n_flops;
    rt->stats.n_bytes += tape->n_bytes;
    return BELL_OK;
}
