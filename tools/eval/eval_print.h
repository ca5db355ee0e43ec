/* How `doorbell eval` shows an array: as text, as JSON. */
#ifndef BELL_TOOLS_EVAL_EVAL_PRINT_H
#define BELL_TOOLS_EVAL_EVAL_PRINT_H

#include <stdio.h>

#include "base/status.h"
#include "tensor/files/npy.h"

struct json;

/* Prints the array in brackets, numbers with as many digits (at most 8 after
 * the point) as tell them apart, in columns, rows folded at 75 characters;
 * beyond 1000 elements only the first and last three of each axis. */
BELL_MUST_CHECK bell_status eval_print(FILE *out,
                                       const struct host_array *array);

/* The elements as nested JSON arrays (a single value where the shape is ());
 * NaN and infinities are null. */
void eval_print_json(struct json *json, const char *key,
                     const struct host_array *array);

#endif
