/* hcq/nv/nv_cubin.c on cubins of the real assembler for six chips, where there
 * is one, and on containers of our own everywhere: what a kernel needs,
 * constant banks, variables, relocations, and what is refused.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/nv/nv_cubin.h"
#include "hcq/nv/nv_gen.h"
#include "render/ptx/nv_container.h"
#include "tests/unit/outcomes.h"

#define VA 0x1000400000ull

/* Where parameters start, and how much of static shared memory is the
 * hardware's. src: docs/hardware/nvidia-code.md, "Shared memory",
 * "Constant bank 0" */
static const struct chip {
    uint32_t sm;
    const char *version;
    uint32_t param_offset, shared_start;
} chips[] = {
    {80, "7.0", 0x160, 0},      {86, "7.1", 0x160, 0},
    {89, "7.8", 0x160, 0},      {90, "7.8", 0x210, 0x400},
    {100, "8.6", 0x380, 0x400}, {120, "8.7", 0x380, 0x400},
};

/* Every section that a loader is concerned with. */
static const char module_text[] =
    ".version %s\n.target sm_%u\n.address_size 64\n"
    ".global .align 4 .u32 counter = 7;\n"
    ".global .align 8 .u64 pointer = generic(counter);\n"
    ".global .align 16 .b8 zeroed[4096];\n"
    ".const .align 4 .f32 table[4] = {0f3F800000, 0f40000000, 0f40400000, "
    "0f40800000};\n"
    ".extern .shared .align 16 .b8 dynamic[];\n"
    ".visible .entry other(.param .u64 a)\n{\n\tret;\n}\n"
    ".visible .entry kernel(.param .u64 out, .param .u64 n, .param .u64 v)\n"
    ".reqntid 64, 2, 1\n{\n"
    "\t.reg .pred %%p<4>;\n\t.reg .u32 %%r<16>;\n\t.reg .u64 %%rd<12>;\n"
    "\t.reg .f32 %%f<4>;\n\t.reg .f64 %%d<4>;\n"
    "\t.shared .align 16 .b8 fixed[1024];\n"
    "\t.local .align 16 .b8 stack[2048];\n"
    "\tld.param.u64 %%rd0, [out];\n\tcvta.to.global.u64 %%rd0, %%rd0;\n"
    "\tld.param.u64 %%rd1, [n];\n\tld.param.u64 %%rd2, [v];\n"
    "\tmov.u64 %%rd3, stack;\n\tadd.u64 %%rd3, %%rd3, %%rd1;\n"
    "\tst.local.u32 [%%rd3], %%r0;\n\tst.local.u64 [%%rd3+8], %%rd2;\n"
    "\tcvt.u32.u64 %%r1, %%rd1;\n\tmov.u32 %%r2, fixed;\n"
    "\tadd.u32 %%r2, %%r2, %%r1;\n\tst.shared.u32 [%%r2], %%r1;\n"
    "\tmov.u32 %%r3, dynamic;\n\tadd.u32 %%r3, %%r3, %%r1;\n"
    "\tst.shared.u32 [%%r3], %%r1;\n"
    "\tbar.sync 0;\n\tbar.sync 3;\n"
    "\tld.shared.u32 %%r4, [%%r2+4];\n\tld.shared.u32 %%r5, [%%r3+4];\n"
    "\tadd.u32 %%r4, %%r4, %%r5;\n"
    "\tmov.u64 %%rd4, table;\n\tadd.u64 %%rd4, %%rd4, %%rd1;\n"
    "\tld.const.f32 %%f0, [%%rd4];\n\tcvt.rzi.u32.f32 %%r6, %%f0;\n"
    "\tadd.u32 %%r4, %%r4, %%r6;\n"
    "\tld.global.u32 %%r7, [counter];\n\tadd.u32 %%r4, %%r4, %%r7;\n"
    "\tld.global.u64 %%rd5, [pointer];\n\tadd.u64 %%rd5, %%rd5, %%rd1;\n"
    "\tmov.u64 %%rd6, zeroed;\n\tadd.u64 %%rd6, %%rd6, %%rd1;\n"
    "\tld.global.u32 %%r8, [%%rd6];\n\tadd.u32 %%r4, %%r4, %%r8;\n"
    "\tcvt.rn.f64.u64 %%d0, %%rd1;\n"
    "\tfma.rn.f64 %%d0, %%d0, 0d3FF3C0CA428C59FB, 0d4005BF0A8B145769;\n"
    "\tcvt.rzi.u64.f64 %%rd7, %%d0;\n\tadd.u64 %%rd5, %%rd5, %%rd7;\n"
    "\tld.local.u64 %%rd8, [%%rd3+16];\n\tadd.u64 %%rd5, %%rd5, %%rd8;\n"
    "\tcvt.u64.u32 %%rd9, %%r4;\n\tadd.u64 %%rd5, %%rd5, %%rd9;\n"
    "\tst.global.u64 [%%rd0], %%rd5;\n\tret;\n}\n";

