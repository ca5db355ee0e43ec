/* Bundles with the right checksums, as a person who means harm makes them. */
#ifndef BELL_TESTS_FUZZ_FUZZ_SEAL_H
#define BELL_TESTS_FUZZ_FUZZ_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "hcq/hcq_bundle_file.h"

static inline void
fuzz_seal(uint8_t *data, size_t size_bytes)
{
    struct bundle_header *h = (void *)data;
    struct bundle_header_2 *with_ir = (void *)data;
    size_t header_bytes = sizeof(*h);
    uint32_t i, n_sections = BUNDLE_SECTION_COUNT;

    if (size_bytes < sizeof(*with_ir))
        return;
    h->file_bytes = size_bytes;
    if (h->version >= BUNDLE_WITH_IR) {
        n_sections++;
        header_bytes = sizeof(*with_ir);
    }
    for (i = 0; i < n_sections; i++) {
        struct bundle_section *s =
            i == BUNDLE_IR ? &with_ir->ir : &h->sections[i];
        if (s->offset <= size_bytes && s->size_bytes <= size_bytes - s->offset)
            s->checksum = bundle_checksum(data + s->offset, s->size_bytes);
    }
    h->checksum = 0;
    h->checksum = bundle_checksum(h, header_bytes);
}

#endif
