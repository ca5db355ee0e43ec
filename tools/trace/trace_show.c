/* `doorbell trace show|replay`: what is in cassettes. */
#include <inttypes.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "ioctl/cassette.h"
#include "ioctl/cassette_play.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"
#include "ioctl/kio_interface.h"
#include "ioctl/kio_replay.h"
#include "ioctl/nv_abi.h"
#include "base/json.h"
#include "tools/page.h"
#include "tools/story_html.h"
#include "tools/tools.h"
#include "tools/trace/trace.h"
#include "tools/trace/trace_story.h"

uint32_t
trace_branch(const struct cas_reader *reader)
{
    const char *line = strstr(cas_reader_identity(reader), "nvidia=");
    struct nv_abi abi;
    char text[256];
    uint32_t i;

    /* What the recorded program was told, which may be a simulated kernel's
     * word; else what the machine's kernel said. */
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);
        const struct cas_blob *path = cas_find(r, CAS_PATH);
        const struct cas_blob *said = cas_find(r, CAS_CONTENTS);
        if (r->kind != CAS_READ || !path || !said ||
            path->size_bytes != strlen(NV_VERSION_PATH) ||
            memcmp(path->data, NV_VERSION_PATH, path->size_bytes) != 0)
            continue;
        snprintf(text, sizeof(text), "%.*s", (int)said->size_bytes,
                 (const char *)said->data);
        line = text;
        break;
    }
    if (line && nv_abi_parse(line, &abi) == BELL_OK)
        return abi.branch;
    return NV_BRANCH_NEWEST;
}

/* ---- one line --------------------------------------------------------- */

void
trace_capture(const struct cas_record *record, uint32_t branch, bool after,
              struct kio_capture *capture)
{
    uint32_t i;

    memset(capture, 0, sizeof(*capture));
    kio_describe((enum kio_dev)record->dev, branch,
                 (unsigned long)record->args[0], &capture->call);
    for (i = 0; i < record->n_blobs; i++) {
        const struct cas_blob *b = &record->blobs[i];
        struct kio_blob *blob;
        if (b->extra >= KIO_CAPTURE_BLOBS || b->extra > capture->n_blobs ||
            (b->role != CAS_ARG_IN && !(after && b->role == CAS_ARG_OUT)))
            continue;
        blob = &capture->blobs[b->extra];
        if (b->extra == capture->n_blobs)
            capture->n_blobs++;
        blob->data = (uint8_t *)(uintptr_t)b->data;
        blob->size_bytes = b->size_bytes;
        blob->parent = b->parent;
        blob->field_offset_bytes = b->field_offset_bytes;
    }
    if (capture->n_blobs)
        capture->blobs[0].desc = capture->call.args;
    kio_capture_describe(capture, (enum kio_dev)record->dev, branch);
}

const char *
trace_region_name(uint32_t kind)
{
    static const char *const names[KIO_REGION_KIND_COUNT] = {
        "data", "ring", "push", "descriptor", "control", "signal",
    };

    return kind < KIO_REGION_KIND_COUNT ? names[kind] : "?";
}

static void
format_regions(const struct cas_record *record, char *buf, size_t buf_bytes)
{
    size_t len = 0;
    uint32_t i;

    buf[0] = '\0';
    for (i = 0; i < record->n_blobs && len < buf_bytes; i++) {
        const struct cas_blob *b = &record->blobs[i];
        int n = snprintf(buf + len, buf_bytes - len, " %s@0x%" PRIx64 "+%u",
                         trace_region_name(b->extra), b->addr, b->size_bytes);
        len += n > 0 ? (size_t)n : 0;
    }
}

static void
format_text(const struct cas_record *record, char *buf, size_t buf_bytes)
{
    const struct cas_blob *b = cas_find(record, CAS_PATH);

    if (!b)
        b = cas_find(record, CAS_TEXT);
    snprintf(buf, buf_bytes, "%.*s", b ? (int)b->size_bytes : 0,
             b ? (const char *)b->data : "");
}

