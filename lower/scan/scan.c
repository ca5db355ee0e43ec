/* Running sums in one kernel (lower/scan/scan.h).
 *
 * GPU: a thread has n_parts times `each` neighbours of a tile and adds these
 * up. Sums of neighbouring threads go through LOCAL memory in two steps: each
 * thread adds those of the threads before it in its block of threads, the last
 * one stores the block's, and each adds those of the blocks before its own.
 * Parts of a tile are far apart, so that neighbouring threads load neighbours.
 *
 *   place = ((tile * n_parts + part) * threads + thread) * each + number
 *
 * Where the sums' axis is not the one along which elements are neighbours in
 * memory, or runs are short, a work-group has several of them (columns).
 *
 * Host: along memory a vector of elements at a time, added up within it by
 * shifts; across it vectors of sums.
 */

#include "base/bits.h"
#include "base/log.h"
#include "lower/attention/attention_code.h"
#include "lower/scan/scan.h"

#define MAX_PARTS   4
#define MAX_EACH    8
#define MAX_BLOCK   32  /* threads of a block, and blocks */
#define THREADS     256 /* along the axis */
#define FEW_THREADS 64  /* a work-group has more runs then */
#define COLUMNS     32
#define FEW_COLUMNS 8
#define HOST_VECS   4 /* of sums */
#define NO_RANGE    UINT32_MAX

static const union uop_arg no_arg = {.bits = 0};

struct scan_work {
    struct attend_code c;
    const struct scan *s;
    uint32_t column; /* range of which a work-group has several, or NO_RANGE */
    bool across;     /* those are the neighbours in memory */
    uint32_t threads, columns, block, n_parts, each;
    int64_t tile, most;       /* elements of a tile, and at most of a run */
    const struct uop *size;   /* of a run */
    const struct uop *thread; /* along the axis */
    const struct uop *col;    /* in the work-group */
    const struct uop *gate;   /* is there such a run? NULL: always */
    const struct uop *sums, *blocks; /* LOCAL memory */
};

/* ---- which kernels ---- */

bool
scan_find(const struct kernel *k, struct scan *out)
{
    struct scan s = {.store = k->sink->src[0]};
    const struct uop *x, *i, *j;

    if (k->sink->n_src != 1 || s.store->op != UOP_STORE || s.store->n_src != 3)
        return false;
    s.sum = s.store->src[2];
    if (s.sum->op == UOP_CAST)
        s.sum = s.sum->src[0];
    if (s.sum->op != UOP_REDUCE || s.sum->n_src != 2)
        return false;
    s.op = (enum uop_op)s.sum->arg.i;
    if (s.sum->dtype == UOP_BOOL || (s.op != UOP_ADD && s.op != UOP_MUL &&
                                     s.op != UOP_MAX && s.op != UOP_MIN))
        return false;
    x = s.sum->src[0];
    j = s.sum->src[1];
    if (x->op != UOP_WHERE || x->src[0]->op != UOP_CMPLT ||
        x->src[1] != uop_identity(k->g, s.op, x->dtype))
        return false;
    s.back = x->src[0]->src[0] == j;
    i = x->src[0]->src[s.back ? 1 : 0];
    if (x->src[0]->src[s.back ? 0 : 1] != j || i->op != UOP_RANGE ||
        i->src[0] != j->src[0])
        return false;
    s.value = x->src[2];
    s.at = kernel_range_no(k, i);
    s.from = kernel_range_no(k, j);
    if (kernel_bound(k, s.sum) >> s.at & 1 ||
        kernel_deps(k, s.value) >> s.at & 1 ||
        k->reduce_ranges != (uint64_t)1 << s.from)
        return false;
    *out = s;
    return true;
}

/* ---- places ---- */

/* The most that a range counts to. */
static int64_t
most_of(const struct kernel *k, uint32_t r)
{
    return k->sizes[r] >= 0 ? k->sizes[r]
                            : uop_bounds(k->g, k->ranges[r]->src[0]).max;
}

