/* The rules for GPUs: reductions that threads share.
 *
 * A row's reductions are spread over 2^n threads, neighbours along what lies
 * side by side in memory: along the reduction, so that a row has neighbouring
 * threads, or along the rows, so that neighbouring threads have neighbouring
 * rows and the threads of one row lie far apart. The columns of a row are then
 * spread over the same threads.
 */
#include "lower/opt/opt_gpu.h"

#include <assert.h>
#include <math.h>

#include "base/log.h"

#define MIN_SHARED      32   /* steps of a reduction worth sharing */
#define STEPS_A_THREAD  4    /* vectors that a thread reduces, about */
#define MAX_STEPS       8    /* the same, before a row gets more threads */
#define USUAL_TEAM      512  /* threads of a row */
#define MAX_TEAM        1024 /* of a long one */
#define THREADS         256  /* of a work-group of several rows */
#define NEIGHBOURS      32   /* rows side by side */
#define MIN_NEIGHBOURS  8    /* what memory hands out at least */
#define MIN_BUSY        0.75 /* of the processors, rather than short accesses */
#define COLUMNS_AT_ONCE 4    /* of a thread */
#define MAX_UNROLL      8    /* steps */
#define MAX_BODY        96.0 /* nodes of an unrolled body */
#define MAX_KEPT        32   /* elements of a row that a thread can keep */
#define MAX_KEPT_NODES  4096.0 /* nodes of a kernel that keeps rows */
#define MIN_LOADS       8      /* vectors under way at once, if they can be */
#define OTHER_REGS      24     /* of a thread, but what it loads and sums */
#define MAX_LOADS_BODY  512.0  /* nodes of a body unrolled for that */

/* How a row's reductions are shared. */
struct team {
    struct opt_gpu *gpu;
    uint64_t shared;   /* groups, by number: those that threads share */
    bool side_by_side; /* threads of a row are neighbours */
    int64_t threads;   /* of a row */
    int64_t rows;      /* of a work-group, or vectors of them */
    int64_t row_lanes; /* rows that one thread has */
    /* A thread has its part of the row in registers: all that it does with it
     * is unrolled, so that what several reductions and columns need is loaded
     * and computed once. */
    bool keeps;
};

/* ---- which ---- */

/* May the threads of a row share the group? Its results belong to a row, and
 * it is in no other reduction. */
static bool
can_share(const struct opt_gpu *gpu, const struct kernel_group *group)
{
    const struct kernel *k = gpu->k;
    uint64_t set;

    for (set = group->bound; set; set &= set - 1) {
        if (k->sizes[__builtin_ctzll(set)] < 1)
            return false;
    }
    return !(group->context & k->reduce_ranges) &&
           !(group->context & gpu->columns);
}

/* The longest reduction that can be shared; 0 if there is none worth it. */
static double
find_shared(struct team *team)
{
    const struct kernel *k = team->gpu->k;
    double longest = 0,
           least = team->gpu->columns ? GPU_MIN_COLUMNS : MIN_SHARED;
    uint32_t i;

    for (i = 0; i < k->n_groups && i < 64; i++) {
        double n = kernel_count(k, k->groups[i].bound);
        if (!can_share(team->gpu, &k->groups[i]) || n < least)
            continue;
        team->shared |= (uint64_t)1 << i;
        longest = n > longest ? n : longest;
    }
    return longest;
}

static uint64_t
shared_ranges(const struct team *team)
{
    uint64_t groups, set = 0;

    for (groups = team->shared; groups; groups &= groups - 1)
        set |= team->gpu->k->groups[__builtin_ctzll(groups)].bound;
    return set;
}

/* ---- how many ---- */

