/* Kernels for the tests of lower/, built by hand, with buffers to run them.
 */
#ifndef BELL_TESTS_UNIT_LOWER_KERNELS_H
#define BELL_TESTS_UNIT_LOWER_KERNELS_H

#include "p_interp.h"

#define LK_MAX_BUFS 8

/* A kernel and its arguments. */
struct lk {
    struct uop_graph g;
    const struct uop *sink;
    struct p_buf bufs[LK_MAX_BUFS];
    int64_t
        int_max[LK_MAX_BUFS]; /* integer inputs are 0..int_max, else -4..4 */
    bool is_output[LK_MAX_BUFS];
    bool is_input[LK_MAX_BUFS]; /* perhaps of an output, too */
    size_t n_bufs;
    uint32_t n_ranges;
    double tolerance; /* relative; 0: exact */
};

/* One kind of kernel; sizes are d[0], d[1], d[2]. */
struct lk_case {
    const char *name;
    void (*build)(struct lk *k, const int64_t *d);
    uint32_t n_dims;
};

extern const struct lk_case lk_cases[];
extern const size_t lk_n_cases;

/* The kernel of that name; there must be one. */
const struct lk_case *lk_find(const char *name);

/* Builds the kernel alone; bufs[].data stay NULL. lk_fini frees it. */
void lk_build(struct lk *k, const struct lk_case *c, const int64_t *d);

/* Builds the kernel, allocates the buffers and fills the inputs from `seed`.
 * lk_fini frees everything. */
void lk_init(struct lk *k, const struct lk_case *c, const int64_t *d,
             uint64_t seed);
void lk_fini(struct lk *k);

/* A second set of the outputs' buffers (inputs are shared). */
void lk_copy_bufs(const struct lk *k, struct p_buf *out);
void lk_free_copy(const struct lk *k, struct p_buf *copy);

/* Largest difference of the outputs in units of the tolerance, as text in
 * `err` where it is above 1. 0 or -1. */
int lk_compare(const struct lk *k, const struct p_buf *want,
               const struct p_buf *got, char *err, size_t err_bytes);

/* Random numbers: SplitMix64. */
uint64_t lk_random(uint64_t *state);

#endif
