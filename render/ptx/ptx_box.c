/* TMA_COPY: cp.async.bulk.tensor, by which the card itself copies rows of a
 * matrix to shared memory and says so to an mbarrier.
 *
 * A tensor map, 128 bytes in global memory, says where it copies from. Ours are
 * constants: matrices of one box, with two further dimensions, of 16 bytes and
 * of a MiB, that begin at address 0: the box's address is where it lies in
 * these. (Where a box lies partly outside of a map's matrix, the device also
 * reads where that begins. observed: H100, 2026-11-23: a fault at address 0.)
 *
 * Boxes of one COMMIT have an mbarrier, in turns: each box adds its bytes to
 * what that expects, COMMIT arrives. Which turn it is, is counted in a register
 * of every thread. A BARRIER takes down which one is to be awaited, the next
 * WGMMA awaits it: what threads do in between hides some of the wait.
 * src: PTX ISA, mbarrier and cp.async.bulk.tensor. */
#include "render/ptx/ptx_internal.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "uops/wmma.h"

/* more than COMMITs are under way */
#define MBARRIERS (PTX_MBARRIER_BYTES / 8)
#define Z_LOG2    4  /* of bytes: the third dimension's, */
#define W_LOG2    20 /* and the fourth's, which reaches all addresses */
#define MAX_W     (UINT32_C(1) << 28)

/* ---- tensor maps ---- */

/* src: what ptxas 13.0 makes of each tensormap.replace. observed: H100,
 * 2026-11-23: CUDA's driver writes the same, and behind it what the card does
 * not read: the box's bytes, and 1024 of these swizzles. */
static void
make_map(const struct uop *u, struct ptx_map *out)
{
    uint32_t size = uop_dtype_infos[u->src[0]->dtype].size_bytes, i;
    const uint64_t n[4] = {UOP_WGMMA_ROW_BYTES / size, (uint64_t)u->arg.i,
                           UINT64_C(1) << (W_LOG2 - Z_LOG2), MAX_W};
    const uint64_t strides[3] = {(uint64_t)u->src[4]->arg.i * size >> 4, 1,
                                 UINT64_C(1) << (W_LOG2 - 4)};
    uint32_t *w = out->words;

    assert(u->op == UOP_TMA_COPY && u->arg.i >= 1 &&
           u->arg.i <= UOP_TMA_COPY_ROWS);
    assert((uint64_t)u->src[4]->arg.i * size % 16 == 0);
    memset(out, 0, sizeof(*out));
    /* dimensions but one, unsigned integers, swizzles of 128 bytes, which L2
     * fetches at once */
    w[2] = 3 << 4 | log2_floor(size) << 7 | 3 << 13 | 2 << 17;
    for (i = 0; i < 3; i++) { /* of 16 bytes */
        w[3 + i] = (uint32_t)strides[i];
        w[7] |= (uint32_t)(strides[i] >> 32) << 4 * i;
    }
    for (i = 0; i < 4; i++)
        w[8 + i] = (uint32_t)(n[i] - 1);
    w[13] = (uint32_t)(n[0] - 1) << 24; /* the box is as large */
    w[14] = (uint32_t)(n[1] - 1);
}

bell_status
ptx_box_maps(const struct lower_program *p, struct arena *arena,
             struct ptx_map **out_maps, uint32_t *out_n)
{
    struct ptx_map *maps, map;
    uint32_t i, j, most = 0, n = 0;

    for (i = 0; i < p->n_ops; i++)
        most += p->ops[i]->op == UOP_TMA_COPY;
    *out_maps = maps = arena_calloc(arena, most + 1, sizeof(*maps));
    if (!maps)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %u TMA_COPYs",
                         p->name, most);
    for (i = 0; i < p->n_ops; i++) {
        if (p->ops[i]->op != UOP_TMA_COPY)
            continue;
        make_map(p->ops[i], &map);
        for (j = 0; j < n && memcmp(&maps[j], &map, sizeof(map)); j++)
            ;
        if (j == n)
            maps[n++] = map;
    }
    *out_n = n;
    return BELL_OK;
}

