/* The memory of a call: inputs and tensors from outside. */
#include <string.h>

#include "tensor/core/node.h"
#include "tensor/jit/jit_internal.h"

/* Given as a number: it is put where the kernels read it. */
bool
jit_is_number(const struct bell_tensor *t)
{
    const struct uop *u = tensor_at(t)->uop;

    return u->op == UOP_CONST || (tn_peel(u) && tensor_numel(t) == 1);
}

bell_status
jit_check_used(const struct bell_jit *jit)
{
    char fate[HANDLE_FATE];
    struct jit_type type;
    uint32_t i;

    for (i = 0; i < jit->n_used; i++) {
        const struct jit_used *u = &jit->used[i];
        if (!handle_find(u->t))
            return bell_fail(BELL_BAD_STATE,
                             "bell_jit_call: a tensor that '%s' uses, %s %s, "
                             "%s",
                             jit->name, JIT_TYPE_STR(&u->type),
                             handle_fate(u->t, fate, sizeof(fate)));
        if (jit_has_type(tensor_at(u->t), &u->type))
            continue;
        tensor_jit_type(&type, u->t);
        return bell_fail(
            type.dtype != u->type.dtype ? BELL_BAD_DTYPE : BELL_BAD_SHAPE,
            "bell_jit_call: a tensor that '%s' uses is %s %s; it "
            "was captured as %s %s",
            jit->name, JIT_TYPE_STR(&type), JIT_TYPE_STR(&u->type));
    }
    return BELL_OK;
}

/* The buffer of `t`, realized if it is not yet. */
bell_status
jit_get_memory(struct bell_tensor *t, struct tensor_buffer **out)
{
    *out = tensor_buffer_of(t);
    if (!*out || (*out)->held || tensor_at(t)->flags & TENSOR_VARIES)
        BELL_TRY(tensor_get_buffer("bell_jit_call", t, out));
    return (*out)->device_mem ? BELL_OK : tensor_fail_gone("bell_jit_call");
}

static bool
has_parts(const struct tensor_buffer *buf, const struct tensor_part *parts)
{
    return memcmp(buf->parts, parts, sizeof(buf->parts)) == 0;
}

/* On a mesh memory is found before anything is captured: its layout is a part
 * of what the function is captured for. *out_fits: it is the same. */
bell_status
jit_find_layouts(struct bell_jit *jit, bool *out_fits)
{
    struct tensor_buffer *buf;
    uint32_t i;

    for (i = 0; i < jit->n_args; i++) {
        struct tensor_part none[BELL_MESH_AXES] = {{0, 0}};
        const struct tensor_part *parts = none;

        if (!jit_is_number(jit->given[i])) {
            BELL_TRY(jit_get_memory(jit->given[i], &buf));
            parts = buf->parts;
        }
        *out_fits &= memcmp(parts, jit->inputs[i].parts, sizeof(none)) == 0;
        memcpy(jit->inputs[i].parts, parts, sizeof(none));
    }
    if (!jit->capture || !*out_fits)
        return BELL_OK;
    BELL_TRY(jit_check_used(jit));
    for (i = 0; i < jit->n_used; i++) {
        if (!jit->used[i].is_read)
            continue;
        BELL_TRY(jit_get_memory(jit->used[i].t, &buf));
        *out_fits &= has_parts(buf, jit->used[i].parts);
    }
    return BELL_OK;
}
