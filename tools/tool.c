/* Option parsing and messages of the verbs. */
#include "tools/tools.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/json.h"

/* ---- suggestions ------------------------------------------------------ */

const char *
tool_nearest(const char *name, const char *const *names, size_t n_names)
{
    struct nearest search = {.name = name};
    size_t i;

    for (i = 0; i < n_names; i++)
        nearest_try(&search, names[i], names[i]);
    return search.best;
}

/* ---- messages --------------------------------------------------------- */

/* {"error": {...}} on stdout. */
static void
print_error_json(const struct bell_error *error, int exit_code)
{
    char buf[8192]; /* memory may be what ran out */
    struct json json;
    const char *text;
    uint32_t i;

    json_init_fixed(&json, buf, sizeof(buf));
    json_object(&json, "error");
    json_str(&json, "message", error->message);
    json_str(&json, "status", bell_status_name(error->status));
    json_str(&json, "reason", bell_reason_name(error->reason));
    json_int(&json, "exit_code", exit_code);
    json_int(&json, "suppressed", error->n_suppressed);
    for (i = error->n_frames; i > 0; i--) {
        if (strncmp(error->frames[i - 1], "bell_", 5) == 0)
            break;
    }
    if (i > 0) /* the outermost call of the API */
        json_str(&json, "call", error->frames[i - 1]);
    else
        json_null(&json, "call");
    if (error->sys_errno)
        json_str(&json, "errno", strerror(error->sys_errno));
    else
        json_null(&json, "errno");
    json_array(&json, "frames");
    for (i = 0; i < error->n_frames; i++)
        json_str(&json, NULL, error->frames[i]);
    json_end(&json);
    json_end(&json);
    text = json_text(&json);
    fputs(text ? text : "{\"error\": {\"message\": \"too long to tell\"}}\n",
          stdout);
}

static int
tell_error(bool json, const struct bell_error *error, int exit_code)
{
    tool_progress(NULL);
    tool_eprintf("doorbell: %s\n", error->message);
    if (error->n_suppressed)
        tool_eprintf("doorbell: %u more calls failed while cleaning up\n",
                     error->n_suppressed);
    if (json)
        print_error_json(error, exit_code);
    return exit_code;
}

static int
tell_last(bool json, bell_status status, int exit_code)
{
    struct bell_error error = *bell_error_last();

    /* A call that fails without leaving a record is a mistake of ours; tell
     * what is known. */
    if (error.status != status) {
        memset(&error, 0, sizeof(error));
        error.status = status;
        snprintf(error.message, sizeof(error.message), "%s",
                 bell_status_name(status));
    }
    return tell_error(json, &error, exit_code);
}

int
tool_fail(bool json, bell_status status)
{
    return tell_last(json, status, bell_status_exit_code(status));
}

int
tool_fail_input(bool json, bell_status status)
{
    return tell_last(json, status,
                     status == BELL_E_INVALID ? TOOL_FAILED
                                              : bell_status_exit_code(status));
}

