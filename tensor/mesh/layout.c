/* See layout.h. */
#include "tensor/mesh/layout.h"

#include <assert.h>
#include <string.h>

#include "tensor/core/node.h"

/* One axis of the mesh, of several places, at one node. */
struct looked_at {
    const struct uop_graph *g;
    const struct uop *u;
    const struct uop_dims *shape;
    uint32_t k;
    int n_parts;
    bool has_blocks;        /* terms of different sums are not added to one */
    int src[MESH_RULE_SRC]; /* what the sources are along it */
    int in[MESH_RULE_SRC], out;
    bool again;
    const char *why;
};

struct mesh_layout
mesh_whole(void)
{
    struct mesh_layout whole;

    memset(whole.at, MESH_WHOLE, sizeof(whole.at));
    return whole;
}

/* Elements from one to the next along an axis. */
static int64_t
inner_of(const struct uop_dims *shape, uint32_t axis)
{
    int64_t n = 1;
    uint32_t i;

    for (i = axis + 1; i < shape->n; i++)
        n *= shape->d[i];
    return n;
}

void
mesh_layout_parts(const struct tensor_mesh *mesh, const struct uop_dims *shape,
                  const struct mesh_layout *layout,
                  struct tensor_part parts[BELL_MESH_AXES])
{
    uint32_t k;

    memset(parts, 0, BELL_MESH_AXES * sizeof(*parts));
    for (k = 0; k < mesh->n_axes; k++) {
        int axis = layout->at[k];
        uint64_t inner;

        if (axis == MESH_PARTIAL)
            parts[k].block = TENSOR_TERMS;
        if (axis < 0)
            continue;
        inner = (uint64_t)inner_of(shape, (uint32_t)axis);
        parts[k].block = (uint64_t)shape->d[axis] * inner;
        parts[k].chunk =
            (uint64_t)mesh_part_of(shape->d[axis], mesh->sizes[k]) * inner;
    }
}

const struct uop *
mesh_lay(struct bell_context *ctx, const struct uop *u, uint32_t k, int axis)
{
    union uop_arg arg = {.i = mesh_layout_arg(k, axis)};

    if (tn_bad(u) || !mesh_is_split(ctx->mesh, k) || tn_numel(ctx, u) == 0)
        return u;
    return uop_new_shaped(&ctx->graph, UOP_LAYOUT, u->dtype, arg, &u, 1,
                          tn_shape(ctx, u));
}

const struct uop *
tensor_lay_as(const struct bell_tensor *like, const struct uop *u)
{
    const struct uop *old = tensor_at(like)->uop;
    struct bell_context *ctx = tensor_at(like)->ctx;
    const struct tensor_buffer *buf;
    struct mesh_layout layout;
    uint32_t k;

    if (!ctx->mesh || old->op != UOP_BUFFER)
        return u;
    buf = (const struct tensor_buffer *)(uintptr_t)old->arg.data;
    layout = mesh_parts_layout(ctx->mesh, tn_shape(ctx, old), buf->parts);
    for (k = 0; k < ctx->mesh->n_axes; k++) {
        if (layout.at[k] >= 0)
            u = mesh_lay(ctx, u, k, layout.at[k]);
    }
    return u;
}

struct mesh_layout
mesh_parts_layout(const struct tensor_mesh *mesh, const struct uop_dims *shape,
                  const struct tensor_part parts[BELL_MESH_AXES])
{
    struct mesh_layout layout = mesh_whole();
    uint32_t k, i;

    for (k = 0; k < mesh->n_axes; k++) {
        if (tensor_part_is_terms(&parts[k]))
            layout.at[k] = MESH_PARTIAL;
        for (i = 0; parts[k].chunk && i < shape->n; i++) {
            uint64_t inner = (uint64_t)inner_of(shape, i);

            if (shape->d[i] > 1 &&
                (uint64_t)shape->d[i] * inner == parts[k].block &&
                (uint64_t)mesh_part_of(shape->d[i], mesh->sizes[k]) * inner ==
                    parts[k].chunk)
                layout.at[k] = (int8_t)i;
        }
        assert(!parts[k].chunk || layout.at[k] >= 0);
    }
    return layout;
}

/* ---- rules --------------------------------------------------------------- */

/* Every source whole, and so the result. */
static void
be_whole(struct looked_at *l, const char *why)
{
    uint32_t s;

    for (s = 0; s < MESH_RULE_SRC; s++)
        l->in[s] = MESH_WHOLE;
    l->out = MESH_WHOLE;
    l->why = why;
}

