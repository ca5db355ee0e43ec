/* Shared by the files of tensor/ only.
 *
 * A tensor is a handle (handle.h), which names context, node and shape. Public
 * calls check their arguments, build T-stage nodes in the context's graph and
 * wrap the result in a new handle of the innermost scope. A call's handles are
 * first checked (tensor_check, tensor_usable); tensor_at is for handles that
 * were.
 *
 * Safe points. Nodes move when the graph is compacted and buffers go when
 * nothing that lives reaches them. Both happen only inside
 * tensor_collect, which is called at safe points: scope begin and end,
 * release, and the end of tensor_realize's public callers. Between safe
 * points code may hold plain uop pointers.
 */
#ifndef BELL_TENSOR_CORE_TENSOR_INTERNAL_H
#define BELL_TENSOR_CORE_TENSOR_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "base/status.h"
#include "base/try_lock.h"
#include "doorbell/mesh.h"
#include "doorbell/tensor.h"
#include "tensor/core/given.h"
#include "tensor/core/handle.h"
#include "tensor/core/label.h"
#include "tensor/core/dims.h"
#include "uops/uop.h"

/* ---- storage ---- */

struct bell_jit;
struct fn_params;
struct hcq_buffer;
struct tensor_mesh;
struct tensor_runtime;
struct tensor_trace;

/* What a leaf is. Stand-ins are of a function while it is captured: trace.h. */
enum tensor_role {
    TENSOR_MEMORY, /* no stand-in */
    TENSOR_INPUT,  /* of the function, by number */
    TENSOR_HANDLE, /* what a tensor from outside denotes, by number */
    TENSOR_FEED,   /* given by the host, by number */
    TENSOR_MADE,   /* result of a realize, by number */
    TENSOR_GONE    /* of a capture that has ended */
};

/* Along an axis of a mesh place c has the elements c * chunk .. (c + 1) * chunk
 * - 1 of each `block` of a tensor, as far as they are there, in room for
 * `chunk`. 0: it has all, or, where `block` is TENSOR_TERMS, a term of each
 * element: the value is the sum of all places'. */
struct tensor_part {
    uint64_t chunk, block;
};

#define TENSOR_TERMS 1

static inline bool
tensor_part_is_terms(const struct tensor_part *part)
{
    return part->chunk == 0 && part->block == TENSOR_TERMS;
}

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
    struct hcq_buffer *device_mem; /* set by tensor_buffer_alloc */
    uint64_t busy_until; /* what the queue does with the memory before that
                          * is not the buffer's; the realizer's */
    enum tensor_role role;
    uint32_t number;     /* of a stand-in */
    uint32_t slot;       /* of the tape: where the stand-in's memory is; */
    uint64_t slot_bytes; /* so many bytes behind that */
    uint32_t n_kept;     /* jits that have the value for their calls: it is not
                          * written to */
    bool is_used;        /* the stand-in, by a kernel */
    bool is_written;     /* in its memory */
    bool has_range;      /* the elements, integers, are in low..high: check.c */
    int64_t low, high;
    /* On a mesh (tensor/mesh/mesh.h): the memory of the places 1, 2, .. (owned;
     * NULL with one device), and what each place has, by axis of the mesh. */
    struct hcq_buffer **others;
    struct tensor_part parts[BELL_MESH_AXES];
    /* Until a place needs the values: the host's copy (owned), or the buffer
     * that has it. And the same values in other layouts (references), the one
     * that was asked for last first. */
    void *held;
    struct tensor_buffer *held_by, *laid, *next_laid;
    bool is_blob;                /* the memory is a caller's, to be released */
    void (*release)(void *user); /* of a blob; or NULL */
    void *release_user;
    bool in_graph; /* the graph's reference is held */
    bool mark;     /* scratch of tensor_collect */
};

/* What a buffer counts for when collection is decided: its bytes, and a page
 * where it is smaller. */
static inline size_t
tensor_buffer_cost(const struct tensor_buffer *buf)
{
    return buf->size_bytes < 4096 ? 4096 : buf->size_bytes;
}

/* ---- handles ---- */

