/* A program as C over include/doorbell. */
#include "tools/fuzz/fuzz.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* ---- arguments -------------------------------------------------------- */

static void
print_int(FILE *out, int64_t i)
{
    if (i == BELL_NONE)
        fprintf(out, "BELL_NONE");
    else
        fprintf(out, "%" PRId64, i);
}

static void
print_double(FILE *out, double f)
{
    if (isnan(f))
        fprintf(out, "NAN");
    else if (isinf(f))
        fprintf(out, f < 0 ? "-INFINITY" : "INFINITY");
    else
        fprintf(out, "%.17g", f);
}

static void
print_dtype(FILE *out, uint8_t dtype)
{
    const char *name = bell_dtype_name((enum bell_dtype)dtype);

    fprintf(out, "BELL_");
    for (; *name; name++)
        fputc(toupper((unsigned char)*name), out);
}

/* A number, or a size of the program or of an earlier node. */
static void
print_fuzz_size(FILE *out, int64_t number, uint16_t size)
{
    if (size == 0)
        print_int(out, number);
    else if (size < 8)
        fprintf(out, "size[%d]", size - 1);
    else
        fprintf(out, "bell_dim_at(t%d, %d)", size / 8 - 1, size % 8);
}

/* The same as a word. */
static void
print_size_word(FILE *out, int64_t number, uint16_t size)
{
    print_fuzz_size(out, number, size);
    if (size)
        fprintf(out, ".word");
}

static void
print_list(FILE *out, const struct fuzz_node *n)
{
    bool has_sizes = false;
    uint32_t i;

    if (n->n_list == 0) {
        fprintf(out, "BELL_NO_DIMS");
        return;
    }
    for (i = 0; i < n->n_list; i++)
        has_sizes |= n->list_size[i] != 0;
    if (has_sizes && n->n_list > 8) { /* the most that BELL_SHAPE takes */
        fprintf(out, "(const int64_t[]){");
        for (i = 0; i < n->n_list; i++) {
            fprintf(out, i ? ", " : "");
            print_size_word(out, n->list[i], n->list_size[i]);
        }
        fprintf(out, "}, %d", n->n_list);
        return;
    }
    fprintf(out, has_sizes ? "BELL_SHAPE(" : "BELL_DIMS(");
    for (i = 0; i < n->n_list; i++) {
        fprintf(out, i ? ", " : "");
        print_fuzz_size(out, n->list[i], n->list_size[i]);
    }
    fprintf(out, ")");
}

static void
print_items(FILE *out, const struct fn_arg *a, const struct fuzz_node *n)
{
    uint32_t i;

    fprintf(out, "BELL_ITEMS(");
    for (i = 0; i < a->n; i++) {
        const struct bell_index_item *item = &a->items[i];
        const uint16_t *size = n->list_size + FUZZ_ITEM_NUMBERS * i;
        fprintf(out, i ? ", " : "");
        if (item->kind == BELL_INDEX_INT) {
            fprintf(out, "bell_at(");
            print_size_word(out, item->begin, size[1]);
            fprintf(out, ")");
        } else if (item->kind == BELL_INDEX_NEW_AXIS) {
            fprintf(out, "bell_new_axis()");
        } else if (item->kind == BELL_INDEX_ELLIPSIS) {
            fprintf(out, "bell_ellipsis()");
        } else {
            fprintf(out, "bell_slice(");
            print_size_word(out, item->begin, size[1]);
            fprintf(out, ", ");
            print_size_word(out, item->end, size[2]);
            fprintf(out, ", %" PRId64 ")", item->step);
        }
    }
    fprintf(out, ")");
}

static void
print_axes(FILE *out, const char *name, const int64_t *axes)
{
    fprintf(out, ".%s = {%" PRId64 ", %" PRId64 ", %" PRId64 "}, ", name,
            axes[0], axes[1], axes[2]);
}

