/* Programs of hcq/qcom at the limits of their chips: what is taken and what is
 * refused, what of it launches tell the chip, and whose memory code is in. The
 * chips are those of the table; memory is a simulated one's.
 */
#include "tests/unit/expect.h"

#include <stdlib.h>

#include "base/bits.h"
#include "base/chip.h"
#include "hcq/qcom/qcom.h"
#include "hcq/qcom/regs/qcom_cp.h"
#include "render/ir3/ir3.h"
#include "sim/qcom/sim_qcom.h"

#define A630 0x06030000u
#define A650 0x06050000u
#define A740 0x43050a01u
#define A750 0x43051401u

#define INSTRS_MAX 2048u

/* A program of nothing but `nop`. */
struct object {
    struct ir3_object head;
    uint64_t code[INSTRS_MAX];
};

static struct qcom_device *
open_qcom(void)
{
    struct hcq_device *dev;

    expect_ok(hcq_device_open("QCOM@sim:a630", &dev));
    return qcom_device_of(dev);
}

/* As on another chip. */
static void
pretend(struct qcom_device *dev, uint32_t chip_id)
{
    dev->chip = chip_adreno_find(chip_id);
    assert_non_null(dev->chip);
}

static struct ir3_object
plain(const struct qcom_device *dev)
{
    return (struct ir3_object){
        .magic = IR3_OBJECT_MAGIC,
        .version = IR3_OBJECT_VERSION,
        .gen = qcom_gen_of(dev->chip)->code_gen,
        .n_instrs = 16,
        .n_full_vec4 = 4,
        .n_const_vec4 = 8,
        .branch_depth = 2,
        .local = {64, 1, 1},
    };
}

/* dynamic_bytes: of shared memory; local: what the program is created with. */
static bell_status
create(struct qcom_device *dev, const struct ir3_object *head,
       uint32_t dynamic_bytes, const uint32_t local[3],
       struct qcom_program **out)
{
    static struct object object;
    struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "limits",
        .binary = &object,
        .binary_size_bytes = sizeof(*head) + 8ull * head->n_instrs,
        .n_bufs = head->n_params,
        .n_vals = head->n_vars,
        .shared_bytes = dynamic_bytes,
    };
    struct hcq_program *prog;
    bell_status status;
    uint32_t i;

    assert_true(head->n_instrs <= INSTRS_MAX);
    object.head = *head;
    for (i = 0; i < INSTRS_MAX; i++)
        object.code[i] = 0x1000 + i;
    memcpy(desc.local, local, sizeof(desc.local));
    status = hcq_program_create(&dev->base, &desc, &prog);
    if (status == BELL_OK)
        *out = HCQ_CONTAINER(prog, struct qcom_program, base.pub);
    return status;
}

static void
destroy(struct qcom_program *prog)
{
    hcq_program_destroy(&prog->base.pub);
}

static const uint32_t any[3];

/* ---- what an object says of itself --------------------------------------- */

static bell_status
create_of(struct qcom_device *dev, const struct object *object, size_t n,
          uint32_t n_bufs, uint32_t n_vals)
{
    const struct hcq_program_desc desc = {
        .struct_size = sizeof(desc),
        .name = "limits",
        .binary = object,
        .binary_size_bytes = n,
        .n_bufs = n_bufs,
        .n_vals = n_vals,
    };
    struct hcq_program *prog;

    BELL_TRY(hcq_program_create(&dev->base, &desc, &prog));
    hcq_program_destroy(prog);
    return BELL_OK;
}

