/* Tiles in LOCAL memory.
 *
 * What the threads of a work-group load in the steps of a tile is loaded once,
 * by all of them together, and read from LOCAL memory then:
 *
 *   loop over tiles
 *       each thread loads its share of every operand's tile and stores it
 *       BARRIER
 *       loops inside the tile: operands come from LOCAL memory
 *       BARRIER
 *
 * or, where there is room for several of each tile, so that loads and work
 * overlap:
 *
 *   the first tiles are copied, or loaded and stored
 *   loop over tiles
 *       BARRIER
 *       COPYs of the next tiles, which need no registers; LOADs of the others
 *       loops inside the tile
 *       what was loaded is stored
 *
 * A COPY is made of what goes into the array as it is, where the target has
 * them: nobody writes the memory that is read, and all reads of the array come
 * after a BARRIER.
 *
 * An operand is a LOAD that varies with the tile's steps and not with all
 * threads. Its tile is an array over the ranges that it varies with inside a
 * work-group: those of the reduction first (slowest), then the others in nest
 * order. All sizes are powers of two.
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"

#define ACCESS_BYTES 16
#define WORD_BYTES   4
#define BANKS_BYTES  128 /* of all banks' words; guess: as the model counts */
#define MAX_BUFFERS  6   /* tiles of an operand at once */
#define MAX_ALONE    8   /* likewise, of a work-group with a unit of its own */
#define MAX_DEEP     4   /* likewise, of products that wait for memory */
#define SUMS_A_UNIT  32768 /* of products, in a unit's registers */
#define MAX_HELD     32    /* registers for what waits to be stored */
#define MAX_DEPTH    16    /* of an index's arithmetic that is looked at */

static const union uop_arg no_arg = {.bits = 0};

/* ---- what is an operand ---- */

/* Ranges that count inside a work-group while a tile is worked on. */
static uint64_t
tile_ranges(const struct expand *e, uint64_t deps)
{
    return deps & (e->threads | e->copied | e->vectors | e->staged);
}

static bool
are_powers(const struct kernel *k, uint64_t set)
{
    for (; set; set &= set - 1) {
        int64_t size = k->sizes[__builtin_ctzll(set)];
        if (size < 1 || size & (size - 1))
            return false;
    }
    return true;
}

static bool
is_operand(const struct expand *e, uint32_t pos)
{
    const struct kernel *k = e->k;
    const struct uop *u = k->nodes[pos];
    uint64_t set = tile_ranges(e, k->deps[pos]), vector, outputs;
    uint32_t i;

    assert(pos < e->k->n_nodes);
    if (u->op != UOP_LOAD || !(k->deps[pos] & e->staged) || k->levels[pos] ||
        (set & e->threads) == e->threads || !are_powers(k, set))
        return false;
    outputs = set & ~k->reduce_ranges;
    vector = set & e->vectors;
    if (vector && (vector & k->reduce_ranges || vector < (outputs & ~vector)))
        return false; /* it would not be the fastest */
    for (i = 0; i < k->sink->n_src; i++) {
        if (k->sink->src[i]->src[0] == u->src[0])
            return false;
    }
    return true;
}

/* Fills dims, the fastest last, and the strides. `pad` elements lie between
 * rows of the fast direction, against conflicts of banks. Returns the size. */
static int64_t
lay_out_tile(const struct expand *e, struct expand_stage *s, bool reduce_fast,
             int64_t pad)
{
    const struct kernel *k = e->k;
    uint64_t parts[2] = {s->ranges & k->reduce_ranges,
                         s->ranges & ~k->reduce_ranges};
    int64_t stride = 1;
    uint32_t i, n, n_slow = 0;

    s->n_dims = 0;
    for (i = 0; i < 2; i++) {
        uint64_t set = parts[reduce_fast ? 1 - i : i];
        for (; set; set &= set - 1)
            s->dims[s->n_dims++].range = (uint32_t)__builtin_ctzll(set);
        if (i == 0)
            n_slow = s->n_dims;
    }
    for (n = s->n_dims; n-- > 0;) {
        if (n + 1 == n_slow && n_slow < s->n_dims)
            stride += pad;
        s->dims[n].stride = stride;
        stride *= k->sizes[s->dims[n].range];
    }
    return stride;
}

/* The range of this id goes to the end of the dims, if it is one. */
static void
put_last(const struct expand *e, struct expand_stage *s, uint32_t id)
{
    uint32_t i, range = 0;
    bool found = false;

    for (i = 0; i < s->n_dims; i++) {
        if (found)
            s->dims[i - 1].range = s->dims[i].range;
        if (uop_range_id(e->k->ranges[s->dims[i].range]) == id) {
            found = true;
            range = s->dims[i].range;
        }
    }
    if (found)
        s->dims[s->n_dims - 1].range = range;
}

/* The range of pieces of steps, of at least n, that lie next to each other, so
 * that a thread can read its parts of n at once; -1: there is none. */
static int32_t
piece_range(const struct expand *e, const struct expand_stage *s, uint32_t n)
{
    const struct kernel *k = e->k;
    uint32_t step, piece;

    if (s->n_dims < 2)
        return -1;
    step = s->dims[s->n_dims - 1].range;
    piece = s->dims[s->n_dims - 2].range;
    return uop_range_id(k->ranges[step]) == k->matrix.step &&
                   k->reduce_ranges >> piece & e->copied >> piece & 1 &&
                   k->sizes[piece] >= n
               ? (int32_t)piece
               : -1;
}

/* AMD's products: rows of steps. Threads read 16 bytes each of rows that follow
 * each other, in CDNA's way: those of the first four rows are read with the
 * next ones of the other four. They store whole rows, or 16 bytes or less of
 * rows 8 apart, or 2 and 16. None of these meet in a bank where there is room
 * for one more, or two, behind as many rows as fill all banks and, of what is
 * turned, behind 8 or 16 rows. Says whether the operand can lie so. */
