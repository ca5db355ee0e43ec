/* IDX files, the format of the MNIST images: a magic number with dtype and
 * rank, big-endian sizes, then the elements. Plain or gzip-compressed (which
 * needs zlib).
 *
 * Everything is checked: magic, dtype, the sizes' product, that there are
 * exactly as many bytes as the header promises, and gzip's checksum. A
 * compressed file that unpacks to more is stopped there.
 */
#ifndef BELL_TENSOR_FILES_IDX_H
#define BELL_TENSOR_FILES_IDX_H

#include "base/file.h"
#include "tensor/files/array.h"

/* dtype and shape; the elements begin at *out_start. */
BELL_MUST_CHECK bell_status idx_parse_header(const uint8_t *bytes,
                                             size_t n_bytes,
                                             struct host_array *array,
                                             size_t *out_start);
/* Whether these are all of the elements. */
BELL_MUST_CHECK bell_status idx_check_size(const struct host_array *array,
                                           size_t start, size_t n_bytes);
/* Whether it is compressed by gzip. */
bool idx_is_packed(const uint8_t *bytes, size_t n_bytes);
/* What comes out then, plain. */
BELL_MUST_CHECK bell_status idx_unpack(const uint8_t *bytes, size_t n_bytes,
                                       struct file_bytes *out_file);

/* From memory, compressed or not. BELL_E_IO with a message if malformed. */
BELL_MUST_CHECK bell_status idx_parse(const void *bytes, size_t size_bytes,
                                      struct host_array *out_array);
/* From a file; the message names it. */
BELL_MUST_CHECK bell_status idx_read(const char *path,
                                     struct host_array *out_array);

#endif
