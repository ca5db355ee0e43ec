/* The vocabulary: text to tokens and back.
 *
 * src: the SentencePiece paper's BPE, in the form of the llama2.c project's
 * README: every character is a token, or its bytes are; then the two
 * neighbours whose joint text is the best token become it, again and again.
 * Byte-level BPE does the same within words, from bytes on, and a list of pairs
 * says which are better.
 */
#include "examples/demo/llama.h"

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

/* Two tokens of one text: the first counts. */
static int
by_text(const void *a, const void *b, void *user)
{
    const struct llama_piece *pieces = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int order = compare_texts(pieces[i].text, pieces[i].n_bytes, pieces[j].text,
                              pieces[j].n_bytes);

    return order ? order : (i > j) - (i < j);
}

int32_t
llama_vocab_find(const struct llama_vocab *vocab, const char *text,
                 size_t n_bytes)
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
        vocab->of_byte[i] = llama_vocab_find(vocab, name, strlen(name));
        vocab->all_bytes[i] = (uint8_t)i;
    }
}

/* What is around a user's message; "<|...|>" are tokens. An answer ends with a
 * token, NULL: the one that ends texts, and what comes before another
 * message. */
static const struct {
    const char *before, *after, *end, *between;
} forms[] = {
    [LLAMA_FORM_LLAMA2] = {"[INST] ", " [/INST]", NULL, NULL},
    [LLAMA_FORM_LLAMA3] = {"<|start_header_id|>user<|end_header_id|>\n\n",
                           "<|eot_id|><|start_header_id|>assistant"
                           "<|end_header_id|>\n\n",
                           "<|eot_id|>", ""},
    [LLAMA_FORM_CHATML] = {"<|im_start|>user\n",
                           "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>",
                           "\n"},
};

/* The token of that name without a text, or -1. */
static int32_t
find_control(const struct llama_vocab *vocab, const char *name, size_t n)
{
    int32_t i;

    for (i = 0; i < vocab->n; i++) {
        const struct llama_piece *piece = &vocab->pieces[i];
        if (piece->is_control && piece->n_bytes == n &&
            memcmp(piece->text, name, n) == 0)
            return i;
    }
    return -1;
}

bell_status
llama_vocab_init(int64_t n, struct llama_vocab *out_vocab)
{
    struct llama_vocab vocab = {.n = (int32_t)n,
                                .begin = 1,
                                .end = 2,
                                .end_turn = -1,
                                .adds_begin = true};

    map_init(&vocab.joints);
    vocab.pieces = host_calloc((size_t)n, sizeof(*vocab.pieces));
    vocab.sorted = host_calloc((size_t)n, sizeof(*vocab.sorted));
    if (!vocab.pieces || !vocab.sorted) {
        llama_vocab_fini(&vocab);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %d tokens",
                         vocab.n);
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
    if (vocab->end_turn < 0 && forms[vocab->form].end)
        vocab->end_turn = find_control(vocab, forms[vocab->form].end,
                                       strlen(forms[vocab->form].end));
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
    map_fini(&vocab->joints);
    memset(vocab, 0, sizeof(*vocab));
}

/* ---- text to tokens ---- */

/* A text on its way to tokens: a list of parts, each a token and the one that
 * it would become with the next. */
