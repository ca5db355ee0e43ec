/* Attention in one kernel, by WGMMA and TMA_COPYs
 * (lower/attention/attention.h).
 *
 * A group of four warps has 64 rows of queries; the scores and the results stay
 * in registers, and what a thread has of the scores is what it has to hold of
 * them for the product with v. The card copies tiles of keys some turns ahead:
 *
 *   scores of tile 0, exponentials
 *   turn j of the others:
 *           PINGPONG: begin the results with v of j - 1 and the scores of j
 *           copy k of j - 2 + ahead, v of the one before that
 *           wait; maxima, exponentials; scale the results
 *   results with v of the last tile
 *
 * Where rows see the keys up to their own, tiles that all rows see wholly are a
 * loop before the others'.
 *
 * So a group makes exponentials while the matrix units work for the other.
 * Where the first begins a turn, the second has waited for tile j - 2 of k and
 * j - 3 of v, and copies may take their place.
 *
 * The elements of a head beyond a multiple of 64 lie in LOCAL memory as a row
 * of their own, the last. So all rows are copied alike, and nothing beside the
 * head is read: elements come from the first of that rest on, around the end,
 * and the last row repeats some that nobody uses. A head of 80: 16 to 79, then
 * 0 to 63.
 */

#include "base/bits.h"
#include "base/log.h"
#include "lower/attention/attention_nv.h"

#define GROUP_WARPS 4
#define GROUP_ROWS  64
/* observed: the comment at choose_sizes has device and date. guess: all others.
 * Tiles ahead: as many as there is room for. Words: the 255 registers of a
 * thread, but some for addresses. */
#define GROUPS      2   /* of a work-group. guess */
#define MAX_TILE    128 /* keys. observed */
#define MIN_TILE    64  /* where there is room. observed */
#define LEAST_TILE  32  /* guess */
#define AHEAD       3 /* tiles of k, and of v, that are there or come. guess */
#define LEAST_AHEAD 5 /* of the least tiles. guess */
#define MAX_WORDS   232 /* of queries, scores, E, results in a thread. guess */
#define LEAST_HELD  0 /* elements of queries that threads hold anyhow. guess */
#define MOST_HELD   128 /* the same by choice. guess */
#define WIDE        128 /* of a query and a value together. observed */
#define ROW         64  /* elements in a row of 128 bytes */
#define STEPS       16  /* of an instruction */
#define MAX_WIDTH   256 /* elements of a query, of a value */
#define MAX_EFFECTS 24

static const union uop_arg no_arg = {.bits = 0};

/* What lies in LOCAL memory, and what WGMMAs add to. */
struct state {
    struct attend_nv w;
    const struct uop *scores, *exps, *results; /* ACCs */
    const struct uop *tiles;                   /* how many there are */
    const struct uop *memory[2];               /* k's, v's */
    int64_t ahead;                             /* AHEAD or LEAST_AHEAD */
    int64_t n_held;            /* elements of queries that threads hold */
    const struct uop *queries; /* LOCAL: the others; NULL: there are none */
    bool has_queries;          /* they have come */
};

/* ---- sizes ---- */

/* Elements in LOCAL memory of a key, a value or a query of n. */
static int64_t
n_there(int64_t n)
{
    return (n + ROW - 1) / ROW * ROW;
}

/* Which element of a head of n lies at `at` there. */
static int64_t
element_at(int64_t n, int64_t at)
{
    return (at + n % ROW) % n;
}

/* Columns of the results' matrix instructions: whole atoms of 64, though those
 * beyond v's are not looked at. The instruction set does not forbid a part of
 * an atom, but no device was asked. */
static uint32_t
n_columns(const struct attend_nv *w)
{
    return (uint32_t)n_there(w->v.n);
}

/* Elements of a query that lie in LOCAL memory: the last ones. */
static int64_t
n_boxed(const struct state *s)
{
    return n_there(s->w.k.n) - s->n_held;
}

/* Bytes of LOCAL memory. */
static int64_t
n_bytes(const struct state *s)
{
    const struct attend_nv *w = &s->w;

    return 2 * (s->ahead * w->c.tile * (n_there(w->k.n) + n_there(w->v.n)) +
                GROUPS * GROUP_ROWS * n_boxed(s));
}

