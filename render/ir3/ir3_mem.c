/* LOAD and STORE.
 *
 * A PARAM's address is 64 bits in a pair of neighbours, a LOCAL's is a byte
 * offset; what is constant beside it goes into the instruction (13 bits).
 * Consecutive elements are accessed up to four at once. Elements of 8 and 16
 * bits pass through half registers. Gates become branches.
 */
#include "render/ir3/ir3_emit.h"

#include <assert.h>

#include "base/bits.h"

#define MAX_OFFSET 4095

bell_status
ir3_place_locals(struct ir3_emit *e)
{
    uint64_t offset = 0;
    uint32_t i;

    for (i = 0; i < e->prog->n_ops; i++) {
        const struct uop *u = e->prog->ops[i];
        const struct uop_local *local = u->arg.data;
        if (u->op != UOP_LOCAL)
            continue;
        if (map_put(&e->locals, u->id, offset) < 0)
            return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                             e->prog->name);
        offset += align_up((uint64_t)local->n_elems *
                               uop_dtype_infos[u->dtype].size_bytes,
                           16);
    }
    if (offset > 32768)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: %llu bytes of local memory; a work-group has "
                         "32 KiB",
                         e->prog->name, (unsigned long long)offset);
    e->shared_bytes = (uint32_t)offset;
    return BELL_OK;
}

/* ---- addresses ---- */

/* Where an access goes: an address in registers and bytes beside it. */
struct place {
    bool is_local;
    struct ir3_opnd base; /* of a PARAM a pair; NONE: argument `param` */
    uint32_t param;
    int64_t offset;
    uint32_t elem_bytes;
};

/* The address as a pair of neighbours, or a LOCAL's offset. */
static struct ir3_opnd
base_register(struct ir3_emit *e, struct place *at)
{
    struct ir3_opnd pair;

    assert(at->is_local || at->param < e->prog->n_params);
    if (at->base.kind != IR3_NONE)
        return at->base;
    if (at->is_local) {
        at->base = ir3_in_reg(e, ir3_imm((uint32_t)at->offset));
        at->offset = 0;
        return at->base;
    }
    if (e->args)
        return e->args[at->param];
    pair = ir3_vreg_new(e, 2, false);
    ir3_move(e, pair, ir3_arg_word(e, at->param, 0));
    ir3_move(e, ir3_part(pair, 1), ir3_arg_word(e, at->param, 1));
    return pair;
}

/* at + index * elem_bytes. `is_short`: it is known to be no more than 2^31. */
static struct ir3_opnd
ir3_displace(struct ir3_emit *e, struct place *at, unsigned dtype,
             struct ir3_lane x, bool is_short)
{
    unsigned shift = log2_floor(at->elem_bytes);
    struct ir3_lane base, sum;
    struct ir3_opnd pair;

    assert(is_pow2(at->elem_bytes));
    if (at->is_local) {
        x.lo = ir3_op2(e, IR3_SHL_B, x.lo, ir3_imm(shift));
        return at->base.kind == IR3_NONE
                   ? x.lo
                   : ir3_op2(e, IR3_ADD_U, x.lo, at->base);
    }
    if (at->base.kind == IR3_NONE) {
        base.lo = ir3_arg_word(e, at->param, 0);
        base.hi = ir3_arg_word(e, at->param, 1);
    } else {
        base.lo = at->base;
        base.hi = ir3_part(at->base, 1);
    }
    if (dtype != UOP_I64 && is_short) {
        x.lo = ir3_op2(e, IR3_SHL_B, x.lo, ir3_imm(shift));
        x.hi = ir3_imm(0);
    } else {
        if (dtype != UOP_I64)
            x = ir3_cast(e, dtype, UOP_I64, x);
        x = ir3_shift64(e, UOP_SHL, true, x, ir3_imm(shift));
    }
    sum = ir3_add64(e, x, base);
    pair = ir3_vreg_new(e, 2, false);
    ir3_move(e, pair, sum.lo);
    ir3_move(e, ir3_part(pair, 1), sum.hi);
    return pair;
}

