/* Attention in one kernel, by mma.sync (lower/attention/attention.h).
 *
 * A work-group has some rows of queries, a warp 16 or 32 of them, whose parts
 * of q stay in registers. Tiles of k and v are copied to LOCAL memory, the next
 * ones while a tile is worked on. What a thread has of the scores is what it
 * has to have of them as an operand of the product with v.
 */

#include "base/log.h"
#include "lower/attention/attention_nv.h"

#define MMA_WARPS 4 /* guess: one for each part of an SM */
#define CHUNK     8 /* elements that one access copies: 16 bytes */

static const union uop_arg no_arg = {.bits = 0};

static const struct uop_wmma mma = {UOP_WMMA_NV, 16, 8, 16};

/* ---- the kernel's expressions at places ---- */

static int64_t
n_threads(const struct attend_nv *w)
{
    return (int64_t)w->warps * 32;
}

static int64_t
rows_of_group(const struct attend_nv *w)
{
    return (int64_t)w->tall * 16 * w->warps;
}

/* Row of element i of a thread's part of 16 x 8 results. */
static const struct uop *
nv_row_of(const struct attend_nv *w, uint32_t tall, uint32_t half)
{
    return add(&w->c, add(&w->c, w->row0, w->g4),
               num(&w->c, 16 * tall + 8 * half));
}

static const struct uop *
nv_row_inside(const struct attend_nv *w, const struct uop *row)
{
    return attend_clamp(&w->c, w->c.a->row, row, rows_of_group(w));
}

/* ---- who does what ---- */

/* Work-groups: tiles of rows, and the batch. */
bell_status
attend_nv_map_groups(struct attend_nv *w, struct lower_program *p)
{
    int64_t n = rows_of_group(w);
    const struct uop *warp;

    BELL_TRY(attend_map_groups(&w->c, n, p, &w->begin));
    p->local[0] = (uint32_t)n_threads(w);
    w->c.e->tid = attend_special(&w->c, 4, n_threads(w));
    warp = op2(&w->c, UOP_FLOORDIV, w->c.e->tid, 32);
    w->g4 =
        op2(&w->c, UOP_FLOORMOD, op2(&w->c, UOP_FLOORDIV, w->c.e->tid, 4), 8);
    w->t4 = op2(&w->c, UOP_FLOORMOD, w->c.e->tid, 4);
    w->last = attend_last(&w->c, w->begin, n);
    w->row0 = step(&w->c, w->begin, warp, 16 * w->tall);
    return BELL_OK;
}

/* ---- q ---- */

/* Elements `at` and at + 1 of the row; zeros past the end. */
static void
load_pair(struct attend_nv *w, const struct attend_nv_rows *rows,
          const struct attend_nv_side *s, const struct uop *row,
          const struct uop *at, const struct uop **out)
{
    const struct kernel *k = w->c.e->k;
    const struct uop *q = rows->value,
                     *gate = attend_inside(&w->c, s->range, at, s->wide);
    const struct uop *zero = uop_const_int(w->c.g, q->dtype, 0), *u;
    uint32_t n = w->c.n_pairs, i;

    if (q->op == UOP_LOAD && q->n_src == 2 && s->n % 2 == 0 &&
        kernel_coef(k, q->src[1], rows->range) == 1) {
        const struct uop *src[4] = {q->src[0], NULL,
                                    expand_broadcast(w->c.e, zero, 2), gate};
        attend_let_range(&w->c, w->c.a->row, row);
        attend_let_range(&w->c, rows->range, at);
        src[1] = attend_value(&w->c, q->src[1], n);
        u = uop_make(w->c.g, UOP_LOAD, q->dtype, 2, no_arg, src, gate ? 4 : 2);
        for (i = 0; i < 2; i++)
            out[i] = attend_nv_lane(w, u, i);
        return;
    }
    for (i = 0; i < 2; i++) {
        u = op2(&w->c, UOP_ADD, at, i);
        gate = attend_inside(&w->c, s->range, u, s->wide);
        attend_let_range(&w->c, w->c.a->row, row);
        attend_let_range(&w->c, rows->range,
                         attend_clamp(&w->c, s->range, u, s->wide));
        out[i] = attend_value(&w->c, q, n);
        if (gate)
            out[i] = uop_alu3(w->c.g, UOP_WHERE, gate, out[i], zero);
    }
}

