/* Attention of few queries on a GPU, as a token's that is decoded
 * (lower/expand/attend.h): what takes time is reading k and v once.
 *
 * A work-group has all rows of queries. `share` threads have a key: each loads
 * a part of it, multiplies that with its part of every query, and the sums are
 * joined by exchanges. Each such group of threads goes through its own keys,
 * some at a time, with an M, an L and an O of its own; in the end these are
 * joined, within 32 threads by exchanges, then through LOCAL memory.
 */
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "lower/expand/attend_code.h"

#define WARP       32u /* threads that exchange */
#define MAX_PARTS  8   /* chunks of a query or a value that a thread has */
#define MAX_TOTAL  128 /* words of queries and results that it has */
#define MAX_CHUNK  8   /* elements */
#define UNROLL     4   /* keys of a thread at a time */
#define THREADS    256
#define OTHER_REGS 24 /* of a thread, but queries, results and what is loaded */

static const union uop_arg no_arg = {.bits = 0};

struct work {
    struct attend_code c;
    uint32_t rows, share, chunk, unroll; /* rows: of a work-group */
    const struct uop *row0;              /* the first */
    uint32_t n_in, n_out; /* chunks of a thread, of q and k and of v */
    uint32_t threads;
    const struct uop *part;                          /* thread % share */
    const struct uop *lane, *warp;                   /* thread % WARP, / WARP */
    const struct uop *q[ATTEND_FEW_ROWS][MAX_PARTS]; /* F32 */
    const struct uop *max[ATTEND_FEW_ROWS], *sum[ATTEND_FEW_ROWS];
    const struct uop *out[ATTEND_FEW_ROWS][MAX_PARTS];
    const struct uop *range;
};

/* ---- sizes ---- */

static uint32_t
chunk_of(const struct uop *u)
{
    return 16 / uop_dtype_infos[u->dtype].size_bytes;
}

/* Threads that have a key; 0 where its elements cannot be shared out so. */
static uint32_t
find_share(const struct kernel *k, const struct attend *a)
{
    int64_t in = k->sizes[a->in], out = k->sizes[a->col];
    uint32_t share, chunk = chunk_of(a->k);

    for (share = WARP; share >= 2; share /= 2) {
        int64_t each = (int64_t)share * chunk;
        if (in % each == 0 && out % each == 0)
            return (in > out ? in : out) / each <= MAX_PARTS &&
                           (in + out) / share <= MAX_TOTAL
                       ? share
                       : 0;
    }
    return 0;
}

bool
attend_few_fits(const struct kernel *k, const struct attend *a)
{
    return k->sizes[a->key] >= ATTEND_FEW_KEYS && a->k->dtype == a->v->dtype &&
           find_share(k, a) != 0;
}

/* Words of LOCAL memory for results, maxima and sums. */
static uint32_t
count_words(const struct work *w)
{
    return w->threads / WARP * w->rows * (w->n_out * w->share * w->chunk + 2);
}

static void
choose_sizes(struct work *w)
{
    const struct kernel *k = w->c.e->k;
    const struct attend *a = w->c.a;
    int64_t most = ATTEND_FEW_ROWS;

    w->chunk = chunk_of(a->k);
    w->share = find_share(k, a);
    w->n_in = (uint32_t)k->sizes[a->in] / w->share / w->chunk;
    w->n_out = (uint32_t)k->sizes[a->col] / w->share / w->chunk;
    while (most * (w->n_in + w->n_out) * w->chunk > MAX_TOTAL)
        most--;
    /* of tiles that are as many, those that differ least */
    most = (w->c.n_rows + most - 1) / most;
    w->rows = (uint32_t)((w->c.n_rows + most - 1) / most);
    w->unroll = w->rows * (w->n_in + w->n_out) * w->chunk <= MAX_TOTAL / 2
                    ? UNROLL
                    : UNROLL / 2;
    w->threads = THREADS;
    while (w->threads > 2 * WARP &&
           (4 * count_words(w) > k->target->max_shared_bytes ||
            (int64_t)(w->threads / 2 / w->share * w->unroll) >= w->c.n_keys))
        w->threads /= 2;
    w->c.tile = (int64_t)w->threads / w->share * w->unroll;
}

