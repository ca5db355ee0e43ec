/* `doorbell run MODEL.onnx`. */
#ifndef BELL_TOOLS_ONNX_ONNX_H
#define BELL_TOOLS_ONNX_ONNX_H

#include <stdbool.h>

#include "tools/tools.h"

/* Options of `run`, as they were given. */
struct onnx_run_options {
    const char *path, *device, *save; /* save: a bundle; NULL: run it */
    const struct tool_list *in, *out, *targets;
    int64_t times;
    bool json;
};

/* Whether the path ends in ".onnx". */
bool onnx_is_model(const char *path);
/* The verb's exit code. */
int onnx_run(const struct onnx_run_options *options);

#endif
