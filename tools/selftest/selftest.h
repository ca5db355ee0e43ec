/* `doorbell selftest`: staged bring-up. Steps in the order in which they rest
 * on each other, from opening the control node to random programs; each says
 * what it proves and, when it fails, what was sent, what came back and what
 * to look at.
 *
 * A step is a function from the state to a verdict. It may assume nothing of
 * earlier steps but takes what they left: selftest_need_* make what is not
 * there yet. Buffers that it makes with selftest_buffer and its kin are gone
 * after it. One thread.
 */
#ifndef BELL_TOOLS_SELFTEST_SELFTEST_H
#define BELL_TOOLS_SELFTEST_SELFTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcq/hcq.h"

#define SELFTEST_DEVICE_MAX 512
#define SELFTEST_TEXT_MAX   1024
#define SELFTEST_NOTES_MAX  24
#define SELFTEST_KEEP_MAX   24
/* Long enough for whatever is not hung. */
#define SELFTEST_WAIT_NS 5000000000ull

enum selftest_verdict {
    SELFTEST_PASSED,
    SELFTEST_FAILED,
    SELFTEST_SKIPPED, /* not for this device; `came` says why */
    SELFTEST_VERDICT_COUNT
};

enum selftest_for {
    SELFTEST_ANY = 1u << 0,   /* any device: queues, memory, tensors */
    SELFTEST_NV = 1u << 1,    /* NVIDIA's kernel driver, real or simulated */
    SELFTEST_PTX = 1u << 2,   /* kernels written in PTX */
    SELFTEST_SLOW = 1u << 3,  /* repeated at most SELFTEST_SLOW_MAX times */
    SELFTEST_ONCE = 1u << 4,  /* not repeated */
    SELFTEST_AMD = 1u << 5,   /* AMD's kernel driver, real or simulated */
    SELFTEST_CARD = 1u << 6,  /* kernels written by hand: PTX, LLVM's IR */
    SELFTEST_APART = 1u << 7, /* on AMD in a process of its own: a memory fault
                               * may be the end of a process's use of the
                               * card */
    SELFTEST_ASKED = 1u << 8  /* only by --only: it may make the kernel driver
                               * reset the card */
};

#define SELFTEST_SLOW_MAX 100

enum selftest_kernel {
    SELFTEST_STORE,    /* u64 p0[0] = p1 */
    SELFTEST_NUMBER,   /* u32 p0[linear thread] = linear thread * 3 + p1 */
    SELFTEST_DIMS,     /* u32 p0[12 * linear thread + 0..11]: tid, ctaid, ntid,
                        * nctaid, x y z each */
    SELFTEST_SHARED,   /* block's u32 p0[...] = p1[...], order reversed */
    SELFTEST_DYNAMIC,  /* fills p1 bytes of shared memory, sums what another
                        * thread wrote into u32 p0[block] */
    SELFTEST_STACK,    /* u32 p0[linear thread] = sum of a local array */
    SELFTEST_BARRIERS, /* 64 rounds around the block's threads */
    SELFTEST_ATOMICS,  /* global, shared, compare-and-swap */
    SELFTEST_WIDE,     /* 16 bytes at a time: p0[...] = p1[...] */
    SELFTEST_SPIN,     /* until u32 p0[0] is not 0 */
    SELFTEST_LOAD,     /* u64 p0[0] = the u64 at address p1 */
    SELFTEST_STEP,     /* of 512 blocks of one thread, block b:
                        * u32 p0[b] += p1[(b + 1) % 512] + 1 */
    /* What the bench measures; these and SELFTEST_STORE also for the CPU: */
    SELFTEST_COUNT, /* u64 p0[0] += p1 */
    SELFTEST_CHASE, /* p1 times x = the u64 at p0 + x, from 0; u64 p0[1] = x */
    SELFTEST_READS, /* blocks of 256: word i of shared memory is i; p1 rounds of
                     * 4 reads of 16 bytes, each 16 further; u32 p0[linear
                     * thread] = the sum of the words. Not for the CPU. */
    SELFTEST_KERNEL_COUNT
};

struct amd_process;
struct kio;
struct nv_rm;
struct selftest;

struct selftest_step {
    const char *name;
    unsigned flags; /* enum selftest_for */
    const char *proves;
    const char *look_at;
    enum selftest_verdict (*run)(struct selftest *st);
};

struct selftest {
    char device[SELFTEST_DEVICE_MAX]; /* as opened: "NV@sim:sm_90" */
    char backend[16];
    unsigned idx;
    const char *interface; /* in `device`; "" or what follows the '@' */
    int64_t n_programs;    /* random ones; 0: enough for 1000 kernels */

    struct kio *kio; /* owned; NULL: not open */
    struct nv_rm *rm;
    struct amd_process *kfd; /* counted; NULL: not there */
    struct hcq_device *dev;  /* owned; NULL: not open */
    struct hcq_device_info info;
    struct hcq_queue *compute, *copy;
    struct hcq_program *programs[SELFTEST_KERNEL_COUNT]; /* of dev */

    /* The step's own, destroyed after it. */
    struct hcq_buffer *buffers[SELFTEST_KEEP_MAX];
    struct hcq_signal *signals[SELFTEST_KEEP_MAX];
    struct hcq_stream *streams[SELFTEST_KEEP_MAX];
    uint32_t *hosts[SELFTEST_KEEP_MAX];
    size_t n_buffers, n_signals, n_streams, n_hosts;

    /* What the step tells. */
    char sent[SELFTEST_TEXT_MAX], came[SELFTEST_TEXT_MAX];
    char notes[SELFTEST_NOTES_MAX][320];
    size_t n_notes;
    uint64_t run; /* number of this repetition, from 0 */
};

