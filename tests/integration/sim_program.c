/* A program for the test of `doorbell sim`: looks for a card where KFD would
 * have one, in every way that a program may, and says what it finds. Each line
 * that starts with "not ok" is a difference from a real kernel.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ioctl/intercept.h"
#include "ioctl/kfd_uapi.h"

/* <sys/ioctl.h> is for ioctl/ alone. */
int ioctl(int fd, unsigned long request, ...);

#define NODE "/sys/devices/virtual/kfd/kfd/topology/nodes/1/"

static void
check(bool good, const char *what)
{
    printf("%s %s\n", good ? "ok" : "not ok", what);
}

static int
version_of(int fd, bool past_the_library)
{
    struct kfd_version args = {0};
    long r = past_the_library ? syscall(SYS_ioctl, fd, KFD_GET_VERSION, &args)
                              : ioctl(fd, KFD_GET_VERSION, &args);

    return r < 0 ? -errno : (int)(args.major * 100 + args.minor);
}

static void
check_files(void)
{
    char text[64] = "", path[4096];
    FILE *file = fopen(NODE "name", "r");
    DIR *dir = opendir("/sys/class/kfd/kfd/topology/nodes");
    struct stat st = {0};
    unsigned n = 0;
    glob_t found;

    check(file && fgets(text, sizeof(text), file) &&
              strcmp(text, "gfx1100\n") == 0,
          "a file of sysfs is read");
    if (file)
        fclose(file);
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    check(n == 4, "a folder of sysfs is listed");
    check(stat("/dev/kfd", &st) == 0 && S_ISCHR(st.st_mode), "stat of a node");
    check(stat("/dev/dri/renderD128", &st) == 0 &&
              st.st_rdev == makedev(226, 128),
          "the render node's number");
    check(access("/dev/kfd", R_OK | W_OK) == 0, "access of a node");
    check(access("/dev/kfd2", R_OK) < 0 && errno == ENOENT, "another name");
    check(realpath("/sys/class/kfd/kfd/topology/nodes/1", path) &&
              strcmp(path, "/sys/devices/virtual/kfd/kfd/topology/nodes/1") ==
                  0,
          "links are resolved");
    check(glob("/dev/dri/render*", 0, NULL, &found) == 0 &&
              found.gl_pathc == 1 &&
              strcmp(found.gl_pathv[0], "/dev/dri/renderD128") == 0,
          "a pattern finds the node");
}

static void
check_numbers(int fd)
{
    int copy = dup(fd), other = open("/dev/null", O_RDWR);

    check(version_of(copy, false) == 117, "a copy of the number");
    close(copy);
    check(version_of(copy, false) == -EBADF, "a copy that was closed");
    check(dup2(fd, other) == other && version_of(other, false) == 117,
          "dup2 to another number");
    close(other);
    check(version_of(fd, false) == 117, "the file stays");
    check(fcntl(fd, F_GETFD) == FD_CLOEXEC, "closed on exec");
}

static volatile sig_atomic_t n_signals;

static void
on_signal(int number)
{
    (void)number;
    n_signals++;
}

/* A program's own handlers, also of the signal that the simulation takes. */
static void
check_signals(int fd)
{
    static const int numbers[] = {SIGUSR1, SIGSYS};
    struct sigaction act = {.sa_handler = on_signal}, old;
    size_t i;

    for (i = 0; i < 2; i++) {
        n_signals = 0;
        check(signal(numbers[i], on_signal) == SIG_DFL, "no handler before");
        check(raise(numbers[i]) == 0 && n_signals == 1, "a handler runs");
        check(signal(numbers[i], SIG_IGN) == on_signal, "the handler before");
        check(raise(numbers[i]) == 0 && n_signals == 1, "none runs");
        check(sigaction(numbers[i], &act, &old) == 0 &&
                  old.sa_handler == SIG_IGN,
              "a signal was ignored");
        check(raise(numbers[i]) == 0 && n_signals == 2, "it runs again");
        check(sigaction(numbers[i], NULL, &old) == 0 &&
                  old.sa_handler == on_signal,
              "what there is");
        check(signal(numbers[i], SIG_DFL) == on_signal, "none any more");
    }
    check(signal(10000, on_signal) == SIG_ERR && errno == EINVAL,
          "a signal that there is not");
    check(version_of(fd, true) == 117, "the card still answers");
}

