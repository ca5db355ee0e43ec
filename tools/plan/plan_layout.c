/* Which layouts can be, and which are fast. */
#include "tools/plan/plan.h"

#include <math.h>

#include "base/bits.h"

static bell_status
check_sizes(const struct plan_machine *machine, const struct plan_layout *l)
{
    uint64_t n = (uint64_t)l->data * l->context * l->tensor * l->pipeline;

    if (l->data == 0 || l->tensor == 0 || l->pipeline == 0 || l->context == 0 ||
        l->interleave == 0 || l->micro == 0 || l->batch == 0 || l->length == 0)
        return bell_fail(
            BELL_BAD_SIZE,
            "layout: sizes are 1 or more, got data %u, context %u, tensor %u, "
            "pipeline %u, interleave %u, micro %u, batch %u, "
            "length %u",
            l->data, l->context, l->tensor, l->pipeline, l->interleave,
            l->micro, l->batch, l->length);
    if (n > PLAN_DEVICES_MAX)
        return bell_fail(BELL_BAD_SIZE, "layout: %llu devices, at most %u",
                         (unsigned long long)n, PLAN_DEVICES_MAX);
    if (l->zero > 3 || (l->gradient_bytes != 2 && l->gradient_bytes != 4) ||
        l->checkpoint >= PLAN_CHECKPOINT_COUNT || l->dtype >= PLAN_DTYPE_COUNT)
        return bell_fail(
            BELL_BAD_VALUE,
            "layout: ZeRO %u of 0 to 3, gradients of %u bytes of 2 "
            "or 4",
            l->zero, l->gradient_bytes);
    if (machine->share[l->dtype] == 0)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "machine %s: its %s has no %s products", machine->name,
                         machine->chip, plan_dtype_names[l->dtype]);
    return BELL_OK;
}

static bell_status
check_tensor(const struct plan_model *m, const struct plan_layout *l)
{
    static const char *const names[] = {"heads", "key and value heads",
                                        "hidden size", "MLP's inner size"};
    const uint32_t sizes[] = {m->n_heads, m->n_kv_heads, m->hidden, m->feed};
    size_t i;

    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        if (sizes[i] % l->tensor)
            return bell_fail(
                BELL_BAD_SIZE,
                "model %s: its %u %s cannot be split over a tensor "
                "axis of %u",
                m->name, sizes[i], names[i], l->tensor);
    }
    if (l->sequence && l->tensor == 1)
        return bell_fail(
            BELL_BAD_VALUE,
            "layout: --sequence splits norms over the tensor axis, "
            "which has 1 device");
    if (l->length % l->context)
        return bell_fail(
            BELL_BAD_SIZE,
            "layout: %u tokens cannot be split over a context axis "
            "of %u",
            l->length, l->context);
    if (l->sequence && l->length / l->context % l->tensor)
        return bell_fail(BELL_BAD_SIZE,
                         "layout: %u tokens cannot be split over a tensor axis "
                         "of %u",
                         l->length / l->context, l->tensor);
    return BELL_OK;
}

static bell_status
check_pipeline(const struct plan_model *m, const struct plan_layout *l)
{
    uint64_t parts = (uint64_t)l->pipeline * l->interleave;

    if (parts > m->n_layers)
        return bell_fail(BELL_BAD_SIZE,
                         "model %s: %llu parts of stages for its %u layers",
                         m->name, (unsigned long long)parts, m->n_layers);
    if (l->interleave > 1 && l->pipeline == 1)
        return bell_fail(BELL_BAD_VALUE,
                         "layout: --interleave %u needs a pipeline of 2 stages "
                         "or more",
                         l->interleave);
    if (l->interleave > 1 && l->batch / l->data / l->micro % l->pipeline)
        return bell_fail(BELL_BAD_SIZE,
                         "layout: interleaved stages take multiples of %u "
                         "micro-batches, got %u",
                         l->pipeline, l->batch / l->data / l->micro);
    return BELL_OK;
}

bell_status
plan_check(const struct plan_machine *machine, const struct plan_model *model,
           const struct plan_layout *layout)
{
    BELL_TRY(check_sizes(machine, layout));
    BELL_TRY(check_tensor(model, layout));
    if (layout->batch % ((uint64_t)layout->data * layout->micro))
        return bell_fail(BELL_BAD_SIZE,
                         "layout: a batch of %u is not a multiple of %u "
                         "replicas with micro-batches of %u",
                         layout->batch, layout->data, layout->micro);
    return check_pipeline(model, layout);
}

/* ---- the search ---------------------------------------------------------- */

