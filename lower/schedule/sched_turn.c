/* Factors of large products, turned first.
 *
 * In TF32, WGMMA takes words along the sum alone. A factor that lies the other
 * way would be turned on its way to each tile that it is in; a kernel that
 * stores it turned is soon worth its time. observed: H100, 2026-11-23: x @ w of
 * 4096 took 700 us, and so takes 400; x.T @ w, both turned, 875 and 450.
 *
 * Matrix instructions are fed by accesses of 16 bytes. Where rows of a factor
 * are not multiples of that, all of it would be loaded element by element, by
 * each tile that it is in: of large products such a factor is stored along the
 * sum first, with zeros behind each row.
 *
 * observed: H100, 2026-11-23: bfloat16 products of 4095 made 77 to 93 TFLOP/s,
 * of 4096 786. guess: from 2^24 products on, where the model of H100, A100,
 * MI300X and RX 7900 XTX says that both kernels take 0.15 to 0.6 of the time
 * that one does. Where nothing copies to LOCAL memory, likewise sums of no
 * whole matrix instructions: bfloat16 products of 1000 on MI300X then take 4.7
 * us, not 16.6.
 *
 * Likewise on a CPU with instructions for products of small numbers, which take
 * so many steps of the sum at a time. observed: a Xeon with AMX,
 * 2026-11-28: bfloat16 products of 1000 were 6.8 times slower than of 1024.
 *
 * A CPU packs the columns that a vector has anyway (lower/opt/opt_product.c),
 * but rows again for each few of them. Rows that lie pages apart are all in the
 * same few places of the first cache, which does not hold those of a tile: they
 * are moved apart by a line. observed: AMD EPYC (Zen 4), 1024, 2048 and 4096:
 * 103 GFLOP/s of one thread, so 110.
 *
 * A convolution's gradient by its input reads the filters reversed and
 * permuted, so packing their rows again and again is slow: they are copied
 * first. observed: AMD EPYC (Zen 3), one thread, 2026-11-29: 8 images of 14 x
 * 14, 256 channels, 3 x 3: 44 ms, with the copy 23; 14 x 14 from 512 channels
 * of 7 x 7, stride 2: 139 ms, 34.
 */
#include "lower/schedule/sched_internal.h"

#include <string.h>

#include "base/bits.h"

#define MIN_STEPS   256 /* of the sum, where they are a multiple of STEP_WORDS */
#define STEP_WORDS  4   /* 16 bytes */
#define MIN_OUTPUTS 128  /* of the factor */
#define MIN_USES    1024 /* of each of its elements */
#define FEW_USES    512  /* likewise, where a CPU turns it */
#define WINDOW_USES 64   /* likewise, of a sum over several axes. guess */
#define PART_BYTES  16
#define ROW_BYTES   128  /* that rows are made multiples of: a tile's steps */
#define PAGE_BYTES  4096 /* a cache's way has at most this, or multiples */
#define LINE_BYTES  64
#define PAD_USES    256 /* of each element; copies are then soon worth it */
#define PAD_WORK    (1 << 24) /* products, in all */
#define TILE_STEPS  64        /* the same three of a CPU's tiles. guess: */
#define TILE_USES   64
#define TILE_WORK   (1 << 22)

/* Does the PERMUTE make the last axis, of so many, of one that lies otherwise
 * in memory? What was made words of less is multiplied as what it was. */
static bool
is_across(struct uop_graph *g, const struct uop *u, int64_t steps)
{
    const struct uop *src = u->src[0], *base = src;
    const struct uop_dims *to = uop_shape(g, u), *from = uop_shape(g, src);
    uint32_t last = to->n - 1;

    while (base->op == UOP_RESHAPE)
        base = base->src[0];
    return base->op != UOP_CAST && !uop_has(base, UOP_FLAG_MOVE) && to->n > 1 &&
           to->d[last] == steps && u->arg.dims->d[last] != (int64_t)last &&
           from->d[last] >= MIN_OUTPUTS;
}

