/* Expressions on one line, as a person writes them. */
#include "uops/uop.h"

#include <assert.h>

#include "uops/uops_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 48 /* below it "..." is printed */

/* Binding strength, as in C; // and % bind like the product. */
enum prec {
    PREC_WHERE = 1,
    PREC_OR,
    PREC_XOR,
    PREC_AND,
    PREC_EQ,
    PREC_LESS,
    PREC_SHIFT,
    PREC_SUM,
    PREC_PRODUCT,
    PREC_UNARY,
    PREC_ATOM,
};

struct out {
    char *buf;
    size_t size_bytes, len;
    int depth;
};

static void expr_put(struct out *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Text that does not fit is cut: these are for logs and messages, where the
 * beginning is what is looked for. */
static void
expr_put(struct out *o, const char *fmt, ...)
{
    va_list args;
    int n;

    assert(o->len < o->size_bytes);
    if (o->len + 1 >= o->size_bytes)
        return;
    va_start(args, fmt);
    n = vsnprintf(o->buf + o->len, o->size_bytes - o->len, fmt, args);
    va_end(args);
    if (n > 0)
        o->len += (size_t)n;
    if (o->len >= o->size_bytes)
        o->len = o->size_bytes - 1;
}

static void put_expr(struct out *o, const struct uop *u, enum prec outer);

/* As many digits as bring the number back, and always something that shows that
 * it is not an integer. */
static void
put_float(struct out *o, const struct uop *u)
{
    char text[40];

    snprintf(text, sizeof(text), "%.*g", u->dtype == UOP_F64 ? 17 : 9,
             u->arg.f);
    expr_put(o, "%s%s", text, strpbrk(text, ".einf") ? "" : ".0");
}

/* Below zero it is put in parentheses where it would read as a difference. */
static void
put_const(struct out *o, const struct uop *u, enum prec outer)
{
    bool parens = outer > PREC_SUM;

    if (u->dtype == UOP_BOOL) {
        expr_put(o, "%s", u->arg.i ? "true" : "false");
    } else if (uop_is_float(u)) {
        parens = parens && signbit(u->arg.f);
        expr_put(o, "%s", parens ? "(" : "");
        put_float(o, u);
        expr_put(o, "%s", parens ? ")" : "");
    } else if (u->dtype == UOP_U64) {
        expr_put(o, "%llu", (unsigned long long)u->arg.i);
    } else {
        parens = parens && u->arg.i < 0;
        expr_put(o, parens ? "(%lld)" : "%lld", (long long)u->arg.i);
    }
}

static void
put_args(struct out *o, const struct uop *u, uint32_t first)
{
    uint32_t i;

    assert(first <= u->n_src);
    expr_put(o, "(");
    for (i = first; i < u->n_src; i++) {
        if (i > first)
            expr_put(o, ", ");
        put_expr(o, u->src[i], PREC_WHERE);
    }
    expr_put(o, ")");
}

static void
put_call(struct out *o, const struct uop *u)
{
    const char *name = uop_op_infos[u->op].name;

    for (; *name; name++)
        expr_put(o, "%c", tolower((unsigned char)*name));
    if (uop_op_infos[u->op].arg_kind == UOP_ARG_INT)
        expr_put(o, "%lld", (long long)u->arg.i);
    put_args(o, u, 0);
}

/* The constant below zero that u is or multiplies by, or NULL. */
static const struct uop *
negative_part(const struct uop *u)
{
    const struct uop *c = u;

    if (u->op == UOP_MUL && u->n_src == 2)
        c = u->src[1];
    c = uop_scalar_const(c);
    return c && !uop_is_float(c) && c->dtype != UOP_U64 && c->arg.i < 0 &&
                   c->arg.i > INT64_MIN
               ? c
               : NULL;
}

/* Minus u, where negative_part(u). */
static void
put_negated(struct out *o, const struct uop *u)
{
    long long c = (long long)negative_part(u)->arg.i;

    assert(negative_part(u));
    if (u->op != UOP_MUL) {
        expr_put(o, "%lld", -c);
        return;
    }
    put_expr(o, u->src[0], PREC_PRODUCT);
    if (c != -1)
        expr_put(o, "*%lld", -c);
}

/* Adding what is below zero reads as a subtraction. The symbolic rules have
 * only sums, with constants last and coefficients signed. */
static void
put_sum(struct out *o, const struct uop *u)
{
    const struct uop *a = u->src[0], *b = u->src[1];

    if (!uop_is_float(u) && negative_part(b)) {
        put_expr(o, a, PREC_SUM);
        expr_put(o, " - ");
        put_negated(o, b);
    } else if (!uop_is_float(u) && negative_part(a) && a->op == UOP_MUL) {
        put_expr(o, b, PREC_SUM);
        expr_put(o, " - ");
        put_negated(o, a);
    } else {
        put_expr(o, a, PREC_SUM);
        expr_put(o, " + ");
        put_expr(o, b, (enum prec)(PREC_SUM + 1));
    }
}

/* p[i], with a gate "g ? p[i] : otherwise", and a store "p[i] = v". */
static void
expr_put_access(struct out *o, const struct uop *u)
{
    bool gated = u->n_src == 4;

    assert(u->n_src >= 2 && u->src[0] && u->src[1]);
    if (gated) {
        put_expr(o, u->src[3], PREC_OR);
        expr_put(o, " ? ");
    }
    put_expr(o, u->src[0], PREC_ATOM);
    expr_put(o, "[");
    put_expr(o, u->src[1], PREC_WHERE);
    expr_put(o, "]");
    if (u->op == UOP_STORE) {
        expr_put(o, " = ");
        put_expr(o, u->src[2], PREC_WHERE);
    } else if (gated) {
        expr_put(o, " : ");
        put_expr(o, u->src[2], PREC_WHERE);
    }
}

/* Names are those of the program's parts: r for ranges, p for parameters, v
 * for variables; a letter for the axis of a group's or thread's number. */
static void
put_leaf(struct out *o, const struct uop *u)
{
    static const char axes[] = "xyz?xyz?";

    switch (u->op) {
    case UOP_RANGE:
        expr_put(o, "r%u", uop_range_id(u));
        break;
    case UOP_PARAM:
        expr_put(o, "p%lld", (long long)u->arg.i);
        break;
    case UOP_VAR:
        expr_put(o, "v%lld", (long long)u->arg.i);
        break;
    case UOP_SPECIAL:
        expr_put(o, "%s.%c", u->arg.i < 4 ? "group" : "thread",
                 axes[u->arg.i & 7]);
        break;
    case UOP_RAMP:
        expr_put(o, "ramp%u", u->lanes);
        break;
    case UOP_ACC:
        expr_put(o, "acc%lld", (long long)u->arg.i);
        break;
    default:
        put_call(o, u);
        break;
    }
}

/* The negation of a truth value is an XOR with true: there is no op for it. */
static bool
is_not(const struct uop *u)
{
    const struct uop *c;

    if (u->op != UOP_XOR || u->dtype != UOP_BOOL || u->n_src != 2)
        return false;
    c = uop_scalar_const(u->src[1]);
    return c && c->arg.i == 1;
}

/* Sign and strength of a binary operator; NULL if it is not one. */
static const char *
infix_of(const struct uop *u, enum prec *out_prec)
{
    static const struct {
        uint8_t op, prec;
        const char *sign;
    } table[] = {
        {UOP_SUB, PREC_SUM, " - "},        {UOP_MUL, PREC_PRODUCT, "*"},
        {UOP_FDIV, PREC_PRODUCT, "/"},     {UOP_FLOORDIV, PREC_PRODUCT, "//"},
        {UOP_FLOORMOD, PREC_PRODUCT, "%"}, {UOP_SHL, PREC_SHIFT, " << "},
        {UOP_SHR, PREC_SHIFT, " >> "},     {UOP_AND, PREC_AND, " & "},
        {UOP_OR, PREC_OR, " | "},          {UOP_XOR, PREC_XOR, " ^ "},
        {UOP_CMPLT, PREC_LESS, " < "},     {UOP_CMPEQ, PREC_EQ, " == "},
        {UOP_CMPNE, PREC_EQ, " != "},
    };
    size_t i;

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].op == u->op && u->n_src == 2) {
            *out_prec = (enum prec)table[i].prec;
            return table[i].sign;
        }
    }
    return NULL;
}

