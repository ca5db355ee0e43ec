/* The calls of doorbell/mesh.h. */
#include "tensor/mesh/mesh.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/core/node.h"
#include "tensor/core/tensor_internal.h"
#include "tensor/mesh/split.h"

static void
set_axes(struct tensor_mesh *mesh, const uint32_t *sizes, uint32_t n,
         const char *const *names)
{
    uint32_t k, stride = mesh->n_places;

    mesh->n_axes = n;
    for (k = 0; k < BELL_MESH_AXES; k++) {
        mesh->sizes[k] = k < n ? sizes[k] : 1;
        mesh->strides[k] = stride /= mesh->sizes[k];
        mesh->blocks[k] = 1;
        snprintf(mesh->names[k], sizeof(mesh->names[k]), "%s",
                 k < n ? names[k] : "");
    }
}

void
mesh_init(struct tensor_mesh *mesh, uint32_t n_places)
{
    static const char *const names[] = {"data"};

    *mesh = (struct tensor_mesh){.n_places = n_places};
    set_axes(mesh, &n_places, 1, names);
}

/* The context's, or one of a single place. NULL: out of memory. */
static struct tensor_mesh *
mesh_of(struct bell_context *ctx)
{
    if (!ctx->mesh) {
        ctx->mesh = host_calloc(1, sizeof(*ctx->mesh));
        if (ctx->mesh)
            mesh_init(ctx->mesh, 1);
    }
    return ctx->mesh;
}

uint32_t
bell_mesh_places(const struct bell_context *ctx)
{
    if (!tensor_context_check(__func__, ctx))
        return 0;
    return ctx->mesh ? ctx->mesh->n_places : 1;
}

/* ---- axes ---------------------------------------------------------------- */

static bell_status
check_axes(const struct tensor_mesh *mesh, const int64_t *sizes, uint32_t n,
           const char *const *names)
{
    int64_t n_places = 1;
    uint32_t k, i;

    if (!sizes || !names)
        return bell_fail(BELL_BAD_MISSING, "bell_mesh_set: the %s are NULL",
                         sizes ? "names" : "sizes");
    if (n == 0 || n > BELL_MESH_AXES)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_mesh_set: %u axes; expected 1 to %d", n,
                         BELL_MESH_AXES);
    for (k = 0; k < n; k++) {
        if (!names[k] || !names[k][0] || strlen(names[k]) > BELL_MESH_NAME)
            return bell_fail(BELL_BAD_VALUE,
                             "bell_mesh_set: the name of axis %u is not of 1 "
                             "to %d bytes",
                             k, BELL_MESH_NAME);
        for (i = 0; i < k; i++) {
            if (strcmp(names[i], names[k]) == 0)
                return bell_fail(BELL_BAD_VALUE,
                                 "bell_mesh_set: axes %u and %u are both '%s'",
                                 i, k, names[k]);
        }
        if (sizes[k] < 1 || sizes[k] > BELL_MESH_PLACES)
            return bell_fail(
                BELL_BAD_VALUE,
                "bell_mesh_set: axis '%s' of %lld places; expected 1 to %d",
                names[k], (long long)sizes[k], BELL_MESH_PLACES);
        n_places *= sizes[k];
    }
    if (n_places != (int64_t)mesh->n_places)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_mesh_set: a mesh of %lld places; the context "
                         "has %u device%s",
                         (long long)n_places, mesh->n_places,
                         mesh->n_places == 1 ? "" : "s");
    return BELL_OK;
}

bell_status
bell_mesh_set(struct bell_context *ctx, const int64_t *sizes, uint32_t n,
              const char *const *names)
{
    uint32_t list[BELL_MESH_AXES] = {1, 1, 1}, k;
    struct tensor_mesh *mesh;

    BELL_TRY(tensor_context_usable(__func__, ctx));
    mesh = mesh_of(ctx);
    if (!mesh)
        return bell_fail(BELL_E_NO_MEMORY, "bell_mesh_set: out of memory");
    BELL_TRY(check_axes(mesh, sizes, n, names));
    if (mesh->is_used)
        return bell_fail(BELL_BAD_STATE,
                         "bell_mesh_set: a tensor has a layout on the mesh "
                         "that there is");
    for (k = 0; k < n; k++)
        list[k] = (uint32_t)sizes[k];
    set_axes(mesh, list, n, names);
    return BELL_OK;
}

/* ---- layouts ------------------------------------------------------------- */

bell_status
bell_mesh_set_blocks(struct bell_context *ctx, const char *mesh_axis, int64_t n)
{
    uint32_t k;

    BELL_TRY(tensor_context_usable(__func__, ctx));
    BELL_TRY(mesh_find_axis(ctx, __func__, mesh_axis, &k));
    if (n < 1 || n > BELL_MESH_PLACES || (n & (n - 1)) ||
        n % ctx->mesh->sizes[k])
        return bell_fail(BELL_BAD_VALUE,
                         "bell_mesh_set_blocks: %lld blocks; expected a power "
                         "of 2, at most %d, and a multiple of the %u place%s "
                         "along '%s'",
                         (long long)n, BELL_MESH_PLACES, ctx->mesh->sizes[k],
                         ctx->mesh->sizes[k] == 1 ? "" : "s", mesh_axis);
    if (ctx->mesh->is_used)
        return bell_fail(BELL_BAD_STATE,
                         "bell_mesh_set_blocks: a tensor has a layout on the "
                         "mesh already");
    if (n > 1)
        BELL_TRY(mesh_of_one(ctx));
    ctx->mesh->blocks[k] = (uint32_t)n;
    return BELL_OK;
}