static struct render_binary
assemble(const struct chip *chip)
{
    const struct ptx_target target = {.sm = chip->sm};
    struct render_binary binary;
    char text[8192];

    snprintf(text, sizeof(text), module_text, chip->version, chip->sm);
    if (render_ptxas(text, &target, &binary) != BELL_OK)
        fail_msg("sm_%u: %s", chip->sm, bell_error_last()->message);
    return binary;
}

static void
need_ptxas(void)
{
    char path[256];

    if (render_ptxas_find(path, sizeof(path)) != BELL_OK) {
        print_message("# skipped: %s\n", bell_error_last()->message);
        skip();
    }
}

static void
open_ok(const struct render_binary *b, const char *entry,
        struct nv_cubin *out_cubin)
{
    if (nv_cubin_open(b->data, b->size_bytes, "test", entry, out_cubin) !=
        BELL_OK)
        fail_msg("%s: %s", entry, bell_error_last()->message);
}

static uint64_t
word_at(const uint8_t *image, uint64_t offset)
{
    uint64_t value;

    memcpy(&value, image + offset, 8);
    return value;
}

/* Bank 4 holds the addresses of the module's variables; `pointer`, among the
 * initialised ones, that of `counter`. */
static void
check_image(const struct nv_cubin *c)
{
    uint8_t *image = host_alloc((size_t)c->image_bytes);
    uint64_t pointer, counter = 0;
    uint32_t i, value = 0, n_zero = 0;

    assert_int_equal(nv_cubin_link(c, VA, image), BELL_OK);
    assert_true(c->banks[4].size_bytes >= 16);
    for (i = 0; i < c->banks[4].size_bytes; i += 8) {
        uint64_t va = word_at(image, c->banks[4].offset + i);

        assert_in_range(va, VA, VA + c->total_bytes - 1);
        if (va >= VA + c->image_bytes) {
            n_zero++;
            continue;
        }
        memcpy(&value, image + (va - VA), 4);
        if (value == 7)
            counter = va;
    }
    assert_int_equal(n_zero, 1);
    assert_int_not_equal(counter, 0);
    for (i = 0; i + 8 <= c->image_bytes; i += 8) {
        pointer = word_at(image, i);
        if (pointer == counter &&
            i - c->banks[4].offset >= c->banks[4].size_bytes)
            break;
    }
    assert_true(i + 8 <= c->image_bytes); /* pointer = &counter */
    assert_true(c->banks[3].size_bytes >= 16);
    memcpy(&value, image + c->banks[3].offset + 4, 4);
    assert_int_equal(value, 0x40000000); /* 2.0f */
    host_free(image);
}

static void
check_kernel(const struct nv_cubin *c, const struct chip *chip)
{
    uint32_t i;

    assert_int_equal(c->sm, chip->sm);
    assert_in_range(c->n_regs, 8, 255);
    assert_int_equal(c->n_barriers, 4);
    assert_in_range(c->stack_bytes, 2048, 4096);
    assert_int_equal(c->shared_bytes, chip->shared_start + 1024);
    assert_int_equal(c->max_threads, 128);
    assert_int_equal(c->local[0], 64);
    assert_int_equal(c->local[1], 2);
    assert_int_equal(c->param_offset, chip->param_offset);
    assert_int_equal(c->param_bytes, 24);
    assert_int_equal(c->n_params, 3);
    for (i = 0; i < 3; i++) {
        assert_int_equal(c->params[i].offset, i * 8);
        assert_int_equal(c->params[i].size_bytes, 8);
    }
    assert_int_equal(c->entry_offset % 128, 0);
    assert_true(c->total_bytes >= c->image_bytes + 4096);
    for (i = 0; i < NV_CUBIN_BANKS; i++)
        assert_int_equal(c->banks[i].offset % 256, 0);
    /* Code is fetched ahead. */
    assert_true(c->image_bytes >= c->entry_offset + 4096);
}