static void
keep_source(struct looked_at *l)
{
    l->in[0] = l->out = l->src[0];
}

/* The layout of the first source that is split, for all. A sum of sums is one,
 * and so is what is only handed on. */
static void
rule_elementwise(struct looked_at *l)
{
    bool all_partial = true, may_stay;
    uint32_t s;
    int to = MESH_WHOLE;

    for (s = 0; s < l->u->n_src; s++) {
        if (l->u->src[s]->op == UOP_CONST) {
            all_partial = false;
            continue;
        }
        all_partial = all_partial && l->src[s] == MESH_PARTIAL;
        if (to < 0 && l->src[s] >= 0)
            to = l->src[s];
    }
    may_stay =
        ((l->u->op == UOP_ADD || l->u->op == UOP_SUB) && !l->has_blocks) ||
        l->u->op == UOP_NEG || l->u->op == UOP_CONTIGUOUS ||
        l->u->op == UOP_DETACH;
    l->out = all_partial && may_stay ? MESH_PARTIAL : to;
    for (s = 0; s < l->u->n_src && s < MESH_RULE_SRC; s++)
        l->in[s] = l->u->src[s]->op == UOP_CONST ? MESH_WHOLE : l->out;
    l->why = "what it meets is split elsewhere";
}

/* The axes in front of the split one, and so those behind, have as many
 * elements before and after, and the parts are the same elements. */
static void
rule_reshape(struct looked_at *l)
{
    const struct uop_dims *from = uop_shape(l->g, l->u->src[0]);
    int axis = l->src[0];
    int64_t before = 1, now = 1;
    uint32_t i;

    keep_source(l);
    if (axis < 0)
        return;
    for (i = 0; i < (uint32_t)axis; i++)
        before *= from->d[i];
    for (i = 0; i < l->shape->n; now *= l->shape->d[i++]) {
        if (now == before && l->shape->d[i] > 1 &&
            (l->shape->d[i] == from->d[axis] ||
             (l->shape->d[i] % l->n_parts == 0 &&
              from->d[axis] % l->n_parts == 0))) {
            l->out = (int)i;
            return;
        }
    }
    be_whole(l, "a reshape joins or parts the axis");
}

static void
rule_permute(struct looked_at *l)
{
    uint32_t i;

    keep_source(l);
    for (i = 0; l->src[0] >= 0 && i < l->shape->n; i++) {
        if (l->u->arg.dims->d[i] == l->src[0])
            l->out = (int)i;
    }
}

/* PAD and SHRINK leave an axis alone or need all of it. */
static void
rule_ends(struct looked_at *l)
{
    const int64_t *arg = l->u->arg.dims->d;
    int axis = l->src[0];
    int64_t all;

    keep_source(l);
    if (axis < 0)
        return;
    all = l->u->op == UOP_PAD ? 0 : uop_shape(l->g, l->u->src[0])->d[axis];
    if (arg[2 * axis] != 0 || arg[2 * axis + 1] != all)
        be_whole(l, l->u->op == UOP_PAD ? "it is padded there"
                                        : "a part of that axis is taken");
}

/* A sum along the split axis is a term of each place. */
static void
rule_reduce(struct looked_at *l)
{
    int axis = l->src[0];

    keep_source(l);
    if (axis == MESH_PARTIAL && uop_reduce_op(l->u) != UOP_ADD)
        be_whole(l, "a reduction that is not a sum");
    else if (axis == MESH_PARTIAL && l->has_blocks)
        be_whole(l, "a sum of sums that are made in blocks");
    if (axis < 0 || !(uop_reduce_axes(l->u) >> axis & 1))
        return;
    l->out = MESH_PARTIAL;
    if (uop_reduce_op(l->u) == UOP_ADD && l->u->dtype != UOP_BOOL)
        return;
    l->out = MESH_WHOLE;
    l->again = true;
    l->why = "a reduction along that axis";
}

/* Sizes of both sources agree but on the axis that is indexed, of which the
 * index has as many as the result. */
static void
rule_gather(struct looked_at *l)
{
    int axis = (int)l->u->arg.i, x = l->src[0], index = l->src[1];

    be_whole(l, "it is indexed along that axis");
    if (index >= 0) {
        l->in[0] = index == axis ? MESH_WHOLE : index;
        l->in[1] = l->out = index;
    } else if (x >= 0 && x != axis) {
        l->in[0] = l->in[1] = l->out = x;
    }
}

