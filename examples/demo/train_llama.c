/* `doorbell demo train-llama`: a language model from nothing, of bytes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"
#include "base/json.h"
#include "base/thread.h"
#include "doorbell/files.h"
#include "doorbell/jit.h"
#include "doorbell/mesh.h"
#include "doorbell/nn.h"
#include "doorbell/stats.h"
#include "examples/demo/demo.h"
#include "examples/demo/llama.h"
#include "tools/tools.h"

#define N_BYTES     256 /* tokens */
#define EVAL_PIECES 32  /* of the text that is held back, at most */
#define TELL_EVERY  100 /* steps */

struct train_options {
    const char *demo, *data, *save, *prompt, *device, *math;
    int64_t n_steps, batch, context, dim, n_layers, n_heads, n_sample, seed;
    struct demo_mesh mesh;
    double rate, temperature, top_p;
    bool json;
};

/* ---- the model; names are those of Hugging Face's files ---- */

struct attention {
    struct bell_nn_linear q_proj, k_proj, v_proj, o_proj;
};
static const struct bell_module_field attention_fields[] = {
    BELL_CHILD(struct attention, q_proj, &bell_nn_linear_type),
    BELL_CHILD(struct attention, k_proj, &bell_nn_linear_type),
    BELL_CHILD(struct attention, v_proj, &bell_nn_linear_type),
    BELL_CHILD(struct attention, o_proj, &bell_nn_linear_type),
};
static const struct bell_module_type attention_type =
    BELL_MODULE_TYPE(struct attention, attention_fields);

struct gated {
    struct bell_nn_linear gate_proj, up_proj, down_proj;
};
static const struct bell_module_field gated_fields[] = {
    BELL_CHILD(struct gated, gate_proj, &bell_nn_linear_type),
    BELL_CHILD(struct gated, up_proj, &bell_nn_linear_type),
    BELL_CHILD(struct gated, down_proj, &bell_nn_linear_type),
};
static const struct bell_module_type gated_type =
    BELL_MODULE_TYPE(struct gated, gated_fields);

struct block {
    struct bell_nn_rms_norm input_layernorm, post_attention_layernorm;
    struct attention self_attn;
    struct gated mlp;
};
static const struct bell_module_field block_fields[] = {
    BELL_CHILD(struct block, input_layernorm, &bell_nn_rms_norm_type),
    BELL_CHILD(struct block, self_attn, &attention_type),
    BELL_CHILD(struct block, post_attention_layernorm, &bell_nn_rms_norm_type),
    BELL_CHILD(struct block, mlp, &gated_type),
};
static const struct bell_module_type block_type =
    BELL_MODULE_TYPE(struct block, block_fields);

struct body {
    struct bell_nn_embedding embed_tokens; /* the classifier, too */
    struct block *layers;                  /* owned */
    uint32_t n_layers;
    struct bell_nn_rms_norm norm;
};
static const struct bell_module_field body_fields[] = {
    BELL_CHILD(struct body, embed_tokens, &bell_nn_embedding_type),
    BELL_CHILD_LIST(struct body, layers, n_layers, &block_type),
    BELL_CHILD(struct body, norm, &bell_nn_rms_norm_type),
};
static const struct bell_module_type body_type =
    BELL_MODULE_TYPE(struct body, body_fields);

/* A training under way. */
struct training {
    const struct train_options *options;
    struct bell_context *ctx;
    struct body model;
    struct bell_optimizer *opt;
    struct bell_tensor *cosines, *sines; /* (context, 1, head / 2) */
    struct bell_tensor *text;            /* that is learned: (bytes) */
    struct bell_jit *step, *next;
    int64_t n_parameters, n_train, n_held;
    double loss, held_loss, train_s, sample_s;
    char *sample; /* owned; n_sample bytes and a 0 */
};

static BELL_MUST_CHECK bell_status
init_block(struct bell_context *ctx, int64_t dim, int64_t hidden,
           struct block *b)
{
    struct attention *a = &b->self_attn;