void
attend_nv_load_queries(struct attend_nv *w, struct attend_nv_rows *rows,
                       const struct attend_nv_side *side)
{
    const struct uop *part[8], *at;
    uint32_t tall, s, r;

    for (tall = 0; tall < w->tall; tall++) {
        for (s = 0; s < side->wide / 16; s++) {
            for (r = 0; r < 4; r++) {
                at = step(&w->c, num(&w->c, 16 * s + 8 * (r / 2)), w->t4, 2);
                load_pair(w, rows, side,
                          nv_row_inside(w, nv_row_of(w, tall, r % 2)), at,
                          part + 2 * r);
            }
            rows->part[tall][s] = attend_nv_lanes(w, part, 8);
        }
    }
}

/* ---- k and v in LOCAL memory ---- */

void
attend_nv_init_side(struct attend_nv *w, struct attend_nv_side *s,
                    const struct uop *value, uint32_t range)
{
    s->value = value;
    s->range = range;
    s->n = w->c.e->k->sizes[range];
    s->wide = (s->n + 15) / 16 * 16;
    s->stride = s->wide + CHUNK; /* rows lie in different banks */
}

/* May a COPY take chunks as they lie? */
bool
attend_nv_is_copied(const struct attend_nv *w, const struct attend_nv_side *s)
{
    const struct uop *u = s->value, *index, *zero = num(&w->c, 0);
    uint64_t divisor;

    if (u->op != UOP_LOAD || u->n_src != 2 || s->n % CHUNK ||
        w->c.e->k->target->copy_bytes < 16 ||
        kernel_coef(w->c.e->k, u->src[1], s->range) != 1)
        return false;
    index = u->src[1];
    if (uop_substitute(w->c.g, &index, 1, &w->c.e->k->ranges[s->range], &zero,
                       1) != BELL_OK)
        return false;
    divisor = expand_divisor(index, 0);
    return divisor == 0 || divisor % CHUNK == 0;
}

/* Key `key` from element `at` on, one by one. */
static const struct uop *
load_nv_chunk(struct attend_nv *w, const struct attend_nv_side *s,
              const struct uop *key, const struct uop *at,
              const struct uop *gate)
{
    const struct uop *part[CHUNK], *zero, *ok, *u;
    uint32_t n = w->c.n_pairs, i;

    zero = uop_const_int(w->c.g, s->value->dtype, 0);
    for (i = 0; i < CHUNK; i++) {
        u = op2(&w->c, UOP_ADD, at, i);
        ok = attend_both(&w->c, gate,
                         attend_inside(&w->c, s->range, u, s->wide));
        attend_let_range(&w->c, w->c.a->key,
                         attend_clamp(&w->c, w->c.a->key, key, w->c.tile));
        attend_let_range(&w->c, s->range,
                         attend_clamp(&w->c, s->range, u, s->wide));
        part[i] = attend_value(&w->c, s->value, n);
        if (ok)
            part[i] = uop_alu3(w->c.g, UOP_WHERE, ok, part[i], zero);
    }
    return attend_nv_lanes(w, part, CHUNK);
}

/* The row of `width` chunks of which a thread copies one, of those rows that
 * all threads copy together. Eight threads, which LOCAL memory serves at once,
 * have 8 / width rows: where those are so far apart that their banks differ, as
 * rows are an odd number of chunks from each other. */
static const struct uop *
row_to_copy(const struct attend_nv *w, int64_t width)
{
    const struct uop *row = op2(&w->c, UOP_FLOORDIV, w->c.e->tid, width), *part;
    int64_t n = 8 / width;

    if (n < 2)
        return row;
    part =
        step(&w->c,
             op2(&w->c, UOP_FLOORMOD, op2(&w->c, UOP_FLOORDIV, row, n), width),
             op2(&w->c, UOP_FLOORMOD, row, n), width);
    return step(&w->c, part, op2(&w->c, UOP_FLOORDIV, row, 8), 8);
}

/* The row and the chunk in it that a thread copies as its i-th, of rows of so
 * many: of all rows first what eight threads take of one row, then four of each
 * row, and so on, as long as all threads have as many. */