static const struct uop *
and_gate(const struct scan_work *w, const struct uop *a, const struct uop *b)
{
    return a && b ? uop_alu2(w->c.g, UOP_AND, a, b) : a ? a : b;
}

/* `at` where it is less than the size, else 0; *gate: and it is. */
static const struct uop *
place_within(const struct scan_work *w, const struct uop *at,
             const struct uop *size, const struct uop **gate)
{
    const struct uop *ok = uop_alu2(w->c.g, UOP_CMPLT, at, size);

    *gate = and_gate(w, *gate, ok);
    return uop_alu3(w->c.g, UOP_WHERE, ok, at, num(&w->c, 0));
}

/* Where n elements lie of which the first has number `at` in their order. */
static const struct uop *
lies_at(const struct scan_work *w, const struct uop *at, uint32_t n)
{
    return w->s->back ? op2(&w->c, UOP_ADD,
                            uop_alu2(w->c.g, UOP_SUB, w->size, at), -(int64_t)n)
                      : at;
}

/* Which of n lanes as they lie is number i. */
static uint32_t
lane_at(const struct scan_work *w, uint32_t i, uint32_t n)
{
    return w->s->back ? n - 1 - i : i;
}

/* The range along which elements that are stored are neighbours, beside i. */
static uint32_t
find_column(const struct scan_work *w)
{
    const struct kernel *k = w->c.e->k;
    uint64_t out = kernel_deps(k, w->s->store->src[1]), set;

    out &= ~((uint64_t)1 << w->s->at);
    for (set = out; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        if (kernel_coef(k, w->s->store->src[1], r) == 1)
            return r;
    }
    return out ? 63u - (uint32_t)__builtin_clzll(out) : NO_RANGE;
}

/* Lets all ranges but i and j be the work-group's, `columns` of that range at
 * a time, of which number `col` is this thread's. With `overlap` the last ones
 * begin before, and `col` becomes the first. */
static bell_status
map_scan_groups(struct scan_work *w, struct lower_program *p, bool overlap)
{
    const struct kernel *k = w->c.e->k;
    uint64_t out = ~(((uint64_t)1 << w->s->at) | ((uint64_t)1 << w->s->from)),
             set;
    int64_t all = 1, n[KERNEL_MAX_RANGES];
    const struct uop *left, *at;
    uint32_t r;

    out &= k->n_ranges < 64 ? ((uint64_t)1 << k->n_ranges) - 1 : UINT64_MAX;
    for (set = out; set; set &= set - 1) {
        r = (uint32_t)__builtin_ctzll(set);
        n[r] = most_of(k, r);
        if (r == w->column)
            n[r] = (n[r] + w->columns - 1) / w->columns;
        if (__builtin_mul_overflow(all, n[r], &all))
            all = INT64_MAX;
    }
    BELL_TRY(attend_grid(&w->c, all, p, &left));
    for (set = out; set;) {
        r = 63u - (uint32_t)__builtin_clzll(set);
        set &= ~((uint64_t)1 << r);
        at = set ? op2(&w->c, UOP_FLOORMOD, left, n[r]) : left;
        left = op2(&w->c, UOP_FLOORDIV, left, n[r]);
        if (r == w->column) {
            at = op2(&w->c, UOP_MUL, at, w->columns);
            if (overlap && k->sizes[r] % w->columns)
                at = op2(&w->c, UOP_MIN, at, k->sizes[r] - w->columns);
            if (overlap) {
                w->col = at;
                continue;
            }
            at = add(&w->c, at, w->col);
        }
        if (k->sizes[r] < 0 ||
            (r == w->column && !overlap && k->sizes[r] % w->columns))
            at = place_within(w, at, k->ranges[r]->src[0], &w->gate);
        attend_let_range(&w->c, r, at);
    }
    return BELL_OK;
}

