/* Which values are stored, and the kernels that compute them.
 *
 * Nodes are visited users first. Each has by then the list of all its reads:
 * by which kernel, at which index, inside which reductions. A value read once,
 * at every element once, is computed where it is read. Otherwise the work of
 * computing it again at each read is weighed against storing it. Unit of cost:
 * about a tenth of a cycle of one core, vectorised.
 */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/map.h"
#include "lower/lower.h"

#define COST_LOAD   10.0     /* reading one element from memory */
#define COST_STORE  20.0     /* writing one */
#define COST_LAUNCH 60000.0  /* one more kernel */
#define COST_LONG   500.0    /* of what no two users compute each */
#define COST_SHARED 1000.0   /* of each work-item: less than a launch takes */
#define SMALL_WORK  400000.0 /* not worth a second core */
#define MAX_READS   6 /* different reads of one value that is not stored */

/* One reduction in one kernel: what is read inside it. */
struct context {
    uint32_t parent; /* SCHED_NONE: the kernel's outputs */
    uint64_t mask;   /* its own ranges */
    double times;    /* how often its body runs */
};

#define MANY_READS 16 /* of a node, that are found by a map */

/* One read of a node. */
struct read {
    uint32_t kernel, context, next;
    uint32_t same; /* of by_kernel: the next one of the node in the kernel */
    const struct sched_idx *idx;
    const struct uop *valid;
};

struct sched_kernel {
    uint32_t node;
    uint32_t n_ranges, n_nodes, n_out;
    double size[64];
    uint64_t chain[4]; /* RANGE sets of hoisted reductions, nested */
    uint32_t n_chain;
    uint32_t kept[2]; /* nodes that it stores beside its own */
    uint32_t n_kept;
    uint64_t out_mask;
    double n_outputs, work;
    bool has_contraction, has_reduction;
    bool attends, is_back; /* SCHED_ATTEND_BACK is in it */
    uint32_t keys;         /* attention's RANGE, once there is one */
};

struct planner {
    struct sched s;
    struct read *reads;
    size_t n_reads, cap_reads;
    struct map by_kernel; /* of a node that has MANY_READS and a kernel, to the
                           * last read */
    struct context *contexts;
    size_t n_contexts, cap_contexts;
    struct sched_kernel *kernels;
    size_t n_kernels, cap_kernels;
    bool failed;
};

static double
op_cost(const struct uop *u)
{
    switch ((int)u->op) {
    case UOP_EXP2:
    case UOP_LOG2:
        return 14;
    case UOP_SIN:
    case UOP_COS:
        return 25;
    case UOP_POW:
    case UOP_FMOD:
        return 60;
    case UOP_FFLOORDIV:
        return 15;
    case UOP_SQRT:
    case UOP_FDIV:
    case UOP_RECIP:
        return 6;
    case UOP_IDIV:
    case UOP_IMOD:
    case UOP_FLOORDIV:
    case UOP_FLOORMOD:
        return 15;
    case UOP_CAST:
    case UOP_BITCAST:
        return 0;
    case UOP_GATHER:
        return 5;
    default:
        return uop_has(u, UOP_FLAG_ALU) ? 1 : 0;
    }
}

/* --- what is below a node --- */

static const struct sched_set *
one_leaf(struct planner *p, uint32_t node)
{
    struct sched_set *set =
        arena_alloc(&p->s.scratch, sizeof(*set) + sizeof(set->item[0]));

    assert(node < p->s.n_nodes);
    if (!set) {
        p->failed = true;
        return NULL;
    }
    set->n = 1;
    set->item[0] = node;
    return set;
}

static const struct sched_set *
merge_leaves(struct planner *p, const struct sched_set *a,
             const struct sched_set *b)
{
    uint32_t item[2 * SCHED_MAX_LEAVES + 2], n = 0, i = 0, j = 0;
    struct sched_set *set;

    if (!a || !b || a == b)
        return a ? a : b;
    while (i < a->n || j < b->n) {
        uint32_t x = i < a->n ? a->item[i] : UINT32_MAX;
        uint32_t y = j < b->n ? b->item[j] : UINT32_MAX;
        i += x <= y;
        j += y <= x;
        item[n++] = x < y ? x : y;
    }
    if (n == a->n || n == b->n)
        return n == a->n ? a : b;
    set = arena_alloc(&p->s.scratch, sizeof(*set) + n * sizeof(item[0]));
    if (!set) {
        p->failed = true;
        return NULL;
    }
    set->n = n;
    memcpy(set->item, item, n * sizeof(item[0]));
    return set;
}

/* Elements read from memory for one element of the node that is made of the
 * leaves. */
static double
leaf_loads(const struct planner *p, const struct sched_node *node,
           const struct sched_set *leaves)
{
    double loads = 0, share;
    uint32_t i;

    for (i = 0; leaves && i < leaves->n; i++) {
        share = p->s.nodes[leaves->item[i]].numel / node->numel;
        loads += share < 1 ? share : 1;
    }
    return loads;
}

static bool
storable(const struct uop *u)
{
    return u->n_src > 0 && (!uop_has(u, UOP_FLAG_MOVE) || u->op == UOP_PAD) &&
           u->op != UOP_CONTIGUOUS && u->op != UOP_DETACH;
}

