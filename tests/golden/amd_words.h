/* Packets being built, and the names that the decoder gives to them. Asserts
 * with cmocka, which is included before. */
#ifndef BELL_TESTS_GOLDEN_AMD_WORDS_H
#define BELL_TESTS_GOLDEN_AMD_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "hcq/regs.h"

struct push {
    uint32_t w[256];
    size_t n;
};

/* Room for n words. */
static inline uint32_t *
push_room(struct push *p, size_t n)
{
    uint32_t *at = p->w + p->n;

    assert_true(n <= sizeof(p->w) / 4 - p->n);
    p->n += n;
    return at;
}

#define EXPECT(push, ...)                                                      \
    do {                                                                       \
        static const uint32_t want[] = {__VA_ARGS__};                          \
        expect_words(&(push), want, sizeof(want) / 4);                         \
    } while (0)

static inline void
expect_words(const struct push *p, const uint32_t *want, size_t n)
{
    size_t i;

    for (i = 0; i < n && i < p->n; i++) {
        if (p->w[i] != want[i])
            fail_msg("word %zu is %08x, not %08x", i, p->w[i], want[i]);
    }
    assert_int_equal(p->n, n);
}

/* The names of packets, each with a space behind it. */
struct names {
    char text[1024];
};

static inline void
add_name(void *user, const char *line)
{
    struct names *names = user;
    char name[64];

    if (sscanf(line, "%*x: %*x %63s", name) != 1)
        return; /* a register below a packet */
    assert_true(strlen(names->text) + strlen(name) + 2 < sizeof(names->text));
    strcat(names->text, name);
    strcat(names->text, " ");
    assert_null(strstr(line, "reserved"));
}

static inline void
expect_names(const struct regs_unit *unit, unsigned gen, const struct push *p,
             const char *want)
{
    struct names names = {""};
    struct regs_stream stream = {
        .common = unit, .common_gen = gen, .line = add_name, .user = &names};

    assert_int_equal(regs_decode_stream(&stream, p->w, p->n), 0);
    assert_string_equal(names.text, want);
}

#endif
