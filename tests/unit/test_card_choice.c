/* Which card a name without a number is, where some cannot be used: a
 * container has some of the machine's nodes, a processor has a GPU of its own,
 * a display card comes first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "hcq/hcq.h"
#include "tests/unit/expect.h"

/* `opened` NULL: `status`, with `part` in the message; else the device's name,
 * and `part` of what it says was passed over. A NULL part: nothing was. */
static const struct {
    const char *name, *opened, *part;
    bell_status status;
} cases[] = {
    {"NV@sim:sm_80*2", "NV:0@sim:sm_80*2", NULL, BELL_OK},
    /* numbers are the container's */
    {"NV@sim:sm_80*2,hide=0", "NV:0@sim:sm_80*2,hide=0", NULL, BELL_OK},
    {"NV:1@sim:sm_80*2,hide=0", NULL, "no card 1; there is 1",
     BELL_E_NO_DEVICE},
    {"NV:1@sim:sm_80*3,hide=1", "NV:1@sim:sm_80*3,hide=1", NULL, BELL_OK},
    {"NV@sim:sm_80*2,deny=0", "NV:0@sim:sm_80*2,deny=0", NULL, BELL_OK},
    {"NV@sim:sm_80,hide=0", NULL, "1 in all: open /dev/nvidia0",
     BELL_E_PERMISSION},
    {"NV@sim:sm_80,deny=0", NULL, "the device rules of this container",
     BELL_E_PERMISSION},
    {"NV@sim:sm_80*2,hide=0,deny=1", NULL, "2 in all: open /dev/nvidia0",
     BELL_E_PERMISSION},
    /* a card that is there and cannot be used keeps its number */
    {"NV@sim:sm_80*2,gone=0", "NV:1@sim:sm_80*2,gone=0", "off the bus",
     BELL_OK},
    {"NV:0@sim:sm_80*2,gone=0", NULL, "off the bus", BELL_E_NO_DEVICE},
    {"NV@sim:sm_80,gone=0", NULL, "restarting the machine", BELL_E_NO_DEVICE},
    {"NV@sim:sm_80*2,first=sm_70", "NV:1@sim:sm_80*2,first=sm_70",
     "launch descriptors", BELL_OK},
    {"NV:0@sim:sm_80*2,first=sm_70", NULL, "launch descriptors",
     BELL_E_UNSUPPORTED},
    {"NV@sim:sm_80,first=sm_70", NULL, "launch descriptors",
     BELL_E_UNSUPPORTED},
    {"NV@sim:sm_80*3,first=sm_70,hide=1", "NV:1@sim:sm_80*3,first=sm_70,hide=1",
     "launch descriptors", BELL_OK},
    {"NV@sim:sm_80,mode=exclusive", "NV:0@sim:sm_80,mode=exclusive", NULL,
     BELL_OK},
    {"NV@sim:sm_80,mode=prohibited", NULL, "nvidia-smi -c", BELL_E_PERMISSION},
    {"NV@sim:sm_90,cc", NULL, "--set-cc-mode=off", BELL_E_UNSUPPORTED},
    {"NV:1@sim:sm_90*2,cc", NULL, "confidential", BELL_E_UNSUPPORTED},
    {"AMD@sim:gfx1100*2,hide=0", "AMD:0@sim:gfx1100*2,hide=0", NULL, BELL_OK},
    {"AMD:1@sim:gfx1100*2,hide=0", NULL, "no card 1", BELL_E_NO_DEVICE},
    {"AMD@sim:gfx1100*2,deny=0", "AMD:0@sim:gfx1100*2,deny=0", NULL, BELL_OK},
    {"AMD@sim:gfx1100,hide=0", NULL, "/dev/dri/renderD128", BELL_E_PERMISSION},
    {"AMD@sim:gfx1100,deny=0", NULL, "not permitted", BELL_E_PERMISSION},
    {"AMD@sim:gfx1100*2,first=gfx90c", "AMD:1@sim:gfx1100*2,first=gfx90c",
     "90012", BELL_OK},
    {"AMD:0@sim:gfx1100*2,first=gfx90c", NULL, "90012", BELL_E_UNSUPPORTED},
    {"AMD@sim:gfx1100,first=gfx90c", NULL, "90012", BELL_E_UNSUPPORTED},
    /* 64 cards of eight GPUs */
    {"AMD:63@sim:mi300x*8,cpx", "AMD:63@sim:mi300x*8,cpx", NULL, BELL_OK},
    {"AMD:64@sim:mi300x*8,cpx", NULL, "there are 64", BELL_E_NO_DEVICE},
    {"AMD@sim:gfx1100,kernel=5.15", NULL, "Linux 5.17", BELL_E_UNSUPPORTED},
    /* specs that are not such a machine */
    {"NV@sim:sm_80,hide=", NULL, "", BELL_E_NO_DEVICE},
    {"NV@sim:sm_80,hide=12", NULL, "", BELL_E_NO_DEVICE},
    {"NV@sim:sm_80,first=sm_80", NULL, "", BELL_E_NO_DEVICE},
    {"AMD@sim:gfx1100,hide=10", NULL, "", BELL_E_NO_DEVICE},
    {"AMD@sim:gfx1100,first=gfx90", NULL, "", BELL_E_NO_DEVICE},
    /* options that would do nothing */
    {"NV@sim:sm_80*2,hide=2", NULL, "beyond the last, 1", BELL_E_NO_DEVICE},
    {"NV@sim:sm_80,deny=7", NULL, "beyond the last, 0", BELL_E_NO_DEVICE},
    {"NV@sim:sm_80,gone=1", NULL, "beyond the last, 0", BELL_E_NO_DEVICE},
    {"NV@sim:sm_90,sm=0x0", NULL, "sm_90,sm=0x0", BELL_E_NO_DEVICE},
    {"NV@sim:sm_90,sms=4,sms=8", NULL, "'sms' is given twice",
     BELL_E_NO_DEVICE},
    {"NV@sim:sm_90*2,gone=1,gone=1", NULL, "'gone=1' is given twice",
     BELL_E_NO_DEVICE},
    {"NV@sim:sm_90,ordered,ordered", NULL, "'ordered' is given twice",
     BELL_E_NO_DEVICE},
    {"NV@sim:sm_90,lenient,lenient", NULL, "'lenient' is given twice",
     BELL_E_NO_DEVICE},
    {"NV@sim:a100,ordered", NULL, "'ordered' has no effect", BELL_E_NO_DEVICE},
    {"NV@sim:rtx4090,cc", NULL, "no confidential computing", BELL_E_NO_DEVICE},
    {"AMD@sim:gfx1100*2,deny=2", NULL, "beyond the last, 1", BELL_E_NO_DEVICE},
    {"AMD@sim:mi300x,cpx,hide=8", NULL, "beyond the last, 7", BELL_E_NO_DEVICE},
    {"AMD@sim:gfx1100,cpx", NULL, "'cpx' has no effect", BELL_E_NO_DEVICE},
    {"AMD@sim:gfx1100,kfd=1.19,kfd=1.20", NULL, "'kfd' is given twice",
     BELL_E_NO_DEVICE},
};