/* Where memory begins, as `u` displaces it. */
static bell_status
find_ir3_base(struct ir3_emit *e, const struct uop *u, struct place *out)
{
    const struct uop *index = uop_index_of(u), *memory = uop_memory(u);
    const uint64_t *local = map_get(&e->locals, memory->id);
    const struct ir3_lane *v;

    if (memory->op != UOP_PARAM && (memory->op != UOP_LOCAL || !local))
        return ir3_refuse(e, u, "it is not memory");
    *out =
        (struct place){.is_local = memory->op == UOP_LOCAL,
                       .param = (uint32_t)memory->arg.i,
                       .offset = local ? (int64_t)*local : 0,
                       .elem_bytes = uop_dtype_infos[memory->dtype].size_bytes};
    if (!index)
        return BELL_OK;
    BELL_TRY(ir3_value_of(e, index, &v));
    out->base = v->lo;
    /* an INDEX of a LOCAL has the LOCAL's own offset in it */
    out->offset = 0;
    return BELL_OK;
}

bell_status
ir3_emit_index(struct ir3_emit *e, const struct uop *u, struct ir3_lane *out)
{
    const struct ir3_lane *v;
    struct ir3_opnd r;
    struct place at;

    assert(u->op == UOP_INDEX && u->src[1]->lanes == 1);
    BELL_TRY(find_ir3_base(e, u->src[0], &at));
    BELL_TRY(ir3_value_of(e, u->src[1], &v));
    r = ir3_displace(e, &at, u->src[1]->dtype, *v, uop_index_is_short(u));
    if (at.is_local && at.offset)
        r = ir3_op2(e, IR3_ADD_U, r, ir3_imm((uint32_t)at.offset));
    out->lo = ir3_in_reg(e, r);
    out->hi = ir3_imm(0);
    return BELL_OK;
}

/* ---- single instructions ---- */

struct ir3_access {
    const struct uop *u;
    struct place at;
    const struct uop *index;
    const struct ir3_lane *indices; /* of a gather; NULL: consecutive */
    int64_t first, step;
    const struct uop *gate_node;
    const struct ir3_lane *gate, *value, *other;
    uint32_t lanes;
    unsigned dtype;
};

static enum ir3_type
ir3_memory_type(unsigned dtype)
{
    switch (uop_dtype_infos[dtype].size_bytes) {
    case 1:
        return IR3_TYPE_U8;
    case 2:
        return IR3_TYPE_U16;
    default:
        return IR3_TYPE_U32;
    }
}

static struct ir3_insn *
add_access(struct ir3_emit *e, const struct ir3_access *a, struct ir3_opnd base,
           int32_t offset, unsigned n)
{
    bool is_store = a->u->op == UOP_STORE;
    struct ir3_insn *in =
        ir3_add(e, a->at.is_local ? (is_store ? IR3_STL : IR3_LDL)
                                  : (is_store ? IR3_STG : IR3_LDG));

    assert(n >= 1 && n <= 4);
    assert(offset >= -MAX_OFFSET - 1 && offset <= MAX_OFFSET);
    assert(base.kind == IR3_REG);
    assert(e->failed || e->vregs[base.v].n >= (a->at.is_local ? 1 : 2));
    in->type = (uint8_t)ir3_memory_type(a->dtype);
    in->n = (uint8_t)n;
    in->off = offset;
    in->src[0] = base;
    return in;
}

/* What half registers hold of an element, in a whole one; and back. */
static struct ir3_opnd
widen(struct ir3_emit *e, unsigned dtype, struct ir3_opnd half)
{
    struct ir3_opnd r = ir3_convert(e, IR3_TYPE_U16, IR3_TYPE_U32, half);

    assert(uop_dtype_infos[dtype].size_bytes < 4);
    return uop_dtype_infos[dtype].is_signed && !uop_dtype_infos[dtype].is_float
               ? ir3_wrap(e, dtype, r)
               : r;
}

static struct ir3_insn *
cut_to(struct ir3_emit *e, struct ir3_opnd half, struct ir3_opnd a)
{
    struct ir3_insn *in;

    a = ir3_in_reg(e, a);
    in = ir3_add(e, IR3_MOV_GPR);
    in->src_type = IR3_TYPE_U32;
    in->type = IR3_TYPE_U16;
    in->dst = half;
    in->src[0] = a;
    return in;
}

