/* Indices and classes that are out of range.
 *
 * They are found where they are known on the host: numbers, and data that a
 * tensor was made of, whose least and greatest are kept with its memory.
 * Others are found where BELL_CHECK=index asks for it: then each call that is
 * given indices computes their least and greatest first, and waits.
 */
#include <string.h>

#include "base/env.h"
#include "tensor/elementwise.h"
#include "tensor/select.h"

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

void
tensor_note_range(struct tensor_buffer *buf, const void *data)
{
    size_t size = uop_dtype_infos[buf->dtype].size_bytes;
    const uint8_t *raw = data;
    int64_t low = INT64_MAX, high = INT64_MIN, v;
    uint64_t i, bits = 0;

    if (!uop_dtype_infos[buf->dtype].is_int || buf->dtype == UOP_U64 ||
        buf->n_elems == 0 || buf->n_elems > RANGE_ELEMS)
        return;
    for (i = 0; i < buf->n_elems; i++) {
        memcpy(&bits, raw + i * size, size);
        v = uop_wrap_int(buf->dtype, (int64_t)bits);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    buf->low = low;
    buf->high = high;
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
    tensor_fail(ctx, call, BELL_BAD_INDEX, "%s %lld along axis %d of size %lld",
                what,
                (long long)(least < low && least != ignored ? least : most),
                axis, (long long)size);
    return false;
}
