/* The way of a kernel through the passes of this folder. */
#include "lower/lower.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "lower/branch.h"
#include "lower/attention/attention.h"
#include "lower/expand/expand.h"
#include "lower/scan/order.h"
#include "lower/scan/scan.h"
#include "lower/index.h"
#include "lower/linearize.h"
#include "lower/opt/opt.h"
#include "lower/pack.h"
#include "uops/validate.h"

#define LINE_BYTES 64 /* of a cache */

/* ---- estimates and name ---- */

static double
count_flops(const struct kernel *k, const struct scan *scan)
{
    double n = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (!uop_is_float(u))
            continue;
        if (scan && (k->deps[i] >> scan->at & 1)) {
            n += u == scan->sum ? kernel_count(k, k->deps[i]) : 0;
            continue;
        }
        if (uop_has(u, UOP_FLAG_ALU))
            n += kernel_count(k, k->deps[i]);
        else if (u->op == UOP_REDUCE)
            n += kernel_count(k, k->deps[i] | kernel_bound(k, u));
    }
    return n;
}

/* What is loaded from, or stored to, a buffer. */
struct lower_touched {
    double n, bytes;     /* elements, by indices; what comes of them */
    int64_t least, most; /* all of which are between these */
};

/* Elements of each buffer that are loaded, and that are stored: as many as
 * indices differ, each counted once, but no more than lie between the least and
 * the greatest. So what several LOADs, or places of a window, read is counted
 * as it comes from memory. Which of the first 64 buffers are stored, and larger
 * than the caches, goes to *out_large. */
static double
count_bytes(const struct kernel *k, uint64_t *out_large)
{
    struct lower_touched slots[2][LOWER_MAX_SLOTS] = {0}, *t;
    double n = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i], *p;
        double count, all;
        struct uop_bounds b;
        if (u->op != UOP_LOAD && u->op != UOP_STORE)
            continue;
        p = u->src[0];
        count = kernel_count(k, kernel_deps(k, u->src[1]));
        if (p->op != UOP_PARAM || p->arg.i >= LOWER_MAX_SLOTS) {
            n += count * uop_dtype_infos[p->dtype].size_bytes;
            continue;
        }
        b = uop_bounds(k->g, u->src[1]);
        t = &slots[u->op == UOP_STORE][p->arg.i];
        t->least = t->n == 0 || b.min < t->least ? b.min : t->least;
        t->most = t->n == 0 || b.max > t->most ? b.max : t->most;
        n -= t->bytes;
        t->n += count;
        all = (double)t->most - (double)t->least + 1;
        t->bytes =
            (t->n < all ? t->n : all) * uop_dtype_infos[p->dtype].size_bytes;
        n += t->bytes;
    }
    for (*out_large = 0, i = 0; i < 64; i++) {
        if (slots[1][i].bytes > (double)k->target->l3_bytes)
            *out_large |= (uint64_t)1 << i;
    }
    return n;
}

/* PARAMs below 64 that more is done with than storing there. */
static uint64_t
find_loaded(const struct lower_program *p)
{
    uint64_t set = 0;
    uint32_t i, j;

    for (i = 0; i < p->n_ops; i++) {
        const struct uop *u = p->ops[i];
        for (j = u->op == UOP_STORE; j < u->n_src; j++) {
            const struct uop *memory = u->src[j];
            if (u->op != UOP_INDEX && u->op != UOP_AFTER &&
                uop_is_memory(memory) && uop_memory(memory)->op == UOP_PARAM &&
                uop_memory(memory)->arg.i < 64)
                set |= (uint64_t)1 << uop_memory(memory)->arg.i;
        }
    }
    return set;
}

/* r_ or E_ (with and without reduction), then the sizes of all ranges. */
static const char *
make_name(const struct kernel *k)
{
    char text[256];
    size_t at;
    uint32_t r;

    at = (size_t)snprintf(text, sizeof(text), "%s",
                          k->reduce_ranges ? "r" : "E");
    for (r = 0; r < k->n_ranges && at + 24 < sizeof(text); r++) {
        if (k->sizes[r] < 0)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "_n");
        else
            at += (size_t)snprintf(text + at, sizeof(text) - at, "_%lld",
                                   (long long)k->sizes[r]);
    }
    return arena_printf(&k->g->arena, "%s", text);
}

/* One more than the last VAR's slot, or 0. */
static uint32_t
count_var_slots(const struct kernel *k)
{
    uint32_t i, n = 0;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op == UOP_VAR && (uint32_t)u->arg.i >= n)
            n = (uint32_t)u->arg.i + 1;
    }
    return n;
}

