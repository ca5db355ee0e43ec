/* Labels: names of a program's parts, for profiles and debug output.
 *
 *     bell_label_begin(ctx, "encoder.block 3");
 *     y = bell_softmax(bell_matmul(x, w), -1);
 *     bell_label_end(ctx);
 *
 * A kernel that computes y is then "encoder.block 3: matmul, softmax" in
 * BELL_PROFILE, `doorbell profile`, `doorbell viz`, and BELL_DEBUG=exec, sched,
 * sync and kernels. Labels nest: "encoder/block 3". A gradient has the label of
 * what it is the gradient of: "encoder.block 3: gradient of matmul".
 *
 * A label is of the calls between begin and end, whenever what they return is
 * computed. Equal expressions are one node of the graph, which keeps the label
 * that it was first made under. A kernel that does the work of several labels
 * has the innermost one around all of them, and its functions' names, three at
 * most. What a jit captured keeps the labels of the capture. A label changes no
 * kernel: graphs that differ in labels alone share their plans and their code.
 *
 * Labels are recorded in a context that was made while BELL_PROFILE is set or
 * BELL_DEBUG has one of these topics. In others a label is only counted. A
 * replay of a jit does nothing for labels.
 *
 * Threads. As the calls of tensor.h: a context's labels are for the thread that
 * uses it, and go with it from thread to thread.
 */
#ifndef BELL_DOORBELL_LABEL_H
#define BELL_DOORBELL_LABEL_H

#include "doorbell/module.h"
#include "doorbell/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_context;

/* The longest label that bell_label_begin takes, in bytes, and how many
 * different ones a context records; later ones count as the label around them.
 * Nested labels are shown up to 255 bytes, the last two of which are ".." if
 * there are more. */
#define BELL_LABEL_BYTES 63
#define BELL_LABELS      65536

/* Opens a label inside the innermost one. The text is copied; what is not
 * printable ASCII is shown as '?'. BELL_E_INVALID: NULL, empty or longer than
 * BELL_LABEL_BYTES; then nothing is opened. */
BELL_API bell_status bell_label_begin(struct bell_context *ctx,
                                      const char *label);
/* Ends the innermost label. BELL_E_INVALID: none is open; in the function of a
 * jit or of bell_custom, none that was opened there. What such a function
 * leaves open ends with it. */
BELL_API bell_status bell_label_end(struct bell_context *ctx);

/* From now on each layer of nn.h in `module`, of that type, opens a label of
 * its own while it is applied: `label` and its place in the module, joined by a
 * point, as in the names of its parameters: "encoder.layers.0.linear1". `label`
 * may be NULL or empty. Labels of layers do not nest in each other. A layer
 * with neither weight nor bias has none. BELL_E_INVALID: `type` or `module` is
 * NULL, or a name has more than 255 bytes. */
BELL_API BELL_MUST_CHECK bell_status bell_module_label(
    const struct bell_module_type *type, const void *module, const char *label);

#ifdef __cplusplus
}
#endif
#endif