/* Loads n elements to lanes. */
static void
load_chunk(struct ir3_emit *e, const struct ir3_access *a, struct ir3_opnd base,
           int32_t offset, unsigned n, struct ir3_lane *out)
{
    unsigned words = ir3_is_64(a->dtype) ? 2 : 1, i;
    bool is_half = ir3_type_is_half(ir3_memory_type(a->dtype));
    struct ir3_opnd to = ir3_vreg_new(e, n * words, is_half);
    struct ir3_insn *in = add_access(e, a, base, offset, n * words);

    assert(n * words <= 4);
    in->dst = to;
    for (i = 0; i < n; i++) {
        out[i].lo = ir3_part(to, i * words);
        out[i].hi = words == 2 ? ir3_part(to, i * words + 1) : ir3_imm(0);
        if (is_half)
            out[i].lo = widen(e, a->dtype, out[i].lo);
    }
}

static void
store_chunk(struct ir3_emit *e, const struct ir3_access *a,
            struct ir3_opnd base, int32_t offset, unsigned n,
            const struct ir3_lane *value)
{
    unsigned words = ir3_is_64(a->dtype) ? 2 : 1, i;
    bool is_half = ir3_type_is_half(ir3_memory_type(a->dtype));
    struct ir3_opnd from = ir3_vreg_new(e, n * words, is_half);

    assert(n * words <= 4);
    for (i = 0; i < n; i++) {
        if (is_half)
            cut_to(e, ir3_part(from, i), value[i].lo);
        else
            ir3_move(e, ir3_part(from, i * words), value[i].lo);
        if (words == 2)
            ir3_move(e, ir3_part(from, i * words + 1), value[i].hi);
    }
    add_access(e, a, base, offset, n * words)->src[1] = from;
}

/* ---- accesses ---- */

static bell_status
take_ir3_apart(struct ir3_emit *e, const struct uop *u, struct ir3_access *a)
{
    assert(u->op == UOP_LOAD || u->op == UOP_STORE);
    *a = (struct ir3_access){.u = u, .index = u->src[1]};
    a->dtype = u->src[0]->dtype;
    a->lanes = u->op == UOP_STORE ? u->src[2]->lanes : u->lanes;
    a->gate_node = u->n_src > 3 ? u->src[3] : NULL;
    if (a->gate_node)
        BELL_TRY(ir3_value_of(e, a->gate_node, &a->gate));
    if (u->n_src > 2)
        BELL_TRY(ir3_value_of(e, u->src[2], &a->value));
    a->other = a->value;
    if (a->index->lanes != 1 && a->index->lanes != a->lanes)
        return ir3_refuse(e, u, "its index has other lanes");
    BELL_TRY(find_ir3_base(e, u->src[0], &a->at));
    if (!uop_index_steps(a->index, &a->first, &a->step))
        BELL_TRY(ir3_value_of(e, a->index, &a->indices));
    return BELL_OK;
}

/* Elements from this lane on that one instruction accesses. */
static unsigned
ir3_chunk_size(const struct ir3_emit *e, const struct ir3_access *a,
               uint32_t lane)
{
    unsigned most = ir3_is_64(a->dtype) ? 2 : 4;

    assert(lane < a->lanes);
    if (e->is_narrow || (a->indices && a->index->lanes > 1) ||
        (!a->indices && a->step != 1) ||
        (a->gate_node && a->gate_node->lanes > 1))
        return 1;
    return a->lanes - lane < most ? a->lanes - lane : most;
}

/* Address and offset of the chunk at this lane. */
static struct ir3_opnd
chunk_base(struct ir3_emit *e, struct ir3_access *a, uint32_t lane,
           struct ir3_opnd *common, int32_t *out_offset)
{
    bool is_gather = a->indices && a->index->lanes > 1;
    struct place at = a->at;
    int64_t offset;

