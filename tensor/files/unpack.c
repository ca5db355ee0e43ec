/* Weights in blocks: taken apart once into scales and small integers, which
 * are tensors; values are computed of them.
 *
 * A block of n elements has some groups, each with a scale and perhaps a least
 * value, and those have scales of the block:
 *
 *     value = (D * S[group]) * q - (M * L[group])
 *
 * src: ggml-common.h (what a block is) and ggml-quants.c's dequantize_row of
 * the ggml project, for what is where and in which order it is rounded.
 */
#include "tensor/files/files.h"

#include <string.h>

#include "base/alloc.h"
#include "tensor/core/tensor_internal.h"

/* How a type's blocks are. */
struct form {
    uint32_t n_groups; /* of a block */
    bool has_scales;   /* S; else 1 */
    bool has_least;    /* M; with has_scales L too */
    bool has_nibbles;  /* q are two to a byte, of neighbouring halves */
    bool is_unsigned;  /* S */
    int32_t zero;      /* what q counts from */
    uint32_t n_halves; /* runs of elements whose nibbles share bytes */
    uint32_t d_at;     /* where D begins in a block; M is behind it */
    bool is_power;     /* D is a power of two, as a byte */
};

static const struct form forms[] = {
    [FILE_Q4_0] = {1, false, false, true, false, 8, 1, 0, false},
    [FILE_Q4_1] = {1, false, true, true, false, 0, 1, 0, false},
    [FILE_Q5_0] = {1, false, false, false, false, 0, 0, 0, false},
    [FILE_Q5_1] = {1, false, true, false, false, 0, 0, 0, false},
    [FILE_Q8_0] = {1, false, false, false, false, 0, 0, 0, false},
    [FILE_Q2_K] = {16, true, true, false, true, 0, 0, 80, false},
    [FILE_Q3_K] = {16, true, false, false, false, 0, 0, 108, false},
    [FILE_Q4_K] = {8, true, true, true, true, 0, 4, 0, false},
    [FILE_Q5_K] = {8, true, true, false, true, 0, 0, 0, false},
    [FILE_Q6_K] = {16, true, false, false, false, 0, 0, 208, false},
    [FILE_IQ4_NL] = {1, false, false, false, false, 0, 0, 0, false},
    [FILE_IQ4_XS] = {8, true, false, false, false, 0, 0, 0, false},
    [FILE_TQ1_0] = {1, false, false, false, false, 0, 0, 52, false},
    [FILE_TQ2_0] = {1, false, false, false, false, 0, 0, 64, false},
    [FILE_MXFP4] = {1, false, false, false, false, 0, 0, 0, true},
};

