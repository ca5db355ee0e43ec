/* The rules for GPUs: products by matrix instructions.
 *
 * A work-group's tile is shared out to warps, a warp's part to the tiles of one
 * instruction. Each thread's part of such a tile is fixed (uops/wmma.h):
 * columns by `col` (NVIDIA: the lower bits of its number; AMD: the upper) and
 * `pair`, rows by `row` (the other bits) and, on NVIDIA, `half`.
 */
#include "lower/opt/opt_gpu.h"

#include "base/bits.h"
#include "base/log.h"

#define STAGE_BYTES  24576u /* of LOCAL memory for operands */
#define COPY_BYTES   30720u /* likewise, where a launch gives more of it */
#define PAD_BYTES    16     /* a row in LOCAL memory has more */
#define MAX_ACCS     128    /* of a thread, of a shape that is told */
#define PART_BYTES   16     /* that one access copies */
#define MIN_STAGES   3      /* of WGMMA's tiles, in LOCAL memory */
#define WGMMA_PIECES 4      /* instructions that take 128 bytes of steps */
#define GROUP_TILES  16     /* below each other that run at a time */
/* observed: H100, 2026-11-23: 8 rows by 4096 x 16384 take 63 us for 72; larger
 * tiles gain nothing */
#define DEEP_SIDE  32 /* of a tile: such products wait for memory */
#define DEEP_TURNS 8  /* of LOCAL memory, for several to be under way */
#define MIN_SIDE   2  /* of outputs, where the other has a tile's */
/* observed: H100, 2026-11-28: a convolution of 512 x 7 x 7, whose images
 * threads copy, 16 bytes behind a gate at a time, takes 30.7 us in tiles of 64
 * x 128 by four warps, 27.3 in tiles of 128 x 64 by eight */
#define GATHERED 0.82 /* of their speed: four warps that copy so */

/* Warps of a work-group, and tiles of one instruction of a warp. */
struct matrix_shape {
    uint32_t tall_warps, wide_warps;
    uint32_t tall, wide;
    double speed; /* relative, of many such tiles; guess where no source is */
};

/* Shapes for instructions of 16 rows. */
static const struct matrix_shape shapes16[] = {
    {2, 4, 4, 8, 1.2},  {2, 2, 4, 8, 1.1}, {2, 4, 4, 4, 1.0},
    {2, 2, 4, 4, 0.9},  {2, 2, 2, 4, 0.7}, {2, 2, 1, 4, 0.5},
    {1, 4, 1, 2, 0.4},  {4, 1, 1, 1, 0.4}, {2, 2, 1, 2, 0.35},
    {1, 2, 1, 1, 0.15},
};

/* Shapes for WGMMAs: a warp has all columns. observed: H100, 2026-11-22, where
 * the first one above makes 280 TFLOP/s; guess: the last one, whose
 * instructions read as much of LOCAL memory as it gives. */
static const struct matrix_shape shapes_wgmma[] = {
    {8, 1, 1, 32, 2.3},
    {8, 1, 1, 16, 2.0},
    {4, 1, 1, 16, 1.3},
    {8, 1, 1, 8, 1.2},
};

/* Shapes for instructions of 8 rows. */
static const struct matrix_shape shapes8[] = {
    {2, 2, 4, 4, 1.0},  {2, 2, 4, 2, 0.8},  {2, 2, 2, 2, 0.6},
    {2, 2, 1, 2, 0.35}, {2, 2, 1, 1, 0.25},
};

/* Shapes for instructions of 16 x 16. */
static const struct matrix_shape shapes16x16[] = {
    {2, 2, 4, 4, 1.0}, {2, 2, 2, 4, 0.8},  {2, 2, 2, 2, 0.6},
    {2, 2, 1, 2, 0.4}, {1, 2, 1, 1, 0.15}, {1, 1, 1, 1, 0.1},
};

struct gpu_matrix {
    struct opt_gpu *gpu;
    struct opt_gpu_product product;
    struct uop_wmma wmma;
    const struct matrix_shape *shapes, *shape;
    struct matrix_shape told;
    uint32_t n_shapes;
    int64_t pieces; /* of steps in LOCAL memory at once, each of wmma.k */
    /* columns and rows of a tile by threads, and of each thread */
    uint32_t n_cols, n_pair, n_rows, n_half;
    uint32_t col_shift, row_shift; /* where they are in a thread's number */
};