static bool
lay_out_lines(const struct expand *e, struct expand_stage *s)
{
    const struct kernel *k = e->k;
    const struct kernel_matrix *m = &k->matrix;
    int64_t size = uop_dtype_infos[s->dtype].size_bytes, stride = 1, row;
    int64_t each = ACCESS_BYTES / size, of_banks = BANKS_BYTES / size;
    uint64_t steps = s->ranges & k->reduce_ranges, set;
    uint32_t part = uop_wmma_lanes(m->shape, UOP_WMMA_A), n;
    bool together = uop_wmma_rows_together(m->shape, s->dtype), of_b = false;

    for (set = s->ranges & ~steps; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        s->dims[s->n_dims++].range = r;
        of_b |= uop_range_id(k->ranges[r]) == m->col;
    }
    put_last(e, s, m->row);
    put_last(e, s, together ? m->col : m->pair);
    put_last(e, s, together ? m->pair : m->col);
    for (set = steps, row = 1; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        s->dims[s->n_dims++].range = r;
        row *= k->sizes[r];
    }
    if (part < each)
        s->piece = piece_range(e, s, (uint32_t)each / part);
    if (row < each || (part < each && s->piece < 0)) {
        s->piece = -1;
        return false;
    }
    for (n = s->n_dims; n-- > 0;) {
        s->dims[n].stride = stride;
        stride *= k->sizes[s->dims[n].range];
    }
    s->line = row > of_banks ? row : of_banks;
    s->line_pad = s->piece < 0 ? each : 2 * each;
    if (!(k->reduce_ranges >> s->range & 1)) {
        int64_t far = of_b && !together ? 2 : 1, n_blocks;
        s->block = row * 8 * far;
        n_blocks = stride / s->block;
        s->block_pad = each; /* of few, threads store the next 16 bytes, too */
        while (n_blocks && n_blocks * far < 8) {
            n_blocks *= 2;
            s->block_pad *= 2;
        }
    }
    s->size = stride + (stride / s->line + 1) * s->line_pad;
    s->size += s->block ? (stride / s->block + 1) * s->block_pad : 0;
    return true;
}

/* What one value of the range adds to the number of an output or step: the
 * lanes of WGMMA's ACC. */
static int64_t
weight_of(const struct kernel_matrix *m, bool reduce, bool of_a, uint32_t id)
{
    if (reduce)
        return id == m->step ? 1 : m->shape.k;
    if (of_a)
        return id == m->row ? 1 : id == m->half ? 8 : 16;
    return id == m->pair ? 1 : id == m->col ? 2 : 8;
}

/* The same for WGMMA, where a tile lies as uop_wgmma says: the dims count
 * outputs and steps. */
static bell_status
lay_out_wgmma(const struct expand *e, struct expand_stage *s)
{
    const struct kernel *k = e->k;
    const struct kernel_matrix *m = &k->matrix;
    int64_t row = UOP_WGMMA_ROW_BYTES / uop_dtype_infos[s->dtype].size_bytes;
    int64_t n[2] = {1, 1};
    bool of_a = false;
    uint32_t i;

    lay_out_tile(e, s, s->along, 0);
    for (i = 0; i < s->n_dims; i++)
        of_a |= uop_range_id(k->ranges[s->dims[i].range]) == m->row;
    s->size = 1;
    for (i = 0; i < s->n_dims; i++) {
        uint32_t r = s->dims[i].range, id = uop_range_id(k->ranges[r]);
        bool reduce = k->reduce_ranges >> r & 1;
        int64_t weight = weight_of(m, reduce, of_a, id);
        s->dims[i].weight = weight;
        s->dims[i].stride = reduce == s->along ? weight : weight * row;
        s->size *= k->sizes[r];
        n[reduce] *= k->sizes[r];
    }
    if (n[1] != row || n[0] % (UOP_WGMMA_ROW_BYTES / 2))
        return bell_fail(BELL_E_INTERNAL, "a tile of %lld x %lld for WGMMA",
                         (long long)n[0], (long long)n[1]);
    return BELL_OK;
}

/* ---- the copy ---- */

/* Digits of the elements that a thread copies: dims in copy order, the
 * fastest first, are fields of the element number. */
struct copy {
    const struct expand_stage *stage;
    uint32_t order[KERNEL_MAX_RANGES]; /* places in stage->dims */
    uint32_t taken[KERNEL_MAX_RANGES]; /* log2 of what one access covers */
    uint32_t lanes;                    /* of an access */
    uint32_t rows;                     /* so many accesses are turned */
    uint32_t first;    /* log2 of the threads that store neighbouring steps */
    uint32_t n_log2;   /* of elements, over lanes and rows */
    uint32_t tid_log2; /* of threads */
    const struct uop *value[KERNEL_MAX_RANGES]; /* by range */
};

static uint32_t
log2_size(const struct expand *e, uint32_t range)
{
    return log2_floor((uint64_t)e->k->sizes[range]);
}

/* The range along which neighbours lie side by side in the buffer; false if
 * there is none. */
static bool
contiguous_range(const struct expand *e, const struct expand_stage *s,
                 uint32_t *out_range)
{
    uint64_t set;

    for (set = s->ranges; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        if (kernel_coef(e->k, s->load->src[1], r) == 1) {
            *out_range = r;
            return true;
        }
    }
    return false;
}

static bool
stage_depends_on(const struct expand *e, const struct uop *u, uint32_t range)
{
    return kernel_deps(e->k, u) >> range & 1;
}

/* Does the index move by `step` along the range, and nothing else of the LOAD
 * with it? */
static bool
moves_by(const struct expand *e, const struct uop *u, uint32_t range,
         int64_t step)
{
    return kernel_coef(e->k, u->src[1], range) == step &&
           (u->n_src < 4 || (!stage_depends_on(e, u->src[2], range) &&
                             !stage_depends_on(e, u->src[3], range)));
}

/* WGMMA: does what is contiguous in the buffer become different rows of the
 * array? */
static bool
is_turned(const struct expand *e, const struct expand_stage *s)
{
    return e->k->matrix.wgmma &&
           s->along != (bool)(e->k->reduce_ranges >> s->range & 1);
}

/* The contiguous dim first; dims next to it in the same direction (of the
 * reduction, or not) follow, inner ones first, then the other direction. A
 * transposed operand goes by 8 outputs, which is a sector of words, to other
 * rows of banks, then by steps, to other banks. */
static void
order_copy(const struct expand *e, struct copy *c, uint32_t range)
{
    const struct expand_stage *s = c->stage;
    bool reduce = e->k->reduce_ranges >> range & 1;
    uint32_t i, n = 0, pass;

    for (i = 0; i < s->n_dims; i++) {
        if (s->dims[i].range == range)
            c->order[n++] = i;
    }
    for (pass = 0; pass < 3; pass++) {
        for (i = s->n_dims; i-- > 0;) {
            bool same = (e->k->reduce_ranges >> s->dims[i].range & 1) == reduce;
            bool later = same && is_turned(e, s) && s->dims[i].weight >= 8;
            if (s->dims[i].range != range && pass == (later  ? 2u
                                                      : same ? 0u
                                                             : 1u))
                c->order[n++] = i;
        }
    }
}

