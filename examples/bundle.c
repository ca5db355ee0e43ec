/* Runs what bundle_save.c has learned, with the driver half alone:
 * libdoorbell-hcq needs the C library and nothing else. */
#include <hcq/hcq_bundle.h>
#include <stdio.h>
#include <stdlib.h>

#define N 16

/* Sets x, runs, prints x and y. */
static bell_status
run(struct hcq_bundle *bundle)
{
    uint32_t in = hcq_bundle_find(bundle, HCQ_BUNDLE_INPUT, "x");
    uint32_t out = hcq_bundle_find(bundle, HCQ_BUNDLE_OUTPUT, "y");
    float x[N], y[N];
    bell_status status;

    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) * 3 / (N / 2);
    /* what the file does not have, or has in another size, is refused here */
    status = hcq_bundle_write(bundle, in, x, sizeof(x));
    if (status == BELL_OK)
        status = hcq_bundle_run(bundle, NULL);
    if (status == BELL_OK)
        status = hcq_bundle_read(bundle, out, y, sizeof(y));
    for (int i = 0; i < N && status == BELL_OK; i++)
        printf("%.3f %.3f\n", x[i], y[i]);
    return status;
}

int
main(int argc, char **argv)
{
    struct hcq_bundle *bundle = NULL;
    struct hcq_device *dev = NULL;
    struct hcq_bundle_info info = {.struct_size = sizeof(info)};
    bell_status status;

    if (argc != 3) {
        fprintf(stderr, "usage: bundle FILE DEVICE\n");
        return EXIT_FAILURE;
    }
    status = hcq_device_open(argv[2], &dev);
    if (status == BELL_OK)
        status = hcq_bundle_open(dev, argv[1], &bundle);
    if (status == BELL_OK) {
        hcq_bundle_get_info(bundle, &info);
        fprintf(stderr, "%s: %u kernels for %s, %u launches\n",
                hcq_device_name(dev), info.n_kernels, info.arch,
                info.n_commands);
        status = run(bundle);
    }
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    hcq_bundle_close(bundle);
    hcq_device_close(dev);
    return bell_status_exit_code(status);
}
