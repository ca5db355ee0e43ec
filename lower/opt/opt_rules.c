/* The rules: vectors first, then register tiles, then what is spread over
 * threads. Every choice is made on the model's numbers; BELL_DEBUG=opt prints
 * them. */
#include "lower/opt/opt_rules.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "lower/opt/opt_told.h"

#define MAX_CANDIDATES 12
#define N_SETS         3      /* of vectors, whose tiles are compared */
#define TINY_CYCLES    400.0  /* a kernel below this is left as it is */
#define BYTES_A_CYCLE  8.0    /* from memory, one core */
#define MAX_TOLD_NODES 4000.0 /* of a schedule that is told */

/* ---- vectors ---- */

struct candidate {
    uint32_t range;
    int64_t lanes;
    double gain;
    uint64_t conflicts; /* ranges that some value varies with as well */
};

static uint64_t
conflicts_of(const struct kernel *k, uint32_t r)
{
    uint64_t set = 0;
    uint32_t i;

    assert(r < k->n_ranges);
    for (i = 0; i < k->n_nodes; i++) {
        if (k->deps[i] >> r & 1)
            set |= k->deps[i];
    }
    return set & ~((uint64_t)1 << r);
}

/* Ranges worth a vector, the best first. */
static uint32_t
find_candidates(struct opt_model *m, bool overlap, struct candidate *out)
{
    uint32_t r, n = 0, at;

    for (r = 0; r < m->k->n_ranges; r++) {
        struct candidate c = {.range = r};
        c.lanes = opt_model_lanes(m, r, overlap);
        if (!c.lanes)
            continue;
        c.gain = opt_model_gain(m, r, c.lanes);
        LOG(LOG_OPT, "range %u (%lld): %lld lanes save %.0f cycles", r,
            (long long)m->k->sizes[r], (long long)c.lanes, c.gain);
        if (c.gain <= 0)
            continue;
        c.conflicts = conflicts_of(m->k, r);
        for (at = n < MAX_CANDIDATES ? n++ : n; at > 0; at--) {
            if (out[at - 1].gain >= c.gain)
                break;
            if (at < MAX_CANDIDATES)
                out[at] = out[at - 1];
        }
        if (at < MAX_CANDIDATES)
            out[at] = c;
    }
    return n;
}

/* Candidates that may be taken together, as bits, and what they save. */
struct vector_set {
    uint32_t members;
    double gain;
};

/* The best sets without conflict among all subsets; also the empty set where
 * there are fewer. */
static void
find_sets(const struct candidate *c, uint32_t n, struct vector_set *best)
{
    uint32_t i, set, at;

    memset(best, 0, N_SETS * sizeof(*best));
    for (set = 1; set < 1u << n; set++) {
        uint64_t ranges = 0, conflicts = 0;
        double gain = 0;
        for (i = 0; i < n; i++) {
            if (!(set >> i & 1))
                continue;
            ranges |= (uint64_t)1 << c[i].range;
            conflicts |= c[i].conflicts;
            gain += c[i].gain;
        }
        if (ranges & conflicts || gain <= best[N_SETS - 1].gain)
            continue;
        for (at = N_SETS - 1; at > 0 && best[at - 1].gain < gain; at--)
            best[at] = best[at - 1];
        best[at].members = set;
        best[at].gain = gain;
    }
}

/* Tries the sets of vectors that save most by their gain alone, each with the
 * register tiles that suit it. */
