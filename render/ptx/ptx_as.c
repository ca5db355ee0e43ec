/* ptxas as a program: found, run on temporary files, its complaints kept. */
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
find_in_path(char *buf, size_t size_bytes)
{
    const char *at = env_get("PATH"), *end;

    for (; at && *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ":");
        if (end > at && try_path(at, (int)(end - at), "ptxas", buf, size_bytes))
            return true;
    }
    return false;
}

bell_status
render_ptxas_find(char *buf, size_t size_bytes)
{
    const char *named = env_get("BELL_PTXAS"), *home = env_get("CUDA_HOME");

    if (named && *named) {
        if (try_path("", 0, named, buf, size_bytes))
            return BELL_OK;
        return bell_fail(BELL_E_UNSUPPORTED,
                         "$BELL_PTXAS is %s, which is no program", named);
    }
    if (BELL_PTXAS_PATH[0] && try_path("", 0, BELL_PTXAS_PATH, buf, size_bytes))
        return BELL_OK;
    if (home && *home &&
        try_path(home, (int)strlen(home), "bin/ptxas", buf, size_bytes))
        return BELL_OK;
    if (find_in_path(buf, size_bytes) ||
        try_path("", 0, "/usr/local/cuda/bin/ptxas", buf, size_bytes))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "no ptxas, which makes machine code for NVIDIA cards: "
                     "install the package cuda-nvcc (CUDA 13.0, or 12.8 and "
                     "later) and put it on PATH, or name the program in "
                     "$BELL_PTXAS");
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

/* What ptxas wrote, its end cut off where it is long. */
static void
read_messages(const char *path, char *buf, size_t size_bytes)
{
    FILE *file = fopen(path, "re");
    size_t n = 0;

    if (file) {
        n = fread(buf, 1, size_bytes - 1, file);
        fclose(file);
    }
    while (n && buf[n - 1] == '\n')
        n--;
    buf[n] = 0;
}

/* ---- the process ---- */

static bell_status
spawn(const char *program, const struct run *r, const char *arch, pid_t *out)
{
    char *const argv[] = {
        (char *)program,   "-arch",          (char *)arch, "-O3", "-o",
        (char *)r->output, (char *)r->input, NULL};
    posix_spawn_file_actions_t files;
    int err = posix_spawn_file_actions_init(&files);

    if (err)
        return bell_fail(BELL_E_NO_MEMORY, "starting %s", program);
    err = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!err)
        err = posix_spawn_file_actions_addopen(
            &files, 1, r->messages, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (!err)
        err = posix_spawn(out, program, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (err)
        return bell_fail_errno(BELL_E_IO, err, "starting %s: %s", program,
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

static bell_status
assemble(const char *program, const struct run *r, const char *text,
         const char *arch, struct render_binary *out)
{
    char messages[MAX_MESSAGE];
    int code = 0;
    pid_t pid;

    BELL_TRY(write_file(r->input, text));
    BELL_TRY(spawn(program, r, arch, &pid));
    BELL_TRY(await(pid, program, &code));
    if (code != 0) {
        read_messages(r->messages, messages, sizeof(messages));
        return bell_fail(BELL_E_COMPILE, "ptxas -arch %s failed (%d): %s", arch,
                         code, messages);
    }
    return read_binary(r->output, out);
}

bell_status
render_ptxas(const char *text, const struct ptx_target *target,
             struct render_binary *out_cubin)
{
    char program[1024], arch[24];
    struct run r;
    bell_status status;

    snprintf(arch, sizeof(arch), "sm_%u%s", target->sm,
             target->is_arch_specific ? "a" : "");
    BELL_TRY(render_ptxas_find(program, sizeof(program)));
    BELL_TRY(make_run(&r));
    status = assemble(program, &r, text, arch, out_cubin);
    remove_run(&r);
    return status;
}
