/* The PTX interpreter: boxes of a matrix that cp.async.bulk.tensor copies to
 * shared memory, and the mbarriers that are told so; and what it does not let
 * pass: reads of what was not awaited, bytes that were not expected, mbarriers
 * that not all can see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "ioctl/sim_count.h"
#include "ptx_run.h"

#define COLUMNS   64u /* of 2 bytes */
#define ROWS      40u
#define BOX_ROWS  16u
#define BOX_BYTES 2048u
#define MATRIX    1024u /* behind the tensor map */
#define RESULT    8192u
#define THREADS   64u

#define FENCE "@%p1 fence.mbarrier_init.release.cluster;"
#define WAIT                                                                   \
    "L: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;"               \
    "@!%p2 bra L;"
#define ONE_WARP "setp.gt.u32 %p3, %r1, 31; @%p3 bra M;" WAIT "M:"
#define ARRIVE   "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];"

struct row {
    const char *fence, *barrier;
    uint32_t n_expected;
    int x, y;
    const char *after;
    enum sim_ptx_fault fault;
};

static const struct row rows[] = {
    {FENCE, "bar.sync 0;", BOX_BYTES, 0, 0, ARRIVE WAIT, SIM_PTX_OK},
    {FENCE, "bar.sync 0;", BOX_BYTES, 0, 3, ARRIVE WAIT, SIM_PTX_OK},
    {FENCE, "bar.sync 0;", BOX_BYTES, 8, 30, ARRIVE WAIT, SIM_PTX_OK},
    {FENCE, "bar.sync 0;", BOX_BYTES, -3, -5, ARRIVE WAIT, SIM_PTX_OK},
    {FENCE, "bar.sync 0;", BOX_BYTES, 0, 0, ARRIVE ONE_WARP "bar.sync 0;",
     SIM_PTX_OK},
    {FENCE, "bar.sync 0;", BOX_BYTES, 0, 0, ARRIVE ONE_WARP, SIM_PTX_RACE},
    {FENCE, "bar.sync 0;", BOX_BYTES, 0, 0, ARRIVE "bar.sync 0;", SIM_PTX_RACE},
    {FENCE, "bar.sync 0;", BOX_BYTES, 0, 0, WAIT, SIM_PTX_HUNG},
    {FENCE, "bar.sync 0;", BOX_BYTES, 0, 0, ARRIVE ARRIVE, SIM_PTX_RACE},
    {FENCE, "bar.sync 0;", BOX_BYTES / 2, 0, 0, ARRIVE WAIT, SIM_PTX_RACE},
    {FENCE, "bar.sync 0;", BOX_BYTES * 2, 0, 0, ARRIVE WAIT, SIM_PTX_HUNG},
    {"", "bar.sync 0;", BOX_BYTES, 0, 0, ARRIVE WAIT, SIM_PTX_RACE},
    {FENCE, "", BOX_BYTES, 0, 0, ARRIVE WAIT, SIM_PTX_RACE},
};

static void
write_text(const struct row *r, char *text, size_t size)
{
    snprintf(
        text, size,
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n%s"
        ".shared .align 1024 .b8 s[%u]; .shared .align 8 .b64 b;\n"
        "mov.u32 %%r2, s; mov.u32 %%r3, b; setp.eq.u32 %%p1, %%r1, 0;\n"
        "@%%p1 mbarrier.init.shared::cta.b64 [%%r3], 1;\n%s %s\n"
        "@%%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%%r3], %u;\n"
        "@%%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier"
        "::complete_tx::bytes [%%r2], [%%rd1, {%d, %d}], [%%r3];\n%s\n"
        "mad.lo.u32 %%r2, %%r1, 32, %%r2;\n"
        "mad.wide.u32 %%rd3, %%r1, 32, %%rd1;\n"
        "ld.shared.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%r2];\n"
        "st.global.v4.b32 [%%rd3+%u], {%%r4, %%r5, %%r6, %%r7};\n"
        "ld.shared.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%r2+16];\n"
        "st.global.v4.b32 [%%rd3+%u], {%%r4, %%r5, %%r6, %%r7};\n}\n",
        PTX_START, BOX_BYTES, r->fence, r->barrier, r->n_expected, r->x, r->y,
        r->after, RESULT, RESULT + 16);
}

static uint16_t
element(int64_t x, int64_t y)
{
    return x < 0 || y < 0 || x >= COLUMNS || y >= ROWS
               ? 0
               : (uint16_t)(y * 100 + x + 1);
}

