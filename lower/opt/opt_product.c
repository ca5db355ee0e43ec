/* Products on a CPU.
 *
 * The column operand is that whose neighbours go into the lanes of a vector.
 * A register tile is some rows by some vectors of columns. In a large matrix
 * its loads would lie a row of the matrix apart, each in a page of its own and
 * many in the same few sets of the first cache: a work-group packs the panels
 * that it needs first, each as wide as a tile and as deep as the sum, then
 * goes through all rows with them.
 */
#include "lower/opt/opt_rules.h"

#include <assert.h>

#include "base/log.h"
#include "lower/opt/opt_told.h"

#define MIN_FLOPS       1e6
#define MIN_DEPTH       16 /* steps of the sum */
#define MIN_REUSE       4 /* tiles that read a panel; one of TILE_MATMUL will do */
#define MAX_UNROLL      4    /* steps */
#define GROUPS_A_THREAD 4    /* work-groups: few, as each packs */
#define TILE            32   /* rows and columns that TILE_MATMUL makes */
#define LOAD_COST       0.5  /* of columns, over the work of a row */
#define WORTH_IT        0.97 /* of the values, for tiles of many vectors */
#define MAX_VECTORS     6    /* of a tile's width */
#define MIN_ROWS        4    /* of such a tile */
/* Vectors of so many bytes may be halved, which takes no longer for an element
 * where they are processed in two passes. guess: true of Zen 4 alone. Halves of
 * 32 bytes take twice as long. observed: Zen 3, 2026-11-29 */
#define HALVED_BYTES 64
#define MAX_OVERLAP  104 /* percent computed of what is wanted */
#define ROW_TILES    8   /* of rows, packed together */
/* Panels of sums whose length is known when the kernel runs have room for the
 * longest, in so many times max_packed_bytes. As much is used as the sum is
 * long: the caches count for less. */
#define OPEN_COLUMNS 2.0
#define OPEN_ROWS    0.5
#define ROW_SUM      1.0 /* of a row alone, over a vector's work. guess */
/* Cycles to pack an element that lies anywhere, and in short rows. observed:
 * Zen 4: 0.7; 1.1 to 1.7 */
#define GATHERED       0.5
#define GATHERED_APART 1.5

/* What the kernel multiplies. */
struct operands {
    const struct uop *columns, *rows;
    uint64_t column_deps, row_deps; /* output ranges they vary with */
};

/* The output range along which the kernel stores neighbours, or -1. */
static int
stored_range(const struct kernel *k)
{
    uint64_t set;

    for (set = kernel_deps(k, k->sink->src[0]) & ~k->reduce_ranges; set;
         set &= set - 1) {
        int r = __builtin_ctzll(set);
        if (kernel_coef(k, k->sink->src[0]->src[1], (uint32_t)r) == 1)
            return r;
    }
    return -1;
}

static bool
find_product_operands(const struct kernel *k, uint32_t column,
                      struct operands *out)
{
    const struct kernel_group *group = &k->groups[0];
    const struct uop *reduce, *mul;
    uint64_t outputs = group->context & ~k->reduce_ranges;
    uint32_t i;

    assert(column < k->n_ranges);
    if (k->n_groups != 1 || group->n_members != 1)
        return false;
    reduce = group->members[0];
    mul = reduce->src[0];
    if (reduce->arg.i != UOP_ADD || mul->op != UOP_MUL ||
        uop_dtype_infos[mul->dtype].size_bytes < 4)
        return false;
    for (i = 0; i < 2; i++) {
        uint64_t deps = kernel_deps(k, mul->src[i]);
        uint64_t others = kernel_deps(k, mul->src[1 - i]);
        if ((deps & group->bound) != group->bound || !(deps >> column & 1) ||
            others >> column & 1)
            continue;
        out->columns = mul->src[i];
        out->rows = mul->src[1 - i];
        out->column_deps = deps & outputs;
        out->row_deps = others & outputs;
        return (others & group->bound) == group->bound;
    }
    return false;
}

int
opt_largest_range(const struct kernel *k, uint64_t set)
{
    int best = -1;

    for (; set; set &= set - 1) {
        int r = __builtin_ctzll(set);
        if (best < 0 || k->sizes[r] > k->sizes[best])
            best = r;
    }
    return best;
}

/* Bytes of a panel of `columns`. */
static double
panel_bytes(const struct kernel *k, int64_t columns)
{
    const struct uop *sum = k->groups[0].members[0];

    return kernel_count(k, k->groups[0].bound) * (double)columns *
           uop_dtype_infos[sum->dtype].size_bytes;
}

