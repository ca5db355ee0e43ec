/* Gradient rules of nodes.
 *
 * Every op has its rule (gradient.c). A node may have another, kept beside
 * the graph: where the composition that computes a value is not the one to
 * differentiate (log1p), or where the adjoint has a better form (windows,
 * convolution). Such rules move with their nodes when the graph is compacted.
 * A rule leads from a call's result to its operands, past the nodes between:
 * these have no gradient of their own, as in PyTorch.
 */
#ifndef BELL_TENSOR_CORE_RULES_H
#define BELL_TENSOR_CORE_RULES_H

#include "doorbell/custom.h"
#include "tensor/core/tensor_internal.h"

enum tensor_rule_kind {
    TENSOR_RULE_SURROGATE, /* differentiate `a`, of the same value and shape */
    TENSOR_RULE_SCALE,     /* d node / d a is b, elementwise */
    TENSOR_RULE_UNFOLD,    /* tn_unfold of a; p = axis, step, dilation */
    TENSOR_RULE_CONV,      /* tn_conv of a by b; p: conv.h */
    TENSOR_RULE_CONV_BACK, /* tn_conv_back_x of a by b; p: conv.h */
    TENSOR_RULE_SOFTMAX,   /* of a in float32, along axis p[0] */
    TENSOR_RULE_SCATTER,   /* tn_scatter of a by b; p = axis, combine */
    TENSOR_RULE_ATTEND,    /* tn_matmul of a, a softmax (as halves), by b */
    TENSOR_RULE_OVERLAP,   /* tn_overlap of a along p[0] */
    TENSOR_RULE_RESIZE,    /* of a along p[0]; p: interpolate.c */
    TENSOR_RULE_CUSTOM,    /* a caller's function of custom's inputs, for all of
                            * its results at once; a is input 0 */
    TENSOR_RULE_TIES,      /* elements of a that equal it along axes p[0] share
                            * its adjoint; it has these axes, with size 1 */
    TENSOR_RULE_PART,      /* result p[0] of the caller's function that a is */
};

/* A caller's function of `n_in` nodes, which has made `n_out`. Owned by its
 * rule. */
struct tensor_custom {
    struct bell_custom_desc one;       /* of bell_custom; or of no forward */
    struct bell_custom_many_desc many; /* of bell_custom_many; likewise */
    char name[48];
    void *user;
    void (*release)(void *user);
    uint32_t n_in, n_out;
    const struct uop *nodes[]; /* inputs, then results as callers have them */
};

#define TENSOR_RULE_NUMBERS 11

struct tensor_rule {
    enum tensor_rule_kind kind;
    const struct uop *node, *a, *b; /* b may be NULL */
    int64_t p[TENSOR_RULE_NUMBERS];
    struct tensor_custom *custom; /* of TENSOR_RULE_CUSTOM */
};

/* Notes `rule` for `node` and returns node; the first rule of a node stays.
 * uop_failed if node or a source of the rule is, or when out of memory. */
const struct uop *tensor_rule_add(struct bell_context *ctx,
                                  const struct uop *node,
                                  const struct tensor_rule *rule);
/* `node`, differentiated as `surrogate`. */
const struct uop *tensor_surrogate(struct bell_context *ctx,
                                   const struct uop *node,
                                   const struct uop *surrogate);
/* `node`, a function of x elementwise whose derivative is `slope`. */
const struct uop *tensor_slope(struct bell_context *ctx, const struct uop *node,
                               const struct uop *x, const struct uop *slope);
/* The rule of a node, or NULL. */
const struct tensor_rule *tensor_rule_find(const struct bell_context *ctx,
                                           const struct uop *node);

/* Node i that a rule names, NULL after the last. */
static inline const struct uop *
tensor_rule_source(const struct tensor_rule *rule, uint32_t i)
{
    if (rule->kind == TENSOR_RULE_CUSTOM)
        return i < rule->custom->n_in + rule->custom->n_out
                   ? rule->custom->nodes[i]
                   : NULL;
    return i == 0 ? rule->a : i == 1 ? rule->b : NULL;
}

/* Does another tensor than t that requires gradients denote u? */
bool tensor_is_anothers(const struct bell_tensor *t, const struct uop *u);
/* u, or a node of its value and without its gradient, by which no other tensor
 * than t requires gradients. */
const struct uop *tensor_own_variable(const struct bell_tensor *t,
                                      const struct uop *u);

/* ---- custom.c ---- */

/* u without its gradient, by another node, also where u is such a one. */
const struct uop *tensor_detach_again(struct bell_context *ctx,
                                      const struct uop *u);

/* A node of u's value, differentiated by desc->backward alone, as a function of
 * the nodes `in`: for the library's own functions. */
const struct uop *tensor_custom_node(struct bell_context *ctx,
                                     const struct uop *u,
                                     const struct bell_custom_desc *desc,
                                     const struct uop *const *in,
                                     uint32_t n_in);
/* Ends a caller's function. */
void tensor_custom_free(struct tensor_custom *custom);
/* Its gradients for adjoints of its results, one for each input; NULL is zero
 * in both. */
BELL_MUST_CHECK bell_status
tensor_custom_back(struct bell_context *ctx, const struct tensor_custom *custom,
                   const struct uop *const *adjoints, const struct uop **out);

#endif
