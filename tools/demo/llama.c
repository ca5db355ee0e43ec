/* `doorbell demo llama`: goes on with a text. */
#include "tools/demo/llama.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/files.h"
#include "doorbell/stats.h"
#include "tools/json.h"
#include "tools/tools.h"

/* Tokens after which nothing new should be compiled. */
#define N_WARM 3

struct llama_options {
    const char *demo, *model, *tokenizer, *prompt, *device, *math, *bundle;
    struct tool_list targets; /* of the bundle */
    int64_t n_steps, seed;
    double temperature, top_p;
    bool json, chats;
};

/* One text under way. */
struct talk {
    const struct llama_options *options;
    struct llama model;
    struct llama_vocab vocab;
    struct llama_chooser chooser;
    int32_t *tokens; /* owned; of the prompt, then what follows */
    size_t n_tokens, n_prompt, n_max;
    char *text; /* owned; of all, for --json */
    size_t n_text, cap_text;
    uint64_t prompt_ns, decode_ns; /* to the first token; for the others */
    uint64_t n_late;               /* kernels compiled after N_WARM tokens */
};

/* ---- the text as it comes ---- */

static BELL_MUST_CHECK bell_status
print_piece(struct talk *talk, struct llama_piece piece)
{
    if (talk->options->json) {
        if (host_grow((void **)&talk->text, &talk->cap_text,
                      talk->n_text + piece.n_bytes + 1, 1) != 0)
            return bell_fail(BELL_E_NO_MEMORY, "no memory for the text");
        memcpy(talk->text + talk->n_text, piece.text, piece.n_bytes);
        talk->n_text += piece.n_bytes;
        talk->text[talk->n_text] = '\0';
        return BELL_OK;
    }
    if (fwrite(piece.text, 1, piece.n_bytes, stdout) != piece.n_bytes ||
        fflush(stdout) != 0)
        return bell_fail(BELL_E_IO, "cannot write the text");
    return BELL_OK;
}

/* Prints token i of the text. */
static BELL_MUST_CHECK bell_status
print_token(struct talk *talk, size_t i)
{
    int32_t previous = i ? talk->tokens[i - 1] : talk->vocab.begin;

    return print_piece(talk,
                       llama_decode(&talk->vocab, previous, talk->tokens[i]));
}

/* ---- steps ---- */

/* Runs tokens[first..n_tokens) and appends the one that follows. */
static BELL_MUST_CHECK bell_status
take_step(struct talk *talk, size_t first)
{
    struct bell_context *ctx = talk->model.ctx;
    struct bell_tensor *logits;
    bell_status status, ended;
    int32_t token = 0;

    BELL_TRY(bell_scope_begin(ctx));
    status = llama_forward(&talk->model, talk->tokens + first,
                           (int64_t)(talk->n_tokens - first), (int64_t)first,
                           &logits);
    if (status == BELL_OK)
        status = llama_choose(&talk->chooser, logits, &token);
    ended = bell_scope_end(ctx);
    BELL_TRY(status);
    BELL_TRY(ended);
    talk->tokens[talk->n_tokens++] = token;
    return BELL_OK;
}

/* The prompt at once, then token by token, until the text begins anew. */
static BELL_MUST_CHECK bell_status
run_steps(struct talk *talk)
{
    size_t n_new = 0, first = 0, i;
    uint64_t start = time_now_ns(), now;
    struct bell_stats stats;
    uint64_t n_kernels = 0;
    int32_t last;

    for (i = 0; i < talk->n_tokens && !talk->options->chats; i++)
        BELL_TRY(print_token(talk, i));
    while (talk->n_tokens < talk->n_max) {
        BELL_TRY(take_step(talk, first));
        now = time_now_ns();
        if (n_new++ == 0)
            talk->prompt_ns = now - start;
        else
            talk->decode_ns += now - start;
        start = now;
        bell_context_stats(talk->model.ctx, &stats);
        if (n_new <= N_WARM)
            n_kernels = stats.n_kernels_compiled;
        talk->n_late = stats.n_kernels_compiled - n_kernels;
        last = talk->tokens[talk->n_tokens - 1];
        if (last == talk->vocab.begin || last == talk->vocab.end ||
            last == talk->vocab.end_turn)
            return BELL_OK;
        BELL_TRY(print_token(talk, talk->n_tokens - 1));
        first = talk->n_tokens - 1;
    }
    return BELL_OK;
}

/* The prompt's tokens, and room for what follows. --steps counts what is
 * behind the beginning, the prompt included. */