/* Registers for all that a step loads. */
static uint32_t
count_regs(const struct work *w)
{
    return (w->rows * w->chunk + w->unroll * 4) * (w->n_in + w->n_out) +
           OTHER_REGS;
}

/* ---- short forms ---- */

static const struct uop *
lane_of(const struct work *w, const struct uop *u, uint32_t i)
{
    union uop_arg arg = {.i = i};

    return uop_make(w->c.g, UOP_LANE, u->dtype, 1, arg, &u, 1);
}

static const struct uop *
wide(const struct work *w, const struct uop *u)
{
    return u->lanes == 1 ? expand_broadcast(w->c.e, u, (uint16_t)w->chunk) : u;
}

static const struct uop *
zeros(const struct work *w)
{
    return wide(w, uop_const_float(w->c.g, UOP_F32, 0));
}

static const struct uop *
as_words(const struct work *w, const struct uop *u)
{
    return u->dtype == UOP_F32
               ? u
               : uop_make(w->c.g, UOP_CAST, UOP_F32, u->lanes, no_arg, &u, 1);
}

static const struct uop *
exchange(const struct work *w, const struct uop *u, uint32_t bits)
{
    union uop_arg arg = {.i = bits};

    return uop_new(w->c.g, UOP_SHUFFLE, u->dtype, 1, arg, &u, 1);
}

/* Of threads whose numbers differ in bits `from` to `to` - 1; 7, 15 and 31 are
 * pairs, too, of those that have the same already, and the first two exchanges
 * that AMD's vectors know. */
static const struct uop *
join(const struct work *w, enum uop_op op, const struct uop *u, uint32_t from,
     uint32_t to)
{
    static const uint8_t bits[] = {1, 2, 7, 15, 31};
    uint32_t i;

    for (i = from; i < to; i++)
        u = uop_alu2(w->c.g, op, u,
                     exchange(w, u, from == 0 ? bits[i] : 1u << i));
    return u;
}

/* Number `row` of the work-group's rows, or the last that there is. */
static const struct uop *
own_row(const struct work *w, const struct uop *row)
{
    row = add(&w->c, w->row0, row);
    return w->c.n_rows % w->rows ? op2(&w->c, UOP_MIN, row, w->c.n_rows - 1)
                                 : row;
}

static const struct uop *
loop(struct work *w, int64_t extent)
{
    const struct uop *size = num(&w->c, extent);
    union uop_arg arg = {
        .i = uop_range_arg(w->c.e->k->n_ranges + w->c.e->n_accs++,
                           UOP_AXIS_REDUCE)};

    return uop_new(w->c.g, UOP_RANGE, UOP_I64, 1, arg, &size, 1);
}

/* ---- vectors ---- */

/* Chunk number i of what the thread has of u by range r, as words. */
static const struct uop *
load_part(struct work *w, const struct uop *u, uint32_t r, uint32_t i)
{
    const struct uop *at;

    at = op2(&w->c, UOP_ADD, w->part, (int64_t)i * w->share);
    at = op2(&w->c, UOP_MUL, at, w->chunk);
    return as_words(w, attend_lanes(&w->c, u, r, at, (uint16_t)w->chunk));
}

static void
load_queries(struct work *w)
{
    uint32_t row, i, n_pairs = w->c.n_pairs;

    for (row = 0; row < w->rows; row++) {
        for (i = 0; i < w->n_in; i++) {
            attend_let_row(&w->c, own_row(w, num(&w->c, row)));
            w->q[row][i] = load_part(w, w->c.a->q, w->c.a->in, i);
            w->c.n_pairs = n_pairs;
        }
    }
}

/* ---- some keys ---- */

/* Number `i` of the thread's keys of this step, and the same as one of those
 * that there are; *ok: it is one. NULL: it always is. */
static const struct uop *
own_key(const struct work *w, uint32_t i, const struct uop *now,
        const struct uop **ok)
{
    uint32_t groups = w->threads / w->share;
    const struct uop *key;

    key = op2(&w->c, UOP_FLOORDIV, w->c.e->tid, w->share);
    key = op2(&w->c, UOP_ADD, key, (int64_t)i * groups);
    key = step(&w->c, key, now, w->c.tile);
    *ok = NULL;
    if (w->c.n_keys % w->c.tile == 0)
        return key;
    *ok = op2(&w->c, UOP_CMPLT, key, w->c.n_keys);
    return op2(&w->c, UOP_MIN, key, w->c.n_keys - 1);
}

