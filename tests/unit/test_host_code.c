/* What the host's machine code is made of, counted in the assembler's text, and
 * what it computes. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/cpu/cpu_reloc.h"
#include "host_run.h"
#include "lower/tune.h"
#include "lower_kernels.h"
#include "sanitized.h"

/* ---- counting ---- */

/* The kernel's text for an architecture level. */
static char *
text_of(const char *level, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    const int64_t d[3] = {d0, d1, d2};
    struct lower_target target;
    struct lower_program p;
    struct lk k;
    char *text;

    assert_int_equal(render_host_level(level, 2, &target), BELL_OK);
    lk_build(&k, lk_find(name), d);
    assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
    assert_int_equal(render_host_asm(&p, &target, &text), BELL_OK);
    lk_fini(&k);
    return text;
}

/* Instructions whose names begin so. */
static uint32_t
count(const char *text, const char *name)
{
    char line[64];
    uint32_t n = 0;

    snprintf(line, sizeof(line), "\t%s", name);
    for (; (text = strstr(text, line)) != NULL; text++)
        n++;
    return n;
}

/* A block is loaded in rows: no element goes on its own. */
static void
check_turned(const char *level, uint32_t doublings)
{
    char *text = text_of(level, "transpose", 1024, 1024, 0);
    uint32_t shuffles;

    assert_int_equal(count(text, "vinsertps") + count(text, "vpinsr") +
                         count(text, "vmovss") + count(text, "vpgather"),
                     0);
    shuffles = count(text, "vunpck") + count(text, "vperm") +
               count(text, "vinsert") + count(text, "vshuf");
    /* of each of 16 columns: one for each doubling of the vector's lanes */
    assert_int_equal(shuffles, 16 * doublings);
    host_free(text);
}

static void
test_turned(void **state)
{
    (void)state;
    check_turned("x86-64-v3", 3);
    check_turned("x86-64-v4", 4);
}

/* The loop with most multiply-adds. Takes `text` to pieces. */
static const char *
inner_loop(char *text)
{
    char *best = text, *block, *end;
    uint32_t most = 0;

    for (block = text; block; block = text) {
        text = strstr(block, "\n.LBB");
        if (text)
            *text++ = '\0';
        if (count(block, "vfmadd") <= most)
            continue;
        most = count(block, "vfmadd");
        best = block;
    }
    end = strstr(best, "\n\tj"); /* what is behind the loop */
    if (end)
        *end = '\0';
    return best;
}

/* A step of a product of n columns is its multiply-adds, and a load of each row
 * and of each vector of columns: nothing is kept on the stack. */
static void
check_product(const char *level, const char *name, int64_t n, uint32_t rows,
              uint32_t vectors)
{
    char *text = text_of(level, name, 512, n, 512);
    const char *loop = inner_loop(text);

    assert_int_equal(count(loop, "vfmadd"), 4 * vectors * rows);
    assert_int_equal(count(loop, "vbroadcastss"), 4 * rows);
    assert_int_equal(count(loop, "vmov"), 4 * vectors);
    assert_null(strstr(loop, "(%rsp)"));
    host_free(text);
}

static void
test_products(void **state)
{
    static const char *const names[] = {"matmul-nn", "matmul-nt", "matmul-tn",
                                        "matmul-tt"};
    uint32_t i;

    (void)state;
    for (i = 0; i < 4; i++) {
        check_product("x86-64-v4", names[i], 512, 12, 2);
        check_product("x86-64-v3", names[i], 512, 6, 2);
    }
    /* two vectors would compute much that nobody wants */
    check_product("x86-64-v4", "matmul-nn", 48, 8, 3);
    check_product("x86-64-v4", "matmul-nn", 400, 8, 3);
    /* nor does half a vector more */
    check_product("x86-64-v4", "matmul-nn", 392, 6, 4);
    check_product("x86-64-v3", "matmul-nn", 24, 4, 3);
}

/* ---- running ---- */

#define MOST 600
#define STEP 21

/* Stores of columns that are loaded in some order. */
struct columns {
    enum uop_dtype dtype;
    unsigned lanes, n;
    unsigned at[16]; /* columns, as they are loaded */
    bool over;       /* stored where they are loaded from */
};

