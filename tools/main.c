/* The `doorbell` command line: finds the verb and runs it. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "tools/tools.h"

static const struct {
    const char *name, *help;
    tool_verb_fn *run;
} verbs[] = {
    {"bench", "what a device and the way to it cost", verb_bench},
    {"decode", "what a device reads, as text", verb_decode},
    {"demo", "train a small network: mnist", verb_demo},
    {"devices", "the devices of this machine", verb_devices},
    {"doctor", "what is missing here and how to fix it", verb_doctor},
    {"eval", "an expression over .npy files", verb_eval},
    {"fuzz", "random programs against the reference", verb_fuzz},
    {"kernel", "what an expression is compiled to, and its time", verb_kernel},
    {"selftest", "staged bring-up of a device", verb_selftest},
    {"sim", "another program on simulated cards", verb_sim},
    {"trace", "record, show, compare and replay kernel calls", verb_trace},
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
            "less exactly;\nBELL_DEBUG=help lists what can be traced.\n");
}

static int
refuse_verb(const char *name)
{
    const char *names[ARRAY_LEN(verbs)], *nearest;
    size_t i;

    for (i = 0; i < ARRAY_LEN(verbs); i++)
        names[i] = verbs[i].name;
    nearest = tool_nearest(name, names, ARRAY_LEN(verbs));
    fprintf(stderr, "doorbell: no verb '%s'", name);
    if (nearest)
        fprintf(stderr, "; did you mean '%s'?", nearest);
    fprintf(stderr, "\n");
    return TOOL_USAGE;
}

static bool
asks_for_json(int argc, char **argv)
{
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}

int
main(int argc, char **argv)
{
    bell_status status;
    size_t i;

    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return TOOL_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("doorbell %s\n", BELL_VERSION);
        return TOOL_OK;
    }
    status = log_init();
    if (status != BELL_OK)
        return tool_fail(asks_for_json(argc, argv), status);
    for (i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            int code = verbs[i].run(argc - 1, argv + 1);
            if (fflush(stdout) != 0 && code == TOOL_OK)
                code = tool_fail_text(false, TOOL_FAILED,
                                      "cannot write to stdout");
            return code;
        }
    }
    return refuse_verb(argv[1]);
}
