/* The frame of the conformance suite: one device, cases, verdicts.
 *
 * A case is a function that returns normally when it passes; OK, CHECK,
 * FAILS and SKIP leave it. They are for the main thread only. Each case has
 * a freshly opened device with one compute and one copy queue.
 */
#ifndef BELL_TESTS_CTS_CTS_H
#define BELL_TESTS_CTS_CTS_H

#include <string.h>

#include "base/bits.h"
#include "base/thread.h"
#include "hcq/hcq.h"
#include "programs.h"

#define SECOND_NS 1000000000ull
#define MS_NS     1000000ull
/* A wait of a case that should succeed. */
#define LONG_NS (180 * SECOND_NS)

#ifdef __has_feature /* clang's way to tell */
#define CTS_FEATURE(name) __has_feature(name)
#else
#define CTS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || CTS_FEATURE(thread_sanitizer)
#define CTS_TSAN 1
#else
#define CTS_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || CTS_FEATURE(address_sanitizer)
#define CTS_ASAN 1
#else
#define CTS_ASAN 0
#endif

/* Everything takes ten times as long with sanitizers, and the release build
 * does all: how often, of `n` times, and every which of a row. */
#define CTS_TIMES(n) (CTS_ASAN || CTS_TSAN ? (n) / 5 : (n))
#define CTS_EVERY(n) (CTS_ASAN || CTS_TSAN ? (n) : 1)

#ifndef CTS_HAVE_SIM /* built with simulated kernels that can be asked */
#define CTS_HAVE_SIM 0
#endif

struct cts {
    const char *device; /* as given on the command line */
    const struct cts_provider *provider;
    struct hcq_device *dev;
    struct hcq_device_info info;
    struct hcq_queue *queue, *copy;
    /* Opened beside it; closed first, however the case ends. */
    struct hcq_device *others[4];
    unsigned n_others;
    bool ends_by_fault; /* the process's use of the device */
};

struct cts_case {
    const char *name;
    void (*run)(struct cts *t);
    bool faults; /* memory: what no device recovers from is a child's */
};

/* Groups of cases, each from one file; a NULL name ends a table. */
extern const struct cts_case cts_device_cases[], cts_memory_cases[],
    cts_queue_cases[], cts_exec_cases[], cts_transfer_cases[],
    cts_stream_cases[], cts_graph_cases[], cts_fault_cases[],
    cts_resource_cases[], cts_fork_cases[], cts_peer_cases[],
    cts_peer_life_cases[], cts_peer_share_cases[];

_Noreturn void cts_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void cts_fail_check(const char *file, int line, const char *cond,
                              const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
_Noreturn void cts_skip(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

#define OK(expr)                                                               \
    do {                                                                       \
        if ((expr) != BELL_OK)                                                 \
            cts_fail(__FILE__, __LINE__, "%s: %s", #expr,                      \
                     bell_error_last()->message);                              \
    } while (0)

#define CHECK(cond, ...)                                                       \
    do {                                                                       \
        if (!(cond))                                                           \
            cts_fail_check(__FILE__, __LINE__, #cond, __VA_ARGS__);            \
    } while (0)

/* The call fails with this status and a message that contains `part`. */
#define FAILS(expr, want, part)                                                \
    cts_expect(__FILE__, __LINE__, #expr, (expr), want, part)

/* A short wait that times out and says what is waited for; again and again,
 * until the device, which may have to wait for a core, has come that far. */
#define HANGS(expr, part)                                                      \
    do {                                                                       \
        uint64_t hangs_ns = time_now_ns();                                     \
        bell_status hangs;                                                     \
        do                                                                     \
            hangs = (expr);                                                    \
        while (hangs == BELL_E_TIMEOUT &&                                      \
               !strstr(bell_error_last()->message, part) &&                    \
               time_now_ns() - hangs_ns < LONG_NS);                            \
        cts_expect(__FILE__, __LINE__, #expr, hangs, BELL_E_TIMEOUT, part);    \
    } while (0)

void cts_expect(const char *file, int line, const char *expr, bell_status got,
                bell_status want, const char *part);

/* Recovers from a memory fault. Where the kernel's driver lets the process use
 * the device no more, which has to be said, the case passes and ends here. */
#define RECOVER(dev) cts_recover(__FILE__, __LINE__, dev)
void cts_recover(const char *file, int line, struct hcq_device *dev);

/* Loads a kernel; skips the case when the device has none. */
struct hcq_program *cts_load(struct cts *t, struct hcq_device *dev,
                             enum cts_kernel kernel, unsigned variant);
/* Under another name. */
struct hcq_program *cts_load_as(struct cts *t, struct hcq_device *dev,
                                enum cts_kernel kernel, unsigned variant,
                                const char *name);
/* Whose work-groups are said to take so long. */
struct hcq_program *cts_load_slow(struct cts *t, enum cts_kernel kernel,
                                  uint64_t group_ns);
struct hcq_program *cts_program(struct cts *t, enum cts_kernel kernel);

/* Opens a device beside the one under test, which cts_close_others closes. */
bell_status cts_open_other(struct cts *t, const char *name,
                           struct hcq_device **out_dev);
void cts_close_others(struct cts *t);

struct hcq_buffer *cts_buffer(struct cts *t, uint64_t size_bytes);
/* Whether what is missing may be; where a backend has no kernels here, all. */
bool cts_may_lack(struct hcq_device *dev, enum cts_lack what);

/* A buffer of the host's memory; skips the case where a device may lack
 * that. */
struct hcq_buffer *cts_pin(struct hcq_device *dev, void *ptr,
                           uint64_t size_bytes);
/* A buffer of n int32, each `value`. */
struct hcq_buffer *cts_ints(struct cts *t, uint64_t n, int32_t value);
/* int32 number `idx` of a buffer. */
int32_t cts_int(struct hcq_buffer *buf, uint64_t idx);
struct hcq_signal *cts_signal(struct cts *t, uint64_t value);
struct hcq_cs *cts_begin(struct hcq_queue *queue);
/* Submits the stream of that queue and waits. */
void cts_finish(struct hcq_queue *queue, struct hcq_cs *cs);
/* Steps of CTS_WORK that take a device about as long as `n` take a processor;
 * an interpreter needs 20 times as long for one, and more with sanitizers. */
static inline uint64_t
cts_steps(const struct cts *t, uint64_t n)
{
    return t->info.flags & HCQ_DEVICE_SIMULATED ? n / 20 : n;
}

/* Fills memory with bytes that depend on position and seed. */
void cts_pattern(unsigned char *data, size_t size_bytes, unsigned seed);

/* The kernel with a one-dimensional grid. */
void cts_exec(struct hcq_cs *cs, const struct hcq_program *prog,
              uint32_t grid_x, uint32_t n_args, const uint64_t *args);
#define ARGS(...)                                                              \
    sizeof((uint64_t[]){__VA_ARGS__}) / 8, (const uint64_t[])                  \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

#endif
