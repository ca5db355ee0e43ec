/* `doorbell demo llama`: goes on with a text, or with a conversation. */
#include "examples/demo/llama.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/files.h"
#include "doorbell/stats.h"
#include "base/json.h"
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

/* One text, or conversation, under way. */
struct talk {
    const struct llama_options *options;
    struct llama model;
    struct llama_vocab vocab;
    struct llama_chooser chooser;
    int32_t *tokens; /* owned; of the prompt, then what follows, and so on */
    size_t n_tokens, cap_tokens;
    size_t n_run;   /* of these, that the model has seen */
    int32_t *asked; /* owned; those that came of prompts, for --json */
    size_t n_asked, cap_asked, n_new;
    char held[3]; /* the beginning of a character, whose rest is to come */
    size_t n_held;
    char *text; /* owned; of all, for --json */
    size_t n_text, cap_text;
    size_t n_firsts; /* tokens that followed a prompt, not a token */
    uint64_t prompt_ns, decode_ns; /* to these; for the others */
    uint64_t n_kernels;            /* compiled when N_WARM tokens had come */
    uint64_t n_late;               /* after them */
};

/* ---- the text as it comes ---- */

static BELL_MUST_CHECK bell_status
write_llama_text(struct talk *talk, const char *text, size_t n)
{
    if (talk->options->json) {
        if (host_grow((void **)&talk->text, &talk->cap_text,
                      talk->n_text + n + 1, 1) != 0)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory for the text");
        memcpy(talk->text + talk->n_text, text, n);
        talk->n_text += n;
        talk->text[talk->n_text] = '\0';
        return BELL_OK;
    }
    if (fwrite(text, 1, n, stdout) != n || fflush(stdout) != 0)
        return bell_fail(BELL_E_IO, "cannot write the text");
    return BELL_OK;
}

/* What was held back, though its rest has not come. */
static BELL_MUST_CHECK bell_status
write_held(struct talk *talk)
{
    size_t n = talk->n_held;

    talk->n_held = 0;
    return write_llama_text(talk, talk->held, n);
}

/* Writes a token's text. The last character of it, where the next token may go
 * on with it, waits for that: who reads along sees whole characters. */