/* The factor as it is, or made of what is stored turned: of `most` elements. */
static const struct uop *
turn(struct uop_graph *g, const struct uop *u, int64_t steps, double most)
{
    const struct uop *src;

    if (u->op == UOP_PERMUTE)
        return !is_across(g, u, steps) || sched_numel(g, uop_shape(g, u)) > most
                   ? u
                   : sched_each(g, UOP_CONTIGUOUS, u->dtype, u, NULL);
    if (u->op != UOP_EXPAND && u->op != UOP_RESHAPE)
        return u;
    src = turn(g, u->src[0], steps, most);
    return src == u->src[0] ? u
                            : uop_new_shaped(g, u->op, u->dtype, u->arg, &src,
                                             1, uop_shape(g, u));
}

/* Is the factor the same along the axis? */
static bool
is_turn_repeated(struct uop_graph *g, const struct uop *u, uint32_t axis)
{
    return u->op == UOP_EXPAND && uop_shape(g, u->src[0])->d[axis] == 1;
}

#define MAX_MOVES 4 /* of a factor that was widened before them */

/* Moves the value before it was widened; or u as it is. */
static const struct uop *
move_before_cast(struct uop_graph *g, const struct uop *u)
{
    const struct uop *moves[MAX_MOVES], *base = u, *src;
    uint32_t n = 0;

    for (; base->op == UOP_PERMUTE || base->op == UOP_RESHAPE;
         base = base->src[0]) {
        if (n == MAX_MOVES)
            return u;
        moves[n++] = base;
    }
    if (base->op != UOP_CAST)
        return u;
    for (src = base->src[0]; n > 0; n--)
        src = uop_new_shaped(g, moves[n - 1]->op, src->dtype, moves[n - 1]->arg,
                             &src, 1, uop_shape(g, moves[n - 1]));
    return src;
}

/* What of the factor is not repeated, before it was widened; NULL where that
 * cannot be said, or is a constant, which has no axes. */
static const struct uop *
narrow_factor(struct uop_graph *g, const struct uop *u)
{
    const struct uop_dims *dims;

    if (u->op == UOP_EXPAND)
        u = u->src[0];
    if (u->op == UOP_CAST)
        u = u->src[0];
    dims = uop_shape(g, u);
    return dims->n > 0 && dims->d[dims->n - 1] > 1 ? u : NULL;
}

/* Elements from row to row of it in memory, if it is what is stored, in another
 * order perhaps; else 0. */
static int64_t
row_pitch(struct uop_graph *g, const struct uop *u)
{
    const struct uop_dims *dims = uop_shape(g, u);
    uint32_t last = dims->n;

    for (; u->op == UOP_RESHAPE || u->op == UOP_PERMUTE; u = u->src[0]) {
        if (u->op == UOP_PERMUTE)
            dims = uop_shape(g, u->src[0]);
    }
    if (uop_has(u, UOP_FLAG_MOVE))
        return 0;
    for (last = dims->n; last > 1 && dims->d[last - 1] == 1;)
        last--;
    return last ? dims->d[last - 1] : 0;
}

/* The factor made of `narrow`, whose last axis becomes one of `steps`, zeros
 * behind what there is, and is stored. */
static const struct uop *
pad(struct uop_graph *g, const struct uop *u, const struct uop *narrow,
    int64_t steps)
{
    const struct uop_dims *shape = uop_shape(g, u);
    uint32_t last = shape->n - 1;
    int64_t d[SCHED_MAX_RANK];

    memcpy(d, shape->d, shape->n * sizeof(*d));
    d[last] = steps;
    narrow = sched_pad(g, narrow, last, steps);
    narrow = sched_each(g, UOP_CONTIGUOUS, narrow->dtype, narrow, NULL);
    if (narrow->dtype != u->dtype)
        narrow = sched_each(g, UOP_CAST, u->dtype, narrow, NULL);
    return sched_expand(g, narrow, uop_dims(g, d, shape->n));
}

/* Elements of the factors that are taken at a time, and how many steps of the
 * sum they are then to be; 0: any. */
