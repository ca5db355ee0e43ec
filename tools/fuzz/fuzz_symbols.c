/* `doorbell fuzz --symbols`: programs with sizes of one or two symbols.
 *
 * A program runs with three values of its symbols. Each gives what the
 * reference has of the same program with plain sizes; where no floats are
 * reduced, what the device gives of that, to the bit. The first run makes the
 * plan of all: with the values again, and in another order in a context that
 * has seen none of them, the results are the same to the bit. NaN is equal to
 * NaN.
 */
#include "tools/fuzz/fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "doorbell/jit.h"
#include "doorbell/stats.h"

/* ---- sizes ------------------------------------------------------------ */

bool
fuzz_place_sizes(const struct fuzz_program *prog, uint32_t node,
                 const struct bell_dim *sizes, struct bell_tensor *const *nodes,
                 struct fuzz_node *out)
{
    uint32_t k;

    *out = prog->nodes[node];
    for (k = 0; k < FUZZ_MAX_LIST + FUZZ_N_NUMBERS; k++) {
        bool is_number = k >= FUZZ_MAX_LIST;
        uint16_t *from =
            is_number ? &out->i_size[k - FUZZ_MAX_LIST] : &out->list_size[k];
        int64_t *to = is_number ? &out->i[k - FUZZ_MAX_LIST] : &out->list[k];
        uint32_t other = *from / 8u - 1, axis = *from % 8u;
        int64_t word;

        if (*from == 0)
            continue;
        if (*from < 8 && *from > prog->n_sizes)
            return false;
        if (*from >= 8 && (other >= node || axis >= bell_ndim(nodes[other])))
            return false;
        word = *from < 8 ? sizes[*from - 1].word
                         : bell_dims(nodes[other])[axis].word;
        if (out->op != 0 || !is_number || word < *to)
            *to = word;
        *from = 0;
    }
    return true;
}

static int64_t
size_in_run(const struct fuzz_program *prog, uint32_t size, uint32_t run)
{
    const struct fuzz_size *s = &prog->sizes[size];
    int64_t n = prog->symbols[0].value[run];
    int64_t m = prog->n_symbols > 1 ? prog->symbols[1].value[run] : 0;

    return s->by[0] * n + s->by[1] * m + s->both * n * m + s->plus;
}

/* A leaf of zeros: shape and dtype are all that counts. */
static struct bell_tensor *
build_shape(struct bell_context *ctx, const struct fuzz_node *node,
            struct bell_tensor *const *nodes)
{
    return node->op != 0 ? fuzz_call(ctx, node, nodes)
                         : bell_zeros(ctx, node->list, node->n_list,
                                      (enum bell_dtype)node->dtype);
}

static BELL_MUST_CHECK bell_status
settle_nodes(struct bell_context *ctx, const struct fuzz_program *prog,
             const struct bell_dim *sizes, struct fuzz_program *out)
{
    struct bell_tensor *nodes[FUZZ_MAX_NODES];
    uint32_t i;

    for (i = 0; i < prog->n_nodes; i++) {
        if (!fuzz_place_sizes(prog, i, sizes, nodes, &out->nodes[i]))
            return bell_fail(BELL_E_INVALID, "t%u: a size of no axis", i);
        nodes[i] = build_shape(ctx, &out->nodes[i], nodes);
        BELL_TRY(bell_context_status(ctx));
        if (bell_is_error(nodes[i]))
            return bell_fail(BELL_E_INVALID, "t%u: refused", i);
    }
    return BELL_OK;
}

bell_status
fuzz_settle(struct bell_context *ctx, const struct fuzz_program *prog,
            uint32_t run, struct fuzz_program *out)
{
    struct bell_dim sizes[FUZZ_MAX_SIZES];
    bell_status status, end;
    uint32_t i;

    *out = *prog;
    for (i = 0; i < prog->n_sizes; i++)
        sizes[i] = bell_dim_of(size_in_run(prog, i, run));
    BELL_TRY(bell_scope_begin(ctx));
    status = settle_nodes(ctx, prog, sizes, out);
    out->n_symbols = out->n_sizes = 0;
    out->was_sized = true;
    end = bell_scope_end(ctx);
    return status == BELL_OK ? end : status;
}

bell_status
fuzz_declare(struct bell_context *ctx, const struct fuzz_program *prog,
             struct bell_dim *symbols, struct bell_dim *sizes)
{
    static const char *const names[FUZZ_MAX_SYMBOLS] = {"n", "m"};
    uint32_t i, k;

