/* The hardware-queue contract: devices, buffers, signals, programs, queues
 * and bound streams. Every driver implements it; the layers above see only
 * this header.
 *
 * What it does not do: compile kernels, track hazards between commands of
 * different queues, or count references. Objects are created and destroyed
 * explicitly, children before their device.
 *
 * Errors: fallible calls return bell_status and fill the thread's record.
 * BELL_E_DEVICE_LOST is sticky on a device until hcq_device_recover().
 *
 * Threads: a queue, with its open command stream and its bound streams, is
 * used by one host thread at a time. Everything else may be called from any
 * thread. Destroying or recovering something excludes all other use of it,
 * waits excepted.
 *
 * Processes: a device and all that is its own is for the process that opened
 * it. After a fork a child may open its own; for what it inherited every call
 * that returns a status is BELL_E_INVALID and says so, those that destroy do
 * nothing (the memory goes with the child), a signal's value is UINT64_MAX and
 * buffers have no CPU mapping (touching what it was faults). The parent notices
 * nothing. The open files of the device are closed by exec, or go with the
 * child.
 *
 * Launch path: hcq_queue_begin, the hcq_cs_ emitters, hcq_cs_submit,
 * hcq_stream_patch and hcq_stream_submit allocate nothing, take no lock and
 * make no system call, except to wake a sleeping consumer and to wait for
 * room in a full ring. On an OpenCL device that is the host's own processor
 * the two submits call OpenCL, which does all of that
 * (docs/explanation/opencl.md).
 */
#ifndef BELL_HCQ_HCQ_H
#define BELL_HCQ_HCQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct hcq_device;
struct hcq_queue;
struct hcq_cs;
struct hcq_stream;

#define HCQ_NAME_MAX     64
#define HCQ_ARGS_MAX     128 /* argument words of one exec */
#define HCQ_TIMEOUT_NS   (30ull * 1000000000ull) /* a sensible default */
#define HCQ_WAIT_FOREVER UINT64_MAX              /* as a timeout: no limit */
/* As a timeout: for as long as the device moves, and no longer than its limit
 * without movement (hcq_device_set_timeout). */
#define HCQ_WAIT_WHILE_MOVING (UINT64_MAX - 1)

/* ---- devices ---------------------------------------------------------- */

enum hcq_device_flag {
    HCQ_DEVICE_HOST_MEMORY = 1u << 0, /* every buffer has a host pointer */
    HCQ_DEVICE_SIMULATED = 1u << 1,   /* no hardware behind it */
    HCQ_DEVICE_POLL_MASKS = 1u << 2,  /* polls may look at some bits alone */
    HCQ_DEVICE_NULL = 1u << 3, /* runs nothing: reading buffers is refused */
    HCQ_DEVICE_HOST_CPU = 1u << 4, /* this machine's processors run kernels */
};

/* One line of an enumeration. Plain data. */
struct hcq_device_desc {
    char name[HCQ_NAME_MAX];        /* opens it: "CPU:0" */
    char description[HCQ_NAME_MAX]; /* for people */
    const char *backend;            /* static: "CPU" */
    bool usable;                    /* hcq_device_open should succeed */
    char why_not[160];              /* when it is not usable */
};

/* What a device is and can. Plain data. */
struct hcq_device_info {
    uint32_t struct_size;      /* set by the caller */
    uint32_t flags;            /* enum hcq_device_flag */
    char name[HCQ_NAME_MAX];   /* "CPU:0" */
    char backend[16];          /* "CPU" */
    char arch[HCQ_NAME_MAX];   /* what to compile for: "x86-64-v3" */
    char model[HCQ_NAME_MAX];  /* for people */
    uint32_t n_units;          /* worker threads, SMs, compute units */
    uint32_t max_grid[3];      /* work-groups per axis */
    uint32_t max_local[3];     /* work-items per axis of a work-group */
    uint32_t max_local_total;  /* work-items of a work-group */
    uint32_t max_shared_bytes; /* shared memory of a work-group */
    uint32_t max_args;         /* argument words of one exec */
    uint64_t memory_bytes;     /* device memory, all of it */
    uint64_t max_buffer_bytes; /* largest single buffer */
    uint64_t timestamp_hz;     /* ticks of a timestamp per second */
};

