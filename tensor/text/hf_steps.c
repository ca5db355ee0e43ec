/* Reads the steps of tokenizer.json. */
#include "tensor/text/hf_steps.h"

#if BELL_HAVE_CJSON

#include <string.h>

#include <cjson/cJSON.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tensor/text/text.h"
#include "tensor/text/unicode.h"

#define MAX_NESTING 16

/* src: encoder.py of GPT-2 */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";

typedef bell_status read_step_fn(struct bell_tokenizer *t, const cJSON *step,
                                 const char *type);

/* A step, or those of a Sequence. */
static BELL_MUST_CHECK bell_status
read_steps(struct bell_tokenizer *t, const cJSON *step, const char *what,
           const char *list, read_step_fn *read, unsigned depth)
{
    const char *type =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(step, "type"));
    const cJSON *item;
    char keys[64];

    if (!step || cJSON_IsNull(step))
        return BELL_OK;
    if (!type)
        return bell_fail(BELL_E_IO, "%s: a %s without a type", t->path, what);
    if (depth > MAX_NESTING)
        return bell_fail(BELL_E_UNSUPPORTED, "%s: %ss are nested too deep",
                         t->path, what);
    if (strcmp(type, "Sequence") != 0)
        return read(t, step, type);
    memcpy(keys, "type ", 6);
    strcat(keys, list);
    BELL_TRY(hf_check_keys(t, step, what, keys));
    step = cJSON_GetObjectItemCaseSensitive(step, list);
    cJSON_ArrayForEach(item, step)
    {
        BELL_TRY(read_steps(t, item, what, list, read, depth + 1));
    }
    return BELL_OK;
}

static bell_status
too_many(const struct bell_tokenizer *t)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: more than %d steps of a kind are not supported",
                     t->path, TEXT_STEPS_MAX);
}

static bell_status
not_known(const struct bell_tokenizer *t, const char *what, const char *type)
{
    return bell_fail(BELL_E_UNSUPPORTED, "%s: the %s '%.80s' is not supported",
                     t->path, what, type);
}

/* {"String": ..} or {"Regex": ..} */
static BELL_MUST_CHECK bell_status
read_pattern(struct bell_tokenizer *t, const cJSON *step,
             struct regex **out_regex)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(step, "pattern");
    const char *text;
    bell_status status;

    BELL_TRY(hf_check_keys(t, pattern, "a pattern", "String Regex"));
    text = cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(pattern, "String"));
    if (text && !*text)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: an empty pattern is not supported", t->path);
    if (text)
        return regex_create_literal(text, strlen(text), out_regex);
    text = cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(pattern, "Regex"));
    if (!text)
        return bell_fail(BELL_E_IO, "%s: a pattern is not a string", t->path);
    status = regex_create(text, strlen(text), out_regex);
    if (status != BELL_OK)
        bell_error_prefix("%s", t->path);
    return status;
}

/* A string of one character. */
static BELL_MUST_CHECK bell_status
read_char(struct bell_tokenizer *t, const cJSON *step, const char *key,
          uint32_t *out)
{
    const char *text;
    size_t n;

    BELL_TRY(hf_text(t, step, key, NULL, &text, &n));
    if (n == 0 || unicode_read(text, n, out) != n)
        return bell_fail(BELL_E_IO, "%s: '%s' is not one character", t->path,
                         key);
    return BELL_OK;
}

/* ---- normalisers ---- */

static int
digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq"
                                 "rstuvwxyz0123456789+/";
    const char *found = c ? strchr(digits, c) : NULL;

    return found ? (int)(found - digits) : -1;
}

