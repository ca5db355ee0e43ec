/* Text of what a dump of a submission holds (docs/reference/cassettes.md): the
 * ring from where the card began, and the indirect buffers that it points to.
 * */
#ifndef BELL_TOOLS_DECODE_DECODE_DUMP_H
#define BELL_TOOLS_DECODE_DECODE_DUMP_H

#include "hcq/regs.h"

/* A folder with an image.json, or one with numbered folders that have one, in
 * their order. BELL_E_IO: it is not such a folder; BELL_E_UNSUPPORTED: built
 * without cJSON. */
BELL_MUST_CHECK bell_status decode_dump(const char *path, regs_line_fn *line,
                                        void *user, size_t *out_words,
                                        unsigned *out_unknown);

#endif
