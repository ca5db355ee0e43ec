/* What is in a bundle: targets, inputs, outputs, state, weights, symbols. */
#ifndef BELL_TOOLS_RUN_LIST_H
#define BELL_TOOLS_RUN_LIST_H

#include <stdbool.h>

/* Prints it, as text or as one document; a file that is none is told. Returns
 * an exit code. */
int run_list(const char *path, bool as_json);

#endif