static void
test_names(void **state)
{
    struct hcq_device *dev;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(cases); i++) {
        const char *part = cases[i].part;
        bell_status status;

        status = hcq_device_open(cases[i].name, &dev);
        if (!cases[i].opened) {
            if (status != cases[i].status)
                fail_msg("%s: %s", cases[i].name, bell_error_last()->message);
            expect_fails(status, cases[i].status, part);
            continue;
        }
        if (status != BELL_OK)
            fail_msg("%s: %s", cases[i].name, bell_error_last()->message);
        assert_string_equal(hcq_device_name(dev), cases[i].opened);
        if (part) {
            if (!strstr(hcq_device_passed_over(dev), part))
                fail_msg("%s: %s", cases[i].name, hcq_device_passed_over(dev));
        } else
            assert_string_equal(hcq_device_passed_over(dev), "");
        hcq_device_close(dev);
    }
}

static unsigned n_lines;

static void
count_line(void *user, const char *line)
{
    n_lines += strstr(line, user) != NULL;
}

/* BELL_DEBUG=exec names what is passed over, and why. */
static void
test_told(void **state)
{
    static char part[] = "passed over: open /dev/nvidia1";
    struct hcq_device *dev;

    (void)state;
    bell_log_set(count_line, part);
    log_mask = LOG_EXEC;
    expect_ok(hcq_device_open("NV@sim:sm_80*3,hide=1", &dev));
    hcq_device_close(dev);
    log_mask = 0;
    bell_log_set(NULL, NULL);
    assert_int_equal(n_lines, 1);
}

/* A recording in a container is of its cards; a replay asks no node. */
static void
test_recorded(void **state)
{
    char path[] = "/tmp/test_card_choice.XXXXXX", name[128];
    struct hcq_device *dev;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    snprintf(name, sizeof(name), "NV@record:%s@sim:sm_80*2,hide=0", path);
    expect_ok(hcq_device_open(name, &dev));
    hcq_device_close(dev);
    snprintf(name, sizeof(name), "NV@replay:%s", path);
    expect_ok(hcq_device_open(name, &dev));
    expect_ok(hcq_device_status(dev));
    hcq_device_close(dev);
    /* the same calls where nothing is hidden are others */
    snprintf(name, sizeof(name), "NV:1@replay:%s", path);
    assert_int_not_equal(hcq_device_open(name, &dev), BELL_OK);
    unlink(path);
}

/* An opening at a simulated kernel is a process of its own. */
static void
test_exclusive(void **state)
{
    struct hcq_device *dev, *other;

    (void)state;
    expect_ok(hcq_device_open("NV@sim:sm_80,mode=exclusive", &dev));
    expect_fails(hcq_device_open("NV@sim:sm_80,mode=exclusive", &other),
                 BELL_E_KERNEL, "another process has it");
    hcq_device_close(dev);
    expect_ok(hcq_device_open("NV@sim:sm_80,mode=exclusive", &dev));
    hcq_device_close(dev);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_exclusive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
