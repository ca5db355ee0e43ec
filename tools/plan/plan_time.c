/* The time of a step: computing by rooflines with a share of the peak, what
 * exchanges add to it, and pipelines.
 *
 * src: operations of a layer: Narayanan et al. 2021, "Efficient Large-Scale
 * Language Model Training on GPU Clusters Using Megatron-LM", section 5.1 and
 * appendix; the bubble: section 2.2. Exchanges of the tensor axis: Shoeybi et
 * al. 2019, "Megatron-LM"; of ZeRO: Rajbhandari et al. 2020, section 7.
 */
#include "tools/plan/plan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A product whose smallest size is so small takes twice as long as its
 * operations at a large product's rate. guess: a tile of 128 and the ramps of a
 * loop over k, between what cuBLAS is seen to lose at 1024 and at 2048. */
#define SMALL_SIZE 96.0
/* That loops over memory reach of its bandwidth. guess: 0.8 to 0.9 is measured
 * of copies. */
#define MEMORY_SHARE 0.8
/* Backward, in forward's: five products for two. */
#define FLASH_BACK 2.5
/* A launch, within a stream. guess. */
#define LAUNCH_S 3e-6
/* Time that an exchange beside computing still costs: it takes units and
 * bandwidth. guess. */
#define HIDDEN_COST 0.5
/* Each doubling of boxes adds this share to a step: some box is always slower.
 * calibrated: MPT 7B on 128 to 512 GPUs. */
#define STRAGGLER_SHARE 0.01

const char *const plan_part_names[PLAN_PART_COUNT] = {
    "products",    "attention",       "elementwise",      "scores of words",
    "recomputing", "tensor exchange", "context exchange", "data exchange",
    "bubble",      "update",          "stragglers",
};

const char *const plan_part_formulas[PLAN_PART_COUNT] = {
    "2 m n k / (peak * share) * (1 + 96 / smallest size), three times a layer "
    "and micro-batch: forward, and backward twice (once if weights are frozen)",
    "4 b s^2 h / tensor operations forward, half of them with a mask, at 0.5 "
    "of "
    "the peak, and 2.5 times that backward; without flash as products, with 11 "
    "bytes a score through memory, and twice that backward",
    "bytes of norms, residuals and activations / (0.8 * bandwidth), three "
    "passes",
    "the last stage's product with the vocabulary, and 14 bytes a score of the "
    "loss",
    "the forward pass once more (full, half), or attention alone (selective)",
    "2 all-reduces of 2 b s h bytes forward, as many backward, and when "
    "recomputing; what computing hides costs half of its time",
    "keys and values gathered along the context axis, and their gradients "
    "scattered, beside attention; half of what it hides",
    "gradients added up in the last micro-batch's backward pass; ZeRO 1 and 2 "
    "gather weights beside the next forward pass; ZeRO 3 gathers twice and "
    "scatters once in each micro-batch",
    "(pipeline - 1) / interleave micro-batches, and their sends",
    "bytes of weights, gradients and state / (0.8 * bandwidth)",
    "0.01 of the step for each doubling of boxes",
};

/* ---- computing ----------------------------------------------------------- */

static double
larger(double a, double b)
{
    return a > b ? a : b;
}

static double
bandwidth(const struct plan_machine *machine)
{
    double gb_s = machine->memory_gb_s > 0
                      ? machine->memory_gb_s
                      : chip_find(machine->chip)->memory_gb_s;

    return gb_s * 1e9;
}

static double
peak(const struct plan_machine *machine, enum plan_dtype dtype)
{
    const struct chip *chip = chip_find(machine->chip);

    return chip->rate[dtype == PLAN_FP8 ? CHIP_MATRIX_8 : CHIP_MATRIX_F16] *
           1e12;
}

static double
traffic_s(const struct plan_machine *machine, double n_bytes)
{
    return n_bytes / (bandwidth(machine) * MEMORY_SHARE);
}