    BELL_TRY(bell_nn_rms_norm_init(ctx, BELL_DIMS(dim), LLAMA_EPSILON,
                                   &b->input_layernorm));
    BELL_TRY(bell_nn_linear_init(ctx, dim, dim, false, &a->q_proj));
    BELL_TRY(bell_nn_linear_init(ctx, dim, dim, false, &a->k_proj));
    BELL_TRY(bell_nn_linear_init(ctx, dim, dim, false, &a->v_proj));
    BELL_TRY(bell_nn_linear_init(ctx, dim, dim, false, &a->o_proj));
    BELL_TRY(bell_nn_rms_norm_init(ctx, BELL_DIMS(dim), LLAMA_EPSILON,
                                   &b->post_attention_layernorm));
    BELL_TRY(bell_nn_linear_init(ctx, dim, hidden, false, &b->mlp.gate_proj));
    BELL_TRY(bell_nn_linear_init(ctx, dim, hidden, false, &b->mlp.up_proj));
    return bell_nn_linear_init(ctx, hidden, dim, false, &b->mlp.down_proj);
}

/* Angles of the pair j of a head at place i. */
static BELL_MUST_CHECK bell_status
init_angles(struct training *t)
{
    int64_t n = t->options->context;
    int64_t half = t->options->dim / t->options->n_heads / 2;
    struct bell_tensor *rates, *places, *angles;

    rates = bell_arange(t->ctx, 0, (double)half, 1, BELL_FLOAT32);
    rates =
        bell_exp(bell_mul_scalar(rates, -log(LLAMA_ROPE_BASE) / (double)half));
    places = bell_arange(t->ctx, 0, (double)n, 1, BELL_FLOAT32);
    angles = bell_mul(bell_reshape(places, BELL_DIMS(n, 1, 1)), rates);
    t->cosines = bell_keep_forever(bell_cos(angles));
    t->sines = bell_keep_forever(bell_sin(angles));
    BELL_TRY(bell_realize1(t->cosines));
    return bell_realize1(t->sines);
}

static BELL_MUST_CHECK bell_status
init_model(struct training *t)
{
    const struct train_options *o = t->options;
    int64_t hidden = (8 * o->dim / 3 + 31) / 32 * 32;
    struct body *m = &t->model;
    struct bell_tensor *rows;

    bell_manual_seed(t->ctx, (uint64_t)o->seed);
    BELL_TRY(bell_nn_embedding_init(t->ctx, N_BYTES, o->dim, &m->embed_tokens));
    rows = m->embed_tokens.weight; /* scores begin about even */
    bell_assign(rows, bell_mul_scalar(rows, 1 / sqrt((double)o->dim)));
    m->layers = host_calloc((size_t)o->n_layers, sizeof(*m->layers));
    if (!m->layers)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %lld layers",
                         (long long)o->n_layers);
    for (; m->n_layers < (uint32_t)o->n_layers; m->n_layers++)
        BELL_TRY(init_block(t->ctx, o->dim, hidden, &m->layers[m->n_layers]));
    BELL_TRY(bell_nn_rms_norm_init(t->ctx, BELL_DIMS(o->dim), LLAMA_EPSILON,
                                   &m->norm));
    return init_angles(t);
}

static BELL_MUST_CHECK bell_status
init_optimizer(struct training *t)
{
    const struct bell_adam_options adam = {.struct_size = sizeof(adam),
                                           .lr = t->options->rate,
                                           .beta2 = 0.98,
                                           .weight_decay = 0.01};
    static const struct bell_shard_rule rules[] = {
        {"layers.*.self_attn.o_proj.weight", "model", 1},
        {"layers.*.self_attn.*", "model", 0},
        {"layers.*.mlp.down_proj.weight", "model", 1},
        {"layers.*.mlp.*", "model", 0},
    };
    const struct bell_schedule cycle = {.struct_size = sizeof(cycle),
                                        .kind = BELL_SCHEDULE_ONE_CYCLE,
                                        .n_steps = t->options->n_steps,
                                        .up = 0.1};
    struct bell_params params = {0};
    struct bell_state state = {0};
    bell_status status = BELL_OK;
    uint32_t i;

    if (t->options->mesh.layers) {
        status = bell_module_state(&body_type, &t->model, NULL, &state);
        if (status == BELL_OK)
            status = bell_state_shard(&state, rules, ARRAY_LEN(rules));
        bell_state_fini(&state);
        BELL_TRY(status);
    }
    BELL_TRY(bell_params_add_module(&params, &body_type, &t->model));
    for (i = 0; i < params.n; i++)
        t->n_parameters += (int64_t)bell_numel(params.tensors[i]);
    status = bell_adamw_create(params.tensors, params.n, &adam, &t->opt);
    if (status == BELL_OK && t->options->mesh.zero)
        status = bell_optimizer_shard(
            t->opt, "data", (enum bell_shard_kind)t->options->mesh.zero);
    bell_params_fini(&params);
    BELL_TRY(status);
    BELL_TRY(bell_optimizer_set_schedule(t->opt, &cycle));
    return bell_optimizer_set_clip(t->opt, 1, 0);
}

