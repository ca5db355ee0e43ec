/* Attention in one kernel, by mma.sync (lower/expand/attend.h).
 *
 * A work-group has some rows of queries, a warp 16 or 32 of them, whose parts
 * of q stay in registers. Tiles of k and v are copied to LOCAL memory, the next
 * ones while a tile is worked on. What a thread has of the scores is what it
 * has to have of them as an operand of the product with v.
 */
#include <string.h>

#include "base/log.h"
#include "lower/expand/attend.h"
#include "lower/expand/expand_internal.h"

#define WARPS     4
#define THREADS   (WARPS * 32)
#define CHUNK     8 /* elements that one access copies: 16 bytes */
#define MAX_TALL  2
#define MAX_STEPS 16 /* of q: 256 elements */
#define MAX_TILE  64 /* keys */
#define MAX_TILES (MAX_TILE / 8)
#define MAX_COLS  32 /* tiles of v's columns */

static const union uop_arg no_arg = {.bits = 0};

static const struct uop_wmma mma = {UOP_WMMA_NV, 16, 8, 16};

/* k or v. */
struct side {
    const struct uop *value; /* what lies there */
    uint32_t range;          /* along which neighbours lie: c or the columns */
    int64_t n, wide;         /* its size; with zeros, a multiple of 16 */
    int64_t stride;          /* of a key in LOCAL memory */
    const struct uop *memory, *half; /* the array; where the tile begins */
};

struct work {
    struct expand *e;
    struct uop_graph *g;
    const struct attend *a;
    uint32_t tall; /* tiles of 16 rows of a warp */
    int64_t n_rows, n_keys, tile;
    struct side k, v;
    const struct uop *g4, *t4; /* thread / 4, % 4, of its warp */
    const struct uop *row0;    /* first row of the warp */
    const struct uop *last;    /* row of the work-group */
    const struct uop *range;   /* loop over tiles */
    const struct uop *from[KERNEL_MAX_RANGES + 8], *to[KERNEL_MAX_RANGES + 8];
    uint32_t n_pairs;
    /* Where x is S * c, or where it is: that node; E of 0 or less is then
     * exp2(S * factor - M * factor), of the maximum of S. Else NULL. */
    const struct uop *scaled, *factor;
    const struct uop *q[MAX_TALL][MAX_STEPS];
    /* by tile of rows, and half of it */
    const struct uop *max[MAX_TALL][2], *sum[MAX_TALL][2];
    const struct uop *out[MAX_TALL][MAX_COLS];
    /* of the present tile of keys */
    const struct uop *score[MAX_TALL][MAX_TILES];
    const struct uop *x[MAX_TALL][MAX_TILES][4];
    const struct uop *new_max[MAX_TALL][2], *safe[MAX_TALL][2];
    const struct uop *scale[MAX_TALL][2], *new_sum[MAX_TALL][2];
};

/* ---- short forms ---- */

static const struct uop *
num(const struct work *w, int64_t value)
{
    return uop_const_int(w->g, UOP_I64, value);
}

static const struct uop *
op2(const struct work *w, enum uop_op op, const struct uop *a, int64_t b)
{
    return uop_alu2(w->g, op, a, num(w, b));
}

static const struct uop *
add(const struct work *w, const struct uop *a, const struct uop *b)
{
    return uop_alu2(w->g, UOP_ADD, a, b);
}

/* a + b * c */
static const struct uop *
step(const struct work *w, const struct uop *a, const struct uop *b, int64_t c)
{
    return add(w, a, op2(w, UOP_MUL, b, c));
}

static const struct uop *
lane(const struct work *w, const struct uop *u, uint32_t i)
{
    union uop_arg arg = {.i = i};

    return uop_make(w->g, UOP_LANE, u->dtype, 1, arg, &u, 1);
}

static const struct uop *
lanes(const struct work *w, const struct uop *const *u, uint16_t n)
{
    return uop_make(w->g, UOP_LANES, u[0]->dtype, n, no_arg, u, n);
}

static const struct uop *
low(const struct work *w)
{
    return kernel_identity(w->g, UOP_MAX, UOP_F32);
}

/* ---- the kernel's expressions at places ---- */

static void
let(struct work *w, const struct uop *from, const struct uop *to)
{
    w->from[w->n_pairs] = from;
    w->to[w->n_pairs++] = to;
}

static void
let_range(struct work *w, uint32_t r, const struct uop *to)
{
    let(w, w->e->k->ranges[r], to);
}