/* Elements that one access may take: along the first dims, as far as they lie
 * side by side in the buffer and evenly in the array. */
static void
choose_lanes(const struct expand *e, struct copy *c, uint32_t most)
{
    const struct expand_stage *s = c->stage;
    int64_t first = s->dims[c->order[0]].stride;
    uint32_t i;

    c->lanes = 1;
    for (i = 0; i < s->n_dims && c->lanes < most; i++) {
        uint32_t r = s->dims[c->order[i]].range, size = 1;
        if (!moves_by(e, s->load, r, c->lanes) ||
            s->dims[c->order[i]].stride != first * (int64_t)c->lanes)
            return;
        while ((int64_t)size < e->k->sizes[r] && c->lanes < most) {
            size *= 2;
            c->lanes *= 2;
        }
        c->taken[i] = log2_floor(size);
        if ((int64_t)size < e->k->sizes[r])
            return;
    }
}

/* Values that lie the other way in the array are transposed in registers: a
 * thread loads a few from several rows, and stores words or more of those that
 * were below each other. Bytes are, and of AMD's products, where no instruction
 * turns them, halves. As many rows as leave something to do for every thread.
 * Words for WGMMA are copied one by one: so turned, they made TF32's products
 * slower. observed: H100, 2026-11-23 */
static uint32_t
choose_rows(const struct expand *e, struct copy *c)
{
    const struct expand_stage *s = c->stage;
    const struct kernel_matrix *matrix = &e->k->matrix;
    uint32_t size = uop_dtype_infos[s->dtype].size_bytes;
    uint32_t last = s->n_dims - 1, lanes = WORD_BYTES, i;
    uint32_t most = ACCESS_BYTES / uop_dtype_infos[s->load->dtype].size_bytes;
    uint32_t part = ACCESS_BYTES / size;
    int64_t n = e->k->sizes[s->dims[last].range];

    c->rows = 1;
    if (is_turned(e, s))
        return 1;
    if (matrix->wgmma) /* what lies further on is elsewhere */
        return most < part ? most : part;
    if (c->order[0] == last || n < WORD_BYTES || size > 2 ||
        (size == 2 && (!matrix->on || matrix->shape.layout == UOP_WMMA_NV)))
        return most;
    choose_lanes(e, c, most);
    while (size == 2 && lanes * 2 <= c->lanes)
        lanes *= 2;
    memset(c->taken, 0, sizeof(c->taken));
    c->rows = WORD_BYTES / size;
    while (lanes > 1 && 1u << c->n_log2 < (lanes * c->rows) << c->tid_log2)
        lanes /= 2;
    while (c->rows < part && c->rows < n &&
           1u << c->n_log2 >= (2 * lanes * c->rows) << c->tid_log2)
        c->rows *= 2;
    for (i = 0; i < s->n_dims; i++) {
        if (c->order[i] == last)
            c->taken[i] = log2_floor(c->rows);
    }
    return lanes;
}

/* A transposed operand of AMD's products is less than 16 bytes of a row of
 * steps: neighbours have the rest of these, then other rows. */
static void
share_units(const struct expand *e, struct copy *c)
{
    const struct expand_stage *s = c->stage;
    uint32_t last = s->n_dims - 1, i, n;

    for (i = 0; i < last && c->order[i] != last; i++)
        ;
    if (!s->block || i == 0 || c->lanes == 1) /* gathers have enough to do */
        return;
    n = ACCESS_BYTES / uop_dtype_infos[s->dtype].size_bytes / c->rows;
    c->first = log2_size(e, s->dims[last].range) - c->taken[i];
    c->first = log2_floor(n) < c->first ? log2_floor(n) : c->first;
}

static void
plan_copy(const struct expand *e, const struct expand_stage *s, uint32_t range,
          struct copy *c)
{
    uint32_t i;

    memset(c, 0, sizeof(*c));
    c->stage = s;
    c->tid_log2 = log2_floor(e->k->n_threads);
    order_copy(e, c, range);
    assert(are_powers(e->k, s->ranges) && s->ranges >> range & 1);
    for (i = 0; i < s->n_dims; i++)
        c->n_log2 += log2_size(e, s->dims[i].range);
    choose_lanes(e, c, choose_rows(e, c));
    assert(c->n_log2 >= log2_floor(c->lanes) + log2_floor(c->rows));
    c->n_log2 -= log2_floor(c->lanes) + log2_floor(c->rows);
    share_units(e, c);
}

/* Bits [low, low + n) of step << tid_log2 | tid. */
static const struct uop *
number_field(struct expand *e, const struct copy *c, uint32_t step,
             uint32_t low, uint32_t n)
{
    uint64_t high = ((uint64_t)step << c->tid_log2) >> low;
    const struct uop *v =
        expand_num(e, (int64_t)(high & (((uint64_t)1 << n) - 1)));
    const struct uop *part = e->tid;

    if (low >= c->tid_log2 || !n)
        return v;
    if (low)
        part = expand_op_num(e, UOP_FLOORDIV, part, (int64_t)1 << low);
    part = expand_op_num(e, UOP_FLOORMOD, part, (int64_t)1 << n);
    return uop_alu2(e->g, UOP_ADD, v, part);
}

/* Values of all ranges for the element that this thread copies in `step`. */
static void
set_values(struct expand *e, struct copy *c, uint32_t step)
{
    const struct expand_stage *s = c->stage;
    uint32_t i, low = c->first;

    for (i = 0; i < e->k->n_ranges; i++)
        c->value[i] = e->base[i];
    for (i = 0; i < s->n_dims; i++) {
        uint32_t r = s->dims[c->order[i]].range, first = 0, n;
        if (c->order[i] == s->n_dims - 1)
            first = c->first;
        n = log2_size(e, r) - c->taken[i] - first;
        c->value[r] =
            expand_op_num(e, UOP_MUL, number_field(e, c, step, low, n),
                          (int64_t)1 << (c->taken[i] + first));
        if (first)
            c->value[r] = uop_alu2(
                e->g, UOP_ADD, c->value[r],
                expand_op_num(e, UOP_MUL, number_field(e, c, step, 0, first),
                              (int64_t)1 << c->taken[i]));
        low += n;
    }
}

