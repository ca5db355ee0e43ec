/* A node's call: its arguments as values, and the call itself. */
#include "tools/fuzz/fuzz.h"

#include <string.h>

const char *
fuzz_letters(const struct fuzz_op *op)
{
    return op->to.code + (op->to.code[0] == 'c');
}

/* Numbers of a node, by the letter of its op's args. */
static void
take_call_number(const struct fuzz_node *n, char from, struct fn_arg *a)
{
    if (from >= 'a' && from <= 'd')
        a->i = n->i[from - 'a'];
    else if (from >= '0' && from <= '9')
        a->i = from - '0';
    else if (from == 'N')
        a->i = BELL_IGNORE_NONE;
    else if (from == 'q' || from == '!')
        a->i = n->i[0] == (from == 'q');
    a->f = from == 'x'   ? n->f[0]
           : from == 'y' ? n->f[1]
           : from == 'M' ? 1e-3
           : from == 'U' ? 1e-6
           : from == 'Q' ? 0.75
                         : (double)a->i;
    a->b = a->i != 0;
    a->n = (uint32_t)a->i;
    a->reduction = (enum bell_reduction)a->i;
    a->dtype = (enum bell_dtype)n->dtype;
    a->given = true;
}

/* i: stride, padding, dilation, groups, output_padding (vertical; the
 * horizontal ones differ by 1 where they may). */
static void
take_call_conv(const struct fuzz_node *n, struct bell_conv_options *out)
{
    const struct bell_conv_options opt = {
        .struct_size = sizeof(opt),
        .stride = {n->i[0], n->i[0] > 1 ? n->i[0] - 1 : 1, 1},
        .padding = {n->i[1], n->i[1], n->i[1]},
        .dilation = {n->i[2], 1, n->i[2]},
        .groups = n->i[3],
        .output_padding = {n->i[4], 0, 0}};

    *out = opt;
}

/* i: kernel, stride, padding, ceil_mode, exclude_pad. */
static void
take_pool(const struct fuzz_node *n, struct bell_pool_options *out)
{
    const struct bell_pool_options opt = {.struct_size = sizeof(opt),
                                          .kernel = {n->i[0], n->i[0], 2},
                                          .stride = {n->i[1], n->i[1], 1},
                                          .padding = {n->i[2], 0, 1},
                                          .ceil_mode = n->i[3] != 0,
                                          .exclude_pad = n->i[4] != 0};

    *out = opt;
}

static uint32_t
take_items(const struct fuzz_node *n, struct bell_index_item *items)
{
    uint32_t i;

    for (i = 0; i < n->n_list / FUZZ_ITEM_NUMBERS; i++) {
        const int64_t *item = n->list + FUZZ_ITEM_NUMBERS * i;
        items[i].kind = (enum bell_index_kind)item[0];
        items[i].begin = item[1];
        items[i].end = item[2];
        items[i].step = item[3];
    }
    return i;
}

void
fuzz_args(const struct fuzz_node *n, struct fuzz_args *out)
{
    const struct fuzz_op *op = fuzz_op_at(n->op);
    const char *letters = fuzz_letters(op);
    uint32_t k;

    memset(out, 0, sizeof(*out));
    take_call_conv(n, &out->conv);
    take_pool(n, &out->pool);
    for (k = 0; letters[k]; k++) {
        struct fn_arg *a = &out->a[k];
        take_call_number(n, op->args[k], a);
        if (letters[k] == 'l') {
            a->ints = n->list;
            a->n = n->n_list;
        } else if (letters[k] == 's') {
            a->n = n->n_src;
        } else if (letters[k] == 'x') {
            a->items = out->items;
            a->n = take_items(n, out->items);
        } else if (letters[k] == 'e') {
            a->str = op->spec ? op->spec : fuzz_einsum_formula(n->i[0]);
        }
        a->conv = &out->conv;
        a->pool = &out->pool;
    }
}

struct bell_tensor *
fuzz_call(struct bell_context *ctx, const struct fuzz_node *n,
          struct bell_tensor *const *tensors)
{
    const struct fuzz_op *op = fuzz_op_at(n->op);
    struct bell_tensor *src[FUZZ_MAX_SRC] = {NULL};
    const struct fn_arg *a[FN_MAX_ARGS];
    struct fuzz_args args;
    uint32_t k;

    fuzz_args(n, &args);
    for (k = 0; k < n->n_src; k++)
        src[k] = tensors[n->src[k]];
    for (k = 0; op->args[k]; k++) {
        char from = op->args[k];
        if (from >= '0' && from < '0' + FUZZ_MAX_SRC)
            args.a[k].t = src[from - '0'];
        args.a[k].ts = src;
        a[k] = &args.a[k];
    }
    if (op->seeded)
        bell_manual_seed(ctx, (uint64_t)n->i[0]);
    return fn_apply(&op->to, ctx, a);
}