static bool
has_room(const struct state *s)
{
    return n_bytes(s) + UOP_WGMMA_ALIGN <= s->w.c.e->k->target->max_stage_bytes;
}

static bool
has_registers(const struct state *s)
{
    return s->n_held / 4 + n_columns(&s->w) / 2 + s->w.c.tile * 3 / 4 <=
           MAX_WORDS;
}

/* Do whole tiles of it lie as rows of whole 16 bytes? */
static bool
is_boxed(const struct attend_nv *w, const struct attend_nv_side *s)
{
    int64_t stride;

    if (s->n < ROW || s->n > MAX_WIDTH || !attend_nv_is_copied(w, s))
        return false;
    stride = kernel_coef(w->c.e->k, s->value->src[1], w->c.a->key);
    return stride >= ROW && stride % 8 == 0;
}

/* The same of the queries. */
static bool
queries_are_boxed(const struct attend_nv *w)
{
    const struct uop *q = w->q.value;
    struct attend_nv_side side = {.value = q, .range = w->q.range, .n = w->k.n};
    int64_t stride;

    if (w->c.n_rows % GROUP_ROWS || attend_end(w->c.e->k, w->c.a->row) ||
        !attend_nv_is_copied(w, &side))
        return false;
    stride = kernel_coef(w->c.e->k, q->src[1], w->c.a->row);
    return stride >= ROW && stride % 8 == 0;
}

/* Tiles of wide heads have 128 keys: fewer turns. For narrow heads, two
 * work-groups with tiles of 64 fit an SM. observed: H100, 2026-11-27, bfloat16:
 * 32 heads of 4096 x 128 460 us, 560 by 64 keys; 64 of 2048 x 64 176 us by
 * these, else 202. Threads hold the part of queries for which LOCAL memory has
 * no room. guess: that is better than tiles of 32 keys. */
static void
choose_wgmma_sizes(struct state *s)
{
    int64_t all = n_there(s->w.k.n), least_held = all;

    if (queries_are_boxed(&s->w))
        least_held = LEAST_HELD < all ? LEAST_HELD : all;
    s->w.warps = GROUPS * GROUP_WARPS;
    s->ahead = AHEAD;
    s->n_held = least_held;
    s->w.c.tile = s->w.k.n + s->w.v.n > WIDE ? MAX_TILE : MIN_TILE;
    while (s->w.c.tile > MIN_TILE &&
           (s->w.c.n_keys % s->w.c.tile || s->w.c.n_keys == s->w.c.tile ||
            !has_room(s)))
        s->w.c.tile /= 2;
    while (!has_room(s) && s->n_held < MOST_HELD && n_boxed(s) > 0)
        s->n_held += ROW;
    if (has_room(s) && has_registers(s))
        return;
    s->n_held = least_held;
    s->w.c.tile = LEAST_TILE;
    s->ahead = LEAST_AHEAD;
}

static bool
wgmma_fits(const struct state *s)
{
    const struct attend_nv *w = &s->w;
    const struct lower_target *t = w->c.e->k->target;

    return t->has_boxes && !attend_end(w->c.e->k, w->c.a->key) &&
           t->wgmma_k[w->v.value->dtype] == STEPS &&
           w->k.value->dtype == w->v.value->dtype && !w->c.a->is_back &&
           !w->c.a->score2 && w->c.n_rows > ROW &&
           w->c.n_keys % w->c.tile == 0 && w->c.n_keys > w->c.tile &&
           has_room(s) && w->k.n % STEPS == 0 && is_boxed(w, &w->k) &&
           is_boxed(w, &w->v);
}

/* ---- copies ---- */

/* The TMA_COPYs of a tile, the which-th, where `gate` holds; effects to
 * out[]. */
