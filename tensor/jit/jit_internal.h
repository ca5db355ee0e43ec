/* What a jit holds: shared by jit.c and jit_save.c only. */
#ifndef BELL_TENSOR_JIT_JIT_INTERNAL_H
#define BELL_TENSOR_JIT_JIT_INTERNAL_H

#include "doorbell/jit.h"
#include "tensor/core/trace.h"

struct jit_feeds;

struct jit_type {
    enum uop_dtype dtype;
    uint32_t n;
    int64_t d[BELL_MAX_RANK];
};

/* Where the value of an output, or of a tensor that was changed, is. */
struct jit_value {
    enum tensor_role role;     /* INPUT, HANDLE, MADE or MEMORY */
    uint32_t number;           /* of the input, of used[], of made[] */
    struct tensor_buffer *buf; /* MEMORY: a reference */
};

/* An input, or the gradient that one has when it is given: those have numbers
 * of their own, behind the inputs'. The function is captured for these. */
struct jit_input {
    struct jit_type type;
    struct tensor_part parts[BELL_MESH_AXES]; /* what places have of it */
    uint32_t first;     /* the first input that is the same tensor */
    uint32_t grad;      /* number of its gradient; 0: it has none */
    bool requires_grad; /* bell_requires_grad */
};

/* An input that the function changes. */
struct jit_change {
    uint32_t input;
    bool is_replaced; /* denotes `after` behind a call */
    bool requires_grad;
    bool drops_grad; /* which it had */
    bool sets_grad;  /* to `grad` */
    bool is_early;   /* within a call: it has that already */
    struct jit_type grad_type;
    struct jit_value after, grad;
    const struct uop *node, *grad_node; /* within a call */
};

/* A tensor from outside. */
struct jit_used {
    struct bell_tensor *t;
    struct jit_type type;
    struct tensor_part parts[BELL_MESH_AXES];
    bool is_read;     /* or written: a kernel wants its memory */
    bool is_written;  /* in its memory */
    bool is_replaced; /* denotes `after` behind a call */
    struct jit_value after;
    const struct uop *node; /* that it will denote, within a call */
};

struct jit_output {
    struct jit_type type;
    struct jit_value value;
};

/* A result that outputs or tensors denote: new memory in each call. */
struct jit_made {
    enum uop_dtype dtype;
    struct jit_type type;
    struct tensor_part parts[BELL_MESH_AXES];
    struct tensor_buffer *buf; /* within a call; a reference */
};

struct bell_jit {
    bool is_live;
    struct bell_context *ctx; /* NULL: it was destroyed */
    struct bell_jit *next;    /* of the context's jits */
    struct bell_jit_desc desc;
    char name[32];
    bool is_running; /* the function */
    uint32_t n_captures;

    struct jit_input *inputs;   /* as in the first call */
    struct bell_tensor **given; /* owned: what a call is given, by number */
    uint32_t n_args;            /* inputs and gradients of inputs */
    struct jit_output *outputs;
    /* from here on: of what was captured */
    struct rt_capture *capture; /* or NULL */
    uint32_t math;
    bool training;
    uint64_t n_unpacked; /* the context's */
    /* Behind the n_used that are: n_touched that are asked about, where that
     * makes a difference to an input that is the same tensor. */
    struct jit_used *used;
    struct jit_change *changes; /* of inputs */
    struct jit_made *made;
    struct tensor_feed *feeds; /* references */
    uint32_t n_used, n_touched, n_changes, n_written, n_made, n_feeds;
    bool binds;     /* the call: inputs have numbers for sizes of symbols */
    bool is_merged; /* two inputs were one tensor */
    bool is_strict; /* which inputs are, and are used from outside, matters */
    uint64_t n_denoted; /* the context's, after the last call */
};

/* Runs the function, whose inputs have jit->inputs' types, and fills in what
 * comes of it, planned by `saves` (rt_capture_create); with `feeds` nothing is
 * given by the host (jit_feeds.h). On failure there is nothing. */
BELL_MUST_CHECK bell_status tensor_jit_capture(struct bell_jit *jit,
                                               struct tensor_runtime *saves,
                                               struct jit_feeds *feeds);
/* Forgets it. */
void tensor_jit_drop(struct bell_jit *jit);
/* Whether inputs can be those of a call: usable, and of the types that there
 * were, or with numbers where these have sizes of symbols. */
BELL_MUST_CHECK bell_status tensor_jit_check_inputs(
    const struct bell_jit *jit, struct bell_tensor *const *in);
/* The type of a value of `t`. */
void tensor_jit_type(struct jit_type *type, const struct bell_tensor *t);
bool jit_has_type(const struct tensor *t, const struct jit_type *type);
/* The same, or with numbers where sizes of symbols are, which a call gives
 * values by that. */
bool jit_may_have_type(const struct tensor *t, const struct jit_type *type);
/* Makes symbols what inputs of plain sizes say; `was` is what they were. Inputs
 * that have sizes of symbols themselves are to be of these, too. After a
 * failure they are as far as that went. */
BELL_MUST_CHECK bell_status jit_bind_sizes(struct bell_jit *jit,
                                           struct bell_tensor *const *in,
                                           const int64_t *was);

/* ---- jit_memory.c ---- */

bool jit_is_number(const struct bell_tensor *t);
BELL_MUST_CHECK bell_status jit_check_used(const struct bell_jit *jit);
BELL_MUST_CHECK bell_status jit_get_memory(struct bell_tensor *t,
                                           struct tensor_buffer **out);
/* On a mesh memory is found before anything is captured: its layout is a part
 * of what the function is captured for. *out_fits stays where it is the same,
 * and is false else; jit->inputs have it from then on. */
BELL_MUST_CHECK bell_status jit_find_layouts(struct bell_jit *jit,
                                             bool *out_fits);

/* Two arguments for a message, where `jit` is. */
#define JIT_TYPE_STR(type)                                                     \
    uop_dtype_infos[(type)->dtype].name,                                       \
        tensor_sizes_str(jit->ctx->dims, (type)->d, (type)->n,                 \
                         (char[TENSOR_SHAPE_STR]){0}, TENSOR_SHAPE_STR)

#endif