double
plan_product_s(const struct plan_machine *machine, enum plan_dtype dtype,
               double m, double n, double k)
{
    double smallest = m < n ? m : n;
    double rate = peak(machine, dtype) * machine->share[dtype] * machine->clock;
    double by_rate, by_memory;

    smallest = smallest < k ? smallest : k;
    by_rate = 2 * m * n * k / rate * (1 + SMALL_SIZE / smallest);
    by_memory = traffic_s(machine, 2 * (m * n + m * k + n * k));
    return larger(by_rate, by_memory) + LAUNCH_S;
}

/* Forward times of one layer and micro-batch on a device. */
struct layer_times {
    double products, attention, elementwise;
    double attention_back;
};

static double
layer_products(const struct plan_machine *machine,
               const struct plan_model *model, const struct plan_layout *layout)
{
    enum plan_dtype dtype = layout->dtype;
    double m = plan_tokens(layout), h = model->hidden;
    double t = layout->tensor, f = model->feed / t;
    double kv = h * model->n_kv_heads / model->n_heads;

    return plan_product_s(machine, dtype, m, (h + 2 * kv) / t, h) +
           plan_product_s(machine, dtype, m, h, h / t) +
           plan_product_s(machine, dtype, m, model->is_gated ? 2 * f : f, h) +
           plan_product_s(machine, dtype, m, h, f);
}

static void
find_attention(const struct plan_machine *machine,
               const struct plan_model *model, const struct plan_layout *layout,
               struct layer_times *out)
{
    double s = layout->length, b = layout->micro;
    double t = (double)layout->tensor * layout->context;
    double ops = 4 * b * s * s * model->hidden / t;
    double n_scores = b * s * s * model->n_heads / t;
    double head = (double)model->hidden / model->n_heads;

    if (!layout->no_flash) {
        out->attention = ops / 2 /
                             (peak(machine, PLAN_BF16) * machine->flash_share *
                              machine->clock) +
                         LAUNCH_S;
        out->attention_back = FLASH_BACK * out->attention;
        return;
    }
    /* the head's size is the inner or outer one of both products */
    out->attention =
        ops /
            (peak(machine, PLAN_BF16) * machine->share[PLAN_BF16] *
             machine->clock) *
            (1 + SMALL_SIZE / head) +
        /* write; mask and softmax; dropout; read: 2 bytes, and 1 of a mask */
        traffic_s(machine, 11 * n_scores) + 5 * LAUNCH_S;
    out->attention_back = 2 * out->attention;
}

static void
find_layer(const struct plan_machine *machine, const struct plan_model *model,
           const struct plan_layout *layout, struct layer_times *out)
{
    double sbh = plan_tokens(layout) * model->hidden;
    double t = layout->tensor, whole = layout->sequence ? t : 1;
    double r = (double)model->n_kv_heads / model->n_heads;
    double f = (double)model->feed / model->hidden;
    /* two norms (4), two sums with the residual (6) */
    double bytes = 20 * sbh / whole;

    if (model->is_gated) /* rotations of query and key; gate times up */
        bytes += sbh * (4 * (1 + r) + 6 * f) / t;
    else /* dropout's masks; bias and activation */
        bytes += 2 * sbh / whole + sbh * 4 * f / t;
    out->products = layer_products(machine, model, layout);
    out->elementwise = traffic_s(machine, bytes) + 6 * LAUNCH_S;
    find_attention(machine, model, layout, out);
}

/* Scores of words and the loss, forward and backward, of a micro-batch. */
static double
words_s(const struct plan_machine *machine, const struct plan_model *model,
        const struct plan_layout *layout)
{
    double m = plan_tokens(layout);
    double n = (double)model->vocab / layout->tensor;

    /* never in 8 bits */
    return (layout->frozen ? 2 : 3) *
               plan_product_s(machine, PLAN_BF16, m, n, model->hidden) +
           traffic_s(machine, 14 * m * n);
}

/* ---- exchanges ----------------------------------------------------------- */

/* The time of an exchange that computing of that time does not hide. */
static double
exposed_s(double exchange, double computing)
{
    double hidden = exchange < computing ? exchange : computing;

    return exchange - hidden + HIDDEN_COST * hidden;
}

