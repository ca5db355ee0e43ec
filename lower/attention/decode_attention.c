/* Attention of few queries on a GPU, as a token's that is decoded
 * (lower/attention/attention.h): what takes time is reading k and v once.
 *
 * A work-group has all rows of queries. `share` threads have a key: each loads
 * a part of it, multiplies that with its part of every query, and the sums are
 * joined by exchanges. Each such group of threads goes through its own keys,
 * some at a time, with an M, an L and an O of its own; in the end these are
 * joined, within 32 threads by exchanges, then through LOCAL memory.
 */

#include "base/bits.h"
#include "base/log.h"
#include "lower/attention/decode_attention.h"

/* guess: numbers that say so were not compared with others. */
#define WARP       32u /* threads that exchange */
#define MAX_PARTS  8   /* chunks of a query or a value that a thread has */
#define MAX_TOTAL  128 /* words of queries and results that it has. guess */
#define MAX_CHUNK  8   /* elements */
#define PIECE      4   /* words that are stored at a time */
#define UNROLL     4   /* keys of a thread at a time. guess */
#define THREADS    256 /* guess */
#define OTHER_REGS 24  /* but queries, results and what is loaded. guess */

static const union uop_arg no_arg = {.bits = 0};

struct decode_work {
    struct attend_few f;
    uint32_t share, chunk, unroll;
    uint32_t n_in, n_out;   /* chunks of a thread, of q and k and of v */
    const struct uop *part; /* thread % share */
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
    return attend_most(k, a->key) >= ATTEND_FEW_KEYS &&
           a->k->dtype == a->v->dtype && find_share(k, a) != 0;
}

static void
choose_decode_sizes(struct decode_work *w)
{
    const struct kernel *k = w->f.c.e->k;
    const struct attend *a = w->f.c.a;
    int64_t most = ATTEND_FEW_ROWS;

    w->chunk = chunk_of(a->k);
    w->share = find_share(k, a);
    w->n_in = (uint32_t)k->sizes[a->in] / w->share / w->chunk;
    w->n_out = (uint32_t)k->sizes[a->col] / w->share / w->chunk;
    while (most * (w->n_in + w->n_out) * w->chunk > MAX_TOTAL)
        most--;
    w->f.rows = attend_few_rows(&w->f, most);
    w->unroll = w->f.rows * (w->n_in + w->n_out) * w->chunk <= MAX_TOTAL / 2
                    ? UNROLL
                    : UNROLL / 2;
    w->f.wave = WARP;
    w->f.threads = THREADS;
    while (
        w->f.threads > 2 * WARP &&
        (4 * attend_few_words(&w->f) > k->target->max_shared_bytes ||
         (int64_t)(w->f.threads / 2 / w->share * w->unroll) >= w->f.c.n_keys))
        w->f.threads /= 2;
    w->f.c.tile = (int64_t)w->f.threads / w->share * w->unroll;
}

/* Registers for all that a step loads, and its scores. observed: ptxas 13,
 * 2026-11-28: without those of scores 8 rows of float32 were spilled. */
static uint32_t
count_decode_regs(const struct decode_work *w)
{
    return (w->f.rows * w->chunk + w->unroll * 4) * (w->n_in + w->n_out) +
           w->f.rows * w->unroll + OTHER_REGS;
}

/* ---- short forms ---- */

static const struct uop *
wide(const struct decode_work *w, const struct uop *u)
{
    return u->lanes == 1 ? expand_broadcast(w->f.c.e, u, (uint16_t)w->chunk)
                         : u;
}

static const struct uop *
decode_zeros(const struct decode_work *w)
{
    return wide(w, uop_const_float(w->f.c.g, UOP_F32, 0));
}

static const struct uop *
as_words(const struct decode_work *w, const struct uop *u)
{
    return u->dtype == UOP_F32
               ? u
               : uop_make(w->f.c.g, UOP_CAST, UOP_F32, u->lanes, no_arg, &u, 1);
}

