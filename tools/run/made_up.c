/* Made-up values, in every dtype that a bundle may have. */
#include "tools/run/made_up.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

/* A float's layout: 1 sign bit, exponent, mantissa. */
struct layout {
    enum bell_dtype dtype;
    uint8_t n_mantissa;
    uint16_t bias;
};

static const struct layout layouts[] = {
    {BELL_FLOAT16, 10, 15},       {BELL_BFLOAT16, 7, 127},
    {BELL_FLOAT32, 23, 127},      {BELL_FLOAT64, 52, 1023},
    {BELL_FLOAT8_E4M3FN, 3, 7},   {BELL_FLOAT8_E5M2, 2, 15},
    {BELL_FLOAT8_E4M3FNUZ, 3, 8}, {BELL_FLOAT8_E5M2FNUZ, 2, 16},
};

/* Constants of MMIX, by Knuth; its high bits are used. */
static uint64_t
next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state;
}

/* k / 2^(n_mantissa + 1) as a float, of as many random bits: normal and exact
 * in every layout. */
static uint64_t
make_float(const struct layout *layout, uint64_t random)
{
    uint32_t n = layout->n_mantissa, top;
    uint64_t k = random >> (63 - n);

    if (!k)
        return 0;
    top = log2_floor(k);
    return ((uint64_t)(layout->bias + top - (n + 1)) << n) |
           ((k << (n - top)) & ((1ull << n) - 1));
}

bell_status
made_up_fill(struct host_array *array)
{
    const struct layout *layout = NULL;
    size_t size_bytes = bell_dtype_size(array->dtype), i;
    uint64_t state = 1, bits, k;
    uint8_t *at;

    array->data = at = host_alloc(array->size_bytes + 1);
    if (!at)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu bytes",
                         array->size_bytes);
    for (i = 0; i < ARRAY_LEN(layouts); i++) {
        if (layouts[i].dtype == array->dtype)
            layout = &layouts[i];
    }
    for (k = 0; k < array->n_elems; k++, at += size_bytes) {
        bits = next_random(&state);
        if (layout)
            bits = make_float(layout, bits);
        else if (array->dtype == BELL_BOOL)
            bits >>= 63;
        else
            bits = (bits >> 32) % 10;
        memcpy(at, &bits, size_bytes); /* little endian */
    }
    return BELL_OK;
}
