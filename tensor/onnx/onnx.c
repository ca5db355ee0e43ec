/* The public calls of ONNX models. */
#include "tensor/onnx/op.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/once.h"
#include "tensor/core/tensor_internal.h"

/* The sizes of an input: the model's, and those that were set. */
struct input_shape {
    bool has_shape;
    uint32_t ndim;
    int64_t dims[BELL_MAX_RANK]; /* -1: open; or a size of symbols */
};

/* At an address that is never used again (base/once.h). */
struct bell_onnx {
    bool is_open;
    struct bell_context *ctx;  /* whose its weights are */
    struct bell_context *host; /* owned: what is folded */
    struct onnx_model *model;
    struct onnx_value *weights; /* of the model's graph; owned */
    struct onnx_tensor **large; /* that have tensors; owned */
    size_t n_large, cap_large;
    struct map weight_of;          /* hash of a name -> number */
    struct bell_onnx_value *shown; /* inputs, outputs, weights; owned */
    struct bell_onnx_node *nodes;  /* owned */
    struct input_shape *in_shapes; /* owned: of inputs */
    uint32_t n_in;                 /* inputs that are not weights */
    struct bell_onnx_info info;
};

static bool
check_model(const char *call, const struct bell_onnx *model)
{
    if (model && once_is(model, TENSOR_IS_ONNX) && model->is_open)
        return true;
    (void)!bell_fail_at(call, model ? BELL_BAD_STATE : BELL_BAD_MISSING,
                        "%s: the model %s", call,
                        model ? "was closed" : "is NULL");
    return false;
}

/* ---- weights ---- */

static void
release_model(void *user)
{
    onnx_model_release(user);
}

/* Whether a tensor may be the file's memory. */
static bool
can_share(const struct bell_context *ctx, const struct onnx_tensor *t)
{
    enum bell_dtype dtype = onnx_dtype(t->type);

    return tensor_device_is_cpu(ctx) && !tensor_device_is_mesh(ctx) &&
           t->in_file && dtype != BELL_BOOL && t->size_bytes >= 4096 &&
           (uintptr_t)t->data % bell_dtype_size(dtype) == 0;
}

static struct bell_tensor *
make_weight(struct bell_onnx *m, const struct onnx_tensor *t)
{
    enum bell_dtype dtype = onnx_dtype(t->type);
    struct bell_tensor *made;

    if (!can_share(m->ctx, t))
        return bell_from_data(m->ctx, t->dims, t->ndim, dtype, t->data);
    made = bell_from_blob(m->ctx, t->dims, t->ndim, dtype,
                          (void *)(uintptr_t)t->data, release_model, m->model);
    if (!bell_is_error(made))
        onnx_model_retain(m->model);
    return made;
}

/* Makes a tensor of a large one of the file, once. Small ones are made by each
 * call: they are numbers of the graph. */
static BELL_MUST_CHECK bell_status
make_large(struct bell_onnx *m, struct onnx_tensor *t)
{
    enum bell_dtype dtype = onnx_dtype(t->type);

    if (dtype == BELL_DEFAULT || dtype == BELL_BOOL || !t->data || t->made)
        return BELL_OK;
    if (host_grow((void **)&m->large, &m->cap_large, m->n_large + 1,
                  sizeof(*m->large)) != 0)
        return onnx_no_memory();
    t->made = bell_keep_forever(make_weight(m, t));
    m->large[m->n_large++] = t;
    return bell_context_status(m->ctx);
}

/* The same of those inside of a graph: constants, and weights of graphs in
 * attributes. */
