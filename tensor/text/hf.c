/* Reads tokenizer.json.
 *
 * Every key is known or refused by its name. src: the documentation of Hugging
 * Face's tokenizers 0.23, and the files that it writes.
 */
#include "tensor/text/text.h"

#if BELL_HAVE_CJSON

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tensor/text/hf_steps.h"
#include "tensor/text/unicode.h"

/* ---- access ---- */

bell_status
hf_check_keys(const struct bell_tokenizer *t, const cJSON *object,
              const char *what, const char *known)
{
    const cJSON *item;

    if (!cJSON_IsObject(object))
        return bell_fail(BELL_E_IO, "%s: %s is not an object", t->path, what);
    cJSON_ArrayForEach(item, object)
    {
        size_t n = strlen(item->string);
        const char *at = known;
        while (at && !(strncmp(at, item->string, n) == 0 &&
                       (at[n] == ' ' || at[n] == '\0')))
            at = (at = strchr(at, ' ')) ? at + 1 : NULL;
        if (!at || n == 0)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: %s has the key '%.80s', which is not "
                             "supported",
                             t->path, what, item->string);
    }
    return BELL_OK;
}

bool
hf_flag(const cJSON *object, const char *key, bool otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

bell_status
hf_text(struct bell_tokenizer *t, const cJSON *object, const char *key,
        const char *otherwise, const char **out_text, size_t *out_n)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    const char *text = cJSON_GetStringValue(item);

    if (!text && (!item || cJSON_IsNull(item)))
        text = otherwise;
    if (!text)
        return bell_fail(BELL_E_IO, "%s: '%s' is not a string", t->path, key);
    *out_n = strlen(text);
    *out_text = arena_copy(&t->arena, text, *out_n + 1);
    if (!*out_text)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", t->path);
    return BELL_OK;
}

/* A whole number from 0 to `most`; absent or null: `otherwise`. */
bell_status
hf_size(const struct bell_tokenizer *t, const cJSON *object, const char *key,
        size_t most, size_t otherwise, size_t *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    *out = otherwise;
    if (!item || cJSON_IsNull(item))
        return BELL_OK;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
        item->valuedouble > (double)most ||
        item->valuedouble != floor(item->valuedouble))
        return bell_fail(BELL_E_IO, "%s: '%s' is not a number up to %zu",
                         t->path, key, most);
    *out = (size_t)item->valuedouble;
    return BELL_OK;
}

/* ---- vocabularies ---- */

static BELL_MUST_CHECK bell_status
read_vocab(struct bell_tokenizer *t, const cJSON *model)
{
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab");
    size_t n = (size_t)cJSON_GetArraySize(vocab), id;
    const cJSON *item;

    if (!cJSON_IsObject(vocab))
        return bell_fail(BELL_E_IO, "%s: the vocabulary is not an object",
                         t->path);
    cJSON_ArrayForEach(item, vocab)
    {
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
            item->valuedouble >= TEXT_TOKENS_MAX ||
            item->valuedouble > 4.0 * (double)n + 65536)
            return bell_fail(BELL_E_IO, "%s: the token '%.80s' has no number",
                             t->path, item->string);
        id = (size_t)item->valuedouble;
        if ((double)id != item->valuedouble ||
            (id < t->n_tokens && t->tokens[id].kind != TOKEN_NONE))
            return bell_fail(BELL_E_IO,
                             "%s: the token '%.80s' has the number of another",
                             t->path, item->string);
        BELL_TRY(tokenizer_set_token(t, id, item->string, strlen(item->string),
                                     0, TOKEN_NORMAL));
    }
    t->n_model = t->n_tokens;
    return tokenizer_index(t);
}

