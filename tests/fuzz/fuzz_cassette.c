/* libFuzzer target: cassettes. The input is what is in a cassette's blocks; a
 * head, and the hash over it, are put around it. `doorbell trace` shows it,
 * compares it with the one before, and replays it on itself and on the one
 * before: whatever is in it, nothing is touched that is not its own.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "ioctl/cassette.h"
#include "ioctl/cassette_format.h"
#include "tests/fuzz/fuzz.h"
#include "tools/tools.h"
#include "tools/trace/trace.h"

static void
write_cassette(struct fuzz_file *cassette, const uint8_t *data, size_t size)
{
    static const char identity[] = "system=Linux\nnvidia=595.45\n";
    struct cas_file_head file = {.version = CAS_VERSION,
                                 .identity_bytes = sizeof(identity) - 1};
    struct cas_block_head block = {.magic = CAS_BLOCK_MAGIC}, end = block;
    size_t n = size & ~(size_t)7;

    memcpy(file.magic, CAS_MAGIC, sizeof(file.magic));
    block.raw_bytes = block.stored_bytes = (uint32_t)n;
    block.hash = (uint32_t)hash_bytes(data, n, 0);
    fuzz_file_write(cassette, &file, sizeof(file));
    if (lseek(cassette->fd, sizeof(file), SEEK_SET) < 0 ||
        write(cassette->fd, identity, sizeof(identity) - 1) < 0 ||
        (n && (write(cassette->fd, &block, sizeof(block)) < 0 ||
               write(cassette->fd, data, n) < 0)) ||
        write(cassette->fd, &end, sizeof(end)) < 0)
        abort();
}

/* True: it was done. */
static bool
trace(int (*verb)(int argc, char **argv), const char *a, const char *b,
      const char *c)
{
    const char *const args[] = {"trace", a, b, c, NULL};

    return fuzz_verb(verb, args) == TOOL_OK;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file now, before;
    bool is_shown;

    if (!before.path[0])
        write_cassette(&before, data, size);
    write_cassette(&now, data, size);
    is_shown = trace(trace_show, now.path, "--words", NULL);
    trace(trace_show, now.path, "--json", NULL);
    trace(trace_diff, now.path, before.path, NULL);
    trace(trace_replay, now.path, NULL, NULL);
    trace(trace_replay, now.path, "--against", before.path);
    write_cassette(&before, data, size);
    if (is_shown)
        fuzz_accept();
    return 0;
}
