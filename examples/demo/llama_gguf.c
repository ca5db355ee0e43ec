/* Models from GGUF: weights by name, sizes and the vocabulary by key.
 *
 * src: docs/gguf.md of the ggml project, and the names of gguf-py's constants.
 */
#include "examples/demo/llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/files.h"

#define KEY_BYTES 128

/* Kinds of tokens. */
#define TOKEN_NORMAL  1
#define TOKEN_CONTROL 3
#define TOKEN_ADDED   4

/* A model's family. */
static const struct {
    const char *name;
    bool turns_halves; /* else neighbours */
} families[] = {
    {"llama", false},
    {"qwen2", true},
};

bool
llama_is_gguf(const char *path)
{
    FILE *file = fopen(path, "rb");
    char magic[4] = {0};
    bool is =
        file && fread(magic, 1, 4, file) == 4 && memcmp(magic, "GGUF", 4) == 0;

    if (file)
        fclose(file);
    return is;
}

static BELL_MUST_CHECK bell_status
find_family(const struct bell_file *file, const char *path, char *name,
            size_t size_bytes, bool *out_turns_halves)
{
    const char *text = "";
    size_t n = 0, i;

    (void)bell_file_str(file, "general.architecture", &text, &n);
    for (i = 0; i < ARRAY_LEN(families); i++) {
        if (n == strlen(families[i].name) &&
            memcmp(text, families[i].name, n) == 0) {
            snprintf(name, size_bytes, "%s", families[i].name);
            *out_turns_halves = families[i].turns_halves;
            return BELL_OK;
        }
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: a model of the family '%.*s'; llama and qwen2 are "
                     "known",
                     path, (int)(n < 40 ? n : 40), text);
}

/* family.key, or `otherwise` where it is absent. */
static int64_t
get_int(const struct bell_file *file, const char *family, const char *key,
        int64_t otherwise)
{
    char name[KEY_BYTES];
    int64_t value;

    snprintf(name, sizeof(name), "%s.%s", family, key);
    return bell_file_int(file, name, &value) ? value : otherwise;
}

static double
get_float(const struct bell_file *file, const char *family, const char *key,
          double otherwise)
{
    char name[KEY_BYTES];
    double value;

    snprintf(name, sizeof(name), "%s.%s", family, key);
    return bell_file_float(file, name, &value) ? value : otherwise;
}

static BELL_MUST_CHECK bell_status
read_shape(const struct bell_file *file, const char *path, struct llama *model)
{
    const struct bell_file_entry *tokens =
        bell_file_find(file, "token_embd.weight");
    struct llama_shape *s = &model->shape;
    char family[16];

    BELL_TRY(
        find_family(file, path, family, sizeof(family), &model->turns_halves));
    if (!tokens || tokens->ndim != 2)
        return bell_fail(BELL_E_IO, "%s: no table token_embd.weight", path);
    s->dim = get_int(file, family, "embedding_length", 0);
    s->hidden = get_int(file, family, "feed_forward_length", 0);
    s->n_layers = get_int(file, family, "block_count", 0);
    s->n_heads = get_int(file, family, "attention.head_count", 0);
    s->n_kv_heads =
        get_int(file, family, "attention.head_count_kv", s->n_heads);
    s->context = get_int(file, family, "context_length", 0);
    s->n_tokens = tokens->shape[0];
    model->epsilon = get_float(file, family, "attention.layer_norm_rms_epsilon",
                               LLAMA_EPSILON);
    model->rope_base =
        get_float(file, family, "rope.freq_base", LLAMA_ROPE_BASE);
    BELL_TRY(llama_check_shape(path, s));
    BELL_TRY(llama_check_keys(file, path, family, s));
    if (get_int(file, family, "rope.dimension_count", s->dim / s->n_heads) !=
        s->dim / s->n_heads)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: parts of heads alone are turned by place", path);
    return BELL_OK;
}

/* ---- weights ---- */