enum hcq_fault_kind {
    HCQ_FAULT_NONE,
    HCQ_FAULT_MEMORY,      /* an address that is not mapped, or read only */
    HCQ_FAULT_INSTRUCTION, /* an instruction that cannot be executed */
    HCQ_FAULT_ARITHMETIC,  /* an integer division trap and the like */
    HCQ_FAULT_STREAM,      /* a command that the device cannot decode */
    HCQ_FAULT_INTERFACE,   /* what stands for the kernel cannot go on */
    HCQ_FAULT_RESET,       /* the device was reset, its memory is lost */
    HCQ_FAULT_COUNT
};

/* Why a device was lost. Plain data. */
struct hcq_fault {
    enum hcq_fault_kind kind;
    uint64_t va;          /* the address that faulted, or the code's */
    uint64_t first_group; /* the fault is in [first, last) of the grid */
    uint64_t last_group;
    char program[HCQ_NAME_MAX]; /* kernel, or the command: "copy" */
    char queue[HCQ_NAME_MAX];
    char text[384]; /* all of it as one line */
};

/* Fills out_list with up to `cap` devices of every backend, usable or not,
 * and *out_n with how many there are (which may exceed cap). Opens nothing.
 * BELL_E_NO_MEMORY: nobody knows how many there are. */
BELL_MUST_CHECK bell_status hcq_device_enumerate(
    struct hcq_device_desc *out_list, size_t cap, size_t *out_n);

/* Opens BACKEND[:INDEX][@INTERFACE]. Without an index it is the backend's first
 * device that can be used. CL:NAME is the OpenCL device that has NAME in its
 * description. BACKEND@null:CHIP takes programs for that chip and runs none
 * (hcq_null.h).
 *
 * NULL means $BELL_DEVICE, or without it the first device of the first backend
 * that can be used; an OpenCL device that is the host's processor is not meant.
 * BELL_E_INVALID: not such a name; BELL_E_NO_DEVICE: no such backend, index or
 * interface, with what is known. A device may be opened several times; the
 * openings share nothing. */
BELL_MUST_CHECK bell_status hcq_device_open(const char *name,
                                            struct hcq_device **out_dev);

/* Stops the device and frees it. Work that is still queued is dropped.
 * Buffers, programs, signals, queues and streams that were not destroyed
 * are listed in the log (BELL_DEBUG=mem) and freed. NULL is allowed. */
void hcq_device_close(struct hcq_device *dev);

/* Whether the calling process has the device from its parent, by a fork, and
 * thus cannot use it. */
bool hcq_device_is_inherited(const struct hcq_device *dev);

/* Fills out_info, whose struct_size is set; fields beyond it stay. */
void hcq_device_info(struct hcq_device *dev, struct hcq_device_info *out_info);

/* The name it was opened as, with the index: "CPU:0". Owned by the device. */
const char *hcq_device_name(const struct hcq_device *dev);

/* The devices that came before it where none was named, or a backend alone, and
 * why each was not taken: "NV:0: ...; NV:1: ..."; "": it was the first. Owned
 * by the device. */
const char *hcq_device_passed_over(const struct hcq_device *dev);

/* The frequency that the device runs at now; takes up to two seconds, until the
 * kernel's driver has looked. BELL_E_UNSUPPORTED: it does not tell. */
BELL_MUST_CHECK bell_status hcq_device_clock_mhz(struct hcq_device *dev,
                                                 uint32_t *out_mhz);

/* Sets how long waits of HCQ_WAIT_WHILE_MOVING let the device stand still;
 * HCQ_WAIT_FOREVER: for ever. A device moves when a submission of any of its
 * queues is done and, on the CPU, when work-groups begin: up to 64 at a time
 * where the program does not say how long one takes. Where it does
 * (hcq_program_desc.group_ns), a launch may take that long in addition. Without
 * this call the limit is $BELL_TIMEOUT seconds, else 30 s, of a simulated
 * device 20 minutes. Any thread. */
void hcq_device_set_timeout(struct hcq_device *dev, uint64_t still_ns);

/* Waits until all work submitted to every queue so far is done. */
BELL_MUST_CHECK bell_status hcq_device_synchronize(struct hcq_device *dev,
                                                   uint64_t timeout_ns);

/* BELL_OK, or BELL_E_DEVICE_LOST with the fault's text. No wait. */
BELL_MUST_CHECK bell_status hcq_device_status(struct hcq_device *dev);

/* The fault that lost the device; kind is HCQ_FAULT_NONE when it is not. */
void hcq_device_fault(struct hcq_device *dev, struct hcq_fault *out_fault);

