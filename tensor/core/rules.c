/* Gradient rules beside the graph, and nodes that are variables of their
 * own. */
#include "tensor/core/rules.h"

#include <assert.h>

#include "base/alloc.h"
#include "tensor/core/node.h"

/* ---- rules ---- */

/* A node that was there before keeps its rule: interning may give a node that
 * another call has made, with the same gradient. */
const struct uop *
tensor_rule_add(struct bell_context *ctx, const struct uop *node,
                const struct tensor_rule *rule)
{
    assert(tn_bad(node) || ctx->graph.nodes[node->id] == node);
    if (tn_bad(node) || tn_bad(rule->a) || (rule->b && tn_bad(rule->b)))
        return &uop_failed;
    if (node == rule->a || !tn_is_float(node) || node->op == UOP_CONST ||
        map_get(&ctx->rule_of, node->id))
        return node;
    if (host_grow((void **)&ctx->rules, &ctx->cap_rules, ctx->n_rules + 1,
                  sizeof(*ctx->rules)) != 0 ||
        map_put(&ctx->rule_of, node->id, ctx->n_rules) != 0)
        return tn_fail(ctx, BELL_E_NO_MEMORY, "out of memory for a gradient");
    ctx->rules[ctx->n_rules] = *rule;
    ctx->rules[ctx->n_rules++].node = node;
    return node;
}

const struct uop *
tensor_surrogate(struct bell_context *ctx, const struct uop *node,
                 const struct uop *surrogate)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_SURROGATE, .a = surrogate};

    return tensor_rule_add(ctx, node, &rule);
}

const struct uop *
tensor_slope(struct bell_context *ctx, const struct uop *node,
             const struct uop *x, const struct uop *slope)
{
    struct tensor_rule rule = {.kind = TENSOR_RULE_SCALE, .a = x, .b = slope};

    return tensor_rule_add(ctx, node, &rule);
}

const struct tensor_rule *
tensor_rule_find(const struct bell_context *ctx, const struct uop *node)
{
    const uint64_t *at = map_get(&ctx->rule_of, node->id);

    return at ? &ctx->rules[*at] : NULL;
}

/* ---- variables ---- */

bool
tensor_is_anothers(const struct bell_tensor *t, const struct uop *u)
{
    const struct tensor *other;
    struct tensor_iter it;

    for (other = tensor_first(tensor_at(t)->ctx, &it); other;
         other = tensor_next(tensor_at(t)->ctx, &it)) {
        if (other != tensor_at(t) && other->flags & TENSOR_REQUIRES_GRAD &&
            other->uop == u)
            return true;
    }
    return false;
}

const struct uop *
tensor_own_variable(const struct bell_tensor *t, const struct uop *u)
{
    struct bell_context *ctx = tensor_at(t)->ctx;

    while (!tn_bad(u) && (tensor_is_anothers(t, u) ||
                          (u->op == UOP_DETACH && tensor_rule_find(ctx, u))))
        u = tensor_detach_again(ctx, u);
    return u;
}