/* Elements by 4 bits: not evenly spaced, and twice those of E2M1. */
static const int8_t spaced[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t fours[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                 0, -1, -2, -3, -4, -6, -8, -12};

/* What blocks are taken apart into; host memory. */
struct parts {
    uint16_t *d, *m; /* float16, by block */
    float *power;    /* in place of d, where it is_power */
    uint8_t *s, *l;  /* by group */
    uint8_t *q;      /* by element, or two */
};

/* 6-bit scale and least value of group j. */
static void
get_scale(const uint8_t *bytes, uint32_t j, uint8_t *scale, uint8_t *least)
{
    if (j < 4) {
        *scale = bytes[j] & 63;
        *least = bytes[j + 4] & 63;
    } else {
        *scale = (uint8_t)((bytes[j + 4] & 15) | bytes[j - 4] >> 6 << 4);
        *least = (uint8_t)(bytes[j + 4] >> 4 | bytes[j] >> 6 << 4);
    }
}

static void
take_q5(const uint8_t *high, const uint8_t *low, int zero, uint8_t *q)
{
    uint32_t bits, i;

    memcpy(&bits, high, 4);
    for (i = 0; i < 16; i++) {
        q[i] =
            (uint8_t)(((low[i] & 15) | (bits >> i & 1) << 4) - (uint32_t)zero);
        q[i + 16] = (uint8_t)((low[i] >> 4 | (bits >> (i + 16) & 1) << 4) -
                              (uint32_t)zero);
    }
}

static void
take_q5_k(const uint8_t *high, const uint8_t *low, uint8_t *q)
{
    uint32_t j, i;

    for (j = 0; j < 8; j++) {
        for (i = 0; i < 32; i++)
            q[32 * j + i] =
                (uint8_t)((low[j / 2 * 32 + i] >> (j % 2 * 4) & 15) |
                          (high[i] >> j & 1) << 4);
    }
}

static void
take_q6_k(const uint8_t *low, const uint8_t *high, uint8_t *q)
{
    uint32_t half, j, i;

    for (half = 0; half < 2; half++, low += 64, high += 32) {
        for (j = 0; j < 4; j++) {
            for (i = 0; i < 32; i++)
                *q++ = (uint8_t)(((low[j % 2 * 32 + i] >> (j / 2 * 4) & 15) |
                                  (high[i] >> 2 * j & 3) << 4) -
                                 32);
        }
    }
}

/* n bytes of 4 numbers of 2 bits, by runs of 32 elements. */
static void
take_2_bits(const uint8_t *bytes, uint32_t n, uint8_t *q)
{
    uint32_t i;

    for (i = 0; i < 4 * n; i++)
        q[i] = (uint8_t)(bytes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3);
}

static void
take_q3_k(const uint8_t *high, const uint8_t *scales, uint8_t *s, uint8_t *q)
{
    uint32_t i;

    for (i = 0; i < 16; i++)
        s[i] = (uint8_t)(((scales[i % 8] >> (i / 8 * 4) & 15) |
                          (scales[8 + i % 4] >> (i / 4 * 2) & 3) << 4) -
                         32);
    for (i = 0; i < 256; i++)
        q[i] = (uint8_t)(q[i] - (high[i % 32] >> (i / 32) & 1 ? 0 : 4));
}

/* n bytes in runs of 16: the low halves of a run's, then the high ones. */
static void
take_4_bits(const uint8_t *bytes, uint32_t n, const int8_t *values, uint8_t *q)
{
    uint32_t i;

    for (i = 0; i < 2 * n; i++)
        q[i] = (uint8_t)
            values[bytes[i / 32 * 16 + i % 16] >> (i / 16 % 2 * 4) & 15];
}

/* n bytes of up to 5 digits to the base 3, as fractions of 256: a digit of all
 * n, then the next one. */
static void
take_threes(const uint8_t *bytes, uint32_t n, uint32_t n_digits, uint8_t *q)
{
    static const uint8_t powers[] = {1, 3, 9, 27, 81};
    uint32_t i;

    for (i = 0; i < n * n_digits; i++) {
        uint8_t digit = (uint8_t)(bytes[i % n] * powers[i / n]);

        q[i] = (uint8_t)((digit * 3u >> 8) - 1u);
    }
}

static void
take_tq1_0(const uint8_t *b, uint8_t *q)
{
    take_threes(b, 32, 5, q);
    take_threes(b + 32, 16, 5, q + 160);
    take_threes(b + 48, 4, 4, q + 240);
}

static void
take_tq2_0(const uint8_t *b, uint8_t *q)
{
    uint32_t i;

    take_2_bits(b, 64, q);
    for (i = 0; i < 256; i++)
        q[i] = (uint8_t)(q[i] - 1);
}

static void
take_iq4_xs(const uint8_t *b, uint8_t *s, uint8_t *q)
{
    uint32_t high = b[2] | (uint32_t)b[3] << 8, i;

    for (i = 0; i < 8; i++)
        s[i] = (uint8_t)(((b[4 + i / 2] >> (i % 2 * 4) & 15) |
                          (high >> 2 * i & 3) << 4) -
                         32);
    take_4_bits(b + 8, 128, spaced, q);
}

/* Half of 2^(byte - 127), which may be subnormal. */
static float
half_power(uint8_t byte)
{
    uint32_t bits =
        byte < 2 ? (uint32_t)0x200000 << byte : (uint32_t)(byte - 1) << 23;
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Block number `at`, which begins at `b`. */
static void
take_block(enum file_type type, const uint8_t *b, size_t at,
           const struct parts *p)
{
    const struct form *form = &forms[type];
    uint32_t j;

    if (form->is_power)
        p->power[at] = half_power(b[0]);
    else
        memcpy(&p->d[at], b + form->d_at, 2);
    if (form->has_least)
        memcpy(&p->m[at], b + form->d_at + 2, 2);
    switch ((int)type) {
    case FILE_Q4_0:
        memcpy(p->q + 16 * at, b + 2, 16);
        break;
    case FILE_Q4_1:
        memcpy(p->q + 16 * at, b + 4, 16);
        break;
    case FILE_Q5_0:
        take_q5(b + 2, b + 6, 16, p->q + 32 * at);
        break;
    case FILE_Q5_1:
        take_q5(b + 4, b + 8, 0, p->q + 32 * at);
        break;
    case FILE_Q8_0:
        memcpy(p->q + 32 * at, b + 2, 32);
        break;
    case FILE_Q2_K:
        for (j = 0; j < 16; j++) {
            p->s[16 * at + j] = b[j] & 15;
            p->l[16 * at + j] = b[j] >> 4;
        }
        take_2_bits(b + 16, 64, p->q + 256 * at);
        break;
    case FILE_Q3_K:
        take_2_bits(b + 32, 64, p->q + 256 * at);
        take_q3_k(b, b + 96, p->s + 16 * at, p->q + 256 * at);
        break;
    case FILE_Q6_K:
        memcpy(p->s + 16 * at, b + 192, 16);
        take_q6_k(b, b + 128, p->q + 256 * at);
        break;
    case FILE_IQ4_NL:
        take_4_bits(b + 2, 16, spaced, p->q + 32 * at);
        break;
    case FILE_IQ4_XS:
        take_iq4_xs(b, p->s + 8 * at, p->q + 256 * at);
        break;
    case FILE_TQ1_0:
        take_tq1_0(b, p->q + 256 * at);
        break;
    case FILE_TQ2_0:
        take_tq2_0(b, p->q + 256 * at);
        break;
    case FILE_MXFP4:
        take_4_bits(b + 1, 16, fours, p->q + 32 * at);
        break;
    default: /* Q4_K, Q5_K */
        for (j = 0; j < 8; j++)
            get_scale(b + 4, j, &p->s[8 * at + j], &p->l[8 * at + j]);
        if (type == FILE_Q4_K)
            memcpy(p->q + 128 * at, b + 16, 128);
        else
            take_q5_k(b + 16, b + 48, p->q + 256 * at);
    }
}

/* ---- values ---- */

static struct bell_tensor *
as_float(struct bell_tensor *x)
{
    return bell_cast(x, BELL_FLOAT32);
}

/* A number for each group: (blocks, groups, 1), of one for each block and,
 * where there are such, one for each group. */
static struct bell_tensor *
scale_of(struct bell_context *ctx, int64_t n, const struct form *form,
         const void *of_block, const uint8_t *of_group)
{
    struct bell_tensor *x = as_float(
        bell_from_data(ctx, BELL_DIMS(n, 1, 1),
                       form->is_power ? BELL_FLOAT32 : BELL_FLOAT16, of_block));

    if (!form->has_scales)
        return x;
    return bell_mul(
        x, as_float(bell_from_data(ctx, BELL_DIMS(n, form->n_groups, 1),
                                   form->is_unsigned ? BELL_UINT8 : BELL_INT8,
                                   of_group)));
}

/* The small integers, as (blocks, groups, elements). */
static struct bell_tensor *
integers_of(struct bell_context *ctx, int64_t n, const struct form *form,
            int64_t n_elems, const uint8_t *q)
{
    int64_t run = form->n_halves ? n_elems / 2 / form->n_halves : 0;
    struct bell_tensor *x, *shift;

    if (!form->has_nibbles) {
        x = bell_from_data(ctx, BELL_DIMS(n, n_elems), BELL_INT8, q);
    } else {
        x = bell_from_data(ctx, BELL_DIMS(n, form->n_halves, 1, run),
                           BELL_UINT8, q);
        shift = bell_mul(bell_arange(ctx, 0, 2, 1, BELL_INT32),
                         bell_scalar_int(ctx, 4));
        x = bell_rshift(bell_cast(x, BELL_INT32),
                        bell_reshape(shift, BELL_DIMS(2, 1)));
        x = bell_bitwise_and(x, bell_scalar_int(ctx, 15));
        x = bell_sub(x, bell_scalar_int(ctx, form->zero));
    }
    x = bell_reshape(x, BELL_DIMS(n, form->n_groups, n_elems / form->n_groups));
    return as_float(x);
}

static bool
alloc_parts(const struct form *form, size_t n, uint32_t n_elems,
            struct parts *p)
{
    p->d = host_calloc(n + 1, sizeof(*p->d));
    p->m = host_calloc(n + 1, sizeof(*p->m));
    p->power = host_calloc(form->is_power ? n + 1 : 1, sizeof(*p->power));
    p->s = host_calloc(n + 1, form->n_groups);
    p->l = host_calloc(n + 1, form->n_groups);
    p->q = host_calloc(n + 1, form->has_nibbles ? n_elems / 2 : n_elems);
    return p->d && p->m && p->power && p->s && p->l && p->q;
}

struct bell_tensor *
file_unpack(struct bell_context *ctx, const struct file_tensor *tensor)
{
    const struct bell_file_entry *entry = &tensor->entry;
    const struct file_type_info *info = tensor->info;
    const struct form *form = &forms[info->type];
    size_t n = entry->size_bytes / info->n_bytes, i;
    struct parts p = {0};
    struct bell_tensor *x;

    if (alloc_parts(form, n, info->n_elems, &p)) {
        for (i = 0; i < n; i++)
            take_block(info->type, tensor->data + i * info->n_bytes, i, &p);
        x = bell_mul(scale_of(ctx, (int64_t)n, form,
                              form->is_power ? (const void *)p.power : p.d,
                              p.s),
                     integers_of(ctx, (int64_t)n, form, info->n_elems, p.q));
        if (form->has_least)
            x = form->has_scales
                    ? bell_sub(x, scale_of(ctx, (int64_t)n, form, p.m, p.l))
                    : bell_add(x, scale_of(ctx, (int64_t)n, form, p.m, p.l));
        x = bell_reshape(x, entry->shape, entry->ndim);
        if (!(tensor_at(x)->flags & TENSOR_ERROR))
            tensor_at(x)->flags |= TENSOR_PACKED;
    } else {
        x = tensor_fail(ctx, "bell_file_tensor", BELL_E_NO_MEMORY,
                        "out of memory for %zu blocks of '%.80s'", n,
                        entry->name);
    }
    host_free(p.d);
    host_free(p.m);
    host_free(p.power);
    host_free(p.s);
    host_free(p.l);
    host_free(p.q);
    return x;
}
