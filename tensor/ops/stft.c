/* Short-time Fourier transforms: windows of a signal, each transformed. */
#include <math.h>
#include <string.h>

#include "doorbell/fft.h"
#include "tensor/ops/fft.h"

/* A call's arguments, checked. */
struct stft {
    struct bell_context *ctx;
    const struct uop *x;      /* (batch, ...), float32 or float64 */
    const struct uop *window; /* (n_fft), zeros at both ends */
    enum uop_dtype dtype;     /* of the result */
    uint32_t rank;            /* of the batch */
    int64_t batch, d[TN_MAX_RANK];
    int64_t n_fft, hop, n_bins, margin;
    double scale; /* of the forward transform */
};

/* The window amid n_fft places; ones where none is given. */
static const struct uop *
take_window(const struct stft *f, const struct bell_stft_options *o,
            int64_t length)
{
    struct bell_context *ctx = f->ctx;
    int64_t before = (f->n_fft - length) / 2;
    const struct uop *u;

    if (o->window)
        u = tn_cast(ctx, tensor_node(o->window), f->x->dtype);
    else
        u = tn_full(ctx, tn_num(ctx, f->x, 1), &length, 1);
    return tn_pad_axis(ctx, u, 0, before, f->n_fft - length - before);
}

/* Checks what both directions have. `n_last` axes of x are not of the batch.
 * False with *out set. */
static bool
begin_stft(const char *call, struct bell_tensor *x, int64_t n_fft,
           const struct bell_stft_options *options, uint32_t n_last,
           struct stft *out_f, struct bell_stft_options *out_options,
           struct bell_tensor **out)
{
    struct stft f = {.n_fft = n_fft};
    struct bell_stft_options o;
    int64_t length;

    if (!tensor_takes(call, x, out))
        return false;
    f.ctx = tensor_at(x)->ctx;
    if (tensor_options(call, options, sizeof(o), sizeof(o), &o) != BELL_OK) {
        *out = tensor_fail_told(f.ctx);
        return false;
    }
    if (o.window && !tensor_takes2(call, x, o.window, out))
        return false;
    *out = f.ctx->error_tensor;
    f.hop = o.hop_length ? o.hop_length : n_fft / 4;
    length = o.win_length ? o.win_length : n_fft;
    if (n_fft < 1 || f.hop < 1 || length < 1 || length > n_fft) {
        tensor_fail(f.ctx, call, BELL_BAD_VALUE,
                    "windows of %lld in transforms of %lld, every %lld: "
                    "expected 1 <= win_length <= n_fft, and hop_length from 1",
                    (long long)length, (long long)n_fft, (long long)f.hop);
        return false;
    }
    if (o.window && (tensor_at(o.window)->shape->n != 1 ||
                     tensor_at(o.window)->shape->d[0] != length)) {
        tensor_fail(f.ctx, call, BELL_BAD_SHAPE,
                    "a window of shape %s, (%lld,) "
                    "is needed",
                    SHAPE_OF(o.window), (long long)length);
        return false;
    }
    if (tensor_at(x)->shape->n < n_last) {
        tensor_fail(f.ctx, call, BELL_BAD_SHAPE, "%s: too few axes",
                    SHAPE_OF(x));
        return false;
    }
    f.rank = tensor_at(x)->shape->n - n_last;
    if (!tensor_plain_axes(call, x, ~((1u << f.rank) - 1),
                           "windows are counted", out))
        return false;
    memcpy(f.d, tensor_at(x)->shape->d, f.rank * sizeof(*f.d));
    f.batch = dim_product(f.ctx->dims, f.d, f.rank);
    f.x = tensor_node(x);
    f.dtype = tensor_wide_dtype(f.x->dtype);
    if (!uop_dtype_infos[f.dtype].is_float)
        f.dtype = UOP_F32;
    f.x = tn_widen(f.ctx, tn_cast(f.ctx, f.x, f.dtype));
    f.window = take_window(&f, &o, length);
    f.n_bins = o.two_sided ? n_fft : n_fft / 2 + 1;
    f.margin = o.not_centered ? 0 : n_fft / 2;
    f.scale = o.normalized ? 1 / sqrt((double)n_fft) : 1;
    if (tn_bad(f.x) || tn_bad(f.window)) {
        *out = tensor_new(f.ctx, call, &uop_failed);
        return false;
    }
    *out_f = f;
    *out_options = o;
    return true;
}

