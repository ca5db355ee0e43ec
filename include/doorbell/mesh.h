/* Meshes: one program on several devices.
 *
 *     bell_context_create("CPU:0,CPU:1", &ctx);
 *     x = bell_shard(x, "data", 0);             half of the rows on each
 *     loss = bell_cross_entropy(forward(x), y);
 *     bell_backward(loss);                      the same calls as on one device
 *
 * A context of several devices has a place for each, numbered from 0 in the
 * order of their names, and a mesh: the places in a grid of 1 to BELL_MESH_AXES
 * axes that have names. It begins with one axis, "data". The devices are of one
 * chip: "NV:0,NV:1", "AMD:0@sim:gfx1100*2,AMD:1@sim:gfx1100*2", or "NV:*" and
 * "NV:*@sim:sm_90*2", which are all there are of that backend. The host's
 * processor is any number of places: "CPU:0,CPU:1".
 *
 * Values do not know of places: shapes, reads, writes, files, random numbers,
 * gradients and errors are those of a context of one device. So are results, to
 * the bit, but for sums of floats. Along an axis that is split these are added
 * up at each place first, and then in the order of places; elsewhere the kernel
 * of a part may add in another order, as that of any other size may.
 *
 * A layout says what is at which place. For each axis of the mesh either every
 * place along it has all of the tensor (whole), or it has one part of one of
 * the tensor's axes (split). A tensor is whole when it is made of data.
 * bell_shard and bell_replicate ask for another layout; results follow from
 * their operands (docs/explanation/mesh.md).
 *
 * A sum along an axis that is split stays a sum per place until something else
 * than a sum uses it. Then it is added up (all-reduce), or, where only a part
 * is used, added up in parts (reduce-scatter). BELL_DEBUG=mesh tells what is
 * exchanged, and for what.
 *
 * A jit (doorbell/jit.h) is captured for layouts, too, and replays as one graph
 * of all places.
 *
 * Not on several devices: bundles, loaders, sizes of symbols, a search for
 * schedules (BELL_BEAM). They are BELL_E_UNSUPPORTED and say so.
 * bell_from_blob copies the caller's memory.
 *
 * Threads. As the calls of tensor.h.
 */
#ifndef BELL_DOORBELL_MESH_H
#define BELL_DOORBELL_MESH_H

#include <stdint.h>

#include "doorbell/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_context;
struct bell_optimizer;
struct bell_state;
struct bell_tensor;

/* The most axes of a mesh, places of a context, and bytes of a name. */
#define BELL_MESH_AXES   3
#define BELL_MESH_PLACES 64
#define BELL_MESH_NAME   31

/* How many devices the context has; 0 after a failure. */
BELL_API uint32_t bell_mesh_places(const struct bell_context *ctx);

/* Puts the places in a grid of n axes: sizes[0] * .. * sizes[n-1] of them,
 * place number in row-major order, with names[i] for axis i. Before the first
 * bell_shard or bell_replicate of the context. A context of one device takes
 * sizes of 1, so that a program can be the same. BELL_E_INVALID: another number
 * of places; a name that is NULL, empty, longer than BELL_MESH_NAME or given
 * twice; later than that. */
BELL_API BELL_MUST_CHECK bell_status bell_mesh_set(struct bell_context *ctx,
                                                   const int64_t *sizes,
                                                   uint32_t n,
                                                   const char *const *names);

/* Sums of floats along an axis that is split along this one of the mesh are
 * made of n blocks of equal size, one by one, and these are added up in pairs,
 * then the sums of pairs, and so on. So results do not depend on how many
 * places there are, where that divides n: to the bit, where the kernels of
 * parts add in one order, as all but those of very few rows do. A context of
 * one device takes blocks, too, and has the bits of n places.
 *
 *     bell_mesh_set_blocks(ctx, "data", 4);   for 1, 2 and 4 devices alike
 *
 * Each place has memory for its n / places terms of a sum while it adds them
 * up, and sums of sums are exchanged one by one. Not of that order: axes that
 * n does not divide, sums over axes that two axes of the mesh split, and
 * gradients that bell_optimizer_accumulate adds up.
 *
 * After bell_mesh_set and before the first bell_shard or bell_replicate; n = 1:
 * none, which is how it begins. BELL_E_INVALID: n is not a power of 2, a
 * multiple of the axis' places and at most BELL_MESH_PLACES; the mesh has no
 * such axis; later than that. */
BELL_API BELL_MUST_CHECK bell_status bell_mesh_set_blocks(
    struct bell_context *ctx, const char *mesh_axis, int64_t n);

