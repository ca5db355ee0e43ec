/* The writer of json.h. */
#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

static void
put_bytes(struct json *json, const char *text, size_t n_bytes)
{
    if (json->failed)
        return;
    if (json->n_bytes + n_bytes + 1 > json->cap &&
        (json->is_fixed || host_grow((void **)&json->text, &json->cap,
                                     json->n_bytes + n_bytes + 1, 1) != 0)) {
        json->failed = true;
        return;
    }
    memcpy(json->text + json->n_bytes, text, n_bytes);
    json->n_bytes += n_bytes;
    json->text[json->n_bytes] = '\0';
}

static void
put_text(struct json *json, const char *text)
{
    put_bytes(json, text, strlen(text));
}

static void
put_quoted(struct json *json, const char *text)
{
    char escape[8];
    size_t n = 1;
    bool ok;

    put_text(json, "\"");
    for (; *text; text += n) {
        unsigned char c = (unsigned char)*text;
        n = text_character(text, SIZE_MAX, &ok);
        if (c == '"' || c == '\\') {
            snprintf(escape, sizeof(escape), "\\%c", c);
            put_text(json, escape);
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(escape, sizeof(escape), "\\u%04x", c);
            put_text(json, escape);
        } else if (ok && c == 0xc2 && (unsigned char)text[1] < 0xa0) {
            snprintf(escape, sizeof(escape), "\\u%04x",
                     (unsigned char)text[1]); /* C1 */
            put_text(json, escape);
        } else {
            put_bytes(json, ok ? text : "\xef\xbf\xbd", ok ? n : 3);
        }
    }
    put_text(json, "\"");
}

static void
put_newline(struct json *json)
{
    unsigned i;

    if (json->is_compact)
        return;
    put_text(json, "\n");
    for (i = 0; i < json->depth; i++)
        put_text(json, "  ");
}

/* What stands before a member's value. */
static void
begin_member(struct json *json, const char *key)
{
    unsigned level = json->depth - 1;

    assert(json->depth && json->in_array[level] == !key);
    if (json->has_items[level])
        put_text(json, ",");
    json->has_items[level] = true;
    put_newline(json);
    if (key) {
        put_quoted(json, key);
        put_text(json, json->is_compact ? ":" : ": ");
    }
}

static void
open_level(struct json *json, bool is_array)
{
    assert(json->depth < JSON_DEPTH_MAX);
    put_text(json, is_array ? "[" : "{");
    json->in_array[json->depth] = is_array;
    json->has_items[json->depth] = false;
    json->depth++;
}

void
json_init(struct json *json)
{
    memset(json, 0, sizeof(*json));
    open_level(json, false);
}

void
json_init_fixed(struct json *json, char *buf, size_t size_bytes)
{
    memset(json, 0, sizeof(*json));
    json->text = buf;
    json->cap = size_bytes;
    json->is_fixed = true;
    open_level(json, false);
}

void
json_init_compact(struct json *json)
{
    json_init(json);
    json->is_compact = true;
}

void
json_fini(struct json *json)
{
    if (!json->is_fixed)
        host_free(json->text);
    memset(json, 0, sizeof(*json));
}

void
json_object(struct json *json, const char *key)
{
    begin_member(json, key);
    if (json->is_compact && !key)
        put_text(json, "\n");
    open_level(json, false);
}

void
json_array(struct json *json, const char *key)
{
    begin_member(json, key);
    open_level(json, true);
}

void
json_end(struct json *json)
{
    assert(json->depth);
    json->depth--;
    if (json->has_items[json->depth])
        put_newline(json);
    put_text(json, json->in_array[json->depth] ? "]" : "}");
}

void
json_str(struct json *json, const char *key, const char *value)
{
    begin_member(json, key);
    if (value)
        put_quoted(json, value);
    else
        put_text(json, "null");
}

void
json_int(struct json *json, const char *key, int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    begin_member(json, key);
    put_text(json, text);
}

void
json_uint(struct json *json, const char *key, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    begin_member(json, key);
    put_text(json, text);
}

void
json_num(struct json *json, const char *key, double value)
{
    char text[40] = "null";
    int digits;

    /* The fewest digits that read back as the same number: 17 always do. */
    for (digits = isfinite(value) ? 10 : 18; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    begin_member(json, key);
    /* "-0" would be an integer, which has no such zero. */
    put_text(json, value == 0 && signbit(value) ? "-0.0" : text);
}

void
json_positive(struct json *json, const char *key, double value)
{
    json_num(json, key, value > 0 ? value : NAN);
}

void
json_bool(struct json *json, const char *key, bool value)
{
    begin_member(json, key);
    put_text(json, value ? "true" : "false");
}

void
json_null(struct json *json, const char *key)
{
    begin_member(json, key);
    put_text(json, "null");
}

const char *
json_text(struct json *json)
{
    while (json->depth)
        json_end(json);
    put_newline(json);
    return json->failed ? NULL : json->text;
}
