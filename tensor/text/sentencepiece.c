/* Reads SentencePiece models.
 *
 * src: sentencepiece_model.proto of SentencePiece 0.2; the encoding guide of
 * Protocol Buffers.
 */
#include <float.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/text/text.h"
#include "tensor/text/unicode.h"

#define METASPACE "\xe2\x96\x81"

/* Bytes of a message, and a field of it. */
struct message {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number, wire;
    uint64_t value;         /* of a number */
    struct message message; /* of bytes */
};

static bool
take_varint(struct message *m, uint64_t *out)
{
    unsigned shift;

    *out = 0;
    for (shift = 0; shift < 64; shift += 7) {
        uint8_t byte;
        if (m->at == m->end)
            return false;
        byte = *m->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The next field; false: it is malformed. */
static bool
take_field(struct message *m, struct field *out)
{
    uint64_t key, n;

    if (!take_varint(m, &key) || key >> 3 == 0 || key >> 3 >= 1u << 29)
        return false;
    *out = (struct field){.number = (uint32_t)(key >> 3),
                          .wire = (uint32_t)(key & 7)};
    switch (out->wire) {
    case 0:
        return take_varint(m, &out->value);
    case 1:
    case 5:
        n = out->wire == 1 ? 8 : 4;
        if ((size_t)(m->end - m->at) < n)
            return false;
        memcpy(&out->value, m->at, n);
        m->at += n;
        return true;
    case 2:
        if (!take_varint(m, &n) || n > (size_t)(m->end - m->at))
            return false;
        out->message = (struct message){m->at, m->at + n};
        m->at += n;
        return true;
    default:
        return false;
    }
}

static bell_status
malformed(const struct bell_tokenizer *t, const char *what)
{
    return bell_fail(BELL_E_IO,
                     "%s: neither tokenizer.json, GGUF nor a SentencePiece "
                     "model: %s is malformed",
                     t->path, what);
}

static BELL_MUST_CHECK bell_status
read_piece(struct bell_tokenizer *t, struct message m)
{
    static const uint8_t kinds[] = {TOKEN_NONE,    TOKEN_NORMAL, TOKEN_UNKNOWN,
                                    TOKEN_CONTROL, TOKEN_USER,   TOKEN_UNUSED,
                                    TOKEN_BYTE};
    struct message text = {NULL, NULL};
    uint64_t kind = 1;
    uint32_t bits;
    float score = 0;
    size_t at = 0, id = t->n_tokens;
    struct field f;

    while (m.at != m.end) {
        if (!take_field(&m, &f))
            return malformed(t, "a piece");
        if (f.number == 1 && f.wire == 2) {
            text = f.message;
        } else if (f.number == 2 && f.wire == 5) {
            bits = (uint32_t)f.value;
            memcpy(&score, &bits, 4);
        } else if (f.number == 3 && f.wire == 0) {
            kind = f.value;
        }
    }
    if (text.at == text.end || kind < 1 || kind > 6 || score != score ||
        !unicode_is_valid((const char *)text.at, (size_t)(text.end - text.at),
                          &at))
        return malformed(t, "a piece");
    BELL_TRY(tokenizer_set_token(t, id, (const char *)text.at,
                                 (size_t)(text.end - text.at), (double)score,
                                 (enum token_kind)kinds[kind]));
    t->tokens[id].is_special = kinds[kind] == TOKEN_CONTROL;
    if (kinds[kind] == TOKEN_UNKNOWN)
        t->model.unknown = (int32_t)id;
    return BELL_OK;
}

/* Reads the settings of encoding in the trainer's part. */
struct trained {
    uint64_t kind;
    bool suffix, byte_fallback;
    struct message unknown; /* what is shown for unknown tokens */
    int32_t begin, end, pad;
};

static BELL_MUST_CHECK bell_status
read_trainer(const struct bell_tokenizer *t, struct message m,
             struct trained *out)
{
    struct field f;

    while (m.at != m.end) {
        if (!take_field(&m, &f))
            return malformed(t, "the trainer's part");
        if (f.wire == 0 && f.number == 3)
            out->kind = f.value;
        else if (f.wire == 0 && f.number == 24)
            out->suffix = f.value != 0;
        else if (f.wire == 0 && f.number == 35)
            out->byte_fallback = f.value != 0;
        else if (f.wire == 0 && f.number == 41)
            out->begin = (int32_t)f.value;
        else if (f.wire == 0 && f.number == 42)
            out->end = (int32_t)f.value;
        else if (f.wire == 0 && f.number == 43)
            out->pad = (int32_t)f.value;
        else if (f.wire == 2 && f.number == 44)
            out->unknown = f.message;
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
read_norm(struct bell_tokenizer *t, struct message m, struct text_norm *norm)
{
    struct field f;

    while (m.at != m.end) {
        if (!take_field(&m, &f))
            return malformed(t, "the normaliser's part");
        if (f.wire == 2 && f.number == 2 && f.message.at != f.message.end)
            BELL_TRY(
                text_charsmap_init(&norm->map, &t->arena, f.message.at,
                                   (size_t)(f.message.end - f.message.at)));
        else if (f.wire == 0 && f.number == 3)
            norm->add_space = f.value != 0;
        else if (f.wire == 0 && f.number == 4)
            norm->remove_spaces = f.value != 0;
        else if (f.wire == 0 && f.number == 5)
            norm->escapes = f.value != 0;
    }
    return BELL_OK;
}

/* Finds the least and greatest score of pieces that texts become. */
static void
find_scores(struct bell_tokenizer *t)
{
    bool found = false;
    size_t i;

    t->model.max_score = FLT_MIN; /* as the model's own code begins */
    for (i = 0; i < t->n_model; i++) {
        double score = t->tokens[i].score;
        if (t->tokens[i].kind != TOKEN_NORMAL)
            continue;
        if (!found || score < t->model.min_score)
            t->model.min_score = score;
        if (score > t->model.max_score)
            t->model.max_score = score;
        found = true;
    }
}

static BELL_MUST_CHECK bell_status
finish_model(struct bell_tokenizer *t, const struct trained *trained,
             const struct text_norm *norm)
{
    struct text_decode *d = &t->decodes[t->n_decodes++];
    size_t n = (size_t)(trained->unknown.end - trained->unknown.at);
    char *unknown;

    if (trained->kind != 1 && trained->kind != 2)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: a SentencePiece model of %s is not supported",
                         t->path,
                         trained->kind == 3   ? "words"
                         : trained->kind == 4 ? "characters"
                                              : "another kind");
    if (t->model.unknown < 0)
        return bell_fail(BELL_E_IO, "%s: the model has no unknown piece",
                         t->path);
    t->model.kind = trained->kind == 1 ? MODEL_UNIGRAM : MODEL_SCORED_BPE;
    t->model.is_sentencepiece = true;
    t->model.byte_fallback = trained->byte_fallback;
    t->n_model = t->n_tokens;
    find_scores(t);
    BELL_TRY(tokenizer_index(t));
    t->norms[0] = *norm;
    t->norms[0].kind = NORM_SENTENCEPIECE;
    t->norms[0].space_behind = trained->suffix;
    t->norms[0].users = &t->users;
    t->n_norms = 1;
    unknown = arena_copy(&t->arena, n ? (const void *)trained->unknown.at : "",
                         n + (n == 0));
    if (!unknown)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", t->path);
    *d = (struct text_decode){.kind = DECODE_SENTENCEPIECE,
                              .a = METASPACE,
                              .n_a = 3,
                              .b = unknown,
                              .n_b = n,
                              .drops_first =
                                  norm->add_space || norm->remove_spaces,
                              .drops_all = norm->remove_spaces};
    t->special[BELL_TOKEN_UNKNOWN] = t->model.unknown;
    t->special[BELL_TOKEN_BEGIN] = trained->begin;
    t->special[BELL_TOKEN_END] = trained->end;
    t->special[BELL_TOKEN_PAD] = trained->pad;
    return BELL_OK;
}

bell_status
tokenizer_read_sentencepiece(struct bell_tokenizer *t, const uint8_t *bytes,
                             size_t n)
{
    static const char shown[] = " \xe2\x81\x87 ";
    struct message m = {bytes, bytes + n};
    struct trained trained = {
        .kind = 1,
        .unknown = {(const uint8_t *)shown, (const uint8_t *)shown + 5},
        .begin = 1,
        .end = 2,
        .pad = -1};
    struct text_norm norm = {
        .add_space = true, .remove_spaces = true, .escapes = true};
    struct field f;
    size_t i;

    while (m.at != m.end) {
        if (!take_field(&m, &f))
            return malformed(t, "a field");
        if (f.wire != 2)
            continue;
        if (f.number == 1)
            BELL_TRY(read_piece(t, f.message));
        else if (f.number == 2)
            BELL_TRY(read_trainer(t, f.message, &trained));
        else if (f.number == 3)
            BELL_TRY(read_norm(t, f.message, &norm));
    }
    if (t->n_tokens == 0)
        return malformed(t, "the list of pieces");
    BELL_TRY(finish_model(t, &trained, &norm));
    for (i = 0; i < BELL_TOKEN_COUNT; i++) {
        if (t->special[i] >= (int32_t)t->n_tokens)
            t->special[i] = -1;
    }
    return BELL_OK;
}