static void
real_cubins(void **state)
{
    size_t i;

    (void)state;
    need_ptxas();
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        struct render_binary b = assemble(&chips[i]);
        struct nv_cubin kernel, other;

        open_ok(&b, "kernel", &kernel);
        check_kernel(&kernel, &chips[i]);
        check_image(&kernel);
        if (chips[i].sm < 90) /* constants of its f64 instructions */
            assert_true(kernel.banks[2].size_bytes != 0);
        open_ok(&b, "other", &other);
        assert_int_equal(other.n_params, 1);
        assert_int_equal(other.stack_bytes, 0);
        assert_int_equal(other.max_threads, 0);
        assert_int_equal(other.banks[2].size_bytes, 0);
        assert_int_not_equal(other.entry_offset, kernel.entry_offset);
        nv_cubin_close(&kernel);
        nv_cubin_close(&other);
        render_binary_fini(&b);
    }
}

static void
expect_refused(const void *data, size_t n, const char *entry, const char *part)
{
    struct nv_cubin c;

    assert_int_equal(nv_cubin_open(data, n, "test", entry, &c), BELL_E_INVALID);
    if (!strstr(bell_error_last()->message, part) ||
        strncmp(bell_error_last()->message, "program 'test': ", 16) != 0)
        fail_msg("\"%s\" is not in \"%s\"", part, bell_error_last()->message);
}

