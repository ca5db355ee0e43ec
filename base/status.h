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
 * kept as it is; control characters escaped, base/text.h) and returns the
 * status of `why`, which may be a BELL_WHY. Allocates nothing. */
bell_status bell_fail_at(const char *func, bell_status why, const char *fmt,
                         ...) __attribute__((format(printf, 3, 4)));
/* The same where it was the system that refused, with errno `error`. */
bell_status bell_fail_errno_at(const char *func, bell_status why, int error,
                               const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A status with the reason for it, for bell_fail_at and those who pass one on;
 * what they return is the status alone. */
#define BELL_WHY(status, reason) ((bell_status)((status) | (reason) << 8))
#define BELL_BAD_SHAPE           BELL_WHY(BELL_E_INVALID, BELL_REASON_SHAPE)
#define BELL_BAD_DTYPE           BELL_WHY(BELL_E_INVALID, BELL_REASON_DTYPE)
#define BELL_BAD_AXIS            BELL_WHY(BELL_E_INVALID, BELL_REASON_AXIS)
#define BELL_BAD_INDEX           BELL_WHY(BELL_E_INVALID, BELL_REASON_INDEX)
#define BELL_BAD_VALUE           BELL_WHY(BELL_E_INVALID, BELL_REASON_VALUE)
#define BELL_BAD_SIZE            BELL_WHY(BELL_E_INVALID, BELL_REASON_SIZE)
#define BELL_BAD_NAME            BELL_WHY(BELL_E_INVALID, BELL_REASON_NAME)
#define BELL_BAD_MISSING         BELL_WHY(BELL_E_INVALID, BELL_REASON_MISSING)
#define BELL_BAD_CONTEXT         BELL_WHY(BELL_E_INVALID, BELL_REASON_CONTEXT)
#define BELL_BAD_STATE           BELL_WHY(BELL_E_INVALID, BELL_REASON_STATE)
#define BELL_BAD_PROCESS         BELL_WHY(BELL_E_INVALID, BELL_REASON_PROCESS)
#define BELL_BAD_THREAD          BELL_WHY(BELL_E_INVALID, BELL_REASON_THREAD)

#define bell_fail(status, ...) bell_fail_at(__func__, status, __VA_ARGS__)
#define bell_fail_errno(status, error, ...)                                    \
    bell_fail_errno_at(__func__, status, error, __VA_ARGS__)

/* What errno says of a file, "path: what: why": BELL_E_PERMISSION or
 * BELL_E_IO. */
bell_status bell_fail_file(const char *path, const char *what);

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
