/* What a context did and when, for BELL_PROFILE (a trace for Chrome's and
 * Perfetto's viewers) and BELL_DEBUG=kernels (a line per kernel, at the end):
 * calls, stages of compilation, kernels by the device's clock on the host's,
 * copies, memory. Each kernel is waited for while it is on. Belongs to the
 * runtime, and to its thread. What there is no memory for is left out, and
 * counted. */
#ifndef BELL_TENSOR_RUNTIME_PROFILE_H
#define BELL_TENSOR_RUNTIME_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct hcq_cs;
struct rt_kernel;
struct rt_job;
struct rt_profile;
struct tensor_runtime;

/* Sets rt->profile where the environment asks for one; else NULL. BELL_E_IO or
 * BELL_E_PERMISSION where its file cannot be written. */
BELL_MUST_CHECK bell_status rt_profile_create(struct tensor_runtime *rt);
/* Writes and tells what there is. NULL is allowed. */
void rt_profile_destroy(struct tensor_runtime *rt);

enum rt_profile_kind {
    RT_PROFILE_CALL,     /* what the program asked for */
    RT_PROFILE_SCHEDULE, /* a graph to kernels */
    RT_PROFILE_LOWER,    /* a kernel to a program */
    RT_PROFILE_CODE,     /* a program to machine code */
    RT_PROFILE_WRITE,    /* to the device */
    RT_PROFILE_READ,
    RT_PROFILE_KERNEL,
    RT_PROFILE_COUNT
};

/* A span that ends now, of the calling thread; `profile` may be NULL. */
void rt_profile_span(struct rt_profile *profile, enum rt_profile_kind kind,
                     const char *name, uint64_t start_ns, double n_bytes);
/* Both stages of a job that was compiled, on the thread that did. */
void rt_profile_job(struct rt_profile *profile, const struct rt_job *job);
/* A call begins: the kernels that follow are its own. */
void rt_profile_call(struct rt_profile *profile);
/* Around the exec of a kernel that is submitted alone. */
void rt_profile_before(struct rt_profile *profile, struct hcq_cs *cs);
void rt_profile_after(struct rt_profile *profile, struct hcq_cs *cs);
/* Kernel `number` of the runtime's is done; it was submitted at `start_ns`.
 * `text`: what it computes, a string that stays; or NULL. */
void rt_profile_kernel(struct rt_profile *profile,
                       const struct rt_kernel *kernel, size_t number,
                       const char *text, uint64_t start_ns);

#endif