static const char printf_text[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
    ".visible .entry kernel(.param .u64 out)\n{\n"
    "\t.reg .u64 %rd<4>;\n\t.reg .u32 %r<4>;\n"
    "\tld.param.u64 %rd0, [out];\n\t{\n"
    "\t.param .b64 a;\n\tst.param.b64 [a], %rd0;\n"
    "\t.param .b64 b;\n\tst.param.b64 [b], %rd0;\n"
    "\t.param .b32 r;\n\tcall.uni (r), vprintf, (a, b);\n"
    "\tld.param.b32 %r0, [r];\n\t}\n\tst.global.u32 [%rd0], %r0;\n"
    "\tret;\n}\n";

static const char cluster_text[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry kernel(.param .u64 out)\n"
    ".explicitcluster\n.reqnctapercluster 2, 1, 1\n{\n\tret;\n}\n";

static void
refused_cubins(void **state)
{
    const struct ptx_target target = {.sm = 90};
    struct render_binary b;

    (void)state;
    need_ptxas();
    assert_int_equal(render_ptxas(printf_text, &target, &b), BELL_OK);
    expect_refused(b.data, b.size_bytes, "kernel", "vprintf");
    render_binary_fini(&b);
    assert_int_equal(render_ptxas(cluster_text, &target, &b), BELL_OK);
    expect_refused(b.data, b.size_bytes, "kernel", "clusters of 2x1x1 blocks");
    expect_refused(b.data, b.size_bytes, "nowhere", "no entry 'nowhere'");
    render_binary_fini(&b);
}

static void
which_chips(void **state)
{
    (void)state;
    assert_true(nv_gen_runs(80, 80));
    assert_true(nv_gen_runs(80, 86));
    assert_true(nv_gen_runs(86, 89));
    assert_false(nv_gen_runs(86, 80));
    assert_false(nv_gen_runs(89, 90));
    assert_false(nv_gen_runs(90, 100));
    assert_false(nv_gen_runs(120, 100));
}

/* ---- containers ---------------------------------------------------------- */

static struct render_binary
pack(uint32_t sm)
{
    static const uint32_t seven = 7;
    static const struct nv_container_var vars[] = {
        {"counter", 4, 4, &seven, false},
        {"zeroed", 64, 16, NULL, false},
        {"table", 8, 8, "\1\2\3\4\5\6\7", true},
    };
    struct nv_container_desc d = {
        .text = ".visible .entry kernel(.param .u64 p0)\n{\n\tret;\n}\n",
        .entry = "kernel",
        .sm = sm,
        .n_params = 1,
        .shared_bytes = 100,
        .stack_bytes = 32,
        .n_regs = 24,
        .n_barriers = 1,
        .vars = vars,
        .n_vars = ARRAY_LEN(vars),
    };
    struct render_binary b;

    if (render_nv_container(&d, &b) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    return b;
}

static void
containers(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        struct render_binary b = pack(chips[i].sm);
        struct nv_cubin c;
        uint8_t *image;

        open_ok(&b, "kernel", &c);
        assert_int_equal(c.sm, chips[i].sm);
        assert_int_equal(c.n_regs, 24);
        assert_int_equal(c.n_barriers, 1);
        assert_int_equal(c.stack_bytes, 32);
        assert_int_equal(c.param_offset, chips[i].param_offset);
        assert_int_equal(c.shared_bytes, chips[i].shared_start + 100);
        assert_int_equal(c.banks[3].size_bytes, 8);
        image = host_alloc((size_t)c.image_bytes);
        assert_int_equal(nv_cubin_link(&c, VA, image), BELL_OK);
        assert_memory_equal(image + c.entry_offset, "BELL PTX", 8);
        assert_memory_equal(image + c.banks[3].offset, "\1\2\3\4", 4);
        assert_int_equal(
            *(uint32_t *)(void *)(image +
                                  (word_at(image, c.banks[4].offset) - VA)),
            7);
        host_free(image);
        nv_cubin_close(&c);
        render_binary_fini(&b);
    }
}

/* Cut off anywhere, it is refused or, past the last byte that matters, whole.
 */
static void
truncated(void **state)
{
    struct render_binary b = pack(90);
    size_t n;

    (void)state;
    for (n = 0; n < b.size_bytes; n++) {
        uint8_t *copy = host_alloc(n + 1);
        struct nv_cubin c;

        memcpy(copy, b.data, n);
        if (nv_cubin_open(copy, n, "test", "kernel", &c) == BELL_OK)
            nv_cubin_close(&c);
        else
            assert_int_equal(bell_error_last()->status, BELL_E_INVALID);
        host_free(copy);
    }
    expect_refused(b.data, 20, "kernel", "truncated: 20 bytes");
    render_binary_fini(&b);
}

static void
no_memory(void **state)
{
    struct render_binary b = pack(80);
    struct nv_cubin c;

    (void)state;
    host_fail_after(1, 1);
    assert_int_equal(nv_cubin_open(b.data, b.size_bytes, "test", "kernel", &c),
                     BELL_E_NO_MEMORY);
    host_fail_after(0, 0);
    render_binary_fini(&b);
}

/* ---- borders ------------------------------------------------------------- */

/* Where a section's header is in a cubin. */
static Elf64_Shdr *
section_of(const struct render_binary *b, const char *name)
{
    const Elf64_Ehdr *head = b->data;
    Elf64_Shdr *all = (void *)((uint8_t *)(uintptr_t)b->data + head->e_shoff);
    const char *names = (const char *)b->data + all[head->e_shstrndx].sh_offset;
    uint32_t i;

    for (i = 0; i < head->e_shnum; i++) {
        if (strcmp(names + all[i].sh_name, name) == 0)
            return &all[i];
    }
    fail_msg("no section %s", name);
    return NULL;
}

/* Where an attribute of the module or of the kernel is: its head of 4 bytes,
 * then its words. */
static uint8_t *
attr_of(const struct render_binary *b, const char *section, uint8_t code)
{
    const Elf64_Shdr *s = section_of(b, section);
    uint8_t *at = (uint8_t *)(uintptr_t)b->data + s->sh_offset,
            *end = at + s->sh_size;

    while (at < end) {
        if (at[1] == code)
            return at;
        at += at[0] == 4 ? 4u + (at[2] | (uint32_t)at[3] << 8) : 4u;
    }
    fail_msg("no attribute 0x%02x in %s", code, section);
    return NULL;
}

static struct render_binary
pack_plain(uint32_t n_params)
{
    static const struct nv_container_var vars[] = {
        {"table", 65536, 8, NULL, true}, {"zeroed", 64, 16, NULL, false}};
    struct nv_container_desc d = {
        .text = ".visible .entry kernel(.param .u64 p0)\n{\n\tret;\n}\n",
        .entry = "kernel",
        .sm = 90,
        .n_params = n_params,
        .shared_bytes = 100,
        .stack_bytes = 32,
        .n_regs = 24,
        .n_barriers = 16,
        .reqntid = {64, 4, 2},
        .vars = vars,
        .n_vars = ARRAY_LEN(vars),
    };
    struct render_binary b;

    if (render_nv_container(&d, &b) != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
    return b;
}

/* A word of an attribute (0: the number in its head) as it may just be, and as
 * it may just not be. */
struct border {
    const char *section;
    uint8_t code, word; /* 1 is the first behind the head */
    uint32_t good, bad;
    const char *part; /* of the refusal */
};

#define OF_MODULE ".nv.info"
#define OF_KERNEL ".nv.info.kernel"

static const struct border borders[] = {
    {OF_KERNEL, 0x10, 1, 128, 129, "a block of 129x4x2"}, /* 1024 threads */
    {OF_KERNEL, 0x10, 2, 8, 9, "a block of 64x9x2"},
    {OF_KERNEL, 0x10, 3, 4, 5, "a block of 64x4x5"},
    {OF_KERNEL, 0x10, 1, 1, 0, "a block of 0x4x2"},
    {OF_KERNEL, 0x10, 2, 1, 0, "a block of 64x0x2"},
    {OF_KERNEL, 0x10, 3, 1, 0, "a block of 64x4x0"},
    {OF_KERNEL, 0x10, 3, 4, 1025, "a block of 64x4x1025"},
    {OF_KERNEL, 0x4c, 0, 16, 17, "NUM_BARRIERS: 17"},
    {OF_KERNEL, 0x4c, 0, 0, 255, "NUM_BARRIERS: 255"},
    /* PARAM_CBANK: bytes << 16 | offset */
    {OF_KERNEL, 0x0a, 2, 16u << 16 | 65520, 16u << 16 | 65528,
     "16 bytes of parameters at 0xfff8"},
    {OF_KERNEL, 0x0a, 2, 16u << 16 | 8, 16u << 16 | 4, "at 0x4 of constant"},
    {OF_KERNEL, 0x0a, 2, 16u << 16 | 0x210, 8u << 16 | 0x210,
     "8 bytes of parameters in PARAM_CBANK, 16 in"},
    {OF_KERNEL, 0x19, 0, 16, 24, "16 bytes of parameters in PARAM_CBANK, 24"},
    /* KPARAM_INFO: offset << 16 | ordinal; bytes << 18 */
    {OF_KERNEL, 0x17, 2, 8u << 16 | 1, 9u << 16 | 1, "parameter 1: 8 bytes"},
    {OF_KERNEL, 0x17, 2, 0u << 16 | 1, 0, "parameter 0 twice"},
    {OF_KERNEL, 0x17, 2, 8u << 16 | 1, 8u << 16 | 128, "parameter 128 of 8"},
    {OF_KERNEL, 0x17, 2, 8u << 16 | 1, 8u << 16 | 127, "parameter 1: 0 bytes"},
    {OF_KERNEL, 0x17, 3, 8u << 18, 9u << 18, "parameter 1: 9 bytes at 8 of 16"},
    {OF_KERNEL, 0x17, 3, 1u << 18, 0, "parameter 1 of 0 bytes"},
    {OF_KERNEL, 0x17, 3, 8u << 18, 17u << 18, "parameter 1: 17 bytes"},
    {OF_MODULE, 0x12, 2, (1u << 20) - 1, 1u << 20, "MIN_STACK_SIZE: 1048576"},
    {OF_MODULE, 0x2f, 2, 255, 256, "REGCOUNT: 256"},
    {OF_MODULE, 0x2f, 2, 1, 0, "REGCOUNT: 0"},
    /* the head's own: bytes behind it */
    {OF_MODULE, 0x12, 0, 8, 0xffff, "is cut off"},
};

static void
set_attr(const struct render_binary *b, const struct border *row,
         uint32_t value)
{
    uint8_t *at = attr_of(b, row->section, row->code);

    if (row->word)
        memcpy(at + 4 * row->word, &value, 4);
    else
        memcpy(at + 2, &value, 2);
}

static void
attributes_at_their_borders(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(borders); i++) {
        struct render_binary b = pack_plain(2);
        struct nv_cubin c;

        set_attr(&b, &borders[i], borders[i].good);
        if (nv_cubin_open(b.data, b.size_bytes, "test", "kernel", &c) !=
            BELL_OK)
            fail_msg("row %zu: %s", i, bell_error_last()->message);
        nv_cubin_close(&c);
        set_attr(&b, &borders[i], borders[i].bad);
        expect_refused(b.data, b.size_bytes, "kernel", borders[i].part);
        render_binary_fini(&b);
    }
}

/* The bound that a kernel was compiled for, without a size. */
static void
most_threads(void **state)
{
    static const uint32_t sizes[][4] = {
        {1024, 1, 1, 1024}, {32, 32, 1, 1024}, {7, 3, 2, 42}};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sizes); i++) {
        struct render_binary b = pack_plain(2);
        uint8_t *at = attr_of(&b, OF_KERNEL, 0x10);
        struct nv_cubin c;

        at[1] = 0x05; /* MAX_THREADS */
        memcpy(at + 4, sizes[i], 12);
        open_ok(&b, "kernel", &c);
        assert_int_equal(c.max_threads, sizes[i][3]);
        assert_int_equal(c.local[0], 0);
        nv_cubin_close(&c);
        memcpy(at + 4, (const uint32_t[]){1025, 1, 1}, 12);
        expect_refused(b.data, b.size_bytes, "kernel", "a block of 1025x1x1");
        render_binary_fini(&b);
    }
}