/* Parts of a stage, and devices that share a sequence, at most. */
#define PARTS_MAX   8
#define CONTEXT_MAX 4

struct search {
    struct plan_choice *choices;
    size_t n, most;
};

/* Whether both put the same ranks to the same axes. */
static bool
is_same_grid(const struct plan_layout *a, const struct plan_layout *b)
{
    return a->data == b->data && a->tensor == b->tensor &&
           a->pipeline == b->pipeline && a->context == b->context;
}

/* The slowest that is kept, if there is no room for more. */
static double
limit_s(const struct search *search)
{
    return search->n < search->most
               ? INFINITY
               : search->choices[search->n - 1].prediction.step_s;
}

/* In order of time, the best one of each grid. */
static void
keep_choice(struct search *search, const struct plan_choice *choice)
{
    struct plan_choice *list = search->choices;
    double step_s = choice->prediction.step_s;
    size_t old, at;

    for (old = 0; old < search->n; old++) {
        if (is_same_grid(&list[old].layout, &choice->layout))
            break;
    }
    if (step_s >=
        (old < search->n ? list[old].prediction.step_s : limit_s(search)))
        return;
    if (old == search->n && search->n < search->most)
        search->n++;
    else if (old == search->n)
        old--;
    for (at = old; at > 0 && list[at - 1].prediction.step_s > step_s; at--)
        list[at] = list[at - 1];
    list[at] = *choice;
}

/* The choice as it is, if it fits. Plans of exchanges take most of the time, so
 * what cannot be among the best is known before. */
static bell_status
try_one(const struct plan_machine *machine, const struct plan_model *model,
        struct plan_choice *choice, struct search *search)
{
    struct plan_prediction *x = &choice->prediction;

    plan_memory(machine, model, &choice->layout, x);
    if (x->memory_bytes > x->capacity_bytes)
        return BELL_OK;
    if (plan_least_s(machine, model, &choice->layout) >= limit_s(search))
        return BELL_OK;
    BELL_TRY(plan_predict(machine, model, &choice->layout, x));
    keep_choice(search, choice);
    return BELL_OK;
}

/* Over what does not change who is where. */
static bell_status
try_grid(const struct plan_machine *machine, const struct plan_model *model,
         struct plan_choice *choice, struct search *search)
{
    static const enum plan_checkpoint checkpoints[] = {PLAN_KEEP_ALL, PLAN_HALF,
                                                       PLAN_FULL};
    struct plan_layout *l = &choice->layout;
    size_t i;

    for (l->micro = 1; l->micro <= 4; l->micro *= 2) {
        if (plan_check(machine, model, l) != BELL_OK)
            continue;
        for (l->zero = 0; l->zero <= 3; l->zero++) {
            if (l->zero > 0 && l->data * l->context == 1)
                break;
            for (i = 0; i < ARRAY_LEN(checkpoints); i++) {
                l->checkpoint = checkpoints[i];
                BELL_TRY(try_one(machine, model, choice, search));
            }
        }
        l->zero = 0;
    }
    return BELL_OK;
}

/* Over the parts of a stage. */
static bell_status
try_parts(const struct plan_machine *machine, const struct plan_model *model,
          struct plan_choice *choice, struct search *search)
{
    struct plan_layout *l = &choice->layout;
    uint32_t most = l->pipeline > 1 ? PARTS_MAX : 1, v;

    for (v = 1; v <= most; v++) {
        l->interleave = v;
        BELL_TRY(try_grid(machine, model, choice, search));
    }
    return BELL_OK;
}

bell_status
plan_search(const struct plan_machine *machine, const struct plan_model *model,
            const struct plan_layout *fixed, uint32_t n_devices,
            struct plan_choice *choices, size_t most, size_t *out_n)
{
    struct search search = {choices, 0, most};
    struct plan_choice one = {.layout = *fixed};
    struct plan_layout *l = &one.layout;
    uint32_t t, c, p;

    for (t = 1; t <= machine->n_per_node && t <= n_devices; t++) {
        for (c = 1; c <= CONTEXT_MAX; c *= 2) {
            for (p = 1; p <= model->n_layers; p++) {
                if (n_devices % (t * c * p))
                    continue;
                l->tensor = t;
                l->context = c;
                l->pipeline = p;
                l->data = n_devices / t / c / p;
                l->sequence = t > 1 && l->length / c % t == 0;
                l->zero = 0;
                BELL_TRY(try_parts(machine, model, &one, &search));
            }
        }
    }
    *out_n = search.n;
    return BELL_OK;
}
