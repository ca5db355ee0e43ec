/* This machine: the function that runs work-groups, and the code generator.
 *
 * No IR passes are run: programs come simplified, in SSA form, with loops and
 * vectors already as they should be, and passes were measured to cost more
 * time than they gain. LLVM's code generator (instruction selection,
 * strength reduction of addresses, scheduling, register allocation) is what
 * we use, at its level "less": on our kernels "default" gave as many
 * instructions and spills and took up to half as long again.
 *
 * One exception: kernels with masked loads of runs (llvm_mem.c), where what the
 * masks are made of has to leave the loops.
 *
 * File-scope state: the key under which each thread keeps its code generator,
 * because making one costs milliseconds.
 */
#include "render/llvm/llvm_internal.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"

/* ---- the function ---- */

/* void name(ptr args, ptr grid, i64 first, i64 last) nounwind */
static void
make_function(struct llvm_emit *e)
{
    LLVMTypeRef types[4] = {e->t_ptr, e->t_ptr, e->t_i64, e->t_i64};

    e->fn = e->ll->AddFunction(e->mod, e->prog->name,
                               e->ll->FunctionType(e->t_void, types, 4, 0));
    llvm_enum_attr(e, LLVMAttributeFunctionIndex, "nounwind", 0);
    if (e->vector_bytes >= 64)
        llvm_fn_attr(e, "prefer-vector-width", "512");
    else if (e->vector_bytes == 32)
        llvm_fn_attr(e, "prefer-vector-width", "256");
    e->entry = llvm_new_block(e);
    e->ll->PositionBuilderAtEnd(e->b, e->entry);
}

/* One scope per argument, in one domain; a list that holds the argument's
 * own scope and one that holds all others. */