/* The expression with what was let; only the first n of that hold further. */
static const struct uop *
value_of(struct work *w, const struct uop *u, uint32_t n)
{
    if (!w->g->failed &&
        uop_substitute(w->g, &u, 1, w->from, w->to, w->n_pairs) != BELL_OK)
        w->g->failed = true;
    w->n_pairs = n;
    return w->g->failed ? &uop_failed : u;
}

/* The number, which may be past n values by less than a multiple of `tile`,
 * as one of them. */
static const struct uop *
clamp(const struct work *w, const struct uop *u, int64_t n, int64_t tile)
{
    return n % tile ? op2(w, UOP_MIN, u, n - 1) : u;
}

/* Is it one of them? NULL: always. */
static const struct uop *
inside(const struct work *w, const struct uop *u, int64_t n, int64_t tile)
{
    return n % tile ? op2(w, UOP_CMPLT, u, n) : NULL;
}

static const struct uop *
both(const struct work *w, const struct uop *a, const struct uop *b)
{
    return a && b ? uop_alu2(w->g, UOP_AND, a, b) : a ? a : b;
}

static int64_t
rows_of_group(const struct work *w)
{
    return (int64_t)w->tall * 16 * WARPS;
}

/* Row of element i of a thread's part of 16 x 8 results. */
static const struct uop *
row_of(const struct work *w, uint32_t tall, uint32_t half)
{
    return add(w, add(w, w->row0, w->g4), num(w, 16 * tall + 8 * half));
}

static const struct uop *
row_inside(const struct work *w, const struct uop *row)
{
    return clamp(w, row, w->n_rows, rows_of_group(w));
}

/* ---- who does what ---- */

static const struct uop *
special(const struct work *w, int64_t which, int64_t extent)
{
    const struct uop *size = num(w, extent);

    return uop_new(w->g, UOP_SPECIAL, UOP_I64, 1, (union uop_arg){.i = which},
                   &size, 1);
}

/* Work-groups: tiles of rows, and the batch. Where rows see the keys up to
 * their own, those with the most begin. */
static bell_status
map_groups(struct work *w, struct lower_program *p)
{
    const struct kernel *k = w->e->k;
    int64_t n = rows_of_group(w), tiles = (w->n_rows + n - 1) / n, all = tiles;
    const struct uop *left, *tile, *warp;
    uint64_t set;
    uint32_t i;

    for (set = w->a->batch; set; set &= set - 1) {
        if (__builtin_mul_overflow(all, k->sizes[__builtin_ctzll(set)], &all))
            all = INT64_MAX;
    }
    if (all > (int64_t)k->target->max_grid[0])
        return bell_fail(BELL_E_UNSUPPORTED,
                         "a grid of more than %u "
                         "work-groups",
                         k->target->max_grid[0]);
    for (i = 0; i < 3; i++)
        p->grid[i] = p->local[i] = 1;
    p->grid[0] = (uint32_t)all;
    p->local[0] = THREADS;
    left = special(w, 0, all);
    tile = op2(w, UOP_FLOORMOD, left, tiles);
    tile = uop_alu2(w->g, UOP_SUB, num(w, tiles - 1), tile);
    left = op2(w, UOP_FLOORDIV, left, tiles);
    for (set = w->a->batch; set;) {
        uint32_t r = 63u - (uint32_t)__builtin_clzll(set);
        set &= ~((uint64_t)1 << r);
        let_range(w, r, set ? op2(w, UOP_FLOORMOD, left, k->sizes[r]) : left);
        left = op2(w, UOP_FLOORDIV, left, k->sizes[r]);
    }
    w->e->tid = special(w, 4, THREADS);
    warp = op2(w, UOP_FLOORDIV, w->e->tid, 32);
    w->g4 = op2(w, UOP_FLOORMOD, op2(w, UOP_FLOORDIV, w->e->tid, 4), 8);
    w->t4 = op2(w, UOP_FLOORMOD, w->e->tid, 4);
    tile = op2(w, UOP_MUL, tile, n);
    w->last = op2(w, UOP_MIN, op2(w, UOP_ADD, tile, n - 1), w->n_rows - 1);
    w->row0 = step(w, tile, warp, 16 * w->tall);
    return BELL_OK;
}