/* Along one axis, with all of it; the others are apart. */
static void
rule_along(struct looked_at *l, int axis)
{
    keep_source(l);
    if (l->src[0] == axis || l->src[0] == MESH_PARTIAL)
        be_whole(l, l->u->op == UOP_SCAN ? "a running sum along that axis"
                                         : "it is sorted along that axis");
}

/* A value takes the layout of the memory that it is stored to. It cannot
 * be stored to terms of a sum. */
static void
rule_assign(struct looked_at *l)
{
    l->in[0] = l->in[1] = l->out = l->src[0];
    l->why = "what it is stored to is whole";
    if (l->src[0] == MESH_PARTIAL)
        be_whole(l, "an assignment to a part");
}

static void
rule_layout(struct looked_at *l)
{
    int axis = mesh_layout_axis(l->u->arg.i);

    keep_source(l);
    if (axis == MESH_PARTIAL)
        return;
    if (l->k == mesh_layout_mesh_axis(l->u->arg.i))
        l->in[0] = l->out = axis;
    else if (l->src[0] >= 0 && l->src[0] == axis)
        be_whole(l, "its axis is split along another one of the mesh");
    l->why = l->why ? l->why : "bell_shard or bell_replicate";
}

static void
look_at(struct looked_at *l)
{
    switch ((int)l->u->op) {
    case UOP_RESHAPE:
        rule_reshape(l);
        break;
    case UOP_PERMUTE:
        rule_permute(l);
        break;
    case UOP_EXPAND: /* of axes of size 1, which are not split */
        keep_source(l);
        break;
    case UOP_PAD:
    case UOP_SHRINK:
        rule_ends(l);
        break;
    case UOP_FLIP:
        keep_source(l);
        if (l->src[0] >= 0 && l->u->arg.i >> l->src[0] & 1)
            be_whole(l, "it is reversed along that axis");
        break;
    case UOP_REDUCE_AXIS:
        rule_reduce(l);
        break;
    case UOP_GATHER:
        rule_gather(l);
        break;
    case UOP_SCAN:
        rule_along(l, (int)uop_scan_axis(l->u));
        break;
    case UOP_SORT_AXIS:
        rule_along(l, 1);
        break;
    case UOP_ASSIGN:
        rule_assign(l);
        break;
    case UOP_LAYOUT:
        rule_layout(l);
        break;
    case UOP_CAST:
    case UOP_BITCAST:
    case UOP_CONTIGUOUS:
    case UOP_DETACH:
        rule_elementwise(l);
        break;
    default:
        if (uop_has(l->u, UOP_FLAG_ALU) && l->u->n_src <= MESH_RULE_SRC)
            rule_elementwise(l);
        else
            be_whole(l, "a kernel of the program's own");
    }
}

/* An axis of a tensor that two axes of the mesh want is the first one's. */
static void
part_axes(struct mesh_layout *layout, uint32_t k)
{
    uint32_t i;

    for (i = 0; i < k; i++) {
        if (layout->at[k] >= 0 && layout->at[i] == layout->at[k])
            layout->at[k] = MESH_WHOLE;
    }
}

void
mesh_rule_of(const struct tensor_mesh *mesh, const struct uop_graph *g,
             const struct uop *u, const struct mesh_layout *src,
             struct mesh_rule *out)
{
    uint32_t k, s;

    *out = (struct mesh_rule){.out = mesh_whole()};
    for (s = 0; s < MESH_RULE_SRC; s++)
        out->in[s] = mesh_whole();
    for (k = 0; k < mesh->n_axes; k++) {
        struct looked_at l = {.g = g,
                              .u = u,
                              .shape = uop_shape(g, u),
                              .k = k,
                              .n_parts = (int)mesh_divisor(mesh, k),
                              .has_blocks = mesh->blocks[k] > 1,
                              .out = MESH_WHOLE};

        for (s = 0; s < MESH_RULE_SRC; s++) {
            l.src[s] = s < u->n_src ? src[s].at[k] : MESH_WHOLE;
            l.in[s] = MESH_WHOLE;
        }
        look_at(&l);
        out->again |= (uint32_t)l.again << k;
        out->why = out->why ? out->why : l.why;
        out->out.at[k] = (int8_t)l.out;
        for (s = 0; s < MESH_RULE_SRC; s++)
            out->in[s].at[k] = (int8_t)l.in[s];
        /* only sources that two axes of the mesh split alike meet here */
        if (u->n_src > 1 || u->op == UOP_GATHER) {
            part_axes(&out->out, k);
            for (s = 0; s < MESH_RULE_SRC; s++)
                part_axes(&out->in[s], k);
        }
    }
}
