/* Building the kernel of one stored value.
 *
 * Values are pulled from the root towards the leaves: a frame is one node
 * read at one index; equal reads are one frame. Ranges and slots are numbered
 * by first visit, so that kernels which do the same are the same node.
 */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

/* Loops of a kernel: each has a bit in sched_mask. */
#define MAX_RANGES 64

/* One node read at one index. */
struct frame {
    uint32_t node;
    uint32_t next_src;    /* sources already asked for */
    uint32_t next_same;   /* next frame of equal hash, or SCHED_NONE */
    uint32_t first_child; /* in builder.children, once expanded */
    const struct sched_idx *idx;
    const struct uop *valid;
    const struct sched_idx *src_idx; /* REDUCE_AXIS, SCAN: the source's index */
    const struct uop *value;         /* NULL until computed */
};

struct builder {
    struct sched *s;
    uint32_t root; /* the stored node */
    struct frame *frames;
    size_t n_frames, cap_frames;
    uint32_t *children;
    size_t n_children, cap_children;
    uint32_t *stack;
    size_t n_stack, cap_stack;
    struct map by_hash; /* to the newest frame of that hash */
    uint32_t *bufs;
    uint32_t n_bufs;
    uint32_t n_ranges;
    uint32_t keys; /* RANGE of attention's reductions, once there is one */
    bool failed;
};

static uint64_t
hash_read(uint32_t node, const struct sched_idx *idx, const struct uop *valid)
{
    uint64_t h = hash_add(node, valid ? valid->id + 1u : 0);
    uint32_t i;

    for (i = 0; i < idx->n; i++)
        h = hash_add(h, idx->e[i]->id);
    return h;
}

/* The frame of this read, found or made. */
static uint32_t
get_frame(struct builder *b, uint32_t node, const struct sched_idx *idx,
          const struct uop *valid)
{
    uint64_t hash = hash_read(node, idx, valid), *found;
    struct frame *frame;
    uint32_t at = SCHED_NONE;

    assert(node < b->s->n_nodes);
    found = map_get(&b->by_hash, hash);
    if (found) {
        for (at = (uint32_t)*found; at != SCHED_NONE;
             at = b->frames[at].next_same) {
            frame = &b->frames[at];
            if (frame->node == node && frame->valid == valid &&
                sched_idx_same(frame->idx, idx))
                return at;
        }
        at = (uint32_t)*found;
    }
    if (host_grow((void **)&b->frames, &b->cap_frames, b->n_frames + 1,
                  sizeof(*b->frames)) != 0 ||
        map_put(&b->by_hash, hash, b->n_frames) != 0) {
        b->failed = true;
        return 0;
    }
    frame = &b->frames[b->n_frames];
    memset(frame, 0, sizeof(*frame));
    frame->node = node;
    frame->idx = idx;
    frame->valid = valid;
    frame->next_same = at;
    frame->first_child = SCHED_NONE;
    return (uint32_t)b->n_frames++;
}

static void
push_frame(struct builder *b, uint32_t frame)
{
    assert(frame < b->n_frames);
    if (host_grow((void **)&b->stack, &b->cap_stack, b->n_stack + 1,
                  sizeof(*b->stack)) != 0)
        b->failed = true;
    else
        b->stack[b->n_stack++] = frame;
}

static uint32_t
param_slot(struct builder *b, uint32_t buf)
{
    uint32_t i;

    for (i = 0; i < b->n_bufs; i++) {
        if (b->bufs[i] == buf)
            return i;
    }
    if (b->n_bufs == SCHED_MAX_PARAMS) {
        b->failed = true;
        return 0;
    }
    b->bufs[b->n_bufs] = buf;
    return b->n_bufs++;
}

static const struct uop *
param(struct builder *b, uint32_t slot, enum uop_dtype dtype)
{
    union uop_arg arg = {.i = slot};

    return uop_new(b->s->k, UOP_PARAM, dtype, 1, arg, NULL, 0);
}

static const struct uop *
load_buffer(struct builder *b, const struct frame *frame)
{
    struct uop_graph *k = b->s->k;
    const struct sched_node *node = &b->s->nodes[frame->node];
    enum uop_dtype dtype = node->u->dtype;
    union uop_arg none = {.bits = 0};
    const struct uop *src[4];

    assert(node->buf != SCHED_NONE);
    src[0] = param(b, param_slot(b, node->buf), dtype);
    src[1] = sched_idx_linear(b->s, frame->idx, node->shape);
    src[2] = uop_const_int(k, dtype, 0);
    src[3] = frame->valid;
    if (frame->valid && frame->valid->op == UOP_CONST)
        return frame->valid->arg.i
                   ? uop_make(k, UOP_LOAD, dtype, 1, none, src, 2)
                   : src[2];
    return uop_make(k, UOP_LOAD, dtype, 1, none, src, frame->valid ? 4 : 2);
}