/* Tiles of keys: of `i < j ? -inf : ...` only those that some row sees. */
static const struct uop *
count_tiles(const struct work *w)
{
    const struct uop *x = w->a->seen, *cond;
    const struct kernel *k = w->e->k;
    int64_t n = (w->n_keys + w->tile - 1) / w->tile;
    const struct uop *seen;

    cond = x->op == UOP_WHERE ? x->src[0] : x;
    if (cond->op != UOP_CMPLT || cond->src[0] != k->ranges[w->a->row] ||
        cond->src[1] != k->ranges[w->a->key] || x->src[1] != low(w))
        return num(w, n);
    seen = op2(w, UOP_ADD, op2(w, UOP_FLOORDIV, w->last, w->tile), 1);
    return op2(w, UOP_MIN, seen, n);
}

/* ---- q ---- */

/* Elements `at` and at + 1 of the row; zeros past the end. */
static void
load_pair(struct work *w, const struct uop *row, const struct uop *at,
          const struct uop **out)
{
    const struct kernel *k = w->e->k;
    const struct uop *q = w->a->q, *gate = inside(w, at, w->k.n, w->k.wide);
    const struct uop *zero = uop_const_int(w->g, q->dtype, 0), *u;
    uint32_t n = w->n_pairs, i;

    if (q->op == UOP_LOAD && q->n_src == 2 && w->k.n % 2 == 0 &&
        kernel_coef(k, q->src[1], w->a->in) == 1) {
        const struct uop *src[4] = {q->src[0], NULL,
                                    expand_broadcast(w->e, zero, 2), gate};
        let_range(w, w->a->row, row);
        let_range(w, w->a->in, at);
        src[1] = value_of(w, q->src[1], n);
        u = uop_make(w->g, UOP_LOAD, q->dtype, 2, no_arg, src, gate ? 4 : 2);
        for (i = 0; i < 2; i++)
            out[i] = lane(w, u, i);
        return;
    }
    for (i = 0; i < 2; i++) {
        u = op2(w, UOP_ADD, at, i);
        gate = inside(w, u, w->k.n, w->k.wide);
        let_range(w, w->a->row, row);
        let_range(w, w->a->in, clamp(w, u, w->k.n, w->k.wide));
        out[i] = value_of(w, q, n);
        if (gate)
            out[i] = uop_alu3(w->g, UOP_WHERE, gate, out[i], zero);
    }
}

static void
load_queries(struct work *w)
{
    const struct uop *part[8], *at;
    uint32_t tall, s, r;

    for (tall = 0; tall < w->tall; tall++) {
        for (s = 0; s < w->k.wide / 16; s++) {
            for (r = 0; r < 4; r++) {
                at = step(w, num(w, 16 * s + 8 * (r / 2)), w->t4, 2);
                load_pair(w, row_inside(w, row_of(w, tall, r % 2)), at,
                          part + 2 * r);
            }
            w->q[tall][s] = lanes(w, part, 8);
        }
    }
}

/* ---- k and v in LOCAL memory ---- */

static void
init_side(struct work *w, struct side *s, const struct uop *value,
          uint32_t range)
{
    s->value = value;
    s->range = range;
    s->n = w->e->k->sizes[range];
    s->wide = (s->n + 15) / 16 * 16;
    s->stride = s->wide + CHUNK; /* rows lie in different banks */
}

/* May a COPY take chunks as they lie? */
static bool
is_copied(const struct work *w, const struct side *s)
{
    const struct uop *u = s->value, *index, *zero = num(w, 0);
    uint64_t divisor;

    if (u->op != UOP_LOAD || u->n_src != 2 || s->n % CHUNK ||
        w->e->k->target->copy_bytes < 16 ||
        kernel_coef(w->e->k, u->src[1], s->range) != 1)
        return false;
    index = u->src[1];
    if (uop_substitute(w->g, &index, 1, &w->e->k->ranges[s->range], &zero, 1) !=
        BELL_OK)
        return false;
    divisor = expand_divisor(index, 0);
    return divisor == 0 || divisor % CHUNK == 0;
}

/* Key `key` from element `at` on, one by one. */
static const struct uop *
load_chunk(struct work *w, const struct side *s, const struct uop *key,
           const struct uop *at, const struct uop *gate)
{
    const struct uop *part[CHUNK], *zero, *ok, *u;
    uint32_t n = w->n_pairs, i;

    zero = uop_const_int(w->g, s->value->dtype, 0);
    for (i = 0; i < CHUNK; i++) {
        u = op2(w, UOP_ADD, at, i);
        ok = both(w, gate, inside(w, u, s->n, s->wide));
        let_range(w, w->a->key, clamp(w, key, w->n_keys, w->tile));
        let_range(w, s->range, clamp(w, u, s->n, s->wide));
        part[i] = value_of(w, s->value, n);
        if (ok)
            part[i] = uop_alu3(w->g, UOP_WHERE, ok, part[i], zero);
    }
    return lanes(w, part, CHUNK);
}

