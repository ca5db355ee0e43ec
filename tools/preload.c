/* What `doorbell trace record` and `doorbell sim` share: libraries of ours in
 * other programs. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/bits.h"
#include "base/regular_file.h"
#include "tools/tools.h"

#define HIGHEST_FD 16384
#define N_TRAPPED  256
/* src: exec_binprm in fs/exec.c of Linux 6.1: ELOOP after that. */
#define SCRIPTS_MAX 5

bool
tool_find_library(const char *name, const char *variable, const char *folder,
                  char *out, size_t out_bytes)
{
    static const char *const places[] = {
        "",
        "/../lib",
        "/../lib/x86_64-linux-gnu",
        "/../lib/aarch64-linux-gnu",
        "/../lib64",
    };
    const char *named = env_get(variable);
    char self[400], *slash;
    ssize_t n;
    size_t i;

    if (named) {
        snprintf(out, out_bytes, "%s", named);
        return access(out, R_OK) == 0;
    }
    n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        return false;
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    snprintf(out, out_bytes, "%s/../%s/%s", self, folder, name);
    if (access(out, R_OK) == 0)
        return true;
    for (i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(out, out_bytes, "%s%s/%s", self, places[i], name);
        if (access(out, R_OK) == 0)
            return true;
    }
    return false;
}

void
tool_preload(const char *library)
{
    const char *was = env_get("LD_PRELOAD");
    char preload[1024];

    snprintf(preload, sizeof(preload), "%s%s%s", library,
             was && *was ? ":" : "", was ? was : "");
    setenv("LD_PRELOAD", preload, 1);
}

/* ---- what can be preloaded into ---------------------------------------- */

/* As execvp looks for it; false: there is none. */
static bool
find_program(const char *program, char *out, size_t out_bytes)
{
    const char *at = env_get("PATH");

    if (strchr(program, '/')) {
        snprintf(out, out_bytes, "%s", program);
        return access(out, X_OK) == 0;
    }
    while (at && *at) {
        size_t n = strcspn(at, ":");

        snprintf(out, out_bytes, "%.*s%s%s", (int)n, at, n ? "/" : "", program);
        if (access(out, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* Whether a dynamic linker starts the program. True where it cannot be read:
 * then the kernel will say what is wrong. */
static bool
has_linker(int fd, const uint8_t *head, ssize_t n)
{
    Elf64_Ehdr elf;
    Elf64_Phdr part;
    uint32_t i;

    if (n < (ssize_t)sizeof(elf))
        return true;
    memcpy(&elf, head, sizeof(elf));
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof(part))
        return true;
    for (i = 0; i < elf.e_phnum; i++) {
        off_t at = (off_t)(elf.e_phoff + i * sizeof(part));

        if (pread(fd, &part, sizeof(part), at) != (ssize_t)sizeof(part) ||
            part.p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* The first bytes of a program, which stays open. */
struct program {
    char path[1024];
    int fd;
    uint8_t head[256];
    ssize_t n;
};

/* False: cannot be read. */
static bool
open_program(const char *name, struct program *out)
{
    struct regular_file file;

    if (!find_program(name, out->path, sizeof(out->path)) ||
        regular_file_open(out->path, &file) != BELL_OK)
        return false;
    memset(out->head, 0, sizeof(out->head));
    out->fd = file.fd;
    out->n = pread(file.fd, out->head, sizeof(out->head) - 1, 0);
    return true;
}

static bool
is_script(const struct program *p, char interpreter[256])
{
    return p->n > 2 && p->head[0] == '#' && p->head[1] == '!' &&
           sscanf((const char *)p->head + 2, " %255s", interpreter) == 1;
}

/* A script's interpreter may be a script. Linux follows five, and so do we: a
 * script that names itself ends here, and the kernel says what is wrong. */
bool
tool_refuses_preload(const char *name, char *text, size_t text_bytes)
{
    char interpreter[256];
    struct program p;
    bool refuses = true;
    unsigned n_scripts = 0;
    struct stat st;

    if (!open_program(name, &p))
        return false;
    while (is_script(&p, interpreter)) {
        close(p.fd);
        if (++n_scripts > SCRIPTS_MAX || !open_program(interpreter, &p))
            return false;
    }
    if (fstat(p.fd, &st) == 0 && st.st_mode & (S_ISUID | S_ISGID))
        snprintf(text, text_bytes,
                 "%s runs with the rights of its owner: nothing can be "
                 "preloaded into it",
                 p.path);
    else if (!has_linker(p.fd, p.head, p.n))
        snprintf(text, text_bytes,
                 "%s is a static program: nothing can be preloaded into it",
                 p.path);
    else
        refuses = false;
    close(p.fd);
    return refuses;
}

/* ---- running ------------------------------------------------------------ */

/* The child until it executes the program. It ends when this process does. */
static void
become(char **argv, const sigset_t *mask, pid_t parent,
       void (*prepare)(void *user), void *user)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(127);
    sigprocmask(SIG_SETMASK, mask, NULL);
    prepare(user);
    execvp(argv[0], argv);
    tool_eprintf("doorbell: cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* To its end. Signals that would end this process go to that one, which is
 * waited for, so that the caller can tidy up. */
static int
wait_for(pid_t pid, const sigset_t *signals)
{
    int wait_status = 0, number;
    pid_t ended;

    while ((ended = waitpid(pid, &wait_status, WNOHANG)) == 0) {
        number = sigwaitinfo(signals, NULL);
        if (number > 0 && number != SIGCHLD)
            kill(pid, number);
    }
    return ended < 0 ? -1 : wait_status;
}

int
tool_run(char **argv, void (*prepare)(void *user), void *user)
{
    pid_t parent = getpid(), pid;
    sigset_t signals, mask;
    int wait_status;

    fflush(NULL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, &mask);
    pid = fork();
    if (pid == 0)
        become(argv, &mask, parent, prepare, user);
    wait_status = pid < 0 ? -1 : wait_for(pid, &signals);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return wait_status;
}

int
tool_trap_first(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > HIGHEST_FD)
        return HIGHEST_FD - N_TRAPPED;
    return limit.rlim_cur > 2 * N_TRAPPED ? (int)limit.rlim_cur - N_TRAPPED : 0;
}
