/* The loops of ptx_rows.inc for processors with AVX2 and FMA. */

#include "base/bits.h"
#include "sim/ptx/ptx_rows.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))),              \
                             apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define PX_ROW_SET px_rows_avx2
#define PX_ROW_FMA
#include "sim/ptx/ptx_rows.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
