/* Threads: their numbers, what one of them stores for all, and reductions
 * that they share.
 *
 * The parts of a reduction meet in LOCAL memory. Each thread joins up to 32
 * parts itself (up to 8, where they are not neighbours' and cannot be loaded
 * four at once). Where there are more, as many of the first threads join a
 * share each, in the slot of their own part, and each thread joins those. All
 * threads then have the same value, and the order of joining is always the
 * same.
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

#define MAX_JOINED 32u /* parts that each thread joins by itself */
#define FAR_JOINED 8u  /* where they are not neighbours' */

static const union uop_arg no_arg = {.bits = 0};

/* ---- coordinates ---- */

static const struct uop *
special(struct expand *e, int64_t which, int64_t extent)
{
    const struct uop *size = expand_num(e, extent);

    return uop_new(e->g, UOP_SPECIAL, UOP_I64, 1, (union uop_arg){.i = which},
                   &size, 1);
}

/* The ranges become digits of one coordinate; the innermost counts fastest. */
static bell_status
split_coordinate(struct expand *e, uint64_t set, uint32_t dim, uint64_t limit,
                 uint32_t grid[3])
{
    const struct uop *left;
    int64_t extent = 1;
    uint64_t rest;

    assert(dim < 3);
    for (rest = set; rest; rest &= rest - 1) {
        int64_t size = e->k->sizes[__builtin_ctzll(rest)];
        if (__builtin_mul_overflow(extent, size, &extent) ||
            (uint64_t)extent > limit)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "a grid of more than %llu work-groups",
                             (unsigned long long)limit);
    }
    grid[dim] = (uint32_t)extent;
    left = special(e, dim, extent);
    while (set) {
        uint32_t r = 63u - (uint32_t)__builtin_clzll(set);
        set &= ~((uint64_t)1 << r);
        e->base[r] = left;
        if (!set)
            break;
        e->base[r] = expand_op_num(e, UOP_FLOORMOD, left, e->k->sizes[r]);
        left = expand_op_num(e, UOP_FLOORDIV, left, e->k->sizes[r]);
    }
    return BELL_OK;
}

static uint64_t
grid_limit(const struct expand *e, uint32_t dim)
{
    const struct lower_target *t = e->k->target;

    return t->is_gpu ? t->max_grid[dim] : UINT32_MAX;
}

/* The innermost range is x, the next y, all others together z; or all
 * together x, where y or z cannot be so large. */
static bell_status
map_globals(struct expand *e, uint32_t grid[3])
{
    uint64_t left = e->globals;
    uint32_t dim;

    for (dim = 0; dim < 2 && left; dim++) {
        uint32_t r = 63u - (uint32_t)__builtin_clzll(left);
        if ((uint64_t)e->k->sizes[r] > grid_limit(e, dim))
            break;
        BELL_TRY(split_coordinate(e, (uint64_t)1 << r, dim, UINT32_MAX, grid));
        left &= ~((uint64_t)1 << r);
    }
    if (!left)
        return BELL_OK;
    if (dim == 2 &&
        split_coordinate(e, left, 2, grid_limit(e, 2), grid) == BELL_OK)
        return BELL_OK;
    bell_error_clear();
    grid[1] = 1;
    return split_coordinate(e, e->globals, 0, grid_limit(e, 0), grid);
}

bell_status
expand_map_threads(struct expand *e, struct lower_program *program)
{
    struct kernel *k = e->k;
    uint64_t set;
    uint32_t i;

    for (i = 0; i < 3; i++)
        program->grid[i] = program->local[i] = 1;
    program->local[0] = k->n_threads;
    BELL_TRY(map_globals(e, program->grid));
    if (k->n_threads == 1)
        return BELL_OK;
    assert(!(k->n_threads & (k->n_threads - 1)) &&
           k->n_threads <= k->target->max_threads);
    e->tid = special(e, 4, k->n_threads);
    for (set = e->threads; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        uint32_t shift = k->thread_shift[uop_range_id(k->ranges[r])];
        assert(k->sizes[r] << shift <= (int64_t)k->n_threads);
        e->base[r] = e->tid;
        if (shift)
            e->base[r] =
                expand_op_num(e, UOP_FLOORDIV, e->base[r], (int64_t)1 << shift);
        if (k->sizes[r] << shift != k->n_threads)
            e->base[r] =
                expand_op_num(e, UOP_FLOORMOD, e->base[r], k->sizes[r]);
    }
    return BELL_OK;
}

/* ---- stores ---- */

/* Bits of the thread number that the ranges count with. */
static uint32_t
thread_bits(const struct expand *e, uint64_t ranges)
{
    uint32_t bits = 0;

    for (ranges &= e->threads; ranges; ranges &= ranges - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(ranges);
        bits |= (uint32_t)(e->k->sizes[r] - 1)
                << e->k->thread_shift[uop_range_id(e->k->ranges[r])];
    }
    return bits;
}

