/* The host's function: its arguments, and the loop over work-groups. */
#include "render/llvm/host_internal.h"

#include <stdio.h>

/* void name(ptr args, ptr grid, i64 first, i64 last) nounwind */
static void
make_function(struct host_emit *e)
{
    LLVMTypeRef types[4] = {e->t_ptr, e->t_ptr, e->t_i64, e->t_i64};

    e->fn = e->ll->AddFunction(e->mod, e->prog->name,
                               e->ll->FunctionType(e->t_void, types, 4, 0));
    host_enum_attr(e, LLVMAttributeFunctionIndex, "nounwind", 0);
    if (e->vector_bytes >= 64)
        host_fn_attr(e, "prefer-vector-width", "512");
    else if (e->vector_bytes == 32)
        host_fn_attr(e, "prefer-vector-width", "256");
    e->entry = host_new_block(e);
    e->ll->PositionBuilderAtEnd(e->b, e->entry);
}

/* One scope per argument, in one domain; a list that holds the argument's
 * own scope and one that holds all others. */
static bell_status
make_scopes(struct host_emit *e)
{
    uint32_t n = e->prog->n_params, i;
    LLVMMetadataRef *scope = arena_calloc(&e->arena, n + 1, sizeof(*scope));
    LLVMMetadataRef parts[2], domain;

    e->scopes = arena_calloc(&e->arena, n + 1, sizeof(*e->scopes));
    e->noalias = arena_calloc(&e->arena, n + 1, sizeof(*e->noalias));
    if (!scope || !e->scopes || !e->noalias)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s", e->prog->name);
    e->md_scope = e->ll->GetMDKindIDInContext(e->ctx, "alias.scope", 11);
    e->md_noalias = e->ll->GetMDKindIDInContext(e->ctx, "noalias", 7);
    parts[0] = e->ll->MDStringInContext2(e->ctx, "args", 4);
    domain = e->ll->MDNodeInContext2(e->ctx, parts, 1);
    for (i = 0; i < n; i++) {
        char name[16];
        int len = snprintf(name, sizeof(name), "arg%u", i);
        parts[0] = e->ll->MDStringInContext2(e->ctx, name, (size_t)len);
        parts[1] = domain;
        scope[i] = e->ll->MDNodeInContext2(e->ctx, parts, 2);
        e->scopes[i] = e->ll->MetadataAsValue(
            e->ctx, e->ll->MDNodeInContext2(e->ctx, &scope[i], 1));
    }
    for (i = 0; i < n && n > 1; i++) {
        LLVMMetadataRef last = scope[n - 1], own = scope[i];
        scope[i] = last; /* the others, in any order: n - 1 of them */
        e->noalias[i] = e->ll->MetadataAsValue(
            e->ctx, e->ll->MDNodeInContext2(e->ctx, scope, n - 1));
        scope[i] = own;
    }
    return BELL_OK;
}

/* The work-group's coordinates from its number; a dimension of 1 costs
 * nothing. */
static void
split_group(struct host_emit *e, LLVMValueRef g)
{
    uint32_t i, n_left = 0;

    for (i = 0; i < 3; i++)
        n_left += e->prog->grid[i] > 1;
    for (i = 0; i < 3; i++) {
        LLVMValueRef size = host_i64(e, e->prog->grid[i]);
        if (e->prog->grid[i] <= 1) {
            e->group[i] = host_i64(e, 0);
        } else if (--n_left == 0) {
            e->group[i] = g;
        } else {
            e->group[i] = e->ll->BuildBinOp(e->b, LLVMURem, g, size, "");
            g = e->ll->BuildBinOp(e->b, LLVMUDiv, g, size, "");
        }
    }
}

static bell_status
emit_groups(struct host_emit *e)
{
    LLVMValueRef first = e->ll->GetParam(e->fn, 2);
    LLVMValueRef last = e->ll->GetParam(e->fn, 3), g, next, more;
    LLVMBasicBlockRef head = host_new_block(e), exit = host_new_block(e);

    e->ll->PositionBuilderAtEnd(e->b, head);
    g = e->ll->BuildPhi(e->b, e->t_i64, "");
    host_add_incoming(e, g, first, e->entry);
    split_group(e, g);
    BELL_TRY(host_emit_ops(e));
    next = e->ll->BuildBinOp(e->b, LLVMAdd, g, host_i64(e, 1), "");
    host_add_incoming(e, g, next, e->ll->GetInsertBlock(e->b));
    more = e->ll->BuildICmp(e->b, LLVMIntULT, next, last, "");
    e->ll->BuildCondBr(e->b, more, head, exit);
    e->ll->PositionBuilderAtEnd(e->b, exit);
    e->ll->BuildRetVoid(e->b);

    e->ll->PositionBuilderAtEnd(e->b, e->entry);
    more = e->ll->BuildICmp(e->b, LLVMIntULT, first, last, "");
    e->ll->BuildCondBr(e->b, more, head, exit);
    return BELL_OK;
}

/* The host's function. */
static bell_status
emit_host(struct host_emit *e)
{
    make_function(e);
    BELL_TRY(make_scopes(e));
    return emit_groups(e);
}

static LLVMValueRef
load_arg(struct host_emit *e, const struct uop *u)
{
    LLVMValueRef slot = host_i64(e, u->arg.i);

    slot = e->ll->BuildGEP2(e->b, e->t_i64, e->ll->GetParam(e->fn, 0), &slot, 1,
                            "");
    return e->ll->BuildLoad2(e->b, u->op == UOP_PARAM ? e->t_ptr : e->t_i64,
                             slot, "");
}

static LLVMValueRef
find_group(struct host_emit *e, const struct uop *u)
{
    if (u->arg.i >= 0 && u->arg.i <= 2)
        return e->group[u->arg.i];
    if (u->src[0]->op == UOP_CONST && u->src[0]->arg.i == 1)
        return host_i64(e, 0);
    return NULL;
}

const struct host_dialect host_dialect = {
    .name = "the host",
    .emit = emit_host,
    .arg = load_arg,
    .special = find_group,
};
