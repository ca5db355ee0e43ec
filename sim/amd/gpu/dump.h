/* The dump form of submissions: folders with a card's memory before and after
 * what a queue ran, for tools outside. Format: docs/reference/cassettes.md.
 *
 * Three parts. A struct amd_dump is a directory, and the turns that the queues
 * of a machine take: while one has it, no other changes memory. A struct
 * amd_dump_map lists what is mapped in one address space. A struct
 * amd_dump_folder belongs to one queue and writes one folder after another:
 * image.bin when it begins, then it is told of every byte that the queue
 * stores, after.bin and image.json when it ends. after.bin therefore holds what
 * the queue did and nothing that others stored meanwhile.
 *
 * Threads: amd_dump and amd_dump_map may be used by any; a folder by its
 * queue's thread. Errors name the file and the system's reason.
 */
#ifndef BELL_SIM_AMD_GPU_DUMP_H
#define BELL_SIM_AMD_GPU_DUMP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct amd_dump;
struct amd_dump_map;
struct amd_dump_folder;

/* Makes the directory if it is not there; what is above it has to be.
 * BELL_E_INVALID where it cannot be made or written. Folders that are there
 * already stay: the numbers go on behind them. */
BELL_MUST_CHECK bell_status amd_dump_create(const char *dir, const char *gfx,
                                            struct amd_dump **out_dump);
void amd_dump_destroy(struct amd_dump *dump);

/* Waits for the turn; false, without it, once *stop is not 0. */
bool amd_dump_take(struct amd_dump *dump, const _Atomic uint32_t *stop);
void amd_dump_give(struct amd_dump *dump);

/* ---- what is mapped ------------------------------------------------------ */

BELL_MUST_CHECK bell_status amd_dump_map_create(struct amd_dump_map **out_map);
void amd_dump_map_destroy(struct amd_dump_map *map);
/* `host` stays readable until it is removed. A file that the memory is of
 * (from its first byte on) tells what was never touched; -1: none. It is not
 * owned. */
BELL_MUST_CHECK bell_status amd_dump_map_add(struct amd_dump_map *map,
                                             uint64_t va, const void *host,
                                             uint64_t size_bytes, bool is_vram,
                                             int file);
/* What begins in the range; waits for an image that is being written. */
void amd_dump_map_remove(struct amd_dump_map *map, uint64_t va,
                         uint64_t size_bytes);

/* ---- folders ------------------------------------------------------------- */

BELL_MUST_CHECK bell_status
amd_dump_folder_create(struct amd_dump *dump, struct amd_dump_map *map,
                       struct amd_dump_folder **out_folder);
/* A folder that has begun and not ended stays without image.json. */
void amd_dump_folder_destroy(struct amd_dump_folder *folder);

/* Writes image.bin. */
BELL_MUST_CHECK bell_status
amd_dump_folder_begin(struct amd_dump_folder *folder);
/* Between begin and end. */
bool amd_dump_folder_is_open(const struct amd_dump_folder *folder);
/* Bytes that the queue stored; those in no segment are left out. */
BELL_MUST_CHECK bell_status
amd_dump_folder_store(struct amd_dump_folder *folder, uint64_t va,
                      const void *data, uint64_t n_bytes);
/* Bytes that another run may have otherwise: times, pointers of the queue. */
BELL_MUST_CHECK bell_status amd_dump_folder_ignore(
    struct amd_dump_folder *folder, uint64_t va, uint64_t n_bytes);

/* What was run. Pointers are counts that never wrap, in the queue's units. */
struct amd_dump_run {
    const char *kind; /* "pm4", "sdma", "aql" */
    uint64_t base, size_bytes, rptr, wptr;
    bool waited;       /* for what others stored, in the middle of it */
    const char *fault; /* NULL: none */
};

/* Writes after.bin and, last, image.json. The folder is closed also where
 * that fails. */
BELL_MUST_CHECK bell_status amd_dump_folder_end(struct amd_dump_folder *folder,
                                                const struct amd_dump_run *run);

#endif
