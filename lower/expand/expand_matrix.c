/* Products by matrix instructions.
 *
 * The operands of a tile are in LOCAL memory (expand_stage.c). Each thread
 * collects the parts of A and B that its warp's instruction wants of it; the
 * result's parts are what it has of the output: rows by `half` and columns by
 * `pair` (struct kernel_matrix).
 */
#include "lower/expand/expand_internal.h"

#include <assert.h>
#include <string.h>

static const union uop_arg no_arg = {.bits = 0};

#define MAX_PARTS 16 /* elements of an operand that a thread has */
#define MAX_BYTES 16 /* that one access takes */

/* The group being made. */
struct matrix {
    struct expand *e;
    const struct kernel_group *group;
    const struct uop *node; /* the REDUCE */
    struct uop_wmma shape;
    enum uop_dtype dtype;                /* of A; B's is as wide */
    uint32_t half, row, col, pair, step; /* ranges; UINT32_MAX: none */
    uint32_t n_half, n_pair;             /* their sizes; 1 where none */
    const struct expand_inst *a, *b;     /* staged LOADs */
    uint32_t piece; /* range of parts that are read at once; or UINT32_MAX */
    const struct uop **parts[2]; /* made ones of A and B, by copy */
    uint64_t tiles;              /* copied output ranges but half and pair */
    uint64_t pieces;             /* copied reduction ranges but step */
    const struct uop *loops[KERNEL_MAX_RANGES];
    uint32_t n_loops;
};

/* The range of this id. */
static uint32_t
find_range(const struct kernel *k, uint32_t id)
{
    uint32_t r;

    for (r = 0; r < k->n_ranges; r++) {
        if (uop_range_id(k->ranges[r]) == id)
            return r;
    }
    return UINT32_MAX;
}

/* Finds the ranges; false where one is missing. */
static bool
find_matrix_ranges(struct matrix *m)
{
    const struct kernel *k = m->e->k;
    const struct kernel_matrix *from = &k->matrix;

    assert(k->matrix.on);
    m->row = find_range(k, from->row);
    m->col = find_range(k, from->col);
    m->step = find_range(k, from->step);
    m->half = m->pair = UINT32_MAX;
    m->n_half = m->n_pair = 1;
    if (m->row == UINT32_MAX || m->col == UINT32_MAX || m->step == UINT32_MAX)
        return false;
    if (k->sizes[m->row] < m->shape.m) {
        m->half = find_range(k, from->half);
        m->n_half = m->shape.m / (uint32_t)k->sizes[m->row];
    }
    if (k->sizes[m->col] < m->shape.n) {
        m->pair = find_range(k, from->pair);
        m->n_pair = m->shape.n / (uint32_t)k->sizes[m->col];
    }
    return (m->n_half == 1 || m->half != UINT32_MAX) &&
           (m->n_pair == 1 || m->pair != UINT32_MAX);
}

/* The instance of the staged LOAD under a factor; NULL if there is none. */
static const struct expand_inst *
operand_of(const struct expand *e, const struct uop *u)
{
    const struct expand_inst *inst;

    if (u->op == UOP_CAST)
        u = u->src[0];
    inst = &e->inst[kernel_pos(e->k, u)];
    return inst->stage ? inst : NULL;
}

static bell_status
begin_matrix(struct expand *e, const struct kernel_group *group,
             struct matrix *m)
{
    const struct kernel *k = e->k;
    const struct uop *body = group->members[0]->src[0];
    uint64_t set;

