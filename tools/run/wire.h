/* Lines and bytes over a socket or a pipe, for a server that is to end when it
 * is told to: SIGTERM and SIGINT are looked at only while it waits here.
 */
#ifndef BELL_TOOLS_RUN_WIRE_H
#define BELL_TOOLS_RUN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct pollfd;

/* One end; `in` and `out` are the same for a socket. */
struct wire {
    int in, out;
    int stall_ms; /* how long the other end may stand still; -1: for ever */
};

enum wire_result {
    WIRE_OK,
    WIRE_LONG, /* a line: read to its end, and too long */
    WIRE_GONE  /* the other end left or stands still, or we are to end */
};

/* From now on signals that end the process only set a flag, and ends that are
 * gone are told by the calls. */
void wire_init(void);
bool wire_is_stopped(void);

/* poll, during which the process can be told to end. Returns what poll does. */
int wire_poll(struct pollfd *fds, unsigned n, int timeout_ms);

/* A line without its end, terminated. */
enum wire_result wire_read_line(const struct wire *w, char *line,
                                size_t line_bytes);
/* So many bytes; data NULL: they are dropped. */
enum wire_result wire_read(const struct wire *w, void *data, uint64_t n);
enum wire_result wire_write(const struct wire *w, const void *data, uint64_t n);

/* A socket at that path, which replaces one that nobody listens to. Its owner
 * closes it and removes the path. */
BELL_MUST_CHECK bell_status wire_listen(const char *path, int *out_fd);

/* Tells the service's manager, where there is one: "READY=1". src:
 * sd_notify(3), the protocol of $NOTIFY_SOCKET. */
void wire_notify(const char *text);
/* How often the manager wants to hear "WATCHDOG=1", halved; -1: never. src:
 * sd_watchdog_enabled(3). */
int wire_watchdog_ms(void);

#endif
