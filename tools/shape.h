/* Shapes as text, "2x3:float32": what stands in place of a file's name behind
 * --in name=, in all verbs. Needs nothing of the tensors: doorbell-run has
 * it. */
#ifndef BELL_TOOLS_SHAPE_H
#define BELL_TOOLS_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "doorbell/tensor.h"

/* Whether the text is a shape: "2x3", "2x3:float32", ":int8" of rank 0. A file
 * of such a name is "./2x3". */
bool tool_is_shape(const char *text);

/* Its sizes, outermost first, BELL_MAX_RANK at most, and its dtype, float32
 * where it names none. */
BELL_MUST_CHECK bell_status tool_parse_shape(const char *text, int64_t *shape,
                                             uint32_t *out_ndim,
                                             enum bell_dtype *out_dtype);

/* Checks a text that is not a shape: BELL_E_INVALID if it begins like one and
 * no file has that name. */
BELL_MUST_CHECK bell_status tool_check_file(const char *text);

#endif