/* Has the node stored, or what it moves: that takes no more memory, and often
 * much less. Who is made of it reads one buffer. */
static void
force_below(struct planner *p, uint32_t at)
{
    uint32_t below = at, src;

    while (uop_has(p->s.nodes[below].u, UOP_FLAG_MOVE) &&
           p->s.nodes[below].u->op != UOP_PAD) {
        src = sched_source(&p->s, below, 0);
        if (p->s.nodes[src].numel > p->s.nodes[below].numel)
            break;
        below = src;
    }
    p->s.nodes[below].forced = true;
    p->s.nodes[below].leaves = one_leaf(p, below);
    for (;; at = sched_source(&p->s, at, 0)) {
        struct sched_node *node = &p->s.nodes[at];
        node->leaves = node->seen = p->s.nodes[below].leaves;
        node->cost = node->seen_cost = 0;
        if (at == below)
            return;
    }
}

/* Forces the source with most leaves to be stored when all together are too
 * many for a kernel. */
static const struct sched_set *
join_sources(struct planner *p, uint32_t node)
{
    const struct sched_node *nd = &p->s.nodes[node];
    const struct sched_set *all = NULL;
    uint32_t i, worst;

    assert(node < p->s.n_nodes);
    for (;;) {
        all = NULL;
        worst = SCHED_NONE;
        for (i = 0; i < nd->u->n_src; i++) {
            struct sched_node *src = &p->s.nodes[sched_source(&p->s, node, i)];
            all = merge_leaves(p, all, src->seen);
            if (all && all->n > SCHED_MAX_LEAVES)
                break;
        }
        if (!all || all->n <= SCHED_MAX_LEAVES || p->failed)
            return all;
        for (i = 0; i < nd->u->n_src; i++) {
            uint32_t at = sched_source(&p->s, node, i);
            struct sched_node *src = &p->s.nodes[at];
            if (src->seen && src->seen->n > 1 &&
                (worst == SCHED_NONE ||
                 src->seen->n > p->s.nodes[worst].seen->n))
                worst = at;
        }
        if (worst == SCHED_NONE)
            return all;
        force_below(p, worst);
    }
}

/* A reduction each of whose inputs is used for many outputs. */
static bool
is_contraction(const struct planner *p, uint32_t at)
{
    const struct sched_node *src = &p->s.nodes[sched_source(&p->s, at, 0)];
    double total = 0;
    uint32_t i;

    if (!src->seen)
        return false;
    for (i = 0; i < src->seen->n; i++)
        total += p->s.nodes[src->seen->item[i]].numel;
    return total * 2 < src->numel && src->numel > 4096;
}

/* Which contraction the node is made of, its sources being done. */
static void
find_product(struct planner *p, uint32_t at)
{
    struct sched_node *node = &p->s.nodes[at];
    const struct uop *u = node->u;
    bool same =
        u->op == UOP_CAST || u->op == UOP_RESHAPE || uop_has(u, UOP_FLAG_ALU);
    uint32_t i, product = SCHED_NONE;

    node->product = SCHED_NONE;
    if (node->forced)
        return;
    node->reduces = u->op == UOP_REDUCE_AXIS;
    for (i = 0; i < u->n_src; i++) {
        const struct sched_node *src = &p->s.nodes[sched_source(&p->s, at, i)];
        node->reduces |= src->reduces;
        if (src->product == SCHED_NONE) {
            same &= !src->reduces;
        } else {
            same &= product == SCHED_NONE || product == src->product;
            product = src->product;
        }
    }
    if (node->attend) {
        node->reduces = true;
        node->product = node->attend >= SCHED_ATTEND_ROOT ? at : SCHED_NONE;
    } else if (u->op == UOP_REDUCE_AXIS && is_contraction(p, at))
        node->product = at;
    else if (same)
        node->product = product;
}

/* What it can be made of again, its sources being done. */
static void
find_value_origin(struct planner *p, uint32_t at)
{
    struct sched_node *node = &p->s.nodes[at];
    uint32_t i, origin = SCHED_NONE;
    bool alone = node->product != at && !node->forced;

    node->origin_cost = 0;
    for (i = 0; i < node->u->n_src && alone; i++) {
        const struct sched_node *src = &p->s.nodes[sched_source(&p->s, at, i)];
        if (!src->leaves || src->leaves->n == 0)
            continue;
        alone = src->origin != SCHED_NONE &&
                (origin == SCHED_NONE || origin == src->origin);
        origin = src->origin;
        if (src->origin_cost > node->origin_cost)
            node->origin_cost = src->origin_cost;
    }
    node->origin_cost += op_cost(node->u);
    node->origin = SCHED_NONE;
    if (node->product == SCHED_NONE)
        return;
    if (alone && origin != SCHED_NONE) {
        node->origin = origin;
    } else if (node->n_users > 1) {
        node->origin = at;
        node->origin_cost = 0;
    }
}