static BELL_MUST_CHECK bell_status
read_unknown(struct bell_tokenizer *t, const cJSON *model, bool needed)
{
    const char *name;
    size_t n;

    BELL_TRY(hf_text(t, model, "unk_token", "", &name, &n));
    t->model.unknown = token_index_find(&t->index, name, n);
    t->special[BELL_TOKEN_UNKNOWN] = t->model.unknown;
    if (needed && n && t->model.unknown < 0)
        return bell_fail(BELL_E_IO, "%s: '%.80s' is not a token", t->path,
                         name);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_merges(struct bell_tokenizer *t, const cJSON *model)
{
    const cJSON *merges = cJSON_GetObjectItemCaseSensitive(model, "merges");
    const cJSON *item;
    size_t rank = 0;

    if (!cJSON_IsArray(merges))
        return bell_fail(BELL_E_IO, "%s: merges are not a list", t->path);
    cJSON_ArrayForEach(item, merges)
    {
        const char *left = cJSON_GetStringValue(item), *right, *space;
        size_t n_left;
        if (left && strncmp(left, "#version", 8) == 0)
            continue;
        if (left) {
            space = strchr(left, ' ');
            if (!space || strchr(space + 1, ' '))
                return bell_fail(BELL_E_IO,
                                 "%s: merge %zu, '%.80s', is not two tokens",
                                 t->path, rank, left);
            n_left = (size_t)(space - left);
            right = space + 1;
        } else {
            left = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
            right = cJSON_GetStringValue(cJSON_GetArrayItem(item, 1));
            if (!left || !right || cJSON_GetArraySize(item) != 2)
                return bell_fail(BELL_E_IO, "%s: merge %zu is not two tokens",
                                 t->path, rank);
            n_left = strlen(left);
        }
        BELL_TRY(
            tokenizer_add_merge(t, rank++, left, n_left, right, strlen(right)));
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_bpe(struct bell_tokenizer *t, const cJSON *model)
{
    struct text_model *m = &t->model;
    const cJSON *dropout = cJSON_GetObjectItemCaseSensitive(model, "dropout");

    BELL_TRY(hf_check_keys(t, model, "the BPE model",
                           "type dropout unk_token continuing_subword_prefix "
                           "end_of_word_suffix fuse_unk byte_fallback "
                           "ignore_merges vocab merges"));
    if (dropout && !cJSON_IsNull(dropout) && dropout->valuedouble != 0)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: the BPE model has 'dropout', which is not "
                         "supported",
                         t->path);
    m->kind = MODEL_BPE;
    BELL_TRY(hf_text(t, model, "continuing_subword_prefix", "", &m->prefix,
                     &m->n_prefix));
    BELL_TRY(
        hf_text(t, model, "end_of_word_suffix", "", &m->suffix, &m->n_suffix));
    m->fuses_unknown = hf_flag(model, "fuse_unk", false);
    m->byte_fallback = hf_flag(model, "byte_fallback", false);
    m->ignores_merges = hf_flag(model, "ignore_merges", false);
    BELL_TRY(read_vocab(t, model));
    BELL_TRY(read_unknown(t, model, true));
    return read_merges(t, model);
}

static BELL_MUST_CHECK bell_status
read_unigram(struct bell_tokenizer *t, const cJSON *model)
{
    struct text_model *m = &t->model;
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab");
    const cJSON *item;
    size_t id = 0, unknown;

    BELL_TRY(hf_check_keys(t, model, "the Unigram model",
                           "type unk_id vocab byte_fallback"));
    if (!cJSON_IsArray(vocab))
        return bell_fail(BELL_E_IO, "%s: the vocabulary is not a list",
                         t->path);
    m->kind = MODEL_UNIGRAM;
    m->byte_fallback = hf_flag(model, "byte_fallback", false);
    m->min_score = INFINITY;
    cJSON_ArrayForEach(item, vocab)
    {
        const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
        const cJSON *score = cJSON_GetArrayItem(item, 1);
        if (!text || !cJSON_IsNumber(score) || !isfinite(score->valuedouble) ||
            cJSON_GetArraySize(item) != 2)
            return bell_fail(BELL_E_IO, "%s: token %zu is not text and score",
                             t->path, id);
        if (score->valuedouble < m->min_score)
            m->min_score = score->valuedouble;
        BELL_TRY(tokenizer_set_token(t, id++, text, strlen(text),
                                     score->valuedouble, TOKEN_NORMAL));
    }
    t->n_model = t->n_tokens;
    BELL_TRY(tokenizer_index(t));
    BELL_TRY(hf_size(t, model, "unk_id", TEXT_TOKENS_MAX, SIZE_MAX, &unknown));
    if (unknown == SIZE_MAX)
        return BELL_OK;
    if (unknown >= t->n_model)
        return bell_fail(BELL_E_IO, "%s: unk_id %zu is not a token", t->path,
                         unknown);
    m->unknown = (int32_t)unknown;
    t->special[BELL_TOKEN_UNKNOWN] = m->unknown;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_model(struct bell_tokenizer *t, const cJSON *model)
{
    const char *type =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(model, "type"));

    if (!type)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: a model without a type is not supported",
                         t->path);
    if (strcmp(type, "BPE") == 0)
        return read_bpe(t, model);
    if (strcmp(type, "Unigram") == 0)
        return read_unigram(t, model);
    if (strcmp(type, "WordPiece") == 0) {
        t->model.kind = MODEL_WORDPIECE;
        BELL_TRY(hf_check_keys(t, model, "the WordPiece model",
                               "type unk_token continuing_subword_prefix "
                               "max_input_chars_per_word vocab"));
        BELL_TRY(hf_text(t, model, "continuing_subword_prefix", "##",
                         &t->model.prefix, &t->model.n_prefix));
        BELL_TRY(hf_size(t, model, "max_input_chars_per_word", 1 << 20, 100,
                         &t->model.max_chars));
        BELL_TRY(read_vocab(t, model));
        return read_unknown(t, model, false);
    }
    if (strcmp(type, "WordLevel") == 0) {
        t->model.kind = MODEL_WORDLEVEL;
        BELL_TRY(hf_check_keys(t, model, "the WordLevel model",
                               "type unk_token vocab"));
        BELL_TRY(read_vocab(t, model));
        return read_unknown(t, model, false);
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: the model '%.80s' is not supported", t->path, type);
}

/* ---- added tokens ---- */

/* The number that a token gets: the model's, or that of an added one. */
static int32_t
find_added(const struct bell_tokenizer *t, const char *text, size_t n,
           size_t *out_place)
{
    size_t i;

    for (i = 0; i < t->n_added; i++) {
        const struct token *token = &t->tokens[t->added[i].id];
        if (token->n == n && memcmp(token->text, text, n) == 0) {
            *out_place = i;
            return t->added[i].id;
        }
    }
    *out_place = t->n_added;
    return token_index_find(&t->index, text, n);
}

/* Roles are told by names that are in use for them. */
static void
note_role(struct bell_tokenizer *t, const char *name, int32_t id)
{
    static const struct {
        const char *name;
        enum bell_token_role role;
    } known[] = {
        {"<s>", BELL_TOKEN_BEGIN},
        {"<bos>", BELL_TOKEN_BEGIN},
        {"<|begin_of_text|>", BELL_TOKEN_BEGIN},
        {"</s>", BELL_TOKEN_END},
        {"<eos>", BELL_TOKEN_END},
        {"<|end_of_text|>", BELL_TOKEN_END},
        {"<|endoftext|>", BELL_TOKEN_END},
        {"<|eot_id|>", BELL_TOKEN_END_OF_TURN},
        {"<|im_end|>", BELL_TOKEN_END_OF_TURN},
        {"<end_of_turn>", BELL_TOKEN_END_OF_TURN},
        {"<pad>", BELL_TOKEN_PAD},
        {"[PAD]", BELL_TOKEN_PAD},
        {"[SEP]", BELL_TOKEN_SEPARATOR},
        {"[CLS]", BELL_TOKEN_CLASS},
        {"[MASK]", BELL_TOKEN_MASK},
        {"<mask>", BELL_TOKEN_MASK},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(name, known[i].name) == 0 && t->special[known[i].role] < 0)
            t->special[known[i].role] = id;
    }
}

static BELL_MUST_CHECK bell_status
read_added(struct bell_tokenizer *t, const cJSON *list)
{
    size_t n_vocab = t->index.n, next, place, id, n;
    const char *text;
    const cJSON *item;

    next = n_vocab;
    cJSON_ArrayForEach(item, list)
    {
        struct text_added added;
        int32_t known;
        BELL_TRY(hf_check_keys(t, item, "an added token",
                               "id content single_word lstrip rstrip "
                               "normalized special"));
        BELL_TRY(hf_text(t, item, "content", NULL, &text, &n));
        BELL_TRY(hf_size(t, item, "id", TEXT_TOKENS_MAX - 1, SIZE_MAX, &id));
        if (n == 0)
            continue;
        known = find_added(t, text, n, &place);
        if (id != (known >= 0 ? (size_t)known : next))
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: the added token '%.80s' has the number %zu, "
                             "but would get %zu",
                             t->path, text, id,
                             known >= 0 ? (size_t)known : next);
        if (known < 0) {
            next++;
            BELL_TRY(tokenizer_set_token(t, id, text, n, 0, TOKEN_CONTROL));
        }
        added = (struct text_added){
            .id = (int32_t)id,
            .single_word = hf_flag(item, "single_word", false),
            .lstrip = hf_flag(item, "lstrip", false),
            .rstrip = hf_flag(item, "rstrip", false),
            .normalized = hf_flag(item, "normalized", true),
            .special = hf_flag(item, "special", false)};
        if (host_grow((void **)&t->added, &t->cap_added, place + 1,
                      sizeof(*t->added)) != 0)
            return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", t->path);
        if (place == t->n_added)
            t->n_added++;
        t->added[place] = added;
        if (added.special) {
            t->tokens[id].is_special = true;
            note_role(t, text, (int32_t)id);
        }
    }
    return BELL_OK;
}