static bell_status
choose_vectors(struct opt_model *m, struct opt_choice *choice)
{
    struct candidate c[MAX_CANDIDATES];
    struct vector_set sets[N_SETS];
    struct opt_choice tried, best = *choice;
    double cycles, least = 0;
    uint32_t i, j, n = 0;

    if (m->k->target->vector_bytes)
        n = find_candidates(m, choice->overlap, c);
    find_sets(c, n, sets);
    for (i = 0; i < N_SETS; i++) {
        if (i > 0 && (!sets[i].members || sets[i].gain < sets[0].gain / 2))
            break;
        tried = *choice;
        for (j = 0; j < n; j++) {
            if (sets[i].members >> j & 1)
                tried.lanes[c[j].range] = c[j].lanes;
        }
        BELL_TRY(opt_choose_copies(m, &tried, &cycles));
        LOG(LOG_OPT, "vectors %u: about %.0f cycles", i, cycles);
        if (i == 0 || cycles < least) {
            least = cycles;
            best = tried;
        }
    }
    *choice = best;
    return BELL_OK;
}

/* ---- ranges that do not divide ---- */

/* Masked accesses are one instruction from AVX-512 on. */
static bool
has_masks(const struct lower_target *target)
{
    return target->vector_bytes >= 64;
}

static void
reset_choice(struct opt_choice *choice, uint32_t r)
{
    choice->lanes[r] = choice->copies[r] = choice->unroll[r] = 1;
}

/* Peels range r to a multiple of `tile`. The rest's choice is `rest_lanes`
 * lanes; copies of the other ranges of the same REDUCEs keep theirs. Returns
 * the number of the rest in *out_rest, or UINT32_MAX where it has one value
 * only. */
static bell_status
peel_to(struct kernel *k, struct opt_choice *choice, uint32_t r, int64_t tile,
        int64_t rest_lanes, uint32_t *out_rest)
{
    int64_t n_main = k->sizes[r] / tile * tile, n_rest = k->sizes[r] - n_main;
    uint32_t at = k->n_ranges, i, group;
    uint64_t others = 0;

    assert(r < k->n_ranges && tile > 0);
    for (group = 0; group < k->n_groups; group++) {
        if (k->groups[group].bound >> r & 1)
            others = k->groups[group].bound & ~((uint64_t)1 << r);
    }
    BELL_TRY(kernel_peel(k, r, n_main, rest_lanes > n_rest ? rest_lanes : 0));
    *out_rest = UINT32_MAX;
    if (n_rest > 1 || rest_lanes > 1) {
        *out_rest = at;
        reset_choice(choice, at++);
    }
    for (; others && at < k->n_ranges; others &= others - 1, at++) {
        i = (uint32_t)__builtin_ctzll(others);
        choice->lanes[at] = choice->lanes[i];
        choice->copies[at] = choice->copies[i];
        choice->unroll[at] = choice->unroll[i];
    }
    return BELL_OK;
}

/* Makes reduction range r a multiple of its lanes and copies: whole tiles,
 * then single vectors, then what is left, masked where that is cheap. */
static bell_status
peel_range(struct kernel *k, struct opt_choice *choice, uint32_t r)
{
    int64_t lanes = choice->lanes[r], copies = choice->copies[r];
    int64_t tail = k->sizes[r] % lanes;
    uint32_t rest;

    assert(r < k->n_ranges);
    if (copies > 1 && k->sizes[r] / lanes % copies) {
        BELL_TRY(peel_to(k, choice, r, lanes * copies, 1, &rest));
        if (rest == UINT32_MAX)
            return BELL_OK;
        choice->lanes[rest] = lanes;
        r = rest;
    }
    if (tail == 0)
        return BELL_OK;
    if (k->sizes[r] < lanes) { /* a rest of single values */
        choice->lanes[r] = 1;
        return BELL_OK;
    }
    BELL_TRY(
        peel_to(k, choice, r, lanes, has_masks(k->target) ? lanes : 1, &rest));
    if (rest != UINT32_MAX && has_masks(k->target))
        choice->lanes[rest] = lanes;
    return BELL_OK;
}

/* ---- the plan ---- */

