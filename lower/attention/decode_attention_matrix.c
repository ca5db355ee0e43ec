/* Decode attention by matrix instructions (lower/attention/attention.h):
 * several queries share keys. Reading k and v once takes most of the time;
 * arithmetic without matrix instructions would take as long.
 *
 * A work-group has up to 16 rows of queries. Each of its warps goes through
 * keys of its own with an M, an L and an O, which are joined in the end. Before
 * that nothing goes through LOCAL memory. A thread loads 16 bytes of k; a sum
 * may have its elements in any order, so these meet the same elements of q. It
 * loads up to 16 bytes of v, for as many tiles of columns.
 *
 * A table says which thread has which elements (struct attend_fragments). In
 * each of its layouts the scores that a thread has are its part of the operand
 * E of the second product.
 */
#include "base/bits.h"
#include "lower/attention/decode_attention.h"

/* guess: MIN_ROWS by the model of `kernel --stats`; other numbers that say so
 * were not compared. */
#define MIN_ROWS   3   /* fewer: decode_attention.c. guess */
#define MAX_WIDE   128 /* elements of a query, of a value. guess */
#define WARPS      4   /* guess */
#define STEP       16  /* elements of a sum that an instruction takes */
#define CHUNK      8   /* elements that one access loads */
#define PIECE      4   /* words that are stored at a time, at most */
#define MAX_LANES  8   /* of an operand or a result in a thread */
#define MAX_TILES  (MAX_WIDE / 8)
#define MAX_STEPS  (MAX_WIDE / STEP)
#define MAX_KEYS   4  /* tiles of keys of a warp at a time */
#define OTHER_REGS 40 /* of a thread, but operands and results. guess */

static const union uop_arg no_arg = {.bits = 0};

/* clang-format off */
static const struct attend_fragments all_fragments[] = {
    /*                           row     part    elements   keys in a
     * shape                     every,of every,of  h n tiles  step: guess */
    {{UOP_WMMA_NV, 16, 8, 16},     4, 8,   1, 4,   2, 2, 2,    32, 16, false},
    {{UOP_WMMA_CDNA, 16, 16, 16},  1, 16, 16, 4,   1, 4, 1,    32, 32, true},
    {{UOP_WMMA_RDNA4, 16, 16, 16}, 1, 16, 16, 2,   1, 8, 1,    16, 16, true},
};
/* clang-format on */

struct fragment_work {
    struct attend_few f;
    struct attend_fragments m;
    uint32_t halves;       /* that have rows */
    uint32_t in, tiles;    /* elements of a query; tiles of keys of a step */
    uint32_t chunk;        /* columns of v that a thread loads together */
    uint32_t lanes, taken; /* of a result; of an operand of keys */
    const struct uop *row, *part;
    const struct uop *q[MAX_STEPS];
    const struct uop *max[2], *sum[2], *out[MAX_TILES]; /* ACCs */
    /* of the present keys */
    const struct uop *k[MAX_KEYS][MAX_STEPS];
    const struct uop *v[MAX_LANES][MAX_STEPS];
    const struct uop *x[MAX_KEYS][MAX_LANES];
    const struct uop *scale[2];
};

const struct attend_fragments *
attend_few_fragments(enum uop_wmma_layout layout)
{
    uint32_t i;

    for (i = 0; i < ARRAY_LEN(all_fragments); i++) {
        if (all_fragments[i].shape.layout == layout)
            return &all_fragments[i];
    }
    return NULL;
}

bool
attend_few_fits_matrix(const struct kernel *k, const struct attend *a)
{
    const struct lower_target *t = k->target;
    const struct attend_fragments *m = attend_few_fragments(t->matrix_layout);

    return m && a->v->dtype != UOP_F32 && t->matrix_k[a->v->dtype] == STEP &&
           attend_few_count(k, a) >= MIN_ROWS && k->sizes[a->in] <= MAX_WIDE &&
           k->sizes[a->in] % (m->parts * CHUNK) == 0 &&
           k->sizes[a->col] <= MAX_WIDE && k->sizes[a->col] % 32 == 0;
}