struct part {
    int32_t token, joint; /* joint: -1: none */
    uint32_t previous, next;
    bool begins; /* a word, which is not joined to what is before */
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

/* The token of two, and how good it is; -1: they are not joined. */
static int32_t
find_joint(struct joiner *joiner, int32_t left, int32_t right, float *out_score)
{
    const struct llama_vocab *vocab = joiner->vocab;
    const struct llama_piece *a = &vocab->pieces[left],
                             *b = &vocab->pieces[right];
    const uint64_t *found;
    int32_t joint;

    if (vocab->is_bytes) {
        found = map_get(&vocab->joints, llama_pair_key(left, right));
        *out_score = found ? -(float)(*found >> 32) : 0;
        return found ? (int32_t)(uint32_t)*found : -1;
    }
    memcpy(joiner->text, a->text, a->n_bytes);
    memcpy(joiner->text + a->n_bytes, b->text, b->n_bytes);
    joint =
        llama_vocab_find(vocab, joiner->text, (size_t)a->n_bytes + b->n_bytes);
    if (joint >= 0)
        *out_score = vocab->pieces[joint].score;
    return joint;
}

/* Looks what the part at `i` makes with the next. False: no memory. */
static bool
look_at_pair(struct joiner *joiner, uint32_t i)
{
    struct part *part = &joiner->parts[i];
    const struct part *next;
    float score;

    part->joint = -1;
    if (part->next == NO_PART)
        return true;
    next = &joiner->parts[part->next];
    if (next->begins)
        return true;
    part->joint = find_joint(joiner, part->token, next->token, &score);
    if (part->joint < 0)
        return true;
    return push_pair(joiner, (struct pair){.score = score,
                                           .first = i,
                                           .left = part->token,
                                           .right = next->token});
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
add_part(struct joiner *joiner, int32_t token, bool begins)
{
    struct part *part = &joiner->parts[joiner->n_parts];

    part->token = token;
    part->joint = -1;
    part->begins = begins;
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
split_text(struct joiner *joiner, const char *text, size_t n_text)
{
    const struct llama_vocab *vocab = joiner->vocab;
    int32_t token = llama_vocab_find(vocab, " ", 1);
    size_t at, n, i;

    if (n_text && token >= 0)
        add_part(joiner, token, true);
    for (at = 0; at < n_text; at += n) {
        n = character_bytes(text + at);
        n = n < n_text - at ? n : n_text - at;
        token = llama_vocab_find(vocab, text + at, n);
        if (token >= 0) {
            add_part(joiner, token, false);
            continue;
        }
        for (i = 0; i < n; i++) {
            token = vocab->of_byte[(uint8_t)text[at + i]];
            add_part(joiner, token >= 0 ? token : LLAMA_UNKNOWN, false);
        }
    }
}

/* Words, as their bytes, or as tokens. */
static void
split_words(struct joiner *joiner, const char *text, size_t n_text)
{
    const struct llama_vocab *vocab = joiner->vocab;
    int32_t token;
    size_t n, i;

    for (; n_text; text += n, n_text -= n) {
        n = llama_word_bytes(vocab->words, text, n_text);
        token = vocab->joins_all ? llama_vocab_find(vocab, text, n) : -1;
        if (token >= 0 && !vocab->pieces[token].is_control) {
            add_part(joiner, token, true);
            continue;
        }
        for (i = 0; i < n; i++)
            add_part(joiner, vocab->of_byte[(uint8_t)text[i]], i == 0);
    }
}

/* ---- conversations ---- */

static void
split_plain(struct joiner *joiner, const char *text, size_t n)
{
    if (joiner->vocab->is_bytes)
        split_words(joiner, text, n);
    else
        split_text(joiner, text, n);
}

/* A part of a form: its tokens, and the text between them. */
static BELL_MUST_CHECK bell_status
split_form(struct joiner *joiner, const char *text)
{
    const char *begin, *end;
    int32_t token;

    while ((begin = strstr(text, "<|")) != NULL) {
        split_plain(joiner, text, (size_t)(begin - text));
        end = strstr(begin, "|>") + 2;
        token = find_control(joiner->vocab, begin, (size_t)(end - begin));
        if (token < 0)
            return bell_fail(BELL_E_IO, "the model has no token %.*s",
                             (int)(end - begin), begin);
        add_part(joiner, token, true);
        text = end;
    }
    split_plain(joiner, text, strlen(text));
    return BELL_OK;
}

/* What comes behind an answer. Where texts begin with a token, a message of
 * llama2's form is a text of its own. */
static BELL_MUST_CHECK bell_status
split_end(struct joiner *joiner)
{
    const struct llama_vocab *vocab = joiner->vocab;

    if (vocab->form != LLAMA_FORM_LLAMA2) {
        BELL_TRY(split_form(joiner, forms[vocab->form].end));
        return split_form(joiner, forms[vocab->form].between);
    }
    add_part(joiner, vocab->end, true);
    if (vocab->adds_begin)
        add_part(joiner, vocab->begin, true);
    return BELL_OK;
}

/* A SentencePiece form is one text. */
static BELL_MUST_CHECK bell_status
split_chat(struct joiner *joiner, const char *text)
{
    enum llama_form form = joiner->vocab->form;
    size_t n = strlen(text) + 32;
    char *all;

    if (form != LLAMA_FORM_LLAMA2) {
        BELL_TRY(split_form(joiner, forms[form].before));
        split_plain(joiner, text, strlen(text));
        return split_form(joiner, forms[form].after);
    }
    all = host_alloc(n);
    if (!all)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a message");
    snprintf(all, n, "%s%s%s", forms[form].before, text, forms[form].after);
    split_plain(joiner, all, strlen(all));
    host_free(all);
    return BELL_OK;
}

/* ---- all of it ---- */

static BELL_MUST_CHECK bell_status
find_tokens(struct joiner *joiner, const char *text, enum llama_turn turn)
{
    if (turn == LLAMA_TURN_NEXT)
        BELL_TRY(split_end(joiner));
    if (turn == LLAMA_TURN_NONE)
        split_plain(joiner, text, strlen(text));
    else
        BELL_TRY(split_chat(joiner, text));
    if (!join_parts(joiner))
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for pairs of tokens");
    return BELL_OK;
}

/* A form's text is shorter than that. */
#define FORM_MAX_PARTS 128

/* Tokens that were added by a user are to be cut out of texts before others
 * are found, which we do not do. */
static BELL_MUST_CHECK bell_status
check_added(const struct llama_vocab *vocab, const char *text)
{
    size_t n = strlen(text);
    int32_t i;

    for (i = 0; i < vocab->n; i++) {
        const struct llama_piece *piece = &vocab->pieces[i];
        if (piece->is_added && piece->n_bytes &&
            memmem(text, n, piece->text, piece->n_bytes))
            return bell_fail(BELL_E_UNSUPPORTED,
                             "the text has '%.*s', token %d, which the model's "
                             "file says is user-defined: such tokens are not "
                             "supported",
                             (int)(piece->n_bytes < 80 ? piece->n_bytes : 80),
                             piece->text, i);
    }
    return BELL_OK;
}

bell_status
llama_encode(const struct llama_vocab *vocab, const char *text,
             enum llama_turn turn, int32_t **out_tokens, size_t *out_n)
{
    size_t n_max = strlen(text) + FORM_MAX_PARTS, n = 0;
    struct joiner *joiner = host_calloc(1, sizeof(*joiner));
    int32_t *tokens = host_calloc(n_max, sizeof(*tokens));
    bell_status status = BELL_OK;
    uint32_t i;

    if (joiner)
        joiner->parts = host_calloc(n_max, sizeof(*joiner->parts));
    if (!tokens || !joiner || !joiner->parts) {
        status = bell_fail(BELL_E_NO_MEMORY,
                           "out of memory for the tokens of %zu bytes",
                           strlen(text));
    } else {
        joiner->vocab = vocab;
        status = check_added(vocab, text);
        if (status == BELL_OK)
            status = find_tokens(joiner, text, turn);
    }
    if (status == BELL_OK) {
        if (turn != LLAMA_TURN_NEXT &&
            (vocab->adds_begin || joiner->n_parts == 0))
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
    return status;
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
    if (vocab->is_bytes)
        return piece;
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
