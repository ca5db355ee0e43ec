/* Attention of some queries that share keys, by matrix instructions of CDNA and
 * RDNA 4 (lower/attention/attention.h), as decode_attention_nv.c has it for others.
 *
 * Both products are made with their operands exchanged: of the scores, thread
 * 16 p + c has keys of query c, which is what it has to have of E as an operand,
 * and of the results columns of the same query. So a wave has up to 16 rows of
 * queries, and each thread one M and one L.
 */
#include "lower/attention/decode_attention.h"

#define WAVES     4
#define MIN_ROWS  3   /* fewer: decode_attention.c */
#define MAX_WIDE  128 /* elements of a query, of a value */
#define CHUNK     8   /* elements that one access loads */
#define PIECE     4   /* words that are stored at a time, at most */
#define MAX_OWN   8
#define MAX_TILES (MAX_WIDE / 16)
#define MAX_KEYS  2 /* tiles of 16 keys of a wave at a time */

static const union uop_arg no_arg = {.bits = 0};

struct work {
    struct attend_few f;
    struct uop_wmma shape;
    uint32_t parts, own; /* threads / 16; what each has of an operand */
    uint32_t in, keys;   /* elements of a query; tiles of a wave's keys */
    uint32_t chunk;      /* columns of v that a thread loads together */
    const struct uop *c16, *part; /* lane % 16, / 16 */
    const struct uop *q[MAX_TILES];
    const struct uop *max, *sum, *out[MAX_TILES]; /* ACCs */
    /* of the present keys */
    const struct uop *k[MAX_KEYS][MAX_TILES];
    const struct uop *v[MAX_KEYS][MAX_OWN][MAX_TILES];
    const struct uop *x[MAX_KEYS][MAX_OWN];
    const struct uop *scale;
};

static struct uop_wmma
shape_of(const struct lower_target *t)
{
    return (struct uop_wmma){t->matrix_layout, 16, 16, 16};
}

/* Elements of k that the threads of a key load together. */
static uint32_t
block_of(const struct lower_target *t)
{
    return uop_wmma_threads(shape_of(t)) / 16 * CHUNK;
}

bool
attend_few_fits_amd(const struct kernel *k, const struct attend *a)
{
    const struct lower_target *t = k->target;

    return a->v->dtype != UOP_F32 && t->matrix_k[a->v->dtype] == 16 &&
           (t->matrix_layout == UOP_WMMA_CDNA ||
            t->matrix_layout == UOP_WMMA_RDNA4) &&
           attend_few_count(k, a) >= MIN_ROWS && k->sizes[a->in] <= MAX_WIDE &&
           k->sizes[a->in] % block_of(t) == 0 && k->sizes[a->col] <= MAX_WIDE &&
           k->sizes[a->col] % 32 == 0;
}

static void
choose_sizes(struct work *w)
{
    const struct kernel *k = w->f.c.e->k;
    uint32_t waves = WAVES;

    w->shape = shape_of(k->target);
    w->f.wave = uop_wmma_threads(w->shape);
    w->parts = w->f.wave / 16;
    w->own = uop_wmma_lanes(w->shape, UOP_WMMA_C);
    assert(w->own == uop_wmma_lanes(w->shape, UOP_WMMA_A));
    w->in = (uint32_t)k->sizes[w->f.c.a->in];
    for (w->chunk = CHUNK; w->f.cols % (16 * w->chunk);)
        w->chunk /= 2;
    w->f.rows = attend_few_rows(&w->f, ATTEND_FEW_MATRIX);
    w->keys = w->own == MAX_OWN ? 1 : MAX_KEYS;
    while (waves > 1 && waves / 2 * w->keys * 16 >= w->f.c.n_keys)
        waves /= 2;
    w->f.threads = waves * w->f.wave;
    w->f.keys = w->keys * 16;
    w->f.c.tile = (int64_t)waves * w->f.keys;
}

/* ---- short forms ---- */

static const struct uop *
wide(const struct work *w, const struct uop *u)
{
    return expand_broadcast(w->f.c.e, u, (uint16_t)w->own);
}

static const struct uop *
product(const struct work *w, const struct uop *a, const struct uop *b,
        const struct uop *sum)
{
    const struct uop *src[3] = {a, b, sum};
    union uop_arg arg = {.i = uop_wmma_arg(w->shape)};

    return uop_new(w->f.c.g, UOP_WMMA, UOP_F32, (uint16_t)w->own, arg, src, 3);
}

/* Of the threads that have a query. */
static const struct uop *
join_row(const struct work *w, enum uop_op op, const struct uop *u)
{
    uint32_t bit;

    for (bit = 16; bit < w->f.wave; bit *= 2) {
        union uop_arg arg = {.i = bit};
        u = uop_alu2(w->f.c.g, op, u,
                     uop_new(w->f.c.g, UOP_SHUFFLE, u->dtype, 1, arg, &u, 1));
    }
    return u;
}

/* ---- what is loaded ---- */