/* Copies tile `tile` where `gate` holds; effects to out[]. */
static uint32_t
copy_tile(struct work *w, const struct side *s, const struct uop *tile,
          const struct uop *gate, const struct uop **out)
{
    int64_t each = s->wide / CHUNK, all = w->tile * each, i;
    const struct uop *tid = w->e->tid, *zero = num(w, 0);
    const struct uop *half, *work, *row, *at, *key, *ok, *src[6];
    bool copied = is_copied(w, s);
    uint32_t n = 0, n_pairs = w->n_pairs;

    half = op2(w, UOP_MUL, op2(w, UOP_FLOORMOD, tile, 2), w->tile * s->stride);
    for (i = 0; i * THREADS < all; i++) {
        work = op2(w, UOP_ADD, tid, i * THREADS);
        if (THREADS % each == 0) {
            row = op2(w, UOP_ADD, op2(w, UOP_FLOORDIV, tid, each),
                      i * (THREADS / each));
            at = op2(w, UOP_FLOORMOD, tid, each);
        } else {
            row = op2(w, UOP_FLOORDIV, work, each);
            at = op2(w, UOP_FLOORMOD, work, each);
        }
        at = op2(w, UOP_MUL, at, CHUNK);
        key = step(w, row, tile, w->tile);
        ok = inside(w, key, w->n_keys, w->tile);
        src[0] = s->memory;
        src[1] = add(w, step(w, half, row, s->stride), at);
        src[5] = (i + 1) * THREADS > all ? op2(w, UOP_CMPLT, work, all) : NULL;
        src[5] = both(w, gate, src[5]);
        if (copied) {
            src[4] = both(w, ok,
                          s->n != s->wide ? op2(w, UOP_CMPLT, at, s->n) : NULL);
            if (!src[4])
                src[4] = uop_const_int(w->g, UOP_BOOL, 1);
            src[2] = s->value->src[0];
            let_range(w, w->a->key, key);
            let_range(w, s->range, at);
            src[3] = value_of(w, s->value->src[1], n_pairs);
            out[n++] = uop_new(w->g, UOP_COPY, UOP_VOID, 1,
                               (union uop_arg){.i = 16}, src, src[5] ? 6 : 5);
            continue;
        }
        /* what is past the tiles is not read either */
        key = gate ? uop_alu3(w->g, UOP_WHERE, gate, key, zero) : key;
        src[2] = load_chunk(w, s, key, at, ok);
        src[3] = src[5];
        out[n++] =
            uop_make(w->g, UOP_STORE, UOP_VOID, 1, no_arg, src, src[3] ? 4 : 3);
    }
    return n;
}

static const struct uop *
after(const struct work *w, const struct uop *memory, const struct uop *effect)
{
    const struct uop *src[2] = {memory, effect};

    return uop_new(w->g, UOP_AFTER, memory->dtype, 1, no_arg, src, 2);
}

/* Two operands of 16 keys or elements by 8 each, from key `key` and element
 * `at` of the tile on. Of v a key is a step: it is read turned. */
static void
load_operands(const struct work *w, const struct side *s, bool turned,
              int64_t key, int64_t at, const struct uop *out[2])
{
    const struct uop *reg, *row, *src[2], *part[4], *u;
    uint32_t i, j;

    row = op2(w, UOP_FLOORMOD, w->e->tid, 8);
    reg = op2(w, UOP_FLOORMOD, op2(w, UOP_FLOORDIV, w->e->tid, 8), 4);
    /* registers 0 and 1 are the first operand's */
    u = op2(w, turned ? UOP_FLOORMOD : UOP_FLOORDIV, reg, 2);
    src[1] = op2(w, UOP_MUL, step(w, row, u, 8), s->stride);
    u = op2(w, turned ? UOP_FLOORDIV : UOP_FLOORMOD, reg, 2);
    src[1] = step(w, src[1], u, 8);
    src[1] = op2(w, UOP_ADD, add(w, s->half, src[1]), key * s->stride + at);
    src[0] = s->memory;
    u = uop_make(w->g, UOP_WMMA_ROWS, s->value->dtype, 8,
                 (union uop_arg){.i = turned}, src, 2);
    for (i = 0; i < 2; i++) {
        for (j = 0; j < 4; j++)
            part[j] = lane(w, u, 4 * i + j);
        out[i] = lanes(w, part, 4);
    }
}

