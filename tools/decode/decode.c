/* `doorbell decode`: what a device reads, as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "render/ir3/ir3_isa.h"
#include "hcq/decode/decode_amd.h"
#include "tools/decode/decode_dump.h"
#include "tools/decode/decode_ir3.h"
#include "hcq/decode/decode_nv.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/tools.h"
#include "tools/words.h"

/* Whose words, and which of them; the first is the default. */
struct format {
    const char *name;
    const char *whats[3];
};

static const struct format formats[] = {
    {"nv", {"push", "ring", "qmd"}}, {"pm4", {"packets"}},
    {"sdma", {"packets"}},           {"aql", {"ring", "kernel"}},
    {"pkt7", {"packets"}},           {"ir3", {"code"}},
};

struct decode_options {
    const char *path, *format, *what, *sm, *arch;
    struct tool_list classes;
    int64_t va, qmd;
    bool assemble, json;
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
        tool_printf("%s\n", line);
}

static int
bind_classes(const struct decode_options *options, struct decode_nv *d)
{
    const struct decode_nv_chip *chip = NULL;
    size_t i;

    if (options->sm) {
        chip = decode_nv_chip_find(options->sm);
        if (!chip)
            return tool_usage(
                options->json,
                "decode: --sm %s is not one of sm_80, sm_86, sm_89, "
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
                              "decode: --class %s is not a GPFIFO, compute or "
                              "copy class that is known (c86f, cbc0, ...)",
                              text);
    }
    return TOOL_GO_ON;
}

/* What decodes the words. */
struct decoder {
    const struct decode_options *options;
    struct decode_nv nv;
    struct decode_amd amd;
    struct sink *sink;
    enum ir3_gen ir3_gen;
};

static bool
is_adreno(const char *format)
{
    return strcmp(format, "ir3") == 0 || strcmp(format, "pkt7") == 0;
}

static int
init_decoder(struct decoder *d, const struct decode_options *options,
             struct sink *sink)
{
    char known[256];

    d->options = options;
    d->sink = sink;
    if (is_adreno(options->format)) {
        d->ir3_gen = options->arch[1] == '6' ? IR3_GEN_A6XX : IR3_GEN_A7XX;
        if (strcmp(options->arch, "a6xx") == 0 ||
            strcmp(options->arch, "a7xx") == 0)
            return TOOL_GO_ON;
        return tool_usage(options->json,
                          "decode: --arch %s is not one of a6xx, a7xx",
                          options->arch);
    }
    if (strcmp(options->format, "nv") == 0) {
        decode_nv_init(&d->nv, put_line, sink);
        return bind_classes(options, &d->nv);
    }
    d->amd.line = put_line;
    d->amd.user = sink;
    d->amd.chip = decode_amd_chip_find(options->arch);
    if (d->amd.chip)
        return TOOL_GO_ON;
    chip_arch_list("AMD", known, sizeof(known));
    return tool_usage(options->json, "decode: --arch %s is not one of %s",
                      options->arch, known);
}

static unsigned
decode_words(struct decoder *d, const struct words *words)
{
    const char *format = d->options->format, *what = d->options->what;
    uint64_t va = (uint64_t)d->options->va;

    if (strcmp(format, "ir3") == 0)
        return decode_ir3(d->ir3_gen, words->w, words->n, put_line, d->sink);
    if (strcmp(format, "pkt7") == 0)
        return decode_pkt7(d->ir3_gen, words->w, words->n, put_line, d->sink);
    if (strcmp(format, "pm4") == 0)
        return decode_amd_pm4(&d->amd, words->w, words->n);
    if (strcmp(format, "sdma") == 0)
        return decode_amd_sdma(&d->amd, words->w, words->n);
    if (strcmp(what, "kernel") == 0)
        return decode_amd_kernel(&d->amd, words->w, words->n);
    if (strcmp(format, "aql") == 0)
        return decode_amd_aql(&d->amd, words->w, words->n, va);
    if (strcmp(what, "ring") == 0)
        return decode_nv_ring(&d->nv, words->w, words->n, va);
    if (strcmp(what, "qmd") == 0)
        return decode_nv_qmd(&d->nv, words->w, words->n,
                             (unsigned)d->options->qmd);
    return decode_nv_push(&d->nv, words->w, words->n);
}

