/* The container of PTX, read back by hand. src: docs/hardware/nvidia-code.md,
 * "Cubin container", "Sections of a cubin", "Attributes". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "lower_kernels.h"
#include "render/ptx/nv_container.h"

#define TEXT                                                                   \
    ".version 7.0\n.target sm_80\n.address_size 64\n"                          \
    ".visible .entry kern(.param .u64 p0, .param .u64 p1)\n{\n\tret;\n}\n"

static const struct {
    uint32_t sm, flags, param_base;
    bool reserved; /* the first 0x400 bytes of shared memory */
} archs[] = {
    {80, 0x06005004, 0x160, false}, {86, 0x06005604, 0x160, false},
    {89, 0x06005904, 0x160, false}, {90, 0x06005A04, 0x210, true},
    {100, 0x06006402, 0x380, true}, {120, 0x06007802, 0x380, true},
};

/* ---- a reader ---- */

static uint64_t
get(const void *at, unsigned n)
{
    const unsigned char *p = at;
    uint64_t value = 0;

    while (n--)
        value = value << 8 | p[n];
    return value;
}

static const Elf64_Ehdr *
head_of(const struct render_binary *b)
{
    assert_true(b->size_bytes > sizeof(Elf64_Ehdr));
    return b->data;
}

static const Elf64_Shdr *
section_number(const struct render_binary *b, uint32_t i)
{
    const Elf64_Ehdr *head = head_of(b);
    const Elf64_Shdr *s = (const void *)((const char *)b->data + head->e_shoff);

    assert_true(head->e_shoff + head->e_shnum * sizeof(*s) <= b->size_bytes);
    assert_int_equal(head->e_shoff & 7, 0);
    assert_true(i < head->e_shnum);
    s += i;
    if (s->sh_type != SHT_NOBITS)
        assert_true(s->sh_offset + s->sh_size <= b->size_bytes);
    if (s->sh_addralign)
        assert_int_equal(s->sh_offset & (s->sh_addralign - 1), 0);
    assert_int_equal(s->sh_addr, 0);
    return s;
}

static const char *
contents(const struct render_binary *b, const Elf64_Shdr *s)
{
    return (const char *)b->data + s->sh_offset;
}

static const char *
string_of(const struct render_binary *b, uint32_t table, uint32_t at)
{
    const Elf64_Shdr *s = section_number(b, table);

    assert_int_equal(s->sh_type, SHT_STRTAB);
    assert_true(at < s->sh_size);
    assert_int_equal(contents(b, s)[s->sh_size - 1], 0);
    return contents(b, s) + at;
}

/* NULL where there is none. */
static const Elf64_Shdr *
find_section(const struct render_binary *b, const char *name,
             uint32_t *out_number)
{
    uint32_t i;

    for (i = 1; i < head_of(b)->e_shnum; i++) {
        const Elf64_Shdr *s = section_number(b, i);
        if (strcmp(string_of(b, head_of(b)->e_shstrndx, s->sh_name), name))
            continue;
        if (out_number)
            *out_number = i;
        return s;
    }
    return NULL;
}

static const Elf64_Sym *
symbol_at(const struct render_binary *b, uint32_t i)
{
    const Elf64_Shdr *s = find_section(b, ".symtab", NULL);

    assert_non_null(s);
    assert_int_equal(s->sh_entsize, sizeof(Elf64_Sym));
    assert_true(i < s->sh_size / sizeof(Elf64_Sym));
    return (const Elf64_Sym *)(const void *)contents(b, s) + i;
}

static const Elf64_Sym *
find_symbol(const struct render_binary *b, const char *name, uint32_t *out_i)
{
    const Elf64_Shdr *s = find_section(b, ".symtab", NULL);
    uint32_t i;

    for (i = 1; i < s->sh_size / sizeof(Elf64_Sym); i++) {
        const Elf64_Sym *sym = symbol_at(b, i);
        if (strcmp(string_of(b, s->sh_link, sym->st_name), name) != 0)
            continue;
        *out_i = i;
        /* local ones come first */
        assert_int_equal(i < s->sh_info,
                         ELF64_ST_BIND(sym->st_info) == STB_LOCAL);
        return sym;
    }
    return NULL;
}

/* The payload of attribute number `nth` with that code, or NULL; formats 2
 * and 3 give the address of the value. */
