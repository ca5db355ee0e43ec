/* `doorbell selftest`: the verb; running and telling steps. */
#include "tools/selftest/selftest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/env.h"
#include "base/thread.h"
#include "ioctl/kio_interface.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/selftest/selftest_again.h"
#include "tools/tools.h"

struct selftest_options {
    const char *device, *from, *only, *save;
    int64_t repeat, programs;
    bool json, list, keep_going;
};

/* How a step came out. */
struct outcome {
    enum selftest_verdict verdict;
    uint64_t n_runs, n_failed, total_ns;
    char sent[SELFTEST_TEXT_MAX], came[SELFTEST_TEXT_MAX]; /* first failure */
    struct selftest_again again;
};

struct tally {
    unsigned n_passed, n_failed, n_skipped;
};

static const struct selftest_step *const groups[] = {
    selftest_rm_steps,     selftest_kfd_steps,   selftest_queue_steps,
    selftest_kernel_steps, selftest_fault_steps, selftest_model_steps,
    selftest_tensor_steps,
};

static const char *const verdict_names[SELFTEST_VERDICT_COUNT] = {
    "passed", "failed", "skipped"};

/* ---- telling ---- */

void
selftest_sent(struct selftest *st, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(st->sent, sizeof(st->sent), fmt, args);
    va_end(args);
}

double
selftest_clock_ratio(const struct selftest_moment *first,
                     const struct selftest_moment *last)
{
    double device = (double)last->device_ns - (double)first->device_ns;
    double least = (double)last->before_ns - (double)first->after_ns;
    double most = (double)last->after_ns - (double)first->before_ns;

    if (device < least)
        return device / least;
    return device > most ? device / most : 1;
}

void
selftest_note(struct selftest *st, const char *fmt, ...)
{
    va_list args;

    if (st->run > 0 || st->n_notes == SELFTEST_NOTES_MAX)
        return;
    va_start(args, fmt);
    vsnprintf(st->notes[st->n_notes], sizeof(st->notes[0]), fmt, args);
    va_end(args);
    st->n_notes++;
}

enum selftest_verdict
selftest_fail(struct selftest *st, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(st->came, sizeof(st->came), fmt, args);
    va_end(args);
    return SELFTEST_FAILED;
}

enum selftest_verdict
selftest_skip(struct selftest *st, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(st->came, sizeof(st->came), fmt, args);
    va_end(args);
    return SELFTEST_SKIPPED;
}

enum selftest_verdict
selftest_error(struct selftest *st)
{
    const struct bell_error *error = bell_error_last();

    /* A lack of the device is not a mistake. */
    if (error->status == BELL_E_UNSUPPORTED)
        return selftest_skip(st, "%s", error->message);
    return selftest_fail(st, "%s: %s", bell_status_name(error->status),
                         error->message);
}

/* ---- running ---- */

/* Whether a cassette stands for the kernel. */
static bool
is_replay(const struct selftest *st)
{
    return strstr(st->interface, "replay:") != NULL;
}

static bool
applies(const struct selftest *st, const struct selftest_step *step)
{
    bool is_nv = strcmp(st->backend, "NV") == 0;
    bool is_amd = strcmp(st->backend, "AMD") == 0;

    if (step->flags & (SELFTEST_NV | SELFTEST_PTX))
        return is_nv;
    if (step->flags & SELFTEST_AMD)
        return is_amd;
    return is_nv || is_amd || !(step->flags & SELFTEST_CARD);
}

static bool
is_apart(const struct selftest *st, const struct selftest_step *step)
{
    return step->flags & SELFTEST_APART && strcmp(st->backend, "AMD") == 0 &&
           !is_replay(st);
}

/* What a child tells of its step. */
struct told {
    enum selftest_verdict verdict;
    char sent[SELFTEST_TEXT_MAX], came[SELFTEST_TEXT_MAX];
    char notes[SELFTEST_NOTES_MAX][320];
    size_t n_notes;
};

static void
run_in_child(struct selftest *st, const struct selftest_step *step,
             struct told *told)
{
    selftest_forget(st);
    selftest_note(st, "in a process of its own");
    told->verdict = step->run(st);
    selftest_close(st);
    memcpy(told->sent, st->sent, sizeof(told->sent));
    memcpy(told->came, st->came, sizeof(told->came));
    memcpy(told->notes, st->notes, sizeof(told->notes));
    told->n_notes = st->n_notes;
}

