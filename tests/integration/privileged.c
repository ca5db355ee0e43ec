/* What a program with privileges takes from the environment, as lines of
 * "key: value". tests/integration/test_privileged.py runs it with and
 * without. */
#include <stdio.h>
#include <sys/auxv.h>

#include "base/log.h"
#include "base/thread.h"
#include "cache/cache.h"
#include "hcq/hcq.h"
#include "render/ptx/ptx.h"

int
main(void)
{
    struct hcq_device *dev = NULL;
    char path[4096] = "";
    struct cache cache;

    printf("secure: %lu\n", getauxval(AT_SECURE));
    printf("device: %s\n", hcq_device_open(NULL, &dev) == BELL_OK
                               ? hcq_device_name(dev)
                               : bell_error_last()->message);
    printf("ptxas: %s\n",
           render_ptxas_find(path, sizeof(path)) == BELL_OK ? path : "none");
    printf("debug: %u\n", log_mask);
    cache_init(&cache);
    printf("cache: %s\n", cache.folder[0] ? cache.folder : cache.why_off);
    hcq_device_close(dev);
    return 0;
}
