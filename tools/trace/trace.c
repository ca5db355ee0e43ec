/* `doorbell trace`: records other programs' kernel calls, and finds the verb
 * for what is done with cassettes.
 */
#include "tools/trace/trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/cassette.h"
#include "base/json.h"
#include "tools/tools.h"

#define LIBRARY   "libdoorbell-recorder.so"
#define PARTS_MAX 4096

static const char about[] =
    "trace record|show|diff|replay [options]\n\n"
    "  record -o FILE -- PROGRAM ARGS   the program's calls on NVIDIA, KFD, "
    "DRM and\n"
    "                                   KGSL nodes, with rings and launches\n"
    "  show FILE                        a cassette as text\n"
    "  diff A B                         how two cassettes differ\n"
    "  replay FILE [--against OTHER]    makes the calls again on the replay\n";

int
verb_trace(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int, char **);
    } parts[] = {
        {"record", trace_record},
        {"show", trace_show},
        {"diff", trace_diff},
        {"replay", trace_replay},
    };
    size_t i;

    if (argc < 2 || strcmp(argv[1], "--json") == 0)
        return tool_usage(tool_asks_for_json(argc, argv),
                          "trace: what? record, show, diff or replay");
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        return tool_parse(about, NULL, 0, argc, argv);
    for (i = 0; i < ARRAY_LEN(parts); i++) {
        if (strcmp(argv[1], parts[i].name) == 0)
            return parts[i].run(argc - 1, argv + 1);
    }
    return tool_usage(tool_asks_for_json(argc, argv),
                      "trace: no '%s'; record, show, diff or replay", argv[1]);
}

/* ---- merging ---------------------------------------------------------- */

struct merge {
    struct cas_reader *parts[PARTS_MAX];
    uint32_t n_parts;
    const struct cas_record **records; /* owned */
    size_t n_records;
};

static int
by_time(const void *a, const void *b)
{
    const struct cas_record *x = *(const struct cas_record *const *)a;
    const struct cas_record *y = *(const struct cas_record *const *)b;

    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Opens all parts in the directory and removes their files. */
static bell_status
open_parts(struct merge *merge, const char *dir_path)
{
    DIR *dir = opendir(dir_path);
    bell_status status = BELL_OK;
    struct dirent *entry;

    if (!dir)
        return bell_fail_errno(BELL_E_IO, errno, "cannot read %s: %s", dir_path,
                               strerror(errno));
    while ((entry = readdir(dir)) != NULL) {
        char path[640];
        if (!strstr(entry->d_name, ".part"))
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir_path, entry->d_name);
        if (status == BELL_OK && merge->n_parts == PARTS_MAX)
            status = bell_fail(BELL_E_UNSUPPORTED,
                               "the program ran in more than %d processes",
                               PARTS_MAX);
        if (status == BELL_OK)
            status = cas_reader_open(path, &merge->parts[merge->n_parts]);
        if (status == BELL_OK)
            merge->n_parts++;
        unlink(path);
    }
    closedir(dir);
    return status;
}

static bell_status
sort_records(struct merge *merge)
{
    size_t total = 0, n = 0;
    uint32_t p, i;

    for (p = 0; p < merge->n_parts; p++)
        total += cas_reader_count(merge->parts[p]);
    merge->records = host_calloc(total + 1, sizeof(struct cas_record *));
    if (!merge->records)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a recording");
    for (p = 0; p < merge->n_parts; p++) {
        for (i = 0; i < cas_reader_count(merge->parts[p]); i++)
            merge->records[n++] = cas_reader_get(merge->parts[p], i);
    }
    merge->n_records = n;
    qsort(merge->records, n, sizeof(struct cas_record *), by_time);
    return BELL_OK;
}

static bell_status
write_merged(const struct merge *merge, const char *path, const char *command)
{
    struct cas_writer *writer;
    char identity[1200];
    bell_status status = BELL_OK;
    bool is_simulated = false;
    size_t i;

    for (i = 0; i < merge->n_parts; i++)
        is_simulated |=
            cas_identity_is_simulated(cas_reader_identity(merge->parts[i]));
    (void)cas_identity(command, is_simulated, identity, sizeof(identity));
    BELL_TRY(cas_writer_create(path, CAS_COMPRESS, identity, &writer));
    for (i = 0; i < merge->n_records && status == BELL_OK; i++)
        status = cas_write(writer, merge->records[i]);
    if (status != BELL_OK) {
        cas_writer_drop(writer);
        return status;
    }
    return cas_writer_close(writer);
}

