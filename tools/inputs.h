/* Inputs of an expression, in all verbs: --in name=2x3:float32 is made up,
 * --in name=FILE[:TENSOR] is read. */
#ifndef BELL_TOOLS_INPUTS_H
#define BELL_TOOLS_INPUTS_H

#include <stdbool.h>

#include "base/status.h"
#include "tools/eval/eval_expr.h"

#define TOOL_INPUT_NAME 32

/* For a shape: random values (floats in [0, 1), integers 0..9), or any where
 * nothing is to run. Else what the file has. */
BELL_MUST_CHECK bell_status tool_read_input(struct bell_context *ctx,
                                            const char *text, bool has_values,
                                            struct bell_tensor **out_tensor);

/* The same of "name=..." `name` has TOOL_INPUT_NAME bytes, which *out_input
 * points to. */
BELL_MUST_CHECK bell_status tool_make_input(struct bell_context *ctx,
                                            const char *spec, bool has_values,
                                            char *name,
                                            struct eval_input *out_input);

#endif
