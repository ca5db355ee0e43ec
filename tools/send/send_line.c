/* What a line of a session says, done. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"
#include "base/nearest.h"
#include "hcq/decode/decode_queue.h"
#include "tensor/runtime/ir.h"
#include "tools/send/send.h"
#include "tools/tools.h"

#define READ_MAX_DW  4096u
#define WAIT_SECONDS 10.0

typedef bell_status command_fn(struct send *s, char **tokens, size_t n_tokens);

/* ---- streams ------------------------------------------------------------- */

static bell_status
begin(struct send *s)
{
    if (s->cs)
        return BELL_OK;
    BELL_TRY(hcq_queue_begin(s->queue, &s->cs));
    if (s->was_submitted)
        s->n_words = 0;
    s->was_submitted = false;
    return BELL_OK;
}

/* A command that failed has broken the stream: what it held is dropped. */
static bell_status
check_stream(struct send *s)
{
    bell_status status = hcq_cs_end(s->cs);

    if (status == BELL_OK)
        return BELL_OK;
    hcq_cs_discard(s->cs);
    s->cs = NULL;
    s->n_words = 0;
    return status;
}

static bell_status
send_words(struct send *s, const uint32_t *words, uint32_t n, bool is_checked)
{
    if (is_checked)
        BELL_TRY(decode_queue_check(s->queue, words, n));
    BELL_TRY(begin(s));
    if (host_grow((void **)&s->words, &s->cap_words, s->n_words + n,
                  sizeof(*words)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    memcpy(s->words + s->n_words, words, n * sizeof(*words));
    s->n_words += n;
    hcq_cs_words(s->cs, words, n, HCQ_WORDS_UNCHECKED);
    return check_stream(s);
}

static void
say_send_line(void *user, const char *line)
{
    struct send *s = user;

    tool_say(s->json, "  %s", line);
}

void
send_show(struct send *s)
{
    struct regs_stream stream = {.line = say_send_line, .user = s};

    if (!s->n_words)
        tool_say(s->json, "no words");
    else if (decode_queue_init(&stream, s->queue))
        (void)regs_decode_stream(&stream, s->words, s->n_words);
}

static bell_status
do_show(struct send *s, char **tokens, size_t n_tokens)
{
    (void)tokens;
    (void)n_tokens;
    tool_say(s->json, "%s:", hcq_queue_name(s->queue));
    send_show(s);
    return BELL_OK;
}

/* Words that are given as numbers. */
static bell_status
words_of(struct send *s, char **tokens, size_t n_tokens, bool is_checked)
{
    uint32_t words[HCQ_WORDS_MAX], n = 0;

    BELL_TRY(send_add_words(s, tokens, n_tokens, words, &n));
    return send_words(s, words, n, is_checked);
}

static bell_status
do_words(struct send *s, char **tokens, size_t n_tokens)
{
    return words_of(s, tokens, n_tokens, true);
}

static bell_status
do_unchecked(struct send *s, char **tokens, size_t n_tokens)
{
    return words_of(s, tokens, n_tokens, false);
}

static bell_status
do_packet(struct send *s, char **tokens, size_t n_tokens)
{
    uint32_t words[HCQ_WORDS_MAX], n;

    BELL_TRY(send_packet(s, tokens, n_tokens, words, &n));
    return send_words(s, words, n, true);
}

static bell_status
do_barrier(struct send *s, char **tokens, size_t n_tokens)
{
    (void)tokens;
    (void)n_tokens;
    BELL_TRY(begin(s));
    hcq_cs_barrier(s->cs);
    return check_stream(s);
}

static bell_status
do_queue(struct send *s, char **tokens, size_t n_tokens)
{
    enum hcq_queue_kind kind;

    (void)n_tokens;
    if (strcmp(tokens[0], "compute") == 0)
        kind = HCQ_QUEUE_COMPUTE;
    else if (strcmp(tokens[0], "copy") == 0)
        kind = HCQ_QUEUE_COPY;
    else
        return bell_fail(BELL_E_INVALID, "queue %s: compute and copy are known",
                         tokens[0]);
    if (s->cs)
        return bell_fail(BELL_E_INVALID, "the words for %s are not submitted",
                         hcq_queue_name(s->queue));
    if (!s->queues[kind])
        BELL_TRY(hcq_queue_create(s->dev, kind, &s->queues[kind]));
    s->queue = s->queues[kind];
    s->n_words = 0;
    return BELL_OK;
}

/* The device's error, and the words that it was given. */
static bell_status
explain(struct send *s, bell_status status)
{
    if (status == BELL_OK || !s->n_words)
        return status;
    tool_say(s->json, "%s was given:", hcq_queue_name(s->queue));
    send_show(s);
    return status;
}

static bell_status
do_submit(struct send *s, char **tokens, size_t n_tokens)
{
    struct hcq_cs *cs = s->cs;
    bell_status status;

    (void)tokens;
    (void)n_tokens;
    if (!cs)
        return bell_fail(BELL_E_INVALID, "nothing to submit");
    s->cs = NULL;
    s->was_submitted = true;
    status = hcq_cs_submit(cs, NULL);
    return explain(s, status);
}

static bell_status
do_wait(struct send *s, char **tokens, size_t n_tokens)
{
    double seconds = WAIT_SECONDS;
    char *end;

    if (n_tokens) {
        seconds = strtod(tokens[0], &end);
        if (*end || !(seconds >= 0 && seconds < 1e9))
            return bell_fail(BELL_E_INVALID, "wait '%s': no seconds",
                             tokens[0]);
    }
    if (s->cs)
        return bell_fail(BELL_E_INVALID, "the words for %s are not submitted",
                         hcq_queue_name(s->queue));
    return explain(s, hcq_queue_wait(s->queue, (uint64_t)(seconds * 1e9)));
}

bell_status
send_finish(struct send *s)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(s->queues); i++) {
        struct hcq_queue *queue = s->queues[i];
        bell_status status =
            queue ? hcq_queue_wait(queue, (uint64_t)(WAIT_SECONDS * 1e9))
                  : BELL_OK;

        if (status != BELL_OK) /* the words are those of the queue in use */
            return queue == s->queue ? explain(s, status) : status;
    }
    return BELL_OK;
}

