/* The devices of a context that has several: the runtime's of each, and what
 * they exchange.
 *
 * Place 0's runtime is the context's: it has the plans and the kernels, whose
 * programs are loaded on every device. The others have a queue, memory and what
 * is in flight.
 */
#ifndef BELL_TENSOR_RUNTIME_MESH_PLACES_H
#define BELL_TENSOR_RUNTIME_MESH_PLACES_H

#include "tensor/mesh/split.h"
#include "tensor/runtime/run.h"
#include "tensor/runtime/sum.h"

/* In place of a kernel's number: what places exchange (split.h). */
#define RT_COLLECTIVE (UINT32_MAX - 1)

struct mesh_exchange;
struct mesh_known;

struct rt_places {
    uint32_t n;
    struct tensor_runtime *list[BELL_MESH_PLACES];
    struct tensor_sums *sums;
    struct mesh_exchange **exchanges; /* owned: each made once */
    size_t n_exchanges, cap_exchanges;
    struct map known_of;       /* hash of a structure and its leaves' layouts ->
                          * newest of known[] */
    struct mesh_known **known; /* owned */
    size_t n_known, cap_known;
    struct rt_value *values; /* scratch of mesh_number */
    struct tensor_buffer **leaves;
    size_t cap_values, cap_leaves;
};

/* ---- mesh_places.c ---- */

/* Is it the name of several devices? */
bool mesh_is_list(const char *name);
/* tensor_device_open of those: ctx->mesh and ctx->runtime->places. */
BELL_MUST_CHECK bell_status mesh_open(struct bell_context *ctx,
                                      const char *name);
/* Loads what was compiled for place 0 on the others. */
BELL_MUST_CHECK bell_status mesh_load(struct tensor_runtime *rt,
                                      const struct rt_job *job,
                                      struct rt_kernel *kernel);
void mesh_unload(struct rt_kernel *kernel);
/* Waits for what is queued, and ends what places exchange: before programs and
 * memory go. A failure is not told. */
void mesh_settle(struct rt_places *places);
/* Closes the other devices, whose memory and programs are gone. NULL is
 * allowed. */
void mesh_close(struct rt_places *places);
/* That of a device that is lost. */
BELL_MUST_CHECK bell_status mesh_status(const struct rt_places *places);

/* ---- mesh_memory.c ---- */

/* Memory of all places for a buffer, each of its part. */
BELL_MUST_CHECK bell_status mesh_memory_alloc(struct rt_places *places,
                                              struct tensor_buffer *buf);
void mesh_memory_free(struct rt_places *places, struct tensor_buffer *buf);
BELL_MUST_CHECK bell_status mesh_memory_write(struct rt_places *places,
                                              const struct tensor_mesh *mesh,
                                              struct tensor_buffer *buf,
                                              const void *src);
BELL_MUST_CHECK bell_status mesh_memory_read(struct rt_places *places,
                                             const struct tensor_mesh *mesh,
                                             struct tensor_buffer *buf,
                                             void *dst);
/* Gives memory to a buffer whose values the host has, and writes them: to each
 * place its part. */
BELL_MUST_CHECK bell_status mesh_memory_settle(struct tensor_buffer *buf);
/* Bytes that each place has of the buffer. */
uint64_t mesh_place_bytes(const struct tensor_mesh *mesh,
                          const struct tensor_buffer *buf);

/* ---- mesh_run.c ---- */

/* Makes run->graph that of a place; copies (or NULL) as mesh_split. A status of
 * BELL_E_UNSUPPORTED where run->clashes. */
BELL_MUST_CHECK bell_status mesh_run_split(struct rt_run *run,
                                           struct mesh_copies *copies);
void mesh_run_end(struct rt_run *run);
/* The parts of the plan's buffer i, a root, and how many elements all of it
 * has. */
uint64_t mesh_result_parts(const struct rt_run *run, const struct rt_plan *plan,
                           uint32_t i,
                           struct tensor_part parts[BELL_MESH_AXES]);
/* Memory for it. */
BELL_MUST_CHECK bell_status mesh_result(struct rt_run *run,
                                        const struct rt_plan *plan, uint32_t i,
                                        struct tensor_buffer **out_buf);
/* rt_replay's work once the results have memory. */
BELL_MUST_CHECK bell_status mesh_replay(struct rt_run *run,
                                        struct rt_plan *plan);

/* ---- mesh_known.c ---- */

/* rt_number of the graph of a place, which is split from the context's where
 * that structure, with leaves in these layouts, is met for the first time. */
BELL_MUST_CHECK bell_status mesh_number(struct rt_run *run,
                                        const struct uop **out_sink);
void mesh_known_fini(struct rt_places *places);

/* ---- mesh_exchange.c ---- */

/* A place's side of an exchange. */
struct mesh_side {
    struct hcq_buffer *buf;
    uint64_t offset;
};

/* Queues the collective of `call` between all places, behind what is queued. By
 * place: n_in elements from ins[], n_out to outs[]. */
BELL_MUST_CHECK bell_status mesh_exchange_run(struct rt_places *places,
                                              const struct mesh_call *call,
                                              enum uop_dtype dtype,
                                              uint64_t n_in, uint64_t n_out,
                                              const struct mesh_side *ins,
                                              const struct mesh_side *outs);
/* The same of several sums at once, of so many elements each. Sides are by
 * part, and in that by place. */
BELL_MUST_CHECK bell_status mesh_exchange_run_bucket(
    struct rt_places *places, const struct mesh_call *call,
    enum uop_dtype dtype, const uint64_t *part_elems, uint32_t n_parts,
    const struct mesh_side *ins, const struct mesh_side *outs);
/* Adds to a graph the same between the places that differ from `first`, the
 * lowest of them, in the coordinate of the call alone. Memory lives as long as
 * the collective. */
BELL_MUST_CHECK bell_status mesh_exchange_add(
    struct rt_places *places, struct hcq_graph *graph,
    const struct mesh_call *call, enum uop_dtype dtype, uint64_t n_in,
    uint64_t n_out, uint32_t first, const struct mesh_side *ins,
    const struct mesh_side *outs, struct hcq_collective **out);
/* Bytes between devices, or through the host, of one that was added. */
uint64_t mesh_exchange_moved(const struct hcq_collective *collective);
/* Ends all of them; nothing is in flight. */
void mesh_exchange_fini(struct rt_places *places);

#endif
