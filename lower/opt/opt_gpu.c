/* The rules for GPUs: what is parallel, and kernels with a thread for each
 * output.
 *
 * There the rows are folded into one axis, memory order fastest, which is cut
 * into vectors (of one access), threads (so that neighbours access
 * neighbours) and work-groups. Columns stay loops of every thread.
 */
#include "lower/opt/opt_gpu.h"

#include <assert.h>
#include <math.h>

#include "base/bits.h"
#include "base/log.h"

#define THREADS        256 /* of a work-group */
#define FEWEST_THREADS 64
#define MIN_ACROSS     4    /* values of a range that are read side by side */
#define SECTOR_BYTES   32   /* what memory hands out at least */
#define MAX_REPEATED   64.0 /* nodes of a reduction that any thread may do */
#define FUNCTION_NODES 12.0 /* that a transcendental function becomes */

/* ---- what is parallel ---- */

/* Does the kernel load what it stores? *out_safe: only what the same thread
 * then stores. */
static bool
loads_stored(const struct kernel *k, bool *out_safe)
{
    bool any = false;
    uint32_t i, j;

    *out_safe = true;
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        for (j = 0; u->op == UOP_LOAD && j < k->sink->n_src; j++) {
            const struct uop *store = k->sink->src[j];
            if (store->src[0] != u->src[0])
                continue;
            any = true;
            *out_safe &= store->src[1] == u->src[1];
        }
    }
    return any;
}

static uint64_t
constant_ranges(const struct kernel *k)
{
    uint64_t set = 0;
    uint32_t r;

    for (r = 0; r < k->n_ranges; r++)
        set |= (uint64_t)(k->sizes[r] > 0) << r;
    return set;
}

/* About what one value of the group's results costs, in nodes. */
static double
group_cost(const struct kernel *k, const struct kernel_group *group)
{
    double cost = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        bool function = u->op == UOP_EXP2 || u->op == UOP_LOG2 ||
                        u->op == UOP_SIN || u->op == UOP_COS ||
                        u->op == UOP_POW;
        if (k->deps[i] & group->bound)
            cost += function ? FUNCTION_NODES : 1;
    }
    return cost * kernel_count(k, group->bound);
}

/* About what one value of those that vary with the ranges costs, in nodes, less
 * the group's. */
static double
own_cost(const struct kernel *k, const struct kernel_group *group,
         uint64_t ranges)
{
    double cost = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        if (k->deps[i] & ranges && !(k->deps[i] & group->bound))
            cost += kernel_count(k, k->deps[i] & k->reduce_ranges);
    }
    return cost;
}

/* Is the group's reduction done in less time by a thread for each of its
 * results, that of all columns, or by any thread that wants it? Reductions that
 * threads share are not repeated. */
static bool
is_repeated(const struct opt_gpu *gpu, const struct kernel_group *group,
            uint64_t all)
{
    const struct kernel *k = gpu->k;
    double cost = group_cost(k, group), own, n_rows, n_all, apart, repeated;

    if (cost <= MAX_REPEATED)
        return true;
    if (kernel_count(k, group->bound) >= GPU_MIN_COLUMNS)
        return false;
    own = own_cost(k, group, all & ~group->context);
    n_rows = kernel_count(k, all & group->context);
    n_all = kernel_count(k, all);
    apart = (cost + own * n_all / n_rows) * fmax(1, n_rows / gpu->want);
    repeated = (cost + own) * fmax(1, n_all / gpu->want);
    return repeated < apart;
}

/* Finds rows and columns. False where nothing may be parallel. */
static bool
find_rows(struct opt_gpu *gpu)
{
    struct kernel *k = gpu->k;
    uint64_t all = 0, every = ~(uint64_t)0, parallel;
    bool safe = true, in_place = loads_stored(k, &safe);
    uint32_t i;

    for (i = 0; i < k->sink->n_src; i++) {
        all |= kernel_deps(k, k->sink->src[i]);
        every &= kernel_deps(k, k->sink->src[i]);
    }
    if (in_place && all != every)
        return false;
    parallel = constant_ranges(k) & ~k->reduce_ranges;
    gpu->rows = all & parallel;
    gpu->want = (double)k->target->n_units * GPU_UNIT_THREADS;
    for (i = 0; i < k->n_groups; i++) {
        const struct kernel_group *group = &k->groups[i];
        if (!(group->context & k->reduce_ranges) &&
            !is_repeated(gpu, group, all & parallel))
            gpu->rows &= group->context;
    }
    gpu->columns = all & parallel & ~gpu->rows;
    gpu->n_rows = kernel_count(k, gpu->rows);
    gpu->n_columns = kernel_count(k, gpu->columns);
    return safe && (gpu->rows || gpu->columns || k->reduce_ranges);
}

