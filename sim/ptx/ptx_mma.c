/* Matrix instructions. src: docs/hardware/nvidia-code.md, "Matrix fragments":
 * in all of mma's shapes, with g = lane / 4, t = lane % 4 and p elements in a
 * register,
 *   A, register r, element e: row g + 8 (r & 1), k = p t + e + 4p (r / 2)
 *   B:                        k = p t + e + 4p r, column g
 *   C, D, element 2r + e:     row g + 8 r, column 2t + e
 *
 * Products are exact and summed in F64, then rounded once to D's type. The
 * hardware rounds more often, in ways that are not told. F64 is summed with
 * fma in order of k. */
#include "sim/ptx/ptx_exec.h"

#include <assert.h>
#include <string.h>

#include "sim/ptx/ptx_rows.h"

struct matrices {
    double a[16][PX_MAX_K], b[PX_MAX_K][8], c[16][8];
    uint32_t k;
};

/* The elements of a register, of all lanes. */
typedef double elements[4][PX_LANES];

/* ---- fragments ---- */

static unsigned
element_bits(unsigned type)
{
    assert(type < PX_TYPE_COUNT);
    return type == PX_TF32 ? 32 : px_types[type].bits;
}

/* Elements in a register. */
static unsigned
per_register(unsigned type)
{
    unsigned bits = element_bits(type);

    return bits < 32 ? 32 / bits : 1;
}

static double
element(unsigned type, uint64_t v)
{
    if (type == PX_S8)
        return (double)px_sign_extend(v, 8);
    if (type == PX_U8)
        return (double)v;
    if (type == PX_S32)
        return (double)px_sign_extend(v, 32);
    return px_decode(type, v);
}

static void
to_doubles(const uint32_t *row, double *out)
{
    uint32_t lane;
    float f;

    for (lane = 0; lane < PX_LANES; lane++) {
        memcpy(&f, &row[lane], sizeof(f));
        out[lane] = (double)f;
    }
}

/* F16 and BF16, which most are, in rows; `convert` gives F32. */
static void
unpack_halves(px_rows_fn convert, const uint32_t *row, elements out)
{
    uint32_t lane, e;
    px_row half, word;

    for (e = 0; e < 2; e++) {
        for (lane = 0; lane < PX_LANES; lane++)
            half[lane] = row[lane] >> 16 * e & 0xffff;
        convert(word, half, NULL, NULL);
        to_doubles(word, out[e]);
    }
}

/* False after a fault. */
static bool
mma_unpack(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
           struct px_ref ref, unsigned type, elements out)
{
    const void *row = px_read(r, w, in, ref, PX_FULL);
    unsigned bits = element_bits(type), p = per_register(type), e;
    uint32_t lane;

    if (!row)
        return false;
    if (type == PX_F32) {
        to_doubles(row, out[0]);
        return true;
    }
    if (type == in->type && in->rows) {
        unpack_halves(in->rows, row, out);
        return true;
    }
    for (lane = 0; lane < PX_LANES; lane++) {
        uint64_t v = px_get(row, ref.bits, lane);
        for (e = 0; e < p; e++)
            out[e][lane] = element(type, v >> e * (bits & 31) & px_mask(bits));
    }
    return true;
}

static bool
gather_a(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
         const struct px_ref *refs, struct matrices *m)
{
    unsigned n = in->mod[PX_MOD_MODE], p = per_register(in->type), i, e;
    elements x;
    uint32_t lane;

    for (i = 0; i < n; i++) {
        if (!mma_unpack(r, w, in, refs[i], in->type, x))
            return false;
        for (lane = 0; lane < PX_LANES; lane++) {
            uint32_t g = lane / 4 + 8 * (i & 1), t = lane % 4;
            for (e = 0; e < p; e++)
                m->a[g][p * t + e + 4 * p * (i / 2)] = x[e][lane];
        }
    }
    /* m8n8k4 has half the rows */
    m->k = n == 1 ? 4 * p : 2 * n * p;
    return true;
}

static bool
gather_b(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
         const struct px_ref *refs, struct matrices *m)
{
    unsigned n = in->mod[PX_MOD_WRAP], p = per_register(in->type2), i, e;
    elements x;
    uint32_t lane;

    for (i = 0; i < n; i++) {
        if (!mma_unpack(r, w, in, refs[i], in->type2, x))
            return false;
        for (lane = 0; lane < PX_LANES; lane++) {
            for (e = 0; e < p; e++)
                m->b[p * (lane % 4) + e + 4 * p * i][lane / 4] = x[e][lane];
        }
    }
    return true;
}

static bool
gather_c(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
         const struct px_ref *refs, struct matrices *m)
{
    unsigned n = in->mod[PX_MOD_VEC], type = in->mod[PX_MOD_TYPE], i, e, at;
    unsigned p = per_register(type);
    elements x;
    uint32_t lane;

    for (i = 0; i < n; i++) {
        if (!mma_unpack(r, w, in, refs[i], type, x))
            return false;
        for (lane = 0; lane < PX_LANES; lane++) {
            for (e = 0; e < p; e++) {
                at = i * p + e;
                m->c[lane / 4 + 8 * (at / 2)][lane % 4 * 2 + at % 2] =
                    x[e][lane];
            }
        }
    }
    return true;
}

/* ---- the product ---- */

