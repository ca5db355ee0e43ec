/* Parses the patterns of a rule table and files them by root op. */
#include "uops/rewrite.h"

#include <assert.h>

#include "uops/rewrite_internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

#define NAME_BYTES 24
#define MAX_SWAPS  3 /* commutative nodes that are tried both ways */

/* State of parsing one rule. */
struct parser {
    struct rw_set *set;
    const char *rule, *at;
    char names[RW_MAX_VARS][NAME_BYTES];
    uint8_t n_uses[RW_MAX_VARS];
    uint8_t n_vars;
    bool is_to;              /* captures must exist */
    uint8_t alts[8], n_alts; /* ops of the root */
    bool failed;
};

static uint16_t fail_parse(struct parser *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The first error of the whole table is kept: it is told when rules are
 * checked, since a table is parsed where nobody could be told. The result is a
 * pattern's place, so that a parser can return it. */
static uint16_t
fail_parse(struct parser *p, const char *fmt, ...)
{
    char what[80];
    va_list args;

    assert(p->set);
    if (!p->failed && p->set->error[0] == '\0') {
        va_start(args, fmt);
        vsnprintf(what, sizeof(what), fmt, args);
        va_end(args);
        snprintf(p->set->error, sizeof(p->set->error), "rule %.30s: %.80s",
                 p->rule, what);
    }
    p->failed = true;
    return 0;
}

/* Patterns lie in one array of the set and name each other by place, never by
 * pointer: the array is filled once and then read by all threads without a
 * lock. */
static uint16_t
new_pat(struct parser *p, enum rw_kind kind)
{
    struct rw_pat *pat;

    if (p->set->n_pats >= RW_MAX_PATS)
        return fail_parse(p, "too many patterns in the table");
    pat = &p->set->pats[p->set->n_pats];
    memset(pat, 0, sizeof(*pat));
    pat->kind = (uint8_t)kind;
    pat->var = -1;
    return p->set->n_pats++;
}

static void
pattern_skip_blanks(struct parser *p)
{
    while (*p->at == ' ')
        p->at++;
}

static void
pattern_read_word(struct parser *p, char *out)
{
    size_t n = 0;

    while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
        n++;
    if (n >= NAME_BYTES) {
        fail_parse(p, "long word at '%.20s'", p->at);
        n = NAME_BYTES - 1;
    }
    memcpy(out, p->at, n);
    out[n] = '\0';
    p->at += n;
}

static int
pattern_find_op(const char *name)
{
    int op;

    for (op = 0; op < UOP_OP_COUNT; op++) {
        if (strcmp(uop_op_infos[op].name, name) == 0)
            return op;
    }
    return -1;
}

/* The number of a capture. In a replacement a name that the pattern did not
 * bind is an error of the table; in the pattern its second use demands the
 * same node. */
static int8_t
find_var(struct parser *p, const char *name)
{
    uint8_t i;

    for (i = 0; i < p->n_vars; i++) {
        if (strcmp(p->names[i], name) == 0) {
            p->n_uses[i]++;
            return (int8_t)i;
        }
    }
    if (p->is_to || p->n_vars >= RW_MAX_VARS) {
        fail_parse(p, "capture '%s' is unknown or one too many", name);
        return -1;
    }
    strcpy(p->names[p->n_vars], name);
    p->n_uses[p->n_vars] = 1;
    return (int8_t)p->n_vars++;
}

/* Behind the colon: a class of dtypes or constants, or the name of an op,
 * which then stands for any node of that op, whatever its sources. */
static void
read_class(struct parser *p, struct rw_pat *pat)
{
    static const char *const names[] = {
        [RW_CLASS_INT] = "int",     [RW_CLASS_SINT] = "sint",
        [RW_CLASS_BOOL] = "bool",   [RW_CLASS_FLOAT] = "float",
        [RW_CLASS_CONST] = "const",
    };
    char word[NAME_BYTES];
    size_t i;
    int op;

    pattern_read_word(p, word);
    for (i = 1; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i], word) == 0) {
            pat->cls = (uint8_t)i;
            return;
        }
    }
    op = pattern_find_op(word);
    if (op < 0) {
        fail_parse(p, "no class or op '%s'", word);
        return;
    }
    pat->kind = RW_ANY_OF_OP;
    pat->op = (uint8_t)op;
}

/* An integer matches any dtype's integer of that value; with a point it is a
 * float and matches by its bits, so that -0.0 and 0.0 are two literals. */
static uint16_t
parse_literal(struct parser *p)
{
    char *end;
    double f = strtod(p->at, &end);
    bool is_float = memchr(p->at, '.', (size_t)(end - p->at)) != NULL;
    uint16_t at = new_pat(p, is_float ? RW_FLOAT : RW_INT);

    if (is_float)
        p->set->pats[at].f = f;
    else
        p->set->pats[at].i = (int64_t)f;
    if (end == p->at)
        return fail_parse(p, "no expression at '%.20s'", p->at);
    p->at = end;
    return at;
}

