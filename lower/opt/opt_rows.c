/* Sums over the rows of a matrix on a CPU: of each column, or of rows that are
 * multiplied by something, as a vector by a matrix does.
 *
 * Sums in registers are those of few columns: a short piece of each row, a long
 * way from that of the next, which no processor fetches ahead. With the sums of
 * all columns of a work-group in the first cache, whole rows are read as they
 * lie, some at a time for each load and store of a sum.
 */
#include "lower/opt/opt_rules.h"

#include <assert.h>

#include "base/log.h"

#define VECTORS     2  /* at a time. Zen 4: 1 to 4 are the same */
#define MAX_VECTORS 4  /* of who tells; more are sums in registers */
#define ROWS        8  /* at a time. Zen 4: 4 are a tenth slower, 16 the same */
#define MIN_ROWS    32 /* of the matrix */
#define MIN_TILES   8  /* of a work-group */
#define MAX_SHORT   16 /* vectors of a row whose sums are in registers */

/* Is it a LOAD of a matrix larger than the caches of one core, each element of
 * which is read once: columns by range `column`, rows by range `row`? */
static bool
is_matrix(const struct kernel *k, const struct uop *u, uint32_t column,
          uint32_t row)
{
    const struct kernel_group *group = &k->groups[0];
    uint64_t all = (group->context & ~k->reduce_ranges) | group->bound;
    double size_bytes = uop_dtype_infos[u->dtype].size_bytes;
    int64_t step;

    if (u->op != UOP_LOAD || (kernel_deps(k, u) & all) != all)
        return false;
    step = kernel_coef(k, u->src[1], row);
    return kernel_coef(k, u->src[1], column) == 1 && step >= k->sizes[column] &&
           kernel_count(k, all) * size_bytes > k->target->l2_bytes;
}

int
opt_find_rows(const struct kernel *k, const struct opt_choice *choice)
{
    const struct kernel_group *group = &k->groups[0];
    uint64_t set;
    uint32_t column, row, i;

    if (k->n_groups != 1 || group->n_members != 1 ||
        (group->bound & (group->bound - 1)) || !k->target->max_packed_bytes)
        return -1;
    row = (uint32_t)__builtin_ctzll(group->bound);
    if (k->sizes[row] < MIN_ROWS || choice->lanes[row] > 1 ||
        choice->copies[row] > 1)
        return -1;
    for (set = group->context & ~k->reduce_ranges; set; set &= set - 1) {
        column = (uint32_t)__builtin_ctzll(set);
        if (choice->lanes[column] == 1 ||
            k->sizes[column] <= MAX_SHORT * choice->lanes[column])
            continue;
        for (i = 0; i < k->n_nodes; i++) {
            if (is_matrix(k, k->nodes[i], column, row))
                return (int)column;
        }
    }
    return -1;
}

void
opt_tile_rows(const struct kernel *k, uint32_t column,
              struct opt_choice *choice)
{
    uint32_t row = (uint32_t)__builtin_ctzll(k->groups[0].bound);
    int64_t n = ROWS;

    assert(column < k->n_ranges);
    while (k->sizes[row] % n)
        n--;
    choice->unroll[row] = n;
    choice->copies[column] =
        choice->overlap ||
                k->sizes[column] % (VECTORS * choice->lanes[column]) == 0
            ? VECTORS
            : 1;
}

/* Bytes of a tile's sums. */
static double
tile_bytes(const struct kernel *k, const struct opt_choice *choice,
           uint32_t column)
{
    return (double)(choice->lanes[column] * choice->copies[column]) *
           uop_dtype_infos[k->groups[0].members[0]->dtype].size_bytes;
}

bool
opt_choose_rows(struct opt_plan *plan, const struct opt_choice *choice,
                const uint32_t *loops)
{
    const struct kernel *k = plan->k;
    int column = opt_find_rows(k, choice);
    uint32_t axis, r;
    uint64_t others;
    int64_t n, most, size, n_threads = k->target->n_threads;

    if (column < 0 || choice->copies[column] > MAX_VECTORS)
        return false;
    axis = loops[column];
    others = k->groups[0].context & ~k->reduce_ranges;
    others &= ~((uint64_t)1 << column);
    for (r = 0; r < k->n_ranges && n_threads > 1; r++) {
        if (others >> r & 1 && opt_is_leaf(plan, loops[r]) &&
            plan->axes[loops[r]].size > 0 &&
            opt_retype(plan, loops[r], UOP_AXIS_GLOBAL))
            n_threads = (n_threads + plan->axes[loops[r]].size - 1) /
                        plan->axes[loops[r]].size;
    }
    size = plan->axes[axis].size;
    most = size / MIN_TILES; /* work-groups: narrow ones read short pieces */
    n = n_threads < most ? n_threads : most;
    most = (int64_t)(k->target->l1_bytes / 2.0 /
                     tile_bytes(k, choice, (uint32_t)column));
    most = most > 1 ? most : 1;
    if (n * most < size)
        n = (size + most - 1) / most;
    for (most = 2 * n; n > 1 && n <= most; n++) {
        if (opt_split(plan, axis, n, UOP_AXIS_GLOBAL, OPT_OUTER, NULL, NULL))
            break;
    }
    return true;
}

void
opt_mark_rows(struct opt_plan *plan, const struct opt_choice *choice)
{
    struct kernel *k = plan->k;
    int column = opt_find_rows(k, choice);
    double bytes, n = 1;
    uint32_t i, row, n_loops = 0;

    if (column < 0 || choice->copies[column] > MAX_VECTORS)
        return;
    row = (uint32_t)__builtin_ctzll(k->groups[0].bound);
    if (k->sizes[row] <= choice->unroll[row])
        return; /* all rows at once: sums are in registers */
    for (i = 0; i < plan->n_axes; i++) {
        const struct opt_axis *a = &plan->axes[i];
        if (a->range != (uint32_t)column || !opt_is_leaf(plan, i) ||
            a->type != UOP_AXIS_LOOP || a->size == 1)
            continue;
        n *= (double)a->size;
        n_loops++;
    }
    bytes = n * tile_bytes(k, choice, (uint32_t)column);
    if (n_loops != 1 || bytes > k->target->max_packed_bytes)
        return;
    for (i = 0; i < plan->n_axes; i++) {
        struct opt_axis *a = &plan->axes[i];
        a->packed = a->range == (uint32_t)column && opt_is_leaf(plan, i) &&
                    a->type == UOP_AXIS_LOOP;
    }
    k->by_rows = true;
    LOG(LOG_OPT, "whole rows: sums of range %d in memory, %.0f bytes", column,
        bytes);
}
