/* The rules for GPUs: copies that turn what they load.
 *
 * Values that lie side by side where a kernel loads are far apart where it
 * stores. A thread has a block: some values across by as many that are stored
 * side by side. So it loads and stores 16 bytes at a time where sizes allow,
 * and exchanges them in registers (lower/expand/expand.c). Where sizes are odd
 * it loads all values of a few across one by one: the first access brings the
 * sector that the others are in.
 */
#include "lower/opt/opt_gpu.h"

#include "base/bits.h"
#include "base/log.h"

#define MAX_VALUES     9   /* across, of a thread */
#define WIDE_BYTES     16  /* of an access */
#define NEAR_BYTES     128 /* that neighbours store side by side */
#define BESIDE_BYTES   64  /* that neighbours load side by side */
#define THREADS        256 /* of a work-group */
#define UNIT_THREADS   256 /* that keep a processor's memory busy, with blocks */
#define FEWEST_THREADS 64  /* of a processor, at least */
#define MAX_NODES      48  /* of what is done with each value of a block */

struct turn {
    struct opt_gpu *gpu;
    uint32_t fast, across; /* ranges */
    int64_t size;          /* bytes of the widest element */
    int64_t lanes, values; /* of a thread's block, along them */
};

/* Does it lie along `across` where the LOAD reads it, whole parts of the kernel
 * apart along `fast`? */
static bool
is_turn_across(const struct kernel *k, const struct uop *load, uint32_t fast,
               uint32_t across)
{
    int64_t coef = kernel_coef(k, load->src[1], fast);

    return coef != 0 && coef != 1 && coef != KERNEL_NONAFFINE &&
           load->n_src == 2 && kernel_coef(k, load->src[1], across) == 1;
}

/* Do all LOADs that jump along `fast` lie along `across`, and do all STOREs
 * along `fast`? */
static bool
turns(struct turn *t)
{
    const struct kernel *k = t->gpu->k;
    uint32_t i, n = 0;

    t->size = 1;
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        int64_t coef, size;
        if (u->op != UOP_LOAD && u->op != UOP_STORE)
            continue;
        size = uop_dtype_infos[u->src[0]->dtype].size_bytes;
        t->size = size > t->size ? size : t->size;
        coef = kernel_coef(k, u->src[1], t->fast);
        if (u->op == UOP_LOAD && is_turn_across(k, u, t->fast, t->across))
            n++;
        else if (coef != 1 && (u->op == UOP_STORE || coef != 0))
            return false;
    }
    return n > 0;
}

static bool
find_across(struct turn *t)
{
    uint64_t set = t->gpu->rows & ~((uint64_t)1 << t->fast);

    for (; set; set &= set - 1) {
        t->across = (uint32_t)__builtin_ctzll(set);
        if (turns(t))
            return true;
    }
    return false;
}

/* The greatest power of two up to `most` that divides n. */
static int64_t
turn_part_of(int64_t n, int64_t most)
{
    while (most > 1 && n % most)
        most /= 2;
    return most;
}

/* Values across: 16 bytes of them or a part, else an odd number. */
static int64_t
choose_values(const struct turn *t)
{
    int64_t size = t->gpu->k->sizes[t->across], n;

    n = turn_part_of(size, WIDE_BYTES / t->size);
    if (n * t->size >= WIDE_BYTES / 2)
        return n;
    for (n = MAX_VALUES; n > 2 && size % n; n -= 2)
        ;
    return n > 2 ? n : turn_part_of(size, WIDE_BYTES / t->size);
}

/* A block of a size that leaves threads for all processors. */
static bool
choose_block(struct turn *t)
{
    const struct kernel *k = t->gpu->k;
    double units = k->target->n_units;
    int32_t told[LOWER_ACTION_ARGS];

    if (opt_told(k, LOWER_TURN, told)) {
        t->lanes = told[0];
        t->values = told[1];
        return opt_is_pow2(t->lanes, 2, GPU_MAX_LANES) && t->values > 1 &&
               t->values <= WIDE_BYTES && k->sizes[t->fast] % t->lanes == 0 &&
               k->sizes[t->across] % t->values == 0;
    }
    t->lanes =
        turn_part_of(k->sizes[t->fast], WIDE_BYTES / t->size < GPU_MAX_LANES
                                            ? WIDE_BYTES / t->size
                                            : GPU_MAX_LANES);
    t->values = choose_values(t);
    while (t->lanes > 2 && t->gpu->n_rows / (double)(t->lanes * t->values) <
                               units * UNIT_THREADS)
        t->lanes /= 2;
    return t->lanes > 1 && t->values > 1 &&
           t->gpu->n_rows / (double)(t->lanes * t->values) >=
               units * FEWEST_THREADS;
}

/* Cuts n values off the inside of *axis, which threads count from bit *shift
 * on. */
static bool
cut_turn_threads(struct opt_plan *plan, uint32_t *axis, int64_t n,
                 uint32_t *shift)
{
    uint32_t tid, at = *shift;

    *shift += log2_floor((uint64_t)n);
    return n == 1 || (opt_split(plan, *axis, n, plan->axes[*axis].type,
                                OPT_INNER, &tid, axis) &&
                      opt_thread(plan, tid, at));
}

bool
opt_gpu_turn(struct opt_gpu *gpu)
{
    struct turn t = {.gpu = gpu};
    struct opt_plan *plan = &gpu->plan;
    const struct kernel *k = gpu->k;
    uint32_t axes[KERNEL_MAX_RANGES], n = 0, shift = 0, flat;
    uint64_t set;

    if (!gpu->rows || k->n_groups || k->n_nodes > MAX_NODES ||
        !opt_may_try(k, LOWER_TURN, OPT_FORM_TURN))
        return false;
    t.fast = opt_gpu_fast_range(k, gpu->rows, 0, NULL);
    if (!find_across(&t) || !choose_block(&t))
        return false;
    opt_made(k, LOWER_TURN, t.lanes, t.values, 0, 0, 0);
    LOG(LOG_OPT, "blocks of %lld along range %u by %lld along range %u",
        (long long)t.lanes, t.fast, (long long)t.values, t.across);
    set = gpu->rows & ~((uint64_t)1 << t.fast | (uint64_t)1 << t.across);
    for (; set; set &= set - 1)
        axes[n++] = (uint32_t)__builtin_ctzll(set);
    axes[n] = t.fast;
    axes[n + 1] = t.across;
    return opt_split(plan, t.fast, t.lanes, UOP_AXIS_VECTOR, OPT_INNER, NULL,
                     &axes[n]) &&
           opt_split(plan, t.across, t.values, UOP_AXIS_UPCAST, OPT_INNER, NULL,
                     &axes[n + 1]) &&
           cut_turn_threads(plan, &axes[n],
                            turn_part_of(plan->axes[axes[n]].size,
                                         NEAR_BYTES / (t.lanes * t.size)),
                            &shift) &&
           cut_turn_threads(plan, &axes[n + 1],
                            turn_part_of(plan->axes[axes[n + 1]].size,
                                         BESIDE_BYTES / WIDE_BYTES),
                            &shift) &&
           opt_fold(plan, axes, n + 2, &flat) &&
           cut_turn_threads(plan, &flat, THREADS >> shift, &shift) &&
           opt_gpu_grid(plan, flat);
}
