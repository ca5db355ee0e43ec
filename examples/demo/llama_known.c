/* Which keys of a GGUF file are used, and which make no difference. Any other
 * key under the family's prefix or `tokenizer.` is refused by its name: a model
 * that ignores one would be another model.
 *
 * src: docs/gguf.md of the ggml project, "Standardized key-value pairs", and
 * the names of gguf-py's constants.
 */
#include "examples/demo/llama.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "doorbell/files.h"

/* What a key may say. */
enum want {
    WANT_ANY,     /* it makes no difference */
    WANT_INT,     /* used, as a number of that kind */
    WANT_FLOAT,   /* the same */
    WANT_TEXT,    /* the same */
    WANT_LIST,    /* the same */
    WANT_ZERO,    /* no, or none of them: what is computed */
    WANT_ONE,     /* yes, or times one */
    WANT_NO_MORE, /* 0 or 1: a factor that is absent, or is none */
    WANT_HEAD,    /* elements of a head */
    WANT_TOKENS,  /* rows of the embedding */
    WANT_ROOT,    /* 1 / sqrt(elements of a head) */
    WANT_NAME     /* that text */
};

struct known {
    const char *key; /* behind the prefix; one that ends in . is a prefix */
    enum want want;
    const char *name; /* of WANT_NAME */
};

static const struct known of_family[] = {
    {"attention.head_count", WANT_INT, NULL},
    {"attention.head_count_kv", WANT_INT, NULL},
    {"attention.layer_norm_rms_epsilon", WANT_FLOAT, NULL},
    {"block_count", WANT_INT, NULL},
    {"context_length", WANT_INT, NULL},
    {"embedding_length", WANT_INT, NULL},
    {"feed_forward_length", WANT_INT, NULL},
    {"rope.dimension_count", WANT_INT, NULL},
    {"rope.freq_base", WANT_FLOAT, NULL},
    /* said twice: by a tensor's shape, or by other keys */
    {"attention.key_length", WANT_HEAD, NULL},
    {"attention.value_length", WANT_HEAD, NULL},
    {"vocab_size", WANT_TOKENS, NULL},
    /* what is computed anyway */
    {"attention.causal", WANT_ONE, NULL},
    {"attention.clamp_kqv", WANT_ZERO, NULL},
    {"attention.max_alibi_bias", WANT_ZERO, NULL},
    {"attention.scale", WANT_ROOT, NULL},
    {"attention.sliding_window", WANT_ZERO, NULL},
    {"embedding_scale", WANT_ONE, NULL},
    {"expert_count", WANT_ZERO, NULL},
    {"expert_used_count", WANT_ZERO, NULL},
    {"logit_scale", WANT_ONE, NULL},
    {"residual_scale", WANT_ONE, NULL},
    {"rope.scale_linear", WANT_NO_MORE, NULL},
    {"rope.scaling.factor", WANT_NO_MORE, NULL},
    {"rope.scaling.type", WANT_NAME, "none"},
    {"use_parallel_residual", WANT_ZERO, NULL},
    /* the order of rows that converters give this family */
    {"tensor_data_layout", WANT_NAME, "Meta AI original pth"},
    /* how the model was trained; without scaling, nothing follows from it */
    {"rope.scaling.finetuned", WANT_ANY, NULL},
    {"rope.scaling.original_context_length", WANT_ANY, NULL},
};

static const struct known of_tokenizer[] = {
    {"chat_template", WANT_TEXT, NULL},
    {"ggml.add_bos_token", WANT_INT, NULL},
    {"ggml.bos_token_id", WANT_INT, NULL},
    {"ggml.eos_token_id", WANT_INT, NULL},
    {"ggml.eot_token_id", WANT_INT, NULL},
    {"ggml.merges", WANT_LIST, NULL},
    {"ggml.model", WANT_TEXT, NULL},
    {"ggml.pre", WANT_TEXT, NULL},
    {"ggml.scores", WANT_LIST, NULL},
    {"ggml.token_type", WANT_LIST, NULL},
    {"ggml.tokens", WANT_LIST, NULL},
    /* what is done anyway */
    {"ggml.add_eos_token", WANT_ZERO, NULL},
    {"ggml.add_sep_token", WANT_ZERO, NULL},
    {"ggml.remove_extra_whitespaces", WANT_ZERO, NULL},
    /* templates by other names: the one without is used */
    {"chat_template.", WANT_ANY, NULL},
    {"chat_templates", WANT_ANY, NULL},
    /* the same tokenizer once more, for other programs */
    {"huggingface.json", WANT_ANY, NULL},
    /* tokens that no text of ours gets: batches are not padded, nothing is
     * masked, classified, separated or filled in */
    {"ggml.cls_token_id", WANT_ANY, NULL},
    {"ggml.fim_mid_token_id", WANT_ANY, NULL},
    {"ggml.fim_pad_token_id", WANT_ANY, NULL},
    {"ggml.fim_pre_token_id", WANT_ANY, NULL},
    {"ggml.fim_rep_token_id", WANT_ANY, NULL},
    {"ggml.fim_sep_token_id", WANT_ANY, NULL},
    {"ggml.fim_suf_token_id", WANT_ANY, NULL},
    {"ggml.mask_token_id", WANT_ANY, NULL},
    {"ggml.middle_token_id", WANT_ANY, NULL},
    {"ggml.padding_token_id", WANT_ANY, NULL},
    {"ggml.prefix_token_id", WANT_ANY, NULL},
    {"ggml.seperator_token_id", WANT_ANY, NULL}, /* as converters spell it */
    {"ggml.separator_token_id", WANT_ANY, NULL},
    {"ggml.suffix_token_id", WANT_ANY, NULL},
};
/* SentencePiece begins a text with a space, and has a token for what it does
 * not know; byte-level BPE does neither. */