/* Cost per element and leaves of a node whose sources are done. */
static void
estimate(struct planner *p, uint32_t at)
{
    struct sched_node *node = &p->s.nodes[at], *src;
    const struct uop *u = node->u;
    double cost = 0;
    bool stored;
    uint32_t i;

    if (u->op == UOP_BUFFER) {
        node->leaves = node->seen = one_leaf(p, at);
        node->product = node->origin = SCHED_NONE;
        return;
    }
    node->leaves = join_sources(p, at);
    for (i = 0; i < u->n_src; i++) {
        src = &p->s.nodes[sched_source(&p->s, at, i)];
        cost = src->seen_cost > cost ? src->seen_cost : cost;
    }
    src = u->n_src ? &p->s.nodes[sched_source(&p->s, at, 0)] : NULL;
    if (u->op == UOP_EXPAND && node->numel > src->numel)
        cost *= src->numel / node->numel;
    if (u->op == UOP_REDUCE_AXIS && node->numel > 0)
        cost = src->numel / node->numel *
               (cost + 1 + COST_LOAD * leaf_loads(p, src, src->seen));
    node->cost = cost + op_cost(u);
    if (node->forced) {
        node->leaves = one_leaf(p, at);
        node->cost = 0;
    }
    find_product(p, at);
    find_value_origin(p, at);
    stored = node->product == at ||
             (node->n_users > 1 && (node->product != SCHED_NONE ||
                                    (node->reduces && node->cost > COST_LONG)));
    node->seen = stored ? one_leaf(p, at) : node->leaves;
    node->seen_cost = stored ? 0 : node->cost;
}

/* --- reads --- */

/* The innermost context that both are in; parents have smaller numbers. */
static uint32_t
common_context(const struct planner *p, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (a == SCHED_NONE || b == SCHED_NONE)
            return SCHED_NONE;
        if (a > b)
            a = p->contexts[a].parent;
        else
            b = p->contexts[b].parent;
    }
    return a;
}

/* Puts a read in front of those of the same node in the same kernel. */
static bool
index_read(struct planner *p, uint32_t node, uint32_t at)
{
    uint64_t key = (uint64_t)node << 32 | p->reads[at].kernel;
    const uint64_t *found = map_get(&p->by_kernel, key);

    p->reads[at].same = found ? (uint32_t)*found : SCHED_NONE;
    return map_put(&p->by_kernel, key, at) == 0;
}

/* The node's read by the kernel that is the same; or SCHED_NONE. *out_n: how
 * many reads it has, up to MANY_READS. */
static uint32_t
find_read(const struct planner *p, uint32_t node, uint32_t kernel,
          const struct sched_idx *idx, const struct uop *valid, uint32_t *out_n)
{
    uint64_t key = (uint64_t)node << 32 | kernel;
    const uint64_t *found;
    uint32_t at;

    *out_n = 0;
    for (at = p->s.nodes[node].first_req;
         at != SCHED_NONE && *out_n < MANY_READS; at = p->reads[at].next) {
        const struct read *read = &p->reads[at];
        if (read->kernel == kernel && read->valid == valid &&
            sched_idx_same(read->idx, idx))
            return at;
        (*out_n)++;
    }
    if (at == SCHED_NONE)
        return at;
    found = map_get(&p->by_kernel, key);
    for (at = found ? (uint32_t)*found : SCHED_NONE; at != SCHED_NONE;
         at = p->reads[at].same) {
        const struct read *read = &p->reads[at];
        if (read->valid == valid && sched_idx_same(read->idx, idx))
            break;
    }
    return at;
}

static void
add_read(struct planner *p, uint32_t node, uint32_t kernel, uint32_t context,
         const struct sched_idx *idx, const struct uop *valid)
{
    struct sched_node *nd = &p->s.nodes[node];
    struct read *read;
    uint32_t n, at;

    assert(node < p->s.n_nodes);
    if (!idx || p->failed) {
        p->failed = true;
        return;
    }
    if (nd->u->n_src == 0 && nd->u->op != UOP_BUFFER)
        return;
    at = find_read(p, node, kernel, idx, valid, &n);
    if (at != SCHED_NONE) {
        read = &p->reads[at];
        read->context = common_context(p, read->context, context);
        return;
    }
    if (host_grow((void **)&p->reads, &p->cap_reads, p->n_reads + 1,
                  sizeof(*p->reads)) != 0) {
        p->failed = true;
        return;
    }
    read = &p->reads[p->n_reads];
    read->kernel = kernel;
    read->context = context;
    read->idx = idx;
    read->valid = valid;
    read->next = nd->first_req;
    read->same = SCHED_NONE;
    nd->first_req = (uint32_t)p->n_reads++;
    /* the first MANY_READS at once, then each */
    for (at = nd->first_req;
         n >= MANY_READS - 1 && at != SCHED_NONE && !p->failed;
         at = n == MANY_READS ? SCHED_NONE : p->reads[at].next)
        p->failed = !index_read(p, node, at);
}

static uint64_t
read_mask(struct planner *p, const struct read *read)
{
    uint64_t mask = read->valid ? sched_mask(&p->s, read->valid) : 0;
    uint32_t i;

    for (i = 0; i < read->idx->n; i++)
        mask |= sched_mask(&p->s, read->idx->e[i]);
    return mask;
}

static double
range_product(const struct sched_kernel *kernel, uint64_t mask)
{
    double product = 1;

    while (mask) {
        product *= kernel->size[__builtin_ctzll(mask)];
        mask &= mask - 1;
    }
    return product;
}