/* ---- a tile of keys ---- */

/* Is `u` S times a positive number, or S? *out_by: that number. */
static bool
is_scaled(const struct work *w, const struct uop *u, double *out_by)
{
    *out_by = 1;
    if (u == w->a->score)
        return true;
    if (u->op != UOP_MUL || u->src[0] != w->a->score ||
        u->src[1]->op != UOP_CONST || !(u->src[1]->arg.f > 0))
        return false;
    *out_by = u->src[1]->arg.f;
    return true;
}

/* Can scaling be part of E? The maximum is then used for nothing else. */
static void
find_factor(struct work *w)
{
    const struct kernel *k = w->e->k;
    const struct uop *u = w->a->seen, *e = w->a->exp->src[0];
    double by, in_exp = e == w->a->diff ? 1 : e->src[1]->arg.f;
    uint32_t i, j;

    if (u->op == UOP_WHERE && u->src[1] == low(w))
        u = u->src[2];
    if (!is_scaled(w, u, &by) || !(in_exp > 0) || !(by * in_exp < 1e30))
        return;
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *user = k->nodes[i];
        for (j = 0; j < user->n_src; j++) {
            if (user->src[j] == w->a->max && user != w->a->diff)
                return;
        }
    }
    w->scaled = u;
    w->factor = uop_const_float(w->g, UOP_F32, by * in_exp);
}

static const struct uop *
product(const struct work *w, const struct uop *a, const struct uop *b,
        const struct uop *sum)
{
    const struct uop *src[3] = {a, b, sum};
    union uop_arg arg = {.i = uop_wmma_arg(mma)};

    return uop_new(w->g, UOP_WMMA, UOP_F32, 4, arg, src, 3);
}

static void
make_scores(struct work *w)
{
    const struct uop *zero = uop_const_float(w->g, UOP_F32, 0), *b[2];
    uint32_t n, s, i, tall;

    zero = expand_broadcast(w->e, zero, 4);
    for (n = 0; n < w->tile / 8; n += 2) {
        for (s = 0; s < w->k.wide / 16; s++) {
            load_operands(w, &w->k, false, 8 * n, 16 * s, b);
            for (tall = 0; tall < w->tall; tall++) {
                for (i = 0; i < 2; i++) {
                    const struct uop **sum = &w->score[tall][n + i];
                    *sum = product(w, w->q[tall][s], b[i], s ? *sum : zero);
                }
            }
        }
    }
}

/* What the function of the scores gives; -inf past the last key. */
static void
see_scores(struct work *w, uint32_t tall)
{
    const struct attend *a = w->a;
    const struct uop *key, *ok, *x;
    uint32_t n, i, n_pairs = w->n_pairs;

    for (n = 0; n < w->tile / 8; n++) {
        for (i = 0; i < 4; i++) {
            key = step(w, num(w, 8 * n + i % 2), w->range, w->tile);
            key = step(w, key, w->t4, 2);
            ok = inside(w, key, w->n_keys, w->tile);
            let(w, w->factor ? w->scaled : a->score,
                lane(w, w->score[tall][n], i));
            let_range(w, a->row, row_inside(w, row_of(w, tall, i / 2)));
            let_range(w, a->key, clamp(w, key, w->n_keys, w->tile));
            x = value_of(w, a->seen, n_pairs);
            if (ok)
                x = uop_alu3(w->g, UOP_WHERE, ok, x, low(w));
            w->x[tall][n][i] = x;
        }
    }
}

/* Of the four threads that have a row. */
static const struct uop *
join_row(const struct work *w, enum uop_op op, const struct uop *u)
{
    uint32_t bit;

    for (bit = 1; bit < 4; bit *= 2) {
        union uop_arg arg = {.i = bit};
        u = uop_alu2(w->g, op, u,
                     uop_new(w->g, UOP_SHUFFLE, u->dtype, 1, arg, &u, 1));
    }
    return u;
}