static uint32_t
find_map(const struct ptx_emit *e, const struct uop *u)
{
    struct ptx_map map;
    uint32_t i;

    make_map(u, &map);
    for (i = 0; memcmp(&e->maps[i], &map, sizeof(map)); i++)
        ;
    assert(i < e->n_maps);
    return i;
}

void
ptx_put_maps(const struct ptx_emit *e, struct render_text *t)
{
    uint32_t i, j;

    for (i = 0; i < e->n_maps; i++) {
        render_put(t, ".global .align %u .b32 map%u[%u] = {",
                   (unsigned)sizeof(*e->maps), i, PTX_MAP_WORDS);
        for (j = 0; j < PTX_MAP_WORDS; j++)
            render_put(t, j ? ", 0x%x" : "0x%x", e->maps[i].words[j]);
        render_put(t, "};\n");
    }
}

/* ---- turns ---- */

/* The mbarrier of turn number `turn`. */
static struct ptx_opnd
mbarrier_of(struct ptx_emit *e, struct ptx_opnd turn)
{
    struct ptx_opnd r = ptx_reg(e, PTX_B32);

    assert(!turn.is_imm && turn.cls == PTX_B32);
    PTX_OP(e, "and.b32 %, %, %", r, turn, ptx_imm(PTX_B32, MBARRIERS - 1));
    PTX_OP(e, "mad.lo.s32 %, %, 8, %", r, r, e->mbarriers);
    return r;
}

void
ptx_begin_boxes(struct ptx_emit *e)
{
    struct ptx_opnd tid = ptx_reg(e, PTX_B32), other = ptx_reg(e, PTX_B32);
    uint32_t i;

    assert(e->n_maps > 0);
    e->turn = ptx_reg(e, PTX_B32);
    e->awaited = ptx_reg(e, PTX_B32);
    e->is_first = ptx_reg(e, PTX_PRED);
    ptx_mov(e, e->turn, ptx_imm(PTX_B32, 0));
    ptx_mov(e, e->awaited, ptx_imm(PTX_B32, 0));
    PTX_OP(e, "mov.u32 %, %%tid.x", tid);
    for (i = 1; i < 3; i++) {
        if (e->prog->local[i] == 1)
            continue;
        PTX_OP(e, i == 1 ? "mov.u32 %, %%tid.y" : "mov.u32 %, %%tid.z", other);
        PTX_OP(e, "or.b32 %, %, %", tid, tid, other);
    }
    PTX_OP(e, "setp.eq.s32 %, %, 0", e->is_first, tid);
    for (i = 0; i < MBARRIERS; i++)
        PTX_OP(e, "@% mbarrier.init.shared::cta.b64 [%+%], 1", e->is_first,
               e->mbarriers, ptx_imm(PTX_B32, 8 * i));
    PTX_OP(e, "@% fence.mbarrier_init.release.cluster", e->is_first);
}

void
ptx_commit_boxes(struct ptx_emit *e)
{
    PTX_OP(e, "@% mbarrier.arrive.shared::cta.b64 _, [%]", e->is_first,
           mbarrier_of(e, e->turn));
    PTX_OP(e, "add.s32 %, %, 1", e->turn, e->turn);
}

void
ptx_note_boxes(struct ptx_emit *e, const struct uop *barrier)
{
    assert(barrier->op == UOP_BARRIER || barrier->op == UOP_PINGPONG);
    assert((uint64_t)barrier->arg.i < MBARRIERS);
    PTX_OP(e, "add.s32 %, %, %", e->awaited, e->turn,
           ptx_imm(PTX_B32, (uint64_t)(-1 - barrier->arg.i)));
    e->is_box_awaited = true;
}