/* ---- the forward pass ---- */

/* (n, places, dim) as (n, heads, places, head), turned by the places' angles
 * where `turns`: element j of a head with j + head / 2. */
static struct bell_tensor *
split_heads(const struct training *t, struct bell_tensor *x, bool turns)
{
    int64_t n = bell_size(x, 0), length = bell_size(x, 1);
    int64_t heads = t->options->n_heads, head = t->options->dim / heads;
    struct bell_tensor *a, *b, *parts[2];

    x = bell_reshape(x, BELL_DIMS(n, length, heads, head));
    if (turns) {
        a = bell_narrow(x, 3, 0, head / 2);
        b = bell_narrow(x, 3, head / 2, head / 2);
        parts[0] = bell_sub(bell_mul(a, t->cosines), bell_mul(b, t->sines));
        parts[1] = bell_add(bell_mul(a, t->sines), bell_mul(b, t->cosines));
        x = bell_cat(parts, 2, 3);
    }
    return bell_transpose(x, 1, 2);
}

static struct bell_tensor *
attend(const struct training *t, const struct attention *a,
       struct bell_tensor *x)
{
    struct bell_tensor *q = split_heads(t, bell_nn_linear(&a->q_proj, x), true);
    struct bell_tensor *k = split_heads(t, bell_nn_linear(&a->k_proj, x), true);
    struct bell_tensor *v =
        split_heads(t, bell_nn_linear(&a->v_proj, x), false);

    x = bell_scaled_dot_product_attention(q, k, v, NULL, 0, true, 0);
    return bell_nn_linear(&a->o_proj,
                          bell_flatten(bell_transpose(x, 1, 2), 2, 3));
}

static struct bell_tensor *
run_gated(const struct gated *g, struct bell_tensor *x)
{
    struct bell_tensor *gate = bell_silu(bell_nn_linear(&g->gate_proj, x));

    return bell_nn_linear(&g->down_proj,
                          bell_mul(gate, bell_nn_linear(&g->up_proj, x)));
}

/* Bytes (n, context) to what the classifier is given, (n, context, dim). */
static struct bell_tensor *
run_body(const struct training *t, struct bell_tensor *x)
{
    const struct body *m = &t->model;
    uint32_t i;

    x = bell_nn_embedding(&m->embed_tokens, x);
    for (i = 0; i < m->n_layers; i++) {
        const struct block *b = &m->layers[i];
        struct bell_tensor *h = bell_nn_rms_norm(&b->input_layernorm, x);

        x = bell_add(x, attend(t, &b->self_attn, h));
        h = bell_nn_rms_norm(&b->post_attention_layernorm, x);
        x = bell_add(x, run_gated(&b->mlp, h));
    }
    return bell_nn_rms_norm(&m->norm, x);
}

static struct bell_tensor *
classify(const struct training *t, struct bell_tensor *x)
{
    return bell_linear(x, t->model.embed_tokens.weight, NULL);
}

/* The mean of -log of what pieces (n, context + 1) are thought to go on
 * with. */
static struct bell_tensor *
find_loss(const struct training *t, struct bell_tensor *pieces)
{
    int64_t length = t->options->context;
    struct bell_tensor *x = bell_narrow(pieces, 1, 0, length);
    struct bell_tensor *y = bell_narrow(pieces, 1, 1, length);

    x = bell_flatten(classify(t, run_body(t, x)), 0, 1);
    return bell_cross_entropy(x, bell_flatten(y, 0, 1), 0, BELL_IGNORE_NONE,
                              BELL_MEAN);
}

/* A step with pieces of the text by chance. */
static bell_status
take_train_step(struct bell_context *ctx, void *user,
                struct bell_tensor *const *in, struct bell_tensor **out)
{
    struct training *t = user;
    int64_t length = t->options->context + 1, batch = t->options->batch;
    struct bell_tensor *at, *pieces;

    (void)in;
    at = bell_randint(ctx, 0, t->n_train - length + 1, BELL_DIMS(batch, 1),
                      BELL_INT64);
    at = bell_add(at, bell_arange(ctx, 0, (double)length, 1, BELL_INT64));
    pieces = bell_index_select(t->text, 0, bell_flatten(at, 0, 1));
    pieces = bell_reshape(pieces, BELL_DIMS(batch, length));
    out[0] = find_loss(t, bell_shard(pieces, "data", 0));
    bell_optimizer_zero_grad(t->opt);
    BELL_TRY(bell_backward(out[0]));
    return bell_optimizer_step(t->opt, out, 1);
}

