/* The `doorbell` command line: finds the verb and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/json.h"
#include "tools/tools.h"

static const struct {
    const char *name, *help;
    tool_verb_fn *run;
    bool compiles; /* that is what it is to show, or nobody asks again for it */
    const char *parts; /* words, one of which comes first: "show clear" */
} verbs[] = {
    {"bench", "what a device and the way to it cost", verb_bench, true},
    {"burn", "a device under load, everything compared", verb_burn, false},
    {"cache", "kernels kept on disk", verb_cache, false, "show clear"},
    {"decode", "what a device reads, as text", verb_decode, false},
    {"demo", "small networks trained, language models run", verb_demo, false,
     "mnist llama train-llama"},
    {"devices", "the devices of this machine", verb_devices, false},
    {"doctor", "what is missing here and how to fix it", verb_doctor, false},
    {"eval", "an expression over .npy files", verb_eval, false},
    {"fuzz", "random programs against the reference", verb_fuzz, true},
    {"kernel", "what an expression is compiled to, and its time", verb_kernel,
     true},
    {"onnx", "what an ONNX model has, and whether it can be run", verb_onnx,
     false},
    {"profile", "what a trace of BELL_PROFILE says", verb_profile, false},
    {"run", "a bundle over .npy files", verb_run, false},
    {"selftest", "staged bring-up of a device", verb_selftest, true},
    {"send", "words of a card's own, put together by hand", verb_send, true},
    {"sim", "another program on simulated cards", verb_sim, false},
    {"step", "a simulated card, held before what it does next", verb_step,
     false},
    {"top", "what devices do now, again and again", verb_top, false},
    {"trace", "record, show, compare and replay kernel calls", verb_trace,
     false, "record show diff replay"},
    {"tune", "search for faster kernels of an expression", verb_tune, false},
    {"viz", "a page of what became of a program", verb_viz, true},
};

static void
print_help(FILE *out)
{
    size_t i;

    fprintf(out, "usage: doorbell VERB [DEVICE] [options]\n\n");
    for (i = 0; i < ARRAY_LEN(verbs); i++)
        fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].help);
    fprintf(out,
            "\n`doorbell VERB -h` says more.\n"
            "BELL_DEVICE sets the default device, BELL_MATH what it may do "
            "less exactly;\nBELL_DEBUG=help lists what can be traced. "
            "--devices NV:0,NV:1 or NV:* computes on\nseveral devices at "
            "once, where a verb has --device.\n");
}

/* The verbs for programs; a verb's -h --json says what it takes. */
static int
print_verbs(void)
{
    struct json json;
    size_t i;

    json_init(&json);
    json_array(&json, "verbs");
    for (i = 0; i < ARRAY_LEN(verbs); i++) {
        const char *part = verbs[i].parts ? verbs[i].parts : "";
        char word[32];

        json_object(&json, NULL);
        json_str(&json, "name", verbs[i].name);
        json_str(&json, "help", verbs[i].help);
        json_array(&json, "parts");
        for (; *part; part += strspn(part, " ")) {
            size_t n = strcspn(part, " ");

            snprintf(word, sizeof(word), "%.*s", (int)n, part);
            json_str(&json, NULL, word);
            part += n;
        }
        json_end(&json);
        json_end(&json);
    }
    json_end(&json);
    return tool_print_json(&json);
}

static int
refuse_verb(bool json, const char *name)
{
    const char *names[ARRAY_LEN(verbs)], *nearest;
    size_t i;

    for (i = 0; i < ARRAY_LEN(verbs); i++)
        names[i] = verbs[i].name;
    nearest = tool_nearest(name, names, ARRAY_LEN(verbs));
    if (nearest)
        return tool_usage(json, "no verb '%s'; did you mean '%s'?", name,
                          nearest);
    return tool_usage(json, "no verb '%s'", name);
}

static int
print_version(bool as_json)
{
    struct json json;

    if (!as_json) {
        tool_printf("doorbell %s\n", BELL_VERSION);
        return TOOL_OK;
    }
    json_init(&json);
    json_str(&json, "version", BELL_VERSION);
    return tool_print_json(&json);
}

static int
run_verb(int argc, char **argv)
{
    bool json = tool_asks_for_json(argc, argv);
    bell_status status;
    size_t i;

    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(argv[1], "--json") == 0)
        return tool_usage(true, "a verb comes first; `doorbell -h` lists them");
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "help") == 0) {
        if (json)
            return print_verbs();
        print_help(stdout);
        return TOOL_OK;
    }
    if (strcmp(argv[1], "--version") == 0)
        return print_version(json);
    status = log_init();
    if (status != BELL_OK)
        return tool_fail(json, status);
    for (i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            if (verbs[i].compiles)
                setenv("BELL_CACHE", "off", 1);
            return verbs[i].run(argc - 1, argv + 1);
        }
    }
    return refuse_verb(json, argv[1]);
}

int
main(int argc, char **argv)
{
    return tool_exit_code(run_verb(argc, argv));
}
