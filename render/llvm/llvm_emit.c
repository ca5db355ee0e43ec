/* Walks a program and builds its function: values, loops, conditional code,
 * register variables. The rest is the dialect's.
 *
 * Loops are built in SSA form at once. A scan over the program first finds
 * which variables each loop sets (its "carries"); each gets a phi at the
 * loop's head. A loop with a constant extent of one or more is tested at its
 * end only.
 */
#include "render/llvm/llvm_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "render/render_internal.h"

static bell_status
out_of_memory(const struct llvm_emit *e)
{
    return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                     e->prog->name);
}

bell_status
llvm_refuse(const struct llvm_emit *e, const struct uop *u, const char *why)
{
    char text[120];

    return bell_fail(BELL_E_UNSUPPORTED, "%s: cannot render %s for %s: %s: %s",
                     e->prog->name, uop_op_infos[u->op].name, e->dialect->name,
                     why, uop_expr_str(u, text, sizeof(text)));
}

LLVMTypeRef
llvm_vector(const struct llvm_emit *e, LLVMTypeRef type, unsigned lanes)
{
    assert(lanes > 0);
    return lanes > 1 ? e->ll->VectorType(type, lanes) : type;
}

LLVMTypeRef
llvm_type(const struct llvm_emit *e, unsigned dtype, unsigned lanes)
{
    LLVMTypeRef t;

    switch (dtype) {
    case UOP_BOOL:
        t = e->t_i1;
        break;
    case UOP_I8:
    case UOP_U8:
    case UOP_F8E4M3:
    case UOP_F8E5M2:
    case UOP_F8E4M3Z:
    case UOP_F8E5M2Z:
        t = e->t_i8;
        break;
    case UOP_I16:
    case UOP_U16:
    case UOP_F16:
    case UOP_BF16:
        t = e->t_i16;
        break;
    case UOP_I32:
    case UOP_U32:
        t = e->t_i32;
        break;
    case UOP_F32:
        t = e->t_f32;
        break;
    case UOP_F64:
        t = e->t_f64;
        break;
    default:
        assert(dtype == UOP_I64 || dtype == UOP_U64);
        t = e->t_i64;
        break;
    }
    return llvm_vector(e, t, lanes);
}

LLVMTypeRef
llvm_mem_type(const struct llvm_emit *e, unsigned dtype, unsigned lanes)
{
    return llvm_type(e, dtype == UOP_BOOL ? UOP_U8 : dtype, lanes);
}

LLVMValueRef
llvm_i32(const struct llvm_emit *e, uint32_t value)
{
    return e->ll->ConstInt(e->t_i32, value, 0);
}

LLVMValueRef
llvm_const(const struct llvm_emit *e, unsigned dtype, union uop_arg arg)
{
    LLVMTypeRef type = llvm_type(e, dtype, 1);
    uint64_t bits;

    if (!uop_dtype_infos[dtype].is_float)
        return e->ll->ConstInt(type, (unsigned long long)arg.i, 1);
    bits = uop_float_bits(dtype, arg.f);
    if (dtype == UOP_F64)
        return e->ll->ConstBitCast(e->ll->ConstInt(e->t_i64, arg.bits, 0),
                                   type);
    if (dtype == UOP_F32)
        return e->ll->ConstBitCast(llvm_i32(e, (uint32_t)bits), type);
    return e->ll->ConstInt(type, bits, 0);
}

LLVMValueRef
llvm_splat(struct llvm_emit *e, LLVMValueRef v, unsigned lanes)
{
    LLVMTypeRef type;
    LLVMValueRef first;

    if (lanes == 1)
        return v;
    type = e->ll->VectorType(e->ll->TypeOf(v), lanes);
    first = e->ll->BuildInsertElement(e->b, e->ll->GetPoison(type), v,
                                      llvm_i32(e, 0), "");
    return e->ll->BuildShuffleVector(
        e->b, first, e->ll->GetPoison(type),
        e->ll->ConstNull(e->ll->VectorType(e->t_i32, lanes)), "");
}