static const struct uop *
exchange(const struct decode_work *w, const struct uop *u, uint32_t bits)
{
    union uop_arg arg = {.i = bits};

    return uop_new(w->f.c.g, UOP_SHUFFLE, u->dtype, 1, arg, &u, 1);
}

/* Joins the values of threads whose numbers differ in bits `from` to `to` - 1.
 * Exchanges 7, 15 and 31 also pair threads whose values are the same by then;
 * AMD's vector instructions know the first two. */
static const struct uop *
join(const struct decode_work *w, enum uop_op op, const struct uop *u,
     uint32_t from, uint32_t to)
{
    static const uint8_t bits[] = {1, 2, 7, 15, 31};
    uint32_t i;

    for (i = from; i < to; i++)
        u = uop_alu2(w->f.c.g, op, u,
                     exchange(w, u, from == 0 ? bits[i] : 1u << i));
    return u;
}

/* ---- vectors ---- */

/* Chunk number i of what the thread has of u by range r, as words. */
static const struct uop *
load_decode_part(struct decode_work *w, const struct uop *u, uint32_t r,
                 uint32_t i)
{
    const struct uop *at;

    at = op2(&w->f.c, UOP_ADD, w->part, (int64_t)i * w->share);
    at = op2(&w->f.c, UOP_MUL, at, w->chunk);
    return as_words(w, attend_lanes(&w->f.c, u, r, at, (uint16_t)w->chunk));
}

static void
load_decode_queries(struct decode_work *w)
{
    uint32_t row, i, n_pairs = w->f.c.n_pairs;

    for (row = 0; row < w->f.rows; row++) {
        for (i = 0; i < w->n_in; i++) {
            attend_let_row(&w->f.c, attend_few_row(&w->f, num(&w->f.c, row)));
            w->q[row][i] = load_decode_part(w, w->f.c.a->q, w->f.c.a->in, i);
            w->f.c.n_pairs = n_pairs;
        }
    }
}

/* ---- some keys ---- */

/* Number `i` of the thread's keys of this step, and the same as one of those
 * that there are; *ok: it is one. NULL: it always is. */
static const struct uop *
own_key(const struct decode_work *w, uint32_t i, const struct uop *now,
        const struct uop **ok)
{
    uint32_t groups = w->f.threads / w->share;
    const struct uop *key;

    key = op2(&w->f.c, UOP_FLOORDIV, w->f.c.e->tid, w->share);
    key = op2(&w->f.c, UOP_ADD, key, (int64_t)i * groups);
    key = step(&w->f.c, key, now, w->f.c.tile);
    *ok = attend_inside(&w->f.c, w->f.c.a->key, key, w->f.c.tile);
    return attend_clamp(&w->f.c, w->f.c.a->key, key, w->f.c.tile);
}

/* The function of the scores of a key, for each row. */
static void
see_key(struct decode_work *w, const struct uop *key, const struct uop *ok,
        const struct uop **x)
{
    const struct attend *a = w->f.c.a;
    const struct uop *part[MAX_PARTS], *s;
    uint32_t row, i, j, n_pairs = w->f.c.n_pairs;

    for (i = 0; i < w->n_in; i++) {
        attend_let_range(&w->f.c, a->key, key);
        part[i] = load_decode_part(w, a->k, a->in, i);
        w->f.c.n_pairs = n_pairs;
    }
    for (row = 0; row < w->f.rows; row++) {
        s = uop_const_float(w->f.c.g, UOP_F32, 0);
        for (i = 0; i < w->n_in; i++) {
            for (j = 0; j < w->chunk; j++)
                s = uop_alu3(w->f.c.g, UOP_MULACC,
                             attend_few_lane(&w->f, w->q[row][i], j),
                             attend_few_lane(&w->f, part[i], j), s);
        }
        s = join(w, UOP_ADD, s, 0, log2_floor(w->share));
        attend_let(&w->f.c, w->f.c.factor ? w->f.c.scaled : a->score, s);
        attend_let_range(&w->f.c, a->key, key);
        attend_let_row(&w->f.c, attend_few_row(&w->f, num(&w->f.c, row)));
        x[row] = attend_value(&w->f.c, a->seen, n_pairs);
        if (ok)
            x[row] = uop_alu3(w->f.c.g, UOP_WHERE, ok, x[row], low(&w->f.c));
    }
}

