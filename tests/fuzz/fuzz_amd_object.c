/* The loader of code objects with hostile files: it loads or refuses with a
 * message, and never touches memory outside of the file or the image. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hcq/amd/amd_object.h"
#include "tests/fuzz/fuzz.h"

/* Larger images are only opened. */
#define IMAGE_MAX_BYTES (1u << 22)

static void
load(const struct amd_object *object)
{
    uint8_t *image;

    if (object->entry_offset >= object->code_bytes ||
        object->code_bytes > object->image_bytes ||
        object->descriptor_offset > object->image_bytes - 64 ||
        object->entry_offset % 256 || object->descriptor_offset % 64)
        abort();
    if (object->image_bytes > IMAGE_MAX_BYTES)
        return;
    image = malloc((size_t)object->image_bytes);
    if (!image)
        return;
    /* A value that a relocation cannot hold at this address is found here. */
    if (amd_object_link(object, 0x7f0000100000, 0xbf9f0000, image) == BELL_OK) {
        if (memcmp(image + object->descriptor_offset, object->descriptor, 64))
            abort();
        fuzz_accept();
    } else if (!bell_error_last()->message[0]) {
        abort();
    }
    free(image);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    /* A copy of exactly this size: the sanitizer then sees every access
     * past the end. */
    uint8_t *copy = malloc(size_bytes ? size_bytes : 1);
    struct amd_object object;

    if (!copy)
        return 0;
    memcpy(copy, data, size_bytes);
    bell_error_clear();
    if (amd_object_open(copy, size_bytes, "fuzz", NULL, &object) == BELL_OK) {
        load(&object);
        amd_object_close(&object);
    } else if (!bell_error_last()->message[0]) {
        abort();
    }
    free(copy);
    return 0;
}
