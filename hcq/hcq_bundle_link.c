/* Bundles: kernels for processors are linked where they lie in the file, so
 * that its pages can be executed without a copy. They stay relocatable objects:
 * whoever copies them makes the relocations again. */
#include "hcq/hcq_bundle_file.h"

#if BELL_HAVE_CPU
#include "hcq/cpu/cpu_object.h"
#endif

void
bundle_link_objects(uint8_t *file, const struct bundle_header *header)
{
#if BELL_HAVE_CPU
    const struct bundle_section *rows = &header->sections[BUNDLE_KERNELS];
    uint64_t objects = header->sections[BUNDLE_OBJECTS].offset;
    const struct bundle_kernel *k = (const void *)(file + rows->offset);
    uint64_t n = rows->size_bytes / sizeof(*k), i;

    for (i = 0; i < n; i++) {
        uint64_t at = objects + k[i].object_offset;

        (void)cpu_object_prelink(file + at, (size_t)k[i].object_bytes, at);
    }
#else
    (void)file, (void)header;
#endif
}
