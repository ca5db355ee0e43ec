/* Layouts of nodes: what each place of a mesh has of a value.
 *
 * A rule says, for a node and the layouts of its sources, which layouts its
 * sources should have instead, so that every place can do its part of the node
 * alone, and which layout the result then has. Rules look at one axis of the
 * mesh at a time.
 */
#ifndef BELL_TENSOR_MESH_LAYOUT_H
#define BELL_TENSOR_MESH_LAYOUT_H

#include "tensor/core/tensor_internal.h"
#include "tensor/mesh/mesh.h"
#include "uops/uop.h"

#define MESH_WHOLE   (-1)
#define MESH_PARTIAL (-2) /* every place has a term of a sum */

/* By axis of the mesh: MESH_WHOLE, MESH_PARTIAL, or the axis of the tensor of
 * which each place has a part. No axis of a tensor is there twice. */
struct mesh_layout {
    int8_t at[BELL_MESH_AXES];
};

#define MESH_RULE_SRC 3

/* Sources beyond MESH_RULE_SRC are whole, as all of a node without a rule. */
struct mesh_rule {
    struct mesh_layout in[MESH_RULE_SRC], out;
    /* Axes of the mesh along which what each place has reduced is gathered and
     * reduced once more: a maximum, say. */
    uint32_t again;
    const char *why; /* what a source that is gathered is gathered for */
};

struct mesh_layout mesh_whole(void);

/* src[]: of the node's sources. The graph has the shapes of whole values. */
void mesh_rule_of(const struct tensor_mesh *mesh, const struct uop_graph *g,
                  const struct uop *u, const struct mesh_layout *src,
                  struct mesh_rule *out);

/* arg of LAYOUT. With MESH_PARTIAL, terms of a sum stay terms, and memory has
 * them; other values are left as they are. */
static inline int64_t
mesh_layout_arg(uint32_t k, int axis)
{
    return (int64_t)(axis + 1) * 4 + (int64_t)k;
}

/* Its axis of the mesh, and what the value becomes along that. */
static inline uint32_t
mesh_layout_mesh_axis(int64_t arg)
{
    return (uint32_t)(arg & 3);
}

static inline int
mesh_layout_axis(int64_t arg)
{
    return (int)((arg - (arg & 3)) / 4) - 1;
}

/* The elements of an axis that each place has room for: the last ones' may be
 * less. */
static inline int64_t
mesh_part_of(int64_t size, uint32_t n_places)
{
    return (size + n_places - 1) / n_places;
}

/* Between layouts of a tensor of that shape and what places have of its
 * elements, which does not depend on how these are shaped. */
void mesh_layout_parts(const struct tensor_mesh *mesh,
                       const struct uop_dims *shape,
                       const struct mesh_layout *layout,
                       struct tensor_part parts[BELL_MESH_AXES]);
/* The parts that places of the context's mesh will have of nodes of its graph
 * when these are realized. Computes nothing. */
BELL_MUST_CHECK bell_status
mesh_parts_of(const struct bell_context *ctx, const struct uop *const *nodes,
              size_t n, struct tensor_part (*parts)[BELL_MESH_AXES]);

/* u with a LAYOUT along axis k of the mesh, of the context's graph: an axis of
 * u, MESH_WHOLE or MESH_PARTIAL. u itself where there is nothing to split. */
const struct uop *mesh_lay(struct bell_context *ctx, const struct uop *u,
                           uint32_t k, int axis);

struct mesh_layout
mesh_parts_layout(const struct tensor_mesh *mesh, const struct uop_dims *shape,
                  const struct tensor_part parts[BELL_MESH_AXES]);

#endif