/* The function of the scores of a key, for each row. */
static void
see_key(struct work *w, const struct uop *key, const struct uop *ok,
        const struct uop **x)
{
    const struct attend *a = w->c.a;
    const struct uop *part[MAX_PARTS], *s;
    uint32_t row, i, j, n_pairs = w->c.n_pairs;

    for (i = 0; i < w->n_in; i++) {
        attend_let_range(&w->c, a->key, key);
        part[i] = load_part(w, a->k, a->in, i);
        w->c.n_pairs = n_pairs;
    }
    for (row = 0; row < w->rows; row++) {
        s = uop_const_float(w->c.g, UOP_F32, 0);
        for (i = 0; i < w->n_in; i++) {
            for (j = 0; j < w->chunk; j++)
                s = uop_alu3(w->c.g, UOP_MULACC, lane_of(w, w->q[row][i], j),
                             lane_of(w, part[i], j), s);
        }
        s = join(w, UOP_ADD, s, 0, log2_floor(w->share));
        attend_let(&w->c, w->c.factor ? w->c.scaled : a->score, s);
        attend_let_range(&w->c, a->key, key);
        attend_let_row(&w->c, own_row(w, num(&w->c, row)));
        x[row] = attend_value(&w->c, a->seen, n_pairs);
        if (ok)
            x[row] = uop_alu3(w->c.g, UOP_WHERE, ok, x[row], low(&w->c));
    }
}

/* The row's values x[] as factors of v, effects that set its M and L; the
 * factor of what it had before. */
static const struct uop *
make_exps(struct work *w, uint32_t row, const struct uop **x,
          const struct uop **effects)
{
    const struct uop *old = attend_get(&w->c, w->max[row], w->range), *scale,
                     *sum = attend_get(&w->c, w->sum[row], w->range),
                     *max = old, *safe;
    uint32_t i, n_pairs = w->c.n_pairs;

    for (i = 0; i < w->unroll; i++)
        max = uop_alu2(w->c.g, UOP_MAX, max, x[i]);
    safe = attend_safe(&w->c, max);
    scale = attend_exp(&w->c, old, safe);
    sum = uop_alu2(w->c.g, UOP_MUL, sum, scale);
    for (i = 0; i < w->unroll; i++) {
        x[i] = attend_exp(&w->c, x[i], safe);
        sum = uop_alu2(w->c.g, UOP_ADD, sum, x[i]);
        attend_let(&w->c, w->c.a->exp, x[i]);
        x[i] = attend_value(&w->c, w->c.a->weight, n_pairs);
    }
    effects[0] = attend_set(&w->c, w->max[row], max);
    effects[1] = attend_set(&w->c, w->sum[row], sum);
    return scale;
}

/* The loop over keys; its END. */
static const struct uop *
make_loop(struct work *w)
{
    const struct attend *a = w->c.a;
    const struct uop *x[UNROLL][ATTEND_FEW_ROWS], *own[UNROLL], *ok[UNROLL],
        *value[UNROLL][MAX_PARTS], *scale, *acc, *tiles,
        *src[1 + ATTEND_FEW_ROWS * (2 + MAX_PARTS)];
    union uop_arg arg = {.i = uop_range_arg(a->key, UOP_AXIS_REDUCE)};
    uint32_t u, row, i, n = 0, n_pairs = w->c.n_pairs;

    tiles = num(&w->c, (w->c.n_keys + w->c.tile - 1) / w->c.tile);
    w->range = uop_new(w->c.g, UOP_RANGE, UOP_I64, 1, arg, &tiles, 1);
    src[n++] = w->range;
    for (u = 0; u < w->unroll; u++) { /* under way while keys are seen */
        own[u] = own_key(w, u, w->range, &ok[u]);
        for (i = 0; i < w->n_out; i++) {
            attend_let_range(&w->c, a->key, own[u]);
            value[u][i] = load_part(w, a->v, a->col, i);
            w->c.n_pairs = n_pairs;
        }
    }
    for (u = 0; u < w->unroll; u++)
        see_key(w, own[u], ok[u], x[u]);
    for (row = 0; row < w->rows; row++) {
        const struct uop *p[UNROLL];
        for (u = 0; u < w->unroll; u++)
            p[u] = x[u][row];
        scale = make_exps(w, row, p, src + n);
        n += 2;
        for (i = 0; i < w->n_out; i++) {
            acc = attend_get(&w->c, w->out[row][i], w->range);
            acc = uop_alu2(w->c.g, UOP_MUL, acc, wide(w, scale));
            for (u = 0; u < w->unroll; u++)
                acc = uop_alu3(w->c.g, UOP_MULACC, wide(w, p[u]), value[u][i],
                               acc);
            src[n++] = attend_set(&w->c, w->out[row][i], acc);
        }
    }
    return uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
}

