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
    uint32_t blocks[BELL_MESH_AXES]; /* of bell_mesh_set_blocks; 1: none */
    bool is_used;                    /* by bell_shard: it stays as it is */
};

/* Whether layouts along axis k change anything: it has several places, or sums
 * along it are made in blocks. */
static inline bool
mesh_is_split(const struct tensor_mesh *mesh, uint32_t k)
{
    return mesh->sizes[k] > 1 || mesh->blocks[k] > 1;
}

/* Into how many parts an axis is split as far as layouts and orders of sums
 * depend on it: with blocks they are the same for any number of places. */
static inline uint32_t
mesh_divisor(const struct tensor_mesh *mesh, uint32_t k)
{
    return mesh->blocks[k] > 1 ? mesh->blocks[k] : mesh->sizes[k];
}

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

/* Gives a context of one device what one of several has, for sums that are made
 * in blocks; another one stays as it is. In tensor/runtime/mesh_places.c. */
BELL_MUST_CHECK bell_status mesh_of_one(struct bell_context *ctx);

/* A mesh of n places along one axis, "data". */
void mesh_init(struct tensor_mesh *mesh, uint32_t n_places);

#endif
