/* hcq/hcq_program.c: what is looked at before any backend sees a program, at
 * the borders of a device that takes little.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/hcq_backend.h"
#include "hcq/hcq_facts.h"
#include "tests/unit/expect.h"

static struct hcq_device *dev;

/* Small builds have no device without a card. */
static void
open_small(void)
{
    const uint32_t max_local[3] = {8, 6, 4};

    if (hcq_device_open("NV@null:h100", &dev) != BELL_OK)
        skip();
    memcpy(dev->info.max_local, max_local, sizeof(max_local));
    dev->info.max_local_total = 100;
    dev->info.max_shared_bytes = 1000;
    dev->info.max_args = 10;
}

static struct hcq_program_desc
describe(void)
{
    return (struct hcq_program_desc){
        .struct_size = sizeof(struct hcq_program_desc),
        .name = "prog",
        .entry = "entry",
        .binary = "x",
        .binary_size_bytes = 1,
        .n_bufs = 2,
        .n_vals = 3,
    };
}

/* NULL: it is taken. */
static void
expect_taken(const struct hcq_program_desc *desc, const char *why_not)
{
    struct hcq_program *prog;

    if (why_not) {
        expect_fails(hcq_program_create(dev, desc, &prog), BELL_E_INVALID,
                     why_not);
        return;
    }
    expect_ok(hcq_program_create(dev, desc, &prog));
    assert_memory_equal(prog->local, desc->local, sizeof(prog->local));
    assert_int_equal(prog->n_bufs, desc->n_bufs);
    assert_int_equal(prog->n_vals, desc->n_vals);
    assert_int_equal(prog->shared_bytes, desc->shared_bytes);
    hcq_program_destroy(prog);
}

static void
test_groups(void **state)
{
    static const struct {
        uint32_t local[3];
        const char *why_not;
    } rows[] = {
        {{0, 0, 0}, NULL},
        {{1, 1, 1}, NULL},
        {{8, 1, 1}, NULL},
        {{9, 1, 1}, "local size 9 on axis 0, NV:0@null:h100 takes 1 to 8"},
        {{1, 6, 1}, NULL},
        {{1, 7, 1}, "local size 7 on axis 1, NV:0@null:h100 takes 1 to 6"},
        {{1, 1, 4}, NULL},
        {{1, 1, 5}, "local size 5 on axis 2, NV:0@null:h100 takes 1 to 4"},
        {{1, 0, 0}, "local size 0 on axis 1"},
        {{0, 1, 0}, "local size 0 on axis 0"},
        {{0, 0, 1}, "local size 0 on axis 0"},
        {{1, 1, 0}, "local size 0 on axis 2"},
        {{5, 5, 4}, NULL},
        {{8, 6, 2}, NULL},
        {{8, 6, 3}, "144 work-items in a group, NV:0@null:h100 takes 100"},
    };
    struct hcq_program_desc desc;
    size_t i;

    (void)state;
    open_small();
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        desc = describe();
        memcpy(desc.local, rows[i].local, sizeof(desc.local));
        expect_taken(&desc, rows[i].why_not);
    }
    hcq_device_close(dev);
}

static void
test_sizes(void **state)
{
    struct hcq_program_desc desc;

    (void)state;
    open_small();
    desc = describe();
    desc.shared_bytes = 1000;
    expect_taken(&desc, NULL);
    desc.shared_bytes = 1001;
    expect_taken(&desc, "1001 bytes of shared memory, NV:0@null:h100 has 1000");
    desc = describe();
    desc.n_vals = 8;
    expect_taken(&desc, NULL);
    desc.n_vals = 9;
    expect_taken(&desc, "2 + 9 arguments, NV:0@null:h100 takes 10");
    desc.n_vals = UINT32_MAX - 1; /* together 0 in 32 bits */
    expect_taken(&desc, "takes 10");
    desc = describe();
    desc.struct_size++;
    expect_taken(&desc, NULL);
    desc.struct_size -= 2;
    expect_taken(&desc, "descriptor of");
    hcq_device_close(dev);
}

static void
test_lacks(void **state)
{
    struct hcq_program_desc desc;
    struct hcq_program *prog;

    (void)state;
    open_small();
    desc = describe();
    expect_fails(hcq_program_create(NULL, &desc, &prog), BELL_E_INVALID,
                 "the device is NULL");
    expect_fails(hcq_program_create(dev, NULL, &prog), BELL_E_INVALID,
                 "the descriptor is NULL");
    expect_fails(hcq_program_create(dev, &desc, NULL), BELL_E_INVALID,
                 "the result is NULL");
    desc.name = NULL;
    expect_taken(&desc, "program without a name");
    desc.name = "";
    expect_taken(&desc, "program without a name");
    desc = describe();
    desc.binary = NULL;
    expect_taken(&desc, "program 'prog': no binary");
    desc = describe();
    desc.binary_size_bytes = 0;
    expect_taken(&desc, "program 'prog': no binary");
    hcq_device_close(dev);
}

/* A program is found by where its code begins, while it is there. */
static void
test_names(void **state)
{
    struct hcq_program_desc desc;
    struct hcq_program *progs[3];
    char name[HCQ_NAME_MAX];
    char letters[] = "a";
    uint32_t i, k;

    (void)state;
    open_small();
    desc = describe();
    desc.name = letters;
    for (i = 0; i < 3; i++) {
        letters[0] = (char)('a' + i);
        expect_ok(hcq_program_create(dev, &desc, &progs[i]));
        progs[i]->code_va = 4096 * (i + 1);
    }
    for (i = 0; i < 3; i++) {
        assert_false(hcq_program_name_at(dev, 4096 * (i + 1) + 1, name));
        for (k = 0; k < 3; k++) {
            assert_int_equal(hcq_program_name_at(dev, 4096 * (k + 1), name),
                             k >= i);
            if (k >= i)
                assert_int_equal(name[0], 'a' + k);
        }
        hcq_program_destroy(progs[i]);
    }
    hcq_program_destroy(NULL);
    hcq_device_close(dev);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_lacks),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