LLVMValueRef
llvm_intrinsic(struct llvm_emit *e, const char *name, LLVMTypeRef *types,
               size_t n_types, LLVMValueRef *args, unsigned n_args)
{
    unsigned id = e->ll->LookupIntrinsicID(name, strlen(name));
    LLVMValueRef fn =
        e->ll->GetIntrinsicDeclaration(e->mod, id, types, n_types);
    LLVMTypeRef type = e->ll->IntrinsicGetType(e->ctx, id, types, n_types);

    assert(id != 0);
    return e->ll->BuildCall2(e->b, type, fn, args, n_args, "");
}

/* ---- values ---- */

LLVMValueRef
llvm_i64(const struct llvm_emit *e, int64_t value)
{
    return e->ll->ConstInt(e->t_i64, (unsigned long long)value, 1);
}

uint32_t
llvm_loop_serial(const struct llvm_emit *e)
{
    return e->n_loops ? e->loops[e->n_loops - 1].serial : 0;
}

bool
llvm_loop_is_open(const struct llvm_emit *e, uint32_t serial)
{
    uint32_t i;

    for (i = e->n_loops; i > 0; i--) {
        if (e->loops[i - 1].serial == serial)
            return true;
    }
    return serial == 0;
}

/* Arguments are read at the function's entry, when first used. */
LLVMValueRef
llvm_arg(struct llvm_emit *e, const struct uop *u)
{
    LLVMBasicBlockRef here;

    assert(u->op == UOP_PARAM || u->op == UOP_VAR);
    assert((uint64_t)u->arg.i < (uint64_t)e->prog->n_params + e->prog->n_vars);
    if (!e->args[u->arg.i]) {
        here = e->ll->GetInsertBlock(e->b);
        e->ll->PositionBuilderAtEnd(e->b, e->entry);
        e->args[u->arg.i] = e->dialect->arg(e, u);
        e->ll->PositionBuilderAtEnd(e->b, here);
    }
    return e->args[u->arg.i];
}

bell_status
llvm_value_of(struct llvm_emit *e, const struct uop *u, LLVMValueRef *out_value)
{
    const uint64_t *at = map_get(&e->index, u->id);
    char text[120];

    if (u->op == UOP_CONST) {
        *out_value = llvm_const(e, u->dtype, u->arg);
        return BELL_OK;
    }
    if (u->op == UOP_VAR) {
        *out_value = llvm_arg(e, u);
        return BELL_OK;
    }
    if (!at || !e->values[*at].v || !llvm_loop_is_open(e, e->values[*at].loop))
        return bell_fail(BELL_E_INTERNAL,
                         "%s: %s is used where it has no value: %s",
                         e->prog->name, uop_op_infos[u->op].name,
                         uop_expr_str(u, text, sizeof(text)));
    *out_value = e->values[*at].v;
    return BELL_OK;
}

bell_status
llvm_set_value(struct llvm_emit *e, const struct uop *u, LLVMValueRef v)
{
    assert(e->n_values < e->prog->n_ops && !map_get(&e->index, u->id));
    e->values[e->n_values] =
        (struct llvm_value){.v = v, .loop = llvm_loop_serial(e)};
    if (map_put(&e->index, u->id, e->n_values) < 0)
        return out_of_memory(e);
    e->n_values++;
    return BELL_OK;
}

/* ---- the scan: variables and what sets them ---- */

static bell_status
find_acc(const struct llvm_emit *e, const struct uop *u, uint32_t *out_acc)
{
    const uint64_t *at;

    at = map_get(&e->acc_index, uop_memory(u)->id);
    if (!at)
        return bell_fail(BELL_E_INTERNAL,
                         "%s: a register variable is used "
                         "before its place",
                         e->prog->name);
    *out_acc = (uint32_t)*at;
    return BELL_OK;
}

