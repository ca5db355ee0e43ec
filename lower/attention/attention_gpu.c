/* Attention in one kernel, on any GPU (lower/attention/attention.h): by matrix
 * instructions whose results are 16 columns wide, or without them.
 *
 * Fragment layout. A warp has one or more tiles of query rows. In a tile of
 * scores with 16 keys, or of results with 16 columns, thread 16 p + c holds
 * column c. The 16 threads with the same p hold the same rows, so maxima and
 * sums of rows are reduced across them. Without matrix instructions a tile has
 * 4 rows for each p.
 *
 * Memory. Tiles of k and v are in LOCAL memory; the next ones are loaded into
 * registers meanwhile. The exponentials E pass through LOCAL memory, from the
 * layout of scores to that of an operand of the product with v.
 *
 * Swapped operands. If an operand has each element in one thread only, both
 * products are made with their operands exchanged. Thread 16 p + c then holds
 * keys of query c, and columns of its result. E is already in the layout of an
 * operand, and a thread has one maximum and one sum for a tile.
 *
 * Units. LOCAL memory is accessed 16 bytes at a time, a unit. A unit holds all
 * that a thread needs of an operand for several steps; the order of elements
 * among steps is free, as long as both operands use the same. If a row's length
 * is a power of two, its units are permuted by the row's number. Threads that
 * access the same unit of 8 rows then use different banks.
 */

#include "base/log.h"
#include "lower/attention/attention_code.h"

/* guess: numbers that say so were not compared with others. observed: LLVM 19,
 * 2026-11-23: more than AND_MASKED was spilled; OTHER_REGS: fits_registers. */
#define OWN        4 /* rows of a thread without matrix instructions. guess */
#define STEPS      4 /* that are worked on together then. guess */
#define MAX_OWN    8
#define MAX_TALL   2  /* guess */
#define MAX_TILE   64 /* keys. guess */
#define MAX_TILES  (MAX_TILE / 16)
#define MAX_COLS   16  /* tiles of v's columns */
#define MAX_STEPS  64  /* of q, 256 elements of 4 at a time */
#define BATCH      4   /* chunks that are copied together. guess */
#define MAX_COPY   64  /* chunks of k or v that a thread copies */
#define Q_REGS     64  /* words of q that a thread keeps. guess */
#define Q_AND_OUT  128 /* the same and results. guess */
#define AND_MASKED 95  /* where scores are more than scaled, not CDNA's */
#define OTHER_REGS 46  /* addresses and the like */

static const union uop_arg no_arg = {.bits = 0};

/* q, k, v, q2 or k2. */
struct side {
    const struct uop *value;
    uint32_t range;  /* c or the columns */
    int64_t n, wide; /* its size; with zeros, a multiple of 16 */
    int64_t stride;  /* in LOCAL memory, from key to key; turned: from
                           * column to column */
    bool turned;     /* neighbours are keys */
    bool mixed;      /* units of a row change places */
    const struct uop *array, *memory; /* in LOCAL memory, as it is now; NULL: it
                                       * is not there */
    /* what the thread copies: values and where they go */
    const struct uop *chunk[MAX_COPY], *key[MAX_COPY], *at[MAX_COPY],
        *gate[MAX_COPY], *first[MAX_COPY];
    uint32_t n_chunks;
    /* A transposed array's chunks: a thread has n_chunks of `keys` each, which
     * are neighbours in a row of the array. */
    uint32_t keys;
    const struct uop *frag[MAX_TALL][MAX_STEPS]; /* of q and q2, where kept */
};

struct gpu_work {
    struct attend_code c;
    bool matrix;
    bool across; /* operands are exchanged */
    struct uop_wmma shape;
    enum uop_dtype dtype; /* in LOCAL memory */
    uint32_t own, parts;  /* results of a thread in a tile; threads / 16 */
    uint32_t states;      /* rows of a thread in a tile */
    uint32_t tall, waves; /* tiles of rows of a warp; warps */
    bool early;           /* the next tile is loaded before it is needed */
    /* A NaN among a row's scores makes L one, and so all of the row, whatever M
     * is then and W of it. */
    bool nan_is_all;
    int64_t p_stride;
    struct side q, k, v, q2, k2;   /* k2.value NULL: there is none */
    const struct uop *c16, *part;  /* thread % 16, / 16, of its warp */
    const struct uop *wave, *row0; /* first row of the work-group */
    const struct uop *last;
    const struct uop *range, *first, *now; /* loop over tiles; the first tile,
                                            * the present one */
    const struct uop *p_array, *p;         /* E in LOCAL memory, as it is now */
    const struct uop *max[MAX_TALL][MAX_OWN], *sum[MAX_TALL][MAX_OWN];
    const struct uop *out[MAX_TALL][MAX_COLS];
    /* of the present tile */
    const struct uop *score[MAX_TALL][MAX_TILES], *score2[MAX_TALL][MAX_TILES];
    const struct uop *x[MAX_TALL][MAX_TILES][MAX_OWN];
    const struct uop *new_max[MAX_TALL][MAX_OWN], *safe[MAX_TALL][MAX_OWN];
    const struct uop *scale[MAX_TALL][MAX_OWN], *new_sum[MAX_TALL][MAX_OWN];
};

/* ---- short forms ---- */

static const struct uop *
lane(const struct gpu_work *w, const struct uop *u, uint32_t i)
{
    union uop_arg arg = {.i = i};

    return u->lanes == 1 ? u
                         : uop_make(w->c.g, UOP_LANE, u->dtype, 1, arg, &u, 1);
}

static const struct uop *
lanes(const struct gpu_work *w, const struct uop *const *u, uint32_t n)
{
    return n == 1 ? u[0]
                  : uop_make(w->c.g, UOP_LANES, u[0]->dtype, (uint16_t)n,
                             no_arg, u, n);
}

static const struct uop *
gpu_load(const struct gpu_work *w, const struct uop *memory,
         const struct uop *at, uint32_t n)
{
    const struct uop *src[2] = {memory, at};

    return uop_make(w->c.g, UOP_LOAD, memory->dtype, (uint16_t)n, no_arg, src,
                    2);
}

static const struct uop *
as_type(const struct gpu_work *w, const struct uop *u, enum uop_dtype dtype)
{
    return u->dtype == dtype
               ? u
               : uop_make(w->c.g, UOP_CAST, dtype, u->lanes, no_arg, &u, 1);
}

static uint32_t
warp_rows(const struct gpu_work *w)
{
    return w->tall * w->own * w->parts;
}

static uint32_t
count_threads(const struct gpu_work *w)
{
    return w->waves * w->parts * 16;
}

static int64_t
group_rows(const struct gpu_work *w)
{
    return (int64_t)w->waves * warp_rows(w);
}

/* Row of the work-group that is the thread's of an operand with 16. */
static const struct uop *
operand_row(const struct gpu_work *w, uint32_t tall)
{
    return add(&w->c, step(&w->c, w->c16, w->wave, warp_rows(w)),
               num(&w->c, tall * w->own * w->parts));
}

/* Row of the work-group: element i of the thread's results in a tile. */
static const struct uop *
own_row(const struct gpu_work *w, uint32_t tall, uint32_t i)
{
    bool together = !w->matrix || uop_wmma_rows_together(w->shape, w->dtype);
    const struct uop *u =
        num(&w->c, tall * w->own * w->parts + (together ? i : w->parts * i));

    if (w->across)
        return operand_row(w, tall);
    u = step(&w->c, u, w->part, together ? w->own : 1);
    return step(&w->c, u, w->wave, warp_rows(w));
}

/* Key of the tile, or column: of element i of results n. */
static const struct uop *
own_column(const struct gpu_work *w, uint32_t n, uint32_t i)
{
    return w->across ? step(&w->c, num(&w->c, 16 * n + i), w->part, w->own)
                     : op2(&w->c, UOP_ADD, w->c16, 16 * n);
}