/* The STORE of n sums from number `at` on; a vector is as it lies. */
static const struct uop *
store_sums(struct scan_work *w, const struct uop *at, uint32_t n,
           const struct uop *sums, const struct uop *gate)
{
    const struct uop *store = w->s->store, *src[4];
    uint32_t n_pairs = w->c.n_pairs;

    gate = and_gate(w, gate, w->gate);
    src[0] = store->src[0];
    attend_let_range(&w->c, w->s->at, lies_at(w, at, n));
    src[1] = attend_value(&w->c, store->src[1], n_pairs);
    src[2] = sums;
    if (store->src[2] != w->s->sum)
        src[2] = uop_make(w->c.g, UOP_CAST, store->src[2]->dtype, sums->lanes,
                          no_arg, &sums, 1);
    src[3] = gate;
    return uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, gate ? 4 : 3);
}

static const struct uop *
scan_loop(struct scan_work *w, const struct uop *extent)
{
    union uop_arg arg = {
        .i = uop_range_arg(w->c.e->k->n_ranges + w->c.e->n_accs++,
                           UOP_AXIS_REDUCE)};

    return uop_new(w->c.g, UOP_RANGE, UOP_I64, 1, arg, &extent, 1);
}

static const struct uop *
lane_of(const struct scan_work *w, const struct uop *u, uint32_t i)
{
    union uop_arg arg = {.i = i};

    return u->lanes == 1 ? u
                         : uop_make(w->c.g, UOP_LANE, u->dtype, 1, arg, &u, 1);
}

/* What of nothing is: 0, of products 1. */
static const struct uop *
none(const struct scan_work *w)
{
    return uop_identity(w->c.g, w->s->op, w->s->sum->dtype);
}

static const struct uop *
sum_of(const struct scan_work *w, const struct uop *a, const struct uop *b)
{
    return a ? uop_alu2(w->c.g, w->s->op, a, b) : b;
}

/* ---- a GPU ---- */

static void
choose_scan_sizes(struct scan_work *w)
{
    const struct kernel *k = w->c.e->k;
    const struct lower_target *t = k->target;
    const struct uop *store = w->s->store;
    uint32_t bytes = uop_dtype_infos[store->src[0]->dtype].size_bytes;
    double runs = kernel_count(k, kernel_deps(k, store->src[1])) /
                  (k->sizes[w->s->at] > 0 ? (double)k->sizes[w->s->at] : 1);

    w->column = find_column(w);
    w->across =
        w->column != NO_RANGE && kernel_coef(k, store->src[1], w->s->at) != 1;
    w->each = w->across ? 4 : bytes >= 8 ? 2 : 16 / bytes;
    if (w->each > MAX_EACH)
        w->each = MAX_EACH;
    w->threads = w->across ? THREADS / 16 : THREADS;
    while (runs < t->n_units && 2 * w->threads <= t->max_threads && !w->across)
        w->threads *= 2;
    while (w->threads > 1 && w->threads / 2 * w->each >= w->most)
        w->threads /= 2;
    w->columns = 1;
    if (w->column != NO_RANGE) {
        while (2 * w->columns * w->threads <= t->max_threads &&
               (w->across ? w->columns < COLUMNS
                          : w->columns * w->threads < FEW_THREADS) &&
               w->columns < most_of(k, w->column))
            w->columns *= 2;
    }
    /* fewer neighbours, as long as they are a sector, for more work-groups */
    while (w->across && w->columns > FEW_COLUMNS &&
           runs / w->columns < t->n_units &&
           (int64_t)w->threads * w->each < w->most) {
        w->columns /= 2;
        w->threads *= 2;
    }
    w->n_parts = w->threads > THREADS ? 1 : MAX_PARTS;
    while (w->n_parts > 1 &&
           (int64_t)w->n_parts / 2 * w->threads * w->each >= w->most)
        w->n_parts /= 2;
    for (w->block = 1; w->block * w->block < w->threads;)
        w->block *= 2;
    w->tile = (int64_t)w->n_parts * w->threads * w->each;
}

/* Where in LOCAL memory what thread or block `at` of `n` has of a part is. */
static const struct uop *
local_place(const struct scan_work *w, uint32_t part, const struct uop *at,
            uint32_t n)
{
    if (w->across)
        return step(&w->c, w->col, op2(&w->c, UOP_ADD, at, (int64_t)part * n),
                    w->columns);
    return step(&w->c, op2(&w->c, UOP_ADD, at, (int64_t)part * n), w->col,
                (int64_t)w->n_parts * n);
}

