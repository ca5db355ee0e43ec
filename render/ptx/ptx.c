/* Walks a program and writes its kernel: header, registers, loops, register
 * variables. The body is written first, so that registers are counted and
 * arguments known when the header is. */
#include "render/ptx/ptx_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/chip.h"
#include "render/render_internal.h"
#include "uops/wmma.h"

/* src: CUDA C++ Programming Guide, compute capabilities */
#define SM_REGS       65536u /* of all chips since sm_50 */
#define SM_GROUPS     16u /* that fit, if they are small; more on some chips */
#define LEAST_THREADS 1024u /* of an SM, at once: sm_75 */

static bell_status
unknown_target(const struct ptx_target *target)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "sm_%u%s is not known; known: sm_80 sm_86 sm_89 sm_90 "
                     "sm_90a sm_100 sm_100a sm_120 sm_120a",
                     target->sm, target->is_arch_specific ? "a" : "");
}

/* NULL: an SM that we have no figures of. */
static const struct chip_arch *
arch_of(const struct ptx_target *target)
{
    char name[16];

    snprintf(name, sizeof(name), "sm_%u", target->sm);
    return chip_arch_find(name);
}

bell_status
render_ptx_lower_target(const struct ptx_target *target,
                        struct lower_target *out_target)
{
    unsigned features = ptx_features(target);
    const struct chip_arch *arch = arch_of(target);
    struct lower_target t = {
        .vector_bytes = 16,
        .n_vector_regs = 32, /* 16 bytes each: half of a thread's registers */
        .n_threads = 1024,
        .l1_bytes = 128 * 1024,
        .l2_bytes = 4 * 1024 * 1024,
        .has_fma = true,
        .has_f16 = true,
        .has_bf16 = true,
        .has_f8 = features & PTX_HAS_F8,
        .is_approx = target->approx,
        .rounds_approx = true,
        .is_tf32 = target->tf32,
        .small_math =
            1u << UOP_F16 | (features & PTX_HAS_BF16_MATH ? 1u << UOP_BF16 : 0),
        .narrow_index = true,
        .is_gpu = true,
        .warp_lanes = 32,
        .n_units = 128,
        .max_threads = 1024,
        .max_regs = 255,
        .max_shared_bytes = 48 * 1024,
        .max_grid = {INT32_MAX, 65535, 65535},
        .matrix_k = {[UOP_F16] = 16,
                     [UOP_BF16] = 16,
                     [UOP_F64] = 4,
                     [UOP_I8] = 32,
                     [UOP_U8] = 32},
        .matrix_layout = UOP_WMMA_NV,
        .has_wmma_rows = true,
        .copy_bytes = target->arg_align_bytes < 4    ? 0
                      : target->arg_align_bytes < 16 ? target->arg_align_bytes
                                                     : 16,
    };

    if (!render_ptx_version(target))
        return unknown_target(target);
    t.max_stage_bytes = arch ? arch->group_shared_bytes : 0;
    snprintf(t.name, sizeof(t.name), "sm_%u%s%s%s", target->sm,
             target->is_arch_specific ? "a" : "", target->tf32 ? "-tf32" : "",
             target->approx ? "-approx" : "");
    if (target->tf32)
        t.matrix_k[UOP_F32] = 8;
    /* Elsewhere their sums have 13 bits, or nobody says how many. */
    if ((features & PTX_HAS_F8_SUMS) ||
        ((features & PTX_HAS_F8) && target->tf32))
        t.matrix_k[UOP_F8E4M3] = t.matrix_k[UOP_F8E5M2] = 32;
    if (features & PTX_HAS_WGMMA) {
        t.wgmma_k[UOP_F16] = t.wgmma_k[UOP_BF16] = 16;
        if (target->tf32) { /* sums of 8-bit floats are short here */
            t.wgmma_k[UOP_F8E4M3] = t.wgmma_k[UOP_F8E5M2] = 32;
            t.wgmma_k[UOP_F32] = 8;
        }
        t.has_boxes = target->arg_align_bytes >= 16;
    }
    *out_target = t;
    return BELL_OK;
}

