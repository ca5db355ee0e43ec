/* Tokenizers: the public calls, and the way through the steps. */
#include "doorbell/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "doorbell/files.h"
#include "tensor/text/text.h"
#include "tensor/text/unicode.h"

/* ---- made by the readers of files ---- */

bell_status
tokenizer_set_token(struct bell_tokenizer *t, size_t id, const char *text,
                    size_t n, double score, enum token_kind kind)
{
    size_t before = t->n_tokens;
    char *copy;

    if (id >= TEXT_TOKENS_MAX || n > UINT32_MAX / 2)
        return bell_fail(BELL_E_IO, "%s: token number %zu is not supported",
                         t->path, id);
    copy = arena_copy(&t->arena, text, n ? n : 1);
    if (!copy ||
        (id >= t->n_tokens && host_grow((void **)&t->tokens, &t->cap_tokens,
                                        id + 1, sizeof(*t->tokens)) != 0))
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for tokens",
                         t->path);
    if (id >= t->n_tokens) {
        memset(t->tokens + before, 0, (id + 1 - before) * sizeof(*t->tokens));
        t->n_tokens = id + 1;
    }
    t->tokens[id] = (struct token){
        .text = copy, .n = (uint32_t)n, .kind = (uint8_t)kind, .score = score};
    return BELL_OK;
}

static bool
is_normal_piece(const struct token *token)
{
    return token->kind == TOKEN_NORMAL || token->kind == TOKEN_USER ||
           token->kind == TOKEN_UNUSED;
}

static bool
is_user_piece(const struct token *token)
{
    return token->kind == TOKEN_USER;
}

bell_status
tokenizer_index(struct bell_tokenizer *t)
{
    bool by_kind =
        t->model.is_sentencepiece || t->model.kind == MODEL_SCORED_BPE;
    struct token_index all;
    char name[8];
    int i;

    BELL_TRY(token_index_init(&t->index, t->tokens, t->n_model,
                              by_kind ? is_normal_piece : NULL));
    BELL_TRY(token_index_init(&all, t->tokens, t->n_model, NULL));
    for (i = 0; i < 256; i++) {
        snprintf(name, sizeof(name), "<0x%02X>", i);
        t->model.of_byte[i] = token_index_find(&all, name, 6);
    }
    token_index_fini(&all);
    if (by_kind)
        BELL_TRY(
            token_index_init(&t->users, t->tokens, t->n_model, is_user_piece));
    return BELL_OK;
}

