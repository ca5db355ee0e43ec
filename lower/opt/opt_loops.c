/* The order of output loops, and which of them are spread over threads. */
#include "lower/opt/opt_rules.h"

#include <assert.h>

#include "base/log.h"

#define GROUP_CYCLES    30000.0 /* least work of a work-group */
#define GROUPS_A_THREAD 16      /* work-groups of a large kernel */
#define DIGITS_GROUPS   2       /* the same where each makes digits first */
#define MAX_ORDERED     5       /* loops whose orders are all tried */
#define FAR_BYTES       4096    /* between places that no prefetch joins */
#define MAX_FAR         256     /* of them, before their neighbours are read */

/* Output ranges around everything that is worth counting. */
static uint64_t
common_ranges(const struct opt_model *m, const int64_t *lanes, double total)
{
    const struct kernel *k = m->k;
    uint64_t set = ~k->reduce_ranges;
    double cost;
    uint32_t i, j;

    for (i = 0; i < k->sink->n_src; i++)
        set &= kernel_deps(k, k->sink->src[i]);
    for (i = 0; i < k->n_groups; i++) {
        for (cost = 0, j = 0; j < k->n_nodes; j++) {
            if (k->deps[j] & k->groups[i].bound)
                cost += m->price[j] * m->trips[j];
        }
        cost /= (double)lanes[__builtin_ctzll(k->groups[i].bound)];
        if (cost > total * 0.05)
            set &= k->groups[i].context | k->reduce_ranges;
    }
    return set & ~k->reduce_ranges;
}

/* A divisor of n near `want`; 0 if there is none within a factor of 2. */
static int64_t
near_divisor(int64_t n, int64_t want)
{
    int64_t up, down;

    assert(n > 0 && want > 0);
    for (up = want, down = want; up <= 2 * want; up++, down--) {
        if (up <= n && n % up == 0)
            return up;
        if (2 * down > want && n % down == 0)
            return down;
    }
    return 0;
}

/* Spreads the outer loops, in nest order, over work-groups. */
static void
choose_grid(struct opt_plan *plan, const uint32_t *axes, uint32_t n_axes,
            uint32_t groups_a_thread, double cycles)
{
    double most = cycles / GROUP_CYCLES,
           cap = plan->k->target->n_threads * (double)groups_a_thread;
    int64_t left = (int64_t)(most < cap ? most : cap);
    uint32_t i;

    if (plan->k->target->n_threads <= 1)
        return;
    for (i = 0; i < n_axes && left > 1; i++) {
        int64_t n = plan->axes[axes[i]].size, factor;
        if (n <= left + left / 2) {
            if (opt_retype(plan, axes[i], UOP_AXIS_GLOBAL))
                left /= n;
            continue;
        }
        factor = near_divisor(n, left);
        if (!factor)
            factor = left;
        (void)opt_split(plan, axes[i], factor, UOP_AXIS_GLOBAL,
                        opt_side_of_groups(plan, axes[i]), NULL, NULL);
        return;
    }
}

/* ---- order ---- */

/* An access, seen from the loops that are to be ordered. */
struct stream {
    uint64_t loops;    /* those that it moves with, by number */
    int32_t line_loop; /* along which it goes through a cache line, or -1 */
    double line_step;  /* by what part of a line an iteration moves it */
    double bytes;      /* touched inside all loops, as whole lines */
};

struct loop_order {
    const struct opt_plan *plan;
    uint32_t axes[MAX_ORDERED]; /* loops, in their natural order */
    uint32_t ranges[MAX_ORDERED];
    uint32_t n;
    struct stream *streams;
    uint32_t n_streams;
    double cache_bytes;
};

