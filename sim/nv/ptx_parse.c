/* From text to modules: directives, declarations, kernels. Instructions are
 * in ptx_insn.c. */
#include "sim/nv/ptx_parse.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

#define MAX_ROWS         65536
#define MAX_SHARED_BYTES (228u * 1024)
#define MAX_LOCAL_BYTES  (512u * 1024)
#define MAX_PARAM_BYTES  32764u

bell_status
px_error(const struct px_parse *p, const char *what)
{
    int n = p->lex.len < 40 ? (int)p->lex.len : 40;

    return bell_fail(BELL_E_COMPILE, "PTX line %u: %s, at \"%.*s\"",
                     p->lex.line, what, n, p->lex.word);
}

bell_status
px_out_of_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "reading PTX");
}

bool
px_at_punct(const struct px_parse *p, char c)
{
    return p->lex.token == PX_PUNCT && p->lex.punct == c;
}

bell_status
px_expect(struct px_parse *p, char c)
{
    static const char *const whats[] = {"a ; is missing", "a , is missing",
                                        "a bracket is missing",
                                        "something is missing"};

    if (!px_at_punct(p, c))
        return px_error(p, whats[c == ';' ? 0 : c == ',' ? 1 : 2]);
    px_lex_next(&p->lex);
    return BELL_OK;
}

static bool
at_word(const struct px_parse *p, enum px_token token, const char *word)
{
    return p->lex.token == token && strlen(word) == p->lex.len &&
           memcmp(word, p->lex.word, p->lex.len) == 0;
}

bell_status
px_take_number(struct px_parse *p, uint64_t max, uint64_t *out)
{
    if (p->lex.token != PX_NUMBER || p->lex.float_bits)
        return px_error(p, "a number is missing");
    if (p->lex.number > max)
        return px_error(p, "the number is too large");
    *out = p->lex.number;
    px_lex_next(&p->lex);
    return BELL_OK;
}

/* ---- symbols ---- */

static uint64_t
key_of(const char *name, size_t len)
{
    return hash_bytes(name, len, 0);
}

/* The symbol of this very name. */
static struct px_symbol *
find_exact(const struct px_parse *p, const char *name, size_t len, bool family)
{
    const uint64_t *at = map_get(&p->index, key_of(name, len) + family);
    struct px_symbol *s = at ? &p->symbols[*at] : NULL;

    if (!s || s->len != len || memcmp(s->name, name, len) != 0 ||
        (s->kind == PX_SYM_FAMILY) != family)
        return NULL;
    return s;
}

struct px_symbol *
px_find_symbol(const struct px_parse *p, const char *name, size_t len,
               uint32_t *out_number)
{
    struct px_symbol *s = find_exact(p, name, len, false);
    size_t n = len;
    uint64_t number = 0, scale = 1;

    *out_number = 0;
    if (s)
        return s;
    while (n > 1 && name[n - 1] >= '0' && name[n - 1] <= '9' && len - n < 6) {
        number += (uint64_t)(name[n - 1] - '0') * scale;
        scale *= 10;
        n--;
        /* "%r01" is not "%r1" */
        if (name[n] == '0' && len - n > 1)
            continue;
        s = find_exact(p, name, n, true);
        if (s && number < s->count) {
            *out_number = (uint32_t)number;
            return s;
        }
    }
    return NULL;
}

bell_status
px_add_symbol(struct px_parse *p, const struct px_symbol *symbol)
{
    bool family = symbol->kind == PX_SYM_FAMILY;

    if (map_get(&p->index, key_of(symbol->name, symbol->len) + family))
        return px_error(p, "the name is taken");
    if (host_grow((void **)&p->symbols, &p->cap_symbols, p->n_symbols + 1,
                  sizeof(*p->symbols)) < 0 ||
        map_put(&p->index, key_of(symbol->name, symbol->len) + family,
                p->n_symbols) < 0)
        return px_out_of_memory();
    p->symbols[p->n_symbols++] = *symbol;
    return BELL_OK;
}

