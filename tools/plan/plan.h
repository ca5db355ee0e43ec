/* A written model of training a transformer on many GPUs: from a machine, a
 * model and a layout to the time of a step, the bytes that move, and memory.
 * Nothing is run, and no device is opened.
 *
 * docs/explanation/planning.md has the formulas, their sources, and the errors
 * beside published figures. Sizes are in bytes, times in seconds, rates in 1e9
 * bytes a second, unless a name says otherwise. Plain data; any thread.
 */
#ifndef BELL_TOOLS_PLAN_PLAN_H
#define BELL_TOOLS_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chip.h"
#include "base/status.h"
#include "hcq/hcq_collective.h"

#define PLAN_DEVICES_MAX 65536

/* Adapters of LoRA learn so small a share of the parameters. guess: rank 16 on
 * the attention's matrices. */
#define PLAN_ADAPTER_SHARE 0.001

enum plan_dtype {
    PLAN_BF16,
    PLAN_FP8,
    PLAN_DTYPE_COUNT
};

/* Which activations are thrown away and computed again. */
enum plan_checkpoint {
    PLAN_KEEP_ALL,
    PLAN_SELECTIVE, /* scores of attention: those of Korthikanti et al. */
    PLAN_HALF,      /* all of every second layer but its input */
    PLAN_FULL,      /* all of a layer but its input */
    PLAN_CHECKPOINT_COUNT
};

/* How boxes of a kind are sold. A row's sources stand beside it. */
struct plan_machine {
    const char *name;
    const char *chip;    /* of base/chip.h */
    uint32_t n_per_node; /* devices of a box */
    enum hcq_link_kind link;
    double link_gb_s;  /* one direction: of XGMI a pair's, else a device's */
    double link_share; /* that collectives reach of it */
    bool has_team;     /* NVLS */
    double team_share; /* likewise of NVLS */
    double nic_gb_s;   /* of the NIC of one device, one direction */
    double nic_share;
    double hop_us;       /* to a device of another box */
    double memory_bytes; /* 0: the chip's, likewise the next */
    double memory_gb_s;
    double clock; /* of the chip's rates: less with a lower power limit */
    double share[PLAN_DTYPE_COUNT]; /* of the peak that large products reach;
                                     * 0: nothing is known */
    double flash_share; /* of bf16's peak that fused attention reaches */
    const char *about;
};

/* A decoder. Sizes are in elements. */
struct plan_model {
    const char *name;
    uint32_t n_layers, n_heads, n_kv_heads;
    uint32_t hidden, feed;  /* feed: the inner size of the MLP */
    uint32_t vocab, length; /* length: tokens of a sequence, by default */
    bool is_gated;          /* three matrices in the MLP, and no dropout */
    bool is_tied;           /* one matrix embeds and makes scores of words */
    bool has_positions;     /* a learned vector for each position */
    const char *about;
};

/* How a step is spread over data * context * tensor * pipeline devices. Ranks
 * of a tensor group are neighbours, then those of a context group, then of
 * data. */
struct plan_layout {
    uint32_t data, tensor, pipeline;
    uint32_t context;    /* splits each sequence: its tokens, for all layers */
    uint32_t interleave; /* parts of a stage: 1 is plain 1F1B */
    uint32_t zero;       /* 0 to 3, over the data axis */
    bool sequence;       /* norms are split over the tensor axis */
    enum plan_checkpoint checkpoint;
    enum plan_dtype dtype;   /* of matrix products */
    uint32_t micro, batch;   /* sequences: of a micro-batch, of a step */
    uint32_t length;         /* tokens of a sequence */
    uint32_t gradient_bytes; /* of an element: 2 or 4 */
    bool no_flash;           /* attention stores its scores */
    bool frozen;             /* only adapters learn (LoRA) */
    bool overlap_tensor; /* the tensor axis' exchange runs beside products */
};

enum plan_memory {
    PLAN_WEIGHTS,
    PLAN_GRADIENTS,
    PLAN_OPTIMISER,
    PLAN_GATHERED, /* weights of layers at work, with ZeRO-3 */
    PLAN_ACTIVATIONS,
    PLAN_SCORES, /* of words: float32, on the last stage */
    PLAN_RESERVED,
    PLAN_MEMORY_COUNT
};

enum plan_part {
    PLAN_PRODUCTS, /* matrix products, forward and backward */
    PLAN_ATTENTION,
    PLAN_ELEMENTWISE, /* norms, activations: bound by memory */
    PLAN_WORDS,       /* scores of words and the loss, on the last stage */
    PLAN_RECOMPUTE,
    PLAN_TENSOR_WAIT, /* exchange that computing does not hide */
    PLAN_CONTEXT_WAIT,
    PLAN_DATA_WAIT,
    PLAN_BUBBLE, /* stages that wait for the first and last micro-batch */
    PLAN_UPDATE, /* the optimiser */
    PLAN_STRAGGLERS,
    PLAN_PART_COUNT
};