static BELL_MUST_CHECK bell_status
make_inner(struct bell_onnx *m, const struct onnx_graph *graph)
{
    uint32_t i, k;

    for (i = 0; i < graph->n_nodes; i++) {
        for (k = 0; k < graph->nodes[i].n_attrs; k++) {
            const struct onnx_attr *attr = &graph->nodes[i].attrs[k];

            if (attr->t && attr->t->n_elems > ONNX_HOST_ELEMS)
                BELL_TRY(make_large(m, attr->t));
            if (attr->g)
                BELL_TRY(make_inner(m, attr->g));
        }
    }
    for (i = 0; graph != &m->model->graph && i < graph->n_weights; i++) {
        if (graph->weights[i].n_elems > ONNX_HOST_ELEMS)
            BELL_TRY(make_large(m, &graph->weights[i]));
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
make_weights(struct bell_onnx *m)
{
    const struct onnx_graph *graph = &m->model->graph;
    uint32_t i;

    m->weights = host_calloc(graph->n_weights + 1u, sizeof(*m->weights));
    if (!m->weights)
        return onnx_no_memory();
    for (i = 0; i < graph->n_weights; i++) {
        struct onnx_tensor *t = &graph->weights[i];

        onnx_value_of(t, &m->weights[i]);
        if (map_put(&m->weight_of, hash_bytes(t->name, strlen(t->name), 0),
                    i) != 0)
            return onnx_no_memory();
        m->info.weight_bytes += t->size_bytes;
        if (m->weights[i].is_constant)
            continue;
        BELL_TRY(make_large(m, t));
        m->weights[i].t = t->made;
    }
    for (i = 0; i < m->model->n_functions; i++)
        BELL_TRY(make_inner(m, &m->model->functions[i].body));
    return make_inner(m, graph);
}

/* ---- facts ---- */

static void
show(const struct onnx_value_info *info, struct bell_onnx_value *out)
{
    uint32_t i;

    out->name = info->name;
    out->kind = info->kind;
    out->type = onnx_type_name(info->type);
    out->dtype = onnx_dtype(info->type);
    out->has_shape = info->has_shape;
    out->ndim = info->ndim;
    for (i = 0; i < info->ndim; i++) {
        out->dims[i].size = info->dims[i].size;
        out->dims[i].name = info->dims[i].name;
    }
}

static void
show_shape(const struct bell_onnx_value *v, struct input_shape *out)
{
    uint32_t i;

    out->has_shape = v->has_shape;
    out->ndim = v->ndim;
    for (i = 0; i < v->ndim; i++)
        out->dims[i] = v->dims[i].size;
}

static void
show_weight(const struct onnx_tensor *t, struct bell_onnx_value *out)
{
    uint32_t i;

    out->name = t->name;
    out->kind = "tensor";
    out->type = onnx_type_name(t->type);
    out->dtype = onnx_dtype(t->type);
    out->has_shape = true;
    out->ndim = t->ndim;
    for (i = 0; i < t->ndim; i++) {
        out->dims[i].size = t->dims[i];
        out->dims[i].name = "";
    }
}

static bool
is_weight(const struct onnx_graph *graph, uint32_t input)
{
    uint32_t i;

    for (i = 0; i < graph->n_weights; i++) {
        if (graph->weight_slots[i] == graph->input_slots[input])
            return true;
    }
    return false;
}

static BELL_MUST_CHECK bell_status
collect_facts(struct bell_onnx *m)
{
    const struct onnx_graph *graph = &m->model->graph;
    const struct onnx_node *inner;
    struct bell_onnx_value *at;
    uint32_t i;

    at = m->shown = host_calloc((size_t)graph->n_inputs + graph->n_outputs +
                                    graph->n_weights + 1,
                                sizeof(*m->shown));
    m->nodes = host_calloc(graph->n_nodes + 1u, sizeof(*m->nodes));
    if (!m->shown || !m->nodes)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a model");
    for (i = 0; i < graph->n_inputs; i++) {
        if (!is_weight(graph, i))
            show(&graph->inputs[i], at++);
    }
    m->n_in = (uint32_t)(at - m->shown);
    m->in_shapes = host_calloc(m->n_in + 1u, sizeof(*m->in_shapes));
    if (!m->in_shapes)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a model");
    for (i = 0; i < m->n_in; i++)
        show_shape(&m->shown[i], &m->in_shapes[i]);
    for (i = 0; i < graph->n_outputs; i++)
        show(&graph->outputs[i], at++);
    for (i = 0; i < graph->n_weights; i++)
        show_weight(&graph->weights[i], at++);
    for (i = 0; i < graph->n_nodes; i++) {
        const struct onnx_node *node = &graph->nodes[i];
        struct onnx_graph alone = {.nodes = &graph->nodes[i], .n_nodes = 1};

        inner = onnx_first_refused(&alone);
        m->nodes[i] =
            (struct bell_onnx_node){node->op, node->domain, node->name,
                                    node->opset, inner ? inner->refused : NULL};
        m->info.n_refused += inner != NULL;
    }
    m->info.n_inputs = m->n_in;
    m->info.n_outputs = graph->n_outputs;
    m->info.n_weights = graph->n_weights;
    m->info.n_nodes = graph->n_nodes;
    m->info.ir_version = m->model->ir_version;
    for (i = 0; i < m->model->n_opsets; i++) {
        if (!*m->model->opsets[i].domain)
            m->info.opset = m->model->opsets[i].version;
    }
    return BELL_OK;
}

/* ---- opening ---- */

static BELL_MUST_CHECK bell_status
open_model(struct bell_onnx *m, const char *path)
{
    bell_status status;

    BELL_TRY(onnx_model_read(path, &m->model));
    status = onnx_check(m->model);
    if (status == BELL_OK)
        status = collect_facts(m);
    if (status == BELL_OK)
        status = make_weights(m);
    if (status != BELL_OK) {
        bell_error_prefix("%s", path);
        return status;
    }
    return bell_context_create("CPU", &m->host);
}

bell_status
bell_onnx_open(struct bell_context *ctx, const char *path,
               struct bell_onnx **out_model)
{
    struct bell_onnx *m;
    bell_status status;

    if (!path || !out_model)
        return bell_fail(BELL_BAD_MISSING, "bell_onnx_open: %s is NULL",
                         path ? "the result" : "the path");
    *out_model = NULL;
    if (!tensor_context_check(__func__, ctx))
        return bell_error_last()->status;
    m = once_alloc(sizeof(*m), TENSOR_IS_ONNX, ctx);
    if (!m)
        return bell_fail(BELL_E_NO_MEMORY, "bell_onnx_open: out of memory");
    m->is_open = true;
    m->ctx = ctx;
    map_init(&m->weight_of);
    status = open_model(m, path);
    if (status != BELL_OK) {
        bell_onnx_close(m);
        bell_error_frame(__func__);
        return status;
    }
    *out_model = m;
    return BELL_OK;
}

void
bell_onnx_close(struct bell_onnx *model)
{
    size_t i;

    if (!model || !check_model(__func__, model))
        return;
    for (i = 0; i < model->n_large; i++) {
        bell_tensor_release(model->large[i]->made);
        model->large[i]->made = NULL;
    }
    map_fini(&model->weight_of);
    host_free(model->large);
    host_free(model->weights);
    host_free(model->shown);
    host_free(model->nodes);
    host_free(model->in_shapes);
    onnx_model_release(model->model);
    bell_context_destroy(model->host);
    once_end(model, sizeof(*model));
}

/* ---- facts, to be asked ---- */

void
bell_onnx_get_info(const struct bell_onnx *model,
                   struct bell_onnx_info *out_info)
{
    struct bell_onnx_info info = {0};
    uint32_t size;

    if (!out_info)
        return;
    size = out_info->struct_size;
    if (check_model(__func__, model))
        info = model->info;
    if (size > sizeof(info))
        size = sizeof(info);
    info.struct_size = out_info->struct_size;
    memcpy(out_info, &info, size);
}

uint32_t
bell_onnx_n_inputs(const struct bell_onnx *model)
{
    return check_model(__func__, model) ? model->n_in : 0;
}

uint32_t
bell_onnx_n_outputs(const struct bell_onnx *model)
{
    return check_model(__func__, model) ? model->info.n_outputs : 0;
}

const struct bell_onnx_value *
bell_onnx_input(const struct bell_onnx *model, uint32_t i)
{
    return check_model(__func__, model) && i < model->n_in ? &model->shown[i]
                                                           : NULL;
}

const struct bell_onnx_value *
bell_onnx_output(const struct bell_onnx *model, uint32_t i)
{
    return check_model(__func__, model) && i < model->info.n_outputs
               ? &model->shown[model->n_in + i]
               : NULL;
}

const struct bell_onnx_value *
bell_onnx_weight(const struct bell_onnx *model, uint32_t i)
{
    return check_model(__func__, model) && i < model->info.n_weights
               ? &model->shown[model->n_in + model->info.n_outputs + i]
               : NULL;
}

struct bell_tensor *
bell_onnx_weight_tensor(const struct bell_onnx *model, const char *name)
{
    const uint64_t *found;

    if (!check_model(__func__, model) || !name)
        return NULL;
    found = map_get(&model->weight_of, hash_bytes(name, strlen(name), 0));
    return found && strcmp(model->model->graph.weights[*found].name, name) == 0
               ? model->weights[*found].t
               : NULL;
}

const struct bell_onnx_node *
bell_onnx_node(const struct bell_onnx *model, uint32_t i)
{
    return check_model(__func__, model) && i < model->info.n_nodes
               ? &model->nodes[i]
               : NULL;
}

bool
bell_onnx_operator_at(uint32_t i, struct bell_onnx_operator *out)
{
    if (i >= onnx_n_rows || !out)
        return false;
    out->name = onnx_rows[i].name;
    out->domain = onnx_rows[i].domain;
    out->function = onnx_rows[i].function;
    out->attributes = onnx_rows[i].attrs;
    return true;
}

/* ---- sizes ---- */

/* A size that may be set: a number, or one of the context. */
static BELL_MUST_CHECK bell_status
check_new_size(const struct bell_onnx *m, const char *call, int64_t size)
{
    int64_t min, max;

    if (bell_dim_bounds(m->ctx, (struct bell_dim){size}, &min, &max) !=
            BELL_OK ||
        min < 0)
        return bell_fail(BELL_BAD_VALUE,
                         "%s: the size must be 0 or more, or one of the "
                         "model's context",
                         call);
    return BELL_OK;
}

/* Whether an axis before has the same name. */
static bool
named_before(const struct bell_onnx *m, uint32_t input, uint32_t axis)
{
    const char *name = m->shown[input].dims[axis].name;
    uint32_t i, k;

    for (i = 0; i <= input; i++) {
        for (k = 0; k < (i < input ? m->shown[i].ndim : axis); k++) {
            if (strcmp(m->shown[i].dims[k].name, name) == 0)
                return true;
        }
    }
    return false;
}

/* "batch, seq": names of sizes that inputs have. */
static void
list_dim_names(const struct bell_onnx *m, char *text, size_t size_bytes)
{
    size_t n = 0;
    uint32_t i, k;

    snprintf(text, size_bytes, "none");
    for (i = 0; i < m->n_in; i++) {
        for (k = 0; k < m->shown[i].ndim && n < size_bytes; k++) {
            const char *name = m->shown[i].dims[k].name;

            if (*name && !named_before(m, i, k))
                n += (size_t)snprintf(text + n, size_bytes - n, "%s%.40s",
                                      n ? ", " : "", name);
        }
    }
}

/* A size of a tensor that is given for one of a shape. */
static BELL_MUST_CHECK bell_status
check_size(const struct bell_onnx *m, const struct bell_onnx_value *info,
           uint32_t i, int64_t want, int64_t got)
{
    int64_t min, max;
    char text[2][64];

    if (want == -1 || want == got)
        return BELL_OK;
    if (op_is_size(want) && !op_is_size(got)) {
        BELL_TRY(bell_dim_bounds(m->ctx, (struct bell_dim){want}, &min, &max));
        BELL_TRY(bell_dim_text(m->ctx, (struct bell_dim){want}, text[0],
                               sizeof(text[0])));
        if (got >= min && got <= max)
            return BELL_OK;
        return bell_fail(BELL_BAD_SHAPE,
                         "input '%.80s': axis %u has size %lld; %s is %lld to "
                         "%lld",
                         info->name, i, (long long)got, text[0], (long long)min,
                         (long long)max);
    }
    BELL_TRY(bell_dim_text(m->ctx, (struct bell_dim){got}, text[0],
                           sizeof(text[0])));
    BELL_TRY(bell_dim_text(m->ctx, (struct bell_dim){want}, text[1],
                           sizeof(text[1])));
    return bell_fail(BELL_BAD_SHAPE,
                     "input '%.80s': axis %u has size %s; expected %s",
                     info->name, i, text[0], text[1]);
}

bell_status
bell_onnx_set_dim(struct bell_onnx *model, const char *name,
                  struct bell_dim size)
{
    char names[256];
    bool any = false;
    uint32_t i, k;

    if (!check_model(__func__, model))
        return bell_error_last()->status;
    if (!name)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_onnx_set_dim: the name is NULL");
    BELL_TRY(check_new_size(model, __func__, size.word));
    for (i = 0; i < model->n_in; i++) {
        for (k = 0; k < model->shown[i].ndim; k++) {
            if (!*name || strcmp(model->shown[i].dims[k].name, name) != 0)
                continue;
            model->in_shapes[i].dims[k] = size.word;
            any = true;
        }
    }
    if (any)
        return BELL_OK;
    list_dim_names(model, names, sizeof(names));
    return bell_fail(BELL_BAD_NAME,
                     "bell_onnx_set_dim: no input has a size called '%.80s'; "
                     "they have %s",
                     name, names);
}

bell_status
bell_onnx_set_input_shape(struct bell_onnx *model, uint32_t i,
                          const int64_t *shape, uint32_t ndim)
{
    const struct bell_onnx_value *info;
    uint32_t k;

    if (!check_model(__func__, model))
        return bell_error_last()->status;
    if (i >= model->n_in || (!shape && ndim) || ndim > BELL_MAX_RANK)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_onnx_set_input_shape: input %u of %u, of %u "
                         "axes%s",
                         i, model->n_in, ndim,
                         !shape && ndim ? "; the shape is NULL" : "");
    info = &model->shown[i];
    if (info->has_shape && info->ndim != ndim)
        return bell_fail(BELL_BAD_SHAPE,
                         "bell_onnx_set_input_shape: '%.80s' has %u axes; got "
                         "%u",
                         info->name, info->ndim, ndim);
    for (k = 0; k < ndim; k++) {
        BELL_TRY(check_new_size(model, __func__, shape[k]));
        if (info->has_shape)
            BELL_TRY(check_size(model, info, k, info->dims[k].size, shape[k]));
    }
    model->in_shapes[i].has_shape = true;
    model->in_shapes[i].ndim = ndim;
    for (k = 0; k < ndim; k++)
        model->in_shapes[i].dims[k] = shape[k];
    return BELL_OK;
}

bell_status
bell_onnx_input_shape(const struct bell_onnx *model, uint32_t i,
                      int64_t *out_shape, uint32_t *out_ndim)
{
    const struct bell_onnx_value *info;
    const struct input_shape *shape;
    uint32_t k;

    if (!check_model(__func__, model))
        return bell_error_last()->status;
    if (i >= model->n_in || !out_shape || !out_ndim)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_onnx_input_shape: input %u of %u, or a result "
                         "is NULL",
                         i, model->n_in);
    info = &model->shown[i];
    shape = &model->in_shapes[i];
    if (!shape->has_shape)
        return bell_fail(BELL_BAD_SHAPE,
                         "input '%.80s': the model does not say its shape",
                         info->name);
    for (k = 0; k < shape->ndim; k++) {
        if (shape->dims[k] == -1)
            return bell_fail(
                BELL_BAD_SHAPE,
                "input '%.80s': the size of axis %u is open%s%.40s", info->name,
                k, *info->dims[k].name ? ", called " : "", info->dims[k].name);
    }
    *out_ndim = shape->ndim;
    for (k = 0; k < shape->ndim; k++)
        out_shape[k] = shape->dims[k];
    return BELL_OK;
}