const struct uop *
expand_wgmma_index(struct expand *e, const struct expand_stage *s,
                   const struct uop *output, const struct uop *step)
{
    int64_t bytes = uop_dtype_infos[s->dtype].size_bytes;
    int64_t n = UOP_WGMMA_ROW_BYTES / bytes, each = ACCESS_BYTES / bytes;
    const struct uop *row = output, *at = step, *part;

    if (!s->along) { /* rows of steps, of n outputs each */
        row = expand_op_num(e, UOP_MUL,
                            expand_op_num(e, UOP_FLOORDIV, output, n), n);
        row = uop_alu2(e->g, UOP_ADD, row, step);
        at = expand_op_num(e, UOP_FLOORMOD, output, n);
    }
    part =
        uop_alu2(e->g, UOP_XOR, expand_op_num(e, UOP_FLOORDIV, at, each),
                 expand_op_num(e, UOP_FLOORMOD, s->along ? output : step, 8));
    part = uop_alu2(e->g, UOP_ADD, expand_op_num(e, UOP_MUL, part, each),
                    expand_op_num(e, UOP_FLOORMOD, at, each));
    return uop_alu2(e->g, UOP_ADD, expand_op_num(e, UOP_MUL, row, n), part);
}

const struct uop *
expand_line_index(struct expand *e, const struct expand_stage *s,
                  const struct uop *rows, const struct uop *step)
{
    const struct uop *n = expand_op_num(e, UOP_FLOORDIV, rows, s->line);
    const struct uop *at = uop_alu2(e->g, UOP_ADD, rows, step);

    at = uop_alu2(e->g, UOP_ADD, at, expand_op_num(e, UOP_MUL, n, s->line_pad));
    if (!s->block)
        return at;
    n = expand_op_num(e, UOP_FLOORDIV, rows, s->block);
    return uop_alu2(e->g, UOP_ADD, at,
                    expand_op_num(e, UOP_MUL, n, s->block_pad));
}

/* Element of the LOCAL array for the present values, or those of the lane. */
static const struct uop *
array_index(struct expand *e, const struct copy *c, uint32_t lane)
{
    const struct expand_stage *s = c->stage;
    const struct uop *index = expand_num(e, lane * s->dims[c->order[0]].stride),
                     *count[2] = {expand_num(e, 0), expand_num(e, 0)};
    uint32_t i;

    for (i = 0; i < s->n_dims && e->k->matrix.wgmma; i++) {
        uint32_t r = s->dims[i].range;
        const struct uop **to = &count[e->k->reduce_ranges >> r & 1];
        *to =
            uop_alu2(e->g, UOP_ADD, *to,
                     expand_op_num(e, UOP_MUL, c->value[r], s->dims[i].weight));
    }
    if (e->k->matrix.wgmma)
        return expand_wgmma_index(e, s, count[0], count[1]);
    if (s->line)
        count[e->k->reduce_ranges >> s->dims[c->order[0]].range & 1] = index;
    for (i = 0; i < s->n_dims && s->line; i++) {
        uint32_t r = s->dims[i].range;
        const struct uop **to = &count[e->k->reduce_ranges >> r & 1];
        *to =
            uop_alu2(e->g, UOP_ADD, *to,
                     expand_op_num(e, UOP_MUL, c->value[r], s->dims[i].stride));
    }
    if (s->line)
        return expand_line_index(e, s, count[0], count[1]);
    for (i = 0; i < s->n_dims; i++)
        index = uop_alu2(e->g, UOP_ADD, index,
                         expand_op_num(e, UOP_MUL, c->value[s->dims[i].range],
                                       s->dims[i].stride));
    return index;
}

/* The operand's LOAD for the present values, where `gate` (NULL: everywhere)
 * holds. */
static bell_status
copy_load(struct expand *e, const struct copy *c, const struct uop *gate,
          const struct uop **out)
{
    const struct kernel *k = e->k;
    const struct uop *u = c->stage->load, *src[4], *roots[3];
    enum uop_dtype dtype = u->dtype;
    uint32_t i, n = u->n_src - 1;
    uint16_t lanes = (uint16_t)c->lanes;

    for (i = 0; i < n; i++)
        roots[i] = u->src[1 + i];
    BELL_TRY(uop_substitute(e->g, roots, n, k->ranges, c->value, k->n_ranges));
    if (n > 2 && gate)
        gate = uop_alu2(e->g, UOP_AND, roots[2], gate);
    else if (n > 2)
        gate = roots[2];
    src[0] = u->src[0];
    src[1] = roots[0];
    src[2] = n > 2 ? roots[1] : uop_const_int(e->g, dtype, 0);
    src[2] = expand_broadcast(e, src[2], lanes);
    src[3] = gate;
    *out = uop_make(e->g, UOP_LOAD, dtype, lanes, no_arg, src, gate ? 4 : 2);
    return BELL_OK;
}

/* A power of two that divides u; 0: it is 0. */
uint64_t
expand_divisor(const struct uop *u, uint32_t depth)
{
    uint64_t a, b;

    if (u->op == UOP_CONST)
        return lowest_bit((uint64_t)u->arg.i);
    if (u->n_src < 2 || depth == MAX_DEPTH)
        return 1;
    a = expand_divisor(u->src[u->op == UOP_WHERE ? 2 : 0], depth + 1);
    b = expand_divisor(u->src[1], depth + 1);
    switch (u->op) {
    case UOP_MUL:
        return a * b;
    case UOP_ADD:
    case UOP_SUB:
    case UOP_FLOORMOD:
    case UOP_XOR:
    case UOP_MAX:
    case UOP_MIN:
    case UOP_WHERE:
        return least_align(a, b);
    default:
        return 1;
    }
}

/* Does what is loaded at once lie side by side in the array? */
static bool
lies_as_loaded(const struct copy *c)
{
    return c->lanes == 1 || c->stage->dims[c->order[0]].stride == 1;
}

