/* Registers, methods, packets and descriptors as data: what the headers and
 * rows made by tools/hwgen.py rest on, and the text decoder that reads the
 * rows. Knows no vendor; what a stream's headers look like is in the rows too.
 *
 * Rows are constant and shared by all threads. Words are 32-bit, in the order
 * of memory; bit 0 of a block is bit 0 of its first word.
 */
#ifndef BELL_HCQ_REGS_H
#define BELL_HCQ_REGS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* ---- descriptor rows --------------------------------------------------- */

enum regs_field_kind {
    REGS_UINT,
    REGS_INT, /* two's complement */
    REGS_BOOL,
    REGS_HEX, /* like UINT, printed in hexadecimal: addresses, ids */
    REGS_ENUM
};

/* What a field of a stream header means to the stream. */
enum regs_role {
    REGS_ROLE_NONE,
    REGS_ROLE_COUNT,   /* words that follow the header */
    REGS_ROLE_ADDRESS, /* where the first of them goes */
    REGS_ROLE_SLOT,    /* to which of the bound units */
    REGS_ROLE_DATA,    /* the word itself */
    REGS_ROLE_PARITY,  /* X_PARITY: with it, an odd number of X's bits is set */
    REGS_ROLE_BIND     /* of a register: id of the unit bound to the slot */
};

enum regs_type_kind {
    REGS_REG,
    REGS_BLOCK,
    REGS_LAYOUT
};

/* Where the words after a stream header go. */
enum regs_stream_kind {
    REGS_NONE, /* not a stream header */
    REGS_INC,  /* ascending addresses */
    REGS_NONINC,
    REGS_ONEINC, /* the first to the address, the rest to the next one */
    REGS_IMM,    /* none follow; the header holds the data */
    REGS_BODY,   /* part of the packet, not addressed */
    REGS_OTHER   /* a packet without a name: its words are passed over */
};

struct regs_value {
    const char *name;
    uint32_t value;
};

struct regs_enum {
    const struct regs_value *values;
    uint32_t n_values;
};

/* Bits lo .. lo + n - 1 of a block. */
struct regs_part {
    uint16_t lo, n;
};

struct regs_field {
    const char *name;
    const struct regs_enum *values; /* of REGS_ENUM */
    uint64_t value;                 /* of a constant */
    uint32_t gens;                  /* bit per generation */
    int32_t bias;                   /* added to the value for its role */
    struct regs_part parts[3];      /* least significant first */
    uint16_t count, stride;         /* array: elements, bits apart */
    uint8_t n_parts, shift;         /* low bits that are not stored */
    uint8_t kind, role;
    bool is_array, is_const;
    bool always; /* printed also when it is zero */
};

struct regs_type {
    const char *name;
    const struct regs_field *fields;
    uint32_t n_fields;
    uint32_t address;       /* of REGS_REG, in the unit's own terms */
    uint32_t count, stride; /* array of registers: address units apart */
    uint32_t n_dw;
    const uint8_t *gen_dw; /* of each generation; NULL: n_dw in all */
    uint32_t gens;
    uint8_t kind, stream;
};

/* One specification file. */
struct regs_unit {
    const char *name;
    const char *const *gen_names; /* NULL: one generation, nameless */
    const uint32_t *gen_ids;
    const struct regs_type *types;
    uint16_t n_gens, n_types;
    uint16_t step; /* from one word's address to the next one's */
};

static inline bool
regs_in(unsigned gen, uint32_t gens)
{
    return gen < 32 && (gens >> gen & 1u);
}

/* Words of a type in a generation. */
static inline unsigned
regs_dw(const struct regs_type *type, unsigned gen)
{
    return type->gen_dw ? type->gen_dw[gen] : type->n_dw;
}

/* ---- bits ---------------------------------------------------------------- */

/* ORs a value of n bits (1 to 64) into the words at bit `lo`. */
static inline void
regs_or(uint32_t *w, unsigned lo, unsigned n, uint64_t value)
{
    unsigned at = lo % 32;

    assert(n >= 1 && n <= 64 && (n == 64 || value >> n == 0));
    w += lo / 32;
    w[0] |= (uint32_t)(value << at);
    if (at + n > 32)
        w[1] |= (uint32_t)(value >> (32 - at));
    if (at + n > 64)
        w[2] |= (uint32_t)(value >> (64 - at));
}

/* The n bits (1 to 64) from bit `lo` on. */
static inline uint64_t
regs_bits(const uint32_t *w, unsigned lo, unsigned n)
{
    unsigned at = lo % 32;
    uint64_t value;

    w += lo / 32;
    value = w[0] >> at;
    if (at + n > 32)
        value |= (uint64_t)w[1] << (32 - at);
    if (at + n > 64)
        value |= (uint64_t)w[2] << (64 - at);
    return n == 64 ? value : value & ((UINT64_C(1) << n) - 1);
}

/* Writes a value of n bits over what is there. */
static inline void
regs_set(uint32_t *w, unsigned lo, unsigned n, uint64_t value)
{
    uint64_t mask = n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
    unsigned at = lo % 32;

    assert((value & ~mask) == 0);
    value &= mask;
    w += lo / 32;
    w[0] = (w[0] & ~(uint32_t)(mask << at)) | (uint32_t)(value << at);
    if (at + n > 32)
        w[1] = (w[1] & ~(uint32_t)(mask >> (32 - at))) |
               (uint32_t)(value >> (32 - at));
    if (at + n > 64)
        w[2] = (w[2] & ~(uint32_t)(mask >> (64 - at))) |
               (uint32_t)(value >> (64 - at));
}

