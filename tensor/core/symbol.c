/* Symbols: what they are as numbers, and the public calls. */
#include "tensor/core/symbol.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tensor/core/node.h"

/* a * ONE + a * (symbol + 1) * FIELD + b: from the top a, then which symbol it
 * is, then b. */
#define ONE   ((int64_t)1 << 42)
#define FIELD ((int64_t)1 << 22)
#define MAX_A ((int64_t)1 << 14)
/* Of what is found in numbers: 4.0 / n. */
#define MAX_NUMERATOR 1024

static const int64_t primes[BELL_MAX_SYMBOLS] = {
    1048573, 1048571, 1048559, 1048549, 1048517, 1048507, 1048447, 1048433};

/* d / by, rounded to the nearest. */
static int64_t
nearest(int64_t d, int64_t by)
{
    int64_t up = d + by / 2;

    return up / by - (up % by < 0);
}

bool
symbol_parse(int64_t d, struct symbol_size *out)
{
    int64_t a, rest, field;

    if (d >= (MAX_A + 1) * ONE || d <= -(MAX_A + 1) * ONE)
        return false; /* far beyond: INT64_MAX is a size to be refused */
    a = nearest(d, ONE);
    if (a == 0 || a > MAX_A || a < -MAX_A)
        return false;
    rest = d - a * ONE;
    field = nearest(rest, FIELD);
    if (field % a || field / a < 1 || field / a > BELL_MAX_SYMBOLS)
        return false;
    out->symbol = (uint32_t)(field / a - 1);
    out->a = a;
    out->b = rest - field * FIELD;
    return true;
}

int64_t
symbol_number(uint32_t symbol)
{
    return ONE + (int64_t)(symbol + 1) * FIELD;
}

bool
symbol_in(const int64_t *d, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (symbol_is(d[i]))
            return true;
    }
    return false;
}

/* One of base e, 10 or 2, or 1 / it: as near as a float is, and of base 2,
 * which is 42 and a millionth, nearer than 42. */
static bool
is_logarithm(double n, double v)
{
    const double logs[3] = {log(n), log10(n), log2(n)};
    uint32_t i;

    for (i = 0; i < 3; i++) {
        double near = i < 2 ? 0x1p-24 : 0x1p-26;
        if (fabs(v / logs[i] - 1) <= near || fabs(v * logs[i] - 1) <= near)
            return true;
    }
    return false;
}

/* The symbol is the number 2^42 and some millionths more of it, to which b is
 * a quarter of a millionth at most. */
bool
symbol_in_number(const struct tensor_symbols *symbols, double value)
{
    double forms[4], n, x, v = fabs(value);
    bool is_log = (v > 12 && v < 43) || (v > 1. / 43 && v < 1. / 12);
    uint32_t i, k;

    if (v == 0 || (v > 0x1p-18 && v < 0x1p18 && !is_log) || v > 0x1p60 ||
        v < 0x1p-60)
        return false; /* soon said of most numbers; not of NaN */
    for (i = 0; i < symbols->n; i++) {
        n = (double)symbol_number(i);
        if (is_log && is_logarithm(n, v))
            return true;
        forms[0] = n * v;     /* c / n */
        forms[1] = n / v;     /* n / c */
        forms[2] = n * v * v; /* 1 / sqrt(n) */
        forms[3] = v * v / n; /* sqrt(n) */
        for (k = 0; k < 4; k++) {
            x = forms[k];
            if (x > 0.5 && x < (k < 2 ? MAX_NUMERATOR + 0.5 : 1.5) &&
                fabs(x - nearbyint(x)) <= x * 0x1p-21)
                return true;
        }
    }
    return false;
}

int64_t
symbol_guess(int64_t d)
{
    struct symbol_size size;

    return d >= SYMBOL_LEAST && symbol_parse(d, &size)
               ? size.a * primes[size.symbol] + size.b
               : d;
}

bool
symbol_bounds(const struct tensor_symbols *symbols, int64_t d, int64_t *out_min,
              int64_t *out_max)
{
    const struct tensor_symbol *s;
    struct symbol_size size;

    *out_min = *out_max = d;
    if (d < SYMBOL_LEAST && d > -SYMBOL_LEAST)
        return true;
    if (!symbol_parse(d, &size))
        return symbols->n == 0;
    if (size.symbol >= symbols->n)
        return false;
    s = &symbols->list[size.symbol];
    *out_min = size.a * (size.a > 0 ? s->min : s->max) + size.b;
    *out_max = size.a * (size.a > 0 ? s->max : s->min) + size.b;
    return true;
}

int64_t
symbol_now(const struct tensor_symbols *symbols, int64_t d)
{
    struct symbol_size size;

    if (!symbol_is(d) || !symbol_parse(d, &size) || size.symbol >= symbols->n)
        return d;
    return size.a * symbols->list[size.symbol].value + size.b;
}

/* What is of one symbol is known exactly; of two, each is taken at its
 * worst. */
bool
symbol_is_slice(const struct tensor_symbols *symbols, int64_t begin,
                int64_t length, int64_t size)
{
    int64_t min[3], max[3], least, most;

    if (!symbol_bounds(symbols, begin, &min[0], &max[0]) ||
        !symbol_bounds(symbols, length, &min[1], &max[1]) ||
        !symbol_bounds(symbols, size, &min[2], &max[2]))
        return false;
    if (min[0] < 0 || min[1] < symbol_is(length))
        return false;
    if (symbol_bounds(symbols, size - begin - length, &least, &most))
        return least >= 0;
    return max[0] + max[1] <= min[2];
}

