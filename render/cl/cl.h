/* OpenCL: from a linear program to OpenCL C 1.2, as text.
 *
 * The text is deterministic: the same program and target give the same bytes.
 * What runs it compiles it; nothing of OpenCL is needed here. A kernel takes,
 * for each PARAM, the memory object and the offset in bytes in it at which
 * the buffer begins (global uchar *b0, ulong o0, ...), then its VARs, each a
 * long: so it does on devices without addresses that the host knows.
 *
 * Arithmetic is exact (rounded once, to nearest) where the device rounds
 * quotients and roots correctly; functions are those that lowering makes of
 * EXP2 and the like, never the device's. Floats of 16 bits are computed in
 * F32 and converted by vload_half and vstore_half, which every device has.
 * Thread safe.
 */
#ifndef BELL_RENDER_CL_CL_H
#define BELL_RENDER_CL_CL_H

#include "lower/lower.h"
#include "render/render.h"

/* What text is made for. Plain data. */
struct cl_target {
    bool has_f64; /* double (cl_khr_fp64) */
    bool has_fma; /* fma() of floats is one instruction */
};

/* The target of a device by the name that hcq/cl gives it: "cl12", behind it
 * what it has, "+fma" and "+fp64". False: no such name. */
bool render_cl_target(const char *arch, struct cl_target *out_target);

/* What lowering may leave for such a target. */
void render_cl_lower_target(const struct cl_target *target,
                            struct lower_target *out_target);

/* One kernel, program->name, as OpenCL C; host_free it. BELL_E_UNSUPPORTED
 * names what the device lacks. */
BELL_MUST_CHECK bell_status render_cl(const struct lower_program *program,
                                      const struct cl_target *target,
                                      char **out_text);

#endif