/* Sign-extends a value of n bits. */
static inline int64_t
regs_signed(uint64_t value, unsigned n)
{
    uint64_t sign = UINT64_C(1) << (n - 1);

    return (int64_t)((value ^ sign) - sign);
}

/* ---- packing by rows -------------------------------------------------------
 *
 * A large block's checked packer would be long code for what is done once for
 * a program: it goes by rows. Apart from the descriptor rows, which a program
 * that prints nothing does not need.
 */

/* Bits of one member in some generations, or of a constant. */
struct regs_put {
    uint16_t name;        /* offset in the names */
    uint16_t member;      /* offset in the struct; a constant: its value */
    uint16_t lo, stride;  /* first bit; bits between an array's elements */
    uint8_t n_bits;       /* that are stored; 0: the member must be zero */
    uint8_t down;         /* bits of the value below those */
    uint8_t limit, shift; /* bits the value may have; of these must be zero */
    uint8_t count;        /* elements */
    uint8_t member_bytes; /* of an element; 0: a constant */
    uint8_t gens;         /* bit per generation */
    bool is_int;          /* two's complement */
};

struct regs_packing {
    const char *unit, *type, *names;
    const struct regs_put *puts;
    uint16_t n_puts;
    uint8_t gens;
    uint8_t n_dw[8]; /* words in each generation */
};

/* Packs the struct at `values`, refusing what does not fit with
 * BELL_E_INVALID, naming it; then nothing is written. */
BELL_MUST_CHECK bell_status regs_try(const struct regs_packing *packing,
                                     unsigned gen, const void *values,
                                     uint32_t *out_w);

/* ---- access through rows --------------------------------------------------
 *
 * Slower than the packers; for tools, tests and fault reports.
 */

/* Fails with BELL_E_INVALID, naming the type; `why` is what a check said. */
BELL_MUST_CHECK bell_status regs_refuse(const char *unit, const char *type,
                                        const char *why);

/* Element `i` of a field (0 unless it is an array); ints are sign-extended
 * to 64 bits. */
uint64_t regs_get(const struct regs_field *field, const uint32_t *words,
                  unsigned i);

/* The type of that name, or NULL. */
const struct regs_type *regs_by_name(const struct regs_unit *unit,
                                     const char *name);
/* The field of that name in a generation, or NULL. */
const struct regs_field *regs_field_by_name(const struct regs_type *type,
                                            unsigned gen, const char *name);
/* What a field in the parity role is the parity of; NULL: no such field. */
const struct regs_field *regs_parity_of(const struct regs_type *type,
                                        unsigned gen,
                                        const struct regs_field *parity);
/* The register that covers an address in a generation, or NULL.
 * *out_element: of an array of registers; *out_dw: word of the register. */
const struct regs_type *regs_by_address(const struct regs_unit *unit,
                                        unsigned gen, uint32_t address,
                                        unsigned *out_element,
                                        unsigned *out_dw);
/* The generation with this hardware id, or -1. */
int regs_gen_by_id(const struct regs_unit *unit, uint32_t id);

/* Whether the words have the constant fields of a type that has some. */
bool regs_match(const struct regs_type *type, unsigned gen,
                const uint32_t *words);

/* Clears in `words`, a copy of a block, every bit that a field of this
 * generation covers; returns whether a bit is left: a reserved one is set. */
bool regs_clear_known(const struct regs_type *type, unsigned gen,
                      uint32_t *words);

/* ---- decoding to text --------------------------------------------------- */

/* Text of bounded size, always terminated; what does not fit is dropped. */
struct regs_text {
    char *buf;
    size_t size_bytes; /* at least 1 */
    size_t n_bytes;    /* without the terminator */
};

void regs_text_init(struct regs_text *text, char *buf, size_t size_bytes);
void regs_text_put(struct regs_text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* "A=1 B=RELEASE C[2]=0x40": the fields that are not zero or always printed
 * ("0" if none), then "reserved[WORD]=0x..." for each word with other bits
 * set. `have`: bit per word that is known (of the first 64; later ones are);
 * a field that is not known whole is left out ("?" if nothing remains). */
void regs_decode_fields(struct regs_text *text, const struct regs_type *type,
                        unsigned gen, const uint32_t *words, uint64_t have);

/* Called with each line, without a newline. */
typedef void regs_line_fn(void *user, const char *line);

/* One line per field that is not zero, arrays element by element:
 * "  GRID_WIDTH = 132". */
void regs_decode_block(const struct regs_type *type, unsigned gen,
                       const uint32_t *words, regs_line_fn *line, void *user);

enum {
    REGS_SLOTS = 8
};

/* A stream decoder. Filled in by its owner; one thread. */
struct regs_stream {
    /* The headers, and what is addressed on every slot (may be NULL). */
    const struct regs_unit *common;
    unsigned common_gen;
    /* What a header's slot selects; NULL until bound. Registers with a field
     * in the bind role change it. */
    const struct regs_unit *slots[REGS_SLOTS];
    unsigned slot_gens[REGS_SLOTS];
    /* Units that a bind can choose from, by their generations' ids. */
    const struct regs_unit *const *units;
    unsigned n_units;
    regs_line_fn *line;
    /* Called before it with the lines in which something is wrong: no name, a
     * packet that is not whole, reserved bits, a parity. May be NULL. */
    regs_line_fn *wrong;
    void *user;
};

/* Decodes a method or packet stream: a line per header, and below it one per
 * register. Never reads beyond n_dw, whatever the words hold. Returns the
 * number of words that it could not name: no header of the unit, a packet
 * without a name (which is stepped over by its count), an address without a
 * register, a header that wants more words than there are. */
unsigned regs_decode_stream(struct regs_stream *stream, const uint32_t *words,
                            size_t n_dw);

#endif