void
trace_format(const struct cas_record *record, uint32_t branch, char *buf,
             size_t buf_bytes)
{
    const char *kind = cas_kind_name(record->kind);
    const uint64_t *a = record->args;
    char text[TRACE_LINE_BYTES];
    struct kio_capture capture;

    switch (record->kind) {
    case CAS_IOCTL:
        trace_capture(record, branch, true, &capture);
        (void)kio_capture_format(&capture, text, sizeof(text));
        snprintf(buf, buf_bytes, "%s %d %s 0x%" PRIx64 " = %" PRId64, kind,
                 record->fd, text, a[0], record->result);
        return;
    case CAS_MMAP:
        snprintf(buf, buf_bytes,
                 "%s %d %" PRIu64 " bytes at 0x%" PRIx64 " offset 0x%" PRIx64
                 " prot 0x%" PRIx64 " flags 0x%x = 0x%" PRIx64,
                 kind, record->fd, a[1], a[0], a[3], a[2] >> 32, (uint32_t)a[2],
                 (uint64_t)record->result);
        return;
    case CAS_MUNMAP:
        snprintf(buf, buf_bytes,
                 "%s 0x%" PRIx64 " %" PRIu64 " bytes = %" PRId64, kind, a[0],
                 a[1], record->result);
        return;
    case CAS_DOORBELL:
    case CAS_SAMPLE:
    case CAS_UPDATE:
        format_regions(record, text, sizeof(text));
        snprintf(buf, buf_bytes, "%s 0x%" PRIx64 " value 0x%" PRIx64 ":%s",
                 kind, a[0], a[1], text);
        return;
    case CAS_TOLD:
        format_text(record, text, sizeof(text));
        snprintf(buf, buf_bytes,
                 "%s %s%s%.100s%s, %" PRIu64 " bytes at 0x%" PRIx64
                 ", hash 0x%" PRIx64,
                 kind, cas_told_name(a[3]), text[0] ? " '" : "", text,
                 text[0] ? "'" : "", a[1], a[0], a[2]);
        return;
    default:
        format_text(record, text, sizeof(text));
        snprintf(buf, buf_bytes, "%s %d %s = %" PRId64, kind, record->fd, text,
                 record->result);
        return;
    }
}

/* ---- show ------------------------------------------------------------- */

static void
show_words(const struct cas_record *record)
{
    uint32_t i, k;

    for (i = 0; i < record->n_blobs; i++) {
        const struct cas_blob *b = &record->blobs[i];
        if (b->role != CAS_REGION && b->role != CAS_MEMORY)
            continue;
        for (k = 0; k + 4 <= b->size_bytes; k += 4) {
            uint32_t word;
            memcpy(&word, b->data + k, 4);
            if (k % 32 == 0)
                tool_printf("%s    0x%010" PRIx64 ":", k ? "\n" : "",
                            b->addr + k);
            tool_printf(" %08x", word);
        }
        tool_printf("\n");
    }
}

static void
print_decoded(void *user, const char *line)
{
    (void)user;
    tool_printf("      %s\n", line);
}

static void
put_decoded(void *user, const char *line)
{
    json_str(user, NULL, line);
}

/* The names of a call, and of the command or class that it is about. */
static void
put_call(struct json *json, const struct cas_record *record, uint32_t branch)
{
    const char *call = NULL, *about = NULL;
    struct kio_capture capture;

    if (record->kind == CAS_IOCTL) {
        trace_capture(record, branch, false, &capture);
        call = capture.call.name;
        about = capture.n_blobs > 1 ? capture.blobs[1].name : NULL;
    }
    json_str(json, "call", call);
    json_str(json, "about", about);
}

static void
put_regions(struct json *json, const struct cas_record *record)
{
    uint32_t i;

    json_array(json, "regions");
    for (i = 0; i < record->n_blobs; i++) {
        const struct cas_blob *blob = &record->blobs[i];

        if (blob->role != CAS_REGION)
            continue;
        json_object(json, NULL);
        json_str(json, "kind", trace_region_name(blob->extra));
        json_uint(json, "address", blob->addr);
        json_uint(json, "bytes", blob->size_bytes);
        json_end(json);
    }
    json_end(json);
}

