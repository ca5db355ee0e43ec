/* Reading, writing and printing through descriptor rows; the decoder of
 * method and packet streams. */
#include "hcq/regs.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bell_status
regs_refuse(const char *unit, const char *type, const char *why)
{
    return bell_fail(BELL_E_INVALID, "%s: %s.%s", unit, type, why);
}

/* ---- packing by rows ----------------------------------------------------- */

static uint64_t
read_member(const struct regs_put *put, const void *values, unsigned i)
{
    uint64_t value = 0; /* little endian */

    assert(put->member_bytes <= sizeof(value));
    if (!put->member_bytes)
        return put->member;
    memcpy(&value,
           (const uint8_t *)values + put->member + i * put->member_bytes,
           put->member_bytes);
    return put->is_int ? (uint64_t)regs_signed(value, put->member_bytes * 8u)
                       : value;
}

static bell_status
refuse_value(const struct regs_packing *p, const struct regs_put *put,
             uint64_t value)
{
    const char *name = p->names + put->name;

    if (!put->n_bits)
        return bell_fail(BELL_E_INVALID,
                         "%s: %s.%s: absent from this generation", p->unit,
                         p->type, name);
    if (put->shift && value & ((UINT64_C(1) << put->shift) - 1) &&
        (put->limit == 64 || !(value >> put->limit)))
        return bell_fail(BELL_E_INVALID, "%s: %s.%s: not a multiple of %llu",
                         p->unit, p->type, name, 1ull << put->shift);
    return bell_fail(BELL_E_INVALID, "%s: %s.%s: beyond %u bits", p->unit,
                     p->type, name, put->limit);
}

static bool
value_fits(const struct regs_put *put, uint64_t value)
{
    if (!put->n_bits)
        return value == 0;
    if (!put->member_bytes || put->limit == 64)
        return !(value & ((UINT64_C(1) << put->shift) - 1));
    if (put->is_int)
        return regs_signed(value & ((UINT64_C(1) << put->limit) - 1),
                           put->limit) == (int64_t)value;
    return !(value >> put->limit) &&
           !(value & ((UINT64_C(1) << put->shift) - 1));
}

bell_status
regs_try(const struct regs_packing *p, unsigned gen, const void *values,
         uint32_t *out_w)
{
    unsigned r, i;

    if (!regs_in(gen, p->gens))
        return bell_fail(BELL_E_INVALID, "%s: %s: absent from this generation",
                         p->unit, p->type);
    for (r = 0; r < p->n_puts; r++) {
        const struct regs_put *put = &p->puts[r];

        for (i = 0; regs_in(gen, put->gens) && i < put->count; i++) {
            uint64_t value = read_member(put, values, i);

            if (!value_fits(put, value))
                return refuse_value(p, put, value);
        }
    }
    memset(out_w, 0, p->n_dw[gen] * sizeof(*out_w));
    for (r = 0; r < p->n_puts; r++) {
        const struct regs_put *put = &p->puts[r];
        unsigned n = put->n_bits;

        for (i = 0; n && regs_in(gen, put->gens) && i < put->count; i++) {
            uint64_t value = read_member(put, values, i) >> put->down;

            regs_or(out_w, put->lo + i * put->stride, n,
                    n == 64 ? value : value & ((UINT64_C(1) << n) - 1));
        }
    }
    return BELL_OK;
}

/* ---- fields -------------------------------------------------------------- */

uint64_t
regs_get(const struct regs_field *field, const uint32_t *words, unsigned i)
{
    uint64_t value = 0;
    unsigned done = 0;

    assert(i < field->count);
    for (unsigned p = 0; p < field->n_parts; p++) {
        struct regs_part part = field->parts[p];

        value |= regs_bits(words, part.lo + i * field->stride, part.n) << done;
        done += part.n;
    }
    if (field->kind == REGS_INT)
        return (uint64_t)regs_signed(value, done);
    return value << field->shift;
}

