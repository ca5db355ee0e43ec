/* Finds libLLVM, looks up the functions, sets up the host's code generator
 * and the trap for fatal errors.
 *
 * File-scope state: the loaded interface, written once under pthread_once
 * (other code generators than the host's come later), and each thread's trap.
 */
#include "render/llvm/llvm_api.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/bits.h"
#include "base/env.h"
#include "base/process.h"
#include "render/render.h"

#if defined(__x86_64__)
#define NATIVE_TARGET  "X86"
#define FOREIGN_TARGET "AArch64"
#elif defined(__aarch64__)
#define NATIVE_TARGET  "AArch64"
#define FOREIGN_TARGET "X86"
#else
#error "no code generator for this processor is wired up"
#endif

struct llvm_row {
    const char *name;
    size_t offset;
};

#define ROW(fn)                                                                \
    {                                                                          \
        "LLVM" #fn, offsetof(struct llvm_api, fn)                              \
    }

/* clang-format off */
static const struct llvm_row rows[] = {
    ROW(GetVersion), ROW(GetDefaultTargetTriple), ROW(GetHostCPUName),
    ROW(GetHostCPUFeatures), ROW(GetTargetFromTriple),
    ROW(CreateTargetMachine), ROW(DisposeTargetMachine),
    ROW(CreateTargetDataLayout), ROW(DisposeTargetData),
    ROW(SetModuleDataLayout), ROW(SetTarget),
    ROW(TargetMachineEmitToMemoryBuffer), ROW(GetBufferStart),
    ROW(GetBufferSize), ROW(DisposeMemoryBuffer), ROW(DisposeMessage),
    ROW(InstallFatalErrorHandler),
    ROW(ContextCreate), ROW(ContextDispose),
    ROW(ContextSetDiagnosticHandler), ROW(GetDiagInfoSeverity),
    ROW(GetDiagInfoDescription), ROW(ModuleCreateWithNameInContext),
    ROW(DisposeModule), ROW(PrintModuleToString), ROW(AddFunction),
    ROW(SetFunctionCallConv), ROW(GetNamedFunction),
    ROW(GetFirstBasicBlock), ROW(GetFirstInstruction),
    ROW(GetNextInstruction), ROW(InstructionClone), ROW(InsertIntoBuilder),
    ROW(CreateMemoryBufferWithMemoryRangeCopy), ROW(ParseIRInContext),
    ROW(GetParam), ROW(AppendBasicBlockInContext),
    ROW(CreateStringAttribute), ROW(CreateEnumAttribute),
    ROW(GetEnumAttributeKindForName), ROW(AddAttributeAtIndex),
    ROW(AddGlobal), ROW(AddGlobalInAddressSpace), ROW(SetInitializer), ROW(SetGlobalConstant),
    ROW(SetLinkage), ROW(SetAlignment), ROW(SetUnnamedAddress),
    ROW(SetVisibility),
    ROW(VoidTypeInContext), ROW(IntTypeInContext), ROW(HalfTypeInContext),
    ROW(BFloatTypeInContext), ROW(FloatTypeInContext),
    ROW(DoubleTypeInContext),
    ROW(PointerTypeInContext), ROW(VectorType), ROW(ArrayType2),
    ROW(FunctionType),
    ROW(TypeOf), ROW(GetInlineAsm),
    ROW(ConstInt), ROW(ConstNull), ROW(ConstVector), ROW(ConstBitCast),
    ROW(GetPoison), ROW(GetUndef), ROW(IsConstant),
    ROW(MDStringInContext2), ROW(MDNodeInContext2), ROW(MetadataAsValue), ROW(ValueAsMetadata),
    ROW(GlobalSetMetadata),
    ROW(SetMetadata), ROW(GetMDKindIDInContext), ROW(LookupIntrinsicID),
    ROW(GetIntrinsicDeclaration), ROW(IntrinsicGetType),
    ROW(CreateBuilderInContext), ROW(DisposeBuilder),
    ROW(PositionBuilderAtEnd), ROW(GetInsertBlock), ROW(BuildRetVoid),
    ROW(BuildBr), ROW(BuildCondBr), ROW(BuildPhi), ROW(AddIncoming),
    ROW(BuildCall2), ROW(BuildAlloca), ROW(BuildLoad2), ROW(BuildStore),
    ROW(BuildGEP2), ROW(BuildCast), ROW(BuildBinOp), ROW(BuildNeg),
    ROW(BuildFNeg), ROW(BuildICmp), ROW(BuildFCmp), ROW(BuildSelect),
    ROW(BuildInsertElement), ROW(BuildExtractElement),
    ROW(BuildShuffleVector),
    ROW(VerifyModule), ROW(CreatePassBuilderOptions),
    ROW(DisposePassBuilderOptions), ROW(RunPasses), ROW(GetErrorMessage),
    ROW(DisposeErrorMessage),
};
/* clang-format on */

