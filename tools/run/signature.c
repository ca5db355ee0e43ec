/* Signatures by libsodium. */
#include "tools/run/signature.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/regular_file.h"

_Static_assert(sizeof(((struct signature_key *)0)->bytes) ==
                   crypto_sign_ed25519_PUBLICKEYBYTES,
               "a key");

/* What a public key of Ed25519 begins with in DER. src: RFC 8410, sections 3
 * and 4: a SEQUENCE of the algorithm's, OID 1.3.101.112, and a BIT STRING. */
static const uint8_t der_begin[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                    0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

#define DER_BYTES (sizeof(der_begin) + crypto_sign_ed25519_PUBLICKEYBYTES)

static bell_status
parse_key(const char *text, struct signature_key *out)
{
    static const char begin[] = "-----BEGIN PUBLIC KEY-----";
    static const char end[] = "-----END PUBLIC KEY-----";
    const char *first = strstr(text, begin), *last;
    uint8_t der[DER_BYTES];
    size_t n = 0;

    if (strstr(text, "PRIVATE KEY-----"))
        return bell_fail(BELL_E_IO,
                         "%s: is a private key, expected a public one",
                         out->path);
    last = first ? strstr(first, end) : NULL;
    if (!last)
        return bell_fail(BELL_E_IO, "%s: expected a public key in PEM",
                         out->path);
    if (strstr(last, begin))
        return bell_fail(BELL_E_IO, "%s: has two keys, expected one",
                         out->path);
    first += sizeof(begin) - 1;
    if (sodium_base642bin(der, sizeof(der), first, (size_t)(last - first),
                          "\r\n", &n, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        n != sizeof(der) || memcmp(der, der_begin, sizeof(der_begin)) != 0)
        return bell_fail(BELL_E_IO, "%s: expected a public key of Ed25519",
                         out->path);
    memcpy(out->bytes, der + sizeof(der_begin), sizeof(out->bytes));
    return BELL_OK;
}

/* A FIFO would be waited for, and what judges a bundle must not wait. */
static bell_status
read_regular(const char *path, struct file_bytes *out_file)
{
    struct regular_file file;

    BELL_TRY(regular_file_open(path, &file));
    close(file.fd);
    return file_read(path, out_file);
}

bell_status
signature_read_key(const char *path, struct signature_key *out)
{
    struct file_bytes file;
    char text[4096];
    bool fits;

    if (sodium_init() < 0)
        return bell_fail(BELL_E_INTERNAL, "libsodium does not start");
    out->path = path;
    BELL_TRY(read_regular(path, &file));
    fits = file.size_bytes < sizeof(text);
    if (fits && file.size_bytes)
        memcpy(text, file.data, file.size_bytes);
    text[fits ? file.size_bytes : 0] = 0;
    file_bytes_fini(&file);
    return parse_key(text, out);
}

bell_status
signature_check(void *user, const char *path, const void *data,
                uint64_t size_bytes)
{
    const struct signature_key *key = user;
    struct file_bytes file;
    char beside[4096];
    size_t n;
    bool good;

    if (snprintf(beside, sizeof(beside), "%s.sig", path) >= (int)sizeof(beside))
        return bell_fail(BELL_E_IO, "%.80s..: too long a path", path);
    if (read_regular(beside, &file) != BELL_OK) {
        bell_error_prefix("%s is not signed", path);
        return bell_error_last()->status;
    }
    n = file.size_bytes;
    good = n == crypto_sign_ed25519_BYTES &&
           crypto_sign_ed25519_verify_detached(file.data, data, size_bytes,
                                               key->bytes) == 0;
    file_bytes_fini(&file);
    if (n != crypto_sign_ed25519_BYTES)
        return bell_fail(BELL_E_IO,
                         "%s: has %zu bytes, expected a signature "
                         "of %u",
                         beside, n, crypto_sign_ed25519_BYTES);
    if (!good)
        return bell_fail(
            BELL_E_IO,
            "%s: %s is not its signature by %s: it was changed, or "
            "signed with another key",
            path, beside, key->path);
    return BELL_OK;
}