/* ---- finding ------------------------------------------------------------- */

const struct regs_type *
regs_by_name(const struct regs_unit *unit, const char *name)
{
    for (unsigned t = 0; t < unit->n_types; t++)
        if (!strcmp(unit->types[t].name, name))
            return &unit->types[t];
    return NULL;
}

const struct regs_field *
regs_field_by_name(const struct regs_type *type, unsigned gen, const char *name)
{
    for (unsigned f = 0; f < type->n_fields; f++)
        if (regs_in(gen, type->fields[f].gens) &&
            !strcmp(type->fields[f].name, name))
            return &type->fields[f];
    return NULL;
}

const struct regs_field *
regs_parity_of(const struct regs_type *type, unsigned gen,
               const struct regs_field *parity)
{
    size_t n = strlen(parity->name) - strlen("_PARITY");

    assert(strlen(parity->name) > strlen("_PARITY"));
    for (unsigned f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];

        if (regs_in(gen, field->gens) && strlen(field->name) == n &&
            !strncmp(field->name, parity->name, n))
            return field;
    }
    return NULL;
}

const struct regs_type *
regs_by_address(const struct regs_unit *unit, unsigned gen, uint32_t address,
                unsigned *out_element, unsigned *out_dw)
{
    for (unsigned t = 0; t < unit->n_types; t++) {
        const struct regs_type *type = &unit->types[t];
        uint32_t offset = address - type->address, element = 0;

        if (type->kind != REGS_REG || !regs_in(gen, type->gens) ||
            address < type->address)
            continue;
        if (type->stride) {
            element = offset / type->stride;
            offset %= type->stride;
        }
        if (element >= type->count || offset % unit->step ||
            offset / unit->step >= type->n_dw)
            continue;
        *out_element = element;
        *out_dw = offset / unit->step;
        return type;
    }
    return NULL;
}

int
regs_gen_by_id(const struct regs_unit *unit, uint32_t id)
{
    for (unsigned g = 0; g < unit->n_gens; g++)
        if (unit->gen_ids[g] == id)
            return (int)g;
    return -1;
}

bool
regs_match(const struct regs_type *type, unsigned gen, const uint32_t *words)
{
    bool any = false;

    for (unsigned f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];

        if (!field->is_const || !regs_in(gen, field->gens))
            continue;
        if (regs_get(field, words, 0) != field->value)
            return false;
        any = true;
    }
    return any;
}

bool
regs_clear_known(const struct regs_type *type, unsigned gen, uint32_t *words)
{
    bool left = false;

    for (unsigned f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];

        if (!regs_in(gen, field->gens))
            continue;
        for (unsigned i = 0; i < field->count; i++)
            for (unsigned p = 0; p < field->n_parts; p++)
                regs_set(words, field->parts[p].lo + i * field->stride,
                         field->parts[p].n, 0);
    }
    for (unsigned w = 0; w < regs_dw(type, gen); w++)
        left |= words[w] != 0;
    return left;
}

/* ---- text ---------------------------------------------------------------- */

void
regs_text_init(struct regs_text *text, char *buf, size_t size_bytes)
{
    assert(size_bytes > 0);
    text->buf = buf;
    text->size_bytes = size_bytes;
    text->n_bytes = 0;
    buf[0] = 0;
}

void
regs_text_put(struct regs_text *text, const char *fmt, ...)
{
    size_t room = text->size_bytes - text->n_bytes;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text->buf + text->n_bytes, room, fmt, args);
    va_end(args);
    if (n > 0)
        text->n_bytes += (size_t)n < room ? (size_t)n : room - 1;
}