static void
heads(void **state)
{
    struct qcom_device *dev = open_qcom();
    struct object object = {.head = plain(dev)};
    const size_t head = sizeof(object.head), n = head + 16 * 8;
    static const size_t fields[] = {offsetof(struct ir3_object, magic),
                                    offsetof(struct ir3_object, version)};
    size_t i;

    (void)state;
    object.head.n_params = 2;
    object.head.n_vars = 3;
    expect_ok(create_of(dev, &object, n, 2, 3));
    expect_ok(create_of(dev, &object, n, 4, 1));
    expect_fails(create_of(dev, &object, n, 2, 2), BELL_E_INVALID,
                 "the kernel takes 2 + 3 arguments, 2 + 2 are described");
    expect_fails(create_of(dev, &object, n, 3, 3), BELL_E_INVALID,
                 "the kernel takes 2 + 3 arguments, 3 + 3 are described");
    expect_fails(create_of(dev, &object, head - 1, 2, 3), BELL_E_INVALID,
                 "too short");
    expect_fails(create_of(dev, &object, head, 2, 3), BELL_E_INVALID,
                 "cut off");
    expect_fails(create_of(dev, &object, n - 1, 2, 3), BELL_E_INVALID,
                 "cut off");
    expect_fails(create_of(dev, &object, n + 1, 2, 3), BELL_E_INVALID,
                 "cut off");
    object.head.n_instrs = 0;
    expect_fails(create_of(dev, &object, head, 2, 3), BELL_E_INVALID,
                 "cut off");
    object.head.n_instrs = 16;
    object.head.gen++;
    expect_fails(create_of(dev, &object, n, 2, 3), BELL_E_INVALID,
                 "another generation than ");
    object.head.gen--;
    for (i = 0; i < ARRAY_LEN(fields); i++) {
        uint8_t *at = (uint8_t *)&object + fields[i];

        ++*at;
        expect_fails(create_of(dev, &object, n, 2, 3), BELL_E_INVALID,
                     "no object of Adreno, or of another version");
        --*at;
    }
    hcq_device_close(&dev->base);
}

/* ---- what there is of everything ----------------------------------------- */

/* `at` is where in an object the number is that the chip has `most` of; -1: no
 * place there, but shared memory that the program asks for besides. */
static void
limits(void **state)
{
    static const struct {
        uint32_t chip;
        int at;
        uint32_t most;
        const char *why;
    } rows[] = {
        {A630, offsetof(struct ir3_object, n_const_vec4), 256, "constants"},
        {A740, offsetof(struct ir3_object, n_const_vec4), 512, "constants"},
        {A750, offsetof(struct ir3_object, n_const_vec4), 0, "constants"},
        {A630, offsetof(struct ir3_object, n_full_vec4), 48, "registers"},
        {A740, offsetof(struct ir3_object, n_full_vec4), 48, "registers"},
        {A630, offsetof(struct ir3_object, branch_depth), 64, "branches"},
        {A630, offsetof(struct ir3_object, shared_bytes), 32768, "shared"},
        {A630, -1, 32768, "shared"},
        {A630, offsetof(struct ir3_object, private_bytes), 65536, "private"},
    };
    struct qcom_device *dev = open_qcom();
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct ir3_object head;
        struct qcom_program *prog;
        uint32_t dynamic, value, over;
        bell_status refusal = strcmp(rows[i].why, "private") != 0
                                  ? BELL_E_INVALID
                                  : BELL_E_UNSUPPORTED;

        pretend(dev, rows[i].chip);
        head = plain(dev);
        for (over = 0; over < 2; over++) {
            value = rows[i].most + over;
            dynamic = rows[i].at < 0 ? value : 0;
            if (rows[i].at >= 0)
                memcpy((char *)&head + rows[i].at, &value, sizeof(value));
            if (over)
                expect_fails(create(dev, &head, dynamic, any, &prog), refusal,
                             rows[i].why);
            else
                expect_ok(create(dev, &head, dynamic, any, &prog));
            if (!over)
                destroy(prog);
        }
    }
    /* static and dynamic together */
    pretend(dev, A630);
    for (i = 0; i < 2; i++) {
        struct ir3_object head = plain(dev);
        struct qcom_program *prog;

        head.shared_bytes = 32000 + (uint32_t)i;
        if (i)
            expect_fails(create(dev, &head, 768, any, &prog), BELL_E_INVALID,
                         "32001 + 768 bytes of shared memory");
        else
            expect_ok(create(dev, &head, 768, any, &prog));
        if (!i)
            destroy(prog);
    }
    hcq_device_close(&dev->base);
}

