/* struct render_binary, and checks: of a program's arguments, and that an
 * object stands alone. */
#include "render/render.h"
#include "render/render_internal.h"

#include <elf.h>
#include <string.h>

#include "base/alloc.h"

void
render_binary_fini(struct render_binary *binary)
{
    host_free(binary->data);
    memset(binary, 0, sizeof(*binary));
}

const struct uop *
render_bad_slot(const struct lower_program *program)
{
    uint32_t i, j;

    for (i = 0; i < program->n_ops; i++) {
        for (j = 0; j < program->ops[i]->n_src; j++) {
            const struct uop *u = program->ops[i]->src[j];
            uint64_t n = program->n_params;

            if (u->op == UOP_VAR)
                n += program->n_vars;
            else if (u->op != UOP_PARAM)
                continue;
            if ((uint64_t)u->arg.i >= n)
                return u;
        }
    }
    return NULL;
}

static bell_status
bad_object(const char *what)
{
    return bell_fail(BELL_E_COMPILE, "the code generator's object has %s",
                     what);
}

/* True if bytes begin..begin+size-1 are inside the object. */
static bool
inside(const struct render_binary *b, uint64_t begin, uint64_t size)
{
    return begin <= b->size_bytes && size <= b->size_bytes - begin;
}

static bell_status
check_symbols(const struct render_binary *b, const Elf64_Shdr *table,
              const Elf64_Shdr *strings)
{
    uint64_t n = table->sh_size / sizeof(Elf64_Sym), i;

    if (!inside(b, table->sh_offset, table->sh_size) ||
        !inside(b, strings->sh_offset, strings->sh_size))
        return bad_object("a broken symbol table");
    for (i = 1; i < n; i++) {
        const char *name;
        Elf64_Sym sym;
        memcpy(&sym, (const char *)b->data + table->sh_offset + i * sizeof(sym),
               sizeof(sym));
        if (sym.st_shndx != SHN_UNDEF || sym.st_name == 0)
            continue;
        if (sym.st_name >= strings->sh_size)
            return bad_object("a broken string table");
        name = (const char *)b->data + strings->sh_offset + sym.st_name;
        return bell_fail(BELL_E_COMPILE,
                         "the code needs %s, which it does not contain: an "
                         "operation that this processor lacks was not "
                         "decomposed",
                         name);
    }
    return BELL_OK;
}

bell_status
render_check_object(const struct render_binary *b)
{
    Elf64_Ehdr head;
    Elf64_Shdr section, strings;
    uint32_t i;

    if (b->size_bytes < sizeof(head))
        return bad_object("no header");
    memcpy(&head, b->data, sizeof(head));
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_shentsize != sizeof(section) ||
        !inside(b, head.e_shoff, (uint64_t)head.e_shnum * sizeof(section)))
        return bad_object("a broken header");
    for (i = 0; i < head.e_shnum; i++) {
        const char *at = (const char *)b->data + head.e_shoff;
        memcpy(&section, at + i * sizeof(section), sizeof(section));
        if (section.sh_type != SHT_SYMTAB)
            continue;
        if (section.sh_link >= head.e_shnum)
            return bad_object("a broken section table");
        memcpy(&strings, at + section.sh_link * sizeof(section),
               sizeof(strings));
        BELL_TRY(check_symbols(b, &section, &strings));
    }
    return BELL_OK;
}