static const struct uop *
row_at(const struct gpu_work *w, const struct uop *own)
{
    return add(&w->c, w->row0, own);
}

static const struct uop *
row_that_is(const struct gpu_work *w, const struct uop *row)
{
    return attend_clamp(&w->c, w->c.a->row, row, group_rows(w));
}

/* Is it one? NULL: always. */
static const struct uop *
is_row(const struct gpu_work *w, const struct uop *row)
{
    return attend_inside(&w->c, w->c.a->row, row, group_rows(w));
}

/* ---- parts of operands ---- */

/* Elements of an operand that a thread has, and the first along k. */
static uint32_t
part_size(const struct gpu_work *w)
{
    return w->matrix ? uop_wmma_lanes(w->shape, UOP_WMMA_A) : STEPS;
}

static const struct uop *
part_begin(const struct gpu_work *w, uint32_t s)
{
    const struct uop *u;
    uint32_t k = w->matrix ? w->shape.k : STEPS;

    u = num(&w->c, (int64_t)s * k);
    if (!w->matrix || w->shape.layout == UOP_WMMA_RDNA3)
        return u;
    return step(&w->c, u, w->part, part_size(w));
}

/* acc + a @ b, or that across; without matrix instructions of STEPS elements of
 * each row, and of the column. */
static const struct uop *
gpu_product(const struct gpu_work *w, const struct uop *const *a,
            const struct uop *b, const struct uop *acc)
{
    const struct uop *src[3] = {w->across ? b : a[0], w->across ? a[0] : b,
                                acc},
                     *row[MAX_OWN];
    union uop_arg arg = {.i = uop_wmma_arg(w->shape)};
    uint32_t s, i;

    if (w->matrix)
        return uop_new(w->c.g, UOP_WMMA, UOP_F32, acc->lanes, arg, src, 3);
    for (s = 0; s < STEPS; s++) {
        for (i = 0; i < w->own; i++)
            row[i] = lane(w, a[i], s);
        acc = uop_alu3(
            w->c.g, UOP_MULACC, lanes(w, row, w->own),
            expand_broadcast(w->c.e, lane(w, b, s), (uint16_t)w->own), acc);
    }
    return acc;
}

/* Elements of 16 bytes. */
static uint32_t
chunk_size(const struct gpu_work *w)
{
    return 16 / uop_dtype_infos[w->dtype].size_bytes;
}

/* Steps of a product that a unit of the side's rows is for. */
static uint32_t
unit_steps(const struct gpu_work *w, const struct side *s)
{
    return s->mixed && !s->turned ? chunk_size(w) / part_size(w) : 1;
}

/* Tiles of 16 keys of which a thread's E is for one unit of v. */
static uint32_t
unit_tiles(const struct gpu_work *w)
{
    return w->across && w->c.tile % 32 == 0 && w->own < chunk_size(w) ? 2 : 1;
}

/* Row `row` + row0, which have no bits in common, has its unit `unit` + unit0,
 * likewise, where, from element `first` of it on? The units of 8 rows that
 * follow each other differ in their banks and, of what is turned, of rows that
 * are 8 apart: so these are written. */
static const struct uop *
mixed_place(const struct gpu_work *w, const struct side *s,
            const struct uop *row, uint32_t row0, const struct uop *unit,
            uint32_t unit0, const struct uop *first)
{
    uint32_t size = chunk_size(w), n = (uint32_t)s->stride / size;
    uint32_t rows = n % 8 == 0 ? 1 : s->turned ? 8 / n : 2; /* of all banks */
    uint32_t line = s->turned ? rows : 1; /* whose units change places */
    uint32_t mask = s->turned ? 7 : 8 / rows - 1, mix0 = row0 / rows;
    /* of few columns, neighbours write several units */
    uint32_t apart = s->wide / size == 4 ? 2 : s->wide / size == 2 ? 4 : 1;
    const struct uop *mix = op2(&w->c, UOP_FLOORDIV, row, rows);

    mix = op2(&w->c, UOP_FLOORMOD, mix, 8 / rows);
    mix0 %= 8 / rows;
    if (s->turned) {
        const struct uop *far = op2(&w->c, UOP_FLOORDIV, row, 8);
        far = op2(&w->c, UOP_FLOORMOD, op2(&w->c, UOP_MUL, far, apart), 8);
        mix = uop_alu2(w->c.g, UOP_XOR, mix, far);
        mix0 ^= row0 / 8 * apart;
        unit = step(&w->c, unit, op2(&w->c, UOP_FLOORMOD, row, line), n);
        unit0 += row0 % line * n;
    }
    unit = uop_alu2(w->c.g, UOP_XOR, unit, mix);
    if ((unit0 ^ mix0) & mask)
        unit = op2(&w->c, UOP_XOR, unit, (unit0 ^ mix0) & mask);
    unit = step(&w->c, first, unit, size);
    unit = step(&w->c, unit, op2(&w->c, UOP_FLOORDIV, row, line),
                line * s->stride);
    return op2(&w->c, UOP_ADD, unit,
               row0 / line * line * s->stride +
                   (int64_t)(unit0 & ~mask) * size);
}

/* The same where units keep their places: rows are one unit longer, and one is
 * left out behind every 8. */
static const struct uop *
unit_place(const struct gpu_work *w, const struct side *s,
           const struct uop *row, uint32_t row0, const struct uop *unit,
           uint32_t unit0, const struct uop *first)
{
    uint32_t size = chunk_size(w);
    const struct uop *at;

    if (s->mixed)
        return mixed_place(w, s, row, row0, unit, unit0, first);
    at = step(&w->c, step(&w->c, first, unit, size), row, s->stride);
    at = step(&w->c, at, op2(&w->c, UOP_FLOORDIV, row, 8), size);
    return op2(&w->c, UOP_ADD, at,
               row0 * s->stride + (row0 / 8 + unit0) * (int64_t)size);
}

/* n elements each of `from`, which has more. */
static void
take_apart(const struct gpu_work *w, const struct uop *from, uint32_t n,
           const struct uop **out)
{
    const struct uop *part[16];
    uint32_t i, j;

    for (i = 0; i < from->lanes / n; i++) {
        for (j = 0; j < n; j++)
            part[j] = lane(w, from, i * n + j);
        out[i] = lanes(w, part, n);
    }
}

/* The parts of steps unit_steps * s and on, of a row or key of LOCAL memory. */
static void
load_parts(const struct gpu_work *w, const struct side *side,
           const struct uop *row, uint32_t row0, uint32_t s,
           const struct uop **out)
{
    uint32_t all = w->parts * part_size(w) * unit_steps(w, side);
    const struct uop *at;

    if (!side->mixed) {
        at = step(&w->c, part_begin(w, s), op2(&w->c, UOP_ADD, row, row0),
                  side->stride);
        out[0] = gpu_load(w, side->memory, at, part_size(w));
        return;
    }
    at = unit_place(w, side, row, row0, w->part, s * all / chunk_size(w),
                    num(&w->c, 0));
    take_apart(w, gpu_load(w, side->memory, at, chunk_size(w)), part_size(w),
               out);
}

/* A's parts, of `memory` with rows of queries, from element `at` on. */
static void
load_gpu_rows(const struct gpu_work *w, const struct uop *memory,
              int64_t stride, uint32_t tall, const struct uop *at,
              const struct uop **out)
{
    const struct uop *row;
    uint32_t i;

    for (i = 0; i < (w->matrix ? 1 : w->own); i++) {
        row = w->matrix ? operand_row(w, tall) : own_row(w, tall, i);
        out[i] =
            gpu_load(w, memory, step(&w->c, at, row, stride), part_size(w));
    }
}

/* ---- copies ---- */

