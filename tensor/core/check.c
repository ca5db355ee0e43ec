/* Indices and classes that are out of range.
 *
 * They are found where they are known on the host: numbers, and data that a
 * tensor was made of, whose least and greatest are kept with its memory.
 * Others are found where BELL_CHECK=index asks for it: then each call that is
 * given indices computes their least and greatest first, and waits.
 */
#include <string.h>

#include "base/env.h"
#include "tensor/core/node.h"

/* So much data is looked through when it comes. */
#define RANGE_ELEMS ((uint64_t)1 << 20)

bell_status
tensor_check_init(struct bell_context *ctx)
{
    const char *text = env_get("BELL_CHECK");

    if (!text || !*text)
        return BELL_OK;
    if (strcmp(text, "index") != 0)
        return bell_fail(BELL_BAD_NAME,
                         "BELL_CHECK: '%s' is not known, but index is", text);
    ctx->checks_index = true;
    return BELL_OK;
}

/* Least and greatest of n > 0 elements from data, which need not be aligned.
 * RANGE_LANES stand beside each other: a fixed number, which the compiler
 * makes vectors of; the last of them begin early enough to be whole. */
#define RANGE_LANES 64
#define RANGE_OF(NAME, TYPE)                                                   \
    static void NAME(const uint8_t *data, uint64_t n, int64_t *out_low,        \
                     int64_t *out_high)                                        \
    {                                                                          \
        TYPE low[RANGE_LANES], high[RANGE_LANES], v[RANGE_LANES];              \
        uint64_t lanes = n < RANGE_LANES ? n : RANGE_LANES, i, at;             \
        int k;                                                                 \
                                                                               \
        for (k = 0; k < RANGE_LANES; k++) {                                    \
            memcpy(&v[k], data + (uint64_t)k % lanes * sizeof(TYPE),           \
                   sizeof(TYPE));                                              \
            low[k] = high[k] = v[k];                                           \
        }                                                                      \
        for (i = RANGE_LANES; i < n; i += RANGE_LANES) {                       \
            at = i + RANGE_LANES <= n ? i : n - RANGE_LANES;                   \
            memcpy(v, data + at * sizeof(TYPE), sizeof(v));                    \
            for (k = 0; k < RANGE_LANES; k++) {                                \
                low[k] = v[k] < low[k] ? v[k] : low[k];                        \
                high[k] = v[k] > high[k] ? v[k] : high[k];                     \
            }                                                                  \
        }                                                                      \
        *out_low = low[0];                                                     \
        *out_high = high[0];                                                   \
        for (k = 1; k < RANGE_LANES; k++) {                                    \
            *out_low = low[k] < *out_low ? low[k] : *out_low;                  \
            *out_high = high[k] > *out_high ? high[k] : *out_high;             \
        }                                                                      \
    }
RANGE_OF(range_of_i8, int8_t)
RANGE_OF(range_of_u8, uint8_t)
RANGE_OF(range_of_i16, int16_t)
RANGE_OF(range_of_u16, uint16_t)
RANGE_OF(range_of_i32, int32_t)
RANGE_OF(range_of_u32, uint32_t)
RANGE_OF(range_of_i64, int64_t)

void
tensor_note_range(struct tensor_buffer *buf, const void *data)
{
    static void (*const range_of[UOP_DTYPE_COUNT])(const uint8_t *, uint64_t,
                                                   int64_t *, int64_t *) = {
        [UOP_I8] = range_of_i8,   [UOP_U8] = range_of_u8,
        [UOP_I16] = range_of_i16, [UOP_U16] = range_of_u16,
        [UOP_I32] = range_of_i32, [UOP_U32] = range_of_u32,
        [UOP_I64] = range_of_i64,
    };

    if (!range_of[buf->dtype] || buf->n_elems == 0 ||
        buf->n_elems > RANGE_ELEMS)
        return;
    range_of[buf->dtype](data, buf->n_elems, &buf->low, &buf->high);
    buf->has_range = true;
}

void
tensor_forget_range(struct tensor_buffer *buf)
{
    buf->has_range = false;
}

/* The least and greatest of what u is made of, if it is known on the host. */
static bool
known_range(const struct uop *u, int64_t *out_low, int64_t *out_high)
{
    const struct tensor_buffer *buf;

    while (u->op == UOP_RESHAPE || u->op == UOP_EXPAND ||
           u->op == UOP_PERMUTE || u->op == UOP_FLIP ||
           u->op == UOP_CONTIGUOUS || u->op == UOP_DETACH ||
           u->op == UOP_LAYOUT ||
           (u->op == UOP_CAST && u->dtype == UOP_I64 &&
            uop_dtype_infos[u->src[0]->dtype].is_int))
        u = u->src[0];
    if (u->op == UOP_CONST && uop_dtype_infos[u->dtype].is_int) {
        *out_low = *out_high = u->arg.i;
        return u->dtype != UOP_U64;
    }
    if (u->op != UOP_BUFFER)
        return false;
    buf = u->arg.data;
    *out_low = buf->low;
    *out_high = buf->high;
    return buf->has_range;
}

/* Computes and reads them; `ignored` ones count as 0. A safe point. */
static bell_status
read_range(const char *call, struct bell_tensor *index, int64_t ignored,
           int64_t *out_low, int64_t *out_high)
{
    struct bell_context *ctx = tensor_at(index)->ctx;
    const struct uop *u = tn_cast(ctx, tensor_node(index), UOP_I64);
    uint32_t mask = (uint32_t)((1ull << tn_rank(ctx, u)) - 1), i;
    struct bell_tensor *both[2];
    int64_t ends[2] = {0, 0};
    bell_status status;

    u = tn_where(ctx, tn_eq(ctx, u, tn_int(ctx, UOP_I64, ignored)),
                 tn_int(ctx, UOP_I64, 0), u);
    both[0] = tensor_new(ctx, call, tn_reduce(ctx, UOP_MIN, u, mask));
    both[1] = tensor_new(ctx, call, tn_reduce(ctx, UOP_MAX, u, mask));
    status = tensor_realize_list(call, both, 2);
    for (i = 0; i < 2; i++) {
        if (status == BELL_OK)
            status = bell_item_i64(both[i], &ends[i]);
        bell_tensor_release(both[i]);
    }
    *out_low = ends[0];
    *out_high = ends[1];
    return status;
}

bool
tensor_check_range(const char *call, struct bell_tensor *index,
                   const char *what, int axis, int64_t low, int64_t size,
                   int64_t ignored)
{
    struct bell_context *ctx = tensor_at(index)->ctx;
    int64_t least = 0, most = -1;

    if (tensor_numel(index) == 0)
        return true;
    if (!known_range(tensor_at(index)->uop, &least, &most)) {
        if (!ctx->checks_index || ctx->trace)
            return true;
        if (read_range(call, index, ignored, &least, &most) != BELL_OK) {
            tensor_fail_last(ctx, call);
            return false;
        }
    }
    if ((least >= low || least == ignored) && (most < size || most == ignored))
        return true;
    tensor_fail(ctx, call, BELL_BAD_INDEX,
                "%s %lld is out of bounds for axis %d of size %lld", what,
                (long long)(least < low && least != ignored ? least : most),
                axis, (long long)size);
    return false;
}
