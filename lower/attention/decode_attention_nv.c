/* Attention of some queries that share keys, by mma.sync (lower/attention/attention.h):
 * what takes time is reading k and v once, and without matrix instructions what
 * is done with them takes as long.
 *
 * A work-group has up to 16 rows of queries, the rows of a matrix instruction;
 * each of its warps goes through keys of its own with an M, an L and an O, which
 * are joined in the end. Nothing lies in LOCAL memory before that: a thread loads
 * 16 bytes of k, and those it has are any elements of the sum that the same thread
 * has of q; and 16 of v, which are of as many tiles of columns.
 */
#include "lower/attention/decode_attention.h"

#define MMA_WARPS  4
#define MIN_ROWS   3   /* fewer: decode_attention.c */
#define MAX_WIDE   128 /* elements of a query, of a value */
#define BLOCK      32  /* elements of k of which a thread has CHUNK */
#define CHUNK      8   /* elements that one access loads */
#define PIECE      4   /* words that are stored at a time */
#define MAX_STEPS  (MAX_WIDE / 16)
#define MAX_TILES  (MAX_WIDE / 8)
#define MAX_KEYS   32 /* of a warp at a time */
#define OTHER_REGS 40 /* of a thread, but operands and results */

static const union uop_arg no_arg = {.bits = 0};

static const struct uop_wmma mma = {UOP_WMMA_NV, 16, 8, 16};

struct work {
    struct attend_few f;
    uint32_t halves;           /* tiles of 8 rows */
    uint32_t in;               /* elements of a query */
    uint32_t chunk;            /* columns of v that a thread loads together */
    const struct uop *g8, *t4; /* lane / 4, % 4 */
    const struct uop *q[MAX_STEPS];
    const struct uop *max[2], *sum[2], *out[MAX_TILES]; /* ACCs */
    /* of the present keys */
    const struct uop *k[MAX_KEYS / 8][MAX_WIDE / BLOCK];
    const struct uop *v[MAX_KEYS / 4][MAX_WIDE / BLOCK];
    const struct uop *x[MAX_KEYS / 8][4];
    const struct uop *scale[2];
};

bool
attend_few_fits_nv(const struct kernel *k, const struct attend *a)
{
    const struct lower_target *t = k->target;

    return a->v->dtype != UOP_F32 && t->matrix_layout == UOP_WMMA_NV &&
           t->matrix_k[a->v->dtype] == 16 &&
           attend_few_count(k, a) >= MIN_ROWS && k->sizes[a->in] <= MAX_WIDE &&
           k->sizes[a->in] % BLOCK == 0 && k->sizes[a->col] <= MAX_WIDE &&
           k->sizes[a->col] % BLOCK == 0;
}

static void
choose_sizes(struct work *w)
{
    const struct kernel *k = w->f.c.e->k;
    uint32_t warps = MMA_WARPS;

    w->in = (uint32_t)k->sizes[w->f.c.a->in];
    w->chunk = w->f.cols % 64 == 0 ? CHUNK : CHUNK / 2;
    w->f.rows = attend_few_rows(&w->f, ATTEND_FEW_MATRIX);
    w->halves = w->f.rows > 8 ? 2 : 1;
    w->f.keys = w->in + w->f.cols <= MAX_WIDE ? MAX_KEYS : MAX_KEYS / 2;
    while (warps > 1 && warps / 2 * w->f.keys >= w->f.c.n_keys)
        warps /= 2;
    w->f.wave = 32;
    w->f.threads = warps * w->f.wave;
    w->f.c.tile = (int64_t)warps * w->f.keys;
}

/* Registers for q, results, and all that a step loads. */
static uint32_t
count_regs(const struct work *w)
{
    return w->halves * w->in / 8 + w->f.cols / 2 +
           w->f.keys * (w->in + w->f.cols) / 64 + OTHER_REGS;
}

/* ---- short forms ---- */

static const struct uop *
product(const struct work *w, const struct uop *a, const struct uop *b,
        const struct uop *sum)
{
    const struct uop *src[3] = {a, b, sum};
    union uop_arg arg = {.i = uop_wmma_arg(mma)};

    return uop_new(w->f.c.g, UOP_WMMA, UOP_F32, 4, arg, src, 3);
}

