/* Runs a libFuzzer target without libFuzzer: on each file named, or, with
 * --runs N [--seed S], on N damaged variants of the seed inputs that follow,
 * all of which the target has to accept. Deterministic, for the test suite. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tests/fuzz/fuzz.h"

#define MAX_SEEDS 64
#define MAX_BYTES (1u << 16)

struct input {
    uint8_t *data;
    size_t size;
};

static uint32_t
next_random(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((*state >> 33) % n);
}

static int
read_input(const char *path, struct input *out)
{
    FILE *file = fopen(path, "rb");

    if (!file) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return -1;
    }
    out->data = malloc(MAX_BYTES);
    out->size = out->data ? fread(out->data, 1, MAX_BYTES, file) : 0;
    fclose(file);
    return out->data ? 0 : -1;
}

/* Replaces, inserts, removes or repeats a few bytes. */
static size_t
damage(uint8_t *data, size_t size, uint64_t *state)
{
    uint32_t n = 1 + next_random(state, 6);

    while (n-- && size > 0) {
        size_t at = next_random(state, (uint32_t)size);
        size_t len = 1 + next_random(state, 16);
        if (len > size - at)
            len = size - at;
        switch (next_random(state, 4)) {
        case 0:
            data[at] = (uint8_t)(32 + next_random(state, 96));
            break;
        case 1:
            data[at] = data[next_random(state, (uint32_t)size)];
            break;
        case 2:
            memmove(data + at, data + at + len, size - at - len);
            size -= len;
            break;
        default:
            if (size + len > MAX_BYTES)
                break;
            memmove(data + at + len, data + at, size - at);
            size += len;
            break;
        }
    }
    return size;
}

int
main(int argc, char **argv)
{
    struct input seeds[MAX_SEEDS];
    uint64_t state = 1, n_runs = 0, i;
    uint8_t *work = malloc(MAX_BYTES);
    int n_seeds = 0, arg;

    if (!work)
        return 1;
    for (arg = 1; arg < argc; arg++) {
        if (strcmp(argv[arg], "--runs") == 0 && arg + 1 < argc)
            n_runs = strtoull(argv[++arg], NULL, 10);
        else if (strcmp(argv[arg], "--seed") == 0 && arg + 1 < argc)
            state = strtoull(argv[++arg], NULL, 10);
        else if (n_seeds == MAX_SEEDS ||
                 read_input(argv[arg], &seeds[n_seeds++]) != 0)
            return 2;
    }
    for (i = 0; i < (uint64_t)n_seeds; i++) {
        unsigned n_accepted = fuzz_n_accepted;

        LLVMFuzzerTestOneInput(seeds[i].data, seeds[i].size);
        if (n_runs && fuzz_n_accepted == n_accepted) {
            fprintf(stderr, "seed %d of %d is refused: %s\n", (int)i + 1,
                    n_seeds, bell_error_last()->message);
            return 1;
        }
    }
    for (i = 0; i < n_runs && n_seeds; i++) {
        const struct input *seed =
            &seeds[next_random(&state, (uint32_t)n_seeds)];
        memcpy(work, seed->data, seed->size);
        LLVMFuzzerTestOneInput(work, damage(work, seed->size, &state));
    }
    printf("%d inputs, %llu variants\n", n_seeds, (unsigned long long)n_runs);
    for (arg = 0; arg < n_seeds; arg++)
        free(seeds[arg].data);
    free(work);
    return 0;
}