struct loader {
    const struct bell_file *file;
    const char *path;
    struct llama *model;
    struct map taken; /* entries, by address */
    bell_status status;
};

/* The tensor of that name and shape (columns 0: a list), which stays. NULL:
 * there is none, which is an error if it is needed. */
static struct bell_tensor *
take_gguf(struct loader *l, const char *name, int64_t rows, int64_t columns,
          bool is_needed)
{
    const struct bell_file_entry *entry = bell_file_find(l->file, name);
    uint32_t ndim = columns ? 2 : 1;

    if (l->status != BELL_OK || (!entry && !is_needed))
        return NULL;
    if (!entry || entry->ndim != ndim || entry->shape[0] != rows ||
        (columns && entry->shape[1] != columns)) {
        l->status = bell_fail(BELL_E_IO, "%s: %s '%s' of %lld x %lld", l->path,
                              entry ? "another shape than that of the tensor"
                                    : "no tensor",
                              name, (long long)rows, (long long)columns);
        return NULL;
    }
    if (map_put(&l->taken, (uintptr_t)entry, 1) != 0) {
        l->status = bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", l->path);
        return NULL;
    }
    l->model->n_weight_bytes += (double)entry->size_bytes;
    return bell_keep_forever(bell_file_tensor(l->model->ctx, l->file, name));
}

/* The same of layer i. */
static struct bell_tensor *
take_of(struct loader *l, int64_t i, const char *what, int64_t rows,
        int64_t columns, bool is_needed)
{
    char name[KEY_BYTES];

    snprintf(name, sizeof(name), "blk.%lld.%s", (long long)i, what);
    return take_gguf(l, name, rows, columns, is_needed);
}

static void
take_layer(struct loader *l, int64_t i)
{
    const struct llama_shape *s = &l->model->shape;
    struct llama_layer *layer = &l->model->layers[i];
    int64_t dim = s->dim, kv = dim / s->n_heads * s->n_kv_heads;

    layer->attn_norm = take_of(l, i, "attn_norm.weight", dim, 0, true);
    layer->wq = take_of(l, i, "attn_q.weight", dim, dim, true);
    layer->wk = take_of(l, i, "attn_k.weight", kv, dim, true);
    layer->wv = take_of(l, i, "attn_v.weight", kv, dim, true);
    layer->bq = take_of(l, i, "attn_q.bias", dim, 0, false);
    layer->bk = take_of(l, i, "attn_k.bias", kv, 0, false);
    layer->bv = take_of(l, i, "attn_v.bias", kv, 0, false);
    layer->wo = take_of(l, i, "attn_output.weight", dim, dim, true);
    layer->ffn_norm = take_of(l, i, "ffn_norm.weight", dim, 0, true);
    layer->w1 = take_of(l, i, "ffn_gate.weight", s->hidden, dim, true);
    layer->w2 = take_of(l, i, "ffn_down.weight", dim, s->hidden, true);
    layer->w3 = take_of(l, i, "ffn_up.weight", s->hidden, dim, true);
}

static BELL_MUST_CHECK bell_status
take_weights(struct loader *l)
{
    struct llama *model = l->model;
    const struct llama_shape *s = &model->shape;
    double embedding_bytes;
    int64_t i;

    model->embedding =
        take_gguf(l, "token_embd.weight", s->n_tokens, s->dim, true);
    embedding_bytes = model->n_weight_bytes;
    for (i = 0; i < s->n_layers && l->status == BELL_OK; i++)
        take_layer(l, i);
    model->norm = take_gguf(l, "output_norm.weight", s->dim, 0, true);
    model->classifier =
        take_gguf(l, "output.weight", s->n_tokens, s->dim, false);
    if (model->classifier)
        model->n_weight_bytes -= embedding_bytes; /* of which a row is read */
    else
        model->classifier = model->embedding;
    if (l->status != BELL_OK)
        return l->status;
    return bell_context_status(model->ctx);
}