/* Bytes of LOCAL memory for each thread of a work-group. */
static double
bytes_a_thread(const struct team *team)
{
    const struct kernel *k = team->gpu->k;
    double bytes = 16;
    uint64_t groups;
    uint32_t i;

    for (groups = team->shared; groups; groups &= groups - 1) {
        const struct kernel_group *group = &k->groups[__builtin_ctzll(groups)];
        for (i = 0; i < group->n_members; i++)
            bytes += (double)team->row_lanes *
                     uop_dtype_infos[group->members[i]->dtype].size_bytes;
    }
    return bytes;
}

static int64_t
largest_group(const struct team *team)
{
    double most = team->gpu->k->target->max_shared_bytes / bytes_a_thread(team);
    int64_t n = most < MAX_TEAM ? (int64_t)most : MAX_TEAM;

    return opt_gpu_threads(team->gpu->k->target, n);
}

/* Nodes that are computed for each element of a row. */
static double
row_nodes(const struct team *team)
{
    const struct kernel *k = team->gpu->k;
    uint64_t ranges = shared_ranges(team) | team->gpu->columns;
    double n = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++)
        n += (k->deps[i] & ranges) != 0;
    return n;
}

/* Can each of so many threads keep its part of a row, of so many vectors, and
 * does somebody want it a second time? */
static bool
can_keep(const struct team *team, double vectors, int64_t lanes,
         int64_t threads)
{
    double elements = ceil(vectors / (double)threads) * (double)lanes;

    if (!team->gpu->columns && !(team->shared & (team->shared - 1)))
        return false;
    return elements <= MAX_KEPT && elements * row_nodes(team) <= MAX_KEPT_NODES;
}

/* LOADs that a step of a shared reduction has under way, but those of what all
 * rows load; 1 at least. A thread with two keeps memory as busy as two threads
 * with one. */
static double
step_loads(const struct team *team)
{
    const struct kernel *k = team->gpu->k;
    uint64_t groups, rows = team->gpu->rows;
    double most = 1, n;
    uint32_t i;

    for (groups = team->shared; groups; groups &= groups - 1) {
        uint64_t bound = k->groups[__builtin_ctzll(groups)].bound;
        for (n = 0, i = 0; i < k->n_nodes; i++)
            n += k->nodes[i]->op == UOP_LOAD && k->deps[i] & bound &&
                 (!rows || k->deps[i] & rows);
        most = n > most ? n : most;
    }
    return most;
}

/* A row for neighbouring threads. */
static void
size_by_steps(struct team *team, double longest, int64_t lanes)
{
    const struct opt_gpu *gpu = team->gpu;
    int64_t most = largest_group(team), least, usual = most;
    double vectors = longest / (double)lanes;
    double at_once = gpu->n_rows * step_loads(team);

    if (gpu->n_columns > longest)
        vectors = gpu->n_columns / (double)lanes;
    usual = most < USUAL_TEAM ? most : USUAL_TEAM;
    team->threads = opt_gpu_pow2(vectors / STEPS_A_THREAD, usual);
    while (team->threads < most &&
           vectors / (double)team->threads > MAX_STEPS &&
           can_keep(team, vectors, lanes, most))
        team->threads *= 2;
    least = opt_gpu_pow2(vectors, team->gpu->k->target->warp_lanes);
    team->threads = team->threads < least ? least : team->threads;
    while (team->threads < most && (double)team->threads < vectors &&
           at_once * (double)team->threads < gpu->want)
        team->threads *= 2;
    team->threads = team->threads > most ? most : team->threads;
    team->keeps = can_keep(team, vectors, lanes, team->threads);
    most = most < THREADS ? most : THREADS;
    team->rows = opt_gpu_pow2(gpu->n_rows, THREADS);
    if (team->rows * team->threads > most)
        team->rows = most / team->threads;
    while (team->rows > 1 &&
           gpu->n_rows / (double)team->rows < 2 * gpu->k->target->n_units)
        team->rows /= 2;
    team->rows = team->rows < 1 ? 1 : team->rows;
}

