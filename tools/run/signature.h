/* Signatures of files: Ed25519 (RFC 8032) over all bytes, 64 bytes in a file
 * beside it, "FILE.sig", as `openssl pkeyutl -sign -rawin` writes it. */
#ifndef BELL_TOOLS_RUN_SIGNATURE_H
#define BELL_TOOLS_RUN_SIGNATURE_H

#include <stdint.h>

#include "base/status.h"

struct signature_key {
    uint8_t bytes[32];
    const char *path; /* for messages */
};

/* Reads a public key in PEM (RFC 8410), as `openssl pkey -pubout` writes it;
 * the path outlives it. BELL_E_IO: it is not one; BELL_E_UNSUPPORTED: built
 * without libsodium. */
BELL_MUST_CHECK bell_status signature_read_key(const char *path,
                                               struct signature_key *out);

/* An hcq_bundle_check_fn whose `user` is the key. BELL_E_IO: no signature
 * there, or not this key's for these bytes. */
BELL_MUST_CHECK bell_status signature_check(void *user, const char *path,
                                            const void *data,
                                            uint64_t size_bytes);

#endif