/* A tensor that is not used would make another model. */
static BELL_MUST_CHECK bell_status
check_taken(struct loader *l)
{
    const struct bell_file_entry *entry;
    uint32_t i;

    for (i = 0; (entry = bell_file_at(l->file, i)); i++) {
        if (!map_get(&l->taken, (uintptr_t)entry))
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: the tensor '%.200s' is not supported: "
                             "without it this would be another model",
                             l->path, entry->name);
    }
    return BELL_OK;
}

bell_status
llama_load_gguf(const struct bell_file *file, const char *path,
                struct llama *model)
{
    struct loader l = {.file = file, .path = path, .model = model};
    bell_status status;

    BELL_TRY(read_shape(file, path, model));
    model->layers =
        host_calloc((size_t)model->shape.n_layers, sizeof(*model->layers));
    if (!model->layers)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %lld layers",
                         (long long)model->shape.n_layers);
    map_init(&l.taken);
    status = take_weights(&l);
    if (status == BELL_OK)
        status = check_taken(&l);
    map_fini(&l.taken);
    return status;
}

/* ---- vocabulary ---- */

#define TOKENS_KEY "tokenizer.ggml.tokens"

/* U+2581, which stands for a space. */
static const char block[] = "\xe2\x96\x81";

/* Copies a token's text: SentencePiece's blocks as spaces, byte-level BPE's
 * characters as the bytes that they stand for, unless the text was added.
 * False: characters that do not stand for bytes. */
static bool
copy_text(char *to, const char *from, size_t n, bool is_bytes, bool is_added,
          uint32_t *out_n)
{
    uint32_t n_to = 0;
    size_t i;

    if (is_bytes && !is_added)
        return llama_bytes_of(to, from, n, out_n);
    if (is_bytes) {
        memcpy(to, from, n);
        *out_n = (uint32_t)n;
        return true;
    }

    for (i = 0; i < n;) {
        if (n - i >= 3 && memcmp(from + i, block, 3) == 0) {
            to[n_to++] = ' ';
            i += 3;
        } else {
            to[n_to++] = from[i++];
        }
    }
    *out_n = n_to;
    return true;
}

static BELL_MUST_CHECK bell_status
copy_tokens(const struct bell_file *file, const char *path,
            struct llama_vocab *vocab)
{
    uint64_t n_bytes = 0, at = 0;
    const char *text;
    double score;
    int64_t kind;
    size_t n;
    int32_t i;

    for (i = 0; i < vocab->n; i++) {
        if (!bell_file_list_str(file, TOKENS_KEY, (uint64_t)i, &text, &n) ||
            n > LLAMA_PIECE_MAX_BYTES)
            return bell_fail(BELL_E_IO,
                             "%s: token %d is not text of at most %d "
                             "bytes",
                             path, i, LLAMA_PIECE_MAX_BYTES);
        n_bytes += n;
    }
    vocab->bytes = host_alloc(n_bytes + 1);
    if (!vocab->bytes)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for %d tokens",
                         path, vocab->n);
    for (i = 0; i < vocab->n; i++) {
        struct llama_piece *piece = &vocab->pieces[i];
        (void)bell_file_list_str(file, TOKENS_KEY, (uint64_t)i, &text, &n);
        kind = TOKEN_NORMAL;
        (void)bell_file_list_int(file, "tokenizer.ggml.token_type", (uint64_t)i,
                                 &kind);
        piece->is_control = kind == TOKEN_CONTROL;
        piece->is_added = kind == TOKEN_ADDED;
        piece->text = (const char *)vocab->bytes + at;
        if (!copy_text((char *)vocab->bytes + at, text, n, vocab->is_bytes,
                       kind != TOKEN_NORMAL, &piece->n_bytes))
            return bell_fail(BELL_E_IO,
                             "%s: token %d has characters that stand for no "
                             "bytes",
                             path, i);
        at += piece->n_bytes;
        if (bell_file_list_float(file, "tokenizer.ggml.scores", (uint64_t)i,
                                 &score))
            piece->score = (float)score;
    }
    return BELL_OK;
}