    for (i = 0; i < prog->n_symbols; i++)
        symbols[i] = bell_symbol(ctx, names[i], prog->symbols[i].min,
                                 prog->symbols[i].max);
    for (i = 0; i < prog->n_sizes; i++) {
        const struct fuzz_size *s = &prog->sizes[i];
        struct bell_dim sum = bell_dim_of(s->plus);

        for (k = 0; k < prog->n_symbols; k++)
            sum =
                bell_dim_add(ctx, sum, bell_dim_mul(ctx, symbols[k], s->by[k]));
        if (s->both)
            sum = bell_dim_add(
                ctx, sum,
                bell_dim_mul(ctx, bell_dim_mul(ctx, symbols[0], symbols[1]),
                             s->both));
        sizes[i] = sum;
    }
    BELL_TRY(bell_context_status(ctx));
    return fuzz_set_symbols(ctx, prog, symbols, 0);
}

bell_status
fuzz_set_symbols(struct bell_context *ctx, const struct fuzz_program *prog,
                 const struct bell_dim *symbols, uint32_t run)
{
    uint32_t i;

    for (i = 0; i < prog->n_symbols; i++)
        BELL_TRY(bell_symbol_set(ctx, symbols[i], prog->symbols[i].value[run]));
    return BELL_OK;
}

/* What size of the program the word is; 0: none, but perhaps a number. */
static uint16_t
find_program_size(const struct fuzz_program *prog, const struct bell_dim *sizes,
                  struct bell_tensor *const *nodes, uint32_t before,
                  int64_t word)
{
    uint32_t i, k;

    for (i = 0; i < prog->n_sizes; i++) {
        if (sizes[i].word == word)
            return (uint16_t)(1 + i);
    }
    for (i = 0; i < before; i++) {
        for (k = 0; k < bell_ndim(nodes[i]); k++) {
            if (bell_dims(nodes[i])[k].word == word)
                return FUZZ_AXIS(i, k);
        }
    }
    return 0;
}

static BELL_MUST_CHECK bell_status
size_leaf(struct bell_context *ctx, struct fuzz_program *prog, uint32_t node)
{
    struct bell_dim symbols[FUZZ_MAX_SYMBOLS], sizes[FUZZ_MAX_SIZES];
    struct fuzz_node leaf = {.i = {FUZZ_DATA_COARSE, 0, node}}, placed;
    struct bell_tensor *nodes[FUZZ_MAX_NODES];
    uint32_t i;

    BELL_TRY(fuzz_declare(ctx, prog, symbols, sizes));
    for (i = 0; i <= node; i++) {
        if (!fuzz_place_sizes(prog, i, sizes, nodes, &placed))
            return bell_fail(BELL_E_INVALID, "t%u: a size of no axis", i);
        nodes[i] = build_shape(ctx, &placed, nodes);
        BELL_TRY(bell_context_status(ctx));
        if (bell_is_error(nodes[i]))
            return bell_fail(BELL_E_INVALID, "t%u: refused", i);
    }
    leaf.dtype = (uint8_t)bell_dtype_of(nodes[node]);
    leaf.n_list = (uint8_t)bell_ndim(nodes[node]);
    for (i = 0; i < leaf.n_list; i++) {
        int64_t now, word = bell_dims(nodes[node])[i].word;

        BELL_TRY(bell_dim_now(ctx, bell_dims(nodes[node])[i], &now));
        leaf.list[i] = now;
        leaf.list_size[i] =
            word == now ? 0 : find_program_size(prog, sizes, nodes, node, word);
        if (word != now && leaf.list_size[i] == 0)
            return bell_fail(BELL_E_INVALID, "t%u: a size of its own", node);
    }
    prog->nodes[node] = leaf;
    return BELL_OK;
}

bell_status
fuzz_size_leaf(struct bell_context *like, struct fuzz_program *prog,
               uint32_t node)
{
    struct bell_context *ctx = NULL;
    bell_status status = fuzz_fresh_context(&ctx, bell_context_device(like));

    if (status == BELL_OK)
        status = size_leaf(ctx, prog, node);
    bell_context_destroy(ctx);
    return status;
}

/* ---- runs ------------------------------------------------------------- */

/* A program in a context of its own, with its symbols. */
struct sized {
    struct bell_context *ctx;
    struct bell_dim symbols[FUZZ_MAX_SYMBOLS], sizes[FUZZ_MAX_SIZES];
    uint64_t n_plans; /* after the first run */
    uint32_t n_runs;
};

struct check {
    struct fuzz_program prog; /* without gradients where the API refuses them */
    struct fuzz_program plain[FUZZ_N_VALUES];
    struct fuzz_result first[FUZZ_N_VALUES], plainly;
    struct fuzz_verdict *out;
};

/* What is wrong with a run, behind the values that it has. */
static void
tell_run(struct check *c, uint32_t run, const char *text)
{
    const struct fuzz_symbol *s = c->prog.symbols;
    char what[sizeof(c->out->what)];

    if (c->prog.n_symbols > 1)
        snprintf(what, sizeof(what), "n = %" PRId64 ", m = %" PRId64 ": %.300s",
                 s[0].value[run], s[1].value[run], text);
    else
        snprintf(what, sizeof(what), "n = %" PRId64 ": %.300s", s[0].value[run],
                 text);
    memcpy(c->out->what, what, sizeof(what));
    c->out->failed = true;
}