/* ---- calling ---- */

static BELL_MUST_CHECK bell_status
check_input(struct bell_onnx *m, uint32_t input, const struct bell_tensor *t)
{
    const struct bell_onnx_value *info = &m->shown[input];
    const struct input_shape *shape = &m->in_shapes[input];
    uint32_t i;

    if (bell_is_error(t))
        return bell_fail(BELL_BAD_MISSING, "input '%.80s' is not a live tensor",
                         info->name);
    if (strcmp(info->kind, "tensor") != 0 &&
        strcmp(info->kind, "optional") != 0)
        return op_unsupported("input '%.80s' is a %s, which a call does not "
                              "take",
                              info->name, info->kind);
    if (info->dtype != bell_dtype_of(t))
        return bell_fail(BELL_BAD_DTYPE, "input '%.80s' is %s; expected %s",
                         info->name, bell_dtype_name(bell_dtype_of(t)),
                         info->type);
    if (!shape->has_shape)
        return BELL_OK;
    if (bell_ndim(t) != shape->ndim)
        return bell_fail(BELL_BAD_SHAPE,
                         "input '%.80s' has %u axes; expected %u", info->name,
                         bell_ndim(t), shape->ndim);
    for (i = 0; i < shape->ndim; i++)
        BELL_TRY(check_size(m, info, i, shape->dims[i], op_dim(t, (int)i)));
    return BELL_OK;
}

