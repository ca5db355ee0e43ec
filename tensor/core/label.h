/* What nodes were made for: the label that was open, and the public call.
 *
 * A node of the context's graph has the number of its label as its mark
 * (uops/uop.h). Kernels are told from marks what they compute, when they are
 * shown. Where labels are not recorded, only the count of open ones is kept.
 */
#ifndef BELL_TENSOR_CORE_LABEL_H
#define BELL_TENSOR_CORE_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"

struct bell_context;
struct bell_tensor;
struct uop;

/* A label of the program's, or of a layer's, inside another one. */
struct label_scope {
    const char *path; /* with those around it: "encoder/block 3" */
    uint32_t parent, depth;
};

/* What a node is marked with. */
struct label {
    uint32_t scope;
    uint32_t n_back;  /* gradient of a gradient of.. */
    const char *call; /* a string that stays: "bell_softmax"; or NULL */
};

/* What is open. */
struct label_place {
    uint32_t user;           /* innermost of the program's */
    uint32_t scope;          /* the same, or a layer's in it */
    uint32_t n_open, n_base; /* of the program's; which bell_label_end leaves */
    uint32_t n_unnamed;      /* of them, the innermost that have no number */
};

struct tensor_labels {
    bool is_on;
    struct label_place place;
    const char *inner; /* call of a caller's function, inside of another one */
    uint32_t back_of;  /* mark of the node whose gradient is made; or 0 */
    struct label_scope *scopes; /* [0]: none */
    struct label *list;         /* by mark; [0]: nothing is known */
    size_t n_scopes, cap_scopes, n, cap;
    struct map scope_of, label_of, text_of; /* by hash */
    struct arena text;
    struct label last; /* that was looked for, and its mark */
    uint32_t last_mark;
};

/* A context begins and ends. */
void tensor_labels_init(struct bell_context *ctx);
void tensor_labels_fini(struct bell_context *ctx);

/* For the graph's new nodes: uop_graph.mark_of. `user` is the context. */
uint32_t tensor_label_mark(void *user);

/* A caller's function begins and ends; it may open labels of its own. */
struct label_place tensor_label_enter(struct bell_context *ctx);
void tensor_label_leave(struct bell_context *ctx, struct label_place before);

/* The parameter has that name in its module. */
void tensor_label_param(const struct bell_tensor *t, const char *name);

/* What was before a layer. */
struct label_hold {
    struct bell_context *ctx; /* NULL: it has no label */
    uint32_t scope;
    const char *inner;
};

/* `call` begins, of the layer that has the parameter `t`, or of the module
 * `n_up` levels above it: its label is open until the end. NULL and what has no
 * label are allowed. */
struct label_hold tensor_label_layer(const char *call,
                                     const struct bell_tensor *t,
                                     uint32_t n_up);
void tensor_label_layer_end(const struct label_hold *hold);

/* What a kernel is to be called that computes nodes of such marks, in the
 * graph's order; is_main[]: those that are most of its work. "encoder/block 3:
 * matmul, relu". A string that stays until the context ends; NULL: nothing is
 * known, or out of memory. */
const char *tensor_label_text(struct tensor_labels *labels,
                              const uint32_t *marks, const bool *is_main,
                              size_t n);

#endif
