/* ptxas and nvdisasm as programs: found, run on temporary files, what they
 * print kept. */
#include "render/ptx/ptx.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/thread.h"

#ifndef BELL_PTXAS_PATH
#define BELL_PTXAS_PATH ""
#endif

#define TIMEOUT_NS  60000000000ull
#define MAX_MESSAGE 400

extern char **environ;

/* ---- where it is ---- */

static bool
is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           access(path, X_OK) == 0;
}

static bool
try_path(const char *folder, int folder_len, const char *name, char *buf,
         size_t size_bytes)
{
    int n = folder_len
                ? snprintf(buf, size_bytes, "%.*s/%s", folder_len, folder, name)
                : snprintf(buf, size_bytes, "%s", name);

    return n > 0 && (size_t)n < size_bytes && is_program(buf);
}

static bool
find_in_path(const char *name, char *buf, size_t size_bytes)
{
    const char *at = env_get("PATH"), *end;

    for (; at && *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ":");
        if (end > at && try_path(at, (int)(end - at), name, buf, size_bytes))
            return true;
    }
    return false;
}

/* Where programs of CUDA are. */
static bool
find_tool(const char *name, char *buf, size_t size_bytes)
{
    const char *home = env_get("CUDA_HOME");
    char in_bin[32];

    snprintf(in_bin, sizeof(in_bin), "bin/%s", name);
    return (home && *home &&
            try_path(home, (int)strlen(home), in_bin, buf, size_bytes)) ||
           find_in_path(name, buf, size_bytes) ||
           try_path("/usr/local/cuda", 15, in_bin, buf, size_bytes);
}

bell_status
render_ptxas_find(char *buf, size_t size_bytes)
{
    const char *named = env_get("BELL_PTXAS");

    if (named && *named) {
        if (try_path("", 0, named, buf, size_bytes))
            return BELL_OK;
        return bell_fail(BELL_E_UNSUPPORTED,
                         "$BELL_PTXAS is %s, which is no program", named);
    }
    if (BELL_PTXAS_PATH[0] && try_path("", 0, BELL_PTXAS_PATH, buf, size_bytes))
        return BELL_OK;
    if (find_tool("ptxas", buf, size_bytes))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "no ptxas, which makes machine code for NVIDIA cards: "
                     "install the package cuda-nvcc (CUDA 13.0, or 12.8 and "
                     "later) and put it on PATH, or name the program in "
                     "$BELL_PTXAS");
}

/* In ptxas's folder, where that is named; or where programs of CUDA are. */
static bell_status
find_nvdisasm(char *buf, size_t size_bytes)
{
    char ptxas[1024];
    const char *slash;

    BELL_TRY(render_ptxas_find(ptxas, sizeof(ptxas)));
    slash = strrchr(ptxas, '/');
    if ((slash &&
         try_path(ptxas, (int)(slash - ptxas), "nvdisasm", buf, size_bytes)) ||
        find_tool("nvdisasm", buf, size_bytes))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "no nvdisasm, which prints machine code of NVIDIA cards: "
                     "install the package cuda-nvdisasm and put it on PATH, "
                     "or beside ptxas (%s)",
                     ptxas);
}

/* ---- files ---- */

/* A run's temporary folder and what lies in it. */
struct run {
    char folder[256];
    char input[300], output[300], messages[300];
};

static bell_status
make_run(struct run *r)
{
    const char *tmp = env_get("TMPDIR");
    int n = snprintf(r->folder, sizeof(r->folder), "%s/bell-ptxas-XXXXXX",
                     tmp && *tmp ? tmp : "/tmp");

    if (n < 0 || (size_t)n >= sizeof(r->folder) || !mkdtemp(r->folder))
        return bell_fail_errno(BELL_E_IO, errno,
                               "making a temporary folder %s: %s", r->folder,
                               strerror(errno));
    snprintf(r->input, sizeof(r->input), "%s/in.ptx", r->folder);
    snprintf(r->output, sizeof(r->output), "%s/out.cubin", r->folder);
    snprintf(r->messages, sizeof(r->messages), "%s/messages", r->folder);
    return BELL_OK;
}