/* ---- what it is ---- */

/* dtype of the LOAD under a factor; VOID where there is something else. */
static enum uop_dtype
factor_dtype(const struct uop *u)
{
    if (u->op == UOP_CAST)
        u = u->src[0];
    return u->op == UOP_LOAD ? u->dtype : UOP_VOID;
}

/* mma.sync: of F64 the form that every chip has, of 8 rows. */
static void
choose_nv(struct gpu_matrix *m, enum uop_dtype dtype)
{
    m->wmma.m = dtype == UOP_F64 ? 8 : 16;
    m->wmma.n = 8;
    m->shapes = dtype == UOP_F64 ? shapes8 : shapes16;
    m->n_shapes = dtype == UOP_F64 ? ARRAY_LEN(shapes8) : ARRAY_LEN(shapes16);
    m->n_cols = 4;
    m->n_pair = 2;
}

/* WMMA and MFMA. */
static void
choose_amd(struct gpu_matrix *m)
{
    m->wmma.m = m->wmma.n = 16;
    m->shapes = shapes16x16;
    m->n_shapes = ARRAY_LEN(shapes16x16);
    m->n_cols = uop_wmma_threads(m->wmma) / 16;
    m->n_pair = 16 / m->n_cols;
}

/* What factors of these dtypes are multiplied as; VOID if by no matrix
 * instruction. 8-bit floats may be made halves or bfloats first, which hold all
 * of them. */
static enum uop_dtype
find_dtype(const struct lower_target *target, enum uop_dtype a,
           enum uop_dtype b)
{
    static const enum uop_dtype wider[] = {UOP_F16, UOP_BF16};
    size_t i;

    if (target->matrix_k[a] && target->matrix_k[a] == target->matrix_k[b] &&
        uop_wmma_mixes(a, b))
        return a;
    for (i = 0; i < ARRAY_LEN(wider); i++) {
        if ((a == wider[i] || uop_dtype_is_f8(a)) &&
            (b == wider[i] || uop_dtype_is_f8(b)) && target->matrix_k[wider[i]])
            return wider[i];
    }
    return UOP_VOID;
}

/* The instruction for the product; false if there is none. */
static bool
choose_instruction(struct gpu_matrix *m)
{
    const struct lower_target *target = m->gpu->k->target;
    const struct kernel_group *group = m->product.group;
    const struct uop *u = group->members[0], *body = u->src[0];
    enum uop_dtype a, b, dtype;

    if (group->n_members != 1 || !m->product.sums_products)
        return false;
    a = factor_dtype(body->src[0]);
    b = factor_dtype(body->src[1]);
    dtype = find_dtype(target, a, b);
    if (!dtype || u->dtype != uop_wmma_sum(dtype) || body->dtype != u->dtype)
        return false;
    if (!uop_wmma_mixes(dtype, a) || !uop_wmma_mixes(dtype, b)) {
        m->gpu->plan.matrix.dtype = dtype;
        m->product.operand_bytes = uop_dtype_infos[dtype].size_bytes;
    }
    m->wmma.layout = target->matrix_layout;
    m->wmma.k = target->matrix_k[dtype];
    if (m->wmma.layout == UOP_WMMA_NV)
        choose_nv(m, dtype);
    else
        choose_amd(m);
    m->n_rows = uop_wmma_threads(m->wmma) / m->n_cols;
    m->n_half = m->wmma.m / m->n_rows;
    if (m->wmma.layout == UOP_WMMA_NV)
        m->row_shift = log2_floor(m->n_cols);
    else
        m->col_shift = log2_floor(m->n_rows);
    return true;
}

/* ---- which shape ---- */

static int64_t
tile_height(const struct gpu_matrix *m, const struct matrix_shape *s)
{
    return (int64_t)(s->tall_warps * s->tall * m->wmma.m);
}

static int64_t
tile_width(const struct gpu_matrix *m, const struct matrix_shape *s)
{
    return (int64_t)(s->wide_warps * s->wide * m->wmma.n);
}

static uint32_t
sums_a_thread(const struct gpu_matrix *m, const struct matrix_shape *s)
{
    return s->tall * s->wide * m->wmma.m * m->wmma.n /
           uop_wmma_threads(m->wmma);
}

