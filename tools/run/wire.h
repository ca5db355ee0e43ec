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

enum wire_result {
    WIRE_OK,
    WIRE_WAIT, /* nothing goes now */
    WIRE_GONE  /* the other end left: errno is 0; or why it is of no use */
};

/* From now on signals that end the process only set a flag, and ends that are
 * gone are told by the calls. */
void wire_init(void);
/* Takes a signal that waits, so that a server without pause ends too. */
bool wire_is_stopped(void);

/* poll, during which the process can be told to end. Returns what poll does. */
int wire_poll(struct pollfd *fds, unsigned n, int timeout_ms);

/* Up to n bytes, at least one with WIRE_OK, without a wait. A descriptor that
 * is written and may wait gets no more at once than a pipe takes. */
enum wire_result wire_read(int fd, void *data, uint64_t n, uint64_t *out_n);
enum wire_result wire_write(int fd, const void *data, uint64_t n,
                            bool is_nonblocking, uint64_t *out_n);

/* A socket at that path, which replaces one that nobody listens to. Its owner
 * closes it and removes the path. BELL_E_PERMISSION. */
BELL_MUST_CHECK bell_status wire_listen(const char *path, int *out_fd);

/* Tells the service's manager, where there is one: "READY=1". Where it does not
 * read, this waits for it or says nothing. src: sd_notify(3), the protocol of
 * $NOTIFY_SOCKET. */
void wire_notify(const char *text, bool may_wait);
/* How often the manager wants to hear "WATCHDOG=1", halved; -1: never. src:
 * sd_watchdog_enabled(3). */
int wire_watchdog_ms(void);

#endif