static const struct uop *
chunk_to_copy(const struct attend_nv *w, int64_t each, int64_t i,
              const struct uop **out_at)
{
    int64_t from = 0, width = each, before = i * n_threads(w), part;
    const struct uop *tid = w->c.e->tid, *row;

    for (part = 8; part > 1; part /= 2) {
        int64_t some = part == 8 ? width - width % 8 : width & part;
        if (some == 0 || w->c.tile * some % n_threads(w))
            continue;
        if (before < w->c.tile * some) {
            width = some;
            break;
        }
        before -= w->c.tile * some;
        from += some;
        width -= some;
    }
    if (n_threads(w) % width == 0) {
        row = op2(&w->c, UOP_ADD, row_to_copy(w, width), before / width);
        *out_at = op2(&w->c, UOP_FLOORMOD, tid, width);
    } else {
        tid = op2(&w->c, UOP_ADD, tid, before);
        row = op2(&w->c, UOP_FLOORDIV, tid, width);
        *out_at = op2(&w->c, UOP_FLOORMOD, tid, width);
    }
    *out_at = op2(&w->c, UOP_ADD, *out_at, from);
    return row;
}

/* Copies tile `tile`, the which-th, where `gate` holds; effects to out[]. */
static uint32_t
copy_nv_tile(struct attend_nv *w, const struct attend_nv_side *s,
             const struct uop *tile, const struct uop *which,
             const struct uop *gate, const struct uop **out)
{
    int64_t each = s->wide / CHUNK, all = w->c.tile * each, i;
    const struct uop *tid = w->c.e->tid, *zero = num(&w->c, 0);
    const struct uop *half, *work, *row, *at, *key, *ok, *src[6];
    bool copied = attend_nv_is_copied(w, s);
    uint32_t n = 0, n_pairs = w->c.n_pairs;

    half = op2(&w->c, UOP_MUL, op2(&w->c, UOP_FLOORMOD, which, 2),
               w->c.tile * s->stride);
    for (i = 0; i * n_threads(w) < all; i++) {
        work = op2(&w->c, UOP_ADD, tid, i * n_threads(w));
        row = chunk_to_copy(w, each, i, &at);
        at = op2(&w->c, UOP_MUL, at, CHUNK);
        key = step(&w->c, row, tile, w->c.tile);
        ok = attend_inside(&w->c, w->c.a->key, key, w->c.tile);
        src[0] = s->memory;
        src[1] = add(&w->c, step(&w->c, half, row, s->stride), at);
        src[5] = (i + 1) * n_threads(w) > all ? op2(&w->c, UOP_CMPLT, work, all)
                                              : NULL;
        src[5] = attend_both(&w->c, gate, src[5]);
        if (copied) {
            src[4] = attend_both(&w->c, ok,
                                 attend_inside(&w->c, s->range, at, s->wide));
            if (!src[4])
                src[4] = uop_const_int(w->c.g, UOP_BOOL, 1);
            src[2] = s->value->src[0];
            attend_let_range(&w->c, w->c.a->key, key);
            attend_let_range(&w->c, s->range, at);
            src[3] = attend_value(&w->c, s->value->src[1], n_pairs);
            out[n++] = uop_new(w->c.g, UOP_COPY, UOP_VOID, 1,
                               (union uop_arg){.i = 16}, src, src[5] ? 6 : 5);
            continue;
        }
        /* what is past the tiles is not read either */
        key = gate ? uop_alu3(w->c.g, UOP_WHERE, gate, key, zero) : key;
        src[2] = load_nv_chunk(w, s, key, at, ok);
        src[3] = src[5];
        out[n++] = uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src,
                            src[3] ? 4 : 3);
    }
    return n;
}

/* Loads two operands of 16 keys or elements by 8 each, from key `key` and
 * element `at` of the tile on. A key of v is a step: it is read transposed. */
static void
load_operands(const struct attend_nv *w, const struct attend_nv_side *s,
              bool turned, int64_t key, int64_t at, const struct uop *out[2])
{
    const struct uop *reg, *row, *src[2], *part[4], *u;
    uint32_t i, j;

    row = op2(&w->c, UOP_FLOORMOD, w->c.e->tid, 8);
    reg = op2(&w->c, UOP_FLOORMOD, op2(&w->c, UOP_FLOORDIV, w->c.e->tid, 8), 4);
    /* registers 0 and 1 are the first operand's */
    u = op2(&w->c, turned ? UOP_FLOORMOD : UOP_FLOORDIV, reg, 2);
    src[1] = op2(&w->c, UOP_MUL, step(&w->c, row, u, 8), s->stride);
    u = op2(&w->c, turned ? UOP_FLOORDIV : UOP_FLOORMOD, reg, 2);
    src[1] = step(&w->c, src[1], u, 8);
    src[1] =
        op2(&w->c, UOP_ADD, add(&w->c, s->half, src[1]), key * s->stride + at);
    src[0] = s->memory;
    u = uop_make(w->c.g, UOP_WMMA_ROWS, s->value->dtype, 8,
                 (union uop_arg){.i = turned}, src, 2);
    for (i = 0; i < 2; i++) {
        for (j = 0; j < 4; j++)
            part[j] = attend_nv_lane(w, u, 4 * i + j);
        out[i] = attend_nv_lanes(w, part, 4);
    }
}

