/* `doorbell step`: a simulated card, held before what it does next: by hand or
 * by a script. */
#include "tools/step/step.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/chip.h"
#include "doorbell/tensor.h"
#include "hcq/hcq_facts.h"
#include "ioctl/kio_interface.h"
#include "tensor/runtime/ir.h"
#include "tools/eval/eval_expr.h"
#include "tools/inputs.h"
#include "tools/tools.h"

#define MEMORY_DW_MAX 4096

struct step_options {
    const char *device, *expr, *replay, *script, *math;
    struct tool_list in;
    bool json;
};

static void
say_decoded(void *user, const char *line)
{
    struct step *step = user;

    tool_say(step->json, "    %s", line);
}

/* ---- what is wanted ------------------------------------------------------ */

/* Packets for their semaphores, kernels for their names; instructions are
 * dear, and looked at where an address is waited for. */
static void
want_stops(struct step *step)
{
    uint32_t stops = 1u << SIM_STOP_PACKET | 1u << SIM_STOP_KERNEL;
    size_t i;

    if (!step->is_free)
        stops |= 1u << step->target;
    for (i = 0; i < step->n_breaks; i++) {
        if (!step->breaks[i].name[0])
            stops |= 1u << SIM_STOP_INSN;
    }
    sim_step_want(step->has_quit ? 0 : stops);
}

/* A break is one where its kernel begins, or its address is next. */
static const struct step_break *
find_break(struct step *step, const struct sim_place *place)
{
    const char *kernel = step_kernel(step, place);
    size_t i;

    for (i = 0; i < step->n_breaks; i++) {
        const struct step_break *of = &step->breaks[i];

        if (of->name[0]
                ? place->kind == SIM_STOP_KERNEL &&
                      strcmp(of->name, kernel) == 0
                : of->va == place->va && (place->kind != SIM_STOP_INSN ||
                                          place->format == SIM_WORDS_CODE))
            return of;
    }
    return NULL;
}

/* ---- commands ------------------------------------------------------------ */

static const struct {
    const char *name, *help;
} commands[] = {
    {"submit", "[N] run until a queue begins with what was submitted"},
    {"packet", "[N] run to the next packet"},
    {"kernel", "[N] run to the next kernel"},
    {"wave", "[N] run to the next wave (warp) that begins"},
    {"insn", "[N] run to the next instruction of a wave"},
    {"continue", "run to a breakpoint, or to the end"},
    {"break", "NAME|ADDRESS: of a kernel; of code, or a packet"},
    {"delete", "all breakpoints"},
    {"show", "where the card is, with the packet decoded"},
    {"regs", "[NAME] registers, of the queue or the wave"},
    {"mem", "ADDRESS [N] so many words of memory (default: 16)"},
    {"sem", "semaphores that packets and kernels have named, and their values"},
    {"help", "this list"},
    {"quit", "run to the end, without a stop"},
};

static void bad(struct step *step, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
bad(struct step *step, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    step->n_bad++;
    tool_say(step->json, "%s", text);
}

static bool
read_uint(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = text && *text != '-' ? strtoull(text, &end, 0) : 0;
    return text && *text && *text != '-' && !*end && !errno;
}

static void
add_break(struct step *step, const char *what)
{
    struct step_break of = {.va = 0};

    if (!what) {
        bad(step, "break: at which kernel, or address?");
        return;
    }
    if (step->n_breaks == STEP_BREAKS_MAX) {
        bad(step, "break: %d are the most", STEP_BREAKS_MAX);
        return;
    }
    if (what[0] >= '0' && what[0] <= '9') {
        if (!read_uint(what, &of.va)) {
            bad(step, "break: '%s' is not an address", what);
            return;
        }
    } else {
        snprintf(of.name, sizeof(of.name), "%s", what);
    }
    step->breaks[step->n_breaks++] = of;
}

static void
show_memory(struct step *step, const char *at, const char *count)
{
    uint64_t va, n = 16;

    if (!read_uint(at, &va) || (count && !read_uint(count, &n)) || n == 0 ||
        n > MEMORY_DW_MAX)
        bad(step, "mem: ADDRESS [1 to %d words]", MEMORY_DW_MAX);
    else
        step_show_memory(step, va, (uint32_t)n);
}

static void
list_commands(struct step *step)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(commands); i++)
        tool_say(step->json, "%-9s %s", commands[i].name, commands[i].help);
}

