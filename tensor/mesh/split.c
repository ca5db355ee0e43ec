/* See split.h. */
#include "tensor/mesh/split.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "tensor/core/node.h"

typedef const struct uop *node;

/* The node that one of the context's graph has become. */
struct made {
    node u; /* in the graph of a place; NULL: not yet */
    struct mesh_layout layout;
    uint32_t level;  /* large parts of memory gathered on the way to it */
    uint32_t n_took; /* how often it was gathered itself, being memory */
    uint32_t taken;  /* the level at which it was gathered last */
};

struct splitter {
    const struct bell_context *ctx;
    const struct tensor_mesh *mesh;
    const struct uop_graph *from;
    struct uop_graph *to;
    struct made *made; /* by id */
    node user;         /* whose sources are changed; NULL: roots */
    uint32_t level;    /* of the user, before it gathers */
    uint32_t turn;     /* of the gather that is added */
    bool has_gathered; /* the user, memory */
    bool tells;
    bool bad_store; /* to a part of a tensor that is split there */
    uint32_t *own;  /* owned: ids of what the split makes of numbers and offsets
                     * itself */
    size_t n_own, cap_own;
    /* Owned: nodes with numbers or offsets, and those that they have become
     * beside the ones in made[]. */
    struct mesh_copied *again;
    size_t n_again, cap_again;
    struct map is_again; /* owned: ids of both -> 1 */
};

/* ---- nodes of the graph of a place --------------------------------------- */

static const struct uop_dims *
shape_in(const struct splitter *s, node u)
{
    return uop_shape(s->to, u);
}

static bool
has_numbers(node u)
{
    return u->op == UOP_CONST || u->op == UOP_PAD || u->op == UOP_SHRINK;
}

/* Notes that the split makes u itself. */
static node
own(struct splitter *s, node u)
{
    if (s->to->failed || !has_numbers(u))
        return u;
    if (host_grow((void **)&s->own, &s->cap_own, s->n_own + 1,
                  sizeof(*s->own)) != 0) {
        s->to->failed = true;
        return &uop_failed;
    }
    s->own[s->n_own++] = u->id;
    return u;
}

static node
make(struct splitter *s, enum uop_op op, node like, union uop_arg arg, node src,
     const int64_t *d, uint32_t n)
{
    const struct uop_dims *shape = uop_dims(s->to, d, n);

    return s->to->failed ? &uop_failed
                         : own(s, uop_new_shaped(s->to, op, like->dtype, arg,
                                                 &src, 1, shape));
}

static node
reshape(struct splitter *s, node u, const int64_t *d, uint32_t n)
{
    union uop_arg arg = {.dims = uop_dims(s->to, d, n)};

    if (s->to->failed || arg.dims == shape_in(s, u))
        return s->to->failed ? &uop_failed : u;
    return make(s, UOP_RESHAPE, u, arg, u, d, n);
}

/* Axis `from` becomes axis `to`. */
static node
move_axis(struct splitter *s, node u, uint32_t from, uint32_t to)
{
    int64_t order[TN_MAX_RANK + 1], d[TN_MAX_RANK + 1];
    const struct uop_dims *shape = shape_in(s, u);
    union uop_arg arg;
    uint32_t i, k;

    if (from == to || s->to->failed)
        return u;
    for (i = k = 0; i < shape->n; i++) {
        k += k == from;
        order[i] = i == to ? from : k++;
        d[i] = shape->d[order[i]];
    }
    arg.dims = uop_dims(s->to, order, shape->n);
    return make(s, UOP_PERMUTE, u, arg, u, d, shape->n);
}

static node
cast(struct splitter *s, node u, enum uop_dtype dtype)
{
    union uop_arg none = {.bits = 0};

    if (u->dtype == dtype || s->to->failed)
        return u;
    return uop_new_shaped(s->to, UOP_CAST, dtype, none, &u, 1, shape_in(s, u));
}

/* ---- what places exchange ------------------------------------------------ */

static const char *const call_names[] = {
    [MESH_ALL_REDUCE] = "all-reduce",
    [MESH_REDUCE_SCATTER] = "reduce-scatter",
    [MESH_ALL_GATHER] = "all-gather",
};

static void
tell(const struct splitter *s, enum mesh_call_kind kind, uint32_t k, node u,
     const char *why)
{
    const struct uop_dims *shape = shape_in(s, u);
    char text[TENSOR_SHAPE_STR];
    uint64_t n = uop_dtype_infos[u->dtype].size_bytes;
    uint32_t i;

    for (i = 0; i < shape->n; i++)
        n *= (uint64_t)shape->d[i];
    LOG(LOG_MESH,
        "%s along '%s' of %s, %s, %llu bytes of each place, for %s%s%s",
        call_names[kind], s->mesh->names[k],
        tensor_shape_str(shape->d, shape->n, text, sizeof(text)),
        uop_dtype_infos[u->dtype].name, (unsigned long long)n,
        s->user ? uop_op_infos[s->user->op].name : "the result",
        why ? ": " : "", why ? why : "");
}

/* The collective along axis k of the mesh, of all of u, with a result of that
 * shape: a RESHAPE, as a CALL is found by the number of its elements alone. */
