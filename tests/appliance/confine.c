/* Runs a program under the rules that services give theirs:
 *   mdwe      memory may not become executable: PR_SET_MDWE, Linux 6.3
 *   mprotect  the same by a filter of calls, as systemd's
 *             MemoryDenyWriteExecute sets it
 *   memfd     no memfd_create
 *   FILE      only the calls that the file names, one a line; others end the
 *             program
 *
 * usage: confine RULE... -- PROGRAM ARGS
 * Exit code 77: this kernel knows no such rule.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS_MAX 128

#ifndef PR_SET_MDWE
#define PR_SET_MDWE              65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#define ROW(name)                                                              \
    {                                                                          \
#name, SYS_##name                                                      \
    }

/* Numbers of the calls that a file may name. */
static const struct {
    const char *name;
    uint32_t number;
} known[] = {
    ROW(read),
    ROW(write),
    ROW(close),
    ROW(fstat),
    ROW(lseek),
    ROW(mmap),
    ROW(mprotect),
    ROW(munmap),
    ROW(brk),
    ROW(rt_sigaction),
    ROW(rt_sigprocmask),
    ROW(rt_sigreturn),
    ROW(ioctl),
    ROW(pread64),
    ROW(readv),
    ROW(writev),
    ROW(sched_yield),
    ROW(mremap),
    ROW(madvise),
    ROW(getpid),
    ROW(clone),
    ROW(exit),
    ROW(exit_group),
    ROW(fcntl),
    ROW(ftruncate),
    ROW(unlinkat),
    ROW(gettid),
    ROW(futex),
    ROW(sched_getaffinity),
    ROW(set_tid_address),
    ROW(clock_gettime),
    ROW(clock_nanosleep),
    ROW(tgkill),
    ROW(openat),
    ROW(set_robust_list),
    ROW(prlimit64),
    ROW(getrandom),
    ROW(memfd_create),
    ROW(membarrier),
    ROW(rseq),
    ROW(clone3),
    ROW(newfstatat),
    ROW(readlinkat),
    ROW(faccessat),
    ROW(execve),
    ROW(renameat),
    ROW(renameat2),
    ROW(sigaltstack),
    ROW(nanosleep),
    ROW(sched_setaffinity),
    ROW(prctl),
    ROW(getuid),
    ROW(statx),
    ROW(geteuid),
    ROW(fsync),
    ROW(fallocate),
    ROW(linkat),
    ROW(kill),
    ROW(ppoll),
    ROW(accept4),
    ROW(bind),
    ROW(connect),
    ROW(listen),
    ROW(sendto),
    ROW(socket),
    ROW(getdents64),
    ROW(fchmod),
    ROW(flock),
    ROW(uname),
    ROW(sysinfo),
    ROW(rt_sigpending),
    ROW(rt_sigtimedwait),
#ifdef SYS_arch_prctl
    ROW(arch_prctl),
    ROW(open),
    ROW(stat),
    ROW(access),
    ROW(readlink),
    ROW(unlink),
    ROW(rename),
    ROW(poll),
    ROW(lstat),
    ROW(link),
    ROW(mkdir),
#endif
};

static int
install(const struct sock_filter *rows, size_t n)
{
    struct sock_fprog program = {
        .len = (unsigned short)n,
        .filter = (struct sock_filter *)(uintptr_t)rows,
    };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

#define LOAD(offset)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define NUMBER        offsetof(struct seccomp_data, nr)
#define ARGUMENT(i)   (offsetof(struct seccomp_data, args) + 8 * (i))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)
#define ALLOW         ANSWER(SECCOMP_RET_ALLOW)
#define DENY          ANSWER(SECCOMP_RET_ERRNO | EPERM)
/* Goes on where the loaded word is k, else over `over` rows. */
#define IS(k, over) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, over)

static int
deny_exec(void)
{
    const struct sock_filter rows[] = {
        LOAD(NUMBER),
        IS(SYS_mmap, 5),
        LOAD(ARGUMENT(2)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
        IS(PROT_WRITE | PROT_EXEC, 1),
        DENY,
        ALLOW,
        IS(SYS_mprotect, 3),
        LOAD(ARGUMENT(2)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        DENY,
        ALLOW,
    };

    return install(rows, sizeof(rows) / sizeof(rows[0]));
}

static int
deny_memfd(void)
{
    const struct sock_filter rows[] = {LOAD(NUMBER), IS(SYS_memfd_create, 1),
                                       DENY, ALLOW};

    return install(rows, sizeof(rows) / sizeof(rows[0]));
}

/* -1: a name that is not known here. */
static long
number_of(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, name) == 0)
            return known[i].number;
    }
    return -1;
}

static int
allow_alone(const char *path)
{
    struct sock_filter rows[2 * CALLS_MAX + 2] = {LOAD(NUMBER)};
    FILE *file = fopen(path, "re");
    size_t n = 1;
    char name[64];

    if (!file)
        return -1;
    while (fscanf(file, "%63s", name) == 1 && n + 3 < 2 * CALLS_MAX) {
        const struct sock_filter is = IS((uint32_t)number_of(name), 1);

        if (number_of(name) < 0) {
            fprintf(stderr, "confine: no call '%s'\n", name);
            fclose(file);
            errno = EINVAL;
            return -1;
        }
        rows[n++] = is;
        rows[n++] = (struct sock_filter)ALLOW;
    }
    fclose(file);
    rows[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_KILL_PROCESS);
    return install(rows, n);
}

static int
apply(const char *rule)
{
    if (strcmp(rule, "mdwe") == 0)
        return prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0);
    if (strcmp(rule, "mprotect") == 0)
        return deny_exec();
    if (strcmp(rule, "memfd") == 0)
        return deny_memfd();
    return allow_alone(rule);
}

int
main(int argc, char **argv)
{
    int i;

    for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (apply(argv[i]) != 0) {
            fprintf(stderr, "confine: %s: %s\n", argv[i], strerror(errno));
            return errno == EINVAL || errno == ENOSYS ? 77 : 2;
        }
    }
    if (i + 1 >= argc) {
        fprintf(stderr, "usage: confine RULE... -- PROGRAM ARGS\n");
        return 2;
    }
    execv(argv[i + 1], argv + i + 1);
    fprintf(stderr, "confine: %s: %s\n", argv[i + 1], strerror(errno));
    return 2;
}
