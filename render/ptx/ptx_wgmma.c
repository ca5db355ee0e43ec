/* WGMMA: wgmma.mma_async of four warps, with both operands in LOCAL memory, or
 * A in registers.
 *
 * An ACC's registers are the instruction's, so nothing moves between the
 * steps. Every WGMMA is a group of its own for wgmma.wait_group. src: PTX ISA,
 * Asynchronous Warpgroup Level Matrix Instructions; both layouts on an H100.
 */
#include "render/ptx/ptx_internal.h"

#include <assert.h>

#include "base/bits.h"
#include "uops/wmma.h"

#define SWIZZLE_128B (UINT32_C(1) << 30) /* of a descriptor's upper half */
#define ATOM_BYTES   1024u               /* 8 rows of 128 bytes */
#define MAX_WORDS    32                  /* of A that a thread holds */

static const struct {
    const char *name;
    bool is_half; /* operands may be turned */
} types[UOP_DTYPE_COUNT] = {
    [UOP_F16] = {"f16", true},      [UOP_BF16] = {"bf16", true},
    [UOP_F32] = {"tf32", false},    [UOP_F8E4M3] = {"e4m3", false},
    [UOP_F8E5M2] = {"e5m2", false},
};

/* The matrix descriptor of the tile in src[i]; what the address, over 16, is
 * for each further instruction. */
static bell_status
put_descriptor(struct ptx_emit *e, const struct uop *u, uint32_t i, bool turned,
               struct ptx_opnd *out, uint32_t *out_step)
{
    struct uop_wgmma w = uop_wgmma_shape(u->arg.i);
    uint32_t elem = uop_dtype_infos[u->src[i]->dtype].size_bytes;
    /* turned: from all steps of the first outputs to those of the next */
    uint32_t lead = turned ? w.k * w.pieces * UOP_WGMMA_ROW_BYTES / 16 : 1;
    struct ptx_opnd low = ptx_reg(e, PTX_B32);
    const uint64_t *local;
    struct ptx_place at;

    assert(lead < 1u << 14 && w.pieces > 0);
    BELL_TRY(ptx_find_place(e, u, i, &at));
    local = map_get(&e->locals, at.memory->id);
    if (!local)
        return ptx_refuse(e, u, "the operand is not in LOCAL memory");
    if ((at.align | (uint64_t)at.first) & (UOP_WGMMA_ALIGN / elem - 1) ||
        (*local >> 32) % UOP_WGMMA_ALIGN)
        return ptx_refuse(e, u, "the operand may begin anywhere");
    if (at.first) {
        PTX_OP(e, "add.s32 %, %, %", low, at.base,
               ptx_imm(PTX_B32, (uint64_t)at.first * elem));
        at.base = low;
    }
    *out = ptx_reg(e, PTX_B64);
    PTX_OP(e, "shr.u32 %, %, 4", low, at.base);
    PTX_OP(e, "or.b32 %, %, %", low, low, ptx_imm(PTX_B32, lead << 16));
    PTX_OP(e, "mov.b64 %, {%, %}", *out, low,
           ptx_in_reg(e, ptx_imm(PTX_B32, SWIZZLE_128B | ATOM_BYTES / 16)));
    *out_step = turned ? w.k * UOP_WGMMA_ROW_BYTES / 16 : w.k * elem / 16;
    return BELL_OK;
}

/* An instruction; A is a descriptor, or four registers. */
static void
put_one(struct ptx_emit *e, const struct uop *u, const struct ptx_value *acc,
        const struct ptx_opnd *a, struct ptx_opnd b, struct ptx_opnd adds)
{
    struct uop_wgmma w = uop_wgmma_shape(u->arg.i);
    bool held = u->op == UOP_WGMMA_HELD;
    uint32_t i;

    assert(uop_memory(u->src[0])->lanes == w.n / 2);
    render_put(&e->body, "\twgmma.mma_async.sync.aligned.m64n%uk%u.f32.%s.%s {",
               w.n, w.k, types[u->src[1]->dtype].name,
               types[u->src[held ? 2 : 3]->dtype].name);
    for (i = 0; i < w.n / 2; i++)
        render_put(&e->body, i ? ", %%f%u" : "%%f%u", acc->lanes[i].reg);
    if (held)
        render_put(&e->body, "}, {%%r%u, %%r%u, %%r%u, %%r%u}", a[0].reg,
                   a[1].reg, a[2].reg, a[3].reg);
    else
        render_put(&e->body, "}, %%rd%u", a[0].reg);
    render_put(&e->body, ", %%rd%u, %%p%u, 1, 1", b.reg, adds.reg);
    if (types[u->src[1]->dtype].is_half && !held)
        render_put(&e->body, ", %d", w.a_turned);
    if (types[u->src[1]->dtype].is_half)
        render_put(&e->body, ", %d", w.b_turned);
    render_put(&e->body, ";\n");
}

/* The descriptor, or what is `by` further on. */
static struct ptx_opnd
advance(struct ptx_emit *e, struct ptx_opnd descriptor, uint32_t by)
{
    struct ptx_opnd next;

    if (!by)
        return descriptor;
    next = ptx_reg(e, PTX_B64);
    PTX_OP(e, "add.s64 %, %, %", next, descriptor, ptx_imm(PTX_B64, by));
    return next;
}