void
ptx_await_boxes(struct ptx_emit *e)
{
    struct ptx_opnd at, phase, done;

    if (!e->is_box_awaited)
        return;
    e->is_box_awaited = false;
    at = mbarrier_of(e, e->awaited);
    phase = ptx_reg(e, PTX_B32);
    done = ptx_reg(e, PTX_PRED);
    PTX_OP(e, "shr.u32 %, %, %", phase, e->awaited,
           ptx_imm(PTX_B32, log2_floor(MBARRIERS)));
    PTX_OP(e, "and.b32 %, %, 1", phase, phase);
    render_put(&e->body, "$box%u:\n", e->n_box_waits);
    PTX_OP(e, "mbarrier.try_wait.parity.shared::cta.b64 %, [%], %", done, at,
           phase);
    render_put(&e->body, "\t@!%%p%u bra $box%u;\n", done.reg, e->n_box_waits++);
}

/* ---- boxes ---- */

/* A 32-bit field of a 64-bit value. */
static struct ptx_opnd
field(struct ptx_emit *e, struct ptx_opnd v, uint32_t from, uint32_t n)
{
    struct ptx_opnd high = ptx_reg(e, PTX_B64), r = ptx_reg(e, PTX_B32);

    assert(v.cls == PTX_B64 && n > 0 && n <= 32 && from + n <= 64);
    PTX_OP(e, "shr.u64 %, %, %", high, v, ptx_imm(PTX_B32, from));
    PTX_OP(e, "cvt.u32.u64 %, %", r, high);
    if (n < 32)
        PTX_OP(e, "and.b32 %, %, %", r, r,
               ptx_imm(PTX_B32, (UINT32_C(1) << n) - 1));
    return r;
}

bell_status
ptx_emit_box(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_opnd gate, at, map, address, mbarrier;
    struct ptx_place to, from;
    struct ptx_value v;
    uint32_t size;

    BELL_TRY(ptx_find_place(e, u, 0, &to));
    BELL_TRY(ptx_find_place(e, u, 2, &from));
    assert(to.memory->op == UOP_LOCAL && from.memory->op == UOP_PARAM);
    size = from.elem_bytes;
    if ((from.align | (uint64_t)from.first) * size % 16 ||
        (to.align | (uint64_t)to.first) * size % UOP_WGMMA_ALIGN)
        return ptx_refuse(e, u, "it may begin anywhere");
    BELL_TRY(ptx_value_of(e, u->src[5], &v));
    gate = ptx_in_reg(e, v.lanes[0]);
    /* ptxas makes loops of it, which other warps need not go through */
    render_put(&e->body, "\t@!%%p%u bra $nobox%u;\n", gate.reg, e->n_boxes);
    at = ptx_reg(e, PTX_B32);
    PTX_OP(e, "add.s32 %, %, %", at, to.base,
           ptx_imm(PTX_B32, (uint64_t)to.first * size));
    address = ptx_reg(e, PTX_B64);
    PTX_OP(e, "add.s64 %, %, %", address, from.base,
           ptx_imm(PTX_B64, (uint64_t)from.first * size));
    map = ptx_reg(e, PTX_B64);
    render_put(&e->body, "\tmov.u64 %%rd%u, map%u;\n", map.reg, find_map(e, u));
    mbarrier = mbarrier_of(e, e->turn);
    PTX_OP(e, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%], %", mbarrier,
           ptx_imm(PTX_B32, (uint64_t)u->arg.i * UOP_WGMMA_ROW_BYTES));
    PTX_OP(e,
           "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier"
           "::complete_tx::bytes [%], [%, {0, 0, %, %}], [%]",
           at, map, field(e, address, Z_LOG2, W_LOG2 - Z_LOG2),
           field(e, address, W_LOG2, 32), mbarrier);
    render_put(&e->body, "$nobox%u:\n", e->n_boxes++);
    return BELL_OK;
}
