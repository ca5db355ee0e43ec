/* Plans of collectives: which rank copies or sums what, in which phase.
 *
 * A rank's device reads what it needs from where that is. Where it cannot, the
 * owner copies it to pinned host memory in a step before, once for all readers.
 */
#include "hcq/hcq_collective_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

/* Chunks begin at multiples of it, from the memory's begin on: a cache line,
 * and whole words of any dtype. */
#define CHUNK_ALIGN 64u

uint64_t
coll_in_bytes(const struct coll_task *t, uint32_t rank)
{
    uint64_t one = t->count * t->elem_bytes;

    switch (t->kind) {
    case HCQ_COLLECTIVE_ALL_REDUCE:
    case HCQ_COLLECTIVE_ALL_GATHER:
    case HCQ_COLLECTIVE_GATHER:
        return one;
    case HCQ_COLLECTIVE_REDUCE_SCATTER:
    case HCQ_COLLECTIVE_ALL_TO_ALL:
        return t->n * one;
    case HCQ_COLLECTIVE_SCATTER:
        return rank == t->root ? t->n * one : 0;
    case HCQ_COLLECTIVE_BROADCAST:
    case HCQ_COLLECTIVE_SEND:
    case HCQ_COLLECTIVE_KIND_COUNT:
        break;
    }
    return rank == t->root ? one : 0;
}

uint64_t
coll_out_bytes(const struct coll_task *t, uint32_t rank)
{
    uint64_t one = t->count * t->elem_bytes;

    switch (t->kind) {
    case HCQ_COLLECTIVE_ALL_REDUCE:
    case HCQ_COLLECTIVE_REDUCE_SCATTER:
    case HCQ_COLLECTIVE_SCATTER:
        return one;
    case HCQ_COLLECTIVE_BROADCAST:
        return rank != t->root || t->has_root_out ? one : 0;
    case HCQ_COLLECTIVE_ALL_GATHER:
    case HCQ_COLLECTIVE_ALL_TO_ALL:
        return t->n * one;
    case HCQ_COLLECTIVE_GATHER:
        return rank == t->root ? t->n * one : 0;
    case HCQ_COLLECTIVE_SEND:
    case HCQ_COLLECTIVE_KIND_COUNT:
        break;
    }
    return rank == t->target ? one : 0;
}

/* ---- steps --------------------------------------------------------------- */

/* A step that reads `n_from` places, which *out_from has room for. */
static struct coll_step *
add_step(struct coll_plan *plan, uint32_t rank, uint32_t phase, uint32_t n_from,
         struct coll_ref **out_from)
{
    struct coll_step *step;

    if (host_grow((void **)&plan->steps, &plan->cap_steps, plan->n_steps + 1,
                  sizeof(*plan->steps)) != 0 ||
        host_grow((void **)&plan->from, &plan->cap_from, plan->n_from + n_from,
                  sizeof(*plan->from)) != 0) {
        plan->is_short = true;
        return NULL;
    }
    step = &plan->steps[plan->n_steps++];
    memset(step, 0, sizeof(*step));
    step->rank = rank;
    step->phase = phase;
    step->first_from = plan->n_from;
    *out_from = &plan->from[plan->n_from];
    plan->n_from += n_from;
    return step;
}

static void
add_copy(struct coll_plan *plan, uint32_t rank, uint32_t phase,
         struct coll_ref to, struct coll_ref from, uint64_t n_bytes)
{
    struct coll_ref *list;
    struct coll_step *step =
        n_bytes ? add_step(plan, rank, phase, 1, &list) : NULL;

    if (!step)
        return;
    step->count = n_bytes;
    step->to = to;
    list[0] = from;
}

static struct coll_ref
ref(enum coll_space space, uint32_t rank, uint64_t at)
{
    return (struct coll_ref){space, rank, at};
}

