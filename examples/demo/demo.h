/* The parts of `doorbell demo mnist`: images, models, training. */
#ifndef BELL_EXAMPLES_DEMO_DEMO_H
#define BELL_EXAMPLES_DEMO_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doorbell/nn.h"
#include "examples/demo/digits.h"

/* Grey images of DIGITS_SIDE squared bytes and their labels (0..9): n_train for
 * training, n_test for testing. Owned: demo_data_fini. */
struct demo_data {
    uint8_t *images, *labels;
    uint8_t *test_images, *test_labels;
    size_t n_train, n_test;
};

/* Reads the original files t10k-images-idx3-ubyte.gz and
 * t10k-labels-idx1-ubyte.gz from a directory; the last 1000 images are for
 * testing. BELL_E_IO: absent, truncated, not such files. */
BELL_MUST_CHECK bell_status demo_data_load(const char *dir,
                                           struct demo_data *out_data);
/* Draws 9000 and 1000 digits, from different random streams. */
BELL_MUST_CHECK bell_status demo_data_draw(uint64_t seed,
                                           struct demo_data *out_data);
void demo_data_fini(struct demo_data *data);
/* Gives up what is for training: most of the memory. */
void demo_data_end_training(struct demo_data *data);

/* Copies images order[0..n) with their labels, each moved by up to max_shift
 * pixels in both directions. */
void demo_data_batch(const struct demo_data *data, const uint32_t *order,
                     size_t n, int max_shift, struct rng *rng, uint8_t *images,
                     int32_t *labels);

struct net;

/* A network and how it is best trained on 9000 images. */
struct demo_model {
    const char *name, *shape; /* "mlp", "784-256-128-10" */
    /* Makes the layers and lists their parameters. */
    bell_status (*init)(struct bell_context *ctx, struct net *net);
    struct bell_tensor *(*forward)(const struct net *net,
                                   struct bell_tensor *x);
    int64_t epochs, batch;
    double learning_rate;
    int max_shift;
};

/* The model of that name, or NULL. */
const struct demo_model *demo_model_find(const char *name);

/* How devices share a training. */
struct demo_mesh {
    int64_t zero;   /* an enum bell_shard_kind, or 0 */
    int64_t layers; /* devices that share each layer; 0: none do */
    int64_t blocks; /* of sums (bell_mesh_set_blocks), or 0 */
};

/* The options of it, behind "--device". */
#define DEMO_MESH_OPTS(mesh)                                                   \
    {"--zero",                                                                 \
     "STAGE",                                                                  \
     TOOL_OPT_INT,                                                             \
     &(mesh)->zero,                                                            \
     1,                                                                        \
     3,                                                                        \
     "what devices share out: 1 the optimiser's states, 2 gradients too, 3 "   \
     "parameters too"},                                                        \
        {"--layers-on",                                                        \
         "N",                                                                  \
         TOOL_OPT_INT,                                                         \
         &(mesh)->layers,                                                      \
         1,                                                                    \
         64,                                                                   \
         "devices that share each layer; the others share the batch"},         \
    {                                                                          \
        "--blocks", "N", TOOL_OPT_INT, &(mesh)->blocks, 1, 64,                 \
            "add up what devices share out in N blocks: the same result on "   \
            "any "                                                             \
            "number of devices that divides N, also on one"                    \
    }

/* Gives the context its mesh: "data", and "model" for layers. Before any
 * tensor is split. */
BELL_MUST_CHECK bell_status demo_set_mesh(struct bell_context *ctx,
                                          const struct demo_mesh *mesh);

/* What to train, and what came of it. */
struct demo_run {
    /* set by the caller */
    const struct demo_model *model;
    struct demo_data *data; /* when testing begins, without the training's */
    int64_t epochs, batch;
    int64_t n_steps; /* in all, instead of epochs; 0: epochs decide */
    uint64_t seed;
    struct demo_mesh mesh;
    /* set by demo_train */
    int64_t n_steps_done, n_parameters;
    double first_step_ms; /* compiles */
    double step_ms;       /* mean of the others */
    double train_s;       /* all steps */
    double test_s;
    double loss;          /* of the last step */
    double test_accuracy; /* 0..1 */
};

/* Trains and tests on the context's device. */
BELL_MUST_CHECK bell_status demo_train(struct bell_context *ctx,
                                       struct demo_run *run);

#endif
