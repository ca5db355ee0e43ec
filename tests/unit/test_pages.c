/* Kernels whose pages are larger than 4096 bytes, before simulated cards: what
 * they refuse is not asked of them (ioctl/kio_pages.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/hcq.h"
#include "ioctl/kio.h"
#include "ioctl/kio_pages.h"

#define BIG 65536u

static const char *const cards[] = {
    "NV@pages:65536@sim:sm_90",   "AMD@pages:65536@sim:gfx1100",
    "QCOM@pages:65536@sim:a740",  "NV@pages:16384@sim:sm_90",
    "AMD@pages:16384@sim:gfx942", "QCOM@pages:16384@sim:a740",
};

static void
ok(bell_status status, const char *card)
{
    if (status != BELL_OK)
        fail_msg("%s: %s", card, bell_error_last()->message);
}

/* Memory of the caller anywhere in its page, and beyond it. */
static void
check_pins(struct hcq_device *dev, const char *card, uint8_t *memory)
{
    static const uint32_t offsets[] = {0, 4096, 8192 + 64, BIG - 64};
    struct hcq_buffer *buf;
    size_t i;

    for (i = 0; i < ARRAY_LEN(offsets); i++) {
        ok(hcq_buffer_create_pinned(dev, memory + offsets[i], 128, &buf), card);
        assert_ptr_equal(buf->host, memory + offsets[i]);
        assert_int_equal(buf->va % 4096, offsets[i] % 4096);
        hcq_buffer_destroy(buf);
    }
}

static void
check_buffers(struct hcq_device *dev, const char *card)
{
    static const uint64_t sizes[] = {1, 4096, 5 * 4096, BIG + 1, 3 << 20};
    static const uint32_t flags[] = {0, HCQ_MEM_HOST_VISIBLE};
    struct hcq_buffer *bufs[ARRAY_LEN(sizes)];
    uint64_t word = 7, got;
    size_t i, k;

    for (k = 0; k < ARRAY_LEN(flags); k++) {
        for (i = 0; i < ARRAY_LEN(sizes); i++)
            ok(hcq_buffer_create(dev, sizes[i] + 7, flags[k], &bufs[i]), card);
        for (i = 0; i < ARRAY_LEN(sizes); i++) {
            ok(hcq_buffer_write(bufs[i], 0, &word, sizeof(word)), card);
            ok(hcq_buffer_read(bufs[i], 0, &got, sizeof(got)), card);
            assert_int_equal(got, word);
            hcq_buffer_destroy(bufs[i]);
        }
    }
}

static void
test_cards(void **state)
{
    uint8_t *memory = host_aligned(BIG, 3 * BIG);
    struct hcq_device *dev;
    size_t i;

    (void)state;
    assert_non_null(memory);
    for (i = 0; i < ARRAY_LEN(cards); i++) {
        ok(hcq_device_open(cards[i], &dev), cards[i]);
        check_buffers(dev, cards[i]);
        check_pins(dev, cards[i], memory);
        hcq_device_close(dev);
    }
    host_free(memory);
}

static void
test_form(void **state)
{
    struct kio *kio, *pages;

    (void)state;
    ok(kio_sys_create(&kio), "the system");
    assert_true(kio_page_bytes(kio) >= 4096 && is_pow2(kio_page_bytes(kio)));
    assert_int_equal(kio_pages_create(kio, "65535", &pages), BELL_E_INVALID);
    assert_int_equal(kio_pages_create(kio, "131072", &pages), BELL_E_INVALID);
    assert_int_equal(kio_pages_create(kio, "4096x", &pages), BELL_E_INVALID);
    ok(kio_pages_create(kio, "65536", &pages), "pages");
    assert_int_equal(kio_page_bytes(pages), BIG);
    kio_destroy(pages);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_cards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