/* ---- text ---- */

static const struct {
    const char *prefix, *type;
} class_names[PTX_CLASS_COUNT] = {
    [PTX_PRED] = {"p", "pred"}, [PTX_B16] = {"h", "b16"},
    [PTX_B32] = {"r", "b32"},   [PTX_B64] = {"rd", "b64"},
    [PTX_F32] = {"f", "f32"},   [PTX_F64] = {"fd", "f64"},
};

const char *
ptx_class_type(enum ptx_class cls)
{
    assert(cls < PTX_CLASS_COUNT);
    return class_names[cls].type;
}

/* Floats are written as their bits, so that nothing is rounded twice. ptxas
 * reads no INT64_MIN in decimal. */
static void
put_opnd(struct render_text *t, struct ptx_opnd o)
{
    if (!o.is_imm)
        render_put(t, "%%%s%u", class_names[o.cls].prefix, o.reg);
    else if (o.cls == PTX_F32)
        render_put(t, "0f%08" PRIX32, (uint32_t)o.bits);
    else if (o.cls == PTX_F64)
        render_put(t, "0d%016" PRIX64, o.bits);
    else if (o.cls == PTX_B16)
        render_put(t, "0x%04x", (unsigned)(o.bits & 0xffff));
    else if (o.cls == PTX_B32)
        render_put(t, "%" PRId32, (int32_t)o.bits);
    else if (o.bits == (uint64_t)INT64_MIN)
        render_put(t, "0x8000000000000000");
    else
        render_put(t, "%" PRId64, (int64_t)o.bits);
}

void
ptx_op(struct ptx_emit *e, const char *fmt, const struct ptx_opnd *o)
{
    render_put_bytes(&e->body, fmt[0] == '@' ? "  " : "\t",
                     fmt[0] == '@' ? 2 : 1);
    for (; *fmt; fmt++) {
        if (*fmt != '%') {
            render_put_bytes(&e->body, fmt, 1);
        } else if (fmt[1] == '%') {
            render_put_bytes(&e->body, fmt++, 1);
        } else {
            assert(o->is_imm || o->reg < e->n_regs[o->cls]);
            put_opnd(&e->body, *o++);
        }
    }
    render_put_bytes(&e->body, ";\n", 2);
}

bell_status
ptx_no_memory(const struct ptx_emit *e)
{
    return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                     e->prog->name);
}

bell_status
ptx_refuse(const struct ptx_emit *e, const struct uop *u, const char *why)
{
    char text[120];

    return bell_fail(BELL_E_UNSUPPORTED, "%s: cannot render %s as PTX: %s: %s",
                     e->prog->name, uop_op_infos[u->op].name, why,
                     uop_expr_str(u, text, sizeof(text)));
}

/* ---- operands ---- */

/* PTX has no registers of 8 bits to compute in: small integers live in those
 * of 32, sign- or zero-extended, and small floats in 16 or, as integers, 32
 * bits. */
enum ptx_class
ptx_class_of(unsigned dtype)
{
    assert(dtype < UOP_DTYPE_COUNT && dtype != UOP_VOID);
    switch (dtype) {
    case UOP_BOOL:
        return PTX_PRED;
    case UOP_F16:
    case UOP_BF16:
        return PTX_B16;
    case UOP_F32:
        return PTX_F32;
    case UOP_F64:
        return PTX_F64;
    case UOP_I64:
    case UOP_U64:
        return PTX_B64;
    default:
        return PTX_B32;
    }
}

struct ptx_opnd
ptx_reg(struct ptx_emit *e, enum ptx_class cls)
{
    assert(cls < PTX_CLASS_COUNT);
    return (struct ptx_opnd){.cls = (uint8_t)cls, .reg = e->n_regs[cls]++};
}

struct ptx_opnd
ptx_imm(enum ptx_class cls, uint64_t bits)
{
    return (struct ptx_opnd){.cls = (uint8_t)cls, .is_imm = true, .bits = bits};
}