/* The sum of arguments counts; two of them are one constant of launches. */
static void
arguments(void **state)
{
    static const struct {
        uint32_t params, vars, n_bufs, n_vals;
        bool fits;
    } rows[] = {{0, 0, 0, 0, true},  {2, 3, 2, 3, true},  {2, 3, 3, 2, true},
                {5, 0, 2, 3, true},  {2, 3, 5, 0, true},  {4, 2, 3, 3, true},
                {2, 3, 2, 2, false}, {2, 3, 2, 4, false}, {3, 2, 1, 0, false},
                {1, 0, 3, 2, false}};
    struct qcom_device *dev = open_qcom();
    struct object *object = calloc(1, sizeof(*object));
    uint32_t none_dw = 0;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct hcq_program_desc desc = {
            .struct_size = sizeof(desc),
            .name = "arguments",
            .binary = object,
            .binary_size_bytes = sizeof(object->head) + 16ull * 8,
            .n_bufs = rows[i].n_bufs,
            .n_vals = rows[i].n_vals,
        };
        uint32_t n_vec4 = (rows[i].n_bufs + rows[i].n_vals + 1) / 2, n_dw;
        struct hcq_program *prog;

        object->head = plain(dev);
        object->head.n_params = rows[i].params;
        object->head.n_vars = rows[i].vars;
        if (!rows[i].fits) {
            expect_fails(hcq_program_create(&dev->base, &desc, &prog),
                         BELL_E_INVALID, "arguments");
            continue;
        }
        expect_ok(hcq_program_create(&dev->base, &desc, &prog));
        n_dw = HCQ_CONTAINER(prog, struct qcom_program, base.pub)->launch.n_dw;
        if (i == 0)
            none_dw = n_dw;
        else
            assert_int_equal(n_dw - none_dw,
                             QCOM_CP_LOAD_STATE6_FRAG_DW + 4 * n_vec4);
        hcq_program_destroy(prog);
    }
    free(object);
    hcq_device_close(&dev->base);
}

/* ---- work-groups --------------------------------------------------------- */

/* Waves of 128 threads from 65 threads on, if twice the registers are there; as
 * many pairs of them as the file's registers suffice for, and 16 at most; 1,024
 * threads at most. By hand, src: docs/hardware/adreno-queues.md, "Occupancy" */
static void
groups(void **state)
{
    static const struct {
        uint32_t chip, n_full, local[3];
        bool is_wide;
        uint32_t most;
    } rows[] = {
        {A630, 4, {64, 1, 1}, false, 1024}, {A630, 4, {65, 1, 1}, true, 1024},
        {A630, 4, {1, 64, 1}, false, 1024}, {A630, 4, {1, 65, 1}, true, 1024},
        {A630, 4, {1, 1, 64}, false, 1024}, {A630, 4, {1, 1, 65}, true, 1024},
        {A630, 4, {4, 4, 4}, false, 1024},  {A630, 4, {5, 13, 1}, true, 1024},
        {A630, 0, {64, 1, 1}, false, 1024}, {A630, 12, {64, 1, 1}, false, 1024},
        {A630, 13, {64, 1, 1}, false, 896}, {A630, 12, {128, 1, 1}, true, 1024},
        {A630, 13, {128, 1, 1}, true, 768}, {A630, 48, {64, 1, 1}, false, 256},
        {A630, 48, {128, 1, 1}, true, 256}, {A650, 32, {128, 1, 1}, true, 256},
        {A650, 33, {64, 1, 1}, false, 128}, {A650, 33, {128, 1, 1}, false, 128},
        {A740, 24, {256, 1, 1}, true, 512}, {A740, 25, {256, 1, 1}, true, 256},
    };
    struct qcom_device *dev = open_qcom();
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct qcom_program *prog;
        struct ir3_object head;

        pretend(dev, rows[i].chip);
        head = plain(dev);
        head.n_full_vec4 = rows[i].n_full;
        memcpy(head.local, rows[i].local, sizeof(head.local));
        expect_ok(create(dev, &head, 0, any, &prog));
        assert_int_equal(prog->is_wide, rows[i].is_wide);
        assert_int_equal(prog->base.max_local_total, rows[i].most);
        destroy(prog);
    }
    hcq_device_close(&dev->base);
}

/* With 48 registers of four a group has 256 threads at most. */
static void
sizes_of_groups(void **state)
{
    static const struct {
        uint32_t local[3];
        bool fits;
    } rows[] = {
        {{256, 1, 1}, true},  {{257, 1, 1}, false}, {{1, 256, 1}, true},
        {{1, 257, 1}, false}, {{1, 1, 64}, true},   {{2, 8, 16}, true},
        {{2, 16, 8}, true},   {{8, 2, 16}, true},   {{8, 16, 2}, true},
        {{16, 2, 8}, true},   {{16, 8, 2}, true},   {{32, 9, 1}, false},
        {{9, 1, 32}, false},  {{1, 32, 9}, false},
    };
    struct qcom_device *dev = open_qcom();
    struct ir3_object head = plain(dev);
    size_t i;

    (void)state;
    head.n_full_vec4 = 48;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct qcom_program *prog;

        memcpy(head.local, rows[i].local, sizeof(head.local));
        if (!rows[i].fits) {
            expect_fails(create(dev, &head, 0, rows[i].local, &prog),
                         BELL_E_INVALID, "with its 192 registers it takes 256");
            continue;
        }
        expect_ok(create(dev, &head, 0, rows[i].local, &prog));
        destroy(prog);
    }
    hcq_device_close(&dev->base);
}

