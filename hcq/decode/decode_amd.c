/* Packets and kernel descriptors of AMD cards as text. */
#include "hcq/decode/decode_amd.h"

#include <inttypes.h>
#include <string.h>

#include "base/bits.h"
#include "base/chip.h"
#include "hcq/amd/regs/amd_object.h"
#include "hcq/amd/regs/amd_pm4.h"
#include "hcq/amd/regs/amd_sdma.h"

#define LINE_BYTES 1024
#define PACKET_DW  16u /* of AQL; descriptors are as long */

/* By family. src: docs/hardware/amd.md, "Generations" */
static const struct decode_amd_chip families[] = {
    {"gfx906", AMD_PM4_GEN_GFX9, AMD_SDMA_GEN_V4},
    {"gfx90a", AMD_PM4_GEN_GFX9, AMD_SDMA_GEN_V4},
    {"gfx942", AMD_PM4_GEN_GFX9, AMD_SDMA_GEN_V4},
    {"gfx1010", AMD_PM4_GEN_GFX10, AMD_SDMA_GEN_V5},
    {"gfx1030", AMD_PM4_GEN_GFX10, AMD_SDMA_GEN_V5},
    {"gfx1100", AMD_PM4_GEN_GFX11, AMD_SDMA_GEN_V6},
    {"gfx1201", AMD_PM4_GEN_GFX12, AMD_SDMA_GEN_V7},
};

const struct decode_amd_chip *
decode_amd_chip_find(const char *name)
{
    const struct chip_arch *chip = chip_arch_find(name);
    size_t i;

    for (i = 0; chip && chip->amd.family && i < ARRAY_LEN(families); i++) {
        if (strcmp(families[i].family, chip->amd.family) == 0)
            return &families[i];
    }
    return NULL;
}

static unsigned
decode_stream(const struct decode_amd *d, const struct regs_unit *unit,
              unsigned gen, const uint32_t *words, size_t n_dw)
{
    struct regs_stream stream = {
        .common = unit,
        .common_gen = gen,
        .line = d->line,
        .user = d->user,
    };

    return regs_decode_stream(&stream, words, n_dw);
}

unsigned
decode_amd_pm4(const struct decode_amd *d, const uint32_t *words, size_t n_dw)
{
    return decode_stream(d, &amd_pm4_unit, d->chip->pm4_gen, words, n_dw);
}

unsigned
decode_amd_sdma(const struct decode_amd *d, const uint32_t *words, size_t n_dw)
{
    return decode_stream(d, &amd_sdma_unit, d->chip->sdma_gen, words, n_dw);
}

/* One line: what a type of `unit` makes of the words. */
static void
tell_fields(const struct decode_amd *d, const struct regs_unit *unit,
            const char *name, unsigned gen, const uint32_t *words)
{
    const struct regs_type *type = regs_by_name(unit, name);
    char buf[LINE_BYTES];
    struct regs_text text;

    regs_text_init(&text, buf, sizeof(buf));
    regs_text_put(&text, "  %s {", name);
    regs_decode_fields(&text, type, gen, words, UINT64_MAX);
    regs_text_put(&text, "}");
    d->line(d->user, buf);
}

static void
tell_layout(const struct decode_amd *d, const char *name, const uint32_t *words)
{
    regs_decode_block(regs_by_name(&amd_object_unit, name), 0, words, d->line,
                      d->user);
}

/* Words that are too few for a packet or descriptor. */
static unsigned
tell_rest(const struct decode_amd *d, const char *what, size_t n_dw)
{
    char buf[LINE_BYTES];
    struct regs_text text;

    if (n_dw == 0)
        return 0;
    regs_text_init(&text, buf, sizeof(buf));
    regs_text_put(&text, "? %zu words that do not fill a %s", n_dw, what);
    d->line(d->user, buf);
    return (unsigned)n_dw;
}

/* ---- AQL --------------------------------------------------------------- */

/* The words of an indirect buffer in a vendor packet. */
static const uint32_t *
find_vendor_words(const uint32_t *words, unsigned *out_n)
{
    const struct regs_field *ib = regs_field_by_name(
        regs_by_name(&amd_object_unit, "AQL_PM4"), 0, "INDIRECT_BUFFER");

    *out_n = ib->count;
    return words + ib->parts[0].lo / 32;
}

static unsigned
decode_vendor(const struct decode_amd *d, const uint32_t *words)
{
    unsigned n;
    const uint32_t *ib = find_vendor_words(words, &n);

    tell_layout(d, "AQL_PM4", words);
    return decode_amd_pm4(d, ib, n);
}