static void
put_value(struct regs_text *text, const struct regs_field *field,
          uint64_t value)
{
    if (field->kind == REGS_ENUM) {
        for (unsigned v = 0; v < field->values->n_values; v++) {
            if (field->values->values[v].value != value)
                continue;
            regs_text_put(text, "%s", field->values->values[v].name);
            return;
        }
    }
    if (field->kind == REGS_INT)
        regs_text_put(text, "%" PRId64, (int64_t)value);
    else if (field->kind == REGS_HEX)
        regs_text_put(text, "0x%" PRIx64, value);
    else
        regs_text_put(text, "%" PRIu64, value);
}

static void
put_name(struct regs_text *text, const struct regs_field *field, unsigned i)
{
    regs_text_put(text, "%s", field->name);
    if (field->is_array)
        regs_text_put(text, "[%u]", i);
}

static bool
is_known(const struct regs_field *field, unsigned i, uint64_t have)
{
    for (unsigned p = 0; p < field->n_parts; p++) {
        unsigned lo = field->parts[p].lo + i * field->stride;
        unsigned last = (lo + field->parts[p].n - 1) / 32;

        for (unsigned w = lo / 32; w <= last && w < 64; w++)
            if (!(have >> w & 1))
                return false;
    }
    return true;
}

/* The bits of word w that a field of this generation covers. */
static uint32_t
known_bits(const struct regs_type *type, unsigned gen, unsigned w)
{
    uint32_t bits = 0;

    for (unsigned f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];
        unsigned n = regs_in(gen, field->gens) ? field->count : 0;

        for (unsigned i = 0; i < n; i++)
            for (unsigned p = 0; p < field->n_parts; p++) {
                unsigned lo = field->parts[p].lo + i * field->stride;
                unsigned end = lo + field->parts[p].n;
                unsigned from = lo > w * 32 ? lo : w * 32;
                unsigned to = end < w * 32 + 32 ? end : w * 32 + 32;

                if (from < to)
                    bits |= (UINT32_MAX >> (32 - (to - from))) << from % 32;
            }
    }
    return bits;
}

void
regs_decode_fields(struct regs_text *text, const struct regs_type *type,
                   unsigned gen, const uint32_t *words, uint64_t have)
{
    const char *gap = "", *none = "0";

    for (unsigned f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];

        if (!regs_in(gen, field->gens) || field->is_const)
            continue;
        for (unsigned i = 0; i < field->count; i++) {
            uint64_t value;

            if (!is_known(field, i, have)) {
                none = "?";
                continue;
            }
            value = regs_get(field, words, i);
            if (!value && !field->always)
                continue;
            regs_text_put(text, "%s", gap);
            put_name(text, field, i);
            regs_text_put(text, "=");
            put_value(text, field, value);
            gap = " ";
        }
    }
    for (unsigned w = 0; w < regs_dw(type, gen); w++) {
        uint32_t other = words[w] & ~known_bits(type, gen, w);

        if (!other || (w < 64 && !(have >> w & 1)))
            continue;
        regs_text_put(text, "%sreserved[%u]=0x%x", gap, w, other);
        gap = " ";
    }
    if (!*gap)
        regs_text_put(text, "%s", none);
}

void
regs_decode_block(const struct regs_type *type, unsigned gen,
                  const uint32_t *words, regs_line_fn *line, void *user)
{
    char buf[128];
    struct regs_text text;

    for (unsigned f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];

        if (!regs_in(gen, field->gens))
            continue;
        for (unsigned i = 0; i < field->count; i++) {
            uint64_t value = regs_get(field, words, i);

            if (!value && !field->always)
                continue;
            regs_text_init(&text, buf, sizeof(buf));
            regs_text_put(&text, "  ");
            put_name(&text, field, i);
            regs_text_put(&text, " = ");
            put_value(&text, field, value);
            line(user, buf);
        }
    }
    for (unsigned w = 0; w < regs_dw(type, gen); w++) {
        uint32_t other = words[w] & ~known_bits(type, gen, w);

        if (!other)
            continue;
        regs_text_init(&text, buf, sizeof(buf));
        regs_text_put(&text, "  reserved[%u] = 0x%x", w, other);
        line(user, buf);
    }
}