bell_status
tokenizer_add_merge(struct bell_tokenizer *t, size_t rank, const char *left,
                    size_t n_left, const char *right, size_t n_right)
{
    int32_t a = token_index_find(&t->index, left, n_left);
    int32_t b = token_index_find(&t->index, right, n_right), id;
    size_t n_prefix = t->model.n_prefix;
    char *both;

    if (a < 0 || b < 0 || n_right < n_prefix)
        return bell_fail(BELL_E_IO,
                         "%s: merge %zu joins '%.*s' and '%.*s', which are not "
                         "both tokens",
                         t->path, rank, (int)(n_left < 40 ? n_left : 40), left,
                         (int)(n_right < 40 ? n_right : 40), right);
    both = host_alloc(n_left + n_right + 1);
    if (!both)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a merge");
    memcpy(both, left, n_left);
    memcpy(both + n_left, right + n_prefix, n_right - n_prefix);
    id = token_index_find(&t->index, both, n_left + n_right - n_prefix);
    host_free(both);
    if (id < 0)
        return bell_fail(BELL_E_IO,
                         "%s: merge %zu makes '%.*s%.*s', which is not a token",
                         t->path, rank, (int)(n_left < 40 ? n_left : 40), left,
                         (int)(n_right < 40 ? n_right : 40), right);
    if (map_put(&t->model.merges, (uint64_t)(uint32_t)a << 32 | (uint32_t)b,
                (uint64_t)rank << 32 | (uint32_t)id) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for merges");
    return BELL_OK;
}

/* The whole text's normal form into room->a. */
static BELL_MUST_CHECK bell_status
normalize_all(const struct bell_tokenizer *t, struct text_room *room,
              const char *text, size_t n, bool *is_first)
{
    struct text_pieces swap;
    size_t i;

    text_pieces_clear(&room->a);
    text_add_bytes(&room->a, text, n);
    for (i = 0; i < t->n_norms; i++) {
        text_pieces_clear(&room->b);
        BELL_TRY(text_normalize(&t->norms[i], &room->regex,
                                room->a.n ? room->a.text : "", room->a.n,
                                &room->b, is_first));
        swap = room->a;
        room->a = room->b;
        room->b = swap;
    }
    if (room->a.failed || room->b.failed)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a text");
    return BELL_OK;
}

static bool
is_plain_pattern(const struct token *token)
{
    return token->kind == TOKEN_CONTROL;
}

static bool
is_normal_pattern(const struct token *token)
{
    return token->kind == TOKEN_USER;
}

bell_status
tokenizer_finish(struct bell_tokenizer *t)
{
    struct text_room room = {0};
    bell_status status = BELL_OK;
    size_t i;

    t->patterns =
        host_calloc(t->n_added ? t->n_added : 1, sizeof(*t->patterns));
    if (!t->patterns)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for added tokens");
    for (i = 0; status == BELL_OK && i < t->n_added; i++) {
        const struct text_added *added = &t->added[i];
        struct token *token = &t->tokens[added->id];
        bool is_first = true;
        t->patterns[i] = *token;
        t->patterns[i].kind = TOKEN_CONTROL;
        if (!added->normalized)
            continue;
        t->patterns[i].kind = TOKEN_USER;
        status = normalize_all(t, &room, token->text, token->n, &is_first);
        if (status != BELL_OK)
            break;
        t->patterns[i].n = (uint32_t)room.a.n;
        t->patterns[i].text =
            arena_copy(&t->arena, room.a.n ? room.a.text : "", room.a.n + 1);
        if (!t->patterns[i].text)
            status = bell_fail(BELL_E_NO_MEMORY, "out of memory for tokens");
    }
    text_room_fini(&room);
    BELL_TRY(status);
    BELL_TRY(token_index_init(&t->plain_added, t->patterns, t->n_added,
                              is_plain_pattern));
    return token_index_init(&t->normal_added, t->patterns, t->n_added,
                            is_normal_pattern);
}

/* ---- opening ---- */

static struct bell_tokenizer *
create(const char *path)
{
    struct bell_tokenizer *t = host_calloc(1, sizeof(*t));
    size_t i;

    if (!t)
        return NULL;
    arena_init(&t->arena);
    map_init(&t->model.merges);
    t->path = host_strdup(path);
    t->model.unknown = -1;
    t->model.prefix = t->model.suffix = t->model.begin_prefix = "";
    for (i = 0; i < BELL_TOKEN_COUNT; i++)
        t->special[i] = -1;
    if (!t->path) {
        bell_tokenizer_close(t);
        return NULL;
    }
    return t;
}

void
bell_tokenizer_close(struct bell_tokenizer *t)
{
    size_t i;

    if (!t)
        return;
    for (i = 0; i < t->n_norms; i++)
        regex_destroy(t->norms[i].regex);
    for (i = 0; i < t->n_splits; i++)
        regex_destroy(t->splits[i].regex);
    for (i = 0; i < t->n_decodes; i++)
        regex_destroy(t->decodes[i].regex);
    token_index_fini(&t->index);
    token_index_fini(&t->plain_added);
    token_index_fini(&t->normal_added);
    token_index_fini(&t->users);
    map_fini(&t->model.merges);
    host_free(t->tokens);
    host_free(t->added);
    host_free(t->patterns);
    host_free(t->before);
    host_free(t->after);
    host_free(t->path);
    arena_fini(&t->arena);
    host_free(t);
}

static bell_status
finish_open(bell_status status, struct bell_tokenizer *t,
            struct bell_tokenizer **out_tokenizer)
{
    if (status == BELL_OK)
        status = tokenizer_finish(t);
    if (status != BELL_OK)
        bell_tokenizer_close(t);
    else
        *out_tokenizer = t;
    return status;
}

bell_status
bell_tokenizer_of_file(const struct bell_file *file,
                       struct bell_tokenizer **out_tokenizer)
{
    struct bell_tokenizer *t;

    if (!file || !out_tokenizer)
        return bell_fail(BELL_BAD_MISSING, "a tokenizer of no file");
    t = create("the tokenizer");
    if (!t)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a tokenizer");
    return finish_open(tokenizer_read_gguf(t, file), t, out_tokenizer);
}

static BELL_MUST_CHECK bell_status
open_gguf(struct bell_tokenizer *t)
{
    struct bell_file *file;
    bell_status status;

    BELL_TRY(bell_file_open(t->path, &file));
    status = tokenizer_read_gguf(t, file);
    bell_file_close(file);
    return status;
}

bell_status
bell_tokenizer_open(const char *path, struct bell_tokenizer **out_tokenizer)
{
    struct file_bytes file = {0};
    struct bell_tokenizer *t;
    bell_status status;
    const uint8_t *bytes;
    size_t at = 0;

    if (!path || !out_tokenizer)
        return bell_fail(BELL_BAD_MISSING, "a tokenizer of no file");
    t = create(path);
    if (!t)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a tokenizer");
    status = file_read(path, &file);
    if (status == BELL_OK) {
        bytes = file.data;
        while (at < file.size_bytes && strchr(" \t\r\n", bytes[at]) &&
               bytes[at])
            at++;
        if (file.size_bytes >= 4 && memcmp(bytes, "GGUF", 4) == 0)
            status = open_gguf(t);
        else if (at < file.size_bytes && bytes[at] == '{')
            status =
                tokenizer_read_json(t, (const char *)bytes, file.size_bytes);
        else
            status = tokenizer_read_sentencepiece(t, bytes, file.size_bytes);
        file_bytes_fini(&file);
    }
    return finish_open(status, t, out_tokenizer);
}

/* ---- encoding ---- */

/* Adds a text's part between added tokens; none where it is empty. */
static void
add_part(const char *text, size_t begin, size_t end, int32_t id, bool is_first,
         struct text_pieces *to)
{
    size_t at = to->n;

    text_add_bytes(to, text + begin, end - begin);
    text_end_piece(to, at, id, is_first && begin == 0);
}

/* Whether a token that is a word of its own stands alone. */
static bool
stands_alone(const char *text, size_t n, size_t begin, size_t end)
{
    size_t at = begin;
    uint32_t c;

    if (begin > 0) {
        do
            at--;
        while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80);
        (void)unicode_read(text + at, begin - at, &c);
        if (unicode_is_word(c, true))
            return false;
    }
    if (end < n) {
        (void)unicode_read(text + end, n - end, &c);
        if (unicode_is_word(c, true))
            return false;
    }
    return true;
}

