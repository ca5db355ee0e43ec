/* What is in a bundle: targets, inputs, outputs, state, weights, symbols. */
#ifndef BELL_TOOLS_RUN_LIST_H
#define BELL_TOOLS_RUN_LIST_H

#include <stdbool.h>

struct bundle_check;

/* Prints it, as text or as one document; a file that is none, or that `check`
 * refuses, is told. Returns an exit code. */
int run_list(const char *path, const struct bundle_check *check, bool as_json);

#endif