/* n of them from there on, to out[]. */
static void
load_local(const struct scan_work *w, const struct uop *memory,
           const struct uop *place, uint32_t n, const struct uop **out)
{
    uint32_t i, lanes = w->across ? 1 : n < 4 ? n : 4;
    const struct uop *src[2] = {memory}, *u;

    for (i = 0; i < n; i++) {
        if (i % lanes == 0) {
            src[1] = op2(&w->c, UOP_ADD, place,
                         w->across ? (int64_t)i * w->columns : i);
            u = uop_make(w->c.g, UOP_LOAD, w->s->sum->dtype, (uint16_t)lanes,
                         no_arg, src, 2);
        }
        out[i] = lane_of(w, u, i % lanes);
    }
}

static const struct uop *
store_local(const struct scan_work *w, const struct uop *memory,
            const struct uop *place, const struct uop *value,
            const struct uop *gate)
{
    const struct uop *src[4] = {memory, place, value, gate};

    return uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, gate ? 4 : 3);
}

/* The sum of the first `count` of n values; NULL: of all. */
static const struct uop *
sum_first(const struct scan_work *w, const struct uop *const *v, uint32_t n,
          const struct uop *count)
{
    const struct uop *sum = NULL, *ok;
    uint32_t i;

    /* the last is never among the first that are fewer than n */
    for (i = 0; i < (count ? n - 1 : n); i++) {
        const struct uop *u = v[i];
        if (count) {
            ok = uop_alu2(w->c.g, UOP_CMPLT, num(&w->c, i), count);
            u = uop_alu3(w->c.g, UOP_WHERE, ok, u, none(w));
        }
        sum = sum_of(w, sum, u);
    }
    return sum ? sum : none(w);
}

/* What n elements from number `at` on are, as they lie. */
static const struct uop *
load_at(struct scan_work *w, const struct uop *at, uint32_t n)
{
    return attend_lanes(&w->c, w->s->value, w->s->from, lies_at(w, at, n),
                        (uint16_t)n);
}

/* What a thread has of a part, from number `at` on: running sums. */
static void
load_scan_part(struct scan_work *w, const struct uop *at,
               const struct uop **sums)
{
    const struct uop *v = NULL, *ok, *place, *x;
    bool whole = w->c.e->k->sizes[w->s->from] > 0 &&
                 w->c.e->k->sizes[w->s->from] % w->each == 0;
    bool gated = w->c.e->k->sizes[w->s->from] < 0 || w->most % w->tile != 0;
    uint32_t i;

    ok = NULL;
    place = at;
    if (whole) {
        if (gated)
            place = place_within(w, at, w->size, &ok);
        v = load_at(w, place, w->each);
    }
    for (i = 0; i < w->each; i++) {
        if (whole) {
            x = lane_of(w, v, lane_at(w, i, w->each));
        } else {
            ok = NULL;
            place = op2(&w->c, UOP_ADD, at, i);
            place = place_within(w, place, w->size, &ok);
            x = load_at(w, place, 1);
        }
        if (ok)
            x = uop_alu3(w->c.g, UOP_WHERE, ok, x, none(w));
        sums[i] = sum_of(w, i ? sums[i - 1] : NULL, x);
    }
}