/* ---- a tile of keys ---- */

static const struct uop *
nv_product(const struct attend_nv *w, const struct uop *a, const struct uop *b,
           const struct uop *sum)
{
    const struct uop *src[3] = {a, b, sum};
    union uop_arg arg = {.i = uop_wmma_arg(mma)};

    return uop_new(w->c.g, UOP_WMMA, UOP_F32, 4, arg, src, 3);
}

static void
make_nv_scores(const struct attend_nv *w, const struct attend_nv_rows *rows,
               const struct attend_nv_side *k,
               const struct uop *score[ATTEND_NV_TALL][ATTEND_NV_TILES])
{
    const struct uop *zero = uop_const_float(w->c.g, UOP_F32, 0), *b[2];
    uint32_t n, s, i, tall;

    zero = expand_broadcast(w->c.e, zero, 4);
    for (n = 0; n < w->c.tile / 8; n += 2) {
        for (s = 0; s < k->wide / 16; s++) {
            load_operands(w, k, false, 8 * n, 16 * s, b);
            for (tall = 0; tall < w->tall; tall++) {
                for (i = 0; i < 2; i++) {
                    const struct uop **sum = &score[tall][n + i];
                    *sum = nv_product(w, rows->part[tall][s], b[i],
                                      s ? *sum : zero);
                }
            }
        }
    }
}

/* What the function of the scores gives; past the last key -inf, of W 0. */
void
attend_nv_see_scores(struct attend_nv *w, uint32_t tall)
{
    const struct attend *a = w->c.a;
    const struct uop *key, *ok, *x, *none = low(&w->c), *seen = a->seen;
    uint32_t n, i, n_pairs = w->c.n_pairs;

    if (a->is_back) { /* as it is before it is widened */
        seen = seen->src[0];
        none = uop_const_int(w->c.g, seen->dtype, 0);
    }

    for (n = 0; n < w->c.tile / 8; n++) {
        for (i = 0; i < 4; i++) {
            key = step(&w->c, num(&w->c, 8 * n + i % 2), w->now, w->c.tile);
            key = step(&w->c, key, w->t4, 2);
            ok = attend_inside(&w->c, a->key, key, w->c.tile);
            attend_let(&w->c, w->c.factor ? w->c.scaled : a->score,
                       attend_nv_lane(w, w->score[tall][n], i));
            if (a->score2)
                attend_let(&w->c, a->score2,
                           attend_nv_lane(w, w->score2[tall][n], i));
            attend_let_range(&w->c, a->row,
                             nv_row_inside(w, nv_row_of(w, tall, i / 2)));
            attend_let_range(&w->c, a->key,
                             attend_clamp(&w->c, a->key, key, w->c.tile));
            x = attend_value(&w->c, seen, n_pairs);
            if (ok)
                x = uop_alu3(w->c.g, UOP_WHERE, ok, x, none);
            w->x[tall][n][i] = x;
        }
    }
}

/* Joins the values of the four threads that have a row. */
static const struct uop *
join_nv_row(const struct attend_nv *w, enum uop_op op, const struct uop *u)
{
    uint32_t bit;

    for (bit = 1; bit < 4; bit *= 2) {
        union uop_arg arg = {.i = bit};
        u = uop_alu2(w->c.g, op, u,
                     uop_new(w->c.g, UOP_SHUFFLE, u->dtype, 1, arg, &u, 1));
    }
    return u;
}

/* The maximum of a half's rows so far, and what that makes of what was added up
 * with the one before. A maximum of -inf is not subtracted: nothing was
 * seen. */
