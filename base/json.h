/* Writes one JSON document into memory, keys in the order given: indented for
 * people, or compact for programs. Running out of memory is sticky and told at
 * the end. One thread.
 *
 * Every JSON document is written here but for two that are streams of lines:
 * the oracle's calls (tools/fuzz/oracle_dump.c: numbers of more digits than a
 * double's, megabytes of hexadecimal digits) and the list beside a dump of a
 * submission (sim/amd/gpu/dump.c), which is written as memory is.
 */
#ifndef BELL_BASE_JSON_H
#define BELL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 32

struct json {
    char *text; /* owned: json_fini */
    size_t n_bytes, cap;
    unsigned depth;
    bool in_array[JSON_DEPTH_MAX]; /* by depth */
    bool has_items[JSON_DEPTH_MAX];
    bool is_fixed;   /* text is the caller's and does not grow */
    bool is_compact; /* no blanks; objects in arrays begin a line each */
    bool failed;
};

/* Starts the document, an object. */
void json_init(struct json *json);
/* The same in the caller's memory, allocating nothing. */
void json_init_fixed(struct json *json, char *buf, size_t size_bytes);
/* The same in as few bytes as can be; json_text adds no newline. */
void json_init_compact(struct json *json);
void json_fini(struct json *json);

/* Members. `key` is NULL in arrays. */
void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
/* Ends the innermost object or array that json_object or json_array began. */
void json_end(struct json *json);
/* Bytes that are not UTF-8 become U+FFFD; NULL is null. */
void json_str(struct json *json, const char *key, const char *value);
void json_int(struct json *json, const char *key, int64_t value);
void json_uint(struct json *json, const char *key, uint64_t value);
/* null where the value is not finite. */
void json_num(struct json *json, const char *key, double value);
/* null where the value is not above 0: a sensor that is not there. */
void json_positive(struct json *json, const char *key, double value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

/* Ends the document. Its text, with a final newline unless it is compact, owned
 * by `json`; NULL when out of memory. */
const char *json_text(struct json *json);

#endif