/* Lane i of what was loaded from each row. */
static const struct uop *
across(struct expand *e, const struct copy *c, const struct uop *const *rows,
       uint32_t i)
{
    enum uop_dtype dtype = c->stage->dtype;
    const struct uop *parts[ACCESS_BYTES];
    union uop_arg lane = {.i = i};
    uint32_t r;

    for (r = 0; r < c->rows; r++) {
        parts[r] = rows[r];
        if (c->lanes > 1)
            parts[r] = uop_make(e->g, UOP_LANE, dtype, 1, lane, &rows[r], 1);
    }
    if (c->rows == 1)
        return parts[0];
    return uop_make(e->g, UOP_LANES, dtype, (uint16_t)c->rows, no_arg, parts,
                    c->rows);
}

/* The most bytes that a COPY takes of `value`, which goes to element `index`
 * of the array as it is; 0: it has to be loaded and stored. */
static uint32_t
copy_width_bytes(const struct expand *e, const struct uop *value,
                 const struct uop *index)
{
    uint32_t size = uop_dtype_infos[value->dtype].size_bytes;
    uint32_t bytes = value->lanes * size;
    const struct uop *other = value->n_src > 3 ? value->src[2] : NULL;
    uint64_t align;

    while (other && other->op == UOP_BROADCAST)
        other = other->src[0];
    if (value->op != UOP_LOAD || value->dtype == UOP_BOOL ||
        (other && (other->op != UOP_CONST || other->arg.bits)))
        return 0;
    bytes = bytes < e->k->target->copy_bytes ? bytes : e->k->target->copy_bytes;
    align = size * least_align(expand_divisor(value->src[1], 0),
                               expand_divisor(index, 0));
    bytes = align && align < bytes ? (uint32_t)align : bytes;
    return bytes < WORD_BYTES ? 0 : bytes;
}

/* Adds COPYs of so many bytes in place of a LOAD and its STORE. */
static void
add_tile_copies(struct expand *e, const struct expand_store *whole,
                uint32_t bytes, struct expand_stores *stores)
{
    const struct uop *load = whole->value, *src[6] = {whole->memory};
    uint32_t i, n = bytes / uop_dtype_infos[load->dtype].size_bytes;
    union uop_arg arg = {.i = bytes};

    src[2] = load->src[0];
    src[4] = load->n_src > 3 ? load->src[3] : uop_const_int(e->g, UOP_BOOL, 1);
    src[5] = whole->gate;
    for (i = 0; i < load->lanes; i += n) {
        struct expand_store *store = &stores->v[stores->n++];
        *store = *whole;
        src[1] = expand_op_num(e, UOP_ADD, whole->index, i);
        src[3] = expand_op_num(e, UOP_ADD, load->src[1], i);
        store->made = uop_new(e->g, UOP_COPY, UOP_VOID, 1, arg, src,
                              whole->gate       ? 6
                              : load->n_src > 3 ? 5
                                                : 4);
    }
}

/* The STORE to `memory`, unless it is made. */
static const struct uop *
make_store(struct expand *e, struct expand_store *store,
           const struct uop *memory)
{
    const struct uop *src[4] = {memory, store->index, store->value,
                                store->gate};

    if (!store->made)
        store->made = uop_make(e->g, UOP_STORE, UOP_VOID, 1, no_arg, src,
                               store->gate ? 4 : 3);
    return store->made;
}

/* Adds the STOREs of what was loaded to the tile at `half`, at once or lane by
 * lane, or COPYs. */
static void
copy_store(struct expand *e, const struct copy *c, const struct uop *half,
           const struct uop *const *rows, const struct uop *gate,
           struct expand_stores *stores)
{
    bool whole = c->rows == 1 && lies_as_loaded(c);
    uint32_t i, n = whole ? 1 : c->lanes, bytes;

    for (i = 0; i < n; i++) {
        struct expand_store store = {.memory = c->stage->memory, .gate = gate};
        store.index = uop_alu2(e->g, UOP_ADD, array_index(e, c, i), half);
        store.value = whole ? rows[0] : across(e, c, rows, i);
        bytes = copy_width_bytes(e, store.value, store.index);
        if (bytes)
            add_tile_copies(e, &store, bytes, stores);
        else
            stores->v[stores->n++] = store;
    }
}

/* Which of the tiles is copied. */
struct stage_turn {
    const struct uop *tile, *gate; /* NULL: any, always */
};

/* Part of the array where the tile lies. */
static const struct uop *
half_of(struct expand *e, const struct expand_stage *s, const struct uop *tile)
{
    if (e->n_buffers == 1)
        return expand_num(e, 0);
    return expand_op_num(e, UOP_MUL,
                         expand_op_num(e, UOP_FLOORMOD, tile, e->n_buffers),
                         s->size);
}

/* The LOADs of all rows, from the present values on. */
static bell_status
copy_tile_rows(struct expand *e, struct copy *c, const struct uop *gate,
               const struct uop **out)
{
    uint32_t along = c->stage->dims[c->stage->n_dims - 1].range, r;
    const struct uop *first = c->value[along];
    bell_status status = BELL_OK;

    for (r = 0; r < c->rows && status == BELL_OK; r++) {
        c->value[along] = expand_op_num(e, UOP_ADD, first, r);
        status = copy_load(e, c, gate, &out[r]);
    }
    c->value[along] = first;
    return status;
}

/* Passes over an operand's tile that all threads make; which of them take part
 * (NULL: all). */
static uint32_t
plan_stage_steps(struct expand *e, const struct expand_stage *s, struct copy *c,
                 const struct uop **out_gate)
{
    plan_copy(e, s, s->range, c);
    *out_gate = NULL;
    if (c->n_log2 < c->tid_log2)
        *out_gate =
            expand_op_num(e, UOP_CMPLT, e->tid, (int64_t)1 << c->n_log2);
    return c->n_log2 > c->tid_log2 ? 1u << (c->n_log2 - c->tid_log2) : 1;
}

static void
set_turn(struct expand *e, struct copy *c, uint32_t step,
         const struct stage_turn *turn)
{
    set_values(e, c, step);
    if (turn->tile)
        c->value[e->tile_loop] = turn->tile;
}