struct bell_tensor *
bell_stft(struct bell_tensor *x, int64_t n_fft,
          const struct bell_stft_options *options)
{
    struct bell_stft_options o;
    struct bell_context *ctx;
    struct bell_tensor *out;
    const struct uop *u;
    int64_t n, n_frames;
    struct stft f;

    if (!begin_stft(__func__, x, n_fft, options, 1, &f, &o, &out))
        return out;
    ctx = f.ctx;
    n = tensor_at(x)->shape->d[f.rank];
    if (f.margin >= n || n + 2 * f.margin < n_fft)
        return tensor_fail(ctx, __func__, BELL_BAD_SIZE,
                           "%s: too short for transforms of %lld", SHAPE_OF(x),
                           (long long)n_fft);
    if (f.rank + 3 > BELL_MAX_RANK)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "%s: the result has more axes than there may be",
                           SHAPE_OF(x));
    n_frames = 1 + (n + 2 * f.margin - n_fft) / f.hop;
    f.d[f.rank] = f.n_bins;
    f.d[f.rank + 1] = n_frames;
    f.d[f.rank + 2] = 2;
    if (f.batch == 0) {
        u = tn_full(ctx, tn_num(ctx, f.x, 0), f.d, f.rank + 3);
        return tensor_new(ctx, __func__, tn_cast(ctx, u, f.dtype));
    }
    u = tn_reshape(ctx, f.x, (const int64_t[]){f.batch, n}, 2);
    u = tn_pad_mode(ctx, u, 1, f.margin, f.margin, BELL_PAD_REFLECT);
    u = tn_unfold(ctx, u, 1, n_frames, n_fft, f.hop, 1);
    u = tn_mul(ctx, u, f.window);
    u = tn_reshape(
        ctx, u,
        (const int64_t[]){dim_mul(ctx->dims, f.batch, n_frames), 1, n_fft}, 3);
    u = tn_fourier(ctx, u, -1);
    if (tn_bad(u))
        return tensor_new(ctx, __func__, u);
    u = tn_mul_c(ctx, tn_shrink_axis(ctx, u, 2, 0, f.n_bins), f.scale);
    u = tn_reshape(ctx, u, (const int64_t[]){f.batch, n_frames, 2, f.n_bins},
                   4);
    u = tn_permute(ctx, u, (const int64_t[]){0, 3, 1, 2});
    u = tn_reshape(ctx, u, f.d, f.rank + 3);
    return tensor_new(ctx, __func__, tn_cast(ctx, u, f.dtype));
}

/* The samples of frames (batch, frames, n_fft) from `begin` on, `length` of
 * them: the sum of the frames times the window, over that of its squares. */
static const struct uop *
join_frames(const struct stft *f, const struct uop *u, int64_t n_frames,
            int64_t length)
{
    struct bell_context *ctx = f->ctx;
    int64_t n = f->n_fft + f->hop * (n_frames - 1), end = f->margin + length;
    const int64_t d[3] = {1, n_frames, f->n_fft};
    const struct uop *weight;

    weight = tn_mul(ctx, f->window, f->window);
    weight = tn_fold(ctx, tn_broadcast(ctx, weight, d, 3), 1, n, f->hop, 1);
    u = tn_fold(ctx, tn_mul(ctx, u, f->window), 1, n, f->hop, 1);
    if (end > n) { /* beyond the last frame there is nothing */
        weight =
            tn_pad_value(ctx, weight, (const int64_t[]){0, 0, 0, end - n}, 1);
        u = tn_pad_axis(ctx, u, 1, 0, end - n);
    }
    u = tn_fdiv(ctx, tn_shrink_axis(ctx, u, 1, f->margin, end),
                tn_shrink_axis(ctx, weight, 1, f->margin, end));
    return u;
}

struct bell_tensor *
bell_istft(struct bell_tensor *x, int64_t n_fft, int64_t length,
           const struct bell_stft_options *options)
{
    struct bell_stft_options o;
    struct bell_context *ctx;
    struct bell_tensor *out;
    int64_t n_frames, most;
    const struct uop *u;
    const int64_t *d;
    struct stft f;

    if (!begin_stft(__func__, x, n_fft, options, 3, &f, &o, &out))
        return out;
    ctx = f.ctx;
    d = tensor_at(x)->shape->d + f.rank;
    if (d[0] != f.n_bins || d[1] < 1 || d[2] != 2)
        return tensor_fail(ctx, __func__, BELL_BAD_SHAPE,
                           "%s: (.., %lld, frames, 2) are needed for "
                           "transforms of %lld",
                           SHAPE_OF(x), (long long)f.n_bins, (long long)n_fft);
    n_frames = d[1];
    most = n_fft + f.hop * (n_frames - 1) - 2 * f.margin;
    if (length == 0)
        length = most;
    if (length < 1)
        return tensor_fail(ctx, __func__, BELL_BAD_SIZE,
                           "%s: a result of %lld samples; expected 1 or more",
                           SHAPE_OF(x), (long long)length);
    f.d[f.rank] = length;
    if (f.batch == 0) {
        u = tn_full(ctx, tn_num(ctx, f.x, 0), f.d, f.rank + 1);
        return tensor_new(ctx, __func__, tn_cast(ctx, u, f.dtype));
    }
    u = tn_reshape(ctx, f.x, (const int64_t[]){f.batch, f.n_bins, n_frames, 2},
                   4);
    u = tn_permute(ctx, u, (const int64_t[]){0, 2, 3, 1});
    u = tn_reshape(
        ctx, u,
        (const int64_t[]){dim_mul(ctx->dims, f.batch, n_frames), 2, f.n_bins},
        3);
    if (o.two_sided) {
        u = tn_fourier(ctx, u, 1);
        u = tn_bad(u) ? u : tn_shrink_axis(ctx, u, 1, 0, 1);
    } else {
        u = tn_fourier_real(ctx, u, n_fft);
    }
    if (tn_bad(u))
        return tensor_new(ctx, __func__, u);
    u = tn_mul_c(ctx, u, 1 / ((double)n_fft * f.scale));
    u = tn_reshape(ctx, u, (const int64_t[]){f.batch, n_frames, n_fft}, 3);
    u = join_frames(&f, u, n_frames, length);
    u = tn_reshape(ctx, u, f.d, f.rank + 1);
    return tensor_new(ctx, __func__, tn_cast(ctx, u, f.dtype));
}