/* ---- memory -------------------------------------------------------------- */

/* So that what nobody stored is seen. */
static bell_status
fill_poison(struct hcq_buffer *buf)
{
    uint8_t bytes[4096];
    uint64_t at, n;

    memset(bytes, 0xcb, sizeof(bytes));
    for (at = 0; at < buf->size_bytes; at += n) {
        n = buf->size_bytes - at;
        if (n > sizeof(bytes))
            n = sizeof(bytes);
        BELL_TRY(hcq_buffer_write(buf, at, bytes, n));
    }
    return BELL_OK;
}

static bell_status
do_buffer(struct send *s, char **tokens, size_t n_tokens)
{
    struct hcq_buffer *buf;
    uint64_t size_bytes;

    (void)n_tokens;
    BELL_TRY(send_number(s, tokens[1], &size_bytes));
    if (size_bytes == 0)
        return bell_fail(BELL_E_INVALID, "buffer %s: no bytes", tokens[0]);
    if (host_grow((void **)&s->buffers, &s->cap_buffers, s->n_buffers + 1,
                  sizeof(buf)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    BELL_TRY(hcq_buffer_create(s->dev, size_bytes, 0, &buf));
    s->buffers[s->n_buffers++] = buf;
    BELL_TRY(fill_poison(buf));
    BELL_TRY(send_define(s, tokens[0], buf->va));
    tool_say(s->json, "%s = 0x%" PRIx64 ", %" PRIu64 " bytes", tokens[0],
             buf->va, size_bytes);
    return BELL_OK;
}

/* Appends what a token says, "7", "u64:NUMBER", "f32:1.5", as bytes. */
static bell_status
add_value(const struct send *s, const char *token, uint8_t *bytes,
          uint64_t *n_bytes)
{
    bool is_64 = strncmp(token, "u64:", 4) == 0;
    uint64_t value;
    float f;
    char *end;

    if (strncmp(token, "f32:", 4) == 0) {
        errno = 0;
        f = strtof(token + 4, &end);
        if (end == token + 4 || *end)
            return bell_fail(BELL_E_INVALID, "'%s': no number", token);
        if (errno == ERANGE && (f == 0 || isinf(f)))
            return bell_fail(BELL_E_INVALID, "'%s': no float is near", token);
        memcpy(bytes + *n_bytes, &f, 4);
        *n_bytes += 4;
        return BELL_OK;
    }
    BELL_TRY(send_number(s, is_64 ? token + 4 : token, &value));
    if (!is_64 && value > UINT32_MAX && value < UINT64_MAX - INT32_MAX)
        return bell_fail(BELL_E_INVALID,
                         "%s is 0x%" PRIx64
                         ": a word has 32 bits; u64:%s takes two",
                         token, value, token);
    memcpy(bytes + *n_bytes, &value, is_64 ? 8 : 4);
    *n_bytes += is_64 ? 8 : 4;
    return BELL_OK;
}

static bell_status
values_of(const struct send *s, char **tokens, size_t n_tokens, uint8_t *bytes,
          uint64_t *n_bytes)
{
    size_t i;

    *n_bytes = 0;
    for (i = 0; i < n_tokens; i++)
        BELL_TRY(add_value(s, tokens[i], bytes, n_bytes));
    return BELL_OK;
}

static bell_status
write_place(struct send *s, const char *place, const void *data,
            uint64_t n_bytes)
{
    struct hcq_buffer *buf;
    uint64_t offset;

    BELL_TRY(send_place(s, place, n_bytes, &buf, &offset));
    return hcq_buffer_write(buf, offset, data, n_bytes);
}

static bell_status
do_store(struct send *s, char **tokens, size_t n_tokens)
{
    uint8_t bytes[8 * SEND_TOKENS_MAX];
    uint64_t n;

    BELL_TRY(values_of(s, tokens + 1, n_tokens - 1, bytes, &n));
    return write_place(s, tokens[0], bytes, n);
}

static bell_status
do_put(struct send *s, char **tokens, size_t n_tokens)
{
    const struct send_part *part = send_part_find(s, tokens[1]);
    struct nearest nearest = {.name = tokens[1]};
    size_t i;

    (void)n_tokens;
    if (part)
        return write_place(s, tokens[0], part->data, part->size_bytes);
    for (i = 0; i < s->n_parts; i++)
        nearest_try(&nearest, s->parts[i].name, s->parts[i].name);
    return bell_fail(BELL_E_INVALID, "no bytes are known as '%s'%s%s%s",
                     tokens[1], nearest.best ? "; did you mean '" : "",
                     nearest.best ? nearest.best : "",
                     nearest.best ? "'?" : "");
}

/* A descriptor, from what is there on or from nothing on. */
static bell_status
describe_send(struct send *s, char **tokens, size_t n_tokens, bool is_new)
{
    uint32_t words[SEND_TOKENS_MAX] = {0};
    const struct regs_type *type;
    struct hcq_buffer *buf;
    uint64_t offset, n_bytes;
    unsigned gen;

    BELL_TRY(send_layout(s, tokens[1], &type, &gen));
    n_bytes = 4ull * regs_dw(type, gen);
    if (n_bytes > sizeof(words))
        return bell_fail(BELL_E_INTERNAL, "%s has %" PRIu64 " bytes",
                         type->name, n_bytes);
    BELL_TRY(send_place(s, tokens[0], n_bytes, &buf, &offset));
    if (!is_new)
        BELL_TRY(hcq_buffer_read(buf, offset, words, n_bytes));
    BELL_TRY(send_set_fields(s, type, gen, tokens + 2, n_tokens - 2, words));
    return hcq_buffer_write(buf, offset, words, n_bytes);
}

static bell_status
do_block(struct send *s, char **tokens, size_t n_tokens)
{
    return describe_send(s, tokens, n_tokens, true);
}

static bell_status
do_set(struct send *s, char **tokens, size_t n_tokens)
{
    return describe_send(s, tokens, n_tokens, false);
}

static bell_status
do_read(struct send *s, char **tokens, size_t n_tokens)
{
    uint32_t words[READ_MAX_DW];
    struct hcq_buffer *buf;
    uint64_t offset, n = 1, va, i, k;
    char line[128];
    size_t used;

    if (n_tokens > 1)
        BELL_TRY(send_number(s, tokens[1], &n));
    if (n == 0 || n > READ_MAX_DW)
        return bell_fail(BELL_E_INVALID, "read: 1 to %u words", READ_MAX_DW);
    BELL_TRY(send_place(s, tokens[0], 4 * n, &buf, &offset));
    BELL_TRY(hcq_buffer_read(buf, offset, words, 4 * n));
    va = buf->va + offset;
    for (i = 0; i < n; i += 4) {
        used = (size_t)snprintf(line, sizeof(line), "0x%010" PRIx64 ":",
                                va + 4 * i);
        for (k = i; k < n && k < i + 4; k++)
            used += (size_t)snprintf(line + used, sizeof(line) - used, " %08x",
                                     words[k]);
        tool_say(s->json, "%s", line);
    }
    return BELL_OK;
}

static bell_status
do_expect(struct send *s, char **tokens, size_t n_tokens)
{
    uint8_t want[8 * SEND_TOKENS_MAX], got[8 * SEND_TOKENS_MAX];
    struct hcq_buffer *buf;
    uint64_t offset, n, i;

    BELL_TRY(values_of(s, tokens + 1, n_tokens - 1, want, &n));
    BELL_TRY(send_place(s, tokens[0], n, &buf, &offset));
    BELL_TRY(hcq_buffer_read(buf, offset, got, n));
    for (i = 0; i + 4 <= n; i += 4) {
        uint32_t w, g;

        memcpy(&w, want + i, 4);
        memcpy(&g, got + i, 4);
        if (w != g)
            return bell_fail(BELL_E_INVALID,
                             "%s+%" PRIu64 " is 0x%08x, expected 0x%08x",
                             tokens[0], i, g, w);
    }
    tool_say(s->json, "%s: as expected", tokens[0]);
    return BELL_OK;
}

static bell_status
do_let(struct send *s, char **tokens, size_t n_tokens)
{
    uint64_t value;

    (void)n_tokens;
    BELL_TRY(send_number(s, tokens[1], &value));
    return send_define(s, tokens[0], value);
}

/* ---- programs ------------------------------------------------------------ */

static bell_status
keep_program(struct send *s, const char *name, struct hcq_program *prog)
{
    if (host_grow((void **)&s->programs, &s->cap_programs, s->n_programs + 1,
                  sizeof(prog)) != 0) {
        hcq_program_destroy(prog);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    }
    s->programs[s->n_programs++] = prog;
    BELL_TRY(send_define_program(s, name, prog));
    tool_say(s->json,
             "%s: '%s', code at 0x%" PRIx64 ", %" PRIu64 " bytes, %u "
             "buffers, %u numbers",
             name, prog->name, prog->code_va, prog->code_size_bytes,
             prog->n_bufs, prog->n_vals);
    return BELL_OK;
}

/* A kernel as `doorbell kernel --emit ir` prints it. */
static bell_status
do_kernel(struct send *s, char **tokens, size_t n_tokens)
{
    struct hcq_program *prog;
    struct tensor_ir ir;
    bell_status status;
    char *text;

    (void)n_tokens;
    BELL_TRY(file_read_text(tokens[1], &text));
    status = tensor_load_ir(s->ctx, text, &ir, &prog);
    host_free(text);
    if (status != BELL_OK) {
        bell_error_prefix("%s", tokens[1]);
        return status;
    }
    BELL_TRY(keep_program(s, tokens[0], prog));
    tool_say(s->json, "  the compiler's grid: %ux%ux%u groups of %ux%ux%u",
             ir.grid[0], ir.grid[1], ir.grid[2], ir.local[0], ir.local[1],
             ir.local[2]);
    return BELL_OK;
}

/* A binary: a cubin, a code object, what the driver takes. */
static bell_status
do_program(struct send *s, char **tokens, size_t n_tokens)
{
    struct hcq_program_desc desc = {.struct_size = sizeof(desc)};
    struct hcq_program *prog;
    struct file_bytes file;
    uint64_t n_bufs, n_vals;
    bell_status status;

    BELL_TRY(send_number(s, tokens[3], &n_bufs));
    BELL_TRY(send_number(s, tokens[4], &n_vals));
    if (n_bufs > HCQ_ARGS_MAX || n_vals > HCQ_ARGS_MAX - n_bufs)
        return bell_fail(BELL_E_INVALID,
                         "%" PRIu64 " buffers and %" PRIu64
                         " numbers; %u are possible",
                         n_bufs, n_vals, HCQ_ARGS_MAX);
    BELL_TRY(file_read(tokens[1], &file));
    desc.name = desc.entry = tokens[2];
    desc.binary = file.data;
    desc.binary_size_bytes = file.size_bytes;
    desc.n_bufs = (uint32_t)n_bufs;
    desc.n_vals = (uint32_t)n_vals;
    (void)n_tokens;
    status = hcq_program_create(s->dev, &desc, &prog);
    file_bytes_fini(&file);
    if (status != BELL_OK) {
        bell_error_prefix("%s", tokens[1]);
        return status;
    }
    return keep_program(s, tokens[0], prog);
}

/* A launch by the driver, to compare with: exec NAME GRID GROUP : ARG ... */
static bell_status
do_exec(struct send *s, char **tokens, size_t n_tokens)
{
    uint32_t sizes[2][3] = {{1, 1, 1}, {1, 1, 1}}, n_sizes = 0;
    struct hcq_program *prog = NULL;
    uint64_t args[HCQ_ARGS_MAX], value;
    char code[2 * HCQ_NAME_MAX];
    size_t i = 1, n_args = 0, k;

    snprintf(code, sizeof(code), "%s.code", tokens[0]);
    BELL_TRY(send_number(s, code, &value));
    for (k = 0; k < s->n_programs; k++) {
        if (s->programs[k]->code_va == value)
            prog = s->programs[k];
    }
    if (!prog)
        return bell_fail(BELL_E_INVALID,
                         "exec %s: %s is 0x%" PRIx64 ", no program's code",
                         tokens[0], code, value);
    for (; i < n_tokens && strcmp(tokens[i], ":") != 0; i++) {
        BELL_TRY(send_number(s, tokens[i], &value));
        if (n_sizes == 6 || value > UINT32_MAX)
            return bell_fail(BELL_E_INVALID,
                             "exec: up to three sizes of the "
                             "grid and three of a group, then ':'");
        sizes[n_sizes / 3][n_sizes % 3] = (uint32_t)value;
        n_sizes++;
    }
    for (i++; i < n_tokens; i++) {
        if (n_args == HCQ_ARGS_MAX)
            return bell_fail(BELL_E_INVALID,
                             "exec: too many arguments; %u are possible",
                             HCQ_ARGS_MAX);
        BELL_TRY(send_number(s, tokens[i], &args[n_args++]));
    }
    BELL_TRY(begin(s));
    hcq_cs_exec(s->cs, prog, args, (uint32_t)n_args, sizes[0],
                n_sizes > 3 ? sizes[1] : NULL);
    return check_stream(s);
}

/* ---- lines --------------------------------------------------------------- */

static bell_status
do_fields(struct send *s, char **tokens, size_t n_tokens)
{
    (void)n_tokens;
    return send_fields(s, tokens[0]);
}

static bell_status do_help(struct send *s, char **tokens, size_t n_tokens);

static const struct command {
    const char *name;
    command_fn *run;
    size_t min, max; /* tokens behind it */
    const char *usage, *help;
} commands[] = {
    {"buffer", do_buffer, 2, 2, "NAME BYTES", "memory; NAME is its address"},
    {"store", do_store, 2, SEND_TOKENS_MAX, "PLACE VALUE ...",
     "words into a buffer; u64:VALUE, f32:1.5"},
    {"put", do_put, 2, 2, "PLACE PART",
     "bytes known of a program: k.qmd, k.bank"},
    {"block", do_block, 2, SEND_TOKENS_MAX, "PLACE TYPE FIELD=VALUE ...",
     "a descriptor into a buffer; fields not named are 0"},
    {"set", do_set, 2, SEND_TOKENS_MAX, "PLACE TYPE FIELD=VALUE ...",
     "fields of the descriptor that is there"},
    {"kernel", do_kernel, 2, 2, "NAME FILE",
     "compiles what `doorbell kernel --emit ir` prints"},
    {"program", do_program, 5, 5, "NAME FILE ENTRY BUFFERS NUMBERS",
     "loads a binary; so many arguments"},
    {"let", do_let, 2, 2, "NAME VALUE", "a number by a name"},
    {"fields", do_fields, 1, 1, "NAME",
     "the fields of a packet, register or descriptor"},
    {"queue", do_queue, 1, 1, "compute|copy", "which queue, from now on"},
    {"words", do_words, 1, SEND_TOKENS_MAX, "WORD ...",
     "words, checked by the decoder"},
    {"unchecked", do_unchecked, 1, SEND_TOKENS_MAX, "WORD ...",
     "words as they are"},
    {"exec", do_exec, 1, SEND_TOKENS_MAX,
     "NAME GRID ... [GROUP ...] : ARGUMENT ...",
     "a launch as the driver makes it"},
    {"barrier", do_barrier, 0, 0, "", "what is behind sees memory as it is"},
    {"show", do_show, 0, 0, "", "the words since the last submission, decoded"},
    {"submit", do_submit, 0, 0, "", "hands the words to the card"},
    {"wait", do_wait, 0, 1, "[SECONDS]", "until they are done (10 s)"},
    {"read", do_read, 1, 2, "PLACE [WORDS]", "prints words of a buffer"},
    {"expect", do_expect, 2, SEND_TOKENS_MAX, "PLACE VALUE ...",
     "fails if they are others"},
    {"help", do_help, 0, 0, "", "this"},
};

void
send_help(struct send *s)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(commands); i++) {
        char line[64];

        snprintf(line, sizeof(line), "%s %s", commands[i].name,
                 commands[i].usage);
        tool_say(s->json, "%-42s %s", line, commands[i].help);
    }
    tool_say(s->json, "%-42s %s", "NAME FIELD=VALUE ... [: WORD ...]",
             "a packet, register or method");
    tool_say(s->json, "%-42s %s", "NAME = WORD ...", "a register's words");
}