static void
print_conv(FILE *out, const struct bell_conv_options *conv)
{
    fprintf(out, "&BELL_OPTIONS(bell_conv_options, ");
    print_axes(out, "stride", conv->stride);
    print_axes(out, "padding", conv->padding);
    print_axes(out, "dilation", conv->dilation);
    print_axes(out, "output_padding", conv->output_padding);
    fprintf(out, ".groups = %" PRId64 ")", conv->groups);
}

static void
print_pool(FILE *out, const struct bell_pool_options *pool)
{
    fprintf(out, "&BELL_OPTIONS(bell_pool_options, ");
    print_axes(out, "kernel", pool->kernel);
    print_axes(out, "stride", pool->stride);
    print_axes(out, "padding", pool->padding);
    fprintf(out, ".ceil_mode = %d, .exclude_pad = %d)", pool->ceil_mode,
            pool->exclude_pad);
}

/* An argument by its letter in the signature; `from`: by that of the op's
 * args. */
static void
print_arg(FILE *out, char letter, char from, const struct fn_arg *a,
          const struct fuzz_node *n)
{
    static const char *const reductions[] = {"BELL_MEAN", "BELL_SUM",
                                             "BELL_EACH"};
    uint32_t i;

    switch (letter) {
    case 't':
        if (from != '-' && from - '0' < n->n_src)
            fprintf(out, "t%u", n->src[from - '0']);
        else
            fprintf(out, "NULL");
        break;
    case 's':
        fprintf(out, "BELL_TENSORS(");
        for (i = 0; i < n->n_src; i++)
            fprintf(out, "%st%u", i ? ", " : "", n->src[i]);
        fprintf(out, ")");
        break;
    case 'l':
        print_list(out, n);
        break;
    case 'b':
        fprintf(out, a->b ? "true" : "false");
        break;
    case 'f':
        print_double(out, a->f);
        break;
    case 'y':
        print_dtype(out, n->dtype);
        break;
    case 'r':
        fprintf(out, "%s", reductions[a->reduction]);
        break;
    case 'e':
        fprintf(out, "\"%s\"", a->str);
        break;
    case 'x':
        print_items(out, a, n);
        break;
    case 'o':
        print_conv(out, a->conv);
        break;
    case 'p':
        print_pool(out, a->pool);
        break;
    default: /* i, n, a */
        print_fuzz_size(out, a->i,
                        from >= 'a' && from < 'a' + FUZZ_N_NUMBERS
                            ? n->i_size[from - 'a']
                            : 0);
    }
}

static void
print_call(FILE *out, uint32_t k, const struct fuzz_node *n)
{
    const struct fuzz_op *op = fuzz_op_at(n->op);
    const char *letters = fuzz_letters(op), *comma = "";
    struct fuzz_args args;
    uint32_t i;

    fuzz_args(n, &args);
    if (op->seeded)
        fprintf(out, "    bell_manual_seed(ctx, %" PRId64 ");\n", n->i[0]);
    fprintf(out, "    struct bell_tensor *t%u = %s(", k, op->to.name);
    if (letters != op->to.code) {
        fprintf(out, "ctx");
        comma = ", ";
    }
    for (i = 0; letters[i]; i++) {
        fprintf(out, "%s", comma);
        print_arg(out, letters[i], op->args[i], &args.a[i], n);
        comma = ", ";
    }
    fprintf(out, ");\n");
}

/* ---- data ------------------------------------------------------------- */

