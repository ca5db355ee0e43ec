/* Reads cubins: what a kernel needs, and an image of its module to be put
 * into the card's memory.
 *
 * A cubin may come from a file or a bundle, so every field of it is taken for
 * hostile. What it does not do: look at machine code, allocate memory on a
 * card, run constructors. It refuses what we cannot give: symbols from
 * outside, system calls, clusters, relocations that "Relocations" of
 * docs/hardware/nvidia-code.md does not list. It knows nothing of devices.
 *
 * src: docs/hardware/nvidia-code.md, "Cubin container",
 * "Sections of a cubin", "Attributes", "Relocations".
 */
#ifndef BELL_HCQ_NV_NV_CUBIN_H
#define BELL_HCQ_NV_NV_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define NV_CUBIN_PARAMS_MAX 128u
#define NV_CUBIN_BANKS      8u
/* The image's address is a multiple of this. */
#define NV_CUBIN_ALIGN 4096u

struct nv_cubin_part {
    uint32_t offset, size_bytes;
};

/* A kernel and its module. Owned by who opened it; it borrows the file's
 * bytes and the name. */
struct nv_cubin {
    const uint8_t *data;
    uint64_t data_bytes;
    const char *name; /* for messages */
    uint64_t *places; /* owned: offset of each section in the image */

    uint32_t sm; /* that the machine code is for: 90 */
    uint32_t n_regs, n_barriers;
    uint32_t stack_bytes;  /* of a thread, its callees included */
    uint32_t shared_bytes; /* static; of sm_90 and later with the reserve */
    uint32_t max_threads;  /* of a block; 0: not said */
    uint32_t local[3];     /* that a block must have; 0,0,0: any */
    uint32_t param_offset, param_bytes; /* in constant bank 0 */
    uint32_t n_params;
    struct nv_cubin_part params[NV_CUBIN_PARAMS_MAX]; /* from param_offset */
    struct nv_cubin_part banks[NV_CUBIN_BANKS]; /* in the image; size 0: none */
    uint64_t entry_offset;                      /* in the image */
    uint64_t image_bytes; /* code and data; the rest of the module is zero */
    uint64_t total_bytes;
};

/* Reads a cubin's header, attributes, symbols and relocations; `entry` is the
 * kernel's symbol. BELL_E_INVALID: malformed, no such kernel, or something it
 * asks for is not there; the message names `name` and the offset. */
BELL_MUST_CHECK bell_status nv_cubin_open(const void *data, size_t data_bytes,
                                          const char *name, const char *entry,
                                          struct nv_cubin *out_cubin);
void nv_cubin_close(struct nv_cubin *cubin);

/* Writes image_bytes of the module as it is at address `va`. */
BELL_MUST_CHECK bell_status nv_cubin_link(const struct nv_cubin *cubin,
                                          uint64_t va, uint8_t *image);

#endif