static uint64_t
hash_staged(struct coll_ref of, uint64_t n_bytes)
{
    return hash_add(hash_add(hash_add(hash_add(0, of.space), of.rank), of.at),
                    n_bytes);
}

/* Pinned memory for these bytes, which their owner copies there in `phase`.
 * NULL: out of memory. Two that have one hash would be copied twice. */
static struct coll_staged *
add_staged(struct coll_plan *plan, struct coll_ref of, uint64_t n_bytes,
           uint32_t phase)
{
    uint64_t *end = &plan->space_bytes[COLL_STAGE][of.rank];
    struct coll_staged *staged;

    if (host_grow((void **)&plan->staged, &plan->cap_staged, plan->n_staged + 1,
                  sizeof(*plan->staged)) != 0 ||
        map_put(&plan->staged_of, hash_staged(of, n_bytes), plan->n_staged) !=
            0) {
        plan->is_short = true;
        return NULL;
    }
    staged = &plan->staged[plan->n_staged++];
    *staged = (struct coll_staged){of, n_bytes, *end, phase + 1};
    *end = align_up(*end + n_bytes, CHUNK_ALIGN);
    add_copy(plan, of.rank, phase, ref(COLL_STAGE, of.rank, staged->at), of,
             n_bytes);
    return staged;
}

/* The place in pinned memory that has these bytes, which their owner copies
 * there in `phase` if it has not yet. */
static struct coll_ref
stage(struct coll_plan *plan, struct coll_ref of, uint64_t n_bytes,
      uint32_t phase, uint32_t *out_phase)
{
    const uint64_t *at = map_get(&plan->staged_of, hash_staged(of, n_bytes));
    const struct coll_staged *staged = at ? &plan->staged[*at] : NULL;

    if (!staged || staged->of.space != of.space || staged->of.rank != of.rank ||
        staged->of.at != of.at || staged->n_bytes != n_bytes)
        staged = add_staged(plan, of, n_bytes, phase);
    if (!staged)
        return of;
    if (staged->phase > *out_phase)
        *out_phase = staged->phase;
    return ref(COLL_STAGE, of.rank, staged->at);
}

/* How `rank` reads these bytes, which are there from `phase` on. */
static struct coll_ref
see(const struct coll_task *t, struct coll_plan *plan, uint32_t rank,
    struct coll_ref of, uint64_t n_bytes, uint32_t phase, uint32_t *out_phase)
{
    if (phase > *out_phase)
        *out_phase = phase;
    if (of.rank == rank || t->reads[rank][of.rank])
        return of;
    return stage(plan, of, n_bytes, phase, out_phase);
}

/* Copies from one rank to another, or within one. */
static void
move(const struct coll_task *t, struct coll_plan *plan, struct coll_ref to,
     struct coll_ref from, uint64_t n_bytes, uint32_t phase)
{
    bool can_push = t->writes[from.rank][to.rank];
    uint32_t then = phase;

    if (n_bytes == 0)
        return;
    if (to.rank != from.rank && can_push &&
        (t->is_posted[from.rank][to.rank] || !t->reads[to.rank][from.rank])) {
        add_copy(plan, from.rank, phase, to, from, n_bytes);
        return;
    }
    from = see(t, plan, to.rank, from, n_bytes, phase, &then);
    add_copy(plan, to.rank, then, to, from, n_bytes);
}

/* The elements `first` to first + count of all inputs, by `rank`. `in_bytes`:
 * where they begin in an input; the terms of others may be a copy of it. */
static void
add_sum(const struct coll_task *t, struct coll_plan *plan, uint32_t rank,
        struct coll_ref to, uint64_t in_bytes, uint64_t count, bool use_copies)
{
    uint64_t n_bytes = count * t->elem_bytes;
    struct coll_ref from[RANKS_MAX], *list;
    struct coll_step *step;
    uint32_t s, phase = 0;