/* Storage bits, so that NaN and the last place are the very same. */
static BELL_MUST_CHECK bell_status
print_leaf_data(FILE *out, const struct fuzz_program *prog, uint32_t k,
                const char *run)
{
    const struct fuzz_node *n = &prog->nodes[k];
    struct ref_array array = {.dtype = n->dtype, .n = 1};
    size_t size = uop_dtype_infos[array.dtype].size_bytes, e;
    uint8_t *bytes;
    uint32_t i;

    for (i = 0; i < n->n_list; i++)
        array.n *= (size_t)n->list[i];
    array.data = host_alloc((array.n + 1) * 8);
    bytes = host_calloc(array.n + 1, 8);
    if (!array.data || !bytes) {
        host_free(array.data);
        host_free(bytes);
        return bell_fail(BELL_E_NO_MEMORY, "printing a leaf: out of memory");
    }
    fuzz_fill(prog, k, &array);
    ref_to_bytes(&array, bytes);
    fprintf(out, "static const uint%zu_t d%u%s[] = { /* %s */", 8 * size, k,
            run, bell_dtype_name((enum bell_dtype)n->dtype));
    for (e = 0; e < array.n || e == 0; e++) {
        uint64_t bits = 0;
        memcpy(&bits, bytes + e * size, size);
        fprintf(out, "%s0x%" PRIx64 ",", e % 8 ? " " : "\n    ", bits);
    }
    fprintf(out, "\n};\n");
    host_free(array.data);
    host_free(bytes);
    return BELL_OK;
}

/* Each helper once; the compiler has made a line of its text. */
static void
print_helpers(FILE *out, const struct fuzz_program *prog)
{
    const char *c;
    uint32_t i, k;

    for (i = 0; i < prog->n_nodes; i++) {
        c = fuzz_op_at(prog->nodes[i].op)->helper;
        for (k = 0; c && fuzz_op_at(prog->nodes[k].op)->helper != c; k++)
            ;
        if (!c || k < i) /* several ops share one */
            continue;
        fprintf(out, "\n");
        for (; *c; c++) {
            fputc(*c, out);
            if (!strchr("{;}", *c))
                continue;
            c += c[1] == ' ';
            fprintf(out, c[1] && c[1] != '}' ? "\n    " : "\n");
        }
    }
}

/* ---- the whole -------------------------------------------------------- */

static void
print_want(FILE *out, uint32_t root, const struct ref_array *want,
           const char *run)
{
    size_t k;

    fprintf(out, "static const double want%u%s[] = {", root, run);
    for (k = 0; k < want->n || k == 0; k++) {
        fprintf(out, "%s", k % 4 ? " " : "\n    ");
        if (k == want->n)
            fprintf(out, "0");
        else if (uop_dtype_infos[want->dtype].is_float)
            print_double(out, want->f[k]);
        else if (want->dtype == UOP_U64)
            fprintf(out, "%" PRIu64 ".0", (uint64_t)want->i[k]);
        else
            fprintf(out, "%" PRId64 ".0", want->i[k]);
        fprintf(out, ",");
    }
    fprintf(out, "\n};\n");
}

static void
print_show(FILE *out)
{
    fprintf(
        out,
        "\nstatic void\n"
        "show(const char *name, struct bell_tensor *t, const double *want)\n"
        "{\n"
        "    size_t n = bell_numel(t), i;\n"
        "    double *got = malloc((n + 1) * sizeof(*got));\n\n"
        "    if (!got || bell_read_f64(t, got, n) != BELL_OK) {\n"
        "        fprintf(stderr, \"%%s\\n\", bell_error_last()->message);\n"
        "        exit(1);\n"
        "    }\n"
        "    for (i = 0; i < n; i++)\n"
        "        printf(\"%%s[%%zu] device %%.17g reference %%.17g%%s\\n\", "
        "name, i,\n"
        "               got[i], want[i],\n"
        "               got[i] == want[i] || (isnan(got[i]) && "
        "isnan(want[i]))\n"
        "                   ? \"\"\n"
        "                   : \" DIFFERENT\");\n"
        "    free(got);\n"
        "}\n");
}

