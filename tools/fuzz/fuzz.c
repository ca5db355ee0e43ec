/* `doorbell fuzz`: the verb. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "tools/fuzz/fuzz.h"
#include "tools/fuzz/oracle.h"
#include "base/json.h"
#include "tools/tools.h"

/* A fresh context after so many programs, so that memory stays bounded. */
#define PROGRAMS_PER_CONTEXT 64
/* The same of programs with two symbols, which a context has few of. */
#define PROGRAMS_OF_SYMBOLS 15
/* Every so many programs one checks gradients, one runs them. */
#define GRAD_EVERY 8

struct fuzz_options {
    const char *device, *function, *dump;
    int64_t programs, seed, max_ops, index;
    bool json, grad, vary, jit, symbols, each, print, failing_memory, mesh;
};

struct fuzz_state {
    struct fuzz_options opts;
    struct bell_context *ctx;
    struct fuzz_program prog;
    struct fuzz_verdict verdict;
    uint64_t n_programs, n_grad_checks, n_mismatches, n_calls;
    uint64_t n_compared, n_unstable, n_refused;
    /* --symbols: programs with a result of the size of a symbol; compared with
     * plain sizes to the bit; of which no plan for all values can be made */
    uint64_t n_sized, n_to_the_bit, n_unplanned;
    bool checked[FUZZ_MAX_OPS]; /* --grad: by op, whether a check said yes */
    bool lacks_f64;             /* the device */
    /* --each: calls with each kind of shapes; those with fewer than three */
    uint64_t n_shaped[FUZZ_SHAPES_COUNT], n_few;
    char few[200]; /* of their names */
    struct oracle_run oracle;
    /* --each: functions without a row of the oracle; those known to have
     * none */
    uint64_t n_undefined;
    uint64_t start_ns;
    char first_what[400]; /* of the first mismatch */
    int64_t first_index;
};

/* Says how to see it again, shrinks it, prints it as C on stdout (with --json
 * on stderr). */
static BELL_MUST_CHECK bell_status
report_failure(struct fuzz_state *s, int64_t index, fuzz_check_fn *check)
{
    char title[600];

    tool_progress(NULL);
    if (s->n_mismatches++ == 0) {
        memcpy(s->first_what, s->verdict.what, sizeof(s->first_what));
        s->first_index = index;
    }
    tool_eprintf("program %" PRId64 ": %s\n", index, s->verdict.what);
    if (s->verdict.lost)
        BELL_TRY(fuzz_fresh_context(&s->ctx, s->opts.device));
    BELL_TRY(
        fuzz_shrink(&s->ctx, s->opts.device, check, &s->prog, &s->verdict));
    snprintf(title, sizeof(title),
             "doorbell fuzz %s --seed %" PRId64 " --programs 1 --index %" PRId64
             "%s%s: %s",
             bell_context_device(s->ctx), s->opts.seed, index,
             s->opts.mesh ? " --mesh" : "",
             s->opts.grad      ? " --grad"
             : s->opts.vary    ? " --vary"
             : s->opts.jit     ? " --jit"
             : s->opts.symbols ? " --symbols"
             : s->opts.each    ? " --each"
                               : "",
             s->verdict.what);
    return fuzz_print_c(s->opts.json ? stderr : stdout, s->ctx, &s->prog,
                        title);
}

/* --mesh: a third of the leaves and values are split along any axis, by each
 * axis of the mesh. */
static void
draw_layouts(struct fuzz_program *prog, bool has_two_axes)
{
    uint64_t at;
    uint32_t i, k;

    for (i = 0; i < prog->n_nodes; i++) {
        for (k = 0; k < 1u + has_two_axes; k++) {
            at = hash_add(prog->seed, 0x6d657368 + (uint64_t)i + k * 0x100000);
            prog->nodes[i].split[k] = at % 3 ? 0 : (uint8_t)(1 + at / 3 % 12);
        }
    }
}

