/* `doorbell run --serve`: bundles that stay loaded, and answer requests.
 * docs/how-to/serving.md describes the protocol. */
#ifndef BELL_TOOLS_RUN_SERVE_H
#define BELL_TOOLS_RUN_SERVE_H

#include "hcq/hcq_bundle_file.h"
#include "tools/tools.h"

struct serve_options {
    const char *socket;              /* "-": stdin and stdout */
    const char *device;              /* or NULL */
    const struct tool_list *bundles; /* name=FILE */
    uint64_t timeout_ns;             /* of a run */
    struct bundle_check check;
};

/* Until SIGTERM or SIGINT, or the end of stdin. Returns an exit code. */
int run_serve(const struct serve_options *options);

#endif
