/* Regular expressions: a compiler to a small program, and its machine. */
#include "tensor/text/regex.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tensor/text/unicode.h"

#define MAX_DEPTH   16
#define MAX_INSNS   20000
#define MAX_REPEAT  1000
#define MAX_PATTERN 65536

enum regex_op {
    OP_CHAR, /* x: the character */
    OP_ANY,  /* but a newline */
    OP_SET,  /* x: the set */
    OP_LOOP, /* the next instruction, of one character, min..max times */
    OP_JUMP,
    OP_SPLIT, /* first x, then y */
    OP_LOOK,  /* if what follows matches (y: does not), go on at x */
    OP_BEGIN_LINE,
    OP_END_LINE,
    OP_BEGIN,
    OP_END,
    OP_WORD_EDGE, /* y: not */
    OP_MATCH
};

enum loop_kind {
    LOOP_GREEDY,
    LOOP_LAZY,
    LOOP_POSSESSIVE
};

struct insn {
    enum regex_op op;
    uint32_t x, y;
    uint32_t min, max; /* of a loop; UINT32_MAX: any number */
    enum loop_kind kind;
    bool any_case;
};

/* An item of a class: a range, a mask of categories, or a property. */
struct set_item {
    uint32_t first, last; /* first > last: none */
    uint32_t mask;
    char property; /* s, w, h: or 0 */
    bool is_not;
};

struct char_set {
    uint32_t first_item, n_items;
    bool is_not, any_case;
    uint32_t ascii[4]; /* which of the first 128 characters are in it */
};

struct regex {
    struct insn *insns;
    size_t n_insns, cap_insns;
    struct char_set *sets;
    size_t n_sets, cap_sets;
    struct set_item *items;
    size_t n_items, cap_items;
};

/* ---- sets ---- */

static bool
item_has(const struct set_item *item, uint32_t c)
{
    bool in = item->first <= c && c <= item->last;

    if (item->mask)
        in = unicode_is(c, item->mask);
    else if (item->property == 's')
        in = unicode_is_space(c);
    else if (item->property == 'w')
        in = unicode_is_word(c, false);
    else if (item->property == 'h')
        in = c < 128 && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
                         (c >= 'A' && c <= 'F'));
    return in != item->is_not;
}

static bool
items_have(const struct regex *r, const struct char_set *set, uint32_t c)
{
    uint32_t i;

    for (i = 0; i < set->n_items; i++) {
        if (item_has(&r->items[set->first_item + i], c))
            return true;
    }
    return false;
}

/* Characters that are equal to letters of ASCII but for their case. */
static uint32_t
fold(uint32_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c + 32;
    return c == 0x17f ? 's' : c == 0x212a ? 'k' : c;
}

static bool
set_look(const struct regex *r, const struct char_set *set, uint32_t c)
{
    bool in = items_have(r, set, c);

    if (!in && set->any_case) {
        uint32_t f = fold(c);
        in = items_have(r, set, f) ||
             (f >= 'a' && f <= 'z' && items_have(r, set, f - 32));
    }
    return in != set->is_not;
}

static bool
set_has(const struct regex *r, uint32_t x, uint32_t c)
{
    const struct char_set *set = &r->sets[x];

    if (c < 128)
        return set->ascii[c / 32] >> c % 32 & 1;
    return set_look(r, set, c);
}

/* ---- compiling ---- */

struct parser {
    struct regex *r;
    const char *text;
    size_t n, at;
    bool any_case;
    unsigned depth;
};

static bell_status
refuse(const struct parser *p, const char *what)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "the pattern '%.200s' has %s at byte %zu, which is not "
                     "supported",
                     p->text, what, p->at);
}

static bell_status
reject(const struct parser *p, const char *what)
{
    return bell_fail(BELL_E_IO,
                     "the pattern '%.200s' is malformed: %s at byte "
                     "%zu",
                     p->text, what, p->at);
}