static BELL_MUST_CHECK bell_status
run_check(struct fuzz_state *s, int64_t index, fuzz_check_fn *check)
{
    char title[64];

    if (s->opts.mesh)
        draw_layouts(&s->prog, fuzz_has_two_axes(s->ctx));
    if (s->opts.print) {
        snprintf(title, sizeof(title), "program %" PRId64 " of seed %" PRId64,
                 index, s->opts.seed);
        return fuzz_print_c(stdout, s->ctx, &s->prog, title);
    }
    BELL_TRY(check(s->ctx, &s->prog, &s->verdict));
    s->n_calls += s->prog.n_nodes;
    s->n_compared += s->verdict.n_compared;
    s->n_unstable += s->verdict.n_unstable;
    s->n_refused += s->verdict.refused;
    s->n_sized += s->verdict.is_sized;
    s->n_to_the_bit += s->verdict.to_the_bit;
    s->n_unplanned += s->verdict.unplanned;
    if (s->verdict.unplanned)
        tool_eprintf("program %" PRId64 ": no plan: %s\n", index,
                     s->verdict.what);
    if (s->verdict.failed)
        return report_failure(s, index, check);
    return BELL_OK;
}

/* The op's number. */
static int
find_op(const char *name)
{
    size_t n = fuzz_op_count(), i = 0;

    for (; i < n; i++) {
        const char *its = fuzz_op_at(i)->to.name;
        if (its && strcmp(its, name) == 0)
            break;
    }
    return i < n ? (int)i : -1;
}

/* Program `index` of the default run: every eighth checks gradients in
 * float64 where there is that, every eighth computes gradients on the device;
 * of these every fourth those of attention, which has kernels for them. */
static BELL_MUST_CHECK bell_status
run_fuzz_program(struct fuzz_state *s, int64_t index)
{
    uint64_t seed = hash_add((uint64_t)s->opts.seed, (uint64_t)index);
    bool check_grad = index % GRAD_EVERY == GRAD_EVERY - 1;
    bool attend = index % (4 * GRAD_EVERY) == 4 * GRAD_EVERY - GRAD_EVERY / 2;

    check_grad = check_grad && !s->lacks_f64;
    BELL_TRY(fuzz_generate(s->ctx, seed,
                           check_grad ? 5
                           : attend   ? 1
                                      : (uint32_t)s->opts.max_ops,
                           check_grad, s->lacks_f64,
                           attend ? find_op("bell_scaled_dot_product_attention")
                                  : -1,
                           FUZZ_SHAPES_ANY, &s->prog));
    if (s->prog.n_roots == 0)
        return BELL_OK;
    if (check_grad) {
        s->n_grad_checks++;
        return run_check(s, index, fuzz_check_grad);
    }
    if (index % GRAD_EVERY == GRAD_EVERY / 2)
        s->prog.n_grads = attend ? 3 : 2;
    s->prog.is_squared = attend;
    return run_check(s, index, fuzz_run);
}

/* Program `index` of a run with --grad: one differentiable op after the
 * other, alone. */
static BELL_MUST_CHECK bell_status
run_grad_program(struct fuzz_state *s, int64_t index)
{
    uint64_t seed = hash_add((uint64_t)s->opts.seed, (uint64_t)index);
    size_t n = fuzz_op_count(), k, op = 0, skip;

    skip = (size_t)index;
    for (k = 0; k < n; k++)
        op += fuzz_op_at(k)->differentiable;
    skip %= op;
    for (op = 0; !fuzz_op_at(op)->differentiable || skip-- > 0; op++)
        ;
    BELL_TRY(fuzz_generate(s->ctx, seed, 1, true, false, (int)op,
                           FUZZ_SHAPES_ANY, &s->prog));
    if (s->prog.n_roots == 0)
        return BELL_OK;
    s->n_grad_checks++;
    BELL_TRY(run_check(s, index, fuzz_check_grad));
    if (!s->verdict.failed && s->verdict.n_compared > 0)
        s->checked[op] = true;
    return BELL_OK;
}

/* Program `index` of a run with --vary, --jit or --symbols: as one of the
 * default run that is not a check of gradients. */
static BELL_MUST_CHECK bell_status
run_again_program(struct fuzz_state *s, int64_t index, fuzz_check_fn *check)
{
    BELL_TRY(fuzz_generate(
        s->ctx, hash_add((uint64_t)s->opts.seed, (uint64_t)index),
        (uint32_t)s->opts.max_ops, false, s->lacks_f64, -1,
        s->opts.symbols ? FUZZ_SHAPES_SYMBOLS : FUZZ_SHAPES_ANY, &s->prog));
    if (s->prog.n_roots == 0)
        return BELL_OK;
    if (index % GRAD_EVERY == GRAD_EVERY / 2)
        s->prog.n_grads = 2;
    return run_check(s, index, check);
}