/* Times of one micro-batch on a stage, all its layers. */
struct stage {
    double layers, forward, backward; /* computing alone */
    double again;                     /* of that, recomputing */
    double tensor, context, words;
    double n_micro;
};

/* A layer exchanges twice on its way forward, and twice backward. */
static bell_status
find_tensor(const struct plan_machine *machine, const struct plan_model *model,
            const struct plan_layout *layout, const struct layer_times *layer,
            struct stage *stage, struct plan_prediction *out)
{
    double n_bytes = 2.0 * plan_tokens(layout) * model->hidden;
    double times = layout->checkpoint == PLAN_FULL   ? 6
                   : layout->checkpoint == PLAN_HALF ? 5
                                                     : 4;
    struct plan_exchange one;
    double wait;

    /* Split norms turn the sum into a scatter before and a gather behind them:
     * the same bytes. */
    BELL_TRY(plan_exchange(machine, HCQ_COLLECTIVE_ALL_REDUCE,
                           HCQ_COLLECTIVE_AUTO, layout->tensor, 1, n_bytes,
                           &one));
    wait =
        layout->overlap_tensor ? exposed_s(one.s, layer->products / 2) : one.s;
    stage->tensor = times * stage->layers * wait;
    times *= stage->layers * stage->n_micro;
    out->tensor_s = times * one.s;
    out->tensor_bytes[0] = times * one.bytes[0];
    out->tensor_bytes[1] = times * one.bytes[1];
    return BELL_OK;
}

/* Each device has queries of its own tokens, and needs all keys and values:
 * once forward, once backward, whose gradients go back. */
static bell_status
find_context(const struct plan_machine *machine, const struct plan_model *model,
             const struct plan_layout *layout, const struct layer_times *layer,
             struct stage *stage, struct plan_prediction *out)
{
    double n_bytes = 2 * 2.0 * layout->length * layout->micro * model->hidden *
                     model->n_kv_heads / model->n_heads / layout->tensor;
    double times = stage->layers * stage->n_micro;
    struct plan_exchange gather, scatter;

    BELL_TRY(plan_exchange(machine, HCQ_COLLECTIVE_ALL_GATHER,
                           HCQ_COLLECTIVE_AUTO, layout->context, layout->tensor,
                           n_bytes, &gather));
    BELL_TRY(plan_exchange(machine, HCQ_COLLECTIVE_REDUCE_SCATTER,
                           HCQ_COLLECTIVE_AUTO, layout->context, layout->tensor,
                           n_bytes, &scatter));
    stage->context = stage->layers *
                     (exposed_s(gather.s, layer->attention) +
                      exposed_s(gather.s + scatter.s, layer->attention_back));
    out->part_s[PLAN_CONTEXT_WAIT] = stage->n_micro * stage->context;
    out->context_bytes[0] = times * (2 * gather.bytes[0] + scatter.bytes[0]);
    out->context_bytes[1] = times * (2 * gather.bytes[1] + scatter.bytes[1]);
    return BELL_OK;
}

static bell_status
add_data_exchange(const struct plan_machine *machine,
                  const struct plan_layout *layout,
                  enum hcq_collective_kind kind, double n_bytes, double times,
                  struct plan_prediction *out, double *out_s)
{
    struct plan_exchange one;

    BELL_TRY(plan_exchange(machine, kind, HCQ_COLLECTIVE_AUTO,
                           layout->data * layout->context, layout->tensor,
                           n_bytes, &one));
    out->data_s += times * one.s;
    out->data_bytes[0] += times * one.bytes[0];
    out->data_bytes[1] += times * one.bytes[1];
    *out_s = times * one.s;
    return BELL_OK;
}

