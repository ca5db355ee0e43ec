/* The seccomp filter, the handler of its signal, and what keeps that signal
 * from being blocked. src: seccomp(2), sigaction(2). */
#include "ioctl/intercept.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/bits.h"

#define EXPORT     __attribute__((visibility("default")))
#define TRAP_DATA  0xbe11       /* in si_errno: the trap is ours */
#define SI_SECCOMP 1            /* SYS_SECCOMP of the kernel's header */
#define PROBE      0xbe11be11ul /* the request that asks for the filter */

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#else
#error "the trap knows the registers of x86-64 and AArch64"
#endif

static struct {
    int first;               /* 0: no trap */
    struct sigaction theirs; /* what the program wants of SIGSYS */
    int (*sigaction)(int, const struct sigaction *, struct sigaction *);
    int (*sigprocmask)(int, const sigset_t *, sigset_t *);
    int (*pthread_sigmask)(int, const sigset_t *, sigset_t *);
} trap;

/* ---- files ------------------------------------------------------------- */

bool
kio_trap_has(int fd)
{
    return trap.first && fd >= trap.first && fd < trap.first + KIO_TRAP_FDS;
}

int
kio_trap_move(int fd)
{
    int at, flags;

    if (!trap.first || fd < 0 || kio_trap_has(fd))
        return fd;
    flags = fcntl(fd, F_GETFD);
    at = fcntl(fd, flags & FD_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, trap.first);
    if (at < 0)
        return fd;
    if (!kio_trap_has(at)) {
        syscall(SYS_close, at);
        return fd;
    }
    syscall(SYS_close, fd);
    return at;
}

/* ---- the handler ------------------------------------------------------- */

static void
get_arguments(const ucontext_t *context, long args[6])
{
#if defined(__x86_64__)
    const greg_t *r = context->uc_mcontext.gregs;
    const long values[6] = {r[REG_RDI], r[REG_RSI], r[REG_RDX],
                            r[REG_R10], r[REG_R8],  r[REG_R9]};

    memcpy(args, values, sizeof(values));
#else
    memcpy(args, context->uc_mcontext.regs, 6 * sizeof(args[0]));
#endif
}

static void
put_result(ucontext_t *context, long result)
{
#if defined(__x86_64__)
    context->uc_mcontext.gregs[REG_RAX] = result;
#else
    context->uc_mcontext.regs[0] = (unsigned long long)result;
#endif
}

/* A SIGSYS that is not ours. */
static void
pass_on(int number, siginfo_t *info, void *context)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    if (trap.theirs.sa_flags & SA_SIGINFO) {
        trap.theirs.sa_sigaction(number, info, context);
    } else if (trap.theirs.sa_handler == SIG_DFL) {
        trap.sigaction(number, &by_default, NULL);
        raise(number);
    } else if (trap.theirs.sa_handler != SIG_IGN) {
        trap.theirs.sa_handler(number);
    }
}

static void
handle(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    long args[6], result;

    if (info->si_code != SI_SECCOMP || info->si_errno != TRAP_DATA) {
        pass_on(number, info, context);
        return;
    }
    get_arguments(context, args);
    if (info->si_syscall == SYS_mmap) {
        void *p = kio_seen_mmap((void *)args[0], (size_t)args[1], (int)args[2],
                                (int)args[3], (int)args[4], args[5]);
        result = p == MAP_FAILED ? -errno : (long)(intptr_t)p;
    } else if ((unsigned long)args[1] == PROBE) {
        result = 1;
    } else {
        int done = kio_seen_ioctl((int)args[0], (unsigned long)args[1],
                                  (void *)args[2]);
        result = done < 0 ? -errno : done;
    }
    put_result(context, result);
    errno = saved_errno;
}

/* ---- the filter -------------------------------------------------------- */

#define LOAD(field)                                                            \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(op, value, yes, no)                                                 \
    BPF_JUMP(BPF_JMP | BPF_##op | BPF_K, (uint32_t)(value), yes, no)
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)

/* Numbers of files are ints: the low half of a word says all. */
static bool
install_filter(int first)
{
    struct sock_filter code[] = {
        LOAD(arch),
        IF(JEQ, THIS_ARCH, 0, 8),
        LOAD(nr),
        IF(JEQ, SYS_ioctl, 0, 2),
        LOAD(args[0]),
        IF(JGE, first, 3, 4),
        IF(JEQ, SYS_mmap, 0, 3),
        LOAD(args[4]),
        IF(JGE, first, 0, 1),
        IF(JGE, first + KIO_TRAP_FDS, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_TRAP | TRAP_DATA),
    };
    struct sock_fprog program = {ARRAY_LEN(code), code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static void
find_next(void)
{
    if (trap.sigaction)
        return;
    *(void **)&trap.sigaction = dlsym(RTLD_NEXT, "sigaction");
    *(void **)&trap.sigprocmask = dlsym(RTLD_NEXT, "sigprocmask");
    *(void **)&trap.pthread_sigmask = dlsym(RTLD_NEXT, "pthread_sigmask");
}

bool
kio_trap_install(int first)
{
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    sigset_t only;

    find_next();
    ours.sa_sigaction = handle;
    sigemptyset(&only);
    sigaddset(&only, SIGSYS);
    if (first <= 0 || !trap.sigaction || !trap.sigprocmask ||
        trap.sigaction(SIGSYS, &ours, &trap.theirs) < 0 ||
        trap.sigprocmask(SIG_UNBLOCK, &only, NULL) < 0)
        return false;
    /* A parent's filter is there still; the number is of no file yet. */
    if (syscall(SYS_ioctl, first, PROBE, NULL) != 1 && !install_filter(first)) {
        trap.sigaction(SIGSYS, &trap.theirs, NULL);
        return false;
    }
    trap.first = first;
    return true;
}

/* ---- signals of the program -------------------------------------------- */

EXPORT int
sigaction(int number, const struct sigaction *act, struct sigaction *old)
{
    struct sigaction copy, was = trap.theirs;

    find_next();
    if (!trap.first)
        return trap.sigaction(number, act, old);
    if (number == SIGSYS) {
        if (act)
            trap.theirs = *act;
        if (old)
            *old = was;
        return 0;
    }
    if (act) {
        copy = *act;
        sigdelset(&copy.sa_mask, SIGSYS);
        act = &copy;
    }
    return trap.sigaction(number, act, old);
}

EXPORT sighandler_t
signal(int number, sighandler_t handler)
{
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

    sigemptyset(&act.sa_mask);
    return sigaction(number, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

/* The set without ours. */
static const sigset_t *
let_through(int how, const sigset_t *set, sigset_t *copy)
{
    if (!trap.first || !set || how == SIG_UNBLOCK)
        return set;
    *copy = *set;
    sigdelset(copy, SIGSYS);
    return copy;
}

EXPORT int
sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;

    find_next();
    return trap.sigprocmask(how, let_through(how, set, &copy), old);
}

EXPORT int
pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;

    find_next();
    return trap.pthread_sigmask(how, let_through(how, set, &copy), old);
}