static uint64_t
result(const struct px_insn *in, double d)
{
    unsigned type = in->mod[PX_MOD_TYPE];
    uint32_t bits;
    float f;
    int64_t i;

    if (type == PX_F32) {
        f = (float)d;
        memcpy(&bits, &f, sizeof(bits));
        return f != f ? 0x7fffffffu : bits;
    }
    if (type != PX_S32)
        return px_encode(type, d);
    i = (int64_t)d;
    if (in->mod[PX_MOD_SAT])
        i = i > INT32_MAX ? INT32_MAX : i < INT32_MIN ? INT32_MIN : i;
    return (uint32_t)i;
}

static void
scatter_d(const struct px_run *r, struct px_warp *w, const struct px_insn *in,
          const struct matrices *m)
{
    unsigned n = in->mod[PX_MOD_VEC], i, e, at;
    unsigned p = per_register(in->mod[PX_MOD_TYPE]);
    const struct px_ref *refs = px_operands(r, in);
    uint32_t lane;

    for (i = 0; i < n; i++) {
        void *row = px_write(w, refs[i], PX_FULL);
        for (lane = 0; lane < PX_LANES; lane++) {
            uint64_t v = 0;
            for (e = 0; e < p; e++) {
                at = i * p + e;
                v |=
                    result(in,
                           m->c[lane / 4 + 8 * (at / 2)][lane % 4 * 2 + at % 2])
                    << e * 16;
            }
            px_set(row, refs[i].bits, lane, v);
        }
    }
}

static void
do_mma(struct px_run *r, struct px_warp *w, const struct px_insn *in)
{
    const struct px_ref *a = px_operands(r, in) + in->mod[PX_MOD_VEC];
    const struct px_ref *b = a + in->mod[PX_MOD_MODE];
    const struct px_ref *c = b + in->mod[PX_MOD_WRAP];
    struct matrices m;

    assert(in->op == PX_MMA);
    memset(&m, 0, sizeof(m));
    if (!gather_a(r, w, in, a, &m) || !gather_b(r, w, in, b, &m) ||
        !gather_c(r, w, in, c, &m))
        return;
    if (r->counts)
        px_count_matrix(r->counts, in->type,
                        2.0 * 8 * m.k * (in->mod[PX_MOD_MODE] == 1 ? 8 : 16));
    px_row_set()->multiply(m.c[0], m.a[0], m.b[0], m.k, in->type == PX_F64);
    scatter_d(r, w, in, &m);
}

/* ---- ldmatrix, stmatrix ---- */

/* Row addresses: lane 8 j + i gives row i of matrix j. */
static bool
row_pointers(struct px_run *r, struct px_warp *w, const struct px_insn *in,
             uint8_t *out[PX_LANES])
{
    uint64_t addr[PX_LANES];
    struct px_span s = {.w = w,
                        .in = in,
                        .mask = (uint32_t)px_mask(8u * in->n_vec),
                        .n_bytes = 16,
                        .space = in->mod[PX_MOD_SPACE],
                        .is_write = in->op == PX_STMATRIX,
                        .is_judged = true};

    return px_addresses(r, &s, in->src[0], in->offset, addr) &&
           px_resolve(r, &s, addr, out);
}

static void
do_ldmatrix(struct px_run *r, struct px_warp *w, const struct px_insn *in)
{
    const struct px_ref *refs = px_operands(r, in);
    bool trans = in->mod[PX_MOD_WRAP];
    uint16_t m[4][8][8];
    uint8_t *ptr[PX_LANES];
    uint32_t lane, j, g, t;

    assert(in->op == PX_LDMATRIX);
    if (!row_pointers(r, w, in, ptr))
        return;
    for (lane = 0; lane < 8u * in->n_vec; lane++)
        memcpy(m[lane / 8][lane % 8], ptr[lane], 16);
    for (j = 0; j < in->n_vec; j++) {
        uint32_t *row = px_write(w, refs[j], PX_FULL);
        for (lane = 0; lane < PX_LANES; lane++) {
            g = lane / 4;
            t = lane % 4 * 2;
            row[lane] = trans ? m[j][t][g] | (uint32_t)m[j][t + 1][g] << 16
                              : m[j][g][t] | (uint32_t)m[j][g][t + 1] << 16;
        }
    }
}

static void
do_stmatrix(struct px_run *r, struct px_warp *w, const struct px_insn *in)
{
    const struct px_ref *refs = px_operands(r, in);
    bool trans = in->mod[PX_MOD_WRAP];
    uint16_t m[4][8][8];
    uint8_t *ptr[PX_LANES];
    uint32_t lane, j, g, t;

    assert(in->op == PX_STMATRIX);
    for (j = 0; j < in->n_vec; j++) {
        const uint32_t *row = px_read(r, w, in, refs[j], PX_FULL);
        if (!row)
            return;
        for (lane = 0; lane < PX_LANES; lane++) {
            g = lane / 4;
            t = lane % 4 * 2;
            *(trans ? &m[j][t][g] : &m[j][g][t]) = (uint16_t)row[lane];
            *(trans ? &m[j][t + 1][g] : &m[j][g][t + 1]) =
                (uint16_t)(row[lane] >> 16);
        }
    }
    if (!row_pointers(r, w, in, ptr))
        return;
    for (lane = 0; lane < 8u * in->n_vec; lane++)
        memcpy(ptr[lane], m[lane / 8][lane % 8], 16);
}

void
px_do_matrix(struct px_run *r, struct px_warp *w, const struct px_insn *in)
{
    if (in->op == PX_MMA)
        do_mma(r, w, in);
    else if (in->op == PX_LDMATRIX)
        do_ldmatrix(r, w, in);
    else
        do_stmatrix(r, w, in);
}
