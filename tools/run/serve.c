/* One request is served at a time, whole; what is wrong with it is its answer.
 * A bundle whose run fails is loaded anew.
 */
#include "tools/run/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "hcq/hcq_bundle.h"
#include "tools/run/wire.h"

#define CLIENTS_MAX 16
#define WORDS_MAX   128  /* of a request */
#define LINE_BYTES  8192 /* of a request, and of an answer */
#define STALL_MS    10000

struct served {
    char name[64];
    const char *path;
    struct hcq_bundle *bundle;
};

struct client {
    int fd;
    uint64_t last_ns; /* when it was served last */
};

struct server {
    const struct serve_options *options;
    struct hcq_device *dev;
    struct served bundles[TOOL_LIST_MAX];
    size_t n_bundles;
    uint8_t *data; /* of a request or an answer: the most that one has */
    uint64_t data_bytes;
    struct client clients[CLIENTS_MAX];
    unsigned n_clients;
    int listener; /* -1: there is none */
    uint64_t n_runs, n_failed;
    bool is_over; /* the device cannot be used any more */
};

/* A request in words, which end with zeros. Of "name:BYTES" and "name=NUMBER"
 * the name is the word. */
struct request {
    char line[LINE_BYTES];
    char *words[WORDS_MAX];
    char kinds[WORDS_MAX]; /* ':', '=' or 0 */
    int64_t numbers[WORDS_MAX];
    unsigned n;
    uint64_t payload_bytes; /* behind the line */
    const char *problem;    /* with the line; NULL: none */
};

/* ---- bundles ---- */

static bell_status
load(struct server *s, struct served *b)
{
    return hcq_bundle_open_checked(s->dev, b->path, s->options->check.fn,
                                   s->options->check.user, &b->bundle);
}

static bell_status
name_bundle(struct server *s, const char *item)
{
    const char *equals = strchr(item, '=');
    size_t n = equals ? (size_t)(equals - item) : 0, i;
    struct served *b = &s->bundles[s->n_bundles];

    if (n == 0 || n >= sizeof(b->name) || !equals[1] || memchr(item, ' ', n))
        return bell_fail(BELL_BAD_NAME, "--serve: '%s' is not name=FILE", item);
    memcpy(b->name, item, n);
    b->name[n] = 0;
    b->path = equals + 1;
    for (i = 0; i < s->n_bundles; i++) {
        if (strcmp(s->bundles[i].name, b->name) == 0)
            return bell_fail(BELL_BAD_NAME, "--serve: two bundles '%s'",
                             b->name);
    }
    s->n_bundles++;
    return BELL_OK;
}

/* The most that a request to the bundle, or its answer, can have. */
static uint64_t
most_bytes(const struct hcq_bundle *bundle)
{
    const struct hcq_bundle_value *v;
    uint64_t in = 0, out = 0, one = 0;
    uint32_t i;

    for (i = 0; (v = hcq_bundle_value(bundle, i)); i++) {
        if (v->kind == HCQ_BUNDLE_INPUT || v->kind == HCQ_BUNDLE_STATE)
            in += v->size_bytes;
        if (v->kind == HCQ_BUNDLE_OUTPUT)
            out += v->size_bytes;
        if (v->size_bytes > one)
            one = v->size_bytes;
    }
    in = in > out ? in : out;
    return in > one ? in : one;
}

static bell_status
load_all(struct server *s)
{
    size_t i;

    for (i = 0; i < s->options->bundles->n_items; i++)
        BELL_TRY(name_bundle(s, s->options->bundles->items[i]));
    BELL_TRY(hcq_device_open(s->options->device, &s->dev));
    if (!s->options->device)
        tool_tell_passed_over(s->dev);
    for (i = 0; i < s->n_bundles; i++) {
        uint64_t n;

        BELL_TRY(load(s, &s->bundles[i]));
        n = most_bytes(s->bundles[i].bundle);
        if (n > s->data_bytes)
            s->data_bytes = n;
    }
    s->data = host_alloc(s->data_bytes + 1);
    return s->data
               ? BELL_OK
               : bell_fail(BELL_E_NO_MEMORY,
                           "out of memory for requests of %" PRIu64 " bytes",
                           s->data_bytes);
}

/* ---- answers ---- */

/* The last error, in one line. */
static enum wire_result
answer_error(const struct wire *w)
{
    char line[LINE_BYTES];
    int n =
        snprintf(line, sizeof(line), "error %s", bell_error_last()->message);
    int i;

    if (n >= (int)sizeof(line) - 1)
        n = (int)sizeof(line) - 2;
    for (i = 0; i < n; i++) {
        if ((unsigned char)line[i] < ' ')
            line[i] = ' ';
    }
    line[n] = '\n';
    bell_error_clear();
    return wire_write(w, line, (uint64_t)n + 1);
}