/* May `set` of output ranges be outermost, besides those already chosen? */
static bool
fits_chain(const struct sched_kernel *kernel, uint64_t set)
{
    uint32_t i;

    if (set == kernel->out_mask)
        return true;
    for (i = 0; i < kernel->n_chain; i++) {
        uint64_t common = set & kernel->chain[i];
        if (common != set && common != kernel->chain[i])
            return false;
    }
    return true;
}

/* How often a value that depends on these ranges is computed when it is
 * computed where it is read. *inside: in a reduction's body. */
static double
times_computed(const struct planner *p, const struct read *read, uint64_t mask,
               bool *inside)
{
    const struct sched_kernel *kernel = &p->kernels[read->kernel];
    uint32_t c;

    for (c = read->context; c != SCHED_NONE; c = p->contexts[c].parent) {
        if (p->contexts[c].mask & mask) {
            *inside = true;
            return p->contexts[c].times;
        }
    }
    *inside = false;
    mask &= kernel->out_mask;
    return fits_chain(kernel, mask) ? range_product(kernel, mask)
                                    : kernel->n_outputs;
}

/* --- the decision --- */

/* Why a reduction read once may not be computed where it is read, or NULL. */
static const char *
reduce_obstacle(struct planner *p, uint32_t at, const struct read *read,
                uint64_t mask, double times, bool inside)
{
    const struct sched_node *node = &p->s.nodes[at];
    struct sched_kernel *kernel = &p->kernels[read->kernel];
    uint64_t out = mask & kernel->out_mask;
    double work = times * node->cost;
    double length = p->s.nodes[sched_source(&p->s, at, 0)].numel / node->numel;
    bool contraction = is_contraction(p, at);

    if (kernel->attends)
        return "attention is the kernel's";
    if (contraction && (inside || out != kernel->out_mask))
        return "a contraction inside another loop";
    if (contraction && kernel->has_contraction)
        return "a second contraction";
    if (inside) {
        if (sched_too_few(p->s.target, kernel->n_outputs, 1, false) &&
            work > SMALL_WORK)
            return "too little parallel";
        return NULL;
    }
    if (out == kernel->out_mask)
        return NULL;
    if (!fits_chain(kernel, out) || kernel->n_chain == 4)
        return "loops in another order";
    work += kernel->n_outputs * 10;
    if (sched_too_few(p->s.target, range_product(kernel, out),
                      contraction ? 1 : length, true) &&
        work > SMALL_WORK)
        return "too little parallel";
    return NULL;
}

static void
push_chain(struct sched_kernel *kernel, uint64_t set)
{
    uint32_t i, at = 0;

    if (set == kernel->out_mask)
        return;
    for (i = 0; i < kernel->n_chain; i++) {
        if (kernel->chain[i] == set)
            return;
        at += (kernel->chain[i] & set) == kernel->chain[i];
    }
    for (i = kernel->n_chain; i > at; i--)
        kernel->chain[i] = kernel->chain[i - 1];
    kernel->chain[at] = set;
    kernel->n_chain++;
}

/* A number in more bytes than it had, which costs nothing again wherever it is
 * read: stored, it would take more memory and hide from matrix instructions
 * what it is. */
static bool
is_widened(const struct uop *u)
{
    return u->op == UOP_CAST && u->src[0]->dtype != UOP_BOOL &&
           uop_dtype_infos[u->src[0]->dtype].size_bytes <
               uop_dtype_infos[u->dtype].size_bytes;
}

/* A float in fewer bytes than it had: matrix instructions take it as it is
 * stored, not as what it was. */
static bool
is_narrowed(const struct uop *u)
{
    return u->op == UOP_CAST && uop_is_float(u) && uop_is_float(u->src[0]) &&
           uop_dtype_infos[u->src[0]->dtype].size_bytes >
               uop_dtype_infos[u->dtype].size_bytes;
}

/* Why attention may not be computed where it is read, or NULL: in a kernel of
 * its own, but for what is done with each of its values. */
static const char *
attend_obstacle(struct planner *p, const struct sched_node *node)
{
    const struct read *read = &p->reads[node->first_req];
    const struct sched_kernel *kernel = &p->kernels[read->kernel];
    uint64_t ranges = 0;
    uint32_t i;

    if (read->next != SCHED_NONE || read->valid || read->idx->flat ||
        read->context != SCHED_NONE || kernel->has_reduction ||
        p->s.nodes[kernel->node].u->op == UOP_ASSIGN)
        return "attention";
    for (i = 0; i < read->idx->n; i++) {
        const struct uop *e = read->idx->e[i];
        if (node->shape->d[i] == 1)
            continue;
        if (e->op != UOP_RANGE || ranges >> uop_range_id(e) & 1 ||
            e->src[0] != sched_size(&p->s, node->shape->d[i]))
            return "attention, in another order";
        ranges |= (uint64_t)1 << uop_range_id(e);
    }
    return ranges == kernel->out_mask ? NULL : "attention, with more";
}

