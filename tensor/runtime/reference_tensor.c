/* The reference evaluator on tensors: the graph of their context, with leaves
 * read back from the device. */
#include "reference/reference.h"

#include "base/alloc.h"
#include "tensor/runtime/runtime.h"
#include "tensor/core/tensor_internal.h"

static bell_status
read_leaf(void *user, const struct uop *buffer, struct ref_array *array)
{
    /* The graph names its leaves by address; reading one changes nothing. */
    struct tensor_buffer *buf =
        (struct tensor_buffer *)(uintptr_t)buffer->arg.data;
    bell_status status;
    void *bytes;

    (void)user;
    if (buf)
        BELL_TRY(tensor_buffer_settle(buf));
    if (!buf || !buf->device_mem)
        return bell_fail(BELL_E_INVALID, "node %u BUFFER: has no memory",
                         buffer->id);
    bytes = host_alloc(buf->size_bytes + 1);
    if (!bytes)
        return bell_fail(BELL_E_NO_MEMORY, "a leaf of %zu bytes: out of memory",
                         buf->size_bytes);
    status = tensor_buffer_read(buf, bytes, buf->size_bytes);
    if (status == BELL_OK)
        ref_from_bytes(array, bytes);
    host_free(bytes);
    return status;
}

bell_status
ref_eval_tensors(struct bell_tensor *const *tensors, size_t n,
                 const struct ref_noise *noise, struct ref_array *out)
{
    const struct tensor_runtime *rt;
    struct ref_noise by_device;
    const struct uop **roots;
    bell_status status;
    size_t i;

    if (n == 0)
        return BELL_OK;
    roots = host_alloc(n * sizeof(*roots));
    if (!roots)
        return bell_fail(BELL_E_NO_MEMORY, "%zu roots: out of memory", n);
    for (i = 0; i < n; i++) {
        status = tensor_usable("ref_eval_tensors", tensors[i]);
        if (status == BELL_OK &&
            tensor_at(tensors[i])->ctx != tensor_at(tensors[0])->ctx)
            status = bell_fail(BELL_BAD_CONTEXT,
                               "the tensors are of two contexts; expected one");
        if (status != BELL_OK) {
            host_free(roots);
            return status;
        }
        roots[i] = tensor_at(tensors[i])->uop;
    }
    rt = tensor_at(tensors[0])->ctx->runtime;
    if (noise && rt) {
        by_device = *noise;
        by_device.flushes_f32 = rt->target.lower.flushes_f32;
        by_device.lacks_fma = !rt->target.lower.has_fma;
        noise = &by_device;
    }
    status = ref_eval(&tensor_at(tensors[0])->ctx->graph, roots, n, read_leaf,
                      NULL, noise, out);
    host_free(roots);
    return status;
}

bell_status
ref_reduces_floats(struct bell_tensor *const *tensors, size_t n,
                   bool *out_answer)
{
    const struct uop **roots = host_alloc((n + 1) * sizeof(*roots)), **list;
    bell_status status;
    size_t count, i;

    if (!roots)
        return bell_fail(BELL_E_NO_MEMORY, "%zu roots: out of memory", n);
    for (i = 0; i < n; i++)
        roots[i] = tensor_at(tensors[i])->uop;
    status = n ? uop_toposort(&tensor_at(tensors[0])->ctx->graph, roots, n,
                              &list, &count)
               : BELL_OK;
    host_free(roots);
    *out_answer = false;
    if (status != BELL_OK || n == 0)
        return status;
    for (i = 0; i < count; i++)
        *out_answer |= uop_sums_floats(list[i]);
    host_free(list);
    return BELL_OK;
}