static int64_t
part_of_row(const struct sched_target *target, enum uop_dtype dtype,
            int64_t steps, int64_t *out_padded)
{
    int64_t size = uop_dtype_infos[dtype].size_bytes, part = 0;

    *out_padded = steps;
    if (target->tiles_k && target->tiles_k[dtype]) {
        part = target->tiles_k[dtype];
        *out_padded = (int64_t)align_up((uint64_t)steps, (uint64_t)part);
    } else if (dtype == UOP_F32
                   ? target->turns_words
                   : size < 4 && target->matrix_k && target->matrix_k[dtype]) {
        part = PART_BYTES / size;
        if (steps % part ||
            (size < 4 && !target->copies && steps % target->matrix_k[dtype]))
            *out_padded = (int64_t)align_up((uint64_t)steps,
                                            (uint64_t)(ROW_BYTES / size));
    }
    return part;
}

/* Fills to[] with factors whose rows are such that parts of them can be taken
 * at a time; false where they are, or that is worth nothing. */
static bool
pad_factors(struct uop_graph *g, const struct uop *body,
            const struct sched_target *target, const struct uop *to[2])
{
    const struct uop_dims *dims = uop_shape(g, body);
    int64_t steps = dims->d[dims->n - 1], padded, part, pitch;
    double n = sched_numel(g, dims);
    double uses = target->tiles_k ? TILE_USES : PAD_USES;
    const struct uop *narrow[2];
    bool moves[2];
    uint32_t i;

    if (dims->n > SCHED_MAX_RANK ||
        steps < (target->tiles_k ? TILE_STEPS : MIN_STEPS) ||
        n < (target->tiles_k ? TILE_WORK : PAD_WORK))
        return false;
    for (i = 0; i < 2; i++) {
        narrow[i] = narrow_factor(g, body->src[i]);
        if (narrow[i])
            narrow[i] = move_before_cast(g, narrow[i]);
        if (!narrow[i] || g->failed || uop_shape(g, narrow[i])->n != dims->n ||
            narrow[i]->dtype != (i ? narrow[0]->dtype : narrow[i]->dtype) ||
            n < uses * sched_numel(g, uop_shape(g, narrow[i])))
            return false;
    }
    part = part_of_row(target, narrow[0]->dtype, steps, &padded);
    if (!part)
        return false;
    for (i = 0; i < 2; i++) {
        pitch = row_pitch(g, narrow[i]);
        if (!pitch)
            return false;
        moves[i] = padded != steps || (!target->tiles_k && pitch % part);
        to[i] = body->src[i];
    }
    for (i = 0; i < 2; i++) {
        if (moves[i])
            to[i] = pad(g, body->src[i], narrow[i], padded);
    }
    return moves[0] || moves[1];
}

/* The factor, a line more from row to row where that was whole pages. One that
 * was turned is stored twice: turning at once what has gates takes longer. */
static const struct uop *
space_rows(struct uop_graph *g, const struct uop *u, double n)
{
    const struct uop *narrow = narrow_factor(g, u);
    const struct uop_dims *shape = narrow ? uop_shape(g, narrow) : NULL;
    int64_t wide;

    if (!narrow || narrow->dtype != UOP_F32 ||
        n < MIN_USES * sched_numel(g, shape) ||
        row_pitch(g, narrow) * (int64_t)sizeof(float) % PAGE_BYTES ||
        row_pitch(g, narrow) == 0)
        return u;
    wide = shape->d[shape->n - 1] + LINE_BYTES / (int64_t)sizeof(float);
    narrow = sched_pad(g, narrow, shape->n - 1, wide);
    narrow = sched_each(g, UOP_CONTIGUOUS, UOP_F32, narrow, NULL);
    narrow = sched_first(g, narrow, shape->d);
    return u->op == UOP_EXPAND ? sched_expand(g, narrow, uop_shape(g, u))
                               : narrow;
}

/* u, a REDUCE_AXIS of a MUL, with these factors; u itself if they are its
 * own. */
