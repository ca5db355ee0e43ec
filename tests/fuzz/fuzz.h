/* What targets share: files in memory, the program's verbs in silence, and
 * whether an input got past what it begins with. One thread. */
#ifndef BELL_TESTS_FUZZ_FUZZ_H
#define BELL_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input was read to its end: it is what the target is about. Each seed has
 * to get here (fuzz_main.c). */
void fuzz_accept(void);
extern unsigned fuzz_n_accepted;

/* A file in memory, and its name; begins as 0. */
struct fuzz_file {
    int fd;
    char path[32];
};

/* Its content from now on. Ends the process where that fails. */
void fuzz_file_write(struct fuzz_file *file, const void *data, size_t size);

/* A verb of the program with up to 6 arguments, NULL at the end, that prints
 * nothing; its exit code. */
int fuzz_verb(int (*verb)(int argc, char **argv), const char *const *args);

#endif
