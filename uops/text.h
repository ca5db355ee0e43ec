/* How ops and args are written. Shared by print.c, parse.c, dot.c. */
#ifndef BELL_UOPS_TEXT_H
#define BELL_UOPS_TEXT_H

#include "base/growing_text.h"
#include "uops/uop.h"

/* Lower-case name of an op; `out` holds at least 24 bytes. */
void uop_op_name(enum uop_op op, char *out);

/* The node's op, dtype and arg: "reduce.f32x4 #add". */
void uop_text_head(struct text *t, const struct uop_graph *g,
                   const struct uop *u);

/* Names of the axis types of a RANGE, by enum uop_axis. */
extern const char *const uop_axis_names[UOP_AXIS_COUNT];

/* What the number in arg means, by op. */
enum uop_int_arg {
    UOP_INT_PLAIN,
    UOP_INT_RANGE,  /* uop_range_arg: #id:axis */
    UOP_INT_OP,     /* an op: #add */
    UOP_INT_OP_MASK /* uop_reduce_arg: #add:mask */
};
enum uop_int_arg uop_int_arg_of(enum uop_op op);

#endif