/* The words of A that threads hold, before the fence. */
static bell_status
pack_held(struct ptx_emit *e, const struct uop *u, struct ptx_opnd *out)
{
    struct ptx_value v;
    uint32_t i;

    assert(u->src[1]->lanes % 2 == 0 && u->src[1]->lanes <= 2 * MAX_WORDS);
    BELL_TRY(ptx_value_of(e, u->src[1], &v));
    for (i = 0; i < u->src[1]->lanes; i += 2)
        out[i / 2] = ptx_in_reg(e, ptx_pack(e, v.lanes + i, 2));
    return BELL_OK;
}

bell_status
ptx_emit_wgmma(struct ptx_emit *e, const struct uop *u)
{
    struct uop_wgmma w = uop_wgmma_shape(u->arg.i);
    bool held = u->op == UOP_WGMMA_HELD;
    struct ptx_opnd words[MAX_WORDS], at[2], yes, no, a;
    enum uop_dtype b_dtype = u->src[held ? 2 : 3]->dtype;
    uint32_t step[2] = {0}, i;
    struct ptx_value acc;

    if (!(e->features & PTX_HAS_WGMMA) || !types[u->src[1]->dtype].name ||
        !types[b_dtype].name || (held && u->src[1]->lanes > 2 * MAX_WORDS))
        return ptx_refuse(e, u, "no such matrix instruction");
    assert(!held || u->src[1]->lanes == 8u * w.pieces);
    BELL_TRY(ptx_value_of(e, uop_memory(u->src[0]), &acc));
    if (held)
        BELL_TRY(pack_held(e, u, words));
    else
        BELL_TRY(put_descriptor(e, u, 1, w.a_turned, &at[0], &step[0]));
    BELL_TRY(put_descriptor(e, u, held ? 2 : 3, w.b_turned, &at[1], &step[1]));
    yes = no = ptx_in_reg(e, ptx_imm(PTX_PRED, 1));
    if (w.sets)
        no = ptx_in_reg(e, ptx_imm(PTX_PRED, 0));
    render_put(&e->body, "\twgmma.fence.sync.aligned;\n");
    for (i = 0; i < w.pieces; i++) {
        a = held ? words[0] : advance(e, at[0], i * step[0]);
        put_one(e, u, &acc, held ? words + 4 * i : &a,
                advance(e, at[1], i * step[1]), i ? yes : no);
    }
    render_put(&e->body, "\twgmma.commit_group.sync.aligned;\n");
    return BELL_OK;
}

/* ---- exchange ---- */

/* In threads whose number has the bit, `a` and in others `b` become what the
 * thread with the other bit has of the one that it keeps not. */
static void
exchange(struct ptx_emit *e, struct ptx_opnd is_set, uint32_t bit,
         struct ptx_opnd *a, struct ptx_opnd *b)
{
    struct ptx_opnd to[2] = {ptx_reg(e, PTX_B32), ptx_reg(e, PTX_B32)},
                    other = ptx_reg(e, PTX_B32);

    assert(is_set.cls == PTX_PRED && is_pow2(bit) && bit < 32);
    PTX_OP(e, "selp.b32 %, %, %, %", other, *a, *b, is_set);
    PTX_OP(e, "shfl.sync.bfly.b32 %, %, %, 31, 0xffffffff", other, other,
           ptx_imm(PTX_B32, bit));
    PTX_OP(e, "selp.b32 %, %, %, %", to[0], other, *a, is_set);
    PTX_OP(e, "selp.b32 %, %, %, %", to[1], *b, other, is_set);
    *a = to[0];
    *b = to[1];
}

void
ptx_emit_quad_turn(struct ptx_emit *e, const struct uop *u,
                   const struct ptx_value *v, struct ptx_opnd *out_lanes)
{
    uint32_t n = u->src[0]->lanes, i;
    struct ptx_opnd words[4],
        lane = ptx_reg(e, PTX_B32), bits,
        is_set[2] = {ptx_reg(e, PTX_PRED), ptx_reg(e, PTX_PRED)};

    assert(n * uop_dtype_infos[u->dtype].size_bytes == 4 && u->lanes == 4 * n);
    PTX_OP(e, "mov.u32 %, %%laneid", lane);
    for (i = 0; i < 2; i++) {
        bits = ptx_reg(e, PTX_B32);
        PTX_OP(e, "and.b32 %, %, %", bits, lane, ptx_imm(PTX_B32, 1u << i));
        PTX_OP(e, "setp.ne.s32 %, %, 0", is_set[i], bits);
    }
    for (i = 0; i < 4; i++)
        words[i] = ptx_in_reg(e, ptx_pack(e, v[i].lanes, n));
    for (i = 0; i < 4; i += 2)
        exchange(e, is_set[0], 1, &words[i], &words[i + 1]);
    for (i = 0; i < 2; i++)
        exchange(e, is_set[1], 2, &words[i], &words[i + 2]);
    for (i = 0; i < u->lanes; i++)
        out_lanes[i] = ptx_reg(e, ptx_class_of(u->dtype));
    for (i = 0; i < 4; i++)
        ptx_unpack(e, u->dtype, words[i], out_lanes + i * n);
}