/* src: RFC 4648, section 4 */
static BELL_MUST_CHECK bell_status
read_base64(struct bell_tokenizer *t, const char *text, size_t n, uint8_t **out,
            size_t *out_n)
{
    uint8_t *bytes;
    size_t i, k = 0;
    uint32_t bits = 0;

    while (n && text[n - 1] == '=')
        n--;
    bytes = arena_alloc(&t->arena, n + 1);
    if (!bytes)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", t->path);
    for (i = 0; i < n; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0)
            return bell_fail(BELL_E_IO, "%s: a map of characters is not base64",
                             t->path);
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4)
            bytes[k++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    *out = bytes;
    *out_n = k;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_charsmap(struct bell_tokenizer *t, const cJSON *step,
              struct text_norm *norm, bool *out_is_empty)
{
    const char *text;
    uint8_t *bytes = NULL;
    size_t n;

    norm->kind = NORM_CHARSMAP;
    BELL_TRY(hf_check_keys(t, step, "the normaliser Precompiled",
                           "type precompiled_charsmap"));
    BELL_TRY(hf_text(t, step, "precompiled_charsmap", "", &text, &n));
    *out_is_empty = n == 0;
    if (n == 0)
        return BELL_OK;
    BELL_TRY(read_base64(t, text, n, &bytes, &n));
    return text_charsmap_init(&norm->map, &t->arena, bytes, n);
}

static BELL_MUST_CHECK bell_status
read_bert(struct bell_tokenizer *t, const cJSON *step, struct text_norm *norm)
{
    BELL_TRY(hf_check_keys(t, step, "the normaliser BertNormalizer",
                           "type clean_text handle_chinese_chars "
                           "strip_accents lowercase"));
    norm->kind = NORM_BERT;
    norm->clean = hf_flag(step, "clean_text", true);
    norm->chinese = hf_flag(step, "handle_chinese_chars", true);
    norm->lower = hf_flag(step, "lowercase", true);
    norm->accents = hf_flag(step, "strip_accents", norm->lower);
    return BELL_OK;
}

static bell_status
read_normalizer(struct bell_tokenizer *t, const cJSON *step, const char *type)
{
    static const struct {
        const char *type;
        enum text_norm_kind kind;
    } plain[] = {
        {"NFC", NORM_NFC},         {"NFD", NORM_NFD},
        {"NFKC", NORM_NFKC},       {"NFKD", NORM_NFKD},
        {"Lowercase", NORM_LOWER}, {"StripAccents", NORM_STRIP_ACCENTS},
        {"ByteLevel", NORM_BYTES}, {"Nmt", NORM_NMT},
    };
    struct text_norm *norm = &t->norms[t->n_norms];
    bool is_empty = false;
    size_t i;

    if (t->n_norms == TEXT_STEPS_MAX)
        return too_many(t);
    t->n_norms++;
    for (i = 0; i < ARRAY_LEN(plain); i++) {
        if (strcmp(type, plain[i].type) == 0) {
            norm->kind = plain[i].kind;
            return hf_check_keys(t, step, "a normaliser", "type");
        }
    }
    if (strcmp(type, "Strip") == 0) {
        BELL_TRY(hf_check_keys(t, step, "the normaliser Strip",
                               "type strip_left strip_right"));
        norm->kind = NORM_STRIP;
        norm->left = hf_flag(step, "strip_left", true);
        norm->right = hf_flag(step, "strip_right", true);
        return BELL_OK;
    }
    if (strcmp(type, "Prepend") == 0) {
        BELL_TRY(
            hf_check_keys(t, step, "the normaliser Prepend", "type prepend"));
        norm->kind = NORM_PREPEND;
        return hf_text(t, step, "prepend", NULL, &norm->content,
                       &norm->n_content);
    }
    if (strcmp(type, "Replace") == 0) {
        BELL_TRY(hf_check_keys(t, step, "the normaliser Replace",
                               "type pattern content"));
        norm->kind = NORM_REPLACE;
        BELL_TRY(hf_text(t, step, "content", NULL, &norm->content,
                         &norm->n_content));
        return read_pattern(t, step, &norm->regex);
    }
    if (strcmp(type, "BertNormalizer") == 0)
        return read_bert(t, step, norm);
    if (strcmp(type, "Precompiled") == 0) {
        BELL_TRY(read_charsmap(t, step, norm, &is_empty));
        if (is_empty)
            t->n_norms--;
        return BELL_OK;
    }
    return not_known(t, "normaliser", type);
}

bell_status
hf_normalizers(struct bell_tokenizer *t, const struct cJSON *step)
{
    return read_steps(t, step, "normaliser", "normalizers", read_normalizer, 0);
}

/* ---- pre-tokenizers ---- */

static BELL_MUST_CHECK bell_status
read_behavior(const struct bell_tokenizer *t, const cJSON *step,
              enum text_behavior *out)
{
    static const char *const names[] = {"Removed", "Isolated",
                                        "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(step, "behavior");
    const char *name = cJSON_GetStringValue(item);
    size_t i;

    *out = BEHAVIOR_ISOLATED;
    if (!item)
        return BELL_OK;
    for (i = 0; name && i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum text_behavior)i;
            return BELL_OK;
        }
    }
    return not_known(t, "behaviour of a pre-tokenizer", name ? name : "?");
}

