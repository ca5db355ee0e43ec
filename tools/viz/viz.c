/* `doorbell viz`: a page of what became of a program. */
#include "tools/viz/viz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "doorbell/tensor.h"
#include "tools/eval/eval_expr.h"
#include "tools/inputs.h"
#include "base/json.h"
#include "tools/page.h"
#include "tools/tools.h"
#include "tools/viz_html.h"

#define WARM_RUNS 3 /* behind the first, for the timeline */

struct viz_options {
    struct tool_list command, in;
    const char *device, *math, *out;
    bool json;
};

/* ---- what the page is made of ---- */

/* Files that the program writes to. */
struct notes {
    char folder[64], lines[96], profile[96];
};

static bell_status
make_notes(struct notes *notes)
{
    const char *tmp = env_get("TMPDIR");

    if (!tmp || strlen(tmp) > 32)
        tmp = "/tmp";
    snprintf(notes->folder, sizeof(notes->folder), "%s/doorbell-viz-XXXXXX",
             tmp);
    if (!mkdtemp(notes->folder))
        return bell_fail(BELL_E_IO, "%s: %s", notes->folder, strerror(errno));
    snprintf(notes->lines, sizeof(notes->lines), "%s/lines", notes->folder);
    snprintf(notes->profile, sizeof(notes->profile), "%s/profile",
             notes->folder);
    return BELL_OK;
}

static void
remove_notes(const struct notes *notes)
{
    unlink(notes->lines);
    unlink(notes->profile);
    rmdir(notes->folder);
}

static void
set_environment(void *user)
{
    const struct notes *notes = user;

    setenv("BELL_DEBUG", VIZ_TOPICS, 1);
    setenv("BELL_DEBUG_FILE", notes->lines, 1);
    setenv("BELL_PROFILE", notes->profile, 1);
    setenv("BELL_CACHE", "off", 1); /* what is found compiled shows nothing */
}

/* ---- an expression ---- */

static bell_status
run_in(struct bell_context *ctx, const struct viz_options *options)
{
    char names[TOOL_LIST_MAX][TOOL_INPUT_NAME];
    struct eval_input inputs[TOOL_LIST_MAX];
    struct bell_tensor *result;
    size_t i, k, at;

    for (i = 0; i < options->in.n_items; i++)
        BELL_TRY(tool_make_input(ctx, options->in.items[i], true, names[i],
                                 &inputs[i]));
    for (k = 0; k <= WARM_RUNS; k++) {
        if (eval_expr(ctx, options->command.items[0], inputs,
                      options->in.n_items, &result, &at) != BELL_OK) {
            bell_error_prefix("column %zu", at + 1);
            return bell_error_last()->status;
        }
        BELL_TRY(bell_realize1(result));
        bell_tensor_release(result);
    }
    return BELL_OK;
}

static bell_status
run_viz_expression(const struct viz_options *options, struct notes *notes)
{
    struct bell_context *ctx;
    bell_status status;

    set_environment(notes);
    BELL_TRY(log_init());
    BELL_TRY(tool_open_context(options->device, options->math, &ctx));
    status = run_in(ctx, options);
    bell_context_destroy(ctx);
    return status;
}

/* ---- a program ---- */

static bell_status
run_viz_program(const struct viz_options *options, struct notes *notes)
{
    char *argv[TOOL_LIST_MAX + 1];
    int wait_status;
    size_t i;

    for (i = 0; i < options->command.n_items; i++)
        argv[i] = (char *)(uintptr_t)options->command.items[i];
    argv[i] = NULL;
    wait_status = tool_run(argv, set_environment, notes);
    if (wait_status == -1)
        return bell_fail(BELL_E_IO, "%s cannot be started", argv[0]);
    if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status))
        tool_eprintf("doorbell: %s ended with %s %d; the page shows it until "
                     "then\n",
                     argv[0], WIFEXITED(wait_status) ? "exit code" : "signal",
                     WIFEXITED(wait_status) ? WEXITSTATUS(wait_status)
                                            : WTERMSIG(wait_status));
    return BELL_OK;
}

/* ---- the page ---- */

static void
put_document(struct json *json, const struct viz_options *options,
             const struct viz *viz)
{
    char title[512] = "";
    size_t i, used = 0;

    for (i = 0; i < options->command.n_items && used < sizeof(title); i++)
        used += (size_t)snprintf(title + used, sizeof(title) - used, "%s%s",
                                 i ? " " : "", options->command.items[i]);
    json_str(json, "title", title);
    viz_put(viz, json);
}

static bell_status
write_viz_page(const struct viz_options *options, const struct notes *notes,
               struct json *json)
{
    struct page_document documents[] = {{.mark = "@VIZ@"},
                                        {.mark = "@PROFILE@"}};
    struct file_bytes profile = {0};
    bell_status status;