/* May chunks be loaded as they lie? */
static bool
is_wide_load(const struct gpu_work *w, const struct side *s)
{
    const struct uop *u = s->value;

    return u->op == UOP_LOAD && u->n_src == 2 && s->n % chunk_size(w) == 0 &&
           kernel_coef(w->c.e->k, u->src[1], s->range) == 1;
}

/* Elements from `at` on of the row or key `which`, a value of range r in tiles
 * of `tile`; zeros past the ends and where `gate` does not hold. */
static const struct uop *
load_gpu_chunk(struct gpu_work *w, const struct side *s, uint32_t r,
               const struct uop *which, int64_t tile, const struct uop *at,
               const struct uop *gate, uint32_t size)
{
    const struct uop *part[16], *zero, *ok, *u, *src[4];
    uint32_t n_pairs = w->c.n_pairs, i;

    gate = attend_both(&w->c, gate, attend_inside(&w->c, r, which, tile));
    zero = uop_const_int(w->c.g, s->value->dtype, 0);
    if (is_wide_load(w, s) && s->n % size == 0) {
        gate = attend_both(&w->c, gate,
                           attend_inside(&w->c, s->range, at, s->wide));
        attend_let_range(&w->c, r, which);
        attend_let_range(&w->c, s->range, at);
        src[0] = s->value->src[0];
        src[1] = attend_value(&w->c, s->value->src[1], n_pairs);
        src[2] = expand_broadcast(w->c.e, zero, (uint16_t)size);
        src[3] = gate;
        u = uop_make(w->c.g, UOP_LOAD, s->value->dtype, (uint16_t)size, no_arg,
                     src, gate ? 4 : 2);
        return as_type(w, u, w->dtype);
    }
    which = attend_clamp(&w->c, r, which, tile);
    if (gate)
        which = uop_alu3(w->c.g, UOP_WHERE, gate, which, num(&w->c, 0));
    for (i = 0; i < size; i++) {
        u = op2(&w->c, UOP_ADD, at, i);
        ok = attend_both(&w->c, gate,
                         attend_inside(&w->c, s->range, u, s->wide));
        attend_let_range(&w->c, r, which);
        attend_let_range(&w->c, s->range,
                         attend_clamp(&w->c, s->range, u, s->wide));
        part[i] = attend_value(&w->c, s->value, n_pairs);
        if (ok)
            part[i] = uop_alu3(w->c.g, UOP_WHERE, ok, part[i], zero);
    }
    return as_type(w, lanes(w, part, size), w->dtype);
}

/* The copied rows, from `first` on, of values of range r; with `gate`,
 * which may be NULL, where that holds. */
struct attend_tile {
    uint32_t r;
    int64_t rows;
    const struct uop *first, *gate;
};

/* Keys of a unit of v that a thread turns together, at most: as many as leave
 * something to do for every thread, and the same for all of RDNA 3, which has
 * no registers for more. observed: LLVM 19, 2026-11-27, heads of 96 were
 * spilled */
static uint32_t
turned_keys(const struct gpu_work *w, const struct side *s, int64_t rows)
{
    int64_t n = chunk_size(w), chunks = rows * s->wide / n;
    int64_t threads = count_threads(w);

    while (n > 1 &&
           (chunks < n * threads || (!w->across && chunks % threads == 0 &&
                                     chunks % (n * threads) != 0)))
        n /= 2;
    return (uint32_t)n;
}

/* What each thread copies of the tile: chunks, or those of `keys` keys. */
static int64_t
count_chunks(const struct gpu_work *w, const struct side *s, int64_t rows)
{
    int64_t all = rows * s->wide / chunk_size(w), threads = count_threads(w);

    if (s->turned)
        all /= turned_keys(w, s, rows);
    return (all + threads - 1) / threads;
}

/* The key of the tile that lies in place i of unit `unit` of v's rows. */
static const struct uop *
gpu_key_at(const struct gpu_work *w, const struct uop *unit,
           const struct uop *i)
{
    uint32_t n = unit_tiles(w), own = w->own;
    const struct uop *tile, *part;

    if (n == 1)
        return step(&w->c, i, unit, chunk_size(w));
    tile = op2(&w->c, UOP_FLOORDIV, unit, w->parts);
    part = op2(&w->c, UOP_FLOORMOD, unit, w->parts);
    part = step(&w->c, op2(&w->c, UOP_FLOORMOD, i, own), part, own);
    part = step(&w->c, part, op2(&w->c, UOP_FLOORDIV, i, own), 16);
    return step(&w->c, part, tile, 16 * n);
}

/* Loads what is the thread's from `begin` on, `count` of them. */
static void
load_chunks(struct gpu_work *w, struct side *s, const struct attend_tile *t,
            const struct uop *begin, int64_t count)
{
    uint32_t size = chunk_size(w), threads = count_threads(w), j;
    uint32_t keys = s->turned ? turned_keys(w, s, t->rows) : 1;
    int64_t each = s->wide / size, all = t->rows * each / keys, row = each, i;
    const struct uop *work, *key, *at, *unit, *first, *some = NULL;

    if (s->turned && each & (each - 1))
        row = t->rows / size;
    for (i = 0; i < count; i++) {
        work = op2(&w->c, UOP_MUL, op2(&w->c, UOP_ADD, begin, i), threads);
        work = add(&w->c, work, w->c.e->tid);
        if (begin->op != UOP_CONST ? all % (count * threads) != 0
                                   : (i + 1) * threads > all)
            some = op2(&w->c, UOP_CMPLT, work, all);
        /* parts of a unit are written by neighbours */
        first = op2(&w->c, UOP_FLOORMOD, work, size / keys);
        if (s->turned)
            work = op2(&w->c, UOP_FLOORDIV, work, size / keys);
        first = op2(&w->c, UOP_MUL, first, keys);
        unit = op2(&w->c, UOP_FLOORDIV, work, row);
        at = op2(&w->c, UOP_FLOORMOD, work, row);
        if (row != each) { /* powers of two are cheaper to take apart */
            const struct uop *turn = unit;
            unit = at;
            at = turn;
        }
        at = op2(&w->c, UOP_MUL, at, size);
        s->at[i] = at;
        s->gate[i] = some;
        s->key[i] = unit;
        s->first[i] = first;
        for (j = 0; j < keys; j++) {
            key = unit;
            if (s->turned)
                key = gpu_key_at(w, unit, op2(&w->c, UOP_ADD, first, j));
            s->chunk[i * keys + j] =
                load_gpu_chunk(w, s, t->r, add(&w->c, t->first, key), t->rows,
                               at, attend_both(&w->c, t->gate, some), size);
        }
    }
    s->keys = keys;
    s->n_chunks = (uint32_t)count;
}

/* Where chunk i goes, or what of it is in column j. */
static const struct uop *
chunk_place(const struct gpu_work *w, const struct side *s, uint32_t i,
            uint32_t j)
{
    const struct uop *unit;

    if (s->turned)
        return unit_place(w, s, s->at[i], j, s->key[i], 0, s->first[i]);
    if (!s->mixed)
        return step(&w->c, s->at[i], s->key[i], s->stride);
    unit = op2(&w->c, UOP_FLOORDIV, s->at[i], chunk_size(w));
    return unit_place(w, s, s->key[i], 0, unit, 0, num(&w->c, 0));
}

/* Stores it; effects to out[]. */
static uint32_t
store_chunks(const struct gpu_work *w, const struct side *s,
             const struct uop *memory, const struct uop **out)
{
    const struct uop *src[4] = {memory}, *part[16];
    uint32_t i, j, l, n = 0, size = chunk_size(w);

    for (i = 0; i < s->n_chunks; i++) {
        src[3] = s->gate[i];
        for (j = 0; j < (s->turned ? size : 1); j++) {
            src[1] = chunk_place(w, s, i, j);
            src[2] = s->chunk[i];
            for (l = 0; s->turned && l < s->keys; l++)
                part[l] = lane(w, s->chunk[i * s->keys + l], j);
            if (s->turned)
                src[2] = lanes(w, part, s->keys);
            out[n++] = uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src,
                                src[3] ? 4 : 3);
        }
    }
    return n;
}

