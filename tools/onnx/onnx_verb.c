/* `doorbell onnx`: what a model has, and what of it cannot be run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/json.h"
#include "base/status.h"
#include "tools/onnx/onnx.h"

/* An operator of the model, and how often it has it. */
struct op_count {
    const struct bell_onnx_node *node;
    uint32_t n;
};

/* "float (batch, 3, 224, 224)" */
static void
describe_value(const struct bell_onnx_value *v, char *text, size_t size_bytes)
{
    size_t n;
    uint32_t i;

    n = (size_t)snprintf(text, size_bytes, "%s%s%s",
                         strcmp(v->kind, "tensor") == 0 ? "" : v->kind,
                         strcmp(v->kind, "tensor") == 0 ? "" : " of ", v->type);
    if (!v->has_shape) {
        snprintf(text + n, size_bytes - n, ", shape unknown");
        return;
    }
    for (i = 0; i < v->ndim && n < size_bytes; i++) {
        const char *comma = i ? ", " : " (";

        if (v->dims[i].size >= 0)
            n += (size_t)snprintf(text + n, size_bytes - n, "%s%" PRId64, comma,
                                  v->dims[i].size);
        else
            n += (size_t)snprintf(text + n, size_bytes - n, "%s%.40s", comma,
                                  *v->dims[i].name ? v->dims[i].name : "?");
    }
    if (n < size_bytes)
        snprintf(text + n, size_bytes - n, v->ndim ? ")" : " ()");
}

static const char *
domain_name(const struct bell_onnx_node *node)
{
    return *node->domain ? node->domain : "ai.onnx";
}

static int
compare_counts(const struct op_count *a, const struct op_count *b)
{
    int by_op = strcmp(a->node->op, b->node->op);

    return by_op ? by_op : strcmp(a->node->domain, b->node->domain);
}

static int
compare_nodes(const void *a, const void *b)
{
    return compare_counts(a, b);
}

/* The model's operators, sorted; returns how many. The list is the caller's. */
static uint32_t
count_operators(const struct bell_onnx *model, uint32_t n_nodes,
                struct op_count **out)
{
    struct op_count *list = host_calloc(n_nodes + 1u, sizeof(*list));
    uint32_t i, n = 0;

    *out = list;
    if (!list)
        return 0;
    for (i = 0; i < n_nodes; i++)
        list[i] = (struct op_count){bell_onnx_node(model, i), 1};
    qsort(list, n_nodes, sizeof(*list), compare_nodes);
    for (i = 0; i < n_nodes; i++) {
        if (n && compare_counts(&list[n - 1], &list[i]) == 0)
            list[n - 1].n++;
        else
            list[n++] = list[i];
    }
    return n;
}

static void
print_model_values(const struct bell_onnx *model, const char *title,
                   const struct bell_onnx_value *(*at)(const struct bell_onnx *,
                                                       uint32_t))
{
    const struct bell_onnx_value *v;
    char text[512];
    uint32_t i;

    tool_printf("%s\n", title);
    for (i = 0; (v = at(model, i)); i++) {
        describe_value(v, text, sizeof(text));
        tool_printf("  %s: %s\n", v->name, text);
    }
}

