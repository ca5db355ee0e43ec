/* Reductions of much to little, split in two, and sums of several products.
 *
 * A reduction of at least SPLIT_MIN_WORK elements to fewer values than keep
 * the workers busy becomes one over parts of an axis, stored, and one over the
 * parts.
 *
 * A large sum of a*b + c*d, such as the gradient of what several layers are
 * made of, becomes the sum of a*b and that of c*d: each is a product.
 */
#include "lower/schedule/sched_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define SPLIT_MIN_WORK  65536
#define SPLIT_MAX_PARTS 1024
#define SPLIT_MIN_PART  256
/* There are more parts than SPLIT_MAX_PARTS where they would be longer than
 * this: a processor takes seconds for a work-group of such parts, and only one
 * that begins shows that the device is not hung. observed: EPYC of Zen 3, 32
 * parts of sin a work-group, 1.7 ns an element, 2026-11-29 */
#define SPLIT_LONG_PART (1ll << 26)
#define SPLIT_MAX_LONG  65536
#define UNEVEN_PARTS    2  /* times more, where they are not equal. guess */
#define UNEVEN_ALIGN    16 /* elements that such parts are multiples of, */
#define UNEVEN_LONG     8  /* where they are so many times as long. guess */
#define PRODUCT_PARTS   64 /* times workers, over outputs: two tiles each */
/* Sums of words, by a GPU without matrix instructions for them: where there are
 * fewer tiles than processors, parts make six of each, which are long enough to
 * pay for being added. observed: H100, 2026-11-27: a sum of 4608 takes 306 us
 * in parts, 340 without (52 tiles), one of 2304 353 in 8 and 351 (98 tiles) */
#define WORDS_TILE       16384 /* outputs */
#define WORDS_PARTS      6
#define WORDS_STEPS      1536
#define PACK_SHORTEST    8  /* parts have at least 1/8 of what fits. guess: */
#define SHARE_MIN_STEPS  4  /* elements worth another work-item */
#define SHARE_MOST_STEPS 8  /* for each of a work-group: as long as a launch */
#define SHARE_ACROSS     16 /* work-items of a reduction across memory */
#define MAX_LOOKED_AT    32 /* nodes below a reduction */
#define MOST_PRODUCTS    16 /* in one sum */
#define PRODUCT_WORK     (1 << 26) /* of each: worth another kernel. guess */

bool
sched_too_few(const struct sched_target *target, double n_outputs,
              double length, bool side_by_side)
{
    double shared = length / SHARE_MIN_STEPS, most = target->n_shared;

    if (!side_by_side && most > SHARE_ACROSS)
        most = SHARE_ACROSS;
    shared = shared < most ? shared : most;
    /* those that share have several loads under way each */
    if (shared > 1)
        return n_outputs * shared < target->n_parallel;
    return n_outputs < 4.0 * target->n_parallel;
}

/* The number of parts for an axis of n: its greatest divisor up to the
 * limit that leaves parts worth a launch; 1 where there is none. */
static int64_t
choose_split_parts(int64_t n, int64_t inner, int64_t most)
{
    int64_t parts;

    assert(n > 0 && inner > 0);
    for (parts = most; parts > 1; parts--) {
        if (n % parts == 0 && n / parts * inner >= SPLIT_MIN_PART)
            return parts;
    }
    return 1;
}

/* A CONST, which has no axes. */
static const struct uop *
scalar(struct uop_graph *g, const struct uop *u)
{
    if (u != &uop_failed)
        g->shapes[u->id] = uop_dims(g, NULL, 0);
    return u;
}

/* The axes of `first` come first. */
static const struct uop *
to_front(struct uop_graph *g, const struct uop *src, uint32_t first, uint32_t n)
{
    int64_t order[SCHED_MAX_RANK + 1];
    uint32_t i, at = 0, front;

    for (front = 2; front-- > 0;) {
        for (i = 0; i < n; i++) {
            if ((first >> i & 1) == front)
                order[at++] = i;
        }
    }
    return sched_permute(g, src, order);
}

/* How a reduction is done in parts: each has one element of the axes `whole`
 * and one of `parts` parts of `axis`. */
struct cut {
    uint32_t whole, axis;
    int64_t parts;
};

/* u = REDUCE_AXIS over src, in parts. Those of a product are stored one after
 * the other: each is a product too. */