/* `first` + STEP * lane */
static const struct uop *
far_lanes(struct uop_graph *g, int64_t first, unsigned lanes)
{
    const struct uop *src[2] = {mk(g, UOP_RAMP, UOP_I64, lanes, 0, 0, NULL),
                                mk_splat(g, mk_int(g, STEP), lanes)};

    src[1] = mk(g, UOP_MUL, UOP_I64, lanes, 0, 2, src);
    src[0] = mk_splat(g, mk_int(g, first), lanes);
    return mk(g, UOP_ADD, UOP_I64, lanes, 0, 2, src);
}

static void
check_columns(const struct columns *c)
{
    uint32_t bytes = uop_dtype_infos[c->dtype].size_bytes, i, j;
    uint8_t *from = guarded_alloc(MOST * bytes),
            *to = guarded_alloc(16 * 16 * bytes), want[16 * 16 * 8];
    void *bufs[2] = {c->over ? from : to, from};
    const struct uop *roots[32], *load;
    uint64_t seed = 3;
    struct lower_target target;
    struct lower_program p;
    struct host_code code;
    struct uop_graph g;
    uint32_t n = 0;

    for (i = 0; i < MOST * bytes; i++)
        from[i] = (uint8_t)next_random(&seed);
    uop_graph_init(&g);
    for (i = 0; i < c->n; i++) {
        load = mk_load(&g, mk_param(&g, c->over ? 0 : 1, c->dtype),
                       far_lanes(&g, c->at[i], c->lanes), c->lanes, NULL, NULL);
        if (c->over)
            roots[n++] = load; /* before the first STORE */
        else
            roots[n++] = mk_store(&g, mk_param(&g, 0, c->dtype),
                                  mk_int(&g, i * c->lanes), load, NULL);
    }
    for (i = 0; i < c->n && c->over; i++)
        roots[n++] = mk_store(&g, mk_param(&g, 0, c->dtype),
                              mk_int(&g, i * c->lanes), roots[i], NULL);
    for (i = 0; i < c->n; i++) {
        for (j = 0; j < c->lanes; j++)
            memcpy(want + (i * c->lanes + j) * bytes,
                   from + (c->at[i] + j * STEP) * bytes, bytes);
    }
    program_of(&g, roots, n, &p);
    assert_int_equal(render_host_target(&target), BELL_OK);
    host_compile(&p, &target, &code);
    host_call(&code, &p, bufs);
    assert_memory_equal(bufs[0], want, (size_t)c->n * c->lanes * bytes);
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
    guarded_free(from, MOST * bytes);
    guarded_free(to, 16 * 16 * bytes);
}

static void
test_columns(void **state)
{
    static const enum uop_dtype dtypes[] = {UOP_F32, UOP_F64, UOP_I32,
                                            UOP_I64, UOP_U16, UOP_U8};
    struct columns c;
    uint64_t seed = 1;
    uint32_t i, j, k;

    (void)state;
    for (i = 0; i < (IS_SANITIZED ? 48 : 240); i++) {
        c.dtype = dtypes[i % 6];
        c.lanes = 4u << i / 6 % 3;
        c.n = 1 + (uint32_t)next_random(&seed) % 16;
        c.over = next_random(&seed) % 4 == 0;
        c.at[0] = (uint32_t)next_random(&seed) % 8;
        for (j = 1; j < c.n; j++) /* some are missing, none twice */
            c.at[j] = c.at[j - 1] + 1 + (next_random(&seed) % 16 == 0);
        for (j = c.n; j-- > 1 && i % 2;) {
            unsigned swap = c.at[j];
            k = (uint32_t)next_random(&seed) % (j + 1);
            c.at[j] = c.at[k];
            c.at[k] = swap;
        }
        check_columns(&c);
    }
}

/* The second of two LOADs of the same memory reads the value that is stored
 * between them. */