/* Do a panel of columns and one of rows fit? */
static bool
panels_fit(const struct kernel *k, int64_t columns, int64_t rows)
{
    double most = k->target->max_packed_bytes;

    if (kernel_sum_is_open(k))
        return panel_bytes(k, columns) <= OPEN_COLUMNS * most &&
               panel_bytes(k, rows) <= OPEN_ROWS * most;
    return panel_bytes(k, columns + rows) <= most;
}

/* Do the rows' loads step by one along the sum's innermost range? */
static bool
goes_along(const struct kernel *k, const struct operands *p, uint32_t inner)
{
    const struct uop *u = p->rows;

    assert(inner < k->n_ranges);
    while (u->op == UOP_CAST)
        u = u->src[0];
    return u->op == UOP_LOAD && kernel_coef(k, u->src[1], inner) == 1;
}

/* Is the operand a matrix of what tile registers multiply, as it lies in
 * memory? */
static bool
is_tile_operand(const struct kernel *k, const struct uop *u,
                enum uop_dtype dtype, uint32_t inner)
{
    assert(inner < k->n_ranges);
    return u->op == UOP_CAST && u->src[0]->op == UOP_LOAD &&
           u->src[0]->n_src == 2 && u->src[0]->dtype == dtype &&
           kernel_coef(k, u->src[0]->src[1], inner) != KERNEL_NONAFFINE;
}

/* May TILE_MATMUL do it? Rows lie along the sum, which is whole steps. */
static bool
fits_tiles(const struct kernel *k, const struct operands *p, uint32_t row,
           uint32_t column, uint32_t inner)
{
    enum uop_dtype dtype = p->rows->n_src ? p->rows->src[0]->dtype : UOP_VOID;
    uint32_t steps = k->target->tiles_k[dtype];

    return steps && !kernel_is_open(k) && k->sizes[inner] % steps == 0 &&
           k->groups[0].bound == (uint64_t)1 << inner &&
           p->columns->dtype == (dtype == UOP_BF16 ? UOP_F32 : UOP_I32) &&
           k->groups[0].members[0]->dtype == p->columns->dtype &&
           k->sizes[row] >= TILE && k->sizes[column] >= TILE &&
           is_tile_operand(k, p->rows, dtype, inner) &&
           is_tile_operand(k, p->columns, dtype, inner) &&
           goes_along(k, p, inner) &&
           kernel_coef(k, p->rows->src[0]->src[1], row) > 0;
}

/* A tile of registers, in vectors of so many lanes. */
struct product_tile {
    int64_t rows, vectors, lanes;
};

/* Values computed over values wanted, of n in tiles. */
static double
waste(int64_t n, int64_t tile)
{
    return (double)((n + tile - 1) / tile * tile) / (double)n;
}

static double
row_cost(int64_t n, int64_t rows)
{
    return waste(n, rows) + LOAD_COST / (double)rows;
}

/* Rows of a tile of registers: many share the loads of columns, and few are to
 * be computed twice. */
static int64_t
tile_rows(int64_t n, int64_t most)
{
    int64_t rows, best = most;

    for (rows = most; rows > most / 2; rows--) {
        if (row_cost(n, rows) < row_cost(n, best))
            best = rows;
    }
    return best;
}

/* The most rows of so many vectors: registers are left for a step's columns and
 * a row. With one sum more LLVM keeps some on the stack. observed: LLVM 19 */
static int64_t
most_rows(const struct lower_target *target, int64_t vectors)
{
    int64_t most = target->n_vector_regs < 32 ? 6 : 12;

    if (vectors > 2)
        most = (target->n_vector_regs < 32 ? 12 : 25) / vectors;
    return most;
}

/* Tiles are two vectors wide, if others don't compute much less: of more
 * vectors, and, where halves are as fast, of an odd number of those. */