/* ---- private memory ------------------------------------------------------ */

/* A power of two for each thread of all processors. */
static void
private_memory(void **state)
{
    static const uint32_t rows[][2] = {
        /* of a thread: asked for, given */
        {0, 0},         {1, 512},       {511, 512},     {512, 512},
        {513, 1024},    {1024, 1024},   {1025, 2048},   {1537, 2048},
        {2049, 4096},   {4097, 8192},   {20000, 32768}, {32768, 32768},
        {32769, 65536}, {65536, 65536},
    };
    struct qcom_device *dev = open_qcom();
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct ir3_object head = plain(dev);
        struct qcom_program *prog;

        head.private_bytes = rows[i][0];
        expect_ok(create(dev, &head, 0, any, &prog));
        assert_int_equal(prog->fiber_bytes, rows[i][1]);
        assert_int_equal(prog->sp_bytes, 2048 * rows[i][1]);
        assert_int_equal(prog->scratch.size_bytes, 2 * 2048ull * rows[i][1]);
        destroy(prog);
    }
    hcq_device_close(&dev->base);
}

/* ---- what launches say --------------------------------------------------- */

/* The n-th value behind the header of registers from `reg` on; false: there is
 * none. */
static bool
find_register(const struct qcom_program *prog, enum qcom_cp_gen gen,
              uint32_t reg, uint32_t n, uint32_t *out)
{
    uint32_t i;

    for (i = 0; i + n + 1 < prog->launch.n_dw; i++) {
        uint32_t word = prog->launch.words[i];
        struct qcom_cp_type4 head;

        if (word >> 28 != 4)
            continue;
        head = qcom_unpack_cp_type4(gen, word);
        if (head.address != reg || head.count <= n)
            continue;
        *out = prog->launch.words[i + 1 + n];
        return true;
    }
    return false;
}

/* Sizes of shared memory in KiB less one, steps of constants, pairs of
 * branches. */
static void
registers(void **state)
{
    static const struct {
        uint32_t shared, n_const, depth;
        uint32_t want_shared, want_mode, want_stack;
    } rows[] = {
        {0, 0, 0, 1, 0, 0},        {1, 128, 1, 1, 0, 1},
        {1024, 129, 2, 1, 1, 1},   {1025, 192, 3, 1, 1, 2},
        {2048, 193, 4, 1, 2, 2},   {2049, 256, 63, 2, 2, 32},
        {3072, 257, 64, 2, 3, 32}, {32768, 512, 5, 31, 3, 3},
    };
    struct qcom_device *dev = open_qcom();
    size_t i;

    (void)state;
    pretend(dev, A740);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        enum qcom_cp_gen gen = qcom_gen_of(dev->chip)->cp;
        uint32_t word = 0;
        struct ir3_object head = plain(dev);
        struct qcom_cp_sp_cs_ctrl_reg1 reg1;
        struct qcom_program *prog;

        head.shared_bytes = rows[i].shared;
        head.n_const_vec4 = rows[i].n_const;
        head.branch_depth = rows[i].depth;
        expect_ok(create(dev, &head, 0, any, &prog));
        assert_true(
            find_register(prog, gen, QCOM_CP_SP_CS_CTRL_REG0, 0, &word));
        assert_int_equal(qcom_unpack_cp_sp_cs_ctrl_reg0(gen, word).branchstack,
                         rows[i].want_stack);
        assert_true(
            find_register(prog, gen, QCOM_CP_SP_CS_CTRL_REG0, 1, &word));
        reg1 = qcom_unpack_cp_sp_cs_ctrl_reg1(gen, word);
        assert_int_equal(reg1.shared_size, rows[i].want_shared);
        assert_int_equal(reg1.constantrammode, rows[i].want_mode);
        destroy(prog);
    }
    hcq_device_close(&dev->base);
}