void
attend_nv_raise_max(struct attend_nv *w, uint32_t tall, uint32_t half,
                    const struct uop *old)
{
    const struct uop *part[4] = {NULL}, *max, *x; /* side by side */
    uint32_t n, i;

    for (n = 0; n < w->c.tile / 8; n++) {
        for (i = 0; i < 2; i++) {
            const struct uop **to = &part[2 * (n % 2) + i];
            x = w->x[tall][n][2 * half + i];
            *to = *to ? uop_alu2(w->c.g, UOP_MAX, *to, x) : x;
        }
    }
    for (max = part[0], i = 1; i < 4 && part[i]; i++)
        max = uop_alu2(w->c.g, UOP_MAX, max, part[i]);
    max = uop_alu2(w->c.g, UOP_MAX, old, join_nv_row(w, UOP_MAX, max));
    w->new_max[tall][half] = max;
    w->safe[tall][half] = attend_safe(&w->c, max);
    w->scale[tall][half] = attend_rescale(&w->c, old, w->safe[tall][half]);
}

/* The scores become E, and are added up by each thread. */
void
attend_nv_make_exps(struct attend_nv *w, uint32_t tall,
                    const struct uop *const old[2])
{
    const struct uop *sum[2], *x;
    uint32_t n, i;

    for (i = 0; i < 2; i++)
        sum[i] = uop_alu2(w->c.g, UOP_MUL, old[i], w->scale[tall][i]);
    for (n = 0; n < w->c.tile / 8; n++) {
        for (i = 0; i < 4; i++) {
            x = attend_exp(&w->c, w->x[tall][n][i], w->safe[tall][i / 2]);
            sum[i / 2] = uop_alu2(w->c.g, UOP_ADD, sum[i / 2], x);
            w->x[tall][n][i] = x;
        }
    }
    for (i = 0; i < 2; i++)
        w->new_sum[tall][i] = sum[i];
}

/* A part of E as an operand: rounded together where each is rounded. */
static const struct uop *
round_nv_part(const struct attend_nv *w, const struct uop *const part[8])
{
    const struct uop *wide[8], *u;
    uint32_t i;

    for (i = 0; i < 8; i++) {
        if (part[i]->op != UOP_CAST ||
            part[i]->src[0]->dtype != part[0]->src[0]->dtype)
            return attend_nv_lanes(w, part, 8);
        wide[i] = part[i]->src[0];
    }
    u = attend_nv_lanes(w, wide, 8);
    return uop_make(w->c.g, UOP_CAST, part[0]->dtype, 8, no_arg, &u, 1);
}

/* out[][] = out[][] * scale + E @ v */
static void
add_nv_values(struct attend_nv *w,
              const struct uop *out[ATTEND_NV_TALL][ATTEND_NV_COLS])
{
    const struct uop *p[ATTEND_NV_TALL][ATTEND_NV_TILE / 16], *part[8], *b[2];
    uint32_t tall, s, n, i;

    for (tall = 0; tall < w->tall; tall++) {
        for (s = 0; s < w->c.tile / 16; s++) {
            for (i = 0; i < 8; i++)
                part[i] = uop_cast(w->c.g, w->x[tall][2 * s + i / 4][i % 4],
                                   w->v.value->dtype);
            p[tall][s] = round_nv_part(w, part);
        }
        for (i = 0; i < 4; i++)
            part[i] = w->scale[tall][i / 2];
        for (n = 0; n < w->v.wide / 8 && !w->c.a->is_back; n++)
            out[tall][n] = uop_alu2(w->c.g, UOP_MUL, out[tall][n],
                                    attend_nv_lanes(w, part, 4));
    }
    for (s = 0; s < w->c.tile / 16; s++) {
        for (n = 0; n < w->v.wide / 8; n += 2) {
            load_operands(w, &w->v, true, 16 * s, 8 * n, b);
            for (tall = 0; tall < w->tall; tall++) {
                for (i = 0; i < 2; i++)
                    out[tall][n + i] =
                        nv_product(w, p[tall][s], b[i], out[tall][n + i]);
            }
        }
    }
}

/* ---- the loop ---- */

static void
make_nv_accs(struct attend_nv *w)
{
    const struct uop *zero = uop_const_float(w->c.g, UOP_F32, 0);
    uint32_t tall, i;

    for (tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < 2 && !w->c.a->is_back; i++) {
            w->max[tall][i] = attend_acc(&w->c, low(&w->c), NULL, 0);
            w->sum[tall][i] = attend_acc(&w->c, zero, NULL, 0);
        }
        for (i = 0; i < w->v.wide / 8; i++)
            w->out[tall][i] =
                attend_acc(&w->c, expand_broadcast(w->c.e, zero, 4), NULL, 0);
    }
}