/* The index of REDUCE_AXIS's source: reduced axes get ranges of their own. */
static const struct sched_idx *
reduce_source(struct builder *b, const struct sched_node *node,
              const struct sched_idx *idx)
{
    const struct uop *u = node->u;
    const struct uop_dims *from = uop_shape(b->s->g, u->src[0]);
    struct sched_idx *out = sched_idx_new(b->s, from->n);
    uint32_t i, axes = uop_reduce_axes(u), id;

    for (i = 0; out && i < from->n; i++) {
        if (!(axes >> i & 1) || from->d[i] == 1) {
            out->e[i] = idx->e[i];
            continue;
        }
        if (b->n_ranges >= MAX_RANGES) {
            b->failed = true;
            return NULL;
        }
        id = b->n_ranges;
        if (sched_is_keys(node->attend) && b->keys != SCHED_NONE)
            id = b->keys;
        else
            b->n_ranges++;
        if (sched_is_keys(node->attend))
            b->keys = id;
        out->e[i] = sched_range(b->s, id, UOP_AXIS_REDUCE, from->d[i]);
    }
    return out;
}

/* The same of SCAN: all places of its axis. */
static const struct sched_idx *
scan_source(struct builder *b, const struct sched_node *node,
            const struct sched_idx *idx)
{
    struct sched_idx *out = sched_idx_new(b->s, idx->n);
    uint32_t axis = uop_scan_axis(node->u);

    assert(b->root < b->s->n_nodes && node == &b->s->nodes[b->root]);
    if (!out)
        return NULL;
    memcpy(out->e, idx->e, idx->n * sizeof(idx->e[0]));
    out->e[axis] =
        sched_range(b->s, b->n_ranges++, UOP_AXIS_REDUCE, node->shape->d[axis]);
    return out;
}

/* The gate of a gather: is the index in 0..n-1. */
static const struct uop *
gather_gate(struct sched *s, const struct uop *at, int64_t n)
{
    const struct uop *low, *high;

    low = uop_alu2(s->k, UOP_CMPLT, uop_const_int(s->k, UOP_I64, -1), at);
    high = uop_alu2(s->k, UOP_CMPLT, at, sched_size(s, n));
    return uop_alu2(s->k, UOP_AND, low, high);
}

/* The index at which GATHER reads, from the loaded one: negative ones count
 * from the end. */
static const struct uop *
gather_index(struct sched *s, const struct uop *at, int64_t n)
{
    const struct uop *size = sched_size(s, n);
    const struct uop *zero = uop_const_int(s->k, UOP_I64, 0);

    at = uop_cast(s->k, at, UOP_I64);
    return uop_alu3(s->k, UOP_WHERE, uop_alu2(s->k, UOP_CMPLT, at, zero),
                    uop_alu2(s->k, UOP_ADD, at, size), at);
}

static const struct sched_root *
root_of(const struct builder *b)
{
    return &b->s->roots[b->s->nodes[b->root].kernel];
}

/* Does the kernel store it beside its root? */
static bool
is_kept(const struct builder *b, uint32_t node)
{
    const struct sched_root *root = root_of(b);
    uint32_t i = 0;

    while (i < root->n_kept && root->kept[i] != node)
        i++;
    return i < root->n_kept;
}

static bool
is_leaf(const struct builder *b, const struct frame *frame)
{
    const struct sched_node *node = &b->s->nodes[frame->node];

    return node->u->n_src == 0 ||
           (node->stored && frame->node != b->root && !is_kept(b, frame->node));
}

/* Where source number `i` of the frame is read. For GATHER source 1 is asked
 * for first: its value is part of source 0's index. */
