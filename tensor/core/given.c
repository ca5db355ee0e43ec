/* Kernels of the caller's own as nodes of the graph. */
#include "tensor/core/given.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tensor/core/node.h"

static void
free_given(struct tensor_given *g)
{
    uint32_t i;

    if (!g)
        return;
    for (i = 0; g->codes && i < g->n_codes; i++)
        host_free(g->codes[i].data);
    host_free(g->codes);
    host_free(g->dtypes);
    host_free(g->n_elems);
    host_free(g->values);
    host_free(g);
}

void
tensor_givens_fini(struct tensor_givens *g)
{
    size_t i;

    for (i = 0; i < g->n; i++)
        free_given(g->list[i]);
    host_free(g->list);
    *g = (struct tensor_givens){NULL, 0, 0};
}

/* ---- checks ---- */

static const struct {
    const char *name;
    const char *devices[2]; /* that it is for; none: all */
} forms[] = {
    [BELL_KERNEL_OBJECT] = {"an object", {NULL, NULL}},
    [BELL_KERNEL_PTX] = {"PTX", {"NV", NULL}},
    [BELL_KERNEL_LLVM] = {"LLVM IR", {"CPU", "AMD"}},
    [BELL_KERNEL_C] = {"C", {"CPU", NULL}},
};

/* Is it the name of such a device, or of a chip of it? */
static bool
names_device(const char *device, const char *backend)
{
    size_t n = strlen(backend);

    return strncmp(device, backend, n) == 0 &&
           (device[n] == '\0' || device[n] == ':');
}

static bool
is_for(const char *device, enum bell_kernel_form form)
{
    bool any = !forms[form].devices[0];
    size_t i;

    if (any)
        return names_device(device, "CPU") || names_device(device, "NV") ||
               names_device(device, "AMD");
    for (i = 0; i < 2 && forms[form].devices[i]; i++)
        any |= names_device(device, forms[form].devices[i]);
    return any;
}

static bell_status
check_code(const char *name, uint32_t i, const struct bell_kernel_code *c)
{
    uint32_t k, n = 1;

    if (!c->device || !c->code)
        return bell_fail(BELL_BAD_MISSING, "kernel '%s': code %u has no %s",
                         name, i, c->device ? "text" : "device");
    if ((size_t)c->form >= ARRAY_LEN(forms))
        return bell_fail(
            BELL_BAD_VALUE,
            "kernel '%s': code %u is of form %d, not an enum bell_kernel_form",
            name, i, (int)c->form);
    if (strlen(c->device) >= sizeof(((struct tensor_given_code *)0)->device) ||
        !is_for(c->device, c->form))
        return bell_fail(BELL_BAD_VALUE,
                         "kernel '%s': %s cannot be for '%.80s'", name,
                         forms[c->form].name, c->device);
    if (c->form == BELL_KERNEL_OBJECT && c->n_bytes == 0)
        return bell_fail(BELL_BAD_VALUE, "kernel '%s': the object has no bytes",
                         name);
    if (c->form != BELL_KERNEL_OBJECT && c->n_bytes &&
        memchr(c->code, 0, c->n_bytes))
        return bell_fail(BELL_BAD_VALUE,
                         "kernel '%s': the text for %s has a zero in it", name,
                         c->device);
    for (k = 0; k < 3; k++) {
        if (c->local[k] > 1024)
            n = 1025;
        else if (c->local[k])
            n *= c->local[k];
    }
    if (n > 1024 || (n > 1 && names_device(c->device, "CPU")))
        return bell_fail(
            BELL_BAD_VALUE,
            "kernel '%s' for %s: groups of %u x %u x %u work-items; at most "
            "1024 are possible, and 1 on a CPU",
            name, c->device, c->local[0], c->local[1], c->local[2]);
    return BELL_OK;
}

static bell_status
check_desc(const struct bell_kernel_desc *d, uint32_t n_in)
{
    uint32_t i;

    if (!d)
        return bell_fail(BELL_BAD_MISSING, "the description is NULL");
    if (d->struct_size < sizeof(*d))
        return bell_fail(BELL_BAD_VALUE,
                         "the description's struct_size is %u, not its size, "
                         "%zu",
                         d->struct_size, sizeof(*d));
    if (!d->name || !d->name[0] ||
        strlen(d->name) >= sizeof(((struct tensor_given *)0)->name))
        return bell_fail(BELL_BAD_VALUE,
                         "a kernel's name is of 1 to 127 bytes");
    if (!d->results || d->n_out == 0)
        return bell_fail(BELL_BAD_MISSING, "kernel '%s' has no results",
                         d->name);
    if (!d->codes || d->n_codes == 0)
        return bell_fail(BELL_BAD_MISSING, "kernel '%s' has no code", d->name);
    if (!d->values && d->n_values)
        return bell_fail(BELL_BAD_MISSING, "kernel '%s' has no values",
                         d->name);
    if ((uint64_t)d->n_out + n_in + d->n_values > BELL_MAX_KERNEL_ARGS)
        return bell_fail(BELL_BAD_VALUE,
                         "kernel '%s': %llu arguments, of %d at most", d->name,
                         (unsigned long long)d->n_out + n_in + d->n_values,
                         BELL_MAX_KERNEL_ARGS);
    for (i = 0; i < d->n_codes; i++)
        BELL_TRY(check_code(d->name, i, &d->codes[i]));
    return BELL_OK;
}

