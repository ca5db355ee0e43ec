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

static void
print_list(FILE *out, const struct fuzz_node *n)
{
    uint32_t i;

    if (n->n_list == 0) {
        fprintf(out, "BELL_NO_DIMS");
        return;
    }
    fprintf(out, "BELL_DIMS(");
    for (i = 0; i < n->n_list; i++) {
        fprintf(out, i ? ", " : "");
        print_int(out, n->list[i]);
    }
    fprintf(out, ")");
}

static void
print_items(FILE *out, const struct fn_arg *a)
{
    uint32_t i;

    fprintf(out, "BELL_ITEMS(");
    for (i = 0; i < a->n; i++) {
        const struct bell_index_item *item = &a->items[i];
        fprintf(out, i ? ", " : "");
        if (item->kind == BELL_INDEX_INT) {
            fprintf(out, "bell_at(%" PRId64 ")", item->begin);
        } else if (item->kind == BELL_INDEX_NEW_AXIS) {
            fprintf(out, "bell_new_axis()");
        } else if (item->kind == BELL_INDEX_ELLIPSIS) {
            fprintf(out, "bell_ellipsis()");
        } else {
            fprintf(out, "bell_slice(");
            print_int(out, item->begin);
            fprintf(out, ", ");
            print_int(out, item->end);
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
        print_items(out, a);
        break;
    case 'o':
        print_conv(out, a->conv);
        break;
    case 'p':
        print_pool(out, a->pool);
        break;
    default: /* i, n, a */
        print_int(out, a->i);
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
print_leaf_data(FILE *out, const struct fuzz_program *prog, uint32_t k)
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
    fprintf(out, "static const uint%zu_t d%u[] = { /* %s */", 8 * size, k,
            bell_dtype_name((enum bell_dtype)n->dtype));
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
print_want(FILE *out, uint32_t root, const struct ref_array *want)
{
    size_t k;

    fprintf(out, "static const double want%u[] = {", root);
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
    for (i = 0; i < prog->n_nodes; i++) {
        const struct fuzz_node *n = &prog->nodes[i];
        if (n->op != 0) {
            print_call(out, i, n);
            continue;
        }
        fprintf(out, "    struct bell_tensor *t%u = bell_from_data(ctx, ", i);
        print_list(out, n);
        fprintf(out, ", ");
        print_dtype(out, n->dtype);
        fprintf(out, ", d%u);\n", i);
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
        fprintf(out, "    show(\"root%u\", roots[%u], want%u);\n", i, i, i);
    fprintf(out,
            "    bell_context_destroy(ctx);\n    return 0;\n"
            "failed:\n"
            "    fprintf(stderr, \"%%s\\n\", bell_error_last()->message);\n"
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

bell_status
fuzz_print_c(FILE *out, struct bell_context *ctx,
             const struct fuzz_program *prog, const char *title)
{
    struct ref_array want[FUZZ_MAX_OUT];
    bell_status status;
    uint32_t n = 0, i;

    BELL_TRY(bell_scope_begin(ctx));
    status = evaluate(ctx, prog, want, &n);
    if (status != BELL_OK)
        return bell_scope_end(ctx) == BELL_OK ? status : status;
    fprintf(out,
            "/* %s\n * cc -Iinclude this.c -ldoorbell -lm */\n"
            "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
            "#include <string.h>\n\n"
            "#include \"doorbell/fft.h\"\n"
            "#include \"doorbell/functions.h\"\n"
            "#include \"doorbell/linalg.h\"\n"
            "#include \"doorbell/tensor.h\"\n\n",
            title);
    for (i = 0; i < prog->n_nodes && status == BELL_OK; i++) {
        if (prog->nodes[i].op == 0)
            status = print_leaf_data(out, prog, i);
    }
    for (i = 0; i < n; i++) {
        print_want(out, i, &want[i]);
        ref_array_fini(&want[i]);
    }
    print_helpers(out, prog);
    print_show(out);
    print_main(out, prog, bell_context_device(ctx), n);
    if (bell_scope_end(ctx) != BELL_OK)
        return bell_fail(BELL_E_INTERNAL, "%.300s", bell_error_last()->message);
    return status;
}
