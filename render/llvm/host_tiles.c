/* UOP_TILE_MATMUL on the host: by tile registers (AMX), or by vectors whose
 * words are multiplied and added as 2 or 4 neighbours (AVX512-BF16,
 * AVX512-VNNI); and one such instruction, UOP_BYTE_DOT.
 */
#include <assert.h>

#include "lower/lower.h"
#include "render/llvm/llvm_internal.h"

/* ---- tile registers ---- */

/* src: Intel 64 and IA-32 Software Developer's Manual, LDTILECFG */
#define TILE_PALETTE  1
#define TILE_ROWS     16
#define TILE_BYTES    64 /* of a row */
#define TILE_ROW_SIZE 16 /* place in the configuration: bytes of a row */
#define TILE_N_ROWS   48 /* likewise: rows */
#define BYTES         4  /* of a word */

static LLVMValueRef
tile_number(struct llvm_emit *e, unsigned n)
{
    return e->ll->ConstInt(e->t_i8, n, 0);
}

/* At the entry, once: all eight registers are 16 rows of 64 bytes. */
static void
configure_tiles(struct llvm_emit *e)
{
    LLVMBasicBlockRef here = e->ll->GetInsertBlock(e->b);
    LLVMValueRef bytes[TILE_BYTES], config, store;
    unsigned i;

    if (e->has_tiles)
        return;
    e->has_tiles = true;
    for (i = 0; i < TILE_BYTES; i++)
        bytes[i] = tile_number(e, i == 0 ? TILE_PALETTE : 0);
    for (i = 0; i < 8; i++) {
        bytes[TILE_ROW_SIZE + 2 * i] = tile_number(e, TILE_BYTES);
        bytes[TILE_N_ROWS + i] = tile_number(e, TILE_ROWS);
    }
    e->ll->PositionBuilderAtEnd(e->b, e->entry);
    config =
        e->ll->BuildAlloca(e->b, e->ll->VectorType(e->t_i8, TILE_BYTES), "");
    store =
        e->ll->BuildStore(e->b, e->ll->ConstVector(bytes, TILE_BYTES), config);
    e->ll->SetAlignment(store, 16);
    llvm_intrinsic(e, "llvm.x86.ldtilecfg", NULL, 0, &config, 1);
    e->ll->PositionBuilderAtEnd(e->b, here);
}

static LLVMValueRef
bytes_behind(struct llvm_emit *e, LLVMValueRef at, int64_t bytes)
{
    LLVMValueRef n = llvm_i64(e, bytes);

    return e->ll->BuildGEP2(e->b, e->t_i8, at, &n, 1, "");
}

static void
move_tile(struct llvm_emit *e, const char *name, unsigned number,
          LLVMValueRef at, int64_t stride)
{
    LLVMValueRef args[3] = {tile_number(e, number), at, llvm_i64(e, stride)};

    llvm_intrinsic(e, name, NULL, 0, args, 3);
}

/* Registers 0..3 are the results, 4 and 5 rows, 6 and 7 columns. */
static void
multiply_tiles(struct llvm_emit *e, const struct uop *u, const LLVMValueRef *at,
               int64_t row_bytes, int64_t column_bytes)
{
    const char *name = u->src[2]->dtype == UOP_BF16 ? "llvm.x86.tdpbf16ps"
                       : u->src[2]->dtype == UOP_I8 ? "llvm.x86.tdpbssd"
                                                    : "llvm.x86.tdpbuud";
    unsigned i;

    assert(column_bytes == TILE_ROWS * row_bytes ||
           column_bytes % TILE_BYTES == 0);
    for (i = 0; i < 2; i++) {
        move_tile(e, "llvm.x86.tileloadd64", 4 + i,
                  bytes_behind(e, at[0], TILE_ROWS * row_bytes * i), row_bytes);
        move_tile(e, "llvm.x86.tileloadd64", 6 + i,
                  bytes_behind(e, at[1], column_bytes * i), TILE_BYTES);
    }
    for (i = 0; i < 4; i++) {
        LLVMValueRef args[3] = {tile_number(e, i), tile_number(e, 4 + i / 2),
                                tile_number(e, 6 + i % 2)};
        llvm_intrinsic(e, name, NULL, 0, args, 3);
    }
}

