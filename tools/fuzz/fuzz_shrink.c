/* Making a failing program smaller while it still fails. */
#include "tools/fuzz/fuzz.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/mesh.h"
#include "tools/tools.h"

#define MAX_TRIES 600

struct shrink {
    struct bell_context **ctx;
    const char *device;
    fuzz_check_fn *check;
    struct fuzz_program *best, trial;
    struct fuzz_verdict *verdict;
    unsigned n_tries;
};

/* Keeps the trial if it still fails. */
static BELL_MUST_CHECK bell_status
try_it(struct shrink *s, bool *out_kept)
{
    struct fuzz_verdict verdict;

    *out_kept = false;
    if (s->n_tries++ >= MAX_TRIES)
        return BELL_OK;
    tool_progress("shrinking: %u calls, try %u", s->best->n_nodes, s->n_tries);
    fuzz_drop_dead(&s->trial);
    BELL_TRY(s->check(*s->ctx, &s->trial, &verdict));
    if (verdict.lost)
        BELL_TRY(fuzz_fresh_context(s->ctx, s->device));
    if (verdict.failed && !verdict.invalid) {
        *s->best = s->trial;
        *s->verdict = verdict;
        *out_kept = true;
    }
    return BELL_OK;
}

/* One root alone; no gradients. */
static BELL_MUST_CHECK bell_status
shrink_roots(struct shrink *s)
{
    uint32_t i;
    bool kept;

    s->trial = *s->best;
    s->trial.n_grads = 0;
    if (s->best->n_grads)
        BELL_TRY(try_it(s, &kept));
    for (i = 0; s->best->n_roots > 1 && i < s->best->n_roots; i++) {
        s->trial = *s->best;
        s->trial.roots[0] = s->best->roots[i];
        s->trial.n_roots = 1;
        BELL_TRY(try_it(s, &kept));
    }
    return BELL_OK;
}

/* Users of node `from`, and roots, take node `to`. */
static void
redirect(struct fuzz_program *prog, uint32_t from, uint16_t to)
{
    uint16_t moved[FUZZ_MAX_NODES];
    uint32_t i, k;

    for (i = 0; i < FUZZ_MAX_NODES; i++)
        moved[i] = (uint16_t)(i == from ? to : i);
    for (i = from + 1; i < prog->n_nodes; i++) {
        fuzz_redirect_sizes(&prog->nodes[i], moved);
        for (k = 0; k < prog->nodes[i].n_src; k++) {
            if (prog->nodes[i].src[k] == from)
                prog->nodes[i].src[k] = to;
        }
    }
    for (i = 0; i < prog->n_roots; i++) {
        if (prog->roots[i] == from)
            prog->roots[i] = to;
    }
}

/* The node becomes a leaf of the dtype that it has, whose sizes are its own. */
static BELL_MUST_CHECK bell_status
make_sized_leaf(struct shrink *s, uint32_t node)
{
    struct fuzz_node *leaf = &s->trial.nodes[node];
    struct fuzz_program *sized;
    bell_status status;

    sized = host_alloc(sizeof(*sized));
    if (!sized)
        return bell_fail(BELL_E_NO_MEMORY, "shrinking: out of memory");
    *sized = s->trial;
    status = fuzz_size_leaf(*s->ctx, sized, node);
    if (status == BELL_OK)
        *leaf = sized->nodes[node];
    else
        bell_error_clear();
    host_free(sized);
    return BELL_OK;
}

/* The node becomes a leaf of the shape and dtype that it has. */
static BELL_MUST_CHECK bell_status
make_leaf(struct shrink *s, uint32_t node)
{
    struct bell_tensor **nodes;
    struct fuzz_node *leaf = &s->trial.nodes[node];
    bell_status status;

    if (s->trial.n_symbols)
        return make_sized_leaf(s, node);
    nodes = host_calloc(FUZZ_MAX_NODES, sizeof(struct bell_tensor *));
    if (!nodes)
        return bell_fail(BELL_E_NO_MEMORY, "shrinking: out of memory");
    status = bell_scope_begin(*s->ctx);
    if (status == BELL_OK) {
        status = fuzz_build(*s->ctx, &s->trial, nodes);
        if (status == BELL_OK && bell_ndim(nodes[node]) <= FUZZ_MAX_LIST) {
            memset(leaf, 0, sizeof(*leaf));
            leaf->dtype = (uint8_t)bell_dtype_of(nodes[node]);
            leaf->n_list = (uint8_t)bell_ndim(nodes[node]);
            if (leaf->n_list)
                memcpy(leaf->list, bell_shape(nodes[node]),
                       leaf->n_list * sizeof(int64_t));
            /* equal elements are kinks of a gradient */
            leaf->i[0] = s->check == fuzz_check_grad ? FUZZ_DATA_DISTINCT
                                                     : FUZZ_DATA_COARSE;
            leaf->i[2] = node;
        }
        status = bell_scope_end(*s->ctx);
    }
    host_free(nodes);
    return status;
}

