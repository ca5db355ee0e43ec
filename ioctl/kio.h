/* The kernel boundary: every system call on a device node, and every sysfs or
 * procfs file a driver reads, goes through a struct kio.
 *
 * Forms: `sys` is the real kernel; `record` and `fault` (kio_record.h,
 * kio_fault.h) stand on another form and pass calls on; `replay`
 * (kio_replay.h) and the simulated kernels answer by themselves. A form is
 * destroyed from the top down: destroying one destroys what it stands on.
 *
 * Drivers call the functions below, not the table. They retry interrupted
 * calls (a bounded number of times), keep errno, trace under
 * BELL_DEBUG=ioctl, and on failure put the call's name and its decoded
 * arguments into the error record. Any thread may call; a form does its own
 * locking. Numbers of files (`fd`) belong to the form that gave them.
 */
#ifndef BELL_IOCTL_KIO_H
#define BELL_IOCTL_KIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "ioctl/kio_desc.h"

struct kio;

/* What a region named at a doorbell is. The numbers are in cassettes. */
enum kio_region_kind {
    KIO_REGION_DATA = 0,
    KIO_REGION_RING = 1,       /* queue entries */
    KIO_REGION_PUSH = 2,       /* commands that an entry points to */
    KIO_REGION_DESCRIPTOR = 3, /* a launch descriptor (QMD, AQL packet...) */
    KIO_REGION_CONTROL = 4,    /* read and write pointers of a queue */
    KIO_REGION_SIGNAL = 5,     /* written by the device as it goes on */
    KIO_REGION_KIND_COUNT
};

/* Memory that a submission reaches. */
struct kio_region {
    const volatile void *cpu; /* mapped, readable */
    uint64_t va;              /* its address on the device */
    uint64_t size_bytes;
    uint32_t kind; /* enum kio_region_kind */
};

/* One ring of a doorbell, told before the store that does it. */
struct kio_bell {
    volatile void *address; /* the doorbell register in this process */
    uint64_t value;         /* what will be stored */
    uint32_t value_bytes;
    uint32_t n_regions;
    const struct kio_region *regions;
};

/* What a driver tells of beside calls and doorbells. The numbers are in
 * cassettes. */
enum kio_told_kind {
    KIO_TOLD_PROGRAM = 0, /* the object that a program was made of */
    KIO_TOLD_WRITTEN = 1, /* the host put it into the device's memory */
    KIO_TOLD_READ = 2,    /* the host got it from the device's memory */
    KIO_TOLD_LAUNCHES = 3 /* of a submission that follows: for each the code's
                           * address, groups, work-items, the number of
                           * arguments, the arguments; words of 64 bits */
};

/* Bytes that no call carries. */
struct kio_told {
    uint32_t kind;    /* enum kio_told_kind */
    const char *name; /* the program's or the stream's; "" */
    uint64_t va;      /* on the device; 0 where there is none */
    uint64_t size_bytes;
    void *data;    /* READ: a form that plays a recording writes it. NULL: only
                 * the hash is known */
    uint64_t hash; /* hash_bytes(data, size_bytes, 0), where data is NULL */
};

/* Bytes of another card's memory that a simulated card has read and written: by
 * its copy engines, by its kernels. Plain data. */
struct kio_link_bytes {
    uint64_t copy_read, copy_written, kernel_read, kernel_written;
};

/* Calls of one form. They return a result >= 0 or a negative errno and are
 * not called from elsewhere than the wrappers and other forms. */
struct kio_ops {
    const char *name;
    void (*destroy)(struct kio *kio);
    int (*open)(struct kio *kio, const char *path, int flags);
    int (*close)(struct kio *kio, int fd);
    int (*ioctl)(struct kio *kio, int fd, unsigned long request, void *arg);
    /* *addr is the wish on entry and the mapping on success. */
    int (*mmap)(struct kio *kio, void **addr, size_t size_bytes, int prot,
                int flags, int fd, uint64_t offset);
    int (*munmap)(struct kio *kio, void *addr, size_t size_bytes);
    int (*poll)(struct kio *kio, int fd, short events, int timeout_ms,
                short *out_revents);
    /* The whole file, up to cap bytes; the result is how many. */
    int (*read_file)(struct kio *kio, const char *path, void *buf, size_t cap);
    /* NULL where nobody looks: the launch path then does nothing. */
    void (*doorbell)(struct kio *kio, const struct kio_bell *bell);
    /* 0, or -EPROTO: not what was recorded. Present where `doorbell` is. */
    int (*told)(struct kio *kio, const struct kio_told *told);
    /* Whether the node could be opened to read and write: 0 or a negative
     * errno. Absent: opening it will tell. */
    int (*may_open)(struct kio *kio, const char *path);
    /* Why the last call failed, where errno does not say it; NULL where it
     * does. May be absent. */
    const char *(*explain)(struct kio *kio);
    /* Why nothing that follows can succeed; NULL while it may. The text stays
     * as it is. Any thread. May be absent. */
    const char *(*broken)(struct kio *kio);
    /* Counts the bytes between the cards at these places on PCI
     * (kio_pci_place). False: no such cards. Absent where nobody counts. */
    bool (*link_bytes)(struct kio *kio, uint32_t card, uint32_t owner,
                       struct kio_link_bytes *out_bytes);
};

/* The head of every form. */
struct kio {
    const struct kio_ops *ops;
    struct kio *below; /* owned; NULL at the bottom */
    uint32_t branch;   /* index of the driver branch, for descriptions */
    bool outlives;     /* at the bottom: see kio_outlives */
    bool is_simulated; /* no hardware at the bottom, now or when recorded */
    bool gives_descriptors; /* at the bottom: see kio_gives_descriptors */
    uint32_t page_bytes;    /* 0: those of what is below, or of this system */
};

