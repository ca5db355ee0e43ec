/* Packets, registers and descriptors from the names of their fields: what
 * hcq/regs.c prints, the other way. */
#include "hcq/decode/encode_queue.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"
#include "base/nearest.h"
#include "hcq/decode/decode_queue.h"
#include "hcq/hcq_backend.h"

/* ---- numbers ------------------------------------------------------------- */

static bell_status
number_of_text(const struct encode *e, const char *text, uint64_t *out)
{
    bool is_negative = text[0] == '-';
    char *end;

    if (e->number)
        return e->number(e->user, text, out);
    errno = 0;
    *out = isdigit((unsigned char)text[is_negative])
               ? strtoull(text + is_negative, &end, 0)
               : 0;
    if (!isdigit((unsigned char)text[is_negative]) || *end || errno)
        return bell_fail(BELL_BAD_VALUE, "'%s' is not a number of 64 bits",
                         text);
    if (is_negative)
        *out = 0 - *out;
    return BELL_OK;
}

bell_status
encode_add_words(const struct encode *e, char **tokens, size_t n_tokens,
                 uint32_t *words, uint32_t *n)
{
    uint64_t value;
    size_t i;

    for (i = 0; i < n_tokens; i++) {
        BELL_TRY(number_of_text(e, tokens[i], &value));
        if (value > UINT32_MAX && value < UINT64_MAX - INT32_MAX)
            return bell_fail(BELL_E_INVALID,
                             "%s is 0x%llx: a word has 32 bits; &0xffffffff "
                             "and >>32 are the halves",
                             tokens[i], (unsigned long long)value);
        if (*n >= HCQ_WORDS_MAX)
            return bell_fail(BELL_E_INVALID,
                             "too many words at once; %u are possible",
                             HCQ_WORDS_MAX);
        words[(*n)++] = (uint32_t)value;
    }
    return BELL_OK;
}

/* Cuts "[2]" off a name's end. *out: that number; UINT_MAX: there is none. */
static bell_status
cut_element(char *name, unsigned *out)
{
    char *bracket = strchr(name, '[');
    unsigned long element;
    char *end;

    *out = UINT_MAX;
    if (!bracket)
        return BELL_OK;
    element = strtoul(bracket + 1, &end, 0);
    if (!isdigit((unsigned char)bracket[1]) || strcmp(end, "]") != 0 ||
        element >= UINT_MAX)
        return bell_fail(BELL_E_INVALID, "'%s': expected NAME[NUMBER]", name);
    *bracket = '\0';
    *out = (unsigned)element;
    return BELL_OK;
}

/* ---- fields -------------------------------------------------------------- */

static unsigned
stored_bits(const struct regs_field *field)
{
    unsigned n = 0, p;

    for (p = 0; p < field->n_parts; p++)
        n += field->parts[p].n;
    return n;
}

unsigned
encode_bits(const struct regs_field *field)
{
    return stored_bits(field) + field->shift;
}

/* Whether a field can hold the value. */
static bool
holds(const struct regs_field *field, uint64_t value)
{
    unsigned n = stored_bits(field);

    if (field->shift && value & ((UINT64_C(1) << field->shift) - 1))
        return false;
    value >>= field->shift;
    if (n >= 64)
        return true;
    if (field->kind == REGS_INT)
        return (uint64_t)regs_signed(value & ((UINT64_C(1) << n) - 1), n) ==
               value;
    return value >> n == 0;
}

static void
put_field_bits(const struct regs_field *field, unsigned element, uint64_t value,
               uint32_t *words)
{
    unsigned p;

    value >>= field->shift;
    for (p = 0; p < field->n_parts; p++) {
        struct regs_part part = field->parts[p];
        uint64_t mask = part.n == 64 ? UINT64_MAX : (UINT64_C(1) << part.n) - 1;

        regs_set(words, part.lo + element * field->stride, part.n,
                 value & mask);
        value = part.n == 64 ? 0 : value >> part.n;
    }
}

static bell_status
refuse_field(const struct regs_type *type, unsigned gen, const char *name)
{
    struct nearest nearest = {.name = name};
    char known[256] = "";
    size_t used = 0;
    unsigned f;

    for (f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];

        if (!regs_in(gen, field->gens) || field->is_const ||
            field->role == REGS_ROLE_PARITY || field->role == REGS_ROLE_COUNT)
            continue;
        nearest_try(&nearest, field->name, field->name);
        if (used + strlen(field->name) + 3 < sizeof(known))
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                     used ? ", " : "", field->name);
    }
    if (nearest.best)
        return bell_fail(BELL_E_INVALID,
                         "%s has no field '%s'; did you mean '%s'?", type->name,
                         name, nearest.best);
    return bell_fail(BELL_E_INVALID, "%s has no field '%s'; it has %s",
                     type->name, name, used ? known : "none");
}