static const struct uop *
gpu_loop(struct gpu_work *w, int64_t extent)
{
    const struct uop *size = num(&w->c, extent);
    union uop_arg arg = {
        .i = uop_range_arg(w->c.e->k->n_ranges + w->c.e->n_accs++,
                           UOP_AXIS_REDUCE)};

    return uop_new(w->c.g, UOP_RANGE, UOP_I64, 1, arg, &size, 1);
}

/* Loads and stores a tile, some chunks at a time; gives the END. */
static const struct uop *
copy_gpu_tile(struct gpu_work *w, struct side *s, const struct attend_tile *t,
              const struct uop *memory)
{
    int64_t n = count_chunks(w, s, t->rows), some = BATCH;
    const struct uop *range, *src[1 + BATCH * 16];
    uint32_t count;

    if (s->turned)
        some /= turned_keys(w, s, t->rows);
    some = some < 1 ? 1 : some > n ? n : some;
    src[0] = range = gpu_loop(w, (n + some - 1) / some);
    load_chunks(w, s, t, op2(&w->c, UOP_MUL, range, some), some);
    count = store_chunks(w, s, memory, src + 1);
    return uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, count + 1);
}

/* q's or q2's parts for registers. */
static void
load_gpu_queries(struct gpu_work *w, struct side *q)
{
    uint32_t tall, s, n = unit_steps(w, q);
    const struct uop *row, *at, *chunk;

    for (tall = 0; tall < w->tall; tall++) {
        row = row_at(w, operand_row(w, tall));
        for (s = 0; s < q->wide / w->shape.k; s += n) {
            at = op2(&w->c, UOP_MUL, w->part, n * part_size(w));
            at = op2(&w->c, UOP_ADD, at, (int64_t)s * w->shape.k);
            if (w->shape.layout == UOP_WMMA_RDNA3)
                at = part_begin(w, s);
            chunk = load_gpu_chunk(w, q, w->c.a->row, row, group_rows(w), at,
                                   NULL, n * part_size(w));
            take_apart(w, chunk, part_size(w), &q->frag[tall][s]);
        }
    }
}

/* ---- a tile of keys ---- */

static const struct uop *
gpu_zeros(const struct gpu_work *w)
{
    return expand_broadcast(w->c.e, uop_const_float(w->c.g, UOP_F32, 0),
                            (uint16_t)w->own);
}

/* Ends the loop that sets acc[] to values[]; they become what is in acc[]
 * then. */
static void
end_loop(struct gpu_work *w, const struct uop *range, const struct uop **acc,
         const struct uop *const *values, uint32_t n)
{
    const struct uop *src[1 + MAX_TALL * MAX_COLS] = {range}, *done;
    uint32_t i;

    for (i = 0; i < n; i++)
        src[1 + i] = attend_set(&w->c, acc[i], values[i]);
    done = uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n + 1);
    for (i = 0; i < n; i++)
        acc[i] = attend_get(&w->c, acc[i], done);
}

/* Step s of the scores, added to acc[], or the steps of unit s. */
static void
add_gpu_scores(struct gpu_work *w, const struct side *q, const struct side *k,
               uint32_t s, const struct uop **acc)
{
    const struct uop *a[MAX_TALL][MAX_OWN], *b[MAX_OWN];
    uint32_t tall, n, i, each = unit_steps(w, k),
                         tiles = (uint32_t)(w->c.tile / 16);

    for (tall = 0; tall < w->tall; tall++) {
        if (q->memory)
            load_parts(w, q, operand_row(w, tall), 0, s, a[tall]);
        for (i = 0; !q->memory && i < each; i++)
            a[tall][i] = q->frag[tall][s * each + i];
    }
    for (n = 0; n < tiles; n++) {
        load_parts(w, k, w->c16, 16 * n, s, b);
        for (i = 0; i < each; i++) {
            for (tall = 0; tall < w->tall; tall++) {
                const struct uop **to = &acc[tall * tiles + n];
                *to = gpu_product(w, &a[tall][i], b[i], *to);
            }
        }
    }
}

/* The same without matrix instructions, of STEPS elements from `at` on. */
static void
add_gpu_steps(struct gpu_work *w, const struct side *q, const struct side *k,
              const struct uop *at, const struct uop **acc)
{
    const struct uop *a[MAX_OWN], *b, *key;
    uint32_t tall, n, tiles = (uint32_t)(w->c.tile / 16);

    for (n = 0; n < tiles; n++) {
        key = op2(&w->c, UOP_ADD, w->c16, 16 * n);
        b = gpu_load(w, k->memory, step(&w->c, at, key, k->stride), STEPS);
        for (tall = 0; tall < w->tall; tall++) {
            load_gpu_rows(w, q->memory, q->stride, tall, at, a);
            acc[tall * tiles + n] = gpu_product(w, a, b, acc[tall * tiles + n]);
        }
    }
}

static void
make_gpu_scores(struct gpu_work *w, const struct side *q, const struct side *k,
                const struct uop *score[MAX_TALL][MAX_TILES])
{
    uint32_t tiles = (uint32_t)(w->c.tile / 16), i, all = tiles * w->tall;
    const struct uop *acc[MAX_TALL * MAX_TILES], *value[MAX_TALL * MAX_TILES],
        *range;

    for (i = 0; i < all; i++)
        acc[i] = w->matrix ? gpu_zeros(w)
                           : attend_acc(&w->c, gpu_zeros(w), &w->range, 1);
    if (w->matrix) {
        for (i = 0; i < q->wide / w->shape.k / unit_steps(w, k); i++)
            add_gpu_scores(w, q, k, i, acc);
    } else {
        range = gpu_loop(w, q->wide / STEPS);
        for (i = 0; i < all; i++)
            value[i] = attend_get(&w->c, acc[i], range);
        add_gpu_steps(w, q, k, op2(&w->c, UOP_MUL, range, STEPS), value);
        end_loop(w, range, acc, value, all);
    }
    for (i = 0; i < all; i++)
        score[i / tiles][i % tiles] = acc[i];
}

/* What the function of the scores gives; past the last key -inf, of W 0. */
static void
see_scores(struct gpu_work *w, uint32_t tall)
{
    const struct attend *a = w->c.a;
    const struct uop *key, *ok, *x, *row, *none = low(&w->c), *seen = a->seen;
    uint32_t n, i, n_pairs = w->c.n_pairs;

    if (a->is_back) {
        if (w->dtype != UOP_F32) /* as it is before it is widened */
            seen = seen->src[0];
        none = uop_const_int(w->c.g, seen->dtype, 0);
    }
    for (n = 0; n < w->c.tile / 16; n++) {
        for (i = 0; i < w->own; i++) {
            key = step(&w->c, own_column(w, n, i), w->now, w->c.tile);
            ok = attend_inside(&w->c, a->key, key, w->c.tile);
            row = row_at(w, own_row(w, tall, i));
            attend_let(&w->c, w->c.factor ? w->c.scaled : a->score,
                       lane(w, w->score[tall][n], i));
            if (a->score2)
                attend_let(&w->c, a->score2, lane(w, w->score2[tall][n], i));
            attend_let_range(&w->c, a->row, row_that_is(w, row));
            attend_let_range(&w->c, a->key,
                             attend_clamp(&w->c, a->key, key, w->c.tile));
            x = attend_value(&w->c, seen, n_pairs);
            if (ok)
                x = uop_alu3(w->c.g, UOP_WHERE, ok, x, none);
            w->x[tall][n][i] = x;
        }
    }
}

/* Joins the values of the threads that have a row, 16 or one of each 16.
 * Exchanges 7 and 15 also pair threads whose values are the same by then, and
 * AMD's vector instructions know them. */
