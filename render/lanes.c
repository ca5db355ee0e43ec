/* The order in which lanes are joined to one. */
#include <assert.h>

#include "base/bits.h"
#include "render/render_internal.h"

void
render_join(uint32_t lanes, uint32_t step, uint32_t *out_to, uint32_t *out_from)
{
    uint32_t half = 1u << log2_floor(lanes);

    assert(step + 1 < lanes);
    if (step >= half - 1) {
        *out_to = 0;
        *out_from = step + 1;
        return;
    }
    for (half /= 2; step >= half; half /= 2)
        step -= half;
    *out_to = step;
    *out_from = half + step;
}
