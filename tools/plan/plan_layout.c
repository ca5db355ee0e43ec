/* Which layouts can be, and which are fast. */
#include "tools/plan/plan.h"

#include <string.h>

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

struct search {
    struct plan_choice *choices;
    size_t n, most;
};

static void
keep_choice(struct search *search, const struct plan_choice *choice)
{
    size_t at = search->n;

    while (at > 0 && search->choices[at - 1].prediction.step_s >
                         choice->prediction.step_s)
        at--;
    if (at == search->most)
        return;
    if (search->n < search->most)
        search->n++;
    memmove(&search->choices[at + 1], &search->choices[at],
            (search->n - at - 1) * sizeof(*choice));
    search->choices[at] = *choice;
}

/* Over what does not change who is where. */
static bell_status
try_grid(const struct plan_machine *machine, const struct plan_model *model,
         struct plan_choice *choice, struct search *search)
{
    static const enum plan_checkpoint checkpoints[] = {PLAN_KEEP_ALL,
                                                       PLAN_FULL};
    struct plan_layout *layout = &choice->layout;
    size_t i;

    for (layout->zero = 0; layout->zero <= 3; layout->zero++) {
        if (layout->zero > 0 && layout->data * layout->context == 1)
            break;
        for (i = 0; i < ARRAY_LEN(checkpoints); i++) {
            layout->checkpoint = checkpoints[i];
            for (layout->micro = 1; layout->micro <= 4; layout->micro *= 2) {
                if (layout->batch % (layout->data * layout->micro))
                    break;
                BELL_TRY(
                    plan_predict(machine, model, layout, &choice->prediction));
                if (choice->prediction.memory_bytes <=
                    choice->prediction.capacity_bytes)
                    keep_choice(search, choice);
            }
        }
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
    struct plan_layout *layout = &one.layout;
    uint32_t t, p;

    layout->interleave = 1;
    layout->context = 1;
    for (t = 1; t <= machine->n_per_node && t <= n_devices; t++) {
        if (n_devices % t)
            continue;
        for (p = 1; p <= model->n_layers && p <= n_devices / t; p++) {
            if (n_devices / t % p || model->n_layers % p)
                continue;
            layout->tensor = t;
            layout->pipeline = p;
            layout->data = n_devices / t / p;
            layout->sequence = t > 1 && layout->length % t == 0;
            layout->zero = 0;
            layout->checkpoint = PLAN_KEEP_ALL;
            layout->micro = 1;
            if (plan_check(machine, model, layout) == BELL_OK)
                BELL_TRY(try_grid(machine, model, &one, &search));
        }
    }
    *out_n = search.n;
    return BELL_OK;
}
