/* Builds small linear programs by hand and runs them as machine code: shared
 * by the tests of rendering and of decompositions.
 *
 * Nodes are made in the order in which they are to run; a program is all
 * nodes under its roots, by id.
 */
#ifndef BELL_TESTS_UNIT_HOST_RUN_H
#define BELL_TESTS_UNIT_HOST_RUN_H

#include "hcq/cpu/cpu_object.h"
#include "lower/lower.h"
#include "render/render.h"

typedef void host_fn(const uint64_t *args, const uint32_t *grid, uint64_t first,
                     uint64_t last);

/* Compiled code in memory. */
struct host_code {
    struct cpu_object object;
    host_fn *fn;
};

/* ---- building ---- */

/* A node without simplification. */
const struct uop *mk(struct uop_graph *g, enum uop_op op, unsigned dtype,
                     unsigned lanes, int64_t arg, uint32_t n_src,
                     const struct uop *const *src);
const struct uop *mk_int(struct uop_graph *g, int64_t value); /* I64 */
const struct uop *mk_splat(struct uop_graph *g, const struct uop *u,
                           unsigned lanes);
const struct uop *mk_param(struct uop_graph *g, int64_t slot, unsigned dtype);
/* `gate` may be NULL, and then `other` is. */
const struct uop *mk_load(struct uop_graph *g, const struct uop *param,
                          const struct uop *index, unsigned lanes,
                          const struct uop *other, const struct uop *gate);
const struct uop *mk_store(struct uop_graph *g, const struct uop *param,
                           const struct uop *index, const struct uop *value,
                           const struct uop *gate);
/* END of `range` after one effect. */
const struct uop *mk_end(struct uop_graph *g, const struct uop *range,
                         const struct uop *effect);

/* The program of a list of roots; frees nothing, ops are host memory. */
void program_of(struct uop_graph *g, const struct uop *const *roots,
                uint32_t n_roots, struct lower_program *out_program);
/* With indices as GPUs have them (lower/index.c). */
void gpu_program_of(struct uop_graph *g, const struct uop *const *roots,
                    uint32_t n_roots, struct lower_program *out_program);
void program_free(struct lower_program *program);

/* ---- running ---- */

/* Renders and loads; a failure fails the test. */
void host_compile(const struct lower_program *program,
                  const struct lower_target *target,
                  struct host_code *out_code);
void host_release(struct host_code *code);
/* Runs the whole grid. */
void host_call(const struct host_code *code,
               const struct lower_program *program, void *const *bufs);

/* Memory whose end is the end of what may be touched: an access behind it
 * faults. Fails the test when there is none. */
void *guarded_alloc(size_t size_bytes);
void guarded_free(void *ptr, size_t size_bytes);

/* A repeatable random number. */
uint64_t next_random(uint64_t *state);

/* Some value of a dtype, with a liking for awkward ones. */
union uop_arg random_value(uint64_t *state, enum uop_dtype dtype);

/* Equal as results: bit for bit, except that NaNs are equal. */
bool same_value(enum uop_dtype dtype, union uop_arg a, union uop_arg b);

#endif