static uint32_t
copy_wgmma_tile(struct state *s, const struct attend_nv_side *side,
                const struct uop *tile, const struct uop *which,
                const struct uop *gate, const struct uop **out)
{
    struct attend_code *c = &s->w.c;
    uint32_t n_pairs = c->n_pairs, n = 0;
    const struct uop *src[6], *slot, *origin;
    int64_t at;

    slot = op2(c, UOP_MUL, op2(c, UOP_FLOORMOD, which, s->ahead),
               c->tile * n_there(side->n));
    src[0] = side->memory;
    src[2] = side->value->src[0];
    src[4] = num(c, kernel_coef(c->e->k, side->value->src[1], c->a->key));
    src[5] = op2(c, UOP_CMPLT, c->e->tid, 1);
    if (gate)
        src[5] = uop_alu2(c->g, UOP_AND, src[5], gate);
    attend_let_range(c, c->a->key, op2(c, UOP_MUL, tile, c->tile));
    attend_let_range(c, side->range, num(c, 0));
    origin = attend_value(c, side->value->src[1], n_pairs);
    for (at = 0; at < side->n; at += ROW) {
        src[1] = op2(c, UOP_ADD, slot, at * c->tile);
        src[3] = op2(c, UOP_ADD, origin, element_at(side->n, at));
        out[n++] = uop_new(c->g, UOP_TMA_COPY, UOP_VOID, 1,
                           (union uop_arg){.i = c->tile}, src, 6);
    }
    return n;
}

/* The TMA_COPYs of what LOCAL memory has of the work-group's queries; effects
 * to out[]. */
static uint32_t
copy_wgmma_queries(struct state *s, const struct uop **out)
{
    struct attend_nv *w = &s->w;
    struct attend_code *c = &w->c;
    uint32_t n_pairs = c->n_pairs, n = 0, group;
    const struct uop *src[6], *origin;
    int64_t at;

    src[0] = s->queries;
    src[2] = w->q.value->src[0];
    src[4] = num(c, kernel_coef(c->e->k, w->q.value->src[1], c->a->row));
    src[5] = op2(c, UOP_CMPLT, c->e->tid, 1);
    for (group = 0; group < GROUPS; group++) {
        attend_let_range(c, c->a->row,
                         op2(c, UOP_MIN,
                             op2(c, UOP_ADD, w->begin, group * GROUP_ROWS),
                             c->n_rows - GROUP_ROWS));
        attend_let_range(c, w->q.range, num(c, 0));
        origin = attend_value(c, w->q.value->src[1], n_pairs);
        for (at = s->n_held; at < w->k.n; at += ROW) {
            src[1] = num(c, (group * n_boxed(s) + at - s->n_held) * GROUP_ROWS);
            src[3] = op2(c, UOP_ADD, origin, element_at(w->k.n, at));
            out[n++] = uop_new(c->g, UOP_TMA_COPY, UOP_VOID, 1,
                               (union uop_arg){.i = GROUP_ROWS}, src, 6);
        }
    }
    return n;
}

/* k of that turn and v of the one before, of those there are. */
static const struct uop *
copy_turn(struct state *s, const struct uop *turn, const struct uop *after)
{
    struct attend_nv *w = &s->w;
    const struct uop *src[MAX_EFFECTS], *gate, *before;
    uint32_t n = 0;

    if (after)
        src[n++] = after;
    else if (s->queries)
        n += copy_wgmma_queries(s, src);
    gate = uop_alu2(w->c.g, UOP_CMPLT, turn, s->tiles);
    n += copy_wgmma_tile(s, &w->k, add(&w->c, w->first, turn), turn, gate,
                         src + n);
    if (turn->op != UOP_CONST || turn->arg.i > 0) {
        before = op2(&w->c, UOP_ADD, turn, -1);
        gate = uop_alu2(w->c.g, UOP_CMPLT, before, s->tiles);
        n += copy_wgmma_tile(s, &w->v, add(&w->c, w->first, before), before,
                             gate, src + n);
    }
    assert(n <= MAX_EFFECTS);
    return uop_new(w->c.g, UOP_COMMIT, UOP_VOID, 1, no_arg, src, n);
}

/* ---- products ---- */

