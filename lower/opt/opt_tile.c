/* Copies in registers.
 *
 * For each reduction loop nest, every combination of a few factors on a few
 * ranges is priced: instructions of the body over the results it makes, with
 * the latency of an accumulator, the registers there are, and what is
 * computed twice at the edges.
 */
#include "lower/opt/opt_rules.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"

#define MAX_DIMS         4
#define LATENCY          4.0  /* cycles of one accumulation */
#define GATHER           2.0  /* price of each lane of a gather */
#define FAR_LOAD         2.0  /* price of a load past the first cache */
#define PEELED           1.05 /* for the code of a second loop */
#define LOOP_OVERHEAD    1.0  /* of one iteration */
#define MEMORY_OVERLAP   0.3  /* of the smaller of loads and arithmetic */
#define SCALAR_LOAD      0.5 /* price of a load that is one operand of another */
#define COPY_PENALTY     0.02   /* for every doubling of the copies */
#define CODE_PENALTY     0.001  /* for every instruction */
#define MAX_FULL_UNROLL  16     /* steps */
#define MAX_UNROLLED     160.0  /* instructions */
#define MAX_STORE_LOOP   40.0   /* instructions of a store loop's copies */
#define MAX_PARALLEL     8      /* accumulators of one result */
#define MIN_VECTORS      4      /* of a range, that it gets some */
#define MIN_STREAM_BYTES 1000.0 /* of a row */

/* A range that may be copied, and how often. */
struct dim {
    uint32_t range;
    bool bound; /* a reduction range: accumulators of their own */
    int64_t n;  /* values, or vectors */
    int64_t copies;
};

/* A LOAD of the body. */
struct tile_load {
    uint32_t mask; /* dims that it varies with, as bits */
    double cost;
    double run_bytes; /* read by one copy in one run of the loop */
    bool shared;      /* another tile reads the same */
};

struct tile {
    const struct opt_model *m;
    const struct opt_choice *choice;
    const struct kernel_group *group;
    struct dim dims[MAX_DIMS];
    uint32_t n_dims;
    bool *in_body; /* by place */
    /* What is in the loop and, for the code, around it: sums by the dims that
     * a node varies with. */
    double arithmetic[1u << MAX_DIMS], code[1u << MAX_DIMS];
    uint32_t n_accs[1u << MAX_DIMS];
    struct tile_load *loads;
    uint32_t n_loads;
};

static const int64_t factors[] = {1, 2, 3, 4, 5, 6, 8, 12, 16};

/* Lanes that the node is computed in. */
static int64_t
node_lanes(const struct opt_choice *choice, uint64_t ranges)
{
    int64_t lanes = 1;

    for (; ranges; ranges &= ranges - 1)
        lanes *= choice->lanes[__builtin_ctzll(ranges)];
    return lanes;
}

/* Copies of a node that varies with `ranges`, by all choices so far. */
static double
chosen_copies(const struct opt_choice *choice, uint64_t ranges)
{
    double n = 1;

    for (; ranges; ranges &= ranges - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(ranges);
        n *= (double)(choice->copies[r] * choice->unroll[r]);
    }
    return n;
}

/* Dims among the ranges, as bits. */
static uint32_t
dims_mask(const struct tile *t, uint64_t ranges)
{
    uint32_t i, mask = 0;

    for (i = 0; i < t->n_dims; i++)
        mask |= (uint32_t)(ranges >> t->dims[i].range & 1) << i;
    return mask;
}

/* Is it computed in the loop of the group? */
static bool
in_loop(const struct tile *t, uint32_t pos)
{
    const struct kernel *k = t->m->k;
    const struct uop *u = k->nodes[pos];
    uint64_t ranges = k->deps[pos];

    assert(pos < t->m->k->n_nodes);
    if (u->op == UOP_REDUCE)
        ranges |= kernel_bound(k, u);
    return (ranges & t->group->bound) != 0;
}

/* Is the LOAD or STORE contiguous in the vector range it varies with? */
static bool
is_wide(const struct tile *t, const struct uop *u)
{
    const struct kernel *k = t->m->k;
    uint64_t ranges = kernel_deps(k, u);

    for (; ranges; ranges &= ranges - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(ranges);
        if (t->choice->lanes[r] > 1)
            return kernel_coef(k, u->src[1], r) == 1;
    }
    return true;
}