/* n_vars: of the kernel as it was given; those of sizes may be in its ends. */
static void
count_params(const struct kernel *k, uint32_t n_vars, struct lower_program *p)
{
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        uint32_t slot = (uint32_t)u->arg.i;
        if (u->op == UOP_PARAM && slot >= p->n_params)
            p->n_params = slot + 1;
    }
    p->n_vars = n_vars > p->n_params ? n_vars - p->n_params : 0;
}

/* ---- passes ---- */

/* Prints the nodes of a stage if that is asked for. */
static void
log_nodes(const struct kernel *k, enum log_topic topic, const char *title,
          const struct uop *const *roots, size_t n_roots)
{
    bell_status status;
    char *text;

    if (!LOG_ON(topic))
        return;
    status =
        (topic == LOG_DOT ? uop_dot : uop_print)(k->g, roots, n_roots, &text);
    if (status != BELL_OK) {
        bell_error_clear();
        return;
    }
    log_text(topic, title, text);
    host_free(text);
}

/* A later stage of a kernel: "NAME: stage". */
static void
log_stage(const struct kernel *k, const struct lower_program *p,
          const char *stage, const struct uop *const *roots, size_t n_roots)
{
    char title[192];

    if (!LOG_ON(LOG_UOPS))
        return;
    snprintf(title, sizeof(title), "%s: %s", p->name, stage);
    log_nodes(k, LOG_UOPS, title, roots, n_roots);
}

static bell_status
lower_passes(struct kernel *k, struct lower_program *p)
{
    struct lower_target target = *k->target;
    const struct uop *root;
    struct attend attend;
    uint32_t kinds = lower_attends(k->target);
    bool attends = kinds && attend_find(k, kinds, &attend);
    struct scan scan;
    bool scans = !attends && !k->target->no_opts && scan_find(k, &scan);
    struct order order;
    bool orders = !attends && !scans && order_find(k, &order);
    uint32_t n_vars = count_var_slots(k);
    uint64_t large;

    if (attends)
        BELL_TRY(attend_bound(k, kinds, &attend));
    if (attends)
        BELL_TRY(attend_group(k, kinds, &attend));
    if (!attends && !scans && !orders) {
        if (!k->target->is_gpu && !k->target->no_opts)
            BELL_TRY(kernel_merge_sizes(k));
        BELL_TRY(kernel_bound_ranges(k));
        BELL_TRY(kernel_canonical(k));
    }
    count_params(k, n_vars, p);
    p->n_flops = count_flops(k, scans ? &scan : NULL);
    p->n_bytes = count_bytes(k, &large);
    p->name = make_name(k);
    if (!p->name)
        return bell_fail(BELL_E_NO_MEMORY, "naming a kernel: out of memory");
    log_nodes(k, LOG_UOPS, p->name, &k->sink, 1);
    log_nodes(k, LOG_IR, p->name, &k->sink, 1);
    log_nodes(k, LOG_DOT, p->name, &k->sink, 1);
    LOG(LOG_OPT, "%s:", p->name);
    if (attends) {
        BELL_TRY(expand_attend(k, &attend, &root, p));
        p->is_approx = attend_is_approx(k, &attend);
        target.is_approx |= p->is_approx;
    } else if (scans) {
        BELL_TRY(expand_scan(k, &scan, &root, p));
    } else if (orders) {
        BELL_TRY(expand_order(k, &order, &root, p));
    } else {
        if (!k->target->no_opts)
            BELL_TRY(k->target->is_gpu ? opt_gpu_rules(k) : opt_rules(k));
        if (k->made && k->made->schedule.n_actions > LOWER_MAX_ACTIONS)
            k->made->schedule.n_actions = 0; /* more than it can say */
        log_stage(k, p, "optimised", &k->sink, 1);
        BELL_TRY(expand_kernel(k, &root, p));
        p->want_regs = k->want_regs;
    }
    log_stage(k, p, "expanded", &root, 1);
    /* what decomposing takes out, POW, is of kernels only */
    BELL_TRY(uop_validate_pass(k->g, &root, 1,
                               (enum uop_stage)(UOP_STAGE_K | UOP_STAGE_P),
                               "expanding"));
    BELL_TRY(lower_decompose(k->g, &root, 1, &target));
    BELL_TRY(uop_validate_pass(k->g, &root, 1, UOP_STAGE_P, "decomposing"));
    log_stage(k, p, "decomposed", &root, 1);
    BELL_TRY(lower_index(k->g, &root, 1, k->target));
    BELL_TRY(uop_validate_pass(k->g, &root, 1, UOP_STAGE_P, "indexing"));
    log_stage(k, p, "indexed", &root, 1);
    BELL_TRY(linearize(k->g, root, &p->ops, &p->n_ops));
    BELL_TRY(lower_branch(k->g, p->ops, p->n_ops, &p->ops, &p->n_ops));
    if (k->target->l3_bytes && k->target->arg_align_bytes >= LINE_BYTES)
        p->streamed = large & ~find_loaded(p);
    log_stage(k, p, "program", p->ops, p->n_ops);
    return uop_validate_pass(k->g, p->ops, p->n_ops, UOP_STAGE_P,
                             "linearizing");
}