/* Tables of the groups; a NULL name ends each. */
extern const struct selftest_step selftest_rm_steps[], selftest_kfd_steps[],
    selftest_queue_steps[], selftest_kernel_steps[], selftest_fault_steps[],
    selftest_model_steps[], selftest_tensor_steps[];

/* NULL if there is none. */
const struct selftest_step *selftest_find_step(const char *name);

/* Whether NVIDIA's kernel driver and the card are there at all:
 * BELL_E_NO_DEVICE or BELL_E_PERMISSION if not; other troubles are for the
 * steps to tell (selftest_rm.c). */
BELL_MUST_CHECK bell_status selftest_probe(struct selftest *st);
/* Gives client, device and subdevice back. */
void selftest_close_rm(struct selftest *st);
/* What to look at on AMD's cards; NULL: what the step says (selftest_kfd.c). */
const char *selftest_amd_look_at(const char *step);
/* Gives the process's state at KFD back. */
void selftest_close_kfd(struct selftest *st);

/* ---- telling (selftest.c) ---- */

/* A device's clock at a moment, in ns, and the host's before and after it was
 * read. */
struct selftest_moment {
    uint64_t before_ns, device_ns, after_ns;
};

/* The device's nanoseconds for each of the host's between two moments. A busy
 * host may be held up between its own reading and the device's, so this is a
 * range: the figure in it that is nearest to 1. */
double selftest_clock_ratio(const struct selftest_moment *first,
                            const struct selftest_moment *last);

/* What goes to the device next; replaces what was said. */
void selftest_sent(struct selftest *st, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A finding, shown also when the step passes; of the first repetition. */
void selftest_note(struct selftest *st, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* What came back is wrong. Gives SELFTEST_FAILED. */
enum selftest_verdict selftest_fail(struct selftest *st, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
enum selftest_verdict selftest_skip(struct selftest *st, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A call failed: its record is what came back. Gives SELFTEST_FAILED. */
enum selftest_verdict selftest_error(struct selftest *st);

/* For steps: a failing call is the verdict. */
#define ST_OK(expr)                                                            \
    do {                                                                       \
        if ((expr) != BELL_OK)                                                 \
            return selftest_error(st);                                         \
    } while (0)

/* ---- what steps need (selftest_need.c) ---- */

/* The stack of kernel calls that the device's name says. */
BELL_MUST_CHECK bell_status selftest_need_kio(struct selftest *st);
/* The device with both queues; a lost one is closed and opened again. */
BELL_MUST_CHECK bell_status selftest_need_device(struct selftest *st);
BELL_MUST_CHECK bell_status selftest_need_kernel(struct selftest *st,
                                                 enum selftest_kernel kernel,
                                                 struct hcq_program **out_prog);
/* Closes everything. */
void selftest_close(struct selftest *st);
void selftest_close_device(struct selftest *st);
/* In a forked child: nothing is open. */
void selftest_forget(struct selftest *st);

/* Until the end of the step. */
BELL_MUST_CHECK bell_status selftest_buffer(struct selftest *st,
                                            uint64_t size_bytes, uint32_t flags,
                                            struct hcq_buffer **out_buf);
BELL_MUST_CHECK bell_status selftest_signal(struct selftest *st, uint64_t value,
                                            struct hcq_signal **out_sig);
BELL_MUST_CHECK bell_status selftest_stream(struct selftest *st,
                                            struct hcq_queue *queue,
                                            struct hcq_stream **out_stream);
/* Memory of the host, of whole pages. */
BELL_MUST_CHECK bell_status selftest_host(struct selftest *st,
                                          uint64_t size_bytes,
                                          uint32_t **out_words);
void selftest_end_step(struct selftest *st);

/* Writes and reads a mapping for the CPU, a word in 61. */
enum selftest_verdict selftest_check_mapping(struct selftest *st,
                                             volatile uint32_t *cpu,
                                             uint32_t size_bytes);

/* Submits and waits. */
BELL_MUST_CHECK bell_status selftest_finish(struct hcq_queue *queue,
                                            struct hcq_cs *cs);

/* The binary of a kernel for the device; host_free the data.
 * BELL_E_UNSUPPORTED where it takes neither PTX (selftest_ptx.c) nor what LLVM
 * makes of its IR (selftest_llvm.c, selftest_host.c), where there is no LLVM,
 * and for most kernels on the CPU. */
struct selftest_binary {
    void *data;
    size_t size_bytes;
    const char *name;
    uint32_t n_bufs, n_vals;
};
BELL_MUST_CHECK bell_status selftest_kernel_binary(
    const struct hcq_device_info *info, enum selftest_kernel kernel,
    struct selftest_binary *out_binary);
/* The kernel, loaded; hcq_program_destroy. Fails as selftest_kernel_binary and
 * hcq_program_create do. */
BELL_MUST_CHECK bell_status
selftest_program_create(struct hcq_device *dev, enum selftest_kernel kernel,
                        struct hcq_program **out_prog);
BELL_MUST_CHECK bell_status selftest_llvm_binary(
    const struct hcq_device_info *info, enum selftest_kernel kernel,
    struct selftest_binary *out_binary);

BELL_MUST_CHECK bell_status selftest_host_binary(
    const struct hcq_device_info *info, enum selftest_kernel kernel,
    struct selftest_binary *out_binary);

/* One thread that stores a number: what has to work again after a fault. */
enum selftest_verdict selftest_check_alive(struct selftest *st);

#endif
