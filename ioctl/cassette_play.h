/* Playing a cassette: making its calls again, on any form of the kernel.
 *
 * Arguments are rebuilt in memory of our own; files, mappings, and what the
 * kernel gave a number or name (objects, cards, UUIDs) are translated to those
 * of now; and each result and each answered field compared with the
 * recording. So a recording of a real card can be run through a simulated
 * kernel, or through its own replay. Only what the cassette holds can be
 * repeated: memory written between calls is there for submitted regions
 * alone, and what nobody knew a pointer to lead to reads as zeros.
 */
#ifndef BELL_IOCTL_CASSETTE_PLAY_H
#define BELL_IOCTL_CASSETTE_PLAY_H

#include <stdint.h>

#include "base/status.h"

struct cas_reader;
struct kio;

struct cas_play_report {
    uint32_t n_calls; /* made */
    uint32_t n_differ;
};

/* Told once per difference, with text that names the call and field. */
typedef void cas_play_fn(void *user, uint32_t record, const char *text);

/* BELL_OK also where answers differ: the report counts them. Failure means
 * that the cassette cannot be played (no memory). */
BELL_MUST_CHECK bell_status cas_play(const struct cas_reader *reader,
                                     struct kio *kio, cas_play_fn *fn,
                                     void *user,
                                     struct cas_play_report *out_report);

#endif
