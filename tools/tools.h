/* What the verbs of the `doorbell` command line share: the table of verbs,
 * option parsing, and how errors, progress and results are printed.
 *
 * A verb is a function from its arguments to an exit code (0 done; 1 checked
 * and failed; 2 bad usage; 3 no such device; 4 no permission; 5 device lost
 * or hung; 6 not supported here; 77 skipped). Results go to stdout,
 * everything else to stderr. With --json, stdout gets exactly one document,
 * also on failure. One thread.
 */
#ifndef BELL_TOOLS_TOOLS_H
#define BELL_TOOLS_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct bell_context;
struct json;

enum tool_exit {
    TOOL_OK = 0,
    TOOL_FAILED = 1,
    TOOL_USAGE = 2,
    TOOL_GO_ON = -1, /* of tool_parse: not an exit code */
};

/* argv[0] is the verb's name. */
typedef int tool_verb_fn(int argc, char **argv);

tool_verb_fn verb_bench;
tool_verb_fn verb_burn;
tool_verb_fn verb_cache;
tool_verb_fn verb_decode;
tool_verb_fn verb_demo;
tool_verb_fn verb_devices;
tool_verb_fn verb_doctor;
tool_verb_fn verb_eval;
tool_verb_fn verb_fuzz;
tool_verb_fn verb_kernel;
tool_verb_fn verb_onnx;
tool_verb_fn verb_profile;
tool_verb_fn verb_run;
tool_verb_fn verb_selftest;
tool_verb_fn verb_send;
tool_verb_fn verb_sim;
tool_verb_fn verb_step;
tool_verb_fn verb_top;
tool_verb_fn verb_trace;
tool_verb_fn verb_tune;
tool_verb_fn verb_viz;

/* ---- options ---------------------------------------------------------- */

enum tool_opt_kind {
    TOOL_OPT_FLAG,   /* out: bool, set true */
    TOOL_OPT_STRING, /* out: const char *; points into argv */
    TOOL_OPT_INT,    /* out: int64_t, within min..max */
    TOOL_OPT_READ,   /* out: double; rows by TOOL_NUMBER_OPT */
    TOOL_OPT_LIST,   /* out: struct tool_list; may be given many times */
};

#define TOOL_LIST_MAX 64

/* Values of an option that may be repeated, in order; they point into argv. */
struct tool_list {
    const char *items[TOOL_LIST_MAX];
    size_t n_items;
};

/* Reads all of the text; false if it is not a finite number. */
typedef bool tool_read_fn(const char *text, double *out);
tool_read_fn tool_read_number;

/* One option, or a positional argument if the name has no dash (a STRING, or
 * last a LIST of all that follow; in the table's order). Outputs keep what they
 * hold when not given. */
struct tool_opt {
    const char *name;  /* "--steps", or "DEVICE" */
    const char *value; /* what the help calls the value; NULL for a flag */
    enum tool_opt_kind kind;
    void *out;
    int64_t min, max; /* of an INT or READ; not checked when both are 0 */
    const char *help;
    tool_read_fn *read; /* of a READ */
};

/* Parses `--name value` and `--name=value` in any order; `--` ends options. A
 * value is given once, or in a LIST once for each name, and is not empty; a
 * TEXT and TOPICS may be. -h prints `usage: doorbell ABOUT` (appliances'
 * runner: `usage: doorbell-run` and what follows the verb), the options, and
 * gives TOOL_OK; with --json as a document, docs/schemas/help.json (not in
 * appliances' runner).
 *
 * A mistake is told on stderr, with the nearest option, and gives TOOL_USAGE.
 * TOOL_GO_ON otherwise. `about` is the verb's line after "doorbell", then
 * newline and any text. */
int tool_parse(const char *about, const struct tool_opt *opts, size_t n_opts,
               int argc, char **argv);

/* A number, finite, above min, at most max, as a row of a verb's options.
 * Brings its reader along: a program without such options is smaller. */
#define TOOL_NUMBER_OPT(name, value, out, min, max, help)                      \
    {                                                                          \
        (name), (value), TOOL_OPT_READ, (out), (min), (max), (help),           \
            tool_read_number                                                   \
    }