static bell_status
do_help(struct send *s, char **tokens, size_t n_tokens)
{
    (void)tokens;
    (void)n_tokens;
    send_help(s);
    return BELL_OK;
}

static size_t
split(char *line, char **tokens)
{
    size_t n = 0;
    char *save = NULL, *token;

    line[strcspn(line, "#\r\n")] = '\0';
    for (token = strtok_r(line, " \t", &save); token;
         token = strtok_r(NULL, " \t", &save)) {
        if (n == SEND_TOKENS_MAX)
            return n + 1;
        tokens[n++] = token;
    }
    return n;
}

static bell_status
refuse_command(const char *name)
{
    struct nearest nearest = {.name = name};
    size_t i;

    for (i = 0; i < ARRAY_LEN(commands); i++)
        nearest_try(&nearest, commands[i].name, commands[i].name);
    if (nearest.best)
        return bell_fail(BELL_E_INVALID, "no command '%s'; did you mean '%s'?",
                         name, nearest.best);
    return bell_fail(BELL_E_INVALID,
                     "no command '%s'; `help` lists them, and packets and "
                     "registers have capital letters",
                     name);
}

bell_status
send_line(struct send *s, char *line)
{
    char *tokens[SEND_TOKENS_MAX];
    size_t n = split(line, tokens), i;

    if (n == 0)
        return BELL_OK;
    if (n > SEND_TOKENS_MAX)
        return bell_fail(BELL_E_INVALID, "more than %u words in a line",
                         SEND_TOKENS_MAX);
    if (isupper((unsigned char)tokens[0][0]))
        return do_packet(s, tokens, n);
    for (i = 0; i < ARRAY_LEN(commands); i++) {
        const struct command *command = &commands[i];

        if (strcmp(command->name, tokens[0]) != 0)
            continue;
        if (n - 1 < command->min || n - 1 > command->max)
            return bell_fail(BELL_E_INVALID, "usage: %s %s", command->name,
                             command->usage);
        return command->run(s, tokens + 1, n - 1);
    }
    return refuse_command(tokens[0]);
}
