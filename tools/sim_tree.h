/* The files of a simulated machine, written out for programs that have no
 * struct kio: sysfs and procfs files with what the simulated kernel says, links
 * and folders as sysfs has them, and an empty file for each device node. */
#ifndef BELL_TOOLS_SIM_TREE_H
#define BELL_TOOLS_SIM_TREE_H

#include "base/status.h"

/* Writes what the machine of `interface` ("sim:gfx1100") has below `root`, a
 * folder that is there. */
BELL_MUST_CHECK bell_status sim_tree_write(const char *root,
                                           const char *backend,
                                           const char *interface);

/* Removes the folder with all in it. */
void sim_tree_remove(const char *root);

#endif
