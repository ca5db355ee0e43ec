/* How an optimiser's values lie on a mesh: ZeRO's three stages. */
#include "tensor/train/optim.h"

/* That of memory; of another node whole, which it may be given. */
static struct mesh_layout
layout_of(struct bell_context *ctx, const struct uop *u)
{
    const struct tensor_buffer *buf;

    if (u->op != UOP_BUFFER)
        return mesh_whole();
    buf = (const struct tensor_buffer *)(uintptr_t)u->arg.data;
    return mesh_parts_layout(ctx->mesh, tn_shape(ctx, u), buf->parts);
}

int
optim_shard_axis(struct bell_context *ctx, const struct uop *p, uint32_t k)
{
    const struct mesh_layout layout = layout_of(ctx, p);
    const struct uop_dims *shape = tn_shape(ctx, p);
    const int64_t n = mesh_divisor(ctx->mesh, k);
    int best = MESH_WHOLE;
    double least = 0;
    uint32_t i, j;

    if (layout.at[k] >= 0)
        return layout.at[k];
    for (i = 0; i < shape->n; i++) {
        double room = (double)mesh_part_of(shape->d[i], (uint32_t)n) *
                      (double)n / (double)shape->d[i];
        bool is_free = shape->d[i] > 1;

        for (j = 0; j < ctx->mesh->n_axes; j++)
            is_free &= layout.at[j] != (int)i;
        if (is_free && (best < 0 || room < least)) {
            best = (int)i;
            least = room;
        }
    }
    return best;
}

const struct uop *
optim_lay_state(struct bell_context *ctx, const struct uop *state,
                const struct uop *p, uint32_t k, int axis)
{
    struct mesh_layout layout = layout_of(ctx, p);
    uint32_t j;

    layout.at[k] = (int8_t)axis;
    for (j = 0; j < ctx->mesh->n_axes; j++)
        state = mesh_lay(ctx, state, j, layout.at[j]);
    return state;
}

const struct uop *
optim_lay_terms(struct bell_context *ctx, const struct uop *g, uint32_t k,
                int axis)
{
    uint32_t j;

    if (axis >= 0)
        g = mesh_lay(ctx, g, k, axis);
    for (j = 0; j < ctx->mesh->n_axes; j++) {
        if (axis < 0 || j != k)
            g = mesh_lay(ctx, g, j, MESH_PARTIAL);
    }
    return g;
}
