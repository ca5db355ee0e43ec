/* Launches that are queued again and again, as one.
 *
 * What differs from time to time is a slot: an address or a number that
 * arguments are made of. Results are those of the launches one after the other,
 * in the order in which they were added. From the second time on they are a
 * graph (hcq/hcq_graph.h), of which the host writes what has changed.
 */
#ifndef BELL_TENSOR_RUNTIME_TAPE_H
#define BELL_TENSOR_RUNTIME_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct tensor_buffer;
struct tensor_runtime;
struct rt_tape;

#define RT_SLOT_NONE UINT32_MAX
/* Slots of a tape that is saved, and never queued: in the arena, from its
 * start; and + number of a buffer that was made of the host's data. */
#define RT_SLOT_ARENA (UINT32_MAX - 1)
#define RT_SLOT_KEPT  (1u << 31)

/* An argument of a launch. */
struct rt_arg {
    uint32_t slot;       /* RT_SLOT_NONE: always the same */
    bool is_written;     /* memory that the kernel stores to */
    uint64_t value;      /* with a slot: added to the slot's */
    uint64_t size_bytes; /* of memory; 0: a number */
    /* On a mesh (mesh_tape.h): whose memory it is, which stays, or NULL: the
     * tape's own; and a number by place, or NULL: `value`. */
    const struct tensor_buffer *buf;
    const uint64_t *words;
};

/* `varies`: what launches use of a slot's memory can be less than what their
 * arguments say. */
BELL_MUST_CHECK bell_status rt_tape_create(struct tensor_runtime *rt,
                                           uint32_t n_slots, bool varies,
                                           struct rt_tape **out_tape);
/* Before the queue, whose work with it is waited for. NULL is allowed. */
void rt_tape_destroy(struct rt_tape *tape);

/* Adds a launch of kernel number `kernel` of rt->kernel_list, or of that of its
 * class (classes.h); args has what the program takes at least. `text`: what it
 * computes, a string that stays; or NULL. */
BELL_MUST_CHECK bell_status rt_tape_add(struct rt_tape *tape, uint32_t kernel,
                                        const char *text,
                                        const struct rt_arg *args,
                                        uint32_t n_args);
/* For what is queued from now on. Every slot is set before the first time. */
void rt_tape_set(struct rt_tape *tape, uint32_t slot, uint64_t value);

/* Queues the launches; rt->last_value is then their place in the queue. */
BELL_MUST_CHECK bell_status rt_tape_submit(struct rt_tape *tape);

/* Launch number `i`, from 0: its kernel and arguments; false: there are no
 * more. */
bool rt_tape_launch(const struct rt_tape *tape, size_t i, uint32_t *out_kernel,
                    const struct rt_arg **out_args, uint32_t *out_n);

#endif