struct ptx_opnd
ptx_const(unsigned dtype, union uop_arg arg)
{
    enum ptx_class cls = ptx_class_of(dtype);

    if (dtype == UOP_F64 || !uop_dtype_infos[dtype].is_float)
        return ptx_imm(cls, arg.bits);
    return ptx_imm(cls, uop_float_bits(dtype, arg.f));
}

void
ptx_mov(struct ptx_emit *e, struct ptx_opnd to, struct ptx_opnd from)
{
    char fmt[32];

    assert(!to.is_imm && to.cls == from.cls);
    snprintf(fmt, sizeof(fmt), "mov.%s %%, %%", ptx_class_type(to.cls));
    PTX_OP(e, fmt, to, from);
}

struct ptx_opnd
ptx_in_reg(struct ptx_emit *e, struct ptx_opnd o)
{
    struct ptx_opnd r;

    if (!o.is_imm)
        return o;
    r = ptx_reg(e, o.cls);
    ptx_mov(e, r, o);
    return r;
}

/* ---- values ---- */

uint32_t
ptx_loop_serial(const struct ptx_emit *e)
{
    return e->n_loops ? e->loops[e->n_loops - 1].serial : 0;
}

bool
ptx_loop_is_open(const struct ptx_emit *e, uint32_t serial)
{
    uint32_t i;

    for (i = e->n_loops; i > 0; i--) {
        if (e->loops[i - 1].serial == serial)
            return true;
    }
    return serial == 0;
}

/* Arguments are loaded at the kernel's entry. */
static struct ptx_opnd
load_ptx_arg(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_opnd *arg = &e->args[u->arg.i];

    assert(u->op == UOP_PARAM || u->op == UOP_VAR);
    assert((uint64_t)u->arg.i < (uint64_t)e->prog->n_params + e->prog->n_vars);
    if (e->is_arg_loaded[u->arg.i])
        return *arg;
    *arg = ptx_reg(e, PTX_B64);
    e->is_arg_loaded[u->arg.i] = true;
    render_put(&e->header, "\tld.param.u64 %%rd%u, [p%u];\n", arg->reg,
               (unsigned)u->arg.i);
    if (u->op == UOP_PARAM)
        render_put(&e->header, "\tcvta.to.global.u64 %%rd%u, %%rd%u;\n",
                   arg->reg, arg->reg);
    return *arg;
}

static bell_status
leaf_value(struct ptx_emit *e, const struct uop *u, struct ptx_value *out)
{
    struct ptx_opnd *o = arena_alloc(&e->arena, sizeof(*o));

    if (!o)
        return ptx_no_memory(e);
    *o = u->op == UOP_CONST ? ptx_const(u->dtype, u->arg) : load_ptx_arg(e, u);
    *out = (struct ptx_value){.lanes = o};
    return BELL_OK;
}

/* A value belongs to the loop that it was computed in: behind its end the
 * register may hold another turn's. */
bell_status
ptx_value_of(struct ptx_emit *e, const struct uop *u, struct ptx_value *out)
{
    const uint64_t *at;

    if (u->op == UOP_CONST || u->op == UOP_PARAM || u->op == UOP_VAR)
        return leaf_value(e, u, out);
    at = map_get(&e->index, u->id);
    if (!at || !e->values[*at].lanes ||
        !ptx_loop_is_open(e, e->values[*at].loop))
        return ptx_refuse(e, u, "it is used where it has no value");
    *out = e->values[*at];
    return BELL_OK;
}

static bell_status
set_ptx_value(struct ptx_emit *e, const struct uop *u,
              const struct ptx_value *v)
{
    assert(e->n_values < e->prog->n_ops && !map_get(&e->index, u->id));
    e->values[e->n_values] = *v;
    e->values[e->n_values].loop = ptx_loop_serial(e);
    if (map_put(&e->index, u->id, e->n_values) < 0)
        return ptx_no_memory(e);
    e->n_values++;
    return BELL_OK;
}

/* ---- loops and conditions ---- */

/* A loop of a constant number of turns has no test in front: the assembler
 * sees how often it runs and unrolls it. */