/* ---- byte-level BPE ---- */

#define MERGES_KEY "tokenizer.ggml.merges"

/* The token of one side of a pair, from its characters; -1: there is none. */
static int32_t
find_side(const struct llama_vocab *vocab, const char *text, size_t n)
{
    char bytes[LLAMA_PIECE_MAX_BYTES];
    uint32_t n_bytes;

    if (n > sizeof(bytes) || !llama_bytes_of(bytes, text, n, &n_bytes))
        return -1;
    return llama_vocab_find(vocab, bytes, n_bytes);
}

/* A pair, "left right"; of two the first counts. */
static BELL_MUST_CHECK bell_status
take_merge(const struct bell_file *file, const char *path, uint64_t rank,
           struct llama_vocab *vocab)
{
    char bytes[2 * LLAMA_PIECE_MAX_BYTES];
    const struct llama_piece *a, *b;
    const char *text = "", *space = NULL;
    int32_t left = -1, right = -1, joint = -1;
    uint64_t key;
    size_t n = 0;

    if (bell_file_list_str(file, MERGES_KEY, rank, &text, &n) && n > 2)
        space = memchr(text + 1, ' ', n - 1);
    if (space) {
        left = find_side(vocab, text, (size_t)(space - text));
        right = find_side(vocab, space + 1, n - (size_t)(space - text) - 1);
    }
    if (left >= 0 && right >= 0) {
        a = &vocab->pieces[left];
        b = &vocab->pieces[right];
        memcpy(bytes, a->text, a->n_bytes);
        memcpy(bytes + a->n_bytes, b->text, b->n_bytes);
        joint = llama_vocab_find(vocab, bytes, (size_t)a->n_bytes + b->n_bytes);
    }
    if (joint < 0)
        return bell_fail(
            BELL_E_IO,
            "%s: pair %llu, '%.*s', is not one of tokens that make a "
            "token",
            path, (unsigned long long)rank, (int)(n < 80 ? n : 80), text);
    key = llama_pair_key(left, right);
    if (!map_get(&vocab->joints, key) &&
        map_put(&vocab->joints, key, rank << 32 | (uint32_t)joint) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a pair",
                         path);
    return BELL_OK;
}

/* What byte-level BPE has besides its tokens, which are sorted. */
static BELL_MUST_CHECK bell_status
take_merges(const struct bell_file *file, const char *path,
            struct llama_vocab *vocab)
{
    uint64_t n = bell_file_list(file, MERGES_KEY), i;

    for (i = 0; i < 256; i++) {
        vocab->of_byte[i] =
            llama_vocab_find(vocab, (const char *)&vocab->all_bytes[i], 1);
        if (vocab->of_byte[i] < 0)
            return bell_fail(BELL_E_IO, "%s: no token of the byte 0x%02x", path,
                             (unsigned)i);
    }
    if (n > LLAMA_MERGES_MAX)
        return bell_fail(BELL_E_IO, "%s: %llu pairs of tokens, more than %d",
                         path, (unsigned long long)n, LLAMA_MERGES_MAX);
    for (i = 0; i < n; i++)
        BELL_TRY(take_merge(file, path, i, vocab));
    return BELL_OK;
}

/* Which words there are. */
static BELL_MUST_CHECK bell_status
find_words(const struct bell_file *file, const char *path,
           struct llama_vocab *vocab)
{
    const char *name = "gpt-2";
    size_t n = 5;

    (void)bell_file_str(file, "tokenizer.ggml.pre", &name, &n);
    if (!llama_words_find(name, n, &vocab->words))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: words of the kind '%.*s' (tokenizer.ggml.pre); "
                         "gpt-2, llama-bpe and qwen2 are known",
                         path, (int)(n < 40 ? n : 40), name);
    vocab->joins_all = vocab->words == LLAMA_WORDS_LLAMA3;
    vocab->adds_begin = vocab->words == LLAMA_WORDS_LLAMA3;
    return BELL_OK;
}