/* ---- declarations ---- */

static bell_status
take_type(struct px_parse *p, uint8_t *out_type)
{
    uint8_t i;

    for (i = PX_PRED; i < PX_TYPE_COUNT; i++) {
        if (at_word(p, PX_DOT, px_types[i].name)) {
            *out_type = i;
            px_lex_next(&p->lex);
            return BELL_OK;
        }
    }
    return px_error(p, "a type is missing");
}

static bell_status
take_name(struct px_parse *p, struct px_symbol *s)
{
    if (p->lex.token != PX_WORD)
        return px_error(p, "a name is missing");
    s->name = p->lex.word;
    s->len = p->lex.len;
    px_lex_next(&p->lex);
    return BELL_OK;
}

/* .reg .b32 %r<10>, %x; */
static bell_status
parse_registers(struct px_parse *p)
{
    struct px_symbol s = {.kind = PX_SYM_REG};
    uint64_t n;

    px_lex_next(&p->lex);
    BELL_TRY(take_type(p, &s.type));
    if (px_types[s.type].bits == 8 || s.type == PX_BF16)
        return px_error(p, "there are no registers of this type");
    for (;;) {
        BELL_TRY(take_name(p, &s));
        n = 1;
        s.kind = PX_SYM_REG;
        if (px_at_punct(p, '<')) {
            px_lex_next(&p->lex);
            BELL_TRY(px_take_number(p, MAX_ROWS, &n));
            BELL_TRY(px_expect(p, '>'));
            s.kind = PX_SYM_FAMILY;
        }
        s.count = (uint32_t)n;
        s.at = p->kernel->n_rows;
        if (n > MAX_ROWS - p->kernel->n_rows)
            return px_error(p, "too many registers");
        p->kernel->n_rows += (uint32_t)n;
        BELL_TRY(px_add_symbol(p, &s));
        if (!px_at_punct(p, ','))
            return px_expect(p, ';');
        px_lex_next(&p->lex);
    }
}

/* .align A .type name[N] after the space; adds to *used. */
static bell_status
parse_variable(struct px_parse *p, enum px_symbol_kind kind, uint32_t max,
               uint32_t *used)
{
    struct px_symbol s = {.kind = (uint8_t)kind};
    uint64_t align = 0, n = 1, at, size;

    if (at_word(p, PX_DOT, "align")) {
        px_lex_next(&p->lex);
        BELL_TRY(px_take_number(p, 128, &align));
        if (!is_pow2(align))
            return px_error(p, "the alignment is no power of two");
    }
    BELL_TRY(take_type(p, &s.type));
    size = px_types[s.type].bits / 8;
    if (size == 0)
        return px_error(p, "predicates are not kept in memory");
    BELL_TRY(take_name(p, &s));
    if (px_at_punct(p, '[')) {
        px_lex_next(&p->lex);
        if (px_at_punct(p, ']') && kind == PX_SYM_DYNAMIC)
            n = 0;
        else
            BELL_TRY(px_take_number(p, max, &n));
        BELL_TRY(px_expect(p, ']'));
    }
    at = align_up(*used, align > size ? align : size);
    if (at + n * size > max)
        return px_error(p, "too many bytes");
    s.at = (uint32_t)at;
    s.count = (uint32_t)(n * size);
    *used = (uint32_t)(at + n * size);
    return px_add_symbol(p, &s);
}

static bell_status
parse_numbers(struct px_parse *p, uint32_t out[3])
{
    uint64_t n;
    int i;

    px_lex_next(&p->lex);
    for (i = 0; i < 3; i++) {
        out[i] = 1;
        if (i && !px_at_punct(p, ','))
            continue;
        if (i)
            px_lex_next(&p->lex);
        BELL_TRY(px_take_number(p, 65536, &n));
        out[i] = (uint32_t)n;
    }
    return BELL_OK;
}