static void
add_load(struct tile *t, uint32_t pos, uint32_t mask)
{
    const struct kernel *k = t->m->k;
    const struct uop *u = k->nodes[pos];
    uint64_t deps = k->deps[pos];
    double lanes = (double)node_lanes(t->choice, deps);
    struct tile_load *load = &t->loads[t->n_loads++];

    assert(pos < t->m->k->n_nodes);
    load->mask = mask;
    load->cost = lanes == 1 ? SCALAR_LOAD : is_wide(t, u) ? 1 : lanes * GATHER;
    load->run_bytes = kernel_count(k, t->group->bound & deps) * lanes *
                      uop_dtype_infos[u->dtype].size_bytes;
    load->shared =
        lanes > 1 && (t->group->context & ~k->reduce_ranges & ~deps) != 0;
}

/* Sums up the nodes of the loop, and the code that is copied with it. */
static void
add_nodes(struct tile *t)
{
    const struct opt_model *m = t->m;
    const struct kernel *k = m->k;
    uint32_t i, mask;

    memset(t->arithmetic, 0, sizeof(t->arithmetic));
    memset(t->code, 0, sizeof(t->code));
    memset(t->n_accs, 0, sizeof(t->n_accs));
    t->n_loads = 0;
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        bool access = u->op == UOP_LOAD || u->op == UOP_STORE;
        uint64_t ranges = k->deps[i];
        if (u->op == UOP_REDUCE)
            ranges |= kernel_bound(k, u);
        mask = dims_mask(t, ranges);
        t->code[mask] += access && !is_wide(t, u)
                             ? (double)node_lanes(t->choice, ranges)
                             : m->code[i];
        if (!t->in_body[i])
            continue;
        if (u->op == UOP_LOAD)
            add_load(t, i, mask);
        else
            t->arithmetic[mask] += m->price[i];
    }
    for (i = 0; i < t->group->n_members; i++)
        t->n_accs[dims_mask(t, kernel_deps(k, t->group->members[i]) |
                                   t->group->bound)]++;
}

/* What one iteration of the tile's loop takes. */
struct tile_sum {
    double memory, arithmetic, code, accs;
    double live, largest; /* loaded values: all, and those of one LOAD */
};

static void
sum_tile(const struct tile *t, struct tile_sum *sum)
{
    double copies[1u << MAX_DIMS];
    uint32_t i, mask;

    memset(sum, 0, sizeof(*sum));
    copies[0] = 1;
    for (mask = 0; mask < 1u << t->n_dims; mask++) {
        uint32_t top = mask ? log2_floor(mask) : 0;
        if (mask)
            copies[mask] =
                copies[mask ^ 1u << top] * (double)t->dims[top].copies;
        sum->arithmetic += copies[mask] * t->arithmetic[mask];
        sum->code += copies[mask] * t->code[mask];
        sum->accs += copies[mask] * t->n_accs[mask];
    }
    for (i = 0; i < t->n_loads; i++) {
        const struct tile_load *load = &t->loads[i];
        double n = copies[load->mask], cost = n * load->cost;
        /* lines that the next tile wants and the first cache cannot hold */
        if (load->shared && n * load->run_bytes > t->m->k->target->l1_bytes)
            cost *= FAR_LOAD;
        sum->memory += cost;
        sum->live += n;
        sum->largest = n > sum->largest ? n : sum->largest;
    }
}

/* Values computed over values wanted. */
static double
edge_waste(const struct tile *t)
{
    double waste = 1;
    uint32_t i;

    for (i = 0; i < t->n_dims; i++) {
        const struct dim *d = &t->dims[i];
        int64_t n = (d->n + d->copies - 1) / d->copies * d->copies;
        if (d->bound && n != d->n) /* the rest needs a loop of its own */
            waste *= PEELED + (double)(d->n % d->copies) / (double)d->n;
        else if (d->bound)
            continue;
        else
            waste *= (double)n / (double)d->n;
    }
    return waste;
}

/* Cycles for each result of one iteration; negative where the tile does not
 * fit the registers or the code becomes too large. */