static void
emit_registers(struct llvm_emit *e, const struct uop *u, const LLVMValueRef *at)
{
    int64_t size = uop_dtype_infos[u->src[2]->dtype].size_bytes;
    int64_t row_bytes = u->src[6]->arg.i * size, k_bytes = u->arg.i * size;
    LLVMBasicBlockRef before, body, exit;
    LLVMValueRef place[2], n, next, more;
    unsigned i;

    assert(k_bytes % TILE_BYTES == 0);
    configure_tiles(e);
    for (i = 0; i < 4; i++) {
        LLVMValueRef number = tile_number(e, i);
        llvm_intrinsic(e, "llvm.x86.tilezero", NULL, 0, &number, 1);
    }
    before = e->ll->GetInsertBlock(e->b);
    body = llvm_new_block(e);
    exit = llvm_new_block(e);
    e->ll->BuildBr(e->b, body);
    e->ll->PositionBuilderAtEnd(e->b, body);
    n = e->ll->BuildPhi(e->b, e->t_i64, "");
    llvm_add_incoming(e, n, llvm_i64(e, 0), before);
    place[0] = e->ll->BuildGEP2(e->b, e->t_i8, at[1], &n, 1, "");
    next = e->ll->BuildBinOp(e->b, LLVMMul, n, llvm_i64(e, TILE_ROWS), "");
    place[1] = e->ll->BuildGEP2(e->b, e->t_i8, at[2], &next, 1, "");
    multiply_tiles(e, u, place, row_bytes, k_bytes * TILE_ROWS);
    next = e->ll->BuildBinOp(e->b, LLVMAdd, n, llvm_i64(e, TILE_BYTES), "");
    llvm_add_incoming(e, n, next, body);
    more = e->ll->BuildICmp(e->b, LLVMIntULT, next, llvm_i64(e, k_bytes), "");
    e->ll->BuildCondBr(e->b, more, body, exit);
    e->ll->PositionBuilderAtEnd(e->b, exit);
    for (i = 0; i < 4; i++)
        move_tile(e, "llvm.x86.tilestored64", i,
                  bytes_behind(e, at[0],
                               i / 2 * 2 * TILE_BYTES * TILE_ROWS +
                                   i % 2 * TILE_BYTES),
                  2 * TILE_BYTES);
}

/* ---- vectors ---- */

#define BLOCK      8  /* rows of sums in registers */
#define LANES      16 /* words of a vector: a half of the columns */
#define N_BLOCKS   (2 * TILE_ROWS / BLOCK)
#define CHAINS     4 /* of sums that do not wait for each other, a column */
#define TURN_SIGNS 0x80808080 /* bytes less, or more, by 128 */

struct dot {
    struct llvm_emit *e;
    enum uop_dtype dtype; /* of the factors */
    LLVMTypeRef type, words;
    LLVMValueRef rows, columns; /* where they begin */
    int64_t row_bytes, k_bytes;
};

/* A loop of n steps that changes some variables. */
struct dot_loop {
    LLVMBasicBlockRef before, body;
    LLVMValueRef n;
};

static struct dot_loop
open_loop(struct llvm_emit *e)
{
    struct dot_loop l = {e->ll->GetInsertBlock(e->b), llvm_new_block(e), NULL};

    e->ll->BuildBr(e->b, l.body);
    e->ll->PositionBuilderAtEnd(e->b, l.body);
    l.n = e->ll->BuildPhi(e->b, e->t_i64, "");
    llvm_add_incoming(e, l.n, llvm_i64(e, 0), l.before);
    return l;
}

static LLVMValueRef
open_variable(struct llvm_emit *e, const struct dot_loop *l, LLVMTypeRef type,
              LLVMValueRef first)
{
    LLVMValueRef phi = e->ll->BuildPhi(e->b, type, "");

    llvm_add_incoming(e, phi, first, l->before);
    return phi;
}

