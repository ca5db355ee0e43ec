/* `doorbell fuzz --each`: each function alone, with shapes of every kind. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "tools/fuzz/fuzz.h"

#define N_TRIES 24 /* seeds for one kind of shapes */

/* What no op calls, and why. */
static const struct {
    const char *name, *reason;
} left_out[] = {
    {"masked_select", "how many there are depends on values"},
    {"nms", "how many there are depends on values"},
    {"nonzero", "how many there are depends on values"},
    {"unique", "how many there are depends on values"},
    {"unique_consecutive", "how many there are depends on values"},
    {"assign_slice", "every program stores a root by it"},
};

/* ---- which functions -------------------------------------------------- */

static bool
has_word(const char *text, const char *word)
{
    size_t len = strlen(word);
    const char *at = text;

    while (at && (at = strstr(at, word))) {
        if ((at == text || strchr(" (=", at[-1])) &&
            (at[len] == '(' || at[len] == ' ' || !at[len]))
            return true;
        at += len;
    }
    return false;
}

bool
fuzz_covers(const struct bell_function *function, const char **out_reason)
{
    const char *calls = fn_calls(function);
    char by_name[64];
    size_t i;

    snprintf(by_name, sizeof(by_name), "bell_%s", function->name);
    *out_reason = NULL;
    for (i = 0; i < fuzz_op_count(); i++) {
        const struct fuzz_op *op = fuzz_op_at(i);
        const char *its = op->to.name;
        if (!its)
            continue;
        if (op->spec &&
            strncmp(op->spec, function->name, strcspn(op->spec, " ")) == 0 &&
            strlen(function->name) == strcspn(op->spec, " "))
            return true;
        if ((calls && strcmp(its, calls) == 0) || strcmp(its, by_name) == 0 ||
            (op->helper && !op->spec &&
             (has_word(op->helper, by_name) ||
              (calls && has_word(op->helper, calls)))))
            return true;
    }
    for (i = 0; i < ARRAY_LEN(left_out); i++) {
        if (strcmp(left_out[i].name, function->name) == 0)
            *out_reason = left_out[i].reason;
    }
    return false;
}

/* ---- which shapes ----------------------------------------------------- */

uint64_t
fuzz_hash_shapes(const struct fuzz_program *prog)
{
    uint64_t hash = 1;
    uint32_t i, k;

    for (i = 0; i < prog->n_nodes; i++) {
        const struct fuzz_node *node = &prog->nodes[i];
        if (node->op != 0 && prog->n_nodes > 1)
            continue;
        hash = hash_add(hash, node->n_list);
        for (k = 0; k < node->n_list; k++)
            hash = hash_add(hash, (uint64_t)node->list[k]);
        for (k = 0; node->op != 0 && k < ARRAY_LEN(node->i); k++)
            hash = hash_add(hash, (uint64_t)node->i[k]);
    }
    return hash;
}

/* The call's operands, which are leaves, of several shapes or with an axis of
 * size 1 beside a longer one. */
static bool
spreads(const struct fuzz_program *prog)
{
    const struct fuzz_node *call = &prog->nodes[prog->n_nodes - 1], *a, *b;
    uint32_t i, k, n;

    for (i = 1; i < call->n_src; i++) {
        a = &prog->nodes[call->src[0]];
        b = &prog->nodes[call->src[i]];
        if (a->op != 0 || b->op != 0)
            continue;
        n = a->n_list < b->n_list ? a->n_list : b->n_list;
        if (a->n_list != b->n_list)
            return true;
        for (k = 0; k < n; k++) {
            int64_t x = a->list[k], y = b->list[k];
            if (x != y && (x == 1 || y == 1))
                return true;
        }
    }
    return false;
}

/* Whether its leaves (what it makes, where it has none) are as asked for. */
static bool
has_shapes(const struct fuzz_program *prog, enum fuzz_shapes shapes)
{
    uint32_t i, k;

    if (shapes == FUZZ_SHAPES_ANY)
        return true;
    if (shapes == FUZZ_SHAPES_SPREAD)
        return spreads(prog);
    for (i = 0; i < prog->n_nodes; i++) {
        const struct fuzz_node *node = &prog->nodes[i];
        if (node->op != 0 && prog->n_nodes > 1)
            continue;
        for (k = 0; k < node->n_list; k++) {
            if (shapes == FUZZ_SHAPES_EMPTY
                    ? node->list[k] == 0
                    : node->list[k] % 2 == 1 && node->list[k] > 1)
                return true;
        }
    }
    return false;
}

/* Does the API take it? */
static BELL_MUST_CHECK bell_status
is_valid(struct bell_context *ctx, const struct fuzz_program *prog, bool *out)
{
    struct bell_tensor *nodes[FUZZ_MAX_NODES];

    BELL_TRY(bell_scope_begin(ctx));
    *out = fuzz_build(ctx, prog, nodes) == BELL_OK;
    if (bell_scope_end(ctx) != BELL_OK && *out)
        return bell_fail(BELL_E_INTERNAL, "a scope of a program that is right");
    return BELL_OK;
}

/* Every size of leaves that is `from` becomes 0. */
static void
empty_sizes(struct fuzz_program *prog, int64_t from)
{
    uint32_t i, k;

    for (i = 0; i < prog->n_nodes; i++) {
        for (k = 0; prog->nodes[i].op == 0 && k < prog->nodes[i].n_list; k++) {
            if (prog->nodes[i].list[k] == from)
                prog->nodes[i].list[k] = 0;
        }
    }
}

/* Lets an axis of its leaves be empty, where the API takes that: generators
 * that choose sizes themselves make none such. */
static BELL_MUST_CHECK bell_status
empty_axis(struct bell_context *ctx, struct fuzz_program *prog)
{
    struct fuzz_program was = *prog;
    uint32_t i, k;
    bool valid;

    for (i = 0; i < was.n_nodes; i++) {
        for (k = 0; was.nodes[i].op == 0 && k < was.nodes[i].n_list; k++) {
            empty_sizes(prog, was.nodes[i].list[k]);
            BELL_TRY(is_valid(ctx, prog, &valid));
            if (valid)
                return BELL_OK;
            *prog = was;
        }
    }
    return BELL_OK;
}

static bool
is_new(const struct fuzz_program *prog, const uint64_t *seen, uint32_t n_seen)
{
    uint64_t hash = fuzz_hash_shapes(prog);
    uint32_t i;

    for (i = 0; i < n_seen && seen[i] != hash; i++)
        ;
    return i == n_seen;
}

bell_status
fuzz_make_one(struct bell_context *ctx, uint64_t seed, int op, bool lacks_f64,
              const uint64_t *seen, uint32_t n_seen, enum fuzz_shapes *shapes,
              struct fuzz_program *out_prog)
{
    enum fuzz_shapes asked = *shapes;
    uint32_t i;

    for (i = 0; i < 2 * N_TRIES; i++) {
        if (i == N_TRIES)
            *shapes = asked = FUZZ_SHAPES_ANY;
        BELL_TRY(fuzz_generate(ctx, hash_add(seed, i), 1, false, lacks_f64, op,
                               asked, out_prog));
        if (out_prog->n_roots == 0)
            continue;
        if (asked == FUZZ_SHAPES_EMPTY && !has_shapes(out_prog, asked))
            BELL_TRY(empty_axis(ctx, out_prog));
        if (has_shapes(out_prog, asked) && is_new(out_prog, seen, n_seen))
            return BELL_OK;
    }
    out_prog->n_nodes = out_prog->n_roots = 0;
    return BELL_OK;
}