/* Where spaces that end at `at` begin, not before `least`; and where spaces
 * that begin there end. */
static size_t
spaces_before(const char *text, size_t least, size_t at)
{
    size_t begin;
    uint32_t c;

    while (at > least) {
        begin = at - 1;
        while (begin > least && ((uint8_t)text[begin] & 0xc0) == 0x80)
            begin--;
        (void)unicode_read(text + begin, at - begin, &c);
        if (!unicode_is_space(c))
            break;
        at = begin;
    }
    return at;
}

static size_t
spaces_behind(const char *text, size_t n, size_t at)
{
    size_t step;
    uint32_t c;

    while (at < n) {
        step = unicode_read(text + at, n - at, &c);
        if (!unicode_is_space(c))
            break;
        at += step;
    }
    return at;
}

/* The longest pattern at a place: its number, or -1. */
static int32_t
find_pattern(const struct token_index *index, const char *text, size_t n,
             size_t at, size_t *out_end)
{
    struct token_walk walk = token_walk_begin(index);
    int32_t id, found = -1;

    for (; at < n && token_walk_step(index, &walk, (uint8_t)text[at], &id);
         at++) {
        if (id >= 0) {
            found = id;
            *out_end = at + 1;
        }
    }
    return found;
}

/* Cuts added tokens out of a text. */
static void
cut_added(const struct bell_tokenizer *t, const struct token_index *index,
          const char *text, size_t n, bool is_first, uint32_t flags,
          struct text_pieces *to)
{
    size_t at = 0, from = 0, begin, end = 0;
    uint32_t c;

