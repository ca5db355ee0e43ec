/* Status codes and the error record.
 *
 * Every fallible call returns bell_status; 0 is success. The detail of the
 * last failure on the calling thread is in a fixed-size record that needs no
 * allocation and cannot leak; read it with bell_error_last().
 */
#ifndef BELL_DOORBELL_STATUS_H
#define BELL_DOORBELL_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BELL_API        __attribute__((visibility("default")))
#define BELL_MUST_CHECK __attribute__((warn_unused_result))

/* Outcome of a call. */
typedef enum bell_status {
    BELL_OK = 0,
    BELL_E_INVALID,     /* bad argument: shape, dtype, axis, value, syntax */
    BELL_E_NO_MEMORY,   /* host or device memory exhausted */
    BELL_E_NO_DEVICE,   /* the named device does not exist here */
    BELL_E_PERMISSION,  /* a device node or file may not be opened */
    BELL_E_IO,          /* file absent, truncated, unreadable, malformed */
    BELL_E_KERNEL,      /* the kernel driver refused a call */
    BELL_E_TIMEOUT,     /* the device did not finish in time (hung) */
    BELL_E_DEVICE_LOST, /* the device faulted; its queues are dead */
    BELL_E_UNSUPPORTED, /* known, and not possible here */
    BELL_E_COMPILE,     /* lowering, rendering or code generation failed */
    BELL_E_INTERNAL,    /* a broken invariant inside Doorbell: report it */
    BELL_STATUS_COUNT
} bell_status;

#define BELL_ERROR_FRAMES  8
#define BELL_ERROR_MESSAGE 480

/* The last failure on this thread. Plain data, owned by the thread. */
struct bell_error {
    bell_status status; /* BELL_OK when none */
    int sys_errno;      /* the errno with which the system refused, or 0 */
    char message[BELL_ERROR_MESSAGE];      /* one line, no newline */
    const char *frames[BELL_ERROR_FRAMES]; /* functions, innermost first */
    uint32_t n_frames;
    /* Calls that failed since while something was given back. They do not
     * replace the record: what it says came first. */
    uint32_t n_suppressed;
};

/* The calling thread's error record. Never NULL; valid until the thread's
 * next failing call. */
BELL_API const struct bell_error *bell_error_last(void);

/* Forgets the calling thread's error record. */
BELL_API void bell_error_clear(void);

/* A short lower-case name of a status, for example "no such device". */
BELL_API const char *bell_status_name(bell_status status);

/* The command line's exit code for a status: 0 done, 1 failed, 2 usage,
 * 3 no such device, 4 no permission, 5 lost or hung, 6 unsupported. */
BELL_API int bell_status_exit_code(bell_status status);

#ifdef __cplusplus
}
#endif
#endif