/* ---- streams ------------------------------------------------------------- */

enum {
    LINE_BYTES = 1024,
    SHOWN_WORDS = 8,
    REG_MAX_DW = 64
};

/* A header, taken apart, and the words that follow it. */
struct run {
    const struct regs_type *header;
    uint32_t address, data;
    unsigned slot;
    size_t n_words;
    const uint32_t *words;
};

/* Where one register of a run was found. */
struct place {
    const struct regs_unit *unit;
    const struct regs_type *type;
    unsigned gen, element, dw;
};

/* A line of the stream. */
static void
tell(struct regs_stream *s, const char *line, bool is_wrong)
{
    if (is_wrong && s->wrong)
        s->wrong(s->user, line);
    s->line(s->user, line);
}

/* Whether a bit is set that no field covers, of the words that are there. */
static bool
has_reserved(const struct regs_type *type, unsigned gen, const uint32_t *words,
             uint64_t have)
{
    for (unsigned w = 0; w < regs_dw(type, gen); w++)
        if ((w >= 64 || have >> w & 1) && words[w] & ~known_bits(type, gen, w))
            return true;
    return false;
}

/* Whether a field's parity, the field before its name's end, is what it is. */
static bool
parity_holds(const struct regs_type *type, unsigned gen, const uint32_t *words)
{
    for (unsigned f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];
        const struct regs_field *of;

        if (field->role != REGS_ROLE_PARITY || !regs_in(gen, field->gens))
            continue;
        of = regs_parity_of(type, gen, field);
        if (of && regs_get(field, words, 0) !=
                      !(__builtin_popcountll(regs_get(of, words, 0)) & 1))
            return false;
    }
    return true;
}

static bool
find_place(const struct regs_stream *s, unsigned slot, uint32_t address,
           struct place *out)
{
    out->unit = s->common;
    out->gen = s->common_gen;
    out->type = regs_by_address(s->common, s->common_gen, address,
                                &out->element, &out->dw);
    if (out->type || slot >= REGS_SLOTS || !s->slots[slot])
        return out->type != NULL;
    out->unit = s->slots[slot];
    out->gen = s->slot_gens[slot];
    out->type =
        regs_by_address(out->unit, out->gen, address, &out->element, &out->dw);
    return out->type != NULL;
}

static void
bind_slot(struct regs_stream *s, unsigned slot, const struct place *place,
          const uint32_t *words)
{
    for (unsigned f = 0; f < place->type->n_fields; f++) {
        const struct regs_field *field = &place->type->fields[f];
        uint64_t id;

        if (field->role != REGS_ROLE_BIND || slot >= REGS_SLOTS)
            continue;
        id = regs_get(field, words, 0);
        s->slots[slot] = NULL;
        for (unsigned u = 0; u < s->n_units; u++) {
            int gen = id <= UINT32_MAX
                          ? regs_gen_by_id(s->units[u], (uint32_t)id)
                          : -1;

            if (gen < 0)
                continue;
            s->slots[slot] = s->units[u];
            s->slot_gens[slot] = (unsigned)gen;
        }
    }
}

/* Prints the register at `place`, of which words[0 .. n_dw - 1] are written
 * from word place->dw on. */