static const char *
find_attr(const struct render_binary *b, const char *section, unsigned code,
          unsigned nth, uint32_t *out_size)
{
    const Elf64_Shdr *s = find_section(b, section, NULL);
    const char *p, *end;

    assert_non_null(s);
    assert_int_equal(s->sh_type, 0x70000000);
    p = contents(b, s);
    end = p + s->sh_size;
    while (p < end) {
        unsigned format = (unsigned)get(p, 1), c = (unsigned)get(p + 1, 1);
        uint32_t x = (uint32_t)get(p + 2, 2);
        assert_true(format >= 1 && format <= 4);
        if (c == code && nth-- == 0) {
            *out_size = format == 4 ? x : 0;
            return format == 4 ? p + 4 : p + 2;
        }
        p += 4;
        if (format == 4) {
            assert_int_equal(x & 3, 0);
            p += x;
        }
    }
    assert_ptr_equal(p, end);
    return NULL;
}

/* ---- tests ---- */

static struct nv_container_desc
plain(uint32_t sm)
{
    return (struct nv_container_desc){
        .text = TEXT,
        .entry = "kern",
        .sm = sm,
        .n_params = 2,
        .n_regs = 24,
    };
}

static void
check_head(const struct render_binary *b, uint32_t flags)
{
    static const unsigned char ident[] = {0x7f, 'E', 'L',  'F', 2,
                                          1,    1,   0x41, 8};
    const Elf64_Ehdr *head = head_of(b);

    assert_memory_equal(head->e_ident, ident, sizeof(ident));
    assert_int_equal(head->e_type, 2);
    assert_int_equal(head->e_machine, 0xBE);
    assert_int_equal(head->e_version, 1);
    assert_int_equal(head->e_flags, flags);
    assert_int_equal(head->e_shentsize, 64);
}

static void
check_text(const struct render_binary *b, const char *text, uint32_t n_regs,
           bool regs_in_section)
{
    uint32_t number, i;
    const Elf64_Shdr *s = find_section(b, ".text.kern", &number);
    const Elf64_Sym *sym = find_symbol(b, "kern", &i);
    const char *p;

    assert_non_null(s);
    assert_non_null(sym);
    assert_int_equal(s->sh_flags, SHF_ALLOC | SHF_EXECINSTR);
    assert_int_equal(s->sh_addralign, 128);
    assert_int_equal(s->sh_size & 127, 0);
    assert_int_equal(s->sh_info >> 24, regs_in_section ? n_regs : 0);
    p = contents(b, s);
    assert_memory_equal(p, "BELL PTX\1\0\0", 12);
    assert_int_equal(get(p + 12, 4), strlen(text));
    assert_memory_equal(p + 16, text, strlen(text));
    for (i = 16 + (uint32_t)strlen(text); i < s->sh_size; i++)
        assert_int_equal(p[i], 0);
    assert_int_equal(sym->st_info, 0x12);
    assert_int_equal(sym->st_other, 0x10);
    assert_int_equal(sym->st_shndx, number);
    assert_int_equal(sym->st_value, 0);
    assert_int_equal(sym->st_size, s->sh_size);
}