/* Takes calls out, the last ones first: a call's operand in its place, or a
 * leaf. */
static BELL_MUST_CHECK bell_status
shrink_calls(struct shrink *s, bool *out_any)
{
    uint32_t i = s->best->n_nodes, k;
    bool kept = false;

    while (i-- > 0) {
        if (i >= s->best->n_nodes)
            continue;
        kept = false;
        for (k = 0; !kept && k < s->best->nodes[i].n_src; k++) {
            s->trial = *s->best;
            redirect(&s->trial, i, s->best->nodes[i].src[k]);
            BELL_TRY(try_it(s, &kept));
            *out_any |= kept;
        }
        if (kept || i >= s->best->n_nodes || s->best->nodes[i].op == 0)
            continue;
        s->trial = *s->best;
        BELL_TRY(make_leaf(s, i));
        BELL_TRY(try_it(s, &kept));
        *out_any |= kept;
    }
    return BELL_OK;
}

/* Every size `from` in the leaves and lists becomes `to`. */
static void
replace_size(struct fuzz_program *prog, int64_t from, int64_t to)
{
    uint32_t i, k;

    for (i = 0; i < prog->n_nodes; i++) {
        for (k = 0; k < prog->nodes[i].n_list; k++) {
            if (prog->nodes[i].list[k] == from &&
                prog->nodes[i].list_size[k] == 0)
                prog->nodes[i].list[k] = to;
        }
    }
}

