/* Graphviz: one box a node; memory, loops and arithmetic in their own
 * colours. */
#include "uops/text.h"

#include "base/alloc.h"

static const char *
colour_of(const struct uop *u)
{
    if (uop_has(u, UOP_FLAG_EFFECT))
        return "#f4b6b6";
    if (uop_has(u, UOP_FLAG_MOVE))
        return "#d9e7f7";
    if (uop_has(u, UOP_FLAG_ALU))
        return "#ffffff";
    switch (u->op) {
    case UOP_CONST:
        return "#eeeeee";
    case UOP_RANGE:
    case UOP_SPECIAL:
    case UOP_REDUCE:
    case UOP_REDUCE_AXIS:
    case UOP_SCAN:
        return "#d8f0d0";
    case UOP_BUFFER:
    case UOP_PARAM:
    case UOP_LOAD:
    case UOP_LOCAL:
        return "#fbe8c0";
    default:
        return "#ffffff";
    }
}

bell_status
uop_dot(const struct uop_graph *g, const struct uop *const *roots,
        size_t n_roots, char **out_text)
{
    const struct uop **list;
    struct text t = {NULL, 0, 0, false};
    size_t n, i;
    uint32_t k;

    BELL_TRY(uop_toposort(g, roots, n_roots, &list, &n));
    text_add(&t, "digraph uops {\n"
                 "  node [shape=box style=filled fontname=monospace];\n");
    for (i = 0; i < n && !t.failed; i++) {
        const struct uop *u = list[i];
        const struct uop_dims *shape = uop_shape(g, u);
        text_add(&t, "  n%u [fillcolor=\"%s\" label=\"", u->id, colour_of(u));
        uop_text_head(&t, g, u);
        for (k = 0; shape && k < shape->n; k++)
            text_add(&t, k ? " x %lld" : "\\n%lld", (long long)shape->d[k]);
        text_add(&t, "\"];\n");
        for (k = 0; k < u->n_src; k++)
            text_add(&t, "  n%u -> n%u [label=\"%u\"];\n", u->src[k]->id, u->id,
                     k);
    }
    text_add(&t, "}\n");
    host_free(list);
    return text_finish(&t, out_text);
}