/* Code in units of 16 instructions. Where it is longer than the cache, the chip
 * is told once more. */
static void
long_code(void **state)
{
    static const struct {
        uint32_t chip, n_instrs, units;
        bool is_long;
    } rows[] = {
        {A630, 1, 1, false},      {A630, 15, 1, false},
        {A630, 16, 1, false},     {A630, 17, 2, false},
        {A630, 1024, 64, false},  {A630, 1025, 65, true},
        {A650, 2032, 127, false}, {A650, 2033, 128, true},
    };
    struct qcom_device *dev = open_qcom();
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct qcom_program *prog;
        struct ir3_object head;
        enum qcom_cp_gen gen;
        uint32_t word = 0;
        bool is_long;

        pretend(dev, rows[i].chip);
        gen = qcom_gen_of(dev->chip)->cp;
        head = plain(dev);
        head.n_instrs = rows[i].n_instrs;
        expect_ok(create(dev, &head, 0, any, &prog));
        assert_true(find_register(prog, gen, QCOM_CP_SP_CS_CONFIG, 1, &word));
        assert_int_equal(word, rows[i].units);
        is_long = find_register(prog, gen, QCOM_CP_SP_FS_INSTRLEN, 0, &word);
        assert_int_equal(is_long, rows[i].is_long);
        if (is_long)
            assert_int_equal(word, rows[i].units);
        destroy(prog);
    }
    hcq_device_close(&dev->base);
}

/* ---- where code lies ----------------------------------------------------- */

/* It is there, in a page or two, and zeros to the end of them. */
static void
expect_code(const struct qcom_program *prog, uint32_t n_instrs,
            uint64_t size_bytes)
{
    const uint64_t *words = prog->code.cpu;
    uint64_t i;

    assert_int_equal(prog->code.size_bytes, size_bytes);
    assert_int_equal(prog->base.pub.code_size_bytes, 8 * n_instrs);
    assert_int_equal(prog->base.pub.code_va, prog->code.va);
    for (i = 0; i < size_bytes / 8; i++)
        assert_int_equal(words[i], i < n_instrs ? 0x1000 + i : 0);
}

/* 128 bytes are fetched behind code. The memory of the last program that went
 * is the next one's, if it is large enough, and of one only. */
static void
memory_of_code(void **state)
{
    struct qcom_device *dev = open_qcom();
    struct ir3_object head = plain(dev);
    struct sim_qcom_usage first, usage;
    struct qcom_program *a, *b;
    uint64_t page_va, pages_va;

    (void)state;
    sim_qcom_held(dev->kio, &first);
    head.n_instrs = 496; /* with what is fetched behind it, a page */
    expect_ok(create(dev, &head, 0, any, &a));
    expect_code(a, 496, 4096);
    page_va = a->code.va;
    destroy(a);
    expect_ok(create(dev, &head, 0, any, &a));
    assert_int_equal(a->code.va, page_va);
    expect_ok(create(dev, &head, 0, any, &b));
    assert_int_not_equal(b->code.va, page_va);
    expect_code(b, 496, 4096);
    destroy(b);
    destroy(a); /* this one's is kept */
    head.n_instrs = 497;
    expect_ok(create(dev, &head, 0, any, &a));
    assert_int_not_equal(a->code.va, page_va);
    expect_code(a, 497, 8192);
    pages_va = a->code.va;
    head.n_instrs = 16;
    expect_ok(create(dev, &head, 0, any, &b));
    assert_int_equal(b->code.va, page_va);
    expect_code(b, 16, 4096);
    destroy(b);
    destroy(a);
    expect_ok(create(dev, &head, 0, any, &b));
    assert_int_equal(b->code.va, pages_va);
    expect_code(b, 16, 8192);
    destroy(b);
    sim_qcom_held(dev->kio, &usage);
    assert_int_equal(usage.buffers, first.buffers + 1);
    assert_int_equal(usage.memory_bytes, first.memory_bytes + 8192);
    hcq_device_close(&dev->base);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads),           cmocka_unit_test(limits),
        cmocka_unit_test(arguments),       cmocka_unit_test(groups),
        cmocka_unit_test(sizes_of_groups), cmocka_unit_test(private_memory),
        cmocka_unit_test(registers),       cmocka_unit_test(long_code),
        cmocka_unit_test(memory_of_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