static const struct uop *
join_gpu_row(const struct gpu_work *w, enum uop_op op, const struct uop *u)
{
    static const uint8_t bits[] = {1, 2, 7, 15, 16, 32};
    uint32_t i = w->across ? 4 : 0, n = !w->across ? 4 : w->parts == 4 ? 6 : 5;

    for (; i < n; i++) {
        union uop_arg arg = {.i = bits[i]};
        u = uop_alu2(w->c.g, op, u,
                     uop_new(w->c.g, UOP_SHUFFLE, u->dtype, 1, arg, &u, 1));
    }
    return u;
}

/* The greater one. AMD's chips need four instructions where a NaN has to be
 * the greatest, and two where one may be left out. */
static const struct uop *
greater(const struct gpu_work *w, const struct uop *a, const struct uop *b)
{
    if (!w->nan_is_all)
        return uop_alu2(w->c.g, UOP_MAX, a, b);
    return uop_alu3(w->c.g, UOP_WHERE, uop_alu2(w->c.g, UOP_CMPLT, a, b), b, a);
}

/* The maxima so far, E, and the sums of what the thread has of it. */
static void
make_gpu_exps(struct gpu_work *w, uint32_t tall)
{
    uint32_t n, i, each = w->own / w->states,
                   all = (uint32_t)(w->c.tile / 16) * each;

    for (i = 0; i < w->states; i++) {
        const struct uop *old = attend_get(&w->c, w->max[tall][i], w->range),
                         *sum = attend_get(&w->c, w->sum[tall][i], w->range),
                         *max = w->x[tall][0][i], *exps = NULL, **x;
        for (n = 1; n < all; n++)
            max = greater(w, max, w->x[tall][n / each][i + n % each]);
        max = greater(w, old, join_gpu_row(w, UOP_MAX, max));
        w->new_max[tall][i] = max;
        max = attend_safe(&w->c, max);
        w->scale[tall][i] = attend_rescale(&w->c, old, max);
        sum = uop_alu2(w->c.g, UOP_MUL, sum, w->scale[tall][i]);
        for (n = 0; n < all; n++) {
            x = &w->x[tall][n / each][i];
            if (n % each == 0) /* side by side: CDNA has two at a time */
                exps =
                    attend_exp(&w->c, lanes(w, x, each),
                               expand_broadcast(w->c.e, max, (uint16_t)each));
            x[n % each] = lane(w, exps, n % each);
            sum = uop_alu2(w->c.g, UOP_ADD, sum, x[n % each]);
        }
        w->new_sum[tall][i] = sum;
    }
}

static const struct uop *
as_bits(const struct gpu_work *w, const struct uop *u, enum uop_dtype dtype)
{
    return uop_make(w->c.g, UOP_BITCAST, dtype, u->lanes, no_arg, &u, 1);
}

static const struct uop *
bits_op(const struct gpu_work *w, enum uop_op op, const struct uop *bits,
        int64_t b)
{
    return uop_alu2(w->c.g, op, bits, uop_const_int(w->c.g, UOP_U32, b));
}

/* Rounds to the nearest bfloat, ties to even. Most NaNs stay NaN, but any
 * number may come of one. */
static const struct uop *
round_to_bf16(const struct gpu_work *w, const struct uop *x)
{
    const struct uop *bits = as_bits(w, x, UOP_U32), *odd;

    odd = bits_op(w, UOP_AND, bits_op(w, UOP_SHR, bits, 16), 1);
    bits = add(&w->c, odd, bits_op(w, UOP_ADD, bits, 0x7fff));
    bits = bits_op(w, UOP_SHR, bits, 16);
    return as_bits(w, as_type(w, bits, UOP_U16), UOP_BF16);
}

/* E, rounded as it is to be. */
static const struct uop *
round_exp(struct gpu_work *w, const struct uop *x)
{
    const struct uop *weight = w->c.a->weight;
    uint32_t n_pairs = w->c.n_pairs;

    if (w->c.a->is_back)
        return x;
    if (w->dtype != UOP_F32) /* as it is before it is widened */
        weight = weight->src[0];
    if (w->nan_is_all && weight->dtype == UOP_BF16 &&
        !w->c.e->k->target->has_bf16)
        return round_to_bf16(w, x);
    attend_let(&w->c, w->c.a->exp, x);
    return attend_value(&w->c, weight, n_pairs);
}

/* That to LOCAL memory. */
static uint32_t
store_exps(struct gpu_work *w, const struct uop **effects)
{
    const struct uop *src[3] = {w->p};
    uint32_t tall, n, i, count = 0;

    for (tall = 0; tall < w->tall; tall++) {
        for (n = 0; n < w->c.tile / 16; n++) {
            for (i = 0; i < w->own; i++) {
                src[1] = step(&w->c, own_column(w, n, i), own_row(w, tall, i),
                              w->p_stride);
                src[2] = round_exp(w, w->x[tall][n][i]);
                effects[count++] =
                    uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, src, 3);
            }
        }
    }
    return count;
}

/* v's part for a step from key `at` of the tile on, n units or STEPS keys, of
 * columns 16 * tile + c16. */
static const struct uop *
load_values(const struct gpu_work *w, uint32_t tile, const struct uop *at,
            uint32_t at0)
{
    uint32_t size = chunk_size(w), n = part_size(w), i, j;
    const struct uop *part[16], *u, *col;

    if (!w->v.turned) {
        col = op2(&w->c, UOP_ADD, w->c16, 16 * tile);
        for (i = 0; i < n; i++)
            part[i] = gpu_load(
                w, w->v.memory,
                step(&w->c, col, op2(&w->c, UOP_ADD, at, i), w->v.stride), 1);
        return lanes(w, part, n);
    }
    if (w->across)
        n = w->own * unit_tiles(w);
    u = op2(&w->c, UOP_MUL, at, n);
    for (i = 0; i < n; i += size) {
        uint32_t some = n < size ? n : size;
        const struct uop *first = op2(&w->c, UOP_FLOORMOD, u, size);
        col = unit_place(w, &w->v, w->c16, 16 * tile,
                         op2(&w->c, UOP_FLOORDIV, u, size), (at0 + i) / size,
                         first);
        col = gpu_load(w, w->v.memory, col, some);
        for (j = 0; j < some; j++)
            part[i + j] = lane(w, col, j);
    }
    return lanes(w, part, n);
}

/* Step s of E @ v, or STEPS keys from `at` on. */
static void
add_step(struct gpu_work *w, uint32_t s, const struct uop *at,
         const struct uop **out)
{
    const struct uop *a[MAX_TALL][MAX_OWN], *b;
    uint32_t tall, n, tiles = (uint32_t)(w->v.wide / 16);

    for (tall = 0; tall < w->tall; tall++)
        load_gpu_rows(w, w->p, w->p_stride, tall, at, a[tall]);
    for (n = 0; n < tiles; n++) {
        b = load_values(w, n, w->matrix ? num(&w->c, 0) : at, s * w->shape.k);
        for (tall = 0; tall < w->tall; tall++)
            out[tall * tiles + n] =
                gpu_product(w, a[tall], b, out[tall * tiles + n]);
    }
}

/* The same of tiles of 16 keys from `first` on that a thread's unit of v is
 * for, where E is in registers, of as many steps as that takes. */
static void
add_keys(struct gpu_work *w, uint32_t first, const struct uop **out)
{
    const struct uop *e[MAX_TALL][MAX_OWN], *v[MAX_OWN], *a[2 * MAX_OWN];
    uint32_t tiles = (uint32_t)(w->v.wide / 16), size = part_size(w), tall, n,
             i, j, all = unit_tiles(w) * w->own;

    for (tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < all; i++)
            a[i] = round_exp(w, w->x[tall][first + i / w->own][i % w->own]);
        for (i = 0; i < all / size; i++)
            e[tall][i] = lanes(w, a + i * size, size);
    }
    for (n = 0; n < tiles; n++) {
        take_apart(w, load_values(w, n, w->part, 16 * first), size, v);
        for (j = 0; j < all / size; j++) {
            for (tall = 0; tall < w->tall; tall++) {
                const struct uop **to = &out[tall * tiles + n];
                *to = gpu_product(w, &e[tall][j], v[j], *to);
            }
        }
    }
}