/* Variables phi[] are next[] in the next of the steps. */
static void
close_loop(struct llvm_emit *e, const struct dot_loop *l, int64_t step,
           int64_t end, const LLVMValueRef *phi, const LLVMValueRef *next,
           uint32_t n)
{
    LLVMBasicBlockRef last = e->ll->GetInsertBlock(e->b),
                      exit = llvm_new_block(e);
    LLVMValueRef at, more;
    uint32_t i;

    assert(step > 0 && end % step == 0);
    at = e->ll->BuildBinOp(e->b, LLVMAdd, l->n, llvm_i64(e, step), "");
    llvm_add_incoming(e, l->n, at, last);
    for (i = 0; i < n; i++)
        llvm_add_incoming(e, phi[i], next[i], last);
    more = e->ll->BuildICmp(e->b, LLVMIntULT, at, llvm_i64(e, end), "");
    e->ll->BuildCondBr(e->b, more, l->body, exit);
    e->ll->PositionBuilderAtEnd(e->b, exit);
}

static LLVMValueRef
times(struct llvm_emit *e, LLVMValueRef a, int64_t b)
{
    return e->ll->BuildBinOp(e->b, LLVMMul, a, llvm_i64(e, b), "");
}

static LLVMValueRef
behind(struct llvm_emit *e, LLVMValueRef at, LLVMValueRef bytes)
{
    return e->ll->BuildGEP2(e->b, e->t_i8, at, &bytes, 1, "");
}

static LLVMValueRef
load_aligned(struct llvm_emit *e, LLVMTypeRef type, LLVMValueRef at,
             unsigned align)
{
    LLVMValueRef v = e->ll->BuildLoad2(e->b, type, at, "");

    e->ll->SetAlignment(v, align);
    return v;
}

/* The columns' words of the step at n. */
static void
load_tile_columns(const struct dot *d, LLVMValueRef n, LLVMValueRef *out)
{
    struct llvm_emit *e = d->e;
    LLVMValueRef at = behind(e, d->columns, times(e, n, LANES));
    uint32_t i;

    for (i = 0; i < 2; i++)
        out[i] = load_aligned(e, d->words,
                              bytes_behind(e, at, i * d->k_bytes * LANES), 64);
}

/* sum + what the words of rows and columns make. Where both have signs, or
 * none, the rows' were turned: the instruction wants one of each. */
static LLVMValueRef
add_words(const struct dot *d, LLVMValueRef sum, LLVMValueRef row,
          LLVMValueRef column)
{
    struct llvm_emit *e = d->e;
    LLVMValueRef args[3] = {sum, row, column};
    LLVMTypeRef halves;

    if (d->dtype == UOP_BF16) {
        halves =
            e->ll->VectorType(e->ll->BFloatTypeInContext(e->ctx), 2 * LANES);
        args[1] = e->ll->BuildCast(e->b, LLVMBitCast, row, halves, "");
        args[2] = e->ll->BuildCast(e->b, LLVMBitCast, column, halves, "");
        return llvm_intrinsic(e, "llvm.x86.avx512bf16.dpbf16ps.512", NULL, 0,
                              args, 3);
    }
    if (d->dtype == UOP_U8) {
        args[1] = column;
        args[2] = row;
    }
    return llvm_intrinsic(e, "llvm.x86.avx512.vpdpbusd.512", NULL, 0, args, 3);
}

/* What sums begin with: of bytes what turning the rows' signs adds to them,
 * which is 128 times the columns' sum, the other way round. */
static void
first_sums(const struct dot *d, LLVMValueRef *out)
{
    struct llvm_emit *e = d->e;
    LLVMValueRef phi[2 * CHAINS], next[2 * CHAINS], column[2],
        one = llvm_splat(e, llvm_i32(e, 0x01010101), LANES),
        scale = llvm_splat(e, llvm_i32(e, d->dtype == UOP_U8 ? 128u : -128u),
                           LANES);
    uint32_t n = d->k_bytes % (CHAINS * BYTES) == 0 ? 2 * CHAINS : 2, i;
    struct dot_loop l;

    out[0] = out[1] = e->ll->ConstNull(d->type);
    if (d->dtype == UOP_BF16)
        return;
    l = open_loop(e);
    for (i = 0; i < n; i++)
        phi[i] = open_variable(e, &l, d->type, out[0]);
    for (i = 0; i < n; i++) {
        if (i % 2 == 0)
            load_tile_columns(d,
                              e->ll->BuildBinOp(e->b, LLVMAdd, l.n,
                                                llvm_i64(e, i / 2 * BYTES), ""),
                              column);
        next[i] = add_words(d, phi[i], one, column[i % 2]);
    }
    close_loop(e, &l, n / 2 * BYTES, d->k_bytes, phi, next, n);
    for (i = 2; i < n; i++)
        next[i % 2] =
            e->ll->BuildBinOp(e->b, LLVMAdd, next[i % 2], next[i], "");
    for (i = 0; i < 2; i++)
        out[i] = e->ll->BuildBinOp(e->b, LLVMMul, next[i], scale, "");
}

