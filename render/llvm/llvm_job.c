/* Code through LLVM: from a program to IR (llvm_emit.c), and from that to
 * text, assembly or an object. */
#include "render/llvm/llvm_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "render/render_internal.h"

static void
keep_diagnostic(LLVMDiagnosticInfoRef info, void *arg)
{
    struct llvm_job *job = arg;
    const struct llvm_api *ll = job->e.ll;
    char *text;

    if (ll->GetDiagInfoSeverity(info) != LLVMDSError || job->diagnostic[0])
        return;
    text = ll->GetDiagInfoDescription(info);
    snprintf(job->diagnostic, sizeof(job->diagnostic), "%s", text);
    ll->DisposeMessage(text);
}

static bell_status
take_text(struct llvm_job *job)
{
    char *text = job->e.ll->PrintModuleToString(job->e.mod);
    char *copy = host_strdup(text);

    job->e.ll->DisposeMessage(text);
    if (!copy)
        return bell_fail(BELL_E_NO_MEMORY, "LLVM IR of %s: out of memory",
                         job->e.prog->name);
    *job->out_text = copy;
    return BELL_OK;
}

/* Our own IR is right where the tests have seen it. */
static bool
is_to_verify(const struct llvm_job *job)
{
#ifdef NDEBUG
    return job->ir != NULL;
#else
    (void)job;
    return true;
#endif
}

static bell_status
verify(struct llvm_job *job)
{
    char *message = NULL;
    bell_status status = BELL_OK;

    if (job->e.ll->VerifyModule(job->e.mod, LLVMReturnStatusAction, &message))
        status = bell_fail(job->ir ? BELL_E_COMPILE : BELL_E_INTERNAL,
                           "%s: bad LLVM IR: %s", job->e.prog->name, message);
    job->e.ll->DisposeMessage(message);
    return status;
}

/* What the code generator gives, with one byte of 0 behind it. */
static bell_status
generate(struct llvm_job *job, LLVMCodeGenFileType type,
         struct render_binary *out)
{
    const struct llvm_api *ll = job->e.ll;
    LLVMMemoryBufferRef buffer = NULL;
    struct render_binary binary;
    char *message = NULL;
    bell_status status;

    if (ll->TargetMachineEmitToMemoryBuffer(job->e.machine->tm, job->e.mod,
                                            type, &message, &buffer)) {
        status = bell_fail(BELL_E_COMPILE, "%s: %s", job->e.prog->name,
                           message ? message : "no code");
        ll->DisposeMessage(message);
        return status;
    }
    binary.size_bytes = ll->GetBufferSize(buffer);
    binary.data = host_alloc(binary.size_bytes + 1);
    if (binary.data) {
        memcpy(binary.data, ll->GetBufferStart(buffer), binary.size_bytes);
        ((char *)binary.data)[binary.size_bytes] = 0;
    }
    ll->DisposeMemoryBuffer(buffer);
    if (!binary.data)
        return bell_fail(BELL_E_NO_MEMORY, "code of %s: out of memory",
                         job->e.prog->name);
    if (job->diagnostic[0]) {
        host_free(binary.data);
        return bell_fail(BELL_E_COMPILE, "%s: LLVM: %s", job->e.prog->name,
                         job->diagnostic);
    }
    *out = binary;
    return BELL_OK;
}

static bell_status
take_object(struct llvm_job *job)
{
    struct render_binary binary;
    bell_status status;

    BELL_TRY(generate(job, LLVMObjectFile, &binary));
    status = render_check_object(&binary);
    if (status != BELL_OK) {
        bell_error_prefix("%s", job->e.prog->name);
        render_binary_fini(&binary);
        return status;
    }
    *job->out_binary = binary;
    return BELL_OK;
}

static void
set_layout(struct llvm_emit *e)
{
    LLVMTargetDataRef layout = e->ll->CreateTargetDataLayout(e->machine->tm);

    e->ll->SetTarget(e->mod, e->machine->triple);
    e->ll->SetModuleDataLayout(e->mod, layout);
    e->ll->DisposeTargetData(layout);
}

/* Replaces the module by one that is read from text. */
static bell_status
read_ir(struct llvm_job *job)
{
    struct llvm_emit *e = &job->e;
    LLVMMemoryBufferRef buffer = e->ll->CreateMemoryBufferWithMemoryRangeCopy(
        job->ir, strlen(job->ir), e->prog->name);
    char *message = NULL;
    LLVMModuleRef mod;
    bell_status status;

    if (e->ll->ParseIRInContext(e->ctx, buffer, &mod, &message)) {
        status = bell_fail(BELL_E_COMPILE, "%s: %s", e->prog->name,
                           message ? message : "not LLVM IR");
        e->ll->DisposeMessage(message);
        return status;
    }
    e->ll->DisposeModule(e->mod);
    e->mod = mod;
    set_layout(e);
    return BELL_OK;
}

/* Masks of runs that do not change in a loop are computed before it, once. */
#define RUN_PASSES "function(early-cse,loop-mssa(licm))"

static bell_status
run_passes(struct llvm_job *job)
{
    const struct llvm_api *ll = job->e.ll;
    LLVMPassBuilderOptionsRef options = ll->CreatePassBuilderOptions();
    LLVMErrorRef error =
        ll->RunPasses(job->e.mod, job->passes, job->e.machine->tm, options);
    bell_status status = BELL_OK;
    char *text;

    ll->DisposePassBuilderOptions(options);
    if (error) {
        text = ll->GetErrorMessage(error);
        status = bell_fail(BELL_E_INTERNAL, "%s: LLVM's passes '%s': %s",
                           job->e.prog->name, job->passes, text);
        ll->DisposeErrorMessage(text);
    }
    return status;
}

static bell_status
build_and_take(struct llvm_job *job)
{
    struct render_binary text;

    assert(!job->out_text + !job->out_asm + !job->out_binary == 2);
    if (job->ir)
        BELL_TRY(read_ir(job));
    else
        BELL_TRY(llvm_emit_program(&job->e));
    if (is_to_verify(job))
        BELL_TRY(verify(job));
    if (job->e.has_runs && !job->passes)
        job->passes = RUN_PASSES;
    if (job->passes)
        BELL_TRY(run_passes(job));
    if (job->out_text)
        return take_text(job);
    if (job->out_binary)
        return take_object(job);
    BELL_TRY(generate(job, LLVMAssemblyFile, &text));
    *job->out_asm = text.data;
    return BELL_OK;
}

static void
run_job(void *arg)
{
    struct llvm_job *job = arg;
    struct llvm_emit *e = &job->e;
    const struct llvm_api *ll = e->ll;

    job->status = job->machine(job);
    if (job->status != BELL_OK)
        return;
    e->ctx = ll->ContextCreate();
    ll->ContextSetDiagnosticHandler(e->ctx, keep_diagnostic, job);
    e->mod = ll->ModuleCreateWithNameInContext(e->prog->name, e->ctx);
    set_layout(e);
    e->b = ll->CreateBuilderInContext(e->ctx);
    job->status = build_and_take(job);
    ll->DisposeBuilder(e->b);
    if (e->helper)
        ll->DisposeModule(e->helper);
    ll->DisposeModule(e->mod);
    ll->ContextDispose(e->ctx);
    if (job->done)
        job->done(job);
}

bell_status
llvm_job_run(struct llvm_job *job)
{
    bell_status status;

    llvm_emit_init(&job->e);
    status = llvm_guard(run_job, job);
    if (status == BELL_OK)
        status = job->status;
    llvm_emit_fini(&job->e);
    return status;
}
