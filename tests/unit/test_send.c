/* tools/send: every packet, register and descriptor with random fields, put
 * together from their names, decoded, and put together again from what the
 * decoder prints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/decode/decode_queue.h"
#include "hcq/hcq_backend.h"
#include "tools/send/send.h"
#include "tools/tools.h"

#define TOKENS_MAX 128
#define TOKEN_MAX  96

static uint64_t
draw(uint64_t *x)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return *x >> 11;
}

/* Never called: lines are of send_fields alone. */
void
tool_say(struct json *lines, const char *fmt, ...)
{
    (void)lines;
    (void)fmt;
    fail();
}

/* ---- the lines that a decoder prints ---- */

struct lines {
    char text[4][1024];
    unsigned n, n_wrong;
};

static void
keep_line(void *user, const char *line)
{
    struct lines *lines = user;

    assert_true(lines->n < ARRAY_LEN(lines->text));
    snprintf(lines->text[lines->n++], sizeof(lines->text[0]), "%s", line);
}

static void
keep_wrong(void *user, const char *line)
{
    struct lines *lines = user;

    print_error("%s\n", line);
    lines->n_wrong++;
}

static void
decode(const struct send *s, const uint32_t *words, uint32_t n,
       struct lines *lines)
{
    struct regs_stream stream = {
        .line = keep_line,
        .wrong = keep_wrong,
        .user = lines,
    };

    memset(lines, 0, sizeof(*lines));
    assert_true(decode_queue_init(&stream, s->queue));
    assert_int_equal(regs_decode_stream(&stream, words, n), 0);
    assert_int_equal(lines->n_wrong, 0);
}

/* ---- tokens ---- */

struct tokens {
    char text[TOKENS_MAX][TOKEN_MAX];
    char *at[TOKENS_MAX];
    size_t n;
};

