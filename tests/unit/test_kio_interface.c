/* ioctl/kio_interface: stacks of forms by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ioctl/kio.h"
#include "ioctl/kio_interface.h"

/* The stack's forms from the top, "fault record sys". */
static void
expect_stack(const char *interface, const char *want)
{
    struct kio *kio = NULL;
    const struct kio *form;
    char seen[64] = "";

    assert_int_equal(kio_open_interface("NV", interface, &kio), BELL_OK);
    for (form = kio; form; form = form->below) {
        if (form != kio)
            strcat(seen, " ");
        strcat(seen, form->ops->name);
    }
    assert_string_equal(seen, want);
    kio_destroy(kio);
}

static void
expect_refused(const char *interface, bell_status want, const char *part)
{
    struct kio *kio = NULL;

    assert_int_equal(kio_open_interface("NV", interface, &kio), want);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("'%s' lacks '%s'", bell_error_last()->message, part);
    assert_null(kio);
}

static void
test_stacks(void **state)
{
    char path[] = "/tmp/bell_interface_XXXXXX", text[128];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    expect_stack("", "sys");
    expect_stack("fault:ioctl:3=ENOMEM", "fault sys");
    snprintf(text, sizeof(text), "record:%s", path);
    expect_stack(text, "record sys");
    snprintf(text, sizeof(text), "fault:mmap=ENOMEM@record:%s", path);
    expect_stack(text, "fault record sys");
    unlink(path);
}

static void
test_refused(void **state)
{
    (void)state;
    expect_refused("nowhere:1", BELL_E_NO_DEVICE, "no interface 'nowhere'");
    expect_refused("nowhere", BELL_E_NO_DEVICE, kio_interface_list());
    expect_refused("fault", BELL_E_INVALID, "nothing follows");
    expect_refused("fault:", BELL_E_INVALID, "nothing follows");
    expect_refused("sim", BELL_E_NO_DEVICE, "known: ");
    expect_refused("fault:walk=ENOMEM", BELL_E_INVALID, "walk");
    expect_refused("replay:/nonexistent.cas", BELL_E_IO, "nonexistent");
    expect_refused("replay:/nonexistent.cas@fault:ioctl=EIO", BELL_E_INVALID,
                   "stands on nothing");
    expect_refused("fault:ioctl=EIO@", BELL_E_NO_DEVICE, "no interface ''");
    expect_refused("@fault:ioctl=EIO", BELL_E_NO_DEVICE, "no interface ''");
}

static void
test_out_of_memory(void **state)
{
    struct kio *kio;
    bell_status status;
    uint64_t n;

    (void)state;
    for (n = 1;; n++) {
        host_fail_after(n, 1);
        status = kio_open_interface("NV", "fault:ioctl:3=ENOMEM", &kio);
        host_fail_after(0, 0);
        if (status == BELL_OK)
            break;
        assert_int_equal(status, BELL_E_NO_MEMORY);
    }
    assert_true(n > 2);
    kio_destroy(kio);
}

static void
test_sim_name(void **state)
{
    (void)state;
    assert_true(kio_interface_is_sim("sim:sm_90"));
    assert_true(kio_interface_is_sim("fault:ioctl=EIO@sim:sm_90*2"));
    assert_false(kio_interface_is_sim(""));
    assert_false(kio_interface_is_sim("record:sim:x"));
    assert_true(kio_interface_is_real(""));
    assert_true(kio_interface_is_real("record:sim:x"));
    assert_true(kio_interface_is_real("fault:ioctl=EIO@record:x"));
    assert_false(kio_interface_is_real("fault:ioctl=EIO@sim:sm_90*2"));
    assert_false(kio_interface_is_real("replay:x"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_sim_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
