/* libFuzzer target: sounds as inputs of a model. Whatever the bytes, parsing
 * ends in an error that says why or in samples that are all there. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tests/fuzz/fuzz.h"
#include "tools/onnx/media.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct media_sound sound;
    volatile float sum = 0;
    uint64_t i;

    if (media_parse_wav(data, size, &sound) != BELL_OK) {
        if (!bell_error_last()->message[0])
            abort();
        return 0;
    }
    fuzz_accept();
    /* a sample is a byte of the file at least, so nothing small gets large */
    if (!sound.n_channels || sound.n_frames > size / sound.n_channels)
        abort();
    for (i = 0; i < sound.n_frames * sound.n_channels; i++)
        sum += sound.samples[i];
    host_free(sound.samples);
    return 0;
}