static uint32_t
source_frame(struct builder *b, uint32_t at, uint32_t i)
{
    struct sched *s = b->s;
    const struct uop *u = s->nodes[b->frames[at].node].u;
    const struct uop *valid = b->frames[at].valid;
    const struct sched_idx *idx = b->frames[at].idx;
    uint32_t src = i;

    if (u->op == UOP_SCAN) {
        idx = scan_source(b, &s->nodes[b->frames[at].node], idx);
        b->frames[at].src_idx = idx;
    } else if (u->op == UOP_REDUCE_AXIS) {
        idx = reduce_source(b, &s->nodes[b->frames[at].node], idx);
        b->frames[at].src_idx = idx;
    } else if (u->op == UOP_GATHER) {
        src = 1 - i;
        if (i == 1) {
            const struct uop_dims *dims = uop_shape(s->g, u->src[0]);
            uint32_t child = b->children[b->frames[at].first_child];
            const struct uop *index;
            struct sched_idx *moved = sched_idx_new(s, idx->n);
            if (!moved)
                return 0;
            index = gather_index(s, b->frames[child].value, dims->d[u->arg.i]);
            memcpy(moved->e, idx->e, idx->n * sizeof(idx->e[0]));
            moved->e[u->arg.i] = index;
            valid =
                sched_and(s, valid, gather_gate(s, index, dims->d[u->arg.i]));
            idx = moved;
        }
    } else {
        idx = sched_idx_source(s, u, src, idx, &valid);
    }
    if (!idx) {
        b->failed = true;
        return 0;
    }
    return get_frame(b, s->srcs[s->nodes[b->frames[at].node].src_base + src],
                     idx, valid);
}

/* value, or 0 where `gate` does not hold. `value` was read under the gate, so
 * that a load has it among its own and gives 0 there by itself. */
static const struct uop *
gated(struct builder *b, const struct uop *value, const struct uop *gate)
{
    struct uop_graph *k = b->s->k;

    if (value->op == UOP_LOAD && value->n_src == 4)
        return value;
    return uop_alu3(k, UOP_WHERE, gate, value,
                    uop_const_int(k, value->dtype, 0));
}

static const struct uop *
reduce_value(struct builder *b, const struct frame *frame, const struct uop *u,
             const struct uop *value)
{
    struct uop_graph *k = b->s->k;
    const struct uop_dims *from = uop_shape(b->s->g, u->src[0]);
    const struct uop *src[SCHED_MAX_RANK + 1];
    uint32_t i, n = 1, axes = uop_reduce_axes(u);
    uint64_t mask = sched_mask(b->s, value);
    enum uop_op op = uop_reduce_op(u);
    enum uop_dtype dtype = u->dtype;
    union uop_arg arg = {.i = op};

    for (i = 0; i < from->n; i++) {
        const struct uop *range = frame->src_idx->e[i];
        if (!(axes >> i & 1) || from->d[i] == 1)
            continue;
        if (!(mask >> uop_range_id(range) & 1)) {
            /* the same value every time */
            if (op == UOP_ADD && dtype != UOP_BOOL) {
                value =
                    uop_alu2(k, UOP_MUL, value,
                             uop_cast(k, sched_size(b->s, from->d[i]), dtype));
                continue;
            }
            if (op != UOP_MUL || dtype == UOP_BOOL)
                continue;
        }
        src[n++] = range;
    }
    src[0] = value;
    return n == 1 ? value : uop_make(k, UOP_REDUCE, dtype, 1, arg, src, n);
}

/* The form of SCAN in a kernel: the sum, say, over all j of what is there, or
 * the op's identity where j is more than i, or less (lower/scan/scan.h). */
static const struct uop *
scan_value(struct builder *b, const struct frame *frame, const struct uop *u,
           const struct uop *value)
{
    struct uop_graph *k = b->s->k;
    enum uop_dtype dtype = uop_dtype_is_small(u->dtype) ? UOP_F32 : u->dtype;
    union uop_arg arg = {.i = uop_scan_op(u)}, none = {.bits = 0};
    const struct uop *src[3], *at = frame->idx->e[uop_scan_axis(u)],
                              *from = frame->src_idx->e[uop_scan_axis(u)];

    src[0] = uop_scan_back(u) ? from : at;
    src[1] = uop_scan_back(u) ? at : from;
    src[0] = uop_new(k, UOP_CMPLT, UOP_BOOL, 1, none, src, 2);
    src[1] = uop_identity(k, uop_scan_op(u), dtype);
    src[2] = uop_cast(k, value, dtype);
    src[0] = uop_new(k, UOP_WHERE, dtype, 1, none, src, 3);
    src[1] = from;
    return uop_cast(k, uop_new(k, UOP_REDUCE, dtype, 1, arg, src, 2), u->dtype);
}