/* The command that `word` is, or alone begins; NULL: none. */
static const char *
find_command(const char *word)
{
    const char *found = NULL;
    size_t i;

    for (i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, word) == 0)
            return commands[i].name;
        if (strncmp(commands[i].name, word, strlen(word)) != 0)
            continue;
        if (found)
            return NULL;
        found = commands[i].name;
    }
    return found;
}

/* Commands that look. False: `name` lets the card go on. */
static bool
look(struct step *step, const char *name, const char *one, const char *two)
{
    bool needs_place = strcmp(name, "show") == 0 || strcmp(name, "regs") == 0 ||
                       strcmp(name, "mem") == 0 || strcmp(name, "sem") == 0;

    if (needs_place && !step->place)
        bad(step, "%s: the card is not held: %s", name,
            step->has_ended ? "the program has ended"
                            : "run to something first");
    else if (strcmp(name, "break") == 0)
        add_break(step, one);
    else if (strcmp(name, "delete") == 0)
        step->n_breaks = 0;
    else if (strcmp(name, "show") == 0)
        step_show_place(step);
    else if (strcmp(name, "regs") == 0)
        step_show_registers(step, one ? one : "");
    else if (strcmp(name, "mem") == 0)
        show_memory(step, one, two);
    else if (strcmp(name, "sem") == 0)
        step_show_semaphores(step);
    else if (strcmp(name, "help") == 0)
        list_commands(step);
    else
        return false;
    return true;
}

/* Lets the card go on, as `name` says; false: it cannot. */
static bool
resume(struct step *step, const char *name, const char *one)
{
    static const char *const targets[SIM_STOP_COUNT] = {
        "submit", "packet", "kernel", "wave", "insn"};
    uint64_t n = 1;
    int i;

    if (strcmp(name, "quit") == 0) {
        step->has_quit = true;
        return true;
    }
    if (step->has_ended) {
        bad(step, "%s: the program has ended", name);
        return false;
    }
    if (one && (!read_uint(one, &n) || n == 0 || n > INT64_MAX)) {
        bad(step, "%s: '%s' is not a number of times", name, one);
        return false;
    }
    step->is_free = strcmp(name, "continue") == 0;
    for (i = 0; i < SIM_STOP_COUNT; i++) {
        if (strcmp(targets[i], name) == 0)
            step->target = (enum sim_stop)i;
    }
    step->n_left = (int64_t)n;
    return true;
}

/* Reads and does commands until one lets the card go on. */
static void
take_commands(struct step *step)
{
    char line[512];
    bool goes_on = false;

    while (!goes_on) {
        char *rest, *word, *one, *two;
        const char *name;

        if (step->prompts)
            tool_eprintf("(step) ");
        if (!fgets(line, sizeof(line), step->commands)) {
            step->has_quit = true;
            break;
        }
        line[strcspn(line, "#\n")] = '\0';
        word = strtok_r(line, " \t", &rest);
        if (!word)
            continue;
        one = strtok_r(NULL, " \t", &rest);
        two = one ? strtok_r(NULL, " \t", &rest) : NULL;
        name = find_command(word);
        if (step->json) {
            json_object(step->json, NULL);
            json_str(step->json, "command", name ? name : word);
            json_array(step->json, "lines");
        }
        if (!name)
            bad(step, "no command '%s'; `help` lists them", word);
        else if (!look(step, name, one, two))
            goes_on = resume(step, name, one);
        step->is_pending = goes_on && !step->has_quit;
        if (step->json && !step->is_pending) {
            json_end(step->json);
            json_null(step->json, "stop");
            json_end(step->json);
        }
    }
    if (!step->json)
        fflush(stdout);
}

/* ---- stops --------------------------------------------------------------- */