    if (count == 0)
        return;
    for (s = 0; s < t->n; s++) {
        bool is_copy =
            use_copies && t->in_place[s] && s != rank && t->reads[rank][s];

        from[s] =
            see(t, plan, rank, ref(is_copy ? COLL_COPY : COLL_IN, s, in_bytes),
                n_bytes, is_copy, &phase);
    }
    step = add_step(plan, rank, phase, t->n, &list);
    if (!step)
        return;
    step->n_terms = t->n;
    step->count = count;
    step->to = to;
    memcpy(list, from, t->n * sizeof(*from));
}

static uint32_t
next_phase(const struct coll_plan *plan)
{
    uint32_t phase = 0;
    size_t i;

    for (i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].phase >= phase)
            phase = plan->steps[i].phase + 1;
    }
    return phase;
}

/* ---- chunks -------------------------------------------------------------- */

struct chunk {
    uint64_t first, count; /* elements */
};

/* Chunk i of n, all but the last ones of one size, of whole lines. */
static struct chunk
chunk_of(const struct coll_task *t, uint64_t count, uint64_t n, uint64_t i)
{
    uint64_t line = CHUNK_ALIGN / t->elem_bytes;
    uint64_t each = align_up((count + n - 1) / n, line), first = i * each;

    assert(is_pow2(line) && i < n);
    if (first >= count)
        return (struct chunk){count, 0};
    return (struct chunk){first, count - first < each ? count - first : each};
}

/* ---- reductions ---------------------------------------------------------- */

/* In place, others read a copy of the input, as the sums overwrite it. */
static void
all_reduce_one_shot(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t n_bytes = t->count * t->elem_bytes;
    uint32_t r, s;

    for (s = 0; s < t->n; s++) {
        bool is_read = false;

        for (r = 0; r < t->n; r++)
            is_read |= t->in_place[s] && r != s && t->reads[r][s];
        if (!is_read)
            continue;
        plan->space_bytes[COLL_COPY][s] = n_bytes;
        add_copy(plan, s, 0, ref(COLL_COPY, s, 0), ref(COLL_IN, s, 0), n_bytes);
    }
    for (r = 0; r < t->n; r++)
        add_sum(t, plan, r, ref(COLL_OUT, r, 0), 0, t->count, true);
}

/* Only one rank reads any chunk of an input, so in place needs no copies. */
static void
all_reduce_two_shot(const struct coll_task *t, struct coll_plan *plan)
{
    uint32_t r, k, phase;

    for (r = 0; r < t->n; r++) {
        struct chunk c = chunk_of(t, t->count, t->n, r);
        uint64_t at = c.first * t->elem_bytes;

        add_sum(t, plan, r, ref(COLL_OUT, r, at), at, c.count, false);
    }
    phase = next_phase(plan);
    for (r = 0; r < t->n; r++) {
        for (k = 1; k < t->n; k++) {
            uint32_t s = (r + k) % t->n;
            struct chunk c = chunk_of(t, t->count, t->n, s);
            uint64_t at = c.first * t->elem_bytes;

            move(t, plan, ref(COLL_OUT, r, at), ref(COLL_OUT, s, at),
                 c.count * t->elem_bytes, phase);
        }
    }
}

static bool
is_half(enum hcq_dtype dtype)
{
    return dtype == HCQ_DTYPE_F16 || dtype == HCQ_DTYPE_BF16;
}

/* Rank r > 0 adds its elements to what rank r - 1 has until then. */
static void
add_hop(const struct coll_task *t, struct coll_plan *plan, uint32_t r,
        struct chunk c, uint32_t phase, struct coll_ref to)
{
    bool is_wide = is_half(t->dtype);
    uint64_t part_bytes = is_wide ? 4 : t->elem_bytes;
    struct coll_ref *from;
    struct coll_step *step = add_step(plan, r, phase, 2, &from);