/* ---- the vocabulary as a whole ---- */

static bool
has_text(const char *text, size_t n, const char *part)
{
    return memmem(text, n, part, strlen(part)) != NULL;
}

static enum llama_form
find_form(const struct bell_file *file)
{
    const char *text = "";
    size_t n = 0;

    (void)bell_file_str(file, "tokenizer.chat_template", &text, &n);
    if (has_text(text, n, "<|im_start|>"))
        return LLAMA_FORM_CHATML;
    if (has_text(text, n, "<|start_header_id|>"))
        return LLAMA_FORM_LLAMA3;
    return has_text(text, n, "[INST]") ? LLAMA_FORM_LLAMA2 : LLAMA_FORM_NONE;
}

/* The token that the file has under that key; else as it was. */
static BELL_MUST_CHECK bell_status
take_special(const struct bell_file *file, const char *path, const char *key,
             int32_t n, int32_t *token)
{
    int64_t value;

    if (!bell_file_int(file, key, &value))
        return BELL_OK;
    if (value < 0 || value >= n)
        return bell_fail(BELL_E_IO, "%s: %s is %lld; there are %d tokens", path,
                         key, (long long)value, n);
    *token = (int32_t)value;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
take_vocab(const struct bell_file *file, const char *path,
           struct llama_vocab *vocab)
{
    int64_t adds;

    if (vocab->is_bytes)
        BELL_TRY(find_words(file, path, vocab));
    BELL_TRY(copy_tokens(file, path, vocab));
    BELL_TRY(take_special(file, path, "tokenizer.ggml.eos_token_id", vocab->n,
                          &vocab->end));
    if (vocab->is_bytes)
        vocab->begin = vocab->end;
    BELL_TRY(take_special(file, path, "tokenizer.ggml.bos_token_id", vocab->n,
                          &vocab->begin));
    BELL_TRY(take_special(file, path, "tokenizer.ggml.eot_token_id", vocab->n,
                          &vocab->end_turn));
    if (bell_file_int(file, "tokenizer.ggml.add_bos_token", &adds))
        vocab->adds_begin = adds != 0;
    vocab->form = find_form(file);
    llama_vocab_sort(vocab);
    return vocab->is_bytes ? take_merges(file, path, vocab) : BELL_OK;
}

bell_status
llama_vocab_from_gguf(const struct bell_file *file, const char *path, int64_t n,
                      struct llama_vocab *out_vocab)
{
    const char *kind = "";
    size_t n_kind = 0;
    bool is_bytes;
    bell_status status;

    (void)bell_file_str(file, "tokenizer.ggml.model", &kind, &n_kind);
    is_bytes = n_kind == 4 && memcmp(kind, "gpt2", 4) == 0;
    if (!is_bytes && (n_kind != 5 || memcmp(kind, "llama", 5) != 0))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: a tokenizer of the kind '%.*s'; llama "
                         "(SentencePiece) and gpt2 (byte-level BPE) are known",
                         path, (int)(n_kind < 40 ? n_kind : 40), kind);
    BELL_TRY(llama_check_tokenizer_keys(file, path, is_bytes));
    if (bell_file_list(file, TOKENS_KEY) != (uint64_t)n)
        return bell_fail(
            BELL_E_IO, "%s: %llu tokens have a text, not %lld", path,
            (unsigned long long)bell_file_list(file, TOKENS_KEY), (long long)n);
    BELL_TRY(llama_vocab_init(n, out_vocab));
    out_vocab->is_bytes = is_bytes;
    status = take_vocab(file, path, out_vocab);
    if (status != BELL_OK)
        llama_vocab_fini(out_vocab);
    return status;
}
