/* docs/reference/ir.md: its examples are parsed and valid in the stage that
 * they name, each op has one, and its tables are what ops.def says.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "uops/text.h"

static char *page;
static unsigned stages_of[UOP_OP_COUNT]; /* in which an example has the op */

static char *
read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size;
    char *text;

    if (!file || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
        return NULL;
    rewind(file);
    text = calloc(1, (size_t)size + 1);
    if (text && fread(text, 1, (size_t)size, file) != (size_t)size)
        text[0] = '\0';
    fclose(file);
    return text;
}

static unsigned
line_of(const char *at)
{
    unsigned n = 1;
    const char *p;

    for (p = page; p < at; p++)
        n += *p == '\n';
    return n;
}

/* One block of the page, "```ir T" and so on. */
static void
check_block(const char *begin, size_t n_bytes, enum uop_stage stage)
{
    const struct uop **roots, **list;
    struct uop_graph g;
    size_t n_roots, n, i;
    char *text = strndup(begin, n_bytes);

    assert_non_null(text);
    uop_graph_init(&g);
    if (uop_parse(&g, text, &roots, &n_roots) != BELL_OK ||
        uop_validate(&g, roots, n_roots, stage) != BELL_OK)
        fail_msg("the example in line %u: %s", line_of(begin),
                 bell_error_last()->message);
    assert_int_equal(uop_toposort(&g, roots, n_roots, &list, &n), BELL_OK);
    for (i = 0; i < n; i++)
        stages_of[list[i]->op] |= (unsigned)stage;
    host_free(list);
    host_free(roots);
    uop_graph_fini(&g);
    free(text);
}

static void
test_examples(void **state)
{
    static const char fence[] = "\n```ir ";
    const char *at = page, *end;
    unsigned op, n_missing = 0;

    (void)state;
    while ((at = strstr(at, fence))) {
        char letter = at[strlen(fence)];
        enum uop_stage stage = letter == 'T'   ? UOP_STAGE_T
                               : letter == 'K' ? UOP_STAGE_K
                                               : UOP_STAGE_P;

        at = strchr(at + strlen(fence), '\n');
        end = at ? strstr(at, "\n```") : NULL;
        assert_non_null(end);
        check_block(at, (size_t)(end - at), stage);
        at = end;
    }
    for (op = 0; op < UOP_OP_COUNT; op++) {
        if (!(stages_of[op] & uop_op_infos[op].flags))
            print_message("%s: no example\n", uop_op_infos[op].name);
        n_missing += !(stages_of[op] & uop_op_infos[op].flags);
    }
    assert_int_equal(n_missing, 0);
}

/* A row of the page's tables. */
static void
make_row(unsigned op, char *row, size_t size)
{
    static const char *const args[] = {[UOP_ARG_NONE] = "",
                                       [UOP_ARG_INT] = "integer",
                                       [UOP_ARG_CONST] = "number",
                                       [UOP_ARG_DIMS] = "integers",
                                       [UOP_ARG_DATA] = "an object"};
    const struct uop_op_info *info = &uop_op_infos[op];
    char name[24], sources[16], stages[8] = "";

    uop_op_name((enum uop_op)op, name);
    snprintf(stages, sizeof(stages), "%s%s%s",
             info->flags & UOP_FLAG_T ? "T" : "",
             info->flags & UOP_FLAG_K ? "K" : "",
             info->flags & UOP_FLAG_P ? "P" : "");
    if (info->max_src == 255)
        snprintf(sources, sizeof(sources), "%u or more", info->min_src);
    else if (info->max_src != info->min_src)
        snprintf(sources, sizeof(sources), "%u to %u", info->min_src,
                 info->max_src);
    else
        snprintf(sources, sizeof(sources), "%u", info->min_src);
    snprintf(row, size, "| `%s` | %s | %s | %s | %s |\n", name, stages, sources,
             args[info->arg_kind], info->doc);
}

static void
test_tables(void **state)
{
    unsigned op, n_missing = 0;
    char row[1200];

    (void)state;
    for (op = 0; op < UOP_OP_COUNT; op++) {
        make_row(op, row, sizeof(row));
        if (!strstr(page, row)) {
            print_message("missing: %s", row);
            n_missing++;
        }
    }
    assert_int_equal(n_missing, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_tables),
    };
    int rc;

    page = read_file(IR_PAGE);
    if (!page) {
        fprintf(stderr, "%s: cannot be read\n", IR_PAGE);
        return 1;
    }
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(page);
    return rc;
}