static void
test_columns_between_stores(void **state)
{
    const struct uop *roots[16], *memory, *first;
    int32_t mem[MOST], want[MOST], i, j;
    void *bufs[1] = {mem};
    struct lower_target target;
    struct lower_program p;
    struct host_code code;
    struct uop_graph g;

    (void)state;
    for (i = 0; i < MOST; i++)
        mem[i] = want[i] = i * 7;
    uop_graph_init(&g);
    memory = mk_param(&g, 0, UOP_I32);
    for (i = 0; i < 8; i++) { /* column i goes to column i + 1 */
        const struct uop *load, *src[3] = {memory};
        if (i)
            src[1] = roots[i - 1];
        load =
            mk_load(&g, i ? mk(&g, UOP_AFTER, UOP_I32, 1, 0, 2, src) : memory,
                    far_lanes(&g, i, 8), 8, NULL, NULL);
        roots[i] = mk_store(&g, memory, far_lanes(&g, i + 1, 8), load, NULL);
        for (j = 0; j < 8; j++)
            want[i + 1 + j * STEP] = want[i + j * STEP];
    }
    first = roots[7];
    program_of(&g, &first, 1, &p);
    assert_int_equal(render_host_target(&target), BELL_OK);
    host_compile(&p, &target, &code);
    host_call(&code, &p, bufs);
    assert_memory_equal(mem, want, sizeof(mem));
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
}

/* The kernel computes the same after the rules. */
static void
check_kernel(const char *name, const int64_t *d,
             const struct lower_target *target)
{
    struct p_buf want[LK_MAX_BUFS], got[LK_MAX_BUFS];
    char err[BELL_ERROR_MESSAGE] = "";
    void *bufs[LK_MAX_BUFS];
    struct lower_program p;
    struct host_code code;
    struct lk k;
    size_t i;

    lk_init(&k, lk_find(name), d, 5);
    lk_copy_bufs(&k, want);
    lk_copy_bufs(&k, got);
    assert_int_equal(k_run(k.sink, want, k.n_bufs, err, sizeof(err)), 0);
    assert_int_equal(lower_kernel(&k.g, k.sink, target, &p), BELL_OK);
    host_compile(&p, target, &code);
    for (i = 0; i < k.n_bufs; i++) { /* as arguments are aligned */
        size_t size = got[i].n_elems * uop_dtype_infos[got[i].dtype].size_bytes;
        bufs[i] = host_aligned(64, size);
        assert_non_null(bufs[i]);
        memcpy(bufs[i], got[i].data, size);
    }
    host_call(&code, &p, bufs);
    for (i = 0; i < k.n_bufs; i++) {
        size_t size = got[i].n_elems * uop_dtype_infos[got[i].dtype].size_bytes;
        if (k.is_output[i])
            memcpy(got[i].data, bufs[i], size);
        host_free(bufs[i]);
    }
    if (lk_compare(&k, want, got, err, sizeof(err)))
        fail_msg("%s: %s", name, err);
    host_release(&code);
    lk_free_copy(&k, want);
    lk_free_copy(&k, got);
    lk_fini(&k);
}

static void
test_small_images(void **state)
{
    static const int64_t dims[][3] = {{25, 7, 7}, {30, 6, 9}, {60, 3, 11}};
    struct lower_target target;
    uint32_t i;

    (void)state;
    assert_int_equal(render_host_target(&target), BELL_OK);
    for (i = 0; i < 3; i++) {
        check_kernel("conv-many", dims[i], &target);
        if (target.vector_bytes < 64)
            continue;
        target.vector_bytes = 32;
        target.n_vector_regs = 16;
        check_kernel("conv-many", dims[i], &target);
        target.vector_bytes = 64;
        target.n_vector_regs = 32;
    }
}

/* Their pixels are loaded side by side or gathered, without a branch for
 * each; where they lie is words, not pairs of them. */
static void
test_gathers(void **state)
{
    char *text = text_of("x86-64-v4", "conv-many", 64, 7, 7);
    uint32_t n_jumps = count(text, "j");

    (void)state;
    assert_true(count(text, "vgatherd") >= 4);
    assert_non_null(strstr(text, "{z}"));
    assert_int_equal(count(text, "vgatherq") + count(text, "vpcmpgtq") +
                         count(text, "vpmovzxdq") + count(text, "vpmovsxdq"),
                     0);
    assert_in_range(n_jumps, 1, 24); /* loops, and of each vector */
    host_free(text);
}