static bell_status
begin_ptx_loop(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_loop *loop = &e->loops[e->n_loops];
    struct ptx_opnd *index = arena_alloc(&e->arena, sizeof(*index)), p;
    struct ptx_value extent, v = {.lanes = index};

    if (!index)
        return ptx_no_memory(e);
    BELL_TRY(ptx_value_of(e, u->src[0], &extent));
    loop->range = u;
    loop->serial = ++e->next_serial;
    loop->counted = u->src[0]->op == UOP_CONST && u->src[0]->arg.i > 0;
    loop->extent = extent.lanes[0];
    *index = loop->index = ptx_reg(e, ptx_class_of(u->dtype));
    assert(loop->index.cls == loop->extent.cls);
    ptx_mov(e, loop->index, ptx_imm(loop->index.cls, 0));
    if (!loop->counted) {
        char fmt[40];
        p = ptx_reg(e, PTX_PRED);
        PTX_OP(e,
               loop->index.cls == PTX_B32 ? "setp.lt.s32 %, %, 1"
                                          : "setp.lt.s64 %, %, 1",
               p, loop->extent);
        snprintf(fmt, sizeof(fmt), "@%% bra $done%u", loop->serial);
        PTX_OP(e, fmt, p);
    }
    render_put(&e->body, "$loop%u:\n", loop->serial);
    e->n_loops++;
    return set_ptx_value(e, u, &v);
}

static bell_status
end_ptx_loop(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_loop *loop = &e->loops[e->n_loops ? e->n_loops - 1 : 0];
    bool narrow = loop->index.cls == PTX_B32;
    struct ptx_opnd p;
    char fmt[40];

    if (e->n_loops == 0 || loop->range != u->src[0])
        return ptx_refuse(e, u, "loops do not nest");
    assert(narrow || loop->index.cls == PTX_B64);
    p = ptx_reg(e, PTX_PRED);
    PTX_OP(e, narrow ? "add.s32 %, %, 1" : "add.s64 %, %, 1", loop->index,
           loop->index);
    PTX_OP(e, narrow ? "setp.lt.s32 %, %, %" : "setp.lt.s64 %, %, %", p,
           loop->index, loop->extent);
    snprintf(fmt, sizeof(fmt), "@%% bra $loop%u", loop->serial);
    PTX_OP(e, fmt, p);
    if (!loop->counted)
        render_put(&e->body, "$done%u:\n", loop->serial);
    e->n_loops--;
    return BELL_OK;
}

/* The number of an IF is what its ENDIF finds as its value. */
static bell_status
begin_ptx_if(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_opnd *mark = arena_alloc(&e->arena, sizeof(*mark));
    struct ptx_value gate, v = {.lanes = mark};
    char fmt[40];

    if (!mark)
        return ptx_no_memory(e);
    BELL_TRY(ptx_value_of(e, u->src[0], &gate));
    *mark = ptx_imm(PTX_B32, ++e->n_ifs);
    snprintf(fmt, sizeof(fmt), "@!%% bra $endif%u", e->n_ifs);
    PTX_OP(e, fmt, ptx_in_reg(e, gate.lanes[0]));
    return set_ptx_value(e, u, &v);
}

static bell_status
end_ptx_if(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_value v;

    BELL_TRY(ptx_value_of(e, u->src[0], &v));
    assert(u->src[0]->op == UOP_IF && v.lanes[0].is_imm);
    render_put(&e->body, "$endif%u:\n", (unsigned)v.lanes[0].bits);
    return BELL_OK;
}

/* ---- register variables ---- */

/* A copy in new registers. */
static bell_status
copy_ptx_value(struct ptx_emit *e, const struct uop *u, const struct uop *from)
{
    struct ptx_opnd *o = arena_alloc(&e->arena, u->lanes * sizeof(*o));
    struct ptx_value src, v = {.lanes = o};
    uint32_t i;

    assert(from->dtype == u->dtype && from->lanes == u->lanes);
    if (!o)
        return ptx_no_memory(e);
    BELL_TRY(ptx_value_of(e, from, &src));
    for (i = 0; i < u->lanes; i++) {
        o[i] = ptx_reg(e, ptx_class_of(u->dtype));
        ptx_mov(e, o[i], src.lanes[i]);
    }
    return set_ptx_value(e, u, &v);
}

