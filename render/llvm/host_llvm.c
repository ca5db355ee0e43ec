/* Code through LLVM: the driver around host_emit.c; and the host's part.
 *
 * No IR passes are run: programs come simplified, in SSA form, with loops and
 * vectors already as they should be, and passes were measured to cost more
 * time than they gain. LLVM's code generator (instruction selection,
 * strength reduction of addresses, scheduling, register allocation) is what
 * we use, at its level "less": on our kernels "default" gave as many
 * instructions and spills and took up to half as long again.
 *
 * File-scope state: the key under which each thread keeps its code generator,
 * because making one costs milliseconds.
 */
#include "render/llvm/host_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "render/render_internal.h"

static pthread_once_t machine_once = PTHREAD_ONCE_INIT;
static pthread_key_t machine_key;
static int machine_key_error;

static void
machine_destroy(void *arg)
{
    struct host_machine *m = arg;
    const struct llvm_api *ll;

    if (!m || llvm_api_get(&ll) != BELL_OK)
        return;
    if (m->tm)
        ll->DisposeTargetMachine(m->tm);
    ll->DisposeMessage(m->triple);
    ll->DisposeMessage(m->cpu);
    ll->DisposeMessage(m->features);
    host_free(m);
}

static void
make_machine_key(void)
{
    machine_key_error = pthread_key_create(&machine_key, machine_destroy);
}

/* The calling thread's code generator, made at its first use. */
static bell_status
machine_get(const struct llvm_api *ll, const struct host_machine **out_machine)
{
    struct host_machine *m;
    LLVMTargetRef target;
    char *message = NULL;
    bell_status status;

    pthread_once(&machine_once, make_machine_key);
    if (machine_key_error)
        return bell_fail(BELL_E_NO_MEMORY, "no thread-specific key is left");
    *out_machine = pthread_getspecific(machine_key);
    if (*out_machine)
        return BELL_OK;
    m = host_calloc(1, sizeof(*m));
    if (!m)
        return bell_fail(BELL_E_NO_MEMORY, "a code generator");
    m->triple = ll->GetDefaultTargetTriple();
    m->cpu = ll->GetHostCPUName();
    m->features = ll->GetHostCPUFeatures();
#if defined(__x86_64__)
    m->has_round = strstr(m->features, "+sse4.1") != NULL;
#else
    m->has_round = true;
#endif
    if (ll->GetTargetFromTriple(m->triple, &target, &message)) {
        status = bell_fail(BELL_E_UNSUPPORTED,
                           "LLVM has no code generator "
                           "for %s: %s",
                           m->triple, message ? message : "");
        ll->DisposeMessage(message);
        goto fail_machine;
    }
    m->tm = ll->CreateTargetMachine(target, m->triple, m->cpu, m->features,
                                    LLVMCodeGenLevelLess, LLVMRelocPIC,
                                    LLVMCodeModelSmall);
    if (!m->tm || pthread_setspecific(machine_key, m) != 0) {
        status = bell_fail(BELL_E_NO_MEMORY, "a code generator for %s", m->cpu);
        goto fail_machine;
    }
    *out_machine = m;
    return BELL_OK;

fail_machine:
    machine_destroy(m);
    return status;
}

static void
keep_diagnostic(LLVMDiagnosticInfoRef info, void *arg)
{
    struct host_job *job = arg;
    const struct llvm_api *ll = job->e.ll;
    char *text;

    if (ll->GetDiagInfoSeverity(info) != LLVMDSError || job->diagnostic[0])
        return;
    text = ll->GetDiagInfoDescription(info);
    snprintf(job->diagnostic, sizeof(job->diagnostic), "%s", text);
    ll->DisposeMessage(text);
}

static bell_status
take_text(struct host_job *job)
{
    char *text = job->e.ll->PrintModuleToString(job->e.mod);
    char *copy = host_strdup(text);

    job->e.ll->DisposeMessage(text);
    if (!copy)
        return bell_fail(BELL_E_NO_MEMORY, "LLVM IR of %s", job->e.prog->name);
    *job->out_text = copy;
    return BELL_OK;
}

#ifndef NDEBUG
static bell_status
verify(struct host_job *job)
{
    char *message = NULL;
    bell_status status = BELL_OK;

    if (job->e.ll->VerifyModule(job->e.mod, LLVMReturnStatusAction, &message))
        status = bell_fail(BELL_E_INTERNAL, "%s: bad LLVM IR: %s",
                           job->e.prog->name, message);
    job->e.ll->DisposeMessage(message);
    return status;
}
#endif

/* What the code generator gives, with one byte of 0 behind it. */
static bell_status
generate(struct host_job *job, LLVMCodeGenFileType type,
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
        return bell_fail(BELL_E_NO_MEMORY, "code of %s", job->e.prog->name);
    if (job->diagnostic[0]) {
        host_free(binary.data);
        return bell_fail(BELL_E_COMPILE, "%s: LLVM: %s", job->e.prog->name,
                         job->diagnostic);
    }
    *out = binary;
    return BELL_OK;
}

static bell_status
take_object(struct host_job *job)
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
set_layout(struct host_emit *e)
{
    LLVMTargetDataRef layout = e->ll->CreateTargetDataLayout(e->machine->tm);

    e->ll->SetTarget(e->mod, e->machine->triple);
    e->ll->SetModuleDataLayout(e->mod, layout);
    e->ll->DisposeTargetData(layout);
}

/* Replaces the module by one that is read from text. */
static bell_status
read_ir(struct host_job *job)
{
    struct host_emit *e = &job->e;
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

static bell_status
run_passes(struct host_job *job)
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
build_and_take(struct host_job *job)
{
    struct render_binary text;

    if (job->ir)
        BELL_TRY(read_ir(job));
    else
        BELL_TRY(host_emit_program(&job->e));
#ifndef NDEBUG
    BELL_TRY(verify(job));
#endif
    if (job->passes && !job->ir)
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
    struct host_job *job = arg;
    struct host_emit *e = &job->e;
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
host_job_run(struct host_job *job)
{
    bell_status status;

    host_emit_init(&job->e);
    status = llvm_guard(run_job, job);
    if (status == BELL_OK)
        status = job->status;
    host_emit_fini(&job->e);
    return status;
}

/* ---- the host ---- */

static bell_status
find_machine(struct host_job *job)
{
    return machine_get(job->e.ll, &job->e.machine);
}

static bell_status
render(const struct lower_program *program, const struct lower_target *target,
       char **out_text, struct render_binary *out_binary)
{
    struct host_job job = {
        .e = {.prog = program,
              .dialect = &host_dialect,
              .vector_bytes = target->vector_bytes},
        .machine = find_machine,
        .out_text = out_text,
        .out_binary = out_binary,
    };

    BELL_TRY(llvm_api_get(&job.e.ll));
    return host_job_run(&job);
}

bell_status
render_host(const struct lower_program *program,
            const struct lower_target *target, struct render_binary *out_binary)
{
    uint64_t begin_ns = time_now_ns();

    BELL_TRY(render(program, target, NULL, out_binary));
    LOG(LOG_TIME, "render: %s: LLVM %.3f ms, %zu bytes", program->name,
        (double)(time_now_ns() - begin_ns) * 1e-6, out_binary->size_bytes);
    return BELL_OK;
}

bell_status
render_host_text(const struct lower_program *program,
                 const struct lower_target *target, char **out_text)
{
    return render(program, target, out_text, NULL);
}
