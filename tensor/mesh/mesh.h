/* The mesh of a context: its places in a grid.
 *
 * A context of one device has none, or one of a single place: nothing here is
 * looked at on its way to the device.
 */
#ifndef BELL_TENSOR_MESH_MESH_H
#define BELL_TENSOR_MESH_MESH_H

#include <stdbool.h>
#include <stdint.h>

#include "doorbell/mesh.h"

/* Place p has coordinate p / strides[k] % sizes[k] along axis k. Axes that it
 * does not have are of size 1. */
struct tensor_mesh {
    uint32_t n_places, n_axes;
    uint32_t sizes[BELL_MESH_AXES], strides[BELL_MESH_AXES];
    char names[BELL_MESH_AXES][BELL_MESH_NAME + 1];
    bool is_used; /* by bell_shard: it stays as it is */
};

static inline uint32_t
mesh_coord(const struct tensor_mesh *mesh, uint32_t k, uint32_t place)
{
    return place / mesh->strides[k] % mesh->sizes[k];
}

/* The number of the context's axis of that name. The context gets a mesh of a
 * single place where it has none. */
BELL_MUST_CHECK bell_status mesh_find_axis(struct bell_context *ctx,
                                           const char *call, const char *name,
                                           uint32_t *out_k);

/* A mesh of n places along one axis, "data". */
void mesh_init(struct tensor_mesh *mesh, uint32_t n_places);

#endif