bool
decode_amd_pm4_target(const struct decode_amd *d, const uint32_t *words,
                      size_t n_dw, uint64_t *out_va, uint64_t *out_n_dw)
{
    enum amd_pm4_gen gen = (enum amd_pm4_gen)d->chip->pm4_gen;
    struct amd_pm4_indirect_buffer ib;

    if (n_dw < AMD_PM4_INDIRECT_BUFFER_DW ||
        !amd_match_pm4_indirect_buffer(gen, words))
        return false;
    ib = amd_unpack_pm4_indirect_buffer(gen, words);
    *out_va = ib.base;
    *out_n_dw = ib.size;
    return true;
}

bool
decode_amd_aql_target(const struct decode_amd *d, const uint32_t *words,
                      uint64_t *out_va, uint64_t *out_n_dw)
{
    unsigned n;
    const uint32_t *ib = find_vendor_words(words, &n);

    return decode_amd_pm4_target(d, ib, n, out_va, out_n_dw);
}

/* A packet that is done has its type no more: the card put INVALID in its
 * place. The other words are as they were; those of a free one are 0. */
static unsigned
decode_done(const struct decode_amd *d, const uint32_t *words)
{
    struct amd_object_aql_dispatch dispatch;
    uint64_t va, n_dw;

    memcpy(&dispatch, words, sizeof(dispatch));
    if (decode_amd_aql_target(d, words, &va, &n_dw)) {
        d->line(d->user, "  done; it was:");
        return decode_vendor(d, words);
    }
    if (dispatch.kernel_object && dispatch.wg_x) {
        d->line(d->user, "  done; it was:");
        tell_layout(d, "AQL_DISPATCH", words);
    }
    return 0;
}

static unsigned
decode_packet(const struct decode_amd *d, const uint32_t *words)
{
    switch (amd_unpack_object_aql_header(words[0]).type) {
    case AMD_OBJECT_AQL_TYPE_KERNEL_DISPATCH:
        tell_layout(d, "AQL_DISPATCH", words);
        return 0;
    case AMD_OBJECT_AQL_TYPE_VENDOR:
        return decode_vendor(d, words);
    case AMD_OBJECT_AQL_TYPE_INVALID:
        return decode_done(d, words);
    default:
        d->line(d->user, "  ? a packet whose words have no names");
        return PACKET_DW - 1;
    }
}

unsigned
decode_amd_aql(const struct decode_amd *d, const uint32_t *words, size_t n_dw,
               uint64_t va)
{
    const struct regs_type *header =
        regs_by_name(&amd_object_unit, "AQL_HEADER");
    unsigned unknown = 0;
    char buf[LINE_BYTES];
    struct regs_text text;
    size_t at;

    for (at = 0; n_dw - at >= PACKET_DW; at += PACKET_DW) {
        regs_text_init(&text, buf, sizeof(buf));
        regs_text_put(&text, "0x%010" PRIx64 ": %08x ", va + 4 * at, words[at]);
        regs_decode_fields(&text, header, 0, words + at, UINT64_MAX);
        d->line(d->user, buf);
        unknown += decode_packet(d, words + at);
    }
    return unknown + tell_rest(d, "packet", n_dw - at);
}

/* ---- kernel descriptors ------------------------------------------------ */

static void
decode_descriptor(const struct decode_amd *d, const uint32_t *words)
{
    const struct regs_type *rsrc3 =
        regs_by_name(&amd_pm4_unit, "COMPUTE_PGM_RSRC3_GFX9");
    unsigned gen = d->chip->pm4_gen;
    struct amd_object_descriptor kd;
    uint32_t properties;

    memcpy(&kd, words, sizeof(kd));
    properties = kd.properties;
    tell_layout(d, "KERNEL_DESCRIPTOR", words);
    tell_fields(d, &amd_object_unit, "CODE_PROPERTIES", 0, &properties);
    tell_fields(d, &amd_pm4_unit, "COMPUTE_PGM_RSRC1", gen, &kd.rsrc1);
    tell_fields(d, &amd_pm4_unit, "COMPUTE_PGM_RSRC2", gen, &kd.rsrc2);
    tell_fields(d, &amd_pm4_unit,
                regs_in(gen, rsrc3->gens) ? rsrc3->name : "COMPUTE_PGM_RSRC3",
                gen, &kd.rsrc3);
}

unsigned
decode_amd_kernel(const struct decode_amd *d, const uint32_t *words,
                  size_t n_dw)
{
    char buf[LINE_BYTES];
    struct regs_text text;
    size_t at;

    for (at = 0; n_dw - at >= PACKET_DW; at += PACKET_DW) {
        regs_text_init(&text, buf, sizeof(buf));
        regs_text_put(&text, "kernel descriptor for %s, %u words",
                      d->chip->family, PACKET_DW);
        d->line(d->user, buf);
        decode_descriptor(d, words + at);
    }
    return tell_rest(d, "descriptor", n_dw - at);
}