/* The thread's row of the work-group's, as one of those that there are. */
static const struct uop *
own_row(const struct work *w)
{
    const struct uop *row = w->c16;

    if (w->f.rows < ATTEND_FEW_MATRIX)
        row = op2(&w->f.c, UOP_MIN, row, w->f.rows - 1);
    return attend_few_row(&w->f, row);
}

/* Where the thread's elements of a block of q or k are. */
static const struct uop *
block_at(const struct work *w, uint32_t b)
{
    return step(&w->f.c, num(&w->f.c, b * w->parts * CHUNK), w->part, CHUNK);
}

/* What a step of a product takes of the block that was loaded for it. */
static const struct uop *
take_step(const struct work *w, const struct uop *const *blocks, uint32_t s)
{
    const struct uop *u = blocks[s * w->own / CHUNK], *part[MAX_OWN];
    uint32_t i;

    if (w->own == CHUNK)
        return u;
    for (i = 0; i < w->own; i++)
        part[i] = attend_few_lane(&w->f, u, s * w->own % CHUNK + i);
    return attend_few_lanes(&w->f, part, w->own);
}

static uint32_t
count_blocks(const struct work *w)
{
    return w->in / (w->parts * CHUNK);
}

static void
load_queries(struct work *w)
{
    const struct attend *a = w->f.c.a;
    const struct uop *block[MAX_TILES];
    uint32_t i, n_pairs = w->f.c.n_pairs;

    for (i = 0; i < count_blocks(w); i++) {
        attend_let_row(&w->f.c, own_row(w));
        block[i] = attend_lanes(&w->f.c, a->q, a->in, block_at(w, i), CHUNK);
        w->f.c.n_pairs = n_pairs;
    }
    for (i = 0; i < w->in / 16; i++)
        w->q[i] = take_step(w, block, i);
}

/* Key number i of those of tile n that the thread has the scores of. */
static const struct uop *
scored_key(const struct work *w, uint32_t n, uint32_t i)
{
    return step(&w->f.c, num(&w->f.c, 16 * n + i), w->part, w->own);
}

static void
load_keys(struct work *w)
{
    const struct attend *a = w->f.c.a;
    uint32_t n, i, b, n_pairs = w->f.c.n_pairs;
    const struct uop *at;

    for (n = 0; n < w->keys; n++) {
        at = attend_few_key(&w->f, op2(&w->f.c, UOP_ADD, w->c16, 16 * n));
        for (b = 0; b < count_blocks(w); b++) {
            attend_let_range(&w->f.c, a->key, at);
            w->k[n][b] =
                attend_lanes(&w->f.c, a->k, a->in, block_at(w, b), CHUNK);
            w->f.c.n_pairs = n_pairs;
        }
    }
    for (n = 0; n < w->keys; n++) {
        for (i = 0; i < w->own; i++) {
            for (b = 0; b < w->f.cols / (16 * w->chunk); b++) {
                attend_let_range(&w->f.c, a->key,
                                 attend_few_key(&w->f, scored_key(w, n, i)));
                at = step(&w->f.c, num(&w->f.c, b * 16 * w->chunk), w->c16,
                          w->chunk);
                w->v[n][i][b] =
                    attend_lanes(&w->f.c, a->v, a->col, at, (uint16_t)w->chunk);
                w->f.c.n_pairs = n_pairs;
            }
        }
    }
}

/* ---- some keys ---- */

/* w->x: the function of the scores of the thread's keys. */
static void
make_scores(struct work *w)
{
    const struct uop *sum, *at;
    uint32_t n, s, i, n_pairs = w->f.c.n_pairs;

    for (n = 0; n < w->keys; n++) {
        sum = wide(w, uop_const_float(w->f.c.g, UOP_F32, 0));
        for (s = 0; s < w->in / 16; s++)
            sum = product(w, take_step(w, w->k[n], s), w->q[s], sum);
        for (i = 0; i < w->own; i++) {
            at = scored_key(w, n, i);
            attend_let_row(&w->f.c, own_row(w));
            w->x[n][i] = attend_few_seen(&w->f, attend_few_lane(&w->f, sum, i),
                                         at, n_pairs);
        }
    }
}

/* w->x becomes E; ACC_SETs of M and L, to effects[2]. */
static void
make_exps(struct work *w, const struct uop **effects)
{
    const struct uop *old = attend_get(&w->f.c, w->max, w->f.range), *safe,
                     *max = w->x[0][0], *sum;
    uint32_t n, i;

    for (n = 0; n < w->keys; n++) {
        for (i = n == 0; i < w->own; i++)
            max = uop_alu2(w->f.c.g, UOP_MAX, max, w->x[n][i]);
    }
    max = uop_alu2(w->f.c.g, UOP_MAX, old, join_row(w, UOP_MAX, max));
    safe = attend_safe(&w->f.c, max);
    w->scale = attend_exp(&w->f.c, old, safe);
    sum = uop_alu2(w->f.c.g, UOP_MUL, attend_get(&w->f.c, w->sum, w->f.range),
                   w->scale);
    for (n = 0; n < w->keys; n++) {
        for (i = 0; i < w->own; i++) {
            w->x[n][i] = attend_exp(&w->f.c, w->x[n][i], safe);
            sum = uop_alu2(w->f.c.g, UOP_ADD, sum, w->x[n][i]);
        }
    }
    effects[0] = attend_set(&w->f.c, w->max, max);
    effects[1] = attend_set(&w->f.c, w->sum, sum);
}