static double
matrix_shape_cost(const struct gpu_matrix *m, const struct matrix_shape *s)
{
    int64_t height = tile_height(m, s), width = tile_width(m, s);
    double tiles = opt_gpu_tiles(m->product.n_height, height) *
                   opt_gpu_tiles(m->product.n_width, width) *
                   m->product.n_batch;

    tiles = opt_gpu_tiles(tiles / m->gpu->k->target->n_units, 1);
    return tiles * (double)(height * width) / s->speed;
}

/* LOCAL memory for so many pieces of steps, in rows of steps or of outputs. */
static uint64_t
bytes_of_pieces(const struct gpu_matrix *m, const struct matrix_shape *s,
                int64_t pieces)
{
    int64_t steps = pieces * m->wmma.k, size = m->product.operand_bytes;
    int64_t sides[2] = {tile_height(m, s), tile_width(m, s)}, bytes = 0;
    int i;

    for (i = 0; i < 2; i++) {
        int64_t rows = sides[i] > steps ? sides[i] : steps;
        bytes += sides[i] * steps * size + rows * PAD_BYTES;
    }
    return (uint64_t)bytes;
}

/* A power of two that divides what no range is in; 0 divides as 0 does. */
static uint64_t
divisor_of(const struct uop *u)
{
    switch (u->op) {
    case UOP_CONST:
        return lowest_bit((uint64_t)u->arg.i);
    case UOP_MUL:
        return divisor_of(u->src[0]) * divisor_of(u->src[1]);
    case UOP_ADD:
        return least_align(divisor_of(u->src[0]), divisor_of(u->src[1]));
    default:
        return 1;
    }
}

static bool
has_var(const struct uop *u)
{
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        if (has_var(u->src[i]))
            return true;
    }
    return u->op == UOP_VAR;
}

/* Is the index a multiple of `part` where all ranges are at 0? */
static bool
begins_in_parts(const struct kernel *k, const struct uop *u, int64_t part)
{
    for (; u->op == UOP_ADD && kernel_deps(k, u); u = u->src[0]) {
        if (!begins_in_parts(k, u->src[1], part))
            return false;
    }
    return kernel_deps(k, u) ? !has_var(u)
                             : divisor_of(u) % (uint64_t)part == 0;
}

/* Does the LOAD take whole parts of `part` elements along one of the ranges,
 * behind one gate, and that range fill tiles of `tile`? */
static bool
is_in_parts(const struct kernel *k, const struct uop *load, uint64_t along,
            int64_t part, int64_t tile)
{
    const struct uop *index = load->src[1];
    bool found = false;
    uint32_t r;

    if (!begins_in_parts(k, index, part))
        return false;
    for (r = 0; r < k->n_ranges; r++) {
        int64_t coef = kernel_coef(k, index, r);
        if (coef == 1 && along >> r & 1 && k->sizes[r] % tile == 0 && !found)
            found = load->n_src < 4 || !(kernel_deps(k, load->src[3]) >> r & 1);
        else if (coef == KERNEL_NONAFFINE || coef % part)
            return false;
    }
    return found;
}

/* May WGMMA of that dtype take the operands as they lie, along the steps or, of
 * 16 bits, along the outputs? 8-bit floats may be made halves on the way, and
 * words copied one by one to where they would be along the steps. */
static bool
fits_wgmma(const struct gpu_matrix *m, enum uop_dtype dtype)
{
    const struct kernel *k = m->gpu->k;
    const struct uop *body = m->product.group->members[0]->src[0];
    uint64_t sides = m->product.height | m->product.width;
    int64_t bytes = uop_dtype_infos[dtype].size_bytes,
            part = PART_BYTES / bytes;
    int64_t steps = k->target->wgmma_k[dtype];
    int i;

    if (!steps || m->product.n_operands != 2 ||
        m->product.n_steps <= (double)(2 * WGMMA_PIECES * steps))
        return false;
    for (i = 0; i < 2; i++) {
        const struct uop *u = body->src[i];
        u = u->op == UOP_CAST ? u->src[0] : u;
        if (!(uop_wmma_mixes(dtype, u->dtype) ||
              (bytes == 2 && uop_dtype_is_f8(u->dtype))) ||
            !(is_in_parts(k, u, m->product.group->bound, part, steps) ||
              (bytes == 2 && is_in_parts(k, u, sides, part / 2, part / 2)) ||
              (bytes == 4 && is_in_parts(k, u, sides, 1, 8))))
            return false;
    }
    return true;
}

