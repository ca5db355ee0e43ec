/* Kernels of a plan for sizes of symbols far below their bounds. */
#include "tensor/runtime/classes.h"

#include "base/alloc.h"
#include "base/log.h"
#include "lower/classes.h"
#include "tensor/runtime/run.h"
#include "tensor/runtime/search.h"

#define NOT_MADE UINT32_MAX

struct rt_classes {
    struct lower_classes of;
    uint32_t kernels[LOWER_CLASSES]; /* by class: number, or NOT_MADE */
};

static bell_status
make_classes(struct tensor_runtime *rt, uint32_t number)
{
    struct rt_kernel *kernel = &rt->kernel_list[number];
    struct rt_classes *classes = host_alloc(sizeof(*classes));
    uint32_t i;

    if (!classes)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for size classes");
    kernel->classes = classes;
    for (i = 0; i < LOWER_CLASSES; i++)
        classes->kernels[i] = NOT_MADE;
    classes->kernels[0] = number;
    return lower_classes_find(&rt->kernels, kernel->sink, &classes->of);
}

bell_status
rt_classes_make(struct tensor_runtime *rt, const struct rt_plan *plan)
{
    uint32_t i;

    for (i = 0; i < plan->sched.n_items && rt->target.lower.is_gpu; i++) {
        if (plan->kernels[i] < rt->n_kernels &&
            !rt->kernel_list[plan->kernels[i]].classes)
            BELL_TRY(make_classes(rt, plan->kernels[i]));
    }
    return BELL_OK;
}

void
rt_classes_free(struct rt_classes *classes)
{
    host_free(classes);
}

static bell_status
compile_class(struct tensor_runtime *rt, const struct rt_kernel *of,
              uint32_t class, const struct rt_plan *plan,
              const struct sched_item *item, uint32_t *out_kernel)
{
    struct sched_item of_class;
    const struct uop *sink;

    BELL_TRY(lower_class_sink(&rt->kernels, of->sink, &of->classes->of, class,
                              &sink));
    if (rt->tune.beam && plan) {
        of_class = *item;
        of_class.sink = sink;
        BELL_TRY(rt_search_item(rt, plan, &of_class));
    }
    return rt_compile(rt, &sink, 1, out_kernel);
}

/* A class that cannot be compiled has the kernel of the bounds. */
bell_status
rt_class_kernel(struct tensor_runtime *rt, struct rt_queue *q, uint32_t number,
                const uint64_t *words, const struct rt_plan *plan,
                const struct sched_item *item, uint32_t *out_kernel)
{
    struct rt_classes *classes = rt->kernel_list[number].classes;
    bell_status status;
    uint32_t class;

    *out_kernel = number;
    if (!classes || classes->of.count == 1)
        return BELL_OK;
    class = lower_class_of(&classes->of, words);
    if (classes->kernels[class] == NOT_MADE) {
        if (q)
            BELL_TRY(rt_queue_end(q));
        status = compile_class(rt, &rt->kernel_list[number], class, plan, item,
                               &classes->kernels[class]);
        rt->kernels.failed = false; /* the next launch may find the memory */
        if (status == BELL_E_UNSUPPORTED) {
            bell_error_clear();
            classes->kernels[class] = number;
            status = BELL_OK;
        }
        BELL_TRY(status);
    }
    *out_kernel = classes->kernels[class];
    return BELL_OK;
}