static const struct uop *
split_axes(struct uop_graph *g, const struct uop *u, const struct uop *src,
           const struct cut *c, bool is_product)
{
    const struct uop_dims *from = uop_shape(g, src), *to = uop_shape(g, u);
    enum uop_op op = uop_reduce_op(u);
    uint32_t all = uop_reduce_axes(u), n = from->n + 1, i;
    uint32_t below = (1u << c->axis) - 1, parts = 1u << c->axis, axes;
    int64_t d[SCHED_MAX_RANK + 1];

    assert(c->parts > 0 && c->axis < from->n);
    for (i = 0; i < n; i++)
        d[i] = from->d[i > c->axis ? i - 1 : i];
    d[c->axis] = c->parts;
    d[c->axis + 1] = from->d[c->axis] / c->parts;
    src = sched_reshape(g, src, d, n);
    axes = all & ~c->whole;
    axes = (axes & below) | (axes & ~below) << 1;
    parts |= (c->whole & below) | (c->whole & ~below) << 1;
    src = sched_reduce(g, op, src, axes);
    if (is_product) {
        src = to_front(g, src, parts, n);
        parts = (1u << __builtin_popcount(parts)) - 1;
    }
    src = sched_each(g, UOP_CONTIGUOUS, src->dtype, src, NULL);
    return sched_reshape(g, sched_reduce(g, op, src, parts), to->d, to->n);
}

/* Is each element below used for several outputs? On a CPU the search ends at a
 * factor of few elements, whatever computes them: such a factor is stored. On a
 * GPU it goes on to the leaves. guess: splits of products with costly factors
 * were not measured there. */
static bool
is_split_product(struct uop_graph *g, const struct uop *src,
                 const struct sched_target *target)
{
    const struct uop *stack[MAX_LOOKED_AT], *u;
    double total = 0, n = sched_numel(g, uop_shape(g, src)), own;
    uint32_t n_stack = 0, n_seen = 0, i;

    for (stack[n_stack++] = src; n_stack;) {
        u = stack[--n_stack];
        own = sched_numel(g, uop_shape(g, u));
        if ((own * 2 >= n || !target->product_bytes) &&
            (uop_has(u, UOP_FLAG_MOVE) || uop_has(u, UOP_FLAG_ALU) ||
             u->op == UOP_CAST)) {
            n_seen += u->n_src;
            if (n_seen > MAX_LOOKED_AT)
                return false;
            for (i = 0; i < u->n_src; i++)
                stack[n_stack++] = u->src[i];
            continue;
        }
        total += own;
    }
    return total * 2 < n;
}

/* Is it a product of words that no matrix instruction multiplies? */
static bool
is_of_words(const struct uop *body, const struct sched_target *target)
{
    uint32_t i;

    if (!target->n_word_units || body->op != UOP_MUL || body->dtype != UOP_F32)
        return false;
    for (i = 0; i < 2; i++) {
        const struct uop *u = body->src[i];
        while (uop_has(u, UOP_FLAG_MOVE))
            u = u->src[0];
        if (u->op == UOP_CAST && u->src[0]->dtype != UOP_F32)
            return false;
    }
    return true;
}

/* The most parts that such a product is worth; 1: none. */
static int64_t
parts_of_words(const struct sched_target *target, int64_t outputs,
               int64_t steps)
{
    int64_t units = WORDS_TILE * (int64_t)target->n_word_units;
    int64_t most = WORDS_PARTS * units / outputs;

    if (outputs >= units)
        return 1;
    return most < steps / WORDS_STEPS ? most : steps / WORDS_STEPS;
}

/* The fewest parts of an axis of n, each `inner` to an element, of at most so
 * many steps; 0: its divisors leave none that is worth a kernel. */
static int64_t
parts_to_pack(int64_t n, int64_t inner, int64_t steps)
{
    int64_t parts = (int64_t)div_up((uint64_t)(n * inner), (uint64_t)steps);

    for (; parts <= n && n / parts * inner >= steps / PACK_SHORTEST; parts++) {
        if (n % parts == 0)
            return parts;
    }
    return 0;
}

/* A product whose columns are too long to be packed, in parts. */
static const struct uop *
split_product(struct uop_graph *g, const struct uop *u, const struct uop *src,
              int64_t steps)
{
    const struct uop_dims *from = uop_shape(g, src);
    uint32_t axes = uop_reduce_axes(u), i = from->n;
    struct cut c = {.parts = 0};
    int64_t inner = 1;

    if (sched_numel(g, from) / sched_numel(g, uop_shape(g, u)) <= (double)steps)
        return u;
    while (inner <= steps && i > 0) {
        c.axis = --i;
        if (axes >> i & 1) {
            c.parts = parts_to_pack(from->d[i], inner, steps);
            inner *= from->d[i];
        }
    }
    c.whole = axes & ((1u << c.axis) - 1);
    return c.parts > 0 ? split_axes(g, u, src, &c, true) : u;
}

/* The most parts for a reduction of so many elements to one. */
static int64_t
most_parts(int64_t length)
{
    int64_t parts = length / SPLIT_LONG_PART;

    return parts < SPLIT_MAX_PARTS  ? SPLIT_MAX_PARTS
           : parts < SPLIT_MAX_LONG ? parts
                                    : SPLIT_MAX_LONG;
}