    assert(group->n_members == 1);
    memset(m, 0, sizeof(*m));
    m->e = e;
    m->group = group;
    m->node = group->members[0];
    m->shape = k->matrix.shape;
    if (group->n_members != 1 || body->op != UOP_MUL || !find_matrix_ranges(m))
        return bell_fail(BELL_E_INTERNAL, "no product for matrix instructions");
    m->a = operand_of(e, body->src[0]);
    m->b = operand_of(e, body->src[1]);
    if (!m->a || !m->b)
        return bell_fail(BELL_E_INTERNAL, "an operand is not in LOCAL memory");
    if (!(e->stages[m->a->stage - 1].ranges >> m->row & 1)) {
        const struct expand_inst *swap = m->a;
        m->a = m->b;
        m->b = swap;
    }
    m->dtype = e->stages[m->a->stage - 1].dtype;
    m->piece = UINT32_MAX;
    if (e->stages[m->a->stage - 1].piece >= 0 &&
        e->stages[m->a->stage - 1].piece == e->stages[m->b->stage - 1].piece)
        m->piece = (uint32_t)e->stages[m->a->stage - 1].piece;
    m->tiles = kernel_deps(k, m->node) & e->copied;
    if (m->half != UINT32_MAX)
        m->tiles &= ~((uint64_t)1 << m->half);
    if (m->pair != UINT32_MAX)
        m->tiles &= ~((uint64_t)1 << m->pair);
    m->pieces = group->bound & e->copied & ~((uint64_t)1 << m->step);
    for (set = group->bound & e->loops; set; set &= set - 1)
        m->loops[m->n_loops++] = e->base[__builtin_ctzll(set)];
    m->parts[0] =
        arena_calloc(&e->k->mem, m->a->n_copies, sizeof(*m->parts[0]));
    m->parts[1] =
        arena_calloc(&e->k->mem, m->b->n_copies, sizeof(*m->parts[1]));
    return e->k->mem.failed
               ? bell_fail(BELL_E_NO_MEMORY,
                           "expansion of %u nodes: out of memory", k->n_nodes)
               : BELL_OK;
}

/* ---- parts of operands ---- */

/* For mma.sync: thread 4 g + t has rows g of A, columns g of B. NULL: the
 * range's own value. */
static const struct uop *
range_value_nv(const struct matrix *m, enum uop_wmma_operand operand,
               uint32_t i, uint32_t r)
{
    struct expand *e = m->e;
    uint32_t row, col, pack = uop_wmma_pack(m->dtype);
    const struct uop *t = e->base[m->col], *g = e->base[m->row];

    uop_wmma_place(m->shape, m->dtype, operand, 0, i, &row, &col);
    if (r == m->step) /* pack * t, and what thread 0 has */
        return uop_alu2(e->g, UOP_ADD,
                        uop_alu2(e->g, UOP_MUL, t, expand_num(e, pack)),
                        expand_num(e, operand == UOP_WMMA_A ? col : row));
    if (operand == UOP_WMMA_A && r == m->half)
        return expand_num(e, row / 8);
    if (operand == UOP_WMMA_B && r == m->col) /* column g is pair g/2 */
        return uop_alu2(e->g, UOP_FLOORDIV, g, expand_num(e, 2));
    if (operand == UOP_WMMA_B && r == m->pair)
        return uop_alu2(e->g, UOP_FLOORMOD, g, expand_num(e, 2));
    return NULL;
}

/* A thread's results of a 16 x 16 tile are below each other in one column. So
 * that they lie side by side in memory, the instruction's A is B here, and its
 * rows are our columns: thread 16 g + c has row c of A, column c of B, and the
 * g-th part of what threads share. Column c is the one whose results threads of
 * `col` c / n_pair or c % n_cols have. */