/* ---- kernels from elsewhere ---- */

static bell_status
check_node(const struct uop *u)
{
    uint32_t i;

    switch (u->op) {
    case UOP_PARAM:
    case UOP_VAR:
        if (u->arg.i >= LOWER_MAX_SLOTS)
            return uop_bad(u, "slots are 0..%d", LOWER_MAX_SLOTS - 1);
        return BELL_OK;
    case UOP_RANGE:
        if (uop_range_id(u) >= KERNEL_MAX_RANGES)
            return uop_bad(u, "ids are 0..%d", KERNEL_MAX_RANGES - 1);
        if (uop_range_axis(u) != UOP_AXIS_LOOP &&
            uop_range_axis(u) != UOP_AXIS_REDUCE)
            return uop_bad(u, "lowering chooses axes: loop or reduce");
        if (u->src[0]->op != UOP_CONST && u->src[0]->op != UOP_VAR)
            return uop_bad(u, "its size is a CONST or VAR");
        return BELL_OK;
    case UOP_REDUCE:
        for (i = 1; i < u->n_src; i++) {
            if (uop_range_axis(u->src[i]) != UOP_AXIS_REDUCE)
                return uop_bad(u, "source %u is not a reduce RANGE", i);
        }
        return BELL_OK;
    case UOP_SORT: /* more in check_sort */
        return BELL_OK;
    case UOP_LOAD:
    case UOP_STORE:
        return u->src[0]->op == UOP_PARAM
                   ? BELL_OK
                   : uop_bad(u, "source 0 is not a PARAM");
    default:
        if (u->lanes == 1 &&
            (uop_has(u, UOP_FLAG_ALU) || u->op == UOP_CONST ||
             u->op == UOP_CAST || u->op == UOP_BITCAST || u->op == UOP_SINK))
            return BELL_OK;
        return uop_bad(u, "lowering makes such nodes, no kernel has them");
    }
}

/* A kernel with a SORT is nothing else (lower/scan/order.h): the value that its
 * one STORE has, for keys that know nothing of where they come to stand. */
static bell_status
check_sort(const struct uop *sink, const struct uop *sort,
           const struct uop *const *list, size_t n)
{
    const struct uop *store = sink->src[0];
    bell_status status = BELL_OK;
    bool *from_at; /* by id */
    uint32_t i, s;

    if (sink->n_src != 1 || store->op != UOP_STORE || store->n_src != 3 ||
        store->src[2] != sort)
        return uop_bad(sort, "is not what its kernel's only STORE stores");
    if (uop_range_axis(sort->src[1]) != UOP_AXIS_REDUCE ||
        uop_range_axis(sort->src[2]) != UOP_AXIS_LOOP)
        return uop_bad(sort, "its RANGEs are a reduce and a loop");
    from_at = host_calloc((size_t)sink->id + 1, sizeof(*from_at));
    if (!from_at)
        return bell_fail(BELL_E_NO_MEMORY, "a SORT's keys: out of memory");
    for (i = 0; i < n && status == BELL_OK; i++) {
        const struct uop *u = list[i];

        assert(u->id <= sink->id);
        from_at[u->id] = u == sort->src[2];
        for (s = 0; s < u->n_src; s++)
            from_at[u->id] |= from_at[u->src[s]->id];
        if (u->op == UOP_REDUCE || (u->op == UOP_SORT && u != sort))
            status = uop_bad(u, "stands beside a SORT");
    }
    if (status == BELL_OK && from_at[sort->src[0]->id])
        status = uop_bad(sort, "its keys depend on source 2");
    host_free(from_at);
    return status;
}