static BELL_MUST_CHECK bell_status
print_piece(struct talk *talk, struct llama_piece piece)
{
    char text[sizeof(talk->held) + LLAMA_PIECE_MAX_BYTES];
    size_t n = talk->n_held, n_begun;

    memcpy(text, talk->held, n);
    memcpy(text + n, piece.text, piece.n_bytes);
    n += piece.n_bytes;
    n_begun = llama_begun_bytes(text, n);
    memcpy(talk->held, text + n - n_begun, n_begun);
    talk->n_held = n_begun;
    return write_llama_text(talk, text, n - n_begun);
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

/* Runs the next n tokens, and chooses what follows them if it is asked for. */
static BELL_MUST_CHECK bell_status
run_tokens(struct talk *talk, size_t n, int32_t *out_token)
{
    struct bell_context *ctx = talk->model.ctx;
    struct bell_tensor *logits;
    bell_status status, ended;

    BELL_TRY(bell_scope_begin(ctx));
    status = llama_forward(&talk->model, talk->tokens + talk->n_run, (int64_t)n,
                           (int64_t)talk->n_run, &logits);
    if (status == BELL_OK && out_token)
        status = llama_choose(&talk->chooser, logits, out_token);
    ended = bell_scope_end(ctx);
    BELL_TRY(status);
    talk->n_run += n;
    return ended;
}

/* Runs what the model has not seen, and finds the token that follows: all at
 * once where a text begins, else token by token. */
static BELL_MUST_CHECK bell_status
take_llama_step(struct talk *talk, int32_t *out_token)
{
    bool is_first = talk->n_run == 0 || talk->n_tokens - talk->n_run > 1;
    uint64_t start = time_now_ns(), now;
    struct bell_stats stats = {.struct_size = sizeof(stats)};

    while (talk->n_run && talk->n_run + 1 < talk->n_tokens)
        BELL_TRY(run_tokens(talk, 1, NULL));
    BELL_TRY(run_tokens(talk, talk->n_tokens - talk->n_run, out_token));
    now = time_now_ns();
    *(is_first ? &talk->prompt_ns : &talk->decode_ns) += now - start;
    talk->n_firsts += is_first;
    bell_context_stats(talk->model.ctx, &stats);
    if (++talk->n_new <= N_WARM)
        talk->n_kernels = stats.n_kernels_compiled;
    talk->n_late = stats.n_kernels_compiled - talk->n_kernels;
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
add_tokens(struct talk *talk, const int32_t *tokens, size_t n)
{
    if (host_grow((void **)&talk->tokens, &talk->cap_tokens, talk->n_tokens + n,
                  sizeof(*tokens)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu tokens",
                         talk->n_tokens + n);
    memcpy(talk->tokens + talk->n_tokens, tokens, n * sizeof(*tokens));
    talk->n_tokens += n;
    return BELL_OK;
}

/* Token by token, until there are n_max, or the token of the end comes, which
 * is not a part of the text. */
static BELL_MUST_CHECK bell_status
run_llama_steps(struct talk *talk, size_t n_max)
{
    const struct llama_vocab *vocab = &talk->vocab;
    int32_t token = 0;

    while (talk->n_tokens < n_max) {
        BELL_TRY(take_llama_step(talk, &token));
        if (token == vocab->begin || token == vocab->end ||
            token == vocab->end_turn)
            break;
        BELL_TRY(add_tokens(talk, &token, 1));
        BELL_TRY(print_token(talk, talk->n_tokens - 1));
    }
    return write_held(talk);
}

/* Adds what the text makes as a part of the conversation. */
static BELL_MUST_CHECK bell_status
add_prompt(struct talk *talk, const char *text, enum llama_turn turn)
{
    size_t context = (size_t)talk->model.shape.context, n;
    bell_status status;
    int32_t *tokens;

    BELL_TRY(llama_encode(&talk->vocab, text, turn, &tokens, &n));
    status = BELL_OK;
    if (n > context - talk->n_tokens)
        status = bell_fail(BELL_E_INVALID,
                           "the prompt has %zu tokens, %zu come before it, the "
                           "model's context has %zu",
                           n, talk->n_tokens, context);
    else if (host_grow((void **)&talk->asked, &talk->cap_asked,
                       talk->n_asked + n, sizeof(*tokens)) != 0)
        status = bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu tokens", n);
    if (status == BELL_OK) {
        memcpy(talk->asked + talk->n_asked, tokens, n * sizeof(*tokens));
        talk->n_asked += n;
        status = add_tokens(talk, tokens, n);
    }
    host_free(tokens);
    return status;
}

/* Goes on with the prompt. --steps counts what is behind the beginning, the
 * prompt included. */
static BELL_MUST_CHECK bell_status
write_on(struct talk *talk)
{
    size_t context = (size_t)talk->model.shape.context, i;
    size_t n_steps = (size_t)talk->options->n_steps;
    const char *prompt = talk->options->prompt;

    BELL_TRY(add_prompt(talk, prompt ? prompt : "", LLAMA_TURN_NONE));
    for (i = 0; i < talk->n_tokens; i++)
        BELL_TRY(print_token(talk, i));
    return run_llama_steps(
        talk, (n_steps && n_steps < context ? n_steps : context) + 1);
}

/* ---- conversations ---- */

/* Answers a message with up to --steps tokens. */
static BELL_MUST_CHECK bell_status
answer(struct talk *talk, const char *message)
{
    size_t context = (size_t)talk->model.shape.context;
    size_t n_steps = (size_t)talk->options->n_steps;

    BELL_TRY(add_prompt(talk, message,
                        talk->n_tokens ? LLAMA_TURN_NEXT : LLAMA_TURN_FIRST));
    return run_llama_steps(talk,
                           n_steps && n_steps < context + 1 - talk->n_tokens
                               ? talk->n_tokens + n_steps
                               : context + 1);
}

/* Answers the lines of stdin, each with a line. */
static BELL_MUST_CHECK bell_status
converse(struct talk *talk)
{
    bool is_asking = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    bell_status status = BELL_OK;
    size_t size_bytes = 0;
    char *line = NULL;
    ssize_t n;

    while (status == BELL_OK) {
        if (is_asking)
            fputs("> ", stderr);
        n = getline(&line, &size_bytes, stdin);
        if (n < 0)
            break;
        if (n > 0 && line[n - 1] == '\n')
            line[--n] = '\0';
        if (n == 0)
            continue;
        status = strlen(line) == (size_t)n
                     ? answer(talk, line)
                     : bell_fail(BELL_E_INVALID, "a message with a zero byte");
        if (status == BELL_OK)
            status = write_llama_text(talk, "\n", 1);
    }
    if (status == BELL_OK && !feof(stdin))
        status = bell_fail(BELL_E_IO, "cannot read messages from stdin");
    free(line);
    return status;
}

/* ---- the model ---- */

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
    if (!options->chats)
        return write_on(talk);
    if (talk->vocab.form == LLAMA_FORM_NONE)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "--chat: the file's tokenizer.chat_template is not "
                         "one of llama2's, llama3's and chatml's");
    return options->prompt ? answer(talk, options->prompt) : converse(talk);
}

/* ---- results ---- */

static double
tokens_per_second(const struct talk *talk)
{
    if (talk->n_new == talk->n_firsts || talk->decode_ns == 0)
        return 0;
    return (double)(talk->n_new - talk->n_firsts) * 1e9 /
           (double)talk->decode_ns;
}

static void
print_llama_summary(const struct talk *talk, const char *device)
{
    fprintf(
        stderr,
        "%s: %zu tokens behind %zu of the prompt, %.1f tokens/s after the "
        "first (%.1f ms), %.0f bytes of the file's weights a token; %" PRIu64
        " kernels compiled after token %d\n",
        device, talk->n_new, talk->n_asked, tokens_per_second(talk),
        (double)talk->prompt_ns / 1e6, talk->model.n_weight_bytes, talk->n_late,
        N_WARM);
}

static int
print_llama_json(const struct talk *talk, const char *device,
                 const struct bell_stats *stats)
{
    struct json json;
    size_t i;

    json_init(&json);
    json_str(&json, "device", device);
    json_str(&json, "text", talk->text ? talk->text : "");
    json_uint(&json, "n_prompt_tokens", talk->n_asked);
    json_array(&json, "prompt_tokens");
    for (i = 0; i < talk->n_asked; i++)
        json_int(&json, NULL, talk->asked[i]);
    json_end(&json);
    json_uint(&json, "n_new_tokens", talk->n_new);
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
run_llama(const struct llama_options *options)
{
    struct talk talk = {.options = options};
    struct bell_context *ctx;
    struct bell_stats stats = {.struct_size = sizeof(stats)};
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
    } else if (options->bundle && options->json) {
        code = tool_print_saved(options->bundle);
    } else if (options->bundle) {
        tool_eprintf("%s: saved\n", options->bundle);
    } else if (options->json) {
        code = print_llama_json(&talk, device, &stats);
    } else {
        if (!options->chats || options->prompt)
            putchar('\n');
        fflush(stdout);
        print_llama_summary(&talk, device);
    }
    llama_chooser_fini(&talk.chooser);
    llama_vocab_fini(&talk.vocab);
    llama_fini(&talk.model);
    host_free(talk.tokens);
    host_free(talk.asked);
    host_free(talk.text);
    bell_context_destroy(ctx);
    return code;
}

int
llama_demo(int argc, char **argv)
{
    struct llama_options options = {.temperature = 1, .top_p = 0.9, .seed = 1};
    const struct tool_opt opts[] = {
        {"DEMO", NULL, TOOL_OPT_STRING, &options.demo, 0, 0, "llama"},
        {"--model", "FILE", TOOL_OPT_STRING, &options.model, 0, 0,
         "a checkpoint of llama2.c, or GGUF"},
        {"--tokenizer", "FILE", TOOL_OPT_STRING, &options.tokenizer, 0, 0,
         "its tokenizer (GGUF has one)"},
        {"--prompt", "TEXT", TOOL_OPT_STRING, &options.prompt, 0, 0,
         "what the text begins with (default: nothing); a message, with "
         "--chat"},
        {"--chat", NULL, TOOL_OPT_FLAG, &options.chats, 0, 0,
         "answer the prompt, or, without --prompt, each line of stdin, in the "
         "form of the file's template (llama2, llama3 or chatml)"},
        {"--steps", "N", TOOL_OPT_INT, &options.n_steps, 1, 1 << 22,
         "tokens in all, or of an answer (default, and at most: the model's "
         "context)"},
        TOOL_NUMBER_OPT("--temperature", "T", &options.temperature, -1, 100,
                        "0: always the likeliest token (default: 1)"),
        TOOL_NUMBER_OPT(
            "--top-p", "P", &options.top_p, 0, 1,
            "choose among the likeliest whose sum is P (default: 0.9)"),
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
    return code == TOOL_GO_ON ? run_llama(&options) : code;
}