static enum selftest_verdict
run_apart(struct selftest *st, const struct selftest_step *step)
{
    struct told *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    enum selftest_verdict verdict;
    int status = 0;
    pid_t child;

    if (told == MAP_FAILED)
        return selftest_fail(st, "no memory for a child's report");
    fflush(NULL);
    child = fork();
    if (child == 0) {
        run_in_child(st, step, told);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        verdict =
            selftest_fail(st, "no process for the step: %s", strerror(errno));
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        verdict = selftest_fail(st, "the step's process ended with %s %d",
                                WIFSIGNALED(status) ? "signal" : "status",
                                WIFSIGNALED(status) ? WTERMSIG(status)
                                                    : WEXITSTATUS(status));
    } else {
        verdict = told->verdict;
        memcpy(st->sent, told->sent, sizeof(told->sent));
        memcpy(st->came, told->came, sizeof(told->came));
        memcpy(st->notes, told->notes, sizeof(told->notes));
        st->n_notes = told->n_notes;
    }
    munmap(told, sizeof(*told));
    return verdict;
}

static uint64_t
repetitions(const struct selftest_step *step, int64_t repeat)
{
    if (step->flags & SELFTEST_ONCE)
        return 1;
    if (step->flags & SELFTEST_SLOW && repeat > SELFTEST_SLOW_MAX)
        return SELFTEST_SLOW_MAX;
    return (uint64_t)repeat;
}

static void
run_step(struct selftest *st, const struct selftest_step *step, uint64_t n,
         struct outcome *out)
{
    uint64_t start = time_now_ns();

    memset(out, 0, sizeof(*out));
    st->n_notes = 0;
    for (st->run = 0; st->run < n; st->run++) {
        enum selftest_verdict verdict;
        st->sent[0] = st->came[0] = '\0';
        verdict = is_apart(st, step) ? run_apart(st, step) : step->run(st);
        selftest_end_step(st);
        out->n_runs++;
        if (verdict == SELFTEST_PASSED)
            continue;
        if (out->n_failed == 0) {
            out->verdict = verdict;
            memcpy(out->sent, st->sent, sizeof(out->sent));
            memcpy(out->came, st->came, sizeof(out->came));
        }
        if (verdict == SELFTEST_SKIPPED)
            break;
        /* How often it fails is worth knowing, up to a point. */
        if (++out->n_failed >= 20 && out->n_failed == out->n_runs)
            break;
    }
    out->total_ns = time_now_ns() - start;
}

/* ---- the report ---- */

static const char *
look_at(const struct selftest *st, const struct selftest_step *step)
{
    const char *text = NULL;

    if (is_replay(st))
        return "the cassette: it answers calls and computes nothing, so a "
               "step that reads results fails on it, and one that it does not "
               "hold";
    if (strcmp(st->backend, "AMD") == 0)
        text = selftest_amd_look_at(step->name);
    return text ? text : step->look_at;
}

static const char *
for_whom(const struct selftest_step *step)
{
    if (step->flags & (SELFTEST_NV | SELFTEST_PTX))
        return "NV";
    if (step->flags & SELFTEST_AMD)
        return "AMD";
    return step->flags & SELFTEST_CARD ? "NV, AMD" : "any device";
}

static void
print_block(const char *label, const char *text)
{
    tool_printf("       %-8s %s\n", label, text);
}

static void
print_failure(const struct selftest *st, const struct selftest_step *step,
              const struct outcome *out)
{
    size_t i;

    print_block("sent", out->sent[0] ? out->sent : "the call that came back:");
    print_block("came", out->came);
    if (out->n_runs > 1)
        tool_printf("       %-8s %" PRIu64 " of %" PRIu64 " runs failed\n",
                    "rate", out->n_failed, out->n_runs);
    print_block("look at", look_at(st, step));
    if (out->again.told)
        print_block("again", out->again.text);
    for (i = 0; i < out->again.n_lines; i++)
        tool_printf("                %s\n", out->again.lines[i]);
}