/* An open device node. Plain data; closed with kio_close. */
struct kio_file {
    struct kio *kio;
    int fd;
    enum kio_dev dev;
};

/* The real kernel. */
BELL_MUST_CHECK bell_status kio_sys_create(struct kio **out_kio);

/* Destroys a form and all below it; NULL is allowed. Files must be closed. */
void kio_destroy(struct kio *kio);

/* Whether the kernel goes on after the stack, with what it keeps for this
 * process and not for a file: the real one does, until the process exits. A
 * kernel that is made with the stack ends with it. */
bool kio_outlives(const struct kio *kio);

/* Whether files that calls make for the process, as dma-bufs are, are this
 * process's descriptors: not so where a recording is played. */
bool kio_gives_descriptors(const struct kio *kio);

/* Where a card is on PCI, as one number. */
static inline uint32_t
kio_pci_place(uint32_t domain, uint32_t bus, uint32_t slot)
{
    return domain << 16 | bus << 8 | slot << 3;
}
/* What the kernel at the bottom has counted for two of its cards, at these
 * places; false: it does not count. */
bool kio_link_bytes(const struct kio *kio, uint32_t card, uint32_t owner,
                    struct kio_link_bytes *out_bytes);

/* The kernel's pages: 4096 bytes on x86-64, also 16 and 64 KiB on AArch64.
 * Mappings and memory of the caller's are made of whole ones. */
uint64_t kio_page_bytes(const struct kio *kio);

/* Tells every form of a stack which branch the driver is of. */
void kio_set_branch(struct kio *kio, uint32_t branch);

/* O_CLOEXEC is added to flags. BELL_E_NO_DEVICE, BELL_E_PERMISSION (naming
 * the file) or BELL_E_KERNEL on failure. */
BELL_MUST_CHECK bell_status kio_open(struct kio *kio, const char *path,
                                     int flags, struct kio_file *out_file);
/* Whether this process may open the node to read and write, without opening
 * it: that wakes a card that sleeps. Fails as kio_open does. */
BELL_MUST_CHECK bell_status kio_may_open(struct kio *kio, const char *path);
/* Closes and forgets; fd -1 is allowed. */
void kio_close(struct kio_file *file);

/* BELL_E_KERNEL when the call fails or the struct comes back with a vendor
 * status other than 0; BELL_E_NO_MEMORY when either says so. */
BELL_MUST_CHECK bell_status kio_ioctl(const struct kio_file *file,
                                      unsigned long request, void *arg);
/* The same, but a vendor status is the caller's to judge: it is written to
 * out_vendor (0 when the struct has none) and is not a failure. */
BELL_MUST_CHECK bell_status kio_ioctl_status(const struct kio_file *file,
                                             unsigned long request, void *arg,
                                             uint32_t *out_vendor);

/* A call that gives something back: after a refusal it is tried once more, for
 * what stays with the kernel keeps addresses that we would give out again. A
 * failure is logged and leaves the error record as it was (base/status.h).
 * False: the kernel has kept it. */
bool kio_ioctl_give_back(const struct kio_file *file, unsigned long request,
                         void *arg);

/* Maps a file, or anonymous memory when `file` is NULL (then with
 * MAP_ANONYMOUS in flags). A file's mapping does not pass to children: it would
 * keep the device's memory, and a stray write in one reach the parent's rings.
 */
BELL_MUST_CHECK bell_status kio_mmap(struct kio *kio,
                                     const struct kio_file *file, void *addr,
                                     size_t size_bytes, int prot, int flags,
                                     uint64_t offset, void **out_addr);
void kio_munmap(struct kio *kio, void *addr, size_t size_bytes);

/* Waits for `events` (POLLIN...); *out_revents is 0 after timeout_ms. */
BELL_MUST_CHECK bell_status kio_poll(const struct kio_file *file, short events,
                                     int timeout_ms, short *out_revents);

/* Reads a sysfs or procfs file: at most cap - 1 bytes, then a zero byte.
 * BELL_E_IO when it is absent or does not fit. */
BELL_MUST_CHECK bell_status kio_read_file(struct kio *kio, const char *path,
                                          char *buf, size_t cap,
                                          size_t *out_bytes);

/* Whether somebody wants to be told of doorbells. Drivers ask before they
 * put a kio_bell together. */
static inline bool
kio_watches(const struct kio *kio)
{
    return kio->ops->doorbell != NULL;
}

/* Call after the ring is written and before the doorbell is stored to. */
static inline void
kio_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    if (kio->ops->doorbell)
        kio->ops->doorbell(kio, bell);
}

/* Call where kio_watches: after a program is made, the host has written or read
 * memory, or before launches are submitted. BELL_E_DEVICE_LOST: a recording is
 * played that has something else here, or not these bytes; the text says
 * which. */
BELL_MUST_CHECK bell_status kio_tell(struct kio *kio,
                                     const struct kio_told *told);

/* Why nothing that follows can succeed, as of a replay that was told of other
 * work than was recorded; NULL while it may. A doorbell has no result: who
 * waits for what it started asks here. The text lives as long as the stack. Any
 * thread. */
const char *kio_broken(struct kio *kio);

/* The vendor status inside an argument after the call; 0 if it has none. */
uint32_t kio_vendor_status(enum kio_dev dev, uint32_t branch,
                           unsigned long request, const void *arg);

#endif