/* What two nodes must not both be. */
static bell_status
check_leaf_pair(const struct uop *u, const struct uop *v)
{
    assert(u != v);
    if (u->op == UOP_PARAM && v->op == UOP_PARAM && u->arg.i == v->arg.i)
        return uop_bad(v, "slot %lld is %%%u's", (long long)v->arg.i, u->id);
    if (u->op == UOP_PARAM && v->op == UOP_VAR && u->arg.i >= v->arg.i)
        return uop_bad(v, "VARs come after all PARAMs");
    if (u->op == UOP_RANGE && v->op == UOP_RANGE &&
        uop_range_axis(u) == UOP_AXIS_LOOP &&
        uop_range_axis(v) == UOP_AXIS_REDUCE &&
        uop_range_id(u) > uop_range_id(v))
        return uop_bad(v, "RANGE %u is an output's, with a smaller id",
                       uop_range_id(u));
    return BELL_OK;
}

static bell_status
check_sink_leaves(const struct uop *sink, const struct uop *const *list,
                  size_t n)
{
    const struct uop *leaves[2 * LOWER_MAX_SLOTS + KERNEL_MAX_RANGES];
    size_t i, j, n_leaves = 0;

    for (i = 0; i < n; i++) {
        const struct uop *u = list[i];
        BELL_TRY(check_node(u));
        if (u->op == UOP_SORT)
            BELL_TRY(check_sort(sink, u, list, n));
        if (u->op != UOP_PARAM && u->op != UOP_VAR && u->op != UOP_RANGE)
            continue;
        for (j = 0; j < n_leaves; j++) {
            BELL_TRY(check_leaf_pair(leaves[j], u));
            BELL_TRY(check_leaf_pair(u, leaves[j]));
        }
        leaves[n_leaves++] = u; /* no more: no two of a slot or an id */
    }
    return BELL_OK;
}

bell_status
lower_check(const struct uop_graph *g, const struct uop *sink)
{
    const struct uop **list;
    bell_status status;
    size_t n;

    if (sink->op != UOP_SINK || sink->n_src == 0)
        return uop_bad(sink, "a kernel's root is a SINK of STOREs");
    BELL_TRY(uop_validate(g, &sink, 1, UOP_STAGE_K));
    BELL_TRY(uop_toposort(g, &sink, 1, &list, &n));
    status = check_sink_leaves(sink, list, n);
    host_free(list);
    return status;
}

/* Kernels of one launch. Each is lowered in a graph of its own, where it
 * becomes what it would alone: that is what it was chosen by. */
static bell_status
lower_kernels(struct uop_graph *g, const struct uop *sink,
              const struct lower_target *target,
              struct lower_program *out_program)
{
    struct lower_program *parts = host_calloc(sink->n_src, sizeof(*parts));
    struct uop_graph *own = host_calloc(sink->n_src, sizeof(*own));
    bell_status status = BELL_OK;
    const struct uop *part;
    uint32_t i;

    if (!parts || !own)
        status = bell_fail(BELL_E_NO_MEMORY,
                           "lowering %u kernels: out of memory", sink->n_src);
    for (i = 0; i < sink->n_src && status == BELL_OK; i++) {
        uop_graph_init(&own[i]);
        status = uop_graph_copy(sink->src[i], &own[i], &part);
        if (status == BELL_OK)
            status = lower_kernel(&own[i], part, target, &parts[i]);
    }
    if (status == BELL_OK)
        status = lower_pack(g, parts, sink->n_src, target, out_program);
    for (i = 0; own && i < sink->n_src; i++)
        uop_graph_fini(&own[i]);
    host_free(own);
    host_free(parts);
    BELL_TRY(status);
    return uop_validate_pass(g, out_program->ops, out_program->n_ops,
                             UOP_STAGE_P, "packing");
}

bell_status
lower_kernel_by(struct uop_graph *g, const struct uop *sink,
                const struct lower_target *target,
                const struct lower_schedule *schedule,
                struct lower_made *out_made, struct lower_program *out_program)
{
    struct lower_program p;
    struct kernel k;
    bell_status status;

    if (out_made)
        memset(out_made, 0, sizeof(*out_made));
    if (sink->src[0]->op == UOP_SINK)
        return lower_kernels(g, sink, target, out_program);

    memset(&p, 0, sizeof(p));
    BELL_TRY(kernel_init(&k, g, sink, target));
    k.told = schedule;
    k.made = out_made;
    status = lower_passes(&k, &p);
    kernel_fini(&k);
    BELL_TRY(status);
    *out_program = p;
    return BELL_OK;
}

bell_status
lower_kernel(struct uop_graph *g, const struct uop *sink,
             const struct lower_target *target,
             struct lower_program *out_program)
{
    return lower_kernel_by(g, sink, target, NULL, NULL, out_program);
}
