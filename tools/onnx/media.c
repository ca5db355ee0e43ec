/* Images and sounds as tensors. An image is a value for each channel, red,
 * green and blue or their luma, in the order of axes that the model's shape
 * has; a sound is its samples. */
#include "tools/onnx/media.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"
#include "doorbell/vision.h"
#include "tools/onnx/onnx.h"

enum media_kind {
    NO_MEDIA,
    PNG,
    JPEG,
    WAV
};

static enum media_kind
kind_of(const char *path)
{
    static const struct {
        const char *end;
        enum media_kind kind;
    } rows[] = {{".png", PNG}, {".jpg", JPEG}, {".jpeg", JPEG}, {".wav", WAV}};
    size_t n = strlen(path), i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        size_t length = strlen(rows[i].end);

        if (n > length && strcasecmp(path + n - length, rows[i].end) == 0)
            return rows[i].kind;
    }
    return NO_MEDIA;
}

bool
media_is(const char *path)
{
    return kind_of(path) != NO_MEDIA;
}

/* The axes of an image's shape. */
struct image_axes {
    uint32_t channel, row, column;
    int64_t n_channels, height, width; /* height and width -1: open */
};

/* The size of an axis: that of the model, a number given, or -1. */
static int64_t
known_size(const struct model_run *run, uint32_t number, uint32_t axis)
{
    const struct bell_onnx_value *v = bell_onnx_input(run->model, number);
    int64_t shape[BELL_MAX_RANK];
    uint32_t ndim;

    if (v->has_shape && v->dims[axis].size >= 0)
        return v->dims[axis].size;
    /* those of --shape; all must be known */
    if (bell_onnx_input_shape(run->model, number, shape, &ndim) != BELL_OK) {
        bell_error_clear();
        return -1;
    }
    return shape[axis] <= INT32_MAX ? shape[axis] : -1;
}

static BELL_MUST_CHECK bell_status
find_axes(const struct model_run *run, uint32_t number, uint32_t ndim,
          struct image_axes *a)
{
    const struct bell_onnx_value *v = bell_onnx_input(run->model, number);
    int64_t first, last;

    if (ndim < 3 || ndim > 4)
        return bell_fail(BELL_BAD_SHAPE,
                         "input '%.80s' of %u axes does not take an image; "
                         "expected 3 or 4: give --shape",
                         v->name, ndim);
    first = known_size(run, number, ndim - 3);
    last = known_size(run, number, ndim - 1);
    if (first == 1 || first == 3) {
        *a = (struct image_axes){ndim - 3, ndim - 2, ndim - 1, first, 0, 0};
    } else if (last == 1 || last == 3) {
        *a = (struct image_axes){ndim - 1, ndim - 3, ndim - 2, last, 0, 0};
    } else {
        return bell_fail(BELL_BAD_SHAPE,
                         "input '%.80s': no axis of 1 or 3 channels: give "
                         "--shape",
                         v->name);
    }
    if (ndim == 4 && known_size(run, number, 0) > 1)
        return bell_fail(BELL_BAD_SHAPE,
                         "input '%.80s' takes %" PRId64 " images; a file has "
                         "one",
                         v->name, known_size(run, number, 0));
    a->height = known_size(run, number, a->row);
    a->width = known_size(run, number, a->column);
    return BELL_OK;
}

/* "0.485,0.456,0.406", or one number for all. */
static BELL_MUST_CHECK bell_status
read_three(const char *option, const char *text, double *out)
{
    const char *at = text;
    uint32_t n = 0;
    char *end;

    while (n < 3) {
        out[n++] = strtod(at, &end);
        if (end == at || !isfinite(out[n - 1]))
            break;
        at = end + (*end == ',');
        if (!*end)
            break;
    }
    if (*at || (n != 1 && n != 3) || (at > text && at[-1] == ','))
        return bell_fail(BELL_BAD_VALUE,
                         "%s %.40s: expected a number, or three with commas",
                         option, text);
    if (n == 1)
        out[1] = out[2] = out[0];
    return BELL_OK;
}