static double
tile_cost(const struct tile *t)
{
    struct tile_sum sum;
    double regs = t->m->k->target->n_vector_regs, n_all = 1, cost, low;
    uint32_t i;

    sum_tile(t, &sum);
    for (i = 0; i < t->n_dims; i++)
        n_all *= (double)t->dims[i].copies;
    if (n_all > 1 && (sum.accs > regs * 0.75 || sum.code > OPT_MAX_CODE ||
                      sum.accs + sum.live - sum.largest + 2 > regs - 1))
        return -1;
    cost = sum.memory > sum.arithmetic ? sum.memory : sum.arithmetic;
    low = sum.memory + sum.arithmetic - cost;
    cost = cost > LATENCY ? cost : LATENCY;
    cost += MEMORY_OVERLAP * low + LOOP_OVERHEAD;
    cost *= 1 + COPY_PENALTY * log2(n_all) + CODE_PENALTY * sum.code;
    return cost / n_all * edge_waste(t);
}

/* Steps dims[].copies to the next combination; false after the last. */
static bool
next_tile(struct tile *t, uint32_t *at)
{
    uint32_t i;

    for (i = 0; i < t->n_dims; i++) {
        int64_t most = t->dims[i].bound ? MAX_PARALLEL : t->dims[i].n;
        if (++at[i] < ARRAY_LEN(factors) && factors[at[i]] <= most &&
            factors[at[i]] <= t->dims[i].n) {
            t->dims[i].copies = factors[at[i]];
            return true;
        }
        at[i] = 0;
        t->dims[i].copies = 1;
    }
    return false;
}

static void
search_tile(struct tile *t)
{
    uint32_t at[MAX_DIMS] = {0}, i;
    int64_t best_copies[MAX_DIMS];
    double best, cost;

    for (i = 0; i < t->n_dims; i++)
        best_copies[i] = t->dims[i].copies = 1;
    best = tile_cost(t);
    while (next_tile(t, at)) {
        cost = tile_cost(t);
        if (cost < 0 || cost > best * 0.995)
            continue;
        best = cost;
        for (i = 0; i < t->n_dims; i++)
            best_copies[i] = t->dims[i].copies;
    }
    for (i = 0; i < t->n_dims; i++)
        t->dims[i].copies = best_copies[i];
}

/* Does copying range r let copies share a load of the body? */
static bool
shares_load(const struct tile *t, uint32_t r)
{
    const struct kernel *k = t->m->k;
    uint32_t i;

    assert(r < t->m->k->n_ranges);
    for (i = 0; i < k->n_nodes; i++) {
        if (k->nodes[i]->op == UOP_LOAD && t->in_body[i] &&
            !(k->deps[i] >> r & 1))
            return true;
    }
    return false;
}

static void
add_dim(struct tile *t, uint32_t r, bool bound)
{
    const struct kernel *k = t->m->k;
    struct dim *d = &t->dims[t->n_dims];
    int64_t lanes = t->choice->lanes[r];

    assert(r < t->m->k->n_ranges);
    if (t->n_dims == MAX_DIMS || k->sizes[r] < 0 || t->choice->copies[r] > 1 ||
        t->choice->unroll[r] > 1)
        return;
    d->range = r;
    d->bound = bound;
    d->copies = 1;
    d->n = bound ? k->sizes[r] / lanes : (k->sizes[r] + lanes - 1) / lanes;
    if (!bound && !t->choice->overlap && k->sizes[r] % lanes == 0)
        d->n = k->sizes[r] / lanes;
    if (d->n > 1)
        t->n_dims++;
}

/* Does the loop read a matrix, larger than the caches of one core, whose rows,
 * by output range r, follow each other and are read once? One row at a time
 * that is one stream, which a processor fetches ahead; rows side by side are
 * short ones, each of which begins with a wait: 4 rows of 1 KiB came at half
 * the rate. */