bell_status
mesh_find_axis(struct bell_context *ctx, const char *call, const char *name,
               uint32_t *out_k)
{
    const struct tensor_mesh *mesh = mesh_of(ctx);
    char known[(BELL_MESH_NAME + 4) * BELL_MESH_AXES] = "";
    size_t used = 0;
    uint32_t k;

    if (!mesh || !name)
        return bell_fail_at(
            call, mesh ? BELL_BAD_MISSING : BELL_E_NO_MEMORY, "%s: %s", call,
            mesh ? "the axis of the mesh is NULL" : "out of memory");
    for (k = 0; k < mesh->n_axes; k++) {
        if (strcmp(mesh->names[k], name) == 0) {
            *out_k = k;
            return BELL_OK;
        }
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s'%s'",
                                 k ? ", " : "", mesh->names[k]);
    }
    return bell_fail_at(call, BELL_BAD_VALUE,
                        "%s: the mesh has no axis '%.40s'; it has %s", call,
                        name, known);
}

/* With one place, or nothing to split, the value is all there is to it. */
static struct bell_tensor *
with_layout(struct bell_tensor *t, const char *call, uint32_t k, int axis)
{
    struct bell_context *ctx = tensor_at(t)->ctx;
    const struct uop *u = tensor_node(t);

    ctx->mesh->is_used = true;
    return tensor_new(ctx, call, mesh_lay(ctx, u, k, axis));
}

struct bell_tensor *
bell_shard(struct bell_tensor *t, const char *mesh_axis, int64_t axis)
{
    struct bell_tensor *out;
    struct bell_context *ctx;
    uint32_t k;
    int at;

    if (!tensor_check(__func__, t, &out))
        return out;
    ctx = tensor_at(t)->ctx;
    if (mesh_find_axis(ctx, __func__, mesh_axis, &k) != BELL_OK)
        return tensor_fail_told(ctx);
    if (tensor_at(t)->shape->n == 0)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "a tensor of shape () has no axis to split");
    at = tensor_axis(ctx, __func__, axis, tensor_at(t)->shape->n);
    if (at < 0)
        return ctx->error_tensor;
    if (tensor_at(t)->shape->d[at] == 1) /* nothing to split */
        return tensor_new(ctx, __func__, tensor_node(t));
    return with_layout(t, __func__, k, at);
}

struct bell_tensor *
bell_replicate(struct bell_tensor *t, const char *mesh_axis)
{
    struct bell_tensor *out;
    struct bell_context *ctx;
    uint32_t k;

    if (!tensor_check(__func__, t, &out))
        return out;
    ctx = tensor_at(t)->ctx;
    if (mesh_find_axis(ctx, __func__, mesh_axis, &k) != BELL_OK)
        return tensor_fail_told(ctx);
    return with_layout(t, __func__, k, MESH_WHOLE);
}

bell_status
mesh_parts_of(const struct bell_context *ctx, const struct uop *const *nodes,
              size_t n, struct tensor_part (*parts)[BELL_MESH_AXES])
{
    struct mesh_layout *layouts = host_alloc(n * sizeof(*layouts) + 1);
    const struct uop **made = host_alloc(n * sizeof(*made) + 1);
    struct uop_graph graph;
    bell_status status;
    size_t i;

    uop_graph_init(&graph);
    status = layouts && made
                 ? mesh_split(ctx, nodes, n, false, &graph, made, layouts, NULL)
                 : bell_fail(BELL_E_NO_MEMORY, "out of memory");
    for (i = 0; status == BELL_OK && i < n; i++)
        mesh_layout_parts(ctx->mesh, tn_shape(ctx, nodes[i]), &layouts[i],
                          parts[i]);
    uop_graph_fini(&graph);
    host_free(layouts);
    host_free(made);
    return status;
}

/* A realized tensor has its memory's; others the one that realizing finds. */
static bell_status
find_layout(struct bell_tensor *t, struct mesh_layout *out)
{
    struct bell_context *ctx = tensor_at(t)->ctx;
    const struct uop *root = tensor_node(t), *node;
    struct uop_graph graph;
    bell_status status;

    *out = mesh_whole();
    if (tn_bad(root) || ctx->mesh->n_places == 1)
        return BELL_OK;
    uop_graph_init(&graph);
    status = mesh_split(ctx, &root, 1, false, &graph, &node, out, NULL);
    uop_graph_fini(&graph);
    return status;
}

bell_status
bell_layout_of(struct bell_tensor *t, struct bell_layout *out_layout)
{
    struct bell_layout info = {.n_axes = 0};
    const struct tensor_mesh *mesh;
    const struct uop_dims *shape;
    struct mesh_layout layout;
    uint32_t k;

    BELL_TRY(tensor_usable(__func__, t));
    if (!out_layout)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_layout_of: the result is NULL");
    BELL_TRY(tensor_desc_size(__func__, out_layout->struct_size, sizeof(info),
                              sizeof(info)));
    mesh = mesh_of(tensor_at(t)->ctx);
    if (!mesh)
        return bell_fail(BELL_E_NO_MEMORY, "bell_layout_of: out of memory");
    BELL_TRY(find_layout(t, &layout));
    info.n_axes = mesh->n_axes;
    info.place_bytes = bell_nbytes(t);
    shape = tensor_at(t)->shape;
    for (k = 0; k < BELL_MESH_AXES; k++) {
        info.sizes[k] = mesh->sizes[k];
        info.axes[k] = layout.at[k];
        if (layout.at[k] >= 0) /* no other axis of the mesh splits that one */
            info.place_bytes =
                info.place_bytes / (uint64_t)shape->d[layout.at[k]] *
                (uint64_t)mesh_part_of(shape->d[layout.at[k]], mesh->sizes[k]);
    }
    tensor_give_info(__func__, &info, sizeof(info), sizeof(info), out_layout);
    return BELL_OK;
}
