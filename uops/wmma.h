/* Matrix instructions: what each thread has of the operands of a WMMA.
 *
 * The threads of a warp multiply an m x k matrix (A) by a k x n one (B) and
 * add an m x n one (C). Which elements a thread has, in the order of its
 * lanes, is the instruction's: its layout. src: docs/hardware/nvidia-code.md,
 * "Matrix fragments"; docs/hardware/amd-code.md, "Matrix fragments".
 */
#ifndef BELL_UOPS_WMMA_H
#define BELL_UOPS_WMMA_H

#include "uops/uop.h"

enum uop_wmma_layout {
    UOP_WMMA_NV,    /* mma.sync of 32 threads: m is 8 or 16, n 8 */
    UOP_WMMA_RDNA3, /* WMMA of 32 threads: 16 x 16 x 16 */
    UOP_WMMA_RDNA4, /* the same, without copies of A and B */
    UOP_WMMA_CDNA,  /* MFMA of 64 threads: 16 x 16 */
    UOP_WMMA_N_LAYOUTS
};

/* arg of WMMA. */
struct uop_wmma {
    enum uop_wmma_layout layout;
    uint32_t m, n, k; /* m and n at most 16, k 32 */
};

enum uop_wmma_operand {
    UOP_WMMA_A,
    UOP_WMMA_B,
    UOP_WMMA_C, /* and the result */
};

static inline int64_t
uop_wmma_arg(struct uop_wmma w)
{
    return (int64_t)w.layout << 24 | (int64_t)w.m << 16 | (int64_t)w.n << 8 |
           (int64_t)w.k;
}
static inline struct uop_wmma
uop_wmma_shape(int64_t arg)
{
    uint64_t a = (uint64_t)arg;

    return (struct uop_wmma){(enum uop_wmma_layout)(a >> 24 & 255),
                             (uint32_t)(a >> 16 & 255),
                             (uint32_t)(a >> 8 & 255), (uint32_t)(a & 255)};
}

/* dtype that products of elements of that dtype are added in: integers exactly,
 * modulo 2^32. */
static inline enum uop_dtype
uop_wmma_sum(enum uop_dtype dtype)
{
    if (dtype == UOP_F64)
        return UOP_F64;
    return uop_dtype_infos[dtype].is_float ? UOP_F32 : UOP_I32;
}

/* What an operand's dtype may be mixed with: all of the same family. */
static inline enum uop_dtype
uop_wmma_family(enum uop_dtype dtype)
{
    if (dtype == UOP_U8)
        return UOP_I8;
    if (dtype == UOP_F8E5M2)
        return UOP_F8E4M3;
    return dtype == UOP_F8E5M2Z ? UOP_F8E4M3Z : dtype;
}

/* May A be of the one dtype and B of the other? */
static inline bool
uop_wmma_mixes(enum uop_dtype a, enum uop_dtype b)
{
    return uop_wmma_family(a) == uop_wmma_family(b);
}

static inline uint32_t
uop_wmma_threads(struct uop_wmma w)
{
    return w.layout == UOP_WMMA_CDNA ? 64 : 32;
}

/* Elements that each thread has. */
static inline uint32_t
uop_wmma_lanes(struct uop_wmma w, enum uop_wmma_operand operand)
{
    uint32_t n = operand == UOP_WMMA_A   ? w.m * w.k
                 : operand == UOP_WMMA_B ? w.k * w.n
                                         : w.m * w.n;

    if (w.layout == UOP_WMMA_RDNA3 && operand != UOP_WMMA_C)
        n *= 2; /* each element is in two threads */
    return n / uop_wmma_threads(w);
}

/* NV: elements of A and B come in packs that fill 32 bits, side by side along
 * k: this many. */
static inline uint32_t
uop_wmma_pack(enum uop_dtype dtype)
{
    uint32_t bytes = uop_dtype_infos[dtype].size_bytes;

    return bytes < 4 ? 4 / bytes : 1;
}

/* In a 16 x 16 tile thread t has row t % 16 of A and column t % 16 of B: all of
 * their elements or, where threads share them, its t / 16th part. In C it has
 * elements of column t % 16. Is element e of it row e from the thread's first
 * on, rather than every so many? */
static inline bool
uop_wmma_rows_together(struct uop_wmma w, enum uop_dtype dtype)
{
    return w.layout == UOP_WMMA_RDNA4 ||
           (w.layout == UOP_WMMA_CDNA && dtype != UOP_F64);
}