/* Brings a lost or hung device back: stops what runs, drops what is queued,
 * completes the timelines of its queues, clears the fault.
 * Buffers keep their contents (what the work that was cut off had stored may be
 * lost with a device's caches), programs and bound streams stay usable; other
 * signals keep their values. Waits in progress on other threads end with
 * BELL_E_DEVICE_LOST. That status, at once: the kernel's driver lets this
 * process use the device no more; the message says what helps. */
BELL_MUST_CHECK bell_status hcq_device_recover(struct hcq_device *dev);

/* The time a device timestamp stands for on the host's clock
 * (time_now_ns()). Timestamps of all devices so become comparable. */
uint64_t hcq_timestamp_to_ns(struct hcq_device *dev, uint64_t ticks);

/* ---- links between devices --------------------------------------------- */

/* How a device reaches another device's memory. Those after HCQ_LINK_HOST
 * reach it directly: hcq_buffer_create_peer works. */
enum hcq_link_kind {
    HCQ_LINK_NONE,   /* not at all: one of them runs nothing */
    HCQ_LINK_HOST,   /* copies through host memory that both can use */
    HCQ_LINK_SELF,   /* the same memory: two openings of one device */
    HCQ_LINK_PCIE,   /* PCI Express */
    HCQ_LINK_BAR1,   /* PCI Express, through the window that the CPU uses */
    HCQ_LINK_NVLINK, /* NVIDIA's links, through a switch or not */
    HCQ_LINK_XGMI,   /* AMD's links */
    HCQ_LINK_KIND_COUNT
};

/* One device's view of another's memory. Plain data. */
struct hcq_device_link {
    uint32_t struct_size; /* set by the caller */
    enum hcq_link_kind kind;
    uint32_t hops;        /* links on the way; a switch makes none. 0: SELF */
    uint32_t engines;     /* copy engines that suit the link best, bit by
                           * number; 0: any */
    uint64_t bytes_per_s; /* at most, in one direction; 0: not known */
    bool reads, writes;   /* kernels and copies of `dev` may do that there */
    bool atomics;         /* kernels may update words there atomically */
    char reason[160];     /* why not directly, or where the facts are from */
};

/* Fills out_link, whose struct_size is set; fields beyond it stay: how `dev`
 * reaches the memory of `other`. The other direction may differ. Asks the
 * kernel's driver where it knows; maps nothing, moves nothing. Any two devices
 * of this process, also of different backends. BELL_E_INVALID: an argument is
 * NULL, or a device was opened before a fork. */
BELL_MUST_CHECK bell_status
hcq_device_get_link(struct hcq_device *dev, struct hcq_device *other,
                    struct hcq_device_link *out_link);

/* Bytes of another device's memory that a device has read and written. Plain
 * data. */
struct hcq_link_bytes {
    uint32_t struct_size;             /* set by the caller */
    uint64_t copy_read, copy_written; /* by copy engines */
    uint64_t kernel_read, kernel_written;
};

/* What simulated GPUs have counted since their machine was made: how much of
 * `other`'s memory `dev` has moved. Signals do not count. BELL_E_UNSUPPORTED:
 * nobody counts, as with hardware. */
BELL_MUST_CHECK bell_status
hcq_device_link_bytes(struct hcq_device *dev, struct hcq_device *other,
                      struct hcq_link_bytes *out_bytes);

/* "none", "host", "self", "pcie", "bar1", "nvlink", "xgmi". Static. */
const char *hcq_link_kind_name(enum hcq_link_kind kind);

/* ---- buffers ---------------------------------------------------------- */

enum hcq_mem_flag {
    HCQ_MEM_DEVICE = 0,             /* wherever the device is fastest */
    HCQ_MEM_HOST_VISIBLE = 1u << 0, /* `host` is set */
    HCQ_MEM_POISON = 1u << 1,       /* fresh memory is filled with 0xcb;
                                     * always so in debug builds */
    HCQ_MEM_SHAREABLE = 1u << 2,    /* hcq_buffer_export works: whole pages of
                                     * its own, which are not reused.
                                     * BELL_E_UNSUPPORTED where it never does */
};

/* Memory the device can address. Fields are for reading only. Owned by its
 * creator; the VA range and backing by the backend, the host mapping by the
 * backend or, when pinned, by the user. */
