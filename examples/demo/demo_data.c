/* Images for the demo: read from the original files, or drawn. */
#include "examples/demo/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tensor/files/idx.h"

#define N_DRAWN_TRAIN 9000
#define N_TEST        1000

static bell_status
alloc_data(size_t n, struct demo_data *out_data)
{
    struct demo_data data = {.n_train = n - N_TEST, .n_test = N_TEST};

    data.images = host_calloc(data.n_train, DIGITS_PIXELS);
    data.labels = host_calloc(data.n_train, 1);
    data.test_images = host_calloc(N_TEST, DIGITS_PIXELS);
    data.test_labels = host_calloc(N_TEST, 1);
    if (!data.images || !data.labels || !data.test_images ||
        !data.test_labels) {
        demo_data_fini(&data);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu images", n);
    }
    *out_data = data;
    return BELL_OK;
}

void
demo_data_end_training(struct demo_data *data)
{
    host_free(data->images);
    host_free(data->labels);
    data->images = data->labels = NULL;
}

void
demo_data_fini(struct demo_data *data)
{
    demo_data_end_training(data);
    host_free(data->test_images);
    host_free(data->test_labels);
    memset(data, 0, sizeof(*data));
}

bell_status
demo_data_draw(uint64_t seed, struct demo_data *out_data)
{
    struct rng rng = {seed};
    uint64_t train_seed = rng_next(&rng), test_seed = rng_next(&rng);

    BELL_TRY(alloc_data(N_DRAWN_TRAIN + N_TEST, out_data));
    digits_draw(train_seed, N_DRAWN_TRAIN, out_data->images, out_data->labels);
    digits_draw(test_seed, N_TEST, out_data->test_images,
                out_data->test_labels);
    return BELL_OK;
}

/* Reads dir/name.gz or, where that does not exist, dir/name. */
static bell_status
read_array(const char *dir, const char *name, struct host_array *out_array)
{
    char path[4096];
    int len = snprintf(path, sizeof(path), "%s/%s.gz", dir, name);

    if (len < 0 || (size_t)len >= sizeof(path))
        return bell_fail(BELL_E_INVALID, "the path of %s is too long", name);
    if (access(path, F_OK) != 0) {
        path[len - 3] = '\0';
        if (access(path, F_OK) != 0)
            path[len - 3] = '.'; /* neither: name the usual one */
    }
    return idx_read(path, out_array);
}

/* Whether the two arrays are images and labels that belong together. */
static bell_status
check_arrays(const char *dir, const struct host_array *images,
             const struct host_array *labels)
{
    const uint8_t *classes = labels->data;
    uint64_t i;

    if (images->dtype != BELL_UINT8 || images->ndim != 3 ||
        images->shape[1] != DIGITS_SIDE || images->shape[2] != DIGITS_SIDE)
        return bell_fail(BELL_E_IO, "%s: the images are not n x %d x %d bytes",
                         dir, DIGITS_SIDE, DIGITS_SIDE);
    if (labels->dtype != BELL_UINT8 || labels->ndim != 1 ||
        labels->shape[0] != images->shape[0])
        return bell_fail(BELL_E_IO,
                         "%s: %" PRIu64 " labels of rank %" PRIu32
                         " for %" PRId64 " images",
                         dir, labels->n_elems, labels->ndim, images->shape[0]);
    if (images->shape[0] <= N_TEST)
        return bell_fail(BELL_E_IO,
                         "%s: %" PRId64 " images; more than %d needed", dir,
                         images->shape[0], N_TEST);
    for (i = 0; i < labels->n_elems; i++) {
        if (classes[i] > 9)
            return bell_fail(BELL_E_IO, "%s: label %" PRIu64 " is %d", dir, i,
                             classes[i]);
    }
    return BELL_OK;
}

bell_status
demo_data_load(const char *dir, struct demo_data *out_data)
{
    struct host_array images, labels;
    const uint8_t *pixels, *classes;
    bell_status status;
    size_t n;

    BELL_TRY(read_array(dir, "t10k-images-idx3-ubyte", &images));
    status = read_array(dir, "t10k-labels-idx1-ubyte", &labels);
    if (status != BELL_OK)
        goto fail_images;
    status = check_arrays(dir, &images, &labels);
    if (status != BELL_OK)
        goto fail_labels;
    status = alloc_data((size_t)images.shape[0], out_data);
    if (status != BELL_OK)
        goto fail_labels;
    n = out_data->n_train;
    pixels = images.data;
    classes = labels.data;
    memcpy(out_data->images, pixels, n * DIGITS_PIXELS);
    memcpy(out_data->labels, classes, n);
    memcpy(out_data->test_images, pixels + n * DIGITS_PIXELS,
           N_TEST * DIGITS_PIXELS);
    memcpy(out_data->test_labels, classes + n, N_TEST);
fail_labels:
    host_array_fini(&labels);
fail_images:
    host_array_fini(&images);
    return status;
}

/* Copies an image moved down by dy and right by dx; paper comes in. */
static void
copy_shifted(uint8_t *dst, const uint8_t *src, int dy, int dx)
{
    int y_first = dy > 0 ? dy : 0;
    int y_last = dy < 0 ? DIGITS_SIDE + dy : DIGITS_SIDE;
    int x_first = dx > 0 ? dx : 0;
    int width = DIGITS_SIDE - (dx < 0 ? -dx : dx);
    int y;

    memset(dst, 0, DIGITS_PIXELS);
    for (y = y_first; y < y_last; y++)
        memcpy(dst + y * DIGITS_SIDE + x_first,
               src + (y - dy) * DIGITS_SIDE + x_first - dx, (size_t)width);
}

void
demo_data_batch(const struct demo_data *data, const uint32_t *order, size_t n,
                int max_shift, struct rng *rng, uint8_t *images,
                int32_t *labels)
{
    uint32_t n_shifts = 2 * (uint32_t)max_shift + 1;
    size_t i;

    for (i = 0; i < n; i++) {
        int dy = (int)rng_below(rng, n_shifts) - max_shift;
        int dx = (int)rng_below(rng, n_shifts) - max_shift;
        copy_shifted(images + i * DIGITS_PIXELS,
                     data->images + (size_t)order[i] * DIGITS_PIXELS, dy, dx);
        labels[i] = data->labels[order[i]];
    }
}