/* Of the four threads that have a row. */
static const struct uop *
join_row(const struct work *w, enum uop_op op, const struct uop *u)
{
    uint32_t bit;

    for (bit = 1; bit < 4; bit *= 2) {
        union uop_arg arg = {.i = bit};
        u = uop_alu2(w->f.c.g, op, u,
                     uop_new(w->f.c.g, UOP_SHUFFLE, u->dtype, 1, arg, &u, 1));
    }
    return u;
}

/* ---- what is loaded ---- */

/* The thread's row of a half, of the work-group's. */
static const struct uop *
row_of(const struct work *w, uint32_t half)
{
    return op2(&w->f.c, UOP_ADD, w->g8, 8 * half);
}

static const struct uop *
row_inside(const struct work *w, uint32_t half)
{
    const struct uop *row = row_of(w, half);

    if (w->f.rows % 8)
        row = op2(&w->f.c, UOP_MIN, row, w->f.rows - 1);
    return attend_few_row(&w->f, row);
}

static void
load_queries(struct work *w)
{
    const struct uop *zero = uop_const_int(w->f.c.g, w->f.c.a->q->dtype, 0);
    const struct uop *u[2] = {NULL}, *part[8], *at;
    uint32_t s, half, i, n_pairs = w->f.c.n_pairs;

    for (s = 0; s < w->in / 16; s++) {
        for (half = 0; half < w->halves && s % 2 == 0; half++) {
            attend_let_row(&w->f.c, row_inside(w, half));
            at = step(&w->f.c, num(&w->f.c, s / 2 * BLOCK), w->t4, CHUNK);
            u[half] =
                attend_lanes(&w->f.c, w->f.c.a->q, w->f.c.a->in, at, CHUNK);
            w->f.c.n_pairs = n_pairs;
        }
        /* two elements of a row, of the one 8 further, two more of each */
        for (i = 0; i < 8; i++)
            part[i] = u[i / 2 % 2]
                          ? attend_few_lane(&w->f, u[i / 2 % 2],
                                            s % 2 * 4 + i / 4 * 2 + i % 2)
                          : zero;
        w->q[s] = attend_few_lanes(&w->f, part, 8);
    }
}

/* What the thread has of the step's keys: of k those of its row of a tile of 8,
 * of v those that it has the scores of. */
static void
load_keys(struct work *w)
{
    const struct attend *a = w->f.c.a;
    uint32_t i, b, n_pairs = w->f.c.n_pairs;
    const struct uop *at;

    for (i = 0; i < w->f.keys / 8; i++) {
        for (b = 0; b < w->in / BLOCK; b++) {
            at = op2(&w->f.c, UOP_ADD, w->g8, 8 * i);
            attend_let_range(&w->f.c, a->key, attend_few_key(&w->f, at));
            at = step(&w->f.c, num(&w->f.c, b * BLOCK), w->t4, CHUNK);
            w->k[i][b] = attend_lanes(&w->f.c, a->k, a->in, at, CHUNK);
            w->f.c.n_pairs = n_pairs;
        }
    }
    for (i = 0; i < w->f.keys / 4; i++) {
        for (b = 0; b < w->f.cols / w->chunk / 8; b++) {
            at = step(&w->f.c, num(&w->f.c, i / 2 * 8 + i % 2), w->t4, 2);
            attend_let_range(&w->f.c, a->key, attend_few_key(&w->f, at));
            at = step(&w->f.c, num(&w->f.c, b * w->chunk * 8), w->g8, w->chunk);
            w->v[i][b] =
                attend_lanes(&w->f.c, a->v, a->col, at, (uint16_t)w->chunk);
            w->f.c.n_pairs = n_pairs;
        }
    }
}

/* ---- some keys ---- */

