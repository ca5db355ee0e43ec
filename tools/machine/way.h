/* Inside of tools/machine: whether the way from this process to a GPU is
 * open. */
#ifndef BELL_TOOLS_MACHINE_WAY_H
#define BELL_TOOLS_MACHINE_WAY_H

#include "tools/machine/machine.h"

/* Sets backend, number, nodes, why_not and fix of all GPUs. */
void machine_look_at_ways(const char *root, struct machine *machine);

#endif
