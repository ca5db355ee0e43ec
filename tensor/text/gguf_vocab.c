/* Reads the tokenizer of a GGUF file.
 *
 * src: docs/gguf.md of the ggml project, "Tokenizer"; gguf-py's constants for
 * names of keys; llama.cpp's llama-vocab.cpp for what `tokenizer.ggml.pre`
 * names stand for.
 */
#include <float.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/files.h"
#include "tensor/text/text.h"
#include "tensor/text/unicode.h"

#define KEY(name) "tokenizer.ggml." name

/* Keys that are used, or say nothing of how texts become tokens. One that ends
 * with a dot is a prefix. Any other is refused. */
static const char *const known_keys[] = {
    KEY("add_bos_token"),
    KEY("add_eos_token"),
    KEY("add_sep_token"),
    KEY("add_space_prefix"),
    KEY("bos_token_id"),
    KEY("cls_token_id"),
    KEY("eom_token_id"),
    KEY("eos_token_id"),
    KEY("eot_token_id"),
    KEY("fim_mid_token_id"),
    KEY("fim_pad_token_id"),
    KEY("fim_pre_token_id"),
    KEY("fim_rep_token_id"),
    KEY("fim_sep_token_id"),
    KEY("fim_suf_token_id"),
    KEY("mask_token_id"),
    KEY("merges"),
    KEY("middle_token_id"),
    KEY("model"),
    KEY("padding_token_id"),
    KEY("pre"),
    KEY("precompiled_charsmap"),
    KEY("prefix_token_id"),
    KEY("remove_extra_whitespaces"),
    KEY("scores"),
    KEY("separator_token_id"),
    KEY("seperator_token_id"),
    KEY("suffix_token_id"),
    KEY("token_type"),
    KEY("token_type_count"),
    KEY("tokens"),
    KEY("unknown_token_id"),
    "tokenizer.chat_template",
    "tokenizer.chat_template.",
    "tokenizer.chat_templates",
    "tokenizer.huggingface.json",
};

#define GPT2_WORDS                                                             \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"       \
    "\\s+(?!\\S)|\\s+"
#define LLAMA3_WORDS(digits)                                                   \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits       \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT4O_WORDS                                                            \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"              \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"             \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"              \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"             \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|"               \
    "\\s+(?!\\S)|\\s+"

/* How texts are taken apart, by name. */
static const struct words {
    const char *name, *pattern;
    bool digits;   /* each digit is a word first */
    bool whole;    /* a word that is a token is that, whatever the merges */
    bool adds_bos; /* where the file does not say */
} known_words[] = {
    {"gpt-2", GPT2_WORDS, false, false, false},
    {"gpt2", GPT2_WORDS, false, false, false},
    {"phi-2", GPT2_WORDS, false, false, false},
    {"olmo", GPT2_WORDS, false, false, false},
    {"llama-bpe", LLAMA3_WORDS("\\p{N}{1,3}"), false, true, true},
    {"llama3", LLAMA3_WORDS("\\p{N}{1,3}"), false, true, true},
    {"llama-v3", LLAMA3_WORDS("\\p{N}{1,3}"), false, true, true},
    {"qwen2", LLAMA3_WORDS("\\p{N}"), false, false, false},
    {"deepseek-r1-qwen", LLAMA3_WORDS("\\p{N}"), false, false, false},
    {"gpt-4o", GPT4O_WORDS, false, false, false},
    {"smollm", GPT2_WORDS, true, false, false},
    {"starcoder", GPT2_WORDS, true, false, false},
    {"refact", GPT2_WORDS, true, false, false},
    {"command-r", GPT2_WORDS, true, false, false},
    {"codeshell", GPT2_WORDS, true, false, false},
};

struct reader {
    struct bell_tokenizer *t;
    const struct bell_file *file;
};

static bool
has_text(const char *text, size_t n, const char *want)
{
    return n == strlen(want) && memcmp(text, want, n) == 0;
}