static BELL_MUST_CHECK bell_status
shrink_size(struct shrink *s, uint32_t leaf, uint32_t axis, bool *out_any)
{
    int64_t size = s->best->nodes[leaf].list[axis];
    int64_t smaller[] = {1, 2, size / 2, size - 1};
    bool kept = false;
    size_t i;

    for (i = 0; i < 2 * ARRAY_LEN(smaller) && !kept; i++) {
        int64_t to = smaller[i / 2];
        if (to < 1 || to >= size)
            continue;
        s->trial = *s->best;
        if (i % 2)
            s->trial.nodes[leaf].list[axis] = to;
        else
            replace_size(&s->trial, size, to);
        BELL_TRY(try_it(s, &kept));
        *out_any |= kept;
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
shrink_sizes(struct shrink *s, bool *out_any)
{
    uint32_t i, k;

    for (i = 0; i < s->best->n_nodes; i++) {
        for (k = 0; s->best->nodes[i].op == 0 && k < s->best->nodes[i].n_list;
             k++) {
            if (s->best->nodes[i].list_size[k] == 0)
                BELL_TRY(shrink_size(s, i, k, out_any));
        }
    }
    return BELL_OK;
}

/* One size of a symbol becomes another; 0: what it is in the first run. */
static BELL_MUST_CHECK bell_status
replace_sized(struct shrink *s, uint16_t from, uint16_t to, bool *out_any)
{
    struct fuzz_program *plain = host_alloc(sizeof(*plain));
    bell_status status;
    uint32_t i, k, n = 0;
    bool kept = false;

    if (!plain)
        return bell_fail(BELL_E_NO_MEMORY, "shrinking: out of memory");
    s->trial = *s->best;
    status = fuzz_settle(*s->ctx, s->best, 0, plain);
    for (i = 0; status == BELL_OK && i < s->trial.n_nodes; i++) {
        struct fuzz_node *node = &s->trial.nodes[i];

        for (k = 0; k < FUZZ_MAX_LIST + FUZZ_N_NUMBERS; k++) {
            bool is_list = k < FUZZ_MAX_LIST;
            uint32_t at = is_list ? k : k - FUZZ_MAX_LIST;
            uint16_t *size = is_list ? &node->list_size[at] : &node->i_size[at];

            if (*size != from)
                continue;
            *size = to;
            n++;
            if (to == 0 && is_list)
                node->list[at] = plain->nodes[i].list[at];
            else if (to == 0)
                node->i[at] = plain->nodes[i].i[at];
        }
    }
    host_free(plain);
    if (status != BELL_OK) {
        bell_error_clear();
        return BELL_OK;
    }
    if (n)
        BELL_TRY(try_it(s, &kept));
    *out_any |= kept;
    return BELL_OK;
}

/* Values and bounds that are plainer. */
static BELL_MUST_CHECK bell_status
shrink_values(struct shrink *s, uint32_t symbol, bool *out_any)
{
    uint32_t run;
    int64_t value;
    bool kept;

    for (run = 0; run < FUZZ_N_VALUES; run++) {
        kept = false;
        for (value = s->best->symbols[symbol].min;
             !kept && value < s->best->symbols[symbol].value[run] && value < 4;
             value++) {
            s->trial = *s->best;
            s->trial.symbols[symbol].value[run] = value;
            BELL_TRY(try_it(s, &kept));
            *out_any |= kept;
        }
    }
    s->trial = *s->best;
    s->trial.symbols[symbol].max = 1;
    for (run = 0; run < FUZZ_N_VALUES; run++) {
        value = s->best->symbols[symbol].value[run];
        if (value > s->trial.symbols[symbol].max)
            s->trial.symbols[symbol].max = value;
    }
    if (s->trial.symbols[symbol].max < s->best->symbols[symbol].max)
        BELL_TRY(try_it(s, &kept));
    return BELL_OK;
}

/* Fewer sizes of symbols, and smaller ones. */
static BELL_MUST_CHECK bell_status
shrink_symbols(struct shrink *s, bool *out_any)
{
    uint32_t i, k;

    for (i = s->best->n_sizes; i > 0; i--) {
        BELL_TRY(replace_sized(s, (uint16_t)i, 0, out_any));
        if (i > 1)
            BELL_TRY(replace_sized(s, (uint16_t)i, 1, out_any));
    }
    for (i = 0; i < s->best->n_nodes; i++) {
        for (k = 0; k < 8 && s->best->n_symbols; k++)
            BELL_TRY(replace_sized(s, FUZZ_AXIS(i, k), 0, out_any));
    }
    for (i = 0; i < s->best->n_symbols; i++)
        BELL_TRY(shrink_values(s, i, out_any));
    return BELL_OK;
}

/* Plainer numbers. */
static BELL_MUST_CHECK bell_status
shrink_data(struct shrink *s)
{
    uint32_t i;
    bool kept;

    for (i = 0; i < s->best->n_nodes; i++) {
        if (s->best->nodes[i].op != 0 ||
            s->best->nodes[i].i[0] == FUZZ_DATA_COARSE ||
            s->best->nodes[i].i[0] == FUZZ_DATA_INDEX ||
            s->best->nodes[i].i[0] == FUZZ_DATA_CLASS)
            continue;
        s->trial = *s->best;
        s->trial.nodes[i].i[0] = FUZZ_DATA_COARSE;
        BELL_TRY(try_it(s, &kept));
    }
    return BELL_OK;
}

/* Fewer splits. */
static BELL_MUST_CHECK bell_status
shrink_layouts(struct shrink *s)
{
    uint32_t i, k;
    bool kept;

    for (i = 0; i < s->best->n_nodes; i++) {
        for (k = 0; k < 2; k++) {
            if (!s->best->nodes[i].split[k])
                continue;
            s->trial = *s->best;
            s->trial.nodes[i].split[k] = 0;
            BELL_TRY(try_it(s, &kept));
        }
    }
    return BELL_OK;
}

bool
fuzz_has_two_axes(const struct bell_context *ctx)
{
    uint32_t n = bell_mesh_places(ctx);

    return n >= 4 && n % 2 == 0;
}

bell_status
fuzz_fresh_context(struct bell_context **ctx, const char *device)
{
    bell_context_destroy(*ctx);
    *ctx = NULL;
    BELL_TRY(tool_open_context(device, "exact", ctx));
    if (!fuzz_has_two_axes(*ctx))
        return BELL_OK;
    return bell_mesh_set(*ctx,
                         BELL_DIMS((int64_t)bell_mesh_places(*ctx) / 2, 2),
                         (const char *const[]){"data", "model"});
}

static BELL_MUST_CHECK bell_status
shrink_all(struct shrink *s)
{
    bool any = true;

    BELL_TRY(shrink_roots(s));
    while (any && s->n_tries < MAX_TRIES) {
        any = false;
        BELL_TRY(shrink_calls(s, &any));
        BELL_TRY(shrink_sizes(s, &any));
        BELL_TRY(shrink_symbols(s, &any));
    }
    BELL_TRY(shrink_layouts(s));
    return s->check == fuzz_check_grad ? BELL_OK : shrink_data(s);
}

bell_status
fuzz_shrink(struct bell_context **ctx, const char *device, fuzz_check_fn *check,
            struct fuzz_program *prog, struct fuzz_verdict *verdict)
{
    struct shrink *s = host_calloc(1, sizeof(*s));
    bell_status status;

    if (!s)
        return bell_fail(BELL_E_NO_MEMORY, "shrinking: out of memory");
    s->ctx = ctx;
    s->device = device;
    s->check = check;
    s->best = prog;
    s->verdict = verdict;
    status = shrink_all(s);
    tool_progress(NULL);
    host_free(s);
    return status;
}