/* out[] = out[] * scale + E @ v */
static void
add_gpu_values(struct gpu_work *w, const struct uop **out)
{
    uint32_t tiles = (uint32_t)(w->v.wide / 16), all = tiles * w->tall, i, j;
    const struct uop *part[MAX_OWN], *value[MAX_TALL * MAX_COLS], *range;

    for (i = 0; i < all; i++) {
        for (j = 0; j < w->own; j++)
            part[j] = w->scale[i / tiles][j % w->states];
        out[i] = attend_get(&w->c, w->out[i / tiles][i % tiles], w->range);
        if (!w->c.a->is_back)
            out[i] = uop_alu2(w->c.g, UOP_MUL, out[i], lanes(w, part, w->own));
    }
    for (i = 0; w->across && i < w->c.tile / 16; i += unit_tiles(w))
        add_keys(w, i, out);
    for (i = 0; w->matrix && !w->across && i < w->c.tile / w->shape.k; i++)
        add_step(w, i, part_begin(w, i), out);
    if (w->matrix)
        return;
    for (i = 0; i < all; i++)
        out[i] = attend_acc(&w->c, out[i], &w->range, 1);
    range = gpu_loop(w, w->c.tile / STEPS);
    for (i = 0; i < all; i++)
        value[i] = attend_get(&w->c, out[i], range);
    add_step(w, 0, op2(&w->c, UOP_MUL, range, STEPS), value);
    end_loop(w, range, out, value, all);
}

/* ---- the loop ---- */

static const struct uop *
gpu_barrier(const struct gpu_work *w, const struct uop *const *effects,
            uint32_t n)
{
    return uop_new(w->c.g, UOP_BARRIER, UOP_VOID, 1, no_arg, effects, n);
}

/* A loop over `turns` of all `tiles`, behind so many before it. src[] has the n
 * effects that it waits for, and room. Its END. */
static const struct uop *
make_gpu_turns(struct gpu_work *w, const struct uop *behind,
               const struct uop *turns, const struct uop *tiles,
               const struct uop **src, uint32_t n)
{
    const struct uop *next, *bar, *out[MAX_TALL * MAX_COLS], *turn;
    union uop_arg arg = {.i = uop_range_arg(w->c.a->key, UOP_AXIS_REDUCE)};
    uint32_t i, tall, cols = (uint32_t)(w->v.wide / 16);
    struct side *sides[5] = {&w->q, &w->q2, &w->k, &w->k2, &w->v};
    struct attend_tile t = {w->c.a->key, w->c.tile, NULL, NULL};

    w->range = uop_new(w->c.g, UOP_RANGE, UOP_I64, 1, arg, &turns, 1);
    src[n++] = w->range;
    bar = gpu_barrier(w, src, n);
    for (i = 0; i < 5; i++) {
        if (sides[i]->array)
            sides[i]->memory = attend_after(&w->c, sides[i]->array, &bar, 1);
    }
    turn = add(&w->c, behind, w->range);
    w->now = add(&w->c, w->first, turn);
    next = op2(&w->c, UOP_ADD, turn, 1);
    /* The last one again is cheaper than a branch for each load; RDNA has no
     * registers for those that then come early. observed: LLVM 19, 2026-11-27,
     * heads of 128 were spilled on gfx1100 */
    if (w->early && w->shape.layout == UOP_WMMA_CDNA)
        next = uop_alu2(w->c.g, UOP_MIN, next, op2(&w->c, UOP_SUB, tiles, 1));
    else
        t.gate = uop_alu2(w->c.g, UOP_CMPLT, next, tiles);
    next = add(&w->c, w->first, next);
    t.first = op2(&w->c, UOP_MUL, next, w->c.tile);
    for (i = 2; w->early && i < 5; i++) {
        if (sides[i]->array)
            load_chunks(w, sides[i], &t, num(&w->c, 0),
                        count_chunks(w, sides[i], t.rows));
    }
    make_gpu_scores(w, &w->q, &w->k, w->score);
    if (w->k2.value)
        make_gpu_scores(w, &w->q2, &w->k2, w->score2);
    for (tall = 0; tall < w->tall; tall++) {
        see_scores(w, tall);
        if (!w->c.a->is_back)
            make_gpu_exps(w, tall);
    }
    if (!w->across) {
        w->p = attend_after(&w->c, w->p_array, &bar, 1);
        n = store_exps(w, src);
        bar = gpu_barrier(w, src, n);
        w->p = attend_after(&w->c, w->p_array, &bar, 1);
    }
    add_gpu_values(w, out);
    for (n = 0, tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < cols; i++)
            src[1 + n++] =
                attend_set(&w->c, w->out[tall][i], out[tall * cols + i]);
    }
    bar = gpu_barrier(w, src + 1, n);
    for (tall = 0; tall < w->tall && !w->c.a->is_back; tall++) {
        for (i = 0; i < w->states; i++) {
            src[1 + n++] =
                attend_set(&w->c, w->max[tall][i], w->new_max[tall][i]);
            src[1 + n++] =
                attend_set(&w->c, w->sum[tall][i], w->new_sum[tall][i]);
        }
    }
    for (i = 2; i < 5; i++) {
        const struct uop *memory;
        if (!sides[i]->array)
            continue;
        memory = attend_after(&w->c, sides[i]->array, &bar, 1);
        if (w->early)
            n += store_chunks(w, sides[i], memory, src + 1 + n);
        else
            src[1 + n++] = copy_gpu_tile(w, sides[i], &t, memory);
    }
    src[0] = w->range;
    return uop_new(w->c.g, UOP_END, UOP_VOID, 1, no_arg, src, n + 1);
}

/* The first tiles, then the loop over tiles, or one over those that are whole
 * and one over what is left; the last's END. */