/* The STORE, done only where the ranges stand at 0. */
static const struct uop *
store_at_zero(struct kernel *k, const struct uop *store, uint64_t ranges)
{
    const struct uop *zero = uop_const_int(k->g, UOP_I64, 0), *src[4];
    uint32_t i;

    assert(store->op == UOP_STORE);
    for (i = 0; i < store->n_src; i++)
        src[i] = store->src[i];
    for (i = store->n_src; ranges; ranges &= ranges - 1) {
        const struct uop *at_zero =
            uop_alu2(k->g, UOP_CMPEQ, k->ranges[__builtin_ctzll(ranges)], zero);
        src[3] = i > 3 ? uop_alu2(k->g, UOP_AND, src[3], at_zero) : at_zero;
        i = 4;
    }
    return uop_make(k->g, UOP_STORE, UOP_VOID, 1, store->arg, src, 4);
}

/* Values that do not depend on all rows are stored once. Numbers of ranges
 * stay. */
static bell_status
gate_stores(struct opt_gpu *gpu)
{
    struct kernel *k = gpu->k;
    const struct uop **src, *sink;
    bool changed = false;
    uint32_t i;

    src = arena_alloc(&k->mem, (k->sink->n_src + 1) * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY, "rules for %u nodes: out of memory",
                         k->n_nodes);
    for (i = 0; i < k->sink->n_src; i++) {
        uint64_t missing = gpu->rows & ~kernel_deps(k, k->sink->src[i]);
        src[i] = k->sink->src[i];
        if (missing)
            src[i] = store_at_zero(k, src[i], missing);
        changed |= missing != 0;
    }
    if (!changed)
        return BELL_OK;
    sink = uop_make(k->g, UOP_SINK, UOP_VOID, 1, k->sink->arg, src,
                    k->sink->n_src);
    return kernel_set_sink(k, sink);
}

/* ---- vectors ---- */

/* Bytes of the accesses along range r in steps of one element, less those in
 * other steps. */
