/* The thread-local error record. Sources: none beyond the C library. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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

static void
set_record(const char *func, bell_status status, int error, const char *fmt,
           va_list args)
{
    int saved_errno = errno;

    last_error.status = status;
    last_error.sys_errno = error;
    last_error.n_frames = 0;
    last_error.n_suppressed = 0;
    n_fails++;
    vsnprintf(last_error.message, sizeof(last_error.message), fmt, args);
    bell_error_frame(func);
    errno = saved_errno;
}

bell_status
bell_fail_at(const char *func, bell_status status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    set_record(func, status, 0, fmt, args);
    va_end(args);
    return status;
}

bell_status
bell_fail_errno_at(const char *func, bell_status status, int error,
                   const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    set_record(func, status, error, fmt, args);
    va_end(args);
    return status;
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
    char prefix[BELL_ERROR_MESSAGE];
    size_t prefix_len, room;
    va_list args;

    va_start(args, fmt);
    vsnprintf(prefix, sizeof(prefix), fmt, args);
    va_end(args);
    prefix_len = strlen(prefix);
    if (prefix_len + 3 > sizeof(last_error.message))
        return;
    room = sizeof(last_error.message) - prefix_len - 3;
    memmove(last_error.message + prefix_len + 2, last_error.message, room);
    last_error.message[sizeof(last_error.message) - 1] = '\0';
    memcpy(last_error.message, prefix, prefix_len);
    memcpy(last_error.message + prefix_len, ": ", 2);
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

static const struct {
    const char *name;
    int exit_code;
} status_info[BELL_STATUS_COUNT] = {
    [BELL_OK] = {"ok", 0},
    [BELL_E_INVALID] = {"invalid argument", 2},
    [BELL_E_NO_MEMORY] = {"out of memory", 1},
    [BELL_E_NO_DEVICE] = {"no such device", 3},
    [BELL_E_PERMISSION] = {"no permission", 4},
    [BELL_E_IO] = {"file error", 1},
    [BELL_E_KERNEL] = {"kernel driver refused", 1},
    [BELL_E_TIMEOUT] = {"device timed out", 5},
    [BELL_E_DEVICE_LOST] = {"device lost", 5},
    [BELL_E_UNSUPPORTED] = {"not supported here", 6},
    [BELL_E_COMPILE] = {"compilation failed", 1},
    [BELL_E_INTERNAL] = {"internal error", 1},
};

const char *
bell_status_name(bell_status status)
{
    if ((unsigned)status >= BELL_STATUS_COUNT)
        return "unknown status";
    return status_info[status].name;
}

int
bell_status_exit_code(bell_status status)
{
    if ((unsigned)status >= BELL_STATUS_COUNT)
        return 1;
    return status_info[status].exit_code;
}