/* The dtype of which WGMMA takes the operands; VOID: of none. */
static enum uop_dtype
wgmma_dtype(const struct gpu_matrix *m)
{
    static const enum uop_dtype dtypes[] = {UOP_F8E4M3, UOP_F16, UOP_BF16,
                                            UOP_F32};
    size_t i;

    for (i = 0; i < ARRAY_LEN(dtypes); i++) {
        if (fits_wgmma(m, dtypes[i]))
            return dtypes[i];
    }
    return UOP_VOID;
}

/* Is much computed of each result? Fewer of them leave it more registers. */
static bool
has_functions(const struct gpu_matrix *m)
{
    const struct kernel *k = m->gpu->k;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        unsigned op = k->nodes[i]->op;
        if (op == UOP_EXP2 || op == UOP_LOG2 || op == UOP_SIN ||
            op == UOP_COS || op == UOP_POW)
            return true;
    }
    return false;
}

/* Does a gate stand before what is loaded, so that threads copy it
 * themselves? */
static bool
is_gathered(const struct gpu_matrix *m)
{
    const struct uop *body = m->product.group->members[0]->src[0];
    int i;

    for (i = 0; i < 2; i++) {
        const struct uop *u = body->src[i];
        u = u->op == UOP_CAST ? u->src[0] : u;
        if (u->op == UOP_LOAD && u->n_src > 2)
            return true;
    }
    return false;
}

/* The WGMMA that costs less than *least, if there is one. */
static void
choose_wgmma(struct gpu_matrix *m, double least)
{
    const struct lower_target *t = m->gpu->k->target;
    enum uop_dtype dtype = wgmma_dtype(m);
    uint32_t i;

    for (i = 0; i < ARRAY_LEN(shapes_wgmma) && dtype; i++) {
        const struct matrix_shape *s = &shapes_wgmma[i];
        int64_t bytes =
            (tile_height(m, s) + tile_width(m, s)) * UOP_WGMMA_ROW_BYTES;
        double cost = matrix_shape_cost(m, s);
        int32_t told[LOWER_ACTION_ARGS];
        if (s->tall_warps == 4 && is_gathered(m))
            cost /= GATHERED;
        if (opt_told(m->gpu->k, LOWER_WGMMA, told)) {
            if ((int32_t)s->tall_warps != told[0] ||
                (int32_t)s->wide != told[3])
                continue;
            least = cost + 1;
        }
        if (bytes * MIN_STAGES > (int64_t)t->max_stage_bytes ||
            s->tall_warps * 32 > t->max_threads || cost >= least ||
            /* every thread's place counts in the tile of its operand */
            m->product.n_height * 2 <= (double)tile_height(m, s) ||
            m->product.n_width * 2 <= (double)tile_width(m, s) ||
            (s->wide > 16 && has_functions(m)))
            continue;
        least = cost;
        m->shape = s;
        m->pieces = WGMMA_PIECES;
        m->wmma.k = t->wgmma_k[dtype];
        m->gpu->plan.matrix.wgmma = true;
        m->gpu->plan.matrix.dtype =
            uop_dtype_infos[dtype].size_bytes == 2 ? dtype : UOP_VOID;
    }
}

/* A shape that is told, of WMMAs. */
static bool
take_matrix_shape(struct gpu_matrix *m, const int32_t *n)
{
    const struct lower_target *t = m->gpu->k->target;
    struct matrix_shape *s = &m->told;
    uint32_t threads = uop_wmma_threads(m->wmma), i;

    for (i = 0; i < 5; i++) {
        if (!opt_is_pow2(n[i], 1, 8))
            return false;
    }
    *s = (struct matrix_shape){(uint32_t)n[0], (uint32_t)n[1], (uint32_t)n[2],
                               (uint32_t)n[3], 1.0};
    m->shape = s;
    m->pieces = n[4];
    return s->tall_warps * s->wide_warps * threads <= t->max_threads &&
           sums_a_thread(m, s) <= MAX_ACCS &&
           bytes_of_pieces(m, s, m->pieces) <= t->max_shared_bytes;
}

