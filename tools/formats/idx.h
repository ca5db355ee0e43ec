/* IDX files, the format of the MNIST images: a magic number with dtype and
 * rank, big-endian sizes, then the elements. Plain or gzip-compressed (which
 * needs zlib).
 *
 * Everything is checked: magic, dtype, the sizes' product, that there are
 * exactly as many bytes as the header promises, and gzip's checksum. A
 * compressed file that unpacks to more is stopped there.
 */
#ifndef BELL_TOOLS_FORMATS_IDX_H
#define BELL_TOOLS_FORMATS_IDX_H

#include "tools/formats/array.h"

/* From memory, compressed or not. BELL_E_IO with a message if malformed. */
BELL_MUST_CHECK bell_status idx_parse(const void *bytes, size_t size_bytes,
                                      struct host_array *out_array);
/* From a file; the message names it. */
BELL_MUST_CHECK bell_status idx_read(const char *path,
                                     struct host_array *out_array);

#endif