static bool
is_streamed(const struct tile *t, uint32_t r)
{
    const struct kernel *k = t->m->k;
    uint64_t outputs = t->group->context & ~k->reduce_ranges;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        uint64_t bound = t->group->bound & k->deps[i];
        double size_bytes = uop_dtype_infos[u->dtype].size_bytes;
        double row = kernel_count(k, bound);
        if (u->op != UOP_LOAD || !t->in_body[i] || outputs & ~k->deps[i] ||
            row * size_bytes < MIN_STREAM_BYTES ||
            (double)kernel_coef(k, u->src[1], r) != row)
            continue;
        if (kernel_count(k, outputs | bound) * size_bytes > k->target->l2_bytes)
            return true;
    }
    return false;
}

/* The reduction range that gets accumulators of its own: the vector one, if
 * there are some vectors of it, or else the longest. */
static uint32_t
parallel_range(const struct tile *t)
{
    const struct kernel *k = t->m->k;
    uint32_t best = UINT32_MAX;
    uint64_t set;

    for (set = t->group->bound; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        if (t->choice->lanes[r] > 1 &&
            k->sizes[r] / t->choice->lanes[r] >= MIN_VECTORS)
            return r;
        if (best == UINT32_MAX || k->sizes[r] > k->sizes[best])
            best = r;
    }
    return best;
}

/* Several accumulators of one result are another order of its sum. They are
 * where no rows of other results are made at once with it: then the order
 * depends on what is summed up, not on how many rows there are. */
static void
find_dims(struct tile *t)
{
    const struct kernel *k = t->m->k;
    uint64_t set = t->group->context & ~k->reduce_ranges;
    bool many = false; /* vectors side by side: independent, and one stream */
    bool shares = false, copied;
    uint32_t r;

    while (set) { /* innermost first */
        r = 63u - (uint32_t)__builtin_clzll(set);
        set &= ~((uint64_t)1 << r);
        copied = shares_load(t, r) && !is_streamed(t, r);
        shares |= copied && t->choice->lanes[r] == 1 && k->sizes[r] > 1;
        if (t->n_dims < MAX_DIMS - 1 && (t->choice->lanes[r] > 1 || copied))
            add_dim(t, r, false);
        many |= t->choice->lanes[r] > 1 &&
                k->sizes[r] / t->choice->lanes[r] >= MAX_PARALLEL;
    }
    r = parallel_range(t);
    if (!many && !shares && k->sizes[r] / t->choice->lanes[r] >= MIN_VECTORS)
        add_dim(t, r, true);
}

/* Cycles of the group's loop, for the order in which groups choose. */
static double
group_cost(const struct tile *t)
{
    double cost = 0;
    uint32_t i;

    for (i = 0; i < t->m->k->n_nodes; i++) {
        if (t->in_body[i])
            cost += t->m->price[i] * t->m->trips[i];
    }
    return cost;
}

/* ---- unrolled reductions ---- */

/* Instructions of the whole group if range r were unrolled by n more. */
static double
unrolled_code(const struct tile *t, uint32_t r, int64_t n)
{
    const struct opt_model *m = t->m;
    double code = 0;
    uint32_t i;

    assert(r < t->m->k->n_ranges);
    for (i = 0; i < m->k->n_nodes; i++) {
        uint64_t ranges = m->k->deps[i];
        double copies;
        if (!t->in_body[i])
            continue;
        if (m->k->nodes[i]->op == UOP_REDUCE)
            ranges |= kernel_bound(m->k, m->k->nodes[i]);
        copies = chosen_copies(t->choice, ranges);
        if (ranges >> r & 1)
            copies *= (double)n;
        code += copies * m->code[i];
    }
    return code;
}

/* Short inner reduction ranges become straight code, and loops with little
 * in them are unrolled somewhat. */
static void
choose_unroll(const struct tile *t, struct opt_choice *choice)
{
    const struct kernel *k = t->m->k;
    uint64_t set = t->group->bound;
    int64_t total = 1, n;
    uint32_t r;

    while (set) { /* innermost first */
        r = 63u - (uint32_t)__builtin_clzll(set);
        set &= ~((uint64_t)1 << r);
        n = k->sizes[r] / choice->lanes[r];
        if (k->sizes[r] < 0 || choice->copies[r] > 1 ||
            k->sizes[r] % choice->lanes[r])
            return;
        if (total * n <= MAX_FULL_UNROLL &&
            unrolled_code(t, r, n) <= MAX_UNROLLED) {
            choice->unroll[r] = n;
            total *= n;
            continue;
        }
        while (n % 2 == 0 && choice->unroll[r] < 4 &&
               unrolled_code(t, r, 2) <= 24) {
            choice->unroll[r] *= 2;
            n /= 2;
        }
        return;
    }
}