static void
print_step(const struct selftest *st, const struct selftest_step *step,
           unsigned number, const struct outcome *out)
{
    static const char *const words[SELFTEST_VERDICT_COUNT] = {"ok", "FAILED",
                                                              "skip"};
    size_t i;

    tool_printf("%3u %-16s %-6s %9.1f ms", number, step->name,
                words[out->verdict], (double)out->total_ns / 1e6);
    if (out->n_runs > 1)
        tool_printf(" / %" PRIu64, out->n_runs);
    tool_printf("  %s\n",
                out->verdict == SELFTEST_SKIPPED ? out->came : step->proves);
    for (i = 0; i < st->n_notes; i++)
        tool_printf("       %s\n", st->notes[i]);
    if (out->verdict == SELFTEST_FAILED)
        print_failure(st, step, out);
    fflush(stdout);
}

static void
put_selftest_text(struct json *json, const char *key, const char *text)
{
    if (text[0])
        json_str(json, key, text);
    else
        json_null(json, key);
}

static void
put_step(struct json *json, const struct selftest *st,
         const struct selftest_step *step, const struct outcome *out)
{
    bool failed = out->verdict == SELFTEST_FAILED;
    size_t i;

    json_object(json, NULL);
    json_str(json, "name", step->name);
    json_str(json, "verdict", verdict_names[out->verdict]);
    json_str(json, "proves", step->proves);
    json_uint(json, "n_runs", out->n_runs);
    json_uint(json, "n_failed", out->n_failed);
    json_num(json, "time_ms", (double)out->total_ns / 1e6);
    if (out->verdict == SELFTEST_SKIPPED)
        put_selftest_text(json, "why", out->came);
    if (failed) {
        put_selftest_text(json, "sent", out->sent);
        put_selftest_text(json, "came", out->came);
        json_str(json, "look_at", look_at(st, step));
        put_selftest_text(json, "again", out->again.text);
        json_array(json, "again_sent");
        for (i = 0; i < out->again.n_lines; i++)
            json_str(json, NULL, out->again.lines[i]);
        json_end(json);
    }
    json_array(json, "notes");
    for (i = 0; i < st->n_notes; i++)
        json_str(json, NULL, st->notes[i]);
    json_end(json);
    json_end(json);
}

/* ---- all steps ---- */

static const struct selftest_step *
step_at(size_t idx)
{
    size_t g;

    for (g = 0; g < ARRAY_LEN(groups); g++) {
        const struct selftest_step *step;
        for (step = groups[g]; step->name; step++) {
            if (idx-- == 0)
                return step;
        }
    }
    return NULL;
}

const struct selftest_step *
selftest_find_step(const char *name)
{
    const struct selftest_step *step;
    size_t i;

    for (i = 0; (step = step_at(i)) != NULL; i++) {
        if (strcmp(step->name, name) == 0)
            return step;
    }
    return NULL;
}

static int
check_name(const struct selftest_options *options, const char *name)
{
    const char *names[128], *nearest;
    const struct selftest_step *step;
    size_t n;

    for (n = 0; (step = step_at(n)) != NULL && n < ARRAY_LEN(names); n++) {
        if (strcmp(step->name, name) == 0)
            return TOOL_GO_ON;
        names[n] = step->name;
    }
    nearest = tool_nearest(name, names, n);
    return tool_usage(options->json, "selftest: no step '%s'%s%s%s; --list",
                      name, nearest ? "; did you mean '" : "",
                      nearest ? nearest : "", nearest ? "'?" : "");
}

static bool
is_chosen(const struct selftest_options *options,
          const struct selftest_step *step, bool *started)
{
    if (options->only || step->flags & SELFTEST_ASKED)
        return options->only && strcmp(options->only, step->name) == 0;
    if (options->from && strcmp(options->from, step->name) == 0)
        *started = true;
    return *started;
}

/* The first failures are worth a second look; where everything fails, more
 * of them take time and say no more. */
#define AGAIN_MAX 3

static void
run_selftest_steps(struct selftest *st, const struct selftest_options *options,
                   struct json *json, struct tally *tally)
{
    struct outcome *out = host_calloc(1, sizeof(*out));
    const struct selftest_step *step;
    bool started = !options->from;
    size_t i;

