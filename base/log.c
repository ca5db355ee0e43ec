/* The topic table and the writer. */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/process.h"
#include "base/text.h"

uint32_t log_mask;

static struct {
    pthread_mutex_t lock;
    bell_log_fn *write;
    void *user;
    FILE *file; /* of BELL_DEBUG_FILE; stays open */
    _Atomic bool has_lost;
    _Atomic bool has_helped; /* BELL_DEBUG's table has been printed */
    _Atomic bool has_read;   /* BELL_DEBUG's topics have been taken */
    _Atomic bool is_chosen;  /* by bell_log_topics, since then */
} log_out = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
log_free_lock(void)
{
    pthread_mutex_init(&log_out.lock, NULL);
}

__attribute__((constructor)) static void
log_watch_forks(void)
{
    process_in_child(log_free_lock);
}

static const struct {
    const char *name;
    enum log_topic bit;
    const char *help;
} topics[] = {
    {"ioctl", LOG_IOCTL, "every system call on a device node"},
    {"push", LOG_PUSH, "command streams, decoded, as they are submitted"},
    {"mem", LOG_MEM, "allocations, mappings and the memory plan"},
    {"graph", LOG_GRAPH, "graphs of tensors that a plan is made for"},
    {"plan", LOG_PLAN, "what is compiled, and why it was not known"},
    {"uops", LOG_UOPS, "the IR after each stage"},
    {"ir", LOG_IR,
     "kernels as scheduled, as `doorbell kernel --ir` reads them"},
    {"dot", LOG_DOT, "the same as Graphviz reads it"},
    {"rw", LOG_RW, "each rewrite: rule, before, after"},
    {"sched", LOG_SCHED, "each value that got a buffer, and why"},
    {"opt", LOG_OPT, "kernel optimisations chosen, and why"},
    {"render", LOG_RENDER, "rendered source"},
    {"asm", LOG_ASM, "machine code, as the assembler's text"},
    {"sync", LOG_SYNC, "wait after every kernel, and tell its time"},
    {"exec", LOG_EXEC, "each kernel and copy as it is queued"},
    {"time", LOG_TIME, "time spent in each stage"},
    {"cache", LOG_CACHE, "kernels found on disk and kept there"},
    {"kernels", LOG_KERNELS,
     "each kernel's time, rates and share, when its context ends"},
    {"mesh", LOG_MESH, "what the devices of a context exchange, and why"},
    {"fault", LOG_FAULT, "what ends a queue of a simulated card"},
};
#define N_TOPICS (sizeof(topics) / sizeof(topics[0]))

static void
log_print_help(void)
{
    size_t i;

    fprintf(stderr, "BELL_DEBUG takes a comma-separated list of:\n");
    for (i = 0; i < N_TOPICS; i++)
        fprintf(stderr, "  %-8s %s\n", topics[i].name, topics[i].help);
}

static uint32_t
find_topic(const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < N_TOPICS; i++) {
        if (strlen(topics[i].name) == len &&
            memcmp(topics[i].name, name, len) == 0)
            return topics[i].bit;
    }
    return 0;
}

static bell_status
parse_topics(const char *text, bool helps, uint32_t *out_mask)
{
    uint32_t mask = 0;

    while (*text) {
        size_t len = strcspn(text, ",");
        uint32_t bit = find_topic(text, len);

        if (len == 4 && memcmp(text, "help", 4) == 0) {
            if (helps)
                log_print_help();
        } else if (len && !bit) {
            char known[160] = "";
            size_t i;
            for (i = 0; i < N_TOPICS; i++) {
                strcat(known, i ? ", " : "");
                strcat(known, topics[i].name);
            }
            return bell_fail(BELL_BAD_NAME,
                             "BELL_DEBUG: unknown topic '%.*s'; known: %s",
                             (int)len, text, known);
        }
        mask |= bit;
        text += len;
        text += *text == ',';
    }
    *out_mask = mask;
    return BELL_OK;
}