static node
add_call(struct splitter *s, enum mesh_call_kind kind, uint32_t k, node u,
         const int64_t *d, uint32_t n, const char *why)
{
    struct mesh_call call = {kind, s->mesh->sizes[k], s->mesh->strides[k],
                             kind != MESH_ALL_GATHER && s->mesh->blocks[k] > 1};
    int64_t arg_d[3] = {mesh_call_number(&call, s->turn), (int64_t)u->dtype, 1};
    union uop_arg arg;
    size_t n_nodes;
    node call_node;
    uint32_t i;

    if (s->to->failed)
        return &uop_failed;
    for (i = 0; i < n; i++)
        arg_d[2] *= d[i];
    arg.dims = uop_dims(s->to, arg_d, 3);
    n_nodes = s->to->n_nodes;
    call_node = make(s, UOP_CALL, u, arg, u, &arg_d[2], 1);
    /* another user has it already, else */
    if (s->tells && LOG_ON(LOG_MESH) && s->to->n_nodes > n_nodes)
        tell(s, kind, k, u, why);
    return reshape(s, call_node, d, n);
}

static uint32_t
take_shape(const struct splitter *s, node u, int64_t *d)
{
    const struct uop_dims *shape = shape_in(s, u);

    memcpy(d, shape->d, shape->n * sizeof(*d));
    return shape->n;
}

/* The first `size` elements of an axis. */
static node
cut(struct splitter *s, node u, uint32_t axis, int64_t size)
{
    int64_t d[TN_MAX_RANK], ends[2 * TN_MAX_RANK];
    union uop_arg arg;
    uint32_t i, n;

    if (s->to->failed || shape_in(s, u)->d[axis] == size)
        return u;
    n = take_shape(s, u, d);
    d[axis] = size;
    for (i = 0; i < n; i++) {
        ends[2 * i] = 0;
        ends[2 * i + 1] = d[i];
    }
    arg.dims = uop_dims(s->to, ends, 2 * n);
    return make(s, UOP_SHRINK, u, arg, u, d, n);
}

/* With zeros behind, so that it is `size` elements. */
static node
stretch(struct splitter *s, node u, uint32_t axis, int64_t size)
{
    int64_t d[TN_MAX_RANK], ends[2 * TN_MAX_RANK] = {0};
    union uop_arg arg;
    uint32_t n;

    if (s->to->failed || shape_in(s, u)->d[axis] == size)
        return u;
    n = take_shape(s, u, d);
    ends[2 * axis + 1] = size - d[axis];
    d[axis] = size;
    arg.dims = uop_dims(s->to, ends, 2 * n);
    return make(s, UOP_PAD, u, arg, u, d, n);
}

/* Parts of axis `axis`, of that size, of all places along k, joined. */
static node
gather_parts(struct splitter *s, uint32_t k, node u, uint32_t axis,
             int64_t size, const char *why)
{
    int64_t d[TN_MAX_RANK + 1];
    uint32_t n;

    if (s->to->failed || s->mesh->sizes[k] == 1)
        return s->to->failed ? &uop_failed : u;
    n = take_shape(s, u, d + 1);
    d[0] = s->mesh->sizes[k];
    u = add_call(s, MESH_ALL_GATHER, k, u, d, n + 1, why);
    u = move_axis(s, u, 0, axis);
    if (s->to->failed)
        return &uop_failed;
    memmove(d, d + 1, n * sizeof(*d));
    d[axis] *= s->mesh->sizes[k];
    return cut(s, reshape(s, u, d, n), axis, size);
}

/* The size of an axis of which all parts along k are equal. */
static int64_t
stretched(const struct splitter *s, uint32_t k, int64_t size)
{
    return mesh_part_of(size, s->mesh->sizes[k]) * s->mesh->sizes[k];
}

/* Integers of 16 bits wrap around in 32 as well. */
static node
widen_term(struct splitter *s, node u)
{
    return u->dtype == UOP_I16 || u->dtype == UOP_U16 ? cast(s, u, UOP_I32) : u;
}

static node
add_up(struct splitter *s, uint32_t k, node u)
{
    enum uop_dtype dtype = u->dtype;
    int64_t d[TN_MAX_RANK];
    uint32_t n;

    if (s->mesh->sizes[k] == 1)
        return u;
    u = widen_term(s, u);
    if (s->to->failed)
        return &uop_failed;
    n = take_shape(s, u, d);
    return cast(s, add_call(s, MESH_ALL_REDUCE, k, u, d, n, NULL), dtype);
}

/* The part of the sum that a place has of `axis`. */
static node
add_up_part(struct splitter *s, uint32_t k, node u, uint32_t axis)
{
    enum uop_dtype dtype = u->dtype;
    int64_t d[TN_MAX_RANK + 1];
    uint32_t n;

    if (s->mesh->sizes[k] == 1)
        return u;
    u = widen_term(s, u);
    if (s->to->failed)
        return &uop_failed;
    u = stretch(s, u, axis, stretched(s, k, shape_in(s, u)->d[axis]));
    if (s->to->failed)
        return &uop_failed;
    n = take_shape(s, u, d);
    memmove(d + axis + 1, d + axis, (n - axis) * sizeof(*d));
    d[axis] = s->mesh->sizes[k];
    d[axis + 1] /= s->mesh->sizes[k];
    u = move_axis(s, reshape(s, u, d, n + 1), axis, 0);
    memmove(d + axis, d + axis + 1, (n - axis) * sizeof(*d));
    u = add_call(s, MESH_REDUCE_SCATTER, k, u, d, n, NULL);
    return cast(s, u, dtype);
}

/* The part that a place has of `axis`. A value that is repeated along
 * it is repeated less often. */
