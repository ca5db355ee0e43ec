/* libdoorbell-sim.so: preloaded into a program by `doorbell sim`, it shows the
 * simulated cards where the kernel's files would be.
 *
 * Paths (paths.c): what lies below /dev/kfd, /dev/dri, /sys/class/kfd and the
 * like is looked up in a tree of ordinary files that `doorbell sim` has
 * written, so that reading, listing and resolving links are the kernel's work.
 *
 * Devices (preload.c): a device node that is opened is a file of that tree,
 * which carries a number, and a file of a simulated kernel (struct kio) in this
 * process, which gets ioctl and mmap. The machine is made at the first opening;
 * its cards run in threads of this process, and their memory is mapped into the
 * program like the real one.
 *
 * A child that is forked has its parent's numbers, but no cards behind them:
 * calls on them give EBADF, as KFD says of another process's file. What it
 * opens itself is a machine of its own.
 *
 * From `doorbell sim`: BELL_SIM_DEVICES ("AMD@sim:gfx1100;NV@sim:sm_90"),
 * BELL_SIM_TREE, BELL_SIM_FDS (the first number that is trapped), and
 * BELL_SIM_DEBUG: topics as BELL_DEBUG has them, or "quiet".
 */
#ifndef BELL_SIM_PRELOAD_PRELOAD_H
#define BELL_SIM_PRELOAD_PRELOAD_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

struct stat;

/* ---- devices (preload.c) ------------------------------------------------- */

/* Opens the node `path`, which the tree has as `file`. As open. */
int sim_preload_open(const char *path, const char *file, int flags);
/* The device number if the file is one of ours; 0: it is not. */
dev_t sim_preload_device(int fd);

/* ---- paths (paths.c) ---- */

/* Once, before anything else. `backends`: as BELL_SIM_DEVICES. */
void sim_paths_init(const char *tree, const char *devices);
/* Where the tree has `path`; NULL: it is not one of ours. *out_path is the path
 * as the program knows it, a part of `buf`. */
const char *sim_paths_find(int dir, const char *path, char buf[PATH_MAX],
                           const char **out_path);
/* Whether a container's rules forbid a file of the tree: EPERM. */
bool sim_paths_are_denied(const char *file);
/* The number of a device node; 0: it is none. */
dev_t sim_paths_device(const char *path);

#endif