static inline void
uop_wmma_place16(struct uop_wmma w, enum uop_dtype dtype,
                 enum uop_wmma_operand operand, uint32_t thread, uint32_t i,
                 uint32_t *out_row, uint32_t *out_col)
{
    uint32_t n = uop_wmma_lanes(w, operand), part = thread / 16,
             n_parts = uop_wmma_threads(w) / 16, along;

    if (operand == UOP_WMMA_C) {
        *out_row = uop_wmma_rows_together(w, dtype) ? n * part + i
                                                    : n_parts * i + part;
        *out_col = thread % 16;
        return;
    }
    along = w.layout == UOP_WMMA_RDNA3 ? i : n * part + i;
    *out_row = operand == UOP_WMMA_A ? thread % 16 : along;
    *out_col = operand == UOP_WMMA_A ? along : thread % 16;
}

/* With g = thread / 4, t = thread % 4 and p elements in a pack, pack r of A is
 * row g + 8 (r & 1) from column p t + 4 p (r / 2) on (of a matrix of 8 rows:
 * g, p t + 4 p r); of B column g from row p t + 4 p r on; elements 2r and
 * 2r + 1 of C are row g + 8 r from column 2t on. */
static inline void
uop_wmma_place_nv(struct uop_wmma w, enum uop_dtype dtype,
                  enum uop_wmma_operand operand, uint32_t thread, uint32_t i,
                  uint32_t *out_row, uint32_t *out_col)
{
    uint32_t g = thread / 4, t = thread % 4, p = uop_wmma_pack(dtype),
             r = i / p, halves = w.m / 8, along;

    if (operand == UOP_WMMA_C) {
        *out_row = g + 8 * (i / 2);
        *out_col = 2 * t + i % 2;
        return;
    }
    if (operand == UOP_WMMA_A) {
        *out_row = g + 8 * (r % halves);
        r /= halves;
    }
    along = p * t + i % p + 4 * p * r;
    if (operand == UOP_WMMA_A) {
        *out_col = along;
    } else {
        *out_row = along;
        *out_col = g;
    }
}

/* Row and column of element i of what a thread has. `dtype` is that of A and
 * B. The order along k need not be the hardware's where A and B agree. */
static inline void
uop_wmma_place(struct uop_wmma w, enum uop_dtype dtype,
               enum uop_wmma_operand operand, uint32_t thread, uint32_t i,
               uint32_t *out_row, uint32_t *out_col)
{
    if (w.layout == UOP_WMMA_NV)
        uop_wmma_place_nv(w, dtype, operand, thread, i, out_row, out_col);
    else
        uop_wmma_place16(w, dtype, operand, thread, i, out_row, out_col);
}

/* ---- WGMMA ---- */

/* The warps' numbers of a group are consecutive, the first a multiple of 4.
 * An ACC's lanes in thread l of warp w are, with g = l / 4 and t = l % 4, lane
 * 4 j + 2 h + p: row 16 (w % 4) + g + 8 h, column 8 j + 2 t + p.
 *
 * A tile of 128 bytes of steps or outputs has its elements in rows of 128
 * bytes, whose 16-byte parts are exchanged: part c of row r lies at c ^ r % 8.
 * Tiles begin at multiples of 1024 bytes, and so does A of each 64 rows.
 *   not turned: a row for each output, with all steps
 *   turned: a row for each step, with as many outputs as fill 128 bytes; those
 *           of all steps of the tile before those of the next outputs
 * Fewer steps, or outputs beyond a multiple of that, are the rows' first.
 * A that threads hold is, for each instruction's steps, what a thread of the
 * warp has of A of a WMMA of 16 rows and as many steps.
 * src: PTX ISA, wgmma: matrix descriptors and canonical layouts. */
struct uop_wgmma {
    uint32_t n;              /* columns, of all B: a multiple of 8 <= 256 */
    uint32_t k, pieces;      /* steps of an instruction, so many of them */
    bool a_turned, b_turned; /* steps are rows */
    bool sets; /* the ACC is the product: nothing is added to it */
};

#define UOP_WGMMA_ROW_BYTES 128u
#define UOP_WGMMA_ALIGN     1024u /* of LOCAL memory */
#define UOP_TMA_COPY_ROWS   256   /* that a TMA_COPY has at most */

static inline bool
uop_is_wgmma(const struct uop *u)
{
    return u->op == UOP_WGMMA || u->op == UOP_WGMMA_HELD;
}

static inline int64_t
uop_wgmma_arg(struct uop_wgmma w)
{
    return (int64_t)(w.n | w.k << 16 | w.pieces << 24) |
           (int64_t)w.a_turned << 32 | (int64_t)w.b_turned << 33 |
           (int64_t)w.sets << 34;
}
static inline struct uop_wgmma
uop_wgmma_shape(int64_t arg)
{
    uint64_t a = (uint64_t)arg;

    return (struct uop_wgmma){(uint32_t)(a & 0xffff),
                              (uint32_t)(a >> 16 & 255),
                              (uint32_t)(a >> 24 & 255),
                              a >> 32 & 1,
                              a >> 33 & 1,
                              a >> 34 & 1};
}

#endif