static node
take_part(struct splitter *s, uint32_t k, node u, uint32_t axis)
{
    int64_t d[TN_MAX_RANK], arg_d[4 * TN_MAX_RANK] = {0};
    union uop_arg arg;
    uint32_t n, i;

    if (s->to->failed || s->mesh->sizes[k] == 1)
        return s->to->failed ? &uop_failed : u;
    n = take_shape(s, u, d);
    d[axis] = mesh_part_of(d[axis], s->mesh->sizes[k]);
    if (u->op == UOP_EXPAND && shape_in(s, u->src[0])->d[axis] == 1) {
        arg.dims = uop_dims(s->to, d, n);
        return make(s, UOP_EXPAND, u, arg, u->src[0], d, n);
    }
    u = stretch(s, u, axis, d[axis] * s->mesh->sizes[k]);
    for (i = 0; i < n; i++)
        arg_d[2 * i + 1] = d[i];
    arg_d[2 * (n + axis)] = mesh_offset(s->mesh->sizes[k], s->mesh->strides[k]);
    arg_d[2 * (n + axis) + 1] = d[axis];
    arg.dims = uop_dims(s->to, arg_d, 4 * n);
    return make(s, UOP_SHRINK, u, arg, u, d, n);
}

/* Is the axis that axis k of the mesh splits to be split by another one, which
 * adds up for it? */
static bool
is_in_the_way(const struct splitter *s, const struct mesh_layout *is,
              const struct mesh_layout *to, uint32_t k)
{
    uint32_t j;

    for (j = 0; j < s->mesh->n_axes && is->at[k] >= 0; j++) {
        if (is->at[j] == MESH_PARTIAL && to->at[j] == is->at[k])
            return true;
    }
    return false;
}

/* u, part of a value of that shape in layout `is`, in layout `to`. Where two
 * axes of the mesh split it, it is whole in between: parts of parts are in
 * another order. */
static node
change(struct splitter *s, node u, const struct uop_dims *shape,
       struct mesh_layout is, const struct mesh_layout *to, const char *why)
{
    uint32_t k;

    if (u->op == UOP_CONST)
        return u;
    for (k = 0; k < s->mesh->n_axes && !s->to->failed; k++) {
        if (!is_in_the_way(s, &is, to, k))
            continue;
        assert(is.at[k] != to->at[k]);
        u = gather_parts(s, k, u, (uint32_t)is.at[k], shape->d[is.at[k]], why);
        is.at[k] = MESH_WHOLE;
    }
    for (k = 0; k < s->mesh->n_axes && !s->to->failed; k++) {
        if (is.at[k] == to->at[k] || is.at[k] == MESH_WHOLE)
            continue;
        assert(to->at[k] != MESH_PARTIAL);
        if (is.at[k] >= 0)
            u = gather_parts(s, k, u, (uint32_t)is.at[k], shape->d[is.at[k]],
                             why);
        else if (to->at[k] >= 0)
            u = add_up_part(s, k, u, (uint32_t)to->at[k]);
        else
            u = add_up(s, k, u);
        is.at[k] = is.at[k] == MESH_PARTIAL ? to->at[k] : MESH_WHOLE;
    }
    for (k = 0; k < s->mesh->n_axes && !s->to->failed; k++) {
        if (is.at[k] != to->at[k])
            u = take_part(s, k, u, (uint32_t)to->at[k]);
    }
    return u;
}

/* ---- nodes --------------------------------------------------------------- */

/* The shape of a part. */
static const struct uop_dims *
part_shape(struct splitter *s, node u, const struct mesh_layout *layout)
{
    const struct uop_dims *shape = uop_shape(s->from, u);
    int64_t d[TN_MAX_RANK];
    uint32_t k, n = shape ? shape->n : 0;

    assert(n <= TN_MAX_RANK);
    if (n)
        memcpy(d, shape->d, n * sizeof(*d));
    for (k = 0; k < s->mesh->n_axes; k++) {
        if (layout->at[k] >= 0)
            d[layout->at[k]] =
                mesh_part_of(d[layout->at[k]], s->mesh->sizes[k]);
    }
    return uop_dims(s->to, d, n);
}

/* PADs and SHRINKs of axes that are not split; of others the whole part is
 * left. */
static const struct uop_dims *
part_ends(struct splitter *s, node u, const struct uop_dims *shape,
          const struct mesh_layout *layout)
{
    int64_t d[2 * TN_MAX_RANK];
    uint32_t k;

    memcpy(d, u->arg.dims->d, 2 * shape->n * sizeof(*d));
    for (k = 0; k < s->mesh->n_axes; k++) {
        if (layout->at[k] >= 0 && u->op == UOP_SHRINK)
            d[2 * layout->at[k] + 1] = shape->d[layout->at[k]];
    }
    return uop_dims(s->to, d, 2 * shape->n);
}

/* The number that changes nothing in a reduction. */
static node
neutral_of(struct splitter *s, enum uop_op op, enum uop_dtype dtype)
{
    node u = uop_identity(s->to, op, dtype);

    if (!s->to->failed)
        s->to->shapes[u->id] = uop_dims(s->to, NULL, 0);
    return own(s, u);
}

/* u, with the neutral number of a reduction in those elements of the last parts
 * that are beyond the axis, of that size. */
static node
mask_rest(struct splitter *s, node u, uint32_t k, uint32_t axis, int64_t size,
          enum uop_op op)
{
    int64_t all = stretched(s, k, size), d[TN_MAX_RANK], ones[TN_MAX_RANK];
    union uop_arg arg = {.i = all}, none = {.bits = 0};
    node at, src[3];
    uint32_t i, n;

