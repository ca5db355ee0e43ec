/* Relocations: see cpu_reloc.h.
 * src: System V ABI, AMD64 supplement, 4.4; ELF for the Arm 64-bit
 * Architecture (IHI 0056), 5.7 */
#include "hcq/cpu/cpu_reloc.h"

#include <assert.h>
#include <elf.h>
#include <string.h>

#include "base/bits.h"

#define PAGE_MASK 4095u

/* Whole words of memory. */
#define WORD(type_, value_, bytes)                                             \
    .type = type_, .value = CPU_RELOC_##value_, .field = CPU_RELOC_DATA,       \
    .n_bytes = bytes
/* Part of an instruction of AArch64. */
#define INSN(type_, value_, field_, shift_)                                    \
    .type = R_AARCH64_##type_, .value = CPU_RELOC_##value_,                    \
    .field = CPU_RELOC_##field_, .n_bytes = 4, .shift = shift_

static const struct cpu_reloc x86_64[] = {
    {.type = R_X86_64_NONE},
    {WORD(R_X86_64_64, ABSOLUTE, 8)},
    {WORD(R_X86_64_PC64, RELATIVE, 8)},
    {WORD(R_X86_64_PC32, RELATIVE, 4), .signed_bits = 32},
    {WORD(R_X86_64_PLT32, RELATIVE, 4), .signed_bits = 32},
    {WORD(R_X86_64_32, ABSOLUTE, 4), .unsigned_bits = 32, .is_low = true},
    {WORD(R_X86_64_32S, ABSOLUTE, 4), .signed_bits = 32, .is_low = true},
    {WORD(R_X86_64_GOTPCREL, RELATIVE, 4), .signed_bits = 32, .is_got = true},
    {WORD(R_X86_64_GOTPCRELX, RELATIVE, 4), .signed_bits = 32, .is_got = true},
    {WORD(R_X86_64_REX_GOTPCRELX, RELATIVE, 4), .signed_bits = 32,
     .is_got = true},
};

#define R_AARCH64_PLT32_ 314 /* not in elf.h of glibc 2.36 */

/* Branches reach 128 MiB, half of what an object may have: those that do not
 * reach are refused, not led over veneers. */
static const struct cpu_reloc aarch64[] = {
    {.type = R_AARCH64_NONE},
    {WORD(R_AARCH64_ABS64, ABSOLUTE, 8)},
    {WORD(R_AARCH64_ABS32, ABSOLUTE, 4), .any_bits = 32},
    {WORD(R_AARCH64_ABS16, ABSOLUTE, 2), .any_bits = 16},
    {WORD(R_AARCH64_PREL64, RELATIVE, 8)},
    {WORD(R_AARCH64_PREL32, RELATIVE, 4), .any_bits = 32},
    {WORD(R_AARCH64_PREL16, RELATIVE, 2), .any_bits = 16},
    {WORD(R_AARCH64_PLT32_, RELATIVE, 4), .signed_bits = 32},
    {INSN(MOVW_UABS_G0, ABSOLUTE, IMM16, 0), .unsigned_bits = 16},
    {INSN(MOVW_UABS_G0_NC, ABSOLUTE, IMM16, 0)},
    {INSN(MOVW_UABS_G1, ABSOLUTE, IMM16, 16), .unsigned_bits = 32,
     .is_odd = true},
    {INSN(MOVW_UABS_G1_NC, ABSOLUTE, IMM16, 16), .is_odd = true},
    {INSN(MOVW_UABS_G2, ABSOLUTE, IMM16, 32), .unsigned_bits = 48,
     .is_odd = true},
    {INSN(MOVW_UABS_G2_NC, ABSOLUTE, IMM16, 32), .is_odd = true},
    {INSN(MOVW_UABS_G3, ABSOLUTE, IMM16, 48), .is_odd = true},
    {INSN(LD_PREL_LO19, RELATIVE, IMM19, 2), .signed_bits = 21},
    {INSN(ADR_PREL_LO21, RELATIVE, ADR, 0), .signed_bits = 21},
    {INSN(ADR_PREL_PG_HI21, PAGE, ADR, 12), .signed_bits = 33},
    {INSN(ADR_PREL_PG_HI21_NC, PAGE, ADR, 12)},
    {INSN(ADD_ABS_LO12_NC, LOW12, IMM12, 0)},
    {INSN(LDST8_ABS_LO12_NC, LOW12, IMM12, 0)},
    {INSN(LDST16_ABS_LO12_NC, LOW12, IMM12, 1)},
    {INSN(LDST32_ABS_LO12_NC, LOW12, IMM12, 2)},
    {INSN(LDST64_ABS_LO12_NC, LOW12, IMM12, 3)},
    {INSN(LDST128_ABS_LO12_NC, LOW12, IMM12, 4)},
    {INSN(TSTBR14, RELATIVE, IMM14, 2), .signed_bits = 16},
    {INSN(CONDBR19, RELATIVE, IMM19, 2), .signed_bits = 21},
    {INSN(JUMP26, RELATIVE, IMM26, 2), .signed_bits = 28},
    {INSN(CALL26, RELATIVE, IMM26, 2), .signed_bits = 28},
    {INSN(GOT_LD_PREL19, RELATIVE, IMM19, 2), .signed_bits = 21,
     .is_got = true},
    {INSN(ADR_GOT_PAGE, PAGE, ADR, 12), .signed_bits = 33, .is_got = true},
    {INSN(LD64_GOT_LO12_NC, LOW12, IMM12, 3), .is_got = true},
};

