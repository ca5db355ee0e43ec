/* What the notes of a code object say of its kernels beside their descriptors:
 * a map of MessagePack in a note NT_AMDGPU_METADATA.
 *
 * It may come from a file or a bundle, so every byte is taken for hostile.
 * What it does not do: read what a launch does not need (arguments, names,
 * numbers of registers), nor kinds of values that no such map has. No state:
 * any thread.
 *
 * src: docs/hardware/amd-code.md, "Objects"; the keys are those of LLVM 19's
 * objects
 */
#ifndef BELL_HCQ_AMD_AMD_META_H
#define BELL_HCQ_AMD_AMD_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The metadata of one kernel. A value that is missing, or is not of 32 bits, is
 * AMD_META_NONE. */
struct amd_meta {
    uint32_t max_group; /* .max_flat_workgroup_size: work-items */
    uint32_t kernarg_bytes, lds_bytes, scratch_bytes;
    uint32_t wave_lanes;
};

#define AMD_META_NONE UINT32_MAX

/* Looks through the notes of a section for the kernel whose descriptor is the
 * symbol `symbol`, of n bytes. Without a note or without the kernel all values
 * are AMD_META_NONE. False: a note or its map is malformed, at *out_at bytes
 * from the section's start. */
bool amd_meta_read(const uint8_t *notes, uint64_t size_bytes,
                   const char *symbol, size_t n, struct amd_meta *out_meta,
                   uint64_t *out_at);

#endif