const struct uop *
expand_store_gate(struct expand *e, uint64_t deps)
{
    uint32_t idle = (e->k->n_threads - 1) & ~thread_bits(e, deps);
    const struct uop *gate = NULL, *zero = expand_num(e, 0);
    uint64_t set;

    assert(e->tid || e->k->n_threads == 1);
    if (idle)
        gate = uop_alu2(e->g, UOP_CMPEQ,
                        expand_op_num(e, UOP_AND, e->tid, idle), zero);
    for (set = e->globals & ~deps; set; set &= set - 1) {
        const struct uop *first =
            uop_alu2(e->g, UOP_CMPEQ, e->base[__builtin_ctzll(set)], zero);
        gate = gate ? uop_alu2(e->g, UOP_AND, gate, first) : first;
    }
    return gate;
}

/* ---- shared memory ---- */

const struct uop *
expand_local(struct expand *e, enum uop_dtype dtype, uint64_t n_elems)
{
    uint64_t bytes = align_up(n_elems * uop_dtype_infos[dtype].size_bytes, 16);
    struct uop_local *local = arena_alloc(&e->g->arena, sizeof(*local));

    assert(dtype < UOP_DTYPE_COUNT && n_elems > 0);
    if (!local || n_elems > UINT32_MAX) {
        e->g->failed = true;
        return &uop_failed;
    }
    local->id = e->n_locals++;
    local->n_elems = (uint32_t)n_elems;
    e->shared_bytes += (uint32_t)bytes;
    return uop_new(e->g, UOP_LOCAL, dtype, 1, (union uop_arg){.data = local},
                   NULL, 0);
}

void
expand_end_with_barrier(struct expand *e, uint64_t context)
{
    uint64_t loops = context & e->loops;

    if (loops)
        e->barrier_ends |= (uint64_t)1 << (63 - __builtin_clzll(loops));
}

/* ---- joining ---- */

/* Parts being joined: those of the threads whose numbers differ in `n_log2`
 * bits from `shift` on. Part i of a thread lies at (i*n_threads + tid)*lanes
 * in the array of its dtype. */
struct thread_join {
    struct expand *e;
    const struct expand_part *parts;
    uint32_t n_parts;
    uint32_t shift, n_log2;
    const struct uop *memory[UOP_DTYPE_COUNT];
    uint32_t *slot; /* by part: first element, over n_threads */
    const struct uop **stores;
};

static void
make_memory(struct thread_join *j)
{
    struct expand *e = j->e;
    uint64_t n[UOP_DTYPE_COUNT] = {0};
    uint32_t i;

    assert(j->n_parts > 0);
    for (i = 0; i < j->n_parts; i++) {
        const struct uop *u = *j->parts[i].value;
        j->slot[i] = (uint32_t)n[u->dtype];
        n[u->dtype] += u->lanes;
    }
    for (i = 0; i < UOP_DTYPE_COUNT; i++) {
        if (n[i])
            j->memory[i] = expand_local(e, i, n[i] * e->k->n_threads);
    }
}

/* Element of part i of the thread with this number. */
static const struct uop *
partial_index(const struct thread_join *j, uint32_t i, const struct uop *tid)
{
    struct expand *e = j->e;
    int64_t lanes = (*j->parts[i].value)->lanes;

    return expand_op_num(e, UOP_ADD, expand_op_num(e, UOP_MUL, tid, lanes),
                         (int64_t)j->slot[i] * e->k->n_threads);
}

/* A BARRIER behind the stores of all parts as they are now. */
static const struct uop *
store_parts(struct thread_join *j, const struct uop *after,
            const struct uop *gate)
{
    struct expand *e = j->e;
    uint32_t i;

    for (i = 0; i < j->n_parts; i++) {
        const struct uop *u = *j->parts[i].value, *src[4];
        src[0] = j->memory[u->dtype];
        if (after)
            src[0] = expand_after(e, src[0], after);
        src[1] = partial_index(j, i, e->tid);
        src[2] = u;
        src[3] = gate;
        j->stores[i] =
            uop_make(e->g, UOP_STORE, UOP_VOID, 1, no_arg, src, gate ? 4 : 3);
    }
    return uop_new(e->g, UOP_BARRIER, UOP_VOID, 1, no_arg, j->stores,
                   j->n_parts);
}

/* The number of the thread that differs from this one in having 0 in the
 * bits of the join. */
static const struct uop *
first_thread(const struct thread_join *j)
{
    struct expand *e = j->e;
    uint32_t end = j->shift + j->n_log2;
    const struct uop *low, *high;

    assert(e->tid);
    high = expand_num(e, 0);
    if (e->k->n_threads >> end > 1)
        high = expand_op_num(
            e, UOP_MUL,
            expand_op_num(e, UOP_FLOORDIV, e->tid, (int64_t)1 << end),
            (int64_t)1 << end);
    if (!j->shift)
        return high;
    low = expand_op_num(e, UOP_FLOORMOD, e->tid, (int64_t)1 << j->shift);
    return uop_alu2(e->g, UOP_ADD, high, low);
}