/* Clusters of one block are none; more in any direction are refused, and so
 * are kernels that call what is not there. */
static void
clusters_and_calls(void **state)
{
    static const struct {
        uint8_t code;
        uint32_t words[3];
        const char *part; /* of the refusal; NULL: it is taken */
    } rows[] = {
        {0x3d, {1, 1, 1}, NULL},
        {0x3d, {0, 0, 0}, NULL},
        {0x3d, {2, 1, 1}, "clusters of 2x1x1 blocks are not supported"},
        {0x3d, {1, 2, 1}, "clusters of 1x2x1 blocks are not supported"},
        {0x3d, {1, 1, 2}, "clusters of 1x1x2 blocks are not supported"},
        {0x0f, {0, 0, 0}, "it uses '', which nobody defines"},
        {0x0f, {UINT32_MAX, 0, 0}, "it uses '', which nobody defines"},
        {0x46, {0, 0, 0}, "it makes system calls"},
        {0x7f, {0, 0, 0}, NULL},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct render_binary b = pack_plain(2);
        uint8_t *at = attr_of(&b, OF_KERNEL, 0x10);
        struct nv_cubin c;

        at[1] = rows[i].code;
        memcpy(at + 4, rows[i].words, 12);
        if (rows[i].part) {
            expect_refused(b.data, b.size_bytes, "kernel", rows[i].part);
        } else {
            open_ok(&b, "kernel", &c);
            assert_int_equal(c.max_threads, 0);
            nv_cubin_close(&c);
        }
        render_binary_fini(&b);
    }
}

