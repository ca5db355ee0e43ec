/* doorbell-run: `doorbell run` of the driver half alone, for appliances. */
#include <stdio.h>

#include "base/log.h"
#include "doorbell/tensor.h"
#include "hcq/hcq_bundle.h"
#include "tools/tools.h"

/* Functions of the tensors' API, which is not here, by what bundles know of
 * dtypes. */
size_t
bell_dtype_size(enum bell_dtype dtype)
{
    uint32_t size_bytes = 0;

    hcq_bundle_dtype_name(dtype, &size_bytes);
    return size_bytes;
}

const char *
bell_dtype_name(enum bell_dtype dtype)
{
    uint32_t size_bytes;
    const char *name = hcq_bundle_dtype_name(dtype, &size_bytes);

    return name ? name : "?";
}

int
main(int argc, char **argv)
{
    bool json = tool_asks_for_json(argc, argv);
    bell_status status = log_init();

    if (status != BELL_OK)
        return tool_fail(json, status);
    return tool_exit_code(verb_run(argc, argv));
}