static bell_status
set_ptx_acc(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_value acc, v;
    uint32_t i;

    assert(uop_memory(u->src[0])->op == UOP_ACC);
    BELL_TRY(ptx_value_of(e, uop_memory(u->src[0]), &acc));
    BELL_TRY(ptx_value_of(e, u->src[1], &v));
    for (i = 0; i < u->src[1]->lanes; i++)
        ptx_mov(e, acc.lanes[i], v.lanes[i]);
    return BELL_OK;
}

/* ---- ops ---- */

/* A coordinate of size 1 is 0, without a register. */
static bell_status
emit_ptx_special(struct ptx_emit *e, const struct uop *u)
{
    static const char *const names[] = {"ctaid.x", "ctaid.y", "ctaid.z", NULL,
                                        "tid.x",   "tid.y",   "tid.z"};
    struct ptx_opnd *o = arena_alloc(&e->arena, sizeof(*o));
    struct ptx_value v = {.lanes = o};
    bool is_wide = u->dtype == UOP_I64;

    if (!o)
        return ptx_no_memory(e);
    if (u->arg.i < 0 || u->arg.i > 6 || !names[u->arg.i])
        return ptx_refuse(e, u, "no such coordinate");
    if (u->src[0]->op == UOP_CONST && u->src[0]->arg.i == 1) {
        *o = ptx_imm(is_wide ? PTX_B64 : PTX_B32, 0);
        return set_ptx_value(e, u, &v);
    }
    *o = ptx_reg(e, PTX_B32);
    render_put(&e->body, "\tmov.u32 %%r%u, %%%s;\n", o->reg, names[u->arg.i]);
    if (is_wide)
        *o = ptx_cast(e, UOP_U32, UOP_I64, *o);
    return set_ptx_value(e, u, &v);
}

static bell_status
emit_load(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_opnd *o = arena_alloc(&e->arena, u->lanes * sizeof(*o));
    struct ptx_value v = {.lanes = o};

    if (!o)
        return ptx_no_memory(e);
    if (u->op == UOP_INDEX)
        BELL_TRY(ptx_emit_index(e, u, o));
    else
        BELL_TRY(ptx_emit_load(e, u, o));
    return set_ptx_value(e, u, &v);
}

/* Copied bytes must be there, but for the last groups where there are any.
 * Loops may come back here with copies that are further down. WGMMA reads by
 * another way than threads write. */
static void
emit_ptx_barrier(struct ptx_emit *e, const struct uop *u)
{
    if (e->has_copies && e->has_commits && u->arg.i)
        render_put(&e->body, "\tcp.async.wait_group %d;\n", (int)u->arg.i);
    else if (e->has_copies)
        render_put(&e->body, "\tcp.async.wait_all;\n");
    if (e->has_wgmma && (e->has_copies || e->is_shared_stored))
        render_put(&e->body, "\tfence.proxy.async.shared::cta;\n");
    render_put(&e->body, "\tbar.sync 0;\n");
    if (e->n_maps)
        ptx_note_boxes(e, u);
}

