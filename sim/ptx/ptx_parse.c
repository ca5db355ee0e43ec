/* From text to modules: directives, declarations, kernels. Instructions are
 * in ptx_insn.c. */
#include "sim/ptx/ptx_parse.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

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
    return bell_fail(BELL_E_NO_MEMORY, "reading PTX: out of memory");
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

bool
px_skip(struct px_parse *p, char c)
{
    if (!px_at_punct(p, c))
        return false;
    px_lex_next(&p->lex);
    return true;
}

bool
px_at_word(const struct px_parse *p, enum px_token token, const char *word)
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
key_of(const char *name, size_t len, uint32_t scope, bool family)
{
    return hash_add(hash_bytes(name, len, 0), (uint64_t)scope * 2 + family);
}

/* The symbol of this very name in one scope. */
static struct px_symbol *
find_in(const struct px_parse *p, const char *name, size_t len, uint32_t scope,
        bool family)
{
    const uint64_t *at = map_get(&p->index, key_of(name, len, scope, family));
    struct px_symbol *s = at ? &p->symbols[*at] : NULL;

    if (!s || s->len != len || memcmp(s->name, name, len) != 0 ||
        s->scope != scope || (s->kind == PX_SYM_FAMILY) != family)
        return NULL;
    return s;
}

static struct px_symbol *
find_exact(const struct px_parse *p, const char *name, size_t len, bool family)
{
    struct px_symbol *s = NULL;
    uint32_t i;

    for (i = p->n_scopes; i > 0 && !s; i--)
        s = find_in(p, name, len, p->scopes[i - 1].id, family);
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
    uint32_t scope = p->scopes[p->n_scopes - 1].id;
    uint64_t key =
        key_of(symbol->name, symbol->len, scope, symbol->kind == PX_SYM_FAMILY);

    assert(symbol->len > 0);
    if (map_get(&p->index, key))
        return px_error(p, "the name is taken");
    if (host_grow((void **)&p->symbols, &p->cap_symbols, p->n_symbols + 1,
                  sizeof(*p->symbols)) < 0 ||
        map_put(&p->index, key, p->n_symbols) < 0)
        return px_out_of_memory();
    p->symbols[p->n_symbols] = *symbol;
    p->symbols[p->n_symbols++].scope = scope;
    return BELL_OK;
}

/* ---- labels and scopes ---- */

bell_status
px_add_fixup(struct px_parse *p, size_t at, bool is_table)
{
    struct px_fixup f = {.at = at, .is_table = is_table};

    if (p->lex.token != PX_WORD)
        return px_error(p, "a label is missing");
    f.name = p->lex.word;
    f.len = p->lex.len;
    f.line = p->insn_line;
    if (host_grow((void **)&p->fixups, &p->cap_fixups, p->n_fixups + 1,
                  sizeof(*p->fixups)) < 0)
        return px_out_of_memory();
    p->fixups[p->n_fixups++] = f;
    px_lex_next(&p->lex);
    return BELL_OK;
}

static bell_status
open_scope(struct px_parse *p)
{
    if (p->n_scopes == PX_MAX_DEPTH)
        return px_error(p, "scopes are nested too deeply");
    p->scopes[p->n_scopes++] = (struct px_scope){p->next_scope++, p->n_fixups};
    return BELL_OK;
}

/* Branches in a scope to its own labels are settled when it ends. */
static void
close_scope(struct px_parse *p)
{
    const struct px_scope *scope = &p->scopes[--p->n_scopes];
    size_t i;

    for (i = scope->first_fixup; i < p->n_fixups; i++) {
        struct px_fixup *f = &p->fixups[i];
        const struct px_symbol *s =
            f->name ? find_in(p, f->name, f->len, scope->id, false) : NULL;
        if (!s || s->kind != PX_SYM_LABEL)
            continue;
        if (f->is_table)
            p->kernel->targets[f->at] = s->at;
        else
            p->kernel->code[f->at].target = s->at;
        f->name = NULL;
    }
}

/* ---- declarations ---- */

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
        if (!px_at_word(p, PX_DOT, "param"))
            return px_error(p, "a parameter is missing");
        px_lex_next(&p->lex);
        BELL_TRY(px_parse_variable(p, PX_SYM_PARAM, MAX_PARAM_BYTES,
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
        if (px_at_word(p, PX_DOT, "reqntid"))
            BELL_TRY(parse_numbers(p, p->kernel->reqntid));
        else if (px_at_word(p, PX_DOT, "maxntid"))
            BELL_TRY(parse_numbers(p, p->kernel->maxntid));
        else if (px_at_word(p, PX_DOT, "minnctapersm") ||
                 px_at_word(p, PX_DOT, "maxnreg"))
            BELL_TRY(parse_numbers(p, unused));
        else
            return px_error(p, "unknown directive");
    }
    return BELL_OK;
}