/* The map as CUDA's driver makes it (observed: H100, 2026-11-23), and the
 * matrix. */
static void
fill(uint8_t *data)
{
    uint32_t map[32] = {0, 0, 0x6090, COLUMNS * 2 / 16}, x, y;
    uint64_t address = PTX_BASE + MATRIX;
    uint16_t v;

    memcpy(map, &address, sizeof(address));
    map[8] = COLUMNS - 1;
    map[9] = ROWS - 1;
    map[13] = (COLUMNS - 1) << 24;
    map[14] = BOX_ROWS - 1;
    map[16] = BOX_BYTES;
    map[18] = 0x400;
    memcpy(data, map, sizeof(map));
    for (y = 0; y < ROWS; y++) {
        for (x = 0; x < COLUMNS; x++) {
            v = element(x, y);
            memcpy(data + MATRIX + (y * COLUMNS + x) * 2, &v, 2);
        }
    }
}

static void
check(const struct row *r, const uint8_t *data)
{
    uint32_t x, y, at;
    uint16_t got;

    for (y = 0; y < BOX_ROWS; y++) {
        for (x = 0; x < COLUMNS; x++) {
            at = y * 128 + ((x / 8) ^ (y % 8)) * 16 + x % 8 * 2;
            memcpy(&got, data + RESULT + at, 2);
            if (got != element((int64_t)x + r->x, (int64_t)y + r->y))
                fail_msg("from %d, %d: [%u, %u] is %u", r->x, r->y, y, x, got);
        }
    }
}

static void
test_boxes(void **state)
{
    static uint8_t data[RESULT + BOX_BYTES];
    struct sim_ptx_report report;
    static char text[8192];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct ptx_run run = {.text = text,
                              .data = data,
                              .data_bytes = sizeof(data),
                              .blocks = 2,
                              .threads = THREADS,
                              .page_bytes = 16};

        memset(data, 0xee, sizeof(data));
        fill(data);
        write_text(&rows[i], text, sizeof(text));
        ptx_run_keep(text);
        if (ptx_run(&run, &report) != rows[i].fault)
            fail_msg("row %d: fault %d, not %d: %s", (int)i, (int)report.fault,
                     (int)rows[i].fault, bell_error_last()->message);
        if (rows[i].fault == SIM_PTX_OK)
            check(&rows[i], data);
    }
}

/* A map whose matrix begins nowhere: boxes inside do not care. */
/* A box is counted by rows, as what lies in them. */
static void
test_counts(void **state)
{
    static const uint32_t n_rows[] = {16, 16, 10, 11},
                          n_bytes[] = {128, 128, 112, 122};
    static uint8_t data[RESULT + BOX_BYTES];
    static char text[8192];
    struct sim_counts c;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(n_rows); i++) {
        struct ptx_run run = {.text = text,
                              .data = data,
                              .data_bytes = sizeof(data),
                              .blocks = 2,
                              .threads = THREADS,
                              .page_bytes = 16};

        fill(data);
        write_text(&rows[i], text, sizeof(text));
        sim_count_begin(0);
        ptx_run_ok(&run);
        sim_count_take(&c);
        sim_count_end();
        assert_int_equal(c.n_loads, 2 * n_rows[i]);
        assert_int_equal(c.loaded_bytes, 2 * n_rows[i] * n_bytes[i]);
        assert_int_equal(c.load_sectors, 2 * n_rows[i] * 4);
    }
}

static void
test_nowhere(void **state)
{
    static uint8_t data[RESULT + BOX_BYTES];
    struct row row = rows[0];
    struct sim_ptx_report report;
    static char text[8192];
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct ptx_run run = {.text = text,
                              .data = data,
                              .data_bytes = sizeof(data),
                              .blocks = 1,
                              .threads = THREADS,
                              .page_bytes = 16};
        uint64_t address = PTX_BASE + MATRIX - COLUMNS * 2 * 20;
        uint32_t rows_below = i ? 19 + BOX_ROWS - 1 : 19 + BOX_ROWS;

        fill(data);
        memcpy(data, &address, sizeof(address));
        memcpy(data + 36, &rows_below, sizeof(rows_below));
        row.y = 20;
        write_text(&row, text, sizeof(text));
        assert_int_equal(ptx_run(&run, &report),
                         i ? SIM_PTX_UNMAPPED : SIM_PTX_OK);
    }
}

static void
test_ptxas(void **state)
{
    (void)state;
    if (ptx_run_assemble() == 0)
        skip();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_nowhere),
        cmocka_unit_test(test_ptxas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