/* NULL: compute it where it is read. Else store it, for this reason. */
static const char *
decide_stores(struct planner *p, uint32_t at)
{
    struct sched_node *node = &p->s.nodes[at];
    double fused = 0, loads = leaf_loads(p, node, node->leaves), stored, times,
           all_times = 0;
    const char *obstacle;
    uint32_t n = 0, r;
    uint64_t mask = 0;
    bool inside = false, full_kernel = false, in_product = false,
         beside_product = false;

    if (node->forced)
        return "asked for";
    if (node->attend)
        return node->attend >= SCHED_ATTEND_ROOT ? attend_obstacle(p, node)
                                                 : NULL;
    if (is_widened(node->u))
        return NULL;
    stored = node->numel * (node->cost + COST_LOAD * loads + COST_STORE) +
             COST_LAUNCH;
    for (r = node->first_req; r != SCHED_NONE; r = p->reads[r].next) {
        const struct sched_kernel *kernel = &p->kernels[p->reads[r].kernel];
        mask = read_mask(p, &p->reads[r]);
        times = times_computed(p, &p->reads[r], mask, &inside);
        all_times += times;
        in_product |= inside && kernel->has_contraction;
        beside_product |= !inside && kernel->has_contraction;
        fused += times * (node->cost + COST_LOAD * loads);
        stored += times * COST_LOAD;
        n++;
        full_kernel |= kernel->n_nodes > SCHED_MAX_NODES ||
                       kernel->n_ranges + node->shape->n > SCHED_MAX_RANGES;
    }
    if (full_kernel)
        return "the kernel is full";
    if (node->u->op == UOP_PAD && n <= MAX_READS)
        return NULL;
    if (loads == 0 && node->cost <= COST_LOAD && node->u->op != UOP_REDUCE_AXIS)
        return NULL; /* no dearer than to read it */
    if (n > MAX_READS)
        return "read in too many ways";
    if (node->origin != at && node->origin != SCHED_NONE && !in_product &&
        all_times > node->numel && all_times <= MAX_READS * node->numel &&
        node->origin_cost <= COST_LONG && !is_narrowed(node->u))
        return NULL; /* what it is made of is read as often, and stored */
    if (node->u->op != UOP_REDUCE_AXIS && node->product != SCHED_NONE &&
        all_times > node->numel)
        return "what its readers share of a product";
    if (in_product && all_times > node->numel && is_narrowed(node->u))
        return "a factor of fewer bytes";
    if (beside_product && is_narrowed(node->u) &&
        is_contraction(p, sched_source(&p->s, at, 0)))
        return "a second contraction, in fewer bytes";
    if (node->u->op != UOP_REDUCE_AXIS)
        return fused > stored && (in_product ||
                                  fused > COST_SHARED * p->s.target->n_parallel)
                   ? "cheaper than repeating it"
                   : NULL;
    if (n > 1)
        return "a reduction read in several ways";
    if (fused > stored)
        return "cheaper than repeating it";
    times = times_computed(p, &p->reads[node->first_req], mask, &inside);
    obstacle =
        reduce_obstacle(p, at, &p->reads[node->first_req], mask, times, inside);
    if (obstacle)
        return obstacle;
    if (!inside)
        push_chain(&p->kernels[p->reads[node->first_req].kernel],
                   mask &
                       p->kernels[p->reads[node->first_req].kernel].out_mask);
    return NULL;
}

/* --- passing reads on to the sources --- */

static void
read_reduce(struct planner *p, uint32_t at, uint32_t r)
{
    struct read read = p->reads[r];
    struct sched_kernel *kernel = &p->kernels[read.kernel];
    const struct sched_node *node = &p->s.nodes[at];
    const struct uop_dims *from = p->s.nodes[sched_source(&p->s, at, 0)].shape;
    struct sched_idx *idx = sched_idx_new(&p->s, from->n);
    struct context *context;
    bool inside;
    double times;
    uint32_t i;

    if (!idx || host_grow((void **)&p->contexts, &p->cap_contexts,
                          p->n_contexts + 1, sizeof(*p->contexts)) != 0) {
        p->failed = true;
        return;
    }
    times = times_computed(p, &read, read_mask(p, &read), &inside);
    context = &p->contexts[p->n_contexts];
    context->parent = read.context;
    context->mask = 0;
    kernel->has_reduction = true;
    for (i = 0; i < from->n; i++) {
        uint32_t id = kernel->n_ranges;
        bool keys = sched_is_keys(node->attend);
        if (!(uop_reduce_axes(node->u) >> i & 1) || from->d[i] == 1) {
            idx->e[i] = read.idx->e[i];
            continue;
        }
        if (keys && kernel->keys != SCHED_NONE)
            id = kernel->keys;
        else
            kernel->n_ranges++;
        if (keys)
            kernel->keys = id;
        kernel->size[id] = (double)sched_most(p->s.g, from->d[i]);
        context->mask |= 1ull << id;
        idx->e[i] = sched_range(&p->s, id, UOP_AXIS_REDUCE, from->d[i]);
    }
    context->times = times * range_product(kernel, context->mask);
    kernel->has_contraction |= is_contraction(p, at);
    add_read(p, sched_source(&p->s, at, 0), read.kernel,
             (uint32_t)p->n_contexts++, idx, read.valid);
}

/* A stand-in for the index that a GATHER loads: only what it depends on
 * matters while deciding. */
static const struct uop *
unknown_index(struct planner *p, uint32_t at, const struct sched_idx *idx)
{
    union uop_arg arg = {.i = (int64_t)at};

    return idx->n ? uop_new(p->s.k, UOP_AFTER, UOP_I64, 1, arg, idx->e, idx->n)
                  : uop_const_int(p->s.k, UOP_I64, 0);
}

