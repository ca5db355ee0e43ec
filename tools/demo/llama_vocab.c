/* The vocabulary: text to tokens and back.
 *
 * src: the SentencePiece paper's BPE, in the form of the llama2.c project's
 * README: every character is a token, or its bytes are; then the two
 * neighbours whose joint text is the best token become it, again and again.
 */
#include "tools/demo/llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

static int
compare_texts(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int order = memcmp(a, b, n_a < n_b ? n_a : n_b);

    return order ? order : (n_a > n_b) - (n_a < n_b);
}

/* Of two tokens of one text the first counts. */
static int
by_text(const void *a, const void *b, void *user)
{
    const struct llama_piece *pieces = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int order = compare_texts(pieces[i].text, pieces[i].n_bytes, pieces[j].text,
                              pieces[j].n_bytes);

    return order ? order : (i > j) - (i < j);
}

/* The first token of that text, or -1. */
static int32_t
find_text(const struct llama_vocab *vocab, const char *text, size_t n_bytes)
{
    size_t first = 0, last = (size_t)vocab->n;
    const struct llama_piece *piece;

    while (first < last) {
        size_t mid = first + (last - first) / 2;
        piece = &vocab->pieces[vocab->sorted[mid]];
        if (compare_texts(piece->text, piece->n_bytes, text, n_bytes) < 0)
            first = mid + 1;
        else
            last = mid;
    }
    if (first == (size_t)vocab->n)
        return -1;
    piece = &vocab->pieces[vocab->sorted[first]];
    if (piece->n_bytes != n_bytes || memcmp(piece->text, text, n_bytes) != 0)
        return -1;
    return (int32_t)vocab->sorted[first];
}

/* ---- the file ---- */

static BELL_MUST_CHECK bell_status
parse_pieces(const char *path, size_t n_bytes, struct llama_vocab *vocab)
{
    size_t at = 4;
    int32_t length, i;

    for (i = 0; i < vocab->n; i++) {
        struct llama_piece *piece = &vocab->pieces[i];
        if (n_bytes < 8 || at > n_bytes - 8)
            return bell_fail(BELL_E_IO, "%s: ends in token %d of %d", path, i,
                             vocab->n);
        memcpy(&piece->score, vocab->bytes + at, 4);
        memcpy(&length, vocab->bytes + at + 4, 4);
        at += 8;
        if (length < 0 || length > LLAMA_PIECE_MAX_BYTES ||
            (size_t)length > n_bytes - at)
            return bell_fail(BELL_E_IO,
                             "%s: token %d has %d bytes, of %zu that are left",
                             path, i, length, n_bytes - at);
        piece->text = (const char *)vocab->bytes + at;
        piece->n_bytes = (uint32_t)length;
        at += (size_t)length;
    }
    if (at != n_bytes)
        return bell_fail(BELL_E_IO, "%s: %zu bytes behind token %d, the last",
                         path, n_bytes - at, vocab->n - 1);
    return BELL_OK;
}

static void
find_bytes(struct llama_vocab *vocab)
{
    char name[8];
    int i;

    for (i = 0; i < 256; i++) {
        snprintf(name, sizeof(name), "<0x%02X>", i);
        vocab->of_byte[i] = find_text(vocab, name, strlen(name));
        vocab->all_bytes[i] = (uint8_t)i;
    }
}

bell_status
llama_vocab_init(int64_t n, struct llama_vocab *out_vocab)
{
    struct llama_vocab vocab = {.n = (int32_t)n, .begin = 1, .end = 2};

    vocab.pieces = host_calloc((size_t)n, sizeof(*vocab.pieces));
    vocab.sorted = host_calloc((size_t)n, sizeof(*vocab.sorted));
    if (!vocab.pieces || !vocab.sorted) {
        llama_vocab_fini(&vocab);
        return bell_fail(BELL_E_NO_MEMORY, "no memory for %d tokens", vocab.n);
    }
    *out_vocab = vocab;
    return BELL_OK;
}

void
llama_vocab_sort(struct llama_vocab *vocab)
{
    int32_t i;

    for (i = 0; i < vocab->n; i++)
        vocab->sorted[i] = (uint32_t)i;
    qsort_r(vocab->sorted, (size_t)vocab->n, sizeof(*vocab->sorted), by_text,
            vocab->pieces);
    find_bytes(vocab);
    vocab->pieces[vocab->begin].is_control = true;
    vocab->pieces[vocab->end].is_control = true;
}