static bell_status
value_of_text(const struct encode *e, const struct regs_type *type,
              const struct regs_field *field, const char *text, uint64_t *out)
{
    char known[200] = "";
    size_t used = 0;
    unsigned v;

    for (v = 0; field->kind == REGS_ENUM && v < field->values->n_values; v++) {
        const struct regs_value *value = &field->values->values[v];

        if (strcmp(value->name, text) == 0) {
            *out = value->value;
            return BELL_OK;
        }
        if (used + strlen(value->name) + 3 < sizeof(known))
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                     used ? ", " : "", value->name);
    }
    if (number_of_text(e, text, out) == BELL_OK)
        return BELL_OK;
    if (used)
        return bell_fail(BELL_E_INVALID,
                         "%s.%s: '%s' is not one of %s, nor a "
                         "number",
                         type->name, field->name, text, known);
    bell_error_prefix("%s.%s", type->name, field->name);
    return bell_error_last()->status;
}

/* "NAME[2]=7" */
static bell_status
set_field_by_text(const struct encode *e, const struct regs_type *type,
                  unsigned gen, char *text, uint32_t *words)
{
    char *equals = strchr(text, '=');
    const struct regs_field *field;
    unsigned element;
    uint64_t value;

    if (!equals)
        return bell_fail(BELL_E_INVALID, "%s: '%s' is not a FIELD=VALUE",
                         type->name, text);
    *equals = '\0';
    BELL_TRY(cut_element(text, &element));
    if (element == UINT_MAX)
        element = 0;
    field = regs_field_by_name(type, gen, text);
    if (!field)
        return refuse_field(type, gen, text);
    if (field->is_const)
        return bell_fail(BELL_E_INVALID, "%s.%s is %llu, always", type->name,
                         text, (unsigned long long)field->value);
    if (element >= field->count)
        return bell_fail(BELL_E_INVALID, "%s.%s has %u elements", type->name,
                         text, field->count);
    BELL_TRY(value_of_text(e, type, field, equals + 1, &value));
    if (!holds(field, value))
        return bell_fail(BELL_E_INVALID,
                         "%s.%s cannot be 0x%llx: it has %u bits%s%s",
                         type->name, text, (unsigned long long)value,
                         stored_bits(field) + field->shift,
                         field->shift ? ", of which the lowest are 0" : "",
                         field->kind == REGS_INT ? ", signed" : "");
    put_field_bits(field, element, value, words);
    return BELL_OK;
}

bell_status
encode_set_fields(const struct encode *e, const struct regs_type *type,
                  unsigned gen, char **fields, size_t n_fields, uint32_t *words)
{
    size_t i, k;

    for (i = 0; i < n_fields; i++) {
        size_t n = strcspn(fields[i], "=");

        for (k = i + 1; k < n_fields; k++) {
            if (strcspn(fields[k], "=") == n &&
                strncmp(fields[i], fields[k], n) == 0)
                return bell_fail(BELL_E_INVALID, "%s: %.*s is set twice",
                                 type->name, (int)n, fields[i]);
        }
        BELL_TRY(set_field_by_text(e, type, gen, fields[i], words));
    }
    return BELL_OK;
}

/* ---- packets ------------------------------------------------------------- */

static void
put_fixed_fields(const struct regs_type *type, unsigned gen, uint32_t *words)
{
    unsigned f;

    for (f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];

        if (regs_in(gen, field->gens) && field->is_const)
            put_field_bits(field, 0, field->value, words);
    }
}

static void
put_parities(const struct regs_type *type, unsigned gen, uint32_t *words)
{
    unsigned f;

    for (f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f], *of;

        if (field->role != REGS_ROLE_PARITY || !regs_in(gen, field->gens))
            continue;
        of = regs_parity_of(type, gen, field);
        if (of)
            put_field_bits(field, 0,
                           !(__builtin_popcountll(regs_get(of, words, 0)) & 1),
                           words);
    }
}

