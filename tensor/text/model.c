/* Models: the tokens of a piece of text.
 *
 * src: "Neural machine translation of rare words with subword units" (BPE),
 * "Subword regularization" (Unigram), BERT's tokenization.py (WordPiece); for
 * what they leave open, Hugging Face's tokenizers 0.23 and SentencePiece 0.2,
 * by which tests judge.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/text/text.h"
#include "tensor/text/unicode.h"

#define UNKNOWN_PENALTY 10.0

bell_status
token_list_add(struct token_list *list, int32_t id)
{
    if (host_grow((void **)&list->ids, &list->cap, list->n + 1,
                  sizeof(*list->ids)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for tokens");
    list->ids[list->n++] = id;
    return BELL_OK;
}

void
text_room_fini(struct text_room *room)
{
    regex_room_fini(&room->regex);
    host_free(room->symbols);
    host_free(room->heap);
    text_pieces_fini(&room->a);
    text_pieces_fini(&room->b);
    memset(room, 0, sizeof(*room));
}

static bell_status
no_token(const char *text, size_t n)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "'%.*s' has no token, and the tokenizer has none for what "
                     "it does not know",
                     (int)(n < 40 ? n : 40), text);
}

/* ---- BPE ---- */

/* A part of a word, in a list; n is 0 when it was joined to another. */
struct symbol {
    int32_t id;
    uint32_t previous, next;
    bool is_frozen;
    size_t at, n;
};
#define NO_SYMBOL UINT32_MAX

/* A pair that can be joined; it may be stale. */
struct pair {
    double order; /* the least first; of equals the leftmost */
    uint32_t left;
    int32_t id;
    size_t n; /* bytes of both */
};

static bool
pair_before(const struct pair *a, const struct pair *b)
{
    return a->order != b->order ? a->order < b->order : a->left < b->left;
}