static void
sections_at_their_borders(void **state)
{
    struct render_binary b = pack_plain(2);
    Elf64_Shdr *bank = section_of(&b, ".nv.constant3"),
               *shared = section_of(&b, ".nv.shared.kernel"),
               *symbols = section_of(&b, ".symtab");
    const Elf64_Shdr *text = section_of(&b, ".text.kernel");
    Elf64_Sym *sym =
        (void *)((uint8_t *)(uintptr_t)b.data + symbols->sh_offset);
    struct nv_cubin c;
    uint64_t old;

    (void)state;
    open_ok(&b, "kernel", &c);
    assert_int_equal(c.banks[3].size_bytes, 65536);
    nv_cubin_close(&c);
    /* one byte more, the file has it */
    bank->sh_offset -= 1;
    bank->sh_size = 65537;
    expect_refused(b.data, b.size_bytes, "kernel",
                   "65537 bytes: a bank has 65536");
    bank->sh_offset += 1;
    bank->sh_size = 65536;
    old = shared->sh_size;
    shared->sh_size = 1u << 20;
    open_ok(&b, "kernel", &c);
    assert_int_equal(c.shared_bytes, 1u << 20);
    nv_cubin_close(&c);
    shared->sh_size = (1u << 20) + 1;
    expect_refused(b.data, b.size_bytes, "kernel",
                   "1048577 bytes of static shared memory");
    shared->sh_size = old;
    while (ELF64_ST_TYPE(sym->st_info) != STT_FUNC)
        sym++;
    sym->st_value = (text->sh_size - 1) / 16 * 16;
    open_ok(&b, "kernel", &c);
    nv_cubin_close(&c);
    sym->st_value += 16;
    expect_refused(b.data, b.size_bytes, "kernel", "where no code is");
    sym->st_value = 8;
    expect_refused(b.data, b.size_bytes, "kernel", "where no code is");
    render_binary_fini(&b);
}

/* Renames a section whose name ends in a digit. */
static void
set_digit(const struct render_binary *b, const char *name, char digit)
{
    const Elf64_Ehdr *head = b->data;
    const Elf64_Shdr *all =
        (const void *)((const uint8_t *)b->data + head->e_shoff);
    char *names = (char *)(uintptr_t)b->data + all[head->e_shstrndx].sh_offset;

    names[section_of(b, name)->sh_name + strlen(name) - 1] = digit;
}

static void
banks_by_number(void **state)
{
    struct render_binary b = pack_plain(2);
    struct nv_cubin c;
    uint64_t total;

    (void)state;
    set_digit(&b, ".nv.constant3", '7');
    open_ok(&b, "kernel", &c);
    assert_int_equal(c.banks[7].size_bytes, 65536);
    total = c.total_bytes;
    nv_cubin_close(&c);
    set_digit(&b, ".nv.constant7", '8'); /* there are eight, with bank 0 */
    open_ok(&b, "kernel", &c);
    assert_true(c.total_bytes < total - 60000);
    nv_cubin_close(&c);
    set_digit(&b, ".nv.constant8", '4');
    expect_refused(b.data, b.size_bytes, "kernel", "a second one for bank 4");
    render_binary_fini(&b);
}

