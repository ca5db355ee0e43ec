/* Images: pooling that tells where, resampling, regions.
 *
 * Axes and windows are those of the convolutions in ops.h: x[n, c, ..], the
 * last one, two or three axes being the image's. Halves are computed in float32
 * and rounded at the end. Results are new handles; a failure gives the error
 * tensor in their place.
 */
#ifndef BELL_DOORBELL_VISION_H
#define BELL_DOORBELL_VISION_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pooling ---- */

/* *out_values as bell_max_pool1d to 3d, by n_axes, has them. *out_indices,
 * int64 of that shape: where the first of the greatest is, as its number among
 * the elements of the last n_axes axes of x; the last NaN if there is one.
 * Either may be NULL. */
BELL_API void bell_max_pool_indices(struct bell_tensor *x, uint32_t n_axes,
                                    const struct bell_pool_options *opt,
                                    struct bell_tensor **out_values,
                                    struct bell_tensor **out_indices);
/* Zeros, the last n axes of these sizes, but for the elements of x, each where
 * `indices` (integers of x's shape, as bell_max_pool_indices tells them) says:
 * of several one place gets the last. The gradient of each is that of its
 * place. An index out of range is an error where it is known (BELL_CHECK), and
 * else writes nothing. */
BELL_API struct bell_tensor *bell_max_unpool(struct bell_tensor *x,
                                             struct bell_tensor *indices,
                                             const int64_t *sizes, uint32_t n);

/* ---- resampling ---- */

struct bell_resize_options {
    uint32_t struct_size; /* sizeof(struct bell_resize_options) */
    enum bell_resize_mode mode;
    bool align_corners; /* of LINEAR and CUBIC */
    bool antialias;     /* of LINEAR and CUBIC: where an axis shrinks, the
                         * weights reach as much further; PyTorch's, with its
                         * other cubic constant, -0.5 */
    double scale[3];    /* of each axis out / size where that is to be taken as
                         * another number than it is; else 0 */
};
/* bell_interpolate with a scale for each axis, n at most 3. uint8 is resized as
 * in PyTorch: each axis by weights of 15 bits, the last axis first, and rounded
 * to nearest, halves up, within 0..255. */
BELL_API struct bell_tensor *bell_resize(struct bell_tensor *x,
                                         const int64_t *sizes, uint32_t n,
                                         const struct bell_resize_options *opt);

/* What stands around an image that is sampled. */
enum bell_grid_padding {
    BELL_GRID_ZEROS,
    BELL_GRID_BORDER,  /* the nearest element */
    BELL_GRID_REFLECT, /* the image reversed, again and again */
};
/* x[n, c, h, w] at the points grid[n, y, x, 2], in x and y from -1 to 1 across
 * the image, to [n, c, y, x]; or x[n, c, d, h, w] at grid[n, z, y, x, 3]. -1
 * and 1 are the outer edges of the outer elements, with align_corners their
 * centres; NaN counts as -1. mode: NEAREST (ties to even), LINEAR, or, of four
 * axes, CUBIC. Float dtypes; gradients of x and, but for NEAREST, of grid. */
BELL_API struct bell_tensor *bell_grid_sample(struct bell_tensor *x,
                                              struct bell_tensor *grid,
                                              enum bell_resize_mode mode,
                                              enum bell_grid_padding padding,
                                              bool align_corners);

/* ---- regions ---- */

/* The means of sizes[0] x sizes[1] equal parts of each box of x[n, c, h, w], to
 * [k, c, sizes..]. boxes[k, 5]: number of the image, x1, y1, x2, y2, which are
 * times spatial_scale in elements. Each part is sampled between four elements
 * at n_samples points a side; 0: as many as it has elements, rounded up, for
 * which the boxes are read on the host. aligned: less half an element, and
 * boxes may be smaller than one. Float dtypes; a gradient of x alone. */
BELL_API struct bell_tensor *bell_roi_align(struct bell_tensor *x,
                                            struct bell_tensor *boxes,
                                            const int64_t sizes[2],
                                            double spatial_scale,
                                            int64_t n_samples, bool aligned);
/* The numbers, int64 [count], of the boxes[k, 4] (x1, y1, x2, y2) that no kept
 * box of a higher scores[k] overlaps by more than iou_threshold, intersection
 * over union; the highest score first, of equal ones the first box. Chosen on
 * the host. */
BELL_API struct bell_tensor *bell_nms(struct bell_tensor *boxes,
                                      struct bell_tensor *scores,
                                      double iou_threshold);

#ifdef __cplusplus
}
#endif
#endif
