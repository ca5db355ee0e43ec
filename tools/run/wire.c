/* Descriptors are waited for before each read and write, so that a signal ends
 * the wait. */
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

bool
wire_is_stopped(void)
{
    return is_stopped;
}

int
wire_poll(struct pollfd *fds, unsigned n, int timeout_ms)
{
    struct timespec limit = {timeout_ms / 1000,
                             (long)(timeout_ms % 1000) * 1000000};

    return ppoll(fds, n, timeout_ms < 0 ? NULL : &limit, &while_waiting);
}

/* Whether something can be read or written, or the other end has left. */
static bool
is_ready(int fd, short events, int timeout_ms)
{
    struct pollfd p = {fd, events, 0};

    return !is_stopped && wire_poll(&p, 1, timeout_ms) == 1;
}

enum wire_result
wire_read(const struct wire *w, void *data, uint64_t n)
{
    char dropped[CHUNK_BYTES];
    uint64_t at = 0;
    ssize_t got;

    while (at < n) {
        void *to = data ? (char *)data + at : dropped;
        uint64_t most = data ? 1u << 20 : sizeof(dropped);

        if (!is_ready(w->in, POLLIN, w->stall_ms))
            return WIRE_GONE;
        got = read(w->in, to, n - at < most ? n - at : most);
        if (got > 0)
            at += (uint64_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return WIRE_GONE;
    }
    return WIRE_OK;
}

/* Byte by byte: what is behind the line stays where it is. */
enum wire_result
wire_read_line(const struct wire *w, char *line, size_t line_bytes)
{
    size_t n = 0;
    char c;

    for (;;) {
        if (wire_read(w, &c, 1) != WIRE_OK)
            return WIRE_GONE;
        if (c == '\n')
            break;
        if (n < line_bytes)
            line[n++] = c;
    }
    if (n == line_bytes)
        return WIRE_LONG;
    line[n] = 0;
    return WIRE_OK;
}

enum wire_result
wire_write(const struct wire *w, const void *data, uint64_t n)
{
    uint64_t at = 0;
    ssize_t put;

    while (at < n) {
        if (!is_ready(w->out, POLLOUT, w->stall_ms))
            return WIRE_GONE;
        put = write(w->out, (const char *)data + at,
                    n - at < CHUNK_BYTES ? n - at : CHUNK_BYTES);
        if (put > 0)
            at += (uint64_t)put;
        else if (put == 0 || (errno != EAGAIN && errno != EINTR))
            return WIRE_GONE;
    }
    return WIRE_OK;
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

bell_status
wire_listen(const char *path, int *out_fd)
{
    struct sockaddr_un address;
    int fd, error;

    if (!set_address(path, &address))
        return bell_fail(BELL_BAD_VALUE,
                         "%s: a socket's path has 1 to %zu characters", path,
                         sizeof(address.sun_path) - 1);
    remove_stale(path, &address);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const void *)&address, sizeof(address)) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        error = errno;
        if (fd >= 0)
            close(fd);
        return bell_fail_errno(BELL_E_IO, error, "%s: cannot listen: %s", path,
                               strerror(error));
    }
    *out_fd = fd;
    return BELL_OK;
}

/* ---- the service's manager ---- */

void
wire_notify(const char *text)
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
    (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const void *)&address,
                  n);
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