static double
contiguous_bytes(const struct kernel *k, uint32_t r, uint64_t around)
{
    double n = 0;
    uint32_t i;

    assert(r < k->n_ranges);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        double bytes;
        int64_t coef;
        if ((u->op != UOP_LOAD && u->op != UOP_STORE) ||
            (around && !(k->deps[i] & around)))
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

uint32_t
opt_gpu_fast_range(const struct kernel *k, uint64_t set, uint64_t around,
                   double *out_bytes)
{
    uint32_t best = 63u - (uint32_t)__builtin_clzll(set), r;
    double most = contiguous_bytes(k, best, around), bytes;

    assert(set != 0);
    for (; set; set &= set - 1) {
        r = (uint32_t)__builtin_ctzll(set);
        bytes = contiguous_bytes(k, r, around);
        if (bytes > most) {
            most = bytes;
            best = r;
        }
    }
    if (out_bytes)
        *out_bytes = most;
    return best;
}

/* Is the index a multiple of `lanes` where range r is? */
static bool
is_aligned(const struct kernel *k, const struct uop *index, uint32_t r,
           int64_t lanes)
{
    uint32_t i;

    assert(r < k->n_ranges && lanes > 0);
    for (i = 0; i < k->n_ranges; i++) {
        int64_t coef = kernel_coef(k, index, i);
        if (i != r && coef != KERNEL_NONAFFINE && coef % lanes)
            return false;
    }
    return true;
}

int64_t
opt_gpu_lanes(const struct kernel *k, uint32_t r)
{
    int64_t lanes = GPU_MAX_LANES;
    uint32_t i;

    assert(r < k->n_ranges);
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

bool
opt_gpu_fold_pieces(struct opt_plan *plan, uint64_t set, uint32_t fast,
                    int64_t n, enum uop_axis type, uint32_t *out_piece,
                    uint32_t *out_flat)
{
    uint32_t axes[KERNEL_MAX_RANGES], n_axes = 0;
    enum uop_axis old = plan->axes[fast].type;
    bool whole = plan->axes[fast].size % n == 0;

    assert((set >> fast & 1) != 0 && n > 0);
    for (set &= ~((uint64_t)1 << fast); set; set &= set - 1)
        axes[n_axes++] = (uint32_t)__builtin_ctzll(set);
    axes[n_axes++] = fast;
    if (n > 1 && whole &&
        !opt_split(plan, fast, n, type, OPT_INNER, out_piece,
                   &axes[n_axes - 1]))
        return false;
    if (!opt_fold(plan, axes, n_axes, out_flat) ||
        !opt_retype(plan, *out_flat, old))
        return false;
    return n == 1 || whole ||
           opt_split(plan, *out_flat, n, type, OPT_INNER, out_piece, out_flat);
}

bool
opt_gpu_fold(struct opt_plan *plan, uint64_t set, uint32_t fast, int64_t lanes,
             uint32_t *out_flat)
{
    return opt_gpu_fold_pieces(plan, set, fast, lanes, UOP_AXIS_VECTOR, NULL,
                               out_flat);
}

bool
opt_gpu_grid(struct opt_plan *plan, uint32_t axis)
{
    int64_t most = plan->k->target->max_grid[0];

    if (plan->axes[axis].size > most)
        return opt_split(plan, axis, most, UOP_AXIS_GLOBAL, OPT_OUTER, NULL,
                         NULL);
    return opt_retype(plan, axis, UOP_AXIS_GLOBAL);
}

int64_t
opt_gpu_threads(const struct lower_target *target, int64_t most)
{
    int64_t n = 1;

    while (n * 2 <= most && n * 2 <= (int64_t)target->max_threads)
        n *= 2;
    return n;
}

/* Threads of a work-group for n of them in all. */
static int64_t
group_threads(const struct lower_target *t, int64_t n)
{
    int64_t threads = opt_gpu_threads(t, THREADS);

    while (threads > FEWEST_THREADS && n / threads < t->n_units)
        threads /= 2;
    while (threads / 2 >= n)
        threads /= 2;
    return threads;
}

/* Cuts the axis into threads, so many as are told or else suit it, and
 * work-groups. */
static bool
spread(struct opt_plan *plan, uint32_t axis, enum lower_action_kind kind,
       int64_t lanes)
{
    int64_t threads = group_threads(plan->k->target, plan->axes[axis].size);
    int32_t told[LOWER_ACTION_ARGS];
    uint32_t tid, rest = axis;

    assert(axis < plan->n_axes);
    if (opt_told(plan->k, kind, told)) {
        threads = told[1];
        if (!opt_is_pow2(threads, 1, plan->k->target->max_threads))
            return false;
    }
    opt_made(plan->k, kind, lanes, threads, 0, 0, 0);

    if (threads > 1 && (!opt_split(plan, axis, threads, plan->axes[axis].type,
                                   OPT_INNER, &tid, &rest) ||
                        !opt_thread(plan, tid, 0)))
        return false;
    return opt_gpu_grid(plan, rest);
}

/* The range along which most LOADs that jump along `fast` lie side by side;
 * false if there is none. */
static bool
range_across(const struct opt_gpu *gpu, uint32_t fast, uint32_t *out_range)
{
    const struct kernel *k = gpu->k;
    uint64_t set;
    uint32_t i, most = 0;

    for (set = gpu->rows & ~((uint64_t)1 << fast); set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set), bytes = 0;
        for (i = 0; i < k->n_nodes; i++) {
            const struct uop *u = k->nodes[i];
            int64_t coef;
            if (u->op != UOP_LOAD)
                continue;
            coef = kernel_coef(k, u->src[1], fast);
            if (coef != 0 && coef != 1 && kernel_coef(k, u->src[1], r) == 1)
                bytes += uop_dtype_infos[u->dtype].size_bytes;
        }
        if (bytes > most && k->sizes[r] >= MIN_ACROSS) {
            most = bytes;
            *out_range = r;
        }
    }
    return most > 0;
}

/* Lanes along range r for all of a sector that a LOAD there touches; a divisor
 * of the range's size. */
static int64_t
sector_lanes(const struct opt_gpu *gpu, uint32_t r)
{
    const struct kernel *k = gpu->k;
    int64_t lanes = GPU_MAX_LANES;
    uint32_t i;

    assert(r < gpu->k->n_ranges);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        int64_t size = uop_dtype_infos[u->dtype].size_bytes;
        if (u->op == UOP_LOAD && kernel_coef(k, u->src[1], r) == 1)
            lanes = lanes * size > SECTOR_BYTES ? SECTOR_BYTES / size : lanes;
    }
    while (lanes > 1 &&
           (k->sizes[r] % lanes ||
            gpu->n_rows / (double)lanes < k->target->n_units * FEWEST_THREADS))
        lanes /= 2;
    return lanes;
}

/* Transposed reading: threads go along what is stored, and each has some
 * values across, which lie side by side where it loads. */