static const struct uop *
range_value16(const struct matrix *m, enum uop_wmma_operand operand, uint32_t i,
              uint32_t r)
{
    struct expand *e = m->e;
    const struct uop *c = e->base[m->row], *g = e->base[m->col];
    bool together = uop_wmma_rows_together(m->shape, m->dtype);
    uint32_t col, at[2], n_cols = m->shape.n / m->n_pair, t;

    if (r == m->step) { /* what thread 0 has, and what each g adds */
        for (t = 0; t < 2; t++)
            uop_wmma_place(m->shape, m->dtype, UOP_WMMA_B, 16 * t, i, &at[t],
                           &col);
        g = uop_alu2(e->g, UOP_MUL, g, expand_num(e, at[1] - at[0]));
        return uop_alu2(e->g, UOP_ADD, g, expand_num(e, at[0]));
    }
    if (operand == UOP_WMMA_B && r == m->col)
        return uop_alu2(e->g, together ? UOP_FLOORDIV : UOP_FLOORMOD, c,
                        expand_num(e, together ? m->n_pair : n_cols));
    if (operand == UOP_WMMA_B && r == m->pair)
        return uop_alu2(e->g, together ? UOP_FLOORMOD : UOP_FLOORDIV, c,
                        expand_num(e, together ? m->n_pair : n_cols));
    return NULL;
}

/* The value of a range where element `i` of the thread's part lies. */
static const struct uop *
range_value(const struct matrix *m, enum uop_wmma_operand operand, uint32_t i,
            uint32_t r)
{
    struct expand *e = m->e;
    const struct uop *v = m->shape.layout == UOP_WMMA_NV
                              ? range_value_nv(m, operand, i, r)
                              : range_value16(m, operand, i, r);

    assert(r < m->e->k->n_ranges);
    if (v)
        return v;
    return e->copied >> r & 1 ? expand_num(e, e->digit[r]) : e->base[r];
}

static int64_t
stride_of(const struct expand_stage *s, uint32_t r)
{
    uint32_t i;

    for (i = 0; i < s->n_dims; i++) {
        if (s->dims[i].range == r)
            return s->dims[i].stride;
    }
    return 0;
}

/* Elements of 16 bytes. */
static uint32_t
unit_size(const struct matrix *m)
{
    return MAX_BYTES / uop_dtype_infos[m->dtype].size_bytes;
}

/* Parts of several pieces, of 16 bytes: which steps a piece takes is for us to
 * say, as long as both operands take the same. Where they begin, in the step's
 * range and the piece's. */
static const struct uop *
unit_value(const struct matrix *m, uint32_t r)
{
    struct expand *e = m->e;
    uint32_t each = unit_size(m);
    uint32_t n = each / uop_wmma_lanes(m->shape, UOP_WMMA_A);

    if (r == m->step)
        return uop_alu2(e->g, UOP_MUL, e->base[m->col], expand_num(e, each));
    return expand_num(e, e->digit[r] / n * n);
}

/* Place in LOCAL memory of element i of the part. Column g of B counts as one
 * where pairs lie next to each other. */
static const struct uop *
part_index(const struct matrix *m, const struct expand_stage *s,
           enum uop_wmma_operand operand, uint32_t i)
{
    struct expand *e = m->e;
    const struct uop *index = s->half, *v,
                     *at[2] = {expand_num(e, 0), expand_num(e, 0)};
    bool whole = m->shape.layout == UOP_WMMA_NV && operand == UOP_WMMA_B &&
                 m->pair != UINT32_MAX &&
                 stride_of(s, m->col) == 2 * stride_of(s, m->pair);
    uint32_t j;

    for (j = 0; j < s->n_dims; j++) {
        uint32_t r = s->dims[j].range;
        if (whole && r == m->col)
            continue;
        v = whole && r == m->pair ? e->base[m->row]
                                  : range_value(m, operand, i, r);
        if (m->piece != UINT32_MAX && (r == m->step || r == m->piece))
            v = unit_value(m, r);
        v = uop_alu2(e->g, UOP_MUL, v, expand_num(e, s->dims[j].stride));
        if (s->line) {
            const struct uop **to = &at[e->k->reduce_ranges >> r & 1];
            *to = uop_alu2(e->g, UOP_ADD, *to, v);
        } else {
            index = uop_alu2(e->g, UOP_ADD, index, v);
        }
    }
    if (s->line)
        index = uop_alu2(e->g, UOP_ADD, index,
                         expand_line_index(e, s, at[0], at[1]));
    return index;
}

