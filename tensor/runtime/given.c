/* Kernels that callers give, compiled for the device. */
#include "tensor/core/given.h"
#include "tensor/mesh/split.h"
#include "tensor/runtime/runtime.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "render/ptx/nv_container.h"

const struct tensor_given *
rt_given_of(const struct tensor_runtime *rt, const struct uop *sink)
{
    const struct uop *u = sink->src[0];

    return u->op == UOP_CUSTOM && !mesh_is_call(u->arg.i)
               ? rt->givens->list[u->arg.i]
               : NULL;
}

/* "AMD", or "AMD:gfx1100". */
static bool
fits(const struct tensor_given_code *c, const struct rt_target *target)
{
    size_t n = strlen(target->compiler->backend);

    return strncmp(c->device, target->compiler->backend, n) == 0 &&
           (c->device[n] == '\0' ||
            (c->device[n] == ':' &&
             strcmp(c->device + n + 1, target->arch) == 0));
}

static bell_status
find_given_code(const struct tensor_given *g, const struct rt_target *target,
                const struct tensor_given_code **out)
{
    uint32_t i;

    for (i = 0; i < g->n_codes; i++) {
        if (fits(&g->codes[i], target)) {
            *out = &g->codes[i];
            return BELL_OK;
        }
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "kernel '%s' has no code for %s:%s; the first it has is "
                     "for %s",
                     g->name, target->compiler->backend, target->arch,
                     g->codes[0].device);
}

static bell_status
copy_object(const struct tensor_given_code *c, struct render_binary *out)
{
    out->data = host_alloc(c->n_bytes);
    if (!out->data)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a kernel");
    memcpy(out->data, c->data, c->n_bytes);
    out->size_bytes = c->n_bytes;
    return BELL_OK;
}

static bell_status
assemble(const struct tensor_given *g, const struct tensor_given_code *c,
         const struct rt_job *job, struct render_binary *out)
{
    const struct rt_target *target = job->target;
    bell_status status;

    if (target->is_simulated)
        return render_nv_container_text(c->data, g->name, target->ptx.sm,
                                        job->facts.n_params + job->facts.n_vars,
                                        out);
    status = render_ptxas(c->data, &target->ptx, out);
    if (status != BELL_OK)
        bell_error_prefix("%s", g->name);
    return status;
}

static bell_status
compile(const struct tensor_given *g, const struct tensor_given_code *c,
        const struct rt_job *job, struct render_binary *out)
{
    const struct rt_target *target = job->target;
    struct render_source source = {g->name, c->data, c->n_bytes};

    switch (c->form) {
    case BELL_KERNEL_PTX:
        return assemble(g, c, job, out);
    case BELL_KERNEL_LLVM:
        return target->lower.is_gpu
                   ? render_amdgpu_foreign_ir(c->data, g->name, &target->amdgpu,
                                              out)
                   : render_host_ir(c->data, g->name, &target->lower, out);
    case BELL_KERNEL_C:
        return render_c(&source, target->lower.cpu ? target->arch : NULL, out);
    case BELL_KERNEL_OBJECT:
    default:
        return copy_object(c, out);
    }
}

bell_status
rt_compile_given(struct rt_job *job)
{
    const struct tensor_given *g = job->given;
    const struct tensor_given_code *c;
    uint64_t start = time_now_ns();
    int i;

    BELL_TRY(find_given_code(g, job->target, &c));
    job->facts = (struct rt_facts){.n_params = job->sink->src[0]->n_src,
                                   .n_vars = g->n_values};
    for (i = 0; i < 3; i++) {
        if (c->grid[i] > job->target->max_grid[i])
            return bell_fail(BELL_E_UNSUPPORTED,
                             "kernel '%s': a grid of %u x %u x %u work-groups; "
                             "the device takes %u x %u x %u",
                             g->name, c->grid[0], c->grid[1], c->grid[2],
                             job->target->max_grid[0], job->target->max_grid[1],
                             job->target->max_grid[2]);
        job->facts.grid[i] = c->grid[i];
        job->facts.local[i] = c->local[i];
        if (job->target->lower.is_gpu)
            job->binary.local[i] = c->local[i];
    }
    if (LOG_ON(LOG_RENDER) && c->form != BELL_KERNEL_OBJECT)
        log_text(LOG_RENDER, g->name, c->data);
    job->binary.shared_bytes = c->n_shared_bytes;
    BELL_TRY(compile(g, c, job, &job->binary.file));
    job->render_ns = time_now_ns() - start;
    job->name = host_strdup(g->name);
    return job->name ? BELL_OK
                     : bell_fail(BELL_E_NO_MEMORY, "out of memory compiling %s",
                                 g->name);
}
