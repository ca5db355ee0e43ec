/* Adreno's shaders as text, an instruction a line. */
#include "tools/decode/decode_ir3.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hcq/decode/decode_queue.h"
#include "render/ir3/ir3_isa.h"

unsigned
decode_ir3(unsigned gen, const uint32_t *words, size_t n_dw, regs_line_fn *line,
           void *user)
{
    char text[IR3_TEXT_MAX], buf[IR3_TEXT_MAX + 96];
    unsigned n_unknown = n_dw % 2 ? 1 : 0;
    struct ir3_instr instr;
    uint64_t word, unused;
    size_t i, n = n_dw / 2;
    int at;

    for (i = 0; i < n; i++) {
        word = (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
        if (!ir3_decode((enum ir3_gen)gen, word, &instr, &unused)) {
            snprintf(buf, sizeof(buf), "%4zu: %016" PRIx64 " ?", i, word);
            n_unknown += 2;
            line(user, buf);
            continue;
        }
        ir3_print(&instr, text);
        at = snprintf(buf, sizeof(buf), "%4zu: %016" PRIx64 " %s", i, word,
                      text);
        if (ir3_op_has(instr.op, IR3_F_IMM) && instr.op != IR3_ALIAS)
            at += snprintf(buf + at, sizeof(buf) - (size_t)at, " -> %lld",
                           (long long)i + (int32_t)instr.f[IR3_F_IMM]);
        if (unused)
            snprintf(buf + at, sizeof(buf) - (size_t)at, " unused=0x%" PRIx64,
                     unused);
        line(user, buf);
    }
    if (n_dw % 2) {
        snprintf(buf, sizeof(buf), "%4zu: %08" PRIx32 " ? half of one", n,
                 words[n_dw - 1]);
        line(user, buf);
    }
    return n_unknown;
}

unsigned
decode_pkt7(unsigned gen, const uint32_t *words, size_t n_dw,
            regs_line_fn *line, void *user)
{
    return decode_adreno_packets(gen == IR3_GEN_A6XX ? 6 : 7, words, n_dw, line,
                                 user);
}

/* One line without its end, comment and address; false: it is too long. */
static bool
take_line(const char *text, size_t n, char buf[IR3_TEXT_MAX])
{
    size_t i, start = 0;

    for (i = 0; i < n; i++) {
        if (text[i] == '#' && (i == 0 || text[i - 1] == ' ') &&
            !(i + 1 < n && strchr("-0123456789", text[i + 1])))
            break; /* a comment, not a distance */
        if (text[i] == '/' && i + 1 < n && text[i + 1] == '/')
            break;
        if (text[i] == ':')
            start = i + 1;
    }
    n = i;
    while (start < n && (text[start] == ' ' || text[start] == '\t'))
        start++;
    while (n > start && strchr(" \t\r", text[n - 1]))
        n--;
    if (n - start >= IR3_TEXT_MAX)
        return false;
    memcpy(buf, text + start, n - start);
    buf[n - start] = '\0';
    return true;
}

bell_status
decode_ir3_assemble(unsigned gen, const char *name, const char *text, size_t n,
                    regs_line_fn *line, void *user)
{
    const char *end = text + n, *stop;
    char buf[IR3_TEXT_MAX], word[24];
    struct ir3_instr instr;
    unsigned number = 0;

    for (; text < end; text = stop + 1) {
        stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop)
            stop = end;
        number++;
        if (!take_line(text, (size_t)(stop - text), buf))
            return bell_fail(BELL_E_IO, "%s: line %u: too long", name, number);
        if (!buf[0])
            continue;
        if (ir3_parse((enum ir3_gen)gen, buf, &instr) != BELL_OK)
            return bell_fail(BELL_E_IO, "%s: line %u: no instruction is '%s'",
                             name, number, buf);
        snprintf(word, sizeof(word), "%016" PRIx64, ir3_encode(&instr));
        line(user, word);
    }
    return BELL_OK;
}
