/* `doorbell send`: words of a card's own, put together by hand. */
#include "tools/send/send.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "doorbell/tensor.h"
#include "hcq/hcq_facts.h"
#include "tensor/runtime/ir.h"
#include "tools/tools.h"

struct send_options {
    const char *device, *script;
    bool json;
};

static bell_status
open_session(struct send *s, const char *device)
{
    BELL_TRY(tool_open_context(device, NULL, &s->ctx));
    s->dev = tensor_device(s->ctx);
    s->info.struct_size = sizeof(s->info);
    hcq_device_info(s->dev, &s->info);
    if (s->info.flags & HCQ_DEVICE_SIMULATED)
        log_mask |= LOG_FAULT; /* what a card refuses, it says */
    BELL_TRY(hcq_queue_create(s->dev, HCQ_QUEUE_COMPUTE,
                              &s->queues[HCQ_QUEUE_COMPUTE]));
    s->queue = s->queues[HCQ_QUEUE_COMPUTE];
    if (!hcq_queue_has_words(s->queue))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s has no words of its own: it runs hcq's commands "
                         "as they are; a card of NVIDIA, AMD or Qualcomm has "
                         "(NV@sim:sm_90, AMD@sim:gfx1100, QCOM@sim:a740)",
                         s->info.name);
    return BELL_OK;
}

/* Work under way may hang: the device's end stops it. False where it does not:
 * its memory goes with the process. */
static bool
stop_queues(struct send *s)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(s->queues); i++) {
        if (s->queues[i] && hcq_queue_wait(s->queues[i], 0) != BELL_OK &&
            hcq_device_recover(s->dev) != BELL_OK)
            return false;
    }
    return true;
}

static void
close_device(struct send *s)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(s->queues); i++)
        hcq_queue_destroy(s->queues[i]);
    for (i = 0; i < s->n_programs; i++)
        hcq_program_destroy(s->programs[i]);
    for (i = 0; i < s->n_buffers; i++)
        hcq_buffer_destroy(s->buffers[i]);
    bell_context_destroy(s->ctx);
}

static void
close_session(struct send *s)
{
    if (s->cs)
        hcq_cs_discard(s->cs);
    if (stop_queues(s))
        close_device(s);
    host_free(s->symbols);
    host_free(s->parts);
    host_free(s->programs);
    host_free(s->buffers);
    host_free(s->words);
}

/* Lines up to the first that fails; typed, all of them. */
static bell_status
run_lines(struct send *s, const char *name)
{
    char line[SEND_LINE_MAX];
    unsigned number = 0;
    bell_status status = BELL_OK;

    for (;;) {
        if (s->prompts) {
            tool_printf("(send) ");
            fflush(stdout);
        }
        if (!fgets(line, sizeof(line), s->script))
            break;
        number++;
        if (!strchr(line, '\n') && !feof(s->script))
            return bell_fail(BELL_E_INVALID,
                             "%s:%u: a line has at most %d bytes", name, number,
                             SEND_LINE_MAX - 2);
        if (s->prompts && strcmp(line, "quit\n") == 0)
            break;
        status = send_line(s, line);
        if (status == BELL_OK)
            continue;
        if (!s->prompts) {
            bell_error_prefix("%s:%u", name, number);
            return status;
        }
        (void)tool_fail(false, status);
    }
    if (ferror(s->script))
        return bell_fail_errno(BELL_E_IO, errno, "%s: cannot read: %s", name,
                               strerror(errno));
    if (s->cs && !s->prompts)
        return bell_fail(BELL_E_INVALID,
                         "%s: ends with words that were not submitted", name);
    if (!s->prompts && (status = send_finish(s)) != BELL_OK)
        bell_error_prefix("%s: the end", name);
    return status;
}

static int
run_send_session(struct send *s, const struct send_options *options)
{
    struct json json;
    bell_status status;
    int code;

    setvbuf(stdout, NULL, _IOLBF, 0); /* errors come between the lines */
    json_init(&json);
    json_str(&json, "device", options->device);
    json_array(&json, "lines");
    s->json = options->json ? &json : NULL;
    status = open_session(s, options->device);
    if (status == BELL_OK)
        status = run_lines(s, options->script ? options->script : "stdin");
    json_end(&json);
    if (status != BELL_OK) {
        code = tool_fail_input(options->json, status);
        json_fini(&json);
    } else if (options->json) {
        code = tool_print_json(&json);
    } else {
        code = TOOL_OK;
        json_fini(&json);
    }
    s->json = NULL;
    close_session(s);
    return code;
}

int
verb_send(int argc, char **argv)
{
    struct send_options options = {.json = false};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "a card, simulated or not: NV@sim:sm_90, AMD:0, QCOM@null:a740"},
        {"--script", "FILE", TOOL_OPT_STRING, &options.script, 0, 0,
         "commands, one a line (default: stdin); `help` lists them"},
        TOOL_JSON_OPT(&options.json),
    };
    struct send s = {.script = stdin};
    int code;

    code = tool_parse(
        "send DEVICE [--script FILE] [options]\n\n"
        "Puts words of a card's own into a queue: packets, registers and "
        "methods by the names\nthat `doorbell decode` prints, raw words, "
        "waits; reads memory and compares it.\nExits with 1 at the first "
        "line that fails:\n\n"
        "  printf 'buffer x 4\\nWRITE_DATA DST_SEL=MEMORY ADDRESS=x : 7\\n"
        "submit\\nwait\\nread x\\n' |\n"
        "      doorbell send AMD@sim:gfx1100",
        opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (!options.device)
        return tool_usage(options.json, "send: which device?");
    if (options.script) {
        s.script = fopen(options.script, "re");
        if (!s.script)
            return tool_fail_text(options.json, BELL_E_IO, "%s: %s",
                                  options.script, strerror(errno));
    }
    s.prompts = !options.script && !options.json && isatty(STDIN_FILENO);
    code = run_send_session(&s, &options);
    if (options.script)
        fclose(s.script);
    return code;
}
