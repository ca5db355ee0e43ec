/* Sizes that stand for a * value + b of a symbol, as numbers among others.
 *
 * A symbol is a number far above any size, so that sums and multiples of it
 * are known for what they are (a, b, and which symbol); what is made of it
 * otherwise is neither that nor a size, and is refused. Functions take
 * tensors with such axes where they say so (tensor_takes_symbols); the others
 * compute with sizes, and refuse.
 */
#ifndef BELL_TENSOR_CORE_SYMBOL_H
#define BELL_TENSOR_CORE_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doorbell/symbol.h"

struct uop_dims;

struct tensor_symbols {
    struct tensor_symbol {
        char name[16];
        int64_t min, max, value;
    } list[BELL_MAX_SYMBOLS];
    uint32_t n;
};

/* a * value of the symbol + b; a is not 0. */
struct symbol_size {
    uint32_t symbol;
    int64_t a, b;
};

#define SYMBOL_LEAST ((int64_t)1 << 41) /* numbers below it are plain */

/* False: the number is none of a symbol. */
bool symbol_parse(int64_t d, struct symbol_size *out);
static inline bool
symbol_is(int64_t d)
{
    struct symbol_size size;

    return (d >= SYMBOL_LEAST || d <= -SYMBOL_LEAST) && symbol_parse(d, &size);
}
/* The number of a symbol. */
int64_t symbol_number(uint32_t symbol);
bool symbol_in(const int64_t *d, uint32_t n);
/* Whether the number is what C makes of one of the symbols as if it was a size:
 * c / n, n / c, sqrt(n), 1 / sqrt(n), for whole c up to 1024, log(n), log10(n)
 * or 1 / those, also in float32; log2(n) or 1 / that. Others are near it as
 * rarely as one of 2,000 of its magnitude. */
bool symbol_in_number(const struct tensor_symbols *symbols, double value);
/* Something that a symbol's size can be taken for in products: a prime for
 * it. */
int64_t symbol_guess(int64_t d);

/* The least and the greatest that the number can be; false: it is of a symbol
 * that there is none of, or made of symbols in a way that is not known. */
bool symbol_bounds(const struct tensor_symbols *symbols, int64_t d,
                   int64_t *out_min, int64_t *out_max);
/* What it is now; such a number is known. */
int64_t symbol_now(const struct tensor_symbols *symbols, int64_t d);
/* Are begin and length at least 0, a length of a symbol at least 1, and
 * begin + length at most size, for all values? */
bool symbol_is_slice(const struct tensor_symbols *symbols, int64_t begin,
                     int64_t length, int64_t size);
/* The product of what the sizes are now. */
uint64_t symbol_numel(const struct tensor_symbols *symbols, const int64_t *d,
                      uint32_t n);
/* "2*n + 1" into text. */
void symbol_print(const struct tensor_symbols *symbols, int64_t d, char *text,
                  size_t size_bytes);

#endif
