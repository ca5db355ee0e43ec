/* LLVM 19's library for tests, with a memory: BELL_LLVM names it, and
 * BELL_KNOWN_CODE a folder in which it keeps the code that it made.
 *
 * Two thirds of the time of an attention suite is LLVM's, for kernels that the
 * build before compiled too: the sanitizers see nothing of LLVM. Here the
 * library itself is loaded, and the calls that take the time are replaced:
 * passes are put off until code is asked for.
 *
 * Code is looked for by all that it follows from, compared whole: the module's
 * bitcode, passes, machine and LLVM's own file. A module in which LLVM finds an
 * error is compiled each time. Without the folder each call goes to LLVM as it
 * comes.
 */
#include <dlfcn.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#define API      __attribute__((visibility("default")))
#define FN(name) __typeof__(LLVM##name) *name

/* The functions that are replaced here. */
static struct {
    FN(CreateTargetMachine);
    FN(DisposeTargetMachine);
    FN(RunPasses);
    FN(PrintModuleToString);
    FN(DisposeModule);
    FN(TargetMachineEmitToMemoryBuffer);
} real;
static char library[512]; /* LLVM's file, and which one it is */
static const char *folder;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* What a code generator was made with. */
struct machine {
    LLVMTargetMachineRef tm;
    char *text;
    struct machine *next;
};
static struct machine *machines;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The passes that this thread's module is to go through yet. */
static _Thread_local struct {
    LLVMModuleRef mod;
    LLVMTargetMachineRef tm;
    char passes[512];
} put_off;

static void
find(void *out_fn, void *lib, const char *name)
{
    void *sym = dlsym(lib, name);

    if (!sym) {
        fprintf(stderr, "known_code: LLVM has no %s\n", name);
        abort();
    }
    memcpy(out_fn, &sym, sizeof(sym));
}

static void
find_all(void)
{
    /* this library was linked with it, so it is there */
    void *lib = dlopen("libLLVM.so.19.1", RTLD_NOW | RTLD_NOLOAD), *any;
    struct stat st;
    Dl_info info;

    if (!lib) {
        fprintf(stderr, "known_code: %s\n", dlerror());
        abort();
    }
    find(&real.CreateTargetMachine, lib, "LLVMCreateTargetMachine");
    find(&real.DisposeTargetMachine, lib, "LLVMDisposeTargetMachine");
    find(&real.RunPasses, lib, "LLVMRunPasses");
    find(&real.PrintModuleToString, lib, "LLVMPrintModuleToString");
    find(&real.DisposeModule, lib, "LLVMDisposeModule");
    find(&real.TargetMachineEmitToMemoryBuffer, lib,
         "LLVMTargetMachineEmitToMemoryBuffer");
    memcpy(&any, &real.RunPasses, sizeof(any));
    folder = getenv("BELL_KNOWN_CODE");
    if (!folder || !*folder || !dladdr(any, &info) || !info.dli_fname ||
        stat(info.dli_fname, &st) != 0)
        folder = NULL;
    else
        snprintf(library, sizeof(library), "%.300s %lld %lld", info.dli_fname,
                 (long long)st.st_size, (long long)st.st_mtime);
}

/* ---- machines ---- */

API LLVMTargetMachineRef
LLVMCreateTargetMachine(LLVMTargetRef target, const char *triple,
                        const char *cpu, const char *features,
                        LLVMCodeGenOptLevel level, LLVMRelocMode reloc,
                        LLVMCodeModel model)
{
    LLVMTargetMachineRef tm;
    struct machine *m;
    size_t size;

    pthread_once(&once, find_all);
    tm = real.CreateTargetMachine(target, triple, cpu, features, level, reloc,
                                  model);
    if (!tm || !folder)
        return tm;
    m = malloc(sizeof(*m));
    size = strlen(triple) + strlen(cpu) + strlen(features) + 64;
    if (!m || !(m->text = malloc(size)))
        abort();
    snprintf(m->text, size, "%s\n%s\n%s\n%d %d %d", triple, cpu, features,
             (int)level, (int)reloc, (int)model);
    m->tm = tm;
    pthread_mutex_lock(&lock);
    m->next = machines;
    machines = m;
    pthread_mutex_unlock(&lock);
    return tm;
}

