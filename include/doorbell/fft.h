/* Discrete Fourier transforms.
 *
 * There is no complex dtype: complex numbers are float tensors whose last axis
 * is 2, (real, imaginary), as torch.view_as_real gives them. That axis does not
 * count: `axis` is one of the others, and -1 the last of these.
 *
 * n is the length of the transform: what is longer is cut, what is shorter
 * gets zeros behind it; 0 is the axis' own. Any length of at least 1. `norm` is
 * "backward" (or NULL: the inverse divides by n), "forward" (the forward
 * transform does) or "ortho" (both, by its square root).
 *
 * Halves are computed in float32, integers become float32. Gradients follow.
 * docs/reference/fft.md says what it costs.
 */
#ifndef BELL_DOORBELL_FFT_H
#define BELL_DOORBELL_FFT_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out[k] = sum_j x[j] e^(-2 pi i j k / n) along an axis of a complex x. */
BELL_API struct bell_tensor *bell_fft(struct bell_tensor *x, int64_t n,
                                      int axis, const char *norm);
/* out[j] = 1/n sum_k x[k] e^(2 pi i j k / n). */
BELL_API struct bell_tensor *bell_ifft(struct bell_tensor *x, int64_t n,
                                       int axis, const char *norm);
/* The first n / 2 + 1 numbers of the transform of a real x: the others are
 * their conjugates. */
BELL_API struct bell_tensor *bell_rfft(struct bell_tensor *x, int64_t n,
                                       int axis, const char *norm);
/* The n real numbers that have that transform; n is 2 (size - 1) where it is
 * 0. The imaginary parts of x[0] and, of even n, x[n / 2] count for nothing. */
BELL_API struct bell_tensor *bell_irfft(struct bell_tensor *x, int64_t n,
                                        int axis, const char *norm);

/* How windows are taken. Zeros are PyTorch's defaults. */
struct bell_stft_options {
    uint32_t struct_size; /* sizeof(struct bell_stft_options) */
    int64_t hop_length;   /* from window to window; 0: n_fft / 4 */
    int64_t win_length;   /* of windows, amid n_fft numbers; 0: n_fft */
    struct bell_tensor
        *window;       /* what they are multiplied by, (win_length); NULL:
                                 * ones */
    bool not_centered; /* window i begins at i * hop_length; else its middle is
                        * there, and x is mirrored at its ends */
    bool normalized;   /* divided by the square root of n_fft */
    bool two_sided;    /* all n_fft numbers, not the first n_fft / 2 + 1 */
};

/* The transforms of windows of a real x along its last axis: x (.., n) gives
 * (.., numbers, windows, 2). `options` may be NULL. */
BELL_API struct bell_tensor *bell_stft(struct bell_tensor *x, int64_t n_fft,
                                       const struct bell_stft_options *options);
/* The real numbers that have these transforms, (.., numbers, windows, 2), by
 * least squares; `length` of them: 0 is all that windows cover (of centered ones
 * without the n_fft / 2 at both ends), what lies beyond is 0. Where all windows
 * are 0 it is NaN. */
BELL_API struct bell_tensor *
bell_istft(struct bell_tensor *x, int64_t n_fft, int64_t length,
           const struct bell_stft_options *options);

#ifdef __cplusplus
}
#endif
#endif
