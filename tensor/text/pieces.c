/* Lists of pieces, and tokens by their texts. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/text/text.h"
#include "tensor/text/unicode.h"

void
text_pieces_fini(struct text_pieces *p)
{
    host_free(p->text);
    host_free(p->list);
    memset(p, 0, sizeof(*p));
}

void
text_pieces_clear(struct text_pieces *p)
{
    p->n = 0;
    p->n_list = 0;
}

void
text_add_bytes(struct text_pieces *p, const char *bytes, size_t n)
{
    if (p->failed || n == 0)
        return;
    if (n > SIZE_MAX / 4 - p->n ||
        host_grow((void **)&p->text, &p->cap, p->n + n, 1) != 0) {
        p->failed = true;
        return;
    }
    memcpy(p->text + p->n, bytes, n);
    p->n += n;
}

void
text_add_char(struct text_pieces *p, uint32_t c)
{
    char bytes[4];

    text_add_bytes(p, bytes, unicode_write(c, bytes));
}

void
text_end_piece(struct text_pieces *p, size_t at, int32_t id, bool is_first)
{
    if (p->failed || (p->n == at && id < 0))
        return;
    if (host_grow((void **)&p->list, &p->cap_list, p->n_list + 1,
                  sizeof(*p->list)) != 0) {
        p->failed = true;
        return;
    }
    p->list[p->n_list++] = (struct text_piece){at, p->n - at, id, is_first};
}

/* ---- tokens by text ---- */

static int
compare_tokens(const struct token *a, const char *text, size_t n)
{
    size_t least = a->n < n ? a->n : n;
    int order = least ? memcmp(a->text, text, least) : 0;

    return order ? order : (a->n > n) - (a->n < n);
}

static int
by_text(const void *a, const void *b, void *user)
{
    const struct token *tokens = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int order = compare_tokens(&tokens[i], tokens[j].text, tokens[j].n);

    return order ? order : (i > j) - (i < j);
}

bell_status
token_index_init(struct token_index *index, const struct token *tokens,
                 size_t n, bool (*wants)(const struct token *token))
{
    size_t i, byte = 0;

    index->tokens = tokens;
    index->n = 0;
    index->sorted = host_calloc(n ? n : 1, sizeof(*index->sorted));
    if (!index->sorted)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu tokens", n);
    for (i = 0; i < n; i++) {
        if (tokens[i].kind != TOKEN_NONE && tokens[i].n &&
            (!wants || wants(&tokens[i])))
            index->sorted[index->n++] = (uint32_t)i;
    }
    qsort_r(index->sorted, index->n, sizeof(*index->sorted), by_text,
            (void *)(uintptr_t)tokens);
    for (i = 0; i < index->n; i++) {
        size_t first = (uint8_t)tokens[index->sorted[i]].text[0];
        while (byte <= first)
            index->first[byte++] = i;
    }
    while (byte <= 256)
        index->first[byte++] = index->n;
    return BELL_OK;
}

void
token_index_fini(struct token_index *index)
{
    host_free(index->sorted);
    memset(index, 0, sizeof(*index));
}

int32_t
token_index_find(const struct token_index *index, const char *text, size_t n)
{
    size_t first, last;
    const struct token *token;

    if (n == 0 || index->n == 0)
        return -1;
    first = index->first[(uint8_t)text[0]];
    last = index->first[(uint8_t)text[0] + 1];
    /* the last of those that are not greater */
    while (first < last) {
        size_t mid = first + (last - first) / 2;
        token = &index->tokens[index->sorted[mid]];
        if (compare_tokens(token, text, n) <= 0)
            first = mid + 1;
        else
            last = mid;
    }
    if (first == 0)
        return -1;
    token = &index->tokens[index->sorted[first - 1]];
    if (compare_tokens(token, text, n) != 0)
        return -1;
    return (int32_t)index->sorted[first - 1];
}

/* The byte at `depth` of sorted text i, or -1: it is no longer. */
static int
byte_at(const struct token_index *index, size_t i, uint32_t depth)
{
    const struct token *token = &index->tokens[index->sorted[i]];

    return token->n > depth ? (uint8_t)token->text[depth] : -1;
}

/* The first of first..last-1 whose byte there is at least `byte`. */
static size_t
lower_bound(const struct token_index *index, size_t first, size_t last,
            uint32_t depth, int byte)
{
    while (first < last) {
        size_t mid = first + (last - first) / 2;
        if (byte_at(index, mid, depth) < byte)
            first = mid + 1;
        else
            last = mid;
    }
    return first;
}

bool
token_walk_step(const struct token_index *index, struct token_walk *walk,
                uint8_t byte, int32_t *out_id)
{
    size_t behind;

    *out_id = -1;
    if (walk->depth == 0) {
        if (index->n == 0)
            return false;
        walk->first = index->first[byte];
        walk->last = index->first[byte + 1];
    } else {
        walk->first =
            lower_bound(index, walk->first, walk->last, walk->depth, byte);
        if (walk->first < walk->last &&
            byte_at(index, walk->first, walk->depth) != byte)
            walk->last = walk->first;
        else
            walk->last = lower_bound(index, walk->first, walk->last,
                                     walk->depth, byte + 1);
    }
    walk->depth++;
    if (walk->first >= walk->last)
        return false;
    if (byte_at(index, walk->first, walk->depth) < 0) {
        behind = lower_bound(index, walk->first, walk->last, walk->depth, 0);
        *out_id = (int32_t)index->sorted[behind - 1];
    }
    return true;
}