/* Splits range r as chosen; *out_loop is what is left as a loop. */
static void
split_range(struct opt_plan *plan, const struct opt_choice *choice, uint32_t r,
            uint32_t *out_loop)
{
    bool reduce = plan->k->reduce_ranges >> r & 1;
    int64_t lanes = choice->lanes[r], copies = choice->copies[r];
    int64_t unroll = reduce ? choice->unroll[r] : 1;
    uint32_t tile, piece;

    assert(r < plan->k->n_ranges);
    *out_loop = r;
    if (lanes * copies > plan->k->sizes[r]) { /* the vectors overlap */
        if (opt_split(plan, r, lanes, UOP_AXIS_VECTOR, OPT_INNER, NULL, &piece))
            *out_loop = piece;
        if (plan->axes[*out_loop].size == copies)
            (void)opt_retype(plan, *out_loop, UOP_AXIS_UPCAST);
        return;
    }
    if (lanes * copies * unroll == 1 ||
        !opt_split(plan, r, lanes * copies * unroll,
                   reduce ? UOP_AXIS_REDUCE : UOP_AXIS_LOOP, OPT_INNER, &tile,
                   out_loop))
        return;
    if (lanes > 1 &&
        opt_split(plan, tile, lanes, UOP_AXIS_VECTOR, OPT_INNER, NULL, &piece))
        tile = piece;
    if (unroll > 1 &&
        opt_split(plan, tile, unroll, UOP_AXIS_UNROLL, OPT_INNER, NULL, &piece))
        tile = piece;
    if (copies > 1)
        (void)opt_retype(plan, tile, UOP_AXIS_UPCAST);
}

static double
data_bytes(const struct kernel *k)
{
    double n = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op == UOP_LOAD || u->op == UOP_STORE)
            n += kernel_count(k, kernel_deps(k, u->src[1])) *
                 uop_dtype_infos[u->src[0]->dtype].size_bytes;
    }
    return n;
}

/* Splits as chosen, then distributes and orders the loops. */
static bell_status
apply_choice(struct kernel *k, struct opt_choice *choice)
{
    struct opt_plan plan;
    struct opt_model m;
    uint32_t loops[KERNEL_MAX_RANGES], r, n_ranges = k->n_ranges;
    double cycles, bytes;
    bool told = false;

    opt_made_choice(k, choice);

    for (r = 0; r < n_ranges; r++) {
        if (k->reduce_ranges >> r & 1 &&
            k->sizes[r] %
                (choice->lanes[r] * choice->copies[r] * choice->unroll[r]))
            BELL_TRY(peel_range(k, choice, r));
    }
    BELL_TRY(opt_model_init(&m, k));
    opt_plan_init(&plan, k);
    for (r = 0; r < k->n_ranges; r++)
        split_range(&plan, choice, r, &loops[r]);
    if (choice->digits)
        (void)opt_split(&plan, loops[choice->row], choice->n_rows,
                        UOP_AXIS_UPCAST, OPT_OUTER, NULL, &loops[choice->row]);
    k->digits = choice->digits;
    cycles = opt_model_total(&m, choice->lanes);
    bytes = data_bytes(k) / BYTES_A_CYCLE;
    cycles = bytes > cycles || choice->digits ? bytes : cycles;
    if (choice->product.on)
        opt_choose_panels(&plan, choice, loops);
    else
        BELL_TRY(opt_tell_loops(&plan, loops, &told));
    if (!choice->product.on && !choice->digits && !told)
        told = opt_choose_rows(&plan, choice, loops);
    if (!choice->product.on && !told)
        BELL_TRY(opt_choose_loops(&plan, &m, choice, loops, cycles));
    if (!choice->product.on)
        opt_made_loops(&plan, loops);
    if (!choice->product.on && !choice->digits)
        opt_mark_rows(&plan, choice);
    if (opt_is_told(k) &&
        (!opt_vectors_fit(&plan) || opt_expanded_nodes(&plan) > MAX_TOLD_NODES))
        return bell_fail(BELL_E_INVALID, "vectors that conflict, or %.0f nodes",
                         opt_expanded_nodes(&plan));
    if (!opt_vectors_fit(&plan))
        return bell_fail(BELL_E_INTERNAL, "rules chose vectors that conflict");
    LOG(LOG_OPT, "about %.0f cycles, %.0f nodes", cycles,
        opt_expanded_nodes(&plan));
    opt_log_plan(&plan);
    return opt_apply(&plan);
}