static void
put_record(struct json *json, struct trace_decoder *decoder,
           const struct cas_record *r)
{
    char line[TRACE_LINE_BYTES];

    trace_format(r, decoder->branch, line, sizeof(line));
    json_object(json, NULL);
    json_str(json, "kind", cas_kind_name(r->kind));
    json_uint(json, "time_ns", r->time_ns);
    json_uint(json, "pid", r->pid);
    json_uint(json, "tid", r->tid);
    json_str(json, "device", kio_dev_name((enum kio_dev)r->dev));
    json_int(json, "result", r->result);
    put_call(json, r, decoder->branch);
    json_str(json, "text", line);
    put_regions(json, r);
    json_array(json, "decoded");
    trace_decode(decoder, r);
    json_end(json);
    json_end(json);
}

/* The document, which the caller ends. */
static void
build_json(struct json *json, const struct cas_reader *reader,
           const struct trace_story *story, uint32_t branch)
{
    struct trace_decoder decoder;
    uint32_t i;

    trace_decoder_init(&decoder, branch, put_decoded, json);
    json_init(json);
    json_str(json, "identity", cas_reader_identity(reader));
    json_bool(json, "truncated", cas_reader_truncated(reader));
    trace_story_put(story, json);
    json_array(json, "records");
    for (i = 0; i < cas_reader_count(reader); i++)
        put_record(json, &decoder, cas_reader_get(reader, i));
    json_end(json);
}

static bell_status
write_page(const char *path, struct json *json)
{
    const char *text = json_text(json);
    struct page_document document = {"@STORY@", text, 0};

    if (!text)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", path);
    document.n_bytes = strlen(text);
    return page_write(path, story_html, &document, 1);
}

static void
show_text(const struct cas_reader *reader, const struct trace_story *story,
          uint32_t branch, bool brief, bool words)
{
    struct trace_decoder decoder;
    char line[TRACE_LINE_BYTES];
    uint32_t i;

    trace_decoder_init(&decoder, branch, print_decoded, NULL);
    tool_printf("%s", cas_reader_identity(reader));
    if (cas_reader_truncated(reader))
        tool_printf("truncated=yes\n");
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *r = cas_reader_get(reader, i);
        uint64_t first_ns = cas_reader_get(reader, 0)->time_ns;
        trace_format(r, branch, line, sizeof(line));
        tool_printf("%6u %12.6f %u/%u %s\n", i,
                    (double)(r->time_ns - first_ns) / 1e9, r->pid, r->tid,
                    line);
        if (!brief)
            trace_decode(&decoder, r);
        if (words)
            show_words(r);
    }
    trace_story_print(story);
}

struct show_options {
    const char *path, *html;
    bool json, words, brief;
};

static int
show_trace(const struct cas_reader *reader, const struct show_options *options)
{
    uint32_t branch = trace_branch(reader);
    struct trace_story story;
    bell_status status;
    struct json json;
    int code = TOOL_OK;

    status = trace_story_read(reader, branch, &story);
    if (status != BELL_OK)
        return tool_fail(options->json, status);
    if (options->json || options->html)
        build_json(&json, reader, &story, branch);
    else
        show_text(reader, &story, branch, options->brief, options->words);
    trace_story_free(&story);
    if (options->html)
        status = write_page(options->html, &json);
    if (status != BELL_OK)
        code = tool_fail(options->json, status);
    if (options->json && status == BELL_OK)
        return tool_print_json(&json);
    if (options->json || options->html)
        json_fini(&json);
    return code;
}

