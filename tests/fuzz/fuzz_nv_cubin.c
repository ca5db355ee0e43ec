/* The cubin loader with hostile files: it loads or refuses with a message,
 * and never touches memory outside of the file or the image. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hcq/nv/nv_cubin.h"
#include "tests/fuzz/fuzz.h"

static void
load(const struct nv_cubin *cubin)
{
    uint8_t *image = malloc((size_t)cubin->image_bytes);
    uint32_t i;

    if (!image)
        return;
    /* A value that a relocation cannot hold at this address is found here. */
    if (nv_cubin_link(cubin, 0x1000400000, image) != BELL_OK &&
        !bell_error_last()->message[0])
        abort();
    if (cubin->entry_offset >= cubin->image_bytes ||
        cubin->image_bytes > cubin->total_bytes)
        abort();
    for (i = 0; i < NV_CUBIN_BANKS; i++) {
        if ((uint64_t)cubin->banks[i].offset + cubin->banks[i].size_bytes >
            cubin->image_bytes)
            abort();
    }
    fuzz_accept();
    free(image);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    /* A copy of exactly this size: the sanitizer then sees every access
     * past the end. */
    uint8_t *copy = malloc(size_bytes ? size_bytes : 1);
    struct nv_cubin cubin;

    if (!copy)
        return 0;
    memcpy(copy, data, size_bytes);
    if (nv_cubin_open(copy, size_bytes, "fuzz", "kernel", &cubin) == BELL_OK) {
        load(&cubin);
        nv_cubin_close(&cubin);
    } else if (!bell_error_last()->message[0]) {
        abort();
    }
    free(copy);
    return 0;
}