static void
check_attrs(const struct render_binary *b, const struct nv_container_desc *d,
            uint32_t base)
{
    static const unsigned module_codes[] = {0x2F, 0x11, 0x12};
    uint32_t values[] = {d->n_regs, d->stack_bytes, d->stack_bytes};
    uint32_t entry, number, size, i;
    const Elf64_Shdr *const0 = find_section(b, ".nv.constant0.kern", &number);
    const char *p;

    assert_non_null(find_symbol(b, "kern", &entry));
    for (i = 0; i < 3; i++) {
        p = find_attr(b, ".nv.info", module_codes[i], 0, &size);
        assert_non_null(p);
        assert_int_equal(size, 8);
        assert_int_equal(get(p, 4), entry);
        assert_int_equal(get(p + 4, 4), values[i]);
    }
    assert_non_null(const0);
    assert_int_equal(const0->sh_size, base + 8 * d->n_params);
    p = find_attr(b, ".nv.info.kern", 0x0A, 0, &size);
    if (!d->n_params) { /* as ptxas does */
        assert_null(p);
        assert_null(find_attr(b, ".nv.info.kern", 0x19, 0, &size));
        return;
    }
    assert_non_null(p);
    assert_int_equal(symbol_at(b, (uint32_t)get(p, 4))->st_shndx, number);
    assert_int_equal(get(p + 4, 2), base);
    assert_int_equal(get(p + 6, 2), 8 * d->n_params);
    p = find_attr(b, ".nv.info.kern", 0x19, 0, &size);
    assert_int_equal(get(p, 2), 8 * d->n_params);
    for (i = 0; i < d->n_params; i++) {
        p = find_attr(b, ".nv.info.kern", 0x17, i, &size);
        assert_non_null(p);
        assert_int_equal(size, 12);
        assert_int_equal(get(p + 4, 2), d->n_params - 1 - i);
        assert_int_equal(get(p + 6, 2), 8 * (d->n_params - 1 - i));
        assert_int_equal(get(p + 8, 4), 0x0021f000);
    }
    assert_null(find_attr(b, ".nv.info.kern", 0x17, i, &size));
    p = find_attr(b, ".nv.info.kern", 0x4C, 0, &size);
    assert_int_equal(p ? get(p, 1) : 0, d->n_barriers);
    p = find_attr(b, ".nv.info.kern", 0x10, 0, &size);
    assert_int_equal(p != NULL, d->reqntid[0] != 0);
    for (i = 0; p && i < 3; i++)
        assert_int_equal(get(p + 4 * i, 4), d->reqntid[i]);
}

static void
test_every_arch(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(archs); i++) {
        struct nv_container_desc d = plain(archs[i].sm);
        struct render_binary b;

        assert_int_equal(render_nv_container(&d, &b), BELL_OK);
        check_head(&b, archs[i].flags);
        check_text(&b, TEXT, 24, !archs[i].reserved);
        check_attrs(&b, &d, archs[i].param_base);
        assert_null(find_section(&b, ".nv.shared.kern", NULL));
        render_binary_fini(&b);

        d.stack_bytes = 131072;
        d.n_barriers = 3;
        d.reqntid[0] = 32;
        d.reqntid[1] = 4;
        d.reqntid[2] = 1;
        assert_int_equal(render_nv_container(&d, &b), BELL_OK);
        check_attrs(&b, &d, archs[i].param_base);
        render_binary_fini(&b);
        d.n_params = 0;
        assert_int_equal(render_nv_container(&d, &b), BELL_OK);
        check_attrs(&b, &d, archs[i].param_base);
        render_binary_fini(&b);
    }
}

static void
test_shared(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(archs); i++) {
        struct nv_container_desc d = plain(archs[i].sm);
        const Elf64_Shdr *s;
        struct render_binary b;

        d.shared_bytes = 1024;
        assert_int_equal(render_nv_container(&d, &b), BELL_OK);
        s = find_section(&b, ".nv.shared.kern", NULL);
        assert_non_null(s);
        assert_int_equal(s->sh_type, SHT_NOBITS);
        assert_int_equal(s->sh_size, archs[i].reserved ? 2048 : 1024);
        render_binary_fini(&b);

        d.shared_bytes = 0;
        d.has_dynamic = true;
        assert_int_equal(render_nv_container(&d, &b), BELL_OK);
        s = find_section(&b, ".nv.shared.kern", NULL);
        assert_int_equal(s ? s->sh_size : 0, archs[i].reserved ? 1024 : 0);
        render_binary_fini(&b);
    }
}

/* Constants in bank 3, variables with and without values, their addresses in
 * bank 4 by relocation. */