static void
print_grads(FILE *out, const struct fuzz_program *prog, uint32_t n_roots)
{
    uint32_t i, count = 0;

    if (n_roots == prog->n_roots)
        return;
    fprintf(out, "    struct bell_tensor *leaves[] = {");
    for (i = 0; i < prog->n_nodes && count < n_roots - prog->n_roots; i++) {
        if (prog->nodes[i].op == 0 && prog->nodes[i].dtype >= BELL_FLOAT16)
            fprintf(out, "%st%u", count++ ? ", " : "", i);
    }
    fprintf(out,
            "};\n    if (bell_gradient(bell_sum(%st%u%s, BELL_NO_DIMS, false), "
            "leaves, %u,\n                      roots + %u) != BELL_OK)\n"
            "        goto failed;\n",
            prog->is_squared ? "bell_square(" : "", prog->roots[0],
            prog->is_squared ? ")" : "", count, prog->n_roots);
}

/* The calls, up to the results; `run` chooses data and results, or is "". */
static void
print_split(FILE *out, uint32_t i, const struct fuzz_node *n)
{
    static const char *const axes[] = {"data", "model"};
    uint32_t k;

    for (k = 0; k < 2; k++) {
        if (n->split[k])
            fprintf(out,
                    "    if (bell_ndim(t%u))\n"
                    "        t%u = bell_shard(t%u, \"%s\", %d %% "
                    "bell_ndim(t%u));\n",
                    i, i, i, axes[k], n->split[k] - 1, i);
    }
}

static void
print_calls(FILE *out, const struct fuzz_program *prog, uint32_t n_roots,
            const char *run)
{
    uint32_t i;

    for (i = 0; i < prog->n_nodes; i++) {
        const struct fuzz_node *n = &prog->nodes[i];
        if (n->op != 0) {
            print_call(out, i, n);
            print_split(out, i, n);
            continue;
        }
        fprintf(out, "    struct bell_tensor *t%u = bell_from_data(ctx, ", i);
        print_list(out, n);
        fprintf(out, ", ");
        print_dtype(out, n->dtype);
        fprintf(out, ", d%u%s);\n", i, run);
        print_split(out, i, n);
    }
    fprintf(out, "    struct bell_tensor *roots[%u] = {", n_roots);
    for (i = 0; i < prog->n_roots; i++)
        fprintf(out, "%st%u", i ? ", " : "", prog->roots[i]);
    fprintf(out, "};\n");
    print_grads(out, prog, n_roots);
    fprintf(out,
            "    if (bell_realize(roots, %u) != BELL_OK)\n"
            "        goto failed;\n",
            n_roots);
    for (i = 0; i < n_roots; i++)
        fprintf(out, "    show(\"root%u\", roots[%u], want%u%s);\n", i, i, i,
                run);
}

static void
print_main(FILE *out, const struct fuzz_program *prog, const char *device,
           uint32_t n_roots)
{
    uint32_t i;

    fprintf(out,
            "\nint\nmain(void)\n{\n    struct bell_context *ctx;\n\n"
            "    if (bell_context_create(\"%s\", &ctx) != BELL_OK)\n"
            "        goto failed;\n",
            device);
    for (i = 0; i < prog->n_nodes && !prog->nodes[i].split[1]; i++)
        ;
    if (i < prog->n_nodes)
        fprintf(out, "    if (bell_mesh_set(ctx, BELL_DIMS(bell_mesh_places("
                     "ctx) / 2, 2),\n"
                     "                      (const char *const[]){\"data\", "
                     "\"model\"}) !=\n        BELL_OK)\n"
                     "        goto failed;\n");
    print_calls(out, prog, n_roots, "");
    fprintf(out,
            "    bell_context_destroy(ctx);\n    return 0;\n"
            "failed:\n"
            "    fprintf(stderr, \"%%s\\n\", bell_error_last()->message);\n"
            "    return 1;\n}\n");
}