    documents[0].json = json_text(json);
    if (!documents[0].json)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    documents[0].n_bytes = json->n_bytes;
    documents[1].json = "null";
    documents[1].n_bytes = 4;
    if (access(notes->profile, R_OK) == 0) {
        BELL_TRY(file_read(notes->profile, &profile));
        documents[1].json = profile.data;
        documents[1].n_bytes = profile.size_bytes;
    }
    status = page_write(options->out, viz_html, documents, 2);
    file_bytes_fini(&profile);
    return status;
}

static bell_status
make_page(const struct viz_options *options, struct notes *notes,
          struct viz *viz)
{
    struct json json;
    bell_status status;

    json_init(&json);
    put_document(&json, options, viz);
    if (viz->failed)
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory");
    else
        status = write_viz_page(options, notes, &json);
    json_fini(&json);
    return status;
}

static int
run_viz(const struct viz_options *options, bool is_program)
{
    struct notes notes;
    struct viz viz = {0};
    struct json json;
    bell_status status;
    size_t i, n_rewrites = 0;

    if (make_notes(&notes) != BELL_OK)
        return tool_fail(options->json, bell_error_last()->status);
    status = is_program ? run_viz_program(options, &notes)
                        : run_viz_expression(options, &notes);
    if (status == BELL_OK && access(notes.lines, R_OK) == 0)
        status = viz_read(&viz, notes.lines);
    if (status == BELL_OK && !viz.n_kernels && !viz.n_graphs)
        status =
            bell_fail(BELL_E_INVALID, "%s: it made no kernel: nothing to show",
                      options->command.items[0]);
    if (status == BELL_OK)
        status = make_page(options, &notes, &viz);
    remove_notes(&notes);
    for (i = 0; i < viz.n_kernels; i++)
        n_rewrites += viz.kernels[i].n_rewrites;
    if (status != BELL_OK) {
        viz_fini(&viz);
        return tool_fail_input(options->json, status);
    }
    if (options->json) {
        json_init(&json);
        put_document(&json, options, &viz);
        viz_fini(&viz);
        return tool_print_json(&json);
    }
    tool_printf("%s: %zu graphs, %zu kernels, %zu rewrites\n", options->out,
                viz.n_graphs, viz.n_kernels, n_rewrites);
    viz_fini(&viz);
    return TOOL_OK;
}

int
verb_viz(int argc, char **argv)
{
    struct viz_options options = {.out = "viz.html"};
    const struct tool_opt opts[] = {
        {"EXPR", NULL, TOOL_OPT_LIST, &options.command, 0, 0,
         "as for `doorbell eval`; or behind --, a program and its arguments"},
        {"--in", "name=2x3:float32", TOOL_OPT_LIST, &options.in, 0, 0,
         "an input's shape and dtype, with random values; or name=FILE"},
        {"--out", "FILE", TOOL_OPT_STRING, &options.out, 0, 0,
         "the page (default: viz.html)"},
        {"--device", "DEVICE", TOOL_OPT_STRING, &options.device, 0, 0,
         "where to run (default: $BELL_DEVICE, or the first that works)"},
        TOOL_MATH_OPT(&options.math),
        TOOL_JSON_OPT(&options.json),
    };
    bool is_program = false;
    int code, i;

    code = tool_parse(
        "viz ['EXPR'] [--in name=SHAPE]... [options]\n"
        "       doorbell viz [--out FILE] -- PROGRAM ARGUMENT...\n\n"
        "Writes a page that shows what became of an expression, or of all "
        "that a program computes:\nthe graph of tensors, the schedule, each "
        "kernel's IR from pass to pass with every rewrite,\nits source and "
        "machine code, a timeline and memory:\n\n"
        "  doorbell viz 'softmax(x @ w)' --in x=64x128 --in w=128x32\n"
        "  doorbell viz -- doorbell demo mnist --steps 3",
        opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    for (i = 1; i < argc && !is_program; i++)
        is_program = strcmp(argv[i], "--") == 0;
    if (!options.command.n_items)
        return tool_usage(options.json, "viz: which EXPR, or -- PROGRAM?");
    if (!is_program && options.command.n_items > 1)
        return tool_usage(options.json, "viz: one EXPR; a program comes "
                                        "behind --");
    if (is_program && (options.in.n_items || options.device || options.math))
        return tool_usage(options.json,
                          "viz: --in, --device and --math go with an EXPR; a "
                          "program has its own");
    code = tool_check_math(options.json, "viz", options.math);
    return code == TOOL_GO_ON ? run_viz(&options, is_program) : code;
}