static int
print_model(const struct bell_onnx *model, const char *path, bool weights,
            const struct bell_context *ctx, const struct onnx_cost *cost)
{
    struct bell_onnx_info info = {.struct_size = sizeof(info)};
    const struct bell_onnx_node *node;
    struct op_count *list;
    uint32_t i, n;

    bell_onnx_get_info(model, &info);
    tool_printf("%s: IR %" PRId64 ", opset %" PRId64 ", %u nodes, %u weights "
                "of %" PRIu64 " bytes\n",
                path, info.ir_version, info.opset, info.n_nodes, info.n_weights,
                info.weight_bytes);
    print_model_values(model, "inputs", bell_onnx_input);
    print_model_values(model, "outputs", bell_onnx_output);
    if (weights)
        print_model_values(model, "weights", bell_onnx_weight);
    n = count_operators(model, info.n_nodes, &list);
    tool_printf("operators\n");
    for (i = 0; i < n; i++)
        tool_printf("  %-24s %u%s%s\n", list[i].node->op, list[i].n,
                    *list[i].node->domain ? "  " : "", list[i].node->domain);
    host_free(list);
    if (info.n_refused == 0) {
        tool_printf("all of it is supported\n");
        if (cost)
            onnx_print_cost(ctx, cost);
        return TOOL_OK;
    }
    tool_printf("not supported, %u nodes\n", info.n_refused);
    for (i = 0; (node = bell_onnx_node(model, i)); i++) {
        if (node->refused)
            tool_printf("  node %u '%s' (%s): %s\n", i, node->name, node->op,
                        node->refused);
    }
    return bell_status_exit_code(BELL_E_UNSUPPORTED);
}

static void
put_model_values(struct json *json, const struct bell_onnx *model,
                 const char *key,
                 const struct bell_onnx_value *(*at)(const struct bell_onnx *,
                                                     uint32_t))
{
    const struct bell_onnx_value *v;
    uint32_t i, k;

    json_array(json, key);
    for (i = 0; (v = at(model, i)); i++) {
        json_object(json, NULL);
        json_str(json, "name", v->name);
        json_str(json, "kind", v->kind);
        json_str(json, "type", v->type);
        if (v->has_shape) {
            json_array(json, "shape");
            for (k = 0; k < v->ndim; k++) {
                if (v->dims[k].size >= 0)
                    json_int(json, NULL, v->dims[k].size);
                else
                    json_str(json, NULL, v->dims[k].name);
            }
            json_end(json);
        }
        json_end(json);
    }
    json_end(json);
}

static int
print_model_json(const struct bell_onnx *model, const char *path,
                 const struct bell_context *ctx, const struct onnx_cost *cost)
{
    struct bell_onnx_info info = {.struct_size = sizeof(info)};
    const struct bell_onnx_node *node;
    struct op_count *list;
    struct json json;
    uint32_t i, n;
    int code;

    bell_onnx_get_info(model, &info);
    json_init(&json);
    json_str(&json, "model", path);
    json_int(&json, "ir_version", info.ir_version);
    json_int(&json, "opset", info.opset);
    json_uint(&json, "nodes", info.n_nodes);
    json_uint(&json, "weight_bytes", info.weight_bytes);
    put_model_values(&json, model, "inputs", bell_onnx_input);
    put_model_values(&json, model, "outputs", bell_onnx_output);
    put_model_values(&json, model, "weights", bell_onnx_weight);
    n = count_operators(model, info.n_nodes, &list);
    json_array(&json, "operators");
    for (i = 0; i < n; i++) {
        json_object(&json, NULL);
        json_str(&json, "name", list[i].node->op);
        json_str(&json, "domain", domain_name(list[i].node));
        json_uint(&json, "count", list[i].n);
        json_end(&json);
    }
    json_end(&json);
    host_free(list);
    json_array(&json, "refused");
    for (i = 0; (node = bell_onnx_node(model, i)); i++) {
        if (!node->refused)
            continue;
        json_object(&json, NULL);
        json_uint(&json, "node", i);
        json_str(&json, "name", node->name);
        json_str(&json, "operator", node->op);
        json_str(&json, "why", node->refused);
        json_end(&json);
    }
    json_end(&json);
    if (cost)
        onnx_put_cost(ctx, cost, &json);
    code = tool_print_json(&json);
    return code != TOOL_OK || info.n_refused == 0
               ? code
               : bell_status_exit_code(BELL_E_UNSUPPORTED);
}

