/* libFuzzer target: cassettes. The input is what is in a cassette's blocks; a
 * head, and the hash over it, are put around it. `doorbell trace` shows it,
 * compares it with the one before, and replays it on itself and on the one
 * before: whatever is in it, nothing is touched that is not its own.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/map.h"
#include "ioctl/cassette.h"
#include "ioctl/cassette_format.h"
#include "tools/trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file in memory, and its name. */
struct place {
    int fd;
    char path[32];
};

static void
make_place(struct place *place)
{
    place->fd = memfd_create("cassette", MFD_CLOEXEC);
    if (place->fd < 0)
        abort();
    snprintf(place->path, sizeof(place->path), "/proc/self/fd/%d", place->fd);
}

static void
write_cassette(const struct place *place, const uint8_t *data, size_t size)
{
    static const char identity[] = "system=Linux\nnvidia=595.45\n";
    struct cas_file_head file = {.version = CAS_VERSION,
                                 .identity_bytes = sizeof(identity) - 1};
    struct cas_block_head block = {.magic = CAS_BLOCK_MAGIC}, end = block;
    size_t n = size & ~(size_t)7;

    memcpy(file.magic, CAS_MAGIC, sizeof(file.magic));
    block.raw_bytes = block.stored_bytes = (uint32_t)n;
    block.hash = (uint32_t)hash_bytes(data, n, 0);
    if (ftruncate(place->fd, 0) != 0 || lseek(place->fd, 0, SEEK_SET) != 0 ||
        write(place->fd, &file, sizeof(file)) < 0 ||
        write(place->fd, identity, sizeof(identity) - 1) < 0 ||
        (n && (write(place->fd, &block, sizeof(block)) < 0 ||
               write(place->fd, data, n) < 0)) ||
        write(place->fd, &end, sizeof(end)) < 0)
        abort();
}

/* One verb with one to three arguments, in silence. */
static void
trace(int (*verb)(int argc, char **argv), const char *a, const char *b,
      const char *c)
{
    static FILE *nothing;
    FILE *was_out = stdout, *was_err = stderr;
    const char *args[5] = {"trace", a, b, c, NULL};
    int argc = 1;

    while (args[argc])
        argc++;
    if (!nothing)
        nothing = fopen("/dev/null", "w");
    if (!nothing)
        abort();
    stdout = stderr = nothing;
    (void)verb(argc, (char **)(uintptr_t)args);
    stdout = was_out;
    stderr = was_err;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct place now, before;

    if (!now.path[0]) {
        make_place(&now);
        make_place(&before);
        write_cassette(&before, data, size);
    }
    write_cassette(&now, data, size);
    trace(trace_show, now.path, "--words", NULL);
    trace(trace_show, now.path, "--json", NULL);
    trace(trace_diff, now.path, before.path, NULL);
    trace(trace_replay, now.path, NULL, NULL);
    trace(trace_replay, now.path, "--against", before.path);
    write_cassette(&before, data, size);
    return 0;
}
