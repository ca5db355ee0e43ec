/* Pushbuffers, ring entries and launch descriptors as text. */
#include "hcq/decode/decode_nv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/nv/regs/nv_ce.h"
#include "hcq/nv/regs/nv_compute.h"
#include "hcq/nv/regs/nv_host.h"
#include "hcq/nv/regs/nv_qmd.h"

#define LINE_BYTES 512

enum {
    SLOT_COMPUTE = 1,
    SLOT_COPY = 4
};

/* src: docs/hardware/nvidia-kernel.md, "Classes" */
static const struct decode_nv_chip chips[] = {
    {"sm_80", 0xc56f, 0xc6c0, 0xc6b5, 3},
    {"sm_86", 0xc56f, 0xc7c0, 0xc7b5, 3},
    {"sm_89", 0xc56f, 0xc9c0, 0xc7b5, 3},
    {"sm_90", 0xc86f, 0xcbc0, 0xc8b5, 4},
    {"sm_100", 0xc96f, 0xcdc0, 0xc9b5, 5},
    {"sm_120", 0xca6f, 0xcec0, 0xcab5, 5},
};

static const struct regs_unit *const units[] = {&nv_compute_unit, &nv_ce_unit};

const struct decode_nv_chip *
decode_nv_chip_at(size_t idx)
{
    return idx < ARRAY_LEN(chips) ? &chips[idx] : NULL;
}

const struct decode_nv_chip *
decode_nv_chip_find(const char *name)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(chips); i++) {
        if (strcmp(chips[i].name, name) == 0)
            return &chips[i];
    }
    return NULL;
}

void
decode_nv_init(struct decode_nv *d, regs_line_fn *line, void *user)
{
    memset(d, 0, sizeof(*d));
    d->stream.common = &nv_host_unit;
    d->stream.common_gen = NV_HOST_GEN_C86F;
    d->stream.units = units;
    d->stream.n_units = ARRAY_LEN(units);
    d->stream.line = line;
    d->stream.user = user;
}

bool
decode_nv_bind(struct decode_nv *d, uint32_t nv_class)
{
    int host = regs_gen_by_id(&nv_host_unit, nv_class);
    int compute = regs_gen_by_id(&nv_compute_unit, nv_class);
    int copy = regs_gen_by_id(&nv_ce_unit, nv_class);

    if (host >= 0) {
        d->stream.common_gen = (unsigned)host;
    } else if (compute >= 0) {
        d->stream.slots[SLOT_COMPUTE] = &nv_compute_unit;
        d->stream.slot_gens[SLOT_COMPUTE] = (unsigned)compute;
        d->compute_class = nv_class;
    } else if (copy >= 0) {
        d->stream.slots[SLOT_COPY] = &nv_ce_unit;
        d->stream.slot_gens[SLOT_COPY] = (unsigned)copy;
    } else {
        return false;
    }
    return true;
}

static void tell_word(struct decode_nv *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
tell_word(struct decode_nv *d, const char *fmt, ...)
{
    char buf[LINE_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(buf, sizeof(buf), fmt, args);
    va_end(args);
    d->stream.line(d->stream.user, buf);
}

unsigned
decode_nv_push(struct decode_nv *d, const uint32_t *words, size_t n_dw)
{
    return regs_decode_stream(&d->stream, words, n_dw);
}

/* ---- ring entries -------------------------------------------------------- */

/* What an entry is: the one with constants if it has them. */
static const struct regs_type *
entry_type(unsigned gen, const uint32_t *words)
{
    const struct regs_type *base =
        regs_by_name(&nv_host_unit, "GP_EXTENDED_BASE");

    if (base && regs_in(gen, base->gens) && regs_match(base, gen, words))
        return base;
    return regs_by_name(&nv_host_unit, "GP_ENTRY");
}

unsigned
decode_nv_ring(struct decode_nv *d, const uint32_t *words, size_t n_dw,
               uint64_t va)
{
    unsigned gen = d->stream.common_gen;
    char buf[LINE_BYTES];
    struct regs_text text;
    size_t i;

    for (i = 0; i + 2 <= n_dw; i += 2) {
        const struct regs_type *type = entry_type(gen, words + i);
        regs_text_init(&text, buf, sizeof(buf));
        regs_text_put(&text, "0x%010" PRIx64 ": %08x%08x %s ", va + 4 * i,
                      words[i + 1], words[i], type->name);
        regs_decode_fields(&text, type, gen, words + i, UINT64_MAX);
        d->stream.line(d->stream.user, buf);
    }
    if (n_dw % 2 == 0)
        return 0;
    tell_word(d, "0x%010" PRIx64 ": %08x ? half an entry", va + 4 * (n_dw - 1),
              words[n_dw - 1]);
    return 1;
}

/* ---- launch descriptors ---- */

/* The version that a compute class takes; 0: not known. */
static unsigned
major_of_class(uint32_t nv_class)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(chips); i++) {
        if (chips[i].compute_class == nv_class)
            return chips[i].qmd_major;
    }
    return 0;
}

/* Words with reserved bits set, read as a version; UINT32_MAX if they are of
 * another version or too few. */
static unsigned
misfit(const struct regs_type *type, unsigned gen, const uint32_t *words,
       size_t n_dw)
{
    uint32_t copy[NV_QMD_LAUNCH_DW];
    unsigned size_dw = regs_dw(type, gen), n = 0, i;

    if (n_dw < size_dw || !regs_match(type, gen, words))
        return UINT32_MAX;
    memcpy(copy, words, 4u * size_dw);
    if (regs_clear_known(type, gen, copy)) {
        for (i = 0; i < size_dw; i++)
            n += copy[i] != 0;
    }
    return n;
}

/* The version whose descriptor the words are most like; 0: none. */
static unsigned
guess_major(const struct regs_type *type, const uint32_t *words, size_t n_dw)
{
    unsigned best = UINT32_MAX, best_major = 0, gen;

    for (gen = 0; gen < NV_QMD_GEN_COUNT; gen++) {
        unsigned n = misfit(type, gen, words, n_dw);
        if (n < best) {
            best = n;
            best_major = nv_qmd_unit.gen_ids[gen];
        }
    }
    return best_major;
}

unsigned
decode_nv_qmd(struct decode_nv *d, const uint32_t *words, size_t n_dw,
              unsigned major)
{
    const struct regs_type *type = regs_by_name(&nv_qmd_unit, "LAUNCH");
    unsigned unknown = 0, size_dw;
    size_t at;

    for (at = 0; at < n_dw; at += size_dw) {
        unsigned here = major;
        int gen;

        if (!here)
            here = major_of_class(d->compute_class);
        if (!here)
            here = guess_major(type, words + at, n_dw - at);
        gen = regs_gen_by_id(&nv_qmd_unit, here);
        size_dw = gen < 0 ? UINT32_MAX : regs_dw(type, (unsigned)gen);
        if (n_dw - at < size_dw) {
            tell_word(d, "? %zu words that do not fill a QMD", n_dw - at);
            return unknown + (unsigned)(n_dw - at);
        }
        tell_word(d, "QMD %u, %u words", here, size_dw);
        if (!regs_match(type, (unsigned)gen, words + at)) {
            tell_word(d, "? its QMD_MAJOR_VERSION is another one");
            unknown++;
        }
        regs_decode_block(type, (unsigned)gen, words + at, d->stream.line,
                          d->stream.user);
    }
    return unknown;
}