    for (i = 0; out && (step = step_at(i)) != NULL; i++) {
        if (!applies(st, step) || !is_chosen(options, step, &started))
            continue;
        tool_progress("%s", step->name);
        run_step(st, step, repetitions(step, options->repeat), out);
        if (out->verdict == SELFTEST_FAILED && tally->n_failed < AGAIN_MAX)
            selftest_try_again(st, step, &out->again);
        tool_progress(NULL);
        put_step(json, st, step, out);
        if (!options->json)
            print_step(st, step,
                       (unsigned)(tally->n_passed + tally->n_failed +
                                  tally->n_skipped + 1),
                       out);
        tally->n_passed += out->verdict == SELFTEST_PASSED;
        tally->n_failed += out->verdict == SELFTEST_FAILED;
        tally->n_skipped += out->verdict == SELFTEST_SKIPPED;
        if (out->verdict == SELFTEST_FAILED && !options->keep_going)
            break;
    }
    if (!out)
        tally->n_failed++;
    host_free(out);
}

static int
list_steps(bool as_json)
{
    const struct selftest_step *step;
    struct json json;
    size_t i;

    json_init(&json);
    json_array(&json, "steps");
    for (i = 0; (step = step_at(i)) != NULL; i++) {
        const char *who = for_whom(step);
        json_object(&json, NULL);
        json_str(&json, "name", step->name);
        json_str(&json, "for", who);
        json_str(&json, "proves", step->proves);
        json_end(&json);
        if (!as_json)
            tool_printf("%-16s %-11s %s\n", step->name, who, step->proves);
    }
    json_end(&json);
    if (as_json)
        return tool_print_json(&json);
    json_fini(&json);
    return TOOL_OK;
}

/* ---- the device's name ---- */

/* Takes BACKEND[:INDEX][@INTERFACE] apart, as hcq_device_open does. */
static void
split_name(struct selftest *st)
{
    size_t n = strcspn(st->device, ":@");
    const char *at = strchr(st->device, '@');

    n = n < sizeof(st->backend) ? n : sizeof(st->backend) - 1;
    memcpy(st->backend, st->device, n);
    st->interface = at ? at + 1 : "";
    if (st->device[n] == ':')
        st->idx = (unsigned)strtoul(st->device + n + 1, NULL, 10);
}

/* A step that is named has to be one of this device's. */
static bell_status
check_applies(const struct selftest *st, const char *name)
{
    const struct selftest_step *step;
    size_t i;

    for (i = 0; name && (step = step_at(i)) != NULL; i++) {
        if (strcmp(step->name, name) == 0 && !applies(st, step))
            return bell_fail(BELL_E_INVALID,
                             "%s has no step '%s', which is for: %s",
                             st->device, name, for_whom(step));
    }
    return BELL_OK;
}

/* The device given, else what would be opened without a name. */
static bell_status
choose_device(struct selftest *st, const char *name)
{
    struct hcq_device *dev;

    if (!name)
        name = env_get("BELL_DEVICE");
    if (name && strlen(name) >= sizeof(st->device))
        return bell_fail(BELL_E_INVALID,
                         "device name of more than %zu characters: %.40s...",
                         sizeof(st->device) - 1, name);
    if (name) {
        snprintf(st->device, sizeof(st->device), "%s", name);
    } else {
        BELL_TRY(hcq_device_open(NULL, &dev));
        tool_tell_passed_over(dev);
        snprintf(st->device, sizeof(st->device), "%s", hcq_device_name(dev));
        hcq_device_close(dev);
    }
    split_name(st);
    return BELL_OK;
}

/* A device that is not there is no failure of a step. */
static bell_status
check_exists(struct selftest *st)
{
    struct hcq_device *dev;
    bell_status status;

    if (strcmp(st->backend, "NV") == 0 && st->interface[0] == '\0')
        return selftest_probe(st);
    status = hcq_device_open(st->device, &dev);
    if (status == BELL_OK)
        hcq_device_close(dev);
    return status == BELL_E_NO_DEVICE || status == BELL_E_INVALID ||
                   status == BELL_E_PERMISSION
               ? status
               : BELL_OK;
}

/* Writes the finished document to a file. */
static int
save_json(struct json *json, const char *path)
{
    struct file_part part = {.data = json_text(json)};
    bell_status status;

    if (!part.data)
        return tool_fail_text(false, BELL_E_NO_MEMORY, "out of memory");
    part.size_bytes = strlen(part.data);
    status = file_write(path, &part, 1);
    return status == BELL_OK ? TOOL_OK : tool_fail(false, status);
}

