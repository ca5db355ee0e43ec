/* The smallest whole run: open a device, add two vectors, read the sum. The
 * time from exec to exit is taken by bench_compiler.
 */
#include <stdio.h>

#include "doorbell/tensor.h"

int
main(void)
{
    static const float x[4] = {1, 2, 3, 4};
    struct bell_context *ctx;
    struct bell_tensor *a;
    float sums[4];

    if (bell_context_create(NULL, &ctx) != BELL_OK) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        return 1;
    }
    a = bell_from_data(ctx, BELL_DIMS(4), BELL_FLOAT32, x);
    if (bell_read(bell_add(a, a), sums, sizeof(sums)) != BELL_OK) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        return 1;
    }
    bell_context_destroy(ctx);
    return sums[3] == 8 ? 0 : 1;
}