/* ---- what is put around texts ---- */

static BELL_MUST_CHECK bell_status
put_around(struct bell_tokenizer *t, const struct token_list *before,
           const struct token_list *after)
{
    int32_t *b = host_calloc(before->n + t->n_before + 1, sizeof(*b));
    int32_t *a = host_calloc(after->n + t->n_after + 1, sizeof(*a));

    if (!a || !b) {
        host_free(a);
        host_free(b);
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", t->path);
    }
    if (before->n)
        memcpy(b, before->ids, before->n * sizeof(*b));
    if (t->n_before)
        memcpy(b + before->n, t->before, t->n_before * sizeof(*b));
    if (t->n_after)
        memcpy(a, t->after, t->n_after * sizeof(*a));
    if (after->n)
        memcpy(a + t->n_after, after->ids, after->n * sizeof(*a));
    host_free(t->before);
    host_free(t->after);
    t->before = b;
    t->after = a;
    t->n_before += before->n;
    t->n_after += after->n;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
add_id(struct bell_tokenizer *t, const cJSON *number, struct token_list *list)
{
    double id = cJSON_IsNumber(number) ? number->valuedouble : -1;

    if (!(id >= 0) || id >= (double)t->n_tokens ||
        t->tokens[(size_t)id].kind == TOKEN_NONE)
        return bell_fail(BELL_E_IO,
                         "%s: the post-processor has a number that is not a "
                         "token",
                         t->path);
    return token_list_add(list, (int32_t)id);
}

static BELL_MUST_CHECK bell_status
read_template(struct bell_tokenizer *t, const cJSON *p,
              struct token_list around[2])
{
    const cJSON *single = cJSON_GetObjectItemCaseSensitive(p, "single");
    const cJSON *known = cJSON_GetObjectItemCaseSensitive(p, "special_tokens");
    const cJSON *item, *special, *id;
    unsigned n_texts = 0;

    cJSON_ArrayForEach(item, single)
    {
        const cJSON *sequence =
            cJSON_GetObjectItemCaseSensitive(item, "Sequence");
        const char *name = cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(sequence, "id"));
        if (sequence && name && strcmp(name, "A") == 0) {
            n_texts++;
            continue;
        }
        special = cJSON_GetObjectItemCaseSensitive(item, "SpecialToken");
        name = cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(special, "id"));
        special = name ? cJSON_GetObjectItemCaseSensitive(known, name) : NULL;
        if (!special)
            return bell_fail(BELL_E_IO,
                             "%s: the template has what is neither the text "
                             "nor a special token of it",
                             t->path);
        special = cJSON_GetObjectItemCaseSensitive(special, "ids");
        cJSON_ArrayForEach(id, special)
        {
            BELL_TRY(add_id(t, id, &around[n_texts > 0]));
        }
    }
    if (n_texts != 1)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: a template with %u texts is not supported",
                         t->path, n_texts);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status read_processor(struct bell_tokenizer *t,
                                                  const cJSON *p);