static bell_status
parse_params(struct px_parse *p)
{
    if (!px_at_punct(p, '('))
        return BELL_OK;
    px_lex_next(&p->lex);
    while (!px_at_punct(p, ')')) {
        if (!at_word(p, PX_DOT, "param"))
            return px_error(p, "a parameter is missing");
        px_lex_next(&p->lex);
        BELL_TRY(parse_variable(p, PX_SYM_PARAM, MAX_PARAM_BYTES,
                                &p->kernel->param_bytes));
        if (!px_at_punct(p, ','))
            break;
        px_lex_next(&p->lex);
    }
    return px_expect(p, ')');
}

/* ---- kernels ---- */

static bell_status
parse_tuning(struct px_parse *p)
{
    uint32_t unused[3];

    while (p->lex.token == PX_DOT) {
        if (at_word(p, PX_DOT, "reqntid"))
            BELL_TRY(parse_numbers(p, p->kernel->reqntid));
        else if (at_word(p, PX_DOT, "maxntid"))
            BELL_TRY(parse_numbers(p, p->kernel->maxntid));
        else if (at_word(p, PX_DOT, "minnctapersm") ||
                 at_word(p, PX_DOT, "maxnreg"))
            BELL_TRY(parse_numbers(p, unused));
        else
            return px_error(p, "unknown directive");
    }
    return BELL_OK;
}

static bell_status
parse_declaration(struct px_parse *p)
{
    if (at_word(p, PX_DOT, "reg"))
        return parse_registers(p);
    if (at_word(p, PX_DOT, "shared")) {
        px_lex_next(&p->lex);
        BELL_TRY(parse_variable(p, PX_SYM_SHARED, MAX_SHARED_BYTES,
                                &p->kernel->shared_bytes));
    } else if (at_word(p, PX_DOT, "local")) {
        px_lex_next(&p->lex);
        BELL_TRY(parse_variable(p, PX_SYM_LOCAL, MAX_LOCAL_BYTES,
                                &p->kernel->local_bytes));
    } else {
        return px_error(p, "unknown directive");
    }
    return px_expect(p, ';');
}

static bell_status
parse_label(struct px_parse *p, const struct px_symbol *name)
{
    struct px_symbol s = *name;

    s.kind = PX_SYM_LABEL;
    s.at = (uint32_t)p->kernel->n_code;
    px_lex_next(&p->lex);
    return px_add_symbol(p, &s);
}

static bell_status
parse_statement(struct px_parse *p)
{
    struct px_symbol s = {.kind = PX_SYM_LABEL};

    if (p->lex.token == PX_DOT)
        return parse_declaration(p);
    if (px_at_punct(p, '{'))
        return px_error(p, "nested scopes are not known here");
    p->insn_line = p->lex.line;
    if (px_at_punct(p, '@'))
        return px_parse_insn(p, NULL, 0);
    BELL_TRY(take_name(p, &s));
    if (px_at_punct(p, ':'))
        return parse_label(p, &s);
    return px_parse_insn(p, s.name, s.len);
}

static bell_status
resolve_branches(struct px_parse *p)
{
    size_t i;

    for (i = 0; i < p->n_fixups; i++) {
        const struct px_fixup *f = &p->fixups[i];
        const struct px_symbol *s = find_exact(p, f->name, f->len, false);
        if (!s || s->kind != PX_SYM_LABEL)
            return bell_fail(BELL_E_COMPILE, "PTX line %u: no label %.*s",
                             p->kernel->code[f->insn].line,
                             f->len < 40 ? (int)f->len : 40, f->name);
        p->kernel->code[f->insn].target = s->at;
    }
    return BELL_OK;
}

