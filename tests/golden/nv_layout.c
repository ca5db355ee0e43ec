/* Memory that host and GPU share: offsets typed in.
 * src: docs/hardware/nvidia-kernel.md, "Bring-up" (step 11);
 * docs/hardware/nvidia-queues.md, "Control words and entries", "Host methods",
 * "Copy engine", "Errors"; docs/hardware/nvidia-code.md, "Constant bank 0". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hcq/nv/regs/nv_cbank.h"
#include "hcq/nv/regs/nv_mem.h"

#define AT(type, member, want)                                                 \
    assert_int_equal(offsetof(struct type, member), want)

static void
test_channel_memory(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct nv_mem_userd), 512);
    AT(nv_mem_userd, put, 0x40);
    AT(nv_mem_userd, get, 0x44);
    AT(nv_mem_userd, reference, 0x48);
    AT(nv_mem_userd, gp_get, 0x88);
    AT(nv_mem_userd, gp_put, 0x8c);
    assert_int_equal(sizeof(struct nv_mem_usermode), 64 * 1024);
    AT(nv_mem_usermode, time_0, 0x80);
    AT(nv_mem_usermode, time_1, 0x84);
    AT(nv_mem_usermode, doorbell, 0x90);
    assert_int_equal(sizeof(struct nv_mem_semaphore), 16);
    AT(nv_mem_semaphore, timestamp, 8);
    AT(nv_mem_semaphore32, timestamp, 8);
    assert_int_equal(sizeof(struct nv_mem_notifier), 16);
    AT(nv_mem_notifier, info32, 8);
    AT(nv_mem_notifier, info16, 12);
    AT(nv_mem_notifier, status, 14);
}

static void
test_constant_bank(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct nv_cbank_sm80), 0x160);
    AT(nv_cbank_sm80, nctaid, 0x0c);
    AT(nv_cbank_sm80, shared_window, 0x18);
    AT(nv_cbank_sm80, local_window, 0x20);
    AT(nv_cbank_sm80, stack, 0x28);
    AT(nv_cbank_sm80, global_desc, 0x118);
    assert_int_equal(sizeof(struct nv_cbank_sm90), 0x210);
    AT(nv_cbank_sm90, nctaid, 0x0c);
    AT(nv_cbank_sm90, stack, 0x28);
    AT(nv_cbank_sm90, nsmid, 0x10c);
    AT(nv_cbank_sm90, param_address, 0x198);
    AT(nv_cbank_sm90, global_desc, 0x208);
    assert_int_equal(sizeof(struct nv_cbank_sm100), 0x380);
    AT(nv_cbank_sm100, shared_window, 0x2f0);
    AT(nv_cbank_sm100, local_window, 0x2f8);
    AT(nv_cbank_sm100, param_address, 0x348);
    AT(nv_cbank_sm100, global_desc, 0x358);
    AT(nv_cbank_sm100, ntid, 0x360);
    AT(nv_cbank_sm100, nctaid, 0x370);
    AT(nv_cbank_sm100, stack, 0x37c);
    assert_int_equal(NV_CBANK_STACK_POINTER, 0xfffdc0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel_memory),
        cmocka_unit_test(test_constant_bank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