/* src with so many elements more behind the end of an axis, which a reduction
 * by `op` leaves as it is. */
static const struct uop *
pad_axis(struct uop_graph *g, const struct uop *src, uint32_t axis,
         int64_t more, enum uop_op op)
{
    const struct uop_dims *from = uop_shape(g, src);
    const struct uop *identity = uop_identity(g, op, src->dtype), *in[3];
    int64_t d[SCHED_MAX_RANK], size = from->d[axis] + more;
    uint32_t i;

    in[1] = sched_pad(g, src, axis, size);
    if (identity->arg.bits == 0)
        return in[1];
    in[2] = scalar(g, identity);
    in[0] = scalar(g, uop_const_int(g, UOP_BOOL, 1));
    for (i = 0; i < from->n; i++)
        d[i] = 1;
    in[0] = sched_expand(g, sched_reshape(g, in[0], d, from->n), from);
    in[0] = sched_pad(g, in[0], axis, size);
    return uop_new_shaped(g, UOP_WHERE, src->dtype, (union uop_arg){.bits = 0},
                          in, 3, uop_shape(g, in[1]));
}

/* Where the axes' divisors leave few parts: what is reduced, with an axis made
 * longer, so that there are more. */
static const struct uop *
pad_to_parts(struct uop_graph *g, const struct uop *u, const struct uop *src,
             int64_t most, struct cut *cut)
{
    const struct uop_dims *from = uop_shape(g, src);
    uint32_t axes = uop_reduce_axes(u), i;
    int64_t inner = 1, length = 0, parts, n;

    for (i = from->n; i-- > 0; inner *= n) {
        n = axes >> i & 1 ? from->d[i] : 1;
        parts = n * inner / SPLIT_MIN_PART;
        parts = parts < most ? parts : most;
        if (parts <= UNEVEN_PARTS * cut->parts || n < 2 * parts)
            continue;
        length = (int64_t)div_up((uint64_t)n, (uint64_t)parts);
        if (length > UNEVEN_LONG * UNEVEN_ALIGN)
            length = (int64_t)align_up((uint64_t)length, UNEVEN_ALIGN);
        cut->parts = (int64_t)div_up((uint64_t)n, (uint64_t)length);
        cut->axis = i;
    }
    return length ? pad_axis(g, src, cut->axis,
                             length * cut->parts - from->d[cut->axis],
                             uop_reduce_op(u))
                  : src;
}

static const struct uop *
split_reduce(struct uop_graph *g, const struct uop *u, const struct uop *src,
             const struct sched_target *target)
{
    const struct uop_dims *from = uop_shape(g, src), *to = uop_shape(g, u);
    int64_t work = (int64_t)sched_numel(g, from),
            outputs = (int64_t)sched_numel(g, to), inner = 1;
    int64_t parts, most = SPLIT_MAX_LONG, limit, wanted;
    bool product = is_split_product(g, src, target);
    struct cut best = {.parts = 1};
    uint32_t i, axes = uop_reduce_axes(u), last = from->n;
    bool side_by_side;
    double length;

    if (work < SPLIT_MIN_WORK || from->n + 1 > SCHED_MAX_RANK)
        return u;
    while (last > 1 && from->d[last - 1] == 1)
        last--;
    length = product ? 1 : (double)work / (double)outputs;
    side_by_side = axes >> (last - 1) & 1;
    if (sched_too_few(target, (double)outputs, length, side_by_side)) {
        if (!product && side_by_side && target->n_shared > 1 &&
            length < (double)target->n_shared * SHARE_MOST_STEPS)
            return u;
        if (product) /* each part has its own tiles */
            most = PRODUCT_PARTS * (int64_t)target->n_parallel / outputs;
    } else {
        if (product && target->product_bytes)
            return split_product(g, u, src,
                                 target->product_bytes /
                                     uop_dtype_infos[u->dtype].size_bytes);
        if (!product || !is_of_words(src, target))
            return u;
        most = parts_of_words(target, outputs, work / outputs);
    }
    limit = most_parts(work / outputs);
    most = most < limit ? most : limit;
    wanted = work / outputs / SPLIT_LONG_PART;
    if (wanted < 16 * (int64_t)target->n_parallel)
        wanted = 16 * (int64_t)target->n_parallel;
    /* the outermost axis that gives enough parts, else the best */
    for (i = from->n; i-- > 0;) {
        if (axes >> i & 1) {
            parts = choose_split_parts(from->d[i], inner, most);
            if (parts > best.parts || parts >= wanted) {
                best.parts = parts;
                best.axis = i;
            }
            inner *= from->d[i];
        }
    }
    if (!product)
        src = pad_to_parts(g, u, src, most, &best);
    return best.parts > 1 ? split_axes(g, u, src, &best, product) : u;
}

