/* Runs ONNX backend tests that lie in folders: model.onnx and, in
 * test_data_set_N, input_K.pb and output_K.pb.
 *
 *     onnx_cases [-v] [--every N] [--least N] FOLDER...
 *
 * A FOLDER is a test or holds tests, at any depth. Prints each test that did
 * not pass: "wrong" (another value), "refused" (unsupported, by name) or
 * "failed" (another error). Exit code 0: none is wrong, none failed, and
 * --least passed; 77: there are no tests.
 *
 * Differences are allowed as tolerance.txt says, which has two numbers, or as
 * the onnx package does: 1e-3 relative, 1e-7 absolute. More is allowed for the
 * order of roundings (widen).
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "doorbell/onnx.h"
#include "tensor/onnx/op.h"

#define MAX_VALUES 64

struct counts {
    unsigned passed, wrong, refused, failed, seen, every;
    bool verbose;
};

/* A test while it runs. */
struct test_case {
    const char *folder;
    struct bell_context *ctx, *host;
    struct onnx_model *model, *data; /* `data`: whose arena values are in */
    double rtol, atol;
    char why[512];
};

/* ---- values of files ---- */

static bell_status
read_sequence(struct test_case *c, struct wire wire, struct onnx_value *out)
{
    struct onnx_value *items =
        arena_calloc(&c->data->arena, wire_count(wire, 3) + 1, sizeof(*items));
    struct wire_field field;
    uint32_t n = 0;

    while (items && wire_next(&wire, &field)) {
        struct onnx_tensor *t;

        if (field.number != 3)
            continue;
        t = arena_calloc(&c->data->arena, 1, sizeof(*t));
        if (!t)
            break;
        BELL_TRY(onnx_tensor_parse(c->data, wire_of(&field), t));
        onnx_value_of(t, &items[n]);
        items[n++].is_constant = false;
    }
    *out = (struct onnx_value){.kind = ONNX_LIST, .items = items, .n_items = n};
    return BELL_OK;
}

static bell_status
read_optional(struct test_case *c, struct wire wire, struct onnx_value *out)
{
    struct wire_field field;
    struct onnx_tensor *t;

    memset(out, 0, sizeof(*out));
    while (wire_next(&wire, &field)) {
        if (field.number == 5)
            return read_sequence(c, wire_of(&field), out);
        if (field.number != 3)
            continue;
        t = arena_calloc(&c->data->arena, 1, sizeof(*t));
        if (!t)
            break;
        BELL_TRY(onnx_tensor_parse(c->data, wire_of(&field), t));
        onnx_value_of(t, out);
        out->is_constant = false;
    }
    return BELL_OK;
}

/* False: there is no such file. */
static bool
read_value(struct test_case *c, const char *set, const char *kind, unsigned k,
           const struct onnx_value_info *info, struct onnx_value *out,
           bell_status *status)
{
    struct file_bytes file;
    struct onnx_tensor *t;
    struct wire wire;
    char path[1024];
    struct stat st;
    uint8_t *copy;

    snprintf(path, sizeof(path), "%s/%s/%s_%u.pb", c->folder, set, kind, k);
    if (stat(path, &st) != 0)
        return false;
    *status = file_read(path, &file);
    if (*status != BELL_OK)
        return true;
    copy = arena_alloc(&c->data->arena, file.size_bytes + 1);
    t = arena_calloc(&c->data->arena, 1, sizeof(*t));
    if (copy && t && file.size_bytes)
        memcpy(copy, file.data, file.size_bytes);
    wire = (struct wire){copy, copy + file.size_bytes, false};
    file_bytes_fini(&file);
    if (strcmp(info->kind, "sequence") == 0) {
        *status = read_sequence(c, wire, out);
    } else if (strcmp(info->kind, "optional") == 0) {
        *status = read_optional(c, wire, out);
    } else {
        *status = onnx_tensor_parse(c->data, wire, t);
        /* The suite of 1.12 has bfloat16 as its bits. */
        if (t->type == ONNX_UINT16 && info->type == ONNX_BFLOAT16)
            t->type = info->type;
        onnx_value_of(t, out);
        out->is_constant = false;
    }
    return true;
}

/* ---- comparing ---- */

/* Whether a node's values are drawn: then only shapes are compared. */
static bool
draws(const struct onnx_graph *graph)
{
    uint32_t i;

    for (i = 0; i < graph->n_nodes; i++) {
        const char *op = graph->nodes[i].op;

        if (strncmp(op, "Random", 6) == 0 || strcmp(op, "Bernoulli") == 0 ||
            strcmp(op, "Multinomial") == 0)
            return true;
    }
    return false;
}

/* A result that is rounded once may be two units off one that is rounded at
 * each step, and a sum of float32 some 1e-6 of its greatest term. */
