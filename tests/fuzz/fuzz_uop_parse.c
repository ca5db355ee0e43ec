/* libFuzzer target: the text form of graphs. Whatever the bytes, parsing ends
 * in an error or in a graph that validates or not, prints, and reads back as
 * the same nodes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "uops/uop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was parsed must print and read back as itself. */
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
        for (i = 0; i < n; i++)
            uop_expr_str(roots[i], line, sizeof(line));
        host_free(roots);
    }
    uop_graph_fini(&g);
    free(text);
    return 0;
}