/* E of a difference. With a factor, `max` has it already, negative. */
static const struct uop *
exp_of(struct work *w, const struct uop *x, const struct uop *max)
{
    uint32_t n = w->n_pairs;

    if (w->factor)
        return uop_alu1(w->g, UOP_EXP2,
                        uop_alu3(w->g, UOP_MULACC, x, w->factor, max));
    let(w, w->a->diff, uop_alu2(w->g, UOP_SUB, x, max));
    return value_of(w, w->a->exp, n);
}

/* The maximum of a half's rows so far, and what that makes of what was added up
 * with the one before. A maximum of -inf is not subtracted: nothing was seen. */
static void
raise_max(struct work *w, uint32_t tall, uint32_t half, const struct uop *old)
{
    const struct uop *max = NULL, *x;
    uint32_t n, i;

    for (n = 0; n < w->tile / 8; n++) {
        for (i = 2 * half; i < 2 * half + 2; i++) {
            x = w->x[tall][n][i];
            max = max ? uop_alu2(w->g, UOP_MAX, max, x) : x;
        }
    }
    max = uop_alu2(w->g, UOP_MAX, old, join_row(w, UOP_MAX, max));
    w->new_max[tall][half] = max;
    x = uop_alu2(w->g, UOP_CMPEQ, max, low(w));
    w->safe[tall][half] =
        uop_alu3(w->g, UOP_WHERE, x, uop_const_float(w->g, UOP_F32, 0), max);
    if (w->factor) {
        x = uop_alu1(w->g, UOP_NEG, w->safe[tall][half]);
        w->safe[tall][half] = uop_alu2(w->g, UOP_MUL, x, w->factor);
    }
    w->scale[tall][half] = exp_of(w, old, w->safe[tall][half]);
}

/* The scores become E, and are added up by each thread. */
static void
make_exps(struct work *w, uint32_t tall, const struct uop *const old[2])
{
    const struct uop *sum[2], *x;
    uint32_t n, i;

    for (i = 0; i < 2; i++)
        sum[i] = uop_alu2(w->g, UOP_MUL, old[i], w->scale[tall][i]);
    for (n = 0; n < w->tile / 8; n++) {
        for (i = 0; i < 4; i++) {
            x = exp_of(w, w->x[tall][n][i], w->safe[tall][i / 2]);
            sum[i / 2] = uop_alu2(w->g, UOP_ADD, sum[i / 2], x);
            w->x[tall][n][i] = x;
        }
    }
    for (i = 0; i < 2; i++)
        w->new_sum[tall][i] = sum[i];
}

/* out[][] = out[][] * scale + E @ v */
static void
add_values(struct work *w, const struct uop *out[MAX_TALL][MAX_COLS])
{
    const struct uop *p[MAX_TALL][MAX_TILE / 16], *part[8], *b[2];
    uint32_t tall, s, n, i;

    for (tall = 0; tall < w->tall; tall++) {
        for (s = 0; s < w->tile / 16; s++) {
            for (i = 0; i < 8; i++)
                part[i] = uop_cast(w->g, w->x[tall][2 * s + i / 4][i % 4],
                                   w->v.value->dtype);
            p[tall][s] = lanes(w, part, 8);
        }
        for (i = 0; i < 4; i++)
            part[i] = w->scale[tall][i / 2];
        for (n = 0; n < w->v.wide / 8; n++)
            out[tall][n] =
                uop_alu2(w->g, UOP_MUL, out[tall][n], lanes(w, part, 4));
    }
    for (s = 0; s < w->tile / 16; s++) {
        for (n = 0; n < w->v.wide / 8; n += 2) {
            load_operands(w, &w->v, true, 16 * s, 8 * n, b);
            for (tall = 0; tall < w->tall; tall++) {
                for (i = 0; i < 2; i++)
                    out[tall][n + i] =
                        product(w, p[tall][s], b[i], out[tall][n + i]);
            }
        }
    }
}

/* ---- the loop ---- */

static const struct uop *
make_acc(struct work *w, const struct uop *first)
{
    union uop_arg arg = {.i = w->e->n_accs++};

    return uop_new(w->g, UOP_ACC, first->dtype, first->lanes, arg, &first, 1);
}

static const struct uop *
get_acc(const struct work *w, const struct uop *acc, const struct uop *when)
{
    const struct uop *src[2] = {acc, when};

    return uop_new(w->g, UOP_ACC_GET, acc->dtype, acc->lanes, no_arg, src, 2);
}