/* Work on a tile: ACC_SETs to effects[]. */
static uint32_t
make_nv_tile(struct attend_nv *w, const struct uop **effects)
{
    const struct uop *out[ATTEND_NV_TALL][ATTEND_NV_COLS], *sum[2];
    uint32_t tall, i, n = 0;

    make_nv_scores(w, &w->q, &w->k, w->score);
    if (w->k2.value)
        make_nv_scores(w, &w->q2, &w->k2, w->score2);
    for (tall = 0; tall < w->tall; tall++) {
        attend_nv_see_scores(w, tall);
        for (i = 0; i < 2 && !w->c.a->is_back; i++) {
            attend_nv_raise_max(w, tall, i,
                                attend_get(&w->c, w->max[tall][i], w->range));
            sum[i] = attend_get(&w->c, w->sum[tall][i], w->range);
        }
        if (!w->c.a->is_back)
            attend_nv_make_exps(w, tall, sum);
        for (i = 0; i < w->v.wide / 8; i++)
            out[tall][i] = attend_get(&w->c, w->out[tall][i], w->range);
    }
    add_nv_values(w, out);
    for (tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < 2 && !w->c.a->is_back; i++) {
            effects[n++] =
                attend_set(&w->c, w->max[tall][i], w->new_max[tall][i]);
            effects[n++] =
                attend_set(&w->c, w->sum[tall][i], w->new_sum[tall][i]);
        }
        for (i = 0; i < w->v.wide / 8; i++)
            effects[n++] = attend_set(&w->c, w->out[tall][i], out[tall][i]);
    }
    return n;
}

/* A loop over `turns` of all `tiles`, behind so many before it. src[] has the n
 * effects that it waits for, and room. Its END. */
static const struct uop *
make_nv_turns(struct attend_nv *w, const struct uop *before,
              const struct uop *turns, const struct uop *tiles,
              const struct uop **src, uint32_t n)
{
    struct attend_nv_side *sides[3] = {&w->k, &w->k2, &w->v};
    union uop_arg arg = {.i = uop_range_arg(w->c.a->key, UOP_AXIS_REDUCE)};
    const struct uop *next, *gate, *barrier, *turn;
    uint32_t i;

    w->range = uop_new(w->c.g, UOP_RANGE, UOP_I64, 1, arg, &turns, 1);
    turn = add(&w->c, before, w->range);
    w->now = add(&w->c, w->first, turn);
    src[n++] = w->range;
    barrier = uop_new(w->c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, src, n);
    next = op2(&w->c, UOP_ADD, turn, 1);
    gate = uop_alu2(w->c.g, UOP_CMPLT, next, tiles);
    for (i = 0, n = 1; i < 3; i++) {
        struct attend_nv_side *s = sides[i];
        if (!s->value)
            continue;
        s->half = op2(&w->c, UOP_MUL, op2(&w->c, UOP_FLOORMOD, turn, 2),
                      w->c.tile * s->stride);
        if (s->same) {
            s->memory = s->same->memory;
            continue;
        }
        s->memory = attend_after(&w->c, s->array, &barrier, 1);
        n +=
            copy_nv_tile(w, s, add(&w->c, w->first, next), next, gate, src + n);
    }
    n += make_nv_tile(w, src + n);
    src[0] = w->range;
    return uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n);
}

/* The variables behind a loop. */
static void
go_behind_nv(struct attend_nv *w, const struct uop *end)
{
    uint32_t tall, n = w->c.a->is_back ? 0 : 2;

    for (tall = 0; tall < w->tall; tall++) {
        attend_behind(&w->c, w->max[tall], n, end);
        attend_behind(&w->c, w->sum[tall], n, end);
        attend_behind(&w->c, w->out[tall], (uint32_t)w->v.wide / 8, end);
    }
}

/* The first tiles, then the loop over tiles, or one over those that are whole
 * and one over what is left; the last's END. */
