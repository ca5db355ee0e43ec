/* Blocks that are loaded the other way.
 *
 * Lanes that lie far apart, of LOADs that lie side by side, are the columns of
 * a block. Its rows are wide loads, and shuffles make columns of them: one for
 * each register and doubling of the block's width, where single elements took
 * two instructions each. The loaded values are the same.
 */
#include "render/llvm/llvm_internal.h"

#include <assert.h>

#include "base/bits.h"

#define MIN_COLUMNS 4
#define MIN_STEP    5   /* less is taken apart by shuffles (llvm_mem.c) */
#define MOST_AHEAD  512 /* ops looked at */
#define MAX_LANES   64

/* ---- which ---- */

/* A LOAD of lanes that lie apart. */
static bool
is_column(const struct uop *u, int64_t *out_first, int64_t *out_step)
{
    return u->op == UOP_LOAD && u->n_src == 2 && u->lanes >= MIN_COLUMNS &&
           u->lanes <= MAX_LANES && !(u->lanes & (u->lanes - 1)) &&
           u->src[1]->lanes == u->lanes &&
           uop_dtype_infos[u->dtype].size_bytes >= 2 &&
           uop_index_steps(u->src[1], out_first, out_step) &&
           *out_step >= MIN_STEP;
}

/* May no LOAD of that memory be moved up over it? */
static bool
is_border(const struct uop *u, const struct uop *memory)
{
    if (u->op == UOP_STORE)
        return uop_memory(u->src[0]) == memory;
    return u->op == UOP_RANGE || u->op == UOP_END || u->op == UOP_IF ||
           u->op == UOP_ENDIF || u->op == UOP_TILE_MATMUL ||
           u->op == UOP_BARRIER;
}

uint32_t
llvm_find_columns(const struct llvm_emit *e, const struct uop *u,
                  const struct uop **loads)
{
    const struct uop *near[2 * LLVM_MAX_TURNED] = {NULL};
    int64_t first, step, other_first, other_step;
    uint32_t i, begin = LLVM_MAX_TURNED, n = 0, most;

    if (e->dialect->is_gpu || !is_column(u, &first, &step))
        return 0;
    near[begin] = u; /* by its distance from u */
    for (i = e->at + 1; i < e->prog->n_ops && i < e->at + MOST_AHEAD; i++) {
        const struct uop *x = e->ops[i];
        if (is_border(x, uop_memory(u->src[0])))
            break;
        if (!is_column(x, &other_first, &other_step) || other_step != step ||
            x->src[0] != u->src[0] || x->dtype != u->dtype ||
            x->lanes != u->lanes || map_get(&e->index, x->id) ||
            other_first <= first - LLVM_MAX_TURNED ||
            other_first >= first + LLVM_MAX_TURNED)
            continue;
        near[LLVM_MAX_TURNED + other_first - first] = x;
    }
    while (begin > 1 && near[begin - 1])
        begin--;
    while (begin + n < 2 * LLVM_MAX_TURNED && near[begin + n])
        n++;
    most = u->lanes < LLVM_MAX_TURNED ? u->lanes : LLVM_MAX_TURNED;
    if (n < MIN_COLUMNS)
        return 0;
    n = 1u << log2_floor(n);
    n = n < most ? n : most;
    if (begin + n <= LLVM_MAX_TURNED) /* u is to be one of them */
        begin = LLVM_MAX_TURNED + 1 - n;
    assert(begin <= LLVM_MAX_TURNED && begin + n > LLVM_MAX_TURNED);
    for (i = 0; i < n; i++)
        loads[i] = near[begin + i];
    return n;
}

/* ---- shuffles ---- */

/* Joins the lower or the upper halves of a and b, one after the other, in each
 * part of 2 * half lanes. */
static LLVMValueRef
join_halves(struct llvm_emit *e, LLVMValueRef a, LLVMValueRef b, uint32_t lanes,
            uint32_t half, bool upper)
{
    LLVMValueRef pick[MAX_LANES];
    uint32_t i;

    assert(is_pow2(half) && lanes % (2 * half) == 0 && lanes <= MAX_LANES);
    for (i = 0; i < lanes; i++) {
        uint32_t in = i % (2 * half), from = i - in + (upper ? half : 0);
        pick[i] = llvm_i32(e, in < half ? from + in : lanes + from + in - half);
    }
    return e->ll->BuildShuffleVector(e->b, a, b,
                                     e->ll->ConstVector(pick, lanes), "");
}

/* Joins the lower or the upper pairs of a and b, in turns, in each part of 4
 * lanes. */
static LLVMValueRef
mix_pairs(struct llvm_emit *e, LLVMValueRef a, LLVMValueRef b, uint32_t lanes,
          bool upper)
{
    LLVMValueRef pick[MAX_LANES];
    uint32_t i;

    assert(lanes % 4 == 0 && lanes <= MAX_LANES);
    for (i = 0; i < lanes; i++)
        pick[i] = llvm_i32(e, i / 4 * 4 + (upper ? 2 : 0) + i % 4 / 2 +
                                  (i % 2 ? lanes : 0));
    return e->ll->BuildShuffleVector(e->b, a, b,
                                     e->ll->ConstVector(pick, lanes), "");
}

/* v[0..3], in each part of 4 lanes. */
static void
turn_four(struct llvm_emit *e, LLVMValueRef *v, uint32_t lanes)
{
    LLVMValueRef w[4];
    uint32_t i;

    for (i = 0; i < 4; i++)
        w[i] = mix_pairs(e, v[i / 2], v[i / 2 + 2], lanes, i & 1);
    for (i = 0; i < 4; i++)
        v[i] = mix_pairs(e, w[i / 2], w[i / 2 + 2], lanes, i & 1);
}

/* v[0..1] of n elements one behind the other, `lanes` in the end. */
static LLVMValueRef
join(struct llvm_emit *e, const LLVMValueRef *rows, uint32_t apart, uint32_t n,
     uint32_t lanes)
{
    LLVMValueRef part[MAX_LANES / MIN_COLUMNS], pick[MAX_LANES];
    uint32_t n_parts = lanes / n, i;

    assert(lanes % n == 0 && is_pow2(n_parts));
    for (i = 0; i < n_parts; i++)
        part[i] = rows[i * apart];
    for (; n_parts > 1; n_parts /= 2, n *= 2) {
        for (i = 0; i < 2 * n; i++)
            pick[i] = llvm_i32(e, i);
        for (i = 0; i < n_parts / 2; i++)
            part[i] =
                e->ll->BuildShuffleVector(e->b, part[2 * i], part[2 * i + 1],
                                          e->ll->ConstVector(pick, 2 * n), "");
    }
    return part[0];
}

void
llvm_turn(struct llvm_emit *e, LLVMValueRef *rows, uint32_t lanes, uint32_t n,
          LLVMValueRef *columns)
{
    uint32_t i, half;

    assert(n >= MIN_COLUMNS && n <= lanes && lanes <= MAX_LANES);
    for (i = 0; i < n; i++) /* part p of columns[i]: row p * n + i */
        columns[i] = join(e, &rows[i], n, n, lanes);
    for (half = n / 2; half >= 4; half /= 2) {
        for (i = 0; i < n; i++) {
            LLVMValueRef a = columns[i],
                         b = columns[i + half < n ? i + half : i];
            if (i & half)
                continue;
            columns[i] = join_halves(e, a, b, lanes, half, false);
            columns[i + half] = join_halves(e, a, b, lanes, half, true);
        }
    }
    for (i = 0; i < n; i += 4)
        turn_four(e, &columns[i], lanes);
}