enum tensor_flag {
    TENSOR_ERROR = 1u << 0,         /* the context's error tensor */
    TENSOR_WEAK = 1u << 1,          /* a bell_scalar: gives way in promotion */
    TENSOR_REQUIRES_GRAD = 1u << 2, /* bell_backward fills grad */
    TENSOR_ASSIGNED = 1u << 3,      /* changed by bell_assign, not realized */
    TENSOR_SPENT = 1u << 4,   /* a gradient that an optimiser's step has used */
    TENSOR_PACKED = 1u << 5,  /* as a file has it: computed where it is used, in
                              * captured functions, too */
    TENSOR_VARIES = 1u << 6,  /* has a size of a symbol */
    TENSOR_FORGETS = 1u << 8, /* was computed, and is a value in memory now */
    TENSOR_TOUCHED = 1u << 7, /* a captured function has asked for or about its
                               * gradient */
};

struct tensor_scope {
    struct tensor *tensors; /* list head; owned */
};

/* ---- context ---- */

/* The kinds of objects at addresses that are never used again (base/once.h);
 * but for contexts and files, a context is their parent. */
enum tensor_object {
    TENSOR_IS_CONTEXT = 1,
    TENSOR_IS_JIT,
    TENSOR_IS_LOADER,
    TENSOR_IS_OPTIMIZER,
    TENSOR_IS_FILE,
    TENSOR_IS_ONNX,
    TENSOR_IS_LM,
    TENSOR_IS_LM_SESSION,
};

/* Room for the name of a device, or of several. */
#define TENSOR_DEVICE_NAME 512

/* All but the lock and the error tensor is for the thread that is inside. */
struct bell_context {
    bool is_live;
    int32_t pid;                        /* of the process that made it */
    struct uop_graph graph;             /* stage T */
    const struct uop_dims *scalar_dims; /* () in graph */
    struct bell_error node_error;       /* why node.c gave uop_failed */
    struct tensor_rule *rules;          /* gradients that differ: gradient.h */
    size_t n_rules, cap_rules;
    struct map rule_of;      /* node id -> index in rules */
    uint32_t n_custom_calls; /* of callers' functions that are under way: nodes
                              * stay where they are */

    struct tensor_scope *scopes;      /* [0] is the context's own */
    uint32_t n_scopes, n_base_scopes; /* which bell_scope_end leaves alone */
    size_t cap_scopes;

    /* Linked through next. The one that ended first is used first: what ended
     * a handle is known for long. */
    struct tensor *free_slots, *last_free;
    struct tensor_chunk *chunks; /* owned while the context lives */
    size_t n_tensors, n_assigned;
    uint64_t n_handles;  /* made so far */
    uint64_t n_denoted;  /* times that a handle came to denote a node */
    uint64_t n_unpacked; /* of those, outside captured functions, when it had
                          * been TENSOR_PACKED */
    struct bell_tensor *error_tensor; /* in no scope */
    struct bell_error error; /* first failure not yet reported; or BELL_OK */

    struct tensor_buffer *buffers;  /* all, freed memory included */
    size_t n_buffers, buffer_bytes; /* with device memory */
    size_t bytes_since_collect; /* of buffers made, and of dropped handles' */
    size_t n_dropped;           /* handles since the last collection */
    size_t live_nodes, nodes_at_collect; /* at the last collection */
    size_t n_compactions;

    struct tensor_labels labels;
    struct dim_table *dims;   /* owned: sizes of symbols */
    uint64_t seed, rng_calls; /* key and call number of random numbers */
    bool training, checks_index;
    uint32_t math; /* what is allowed: enum bell_math */

    struct arena functions; /* parsed parameters of the function table */
    const struct fn_params **params_of; /* by row, in there; or NULL */
    struct tensor_givens givens;        /* kernels of the caller's */
    struct bell_jit *jits;              /* a list */
    struct bell_loader *loaders;        /* likewise */
    /* End all of these, which stay until they are destroyed. Set with the first
     * of them, so that what opens and closes devices need not know them. */
    void (*end_jits)(struct bell_context *ctx);
    void (*end_loaders)(struct bell_context *ctx);
    struct tensor_trace *trace; /* of the function that is captured, or NULL */
    struct tensor_runtime *runtime; /* owned; tensor/runtime/runtime.h */
    struct tensor_mesh *mesh;       /* owned; NULL: one device, not named */
    char device_name[TENSOR_DEVICE_NAME]; /* set by tensor_device_open */
    struct try_lock lock;                 /* taken by public calls: entry.h */
};