    if (all == size || s->to->failed)
        return u;
    n = take_shape(s, u, d);
    for (i = 0; i < n; i++)
        ones[i] = i == axis ? d[i] : 1;
    at = uop_new_shaped(s->to, UOP_IOTA, UOP_I64, arg, NULL, 0,
                        uop_dims(s->to, &all, 1));
    at = reshape(s, take_part(s, k, at, 0), ones, n);
    arg.dims = uop_dims(s->to, d, n);
    if (!s->to->failed && arg.dims != shape_in(s, at))
        at = make(s, UOP_EXPAND, at, arg, at, d, n);
    src[0] = at;
    src[1] = own(s, uop_const_int(s->to, UOP_I64, size));
    if (s->to->failed)
        return &uop_failed;
    s->to->shapes[src[1]->id] = uop_dims(s->to, NULL, 0);
    src[0] = uop_new_shaped(s->to, UOP_CMPLT, UOP_BOOL, none, src, 2, arg.dims);
    src[1] = u;
    src[2] = neutral_of(s, op, u->dtype);
    return s->to->failed ? &uop_failed
                         : uop_new_shaped(s->to, UOP_WHERE, u->dtype, none, src,
                                          3, shape_in(s, u));
}

/* The source of a reduction without what is beyond split axes that it sums. */
static node
mask_parts(struct splitter *s, node u, node src, const struct mesh_layout *in)
{
    const struct uop_dims *shape = uop_shape(s->from, u->src[0]);
    uint32_t k;

    for (k = 0; k < s->mesh->n_axes; k++) {
        if (in->at[k] >= 0 && uop_reduce_axes(u) >> in->at[k] & 1)
            src = mask_rest(s, src, k, (uint32_t)in->at[k], shape->d[in->at[k]],
                            uop_reduce_op(u));
    }
    return src;
}

/* Once more of what each place has reduced. */
static node
reduce_again(struct splitter *s, node u, node part,
             const struct mesh_layout *in, const struct mesh_rule *rule)
{
    int64_t d[TN_MAX_RANK];
    union uop_arg arg;
    uint32_t k, n;

    for (k = 0; k < s->mesh->n_axes && !s->to->failed; k++) {
        uint32_t axis = (uint32_t)in->at[k];

        if (!(rule->again >> k & 1) || s->mesh->sizes[k] == 1)
            continue;
        part = gather_parts(s, k, part, axis, s->mesh->sizes[k], rule->why);
        if (s->to->failed)
            break;
        n = take_shape(s, part, d);
        d[axis] = 1;
        arg.i = uop_reduce_arg(uop_reduce_op(u), 1u << axis);
        part = make(s, UOP_REDUCE_AXIS, part, arg, part, d, n);
    }
    return part;
}

/* ---- sums in blocks ------------------------------------------------------ */

/* The sum of all along an axis, in pairs, pairs of pairs, .. as collectives add
 * in_pairs. The axis stays, of size 1. */
static node
add_pairs(struct splitter *s, node u, uint32_t axis)
{
    int64_t d[TN_MAX_RANK + BELL_MESH_AXES],
        ends[2 * (TN_MAX_RANK + BELL_MESH_AXES)];
    node list[BELL_MESH_PLACES], pair[2];
    union uop_arg arg, none = {.bits = 0};
    uint32_t n, m, i;

    if (s->to->failed)
        return &uop_failed;
    n = take_shape(s, u, d);
    m = (uint32_t)d[axis];
    assert(m <= BELL_MESH_PLACES);
    d[axis] = 1;
    for (i = 0; i < m && !s->to->failed; i++) {
        uint32_t j;

        for (j = 0; j < n; j++) {
            ends[2 * j] = j == axis ? i : 0;
            ends[2 * j + 1] = j == axis ? i + 1 : d[j];
        }
        arg.dims = uop_dims(s->to, ends, 2 * n);
        list[i] = make(s, UOP_SHRINK, u, arg, u, d, n);
    }
    for (; m > 1 && !s->to->failed; m = (m + 1) / 2) {
        for (i = 0; i < m / 2 && !s->to->failed; i++) {
            pair[0] = list[2 * i];
            pair[1] = list[2 * i + 1];
            list[i] = uop_new_shaped(s->to, UOP_ADD, u->dtype, none, pair, 2,
                                     shape_in(s, pair[0]));
        }
        if (m % 2)
            list[m / 2] = list[m - 1];
    }
    return s->to->failed ? &uop_failed : list[0];
}

/* Sums of so many results at most are made in float64: their kernels add in an
 * order that depends on the size, and rounded once that does not show. Kernels
 * of more results take these side by side. guess */
#define WIDE_RESULTS 4096

static bool
is_wide_sum(const struct splitter *s, node u)
{
    const struct uop_dims *shape = uop_shape(s->from, u);
    int64_t n = 1;
    uint32_t i;

    for (i = 0; i < shape->n; i++)
        n *= shape->d[i];
    return u->dtype == UOP_F32 && n <= WIDE_RESULTS &&
           tensor_device_has_f64(s->ctx);
}

/* Does u sum along axis k's in blocks? */
static bool
has_blocks(const struct splitter *s, node u, const struct mesh_layout *in,
           uint32_t k)
{
    return s->mesh->blocks[k] > 1 && in->at[k] >= 0 &&
           uop_reduce_axes(u) >> in->at[k] & 1 && uop_reduce_op(u) == UOP_ADD &&
           uop_dtype_infos[u->dtype].is_float;
}

