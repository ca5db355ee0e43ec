/* Cassettes: files of kernel calls, as docs/reference/cassettes.md describes
 * them.
 *
 * A writer appends records; a reader loads a whole file, checks every length
 * in it, and hands out records in order. A truncated file gives what was
 * complete. One thread per object.
 */
#ifndef BELL_IOCTL_CASSETTE_H
#define BELL_IOCTL_CASSETTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define CAS_VERSION   1u
#define CAS_BLOBS_MAX 1024u

/* What a record tells. The numbers are in files. */
enum cas_kind {
    CAS_OPEN = 1,     /* args: flags; blob PATH; result: fd */
    CAS_CLOSE = 2,    /* fd */
    CAS_IOCTL = 3,    /* args: request; blobs ARG_IN, ARG_OUT */
    CAS_MMAP = 4,     /* args: wish, bytes, prot << 32 | flags, offset;
                         result: the address */
    CAS_MUNMAP = 5,   /* args: address, bytes */
    CAS_POLL = 6,     /* args: events, timeout in ms, returned events */
    CAS_READ = 7,     /* blobs PATH, CONTENTS */
    CAS_DOORBELL = 8, /* args: address, value, bytes; blobs REGION */
    CAS_SAMPLE = 9,   /* rings seen at another call; blobs REGION */
    CAS_UPDATE = 10,  /* memory that the device wrote; blobs MEMORY */
    CAS_NOTE = 11,    /* blob TEXT */
    CAS_START = 12,   /* a process; blob TEXT: its command line */
    CAS_EXIT = 13,
    CAS_TOLD =
        14, /* args: address, bytes, hash, enum kio_told_kind; blobs TEXT:
                      the name, CONTENTS of what was read and of launches */
    CAS_KIND_COUNT
};

enum cas_role {
    CAS_PATH = 1,
    CAS_ARG_IN = 2,  /* before the call */
    CAS_ARG_OUT = 3, /* after it; left out when unchanged */
    CAS_REGION = 4,  /* extra: enum kio_region_kind */
    CAS_CONTENTS = 5,
    CAS_TEXT = 6,
    CAS_MEMORY = 7,
};

struct cas_blob {
    uint16_t role;   /* enum cas_role */
    uint16_t parent; /* of ARG: which argument blob points here */
    uint32_t field_offset_bytes;
    uint64_t addr; /* in the process, or of a REGION on the device */
    uint64_t cpu;  /* of a REGION: in the process */
    uint32_t size_bytes;
    uint32_t extra;
    const uint8_t *data;
};

struct cas_record {
    uint32_t kind; /* enum cas_kind */
    uint32_t pid, tid;
    uint64_t time_ns; /* monotonic, of the recording machine */
    int64_t result;   /* negative errno on failure */
    int32_t fd;
    uint32_t dev; /* enum kio_dev */
    uint64_t args[4];
    uint32_t n_blobs;
    const struct cas_blob *blobs;
};

/* ---- writing ---------------------------------------------------------- */

enum {
    CAS_COMPRESS = 1u << 0,  /* zlib, where it was built in */
    CAS_WRITE_EACH = 1u << 1 /* a block per record: survives a crash; the file
                                gets a high number */
};

struct cas_writer;
struct kio_capture;
struct kio_region;

/* Creates the file, under a name of its own beside `path` until it is named;
 * with CAS_WRITE_EACH it is so at once. `identity` is lines of "key=value". */
BELL_MUST_CHECK bell_status cas_writer_create(const char *path, uint32_t flags,
                                              const char *identity,
                                              struct cas_writer **out_writer);
/* Appends a record; its blobs' data is copied. */
BELL_MUST_CHECK bell_status cas_write(struct cas_writer *writer,
                                      const struct cas_record *record);
/* The number of the file, for whoever must see to it that it stays open. */
int cas_writer_fd(const struct cas_writer *writer);
/* Gives the file its path, in place of what was there; again: nothing. */
BELL_MUST_CHECK bell_status cas_writer_name(struct cas_writer *writer);
/* Writes what is pending and the end mark, names the file and frees the writer.
 * After a failure a file that had no name yet is gone. */
BELL_MUST_CHECK bell_status cas_writer_close(struct cas_writer *writer);
/* Frees the writer; a file that has no name yet is gone. */
void cas_writer_drop(struct cas_writer *writer);

/* Blobs of a call's arguments before and after it, the latter only where
 * they differ, at most two per argument; gives how many. They point into the
 * captures. */
uint32_t cas_argument_blobs(const struct kio_capture *in,
                            const struct kio_capture *out,
                            struct cas_blob *blobs);

/* A region as a blob; `data` is its bytes, which may be a copy. */
struct cas_blob cas_region_blob(const struct kio_region *region,
                                const uint8_t *data);

/* "key=value" lines that say on what machine this runs, by which command (NULL:
 * this process's), and whether the cards are simulated ones. Returns the
 * length; cut to fit, always terminated. */
size_t cas_identity(const char *command, bool is_simulated, char *buf,
                    size_t buf_bytes);
/* The line that says that what drivers tell (TOLD) is recorded too. */
#define CAS_TELLS "told=yes\n"
/* Whether such lines have that one. */
bool cas_identity_tells(const char *identity);
/* Whether such lines speak of simulated cards. */
bool cas_identity_is_simulated(const char *identity);

/* ---- reading ---------------------------------------------------------- */

struct cas_reader;

BELL_MUST_CHECK bell_status cas_reader_open(const char *path,
                                            struct cas_reader **out_reader);
/* The same from memory, of which nothing is kept; `name` is for messages. */
BELL_MUST_CHECK bell_status cas_reader_parse(const char *name, const void *data,
                                             size_t size_bytes,
                                             struct cas_reader **out_reader);
void cas_reader_close(struct cas_reader *reader);

/* The identity lines of the header. */
const char *cas_reader_identity(const struct cas_reader *reader);
/* Whether the end mark is missing: the recorded program died. */
bool cas_reader_truncated(const struct cas_reader *reader);
uint32_t cas_reader_count(const struct cas_reader *reader);
/* Record number i; it and its data live as long as the reader. */
const struct cas_record *cas_reader_get(const struct cas_reader *reader,
                                        uint32_t i);

/* The first blob with this role, or NULL. */
const struct cas_blob *cas_find(const struct cas_record *record, uint16_t role);

/* Whether it is a call that only asks whether something has happened, or waits
 * for it: a program makes as many of those as it has time for. */
bool cas_is_wait(const struct cas_record *record);

/* "ioctl"; never NULL. */
const char *cas_kind_name(uint32_t kind);
/* "a program", of enum kio_told_kind; never NULL. */
const char *cas_told_name(uint64_t kind);

#endif