/* The frame's value from those of its sources. */
static const struct uop *
frame_value(struct builder *b, const struct frame *frame)
{
    struct uop_graph *k = b->s->k;
    const struct uop *u = b->s->nodes[frame->node].u, *src[3];
    const uint32_t *children = b->children + frame->first_child;
    const struct uop *gate;
    uint32_t i;

    for (i = 0; i < u->n_src && i < 3; i++)
        src[i] = b->frames[children[i]].value;
    switch ((int)u->op) {
    case UOP_REDUCE_AXIS:
        return reduce_value(b, frame, u, src[0]);
    case UOP_SCAN:
        return scan_value(b, frame, u, src[0]);
    case UOP_GATHER:
        gate = b->frames[children[1]].valid;
        return gated(b, src[1], gate);
    case UOP_PAD:
        gate = b->frames[children[0]].valid;
        return gate == frame->valid ? src[0] : gated(b, src[0], gate);
    case UOP_CONTIGUOUS:
    case UOP_DETACH:
        return src[0];
    case UOP_ASSIGN:
        return src[1];
    default:
        if (uop_has(u, UOP_FLAG_MOVE))
            return src[0];
        return uop_make(k, u->op, u->dtype, 1, u->arg, src, u->n_src);
    }
}

static const struct uop *
kernel_leaf(struct builder *b, const struct frame *frame)
{
    struct uop_graph *k = b->s->k;
    const struct sched_node *node = &b->s->nodes[frame->node];
    const struct uop *u = node->u;

    if (u->op == UOP_CONST)
        return uop_new(k, UOP_CONST, u->dtype, 1, u->arg, NULL, 0);
    if (u->op == UOP_VAR)
        return uop_new(k, UOP_VAR, u->dtype, 1,
                       (union uop_arg){.i = SCHED_VAR_SLOT + u->arg.i}, NULL,
                       0);
    if (u->op == UOP_IOTA)
        return uop_cast(k, sched_idx_linear(b->s, frame->idx, node->shape),
                        u->dtype);
    return load_buffer(b, frame);
}

/* Computes the frame on top of the stack, or asks for its next source. */
static void
step_frame(struct builder *b)
{
    uint32_t at = b->stack[b->n_stack - 1], child;
    struct frame *frame = &b->frames[at];
    const struct uop *u = b->s->nodes[frame->node].u;

    if (frame->value) {
        b->n_stack--;
        return;
    }
    if (is_leaf(b, frame)) {
        frame->value = kernel_leaf(b, frame);
        b->n_stack--;
        return;
    }
    if (frame->first_child == SCHED_NONE) {
        if (host_grow((void **)&b->children, &b->cap_children,
                      b->n_children + u->n_src, sizeof(*b->children)) != 0) {
            b->failed = true;
            return;
        }
        frame->first_child = (uint32_t)b->n_children;
        b->n_children += u->n_src;
    }
    if (frame->next_src < u->n_src) {
        child = source_frame(b, at, frame->next_src);
        frame = &b->frames[at];
        b->children[frame->first_child + frame->next_src++] = child;
        if (!b->failed && !b->frames[child].value)
            push_frame(b, child);
        return;
    }
    frame->value = frame_value(b, frame);
    b->n_stack--;
}

/* RANGE ids of the root's axes: those that hoisted reductions depend on come
 * first, the innermost set last. */
static void
order_axes(struct builder *b, const struct sched_node *node, uint32_t *ids)
{
    const struct sched_root *root = root_of(b);
    uint64_t done = 0;
    uint32_t i, c;

    for (c = 0; c <= root->n_chain; c++) {
        uint64_t set = c < root->n_chain ? root->chain[c] : UINT64_MAX;
        for (i = 0; i < node->shape->n; i++) {
            if ((set & ~done) >> i & 1 && node->shape->d[i] != 1)
                ids[i] = b->n_ranges++;
        }
        done |= set;
    }
}

/* Can the root be read by element number: then one range does. */
static const struct sched_idx *
root_index(struct builder *b, const struct sched_node *node)
{
    uint32_t ids[SCHED_MAX_RANK] = {0};
    struct sched_idx *idx;

    if (!node->flat_ok || node->numel <= 1 || node->shape->n < 1 ||
        sched_dims_vary(node->shape)) {
        order_axes(b, node, ids);
        return sched_idx_ranges(b->s, node->shape, ids, UOP_AXIS_LOOP);
    }
    idx = sched_idx_new(b->s, 1);
    if (idx) {
        idx->flat = true;
        idx->e[0] = uop_range(b->s->k, b->n_ranges++, UOP_AXIS_LOOP,
                              (int64_t)node->numel);
    }
    return idx;
}