static void
put_stop(struct step *step, const struct sim_place *place)
{
    static const char *const kinds[SIM_STOP_COUNT] = {
        "submit", "packet", "kernel", "wave", "instruction"};
    const char *kernel = step_kernel(step, place);
    char address[24];
    uint32_t i;

    json_object(step->json, "stop");
    json_str(step->json, "kind", kinds[place->kind]);
    json_str(step->json, "where", place->queue);
    snprintf(address, sizeof(address), "%" PRIx64, place->va);
    json_str(step->json, "address",
             place->kind >= SIM_STOP_WAVE && place->format != SIM_WORDS_CODE &&
                     place->text
                 ? NULL
                 : address);
    json_str(step->json, "kernel", kernel[0] ? kernel : NULL);
    if (place->kind >= SIM_STOP_WAVE) {
        json_array(step->json, "group");
        for (i = 0; i < 3; i++)
            json_uint(step->json, NULL, place->group[i]);
        json_end(step->json);
        json_uint(step->json, "wave", place->wave);
    } else {
        json_null(step->json, "group");
        json_null(step->json, "wave");
    }
    json_end(step->json);
}

void
step_come_to(struct step *step, const struct sim_place *place)
{
    const char *kernel;

    if (step->has_quit)
        return;
    step_note_semaphores(step, place);
    kernel = step_kernel(step, place);
    if (place->kind == SIM_STOP_KERNEL && kernel != step->kernel)
        snprintf(step->kernel, sizeof(step->kernel), "%s", kernel);
    if (!find_break(step, place) &&
        (step->is_free || place->kind != step->target || --step->n_left > 0))
        return;
    step->place = place;
    step->n_stops++;
    step_show_place(step);
    if (step->json && step->is_pending) {
        json_end(step->json);
        put_stop(step, place);
        json_end(step->json);
    }
    step->is_pending = false;
    take_commands(step);
    step->place = NULL;
    want_stops(step);
}

/* Called by a card's threads. */
static void
come_to(void *user, const struct sim_place *place)
{
    step_come_to(user, place);
}

/* ---- what runs ----------------------------------------------------------- */

/* The chip of "NV@sim:h100,...": what words are read by. */
static int
choose_decoders(struct step *step, const struct step_options *options)
{
    const char *form = strrchr(options->device, '@');
    const struct decode_nv_chip *nv;
    struct decode_nv decoder;
    const struct chip *chip;
    char name[32];

    if (!form || !kio_interface_is_sim(form + 1))
        return tool_fail_text(options->json, BELL_E_UNSUPPORTED,
                              "step: %s is not a simulated card; NV@sim:sm_90, "
                              "AMD@sim:gfx1100",
                              options->device);
    form = strchr(form, ':') + 1;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(form, "*,"), form);
    chip = chip_find(name);
    if (chip)
        snprintf(name, sizeof(name), "%s", chip->arch);
    decode_nv_init(&decoder, say_decoded, step);
    nv = decode_nv_chip_find(name);
    if (nv) {
        (void)decode_nv_bind(&decoder, nv->gpfifo_class);
        (void)decode_nv_bind(&decoder, nv->compute_class);
        (void)decode_nv_bind(&decoder, nv->copy_class);
    }
    step_use_decoders(step, &decoder, decode_amd_chip_find(name));
    return TOOL_GO_ON;
}

void
step_use_decoders(struct step *step, const struct decode_nv *nv,
                  const struct decode_amd_chip *amd_chip)
{
    step->nv = *nv;
    step->nv.stream.line = say_decoded;
    step->nv.stream.user = step;
    step->amd = (struct decode_amd){amd_chip, say_decoded, step};
}

static bell_status
run_expression(struct step *step, const struct step_options *options)
{
    char names[TOOL_LIST_MAX][TOOL_INPUT_NAME];
    struct eval_input inputs[TOOL_LIST_MAX];
    struct bell_context *ctx;
    struct bell_tensor *result;
    bell_status status;
    size_t i, at;

    BELL_TRY(tool_open_context(options->device, options->math, &ctx));
    for (i = 0, status = BELL_OK; i < options->in.n_items && status == BELL_OK;
         i++)
        status = tool_make_input(ctx, options->in.items[i], true, names[i],
                                 &inputs[i]);
    if (status == BELL_OK) {
        status = eval_expr(ctx, options->expr, inputs, options->in.n_items,
                           &result, &at);
        if (status != BELL_OK)
            bell_error_prefix("column %zu", at + 1);
    }
    step->dev = tensor_device(ctx);
    if (status == BELL_OK)
        status = hcq_device_synchronize(step->dev, HCQ_WAIT_FOREVER);
    if (status == BELL_OK) {
        hcq_device_wait_forever(step->dev); /* for who looks */
        take_commands(step);                /* before anything runs */
        sim_step_begin(come_to, step, 0);
        want_stops(step);
        status = bell_realize1(result);
        if (status == BELL_OK)
            status = hcq_device_synchronize(step->dev, HCQ_WAIT_FOREVER);
        sim_step_end();
    }
    step->dev = NULL;
    bell_context_destroy(ctx);
    return status;
}

