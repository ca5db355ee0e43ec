/* Notes of code objects: a reader of the part of MessagePack that they use.
 * It goes over a map once and keeps nothing; what it skips is counted, not
 * descended into, so there is no depth. */
#include "hcq/amd/amd_meta.h"

#include <elf.h>
#include <string.h>

#include "base/bits.h"

#define NOTE_TYPE 32u /* NT_AMDGPU_METADATA */

static const char note_name[] = "AMDGPU";

/* What is left of a map. */
struct cursor {
    const uint8_t *at, *end;
};

enum value_kind {
    VALUE_NUMBER, /* n: not negative */
    VALUE_TEXT,   /* n bytes at text */
    VALUE_ARRAY,  /* n values follow */
    VALUE_MAP,    /* 2 n */
    VALUE_OTHER   /* nothing, true and false, numbers below zero */
};

struct value {
    enum value_kind kind;
    uint64_t n;
    const uint8_t *text;
};

/* ---- values -------------------------------------------------------------- */

static bool
take_number(struct cursor *c, uint32_t n_bytes, uint64_t *out_number)
{
    uint64_t number = 0;
    uint32_t i;

    if ((uint64_t)(c->end - c->at) < n_bytes)
        return false;
    for (i = 0; i < n_bytes; i++)
        number = number << 8 | *c->at++;
    *out_number = number;
    return true;
}

/* Values whose first byte says all, or how large they are. */
static bool
take_short(uint8_t first, struct value *out)
{
    *out = (struct value){.kind = VALUE_OTHER};
    if (first < 0x80)
        *out = (struct value){VALUE_NUMBER, first, NULL};
    else if (first < 0x90)
        *out = (struct value){VALUE_MAP, first & 15u, NULL};
    else if (first < 0xa0)
        *out = (struct value){VALUE_ARRAY, first & 15u, NULL};
    else if (first < 0xc0)
        *out = (struct value){VALUE_TEXT, first & 31u, NULL};
    else if (first != 0xc0 && first != 0xc2 && first != 0xc3 && first < 0xe0)
        return false;
    return true;
}

/* Values with a number behind their first byte: bytes of it, and what it is. */
static bool
take_long(struct cursor *c, uint8_t first, struct value *out)
{
    static const struct {
        uint8_t first, n_bytes;
        enum value_kind kind;
    } rows[] = {
        {0xcc, 1, VALUE_NUMBER}, {0xcd, 2, VALUE_NUMBER},
        {0xce, 4, VALUE_NUMBER}, {0xcf, 8, VALUE_NUMBER},
        {0xd0, 1, VALUE_OTHER},  {0xd1, 2, VALUE_OTHER},
        {0xd2, 4, VALUE_OTHER},  {0xd3, 8, VALUE_OTHER},
        {0xd9, 1, VALUE_TEXT},   {0xda, 2, VALUE_TEXT},
        {0xdb, 4, VALUE_TEXT},   {0xdc, 2, VALUE_ARRAY},
        {0xdd, 4, VALUE_ARRAY},  {0xde, 2, VALUE_MAP},
        {0xdf, 4, VALUE_MAP},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].first != first)
            continue;
        *out = (struct value){.kind = rows[i].kind};
        return take_number(c, rows[i].n_bytes, &out->n);
    }
    return false;
}

/* The next value; of a map or an array what it has follows. False: the map
 * ends, or has a kind of value that is not known. */
static bool
take(struct cursor *c, struct value *out)
{
    uint8_t first;

    if (c->at == c->end)
        return false;
    first = *c->at++;
    if (!take_short(first, out) && !take_long(c, first, out))
        return false;
    if (out->kind != VALUE_TEXT)
        return true;
    out->text = c->at;
    if (out->n > (uint64_t)(c->end - c->at))
        return false;
    c->at += out->n;
    return true;
}

/* Goes behind the next value, whatever is in it. Values have a byte or more
 * each, so there are never more of them than bytes left. */
static bool
skip(struct cursor *c)
{
    uint64_t n_left = 1, n;
    struct value v;

    while (n_left) {
        if (n_left > (uint64_t)(c->end - c->at) || !take(c, &v))
            return false;
        n = v.kind == VALUE_MAP ? 2 * v.n : v.kind == VALUE_ARRAY ? v.n : 0;
        n_left += n - 1;
    }
    return true;
}