/* STOREs of these of a part, to out[]; how many. */
static uint32_t
store_part(struct scan_work *w, const struct uop *at,
           const struct uop *const *sums, const struct uop **out)
{
    const struct kernel *k = w->c.e->k;
    bool whole = k->sizes[w->s->at] > 0 && k->sizes[w->s->at] % w->each == 0;
    bool gated = k->sizes[w->s->at] < 0 || w->most % w->tile != 0;
    const struct uop *place, *gate = NULL, *v, *lies[MAX_EACH];
    uint32_t i;

    if (whole && w->each > 1 &&
        kernel_coef(k, w->s->store->src[1], w->s->at) == 1) {
        if (gated)
            gate = uop_alu2(w->c.g, UOP_CMPLT, at, w->size);
        for (i = 0; i < w->each; i++)
            lies[lane_at(w, i, w->each)] = sums[i];
        v = uop_make(w->c.g, UOP_LANES, sums[0]->dtype, (uint16_t)w->each,
                     no_arg, lies, w->each);
        out[0] = store_sums(w, at, w->each, v, gate);
        return 1;
    }
    for (i = 0; i < w->each; i++) {
        place = op2(&w->c, UOP_ADD, at, i);
        gate = gated ? uop_alu2(w->c.g, UOP_CMPLT, place, w->size) : NULL;
        out[i] = store_sums(w, place, 1, sums[i], gate);
    }
    return w->each;
}

/* A tile; `before` is the sum of what is behind. Effects to out[], how many;
 * *sum: with the tile's. */
static uint32_t
make_scan_tile(struct scan_work *w, const struct uop *first,
               const struct uop *before, const struct uop **out,
               const struct uop **sum)
{
    const struct uop *sums[MAX_PARTS][MAX_EACH], *effects[3 * MAX_PARTS * 40],
        *at[MAX_PARTS], *mates[MAX_BLOCK], *below[MAX_PARTS], *memory, *u;
    uint32_t n_blocks = w->threads / w->block, i, p, n = 0, j;
    const struct uop *in_block = op2(&w->c, UOP_FLOORMOD, w->thread, w->block),
                     *block = op2(&w->c, UOP_FLOORDIV, w->thread, w->block),
                     *is_last = op2(&w->c, UOP_CMPEQ, in_block, w->block - 1);

    for (p = 0; p < w->n_parts; p++) {
        at[p] = op2(&w->c, UOP_ADD, w->thread, (int64_t)p * w->threads);
        at[p] = add(&w->c, first, op2(&w->c, UOP_MUL, at[p], w->each));
        load_scan_part(w, at[p], sums[p]);
        effects[n++] =
            store_local(w, w->sums, local_place(w, p, w->thread, w->threads),
                        sums[p][w->each - 1], NULL);
    }
    u = uop_new(w->c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, effects, n);
    memory = attend_after(&w->c, w->sums, &u, 1);
    for (p = n = 0; p < w->n_parts; p++) {
        u = op2(&w->c, UOP_MUL, block, w->block);
        load_local(w, memory, local_place(w, p, u, w->threads), w->block,
                   mates);
        below[p] = sum_first(w, mates, w->block, in_block);
        effects[n++] =
            store_local(w, w->blocks, local_place(w, p, block, n_blocks),
                        sum_of(w, below[p], sums[p][w->each - 1]), is_last);
        for (i = 0; i < w->block; i++) {
            u = mates[i]->op == UOP_LANE ? mates[i]->src[0] : mates[i];
            if (i == 0 || u != effects[n - 1])
                effects[n++] = u;
        }
    }
    u = uop_new(w->c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, effects, n);
    memory = attend_after(&w->c, w->blocks, &u, 1);
    for (p = n = 0; p < w->n_parts; p++) {
        load_local(w, memory, local_place(w, p, num(&w->c, 0), n_blocks),
                   n_blocks, mates);
        u = sum_of(w, before, sum_first(w, mates, n_blocks, block));
        u = sum_of(w, u, below[p]);
        for (j = 0; j < w->each; j++)
            sums[p][j] = sum_of(w, u, sums[p][j]);
        n += store_part(w, at[p], sums[p], out + n);
        before = sum_of(w, before, sum_first(w, mates, n_blocks, NULL));
    }
    *sum = before;
    return n;
}

