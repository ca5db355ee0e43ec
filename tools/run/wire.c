/* Descriptors are asked before each read and write, so that these do not
 * wait. */
#include "tools/run/wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/env.h"

/* What poll promises that a pipe takes without blocking. */
#define CHUNK_BYTES 4096u

static volatile sig_atomic_t is_stopped;
static sigset_t while_waiting; /* signals that are blocked in a wait */

static void
stop(int number)
{
    (void)number;
    is_stopped = 1;
}

void
wire_init(void)
{
    struct sigaction action = {.sa_handler = stop};
    sigset_t ends;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &ends, &while_waiting);
    sigdelset(&while_waiting, SIGTERM);
    sigdelset(&while_waiting, SIGINT);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
}

int
wire_poll(struct pollfd *fds, unsigned n, int timeout_ms)
{
    struct timespec limit = {timeout_ms / 1000,
                             (long)(timeout_ms % 1000) * 1000000};

    return ppoll(fds, n, timeout_ms < 0 ? NULL : &limit, &while_waiting);
}

/* A wait for nothing, which is not over before signals are taken. */
bool
wire_is_stopped(void)
{
    if (!is_stopped)
        (void)!wire_poll(NULL, 0, 0);
    return is_stopped;
}

/* Whether something can be read or written, or the other end has left. */
static bool
is_ready(int fd, short events)
{
    struct pollfd p = {fd, events, 0};

    return wire_poll(&p, 1, 0) == 1;
}

/* What a read or write that gave `n` means. */
static enum wire_result
judge_wire_answer(ssize_t n, uint64_t *out_n)
{
    if (n > 0) {
        *out_n = (uint64_t)n;
        return WIRE_OK;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WIRE_WAIT;
    if (n == 0)
        errno = 0;
    return WIRE_GONE;
}

enum wire_result
wire_read(int fd, void *data, uint64_t n, uint64_t *out_n)
{
    return is_ready(fd, POLLIN) ? judge_wire_answer(read(fd, data, n), out_n)
                                : WIRE_WAIT;
}

enum wire_result
wire_write(int fd, const void *data, uint64_t n, bool is_nonblocking,
           uint64_t *out_n)
{
    if (!is_nonblocking && n > CHUNK_BYTES)
        n = CHUNK_BYTES;
    return is_ready(fd, POLLOUT) ? judge_wire_answer(write(fd, data, n), out_n)
                                 : WIRE_WAIT;
}

/* ---- sockets ---- */

static bool
set_address(const char *path, struct sockaddr_un *out)
{
    size_t n = strlen(path);

    memset(out, 0, sizeof(*out));
    out->sun_family = AF_UNIX;
    if (n == 0 || n >= sizeof(out->sun_path))
        return false;
    memcpy(out->sun_path, path, n);
    return true;
}

/* Removes a socket that a server left which did not end cleanly. */
static void
remove_stale(const char *path, const struct sockaddr_un *address)
{
    struct stat st;
    int fd;

    if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const void *)address, sizeof(*address)) != 0 &&
        errno == ECONNREFUSED)
        (void)unlink(path);
    close(fd);
}

/* A file that is not a socket was not left by a server. */
static bell_status
check_place(const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0 || S_ISSOCK(st.st_mode))
        return BELL_OK;
    return bell_fail(BELL_E_IO,
                     "%s: cannot listen: a %s is there, which is not a socket",
                     path, S_ISDIR(st.st_mode) ? "folder" : "file");
}

bell_status
wire_listen(const char *path, int *out_fd)
{
    struct sockaddr_un address;
    int fd, error;

    if (!set_address(path, &address))
        return bell_fail(BELL_BAD_VALUE,
                         "%s: a socket's path has 1 to %zu characters", path,
                         sizeof(address.sun_path) - 1);
    BELL_TRY(check_place(path));
    remove_stale(path, &address);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const void *)&address, sizeof(address)) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        error = errno;
        if (fd >= 0)
            close(fd);
        return bell_fail_errno(
            error == EACCES || error == EPERM ? BELL_E_PERMISSION : BELL_E_IO,
            error, "%s: cannot listen: %s", path, strerror(error));
    }
    *out_fd = fd;
    return BELL_OK;
}

/* ---- the service's manager ---- */

void
wire_notify(const char *text, bool may_wait)
{
    const char *path = env_get("NOTIFY_SOCKET");
    struct sockaddr_un address;
    socklen_t n;
    int fd;

    if (!path || !set_address(path, &address))
        return;
    n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (path[0] == '@') /* a name of no file */
        address.sun_path[0] = 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)!sendto(fd, text, strlen(text),
                  MSG_NOSIGNAL | (may_wait ? 0 : MSG_DONTWAIT),
                  (const void *)&address, n);
    close(fd);
}

int
wire_watchdog_ms(void)
{
    const char *text = env_get("WATCHDOG_USEC");
    unsigned long long us = text ? strtoull(text, NULL, 10) : 0;

    if (us == 0 || us / 2000 > 1u << 30)
        return -1;
    return us < 2000 ? 1 : (int)(us / 2000);
}