static void
test_vars(void **state)
{
    static const int32_t squares[3] = {1, 4, 9}, answer = 42;
    const struct nv_container_var vars[] = {
        {"byte", 1, 1, "x", true},        {"squares", 12, 4, squares, true},
        {"zeros", 4096, 16, NULL, false}, {"answer", 4, 8, &answer, false},
        {"more", 8, 8, NULL, false},
    };
    static const char *const globals[] = {"zeros", "answer", "more"};
    size_t k;

    (void)state;
    for (k = 0; k < ARRAY_LEN(archs); k++) {
        struct nv_container_desc d = plain(archs[k].sm);
        bool rela = archs[k].sm >= 90;
        const Elf64_Shdr *s, *rel;
        const Elf64_Sym *sym;
        uint32_t number, i, index;
        struct render_binary b;

        d.vars = vars;
        d.n_vars = ARRAY_LEN(vars);
        assert_int_equal(render_nv_container(&d, &b), BELL_OK);
        check_text(&b, TEXT, 24, !archs[k].reserved);
        check_attrs(&b, &d, archs[k].param_base);
        s = find_section(&b, ".nv.constant3", &number);
        assert_int_equal(s->sh_size, 16);
        assert_int_equal(contents(&b, s)[0], 'x');
        assert_memory_equal(contents(&b, s) + 4, squares, 12);
        sym = find_symbol(&b, "squares", &i);
        assert_int_equal(sym->st_shndx, number);
        assert_int_equal(sym->st_value, 4);
        assert_null(find_section(&b, ".nv.global", NULL));
        s = find_section(&b, ".nv.global.init", &number);
        assert_int_equal(s->sh_size, 4112);
        assert_int_equal(s->sh_addralign, 16);
        assert_int_equal(get(contents(&b, s) + 4088, 8), 0);
        assert_int_equal(get(contents(&b, s) + 4096, 4), 42);
        sym = find_symbol(&b, "more", &i);
        assert_int_equal(sym->st_shndx, number);
        assert_int_equal(sym->st_value, 4104);
        assert_int_equal(sym->st_size, 8);
        s = find_section(&b, ".nv.constant4", &number);
        assert_int_equal(s->sh_size, 24);
        rel = find_section(
            &b, rela ? ".rela.nv.constant4" : ".rel.nv.constant4", NULL);
        assert_non_null(rel);
        assert_int_equal(rel->sh_type, rela ? SHT_RELA : SHT_REL);
        assert_int_equal(rel->sh_info, number);
        assert_int_equal(rel->sh_size, 3 * rel->sh_entsize);
        assert_int_equal(rel->sh_entsize, rela ? 24 : 16);
        for (i = 0; i < 3; i++) {
            const char *p = contents(&b, rel) + i * rel->sh_entsize;
            assert_int_equal(get(p, 8), 8 * i);
            assert_int_equal(get(p + 8, 4), 2);
            assert_non_null(find_symbol(&b, globals[i], &index));
            assert_int_equal(get(p + 12, 4), index);
        }
        render_binary_fini(&b);
    }
}

/* Zeros alone take no place in the file. */
static void
test_zero_vars(void **state)
{
    const struct nv_container_var vars[] = {
        {"a", 1, 1, NULL, false},
        {"b", 1u << 20, 128, NULL, false},
    };
    struct nv_container_desc d = plain(120);
    const Elf64_Shdr *s;
    struct render_binary b;
    uint32_t i;

    (void)state;
    d.vars = vars;
    d.n_vars = ARRAY_LEN(vars);
    assert_int_equal(render_nv_container(&d, &b), BELL_OK);
    assert_true(b.size_bytes < 8192);
    s = find_section(&b, ".nv.global", NULL);
    assert_non_null(s);
    assert_int_equal(s->sh_type, SHT_NOBITS);
    assert_int_equal(s->sh_size, 128 + (1 << 20));
    assert_int_equal(find_symbol(&b, "b", &i)->st_value, 128);
    assert_null(find_section(&b, ".nv.global.init", NULL));
    render_binary_fini(&b);
}

static void
refuse(const struct nv_container_desc *d, bell_status want, const char *part)
{
    struct render_binary b = {NULL, 7};

    assert_int_equal(render_nv_container(d, &b), want);
    assert_non_null(strstr(bell_error_last()->message, part));
    assert_int_equal(b.size_bytes, 7);
}