/* ---- tensor/core/math.c ---- */

/* Sets ctx->math to what BELL_MATH says. */
BELL_MUST_CHECK bell_status tensor_math_init(struct bell_context *ctx);

/* ---- tensor/core/check.c ---- */

/* Sets ctx->checks_index to what BELL_CHECK says. */
BELL_MUST_CHECK bell_status tensor_check_init(struct bell_context *ctx);
/* Keeps the least and greatest of the data that `buf` is made of. */
void tensor_note_range(struct tensor_buffer *buf, const void *data);
/* The memory is written in place. */
void tensor_forget_range(struct tensor_buffer *buf);
/* What tensor_check_range ignores where nothing is. */
#define TENSOR_IGNORE_NONE INT64_MIN
/* Whether the elements of `index` are in low..size-1 or `ignored`, as far as
 * they are known or BELL_CHECK asks for them; false after a failure of `call`,
 * which names one. `what` they are: "index", along `axis`. A safe point. */
bool tensor_check_range(const char *call, struct bell_tensor *index,
                        const char *what, int axis, int64_t low, int64_t size,
                        int64_t ignored);

/* ---- tensor/runtime/realize.c: the way to the device ---- */

/* Opens the device and sets ctx->runtime and ctx->device_name. Its kernels are
 * compiled for ctx->math. */
BELL_MUST_CHECK bell_status tensor_device_open(struct bell_context *ctx,
                                               const char *name);
/* The bits of enum bell_math that make a difference on the device. */
uint32_t tensor_device_math(const struct bell_context *ctx);
bool tensor_device_is_cpu(const struct bell_context *ctx);
/* How many of its keys, 2^n, a kernel that sorts has at hand on the device. */
uint32_t tensor_device_sort_bits(const struct bell_context *ctx);
/* Whether the device computes in float64. */
bool tensor_device_has_f64(const struct bell_context *ctx);
/* What memory that is not the library's must be aligned to, in bytes. */
uint32_t tensor_device_blob_align(const struct bell_context *ctx,
                                  uint32_t elem_bytes);
#define TENSOR_BLOB_ALIGN 64 /* of memory that kernels may store to */
/* Kernels are those for `math` from now on. A failure changes nothing. */
void tensor_device_set_timeout(struct bell_context *ctx, double seconds);
BELL_MUST_CHECK bell_status tensor_device_set_math(struct bell_context *ctx,
                                                   uint32_t math);
/* Ends what sends data to buffers, before their memory is freed. NULL runtime
 * is allowed. */
void tensor_device_settle(struct bell_context *ctx);
/* Waits for pending work and frees ctx->runtime; NULL runtime is allowed. All
 * buffers' memory was freed before. */
void tensor_device_close(struct bell_context *ctx);
/* Whether the process has the context from its parent, by a fork. */
bool tensor_device_is_inherited(const struct bell_context *ctx);

/* Device memory of buf->size_bytes (which may be 0) for buf. */
BELL_MUST_CHECK bell_status tensor_buffer_alloc(struct bell_context *ctx,
                                                struct tensor_buffer *buf);
/* The caller's memory as that; buf->is_blob is set. */
BELL_MUST_CHECK bell_status tensor_buffer_pin(struct bell_context *ctx,
                                              struct tensor_buffer *buf,
                                              void *data);
/* Frees buf->device_mem and sets it to NULL (work in flight that uses it is
 * the realizer's to wait for, or to keep it alive by a reference). */
void tensor_buffer_free(struct tensor_buffer *buf);
/* Has it several devices? */
bool tensor_device_is_mesh(const struct bell_context *ctx);
/* Gives memory to a buffer that has none yet, as the host has its values. */
BELL_MUST_CHECK bell_status tensor_buffer_settle(struct tensor_buffer *buf);
/* Copies in; size_bytes is buf->size_bytes. */
BELL_MUST_CHECK bell_status tensor_buffer_write(struct tensor_buffer *buf,
                                                const void *src,
                                                size_t size_bytes);
/* Waits for pending work that writes buf, then copies out. */
BELL_MUST_CHECK bell_status tensor_buffer_read(struct tensor_buffer *buf,
                                               void *dst, size_t size_bytes);
/* Queues that dst, of another context and as large, gets the values that src
 * has when what is queued now is done. What changes src later waits for that.
 * BELL_E_UNSUPPORTED: only the host can copy them. */