/* --json, as a row of a verb's options. */
#define TOOL_JSON_OPT(json)                                                    \
    {                                                                          \
        "--json", NULL, TOOL_OPT_FLAG, (json), 0, 0,                           \
            "one JSON document on stdout"                                      \
    }

/* The name in `names` that a mistyped `name` most likely means, or NULL. */
const char *tool_nearest(const char *name, const char *const *names,
                         size_t n_names);

/* ---- contexts (context.c) ---------------------------------------------- */

/* --math, as a row of a verb's options; its value goes to *words. */
#define TOOL_MATH_OPT(words)                                                   \
    {                                                                          \
        "--math", "WORDS", TOOL_OPT_STRING, (words), 0, 0,                     \
            "exact, tf32, approx or tf32,approx: what a GPU may do less "      \
            "exactly (default: $BELL_MATH, or exact)"                          \
    }

/* TOOL_GO_ON if `words` is NULL or good for --math; else tells what is wrong
 * and gives TOOL_USAGE. */
int tool_check_math(bool json, const char *verb, const char *words);

/* Says on stderr that the default device is the host's processor although GPUs
 * are there, and why each was passed over. */
struct hcq_device;
void tool_tell_passed_over(struct hcq_device *dev);

/* A context on `device` (NULL: the default one) with the math of `math`, words
 * as for --math; NULL: what BELL_MATH says. What compares results with exact
 * ones gives "exact". */
BELL_MUST_CHECK bell_status tool_open_context(const char *device,
                                              const char *math,
                                              struct bell_context **out_ctx);

/* The words for bits of enum bell_math. */
const char *tool_math_words(uint32_t math);

/* ---- libraries that are preloaded (preload.c) --------------------------- */

/* The path of our library `name` into `out`: what the environment's variable
 * names, or beside this program as built (in `folder` of the build) or
 * installed. False where there is none. */
bool tool_find_library(const char *name, const char *variable,
                       const char *folder, char *out, size_t out_bytes);

/* Puts the library before those that are preloaded already. */
void tool_preload(const char *library);

/* Why nothing can be preloaded into the program that execvp would start (it is
 * static, or runs with another user's rights), in `text`; false where something
 * can be, or where there is no such program. */
bool tool_refuses_preload(const char *program, char *text, size_t text_bytes);

/* Runs argv, after `prepare` in the child, to its end. The wait status, -1: no
 * process could be started. SIGTERM and SIGHUP go on to the program; it is
 * killed where this process is. */
int tool_run(char **argv, void (*prepare)(void *user), void *user);

/* The first of the numbers of files that the library may trap (256 of them):
 * the highest that there can be, but not so high that tables get large. */
int tool_trap_first(void);

/* ---- errors, progress, results ---------------------------------------- */

/* Tells a usage mistake: on stderr, and with `json` as {"error": ...} on
 * stdout. Returns TOOL_USAGE. */
int tool_usage(bool json, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Tells the thread's last error in the same way and returns its exit code.
 * `status` is what the failed call returned. */
int tool_fail(bool json, bell_status status);

/* The same for an expression, or what else is computed: that it is wrong is
 * TOOL_FAILED, where an option that is wrong is TOOL_USAGE. */
int tool_fail_input(bool json, bell_status status);

/* The same for a failure without a record; `status` says the exit code. */
int tool_fail_text(bool json, bell_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether --json is among the arguments, up to a "--". */
bool tool_asks_for_json(int argc, char **argv);

/* To stdout, and to stderr. Nothing else in tools/ prints text: names in files,
 * of processes and of devices may hold control characters, which are escaped
 * here, all but newlines and tabs (base/text.h). */
void tool_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A line, at most 2 KiB of it: an item of the open array `lines`, or printed
 * where that is NULL. */
void tool_say(struct json *lines, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tool_eprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One line that overwrites itself, on a terminal only. NULL ends it. */
void tool_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The exit code of a program that would end with `code`: what could not be
 * written to stdout, or to where the environment asked for, is a failure, too,
 * and told. */
int tool_exit_code(int code);

/* Prints the document on stdout and frees it. TOOL_OK, or a told failure. */
int tool_print_json(struct json *json);
/* The document of what wrote a file, and nothing else. */
int tool_print_saved(const char *path);

#endif