static bool
is_text(const struct value *v, const char *text, size_t n)
{
    return v->kind == VALUE_TEXT && v->n == n && memcmp(v->text, text, n) == 0;
}

/* ---- kernels ------------------------------------------------------------- */

static uint32_t *
field_of(struct amd_meta *meta, const struct value *key)
{
    const struct {
        const char *name;
        uint32_t *field;
    } rows[] = {
        {".max_flat_workgroup_size", &meta->max_group},
        {".kernarg_segment_size", &meta->kernarg_bytes},
        {".group_segment_fixed_size", &meta->lds_bytes},
        {".private_segment_fixed_size", &meta->scratch_bytes},
        {".wavefront_size", &meta->wave_lanes},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        if (is_text(key, rows[i].name, strlen(rows[i].name)))
            return rows[i].field;
    }
    return NULL;
}

static void
clear_meta(struct amd_meta *meta)
{
    memset(meta, 0xff, sizeof(*meta)); /* AMD_META_NONE */
}

/* A kernel's map, with *out_found if it is the one. */
static bool
read_kernel(struct cursor *c, const char *symbol, size_t n,
            struct amd_meta *meta, bool *out_found)
{
    struct value map, key, v;
    uint32_t *field;
    uint64_t i;

    clear_meta(meta);
    *out_found = false;
    if (!take(c, &map) || map.kind != VALUE_MAP)
        return false;
    for (i = 0; i < map.n; i++) {
        const uint8_t *start;

        if (!take(c, &key) || key.kind != VALUE_TEXT)
            return false;
        start = c->at;
        if (!skip(c))
            return false;
        (void)take(&(struct cursor){start, c->end}, &v);
        if (is_text(&key, ".symbol", 7))
            *out_found = is_text(&v, symbol, n);
        field = field_of(meta, &key);
        if (field && v.kind == VALUE_NUMBER && v.n < AMD_META_NONE)
            *field = (uint32_t)v.n;
    }
    return true;
}

/* All of a note's map; *out_meta is set if it has the kernel. */
static bool
read_map(struct cursor *c, const char *symbol, size_t n,
         struct amd_meta *out_meta)
{
    static const char kernels[] = "amdhsa.kernels";
    struct value map, key, list;
    struct amd_meta meta;
    uint64_t i, k;
    bool found;

    if (!take(c, &map) || map.kind != VALUE_MAP)
        return false;
    for (i = 0; i < map.n; i++) {
        if (!take(c, &key) || key.kind != VALUE_TEXT)
            return false;
        if (!is_text(&key, kernels, sizeof(kernels) - 1)) {
            if (!skip(c))
                return false;
            continue;
        }
        if (!take(c, &list) || list.kind != VALUE_ARRAY)
            return false;
        for (k = 0; k < list.n; k++) {
            if (!read_kernel(c, symbol, n, &meta, &found))
                return false;
            if (found)
                *out_meta = meta;
        }
    }
    return true;
}

/* ---- notes --------------------------------------------------------------- */

bool
amd_meta_read(const uint8_t *notes, uint64_t size_bytes, const char *symbol,
              size_t n, struct amd_meta *out_meta, uint64_t *out_at)
{
    uint64_t at = 0, left, name_bytes, text_bytes;
    Elf64_Nhdr head;
    struct cursor c;

    clear_meta(out_meta);
    while (at < size_bytes) {
        *out_at = at;
        left = size_bytes - at;
        if (left < sizeof(head))
            return false;
        memcpy(&head, notes + at, sizeof(head));
        name_bytes = align_up((uint64_t)head.n_namesz, 4);
        text_bytes = align_up((uint64_t)head.n_descsz, 4);
        if (name_bytes + text_bytes > left - sizeof(head))
            return false;
        at += sizeof(head);
        c.at = notes + at + name_bytes;
        c.end = c.at + head.n_descsz;
        if (head.n_type == NOTE_TYPE && head.n_namesz == sizeof(note_name) &&
            memcmp(notes + at, note_name, sizeof(note_name)) == 0 &&
            !read_map(&c, symbol, n, out_meta)) {
            *out_at = (uint64_t)(c.at - notes);
            return false;
        }
        at += name_bytes + text_bytes;
    }
    return true;
}