bell_status
log_parse(const char *text, uint32_t *out_mask)
{
    return parse_topics(text, true, out_mask);
}

/* Once; several processes may append to it. */
static bell_status
open_file(const char *path)
{
    bell_status status = BELL_OK;

    pthread_mutex_lock(&log_out.lock);
    if (path && !log_out.file) {
        log_out.file = fopen(path, "ae");
        if (!log_out.file)
            status = bell_fail(BELL_E_IO, "BELL_DEBUG_FILE: %s: %s", path,
                               strerror(errno));
        else
            setvbuf(log_out.file, NULL, _IOLBF, 0);
    }
    pthread_mutex_unlock(&log_out.lock);
    return status;
}

bell_status
log_init(void)
{
    const char *text = env_get("BELL_DEBUG");
    uint32_t mask = 0;

    if (!text)
        return BELL_OK;
    BELL_TRY(
        parse_topics(text, !atomic_exchange(&log_out.has_helped, true), &mask));
    BELL_TRY(open_file(env_get("BELL_DEBUG_FILE")));
    if (!log_out.is_chosen)
        log_mask = mask;
    log_out.has_read = true;
    return BELL_OK;
}

void
bell_log_set(bell_log_fn *write, void *user)
{
    pthread_mutex_lock(&log_out.lock);
    log_out.write = write;
    log_out.user = user;
    pthread_mutex_unlock(&log_out.lock);
}

bell_status
bell_log_topics(const char *names)
{
    uint32_t mask;

    BELL_TRY(log_parse(names ? names : "", &mask));
    log_mask = mask;
    log_out.is_chosen = log_out.has_read;
    return BELL_OK;
}

bool
log_has_writer(void)
{
    bool has;

    pthread_mutex_lock(&log_out.lock);
    has = log_out.write != NULL;
    pthread_mutex_unlock(&log_out.lock);
    return has;
}

static const char *
topic_name(enum log_topic topic)
{
    size_t i;

    for (i = 0; i < N_TOPICS; i++) {
        if (topics[i].bit == topic)
            return topics[i].name;
    }
    return "log";
}

void
log_lose(const char *what)
{
    char line[1024];

    text_copy_shown(what, "", line, sizeof(line));
    fprintf(stderr, "doorbell: %s\n", line);
    log_out.has_lost = true;
}

bool
log_has_lost(void)
{
    return log_out.has_lost;
}

/* The stream is line-buffered: each line's failure is known at once. */
static void
write_file_locked(const char *line)
{
    char text[512];

    if (fprintf(log_out.file, "%ld %s\n", (long)gettid(), line) >= 0 ||
        log_out.has_lost)
        return;
    snprintf(text, sizeof(text), "BELL_DEBUG_FILE: %s: cannot write: %s",
             env_get("BELL_DEBUG_FILE"), strerror(errno));
    log_lose(text);
}

void
log_print(enum log_topic topic, const char *fmt, ...)
{
    char line[2048], raw[2048];
    int used;
    va_list args;

    used = snprintf(raw, sizeof(raw), "%s: ", topic_name(topic));
    va_start(args, fmt);
    vsnprintf(raw + used, sizeof(raw) - (size_t)used, fmt, args);
    va_end(args);
    text_copy_shown(raw, "\n\t", line, sizeof(line));
    pthread_mutex_lock(&log_out.lock);
    if (log_out.write)
        log_out.write(log_out.user, line);
    else if (log_out.file)
        write_file_locked(line);
    else
        fprintf(stderr, "%s\n", line);
    pthread_mutex_unlock(&log_out.lock);
}

void
log_text(enum log_topic topic, const char *title, const char *text)
{
    log_print(topic, "%s:", title);
    while (*text) {
        int len = (int)strcspn(text, "\n");

        log_print(topic, "  %.*s", len, text);
        text += len;
        text += *text == '\n';
    }
}
