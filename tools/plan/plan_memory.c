/* Parameters, and the memory of a device by kind.
 *
 * src: weights, gradients, optimiser: Rajbhandari et al. 2020, "ZeRO: Memory
 * Optimizations Toward Training Trillion Parameter Models", section 3, figure
 * 1: 2 + 2 + 12 bytes a parameter with Adam. Activations: Korthikanti et al.
 * 2022, "Reducing Activation Recomputation in Large Transformer Models",
 * equations 1 to 6 and section 4.2 (stages, interleaving, scores of words).
 */
#include "tools/plan/plan.h"

#include <string.h>

/* Bytes of an element of weights and activations, and of Adam's state: the
 * weights once more, and two moments, in float32. */
#define HALF_BYTES  2.0
#define STATE_BYTES 12.0
/* For runtime, libraries and fragments. guess: */
#define RESERVED_BYTES (3.0 * 1073741824)

const char *const plan_memory_names[PLAN_MEMORY_COUNT] = {
    "weights",     "gradients", "optimiser state", "gathered weights",
    "activations", "scores",    "reserved",
};

static double
at_most(double x, double limit)
{
    return x < limit ? x : limit;
}

static double
layer_params(const struct plan_model *model)
{
    double h = model->hidden, f = model->feed;
    double kv = h * model->n_kv_heads / model->n_heads;

    if (model->is_gated)
        return 2 * h * h + 2 * h * kv + 3 * h * f + 2 * h;
    /* with biases, and norms that have some */
    return 2 * h * h + 2 * h * kv + 2 * h * f + 2 * h + 2 * kv + f + h + 4 * h;
}

static double
table_params(const struct plan_model *model)
{
    return (double)model->vocab * model->hidden;
}

double
plan_params(const struct plan_model *model, uint32_t length)
{
    double n = model->n_layers * layer_params(model) + table_params(model) +
               model->hidden;

    if (!model->is_tied)
        n += table_params(model);
    if (model->has_positions)
        n += (double)length * model->hidden;
    return n;
}

double
plan_tokens(const struct plan_layout *layout)
{
    return (double)layout->length / layout->context * layout->micro;
}

double
plan_stage_layers(const struct plan_model *model,
                  const struct plan_layout *layout)
{
    uint32_t parts = layout->pipeline * layout->interleave;

    return (double)((model->n_layers + parts - 1) / parts * layout->interleave);
}

/* Without scores of attention, which are apart: 0 with flash. */
static double
layer_without_scores(const struct plan_model *model,
                     const struct plan_layout *layout)
{
    double sbh = plan_tokens(layout) * model->hidden;
    double t = layout->tensor, whole = layout->sequence ? t : 1;
    double r = (double)model->n_kv_heads / model->n_heads;
    double f = (double)model->feed / model->hidden;

    /* Frozen matrices need no inputs for gradients of theirs: the second norm's
     * result and the MLP's inner product. Adapters are in attention. */
    if (model->is_gated && layout->frozen)
        return sbh * (6 / whole + (2 + 4 * r + 2 + 4 * f) / t);
    if (!model->is_gated) /* 10 + 24 / t with f = 4 and r = 1 */
        return sbh * (10 / whole + (2 + 4 * r + 2 + 4 * f) / t);
    /* Two norms' inputs and results; query, key, value, what attention gives,
     * both of the MLP's inner values and their product. No dropout. */
    return sbh * (8 / whole + (2 + 4 * r + 2 + 6 * f) / t);
}

double
plan_layer_activations(const struct plan_model *model,
                       const struct plan_layout *layout)
{
    double sb = plan_tokens(layout), bytes;
    double t = layout->tensor;
    double input = HALF_BYTES * sb * model->hidden / (layout->sequence ? t : 1);

    if (layout->checkpoint == PLAN_FULL)
        return input;
    bytes = layer_without_scores(model, layout);
    if (layout->no_flash && layout->checkpoint != PLAN_SELECTIVE)
        bytes += 5 * sb * layout->length * model->n_heads / t;
    return layout->checkpoint == PLAN_HALF ? (bytes + input) / 2 : bytes;
}

/* Micro-batches whose activations the first stage keeps, in whole stages. */
static double
in_flight(const struct plan_layout *layout)
{
    double n = (double)layout->batch / layout->data / layout->micro;
    double p = layout->pipeline;

    if (layout->pipeline == 1)
        return 1;
    if (layout->interleave == 1)
        return at_most(p, n);
    return at_most(p * (1 + (p - 1) / (p * layout->interleave)), n);
}

static void
fill_states(const struct plan_layout *layout, double params, double layer,
            struct plan_prediction *out)
{
    double by[4], learn = layout->frozen ? PLAN_ADAPTER_SHARE : 1;
    uint32_t i;

    for (i = 1; i < 4; i++)
        by[i] = layout->zero >= i ? layout->data * layout->context : 1;
    out->memory[PLAN_WEIGHTS] = HALF_BYTES * params / by[3];
    out->memory[PLAN_GRADIENTS] =
        learn * layout->gradient_bytes * params / by[2];
    out->memory[PLAN_OPTIMISER] = learn * STATE_BYTES * params / by[1];
    /* the layer at work and the next one, and what the first one's gradients
     * take until they are scattered */
    if (layout->zero == 3 && layout->data * layout->context > 1)
        out->memory[PLAN_GATHERED] =
            2 * HALF_BYTES * layer + learn * layout->gradient_bytes * layer;
}

void
plan_memory(const struct plan_machine *machine, const struct plan_model *model,
            const struct plan_layout *layout, struct plan_prediction *out)
{
    double sb = plan_tokens(layout);
    double t = layout->tensor;
    double layer = layer_params(model) / t;
    double layers = plan_stage_layers(model, layout),
           table = table_params(model) / t;
    double own = plan_layer_activations(model, layout);
    double params, first, last, words;
    uint32_t i;

    memset(out->memory, 0, sizeof(out->memory));
    out->n_params = plan_params(model, layout->length);
    params = layers * layer + table;
    if (layout->pipeline == 1 && !model->is_tied)
        params += table;
    if (model->has_positions)
        params += (double)layout->length * model->hidden / t;
    out->local_params = params;
    fill_states(layout, params, layer, out);

    /* float32 scores, and the last norm's input and result */
    words = 4 * sb * model->vocab / t + 4 * sb * model->hidden;
    first = layers * own * in_flight(layout);
    last = layers * own + words;
    if (layout->pipeline == 1 || last > first) {
        first = layers * own;
        out->memory[PLAN_SCORES] = words;
    }
    out->memory[PLAN_ACTIVATIONS] = first;
    if (layout->checkpoint >= PLAN_HALF) { /* the layer that is done again */
        struct plan_layout again = *layout;

        again.checkpoint = PLAN_KEEP_ALL;
        out->memory[PLAN_ACTIVATIONS] += plan_layer_activations(model, &again);
    }
    out->memory[PLAN_RESERVED] = RESERVED_BYTES;
    out->memory_bytes = 0;
    for (i = 0; i < PLAN_MEMORY_COUNT; i++)
        out->memory_bytes += out->memory[i];
    out->capacity_bytes = machine->memory_bytes > 0
                              ? machine->memory_bytes
                              : (double)chip_find(machine->chip)->memory_bytes;
}