/* A sum along split axes, of the blocks of a place one by one, and then of
 * these. NULL: it has no blocks. */
static node
sum_in_blocks(struct splitter *s, node u, node src,
              const struct mesh_layout *in, const struct uop_dims *shape)
{
    int64_t d[TN_MAX_RANK + BELL_MESH_AXES];
    uint32_t axes = uop_reduce_axes(u), at[BELL_MESH_AXES], k, j, i, n;
    union uop_arg arg, none = {.bits = 0};
    bool is_any = false;

    for (k = 0; k < s->mesh->n_axes && !s->to->failed; k++) {
        int64_t m = s->mesh->blocks[k] / s->mesh->sizes[k], each;
        uint32_t axis;

        if (!has_blocks(s, u, in, k))
            continue;
        axis = (uint32_t)in->at[k];
        for (j = 0; j < k; j++)
            axis += has_blocks(s, u, in, j) && in->at[j] < in->at[k];
        each = (shape_in(s, src)->d[axis] + m - 1) / m;
        src = stretch(s, src, axis, each * m);
        if (s->to->failed)
            break;
        n = take_shape(s, src, d);
        memmove(d + axis + 1, d + axis, (n - axis) * sizeof(*d));
        d[axis] = m;
        d[axis + 1] = each;
        src = reshape(s, src, d, n + 1);
        axes = (axes & ((1u << axis) - 1)) | (axes >> axis) << (axis + 1);
        for (j = 0; j < k; j++)
            at[j] += is_any && at[j] > axis;
        at[k] = axis;
        is_any = true;
    }
    if (!is_any || s->to->failed)
        return s->to->failed ? &uop_failed : NULL;
    if (is_wide_sum(s, u))
        src = cast(s, src, UOP_F64);
    if (s->to->failed)
        return &uop_failed;
    n = take_shape(s, src, d);
    for (i = 0; i < n; i++)
        d[i] = axes >> i & 1 ? 1 : d[i];
    arg.i = uop_reduce_arg(UOP_ADD, axes);
    src = uop_new_shaped(s->to, UOP_REDUCE_AXIS, src->dtype, arg, &src, 1,
                         uop_dims(s->to, d, n));
    src = cast(s, src, u->dtype);
    if (!s->to->failed) /* each block once */
        src = uop_new_shaped(s->to, UOP_CONTIGUOUS, u->dtype, none, &src, 1,
                             shape_in(s, src));
    for (k = 0; k < s->mesh->n_axes; k++) {
        if (has_blocks(s, u, in, k))
            src = add_pairs(s, src, at[k]);
    }
    return reshape(s, src, shape->d, shape->n);
}

/* Where it stores must be memory still. */
static void
check_store(struct splitter *s, node place)
{
    while (place->op == UOP_SHRINK || place->op == UOP_RESHAPE)
        place = place->src[0];
    s->bad_store |= place->op != UOP_BUFFER && !s->to->failed;
}

static node
build(struct splitter *s, node u, node *src, const struct mesh_rule *rule)
{
    const struct uop_dims *shape = part_shape(s, u, &rule->out);
    union uop_arg arg = u->arg;
    node made;

    if (s->to->failed)
        return &uop_failed;
    if (u->op == UOP_LAYOUT)
        return src[0];
    if (u->op == UOP_REDUCE_AXIS)
        src[0] = mask_parts(s, u, src[0], &rule->in[0]);
    made = u->op == UOP_REDUCE_AXIS && !s->to->failed
               ? sum_in_blocks(s, u, src[0], &rule->in[0], shape)
               : NULL;
    if (made)
        return made;
    if (u->op == UOP_ASSIGN)
        check_store(s, src[0]);
    if (u->op == UOP_RESHAPE)
        return reshape(s, src[0], shape->d, shape->n);
    if (u->op == UOP_EXPAND)
        arg.dims = shape;
    else if (u->op == UOP_PAD || u->op == UOP_SHRINK)
        arg.dims = part_ends(s, u, shape, &rule->out);
    else if (uop_op_infos[u->op].arg_kind == UOP_ARG_DIMS)
        arg.dims = uop_dims(s->to, u->arg.dims->d, u->arg.dims->n);
    if (s->to->failed)
        return &uop_failed;
    made = uop_new_shaped(s->to, u->op, u->dtype, arg, src, u->n_src, shape);
    return rule->again ? reduce_again(s, u, made, &rule->in[0], rule) : made;
}

struct tensor_buffer *
mesh_laid(struct tensor_buffer *buf,
          const struct tensor_part parts[BELL_MESH_AXES])
{
    struct tensor_buffer *laid;

    for (laid = buf->laid; laid; laid = laid->next_laid) {
        if (memcmp(laid->parts, parts, sizeof(laid->parts)) == 0)
            return laid;
    }
    if (tensor_buffer_create_held(buf->ctx, buf->dtype, buf->n_elems, NULL, buf,
                                  parts, &laid) != BELL_OK)
        return NULL;
    laid->has_range = buf->has_range;
    laid->low = buf->low;
    laid->high = buf->high;
    laid->n_kept = 1; /* for whoever asks again: not to be written to */
    laid->next_laid = buf->laid;
    buf->laid = laid;
    return laid;
}

/* A leaf whose values the host has, under bell_shard: it is written to places
 * in that layout. NULL: it is none. */