static void
decode_write(struct regs_stream *s, unsigned slot, const struct place *place,
             const uint32_t *words, unsigned n_dw)
{
    uint32_t whole[REG_MAX_DW] = {0};
    uint64_t have = 0;
    char buf[LINE_BYTES];
    struct regs_text text;

    assert(place->dw + n_dw <= REG_MAX_DW);
    for (unsigned i = 0; i < n_dw; i++) {
        whole[place->dw + i] = words[i];
        have |= UINT64_C(1) << (place->dw + i);
    }
    regs_text_init(&text, buf, sizeof(buf));
    regs_text_put(&text, "  %s", place->type->name);
    if (place->type->stride)
        regs_text_put(&text, "[%u]", place->element);
    if (place->dw)
        regs_text_put(&text, "+%u", place->dw * place->unit->step);
    regs_text_put(&text, " =");
    for (unsigned i = 0; i < n_dw; i++)
        regs_text_put(&text, " %08x", words[i]);
    regs_text_put(&text, " {");
    regs_decode_fields(&text, place->type, place->gen, whole, have);
    regs_text_put(&text, "}");
    tell(s, buf, has_reserved(place->type, place->gen, whole, have));
    if (!place->dw && n_dw == place->type->n_dw)
        bind_slot(s, slot, place, whole);
}

/* Words to ascending addresses; returns how many it could not name. */
static unsigned
decode_ascending(struct regs_stream *s, const struct run *run)
{
    unsigned unknown = 0, n_dw;
    char buf[LINE_BYTES];
    struct regs_text text;

    for (size_t i = 0; i < run->n_words; i += n_dw) {
        uint32_t address = run->address + (uint32_t)i * s->common->step;
        size_t left = run->n_words - i;
        struct place place;

        n_dw = 1;
        if (find_place(s, run->slot, address, &place)) {
            n_dw = place.type->n_dw - place.dw;
            n_dw = n_dw < left ? n_dw : (unsigned)left;
            decode_write(s, run->slot, &place, run->words + i, n_dw);
            continue;
        }
        unknown++;
        regs_text_init(&text, buf, sizeof(buf));
        regs_text_put(&text, "  ? 0x%04x = %08x", address, run->words[i]);
        tell(s, buf, true);
    }
    return unknown;
}

/* Words that all go to one address, on one line; returns how many it could
 * not name. */
static unsigned
decode_repeated(struct regs_stream *s, unsigned slot, uint32_t address,
                const uint32_t *words, size_t n_words)
{
    size_t shown = n_words < SHOWN_WORDS ? n_words : SHOWN_WORDS;
    bool known;
    char buf[LINE_BYTES];
    struct regs_text text;
    struct place place;

    if (!n_words)
        return 0;
    known = find_place(s, slot, address, &place);
    if (known && n_words == 1) {
        decode_write(s, slot, &place, words, 1);
        return 0;
    }
    regs_text_init(&text, buf, sizeof(buf));
    if (known)
        regs_text_put(&text, "  %s", place.type->name);
    else
        regs_text_put(&text, "  ? 0x%04x", address);
    regs_text_put(&text, " <- %zu words:", n_words);
    for (size_t i = 0; i < shown; i++)
        regs_text_put(&text, " %08x", words[i]);
    if (shown < n_words)
        regs_text_put(&text, " ...");
    tell(s, buf, !known);
    return known ? 0 : (unsigned)n_words;
}

/* The words of a packet without a name, which is its own as well. */
static unsigned
pass_over(struct regs_stream *s, const struct run *run)
{
    size_t shown = run->n_words < SHOWN_WORDS ? run->n_words : SHOWN_WORDS;
    char buf[LINE_BYTES];
    struct regs_text text;

    regs_text_init(&text, buf, sizeof(buf));
    regs_text_put(&text, "  ? %zu words:", run->n_words);
    for (size_t i = 0; i < shown; i++)
        regs_text_put(&text, " %08x", run->words[i]);
    if (shown < run->n_words)
        regs_text_put(&text, " ...");
    if (run->n_words)
        s->line(s->user, buf);
    return run->header->n_dw + (unsigned)run->n_words;
}