/* Elements of a part that lie side by side. */
static uint32_t
run_length(const struct matrix *m, const struct expand_stage *s,
           enum uop_wmma_operand operand)
{
    uint32_t n = uop_wmma_lanes(m->shape, operand);
    uint32_t most = MAX_BYTES / uop_dtype_infos[m->dtype].size_bytes;

    if (stride_of(s, m->step) != 1)
        return 1;
    if (m->shape.layout == UOP_WMMA_NV)
        return uop_wmma_pack(m->dtype);
    return n < most ? n : most;
}

/* The row of 16 bytes that this thread names for a WMMA_ROWS of n_regs
 * registers, which must begin at a multiple of them; NULL where parts do not
 * lie in such rows. Those of B are `turned` if steps lie side by side no more
 * than those of A. */
static const struct uop *
row_index(const struct matrix *m, const struct expand_stage *s,
          enum uop_wmma_operand operand, uint32_t n_regs, bool turned)
{
    struct expand *e = m->e;
    int64_t each = MAX_BYTES / uop_dtype_infos[m->dtype].size_bytes;
    uint32_t fast = operand == UOP_WMMA_A ? m->row : m->pair, r, j;
    const struct uop *row =
        uop_alu2(e->g, UOP_FLOORMOD, e->tid, expand_num(e, 8));
    const struct uop *reg =
        uop_alu2(e->g, UOP_FLOORDIV, e->tid, expand_num(e, 8));
    const struct uop *half = expand_num(e, 0), *index = half, *step, *v;

    reg = uop_alu2(e->g, UOP_FLOORMOD, reg, expand_num(e, n_regs));
    if (operand == UOP_WMMA_A) { /* its halves, then more steps */
        half = uop_alu2(e->g, UOP_FLOORMOD, reg, expand_num(e, 2));
        reg = uop_alu2(e->g, UOP_FLOORDIV, reg, expand_num(e, 2));
    }
    step = uop_alu2(e->g, UOP_MUL, reg, expand_num(e, each));
    if (turned)
        step = uop_alu2(e->g, UOP_ADD, step, row);
    for (j = 0; j < s->n_dims; j++) {
        int64_t stride = s->dims[j].stride;
        r = s->dims[j].range;
        if (operand == UOP_WMMA_B && r == m->col)
            continue; /* with the pair */
        if (r == (turned ? fast : m->step) ? stride != 1 : stride % each)
            return NULL;
        v = r == m->step ? step
            : r == fast  ? turned ? expand_num(e, 0) : row
            : r == m->half && operand == UOP_WMMA_A ? half
            : e->copied >> r & 1                    ? expand_num(e, e->digit[r])
                                                    : e->base[r];
        index = uop_alu2(e->g, UOP_ADD, index,
                         uop_alu2(e->g, UOP_MUL, v, expand_num(e, stride)));
    }
    return uop_alu2(e->g, UOP_ADD, index, s->half);
}

/* A part at once, in a way that the target has; NULL where it does not lie
 * so. */
static const struct uop *
load_rows(const struct matrix *m, const struct expand_stage *s,
          enum uop_wmma_operand operand)
{
    struct expand *e = m->e;
    uint32_t n = uop_wmma_lanes(m->shape, operand);
    uint32_t pack = uop_wmma_pack(m->dtype);
    bool turned = stride_of(s, m->step) != 1;
    const struct uop *src[2] = {s->memory, NULL};

    if (!e->k->target->has_wmma_rows || pack == 1 || (turned && pack != 2) ||
        (operand == UOP_WMMA_B &&
         (m->pair == UINT32_MAX ||
          stride_of(s, m->col) != 2 * stride_of(s, m->pair))))
        return NULL;
    src[1] = row_index(m, s, operand, n / pack, turned);
    return src[1] ? uop_make(e->g, UOP_WMMA_ROWS, s->dtype, (uint16_t)n,
                             (union uop_arg){.i = turned}, src, 2)
                  : NULL;
}