static BELL_MUST_CHECK bell_status
build_sized(const struct sized *s, const struct check *c, uint32_t run,
            struct bell_tensor **nodes)
{
    uint32_t i;

    for (i = 0; i < c->prog.n_nodes; i++) {
        struct fuzz_node node;

        if (!fuzz_place_sizes(&c->prog, i, s->sizes, nodes, &node))
            return bell_fail(BELL_E_INVALID, "t%u: a size of no axis", i);
        nodes[i] = node.op != 0
                       ? fuzz_call(s->ctx, &node, nodes)
                       : fuzz_build_leaf(s->ctx, &c->plain[run], i, node.list);
        if (!nodes[i])
            return bell_fail(BELL_E_NO_MEMORY, "leaf t%u: out of memory", i);
        BELL_TRY(bell_context_status(s->ctx));
        if (bell_is_error(nodes[i]))
            return bell_fail(BELL_E_INVALID, "t%u: refused", i);
    }
    return BELL_OK;
}

/* No gradient goes to some images whose sides are sizes of symbols. */
static void
ask_gradients(struct check *c, struct bell_tensor *const *nodes)
{
    struct bell_tensor *roots[FUZZ_MAX_OUT];
    uint32_t n = c->prog.n_roots, i;

    for (i = 0; i < n; i++)
        roots[i] = nodes[c->prog.roots[i]];
    if (fuzz_append_grads(&c->prog, nodes, roots, &n) == BELL_OK)
        return;
    bell_error_clear();
    c->prog.n_grads = 0;
    for (i = 0; i < FUZZ_N_VALUES; i++)
        c->plain[i].n_grads = 0;
}

/* Builds and reads, in a scope. What the API refuses, says nothing. */
static BELL_MUST_CHECK bell_status
run_nodes(const struct sized *s, struct check *c, uint32_t run,
          struct fuzz_result *result)
{
    struct bell_tensor *nodes[FUZZ_MAX_NODES];

    if (build_sized(s, c, run, nodes) != BELL_OK) {
        c->out->invalid = true;
        return BELL_OK;
    }
    if (s->n_runs == 0)
        ask_gradients(c, nodes);
    if (fuzz_read_roots(&c->prog, nodes, result) != BELL_OK) {
        fuzz_note_failure(c->out, &c->prog, "with symbols");
        if (c->out->failed)
            tell_run(c, run, bell_error_last()->message);
        /* a graph of which no plan for all values can be made says so */
        c->out->unplanned = !c->out->refused && s->n_runs == 0 &&
                            bell_error_last()->status == BELL_E_UNSUPPORTED;
        if (c->out->unplanned) {
            c->out->failed = false;
            c->out->invalid = true;
        }
    }
    return BELL_OK;
}

/* One run, of the values `run`; `result` is what it gives. */
static BELL_MUST_CHECK bell_status
run_sized(struct sized *s, struct check *c, uint32_t run,
          struct fuzz_result *result)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    char text[100];

    BELL_TRY(fuzz_set_symbols(s->ctx, &c->prog, s->symbols, run));
    BELL_TRY(bell_scope_begin(s->ctx));
    BELL_TRY(run_nodes(s, c, run, result));
    if (bell_scope_end(s->ctx) != BELL_OK && !c->out->failed)
        fuzz_note_failure(c->out, &c->prog, "bell_scope_end");
    bell_context_stats(s->ctx, &stats);
    if (s->n_runs++ == 0) {
        s->n_plans = stats.n_plans;
    } else if (stats.n_plans != s->n_plans && !c->out->failed &&
               !c->out->invalid) {
        snprintf(text, sizeof(text),
                 "run %u made %" PRIu64 " plans, the first %" PRIu64, s->n_runs,
                 stats.n_plans - s->n_plans, s->n_plans);
        tell_run(c, run, text);
    }
    return BELL_OK;
}

/* To the bit. */
static void
compare_sized(struct check *c, uint32_t run, const struct fuzz_result *a,
              const struct fuzz_result *b, const char *name_a,
              const char *name_b)
{
    char text[200];
    double x, y;
    uint32_t i;
    size_t at;

    for (i = 0; i < a->n && !c->out->failed; i++) {
        if (i >= b->n || a->size_bytes[i] != b->size_bytes[i]) {
            snprintf(text, sizeof(text), "root %u: %zu bytes %s, %zu %s", i,
                     a->size_bytes[i], name_a, i < b->n ? b->size_bytes[i] : 0,
                     name_b);
            tell_run(c, run, text);
        } else if (fuzz_find_difference(a->dtype[i], a->n_elems[i], a->bytes[i],
                                        b->bytes[i], &at, &x, &y)) {
            snprintf(text, sizeof(text),
                     "root %u, element %zu: %.17g %s, %.17g %s", i, at, x,
                     name_a, y, name_b);
            c->out->root = i;
            tell_run(c, run, text);
        }
    }
}

