/* Sounds: RIFF WAVE.
 * src: RFC 2361, WAVE and AVI Codec Registries (numbers of encodings). */
#include "tools/onnx/media.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

enum {
    WAVE_PCM = 1,
    WAVE_FLOAT = 3,
    WAVE_EXTENSIBLE = 0xfffe, /* the encoding is behind, in a GUID */
};

struct wave_format {
    uint32_t encoding, n_channels, rate, bits;
};

static uint32_t
read_le(const uint8_t *at, unsigned n)
{
    uint32_t v = 0;

    while (n--)
        v = v << 8 | at[n];
    return v;
}

/* One sample as a number from -1 to 1. */
static float
sample_at(const struct wave_format *f, const uint8_t *at)
{
    unsigned size = f->bits / 8;
    uint32_t word = read_le(at, size < 4 ? size : 4);
    double d;
    float v;

    if (f->encoding == WAVE_FLOAT && size == 8) {
        memcpy(&d, at, sizeof(d));
        return (float)d;
    }
    if (f->encoding == WAVE_FLOAT) {
        memcpy(&v, &word, sizeof(v));
        return v;
    }
    if (size == 1) /* the only one without a sign */
        return ((float)word - 128) / 128;
    return (float)((double)(int32_t)(word << (32 - f->bits)) / 2147483648.0);
}

static BELL_MUST_CHECK bell_status
parse_format(const uint8_t *at, uint32_t n, struct wave_format *f)
{
    bool known;

    if (n < 16)
        return bell_fail(BELL_E_IO, "its format has %u bytes; expected 16", n);
    f->encoding = read_le(at, 2);
    f->n_channels = read_le(at + 2, 2);
    f->rate = read_le(at + 4, 4);
    f->bits = read_le(at + 14, 2);
    if (f->encoding == WAVE_EXTENSIBLE && n >= 26)
        f->encoding = read_le(at + 24, 2);
    known =
        f->encoding == WAVE_PCM
            ? f->bits == 8 || f->bits == 16 || f->bits == 24 || f->bits == 32
            : f->encoding == WAVE_FLOAT && (f->bits == 32 || f->bits == 64);
    if (!known || f->n_channels == 0)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "encoding %u of %u bits and %u channels; expected "
                         "integers of 8 to 32 bits or floats of 32 and 64",
                         f->encoding, f->bits, f->n_channels);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
parse_samples(const uint8_t *at, uint32_t n, const struct wave_format *f,
              struct media_sound *out)
{
    uint64_t size = f->bits / 8, i, n_samples;

    out->rate = f->rate;
    out->n_channels = f->n_channels;
    out->n_frames = n / (size * f->n_channels);
    n_samples = out->n_frames * f->n_channels;
    if (n_samples == 0 || n_samples > MEDIA_MAX_SAMPLES)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%" PRIu64 " samples; expected 1 to 2^28", n_samples);
    out->samples = host_alloc(n_samples * sizeof(float));
    if (!out->samples)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a sound");
    for (i = 0; i < n_samples; i++)
        out->samples[i] = sample_at(f, at + i * size);
    return BELL_OK;
}

bell_status
media_parse_wav(const void *bytes, size_t n, struct media_sound *out)
{
    const uint8_t *file = bytes;
    struct wave_format format = {0};
    size_t at = 12;

    memset(out, 0, sizeof(*out));
    if (n < 12 || memcmp(file, "RIFF", 4) != 0 ||
        memcmp(file + 8, "WAVE", 4) != 0)
        return bell_fail(BELL_E_IO, "not a RIFF WAVE file");
    while (n - at >= 8) {
        uint32_t size = read_le(file + at + 4, 4);
        const uint8_t *chunk = file + at + 8;

        if (size > n - at - 8) {
            /* a program that writes while it records leaves the size open */
            if (memcmp(file + at, "data", 4) != 0 || size != UINT32_MAX)
                return bell_fail(BELL_E_IO,
                                 "truncated: a chunk of %u bytes at byte %zu "
                                 "of %zu",
                                 size, at, n);
            size =
                n - at - 8 > UINT32_MAX ? UINT32_MAX : (uint32_t)(n - at - 8);
        }
        if (memcmp(file + at, "fmt ", 4) == 0)
            BELL_TRY(parse_format(chunk, size, &format));
        if (memcmp(file + at, "data", 4) == 0) {
            if (!format.n_channels)
                return bell_fail(BELL_E_IO, "its samples come before their "
                                            "format");
            return parse_samples(chunk, size, &format, out);
        }
        at += 8 + (size_t)size;
        if (at % 2 && at < n)
            at++;
    }
    return bell_fail(BELL_E_IO, "it has no samples");
}