/* Rows of pixels that would leave vectors empty are one range with the images
 * and columns, if not many channels' work makes up for the packing. */
static void
test_rows_of_pixels(void **state)
{
    static const int64_t dims[][3] = {{8, 4, 56}, {8, 4, 64}};
    struct lower_target target;
    struct lower_program p;
    struct lower_made made;
    struct lk k;
    uint32_t i, j, n_folds;

    (void)state;
    assert_int_equal(render_host_level("x86-64-v4", 1, &target), BELL_OK);
    for (i = 0; i < 2; i++) {
        lk_build(&k, lk_find("conv-many"), dims[i]);
        assert_int_equal(
            lower_kernel_by(&k.g, k.sink, &target, NULL, &made, &p), BELL_OK);
        for (n_folds = 0, j = 0; j < made.schedule.n_actions; j++)
            n_folds += made.schedule.actions[j].kind == LOWER_FOLD;
        assert_int_equal(n_folds, i == 0 ? 2 : 0);
        lk_fini(&k);
    }
}

/* Where each lane is: element (many op by) + more. Elements outside of memory,
 * whose end faults, have no gate. */
#define MOST_LANES 64
struct lanes {
    int32_t many[MOST_LANES], more[MOST_LANES], gate[MOST_LANES];
};

#define N_FROM 100

static int32_t
below(uint64_t *seed, int32_t n)
{
    return (int32_t)(next_random(seed) % (uint64_t)n);
}

/* Two lanes are 2 elements apart in most cases, in up to two runs. */
static void
pick_second(int32_t *at, int32_t n, uint64_t *seed)
{
    int32_t first = below(seed, N_FROM + 40) - 40, last = below(seed, N_FROM);
    int32_t split = below(seed, n + 1), kind = below(seed, 8), i;

    for (i = 0; i < n; i++) {
        at[i] = i < split ? first + 2 * i : last - 2 * (n - 1 - i);
        if (kind == 0 && i == 7)
            at[i]++;
        if (kind == 1)
            at[i] = first + i;
        if (kind == 2)
            at[i] = below(seed, N_FROM);
    }
}

/* Runs of lanes side by side, from one run to one for each lane. */
static void
pick_runs(int32_t *at, int32_t n, uint64_t *seed)
{
    int32_t size = 1 + below(seed, 18), left = below(seed, size + 1), i;

    for (i = 0; i < n; i++, left--) {
        at[i] = i && left ? at[i - 1] + 1 : below(seed, N_FROM + 40) - 20;
        if (left == 0)
            left = size;
    }
}

static void
pick_lanes(struct lanes *l, const int32_t *at, int32_t n, uint64_t *seed)
{
    int32_t i;

    for (i = 0; i < n; i++) {
        l->many[i] = below(seed, 50);
        l->more[i] = at[i];
        l->gate[i] = at[i] >= 0 && at[i] < N_FROM && below(seed, 8) > 0;
    }
}

static const struct uop *
load_lanes(struct uop_graph *g, int64_t slot, uint16_t n)
{
    return mk_load(g, mk_param(g, slot, UOP_I32), mk_int(g, 0), n, NULL, NULL);
}

/* out = from[(many op by) + more], with a gate or without one. */
static const struct uop *
build_lanes(struct uop_graph *g, enum uop_op op, int64_t by, bool has_gate,
            uint16_t n)
{
    const struct uop *src[2], *gate, *other, *root;

    src[0] = load_lanes(g, 2, n);
    src[1] = mk_splat(g, uop_const_int(g, UOP_I32, by), n);
    src[0] = mk(g, op, UOP_I32, n, 0, 2, src);
    src[1] = load_lanes(g, 3, n);
    root = mk(g, UOP_ADD, UOP_I32, n, 0, 2, src);
    src[0] = mk_splat(g, uop_const_int(g, UOP_I32, 0), n);
    src[1] = load_lanes(g, 4, n);
    gate = mk(g, UOP_CMPLT, UOP_BOOL, n, 0, 2, src);
    other = mk_splat(g, uop_const_float(g, UOP_F32, -1), n);
    root = mk_load(g, mk_param(g, 1, UOP_F32), root, n, has_gate ? other : NULL,
                   has_gate ? gate : NULL);
    return mk_store(g, mk_param(g, 0, UOP_F32), mk_int(g, 0), root, NULL);
}