/* A thread's part of A or B, at digit[]. Values that lie together are loaded at
 * once. */
static const struct uop *
load_matrix_part(const struct matrix *m, enum uop_wmma_operand operand)
{
    struct expand *e = m->e;
    const struct expand_inst *inst = operand == UOP_WMMA_A ? m->a : m->b;
    const struct expand_stage *s = &e->stages[inst->stage - 1];
    uint32_t n = uop_wmma_lanes(m->shape, operand), i, j;
    uint32_t pack = run_length(m, s, operand);
    enum uop_dtype dtype = s->dtype;
    const struct uop *parts[MAX_PARTS], *src[2] = {s->memory, NULL}, *loaded;

    assert(inst->stage);
    loaded = load_rows(m, s, operand);
    if (loaded)
        return loaded;
    if (m->piece != UINT32_MAX) {
        uint32_t each = unit_size(m), first = e->digit[m->piece] * n % each;
        src[1] = part_index(m, s, operand, 0);
        loaded =
            uop_make(e->g, UOP_LOAD, dtype, (uint16_t)each, no_arg, src, 2);
        for (i = 0; i < n; i++) {
            union uop_arg lane = {.i = first + i};
            parts[i] = uop_make(e->g, UOP_LANE, dtype, 1, lane, &loaded, 1);
        }
        return n == 1 ? parts[0]
                      : uop_make(e->g, UOP_LANES, dtype, (uint16_t)n, no_arg,
                                 parts, n);
    }
    for (i = 0; i < n; i += pack) {
        src[1] = part_index(m, s, operand, i);
        loaded =
            uop_make(e->g, UOP_LOAD, dtype, (uint16_t)pack, no_arg, src, 2);
        for (j = 0; j < pack; j++) {
            union uop_arg lane = {.i = j};
            parts[i + j] = loaded;
            if (pack > 1)
                parts[i + j] =
                    uop_make(e->g, UOP_LANE, dtype, 1, lane, &loaded, 1);
        }
    }
    if (n == 1)
        return parts[0];
    return uop_make(e->g, UOP_LANES, dtype, (uint16_t)n, no_arg, parts, n);
}

/* The part at digit[], made once. */
static const struct uop *
find_operand_part(const struct matrix *m, enum uop_wmma_operand operand)
{
    struct expand *e = m->e;
    const struct expand_inst *inst = operand == UOP_WMMA_A ? m->a : m->b;
    const struct uop **part;

    assert(m->a->stage && m->b->stage);
    e->digit[m->step] = 0; /* all of these belong to one part */
    if (m->half != UINT32_MAX)
        e->digit[m->half] = 0;
    if (m->pair != UINT32_MAX)
        e->digit[m->pair] = 0;
    part = &m->parts[operand][expand_copy(e, inst)];
    if (!*part)
        *part = load_matrix_part(m, operand);
    return *part;
}

/* ---- the group ---- */

static const struct uop *
matrix_zeros(const struct matrix *m, uint32_t lanes)
{
    enum uop_dtype dtype = m->node->dtype;

    return expand_broadcast(m->e, uop_const_int(m->e->g, dtype, 0),
                            (uint16_t)lanes);
}

/* `sum` with the products of all pieces of the tile's steps added. */
static const struct uop *
add_products(const struct matrix *m, const struct uop *sum)
{
    struct expand *e = m->e;
    uint32_t i, n = expand_count(e, m->pieces);
    union uop_arg arg = {.i = uop_wmma_arg(m->shape)};
    bool turned = m->shape.layout != UOP_WMMA_NV; /* range_value16 */

    for (i = 0; i < n; i++) {
        const struct uop *src[3];
        expand_set_digits(e, m->pieces, i);
        src[turned] = find_operand_part(m, UOP_WMMA_A);
        src[!turned] = find_operand_part(m, UOP_WMMA_B);
        src[2] = sum;
        sum = uop_new(e->g, UOP_WMMA, m->node->dtype, sum->lanes, arg, src, 3);
    }
    return sum;
}