static bell_status
emit_ptx_one(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_value v = {.lanes = NULL};

    switch (u->op) {
    case UOP_CONST:
    case UOP_PARAM:
    case UOP_VAR:
    case UOP_AFTER:
    case UOP_SINK:
    case UOP_LOCAL:
        return BELL_OK;
    case UOP_SPECIAL:
        return emit_ptx_special(e, u);
    case UOP_RANGE:
        return begin_ptx_loop(e, u);
    case UOP_END:
        return end_ptx_loop(e, u);
    case UOP_IF:
        return begin_ptx_if(e, u);
    case UOP_ENDIF:
        return end_ptx_if(e, u);
    case UOP_BARRIER:
        emit_ptx_barrier(e, u);
        return BELL_OK;
    case UOP_PINGPONG:
        ptx_take_turn(e);
        if (e->n_maps)
            ptx_note_boxes(e, u);
        return BELL_OK;
    case UOP_PINGPONG_END:
        ptx_end_turn(e);
        return BELL_OK;
    case UOP_COPY:
        return ptx_emit_copy(e, u);
    case UOP_WMMA_ROWS:
        BELL_TRY(ptx_emit_rows(e, u, &v));
        return set_ptx_value(e, u, &v);
    case UOP_TMA_COPY:
        return ptx_emit_box(e, u);
    case UOP_COMMIT:
        if (e->has_copies)
            render_put(&e->body, "\tcp.async.commit_group;\n");
        if (e->n_maps)
            ptx_commit_boxes(e);
        return BELL_OK;
    case UOP_WGMMA:
    case UOP_WGMMA_HELD:
        ptx_await_boxes(e);
        return ptx_emit_wgmma(e, u);
    case UOP_WGMMA_WAIT:
        render_put(&e->body, "\twgmma.wait_group.sync.aligned %d;\n",
                   (int)u->arg.i);
        return BELL_OK;
    case UOP_ACC:
        return copy_ptx_value(e, u, u->src[0]);
    case UOP_ACC_GET:
        if (ptx_is_in_place(e, u)) {
            BELL_TRY(ptx_value_of(e, uop_memory(u->src[0]), &v));
            return set_ptx_value(e, u, &v);
        }
        return copy_ptx_value(e, u, uop_memory(u->src[0]));
    case UOP_ACC_SET:
        return set_ptx_acc(e, u);
    case UOP_STORE:
        return ptx_emit_store(e, u);
    case UOP_INDEX:
        return emit_load(e, u);
    case UOP_LOAD:
        return emit_load(e, u);
    default:
        BELL_TRY(ptx_emit_op(e, u, &v));
        return set_ptx_value(e, u, &v);
    }
}

/* ---- the module ---- */

static void
note_ptx_ops(struct ptx_emit *e)
{
    uint32_t i;

    for (i = 0; i < e->prog->n_ops; i++) {
        const struct uop *u = e->prog->ops[i];
        e->has_copies |= u->op == UOP_COPY;
        e->has_commits |= u->op == UOP_COMMIT;
        e->has_wgmma |= uop_is_wgmma(u);
        e->has_turns |= u->op == UOP_PINGPONG;
        e->is_shared_stored |=
            u->op == UOP_STORE && uop_memory(u->src[0])->op == UOP_LOCAL;
    }
}

static bell_status
emit_ptx_body(struct ptx_emit *e)
{
    const struct lower_program *p = e->prog;
    const struct uop *bad;
    size_t n_args = (size_t)p->n_params + p->n_vars + 1;
    uint32_t i, n_ranges = 0;

    if ((bad = render_bad_slot(e->prog)) != NULL)
        return ptx_refuse(e, bad, "no such argument");
    note_ptx_ops(e);
    BELL_TRY(render_order(p, false, &e->arena, &e->ops));
    for (i = 0; i < p->n_ops; i++)
        n_ranges += p->ops[i]->op == UOP_RANGE;
    e->values = arena_calloc(&e->arena, p->n_ops + 1, sizeof(*e->values));
    e->loops = arena_calloc(&e->arena, n_ranges + 1, sizeof(*e->loops));
    e->args = arena_calloc(&e->arena, n_args, sizeof(*e->args));
    e->is_arg_loaded = arena_calloc(&e->arena, n_args, 1);
    if (e->arena.failed)
        return ptx_no_memory(e);
    BELL_TRY(ptx_find_uses(e));
    BELL_TRY(ptx_declare_locals(e));
    if (e->n_maps)
        ptx_begin_boxes(e);
    if (e->has_turns)
        ptx_begin_turns(e);
    for (i = 0; i < p->n_ops; i++)
        BELL_TRY(emit_ptx_one(e, e->ops[i]));
    if (e->n_loops)
        return bell_fail(BELL_E_INTERNAL, "%s: %u loops are not closed",
                         p->name, e->n_loops);
    if (e->has_turns)
        ptx_close_turns(e);
    return BELL_OK;
}