static void
widen(struct test_case *c, enum bell_dtype dtype, const double *want,
      uint64_t n, double *rtol, double *atol)
{
    double greatest = 0;
    uint64_t i;

    *rtol = c->rtol;
    *atol = c->atol;
    for (i = 0; i < n; i++)
        greatest = isfinite(want[i]) ? fmax(greatest, fabs(want[i])) : greatest;
    if (dtype == BELL_BFLOAT16)
        *rtol = fmax(*rtol, 1.0 / 64);
    else if (dtype == BELL_FLOAT16)
        *rtol = fmax(*rtol, 1.0 / 512);
    if (dtype >= BELL_FLOAT16)
        *atol = fmax(*atol, 1e-6 * greatest);
}

static bool
is_close(double got, double want, double rtol, double atol)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got))
        return want == got;
    return fabs(got - want) <= atol + rtol * fabs(want);
}

/* Elements of a tensor as double. */
static bell_status
read_doubles(struct bell_tensor *t, double **out, uint64_t *out_n)
{
    uint64_t n = bell_numel(t);

    *out_n = n;
    *out = host_alloc((n + 1) * sizeof(**out));
    return *out ? bell_read_f64(t, *out, n)
                : bell_fail(BELL_E_NO_MEMORY, "out of memory");
}

static bool
compare_tensors(struct test_case *c, struct onnx_run *run,
                struct onnx_value *got, struct onnx_value *want, unsigned k)
{
    struct bell_tensor *a = onnx_tensor_in(run, c->ctx, got);
    struct bell_tensor *b = onnx_tensor_in(run, c->ctx, want);
    double *x = NULL, *y = NULL;
    double rtol, atol;
    bool same = false;
    uint64_t n, n_want, i;

    if (bell_is_error(a) || bell_is_error(b)) {
        snprintf(c->why, sizeof(c->why), "output %u: %s", k,
                 bell_error_last()->message);
    } else if (bell_dtype_of(a) != bell_dtype_of(b)) {
        snprintf(c->why, sizeof(c->why), "output %u is %s; expected %s", k,
                 bell_dtype_name(bell_dtype_of(a)),
                 bell_dtype_name(bell_dtype_of(b)));
    } else if (bell_ndim(a) != bell_ndim(b) ||
               memcmp(bell_shape(a), bell_shape(b),
                      bell_ndim(a) * sizeof(int64_t)) != 0) {
        snprintf(c->why, sizeof(c->why), "output %u has another shape", k);
    } else if (draws(&c->model->graph)) {
        return true;
    } else if (read_doubles(a, &x, &n) != BELL_OK ||
               read_doubles(b, &y, &n_want) != BELL_OK) {
        snprintf(c->why, sizeof(c->why), "output %u: %s", k,
                 bell_error_last()->message);
    } else {
        widen(c, bell_dtype_of(b), y, n, &rtol, &atol);
        for (i = 0; i < n && is_close(x[i], y[i], rtol, atol); i++)
            ;
        same = i == n;
        if (!same)
            snprintf(c->why, sizeof(c->why),
                     "output %u, element %llu is %.9g; expected %.9g", k,
                     (unsigned long long)i, x[i], y[i]);
    }
    host_free(x);
    host_free(y);
    return same;
}

static bool
compare_values(struct test_case *c, struct onnx_run *run,
               struct onnx_value *got, struct onnx_value *want, unsigned k)
{
    uint32_t i;

    if (got->kind != want->kind) {
        snprintf(c->why, sizeof(c->why), "output %u is of another kind", k);
        return false;
    }
    if (got->kind == ONNX_ABSENT)
        return true;
    if (got->kind == ONNX_VALUE)
        return compare_tensors(c, run, got, want, k);
    if (got->n_items != want->n_items) {
        snprintf(c->why, sizeof(c->why), "output %u has %u items; expected %u",
                 k, got->n_items, want->n_items);
        return false;
    }
    for (i = 0; i < got->n_items; i++) {
        struct onnx_value x = got->items[i], y = want->items[i];

        if (!compare_values(c, run, &x, &y, k))
            return false;
    }
    return true;
}

/* ---- a test ---- */

static bell_status
run_set(struct test_case *c, struct onnx_run *run, const char *set, bool *right)
{
    const struct onnx_graph *graph = &c->model->graph;
    struct onnx_value in[MAX_VALUES], out[MAX_VALUES], want;
    struct onnx_value *list[MAX_VALUES] = {0}, *weights;
    bell_status status = BELL_OK;
    uint32_t i;

    if (graph->n_inputs > MAX_VALUES || graph->n_outputs > MAX_VALUES)
        return bell_fail(BELL_E_UNSUPPORTED, "too many values");
    memset(out, 0, sizeof(out));
    weights =
        arena_calloc(&run->arena, graph->n_weights + 1u, sizeof(*weights));
    if (!weights)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    for (i = 0; i < graph->n_weights; i++)
        onnx_value_of(&graph->weights[i], &weights[i]);
    for (i = 0; i < graph->n_inputs; i++) {
        if (read_value(c, set, "input", i, &graph->inputs[i], &in[i], &status))
            list[i] = &in[i];
        BELL_TRY(status);
    }
    BELL_TRY(onnx_run_model(run, weights, list, out));
    for (i = 0; i < graph->n_outputs && *right; i++) {
        if (read_value(c, set, "output", i, &graph->outputs[i], &want,
                       &status)) {
            BELL_TRY(status);
            *right = compare_values(c, run, &out[i], &want, i);
        }
    }
    return BELL_OK;
}