static void
add_stream(struct loop_order *o, const struct uop *u)
{
    const struct kernel *k = o->plan->k;
    const struct uop *idx = u->src[1];
    uint64_t deps = kernel_deps(k, idx), set;
    struct stream *s = &o->streams[o->n_streams++];
    double run = 1, count = 1,
           bytes = uop_dtype_infos[u->src[0]->dtype].size_bytes;
    uint32_t i;

    s->loops = 0;
    s->line_loop = -1;
    for (set = deps; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        double inside = (double)k->sizes[r];
        for (i = 0; i < o->n; i++) {
            if (o->ranges[i] != r)
                continue;
            inside /= (double)o->plan->axes[o->axes[i]].size;
            s->loops |= (uint64_t)1 << i;
            if (kernel_coef(k, idx, r) == 1)
                s->line_loop = (int32_t)i;
        }
        count *= inside;
        if (kernel_coef(k, idx, r) == 1)
            run = inside;
    }
    s->line_step = run * bytes < 64 ? run * bytes / 64 : 1;
    s->bytes = count / run * (run * bytes < 64 ? 64 : run * bytes);
}

/* Bytes that come from outside the cache with the loops in the order perm[]:
 * an access is repeated by a loop that it does not move with, unless all that
 * is touched inside that loop stays in the cache. */
static double
order_traffic(const struct loop_order *o, const uint32_t *perm, double *inside,
              double *traffic)
{
    double total = 0;
    uint32_t i, j;

    for (j = 0; j < o->n_streams; j++)
        inside[j] = traffic[j] = o->streams[j].bytes;
    for (i = o->n; i-- > 0;) {
        double n = (double)o->plan->axes[o->axes[perm[i]]].size, held = 0;
        for (j = 0; j < o->n_streams; j++)
            held += inside[j];
        for (j = 0; j < o->n_streams; j++) {
            const struct stream *s = &o->streams[j];
            bool moves = s->loops >> perm[i] & 1;
            bool cached = held <= o->cache_bytes;
            double step = 1;
            if (s->line_loop == (int32_t)perm[i])
                step = s->line_step;
            if (moves)
                inside[j] *= n * step;
            if (moves && (step == 1 || !cached))
                traffic[j] *= n;
            else if (moves)
                traffic[j] *= n * step;
            else if (!cached)
                traffic[j] *= n;
        }
    }
    for (j = 0; j < o->n_streams; j++)
        total += traffic[j];
    return total;
}

/* The next permutation in lexicographic order; false after the last. */
static bool
next_order(uint32_t *perm, uint32_t n)
{
    uint32_t i, j, swap;

    for (i = n; i-- > 1 && perm[i - 1] >= perm[i];)
        ;
    if (i == 0 || n < 2)
        return false;
    for (j = n - 1; perm[j] <= perm[i - 1]; j--)
        ;
    swap = perm[j];
    perm[j] = perm[i - 1];
    perm[i - 1] = swap;
    for (j = n - 1; i < j; i++, j--) {
        swap = perm[j];
        perm[j] = perm[i];
        perm[i] = swap;
    }
    return true;
}

/* Puts the loops of o->axes in the order with the least traffic. */
static bell_status
choose_loop_order(struct loop_order *o)
{
    struct kernel *k = o->plan->k;
    uint32_t perm[MAX_ORDERED], best[MAX_ORDERED], axes[MAX_ORDERED], i;
    double *scratch, natural, least, traffic;

    o->streams = arena_alloc(&k->mem, k->n_nodes * sizeof(*o->streams));
    scratch = arena_alloc(&k->mem, 2 * k->n_nodes * sizeof(*scratch));
    if (!o->streams || !scratch)
        return bell_fail(BELL_E_NO_MEMORY,
                         "order of loops of %u nodes: out of memory",
                         k->n_nodes);
    for (i = 0; i < k->n_nodes; i++) {
        if (k->nodes[i]->op == UOP_LOAD || k->nodes[i]->op == UOP_STORE)
            add_stream(o, k->nodes[i]);
    }
    for (i = 0; i < o->n; i++)
        best[i] = perm[i] = i;
    natural = order_traffic(o, perm, scratch, scratch + k->n_nodes);
    least = natural * 0.8;
    while (next_order(perm, o->n)) {
        traffic = order_traffic(o, perm, scratch, scratch + k->n_nodes);
        if (traffic >= least)
            continue;
        least = traffic;
        for (i = 0; i < o->n; i++)
            best[i] = perm[i];
    }
    for (i = 0; i < o->n; i++)
        axes[i] = o->axes[best[i]];
    for (i = 0; i < o->n; i++) {
        o->axes[i] = axes[i];
        if (best[i] != i)
            LOG(LOG_OPT, "range %u: loop number %u, %.3g bytes for %.3g",
                o->ranges[best[i]], i, least, natural);
    }
    return BELL_OK;
}