static BELL_MUST_CHECK bell_status
check_keys(const struct reader *r)
{
    const char *key;
    uint32_t i;
    size_t k;

    for (i = 0; (key = bell_file_key(r->file, i)); i++) {
        if (strncmp(key, "tokenizer.", 10) != 0)
            continue;
        for (k = 0; k < ARRAY_LEN(known_keys); k++) {
            size_t n = strlen(known_keys[k]);
            if (strcmp(key, known_keys[k]) == 0 ||
                (known_keys[k][n - 1] == '.' &&
                 strncmp(key, known_keys[k], n) == 0))
                break;
        }
        if (k == ARRAY_LEN(known_keys))
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: the key '%.200s' is not supported: without "
                             "it texts would be other tokens",
                             r->t->path, key);
    }
    return BELL_OK;
}

static bool
get_flag(const struct reader *r, const char *key, bool otherwise)
{
    int64_t value;

    return bell_file_int(r->file, key, &value) ? value != 0 : otherwise;
}

/* A token's number under that key; absent: as it was. */
static BELL_MUST_CHECK bell_status
get_token(const struct reader *r, const char *key, int32_t *token)
{
    int64_t value;

    if (!bell_file_int(r->file, key, &value))
        return BELL_OK;
    if (value < 0 || value >= (int64_t)r->t->n_tokens)
        return bell_fail(BELL_E_IO, "%s: %s is %lld; there are %zu tokens",
                         r->t->path, key, (long long)value, r->t->n_tokens);
    *token = (int32_t)value;
    return BELL_OK;
}