/* ---- what is kept ---- */

static bool
copy_code(const struct bell_kernel_code *from, struct tensor_given_code *to)
{
    uint32_t i;

    to->form = from->form;
    to->n_shared_bytes = from->n_shared_bytes;
    to->n_bytes = from->n_bytes ? from->n_bytes : strlen(from->code);
    to->data = host_alloc(to->n_bytes + 1);
    if (!to->data)
        return false;
    snprintf(to->device, sizeof(to->device), "%s", from->device);
    memcpy(to->data, from->code, to->n_bytes);
    to->data[to->n_bytes] = '\0';
    for (i = 0; i < 3; i++) {
        to->grid[i] = from->grid[i] ? from->grid[i] : 1;
        to->local[i] = from->local[i] ? from->local[i] : 1;
    }
    return true;
}

/* NULL: out of memory. The results' dtypes and sizes are filled in by who
 * checks them. */
static struct tensor_given *
copy_desc(const struct bell_kernel_desc *d)
{
    struct tensor_given *g = host_calloc(1, sizeof(*g));
    uint32_t i;

    if (!g)
        return NULL;
    snprintf(g->name, sizeof(g->name), "%s", d->name);
    g->n_out = d->n_out;
    g->n_values = d->n_values;
    g->n_codes = d->n_codes;
    g->dtypes = host_calloc(d->n_out, sizeof(*g->dtypes));
    g->n_elems = host_calloc(d->n_out, sizeof(*g->n_elems));
    g->values = host_calloc((size_t)d->n_values + 1, sizeof(*g->values));
    g->codes = host_calloc(d->n_codes, sizeof(*g->codes));
    if (!g->dtypes || !g->n_elems || !g->values || !g->codes) {
        free_given(g);
        return NULL;
    }
    if (d->n_values)
        memcpy(g->values, d->values, d->n_values * sizeof(*g->values));
    for (i = 0; i < d->n_codes; i++) {
        if (!copy_code(&d->codes[i], &g->codes[i])) {
            free_given(g);
            return NULL;
        }
    }
    return g;
}

static bool
is_same(const struct tensor_given *a, const struct tensor_given *b)
{
    uint32_t i;

    if (a->n_out != b->n_out || a->n_values != b->n_values ||
        a->n_codes != b->n_codes || strcmp(a->name, b->name) != 0 ||
        memcmp(a->dtypes, b->dtypes, a->n_out * sizeof(*a->dtypes)) != 0 ||
        memcmp(a->n_elems, b->n_elems, a->n_out * sizeof(*a->n_elems)) != 0 ||
        memcmp(a->values, b->values, a->n_values * sizeof(*a->values)) != 0)
        return false;
    for (i = 0; i < a->n_codes; i++) {
        const struct tensor_given_code *c = &a->codes[i], *d = &b->codes[i];
        if (c->form != d->form || c->n_bytes != d->n_bytes ||
            c->n_shared_bytes != d->n_shared_bytes ||
            strcmp(c->device, d->device) != 0 ||
            memcmp(c->grid, d->grid, sizeof(c->grid)) != 0 ||
            memcmp(c->local, d->local, sizeof(c->local)) != 0 ||
            memcmp(c->data, d->data, c->n_bytes) != 0)
            return false;
    }
    return true;
}

/* Takes `g` over; false when out of memory. */
static bool
keep_given(struct bell_context *ctx, struct tensor_given *g,
           int64_t *out_number)
{
    struct tensor_givens *all = &ctx->givens;
    size_t i;

    for (i = 0; i < all->n && !is_same(all->list[i], g); i++)
        ;
    *out_number = (int64_t)i;
    if (i < all->n) {
        free_given(g);
        return true;
    }
    if (host_grow((void **)&all->list, &all->cap, all->n + 1,
                  sizeof(struct tensor_given *)) != 0) {
        free_given(g);
        return false;
    }
    all->list[all->n++] = g;
    return true;
}

/* ---- nodes ---- */

/* A node is found by its arg and sources, which say how many elements a result
 * has and not how they are shaped: nodes of results have one axis. */
static const struct uop *
make_result(struct bell_context *ctx, const struct uop *call, int64_t number)
{
    const int64_t *results = call->arg.dims->d + 1;
    union uop_arg arg = {.i = number};
    const struct uop_dims *shape;

    if (tn_bad(call))
        return call;
    shape = uop_dims(&ctx->graph, &results[2 * number + 1], 1);
    if (!shape)
        return &uop_failed;
    return uop_new_shaped(&ctx->graph, UOP_PART,
                          (enum uop_dtype)results[2 * number], arg, &call, 1,
                          shape);
}