/* Neighbouring rows for neighbouring threads. */
static void
size_by_rows(struct team *team, double longest)
{
    const struct opt_gpu *gpu = team->gpu;
    uint32_t fast = opt_gpu_fast_range(gpu->k, gpu->rows, 0, NULL);
    int64_t most;
    double rows;

    team->row_lanes = opt_gpu_lanes(gpu->k, fast);
    while (team->row_lanes > 1 &&
           gpu->n_rows / (double)(team->row_lanes * MIN_NEIGHBOURS) <
               MIN_BUSY * gpu->k->target->n_units)
        team->row_lanes /= 2;
    most = largest_group(team);
    rows = gpu->n_rows / (double)team->row_lanes;
    team->rows = opt_gpu_pow2(rows, NEIGHBOURS);
    while (team->rows > MIN_NEIGHBOURS &&
           rows / (double)team->rows < MIN_BUSY * gpu->k->target->n_units)
        team->rows /= 2;
    if (team->rows > most)
        team->rows = most;
    team->threads = opt_gpu_pow2(gpu->want / rows, most / team->rows);
    while (team->threads > 1 &&
           longest / (double)team->threads < 2 * STEPS_A_THREAD)
        team->threads /= 2;
}

/* ---- plan ---- */

/* Nodes that are copied when the group is unrolled. */
static double
body_nodes(const struct kernel *k, const struct kernel_group *group)
{
    double n = 1;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++)
        n += (k->deps[i] & group->bound) != 0;
    return n;
}

/* LOADs of the group's body. */
static double
reduce_body_loads(const struct kernel *k, const struct kernel_group *group)
{
    double n = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++)
        n += k->nodes[i]->op == UOP_LOAD && k->deps[i] & group->bound;
    return n;
}

/* Registers for vectors that are loaded at once, sums of their products, and
 * what else a thread needs. */
static void
want_regs(const struct team *team, const struct kernel_group *group,
          int64_t lanes, int64_t steps)
{
    struct kernel *k = team->gpu->k;
    uint32_t i, words = 0, n;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op == UOP_LOAD && k->deps[i] & group->bound)
            words += (uint32_t)lanes * uop_dtype_infos[u->dtype].size_bytes / 4;
    }
    n = words * (uint32_t)steps + (uint32_t)lanes + OTHER_REGS;
    k->want_regs = n > k->want_regs ? n : k->want_regs;
}

/* Cuts what is left of a reduction into a loop of unrolled steps. */
static bool
unroll(struct opt_plan *plan, uint32_t axis, double nodes, double loads,
       int64_t *out_steps)
{
    int64_t n = plan->axes[axis].size, by = 1;

    assert(axis < plan->n_axes);
    while (by < MAX_UNROLL && by < n &&
           nodes * 2 * (double)by <=
               ((double)by * loads < MIN_LOADS ? MAX_LOADS_BODY : MAX_BODY))
        by *= 2;
    *out_steps = n < by ? n : by;
    if (by == 1)
        return true;
    if (n <= by)
        return opt_retype(plan, axis, UOP_AXIS_UNROLL);
    return opt_split(plan, axis, by, UOP_AXIS_UNROLL, OPT_INNER, NULL, NULL);
}

/* Spreads a group over the threads of a row, whose number counts with the
 * bits from `shift` on. */
