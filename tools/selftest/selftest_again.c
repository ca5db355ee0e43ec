/* A failed step, recorded. */
#include "tools/selftest/selftest_again.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ioctl/cassette.h"
#include "tools/trace/trace.h"

#define SUBMISSIONS 4 /* the last so many are shown */

static void
add_line(void *user, const char *line)
{
    struct selftest_again *out = user;

    if (out->n_lines < SELFTEST_AGAIN_LINES)
        snprintf(out->lines[out->n_lines++], sizeof(out->lines[0]), "%.*s",
                 (int)sizeof(out->lines[0]) - 1, line);
}

static void
skip_line(void *user, const char *line)
{
    (void)user, (void)line;
}

static bool
is_submission(const struct cas_record *record)
{
    return record->kind == CAS_SAMPLE ||
           (record->kind == CAS_DOORBELL && record->n_blobs);
}

/* Decodes the whole cassette, for what subchannels are bound to and rings hold,
 * and shows the end. A doorbell that submits nothing tells what came of the
 * one before. */
static bell_status
show_cassette(const char *path, struct selftest_again *out)
{
    struct cas_reader *reader;
    struct trace_decoder decoder;
    uint32_t i, n = 0, seen = 0;

    BELL_TRY(cas_reader_open(path, &reader));
    for (i = 0; i < cas_reader_count(reader); i++)
        n += is_submission(cas_reader_get(reader, i));
    trace_decoder_init(&decoder, trace_branch(reader), skip_line, out);
    for (i = 0; i < cas_reader_count(reader); i++) {
        const struct cas_record *record = cas_reader_get(reader, i);
        if (is_submission(record) && n - seen++ <= SUBMISSIONS)
            trace_decoder_say(&decoder, add_line);
        trace_decode(&decoder, record);
    }
    cas_reader_close(reader);
    return BELL_OK;
}

/* "NV:0@record:FILE@sim:sm_90" */
static bool
recorded_name(const struct selftest *st, const char *path, char *out,
              size_t size_bytes)
{
    int n = snprintf(out, size_bytes, "%s:%u@record:%s%s%s", st->backend,
                     st->idx, path, st->interface[0] ? "@" : "", st->interface);

    return n > 0 && (size_t)n < size_bytes;
}

/* What the step came to, recorded. */
struct recorded {
    enum selftest_verdict verdict;
    char came[SELFTEST_TEXT_MAX];
};

static void
run_again_step(struct selftest *st, const struct selftest_step *step,
               struct recorded *out)
{
    st->came[0] = '\0';
    out->verdict = step->run(st);
    selftest_close_device(st);
    memcpy(out->came, st->came, sizeof(out->came));
}

/* KFD keeps its state of a process, and the name that it was opened by, until
 * the process ends: the recording is a child's, and is whole with its end. */
static void
run_step_in_child(struct selftest *st, const struct selftest_step *step,
                  struct recorded *out)
{
    struct recorded *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    pid_t child = -1;

    out->verdict = SELFTEST_FAILED;
    fflush(NULL);
    if (told != MAP_FAILED)
        child = fork();
    if (child == 0) {
        selftest_forget(st);
        run_again_step(st, step, told);
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        snprintf(out->came, sizeof(out->came),
                 "no process for the recording: %s", strerror(errno));
    else if (!WIFEXITED(status))
        snprintf(out->came, sizeof(out->came),
                 "the recording's process ended with signal %d",
                 WTERMSIG(status));
    else
        *out = *told;
    if (told != MAP_FAILED)
        munmap(told, sizeof(*told));
}

static void
run_recorded(struct selftest *st, const struct selftest_step *step,
             const char *path, struct selftest_again *out)
{
    char name[SELFTEST_DEVICE_MAX], was[SELFTEST_DEVICE_MAX];
    struct recorded done = {.verdict = SELFTEST_FAILED};

    if (!recorded_name(st, path, name, sizeof(name)))
        return;
    memcpy(was, st->device, sizeof(was));
    memcpy(st->device, name, sizeof(st->device));
    if (strcmp(st->backend, "AMD") == 0)
        run_step_in_child(st, step, &done);
    else
        run_again_step(st, step, &done);
    memcpy(st->device, was, sizeof(st->device));
    out->told = true;
    if (done.verdict == SELFTEST_PASSED)
        snprintf(out->text, sizeof(out->text),
                 "a second time, recorded, it passed");
    else
        snprintf(out->text, sizeof(out->text),
                 "recorded, it failed too: %.900s", done.came);
    if (show_cassette(path, out) != BELL_OK)
        add_line(out, bell_error_last()->message);
}

void
selftest_try_again(struct selftest *st, const struct selftest_step *step,
                   struct selftest_again *out)
{
    char path[] = "/tmp/selftest-XXXXXX";
    uint64_t run = st->run;
    bool is_recorded =
        strcmp(st->backend, "NV") == 0 || strcmp(st->backend, "AMD") == 0;
    int fd;

    if (!is_recorded || step->flags & (SELFTEST_NV | SELFTEST_AMD) ||
        step->flags & SELFTEST_ONCE)
        return;
    fd = mkstemp(path);
    if (fd < 0) {
        (void)bell_fail_file(path, "cannot create");
        add_line(out, bell_error_last()->message);
        return;
    }
    close(fd);
    selftest_close_device(st);
    st->run = run ? run : 1; /* its notes are told already */
    run_recorded(st, step, path, out);
    unlink(path);
}