    if (!step)
        return;
    step->n_terms = 2;
    step->count = c.count;
    step->wide_first = is_wide && r > 1;
    step->wide_result = is_wide && r + 1 < t->n;
    step->to = r + 1 < t->n ? ref(COLL_PART, r, c.first * part_bytes) : to;
    from[0] = r == 1 ? ref(COLL_IN, 0, c.first * t->elem_bytes)
                     : ref(COLL_PART, r - 1, c.first * part_bytes);
    from[1] = ref(COLL_IN, r, c.first * t->elem_bytes);
}

static void
take_parts(const struct coll_task *t, struct coll_plan *plan, uint64_t count)
{
    uint64_t part_bytes = is_half(t->dtype) ? 4 : t->elem_bytes;
    uint32_t r;

    for (r = 1; r + 1 < t->n; r++)
        plan->space_bytes[COLL_PART][r] = count * part_bytes;
}

/* Sums go up from rank to rank, results down. */
static void
all_reduce_ring(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t n_chunks = coll_ring_chunks(t, t->count * t->elem_bytes), i;
    uint32_t r, last = t->n - 1;

    take_parts(t, plan, t->count);
    for (i = 0; i < n_chunks; i++) {
        struct chunk c = chunk_of(t, t->count, n_chunks, i);
        uint64_t at = c.first * t->elem_bytes;

        for (r = 1; c.count && r <= last; r++)
            add_hop(t, plan, r, c, (uint32_t)i + r - 1,
                    ref(COLL_OUT, last, at));
        for (r = last; c.count && r-- > 0;)
            move(t, plan, ref(COLL_OUT, r, at), ref(COLL_OUT, r + 1, at),
                 c.count * t->elem_bytes, (uint32_t)i + 2 * last - 1 - r);
    }
}

/* Each rank has its input in the team's memory; a chunk of that becomes the sum
 * everywhere, by one rank; then each takes its result. */
static void
all_reduce_nvls(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t n_bytes = t->count * t->elem_bytes;
    struct coll_ref *list;
    uint32_t r, s;

    for (r = 0; r < t->n && n_bytes; r++) {
        plan->space_bytes[COLL_TEAM][r] = align_up(n_bytes, CHUNK_ALIGN);
        add_copy(plan, r, 0, ref(COLL_TEAM, r, 0), ref(COLL_IN, r, 0), n_bytes);
        add_copy(plan, r, 2, ref(COLL_OUT, r, 0), ref(COLL_TEAM, r, 0),
                 n_bytes);
    }
    for (r = 0; r < t->n; r++) {
        struct chunk c = chunk_of(t, t->count, t->n, r);
        uint64_t at = c.first * t->elem_bytes;
        struct coll_step *step =
            c.count ? add_step(plan, r, 1, t->n, &list) : NULL;

        if (!step)
            continue;
        step->n_terms = t->n;
        step->count = c.count;
        step->is_team = true;
        step->to = ref(COLL_TEAM, r, at);
        for (s = 0; s < t->n; s++)
            list[s] = ref(COLL_TEAM, s, at);
    }
}

static void
reduce_scatter_one_shot(const struct coll_task *t, struct coll_plan *plan)
{
    uint32_t r;

    for (r = 0; r < t->n; r++)
        add_sum(t, plan, r, ref(COLL_OUT, r, 0), r * t->count * t->elem_bytes,
                t->count, false);
}

/* As an all-reduce whose results go down only as far as they are wanted, the
 * farthest block first. */