static node
lay_leaf(struct splitter *s, node u, struct mesh_rule *rule)
{
    struct tensor_part parts[BELL_MESH_AXES];
    struct tensor_buffer *buf;
    const struct uop_dims *shape = uop_shape(s->from, u);
    union uop_arg arg = {.bits = 0};
    node leaf = u;

    while (leaf->op == UOP_LAYOUT)
        leaf = leaf->src[0];
    if (u->op != UOP_LAYOUT || leaf->op != UOP_BUFFER ||
        mesh_layout_axis(u->arg.i) == MESH_PARTIAL)
        return NULL;
    buf = (struct tensor_buffer *)(uintptr_t)leaf->arg.data;
    if (!buf->held || uop_shape(s->from, leaf) != shape)
        return NULL;
    mesh_layout_parts(s->mesh, shape, &rule->out, parts);
    arg.data = mesh_laid(buf, parts);
    if (!arg.data) {
        s->to->failed = true;
        return &uop_failed;
    }
    return uop_new_shaped(s->to, UOP_BUFFER, u->dtype, arg, NULL, 0,
                          part_shape(s, u, &rule->out));
}

/* The layout of a leaf is its memory's. */
static void
rule_of(struct splitter *s, node u, struct mesh_rule *rule)
{
    struct mesh_layout src[MESH_RULE_SRC];
    const struct tensor_buffer *buf;
    uint32_t i;

    for (i = 0; i < MESH_RULE_SRC && i < u->n_src; i++)
        src[i] = s->made[u->src[i]->id].layout;
    mesh_rule_of(s->mesh, s->from, u, src, rule);
    if (u->op != UOP_BUFFER)
        return;
    buf = (const struct tensor_buffer *)(uintptr_t)u->arg.data;
    rule->out = mesh_parts_layout(s->mesh, uop_shape(s->from, u), buf->parts);
}

/* ---- exchanges before values grow ---------------------------------------- */

/* So many nodes are looked through for a smaller value. guess */
#define LOOK_THROUGH 64

