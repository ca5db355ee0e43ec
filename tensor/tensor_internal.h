/* Shared by the files of tensor/ only.
 *
 * A tensor is a handle: context, node, shape. Public calls check their
 * arguments, build T-stage nodes in the context's graph and wrap the result
 * in a new handle of the innermost scope.
 *
 * Safe points. Nodes move when the graph is compacted and buffers go when
 * nothing that lives reaches them. Both happen only inside
 * tensor_collect, which is called at safe points: scope begin and end,
 * release, and the end of tensor_realize's public callers. Between safe
 * points code may hold plain uop pointers.
 */
#ifndef BELL_TENSOR_TENSOR_INTERNAL_H
#define BELL_TENSOR_TENSOR_INTERNAL_H

#include "base/status.h"
#include "doorbell/tensor.h"
#include "uops/uop.h"

/* ---- storage ---- */

/* A leaf: elements in device memory, row-major. UOP_BUFFER's arg.data.
 *
 * `refcount` counts who needs the memory: the graph (one reference while a
 * live tensor reaches the BUFFER node) and the runtime (work in flight). At 0
 * the device memory is freed. The structure itself stays, on the context's
 * list, until the graph that names it has been compacted away, so that an
 * address is never used twice in one graph. */
struct tensor_buffer {
    struct bell_context *ctx;
    struct tensor_buffer *next; /* list of the context */
    uint32_t refcount;
    enum uop_dtype dtype;
    uint64_t n_elems;
    size_t size_bytes;
    void *device_mem; /* struct hcq_buffer *; set by tensor_buffer_alloc */
    bool in_graph;    /* the graph's reference is held */
    bool mark;        /* scratch of tensor_collect */
};

/* ---- handles ---- */

enum tensor_flag {
    TENSOR_ERROR = 1u << 0,         /* the context's error tensor */
    TENSOR_WEAK = 1u << 1,          /* a bell_scalar: gives way in promotion */
    TENSOR_REQUIRES_GRAD = 1u << 2, /* bell_backward fills grad */
    TENSOR_ASSIGNED = 1u << 3,      /* changed by bell_assign, not realized */
};

struct bell_tensor {
    struct bell_context *ctx;
    const struct uop *uop;           /* in ctx->graph */
    const struct uop_dims *shape;    /* of uop, () for CONST; in ctx->graph */
    enum uop_dtype dtype;            /* of uop */
    uint32_t flags;                  /* enum tensor_flag */
    uint32_t scope;                  /* depth of the scope it belongs to */
    struct bell_tensor *grad;        /* owned, in the same scope; or NULL */
    struct bell_tensor *prev, *next; /* list of the scope */
};

struct tensor_scope {
    struct bell_tensor *tensors; /* list head; owned */
};

/* ---- context ---- */

struct bell_context {
    struct uop_graph graph;             /* stage T */
    const struct uop_dims *scalar_dims; /* () in graph */
    struct tensor_scope *scopes;        /* [0] is the context's own */
    uint32_t n_scopes;
    size_t cap_scopes;

    struct bell_tensor *free_handles; /* linked through next */
    struct tensor_chunk *chunks;      /* storage of handles */
    size_t n_tensors, n_assigned;
    struct bell_tensor error_tensor;
    struct bell_error error; /* first failure not yet reported; or BELL_OK */

    struct tensor_buffer *buffers;       /* all, freed memory included */
    size_t n_buffers, buffer_bytes;      /* with device memory */
    size_t bytes_since_collect;          /* allocated since the last one */
    size_t live_nodes, nodes_at_collect; /* at the last collection */
    size_t n_compactions;

    uint64_t seed, rng_calls; /* key and call number of random numbers */
    bool training;

    void *runtime;        /* tensor/realize.c's state */
    char device_name[64]; /* set by tensor_device_open */
};

/* ---- tensor/realize.c: the way to the device ---- */

/* Opens the device and sets ctx->runtime and ctx->device_name. */
BELL_MUST_CHECK bell_status tensor_device_open(struct bell_context *ctx,
                                               const char *name);
/* Waits for pending work and frees ctx->runtime; NULL runtime is allowed. All
 * buffers' memory was freed before. */
void tensor_device_close(struct bell_context *ctx);