static void
read_gather(struct planner *p, uint32_t at, uint32_t r)
{
    struct read read = p->reads[r];
    struct sched_idx *idx = sched_idx_new(&p->s, read.idx->n);

    if (!idx) {
        p->failed = true;
        return;
    }
    memcpy(idx->e, read.idx->e, idx->n * sizeof(idx->e[0]));
    idx->e[p->s.nodes[at].u->arg.i] = unknown_index(p, at, read.idx);
    add_read(p, sched_source(&p->s, at, 0), read.kernel, read.context, idx,
             read.valid);
    add_read(p, sched_source(&p->s, at, 1), read.kernel, read.context, read.idx,
             read.valid);
}

static void
pass_reads(struct planner *p, uint32_t at)
{
    struct sched_node *node = &p->s.nodes[at];
    uint32_t r, i;

    for (r = node->first_req; r != SCHED_NONE && !p->failed;
         r = p->reads[r].next) {
        p->kernels[p->reads[r].kernel].n_nodes++;
        p->kernels[p->reads[r].kernel].attends |= node->attend;
        p->kernels[p->reads[r].kernel].is_back |=
            node->attend == SCHED_ATTEND_BACK;
        if (node->u->op == UOP_REDUCE_AXIS) {
            read_reduce(p, at, r);
            continue;
        }
        if (node->u->op == UOP_GATHER) {
            read_gather(p, at, r);
            continue;
        }
        p->kernels[p->reads[r].kernel].n_ranges += node->u->op == UOP_SCAN;
        for (i = 0; i < node->u->n_src; i++) {
            const struct uop *valid = p->reads[r].valid;
            const struct sched_idx *idx =
                sched_idx_source(&p->s, node->u, i, p->reads[r].idx, &valid);
            add_read(p, sched_source(&p->s, at, i), p->reads[r].kernel,
                     p->reads[r].context, idx, valid);
        }
    }
}

/* --- stored values --- */

uint32_t
sched_base_of(const struct sched *s, uint32_t at)
{
    const struct uop *u = s->nodes[at].u;

    while (u->op == UOP_RESHAPE || u->op == UOP_CONTIGUOUS ||
           u->op == UOP_DETACH) {
        at = sched_source(s, at, 0);
        u = s->nodes[at].u;
    }
    return at;
}

static void
store_node(struct planner *p, uint32_t at, const char *why)
{
    struct sched_node *node = &p->s.nodes[at];
    uint32_t ids[SCHED_MAX_RANK], i;
    struct sched_kernel *kernel;

    assert(at < p->s.n_nodes);
    if (host_grow((void **)&p->kernels, &p->cap_kernels, p->n_kernels + 1,
                  sizeof(*p->kernels)) != 0) {
        p->failed = true;
        return;
    }
    kernel = &p->kernels[p->n_kernels];
    memset(kernel, 0, sizeof(*kernel));
    kernel->node = at;
    kernel->keys = SCHED_NONE;
    kernel->n_outputs = node->numel;
    for (i = 0; i < node->shape->n; i++) {
        ids[i] = 0;
        if (node->shape->d[i] == 1)
            continue;
        ids[i] = kernel->n_ranges;
        kernel->size[kernel->n_ranges++] =
            (double)sched_most(p->s.g, node->shape->d[i]);
    }
    kernel->n_out = kernel->n_ranges;
    kernel->out_mask = kernel->n_out ? ~0ull >> (64 - kernel->n_out) : 0;
    node->stored = true;
    node->kernel = (uint32_t)p->n_kernels;
    node->first_req = SCHED_NONE;
    LOG(LOG_SCHED, "store %s of %.0f elements: %s",
        uop_op_infos[node->u->op].name, node->numel, why);
    add_read(p, at, (uint32_t)p->n_kernels, SCHED_NONE,
             sched_idx_ranges(&p->s, node->shape, ids, UOP_AXIS_LOOP), NULL);
    p->n_kernels++;
}

/* A value that the kernel of attention computes on its way and stores: the
 * other reads of it are from memory. */
static void
keep_node(struct planner *p, uint32_t at)
{
    struct sched_node *node = &p->s.nodes[at];
    uint32_t r, mine = SCHED_NONE;
    struct sched_kernel *kernel;

    for (r = node->first_req; r != SCHED_NONE; r = p->reads[r].next) {
        kernel = &p->kernels[p->reads[r].kernel];
        if (kernel->is_back || !kernel->attends)
            continue;
        if (mine != SCHED_NONE || p->reads[r].valid ||
            kernel->n_kept == ARRAY_LEN(kernel->kept)) {
            p->s.not_attention = true;
            return;
        }
        kernel->kept[kernel->n_kept++] = at;
        mine = r;
    }
    p->s.not_attention |= mine == SCHED_NONE;
    if (mine != SCHED_NONE)
        p->reads[mine].next = SCHED_NONE;
    node->first_req = mine;
    node->stored = p->s.keeps = true;
}

static void
visit(struct planner *p, uint32_t at)
{
    struct sched_node *node = &p->s.nodes[at];
    const char *why;

    assert(at < p->s.n_nodes);
    if (node->u->op == UOP_BUFFER ||
        (node->first_req == SCHED_NONE && !node->forced))
        return;
    if (node->u->op == UOP_PART) { /* the CALL stores it */
        node->stored = true;
        return;
    }
    if (storable(node->u) || node->forced) {
        why = decide_stores(p, at);
        if (why)
            store_node(p, at, why);
    }
    if (node->attend == SCHED_ATTEND_KEPT)
        keep_node(p, at);
    if (node->u->op != UOP_CALL) /* it reads what is stored */
        pass_reads(p, at);
}