static int
run_selftest(struct selftest *st, const struct selftest_options *options)
{
    struct tally tally = {0, 0, 0};
    int code = TOOL_OK, printed = TOOL_OK;
    struct json json;

    json_init(&json);
    json_str(&json, "device", st->device);
    json_bool(&json, "simulated", kio_interface_is_sim(st->interface));
    json_int(&json, "repeat", options->repeat);
    json_array(&json, "steps");
    run_selftest_steps(st, options, &json, &tally);
    selftest_close(st);
    json_end(&json);
    json_uint(&json, "n_passed", tally.n_passed);
    json_uint(&json, "n_failed", tally.n_failed);
    json_uint(&json, "n_skipped", tally.n_skipped);
    if (options->save)
        code = save_json(&json, options->save);
    if (options->json) {
        printed = tool_print_json(&json);
    } else {
        json_fini(&json);
        tool_printf("%s: %u passed, %u failed, %u skipped\n", st->device,
                    tally.n_passed, tally.n_failed, tally.n_skipped);
    }
    if (tally.n_failed)
        return TOOL_FAILED;
    return code != TOOL_OK ? code : printed;
}

static int
start(const struct selftest_options *options)
{
    struct selftest *st = host_calloc(1, sizeof(*st));
    bell_status status;
    int code;

    if (!st)
        return tool_fail_text(options->json, BELL_E_NO_MEMORY, "out of memory");
    st->n_programs = options->programs;
    status = choose_device(st, options->device);
    if (status == BELL_OK && is_replay(st) && !options->only)
        status = bell_fail(
            BELL_E_UNSUPPORTED,
            "%s: a cassette answers calls and computes nothing, and most "
            "steps ask for results: name one with --only, the one that was "
            "recorded; `doorbell trace replay FILE` makes all calls again",
            st->device);
    if (status == BELL_OK)
        status = check_applies(st, options->only);
    if (status == BELL_OK)
        status = check_applies(st, options->from);
    if (status == BELL_OK)
        status = check_exists(st);
    if (status == BELL_OK) {
        code = run_selftest(st, options);
    } else {
        code = tool_fail(options->json, status);
        selftest_close(st); /* what was opened to look for the device */
    }
    host_free(st);
    return code;
}

int
verb_selftest(int argc, char **argv)
{
    struct selftest_options options = {.repeat = 1};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "NV, AMD, NV@sim:sm_90, AMD@sim:gfx1100, CPU; default: $BELL_DEVICE, "
         "or the first that works"},
        {"--from", "STEP", TOOL_OPT_STRING, &options.from, 0, 0,
         "this one and all after it"},
        {"--only", "STEP", TOOL_OPT_STRING, &options.only, 0, 0,
         "this one alone"},
        {"--list", NULL, TOOL_OPT_FLAG, &options.list, 0, 0,
         "the steps and what they prove; runs nothing"},
        {"--repeat", "N", TOOL_OPT_INT, &options.repeat, 1, 1000000,
         "each step so often (slow ones at most 100 times); default: 1"},
        {"--keep-going", NULL, TOOL_OPT_FLAG, &options.keep_going, 0, 0,
         "also after a step that failed"},
        {"--programs", "N", TOOL_OPT_INT, &options.programs, 1, 1000000,
         "random programs (default: enough for 1000 kernels)"},
        {"--save", "FILE", TOOL_OPT_STRING, &options.save, 0, 0,
         "also writes the JSON document there"},
        TOOL_JSON_OPT(&options.json),
    };
    int code;

    code = tool_parse("selftest [DEVICE] [options]\n\n"
                      "Staged bring-up: steps from opening the control node "
                      "to random programs, each\nresting on those before. A "
                      "step that fails says what it sent, what came back\n"
                      "and what to look at. Exits with 1 if one failed.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (options.list)
        return list_steps(options.json);
    if (options.from)
        code = check_name(&options, options.from);
    if (code == TOOL_GO_ON && options.only)
        code = check_name(&options, options.only);
    return code == TOOL_GO_ON ? start(&options) : code;
}