static bool
may_go_on(const struct check *c)
{
    return !c->out->failed && !c->out->invalid;
}

/* Three values, twice; then the other way round in another context. */
static BELL_MUST_CHECK bell_status
run_orders(struct sized *s, struct check *c, bool is_first)
{
    struct fuzz_result again = {0};
    uint32_t n = is_first ? 2 * FUZZ_N_VALUES : FUZZ_N_VALUES, i, run;

    for (i = 0; i < n && may_go_on(c); i++) {
        run = is_first ? i % FUZZ_N_VALUES : FUZZ_N_VALUES - 1 - i;
        if (is_first && i < FUZZ_N_VALUES) {
            BELL_TRY(run_sized(s, c, run, &c->first[run]));
            continue;
        }
        BELL_TRY(run_sized(s, c, run, &again));
        if (may_go_on(c))
            compare_sized(c, run, &c->first[run], &again, "at first",
                          is_first ? "again" : "in another order");
        fuzz_result_fini(&again);
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
run_in_context(struct bell_context *like, struct check *c, bool is_first)
{
    struct sized s = {0};
    bell_status status = fuzz_fresh_context(&s.ctx, bell_context_device(like));

    if (status == BELL_OK)
        status = fuzz_declare(s.ctx, &c->prog, s.symbols, s.sizes);
    if (status == BELL_OK)
        status = run_orders(&s, c, is_first);
    bell_context_destroy(s.ctx);
    return status;
}

/* Takes for b's what a has where nothing decides it: bits of a NaN, say. */
static void
take_undecided(const struct fuzz_result *a, struct fuzz_result *b)
{
    uint32_t i;
    size_t each, k;

    for (i = 0; i < a->n && i < b->n; i++) {
        each = uop_dtype_infos[a->dtype[i]].size_bytes;
        for (k = 0; k < a->n_elems[i] && a->size_bytes[i] == b->size_bytes[i];
             k++) {
            if (a->undecided[i][k])
                memcpy((uint8_t *)b->bytes[i] + k * each,
                       (const uint8_t *)a->bytes[i] + k * each, each);
        }
    }
}

/* By the reference, and by the device with plain sizes. */
static BELL_MUST_CHECK bell_status
judge_run(struct bell_context *ctx, struct check *c, uint32_t run)
{
    char what[sizeof(c->out->what)];

    if (fuzz_run_once(ctx, &c->plain[run], &c->plainly) != BELL_OK) {
        fuzz_note_failure(c->out, &c->prog, "with plain sizes");
        return BELL_OK;
    }
    BELL_TRY(fuzz_judge(ctx, &c->plain[run], &c->first[run], c->out));
    if (c->out->failed) {
        memcpy(what, c->out->what, sizeof(what));
        tell_run(c, run, what);
    } else if (!c->plainly.reduces_floats && !c->first[run].reduces_floats) {
        c->out->to_the_bit = true;
        take_undecided(&c->first[run], &c->plainly);
        compare_sized(c, run, &c->first[run], &c->plainly, "with symbols",
                      "with plain sizes");
    }
    fuzz_result_fini(&c->plainly);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
check_sized(struct bell_context *ctx, struct check *c)
{
    uint32_t run;

    for (run = 0; run < FUZZ_N_VALUES; run++) {
        if (fuzz_settle(ctx, &c->prog, run, &c->plain[run]) != BELL_OK) {
            c->out->invalid = true;
            return BELL_OK;
        }
    }
    BELL_TRY(run_in_context(ctx, c, true));
    c->out->is_sized = c->first[0].is_sized;
    for (run = 0; run < FUZZ_N_VALUES && may_go_on(c); run++)
        BELL_TRY(judge_run(ctx, c, run));
    return may_go_on(c) ? run_in_context(ctx, c, false) : BELL_OK;
}

bell_status
fuzz_check_symbols(struct bell_context *ctx, const struct fuzz_program *prog,
                   struct fuzz_verdict *out)
{
    struct check *c = host_calloc(1, sizeof(*c));
    bell_status status;
    uint32_t run;

    memset(out, 0, sizeof(*out));
    if (!c)
        return bell_fail(BELL_E_NO_MEMORY, "a fuzz program: out of memory");
    c->prog = *prog;
    c->out = out;
    status = check_sized(ctx, c);
    for (run = 0; run < FUZZ_N_VALUES; run++)
        fuzz_result_fini(&c->first[run]);
    fuzz_result_fini(&c->plainly);
    host_free(c);
    return status;
}
