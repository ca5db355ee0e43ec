/* The thread-local error record. Sources: none beyond the C library. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static _Thread_local struct bell_error last_error;
static _Thread_local uint32_t n_fails; /* so far */

const struct bell_error *
bell_error_last(void)
{
    return &last_error;
}

void
bell_error_clear(void)
{
    memset(&last_error, 0, sizeof(last_error));
}

static const struct {
    const char *name;
    int exit_code;
    enum bell_reason reason; /* where none is given */
} status_info[BELL_STATUS_COUNT] = {
    [BELL_OK] = {"ok", 0, BELL_REASON_NONE},
    [BELL_E_INVALID] = {"invalid argument", 2, BELL_REASON_ARGUMENT},
    [BELL_E_NO_MEMORY] = {"out of memory", 1, BELL_REASON_MEMORY},
    [BELL_E_NO_DEVICE] = {"no such device", 3, BELL_REASON_DEVICE},
    [BELL_E_PERMISSION] = {"no permission", 4, BELL_REASON_PERMISSION},
    [BELL_E_IO] = {"file error", 1, BELL_REASON_IO},
    [BELL_E_KERNEL] = {"kernel driver refused", 1, BELL_REASON_KERNEL},
    [BELL_E_TIMEOUT] = {"device timed out", 5, BELL_REASON_TIMEOUT},
    [BELL_E_DEVICE_LOST] = {"device lost", 5, BELL_REASON_LOST},
    [BELL_E_UNSUPPORTED] = {"not supported here", 6, BELL_REASON_UNSUPPORTED},
    [BELL_E_COMPILE] = {"compilation failed", 1, BELL_REASON_COMPILE},
    [BELL_E_INTERNAL] = {"internal error", 1, BELL_REASON_INTERNAL},
};

/* The reason of a BELL_WHY, or what the status and errno imply. */
static enum bell_reason
reason_of(bell_status why, bell_status status, int error)
{
    if (why >> 8)
        return (enum bell_reason)(why >> 8);
    if (status == BELL_E_KERNEL && (error == ENODEV || error == ENXIO))
        return BELL_REASON_LOST; /* an open device is there no more */
    return (unsigned)status < BELL_STATUS_COUNT ? status_info[status].reason
                                                : BELL_REASON_NONE;
}

static bell_status
set_record(const char *func, bell_status why, int error, const char *fmt,
           va_list args)
{
    int saved_errno = errno;
    char raw[BELL_ERROR_MESSAGE];

    last_error.status = (bell_status)(why & 0xff);
    last_error.reason = reason_of(why, last_error.status, error);
    last_error.sys_errno = error;
    last_error.n_frames = 0;
    last_error.n_suppressed = 0;
    n_fails++;
    vsnprintf(raw, sizeof(raw), fmt, args);
    text_copy_shown(raw, "", last_error.message, sizeof(last_error.message));
    bell_error_frame(func);
    errno = saved_errno;
    return last_error.status;
}

bell_status
bell_fail_at(const char *func, bell_status why, const char *fmt, ...)
{
    bell_status status;
    va_list args;

    va_start(args, fmt);
    status = set_record(func, why, 0, fmt, args);
    va_end(args);
    return status;
}

bell_status
bell_fail_errno_at(const char *func, bell_status why, int error,
                   const char *fmt, ...)
{
    bell_status status;
    va_list args;

    va_start(args, fmt);
    status = set_record(func, why, error, fmt, args);
    va_end(args);
    return status;
}

bell_status
bell_fail_file(const char *path, const char *what)
{
    bell_status status =
        errno == EACCES || errno == EPERM ? BELL_E_PERMISSION : BELL_E_IO;

    return bell_fail_errno(status, errno, "%s: %s: %s", path, what,
                           strerror(errno));
}

void
bell_error_frame(const char *func)
{
    if (last_error.n_frames < BELL_ERROR_FRAMES)
        last_error.frames[last_error.n_frames++] = func;
}

void
bell_error_prefix(const char *fmt, ...)
{
    char raw[2 * BELL_ERROR_MESSAGE + 2];
    size_t prefix_len;
    va_list args;

    va_start(args, fmt);
    vsnprintf(raw, BELL_ERROR_MESSAGE, fmt, args);
    va_end(args);
    prefix_len = strlen(raw);
    if (prefix_len + 3 > sizeof(last_error.message))
        return;
    snprintf(raw + prefix_len, sizeof(raw) - prefix_len, ": %s",
             last_error.message);
    text_copy_shown(raw, "", last_error.message, sizeof(last_error.message));
}

bell_status
bell_error_set(const struct bell_error *error)
{
    last_error = *error;
    return error->status;
}

void
bell_error_hold(struct bell_error_hold *hold)
{
    hold->error = last_error;
    hold->n_fails = n_fails;
}

void
bell_error_release(const struct bell_error_hold *hold)
{
    last_error = hold->error;
    last_error.n_suppressed += n_fails - hold->n_fails;
}

static const char *const reason_names[BELL_REASON_COUNT] = {
    "none",    "argument", "shape",  "dtype",       "axis",       "index",
    "value",   "size",     "name",   "missing",     "context",    "state",
    "process", "thread",   "memory", "device",      "permission", "io",
    "kernel",  "timeout",  "lost",   "unsupported", "compile",    "internal",
};

const char *
bell_reason_name(enum bell_reason reason)
{
    return (unsigned)reason < BELL_REASON_COUNT ? reason_names[reason]
                                                : "unknown";
}

const char *
bell_status_name(bell_status status)
{
    if ((unsigned)status >= BELL_STATUS_COUNT)
        return "unknown status";
    return status_info[status].name;
}

const char *
bell_version(void)
{
    return BELL_VERSION;
}

int
bell_status_exit_code(bell_status status)
{
    if ((unsigned)status >= BELL_STATUS_COUNT)
        return 1;
    return status_info[status].exit_code;
}