static void
choose_fragment_sizes(struct fragment_work *w)
{
    const struct kernel *k = w->f.c.e->k;
    uint32_t warps = WARPS;

    w->m = *attend_few_fragments(k->target->matrix_layout);
    w->lanes = w->m.halves * w->m.each;
    w->taken = w->m.tiles * w->m.each;
    w->in = (uint32_t)k->sizes[w->f.c.a->in];
    for (w->chunk = CHUNK; w->f.cols % (w->m.span * w->chunk);)
        w->chunk /= 2;
    w->f.rows = attend_few_rows(&w->f, ATTEND_FEW_MATRIX);
    w->halves = w->f.rows > w->m.span ? 2 : 1;
    w->f.keys = w->in + w->f.cols <= MAX_WIDE ? w->m.keys : w->m.wide_keys;
    w->tiles = w->f.keys / w->m.span;
    assert(w->m.tiles * w->lanes <= MAX_LANES && w->tiles <= MAX_KEYS &&
           w->tiles * w->m.each <= MAX_LANES);
    while (warps > 1 && warps / 2 * w->f.keys >= w->f.c.n_keys)
        warps /= 2;
    w->f.wave = uop_wmma_threads(w->m.shape);
    w->f.threads = warps * w->f.wave;
    w->f.c.tile = (int64_t)warps * w->f.keys;
}

/* Registers for q, results, and all that a step loads. */
static uint32_t
count_fragment_regs(const struct fragment_work *w)
{
    return w->halves * w->in / 8 + w->f.cols / 2 +
           w->f.keys * (w->in + w->f.cols) / 64 + OTHER_REGS;
}

/* ---- short forms ---- */

/* The product of queries and keys, or of E and columns. */
static const struct uop *
fragment_product(const struct fragment_work *w, const struct uop *q,
                 const struct uop *k, const struct uop *sum)
{
    bool swap = w->m.is_swapped;
    const struct uop *src[3] = {swap ? k : q, swap ? q : k, sum};
    union uop_arg arg = {.i = uop_wmma_arg(w->m.shape)};

    return uop_new(w->f.c.g, UOP_WMMA, UOP_F32, sum->lanes, arg, src, 3);
}

/* Joins the values of the threads that have a row. */
static const struct uop *
join_fragment_row(const struct fragment_work *w, enum uop_op op,
                  const struct uop *u)
{
    uint32_t i;

    for (i = 1; i < w->m.parts; i *= 2) {
        union uop_arg arg = {.i = i * w->m.part_every};
        u = uop_alu2(w->f.c.g, op, u,
                     uop_new(w->f.c.g, UOP_SHUFFLE, u->dtype, 1, arg, &u, 1));
    }
    return u;
}

/* The thread's row of a tile, or of a half of the work-group's. */
static const struct uop *
fragment_row_of(const struct fragment_work *w, uint32_t tile)
{
    return op2(&w->f.c, UOP_ADD, w->row, w->m.span * tile);
}

static const struct uop *
fragment_row_inside(const struct fragment_work *w, uint32_t half)
{
    const struct uop *row = fragment_row_of(w, half);

    if (w->f.rows % w->m.span)
        row = op2(&w->f.c, UOP_MIN, row, w->f.rows - 1);
    return attend_few_row(&w->f, row);
}

/* Which key of the warp's the thread's number i of a tile is. */
static const struct uop *
scored_key(const struct fragment_work *w, uint32_t tile, uint32_t i)
{
    return step(&w->f.c, num(&w->f.c, w->m.span * tile + i), w->part,
                w->m.each);
}

/* ---- what is loaded ---- */

/* The thread's elements of block b of q or k, by range r. */
static const struct uop *
load_block(struct fragment_work *w, const struct uop *u, uint32_t r, uint32_t b)
{
    const struct uop *at;

    at = step(&w->f.c, num(&w->f.c, b * w->m.parts * CHUNK), w->part, CHUNK);
    return attend_lanes(&w->f.c, u, r, at, CHUNK);
}

/* What step s of a product takes of blocks that were loaded for it, of each of
 * n halves. */
