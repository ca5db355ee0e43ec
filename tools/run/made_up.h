/* Random values of an input that is given as a shape. */
#ifndef BELL_TOOLS_RUN_MADE_UP_H
#define BELL_TOOLS_RUN_MADE_UP_H

#include "base/status.h"
#include "tensor/files/array.h"

/* Gives an array of a dtype, a shape and a size (host_array_size) random
 * values: floats in [0, 1), integers 0..9, bools; the same ones in every
 * process. host_array_fini frees them. BELL_E_NO_MEMORY. */
BELL_MUST_CHECK bell_status made_up_fill(struct host_array *array);

#endif