struct hcq_buffer {
    struct hcq_device *dev;
    uint64_t va;         /* device address, at least 64-byte aligned,
                          * unless pinned */
    uint64_t size_bytes; /* as asked for */
    void *host;          /* CPU mapping, or NULL */
    uint32_t flags;      /* enum hcq_mem_flag */
};

/* Contents are undefined. Memory given back by hcq_buffer_destroy is reused
 * where it fits. size_bytes may be 0: the buffer then has an address, and
 * nothing may be accessed there. BELL_E_NO_MEMORY names the sizes. */
BELL_MUST_CHECK bell_status hcq_buffer_create(struct hcq_device *dev,
                                              uint64_t size_bytes,
                                              uint32_t flags,
                                              struct hcq_buffer **out_buf);

/* Makes the user's memory addressable by the device. It must outlive the
 * buffer; any alignment and size. A program that forks while the device works
 * on private memory says madvise(MADV_DONTFORK) of it: what the parent writes
 * after a fork may else go to a copy that the device does not see. */
BELL_MUST_CHECK bell_status
hcq_buffer_create_pinned(struct hcq_device *dev, void *ptr, uint64_t size_bytes,
                         struct hcq_buffer **out_buf);

/* Makes another device's buffer addressable by `dev`: a second buffer for the
 * same memory, which is destroyed before the first. Both devices are of one
 * backend and one machine. BELL_E_UNSUPPORTED where the one cannot reach the
 * other's memory; then copies go through host memory. */
BELL_MUST_CHECK bell_status hcq_buffer_create_peer(struct hcq_device *dev,
                                                   const struct hcq_buffer *of,
                                                   struct hcq_buffer **out_buf);

/* Gives a descriptor of the buffer's memory, for other processes and other
 * drivers (a network card's, another vendor's GPU): a dma-buf, as many whole
 * pages as the buffer takes, or of a CPU device a file of memory. The buffer
 * was made with HCQ_MEM_SHAREABLE by this device.
 *
 * The descriptor is the caller's, who closes it; exec does. The memory stays,
 * with its contents, until the buffer is destroyed and every descriptor and
 * import of it is gone, whatever else ends before. Whoever has a descriptor can
 * read and write all of it; nothing orders accesses but what its users agree
 * on. Any thread.
 *
 * BELL_E_INVALID: the buffer is not shareable. BELL_E_UNSUPPORTED: the device's
 * driver or kernel has no such descriptors, or the device plays a recording;
 * the message says which. */
BELL_MUST_CHECK bell_status hcq_buffer_export(const struct hcq_buffer *buf,
                                              int *out_fd);

/* Makes memory behind a descriptor addressable by `dev`: size_bytes from
 * offset_bytes on, a multiple of 64. The buffer keeps the memory; the
 * descriptor stays the caller's and may be closed at once. hcq_buffer_destroy
 * ends it. `host` is NULL but on CPU devices. Any thread.
 *
 * AMD: memory of AMD's GPUs of this machine, where `dev` reaches it as a peer
 * does, and other drivers' dma-bufs. NVIDIA: other drivers' dma-bufs of less
 * than 4 GiB. CPU: whatever can be mapped and keeps its size. The others: none.
 *
 * A graph takes the import for memory of its own: what other buffers of the
 * same memory do is ordered by signals, or by graphs that wait for each other.
 *
 * BELL_E_INVALID: not an open descriptor of memory, or the range lies outside.
 * BELL_E_UNSUPPORTED: the device cannot use this memory; the message says
 * why. */
BELL_MUST_CHECK bell_status hcq_buffer_import(struct hcq_device *dev, int fd,
                                              uint64_t offset_bytes,
                                              uint64_t size_bytes,
                                              struct hcq_buffer **out_buf);

/* No submitted work may still use it. NULL is allowed. */
void hcq_buffer_destroy(struct hcq_buffer *buf);

/* Copies between host memory and a buffer and returns when done. Does not
 * wait for queues: the caller has waited for work that uses these bytes.
 * BELL_E_INVALID: the range lies outside the buffer. */
BELL_MUST_CHECK bell_status hcq_buffer_write(struct hcq_buffer *buf,
                                             uint64_t offset_bytes,
                                             const void *data,
                                             uint64_t size_bytes);
BELL_MUST_CHECK bell_status hcq_buffer_read(struct hcq_buffer *buf,
                                            uint64_t offset_bytes, void *data,
                                            uint64_t size_bytes);

