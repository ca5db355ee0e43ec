/* Names to slots, nodes to rows: everything that can be known of a model before
 * it runs. */
#include "tensor/onnx/op.h"

#include <string.h>

/* A graph's names while its nodes are gone through. */
struct scope {
    struct scope *up;
    struct map slot_of; /* hash of a name -> slot */
    const char **names; /* by slot */
    uint32_t n;
};

struct checker {
    struct onnx_model *model;
    const struct onnx_function *function; /* whose body it is; or NULL */
};

static bool
find_slot(const struct scope *scope, const char *name, uint32_t *out_slot)
{
    const uint64_t *found =
        map_get(&scope->slot_of, hash_bytes(name, strlen(name), 0));

    if (!found || strcmp(scope->names[*found], name) != 0)
        return false;
    *out_slot = (uint32_t)*found;
    return true;
}

static BELL_MUST_CHECK bell_status
define(struct scope *scope, const char *name, uint32_t *out_slot)
{
    uint64_t key = hash_bytes(name, strlen(name), 0);

    if (map_get(&scope->slot_of, key))
        return bell_fail(BELL_E_IO, "two values are called '%.80s'", name);
    scope->names[scope->n] = name;
    if (map_put(&scope->slot_of, key, scope->n) != 0)
        return onnx_no_memory();
    *out_slot = scope->n++;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
resolve(const struct scope *scope, const char *name, struct onnx_ref *out)
{
    uint32_t up;

    *out = (struct onnx_ref){0, ONNX_NO_SLOT};
    if (!*name)
        return BELL_OK;
    for (up = 0; scope; scope = scope->up, up++) {
        if (find_slot(scope, name, &out->slot)) {
            out->up = up;
            return BELL_OK;
        }
    }
    return bell_fail(BELL_E_IO,
                     "value '%.80s' is not defined before it is used", name);
}

static int64_t
find_opset(const struct checker *check, const char *domain)
{
    const struct onnx_opset *opsets =
        check->function ? check->function->opsets : check->model->opsets;
    uint32_t n = check->function ? check->function->n_opsets
                                 : check->model->n_opsets,
             i;

    for (i = 0; i < n; i++) {
        if (strcmp(opsets[i].domain, domain) == 0)
            return opsets[i].version;
    }
    return 0;
}

static const struct onnx_function *
find_function(const struct onnx_model *model, const struct onnx_node *node)
{
    uint32_t i;

    for (i = 0; i < model->n_functions; i++) {
        if (strcmp(model->functions[i].name, node->op) == 0 &&
            strcmp(model->functions[i].domain, node->domain) == 0 &&
            strcmp(model->functions[i].overload, node->overload) == 0)
            return &model->functions[i];
    }
    return NULL;
}

static char
kind_letter(uint32_t type)
{
    switch (type) {
    case ONNX_ATTR_FLOAT:
        return 'f';
    case ONNX_ATTR_INT:
        return 'i';
    case ONNX_ATTR_STRING:
        return 's';
    case ONNX_ATTR_TENSOR:
        return 't';
    case ONNX_ATTR_GRAPH:
        return 'g';
    case ONNX_ATTR_FLOATS:
        return 'F';
    case ONNX_ATTR_INTS:
        return 'I';
    case ONNX_ATTR_STRINGS:
        return 'S';
    case ONNX_ATTR_TYPE:
        return 'T';
    default:
        return '?';
    }
}

/* Why the attribute cannot be taken; NULL: it can. */
static const char *
refuse_attr(struct onnx_model *model, const struct onnx_node *node,
            const struct onnx_attr *attr)
{
    const char *spec = onnx_row_attr(node->row, attr->name);

    if (!spec)
        return arena_printf(&model->arena,
                            "attribute '%.60s' of %.60s is not known",
                            attr->name, node->op);
    if (!*attr->ref && kind_letter(attr->type) != *spec)
        return arena_printf(&model->arena,
                            "attribute '%.60s' of %.60s is of another type",
                            attr->name, node->op);
    return NULL;
}

static const char *
refuse_function_attr(struct onnx_model *model, const struct onnx_node *node,
                     const struct onnx_attr *attr)
{
    const struct onnx_function *fn = node->function;
    uint32_t i;

    for (i = 0; i < fn->n_attr_names; i++) {
        if (strcmp(fn->attr_names[i], attr->name) == 0)
            return NULL;
    }
    for (i = 0; i < fn->n_attr_defaults; i++) {
        if (strcmp(fn->attr_defaults[i].name, attr->name) == 0)
            return NULL;
    }
    return arena_printf(&model->arena,
                        "attribute '%.60s' of function %.60s is not known",
                        attr->name, node->op);
}

static const char *
refuse_node(const struct checker *check, struct onnx_node *node)
{
    struct onnx_model *model = check->model;
    const char *why = NULL;
    uint32_t i;

    node->opset = find_opset(check, node->domain);
    node->function = find_function(model, node);
    if (!node->function && *node->overload)
        return arena_printf(&model->arena,
                            "the model has no function %.60s of overload "
                            "'%.60s'",
                            node->op, node->overload);
    if (!node->function) {
        node->row = onnx_find_row(node->domain, node->op,
                                  node->opset ? node->opset : 1);
        if (!node->row)
            return arena_printf(&model->arena,
                                "operator %.60s of %.60s, opset %lld, is not "
                                "supported",
                                node->op,
                                *node->domain ? node->domain : "ai.onnx",
                                (long long)node->opset);
        if (!node->opset)
            return arena_printf(&model->arena,
                                "the model has no opset of domain '%.60s'",
                                node->domain);
        if (node->n_inputs < node->row->min_in ||
            (node->row->max_in < 255 && node->n_inputs > node->row->max_in))
            return arena_printf(
                &model->arena, "%.60s has %u inputs; expected %u to %u",
                node->op, node->n_inputs, node->row->min_in, node->row->max_in);
    }
    for (i = 0; node->row && i < node->row->min_in && !why; i++) {
        if (!*node->inputs[i])
            why = arena_printf(&model->arena, "input %u of %.60s is missing", i,
                               node->op);
    }
    for (i = 0; i < node->n_attrs && !why; i++)
        why = node->function
                  ? refuse_function_attr(model, node, &node->attrs[i])
                  : refuse_attr(model, node, &node->attrs[i]);
    return why;
}

static BELL_MUST_CHECK bell_status check_graph(struct checker *check,
                                               struct onnx_graph *graph,
                                               struct scope *up);

static BELL_MUST_CHECK bell_status
check_node(struct checker *check, struct onnx_node *node, struct scope *scope)
{
    struct arena *arena = &check->model->arena;
    uint32_t i;

    node->refs = arena_calloc(arena, node->n_inputs + 1u, sizeof(*node->refs));
    node->slots =
        arena_calloc(arena, node->n_outputs + 1u, sizeof(*node->slots));
    if (!node->refs || !node->slots)
        return onnx_no_memory();
    for (i = 0; i < node->n_inputs; i++)
        BELL_TRY(resolve(scope, node->inputs[i], &node->refs[i]));
    node->refused = refuse_node(check, node);
    if (arena->failed)
        return onnx_no_memory();
    for (i = 0; i < node->n_attrs; i++) {
        if (node->attrs[i].g)
            BELL_TRY(check_graph(check, node->attrs[i].g, scope));
    }
    for (i = 0; i < node->n_outputs; i++) {
        node->slots[i] = ONNX_NO_SLOT;
        if (*node->outputs[i])
            BELL_TRY(define(scope, node->outputs[i], &node->slots[i]));
    }
    return BELL_OK;
}

static uint64_t
count_names(const struct onnx_graph *graph)
{
    uint64_t n = (uint64_t)graph->n_inputs + graph->n_weights;
    uint32_t i;

    for (i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i].n_outputs;
    return n;
}

static BELL_MUST_CHECK bell_status
check_values(struct checker *check, struct onnx_graph *graph,
             struct scope *scope)
{
    struct arena *arena = &check->model->arena;
    uint32_t i, slot;

    graph->input_slots =
        arena_calloc(arena, graph->n_inputs + 1u, sizeof(*graph->input_slots));
    graph->weight_slots = arena_calloc(arena, graph->n_weights + 1u,
                                       sizeof(*graph->weight_slots));
    graph->output_refs =
        arena_calloc(arena, graph->n_outputs + 1u, sizeof(*graph->output_refs));
    scope->names =
        arena_calloc(arena, count_names(graph) + 1, sizeof(*scope->names));
    if (!graph->input_slots || !graph->weight_slots || !graph->output_refs ||
        !scope->names)
        return onnx_no_memory();
    for (i = 0; i < graph->n_inputs; i++)
        BELL_TRY(define(scope, graph->inputs[i].name, &graph->input_slots[i]));
    for (i = 0; i < graph->n_weights; i++) {
        const char *name = graph->weights[i].name;

        if (find_slot(scope, name, &slot) && slot < graph->n_inputs)
            graph->weight_slots[i] = slot;
        else
            BELL_TRY(define(scope, name, &graph->weight_slots[i]));
    }
    for (i = 0; i < graph->n_nodes; i++) {
        bell_status status = check_node(check, &graph->nodes[i], scope);

        if (status != BELL_OK) {
            bell_error_prefix("node %u '%.80s' (%.60s)", i,
                              graph->nodes[i].name, graph->nodes[i].op);
            return status;
        }
    }
    for (i = 0; i < graph->n_outputs; i++)
        BELL_TRY(
            resolve(scope, graph->outputs[i].name, &graph->output_refs[i]));
    graph->n_slots = scope->n;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_graph(struct checker *check, struct onnx_graph *graph, struct scope *up)
{
    struct scope scope = {.up = up};
    bell_status status;

    map_init(&scope.slot_of);
    status = check_values(check, graph, &scope);
    map_fini(&scope.slot_of);
    return status;
}

const struct onnx_node *
onnx_first_refused(const struct onnx_graph *graph)
{
    const struct onnx_node *node, *inner;
    uint32_t i, k;

    for (i = 0; i < graph->n_nodes; i++) {
        node = &graph->nodes[i];
        if (node->refused)
            return node;
        if (node->function && node->function->refused)
            return node->function->refused;
        for (k = 0; k < node->n_attrs; k++) {
            inner =
                node->attrs[k].g ? onnx_first_refused(node->attrs[k].g) : NULL;
            if (inner)
                return inner;
        }
    }
    return NULL;
}

/* Functions call each other in any order, ONNX_MAX_DEPTH deep at most: each
 * round goes one deeper. */
static void
find_refused(struct onnx_model *model)
{
    uint32_t i, round;
    bool changed = true;

    for (round = 0; round <= ONNX_MAX_DEPTH && changed; round++) {
        changed = false;
        for (i = 0; i < model->n_functions; i++) {
            struct onnx_function *fn = &model->functions[i];

            if (fn->refused)
                continue;
            fn->refused = onnx_first_refused(&fn->body);
            changed |= fn->refused != NULL;
        }
    }
}

bell_status
onnx_check(struct onnx_model *model)
{
    struct checker check = {.model = model};
    uint32_t i;

    for (i = 0; i < model->n_functions; i++) {
        check.function = &model->functions[i];
        BELL_TRY(check_graph(&check, &model->functions[i].body, NULL));
    }
    check.function = NULL;
    BELL_TRY(check_graph(&check, &model->graph, NULL));
    find_refused(model);
    return BELL_OK;
}