/* Bytes (1, context), of which in[1] and those before count, to the scores of
 * what comes behind that place. */
static bell_status
score_next(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
           struct bell_tensor **out)
{
    const struct training *t = user;
    struct bell_tensor *x = bell_flatten(run_body(t, in[0]), 0, 1);

    (void)ctx;
    x = bell_index_select(x, 0, bell_reshape(in[1], BELL_DIMS(1)));
    out[0] = bell_reshape(classify(t, x), BELL_DIMS(N_BYTES));
    return BELL_OK;
}

/* ---- training ---- */

static BELL_MUST_CHECK bell_status
learn(struct training *t)
{
    const struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                       .name = "train-llama",
                                       .fn = take_train_step,
                                       .user = t,
                                       .n_out = 1};
    int64_t n = t->options->n_steps, i;
    uint64_t start = time_now_ns();
    struct bell_tensor *loss;

    BELL_TRY(bell_jit_create(t->ctx, &desc, &t->step));
    for (i = 1; i <= n; i++) {
        BELL_TRY(bell_jit_call(t->step, NULL, &loss));
        if (i % TELL_EVERY == 0 || i == n) {
            BELL_TRY(bell_item_f64(loss, &t->loss));
            t->train_s = (double)(time_now_ns() - start) / 1e9;
            tool_eprintf("step %" PRId64 ": %.3f nats a byte, %.1f ms\n", i,
                         t->loss, 1e3 * t->train_s / (double)i);
        }
        bell_tensor_release(loss);
    }
    return BELL_OK;
}

/* Measures the loss on the text that was held back, from its beginning. */
static BELL_MUST_CHECK bell_status
judge_training(struct training *t, const uint8_t *held)
{
    int64_t length = t->options->context + 1, n = t->n_held / length;
    struct bell_tensor *pieces;
    bell_status status;

    n = n < EVAL_PIECES ? n : EVAL_PIECES;
    BELL_TRY(bell_scope_begin(t->ctx));
    pieces = bell_from_data(t->ctx, BELL_DIMS(n, length), BELL_UINT8, held);
    status = bell_item_f64(find_loss(t, pieces), &t->held_loss);
    BELL_TRY(bell_scope_end(t->ctx));
    return status;
}

static BELL_MUST_CHECK bell_status
save(const struct training *t)
{
    struct bell_state state = {0};
    bell_status status;

    if (!t->options->save)
        return BELL_OK;
    status = bell_module_state(&body_type, &t->model, "model", &state);
    if (status == BELL_OK)
        status = bell_file_save(t->options->save, &state);
    bell_state_fini(&state);
    return status;
}

/* ---- writing on ---- */

/* One more byte behind window[0..n). */
static BELL_MUST_CHECK bell_status
choose_next(struct training *t, struct llama_chooser *chooser,
            const uint8_t *window, int64_t n, uint8_t *out_byte)
{
    struct bell_tensor *in[2], *logits;
    int32_t token = 0;
    bell_status status;

    BELL_TRY(bell_scope_begin(t->ctx));
    in[0] = bell_from_data(t->ctx, BELL_DIMS(1, t->options->context),
                           BELL_UINT8, window);
    in[1] = bell_scalar_int(t->ctx, n - 1);
    status = bell_jit_call(t->next, in, &logits);
    if (status == BELL_OK)
        status = llama_choose(chooser, logits, &token);
    BELL_TRY(bell_scope_end(t->ctx));
    *out_byte = (uint8_t)token;
    return status;
}