/* Call after storing to a host-visible buffer by its pointer: recordings have
 * no other way to know those bytes, and a replay does not compare what it was
 * not told. Does nothing on devices that are not recorded. */
BELL_MUST_CHECK bell_status hcq_buffer_wrote(struct hcq_buffer *buf,
                                             uint64_t offset_bytes,
                                             uint64_t size_bytes);

/* Bytes in live buffers, and bytes kept for reuse: both together at most twice
 * what was ever live at once (or 4 MiB, if that is more). */
void hcq_memory_usage(struct hcq_device *dev, uint64_t *out_live_bytes,
                      uint64_t *out_cached_bytes);

/* Gives the memory kept for reuse back to the system. */
void hcq_memory_trim(struct hcq_device *dev);

/* ---- signals ---------------------------------------------------------- */

/* 64-bit value and 64-bit timestamp in memory that the host and the device
 * see. Fields are for reading only; the owner destroys it. */
struct hcq_signal {
    struct hcq_device *dev;
    uint64_t va;         /* of the value */
    uint64_t *host;      /* [0] is the value; accessed atomically */
    bool owned_by_queue; /* a timeline: not for hcq_signal_destroy */
};

BELL_MUST_CHECK bell_status hcq_signal_create(struct hcq_device *dev,
                                              uint64_t value,
                                              struct hcq_signal **out_sig);
/* Nobody waits for it and no submitted work uses it. NULL is allowed. */
void hcq_signal_destroy(struct hcq_signal *sig);

/* The value now, with acquire ordering. */
uint64_t hcq_signal_value(const struct hcq_signal *sig);
/* Stores a value from the host, with release ordering, and wakes waiters. */
void hcq_signal_set(struct hcq_signal *sig, uint64_t value);
/* What the last hcq_cs_timestamp on it wrote, in ticks; 0 before that. */
uint64_t hcq_signal_timestamp(const struct hcq_signal *sig);

/* Waits until value >= `value`: spins briefly, then sleeps. A timeout of 0
 * only looks. BELL_E_TIMEOUT carries a report: value wanted and seen, and
 * what each busy queue of the device is doing (command, kernel). The device
 * is not lost by that; it may be waited for again, or recovered. */
BELL_MUST_CHECK bell_status hcq_signal_wait(struct hcq_signal *sig,
                                            uint64_t value,
                                            uint64_t timeout_ns);

/* ---- programs --------------------------------------------------------- */

/* A kernel's binary and what is known about it. Everything is copied. */
struct hcq_program_desc {
    uint32_t struct_size;
    const char *name;   /* for reports; at most 63 bytes are kept */
    const void *binary; /* CPU: ELF64 relocatable object; CL: OpenCL C, or
                         * what that device's OpenCL made of it */
    uint64_t binary_size_bytes;
    const char *entry;     /* symbol; NULL: the same as name */
    uint32_t n_bufs;       /* first argument words: buffer addresses */
    uint32_t n_vals;       /* the words after them: int64 values */
    uint32_t local[3];     /* fixed work-group size; 0,0,0: any */
    uint32_t shared_bytes; /* shared memory of a work-group */
    /* Operations on numbers that a work-group takes at most, with no arrays on
     * the stack; 0: not known. The CPU runs a launch that takes less than a
     * thread takes to begin with it where it is submitted; a bad address is
     * reported as ever, if that thread does not block its signal. */
    uint32_t max_steps;
    /* How long one work-group takes on a slow device; 0: not known, or short.
     * Waits of HCQ_WAIT_WHILE_MOVING allow a launch that long. */
    uint64_t group_ns;
};

/* Fields are for reading only. */
struct hcq_program {
    struct hcq_device *dev;
    char name[HCQ_NAME_MAX];
    uint32_t n_bufs, n_vals;
    uint32_t local[3]; /* 0,0,0: any */
    uint32_t shared_bytes;
    uint64_t code_va;         /* entry point */
    uint64_t code_size_bytes; /* loaded size, all sections */
};

/* Loads and checks a binary. BELL_E_INVALID: malformed, for another machine,
 * an undefined symbol, no such entry, more than the device can: the message
 * names program, reason and offset. */
BELL_MUST_CHECK bell_status
hcq_program_create(struct hcq_device *dev, const struct hcq_program_desc *desc,
                   struct hcq_program **out_prog);
/* No submitted work may still use it. NULL is allowed. */
void hcq_program_destroy(struct hcq_program *prog);

/* ---- queues ----------------------------------------------------------- */