static bell_status
merge_parts(const char *dir_path, const char *path, const char *command,
            size_t *out_n_records)
{
    struct merge *merge = host_calloc(1, sizeof(*merge));
    bell_status status;
    uint32_t p;

    if (!merge)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a recording");
    status = open_parts(merge, dir_path);
    if (status == BELL_OK)
        status = sort_records(merge);
    if (status == BELL_OK)
        status = write_merged(merge, path, command);
    *out_n_records = merge->n_records;
    for (p = 0; p < merge->n_parts; p++)
        cas_reader_close(merge->parts[p]);
    host_free(merge->records);
    host_free(merge);
    return status;
}

/* ---- recording -------------------------------------------------------- */

/* What the child needs to be recorded. */
struct recording {
    const char *library, *dir;
    bool json; /* stdout is for the document */
};

static void
prepare_trace(void *user)
{
    const struct recording *recording = user;
    char fds[16];

    snprintf(fds, sizeof(fds), "%d", tool_trap_first());
    setenv("BELL_RECORD_FDS", fds, 1);
    tool_preload(recording->library);
    setenv("BELL_RECORD_DIR", recording->dir, 1);
    if (recording->json)
        dup2(STDERR_FILENO, STDOUT_FILENO);
}

static int
tell_end(const char *program, int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        tool_eprintf("doorbell: %s was ended by signal %d\n", program,
                     WTERMSIG(wait_status));
        return TOOL_FAILED;
    }
    if (WEXITSTATUS(wait_status) != 0) {
        tool_eprintf("doorbell: %s ended with %d\n", program,
                     WEXITSTATUS(wait_status));
        return TOOL_FAILED;
    }
    return TOOL_OK;
}

/* The words with blanks between, cut to fit. */
static void
join(char *const *words, char *buf, size_t buf_bytes)
{
    size_t len = 0;

    buf[0] = '\0';
    for (; *words && len < buf_bytes; words++)
        len += (size_t)snprintf(buf + len, buf_bytes - len, "%s%s",
                                len ? " " : "", *words);
}

static int
print_recording(const char *path, size_t n_records, int wait_status, int code)
{
    struct json json;
    int printed;

    json_init(&json);
    json_str(&json, "cassette", path);
    json_uint(&json, "n_records", n_records);
    if (WIFEXITED(wait_status))
        json_int(&json, "program_exit_code", WEXITSTATUS(wait_status));
    else
        json_null(&json, "program_exit_code");
    if (WIFSIGNALED(wait_status))
        json_int(&json, "program_signal", WTERMSIG(wait_status));
    else
        json_null(&json, "program_signal");
    printed = tool_print_json(&json);
    return code == TOOL_OK ? printed : code;
}

int
trace_record(int argc, char **argv)
{
    char library[640], dir[] = "/tmp/doorbell-trace-XXXXXX", command[512];
    struct recording recording = {library, dir, false};
    const char *path = NULL;
    const struct tool_opt opts[] = {
        {"-o", "FILE", TOOL_OPT_STRING, &path, 0, 0, "the cassette to write"},
        {"--json", NULL, TOOL_OPT_FLAG, &recording.json, 0, 0,
         "one document on stdout; what the program writes there goes to "
         "stderr"},
    };
    int n, code, wait_status;
    char text[512];
    bell_status status;
    size_t n_records;

    for (n = 1; n < argc && strcmp(argv[n], "--") != 0; n++)
        ;
    code = tool_parse("trace record -o FILE -- PROGRAM ARGS", opts,
                      ARRAY_LEN(opts), n, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (!path || n + 1 >= argc)
        return tool_usage(recording.json,
                          "trace record: -o FILE -- PROGRAM ARGS");
    if (!tool_find_library(LIBRARY, "BELL_RECORDER", "tools/recorder", library,
                           sizeof(library)))
        return tool_fail_text(recording.json, BELL_E_UNSUPPORTED,
                              "no %s beside this program; BELL_RECORDER names "
                              "it elsewhere",
                              LIBRARY);
    if (tool_refuses_preload(argv[n + 1], text, sizeof(text)))
        return tool_fail_text(recording.json, BELL_E_UNSUPPORTED, "%s", text);
    if (!mkdtemp(dir))
        return tool_fail_text(recording.json, BELL_E_IO, "cannot create %s: %s",
                              dir, strerror(errno));
    wait_status = tool_run(argv + n + 1, prepare_trace, &recording);
    if (wait_status < 0)
        return tool_fail_text(recording.json, BELL_E_IO,
                              "cannot start a process: %s", strerror(errno));
    join(argv + n + 1, command, sizeof(command));
    status = merge_parts(dir, path, command, &n_records);
    rmdir(dir);
    if (status != BELL_OK)
        return tool_fail(recording.json, status);
    tool_eprintf("doorbell: %s: %zu records\n", path, n_records);
    code = tell_end(argv[n + 1], wait_status);
    return recording.json ? print_recording(path, n_records, wait_status, code)
                          : code;
}