BELL_MUST_CHECK bell_status tensor_buffer_send(struct tensor_buffer *dst,
                                               struct tensor_buffer *src);
/* Schedules, compiles and queues; afterwards each tensor's uop is a BUFFER
 * node of its shape (tensor_set_buffer). Asynchronous. The tensors are of
 * ctx, none an error tensor; some may be realized already. */
BELL_MUST_CHECK bell_status tensor_realize(struct bell_context *ctx,
                                           struct bell_tensor *const *tensors,
                                           size_t n);
/* The part of it that schedules and compiles. */
BELL_MUST_CHECK bell_status tensor_compile(struct bell_context *ctx,
                                           struct bell_tensor *const *tensors,
                                           size_t n);

/* ---- tensor/core/context.c ---- */

/* A buffer with device memory and one (the caller's) reference. */
BELL_MUST_CHECK bell_status
tensor_buffer_create(struct bell_context *ctx, enum uop_dtype dtype,
                     uint64_t n_elems, struct tensor_buffer **out_buf);
/* The same of which each place of the context's mesh has those parts. */
BELL_MUST_CHECK bell_status tensor_buffer_create_split(
    struct bell_context *ctx, enum uop_dtype dtype, uint64_t n_elems,
    const struct tensor_part parts[BELL_MESH_AXES],
    struct tensor_buffer **out_buf);
/* The same, without memory: the values are those at `data`, which are copied
 * until a place needs them, or what `held_by` has. tensor_buffer_settle. */
BELL_MUST_CHECK bell_status tensor_buffer_create_held(
    struct bell_context *ctx, enum uop_dtype dtype, uint64_t n_elems,
    const void *data, struct tensor_buffer *held_by,
    const struct tensor_part parts[BELL_MESH_AXES],
    struct tensor_buffer **out_buf);
/* The same in memory of the caller's. */
BELL_MUST_CHECK bell_status tensor_buffer_create_blob(
    struct bell_context *ctx, enum uop_dtype dtype, uint64_t n_elems,
    void *data, struct tensor_buffer **out_buf);
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

/* A new handle of the innermost scope for `call`'s result. Fails (error
 * tensor, recorded) when out of memory or `uop` is uop_failed. */
struct bell_tensor *tensor_new(struct bell_context *ctx, const char *call,
                               const struct uop *uop);

/* The node of `t` for a use that is not elementwise: a bell_scalar is float32
 * or int64 there. */
const struct uop *tensor_node(const struct bell_tensor *t);
/* The same for a use that computes: an 8-bit float is float32 there. */
const struct uop *tensor_wide_node(const struct bell_tensor *t);

/* Whether the context may be used by `call`: not NULL, nor destroyed. If not,
 * that is the thread's last failure. */
bool tensor_context_check(const char *call, const struct bell_context *ctx);
/* The same with the failure's status. */
BELL_MUST_CHECK bell_status
tensor_context_usable(const char *call, const struct bell_context *ctx);

/* A caller's structure of options, which begins with its struct_size, as this
 * library has it: *out, of size_bytes, with zeros for what the caller's does
 * not have. NULL: all zeros. Fails where it is smaller than its first version,
 * of `least` bytes. out->struct_size is size_bytes. */
BELL_MUST_CHECK bell_status tensor_options(const char *call,
                                           const void *options, size_t least,
                                           size_t size_bytes, void *out);
/* The struct_size of a caller's description, which is of `least` bytes or
 * more, and of size_bytes in this library. */
BELL_MUST_CHECK bell_status tensor_desc_size(const char *call,
                                             uint32_t struct_size, size_t least,
                                             size_t size_bytes);

/* Writes what *out_info has room for, by its struct_size. NULL and a
 * struct_size of less than `least` are failures of `call`. */
void tensor_give_info(const char *call, const void *info, size_t least,
                      size_t size_bytes, void *out_info);
/* What a call without a status gives in place of information: zeros. NULL is a
 * failure of `call`. */
void tensor_no_info(const char *call, void *out_info, size_t size_bytes);

/* Records the context's first failure (message "call: text") and returns the
 * error tensor. */
