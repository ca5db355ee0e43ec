/* OpenCL C: the text is compiled and run by an OpenCL device, the first one,
 * through hcq/cl. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hcq/hcq.h"
#include "render/cl/cl.h"
#include "render_check.h"

static const char *const chips[] = {"CL:0"};

static struct hcq_device *dev;
static struct hcq_queue *queue;
static struct cl_target target;
static unsigned n_run;

static bool
open_device(void)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};

    if (dev)
        return true;
    if (hcq_device_open("CL:0", &dev) != BELL_OK)
        return false;
    hcq_device_info(dev, &info);
    return render_cl_target(info.arch, &target) &&
           hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue) == BELL_OK;
}

/* Small floats are decomposed. */
static bool
has_alu(enum uop_op op, enum uop_dtype dtype)
{
    return !uop_dtype_is_small(dtype) || op == UOP_WHERE;
}

static bool
has_cast(enum uop_dtype from, enum uop_dtype to)
{
    return (!uop_dtype_is_small(from) || from == UOP_F16) &&
           (!uop_dtype_is_small(to) || to == UOP_F16);
}

static bell_status
lower_target(unsigned chip, struct lower_target *out)
{
    (void)chip;
    if (!open_device())
        return bell_error_last()->status;
    render_cl_lower_target(&target, out);
    return BELL_OK;
}

static bell_status
render(const struct lower_program *p, unsigned chip, struct render_binary *out)
{
    struct cl_target all = {.has_f64 = true, .has_fma = true};
    char *text;

    (void)chip;
    BELL_TRY(render_cl(p, &all, &text));
    *out = (struct render_binary){text, strlen(text)};
    return BELL_OK;
}

#define OK(call)                                                               \
    do {                                                                       \
        if ((call) != BELL_OK)                                                 \
            fail_msg("%s: %s: %s\n%s", what, #call,                            \
                     bell_error_last()->message, text);                        \
    } while (0)

static size_t
buf_bytes(const struct p_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

static void
run(const struct lower_program *p, unsigned chip, const struct p_buf *bufs,
    uint32_t n_bufs, const int64_t *vars, const char *what)
{
    struct lower_program named = *p; /* some are named "kernel", a keyword */
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "tested",
        .n_bufs = p->n_params,
        .n_vals = p->n_vars,
    };
    struct hcq_buffer *on_card[CHECK_MAX_BUFS];
    uint64_t args[CHECK_MAX_BUFS + 8];
    struct hcq_program *prog;
    struct hcq_cs *cs;
    char *text = NULL;
    uint32_t i;

    (void)chip;
    named.name = desc.name;
    if (!open_device() || render_cl(&named, &target, &text) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    assert_true(p->n_params <= n_bufs);
    memcpy(desc.local, p->local, sizeof(desc.local));
    desc.binary = text;
    desc.binary_size_bytes = strlen(text);
    OK(hcq_program_create(dev, &desc, &prog));
    for (i = 0; i < p->n_params; i++) {
        size_t n = buf_bytes(&bufs[i]);

        OK(hcq_buffer_create(dev, n, 0, &on_card[i]));
        OK(hcq_buffer_write(on_card[i], 0, bufs[i].data, n));
        args[i] = on_card[i]->va;
    }
    for (i = 0; i < p->n_vars; i++)
        args[p->n_params + i] = (uint64_t)vars[i];
    OK(hcq_queue_begin(queue, &cs));
    hcq_cs_exec(cs, prog, args, p->n_params + p->n_vars, p->grid, NULL);
    OK(hcq_cs_submit(cs, NULL));
    OK(hcq_queue_wait(queue, 10 * HCQ_TIMEOUT_NS));
    for (i = 0; i < p->n_params; i++) {
        OK(hcq_buffer_read(on_card[i], 0, bufs[i].data, buf_bytes(&bufs[i])));
        hcq_buffer_destroy(on_card[i]);
    }
    hcq_program_destroy(prog);
    host_free(text);
    n_run++;
}

static void
keep(const struct lower_program *p, unsigned chip, const char *what)
{
    (void)p, (void)chip, (void)what; /* it runs on all there is */
}

static void
finish(void)
{
    print_message("%u kernels run\n", n_run);
    hcq_queue_destroy(queue);
    hcq_device_close(dev);
}

const struct backend backend_cl = {
    .name = "cl",
    .chips = chips,
    .n_chips = 1,
    .n_first = 1,
    .n_targets = 1,
    .is_gpu = true,
    .open = open_device,
    .thin = 64, /* a quarter of a second each */
    .has_alu = has_alu,
    .has_cast = has_cast,
    .lower_target = lower_target,
    .render = render,
    .run = run,
    .keep = keep,
    .finish = finish,
};
