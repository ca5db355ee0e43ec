/* Shared by the files that parse PTX. */
#ifndef BELL_SIM_PTX_PTX_PARSE_H
#define BELL_SIM_PTX_PTX_PARSE_H

#include "sim/ptx/ptx_internal.h"

enum px_symbol_kind {
    PX_SYM_REG,
    PX_SYM_FAMILY, /* %r<10>: ten registers */
    PX_SYM_SHARED,
    PX_SYM_DYNAMIC, /* extern shared */
    PX_SYM_LOCAL,
    PX_SYM_PARAM,
    PX_SYM_CONST,
    PX_SYM_GLOBAL,
    PX_SYM_LABEL,
    PX_SYM_TARGETS, /* a table of labels */
};

/* A name, which lies in the text. */
struct px_symbol {
    const char *name;
    size_t len;
    uint8_t kind, type;
    uint32_t scope;
    uint32_t at;    /* row, offset or place in the code */
    uint32_t count; /* registers, bytes or labels */
};

/* A label that is used and may come later. */
struct px_fixup {
    const char *name; /* NULL: found */
    size_t len;
    size_t at; /* instruction, or place in the kernel's targets */
    uint32_t line;
    bool is_table;
};

#define PX_MAX_DEPTH 32

/* A scope that is open. */
struct px_scope {
    uint32_t id;
    size_t first_fixup;
};

struct px_parse {
    struct px_lex lex;
    struct sim_ptx_module *module;
    struct px_kernel *kernel; /* the module's last */
    unsigned version;         /* times ten */
    uint32_t insn_line;
    struct map index; /* hash of a name and its scope -> place in symbols */
    struct px_symbol *symbols;
    size_t n_symbols, cap_symbols;
    struct px_fixup *fixups;
    size_t n_fixups, cap_fixups;
    struct px_scope scopes[PX_MAX_DEPTH]; /* the first is the module's */
    uint32_t n_scopes, next_scope;
};

/* ---- helpers (ptx_parse.c) ---- */

BELL_MUST_CHECK bell_status px_error(const struct px_parse *p,
                                     const char *what);
BELL_MUST_CHECK bell_status px_out_of_memory(void);
bool px_at_punct(const struct px_parse *p, char c);
/* Takes a character of punctuation if it is there. */
bool px_skip(struct px_parse *p, char c);
bool px_at_word(const struct px_parse *p, enum px_token token,
                const char *word);
/* Takes one character of punctuation. */
BELL_MUST_CHECK bell_status px_expect(struct px_parse *p, char c);
/* Takes an integer of at most `max`. */
BELL_MUST_CHECK bell_status px_take_number(struct px_parse *p, uint64_t max,
                                           uint64_t *out_number);
/* Takes a type, after its dot. */
BELL_MUST_CHECK bell_status px_take_type(struct px_parse *p, uint8_t *out_type);
BELL_MUST_CHECK bell_status px_take_name(struct px_parse *p,
                                         struct px_symbol *s);
/* The symbol, and of a family of registers which of them. NULL: none. */
struct px_symbol *px_find_symbol(const struct px_parse *p, const char *name,
                                 size_t len, uint32_t *out_number);
BELL_MUST_CHECK bell_status px_add_symbol(struct px_parse *p,
                                          const struct px_symbol *symbol);
BELL_MUST_CHECK bell_status px_add_fixup(struct px_parse *p, size_t at,
                                         bool is_table);

/* ---- declarations (ptx_decl.c) ---- */

/* .reg .b32 %r<10>, %x; */
BELL_MUST_CHECK bell_status px_parse_registers(struct px_parse *p);
/* What follows .shared, .local, .param: .align A .type name[N]; adds to
 * *used, up to `max`. */
BELL_MUST_CHECK bell_status px_parse_variable(struct px_parse *p,
                                              enum px_symbol_kind kind,
                                              uint32_t max, uint32_t *used);
/* What follows .global and .const in a module, with its values. */
BELL_MUST_CHECK bell_status px_parse_data(struct px_parse *p,
                                          enum px_symbol_kind kind);

/* ---- instructions (ptx_insn.c, ptx_operand.c, ptx_insn_more.c) ---- */

/* Appends an instruction to the kernel, zeroed but for its line and with no
 * rows; NULL when out of memory. */
struct px_insn *px_new_insn(struct px_parse *p);
/* Parses one, from its guard (name NULL) or from behind its name. */
BELL_MUST_CHECK bell_status px_parse_insn(struct px_parse *p, const char *name,
                                          size_t len);

/* A register of that type, or of a wider one where that is allowed. */
BELL_MUST_CHECK bell_status px_take_register(struct px_parse *p, unsigned type,
                                             bool wider,
                                             struct px_ref *out_ref);
/* A register, special register, constant or address. */
BELL_MUST_CHECK bell_status px_take_source(struct px_parse *p, unsigned type,
                                           bool wider, struct px_ref *out_ref);
/* [reg], [variable], [number], each with +number, in a space. */
BELL_MUST_CHECK bell_status px_take_address(struct px_parse *p, unsigned space,
                                            struct px_ref *out_ref,
                                            int64_t *out_offset);
/* {a, b, ...} or, of one, a: appended to the instruction's operands. */
BELL_MUST_CHECK bell_status px_take_vector(struct px_parse *p,
                                           struct px_insn *in, unsigned n,
                                           unsigned type, bool wider,
                                           bool is_source);
/* A constant as an operand. */
BELL_MUST_CHECK bell_status px_const_ref(struct px_parse *p, uint64_t bits,
                                         unsigned width, enum px_base base,
                                         struct px_ref *out_ref);
/* One more operand of the last instruction. */
BELL_MUST_CHECK bell_status px_add_operand(struct px_parse *p,
                                           struct px_insn *in,
                                           struct px_ref ref);

/* bar, mma, ldmatrix, cp.async, brx: from behind the name to the ";". */
bool px_is_more(unsigned op);
BELL_MUST_CHECK bell_status px_parse_more(struct px_parse *p,
                                          struct px_insn *in, bool barrier);

#endif
