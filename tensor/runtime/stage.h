/* Host memory that a copy queue brings to a context's tensors, beside its
 * kernels: for loader.c.
 *
 * A stage has places of one size. The host fills one, rt_stage_send queues its
 * way into tensors' memory, and rt_stage_join has what is queued from then on
 * wait for that. A place is free again when rt_stage_is_done says so.
 */
#ifndef BELL_TENSOR_RUNTIME_STAGE_H
#define BELL_TENSOR_RUNTIME_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct bell_context;
struct rt_stage;
struct tensor_buffer;

/* Ends before the context's device does. */
BELL_MUST_CHECK bell_status rt_stage_create(struct bell_context *ctx,
                                            uint32_t n_places,
                                            uint64_t place_bytes,
                                            struct rt_stage **out_stage);
/* Waits for its copies, and for the work that was queued before the last join.
 * NULL is allowed. */
void rt_stage_destroy(struct rt_stage *stage);

/* A place's memory, aligned to 64 bytes. */
void *rt_stage_memory(const struct rt_stage *stage, uint32_t place);

/* Queues copies from offsets[i] in the place to all of bufs[i], for n tensors'
 * memory; *out_value is for the calls below. */
BELL_MUST_CHECK bell_status rt_stage_send(struct rt_stage *stage,
                                          uint32_t place,
                                          struct tensor_buffer *const *bufs,
                                          const uint64_t *offsets, uint32_t n,
                                          uint64_t *out_value);
/* The context's work from now on comes after those copies. */
BELL_MUST_CHECK bell_status rt_stage_join(struct rt_stage *stage,
                                          uint64_t value);
bool rt_stage_is_done(const struct rt_stage *stage, uint64_t value);
BELL_MUST_CHECK bell_status rt_stage_wait(struct rt_stage *stage,
                                          uint64_t value);

#endif