static uint16_t pattern_parse_expr(struct parser *p, bool is_root);

/* (OP ...), where the root may name several ops: (ADD|SUB ...). Rows are filed
 * by the root's op, so each of them becomes a row of its own. */
static uint16_t
parse_list(struct parser *p, bool is_root)
{
    uint16_t at = new_pat(p, RW_OP);
    struct rw_pat *pat = &p->set->pats[at];
    char word[NAME_BYTES];
    int op;

    p->at++;
    for (;;) {
        pattern_read_word(p, word);
        op = pattern_find_op(word);
        if (op < 0)
            return fail_parse(p, "no op '%s'", word);
        pat->op = (uint8_t)op;
        if (is_root && p->n_alts < sizeof(p->alts))
            p->alts[p->n_alts++] = (uint8_t)op;
        if (*p->at != '|')
            break;
        if (!is_root || p->is_to)
            return fail_parse(p, "'|' below the root");
        p->at++;
    }
    for (pattern_skip_blanks(p); *p->at != ')'; pattern_skip_blanks(p)) {
        uint16_t child;
        if (p->failed || pat->n_child == RW_MAX_CHILD || *p->at == '\0')
            return fail_parse(p, "'%.20s' where ')' is due", p->at);
        child = pattern_parse_expr(p, false);
        pat->child[pat->n_child++] = child;
    }
    p->at++;
    return at;
}

static uint16_t
pattern_parse_expr(struct parser *p, bool is_root)
{
    char word[NAME_BYTES];
    uint16_t at;
    int8_t var;

    pattern_skip_blanks(p);
    if (*p->at == '(')
        return parse_list(p, is_root);
    if (!isalpha((unsigned char)*p->at))
        return parse_literal(p);
    pattern_read_word(p, word);
    var = find_var(p, word);
    if (*p->at == ':' && p->at[1] == '(') {
        p->at++;
        at = parse_list(p, is_root);
    } else {
        at = new_pat(p, RW_ANY);
        if (*p->at == ':') {
            p->at++;
            read_class(p, &p->set->pats[at]);
        }
    }
    p->set->pats[at].var = var;
    return at;
}

/* What matches constants alone. uop_make puts these last, so that a pattern
 * with one need not be tried the other way round. */
static bool
is_const_pat(const struct rw_pat *pat)
{
    return pat->kind == RW_INT || pat->kind == RW_FLOAT ||
           (pat->kind == RW_ANY && pat->cls == RW_CLASS_CONST) ||
           (pat->kind == RW_ANY_OF_OP && pat->op == UOP_CONST);
}

/* It takes any node of its class, and nothing else of the pattern asks for the
 * same one: the other order is not tried. */
static bool
is_bare_capture(const struct parser *p, const struct rw_pat *pat)
{
    return pat->kind == RW_ANY && p->n_uses[pat->var] == 1;
}

/* Whether the order of two sources matters to the pattern although it does not
 * to the op. Apart from constants operands come in the order of their keys,
 * which a pattern cannot know. */
static bool
needs_swap(const struct parser *p, const struct rw_pat *pat)
{
    const struct rw_pat *a, *b;

    if (pat->kind != RW_OP || pat->n_child != 2 ||
        !(uop_op_infos[pat->op].flags & UOP_FLAG_COMM))
        return false;
    a = &p->set->pats[pat->child[0]];
    b = &p->set->pats[pat->child[1]];
    if (is_const_pat(a) || is_const_pat(b))
        return false;
    return !(is_bare_capture(p, a) && is_bare_capture(p, b));
}

/* Copies a pattern; bit i of `mask` swaps the sources of the i-th node that
 * needs it. */
static uint16_t
copy_pat(struct parser *p, uint16_t from, unsigned mask, unsigned *n_seen)
{
    uint16_t at = new_pat(p, RW_ANY), child;
    struct rw_pat pat;
    uint8_t i;

    if (p->failed)
        return 0;
    pat = p->set->pats[from];
    if (needs_swap(p, &pat) && (mask >> (*n_seen)++ & 1)) {
        child = pat.child[0];
        pat.child[0] = pat.child[1];
        pat.child[1] = child;
    }
    for (i = 0; i < pat.n_child; i++)
        pat.child[i] = copy_pat(p, pat.child[i], mask, n_seen);
    p->set->pats[at] = pat;
    return at;
}

/* What source i must be, for a glance before the row is tried. */
static uint8_t
needed_op(const struct rw_set *set, const struct rw_pat *root, unsigned i)
{
    const struct rw_pat *child;

    if (i >= root->n_child)
        return RW_NEED_ANY;
    child = &set->pats[root->child[i]];
    if (child->kind == RW_OP || child->kind == RW_ANY_OF_OP)
        return child->op;
    return is_const_pat(child) ? RW_NEED_CONST : RW_NEED_ANY;
}

