/* Realizes that are noted while a function is captured, and what becomes of
 * them: a tape, and the memory of values that nobody outside sees.
 */
#ifndef BELL_TENSOR_RUNTIME_CAPTURE_H
#define BELL_TENSOR_RUNTIME_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tensor/core/tensor_internal.h"

struct bell_context;
struct rt_capture;
struct rt_tape;
struct tensor_buffer;
struct tensor_runtime;
struct uop;

/* `saves`: planned and compiled by another runtime than the context's, to be
 * saved and not to be replayed; NULL: by the context's. */
BELL_MUST_CHECK bell_status rt_capture_create(struct bell_context *ctx,
                                              struct tensor_runtime *saves,
                                              struct rt_capture **out);
/* What plans and compiles. */
struct tensor_runtime *rt_capture_runtime(const struct rt_capture *cap);
/* Work in flight may still use its memory. NULL is allowed. */
void rt_capture_destroy(struct rt_capture *cap);

/* Has the result `made`, a new value of what `old` stands for, written where
 * the old value is, if that is over by then or its kernel can do so: *out_done.
 * Nobody else wants the old value. Before slots are given. */
BELL_MUST_CHECK bell_status rt_capture_overwrite(struct rt_capture *cap,
                                                 struct tensor_buffer *old,
                                                 struct tensor_buffer *made,
                                                 bool *out_done);

/* Nothing is noted any more. Every stand-in has its slot by now; results
 * without one get memory here. Room for n_words words of 8 bytes is given anew
 * for each replay: slot `feed_slot` is where they begin. */
BELL_MUST_CHECK bell_status rt_capture_end(struct rt_capture *cap,
                                           uint32_t n_slots, uint32_t feed_slot,
                                           size_t feed_bytes);

/* Where the host puts what the next replay is fed with; waits until the device
 * has read what was there. NULL memory where nothing is fed. */
BELL_MUST_CHECK bell_status rt_capture_feed(struct rt_capture *cap,
                                            void **out_host);
/* Sets a slot for the next replay and those after it. */
BELL_MUST_CHECK bell_status rt_capture_set(struct rt_capture *cap,
                                           uint32_t slot,
                                           const struct tensor_buffer *buf);
/* Within what the next replay is fed with. */
BELL_MUST_CHECK bell_status rt_capture_set_feed(struct rt_capture *cap,
                                                uint32_t slot,
                                                size_t offset_bytes);
/* Queues it all. Does not wait for it. */
BELL_MUST_CHECK bell_status rt_capture_replay(struct rt_capture *cap);

struct rt_capture_info {
    uint32_t n_launches;
    uint64_t n_bytes; /* of device memory that it holds */
};
void rt_capture_info(const struct rt_capture *cap,
                     struct rt_capture_info *out_info);

/* BELL_OK, or the loss of the device. */
BELL_MUST_CHECK bell_status rt_capture_status(const struct bell_context *ctx);

/* The parts that places of the context's mesh will have of nodes when these are
 * realized. Computes nothing. */
BELL_MUST_CHECK bell_status rt_capture_find_parts(
    const struct bell_context *ctx, const struct uop *const *nodes, size_t n,
    struct tensor_part (*parts)[BELL_MESH_AXES]);

/* What is saved: its tape is not to be queued. */
struct rt_capture_parts {
    const struct rt_tape *tape;
    struct tensor_buffer *const *kept;
    size_t n_kept;
    const int64_t *codes; /* of symbols, in the last slots */
    size_t n_codes;
    uint64_t arena_bytes;
};
void rt_capture_parts(const struct rt_capture *cap,
                      struct rt_capture_parts *out_parts);

#endif