static BELL_MUST_CHECK bell_status
read_one_processor(struct bell_tokenizer *t, const cJSON *p, const char *type,
                   struct token_list around[2])
{
    const cJSON *item;

    if (strcmp(type, "TemplateProcessing") == 0) {
        BELL_TRY(hf_check_keys(t, p, "the template",
                               "type single pair special_tokens"));
        return read_template(t, p, around);
    }
    if (strcmp(type, "BertProcessing") == 0 ||
        strcmp(type, "RobertaProcessing") == 0) {
        BELL_TRY(hf_check_keys(t, p, "the post-processor",
                               "type sep cls trim_offsets "
                               "add_prefix_space"));
        item = cJSON_GetObjectItemCaseSensitive(p, "cls");
        BELL_TRY(add_id(t, cJSON_GetArrayItem(item, 1), &around[0]));
        item = cJSON_GetObjectItemCaseSensitive(p, "sep");
        return add_id(t, cJSON_GetArrayItem(item, 1), &around[1]);
    }
    if (strcmp(type, "ByteLevel") == 0) /* offsets alone */
        return hf_check_keys(t, p, "the post-processor",
                             "type add_prefix_space trim_offsets use_regex");
    if (strcmp(type, "Sequence") == 0) {
        BELL_TRY(hf_check_keys(t, p, "the post-processor", "type processors"));
        p = cJSON_GetObjectItemCaseSensitive(p, "processors");
        cJSON_ArrayForEach(item, p)
        {
            BELL_TRY(read_processor(t, item));
        }
        return BELL_OK;
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: the post-processor '%.80s' is not supported", t->path,
                     type);
}