static enum wire_result answer(const struct wire *w, const void *data,
                               uint64_t n_data, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A line, then bytes. */
static enum wire_result
answer(const struct wire *w, const void *data, uint64_t n_data, const char *fmt,
       ...)
{
    char line[LINE_BYTES];
    enum wire_result result;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (n >= (int)sizeof(line)) { /* names of outputs, hundreds of them */
        (void)!bell_fail(BELL_E_UNSUPPORTED, "an answer of too many words");
        return answer_error(w);
    }
    result = wire_write(w, line, (uint64_t)n);
    return result == WIRE_OK ? wire_write(w, data, n_data) : result;
}

/* ---- requests ---- */

static bool
read_number(const char *text, char kind, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return *text && !*end && !errno && *text != ' ' && *text != '+' &&
           (kind == '=' || (*out >= 0 && *text != '-'));
}

/* What is wrong is noted: what follows the line is still known where its words
 * say it. */
static void
parse(struct request *r)
{
    char *word, *rest = r->line, *mark;

    r->n = 0;
    r->payload_bytes = 0;
    r->problem = NULL;
    while ((word = strsep(&rest, " "))) {
        if (r->n == WORDS_MAX) {
            r->problem = "it has too many words";
            continue;
        }
        mark = r->n ? word + strlen(word) : NULL;
        while (mark && mark > word && *mark != ':' && *mark != '=')
            mark--;
        r->kinds[r->n] = 0;
        r->words[r->n] = word;
        if (mark && mark > word) {
            r->kinds[r->n] = *mark;
            *mark = 0;
            if (!read_number(mark + 1, r->kinds[r->n], &r->numbers[r->n])) {
                r->problem = "behind ':' or '=' is not a number";
                r->numbers[r->n] = 0;
            }
            if (r->kinds[r->n] == ':' &&
                __builtin_add_overflow(r->payload_bytes,
                                       (uint64_t)r->numbers[r->n],
                                       &r->payload_bytes))
                r->payload_bytes = UINT64_MAX;
        }
        r->n++;
    }
}

static bell_status
find_bundle(struct server *s, const struct request *r, struct served **out)
{
    size_t i;

    for (i = 0; r->n > 1 && !r->kinds[1] && i < s->n_bundles; i++) {
        if (strcmp(s->bundles[i].name, r->words[1]) == 0) {
            *out = &s->bundles[i];
            return BELL_OK;
        }
    }
    return bell_fail(BELL_BAD_NAME, "no bundle '%.60s'",
                     r->n > 1 ? r->words[1] : "");
}

static uint32_t
find_any(const struct hcq_bundle *b, unsigned kinds, const char *name)
{
    uint32_t found = HCQ_BUNDLE_NONE;
    unsigned kind;

    for (kind = 0; kind < HCQ_BUNDLE_KIND_COUNT; kind++) {
        if (kinds & 1u << kind && found == HCQ_BUNDLE_NONE)
            found = hcq_bundle_find(b, kind, name);
    }
    return found;
}

/* Values are those of inputs, states and symbols, with their sizes, each once;
 * numbers[] gets which. */
static bell_status
check_values(const struct hcq_bundle *b, const struct request *r,
             uint32_t *numbers)
{
    unsigned i, k;

    for (i = 2; i < r->n; i++) {
        const struct hcq_bundle_value *v;

        if (!r->kinds[i])
            return bell_fail(BELL_BAD_NAME,
                             "'%.60s' is not name:BYTES or name=NUMBER",
                             r->words[i]);
        numbers[i] = find_any(b,
                              r->kinds[i] == '=' ? 1u << HCQ_BUNDLE_SYMBOL
                                                 : 1u << HCQ_BUNDLE_INPUT |
                                                       1u << HCQ_BUNDLE_STATE,
                              r->words[i]);
        v = hcq_bundle_value(b, numbers[i]);
        if (!v)
            return bell_fail(BELL_BAD_NAME, "the bundle has no %s '%.60s'",
                             r->kinds[i] == '=' ? "symbol" : "input or state",
                             r->words[i]);
        if (r->kinds[i] == ':' && v->size_bytes != (uint64_t)r->numbers[i])
            return bell_fail(BELL_BAD_SIZE,
                             "'%.60s' has %" PRIu64 " bytes, expected %" PRIu64,
                             r->words[i], (uint64_t)r->numbers[i],
                             v->size_bytes);
        for (k = 2; k < i; k++) {
            if (numbers[k] == numbers[i])
                return bell_fail(BELL_BAD_NAME, "'%.60s' is there twice",
                                 r->words[i]);
        }
    }
    return BELL_OK;
}

static bell_status
write_and_run(struct server *s, struct hcq_bundle *b, const struct request *r,
              const uint32_t *numbers, char *line, uint64_t *out_bytes)
{
    const struct hcq_bundle_value *v;
    uint64_t at = 0;
    size_t n = 2;
    uint32_t i;

    for (i = 2; i < r->n; i++) {
        const void *data =
            r->kinds[i] == ':' ? s->data + at : (void *)&r->numbers[i];

        v = hcq_bundle_value(b, numbers[i]);
        BELL_TRY(hcq_bundle_write(b, numbers[i], data,
                                  r->kinds[i] == ':' ? v->size_bytes
                                                     : sizeof(int64_t)));
        at += r->kinds[i] == ':' ? v->size_bytes : 0;
    }
    BELL_TRY(hcq_bundle_run(b, NULL));
    BELL_TRY(hcq_bundle_wait(b, s->options->timeout_ns));
    at = 0;
    memcpy(line, "ok", 3);
    for (i = 0; (v = hcq_bundle_value(b, i)) && n < LINE_BYTES; i++) {
        if (v->kind != HCQ_BUNDLE_OUTPUT)
            continue;
        BELL_TRY(hcq_bundle_read(b, i, s->data + at, v->size_bytes));
        at += v->size_bytes;
        n += (size_t)snprintf(line + n, LINE_BYTES - n, " %s:%" PRIu64, v->name,
                              v->size_bytes);
    }
    *out_bytes = at;
    return BELL_OK;
}

/* What a run that failed has left: the device works again, and the bundle is as
 * in its file. Where that fails, the server ends. */
static void
mend(struct server *s, struct served *b, bell_status status)
{
    struct bell_error_hold hold;

    if (status != BELL_E_TIMEOUT && status != BELL_E_DEVICE_LOST)
        return;
    bell_error_hold(&hold);
    s->is_over = hcq_device_recover(s->dev) != BELL_OK;
    if (!s->is_over) {
        hcq_bundle_close(b->bundle);
        b->bundle = NULL;
        s->is_over = load(s, b) != BELL_OK;
    }
    bell_error_release(&hold);
}

static enum wire_result
serve_run(struct server *s, struct served *b, const struct request *r,
          const struct wire *w)
{
    uint32_t numbers[WORDS_MAX];
    char line[LINE_BYTES];
    uint64_t n_bytes;
    bell_status status = check_values(b->bundle, r, numbers);

    if (status != BELL_OK) {
        if (wire_read(w, NULL, r->payload_bytes) != WIRE_OK)
            return WIRE_GONE;
        return answer_error(w);
    }
    if (wire_read(w, s->data, r->payload_bytes) != WIRE_OK)
        return WIRE_GONE;
    status = write_and_run(s, b->bundle, r, numbers, line, &n_bytes);
    s->n_runs++;
    if (status == BELL_OK)
        return answer(w, s->data, n_bytes, "%s\n", line);
    s->n_failed++;
    mend(s, b, status);
    return answer_error(w);
}

static enum wire_result
serve_read(struct server *s, const struct served *b, const struct request *r,
           const struct wire *w)
{
    const char *name = r->n == 3 ? r->words[2] : "";
    uint32_t number = find_any(b->bundle, ~(1u << HCQ_BUNDLE_SYMBOL), name);
    const struct hcq_bundle_value *v = hcq_bundle_value(b->bundle, number);
    bell_status status;

    if (!v)
        status =
            bell_fail(BELL_BAD_NAME, "the bundle has no value '%.60s'", name);
    else
        status = hcq_bundle_read(b->bundle, number, s->data, v->size_bytes);
    if (status != BELL_OK)
        return answer_error(w);
    return answer(w, s->data, v->size_bytes, "ok %s:%" PRIu64 "\n", v->name,
                  v->size_bytes);
}

static enum wire_result
serve_health(struct server *s, const struct wire *w)
{
    if (hcq_device_status(s->dev) != BELL_OK)
        return answer_error(w);
    return answer(w, NULL, 0,
                  "ok bundles=%zu runs=%" PRIu64 " failed=%" PRIu64 "\n",
                  s->n_bundles, s->n_runs, s->n_failed);
}

/* What follows a line that is not understood is dropped, as far as it is
 * known. */
static enum wire_result
refuse(const struct wire *w, const struct request *r, const char *why)
{
    if (wire_read(w, NULL, r->payload_bytes) != WIRE_OK)
        return WIRE_GONE;
    (void)!bell_fail(BELL_BAD_VALUE, "the request: %s", why);
    return answer_error(w);
}

static enum wire_result
serve_request(struct server *s, const struct wire *w)
{
    struct request r;
    struct served *b;
    enum wire_result result = wire_read_line(w, r.line, sizeof(r.line));

    if (result == WIRE_GONE)
        return result;
    if (result == WIRE_LONG) {
        r.payload_bytes = 0;
        return refuse(w, &r, "its line is too long");
    }
    parse(&r);
    if (r.problem)
        return refuse(w, &r, r.problem);
    if (strcmp(r.words[0], "health") == 0 && r.n == 1)
        return serve_health(s, w);
    if (strcmp(r.words[0], "run") != 0 && strcmp(r.words[0], "read") != 0)
        return refuse(w, &r, "it is not 'health', 'run' or 'read'");
    if (find_bundle(s, &r, &b) != BELL_OK) {
        if (wire_read(w, NULL, r.payload_bytes) != WIRE_OK)
            return WIRE_GONE;
        return answer_error(w);
    }
    if (strcmp(r.words[0], "run") == 0)
        return serve_run(s, b, &r, w);
    return r.payload_bytes ? refuse(w, &r, "'read' takes no bytes")
                           : serve_read(s, b, &r, w);
}

/* ---- clients ---- */

static void
drop_client(struct server *s, unsigned i)
{
    close(s->clients[i].fd);
    s->clients[i] = s->clients[--s->n_clients];
}

/* For one more than there may be, the one goes that was idle for longest. */
static void
accept_client(struct server *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    unsigned oldest = 0, i;

    if (fd < 0)
        return;
    if (s->n_clients == CLIENTS_MAX) {
        for (i = 1; i < s->n_clients; i++) {
            if (s->clients[i].last_ns < s->clients[oldest].last_ns)
                oldest = i;
        }
        drop_client(s, oldest);
    }
    s->clients[s->n_clients++] = (struct client){fd, time_now_ns()};
}

/* Clients that have a request, one request each. */
static void
serve_clients(struct server *s, const struct pollfd *fds)
{
    unsigned i;

    for (i = s->n_clients; i-- > 0 && !s->is_over && !wire_is_stopped();) {
        struct wire w = {s->clients[i].fd, s->clients[i].fd, STALL_MS};

        if (!fds[i].revents)
            continue;
        if (serve_request(s, &w) == WIRE_GONE)
            drop_client(s, i);
        else
            s->clients[i].last_ns = time_now_ns();
    }
}

static void
serve_socket(struct server *s)
{
    struct pollfd fds[CLIENTS_MAX + 1];
    int watchdog_ms = wire_watchdog_ms();
    unsigned i, n;

    while (!wire_is_stopped() && !s->is_over) {
        n = s->n_clients;
        for (i = 0; i < n; i++)
            fds[i] = (struct pollfd){s->clients[i].fd, POLLIN, 0};
        fds[n] = (struct pollfd){s->listener, POLLIN, 0};
        if (wire_poll(fds, n + 1, watchdog_ms) > 0) {
            serve_clients(s, fds);
            if (fds[n].revents)
                accept_client(s);
        }
        if (watchdog_ms >= 0)
            wire_notify("WATCHDOG=1");
    }
}

static void
serve_pipe(struct server *s)
{
    const struct wire w = {STDIN_FILENO, STDOUT_FILENO, -1};
    int watchdog_ms = wire_watchdog_ms();

    while (!wire_is_stopped() && !s->is_over) {
        struct pollfd fd = {STDIN_FILENO, POLLIN, 0};

        if (wire_poll(&fd, 1, watchdog_ms) > 0 &&
            serve_request(s, &w) == WIRE_GONE)
            return;
        if (watchdog_ms >= 0)
            wire_notify("WATCHDOG=1");
    }
}

static bell_status
serve(struct server *s)
{
    const char *path = s->options->socket;
    bool is_pipe = strcmp(path, "-") == 0;

    wire_init();
    BELL_TRY(load_all(s));
    if (!is_pipe)
        BELL_TRY(wire_listen(path, &s->listener));
    wire_notify("READY=1");
    if (is_pipe)
        serve_pipe(s);
    else
        serve_socket(s);
    wire_notify("STOPPING=1");
    while (s->n_clients)
        drop_client(s, 0);
    if (!is_pipe) {
        close(s->listener);
        (void)unlink(path);
    }
    return s->is_over ? bell_fail(BELL_E_DEVICE_LOST,
                                  "%s: it does not work again after a run that "
                                  "failed",
                                  hcq_device_name(s->dev))
                      : BELL_OK;
}

int
run_serve(const struct serve_options *options)
{
    struct server *s = host_calloc(1, sizeof(*s));
    bell_status status;
    int code = TOOL_OK;
    size_t i;

    if (!s)
        return tool_fail_text(false, BELL_E_NO_MEMORY, "out of memory");
    s->options = options;
    s->listener = -1;
    status = serve(s);
    if (status != BELL_OK)
        code = tool_fail_input(false, status);
    for (i = 0; i < s->n_bundles; i++)
        hcq_bundle_close(s->bundles[i].bundle);
    hcq_device_close(s->dev);
    host_free(s->data);
    host_free(s);
    return code;
}
