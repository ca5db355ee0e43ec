/* Names of numbers and of memory. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "tools/send/send.h"

static const struct send_symbol *
find(const struct send *s, const char *name, size_t n)
{
    size_t i;

    for (i = 0; i < s->n_symbols; i++) {
        if (strlen(s->symbols[i].name) == n &&
            memcmp(s->symbols[i].name, name, n) == 0)
            return &s->symbols[i];
    }
    return NULL;
}

static bell_status
refuse_name(const struct send *s, const char *name, size_t n)
{
    char copy[HCQ_NAME_MAX];
    struct nearest nearest = {.name = copy};
    size_t i;

    snprintf(copy, sizeof(copy), "%.*s", (int)n, name);
    for (i = 0; i < s->n_symbols; i++)
        nearest_try(&nearest, s->symbols[i].name, s->symbols[i].name);
    if (nearest.best)
        return bell_fail(
            BELL_E_INVALID,
            "'%s' is neither a number nor a name; did you mean '%s'?", copy,
            nearest.best);
    return bell_fail(BELL_E_INVALID, "'%s' is neither a number nor a name",
                     copy);
}

static size_t
name_length(const char *text)
{
    size_t n = 0;

    while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '.')
        n++;
    return n;
}

/* A number or name at *text, which is moved behind it. */
static bell_status
term(const struct send *s, const char **text, uint64_t *out)
{
    const char *start = *text;
    bool is_negative = *start == '-';
    const struct send_symbol *symbol;
    char *end;
    size_t n;

    start += is_negative;
    n = name_length(start);
    if (isdigit((unsigned char)*start)) {
        errno = 0;
        *out = strtoull(start, &end, 0);
        if (end != start + n)
            return refuse_name(s, start, n);
        if (errno == ERANGE)
            return bell_fail(BELL_E_INVALID, "%.*s: more than 64 bits", (int)n,
                             start);
    } else {
        symbol = find(s, start, n);
        if (!symbol)
            return refuse_name(s, start, n ? n : strlen(start));
        *out = symbol->value;
    }
    if (is_negative)
        *out = 0 - *out;
    *text = start + n;
    return BELL_OK;
}

bell_status
send_number(const struct send *s, const char *text, uint64_t *out)
{
    const char *at = text;
    uint64_t value, other;

    BELL_TRY(term(s, &at, &value));
    while (*at) {
        const char *op = at;

        at += strncmp(op, "<<", 2) == 0 || strncmp(op, ">>", 2) == 0 ? 2 : 1;
        if (!strchr("+-*&|<>", *op) || (strchr("<>", *op) && at == op + 1))
            return bell_fail(BELL_E_INVALID,
                             "'%s': no operation '%c'; there are + - * & | << "
                             ">>, without blanks",
                             text, *op);
        BELL_TRY(term(s, &at, &other));
        if (strchr("<>", *op) && other > 63)
            return bell_fail(BELL_E_INVALID, "'%s': a shift is by 0 to 63 bits",
                             text);
        value = *op == '+'   ? value + other
                : *op == '-' ? value - other
                : *op == '*' ? value * other
                : *op == '&' ? (value & other)
                : *op == '|' ? (value | other)
                : *op == '<' ? value << other
                             : value >> other;
    }
    *out = value;
    return BELL_OK;
}

bell_status
send_define(struct send *s, const char *name, uint64_t value)
{
    struct send_symbol *symbol = (void *)(uintptr_t)find(s, name, strlen(name));

    if (symbol && !s->prompts)
        return bell_fail(BELL_E_INVALID,
                         "'%s' is 0x%llx already: a script's name stands for "
                         "one number",
                         name, (unsigned long long)symbol->value);
    if (symbol) {
        symbol->value = value;
        return BELL_OK;
    }
    if (!islower((unsigned char)*name) || name[name_length(name)] ||
        strlen(name) >= sizeof(symbol->name))
        return bell_fail(BELL_E_INVALID,
                         "'%.80s' is not a name: a small letter, then letters, "
                         "digits, _ and .",
                         name);
    if (host_grow((void **)&s->symbols, &s->cap_symbols, s->n_symbols + 1,
                  sizeof(*symbol)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    symbol = &s->symbols[s->n_symbols++];
    snprintf(symbol->name, sizeof(symbol->name), "%s", name);
    symbol->value = value;
    return BELL_OK;
}

bell_status
send_define_part(struct send *s, const char *name, const void *data,
                 uint32_t size_bytes)
{
    struct send_part *part;

    if (host_grow((void **)&s->parts, &s->cap_parts, s->n_parts + 1,
                  sizeof(*part)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    part = &s->parts[s->n_parts++];
    snprintf(part->name, sizeof(part->name), "%s", name);
    part->data = data;
    part->size_bytes = size_bytes;
    return BELL_OK;
}

const struct send_part *
send_part_find(const struct send *s, const char *name)
{
    size_t i = s->n_parts;

    while (i--) { /* the last of that name */
        if (strcmp(s->parts[i].name, name) == 0)
            return &s->parts[i];
    }
    return NULL;
}

bell_status
send_place(const struct send *s, const char *text, uint64_t n_bytes,
           struct hcq_buffer **out_buf, uint64_t *out_offset)
{
    uint64_t va;
    size_t i;

    BELL_TRY(send_number(s, text, &va));
    for (i = 0; i < s->n_buffers; i++) {
        struct hcq_buffer *buf = s->buffers[i];

        if (va < buf->va || va - buf->va > buf->size_bytes ||
            n_bytes > buf->size_bytes - (va - buf->va))
            continue;
        *out_buf = buf;
        *out_offset = va - buf->va;
        return BELL_OK;
    }
    return bell_fail(BELL_E_INVALID,
                     "%s: no buffer of this script has %llu bytes at 0x%llx",
                     text, (unsigned long long)n_bytes, (unsigned long long)va);
}