/* Metaspace, of pre-tokenizers and of decoders. */
static BELL_MUST_CHECK bell_status
read_metaspace(struct bell_tokenizer *t, const cJSON *step, uint32_t *out_c,
               enum text_prepend *out_prepend, bool *out_splits)
{
    const char *scheme;
    size_t n;

    BELL_TRY(hf_check_keys(t, step, "Metaspace",
                           "type replacement add_prefix_space "
                           "prepend_scheme split str_rep"));
    BELL_TRY(read_char(t, step, "replacement", out_c));
    BELL_TRY(
        hf_text(t, step, "prepend_scheme",
                hf_flag(step, "add_prefix_space", true) ? "always" : "never",
                &scheme, &n));
    if (strcmp(scheme, "always") == 0)
        *out_prepend = PREPEND_ALWAYS;
    else if (strcmp(scheme, "first") == 0)
        *out_prepend = PREPEND_FIRST;
    else if (strcmp(scheme, "never") == 0)
        *out_prepend = PREPEND_NEVER;
    else
        return not_known(t, "prepend_scheme", scheme);
    *out_splits = hf_flag(step, "split", true);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_regex_split(struct bell_tokenizer *t, const cJSON *step,
                 struct text_split *split)
{
    BELL_TRY(hf_check_keys(t, step, "the pre-tokenizer Split",
                           "type pattern behavior invert"));
    split->kind = SPLIT_REGEX;
    split->invert = hf_flag(step, "invert", false);
    BELL_TRY(read_behavior(t, step, &split->behavior));
    return read_pattern(t, step, &split->regex);
}

static bell_status
read_split(struct bell_tokenizer *t, const cJSON *step, const char *type)
{
    struct text_split *split = &t->splits[t->n_splits];

    if (t->n_splits == TEXT_STEPS_MAX)
        return too_many(t);
    t->n_splits++;
    if (strcmp(type, "Split") == 0)
        return read_regex_split(t, step, split);
    if (strcmp(type, "ByteLevel") == 0) {
        BELL_TRY(hf_check_keys(t, step, "the pre-tokenizer ByteLevel",
                               "type add_prefix_space trim_offsets "
                               "use_regex"));
        split->kind = SPLIT_BYTES;
        split->add_space = hf_flag(step, "add_prefix_space", true);
        if (!hf_flag(step, "use_regex", true))
            return BELL_OK;
        return regex_create(gpt2_pattern, sizeof(gpt2_pattern) - 1,
                            &split->regex);
    }
    if (strcmp(type, "Metaspace") == 0) {
        split->kind = SPLIT_METASPACE;
        return read_metaspace(t, step, &split->c, &split->prepend,
                              &split->splits);
    }
    if (strcmp(type, "Digits") == 0) {
        split->kind = SPLIT_DIGITS;
        split->each = hf_flag(step, "individual_digits", false);
        return hf_check_keys(t, step, "the pre-tokenizer Digits",
                             "type individual_digits");
    }
    if (strcmp(type, "Punctuation") == 0) {
        split->kind = SPLIT_PUNCTUATION;
        BELL_TRY(hf_check_keys(t, step, "the pre-tokenizer Punctuation",
                               "type behavior"));
        return read_behavior(t, step, &split->behavior);
    }
    if (strcmp(type, "CharDelimiterSplit") == 0) {
        split->kind = SPLIT_CHAR;
        BELL_TRY(hf_check_keys(t, step, "the pre-tokenizer CharDelimiterSplit",
                               "type delimiter"));
        return read_char(t, step, "delimiter", &split->c);
    }
    if (strcmp(type, "FixedLength") == 0) {
        split->kind = SPLIT_LENGTH;
        BELL_TRY(hf_check_keys(t, step, "the pre-tokenizer FixedLength",
                               "type length"));
        BELL_TRY(hf_size(t, step, "length", 1 << 30, 5, &split->length));
        if (split->length == 0)
            return bell_fail(
                BELL_E_IO, "%s: the length of pieces must be above 0", t->path);
        return BELL_OK;
    }
    if (strcmp(type, "BertPreTokenizer") == 0)
        split->kind = SPLIT_BERT;
    else if (strcmp(type, "Whitespace") == 0)
        split->kind = SPLIT_WHITESPACE;
    else if (strcmp(type, "WhitespaceSplit") == 0)
        split->kind = SPLIT_SPACES;
    else
        return not_known(t, "pre-tokenizer", type);
    return hf_check_keys(t, step, "a pre-tokenizer", "type");
}

bell_status
hf_splits(struct bell_tokenizer *t, const struct cJSON *step)
{
    return read_steps(t, step, "pre-tokenizer", "pretokenizers", read_split, 0);
}

/* ---- decoders ---- */

static BELL_MUST_CHECK bell_status
read_decode_strip(struct bell_tokenizer *t, const cJSON *step,
                  struct text_decode *d)
{
    d->kind = DECODE_STRIP;
    BELL_TRY(
        hf_check_keys(t, step, "the decoder Strip", "type content start stop"));
    BELL_TRY(read_char(t, step, "content", &d->c));
    BELL_TRY(hf_size(t, step, "start", 1 << 30, 0, &d->start));
    return hf_size(t, step, "stop", 1 << 30, 0, &d->stop);
}

static bell_status
read_decoder(struct bell_tokenizer *t, const cJSON *step, const char *type)
{
    struct text_decode *d = &t->decodes[t->n_decodes];
    enum text_prepend prepend;
    bool splits;

    if (t->n_decodes == TEXT_STEPS_MAX)
        return too_many(t);
    t->n_decodes++;
    if (strcmp(type, "Replace") == 0) {
        d->kind = DECODE_REPLACE;
        BELL_TRY(hf_check_keys(t, step, "the decoder Replace",
                               "type pattern content"));
        BELL_TRY(hf_text(t, step, "content", NULL, &d->a, &d->n_a));
        return read_pattern(t, step, &d->regex);
    }
    if (strcmp(type, "BPEDecoder") == 0) {
        d->kind = DECODE_BPE;
        BELL_TRY(
            hf_check_keys(t, step, "the decoder BPEDecoder", "type suffix"));
        return hf_text(t, step, "suffix", "</w>", &d->a, &d->n_a);
    }
    if (strcmp(type, "WordPiece") == 0) {
        d->kind = DECODE_WORDPIECE;
        BELL_TRY(hf_check_keys(t, step, "the decoder WordPiece",
                               "type prefix cleanup"));
        d->cleanup = hf_flag(step, "cleanup", true);
        return hf_text(t, step, "prefix", "##", &d->a, &d->n_a);
    }
    if (strcmp(type, "Metaspace") == 0) {
        d->kind = DECODE_METASPACE;
        BELL_TRY(read_metaspace(t, step, &d->c, &prepend, &splits));
        d->drops_first = prepend != PREPEND_NEVER;
        return BELL_OK;
    }
    if (strcmp(type, "CTC") == 0) {
        d->kind = DECODE_CTC;
        BELL_TRY(hf_check_keys(t, step, "the decoder CTC",
                               "type pad_token word_delimiter_token "
                               "cleanup"));
        d->cleanup = hf_flag(step, "cleanup", true);
        BELL_TRY(hf_text(t, step, "pad_token", "<pad>", &d->a, &d->n_a));
        return hf_text(t, step, "word_delimiter_token", "|", &d->b, &d->n_b);
    }
    if (strcmp(type, "Strip") == 0)
        return read_decode_strip(t, step, d);
    if (strcmp(type, "ByteLevel") == 0) {
        d->kind = DECODE_BYTES;
        return hf_check_keys(t, step, "the decoder ByteLevel",
                             "type add_prefix_space trim_offsets use_regex");
    }
    if (strcmp(type, "Fuse") == 0)
        d->kind = DECODE_FUSE;
    else if (strcmp(type, "ByteFallback") == 0)
        d->kind = DECODE_BYTE_FALLBACK;
    else
        return not_known(t, "decoder", type);
    return hf_check_keys(t, step, "a decoder", "type");
}

bell_status
hf_decoders(struct bell_tokenizer *t, const struct cJSON *step)
{
    return read_steps(t, step, "decoder", "decoders", read_decoder, 0);
}

#endif
