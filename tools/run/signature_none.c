/* Signatures where libsodium is not. */
#include "tools/run/signature.h"

bell_status
signature_read_key(const char *path, struct signature_key *out)
{
    (void)out;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: signatures need libsodium, and this was built "
                     "without (libsodium-dev)",
                     path);
}

bell_status
signature_check(void *user, const char *path, const void *data,
                uint64_t size_bytes)
{
    (void)user;
    (void)data;
    (void)size_bytes;
    return bell_fail(BELL_E_UNSUPPORTED, "%s: built without libsodium", path);
}
