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
};

static const struct form forms[] = {
    [FILE_Q4_0] = {1, false, false, true, false, 8, 1},
    [FILE_Q4_1] = {1, false, true, true, false, 0, 1},
    [FILE_Q5_0] = {1, false, false, false, false, 0, 0},
    [FILE_Q5_1] = {1, false, true, false, false, 0, 0},
    [FILE_Q8_0] = {1, false, false, false, false, 0, 0},
    [FILE_Q4_K] = {8, true, true, true, true, 0, 4},
    [FILE_Q5_K] = {8, true, true, false, true, 0, 0},
    [FILE_Q6_K] = {16, true, false, false, false, 0, 0},
};

/* What blocks are taken apart into; host memory. */
struct parts {
    uint16_t *d, *m; /* float16, by block */
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

/* Block number `at`, which begins at `b`. */
static void
take_block(enum file_type type, const uint8_t *b, size_t at,
           const struct parts *p)
{
    uint32_t j;

    memcpy(&p->d[at], b + (type == FILE_Q6_K ? 208 : 0), 2);
    if (forms[type].has_least)
        memcpy(&p->m[at], b + 2, 2);
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
    case FILE_Q6_K:
        memcpy(p->s + 16 * at, b + 192, 16);
        take_q6_k(b, b + 128, p->q + 256 * at);
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
         const uint16_t *of_block, const uint8_t *of_group)
{
    struct bell_tensor *x = as_float(
        bell_from_data(ctx, BELL_DIMS(n, 1, 1), BELL_FLOAT16, of_block));

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
    p->s = host_calloc(n + 1, form->n_groups);
    p->l = host_calloc(n + 1, form->n_groups);
    p->q = host_calloc(n + 1, form->has_nibbles ? n_elems / 2 : n_elems);
    return p->d && p->m && p->s && p->l && p->q;
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
        x = bell_mul(scale_of(ctx, (int64_t)n, form, p.d, p.s),
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
    host_free(p.s);
    host_free(p.l);
    host_free(p.q);
    return x;
}