static bell_status
make_scopes(struct llvm_emit *e)
{
    uint32_t n = e->prog->n_params, i;
    LLVMMetadataRef *scope = arena_calloc(&e->arena, n + 1, sizeof(*scope));
    LLVMMetadataRef parts[2], domain;

    e->scopes = arena_calloc(&e->arena, n + 1, sizeof(*e->scopes));
    e->noalias = arena_calloc(&e->arena, n + 1, sizeof(*e->noalias));
    if (!scope || !e->scopes || !e->noalias)
        return bell_fail(BELL_E_NO_MEMORY, "rendering %s: out of memory",
                         e->prog->name);
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
split_group(struct llvm_emit *e, LLVMValueRef g)
{
    uint32_t i, n_left = 0;

    for (i = 0; i < 3; i++)
        n_left += e->prog->grid[i] > 1;
    for (i = 0; i < 3; i++) {
        LLVMValueRef size = llvm_i64(e, e->prog->grid[i]);
        if (e->prog->grid[i] <= 1) {
            e->group[i] = llvm_i64(e, 0);
        } else if (--n_left == 0) {
            e->group[i] = g;
        } else {
            e->group[i] = e->ll->BuildBinOp(e->b, LLVMURem, g, size, "");
            g = e->ll->BuildBinOp(e->b, LLVMUDiv, g, size, "");
        }
    }
    assert(n_left == 0);
}

static bell_status
emit_groups(struct llvm_emit *e)
{
    LLVMValueRef first = e->ll->GetParam(e->fn, 2);
    LLVMValueRef last = e->ll->GetParam(e->fn, 3), g, next, more;
    LLVMBasicBlockRef head = llvm_new_block(e), exit = llvm_new_block(e);

    e->ll->PositionBuilderAtEnd(e->b, head);
    g = e->ll->BuildPhi(e->b, e->t_i64, "");
    llvm_add_incoming(e, g, first, e->entry);
    split_group(e, g);
    BELL_TRY(llvm_emit_ops(e));
    next = e->ll->BuildBinOp(e->b, LLVMAdd, g, llvm_i64(e, 1), "");
    llvm_add_incoming(e, g, next, e->ll->GetInsertBlock(e->b));
    more = e->ll->BuildICmp(e->b, LLVMIntULT, next, last, "");
    e->ll->BuildCondBr(e->b, more, head, exit);
    e->ll->PositionBuilderAtEnd(e->b, exit);
    if (e->has_tiles)
        llvm_intrinsic(e, "llvm.x86.tilerelease", NULL, 0, NULL, 0);
    if (e->has_streams)
        llvm_intrinsic(e, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
    e->ll->BuildRetVoid(e->b);

    e->ll->PositionBuilderAtEnd(e->b, e->entry);
    more = e->ll->BuildICmp(e->b, LLVMIntULT, first, last, "");
    e->ll->BuildCondBr(e->b, more, head, exit);
    return BELL_OK;
}

static bell_status
emit_host(struct llvm_emit *e)
{
    make_function(e);
    BELL_TRY(make_scopes(e));
    return emit_groups(e);
}

static LLVMValueRef
load_host_arg(struct llvm_emit *e, const struct uop *u)
{
    LLVMValueRef slot = llvm_i64(e, u->arg.i);

    assert(u->op == UOP_PARAM || u->op == UOP_VAR);
    slot = e->ll->BuildGEP2(e->b, e->t_i64, e->ll->GetParam(e->fn, 0), &slot, 1,
                            "");
    return e->ll->BuildLoad2(e->b, u->op == UOP_PARAM ? e->t_ptr : e->t_i64,
                             slot, "");
}

static LLVMValueRef
find_group(struct llvm_emit *e, const struct uop *u)
{
    assert(u->op == UOP_SPECIAL);
    if (u->arg.i >= 0 && u->arg.i <= 2)
        return e->group[u->arg.i];
    if (u->src[0]->op == UOP_CONST && u->src[0]->arg.i == 1)
        return llvm_i64(e, 0);
    return NULL;
}

/* On the stack of the thread, whole cache lines. */
static LLVMValueRef
make_local(struct llvm_emit *e, const struct uop *u)
{
    const uint64_t *at = map_get(&e->locals, u->id);
    const struct uop_local *local = u->arg.data;
    LLVMBasicBlockRef here = e->ll->GetInsertBlock(e->b);
    LLVMValueRef var;

    if (at)
        return (LLVMValueRef)(uintptr_t)*at;
    e->ll->PositionBuilderAtEnd(e->b, e->entry);
    var = e->ll->BuildAlloca(e->b,
                             e->ll->ArrayType2(llvm_mem_type(e, u->dtype, 1),
                                               (uint64_t)local->n_elems),
                             "");
    e->ll->SetAlignment(var, 64);
    e->ll->PositionBuilderAtEnd(e->b, here);
    return map_put(&e->locals, u->id, (uint64_t)(uintptr_t)var) == 0 ? var
                                                                     : NULL;
}

/* Past the caches, which would read the line first, only to drop what is there
 * before anybody asks for it. src: Intel 64 and IA-32 Software Developer's
 * Manual, MOVNTPS: aligned, and ordered by SFENCE alone. */
static void
stream(struct llvm_emit *e, LLVMValueRef store)
{
    LLVMMetadataRef one = e->ll->ValueAsMetadata(llvm_i32(e, 1));

    e->ll->SetMetadata(store,
                       e->ll->GetMDKindIDInContext(e->ctx, "nontemporal", 11),
                       e->ll->MetadataAsValue(
                           e->ctx, e->ll->MDNodeInContext2(e->ctx, &one, 1)));
    e->has_streams = true;
}

static const struct llvm_dialect x86_dialect = {
    .name = "x86-64",
    .emit = emit_host,
    .arg = load_host_arg,
    .special = find_group,
    .local = make_local,
    .tiles = llvm_host_tiles,
    .byte_dot = llvm_host_byte_dot,
    .stream = stream,
};

/* No store of it goes past the caches: LLVM's for vectors, STNP, is a hint of
 * pairs. */
static const struct llvm_dialect aarch64_dialect = {
    .name = "AArch64",
    .emit = emit_host,
    .arg = load_host_arg,
    .special = find_group,
    .local = make_local,
};

#if defined(__x86_64__)
#define IS_X86         true
#define FOREIGN_TRIPLE "aarch64-unknown-linux-gnu"
#else
#define IS_X86         false
#define FOREIGN_TRIPLE "x86_64-unknown-linux-gnu"
#endif

static bool
is_for_x86(const struct lower_target *target)
{
    return target->cpu ? strncmp(target->name, "x86", 3) == 0 : IS_X86;
}

/* ---- the code generator ---- */

static pthread_once_t machine_once = PTHREAD_ONCE_INIT;
static pthread_key_t machine_key;
static int machine_key_error;

static void
machine_destroy(void *arg)
{
    struct llvm_machine *m = arg;
    const struct llvm_api *ll;

    if (!m || llvm_api_get(&ll) != BELL_OK)
        return;
    if (m->tm)
        ll->DisposeTargetMachine(m->tm);
    ll->DisposeMessage(m->own_triple);
    ll->DisposeMessage(m->cpu);
    ll->DisposeMessage(m->features);
    host_free(m);
}

static void
make_machine_key(void)
{
    machine_key_error = pthread_key_create(&machine_key, machine_destroy);
}

/* LLVM reads an AArch64 processor's features from the kernel's list in
 * /proc/cpuinfo, and takes all those of the model that it finds there; the
 * kernel, or who emulates one, may allow less. */
static void
find_host(const struct llvm_machine *m, char *text, size_t size_bytes,
          const char **out_cpu, const char **out_features)
{
    *out_cpu = m->cpu;
    *out_features = m->features;
    if (!IS_X86) {
        *out_cpu = "generic";
        render_host_features(text, size_bytes);
        *out_features = text;
    }
}

/* The calling thread's code generator, made at its first use. */
static bell_status
machine_get(const struct llvm_api *ll, const struct llvm_machine **out_machine)
{
    struct llvm_machine *m;
    const char *cpu, *features;
    LLVMTargetRef target;
    char text[256];
    char *message = NULL;
    bell_status status;

    pthread_once(&machine_once, make_machine_key);
    if (machine_key_error)
        return bell_fail(BELL_E_NO_MEMORY,
                         "no thread-specific key is left: out of memory");
    *out_machine = pthread_getspecific(machine_key);
    if (*out_machine)
        return BELL_OK;
    m = host_calloc(1, sizeof(*m));
    if (!m)
        return bell_fail(BELL_E_NO_MEMORY, "a code generator: out of memory");
    m->triple = m->own_triple = ll->GetDefaultTargetTriple();
    m->cpu = ll->GetHostCPUName();
    m->features = ll->GetHostCPUFeatures();
    m->has_round = !IS_X86 || strstr(m->features, "+sse4.1");
    if (ll->GetTargetFromTriple(m->triple, &target, &message)) {
        status = bell_fail(BELL_E_UNSUPPORTED,
                           "LLVM has no code generator "
                           "for %s: %s",
                           m->triple, message ? message : "");
        ll->DisposeMessage(message);
        goto fail_machine;
    }
    find_host(m, text, sizeof(text), &cpu, &features);
    m->tm = ll->CreateTargetMachine(target, m->triple, cpu, features,
                                    LLVMCodeGenLevelLess, LLVMRelocPIC,
                                    LLVMCodeModelSmall);
    if (!m->tm || pthread_setspecific(machine_key, m) != 0) {
        status = bell_fail(BELL_E_NO_MEMORY,
                           "a code generator for %s: out of memory", m->cpu);
        goto fail_machine;
    }
    *out_machine = m;
    return BELL_OK;

fail_machine:
    machine_destroy(m);
    return status;
}

static bell_status
find_machine(struct llvm_job *job)
{
    return machine_get(job->e.ll, &job->e.machine);
}

/* Another processor's: made for each rendering. */
static bell_status
make_named(struct llvm_job *job)
{
    const struct lower_target *target = job->e.target;
    bool is_host = is_for_x86(target) == IS_X86;
    const struct llvm_api *ll = job->e.ll;
    struct llvm_machine *m = &job->made;
    char *message = NULL;
    LLVMTargetRef llvm;

    if (!is_host)
        BELL_TRY(llvm_api_foreign());
    m->own_triple = is_host ? ll->GetDefaultTargetTriple() : NULL;
    m->triple = is_host ? m->own_triple : FOREIGN_TRIPLE;
    m->has_round = true;
    if (ll->GetTargetFromTriple(m->triple, &llvm, &message) == 0)
        m->tm = ll->CreateTargetMachine(
            llvm, m->triple, target->cpu,
            target->features ? target->features : "", LLVMCodeGenLevelLess,
            LLVMRelocPIC, LLVMCodeModelSmall);
    if (!m->tm) {
        ll->DisposeMessage(message);
        ll->DisposeMessage(m->own_triple);
        return bell_fail(BELL_E_UNSUPPORTED,
                         "LLVM has no code generator for %s", target->cpu);
    }
    job->e.machine = m;
    return BELL_OK;
}

static void
drop_named(struct llvm_job *job)
{
    job->e.ll->DisposeTargetMachine(job->made.tm);
    job->e.ll->DisposeMessage(job->made.own_triple);
}

static bell_status
render(const struct lower_program *program, const struct lower_target *target,
       struct llvm_job job)
{
    job.e.prog = program;
    job.e.dialect = is_for_x86(target) ? &x86_dialect : &aarch64_dialect;
    job.e.target = target;
    job.e.vector_bytes = target->vector_bytes;
    job.machine = target->cpu ? make_named : find_machine;
    job.done = target->cpu ? drop_named : NULL;
    assert((target->cpu == NULL) == (job.done == NULL));
    BELL_TRY(llvm_api_get(&job.e.ll));
    return llvm_job_run(&job);
}

bell_status
render_host(const struct lower_program *program,
            const struct lower_target *target, struct render_binary *out_binary)
{
    uint64_t begin_ns = time_now_ns();

    BELL_TRY(
        render(program, target, (struct llvm_job){.out_binary = out_binary}));
    LOG(LOG_TIME, "render: %s: LLVM %.3f ms, %zu bytes", program->name,
        (double)(time_now_ns() - begin_ns) * 1e-6, out_binary->size_bytes);
    return BELL_OK;
}

bell_status
render_host_ir(const char *ir, const char *name,
               const struct lower_target *target,
               struct render_binary *out_binary)
{
    const struct lower_program program = {.name = name};

    return render(&program, target,
                  (struct llvm_job){.ir = ir, .out_binary = out_binary});
}

bell_status
render_host_text(const struct lower_program *program,
                 const struct lower_target *target, char **out_text)
{
    return render(program, target, (struct llvm_job){.out_text = out_text});
}

bell_status
render_host_asm(const struct lower_program *program,
                const struct lower_target *target, char **out_text)
{
    return render(program, target, (struct llvm_job){.out_asm = out_text});
}