static void
missing_attributes(void **state)
{
    struct render_binary b = pack_plain(2);
    const uint32_t hundred[] = {100, 1, 1};
    uint8_t *at = attr_of(&b, OF_KERNEL, 0x0a), *size;
    struct nv_cubin c;
    uint32_t word = 9u << 16 | 65528;

    (void)state;
    at[1] = 0x7f;
    expect_refused(b.data, b.size_bytes, "kernel", "no PARAM_CBANK");
    at[1] = 0x0a;
    /* one byte over the bank's end, which both attributes tell of */
    size = attr_of(&b, OF_KERNEL, 0x19);
    memcpy(at + 8, &word, 4);
    memcpy(size + 2, (const uint16_t[]){9}, 2);
    expect_refused(b.data, b.size_bytes, "kernel", "9 bytes of parameters at");
    word = 16u << 16 | 0x210;
    memcpy(at + 8, &word, 4);
    memcpy(size + 2, (const uint16_t[]){16}, 2);
    at = attr_of(&b, OF_MODULE, 0x2f);
    at[1] = 0x7f;
    expect_refused(b.data, b.size_bytes, "kernel", "no REGCOUNT of 'kernel'");
    at[1] = 0x2f;
    /* the smaller one of two bounds */
    at = attr_of(&b, OF_KERNEL, 0x17);
    at[1] = 0x05;
    memcpy(at + 4, hundred, 12);
    open_ok(&b, "kernel", &c);
    assert_int_equal(c.max_threads, 100);
    assert_int_equal(c.local[0], 64);
    nv_cubin_close(&c);
    render_binary_fini(&b);
    /* without parameters, they would be where the image of bank 0 ends */
    b = pack_plain(0);
    section_of(&b, ".nv.constant0.kernel")->sh_size = 0x20c;
    open_ok(&b, "kernel", &c);
    assert_int_equal(c.param_offset, 0x210);
    nv_cubin_close(&c);
    section_of(&b, ".nv.constant0.kernel")->sh_size = 65537;
    assert_int_equal(nv_cubin_open(b.data, b.size_bytes, "test", "kernel", &c),
                     BELL_E_INVALID);
    render_binary_fini(&b);
}

static void
relocations_at_their_borders(void **state)
{
    struct render_binary b = pack_plain(2);
    const Elf64_Shdr *bank = section_of(&b, ".nv.constant4"), *s;
    uint8_t *bytes = (uint8_t *)(uintptr_t)b.data, *image;
    struct nv_cubin c;
    Elf64_Rela *rela;

    (void)state;
    s = section_of(&b, ".rela.nv.constant4");
    rela = (void *)(bytes + s->sh_offset);
    rela->r_offset = bank->sh_size - 8;
    open_ok(&b, "kernel", &c);
    image = host_alloc((size_t)c.image_bytes);
    assert_int_equal(nv_cubin_link(&c, VA, image), BELL_OK);
    nv_cubin_close(&c);
    rela->r_offset++;
    expect_refused(b.data, b.size_bytes, "kernel", "relocation at 0x");
    /* 32 bits of an address that has more */
    rela->r_offset = bank->sh_size - 4;
    rela->r_info = ELF64_R_INFO(ELF64_R_SYM(rela->r_info), 1);
    open_ok(&b, "kernel", &c);
    assert_int_equal(nv_cubin_link(&c, 0x10000, image), BELL_OK);
    assert_int_equal(nv_cubin_link(&c, VA, image), BELL_E_INVALID);
    assert_non_null(
        strstr(bell_error_last()->message, "does not fit in 32 bits"));
    nv_cubin_close(&c);
    host_free(image);
    render_binary_fini(&b);
}

/* What each type writes where: the whole address or a half of it, at its
 * offset or, in instructions, behind it; added to what is there when the
 * relocation has no addend. */