/* Program `index` of a run with --each: the call of that number with odd sizes,
 * with empty ones, with shapes that broadcast and with any, where there are
 * such; and the gradients by its operands. */
static BELL_MUST_CHECK bell_status
run_each_program(struct fuzz_state *s, int64_t index)
{
    static const enum fuzz_shapes kinds[] = {FUZZ_SHAPES_ODD, FUZZ_SHAPES_EMPTY,
                                             FUZZ_SHAPES_SPREAD,
                                             FUZZ_SHAPES_ANY};
    int op = 1 + (int)(index % (int64_t)(fuzz_op_count() - 1));
    uint64_t seed = hash_add((uint64_t)s->opts.seed, (uint64_t)index);
    uint64_t seen[ARRAY_LEN(kinds)];
    uint32_t n_seen = 0, k;
    bool refused = false;

    for (k = 0; k < ARRAY_LEN(kinds) && n_seen < 3; k++) {
        enum fuzz_shapes shapes = kinds[k];
        BELL_TRY(fuzz_make_one(s->ctx, hash_add(seed, k), op, s->lacks_f64,
                               seen, n_seen, &shapes, &s->prog));
        if (s->prog.n_roots == 0)
            continue;
        s->prog.n_grads = fuzz_op_at((size_t)op)->differentiable ? 3 : 0;
        BELL_TRY(run_check(s, index, fuzz_run));
        if (s->verdict.failed)
            return BELL_OK;
        refused |= s->verdict.refused;
        if (s->verdict.invalid || s->opts.print)
            continue;
        seen[n_seen++] = fuzz_hash_shapes(&s->prog);
        s->n_shaped[shapes]++;
    }
    if (n_seen < 3 && !refused && !s->opts.print) {
        size_t n = strlen(s->few);
        snprintf(s->few + n, sizeof(s->few) - n, "%s%s", n ? ", " : "",
                 fuzz_op_at((size_t)op)->spec
                     ? fuzz_op_at((size_t)op)->spec
                     : fuzz_op_at((size_t)op)->to.name);
        s->n_few++;
    }
    return BELL_OK;
}

/* --each: every function of the table, or the one asked for, by the oracle. */
static BELL_MUST_CHECK bell_status
run_oracle(struct fuzz_state *s)
{
    size_t i, n = bell_function_count();

    s->oracle.quiet = s->opts.json;
    s->oracle.lacks_f64 = s->lacks_f64;
    s->oracle.ctx = s->ctx;
    BELL_TRY(oracle_ask_flushes(&s->oracle));
    for (i = 0; i < n; i++) {
        const char *name = bell_function_at(i)->name;
        const struct oracle_row *row = oracle_find(name);
        if (s->opts.function && strcmp(s->opts.function, name) != 0)
            continue;
        tool_progress("function %zu of %zu, %s, %" PRIu64 " calls differ", i, n,
                      name, s->oracle.report.n_differ);
        if (!row) {
            tool_eprintf("%s has no definition\n", name);
            s->n_undefined++;
            continue;
        }
        BELL_TRY(fuzz_fresh_context(&s->ctx, s->opts.device));
        s->oracle.ctx = s->ctx;
        BELL_TRY(s->opts.failing_memory ? oracle_check_memory(&s->oracle, row)
                                        : oracle_check(&s->oracle, row));
    }
    tool_progress(NULL);
    return BELL_OK;
}

/* The same, into a file. */
static BELL_MUST_CHECK bell_status
dump_oracle(struct fuzz_state *s)
{
    const char *path = s->opts.dump;
    bell_status status;
    bool failed;

    s->oracle.dump = fopen(path, "we");
    if (!s->oracle.dump)
        return bell_fail(BELL_E_IO, "%s: %s", path, strerror(errno));
    status = run_oracle(s);
    failed = ferror(s->oracle.dump) != 0;
    failed |= fclose(s->oracle.dump) != 0;
    if (status == BELL_OK && failed)
        status = bell_fail(BELL_E_IO, "%s: cannot be written", path);
    return status;
}

