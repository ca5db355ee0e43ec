/* Clients are read and written as they are ready; requests that are complete
 * are run one after the other. The answer to a bad one says what is wrong. A
 * bundle whose run fails is loaded anew.
 */
#include "tools/run/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "hcq/hcq_bundle.h"
#include "tools/run/wire.h"

#define CLIENTS_MAX 16
#define WORDS_MAX   128        /* of a request */
#define LINE_BYTES  8192       /* of a request, and of an answer */
#define TURN_BYTES  (1u << 20) /* for one client, until others have a turn */

/* How long a request may take to come, or its answer to go: so long, and as
 * long as its bytes take at this rate. */
#define LIMIT_NS          10000000000u
#define LIMIT_NS_PER_BYTE 1000u

struct served {
    char name[64];
    const char *path;
    struct hcq_bundle *bundle;
};

/* A request in words, which end with zeros. The word of "name:BYTES" and
 * "name=NUMBER" is the name. */
struct request {
    char line[LINE_BYTES];
    char *words[WORDS_MAX];
    char kinds[WORDS_MAX]; /* ':', '=' or 0 */
    int64_t numbers[WORDS_MAX];
    unsigned n;
    uint64_t payload_bytes; /* behind the line */
    const char *problem;    /* with the line; NULL: none */
};

enum phase {
    IN_LINE,   /* `at` bytes of it were read */
    IN_BYTES,  /* `at` of the request's payload were read */
    IN_ANSWER, /* `at` of it were written: said, then out */
};

/* Whoever asks, with the request at hand. */
struct client {
    int in, out; /* the same for a socket */
    bool is_pipe;
    enum phase phase;
    uint64_t last_ns;  /* when it came, or was answered last */
    uint64_t limit_ns; /* for the phase, by listening_ns; 0: none */
    uint64_t at;
    struct request request;
    uint8_t *data; /* the payload; NULL: it is dropped */
    char said[LINE_BYTES];
    uint64_t n_said;
    uint8_t *answer; /* the bytes behind what is said */
    uint64_t answer_bytes;
};