static struct product_tile
choose_tile(const struct kernel *k, int64_t n_rows, int64_t n, int64_t lanes)
{
    struct product_tile tile = {.vectors = n >= 2 * lanes ? 2 : 1,
                                .lanes = lanes};
    int64_t halves, wide, rows;
    double values, least;

    tile.rows = tile_rows(n_rows, most_rows(k->target, tile.vectors));
    least =
        WORTH_IT * waste(n_rows, tile.rows) * waste(n, tile.vectors * lanes);
    for (halves = 3; halves <= 2 * MAX_VECTORS; halves++) {
        bool odd = halves % 2;
        rows = most_rows(k->target, (halves + 1) / 2);
        wide = halves * lanes / 2;
        if (rows < MIN_ROWS || n < wide || !panels_fit(k, wide, 0))
            break;
        if (odd && k->target->vector_bytes < HALVED_BYTES)
            continue;
        rows = tile_rows(n_rows, rows);
        values = waste(n_rows, rows) * waste(n, wide);
        if (values >= least)
            continue;
        least = values;
        tile.rows = rows;
        tile.vectors = odd ? halves : halves / 2;
        tile.lanes = odd ? lanes / 2 : lanes;
    }
    return tile;
}

/* Values computed over values wanted, of n columns. */
static double
column_waste(int64_t n, int64_t lanes)
{
    return waste(n, n >= 2 * lanes ? 2 * lanes : lanes);
}

/* Is a product of n columns by range `row`, of at least so many tiles of rows,
 * large enough, and does what is packed fit? */
static bool
is_large(const struct kernel *k, const struct operands *p, int64_t n,
         uint32_t row, bool packs_rows, int64_t tiles, int64_t rows)
{
    int64_t lanes =
        k->target->vector_bytes / uop_dtype_infos[p->columns->dtype].size_bytes;
    int64_t wide = n >= 2 * lanes ? 2 * lanes : lanes;
    double depth = kernel_count(k, k->groups[0].bound);
    uint64_t all = k->groups[0].bound | p->column_deps | p->row_deps;

    return n >= lanes && lanes >= 2 && k->sizes[row] >= tiles * rows &&
           depth >= MIN_DEPTH && kernel_count(k, all) >= MIN_FLOPS &&
           panels_fit(k, wide, packs_rows ? rows : 0);
}

/* The product of the sizes of some ranges; 0: there is none, or too large a
 * one. */
static int64_t
count_columns(const struct kernel *k, uint64_t set)
{
    int64_t n = 1;

    for (; set; set &= set - 1) {
        int64_t size = k->sizes[__builtin_ctzll(set)];
        if (size < 0 || __builtin_mul_overflow(n, size, &n))
            return 0;
    }
    return n;
}

/* Cycles of a column and a step of the sum, packed for `cycles` and multiplied
 * by all rows but for a part `outside` of a window, where a row's values are
 * added up for all columns of a tile. */
static double
column_cycles(const struct kernel *k, int64_t n_rows, int64_t n, int64_t lanes,
              double cycles, double outside)
{
    struct product_tile tile = choose_tile(k, n_rows, n, lanes);
    int64_t wide = tile.vectors * tile.lanes;
    double work = (double)n_rows / (double)lanes * waste(n_rows, tile.rows) *
                  waste(n, wide);

    return (cycles + work) * (1 - outside) +
           work * outside * ROW_SUM * (double)lanes / (double)wide;
}

/* Without the range that has a window, where the other columns then take less:
 * they leave out what lies outside. */
static uint64_t
columns_in_window(const struct kernel *k, const struct operands *p,
                  uint32_t column, uint32_t row, int64_t lanes,
                  uint64_t columns)
{
    struct kernel_window w;
    uint64_t rest = columns & ~((uint64_t)1 << column);
    int64_t n = count_columns(k, columns), rows = k->sizes[row];
    double cycles;

    if (!kernel_find_window(k, p->columns, rest, &w))
        return columns;
    cycles = column_cycles(k, rows, n, lanes, GATHERED, 0);
    rest = columns & ~((uint64_t)1 << w.at);
    n = count_columns(k, rest);
    if (n < lanes || column_cycles(k, rows, n, lanes, GATHERED_APART,
                                   w.outside) > WORTH_IT * cycles)
        return columns;
    return rest;
}

/* Where columns are counted by several ranges, the innermost of which leaves
 * vectors empty, and there are so many rows that columns may be packed one by
 * one: all those ranges, but one that has a window. Else 0. */
