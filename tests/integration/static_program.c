/* Linked with -static: the library says why it makes no machine code for the
 * host, and works where the text of kernels is enough. */
#include <stdio.h>
#include <string.h>

#include "doorbell/ops.h"
#include "doorbell/tensor.h"

static bell_status
add_up(const char *device, double *out)
{
    struct bell_context *ctx;
    bell_status status = bell_context_create(device, &ctx);

    if (status != BELL_OK)
        return status;
    status = bell_item_f64(
        bell_sum(bell_arange(ctx, 0, 10, 1, BELL_FLOAT32), BELL_NO_DIMS, false),
        out);
    bell_context_destroy(ctx);
    return status;
}

int
main(int argc, char **argv)
{
    double sum = 0;

    if (add_up("CPU", &sum) != BELL_E_UNSUPPORTED ||
        !strstr(bell_error_last()->message, "linked statically")) {
        fprintf(stderr, "the CPU: %s\n", bell_error_last()->message);
        return 1;
    }
    if (argc > 1 && (add_up(argv[1], &sum) != BELL_OK || sum != 45)) {
        fprintf(stderr, "%s: %g, %s\n", argv[1], sum,
                bell_error_last()->message);
        return 1;
    }
    return 0;
}