static bell_status
scan_set(struct llvm_emit *e, const struct uop *u, size_t *cap,
         struct map *seen, const uint32_t *open, uint32_t n_open)
{
    uint32_t acc = 0;

    assert(u->op == UOP_ACC_SET);
    BELL_TRY(find_acc(e, u->src[0], &acc));
    for (; n_open > e->accs[acc].depth; n_open--) {
        uint32_t loop = open[n_open - 1];
        uint64_t key = (uint64_t)loop << 32 | acc;
        if (map_get(seen, key))
            break; /* the loops around it know too */
        if (map_put(seen, key, 1) < 0 ||
            host_grow((void **)&e->carries, cap, e->n_carries + 1,
                      sizeof(*e->carries)) < 0)
            return out_of_memory(e);
        e->carries[e->n_carries++] =
            (struct llvm_carry){.loop = loop, .acc = acc};
    }
    return BELL_OK;
}

static bell_status
scan_acc(struct llvm_emit *e, const struct uop *u, size_t *cap, uint32_t depth)
{
    assert(u->op == UOP_ACC && !map_get(&e->acc_index, u->id));
    if (host_grow((void **)&e->accs, cap, e->n_accs + 1, sizeof(*e->accs)) <
            0 ||
        map_put(&e->acc_index, u->id, e->n_accs) < 0)
        return out_of_memory(e);
    e->accs[e->n_accs++] = (struct llvm_acc){.u = u, .depth = depth};
    return BELL_OK;
}

static bell_status
scan_results(struct llvm_emit *e, const struct uop *u)
{
    uint32_t i;

    for (i = 0; i < u->n_src && u->op != UOP_WMMA; i++) {
        if (u->src[i]->op == UOP_WMMA &&
            map_put(&e->results, u->src[i]->id, 1) < 0)
            return out_of_memory(e);
    }
    return BELL_OK;
}

/* Loop serials count RANGEs and IFs in program order from 1, here and
 * later. */
static bell_status
scan_ops(struct llvm_emit *e, struct map *seen, uint32_t *open)
{
    size_t cap_carries = 0, cap_accs = 0;
    uint32_t n_open = 0, serial = 0, i;

    for (i = 0; i < e->prog->n_ops; i++) {
        const struct uop *u = e->ops[i];
        switch (u->op) {
        case UOP_IF:
        case UOP_RANGE:
            open[n_open++] = ++serial;
            break;
        case UOP_END:
        case UOP_ENDIF:
            if (n_open == 0)
                return bell_fail(BELL_E_INTERNAL, "%s: END without a RANGE",
                                 e->prog->name);
            n_open--;
            break;
        case UOP_ACC:
            BELL_TRY(scan_acc(e, u, &cap_accs, n_open));
            break;
        case UOP_ACC_SET:
            BELL_TRY(scan_set(e, u, &cap_carries, seen, open, n_open));
            break;
        default:
            BELL_TRY(scan_results(e, u));
            break;
        }
    }
    if (n_open)
        return bell_fail(BELL_E_INTERNAL, "%s: %u loops are not closed",
                         e->prog->name, n_open);
    return BELL_OK;
}

/* Groups the carries by loop, keeping their order: a counting sort. */
static bell_status
group_carries(struct llvm_emit *e, uint32_t n_ranges)
{
    uint32_t *begin = arena_calloc(&e->arena, n_ranges + 2, sizeof(*begin));
    struct llvm_carry *sorted =
        host_alloc((e->n_carries + 1) * sizeof(*sorted));
    uint32_t i;

    if (!begin || !sorted) {
        host_free(sorted);
        return out_of_memory(e);
    }
    for (i = 0; i < e->n_carries; i++)
        begin[e->carries[i].loop + 1]++;
    for (i = 1; i < n_ranges + 2; i++)
        begin[i] += begin[i - 1];
    e->carry_begin = begin;
    for (i = 0; i < e->n_carries; i++)
        sorted[begin[e->carries[i].loop]++] = e->carries[i];
    /* begin[l] is now the end of l, which is the begin of l + 1 */
    memmove(begin + 1, begin, (n_ranges + 1) * sizeof(*begin));
    begin[0] = 0;
    assert(begin[n_ranges + 1] == e->n_carries);
    host_free(e->carries);
    e->carries = sorted;
    return BELL_OK;
}

