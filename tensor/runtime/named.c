/* Texts for kernels, from the marks of a run's nodes. */
#include "tensor/runtime/named.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tensor/core/label.h"
#include "tensor/runtime/mesh_places.h"
#include "tensor/runtime/runtime.h"

bell_status
rt_named_run(struct tensor_runtime *rt, const struct uop_graph *g,
             const struct uop *sink)
{
    const struct uop **list;
    size_t n, i;

    if (!rt->labels)
        return BELL_OK;
    BELL_TRY(uop_canonical_order(sink, &list, &n));
    rt->n_labels_now = 0;
    if (host_grow((void **)&rt->labels_now, &rt->cap_labels_now, n + 1,
                  sizeof(*rt->labels_now)) != 0) {
        host_free(list);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu labels", n);
    }
    for (i = 0; i < n; i++)
        rt->labels_now[i] = uop_mark(g, list[i]);
    rt->n_labels_now = n;
    host_free(list);
    return BELL_OK;
}

/* What the node at a place, counted from 1, was made for. */
static uint32_t
label_at(const struct tensor_runtime *rt, uint32_t place)
{
    return place && place <= rt->n_labels_now ? rt->labels_now[place - 1] : 0;
}

/* The kernels of one launch, and what each stores, in the plan's order. */
const char *
rt_named_kernel(struct tensor_runtime *rt, const struct rt_plan *plan,
                const struct sched_item *item)
{
    const struct sched_buf *bufs = plan->sched.bufs;
    uint32_t *marks, i, k;
    const char *text;
    bool *is_main;
    size_t n = 0;

    if (!rt->labels)
        return NULL;
    for (i = 0; i < item->n_outs; i++)
        n += bufs[item->bufs[i]].n_marks;
    marks = host_alloc(n * sizeof(*marks) + 1);
    is_main = host_alloc(n + 1);
    n = 0;
    for (i = 0; i < item->n_outs && marks && is_main; i++) {
        const struct sched_buf *buf = &bufs[item->bufs[i]];
        for (k = 0; k < buf->n_marks; k++) {
            marks[n] = label_at(rt, buf->marks[k].mark);
            is_main[n++] = buf->marks[k].is_main;
        }
    }
    text = tensor_label_text(rt->labels, marks, is_main, n);
    host_free(marks);
    host_free(is_main);
    return text;
}

void
rt_named_tell(struct tensor_runtime *rt, const struct rt_plan *plan)
{
    const struct rt_kernel *kernel;
    const char *text;
    uint32_t i;

    if (!rt->labels || !LOG_ON(LOG_SCHED))
        return;
    for (i = 0; i < plan->sched.n_items; i++) {
        if (plan->kernels[i] == RT_COLLECTIVE)
            continue;
        kernel = &rt->kernel_list[plan->kernels[i]];
        text = rt_named_kernel(rt, plan, &plan->sched.items[i]);
        if (text)
            LOG(LOG_SCHED, "%s is %s", kernel->program->name, text);
    }
}

/* Neighbours with one label are a line. */
void
rt_named_tell_graph(struct tensor_runtime *rt, const struct uop_graph *g,
                    const struct uop *const *roots, uint32_t n_roots)
{
    const char *text, *was = NULL;
    const struct uop **list;
    size_t n, i, first = 0;
    uint32_t mark;
    bool is_main = false;

    if (!rt->labels || !LOG_ON(LOG_SCHED) || !LOG_ON(LOG_GRAPH))
        return;
    if (uop_toposort(g, roots, n_roots, &list, &n) != BELL_OK) {
        bell_error_clear();
        return;
    }
    for (i = 0; i <= n; i++) {
        mark = i < n && list[i]->n_src ? label_at(rt, uop_mark(g, list[i])) : 0;
        text = mark ? tensor_label_text(rt->labels, &mark, &is_main, 1) : NULL;
        if (text == was)
            continue;
        if (was)
            LOG(LOG_SCHED, "nodes %%%zu to %%%zu are %s", first, i - 1, was);
        was = text;
        first = i;
    }
    host_free(list);
}
