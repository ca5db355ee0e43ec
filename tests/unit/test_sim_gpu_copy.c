/* The simulated NVIDIA card: copy engines. Words are those of
 * docs/hardware/nvidia-queues.md, "Test vectors", and others written by hand
 * from open-gpu-doc, clc6b5.h and clc8b5.h, not made by the driver's packers.
 */
#include "gpu_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

#define GR NVGPU_ENGINE_GR
#define CE NVGPU_ENGINE_CE

static const char *const chips[] = {"sm_80", "sm_89", "sm_90", "sm_120"};

/* Section 15: bind, copy, fill, release with time. */
static void
test_vectors_copy(void **state)
{
    size_t i, k;

    (void)state;
    for (i = 0; i < 2 * ARRAY_LEN(chips); i++) {
        struct rig rig;
        struct rig_chan *c = &rig.chans[0];
        uint8_t *src, *dst;
        rig_init(&rig, chips[i / 2], i % 2 ? CE : GR);
        src = rig_at(RIG_SRC);
        dst = rig_at(RIG_DST);
        for (k = 0; k < 0x2000; k++)
            src[k] = (uint8_t)(k * 7 + k / 256);
        RIG_PUSH_WORDS(c, 0x20018000, rig.chip->copy_class, 0x20048100,
                       0x00000020, 0x00000000, 0x00000030, 0x00000000,
                       0x20018106, 0x00001000, 0x200180c0, 0x00000182,
                       0x20038090, 0x00000010, 0x00200020, 0x00000007,
                       0x200180c0, 0x00000014);
        rig_finish(&rig, c);
        assert_memory_equal(dst, src, 0x1000);
        assert_int_equal(dst[0x1000], 0);
        assert_int_equal(rig_word(RIG_SEM + 0x20), 7);
        assert_int_equal(rig_word(RIG_SEM + 0x24), 0);
        assert_int_not_equal(rig_word64(RIG_SEM + 0x28), 0);
        RIG_PUSH_WORDS(c, 0x200281c1, 0xdeadbeef, 0x00030005, 0x20028102,
                       0x00000030, 0x00000000, 0x20018106, 0x00001000,
                       0x200180c0, 0x00000582);
        rig_finish(&rig, c);
        for (k = 0; k < 0x1000; k++)
            assert_int_equal(rig_word(RIG_DST + 4 * k), 0xdeadbeef);
        assert_int_equal(rig_word(RIG_DST + 0x4000), 0);
        rig_fini(&rig);
    }
}

/* Binds, sets addresses (offsets from the regions), then the words. */
static void
start_copy(struct rig *rig, uint32_t src, uint32_t dst)
{
    RIG_PUSH_WORDS(&rig->chans[0], 0x20018000, rig->chip->copy_class,
                   0x20048100, 0x20, src, 0x30, dst);
}

static void
put_sem(uint64_t va, uint32_t value)
{
    atomic_store((_Atomic uint32_t *)rig_at(va), value);
}

