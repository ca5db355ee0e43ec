/* The way of a kernel through the passes of this folder. */
#include "lower/lower.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "lower/expand/expand.h"
#include "lower/linearize.h"
#include "lower/opt/opt.h"

/* ---- estimates and name ---- */

static double
count_values(const struct kernel *k, uint64_t ranges)
{
    double n = 1;

    for (; ranges; ranges &= ranges - 1) {
        int64_t size = k->sizes[__builtin_ctzll(ranges)];
        n *= size < 0 ? 1 : (double)size;
    }
    return n;
}

static double
count_flops(const struct kernel *k)
{
    double n = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (!uop_is_float(u))
            continue;
        if (uop_has(u, UOP_FLAG_ALU))
            n += count_values(k, k->deps[i]);
        else if (u->op == UOP_REDUCE)
            n += count_values(k, k->deps[i] | kernel_bound(k, u));
    }
    return n;
}

/* Elements behind every access that differs in buffer or index, once. */
static double
count_bytes(const struct kernel *k)
{
    double n = 0;
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        if (u->op == UOP_LOAD || u->op == UOP_STORE)
            n += count_values(k, kernel_deps(k, u->src[1])) *
                 uop_dtype_infos[u->src[0]->dtype].size_bytes;
    }
    return n;
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

static void
count_params(const struct kernel *k, struct lower_program *p)
{
    uint32_t i;

    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        uint32_t slot = (uint32_t)u->arg.i;
        if (u->op == UOP_PARAM && slot >= p->n_params)
            p->n_params = slot + 1;
    }
    for (i = 0; i < k->n_nodes; i++) {
        const struct uop *u = k->nodes[i];
        uint32_t slot = (uint32_t)u->arg.i;
        if (u->op == UOP_VAR && slot >= p->n_params + p->n_vars)
            p->n_vars = slot + 1 - p->n_params;
    }
}

/* ---- passes ---- */

/* Prints the nodes of a stage, with BELL_DEBUG=uops. */
static void
log_nodes(const struct kernel *k, const char *stage,
          const struct uop *const *roots, size_t n_roots)
{
    char *text;

    if (!LOG_ON(LOG_UOPS))
        return;
    if (uop_print(k->g, roots, n_roots, &text) != BELL_OK) {
        bell_error_clear();
        return;
    }
    log_text(LOG_UOPS, stage, text);
    host_free(text);
}

static bell_status
lower_passes(struct kernel *k, struct lower_program *p)
{
    const struct uop *root;

    BELL_TRY(kernel_canonical(k));
    count_params(k, p);
    p->n_flops = count_flops(k);
    p->n_bytes = count_bytes(k);
    p->name = make_name(k);
    if (!p->name)
        return bell_fail(BELL_E_NO_MEMORY, "naming a kernel");
    log_nodes(k, p->name, &k->sink, 1);
    LOG(LOG_OPT, "%s:", p->name);
    if (!k->target->no_opts)
        BELL_TRY(k->target->is_gpu ? opt_gpu_rules(k) : opt_rules(k));
    log_nodes(k, "optimised", &k->sink, 1);
    BELL_TRY(expand_kernel(k, &root, p));
    BELL_TRY(uop_validate_pass(k->g, &root, 1, UOP_STAGE_P, "expanding"));
    BELL_TRY(lower_decompose(k->g, &root, 1, k->target));
    BELL_TRY(uop_validate_pass(k->g, &root, 1, UOP_STAGE_P, "decomposing"));
    BELL_TRY(linearize(k->g, root, &p->ops, &p->n_ops));
    log_nodes(k, "program", p->ops, p->n_ops);
    return uop_validate_pass(k->g, p->ops, p->n_ops, UOP_STAGE_P,
                             "linearizing");
}

bell_status
lower_kernel(struct uop_graph *g, const struct uop *sink,
             const struct lower_target *target,
             struct lower_program *out_program)
{
    struct lower_program p;
    struct kernel k;
    bell_status status;

    memset(&p, 0, sizeof(p));
    BELL_TRY(kernel_init(&k, g, sink, target));
    status = lower_passes(&k, &p);
    kernel_fini(&k);
    BELL_TRY(status);
    *out_program = p;
    return BELL_OK;
}