static void
check_lanes(enum uop_op op, int32_t by, bool has_gate, int32_t n,
            void (*pick)(int32_t *at, int32_t n, uint64_t *seed))
{
    float *from = guarded_alloc(N_FROM * sizeof(*from)), out[MOST_LANES];
    const struct uop *root;
    struct lower_target target;
    struct lower_program p;
    struct host_code code;
    struct uop_graph g;
    struct lanes l;
    void *bufs[5] = {out, from, l.many, l.more, l.gate};
    uint64_t seed = 1;
    int32_t at[MOST_LANES], i, j, many;

    for (i = 0; i < N_FROM; i++)
        from[i] = (float)i;
    uop_graph_init(&g);
    root = build_lanes(&g, op, by, has_gate, (uint16_t)n);
    program_of(&g, &root, 1, &p);
    assert_int_equal(render_host_target(&target), BELL_OK);
    host_compile(&p, &target, &code);
    for (i = 0; i < 4000; i++) {
        pick(at, n, &seed);
        for (j = 0; !has_gate && j < n; j++)
            at[j] = at[j] < 0 ? 0 : at[j] < N_FROM ? at[j] : N_FROM - 1;
        pick_lanes(&l, at, n, &seed);
        for (j = 0; j < n; j++) {
            many = l.many[j];
            l.more[j] -= op == UOP_MUL    ? many * by
                         : op == UOP_IDIV ? many / by
                                          : many % by;
        }
        host_call(&code, &p, bufs);
        for (j = 0; j < n; j++) {
            if (out[j] != (l.gate[j] || !has_gate ? from[at[j]] : -1.0f))
                fail_msg("case %d, lane %d of element %d: %g", i, j, at[j],
                         (double)out[j]);
        }
    }
    host_release(&code);
    program_free(&p);
    uop_graph_fini(&g);
    guarded_free(from, N_FROM * sizeof(*from));
}

static void
test_second_elements(void **state)
{
    (void)state;
    check_lanes(UOP_MUL, 2, true, 16, pick_second);
}

/* Lanes of which a remainder says that they lie in a few runs: a window's. */
static void
test_runs(void **state)
{
    static const int32_t by[] = {2, 3, 5, 7, 15, 29};
    uint32_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(by); i++) {
        check_lanes(UOP_IMOD, by[i], true, 16, pick_runs);
        check_lanes(UOP_IMOD, by[i], false, 16, pick_runs);
        check_lanes(UOP_IDIV, by[i], i % 2, 16, pick_runs);
        check_lanes(UOP_IMOD, by[i], true, 8, pick_runs);
        check_lanes(UOP_IMOD, by[i], i % 2, MOST_LANES, pick_runs);
    }
}

/* ---- past the caches ---- */

/* The kernel's text where caches hold l3_bytes. */
static char *
streaming_text(const char *name, int64_t d0, int64_t d1, uint32_t align_bytes,
               uint64_t l3_bytes)
{
    const int64_t d[3] = {d0, d1, 1};
    struct lower_target target;
    struct lower_program p;
    struct lk k;
    char *text;

    assert_int_equal(render_host_level("x86-64-v4", 2, &target), BELL_OK);
    target.arg_align_bytes = align_bytes;
    target.l3_bytes = l3_bytes;
    lk_build(&k, lk_find(name), d);
    assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
    assert_int_equal(render_host_asm(&p, &target, &text), BELL_OK);
    lk_fini(&k);
    return text;
}

static void
check_streams(const char *name, int64_t d0, int64_t d1, uint32_t align_bytes,
              uint64_t l3_bytes, bool want)
{
    char *text = streaming_text(name, d0, d1, align_bytes, l3_bytes);

    assert_int_equal(count(text, "vmovntp") > 0, want);
    assert_int_equal(count(text, "sfence"), want);
    if (want)
        assert_int_equal(count(text, "movnti"), 0);
    host_free(text);
}

