/* Steps of tokenizer.json: normalisers, pre-tokenizers, decoders. */
#ifndef BELL_TENSOR_TEXT_HF_STEPS_H
#define BELL_TENSOR_TEXT_HF_STEPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct bell_tokenizer;
struct cJSON;

/* Every key of the object is among `known`, which has spaces between. */
BELL_MUST_CHECK bell_status hf_check_keys(const struct bell_tokenizer *t,
                                          const struct cJSON *object,
                                          const char *what, const char *known);
bool hf_flag(const struct cJSON *object, const char *key, bool otherwise);
/* A string, copied to the tokenizer's arena; absent or null: `otherwise`,
 * which may be NULL, for none. */
BELL_MUST_CHECK bell_status hf_text(struct bell_tokenizer *t,
                                    const struct cJSON *object, const char *key,
                                    const char *otherwise,
                                    const char **out_text, size_t *out_n);
BELL_MUST_CHECK bell_status hf_size(const struct bell_tokenizer *t,
                                    const struct cJSON *object, const char *key,
                                    size_t most, size_t otherwise, size_t *out);

/* NULL or null: there are none. */
BELL_MUST_CHECK bell_status hf_normalizers(struct bell_tokenizer *t,
                                           const struct cJSON *step);
BELL_MUST_CHECK bell_status hf_splits(struct bell_tokenizer *t,
                                      const struct cJSON *step);
BELL_MUST_CHECK bell_status hf_decoders(struct bell_tokenizer *t,
                                        const struct cJSON *step);

#endif