static const struct uop *
take_step(const struct fragment_work *w, const struct uop *const *blocks,
          uint32_t n, uint32_t s)
{
    uint32_t first = s * w->taken % CHUNK, each = w->m.each, i;
    const struct uop *part[MAX_LANES];

    for (i = 0; i < n * w->taken; i++)
        part[i] = attend_few_lane(&w->f, blocks[i / each % n],
                                  first + i / each / n * each + i % each);
    return attend_few_lanes(&w->f, part, i);
}

static void
load_fragment_queries(struct fragment_work *w)
{
    const struct uop *zero = uop_const_int(w->f.c.g, w->f.c.a->q->dtype, 0),
                     *u[2];
    uint32_t s, half, n_pairs = w->f.c.n_pairs;

    u[1] = expand_broadcast(w->f.c.e, zero, CHUNK);
    for (s = 0; s < w->in / STEP; s++) {
        for (half = 0; half < w->halves && s * w->taken % CHUNK == 0; half++) {
            attend_let_row(&w->f.c, fragment_row_inside(w, half));
            u[half] =
                load_block(w, w->f.c.a->q, w->f.c.a->in, s * w->taken / CHUNK);
            w->f.c.n_pairs = n_pairs;
        }
        w->q[s] = take_step(w, u, w->m.halves, s);
    }
}

/* What the thread has of the step's keys: of k those of its row of a tile, of v
 * those that it has the scores of. */
static void
load_fragment_keys(struct fragment_work *w)
{
    const struct attend *a = w->f.c.a;
    uint32_t i, b, n_pairs = w->f.c.n_pairs, wide = w->m.span * w->chunk;
    const struct uop *at;

    for (i = 0; i < w->tiles; i++) {
        for (b = 0; b < w->in / (w->m.parts * CHUNK); b++) {
            attend_let_range(&w->f.c, a->key,
                             attend_few_key(&w->f, fragment_row_of(w, i)));
            w->k[i][b] = load_block(w, a->k, a->in, b);
            w->f.c.n_pairs = n_pairs;
        }
    }
    for (i = 0; i < w->tiles * w->m.each; i++) {
        for (b = 0; b < w->f.cols / wide; b++) {
            at = scored_key(w, i / w->m.each, i % w->m.each);
            attend_let_range(&w->f.c, a->key, attend_few_key(&w->f, at));
            at = step(&w->f.c, num(&w->f.c, b * wide), w->row, w->chunk);
            w->v[i][b] =
                attend_lanes(&w->f.c, a->v, a->col, at, (uint16_t)w->chunk);
            w->f.c.n_pairs = n_pairs;
        }
    }
}

/* ---- some keys ---- */

/* w->x: the function of the scores of the thread's keys and rows. */
static void
make_fragment_scores(struct fragment_work *w)
{
    const struct uop *zero = uop_const_float(w->f.c.g, UOP_F32, 0), *sum, *at;
    uint32_t n, s, i, n_pairs = w->f.c.n_pairs, each = w->m.each;

    for (n = 0; n < w->tiles; n++) {
        sum = expand_broadcast(w->f.c.e, zero, (uint16_t)w->lanes);
        for (s = 0; s < w->in / STEP; s++)
            sum = fragment_product(
                w, w->q[s], take_step(w, &w->k[n][s * w->taken / CHUNK], 1, s),
                sum);
        for (i = 0; i < each * w->halves; i++) {
            at = scored_key(w, n, i % each);
            attend_let_row(&w->f.c, fragment_row_inside(w, i / each));
            w->x[n][i] = attend_few_seen(&w->f, attend_few_lane(&w->f, sum, i),
                                         at, n_pairs);
        }
        for (; i < w->lanes; i++)
            w->x[n][i] = zero;
    }
}