static bell_status
scan_gpu(struct scan_work *w, struct lower_program *program,
         const struct uop **out_sink)
{
    const struct uop *src[2 + MAX_PARTS * MAX_EACH], *tid, *acc, *range, *sum;
    uint32_t n;

    choose_scan_sizes(w);
    LOG(LOG_OPT, "running sums: %u threads of %u x %u, %u columns%s",
        w->threads, w->n_parts, w->each, w->columns,
        w->across ? " across" : "");
    tid = attend_special(&w->c, 4, w->threads * w->columns);
    w->thread = w->across ? op2(&w->c, UOP_FLOORDIV, tid, w->columns)
                          : op2(&w->c, UOP_FLOORMOD, tid, w->threads);
    w->col = w->across ? op2(&w->c, UOP_FLOORMOD, tid, w->columns)
                       : op2(&w->c, UOP_FLOORDIV, tid, w->threads);
    BELL_TRY(map_scan_groups(w, program, false));
    program->local[0] = w->threads * w->columns;
    w->sums = expand_local(w->c.e, w->s->sum->dtype,
                           (uint64_t)w->threads * w->columns * w->n_parts);
    w->blocks =
        expand_local(w->c.e, w->s->sum->dtype,
                     (uint64_t)w->threads / w->block * w->columns * w->n_parts);
    if (w->most <= w->tile) {
        n = make_scan_tile(w, num(&w->c, 0), none(w), src, &sum);
        *out_sink = uop_new(w->c.g, UOP_SINK, UOP_VOID, 1, no_arg, src, n);
        return BELL_OK;
    }
    acc = attend_acc(&w->c, none(w), NULL, 0);
    sum = op2(&w->c, UOP_ADD, w->size, w->tile - 1);
    range = scan_loop(w, op2(&w->c, UOP_FLOORDIV, sum, w->tile));
    src[0] = range;
    n = 1 + make_scan_tile(w, op2(&w->c, UOP_MUL, range, w->tile),
                           attend_get(&w->c, acc, range), src + 1, &sum);
    src[n++] = attend_set(&w->c, acc, sum);
    src[0] = uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
    *out_sink = uop_new(w->c.g, UOP_SINK, UOP_VOID, 1, no_arg, src, 1);
    return BELL_OK;
}

/* ---- the host ---- */

/* v's lanes, which are as they lie, with those before them. */
static const struct uop *
sum_lanes(const struct scan_work *w, const struct uop *v)
{
    const struct uop *part[64];
    uint32_t by, i;

    assert(v->lanes <= ARRAY_LEN(part));
    for (by = 1; by < v->lanes; by *= 2) {
        for (i = 0; i < v->lanes; i++)
            part[lane_at(w, i, v->lanes)] =
                i < by ? none(w) : lane_of(w, v, lane_at(w, i - by, v->lanes));
        v = uop_alu2(w->c.g, w->s->op, v,
                     uop_make(w->c.g, UOP_LANES, v->dtype, v->lanes, no_arg,
                              part, v->lanes));
    }
    return v;
}

/* The loop over `count` steps of `lanes` elements from `first` on, which adds
 * to acc; its END. */
static const struct uop *
sum_steps(struct scan_work *w, const struct uop *acc, const struct uop *first,
          const struct uop *count, uint16_t lanes)
{
    const struct uop *range = scan_loop(w, count), *at, *v, *src[3] = {range};

    at = add(&w->c, first, op2(&w->c, UOP_MUL, range, lanes));
    v = load_at(w, at, lanes);
    v = uop_alu2(
        w->c.g, w->s->op, sum_lanes(w, v),
        expand_broadcast(w->c.e, attend_get(&w->c, acc, range), lanes));
    src[1] = store_sums(w, at, lanes, v, NULL);
    src[2] =
        attend_set(&w->c, acc, lane_of(w, v, lane_at(w, lanes - 1u, lanes)));
    return uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, 3);
}