static const struct uop *
set_acc(const struct work *w, const struct uop *acc, const struct uop *value)
{
    const struct uop *src[2] = {acc, value};

    return uop_new(w->g, UOP_ACC_SET, UOP_VOID, 1, no_arg, src, 2);
}

static void
make_accs(struct work *w)
{
    const struct uop *zero = uop_const_float(w->g, UOP_F32, 0);
    uint32_t tall, i;

    for (tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < 2; i++) {
            w->max[tall][i] = make_acc(w, low(w));
            w->sum[tall][i] = make_acc(w, zero);
        }
        for (i = 0; i < w->v.wide / 8; i++)
            w->out[tall][i] = make_acc(w, expand_broadcast(w->e, zero, 4));
    }
}

/* Work on a tile: ACC_SETs to effects[]. */
static uint32_t
make_tile(struct work *w, const struct uop **effects)
{
    const struct uop *out[MAX_TALL][MAX_COLS], *sum[2];
    uint32_t tall, i, n = 0;

    make_scores(w);
    for (tall = 0; tall < w->tall; tall++) {
        see_scores(w, tall);
        for (i = 0; i < 2; i++) {
            raise_max(w, tall, i, get_acc(w, w->max[tall][i], w->range));
            sum[i] = get_acc(w, w->sum[tall][i], w->range);
        }
        make_exps(w, tall, sum);
        for (i = 0; i < w->v.wide / 8; i++)
            out[tall][i] = get_acc(w, w->out[tall][i], w->range);
    }
    add_values(w, out);
    for (tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < 2; i++) {
            effects[n++] = set_acc(w, w->max[tall][i], w->new_max[tall][i]);
            effects[n++] = set_acc(w, w->sum[tall][i], w->new_sum[tall][i]);
        }
        for (i = 0; i < w->v.wide / 8; i++)
            effects[n++] = set_acc(w, w->out[tall][i], out[tall][i]);
    }
    return n;
}

/* The first tiles, then the loop over tiles; its END. */
static bell_status
make_loop(struct work *w, const struct uop **out_end)
{
    int64_t wide = w->k.wide + w->v.wide;
    size_t most = 2 * (size_t)(w->tile * wide / CHUNK / THREADS + 2) +
                  MAX_TALL * (MAX_COLS + 4) + 2;
    const struct uop *tiles = count_tiles(w), *next, *gate, *barrier, **src;
    struct side *sides[2] = {&w->k, &w->v};
    union uop_arg arg = {.i = uop_range_arg(w->a->key, UOP_AXIS_REDUCE)};
    uint32_t n = 0, i;

    src = arena_alloc(&w->e->k->mem, most * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY, "expansion of attention");
    for (i = 0; i < 2; i++) {
        struct side *s = sides[i];
        s->memory = expand_local(w->e, s->value->dtype,
                                 (uint64_t)(2 * w->tile * s->stride));
        n += copy_tile(w, s, num(w, 0), NULL, src + n);
    }
    w->range = uop_new(w->g, UOP_RANGE, UOP_I64, 1, arg, &tiles, 1);
    src[n++] = w->range;
    barrier = uop_new(w->g, UOP_BARRIER, UOP_VOID, 1, no_arg, src, n);
    next = op2(w, UOP_ADD, w->range, 1);
    gate = uop_alu2(w->g, UOP_CMPLT, next, tiles);
    for (i = 0, n = 1; i < 2; i++) {
        struct side *s = sides[i];
        s->memory = after(w, s->memory, barrier);
        s->half = op2(w, UOP_MUL, op2(w, UOP_FLOORMOD, w->range, 2),
                      w->tile * s->stride);
        n += copy_tile(w, s, next, gate, src + n);
    }
    n += make_tile(w, src + n);
    src[0] = w->range;
    assert(n <= most);
    *out_end = uop_new(w->g, UOP_END, UOP_VOID, 1, no_arg, src, n);
    return uop_graph_status(w->g);
}

/* ---- what is stored ---- */