static BELL_MUST_CHECK bell_status
begin_text(struct talk *talk)
{
    const struct llama_options *options = talk->options;
    size_t context = (size_t)talk->model.shape.context;
    size_t n_steps = options->n_steps ? (size_t)options->n_steps : context;
    int32_t *tokens;

    BELL_TRY(llama_encode(&talk->vocab, options->prompt, options->chats,
                          &talk->tokens, &talk->n_tokens));
    talk->n_prompt = talk->n_tokens;
    if (talk->n_tokens > context)
        return bell_fail(BELL_E_INVALID,
                         "the prompt has %zu tokens, the model's context %zu",
                         talk->n_tokens, context);
    talk->n_max = (n_steps < context ? n_steps : context) + 1;
    tokens = host_realloc(
        talk->tokens,
        (talk->n_max > talk->n_tokens ? talk->n_max : talk->n_tokens) *
            sizeof(*tokens));
    if (!tokens)
        return bell_fail(BELL_E_NO_MEMORY, "no memory for %zu tokens",
                         talk->n_max);
    talk->tokens = tokens;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
load_gguf(struct bell_context *ctx, struct talk *talk,
          const struct bell_file *file)
{
    const char *path = talk->options->model;

    BELL_TRY(llama_load(ctx, path, file, &talk->model));
    if (talk->options->tokenizer)
        return llama_vocab_load(talk->options->tokenizer,
                                talk->model.shape.n_tokens, &talk->vocab);
    return llama_vocab_from_gguf(file, path, talk->model.shape.n_tokens,
                                 &talk->vocab);
}

static BELL_MUST_CHECK bell_status
load_model(struct bell_context *ctx, struct talk *talk)
{
    const char *path = talk->options->model;
    struct bell_file *file;
    bell_status status;

    if (llama_is_gguf(path)) {
        BELL_TRY(bell_file_open(path, &file));
        status = load_gguf(ctx, talk, file);
        bell_file_close(file);
        return status;
    }
    if (!talk->options->tokenizer)
        return bell_fail(BELL_E_INVALID, "a checkpoint of llama2.c needs "
                                         "--tokenizer FILE");
    BELL_TRY(llama_load(ctx, path, NULL, &talk->model));
    return llama_vocab_load(talk->options->tokenizer,
                            talk->model.shape.n_tokens, &talk->vocab);
}

/* For the context's device, if for no other. */
static BELL_MUST_CHECK bell_status
save_bundle(struct bell_context *ctx, struct talk *talk)
{
    const struct tool_list *targets = &talk->options->targets;
    const char *own = bell_context_device(ctx);

    return llama_save(&talk->model, targets->n_items ? targets->items : &own,
                      targets->n_items ? (uint32_t)targets->n_items : 1,
                      talk->options->bundle);
}

static BELL_MUST_CHECK bell_status
run_talk(struct bell_context *ctx, struct talk *talk)
{
    const struct llama_options *options = talk->options;

    BELL_TRY(load_model(ctx, talk));
    if (options->bundle)
        return save_bundle(ctx, talk);
    BELL_TRY(llama_chooser_init((size_t)talk->model.shape.n_tokens,
                                options->temperature, options->top_p,
                                (uint64_t)options->seed, &talk->chooser));
    BELL_TRY(begin_text(talk));
    return run_steps(talk);
}

/* ---- results ---- */

static double
tokens_per_second(const struct talk *talk)
{
    size_t n_new = talk->n_tokens - talk->n_prompt;

    if (n_new < 2 || talk->decode_ns == 0)
        return 0;
    return (double)(n_new - 1) * 1e9 / (double)talk->decode_ns;
}

static void
print_summary(const struct talk *talk, const char *device)
{
    size_t n_new = talk->n_tokens - talk->n_prompt;

    fprintf(
        stderr,
        "%s: %zu tokens behind %zu of the prompt, %.1f tokens/s after the "
        "first (%.1f ms), %.0f bytes of the file's weights a token; %" PRIu64
        " kernels compiled after token %d\n",
        device, n_new, talk->n_prompt, tokens_per_second(talk),
        (double)talk->prompt_ns / 1e6, talk->model.n_weight_bytes, talk->n_late,
        N_WARM);
}

static int
print_json(const struct talk *talk, const char *device,
           const struct bell_stats *stats)
{
    struct json json;
    size_t i;

    json_init(&json);
    json_str(&json, "device", device);
    json_str(&json, "text", talk->text ? talk->text : "");
    json_uint(&json, "n_prompt_tokens", talk->n_prompt);
    json_array(&json, "prompt_tokens");
    for (i = 0; i < talk->n_prompt; i++)
        json_int(&json, NULL, talk->tokens[i]);
    json_end(&json);
    json_uint(&json, "n_new_tokens", talk->n_tokens - talk->n_prompt);
    json_num(&json, "first_token_ms", (double)talk->prompt_ns / 1e6);
    if (tokens_per_second(talk) > 0)
        json_num(&json, "tokens_per_s", tokens_per_second(talk));
    else
        json_null(&json, "tokens_per_s");
    json_num(&json, "weight_bytes_per_token", talk->model.n_weight_bytes);
    json_uint(&json, "n_kernels_compiled", stats->n_kernels_compiled);
    json_uint(&json, "n_kernels_found", stats->n_kernels_found);
    json_uint(&json, "n_kernels_compiled_late", talk->n_late);
    json_uint(&json, "n_plans", stats->n_plans);
    json_uint(&json, "n_launches", stats->n_launches);
    return tool_print_json(&json);
}

static int
run(const struct llama_options *options)
{
    struct talk talk = {.options = options};
    struct bell_context *ctx;
    struct bell_stats stats;
    char device[64];
    bell_status status =
        tool_open_context(options->device, options->math, &ctx);
    int code = TOOL_OK;

    if (status != BELL_OK)
        return tool_fail(options->json, status);
    snprintf(device, sizeof(device), "%s", bell_context_device(ctx));
    status = run_talk(ctx, &talk);
    bell_context_stats(ctx, &stats);
    if (status != BELL_OK) {
        code = tool_fail(options->json, status);
    } else if (options->bundle) {
        fprintf(stderr, "%s: saved\n", options->bundle);
    } else if (options->json) {
        code = print_json(&talk, device, &stats);
    } else {
        putchar('\n');
        fflush(stdout);
        print_summary(&talk, device);
    }
    llama_chooser_fini(&talk.chooser);
    llama_vocab_fini(&talk.vocab);
    llama_fini(&talk.model);
    host_free(talk.tokens);
    host_free(talk.text);
    bell_context_destroy(ctx);
    return code;
}

int
llama_demo(int argc, char **argv)
{
    struct llama_options options = {
        .prompt = "", .temperature = 1, .top_p = 0.9, .seed = 1};
    const struct tool_opt opts[] = {
        {"DEMO", NULL, TOOL_OPT_STRING, &options.demo, 0, 0, "llama"},
        {"--model", "FILE", TOOL_OPT_STRING, &options.model, 0, 0,
         "a checkpoint of llama2.c, or GGUF"},
        {"--tokenizer", "FILE", TOOL_OPT_STRING, &options.tokenizer, 0, 0,
         "its tokenizer (GGUF has one)"},
        {"--prompt", "TEXT", TOOL_OPT_STRING, &options.prompt, 0, 0,
         "what the text begins with (default: nothing)"},
        {"--chat", NULL, TOOL_OPT_FLAG, &options.chats, 0, 0,
         "the prompt is a message, which is answered: in the form of the "
         "file's template (llama2, llama3 or chatml)"},
        {"--steps", "N", TOOL_OPT_INT, &options.n_steps, 1, 1 << 22,
         "tokens in all (default, and at most: the model's context)"},
        {"--temperature", "T", TOOL_OPT_NUMBER, &options.temperature, -1, 100,
         "0: always the likeliest token (default: 1)"},
        {"--top-p", "P", TOOL_OPT_NUMBER, &options.top_p, 0, 1,
         "choose among the likeliest whose sum is P (default: 0.9)"},
        {"--seed", "S", TOOL_OPT_INT, &options.seed, 0, INT64_MAX,
         "of the choices (default: 1)"},
        {"--device", "DEVICE", TOOL_OPT_STRING, &options.device, 0, 0,
         "where to run (default: $BELL_DEVICE, or the first that works)"},
        {"--bundle", "FILE", TOOL_OPT_STRING, &options.bundle, 0, 0,
         "save the model as a bundle, which steps from token to token, and "
         "write no text"},
        {"--target", "DEVICE", TOOL_OPT_LIST, &options.targets, 0, 0,
         "that the bundle is for; may be given again (default: --device)"},
        TOOL_MATH_OPT(&options.math),
        TOOL_JSON_OPT(&options.json),
    };
    int code = tool_parse("demo llama --model FILE [--tokenizer FILE] "
                          "[options]\n\n"
                          "Goes on with a text by a language model. The text "
                          "alone goes to stdout, as it comes;\nhow fast it "
                          "came to stderr.",
                          opts, ARRAY_LEN(opts), argc, argv);

    if (code != TOOL_GO_ON)
        return code;
    if (!options.model)
        return tool_usage(options.json, "demo: llama needs --model FILE");
    if (options.targets.n_items && !options.bundle)
        return tool_usage(options.json, "demo: --target is of --bundle FILE");
    if (options.temperature < 0)
        return tool_usage(options.json, "demo: --temperature %g is below 0",
                          options.temperature);
    code = tool_check_math(options.json, "demo", options.math);
    return code == TOOL_GO_ON ? run(&options) : code;
}