/* Along memory. */
static uint32_t
sum_along(struct scan_work *w, uint16_t lanes, const struct uop **out)
{
    const struct uop *acc = attend_acc(&w->c, none(w), NULL, 0), *whole, *rest;
    uint32_t n = 0;

    whole = op2(&w->c, UOP_FLOORDIV, w->size, lanes);
    rest = op2(&w->c, UOP_FLOORMOD, w->size, lanes);
    if (w->most >= lanes) {
        out[n++] = sum_steps(w, acc, num(&w->c, 0), whole, lanes);
        acc = attend_acc(&w->c, attend_get(&w->c, acc, out[0]), NULL, 0);
    }
    if (rest->op != UOP_CONST || rest->arg.i)
        out[n++] =
            sum_steps(w, acc, op2(&w->c, UOP_MUL, whole, lanes), rest, 1);
    return n;
}

/* Across memory: n_vecs vectors of sums of neighbouring runs. */
static const struct uop *
sum_across(struct scan_work *w, uint16_t lanes, uint32_t n_vecs)
{
    const struct uop *range = scan_loop(w, w->size), *acc, *v, *at,
                     *src[1 + 2 * HOST_VECS] = {range};
    uint32_t i, n = 1, n_pairs = w->c.n_pairs;

    for (i = 0; i < n_vecs; i++) {
        acc = attend_acc(&w->c, expand_broadcast(w->c.e, none(w), lanes), NULL,
                         0);
        at = op2(&w->c, UOP_ADD, w->col, (int64_t)i * lanes);
        attend_let_range(&w->c, w->s->from, lies_at(w, range, 1));
        v = attend_lanes(&w->c, w->s->value, w->column, at, lanes);
        w->c.n_pairs = n_pairs;
        v = uop_alu2(w->c.g, w->s->op, attend_get(&w->c, acc, range), v);
        attend_let_range(&w->c, w->column, at);
        src[n++] = store_sums(w, range, 1, v, NULL);
        w->c.n_pairs = n_pairs;
        src[n++] = attend_set(&w->c, acc, v);
    }
    return uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
}

static bell_status
scan_host(struct scan_work *w, struct lower_program *program,
          const struct uop **out_sink)
{
    const struct kernel *k = w->c.e->k;
    const struct uop *store = w->s->store, *ends[2];
    uint32_t lanes, n_vecs = 1, n;

    lanes =
        k->target->vector_bytes / uop_dtype_infos[w->s->sum->dtype].size_bytes;
    w->column = find_column(w);
    w->across = w->column != NO_RANGE && k->sizes[w->column] > 0 &&
                kernel_coef(k, store->src[1], w->s->at) != 1 &&
                kernel_coef(k, store->src[1], w->column) == 1;
    w->columns = 1;
    if (!w->across) {
        w->column = NO_RANGE;
        if (lanes == 0 || kernel_coef(k, store->src[1], w->s->at) != 1)
            lanes = 1;
    } else {
        for (lanes = lanes ? lanes : 1; lanes > k->sizes[w->column];)
            lanes /= 2;
        while (n_vecs < HOST_VECS && 2 * n_vecs * lanes <= k->sizes[w->column])
            n_vecs *= 2;
        w->columns = lanes * n_vecs;
    }
    LOG(LOG_OPT, "running sums: %u lanes%s, %u vectors", lanes,
        w->across ? " across" : "", n_vecs);
    BELL_TRY(map_scan_groups(w, program, true));
    if (w->across)
        ends[0] = sum_across(w, (uint16_t)lanes, n_vecs);
    n = w->across ? 1 : sum_along(w, (uint16_t)lanes, ends);
    *out_sink = uop_new(w->c.g, UOP_SINK, UOP_VOID, 1, no_arg, ends, n);
    return BELL_OK;
}

bell_status
expand_scan(struct kernel *k, const struct scan *s, const struct uop **out_sink,
            struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct scan_work *w = arena_calloc(&k->mem, 1, sizeof(*w));

    if (!w)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of running sums: out of memory");
    w->c = (struct attend_code){.e = &e, .g = k->g};
    w->s = s;
    w->size = k->ranges[s->at]->src[0];
    w->most = most_of(k, s->at);
    BELL_TRY(k->target->is_gpu ? scan_gpu(w, program, out_sink)
                               : scan_host(w, program, out_sink));
    program->shared_bytes = e.shared_bytes;
    return uop_graph_status(k->g);
}