/* Whole lines of what is larger than the caches, and never read, where it is
 * known to be aligned. */
static void
test_streams(void **state)
{
    (void)state;
    check_streams("add", 64, 64, 64, 16383, true);
    check_streams("layernorm", 64, 64, 64, 16383, true);
    check_streams("transpose", 1024, 1024, 64, 1 << 20, true);
    check_streams("add", 64, 64, 64, 16384, false);
    check_streams("add", 64, 64, 64, 0, false);
    check_streams("add", 64, 64, 16, 16383, false);
    check_streams("layernorm", 64, 67, 64, 16383, false);
    check_streams("add-over", 64, 64, 64, 1, false);
}

/* All kernels as if nothing were in caches. */
static void
test_streamed_results(void **state)
{
    static const int64_t dims[][3] = {{16, 64, 8}, {5, 130, 3}};
    struct lower_target target;
    size_t c, i;

    (void)state;
    assert_int_equal(render_host_target(&target), BELL_OK);
    target.arg_align_bytes = 64;
    target.l3_bytes = 1;
    for (c = 0; c < lk_n_cases; c++) {
        for (i = 0; i < ARRAY_LEN(dims); i++)
            check_kernel(lk_cases[c].name, dims[i], &target);
    }
}

/* ---- the other kind of processor ----------------------------------------- */

/* The object stands alone, and the loader knows each of its relocations. */
static void
check_object(const struct render_binary *b, unsigned machine)
{
    const uint8_t *data = b->data;
    Elf64_Ehdr head;
    Elf64_Shdr hdr;
    Elf64_Rela rela;
    uint64_t k;
    uint32_t i;

    memcpy(&head, data, sizeof(head));
    assert_int_equal(head.e_machine, machine);
    for (i = 0; i < head.e_shnum; i++) {
        memcpy(&hdr, data + head.e_shoff + i * sizeof(hdr), sizeof(hdr));
        if (hdr.sh_type != SHT_RELA)
            continue;
        for (k = 0; k < hdr.sh_size / sizeof(rela); k++) {
            memcpy(&rela, data + hdr.sh_offset + k * sizeof(rela),
                   sizeof(rela));
            if (!cpu_reloc_find(machine, (uint32_t)ELF64_R_TYPE(rela.r_info)))
                fail_msg("relocation %u", (unsigned)ELF64_R_TYPE(rela.r_info));
        }
    }
}

static void
check_level(const char *level, unsigned machine)
{
    const int64_t d[3] = {24, 33, 8};
    struct lower_target target;
    struct render_binary b;
    struct lower_program p;
    struct lk k;
    size_t c;

    assert_int_equal(render_host_level(level, 2, &target), BELL_OK);
    for (c = 0; c < lk_n_cases; c++) {
        lk_build(&k, &lk_cases[c], d);
        assert_int_equal(lower_kernel(&k.g, k.sink, &target, &p), BELL_OK);
        if (render_host(&p, &target, &b) != BELL_OK)
            fail_msg("%s: %s", lk_cases[c].name, bell_error_last()->message);
        check_object(&b, machine);
        render_binary_fini(&b);
        lk_fini(&k);
    }
}

/* Whatever this machine is, it makes code for both kinds. */
static void
test_levels(void **state)
{
    (void)state;
    check_level("armv8.2-a", EM_AARCH64);
    check_level("x86-64-v2", EM_X86_64);
}

static void
test_aarch64(void **state)
{
    char *text = text_of("armv8-a", "matmul-nn", 64, 64, 64);

    (void)state;
    assert_true(count(text, "fmla\tv") > 8);
    assert_int_equal(count(text, "bl\t"), 0);
    host_free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_pixels),
        cmocka_unit_test(test_turned),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_gathers),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_small_images),
        cmocka_unit_test(test_columns_between_stores),
        cmocka_unit_test(test_second_elements),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_streamed_results),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_aarch64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