/* Arrays of what differs from run to run. */
static void
print_runs(FILE *out, const struct fuzz_program *prog, uint32_t n_roots)
{
    uint32_t i, run;

    for (i = 0; i < prog->n_nodes; i++) {
        if (prog->nodes[i].op != 0)
            continue;
        fprintf(out, "static const void *const d%u[] = {", i);
        for (run = 0; run < FUZZ_N_VALUES; run++)
            fprintf(out, "%sd%u_%u", run ? ", " : "", i, run);
        fprintf(out, "};\n");
    }
    for (i = 0; i < n_roots; i++) {
        fprintf(out, "static const double *const want%u[] = {", i);
        for (run = 0; run < FUZZ_N_VALUES; run++)
            fprintf(out, "%swant%u_%u", run ? ", " : "", i, run);
        fprintf(out, "};\n");
    }
}

/* A size as a sum of products of symbols. */
static void
print_size_made(FILE *out, const struct fuzz_program *prog, uint32_t at)
{
    const struct fuzz_size *s = &prog->sizes[at];
    int64_t by_m = prog->n_symbols > 1 ? s->by[1] : 0;

    fprintf(out,
            "bell_dim_add(ctx, bell_dim_mul(ctx, n, %" PRId64 "), %" PRId64 ")",
            s->by[0], s->plus);
    if (prog->n_symbols < 2)
        return;
    fprintf(out,
            ";\n    size[%u] = bell_dim_add(ctx, size[%u], "
            "bell_dim_mul(ctx, m, %" PRId64 "));\n"
            "    size[%u] = bell_dim_add(ctx, size[%u], bell_dim_mul(ctx, "
            "bell_dim_mul(ctx, n, m), %" PRId64 "))",
            at, at, by_m, at, at, s->both);
}

/* The calls as a function of the run, and a main that goes through the values
 * of the symbols. */
static void
print_sized_main(FILE *out, const struct fuzz_program *prog, const char *device,
                 uint32_t n_roots)
{
    static const char names[] = "nm";
    uint32_t i, run;

    print_runs(out, prog, n_roots);
    fprintf(out, "\nstatic bell_status\n"
                 "step(struct bell_context *ctx, const struct bell_dim *size, "
                 "int run)\n{\n    (void)size;\n");
    print_calls(out, prog, n_roots, "[run]");
    fprintf(out, "    return BELL_OK;\nfailed:\n"
                 "    return bell_error_last()->status;\n}\n"
                 "\nint\nmain(void)\n{\n");
    for (i = 0; i < prog->n_symbols; i++) {
        fprintf(out, "    static const int64_t values_of_%c[] = {", names[i]);
        for (run = 0; run < FUZZ_N_VALUES; run++)
            fprintf(out, "%s%" PRId64, run ? ", " : "",
                    prog->symbols[i].value[run]);
        fprintf(out, "};\n    struct bell_dim %c;\n", names[i]);
    }
    fprintf(out,
            "    struct bell_dim size[%u];\n    struct bell_context *ctx;\n"
            "    int run;\n\n"
            "    if (bell_context_create(\"%s\", &ctx) != BELL_OK)\n"
            "        goto failed;\n",
            prog->n_sizes, device);
    for (i = 0; i < prog->n_symbols; i++)
        fprintf(out,
                "    %c = bell_symbol(ctx, \"%c\", %" PRId64 ", %" PRId64
                ");\n",
                names[i], names[i], prog->symbols[i].min, prog->symbols[i].max);
    for (i = 0; i < prog->n_sizes; i++) {
        fprintf(out, "    size[%u] = ", i);
        print_size_made(out, prog, i);
        fprintf(out, ";\n");
    }
    fprintf(out, "    for (run = 0; run < %d; run++) {\n", FUZZ_N_VALUES);
    for (i = 0; i < prog->n_symbols; i++)
        fprintf(out,
                "        if (bell_symbol_set(ctx, %c, values_of_%c[run]) != "
                "BELL_OK)\n            goto failed;\n",
                names[i], names[i]);
    fprintf(out, "        if (step(ctx, size, run) != BELL_OK)\n"
                 "            goto failed;\n    }\n"
                 "    bell_context_destroy(ctx);\n    return 0;\n"
                 "failed:\n"
                 "    fprintf(stderr, \"%%s\\n\", "
                 "bell_error_last()->message);\n"
                 "    return 1;\n}\n");
}

