/* Shared by validate.c and validate_ops.c. */
#ifndef BELL_UOPS_VALIDATE_H
#define BELL_UOPS_VALIDATE_H

#include "uops/uop.h"

/* Fails with BELL_E_INTERNAL: the node as printed, and what is wrong. */
bell_status uop_bad(const struct uop *u, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Dtypes, lanes, args and sources of one node whose stage and source count
 * are right. */
BELL_MUST_CHECK bell_status uop_check_node(const struct uop_graph *g,
                                           const struct uop *u,
                                           enum uop_stage stage);

#endif