static int
run_decode(const struct decode_options *options, const struct words *words)
{
    struct sink sink = {NULL};
    struct decoder decoder;
    unsigned n_unknown;
    struct json json;
    int code;

    code = init_decoder(&decoder, options, &sink);
    if (code != TOOL_GO_ON)
        return code;
    if (!options->json) {
        n_unknown = decode_words(&decoder, words);
        if (n_unknown)
            tool_eprintf("doorbell: %u of %zu words could not be named\n",
                         n_unknown, words->n);
        return n_unknown ? TOOL_FAILED : TOOL_OK;
    }
    json_init(&json);
    json_str(&json, "format", options->format);
    json_str(&json, "what", options->what);
    json_uint(&json, "n_words", words->n);
    json_array(&json, "lines");
    sink.json = &json;
    n_unknown = decode_words(&decoder, words);
    json_end(&json);
    json_uint(&json, "n_unknown", n_unknown);
    code = tool_print_json(&json);
    return code == TOOL_OK && n_unknown ? TOOL_FAILED : code;
}

/* Instructions from text, as lines of their words. */
static int
run_assemble(const struct decode_options *options, const char *name,
             const struct file_bytes *file)
{
    struct sink sink = {NULL};
    struct decoder decoder;
    struct json json;
    bell_status status;
    int code;

    code = init_decoder(&decoder, options, &sink);
    if (code != TOOL_GO_ON)
        return code;
    if (options->json) {
        json_init(&json);
        json_str(&json, "format", options->format);
        json_array(&json, "lines");
        sink.json = &json;
    }
    status = decode_ir3_assemble(decoder.ir3_gen, name, file->data,
                                 file->size_bytes, put_line, &sink);
    if (options->json) {
        json_end(&json);
        if (status == BELL_OK)
            return tool_print_json(&json);
        json_fini(&json);
    }
    return status == BELL_OK ? TOOL_OK : tool_fail(options->json, status);
}

static int
decode_file(const struct decode_options *options)
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
    if (options->assemble) {
        code = run_assemble(options, name, &file);
        file_bytes_fini(&file);
        return code;
    }
    status = words_parse(name, file.data, file.size_bytes, &words);
    file_bytes_fini(&file);
    if (status != BELL_OK)
        return tool_fail(options->json, status);
    code = run_decode(options, &words);
    host_free(words.w);
    return code;
}