static bell_status
make_nv_loop(struct attend_nv *w, const struct uop **out_end)
{
    int64_t wide = w->k.wide + w->v.wide + w->k2.wide;
    size_t most = 2 * (size_t)(w->c.tile * wide / CHUNK / n_threads(w) + 3) +
                  ATTEND_NV_TALL * (ATTEND_NV_COLS + 4) + 2;
    const struct uop *tiles, *whole, **src;
    struct attend_nv_side *sides[3] = {&w->k, &w->k2, &w->v};
    uint32_t n = 0, i;

    tiles = attend_count_tiles(&w->c, w->begin, w->last, &w->first);
    src = arena_alloc(&w->c.e->k->mem, most * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of attention: out of memory");
    for (i = 0; i < 3; i++) {
        struct attend_nv_side *s = sides[i];
        if (!s->value || s->same)
            continue;
        s->array = s->memory = expand_local(
            w->c.e, s->value->dtype, (uint64_t)(2 * w->c.tile * s->stride));
        n += copy_nv_tile(w, s, w->first, num(&w->c, 0), NULL, src + n);
    }
    whole = attend_whole_tiles(&w->c, w->first, tiles);
    if (whole) {
        w->c.is_whole = true;
        src[0] = make_nv_turns(w, num(&w->c, 0), whole, tiles, src, n);
        n = 1;
        w->c.is_whole = false;
        go_behind_nv(w, src[0]);
        *out_end = make_nv_turns(
            w, whole, uop_alu2(w->c.g, UOP_SUB, tiles, whole), tiles, src, n);
    } else {
        *out_end = make_nv_turns(w, num(&w->c, 0), tiles, tiles, src, n);
    }
    return uop_graph_status(w->c.g);
}

/* ---- what is stored ---- */

/* Results 2 half and 2 half + 1 of a thread's part, from column `at` on. */
static uint32_t
store_pair(struct attend_nv *w, const struct uop *row, const struct uop *at,
           const struct uop *const out[2], const struct uop *sum,
           const struct uop *max, const struct uop **effects)
{
    const struct uop *store = w->c.a->store, *src[4], *part[2], *col[2];
    const struct uop *is_row =
        attend_inside(&w->c, w->c.a->row, row, rows_of_group(w));
    uint32_t n_pairs = w->c.n_pairs, i, n = 0;
    bool pair = w->v.n % 2 == 0 &&
                kernel_coef(w->c.e->k, store->src[1], w->c.a->col) == 1;

    for (i = 0; i < 2; i++) {
        col[i] = op2(&w->c, UOP_ADD, at, i);
        attend_let(&w->c, w->c.a->out, out[i]);
        if (!w->c.a->is_back) {
            attend_let(&w->c, w->c.a->sum, sum);
            attend_let(&w->c, w->c.a->max, max);
        }
        attend_let_range(&w->c, w->c.a->row, nv_row_inside(w, row));
        attend_let_range(&w->c, w->c.a->col,
                         attend_clamp(&w->c, w->c.a->col, col[i], w->v.wide));
        part[i] = attend_value(&w->c, store->src[2], n_pairs);
    }
    for (i = 0; i < (pair ? 1 : 2); i++) {
        src[0] = store->src[0];
        attend_let_range(&w->c, w->c.a->row, nv_row_inside(w, row));
        attend_let_range(&w->c, w->c.a->col,
                         attend_clamp(&w->c, w->c.a->col, col[i], w->v.wide));
        src[1] = attend_value(&w->c, store->src[1], n_pairs);
        src[2] = pair ? attend_nv_lanes(w, part, 2) : part[i];
        src[3] =
            attend_both(&w->c, is_row,
                        attend_inside(&w->c, w->c.a->col, col[i], w->v.wide));
        effects[n++] = uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src,
                                src[3] ? 4 : 3);
    }
    return n;
}

static const struct uop *
get_out(const struct attend_nv *w, uint32_t tall, uint32_t col,
        const struct uop *end)
{
    return attend_get(&w->c, w->out[tall][col], end);
}

