/* Other programs: found, run on temporary files, what they print kept. */
#include "render/tool.h"

#include <assert.h>
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

bool
tool_try_path(const char *folder, int folder_len, const char *name, char *buf,
              size_t size_bytes)
{
    int n = folder_len
                ? snprintf(buf, size_bytes, "%.*s/%s", folder_len, folder, name)
                : snprintf(buf, size_bytes, "%s", name);

    assert(folder_len >= 0);
    return n > 0 && (size_t)n < size_bytes && is_program(buf);
}

bool
tool_find_in_path(const char *name, char *buf, size_t size_bytes)
{
    const char *at = env_get("PATH"), *end;

    for (; at && *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ":");
        if (end > at &&
            tool_try_path(at, (int)(end - at), name, buf, size_bytes))
            return true;
    }
    return false;
}

/* ---- files ---- */

bell_status
tool_begin(struct tool_run *r, const char *input, const char *output)
{
    const char *tmp = env_get("TMPDIR");
    int n = snprintf(r->folder, sizeof(r->folder), "%s/bell-tool-XXXXXX",
                     tmp && *tmp ? tmp : "/tmp");

    if (n < 0 || (size_t)n >= sizeof(r->folder) || !mkdtemp(r->folder))
        return bell_fail_errno(BELL_E_IO, errno,
                               "making a temporary folder %s: %s", r->folder,
                               strerror(errno));
    snprintf(r->input, sizeof(r->input), "%s/%s", r->folder, input);
    snprintf(r->output, sizeof(r->output), "%s/%s", r->folder, output);
    snprintf(r->messages, sizeof(r->messages), "%s/messages", r->folder);
    return BELL_OK;
}

void
tool_end(const struct tool_run *r)
{
    unlink(r->input);
    unlink(r->output);
    unlink(r->messages);
    rmdir(r->folder);
}

bell_status
tool_write(const char *path, const void *data, size_t size_bytes)
{
    FILE *file = fopen(path, "we");
    bool ok;

    if (!file)
        return bell_fail_errno(BELL_E_IO, errno, "writing %s: %s", path,
                               strerror(errno));
    ok = fwrite(data, 1, size_bytes, file) == size_bytes;
    ok &= fclose(file) == 0;
    return ok ? BELL_OK : bell_fail(BELL_E_IO, "writing %s failed", path);
}

bell_status
tool_read_output(const struct tool_run *r, const char *what,
                 struct render_binary *out)
{
    FILE *file = fopen(r->output, "re");
    struct render_binary b = {NULL, 0};
    struct stat st;
    bell_status status = BELL_OK;

    if (!file || fstat(fileno(file), &st) != 0 || st.st_size <= 0) {
        if (file)
            fclose(file);
        return bell_fail(BELL_E_COMPILE, "the program left no %s", what);
    }
    b.size_bytes = (size_t)st.st_size;
    b.data = host_alloc(b.size_bytes);
    if (!b.data)
        status = bell_fail(BELL_E_NO_MEMORY,
                           "reading a %s of %zu bytes: out of memory", what,
                           b.size_bytes);
    else if (fread(b.data, 1, b.size_bytes, file) != b.size_bytes)
        status = bell_fail(BELL_E_IO, "reading %s failed", r->output);
    fclose(file);
    if (status == BELL_OK)
        *out = b;
    else
        host_free(b.data);
    return status;
}

/* What a program wrote, without the last newline, zero terminated. */
static bell_status
read_messages(const struct tool_run *r, struct render_binary *out)
{
    FILE *file = fopen(r->messages, "re");
    struct stat st;
    char *text;
    size_t n;

    if (!file || fstat(fileno(file), &st) != 0) {
        bell_status status = bell_fail_file(r->messages, "cannot read");
        if (file)
            fclose(file);
        return status;
    }
    text = host_alloc((size_t)st.st_size + 1);
    if (!text) {
        fclose(file);
        return bell_fail(BELL_E_NO_MEMORY, "reading %s: out of memory",
                         r->messages);
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
spawn(char *const argv[], const struct tool_run *r, pid_t *out)
{
    posix_spawn_file_actions_t files;
    int err = posix_spawn_file_actions_init(&files);

    if (err)
        return bell_fail(BELL_E_NO_MEMORY, "starting %s: out of memory",
                         argv[0]);
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

bell_status
tool_execute(char *const argv[], const struct tool_run *r,
             struct render_binary *out)
{
    const char *name = strrchr(argv[0], '/');
    int code = 0;
    pid_t pid;

    assert(argv[0] && argv[1] && argv[2]);
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