/* x / scale, less the mean, by the deviation: each of a channel. */
static BELL_MUST_CHECK bell_status
normalize(struct model_run *run, uint32_t channel_axis, int64_t n_channels,
          double usual_scale, struct bell_tensor **x)
{
    const struct onnx_model_options *o = run->opts->model;
    double scale[3] = {usual_scale, usual_scale, usual_scale};
    double mean[3] = {0, 0, 0}, deviation[3] = {1, 1, 1};
    int64_t shape[4] = {1, 1, 1, 1};
    uint32_t i, ndim = bell_ndim(*x);
    float factor[3], offset[3];

    if (o->scale)
        BELL_TRY(read_three("--scale", o->scale, scale));
    if (o->mean)
        BELL_TRY(read_three("--mean", o->mean, mean));
    if (o->std)
        BELL_TRY(read_three("--std", o->std, deviation));
    for (i = 0; i < 3; i++) {
        if (!(scale[i] > 0) || !(deviation[i] > 0))
            return bell_fail(BELL_BAD_VALUE,
                             "--scale and --std must be above 0");
        factor[i] = (float)(1 / (scale[i] * deviation[i]));
        offset[i] = (float)(-mean[i] / deviation[i]);
    }
    if (channel_axis < ndim)
        shape[channel_axis] = n_channels;
    else
        n_channels = 1;
    *x = bell_add(
        bell_mul(*x, bell_reshape(bell_from_data(run->ctx, &n_channels, 1,
                                                 BELL_FLOAT32, factor),
                                  shape, ndim)),
        bell_reshape(
            bell_from_data(run->ctx, &n_channels, 1, BELL_FLOAT32, offset),
            shape, ndim));
    return BELL_OK;
}

static bool
has_scaling(const struct model_run *run)
{
    const struct onnx_model_options *o = run->opts->model;

    return o->scale || o->mean || o->std;
}

/* The axes of (height, width, channels) as the model has them. */
static BELL_MUST_CHECK bell_status
image_tensor(struct model_run *run, uint32_t number,
             const struct media_image *image, struct bell_tensor **out)
{
    const struct bell_onnx_value *v = bell_onnx_input(run->model, number);
    int64_t shape[] = {image->height, image->width, 3}, sizes[2];
    struct bell_resize_options opt = {.struct_size = sizeof(opt),
                                      .mode = BELL_RESIZE_LINEAR,
                                      .antialias = true};
    uint32_t ndim = v->has_shape ? v->ndim : 4;
    bool is_bytes = v->dtype == BELL_UINT8;
    struct bell_tensor *x;
    struct image_axes a;
    int64_t last = 0;

    BELL_TRY(find_axes(run, number, ndim, &a));
    if (!is_bytes && v->dtype < BELL_FLOAT16)
        return bell_fail(BELL_BAD_DTYPE,
                         "input '%.80s' is %s; an image is floats or uint8",
                         v->name, v->type);
    if (is_bytes && has_scaling(run))
        return bell_fail(BELL_BAD_VALUE,
                         "--scale, --mean and --std: input '%.80s' is uint8",
                         v->name);
    sizes[0] = a.height >= 0 ? a.height : image->height;
    sizes[1] = a.width >= 0 ? a.width : image->width;
    if (!run->opts->model->resize &&
        (sizes[0] != image->height || sizes[1] != image->width))
        return bell_fail(BELL_BAD_SHAPE,
                         "an image of %u x %u pixels; input '%.80s' takes "
                         "%" PRId64 " x %" PRId64 ": --resize stretches it",
                         image->width, image->height, v->name, sizes[1],
                         sizes[0]);
    x = bell_permute(
        bell_from_data(run->ctx, shape, 3, BELL_UINT8, image->pixels),
        BELL_DIMS(2, 0, 1));
    if (sizes[0] != image->height || sizes[1] != image->width)
        x = bell_squeeze(bell_resize(bell_unsqueeze(x, 0), sizes, 2, &opt),
                         &last, 1);
    if (!is_bytes || a.n_channels == 1)
        x = bell_cast(x, BELL_FLOAT32);
    if (a.n_channels == 1) {
        /* weights of luma as in BT.601 */
        static const float luma[] = {0.299f, 0.587f, 0.114f};

        x = bell_mul(x, bell_reshape(bell_from_data(run->ctx, BELL_DIMS(3),
                                                    BELL_FLOAT32, luma),
                                     BELL_DIMS(3, 1, 1)));
        x = bell_sum(x, &last, 1, true);
        if (is_bytes)
            x = bell_cast(bell_round(x), BELL_UINT8);
    }
    if (!is_bytes)
        BELL_TRY(normalize(run, 0, a.n_channels, 255, &x));
    if (a.channel == ndim - 1)
        x = bell_permute(x, BELL_DIMS(1, 2, 0));
    if (ndim == 4)
        x = bell_unsqueeze(x, 0);
    *out = is_bytes ? x : bell_cast(x, v->dtype);
    return bell_context_status(run->ctx);
}