static_assert(ARRAY_LEN(rows) * sizeof(void *) == sizeof(struct llvm_api),
              "a row for every function");

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static pthread_once_t amdgpu_once = PTHREAD_ONCE_INIT;
static pthread_once_t foreign_once = PTHREAD_ONCE_INIT;
static struct llvm_api loaded;
static void *library;
static struct {
    char text[320]; /* empty: loaded */
    bell_status status;
} load_error = {.status = BELL_E_UNSUPPORTED};
static char amdgpu_error[256]; /* empty: initialised */
static char foreign_error[256];

/* Where the calling thread goes when LLVM gives up. */
static _Thread_local struct {
    jmp_buf env;
    char message[256];
    int armed;
} trap;

static void
catch_fatal(const char *reason)
{
    if (!trap.armed)
        return;
    trap.armed = 0;
    snprintf(trap.message, sizeof(trap.message), "%s", reason);
    longjmp(trap.env, 1);
}

/* What the linker says where there is no memory for a file. src: the messages
 * in glibc 2.36's ld.so */
static bool
is_of_memory(const char *why)
{
    return strstr(why, "failed to map segment") ||
           strstr(why, "cannot map zero-fill") ||
           strstr(why, "annot allocate") ||
           strstr(why, "cannot create shared object descriptor");
}

/* Whether the library is missing, as the C library says so in the program's
 * language. A package adds a missing file; it does not mend one that cannot be
 * read. */
static bool
is_absent(const char *why)
{
    return strstr(why, strerror(ENOENT));
}

/* The linker's words do not name memory where that was short. `named`: the file
 * that BELL_LLVM names, or NULL. */
static void
tell_load_error(const char *why, const char *named)
{
    struct rlimit limit;

    load_error.status = is_of_memory(why) ? BELL_E_NO_MEMORY
                        : is_absent(why)  ? BELL_E_UNSUPPORTED
                                          : BELL_E_IO;
    if (load_error.status != BELL_E_NO_MEMORY)
        snprintf(load_error.text, sizeof(load_error.text),
                 "LLVM 19 cannot be loaded: %.120s%s", why,
                 named            ? "; BELL_LLVM names this file"
                 : is_absent(why) ? "; Debian's package is libllvm19"
                                  : "");
    else if (getrlimit(RLIMIT_AS, &limit) == 0 &&
             limit.rlim_cur != RLIM_INFINITY)
        snprintf(load_error.text, sizeof(load_error.text),
                 "out of memory for LLVM 19, with a limit of %llu KiB "
                 "(ulimit -v): %.120s",
                 (unsigned long long)limit.rlim_cur / 1024, why);
    else
        snprintf(load_error.text, sizeof(load_error.text),
                 "out of memory for LLVM 19: %.120s", why);
}

static void *
open_library(void)
{
    static const char *const names[] = {"libLLVM.so.19.1", "libLLVM-19.so.1",
                                        "libLLVM-19.so", BELL_LLVM_PATH};
    const char *named = env_get("BELL_LLVM");
    char first[256] = "?";
    void *lib;
    size_t i;

    /* A static C library's dlopen would bring a second C library in. */
    if (process_is_static()) {
        snprintf(load_error.text, sizeof(load_error.text),
                 "this program is linked statically (-static), and LLVM, which "
                 "makes machine code, cannot be loaded into it: link "
                 "libdoorbell.a without -static, or run a saved bundle");
        return NULL;
    }
    if (named) {
        lib = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        if (!lib)
            tell_load_error(dlerror(), named);
        return lib;
    }
    for (i = 0; i < ARRAY_LEN(names); i++) {
        const char *why;

        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        why = lib ? NULL : dlerror();
        if (lib)
            return lib;
        if (i == 0 && why)
            snprintf(first, sizeof(first), "%s", why);
    }
    tell_load_error(first, NULL);
    return NULL;
}

