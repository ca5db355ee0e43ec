/* Layouts of what is trained: of optimisers, and of parameters by name. */
#include <string.h>

#include "base/alloc.h"
#include "tensor/core/trace.h"
#include "tensor/train/module.h"
#include "tensor/train/optim.h"

bell_status
bell_optimizer_shard(struct bell_optimizer *opt, const char *mesh_axis,
                     enum bell_shard_kind kind)
{
    struct optim_shards shards = {.kind = (uint32_t)kind};
    struct bell_context *ctx;

    BELL_TRY(optim_context(__func__, opt, &ctx));
    BELL_TRY(mesh_find_axis(ctx, __func__, mesh_axis, &shards.k));
    return optim_shard(opt, __func__, shards);
}

/* ---- by name ---- */

/* Is it the name, where each '*' is any number of characters? */
static bool
matches(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL; /* where to go on from */

    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* Rules with the numbers of their axes of the mesh. */
struct sharding {
    const struct bell_shard_rule *rules;
    uint32_t *ks; /* owned; by rule */
    bool *used;   /* owned; by rule: a name has matched */
    uint32_t n;
};

static bell_status
check_rules(const char *call, struct bell_context *ctx, struct sharding *s)
{
    uint32_t i;

    for (i = 0; i < s->n; i++) {
        if (!s->rules[i].pattern)
            return bell_fail_at(call, BELL_BAD_MISSING,
                                "%s: the pattern of rule %u is NULL", call, i);
        if (s->rules[i].mesh_axis)
            BELL_TRY(
                mesh_find_axis(ctx, call, s->rules[i].mesh_axis, &s->ks[i]));
    }
    return BELL_OK;
}

/* The node of a tensor in the layout that its rules give it: for each axis of
 * the mesh the first that matches; one without an axis ends the list. */
static bell_status
lay_by_rules(const char *call, const struct bell_state_item *item,
             struct sharding *s, const struct uop **out_node)
{
    const struct tensor *t = tensor_at(item->tensor);
    const struct uop *u = t->uop;
    uint32_t i, done = 0;
    bool is_ended = false;

    for (i = 0; i < s->n; i++) {
        const struct bell_shard_rule *rule = &s->rules[i];
        int64_t axis = rule->axis;

        if (!matches(rule->pattern, item->name))
            continue;
        s->used[i] = true;
        is_ended |= !rule->mesh_axis;
        if (is_ended || done >> s->ks[i] & 1)
            continue;
        axis += axis < 0 ? (int64_t)t->shape->n : 0;
        if (axis < 0 || axis >= (int64_t)t->shape->n)
            return bell_fail_at(call, BELL_BAD_AXIS,
                                "%s: rule '%s' splits axis %lld; %s has shape "
                                "%s",
                                call, rule->pattern, (long long)rule->axis,
                                item->name, SHAPE_OF(item->tensor));
        done |= 1u << s->ks[i];
        if (mesh_is_split(t->ctx->mesh, s->ks[i]) && t->shape->d[axis] > 1)
            u = mesh_lay(t->ctx, u, s->ks[i], (int)axis);
    }
    *out_node = u;
    return BELL_OK;
}

/* Fills list[] with what is to be realized, nodes[] with what it becomes. */
static bell_status
lay_all(const char *call, const struct bell_state *state, struct sharding *s,
        struct bell_tensor **list, const struct uop **nodes, uint32_t *out_n)
{
    uint32_t i, n = 0;

    for (i = 0; i < state->n; i++) {
        const struct bell_state_item *item = &state->items[i];

        if (!item->tensor)
            continue;
        BELL_TRY(lay_by_rules(call, item, s, &nodes[n]));
        if (tn_bad(nodes[n]))
            return bell_fail_at(call, BELL_E_NO_MEMORY, "%s: out of memory",
                                call);
        if (nodes[n] != tensor_at(item->tensor)->uop)
            list[n++] = item->tensor;
    }
    for (i = 0; i < s->n; i++) {
        if (!s->used[i])
            return bell_fail_at(call, BELL_BAD_NAME,
                                "%s: no name matches '%.80s'", call,
                                s->rules[i].pattern);
    }
    *out_n = n;
    return BELL_OK;
}

static bell_status
shard_state(const char *call, struct bell_context *ctx,
            const struct bell_state *state, struct sharding *s)
{
    struct bell_tensor **list = host_alloc(state->n * sizeof(*list) + 1);
    const struct uop **nodes = host_alloc(state->n * sizeof(*nodes) + 1);
    bell_status status =
        list && nodes
            ? check_rules(call, ctx, s)
            : bell_fail_at(call, BELL_E_NO_MEMORY, "%s: out of memory", call);
    uint32_t n = 0, i;

    if (status == BELL_OK)
        status = lay_all(call, state, s, list, nodes, &n);
    for (i = 0; i < n && status == BELL_OK; i++)
        tensor_set_node(list[i], nodes[i]);
    if (status == BELL_OK && n) {
        ctx->mesh->is_used = true;
        status = tensor_realize_list(call, list, n);
    }
    host_free(list);
    host_free(nodes);
    return status;
}

bell_status
bell_state_shard(const struct bell_state *state,
                 const struct bell_shard_rule *rules, uint32_t n)
{
    struct sharding s = {.rules = rules, .n = n};
    struct bell_context *ctx = NULL;
    bell_status status;
    uint32_t i;

    BELL_TRY(module_state_is_of(__func__, state, NULL));
    for (i = 0; i < state->n; i++) {
        if (!state->items[i].tensor)
            continue;
        BELL_TRY(tensor_usable(__func__, state->items[i].tensor));
        ctx = tensor_at(state->items[i].tensor)->ctx;
    }
    if (!ctx || !rules || n == 0)
        return bell_fail(BELL_BAD_MISSING, "bell_state_shard: no %s",
                         ctx ? "rules" : "tensors");
    BELL_TRY(tensor_context_usable(__func__, ctx));
    if (ctx->trace)
        return bell_fail(BELL_BAD_STATE,
                         "bell_state_shard: in a function that is captured");
    s.ks = host_calloc(n, sizeof(*s.ks));
    s.used = host_calloc(n, sizeof(*s.used));
    status = s.ks && s.used
                 ? shard_state(__func__, ctx, state, &s)
                 : bell_fail(BELL_E_NO_MEMORY,
                             "bell_state_shard: out of memory for %u rules", n);
    host_free(s.ks);
    host_free(s.used);
    return status;
}