enum hcq_queue_kind {
    HCQ_QUEUE_COMPUTE, /* every command */
    HCQ_QUEUE_COPY,    /* every command but exec */
    HCQ_QUEUE_KIND_COUNT
};

struct hcq_queue_desc {
    uint32_t struct_size;
    enum hcq_queue_kind kind;
    uint32_t ring_size_bytes;   /* a power of two; 0: the device's default */
    uint64_t submit_timeout_ns; /* for room in the ring; 0:
                                 * HCQ_WAIT_WHILE_MOVING */
    /* For a copy queue: the copy engines to choose from, as hcq_device_link
     * has them; 0: any. Where none of them has a queue left, or the driver
     * leaves no choice, the queue is on another engine. */
    uint32_t engines;
};

/* Commands of one queue take effect in order: each sees what those before it
 * wrote. Queues of a device run side by side and are ordered by signals. A
 * kernel that does not end may keep the others waiting; on some devices it is
 * then taken away after seconds, and the device is lost. */
BELL_MUST_CHECK bell_status hcq_queue_create(struct hcq_device *dev,
                                             enum hcq_queue_kind kind,
                                             struct hcq_queue **out_queue);
BELL_MUST_CHECK bell_status
hcq_queue_create_with(struct hcq_device *dev, const struct hcq_queue_desc *desc,
                      struct hcq_queue **out_queue);
/* Waits for its work while the device moves (HCQ_WAIT_WHILE_MOVING), then drops
 * what is left. NULL is allowed. Its streams are destroyed before it. */
void hcq_queue_destroy(struct hcq_queue *queue);

/* "CPU:0/compute0". Owned by the queue. */
const char *hcq_queue_name(const struct hcq_queue *queue);

/* The queue's own timeline: submission n of the queue (1, 2, ...) sets it to
 * n when all its commands are done. Owned by the queue. */
struct hcq_signal *hcq_queue_timeline(struct hcq_queue *queue);

/* Waits until everything submitted to the queue is done. */
BELL_MUST_CHECK bell_status hcq_queue_wait(struct hcq_queue *queue,
                                           uint64_t timeout_ns);

/* ---- copies between devices ------------------------------------------- */

struct hcq_transfer;

/* Queues a copy of the first size_bytes of a buffer to a buffer of another
 * device, also of another backend, and waits for nothing. It runs behind all
 * that was submitted to src_queue, a queue of the source's device, and before
 * all that is submitted to dst_queue later. Where the destination's device
 * reaches the source's memory it is one copy, else it goes through host memory.
 *
 * When src_queue's timeline is *out_src_value, the source may be written to or
 * destroyed; what is submitted to src_queue from now on may write to it anyway.
 * When dst_queue's is *out_dst_value, the destination has the bytes.
 *
 * Both queues are the calling thread's during the call. BELL_E_UNSUPPORTED: a
 * device sees no host memory, or is recorded. */
BELL_MUST_CHECK bell_status hcq_transfer_create(
    struct hcq_queue *dst_queue, const struct hcq_buffer *dst,
    struct hcq_queue *src_queue, const struct hcq_buffer *src,
    uint64_t size_bytes, uint64_t *out_dst_value, uint64_t *out_src_value,
    struct hcq_transfer **out_transfer);

/* Waits until the queue's timeline is `value`, as long as its device moves or
 * one does that it has a transfer with, or that has one with such a device, and
 * so on: one of those that wait for each other may stand still for long.
 * `transfers`: those of the queue that are not released. BELL_E_DEVICE_LOST:
 * the queue's device, or one that was to give it values by then; these never
 * come, and the queue stands still until its device is recovered. The loss of
 * one that was to get some keeps nobody. */
BELL_MUST_CHECK bell_status
hcq_transfer_wait(struct hcq_queue *queue, uint64_t value,
                  struct hcq_transfer *const *transfers, size_t n);

/* Lets both queues go on that wait for each other, where one of them does not
 * come to its end: its device is lost, or is to be closed. The destination's
 * content is undefined. */
void hcq_transfer_give_up(struct hcq_transfer *transfer);

/* For each of the two queues, once, by the thread that uses it: its timeline
 * has come to its value, or it was given up and the queue is destroyed. Before
 * the device is closed and, for the source's queue, before the source is
 * destroyed. The transfer is freed with the second call. NULL is allowed. */
void hcq_transfer_release(struct hcq_transfer *transfer,
                          struct hcq_queue *queue);