struct plan_prediction {
    double part_s[PLAN_PART_COUNT]; /* of a step, on the busiest stage */
    double step_s;                  /* their sum */
    double tokens_per_s;            /* of a device */
    double model_tflops;            /* of a device, 6 P + 12 L h s a token */
    double utilisation;             /* of the peak of the dtype: MFU */
    double n_params;
    double local_params; /* of the stage with the most */
    double n_micro;      /* micro-batches of a device in a step */
    /* Bytes that a device sends in a step, by axis, within its box and between. */
    double tensor_bytes[2], context_bytes[2], data_bytes[2];
    double pipeline_bytes[2];
    double tensor_s, data_s; /* the exchange's time, hidden or not */
    double memory[PLAN_MEMORY_COUNT];
    double memory_bytes, capacity_bytes;
};

extern const char *const plan_memory_names[PLAN_MEMORY_COUNT];
extern const char *const plan_part_names[PLAN_PART_COUNT];
/* How a part is computed: a sentence. */
extern const char *const plan_part_formulas[PLAN_PART_COUNT];
extern const char *const plan_checkpoint_names[PLAN_CHECKPOINT_COUNT];
extern const char *const plan_dtype_names[PLAN_DTYPE_COUNT];

extern const struct plan_machine plan_machines[];
extern const size_t plan_n_machines;
extern const struct plan_model plan_models[];
extern const size_t plan_n_models;

/* NULL: there is none of that name. */
const struct plan_machine *plan_machine_find(const char *name);
const struct plan_model *plan_model_find(const char *name);

/* Parameters of a whole model for sequences of that length. */
double plan_params(const struct plan_model *model, uint32_t length);

/* Tokens of a micro-batch that a device has. */
double plan_tokens(const struct plan_layout *layout);

/* Layers of the fullest stage. */
double plan_stage_layers(const struct plan_model *model,
                         const struct plan_layout *layout);

/* Bytes of activations that one layer keeps for a micro-batch. */
double plan_layer_activations(const struct plan_model *model,
                              const struct plan_layout *layout);

/* Fills in the memory of the fullest stage, and counts of parameters. */
void plan_memory(const struct plan_machine *machine,
                 const struct plan_model *model,
                 const struct plan_layout *layout, struct plan_prediction *out);

/* The time of a matrix product (m x k) (k x n). */
double plan_product_s(const struct plan_machine *machine, enum plan_dtype dtype,
                      double m, double n, double k);

/* An exchange between `n` ranks that lie `stride` apart: the time, and what
 * each sends within the box and between boxes. `n_bytes` is the size of all of
 * it: of the sum for all-reduce, of what is scattered or gathered else. */
struct plan_exchange {
    double s;
    double bytes[2];
};
BELL_MUST_CHECK bell_status plan_exchange(const struct plan_machine *machine,
                                          enum hcq_collective_kind kind,
                                          enum hcq_collective_algorithm by,
                                          uint32_t n, uint32_t stride,
                                          double n_bytes,
                                          struct plan_exchange *out);

/* BELL_E_INVALID with a sentence where the layout cannot be. Memory is not
 * looked at. */
BELL_MUST_CHECK bell_status plan_check(const struct plan_machine *machine,
                                       const struct plan_model *model,
                                       const struct plan_layout *layout);

/* Checks, then fills in everything. A layout that takes too much memory is
 * predicted, too: memory_bytes > capacity_bytes. */
BELL_MUST_CHECK bell_status plan_predict(const struct plan_machine *machine,
                                         const struct plan_model *model,
                                         const struct plan_layout *layout,
                                         struct plan_prediction *out);

/* A bound below the step's time, of a layout that passes plan_check: computing
 * alone, and stages that wait for it. */
double plan_least_s(const struct plan_machine *machine,
                    const struct plan_model *model,
                    const struct plan_layout *layout);

/* A layout and its prediction. */
struct plan_choice {
    struct plan_layout layout;
    struct plan_prediction prediction;
};
/* The fastest layouts of n_devices that fit, one of each grid, best first: over
 * divisors for tensor (within a box), context (to 4), pipeline and its parts
 * (to 8), ZeRO 0 to 3, three ways to checkpoint, and micro-batches of 1, 2 and
 * 4. `fixed` gives batch, length, dtype and the rest. *out_n, at most `most`,
 * says how many there are. */
BELL_MUST_CHECK bell_status plan_search(const struct plan_machine *machine,
                                        const struct plan_model *model,
                                        const struct plan_layout *fixed,
                                        uint32_t n_devices,
                                        struct plan_choice *choices,
                                        size_t most, size_t *out_n);

/* `doorbell bench --model`. */
int plan_verb(int argc, char **argv);

#endif