static bell_status
parse_declaration(struct px_parse *p)
{
    if (px_at_word(p, PX_DOT, "reg"))
        return px_parse_registers(p);
    if (px_at_word(p, PX_DOT, "shared")) {
        px_lex_next(&p->lex);
        BELL_TRY(px_parse_variable(p, PX_SYM_SHARED, MAX_SHARED_BYTES,
                                   &p->kernel->shared_bytes));
    } else if (px_at_word(p, PX_DOT, "local")) {
        px_lex_next(&p->lex);
        BELL_TRY(px_parse_variable(p, PX_SYM_LOCAL, MAX_LOCAL_BYTES,
                                   &p->kernel->local_bytes));
    } else if (px_at_word(p, PX_DOT, "pragma")) {
        px_lex_next(&p->lex);
        if (p->lex.token != PX_STRING)
            return px_error(p, "a string is missing");
        px_lex_next(&p->lex);
    } else {
        return px_error(p, "unknown directive");
    }
    return px_expect(p, ';');
}

/* name: .branchtargets a, b, c; */
static bell_status
parse_targets(struct px_parse *p, struct px_symbol *s)
{
    struct px_kernel *k = p->kernel;

    s->kind = PX_SYM_TARGETS;
    s->at = (uint32_t)k->n_targets;
    do {
        px_lex_next(&p->lex);
        if (host_grow((void **)&k->targets, &k->cap_targets, k->n_targets + 1,
                      sizeof(*k->targets)) < 0)
            return px_out_of_memory();
        k->targets[k->n_targets] = 0;
        BELL_TRY(px_add_fixup(p, k->n_targets++, true));
        s->count++;
    } while (px_at_punct(p, ','));
    BELL_TRY(px_add_symbol(p, s));
    return px_expect(p, ';');
}

static bell_status
parse_label(struct px_parse *p, const struct px_symbol *name)
{
    struct px_symbol s = *name;

    px_lex_next(&p->lex);
    if (px_at_word(p, PX_DOT, "branchtargets"))
        return parse_targets(p, &s);
    s.kind = PX_SYM_LABEL;
    s.at = (uint32_t)p->kernel->n_code;
    return px_add_symbol(p, &s);
}

static bell_status
parse_statement(struct px_parse *p)
{
    struct px_symbol s = {.kind = PX_SYM_LABEL};

    if (p->lex.token == PX_DOT)
        return parse_declaration(p);
    if (px_skip(p, '{'))
        return open_scope(p);
    p->insn_line = p->lex.line;
    if (px_at_punct(p, '@'))
        return px_parse_insn(p, NULL, 0);
    BELL_TRY(px_take_name(p, &s));
    if (px_at_punct(p, ':'))
        return parse_label(p, &s);
    return px_parse_insn(p, s.name, s.len);
}

/* From the opening bracket to the closing one. */
static bell_status
parse_body(struct px_parse *p)
{
    uint32_t outside = p->n_scopes - 1;

    BELL_TRY(px_expect(p, '{'));
    for (;;) {
        if (!px_at_punct(p, '}')) {
            BELL_TRY(parse_statement(p));
            continue;
        }
        if (p->n_scopes == outside + 1)
            break;
        close_scope(p);
        px_lex_next(&p->lex);
    }
    px_lex_next(&p->lex);
    return BELL_OK;
}

static bell_status
check_branches(struct px_parse *p)
{
    size_t i;

    for (i = 0; i < p->n_fixups; i++) {
        const struct px_fixup *f = &p->fixups[i];
        if (f->name)
            return bell_fail(BELL_E_COMPILE, "PTX line %u: no label %.*s",
                             f->line, f->len < 40 ? (int)f->len : 40, f->name);
    }
    p->n_fixups = 0;
    return BELL_OK;
}

static bell_status
begin_kernel(struct px_parse *p, const struct px_symbol *name)
{
    struct sim_ptx_module *m = p->module;
    int i;

    if (host_grow((void **)&m->kernels, &m->cap_kernels, m->n_kernels + 1,
                  sizeof(*m->kernels)) < 0)
        return px_out_of_memory();
    p->kernel = &m->kernels[m->n_kernels++];
    memset(p->kernel, 0, sizeof(*p->kernel));
    for (i = 0; i < PX_SPECIAL_COUNT; i++)
        p->kernel->specials[i] = PX_NO_ROW;
    map_init(&p->kernel->const_index);
    p->kernel->name =
        arena_printf(&m->arena, "%.*s", (int)name->len, name->name);
    return p->kernel->name ? BELL_OK : px_out_of_memory();
}