static bell_status
scan_program(struct llvm_emit *e)
{
    uint32_t n_ranges = 0, i, *open;
    struct map seen;
    bell_status status;

    for (i = 0; i < e->prog->n_ops; i++)
        n_ranges += e->ops[i]->op == UOP_RANGE || e->ops[i]->op == UOP_IF;
    open = arena_calloc(&e->arena, n_ranges + 1, sizeof(*open));
    e->loops = arena_calloc(&e->arena, n_ranges + 1, sizeof(*e->loops));
    e->values = arena_calloc(&e->arena, e->prog->n_ops + 1, sizeof(*e->values));
    if (e->arena.failed)
        return out_of_memory(e);
    map_init(&seen);
    status = scan_ops(e, &seen, open);
    map_fini(&seen);
    BELL_TRY(status);
    return group_carries(e, n_ranges);
}

/* ---- loops ---- */

LLVMBasicBlockRef
llvm_new_block(struct llvm_emit *e)
{
    return e->ll->AppendBasicBlockInContext(e->ctx, e->fn, "");
}

void
llvm_add_incoming(struct llvm_emit *e, LLVMValueRef phi, LLVMValueRef v,
                  LLVMBasicBlockRef from)
{
    e->ll->AddIncoming(phi, &v, &from, 1);
}

static LLVMValueRef
is_more(struct llvm_emit *e, const struct llvm_loop *loop, LLVMValueRef index)
{
    return e->ll->BuildICmp(e->b, loop->counted ? LLVMIntULT : LLVMIntSLT,
                            index, loop->extent, "");
}

static LLVMValueRef
acc_phi(struct llvm_emit *e, const struct llvm_carry *carry)
{
    const struct uop *acc = e->accs[carry->acc].u;

    assert(carry->acc < e->n_accs);
    return e->ll->BuildPhi(e->b, llvm_type(e, acc->dtype, acc->lanes), "");
}

/* Loops are tested at their ends: what leaves one is then what the last turn
 * made, and needs no registers beside those of the next turn. */
static bell_status
begin_llvm_loop(struct llvm_emit *e, const struct uop *u)
{
    struct llvm_loop *loop = &e->loops[e->n_loops];
    LLVMValueRef none = e->ll->ConstNull(llvm_type(e, u->dtype, 1));
    uint32_t i;

    memset(loop, 0, sizeof(*loop));
    loop->range = u;
    loop->before = e->ll->GetInsertBlock(e->b);
    loop->serial = ++e->next_serial;
    loop->carry_begin = e->carry_begin[loop->serial];
    loop->carry_end = e->carry_begin[loop->serial + 1];
    assert(loop->carry_begin <= loop->carry_end);
    BELL_TRY(llvm_value_of(e, u->src[0], &loop->extent));
    loop->counted = u->src[0]->op == UOP_CONST && u->src[0]->arg.i > 0;
    loop->head = llvm_new_block(e);
    loop->exit = llvm_new_block(e);
    if (loop->counted)
        e->ll->BuildBr(e->b, loop->head);
    else
        e->ll->BuildCondBr(e->b, llvm_is_positive(e, u->src[0], loop->extent),
                           loop->head, loop->exit);
    e->ll->PositionBuilderAtEnd(e->b, loop->head);
    loop->index = e->ll->BuildPhi(e->b, llvm_type(e, u->dtype, 1), "");
    llvm_add_incoming(e, loop->index, none, loop->before);
    for (i = loop->carry_begin; i < loop->carry_end; i++) {
        struct llvm_carry *carry = &e->carries[i];
        assert(e->accs[carry->acc].value);
        carry->before = e->accs[carry->acc].value;
        carry->phi = acc_phi(e, carry);
        llvm_add_incoming(e, carry->phi, carry->before, loop->before);
        e->accs[carry->acc].value = carry->phi;
    }
    e->n_loops++;
    return llvm_set_value(e, u, loop->index);
}