/* The memory behind `before`, where that is not NULL. */
static const struct uop *
wgmma_behind(const struct state *s, const struct uop *memory,
             const struct uop *before)
{
    return before ? attend_after(&s->w.c, memory, &before, 1) : memory;
}

/* acc = or += A, of which `part` has the steps' lanes, @ B. */
static const struct uop *
held_product(const struct state *s, const struct uop *acc,
             const struct uop *part, const struct uop *memory,
             const struct uop *at, struct uop_wgmma shape)
{
    const struct uop *src[4] = {acc, part, memory, at};

    return uop_new(s->w.c.g, UOP_WGMMA_HELD, UOP_VOID, 1,
                   (union uop_arg){.i = uop_wgmma_arg(shape)}, src, 4);
}

/* The queries' elements of so many STEPS, those that lie from `at` on, that
 * threads hold. */
static const struct uop *
held_queries(const struct attend_nv *w, int64_t at, uint32_t pieces)
{
    const struct uop *part[ROW / 2];
    uint32_t i;

    for (i = 0; i < 8 * pieces; i++)
        part[i] = attend_nv_lane(
            w, w->q.part[0][element_at(w->k.n, at + i / 8 * STEPS) / STEPS],
            i % 8);
    return attend_nv_lanes(w, part, (uint16_t)(8 * pieces));
}

/* Begins the scores of a tile of k, the which-th, behind `before`; the last
 * effect. */
static const struct uop *
begin_scores(struct state *s, const struct uop *which, const struct uop *before)
{
    struct attend_nv *w = &s->w;
    struct uop_wgmma shape = {.n = (uint32_t)w->c.tile, .k = STEPS};
    const struct uop *slot, *src[5] = {s->scores}, *group;
    int64_t at;

    slot = op2(&w->c, UOP_MUL, op2(&w->c, UOP_FLOORMOD, which, s->ahead),
               w->c.tile * n_there(w->k.n));
    group = op2(&w->c, UOP_MUL,
                op2(&w->c, UOP_FLOORDIV, w->c.e->tid, 32 * GROUP_WARPS),
                GROUP_ROWS * n_boxed(s));
    for (at = 0; at < w->k.n; at += ROW) {
        shape.sets = at == 0;
        shape.pieces =
            (uint32_t)(w->k.n - at < ROW ? w->k.n - at : ROW) / STEPS;
        src[3] = wgmma_behind(s, w->k.memory, before);
        src[4] = op2(&w->c, UOP_ADD, slot, at * w->c.tile);
        if (at < s->n_held) {
            before =
                held_product(s, s->scores, held_queries(w, at, shape.pieces),
                             src[3], src[4], shape);
            continue;
        }
        src[1] = s->queries;
        src[2] = op2(&w->c, UOP_ADD, group, (at - s->n_held) * GROUP_ROWS);
        before = uop_new(w->c.g, UOP_WGMMA, UOP_VOID, 1,
                         (union uop_arg){.i = uop_wgmma_arg(shape)}, src, 5);
    }
    return before;
}

/* Begins results += E @ v of a tile, the which-th. */
static const struct uop *
begin_results(struct state *s, const struct uop *which, const struct uop *e)
{
    struct attend_nv *w = &s->w;
    struct uop_wgmma shape = {.n = n_columns(w),
                              .k = STEPS,
                              .pieces = (uint32_t)w->c.tile / STEPS,
                              .b_turned = true};
    const struct uop *slot;

    slot = op2(&w->c, UOP_MUL, op2(&w->c, UOP_FLOORMOD, which, s->ahead),
               w->c.tile * n_there(w->v.n));
    return held_product(s, s->results, e, w->v.memory, slot, shape);
}

/* Waits for what was begun, behind `after`. */
static const struct uop *
wait(const struct state *s, const struct uop *after)
{
    return uop_new(s->w.c.g, UOP_WGMMA_WAIT, UOP_VOID, 1, no_arg, &after, 1);
}

/* ---- the loop ---- */

/* What a thread has of 8 columns. */
static const struct uop *
columns(const struct attend_nv *w, const struct uop *all, uint32_t n)
{
    const struct uop *part[4];
    uint32_t i;

    for (i = 0; i < 4; i++)
        part[i] = attend_nv_lane(w, all, 4 * n + i);
    return attend_nv_lanes(w, part, 4);
}