/* [n], [1, n], [channels, n] or [1, channels, n], as the model has them. */
static BELL_MUST_CHECK bell_status
sound_tensor(struct model_run *run, uint32_t number,
             const struct media_sound *sound, struct bell_tensor **out)
{
    const struct bell_onnx_value *v = bell_onnx_input(run->model, number);
    uint32_t ndim = v->has_shape ? v->ndim : 2, i;
    int64_t shape[] = {(int64_t)sound->n_frames, sound->n_channels}, want;
    struct bell_tensor *x;

    if (ndim < 1 || ndim > 3 || v->dtype < BELL_FLOAT16)
        return bell_fail(BELL_BAD_SHAPE,
                         "input '%.80s' is %s of %u axes; a sound is floats "
                         "of 1 to 3",
                         v->name, v->type, ndim);
    want = ndim > 1 ? known_size(run, number, ndim - 2) : 1;
    if (want < 0)
        want = ndim == 3 ? (int64_t)sound->n_channels : 1;
    if (want != sound->n_channels)
        return bell_fail(BELL_BAD_SHAPE,
                         "%u channels; input '%.80s' takes %" PRId64,
                         sound->n_channels, v->name, want);
    want = known_size(run, number, ndim - 1);
    if (want >= 0 && (uint64_t)want != sound->n_frames)
        return bell_fail(BELL_BAD_SHAPE,
                         "%" PRIu64 " samples of each channel, at %u Hz; input "
                         "'%.80s' takes %" PRId64,
                         sound->n_frames, sound->rate, v->name, want);
    x = bell_t(
        bell_from_data(run->ctx, shape, 2, BELL_FLOAT32, sound->samples));
    if (has_scaling(run))
        BELL_TRY(normalize(run, 9, 1, 1, &x));
    if (ndim == 1)
        x = bell_reshape(x, BELL_DIMS(-1));
    for (i = 2; i < ndim; i++)
        x = bell_unsqueeze(x, 0);
    *out = bell_cast(x, v->dtype);
    return bell_context_status(run->ctx);
}

bell_status
media_load(struct model_run *run, uint32_t number, const char *path,
           struct bell_tensor **out)
{
    enum media_kind kind = kind_of(path);
    struct media_image image = {0};
    struct media_sound sound = {0};
    struct file_bytes file;
    bell_status status;

    BELL_TRY(file_read(path, &file));
    if (kind == WAV)
        status = media_parse_wav(file.data, file.size_bytes, &sound);
    else if (kind == PNG)
        status = media_parse_png(file.data, file.size_bytes, &image);
    else
        status = media_parse_jpeg(file.data, file.size_bytes, &image);
    file_bytes_fini(&file);
    if (status == BELL_OK)
        status = kind == WAV ? sound_tensor(run, number, &sound, out)
                             : image_tensor(run, number, &image, out);
    host_free(image.pixels);
    host_free(sound.samples);
    if (status != BELL_OK)
        bell_error_prefix("%s", path);
    return status;
}