bell_status
attend_nv_make_stores(struct attend_nv *w, const struct uop *end,
                      const struct uop *(*get)(const struct attend_nv *w,
                                               uint32_t tall, uint32_t col,
                                               const struct uop *end),
                      const struct uop **out_sink)
{
    const struct uop *src[ATTEND_NV_TALL * (ATTEND_NV_COLS + 1) * 4], *part[2];
    const struct uop *sum[2] = {NULL}, *max[2] = {NULL}, *row;
    uint32_t tall, c, i, n = 0;

    for (tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < 2 && !w->c.a->is_back; i++) {
            sum[i] = join_nv_row(w, UOP_ADD,
                                 attend_get(&w->c, w->sum[tall][i], end));
            max[i] = attend_get(&w->c, w->max[tall][i], end);
            row = nv_row_of(w, tall, i);
            n += attend_store_kept(
                &w->c, nv_row_inside(w, row), sum[i], max[i],
                attend_both(
                    &w->c, op2(&w->c, UOP_CMPEQ, w->t4, 0),
                    attend_inside(&w->c, w->c.a->row, row, rows_of_group(w))),
                src + n);
        }
        for (c = 0; c < w->v.wide / 8; c++) {
            const struct uop *out = get(w, tall, c, end);
            for (i = 0; i < 2; i++) {
                part[0] = attend_nv_lane(w, out, 2 * i);
                part[1] = attend_nv_lane(w, out, 2 * i + 1);
                n += store_pair(w, nv_row_of(w, tall, i),
                                step(&w->c, num(&w->c, 8 * c), w->t4, 2), part,
                                sum[i], max[i], src + n);
            }
        }
    }
    *out_sink = attend_sink(&w->c, src, n);
    return uop_graph_status(w->c.g);
}

/* Chooses rows of a warp and keys of a tile by what registers and LOCAL memory
 * hold. With more rows each access to k and v is used more; but there have to
 * be work-groups for all SMs. observed: H100, 2026-11-23: two tiles of rows in
 * a warp, tiles of 64 keys for narrow heads. guess: which heads are narrow. */
static void
choose_nv_sizes(struct attend_nv *w)
{
    const struct kernel *k = w->c.e->k;
    const struct lower_target *t = k->target;
    double groups = (double)w->c.n_rows / (16 * w->warps * ATTEND_NV_TALL);
    int64_t wide = w->k.wide + w->v.wide, stride = w->k.stride;
    int64_t most =
        t->max_stage_bytes ? t->max_stage_bytes / 2 : t->max_shared_bytes;
    uint64_t set;

    for (set = w->c.a->batch; set; set &= set - 1)
        groups *= (double)k->sizes[__builtin_ctzll(set)];
    stride += (w->v.same ? 0 : w->v.stride) + w->k2.stride;
    w->tall = wide <= 256 && !w->c.a->is_back && w->c.n_rows > 16 * w->warps &&
                      groups >= t->n_units
                  ? ATTEND_NV_TALL
                  : 1;
    w->c.tile = w->tall == ATTEND_NV_TALL && wide <= 128 ? 64 : 32;
    while (w->c.tile > 16 &&
           (2 * w->c.tile * stride * 2 > most || w->c.tile / 2 >= w->c.n_keys))
        w->c.tile /= 2;
}

bell_status
expand_attend_nv(struct kernel *k, const struct attend *a,
                 const struct uop **out_sink, struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct attend_nv w = {.c = {.e = &e, .g = k->g, .a = a},
                          .warps = MMA_WARPS};
    const struct uop *end = NULL;
    bool fits;

    BELL_TRY(expand_attend_wgmma(k, a, out_sink, program, &fits));
    if (fits)
        return BELL_OK;
    w.c.n_rows = k->sizes[a->row];
    w.c.n_keys = k->sizes[a->key];
    attend_nv_init_side(&w, &w.k, a->k, a->in);
    attend_nv_init_side(&w, &w.v, a->v, a->col);
    w.q = (struct attend_nv_rows){.value = a->q, .range = a->in};
    if (a->score2) {
        attend_nv_init_side(&w, &w.k2, a->k2, a->in2);
        w.q2 = (struct attend_nv_rows){.value = a->q2, .range = a->in2};
    }
    if (attend_is_same(&w.c, a->v, a->col, a->k, a->in))
        w.v.same = &w.k;
    else if (a->score2 && attend_is_same(&w.c, a->v, a->col, a->k2, a->in2))
        w.v.same = &w.k2;
    choose_nv_sizes(&w);
    if (!a->is_back)
        attend_find_factor(&w.c);
    LOG(LOG_OPT, "attention: %d rows by %d keys at a time",
        16 * MMA_WARPS * (int)w.tall, (int)w.c.tile);
    BELL_TRY(attend_nv_map_groups(&w, program));
    attend_nv_load_queries(&w, &w.q, &w.k);
    if (a->score2)
        attend_nv_load_queries(&w, &w.q2, &w.k2);
    make_nv_accs(&w);
    BELL_TRY(make_nv_loop(&w, &end));
    BELL_TRY(attend_nv_make_stores(&w, end, get_out, out_sink));
    program->shared_bytes = e.shared_bytes;
    return BELL_OK;
}