/* The scores of a tile, which are made by then: as they are, to w->score. */
static void
take_scores(struct state *s, const struct uop *when)
{
    struct attend_nv *w = &s->w;
    const struct uop *all = attend_get(&w->c, s->scores, when);
    uint32_t n;

    for (n = 0; n < w->c.tile / 8; n++)
        w->score[0][n] = columns(w, all, n);
}

/* What they make, from the maxima and sums so far on; the exponentials,
 * rounded. */
static const struct uop *
make_wgmma_exps(struct state *s, const struct uop *const max[2],
                const struct uop *const sum[2])
{
    struct attend_nv *w = &s->w;
    const struct uop *part[MAX_TILE / 2], *e;
    uint32_t i;

    attend_nv_see_scores(w, 0);
    for (i = 0; i < 2; i++)
        attend_nv_raise_max(w, 0, i, max[i]);
    attend_nv_make_exps(w, 0, sum);
    for (i = 0; i < w->c.tile / 2; i++)
        part[i] = w->x[0][i / 4][i % 4];
    e = attend_nv_lanes(w, part, (uint16_t)(w->c.tile / 2));
    return uop_make(w->c.g, UOP_CAST, w->v.value->dtype, e->lanes, no_arg, &e,
                    1);
}

/* results *= what the new maxima make of them */
static const struct uop *
scale_results(struct state *s, const struct uop *when)
{
    struct attend_nv *w = &s->w;
    const struct uop *all = attend_get(&w->c, s->results, when);
    const struct uop *by[MAX_WIDTH / 2];
    uint32_t i;

    for (i = 0; i < all->lanes; i++)
        by[i] = w->scale[0][i % 4 / 2];
    return attend_set(
        &w->c, s->results,
        uop_alu2(w->c.g, UOP_MUL, all, attend_nv_lanes(w, by, all->lanes)));
}

/* A BARRIER or PINGPONG behind `after`: all tiles but the last `arg` COMMITs'
 * are there. */
static const struct uop *
wgmma_barrier(struct state *s, enum uop_op op, int64_t arg,
              const struct uop *const *after, uint32_t n)
{
    const struct uop *u =
        uop_new(s->w.c.g, op, UOP_VOID, 1, (union uop_arg){.i = arg}, after, n);

    s->w.k.memory = attend_after(&s->w.c, s->memory[0], &u, 1);
    s->w.v.memory = attend_after(&s->w.c, s->memory[1], &u, 1);
    if (s->queries && !s->has_queries) {
        s->queries = attend_after(&s->w.c, s->queries, &u, 1);
        s->has_queries = true;
    }
    return u;
}

/* Places, and the first copies; the last effect. */
static const struct uop *
copy_wgmma_first(struct state *s)
{
    struct attend_nv *w = &s->w;
    const struct uop *commit = NULL;
    uint32_t i;

    w->k.memory = s->memory[0] =
        expand_local(w->c.e, w->k.value->dtype,
                     (uint64_t)(s->ahead * w->c.tile * n_there(w->k.n)));
    w->v.memory = s->memory[1] =
        expand_local(w->c.e, w->v.value->dtype,
                     (uint64_t)(s->ahead * w->c.tile * n_there(w->v.n)));
    if (n_boxed(s))
        s->queries =
            expand_local(w->c.e, w->q.value->dtype,
                         (uint64_t)(16 * w->warps) * (uint64_t)n_boxed(s));
    for (i = 0; i + 1 < s->ahead; i++)
        commit = copy_turn(s, num(&w->c, i), commit);
    return commit;
}

/* The first tile's scores and exponentials, with which the variables begin; the
 * last effect. */
