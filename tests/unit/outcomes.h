/* What comes of many inputs that differ little from a sound one, as one number:
 * whoever changes what is taken, what is refused or how, must mean it. With
 * OUTCOMES in the environment each is printed, to be compared with those of
 * another commit.
 */
#ifndef BELL_TESTS_UNIT_OUTCOMES_H
#define BELL_TESTS_UNIT_OUTCOMES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct outcomes {
    uint64_t hash;
    uint32_t n;
};

/* FNV-1a: nothing of what is tested. */
static inline uint64_t
outcomes_hash(const void *data, size_t n, uint64_t hash)
{
    const uint8_t *bytes = data;
    size_t i;

    for (i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return hash;
}

static inline void __attribute__((format(printf, 2, 3)))
outcome(struct outcomes *o, const char *fmt, ...)
{
    char text[4096];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    o->hash = outcomes_hash(text, strlen(text) + 1, o->hash);
    if (getenv("OUTCOMES"))
        fprintf(stderr, "%u: %s\n", o->n, text);
    o->n++;
}

static inline void
outcomes_are(const struct outcomes *o, uint64_t expected)
{
    if (o->hash != expected)
        fail_msg("the %u outcomes are 0x%016llx, were 0x%016llx", o->n,
                 (unsigned long long)o->hash, (unsigned long long)expected);
}

/* Every byte of the data with each of its bits turned, one more and one less,
 * and the data cut off before it. */
static inline void
outcomes_vary(const void *data, size_t n,
              void (*look)(struct outcomes *o, const uint8_t *data, size_t n),
              struct outcomes *o)
{
    uint8_t *copy = malloc(n);
    size_t i;
    unsigned k;

    memcpy(copy, data, n);
    look(o, copy, n);
    for (i = 0; i < n; i++) {
        uint8_t was = copy[i];

        look(o, copy, i);
        for (k = 0; k < 10; k++) {
            copy[i] = (uint8_t)(k < 8    ? was ^ 1u << k
                                : k == 8 ? was + 1u
                                         : was - 1u);
            look(o, copy, n);
        }
        copy[i] = was;
    }
    free(copy);
}

#endif