API void
LLVMDisposeTargetMachine(LLVMTargetMachineRef tm)
{
    struct machine **at, *gone = NULL;

    pthread_once(&once, find_all);
    pthread_mutex_lock(&lock);
    for (at = &machines; *at && (*at)->tm != tm; at = &(*at)->next) {
    }
    if (*at) {
        gone = *at;
        *at = gone->next;
    }
    pthread_mutex_unlock(&lock);
    if (gone)
        free(gone->text);
    free(gone);
    real.DisposeTargetMachine(tm);
}

/* NULL: made before this library was asked. */
static const char *
machine_text(LLVMTargetMachineRef tm)
{
    const char *text = NULL;
    struct machine *m;

    pthread_mutex_lock(&lock);
    for (m = machines; m && !text; m = m->next) {
        if (m->tm == tm)
            text = m->text;
    }
    pthread_mutex_unlock(&lock);
    return text;
}

/* ---- modules ---- */

/* Does what was put off. */
static LLVMErrorRef
run_passes(LLVMModuleRef mod)
{
    LLVMPassBuilderOptionsRef options;
    LLVMErrorRef error;

    if (put_off.mod != mod)
        return NULL;
    put_off.mod = NULL;
    options = LLVMCreatePassBuilderOptions();
    error = real.RunPasses(mod, put_off.passes, put_off.tm, options);
    LLVMDisposePassBuilderOptions(options);
    return error;
}

API LLVMErrorRef
LLVMRunPasses(LLVMModuleRef mod, const char *passes, LLVMTargetMachineRef tm,
              LLVMPassBuilderOptionsRef options)
{
    pthread_once(&once, find_all);
    if (!folder || strlen(passes) >= sizeof(put_off.passes))
        return real.RunPasses(mod, passes, tm, options);
    put_off.mod = mod;
    put_off.tm = tm;
    strcpy(put_off.passes, passes);
    return NULL;
}

API char *
LLVMPrintModuleToString(LLVMModuleRef mod)
{
    LLVMErrorRef error;

    pthread_once(&once, find_all);
    error = run_passes(mod);
    if (error)
        LLVMConsumeError(error);
    return real.PrintModuleToString(mod);
}

API void
LLVMDisposeModule(LLVMModuleRef mod)
{
    pthread_once(&once, find_all);
    if (put_off.mod == mod)
        put_off.mod = NULL;
    real.DisposeModule(mod);
}

/* ---- what is known ---- */

struct bytes {
    char *data;
    size_t n;
};