/* ---- command streams -------------------------------------------------- */

/* Starts a fresh stream: *out_cs takes commands until it is submitted or
 * discarded. One at a time per queue. Owned by the queue. */
BELL_MUST_CHECK bell_status hcq_queue_begin(struct hcq_queue *queue,
                                            struct hcq_cs **out_cs);
/* The first error that an emitter met, or BELL_OK. The stream stays open. */
BELL_MUST_CHECK bell_status hcq_cs_end(struct hcq_cs *cs);
/* Ends the stream and hands it to the device. *out_value (may be NULL) is
 * what the queue's timeline reaches when it is done. On failure nothing was
 * submitted and the stream is gone: the first emitter's error;
 * BELL_E_INVALID, larger than the ring; BELL_E_TIMEOUT, no room in the ring
 * in time, with a report; BELL_E_DEVICE_LOST. */
BELL_MUST_CHECK bell_status hcq_cs_submit(struct hcq_cs *cs,
                                          uint64_t *out_value);
/* Ends a fresh stream that is not to be submitted. NULL is allowed. */
void hcq_cs_discard(struct hcq_cs *cs);

/* Emitters. They return nothing: the first error is kept in the stream,
 * later commands go nowhere, hcq_cs_end or hcq_cs_submit tells. Addresses
 * are device addresses, sizes are bytes. */

/* Goes on when the signal's value is >= `value`. The signal may belong to
 * another device where this one can see it. */
void hcq_cs_wait(struct hcq_cs *cs, const struct hcq_signal *sig,
                 uint64_t value);
/* Stores the value when all commands before are done and visible. */
void hcq_cs_signal(struct hcq_cs *cs, const struct hcq_signal *sig,
                   uint64_t value);
/* Writes the time, in ticks, into the signal's timestamp when all commands
 * before are done. The value stays. */
void hcq_cs_timestamp(struct hcq_cs *cs, const struct hcq_signal *sig);
/* Commands after it see what the host and other devices wrote before. */
void hcq_cs_barrier(struct hcq_cs *cs);
/* Runs grid[0]*grid[1]*grid[2] work-groups of local[0]*local[1]*local[2].
 * n_args = n_bufs + n_vals words: addresses, then int64 values. local may be
 * NULL: the program's own, or 1,1,1. */
void hcq_cs_exec(struct hcq_cs *cs, const struct hcq_program *prog,
                 const uint64_t *args, uint32_t n_args, const uint32_t grid[3],
                 const uint32_t local[3]);
/* Copies; the ranges do not overlap; any alignment; 0 bytes do nothing. */
void hcq_cs_copy(struct hcq_cs *cs, uint64_t dst_va, uint64_t src_va,
                 uint64_t size_bytes);
/* Repeats a 32-bit pattern (little endian, starting at dst_va; the last
 * copy may be partial). dst_va is 4-byte aligned. */
void hcq_cs_fill(struct hcq_cs *cs, uint64_t dst_va, uint32_t pattern,
                 uint64_t size_bytes);
/* Stores 32 or 64 bits; dst_va is aligned to that. */
void hcq_cs_write(struct hcq_cs *cs, uint64_t dst_va, uint64_t value,
                  unsigned n_bits);
/* Goes on when (the 32-bit word at va & mask) == value. 4-byte aligned. On a
 * device without HCQ_DEVICE_POLL_MASKS the mask is UINT32_MAX, and no field to
 * patch: BELL_E_UNSUPPORTED at the submission. */
void hcq_cs_poll(struct hcq_cs *cs, uint64_t va, uint32_t mask, uint32_t value);

/* ---- words ------------------------------------------------------------- */

#define HCQ_WORDS_MAX 256 /* of one call */

enum hcq_words_flag {
    HCQ_WORDS_UNCHECKED = 1u << 0, /* as they are */
};

/* Words of the card's own, for bring-up and for what hcq has no command for:
 * methods of NVIDIA's channels, PM4 packets of AMD, on its copy queues SDMA's,
 * type 4 and 7 packets of Adreno. They are copied, and go where the command
 * stands; the words of one call stay together.
 *
 * What they say is the caller's affair: state that hcq sets at a submission's
 * start may be changed until its end, what it sets once (where local memory
 * lies, exceptions) may not; later commands of the stream may rest on less than
 * they think, a launch's memory is visible to them after hcq_cs_barrier. On a
 * chip of several dies each runs the words.
 *
 * They are decoded first, and refused where a word has no name, a packet is not
 * whole or reserved bits are set: BELL_E_INVALID with the place and the decoded
 * line. HCQ_WORDS_UNCHECKED sends them anyway; those of an AMD copy queue have
 * to be packets that hcq itself uses, as its ring is refilled packet by packet.
 * BELL_E_UNSUPPORTED: the device has no words of its own (CPU, OpenCL). */