static bell_status
end_llvm_loop(struct llvm_emit *e, const struct uop *u)
{
    struct llvm_loop *loop = &e->loops[e->n_loops ? e->n_loops - 1 : 0];
    LLVMBasicBlockRef latch = e->ll->GetInsertBlock(e->b);
    LLVMValueRef next, last;
    uint32_t i;

    if (e->n_loops == 0 || loop->range != u->src[0])
        return bell_fail(BELL_E_INTERNAL, "%s: loops do not nest",
                         e->prog->name);
    assert(loop->range->op == UOP_RANGE && loop->head);
    next = e->ll->BuildBinOp(e->b, LLVMAdd, loop->index,
                             e->ll->ConstInt(e->ll->TypeOf(loop->index), 1, 0),
                             "");
    llvm_add_incoming(e, loop->index, next, latch);
    e->ll->BuildCondBr(e->b, is_more(e, loop, next), loop->head, loop->exit);
    e->ll->PositionBuilderAtEnd(e->b, loop->exit);
    for (i = loop->carry_begin; i < loop->carry_end; i++) {
        struct llvm_carry *carry = &e->carries[i];
        last = e->accs[carry->acc].value;
        llvm_add_incoming(e, carry->phi, last, latch);
        if (loop->counted)
            continue;
        e->accs[carry->acc].value = acc_phi(e, carry);
        llvm_add_incoming(e, e->accs[carry->acc].value, carry->before,
                          loop->before);
        llvm_add_incoming(e, e->accs[carry->acc].value, last, latch);
    }
    e->n_loops--;
    return BELL_OK;
}

/* ---- conditional code ---- */

static bell_status
begin_llvm_if(struct llvm_emit *e, const struct uop *u)
{
    struct llvm_loop *loop = &e->loops[e->n_loops];
    LLVMBasicBlockRef body;
    LLVMValueRef cond;
    uint32_t i;

    assert(u->op == UOP_IF);
    BELL_TRY(llvm_value_of(e, u->src[0], &cond));
    memset(loop, 0, sizeof(*loop));
    loop->range = u;
    loop->serial = ++e->next_serial;
    loop->carry_begin = e->carry_begin[loop->serial];
    loop->carry_end = e->carry_begin[loop->serial + 1];
    for (i = loop->carry_begin; i < loop->carry_end; i++)
        e->carries[i].before = e->accs[e->carries[i].acc].value;
    loop->before = e->ll->GetInsertBlock(e->b);
    body = llvm_new_block(e);
    loop->exit = llvm_new_block(e);
    e->ll->BuildCondBr(e->b, cond, body, loop->exit);
    e->ll->PositionBuilderAtEnd(e->b, body);
    e->n_loops++;
    return BELL_OK;
}

static bell_status
end_llvm_if(struct llvm_emit *e, const struct uop *u)
{
    struct llvm_loop *loop = &e->loops[e->n_loops ? e->n_loops - 1 : 0];
    LLVMBasicBlockRef from = e->ll->GetInsertBlock(e->b);
    uint32_t i;

    if (e->n_loops == 0 || loop->range != u->src[0])
        return bell_fail(BELL_E_INTERNAL, "%s: an ENDIF without its IF",
                         e->prog->name);
    e->ll->BuildBr(e->b, loop->exit);
    e->ll->PositionBuilderAtEnd(e->b, loop->exit);
    for (i = loop->carry_begin; i < loop->carry_end; i++) {
        struct llvm_acc *acc = &e->accs[e->carries[i].acc];
        LLVMValueRef phi = e->ll->BuildPhi(e->b, e->ll->TypeOf(acc->value), "");
        llvm_add_incoming(e, phi, acc->value, from);
        llvm_add_incoming(e, phi, e->carries[i].before, loop->before);
        acc->value = phi;
    }
    e->n_loops--;
    return BELL_OK;
}