/* w->x becomes E; ACC_SETs of M and L, to effects[]. */
static uint32_t
make_fragment_exps(struct fragment_work *w, const struct uop **effects)
{
    const struct uop *old, *max, *safe, *sum, *x;
    uint32_t half, n, i, n_effects = 0, each = w->m.each;

    for (half = 0; half < w->halves; half++) {
        old = attend_get(&w->f.c, w->max[half], w->f.range);
        max = w->x[0][each * half];
        for (i = 1; i < w->tiles * each; i++)
            max = uop_alu2(w->f.c.g, UOP_MAX, max,
                           w->x[i / each][each * half + i % each]);
        max = uop_alu2(w->f.c.g, UOP_MAX, old,
                       join_fragment_row(w, UOP_MAX, max));
        safe = attend_safe(&w->f.c, max);
        w->scale[half] = attend_rescale(&w->f.c, old, safe);
        sum = uop_alu2(w->f.c.g, UOP_MUL,
                       attend_get(&w->f.c, w->sum[half], w->f.range),
                       w->scale[half]);
        for (n = 0; n < w->tiles; n++) {
            for (i = each * half; i < each * (half + 1); i++) {
                x = attend_exp(&w->f.c, w->x[n][i], safe);
                sum = uop_alu2(w->f.c.g, UOP_ADD, sum, x);
                w->x[n][i] = x;
            }
        }
        effects[n_effects++] = attend_set(&w->f.c, w->max[half], max);
        effects[n_effects++] = attend_set(&w->f.c, w->sum[half], sum);
    }
    return n_effects;
}

/* E of the keys of step s as an operand, rounded. */
static const struct uop *
round_fragment_part(const struct fragment_work *w, uint32_t s)
{
    const struct uop *part[MAX_LANES], *u;
    uint32_t i;

    for (i = 0; i < w->m.tiles * w->lanes; i++)
        part[i] = w->x[w->m.tiles * s + i / w->lanes][i % w->lanes];
    u = attend_few_lanes(&w->f, part, i);
    return uop_make(w->f.c.g, UOP_CAST, w->f.c.a->v->dtype, u->lanes, no_arg,
                    &u, 1);
}

/* O * scale. */
static const struct uop *
scale_rows(const struct fragment_work *w, const struct uop *acc)
{
    const struct uop *part[MAX_LANES];
    uint32_t i;

    if (w->m.halves == 1)
        return uop_alu2(w->f.c.g, UOP_MUL, acc,
                        expand_broadcast(w->f.c.e, w->scale[0], acc->lanes));
    for (i = 0; i < acc->lanes; i++) {
        part[i] = attend_few_lane(&w->f, acc, i);
        if (i < w->m.each * w->halves)
            part[i] =
                uop_alu2(w->f.c.g, UOP_MUL, part[i], w->scale[i / w->m.each]);
    }
    return attend_few_lanes(&w->f, part, i);
}

/* Tile n of the columns: O * scale + E @ v. */
static const struct uop *
add_fragment_values(const struct fragment_work *w, const struct uop *const *p,
                    uint32_t n)
{
    const struct uop *acc = attend_get(&w->f.c, w->out[n], w->f.range),
                     *part[MAX_LANES];
    uint32_t s, i;

    acc = scale_rows(w, acc);
    for (s = 0; s < w->f.keys / STEP; s++) {
        for (i = 0; i < w->taken; i++)
            part[i] = attend_few_lane(
                &w->f, w->v[w->taken * s + i][n / w->chunk], n % w->chunk);
        acc = fragment_product(w, p[s], attend_few_lanes(&w->f, part, w->taken),
                               acc);
    }
    return acc;
}