/* The result's parts become the instances of the REDUCE. */
static void
set_instances(const struct matrix *m, const struct uop *sum)
{
    struct expand *e = m->e;
    struct expand_inst *inst = &e->inst[kernel_pos(e->k, m->node)];
    enum uop_dtype dtype = sum->dtype;
    uint32_t half, n = m->n_pair, i;

    for (half = 0; half < m->n_half; half++) {
        const struct uop *pair[MAX_PARTS];
        if (m->half != UINT32_MAX)
            e->digit[m->half] = half;
        for (i = 0; i < n; i++) {
            union uop_arg lane = {.i = n * half + i};
            pair[i] = uop_make(e->g, UOP_LANE, dtype, 1, lane, &sum, 1);
            if (m->pair != UINT32_MAX)
                e->digit[m->pair] = i;
            if (inst->vec < 0)
                inst->scalar[expand_copy(e, inst)] = pair[i];
        }
        if (inst->vec >= 0)
            inst->vector[expand_copy(e, inst)] =
                uop_make(e->g, UOP_LANES, dtype, (uint16_t)n, no_arg, pair, n);
    }
}

static const struct uop *
make_matrix_acc(const struct matrix *m, uint32_t lanes)
{
    const struct uop *src[1 + KERNEL_MAX_RANGES],
        *zero = matrix_zeros(m, lanes);
    union uop_arg arg = {.i = m->e->n_accs++};
    uint64_t set = m->group->context & m->e->loops;
    uint32_t n = 0;

    assert(lanes > 0);
    src[n++] = zero;
    for (; set; set &= set - 1)
        src[n++] = m->e->base[__builtin_ctzll(set)];
    return uop_new(m->e->g, UOP_ACC, zero->dtype, zero->lanes, arg, src, n);
}

static const struct uop *
get_matrix_acc(const struct matrix *m, const struct uop *acc,
               const struct uop *const *after, uint32_t n_after)
{
    const struct uop *src[1 + KERNEL_MAX_RANGES];

    src[0] = acc;
    memcpy(src + 1, after, n_after * sizeof(*after));
    return uop_new(m->e->g, UOP_ACC_GET, acc->dtype, acc->lanes, no_arg, src,
                   n_after + 1);
}

/* ---- WGMMA ---- */

/* acc += A @ B of the present tiles. Those of the tile before are done then,
 * whose place the next STOREs take. */
static const struct uop *
make_wgmma(const struct matrix *m, const struct uop *acc)
{
    struct expand *e = m->e;
    const struct expand_stage *a = &e->stages[m->a->stage - 1];
    const struct expand_stage *b = &e->stages[m->b->stage - 1];
    uint32_t row = UOP_WGMMA_ROW_BYTES / uop_dtype_infos[m->dtype].size_bytes;
    struct uop_wgmma w = {acc->lanes * 2u, m->shape.k, row / m->shape.k,
                          !a->along, !b->along};
    const struct uop *group = expand_num(e, 0), *src[5], *u;

    assert(m->a->stage && m->b->stage);
    if (e->k->n_threads > 128) /* that have 64 rows each */
        group = uop_alu2(e->g, UOP_FLOORDIV, e->tid, expand_num(e, 128));
    group = uop_alu2(e->g, UOP_MUL, group, expand_num(e, 64));
    src[0] = acc;
    src[1] = a->memory;
    src[2] = uop_alu2(e->g, UOP_ADD, a->half,
                      expand_wgmma_index(e, a, group, expand_num(e, 0)));
    src[3] = b->memory;
    src[4] = b->half;
    u = uop_new(e->g, UOP_WGMMA, UOP_VOID, 1,
                (union uop_arg){.i = uop_wgmma_arg(w)}, src, 5);
    return uop_new(e->g, UOP_WGMMA_WAIT, UOP_VOID, 1, (union uop_arg){.i = 1},
                   &u, 1);
}