/* The value of t with its axis `axis` (negative: from the last one) split along
 * an axis of the mesh: place c along it has part c. Parts are of equal sizes
 * but for the last ones, which are smaller or empty where the size is not a
 * multiple of the places. An axis of size 1 stays whole. The gradient flows
 * through.
 * Where another axis of the mesh splits that axis of t already, t is whole
 * along that one. On failure the error tensor. */
BELL_API struct bell_tensor *bell_shard(struct bell_tensor *t,
                                        const char *mesh_axis, int64_t axis);
/* The value of t, whole at each place along an axis of the mesh. */
BELL_API struct bell_tensor *bell_replicate(struct bell_tensor *t,
                                            const char *mesh_axis);

/* A layout of gradients that bell_optimizer_accumulate left. */
#define BELL_MESH_TERMS (-2)

/* Where a tensor is. */
struct bell_layout {
    uint32_t struct_size; /* sizeof(struct bell_layout), set by the caller */
    uint32_t n_axes;      /* of the mesh */
    int64_t sizes[BELL_MESH_AXES]; /* of these axes, in places */
    /* The axis of the tensor that is split along that of the mesh; -1: it is
     * whole; BELL_MESH_TERMS: each place has a term of a sum, the tensor.
     * Axes that the mesh does not have are 1 place, -1. */
    int32_t axes[BELL_MESH_AXES];
    uint64_t place_bytes; /* that each place has, or will have */
};

/* The layout that t has, or will have when it is realized: nothing is computed.
 * Fields beyond out_layout->struct_size stay. */
BELL_API BELL_MUST_CHECK bell_status
bell_layout_of(struct bell_tensor *t, struct bell_layout *out_layout);

/* ---- training ------------------------------------------------------------ */

/* The values that places along an axis of the mesh share out, each a part:
 * ZeRO's stages (Rajbhandari et al., 2019, arXiv:1910.02054). Each includes
 * those before it. */
enum bell_shard_kind {
    /* The optimiser's states. Gradients are added up in parts, each place moves
     * its part of a parameter, and these are gathered: as many bytes as adding
     * up gradients. */
    BELL_SHARD_STATES = 1,
    /* Also gradients that bell_optimizer_accumulate computes. */
    BELL_SHARD_GRADIENTS = 2,
    /* Also parameters, which are gathered where they are used: FSDP. */
    BELL_SHARD_PARAMS = 3
};

/* Splits the optimiser's tensors along an axis of the mesh, for all steps and
 * groups from now on. The axis of a parameter is the one that it is split along
 * already; or the first of those that leave the least room unused, and are not
 * split along another axis of the mesh. Parameters of one element stay
 * whole. Values stay what they are. Once, and not in a function that is
 * captured; also while the context has one device, where it changes nothing.
 *
 *     bell_adam_create(params.tensors, params.n, &options, &opt);
 *     bell_optimizer_shard(opt, "data", BELL_SHARD_PARAMS);
 *
 * BELL_E_INVALID: the mesh has no such axis, no such kind, a second time. */
BELL_API BELL_MUST_CHECK bell_status
bell_optimizer_shard(struct bell_optimizer *opt, const char *mesh_axis,
                     enum bell_shard_kind kind);

/* Which parameters are split, and how. */
struct bell_shard_rule {
    const char *pattern;   /* of names; '*' is any number of characters */
    const char *mesh_axis; /* NULL: what is named so stays as it is */
    int64_t axis;          /* of the tensor; negative: from the last one */
};

/* Splits the tensors of a list by their names: tensor parallel layers, say.
 *
 *     static const struct bell_shard_rule rules[] = {
 *         {"layers.*.up.*", "model", 0},
 *         {"layers.*.down.weight", "model", 1},
 *     };
 *
 *     bell_module_state(&net_type, &net, NULL, &state);
 *     bell_state_shard(&state, rules, 2);
 *
 * A name takes the first rule that it matches for each axis of the mesh; one
 * without an axis of the mesh ends its list. Tensors are changed where they
 * are, and realized; numbers have no layout. Before optimisers are made, whose
 * states take the layouts of parameters. Not in a function that is captured.
 * BELL_E_INVALID, and nothing is changed: a pattern that no name matches, which
 * the message tells; an axis that a tensor or the mesh does not have. */
BELL_API BELL_MUST_CHECK bell_status
bell_state_shard(const struct bell_state *state,
                 const struct bell_shard_rule *rules, uint32_t n);

#ifdef __cplusplus
}
#endif
#endif