static bool
plan_across(struct opt_gpu *gpu)
{
    const struct kernel *k = gpu->k;
    uint32_t fast, across = 0, axes[KERNEL_MAX_RANGES], n = 0, flat, i;
    int32_t told[LOWER_ACTION_ARGS];
    int64_t lanes;
    uint64_t set;

    if (!gpu->rows || k->n_groups ||
        !opt_may_try(k, LOWER_ACROSS, OPT_FORM_ACROSS))
        return false;
    fast = opt_gpu_fast_range(k, gpu->rows, 0, NULL);
    if (!range_across(gpu, fast, &across))
        return false;
    lanes = sector_lanes(gpu, across);
    if (opt_told(k, LOWER_ACROSS, told))
        lanes = opt_is_pow2(told[0], 1, GPU_MAX_LANES) ? told[0] : 1;
    if (lanes == 1)
        return false;
    for (set = gpu->rows & ~((uint64_t)1 << fast); set; set &= set - 1)
        axes[n++] = (uint32_t)__builtin_ctzll(set);
    axes[n++] = fast;
    for (i = 0; i < n; i++) {
        if (axes[i] == across &&
            !opt_split(&gpu->plan, across, lanes, UOP_AXIS_VECTOR, OPT_INNER,
                       NULL, &axes[i]))
            return false;
    }
    LOG(LOG_OPT, "%lld values across range %u", (long long)lanes, across);
    return opt_fold(&gpu->plan, axes, n, &flat) &&
           spread(&gpu->plan, flat, LOWER_ACROSS, lanes);
}

/* One thread for each value of the rows, or for some of them along the
 * fastest. */
static bool
plan_rows(struct opt_gpu *gpu)
{
    struct kernel *k = gpu->k;
    int32_t told[LOWER_ACTION_ARGS];
    uint32_t fast, flat;
    int64_t lanes = 1;

    if (!opt_may_try(k, LOWER_ROWS, 0))
        return false;
    if (!gpu->rows)
        return true;
    fast = opt_gpu_fast_range(k, gpu->rows, 0, NULL);
    if (k->n_groups == 0)
        lanes = opt_gpu_lanes(k, fast);
    if (opt_told(k, LOWER_ROWS, told)) {
        if (!opt_is_pow2(told[0], 1, lanes))
            return false;
        lanes = told[0];
    }
    return opt_gpu_fold(&gpu->plan, gpu->rows, fast, lanes, &flat) &&
           spread(&gpu->plan, flat, LOWER_ROWS, lanes);
}

/* More work-groups than a grid can have: the largest axes become loops. */
static void
limit_grid(struct opt_plan *plan)
{
    double most = plan->k->target->max_grid[0], n;
    uint32_t i, largest;

    do {
        for (n = 1, largest = 0, i = 0; i < plan->n_axes; i++) {
            const struct opt_axis *a = &plan->axes[i];
            if (!opt_is_leaf(plan, i) || a->type != UOP_AXIS_GLOBAL)
                continue;
            n *= (double)a->size;
            if (plan->axes[largest].type != UOP_AXIS_GLOBAL ||
                !opt_is_leaf(plan, largest) ||
                a->size > plan->axes[largest].size)
                largest = i;
        }
    } while (n > most && opt_retype(plan, largest, UOP_AXIS_LOOP));
}

bell_status
opt_gpu_rules(struct kernel *k)
{
    static bool (*const rules[])(struct opt_gpu *) = {
        opt_gpu_matrix, opt_gpu_tile, opt_gpu_reduce,
        opt_gpu_turn,   plan_across,  plan_rows};
    struct opt_gpu gpu = {.k = k};
    size_t i;

    assert(kernel_is_canonical(k) && k->target->is_gpu);
    BELL_TRY(kernel_unflatten(k));
    BELL_TRY(kernel_merge(k));
    BELL_TRY(kernel_fuse(k));
    if (!find_rows(&gpu)) {
        LOG(LOG_OPT, "one thread: it reads what others would write");
        return BELL_OK;
    }
    opt_plan_init(&gpu.plan, k);
    if (k->made)
        k->made->is_in_place = !gpu.plan.may_overlap;
    BELL_TRY(gate_stores(&gpu));
    opt_made_of(k, NULL);
    for (i = 0; i < ARRAY_LEN(rules); i++) {
        opt_unmake(k);
        k->want_regs = 0;
        opt_plan_init(&gpu.plan, k);
        if (rules[i](&gpu))
            break;
    }
    if (i == ARRAY_LEN(rules) && opt_is_told(k))
        return bell_fail(BELL_E_INVALID, "no such schedule of this kernel");
    if (i == ARRAY_LEN(rules))
        return bell_fail(BELL_E_INTERNAL, "no plan for %u ranges", k->n_ranges);
    limit_grid(&gpu.plan);
    opt_log_plan(&gpu.plan);
    return opt_apply(&gpu.plan);
}
