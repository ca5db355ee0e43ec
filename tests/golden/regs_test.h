/* What `tools/hwgen.py --test` makes of a specification: each packer behind
 * one signature, so that one test can go through all of them.
 *
 * Values come in the order of the struct's members, arrays element by
 * element; ints are sign-extended to 64 bits. */
#ifndef BELL_TESTS_GOLDEN_REGS_TEST_H
#define BELL_TESTS_GOLDEN_REGS_TEST_H

#include <stdint.h>

#include "hcq/regs.h"

struct regs_test {
    const struct regs_unit *unit;
    unsigned type_idx;
    const char *(*check)(unsigned gen, const uint64_t *values);
    bell_status (*try_pack)(unsigned gen, const uint64_t *values, uint32_t *w);
    void (*pack)(unsigned gen, const uint64_t *values, uint32_t *w);
    void (*unpack)(unsigned gen, const uint32_t *w, uint64_t *values);
};

extern const struct regs_test amd_object_tests[], amd_pm4_tests[],
    amd_sdma_tests[], nv_ce_tests[], nv_compute_tests[], nv_host_tests[],
    nv_qmd_tests[], qcom_cp_tests[], regs_sample_tests[];
extern const unsigned amd_object_n_tests, amd_pm4_n_tests, amd_sdma_n_tests,
    nv_ce_n_tests, nv_compute_n_tests, nv_host_n_tests, nv_qmd_n_tests,
    qcom_cp_n_tests, regs_sample_n_tests;

#endif