/* The first threads join parts `n_left` apart, each in place of its own. */
static const struct uop *
join_shares(struct thread_join *j, const struct uop *barrier, uint32_t n_left)
{
    struct expand *e = j->e;
    uint32_t n = 1u << j->n_log2, i, step;
    const struct uop *digit, *gate;

    assert(is_pow2(n));
    digit = expand_op_num(e, UOP_FLOORDIV, e->tid, (int64_t)1 << j->shift);
    digit = expand_op_num(e, UOP_FLOORMOD, digit, n);
    gate = expand_op_num(e, UOP_CMPLT, digit, n_left);
    for (i = 0; i < j->n_parts; i++) {
        const struct uop *own = *j->parts[i].value, *sum = own, *src[4];
        src[0] = expand_after(e, j->memory[own->dtype], barrier);
        src[2] = expand_broadcast(
            e, uop_identity(e->g, j->parts[i].op, own->dtype), own->lanes);
        src[3] = gate;
        for (step = n_left; step < n; step += n_left) {
            const struct uop *tid =
                expand_op_num(e, UOP_ADD, e->tid, (int64_t)step << j->shift);
            src[1] = partial_index(j, i, tid);
            sum = uop_alu2(e->g, j->parts[i].op, sum,
                           uop_make(e->g, UOP_LOAD, own->dtype, own->lanes,
                                    no_arg, src, 4));
        }
        *j->parts[i].value = sum;
    }
    return store_parts(j, barrier, gate);
}

/* Each thread joins the first n parts. Neighbours are loaded four at once. */
static void
join_all_threads(struct thread_join *j, const struct uop *barrier, uint32_t n)
{
    struct expand *e = j->e;
    const struct uop *first = first_thread(j);
    uint32_t i, q;

    assert(n <= MAX_JOINED);
    for (i = 0; i < j->n_parts; i++) {
        const struct uop *own = *j->parts[i].value, *x[MAX_JOINED], *memory;
        bool wide = j->shift == 0 && own->lanes == 1 && n >= 4;
        uint32_t step = wide ? 4 : 1, m = 0;
        union uop_arg op = {.i = j->parts[i].op};
        memory = expand_after(e, j->memory[own->dtype], barrier);
        for (q = 0; q < n; q += step) {
            const struct uop *tid =
                expand_op_num(e, UOP_ADD, first, (int64_t)q << j->shift);
            x[m++] = expand_load(e, memory, partial_index(j, i, tid),
                                 wide ? 4 : own->lanes);
        }
        *j->parts[i].value = expand_join_values(e, j->parts[i].op, x, m);
        if (wide)
            *j->parts[i].value = uop_make(e->g, UOP_LANES_REDUCE, own->dtype, 1,
                                          op, j->parts[i].value, 1);
    }
}

static void
join_range(struct thread_join *j)
{
    uint32_t n = 1u << j->n_log2, most = j->shift ? FAR_JOINED : MAX_JOINED;
    const struct uop *barrier;

    make_memory(j);
    barrier = store_parts(j, NULL, NULL);
    if (n > most) {
        barrier = join_shares(j, barrier, most);
        n = most;
    }
    join_all_threads(j, barrier, n);
}

bell_status
expand_join_parts(struct expand *e, uint64_t bound, uint64_t context,
                  const struct expand_part *parts, uint32_t n_parts)
{
    struct kernel *k = e->k;
    struct thread_join j = {.e = e, .parts = parts, .n_parts = n_parts};

    assert(bound && n_parts > 0);
    if (context & k->reduce_ranges)
        return bell_fail(BELL_E_INTERNAL,
                         "threads share a reduction inside another");
    j.slot = arena_alloc(&k->mem, n_parts * sizeof(*j.slot));
    j.stores = arena_alloc(&k->mem, n_parts * sizeof(*j.stores));
    if (!j.slot || !j.stores)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", k->n_nodes);
    for (bound &= e->threads; bound; bound &= bound - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(bound);
        j.shift = k->thread_shift[uop_range_id(k->ranges[r])];
        j.n_log2 = log2_floor((uint64_t)k->sizes[r]);
        assert((int64_t)1 << j.n_log2 == k->sizes[r]);
        memset(j.memory, 0, sizeof(j.memory));
        join_range(&j);
    }
    expand_end_with_barrier(e, context);
    if (e->shared_bytes > k->target->max_shared_bytes)
        return bell_fail(BELL_E_INTERNAL, "%u bytes of LOCAL memory, of %u",
                         e->shared_bytes, k->target->max_shared_bytes);
    return uop_graph_status(e->g);
}