void hcq_cs_words(struct hcq_cs *cs, const uint32_t *words, uint32_t n_words,
                  uint32_t flags);

/* ---- bound streams ---------------------------------------------------- */

/* Which value of a command; each command has those its comment names. */
enum hcq_field {
    HCQ_FIELD_ADDR,  /* va: wait, signal, timestamp, write, poll, fill */
    HCQ_FIELD_VALUE, /* wait, signal, write, poll; fill: the pattern */
    HCQ_FIELD_MASK,  /* poll */
    HCQ_FIELD_DST,   /* copy */
    HCQ_FIELD_SRC,   /* copy */
    HCQ_FIELD_SIZE,  /* copy, fill */
    HCQ_FIELD_GRID,  /* exec; + axis 0 to 2 */
    HCQ_FIELD_LOCAL = HCQ_FIELD_GRID + 3, /* exec; + axis 0 to 2 */
    HCQ_FIELD_ARG = HCQ_FIELD_LOCAL + 3,  /* exec; + index of the word */
    HCQ_FIELD_COUNT = HCQ_FIELD_ARG + HCQ_ARGS_MAX
};

#define HCQ_PATCH_NONE UINT32_MAX

/* A stream for `queue` that is built once and submitted many times. The name
 * is for reports. Building may allocate; submitting does not:
 *     hcq_stream_create(queue, "step", &stream);
 *     cs = hcq_stream_cs(stream);
 *     x = hcq_stream_patch_point(stream, "x");
 *     hcq_cs_exec(cs, prog, args, 2, grid, NULL);
 *     hcq_cs_patch(cs, HCQ_FIELD_ARG + 1, x, 64);    x's address + 64
 *     hcq_stream_end(stream);
 *     loop: hcq_stream_patch(stream, x, buf->va); hcq_stream_submit(stream..)
 */
BELL_MUST_CHECK bell_status hcq_stream_create(struct hcq_queue *queue,
                                              const char *name,
                                              struct hcq_stream **out_stream);
/* Not in flight. NULL is allowed. */
void hcq_stream_destroy(struct hcq_stream *stream);
/* Takes commands until hcq_stream_end. Never NULL; owned by the stream. */
struct hcq_cs *hcq_stream_cs(struct hcq_stream *stream);
/* A new patch point. On failure HCQ_PATCH_NONE, and the stream's error. */
uint32_t hcq_stream_patch_point(struct hcq_stream *stream, const char *name);
/* Makes a field of the command emitted last a place where `patch` is put:
 * the field becomes the patch's value + addend. Until the first
 * hcq_stream_patch it holds what was emitted. One patch may have any number
 * of places. */
void hcq_cs_patch(struct hcq_cs *cs, unsigned field, uint32_t patch,
                  int64_t addend);
/* Ends building; returns the first error. After an error the stream can only
 * be destroyed. */
BELL_MUST_CHECK bell_status hcq_stream_end(struct hcq_stream *stream);
/* Sets a patch's value in all its places. BELL_E_INVALID, and nothing
 * changed: the stream is in flight, no such patch, or a place cannot hold
 * the value (a grid of 0, more than 32 bits, misaligned). */
BELL_MUST_CHECK bell_status hcq_stream_patch(struct hcq_stream *stream,
                                             uint32_t patch, uint64_t value);
/* The patch point of that name, or HCQ_PATCH_NONE. */
uint32_t hcq_stream_find_patch(const struct hcq_stream *stream,
                               const char *name);
/* Submits; may be submitted again while in flight. As hcq_cs_submit. */
BELL_MUST_CHECK bell_status hcq_stream_submit(struct hcq_stream *stream,
                                              uint64_t *out_value);
/* Whether a submission of it is not done yet. */
bool hcq_stream_busy(const struct hcq_stream *stream);
/* Waits until it is not. */
BELL_MUST_CHECK bell_status hcq_stream_wait(struct hcq_stream *stream,
                                            uint64_t timeout_ns);

#endif