/* The row's values x[] as factors of v, effects that set its M and L; the
 * factor of what it had before. */
static const struct uop *
make_decode_exps(struct decode_work *w, uint32_t row, const struct uop **x,
                 const struct uop **effects)
{
    const struct uop *old = attend_get(&w->f.c, w->max[row], w->range), *scale,
                     *sum = attend_get(&w->f.c, w->sum[row], w->range),
                     *max = old, *safe;
    uint32_t i, n_pairs = w->f.c.n_pairs;

    for (i = 0; i < w->unroll; i++)
        max = uop_alu2(w->f.c.g, UOP_MAX, max, x[i]);
    safe = attend_safe(&w->f.c, max);
    scale = attend_rescale(&w->f.c, old, safe);
    sum = uop_alu2(w->f.c.g, UOP_MUL, sum, scale);
    for (i = 0; i < w->unroll; i++) {
        x[i] = attend_exp(&w->f.c, x[i], safe);
        sum = uop_alu2(w->f.c.g, UOP_ADD, sum, x[i]);
        attend_let(&w->f.c, w->f.c.a->exp, x[i]);
        x[i] = attend_value(&w->f.c, w->f.c.a->weight, n_pairs);
    }
    effects[0] = attend_set(&w->f.c, w->max[row], max);
    effects[1] = attend_set(&w->f.c, w->sum[row], sum);
    return scale;
}

