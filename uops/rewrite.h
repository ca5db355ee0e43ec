/* Rewriting by tables of rules.
 *
 * A rule is a row: a name, a pattern and what replaces what it matches.
 * Patterns are S-expressions:
 *   (ADD x y)         an ADD of anything and anything, captured as x and y
 *   (ADD x x)         the same node twice
 *   (MUL|FDIV x 1.0)  one of several ops (only at the root)
 *   s:(ADD x y)       captures the ADD as s as well
 *   x:int             class: int (not bool), sint (signed), bool, float,
 *                     const (a CONST, or a BROADCAST of one)
 *   r:RANGE           a node of that op, whatever its sources
 *   0  -1             an integer or bool constant (also broadcast); -1 means
 *                     all ones in any dtype
 *   1.0  -0.0         a float constant, compared by bits
 * Sources of commutative ops match in either order, except constants, which
 * are written last, and two bare captures mentioned once each.
 *
 * `to` is an expression in the same notation over the captures; a literal
 * takes the dtype of what it stands beside, a CAST that of the root. Or
 * `build` makes the replacement, or returns NULL for no match.
 *
 * Rows of one root op are tried in the order of the table; the first that
 * gives another node wins.
 */
#ifndef BELL_UOPS_REWRITE_H
#define BELL_UOPS_REWRITE_H

#include <pthread.h>
#include <stdatomic.h>

#include "uops/uop.h"

#define RW_MAX_VARS  8
#define RW_MAX_CHILD 4
#define RW_MAX_PATS  1280
#define RW_MAX_ROWS  384

/* What a rule matched. `root` may be a node that is not in the graph yet: its
 * parts may be used, its id and itself as a source may not. */
struct rw_match {
    const struct uop *root;
    const struct uop *v[RW_MAX_VARS]; /* captures, by first mention */
};

typedef const struct uop *rw_build_fn(struct uop_graph *g,
                                      const struct rw_match *match);

struct rw_rule {
    const char *name, *pat;
    const char *to;     /* or NULL */
    rw_build_fn *build; /* or NULL */
};

/* A node of a parsed pattern or replacement. Children are indices. */
struct rw_pat {
    uint8_t kind, cls, op, n_child;
    int8_t var; /* capture, or -1 */
    uint16_t child[RW_MAX_CHILD];
    union {
        int64_t i;
        double f;
    };
};

/* Needs of a source for which there is no one op: anything; CONST or a
 * BROADCAST. */
#define RW_NEED_ANY   UOP_OP_COUNT
#define RW_NEED_CONST (UOP_OP_COUNT + 1)

/* One way to match a rule. */
struct rw_row {
    uint16_t rule, pat, to;
    uint8_t n_vars, op;
    uint8_t n_src;
    uint8_t need[2];  /* op of src 0 and 1, RW_NEED_ANY or RW_NEED_CONST */
    uint8_t class[2]; /* that src 0 and 1 are to be of: a bit, or 0 */
};

/* A table of rules and its parsed form, filled on first use by any thread.
 * Made by RW_SET; lives as long as the program; needs no allocation. */
struct rw_set {
    const struct rw_rule *rules;
    uint32_t n_rules;
    pthread_mutex_t lock; /* held while parsing */
    atomic_bool ready;
    struct rw_pat pats[RW_MAX_PATS];
    struct rw_row rows[RW_MAX_ROWS];
    uint16_t first[UOP_OP_COUNT + 1]; /* rows of op: first[op]..first[op+1] */
    uint16_t n_pats, n_rows;
    char error[128]; /* first bad rule; empty when all are good */
};

/* Defines a static set over the rows of `table`, an array in scope. */
#define RW_SET(set_name, table)                                                \
    static struct rw_set set_name = {                                          \
        .rules = (table),                                                      \
        .n_rules = sizeof(table) / sizeof((table)[0]),                         \
        .lock = PTHREAD_MUTEX_INITIALIZER,                                     \
    }

/* BELL_E_INTERNAL naming the first rule that could not be parsed (such a rule
 * never matches). For unit tests. */
BELL_MUST_CHECK bell_status rw_set_check(struct rw_set *set);

/* Tries the rules on one node: the replacement, or NULL where none applies.
 * The node need not be in the graph, its sources must. When `out_rule` is not
 * NULL it receives the rule that was used. */
const struct uop *rw_apply(struct uop_graph *g, struct rw_set *set,
                           const struct uop *u,
                           const struct rw_rule **out_rule);

/* The set that uop_make applies (uops/symbolic.c). */
struct rw_set *uop_symbolic_rules(void);

#endif