const struct cpu_reloc *
cpu_reloc_find(unsigned machine, uint32_t type)
{
    const struct cpu_reloc *table = machine == EM_X86_64    ? x86_64
                                    : machine == EM_AARCH64 ? aarch64
                                                            : NULL;
    size_t n = machine == EM_X86_64 ? ARRAY_LEN(x86_64) : ARRAY_LEN(aarch64), i;

    for (i = 0; table && i < n; i++) {
        if (table[i].type == type)
            return &table[i];
    }
    return NULL;
}

static uint64_t
make_value(const struct cpu_reloc *reloc, uint64_t place_va, uint64_t target_va)
{
    switch (reloc->value) {
    case CPU_RELOC_RELATIVE:
        return target_va - place_va;
    case CPU_RELOC_PAGE:
        return (target_va & ~(uint64_t)PAGE_MASK) -
               (place_va & ~(uint64_t)PAGE_MASK);
    case CPU_RELOC_LOW12:
        return target_va & PAGE_MASK;
    case CPU_RELOC_ABSOLUTE:
    default:
        return target_va;
    }
}

static bool
is_signed(uint64_t value, unsigned bits)
{
    uint64_t half = (uint64_t)1 << (bits - 1);

    assert(bits >= 1 && bits <= 63);
    return value + half < 2 * half;
}

static bool
fits(const struct cpu_reloc *reloc, uint64_t value)
{
    uint64_t below = ((uint64_t)1 << reloc->shift) - 1;

    if (!reloc->is_odd && value & below)
        return false;
    if (reloc->signed_bits)
        return is_signed(value, reloc->signed_bits);
    if (reloc->unsigned_bits)
        return value >> reloc->unsigned_bits == 0;
    if (reloc->any_bits)
        return is_signed(value, reloc->any_bits) ||
               value >> reloc->any_bits == 0;
    return true;
}

static uint32_t
set_bits(uint32_t word, unsigned first, unsigned n, uint64_t value)
{
    uint32_t mask = (((uint32_t)1 << n) - 1) << first;

    assert(n > 0 && n < 32 && first + n <= 32);
    return (word & ~mask) | ((uint32_t)(value << first) & mask);
}

static uint32_t
set_field(uint32_t word, enum cpu_reloc_field field, uint64_t value)
{
    assert(field != CPU_RELOC_NOTHING && field != CPU_RELOC_DATA);
    switch (field) {
    case CPU_RELOC_ADR:
        return set_bits(set_bits(word, 29, 2, value), 5, 19, value >> 2);
    case CPU_RELOC_IMM12:
        return set_bits(word, 10, 12, value);
    case CPU_RELOC_IMM14:
        return set_bits(word, 5, 14, value);
    case CPU_RELOC_IMM16:
        return set_bits(word, 5, 16, value);
    case CPU_RELOC_IMM19:
        return set_bits(word, 5, 19, value);
    case CPU_RELOC_IMM26:
        return set_bits(word, 0, 26, value);
    case CPU_RELOC_NOTHING:
    case CPU_RELOC_DATA:
    default:
        return word;
    }
}

bool
cpu_reloc_apply(const struct cpu_reloc *reloc, uint8_t *place,
                uint64_t place_va, uint64_t target_va)
{
    uint64_t value = make_value(reloc, place_va, target_va);
    uint32_t word;

    assert(reloc->n_bytes <= 8);
    if (!fits(reloc, value))
        return false;
    if (reloc->field == CPU_RELOC_DATA) {
        memcpy(place, &value, reloc->n_bytes);
    } else if (reloc->field != CPU_RELOC_NOTHING) {
        memcpy(&word, place, sizeof(word));
        word = set_field(word, reloc->field, value >> reloc->shift);
        memcpy(place, &word, sizeof(word));
    }
    return true;
}