static enum prec
prec_of(const struct uop *u)
{
    enum prec prec = PREC_ATOM;

    if (is_not(u))
        return PREC_UNARY;
    if (infix_of(u, &prec))
        return prec;
    switch (u->op) {
    case UOP_ADD:
        return PREC_SUM;
    case UOP_WHERE:
    case UOP_STORE:
        return PREC_WHERE;
    case UOP_LOAD:
        return u->n_src == 4 ? PREC_WHERE : PREC_ATOM;
    case UOP_NEG:
    case UOP_CAST:
        return PREC_UNARY;
    default:
        return PREC_ATOM;
    }
}

static void
put_body(struct out *o, const struct uop *u, enum prec prec)
{
    const char *sign;

    if (is_not(u)) {
        expr_put(o, "!");
        put_expr(o, u->src[0], PREC_UNARY);
        return;
    }
    sign = infix_of(u, &prec);
    if (u->op == UOP_MUL && negative_part(u)) {
        expr_put(o, "-");
        put_negated(o, u);
    } else if (sign) {
        put_expr(o, u->src[0], prec);
        expr_put(o, "%s", sign);
        put_expr(o, u->src[1], (enum prec)(prec + 1));
    } else if (u->op == UOP_ADD && u->n_src == 2) {
        put_sum(o, u);
    } else if (u->op == UOP_WHERE && u->n_src == 3) {
        put_expr(o, u->src[0], PREC_OR);
        expr_put(o, " ? ");
        put_expr(o, u->src[1], PREC_OR);
        expr_put(o, " : ");
        put_expr(o, u->src[2], PREC_WHERE);
    } else if (u->op == UOP_NEG && u->n_src == 1) {
        expr_put(o, "-");
        put_expr(o, u->src[0], PREC_UNARY);
    } else if (u->op == UOP_CAST && u->n_src == 1) {
        expr_put(o, "(%s)", uop_dtype_infos[u->dtype].short_name);
        put_expr(o, u->src[0], PREC_UNARY);
    } else if (u->op == UOP_BROADCAST && u->n_src == 1 && u->lanes > 1) {
        put_expr(o, u->src[0], PREC_UNARY);
        expr_put(o, "{%u}", u->lanes);
    } else if ((u->op == UOP_LOAD && u->n_src >= 2) ||
               (u->op == UOP_STORE && u->n_src >= 3)) {
        expr_put_access(o, u);
    } else {
        put_leaf(o, u);
    }
}

/* Graphs share nodes, text does not: without the limits on depth and length a
 * graph of a few nodes could print for ever. */
static void
put_expr(struct out *o, const struct uop *u, enum prec outer)
{
    enum prec prec = prec_of(u);
    bool parens = prec < outer;

    if (o->depth >= MAX_DEPTH) {
        expr_put(o, "...");
        return;
    }
    if (o->len + 1 >= o->size_bytes)
        return;
    if (u == &uop_failed) { /* its value is not a number */
        expr_put(o, "0");
        return;
    }
    if (u->op == UOP_CONST) {
        put_const(o, u, outer);
        return;
    }
    o->depth++;
    if (parens)
        expr_put(o, "(");
    put_body(o, u, prec);
    if (parens)
        expr_put(o, ")");
    o->depth--;
}

char *
uop_expr_str(const struct uop *u, char *buf, size_t size_bytes)
{
    struct out o = {buf, size_bytes, 0, 0};

    if (size_bytes == 0)
        return buf;
    buf[0] = '\0';
    put_expr(&o, u, PREC_WHERE);
    return buf;
}