/* Where nothing is summed: the loop whose steps lie far apart in an access that
 * goes along its lines by a loop further outside, and into how many parts it is
 * to be cut: what comes with a line (its neighbour, its page) is there still
 * when the outer loop asks for it. observed: 4096 x 4096 floats turned on an
 * AMD EPYC (Zen 4), all at once 20 ms, in parts of 512 rows 8. */
static uint32_t
find_far(const struct loop_order *o, int64_t *out_parts)
{
    const struct kernel *k = o->plan->k;
    uint32_t i, j;

    for (i = 0; i < k->n_nodes && !k->n_groups; i++) {
        const struct uop *u = k->nodes[i];
        bool is_near = false;
        if (u->op != UOP_LOAD && u->op != UOP_STORE)
            continue;
        for (j = 0; j < o->n; j++) {
            const struct opt_axis *a = &o->plan->axes[o->axes[j]];
            int64_t step = kernel_coef(k, u->src[1], a->range);
            int64_t n = k->sizes[a->range];
            uint32_t bytes = uop_dtype_infos[u->src[0]->dtype].size_bytes;
            if (is_near && step != KERNEL_NONAFFINE &&
                step >= FAR_BYTES / bytes && n >= 2 * MAX_FAR) {
                *out_parts = near_divisor(a->size, n / MAX_FAR);
                return *out_parts > 1 ? j : UINT32_MAX;
            }
            is_near |= step == 1;
        }
    }
    return UINT32_MAX;
}

bell_status
opt_choose_loops(struct opt_plan *plan, const struct opt_model *m,
                 const struct opt_choice *choice, const uint32_t *loops,
                 double cycles)
{
    const struct kernel *k = plan->k;
    uint64_t common = common_ranges(m, choice->lanes, cycles), set;
    struct loop_order o = {.plan = plan,
                           .cache_bytes = k->target->l2_bytes / 2.0};
    uint32_t i, far;
    int64_t parts = 0;

    for (set = common; set && o.n < MAX_ORDERED; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        if (plan->axes[loops[r]].outer >= 0 ||
            plan->axes[loops[r]].type != UOP_AXIS_LOOP ||
            plan->axes[loops[r]].size <= 1)
            continue;
        o.ranges[o.n] = r;
        o.axes[o.n++] = loops[r];
    }
    if (set)
        return BELL_OK; /* more loops than are worth ordering */
    BELL_TRY(choose_loop_order(&o));
    for (i = 0; i < o.n; i++)
        plan->axes[o.axes[i]].rank = (int32_t)i - MAX_ORDERED;
    far = find_far(&o, &parts);
    if (far != UINT32_MAX &&
        opt_split(plan, o.axes[far], parts, UOP_AXIS_GLOBAL, OPT_OUTER, NULL,
                  NULL)) {
        for (i = far; i + 1 < o.n; i++)
            o.axes[i] = o.axes[i + 1];
        o.n--;
    }
    choose_grid(plan, o.axes, o.n,
                choice->digits ? DIGITS_GROUPS : GROUPS_A_THREAD, cycles);
    return BELL_OK;
}