/* So many work-groups are to fit an SM that a thread may have the registers
 * that are wanted. Without a number, or with more threads than there are at
 * once, ptxas saves registers, and loads late. */
static unsigned
groups_for(const struct ptx_emit *e)
{
    const struct lower_program *p = e->prog;
    unsigned threads = p->local[0] * p->local[1] * p->local[2];
    unsigned n = SM_REGS / (threads * p->want_regs);
    const struct chip_arch *arch = arch_of(e->target);
    unsigned most =
        (arch ? arch->max_warps * arch->warp_lanes : LEAST_THREADS) / threads;

    assert(threads > 0 && p->want_regs > 0);
    most = most < SM_GROUPS ? most : SM_GROUPS;
    n = n < most ? n : most;
    return n ? n : 1;
}

static void
put_ptx_head(const struct ptx_emit *e, struct render_text *t)
{
    const struct lower_program *p = e->prog;
    unsigned version = render_ptx_version(e->target), i;

    if (version < e->min_version)
        version = e->min_version;
    render_put(t, ".version %u.%u\n.target sm_%u%s\n.address_size 64\n\n",
               version / 10, version % 10, e->target->sm,
               e->target->is_arch_specific ? "a" : "");
    ptx_put_maps(e, t);
    if (e->n_dynamic_bytes)
        render_put(t, ".extern .shared .align %u .b8 dynamic_shared[];\n\n",
                   e->has_wgmma ? UOP_WGMMA_ALIGN : 16);
    render_put(t, ".visible .entry ");
    render_put_bytes(t, p->name, strlen(p->name));
    render_put(t, "(");
    for (i = 0; i < p->n_params + p->n_vars; i++)
        render_put(t, "%s\n\t.param .u64 p%u", i ? "," : "", i);
    render_put(t, "\n)\n.reqntid %u, %u, %u\n", p->local[0], p->local[1],
               p->local[2]);
    if (p->want_regs)
        render_put(t, ".minnctapersm %u\n", groups_for(e));
    render_put(t, "{\n");
    for (i = 0; i < PTX_CLASS_COUNT; i++) {
        if (e->n_regs[i])
            render_put(t, "\t.reg .%s %%%s<%u>;\n", class_names[i].type,
                       class_names[i].prefix, e->n_regs[i]);
    }
}

static bell_status
ptx_finish(struct ptx_emit *e, char **out_text)
{
    struct render_text t = {NULL, 0, 0, false};

    assert(e->n_loops == 0);
    put_ptx_head(e, &t);
    if (e->header.n)
        render_put_bytes(&t, e->header.data, e->header.n);
    if (e->body.n)
        render_put_bytes(&t, e->body.data, e->body.n);
    render_put(&t, "\tret;\n}\n");
    if (t.failed || e->header.failed || e->body.failed || e->arena.failed) {
        host_free(t.data);
        return ptx_no_memory(e);
    }
    *out_text = t.data;
    return BELL_OK;
}

static void
init_maps(struct ptx_emit *e)
{
    map_init(&e->index);
    map_init(&e->locals);
    map_init(&e->in_place);
    map_init(&e->split);
}

static void
fini_maps(struct ptx_emit *e)
{
    map_fini(&e->split);
    map_fini(&e->in_place);
    map_fini(&e->locals);
    map_fini(&e->index);
}

bell_status
render_ptx(const struct lower_program *program, const struct ptx_target *target,
           char **out_text)
{
    struct ptx_emit e = {
        .prog = program, .target = target, .features = ptx_features(target)};
    struct ptx_map *maps = NULL;
    bell_status status;

    if (!render_ptx_version(target))
        return unknown_target(target);
    arena_init(&e.arena);
    init_maps(&e);
    status = ptx_box_maps(program, &e.arena, &maps, &e.n_maps);
    e.maps = maps;
    if (status == BELL_OK)
        status = emit_ptx_body(&e);
    if (status == BELL_OK)
        status = ptx_finish(&e, out_text);
    host_free(e.header.data);
    host_free(e.body.data);
    fini_maps(&e);
    arena_fini(&e.arena);
    return status;
}
