/* Matrix instructions. src: hw/nv/PTX.md section 7: in all of mma's shapes,
 * with g = lane / 4, t = lane % 4 and p elements in a register,
 *   A, register r, element e: row g + 8 (r & 1), k = p t + e + 4p (r / 2)
 *   B:                        k = p t + e + 4p r, column g
 *   C, D, element 2r + e:     row g + 8 r, column 2t + e
 *
 * Products are exact and summed in F64, then rounded once to D's type. The
 * hardware rounds more often, in ways that are not told. F64 is summed with
 * fma in order of k. */
#include "sim/nv/ptx_exec.h"

#include <math.h>
#include <string.h>

#define MAX_K 32

struct matrices {
    double a[16][MAX_K], b[MAX_K][8], c[16][8];
    uint32_t k;
};

/* ---- fragments ---- */

static unsigned
element_bits(unsigned type)
{
    return type == PX_TF32 ? 32 : px_types[type].bits;
}

static double
element(unsigned type, uint64_t reg, unsigned e)
{
    unsigned bits = element_bits(type);
    uint64_t v = bits == 64 ? reg : reg >> e * bits & px_mask(bits);

    if (type == PX_S8)
        return (double)px_sign_extend(v, 8);
    if (type == PX_U8)
        return (double)v;
    if (type == PX_S32)
        return (double)px_sign_extend(v, 32);
    return px_decode(type, v);
}

static bool
gather_a(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
         const struct px_ref *refs, struct matrices *m)
{
    unsigned n = in->mod[PX_MOD_MODE], p, i, e;
    uint32_t lane;

    p = px_types[in->type].bits == 64 ? 1 : 32 / element_bits(in->type);
    for (i = 0; i < n; i++) {
        const void *row = px_read(r, w, in, refs[i], PX_FULL);
        if (!row)
            return false;
        for (lane = 0; lane < PX_LANES; lane++) {
            uint64_t v = px_get(row, refs[i].bits, lane);
            uint32_t g = lane / 4 + 8 * (i & 1), t = lane % 4;
            for (e = 0; e < p; e++)
                m->a[g][p * t + e + 4 * p * (i / 2)] = element(in->type, v, e);
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
    unsigned n = in->mod[PX_MOD_WRAP], p, i, e;
    uint32_t lane;

    p = px_types[in->type2].bits == 64 ? 1 : 32 / element_bits(in->type2);
    for (i = 0; i < n; i++) {
        const void *row = px_read(r, w, in, refs[i], PX_FULL);
        if (!row)
            return false;
        for (lane = 0; lane < PX_LANES; lane++) {
            uint64_t v = px_get(row, refs[i].bits, lane);
            for (e = 0; e < p; e++)
                m->b[p * (lane % 4) + e + 4 * p * i][lane / 4] =
                    element(in->type2, v, e);
        }
    }
    return true;
}

/* Elements of C or D in a register: two of F16, else one. */
static unsigned
per_register(const struct px_insn *in)
{
    return in->mod[PX_MOD_TYPE] == PX_F16 ? 2 : 1;
}

static bool
gather_c(struct px_run *r, const struct px_warp *w, const struct px_insn *in,
         const struct px_ref *refs, struct matrices *m)
{
    unsigned n = in->mod[PX_MOD_VEC], p = per_register(in), i, e, at;
    uint32_t lane;

    for (i = 0; i < n; i++) {
        const void *row = px_read(r, w, in, refs[i], PX_FULL);
        if (!row)
            return false;
        for (lane = 0; lane < PX_LANES; lane++) {
            uint64_t v = px_get(row, refs[i].bits, lane);
            for (e = 0; e < p; e++) {
                at = i * p + e;
                m->c[lane / 4 + 8 * (at / 2)][lane % 4 * 2 + at % 2] =
                    element(in->mod[PX_MOD_TYPE], v, e);
            }
        }
    }
    return true;
}

/* ---- the product ---- */

static uint64_t
result(const struct px_insn *in, double d)
{
    int64_t i;

    if (in->mod[PX_MOD_TYPE] != PX_S32)
        return px_encode(in->mod[PX_MOD_TYPE], d);
    i = (int64_t)d;
    if (in->mod[PX_MOD_SAT])
        i = i > INT32_MAX ? INT32_MAX : i < INT32_MIN ? INT32_MIN : i;
    return (uint32_t)i;
}

static void
scatter_d(const struct px_run *r, struct px_warp *w, const struct px_insn *in,
          const struct matrices *m)
{
    unsigned n = in->mod[PX_MOD_VEC], p = per_register(in), i, e, at;
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
multiply(struct matrices *m, bool fused)
{
    uint32_t i, j, k;

    for (i = 0; i < 16; i++) {
        for (k = 0; k < m->k; k++) {
            double a = m->a[i][k];
            for (j = 0; j < 8; j++)
                m->c[i][j] = fused ? fma(a, m->b[k][j], m->c[i][j])
                                   : m->c[i][j] + a * m->b[k][j];
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

    memset(&m, 0, sizeof(m));
    if (!gather_a(r, w, in, a, &m) || !gather_b(r, w, in, b, &m) ||
        !gather_c(r, w, in, c, &m))
        return;
    multiply(&m, in->type == PX_F64);
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