/* Results 2 half and 2 half + 1 of a thread's part, from column `at` on. */
static uint32_t
store_pair(struct work *w, const struct uop *row, const struct uop *at,
           const struct uop *const out[2], const struct uop *sum,
           const struct uop *max, const struct uop **effects)
{
    const struct uop *store = w->a->store, *src[4], *part[2], *col[2];
    const struct uop *is_row = inside(w, row, w->n_rows, rows_of_group(w));
    uint32_t n_pairs = w->n_pairs, i, n = 0;
    bool pair =
        w->v.n % 2 == 0 && kernel_coef(w->e->k, store->src[1], w->a->col) == 1;

    for (i = 0; i < 2; i++) {
        col[i] = op2(w, UOP_ADD, at, i);
        let(w, w->a->out, out[i]);
        let(w, w->a->sum, sum);
        let(w, w->a->max, max);
        let_range(w, w->a->row, row_inside(w, row));
        let_range(w, w->a->col, clamp(w, col[i], w->v.n, w->v.wide));
        part[i] = value_of(w, store->src[2], n_pairs);
    }
    for (i = 0; i < (pair ? 1 : 2); i++) {
        src[0] = store->src[0];
        let_range(w, w->a->row, row_inside(w, row));
        let_range(w, w->a->col, clamp(w, col[i], w->v.n, w->v.wide));
        src[1] = value_of(w, store->src[1], n_pairs);
        src[2] = pair ? lanes(w, part, 2) : part[i];
        src[3] = both(w, is_row, inside(w, col[i], w->v.n, w->v.wide));
        effects[n++] =
            uop_make(w->g, UOP_STORE, UOP_VOID, 1, no_arg, src, src[3] ? 4 : 3);
    }
    return n;
}

static bell_status
make_stores(struct work *w, const struct uop *end, const struct uop **out_sink)
{
    const struct uop *src[MAX_TALL * MAX_COLS * 4], *sum[2], *max[2], *part[2];
    uint32_t tall, c, i, n = 0;

    for (tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < 2; i++) {
            sum[i] = join_row(w, UOP_ADD, get_acc(w, w->sum[tall][i], end));
            max[i] = get_acc(w, w->max[tall][i], end);
        }
        for (c = 0; c < w->v.wide / 8; c++) {
            const struct uop *out = get_acc(w, w->out[tall][c], end);
            for (i = 0; i < 2; i++) {
                part[0] = lane(w, out, 2 * i);
                part[1] = lane(w, out, 2 * i + 1);
                n += store_pair(w, row_of(w, tall, i),
                                step(w, num(w, 8 * c), w->t4, 2), part, sum[i],
                                max[i], src + n);
            }
        }
    }
    *out_sink = uop_new(w->g, UOP_SINK, UOP_VOID, 1, no_arg, src, n);
    return uop_graph_status(w->g);
}

/* Rows of a warp, keys of a tile: what registers and LOCAL memory hold. Of more
 * rows each access to k and v is used more; but there have to be work-groups
 * for all units. observed: H100, 2026-11-23 */
static void
choose_sizes(struct work *w)
{
    const struct kernel *k = w->e->k;
    const struct lower_target *t = k->target;
    double groups = (double)w->n_rows / (16 * WARPS * MAX_TALL);
    int64_t wide = w->k.wide + w->v.wide;
    int64_t most =
        t->max_stage_bytes ? t->max_stage_bytes / 2 : t->max_shared_bytes;
    uint64_t set;

    for (set = w->a->batch; set; set &= set - 1)
        groups *= (double)k->sizes[__builtin_ctzll(set)];
    w->tall = wide <= 256 && w->n_rows > 16 * WARPS && groups >= t->n_units
                  ? MAX_TALL
                  : 1;
    w->tile = w->tall == MAX_TALL && wide <= 128 ? 64 : 32;
    while (w->tile > 16 &&
           (2 * w->tile * (w->k.stride + w->v.stride) * 2 > most ||
            w->tile / 2 >= w->n_keys))
        w->tile /= 2;
}

bell_status
expand_attend(struct kernel *k, const struct attend *a,
              const struct uop **out_sink, struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct work w = {.e = &e, .g = k->g, .a = a};
    const struct uop *end = NULL;

    w.n_rows = k->sizes[a->row];
    w.n_keys = k->sizes[a->key];
    init_side(&w, &w.k, a->k, a->in);
    init_side(&w, &w.v, a->v, a->col);
    choose_sizes(&w);
    find_factor(&w);
    LOG(LOG_OPT, "attention: %d rows by %d keys at a time",
        16 * WARPS * (int)w.tall, (int)w.tile);
    BELL_TRY(map_groups(&w, program));
    load_queries(&w);
    make_accs(&w);
    BELL_TRY(make_loop(&w, &end));
    BELL_TRY(make_stores(&w, end, out_sink));
    program->shared_bytes = e.shared_bytes;
    return BELL_OK;
}