/* The field that has a role; NULL: none has. */
static const struct regs_field *
with_role(const struct regs_type *type, unsigned gen, enum regs_role role)
{
    unsigned f;

    for (f = 0; f < type->n_fields; f++) {
        if (type->fields[f].role == role && regs_in(gen, type->fields[f].gens))
            return &type->fields[f];
    }
    return NULL;
}

/* Puts what stands for `value` in a header's role; false: it does not fit. */
static bool
put_role(const struct regs_field *field, uint64_t value, uint32_t *words)
{
    uint64_t stored = value - (uint64_t)(int64_t)field->bias;

    if ((int64_t)value < field->bias || !holds(field, stored))
        return false;
    put_field_bits(field, 0, stored, words);
    return true;
}

/* A packet: its own words, and behind a ":" those that follow. */
static bell_status
packet(const struct encode *e, const struct regs_type *type, unsigned gen,
       char **tokens, size_t n_tokens, uint32_t *words, uint32_t *out_n)
{
    const struct regs_field *count = with_role(type, gen, REGS_ROLE_COUNT);
    uint32_t n = regs_dw(type, gen);
    size_t n_fields = 0, i;
    bool has_count = false;
    uint64_t given;

    while (n_fields < n_tokens && strcmp(tokens[n_fields], ":") != 0)
        n_fields++;
    memset(words, 0, n * sizeof(*words));
    put_fixed_fields(type, gen, words);
    BELL_TRY(encode_set_fields(e, type, gen, tokens, n_fields, words));
    *out_n = n;
    if (n_fields < n_tokens)
        BELL_TRY(encode_add_words(e, tokens + n_fields + 1,
                                  n_tokens - n_fields - 1, words, out_n));
    for (i = 0; count && i < n_fields; i++)
        has_count |= strcmp(tokens[i], count->name) == 0; /* the "=" is cut */
    given = has_count ? regs_get(count, words, 0) : 0;
    if (count ? !put_role(count, *out_n - n, words) : *out_n > n)
        return bell_fail(BELL_E_INVALID, "%s cannot have %u words behind it",
                         type->name, *out_n - n);
    if (has_count && given != regs_get(count, words, 0))
        return bell_fail(
            BELL_E_INVALID, "%s.%s is %llu by itself with %u words behind it",
            type->name, count->name,
            (unsigned long long)regs_get(count, words, 0), *out_n - n);
    put_parities(type, gen, words);
    return BELL_OK;
}

/* The header whose addresses begin last before the register's, put to `words`;
 * NULL: none reaches it. */
static const struct regs_type *
put_stream_header(const struct regs_stream *stream, uint32_t address,
                  unsigned slot, uint32_t n_words, uint32_t *words)
{
    const struct regs_type *best = NULL;
    uint32_t try[4], *to = words;
    int32_t best_bias = 0;
    unsigned t, gen = stream->common_gen;

    for (t = 0; t < stream->common->n_types; t++) {
        const struct regs_type *type = &stream->common->types[t];
        const struct regs_field *at, *count, *of_slot;

        if (type->stream != REGS_INC || !regs_in(gen, type->gens) ||
            regs_dw(type, gen) > ARRAY_LEN(try))
            continue;
        at = with_role(type, gen, REGS_ROLE_ADDRESS);
        count = with_role(type, gen, REGS_ROLE_COUNT);
        of_slot = with_role(type, gen, REGS_ROLE_SLOT);
        memset(try, 0, sizeof(try));
        put_fixed_fields(type, gen, try);
        if (!put_role(at, address, try) || !put_role(count, n_words, try) ||
            (of_slot && !put_role(of_slot, slot, try)) ||
            (best && at->bias < best_bias))
            continue;
        put_parities(type, gen, try);
        best = type;
        best_bias = at->bias;
        memcpy(to, try, regs_dw(type, gen) * sizeof(*to));
    }
    return best;
}

static const struct regs_type *
find_type(const struct regs_unit *unit, unsigned gen, const char *name,
          struct nearest *nearest, bool is_register)
{
    unsigned t;

    for (t = 0; t < unit->n_types; t++) {
        const struct regs_type *type = &unit->types[t];
        bool fits = is_register
                        ? type->kind == REGS_REG
                        : type->kind == REGS_BLOCK && type->stream != REGS_NONE;

        if (!fits || !regs_in(gen, type->gens))
            continue;
        if (strcmp(type->name, name) == 0)
            return type;
        nearest_try(nearest, type->name, type->name);
    }
    return NULL;
}