/* The roots' values by the reference. */
static BELL_MUST_CHECK bell_status
evaluate(struct bell_context *ctx, const struct fuzz_program *prog,
         struct ref_array *want, uint32_t *out_n)
{
    struct bell_tensor *nodes[FUZZ_MAX_NODES], *roots[FUZZ_MAX_OUT];
    uint32_t i;

    BELL_TRY(fuzz_build(ctx, prog, nodes));
    for (i = 0; i < prog->n_roots; i++)
        roots[i] = nodes[prog->roots[i]];
    *out_n = prog->n_roots;
    BELL_TRY(fuzz_append_grads(prog, nodes, roots, out_n));
    return ref_eval_tensors(roots, *out_n, NULL, want);
}

/* Data and results of a program of plain sizes. */
static BELL_MUST_CHECK bell_status
print_values(FILE *out, struct bell_context *ctx,
             const struct fuzz_program *prog, const char *run, uint32_t *out_n)
{
    struct ref_array want[FUZZ_MAX_OUT];
    bell_status status;
    uint32_t i;

    BELL_TRY(bell_scope_begin(ctx));
    status = evaluate(ctx, prog, want, out_n);
    if (bell_scope_end(ctx) != BELL_OK && status == BELL_OK)
        return bell_fail(BELL_E_INTERNAL, "%.300s", bell_error_last()->message);
    BELL_TRY(status);
    for (i = 0; i < prog->n_nodes && status == BELL_OK; i++) {
        if (prog->nodes[i].op == 0)
            status = print_leaf_data(out, prog, i, run);
    }
    for (i = 0; i < *out_n; i++) {
        print_want(out, i, &want[i], run);
        ref_array_fini(&want[i]);
    }
    return status;
}

/* Those of each run. */
static BELL_MUST_CHECK bell_status
print_sized_values(FILE *out, struct bell_context *ctx,
                   const struct fuzz_program *prog, uint32_t *out_n)
{
    struct fuzz_program *plain = host_alloc(sizeof(*plain));
    bell_status status = BELL_OK;
    char name[16];
    uint32_t run;

    if (!plain)
        return bell_fail(BELL_E_NO_MEMORY, "a fuzz program: out of memory");
    for (run = 0; run < FUZZ_N_VALUES && status == BELL_OK; run++) {
        snprintf(name, sizeof(name), "_%u", run);
        status = fuzz_settle(ctx, prog, run, plain);
        if (status == BELL_OK)
            status = print_values(out, ctx, plain, name, out_n);
    }
    host_free(plain);
    return status;
}

bell_status
fuzz_print_c(FILE *out, struct bell_context *ctx,
             const struct fuzz_program *prog, const char *title)
{
    uint32_t n = 0;

    fprintf(out,
            "/* %s\n * cc -Iinclude this.c -ldoorbell -lm */\n"
            "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
            "#include <string.h>\n\n"
            "#include \"doorbell/fft.h\"\n"
            "#include \"doorbell/functions.h\"\n"
            "#include \"doorbell/linalg.h\"\n"
            "#include \"doorbell/mesh.h\"\n"
            "%s#include \"doorbell/tensor.h\"\n\n",
            title, prog->n_symbols ? "#include \"doorbell/dim.h\"\n" : "");
    BELL_TRY(prog->n_symbols ? print_sized_values(out, ctx, prog, &n)
                             : print_values(out, ctx, prog, "", &n));
    print_helpers(out, prog);
    print_show(out);
    if (prog->n_symbols)
        print_sized_main(out, prog, bell_context_device(ctx), n);
    else
        print_main(out, prog, bell_context_device(ctx), n);
    return BELL_OK;
}
