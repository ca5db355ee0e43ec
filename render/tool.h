/* Other programs that make or print machine code: found, run on files in a
 * temporary folder, what they print kept. No state; any threads. */
#ifndef BELL_RENDER_TOOL_H
#define BELL_RENDER_TOOL_H

#include <stdbool.h>

#include "render/render.h"

/* Whether there is a program `name` in the folder, or, where folder_len is 0,
 * of that path. */
bool tool_try_path(const char *folder, int folder_len, const char *name,
                   char *buf, size_t size_bytes);
/* Looks in $PATH's folders; privileged programs have none. */
bool tool_find_in_path(const char *name, char *buf, size_t size_bytes);

/* A run's temporary folder and what lies in it. */
struct tool_run {
    char folder[256];
    char input[300], output[300], messages[300];
};

/* Makes the folder; files in it are named so. */
BELL_MUST_CHECK bell_status tool_begin(struct tool_run *r, const char *input,
                                       const char *output);
/* Removes it. */
void tool_end(const struct tool_run *r);
BELL_MUST_CHECK bell_status tool_write(const char *path, const void *data,
                                       size_t size_bytes);
/* The run's output (render_binary_fini), a `what`. */
BELL_MUST_CHECK bell_status tool_read_output(const struct tool_run *r,
                                             const char *what,
                                             struct render_binary *out);
/* Runs argv, which has three words at least, to its end; *out is what it
 * printed (render_binary_fini), without the last newline, zero terminated.
 * BELL_E_COMPILE: it failed, with the beginning of that. */
BELL_MUST_CHECK bell_status tool_execute(char *const argv[],
                                         const struct tool_run *r,
                                         struct render_binary *out);

#endif