struct server {
    const struct serve_options *options;
    struct hcq_device *dev;
    struct served bundles[TOOL_LIST_MAX];
    size_t n_bundles;
    struct client *clients[CLIENTS_MAX];
    unsigned n_clients;
    int listener; /* -1: there is none */
    int watchdog_ms;
    uint64_t alive_ns; /* when the service's manager was told last */
    uint64_t busy_ns;  /* spent in requests, while no client was listened to */
    uint64_t n_runs, n_failed;
    bool is_over;            /* the device cannot be used any more */
    bool is_cut;             /* stdin ended within a request */
    int in_errno, out_errno; /* of a pipe that broke */
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

static bell_status
load_all(struct server *s)
{
    size_t i;

    for (i = 0; i < s->options->bundles->n_items; i++)
        BELL_TRY(name_bundle(s, s->options->bundles->items[i]));
    BELL_TRY(hcq_device_open(s->options->device, &s->dev));
    if (!s->options->device)
        tool_tell_passed_over(s->dev);
    for (i = 0; i < s->n_bundles; i++)
        BELL_TRY(load(s, &s->bundles[i]));
    return BELL_OK;
}

/* ---- answers ---- */

/* The last error, in one line. */
static void
answer_error(struct client *c)
{
    int n = snprintf(c->said, sizeof(c->said), "error %s",
                     bell_error_last()->message);
    int i;

    if (n >= (int)sizeof(c->said) - 1)
        n = (int)sizeof(c->said) - 2;
    for (i = 0; i < n; i++) {
        if ((unsigned char)c->said[i] < ' ')
            c->said[i] = ' ';
    }
    c->said[n] = '\n';
    c->n_said = (uint64_t)n + 1;
    c->answer_bytes = 0;
    bell_error_clear();
}

static BELL_MUST_CHECK bell_status
need_room(uint8_t **out_data, uint64_t n_bytes)
{
    *out_data = host_alloc((size_t)n_bytes + 1);
    if (*out_data)
        return BELL_OK;
    return bell_fail(BELL_E_NO_MEMORY, "out of memory for %" PRIu64 " bytes",
                     n_bytes);
}

static BELL_MUST_CHECK bell_status say(struct client *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* At the end of the answer's line. */
static bell_status
say(struct client *c, const char *fmt, ...)
{
    size_t room = sizeof(c->said) - (size_t)c->n_said;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(c->said + c->n_said, room, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room) /* names of outputs, hundreds of them */
        return bell_fail(BELL_E_UNSUPPORTED, "an answer of too many words");
    c->n_said += (uint64_t)n;
    return BELL_OK;
}

/* ---- requests ---- */

static bool
read_serve_number(const char *text, char kind, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return *text && !*end && !errno && *text != ' ' && *text != '+' &&
           (kind == '=' || (*out >= 0 && *text != '-'));
}

/* A mistake is noted: what follows the line is still known where its words say
 * it. */
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
            if (!read_serve_number(mark + 1, r->kinds[r->n],
                                   &r->numbers[r->n])) {
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

/* The most bytes that an input can have; an input of the sizes of symbols may
 * have fewer. */
static uint64_t
most_bytes(const struct hcq_bundle *b, uint32_t number, bool *out_varies)
{
    const struct hcq_bundle_value *v = hcq_bundle_value(b, number);
    uint64_t most, min, max;
    uint32_t bytes, i;

    *out_varies = false;
    (void)hcq_bundle_dtype_name(v->dtype, &bytes);
    most = bytes;
    for (i = 0; i < v->ndim; i++) {
        *out_varies |= hcq_bundle_axis(b, number, i, &min, &max) != NULL;
        most *= max;
    }
    return most;
}

/* Values are those of inputs, states and symbols, with their sizes, each once;
 * numbers[] gets which. */
static bell_status
check_values(const struct hcq_bundle *b, const struct request *r,
             uint32_t *numbers)
{
    uint64_t bytes, most;
    bool varies;
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
        bytes = (uint64_t)r->numbers[i];
        most = r->kinds[i] == ':' ? most_bytes(b, numbers[i], &varies) : bytes;
        if (bytes > most || (bytes < most && !varies))
            return bell_fail(
                BELL_BAD_SIZE,
                "'%.60s' has %" PRIu64 " bytes, expected %s%" PRIu64,
                r->words[i], bytes, varies ? "at most " : "", most);
        for (k = 2; k < i; k++) {
            if (numbers[k] == numbers[i])
                return bell_fail(BELL_BAD_NAME, "'%.60s' is there twice",
                                 r->words[i]);
        }
    }
    return BELL_OK;
}

/* Symbols first: inputs and outputs may have their sizes. */
static bell_status
write_symbols(struct hcq_bundle *b, const struct request *r,
              const uint32_t *numbers)
{
    uint32_t i;

    for (i = 2; i < r->n; i++) {
        if (r->kinds[i] == '=')
            BELL_TRY(hcq_bundle_write(b, numbers[i], &r->numbers[i],
                                      sizeof(r->numbers[i])));
    }
    return BELL_OK;
}

static bell_status
write_values(struct hcq_bundle *b, const struct client *c,
             const uint32_t *numbers)
{
    const struct request *r = &c->request;
    uint64_t at = 0;
    uint32_t i;

    for (i = 2; i < r->n; i++) {
        if (r->kinds[i] != ':')
            continue;
        BELL_TRY(hcq_bundle_write(b, numbers[i], c->data + at,
                                  (uint64_t)r->numbers[i]));
        at += (uint64_t)r->numbers[i];
    }
    return BELL_OK;
}

/* The answer's line, and room for its bytes: what may fail without the run. */
static bell_status
prepare_outputs(const struct hcq_bundle *b, struct client *c)
{
    const struct hcq_bundle_value *v;
    uint32_t i;

    BELL_TRY(say(c, "ok"));
    for (i = 0; (v = hcq_bundle_value(b, i)); i++) {
        if (v->kind != HCQ_BUNDLE_OUTPUT)
            continue;
        BELL_TRY(say(c, " %s:%" PRIu64, v->name, v->size_bytes));
        c->answer_bytes += v->size_bytes;
    }
    BELL_TRY(say(c, "\n"));
    return need_room(&c->answer, c->answer_bytes);
}

static bell_status
write_and_run(struct server *s, struct hcq_bundle *b, struct client *c,
              const uint32_t *numbers)
{
    const struct hcq_bundle_value *v;
    uint64_t at = 0;
    uint32_t i;

    BELL_TRY(write_values(b, c, numbers));
    BELL_TRY(hcq_bundle_run(b, NULL));
    BELL_TRY(hcq_bundle_wait(b, s->options->timeout_ns));
    for (i = 0; (v = hcq_bundle_value(b, i)); i++) {
        if (v->kind != HCQ_BUNDLE_OUTPUT)
            continue;
        BELL_TRY(hcq_bundle_read(b, i, c->answer + at, v->size_bytes));
        at += v->size_bytes;
    }
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

static bell_status
serve_run(struct server *s, struct served *b, struct client *c,
          const uint32_t *numbers)
{
    bell_status status;

    if (c->request.payload_bytes && !c->data)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for %" PRIu64 " bytes",
                         c->request.payload_bytes);
    status = write_symbols(b->bundle, &c->request, numbers);
    if (status == BELL_OK) {
        BELL_TRY(prepare_outputs(b->bundle, c));
        status = write_and_run(s, b->bundle, c, numbers);
    }
    s->n_runs++;
    if (status != BELL_OK) {
        s->n_failed++;
        mend(s, b, status);
    }
    return status;
}

static bell_status
serve_read(const struct served *b, struct client *c)
{
    const struct request *r = &c->request;
    const char *name = r->n == 3 ? r->words[2] : "";
    uint32_t number = find_any(b->bundle, ~(1u << HCQ_BUNDLE_SYMBOL), name);
    const struct hcq_bundle_value *v = hcq_bundle_value(b->bundle, number);

    if (!v)
        return bell_fail(BELL_BAD_NAME, "the bundle has no value '%.60s'",
                         name);
    BELL_TRY(say(c, "ok %s:%" PRIu64 "\n", v->name, v->size_bytes));
    BELL_TRY(need_room(&c->answer, v->size_bytes));
    c->answer_bytes = v->size_bytes;
    return hcq_bundle_read(b->bundle, number, c->answer, v->size_bytes);
}

static bell_status
serve_health(const struct server *s, struct client *c)
{
    BELL_TRY(hcq_device_status(s->dev));
    return say(c, "ok bundles=%zu runs=%" PRIu64 " failed=%" PRIu64 "\n",
               s->n_bundles, s->n_runs, s->n_failed);
}

/* What is wrong with a request, whose bytes need not be there yet. *out_bundle
 * is NULL for 'health'; numbers[] gets the values of 'run'. */
static bell_status
judge_request(struct server *s, const struct request *r,
              struct served **out_bundle, uint32_t *numbers)
{
    const char *problem = r->problem;
    bool is_run = !problem && strcmp(r->words[0], "run") == 0;
    bool is_read = !problem && strcmp(r->words[0], "read") == 0;

    *out_bundle = NULL;
    if (!problem && strcmp(r->words[0], "health") == 0 && r->n == 1)
        return BELL_OK;
    if (!problem && !is_run && !is_read)
        problem = "it is not 'health', 'run' or 'read'";
    if (problem)
        return bell_fail(BELL_BAD_VALUE, "the request: %s", problem);
    BELL_TRY(find_bundle(s, r, out_bundle));
    if (is_run)
        return check_values((*out_bundle)->bundle, r, numbers);
    if (r->payload_bytes)
        return bell_fail(BELL_BAD_VALUE, "the request: 'read' takes no bytes");
    return BELL_OK;
}

/* ---- one client ---- */

/* The time without that of requests, during which nobody could be heard. */
static uint64_t
listening_ns(const struct server *s)
{
    return time_now_ns() - s->busy_ns;
}

static void
set_limit(const struct server *s, struct client *c, uint64_t n_bytes)
{
    c->limit_ns =
        c->is_pipe ? 0
                   : listening_ns(s) + LIMIT_NS + n_bytes * LIMIT_NS_PER_BYTE;
}

/* The line is there. Room is made for the bytes of a request that is good: of
 * another they are dropped, as far as they are known, and its answer follows
 * them. */
static void
begin_bytes(struct server *s, struct client *c)
{
    struct request *r = &c->request;
    uint32_t numbers[WORDS_MAX];
    struct served *b;

    if (c->at < LINE_BYTES) {
        r->line[c->at] = 0;
        parse(r);
    } else {
        r->payload_bytes = 0;
        r->problem = "its line is too long";
    }
    c->phase = IN_BYTES;
    c->at = 0;
    if (!r->payload_bytes)
        return;
    if (judge_request(s, r, &b, numbers) == BELL_OK &&
        need_room(&c->data, r->payload_bytes) == BELL_OK)
        set_limit(s, c, r->payload_bytes);
    bell_error_clear();
}

static void
begin_answer(const struct server *s, struct client *c)
{
    host_free(c->data);
    c->data = NULL;
    c->phase = IN_ANSWER;
    c->at = 0;
    set_limit(s, c, c->n_said + c->answer_bytes);
}

static void
begin_line(struct client *c)
{
    host_free(c->answer);
    c->answer = NULL;
    c->answer_bytes = c->n_said = c->at = 0;
    c->phase = IN_LINE;
    c->limit_ns = 0;
    c->last_ns = time_now_ns();
}

/* The request is complete. */
static void
serve_request(struct server *s, struct client *c)
{
    uint64_t start_ns = time_now_ns();
    uint32_t numbers[WORDS_MAX];
    struct served *b;
    bell_status status = judge_request(s, &c->request, &b, numbers);

    if (status == BELL_OK && !b)
        status = serve_health(s, c);
    else if (status == BELL_OK && strcmp(c->request.words[0], "run") == 0)
        status = serve_run(s, b, c, numbers);
    else if (status == BELL_OK)
        status = serve_read(b, c);
    if (status != BELL_OK)
        answer_error(c);
    s->busy_ns += time_now_ns() - start_ns;
    begin_answer(s, c);
}

/* Byte by byte: what is behind the line stays where it is. */
static enum wire_result
read_serve_line(const struct server *s, struct client *c)
{
    enum wire_result result;
    uint64_t got;
    unsigned i;
    char byte;

    for (i = 0; i < LINE_BYTES; i++) {
        result = wire_read(c->in, &byte, 1, &got);
        if (result != WIRE_OK)
            return result;
        if (!c->limit_ns)
            set_limit(s, c, 0);
        if (byte == '\n')
            return WIRE_OK;
        if (c->at < LINE_BYTES)
            c->request.line[c->at++] = byte;
    }
    return WIRE_WAIT;
}

static enum wire_result
read_bytes(struct client *c)
{
    uint64_t n = c->request.payload_bytes - c->at, got;
    enum wire_result result;
    char dropped[4096];

    if (n == 0)
        return WIRE_OK;
    if (c->data)
        result = wire_read(c->in, c->data + c->at,
                           n < TURN_BYTES ? n : TURN_BYTES, &got);
    else
        result = wire_read(c->in, dropped,
                           n < sizeof(dropped) ? n : sizeof(dropped), &got);
    if (result != WIRE_OK)
        return result;
    c->at += got;
    return got == n ? WIRE_OK : WIRE_WAIT;
}

static enum wire_result
write_answer(struct client *c)
{
    uint64_t end = c->n_said + c->answer_bytes, turn = 0, n, put;

    while (c->at < end) {
        const void *from = c->said + c->at;
        enum wire_result result;

        n = c->n_said - c->at;
        if (c->at >= c->n_said) {
            from = c->answer + (c->at - c->n_said);
            n = end - c->at;
        }
        if (turn >= TURN_BYTES)
            return WIRE_WAIT;
        result = wire_write(c->out, from, n, !c->is_pipe, &put);
        if (result != WIRE_OK)
            return result;
        c->at += put;
        turn += put;
    }
    return WIRE_OK;
}

/* A pipe has one client, who is told why it ends, and the program's caller
 * too. */
static enum wire_result
end_pipe(struct server *s, struct client *c)
{
    if (c->phase == IN_ANSWER) {
        s->out_errno = errno;
        return WIRE_GONE;
    }
    s->in_errno = errno;
    if (s->in_errno || (c->phase == IN_LINE && c->at == 0))
        return WIRE_GONE;
    s->is_cut = true;
    (void)!bell_fail(BELL_BAD_VALUE, "the request: stdin ends within it");
    answer_error(c);
    begin_answer(s, c);
    return WIRE_WAIT;
}

/* As far as it goes without a wait, and to the end of one request. */
static enum wire_result
go_on(struct server *s, struct client *c)
{
    enum wire_result result = WIRE_OK;

    if (c->phase == IN_LINE) {
        result = read_serve_line(s, c);
        if (result == WIRE_OK)
            begin_bytes(s, c);
    }
    if (result == WIRE_OK && c->phase == IN_BYTES) {
        result = read_bytes(c);
        if (result == WIRE_OK && (s->is_over || wire_is_stopped()))
            return WIRE_WAIT;
        if (result == WIRE_OK)
            serve_request(s, c);
    }
    if (result == WIRE_OK)
        result = write_answer(c);
    if (result == WIRE_GONE && c->is_pipe)
        result = end_pipe(s, c);
    if (result == WIRE_OK)
        begin_line(c);
    return result;
}

/* ---- clients ---- */

static void
drop_client(struct server *s, unsigned i)
{
    struct client *c = s->clients[i];

    if (!c->is_pipe)
        close(c->in);
    host_free(c->data);
    host_free(c->answer);
    host_free(c);
    s->clients[i] = s->clients[--s->n_clients];
}

static bool
add_client(struct server *s, int in, int out)
{
    struct client *c = host_calloc(1, sizeof(*c));

    if (!c)
        return false;
    c->in = in;
    c->out = out;
    c->is_pipe = in != out;
    begin_line(c);
    s->clients[s->n_clients++] = c;
    return true;
}

static bool
is_idle(const struct client *c)
{
    return c->phase == IN_LINE && c->at == 0;
}

/* For one more than there may be, the one goes that was idle for longest; where
 * nobody is, the one whose last answer is oldest. */
static void
accept_client(struct server *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    unsigned goes = 0, i;

    if (fd < 0)
        return;
    for (i = 1; i < s->n_clients; i++) {
        bool idle = is_idle(s->clients[i]), other = is_idle(s->clients[goes]);

        if (idle != other ? idle
                          : s->clients[i]->last_ns < s->clients[goes]->last_ns)
            goes = i;
    }
    if (s->n_clients == CLIENTS_MAX)
        drop_client(s, goes);
    if (!add_client(s, fd, fd))
        close(fd);
}

/* To the service's manager, where it wants to hear it. */
static void
tell_alive(struct server *s)
{
    uint64_t now = time_now_ns();

    if (s->watchdog_ms < 0 ||
        now - s->alive_ns < (uint64_t)s->watchdog_ms * 1000000u)
        return;
    wire_notify("WATCHDOG=1", false);
    s->alive_ns = now;
}

/* Until something is to be done without any client: -1: never. */
static int
wait_ms(const struct server *s)
{
    uint64_t now = listening_ns(s);
    int ms = s->watchdog_ms;
    unsigned i;

    for (i = 0; i < s->n_clients; i++) {
        uint64_t limit = s->clients[i]->limit_ns, left;

        if (!limit)
            continue;
        left = limit > now ? (limit - now) / 1000000u + 1 : 0;
        if (left < (ms < 0 ? (uint64_t)INT_MAX : (uint64_t)ms))
            ms = (int)left;
    }
    return ms;
}

/* Those who are ready, then those whose time is over. */
static void
serve_ready(struct server *s, const struct pollfd *fds)
{
    unsigned i;

    for (i = s->n_clients; i-- > 0;) {
        if (!fds[i].revents)
            continue;
        if (go_on(s, s->clients[i]) == WIRE_GONE)
            drop_client(s, i);
        tell_alive(s);
    }
    for (i = s->n_clients; i-- > 0;) {
        uint64_t limit = s->clients[i]->limit_ns;

        if (limit && listening_ns(s) > limit)
            drop_client(s, i);
    }
}

static void
take_turn(struct server *s)
{
    struct pollfd fds[CLIENTS_MAX + 1];
    unsigned i, n = s->n_clients;

    for (i = 0; i < n; i++) {
        const struct client *c = s->clients[i];

        fds[i] = c->phase == IN_ANSWER ? (struct pollfd){c->out, POLLOUT, 0}
                                       : (struct pollfd){c->in, POLLIN, 0};
    }
    fds[n] = (struct pollfd){s->listener, POLLIN, 0}; /* or none: -1 */
    if (wire_poll(fds, n + 1, wait_ms(s)) < 0)
        return;
    serve_ready(s, fds);
    if (fds[n].revents && !s->is_over)
        accept_client(s);
}

/* Answers that have begun go on when the server is to end; nothing else. */
static void
finish_answers(struct server *s)
{
    unsigned i;

    for (i = s->n_clients; i-- > 0;) {
        if (s->clients[i]->phase != IN_ANSWER)
            drop_client(s, i);
        else if (!s->clients[i]->limit_ns)
            s->clients[i]->limit_ns = listening_ns(s) + LIMIT_NS;
    }
}

static void
serve_clients(struct server *s)
{
    while (!wire_is_stopped() && !s->is_over &&
           (s->n_clients || s->listener >= 0)) {
        take_turn(s);
        tell_alive(s);
    }
    wire_notify("STOPPING=1", false);
    if (s->listener >= 0)
        close(s->listener);
    s->listener = -1;
    for (finish_answers(s); s->n_clients; finish_answers(s))
        take_turn(s);
}

/* What ended the pipes, but for the end of the requests. */
static bell_status
check_pipes(const struct server *s)
{
    if (s->out_errno)
        return bell_fail_errno(BELL_E_IO, s->out_errno,
                               "cannot write to stdout: %s",
                               strerror(s->out_errno));
    if (s->in_errno)
        return bell_fail_errno(BELL_E_IO, s->in_errno, "cannot read stdin: %s",
                               strerror(s->in_errno));
    return s->is_cut ? bell_fail(BELL_E_IO, "stdin ends within a request")
                     : BELL_OK;
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
    else if (!add_client(s, STDIN_FILENO, STDOUT_FILENO))
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    wire_notify("READY=1", true);
    s->watchdog_ms = wire_watchdog_ms();
    s->alive_ns = time_now_ns();
    serve_clients(s);
    if (!is_pipe)
        (void)unlink(path);
    return s->is_over ? bell_fail(BELL_E_DEVICE_LOST,
                                  "%s: it does not work again after a run that "
                                  "failed",
                                  hcq_device_name(s->dev))
                      : check_pipes(s);
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
    host_free(s);
    return code;
}
