/* The cases of this folder with one renderer.
 *
 * usage: render llvm-host | llvm-amdgpu | ptx | ir3 | cl [PROGRAMS]
 * PROGRAMS: so many random programs, and nothing else
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "render_check.h"

static const struct backend *const backends[] = {
#if BELL_HAVE_LLVM
    &backend_host,
#if BELL_HAVE_SIM
    &backend_amdgpu,
#endif
#endif
#if BELL_HAVE_SIM
    &backend_ir3,    &backend_ptx,
#endif
#if BELL_HAVE_CL
    &backend_cl,
#endif
};

static void
test_finish(void **state)
{
    (void)state;
    backend->finish();
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest last[] = {cmocka_unit_test(test_finish)};
    int n_failed = 0;
    size_t i;

    for (i = 0; i < ARRAY_LEN(backends); i++) {
        if ((argc == 2 || argc == 3) && !strcmp(argv[1], backends[i]->name))
            backend = backends[i];
    }
    if (!backend) {
        fprintf(stderr, "usage: render RENDERER, of this build's:");
        for (i = 0; i < ARRAY_LEN(backends); i++)
            fprintf(stderr, " %s", backends[i]->name);
        fprintf(stderr, "\n");
        return 2;
    }
    if (backend->open && !backend->open()) {
        printf("%s\n", bell_error_last()->message);
        return 77;
    }
    if (argc == 3)
        return random_cases(strtoull(argv[2], NULL, 10)) > 0;
    n_failed += ops_cases();
    n_failed += memory_cases();
    n_failed += kernel_cases();
    n_failed += cmocka_run_group_tests_name("last", last, NULL, NULL);
    return n_failed > 0;
}