/* ---- joining ---- */

/* Of the threads that exchange: each row's M, L and O, O's last, to LOCAL
 * memory; the BARRIER behind that. */
static const struct uop *
join_warps(struct work *w, const struct uop *memory, const struct uop *end)
{
    uint32_t from = log2_floor(w->share), to = log2_floor(WARP), row, i, j;
    uint32_t cols = w->n_out * w->share * w->chunk, n = 0;
    uint32_t states = w->threads / WARP * w->rows;
    const struct uop *max, *f, *part[MAX_CHUNK], *at, *place,
        *gate = op2(&w->c, UOP_CMPLT, w->lane, w->share),
        *effects[ATTEND_FEW_ROWS * (2 + MAX_PARTS * MAX_CHUNK)],
        *src[4] = {memory, NULL, NULL, gate};

    for (row = 0; row < w->rows; row++) {
        const struct uop *old = attend_get(&w->c, w->max[row], end);
        place = step(&w->c, num(&w->c, row), w->warp, w->rows);
        max = join(w, UOP_MAX, old, from, to);
        f = attend_exp(&w->c, old, attend_safe(&w->c, max));
        src[1] = place;
        src[2] = max;
        effects[n++] = uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
        src[1] = op2(&w->c, UOP_ADD, place, states);
        src[2] =
            uop_alu2(w->c.g, UOP_MUL, f, attend_get(&w->c, w->sum[row], end));
        src[2] = join(w, UOP_ADD, src[2], from, to);
        effects[n++] = uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
        for (i = 0; i < w->n_out; i++) {
            const struct uop *out = attend_get(&w->c, w->out[row][i], end);
            out = uop_alu2(w->c.g, UOP_MUL, out, wide(w, f));
            for (j = 0; j < w->chunk; j++)
                part[j] = join(w, UOP_ADD, lane_of(w, out, j), from, to);
            at = op2(&w->c, UOP_ADD, w->part, (int64_t)i * w->share);
            at = op2(&w->c, UOP_MUL, at, w->chunk);
            at = step(&w->c, op2(&w->c, UOP_ADD, at, 2 * states), place, cols);
            for (j = 0; j < w->chunk; j++) {
                src[1] = op2(&w->c, UOP_ADD, at, j);
                src[2] = part[j];
                effects[n++] =
                    uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
            }
        }
    }
    return uop_new(w->c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, effects, n);
}

static const struct uop *
load(const struct work *w, const struct uop *memory, const struct uop *at)
{
    const struct uop *src[2] = {memory, at};

    return uop_make(w->c.g, UOP_LOAD, UOP_F32, 1, no_arg, src, 2);
}

