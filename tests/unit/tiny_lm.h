/* A small language model with random weights: as a GGUF file, and its logits by
 * plain loops in double. */
#ifndef BELL_TESTS_TINY_LM_H
#define BELL_TESTS_TINY_LM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TINY_DIM     12
#define TINY_HIDDEN  10
#define TINY_LAYERS  4
#define TINY_HEADS   4
#define TINY_KV      2
#define TINY_HEAD    6
#define TINY_TOKENS  23
#define TINY_CONTEXT 64

/* What a model has beside the plain parts. */
struct tiny_kind {
    const char *family; /* general.architecture */
    bool rotates_neighbours, has_biases, has_head_norms, has_freqs;
    bool is_sandwich;   /* norms behind the blocks, gelu, and a scaled table */
    int window, period; /* of `period` layers the last has no window */
    double attention_cap, logit_cap;
};

struct tiny_lm {
    struct tiny_kind kind;
    uint64_t seed;
};

/* The logits behind the last of n tokens. */
void tiny_logits(const struct tiny_lm *lm, const int32_t *tokens, size_t n,
                 double *out);
/* Writes the file; `more`: the name of a tensor of one element that it has
 * besides, and of a key "FAMILY.NAME" of value 1, or NULL. `damages`: a norm
 * has a NaN. False: it cannot. */
bool tiny_write(const struct tiny_lm *lm, const char *path,
                const char *more_tensor, const char *more_key, bool damages);
/* Writes config.json and model.safetensors into a folder that is there, under
 * transformers' names; `more_key`: as a line of the configuration, or NULL. The
 * kind rotates halves, and has neither freqs nor a period other than 2. False:
 * it cannot. */
bool tiny_write_folder(const struct tiny_lm *lm, const char *folder,
                       const char *more_key);

#endif
