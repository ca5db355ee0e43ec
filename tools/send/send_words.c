/* Packets, registers and descriptors by their names. */
#include <string.h>

#include "base/bits.h"
#include "tools/send/send.h"
#include "tools/tools.h"

static bell_status
number_of(const void *user, const char *text, uint64_t *out)
{
    BELL_TRY(send_number(user, text, out));
    return BELL_OK;
}

static struct encode
encoder(const struct send *s)
{
    return (struct encode){.queue = s->queue, .number = number_of, .user = s};
}

bell_status
send_add_words(const struct send *s, char **tokens, size_t n_tokens,
               uint32_t *words, uint32_t *n)
{
    struct encode e = encoder(s);

    return encode_add_words(&e, tokens, n_tokens, words, n);
}

bell_status
send_set_fields(const struct send *s, const struct regs_type *type,
                unsigned gen, char **fields, size_t n_fields, uint32_t *words)
{
    struct encode e = encoder(s);

    return encode_set_fields(&e, type, gen, fields, n_fields, words);
}

bell_status
send_packet(const struct send *s, char **tokens, size_t n_tokens,
            uint32_t words[HCQ_WORDS_MAX], uint32_t *out_n)
{
    struct encode e = encoder(s);

    return encode_packet(&e, tokens, n_tokens, words, out_n);
}

bell_status
send_layout(const struct send *s, const char *name,
            const struct regs_type **out_type, unsigned *out_gen)
{
    struct encode e = encoder(s);

    return encode_layout(&e, name, out_type, out_gen);
}

/* ---- what there is ------------------------------------------------------- */

static void
say_field(struct send *s, const struct regs_field *field)
{
    char known[400] = "", array[32] = "";
    size_t used = 0;
    unsigned v;

    for (v = 0; field->kind == REGS_ENUM && v < field->values->n_values; v++) {
        const char *name = field->values->values[v].name;

        if (used + strlen(name) + 3 < sizeof(known))
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                     used ? ", " : ": ", name);
    }
    if (field->is_array)
        snprintf(array, sizeof(array), "[0 to %u]", field->count - 1u);
    if (field->is_const)
        snprintf(known, sizeof(known), ", always 0x%llx",
                 (unsigned long long)field->value);
    else if (field->role == REGS_ROLE_COUNT || field->role == REGS_ROLE_PARITY)
        snprintf(known, sizeof(known), ", by itself");
    tool_say(s->json, "  %s%s, %u bits%s", field->name, array,
             encode_bits(field), known);
}

bell_status
send_fields(struct send *s, char *name)
{
    struct encode e = encoder(s);
    const struct regs_type *type;
    unsigned gen, f;

    BELL_TRY(encode_find(&e, name, &type, &gen));
    tool_say(s->json, "%s, %u words", type->name, regs_dw(type, gen));
    for (f = 0; f < type->n_fields; f++) {
        if (regs_in(gen, type->fields[f].gens))
            say_field(s, &type->fields[f]);
    }
    return BELL_OK;
}