/* ---- stores ---- */

/* The range along which a LOAD of the store's loop is contiguous, where its
 * lanes are not: copies of that range use the cache lines that one gather
 * fetches. UINT32_MAX: none. */
static uint32_t
strided_range(struct opt_model *m, const struct opt_choice *choice,
              const struct uop *store, uint32_t v)
{
    const struct kernel *k = m->k;
    uint64_t outputs = kernel_deps(k, store) & ~((uint64_t)1 << v), set;
    uint32_t i, r;

    assert(store->op == UOP_STORE);
    opt_model_steps(m, v, choice->lanes[v]);
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op != UOP_LOAD || !(k->deps[i] >> v & 1) ||
            (k->deps[i] & k->reduce_ranges) ||
            m->step[kernel_pos(k, u->src[1])] == 1)
            continue;
        for (set = outputs & k->deps[i]; set; set &= set - 1) {
            r = (uint32_t)__builtin_ctzll(set);
            if (kernel_coef(k, u->src[1], r) == 1 && choice->copies[r] == 1)
                return r;
        }
    }
    return UINT32_MAX;
}

/* Copies range r as often as the limits allow, at most `most` times. */
static void
copy_range(const struct opt_model *m, struct opt_choice *choice, uint32_t r,
           int64_t most, double limit)
{
    const struct kernel *k = m->k;
    int64_t n = k->sizes[r] / choice->lanes[r], copies;
    double code = 0;
    uint32_t i;

    assert(r < m->k->n_ranges);
    for (i = 0; i < k->n_nodes; i++) {
        if (k->deps[i] >> r & 1)
            code += m->code[i];
    }
    for (copies = most; copies > 1; copies /= 2) {
        bool exact = k->sizes[r] % (copies * choice->lanes[r]) == 0;
        if (code * (double)copies <= limit && n >= copies &&
            (exact || (choice->overlap && n >= 8 * copies))) {
            choice->copies[r] = copies;
            return;
        }
    }
}

/* Vectors of a store loop are done a few at a time. */
static void
choose_store_copies(struct opt_model *m, struct opt_choice *choice,
                    const struct uop *store)
{
    const struct kernel *k = m->k;
    uint64_t set = kernel_deps(k, store), inside = 0;
    uint32_t r = 0, i, strided;

    for (i = 0; i < k->n_groups; i++)
        inside |= k->groups[i].context;
    for (; set; set &= set - 1) {
        r = (uint32_t)__builtin_ctzll(set);
        if (choice->lanes[r] > 1)
            break;
    }
    if (!set || choice->copies[r] > 1 || inside >> r & 1)
        return;
    strided = strided_range(m, choice, store, r);
    if (strided == UINT32_MAX)
        copy_range(m, choice, r, 4, MAX_STORE_LOOP);
    else if (!(inside >> strided & 1))
        copy_range(m, choice, strided, 16, 3 * MAX_STORE_LOOP);
}

/* ---- all ---- */

static void
begin_tile(struct tile *t, const struct opt_model *m,
           const struct opt_choice *choice, const struct kernel_group *group,
           bool *in_body)
{
    uint32_t i;

    t->m = m;
    t->choice = choice;
    t->group = group;
    t->n_dims = 0;
    t->in_body = in_body;
    for (i = 0; i < m->k->n_nodes; i++)
        in_body[i] = in_loop(t, i);
}

/* Does the group's body run another reduction loop? */
static bool
has_inner_group(const struct kernel *k, const struct kernel_group *group)
{
    uint32_t i;

    for (i = 0; i < k->n_groups; i++) {
        if (k->groups[i].context & group->bound)
            return true;
    }
    return false;
}