bell_status
llama_vocab_load(const char *path, int64_t n, struct llama_vocab *out_vocab)
{
    struct file_bytes file;
    bell_status status;

    BELL_TRY(llama_vocab_init(n, out_vocab));
    status = file_read(path, &file);
    if (status == BELL_OK) {
        out_vocab->bytes = file.data;
        status = parse_pieces(path, file.size_bytes, out_vocab);
    }
    if (status != BELL_OK)
        llama_vocab_fini(out_vocab);
    else
        llama_vocab_sort(out_vocab);
    return status;
}

void
llama_vocab_fini(struct llama_vocab *vocab)
{
    host_free(vocab->pieces);
    host_free(vocab->sorted);
    host_free(vocab->bytes);
    memset(vocab, 0, sizeof(*vocab));
}

/* ---- text to tokens ---- */

/* A text on its way to tokens: a list of parts, each a token and the one that
 * it would become with the next. */
struct part {
    int32_t token, joint; /* joint: -1: none */
    uint32_t previous, next;
};

#define NO_PART UINT32_MAX

/* A pair that could be joined; stale when its parts have changed. */
struct pair {
    float score;
    uint32_t first;
    int32_t left, right; /* tokens then */
};

struct joiner {
    const struct llama_vocab *vocab;
    struct part *parts;
    size_t n_parts;
    struct pair *heap; /* the best first; of equals the leftmost */
    size_t n_heap, cap_heap;
    char text[2 * LLAMA_PIECE_MAX_BYTES];
};

static bool
pair_before(const struct pair *a, const struct pair *b)
{
    return a->score != b->score ? a->score > b->score : a->first < b->first;
}

static bool
push_pair(struct joiner *joiner, struct pair pair)
{
    size_t i = joiner->n_heap;

    if (host_grow((void **)&joiner->heap, &joiner->cap_heap, i + 1,
                  sizeof(*joiner->heap)) != 0)
        return false;
    joiner->n_heap++;
    for (; i > 0 && pair_before(&pair, &joiner->heap[(i - 1) / 2]);
         i = (i - 1) / 2)
        joiner->heap[i] = joiner->heap[(i - 1) / 2];
    joiner->heap[i] = pair;
    return true;
}

static struct pair
pop_pair(struct joiner *joiner)
{
    struct pair top = joiner->heap[0];
    struct pair last = joiner->heap[--joiner->n_heap];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < joiner->n_heap) {
        if (child + 1 < joiner->n_heap &&
            pair_before(&joiner->heap[child + 1], &joiner->heap[child]))
            child++;
        if (!pair_before(&joiner->heap[child], &last))
            break;
        joiner->heap[i] = joiner->heap[child];
        i = child;
    }
    joiner->heap[i] = last;
    return top;
}

/* Looks what the part at `i` makes with the next. False: no memory. */
static bool
look_at_pair(struct joiner *joiner, uint32_t i)
{
    struct part *part = &joiner->parts[i];
    const struct llama_piece *pieces = joiner->vocab->pieces, *a, *b;

    part->joint = -1;
    if (part->next == NO_PART)
        return true;
    a = &pieces[part->token];
    b = &pieces[joiner->parts[part->next].token];
    memcpy(joiner->text, a->text, a->n_bytes);
    memcpy(joiner->text + a->n_bytes, b->text, b->n_bytes);
    part->joint =
        find_text(joiner->vocab, joiner->text, (size_t)a->n_bytes + b->n_bytes);
    if (part->joint < 0)
        return true;
    return push_pair(joiner,
                     (struct pair){.score = pieces[part->joint].score,
                                   .first = i,
                                   .left = part->token,
                                   .right = joiner->parts[part->next].token});
}

static bool
join_parts(struct joiner *joiner)
{
    uint32_t i, next;

    for (i = 0; i < joiner->n_parts; i++) {
        if (!look_at_pair(joiner, i))
            return false;
    }
    while (joiner->n_heap) {
        struct pair pair = pop_pair(joiner);
        struct part *part = &joiner->parts[pair.first];
        next = part->token < 0 ? NO_PART : part->next;
        if (next == NO_PART || part->token != pair.left ||
            joiner->parts[next].token != pair.right)
            continue;
        part->token = part->joint;
        part->next = joiner->parts[next].next;
        joiner->parts[next].token = -1;
        if (part->next != NO_PART)
            joiner->parts[part->next].previous = pair.first;
        if (!look_at_pair(joiner, pair.first))
            return false;
        if (part->previous != NO_PART && !look_at_pair(joiner, part->previous))
            return false;
    }
    return true;
}