static uint64_t
columns_to_fold(struct kernel *k, bool overlap)
{
    const struct lower_target *target = k->target;
    struct operands p = {.columns = NULL};
    int column = stored_range(k), row;
    int64_t lanes, n;
    double work;
    uint64_t columns, set;

    if (!target->max_packed_bytes || !overlap || k->n_groups != 1 ||
        column < 0 || !find_product_operands(k, (uint32_t)column, &p) ||
        (row = opt_largest_range(k, p.row_deps & ~p.column_deps)) < 0)
        return 0;
    columns = p.column_deps & ~p.row_deps;
    for (set = columns; set; set &= set - 1) {
        if (kernel_open(k, (uint32_t)__builtin_ctzll(set)))
            return 0;
    }
    n = count_columns(k, columns);
    if (!is_large(k, &p, n, (uint32_t)row, true, MIN_REUSE,
                  tile_rows(k->sizes[row], most_rows(target, 2))))
        return 0;
    lanes = target->vector_bytes / uop_dtype_infos[p.columns->dtype].size_bytes;
    work = (double)k->sizes[row] / (double)lanes; /* of a column, a step */
    if (k->sizes[column] >= lanes &&
        work * column_waste(k->sizes[column], lanes) <=
            work * column_waste(n, lanes) + GATHERED)
        return 0;
    columns = columns_in_window(k, &p, (uint32_t)column, (uint32_t)row, lanes,
                                columns);
    return columns & (columns - 1) ? columns : 0;
}

static bell_status
fold(struct kernel *k, struct opt_choice *choice, uint32_t a, uint32_t b)
{
    LOG(LOG_OPT, "ranges %u and %u (%lld, %lld) become one", a, b,
        (long long)k->sizes[a], (long long)k->sizes[b]);
    BELL_TRY(kernel_fold(k, a, b));
    choice->folds[choice->n_folds].a = a;
    choice->folds[choice->n_folds++].b = b;
    choice->folded = (int32_t)(b > a ? b - 1 : b);
    return BELL_OK;
}

static bell_status
fold_as_told(struct kernel *k, struct opt_choice *choice)
{
    uint32_t i;

    for (i = 0; i < k->told->n_actions; i++) {
        int32_t a = k->told->actions[i].n[0], b = k->told->actions[i].n[1];
        int64_t size, n = k->n_ranges;
        if (k->told->actions[i].kind != LOWER_FOLD)
            continue;
        if (a < 0 || b < 0 || a >= n || b >= n || a == b ||
            choice->n_folds == OPT_MAX_FOLDS || k->sizes[a] < 0 ||
            k->sizes[b] < 0 ||
            (k->reduce_ranges >> a | k->reduce_ranges >> b) & 1 ||
            __builtin_mul_overflow(k->sizes[a], k->sizes[b], &size))
            return bell_fail(BELL_E_INVALID, "ranges %d and %d: not one", a, b);
        BELL_TRY(fold(k, choice, (uint32_t)a, (uint32_t)b));
    }
    return BELL_OK;
}

bell_status
opt_choose_folds(struct kernel *k, struct opt_choice *choice)
{
    uint64_t set = 0;

    choice->n_folds = 0;
    choice->folded = -1;
    if (opt_is_told(k))
        return fold_as_told(k, choice);
    if (!opt_is_without(k, OPT_FORM_PRODUCT))
        set = columns_to_fold(k, choice->overlap);
    if (__builtin_popcountll(set) > OPT_MAX_FOLDS + 1)
        return BELL_OK;
    while (set & (set - 1)) { /* the two outermost; numbers fall by one */
        uint64_t rest = set & (set - 1);
        BELL_TRY(fold(k, choice, (uint32_t)__builtin_ctzll(set),
                      (uint32_t)__builtin_ctzll(rest)));
        set = rest >> 1;
    }
    return BELL_OK;
}

void
opt_choose_product(const struct opt_model *m, struct opt_choice *choice)
{
    const struct kernel *k = m->k;
    const struct lower_target *target = k->target;
    struct operands p = {.columns = NULL};
    int column = choice->folded < 0 ? stored_range(k) : choice->folded, row;
    struct product_tile tile = {.rows = TILE, .vectors = 2};
    int64_t n;
    uint32_t inner;
    bool packs_rows, tiled;

    if (!target->max_packed_bytes || !choice->overlap || k->n_groups != 1 ||
        column < 0 || !find_product_operands(k, (uint32_t)column, &p) ||
        (row = opt_largest_range(k, p.row_deps & ~p.column_deps)) < 0)
        return;
    inner = 63u - (uint32_t)__builtin_clzll(k->groups[0].bound);
    tile.lanes =
        target->vector_bytes / uop_dtype_infos[p.columns->dtype].size_bytes;
    n = k->sizes[column];
    tiled = fits_tiles(k, &p, (uint32_t)row, (uint32_t)column, inner);
    packs_rows =
        !tiled && (p.rows->op != UOP_LOAD || !goes_along(k, &p, inner));
    if (!tiled)
        tile = choose_tile(k, k->sizes[row], n, tile.lanes);
    if (!is_large(k, &p, n, (uint32_t)row, packs_rows, tiled ? 1 : MIN_REUSE,
                  tile.rows))
        return;
    choice->product = (struct opt_product){true, packs_rows, tiled,
                                           (uint32_t)column, (uint32_t)row};
    choice->lanes[column] = tile.lanes;
    choice->copies[column] = tile.vectors;
    choice->copies[row] = tile.rows;
    for (n = tiled || kernel_sum_is_open(m->k) ? 1 : MAX_UNROLL;
         k->sizes[inner] % n; n--)
        ;
    choice->unroll[inner] = n;
    LOG(LOG_OPT, "product: %lld x %lld by range %u x %u, packed%s",
        (long long)tile.rows, (long long)(tile.vectors * tile.lanes),
        (unsigned)row, (unsigned)column,
        tiled        ? ", in tiles"
        : packs_rows ? ", rows too"
                     : "");
}