/* One ACC has a thread's part of all tiles. */
static bell_status
make_wgmma_group(struct matrix *m)
{
    struct expand *e = m->e;
    uint32_t n = expand_count(e, m->tiles), i, lane;
    const struct uop *src[2], *sum, *part[4];
    struct expand_inst *inst = &e->inst[kernel_pos(e->k, m->node)];

    if (m->n_half != 2 || m->n_pair != 2 || !m->n_loops)
        return bell_fail(BELL_E_INTERNAL, "no product for WGMMA");
    sum = make_matrix_acc(m, (uint16_t)(4 * n));
    src[1] = make_wgmma(m, sum);
    src[0] = expand_close_loops(e, m->group->bound, src, 1);
    src[0] = uop_new(e->g, UOP_WGMMA_WAIT, UOP_VOID, 1, no_arg, src, 1);
    sum = get_matrix_acc(m, sum, src, 1);
    for (i = 0; i < n; i++) {
        expand_set_digits(e, m->tiles, i);
        for (lane = 0; lane < 4; lane++) {
            union uop_arg arg = {.i = 4 * i + lane};
            part[lane] = uop_make(e->g, UOP_LANE, UOP_F32, 1, arg, &sum, 1);
        }
        for (lane = 0; lane < 2; lane++) {
            e->digit[m->half] = lane;
            inst->vector[expand_copy(e, inst)] = uop_make(
                e->g, UOP_LANES, UOP_F32, 2, no_arg, part + 2 * lane, 2);
        }
    }
    return uop_graph_status(e->g);
}

/* ---- stores of WGMMA's results ---- */

#define QUAD 4 /* threads that have parts of 8 columns */

/* The copied range that counts 8 columns at a time; UINT32_MAX: none. */
static uint32_t
find_columns(const struct expand *e, const struct uop *store)
{
    uint64_t set = kernel_deps(e->k, store) & e->copied;
    uint32_t half = find_range(e->k, e->k->matrix.half), found = UINT32_MAX;

    for (; set; set &= set - 1) {
        uint32_t r = (uint32_t)__builtin_ctzll(set);
        if (r == half)
            continue;
        if (found != UINT32_MAX)
            return UINT32_MAX;
        found = r;
    }
    return found;
}

bool
expand_can_turn(const struct expand *e, const struct uop *store)
{
    const struct kernel *k = e->k;
    const struct uop *index = store->src[1], *value = store->src[2];
    uint32_t pair = find_range(k, k->matrix.pair), j;
    uint32_t col = find_range(k, k->matrix.col), row, n;
    const struct expand_inst *inst = &e->inst[kernel_pos(k, store)];
    uint64_t threads, place;

    if (!k->matrix.wgmma || uop_dtype_infos[value->dtype].size_bytes != 2 ||
        pair == UINT32_MAX || col == UINT32_MAX || inst->vec != (int32_t)pair ||
        k->sizes[pair] != 2 || k->sizes[col] != QUAD)
        return false;
    row = find_range(k, k->matrix.row);
    j = find_columns(e, store);
    place = (uint64_t)1 << pair | (uint64_t)1 << col;
    threads = kernel_deps(k, value) & e->threads;
    n = j == UINT32_MAX ? 1 : (uint32_t)k->sizes[j];
    return n % QUAD == 0 && threads == e->threads &&
           kernel_coef(k, index, pair) == 1 &&
           kernel_coef(k, index, col) == 2 &&
           kernel_coef(k, index, row) % (2 * QUAD) == 0 &&
           (store->n_src < 4 || !(kernel_deps(k, store->src[3]) & place));
}