/* Symbols of the kernel go; those of the module stay. */
static void
forget_symbols(struct px_parse *p)
{
    size_t i;

    map_clear(&p->index);
    p->n_symbols = p->n_module_symbols;
    for (i = 0; i < p->n_symbols; i++)
        (void)!map_put(&p->index, key_of(p->symbols[i].name, p->symbols[i].len),
                       i);
    p->n_fixups = 0;
}

static bell_status
parse_kernel(struct px_parse *p)
{
    struct sim_ptx_module *m = p->module;
    struct px_symbol name = {.kind = PX_SYM_LABEL};
    struct px_insn *last;

    px_lex_next(&p->lex);
    BELL_TRY(take_name(p, &name));
    if (host_grow((void **)&m->kernels, &m->cap_kernels, m->n_kernels + 1,
                  sizeof(*m->kernels)) < 0)
        return px_out_of_memory();
    p->kernel = &m->kernels[m->n_kernels++];
    memset(p->kernel, 0, sizeof(*p->kernel));
    p->kernel->n_rows = PX_SPECIAL_COUNT;
    map_init(&p->kernel->const_index);
    p->kernel->name = arena_printf(&m->arena, "%.*s", (int)name.len, name.name);
    if (!p->kernel->name)
        return px_out_of_memory();
    BELL_TRY(parse_params(p));
    BELL_TRY(parse_tuning(p));
    BELL_TRY(px_expect(p, '{'));
    while (!px_at_punct(p, '}'))
        BELL_TRY(parse_statement(p));
    px_lex_next(&p->lex);
    last = px_new_insn(p);
    if (!last)
        return px_out_of_memory();
    last->op = PX_EXIT; /* the closing bracket returns */
    BELL_TRY(resolve_branches(p));
    forget_symbols(p);
    return BELL_OK;
}

/* ---- modules ---- */

static bell_status
parse_version(struct px_parse *p)
{
    const char *at = p->lex.at;
    unsigned major = 0, minor = 0, n;

    while (*at == ' ' || *at == '\t')
        at++;
    for (n = 0; *at >= '0' && *at <= '9' && n < 3; at++, n++)
        major = major * 10 + (unsigned)(*at - '0');
    if (n == 0 || *at++ != '.')
        return px_error(p, "the version is missing");
    for (n = 0; *at >= '0' && *at <= '9' && n < 3; at++, n++)
        minor = minor * 10 + (unsigned)(*at - '0');
    if (n == 0)
        return px_error(p, "the version is missing");
    p->version = major * 10 + minor;
    if (p->version < 60 || p->version > 90)
        return px_error(p, "this version is not known");
    p->lex.at = at;
    px_lex_next(&p->lex);
    return BELL_OK;
}

/* src: hw/nv/PTX.md section 1 */
static unsigned
lowest_version(unsigned sm, bool arch_specific)
{
    switch (sm) {
    case 80:
        return 70;
    case 86:
        return 71;
    case 89:
        return 78;
    case 90:
        return arch_specific ? 80 : 78;
    case 100:
        return 86;
    case 120:
        return 87;
    default:
        return 1000;
    }
}

static bell_status
parse_target(struct px_parse *p)
{
    unsigned sm = 0;
    size_t i;
    bool arch_specific = false;

    px_lex_next(&p->lex);
    if (p->lex.token != PX_WORD || p->lex.len < 5 || p->lex.len > 7 ||
        memcmp(p->lex.word, "sm_", 3) != 0)
        return px_error(p, "the target is missing");
    for (i = 3; i < p->lex.len; i++) {
        char c = p->lex.word[i];
        if (c >= '0' && c <= '9')
            sm = sm * 10 + (unsigned)(c - '0');
        else if (c == 'a' && i + 1 == p->lex.len)
            arch_specific = true;
        else
            return px_error(p, "the target is not known");
    }
    if (p->version < lowest_version(sm, arch_specific))
        return px_error(p, "the version is too low for the target, or the "
                           "target not known");
    p->module->sm = sm;
    px_lex_next(&p->lex);
    return BELL_OK;
}