static void add_token(struct tokens *tokens, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
add_token(struct tokens *tokens, const char *fmt, ...)
{
    char *text = tokens->text[tokens->n];
    va_list args;

    assert_true(tokens->n < TOKENS_MAX);
    va_start(args, fmt);
    vsnprintf(text, TOKEN_MAX, fmt, args);
    va_end(args);
    tokens->at[tokens->n++] = text;
}

static unsigned
stored_bits(const struct regs_field *field)
{
    unsigned n = 0, p;

    for (p = 0; p < field->n_parts; p++)
        n += field->parts[p].n;
    return n;
}

/* Fields of the type with values that they can have; what follows a packet is
 * drawn too. */
static void
draw_fields(uint64_t *x, const struct regs_type *type, unsigned gen,
            struct tokens *tokens)
{
    unsigned f, i, n;
    uint64_t value;

    for (f = 0; f < type->n_fields; f++) {
        const struct regs_field *field = &type->fields[f];

        if (!regs_in(gen, field->gens) || field->is_const ||
            field->role == REGS_ROLE_COUNT || field->role == REGS_ROLE_PARITY ||
            field->role == REGS_ROLE_BIND || field->role == REGS_ROLE_SLOT)
            continue;
        n = stored_bits(field);
        for (i = 0; i < field->count && i < 2; i++) {
            value = draw(x) % 3 ? draw(x) ^ draw(x) << 32 : UINT64_MAX;
            value = n == 64 ? value : value & ((UINT64_C(1) << n) - 1);
            if (field->kind == REGS_INT)
                value = (uint64_t)regs_signed(value, n);
            value <<= field->shift;
            if (field->is_array)
                add_token(tokens, "%s[%u]=0x%llx", field->name, i,
                          (unsigned long long)value);
            else
                add_token(tokens, "%s=0x%llx", field->name,
                          (unsigned long long)value);
        }
    }
}

/* The name and fields of a decoded line. */
static void
take_line(char *line, const char *unit, const char *name, bool is_packet,
          bool has_count, struct tokens *tokens)
{
    char *at = strstr(line, name), *save = NULL, *token;

    assert_non_null(at);
    add_token(tokens, "%s.%s", unit, name ? name : "?");
    at += strlen(name);
    if (!is_packet) {
        at = strchr(at, '{');
        assert_non_null(at);
        at++;
        at[strcspn(at, "}")] = '\0';
    }
    for (token = strtok_r(at, " ", &save); token;
         token = strtok_r(NULL, " ", &save)) {
        if (strchr(token, '=') && !strstr(token, "PARITY=") &&
            !(has_count && strncmp(token, "COUNT=", 6) == 0))
            add_token(tokens, "%s", token);
    }
}

/* ---- every type of a queue ---- */

static bool
is_for_words(const struct regs_type *type, unsigned gen)
{
    return regs_in(gen, type->gens) &&
           (type->kind == REGS_REG ||
            (type->kind == REGS_BLOCK && type->stream == REGS_BODY));
}

static void
check_type(uint64_t *x, const struct send *s, const struct regs_unit *unit,
           const struct regs_type *type, unsigned gen)
{
    static struct tokens tokens, again;
    static struct lines lines;
    uint32_t words[HCQ_WORDS_MAX], other[HCQ_WORDS_MAX], n, n_other, i;
    bool is_packet = type->kind == REGS_BLOCK, has_count = false;
    unsigned f;

    for (f = 0; f < type->n_fields; f++) {
        if (regs_in(gen, type->fields[f].gens))
            has_count |= type->fields[f].role == REGS_ROLE_COUNT;
        if (type->fields[f].role == REGS_ROLE_BIND)
            return; /* it changes what is read next */
    }
    tokens.n = again.n = 0;
    add_token(&tokens, "%s.%s", unit->name, type->name);
    draw_fields(x, type, gen, &tokens);
    if (is_packet && has_count) {
        add_token(&tokens, ":");
        for (i = 0; i < 5; i++)
            add_token(&tokens, "0x%x", (unsigned)draw(x));
    }
    if (send_packet(s, tokens.at, tokens.n, words, &n) != BELL_OK) {
        print_error("%s: %s\n", type->name, bell_error_last()->message);
        fail();
    }
    decode(s, words, n, &lines);
    take_line(lines.text[lines.n - 1], unit->name, type->name, is_packet,
              has_count, &again);
    if (is_packet && has_count) {
        add_token(&again, ":");
        for (i = n - 5; i < n; i++)
            add_token(&again, "0x%x", words[i]);
    }
    if (send_packet(s, again.at, again.n, other, &n_other) != BELL_OK) {
        print_error("%s: %s\n", type->name, bell_error_last()->message);
        fail();
    }
    if (n != n_other || memcmp(words, other, n * sizeof(words[0])) != 0)
        print_error("%s\n", type->name);
    assert_int_equal(n, n_other);
    assert_memory_equal(words, other, n * sizeof(words[0]));
}

static unsigned
check_unit(uint64_t *x, const struct send *s, const struct regs_unit *unit,
           unsigned gen)
{
    unsigned t, i, n = 0;

    for (t = 0; unit && t < unit->n_types; t++) {
        if (!is_for_words(&unit->types[t], gen))
            continue;
        for (i = 0; i < 20; i++)
            check_type(x, s, unit, &unit->types[t], gen);
        n++;
    }
    return n;
}

static const struct {
    const char *arch;
    enum hcq_words words;
    unsigned n_types; /* at least */
} queues[] = {
    {"sm_80", HCQ_WORDS_NV, 60},    {"sm_90", HCQ_WORDS_NV, 60},
    {"sm_120", HCQ_WORDS_NV, 60},   {"gfx906", HCQ_WORDS_PM4, 25},
    {"gfx942", HCQ_WORDS_PM4, 25},  {"gfx1010", HCQ_WORDS_PM4, 25},
    {"gfx1030", HCQ_WORDS_PM4, 25}, {"gfx1100", HCQ_WORDS_PM4, 25},
    {"gfx1201", HCQ_WORDS_PM4, 25}, {"gfx942", HCQ_WORDS_SDMA, 9},
    {"gfx1010", HCQ_WORDS_SDMA, 9}, {"gfx1030", HCQ_WORDS_SDMA, 9},
    {"gfx1100", HCQ_WORDS_SDMA, 9}, {"gfx1201", HCQ_WORDS_SDMA, 9},
    {"a630", HCQ_WORDS_PKT7, 30},   {"a740", HCQ_WORDS_PKT7, 30},
};

static void
test_every_packet(void **state)
{
    struct hcq_device dev = {0};
    struct hcq_queue queue = {.dev = &dev};
    struct send s = {.dev = &dev, .queue = &queue};
    uint64_t x = 1;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(queues); i++) {
        struct regs_stream stream = {0};
        unsigned n, k;

        snprintf(dev.info.arch, sizeof(dev.info.arch), "%s", queues[i].arch);
        queue.words = (uint8_t)queues[i].words;
        assert_true(decode_queue_init(&stream, &queue));
        n = check_unit(&x, &s, stream.common, stream.common_gen);
        for (k = 0; k < REGS_SLOTS; k++)
            n += check_unit(&x, &s, stream.slots[k], stream.slot_gens[k]);
        print_message("%s: %u\n", queues[i].arch, n);
        assert_true(n >= queues[i].n_types);
    }
}

/* ---- numbers ---- */

static void
test_numbers(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } rows[] = {
        {"0", 0},
        {"0x1f", 31},
        {"-1", UINT64_MAX},
        {"2+3*4", 20},
        {"1<<63", UINT64_C(1) << 63},
        {"x", 0x1234567890},
        {"x>>32", 0x12},
        {"x&0xffffffff", 0x34567890},
        {"x.y|1", 9},
        {"x-x.y", 0x1234567888},
    };
    static const char *const wrong[] = {
        "",   "y",   "1+", "+1",   "1 ",  "08",  "0x",    "1/2",  "1<2",
        "1>", "x..", "X",  "1++1", "--1", "1<<", "1<<64", "1<<-1"};
    struct send s = {0};
    uint64_t value;
    size_t i;

    (void)state;
    assert_int_equal(send_define(&s, "x", 0x1234567890), BELL_OK);
    assert_int_equal(send_define(&s, "x", 1), BELL_E_INVALID);
    assert_int_equal(send_define(&s, "x.y", 8), BELL_OK);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(send_number(&s, rows[i].text, &value), BELL_OK);
        assert_true(value == rows[i].value);
    }
    for (i = 0; i < ARRAY_LEN(wrong); i++) {
        if (send_number(&s, wrong[i], &value) == BELL_OK) {
            print_error("'%s'\n", wrong[i]);
            fail();
        }
    }
    free(s.symbols);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_packet),
        cmocka_unit_test(test_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
