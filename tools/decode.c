/* `doorbell decode`: what a device reads, as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tools/decode_nv.h"
#include "tools/file.h"
#include "tools/json.h"
#include "tools/tools.h"
#include "tools/words.h"

struct options {
    const char *path, *format, *what, *sm;
    struct tool_list classes;
    int64_t va, qmd;
    bool json;
};

/* Where the lines go. */
struct sink {
    struct json *json; /* an open array, or NULL: stdout */
};

static void
put_line(void *user, const char *line)
{
    struct sink *sink = user;

    if (sink->json)
        json_str(sink->json, NULL, line);
    else
        printf("%s\n", line);
}

static int
bind_classes(const struct options *options, struct decode_nv *d)
{
    const struct decode_nv_chip *chip = NULL;
    size_t i;

    if (options->sm) {
        chip = decode_nv_chip_find(options->sm);
        if (!chip)
            return tool_usage(options->json,
                              "decode: --sm %s is none of sm_80, sm_86, sm_89, "
                              "sm_90, sm_100, sm_120",
                              options->sm);
        (void)decode_nv_bind(d, chip->gpfifo_class);
        (void)decode_nv_bind(d, chip->compute_class);
        (void)decode_nv_bind(d, chip->copy_class);
    }
    for (i = 0; i < options->classes.n_items; i++) {
        const char *text = options->classes.items[i];
        char *end;
        unsigned long id = strtoul(text, &end, 16);
        if (*end || !decode_nv_bind(d, (uint32_t)id))
            return tool_usage(options->json,
                              "decode: --class %s is no GPFIFO, compute or "
                              "copy class that is known (c86f, cbc0, ...)",
                              text);
    }
    return TOOL_GO_ON;
}

static unsigned
decode_words(const struct options *options, struct decode_nv *d,
             const struct words *words)
{
    if (strcmp(options->what, "ring") == 0)
        return decode_nv_ring(d, words->w, words->n, (uint64_t)options->va);
    if (strcmp(options->what, "qmd") == 0)
        return decode_nv_qmd(d, words->w, words->n, (unsigned)options->qmd);
    return decode_nv_push(d, words->w, words->n);
}

static int
run_decode(const struct options *options, const struct words *words)
{
    struct sink sink = {NULL};
    struct decode_nv decoder;
    unsigned n_unknown;
    struct json json;
    int code;

    decode_nv_init(&decoder, put_line, &sink);
    code = bind_classes(options, &decoder);
    if (code != TOOL_GO_ON)
        return code;
    if (!options->json) {
        n_unknown = decode_words(options, &decoder, words);
        if (n_unknown)
            fprintf(stderr, "doorbell: %u of %zu words could not be named\n",
                    n_unknown, words->n);
        return n_unknown ? TOOL_FAILED : TOOL_OK;
    }
    json_init(&json);
    json_str(&json, "format", options->format);
    json_str(&json, "what", options->what);
    json_uint(&json, "n_words", words->n);
    json_array(&json, "lines");
    sink.json = &json;
    n_unknown = decode_words(options, &decoder, words);
    json_end(&json);
    json_uint(&json, "n_unknown", n_unknown);
    code = tool_print_json(&json);
    return code == TOOL_OK && n_unknown ? TOOL_FAILED : code;
}

static int
decode_file(const struct options *options)
{
    bool is_stdin = !options->path || strcmp(options->path, "-") == 0;
    const char *name = is_stdin ? "stdin" : options->path;
    struct file_bytes file;
    struct words words;
    bell_status status;
    int code;

    status = file_read(is_stdin ? "/dev/stdin" : options->path, &file);
    if (status != BELL_OK)
        return tool_fail(options->json, status);
    status = words_parse(name, file.data, file.size_bytes, &words);
    file_bytes_fini(&file);
    if (status != BELL_OK)
        return tool_fail(options->json, status);
    code = run_decode(options, &words);
    host_free(words.w);
    return code;
}

static int
check_options(const struct options *options)
{
    static const char *const kinds[] = {"push", "ring", "qmd"};
    size_t i;

    if (!options->format)
        return tool_usage(options->json, "decode: which --format? nv");
    if (strcmp(options->format, "nv") != 0)
        return tool_fail_text(options->json, 6,
                              "decode: --format %s is not known; there is nv",
                              options->format);
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(options->what, kinds[i]) == 0)
            return TOOL_GO_ON;
    }
    return tool_usage(options->json,
                      "decode: --what %s is none of push, ring, qmd",
                      options->what);
}

int
verb_decode(int argc, char **argv)
{
    struct options options = {.what = "push"};
    const struct tool_opt opts[] = {
        {"FILE", NULL, TOOL_OPT_STRING, &options.path, 0, 0,
         "binary, or hexadecimal text; - or none: stdin"},
        {"--format", "FORMAT", TOOL_OPT_STRING, &options.format, 0, 0,
         "whose words: nv"},
        {"--what", "WHAT", TOOL_OPT_STRING, &options.what, 0, 0,
         "push (methods; default), ring (GPFIFO entries) or qmd"},
        {"--sm", "SM", TOOL_OPT_STRING, &options.sm, 0, 0,
         "sm_90 and so on: its classes on the usual subchannels"},
        {"--class", "HEX", TOOL_OPT_LIST, &options.classes, 0, 0,
         "a GPFIFO, compute or copy class: c86f, cbc0, c8b5"},
        {"--qmd", "N", TOOL_OPT_INT, &options.qmd, 3, 5,
         "version of the QMDs (default: by class, or by the words)"},
        {"--va", "ADDRESS", TOOL_OPT_INT, &options.va, 0, INT64_MAX,
         "of a ring's first entry (default: 0)"},
        {"--json", NULL, TOOL_OPT_FLAG, &options.json, 0, 0,
         "one JSON document on stdout"},
    };
    int code;

    code = tool_parse(
        "decode --format nv [FILE] [options]\n\n"
        "Says what the words of a pushbuffer, a ring or a launch descriptor "
        "mean. Exits\nwith 1 if some could not be named:\n\n"
        "  echo 20012000 cbc0 200120b0 a | doorbell decode --format nv",
        opts, ARRAY_LEN(opts), argc, argv);
    if (code == TOOL_GO_ON)
        code = check_options(&options);
    return code == TOOL_GO_ON ? decode_file(&options) : code;
}