bell_status
sched_no_memory(const struct sched *s)
{
    return bell_fail(BELL_E_NO_MEMORY, "out of memory scheduling %u nodes",
                     s->n_nodes);
}

uint32_t *
sched_numbers(struct sched *s, size_t n)
{
    uint32_t *list = arena_alloc(&s->scratch, n * sizeof(*list) + 1);

    if (list)
        memset(list, 0xff, n * sizeof(*list));
    return list;
}

/* After the decisions: what each kernel wants outermost, by axis, and what it
 * keeps. */
static bell_status
note_roots(struct planner *p)
{
    size_t k;

    p->s.roots =
        arena_calloc(&p->s.scratch, p->n_kernels + 1, sizeof(*p->s.roots));
    if (!p->s.roots)
        return sched_no_memory(&p->s);
    p->s.n_roots = (uint32_t)p->n_kernels;
    for (k = 0; k < p->n_kernels; k++) {
        const struct sched_kernel *kernel = &p->kernels[k];
        const struct uop_dims *shape = p->s.nodes[kernel->node].shape;
        struct sched_root *root = &p->s.roots[k];
        uint32_t c, i, id;
        root->attends = kernel->attends;
        root->n_kept = kernel->n_kept;
        memcpy(root->kept, kernel->kept, sizeof(root->kept));
        root->n_chain = kernel->n_chain;
        for (c = 0; c < kernel->n_chain; c++) {
            for (i = id = 0; i < shape->n; i++) {
                if (shape->d[i] == 1)
                    continue;
                if (kernel->chain[c] >> id++ & 1)
                    root->chain[c] |= 1ull << i;
            }
        }
    }
    return BELL_OK;
}

/* Can a node be computed by element number alone? */
static void
note_flat(struct planner *p)
{
    uint32_t at, i;

    for (at = 0; at < p->s.n_nodes; at++) {
        struct sched_node *node = &p->s.nodes[at];
        const struct uop *u = node->u;
        bool ok = u->op == UOP_RESHAPE || u->op == UOP_CONTIGUOUS ||
                  u->op == UOP_DETACH || u->op == UOP_CAST ||
                  u->op == UOP_BITCAST || u->n_src == 0 ||
                  uop_has(u, UOP_FLAG_ALU) ||
                  (u->op == UOP_EXPAND &&
                   p->s.nodes[sched_source(&p->s, at, 0)].numel == 1);
        for (i = 0; ok && i < u->n_src; i++) {
            const struct sched_node *src =
                &p->s.nodes[sched_source(&p->s, at, i)];
            ok = src->flat_ok || src->stored;
        }
        node->flat_ok = ok;
    }
}

/* --- setting up --- */

static bell_status
load_graph(struct planner *p, const struct uop *const *roots, uint32_t n_roots,
           uint32_t **out_local)
{
    const struct uop **list;
    uint32_t *local, i, j, n_srcs = 0;
    uint8_t *roles;
    size_t n;

    BELL_TRY(sched_attend_roles(&p->s, roots, n_roots, &roles));
    BELL_TRY(uop_toposort(p->s.g, roots, n_roots, &list, &n));
    local = sched_numbers(&p->s, p->s.g->n_nodes);
    p->s.nodes = arena_calloc(&p->s.scratch, n, sizeof(*p->s.nodes));
    for (i = 0; i < n; i++)
        n_srcs += list[i]->n_src;
    p->s.srcs = sched_numbers(&p->s, n_srcs);
    *out_local = local;
    if (!local || !p->s.nodes || !p->s.srcs) {
        host_free(list);
        return sched_no_memory(&p->s);
    }
    p->s.n_nodes = (uint32_t)n;
    n_srcs = 0;
    for (i = 0; i < n; i++) {
        struct sched_node *node = &p->s.nodes[i];
        local[list[i]->id] = i;
        node->u = list[i];
        node->attend = roles ? roles[i] : SCHED_ATTEND_NONE;
        node->shape = uop_shape(p->s.g, list[i]);
        assert(node->shape); /* stage T */
        node->numel = sched_numel(p->s.g, node->shape);
        node->src_base = n_srcs;
        node->first_req = SCHED_NONE;
        node->buf = SCHED_NONE;
        node->kernel = SCHED_NONE;
        node->part = SCHED_NONE;
        if (node->u->op == UOP_PART) {
            uint32_t call = local[node->u->src[0]->id];
            node->part = p->s.nodes[call].part;
            p->s.nodes[call].part = i;
        }
        for (j = 0; j < list[i]->n_src; j++) {
            uint32_t src = local[list[i]->src[j]->id];
            p->s.nodes[src].n_users++;
            p->s.srcs[n_srcs++] = src;
        }
    }
    host_free(list);
    return BELL_OK;
}

/* A CALL reads memory, row-major. */
static void
store_before_call(struct planner *p, uint32_t at)
{
    uint32_t i, src;

    for (i = 0; i < p->s.nodes[at].u->n_src; i++) {
        src = sched_base_of(&p->s, sched_source(&p->s, at, i));
        p->s.nodes[src].forced = p->s.nodes[src].u->op != UOP_BUFFER;
    }
}