static void
test_copies(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];
    uint8_t *src, *dst;
    uint32_t i, k;

    (void)state;
    rig_init(&rig, "sm_90", CE);
    src = rig_at(RIG_SRC);
    dst = rig_at(RIG_DST);
    for (i = 0; i < 8u << 20; i++)
        src[i] = (uint8_t)(i * 13 + i / 4096);
    /* over pages of 2 MiB, odd addresses and length; fused release */
    start_copy(&rig, 3, 5);
    RIG_PUSH_WORDS(c, 0x20018106, 0x6abcdf, 0x20038090, 0x10, 0x00200040, 3,
                   0x200180c0, 0x18e);
    rig_finish(&rig, c);
    assert_memory_equal(dst + 5, src + 3, 0x6abcdf);
    assert_int_equal(dst[4], 0);
    assert_int_equal(dst[5 + 0x6abcdf], 0);
    assert_int_equal(rig_word(RIG_SEM + 0x40), 3);
    /* 2D: 7 lines of 100 bytes */
    memset(dst, 0, 8u << 20);
    start_copy(&rig, 16, 32);
    RIG_PUSH_WORDS(c, 0x20048104, 300, 128, 100, 7, 0x200180c0, 0x382);
    rig_finish(&rig, c);
    for (i = 0; i < 7; i++) {
        assert_memory_equal(dst + 32 + i * 128, src + 16 + i * 300, 100);
        for (k = 100; k < 128; k++)
            assert_int_equal(dst[32 + i * 128 + k], 0);
    }
    /* without MULTI_LINE the count does not matter */
    memset(dst, 0, 4096);
    RIG_PUSH_WORDS(c, 0x200180c0, 0x182);
    rig_finish(&rig, c);
    assert_memory_equal(dst + 32, src + 16, 100);
    assert_int_equal(dst[160], 0);
    /* a payload of 64 bits */
    RIG_PUSH_WORDS(c, 0x20048090, 0x10, 0x00200050, 0x11111111, 0x22222222,
                   0x200180c0, 0x0800000c);
    rig_finish(&rig, c);
    assert_int_equal(rig_word64(RIG_SEM + 0x50), 0x2222222211111111);
    rig_fini(&rig);
}

/* A release without WFI does not wait for a copy, one with does. */
static void
test_copy_order(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];

    (void)state;
    rig_init(&rig, "sm_80", CE);
    start_copy(&rig, 0, 0);
    /* a reduction in between comes first, and is overwritten */
    put_sem(RIG_DST, 1);
    RIG_PUSH_WORDS(c, 0x20018106, 4, 0x200180c0, 0x182, 0x20050017,
                   (uint32_t)RIG_DST, (uint32_t)(RIG_DST >> 32), 2, 0,
                   0xa8000006);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_DST), 0);
    /* with WFI it comes second */
    RIG_PUSH_WORDS(c, 0x20018106, 4, 0x200180c0, 0x182, 0x20050017,
                   (uint32_t)RIG_DST, (uint32_t)(RIG_DST >> 32), 2, 0,
                   0xa8100006);
    rig_finish(&rig, c);
    assert_int_equal(rig_word(RIG_DST), 2);
    rig_fini(&rig);
}

/* Remaps: components word, elements, what comes out of bytes 0, 1, 2... with
 * A = 0xa3a2a1a0 and B = 0xb3b2b1b0, on memory full of 0xee. */
static const struct {
    uint32_t components, n_elements;
    const char *want;
} remaps[] = {
    {0x00000004, 3, "a0 a0 a0 ee"},
    {0x00010005, 2, "b0 b1 b0 b1 ee"},
    {0x00020004, 2, "a0 a1 a2 a0 a1 a2 ee"},
    {0x01030054, 2, "a0 a1 a2 a3 b0 b1 b2 b3 a0 a1 a2 a3 b0 b1 b2 b3 ee"},
    {0x03004645, 2, "b0 a0 ee a0 b0 a0 ee a0 ee"},
    {0x03300123, 2, "03 02 01 00 07 06 05 04 ee"},
    {0x01110001, 2, "02 03 00 01 06 07 04 05 ee"},
};

static void
test_remaps(void **state)
{
    struct rig rig;
    struct rig_chan *c = &rig.chans[0];
    uint8_t *src, *dst;
    uint32_t i, k, n;

    (void)state;
    rig_init(&rig, "sm_80", CE);
    src = rig_at(RIG_SRC);
    dst = rig_at(RIG_DST);
    for (i = 0; i < 256; i++)
        src[i] = (uint8_t)i;
    for (i = 0; i < ARRAY_LEN(remaps); i++) {
        const char *want = remaps[i].want;
        memset(dst, 0xee, 64);
        start_copy(&rig, 0, 0);
        RIG_PUSH_WORDS(c, 0x200381c0, 0xa3a2a1a0, 0xb3b2b1b0,
                       remaps[i].components, 0x20018106, remaps[i].n_elements,
                       0x200180c0, 0x582);
        rig_finish(&rig, c);
        for (k = 0; *want; k++) {
            n = (uint32_t)strtoul(want, NULL, 16);
            if (dst[k] != n)
                fail_msg("remap %u: byte %u is %02x", i, k, dst[k]);
            want += want[2] ? 3 : 2;
        }
    }
    /* long fills of elements of 3 and 12 bytes */
    memset(dst, 0xee, 8u << 20);
    RIG_PUSH_WORDS(c, 0x200181c2, 0x00020004, 0x20018106, 1000000, 0x200180c0,
                   0x582);
    rig_finish(&rig, c);
    for (k = 0; k < 3000000; k++)
        assert_int_equal(dst[k], 0xa0 + k % 3);
    assert_int_equal(dst[k], 0xee);
    rig_fini(&rig);
}