static const struct uop *
make_first(struct state *s)
{
    struct attend_nv *w = &s->w;
    const struct uop *zero = uop_const_float(w->c.g, UOP_F32, 0);
    const struct uop *max[2], *sum[2] = {zero, zero}, *effect, *exps;
    uint32_t i;

    for (i = 0; i < 2; i++)
        max[i] = low(&w->c);
    s->scores = attend_acc(
        &w->c, expand_broadcast(w->c.e, zero, (uint16_t)(w->c.tile / 2)), NULL,
        0);
    s->results = attend_acc(
        &w->c, expand_broadcast(w->c.e, zero, (uint16_t)(n_columns(w) / 2)),
        NULL, 0);
    effect = copy_wgmma_first(s);
    wgmma_barrier(s, UOP_BARRIER, s->ahead - 2, &effect, 1);
    effect = begin_scores(s, num(&w->c, 0), NULL);
    effect = wait(s, effect);
    take_scores(s, effect);
    w->now = w->first;
    exps = make_wgmma_exps(s, max, sum);
    s->exps = attend_acc(&w->c, exps, NULL, 0);
    for (i = 0; i < 2; i++) {
        w->max[0][i] = attend_acc(&w->c, w->new_max[0][i], NULL, 0);
        w->sum[0][i] = attend_acc(&w->c, w->new_sum[0][i], NULL, 0);
    }
    return effect;
}

/* The turn behind tile `before`; effects to out[]. */
static uint32_t
make_turn(struct state *s, const struct uop *before, const struct uop **out)
{
    struct attend_nv *w = &s->w;
    const struct uop *max[2], *sum[2], *src[1] = {w->range}, *turn, *exps,
                                       *made;
    uint32_t i, n = 0;

    turn = op2(&w->c, UOP_ADD, before, 1);
    w->now = add(&w->c, w->first, turn);
    src[0] = wgmma_barrier(s, UOP_PINGPONG, s->ahead - 3, src, 1);
    made = begin_results(s, before, attend_get(&w->c, s->exps, w->range));
    made = begin_scores(s, turn, made);
    made = uop_new(w->c.g, UOP_PINGPONG_END, UOP_VOID, 1, no_arg, &made, 1);
    src[0] = copy_turn(s, op2(&w->c, UOP_ADD, turn, s->ahead - 2), made);
    made = wait(s, src[0]);
    take_scores(s, made);
    for (i = 0; i < 2; i++) {
        max[i] = attend_get(&w->c, w->max[0][i], w->range);
        sum[i] = attend_get(&w->c, w->sum[0][i], w->range);
    }
    exps = make_wgmma_exps(s, max, sum);
    out[n++] = scale_results(s, made);
    out[n++] = attend_set(&w->c, s->exps, exps);
    for (i = 0; i < 2; i++) {
        out[n++] = attend_set(&w->c, w->max[0][i], w->new_max[0][i]);
        out[n++] = attend_set(&w->c, w->sum[0][i], w->new_sum[0][i]);
    }
    return n;
}

/* The loop over `n` turns behind tile `before`; its END. */
static const struct uop *
make_turns(struct state *s, const struct uop *before, const struct uop *n)
{
    struct attend_nv *w = &s->w;
    union uop_arg arg = {.i = uop_range_arg(w->c.a->key, UOP_AXIS_REDUCE)};
    const struct uop *src[MAX_EFFECTS];
    uint32_t n_src;

    w->range = src[0] = uop_new(w->c.g, UOP_RANGE, UOP_I64, 1, arg, &n, 1);
    n_src = 1 + make_turn(s, add(&w->c, before, w->range), src + 1);
    assert(n_src <= MAX_EFFECTS);
    return uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n_src);
}

/* All that there is, behind `effect`. */
static void
go_behind(struct state *s, const struct uop *effect)
{
    struct attend_nv *w = &s->w;
    const struct uop **accs[] = {&s->scores,    &s->exps,      &s->results,
                                 &w->max[0][0], &w->max[0][1], &w->sum[0][0],
                                 &w->sum[0][1], &s->memory[0], &s->memory[1]};
    size_t i;

    for (i = 0; i < ARRAY_LEN(accs); i++)
        *accs[i] = attend_after(&w->c, *accs[i], &effect, 1);
}

/* How many tiles the first row of the work-group sees all of, and what x is of
 * these, where that is known: what is hidden are the keys behind a row's
 * own. */