/* What a name of a packet, register or method means here. */
struct meaning {
    const struct regs_type *type;
    unsigned gen, slot, element;
    bool is_packet;
};

/* Whether the name is "UNIT.NAME" of another unit; *name is moved to NAME. A
 * unit's name may be without the vendor's: "nv_host" is HOST, too. */
static bool
is_of_other(const struct regs_unit *unit, const char **name)
{
    const char *dot = strchr(*name, '.'), *own = strchr(unit->name, '_');
    size_t n = dot ? (size_t)(dot - *name) : 0;

    if (!dot)
        return false;
    own = own && strncmp(*name, unit->name, n) != 0 ? own + 1 : unit->name;
    if (strlen(own) != n || strncasecmp(own, *name, n) != 0)
        return true;
    *name = dot + 1;
    return false;
}

/* Whether the card's other queue has such a packet: AMD's have each their own
 * words. */
static bool
is_of_other_queue(const struct encode *e, const char *name)
{
    struct nearest nearest = {.name = name};
    struct regs_stream stream = {0};

    return decode_queue_init_other(&stream, e->queue) &&
           find_type(stream.common, stream.common_gen, name, &nearest, false);
}

static bell_status
find_meaning(const struct encode *e, const struct regs_stream *stream,
             char *name, struct meaning *out)
{
    struct nearest nearest = {.name = name};
    const char *bare;
    bool is_element;
    unsigned i;

    *out = (struct meaning){.gen = stream->common_gen, .is_packet = true};
    BELL_TRY(cut_element(name, &out->element));
    is_element = out->element != UINT_MAX;
    if (!is_element)
        out->element = 0;
    bare = name;
    if (!is_of_other(stream->common, &bare))
        out->type = find_type(stream->common, out->gen, bare, &nearest, false);
    if (out->type && !is_element)
        return BELL_OK;
    out->is_packet = false;
    for (i = 0; i <= REGS_SLOTS; i++) {
        const struct regs_unit *unit =
            i == 0 ? stream->common : stream->slots[i - 1];

        bare = name;
        if (!unit || is_of_other(unit, &bare))
            continue;
        out->slot = i ? i - 1 : 0;
        out->gen = i == 0 ? stream->common_gen : stream->slot_gens[i - 1];
        out->type = find_type(unit, out->gen, bare, &nearest, true);
        if (out->type && out->element >= out->type->count)
            return bell_fail(BELL_E_INVALID, "%s has %u elements",
                             out->type->name, out->type->count);
        if (out->type)
            return BELL_OK;
    }
    if (is_of_other_queue(e, name))
        return bell_fail(BELL_E_INVALID,
                         "no packet '%s' on this queue of %s: its %s queue has "
                         "it",
                         name, e->queue->dev->info.arch,
                         e->queue->kind == HCQ_QUEUE_COPY ? "compute" : "copy");
    if (nearest.best)
        return bell_fail(BELL_E_INVALID,
                         "no packet, register or method '%s' of %s; did you "
                         "mean '%s'?",
                         name, e->queue->dev->info.arch, nearest.best);
    return bell_fail(BELL_E_INVALID, "no packet, register or method '%s' of %s",
                     name, e->queue->dev->info.arch);
}

static bell_status
init_stream(const struct encode *e, struct regs_stream *stream)
{
    *stream = (struct regs_stream){0};
    if (decode_queue_init(stream, e->queue))
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: nothing is known of its queues' words",
                     e->queue->dev->info.name);
}

/* A register: the header, and its words. */
static bell_status
write_register(const struct encode *e, const struct regs_stream *stream,
               const struct meaning *is, char **tokens, size_t n_tokens,
               uint32_t *words, uint32_t *out_n)
{
    uint32_t n = regs_dw(is->type, is->gen), n_given = 0;
    uint32_t given[HCQ_WORDS_MAX] = {0};
    uint32_t address = is->type->address + is->element * is->type->stride;
    const struct regs_type *header;

    if (n_tokens && strcmp(tokens[0], "=") == 0) {
        BELL_TRY(
            encode_add_words(e, tokens + 1, n_tokens - 1, given, &n_given));
        if (n_given == 0 || n_given > n)
            return bell_fail(BELL_E_INVALID, "%s has %u words", is->type->name,
                             n);
        n = n_given;
    } else {
        put_fixed_fields(is->type, is->gen, given);
        BELL_TRY(
            encode_set_fields(e, is->type, is->gen, tokens, n_tokens, given));
    }
    header = put_stream_header(stream, address, is->slot, n, words);
    if (!header)
        return bell_fail(BELL_E_INVALID, "%s: no packet writes to 0x%x",
                         is->type->name, address);
    *out_n = regs_dw(header, stream->common_gen);
    memcpy(words + *out_n, given, n * sizeof(*words));
    *out_n += n;
    return BELL_OK;
}

