/* The oracle's calls as text, for other programs that judge them: one JSON
 * object a line. docs/how-to/fuzzing.md has the format. */
#include <math.h>

#include "tools/fuzz/oracle.h"

/* Elements as hexadecimal digits, each of its dtype's bytes, lowest first. */
static void
write_array(FILE *f, struct arena *arena, const struct oracle_array *t)
{
    size_t i, n = t->n * oracle_dtype(t->dtype)->size_bytes;
    uint8_t *bytes = arena_calloc(arena, n + 8, 1);
    uint32_t k;

    fprintf(f, "{\"dtype\": \"%s\", \"shape\": [", bell_dtype_name(t->dtype));
    for (k = 0; k < t->rank; k++)
        fprintf(f, "%s%lld", k ? ", " : "", (long long)t->d[k]);
    fprintf(f, "], \"bytes\": \"");
    if (bytes)
        oracle_encode(t, bytes);
    for (i = 0; bytes && i < n; i++)
        fprintf(f, "%02x", bytes[i]);
    fprintf(f, "\"}");
}

static void
write_arrays(FILE *f, struct arena *arena, const char *key,
             struct oracle_array *const *list, uint32_t n)
{
    uint32_t i;

    fprintf(f, ", \"%s\": [", key);
    for (i = 0; i < n; i++) {
        fprintf(f, i ? ", " : "");
        write_array(f, arena, list[i]);
    }
    fprintf(f, "]");
}

static void
write_arg(FILE *f, const struct oracle_call *call, const struct oracle_arg *arg)
{
    uint32_t i = 0;

    switch (arg->kind) {
    case BELL_VALUE_TENSOR:
        while (call->leaves[i] != arg->t)
            i++;
        fprintf(f, "{\"leaf\": %u}", i);
        break;
    case BELL_VALUE_INT:
        fprintf(f, "%lld", (long long)arg->i);
        break;
    case BELL_VALUE_BOOL:
        fprintf(f, arg->i ? "true" : "false");
        break;
    case BELL_VALUE_FLOAT:
        if (isfinite(arg->f))
            fprintf(f, "%.17Le", arg->f);
        else
            fprintf(f, "{\"float\": \"%Lf\"}", arg->f);
        break;
    case BELL_VALUE_STR:
        fprintf(f, "\"%s\"", arg->str);
        break;
    case BELL_VALUE_DTYPE:
        fprintf(f, "{\"dtype\": \"%s\"}", bell_dtype_name(arg->dtype));
        break;
    case BELL_VALUE_NONE:
        fprintf(f, "null");
        break;
    case BELL_VALUE_LIST:
        fprintf(f, "[");
        for (i = 0; i < arg->n; i++) { /* nested as deep as a case is */
            fprintf(f, i ? ", " : "");
            write_arg(f, call, &arg->items[i]);
        }
        fprintf(f, "]");
        break;
    }
}

void
oracle_dump(FILE *f, const struct oracle_call *call)
{
    const struct oracle *o = call->o;
    const char *comma = "";
    uint32_t k;

    fprintf(f, "{\"function\": \"%s\", \"case\": \"%.*s\", \"args\": {",
            o->row->name, (int)call->text_len, call->text);
    for (k = 0; k < call->n_params; k++) {
        if (!call->given[k])
            continue;
        fprintf(f, "%s\"%s\": ", comma, call->params[k].name);
        write_arg(f, call, &o->a[k]);
        comma = ", ";
    }
    for (k = 0; k < o->n_extra; k++) {
        fprintf(f, "%s\"%s\": %lld", comma, o->extra[k].name,
                (long long)o->extra[k].value);
        comma = ", ";
    }
    fprintf(f, "}");
    write_arrays(f, o->arena, "leaves", call->leaves, call->n_leaves);
    write_arrays(f, o->arena, "results", o->got, o->n_out);
    fprintf(f, ", \"gradients\": [");
    for (k = 0; k < call->n_gradients; k++) {
        const struct oracle_gradient *g = &call->gradients[k];
        uint32_t i;
        fprintf(f, "%s{\"result\": %u, \"of\": [", k ? ", " : "", g->result);
        for (i = 0; i < g->n; i++)
            fprintf(f, "%s%u", i ? ", " : "", g->of[i]);
        fprintf(f, "]");
        write_arrays(f, o->arena, "adjoint", &g->adjoint, 1);
        write_arrays(f, o->arena, "values", g->values, g->n);
        fprintf(f, "}");
    }
    fprintf(f, "]}\n");
}