/* Fills terms[] with the large products that the sum is of; how many, or 0
 * where it is of something else, too. */
static uint32_t
find_products(struct uop_graph *g, const struct uop *sum,
              const struct sched_target *target,
              const struct uop *terms[MOST_PRODUCTS])
{
    const struct uop *stack[MOST_PRODUCTS], *u;
    uint32_t n_stack = 0, n = 0;

    if (uop_reduce_op(sum) != UOP_ADD ||
        sched_numel(g, uop_shape(g, sum->src[0])) < PRODUCT_WORK)
        return 0;
    for (stack[n_stack++] = sum->src[0]; n_stack;) {
        u = stack[--n_stack];
        if (u->op == UOP_ADD && n + n_stack + 2 <= MOST_PRODUCTS) {
            stack[n_stack++] = u->src[1];
            stack[n_stack++] = u->src[0];
        } else if (u->op == UOP_MUL && is_split_product(g, u, target)) {
            terms[n++] = u;
        } else {
            return 0;
        }
    }
    return n;
}

/* The REDUCE_AXIS with its factors turned, in parts or as it is. One over an
 * axis that varies, or to one, stays one loop, however long. */
static const struct uop *
prepare_reduce(struct uop_graph *g, const struct uop *u, const struct uop *old,
               const uint32_t *n_users, const struct sched_target *target)
{
    if (sched_dims_vary(uop_shape(g, u->src[0])))
        return u;
    if (target->turns_words || target->turns_rows || target->matrix_k)
        u = sched_turn(g, u, target);
    if (target->channel_uses > 0 && !g->failed)
        u = sched_channels(g, u, old, n_users, target);
    if (u->op == UOP_REDUCE_AXIS && !g->failed)
        u = split_reduce(g, u, u->src[0], target);
    return u;
}

/* The same for a REDUCE_AXIS of one product or another body, or for each of
 * several products. */
static const struct uop *
prepare_sum(struct uop_graph *g, const struct uop *u, const struct uop *old,
            const uint32_t *n_users, const struct sched_target *target)
{
    const struct uop *terms[MOST_PRODUCTS], *src[2] = {NULL, NULL};
    uint32_t i, n = find_products(g, u, target, terms);

    if (n < 2)
        return prepare_reduce(g, u, old, n_users, target);
    for (i = 0; i < n && !g->failed; i++) {
        src[1] = uop_new_shaped(g, u->op, u->dtype, u->arg, &terms[i], 1,
                                uop_shape(g, u));
        if (!g->failed)
            src[1] = prepare_reduce(g, src[1], old, n_users, target);
        src[0] = i ? sched_each(g, UOP_ADD, u->dtype, src[0], src[1]) : src[1];
    }
    return src[0];
}

bell_status
sched_split(struct sched *s, const struct uop **roots, uint32_t n_roots,
            const uint8_t *roles)
{
    struct uop_graph *g = s->g;
    const struct uop **list, **to;
    size_t n, n_pairs = 0, i, n_before = g->n_nodes;
    uint32_t *n_users, j;

    BELL_TRY(uop_toposort(g, roots, n_roots, &list, &n));
    to = arena_calloc(&s->scratch, n_before, sizeof(*to));
    n_users = arena_calloc(&s->scratch, n_before, sizeof(*n_users));
    if (!to || !n_users) {
        host_free(list);
        return sched_no_memory(s);
    }
    for (i = 0; i < n; i++) {
        for (j = 0; j < list[i]->n_src; j++)
            n_users[list[i]->src[j]->id]++;
    }
    for (j = 0; j < n_roots; j++)
        n_users[roots[j]->id]++;
    for (i = 0; i < n; i++) {
        const struct uop *u = list[i], *moved = u;
        bool changed = false;
        g->mark = uop_mark(g, u);
        for (j = 0; j < u->n_src; j++)
            changed |= to[u->src[j]->id] != u->src[j];
        if (changed) {
            const struct uop *src[UOP_MAX_CALL_SRC];
            for (j = 0; j < u->n_src && j < UOP_MAX_CALL_SRC; j++)
                src[j] = to[u->src[j]->id];
            moved = uop_new_shaped(g, u->op, u->dtype, u->arg, src, u->n_src,
                                   uop_shape(g, u));
        }
        if (moved->op == UOP_REDUCE_AXIS && !(roles && roles[i]) && !g->failed)
            moved = prepare_sum(g, moved, u, n_users, s->target);
        n_pairs += moved != u;
        to[u->id] = moved;
        if (g->failed)
            break;
    }
    for (j = 0; j < n_roots && n_pairs && !g->failed; j++)
        roots[j] = to[roots[j]->id];
    host_free(list);
    return uop_graph_status(g);
}
