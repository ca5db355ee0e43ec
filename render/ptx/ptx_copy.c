/* COPY: cp.async from global to shared memory. A gate of what is read becomes
 * the number of bytes that are, and zeros follow them.
 * src: docs/hardware/nvidia-code.md, "Asynchronous copies" */
#include "render/ptx/ptx_internal.h"

#include <assert.h>
#include <stdio.h>

bell_status
ptx_emit_copy(struct ptx_emit *e, const struct uop *u)
{
    const struct uop *reads = u->n_src > 4 ? u->src[4] : NULL;
    const struct uop *writes = u->n_src > 5 ? u->src[5] : NULL;
    uint32_t bytes = (uint32_t)u->arg.i, n = 0;
    struct ptx_place to, from;
    struct ptx_opnd o[4];
    struct ptx_value v;
    char fmt[128];

    assert(bytes == 4 || bytes == 8 || bytes == 16);
    if (reads && reads->op == UOP_CONST && reads->arg.i)
        reads = NULL;
    if (writes) {
        BELL_TRY(ptx_value_of(e, writes, &v));
        o[n++] = ptx_in_reg(e, v.lanes[0]);
    }
    BELL_TRY(ptx_find_place(e, u, 0, &to));
    BELL_TRY(ptx_find_place(e, u, 2, &from));
    assert(to.memory->op == UOP_LOCAL && from.memory->op == UOP_PARAM);
    o[n++] = to.base;
    o[n++] = from.base;
    if (reads) {
        BELL_TRY(ptx_value_of(e, reads, &v));
        o[n] = ptx_reg(e, PTX_B32);
        PTX_OP(e, "selp.b32 %, %, 0, %", o[n], ptx_imm(PTX_B32, bytes),
               ptx_in_reg(e, v.lanes[0]));
    }
    snprintf(fmt, sizeof(fmt),
             "%scp.async.%s.shared.global [%%+%lld], [%%+%lld], %u%s",
             writes ? "@% " : "", bytes == 16 ? "cg" : "ca",
             (long long)to.first * to.elem_bytes,
             (long long)from.first * from.elem_bytes, bytes,
             reads ? ", %" : "");
    ptx_op(e, fmt, o);
    return BELL_OK;
}