static bell_status
make_gpu_loop(struct gpu_work *w, const struct uop **out_end)
{
    const struct uop *tiles, *whole, **src, *zero = num(&w->c, 0);
    uint32_t n = 0, i, states = w->c.a->is_back ? 0 : w->states;
    struct side *sides[5] = {&w->q, &w->q2, &w->k, &w->k2, &w->v};
    struct attend_tile t = {w->c.a->key, w->c.tile, NULL, NULL};

    src =
        arena_alloc(&w->c.e->k->mem, (4 * MAX_COPY * 8 + 4096) * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of attention: out of memory");
    tiles = attend_count_tiles(&w->c, w->row0, w->last, &w->first);
    t.first = op2(&w->c, UOP_MUL, w->first, w->c.tile);
    for (i = 0; i < 5; i++) {
        struct attend_tile rows = {w->c.a->row, group_rows(w), w->row0, NULL};
        sides[i]->array = sides[i]->memory;
        if (sides[i]->array)
            src[n++] =
                copy_gpu_tile(w, sides[i], i < 2 ? &rows : &t, sides[i]->array);
    }
    whole = attend_whole_tiles(&w->c, w->first, tiles);
    if (!whole) {
        *out_end = make_gpu_turns(w, zero, tiles, tiles, src, n);
        return uop_graph_status(w->c.g);
    }
    w->c.is_whole = true;
    src[0] = make_gpu_turns(w, zero, whole, tiles, src, n);
    w->c.is_whole = false;
    for (i = 0; i < w->tall; i++) {
        attend_behind(&w->c, w->max[i], states, src[0]);
        attend_behind(&w->c, w->sum[i], states, src[0]);
        attend_behind(&w->c, w->out[i], (uint32_t)w->v.wide / 16, src[0]);
    }
    *out_end = make_gpu_turns(w, whole, uop_alu2(w->c.g, UOP_SUB, tiles, whole),
                              tiles, src, 1);
    return uop_graph_status(w->c.g);
}

/* ---- what is stored ---- */

/* Element i of results c of a tile, in row, whose L and M these are; or where
 * it is stored. */
static const struct uop *
stored(struct gpu_work *w, uint32_t which, const struct uop *row,
       const struct uop *col, const struct uop *out, const struct uop *sum,
       const struct uop *max)
{
    uint32_t n_pairs = w->c.n_pairs;

    attend_let(&w->c, w->c.a->out, out);
    if (!w->c.a->is_back) {
        attend_let(&w->c, w->c.a->sum, sum);
        attend_let(&w->c, w->c.a->max, max);
    }
    attend_let_range(&w->c, w->c.a->row, row_that_is(w, row));
    attend_let_range(&w->c, w->c.a->col,
                     attend_clamp(&w->c, w->c.a->col, col, w->v.wide));
    return attend_value(&w->c, w->c.a->store->src[which], n_pairs);
}

/* Results c of a tile: one by one or, where the thread has columns side by
 * side, together. */
static uint32_t
store_results(struct gpu_work *w, uint32_t tall, uint32_t c,
              const struct uop *out, const struct uop *const *sum,
              const struct uop *const *max, const struct uop **effects)
{
    const struct uop *store = w->c.a->store, *args[4] = {store->src[0]},
                     *part[MAX_OWN], *row, *col;
    bool wide = w->across && w->v.n % w->own == 0 &&
                kernel_coef(w->c.e->k, store->src[1], w->c.a->col) == 1;
    uint32_t i, n = 0;

    for (i = 0; i < w->own; i++) {
        uint32_t state = i % w->states;
        row = row_at(w, own_row(w, tall, i));
        col = own_column(w, c, i);
        part[i] =
            stored(w, 2, row, col, lane(w, out, i), sum[state], max[state]);
        if (wide && i + 1 < w->own)
            continue;
        col = own_column(w, c, wide ? 0 : i);
        args[1] =
            stored(w, 1, row, col, lane(w, out, i), sum[state], max[state]);
        args[2] = wide ? lanes(w, part, w->own) : part[i];
        args[3] =
            attend_both(&w->c, is_row(w, row),
                        attend_inside(&w->c, w->c.a->col, col, w->v.wide));
        effects[n++] = uop_make(w->c.g, UOP_STORE, UOP_VOID, 1, no_arg, args,
                                args[3] ? 4 : 3);
    }
    return n;
}

static bell_status
make_gpu_stores(struct gpu_work *w, const struct uop *end,
                const struct uop **out_sink)
{
    const struct uop *src[MAX_TALL * (MAX_COLS + 2) * MAX_OWN],
        *sum[MAX_OWN] = {NULL}, *max[MAX_OWN] = {NULL}, *first;
    uint32_t tall, c, i, n = 0;

    first = op2(&w->c, UOP_CMPEQ, w->across ? w->part : w->c16, 0);
    for (tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < w->states && !w->c.a->is_back; i++) {
            const struct uop *row = row_at(w, own_row(w, tall, i));
            sum[i] = join_gpu_row(w, UOP_ADD,
                                  attend_get(&w->c, w->sum[tall][i], end));
            max[i] = attend_get(&w->c, w->max[tall][i], end);
            n += attend_store_kept(&w->c, row_that_is(w, row), sum[i], max[i],
                                   attend_both(&w->c, first, is_row(w, row)),
                                   src + n);
        }
        for (c = 0; c < w->v.wide / 16; c++)
            n += store_results(w, tall, c,
                               attend_get(&w->c, w->out[tall][c], end), sum,
                               max, src + n);
    }
    *out_sink = attend_sink(&w->c, src, n);
    return uop_graph_status(w->c.g);
}

/* ---- sizes ---- */

/* Are units of rows of n elements to change places? v's are written so that
 * they have to; others are where a thread has units. */
static bool
is_mixed(const struct gpu_work *w, int64_t n)
{
    return w->across && n / chunk_size(w) % 4 == 0;
}

/* Between rows whose units keep their places, as much as a thread reads at
 * once: neighbours lie in different banks. */
static int64_t
padded(const struct gpu_work *w, int64_t n)
{
    uint32_t unit = chunk_size(w), part = part_size(w);

    return is_mixed(w, n) ? n : n + (part < unit ? part : unit);
}

static int64_t
values_stride(const struct gpu_work *w)
{
    if (!w->v.turned)
        return padded(w, w->v.wide);
    return w->across ? w->c.tile : w->c.tile + chunk_size(w);
}

static int64_t
padded_values(const struct gpu_work *w)
{
    if (!w->v.turned)
        return w->c.tile * padded(w, w->v.wide);
    return w->v.wide * values_stride(w) +
           (w->across ? 0 : w->v.wide / 8 * chunk_size(w));
}

/* Words of q that a thread would keep. */
static uint32_t
q_regs(const struct gpu_work *w)
{
    return w->tall * (uint32_t)((w->q.wide + w->q2.wide) / w->shape.k) *
           part_size(w) * uop_dtype_infos[w->dtype].size_bytes / 4;
}

static bool
keeps_queries(const struct gpu_work *w)
{
    bool few = w->c.a->seen != w->c.scaled &&
               (w->c.a->is_back || w->shape.layout != UOP_WMMA_CDNA);

    return w->matrix && q_regs(w) <= Q_REGS &&
           q_regs(w) + w->tall * w->v.wide / 16 * w->own <=
               (few ? AND_MASKED : Q_AND_OUT);
}

static bool
fits_memory(const struct gpu_work *w)
{
    const struct lower_target *t = w->c.e->k->target;
    int64_t n = w->across ? 0 : group_rows(w) * padded(w, w->c.tile);

    n += w->c.tile * padded(w, w->k.wide);
    n += w->k2.value ? w->c.tile * padded(w, w->k2.wide) : 0;
    n += padded_values(w);
    if (!keeps_queries(w))
        n += group_rows(w) *
             (padded(w, w->q.wide) + (w->k2.value ? padded(w, w->k2.wide) : 0));
    return n * uop_dtype_infos[w->dtype].size_bytes + 64 <=
               (int64_t)t->max_shared_bytes &&
           count_threads(w) <= t->max_threads;
}

/* Results and q; the scores, E and operands; and what is copied for the next
 * tile, which is there at the same time where it is early. observed: ptxas 13,
 * LLVM 19, 2026-11-23: of what this lets pass, heads of up to 128 are not
 * spilled. */
static bool
fits_registers(const struct gpu_work *w)
{
    int64_t n = w->tall * w->v.wide / 16 * w->own + OTHER_REGS, copied;
    int64_t scores = (w->k2.value ? 4 : 3) * w->tall * w->c.tile / 16 * w->own;

    n += keeps_queries(w) ? q_regs(w) : 0;
    n += w->matrix ? 0 : STEPS * w->v.wide / 16;
    copied = w->c.tile * (w->k.wide + w->k2.wide + w->v.wide) *
             uop_dtype_infos[w->dtype].size_bytes / 4 /
             (w->waves * w->parts * 16);
    return n + scores + (w->early ? copied : 0) <= w->c.e->k->target->max_regs;
}

/* The first that fits: of long tiles those loaded early, then others. */
static bool
choose_gpu_tile(struct gpu_work *w, uint32_t tall, int64_t most)
{
    uint32_t i;

    for (i = 0; i < 8; i++) {
        w->early = !(i & 2);
        w->tall = i & 1 ? 1 : tall;
        for (w->c.tile = i & 4 ? 16 : most; w->c.tile >= (i & 4 ? 16 : 32);
             w->c.tile /= 2) {
            if (fits_memory(w) && fits_registers(w))
                return true;
        }
    }
    return false;
}