static void
relocation_values(void **state)
{
    static const struct {
        uint32_t type, skip, n_bytes, shift;
        uint64_t va;
    } rows[] = {
        {1, 0, 4, 0, 0x10000}, {2, 0, 8, 0, VA},  {3, 0, 4, 0, 0x10000},
        {4, 0, 8, 0, VA},      {56, 4, 4, 0, VA}, {57, 4, 4, 32, VA},
    };
    struct render_binary b = pack_plain(2);
    const Elf64_Shdr *bank = section_of(&b, ".nv.constant4");
    Elf64_Shdr *s = section_of(&b, ".rela.nv.constant4");
    uint8_t *bytes = (uint8_t *)(uintptr_t)b.data, *image;
    Elf64_Rela rela, *there = (void *)(bytes + s->sh_offset);
    struct nv_cubin c;
    uint64_t target, seven = 7;
    size_t i, k;

    (void)state;
    assert_int_equal(s->sh_size, sizeof(rela));
    rela = *there;
    open_ok(&b, "kernel", &c);
    image = host_alloc((size_t)c.image_bytes);
    target = c.image_bytes; /* the first that is zero, behind the image */
    nv_cubin_close(&c);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        for (k = 0; k < 2; k++) {
            uint64_t want, got = 0;
            uint32_t at = rows[i].skip;

            /* with an addend of 7; or with 7 there, and no addend */
            s->sh_type = k ? SHT_REL : SHT_RELA;
            s->sh_size = k ? sizeof(Elf64_Rel) : sizeof(Elf64_Rela);
            there->r_info =
                ELF64_R_INFO(ELF64_R_SYM(rela.r_info), rows[i].type);
            there->r_offset = 0;
            there->r_addend = 7;
            memset(bytes + bank->sh_offset, k ? 0 : 0x55, 8);
            if (k)
                memcpy(bytes + bank->sh_offset + at, &seven, rows[i].n_bytes);
            open_ok(&b, "kernel", &c);
            assert_int_equal(nv_cubin_link(&c, rows[i].va, image), BELL_OK);
            want = rows[i].va + target + 7;
            memcpy(&got, image + c.banks[4].offset + at, rows[i].n_bytes);
            if (got != (rows[i].n_bytes == 4
                            ? want >> rows[i].shift & UINT32_MAX
                            : want))
                fail_msg("type %u: 0x%llx", rows[i].type,
                         (unsigned long long)got);
            if (rows[i].n_bytes == 4 && !k) /* and nothing beside it */
                assert_int_equal(image[c.banks[4].offset + 4 - at], 0x55);
            nv_cubin_close(&c);
        }
    }
    there->r_info = ELF64_R_INFO(ELF64_R_SYM(rela.r_info), 5);
    expect_refused(b.data, b.size_bytes, "kernel",
                   "relocation type 5 in '.nv.constant4' is not known");
    host_free(image);
    render_binary_fini(&b);
}

/* ---- every byte ---------------------------------------------------------- */

static void
look_at_cubin(struct outcomes *o, const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1), *image = NULL;
    uint64_t hash = 0;
    struct nv_cubin c;
    uint32_t i;

    memcpy(copy, data, n);
    if (nv_cubin_open(copy, n, "test", "kernel", &c) != BELL_OK) {
        outcome(o, "%s", bell_error_last()->message);
        free(copy);
        return;
    }
    if (c.image_bytes < 1 << 20) {
        image = malloc((size_t)c.image_bytes);
        if (nv_cubin_link(&c, VA, image) != BELL_OK)
            outcome(o, "%s", bell_error_last()->message);
        else
            hash = outcomes_hash(image, (size_t)c.image_bytes, 0);
    }
    outcome(o, "%u: %u %u %u %u %u, %u %u %u, %u %u %u, %llu %llu %llu %llx",
            c.sm, c.n_regs, c.n_barriers, c.stack_bytes, c.shared_bytes,
            c.max_threads, c.local[0], c.local[1], c.local[2], c.param_offset,
            c.param_bytes, c.n_params, (unsigned long long)c.entry_offset,
            (unsigned long long)c.image_bytes,
            (unsigned long long)c.total_bytes, (unsigned long long)hash);
    for (i = 0; i < c.n_params; i++)
        outcome(o, "%llu %llu", (unsigned long long)c.params[i].offset,
                (unsigned long long)c.params[i].size_bytes);
    for (i = 0; i < NV_CUBIN_BANKS; i++)
        outcome(o, "%llu %llu", (unsigned long long)c.banks[i].offset,
                (unsigned long long)c.banks[i].size_bytes);
    nv_cubin_close(&c);
    free(image);
    free(copy);
}

static void
every_byte(void **state)
{
    static const uint32_t sms[] = {80, 90};
    struct outcomes o = {0};
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(sms); i++) {
        struct render_binary b = pack(sms[i]);

        outcomes_vary(b.data, b.size_bytes, look_at_cubin, &o);
        render_binary_fini(&b);
    }
    outcomes_are(&o, 0x19235515cb984600);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte),
        cmocka_unit_test(banks_by_number),
        cmocka_unit_test(missing_attributes),
        cmocka_unit_test(relocations_at_their_borders),
        cmocka_unit_test(attributes_at_their_borders),
        cmocka_unit_test(most_threads),
        cmocka_unit_test(clusters_and_calls),
        cmocka_unit_test(relocation_values),
        cmocka_unit_test(sections_at_their_borders),
        cmocka_unit_test(real_cubins),
        cmocka_unit_test(refused_cubins),
        cmocka_unit_test(which_chips),
        cmocka_unit_test(containers),
        cmocka_unit_test(truncated),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