/* Copies one operand's tile. */
static bell_status
copy_operand(struct expand *e, const struct expand_stage *s,
             const struct stage_turn *turn, struct expand_stores *stores)
{
    const struct uop *rows[ACCESS_BYTES] = {NULL}, *gate;
    const struct uop *half =
        turn->tile ? half_of(e, s, turn->tile) : expand_num(e, 0);
    uint32_t step, steps, r;
    struct copy c;

    if (s->box_stride)
        return expand_add_boxes(e, s, turn->tile, turn->gate, half, stores);
    steps = plan_stage_steps(e, s, &c, &gate);
    for (step = 0; step < steps; step++) {
        set_turn(e, &c, step, turn);
        BELL_TRY(copy_tile_rows(e, &c, turn->gate, rows));
        for (r = 0; r < c.rows; r++)
            rows[r] = uop_cast(e->g, rows[r], s->dtype);
        copy_store(e, &c, half, rows, gate, stores);
    }
    return BELL_OK;
}

/* Where an operand's tile lies, and how it is copied. */
static bell_status
place_operand(struct expand *e, struct expand_stage *s)
{
    bool along, matrix = e->k->matrix.on, turned;
    int64_t each, pad;

    s->dtype = s->load->dtype;
    if (matrix && e->k->matrix.dtype)
        s->dtype = e->k->matrix.dtype;
    each = ACCESS_BYTES / uop_dtype_infos[s->dtype].size_bytes;
    s->ranges = tile_ranges(e, kernel_deps(e->k, s->load));
    if (!contiguous_range(e, s, &s->range))
        s->range = 63u - (uint32_t)__builtin_clzll(s->ranges);
    along = e->k->reduce_ranges >> s->range & 1;
    s->along = along || uop_dtype_infos[s->dtype].size_bytes != 2;
    pad = each;
    if (matrix && e->k->matrix.shape.layout != UOP_WMMA_NV) {
        /* as much as a thread reads at once */
        pad = uop_wmma_lanes(e->k->matrix.shape, UOP_WMMA_A);
        pad = pad < each && pad * 2 >= each ? pad : each;
    }
    s->piece = -1;
    if (e->k->matrix.wgmma)
        return lay_out_wgmma(e, s);
    if (matrix && e->k->matrix.shape.layout != UOP_WMMA_NV &&
        lay_out_lines(e, s)) {
        s->size = (int64_t)align_up((uint64_t)s->size, (uint64_t)each);
        return BELL_OK;
    }
    /* mma.sync's operands are read as well across the steps (ldmatrix), but
     * not bytes */
    turned = matrix && (along || each == ACCESS_BYTES ||
                        e->k->matrix.shape.layout != UOP_WMMA_NV);
    /* nothing between rows that are copied as they lie, and read so too */
    s->size = lay_out_tile(e, s, turned, along || matrix ? pad : 0);
    s->size = (int64_t)align_up((uint64_t)s->size, (uint64_t)each);
    return BELL_OK;
}

/* STOREs of an operand, at most. */
static uint64_t
count_stores(const struct expand *e, uint32_t pos)
{
    uint64_t set = tile_ranges(e, e->k->deps[pos]), n = 1;

    for (; set; set &= set - 1)
        n *= (uint64_t)e->k->sizes[__builtin_ctzll(set)];
    return n / e->k->n_threads + ACCESS_BYTES;
}

/* A BARRIER where the work on one output begins, in the loops around it: all
 * threads are done with the tiles of the one before. NULL without loops. */
static const struct uop *
start_barrier(struct expand *e)
{
    const struct kernel *k = e->k;
    const struct uop *src[KERNEL_MAX_RANGES];
    uint64_t loops = 0;
    uint32_t i, n = 0;

    for (i = 0; i < k->n_groups; i++) {
        if (k->groups[i].bound & e->staged)
            loops |= k->groups[i].context & e->loops;
    }
    for (; loops; loops &= loops - 1)
        src[n++] = e->base[__builtin_ctzll(loops)];
    if (!n)
        return NULL;
    return uop_new(e->g, UOP_BARRIER, UOP_VOID, 1, no_arg, src, n);
}

/* The loop over tiles, if it is one loop. */
static int32_t
find_tile_loop(const struct expand *e)
{
    const struct kernel *k = e->k;
    uint64_t loops = 0;
    uint32_t i;

    for (i = 0; i < k->n_groups; i++) {
        if (k->groups[i].bound & e->staged)
            loops |= k->groups[i].bound & e->loops & ~e->staged;
    }
    return loops && !(loops & (loops - 1)) ? __builtin_ctzll(loops) : -1;
}

/* Work-groups of a product that the registers of a unit have room for, by its
 * tile: half of them are sums. */
static uint64_t
groups_a_unit(const struct expand *e)
{
    const struct kernel *k = e->k;
    uint64_t set = (e->threads | e->copied | e->vectors) & ~k->reduce_ranges;
    double sums = kernel_count(k, set);

    return sums >= SUMS_A_UNIT ? 1 : (uint64_t)(SUMS_A_UNIT / sums);
}

/* How many tiles of `bytes` there are at once: of products, as many as leave
 * room for other work-groups. WGMMAs still read the tile before this one; where
 * four leave room for another work-group that there is, there are no more. All
 * tiles of short sums are under way at once, but not MAX_ALONE: as many copies
 * later each has another's mbarrier (render/ptx/ptx_box.c). */
static void
choose_buffers(struct expand *e, uint64_t bytes)
{
    const struct lower_target *t = e->k->target;
    uint64_t n = e->tile_loop >= 0 && bytes * 2 <= t->max_shared_bytes ? 2 : 1;
    uint32_t all = (uint32_t)(t->max_stage_bytes / bytes);
    bool alone = kernel_count(e->k, e->globals) <= (double)t->n_units;

    if (e->tile_loop >= 0 && e->k->matrix.on && t->copy_bytes) {
        uint64_t most = e->k->matrix.deep
                            ? t->max_shared_bytes / bytes
                            : t->max_stage_bytes / bytes / groups_a_unit(e);
        n = most > n ? most : n;
    }
    e->n_buffers = n < MAX_DEEP ? (uint32_t)n : MAX_DEEP;
    e->ahead = e->n_buffers - 1;
    if (!e->k->matrix.wgmma)
        return;
    e->n_buffers = alone ? MAX_ALONE : all >= 8 ? 4 : MAX_BUFFERS;
    e->n_buffers = all < e->n_buffers ? all : e->n_buffers;
    e->ahead = e->n_buffers - 2;
    if (e->k->sizes[e->tile_loop] <= (int64_t)e->n_buffers &&
        e->k->sizes[e->tile_loop] < MAX_ALONE)
        e->ahead = e->n_buffers = (uint32_t)e->k->sizes[e->tile_loop];
}