/* How many values go into one operation, the last vector not being full. */
static double
filled_lanes(const struct tile *t, uint64_t ranges)
{
    double lanes = 1;

    for (; ranges; ranges &= ranges - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(ranges);
        int64_t n = t->m->k->sizes[r], w = t->choice->lanes[r];
        if (w > 1)
            lanes *= (double)n / (double)((n + w - 1) / w);
    }
    return lanes;
}

/* Cycles of all runs of the tile's loop. */
static double
tile_cycles(const struct tile *t)
{
    const struct kernel *k = t->m->k;
    uint64_t ranges = t->group->context | t->group->bound;
    double cycles =
        tile_cost(t) * kernel_count(k, ranges) / filled_lanes(t, ranges);

    if (node_lanes(t->choice, t->group->bound) > 1)
        cycles += OPT_LANES_REDUCE * (double)t->group->n_members *
                  kernel_count(k, t->group->context);
    return cycles;
}

/* Cycles of what is in no loop that was tiled. */
static double
other_cycles(const struct tile *t, const bool *tiled)
{
    const struct opt_model *m = t->m;
    const struct kernel *k = m->k;
    double cycles = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        bool access = u->op == UOP_LOAD || u->op == UOP_STORE;
        uint64_t ranges = k->deps[i];
        double cost = m->price[i] * m->trips[i];
        if (u->op == UOP_REDUCE)
            ranges |= kernel_bound(k, u);
        if (tiled[i])
            continue;
        if (access && !is_wide(t, u))
            cycles += cost * (u->op == UOP_LOAD ? 1 : GATHER);
        else
            cycles += cost / filled_lanes(t, ranges);
    }
    return cycles;
}

/* Chooses for one group. Nodes of its loop are marked as tiled. */
static double
tile_group(struct tile *t, struct opt_choice *choice, bool *tiled)
{
    const struct kernel *k = t->m->k;
    double cycles;
    uint32_t i;
    int column;

    if (has_inner_group(k, t->group))
        return 0;
    column = opt_find_rows(k, choice);
    if (column < 0)
        find_dims(t);
    add_nodes(t);
    search_tile(t);
    cycles = tile_cycles(t);
    if (column >= 0)
        opt_tile_rows(k, (uint32_t)column, choice);
    for (i = 0; i < k->n_nodes; i++)
        tiled[i] |= t->in_body[i];
    for (i = 0; i < t->n_dims; i++) {
        choice->copies[t->dims[i].range] = t->dims[i].copies;
        if (t->dims[i].copies > 1)
            LOG(LOG_OPT, "range %u: %lld copies, %.2f cycles a result",
                t->dims[i].range, (long long)t->dims[i].copies, tile_cost(t));
    }
    if (column < 0)
        choose_unroll(t, choice);
    return cycles;
}

bell_status
opt_choose_copies(struct opt_model *m, struct opt_choice *choice,
                  double *out_cycles)
{
    struct kernel *k = m->k;
    uint64_t done = 0;
    uint32_t i, j, at;
    bool *in_body = arena_calloc(&k->mem, k->n_nodes, sizeof(*in_body));
    bool *tiled = arena_calloc(&k->mem, k->n_nodes, sizeof(*tiled));
    double cost, most, cycles = 0;
    struct tile t = {.m = m, .choice = choice};

    t.loads = arena_alloc(&k->mem, (k->n_nodes + 1) * sizeof(*t.loads));
    if (!in_body || !tiled || !t.loads)
        return bell_fail(BELL_E_NO_MEMORY, "tiles of %u nodes: out of memory",
                         k->n_nodes);
    for (i = 0; i < k->n_groups; i++) { /* the most work chooses first */
        for (j = 0, at = 0, most = -1; j < k->n_groups; j++) {
            if (done >> (j & 63) & 1)
                continue;
            begin_tile(&t, m, choice, &k->groups[j], in_body);
            cost = group_cost(&t);
            if (cost > most) {
                most = cost;
                at = j;
            }
        }
        done |= (uint64_t)1 << (at & 63);
        begin_tile(&t, m, choice, &k->groups[at], in_body);
        cycles += tile_group(&t, choice, tiled);
    }
    *out_cycles = cycles + other_cycles(&t, tiled);
    for (i = 0; i < k->sink->n_src; i++)
        choose_store_copies(m, choice, k->sink->src[i]);
    return BELL_OK;
}
