/* ZIP archives: what NumPy and PyTorch keep their arrays in. From the central
 * directory alone; stored and deflated members (which need zlib).
 *
 * An archive may be hostile: every place is checked before it is used, members
 * do not overlap, and none unpacks to more than deflate can make of its bytes.
 * src: PKWARE's APPNOTE.TXT, sections 4.3 to 4.5.
 *
 * Why not a library: libzip gives a member's bytes, never their place, so that
 * what is mapped would be copied, and Debian's needs OpenSSL and bzip2, which
 * an appliance would link. minizip tells the place, after a search from the
 * first member on.
 *
 * Neither looks for members that overlap, for names twice, or for sizes that
 * deflate cannot give, and neither lets a writer put data at a multiple of 64
 * bytes without counting the header's bytes itself. These checks need each
 * member's row, which is most of the reader here: some 100 lines less would be
 * a library more.
 */
#ifndef BELL_TENSOR_FILES_ZIP_H
#define BELL_TENSOR_FILES_ZIP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/status.h"

struct zip_member {
    char *name;          /* owned */
    const uint8_t *data; /* in the archive, deflated or not */
    uint64_t n_packed, n_bytes;
    uint32_t crc;
    bool deflated;
    atomic_bool checked; /* its CRC was right once */
};

/* An archive in memory, which is its user's. */
struct zip {
    struct zip_member *members; /* owned */
    size_t n_members;
    struct map member_of; /* hash of a name -> number */
};

/* BELL_E_IO: it is damaged; BELL_E_UNSUPPORTED: encrypted, or in parts, or of
 * another compression. After a failure as well: zip_fini. */
BELL_MUST_CHECK bell_status zip_open(const uint8_t *bytes, size_t size_bytes,
                                     struct zip *out_zip);
void zip_fini(struct zip *zip);
/* NULL: there is none of that name. */
struct zip_member *zip_find(const struct zip *zip, const char *name);

/* The first n bytes of it to dst, unpacked; of all of them the CRC is
 * checked. */
BELL_MUST_CHECK bell_status zip_read(struct zip_member *member, void *dst,
                                     uint64_t n_bytes);
/* Checks the CRC of a stored one, once. */
BELL_MUST_CHECK bell_status zip_check(struct zip_member *member);

/* An archive that is written: stored members, one after the other. */
struct zip_part {
    const void *data;
    size_t size_bytes;
};
struct zip_writer {
    int fd;           /* the caller's */
    const char *path; /* for messages */
    uint8_t *central; /* owned */
    size_t n_central, cap_central;
    uint64_t n_written, n_members;
};
/* A member of two parts, whose data begins at a multiple of 64 bytes. */
BELL_MUST_CHECK bell_status zip_add(struct zip_writer *zip, const char *name,
                                    const struct zip_part parts[2]);
/* The central directory. Frees what it owns, also after a failure. */
BELL_MUST_CHECK bell_status zip_finish(struct zip_writer *zip,
                                       bell_status so_far);

#endif