/* The frame's value, stored in its node's buffer; of an ASSIGN where its
 * source 0 would be loaded. */
static const struct uop *
store_frame(struct builder *b, const struct frame *frame)
{
    const struct sched_node *node = &b->s->nodes[frame->node];
    union uop_arg none = {.bits = 0};
    const struct uop *src[3], *load;

    src[0] = param(b, param_slot(b, node->buf), node->u->dtype);
    src[1] = sched_idx_linear(b->s, frame->idx, node->shape);
    if (node->u->op == UOP_ASSIGN) {
        load = b->frames[b->children[frame->first_child]].value;
        assert(load->op == UOP_LOAD && load->src[0] == src[0]);
        src[1] = load->src[1];
    }
    src[2] = frame->value;
    return uop_new(b->s->k, UOP_STORE, UOP_VOID, 1, none, src, 3);
}

/* Values of frames, each computed with what it needs. */
static bool
compute(struct builder *b, uint32_t at)
{
    if (!b->failed)
        push_frame(b, at);
    while (b->n_stack && !b->failed && !b->s->k->failed)
        step_frame(b);
    return !b->failed && !b->s->k->failed;
}

static void
exchange_values(struct uop_graph *k, const struct uop **v, uint32_t n,
                uint32_t distance, bool mirrored)
{
    uint32_t i, j;

    for (i = 0; i < n; i++) {
        const struct uop *a = v[i];
        if (i & distance)
            continue;
        j = mirrored ? i ^ (2 * distance - 1) : i ^ distance;
        v[i] = uop_alu2(k, UOP_MIN, a, v[j]);
        v[j] = uop_alu2(k, UOP_MAX, a, v[j]);
    }
}

/* Sorts more keys than a thread has registers for: lower/scan/order.h. */
static const struct uop *
build_order(struct builder *b)
{
    struct uop_graph *k = b->s->k;
    const struct sched_node *node = &b->s->nodes[b->root];
    uint32_t src = b->s->srcs[node->src_base], ids[3] = {0}, i, at;
    const struct uop *value[3], *put[3], *store;
    struct sched_idx *to, *from;
    union uop_arg none = {.bits = 0};

    put[0] = param(b, param_slot(b, node->buf), node->u->dtype);
    for (i = 0; i < 3; i++)
        ids[i] = node->shape->d[i] == 1 ? 0 : b->n_ranges++;
    to = sched_idx_ranges(b->s, node->shape, ids, UOP_AXIS_LOOP);
    from = sched_idx_ranges(b->s, node->shape, ids, UOP_AXIS_LOOP);
    if (!to || !from)
        return NULL;
    from->e[1] =
        uop_range(k, b->n_ranges++, UOP_AXIS_REDUCE, node->shape->d[1]);
    at = get_frame(b, src, from, NULL);
    if (!compute(b, at))
        return NULL;
    value[0] = b->frames[at].value;
    value[1] = from->e[1];
    value[2] = to->e[1];
    put[1] = sched_idx_linear(b->s, to, node->shape);
    put[2] = uop_new(k, UOP_SORT, node->u->dtype, 1, node->u->arg, value, 3);
    store = uop_new(k, UOP_STORE, UOP_VOID, 1, none, put, 3);
    return uop_new(k, UOP_SINK, UOP_VOID, 1, none, &store, 1);
}

/* A kernel of SORT_AXIS has all that are exchanged at hand. */
static const struct uop *
build_exchange(struct builder *b)
{
    struct uop_graph *k = b->s->k;
    const struct sched_node *node = &b->s->nodes[b->root];
    uint32_t src = b->s->srcs[node->src_base], ids[3] = {0}, i, at, of, step;
    uint32_t n = (uint32_t)node->shape->d[1];
    const struct uop *v[UOP_MOST_IN_REGISTERS], *stores[UOP_MOST_IN_REGISTERS],
        *put[3];
    struct sched_idx *idx[UOP_MOST_IN_REGISTERS];
    union uop_arg none = {.bits = 0};

    assert(node->shape->n == 3);
    if (n > UOP_MOST_IN_REGISTERS)
        return build_order(b);
    put[0] = param(b, param_slot(b, node->buf), node->u->dtype);
    for (i = 0; i < 3; i += 2)
        ids[i] = node->shape->d[i] == 1 ? 0 : b->n_ranges++;
    for (i = 0; i < n; i++) {
        idx[i] = sched_idx_ranges(b->s, node->shape, ids, UOP_AXIS_LOOP);
        if (!idx[i])
            return NULL;
        idx[i]->e[1] = uop_const_int(k, UOP_I64, i);
        at = get_frame(b, src, idx[i], NULL);
        if (!compute(b, at))
            return NULL;
        v[i] = b->frames[at].value;
    }
    for (of = node->u->arg.i ? n : 2; of <= n; of *= 2) {
        for (step = of / 2; step > 0; step /= 2)
            exchange_values(k, v, n, step, step == of / 2 && !node->u->arg.i);
    }
    for (i = 0; i < n; i++) {
        put[1] = sched_idx_linear(b->s, idx[i], node->shape);
        put[2] = v[i];
        stores[i] = uop_new(k, UOP_STORE, UOP_VOID, 1, none, put, 3);
    }
    return uop_new(k, UOP_SINK, UOP_VOID, 1, none, stores, n);
}