/* Bytes behind the prompt; the model sees the last `context` of them all. */
static BELL_MUST_CHECK bell_status
write_on(struct training *t, struct llama_chooser *chooser, uint8_t *window)
{
    const struct train_options *o = t->options;
    size_t context = (size_t)o->context, n = strlen(o->prompt), i;
    size_t from = n > context ? n - context : 0;

    n -= from;
    memcpy(window, o->prompt + from, n);
    if (n == 0)
        window[n++] = '\n';
    for (i = 0; i < (size_t)o->n_sample; i++) {
        uint8_t byte = 0;

        BELL_TRY(choose_next(t, chooser, window, (int64_t)n, &byte));
        t->sample[i] = (char)byte;
        if (!o->json && (putchar(byte) == EOF || fflush(stdout) != 0))
            return bell_fail(BELL_E_IO, "cannot write the text");
        if (n == context)
            memmove(window, window + 1, --n);
        window[n++] = byte;
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
sample(struct training *t)
{
    const struct train_options *o = t->options;
    const struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                       .name = "next byte",
                                       .fn = score_next,
                                       .user = t,
                                       .n_in = 2,
                                       .n_out = 1};
    uint8_t *window = host_calloc((size_t)o->context + 1, 1);
    struct llama_chooser chooser = {0};
    uint64_t start = time_now_ns();
    bell_status status;

    t->sample = host_calloc((size_t)o->n_sample + 1, 1);
    if (!window || !t->sample) {
        host_free(window);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for the text");
    }
    status = llama_chooser_init(N_BYTES, o->temperature, o->top_p,
                                (uint64_t)o->seed, &chooser);
    if (status == BELL_OK)
        status = bell_jit_create(t->ctx, &desc, &t->next);
    if (status == BELL_OK)
        status = write_on(t, &chooser, window);
    llama_chooser_fini(&chooser);
    host_free(window);
    t->sample_s = (double)(time_now_ns() - start) / 1e9;
    return status;
}

/* ---- all of it ---- */

/* A tenth of the text is held back. */
static BELL_MUST_CHECK bell_status
run_training(struct training *t, const struct file_bytes *file)
{
    int64_t length = t->options->context + 1;
    int64_t n = (int64_t)file->size_bytes;

    t->n_held = n / 10;
    t->n_train = n - t->n_held;
    if (t->n_held < length)
        return bell_fail(BELL_E_INVALID,
                         "%s: %lld bytes; pieces of %lld need %lld at least",
                         t->options->data, (long long)n, (long long)length,
                         (long long)length * 10);
    BELL_TRY(demo_set_mesh(t->ctx, &t->options->mesh));
    BELL_TRY(init_model(t));
    BELL_TRY(init_optimizer(t));
    t->text = bell_keep_forever(
        bell_from_data(t->ctx, BELL_DIMS(t->n_train), BELL_UINT8, file->data));
    BELL_TRY(bell_context_status(t->ctx));
    BELL_TRY(learn(t));
    BELL_TRY(judge_training(t, (const uint8_t *)file->data + t->n_train));
    BELL_TRY(save(t));
    return sample(t);
}

static void
end_training(struct training *t)
{
    bell_jit_destroy(t->step);
    bell_jit_destroy(t->next);
    bell_optimizer_destroy(t->opt);
    host_free(t->model.layers);
    host_free(t->sample);
}

static int
print_train_json(const struct training *t, const char *device,
                 const struct bell_stats *stats)
{
    struct json json;

    json_init(&json);
    json_str(&json, "device", device);
    json_int(&json, "n_parameters", t->n_parameters);
    json_int(&json, "n_steps", t->options->n_steps);
    json_num(&json, "loss", t->loss);
    json_num(&json, "held_loss", t->held_loss);
    json_num(&json, "train_s", t->train_s);
    json_num(&json, "sample_s", t->sample_s);
    json_str(&json, "text", t->sample);
    json_uint(&json, "n_kernels_compiled", stats->n_kernels_compiled);
    json_uint(&json, "n_launches", stats->n_launches);
    return tool_print_json(&json);
}

static int
run_train(const struct train_options *options)
{
    struct training t = {.options = options};
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    struct file_bytes file;
    char device[64];
    bell_status status;
    int code = TOOL_OK;

    status = file_read(options->data, &file);
    if (status != BELL_OK)
        return tool_fail(options->json, status);
    status = tool_open_context(options->device, options->math, &t.ctx);
    if (status != BELL_OK) {
        file_bytes_fini(&file);
        return tool_fail(options->json, status);
    }
    snprintf(device, sizeof(device), "%s", bell_context_device(t.ctx));
    status = run_training(&t, &file);
    bell_context_stats(t.ctx, &stats);
    if (status != BELL_OK) {
        code = tool_fail(options->json, status);
    } else if (options->json) {
        code = print_train_json(&t, device, &stats);
    } else {
        putchar('\n');
        fflush(stdout);
        tool_eprintf("%s: %" PRId64 " parameters, %" PRId64
                     " steps in %.1f s; %.3f nats a byte on text that was held "
                     "back; %" PRId64 " bytes in %.1f s\n",
                     device, t.n_parameters, options->n_steps, t.train_s,
                     t.held_loss, options->n_sample, t.sample_s);
    }
    end_training(&t);
    file_bytes_fini(&file);
    bell_context_destroy(t.ctx);
    return code;
}

/* What the options make impossible; NULL: nothing. */
static const char *
find_mistake(const struct train_options *o)
{
    const char *dot = o->save ? strrchr(o->save, '.') : NULL;

    if (!o->data)
        return "train-llama needs --data FILE, a text";
    if (o->dim % o->n_heads || o->dim / o->n_heads % 2)
        return "--dim is not an even multiple of --heads";
    if (o->save && (!dot || strcmp(dot, ".safetensors") != 0))
        return "--save is not a name that ends in .safetensors";
    if (o->temperature < 0)
        return "--temperature is below 0";
    return NULL;
}

int
train_llama_demo(int argc, char **argv)
{
    struct train_options options = {.prompt = "",
                                    .n_steps = 1000,
                                    .batch = 16,
                                    .context = 64,
                                    .dim = 128,
                                    .n_layers = 2,
                                    .n_heads = 4,
                                    .n_sample = 300,
                                    .seed = 1,
                                    .rate = 0.004,
                                    .temperature = 0.8,
                                    .top_p = 0.95};
    const struct tool_opt opts[] = {
        {"DEMO", NULL, TOOL_OPT_STRING, &options.demo, 0, 0, "train-llama"},
        {"--data", "FILE", TOOL_OPT_STRING, &options.data, 0, 0,
         "the text to learn; its last tenth is held back"},
        {"--save", "FILE", TOOL_OPT_STRING, &options.save, 0, 0,
         "where the weights go, by Hugging Face's names: a .safetensors"},
        {"--steps", "N", TOOL_OPT_INT, &options.n_steps, 1, 100000000,
         "steps (default: 1000)"},
        {"--batch", "N", TOOL_OPT_INT, &options.batch, 1, 1 << 16,
         "pieces of the text in a step (default: 16)"},
        {"--context", "N", TOOL_OPT_INT, &options.context, 1, 1 << 16,
         "bytes of a piece, which is what the model sees (default: 64)"},
        {"--dim", "N", TOOL_OPT_INT, &options.dim, 2, 1 << 14,
         "width (default: 128)"},
        {"--layers", "N", TOOL_OPT_INT, &options.n_layers, 1, 256,
         "layers (default: 2)"},
        {"--heads", "N", TOOL_OPT_INT, &options.n_heads, 1, 1 << 13,
         "heads of each (default: 4)"},
        TOOL_NUMBER_OPT("--rate", "R", &options.rate, 0, 1,
                        "greatest learning rate, after a tenth of the steps "
                        "(default: 0.004)"),
        {"--prompt", "TEXT", TOOL_OPT_STRING, &options.prompt, 0, 0,
         "what it goes on with in the end (default: a new line)"},
        {"--sample", "N", TOOL_OPT_INT, &options.n_sample, 0, 1 << 20,
         "bytes that it writes (default: 300)"},
        TOOL_NUMBER_OPT("--temperature", "T", &options.temperature, -1, 100,
                        "0: always the likeliest byte (default: 0.8)"),
        TOOL_NUMBER_OPT(
            "--top-p", "P", &options.top_p, 0, 1,
            "choose among the likeliest whose sum is P (default: 0.95)"),
        {"--seed", "S", TOOL_OPT_INT, &options.seed, 0, INT64_MAX,
         "of all random numbers (default: 1)"},
        {"--device", "DEVICE", TOOL_OPT_STRING, &options.device, 0, 0,
         "where to train (default: $BELL_DEVICE, or the first that works); "
         "--devices A,B: each with a part of every batch"},
        DEMO_MESH_OPTS(&options.mesh),
        TOOL_MATH_OPT(&options.math),
        TOOL_JSON_OPT(&options.json),
    };
    int code = tool_parse("demo train-llama --data FILE [options]\n\n"
                          "Trains a language model of bytes from nothing, "
                          "saves it, and has it go on with a text.\nThat text "
                          "alone goes to stdout; how the training goes to "
                          "stderr.",
                          opts, ARRAY_LEN(opts), argc, argv);

    if (code != TOOL_GO_ON)
        return code;
    if (find_mistake(&options))
        return tool_usage(options.json, "demo: %s", find_mistake(&options));
    code = tool_check_math(options.json, "demo", options.math);
    return code == TOOL_GO_ON ? run_train(&options) : code;
}