/* Gives the graph's inputs the call's, but for those that are weights. */
static BELL_MUST_CHECK bell_status
bind_inputs(struct bell_onnx *m, struct onnx_run *run,
            struct bell_tensor *const *in, struct onnx_value ***out)
{
    const struct onnx_graph *graph = &m->model->graph;
    struct onnx_value *values =
        arena_calloc(&run->arena, graph->n_inputs + 1u, sizeof(*values));
    struct onnx_value **list =
        arena_calloc(&run->arena, graph->n_inputs + 1u, sizeof(*list));
    uint32_t i, k = 0;

    if (!values || !list)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for inputs");
    for (i = 0; i < graph->n_inputs; i++) {
        if (is_weight(graph, i))
            continue;
        BELL_TRY(check_input(m, k, in[k]));
        values[i] = (struct onnx_value){.kind = ONNX_VALUE, .t = in[k++]};
        list[i] = &values[i];
    }
    *out = list;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
run_model(struct bell_onnx *m, struct onnx_run *run,
          struct bell_tensor *const *in, struct bell_tensor **out)
{
    const struct onnx_graph *graph = &m->model->graph;
    struct onnx_value **values, *results;
    uint32_t i;

    results =
        arena_calloc(&run->arena, graph->n_outputs + 1u, sizeof(*results));
    if (!results)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for outputs");
    BELL_TRY(bind_inputs(m, run, in, &values));
    BELL_TRY(onnx_run_model(run, m->weights, values, results));
    for (i = 0; i < graph->n_outputs; i++) {
        struct bell_tensor *t;

        if (results[i].kind != ONNX_VALUE)
            return op_unsupported("output '%.80s' is a sequence or an empty "
                                  "optional, which a call does not give",
                                  graph->outputs[i].name);
        t = onnx_tensor_in(run, run->ctx, &results[i]);
        if (bell_is_error(t)) {
            BELL_TRY(bell_context_status(run->ctx));
            return bell_error_last()->status;
        }
        out[i] = bell_alias(t);
    }
    return bell_context_status(run->ctx);
}

bell_status
bell_onnx_call(struct bell_context *ctx, void *model,
               struct bell_tensor *const *in, struct bell_tensor **out)
{
    struct bell_onnx *m = model;
    struct onnx_run run = {.ctx = ctx};
    const struct onnx_node *refused;
    bell_status status;
    uint32_t i;

