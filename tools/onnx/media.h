/* Images and sounds as inputs of a model: --in x=cat.png, .jpg, .wav.
 *
 * Files may be hostile: a size is checked before memory is asked for it.
 */
#ifndef BELL_TOOLS_ONNX_MEDIA_H
#define BELL_TOOLS_ONNX_MEDIA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct bell_tensor;
struct model_run;

/* Most pixels of an image, and most samples of a sound. */
#define MEDIA_MAX_PIXELS  ((uint64_t)1 << 26)
#define MEDIA_MAX_SAMPLES ((uint64_t)1 << 28)

/* Rows of red, green and blue. `pixels` is host memory. */
struct media_image {
    uint32_t width, height;
    uint8_t *pixels;
};

/* Frames of a sample for each channel, -1 to 1. `samples` is host memory. */
struct media_sound {
    uint32_t rate, n_channels;
    uint64_t n_frames;
    float *samples;
};

/* Whether the name ends as those files' do. */
bool media_is(const char *path);
/* The file as input `number` of the model, of its dtype and sizes. */
BELL_MUST_CHECK bell_status media_load(struct model_run *run, uint32_t number,
                                       const char *path,
                                       struct bell_tensor **out);

/* BELL_E_UNSUPPORTED: the program was built without the library. */
BELL_MUST_CHECK bell_status media_parse_png(const void *bytes, size_t n,
                                            struct media_image *out);
BELL_MUST_CHECK bell_status media_parse_jpeg(const void *bytes, size_t n,
                                             struct media_image *out);
/* RIFF WAVE of integers of 8, 16, 24 and 32 bits, or floats of 32 and 64. */
BELL_MUST_CHECK bell_status media_parse_wav(const void *bytes, size_t n,
                                            struct media_sound *out);

#endif