static bool
plan_group(struct team *team, const struct kernel_group *group, uint32_t shift)
{
    struct opt_plan *plan = &team->gpu->plan;
    const struct kernel *k = plan->k;
    uint32_t fast = opt_gpu_fast_range(k, group->bound, group->bound, NULL);
    int64_t lanes = team->side_by_side ? opt_gpu_lanes(k, fast) : 1;
    uint64_t set = group->bound;
    uint32_t flat, tid, rest;
    int64_t steps;

    while (lanes > 1 && k->sizes[fast] / lanes < 2)
        lanes /= 2;
    if (k->sizes[fast] / lanes >= team->threads)
        set = (uint64_t)1 << fast; /* the others stay loops */
    if (!opt_gpu_fold(plan, set, fast, lanes, &flat))
        return false;
    rest = flat;
    if (team->threads > 1 &&
        (!opt_split(plan, flat, team->threads, UOP_AXIS_REDUCE, OPT_INNER, &tid,
                    &rest) ||
         !opt_thread(plan, tid, shift)))
        return false;
    if (team->keeps)
        return opt_retype(plan, rest, UOP_AXIS_UNROLL);
    if (!unroll(plan, rest,
                body_nodes(k, group) * (double)(lanes * team->row_lanes),
                reduce_body_loads(k, group), &steps))
        return false;
    if (team->side_by_side && reduce_body_loads(k, group) > 1)
        want_regs(team, group, lanes, steps);
    return true;
}

/* Are the STOREs and REDUCEs that depend on range a those that depend on b? */
static bool
same_users(const struct kernel *k, uint32_t a, uint32_t b)
{
    uint32_t i;

    assert(a < k->n_ranges && b < k->n_ranges);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if ((u->op == UOP_STORE || u->op == UOP_REDUCE) &&
            (k->deps[i] >> a & 1) != (k->deps[i] >> b & 1))
            return false;
    }
    return true;
}

/* Does some value vary with ranges of both sets? */
static bool
meet(const struct kernel *k, uint64_t a, uint64_t b)
{
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        if (k->deps[i] & a && k->deps[i] & b)
            return true;
    }
    return false;
}

/* Spreads columns over the threads of a row, and, where there are too few
 * rows, over work-groups that all reduce the row. */
static bool
plan_columns(struct team *team, uint64_t set, uint32_t shift)
{
    struct opt_gpu *gpu = team->gpu;
    struct opt_plan *plan = &gpu->plan;
    const struct kernel *k = gpu->k;
    uint32_t fast = opt_gpu_fast_range(k, set, 0, NULL), flat, tid;
    int64_t lanes = team->side_by_side ? opt_gpu_lanes(k, fast) : 1, groups;
    double longest = kernel_count(k, shared_ranges(team));

    if (!opt_gpu_fold(plan, set, fast, lanes, &flat))
        return false;
    if (team->threads > 1 &&
        (!opt_split(plan, flat, team->threads, UOP_AXIS_LOOP, OPT_INNER, &tid,
                    &flat) ||
         !opt_thread(plan, tid, shift)))
        return false;
    if (team->keeps)
        return opt_retype(plan, flat, UOP_AXIS_UPCAST);
    groups = opt_gpu_pow2(
        2 * k->target->n_units * (double)team->rows / gpu->n_rows, 1024);
    while (groups > 1 && kernel_count(k, set) / (double)groups < longest)
        groups /= 2;
    if (groups > 1 && plan->axes[flat].size > groups &&
        !opt_split(plan, flat, groups, UOP_AXIS_GLOBAL, OPT_OUTER, NULL, &flat))
        return false;
    groups = plan->axes[flat].size;
    if (groups < 2 * COLUMNS_AT_ONCE || groups % COLUMNS_AT_ONCE)
        return true;
    return opt_split(plan, flat, COLUMNS_AT_ONCE, UOP_AXIS_UPCAST, OPT_INNER,
                     NULL, NULL);
}

/* Columns with the same users go together; those that meet others in a value
 * stay loops. */
static bool
plan_all_columns(struct team *team, uint32_t shift)
{
    const struct kernel *k = team->gpu->k;
    uint64_t left = team->gpu->columns, spread = 0, set, rest;

    while (left) {
        uint32_t first = 63u - (uint32_t)__builtin_clzll(left), r;
        for (set = 0, rest = left; rest; rest &= rest - 1) {
            r = (uint32_t)__builtin_ctzll(rest);
            if (same_users(k, first, r))
                set |= (uint64_t)1 << r;
        }
        left &= ~set;
        if (meet(k, set, spread))
            continue;
        spread |= set;
        if (!plan_columns(team, set, shift))
            return false;
    }
    return true;
}