static void
remove_run(const struct run *r)
{
    unlink(r->input);
    unlink(r->output);
    unlink(r->messages);
    rmdir(r->folder);
}

static bell_status
write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    size_t n = strlen(text);
    bool ok;

    if (!file)
        return bell_fail_errno(BELL_E_IO, errno, "writing %s: %s", path,
                               strerror(errno));
    ok = fwrite(text, 1, n, file) == n;
    ok &= fclose(file) == 0;
    return ok ? BELL_OK : bell_fail(BELL_E_IO, "writing %s failed", path);
}

static bell_status
read_binary(const char *path, struct render_binary *out)
{
    FILE *file = fopen(path, "re");
    struct render_binary b = {NULL, 0};
    struct stat st;
    bell_status status = BELL_OK;

    if (!file || fstat(fileno(file), &st) != 0 || st.st_size <= 0) {
        if (file)
            fclose(file);
        return bell_fail(BELL_E_COMPILE, "ptxas left no cubin");
    }
    b.size_bytes = (size_t)st.st_size;
    b.data = host_alloc(b.size_bytes);
    if (!b.data)
        status = bell_fail(BELL_E_NO_MEMORY, "reading a cubin of %zu bytes",
                           b.size_bytes);
    else if (fread(b.data, 1, b.size_bytes, file) != b.size_bytes)
        status = bell_fail(BELL_E_IO, "reading %s failed", path);
    fclose(file);
    if (status == BELL_OK)
        *out = b;
    else
        host_free(b.data);
    return status;
}