static siginfo_t seen_info;
static int asked_fd, asked_version;

static void
on_info(int number, siginfo_t *info, void *context)
{
    seen_info = *info;
    n_signals += number == SIGSYS && context;
}

static void
ask_version(int number)
{
    (void)number;
    asked_version = version_of(asked_fd, true);
}

/* Handlers that are told more, the end by the signal itself, and sets of
 * signals, from which the simulation's is taken and no other. */
static void
check_more_signals(int fd)
{
    struct sigaction act = {.sa_flags = SA_SIGINFO}, old;
    sigset_t set, was;
    int status = 0;
    pid_t pid;

    act.sa_sigaction = on_info;
    sigfillset(&act.sa_mask);
    n_signals = 0;
    check(sigaction(SIGSYS, &act, NULL) == 0 && raise(SIGSYS) == 0 &&
              n_signals == 1 && seen_info.si_pid == getpid(),
          "a handler is told who sent it");
    check(sigaction(SIGSYS, NULL, &old) == 0 && old.sa_sigaction == on_info &&
              old.sa_flags == SA_SIGINFO &&
              sigismember(&old.sa_mask, SIGSYS) == 1,
          "the handler as it was set");
    check(signal(SIGSYS, SIG_DFL) != SIG_ERR, "the default again");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        raise(SIGSYS);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS,
          "by default it ends the program");

    act.sa_flags = 0;
    act.sa_handler = ask_version;
    asked_fd = fd;
    check(sigaction(SIGUSR1, &act, NULL) == 0 && raise(SIGUSR1) == 0 &&
              asked_version == 117,
          "the card answers a handler that all is blocked for");
    check(sigaction(SIGUSR1, NULL, &old) == 0 &&
              sigismember(&old.sa_mask, SIGUSR2) == 1,
          "others stay blocked for it");
    signal(SIGUSR1, SIG_DFL);

    sigfillset(&set);
    check(sigprocmask(SIG_BLOCK, &set, &was) == 0 &&
              version_of(fd, true) == 117,
          "it answers with all blocked");
    check(sigprocmask(SIG_SETMASK, NULL, &set) == 0 &&
              sigismember(&set, SIGUSR1) == 1 && sigismember(&set, SIGSYS) == 0,
          "others are blocked");
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    check(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0 &&
              pthread_sigmask(SIG_SETMASK, NULL, &set) == 0 &&
              sigismember(&set, SIGUSR1) == 0 &&
              sigismember(&set, SIGUSR2) == 1,
          "one of them no more");
    check(sigprocmask(SIG_SETMASK, &was, NULL) == 0 &&
              pthread_sigmask(SIG_SETMASK, NULL, &set) == 0 &&
              sigismember(&set, SIGUSR2) == 0,
          "none any more");
}

/* Declared by <fcntl.h> of a program that is built with _FORTIFY_SOURCE. */
extern int __open_2(const char *path, int flags);
extern int __open64_2(const char *path, int flags);
extern int __openat_2(int dir, const char *path, int flags);
extern int __openat64_2(int dir, const char *path, int flags);
extern int open64(const char *path, int flags, ...);
extern int openat64(int dir, const char *path, int flags, ...);

/* As many files as the library traps calls on, from the first on, and one more,
 * which has a number like others. */