bool
opt_product_fits(const struct kernel *k, const struct opt_choice *choice,
                 int64_t most)
{
    const struct opt_product *p = &choice->product;
    int64_t rows = choice->copies[p->row];
    int64_t wide = choice->copies[p->column] * choice->lanes[p->column];
    int64_t lanes = k->target->vector_bytes /
                    uop_dtype_infos[k->groups[0].members[0]->dtype].size_bytes;

    return rows <= k->sizes[p->row] && wide <= k->sizes[p->column] &&
           (p->tiled ? rows == TILE && wide == TILE
                     : rows * ((wide + lanes - 1) / lanes) <= most) &&
           panels_fit(k, wide, p->packs_rows ? rows : 0);
}

/* The greatest number up to `most`, at least 1, that divides n or nearly so:
 * the last part overlaps another then. */
static int64_t
part_of(int64_t n, int64_t most)
{
    int64_t d = most < n ? most : n;

    assert(n > 0);
    for (; d > 1 && (n + d - 1) / d * d * 100 > n * MAX_OVERLAP; d--)
        ;
    return d > 1 ? d : 1;
}

static bool
is_loop(const struct opt_plan *plan, uint32_t axis)
{
    assert(axis < plan->n_axes);
    return opt_is_leaf(plan, axis) && plan->axes[axis].type == UOP_AXIS_LOOP;
}

/* Splits off so many tiles of rows that neighbours in memory, which go into
 * different tiles, are packed together. */
static void
split_rows(struct opt_plan *plan, const struct opt_choice *choice,
           uint32_t *row, uint32_t *out_tiles)
{
    const struct opt_product *p = &choice->product;
    double bytes = panel_bytes(plan->k, choice->copies[p->row]);
    double room = kernel_sum_is_open(plan->k)
                      ? OPEN_ROWS * plan->k->target->max_packed_bytes
                      : plan->k->target->l2_bytes / 4;
    int64_t most = (int64_t)(room / bytes), n;

    int32_t told[LOWER_ACTION_ARGS];
    double most_bytes = plan->k->target->max_packed_bytes / 2.0;

    if (!p->packs_rows || !is_loop(plan, *row))
        return;
    n = part_of(plan->axes[*row].size, most < ROW_TILES ? most : ROW_TILES);
    if (opt_told(plan->k, LOWER_HEIGHT, told))
        n = told[0] <= plan->axes[*row].size && told[0] * bytes <= most_bytes
                ? told[0]
                : n;
    opt_made(plan->k, LOWER_HEIGHT, n, 0, 0, 0, 0);
    if (n > 1 &&
        opt_split(plan, *row, n, UOP_AXIS_LOOP, OPT_INNER, out_tiles, row))
        plan->axes[*out_tiles].rank = -2;
}

/* Marks what the arrays count. */
static void
mark_packed(struct opt_plan *plan, const struct opt_product *p,
            uint32_t panels_axis, uint32_t tiles_axis)
{
    const struct kernel *k = plan->k;
    uint32_t i;

    for (i = 0; i < plan->n_axes; i++) {
        struct opt_axis *a = &plan->axes[i];
        a->packed = opt_is_leaf(plan, i) &&
                    (i == panels_axis || i == tiles_axis ||
                     a->type == UOP_AXIS_UPCAST || a->type == UOP_AXIS_VECTOR ||
                     k->reduce_ranges >> a->range & 1);
    }
    plan->k->packs_rows = p->packs_rows;
    plan->k->tiled = p->tiled;
}