/* The node of result 0. */
static const struct uop *
make_call(struct bell_context *ctx, int64_t number, const struct uop *const *in,
          uint32_t n_in)
{
    const struct tensor_given *g = ctx->givens.list[number];
    int64_t d[1 + 2 * BELL_MAX_KERNEL_ARGS];
    const struct uop_dims *shape = uop_dims(&ctx->graph, &g->n_elems[0], 1);
    union uop_arg arg = {.bits = 0};
    uint32_t i;

    d[0] = number;
    for (i = 0; i < g->n_out; i++) {
        d[1 + 2 * i] = g->dtypes[i];
        d[2 + 2 * i] = g->n_elems[i];
    }
    arg.dims = uop_dims(&ctx->graph, d, 1 + 2 * g->n_out);
    if (!shape || !arg.dims)
        return &uop_failed;
    return uop_new_shaped(&ctx->graph, UOP_CALL, g->dtypes[0], arg, in, n_in,
                          shape);
}

static bool
check_results(struct bell_context *ctx, const char *call,
              const struct bell_kernel_desc *d, struct tensor_given *g)
{
    uint32_t i, k;

    for (i = 0; i < d->n_out; i++) {
        const struct bell_kernel_result *r = &d->results[i];
        g->dtypes[i] = tensor_dtype_arg(ctx, call, r->dtype, UOP_F32);
        if (g->dtypes[i] == UOP_VOID ||
            !tensor_shape_arg(ctx, call, r->shape, r->ndim))
            return false;
        g->n_elems[i] = 1;
        for (k = 0; k < r->ndim; k++)
            g->n_elems[i] *= r->shape[k];
        if (g->n_elems[i] > 0)
            continue;
        tensor_fail(ctx, call, BELL_BAD_SHAPE,
                    "result %u of kernel '%s' has no elements", i, d->name);
        return false;
    }
    return true;
}

/* The inputs' nodes; false after a failure, which the context knows. */
static bool
take_given_inputs(struct bell_context *ctx, const char *call, const char *name,
                  struct bell_tensor *const *in, uint32_t n_in,
                  const struct uop **nodes)
{
    struct bell_tensor *error;
    uint32_t i;

    if (n_in && !in) {
        tensor_fail(ctx, call, BELL_BAD_MISSING, "the inputs are NULL");
        return false;
    }
    if (n_in && !tensor_check_n(call, in, n_in, &error))
        return false;
    if (n_in && tensor_at(in[0])->ctx != ctx) {
        tensor_fail(ctx, call, BELL_BAD_CONTEXT,
                    "the inputs are of another context");
        return false;
    }
    for (i = 0; i < n_in; i++) {
        nodes[i] = tensor_node(in[i]);
        if (tn_bad(nodes[i])) {
            tensor_new(ctx, call, nodes[i]);
            return false;
        }
        if (tn_numel(ctx, nodes[i]) == 0) {
            tensor_fail(ctx, call, BELL_BAD_SHAPE,
                        "input %u of kernel '%s' has no elements", i, name);
            return false;
        }
    }
    return true;
}

/* False after a failure, which the context knows. */
static bool
call_kernel(struct bell_context *ctx, const char *call,
            const struct bell_kernel_desc *d, struct bell_tensor *const *in,
            uint32_t n_in, struct bell_tensor **out)
{
    const struct uop *nodes[BELL_MAX_KERNEL_ARGS], *node;
    struct tensor_given *g;
    int64_t number;
    uint32_t i;

    if (check_desc(d, n_in) != BELL_OK) {
        tensor_fail_last(ctx, call);
        return false;
    }
    if (!take_given_inputs(ctx, call, d->name, in, n_in, nodes))
        return false;
    g = copy_desc(d);
    if (g && !check_results(ctx, call, d, g)) {
        free_given(g);
        return false;
    }
    if (!g || !keep_given(ctx, g, &number)) {
        tensor_fail(ctx, call, BELL_E_NO_MEMORY, "out of memory");
        return false;
    }
    node = make_call(ctx, number, nodes, n_in);
    for (i = 0; i < d->n_out; i++)
        out[i] =
            tensor_new(ctx, call,
                       tn_reshape(ctx, i ? make_result(ctx, node, i) : node,
                                  d->results[i].shape, d->results[i].ndim));
    return true;
}

void
bell_custom_kernel(struct bell_context *ctx,
                   const struct bell_kernel_desc *desc,
                   struct bell_tensor *const *in, uint32_t n_in,
                   struct bell_tensor **out)
{
    uint32_t n = desc && desc->struct_size >= sizeof(*desc) ? desc->n_out : 0;
    struct bell_tensor *error = NULL;
    uint32_t i;

    if (!out) {
        (void)bell_fail_at(__func__, BELL_BAD_MISSING,
                           "%s: the list of results is NULL", __func__);
        return;
    }
    if (tensor_context_check(__func__, ctx)) {
        if (call_kernel(ctx, __func__, desc, in, n_in, out))
            return;
        error = ctx->error_tensor;
    }
    for (i = 0; i < n; i++)
        out[i] = error;
}