struct bell_tensor *tensor_fail(struct bell_context *ctx, const char *call,
                                bell_status status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same with the message that is in the thread's error record. */
struct bell_tensor *tensor_fail_last(struct bell_context *ctx,
                                     const char *call);
/* The same with that message as it is: its call is in it. */
struct bell_tensor *tensor_fail_told(struct bell_context *ctx);
/* What a status-returning call does first: reports ctx->error and forgets
 * it. */
BELL_MUST_CHECK bell_status tensor_report(struct bell_context *ctx);

/* The buffer that `t` denotes, or a reshape of it; NULL if it is none. */
struct tensor_buffer *tensor_buffer_of(const struct bell_tensor *t);

/* Makes `t` denote another node, of any shape. */
void tensor_set_node(struct bell_tensor *t, const struct uop *uop);
/* u, of the shape of `like`, split among devices as the memory of that is; u
 * with one device, or where `like` is not in memory. */
const struct uop *tensor_lay_as(const struct bell_tensor *like,
                                const struct uop *u);
/* Sets t->grad's node; false when out of memory. */
bool tensor_set_grad(struct bell_tensor *t, const struct uop *uop);

/* Walks every tensor of the context, gradients included:
 * for (t = tensor_first(ctx, &it); t; t = tensor_next(ctx, &it)) */
struct tensor_iter {
    uint32_t scope;
    struct tensor *listed, *at;
};
struct tensor *tensor_first(const struct bell_context *ctx,
                            struct tensor_iter *it);
struct tensor *tensor_next(const struct bell_context *ctx,
                           struct tensor_iter *it);

/* The tensor, or NULL: of NULL, and of a handle that does not live, which is
 * then recorded as a failure of `call`. */
struct tensor *tensor_asked(const char *call, const struct bell_tensor *t);
/* bell_numel of one that lives, where a function is captured too: what it is
 * now. */
uint64_t tensor_numel(const struct bell_tensor *t);
/* True if `t` may be used by `call`. If not, *out is what the call returns
 * (an error tensor or NULL). A size of a symbol is refused: most calls compute
 * with sizes. */
bool tensor_check(const char *call, struct bell_tensor *t,
                  struct bell_tensor **out);
/* For two operands, or more: also one context. */
bool tensor_check2(const char *call, struct bell_tensor *x,
                   struct bell_tensor *y, struct bell_tensor **out);
bool tensor_check_n(const char *call, struct bell_tensor *const *tensors,
                    uint32_t n, struct bell_tensor **out);
/* The same of calls that take sizes of symbols: what they make of sizes are
 * sums and multiples, and no numbers of tensors. */
bool tensor_takes(const char *call, struct bell_tensor *t,
                  struct bell_tensor **out);
bool tensor_takes2(const char *call, struct bell_tensor *x,
                   struct bell_tensor *y, struct bell_tensor **out);
bool tensor_takes_n(const char *call, struct bell_tensor *const *tensors,
                    uint32_t n, struct bell_tensor **out);
/* Whether the axes of t that the mask has are of plain sizes; if not, *out is
 * the call's failure, with the reason. */
bool tensor_plain_axes(const char *call, struct bell_tensor *t,
                       uint32_t axis_mask, const char *why,
                       struct bell_tensor **out);
/* Whether there is room for each of the n results of a call on `t`. If not,
 * what there is room for is the error tensor. */
bool tensor_has_room(const char *call, const struct bell_tensor *t,
                     struct bell_tensor **const *room, uint32_t n);
/* For status-returning calls: BELL_OK, or the reason, reported. */
BELL_MUST_CHECK bell_status tensor_usable(const char *call,
                                          const struct bell_tensor *t);

/* Frees buffers that no live tensor reaches and compacts the graph, if either
 * is due. Only at safe points. */
void tensor_collect(struct bell_context *ctx);

/* ---- tensor/core/data.c ---- */

/* A leaf with a copy of `data` (NULL: unspecified content) on the device. The
 * arguments were checked. NULL after a failure of `call`. */
const struct uop *tensor_leaf(struct bell_context *ctx, const char *call,
                              enum uop_dtype dtype, const int64_t *shape,
                              uint32_t ndim, const void *data);
/* The same as a tensor. */
struct bell_tensor *tensor_from_bytes(struct bell_context *ctx,
                                      const char *call, enum uop_dtype dtype,
                                      const int64_t *shape, uint32_t ndim,
                                      const void *data);
/* bell_realize for `call`. */
BELL_MUST_CHECK bell_status tensor_realize_list(
    const char *call, struct bell_tensor *const *tensors, size_t n);

/* The failure of a call that needs the value of a TENSOR_GONE. */
bell_status tensor_fail_gone(const char *call);

/* Realises t, which is usable, and gives its buffer. */
BELL_MUST_CHECK bell_status tensor_get_buffer(const char *call,
                                              struct bell_tensor *t,
                                              struct tensor_buffer **out_buf);

/* ---- tensor/core/assign.c ---- */

/* Marks, by node id, what handles that denote no leaf are made of. *out_mark is
 * the caller's (host_free). */
BELL_MUST_CHECK bell_status tensor_find_reached(struct bell_context *ctx,
                                                uint8_t **out_mark);

/* Gives `t`, which is realized, memory of its own, if another handle can see
 * the one it has. */
BELL_MUST_CHECK bell_status tensor_own_memory(const char *call,
                                              struct bell_tensor *t);

/* ---- tensor/core/dtype.c ---- */

/* The common dtype of n tensors by the rules in tensor.h. *out_weak (or NULL)
 * tells whether all of them are bell_scalars; the dtype is then float64 or
 * int64. */
enum uop_dtype tensor_result_dtype(struct bell_tensor *const *tensors,
                                   uint32_t n, bool *out_weak);
/* The dtype that numbers of `dtype` are computed and given in: float32 for
 * 8-bit floats. */
static inline enum uop_dtype
tensor_wide_dtype(enum uop_dtype dtype)
{
    return uop_dtype_is_f8(dtype) ? UOP_F32 : dtype;
}
/* The common dtype of two dtypes of equal standing. */
enum uop_dtype tensor_promote(enum uop_dtype a, enum uop_dtype b);
/* A dtype argument: `otherwise` for BELL_DEFAULT. UOP_VOID and a failure of
 * `call` if it is not a dtype. */
enum uop_dtype tensor_dtype_arg(struct bell_context *ctx, const char *call,
                                enum bell_dtype dtype,
                                enum uop_dtype otherwise);

/* ---- checks of arguments; on failure recorded for `call`, *out what it
 * returns ---- */

/* An axis of `rank` axes made 0..rank-1; -1 after a failure. `rank` 0 has
 * axes 0 and -1, as in PyTorch. */
int tensor_axis(struct bell_context *ctx, const char *call, int64_t axis,
                uint32_t rank);
/* A list of axes as a mask; an empty list is all. */
bool tensor_axes(struct bell_context *ctx, const char *call,
                 const int64_t *axes, uint32_t n_axes, uint32_t rank,
                 uint32_t *out_mask);
/* A shape argument: rank, sizes not negative, their product not too large. */
bool tensor_shape_arg(struct bell_context *ctx, const char *call,
                      const int64_t *d, uint32_t n);
/* The same of a call that takes sizes of symbols. */
bool tensor_takes_shape(struct bell_context *ctx, const char *call,
                        const int64_t *d, uint32_t n);

/* Whether an integer that a call takes as a number is one of the dtype. As in
 * PyTorch -1 is one of uint8, and every number one of floats and bool. */
bool tensor_fits_int(struct bell_context *ctx, const char *call, int64_t value,
                     enum uop_dtype dtype);
/* The same of a tensor, where it is a number that bell_scalar_int made. */
bool tensor_fits_number(const char *call, const struct bell_tensor *number,
                        enum uop_dtype dtype);

/* "(3, 4)" into buf; returns buf. */
char *tensor_shape_str(const int64_t *d, uint32_t n, char *buf,
                       size_t size_bytes);
/* The same with the names of the symbols. */
char *tensor_sizes_str(const struct dim_table *dims, const int64_t *d,
                       uint32_t n, char *buf, size_t size_bytes);
#define TENSOR_SHAPE_STR 256
/* A temporary string of a tensor's shape, for messages. */
#define SHAPE_OF(t)                                                            \
    tensor_sizes_str(tensor_at(t)->ctx->dims, tensor_at(t)->shape->d,          \
                     tensor_at(t)->shape->n, (char[TENSOR_SHAPE_STR]){0},      \
                     TENSOR_SHAPE_STR)
#define DTYPE_OF(t) (uop_dtype_infos[tensor_at(t)->dtype].name)

#endif
