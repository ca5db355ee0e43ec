/* What the manual of an accelerator says, here of one that does not exist: the
 * calls of its kernel driver, its registers, its queues and their commands.
 * The driver (hcq/template) and the simulated card (sim/template) share this
 * and nothing else. docs/how-to/new-accelerator.md starts from it.
 *
 * One card is /dev/template0. A process has an address space on the card; the
 * kernel driver puts memory there that it allocates, or pins of the process's.
 * Addresses below 4 GiB are never mapped.
 */
#ifndef BELL_IOCTL_TEMPLATE_UAPI_H
#define BELL_IOCTL_TEMPLATE_UAPI_H

#include <stdint.h>

#include <linux/ioctl.h>

#define TEMPLATE_PAGE_BYTES 4096u

/* ---- calls ------------------------------------------------------------- */

/* Memory: `ptr` 0: new, of zeros; else the caller's from there on, pinned.
 * size_bytes is a multiple of a page, or of pinned memory what it is. */
struct template_map {
    uint64_t size_bytes, ptr;
    uint64_t va; /* out; mmap at this offset of the file shows new memory */
};

/* Between a process's memory and the card's, which need not be mapped. */
struct template_move {
    uint64_t va, ptr, size_bytes;
    uint64_t to_card; /* 1; 0: from the card */
};

struct template_queue_args {
    uint64_t ring_va;   /* struct template_entry[n_entries] */
    uint32_t n_entries; /* a power of two */
    uint32_t id;        /* out; in, where the queue ends */
};

#define TEMPLATE_MAP       _IOWR('T', 1, struct template_map)
#define TEMPLATE_UNMAP     _IOWR('T', 2, struct template_map) /* takes va */
#define TEMPLATE_MOVE      _IOW('T', 3, struct template_move)
#define TEMPLATE_NEW_QUEUE _IOWR('T', 4, struct template_queue_args)
#define TEMPLATE_END_QUEUE _IOW('T', 5, struct template_queue_args)
/* Stops everything, forgets what the rings hold, clears registers. */
#define TEMPLATE_RESET _IO('T', 6)

/* ---- registers: the page that mmap at offset 0 shows --------------------- */

#define TEMPLATE_MAX_QUEUES 128u

enum template_fault {
    TEMPLATE_FAULT_NONE,
    TEMPLATE_FAULT_UNMAPPED,
    TEMPLATE_FAULT_MISALIGNED,
    TEMPLATE_FAULT_COMMAND, /* no such command */
    TEMPLATE_FAULT_CODE,    /* no such instruction */
};

struct template_regs {
    /* Entries that were put into a queue's ring, for ever: a queue runs what
     * is new when the number grows. Written by the host. */
    uint64_t doorbell[TEMPLATE_MAX_QUEUES];
    /* Why the card stands still, written last; the rest tells where. */
    uint32_t fault; /* enum template_fault */
    uint32_t queue; /* id */
    uint64_t va, group;
};

/* ---- queues -------------------------------------------------------------- */

/* Commands, as words of 64 bits, somewhere in the card's memory. */
struct template_entry {
    uint64_t va, n_words;
};

/* A command's first word: what it is, and how many words it has, bits 31:8.
 * Its operands follow. Each has taken effect when the next begins. */
enum template_command {
    TEMPLATE_WAIT = 1, /* va, value: until the word there is >= value */
    TEMPLATE_STORE64,  /* va, value */
    TEMPLATE_STORE32,  /* va, value */
    TEMPLATE_TIME,     /* va: the time in ns, 8 bytes behind it */
    TEMPLATE_FENCE,    /* - */
    TEMPLATE_COPY,     /* to, from, bytes */
    TEMPLATE_FILL,     /* to, pattern of 32 bits, bytes */
    TEMPLATE_POLL,     /* va, mask, value: until (32 bits there & mask) are */
};

#define TEMPLATE_HEAD(command, n_words) ((command) | (uint64_t)(n_words) << 8)

#endif