int
tool_fail_text(bool json, bell_status status, const char *fmt, ...)
{
    struct bell_error error;
    char text[BELL_ERROR_MESSAGE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    status = bell_fail(status, "%s", text); /* which may say why */
    error = *bell_error_last();
    error.n_frames = 0;
    return tell_error(json, &error, bell_status_exit_code(status));
}

bool
tool_asks_for_json(int argc, char **argv)
{
    int i;

    for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}

/* Text of any length; of what has no memory, the beginning. */
static void
print_shown(FILE *out, const char *fmt, va_list args)
{
    char room[1024], shown[TEXT_SHOWN_BYTES], *text = room;
    const char *at;
    va_list again;
    size_t n;
    int len;

    va_copy(again, args);
    len = vsnprintf(room, sizeof(room), fmt, args);
    if (len >= (int)sizeof(room)) {
        text = host_alloc((size_t)len + 1);
        if (text)
            vsnprintf(text, (size_t)len + 1, fmt, again);
        else
            text = room;
    }
    va_end(again);
    for (at = text; *at;) {
        at += text_show(at, "\n\t", shown, &n);
        fwrite(shown, 1, n, out);
    }
    if (text != room)
        host_free(text);
}

void
tool_say(struct json *lines, const char *fmt, ...)
{
    char line[2048 + 128];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (lines)
        json_str(lines, NULL, line);
    else
        tool_printf("%s\n", line);
}

void
tool_printf(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    print_shown(stdout, fmt, args);
    va_end(args);
}

void
tool_eprintf(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    print_shown(stderr, fmt, args);
    va_end(args);
}

int
tool_usage(bool json, const char *fmt, ...)
{
    char message[BELL_ERROR_MESSAGE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    return tool_fail_text(json, BELL_E_INVALID, "%s", message);
}

void
tool_progress(const char *fmt, ...)
{
    va_list args;

    if (!isatty(STDERR_FILENO))
        return;
    fputs("\r\033[K", stderr);
    if (fmt) {
        va_start(args, fmt);
        print_shown(stderr, fmt, args);
        va_end(args);
    }
    fflush(stderr);
}

int
tool_exit_code(int code)
{
    bool failed = fflush(stdout) != 0;

    /* the failure of a line is not that of the flush behind it */
    if ((failed || ferror(stdout)) && code == TOOL_OK)
        code = tool_fail_text(false, BELL_E_IO, "cannot write to stdout");
    if (log_has_lost() && code == TOOL_OK)
        code = bell_status_exit_code(BELL_E_IO); /* it was told */
    return code;
}

int
tool_print_json(struct json *json)
{
    const char *text = json_text(json);
    int code = TOOL_OK;

    if (!text)
        code = tool_fail_text(true, BELL_E_NO_MEMORY, "out of memory");
    else if (fputs(text, stdout) == EOF)
        code = tool_fail_text(false, BELL_E_IO, "cannot write to stdout");
    json_fini(json);
    return code;
}

int
tool_print_saved(const char *path)
{
    struct json json;

    json_init(&json);
    json_str(&json, "saved", path);
    return tool_print_json(&json);
}

/* ---- options ---------------------------------------------------------- */

#ifdef TOOL_HELP_DOCUMENT /* doorbell */
#define TOOL_BEFORE_VERB " "
#else /* doorbell-run */
#define TOOL_BEFORE_VERB "-"
#endif

struct parse {
    const char *verb;
    const struct tool_opt *opts;
    size_t n_opts;
    uint64_t given; /* a bit each of opts */
    bool json;      /* errors are told as a document too */
};

static bool
is_positional(const struct tool_opt *opt)
{
    return opt->name[0] != '-';
}

static void
print_opt_help(const struct tool_opt *opt)
{
    char left[64];

    snprintf(left, sizeof(left), "%s%s%s", opt->name, opt->value ? " " : "",
             opt->value ? opt->value : "");
    tool_printf("  %-20s %s\n", left, opt->help);
}

static int
print_verb_help(const struct parse *parse, const char *about)
{
    size_t i;

    tool_printf("usage: doorbell%s%s\n\n", TOOL_BEFORE_VERB, about);
    for (i = 0; i < parse->n_opts; i++)
        print_opt_help(&parse->opts[i]);
    tool_printf("  %-20s %s\n", "-h", "this help");
    return TOOL_OK;
}

#ifdef TOOL_HELP_DOCUMENT
/* The same for programs: manuals and completions are made from it. */
static int
print_help_document(const struct parse *parse, const char *about)
{
    size_t n = strcspn(about, "\n"), i;
    char usage[160];
    struct json json;

    snprintf(usage, sizeof(usage), "%.*s", (int)n, about);
    json_init(&json);
    json_str(&json, "usage", usage);
    json_str(&json, "about", about + n + strspn(about + n, "\n"));
    json_array(&json, "options");
    for (i = 0; i < parse->n_opts; i++) {
        const struct tool_opt *opt = &parse->opts[i];

        json_object(&json, NULL);
        json_str(&json, "name", opt->name);
        json_str(&json, "value", opt->value);
        json_bool(&json, "is_argument", is_positional(opt));
        json_bool(&json, "repeats", opt->kind == TOOL_OPT_LIST);
        json_str(&json, "help", opt->help);
        json_end(&json);
    }
    json_end(&json);
    return tool_print_json(&json);
}
#endif

static int
tell_verb_help(const struct parse *parse, const char *about)
{
#ifdef TOOL_HELP_DOCUMENT
    if (parse->json)
        return print_help_document(parse, about);
#endif
    return print_verb_help(parse, about);
}

/* The option called by the first `len` bytes of `text`. "--devices", for a
 * list, is "--device", but where a verb has an option of that name. */
static const struct tool_opt *
find_opt(const struct parse *parse, const char *text, size_t len)
{
    static const char devices[] = "--devices";
    size_t i;

    for (i = 0; i < parse->n_opts; i++) {
        const struct tool_opt *opt = &parse->opts[i];
        if (!is_positional(opt) && strlen(opt->name) == len &&
            memcmp(opt->name, text, len) == 0)
            return opt;
    }
    return len == strlen(devices) && memcmp(text, devices, len) == 0
               ? find_opt(parse, text, len - 1)
               : NULL;
}

static int
refuse_opt(const struct parse *parse, const char *text, size_t len)
{
    const char *names[TOOL_LIST_MAX], *nearest;
    char name[64];
    size_t i, n_names = 0;

    for (i = 0; i < parse->n_opts && n_names < TOOL_LIST_MAX; i++) {
        if (!is_positional(&parse->opts[i]))
            names[n_names++] = parse->opts[i].name;
    }
    snprintf(name, sizeof(name), "%.*s", (int)len, text);
    nearest = tool_nearest(name, names, n_names);
    if (nearest)
        return tool_usage(parse->json, "%s: no option '%s'; did you mean '%s'?",
                          parse->verb, name, nearest);
    return tool_usage(parse->json, "%s: no option '%s'", parse->verb, name);
}

static int
set_int(const struct parse *parse, const struct tool_opt *opt, const char *text)
{
    bool any = opt->min == 0 && opt->max == 0;
    long long value;
    char *end;

    errno = 0;
    value = strtoll(text, &end, 0);
    if (end == text || *end || errno)
        return tool_usage(parse->json, "%s: %s '%s' is not an integer",
                          parse->verb, opt->name, text);
    if (!any && (value < opt->min || value > opt->max))
        return tool_usage(parse->json, "%s: %s %lld is not in %lld..%lld",
                          parse->verb, opt->name, value, (long long)opt->min,
                          (long long)opt->max);
    *(int64_t *)opt->out = value;
    return TOOL_GO_ON;
}

bool
tool_read_number(const char *text, double *out)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end || !isfinite(number))
        return false;
    *out = number;
    return true;
}