/* Device memory of buf->size_bytes (which may be 0) for buf. */
BELL_MUST_CHECK bell_status tensor_buffer_alloc(struct bell_context *ctx,
                                                struct tensor_buffer *buf);
/* Frees buf->device_mem and sets it to NULL (work in flight that uses it is
 * the realizer's to wait for, or to keep it alive by a reference). */
void tensor_buffer_free(struct tensor_buffer *buf);
/* Copies in; size_bytes is buf->size_bytes. */
BELL_MUST_CHECK bell_status tensor_buffer_write(struct tensor_buffer *buf,
                                                const void *src,
                                                size_t size_bytes);
/* Waits for pending work that writes buf, then copies out. */
BELL_MUST_CHECK bell_status tensor_buffer_read(struct tensor_buffer *buf,
                                               void *dst, size_t size_bytes);
/* Schedules, compiles and queues; afterwards each tensor's uop is a BUFFER
 * node of its shape (tensor_set_buffer). Asynchronous. The tensors are of
 * ctx, none an error tensor; some may be realized already. */
BELL_MUST_CHECK bell_status tensor_realize(struct bell_context *ctx,
                                           struct bell_tensor *const *tensors,
                                           size_t n);

/* ---- tensor/context.c ---- */

/* A buffer with device memory and one (the caller's) reference. */
BELL_MUST_CHECK bell_status
tensor_buffer_create(struct bell_context *ctx, enum uop_dtype dtype,
                     uint64_t n_elems, struct tensor_buffer **out_buf);
void tensor_buffer_retain(struct tensor_buffer *buf);
/* Drops a reference; frees the device memory with the last one. */
void tensor_buffer_release(struct tensor_buffer *buf);

/* The BUFFER node of `buf` with a shape; the graph takes a reference of its
 * own. One shape per buffer. */
const struct uop *tensor_buffer_node(struct bell_context *ctx,
                                     struct tensor_buffer *buf,
                                     const struct uop_dims *shape);
/* Makes `t` denote `buf` (t's dtype and number of elements): for
 * tensor_realize. The caller keeps its reference. */
BELL_MUST_CHECK bell_status tensor_set_buffer(struct bell_tensor *t,
                                              struct tensor_buffer *buf);

/* A new handle of the innermost scope; the error tensor when out of memory or
 * `uop` is uop_failed. */
struct bell_tensor *tensor_new(struct bell_context *ctx, const struct uop *uop,
                               const struct uop_dims *shape);

/* Records the context's first failure (message "call: text") and returns the
 * error tensor. */
struct bell_tensor *tensor_fail(struct bell_context *ctx, const char *call,
                                bell_status status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same with the message that is in the thread's error record. */
struct bell_tensor *tensor_fail_last(struct bell_context *ctx,
                                     const char *call);
/* What a status-returning call does first: reports ctx->error and forgets
 * it. */
BELL_MUST_CHECK bell_status tensor_report(struct bell_context *ctx);

/* True if `t` may be used by `call`. If not, *out is what the call returns
 * (an error tensor or NULL). */
bool tensor_check(const char *call, struct bell_tensor *t,
                  struct bell_tensor **out);
/* For two and three operands: also one context. */
bool tensor_check2(const char *call, struct bell_tensor *x,
                   struct bell_tensor *y, struct bell_tensor **out);
bool tensor_check3(const char *call, struct bell_tensor *x,
                   struct bell_tensor *y, struct bell_tensor *z,
                   struct bell_tensor **out);
/* For status-returning calls: BELL_OK, or the reason, reported. */
BELL_MUST_CHECK bell_status tensor_usable(const char *call,
                                          const struct bell_tensor *t);

/* Frees buffers that no live tensor reaches and compacts the graph, if either
 * is due. Only at safe points. */
void tensor_collect(struct bell_context *ctx);

/* "(3, 4)" into buf; returns buf. */
char *tensor_shape_str(const int64_t *d, uint32_t n, char *buf,
                       size_t size_bytes);
#define TENSOR_SHAPE_STR 256
/* A temporary string of a tensor's shape, for messages. */
#define SHAPE_OF(t)                                                            \
    tensor_shape_str((t)->shape->d, (t)->shape->n,                             \
                     (char[TENSOR_SHAPE_STR]){0}, TENSOR_SHAPE_STR)
#define DTYPE_OF(t) (uop_dtype_infos[(t)->dtype].name)

#endif