/* Tile t of the columns: O * scale + E @ v. */
static const struct uop *
add_values(const struct work *w, const struct uop *const *p, uint32_t t)
{
    const struct uop *acc = attend_get(&w->f.c, w->out[t], w->f.range),
                     *part[MAX_OWN];
    uint32_t n, i;

    acc = uop_alu2(w->f.c.g, UOP_MUL, acc, wide(w, w->scale));
    for (n = 0; n < w->keys; n++) {
        for (i = 0; i < w->own; i++)
            part[i] =
                attend_few_lane(&w->f, w->v[n][i][t / w->chunk], t % w->chunk);
        acc = product(w, attend_few_lanes(&w->f, part, w->own), p[n], acc);
    }
    return acc;
}

/* The loop over keys; its END. */
static const struct uop *
make_loop(struct work *w)
{
    const struct uop *tiles, *src[3 + MAX_TILES], *p[MAX_KEYS];
    union uop_arg arg = {.i = uop_range_arg(w->f.c.a->key, UOP_AXIS_REDUCE)};
    uint32_t i, n = 3;

    tiles = num(&w->f.c, (w->f.c.n_keys + w->f.c.tile - 1) / w->f.c.tile);
    w->f.range = uop_new(w->f.c.g, UOP_RANGE, UOP_I64, 1, arg, &tiles, 1);
    src[0] = w->f.range;
    load_keys(w);
    make_scores(w);
    make_exps(w, src + 1);
    for (i = 0; i < w->keys; i++) {
        p[i] = attend_few_lanes(&w->f, w->x[i], w->own);
        p[i] = uop_make(w->f.c.g, UOP_CAST, w->f.c.a->v->dtype,
                        (uint16_t)w->own, no_arg, &p[i], 1);
    }
    for (i = 0; i < w->f.cols / 16; i++)
        src[n++] = attend_set(&w->f.c, w->out[i], add_values(w, p, i));
    return uop_new(w->f.c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
}

/* ---- what is joined ---- */

/* M, L and O of each row, to LOCAL memory; the BARRIER behind that. */
static const struct uop *
put_states(const struct work *w, const struct uop *end)
{
    uint32_t piece = w->chunk < PIECE ? w->chunk : PIECE, t, i, j, n = 0;
    const struct uop *effects[2 + MAX_TILES / 2 * MAX_OWN], *part[PIECE], *at,
        *src[4] = {w->f.state}, *place = attend_few_place(&w->f, w->c16), *gate;

    gate = op2(&w->f.c, UOP_CMPLT, w->c16, w->f.rows);
    src[3] =
        uop_alu2(w->f.c.g, UOP_AND, gate, op2(&w->f.c, UOP_CMPEQ, w->part, 0));
    src[1] = place;
    src[2] = attend_get(&w->f.c, w->max, end);
    effects[n++] = uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
    src[1] = op2(&w->f.c, UOP_ADD, place, attend_few_states(&w->f));
    src[2] = join_row(w, UOP_ADD, attend_get(&w->f.c, w->sum, end));
    effects[n++] = uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
    src[3] = gate;
    for (t = 0; t < w->f.cols / 16; t += piece) {
        for (i = 0; i < w->own; i++) {
            for (j = 0; j < piece; j++)
                part[j] = attend_few_lane(
                    &w->f, attend_get(&w->f.c, w->out[t + j], end), i);
            at =
                op2(&w->f.c, UOP_ADD, attend_few_out(&w->f, place),
                    t / w->chunk * w->chunk * 16 + w->chunk * i + t % w->chunk);
            src[1] = step(&w->f.c, at, w->part, w->chunk * w->own);
            src[2] = attend_few_lanes(&w->f, part, piece);
            effects[n++] =
                uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
        }
    }
    return uop_new(w->f.c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, effects, n);
}

bell_status
expand_attend_few_amd(struct kernel *k, const struct attend *a,
                      const struct uop **out_sink,
                      struct lower_program *program)
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
    w->c16 = op2(&w->f.c, UOP_FLOORMOD, w->f.lane, 16);
    w->part = op2(&w->f.c, UOP_FLOORDIV, w->f.lane, 16);
    w->max = attend_acc(&w->f.c, low(&w->f.c), NULL, 0);
    w->sum = attend_acc(&w->f.c, zero, NULL, 0);
    for (i = 0; i < w->f.cols / 16; i++)
        w->out[i] = attend_acc(&w->f.c, wide(w, zero), NULL, 0);
    load_queries(w);
    *out_sink = attend_few_stores(&w->f, put_states(w, make_loop(w)));
    program->shared_bytes = e.shared_bytes;
    return uop_graph_status(w->f.c.g);
}