/* The writes of one header; returns how many words it could not name. */
static unsigned
decode_run(struct regs_stream *s, const struct run *run)
{
    struct run first = *run;

    switch ((enum regs_stream_kind)run->header->stream) {
    case REGS_IMM:
        first.words = &run->data;
        first.n_words = 1;
        return decode_ascending(s, &first);
    case REGS_INC:
        return decode_ascending(s, run);
    case REGS_NONINC:
        return decode_repeated(s, run->slot, run->address, run->words,
                               run->n_words);
    case REGS_ONEINC:
        if (!run->n_words)
            return 0;
        return decode_repeated(s, run->slot, run->address, run->words, 1) +
               decode_repeated(s, run->slot, run->address + s->common->step,
                               run->words + 1, run->n_words - 1);
    case REGS_OTHER:
        return pass_over(s, run);
    case REGS_NONE:
    case REGS_BODY:
        break;
    }
    return 0;
}

static const struct regs_type *
find_header(const struct regs_stream *s, const uint32_t *words, size_t left)
{
    for (unsigned t = 0; t < s->common->n_types; t++) {
        const struct regs_type *type = &s->common->types[t];

        if (type->stream != REGS_NONE && type->n_dw <= left &&
            regs_in(s->common_gen, type->gens) &&
            regs_match(type, s->common_gen, words))
            return type;
    }
    return NULL;
}

/* Takes the header at `words` apart; returns how many words it announces. */
static uint64_t
read_run_header(const struct regs_stream *s, struct run *run,
                const uint32_t *words)
{
    uint64_t count = 0;

    for (unsigned f = 0; f < run->header->n_fields; f++) {
        const struct regs_field *field = &run->header->fields[f];
        uint64_t value;

        if (!field->role || !regs_in(s->common_gen, field->gens))
            continue;
        value = regs_get(field, words, 0) + (uint64_t)(int64_t)field->bias;
        if (field->role == REGS_ROLE_COUNT)
            count = (int64_t)value > 0 ? value : 0;
        else if (field->role == REGS_ROLE_ADDRESS)
            run->address = (uint32_t)value;
        else if (field->role == REGS_ROLE_SLOT)
            run->slot = (unsigned)value;
        else if (field->role == REGS_ROLE_DATA)
            run->data = (uint32_t)value;
    }
    return count;
}

unsigned
regs_decode_stream(struct regs_stream *s, const uint32_t *words, size_t n_dw)
{
    unsigned unknown = 0;
    char buf[LINE_BYTES];
    struct regs_text text;
    size_t at = 0;

    while (at < n_dw) {
        struct run run = {.header = find_header(s, words + at, n_dw - at)};
        uint64_t count;
        bool is_wrong;
        size_t left;

        regs_text_init(&text, buf, sizeof(buf));
        regs_text_put(&text, "%05zx: %08x ", at * 4, words[at]);
        if (!run.header) {
            regs_text_put(&text, "?");
            tell(s, buf, true);
            unknown++;
            at++;
            continue;
        }
        count = read_run_header(s, &run, words + at);
        regs_text_put(&text, "%s%s ",
                      run.header->stream == REGS_OTHER ? "? " : "",
                      run.header->name);
        regs_decode_fields(&text, run.header, s->common_gen, words + at,
                           UINT64_MAX);
        is_wrong =
            run.header->stream == REGS_OTHER ||
            has_reserved(run.header, s->common_gen, words + at, UINT64_MAX);
        if (!parity_holds(run.header, s->common_gen, words + at)) {
            regs_text_put(&text, " wrong parity");
            unknown += run.header->stream != REGS_OTHER;
            is_wrong = true;
            count = 0; /* no more than a word can be told of it */
        }
        left = n_dw - at - run.header->n_dw;
        if (count > left) {
            regs_text_put(&text, " truncated: %zu of %" PRIu64 " words", left,
                          count);
            unknown += run.header->stream != REGS_OTHER; /* all its words are */
            is_wrong = true;
            count = left;
        }
        tell(s, buf, is_wrong);
        run.words = words + at + run.header->n_dw;
        run.n_words = (size_t)count;
        unknown += decode_run(s, &run);
        at += run.header->n_dw + (size_t)count;
    }
    return unknown;
}