static BELL_MUST_CHECK bell_status
add_insn(struct parser *p, struct insn insn)
{
    struct regex *r = p->r;

    if (r->n_insns >= MAX_INSNS)
        return refuse(p, "more than 20000 instructions");
    if (host_grow((void **)&r->insns, &r->cap_insns, r->n_insns + 1,
                  sizeof(*r->insns)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pattern");
    r->insns[r->n_insns++] = insn;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
add_item(struct parser *p, struct set_item item)
{
    struct regex *r = p->r;

    if (host_grow((void **)&r->items, &r->cap_items, r->n_items + 1,
                  sizeof(*r->items)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pattern");
    r->items[r->n_items++] = item;
    return BELL_OK;
}

/* The set of all items from `first` on. */
static BELL_MUST_CHECK bell_status
add_set(struct parser *p, size_t first, bool is_not)
{
    struct regex *r = p->r;
    struct char_set set = {.first_item = (uint32_t)first,
                           .n_items = (uint32_t)(r->n_items - first),
                           .is_not = is_not,
                           .any_case = p->any_case};
    uint32_t c;

    if (host_grow((void **)&r->sets, &r->cap_sets, r->n_sets + 1,
                  sizeof(*r->sets)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pattern");
    for (c = 0; c < 128; c++) {
        if (set_look(r, &set, c))
            set.ascii[c / 32] |= 1u << c % 32;
    }
    r->sets[r->n_sets++] = set;
    return add_insn(p,
                    (struct insn){.op = OP_SET, .x = (uint32_t)r->n_sets - 1});
}

static bool
is_next(const struct parser *p, const char *text)
{
    size_t n = strlen(text);

    return p->n - p->at >= n && memcmp(p->text + p->at, text, n) == 0;
}

static uint32_t
take_char(struct parser *p)
{
    uint32_t c;

    p->at += unicode_read(p->text + p->at, p->n - p->at, &c);
    return c;
}

/* Digits of that base, at least one and at most `most`. */
static bool
take_digits(struct parser *p, unsigned base, size_t most, uint32_t *out)
{
    size_t n = 0;

    *out = 0;
    for (; n < most && p->at < p->n; n++, p->at++) {
        char c = p->text[p->at];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 99;
        if (digit >= base)
            break;
        *out = *out * base + digit;
    }
    return n > 0;
}

/* \p{..}, behind the p. */
static BELL_MUST_CHECK bell_status
take_property(struct parser *p, bool is_not)
{
    const char *name, *end;
    size_t n;
    uint32_t mask;

    if (!is_next(p, "{"))
        return refuse(p, "\\p without braces");
    name = p->text + ++p->at;
    end = memchr(name, '}', p->n - p->at);
    if (!end)
        return reject(p, "\\p{ without its end");
    n = (size_t)(end - name);
    if (n && *name == '^') {
        is_not = !is_not;
        name++;
        n--;
    }
    mask = unicode_category_mask(name, n);
    if (!mask)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "the pattern '%.200s' has the property '%.*s', which "
                         "is not supported: general categories are",
                         p->text, (int)(n < 40 ? n : 40), name);
    p->at = (size_t)(end - p->text) + 1;
    return add_item(
        p, (struct set_item){.first = 1, .mask = mask, .is_not = is_not});
}

/* Reads after a backslash: one character (*out_char), or items of a set
 * (UINT32_MAX). */
static BELL_MUST_CHECK bell_status
take_escape(struct parser *p, uint32_t *out_char)
{
    uint32_t c;

    *out_char = UINT32_MAX;
    if (p->at >= p->n)
        return reject(p, "a backslash that nothing follows");
    c = take_char(p);
    switch (c) {
    case 'p':
    case 'P':
        return take_property(p, c == 'P');
    case 's':
    case 'S':
        return add_item(
            p,
            (struct set_item){.first = 1, .property = 's', .is_not = c == 'S'});
    case 'w':
    case 'W':
        return add_item(
            p,
            (struct set_item){.first = 1, .property = 'w', .is_not = c == 'W'});
    case 'h':
    case 'H':
        return add_item(
            p,
            (struct set_item){.first = 1, .property = 'h', .is_not = c == 'H'});
    case 'd':
    case 'D':
        return add_item(p, (struct set_item){.first = 1,
                                             .mask = 1u << UNICODE_ND,
                                             .is_not = c == 'D'});
    case 'n':
        *out_char = '\n';
        return BELL_OK;
    case 'r':
        *out_char = '\r';
        return BELL_OK;
    case 't':
        *out_char = '\t';
        return BELL_OK;
    case 'f':
        *out_char = '\f';
        return BELL_OK;
    case 'v':
        *out_char = '\v';
        return BELL_OK;
    case 'x':
        if (is_next(p, "{")) {
            p->at++;
            if (!take_digits(p, 16, 8, out_char) || !is_next(p, "}"))
                return reject(p, "\\x{..}");
            p->at++;
        } else if (!take_digits(p, 16, 2, out_char)) {
            return reject(p, "\\x");
        } else if (*out_char >= 0x80) {
            return refuse(p, "a byte that is not a character");
        }
        if (*out_char > 0x10ffff || *out_char >> 11 == 0x1b)
            return reject(p, "a number that is not a character");
        return BELL_OK;
    case 'u':
        if (!take_digits(p, 16, 4, out_char) || *out_char >> 11 == 0x1b)
            return reject(p, "\\u");
        return BELL_OK;
    default:
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
            (c >= 'A' && c <= 'Z'))
            return refuse(p, "an escape of a letter or digit");
        *out_char = c;
        return BELL_OK;
    }
}

/* A class, behind its [. */
static BELL_MUST_CHECK bell_status
take_class(struct parser *p)
{
    size_t first = p->r->n_items;
    bool is_not = false, begins = true;
    uint32_t c, last;

    if (is_next(p, "^")) {
        is_not = true;
        p->at++;
    }
    for (;; begins = false) {
        if (p->at >= p->n)
            return reject(p, "a class without its end");
        if (is_next(p, "]") && !begins)
            break;
        if (is_next(p, "["))
            return refuse(p, "a class in a class");
        if (is_next(p, "&&"))
            return refuse(p, "an intersection of classes");
        if (is_next(p, "]"))
            return refuse(p, "an empty class");
        c = take_char(p);
        if (c == '\\')
            BELL_TRY(take_escape(p, &c));
        if (c == UINT32_MAX)
            continue;
        last = c;
        if (is_next(p, "-") && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
            p->at++;
            last = take_char(p);
            if (last == '[')
                return refuse(p, "a class in a class");
            if (last == '\\')
                BELL_TRY(take_escape(p, &last));
            if (last == UINT32_MAX)
                return refuse(p, "a range that ends in a class");
            if (last < c)
                return reject(p, "a range that ends before it begins");
        }
        if (p->any_case && last >= 0x80)
            return refuse(p, "a class beyond ASCII in (?i)");
        BELL_TRY(add_item(p, (struct set_item){.first = c, .last = last}));
    }
    p->at++;
    if (p->any_case && is_not)
        return refuse(p, "a negated class in (?i)");
    return add_set(p, first, is_not);
}

static BELL_MUST_CHECK bell_status take_choice(struct parser *p);

/* Reads a group, after its ( */
static BELL_MUST_CHECK bell_status
take_group(struct parser *p)
{
    bool any_case = p->any_case, is_look = false, is_not = false;
    size_t look = p->r->n_insns;

    if (++p->depth > MAX_DEPTH)
        return refuse(p, "deeper groups than 16");
    if (is_next(p, "?:")) {
        p->at += 2;
    } else if (is_next(p, "?i:")) {
        p->at += 3;
        p->any_case = true;
    } else if (is_next(p, "?-i:")) {
        p->at += 4;
        p->any_case = false;
    } else if (is_next(p, "?=") || is_next(p, "?!")) {
        is_look = true;
        is_not = p->text[p->at + 1] == '!';
        p->at += 2;
        BELL_TRY(add_insn(p, (struct insn){.op = OP_LOOK, .y = is_not}));
    } else if (is_next(p, "?")) {
        return refuse(p, "a group of another kind");
    }
    BELL_TRY(take_choice(p));
    if (!is_next(p, ")"))
        return reject(p, "a group without its end");
    p->at++;
    if (is_look) {
        BELL_TRY(add_insn(p, (struct insn){.op = OP_MATCH}));
        p->r->insns[look].x = (uint32_t)p->r->n_insns;
    }
    p->any_case = any_case;
    p->depth--;
    return BELL_OK;
}

/* One thing that can be repeated. */
static BELL_MUST_CHECK bell_status
take_atom(struct parser *p)
{
    size_t first = p->r->n_items;
    uint32_t c = take_char(p);

    switch (c) {
    case '(':
        return take_group(p);
    case '[':
        return take_class(p);
    case '.':
        return add_insn(p, (struct insn){.op = OP_ANY});
    case '^':
        return add_insn(p, (struct insn){.op = OP_BEGIN_LINE});
    case '$':
        return add_insn(p, (struct insn){.op = OP_END_LINE});
    case '*':
    case '+':
    case '?':
        return reject(p, "nothing to repeat");
    case '\\':
        if (is_next(p, "A") || is_next(p, "z") || is_next(p, "b") ||
            is_next(p, "B")) {
            c = take_char(p);
            return add_insn(p, (struct insn){.op = c == 'A'   ? OP_BEGIN
                                                   : c == 'z' ? OP_END
                                                              : OP_WORD_EDGE,
                                             .y = c == 'B'});
        }
        BELL_TRY(take_escape(p, &c));
        if (c == UINT32_MAX)
            return add_set(p, first, false);
        break;
    default:
        break;
    }
    if (p->any_case && c >= 0x80)
        return refuse(p, "a character beyond ASCII in (?i)");
    if (p->any_case)
        c = fold(c);
    return add_insn(
        p, (struct insn){.op = OP_CHAR, .x = c, .any_case = p->any_case});
}

/* *, +, ?, {m}, {m,}, {,n}, {m,n}; false: none is there. */
static bool
take_count(struct parser *p, uint32_t *out_min, uint32_t *out_max)
{
    size_t at = p->at;
    char c = p->at < p->n ? p->text[p->at] : '\0';
    bool has_min;

    if (c == '*' || c == '+' || c == '?') {
        *out_min = c == '+';
        *out_max = c == '?' ? 1 : UINT32_MAX;
        p->at++;
        return true;
    }
    if (c != '{')
        return false;
    p->at++;
    has_min = take_digits(p, 10, 6, out_min);
    *out_max = *out_min;
    if (is_next(p, ",")) {
        p->at++;
        if (!take_digits(p, 10, 6, out_max)) {
            *out_max = UINT32_MAX;
            if (!has_min)
                goto literal;
        }
    } else if (!has_min) {
        goto literal;
    }
    if (!is_next(p, "}"))
        goto literal;
    p->at++;
    return true;
literal:
    p->at = at;
    return false;
}

/* Whether the instructions from `first` on can match nothing. Repeating such
 * is refused: it is not known when to stop. */
static bool
can_be_empty(const struct regex *r, size_t first)
{
    /* reach[i]: instruction i is reached without a character */
    size_t i, n = r->n_insns;
    bool changed = true, empty = false;
    uint8_t *reach = host_calloc(n - first + 1, 1);

    if (!reach)
        return true;
    reach[0] = 1;
    while (changed) {
        changed = false;
        for (i = first; i < n; i++) {
            const struct insn *insn = &r->insns[i];
            size_t to[2] = {n + 1, n + 1}, j;
            if (!reach[i - first])
                continue;
            if (insn->op == OP_JUMP || insn->op == OP_SPLIT ||
                insn->op == OP_LOOK)
                to[0] = insn->x;
            if (insn->op == OP_SPLIT)
                to[1] = insn->y;
            if (insn->op == OP_LOOP && insn->min == 0)
                to[0] = i + 2;
            if (insn->op >= OP_BEGIN_LINE && insn->op <= OP_WORD_EDGE)
                to[0] = i + 1;
            for (j = 0; j < 2; j++) {
                if (to[j] >= first && to[j] <= n && !reach[to[j] - first]) {
                    reach[to[j] - first] = 1;
                    changed = true;
                }
            }
        }
    }
    empty = reach[n - first];
    host_free(reach);
    return empty;
}

/* Copies instructions first..last-1 to the end. */
static BELL_MUST_CHECK bell_status
copy_insns(struct parser *p, const struct insn *from, size_t n, size_t first)
{
    uint32_t shift = (uint32_t)(p->r->n_insns - first);
    size_t i;

    for (i = 0; i < n; i++) {
        struct insn insn = from[i];
        if (insn.op == OP_JUMP || insn.op == OP_SPLIT || insn.op == OP_LOOK)
            insn.x += shift;
        if (insn.op == OP_SPLIT)
            insn.y += shift;
        BELL_TRY(add_insn(p, insn));
    }
    return BELL_OK;
}

/* A group, min..max times: copies, with splits around those that may miss. */
static BELL_MUST_CHECK bell_status
repeat_copies(struct parser *p, const struct insn *body, size_t n, size_t first,
              uint32_t min, uint32_t max, bool lazy)
{
    uint32_t i, split;

    for (i = 0; i < min; i++)
        BELL_TRY(copy_insns(p, body, n, first));
    for (i = min; i < (max == UINT32_MAX ? min + 1 : max); i++) {
        split = (uint32_t)p->r->n_insns;
        BELL_TRY(add_insn(p, (struct insn){.op = OP_SPLIT}));
        BELL_TRY(copy_insns(p, body, n, first));
        if (max == UINT32_MAX)
            BELL_TRY(add_insn(p, (struct insn){.op = OP_JUMP, .x = split}));
        p->r->insns[split].x = lazy ? (uint32_t)p->r->n_insns : split + 1;
        p->r->insns[split].y = lazy ? split + 1 : (uint32_t)p->r->n_insns;
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
repeat(struct parser *p, size_t first, uint32_t min, uint32_t max)
{
    struct regex *r = p->r;
    size_t n = r->n_insns - first;
    enum loop_kind kind = LOOP_GREEDY;
    struct insn *body;
    bell_status status;

    if (max < min || (max != UINT32_MAX && max > MAX_REPEAT) ||
        min > MAX_REPEAT)
        return refuse(p, "such a repetition");
    if (is_next(p, "?") && p->text[p->at - 1] != '}') {
        kind = LOOP_LAZY;
        p->at++;
    } else if (is_next(p, "+") && p->text[p->at - 1] != '}') {
        kind = LOOP_POSSESSIVE;
        p->at++;
    }
    if (is_next(p, "*") || is_next(p, "+") || is_next(p, "?"))
        return refuse(p, "a repetition of a repetition");
    if (n == 1 && r->insns[first].op <= OP_SET) {
        struct insn one = r->insns[first];
        r->insns[first] =
            (struct insn){.op = OP_LOOP, .min = min, .max = max, .kind = kind};
        return add_insn(p, one);
    }
    if (kind == LOOP_POSSESSIVE)
        return refuse(p, "a possessive repetition of a group");
    if (can_be_empty(r, first))
        return refuse(p, "a repetition of what can match nothing");
    body = host_alloc((n ? n : 1) * sizeof(*body));
    if (!body)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pattern");
    memcpy(body, r->insns + first, n * sizeof(*body));
    r->n_insns = first;
    status = repeat_copies(p, body, n, first, min, max, kind == LOOP_LAZY);
    host_free(body);
    return status;
}

static BELL_MUST_CHECK bell_status
take_sequence(struct parser *p)
{
    while (p->at < p->n && p->text[p->at] != '|' && p->text[p->at] != ')') {
        size_t first = p->r->n_insns;
        uint32_t min, max;
        BELL_TRY(take_atom(p));
        if (take_count(p, &min, &max))
            BELL_TRY(repeat(p, first, min, max));
    }
    return BELL_OK;
}

/* Alternatives: each but the last has a split before it and a jump behind. */
static BELL_MUST_CHECK bell_status
take_choice(struct parser *p)
{
    uint32_t jumps = UINT32_MAX; /* a list by their x */
    size_t first = p->r->n_insns;

    for (;;) {
        BELL_TRY(take_sequence(p));
        if (!is_next(p, "|"))
            break;
        p->at++;
        {
            size_t n = p->r->n_insns - first, i;
            struct insn *insns;
            BELL_TRY(add_insn(p, (struct insn){.op = OP_JUMP}));
            insns = p->r->insns;
            memmove(insns + first + 1, insns + first, n * sizeof(*insns));
            for (i = first + 1; i < first + 1 + n; i++) {
                if (insns[i].op == OP_JUMP || insns[i].op == OP_SPLIT ||
                    insns[i].op == OP_LOOK)
                    insns[i].x++;
                if (insns[i].op == OP_SPLIT)
                    insns[i].y++;
            }
            insns[first] = (struct insn){.op = OP_SPLIT,
                                         .x = (uint32_t)first + 1,
                                         .y = (uint32_t)(first + n + 2)};
            BELL_TRY(add_insn(p, (struct insn){.op = OP_JUMP, .x = jumps}));
            jumps = (uint32_t)p->r->n_insns - 1;
            first = p->r->n_insns;
        }
    }
    while (jumps != UINT32_MAX) {
        uint32_t before = p->r->insns[jumps].x;
        p->r->insns[jumps].x = (uint32_t)p->r->n_insns;
        jumps = before;
    }
    return BELL_OK;
}

bell_status
regex_create(const char *pattern, size_t n, struct regex **out_regex)
{
    struct parser p = {.text = pattern, .n = n};
    bell_status status = BELL_OK;
    size_t at = 0;

    if (n > MAX_PATTERN || !unicode_is_valid(pattern, n, &at))
        return bell_fail(BELL_E_IO,
                         "a pattern of %zu bytes: at most 65536, "
                         "of UTF-8",
                         n);
    p.r = host_calloc(1, sizeof(*p.r));
    if (!p.r)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pattern");
    status = take_choice(&p);
    if (status == BELL_OK && p.at < n)
        status = reject(&p, "an end of a group that did not begin");
    if (status == BELL_OK)
        status = add_insn(&p, (struct insn){.op = OP_MATCH});
    if (status != BELL_OK) {
        regex_destroy(p.r);
        return status;
    }
    *out_regex = p.r;
    return BELL_OK;
}

bell_status
regex_create_literal(const char *text, size_t n, struct regex **out_regex)
{
    struct parser p = {.text = text, .n = n};
    bell_status status = BELL_OK;

    p.r = host_calloc(1, sizeof(*p.r));
    if (!p.r)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a pattern");
    while (status == BELL_OK && p.at < n)
        status = add_insn(&p, (struct insn){.op = OP_CHAR, .x = take_char(&p)});
    if (status == BELL_OK)
        status = add_insn(&p, (struct insn){.op = OP_MATCH});
    if (status != BELL_OK) {
        regex_destroy(p.r);
        return status;
    }
    *out_regex = p.r;
    return BELL_OK;
}

void
regex_destroy(struct regex *regex)
{
    if (!regex)
        return;
    host_free(regex->insns);
    host_free(regex->sets);
    host_free(regex->items);
    host_free(regex);
}

/* ---- matching ---- */

/* Where to go back to: `at`, and for a loop the places from `least` to it. */
struct regex_back {
    uint32_t pc;
    bool is_loop, is_lazy;
    size_t at, least;
    size_t n_more; /* of a lazy loop: how often it may still take one */
};

struct machine {
    const struct regex *r;
    struct regex_room *room;
    const char *text;
    size_t n;
    uint64_t max_steps;
};

void
regex_room_fini(struct regex_room *room)
{
    host_free(room->stack);
    memset(room, 0, sizeof(*room));
}

static bool
takes(const struct regex *r, const struct insn *insn, uint32_t c)
{
    if (insn->op == OP_CHAR)
        return (insn->any_case ? fold(c) : c) == insn->x;
    if (insn->op == OP_ANY)
        return c != '\n';
    return set_has(r, insn->x, c);
}

/* Bytes of the character at `at` where the instruction takes it; 0: not. */
static size_t
step_one(const struct machine *m, const struct insn *insn, size_t at)
{
    uint32_t c;
    size_t bytes;

    if (at >= m->n)
        return 0;
    bytes = unicode_read(m->text + at, m->n - at, &c);
    return takes(m->r, insn, c) ? bytes : 0;
}

static bool
is_word_at(const struct machine *m, size_t at)
{
    uint32_t c;

    if (at >= m->n)
        return false;
    (void)unicode_read(m->text + at, m->n - at, &c);
    return unicode_is_word(c, false);
}

static size_t
char_before(const struct machine *m, size_t at)
{
    do
        at--;
    while (at > 0 && ((uint8_t)m->text[at] & 0xc0) == 0x80);
    return at;
}

static bool
is_edge(const struct machine *m, const struct insn *insn, size_t at)
{
    bool before, after;

    switch (insn->op) {
    case OP_BEGIN_LINE:
        return at == 0 || (m->text[at - 1] == '\n' && at < m->n);
    case OP_END_LINE:
        return at == m->n || m->text[at] == '\n';
    case OP_BEGIN:
        return at == 0;
    case OP_END:
        return at == m->n;
    case OP_WORD_EDGE:
        before = at > 0 && is_word_at(m, char_before(m, at));
        after = is_word_at(m, at);
        return (before != after) != (insn->y != 0);
    case OP_CHAR:
    case OP_ANY:
    case OP_SET:
    case OP_LOOP:
    case OP_JUMP:
    case OP_SPLIT:
    case OP_LOOK:
    case OP_MATCH:
    default:
        return false;
    }
}

static bool
push_back(struct machine *m, size_t *depth, struct regex_back back)
{
    if (host_grow((void **)&m->room->stack, &m->room->cap, *depth + 1,
                  sizeof(*m->room->stack)) != 0)
        return false;
    m->room->stack[(*depth)++] = back;
    return true;
}

/* Runs a loop of one character at *at; false: it does not match. */
static BELL_MUST_CHECK bell_status
run_loop(struct machine *m, uint32_t pc, size_t *at, size_t *depth,
         bool *out_ok)
{
    const struct insn *loop = &m->r->insns[pc], *one = loop + 1;
    size_t place = *at, least, bytes;
    uint32_t n = 0, want = loop->kind == LOOP_LAZY ? loop->min : loop->max;

    least = place;
    while (n < want && (bytes = step_one(m, one, place)) > 0) {
        place += bytes;
        n++;
        if (n == loop->min)
            least = place;
        m->room->n_steps++;
    }
    *out_ok = n >= loop->min;
    *at = place;
    if (!*out_ok || loop->kind == LOOP_POSSESSIVE)
        return BELL_OK;
    if (loop->kind == LOOP_LAZY) {
        if (loop->max > n &&
            !push_back(m, depth,
                       (struct regex_back){.pc = pc,
                                           .is_loop = true,
                                           .is_lazy = true,
                                           .at = place,
                                           .n_more = loop->max - n}))
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for a search");
        return BELL_OK;
    }
    if (place > least &&
        !push_back(m, depth,
                   (struct regex_back){
                       .pc = pc, .is_loop = true, .at = place, .least = least}))
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a search");
    return BELL_OK;
}

/* Takes the newest place to go back to; false: there is none. */
static bool
go_back(struct machine *m, size_t base, size_t *depth, uint32_t *pc, size_t *at)
{
    while (*depth > base) {
        struct regex_back *back = &m->room->stack[*depth - 1];
        if (!back->is_loop) {
            *pc = back->pc;
            *at = back->at;
            (*depth)--;
            return true;
        }
        *pc = back->pc + 2;
        if (back->is_lazy) {
            size_t bytes = step_one(m, &m->r->insns[back->pc + 1], back->at);
            if (bytes == 0) {
                (*depth)--;
                continue;
            }
            back->at += bytes;
            *at = back->at;
            if (back->n_more != UINT32_MAX && --back->n_more == 0)
                (*depth)--;
            return true;
        }
        back->at = char_before(m, back->at);
        *at = back->at;
        if (back->at <= back->least)
            (*depth)--;
        return true;
    }
    return false;
}

/* Runs the program from pc at `at`; *out_end is SIZE_MAX where it does not
 * match. Looks ahead by calling itself, as deep as groups are. */
static BELL_MUST_CHECK bell_status
run_at(struct machine *m, uint32_t pc, size_t at, size_t base, size_t *out_end)
{
    size_t depth = base, end;
    bool ok;

    *out_end = SIZE_MAX;
    for (;;) {
        const struct insn *insn = &m->r->insns[pc];
        if (++m->room->n_steps > m->max_steps)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "a pattern takes too many steps in a text of %zu "
                             "bytes",
                             m->n);
        ok = true;
        switch (insn->op) {
        case OP_MATCH:
            *out_end = at;
            return BELL_OK;
        case OP_JUMP:
            pc = insn->x;
            continue;
        case OP_SPLIT:
            if (!push_back(m, &depth,
                           (struct regex_back){.pc = insn->y, .at = at}))
                return bell_fail(BELL_E_NO_MEMORY,
                                 "out of memory for a search");
            pc = insn->x;
            continue;
        case OP_LOOK:
            BELL_TRY(run_at(m, pc + 1, at, depth, &end));
            ok = (end != SIZE_MAX) != (insn->y != 0);
            pc = insn->x;
            break;
        case OP_LOOP:
            BELL_TRY(run_loop(m, pc, &at, &depth, &ok));
            pc += 2;
            break;
        case OP_CHAR:
        case OP_ANY:
        case OP_SET:
            end = step_one(m, insn, at);
            ok = end > 0;
            at += end;
            pc++;
            break;
        case OP_BEGIN_LINE:
        case OP_END_LINE:
        case OP_BEGIN:
        case OP_END:
        case OP_WORD_EDGE:
        default:
            ok = is_edge(m, insn, at);
            pc++;
            break;
        }
        if (!ok && !go_back(m, base, &depth, &pc, &at))
            return BELL_OK;
    }
}

bell_status
regex_find(const struct regex *regex, struct regex_room *room, const char *text,
           size_t n, size_t from, size_t *out_begin, size_t *out_end)
{
    struct machine m = {.r = regex,
                        .room = room,
                        .text = text,
                        .n = n,
                        .max_steps = 1000000 + 1000 * (uint64_t)n};
    uint32_t c;

    for (;;) {
        size_t end;
        BELL_TRY(run_at(&m, 0, from, 0, &end));
        if (end != SIZE_MAX) {
            *out_begin = from;
            *out_end = end;
            return BELL_OK;
        }
        if (from >= n)
            break;
        from += unicode_read(text + from, n - from, &c);
    }
    *out_begin = n + 1;
    *out_end = n + 1;
    return BELL_OK;
}