static BELL_MUST_CHECK bell_status
read_processor(struct bell_tokenizer *t, const cJSON *p)
{
    const char *type =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(p, "type"));
    struct token_list around[2] = {{0}, {0}};
    bell_status status;

    if (!p || cJSON_IsNull(p))
        return BELL_OK;
    if (!type)
        return bell_fail(BELL_E_IO, "%s: a post-processor without a type",
                         t->path);
    status = read_one_processor(t, p, type, around);
    if (status == BELL_OK)
        status = put_around(t, &around[0], &around[1]);
    host_free(around[0].ids);
    host_free(around[1].ids);
    return status;
}

/* ---- the whole ---- */

static BELL_MUST_CHECK bell_status
read_root(struct bell_tokenizer *t, const cJSON *root)
{
    BELL_TRY(hf_check_keys(t, root, "the file",
                           "version truncation padding added_tokens "
                           "normalizer pre_tokenizer post_processor decoder "
                           "model"));
    BELL_TRY(read_model(t, cJSON_GetObjectItemCaseSensitive(root, "model")));
    BELL_TRY(
        read_added(t, cJSON_GetObjectItemCaseSensitive(root, "added_tokens")));
    BELL_TRY(hf_normalizers(
        t, cJSON_GetObjectItemCaseSensitive(root, "normalizer")));
    BELL_TRY(
        hf_splits(t, cJSON_GetObjectItemCaseSensitive(root, "pre_tokenizer")));
    BELL_TRY(read_processor(
        t, cJSON_GetObjectItemCaseSensitive(root, "post_processor")));
    BELL_TRY(hf_decoders(t, cJSON_GetObjectItemCaseSensitive(root, "decoder")));
    if (t->n_decodes == 0)
        t->decodes[t->n_decodes++] =
            (struct text_decode){.kind = DECODE_SPACED};
    return BELL_OK;
}

/* Whether a string has a zero, which the parser's strings cannot hold. */
static bool
has_zero(const char *text, size_t n)
{
    const char *at = text, *found, *begin;

    while ((found = memmem(at, n - (size_t)(at - text), "\\u0000", 6))) {
        for (begin = found; begin > text && begin[-1] == '\\'; begin--)
            ;
        if ((found - begin) % 2 == 0)
            return true;
        at = found + 1;
    }
    return false;
}

bell_status
tokenizer_read_json(struct bell_tokenizer *t, const char *text, size_t n)
{
    cJSON *root;
    bell_status status;
    size_t at = 0;

    if (!unicode_is_valid(text, n, &at))
        return bell_fail(BELL_E_IO, "%s: byte %zu is not UTF-8", t->path, at);
    if (has_zero(text, n))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: a string has the character U+0000, which is not "
                         "supported",
                         t->path);
    root = cJSON_ParseWithLength(text, n);
    if (!root)
        return bell_fail(BELL_E_IO, "%s: not JSON, or out of memory", t->path);
    status = read_root(t, root);
    cJSON_Delete(root);
    return status;
}

#else

bell_status
tokenizer_read_json(struct bell_tokenizer *t, const char *text, size_t n)
{
    (void)text;
    (void)n;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: built without cJSON (libcjson-dev), which reads "
                     "tokenizer.json",
                     t->path);
}

#endif