static void
reduce_scatter_ring(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t block_bytes = t->count * t->elem_bytes, i;
    uint64_t n_chunks = coll_ring_chunks(t, block_bytes);
    uint32_t r, b, last = t->n - 1, phase = 0;

    take_parts(t, plan, t->n * t->count);
    for (r = 1; r <= last; r++)
        plan->space_bytes[COLL_COPY][r] = t->n * block_bytes;
    for (b = 0; b < t->n; b++) {
        for (i = 0; i < n_chunks; i++) {
            struct chunk c = chunk_of(t, t->count, n_chunks, i);
            uint64_t in_out = c.first * t->elem_bytes;
            uint64_t at = b * block_bytes + in_out;
            struct chunk all = {b * t->count + c.first, c.count};

            if (c.count == 0)
                continue;
            for (r = 1; r <= last; r++)
                add_hop(t, plan, r, all, phase + r - 1,
                        b == last ? ref(COLL_OUT, last, in_out)
                                  : ref(COLL_COPY, last, at));
            for (r = last; r-- > b;)
                move(t, plan,
                     r == b ? ref(COLL_OUT, r, in_out) : ref(COLL_COPY, r, at),
                     ref(COLL_COPY, r + 1, at), c.count * t->elem_bytes,
                     phase + 2 * last - 1 - r);
            phase++;
        }
    }
}

/* ---- moves --------------------------------------------------------------- */

static void
move_own(const struct coll_task *t, struct coll_plan *plan, struct coll_ref to,
         struct coll_ref from)
{
    if (!t->in_place[to.rank])
        move(t, plan, to, from, t->count * t->elem_bytes, 0);
}

static void
all_gather_one_shot(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t n_bytes = t->count * t->elem_bytes;
    uint32_t r, k;

    for (r = 0; r < t->n; r++) {
        move_own(t, plan, ref(COLL_OUT, r, r * n_bytes), ref(COLL_IN, r, 0));
        for (k = 1; k < t->n; k++) {
            uint32_t s = (r + k) % t->n;

            move(t, plan, ref(COLL_OUT, r, s * n_bytes), ref(COLL_IN, s, 0),
                 n_bytes, 0);
        }
    }
}

/* In step k rank r gets the block of rank r - 1 - k, from its neighbour. */
static void
all_gather_ring(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t n_bytes = t->count * t->elem_bytes;
    uint32_t r, k;

    for (k = 0; k + 1 < t->n; k++) {
        for (r = 0; r < t->n; r++) {
            uint32_t before = (r + t->n - 1) % t->n;
            uint64_t at = (before + t->n - k) % t->n * n_bytes;

            if (k == 0)
                move_own(t, plan, ref(COLL_OUT, r, r * n_bytes),
                         ref(COLL_IN, r, 0));
            move(t, plan, ref(COLL_OUT, r, at),
                 k ? ref(COLL_OUT, before, at) : ref(COLL_IN, before, 0),
                 n_bytes, k);
        }
    }
}

static void
broadcast_own(const struct coll_task *t, struct coll_plan *plan)
{
    if (t->has_root_out)
        move_own(t, plan, ref(COLL_OUT, t->root, 0), ref(COLL_IN, t->root, 0));
}

static void
broadcast_one_shot(const struct coll_task *t, struct coll_plan *plan)
{
    uint32_t k;

    broadcast_own(t, plan);
    for (k = 1; k < t->n; k++)
        move(t, plan, ref(COLL_OUT, (t->root + k) % t->n, 0),
             ref(COLL_IN, t->root, 0), t->count * t->elem_bytes, 0);
}

/* Each rank gets a chunk, then the others' from them. The root's own chunk goes
 * to all in the second step. */
static void
broadcast_two_shot(const struct coll_task *t, struct coll_plan *plan)
{
    uint32_t r, k, phase;

    broadcast_own(t, plan);
    for (r = 0; r < t->n; r++) {
        struct chunk c = chunk_of(t, t->count, t->n, r);
        uint64_t at = c.first * t->elem_bytes;

        if (r != t->root)
            move(t, plan, ref(COLL_OUT, r, at), ref(COLL_IN, t->root, at),
                 c.count * t->elem_bytes, 0);
    }
    phase = next_phase(plan);
    for (r = 0; r < t->n; r++) {
        for (k = 1; r != t->root && k < t->n; k++) {
            uint32_t s = (r + k) % t->n;
            struct chunk c = chunk_of(t, t->count, t->n, s);
            uint64_t at = c.first * t->elem_bytes;

            move(t, plan, ref(COLL_OUT, r, at),
                 ref(s == t->root ? COLL_IN : COLL_OUT, s, at),
                 c.count * t->elem_bytes, phase);
        }
    }
}