/* Where this thread stores, for the columns from digit[] on: its number among
 * the four says which 8. */
static bell_status
find_turned(struct expand *e, const struct uop *store, uint32_t columns,
            const struct uop *out[2])
{
    const struct kernel *k = e->k;
    const struct uop *value[KERNEL_MAX_RANGES];
    uint32_t r, col = find_range(k, k->matrix.col);

    for (r = 0; r < k->n_ranges; r++)
        value[r] = e->copied >> r & 1 ? expand_num(e, e->digit[r]) : e->base[r];
    value[find_range(k, k->matrix.pair)] = value[col] = expand_num(e, 0);
    value[columns] = uop_alu2(e->g, UOP_ADD, e->base[col], value[columns]);
    out[0] = store->src[1];
    if (store->n_src > 3)
        out[1] = store->src[3];
    return uop_substitute(e->g, out, store->n_src > 3 ? 2 : 1, k->ranges, value,
                          k->n_ranges);
}

bell_status
expand_turn_store(struct expand *e, const struct uop *store)
{
    const struct expand_inst *inst = &e->inst[kernel_pos(e->k, store)];
    uint32_t columns = find_columns(e, store), copy, i;
    const struct uop *src[4], *part[QUAD], *at[2];

    src[0] = expand_value(e, store->src[0], 1);
    for (copy = 0; copy < inst->n_copies; copy++) {
        expand_set_digits(e, inst->copied, copy);
        if (e->digit[columns] % QUAD)
            continue;
        BELL_TRY(find_turned(e, store, columns, at));
        src[1] = at[0];
        src[3] = at[1];
        for (i = 0; i < QUAD; i++) {
            part[i] = expand_value(e, store->src[2], 2);
            e->digit[columns]++;
        }
        src[2] = uop_new(e->g, UOP_QUAD_TRANSPOSE, store->src[2]->dtype,
                         2 * QUAD, no_arg, part, QUAD);
        src[2] = uop_make(e->g, UOP_STORE, UOP_VOID, 1, store->arg, src,
                          store->n_src);
        BELL_TRY(expand_add_store(e, kernel_deps(e->k, store), src[2]));
    }
    return uop_graph_status(e->g);
}

bell_status
expand_matrix_group(struct expand *e, const struct kernel_group *group)
{
    const struct uop **accs, **src, *end, *set[2];
    struct matrix m;
    uint32_t i, n, lanes;

    assert(e->k->matrix.on);
    BELL_TRY(begin_matrix(e, group, &m));
    if (e->k->matrix.wgmma)
        return make_wgmma_group(&m);
    lanes = uop_wmma_lanes(m.shape, UOP_WMMA_C);
    n = expand_count(e, m.tiles);
    accs = arena_alloc(&e->k->mem, n * sizeof(*accs));
    src = arena_alloc(&e->k->mem, (n + 1) * sizeof(*src));
    if (!accs || !src)
        return bell_fail(BELL_E_NO_MEMORY,
                         "expansion of %u nodes: out of memory", e->k->n_nodes);
    for (i = 0; i < n; i++) {
        expand_set_digits(e, m.tiles, i);
        if (!m.n_loops) {
            accs[i] = add_products(&m, matrix_zeros(&m, lanes));
            continue;
        }
        accs[i] = set[0] = make_matrix_acc(&m, lanes);
        set[1] =
            add_products(&m, get_matrix_acc(&m, set[0], m.loops, m.n_loops));
        src[1 + i] = uop_new(e->g, UOP_ACC_SET, UOP_VOID, 1, no_arg, set, 2);
    }
    end = expand_close_loops(e, group->bound, src, m.n_loops ? n : 0);
    for (i = 0; i < n; i++) {
        expand_set_digits(e, m.tiles, i);
        set_instances(&m, end ? get_matrix_acc(&m, accs[i], &end, 1) : accs[i]);
    }
    return uop_graph_status(e->g);
}