static void
append(struct bytes *b, const void *data, size_t n)
{
    b->data = realloc(b->data, b->n + n);
    if (!b->data)
        abort();
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

/* All that code follows from. */
static struct bytes
make_key(LLVMModuleRef mod, const char *machine, LLVMCodeGenFileType type)
{
    const char *passes = put_off.mod == mod ? put_off.passes : "";
    LLVMMemoryBufferRef bitcode = LLVMWriteBitcodeToMemoryBuffer(mod);
    struct bytes key = {NULL, 0};
    char what = (char)('0' + (int)type);

    append(&key, library, strlen(library) + 1);
    append(&key, machine, strlen(machine) + 1);
    append(&key, passes, strlen(passes) + 1);
    append(&key, &what, 1);
    append(&key, LLVMGetBufferStart(bitcode), LLVMGetBufferSize(bitcode));
    LLVMDisposeMemoryBuffer(bitcode);
    return key;
}

static uint64_t
hash(const struct bytes *key, uint64_t h)
{
    size_t i;

    for (i = 0; i < key->n; i++)
        h = (h ^ (unsigned char)key->data[i]) * 0x100000001b3ull;
    return h ^ h >> 29;
}

static void
name_file(const struct bytes *key, char *path, size_t size)
{
    snprintf(path, size, "%s/%016llx%016llx", folder,
             (unsigned long long)hash(key, 0xcbf29ce484222325ull),
             (unsigned long long)hash(key, 0x9e3779b97f4a7c15ull));
}

/* A file is the key's size, the key, and the code. */
static LLVMMemoryBufferRef
find_code(const struct bytes *key, const char *path)
{
    FILE *f = fopen(path, "rb");
    LLVMMemoryBufferRef found = NULL;
    struct bytes all = {NULL, 0};
    char part[65536];
    uint64_t n_key;
    size_t n;

    if (!f)
        return NULL;
    while ((n = fread(part, 1, sizeof(part), f)) > 0)
        append(&all, part, n);
    fclose(f);
    if (all.n > sizeof(n_key) + key->n) {
        memcpy(&n_key, all.data, sizeof(n_key));
        n = sizeof(n_key) + key->n;
        if (n_key == key->n &&
            memcmp(all.data + sizeof(n_key), key->data, key->n) == 0)
            found = LLVMCreateMemoryBufferWithMemoryRangeCopy(
                all.data + n, all.n - n, "known");
    }
    free(all.data);
    if (found)
        (void)utime(path, NULL); /* the longest unused may be removed */
    return found;
}

/* Under another name first: others may look at the same time. */
static void
keep_code(const struct bytes *key, const char *path, LLVMMemoryBufferRef code)
{
    uint64_t n_key = key->n;
    char other[1100];
    bool good;
    FILE *f;

    snprintf(other, sizeof(other), "%s.%ld.%lx", path, (long)getpid(),
             (unsigned long)pthread_self());
    f = fopen(other, "wb");
    if (!f)
        return;
    good = fwrite(&n_key, sizeof(n_key), 1, f) == 1 &&
           fwrite(key->data, key->n, 1, f) == 1 &&
           fwrite(LLVMGetBufferStart(code), LLVMGetBufferSize(code), 1, f) == 1;
    good = fclose(f) == 0 && good;
    if (!good || rename(other, path) != 0)
        (void)unlink(other);
}

/* Tells the program what LLVM tells, and remembers that it did. */
struct listener {
    LLVMDiagnosticHandler handler;
    void *arg;
    bool heard;
};

static void
listen(LLVMDiagnosticInfoRef info, void *arg)
{
    struct listener *l = arg;

    /* who compiles listens to errors alone (render/llvm/llvm_job.c) */
    l->heard |= LLVMGetDiagInfoSeverity(info) == LLVMDSError;
    if (l->handler)
        l->handler(info, l->arg);
}

/* Compiles; false where the result may not be kept. */
static bool
compile(LLVMTargetMachineRef tm, LLVMModuleRef mod, LLVMCodeGenFileType type,
        char **message, LLVMMemoryBufferRef *out, LLVMBool *out_failed)
{
    LLVMContextRef ctx = LLVMGetModuleContext(mod);
    struct listener l = {LLVMContextGetDiagnosticHandler(ctx),
                         LLVMContextGetDiagnosticContext(ctx), false};
    LLVMErrorRef error;

    LLVMContextSetDiagnosticHandler(ctx, listen, &l);
    error = run_passes(mod);
    if (error) {
        char *text = LLVMGetErrorMessage(error);

        *message = LLVMCreateMessage(text);
        LLVMDisposeErrorMessage(text);
        *out_failed = 1;
    } else {
        *out_failed =
            real.TargetMachineEmitToMemoryBuffer(tm, mod, type, message, out);
    }
    LLVMContextSetDiagnosticHandler(ctx, l.handler, l.arg);
    return !*out_failed && !l.heard;
}

API LLVMBool
LLVMTargetMachineEmitToMemoryBuffer(LLVMTargetMachineRef tm, LLVMModuleRef mod,
                                    LLVMCodeGenFileType type, char **message,
                                    LLVMMemoryBufferRef *out)
{
    const char *machine;
    LLVMBool failed;
    struct bytes key;
    char path[1024];

    pthread_once(&once, find_all);
    machine = folder ? machine_text(tm) : NULL;
    if (!machine) {
        (void)compile(tm, mod, type, message, out, &failed);
        return failed;
    }
    key = make_key(mod, machine, type);
    name_file(&key, path, sizeof(path));
    *out = find_code(&key, path);
    failed = 0;
    if (*out)
        put_off.mod = NULL;
    else if (compile(tm, mod, type, message, out, &failed))
        keep_code(&key, path, *out);
    free(key.data);
    return failed;
}
