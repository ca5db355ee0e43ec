/* Raising and passing on errors inside the library.
 *
 * bell_fail() is called only where an error arises; callers pass it on with
 * BELL_TRY, which adds their name to the record.
 */
#ifndef BELL_BASE_STATUS_H
#define BELL_BASE_STATUS_H

#include <stdarg.h>

#include "doorbell/status.h"

/* Writes the thread's error record (printf format, truncated if long, errno
 * kept as it is) and returns `status`. Allocates nothing. */
bell_status bell_fail_at(const char *func, bell_status status, const char *fmt,
                         ...) __attribute__((format(printf, 3, 4)));
/* The same where it was the system that refused, with errno `error`. */
bell_status bell_fail_errno_at(const char *func, bell_status status, int error,
                               const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define bell_fail(status, ...) bell_fail_at(__func__, status, __VA_ARGS__)
#define bell_fail_errno(status, error, ...)                                    \
    bell_fail_errno_at(__func__, status, error, __VA_ARGS__)

/* Adds a frame to the record; ignored when it is full. */
void bell_error_frame(const char *func);

/* Puts text before the record's message: "prefix: message". */
void bell_error_prefix(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* Copies a record into the calling thread's (a failure that another thread
 * met is reported by whoever waits for it). */
bell_status bell_error_set(const struct bell_error *error);

/* Clean-up leaves the record of what made it necessary:
 *
 *     bell_error_hold(&hold);
 *     ... calls that give things back; bell_error_last() tells of them ...
 *     bell_error_release(&hold);
 *
 * After it the record is as it was before, but for n_suppressed, which has
 * counted what failed in between. Pairs may nest. */
struct bell_error_hold {
    struct bell_error error;
    uint32_t n_fails;
};
void bell_error_hold(struct bell_error_hold *hold);
void bell_error_release(const struct bell_error_hold *hold);

/* Evaluates a call once; on failure adds this frame and returns it. */
#define BELL_TRY(expr)                                                         \
    do {                                                                       \
        bell_status bell_try_status_ = (expr);                                 \
        if (bell_try_status_ != BELL_OK) {                                     \
            bell_error_frame(__func__);                                        \
            return bell_try_status_;                                           \
        }                                                                      \
    } while (0)

#endif