static bool
is_folder(const char *path)
{
    struct stat st;

    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A dump says itself what it is of. */
static int
decode_folder(const struct decode_options *options)
{
    struct sink sink = {NULL};
    struct json json;
    unsigned n_unknown = 0;
    size_t n_words = 0;
    bell_status status;
    int code;

    if (options->format || options->what || options->arch || options->sm ||
        options->classes.n_items || options->assemble)
        return tool_usage(options->json,
                          "decode: a folder says itself what it holds");
    json_init(&json);
    json_str(&json, "format", "dump");
    json_null(&json, "what");
    json_array(&json, "lines");
    if (options->json)
        sink.json = &json;
    status = decode_dump(options->path, put_line, &sink, &n_words, &n_unknown);
    json_end(&json);
    json_uint(&json, "n_words", n_words);
    json_uint(&json, "n_unknown", n_unknown);
    if (status != BELL_OK) {
        json_fini(&json);
        return tool_fail(options->json, status);
    }
    if (options->json) {
        code = tool_print_json(&json);
        return code == TOOL_OK && n_unknown ? TOOL_FAILED : code;
    }
    json_fini(&json);
    if (n_unknown)
        tool_eprintf("doorbell: %u of %zu words could not be named\n",
                     n_unknown, n_words);
    return n_unknown ? TOOL_FAILED : TOOL_OK;
}

static int
refuse_what(const struct decode_options *options, const struct format *format)
{
    char list[64] = "";
    size_t i;

    for (i = 0; i < ARRAY_LEN(format->whats) && format->whats[i]; i++) {
        strcat(list, i ? ", " : "");
        strcat(list, format->whats[i]);
    }
    return tool_usage(options->json, "decode: --what %s is not one of %s",
                      options->what, list);
}

/* Chooses what is not said. */
static int
check_what(struct decode_options *options, const struct format *format)
{
    bool is_nv = strcmp(format->name, "nv") == 0;
    size_t i;

    if (!is_nv && !options->arch)
        return tool_usage(options->json, "decode: which --arch? %s",
                          is_adreno(format->name)
                              ? "a6xx, a7xx"
                              : "gfx942, gfx1100 and so on");
    if (is_nv && options->arch)
        return tool_usage(options->json,
                          "decode: --format nv goes by --sm or --class");
    if (options->assemble && strcmp(format->name, "ir3") != 0)
        return tool_usage(options->json, "decode: --assemble takes ir3 only");
    if (!options->what)
        options->what = format->whats[0];
    for (i = 0; i < ARRAY_LEN(format->whats) && format->whats[i]; i++) {
        if (strcmp(options->what, format->whats[i]) == 0)
            return TOOL_GO_ON;
    }
    return refuse_what(options, format);
}

static int
check_decode_options(struct decode_options *options)
{
    size_t i;

    if (!options->format)
        return tool_usage(
            options->json,
            "decode: which --format? nv, pm4, sdma, aql, pkt7, ir3");
    for (i = 0; i < ARRAY_LEN(formats); i++) {
        if (strcmp(options->format, formats[i].name) == 0)
            return check_what(options, &formats[i]);
    }
    return tool_usage(options->json,
                      "decode: --format %s is not known; there are nv, "
                      "pm4, sdma, aql, pkt7, ir3",
                      options->format);
}

int
verb_decode(int argc, char **argv)
{
    struct decode_options options = {0};
    const struct tool_opt opts[] = {
        {"FILE", NULL, TOOL_OPT_STRING, &options.path, 0, 0,
         "binary, or hexadecimal text; - or none: stdin; a folder: a dump of "
         "submissions"},
        {"--format", "FORMAT", TOOL_OPT_STRING, &options.format, 0, 0,
         "whose words: nv; of AMD pm4, sdma, aql; of Adreno pkt7 (packets), "
         "ir3 (shaders)"},
        {"--what", "WHAT", TOOL_OPT_STRING, &options.what, 0, 0,
         "nv: push (methods; default), ring (GPFIFO entries), qmd; aql: ring "
         "(default), kernel (descriptors)"},
        {"--sm", "SM", TOOL_OPT_STRING, &options.sm, 0, 0,
         "sm_90 and so on: its classes on the usual subchannels"},
        {"--arch", "ARCH", TOOL_OPT_STRING, &options.arch, 0, 0,
         "gfx942, gfx1100 and so on: the packets' dialect; "
         "a6xx or a7xx: the packets' or instructions'"},
        {"--class", "HEX", TOOL_OPT_LIST, &options.classes, 0, 0,
         "a GPFIFO, compute or copy class: c86f, cbc0, c8b5"},
        {"--qmd", "N", TOOL_OPT_INT, &options.qmd, 3, 5,
         "version of the QMDs (default: by class, or by the words)"},
        {"--va", "ADDRESS", TOOL_OPT_INT, &options.va, 0, INT64_MAX,
         "of a ring's first entry (default: 0)"},
        {"--assemble", NULL, TOOL_OPT_FLAG, &options.assemble, 0, 0,
         "the other way: FILE is instructions as text (ir3 alone)"},
        TOOL_JSON_OPT(&options.json),
    };
    int code;

    code = tool_parse(
        "decode --format FORMAT [FILE] [options]\n"
        "       doorbell decode FOLDER\n\n"
        "Says what the words of a pushbuffer, a ring, packets or a launch "
        "descriptor mean.\nExits with 1 if some could not be named:\n\n"
        "  echo 20012000 cbc0 200120b0 a | doorbell decode --format nv\n"
        "  echo c0004600 407 | doorbell decode --format pm4 --arch gfx942",
        opts, ARRAY_LEN(opts), argc, argv);
    if (code == TOOL_GO_ON && is_folder(options.path))
        return decode_folder(&options);
    if (code == TOOL_GO_ON)
        code = check_decode_options(&options);
    return code == TOOL_GO_ON ? decode_file(&options) : code;
}
