/* Sizes: numbers, or expressions of symbols that are known when a graph runs.
 *
 * A size is one word. Below DIM_LIMIT in magnitude it is a number; otherwise it
 * has the number of an expression in a table, marked so that the result of C's
 * arithmetic on it is not a size. Expressions are polynomials with integer
 * coefficients over atoms: an atom is a symbol, or a quotient, remainder,
 * minimum or maximum of two sizes. A polynomial is kept once, in one form, so
 * that two sizes of a table are equal for all values if and, atoms aside, only
 * if their words are.
 *
 * A result that cannot be a size is DIM_BAD: an operand is, a coefficient or a
 * sum is too large, a divisor may be 0 or less, or memory ran out. dim_why()
 * says which.
 *
 * A table only grows. Not thread safe.
 */
#ifndef BELL_UOPS_DIM_H
#define BELL_UOPS_DIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"

struct uop;
struct uop_graph;

#define DIM_TAG         (((int64_t)1 << 62) | DIM_MARK)
#define DIM_MARK        0x5d1e0d
#define DIM_SHIFT       24
#define DIM_LIMIT       ((int64_t)1 << 40)
#define DIM_BAD         INT64_MIN
#define DIM_MAX_SYMBOLS 32
#define DIM_MAX_TERMS   24 /* of a polynomial */
#define DIM_MAX_DEGREE  6  /* atoms of a product */
#define DIM_MAX_DEPTH   16 /* quotients of quotients */

enum dim_atom_kind {
    DIM_SYMBOL,
    DIM_FLOORDIV,
    DIM_FLOORMOD,
    DIM_MIN,
    DIM_MAX,
};

struct dim_symbol {
    char name[16];
    int64_t min, max, value; /* the value is within the bounds */
    int64_t dim;             /* the size that it is */
};

struct dim_atom {
    enum dim_atom_kind kind;
    int64_t a, b; /* operands; a symbol's number */
    int64_t min, max;
    uint32_t depth; /* of the atoms in its operands */
};

/* c times the product of atoms, which are sorted. */
struct dim_term {
    int64_t c;
    uint32_t n;
    uint32_t atoms[DIM_MAX_DEGREE];
};

struct dim_expr {
    const struct dim_term
        *terms; /* by degree, then by atoms; the number last */
    uint32_t n;
    int64_t min, max;
};

struct dim_table {
    struct dim_symbol symbols[DIM_MAX_SYMBOLS];
    struct dim_expr *exprs;
    struct dim_atom *atoms;
    size_t n_exprs, cap_exprs, n_atoms, cap_atoms;
    uint32_t n_symbols;
    const char *why; /* static: of the last DIM_BAD */
    struct arena arena;
    struct map map; /* hash of an expression -> its number */
};

void dim_table_init(struct dim_table *t);
void dim_table_fini(struct dim_table *t);

static inline bool
dim_is_number(int64_t d)
{
    return d > -DIM_LIMIT && d < DIM_LIMIT;
}

static inline bool
dim_is_expr(int64_t d)
{
    return d >> 60 == DIM_TAG >> 60 && (d & ((1 << DIM_SHIFT) - 1)) == DIM_MARK;
}

/* The number of an expression, and its word. */
static inline size_t
dim_number(int64_t d)
{
    return (size_t)(d - DIM_TAG) >> DIM_SHIFT;
}

static inline int64_t
dim_word(size_t number)
{
    return DIM_TAG + ((int64_t)number << DIM_SHIFT);
}

/* A new symbol, of value `min`. DIM_BAD: not -DIM_LIMIT < min <= max <
 * DIM_LIMIT, or there are DIM_MAX_SYMBOLS. */
int64_t dim_symbol(struct dim_table *t, const char *name, int64_t min,
                   int64_t max);
/* The number of the symbol that d is; -1: it is none. */
int dim_symbol_of(const struct dim_table *t, int64_t d);

/* Is d a * symbol + b? Then what these are. */
bool dim_is_linear(const struct dim_table *t, int64_t d, uint32_t *out_symbol,
                   int64_t *out_a, int64_t *out_b);

int64_t dim_add(struct dim_table *t, int64_t a, int64_t b);
int64_t dim_sub(struct dim_table *t, int64_t a, int64_t b);
int64_t dim_mul(struct dim_table *t, int64_t a, int64_t b);

/* These, also without a table: of numbers. */
static inline int64_t
dim_plus(struct dim_table *t, int64_t a, int64_t b)
{
    return t ? dim_add(t, a, b) : a + b;
}

static inline int64_t
dim_less(struct dim_table *t, int64_t a, int64_t b)
{
    return t ? dim_sub(t, a, b) : a - b;
}

static inline int64_t
dim_times(struct dim_table *t, int64_t a, int64_t b)
{
    return t ? dim_mul(t, a, b) : a * b;
}

/* Rounded down, and what then remains; b is at least 1 for all values. */
int64_t dim_floordiv(struct dim_table *t, int64_t a, int64_t b);
int64_t dim_floormod(struct dim_table *t, int64_t a, int64_t b);
int64_t dim_min(struct dim_table *t, int64_t a, int64_t b);
int64_t dim_max(struct dim_table *t, int64_t a, int64_t b);
/* a / b where b divides a for all values, as polynomials; else DIM_BAD. */
int64_t dim_divide(struct dim_table *t, int64_t a, int64_t b);
/* The table may be NULL. */
int64_t dim_product(struct dim_table *t, const int64_t *d, uint32_t n);
/* The term alone. */
int64_t dim_of_term(struct dim_table *t, const struct dim_term *term);

/* Bounds that hold for all values of the symbols: exact for a * symbol + b,
 * else perhaps wider. d is not DIM_BAD. */
void dim_bounds(const struct dim_table *t, int64_t d, int64_t *out_min,
                int64_t *out_max);

/* The same where symbols are within other bounds, by number. */
void dim_bounds_within(const struct dim_table *t, int64_t d, const int64_t *min,
                       const int64_t *max, int64_t *out_min, int64_t *out_max);

enum dim_answer {
    DIM_NEVER,
    DIM_ALWAYS,
    DIM_UNKNOWN
};

/* Is a <= b, for all values? DIM_UNKNOWN: it depends on them, or the bounds do
 * not tell. */
enum dim_answer dim_at_most(struct dim_table *t, int64_t a, int64_t b);
enum dim_answer dim_equal(struct dim_table *t, int64_t a, int64_t b);

/* The size for these values of the symbols, by number; NULL: for their present
 * ones. */
int64_t dim_value(const struct dim_table *t, int64_t d, const int64_t *values);

/* The symbols that d depends on, bit by number. */
uint32_t dim_symbols(const struct dim_table *t, int64_t d);

/* The size as an I64 expression of g, with vars[] for the symbols by number. */
const struct uop *dim_uop(const struct dim_table *t, struct uop_graph *g,
                          int64_t d, const struct uop *const *vars);

/* "2*n*m + n//4 - 1", cut to size_bytes. */
void dim_print(const struct dim_table *t, int64_t d, char *text,
               size_t size_bytes);

/* Why the last size was DIM_BAD. Static. */
const char *dim_why(const struct dim_table *t);

#endif
