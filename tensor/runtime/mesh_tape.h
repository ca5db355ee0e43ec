/* Launches of all places of a mesh, and what these exchange, as one graph that
 * is submitted again and again (hcq/hcq_graph.h).
 *
 * Memory is fixed, or that of a slot: another at each submission. A collective
 * is a piece of the graph. Submitting allocates nothing.
 */
#ifndef BELL_TENSOR_RUNTIME_MESH_TAPE_H
#define BELL_TENSOR_RUNTIME_MESH_TAPE_H

#include "tensor/runtime/mesh_places.h"
#include "tensor/runtime/tape.h"

struct mesh_tape;

/* With memory of its own of that size at each place. */
BELL_MUST_CHECK bell_status mesh_tape_create(struct tensor_runtime *rt,
                                             uint32_t n_slots,
                                             uint64_t own_bytes,
                                             struct mesh_tape **out_tape);
/* Work in flight may still use it. NULL is allowed. */
void mesh_tape_destroy(struct mesh_tape *tape);

/* Notes how much of a slot's memory an argument uses. All are noted before the
 * first kernel is added. */
void mesh_tape_note(struct mesh_tape *tape, const struct rt_arg *arg);
/* All has been noted. */
BELL_MUST_CHECK bell_status mesh_tape_begin(struct mesh_tape *tape);
BELL_MUST_CHECK bell_status mesh_tape_kernel(struct mesh_tape *tape,
                                             uint32_t kernel,
                                             const struct rt_arg *args,
                                             uint32_t n_args);
/* As mesh_exchange_run. */
BELL_MUST_CHECK bell_status mesh_tape_exchange(struct mesh_tape *tape,
                                               const struct mesh_call *call,
                                               enum uop_dtype dtype,
                                               uint64_t n_in, uint64_t n_out,
                                               const struct rt_arg *in,
                                               const struct rt_arg *out);
/* Sums of all of them as one exchange: terms in ins[], results in outs[]. */
BELL_MUST_CHECK bell_status mesh_tape_bucket(
    struct mesh_tape *tape, const struct mesh_call *call, enum uop_dtype dtype,
    const struct rt_arg *ins, const struct rt_arg *outs, uint32_t n);
BELL_MUST_CHECK bell_status mesh_tape_end(struct mesh_tape *tape);

/* For submissions from now on: memory of every place, which lives while these
 * use it. A slot that nothing uses is not looked at. */
BELL_MUST_CHECK bell_status mesh_tape_set(struct mesh_tape *tape, uint32_t slot,
                                          uint32_t place,
                                          const struct hcq_buffer *buf,
                                          uint64_t offset);
BELL_MUST_CHECK bell_status mesh_tape_submit(struct mesh_tape *tape);

#endif