static void
test_refused_copy(void **state)
{
    (void)state;
    RIG_REFUSED("sm_90", CE, 41, "no method 0x44c", 0x20018000, 0xc8b5,
                0x20018113, 0);
    RIG_REFUSED("sm_90", CE, 41, "reserved", 0x20018000, 0xc8b5, 0x20018100,
                0x2000000);
    RIG_REFUSED("sm_80", CE, 41, "reserved", 0x20018000, 0xc6b5, 0x20018100,
                0x20000);
    RIG_REFUSED("sm_80", GR, 39, "no method 0x24c", 0x20018000, 0xc6b5,
                0x20018093, 0);
    RIG_REFUSED("sm_80", CE, 41, "bits 0x8000000", 0x20018000, 0xc6b5,
                0x200180c0, 0x0800000c);
    RIG_REFUSED("sm_89", CE, 41, "bits 0x20000 are reserved", 0x20018000,
                0xc7b5, 0x20018093, 2, 0x20018100, 0x20000);
    RIG_REFUSED("sm_90", CE, 41, "bits 0x1000", 0x20018000, 0xc8b5, 0x200180c0,
                0x1182);
    RIG_REFUSED("sm_90", CE, 41, "only pitch layouts", 0x20018000, 0xc8b5,
                0x200180c0, 0x102);
    RIG_REFUSED("sm_90", CE, 41, "semaphore 3", 0x20018000, 0xc8b5, 0x200180c0,
                0x18);
    RIG_REFUSED("sm_120", CE, 41, "transfer 3", 0x20018000, 0xcab5, 0x200180c0,
                0x183);
    RIG_REFUSED("sm_90", CE, 41, "component 0 is made of number 7", 0x20018000,
                0xc8b5, 0x200181c2, 7, 0x20018106, 1, 0x200180c0, 0x582);
    RIG_REFUSED("sm_90", CE, 41, "component 0 is made of number 1", 0x20018000,
                0xc8b5, 0x200181c2, 1, 0x20018106, 1, 0x200180c0, 0x582);
    RIG_REFUSED("sm_90", CE, 41, "0x1000200028 is not a multiple of 16",
                0x20018000, 0xc8b5, 0x20038090, 0x10, 0x00200028, 7, 0x200180c0,
                0x14);
    RIG_REFUSED("sm_90", CE, 31, "read at 0x6600000000 by the copy engine",
                0x20018000, 0xc8b5, 0x20048100, 0x66, 0, 0x30, 0, 0x20018106,
                16, 0x200180c0, 0x182);
    RIG_REFUSED("sm_90", CE, 31,
                "write at 0x3100000000 by the copy engine: "
                "the page is read-only",
                0x20018000, 0xc8b5, 0x20048100, 0x20, 0, 0x31, 0, 0x20018106,
                16, 0x200180c0, 0x182);
    /* the end of a region, in the middle of a copy */
    RIG_REFUSED("sm_90", CE, 31, "write at 0x3000800000", 0x20018000, 0xc8b5,
                0x20048100, 0x20, 0, 0x30, 0x7ffff0, 0x20018106, 17, 0x200180c0,
                0x182);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_copy), cmocka_unit_test(test_copies),
        cmocka_unit_test(test_copy_order),   cmocka_unit_test(test_remaps),
        cmocka_unit_test(test_refused_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