static bool
push_pair(struct text_room *room, struct pair pair)
{
    size_t i = room->n_heap;
    struct pair *heap;

    if (host_grow(&room->heap, &room->cap_heap, i + 1, sizeof(*heap)) != 0)
        return false;
    heap = room->heap;
    room->n_heap++;
    for (; i > 0 && pair_before(&pair, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = pair;
    return true;
}

static struct pair
pop_pair(struct text_room *room)
{
    struct pair *heap = room->heap, top = heap[0];
    struct pair last = heap[--room->n_heap];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < room->n_heap) {
        if (child + 1 < room->n_heap &&
            pair_before(&heap[child + 1], &heap[child]))
            child++;
        if (!pair_before(&heap[child], &last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

static BELL_MUST_CHECK bell_status
add_word_symbol(struct text_room *room, size_t *n, int32_t id, size_t at,
                size_t bytes, bool is_frozen)
{
    struct symbol *symbols;

    if (*n >= NO_SYMBOL - 1 || host_grow(&room->symbols, &room->cap_symbols,
                                         *n + 1, sizeof(*symbols)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a word");
    symbols = room->symbols;
    symbols[*n] = (struct symbol){.id = id,
                                  .previous = (uint32_t)*n - 1,
                                  .next = NO_SYMBOL,
                                  .is_frozen = is_frozen,
                                  .at = at,
                                  .n = bytes};
    if (*n)
        symbols[*n - 1].next = (uint32_t)*n;
    else
        symbols[0].previous = NO_SYMBOL;
    ++*n;
    return BELL_OK;
}

/* The token of a symbol and the next together; false: there is none. */
static bool
find_pair(const struct text_model *model, const struct token_index *index,
          const struct symbol *symbols, const char *text, uint32_t left,
          struct pair *out)
{
    const struct symbol *a = &symbols[left], *b;
    const uint64_t *found;
    int32_t id;

    if (a->next == NO_SYMBOL)
        return false;
    b = &symbols[a->next];
    if (model->kind == MODEL_SCORED_BPE) {
        if (a->is_frozen || b->is_frozen)
            return false;
        id = token_index_find(index, text + a->at, a->n + b->n);
        if (id < 0)
            return false;
        *out = (struct pair){-index->tokens[id].score, left, id, a->n + b->n};
        return true;
    }
    found = map_get(&model->merges,
                    (uint64_t)(uint32_t)a->id << 32 | (uint32_t)b->id);
    if (!found)
        return false;
    *out = (struct pair){(double)(*found >> 32), left,
                         (int32_t)(uint32_t)*found, a->n + b->n};
    return true;
}

static BELL_MUST_CHECK bell_status
join_symbols(const struct text_model *model, const struct token_index *index,
             struct text_room *room, const char *text, size_t n)
{
    struct symbol *symbols = room->symbols;
    struct pair pair, now;
    uint32_t i;
    bool ok = true;

    room->n_heap = 0;
    for (i = 0; ok && i < n; i++) {
        if (find_pair(model, index, symbols, text, i, &pair))
            ok = push_pair(room, pair);
    }
    while (ok && room->n_heap) {
        struct symbol *a, *b;
        pair = pop_pair(room);
        a = &symbols[pair.left];
        if (a->n == 0 || a->next == NO_SYMBOL)
            continue;
        b = &symbols[a->next];
        /* As those that are compared with: stale is what would be another
         * token now; of SentencePiece, of another length. */
        if (model->kind == MODEL_SCORED_BPE
                ? a->n + b->n != pair.n
                : !find_pair(model, index, symbols, text, pair.left, &now) ||
                      now.id != pair.id)
            continue;
        a->id = pair.id;
        a->n += b->n;
        b->n = 0;
        a->next = b->next;
        if (a->next != NO_SYMBOL)
            symbols[a->next].previous = pair.left;
        if (a->previous != NO_SYMBOL &&
            find_pair(model, index, symbols, text, a->previous, &now))
            ok = push_pair(room, now);
        if (ok && find_pair(model, index, symbols, text, pair.left, &now))
            ok = push_pair(room, now);
    }
    if (!ok)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for pairs");
    return BELL_OK;
}

/* The token of a character of a word, with what comes before or behind it. */
static int32_t
find_char_token(const struct text_model *model, const struct token_index *index,
                const char *text, size_t n, bool is_first, bool is_last,
                char *buf, size_t *out_n)
{
    size_t k = 0;

    if (!is_first) {
        memcpy(buf, model->prefix, model->n_prefix);
        k = model->n_prefix;
    }
    memcpy(buf + k, text, n);
    k += n;
    if (is_last) {
        memcpy(buf + k, model->suffix, model->n_suffix);
        k += model->n_suffix;
    }
    *out_n = k;
    return token_index_find(index, buf, k);
}

/* Tokens of the bytes; false: not all are there. */
static bool
has_bytes(const struct text_model *model, const char *bytes, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (model->of_byte[(uint8_t)bytes[i]] < 0)
            return false;
    }
    return true;
}

static BELL_MUST_CHECK bell_status
begin_word(const struct text_model *model, const struct token_index *index,
           struct text_room *room, const char *text, size_t n, char *buf,
           size_t *out_n)
{
    size_t at, bytes, k, i, unknown = 0; /* bytes of unknown characters */
    uint32_t c;
    int32_t id;

    for (at = 0; at < n; at += bytes) {
        bytes = unicode_read(text + at, n - at, &c);
        id = find_char_token(model, index, text + at, bytes, at == 0,
                             at + bytes == n, buf, &k);
        if (id >= 0) {
            if (unknown)
                BELL_TRY(add_word_symbol(room, out_n, model->unknown, 0,
                                         unknown, false));
            unknown = 0;
            BELL_TRY(add_word_symbol(room, out_n, id, at, bytes, false));
            continue;
        }
        if (model->byte_fallback && has_bytes(model, buf, k)) {
            for (i = 0; i < k; i++)
                BELL_TRY(add_word_symbol(room, out_n,
                                         model->of_byte[(uint8_t)buf[i]], at, 1,
                                         false));
            continue;
        }
        if (model->unknown < 0)
            continue; /* as tokenizers do: it is left out */
        if (unknown && !model->fuses_unknown) {
            BELL_TRY(add_word_symbol(room, out_n, model->unknown, 0, unknown,
                                     false));
            unknown = 0;
        }
        unknown += bytes;
    }
    if (unknown)
        BELL_TRY(
            add_word_symbol(room, out_n, model->unknown, 0, unknown, false));
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
encode_bpe(const struct text_model *model, const struct token_index *index,
           struct text_room *room, const char *text, size_t n,
           struct token_list *out)
{
    const struct symbol *symbols;
    size_t n_symbols = 0;
    uint32_t i;
    char *buf;
    bell_status status;
    int32_t id;

    if (model->ignores_merges) {
        id = token_index_find(index, text, n);
        if (id >= 0)
            return token_list_add(out, id);
    }
    buf = host_alloc(model->n_prefix + model->n_suffix + 8);
    if (!buf)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a word");
    status = begin_word(model, index, room, text, n, buf, &n_symbols);
    host_free(buf);
    BELL_TRY(status);
    BELL_TRY(join_symbols(model, index, room, text, n_symbols));
    symbols = room->symbols;
    for (i = n_symbols ? 0 : NO_SYMBOL; i != NO_SYMBOL; i = symbols[i].next)
        BELL_TRY(token_list_add(out, symbols[i].id));
    return BELL_OK;
}

/* ---- SentencePiece's ---- */

/* A token of SentencePiece: unknown ones are their bytes, or one for all
 * neighbours. */
static BELL_MUST_CHECK bell_status
add_sentencepiece(const struct text_model *model, int32_t id, const char *text,
                  size_t n, bool *was_unknown, struct token_list *out)
{
    size_t i;

    if (id >= 0 && id != model->unknown) {
        *was_unknown = false;
        return token_list_add(out, id);
    }
    if (model->byte_fallback && has_bytes(model, text, n)) {
        for (i = 0; i < n; i++)
            BELL_TRY(token_list_add(out, model->of_byte[(uint8_t)text[i]]));
        *was_unknown = false;
        return BELL_OK;
    }
    if (model->unknown < 0)
        return no_token(text, n);
    if (*was_unknown)
        return BELL_OK;
    *was_unknown = true;
    return token_list_add(out, model->unknown);
}

/* Bytes of the longest user's token that the text begins with; 0: none. */
static size_t
user_bytes(const struct token_index *index, const char *text, size_t n)
{
    struct token_walk walk = token_walk_begin(index);
    size_t i, longest = 0;
    int32_t id;

    for (i = 0; i < n && token_walk_step(index, &walk, (uint8_t)text[i], &id);
         i++) {
        if (id >= 0 && index->tokens[id].kind == TOKEN_USER)
            longest = i + 1;
    }
    return longest;
}

static BELL_MUST_CHECK bell_status
encode_scored(const struct text_model *model, const struct token_index *index,
              struct text_room *room, const char *text, size_t n,
              struct token_list *out)
{
    const struct symbol *symbols;
    size_t at, bytes, n_symbols = 0;
    bool was_unknown = false;
    uint32_t c, i;

    for (at = 0; at < n; at += bytes) {
        size_t user = user_bytes(index, text + at, n - at);
        bytes = user ? user : unicode_read(text + at, n - at, &c);
        BELL_TRY(add_word_symbol(room, &n_symbols, -1, at, bytes, user != 0));
    }
    BELL_TRY(join_symbols(model, index, room, text, n_symbols));
    symbols = room->symbols;
    for (i = n_symbols ? 0 : NO_SYMBOL; i != NO_SYMBOL; i = symbols[i].next) {
        const struct symbol *s = &symbols[i];
        int32_t id = token_index_find(index, text + s->at, s->n);
        if (id >= 0 && index->tokens[id].kind == TOKEN_UNUSED)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "the text becomes '%.*s', token %d, which the "
                             "file says is unused: such are not supported",
                             (int)(s->n < 40 ? s->n : 40), text + s->at, id);
        BELL_TRY(add_sentencepiece(model, id, text + s->at, s->n, &was_unknown,
                                   out));
    }
    return BELL_OK;
}

/* ---- Unigram ---- */

/* The best way to a place in the text. */
struct best {
    double score;
    size_t from; /* SIZE_MAX: none */
    int32_t id;
};

/* Takes a way where it is better. */
static void
offer(const struct text_model *model, struct best *to, double before,
      double score, size_t from, int32_t id)
{
    double sum = score + before;

    if (model->is_sentencepiece)
        sum = (double)((float)score + (float)before);
    if (to->from != SIZE_MAX && !(sum > to->score))
        return;
    to->score = sum;
    to->from = from;
    to->id = id;
}

static BELL_MUST_CHECK bell_status
find_ways(const struct text_model *model, const struct token_index *index,
          const char *text, size_t n, struct best *best)
{
    double unknown = model->min_score - UNKNOWN_PENALTY;
    size_t at, bytes, i;
    uint32_t c;

    if (model->is_sentencepiece)
        unknown = (double)((float)model->min_score - (float)UNKNOWN_PENALTY);
    for (at = 0; at < n; at += bytes) {
        struct token_walk walk = token_walk_begin(index);
        bool has_single = false;
        int32_t id;
        bytes = unicode_read(text + at, n - at, &c);
        for (i = at;
             i < n && token_walk_step(index, &walk, (uint8_t)text[i], &id);
             i++) {
            const struct token *token;
            double score;
            if (id < 0)
                continue;
            token = &index->tokens[id];
            if (token->kind == TOKEN_UNUSED && model->is_sentencepiece)
                continue;
            score = token->score;
            if (token->kind == TOKEN_USER && model->is_sentencepiece)
                score =
                    (double)((float)(i + 1 - at) * (float)model->max_score) -
                    0.1;
            offer(model, &best[i + 1], best[at].score, score, at, id);
            has_single = has_single || i + 1 - at == bytes;
        }
        if (!has_single) {
            if (model->unknown < 0)
                return no_token(text + at, bytes);
            offer(model, &best[at + bytes], best[at].score, unknown, at,
                  model->unknown);
        }
    }
    return BELL_OK;
}

/* One part of a piece that tokenizers' Unigram found. */
static BELL_MUST_CHECK bell_status
add_unigram(const struct text_model *model, const struct token_index *index,
            const char *text, size_t n, struct token_list *out)
{
    int32_t id = token_index_find(index, text, n);
    size_t i;

    if (id >= 0)
        return token_list_add(out, id);
    if (model->byte_fallback && has_bytes(model, text, n)) {
        for (i = 0; i < n; i++)
            BELL_TRY(token_list_add(out, model->of_byte[(uint8_t)text[i]]));
        return BELL_OK;
    }
    return token_list_add(out, model->unknown);
}

/* Tokens along the best way, which is turned round first. */
static BELL_MUST_CHECK bell_status
add_way(const struct text_model *model, const struct token_index *index,
        const char *text, size_t n, struct best *best, struct token_list *out)
{
    size_t end = n, from, behind = SIZE_MAX, at, next;
    bool was_unknown = false;

    while (end > 0) { /* best[x].from becomes where the part from x ends */
        from = best[end].from;
        best[end].from = behind;
        behind = end;
        end = from;
    }
    /* part from `at` to `next`; its token is kept where it ends */
    for (at = 0, next = behind; at < n; at = next, next = best[at].from) {
        if (model->is_sentencepiece) {
            BELL_TRY(add_sentencepiece(model, best[next].id, text + at,
                                       next - at, &was_unknown, out));
            continue;
        }
        while (best[next].id == model->unknown && next < n &&
               best[best[next].from].id == model->unknown)
            next = best[next].from;
        BELL_TRY(add_unigram(model, index, text + at, next - at, out));
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
encode_unigram(const struct text_model *model, const struct token_index *index,
               const char *text, size_t n, struct token_list *out)
{
    struct best *best = host_calloc(n + 1, sizeof(*best));
    bell_status status;
    size_t i;

    if (!best)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu bytes", n);
    for (i = 0; i <= n; i++)
        best[i].from = SIZE_MAX;
    status = find_ways(model, index, text, n, best);
    if (status == BELL_OK)
        status = add_way(model, index, text, n, best, out);
    host_free(best);
    return status;
}

/* ---- words ---- */

static BELL_MUST_CHECK bell_status
add_unknown(const struct text_model *model, const char *text, size_t n,
            struct token_list *out)
{
    if (model->unknown < 0)
        return no_token(text, n);
    return token_list_add(out, model->unknown);
}

/* The longest token that goes on behind `prefix`; 0: none. */
static size_t
longest_part(const struct token_index *index, const char *prefix,
             size_t n_prefix, const char *text, size_t n, int32_t *out_id)
{
    struct token_walk walk = token_walk_begin(index);
    size_t i, longest = 0;
    int32_t id;

    for (i = 0; i < n_prefix; i++) {
        if (!token_walk_step(index, &walk, (uint8_t)prefix[i], &id))
            return 0;
    }
    for (i = 0; i < n && token_walk_step(index, &walk, (uint8_t)text[i], &id);
         i++) {
        if (id >= 0) {
            longest = i + 1;
            *out_id = id;
        }
    }
    return longest;
}

static BELL_MUST_CHECK bell_status
encode_wordpiece(const struct text_model *model,
                 const struct token_index *index, const char *text, size_t n,
                 struct token_list *out)
{
    size_t at, k, n_chars = 0, n_before = out->n;
    uint32_t c;
    int32_t id = -1;

    for (at = 0; at < n; n_chars++)
        at += unicode_read(text + at, n - at, &c);
    if (n_chars > model->max_chars)
        return add_unknown(model, text, n, out);
    for (at = 0; at < n; at += k) {
        k = at == 0 ? longest_part(index, model->begin_prefix,
                                   model->n_begin_prefix, text, n, &id)
                    : longest_part(index, model->prefix, model->n_prefix,
                                   text + at, n - at, &id);
        if (k == 0) {
            out->n = n_before;
            return add_unknown(model, text, n, out);
        }
        BELL_TRY(token_list_add(out, id));
    }
    return BELL_OK;
}

bell_status
text_model_encode(const struct text_model *model,
                  const struct token_index *index, struct text_room *room,
                  const char *text, size_t n, struct token_list *out)
{
    int32_t id;

    if (n == 0)
        return BELL_OK;
    switch (model->kind) {
    case MODEL_BPE:
        return encode_bpe(model, index, room, text, n, out);
    case MODEL_SCORED_BPE:
        return encode_scored(model, index, room, text, n, out);
    case MODEL_UNIGRAM:
        return encode_unigram(model, index, text, n, out);
    case MODEL_WORDPIECE:
        return encode_wordpiece(model, index, text, n, out);
    case MODEL_WORDLEVEL:
    default:
        id = token_index_find(index, text, n);
        return id >= 0 ? token_list_add(out, id)
                       : add_unknown(model, text, n, out);
    }
}
