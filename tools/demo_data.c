/* Images for the demo: read from the original files, or drawn. */
#include "tools/demo.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

#define N_DRAWN_TRAIN 9000
#define N_TEST        1000

static bell_status
alloc_data(size_t n, struct demo_data *out_data)
{
    struct demo_data data = {.n_train = n - N_TEST, .n_test = N_TEST};

    data.images = host_calloc(n, DIGITS_PIXELS);
    data.labels = host_calloc(n, 1);
    if (!data.images || !data.labels) {
        demo_data_fini(&data);
        return bell_fail(BELL_E_NO_MEMORY, "%zu images", n);
    }
    *out_data = data;
    return BELL_OK;
}

void
demo_data_fini(struct demo_data *data)
{
    host_free(data->images);
    host_free(data->labels);
    memset(data, 0, sizeof(*data));
}

bell_status
demo_data_draw(uint64_t seed, struct demo_data *out_data)
{
    struct rng rng = {seed};
    uint64_t train_seed = rng_next(&rng), test_seed = rng_next(&rng);

    BELL_TRY(alloc_data(N_DRAWN_TRAIN + N_TEST, out_data));
    digits_draw(train_seed, N_DRAWN_TRAIN, out_data->images, out_data->labels);
    digits_draw(test_seed, N_TEST,
                out_data->images + N_DRAWN_TRAIN * DIGITS_PIXELS,
                out_data->labels + N_DRAWN_TRAIN);
    return BELL_OK;
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