/* Tokens that are signs, or the user's, are cut out of texts. */
static BELL_MUST_CHECK bell_status
add_signs(const struct reader *r)
{
    struct bell_tokenizer *t = r->t;
    size_t i;

    for (i = 0; i < t->n_tokens; i++) {
        struct token *token = &t->tokens[i];
        if (token->kind != TOKEN_CONTROL && token->kind != TOKEN_USER)
            continue;
        token->is_special = token->kind == TOKEN_CONTROL;
        if (host_grow((void **)&t->added, &t->cap_added, t->n_added + 1,
                      sizeof(*t->added)) != 0)
            return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", t->path);
        t->added[t->n_added++] =
            (struct text_added){.id = (int32_t)i, .special = token->is_special};
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_tokens(const struct reader *r)
{
    struct bell_tokenizer *t = r->t;
    uint64_t n = bell_file_list(r->file, KEY("tokens")), i;
    bool found = false;

    if (n == 0 || n >= TEXT_TOKENS_MAX)
        return bell_fail(BELL_E_IO, "%s: expected tokens, got %llu of them",
                         t->path, (unsigned long long)n);
    for (i = 0; i < n; i++) {
        const char *text;
        size_t n_text, at = 0;
        double score = 0;
        int64_t kind = TOKEN_NORMAL;
        if (!bell_file_list_str(r->file, KEY("tokens"), i, &text, &n_text) ||
            !unicode_is_valid(text, n_text, &at))
            return bell_fail(BELL_E_IO, "%s: token %llu has no text of UTF-8",
                             t->path, (unsigned long long)i);
        (void)bell_file_list_float(r->file, KEY("scores"), i, &score);
        (void)bell_file_list_int(r->file, KEY("token_type"), i, &kind);
        if (kind < TOKEN_NORMAL || kind > TOKEN_BYTE || score != score)
            return bell_fail(BELL_E_IO, "%s: token %llu has the type %lld",
                             t->path, (unsigned long long)i, (long long)kind);
        BELL_TRY(tokenizer_set_token(t, i, text, n_text, score,
                                     (enum token_kind)kind));
        if (kind != TOKEN_NORMAL)
            continue;
        if (!found || score < t->model.min_score)
            t->model.min_score = score;
        if (score > t->model.max_score)
            t->model.max_score = score;
        found = true;
    }
    t->n_model = t->n_tokens;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_roles(const struct reader *r)
{
    static const struct {
        const char *key;
        enum bell_token_role role;
    } keys[] = {
        {KEY("bos_token_id"), BELL_TOKEN_BEGIN},
        {KEY("eos_token_id"), BELL_TOKEN_END},
        {KEY("unknown_token_id"), BELL_TOKEN_UNKNOWN},
        {KEY("padding_token_id"), BELL_TOKEN_PAD},
        {KEY("seperator_token_id"), BELL_TOKEN_SEPARATOR},
        {KEY("separator_token_id"), BELL_TOKEN_SEPARATOR},
        {KEY("cls_token_id"), BELL_TOKEN_CLASS},
        {KEY("mask_token_id"), BELL_TOKEN_MASK},
        {KEY("eot_token_id"), BELL_TOKEN_END_OF_TURN},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(keys); i++)
        BELL_TRY(get_token(r, keys[i].key, &r->t->special[keys[i].role]));
    return BELL_OK;
}

/* The tokens around a text. */
static BELL_MUST_CHECK bell_status
read_around(const struct reader *r, bool adds_bos, bool adds_eos,
            enum bell_token_role begin, enum bell_token_role end)
{
    struct bell_tokenizer *t = r->t;
    int32_t before = t->special[begin], after = t->special[end];

    if (before < 0)
        before = t->special[BELL_TOKEN_BEGIN];
    if (after < 0)
        after = t->special[BELL_TOKEN_END];
    t->before = host_calloc(1, sizeof(*t->before));
    t->after = host_calloc(1, sizeof(*t->after));
    if (!t->before || !t->after)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", t->path);
    if (get_flag(r, KEY("add_bos_token"), adds_bos) && before >= 0)
        t->before[t->n_before++] = before;
    if (get_flag(r, KEY("add_eos_token"), adds_eos) && after >= 0)
        t->after[t->n_after++] = after;
    return BELL_OK;
}

/* ---- byte-level BPE ---- */

static BELL_MUST_CHECK bell_status
read_gguf_merges(const struct reader *r)
{
    uint64_t n = bell_file_list(r->file, KEY("merges")), i;

    for (i = 0; i < n; i++) {
        const char *text, *space = NULL;
        size_t n_text;
        if (bell_file_list_str(r->file, KEY("merges"), i, &text, &n_text) &&
            n_text > 1)
            space = memchr(text + 1, ' ', n_text - 1);
        if (!space)
            return bell_fail(BELL_E_IO, "%s: merge %llu is not two tokens",
                             r->t->path, (unsigned long long)i);
        BELL_TRY(tokenizer_add_merge(r->t, i, text, (size_t)(space - text),
                                     space + 1,
                                     n_text - 1 - (size_t)(space - text)));
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_byte_bpe(const struct reader *r)
{
    struct bell_tokenizer *t = r->t;
    const struct words *words = NULL;
    const char *name = "gpt-2";
    size_t n = 5, i;

    (void)bell_file_str(r->file, KEY("pre"), &name, &n);
    for (i = 0; i < ARRAY_LEN(known_words); i++) {
        if (has_text(name, n, known_words[i].name))
            words = &known_words[i];
    }
    if (!words)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: words of the kind '%.*s' (tokenizer.ggml.pre) "
                         "are not supported",
                         t->path, (int)(n < 40 ? n : 40), name);
    t->model.kind = MODEL_BPE;
    t->model.ignores_merges = words->whole;
    BELL_TRY(tokenizer_index(t));
    BELL_TRY(read_gguf_merges(r));
    BELL_TRY(add_signs(r));
    if (words->digits)
        t->splits[t->n_splits++] =
            (struct text_split){.kind = SPLIT_DIGITS, .each = true};
    t->splits[t->n_splits] =
        (struct text_split){.kind = SPLIT_REGEX, .behavior = BEHAVIOR_ISOLATED};
    BELL_TRY(regex_create(words->pattern, strlen(words->pattern),
                          &t->splits[t->n_splits].regex));
    t->n_splits++;
    t->splits[t->n_splits++] = (struct text_split){.kind = SPLIT_BYTES};
    t->decodes[t->n_decodes++] = (struct text_decode){.kind = DECODE_BYTES};
    return read_around(r, words->adds_bos, false, BELL_TOKEN_BEGIN,
                       BELL_TOKEN_END);
}

/* ---- SentencePiece's kinds ---- */

static BELL_MUST_CHECK bell_status
read_gguf_charsmap(const struct reader *r, struct text_norm *norm)
{
    uint64_t n = bell_file_list(r->file, KEY("precompiled_charsmap")), i;
    uint8_t *bytes;

    if (n == 0)
        return BELL_OK;
    bytes = arena_alloc(&r->t->arena, n);
    if (!bytes)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", r->t->path);
    for (i = 0; i < n; i++) {
        int64_t value;
        if (!bell_file_list_int(r->file, KEY("precompiled_charsmap"), i,
                                &value))
            return bell_fail(BELL_E_IO, "%s: a map of characters is not bytes",
                             r->t->path);
        bytes[i] = (uint8_t)value;
    }
    return text_charsmap_init(&norm->map, &r->t->arena, bytes, n);
}

static BELL_MUST_CHECK bell_status
read_pieces(const struct reader *r, bool is_unigram)
{
    struct bell_tokenizer *t = r->t;
    struct text_norm *norm = &t->norms[t->n_norms++];

    t->model.kind = is_unigram ? MODEL_UNIGRAM : MODEL_SCORED_BPE;
    t->model.is_sentencepiece = true;
    t->model.byte_fallback = !is_unigram;
    t->model.unknown = t->special[BELL_TOKEN_UNKNOWN];
    if (t->model.unknown < 0)
        t->model.unknown = is_unigram ? 2 : 0;
    if ((size_t)t->model.unknown >= t->n_tokens)
        return bell_fail(BELL_E_IO, "%s: there is no unknown token", t->path);
    t->special[BELL_TOKEN_UNKNOWN] = t->model.unknown;
    BELL_TRY(tokenizer_index(t));
    BELL_TRY(add_signs(r));
    *norm = (struct text_norm){
        .kind = NORM_SENTENCEPIECE,
        .add_space = get_flag(r, KEY("add_space_prefix"), true),
        .remove_spaces =
            get_flag(r, KEY("remove_extra_whitespaces"), is_unigram),
        .escapes = true,
        .users = &t->users};
    BELL_TRY(read_gguf_charsmap(r, norm));
    t->decodes[t->n_decodes++] =
        (struct text_decode){.kind = DECODE_SENTENCEPIECE,
                             .a = "\xe2\x96\x81",
                             .n_a = 3,
                             .b = " \xe2\x81\x87 ",
                             .n_b = 5,
                             .drops_first = norm->add_space,
                             .drops_all = norm->remove_spaces};
    return read_around(r, !is_unigram, is_unigram, BELL_TOKEN_BEGIN,
                       BELL_TOKEN_END);
}

/* ---- BERT's words ---- */

static BELL_MUST_CHECK bell_status
read_words(const struct reader *r)
{
    struct bell_tokenizer *t = r->t;

    t->model.kind = MODEL_WORDPIECE;
    t->model.max_chars = 1 << 20;
    t->model.begin_prefix = "\xe2\x96\x81";
    t->model.n_begin_prefix = 3;
    t->model.unknown = t->special[BELL_TOKEN_UNKNOWN];
    BELL_TRY(tokenizer_index(t));
    BELL_TRY(add_signs(r));
    t->norms[t->n_norms++] = (struct text_norm){.kind = NORM_BERT,
                                                .clean = true,
                                                .chinese = true,
                                                .accents = true,
                                                .lower = true};
    t->splits[t->n_splits++] = (struct text_split){.kind = SPLIT_BERT};
    t->decodes[t->n_decodes++] = (struct text_decode){
        .kind = DECODE_METASPACE, .c = 0x2581, .drops_first = true};
    return read_around(r, true, true, BELL_TOKEN_CLASS, BELL_TOKEN_SEPARATOR);
}

bell_status
tokenizer_read_gguf(struct bell_tokenizer *t, const struct bell_file *file)
{
    const struct reader r = {t, file};
    const char *kind = "";
    size_t n = 0;

    t->model.max_score = FLT_MIN;
    (void)bell_file_str(file, KEY("model"), &kind, &n);
    BELL_TRY(check_keys(&r));
    if (!has_text(kind, n, "gpt2") && !has_text(kind, n, "llama") &&
        !has_text(kind, n, "t5") && !has_text(kind, n, "bert"))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: a tokenizer of the kind '%.*s'; llama "
                         "(SentencePiece), gpt2 (byte-level BPE), t5 and bert "
                         "are known",
                         t->path, (int)(n < 40 ? n : 40), kind);
    BELL_TRY(read_tokens(&r));
    BELL_TRY(read_roles(&r));
    if (has_text(kind, n, "gpt2"))
        return read_byte_bpe(&r);
    if (has_text(kind, n, "bert"))
        return read_words(&r);
    return read_pieces(&r, has_text(kind, n, "t5"));
}