static bell_status
find_data(const struct plan_machine *machine, const struct plan_layout *layout,
          const struct stage *stage, struct plan_prediction *out)
{
    double learn = layout->frozen ? PLAN_ADAPTER_SHARE : 1;
    double weights = 2 * out->local_params;
    double gradients = learn * layout->gradient_bytes * out->local_params;
    double n = stage->n_micro, gather, scatter, wait;

    if (layout->zero == 0) {
        BELL_TRY(add_data_exchange(machine, layout, HCQ_COLLECTIVE_ALL_REDUCE,
                                   gradients, 1, out, &scatter));
        wait = exposed_s(scatter, stage->backward);
    } else if (layout->zero < 3) {
        BELL_TRY(add_data_exchange(machine, layout,
                                   HCQ_COLLECTIVE_REDUCE_SCATTER, gradients,
                                   layout->zero == 2 ? n : 1, out, &scatter));
        BELL_TRY(add_data_exchange(machine, layout, HCQ_COLLECTIVE_ALL_GATHER,
                                   learn * weights, 1, out, &gather));
        wait =
            exposed_s(scatter, (layout->zero == 2 ? n : 1) * stage->backward) +
            exposed_s(gather, stage->forward);
    } else {
        /* each layer beside the one before it; the first one's has nothing */
        double first = weights / stage->layers;

        BELL_TRY(add_data_exchange(machine, layout, HCQ_COLLECTIVE_ALL_GATHER,
                                   weights, n, out, &gather));
        wait = exposed_s(gather, n * stage->forward);
        BELL_TRY(add_data_exchange(machine, layout,
                                   HCQ_COLLECTIVE_REDUCE_SCATTER, gradients, n,
                                   out, &scatter));
        BELL_TRY(add_data_exchange(machine, layout, HCQ_COLLECTIVE_ALL_GATHER,
                                   weights, n, out, &gather));
        wait += exposed_s(scatter + gather, n * stage->backward);
        wait += gather / n * first / weights;
    }
    out->part_s[PLAN_DATA_WAIT] = wait;
    return BELL_OK;
}

/* ---- the step ------------------------------------------------------------ */

static void
find_stage(const struct plan_machine *machine, const struct plan_model *model,
           const struct plan_layout *layout, const struct layer_times *layer,
           struct stage *stage, struct plan_prediction *out)
{
    double n = stage->n_micro * stage->layers;
    double back = layout->frozen ? 1 : 2;
    double forward = layer->products + layer->attention + layer->elementwise;
    double again = layout->checkpoint == PLAN_FULL   ? forward
                   : layout->checkpoint == PLAN_HALF ? forward / 2
                   : layout->checkpoint == PLAN_SELECTIVE && layout->no_flash
                       ? layer->attention
                       : 0;

    stage->again = stage->layers * again;
    stage->forward = stage->layers * forward;
    stage->backward =
        stage->layers * (back * layer->products + layer->attention_back +
                         2 * layer->elementwise + again);
    stage->words = words_s(machine, model, layout);
    out->part_s[PLAN_PRODUCTS] = n * (1 + back) * layer->products;
    out->part_s[PLAN_ATTENTION] =
        n * (layer->attention + layer->attention_back);
    out->part_s[PLAN_ELEMENTWISE] = n * 3 * layer->elementwise;
    out->part_s[PLAN_RECOMPUTE] = n * again;
    out->part_s[PLAN_WORDS] = stage->n_micro * stage->words;
}

static bell_status
find_pipeline(const struct plan_machine *machine,
              const struct plan_model *model, const struct plan_layout *layout,
              const struct stage *stage, struct plan_prediction *out)
{
    double n_bytes = 2.0 * plan_tokens(layout) * model->hidden;
    double hops = (layout->pipeline - 1.0) / layout->interleave;
    struct plan_exchange one;

    if (layout->sequence)
        n_bytes /= layout->tensor;
    BELL_TRY(plan_exchange(
        machine, HCQ_COLLECTIVE_SEND, HCQ_COLLECTIVE_AUTO, layout->pipeline,
        layout->tensor * layout->context * layout->data, n_bytes, &one));
    /* the stages before the last one have no scores of words */
    out->part_s[PLAN_BUBBLE] = hops * (stage->forward + stage->backward +
                                       stage->tensor + stage->context) +
                               2 * (layout->pipeline - 1) * one.s;
    out->pipeline_bytes[0] =
        2 * stage->n_micro * layout->interleave * one.bytes[0];
    out->pipeline_bytes[1] =
        2 * stage->n_micro * layout->interleave * one.bytes[1];
    return BELL_OK;
}

