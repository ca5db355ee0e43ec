/* Who is who in a cassette: the objects that kernel drivers made and let go,
 * and the memory that was mapped, from the calls that did it.
 */
#ifndef BELL_TOOLS_TRACE_TRACE_STORY_H
#define BELL_TOOLS_TRACE_TRACE_STORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct cas_reader;
struct json;

#define TRACE_NEVER UINT32_MAX

struct trace_object {
    const char *what;     /* of the class, or of the call; static */
    uint64_t id, parent;  /* as the kernel names them; parent 0: none */
    uint64_t bytes, addr; /* 0: the call that makes it tells none */
    uint32_t made, gone;  /* records; TRACE_NEVER: it stays */
    size_t parent_at;     /* 1 + index of the parent; 0: not seen */
};

struct trace_mapping {
    const char *path; /* in the cassette, of path_bytes; NULL: of no file */
    uint32_t path_bytes;
    uint64_t addr, bytes;
    uint32_t made, gone;
};

/* Owned, but for what is in the cassette. */
struct trace_story {
    struct trace_object *objects;
    struct trace_mapping *mappings;
    size_t n_objects, cap_objects, n_mappings, cap_mappings;
};

/* *out_story is empty after a failure. */
BELL_MUST_CHECK bell_status trace_story_read(const struct cas_reader *reader,
                                             uint32_t branch,
                                             struct trace_story *out_story);
void trace_story_free(struct trace_story *story);
/* As lines, and as the members "objects" and "mappings". */
void trace_story_print(const struct trace_story *story);
void trace_story_put(const struct trace_story *story, struct json *json);

#endif