static const struct known of_pieces[] = {
    {"ggml.add_space_prefix", WANT_ONE, NULL},
    {"ggml.unknown_token_id", WANT_ZERO, NULL},
};
static const struct known of_bytes[] = {
    {"ggml.add_space_prefix", WANT_ZERO, NULL},
    {"ggml.unknown_token_id", WANT_ANY, NULL},
};

static const struct known *
find_known(const struct known *rows, size_t n, const char *key)
{
    size_t i, size;

    for (i = 0; i < n; i++) {
        size = strlen(rows[i].key);
        if (strcmp(rows[i].key, key) == 0 ||
            (rows[i].key[size - 1] == '.' &&
             strncmp(rows[i].key, key, size) == 0))
            return &rows[i];
    }
    return NULL;
}

/* The number that a key is to be; false: it is not a number. */
static bool
wanted_number(enum want want, const struct llama_shape *s, double *out)
{
    int64_t head = s ? s->dim / s->n_heads : 0;

    switch (want) {
    case WANT_ZERO:
        *out = 0;
        return true;
    case WANT_ONE:
    case WANT_NO_MORE:
        *out = 1;
        return true;
    case WANT_HEAD:
        *out = (double)head;
        return true;
    case WANT_TOKENS:
        *out = s ? (double)s->n_tokens : 0;
        return true;
    case WANT_ROOT:
        *out = 1 / sqrt((double)head);
        return true;
    case WANT_ANY:
    case WANT_INT:
    case WANT_FLOAT:
    case WANT_TEXT:
    case WANT_LIST:
    case WANT_NAME:
    default:
        return false;
    }
}

/* Whether the key's value is of the kind that is used; a text is taken. */
static bool
has_kind(const struct bell_file *file, const char *key, enum want want,
         const char **out_text, size_t *out_n)
{
    bool is_text = bell_file_str(file, key, out_text, out_n);
    int64_t number;
    double real;

    if (want == WANT_INT)
        return bell_file_int(file, key, &number);
    if (want == WANT_FLOAT)
        return bell_file_float(file, key, &real);
    if (want == WANT_LIST)
        return !is_text && !bell_file_float(file, key, &real);
    return is_text || want == WANT_ANY;
}

static BELL_MUST_CHECK bell_status
check_value(const struct bell_file *file, const char *path, const char *key,
            const struct known *known, const struct llama_shape *s)
{
    double want, got = NAN;
    const char *text = "";
    size_t n = 0;

    if (wanted_number(known->want, s, &want)) {
        bool is_number = bell_file_float(file, key, &got);
        if (is_number && (fabs(got - want) <= 1e-6 * fabs(want) ||
                          (known->want == WANT_NO_MORE && got == 0)))
            return BELL_OK;
        if (is_number)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: the key '%.200s' is %.9g; only %.9g is "
                             "supported",
                             path, key, got, want);
        return bell_fail(BELL_E_IO, "%s: the key '%.200s' is not a number",
                         path, key);
    }
    if (!has_kind(file, key, known->want, &text, &n))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: the key '%.200s' is of a kind that is not "
                         "supported",
                         path, key);
    if (known->want == WANT_NAME &&
        (n != strlen(known->name) || memcmp(text, known->name, n) != 0))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: the key '%.200s' is '%.*s'; only '%s' is "
                         "supported",
                         path, key, (int)(n < 40 ? n : 40), text, known->name);
    return BELL_OK;
}

bell_status
llama_check_keys(const struct bell_file *file, const char *path,
                 const char *family, const struct llama_shape *shape)
{
    char prefix[32];
    const char *key;
    size_t size;
    uint32_t i;

    size = (size_t)snprintf(prefix, sizeof(prefix), "%s.", family);
    for (i = 0; (key = bell_file_key(file, i)); i++) {
        const struct known *known;
        if (strncmp(key, prefix, size) != 0)
            continue;
        known = find_known(of_family, ARRAY_LEN(of_family), key + size);
        if (!known)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: the key '%.200s' is not supported: without "
                             "it this would be another model",
                             path, key);
        BELL_TRY(check_value(file, path, key, known, shape));
    }
    return BELL_OK;
}

bell_status
llama_check_tokenizer_keys(const struct bell_file *file, const char *path,
                           bool is_bytes)
{
    static const char prefix[] = "tokenizer.";
    const char *key;
    uint32_t i;

    for (i = 0; (key = bell_file_key(file, i)); i++) {
        const char *rest = key + sizeof(prefix) - 1;
        const struct known *known;
        if (strncmp(key, prefix, sizeof(prefix) - 1) != 0)
            continue;
        known = find_known(of_tokenizer, ARRAY_LEN(of_tokenizer), rest);
        if (!known)
            known = is_bytes
                        ? find_known(of_bytes, ARRAY_LEN(of_bytes), rest)
                        : find_known(of_pieces, ARRAY_LEN(of_pieces), rest);
        if (!known)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: the key '%.200s' is not supported: without "
                             "it texts would be other tokens",
                             path, key);
        BELL_TRY(check_value(file, path, key, known, NULL));
    }
    return BELL_OK;
}