/* What a program wrote, without the last newline, zero terminated. */
static bell_status
read_messages(const struct run *r, struct render_binary *out)
{
    FILE *file = fopen(r->messages, "re");
    struct stat st;
    char *text;
    size_t n;

    if (!file || fstat(fileno(file), &st) != 0) {
        if (file)
            fclose(file);
        return bell_fail(BELL_E_IO, "%s is gone", r->messages);
    }
    text = host_alloc((size_t)st.st_size + 1);
    if (!text) {
        fclose(file);
        return bell_fail(BELL_E_NO_MEMORY, "reading %s", r->messages);
    }
    n = fread(text, 1, (size_t)st.st_size, file);
    fclose(file);
    while (n && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    *out = (struct render_binary){text, n};
    return BELL_OK;
}

/* ---- the process ---- */

static bell_status
spawn(char *const argv[], const struct run *r, pid_t *out)
{
    posix_spawn_file_actions_t files;
    int err = posix_spawn_file_actions_init(&files);

    if (err)
        return bell_fail(BELL_E_NO_MEMORY, "starting %s", argv[0]);
    err = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!err)
        err = posix_spawn_file_actions_addopen(
            &files, 1, r->messages, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (!err)
        err = posix_spawn(out, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (err)
        return bell_fail_errno(BELL_E_IO, err, "starting %s: %s", argv[0],
                               strerror(err));
    return BELL_OK;
}

static bell_status
await(pid_t pid, const char *program, int *out_exit)
{
    uint64_t end = time_now_ns() + TIMEOUT_NS;
    int how = 0;
    pid_t got;

    for (;;) {
        got = waitpid(pid, &how, WNOHANG);
        if (got == pid)
            break;
        if (got < 0 && errno != EINTR)
            return bell_fail_errno(BELL_E_IO, errno, "waiting for %s: %s",
                                   program, strerror(errno));
        if (time_now_ns() > end) {
            kill(pid, SIGKILL);
            waitpid(pid, &how, 0);
            return bell_fail(BELL_E_TIMEOUT, "%s took more than a minute",
                             program);
        }
        poll(NULL, 0, 1);
    }
    *out_exit = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    return BELL_OK;
}

/* Runs argv to its end; *out is what it printed (render_binary_fini). */
static bell_status
run_tool(char *const argv[], const struct run *r, struct render_binary *out)
{
    const char *name = strrchr(argv[0], '/');
    int code = 0;
    pid_t pid;

    BELL_TRY(spawn(argv, r, &pid));
    BELL_TRY(await(pid, argv[0], &code));
    BELL_TRY(read_messages(r, out));
    if (code == 0)
        return BELL_OK;
    (void)bell_fail(BELL_E_COMPILE, "%s %s %s failed (%d): %.*s",
                    name ? name + 1 : argv[0], argv[1], argv[2], code,
                    MAX_MESSAGE, (const char *)out->data);
    render_binary_fini(out);
    return BELL_E_COMPILE;
}

/* What is wanted of a module; NULL: not that. */
struct wanted {
    struct render_binary *cubin;
    struct render_usage *usage;
    char **sass;
};

/* "Used 98 registers, used 1 barriers, 37888 bytes smem", "0 bytes stack frame,
 * 0 bytes spill stores, 0 bytes spill loads": ptxas -v, of the one kernel. */
static void
read_usage(const char *text, struct render_usage *out)
{
    const char *used = strstr(text, "Used "), *frame;
    const char *bytes = used ? strstr(used, " bytes smem") : NULL;
    unsigned stack = 0, stores = 0, loads = 0;

    memset(out, 0, sizeof(*out));
    if (used)
        out->n_regs = (uint32_t)strtoul(used + 5, NULL, 10);
    while (bytes && bytes > used && bytes[-1] != ' ')
        bytes--;
    if (bytes)
        out->shared_bytes = (uint32_t)strtoul(bytes, NULL, 10);
    frame = strstr(text, " bytes stack frame");
    while (frame && frame > text && frame[-1] != ' ' && frame[-1] != '\n')
        frame--;
    if (frame && sscanf(frame,
                        "%u bytes stack frame, %u bytes spill stores, "
                        "%u bytes spill loads",
                        &stack, &stores, &loads) == 3) {
        out->stack_bytes = stack;
        out->spill_bytes = stores + loads;
    }
}

static bell_status
assemble(char *program, struct run *r, const char *text, char *arch,
         const struct wanted *wanted)
{
    char flag_arch[] = "-arch", flag_o[] = "-o", flag_3[] = "-O3";
    char flag_v[] = "-v", flag_c[] = "-c", disassembler[1024];
    char *as[] = {program,   flag_arch, arch, flag_3, flag_o,
                  r->output, r->input,  NULL, NULL};
    char *dis[] = {disassembler, flag_c, r->output, NULL};
    struct render_binary printed;

    if (wanted->usage)
        as[7] = flag_v;
    BELL_TRY(write_file(r->input, text));
    BELL_TRY(run_tool(as, r, &printed));
    if (wanted->usage)
        read_usage(printed.data, wanted->usage);
    render_binary_fini(&printed);
    if (wanted->sass) {
        BELL_TRY(find_nvdisasm(disassembler, sizeof(disassembler)));
        BELL_TRY(run_tool(dis, r, &printed));
        *wanted->sass = printed.data;
    }
    return wanted->cubin ? read_binary(r->output, wanted->cubin) : BELL_OK;
}

static bell_status
assemble_in_folder(const char *text, const struct ptx_target *target,
                   const struct wanted *wanted)
{
    char program[1024], arch[24];
    struct run r;
    bell_status status;

    snprintf(arch, sizeof(arch), "sm_%u%s", target->sm,
             target->is_arch_specific ? "a" : "");
    BELL_TRY(render_ptxas_find(program, sizeof(program)));
    BELL_TRY(make_run(&r));
    status = assemble(program, &r, text, arch, wanted);
    remove_run(&r);
    return status;
}

bell_status
render_ptxas(const char *text, const struct ptx_target *target,
             struct render_binary *out_cubin)
{
    const struct wanted wanted = {.cubin = out_cubin};

    return assemble_in_folder(text, target, &wanted);
}

bell_status
render_ptxas_usage(const char *text, const struct ptx_target *target,
                   struct render_usage *out_usage)
{
    const struct wanted wanted = {.usage = out_usage};

    return assemble_in_folder(text, target, &wanted);
}

bell_status
render_sass(const char *text, const struct ptx_target *target, char **out_text)
{
    const struct wanted wanted = {.sass = out_text};

    return assemble_in_folder(text, target, &wanted);
}