static bool
is_same_layout(const struct mesh_layout *a, const struct mesh_layout *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* The source that is not whole at each place, of a node that can be given
 * another layout by giving one to that source alone; or -1. */
static int
carried_source(const struct splitter *s, node u)
{
    const struct mesh_layout whole = mesh_whole();
    int at = -1;
    uint32_t i;

    switch ((int)u->op) {
    case UOP_RESHAPE:
    case UOP_PERMUTE:
    case UOP_EXPAND:
    case UOP_PAD:
    case UOP_FLIP:
    case UOP_CAST:
    case UOP_DETACH:
        return 0;
    default:
        break;
    }
    for (i = 0; uop_has(u, UOP_FLAG_ALU) && i < u->n_src; i++) {
        if (is_same_layout(&s->made[u->src[i]->id].layout, &whole) ||
            (at >= 0 && u->src[i] == u->src[at]))
            continue;
        if (at >= 0)
            return -1;
        at = (int)i;
    }
    return at;
}

static uint64_t
whole_bytes(const struct splitter *s, node u)
{
    const struct uop_dims *shape = uop_shape(s->from, u);
    uint64_t n = uop_dtype_infos[u->dtype].size_bytes;
    uint32_t i;

    for (i = 0; shape && i < shape->n; i++)
        n *= (uint64_t)shape->d[i];
    return n;
}

static bool
is_move(node u)
{
    return u->op == UOP_RESHAPE || u->op == UOP_PERMUTE || u->op == UOP_FLIP;
}

/* How far below u the smallest value is that it is only repeated, padded or
 * computed one by one from; 0: u is it. Among those that differ in their order
 * alone it is the lowest, which others may need as well. */
static uint32_t
depth_of_least(const struct splitter *s, node u)
{
    uint64_t least = whole_bytes(s, u), bytes;
    uint32_t depth, best = 0;
    bool moves;
    int at;

    for (depth = 1; depth <= LOOK_THROUGH; depth++) {
        at = carried_source(s, u);
        if (at < 0)
            break;
        moves = is_move(u) && best + 1 == depth;
        u = u->src[at];
        bytes = whole_bytes(s, u);
        if (bytes < least || (bytes == least && moves)) {
            least = bytes;
            best = depth;
        }
    }
    return best;
}

/* The layout that exchanges alone give a value in layout `is`, on its way to
 * `to`. Places still take their parts of it. */
static struct mesh_layout
exchanged_layout(const struct splitter *s, const struct mesh_layout *is,
                 const struct mesh_layout *to)
{
    struct mesh_layout mid = *is;
    uint32_t k;

    for (k = 0; k < s->mesh->n_axes; k++) {
        if (is->at[k] == to->at[k] || is->at[k] == MESH_WHOLE)
            continue;
        mid.at[k] = is->at[k] == MESH_PARTIAL ? to->at[k] : MESH_WHOLE;
    }
    return mid;
}

/* The rule of u where its source `at`, wherever it is one, has src[at]. */
static void
try_sources(const struct splitter *s, node u, uint32_t at,
            struct mesh_layout *src, struct mesh_rule *rule)
{
    uint32_t i;

    for (i = 0; i < u->n_src; i++)
        src[i] = u->src[i] == u->src[at] ? src[at] : mesh_whole();
    mesh_rule_of(s->mesh, s->from, u, src, rule);
}

/* Finds the rule of u by which it is `to`, where its source `at` is given
 * another layout along the axes of the mesh in which `to` is not u's. False:
 * there is none. */
static bool
find_rule(const struct splitter *s, node u, uint32_t at,
          const struct mesh_layout *to, struct mesh_rule *rule)
{
    const struct mesh_layout *is = &s->made[u->id].layout;
    struct mesh_layout src[MESH_RULE_SRC];
    const struct uop_dims *shape = uop_shape(s->from, u->src[at]);
    uint32_t k, i;

    for (i = 0; i < MESH_RULE_SRC; i++)
        src[i] = mesh_whole();
    src[at] = rule->in[at];
    assert(u->n_src <= MESH_RULE_SRC);
    for (k = 0; k < s->mesh->n_axes; k++) {
        if (is->at[k] == to->at[k])
            continue;
        src[at].at[k] = MESH_WHOLE;
        for (i = 0; to->at[k] >= 0 && i < shape->n; i++) {
            if (shape->d[i] == 1)
                continue; /* nothing is split there */
            src[at].at[k] = (int8_t)i;
            try_sources(s, u, at, src, rule);
            if (rule->out.at[k] == to->at[k])
                break;
        }
    }
    try_sources(s, u, at, src, rule);
    return is_same_layout(&rule->in[at], &src[at]) &&
           is_same_layout(&rule->out, to);
}

static void
note_again(struct splitter *s, node from, node to)
{
    uint64_t ids = (uint64_t)from->id << 32 | to->id;

    if (s->to->failed || !has_numbers(from) || map_get(&s->is_again, ids))
        return;
    if (map_put(&s->is_again, ids, 1) != 0 ||
        host_grow((void **)&s->again, &s->cap_again, s->n_again + 1,
                  sizeof(*s->again)) != 0)
        s->to->failed = true;
    else
        s->again[s->n_again++] = (struct mesh_copied){from->id, to->id};
}

/* ---- gathering again ----------------------------------------------------- */

/* Values of fewer bytes are gathered once, and stay. guess */
#define AGAIN_BYTES 16384

/* The memory that u is, in another order or dtype; or NULL. */
static node
memory_of(node u)
{
    while (is_move(u) || u->op == UOP_CAST || u->op == UOP_DETACH)
        u = u->src[0];
    return u->op == UOP_BUFFER ? u : NULL;
}

/* Parts of memory that are gathered for one user, and for another one far
 * behind it, are gathered twice: in between they would take room. So a
 * parameter is there for its layer alone, forward and backward. Far behind is
 * where other memory is gathered on the way. Returns which time it is. */
static uint32_t
take_turn(struct splitter *s, node u, const struct mesh_layout *to)
{
    const struct mesh_layout *is = &s->made[u->id].layout;
    node memory = memory_of(u);
    bool is_gather = false;
    struct made *made;
    uint32_t k;

    for (k = 0; k < s->mesh->n_axes; k++)
        is_gather |= is->at[k] >= 0 && to->at[k] != is->at[k];
    if (!is_gather || !memory || whole_bytes(s, u) < AGAIN_BYTES)
        return 0;
    made = &s->made[memory->id];
    s->has_gathered = true;
    if (made->n_took == 0 || s->level > made->taken + 1) {
        made->n_took++;
        made->taken = s->level;
    }
    return made->n_took - 1;
}

/* u, a node of the whole graph, in layout `to`. What places exchange for it is
 * the value that is `depth` nodes below. */
static node
lay_below(struct splitter *s, node u, const struct mesh_layout *to,
          uint32_t depth, const char *why)
{
    const struct made *of = &s->made[u->id];
    const struct uop_dims *shape = uop_shape(s->from, u);
    struct mesh_layout mid = exchanged_layout(s, &of->layout, to);
    node src[MESH_RULE_SRC], laid;
    struct mesh_rule rule;
    uint32_t i, k, at;
    bool good;

    if (depth == 0 || s->to->failed || is_same_layout(&mid, &of->layout)) {
        s->turn = take_turn(s, u, to);
        laid = change(s, of->u, shape, of->layout, to, why);
        s->turn = 0;
        return laid;
    }
    at = (uint32_t)carried_source(s, u);
    rule_of(s, u, &rule);
    good = find_rule(s, u, at, &mid, &rule);
    if (!good) { /* a sum of which parts are wanted where it is repeated */
        for (k = 0; k < s->mesh->n_axes; k++)
            mid.at[k] = mid.at[k] == of->layout.at[k] ? mid.at[k] : MESH_WHOLE;
        rule_of(s, u, &rule);
        good = find_rule(s, u, at, &mid, &rule);
    }
    if (!good)
        return change(s, of->u, shape, of->layout, to, why);
    for (i = 0; i < u->n_src; i++)
        src[i] = lay_below(s, u->src[i], &rule.in[i],
                           u->src[i] == u->src[at] ? depth - 1 : 0, why);
    laid = s->to->failed ? &uop_failed : build(s, u, src, &rule);
    note_again(s, u, laid);
    return s->to->failed ? &uop_failed : change(s, laid, shape, mid, to, why);
}

/* u in layout `to`. A value that was repeated or padded goes over as what it
 * was before. */
static node
lay(struct splitter *s, node u, const struct mesh_layout *to, const char *why)
{
    const struct mesh_layout *is = &s->made[u->id].layout;
    struct mesh_layout mid = exchanged_layout(s, is, to);
    uint32_t depth = is_same_layout(&mid, is) ? 0 : depth_of_least(s, u);

    return lay_below(s, u, to, depth, why);
}

static void
split_node(struct splitter *s, node u)
{
    const struct mesh_layout whole = mesh_whole();
    struct made *made = &s->made[u->id];
    node src[UOP_MAX_CALL_SRC];
    struct mesh_rule rule;
    uint32_t i;

    rule_of(s, u, &rule);
    s->user = u;
    *made = (struct made){.layout = rule.out};
    made->u = lay_leaf(s, u, &rule);
    if (made->u)
        return;
    assert(u->n_src <= UOP_MAX_CALL_SRC);
    for (i = 0; i < u->n_src; i++) {
        if (s->made[u->src[i]->id].level > made->level)
            made->level = s->made[u->src[i]->id].level;
    }
    s->level = made->level;
    s->has_gathered = false;
    for (i = 0; i < u->n_src; i++)
        src[i] = lay(s, u->src[i], i < MESH_RULE_SRC ? &rule.in[i] : &whole,
                     rule.why);
    made->u = s->to->failed ? &uop_failed : build(s, u, src, &rule);
    made->level += s->has_gathered;
}

/* The leaf that a LAYOUT lays out; or NULL. */
static struct tensor_buffer *
laid_leaf(node u)
{
    node leaf = u;

    while (leaf->op == UOP_LAYOUT)
        leaf = leaf->src[0];
    return u->op == UOP_LAYOUT && leaf->op == UOP_BUFFER
               ? (struct tensor_buffer *)(uintptr_t)leaf->arg.data
               : NULL;
}

#define OWN_NODE UINT32_MAX

/* Node `to` has the numbers of node `from`. seen[]: by id, from which node it
 * is so far, + 1; or OWN_NODE. */
static bool
note_copy(const struct splitter *s, uint32_t from, uint32_t to, uint32_t *seen,
          struct mesh_copies *out)
{
    if (host_grow((void **)&out->list, &out->cap, out->n + 1,
                  sizeof(*out->list)) != 0)
        return false;
    out->is_mixed |= (seen[to] && seen[to] != from + 1) ||
                     s->to->nodes[to]->op != s->from->nodes[from]->op;
    seen[to] = from + 1;
    out->list[out->n++] = (struct mesh_copied){from, to};
    return true;
}

/* From which nodes those with numbers are. */
static void
note_copies(struct splitter *s, const struct uop *const *list, size_t n,
            struct mesh_copies *out)
{
    uint32_t *seen = host_calloc(s->to->n_nodes + 1, sizeof(*seen));
    bool good = seen != NULL;
    size_t i;

    for (i = 0; good && i < s->n_own; i++)
        seen[s->own[i]] = OWN_NODE;
    for (i = 0; good && i < n; i++) {
        struct tensor_buffer *leaf = laid_leaf(list[i]);

        if (leaf) {
            good = host_grow((void **)&out->laid, &out->cap_laid,
                             out->n_laid + 1, sizeof(leaf)) == 0;
            if (good)
                out->laid[out->n_laid++] = leaf;
        }
        if (good && has_numbers(list[i]))
            good = note_copy(s, list[i]->id, s->made[list[i]->id].u->id, seen,
                             out);
    }
    for (i = 0; good && i < s->n_again; i++)
        good = note_copy(s, s->again[i].from, s->again[i].to, seen, out);
    s->to->failed |= !good;
    host_free(seen);
}

/* May a root's terms along axis k of the mesh stay where they are? */
static bool
keeps_terms(node root, uint32_t k)
{
    while (root->op == UOP_LAYOUT) {
        if (mesh_layout_axis(root->arg.i) == MESH_PARTIAL &&
            mesh_layout_mesh_axis(root->arg.i) == k)
            return true;
        root = root->src[0];
    }
    return root->op == UOP_BUFFER; /* memory stays as it is */
}

bell_status
mesh_split(const struct bell_context *ctx, const struct uop *const *roots,
           size_t n, bool tells, struct uop_graph *to, const struct uop **nodes,
           struct mesh_layout *layouts, struct mesh_copies *copies)
{
    struct splitter s = {.ctx = ctx,
                         .mesh = ctx->mesh,
                         .from = &ctx->graph,
                         .to = to,
                         .tells = tells};
    const struct uop **list;
    size_t n_list, i;
    uint32_t k;

    if (ctx->dims->n_symbols)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "sizes of symbols are for one device; the context "
                         "has %u",
                         ctx->mesh->n_places);
    BELL_TRY(uop_toposort(s.from, roots, n, &list, &n_list));
    map_init(&s.is_again);
    s.made = host_alloc((ctx->graph.n_nodes + 1) * sizeof(*s.made));
    for (i = 0; s.made && i < n_list && !to->failed; i++)
        split_node(&s, list[i]);
    s.user = NULL;
    s.level = 0;
    for (i = 0; s.made && i < n && !to->failed; i++) {
        layouts[i] = s.made[roots[i]->id].layout;
        for (k = 0; k < BELL_MESH_AXES; k++) {
            if (layouts[i].at[k] == MESH_PARTIAL && !keeps_terms(roots[i], k))
                layouts[i].at[k] = MESH_WHOLE;
        }
        nodes[i] = lay(&s, roots[i], &layouts[i], NULL);
    }
    if (copies && s.made && !to->failed)
        note_copies(&s, list, n_list, copies);
    host_free(list);
    host_free(s.made);
    host_free(s.own);
    host_free(s.again);
    map_fini(&s.is_again);
    if (!s.made)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory realizing");
    if (s.bad_store)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "a part is assigned of a tensor that is split along "
                         "an axis of the part, or of gradients that are added "
                         "up later: bell_replicate it first");
    return uop_graph_status(to);
}