static bool
choose_matrix_shape(struct gpu_matrix *m)
{
    const struct lower_target *t = m->gpu->k->target;
    uint64_t most = t->copy_bytes && t->max_stage_bytes ? COPY_BYTES
                    : t->max_shared_bytes < STAGE_BYTES ? t->max_shared_bytes
                                                        : STAGE_BYTES;
    bool is_short =
        m->wmma.layout == UOP_WMMA_NV && (!t->copy_bytes || has_functions(m));
    int32_t told[LOWER_ACTION_ARGS];
    double least = 0, cost;
    uint32_t i;

    if (opt_told(m->gpu->k, LOWER_MATRIX, told))
        return take_matrix_shape(m, told);
    for (i = 0; i < m->n_shapes; i++) {
        const struct matrix_shape *s = &m->shapes[i];
        if (s->tall_warps * s->wide_warps * uop_wmma_threads(m->wmma) >
                t->max_threads ||
            bytes_of_pieces(m, s, 1) > most ||
            (is_short && sums_a_thread(m, s) > MAX_ACCS / 2))
            continue;
        cost = matrix_shape_cost(m, s);
        if (m->shape && cost >= least)
            continue;
        m->shape = s;
        least = cost;
    }
    if (!m->shape)
        return false;
    m->pieces = 1;
    while (m->pieces < 4 &&
           (double)(m->pieces * m->wmma.k) < m->product.n_steps &&
           bytes_of_pieces(m, m->shape, m->pieces * 2) <= most)
        m->pieces *= 2;
    if (!opt_is_told(m->gpu->k) || opt_told(m->gpu->k, LOWER_WGMMA, NULL))
        choose_wgmma(m, least);
    return m->gpu->plan.matrix.wgmma || !opt_told(m->gpu->k, LOWER_WGMMA, NULL);
}

/* ---- the plan ---- */

/* Splits n off the inside of *axis: a leaf of that type. */
static bool
cut(struct opt_plan *plan, uint32_t *axis, int64_t n, enum uop_axis type,
    uint32_t *out_piece)
{
    return n == 1 ||
           opt_split(plan, *axis, n, type, OPT_INNER, out_piece, axis);
}

static bool
cut_matrix_threads(struct opt_plan *plan, uint32_t *axis, int64_t n,
                   uint32_t shift, uint32_t *out_piece)
{
    uint32_t piece = 0;

    if (n == 1)
        return true;
    if (!cut(plan, axis, n, plan->axes[*axis].type, &piece) ||
        !opt_thread(plan, piece, shift))
        return false;
    if (out_piece)
        *out_piece = piece;
    return true;
}

static bool
plan_width(struct gpu_matrix *m)
{
    struct opt_plan *plan = &m->gpu->plan;
    uint64_t set = m->product.width;
    uint32_t fast = opt_gpu_fast_range(plan->k, set, 0, NULL), run, flat;
    uint32_t shift = log2_floor(uop_wmma_threads(m->wmma));
    /* LLVM 19 crashes on branches by lanes of a vector of conditions, which
     * columns beyond the last would be. observed: LLVM 19, gfx90a to gfx1201 */
    bool whole =
        m->wmma.layout == UOP_WMMA_NV || plan->k->sizes[fast] % m->wmma.n == 0;
    enum uop_axis type = whole ? UOP_AXIS_VECTOR : UOP_AXIS_UPCAST;

    return opt_gpu_fold_pieces(plan, set, fast, m->wmma.n, UOP_AXIS_LOOP, &run,
                               &flat) &&
           cut(plan, &run, m->n_pair, type, &plan->matrix.pair) &&
           opt_thread(plan, plan->matrix.col = run, m->col_shift) &&
           cut(plan, &flat, m->shape->wide, UOP_AXIS_UPCAST, NULL) &&
           cut_matrix_threads(plan, &flat, m->shape->wide_warps, shift, NULL) &&
           opt_gpu_grid(plan, flat);
}

/* Tiles that are below each other and next to each other run at a time, so
 * that what they read is in the caches still. */