/* Is M used for E alone, and is all that is stored divided by L? */
static bool
is_divided(const struct gpu_work *w)
{
    const struct kernel *k = w->c.e->k;
    const struct attend *a = w->c.a;
    bool divided = false;
    uint32_t i, j;

    if (a->is_back || a->kept[0] || a->kept[1])
        return false;
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        for (j = 0; j < u->n_src; j++) {
            if (u->src[j] == a->max && u != a->diff)
                return false;
            divided |= u->src[j] == a->sum &&
                       (u->op == UOP_RECIP || (u->op == UOP_FDIV && j == 1));
        }
    }
    return divided;
}

static void
choose_form(struct gpu_work *w)
{
    const struct lower_target *t = w->c.e->k->target;

    w->dtype =
        w->c.a->v->dtype == w->c.a->k->dtype &&
                (!w->c.a->score2 || w->c.a->k2->dtype == w->c.a->k->dtype) &&
                t->matrix_layout != UOP_WMMA_NV && t->matrix_k[w->c.a->v->dtype]
            ? w->c.a->v->dtype
            : UOP_F32;
    w->matrix = t->matrix_layout != UOP_WMMA_NV && t->matrix_k[w->dtype];
    w->own = w->states = OWN;
    w->parts = t->warp_lanes / 16;
    if (!w->matrix)
        return;
    w->across = t->matrix_layout != UOP_WMMA_RDNA3;
    w->nan_is_all = is_divided(w);
    w->shape =
        (struct uop_wmma){t->matrix_layout, 16, 16, t->matrix_k[w->dtype]};
    w->own = uop_wmma_lanes(w->shape, UOP_WMMA_C);
    w->states = w->across ? 1 : w->own;
}

/* Few warps where that makes work-groups for all units, and keys that LOCAL
 * memory holds. guess: 4 waves or 256 threads at most. observed: LLVM 19,
 * 2026-11-23: WMMA by 32 keys spills nothing, by 64 it did. */
static void
choose_gpu_sizes(struct gpu_work *w)
{
    const struct kernel *k = w->c.e->k;
    double rows = (double)w->c.n_rows;
    uint64_t set;
    int64_t most;

    for (set = w->c.a->batch; set; set &= set - 1)
        rows *= (double)k->sizes[__builtin_ctzll(set)];
    w->tall = w->own == MAX_OWN ? 1 : MAX_TALL;
    w->waves = w->matrix ? 4 : 256 / k->target->warp_lanes;
    while ((w->waves > 1 || w->tall > 1) &&
           (rows < (double)group_rows(w) * k->target->n_units ||
            group_rows(w) / 2 >= w->c.n_rows)) {
        if (w->tall > 1)
            w->tall /= 2;
        else
            w->waves /= 2;
    }
    most = w->own == MAX_OWN ? MAX_TILE / 2 : MAX_TILE;
    while (most > 16 && most / 2 >= w->c.n_keys)
        most /= 2;
    while (!choose_gpu_tile(w, w->tall, most)) {
        if (w->waves == 1) { /* what lower_attends counts upon */
            w->tall = 1;
            w->c.tile = 16;
            break;
        }
        w->waves /= 2;
    }
    assert(fits_memory(w));
}

static void
init_side(struct gpu_work *w, struct side *s, const struct uop *value,
          uint32_t range)
{
    s->value = value;
    s->range = range;
    s->n = w->c.e->k->sizes[range];
    s->wide = (s->n + 15) / 16 * 16;
}

static const struct uop *
local(const struct gpu_work *w, int64_t n)
{
    return expand_local(w->c.e, w->dtype, (uint64_t)n);
}

static void
make_gpu_memory(struct gpu_work *w)
{
    w->k.stride = w->q.stride = padded(w, w->k.wide);
    w->k.mixed = w->q.mixed = is_mixed(w, w->k.wide);
    w->v.stride = values_stride(w);
    w->v.mixed = w->across;
    w->p_stride = padded(w, w->c.tile);
    if (!keeps_queries(w))
        w->q.memory = local(w, group_rows(w) * w->q.stride);
    w->k.memory = local(w, w->c.tile * w->k.stride);
    if (w->k2.value) {
        w->k2.stride = w->q2.stride = padded(w, w->k2.wide);
        w->k2.mixed = w->q2.mixed = is_mixed(w, w->k2.wide);
        if (w->q.memory)
            w->q2.memory = local(w, group_rows(w) * w->q2.stride);
        w->k2.memory = local(w, w->c.tile * w->k2.stride);
    }
    w->v.memory = local(w, padded_values(w));
    if (!w->across)
        w->p_array = local(w, group_rows(w) * w->p_stride);
}

static void
make_gpu_accs(struct gpu_work *w)
{
    const struct uop *zero = uop_const_float(w->c.g, UOP_F32, 0);
    uint32_t tall, i;

    for (tall = 0; tall < w->tall; tall++) {
        for (i = 0; i < w->states && !w->c.a->is_back; i++) {
            w->max[tall][i] = attend_acc(&w->c, low(&w->c), NULL, 0);
            w->sum[tall][i] = attend_acc(&w->c, zero, NULL, 0);
        }
        for (i = 0; i < w->v.wide / 16; i++)
            w->out[tall][i] = attend_acc(&w->c, gpu_zeros(w), NULL, 0);
    }
}

/* Work-groups and threads. */
static bell_status
map_gpu_groups(struct gpu_work *w, struct lower_program *p)
{
    int64_t n = group_rows(w), warp = w->parts * 16;
    const struct uop *tid;

    BELL_TRY(attend_map_groups(&w->c, n, p, &w->row0));
    p->local[0] = count_threads(w);
    w->c.e->tid = tid = attend_special(&w->c, 4, p->local[0]);
    w->wave = op2(&w->c, UOP_FLOORDIV, tid, warp);
    w->c16 = op2(&w->c, UOP_FLOORMOD, tid, 16);
    w->part =
        op2(&w->c, UOP_FLOORMOD, op2(&w->c, UOP_FLOORDIV, tid, 16), w->parts);
    w->last = attend_last(&w->c, w->row0, n);
    return BELL_OK;
}

bell_status
expand_attend_gpu(struct kernel *k, const struct attend *a,
                  const struct uop **out_sink, struct lower_program *program)
{
    struct expand e = {.k = k, .g = k->g, .tile_loop = -1};
    struct gpu_work *w = arena_calloc(&k->mem, 1, sizeof(*w));
    const struct uop *end = NULL;

    if (!w)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of attention: out of memory");
    w->c = (struct attend_code){.e = &e, .g = k->g, .a = a};
    w->c.n_rows = k->sizes[a->row];
    w->c.n_keys = k->sizes[a->key];
    init_side(w, &w->q, a->q, a->in);
    init_side(w, &w->k, a->k, a->in);
    init_side(w, &w->v, a->v, a->col);
    if (a->score2) {
        init_side(w, &w->q2, a->q2, a->in2);
        init_side(w, &w->k2, a->k2, a->in2);
    }
    choose_form(w);
    w->v.turned = w->matrix;
    if (!a->is_back)
        attend_find_factor(&w->c);
    choose_gpu_sizes(w);
    LOG(LOG_OPT, "attention: %d rows by %d keys at a time", (int)group_rows(w),
        (int)w->c.tile);
    make_gpu_memory(w);
    BELL_TRY(map_gpu_groups(w, program));
    if (keeps_queries(w))
        load_gpu_queries(w, &w->q);
    if (keeps_queries(w) && a->score2)
        load_gpu_queries(w, &w->q2);
    make_gpu_accs(w);
    BELL_TRY(make_gpu_loop(w, &end));
    BELL_TRY(make_gpu_stores(w, end, out_sink));
    program->shared_bytes = e.shared_bytes;
    return BELL_OK;
}