/* The loop over keys; its END. */
static const struct uop *
make_fragment_loop(struct fragment_work *w)
{
    const struct uop *tiles, *src[1 + 4 + MAX_TILES], *p[MAX_KEYS];
    union uop_arg arg = {.i = uop_range_arg(w->f.c.a->key, UOP_AXIS_REDUCE)};
    uint32_t i, n = 0;

    tiles = attend_all_tiles(&w->f.c);
    w->f.range = uop_new(w->f.c.g, UOP_RANGE, UOP_I64, 1, arg, &tiles, 1);
    src[n++] = w->f.range;
    load_fragment_keys(w);
    make_fragment_scores(w);
    n += make_fragment_exps(w, src + n);
    for (i = 0; i < w->f.keys / STEP; i++)
        p[i] = round_fragment_part(w, i);
    for (i = 0; i < w->f.cols / w->m.span; i++)
        src[n++] = attend_set(&w->f.c, w->out[i], add_fragment_values(w, p, i));
    return uop_new(w->f.c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
}

/* ---- what is joined ---- */

static const struct uop *
store_state(const struct fragment_work *w, const struct uop *at,
            const struct uop *value, const struct uop *gate)
{
    const struct uop *src[4] = {w->f.state, at, value, gate};

    return uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
}

/* Columns of half a row that lie side by side, to LOCAL memory; how many STOREs
 * that is. */
static uint32_t
put_columns(const struct fragment_work *w, uint32_t half, const struct uop *end,
            const struct uop *place, const struct uop *gate,
            const struct uop **effects)
{
    uint32_t piece = w->chunk < PIECE ? w->chunk : PIECE, each = w->m.each, i,
             j, t, n = 0;
    const struct uop *part[PIECE], *at;

    for (t = 0; t < w->f.cols / w->m.span; t += piece) {
        for (i = 0; i < each; i++) {
            for (j = 0; j < piece; j++)
                part[j] = attend_few_lane(
                    &w->f, attend_get(&w->f.c, w->out[t + j], end),
                    each * half + i);
            at = op2(&w->f.c, UOP_ADD, attend_few_out(&w->f, place),
                     t / w->chunk * w->chunk * w->m.span + w->chunk * i +
                         t % w->chunk);
            at = step(&w->f.c, at, w->part, w->chunk * each);
            effects[n++] =
                store_state(w, at, attend_few_lanes(&w->f, part, piece), gate);
        }
    }
    return n;
}

/* M, L and O of each row, to LOCAL memory; the BARRIER behind that. */
static const struct uop *
put_states(const struct fragment_work *w, const struct uop *end)
{
    const struct uop *effects[4 + MAX_TILES / 2 * MAX_LANES], *place, *gate,
        *first, *at;
    uint32_t half, n = 0;

    for (half = 0; half < w->halves; half++) {
        place = attend_few_place(&w->f, fragment_row_of(w, half));
        gate = op2(&w->f.c, UOP_CMPLT, fragment_row_of(w, half), w->f.rows);
        first = uop_alu2(w->f.c.g, UOP_AND, gate,
                         op2(&w->f.c, UOP_CMPEQ, w->part, 0));
        effects[n++] = store_state(
            w, place, attend_get(&w->f.c, w->max[half], end), first);
        at = op2(&w->f.c, UOP_ADD, place, attend_few_states(&w->f));
        effects[n++] =
            store_state(w, at,
                        join_fragment_row(
                            w, UOP_ADD, attend_get(&w->f.c, w->sum[half], end)),
                        first);
        n += put_columns(w, half, end, place, gate, effects + n);
    }
    return uop_new(w->f.c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, effects, n);
}

bell_status
expand_attend_few_matrix(struct kernel *k, const struct attend *a,
                         const struct uop **out_sink,
                         struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct fragment_work *w = arena_calloc(&k->mem, 1, sizeof(*w));
    const struct uop *zero = uop_const_float(k->g, UOP_F32, 0);
    uint32_t i;

    if (!w)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of attention: out of memory");
    attend_few_init(&w->f, &e, a);
    choose_fragment_sizes(w);
    BELL_TRY(attend_few_map_groups(&w->f, program));
    program->want_regs = count_fragment_regs(w);
    w->row =
        op2(&w->f.c, UOP_FLOORMOD,
            op2(&w->f.c, UOP_FLOORDIV, w->f.lane, w->m.row_every), w->m.span);
    w->part =
        op2(&w->f.c, UOP_FLOORMOD,
            op2(&w->f.c, UOP_FLOORDIV, w->f.lane, w->m.part_every), w->m.parts);
    for (i = 0; i < w->halves; i++) {
        w->max[i] = attend_acc(&w->f.c, low(&w->f.c), NULL, 0);
        w->sum[i] = attend_acc(&w->f.c, zero, NULL, 0);
    }
    zero = expand_broadcast(&e, zero, (uint16_t)w->lanes);
    for (i = 0; i < w->f.cols / w->m.span; i++)
        w->out[i] = attend_acc(&w->f.c, zero, NULL, 0);
    load_fragment_queries(w);
    *out_sink = attend_few_stores(&w->f, put_states(w, make_fragment_loop(w)));
    program->shared_bytes = e.shared_bytes;
    return uop_graph_status(w->f.c.g);
}