/* ---- ops ---- */

static bell_status
emit_acc(struct llvm_emit *e, const struct uop *u)
{
    uint32_t acc = 0;

    BELL_TRY(find_acc(e, u, &acc));
    return llvm_value_of(e, u->src[0], &e->accs[acc].value);
}

static bell_status
get_acc(struct llvm_emit *e, const struct uop *u)
{
    uint32_t acc = 0;
    LLVMValueRef v;

    BELL_TRY(find_acc(e, u->src[0], &acc));
    if (!e->accs[acc].value)
        return llvm_refuse(e, u, "the variable is not set yet");
    v = e->accs[acc].value;
    if (e->accs[acc].of_matrix && u->src[u->n_src - 1]->op == UOP_END &&
        e->dialect->pin)
        v = e->dialect->pin(e, v); /* behind the loop that sets it */
    return llvm_set_value(e, u, v);
}

static bell_status
set_llvm_acc(struct llvm_emit *e, const struct uop *u)
{
    uint32_t acc = 0;

    e->is_ordered = false;
    BELL_TRY(find_acc(e, u->src[0], &acc));
    e->accs[acc].of_matrix |= u->src[1]->op == UOP_WMMA;
    return llvm_value_of(e, u->src[1], &e->accs[acc].value);
}

/* Memory as it is after register variables are set is a wish to wait for what
 * they are made of: code generators see that stores could be earlier, where
 * what is stored is not there yet. */
static void
emit_after(struct llvm_emit *e, const struct uop *u)
{
    assert(u->op == UOP_AFTER && u->n_src > 1);
    if (!e->dialect->order || e->is_ordered || u->src[1]->op != UOP_ACC_SET)
        return;
    e->dialect->order(e);
    e->is_ordered = true;
}

static bell_status
emit_llvm_special(struct llvm_emit *e, const struct uop *u)
{
    LLVMValueRef v = e->dialect->special(e, u);

    if (!v)
        return llvm_refuse(e, u, "there is no such coordinate");
    if (u->dtype == UOP_I64 && e->ll->TypeOf(v) != e->t_i64)
        v = e->ll->BuildCast(e->b, LLVMZExt, v, e->t_i64, "");
    return llvm_set_value(e, u, v);
}

static bell_status
emit_llvm_one(struct llvm_emit *e, const struct uop *u)
{
    LLVMValueRef v = NULL;

    switch (u->op) {
    case UOP_CONST:
    case UOP_PARAM:
    case UOP_VAR:
    case UOP_SINK:
        return BELL_OK;
    case UOP_AFTER:
        emit_after(e, u);
        return BELL_OK;
    case UOP_LOCAL:
        return BELL_OK;
    case UOP_BARRIER:
        if (!e->dialect->is_gpu)
            return llvm_refuse(e, u, "there are no threads to wait for");
        return e->dialect->barrier(e);
    case UOP_IF:
        return begin_llvm_if(e, u);
    case UOP_ENDIF:
        return end_llvm_if(e, u);
    case UOP_SPECIAL:
        return emit_llvm_special(e, u);
    case UOP_RANGE:
        return begin_llvm_loop(e, u);
    case UOP_END:
        return end_llvm_loop(e, u);
    case UOP_ACC:
        return emit_acc(e, u);
    case UOP_ACC_GET:
        return get_acc(e, u);
    case UOP_ACC_SET:
        return set_llvm_acc(e, u);
    case UOP_TILE_MATMUL:
        return llvm_emit_tiles(e, u);
    case UOP_STORE:
        return llvm_emit_store(e, u);
    case UOP_LOAD:
        if (map_get(&e->index, u->id)) /* with one before it */
            return BELL_OK;
        BELL_TRY(llvm_emit_load(e, u, &v));
        break;
    case UOP_INDEX:
        BELL_TRY(llvm_emit_index(e, u, &v));
        break;
    default:
        BELL_TRY(llvm_emit_op(e, u, &v));
        if (map_get(&e->results, u->id) && e->dialect->pin)
            v = e->dialect->pin(e, v);
        break;
    }
    return llvm_set_value(e, u, v);
}

