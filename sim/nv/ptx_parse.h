/* Shared by the two files that parse PTX. */
#ifndef BELL_SIM_NV_PTX_PARSE_H
#define BELL_SIM_NV_PTX_PARSE_H

#include "sim/nv/ptx_internal.h"

enum px_symbol_kind {
    PX_SYM_REG,
    PX_SYM_FAMILY, /* %r<10>: ten registers */
    PX_SYM_SHARED,
    PX_SYM_DYNAMIC, /* extern shared */
    PX_SYM_LOCAL,
    PX_SYM_PARAM,
    PX_SYM_LABEL,
};

/* A name, which lies in the text. */
struct px_symbol {
    const char *name;
    size_t len;
    uint8_t kind, type;
    uint32_t at;    /* row, offset or place in the code */
    uint32_t count; /* registers or bytes */
};

/* A branch whose label may come later. */
struct px_fixup {
    const char *name;
    size_t len;
    size_t insn;
};

struct px_parse {
    struct px_lex lex;
    struct sim_ptx_module *module;
    struct px_kernel *kernel; /* the module's last */
    unsigned version;         /* times ten */
    uint32_t insn_line;
    struct map index; /* hash of a name -> place in symbols */
    struct px_symbol *symbols;
    size_t n_symbols, cap_symbols, n_module_symbols;
    struct px_fixup *fixups;
    size_t n_fixups, cap_fixups;
};

BELL_MUST_CHECK bell_status px_error(const struct px_parse *p,
                                     const char *what);
BELL_MUST_CHECK bell_status px_out_of_memory(void);
bool px_at_punct(const struct px_parse *p, char c);
/* Takes one character of punctuation. */
BELL_MUST_CHECK bell_status px_expect(struct px_parse *p, char c);
/* Takes an integer of at most `max`. */
BELL_MUST_CHECK bell_status px_take_number(struct px_parse *p, uint64_t max,
                                           uint64_t *out_number);
/* The symbol, and of a family of registers which of them. NULL: none. */
struct px_symbol *px_find_symbol(const struct px_parse *p, const char *name,
                                 size_t len, uint32_t *out_number);
BELL_MUST_CHECK bell_status px_add_symbol(struct px_parse *p,
                                          const struct px_symbol *symbol);

/* Appends an instruction to the kernel, zeroed but for its line and with no
 * rows; NULL when out of memory. */
struct px_insn *px_new_insn(struct px_parse *p);
/* Parses one, from its guard (name NULL) or from behind its name. */
BELL_MUST_CHECK bell_status px_parse_insn(struct px_parse *p, const char *name,
                                          size_t len);

#endif