static BELL_MUST_CHECK bell_status
run_programs(struct fuzz_state *s)
{
    int64_t first = s->opts.index >= 0 ? s->opts.index : 0, i;

    BELL_TRY(fuzz_fresh_context(&s->ctx, s->opts.device));
    BELL_TRY(fuzz_ask_f64(s->ctx, &s->lacks_f64));
    if (s->opts.each && !s->opts.print && s->opts.index < 0)
        BELL_TRY(s->opts.dump ? dump_oracle(s) : run_oracle(s));
    if (s->opts.function || s->opts.failing_memory || s->opts.dump)
        return BELL_OK;
    for (i = 0; i < s->opts.programs; i++) {
        if (i % (s->opts.symbols ? PROGRAMS_OF_SYMBOLS
                                 : PROGRAMS_PER_CONTEXT) ==
            0)
            BELL_TRY(fuzz_fresh_context(&s->ctx, s->opts.device));
        tool_progress("program %" PRId64 " of %" PRId64 ", %" PRIu64
                      " mismatches",
                      i, s->opts.programs, s->n_mismatches);
        BELL_TRY(s->opts.grad ? run_grad_program(s, first + i)
                 : s->opts.vary
                     ? run_again_program(s, first + i, fuzz_check_vary)
                 : s->opts.jit ? run_again_program(s, first + i, fuzz_check_jit)
                 : s->opts.symbols
                     ? run_again_program(s, first + i, fuzz_check_symbols)
                 : s->opts.each ? run_each_program(s, first + i)
                                : run_fuzz_program(s, first + i));
        s->n_programs++;
    }
    tool_progress(NULL);
    return BELL_OK;
}

/* Differentiable calls, and how many of them were found right. */
static void
count_checked(const struct fuzz_state *s, uint64_t *out_n, uint64_t *out_all)
{
    size_t i;

    *out_n = *out_all = 0;
    for (i = 0; i < fuzz_op_count() && i < FUZZ_MAX_OPS; i++) {
        *out_n += s->checked[i];
        *out_all += fuzz_op_at(i)->differentiable;
    }
}

/* --each: functions of the table that no op calls; those without a reason. */
static uint64_t
print_left_out(const struct fuzz_state *s)
{
    uint64_t n_missing = 0, n_left = 0;
    FILE *out = s->opts.json ? stderr : stdout;
    const char *reason;
    size_t i;

    for (i = 0; i < bell_function_count(); i++) {
        const struct bell_function *f = bell_function_at(i);
        if (fuzz_covers(f, &reason))
            continue;
        n_left += reason != NULL;
        n_missing += !reason;
        fprintf(out, "%s is left out: %s\n", f->name,
                reason ? reason : "nothing calls it");
    }
    if (!s->opts.json)
        tool_printf(
            "%zu functions, %" PRIu64 " left out, %" PRIu64
            " missing; calls: %" PRIu64 " of odd sizes, %" PRIu64
            " of empty tensors, %" PRIu64 " that broadcast, %" PRIu64 " more\n",
            bell_function_count(), n_left, n_missing,
            s->n_shaped[FUZZ_SHAPES_ODD], s->n_shaped[FUZZ_SHAPES_EMPTY],
            s->n_shaped[FUZZ_SHAPES_SPREAD], s->n_shaped[FUZZ_SHAPES_ANY]);
    if (s->n_few)
        fprintf(out, "with fewer than three shapes: %s\n", s->few);
    return n_missing + s->n_few;
}

