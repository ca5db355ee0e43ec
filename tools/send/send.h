/* Inside of `doorbell send`: a session that puts a queue's own words together
 * and hands them over. One thread. */
#ifndef BELL_TOOLS_SEND_SEND_H
#define BELL_TOOLS_SEND_SEND_H

#include <stdio.h>

#include "base/map.h"
#include "hcq/decode/encode_queue.h"
#include "hcq/hcq.h"
#include "hcq/regs.h"
#include "base/json.h"

#define SEND_TOKENS_MAX 300 /* of a line */
#define SEND_LINE_MAX   4096

/* A number by its name. */
struct send_symbol {
    char name[HCQ_NAME_MAX];
    uint64_t value;
};

/* Bytes by a name: what a driver knows of a program beforehand. */
struct send_part {
    char name[HCQ_NAME_MAX];
    const void *data;
    uint32_t size_bytes;
};

struct send {
    struct bell_context *ctx;
    struct hcq_device *dev; /* the context's */
    struct hcq_device_info info;
    struct hcq_queue *queues[HCQ_QUEUE_KIND_COUNT];
    struct hcq_queue *queue; /* the one in use */
    struct hcq_cs *cs;       /* its open stream; NULL: none yet */
    struct send_symbol *symbols;
    struct send_part *parts;
    struct hcq_buffer **buffers;
    struct hcq_program **programs;
    uint32_t *words; /* sent or to be sent, since the last submission began */
    size_t n_symbols, n_parts, n_buffers, n_programs, n_words;
    size_t cap_symbols, cap_parts, cap_buffers, cap_programs, cap_words;
    bool was_submitted; /* `words` are under way, or done */
    struct json *json;  /* an open array of lines, or NULL: stdout */
    FILE *script;
    bool prompts; /* somebody types */
};

/* ---- names and numbers (send_names.c) ---- */

/* A number: 12, 0x1f, -3, a name, or several with + - * & | << >> between them,
 * from left to right and without blanks. BELL_E_INVALID says what is wrong. */
BELL_MUST_CHECK bell_status send_number(const struct send *s, const char *text,
                                        uint64_t *out);
/* The name is new; where somebody types, it may be one that is known. */
BELL_MUST_CHECK bell_status send_define(struct send *s, const char *name,
                                        uint64_t value);
/* Bytes that live as long as the session. */
BELL_MUST_CHECK bell_status send_define_part(struct send *s, const char *name,
                                             const void *data,
                                             uint32_t size_bytes);
/* NULL: no such part. */
const struct send_part *send_part_find(const struct send *s, const char *name);
/* The buffer that holds so many bytes from that address on, and where. */
BELL_MUST_CHECK bell_status send_place(const struct send *s, const char *text,
                                       uint64_t n_bytes,
                                       struct hcq_buffer **out_buf,
                                       uint64_t *out_offset);

/* ---- words by their rows (send_words.c) ---- */

/* Sets the fields "NAME=VALUE" in `words`, which a type has in a generation. */
BELL_MUST_CHECK bell_status send_set_fields(const struct send *s,
                                            const struct regs_type *type,
                                            unsigned gen, char **fields,
                                            size_t n_fields, uint32_t *words);
/* The words of a packet or a register, by its name: fields, or "= WORD ..."; of
 * a packet that has some, ": WORD ..." behind it. At most HCQ_WORDS_MAX. */
BELL_MUST_CHECK bell_status send_packet(const struct send *s, char **tokens,
                                        size_t n_tokens,
                                        uint32_t words[HCQ_WORDS_MAX],
                                        uint32_t *out_n);
/* Appends tokens that are numbers to *n words, HCQ_WORDS_MAX of them at most. A
 * negative number may have 32 bits. */
BELL_MUST_CHECK bell_status send_add_words(const struct send *s, char **tokens,
                                           size_t n_tokens, uint32_t *words,
                                           uint32_t *n);
/* Says what fields a packet, register or descriptor has. */
BELL_MUST_CHECK bell_status send_fields(struct send *s, char *name);
/* Descriptors and layouts in memory: the type of that name, and the device's
 * generation of it. */
BELL_MUST_CHECK bell_status send_layout(const struct send *s, const char *name,
                                        const struct regs_type **out_type,
                                        unsigned *out_gen);

/* ---- programs (send_program.c) ---- */

/* Symbols and parts of a loaded program: NAME.code and so on. */
BELL_MUST_CHECK bell_status send_define_program(struct send *s,
                                                const char *name,
                                                struct hcq_program *program);

/* ---- lines (send_line.c) ---- */

/* Does what a line says. */
BELL_MUST_CHECK bell_status send_line(struct send *s, char *line);
/* Waits for what was submitted and not waited for, on every queue. */
BELL_MUST_CHECK bell_status send_finish(struct send *s);
void send_help(struct send *s);
/* What was sent last, decoded. */
void send_show(struct send *s);

#endif