static int
run_session(struct step *step, const struct step_options *options)
{
    struct json json;
    bell_status status;
    int code = options->replay ? TOOL_GO_ON : choose_decoders(step, options);

    if (code != TOOL_GO_ON)
        return code;
    json_init(&json);
    json_str(&json, "device", options->device);
    json_array(&json, "steps");
    step->json = options->json ? &json : NULL;
    if (options->replay) {
        take_commands(step);
        status = step_replay(step, options->replay);
    } else {
        status = run_expression(step, options);
    }
    step->has_ended = true;
    if (step->is_pending) {
        tool_say(step->json, "the program has ended");
        if (step->json) {
            json_end(&json);
            json_null(&json, "stop");
            json_end(&json);
        }
    }
    if (status == BELL_OK && !step->has_quit)
        take_commands(step);
    json_end(&json);
    json_uint(&json, "n_stops", step->n_stops);
    json_uint(&json, "n_bad_commands", step->n_bad);
    if (status != BELL_OK)
        code = tool_fail_input(options->json, status);
    else if (options->json)
        code = tool_print_json(&json);
    else
        code = TOOL_OK;
    if (status != BELL_OK || !options->json)
        json_fini(&json);
    return code == TOOL_OK && step->n_bad ? TOOL_FAILED : code;
}

int
verb_step(int argc, char **argv)
{
    struct step_options options = {.json = false};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "a simulated card: NV@sim:sm_90, AMD@sim:gfx1100"},
        {"EXPR", NULL, TOOL_OPT_STRING, &options.expr, 0, 0,
         "what it computes, as for `doorbell eval`"},
        {"--in", "name=2x3:float32", TOOL_OPT_LIST, &options.in, 0, 0,
         "an input's shape and dtype, with random values; or name=FILE"},
        {"--replay", "FILE", TOOL_OPT_STRING, &options.replay, 0, 0,
         "a cassette's submissions, in place of a card and EXPR"},
        {"--script", "FILE", TOOL_OPT_STRING, &options.script, 0, 0,
         "commands, a line each (default: stdin); `help` lists them"},
        TOOL_MATH_OPT(&options.math),
        TOOL_JSON_OPT(&options.json),
    };
    struct step step = {.commands = stdin};
    int code;

    code = tool_parse(
        "step DEVICE 'EXPR' [options]\n\n"
        "Holds a simulated card, or a replay of a cassette, before what it "
        "does next: a submission, a "
        "packet, a kernel,\na wave or an instruction; shows registers, "
        "memory, semaphores and the packet.\nExits with 1 if a command could "
        "not be done:\n\n"
        "  printf 'kernel\\nshow\\nwave\\nregs\\n' | doorbell step "
        "NV@sim:sm_90 "
        "'x + 1' --in x=64",
        opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (options.replay && (options.device || options.in.n_items))
        return tool_usage(options.json,
                          "step: --replay in place of a card, EXPR and --in");
    if (!options.replay && (!options.device || !options.expr))
        return tool_usage(options.json,
                          "step: which simulated card, and which EXPR?");
    code = tool_check_math(options.json, "step", options.math);
    if (code != TOOL_GO_ON)
        return code;
    if (options.script) {
        step.commands = fopen(options.script, "re");
        if (!step.commands)
            return tool_fail_text(options.json, BELL_E_IO, "%s: %s",
                                  options.script, strerror(errno));
    }
    step.prompts = !options.script && isatty(STDIN_FILENO);
    code = run_session(&step, &options);
    if (options.script)
        fclose(step.commands);
    return code;
}