/* The class that the pattern asks of source i, of those that a dtype has. */
static uint8_t
needed_class(const struct rw_set *set, const struct rw_pat *root, unsigned i)
{
    const struct rw_pat *child;
    unsigned cls;

    if (i >= root->n_child)
        return 0;
    child = &set->pats[root->child[i]];
    cls = child->kind == RW_FLOAT ? RW_CLASS_FLOAT : child->cls;
    if (cls == RW_CLASS_ALL || cls == RW_CLASS_CONST)
        return 0;
    return (uint8_t)(1u << cls);
}

static void
add_row(struct parser *p, uint16_t rule, uint16_t pat, uint16_t to)
{
    struct rw_row *row;
    unsigned i;

    if (p->set->n_rows >= RW_MAX_ROWS) {
        fail_parse(p, "too many rows in the table");
        return;
    }
    row = &p->set->rows[p->set->n_rows++];
    row->rule = rule;
    row->pat = pat;
    row->to = to;
    row->n_vars = p->n_vars;
    row->op = p->set->pats[pat].op;
    row->n_src = p->set->pats[pat].n_child;
    for (i = 0; i < 2; i++) {
        row->need[i] = needed_op(p->set, &p->set->pats[pat], i);
        row->class[i] = needed_class(p->set, &p->set->pats[pat], i);
    }
}

/* A rule becomes a row for each op of its root and for each order of its
 * commutative nodes that is not one already. The rows keep the rule's
 * priority. */
static void
add_variants(struct parser *p, uint16_t rule, uint16_t root, uint16_t to)
{
    unsigned n_swaps = 0, n_seen, mask, alt;

    for (alt = 0; alt < p->n_alts && !p->failed; alt++) {
        p->set->pats[root].op = p->alts[alt];
        n_swaps = 0;
        copy_pat(p, root, 0, &n_swaps); /* counts */
        if (n_swaps > MAX_SWAPS) {
            fail_parse(p, "too many commutative nodes");
            return;
        }
        for (mask = 0; mask < 1u << n_swaps && !p->failed; mask++) {
            uint16_t copy;
            n_seen = 0;
            copy = copy_pat(p, root, mask, &n_seen);
            if (!p->failed)
                add_row(p, rule, copy, to);
        }
    }
}

/* A rule that cannot be parsed leaves nothing behind: the others go on, and
 * rw_set_check tells. */
static void
parse_rule(struct rw_set *set, uint16_t index)
{
    const struct rw_rule *rule = &set->rules[index];
    uint16_t n_rows = set->n_rows, n_pats = set->n_pats, root, to = 0;
    struct parser p = {.set = set, .rule = rule->name, .at = rule->pat};

    root = pattern_parse_expr(&p, true);
    if (!p.failed && (set->pats[root].kind != RW_OP || *p.at))
        fail_parse(&p, "the pattern is not one op");
    if (!p.failed && !rule->to == !rule->build)
        fail_parse(&p, "needs either a replacement or a function");
    if (!p.failed && rule->to) {
        p.is_to = true;
        p.at = rule->to;
        n_pats = set->n_pats;
        to = pattern_parse_expr(&p, false);
        if (!p.failed && *p.at)
            fail_parse(&p, "text after the replacement");
    }
    if (!p.failed)
        add_variants(&p, index, root, to);
    if (p.failed) {
        set->n_rows = n_rows;
        set->n_pats = n_pats;
    }
}

/* Stable sort of the rows by root op. */
static void
file_rows(struct rw_set *set)
{
    uint16_t i, k;
    unsigned op;

    for (i = 1; i < set->n_rows; i++) {
        struct rw_row row = set->rows[i];
        for (k = i; k > 0 && set->rows[k - 1].op > row.op; k--)
            set->rows[k] = set->rows[k - 1];
        set->rows[k] = row;
    }
    for (i = 0, op = 0; op <= UOP_OP_COUNT; op++) {
        while (i < set->n_rows && set->rows[i].op < op)
            i++;
        set->first[op] = i;
    }
}

void
rw_set_parse(struct rw_set *set)
{
    uint32_t i;

    pthread_mutex_lock(&set->lock);
    if (!atomic_load_explicit(&set->ready, memory_order_relaxed)) {
        for (i = 0; i < set->n_rules; i++)
            parse_rule(set, (uint16_t)i);
        file_rows(set);
        atomic_store_explicit(&set->ready, true, memory_order_release);
    }
    pthread_mutex_unlock(&set->lock);
}

bell_status
rw_set_check(struct rw_set *set)
{
    rw_set_parse(set);
    if (set->error[0])
        return bell_fail(BELL_E_INTERNAL, "%s", set->error);
    return BELL_OK;
}