uint64_t
symbol_numel(const struct tensor_symbols *symbols, const int64_t *d, uint32_t n)
{
    int64_t now[TN_MAX_RANK];
    uint32_t i;

    assert(n <= TN_MAX_RANK);
    for (i = 0; i < n; i++)
        now[i] = symbol_now(symbols, d[i]);
    return (uint64_t)tn_product(now, n);
}

void
symbol_print(const struct tensor_symbols *symbols, int64_t d, char *text,
             size_t size_bytes)
{
    struct symbol_size size;
    const char *name;
    size_t at = 0;

    if (!symbol_is(d) || !symbol_parse(d, &size)) {
        snprintf(text, size_bytes, "%" PRId64, d);
        return;
    }
    name = symbols && size.symbol < symbols->n ? symbols->list[size.symbol].name
                                               : "a symbol";
    if (size.a != 1)
        at = (size_t)snprintf(text, size_bytes, "%" PRId64 "*", size.a);
    at += (size_t)snprintf(text + at, size_bytes - at, "%s", name);
    if (size.b && at < size_bytes)
        snprintf(text + at, size_bytes - at, "%+" PRId64, size.b);
}

/* ---- the calls ---- */

int64_t
bell_symbol(struct bell_context *ctx, const char *name, int64_t min,
            int64_t max)
{
    struct tensor_symbols *all;
    struct tensor_symbol *s;

    if (!tensor_context_check(__func__, ctx))
        return -1;
    all = &ctx->symbols;
    if (min < 0 || max < min || max > BELL_MAX_SYMBOL) {
        tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                    "bounds %" PRId64 " and %" PRId64
                    "; 0 to %d are possible, in this order",
                    min, max, BELL_MAX_SYMBOL);
        return -1;
    }
    if (all->n == BELL_MAX_SYMBOLS) {
        tensor_fail(ctx, __func__, BELL_BAD_STATE,
                    "the context has %d symbols, the most there can be",
                    BELL_MAX_SYMBOLS);
        return -1;
    }
    s = &all->list[all->n];
    *s = (struct tensor_symbol){.min = min, .max = max, .value = min};
    snprintf(s->name, sizeof(s->name), "%s", name ? name : "n");
    return symbol_number(all->n++);
}

bell_status
bell_symbol_set(struct bell_context *ctx, int64_t symbol, int64_t value)
{
    struct symbol_size size;
    struct tensor_symbol *s;

    BELL_TRY(tensor_context_usable(__func__, ctx));
    BELL_TRY(tensor_report(ctx));
    if (!symbol_parse(symbol, &size) || size.a != 1 || size.b != 0 ||
        size.symbol >= ctx->symbols.n)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_symbol_set: %" PRId64
                         " is not a symbol of this context",
                         symbol);
    s = &ctx->symbols.list[size.symbol];
    if (value < s->min || value > s->max)
        return bell_fail(BELL_BAD_VALUE,
                         "bell_symbol_set: %s = %" PRId64
                         "; it was declared from %" PRId64 " to %" PRId64,
                         s->name, value, s->min, s->max);
    if (ctx->trace)
        return bell_fail(BELL_BAD_STATE,
                         "bell_symbol_set: %s in a function that is captured: "
                         "set it before the call",
                         s->name);
    s->value = value;
    return BELL_OK;
}

int64_t
bell_symbol_value(struct bell_context *ctx, int64_t size)
{
    int64_t min, max;

    if (!tensor_context_check(__func__, ctx))
        return -1;
    if (!symbol_bounds(&ctx->symbols, size, &min, &max)) {
        tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                    "%" PRId64 " is not a size of this context", size);
        return -1;
    }
    if (ctx->trace && min != max) {
        tensor_fail(ctx, __func__, BELL_BAD_STATE,
                    "in a function that is captured, which is for all values: "
                    "bell_symbol_tensor gives it as a tensor");
        return -1;
    }
    return symbol_now(&ctx->symbols, size);
}

/* That of 0, 1, .. which stands there: where a slice begins is an argument, and
 * nothing is stored. */
const struct uop *
tn_count(struct bell_context *ctx, int64_t size)
{
    const struct uop *u;
    int64_t min, max;

    if (!symbol_is(size))
        return tn_int(ctx, UOP_I64, size);
    if (!symbol_bounds(&ctx->symbols, size, &min, &max))
        return &uop_failed;
    u = tn_iota(ctx, 1, 0, max + 1, UOP_I64);
    return tn_squeeze(ctx, tn_shrink_axis(ctx, u, 0, size, size + 1), 1);
}

struct bell_tensor *
bell_symbol_tensor(struct bell_context *ctx, int64_t size)
{
    int64_t min, max;

    if (!tensor_context_check(__func__, ctx))
        return NULL;
    if (!symbol_bounds(&ctx->symbols, size, &min, &max) || min < 0)
        return tensor_fail(ctx, __func__, BELL_BAD_VALUE,
                           "%" PRId64 " is not a size of this context", size);
    return tensor_new(ctx, __func__, tn_count(ctx, size));
}