/* Stores what is made of every row and column; an END. */
static const struct uop *
make_stores(struct work *w, const struct uop *memory)
{
    const struct attend *a = w->c.a;
    uint32_t cols = w->n_out * w->share * w->chunk, all = w->rows * cols, i;
    uint32_t warps = w->threads / WARP, states = warps * w->rows;
    uint32_t n_pairs = w->c.n_pairs, n = 1;
    const struct uop *range = loop(w, (all + w->threads - 1) / w->threads),
                     *row, *col, *max, *sum, *out, *f, *at, *gate,
                     *src[4] = {range}, *args[4] = {a->store->src[0]};

    at = step(&w->c, w->c.e->tid, range, w->threads);
    gate = all % w->threads ? op2(&w->c, UOP_CMPLT, at, all) : NULL;
    if (gate)
        at = op2(&w->c, UOP_MIN, at, all - 1);
    row = op2(&w->c, UOP_FLOORDIV, at, cols);
    if (w->c.n_rows % w->rows) {
        f = op2(&w->c, UOP_CMPLT, add(&w->c, w->row0, row), w->c.n_rows);
        gate = gate ? uop_alu2(w->c.g, UOP_AND, gate, f) : f;
    }
    col = op2(&w->c, UOP_FLOORMOD, at, cols);
    max = load(w, memory, row);
    for (i = 1; i < warps; i++)
        max = uop_alu2(w->c.g, UOP_MAX, max,
                       load(w, memory, op2(&w->c, UOP_ADD, row, i * w->rows)));
    sum = out = uop_const_float(w->c.g, UOP_F32, 0);
    for (i = 0; i < warps; i++) {
        at = op2(&w->c, UOP_ADD, row, i * w->rows);
        f = attend_exp(&w->c, load(w, memory, at), attend_safe(&w->c, max));
        sum = uop_alu3(w->c.g, UOP_MULACC, f,
                       load(w, memory, op2(&w->c, UOP_ADD, at, states)), sum);
        at = step(&w->c, op2(&w->c, UOP_ADD, col, 2 * states), at, cols);
        out = uop_alu3(w->c.g, UOP_MULACC, f, load(w, memory, at), out);
    }
    row = own_row(w, row);
    for (i = 1; i < 3; i++) {
        attend_let(&w->c, a->out, out);
        attend_let(&w->c, a->sum, sum);
        attend_let(&w->c, a->max, max);
        attend_let_row(&w->c, row);
        attend_let_range(&w->c, a->col, col);
        args[i] = attend_value(&w->c, a->store->src[i], n_pairs);
    }
    args[3] = gate;
    src[n++] =
        uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, args, gate ? 4 : 3);
    f = op2(&w->c, UOP_CMPEQ, col, 0);
    n += attend_store_kept(&w->c, row, sum, max,
                           gate ? uop_alu2(w->c.g, UOP_AND, f, gate) : f,
                           src + n);
    return uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
}

bell_status
expand_attend_few(struct kernel *k, const struct attend *a,
                  const struct uop **out_sink, struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct work *w = arena_calloc(&k->mem, 1, sizeof(*w));
    const struct uop *memory, *tile, *done;
    uint32_t row, i;
    uint64_t set;

    if (!w)
        return bell_fail(BELL_E_NO_MEMORY, "expansion of attention");
    w->c = (struct attend_code){.e = &e, .g = k->g, .a = a};
    w->c.n_rows = 1;
    for (set = a->few_rows; set; set &= set - 1)
        w->c.n_rows *= k->sizes[__builtin_ctzll(set)];
    w->c.n_keys = k->sizes[a->key];
    choose_sizes(w);
    attend_find_factor(&w->c);
    LOG(LOG_OPT, "attention: %u rows by %d keys at a time", w->rows,
        (int)w->c.tile);
    BELL_TRY(attend_map_groups(&w->c, (w->c.n_rows + w->rows - 1) / w->rows,
                               program, &tile));
    w->row0 = op2(&w->c, UOP_MUL, tile, w->rows);
    program->local[0] = w->threads;
    program->want_regs = count_regs(w);
    e.tid = attend_special(&w->c, 4, w->threads);
    w->part = op2(&w->c, UOP_FLOORMOD, e.tid, w->share);
    w->lane = op2(&w->c, UOP_FLOORMOD, e.tid, WARP);
    w->warp = op2(&w->c, UOP_FLOORDIV, e.tid, WARP);
    memory = expand_local(&e, UOP_F32, count_words(w));
    for (row = 0; row < w->rows; row++) {
        w->max[row] = attend_acc(&w->c, low(&w->c), NULL, 0);
        w->sum[row] =
            attend_acc(&w->c, uop_const_float(w->c.g, UOP_F32, 0), NULL, 0);
        for (i = 0; i < w->n_out; i++)
            w->out[row][i] = attend_acc(&w->c, zeros(w), NULL, 0);
    }
    load_queries(w);
    done = make_loop(w);
    done = join_warps(w, memory, done);
    done = make_stores(w, attend_after(&w->c, memory, &done, 1));
    *out_sink = uop_new(w->c.g, UOP_SINK, UOP_VOID, 1, no_arg, &done, 1);
    program->shared_bytes = e.shared_bytes;
    return uop_graph_status(w->c.g);
}
