/* The bytes of a cassette; docs/reference/cassettes.md says the same in words.
 * Private to ioctl/ and tools/recorder. All numbers are little endian.
 */
#ifndef BELL_IOCTL_CASSETTE_FORMAT_H
#define BELL_IOCTL_CASSETTE_FORMAT_H

#include <assert.h>
#include <stdint.h>

#define CAS_MAGIC           "BELLCAS\n"
#define CAS_BLOCK_MAGIC     0x314b4c42u /* "BLK1" */
#define CAS_BLOCK_BYTES_MAX (64u << 20)
#define CAS_TOTAL_BYTES_MAX (512u << 20) /* of all blocks, unpacked */

struct cas_file_head {
    char magic[8];
    uint32_t version;
    uint32_t identity_bytes; /* text that follows */
};

struct cas_block_head {
    uint32_t magic;
    uint32_t raw_bytes;    /* 0: the end mark */
    uint32_t stored_bytes; /* less than raw_bytes: zlib */
    uint32_t hash;         /* of the raw bytes: low half of hash_bytes(.., 0) */
};

struct cas_record_head {
    uint32_t size_bytes; /* with blobs; a multiple of 8 */
    uint16_t kind, n_blobs;
    uint32_t pid, tid;
    uint64_t time_ns;
    int64_t result;
    int32_t fd;
    uint32_t dev;
    uint64_t args[4];
};

struct cas_blob_head {
    uint16_t role, parent;
    uint32_t field_offset_bytes;
    uint64_t addr, cpu;
    uint32_t size_bytes, extra; /* data follows, padded to 8 */
};

static_assert(sizeof(struct cas_file_head) == 16, "file head");
static_assert(sizeof(struct cas_block_head) == 16, "block head");
static_assert(sizeof(struct cas_record_head) == 72, "record head");
static_assert(sizeof(struct cas_blob_head) == 32, "blob head");

#endif