static int
print_fuzz_summary(struct fuzz_state *s)
{
    double seconds = (double)(time_now_ns() - s->start_ns) * 1e-9;
    const struct oracle_report *oracle = &s->oracle.report;
    bool differs = s->n_mismatches || oracle->n_differ || s->n_undefined;
    int code = differs ? TOOL_FAILED : TOOL_OK, printed;
    uint64_t n_checked, n_all;
    struct json json;

    if (!s->opts.json && oracle->n_rows)
        tool_printf("%" PRIu64 " functions by their definitions, %" PRIu64
                    " more without one, %" PRIu64 " calls (%" PRIu64
                    " refused), %" PRIu64 " points: %" PRIu64 " calls differ\n",
                    oracle->n_rows, s->n_undefined, oracle->n_calls,
                    oracle->n_refused, oracle->n_points, oracle->n_differ);
    if (s->opts.function || s->opts.failing_memory || s->opts.dump)
        return code;
    if (s->opts.each && print_left_out(s) > 0)
        code = TOOL_FAILED;
    count_checked(s, &n_checked, &n_all);

    if (!s->opts.json && s->opts.grad)
        tool_printf("%" PRIu64 " of %" PRIu64 " differentiable calls checked\n",
                    n_checked, n_all);
    if (!s->opts.json && s->n_refused)
        tool_printf("%" PRIu64
                    " programs refused by a device without float64, which "
                    "they compute in\n",
                    s->n_refused);
    if (!s->opts.json && s->opts.symbols)
        tool_printf("%" PRIu64 " programs with a result of the size of a "
                    "symbol, %" PRIu64 " compared with plain sizes to the bit, "
                    "%" PRIu64 " without a plan for all sizes\n",
                    s->n_sized, s->n_to_the_bit, s->n_unplanned);
    if (!s->opts.json) {
        tool_printf("%" PRIu64 " programs (%" PRIu64 " of gradients), %" PRIu64
                    " calls, %" PRIu64 " elements compared, %" PRIu64
                    " too ill-conditioned, %.1f s: %" PRIu64 " mismatches\n",
                    s->n_programs, s->n_grad_checks, s->n_calls,
                    s->n_compared - s->n_unstable, s->n_unstable, seconds,
                    s->n_mismatches);
        return code;
    }
    json_init(&json);
    json_str(&json, "device", bell_context_device(s->ctx));
    json_int(&json, "seed", s->opts.seed);
    json_uint(&json, "programs", s->n_programs);
    json_uint(&json, "gradient_checks", s->n_grad_checks);
    json_uint(&json, "calls", s->n_calls);
    json_uint(&json, "elements_compared", s->n_compared - s->n_unstable);
    json_uint(&json, "elements_ill_conditioned", s->n_unstable);
    json_uint(&json, "refused", s->n_refused);
    if (s->opts.grad) {
        json_uint(&json, "differentiable", n_all);
        json_uint(&json, "differentiable_checked", n_checked);
    }
    if (s->opts.symbols) {
        json_uint(&json, "sized", s->n_sized);
        json_uint(&json, "to_the_bit", s->n_to_the_bit);
        json_uint(&json, "unplanned", s->n_unplanned);
    }
    if (s->opts.each) {
        json_uint(&json, "odd", s->n_shaped[FUZZ_SHAPES_ODD]);
        json_uint(&json, "empty", s->n_shaped[FUZZ_SHAPES_EMPTY]);
        json_uint(&json, "broadcast", s->n_shaped[FUZZ_SHAPES_SPREAD]);
        json_uint(&json, "defined", oracle->n_rows);
        json_uint(&json, "undefined", s->n_undefined);
        json_uint(&json, "points", oracle->n_points);
        json_uint(&json, "calls_differ", oracle->n_differ);
    }
    json_num(&json, "time_s", seconds);
    json_uint(&json, "mismatches", s->n_mismatches);
    if (s->n_mismatches) {
        json_int(&json, "first_index", s->first_index);
        json_str(&json, "first_mismatch", s->first_what);
    } else {
        json_null(&json, "first_index");
        json_null(&json, "first_mismatch");
    }
    printed = tool_print_json(&json);
    return printed == TOOL_OK ? code : printed;
}