static void
broadcast_ring(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t n_chunks = coll_ring_chunks(t, t->count * t->elem_bytes), i;
    uint32_t k;

    broadcast_own(t, plan);
    for (i = 0; i < n_chunks; i++) {
        struct chunk c = chunk_of(t, t->count, n_chunks, i);
        uint64_t at = c.first * t->elem_bytes;

        for (k = 1; k < t->n; k++) {
            uint32_t r = (t->root + k) % t->n, before = (r + t->n - 1) % t->n;

            move(t, plan, ref(COLL_OUT, r, at),
                 ref(k == 1 ? COLL_IN : COLL_OUT, before, at),
                 c.count * t->elem_bytes, (uint32_t)i + k - 1);
        }
    }
}

static void
all_to_all(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t n_bytes = t->count * t->elem_bytes;
    uint32_t r, k;

    for (r = 0; r < t->n; r++) {
        for (k = 0; k < t->n; k++) {
            uint32_t s = (r + k) % t->n;

            move(t, plan, ref(COLL_OUT, r, s * n_bytes),
                 ref(COLL_IN, s, r * n_bytes), n_bytes, 0);
        }
    }
}

static void
gather(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t n_bytes = t->count * t->elem_bytes;
    uint32_t s;

    for (s = 0; s < t->n; s++) {
        struct coll_ref to = ref(COLL_OUT, t->root, s * n_bytes);

        if (s == t->root)
            move_own(t, plan, to, ref(COLL_IN, s, 0));
        else
            move(t, plan, to, ref(COLL_IN, s, 0), n_bytes, 0);
    }
}

static void
scatter(const struct coll_task *t, struct coll_plan *plan)
{
    uint64_t n_bytes = t->count * t->elem_bytes;
    uint32_t r;

    for (r = 0; r < t->n; r++) {
        struct coll_ref from = ref(COLL_IN, t->root, r * n_bytes);

        if (r == t->root)
            move_own(t, plan, ref(COLL_OUT, r, 0), from);
        else
            move(t, plan, ref(COLL_OUT, r, 0), from, n_bytes, 0);
    }
}

static void
send_to_target(const struct coll_task *t, struct coll_plan *plan)
{
    move(t, plan, ref(COLL_OUT, t->target, 0), ref(COLL_IN, t->root, 0),
         t->count * t->elem_bytes, 0);
}

/* One rank has nobody to exchange with. */
static void
copy_alone(const struct coll_task *t, struct coll_plan *plan)
{
    if (t->kind != HCQ_COLLECTIVE_BROADCAST || t->has_root_out)
        move_own(t, plan, ref(COLL_OUT, 0, 0), ref(COLL_IN, 0, 0));
}

/* ---- plans --------------------------------------------------------------- */

typedef void plan_fn(const struct coll_task *task, struct coll_plan *plan);

static plan_fn *const
    plan_fns[HCQ_COLLECTIVE_KIND_COUNT][HCQ_COLLECTIVE_ALGORITHM_COUNT] = {
        [HCQ_COLLECTIVE_ALL_REDUCE] = {NULL, all_reduce_one_shot,
                                       all_reduce_two_shot, all_reduce_ring,
                                       all_reduce_nvls},
        [HCQ_COLLECTIVE_REDUCE_SCATTER] = {NULL, reduce_scatter_one_shot, NULL,
                                           reduce_scatter_ring},
        [HCQ_COLLECTIVE_ALL_GATHER] = {NULL, all_gather_one_shot, NULL,
                                       all_gather_ring},
        [HCQ_COLLECTIVE_BROADCAST] = {NULL, broadcast_one_shot,
                                      broadcast_two_shot, broadcast_ring},
        [HCQ_COLLECTIVE_ALL_TO_ALL] = {NULL, all_to_all},
        [HCQ_COLLECTIVE_GATHER] = {NULL, gather},
        [HCQ_COLLECTIVE_SCATTER] = {NULL, scatter},
        [HCQ_COLLECTIVE_SEND] = {NULL, send_to_target},
};