static int
set_opt(const struct parse *parse, const struct tool_opt *opt, const char *text)
{
    struct tool_list *list;
    double number;

    switch (opt->kind) {
    case TOOL_OPT_FLAG:
        *(bool *)opt->out = true;
        break;
    case TOOL_OPT_STRING:
        *(const char **)opt->out = text;
        break;
    case TOOL_OPT_INT:
        return set_int(parse, opt, text);
    case TOOL_OPT_READ:
        if (!opt->read(text, &number))
            return tool_usage(parse->json, "%s: %s '%s' is not a number",
                              parse->verb, opt->name, text);
        if (opt->max > opt->min &&
            !(number > (double)opt->min && number <= (double)opt->max))
            return tool_usage(parse->json,
                              "%s: %s %s is not above %lld and at most %lld",
                              parse->verb, opt->name, text, (long long)opt->min,
                              (long long)opt->max);
        *(double *)opt->out = number;
        break;
    case TOOL_OPT_LIST:
        list = opt->out;
        if (list->n_items == TOOL_LIST_MAX)
            return tool_usage(parse->json, "%s: %s more than %d times",
                              parse->verb, opt->name, TOOL_LIST_MAX);
        list->items[list->n_items++] = text;
        break;
    }
    return TOOL_GO_ON;
}