/* The fewest parts, from `parts` to twice as many, with which all threads have
 * about the same to do; `parts` if none do. Each part packs columns again. */
static int64_t
even_parts(int64_t n_groups, int64_t parts, int64_t most, int64_t n_threads)
{
    int64_t n;

    assert(n_groups > 0 && n_threads > 0);
    for (n = parts; n <= 2 * parts && n <= most; n++) {
        int64_t rounds = (n_groups * n + n_threads - 1) / n_threads;
        if (rounds * n_threads * 100 <= n_groups * n * MAX_OVERLAP)
            return n;
    }
    return parts;
}

void
opt_choose_panels(struct opt_plan *plan, const struct opt_choice *choice,
                  const uint32_t *loops)
{
    const struct kernel *k = plan->k;
    const struct opt_product *p = &choice->product;
    uint32_t column = loops[p->column], row = loops[p->row], r,
             panels = UINT32_MAX, tiles = UINT32_MAX;
    int64_t want = k->target->n_threads > 1
                       ? (int64_t)k->target->n_threads * GROUPS_A_THREAD
                       : 1;
    int64_t n_tiles = is_loop(plan, column) ? plan->axes[column].size : 1, most,
            n = 1, n_groups = 1, parts = 1;
    int32_t told[LOWER_ACTION_ARGS];
    double bytes =
        panel_bytes(k, choice->lanes[p->column] * choice->copies[p->column]);
    uint64_t others = k->groups[0].context & ~k->reduce_ranges;

    others &= ~((uint64_t)1 << p->row | (uint64_t)1 << p->column);
    for (r = 0; r < k->n_ranges; r++) {
        if (others >> r & 1 && is_loop(plan, loops[r]) &&
            plan->axes[loops[r]].size > 0)
            n_groups *= plan->axes[loops[r]].size;
    }
    most = (int64_t)((kernel_sum_is_open(k)
                          ? OPEN_COLUMNS * k->target->max_packed_bytes
                          : k->target->l2_bytes / 2) /
                     bytes);
    if (n_groups * n_tiles < want * most)
        most = n_groups * n_tiles / want;
    if (n_tiles > 1)
        n = part_of(n_tiles, most);
    if (opt_told(k, LOWER_PANELS, told) && told[0] >= 1 && told[0] <= n_tiles &&
        told[0] * bytes <= k->target->max_packed_bytes / 2.0)
        n = told[0];
    opt_made(k, LOWER_PANELS, n, 0, 0, 0, 0);
    for (r = 0; r < k->n_ranges; r++) {
        if (others >> r & 1)
            plan->axes[loops[r]].rank = (int32_t)r - 3 * KERNEL_MAX_RANGES;
        if (others >> r & 1 && want > 1)
            (void)opt_retype(plan, loops[r], UOP_AXIS_GLOBAL);
    }
    plan->axes[column].rank = -2 * KERNEL_MAX_RANGES;
    plan->axes[row].rank = -3;
    if (n > 1 &&
        opt_split(plan, column, n, UOP_AXIS_LOOP, OPT_INNER, &panels, &column))
        plan->axes[panels].rank = -1;
    n_groups *= (n_tiles + n - 1) / n;
    if (want > 1 && is_loop(plan, column))
        (void)opt_retype(plan, column, UOP_AXIS_GLOBAL);
    if (n_groups < want && is_loop(plan, row)) {
        parts = (want + n_groups - 1) / n_groups;
        if (parts * MIN_REUSE > plan->axes[row].size)
            parts = plan->axes[row].size / MIN_REUSE;
        parts = parts > 1 ? parts : 1;
    }
    if (want > 1 && is_loop(plan, row))
        parts = even_parts(n_groups, parts, plan->axes[row].size / MIN_REUSE,
                           k->target->n_threads);
    if (opt_told(k, LOWER_PARTS, told) && want > 1 && is_loop(plan, row) &&
        told[0] >= 1 && told[0] <= plan->axes[row].size)
        parts = told[0];
    opt_made(k, LOWER_PARTS, parts, 0, 0, 0, 0);
    if (parts > 1 && opt_split(plan, row, parts, UOP_AXIS_GLOBAL,
                               opt_side_of_groups(plan, row), &r, &row))
        plan->axes[r].rank = -KERNEL_MAX_RANGES;
    split_rows(plan, choice, &row, &tiles);
    mark_packed(plan, p, panels, tiles);
    LOG(LOG_OPT, "%lld panels of %.0f bytes in a work-group", (long long)n,
        bytes);
}
