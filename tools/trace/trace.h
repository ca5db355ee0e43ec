/* The parts of `doorbell trace`. Each takes the arguments after its name and
 * returns an exit code.
 */
#ifndef BELL_TOOLS_TRACE_TRACE_H
#define BELL_TOOLS_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcq/decode/decode_amd.h"
#include "hcq/decode/decode_nv.h"

#define TRACE_LINE_BYTES 2048

struct cas_reader;
struct cas_record;
struct kio_capture;

int trace_record(int argc, char **argv);
int trace_show(int argc, char **argv);
int trace_diff(int argc, char **argv);
int trace_replay(int argc, char **argv);

/* The driver branch that a cassette's identity names, the newest if none. */
uint32_t trace_branch(const struct cas_reader *reader);

/* What a record says, in one line: "ioctl NV_ESC_RM_ALLOC(...) = 0". Cut to
 * fit. */
void trace_format(const struct cas_record *record, uint32_t branch, char *buf,
                  size_t buf_bytes);

/* The recorded argument as a capture, borrowing the record's memory; after:
 * as it was after the call. */
void trace_capture(const struct cas_record *record, uint32_t branch, bool after,
                   struct kio_capture *capture);
/* "ring", of enum kio_region_kind; never NULL. */
const char *trace_region_name(uint32_t kind);

/* Says on stderr that the cassette's end is missing, where it is. */
void trace_tell_truncated(const char *path, const struct cas_reader *reader);

/* A queue of KFD's that was made, by its ring. */
struct trace_queue {
    uint64_t ring_va, ring_bytes;
    uint32_t type; /* KFD's */
};

/* The last so many are known. */
#define TRACE_QUEUES 64

/* Decodes submissions, record after record of one cassette. */
struct trace_decoder {
    uint32_t branch;
    unsigned n_unknown; /* words without a name, so far */
    struct decode_nv nv;
    struct decode_amd amd; /* chip: NULL until one is seen */
    uint32_t adreno_id;    /* of the chip; 0 until one is seen */
    struct trace_queue queues[TRACE_QUEUES];
    uint32_t n_queues;
};

/* `line` gets each line of text. */
void trace_decoder_init(struct trace_decoder *d, uint32_t branch,
                        regs_line_fn *line, void *user);
/* Where lines go from here on. */
void trace_decoder_say(struct trace_decoder *d, regs_line_fn *line);
/* The newest queue of KFD's whose ring is among what was submitted; NULL: none
 * is, or it is not an AMD device. */
const struct trace_queue *trace_queue_of(const struct trace_decoder *d,
                                         const struct cas_record *record);
/* Every record in order: objects that are made say which classes there are,
 * queues what their rings hold. Ring entries, pushbuffers and launch
 * descriptors of doorbells and samples become lines. */
void trace_decode(struct trace_decoder *d, const struct cas_record *record);

#endif