int
trace_show(int argc, char **argv)
{
    struct show_options options = {NULL, NULL, false, false, false};
    const struct tool_opt opts[] = {
        {"FILE", NULL, TOOL_OPT_STRING, &options.path, 0, 0, "the cassette"},
        {"--brief", NULL, TOOL_OPT_FLAG, &options.brief, 0, 0,
         "a line per record: submissions are not decoded"},
        {"--words", NULL, TOOL_OPT_FLAG, &options.words, 0, 0,
         "the submitted memory as words"},
        {"--html", "FILE", TOOL_OPT_STRING, &options.html, 0, 0,
         "a page that needs nothing else, in place of text"},
        {"--json", NULL, TOOL_OPT_FLAG, &options.json, 0, 0, "one document"},
    };
    struct cas_reader *reader;
    bell_status status;
    int code;

    code = tool_parse("trace show FILE", opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (!options.path)
        return tool_usage(options.json, "trace show: which FILE?");
    status = cas_reader_open(options.path, &reader);
    if (status != BELL_OK)
        return tool_fail(options.json, status);
    code = show_trace(reader, &options);
    cas_reader_close(reader);
    return code;
}

/* ---- replay ----------------------------------------------------------- */

static void
print_difference(void *user, uint32_t record, const char *text)
{
    struct json *json = user;

    if (!json) {
        tool_printf("%6u %s\n", record, text);
        return;
    }
    json_object(json, NULL);
    json_uint(json, "record", record);
    json_str(json, "text", text);
    json_end(json);
}

/* The backend whose kernel the calls are for; NULL: they do not say. */
static const char *
backend_of(const struct cas_reader *reader)
{
    const char *backend = NULL;
    uint32_t i;

    for (i = 0; i < cas_reader_count(reader); i++) {
        switch (cas_reader_get(reader, i)->dev) {
        case KIO_DEV_NV_CTL:
        case KIO_DEV_NV_GPU:
        case KIO_DEV_NV_UVM:
            return "NV";
        case KIO_DEV_KFD:
            return "AMD";
        case KIO_DEV_KGSL:
            return "QCOM";
        case KIO_DEV_DRM: /* AMD has such nodes beside KFD's */
            backend = "QCOM";
            break;
        default:
            break;
        }
    }
    return backend;
}

static bell_status
play_on(const struct cas_reader *reader, const char *against, struct json *json,
        struct cas_play_report *report)
{
    const char *interface = strchr(against, '@'), *recorded;
    struct kio *kio;
    char backend[8];
    bell_status status;

    if (interface) {
        snprintf(backend, sizeof(backend), "%.*s", (int)strcspn(against, ":@"),
                 against);
        recorded = backend_of(reader);
        if (recorded && strcmp(recorded, backend) != 0)
            return bell_fail(BELL_E_INVALID,
                             "--against %s: the recorded calls are those of "
                             "%s@...",
                             against, recorded);
        BELL_TRY(kio_open_interface(backend, interface + 1, &kio));
    } else if (access(against, F_OK) < 0 && errno == ENOENT) {
        return bell_fail(BELL_E_INVALID,
                         "--against %s: neither a cassette nor a device such "
                         "as NV@sim:sm_90",
                         against);
    } else {
        BELL_TRY(kio_replay_create(against, &kio));
    }
    kio_set_branch(kio, trace_branch(reader));
    status = cas_play(reader, kio, print_difference, json, report);
    if (status == BELL_OK && !interface)
        status = kio_replay_finish(kio);
    kio_destroy(kio);
    return status;
}

int
trace_replay(int argc, char **argv)
{
    const char *path = NULL, *against = NULL;
    bool as_json = false;
    const struct tool_opt opts[] = {
        {"FILE", NULL, TOOL_OPT_STRING, &path, 0, 0, "the calls to make"},
        {"--against", "OTHER", TOOL_OPT_STRING, &against, 0, 0,
         "what answers them: a cassette, or a device such as NV@sim:sm_90; "
         "FILE itself if not given"},
        {"--json", NULL, TOOL_OPT_FLAG, &as_json, 0, 0, "one document"},
    };
    struct json json;
    struct cas_play_report report = {0};
    struct cas_reader *reader;
    bell_status status;
    int code;

    code = tool_parse("trace replay FILE", opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (!path)
        return tool_usage(as_json, "trace replay: which FILE?");
    status = cas_reader_open(path, &reader);
    if (status != BELL_OK)
        return tool_fail(as_json, status);
    trace_tell_truncated(path, reader);
    json_init(&json);
    json_array(&json, "differences");
    status = play_on(reader, against ? against : path, as_json ? &json : NULL,
                     &report);
    json_end(&json);
    json_uint(&json, "n_calls", report.n_calls);
    json_uint(&json, "n_differences", report.n_differ);
    json_bool(&json, "truncated", cas_reader_truncated(reader));
    cas_reader_close(reader);
    if (!as_json && status == BELL_OK)
        tool_printf("%u calls, %u differences\n", report.n_calls,
                    report.n_differ);
    if (status != BELL_OK || !as_json)
        json_fini(&json);
    if (status != BELL_OK)
        return tool_fail(as_json, status);
    if (as_json && (code = tool_print_json(&json)) != TOOL_OK)
        return code;
    return report.n_differ ? TOOL_FAILED : TOOL_OK;
}
