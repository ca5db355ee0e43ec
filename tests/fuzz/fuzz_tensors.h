/* Every tensor of a file: it can be read to its last byte, or is an
 * error. */
#ifndef BELL_TESTS_FUZZ_FUZZ_TENSORS_H
#define BELL_TESTS_FUZZ_FUZZ_TENSORS_H

#include <stdbool.h>
#include <stddef.h>

struct bell_context;

/* Reads every byte. */
void fuzz_touch(const void *data, size_t size_bytes);

/* False: it is not opened; a message says why. */
bool fuzz_tensors_check(struct bell_context *ctx, const char *path);

#endif
