/* The rules for GPUs.
 *
 * Every output value has a thread. The output ranges that all of a kernel's
 * work depends on are folded into one axis, memory order fastest, which is cut
 * into vectors (of one access), threads (so that neighbours access
 * neighbours), copies and work-groups. Ranges that only some of the work
 * depends on stay loops of every thread.
 */
#include "lower/opt.h"

#include <string.h>

#include "base/bits.h"
#include "base/log.h"

#define GROUP_THREADS  256 /* of a work-group, where nothing says otherwise */
#define FEWEST_THREADS 64
#define MAX_LANES      8

/* ---- what is parallel ---- */

/* Does every LOAD of what the kernel stores read what its own thread will
 * write? */
static bool
loads_own_stores(const struct kernel *k)
{
    uint32_t i, j;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        for (j = 0; u->op == UOP_LOAD && j < k->sink->n_src; j++) {
            const struct uop *store = k->sink->src[j];
            if (store->op == UOP_STORE && store->src[0] == u->src[0] &&
                store->src[1] != u->src[1])
                return false;
        }
    }
    return true;
}

/* Output ranges of constant size that everything depends on. */
static uint64_t
common_ranges(const struct kernel *k)
{
    uint64_t set = ~k->reduce_ranges;
    uint32_t i;

    for (i = 0; i < k->sink->n_src; i++)
        set &= kernel_deps(k, k->sink->src[i]);
    for (i = 0; i < k->n_groups; i++)
        set &= k->groups[i].context;
    set &= ~k->reduce_ranges;
    for (i = 0; i < k->n_ranges; i++) {
        if (k->sizes[i] < 1)
            set &= ~((uint64_t)1 << i);
    }
    return set;
}

/* ---- vectors ---- */

/* Bytes of all accesses along range r in steps of one element, less those in
 * other steps. */
static double
contiguous_bytes(const struct kernel *k, uint32_t r)
{
    double n = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        double bytes;
        int64_t coef;
        if (u->op != UOP_LOAD && u->op != UOP_STORE)
            continue;
        coef = kernel_coef(k, u->src[1], r);
        bytes = uop_dtype_infos[u->src[0]->dtype].size_bytes *
                (u->op == UOP_STORE ? 2.0 : 1.0);
        if (coef == 1)
            n += bytes;
        else if (coef != 0)
            n -= bytes * 0.5;
    }
    return n;
}

/* The range of the set along which neighbours lie side by side; the innermost
 * where there is none. */
static uint32_t
fast_range(const struct kernel *k, uint64_t set)
{
    uint32_t best = 63u - (uint32_t)__builtin_clzll(set), r;
    double most = contiguous_bytes(k, best), bytes;

    for (; set; set &= set - 1) {
        r = (uint32_t)__builtin_ctzll(set);
        bytes = contiguous_bytes(k, r);
        if (bytes > most) {
            most = bytes;
            best = r;
        }
    }
    return best;
}

/* Is the index a multiple of `lanes` where range r is? */
static bool
is_aligned(const struct kernel *k, const struct uop *index, uint32_t r,
           int64_t lanes)
{
    uint32_t i;

    for (i = 0; i < k->n_ranges; i++) {
        int64_t coef = kernel_coef(k, index, i);
        if (i != r && coef != KERNEL_NONAFFINE && coef % lanes)
            return false;
    }
    return true;
}

/* Lanes of a VECTOR along range r: as many as one access takes, where most
 * accesses could be of so many. 1: none. */
static int64_t
vector_lanes(const struct kernel *k, uint32_t r)
{
    int64_t lanes = MAX_LANES;
    uint32_t i;

    for (; lanes > 1; lanes /= 2) {
        int64_t good = 0, bad = 0, widest = 1;
        if (k->sizes[r] % lanes)
            continue;
        for (i = 0; i < k->n_nodes; i++) {
            const struct uop *u = k->nodes[i];
            int64_t bytes;
            if ((u->op != UOP_LOAD && u->op != UOP_STORE) ||
                !(k->deps[i] >> r & 1))
                continue;
            bytes = uop_dtype_infos[u->src[0]->dtype].size_bytes;
            widest = bytes > widest ? bytes : widest;
            if (kernel_coef(k, u->src[1], r) == 1 &&
                is_aligned(k, u->src[1], r, lanes))
                good += bytes;
            else
                bad += bytes;
        }
        if (lanes * widest <= k->target->vector_bytes && good > bad)
            return lanes;
    }
    return 1;
}

/* ---- the plan ---- */

/* Threads of a work-group for n of them in all. */
static int64_t
group_threads(const struct lower_target *t, int64_t n)
{
    int64_t threads = GROUP_THREADS;

    while (threads > FEWEST_THREADS && n / threads < t->n_units)
        threads /= 2;
    while (threads / 2 >= n)
        threads /= 2;
    return threads;
}

/* Cuts the axis, of `n` values, into threads and work-groups. */
static bool
spread(struct opt_plan *plan, uint32_t axis)
{
    const struct lower_target *t = plan->k->target;
    int64_t threads = group_threads(t, plan->axes[axis].size);
    uint32_t tid, rest = axis;

    if (threads > 1 && (!opt_split(plan, axis, threads, UOP_AXIS_LOOP,
                                   OPT_INNER, &tid, &rest) ||
                        !opt_thread(plan, tid, 0)))
        return false;
    if (plan->axes[rest].size > (int64_t)t->max_grid[0])
        return opt_split(plan, rest, (int64_t)t->max_grid[0], UOP_AXIS_GLOBAL,
                         OPT_OUTER, NULL, NULL);
    return opt_retype(plan, rest, UOP_AXIS_GLOBAL);
}

/* One thread for each value of the common ranges, or for some of them along
 * the fastest. */
static bool
plan_threads(struct opt_plan *plan, uint64_t common, bool vectors)
{
    const struct kernel *k = plan->k;
    uint32_t fast = fast_range(k, common), axes[KERNEL_MAX_RANGES], n = 0, flat;
    int64_t lanes = vectors ? vector_lanes(k, fast) : 1;
    uint64_t set;

    for (set = common & ~((uint64_t)1 << fast); set; set &= set - 1)
        axes[n++] = (uint32_t)__builtin_ctzll(set);
    axes[n++] = fast;
    if (lanes > 1 && !opt_split(plan, fast, lanes, UOP_AXIS_VECTOR, OPT_INNER,
                                NULL, &axes[n - 1]))
        return false;
    return opt_fold(plan, axes, n, &flat) && spread(plan, flat);
}

bell_status
opt_gpu_rules(struct kernel *k)
{
    struct opt_plan plan;
    uint64_t common;

    BELL_TRY(kernel_unflatten(k));
    BELL_TRY(kernel_merge(k));
    BELL_TRY(kernel_fuse(k));
    opt_plan_init(&plan, k);
    common = common_ranges(k);
    if (!common || !loads_own_stores(k)) {
        LOG(LOG_OPT, "one thread: nothing that everything depends on");
        return BELL_OK;
    }
    if (!plan_threads(&plan, common, k->n_groups == 0))
        return bell_fail(BELL_E_INTERNAL, "no plan for %u threads",
                         k->target->max_threads);
    opt_log_plan(&plan);
    return opt_apply(&plan);
}