    if (!tensor_context_check(__func__, ctx) || !check_model(__func__, m))
        return bell_error_last()->status;
    if (m->ctx != ctx)
        return bell_fail(BELL_BAD_CONTEXT,
                         "bell_onnx_call: the model is of another context");
    if ((!in && m->n_in) || (!out && m->info.n_outputs))
        return bell_fail(BELL_BAD_MISSING, "bell_onnx_call: %s is NULL",
                         out ? "in" : "out");
    refused = onnx_first_refused(&m->model->graph);
    if (refused)
        return bell_fail(BELL_E_UNSUPPORTED, "%s: node '%.80s': %s",
                         m->model->path, refused->name, refused->refused);
    BELL_TRY(bell_scope_begin(ctx));
    status = bell_scope_begin(m->host);
    if (status != BELL_OK) {
        (void)!bell_scope_end(ctx);
        return status;
    }
    run.model = m->model;
    run.host = m->host;
    arena_init(&run.arena);
    status = run_model(m, &run, in, out);
    for (i = 0; status == BELL_OK && i < m->info.n_outputs; i++)
        bell_keep(out[i]);
    arena_fini(&run.arena);
    if (status != BELL_OK)
        bell_error_prefix("%s", m->model->path);
    if (bell_scope_end(m->host) != BELL_OK && status == BELL_OK)
        status = bell_error_last()->status;
    if (bell_scope_end(ctx) != BELL_OK && status == BELL_OK)
        status = bell_error_last()->status;
    return status;
}