/* Sums of the rows from `rows` on. */
static void
sum_block(const struct dot *d, LLVMValueRef rows, const LLVMValueRef *first,
          LLVMValueRef *sums)
{
    struct llvm_emit *e = d->e;
    struct dot_loop l = open_loop(e);
    LLVMValueRef phi[2 * BLOCK], column[2], word,
        turn = llvm_splat(e, llvm_i32(e, TURN_SIGNS), LANES);
    uint32_t i;

    for (i = 0; i < 2 * BLOCK; i++)
        phi[i] = open_variable(e, &l, d->type, first[i % 2]);
    load_tile_columns(d, l.n, column);
    rows = behind(e, rows, l.n);
    for (i = 0; i < 2 * BLOCK; i++) {
        if (i % 2 == 0) {
            word = load_aligned(e, e->t_i32,
                                bytes_behind(e, rows, i / 2 * d->row_bytes), 1);
            word = llvm_splat(e, word, LANES);
            if (d->dtype != UOP_BF16)
                word = e->ll->BuildBinOp(e->b, LLVMXor, word, turn, "");
        }
        sums[i] = add_words(d, phi[i], word, column[i % 2]);
    }
    close_loop(e, &l, BYTES, d->k_bytes, phi, sums, 2 * BLOCK);
}

static void
emit_vectors(struct llvm_emit *e, const struct uop *u, const LLVMValueRef *at)
{
    int64_t size = uop_dtype_infos[u->src[2]->dtype].size_bytes;
    LLVMValueRef first[2], sums[2 * BLOCK], rows, to, store;
    struct dot_loop l;
    struct dot d = {
        .e = e,
        .dtype = u->src[2]->dtype,
        .words = e->ll->VectorType(e->t_i32, LANES),
        .columns = at[2],
        .row_bytes = u->src[6]->arg.i * size,
        .k_bytes = u->arg.i * size,
    };
    uint32_t i;

    assert(d.k_bytes % BYTES == 0);
    d.type = d.dtype == UOP_BF16 ? e->ll->VectorType(e->t_f32, LANES) : d.words;
    first_sums(&d, first);
    l = open_loop(e);
    rows = behind(e, at[1], times(e, l.n, BLOCK * d.row_bytes));
    to = behind(e, at[0], times(e, l.n, (int64_t)2 * BLOCK * TILE_BYTES));
    sum_block(&d, rows, first, sums);
    for (i = 0; i < 2 * BLOCK; i++) {
        store = e->ll->BuildStore(e->b, sums[i],
                                  bytes_behind(e, to, (int64_t)i * TILE_BYTES));
        e->ll->SetAlignment(store, 64);
    }
    close_loop(e, &l, 1, N_BLOCKS, NULL, NULL, 0);
}

void
llvm_host_tiles(struct llvm_emit *e, const struct uop *u,
                const LLVMValueRef *at)
{
    const struct lower_target *target = e->target;
    enum uop_dtype dtype = u->src[2]->dtype;

    assert(target->tiles_k[dtype] > 0);
    /* steps of a register, or of a word */
    if (target->tiles_k[dtype] * uop_dtype_infos[dtype].size_bytes == BYTES)
        emit_vectors(e, u, at);
    else
        emit_registers(e, u, at);
}

LLVMValueRef
llvm_host_byte_dot(struct llvm_emit *e, const struct uop *u, LLVMValueRef *v)
{
    const struct lower_target *target = e->target;
    LLVMTypeRef type = e->ll->VectorType(e->t_i32, u->lanes);
    uint32_t i;

    if (!target->has_byte_dots || u->lanes != LANES)
        return NULL;
    for (i = 1; i < 3; i++)
        v[i] = e->ll->BuildCast(e->b, LLVMBitCast, v[i], type, "");
    return llvm_intrinsic(e, "llvm.x86.avx512.vpdpbusd.512", NULL, 0, v, 3);
}