/* Bytes of an item that no other of its list may begin with: its name. */
static size_t
key_len(const struct tool_opt *opt, const char *item)
{
    return strncmp(opt->value, "name=", 5) == 0 ? strcspn(item, "=@")
                                                : strlen(item);
}

static bool
is_in_list(const struct tool_opt *opt, const char *text)
{
    const struct tool_list *list = opt->out;
    size_t n = key_len(opt, text), i;

    for (i = 0; i < list->n_items; i++) {
        if (key_len(opt, list->items[i]) == n &&
            memcmp(list->items[i], text, n) == 0)
            return true;
    }
    return false;
}

/* An option's value, which is `text`. */
static int
give_opt(struct parse *parse, const struct tool_opt *opt, const char *text)
{
    uint64_t bit = 1ull << (opt - parse->opts);

    if (opt->kind == TOOL_OPT_LIST && is_in_list(opt, text))
        return tool_usage(parse->json, "%s: %s %.*s is given twice",
                          parse->verb, opt->name, (int)key_len(opt, text),
                          text);
    if (opt->kind != TOOL_OPT_LIST && parse->given & bit)
        return tool_usage(parse->json, "%s: %s is given twice", parse->verb,
                          opt->name);
    parse->given |= bit;
    if (!*text && strcmp(opt->value, "TEXT") != 0 &&
        strcmp(opt->value, "TOPICS") != 0)
        return tool_usage(parse->json, "%s: %s needs a value (%s), got none",
                          parse->verb, opt->name, opt->value);
    return set_opt(parse, opt, text);
}

/* Parses the option argv[*i]; moves *i onto its value. */
static int
parse_opt(struct parse *parse, int argc, char **argv, int *i)
{
    const char *text = argv[*i], *value = strchr(text, '=');
    size_t len = value ? (size_t)(value - text) : strlen(text);
    const struct tool_opt *opt = find_opt(parse, text, len);

    if (!opt)
        return refuse_opt(parse, text, len);
    if (opt->kind == TOOL_OPT_FLAG) {
        if (value)
            return tool_usage(parse->json, "%s: %s takes no value", parse->verb,
                              opt->name);
        return set_opt(parse, opt, NULL);
    }
    if (value)
        return give_opt(parse, opt, value + 1);
    if (*i + 1 == argc)
        return tool_usage(parse->json, "%s: %s needs a value (%s)", parse->verb,
                          opt->name, opt->value);
    return give_opt(parse, opt, argv[++*i]);
}

static int
parse_positional(const struct parse *parse, size_t nth, const char *text)
{
    size_t i;

    for (i = 0; i < parse->n_opts; i++) {
        if (!is_positional(&parse->opts[i]))
            continue;
        if (nth == 0 || parse->opts[i].kind == TOOL_OPT_LIST)
            return set_opt(parse, &parse->opts[i], text);
        nth--;
    }
    return tool_usage(parse->json, "%s: unexpected argument '%s'", parse->verb,
                      text);
}

/* Whether '-' and that begin an option: not -2, -.5 and -(x + y), which are
 * arguments. */
static bool
is_opt_start(char c)
{
    return c == '-' || isalpha((unsigned char)c);
}

int
tool_parse(const char *about, const struct tool_opt *opts, size_t n_opts,
           int argc, char **argv)
{
    struct parse parse = {.verb = argv[0], .opts = opts, .n_opts = n_opts};
    bool opts_ended = false;
    size_t n_positional = 0;
    int i, code;

    assert(n_opts <= 64); /* bits of parse.given */
    parse.json = tool_asks_for_json(argc, argv);
    for (i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (!opts_ended && strcmp(text, "--") == 0) {
            opts_ended = true;
            continue;
        }
        if (opts_ended || text[0] != '-' || !is_opt_start(text[1]))
            code = parse_positional(&parse, n_positional++, text);
        else if (strcmp(text, "-h") == 0 || strcmp(text, "--help") == 0)
            return tell_verb_help(&parse, about);
        else
            code = parse_opt(&parse, argc, argv, &i);
        if (code != TOOL_GO_ON)
            return code;
    }
    return TOOL_GO_ON;
}