    while (index->n && from < n) {
        int32_t found = find_pattern(index, text, n, from, &end);
        const struct text_added *added;
        if (found < 0) {
            from += unicode_read(text + from, n - from, &c);
            continue;
        }
        added = &t->added[found];
        begin = from;
        from = end;
        if (((flags & BELL_TOKENS_PLAIN) && added->special) ||
            (added->single_word && !stands_alone(text, n, begin, end)))
            continue;
        if (begin < at) /* its spaces were taken already */
            begin = at > end ? end : at;
        if (added->lstrip)
            begin = spaces_before(text, at < begin ? at : begin, begin);
        if (added->rstrip)
            end = spaces_behind(text, n, end);
        if (at < begin)
            add_part(text, at, begin, -1, is_first, to);
        add_part(text, begin, end, added->id, is_first, to);
        at = end;
    }
    if (at < n)
        add_part(text, at, n, -1, is_first, to);
}

/* Normalises what is between added tokens, and cuts out those that are looked
 * for in normal form. */
static BELL_MUST_CHECK bell_status
normalize_parts(const struct bell_tokenizer *t, struct text_room *room,
                const struct text_pieces *from, uint32_t flags,
                struct text_pieces *to)
{
    size_t i;

    for (i = 0; i < from->n_list; i++) {
        const struct text_piece *piece = &from->list[i];
        bool is_first = piece->is_first;
        if (piece->id >= 0) {
            add_part(from->text, piece->at, piece->at + piece->n, piece->id,
                     false, to);
            continue;
        }
        BELL_TRY(normalize_all(t, room, from->text + piece->at, piece->n,
                               &is_first));
        if (room->a.n)
            cut_added(t, &t->normal_added, room->a.text, room->a.n, is_first,
                      flags, to);
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
encode_pieces(const struct bell_tokenizer *t, struct text_room *room,
              const struct text_pieces *pieces, struct token_list *out)
{
    size_t i;

    for (i = 0; i < pieces->n_list; i++) {
        const struct text_piece *piece = &pieces->list[i];
        if (piece->id >= 0)
            BELL_TRY(token_list_add(out, piece->id));
        else
            BELL_TRY(text_model_encode(&t->model, &t->index, room,
                                       pieces->text + piece->at, piece->n,
                                       out));
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
encode(const struct bell_tokenizer *t, const char *text, size_t n,
       uint32_t flags, struct text_room *room, struct text_pieces pair[2],
       struct token_list *out)
{
    struct text_pieces *from = &pair[0], *to = &pair[1], *swap;
    size_t i;

    for (i = 0; (flags & BELL_TOKENS_SPECIAL) && i < t->n_before; i++)
        BELL_TRY(token_list_add(out, t->before[i]));
    cut_added(t, &t->plain_added, text, n, true, flags, from);
    BELL_TRY(normalize_parts(t, room, from, flags, to));
    for (i = 0; i < t->n_splits; i++) {
        if (from->failed || to->failed)
            break;
        swap = from;
        from = to;
        to = swap;
        text_pieces_clear(to);
        BELL_TRY(text_split(&t->splits[i], &room->regex, from, to));
    }
    if (from->failed || to->failed)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a text");
    BELL_TRY(encode_pieces(t, room, to, out));
    for (i = 0; (flags & BELL_TOKENS_SPECIAL) && i < t->n_after; i++)
        BELL_TRY(token_list_add(out, t->after[i]));
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_flags(uint32_t flags)
{
    if (flags & ~(uint32_t)(BELL_TOKENS_SPECIAL | BELL_TOKENS_PLAIN))
        return bell_fail(BELL_BAD_VALUE, "flags 0x%x of tokens are not known",
                         flags);
    return BELL_OK;
}

bell_status
bell_tokenizer_encode(const struct bell_tokenizer *t, const char *text,
                      size_t n_bytes, uint32_t flags, int32_t **out_ids,
                      size_t *out_n_ids)
{
    struct token_list out = {0};
    struct text_room room = {0};
    struct text_pieces pair[2] = {{0}, {0}};
    bell_status status;
    size_t at = 0;

    if (!t || !out_ids || !out_n_ids || (!text && n_bytes))
        return bell_fail(BELL_BAD_MISSING, "encode: a pointer is NULL");
    BELL_TRY(check_flags(flags));
    if (!unicode_is_valid(text, n_bytes, &at))
        return bell_fail(BELL_BAD_VALUE, "encode: byte %zu of %zu is not UTF-8",
                         at, n_bytes);
    status = encode(t, n_bytes ? text : "", n_bytes, flags, &room, pair, &out);
    text_pieces_fini(&pair[0]);
    text_pieces_fini(&pair[1]);
    text_room_fini(&room);
    if (status == BELL_OK && !out.ids) {
        out.ids = host_alloc(sizeof(*out.ids));
        if (!out.ids)
            status = bell_fail(BELL_E_NO_MEMORY, "out of memory for tokens");
    }
    if (status != BELL_OK) {
        host_free(out.ids);
        return status;
    }
    *out_ids = out.ids;
    *out_n_ids = out.n;
    return BELL_OK;
}

/* ---- decoding ---- */

static BELL_MUST_CHECK bell_status
decode(const struct bell_tokenizer *t, const int32_t *ids, size_t n,
       uint32_t flags, struct text_pieces pair[2], struct regex_room *room)
{
    struct text_pieces *from = &pair[0], *to = &pair[1], swap;
    size_t i;

    for (i = 0; i < n; i++) {
        const struct token *token;
        size_t at = from->n;
        if (ids[i] < 0 || (size_t)ids[i] >= t->n_tokens ||
            t->tokens[ids[i]].kind == TOKEN_NONE)
            return bell_fail(BELL_BAD_INDEX,
                             "decode: %d, number %zu, is not a token", ids[i],
                             i);
        token = &t->tokens[ids[i]];
        if (token->is_special && !(flags & BELL_TOKENS_SPECIAL))
            continue;
        text_add_bytes(from, token->text, token->n);
        text_end_piece(from, at, ids[i], false);
    }
    for (i = 0; i < t->n_decodes && !from->failed; i++) {
        text_pieces_clear(to);
        BELL_TRY(text_decode(&t->decodes[i], t->tokens, room, from, to));
        swap = *from;
        *from = *to;
        *to = swap;
    }
    text_add_bytes(from, "", 1);
    if (from->failed)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a text");
    return BELL_OK;
}

bell_status
bell_tokenizer_decode(const struct bell_tokenizer *t, const int32_t *ids,
                      size_t n_ids, uint32_t flags, char **out_text,
                      size_t *out_n_bytes)
{
    struct text_pieces pair[2] = {{0}, {0}};
    struct regex_room room = {0};
    bell_status status;

    if (!t || !out_text || !out_n_bytes || (!ids && n_ids))
        return bell_fail(BELL_BAD_MISSING, "decode: a pointer is NULL");
    BELL_TRY(check_flags(flags));
    status = decode(t, ids, n_ids, flags, pair, &room);
    regex_room_fini(&room);
    if (status == BELL_OK) {
        *out_text = pair[0].text;
        *out_n_bytes = pair[0].n - 1;
        pair[0].text = NULL;
    }
    text_pieces_fini(&pair[0]);
    text_pieces_fini(&pair[1]);
    return status;
}

void
bell_tokenizer_free(void *ids_or_text)
{
    host_free(ids_or_text);
}

/* ---- tokens ---- */

uint32_t
bell_tokenizer_size(const struct bell_tokenizer *t)
{
    return t ? (uint32_t)t->n_tokens : 0;
}

int32_t
bell_tokenizer_find(const struct bell_tokenizer *t, const char *name,
                    size_t n_bytes)
{
    size_t i;
    int32_t id;

    if (!t || !name)
        return -1;
    for (i = 0; i < t->n_added; i++) {
        const struct token *token = &t->tokens[t->added[i].id];
        if (token->n == n_bytes && memcmp(token->text, name, n_bytes) == 0)
            return t->added[i].id;
    }
    id = token_index_find(&t->index, name, n_bytes);
    for (i = 0; id < 0 && i < t->n_model; i++) {
        const struct token *token = &t->tokens[i];
        if (token->kind != TOKEN_NONE && token->n == n_bytes &&
            memcmp(token->text, name, n_bytes) == 0)
            id = (int32_t)i;
    }
    return id;
}

bool
bell_tokenizer_name(const struct bell_tokenizer *t, int32_t id,
                    const char **out_name, size_t *out_n_bytes)
{
    if (!t || !out_name || !out_n_bytes || id < 0 ||
        (size_t)id >= t->n_tokens || t->tokens[id].kind == TOKEN_NONE)
        return false;
    *out_name = t->tokens[id].text;
    *out_n_bytes = t->tokens[id].n;
    return true;
}

bool
bell_tokenizer_is_special(const struct bell_tokenizer *t, int32_t id)
{
    return t && id >= 0 && (size_t)id < t->n_tokens && t->tokens[id].is_special;
}

int32_t
bell_tokenizer_role(const struct bell_tokenizer *t, enum bell_token_role role)
{
    if (!t || role >= BELL_TOKEN_COUNT)
        return -1;
    return t->special[role];
}

/* ---- streams ---- */

/* The text that a token adds depends on those before it. The text of the last
 * ones is compared with that of these and the new one. */
struct bell_token_stream {
    const struct bell_tokenizer *tokenizer;
    uint32_t flags;
    int32_t *ids; /* owned: the last ones whose text was given, and newer */
    size_t n, cap;
    size_t n_given;          /* of the ids */
    char *text;              /* owned: of all ids */
    size_t n_text, n_before; /* bytes; of those given */
};

bell_status
bell_token_stream_create(const struct bell_tokenizer *tokenizer, uint32_t flags,
                         struct bell_token_stream **out_stream)
{
    struct bell_token_stream *s;

    if (!tokenizer || !out_stream)
        return bell_fail(BELL_BAD_MISSING, "a stream of no tokenizer");
    BELL_TRY(check_flags(flags));
    s = host_calloc(1, sizeof(*s));
    if (!s)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a stream");
    s->tokenizer = tokenizer;
    s->flags = flags;
    *out_stream = s;
    return BELL_OK;
}

void
bell_token_stream_destroy(struct bell_token_stream *s)
{
    if (!s)
        return;
    host_free(s->ids);
    host_free(s->text);
    host_free(s);
}

/* Hands out what is new in the text; the ids of that become the last ones. */
static BELL_MUST_CHECK bell_status
give_text(struct bell_token_stream *s, const char **out_text,
          size_t *out_n_bytes)
{
    char *alone;
    size_t n_alone, n_new = s->n - s->n_given;

    BELL_TRY(bell_tokenizer_decode(s->tokenizer, s->ids + s->n_given, n_new,
                                   s->flags, &alone, &n_alone));
    host_free(alone);
    *out_text = s->text + s->n_before;
    *out_n_bytes = s->n_text - s->n_before;
    if (n_alone) {
        memmove(s->ids, s->ids + s->n_given, n_new * sizeof(*s->ids));
        s->n = n_new;
        s->n_before = n_alone;
    } else { /* tokens without a text do not stand for a beginning */
        s->n_before = s->n_text;
    }
    s->n_given = s->n; /* nothing is held back */
    s->n_text = 0;
    return BELL_OK;
}

bell_status
bell_token_stream_next(struct bell_token_stream *s, int32_t id,
                       const char **out_text, size_t *out_n_bytes)
{
    char *text;
    size_t n_text;
    bell_status status;

    if (!s || !out_text || !out_n_bytes)
        return bell_fail(BELL_BAD_MISSING, "a stream, or its text, is NULL");
    if (host_grow((void **)&s->ids, &s->cap, s->n + 1, sizeof(*s->ids)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a stream");
    s->ids[s->n] = id;
    status = bell_tokenizer_decode(s->tokenizer, s->ids, s->n + 1, s->flags,
                                   &text, &n_text);
    if (status != BELL_OK) {
        bell_error_frame(__func__);
        return status;
    }
    s->n++;
    host_free(s->text);
    s->text = text;
    s->n_text = n_text;
    *out_text = "";
    *out_n_bytes = 0;
    if (n_text <= s->n_before || unicode_begun(text, n_text))
        return BELL_OK;
    return give_text(s, out_text, out_n_bytes);
}

bell_status
bell_token_stream_end(struct bell_token_stream *s, const char **out_text,
                      size_t *out_n_bytes)
{
    if (!s || !out_text || !out_n_bytes)
        return bell_fail(BELL_BAD_MISSING, "a stream, or its text, is NULL");
    *out_text = "";
    *out_n_bytes = 0;
    if (s->text && s->n_text > s->n_before) {
        *out_text = s->text + s->n_before;
        *out_n_bytes = s->n_text - s->n_before;
        s->n_text = 0;
    }
    return BELL_OK;
}