/* No range is chosen for anything yet, but those that become one. */
static BELL_MUST_CHECK bell_status
begin_choice(struct kernel *k, struct opt_plan *plan, struct opt_choice *choice,
             struct opt_model *m)
{
    uint32_t r;

    opt_plan_init(plan, k);
    choice->overlap = plan->may_overlap;
    choice->product.on = choice->digits = false;
    BELL_TRY(opt_choose_folds(k, choice));
    BELL_TRY(opt_model_init(m, k));
    for (r = 0; r < KERNEL_MAX_RANGES; r++)
        reset_choice(choice, r);
    return BELL_OK;
}

static void
note_made(struct kernel *k, const struct opt_plan *plan,
          const struct opt_model *m)
{
    opt_made_of(k, m);
    if (k->made)
        k->made->is_in_place = !plan->may_overlap;
}

/* A sum of products whose length is known when the kernel runs, as a product
 * whose loops end there. *out_done: it was made; else the kernel is as before.
 */
static bell_status
make_open_product(struct kernel *k, bool *out_done)
{
    struct kernel_end ends[ARRAY_LEN(k->ends)];
    const struct uop *sink = k->sink;
    uint32_t n_ends = k->n_ends;
    struct opt_choice choice;
    struct opt_model m;
    struct opt_plan plan;
    bell_status status = BELL_OK;

    *out_done = false;
    if (opt_is_told(k) ? !opt_told(k, LOWER_PRODUCT, NULL)
                       : opt_is_without(k, OPT_FORM_PRODUCT))
        return BELL_OK;
    memcpy(ends, k->ends, sizeof(ends));
    BELL_TRY(kernel_unflatten(k));
    BELL_TRY(kernel_merge(k));
    BELL_TRY(begin_choice(k, &plan, &choice, &m));
    if (opt_is_told(k))
        status = opt_choose_told(&m, &choice);
    else
        opt_choose_product(&m, &choice);
    BELL_TRY(status);
    *out_done = choice.product.on;
    if (*out_done) {
        note_made(k, &plan, &m);
        return apply_choice(k, &choice);
    }
    memcpy(k->ends, ends, sizeof(ends));
    k->n_ends = n_ends;
    return kernel_set_sink(k, sink);
}

bell_status
opt_rules(struct kernel *k)
{
    struct opt_choice choice;
    struct opt_model m;
    struct opt_plan plan;
    bool done = false;
    double cycles;

    assert(kernel_is_canonical(k));
    if (kernel_sum_is_open(k)) {
        BELL_TRY(make_open_product(k, &done));
        if (done)
            return BELL_OK;
        BELL_TRY(kernel_close_sums(k));
    }
    BELL_TRY(kernel_unflatten(k));
    BELL_TRY(kernel_merge(k));
    BELL_TRY(kernel_fuse(k));
    BELL_TRY(begin_choice(k, &plan, &choice, &m));
    note_made(k, &plan, &m);
    if (opt_is_told(k)) {
        BELL_TRY(opt_choose_told(&m, &choice));
        return apply_choice(k, &choice);
    }
    cycles = opt_model_total(&m, choice.lanes);
    if (cycles < TINY_CYCLES) {
        LOG(LOG_OPT, "left as it is: about %.0f cycles", cycles);
        return kernel_close_ends(k);
    }
    if (!opt_is_without(k, OPT_FORM_PRODUCT))
        opt_choose_product(&m, &choice);
    if (!choice.product.on)
        opt_choose_digits(&m, &choice);
    if (!choice.product.on && !choice.digits)
        BELL_TRY(choose_vectors(&m, &choice));
    return apply_choice(k, &choice);
}