/* Gradients are read, weights and three words of state read and written. */
static double
update_s(const struct plan_machine *machine, const struct plan_layout *layout,
         const struct plan_prediction *out)
{
    double params = out->local_params;

    if (layout->zero > 0)
        params /= layout->data * layout->context;
    if (layout->frozen)
        params *= PLAN_ADAPTER_SHARE;
    return traffic_s(machine, params * (layout->gradient_bytes + 2 + 24));
}

static void
find_rates(const struct plan_machine *machine, const struct plan_model *model,
           const struct plan_layout *layout, struct plan_prediction *out)
{
    double tokens = (double)layout->batch * layout->length;
    double n_devices = (double)layout->data * layout->context * layout->tensor *
                       layout->pipeline;
    double table = (double)model->vocab * model->hidden;
    /* parameters in products: of both tables only the scores' */
    double params = plan_params(model, 0) - (model->is_tied ? 0 : table);
    double ops = (layout->frozen ? 4 : 6) * params +
                 12.0 * model->n_layers * model->hidden * layout->length;
    uint32_t i;

    out->step_s = 0;
    for (i = 0; i < PLAN_PART_COUNT; i++)
        out->step_s += out->part_s[i];
    out->tokens_per_s = tokens / out->step_s / n_devices;
    out->model_tflops = out->tokens_per_s * ops / 1e12;
    out->utilisation = out->model_tflops * 1e12 / peak(machine, layout->dtype);
}

/* Computing alone; *out begins as 0. */
static void
start_step(const struct plan_machine *machine, const struct plan_model *model,
           const struct plan_layout *layout, struct layer_times *layer,
           struct stage *stage, struct plan_prediction *out)
{
    memset(stage, 0, sizeof(*stage));
    stage->layers = plan_stage_layers(model, layout);
    stage->n_micro = (double)layout->batch / layout->data / layout->micro;
    out->n_micro = stage->n_micro;
    find_layer(machine, model, layout, layer);
    find_stage(machine, model, layout, layer, stage, out);
}

double
plan_least_s(const struct plan_machine *machine, const struct plan_model *model,
             const struct plan_layout *layout)
{
    double hops = (layout->pipeline - 1.0) / layout->interleave, sum;
    struct plan_prediction out = {0};
    struct layer_times layer;
    struct stage stage;
    uint32_t i;

    start_step(machine, model, layout, &layer, &stage, &out);
    sum = hops * (stage.forward + stage.backward);
    for (i = 0; i < PLAN_PART_COUNT; i++)
        sum += out.part_s[i];
    return sum;
}

bell_status
plan_predict(const struct plan_machine *machine, const struct plan_model *model,
             const struct plan_layout *layout, struct plan_prediction *out)
{
    struct layer_times layer;
    struct stage stage;
    double n_devices, boxes, sum = 0;
    uint32_t i;

    BELL_TRY(plan_check(machine, model, layout));
    memset(out, 0, sizeof(*out));
    plan_memory(machine, model, layout, out);
    start_step(machine, model, layout, &layer, &stage, out);
    BELL_TRY(find_tensor(machine, model, layout, &layer, &stage, out));
    out->part_s[PLAN_TENSOR_WAIT] = stage.n_micro * stage.tensor;
    BELL_TRY(find_context(machine, model, layout, &layer, &stage, out));
    BELL_TRY(find_data(machine, layout, &stage, out));
    BELL_TRY(find_pipeline(machine, model, layout, &stage, out));
    out->part_s[PLAN_UPDATE] = update_s(machine, layout, out);
    for (i = 0; i < PLAN_PART_COUNT; i++)
        sum += out->part_s[i];
    n_devices = (double)layout->data * layout->context * layout->tensor *
                layout->pipeline;
    boxes = ceil(n_devices / machine->n_per_node);
    out->part_s[PLAN_STRAGGLERS] = sum * STRAGGLER_SHARE * log2(boxes);
    find_rates(machine, model, layout, out);
    return BELL_OK;
}