/* ---- the function ---- */

static void
init_types(struct llvm_emit *e)
{
    e->t_void = e->ll->VoidTypeInContext(e->ctx);
    e->t_i1 = e->ll->IntTypeInContext(e->ctx, 1);
    e->t_i8 = e->ll->IntTypeInContext(e->ctx, 8);
    e->t_i16 = e->ll->IntTypeInContext(e->ctx, 16);
    e->t_i32 = e->ll->IntTypeInContext(e->ctx, 32);
    e->t_i64 = e->ll->IntTypeInContext(e->ctx, 64);
    e->t_f16 = e->ll->HalfTypeInContext(e->ctx);
    e->t_f32 = e->ll->FloatTypeInContext(e->ctx);
    e->t_f64 = e->ll->DoubleTypeInContext(e->ctx);
    e->t_ptr = e->ll->PointerTypeInContext(e->ctx, 0);
}

void
llvm_fn_attr(struct llvm_emit *e, const char *key, const char *value)
{
    LLVMAttributeRef attr = e->ll->CreateStringAttribute(
        e->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value));

    e->ll->AddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex, attr);
}

void
llvm_enum_attr(struct llvm_emit *e, LLVMAttributeIndex where, const char *name,
               uint64_t value)
{
    unsigned kind = e->ll->GetEnumAttributeKindForName(name, strlen(name));

    e->ll->AddAttributeAtIndex(e->fn, where,
                               e->ll->CreateEnumAttribute(e->ctx, kind, value));
}

bell_status
llvm_emit_ops(struct llvm_emit *e)
{
    for (e->at = 0; e->at < e->prog->n_ops; e->at++)
        BELL_TRY(emit_llvm_one(e, e->ops[e->at]));
    return BELL_OK;
}

bell_status
llvm_emit_program(struct llvm_emit *e)
{
    const struct lower_program *p = e->prog;
    const struct uop *bad;

    if (!e->dialect->is_gpu &&
        (uint64_t)p->local[0] * p->local[1] * p->local[2] != 1)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: work-groups of %ux%ux%u threads on the host",
                         p->name, p->local[0], p->local[1], p->local[2]);
    if ((bad = render_bad_slot(e->prog)) != NULL)
        return llvm_refuse(e, bad, "no such argument");
    BELL_TRY(render_order(p, !e->dialect->is_gpu, &e->arena, &e->ops));
    BELL_TRY(scan_program(e));
    init_types(e);
    e->args = arena_calloc(&e->arena, (size_t)p->n_params + p->n_vars + 1,
                           sizeof(*e->args));
    if (!e->args)
        return out_of_memory(e);
    return e->dialect->emit(e);
}

void
llvm_emit_init(struct llvm_emit *e)
{
    arena_init(&e->arena);
    map_init(&e->index);
    map_init(&e->acc_index);
    map_init(&e->results);
    map_init(&e->consts);
    map_init(&e->locals);
}

void
llvm_emit_fini(struct llvm_emit *e)
{
    arena_fini(&e->arena);
    map_fini(&e->index);
    map_fini(&e->acc_index);
    map_fini(&e->results);
    map_fini(&e->consts);
    map_fini(&e->locals);
    host_free(e->accs);
    host_free(e->carries);
}