static bell_status
find_operands(struct expand *e)
{
    struct kernel *k = e->k;
    uint64_t n_stores = 0, bytes = 0;
    uint32_t i, n = 0;

    for (i = 0; i < k->n_nodes; i++)
        n += is_operand(e, i);
    e->stages = arena_calloc(&k->mem, n + 1, sizeof(*e->stages));
    if (!e->stages)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", k->n_nodes);
    for (i = 0; i < k->n_nodes; i++) {
        struct expand_stage *s = &e->stages[e->n_stages];
        if (!is_operand(e, i))
            continue;
        s->load = k->nodes[i];
        BELL_TRY(place_operand(e, s));
        e->inst[i].stage = ++e->n_stages;
        n_stores += count_stores(e, i);
        bytes += (uint64_t)s->size * uop_dtype_infos[s->dtype].size_bytes;
    }
    e->tile_loop = find_tile_loop(e);
    choose_buffers(e, bytes);
    for (i = 0; i < e->n_stages && e->ahead > 1; i++)
        e->stages[i].box_stride = expand_box_stride(e, &e->stages[i]);
    e->first.v = arena_alloc(&k->mem, n_stores * sizeof(*e->first.v));
    e->next.v = arena_alloc(&k->mem, n_stores * sizeof(*e->next.v));
    if (n && (!e->first.v || !e->next.v))
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", k->n_nodes);
    return BELL_OK;
}

bell_status
expand_find_stages(struct expand *e)
{
    const struct kernel *k = e->k;
    uint32_t r;

    e->staged = 0;
    for (r = 0; r < k->n_ranges; r++) {
        if (k->staged >> uop_range_id(k->ranges[r]) & 1)
            e->staged |= (uint64_t)1 << r;
    }
    return e->staged && e->tid ? find_operands(e) : BELL_OK;
}

/* The tile that is copied while the present one is worked on. */
static struct stage_turn
next_turn(struct expand *e)
{
    struct stage_turn next;

    next.tile = expand_op_num(e, UOP_ADD, e->base[e->tile_loop], e->ahead);
    next.gate =
        expand_op_num(e, UOP_CMPLT, next.tile, e->k->sizes[e->tile_loop]);
    return next;
}

/* Is it known that there is no such tile? */
static bool
is_never(const struct uop *gate)
{
    return gate->op == UOP_CONST && !gate->arg.i;
}

/* The next tile's LOADs of what is converted or turned stand before the BARRIER
 * on which the matrix instructions wait, so that these hide them: adds them to
 * its sources. ptxas, left to itself, puts some behind them. observed: H100,
 * 2026-11-23: e4m3 products through halves, int8 */
static bell_status
load_next(struct expand *e, const struct uop ***src, uint32_t *n)
{
    const struct uop **out, *gate, *const *before = *src;
    struct stage_turn next = next_turn(e);
    uint32_t i, step, steps, r;
    struct copy c;

    for (i = 0; i < e->n_stages && !is_never(next.gate); i++) {
        const struct expand_stage *s = &e->stages[i];
        steps = plan_stage_steps(e, s, &c, &gate);
        if (c.rows == 1 && s->dtype == s->load->dtype)
            continue; /* COPYs */
        out = arena_alloc(&e->k->mem,
                          (*n + (size_t)steps * c.rows + 1) * sizeof(*out));
        if (!out)
            return bell_fail(BELL_E_NO_MEMORY,
                             "expansion of %u nodes: out of memory",
                             e->k->n_nodes);
        memcpy(out, before, *n * sizeof(*out));
        before = *src = out;
        for (step = 0; step < steps; step++) {
            set_turn(e, &c, step, &next);
            BELL_TRY(copy_tile_rows(e, &c, next.gate, out + *n));
            /* zeros where it is known that there is no next tile */
            for (r = 0; r < c.rows && out[*n]->op == UOP_LOAD; r++)
                (*n)++;
        }
    }
    return BELL_OK;
}