static void
check_number_of_files(int first)
{
    int fds[KIO_TRAP_FDS], i, n = 0, n_below = 0;

    for (i = 0; i < KIO_TRAP_FDS; i++) {
        fds[i] = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        n += version_of(fds[i], fds[i] > first) == 117;
        n_below += fds[i] < first;
    }
    check(n == KIO_TRAP_FDS && n_below == 1, "many files");
    for (i = 0; i < KIO_TRAP_FDS; i++)
        close(fds[i]);
}

static void
check_ways_to_open(int first)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    struct stat st = {0};
    int fds[7], i, n = 0, left, fd;
    int dev = open("/dev", O_RDONLY | O_DIRECTORY);

    fds[0] = openat(AT_FDCWD, "/dev/kfd", O_RDWR | O_CLOEXEC);
    fds[1] = openat64(dev, "/dev/kfd", O_RDWR | O_CLOEXEC);
    fds[2] = open64("/dev/kfd", O_RDWR | O_CLOEXEC);
    fds[3] = __open_2("/dev/kfd", O_RDWR | O_CLOEXEC);
    fds[4] = __open64_2("/dev/kfd", O_RDWR | O_CLOEXEC);
    fds[5] = __openat_2(dev, "/dev/kfd", O_RDWR | O_CLOEXEC);
    fds[6] = __openat64_2(AT_FDCWD, "/dev/kfd", O_RDWR);
    for (i = 0; i < 7; i++)
        n += version_of(fds[i], i & 1) == 117;
    check(n == 7, "every way to open a node");
    for (i = 0; i < 7; i++)
        close(fds[i]);
    check_number_of_files(first);
    fd = __openat_2(dev, "null", O_WRONLY);
    check(fd >= 0 && write(fd, "x", 1) == 1 &&
              (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY,
          "another file, below a folder");
    close(fd);

    snprintf(path, sizeof(path), "%s/made", folder ? folder : "/tmp");
    umask(0);
    fd = openat(AT_FDCWD, path, O_CREAT | O_EXCL | O_RDWR, 0615);
    check(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0615,
          "a file is made with its mode");
    close(fd);
    unlink(path);
    fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0651);
    check(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0651,
          "one by its path, too");
    close(fd);
    unlink(path);
    left = open(path, O_RDONLY);
    check(left < 0 && errno == ENOENT, "a file that is not there");
    close(dev);
}

static void *
in_thread(void *user)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    return (void *)(intptr_t)version_of(*(int *)user, true);
}

static void
check_past_library(int fd)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    int (*theirs)(int, unsigned long, ...) = NULL;
    struct kfd_version args = {0};
    pthread_t thread;
    void *result = NULL;

    check(version_of(fd, true) == 117, "a system call of one's own");
    if (libc)
        *(void **)&theirs = dlsym(libc, "ioctl");
    check(theirs && theirs(fd, KFD_GET_VERSION, &args) == 0 && args.minor == 17,
          "the C library by a handle");
    pthread_create(&thread, NULL, in_thread, &fd);
    pthread_join(thread, &result);
    check((intptr_t)result == 117, "with all signals blocked");
    check(syscall(SYS_ioctl, fd, KFD_GET_VERSION, NULL) < 0 && errno == EFAULT,
          "an argument that is not there");
    check(syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_SHARED, fd, 1l << 50) <
                  0 &&
              errno == EINVAL,
          "nothing to be mapped there");
    errno = EDOM;
    check(version_of(fd, true) == 117 && errno == EDOM,
          "an answer leaves errno alone");
}

/* Memory of the card, mapped past the library, at an address that was chosen
 * before. */