/* The table of operators, as docs/reference/onnx.md has it. */
static int
list_operators(bool as_json)
{
    struct bell_onnx_operator op;
    struct json json;
    uint32_t i;

    if (!as_json) {
        tool_printf("| operator | domain | function |\n|---|---|---|\n");
        for (i = 0; bell_onnx_operator_at(i, &op); i++)
            tool_printf("| %s | %s | %s |\n", op.name,
                        *op.domain ? op.domain : "ai.onnx",
                        op.function ? op.function : "several");
        return TOOL_OK;
    }
    json_init(&json);
    json_array(&json, "operators");
    for (i = 0; bell_onnx_operator_at(i, &op); i++) {
        json_object(&json, NULL);
        json_str(&json, "name", op.name);
        json_str(&json, "domain", *op.domain ? op.domain : "ai.onnx");
        json_str(&json, "attributes", op.attributes);
        if (op.function)
            json_str(&json, "function", op.function);
        json_end(&json);
    }
    json_end(&json);
    return tool_print_json(&json);
}

static bool
can_run(const struct bell_onnx *model)
{
    struct bell_onnx_info info = {.struct_size = sizeof(info)};

    bell_onnx_get_info(model, &info);
    return info.n_refused == 0;
}

int
verb_onnx(int argc, char **argv)
{
    static const char about[] =
        "onnx MODEL [options]\n"
        "what an ONNX model has: inputs, outputs, operators, and which nodes\n"
        "cannot be run; then the exit code is 6.\n\n"
        "  doorbell onnx model.onnx\n"
        "  doorbell onnx model.onnx --device NV@null:h100 --shape n=8\n"
        "  doorbell run model.onnx --in x=x.npy --out y=y.npy\n";
    bool json = false, list = false, weights = false;
    const char *path = NULL, *device = NULL;
    struct tool_list shapes = {0}, symbols = {0};
    const struct tool_opt opts[] = {
        {"MODEL", NULL, TOOL_OPT_STRING, &path, 0, 0, "the file"},
        {"--list", NULL, TOOL_OPT_FLAG, &list, 0, 0,
         "list the operators that are known, without a model"},
        {"--weights", NULL, TOOL_OPT_FLAG, &weights, 0, 0,
         "print the weights, too"},
        {"--device", "DEVICE", TOOL_OPT_STRING, &device, 0, 0,
         "the memory that a call takes there, and of BACKEND@null:CHIP the "
         "least time by the model of the chip"},
        {"--shape", "NAME=SIZE,...", TOOL_OPT_LIST, &shapes, 0, 0,
         "with --device: sizes that the model leaves open, as for run"},
        TOOL_JSON_OPT(&json),
    };
    struct bell_context *ctx = NULL;
    struct bell_onnx *model = NULL;
    struct onnx_cost cost;
    bool has_cost = false;
    bell_status status;
    uint32_t n;
    int code = tool_parse(about, opts, ARRAY_LEN(opts), argc, argv);

    if (code != TOOL_GO_ON)
        return code;
    if (list == (path != NULL))
        return tool_usage(json, list ? "onnx: --list takes no model"
                                     : "onnx: no model");
    if (list)
        return list_operators(json);
    if (shapes.n_items && !device)
        return tool_usage(json, "onnx: --shape is of --device");
    status = tool_open_context(device ? device : "CPU", NULL, &ctx);
    if (status == BELL_OK)
        status = bell_onnx_open(ctx, path, &model);
    if (status == BELL_OK)
        status = onnx_apply_shapes(ctx, model, &shapes, &symbols, NULL, &n);
    if (status == BELL_OK && device && can_run(model)) {
        status = onnx_measure_cost(ctx, model, &cost);
        has_cost = true;
    }
    if (status != BELL_OK)
        code = tool_fail_input(json, status);
    else
        code = json
                   ? print_model_json(model, path, ctx, has_cost ? &cost : NULL)
                   : print_model(model, path, weights, ctx,
                                 has_cost ? &cost : NULL);
    bell_onnx_close(model);
    bell_context_destroy(ctx);
    return code;
}
