/* What targets share. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARGS_MAX 8

unsigned fuzz_n_accepted;

void
fuzz_accept(void)
{
    fuzz_n_accepted++;
}

void
fuzz_file_write(struct fuzz_file *file, const void *data, size_t size)
{
    if (!file->path[0]) {
        file->fd = memfd_create("input", MFD_CLOEXEC);
        if (file->fd < 0)
            abort();
        snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
    }
    if (ftruncate(file->fd, 0) != 0 ||
        pwrite(file->fd, data, size, 0) != (ssize_t)size)
        abort();
}

int
fuzz_verb(int (*verb)(int argc, char **argv), const char *const *args)
{
    static FILE *nothing;
    FILE *was_out = stdout, *was_err = stderr;
    const char *copy[ARGS_MAX] = {NULL};
    int argc = 0, code;

    for (; args[argc]; argc++) {
        if (argc == ARGS_MAX - 1)
            abort();
        copy[argc] = args[argc];
    }
    if (!nothing)
        nothing = fopen("/dev/null", "w");
    if (!nothing)
        abort();
    stdout = stderr = nothing;
    code = verb(argc, (char **)(uintptr_t)copy);
    stdout = was_out;
    stderr = was_err;
    return code;
}