static bell_status
parse_entry(struct px_parse *p)
{
    struct px_symbol name = {.kind = PX_SYM_LABEL};
    struct px_insn *last;

    px_lex_next(&p->lex);
    BELL_TRY(px_take_name(p, &name));
    BELL_TRY(begin_kernel(p, &name));
    BELL_TRY(open_scope(p));
    BELL_TRY(parse_params(p));
    BELL_TRY(parse_tuning(p));
    BELL_TRY(parse_body(p));
    last = px_new_insn(p);
    if (!last)
        return px_out_of_memory();
    last->op = PX_EXIT; /* the closing bracket returns */
    last->run = PX_RUN_CONTROL;
    close_scope(p);
    return check_branches(p);
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

/* src: docs/hardware/nvidia-code.md, "PTX versions" */
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
parse_target_line(struct px_parse *p)
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
    p->module->is_arch_specific = arch_specific;
    px_lex_next(&p->lex);
    return BELL_OK;
}

static bell_status
parse_extern(struct px_parse *p)
{
    uint32_t used = 0;

    px_lex_next(&p->lex);
    if (!px_at_word(p, PX_DOT, "shared"))
        return px_error(p, "only shared memory may be extern here");
    px_lex_next(&p->lex);
    BELL_TRY(px_parse_variable(p, PX_SYM_DYNAMIC, 0, &used));
    return px_expect(p, ';');
}

static bell_status
parse_toplevel(struct px_parse *p)
{
    uint64_t n;

    if (px_at_word(p, PX_DOT, "visible") || px_at_word(p, PX_DOT, "weak")) {
        px_lex_next(&p->lex);
        if (!px_at_word(p, PX_DOT, "entry") &&
            !px_at_word(p, PX_DOT, "global") && !px_at_word(p, PX_DOT, "const"))
            return px_error(p, "only kernels and variables are known here");
    }
    if (px_at_word(p, PX_DOT, "global")) {
        px_lex_next(&p->lex);
        return px_parse_data(p, PX_SYM_GLOBAL);
    }
    if (px_at_word(p, PX_DOT, "const")) {
        px_lex_next(&p->lex);
        return px_parse_data(p, PX_SYM_CONST);
    }
    if (px_at_word(p, PX_DOT, "entry")) {
        if (!p->module->sm)
            return px_error(p, "version and target come first");
        return parse_entry(p);
    }
    if (px_at_word(p, PX_DOT, "extern"))
        return parse_extern(p);
    if (px_at_word(p, PX_DOT, "version"))
        return parse_version(p);
    if (px_at_word(p, PX_DOT, "target"))
        return parse_target_line(p);
    if (px_at_word(p, PX_DOT, "address_size")) {
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
    p.module->consts.align = p.module->globals.align = 1;
    p.n_scopes = p.next_scope = 1;
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
        host_free(module->kernels[i].pool);
        host_free(module->kernels[i].consts);
        host_free(module->kernels[i].declared);
        host_free(module->kernels[i].targets);
        map_fini(&module->kernels[i].const_index);
    }
    host_free(module->consts.data);
    host_free(module->globals.data);
    host_free(module->kernels);
    arena_fini(&module->arena);
    host_free(module);
}

void
sim_ptx_module_info(const struct sim_ptx_module *module,
                    struct sim_ptx_module_info *out)
{
    const struct px_image *c = &module->consts, *g = &module->globals;

    *out = (struct sim_ptx_module_info){
        .n_kernels = (uint32_t)module->n_kernels,
        .const_bytes = c->n_bytes,
        .const_align = c->align,
        .const_init = c->data,
        .global_bytes = g->n_bytes,
        .global_align = g->align,
        .global_init = g->data,
        .is_global_zero = !g->is_not_zero,
    };
}

bool
sim_ptx_kernel(const struct sim_ptx_module *module, const char *name,
               uint32_t number, struct sim_ptx_kernel_info *out)
{
    uint32_t axis;
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
            .n_regs = k->n_regs,
        };
        memcpy(out->reqntid, k->reqntid, sizeof(out->reqntid));
        for (axis = 0; axis < 3; axis++) {
            if (k->specials[PX_NTID_X + axis] != PX_NO_ROW)
                out->reads_dims |= 1u << axis;
            if (k->specials[PX_NCTAID_X + axis] != PX_NO_ROW)
                out->reads_dims |= 8u << axis;
        }
        return true;
    }
    return false;
}