static bool
plan_grid(struct opt_plan *plan, uint32_t flat)
{
    int64_t n = GROUP_TILES;
    uint32_t below;

    while (plan->axes[flat].size % n)
        n--;
    if (n > 1) {
        if (!opt_split(plan, flat, n, UOP_AXIS_GLOBAL, OPT_INNER, &below,
                       &flat))
            return false;
        plan->axes[below].rank = KERNEL_MAX_RANGES; /* counts fastest */
    }
    return opt_gpu_grid(plan, flat);
}

static bool
plan_height(struct gpu_matrix *m)
{
    struct opt_plan *plan = &m->gpu->plan;
    uint64_t set = m->product.height;
    uint32_t fast = opt_gpu_fast_range(plan->k, set, 0, NULL), flat;
    uint32_t shift =
        log2_floor(uop_wmma_threads(m->wmma) * m->shape->wide_warps);

    return opt_gpu_fold_pieces(plan, set, fast, m->n_rows, UOP_AXIS_LOOP,
                               &plan->matrix.row, &flat) &&
           opt_thread(plan, plan->matrix.row, m->row_shift) &&
           cut(plan, &flat, m->n_half, UOP_AXIS_UPCAST, &plan->matrix.half) &&
           cut(plan, &flat, m->shape->tall, UOP_AXIS_UPCAST, NULL) &&
           cut_matrix_threads(plan, &flat, m->shape->tall_warps, shift, NULL) &&
           (plan->matrix.wgmma ? plan_grid(plan, flat)
                               : opt_gpu_grid(plan, flat));
}

static bool
plan_matrix_steps(struct gpu_matrix *m)
{
    struct opt_plan *plan = &m->gpu->plan;
    uint64_t bound = m->product.group->bound;
    uint32_t fast = opt_gpu_fast_range(plan->k, bound, bound, NULL), flat,
             piece = 0;

    if (!opt_gpu_fold_pieces(plan, bound, fast, m->wmma.k, UOP_AXIS_UNROLL,
                             &plan->matrix.step, &flat))
        return false;
    plan->axes[plan->matrix.step].staged = true;
    if (m->pieces == 1)
        return true;
    if (!cut(plan, &flat, m->pieces, UOP_AXIS_UNROLL, &piece))
        return false;
    plan->axes[piece].staged = true;
    return true;
}

bool
opt_gpu_matrix(struct opt_gpu *gpu)
{
    struct gpu_matrix m = {.gpu = gpu};
    struct opt_plan *plan = &gpu->plan;
    uint32_t fast, flat;

    if (!(opt_may_try(gpu->k, LOWER_MATRIX, OPT_FORM_MATRIX) ||
          opt_may_try(gpu->k, LOWER_WGMMA, OPT_FORM_MATRIX)) ||
        !opt_gpu_product(gpu, MIN_SIDE, &m.product) ||
        !choose_instruction(&m) || !choose_matrix_shape(&m))
        return false;
    LOG(LOG_OPT,
        "matrix tiles of %lld x %lld of %.0f x %.0f, %lld of %.0f steps",
        (long long)tile_height(&m, m.shape), (long long)tile_width(&m, m.shape),
        m.product.n_height, m.product.n_width, (long long)(m.pieces * m.wmma.k),
        m.product.n_steps);
    opt_made(gpu->k, plan->matrix.wgmma ? LOWER_WGMMA : LOWER_MATRIX,
             m.shape->tall_warps, m.shape->wide_warps, m.shape->tall,
             m.shape->wide, m.pieces);
    plan->zeros = true;
    plan->matrix.on = true;
    plan->matrix.deep =
        (tile_height(&m, m.shape) <= DEEP_SIDE ||
         tile_width(&m, m.shape) <= DEEP_SIDE) &&
        m.product.n_steps >= (double)(DEEP_TURNS * m.pieces * m.wmma.k);
    plan->matrix.shape = m.wmma;
    if (!plan_width(&m) || !plan_height(&m) || !plan_matrix_steps(&m))
        return false;
    if (!m.product.batch)
        return true;
    fast = opt_gpu_fast_range(gpu->k, m.product.batch, 0, NULL);
    return opt_gpu_fold(plan, m.product.batch, fast, 1, &flat) &&
           opt_gpu_grid(plan, flat);
}