/* Bytes of the UTF-8 character at `text`: the first, and those that go on. */
static size_t
character_bytes(const char *text)
{
    size_t n = 1;

    while (n < 4 && ((uint8_t)text[n] & 0xc0) == 0x80)
        n++;
    return n;
}

static void
add_part(struct joiner *joiner, int32_t token)
{
    struct part *part = &joiner->parts[joiner->n_parts];

    part->token = token;
    part->joint = -1;
    part->previous = NO_PART;
    part->next = NO_PART;
    if (joiner->n_parts) {
        part->previous = (uint32_t)joiner->n_parts - 1;
        part[-1].next = (uint32_t)joiner->n_parts;
    }
    joiner->n_parts++;
}

/* Characters as tokens, or the tokens of their bytes; unknown bytes are
 * LLAMA_UNKNOWN. A space comes first. */
static void
split_text(struct joiner *joiner, const char *text)
{
    const struct llama_vocab *vocab = joiner->vocab;
    int32_t token = find_text(vocab, " ", 1);
    size_t n, i;

    if (*text && token >= 0)
        add_part(joiner, token);
    for (; *text; text += n) {
        n = character_bytes(text);
        token = find_text(vocab, text, n);
        if (token >= 0) {
            add_part(joiner, token);
            continue;
        }
        for (i = 0; i < n; i++) {
            token = vocab->of_byte[(uint8_t)text[i]];
            add_part(joiner, token >= 0 ? token : LLAMA_UNKNOWN);
        }
    }
}

bell_status
llama_encode(const struct llama_vocab *vocab, const char *text,
             int32_t **out_tokens, size_t *out_n)
{
    size_t n_max = strlen(text) + 2, n = 0;
    struct joiner *joiner = host_calloc(1, sizeof(*joiner));
    int32_t *tokens = host_calloc(n_max, sizeof(*tokens));
    bool ok = joiner && tokens;
    uint32_t i;

    if (ok) {
        joiner->vocab = vocab;
        joiner->parts = host_calloc(n_max, sizeof(*joiner->parts));
        ok = joiner->parts != NULL;
    }
    if (ok) {
        split_text(joiner, text);
        ok = join_parts(joiner);
    }
    if (ok) {
        tokens[n++] = vocab->begin;
        for (i = joiner->n_parts ? 0 : NO_PART; i != NO_PART;
             i = joiner->parts[i].next)
            tokens[n++] = joiner->parts[i].token;
        *out_tokens = tokens;
        *out_n = n;
        tokens = NULL;
    }
    if (joiner) {
        host_free(joiner->parts);
        host_free(joiner->heap);
    }
    host_free(joiner);
    host_free(tokens);
    return ok ? BELL_OK
              : bell_fail(BELL_E_NO_MEMORY,
                          "no memory for the tokens of %zu bytes", n_max - 2);
}

/* ---- tokens to text ---- */

/* The byte that a token <0xNN> stands for; -1: another token. */
static int
byte_of(const struct llama_piece *piece)
{
    char text[7], *end;
    long value;

    if (piece->n_bytes != 6 || memcmp(piece->text, "<0x", 3) != 0)
        return -1;
    memcpy(text, piece->text, 6);
    text[6] = '\0';
    value = strtol(text + 3, &end, 16);
    return end == text + 5 && *end == '>' ? (int)value : -1;
}

struct llama_piece
llama_decode(const struct llama_vocab *vocab, int32_t previous, int32_t next)
{
    struct llama_piece piece = {"", 0, 0, false};
    int byte;

    if (vocab->pieces[next].is_control)
        return piece;
    piece = vocab->pieces[next];
    byte = byte_of(&piece);
    if (byte >= 0) {
        piece.text = (const char *)&vocab->all_bytes[byte];
        piece.n_bytes = 1;
    }
    if (previous == vocab->begin && piece.n_bytes && piece.text[0] == ' ') {
        piece.text++;
        piece.n_bytes--;
    }
    return piece;
}
