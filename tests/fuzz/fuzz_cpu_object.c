/* The CPU's object loader with hostile objects: it loads or refuses, and
 * never touches memory outside the object.
 *
 * Built with -fsanitize=fuzzer this is a libFuzzer target. Otherwise it is a
 * program that mutates objects itself, the same way every time:
 *     fuzz_cpu_object ROUNDS OBJECT...
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcq/cpu/cpu_object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static unsigned long n_loaded, n_refused, n_linked;

/* The same to be used as it lies in a file: what is linked is used, if it has
 * the entry. */
static void
try_in_place(uint8_t *copy, size_t size_bytes)
{
    const struct hcq_code_file file = {.map = copy, .fd = -1};
    struct cpu_object object = {.map = NULL};
    uint64_t at = (uint64_t)(uintptr_t)copy;
    bool linked = cpu_object_prelink(copy, size_bytes, at);

    if (!cpu_object_use(&file, copy, size_bytes, "fuzz", "nop", &object))
        return;
    if ((uint8_t *)object.entry < copy ||
        (uint8_t *)object.entry >= copy + size_bytes)
        abort();
    n_linked += linked;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    /* A copy of exactly this size: the sanitizer then sees every access
     * past the end. */
    uint8_t *copy = malloc(size_bytes ? size_bytes : 1);
    struct cpu_object object = {.map = NULL};

    if (!copy)
        return 0;
    memcpy(copy, data, size_bytes);
    if (cpu_object_load(copy, size_bytes, "fuzz", "nop", &object) == BELL_OK) {
        uint8_t *entry = object.entry;

        if (!cpu_object_has_text(&object, (uint64_t)(uintptr_t)entry))
            abort();
        n_loaded++;
        cpu_object_unload(&object);
    } else {
        if (!bell_error_last()->message[0])
            abort();
        n_refused++;
    }
    try_in_place(copy, size_bytes);
    free(copy);
    return 0;
}

#ifndef FUZZ_WITH_LIBFUZZER

static uint32_t random_state;

static uint32_t
next_random(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * below >> 32);
}

static void
put(uint8_t *data, size_t size_bytes, size_t at, uint64_t value, size_t n)
{
    if (at + n <= size_bytes)
        memcpy(data + at, &value, n);
}

/* Values that sit on borders. */
static uint64_t
odd_value(size_t size_bytes)
{
    static const uint64_t values[] = {
        0,        1,          0xff,           0xfff1,     0xfff2,
        0xffff,   0x7fffffff, 0x80000000,     0xffffffff, 0x100000000,
        1u << 28, UINT64_MAX, UINT64_MAX - 7, 1ull << 63, 24};
    uint32_t pick = next_random(sizeof(values) / 8 + 3);

    if (pick < sizeof(values) / 8)
        return values[pick];
    return (uint64_t)size_bytes + next_random(17) - 8;
}

/* Changes a few fields: of the header, of section headers, of symbols and
 * relocations, or anywhere; sometimes cuts the end off. */
static size_t
mutate(uint8_t *data, size_t size_bytes)
{
    uint32_t n = 1 + next_random(4), i;
    uint64_t table;

    memcpy(&table, data + 40, 8);
    for (i = 0; i < n; i++) {
        size_t width = (size_t)1 << next_random(4);

        switch (next_random(6)) {
        case 0:
            put(data, size_bytes, 16 + next_random(48), odd_value(size_bytes),
                width > 2 ? 2 : width);
            break;
        case 1:
        case 2:
            put(data, size_bytes,
                (size_t)table + next_random(40) * 64 + next_random(16) * 4,
                odd_value(size_bytes), width);
            break;
        case 3:
            put(data, size_bytes, next_random((uint32_t)size_bytes) & ~7u,
                odd_value(size_bytes), width);
            break;
        case 4:
            data[next_random((uint32_t)size_bytes)] ^=
                (uint8_t)(1u << next_random(8));
            break;
        default:
            data[next_random((uint32_t)size_bytes)] = (uint8_t)next_random(256);
            break;
        }
    }
    if (next_random(16) == 0)
        return next_random((uint32_t)size_bytes + 1);
    return size_bytes;
}

int
main(int argc, char **argv)
{
    static uint8_t original[1u << 18], data[1u << 18];
    unsigned long rounds, round;
    int i;

    if (argc < 3) {
        fprintf(stderr, "usage: %s ROUNDS OBJECT...\n", argv[0]);
        return 2;
    }
    rounds = strtoul(argv[1], NULL, 10);
    for (i = 2; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        size_t size_bytes, cut;

        if (!file) {
            perror(argv[i]);
            return 1;
        }
        size_bytes = fread(original, 1, sizeof(original), file);
        fclose(file);
        if (size_bytes < 64) {
            fprintf(stderr, "%s: not an object\n", argv[i]);
            return 1;
        }
        LLVMFuzzerTestOneInput(original, size_bytes);
        if (n_loaded != (unsigned long)(i - 1)) {
            fprintf(stderr, "%s: %s\n", argv[i], bell_error_last()->message);
            return 1;
        }
        /* Cut off after every byte. */
        for (cut = 0; cut < size_bytes; cut += cut < 512 ? 1 : 61)
            LLVMFuzzerTestOneInput(original, cut);
        n_loaded = (unsigned long)(i - 1);
    }
    n_loaded = n_refused = 0;
    for (round = 0; round < rounds; round++) {
        FILE *file = fopen(argv[2 + round % (unsigned)(argc - 2)], "rb");
        size_t size_bytes;

        if (!file)
            return 1;
        size_bytes = fread(data, 1, sizeof(data), file);
        fclose(file);
        random_state = (uint32_t)round * 2654435761u;
        LLVMFuzzerTestOneInput(data, mutate(data, size_bytes));
    }
    printf("%lu mutated objects loaded, %lu refused, %lu used in place\n",
           n_loaded, n_refused, n_linked);
    return n_loaded && n_refused ? 0 : 1;
}

#endif