static bell_status
parse_extern(struct px_parse *p)
{
    uint32_t used = 0;

    px_lex_next(&p->lex);
    if (!at_word(p, PX_DOT, "shared"))
        return px_error(p, "only shared memory may be extern here");
    px_lex_next(&p->lex);
    BELL_TRY(parse_variable(p, PX_SYM_DYNAMIC, 0, &used));
    p->n_module_symbols = p->n_symbols;
    return px_expect(p, ';');
}

static bell_status
parse_toplevel(struct px_parse *p)
{
    uint64_t n;

    if (at_word(p, PX_DOT, "visible") || at_word(p, PX_DOT, "weak")) {
        px_lex_next(&p->lex);
        if (!at_word(p, PX_DOT, "entry"))
            return px_error(p, "only kernels are known here");
    }
    if (at_word(p, PX_DOT, "entry")) {
        if (!p->module->sm)
            return px_error(p, "version and target come first");
        return parse_kernel(p);
    }
    if (at_word(p, PX_DOT, "extern"))
        return parse_extern(p);
    if (at_word(p, PX_DOT, "version"))
        return parse_version(p);
    if (at_word(p, PX_DOT, "target"))
        return parse_target(p);
    if (at_word(p, PX_DOT, "address_size")) {
        px_lex_next(&p->lex);
        BELL_TRY(px_take_number(p, 64, &n));
        return n == 64 ? BELL_OK : px_error(p, "addresses have 64 bits");
    }
    return px_error(p, "unknown directive");
}

bell_status
sim_ptx_parse(const char *text, struct sim_ptx_module **out_module)
{
    struct px_parse p = {.module = host_calloc(1, sizeof(*p.module))};
    bell_status status = BELL_OK;

    if (!p.module)
        return px_out_of_memory();
    arena_init(&p.module->arena);
    map_init(&p.index);
    px_lex_init(&p.lex, text);
    while (status == BELL_OK && p.lex.token != PX_END)
        status = parse_toplevel(&p);
    if (status == BELL_OK && p.module->n_kernels == 0)
        status = px_error(&p, "there is no kernel");
    map_fini(&p.index);
    host_free(p.symbols);
    host_free(p.fixups);
    if (status == BELL_OK)
        *out_module = p.module;
    else
        sim_ptx_destroy(p.module);
    return status;
}

void
sim_ptx_destroy(struct sim_ptx_module *module)
{
    size_t i;

    if (!module)
        return;
    for (i = 0; i < module->n_kernels; i++) {
        host_free(module->kernels[i].code);
        host_free(module->kernels[i].consts);
        map_fini(&module->kernels[i].const_index);
    }
    host_free(module->kernels);
    arena_fini(&module->arena);
    host_free(module);
}

void
sim_ptx_module_info(const struct sim_ptx_module *module,
                    struct sim_ptx_module_info *out)
{
    *out =
        (struct sim_ptx_module_info){.n_kernels = (uint32_t)module->n_kernels,
                                     .const_align = 1,
                                     .global_align = 1,
                                     .is_global_zero = true};
}

bool
sim_ptx_kernel(const struct sim_ptx_module *module, const char *name,
               uint32_t number, struct sim_ptx_kernel_info *out)
{
    size_t i;

    for (i = name ? 0 : number; i < module->n_kernels; i++) {
        const struct px_kernel *k = &module->kernels[i];
        if (name && strcmp(k->name, name) != 0)
            continue;
        *out = (struct sim_ptx_kernel_info){
            .name = k->name,
            .param_bytes = k->param_bytes,
            .shared_bytes = k->shared_bytes,
            .local_bytes = k->local_bytes,
            .n_regs = k->n_rows - PX_SPECIAL_COUNT,
        };
        memcpy(out->reqntid, k->reqntid, sizeof(out->reqntid));
        return true;
    }
    return false;
}
