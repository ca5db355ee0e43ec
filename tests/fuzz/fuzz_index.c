/* libFuzzer target: files that name others. The input is several files: a line
 * "== NAME" begins each, and the first is opened. They lie in a folder of their
 * own, beside a FIFO, a folder and links (fixtures below) that they may name,
 * too. Whatever is in them, opening ends: in an error, or in tensors that can
 * be read to their last byte. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "doorbell/files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_tensors.h"

#define FILES_MAX  8
#define NAME_BYTES 24

static const char mark[] = "\n== ";

/* Names that no file of an input takes. */
static const char *const fixtures[] = {"fifo", "folder", "zero", "loop",
                                       "link"};

static char folder[64];

struct part {
    char name[NAME_BYTES + 1];
    const uint8_t *data;
    size_t size;
};

static const char *
path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%.48s", folder, name);
    return path;
}

static void
remove_folder(void)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(fixtures); i++)
        remove(path_of(fixtures[i]));
    rmdir(folder);
}

static void
make_folder(void)
{
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    snprintf(folder, sizeof(folder), "%s/bell-fuzz-XXXXXX", where);
    if (!mkdtemp(folder) || mkfifo(path_of("fifo"), 0600) ||
        mkdir(path_of("folder"), 0700) ||
        symlink("/dev/zero", path_of("zero")) ||
        symlink("loop", path_of("loop")) || symlink("b", path_of("link")))
        abort();
    atexit(remove_folder);
}

/* A part at `data`, behind its mark; bytes of it. */
static size_t
take_part(const uint8_t *data, size_t size, struct part *out)
{
    const uint8_t *line = memchr(data, '\n', size), *end;
    size_t n_name = line ? (size_t)(line - data) : size, n;

    n = n_name < NAME_BYTES ? n_name : NAME_BYTES;
    memcpy(out->name, data, n);
    out->name[n] = '\0';
    if (!line) {
        out->data = data + size;
        out->size = 0;
        return size;
    }
    out->data = line + 1;
    end = memmem(line, size - n_name, mark, sizeof(mark) - 1);
    while (end && end < out->data) /* an empty file */
        end = NULL;
    out->size = (size_t)((end ? end : data + size) - out->data);
    return n_name + 1 + out->size + (end ? sizeof(mark) - 1 : 0);
}

/* False: it is not a name in the folder, or taken. */
static bool
write_part(const struct part *part)
{
    int fd;

    if (!part->name[0] || strchr(part->name, '/'))
        return false;
    fd = open(path_of(part->name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
              0600);
    if (fd < 0)
        return false;
    if (write(fd, part->data, part->size) != (ssize_t)part->size)
        abort();
    close(fd);
    return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bell_context *ctx;
    struct part parts[FILES_MAX];
    bool is_there[FILES_MAX];
    size_t at = sizeof(mark) - 2, n = 0, i;

    if (!ctx && bell_context_create("CPU", &ctx) != BELL_OK)
        abort();
    if (!folder[0])
        make_folder();
    if (size < at || memcmp(data, mark + 1, at) != 0)
        return 0;
    for (; n < FILES_MAX && at < size; n++) {
        at += take_part(data + at, size - at, &parts[n]);
        is_there[n] = write_part(&parts[n]);
    }
    if (n && is_there[0] && fuzz_tensors_check(ctx, path_of(parts[0].name)))
        fuzz_accept();
    for (i = 0; i < n; i++) {
        if (is_there[i])
            remove(path_of(parts[i].name));
    }
    return 0;
}