int
verb_fuzz(int argc, char **argv)
{
    static const char about[] =
        "fuzz [DEVICE] [--programs N] [--seed S] [options]\n"
        "random tensor programs, compared with a reference in double "
        "precision;\na failing one is shrunk and printed as a C program";
    struct fuzz_state *s = host_calloc(1, sizeof(*s));
    bell_status status;
    int code;

    if (!s)
        return tool_fail_text(tool_asks_for_json(argc, argv), BELL_E_NO_MEMORY,
                              "out of memory");
    s->opts = (struct fuzz_options){.seed = 1, .max_ops = 12, .index = -1};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &s->opts.device, 0, 0,
         "where to run, CPU for example"},
        {"--programs", "N", TOOL_OPT_INT, &s->opts.programs, 1, 1000000000,
         "how many; 100, with --each as many as there are calls"},
        {"--seed", "S", TOOL_OPT_INT, &s->opts.seed, INT64_MIN, INT64_MAX,
         "of all of them; 1"},
        {"--index", "I", TOOL_OPT_INT, &s->opts.index, 0, INT64_MAX / 2,
         "begin with program I of that seed"},
        {"--max-ops", "K", TOOL_OPT_INT, &s->opts.max_ops, 1, 40,
         "most calls of a program; 12"},
        {"--grad", NULL, TOOL_OPT_FLAG, &s->opts.grad, 0, 0,
         "only gradients: each differentiable call in turn, against finite "
         "differences"},
        {"--vary", NULL, TOOL_OPT_FLAG, &s->opts.vary, 0, 0,
         "each program three times, with other numbers and offsets: every run "
         "gives what it gives alone, to the bit"},
        {"--jit", NULL, TOOL_OPT_FLAG, &s->opts.jit, 0, 0,
         "each program captured, and run three times with other data"},
        {"--symbols", NULL, TOOL_OPT_FLAG, &s->opts.symbols, 0, 0,
         "sizes of one or two symbols: each program with three values of them, "
         "by one plan, which gives what plain sizes give"},
        {"--mesh", NULL, TOOL_OPT_FLAG, &s->opts.mesh, 0, 0,
         "leaves and values split at random among the devices: CPU:0,CPU:1"},
        {"--each", NULL, TOOL_OPT_FLAG, &s->opts.each, 0, 0,
         "each call in turn, alone, with odd sizes, empty ones and shapes that "
         "broadcast, and its gradients; fails where a function is left out"},
        {"--function", "NAME", TOOL_OPT_STRING, &s->opts.function, 0, 0,
         "with --each: that function alone, by its definition"},
        {"--failing-memory", NULL, TOOL_OPT_FLAG, &s->opts.failing_memory, 0, 0,
         "with --each: one call of each function and its gradients, while each "
         "allocation in turn fails"},
        {"--dump", "FILE", TOOL_OPT_STRING, &s->opts.dump, 0, 0,
         "with --each: write what is called by its definition, and what comes "
         "out, there for other judges"},
        {"--print", NULL, TOOL_OPT_FLAG, &s->opts.print, 0, 0,
         "with --index: print that program as C, run nothing"},
        {"--json", NULL, TOOL_OPT_FLAG, &s->opts.json, 0, 0,
         "one JSON document on stdout; failing programs on stderr"},
    };
    code = tool_parse(about, opts, ARRAY_LEN(opts), argc, argv);
    if (code == TOOL_GO_ON && s->opts.grad + s->opts.vary + s->opts.jit +
                                      s->opts.symbols + s->opts.each >
                                  1)
        code = tool_usage(s->opts.json,
                          "fuzz: --grad, --vary, --jit, --symbols or --each");
    if (code == TOOL_GO_ON && s->opts.mesh && s->opts.symbols)
        code = tool_usage(s->opts.json, "fuzz: --mesh with --symbols, which "
                                        "are for one device");
    if (code == TOOL_GO_ON && s->opts.failing_memory && !s->opts.each)
        code = tool_usage(s->opts.json, "fuzz: --failing-memory needs --each");
    if (code == TOOL_GO_ON && s->opts.failing_memory && s->opts.dump)
        code = tool_usage(s->opts.json,
                          "fuzz: --failing-memory has no results to --dump");
    if (code == TOOL_GO_ON && s->opts.dump && !s->opts.each)
        code = tool_usage(s->opts.json, "fuzz: --dump needs --each");
    if (code == TOOL_GO_ON && s->opts.print && s->opts.index < 0)
        code = tool_usage(s->opts.json, "fuzz: --print needs --index");
    if (code == TOOL_GO_ON) {
        if (s->opts.print)
            s->opts.programs = 1;
        if (s->opts.programs == 0)
            s->opts.programs =
                s->opts.each ? (int64_t)fuzz_op_count() - 1 : 100;
        s->start_ns = time_now_ns();
        status = run_programs(s);
        code = status != BELL_OK ? tool_fail(s->opts.json, status)
               : s->opts.print   ? TOOL_OK
                                 : print_fuzz_summary(s);
        bell_context_destroy(s->ctx);
    }
    host_free(s);
    return code;
}
