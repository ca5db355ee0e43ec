/* Images, by libpng and libjpeg-turbo. */
#include "tools/onnx/media.h"

#include <inttypes.h>
#include <string.h>

#if BELL_HAVE_PNG
#include <png.h>
#endif
#if BELL_HAVE_JPEG
#include <turbojpeg.h>
#endif

#include "base/alloc.h"

#if BELL_HAVE_PNG || BELL_HAVE_JPEG
static BELL_MUST_CHECK bell_status
make_room(uint64_t width, uint64_t height, struct media_image *out)
{
    if (width == 0 || height == 0 || width > MEDIA_MAX_PIXELS ||
        height > MEDIA_MAX_PIXELS || width * height > MEDIA_MAX_PIXELS)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "an image of %" PRIu64 " x %" PRIu64
                         " pixels; expected 1 to 2^26",
                         width, height);
    /* zeros: what is transparent is black */
    out->pixels = host_calloc(width * height, 3);
    if (!out->pixels)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for an image");
    out->width = (uint32_t)width;
    out->height = (uint32_t)height;
    return BELL_OK;
}
#endif

bell_status
media_parse_png(const void *bytes, size_t n, struct media_image *out)
{
#if BELL_HAVE_PNG
    png_image image = {.version = PNG_IMAGE_VERSION};
    bell_status status;

    memset(out, 0, sizeof(*out));
    if (!png_image_begin_read_from_memory(&image, bytes, n))
        return bell_fail(BELL_E_IO, "not a PNG image: %s", image.message);
    image.format = PNG_FORMAT_RGB;
    status = make_room(image.width, image.height, out);
    if (status == BELL_OK &&
        !png_image_finish_read(&image, NULL, out->pixels, 0, NULL))
        status = bell_fail(BELL_E_IO, "damaged PNG image: %s", image.message);
    png_image_free(&image);
    if (status != BELL_OK) {
        host_free(out->pixels);
        out->pixels = NULL;
    }
    return status;
#else
    (void)bytes;
    (void)n;
    memset(out, 0, sizeof(*out));
    return bell_fail(BELL_E_UNSUPPORTED,
                     "doorbell was built without libpng (libpng-dev)");
#endif
}

bell_status
media_parse_jpeg(const void *bytes, size_t n, struct media_image *out)
{
#if BELL_HAVE_JPEG
    tjhandle tj = tjInitDecompress();
    int width, height, sampling, colours;
    bell_status status;

    memset(out, 0, sizeof(*out));
    if (!tj)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for an image");
    if (n > UINT32_MAX ||
        tjDecompressHeader3(tj, bytes, (unsigned long)n, &width, &height,
                            &sampling, &colours) != 0 ||
        width < 1 || height < 1)
        status =
            bell_fail(BELL_E_IO, "not a JPEG image: %s", tjGetErrorStr2(tj));
    else
        status = make_room((uint64_t)width, (uint64_t)height, out);
    if (status == BELL_OK &&
        tjDecompress2(tj, bytes, (unsigned long)n, out->pixels, width, 0,
                      height, TJPF_RGB, TJFLAG_ACCURATEDCT) != 0)
        status =
            bell_fail(BELL_E_IO, "damaged JPEG image: %s", tjGetErrorStr2(tj));
    tjDestroy(tj);
    if (status != BELL_OK) {
        host_free(out->pixels);
        out->pixels = NULL;
    }
    return status;
#else
    (void)bytes;
    (void)n;
    memset(out, 0, sizeof(*out));
    return bell_fail(BELL_E_UNSUPPORTED, "doorbell was built without "
                                         "libjpeg-turbo (libturbojpeg0-dev)");
#endif
}