    if (is_gather) {
        *out_offset = at.is_local ? (int32_t)at.offset : 0;
        return ir3_in_reg(
            e, ir3_displace(e, &at, a->index->dtype, a->indices[lane], false));
    }
    if (a->indices) {
        if (common->kind == IR3_NONE)
            *common = ir3_in_reg(
                e, ir3_displace(e, &at, a->index->dtype, a->indices[0], false));
        *out_offset = (int32_t)(lane * at.elem_bytes) +
                      (at.is_local ? (int32_t)at.offset : 0);
        return *common;
    }
    offset = (a->first + (int64_t)lane * a->step) * at.elem_bytes;
    if (at.is_local && at.base.kind == IR3_NONE) {
        /* a constant place: its own register, as its offset is any */
        *out_offset = 0;
        return ir3_in_reg(e, ir3_imm((uint32_t)(at.offset + offset)));
    }
    if (offset >= -MAX_OFFSET && offset <= MAX_OFFSET) {
        if (common->kind == IR3_NONE)
            *common = base_register(e, &at);
        *out_offset = (int32_t)offset;
        return *common;
    }
    *out_offset = 0;
    if (at.is_local)
        return ir3_op2(e, IR3_ADD_U, at.base, ir3_imm((uint32_t)offset));
    at.elem_bytes = 1;
    return ir3_displace(
        e, &at, UOP_I64,
        (struct ir3_lane){ir3_imm((uint32_t)offset),
                          ir3_imm((uint32_t)((uint64_t)offset >> 32))},
        false);
}

/* Loads under a gate go to registers that hold what else the lanes are. */
static void
load_ir3_gated(struct ir3_emit *e, const struct ir3_access *a,
               struct ir3_opnd base, int32_t offset, unsigned n, uint32_t lane,
               struct ir3_lane *out)
{
    uint32_t skip = ir3_label(e),
             gate_lane = a->gate_node->lanes > 1 ? lane : 0;
    bool is_64 = ir3_is_64(a->dtype);
    struct ir3_lane loaded[4];
    unsigned i;

    assert(a->other && n <= ARRAY_LEN(loaded));
    for (i = 0; i < n; i++) {
        out[i].lo = ir3_vreg_new(e, 1, false);
        ir3_move(e, out[i].lo, a->other[lane + i].lo);
        out[i].hi = is_64 ? ir3_vreg_new(e, 1, false) : ir3_imm(0);
        if (is_64)
            ir3_move(e, out[i].hi, a->other[lane + i].hi);
    }
    ir3_branch(e, a->gate[gate_lane].lo, false, skip);
    load_chunk(e, a, base, offset, n, loaded);
    for (i = 0; i < n; i++) {
        ir3_move(e, out[i].lo, loaded[i].lo);
        if (is_64)
            ir3_move(e, out[i].hi, loaded[i].hi);
    }
    ir3_place(e, skip);
}

bell_status
ir3_emit_load(struct ir3_emit *e, const struct uop *u, struct ir3_lane *out)
{
    struct ir3_opnd common = {.kind = IR3_NONE}, base;
    struct ir3_access a;
    int32_t offset;
    uint32_t lane;
    unsigned n;

    BELL_TRY(take_ir3_apart(e, u, &a));
    for (lane = 0; lane < a.lanes; lane += n) {
        n = ir3_chunk_size(e, &a, lane);
        base = chunk_base(e, &a, lane, &common, &offset);
        if (a.gate_node)
            load_ir3_gated(e, &a, base, offset, n, lane, out + lane);
        else
            load_chunk(e, &a, base, offset, n, out + lane);
    }
    if (a.gate_node && e->depth + 1 > e->max_depth)
        e->max_depth = e->depth + 1;
    return BELL_OK;
}

bell_status
ir3_emit_store(struct ir3_emit *e, const struct uop *u)
{
    struct ir3_opnd common = {.kind = IR3_NONE}, base;
    uint32_t lane, skip = 0;
    struct ir3_access a;
    int32_t offset;
    unsigned n;

    BELL_TRY(take_ir3_apart(e, u, &a));
    for (lane = 0; lane < a.lanes; lane += n) {
        n = ir3_chunk_size(e, &a, lane);
        base = chunk_base(e, &a, lane, &common, &offset);
        if (a.gate_node) {
            skip = ir3_label(e);
            ir3_branch(e, a.gate[a.gate_node->lanes > 1 ? lane : 0].lo, false,
                       skip);
        }
        store_chunk(e, &a, base, offset, n, a.value + lane);
        if (a.gate_node)
            ir3_place(e, skip);
    }
    if (a.gate_node && e->depth + 1 > e->max_depth)
        e->max_depth = e->depth + 1;
    return BELL_OK;
}