static const struct uop *
build(struct builder *b)
{
    struct uop_graph *k = b->s->k;
    const struct sched_node *node = &b->s->nodes[b->root];
    const struct sched_root *root = root_of(b);
    const struct sched_idx *idx = root_index(b, node);
    union uop_arg none = {.bits = 0};
    const struct uop *stores[3];
    uint32_t at, i, n = 0;
    size_t f;

    if (!idx)
        return NULL;
    param_slot(b, node->buf);
    for (i = 0; i < root->n_kept; i++)
        param_slot(b, b->s->nodes[root->kept[i]].buf);
    at = get_frame(b, b->root, idx, NULL);
    if (!compute(b, at))
        return NULL;
    stores[n++] = store_frame(b, &b->frames[at]);
    for (i = 0; i < root->n_kept; i++) {
        for (f = 0; f < b->n_frames && b->frames[f].node != root->kept[i]; f++)
            ;
        if (f < b->n_frames)
            stores[n++] = store_frame(b, &b->frames[f]);
    }
    return uop_new(k, UOP_SINK, UOP_VOID, 1, none, stores, n);
}

/* Notes the marks of nodes that are not read from memory. */
static bell_status
note_frames(struct builder *b, struct sched_buf *buf)
{
    uint32_t *nodes;
    bell_status status;
    size_t n = 0, i;

    if (!b->s->g->has_marks)
        return BELL_OK;
    nodes = host_alloc(b->n_frames * sizeof(*nodes) + 1);
    if (!nodes)
        return sched_no_memory(b->s);
    for (i = 0; i < b->n_frames; i++) {
        if (!is_leaf(b, &b->frames[i]))
            nodes[n++] = b->frames[i].node;
    }
    status = sched_note_marks(b->s, buf, nodes, n);
    if (status == BELL_OK && b->s->nodes[b->root].u->op == UOP_SORT_AXIS)
        /* it has no frame */
        status = sched_note_marks(b->s, buf, &b->root, 1);
    host_free(nodes);
    return status;
}

bell_status
sched_kernel(struct sched *s, struct sched_plan *plan, uint32_t node,
             const struct uop **out_sink, uint32_t *bufs, uint32_t *out_n_bufs)
{
    struct builder b = {.s = s, .root = node, .bufs = bufs, .keys = SCHED_NONE};
    const struct uop *sink;
    bell_status status;

    assert(node < s->n_nodes);
    assert(s->nodes[node].stored && s->nodes[node].buf != SCHED_NONE);
    assert(s->nodes[node].kernel != SCHED_NONE);
    map_init(&b.by_hash);
    sink =
        s->nodes[node].u->op == UOP_SORT_AXIS ? build_exchange(&b) : build(&b);
    status = note_frames(&b, &plan->bufs[s->nodes[node].buf]);
    map_fini(&b.by_hash);
    host_free(b.frames);
    host_free(b.children);
    host_free(b.stack);
    BELL_TRY(status);
    if (s->k->failed)
        return uop_graph_status(s->k);
    if (!sink && b.n_bufs == SCHED_MAX_PARAMS)
        return bell_fail(BELL_E_INTERNAL, "a kernel reads more than %u buffers",
                         SCHED_MAX_PARAMS);
    if (!sink && b.n_ranges >= MAX_RANGES)
        return bell_fail(BELL_E_INTERNAL, "a kernel has more than %d loops",
                         MAX_RANGES);
    if (!sink)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory building a kernel");
    *out_sink = sink;
    *out_n_bufs = b.n_bufs;
    return BELL_OK;
}