/* The STOREs of e->first; one COMMIT where more than a tile is under way. */
static bell_status
first_effects(struct expand *e, const struct uop ***out_src, uint32_t *out_n)
{
    const struct uop **src;
    uint32_t i, n = e->first.n;

    src = arena_alloc(&e->k->mem, (n + 2) * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", e->k->n_nodes);
    for (i = 0; i < n; i++)
        src[i] = make_store(e, &e->first.v[i], e->first.v[i].memory);
    if (e->ahead > 1) {
        if (e->commit)
            src[n++] = e->commit;
        src[0] = e->commit =
            uop_new(e->g, UOP_COMMIT, UOP_VOID, 1, no_arg, src, n);
        n = 1;
    }
    *out_src = src;
    *out_n = n;
    return BELL_OK;
}

/* Copies the first tiles, as many as are ahead of the work; makes the BARRIER
 * behind them, in the loop over tiles where there are several of each. */
static bell_status
copy_first(struct expand *e, const struct uop **out_barrier)
{
    struct stage_turn turn = {NULL, NULL};
    const struct uop **src = NULL;
    union uop_arg arg = {.i = 0};
    uint32_t t = 0, i, n = 0;

    do {
        e->first.n = 0;
        if (e->ahead)
            turn.tile = expand_num(e, t);
        for (i = 0; i < e->n_stages; i++) {
            struct expand_stage *s = &e->stages[i];
            if (e->ahead && t >= e->k->sizes[e->tile_loop])
                break;
            if (e->commit)
                s->memory = expand_after(e, s->memory, e->commit);
            BELL_TRY(copy_operand(e, s, &turn, &e->first));
        }
        BELL_TRY(first_effects(e, &src, &n));
    } while (++t < e->ahead);
    if (e->ahead && e->k->matrix.on && e->k->target->copy_bytes)
        BELL_TRY(load_next(e, &src, &n));
    if (e->ahead) {
        src[n++] = e->base[e->tile_loop];
        arg.i = e->ahead - 1;
    }
    *out_barrier = uop_new(e->g, UOP_BARRIER, UOP_VOID, 1, arg, src, n);
    return BELL_OK;
}

/* Registers for what is loaded of the next tile and stored as it is. */
static uint32_t
count_held(const struct expand_stores *stores)
{
    uint32_t i, bytes, n = 0;

    for (i = 0; i < stores->n; i++) {
        const struct uop *v = stores->v[i].value;
        bytes = v->lanes * uop_dtype_infos[v->dtype].size_bytes;
        n += stores->v[i].made || v->op != UOP_LOAD
                 ? 0
                 : (bytes + WORD_BYTES - 1) / WORD_BYTES;
    }
    return n;
}

/* The next tile's copies. Loaded values wait in registers for the work on this
 * tile to be done; but not what goes to the array as it is where it is much, or
 * where most of it is a COPY. */
static bell_status
copy_next(struct expand *e)
{
    struct stage_turn next = next_turn(e);
    const struct uop **src;
    uint32_t i, n = 0;
    bool waits;

    /* a TMA_COPY that is never copied still counts turns */
    for (i = 0; i < e->n_stages; i++) {
        if (e->stages[i].box_stride || !is_never(next.gate))
            BELL_TRY(copy_operand(e, &e->stages[i], &next, &e->next));
    }
    waits = !e->k->target->copy_bytes && count_held(&e->next) <= MAX_HELD;
    for (i = 0; i < e->next.n; i++) {
        struct expand_store *store = &e->next.v[i];
        if (!waits && store->value->op == UOP_LOAD)
            make_store(e, store, store->memory);
    }
    if (e->ahead < 2)
        return BELL_OK;
    src = arena_alloc(&e->k->mem, (e->next.n + 1) * sizeof(*src));
    if (!src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", e->k->n_nodes);
    src[n++] = e->base[e->tile_loop];
    for (i = 0; i < e->next.n; i++) {
        if (e->next.v[i].made)
            src[n++] = e->next.v[i].made;
    }
    e->commit = uop_new(e->g, UOP_COMMIT, UOP_VOID, 1, no_arg, src, n);
    return BELL_OK;
}

bell_status
expand_copy_stages(struct expand *e)
{
    const struct lower_target *t = e->k->target;
    uint32_t i, most = t->max_shared_bytes;
    const struct uop *barrier;

    if (!e->n_stages)
        return BELL_OK;
    if (e->k->matrix.on && t->max_stage_bytes)
        most = t->max_stage_bytes;
    barrier = start_barrier(e);
    for (i = 0; i < e->n_stages; i++) {
        struct expand_stage *s = &e->stages[i];
        s->memory = expand_local(e, s->dtype, (uint64_t)s->size * e->n_buffers);
        if (barrier)
            s->memory = expand_after(e, s->memory, barrier);
        s->half = expand_num(e, 0);
        if (e->n_buffers > 1)
            s->half = half_of(e, s, e->base[e->tile_loop]);
    }
    BELL_TRY(copy_first(e, &barrier));
    for (i = 0; i < e->n_stages; i++)
        e->stages[i].memory = expand_after(e, e->stages[i].memory, barrier);
    if (e->n_buffers > 1)
        BELL_TRY(copy_next(e));
    if (e->shared_bytes > most)
        return bell_fail(BELL_E_INTERNAL, "%u bytes of LOCAL memory, of %u",
                         e->shared_bytes, most);
    return uop_graph_status(e->g);
}

const struct uop *
expand_end_tile(struct expand *e, const struct uop *range,
                const struct uop *const *effects, uint32_t n)
{
    const struct uop **src, *memory;
    uint32_t i, n_src = 1 + n;

    src = arena_alloc(&e->k->mem, (3 + n + e->next.n) * sizeof(*src));
    if (!src) {
        e->g->failed = true;
        return &uop_failed;
    }
    memcpy(src + 1, effects, n * sizeof(*src));
    if (e->n_buffers == 1) {
        src[1] = uop_new(e->g, UOP_BARRIER, UOP_VOID, 1, no_arg, src + 1, n);
        n_src = 2;
    }
    for (i = 0; i < e->next.n; i++) {
        struct expand_store *store = &e->next.v[i];
        if (!store->made) { /* behind the work on this tile */
            src[0] = store->memory;
            memory = uop_new(e->g, UOP_AFTER, store->memory->dtype, 1, no_arg,
                             src, 1 + n);
            make_store(e, store, memory);
        }
        src[n_src++] = store->made;
    }
    if (e->commit)
        src[n_src++] = e->commit;
    src[0] = range;
    return uop_new(e->g, UOP_END, UOP_VOID, 1, no_arg, src, n_src);
}

/* ---- the use ---- */

/* The elements that one LOAD takes of those that copies of an operand want:
 * copies along the fastest dim lie side by side. */
static uint32_t
use_lanes(const struct expand *e, const struct expand_stage *s)
{
    uint32_t r = s->dims[s->n_dims - 1].range;
    uint32_t lanes = ACCESS_BYTES / uop_dtype_infos[s->dtype].size_bytes;

    if (!(e->copied >> r & 1))
        return 1;
    while ((int64_t)lanes > e->k->sizes[r])
        lanes /= 2;
    return lanes ? lanes : 1;
}

const struct uop *
expand_staged_value(struct expand *e, const struct expand_inst *inst)
{
    const struct expand_stage *s = &e->stages[inst->stage - 1];
    enum uop_dtype dtype = s->dtype;
    uint32_t lanes = inst->vec >= 0 ? inst->lanes : use_lanes(e, s), i;
    const struct uop *src[2] = {s->memory, s->half}, *value;
    union uop_arg lane = {.i = 0};
    int64_t offset = 0;

    for (i = 0; i < s->n_dims; i++) {
        uint32_t r = s->dims[i].range;
        int64_t stride = s->dims[i].stride;
        if (e->copied >> r & 1)
            offset += (int64_t)e->digit[r] * stride;
        else
            src[1] = uop_alu2(e->g, UOP_ADD, src[1],
                              expand_op_num(e, UOP_MUL, e->base[r], stride));
    }
    if (inst->vec < 0 && lanes > 1) {
        lane.i = e->digit[s->dims[s->n_dims - 1].range] % lanes;
        offset -= lane.i;
    }
    src[1] = expand_op_num(e, UOP_ADD, src[1], offset);
    value = uop_make(e->g, UOP_LOAD, dtype, (uint16_t)lanes, no_arg, src, 2);
    if (inst->vec >= 0 || lanes == 1)
        return value;
    return uop_make(e->g, UOP_LANE, dtype, 1, lane, &value, 1);
}

bool
expand_has_tile(const struct expand *e, uint64_t bound)
{
    return e->n_stages && bound & e->staged;
}