static void
test_refused(void **state)
{
    struct nv_container_var var = {"v", 4, 3, NULL, true};
    struct nv_container_desc d = plain(90);

    (void)state;
    d.sm = 91;
    refuse(&d, BELL_E_UNSUPPORTED, "sm_91");
    d = plain(90);
    d.entry = "ker";
    refuse(&d, BELL_E_INVALID, "not 'ker'");
    d.entry = "kernel";
    refuse(&d, BELL_E_INVALID, "not 'kernel'");
    d.entry = "";
    refuse(&d, BELL_E_INVALID, "not ''");
    d = plain(90);
    d.text = ".version 7.0\n";
    refuse(&d, BELL_E_INVALID, "not 'kern'");
    d = plain(90);
    d.n_regs = 256;
    refuse(&d, BELL_E_INVALID, "256 registers");
    d.n_regs = 0;
    refuse(&d, BELL_E_INVALID, "0 registers");
    d = plain(90);
    d.n_barriers = 17;
    refuse(&d, BELL_E_INVALID, "17 barriers");
    d = plain(90);
    d.n_params = 10000;
    refuse(&d, BELL_E_INVALID, "10000 parameters");
    d.n_params = UINT32_MAX;
    refuse(&d, BELL_E_INVALID, "parameters");
    d = plain(90);
    d.shared_bytes = d.stack_bytes = UINT32_MAX;
    refuse(&d, BELL_E_INVALID, "shared memory");
    d = plain(90);
    d.reqntid[1] = 2;
    refuse(&d, BELL_E_INVALID, "0 x 2 x 0");
    d = plain(90);
    d.vars = &var;
    d.n_vars = 1;
    refuse(&d, BELL_E_INVALID, "aligned to 3");
    var.align_bytes = 4;
    var.size_bytes = 70000;
    refuse(&d, BELL_E_INVALID, "70000 bytes of constants");
    var.size_bytes = 0;
    refuse(&d, BELL_E_INVALID, "0 bytes");
}

static void
test_out_of_memory(void **state)
{
    static const int32_t one = 1;
    const struct nv_container_var vars[] = {
        {"a", 4, 4, &one, true},
        {"b", 4, 4, &one, false},
        {"c", 4, 4, NULL, false},
    };
    struct nv_container_desc d = plain(90);
    uint64_t n;

    (void)state;
    d.vars = vars;
    d.n_vars = ARRAY_LEN(vars);
    d.shared_bytes = 16;
    for (n = 1;; n++) {
        struct render_binary b = {NULL, 0};
        bell_status status;

        host_fail_after(n, 1);
        status = render_nv_container(&d, &b);
        host_fail_after(0, 0);
        if (status == BELL_OK) {
            render_binary_fini(&b);
            break;
        }
        assert_int_equal(status, BELL_E_NO_MEMORY);
        assert_non_null(strstr(bell_error_last()->message, "kern"));
    }
    assert_true(n > 10);
}

/* Every kernel of the compiler's tests, as a program. */
static void
test_programs(void **state)
{
    const struct ptx_target target = {.sm = 90, .arg_align_bytes = 16};
    const int64_t dims[] = {16, 24, 8};
    struct lower_target lower;
    size_t c;

    (void)state;
    assert_int_equal(render_ptx_lower_target(&target, &lower), BELL_OK);
    for (c = 0; c < lk_n_cases; c++) {
        struct lower_program p;
        struct render_binary b;
        char name[160], *text;
        const Elf64_Shdr *s;
        const char *at;
        uint32_t size, i;
        struct lk k;

        lk_build(&k, &lk_cases[c], dims);
        assert_int_equal(lower_kernel(&k.g, k.sink, &lower, &p), BELL_OK);
        assert_int_equal(render_ptx(&p, &target, &text), BELL_OK);
        assert_int_equal(render_nv_container_program(&p, &target, &b), BELL_OK);
        check_head(&b, 0x06005A04);
        snprintf(name, sizeof(name), ".text.%s", p.name);
        s = find_section(&b, name, NULL);
        assert_non_null(s);
        assert_memory_equal(contents(&b, s) + 16, text, strlen(text));
        at = find_attr(&b, ".nv.info", 0x2F, 0, &size);
        assert_in_range(get(at + 4, 4), 16, 255);
        snprintf(name, sizeof(name), ".nv.info.%s", p.name);
        at = find_attr(&b, name, 0x10, 0, &size);
        for (i = 0; i < 3; i++)
            assert_int_equal(get(at + 4 * i, 4), p.local[i]);
        at = find_attr(&b, name, 0x19, 0, &size);
        assert_int_equal(get(at, 2), 8 * (p.n_params + p.n_vars));
        render_binary_fini(&b);
        host_free(text);
        lk_fini(&k);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_arch),    cmocka_unit_test(test_shared),
        cmocka_unit_test(test_vars),          cmocka_unit_test(test_zero_vars),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_programs),
        cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
