/* A bundle with other weights, as a file. */
#ifndef BELL_TOOLS_RUN_RENEW_H
#define BELL_TOOLS_RUN_RENEW_H

#include "base/status.h"

struct bundle_check;

/* Writes the bundle again, with the weights and states of a file of safetensors
 * (hcq_bundle_load_weights), without a device; `check` judges both. `to` may
 * be the bundle's own path. */
BELL_MUST_CHECK bell_status run_renew(const char *bundle, const char *weights,
                                      const struct bundle_check *check,
                                      const char *to);

#endif
