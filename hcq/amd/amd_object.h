/* Reads code objects: what a kernel needs, and an image of its sections to be
 * put into the card's memory.
 *
 * An object may come from a file or a bundle, so every field of it is taken
 * for hostile. What it does not do: look at machine code, allocate memory on a
 * card, compare the chip with a card's. It takes relocatable objects, as
 * LLVM's C interface makes them, and refuses what we cannot give: symbols from
 * outside, tables of offsets, relocations that "Objects" of
 * docs/hardware/amd-code.md does not list. It knows nothing of devices. No
 * state: any thread.
 *
 * src: docs/hardware/amd-code.md, "Compiling", "Objects", "Kernel descriptor"
 */
#ifndef BELL_HCQ_AMD_AMD_OBJECT_H
#define BELL_HCQ_AMD_AMD_OBJECT_H

#include <stdint.h>

#include "base/status.h"

/* The image's address is a multiple of this. */
#define AMD_OBJECT_ALIGN 4096u

/* A kernel of a code object, opened. Owned by who opened it; it borrows the
 * object's bytes and the name. */
struct amd_object {
    const char *name; /* for messages; borrowed */
    const uint8_t *data;
    uint64_t size_bytes;
    uint64_t *places; /* owned: offset of each section in the image */

    /* The code comes first in the image. Its size includes the bytes behind it
     * that the prefetcher reads: a multiple of 256. */
    uint64_t code_bytes;
    uint64_t image_bytes;       /* of all sections that are loaded */
    uint64_t entry_offset;      /* in the image: a multiple of 256 */
    uint64_t descriptor_offset; /* in the image: a multiple of 64 */
    uint32_t machine;           /* EF_AMDGPU_MACH of e_flags: 0x4c: gfx942 */

    /* The words of the kernel's descriptor, as they are there. */
    uint32_t rsrc1, rsrc2, rsrc3; /* COMPUTE_PGM_RSRC1 to 3 */
    uint32_t properties;          /* kernel_code_properties */
    uint32_t lds_bytes;           /* static, of a work-group */
    uint32_t scratch_bytes;       /* of a lane */
    uint32_t kernarg_bytes;
    uint32_t kernarg_preload;
    uint8_t descriptor[64]; /* all of it, relocated */

    uint32_t max_group; /* work-items that it was compiled for; 0: not said */
};

/* Reads an object's header, sections, symbols and relocations. `entry` is the
 * kernel's name, "foo" of the symbol "foo.kd"; NULL: of the only one.
 * BELL_E_INVALID: malformed, something it asks for is not there, no such
 * kernel (the message then has the names of those that are there). */
BELL_MUST_CHECK bell_status amd_object_open(const void *data,
                                            uint64_t size_bytes,
                                            const char *name, const char *entry,
                                            struct amd_object *out_object);
/* A zeroed struct is allowed. */
void amd_object_close(struct amd_object *object);

/* Writes image_bytes of the sections as they are at address `va`, a multiple
 * of AMD_OBJECT_ALIGN; `filler` stands around code. BELL_E_INVALID: an address
 * does not fit where a relocation puts it, or changes the descriptor; the
 * image is then undefined. */
BELL_MUST_CHECK bell_status amd_object_link(const struct amd_object *object,
                                            uint64_t va, uint32_t filler,
                                            uint8_t *image);

#endif