/* Neighbours reach each other: up for sums, and down, or around, for moves. */
static bool
has_ring(const struct coll_task *t)
{
    bool sums = t->kind == HCQ_COLLECTIVE_ALL_REDUCE ||
                t->kind == HCQ_COLLECTIVE_REDUCE_SCATTER;
    uint32_t r;

    for (r = 0; r < t->n; r++) {
        uint32_t next = (r + 1) % t->n;

        if (sums && next == 0)
            continue;
        if (sums &&
            (!t->reads[next][r] || !(t->reads[r][next] || t->writes[next][r])))
            return false;
        if (!sums && !t->reads[next][r] && !t->writes[r][next])
            return false;
    }
    return t->n > 1;
}

bool
coll_has(enum hcq_collective_kind kind, enum hcq_collective_algorithm by)
{
    return plan_fns[kind][by] != NULL;
}

/* multimem adds no bytes; a sum of booleans is their or.
 * src: docs/hardware/nvidia-code.md, "Multicast" */
bool
coll_team_adds(enum hcq_dtype dtype)
{
    return dtype != HCQ_DTYPE_I8 && dtype != HCQ_DTYPE_U8;
}

bool
coll_can(const struct coll_task *t, enum hcq_collective_algorithm by)
{
    assert(by != HCQ_COLLECTIVE_AUTO && by < HCQ_COLLECTIVE_ALGORITHM_COUNT);
    return plan_fns[t->kind][by] &&
           (by != HCQ_COLLECTIVE_RING ||
            (has_ring(t) && !(t->in_pairs && t->n > 3))) &&
           (by != HCQ_COLLECTIVE_NVLS ||
            (t->has_team && coll_team_adds(t->dtype)));
}

/* By phases; within one as they were added. */
static void
sort_steps(struct coll_plan *plan)
{
    uint32_t n_phases = next_phase(plan);
    struct coll_step *sorted =
        host_alloc(plan->n_steps * sizeof(*plan->steps) + 1);
    size_t *firsts = host_calloc(n_phases + 1, sizeof(*firsts)), i;
    uint32_t phase;

    if (!sorted || !firsts) {
        host_free(sorted);
        host_free(firsts);
        plan->is_short = true;
        return;
    }
    for (i = 0; i < plan->n_steps; i++)
        firsts[plan->steps[i].phase + 1]++;
    for (phase = 0; phase < n_phases; phase++)
        firsts[phase + 1] += firsts[phase];
    for (i = 0; i < plan->n_steps; i++)
        sorted[firsts[plan->steps[i].phase]++] = plan->steps[i];
    host_free(firsts);
    host_free(plan->steps);
    plan->steps = sorted;
    plan->cap_steps = plan->n_steps;
}

bell_status
coll_plan_make(const struct coll_task *t, enum hcq_collective_algorithm by,
               struct coll_plan *out_plan)
{
    assert(coll_can(t, by));
    memset(out_plan, 0, sizeof(*out_plan));
    map_init(&out_plan->staged_of);
    out_plan->algorithm = by;
    if (t->n == 1)
        copy_alone(t, out_plan);
    else
        plan_fns[t->kind][by](t, out_plan);
    if (!out_plan->is_short)
        sort_steps(out_plan);
    if (out_plan->is_short)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for the plan of a collective of %u "
                         "ranks",
                         t->n);
    return BELL_OK;
}

void
coll_plan_fini(struct coll_plan *plan)
{
    host_free(plan->steps);
    host_free(plan->from);
    host_free(plan->staged);
    map_fini(&plan->staged_of);
    memset(plan, 0, sizeof(*plan));
}
