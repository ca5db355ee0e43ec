/* libFuzzer target: the text form of graphs. Whatever the bytes, parsing ends
 * in an error or in a graph that validates or not, prints, and reads back as
 * the same nodes. A kernel is lowered, for a CPU and for a GPU: to a program,
 * or an error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "lower/lower.h"
#include "tests/fuzz/fuzz.h"

/* A parsed graph must print and read back as itself. */
static void
check_round_trip(struct uop_graph *g, const struct uop **roots, size_t n)
{
    const struct uop **back;
    size_t n_back, i;
    char *text;

    if (uop_print(g, roots, n, &text) != BELL_OK ||
        uop_parse(g, text, &back, &n_back) != BELL_OK || n_back != n)
        abort();
    for (i = 0; i < n; i++) {
        if (back[i] != roots[i])
            abort();
    }
    host_free(back);
    host_free(text);
}

static void
lower_anything(struct uop_graph *g, const struct uop *sink)
{
    static const struct lower_target targets[] = {
        {.name = "cpu",
         .vector_bytes = 32,
         .n_vector_regs = 16,
         .n_threads = 2,
         .l1_bytes = 32768,
         .l2_bytes = 1 << 20,
         .has_fma = true},
        {.name = "gpu",
         .is_gpu = true,
         .has_fma = true,
         .warp_lanes = 32,
         .n_units = 8,
         .max_threads = 1024,
         .max_regs = 255,
         .max_shared_bytes = 48 << 10,
         .l1_bytes = 65536,
         .l2_bytes = 1 << 22,
         .max_grid = {INT32_MAX, 65535, 65535}}};
    struct lower_program program;
    size_t i;

    for (i = 0; i < 2; i++) {
        bell_status status = lower_kernel(g, sink, &targets[i], &program);
        (void)status;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum uop_stage stages[] = {UOP_STAGE_T, UOP_STAGE_K,
                                            UOP_STAGE_P};
    char *text = malloc(size + 1), line[64];
    const struct uop **roots;
    struct uop_graph g;
    size_t n, i;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    uop_graph_init(&g);
    if (uop_parse(&g, text, &roots, &n) == BELL_OK) {
        check_round_trip(&g, roots, n);
        for (i = 0; i < 3; i++) {
            bell_status valid = uop_validate(&g, roots, n, stages[i]);
            (void)valid;
        }
        if (n == 1 && lower_check(&g, roots[0]) == BELL_OK)
            lower_anything(&g, roots[0]);
        for (i = 0; i < n; i++)
            uop_expr_str(roots[i], line, sizeof(line));
        fuzz_accept();
        host_free(roots);
    }
    uop_graph_fini(&g);
    free(text);
    return 0;
}
