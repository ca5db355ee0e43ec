/* Size classes of a kernel whose loops end at arguments. */
#include "lower/classes.h"

#include <assert.h>

#include "base/alloc.h"

/* observed: by the model of MI300X, products of 1,152 rows by 512 x 512 take
 * 2.6 times as long with tiles for 2,048 rows, as 144 work-groups do not fill
 * 304 units; at a class's bound 1.05 times at most. */
#define CLASS_STEP 2

static int64_t
most_of_class(int64_t most, uint32_t number)
{
    for (; number > 0; number--)
        most = (most + CLASS_STEP - 1) / CLASS_STEP;
    return most;
}

static uint32_t
class_of(int64_t most, uint32_t n, int64_t size)
{
    uint32_t number = 0;

    while (number + 1 < n && size <= most_of_class(most, number + 1))
        number++;
    return number;
}

/* A VAR that a loop's size depends on. */
static void
add_var(struct lower_classes *c, const struct uop *var)
{
    uint32_t i = c->n_vars, n = 1;
    int64_t most;

    if (i == LOWER_CLASS_VARS || var->n_src != 2 || var->dtype != UOP_I64)
        return;
    most = var->src[1]->arg.i;
    while (c->count * (n + 1) <= LOWER_CLASSES &&
           most_of_class(most, n - 1) > 1 &&
           most_of_class(most, n) >= var->src[0]->arg.i)
        n++;
    if (n == 1)
        return;
    c->vars[i] = var;
    c->slots[i] = (uint32_t)var->arg.i;
    c->most[i] = most;
    c->n[i] = n;
    c->count *= n;
    c->n_vars++;
}

bell_status
lower_classes_find(const struct uop_graph *g, const struct uop *sink,
                   struct lower_classes *out)
{
    const struct uop **list;
    bool *is_size, reduces = false;
    uint32_t j;
    size_t n, i;

    *out = (struct lower_classes){.count = 1};
    BELL_TRY(uop_toposort(g, &sink, 1, &list, &n));
    is_size = host_calloc(sink->id + 1, sizeof(*is_size));
    for (i = n; is_size && i-- > 0;) {
        const struct uop *u = list[i];

        reduces |= u->op == UOP_REDUCE;
        for (j = 0; j < u->n_src && (u->op == UOP_RANGE || is_size[u->id]); j++)
            is_size[u->src[j]->id] = true;
    }
    for (i = 0; is_size && reduces && i < n; i++) {
        if (list[i]->op == UOP_VAR && is_size[list[i]->id])
            add_var(out, list[i]);
    }
    host_free(list);
    if (!is_size)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for size classes");
    host_free(is_size);
    return BELL_OK;
}

uint32_t
lower_class_of(const struct lower_classes *c, const uint64_t *words)
{
    uint32_t number = 0, i;

    for (i = 0; i < c->n_vars; i++)
        number = number * c->n[i] +
                 class_of(c->most[i], c->n[i], (int64_t)words[c->slots[i]]);
    assert(number < c->count);
    return number;
}

bell_status
lower_class_sink(struct uop_graph *g, const struct uop *sink,
                 const struct lower_classes *c, uint32_t number,
                 const struct uop **out_sink)
{
    const struct uop *to[LOWER_CLASS_VARS], *bounds[2];
    uint32_t i;

    assert(number < c->count);
    for (i = c->n_vars; i-- > 0; number /= c->n[i]) {
        const struct uop *var = c->vars[i];
        int64_t most = most_of_class(c->most[i], number % c->n[i]);

        bounds[0] = var->src[0];
        bounds[1] = uop_const_int(g, UOP_I64, most);
        to[i] = uop_new(g, UOP_VAR, var->dtype, 1, var->arg, bounds, 2);
    }
    *out_sink = sink;
    return uop_substitute(g, out_sink, 1, c->vars, to, c->n_vars);
}