static const struct uop *
with_factors(struct uop_graph *g, const struct uop *u,
             const struct uop *const factors[2])
{
    const struct uop *body = u->src[0];

    if (g->failed)
        return &uop_failed;
    if (factors[0] == body->src[0] && factors[1] == body->src[1])
        return u;
    body = sched_each(g, UOP_MUL, body->dtype, factors[0], factors[1]);
    return uop_new_shaped(g, u->op, u->dtype, u->arg, &body, 1,
                          uop_shape(g, u));
}

/* The last axis of more than one element; the first, if there is none. */
static uint32_t
last_axis(const struct uop_dims *dims)
{
    uint32_t i = dims->n;

    while (i > 1 && dims->d[i - 1] == 1)
        i--;
    return i ? i - 1 : 0;
}

/* Do elements along the last axis of u lie apart in memory, or in reverse? */
static bool
is_across_windows(struct uop_graph *g, const struct uop *u)
{
    for (; uop_has(u, UOP_FLAG_MOVE); u = u->src[0]) {
        if (u->op == UOP_FLIP ||
            (u->op == UOP_PERMUTE &&
             u->arg.dims->d[last_axis(uop_shape(g, u))] !=
                 (int64_t)last_axis(uop_shape(g, u->src[0]))))
            return true;
    }
    return false;
}

/* The same for a sum whose axes are the last several, such as a convolution's:
 * a factor that the last output axis does not vary with, and whose last axis
 * lies across memory or in reverse, is first copied to the order of its
 * axes. */
static const struct uop *
turn_windows(struct uop_graph *g, const struct uop *u)
{
    const struct uop *body = u->src[0], *src[2];
    const struct uop_dims *dims = uop_shape(g, body);
    uint32_t axes = uop_reduce_axes(u), n_out = dims->n, i;
    double n = sched_numel(g, dims);

    while (n_out > 0 && axes >> (n_out - 1) & 1)
        n_out--;
    if (axes & ((1u << n_out) - 1) || n_out < 2 || body->dtype != UOP_F32 ||
        n < MIN_STEPS * sched_numel(g, uop_shape(g, u)))
        return u;
    for (i = 0; i < 2; i++) {
        const struct uop *narrow = narrow_factor(g, body->src[i]);
        src[i] = body->src[i];
        if (!narrow || narrow->dtype != UOP_F32 ||
            !is_across_windows(g, narrow) ||
            !is_turn_repeated(g, src[i], n_out - 1) ||
            n < WINDOW_USES * sched_numel(g, uop_shape(g, narrow)))
            continue;
        narrow = sched_each(g, UOP_CONTIGUOUS, UOP_F32, narrow, NULL);
        src[i] = sched_expand(g, narrow, dims);
    }
    return with_factors(g, u, src);
}

const struct uop *
sched_turn(struct uop_graph *g, const struct uop *u,
           const struct sched_target *target)
{
    const struct uop *body = u->src[0], *src[2];
    const struct uop_dims *dims = uop_shape(g, body);
    int64_t steps = dims->n ? dims->d[dims->n - 1] : 0;
    double n = sched_numel(g, dims);
    uint32_t i;

    if (body->op != UOP_MUL ||
        (body->dtype != UOP_F32 && body->dtype != UOP_I32) ||
        uop_reduce_op(u) != UOP_ADD)
        return u;
    if (uop_reduce_axes(u) != 1u << (dims->n - 1))
        return target->turns_rows ? turn_windows(g, u) : u;
    if (pad_factors(g, body, target, src))
        return with_factors(g, u, src);
    if (body->dtype != UOP_F32 || steps < MIN_STEPS || steps % STEP_WORDS ||
        !(target->turns_words || target->turns_rows))
        return u;
    for (i = 0; i < 2; i++) {
        src[i] = body->src[i];
        if (target->turns_words ||
            (dims->n > 2 && is_turn_repeated(g, src[i], dims->n - 2)))
            src[i] = turn(g, src[i], steps,
                          n / (target->turns_words ? MIN_USES : FEW_USES));
        if (target->turns_rows && !g->sizes && dims->n > 2 &&
            dims->n <= SCHED_MAX_RANK &&
            is_turn_repeated(g, src[i], dims->n - 2))
            src[i] = space_rows(g, src[i], n);
    }
    return with_factors(g, u, src);
}