bell_status
encode_packet(const struct encode *e, char **tokens, size_t n_tokens,
              uint32_t words[HCQ_WORDS_MAX], uint32_t *out_n)
{
    struct regs_stream stream;
    struct meaning is;

    BELL_TRY(init_stream(e, &stream));
    BELL_TRY(find_meaning(e, &stream, tokens[0], &is));
    if (is.is_packet)
        return packet(e, is.type, is.gen, tokens + 1, n_tokens - 1, words,
                      out_n);
    return write_register(e, &stream, &is, tokens + 1, n_tokens - 1, words,
                          out_n);
}

/* ---- descriptors --------------------------------------------------------- */

static const struct regs_type *
find_layout(const struct regs_unit *unit, const char *name,
            struct nearest *nearest)
{
    unsigned t;

    for (t = 0; t < unit->n_types; t++) {
        if (unit->types[t].kind == REGS_REG)
            continue;
        if (strcmp(unit->types[t].name, name) == 0)
            return &unit->types[t];
        nearest_try(nearest, unit->types[t].name, unit->types[t].name);
    }
    return NULL;
}

bell_status
encode_layout(const struct encode *e, const char *name,
              const struct regs_type **out_type, unsigned *out_gen)
{
    struct nearest nearest = {.name = name};
    const struct regs_unit *units[2];
    unsigned i, n, gens[2];

    n = decode_queue_layouts(e->queue, units, gens);
    for (i = 0; i < n; i++) {
        *out_type = find_layout(units[i], name, &nearest);
        *out_gen = gens[i];
        if (*out_type)
            return BELL_OK;
    }
    if (nearest.best)
        return bell_fail(BELL_E_INVALID,
                         "no descriptor '%s'; did you mean '%s'?", name,
                         nearest.best);
    return bell_fail(BELL_E_INVALID, "no descriptor '%s' of %s", name,
                     e->queue->dev->info.arch);
}

/* ---- what there is ------------------------------------------------------- */

bell_status
encode_find(const struct encode *e, char *name,
            const struct regs_type **out_type, unsigned *out_gen)
{
    struct regs_stream stream;
    struct meaning is;
    char why[BELL_ERROR_MESSAGE];

    BELL_TRY(init_stream(e, &stream));
    if (find_meaning(e, &stream, name, &is) == BELL_OK) {
        *out_type = is.type;
        *out_gen = is.gen;
        return BELL_OK;
    }
    snprintf(why, sizeof(why), "%s", bell_error_last()->message);
    if (encode_layout(e, name, out_type, out_gen) == BELL_OK)
        return BELL_OK;
    return bell_fail(BELL_BAD_NAME, "no descriptor '%s', and %s", name, why);
}

static void
each_of_unit(const struct regs_unit *unit, unsigned gen, bool in_memory,
             encode_type_fn *tell, void *user)
{
    unsigned t;

    for (t = 0; unit && t < unit->n_types; t++) {
        const struct regs_type *type = &unit->types[t];
        bool fits = in_memory
                        ? type->kind != REGS_REG
                        : type->kind == REGS_REG || (type->kind == REGS_BLOCK &&
                                                     type->stream != REGS_NONE);

        if (fits && regs_in(gen, type->gens))
            tell(user, type);
    }
}

bell_status
encode_each(const struct encode *e, encode_type_fn *tell, void *user)
{
    const struct regs_unit *units[2];
    struct regs_stream stream;
    unsigned gens[2], i, n;

    BELL_TRY(init_stream(e, &stream));
    each_of_unit(stream.common, stream.common_gen, false, tell, user);
    for (i = 0; i < REGS_SLOTS; i++)
        each_of_unit(stream.slots[i], stream.slot_gens[i], false, tell, user);
    n = decode_queue_layouts(e->queue, units, gens);
    for (i = 0; i < n; i++)
        each_of_unit(units[i], gens[i], true, tell, user);
    return BELL_OK;
}