static const struct uop *
find_whole(const struct state *s, const struct uop **out_seen)
{
    const struct attend_code *c = &s->w.c;
    const struct kernel *k = c->e->k;
    const struct uop *x = c->a->seen, *cond = x->src[0];

    if (x->op != UOP_WHERE || x->src[1] != low(c) || cond->op != UOP_CMPLT ||
        cond->src[0] != k->ranges[c->a->row] ||
        cond->src[1] != k->ranges[c->a->key])
        return NULL;
    *out_seen = x->src[2];
    return uop_alu2(
        c->g, UOP_MIN, s->tiles,
        op2(c, UOP_FLOORDIV, op2(c, UOP_ADD, s->w.begin, 1), c->tile));
}

/* The first tile, the loops over the others, and the results with the last;
 * what is behind it. */
static bell_status
make_wgmma_loop(struct state *s, const struct uop **out_end)
{
    struct attend_nv *w = &s->w;
    const struct attend *a = w->c.a;
    struct attend plain = *a;
    const struct uop *effect, *others, *whole;
    uint32_t i;

    effect = make_first(s);
    for (i = 0; i < 2; i++)
        s->memory[i] = attend_after(&w->c, s->memory[i], &effect, 1);
    others = op2(&w->c, UOP_ADD, s->tiles, -1);
    whole = find_whole(s, &plain.seen);
    if (whole)
        whole = op2(&w->c, UOP_ADD, op2(&w->c, UOP_MAX, whole, 1), -1);
    /* one work-group's rows begin with the first, which sees one key */
    if (whole && uop_bounds(w->c.g, whole).max > 0) {
        w->c.a = &plain;
        go_behind(s, make_turns(s, num(&w->c, 0), whole));
        w->c.a = a;
    } else {
        whole = num(&w->c, 0);
    }
    effect = make_turns(s, whole, uop_alu2(w->c.g, UOP_SUB, others, whole));
    wgmma_barrier(s, UOP_BARRIER, s->ahead - 3, &effect, 1);
    effect = begin_results(s, others, attend_get(&w->c, s->exps, effect));
    *out_end = wait(s, effect);
    return uop_graph_status(w->c.g);
}

/* ---- what is stored ---- */

static const struct uop *
get_results(const struct attend_nv *w, uint32_t tall, uint32_t col,
            const struct uop *end)
{
    const struct state *s = (const struct state *)w; /* whose first it is */
    int64_t n = w->v.n, at = (8 * col + n - n % ROW) % n;

    (void)tall;
    return columns(w, attend_get(&w->c, s->results, end), (uint32_t)at / 8);
}

bell_status
expand_attend_wgmma(struct kernel *k, const struct attend *a,
                    const struct uop **out_sink, struct lower_program *program,
                    bool *out_fits)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct state s = {.w = {.c = {.e = &e, .g = k->g, .a = a}, .tall = 1}};
    struct attend_nv *w = &s.w;
    const struct uop *end = NULL;

    w->c.n_rows = k->sizes[a->row];
    w->c.n_keys = k->sizes[a->key];
    attend_nv_init_side(w, &w->k, a->k, a->in);
    attend_nv_init_side(w, &w->v, a->v, a->col);
    w->v.wide = w->v.n;
    w->q = (struct attend_nv_rows){.value = a->q, .range = a->in};
    choose_wgmma_sizes(&s);
    *out_fits = wgmma_fits(&s);
    if (!*out_fits)
        return BELL_OK;
    attend_find_factor(&w->c);
    LOG(LOG_OPT, "attention: %d rows by %d keys at a time, WGMMA",
        16 * (int)w->warps, (int)w->c.tile);
    BELL_TRY(attend_nv_map_groups(w, program));
    if (s.n_held)
        attend_nv_load_queries(w, &w->q, &w->k);
    s.tiles = attend_count_tiles(&w->c, w->begin, w->last, &w->first);
    BELL_TRY(make_wgmma_loop(&s, &end));
    BELL_TRY(attend_nv_make_stores(w, end, get_results, out_sink));
    program->shared_bytes = e.shared_bytes;
    return BELL_OK;
}