static int
init_target(void *lib, const char *target, char *error, size_t error_bytes)
{
    static const char *const steps[] = {"TargetInfo", "Target", "TargetMC",
                                        "AsmPrinter"};
    size_t i;

    for (i = 0; i < ARRAY_LEN(steps); i++) {
        char name[64];
        void *sym;
        void (*init)(void);
        snprintf(name, sizeof(name), "LLVMInitialize%s%s", target, steps[i]);
        sym = dlsym(lib, name);
        if (!sym) {
            snprintf(error, error_bytes,
                     "this LLVM was built without the %s code generator (%s)",
                     target, name);
            return -1;
        }
        memcpy(&init, &sym, sizeof(init));
        init();
    }
    return 0;
}

static void
load_library(void)
{
    void *lib = open_library();
    unsigned version[3] = {0};
    size_t i;

    if (!lib)
        return;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        void *sym = dlsym(lib, rows[i].name);
        if (!sym) {
            snprintf(load_error.text, sizeof(load_error.text),
                     "the LLVM found has no %s: version 19 is needed",
                     rows[i].name);
            return;
        }
        memcpy((char *)&loaded + rows[i].offset, &sym, sizeof(sym));
    }
    loaded.GetVersion(&version[0], &version[1], &version[2]);
    if (version[0] != 19) {
        snprintf(load_error.text, sizeof(load_error.text),
                 "LLVM %u.%u found, version 19 is needed", version[0],
                 version[1]);
        return;
    }
    library = lib;
    if (init_target(lib, NATIVE_TARGET, load_error.text,
                    sizeof(load_error.text)) == 0)
        loaded.InstallFatalErrorHandler(catch_fatal);
}

static void
init_amdgpu(void)
{
    (void)init_target(library, "AMDGPU", amdgpu_error, sizeof(amdgpu_error));
}

static void
init_foreign(void)
{
    (void)init_target(library, FOREIGN_TARGET, foreign_error,
                      sizeof(foreign_error));
}

bell_status
llvm_api_get(const struct llvm_api **out_api)
{
    pthread_once(&load_once, load_library);
    if (load_error.text[0])
        return bell_fail(load_error.status, "%s", load_error.text);
    *out_api = &loaded;
    return BELL_OK;
}

bell_status
render_llvm_check(void)
{
    const struct llvm_api *ll;

    BELL_TRY(llvm_api_get(&ll));
    return BELL_OK;
}

bell_status
render_llvm_file(char *buf, size_t size_bytes)
{
    const struct llvm_api *ll;
    Dl_info info;
    void *sym;

    BELL_TRY(llvm_api_get(&ll));
    memcpy(&sym, &ll->GetVersion, sizeof(sym));
    if (!dladdr(sym, &info) || !info.dli_fname ||
        strlen(info.dli_fname) >= size_bytes)
        return bell_fail(BELL_E_UNSUPPORTED, "LLVM's library has no path");
    snprintf(buf, size_bytes, "%s", info.dli_fname);
    return BELL_OK;
}

bell_status
llvm_api_amdgpu(void)
{
    const struct llvm_api *ll;

    BELL_TRY(llvm_api_get(&ll));
    pthread_once(&amdgpu_once, init_amdgpu);
    if (amdgpu_error[0])
        return bell_fail(BELL_E_UNSUPPORTED, "%s", amdgpu_error);
    return BELL_OK;
}

bell_status
llvm_api_foreign(void)
{
    const struct llvm_api *ll;

    BELL_TRY(llvm_api_get(&ll));
    pthread_once(&foreign_once, init_foreign);
    if (foreign_error[0])
        return bell_fail(BELL_E_UNSUPPORTED, "%s", foreign_error);
    return BELL_OK;
}

bell_status
llvm_guard(void (*fn)(void *arg), void *arg)
{
    assert(!trap.armed);
    if (setjmp(trap.env))
        return bell_fail(BELL_E_COMPILE, "LLVM gave up: %s", trap.message);
    trap.armed = 1;
    fn(arg);
    trap.armed = 0;
    return BELL_OK;
}