static void
check_memory(int kfd)
{
    FILE *file = fopen(NODE "gpu_id", "r");
    int drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    void *at = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct kfd_acquire_vm vm = {.drm_fd = (uint32_t)drm};
    struct kfd_alloc_memory alloc = {.va = (uintptr_t)at, .size_bytes = 65536};
    volatile uint32_t *words = at;
    long p;

    check(file && fscanf(file, "%u", &vm.gpu_id) == 1, "the card's id");
    if (file)
        fclose(file);
    check(ioctl(kfd, KFD_ACQUIRE_VM, &vm) == 0 && (int)vm.drm_fd == drm,
          "a number inside an argument");
    alloc.gpu_id = vm.gpu_id;
    alloc.flags = KFD_MEM_VRAM | KFD_MEM_PUBLIC | KFD_MEM_WRITABLE |
                  KFD_MEM_NO_SUBSTITUTE;
    check(ioctl(kfd, KFD_ALLOC_MEMORY, &alloc) == 0, "memory of the card");
    p = syscall(SYS_mmap, at, 65536, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_FIXED, drm, alloc.mmap_offset);
    check(p == (long)(intptr_t)at, "mapped at its address");
    words[100] = 0x1234;
    check(words[100] == 0x1234 && words[0] == 0xcbcbcbcb, "and there");
}

/* What libdrm and ROCm's runtime ask before anything else. */
static void
check_runtime(int kfd)
{
    int drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    struct kfd_clock_counters clocks = {.gpu_id = 0};
    struct kfd_memory_policy policy = {.gpu_id = 0x5001};
    char name[16] = "";
    struct {
        int32_t number[4];
        uint64_t name_bytes, name, rest[4];
    } version = {.name_bytes = sizeof(name), .name = (uintptr_t)name};
    uint32_t works = 0;
    struct amdgpu_info info = {.return_pointer = (uintptr_t)&works,
                               .return_bytes = sizeof(works)};

    check(ioctl(drm, 0xc0406400, &version) == 0 && version.number[0] == 3 &&
              strcmp(name, "amdgpu") == 0 && version.name_bytes == 6,
          "the render node's driver");
    check(ioctl(drm, AMDGPU_INFO_REQUEST, &info) == 0 && works == 1,
          "its card works");
    info.query = 0x77;
    check(ioctl(drm, AMDGPU_INFO_REQUEST, &info) < 0 && errno == EINVAL,
          "a query that is not served");
    check(ioctl(kfd, KFD_GET_CLOCKS, &clocks) == 0 && clocks.gpu_clock == 0 &&
              clocks.system_clock,
          "clocks of a node without a card");
    check(ioctl(kfd, KFD_REQUEST(1, 0x04, 32), &policy) < 0 && errno == EINVAL,
          "a policy for a card that is not there");
    close(drm);
}

static void
check_fork(int fd)
{
    int status = -1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        int own = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        int good = version_of(fd, false) == -EBADF &&
                   version_of(fd, true) == -EBADF &&
                   version_of(own, true) == 117;
        _exit(good ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    check(status == 0, "a forked child has a card of its own alone");
    check(version_of(fd, false) == 117, "which its parent does not notice");
}

/* Calls of a program before the library that is in their way has begun. */
static bool works_early;

static void
call_early(void)
{
    int fd = open("/dev/null", O_RDWR), word;
    void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    works_early = fd >= 0 && ioctl(fd, 0x5401, &word) < 0 && errno == ENOTTY &&
                  p != MAP_FAILED && munmap(p, 4096) == 0 && close(fd) == 0 &&
                  close(fd) < 0 && errno == EBADF;
}

__attribute__((section(".preinit_array"),
               used)) static void (*const first_of_all)(void) = call_early;

int
main(void)
{
    int fd;

    close(STDIN_FILENO); /* a number like others */
    check(works_early, "calls before there is a library");
    check_files();
    fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    check(fd >= 0, "open");
    check(version_of(fd, false) == 117, "KFD's version");
    check_numbers(fd);
    check_signals(fd);
    check_more_signals(fd);
    check_ways_to_open(fd);
    check_past_library(fd);
    check_memory(fd);
    check_runtime(fd);
    check_fork(fd);
    close(fd);
    check(version_of(fd, false) == -EBADF, "closed");
    return 0;
}