/* The loop over keys; its END. */
static const struct uop *
make_decode_loop(struct decode_work *w)
{
    const struct attend *a = w->f.c.a;
    const struct uop *x[UNROLL][ATTEND_FEW_ROWS], *own[UNROLL], *ok[UNROLL],
        *value[UNROLL][MAX_PARTS], *scale, *acc, *tiles,
        *src[1 + ATTEND_FEW_ROWS * (2 + MAX_PARTS)];
    union uop_arg arg = {.i = uop_range_arg(a->key, UOP_AXIS_REDUCE)};
    uint32_t u, row, i, n = 0, n_pairs = w->f.c.n_pairs;

    tiles = attend_all_tiles(&w->f.c);
    w->range = uop_new(w->f.c.g, UOP_RANGE, UOP_I64, 1, arg, &tiles, 1);
    src[n++] = w->range;
    for (u = 0; u < w->unroll; u++) { /* under way while keys are seen */
        own[u] = own_key(w, u, w->range, &ok[u]);
        for (i = 0; i < w->n_out; i++) {
            attend_let_range(&w->f.c, a->key, own[u]);
            value[u][i] = load_decode_part(w, a->v, a->col, i);
            w->f.c.n_pairs = n_pairs;
        }
    }
    for (u = 0; u < w->unroll; u++)
        see_key(w, own[u], ok[u], x[u]);
    for (row = 0; row < w->f.rows; row++) {
        const struct uop *p[UNROLL];
        for (u = 0; u < w->unroll; u++)
            p[u] = x[u][row];
        scale = make_decode_exps(w, row, p, src + n);
        n += 2;
        for (i = 0; i < w->n_out; i++) {
            acc = attend_get(&w->f.c, w->out[row][i], w->range);
            acc = uop_alu2(w->f.c.g, UOP_MUL, acc, wide(w, scale));
            for (u = 0; u < w->unroll; u++)
                acc = uop_alu3(w->f.c.g, UOP_MULACC, wide(w, p[u]), value[u][i],
                               acc);
            src[n++] = attend_set(&w->f.c, w->out[row][i], acc);
        }
    }
    return uop_new(w->f.c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
}

/* ---- joining ---- */

/* The threads that exchange store each row's M, L and O, O's last, to LOCAL
 * memory. Returns the BARRIER behind that. */
static const struct uop *
join_warps(struct decode_work *w, const struct uop *end)
{
    uint32_t from = log2_floor(w->share), to = log2_floor(WARP), row, i, j;
    uint32_t n = 0;
    const struct uop *max, *f, *part[MAX_CHUNK], *at, *place,
        *gate = op2(&w->f.c, UOP_CMPLT, w->f.lane, w->share),
        *effects[ATTEND_FEW_ROWS * (2 + MAX_PARTS * MAX_CHUNK / PIECE)],
        *src[4] = {w->f.state, NULL, NULL, gate};

    for (row = 0; row < w->f.rows; row++) {
        const struct uop *old = attend_get(&w->f.c, w->max[row], end);
        place = attend_few_place(&w->f, num(&w->f.c, row));
        max = join(w, UOP_MAX, old, from, to);
        f = attend_rescale(&w->f.c, old, attend_safe(&w->f.c, max));
        src[1] = place;
        src[2] = max;
        effects[n++] =
            uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
        src[1] = op2(&w->f.c, UOP_ADD, place, attend_few_states(&w->f));
        src[2] = uop_alu2(w->f.c.g, UOP_MUL, f,
                          attend_get(&w->f.c, w->sum[row], end));
        src[2] = join(w, UOP_ADD, src[2], from, to);
        effects[n++] =
            uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
        for (i = 0; i < w->n_out; i++) {
            const struct uop *out = attend_get(&w->f.c, w->out[row][i], end);
            out = uop_alu2(w->f.c.g, UOP_MUL, out, wide(w, f));
            for (j = 0; j < w->chunk; j++)
                part[j] =
                    join(w, UOP_ADD, attend_few_lane(&w->f, out, j), from, to);
            at = op2(&w->f.c, UOP_ADD, w->part, (int64_t)i * w->share);
            at = step(&w->f.c, attend_few_out(&w->f, place), at, w->chunk);
            for (j = 0; j < w->chunk; j += PIECE) {
                src[1] = op2(&w->f.c, UOP_ADD, at, j);
                src[2] = uop_make(w->f.c.g, UOP_LANES, UOP_F32, PIECE, no_arg,
                                  part + j, PIECE);
                effects[n++] =
                    uop_make(w->f.c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 4);
            }
        }
    }
    return uop_new(w->f.c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, effects, n);
}

/* ---- what the forms share ---- */

int64_t
attend_few_count(const struct kernel *k, const struct attend *a)
{
    uint64_t set;
    int64_t n = 1;

    for (set = a->few_rows; set; set &= set - 1)
        n *= attend_most(k, (uint32_t)__builtin_ctzll(set));
    return n;
}

void
attend_few_init(struct attend_few *f, struct expand *e, const struct attend *a)
{
    f->c = (struct attend_code){.e = e, .g = e->k->g, .a = a};
    f->c.n_rows = attend_few_count(e->k, a);
    f->c.n_keys = e->k->sizes[a->key];
    f->cols = (uint32_t)e->k->sizes[a->col];
    attend_find_factor(&f->c);
}

uint32_t
attend_few_rows(const struct attend_few *f, int64_t most)
{
    int64_t tiles = (f->c.n_rows + most - 1) / most;

    return (uint32_t)((f->c.n_rows + tiles - 1) / tiles);
}

bell_status
attend_few_map_groups(struct attend_few *f, struct lower_program *p)
{
    LOG(LOG_OPT, "attention: %u rows by %d keys at a time", f->rows,
        (int)f->c.tile);
    BELL_TRY(attend_map_groups(&f->c, f->rows, p, &f->row0));
    p->local[0] = f->threads;
    f->c.e->tid = attend_special(&f->c, 4, f->threads);
    f->lane = op2(&f->c, UOP_FLOORMOD, f->c.e->tid, f->wave);
    f->warp = op2(&f->c, UOP_FLOORDIV, f->c.e->tid, f->wave);
    f->state = expand_local(f->c.e, UOP_F32, attend_few_words(f));
    return BELL_OK;
}

const struct uop *
attend_few_row(const struct attend_few *f, const struct uop *row)
{
    row = add(&f->c, f->row0, row);
    return f->c.n_rows % f->rows ? op2(&f->c, UOP_MIN, row, f->c.n_rows - 1)
                                 : row;
}

static const struct uop *
decode_key_at(const struct attend_few *f, const struct uop *at)
{
    at = step(&f->c, at, f->warp, f->keys);
    return step(&f->c, at, f->range, f->c.tile);
}

const struct uop *
attend_few_key(const struct attend_few *f, const struct uop *at)
{
    return attend_clamp(&f->c, f->c.a->key, decode_key_at(f, at), f->c.tile);
}

const struct uop *
attend_few_seen(struct attend_few *f, const struct uop *score,
                const struct uop *at, uint32_t n_pairs)
{
    const struct uop *x, *ok;

    attend_let(&f->c, f->c.factor ? f->c.scaled : f->c.a->score, score);
    attend_let_range(&f->c, f->c.a->key, attend_few_key(f, at));
    x = attend_value(&f->c, f->c.a->seen, n_pairs);
    ok = attend_inside(&f->c, f->c.a->key, decode_key_at(f, at), f->c.tile);
    return ok ? uop_alu3(f->c.g, UOP_WHERE, ok, x, low(&f->c)) : x;
}

const struct uop *
attend_few_lane(const struct attend_few *f, const struct uop *u, uint32_t i)
{
    union uop_arg arg = {.i = i};

    return uop_make(f->c.g, UOP_LANE, u->dtype, 1, arg, &u, 1);
}

const struct uop *
attend_few_lanes(const struct attend_few *f, const struct uop *const *u,
                 uint32_t n)
{
    return uop_make(f->c.g, UOP_LANES, u[0]->dtype, (uint16_t)n, no_arg, u, n);
}

/* Rows lie in different banks. */
static uint32_t
row_words(const struct attend_few *f)
{
    return f->cols + PIECE;
}

uint32_t
attend_few_states(const struct attend_few *f)
{
    return (f->threads / f->wave * f->rows + PIECE - 1) / PIECE * PIECE;
}

uint32_t
attend_few_words(const struct attend_few *f)
{
    return attend_few_states(f) * (2 + row_words(f));
}

const struct uop *
attend_few_place(const struct attend_few *f, const struct uop *row)
{
    return step(&f->c, row, f->warp, f->rows);
}

const struct uop *
attend_few_out(const struct attend_few *f, const struct uop *place)
{
    return op2(&f->c, UOP_ADD, op2(&f->c, UOP_MUL, place, row_words(f)),
               2 * attend_few_states(f));
}

static const struct uop *
decode_load(const struct attend_few *f, const struct uop *memory,
            const struct uop *at)
{
    const struct uop *src[2] = {memory, at};

    return uop_make(f->c.g, UOP_LOAD, UOP_F32, 1, no_arg, src, 2);
}

static const struct uop *
decode_loop(struct attend_few *f, int64_t extent)
{
    const struct uop *size = num(&f->c, extent);
    union uop_arg arg = {
        .i = uop_range_arg(f->c.e->k->n_ranges + f->c.e->n_accs++,
                           UOP_AXIS_REDUCE)};

    return uop_new(f->c.g, UOP_RANGE, UOP_I64, 1, arg, &size, 1);
}

/* M, L and O of a row and column, of all warps. */
static void
join_states(struct attend_few *f, const struct uop *memory,
            const struct uop *row, const struct uop *col,
            const struct uop *out[3])
{
    uint32_t warps = f->threads / f->wave, states = attend_few_states(f), i;
    const struct uop *max = NULL, *sum, *value, *at, *e;

    for (i = 0; i < warps; i++) {
        at = decode_load(f, memory, op2(&f->c, UOP_ADD, row, i * f->rows));
        max = max ? uop_alu2(f->c.g, UOP_MAX, max, at) : at;
    }
    sum = value = uop_const_float(f->c.g, UOP_F32, 0);
    for (i = 0; i < warps; i++) {
        at = op2(&f->c, UOP_ADD, row, i * f->rows);
        e = attend_rescale(&f->c, decode_load(f, memory, at),
                           attend_safe(&f->c, max));
        sum = uop_alu3(f->c.g, UOP_MULACC, e,
                       decode_load(f, memory, op2(&f->c, UOP_ADD, at, states)),
                       sum);
        at = add(&f->c, attend_few_out(f, at), col);
        value =
            uop_alu3(f->c.g, UOP_MULACC, e, decode_load(f, memory, at), value);
    }
    out[0] = max;
    out[1] = sum;
    out[2] = value;
}

const struct uop *
attend_few_stores(struct attend_few *f, const struct uop *barrier)
{
    const struct attend *a = f->c.a;
    uint32_t all = f->rows * f->cols, i, n_pairs = f->c.n_pairs, n = 1;
    const struct uop *range =
                         decode_loop(f, (all + f->threads - 1) / f->threads),
                     *row, *col, *of[3], *at, *gate, *src[4] = {range},
                     *args[4] = {a->store->src[0]};

    at = step(&f->c, f->c.e->tid, range, f->threads);
    gate = all % f->threads ? op2(&f->c, UOP_CMPLT, at, all) : NULL;
    if (gate)
        at = op2(&f->c, UOP_MIN, at, all - 1);
    row = op2(&f->c, UOP_FLOORDIV, at, f->cols);
    col = op2(&f->c, UOP_FLOORMOD, at, f->cols);
    gate = attend_both(
        &f->c, gate,
        attend_few_inside(&f->c, add(&f->c, f->row0, row), f->rows));
    join_states(f, attend_after(&f->c, f->state, &barrier, 1), row, col, of);
    row = attend_few_row(f, row);
    for (i = 1; i < 3; i++) {
        attend_let(&f->c, a->max, of[0]);
        attend_let(&f->c, a->sum, of[1]);
        attend_let(&f->c, a->out, of[2]);
        attend_let_row(&f->c, row);
        attend_let_range(&f->c, a->col, col);
        args[i] = attend_value(&f->c, a->store->src[i], n_pairs);
    }
    args[3] = gate;
    src[n++] =
        uop_make(f->c.g, UOP_STORE, UOP_VOID, 1, no_arg, args, gate ? 4 : 3);
    at = op2(&f->c, UOP_CMPEQ, col, 0);
    n += attend_store_kept(&f->c, row, of[1], of[0],
                           gate ? uop_alu2(f->c.g, UOP_AND, at, gate) : at,
                           src + n);
    at = uop_new(f->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
    return attend_sink(&f->c, &at, 1);
}

bell_status
expand_attend_few(struct kernel *k, const struct attend *a,
                  const struct uop **out_sink, struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct decode_work *w = arena_calloc(&k->mem, 1, sizeof(*w));
    uint32_t row, i;

    if (!w)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of attention: out of memory");
    attend_few_init(&w->f, &e, a);
    choose_decode_sizes(w);
    BELL_TRY(attend_few_map_groups(&w->f, program));
    program->want_regs = count_decode_regs(w);
    w->part = op2(&w->f.c, UOP_FLOORMOD, e.tid, w->share);
    for (row = 0; row < w->f.rows; row++) {
        w->max[row] = attend_acc(&w->f.c, low(&w->f.c), NULL, 0);
        w->sum[row] =
            attend_acc(&w->f.c, uop_const_float(w->f.c.g, UOP_F32, 0), NULL, 0);
        for (i = 0; i < w->n_out; i++)
            w->out[row][i] = attend_acc(&w->f.c, decode_zeros(w), NULL, 0);
    }
    load_decode_queries(w);
    *out_sink = attend_few_stores(&w->f, join_warps(w, make_decode_loop(w)));
    program->shared_bytes = e.shared_bytes;
    return uop_graph_status(w->f.c.g);
}