/* A SORT_AXIS or a SCAN has what it is of computed element by element: of
 * reductions there would be too many in its kernel, one after the other. */
static void
store_before_exchange(struct planner *p)
{
    uint32_t at, i;

    for (at = 0; at < p->s.n_nodes; at++) {
        struct sched_node *node = &p->s.nodes[at];
        const struct uop *u = node->u;

        node->reduces = u->op == UOP_REDUCE_AXIS;
        for (i = 0; i < u->n_src; i++)
            node->reduces |= p->s.nodes[sched_source(&p->s, at, i)].reduces;
        if ((u->op == UOP_SORT_AXIS || u->op == UOP_SCAN) && node->reduces) {
            i = sched_base_of(&p->s, sched_source(&p->s, at, 0));
            p->s.nodes[i].forced = p->s.nodes[i].u->op != UOP_BUFFER;
        }
        node->reduces &= !node->forced;
    }
}

static bell_status
schedule_nodes(struct planner *p, const struct uop *const *roots,
               uint32_t n_roots, struct sched_plan *plan)
{
    uint32_t *local, i, at;
    bool apart = false;

    BELL_TRY(load_graph(p, roots, n_roots, &local));
    for (i = 0; i < n_roots; i++) {
        at = sched_base_of(&p->s, local[roots[i]->id]);
        p->s.nodes[at].forced = p->s.nodes[at].u->op != UOP_BUFFER;
    }
    for (at = 0; at < p->s.n_nodes; at++) {
        switch (p->s.nodes[at].u->op) {
        case UOP_SORT_AXIS:
        case UOP_SCAN:
            p->s.nodes[at].forced = apart = true;
            break;
        case UOP_CALL:
            p->s.nodes[at].forced = true;
            store_before_call(p, at);
            break;
        case UOP_PART:
            p->s.nodes[at].forced = true;
            break;
        case UOP_CONTIGUOUS:
            i = sched_base_of(&p->s, at);
            p->s.nodes[i].forced = p->s.nodes[i].u->op != UOP_BUFFER;
            break;
        default:
            break;
        }
    }
    if (apart)
        store_before_exchange(p);
    for (at = 0; at < p->s.n_nodes; at++)
        estimate(p, at);
    for (at = p->s.n_nodes; at-- > 0 && !p->failed && !p->s.k->failed;)
        visit(p, at);
    if (p->failed)
        return sched_no_memory(&p->s);
    BELL_TRY(uop_graph_status(p->s.k));
    BELL_TRY(note_roots(p));
    note_flat(p);
    return sched_items(&p->s, local, roots, n_roots, plan);
}

static void
fini_planner(struct planner *p)
{
    arena_fini(&p->s.scratch);
    map_fini(&p->by_kernel);
    host_free(p->s.masks);
    host_free(p->reads);
    host_free(p->contexts);
    host_free(p->kernels);
}

static bell_status
build_plan(struct planner *p, const struct uop **roots, uint32_t n_roots,
           struct sched_plan *plan)
{
    uint8_t *roles;

    BELL_TRY(sched_attend(&p->s, roots, n_roots));
    BELL_TRY(sched_attend_roles(&p->s, roots, n_roots, &roles));
    BELL_TRY(sched_split(&p->s, roots, n_roots, roles));
    arena_fini(&p->s.scratch); /* of the graph as it was before */
    arena_init(&p->s.scratch);
    BELL_TRY(uop_validate_pass(p->s.g, roots, n_roots, UOP_STAGE_T,
                               "splitting reductions"));
    return schedule_nodes(p, roots, n_roots, plan);
}

bell_status
sched_build(struct uop_graph *g, const struct uop *const *roots,
            uint32_t n_roots, const struct sched_target *target,
            struct uop_graph *kernels, struct sched_plan *out_plan)
{
    struct sched_target plain = *target;
    struct sched_plan plan = {0};
    const struct uop **split;
    bell_status status;
    bool again;

    BELL_TRY(uop_validate_pass(g, roots, n_roots, UOP_STAGE_T,
                               "building the tensor graph"));
    split = host_alloc(n_roots * sizeof(*split) + 1);
    if (!split)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory scheduling");
    do {
        struct planner p = {.s = {.g = g, .k = kernels, .target = target}};
        memcpy(split, roots, n_roots * sizeof(*split));
        arena_init(&p.s.scratch);
        map_init(&p.by_kernel);
        plan = (struct sched_plan){0};
        status = build_plan(&p, split, n_roots, &plan);
        again = status == BELL_OK && p.s.not_attention;
        fini_planner(&p);
        /* without few queries, then without gradients, then not at all */
        if (plain.attends & LOWER_ATTENDS_FEW)
            plain.attends &= ~LOWER_ATTENDS_FEW;
        else if (plain.attends & LOWER_ATTENDS_BACK)
            plain.attends &= ~LOWER_ATTENDS_BACK;
        else
            plain.attends = 0;
        target = &plain;
    } while (again);
    host_free(split);
    if (status != BELL_OK) {
        bell_error_frame(__func__);
        return status;
    }
    *out_plan = plan;
    return BELL_OK;
}