static bool
plan_team(struct team *team)
{
    struct opt_gpu *gpu = team->gpu;
    struct opt_plan *plan = &gpu->plan;
    uint32_t row_shift, team_shift, flat, tid, fast;
    uint64_t groups;

    team_shift =
        team->side_by_side
            ? 0
            : (uint32_t)__builtin_ctzll((unsigned long long)team->rows);
    row_shift =
        team->side_by_side
            ? (uint32_t)__builtin_ctzll((unsigned long long)team->threads)
            : 0;
    for (groups = team->shared; groups; groups &= groups - 1) {
        if (!plan_group(team, &gpu->k->groups[__builtin_ctzll(groups)],
                        team_shift))
            return false;
    }
    if (!plan_all_columns(team, team_shift))
        return false;
    if (!gpu->rows)
        return true;
    fast = opt_gpu_fast_range(gpu->k, gpu->rows, 0, NULL);
    if (!opt_gpu_fold(plan, gpu->rows, fast, team->row_lanes, &flat))
        return false;
    if (team->rows > 1 &&
        (!opt_split(plan, flat, team->rows, plan->axes[flat].type, OPT_INNER,
                    &tid, &flat) ||
         !opt_thread(plan, tid, row_shift)))
        return false;
    return opt_gpu_grid(plan, flat);
}

/* Takes the numbers that are told; false where they cannot be. */
static bool
take_numbers(struct team *team, double longest, const int32_t *n)
{
    struct opt_gpu *gpu = team->gpu;
    int64_t most, lanes = 1;
    double vectors;
    uint64_t ranges = shared_ranges(team);

    if (team->side_by_side)
        lanes = opt_gpu_lanes(gpu->k,
                              opt_gpu_fast_range(gpu->k, ranges, ranges, NULL));
    else if (!opt_is_pow2(n[2], 1, team->row_lanes))
        return false;
    else
        team->row_lanes = n[2];
    most = largest_group(team);
    vectors =
        (gpu->n_columns > longest ? gpu->n_columns : longest) / (double)lanes;
    team->threads = n[0];
    team->rows = n[1];
    team->keeps = n[3] == 1;
    return opt_is_pow2(n[0], 2, most) && opt_is_pow2(n[1], 1, most / n[0]) &&
           (!team->keeps || (team->side_by_side &&
                             can_keep(team, vectors, lanes, team->threads)));
}

bool
opt_gpu_reduce(struct opt_gpu *gpu)
{
    struct team team = {.gpu = gpu, .row_lanes = 1};
    double longest = find_shared(&team), along, across = 0;
    uint64_t ranges = shared_ranges(&team);
    int32_t told[LOWER_ACTION_ARGS];
    uint32_t fast;

    if (!team.shared || !opt_may_try(gpu->k, LOWER_TEAM, OPT_FORM_TEAM))
        return false;
    fast = opt_gpu_fast_range(gpu->k, ranges, ranges, &along);
    if (gpu->rows)
        (void)opt_gpu_fast_range(gpu->k, gpu->rows, ranges, &across);
    team.side_by_side = !gpu->rows || along >= across;
    if (team.side_by_side)
        size_by_steps(&team, longest, opt_gpu_lanes(gpu->k, fast));
    else
        size_by_rows(&team, longest);
    if (opt_told(gpu->k, LOWER_TEAM, told) &&
        !take_numbers(&team, longest, told))
        return false;
    if (team.threads == 1)
        return false;
    opt_made(gpu->k, LOWER_TEAM, team.threads, team.rows, team.row_lanes,
             team.keeps, 0);
    LOG(LOG_OPT, "%lld threads a row, %lld rows a group, %s%s",
        (long long)team.threads, (long long)team.rows,
        team.side_by_side ? "side by side" : "rows side by side",
        team.keeps ? ", kept" : "");
    return plan_team(&team);
}