/* w->x: the function of the scores of the thread's keys and rows. */
static void
make_scores(struct work *w)
{
    const struct uop *zero = uop_const_float(w->f.c.g, UOP_F32, 0), *sum, *b[4],
                     *at;
    uint32_t n, s, i, n_pairs = w->f.c.n_pairs;

    for (n = 0; n < w->f.keys / 8; n++) {
        sum = expand_broadcast(w->f.c.e, zero, 4);
        for (s = 0; s < w->in / 16; s++) {
            for (i = 0; i < 4; i++)
                b[i] = attend_few_lane(&w->f, w->k[n][s / 2], s % 2 * 4 + i);
            sum = product(w, w->q[s], attend_few_lanes(&w->f, b, 4), sum);
        }
        for (i = 0; i < 2 * w->halves; i++) {
            at = step(&w->f.c, num(&w->f.c, 8 * n + i % 2), w->t4, 2);
            attend_let_row(&w->f.c, row_inside(w, i / 2));
            w->x[n][i] = attend_few_seen(&w->f, attend_few_lane(&w->f, sum, i),
                                         at, n_pairs);
        }
    }
}

/* w->x becomes E; ACC_SETs of M and L, to effects[]. */
static uint32_t
make_exps(struct work *w, const struct uop **effects)
{
    const struct uop *old, *max, *safe, *sum, *x;
    uint32_t half, n, i, n_effects = 0;

    for (half = 0; half < w->halves; half++) {
        old = attend_get(&w->f.c, w->max[half], w->f.range);
        max = w->x[0][2 * half];
        for (i = 1; i < w->f.keys / 4; i++)
            max =
                uop_alu2(w->f.c.g, UOP_MAX, max, w->x[i / 2][2 * half + i % 2]);
        max = uop_alu2(w->f.c.g, UOP_MAX, old, join_row(w, UOP_MAX, max));
        safe = attend_safe(&w->f.c, max);
        w->scale[half] = attend_exp(&w->f.c, old, safe);
        sum = uop_alu2(w->f.c.g, UOP_MUL,
                       attend_get(&w->f.c, w->sum[half], w->f.range),
                       w->scale[half]);
        for (n = 0; n < w->f.keys / 8; n++) {
            for (i = 2 * half; i < 2 * half + 2; i++) {
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

/* E of 16 keys as an operand, rounded. */
static const struct uop *
round_part(const struct work *w, uint32_t s)
{
    const struct uop *zero = uop_const_float(w->f.c.g, UOP_F32, 0), *part[8],
                     *u;
    uint32_t i;

    for (i = 0; i < 8; i++)
        part[i] = i % 4 < 2 * w->halves ? w->x[2 * s + i / 4][i % 4] : zero;
    u = attend_few_lanes(&w->f, part, 8);
    return uop_make(w->f.c.g, UOP_CAST, w->f.c.a->v->dtype, 8, no_arg, &u, 1);
}

/* Tile n of the columns: O * scale + E @ v. */
static const struct uop *
add_values(const struct work *w, const struct uop *const *p, uint32_t n)
{
    const struct uop *acc = attend_get(&w->f.c, w->out[n], w->f.range),
                     *part[4];
    uint32_t s, i;

    for (i = 0; i < 4; i++) {
        part[i] = attend_few_lane(&w->f, acc, i);
        if (i < 2 * w->halves)
            part[i] = uop_alu2(w->f.c.g, UOP_MUL, part[i], w->scale[i / 2]);
    }
    acc = attend_few_lanes(&w->f, part, 4);
    for (s = 0; s < w->f.keys / 16; s++) {
        for (i = 0; i < 4; i++)
            part[i] = attend_few_lane(&w->f, w->v[4 * s + i][n / w->chunk],
                                      n % w->chunk);
        acc = product(w, p[s], attend_few_lanes(&w->f, part, 4), acc);
    }
    return acc;
}

/* The loop over keys; its END. */
static const struct uop *
make_loop(struct work *w)
{
    const struct uop *tiles, *src[1 + 4 + MAX_TILES], *p[MAX_KEYS / 16];
    union uop_arg arg = {.i = uop_range_arg(w->f.c.a->key, UOP_AXIS_REDUCE)};
    uint32_t i, n = 0;

    tiles = num(&w->f.c, (w->f.c.n_keys + w->f.c.tile - 1) / w->f.c.tile);
    w->f.range = uop_new(w->f.c.g, UOP_RANGE, UOP_I64, 1, arg, &tiles, 1);
    src[n++] = w->f.range;
    load_keys(w);
    make_scores(w);
    n += make_exps(w, src + n);
    for (i = 0; i < w->f.keys / 16; i++)
        p[i] = round_part(w, i);
    for (i = 0; i < w->f.cols / 8; i++)
        src[n++] = attend_set(&w->f.c, w->out[i], add_values(w, p, i));
    return uop_new(w->f.c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
}

/* ---- what is joined ---- */

/* Columns of half a row that lie side by side, to LOCAL memory; how many STOREs
 * that is. */
static uint32_t
put_columns(const struct work *w, uint32_t half, const struct uop *const *out,
            const struct uop *place, const struct uop *gate,
            const struct uop **effects)
{
    const struct uop *src[4] = {w->f.state, NULL, NULL, gate}, *part[PIECE];
    uint32_t i, j, side, n = 0;

    for (i = 0; i < w->f.cols / 8; i += PIECE) {
        for (side = 0; side < 2; side++) {
            for (j = 0; j < PIECE; j++)
                part[j] = attend_few_lane(&w->f, out[i + j], 2 * half + side);
            src[1] = op2(&w->f.c, UOP_ADD, attend_few_out(&w->f, place),
                         i / w->chunk * w->chunk * 8 + w->chunk * side +
                             i % w->chunk);
            src[1] = step(&w->f.c, src[1], w->t4, 2 * w->chunk);
            src[2] = attend_few_lanes(&w->f, part, PIECE);
            effects[n++] =
                uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
        }
    }
    return n;
}

/* M, L and O of each row, to LOCAL memory; the BARRIER behind that. */
static const struct uop *
put_states(const struct work *w, const struct uop *end)
{
    const struct uop *effects[2 * (2 + 2 * MAX_TILES / PIECE)], *out[MAX_TILES],
        *src[4] = {w->f.state}, *place, *gate;
    uint32_t half, i, n = 0;

    for (i = 0; i < w->f.cols / 8; i++)
        out[i] = attend_get(&w->f.c, w->out[i], end);
    for (half = 0; half < w->halves; half++) {
        place = attend_few_place(&w->f, row_of(w, half));
        gate = op2(&w->f.c, UOP_CMPLT, row_of(w, half), w->f.rows);
        src[3] = uop_alu2(w->f.c.g, UOP_AND, gate,
                          op2(&w->f.c, UOP_CMPEQ, w->t4, 0));
        src[1] = place;
        src[2] = attend_get(&w->f.c, w->max[half], end);
        effects[n++] =
            uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
        src[1] = op2(&w->f.c, UOP_ADD, place, attend_few_states(&w->f));
        src[2] = join_row(w, UOP_ADD, attend_get(&w->f.c, w->sum[half], end));
        effects[n++] =
            uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
        n += put_columns(w, half, out, place, gate, effects + n);
    }
    return uop_new(w->f.c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, effects, n);
}

bell_status
expand_attend_few_nv(struct kernel *k, const struct attend *a,
                     const struct uop **out_sink, struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct work *w = arena_calloc(&k->mem, 1, sizeof(*w));
    const struct uop *zero = uop_const_float(k->g, UOP_F32, 0);
    uint32_t i;

    if (!w)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of attention: out of memory");
    attend_few_init(&w->f, &e, a);
    choose_sizes(w);
    BELL_TRY(attend_few_map_groups(&w->f, program));
    program->want_regs = count_regs(w);
    w->g8 = op2(&w->f.c, UOP_FLOORDIV, w->f.lane, 4);
    w->t4 = op2(&w->f.c, UOP_FLOORMOD, w->f.lane, 4);
    for (i = 0; i < w->halves; i++) {
        w->max[i] = attend_acc(&w->f.c, low(&w->f.c), NULL, 0);
        w->sum[i] = attend_acc(&w->f.c, zero, NULL, 0);
    }
    for (i = 0; i < w->f.cols / 8; i++)
        w->out[i] = attend_acc(&w->f.c, expand_broadcast(&e, zero, 4), NULL, 0);
    load_queries(w);
    *out_sink = attend_few_stores(&w->f, put_states(w, make_loop(w)));
    program->shared_bytes = e.shared_bytes;
    return uop_graph_status(w->f.c.g);
}