/* The test by bell_onnx_call is that of the tool; here values may be
 * sequences, so the model is run directly. */
static bell_status
run_test(struct test_case *c, bool *right)
{
    const struct onnx_node *refused;
    struct onnx_run run = {.ctx = c->ctx, .host = c->host};
    char path[1024], set[64];
    bell_status status;
    struct stat st;
    unsigned k;

    snprintf(path, sizeof(path), "%s/model.onnx", c->folder);
    BELL_TRY(onnx_model_read(path, &c->model));
    BELL_TRY(onnx_check(c->model));
    refused = onnx_first_refused(&c->model->graph);
    if (refused)
        return bell_fail(BELL_E_UNSUPPORTED, "%s", refused->refused);
    for (k = 0; *right; k++) {
        snprintf(set, sizeof(set), "test_data_set_%u", k);
        snprintf(path, sizeof(path), "%s/%s", c->folder, set);
        if (stat(path, &st) != 0)
            break;
        run.model = c->data = c->model;
        run.n_steps = 0;
        arena_init(&run.arena);
        status = run_set(c, &run, set, right);
        arena_fini(&run.arena);
        BELL_TRY(status);
    }
    return BELL_OK;
}

static void
count_test(struct counts *counts, const char *folder, struct bell_context *ctx,
           struct bell_context *host)
{
    struct test_case c = {.folder = folder, .ctx = ctx, .host = host};
    const char *name = strrchr(folder, '/') + 1, *verdict = NULL;
    bell_status status;
    bool right = true;
    char path[1024];
    FILE *file;

    c.rtol = 1e-3;
    c.atol = 1e-7;
    snprintf(path, sizeof(path), "%s/tolerance.txt", folder);
    file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%lf %lf", &c.rtol, &c.atol) != 2)
            fprintf(stderr, "%s: expected two numbers\n", path);
        fclose(file);
    }
    if (counts->verbose) {
        printf("%s\n", name);
        fflush(stdout);
    }
    if (bell_scope_begin(ctx) != BELL_OK || bell_scope_begin(host) != BELL_OK)
        exit(1);
    bell_error_clear();
    status = run_test(&c, &right);
    if (status == BELL_OK && right) {
        counts->passed++;
    } else if (status == BELL_OK) {
        counts->wrong++;
        verdict = "wrong";
    } else {
        snprintf(c.why, sizeof(c.why), "%s", bell_error_last()->message);
        if (status == BELL_E_UNSUPPORTED)
            counts->refused++;
        else
            counts->failed++;
        verdict = status == BELL_E_UNSUPPORTED ? "refused" : "failed";
    }
    if (verdict)
        printf("%-8s %s: %s\n", verdict, name, c.why);
    if (bell_scope_end(host) != BELL_OK || bell_scope_end(ctx) != BELL_OK)
        bell_error_clear();
    onnx_model_release(c.model);
}

/* ---- folders ---- */

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
go_through(struct counts *counts, const char *folder, struct bell_context *ctx,
           struct bell_context *host)
{
    char path[1024], **names = NULL;
    size_t n = 0, cap = 0, i;
    struct dirent *entry;
    struct stat st;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    if (stat(path, &st) == 0) {
        if (counts->seen++ % counts->every == 0)
            count_test(counts, folder, ctx, host);
        return;
    }
    dir = opendir(folder);
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.' ||
            host_grow((void **)&names, &cap, n + 1, sizeof(*names)) != 0)
            continue;
        names[n++] = host_strdup(entry->d_name);
    }
    if (dir)
        closedir(dir);
    if (n)
        qsort(names, n, sizeof(*names), compare_names);
    for (i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            go_through(counts, path, ctx, host);
        host_free(names[i]);
    }
    host_free(names);
}

int
main(int argc, char **argv)
{
    struct counts counts = {.every = 1};
    struct bell_context *ctx, *host;
    unsigned least = 0;
    int i;

    if (bell_context_create("CPU", &ctx) != BELL_OK ||
        bell_context_create("CPU", &host) != BELL_OK) {
        printf("skip: %s\n", bell_error_last()->message);
        return 77;
    }
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            counts.verbose = true;
        else if (strcmp(argv[i], "--every") == 0 && i + 1 < argc)
            counts.every = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--least") == 0 && i + 1 < argc)
            least = (unsigned)atoi(argv[++i]);
        else
            go_through(&counts, argv[i], ctx, host);
    }
    bell_context_destroy(ctx);
    bell_context_destroy(host);
    printf("%u passed, %u wrong, %u refused, %u failed\n", counts.passed,
           counts.wrong, counts.refused, counts.failed);
    if (counts.seen == 0) {
        printf("skip: no tests there\n");
        return 77;
    }
    return counts.wrong || counts.failed || counts.passed < least;
}
