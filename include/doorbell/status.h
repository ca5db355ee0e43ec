/* Status codes and the error record.
 *
 * Every fallible call returns bell_status; 0 is success. The detail of the
 * last failure on the calling thread is in a fixed-size record that needs no
 * allocation and cannot leak; read it with bell_error_last().
 */
#ifndef BELL_DOORBELL_STATUS_H
#define BELL_DOORBELL_STATUS_H

#include <stdint.h>

#if UINTPTR_MAX < UINT64_MAX
#error "Doorbell is for 64-bit machines alone"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define BELL_API        __attribute__((visibility("default")))
#define BELL_MUST_CHECK __attribute__((warn_unused_result))

/* Structures that may grow begin with struct_size, which the caller sets. In
 * options, fields beyond that size are taken as zeros; a size that is smaller
 * than the structure's first version, or 0, is BELL_E_INVALID. In results, only
 * the fields within it are written. BELL_OPTIONS(bell_conv_options, .stride =
 * {2, 2}) is a structure of that type with its size set. C only. */
#define BELL_OPTIONS(type, ...)                                                \
    ((struct type){.struct_size = sizeof(struct type), __VA_ARGS__})

/* The version of this header, as text and as numbers. */
#define BELL_VERSION       "0.1.0"
#define BELL_VERSION_MAJOR 0
#define BELL_VERSION_MINOR 1
#define BELL_VERSION_PATCH 0

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

/* What was wrong, finer than the status, for programs that turn failures into
 * errors of their language. BELL_E_INVALID comes with one of those before
 * MEMORY; every other status has one of its own name, and BELL_E_KERNEL may say
 * BELL_REASON_LOST (the card is gone: ENODEV, ENXIO). */
enum bell_reason {
    BELL_REASON_NONE,
    BELL_REASON_ARGUMENT, /* invalid, and nothing below fits */
    BELL_REASON_SHAPE,    /* sizes, or the number of axes */
    BELL_REASON_DTYPE,    /* an element type that the call does not take */
    BELL_REASON_AXIS,     /* there is no such axis, or it is named twice */
    BELL_REASON_INDEX,    /* an element or a range that is not there */
    BELL_REASON_VALUE,    /* a number, flag or combination of them */
    BELL_REASON_SIZE,     /* room for bytes or elements does not match */
    BELL_REASON_NAME,     /* a word or syntax that is not known */
    BELL_REASON_MISSING,  /* NULL, or an empty list */
    BELL_REASON_CONTEXT,  /* objects of different contexts or devices */
    BELL_REASON_STATE,    /* not at this time: not begun, failed before */
    BELL_REASON_PROCESS,  /* inherited by a fork */
    BELL_REASON_THREAD,   /* the context is in use by another thread */
    BELL_REASON_MEMORY,
    BELL_REASON_DEVICE, /* no such device */
    BELL_REASON_PERMISSION,
    BELL_REASON_IO,
    BELL_REASON_KERNEL,
    BELL_REASON_TIMEOUT,
    BELL_REASON_LOST,
    BELL_REASON_UNSUPPORTED,
    BELL_REASON_COMPILE,
    BELL_REASON_INTERNAL,
    BELL_REASON_COUNT
};

#define BELL_ERROR_FRAMES  8
#define BELL_ERROR_MESSAGE 480

/* The last failure on this thread. Plain data, owned by the thread. */
struct bell_error {
    bell_status status; /* BELL_OK when none */
    int sys_errno;      /* the errno with which the system refused, or 0 */
    char message[BELL_ERROR_MESSAGE];      /* one line, no newline */
    const char *frames[BELL_ERROR_FRAMES]; /* functions, innermost first */
    uint32_t n_frames;
    /* Calls that failed since without being told: of clean-up, and those that
     * one can do without. They do not replace the record: it came first. */
    uint32_t n_suppressed;
    enum bell_reason reason; /* BELL_REASON_NONE when no error */
};

/* The calling thread's error record. Never NULL; valid until the thread's
 * next failing call. */
BELL_API const struct bell_error *bell_error_last(void);

/* Forgets the calling thread's error record. */
BELL_API void bell_error_clear(void);

/* A short lower-case name of a status, for example "no such device". */
BELL_API const char *bell_status_name(bell_status status);

/* One lower-case word of a reason: "shape". */
BELL_API const char *bell_reason_name(enum bell_reason reason);

/* The version of the library that runs: "0.1.0". */
BELL_API const char *bell_version(void);

/* Whether a wait is to end: anything but 0. */
typedef int bell_interrupt_fn(void *user);

/* Lets somebody end waits of the calling thread: while one of its calls waits
 * for a device, `ask` is called about twenty times a second, by this thread. As
 * soon as it returns another number than 0, this wait and all that follow end
 * with BELL_E_TIMEOUT, until the next bell_interrupt_set. Work that was
 * submitted goes on and can be waited for again. Calls that destroy or close
 * wait as ever. `ask` calls nothing of Doorbell. NULL: nobody is asked. */
BELL_API void bell_interrupt_set(bell_interrupt_fn *ask, void *user);

/* The command line's exit code for a status: 0 done, 1 failed, 2 usage,
 * 3 no such device, 4 no permission, 5 lost or hung, 6 unsupported. */
BELL_API int bell_status_exit_code(bell_status status);

#ifdef __cplusplus
}
#endif
#endif
