/* Chains: what their makers share. */
#ifndef BELL_TOOLS_CHAIN_CHAIN_INTERNAL_H
#define BELL_TOOLS_CHAIN_CHAIN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "render/render.h"
#include "tools/chain/chain.h"

#define CHAIN_TEXT_BYTES 32768

/* What accumulators are made of. */
enum chain_type {
    CHAIN_F32,
    CHAIN_F64,
    CHAIN_F16,
    CHAIN_BF16,
    CHAIN_I32
};

/* A kind: accumulators are words of 32 or 64 bits, of one number or two. Words
 * are sums of bits, which make numbers of them that differ by thread and chain:
 * chain i of thread t begins with first + (t % CHAIN_RESULTS) first_thread + i
 * first_chain; b is b + (t % CHAIN_RESULTS) b_thread. The summand of each step
 * is exact, by whatever way. */
struct chain_form {
    enum chain_type type;
    unsigned word_bits, n_numbers;
    unsigned n_products; /* added to a number by one instruction */
    enum chain_type factor;
    uint64_t first, first_thread, first_chain, a, b, b_thread;
};

extern const struct chain_form chain_forms[CHAIN_KIND_COUNT];

/* A text that is made bit by bit; what does not fit is cut. */
struct chain_text {
    char bytes[CHAIN_TEXT_BYTES];
    size_t used;
};

void chain_put(struct chain_text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* `insn` with $d, $c: the accumulator after and before; $a, $b: factors; $t:
 * the type. */
struct chain_insn_names {
    char d[32], c[32];
    const char *a, *b, *t;
};
void chain_put_insn(struct chain_text *text, const char *insn,
                    const struct chain_insn_names *names);

BELL_MUST_CHECK bell_status chain_lacks(const struct hcq_device_info *info);
/* "sm_90" in "sm_89 sm_90". */
bool chain_is_listed(const char *list, const char *arch);

/* Fill in n_threads, n_insns, n_lanes and n_chains where they are others than
 * chain.c has them, and factors where the instruction takes others. */
BELL_MUST_CHECK bell_status chain_make_ptx(const struct hcq_device_info *info,
                                           struct chain *chain,
                                           struct chain_text *text,
                                           struct render_binary *out);
BELL_MUST_CHECK bell_status chain_make_amd(const struct hcq_device_info *info,
                                           struct chain *chain,
                                           struct chain_text *text,
                                           struct render_binary *out);
BELL_MUST_CHECK bell_status chain_make_host(const struct hcq_device_info *info,
                                            struct chain *chain,
                                            struct chain_text *text,
                                            struct render_binary *out);
BELL_MUST_CHECK bell_status chain_make_cl(const struct hcq_device_info *info,
                                          struct chain *chain,
                                          struct chain_text *text,
                                          struct render_binary *out);

BELL_MUST_CHECK bell_status chain_make_ir3(const struct hcq_device_info *info,
                                           struct chain *chain,
                                           struct chain_text *text,
                                           struct render_binary *out);

#endif
