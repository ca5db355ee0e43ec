/* Relocatable objects of AMD kernels in a made-up memory, for tests. */
#ifndef BELL_TESTS_UNIT_AMD_OBJECT_H
#define BELL_TESTS_UNIT_AMD_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/amd/isa/wave.h"

#define ARENA_VA 0x7f0000000000ull

/* Device memory that starts at ARENA_VA. Checks of the C library fail the
 * test where something is not as it has to be. */
struct arena_memory {
    unsigned char *bytes; /* owned */
    size_t size_bytes, used;
};

struct amd_object {
    unsigned char *file; /* owned */
    struct arena_memory *memory;
    uint64_t section_va[64];
};

void memory_init(struct arena_memory *m, size_t size_bytes);
void memory_fini(struct arena_memory *m);
/* Copies data (or zeros if NULL) to fresh memory; its address. */
uint64_t memory_put(struct arena_memory *m, const void *data,
                    size_t size_bytes);
void *memory_at(const struct arena_memory *m, uint64_t va);
/* For amd_launch. */
struct amd_memory memory_access(struct arena_memory *m);

void object_load(struct amd_object *o, struct arena_memory *m,
                 const char *path);
/* The same from memory, which is copied. */
void object_load_data(struct amd_object *o, struct arena_memory *m,
                      const void *data, size_t size_bytes);
void object_free(struct amd_object *o);
/* Address and size of a section's bytes; size 0 where there is none. */
uint64_t object_section(const struct amd_object *o, const char *name,
                        size_t *out_bytes);
/* Fills the registers of a launch from the kernel's descriptor; its code
 * properties. */
uint32_t object_kernel(const struct amd_object *o, const char *name,
                       struct amd_launch *launch);
/* Fills the user's registers as a kernel's code properties ask: its arguments
 * and, where that is how it gets any, scratch, which is put into memory. */
void object_user_data(struct amd_object *o, enum isa_gen gen,
                      uint32_t properties, uint64_t args_va,
                      struct amd_launch *launch);

#endif
