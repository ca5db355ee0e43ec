/* ioctl/kio_fault.c on a kernel that counts: which call of which kind a rule
 * hits, what comes back then, and what is not passed on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/map.h"
#include "ioctl/amdkfd_uapi.h"
#include "ioctl/kio.h"
#include "ioctl/kio_fault.h"
#include "ioctl/nv_abi.h"
#include "ioctl/nv_uapi.h"
#include "tests/unit/expect.h"

enum {
    OPEN,
    CLOSE,
    IOCTL,
    MMAP,
    MUNMAP,
    POLL,
    READ,
    N_KINDS
};

static struct {
    struct kio kio;
    unsigned n[N_KINDS]; /* calls that arrived */
    int n_read;          /* bytes of files */
    bool is_gone;
} below;

static int
below_open(struct kio *kio, const char *path, int flags)
{
    (void)kio;
    (void)path;
    (void)flags;
    below.n[OPEN]++;
    return 7;
}

static int
below_close(struct kio *kio, int fd)
{
    (void)kio;
    assert_int_equal(fd, 7);
    below.n[CLOSE]++;
    return 0;
}

/* Adds 1 to every byte of what it knows. */
static int
below_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    uint8_t *bytes = arg;
    size_t i;

    (void)kio;
    assert_int_equal(fd, 7);
    below.n[IOCTL]++;
    for (i = 0; i < (request >> 16 & 0x3fff); i++)
        bytes[i]++;
    return 3;
}

static int
below_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
           int fd, uint64_t offset)
{
    (void)kio;
    (void)addr;
    assert_true(size_bytes == 1 && prot == 2 && flags == 3 && fd == 4 &&
                offset == 5);
    below.n[MMAP]++;
    return 0;
}

static int
below_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    (void)kio;
    (void)addr;
    assert_int_equal(size_bytes, 9);
    below.n[MUNMAP]++;
    return 0;
}

static int
below_poll(struct kio *kio, int fd, short events, int timeout_ms,
           short *out_revents)
{
    (void)kio;
    assert_true(fd == 1 && events == 2 && timeout_ms == 3);
    *out_revents = 4;
    below.n[POLL]++;
    return 1;
}

static int
below_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    (void)kio;
    (void)path;
    assert_int_equal(cap, 40);
    memset(buf, 0x11, (size_t)below.n_read);
    below.n[READ]++;
    return below.is_gone ? -ENOENT : below.n_read;
}

static void
below_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    (void)kio;
    (void)bell;
}

static void
below_destroy(struct kio *kio)
{
    (void)kio;
}

#define BELOW_OPS                                                              \
    .name = "below", .destroy = below_destroy, .open = below_open,             \
    .close = below_close, .ioctl = below_ioctl, .mmap = below_mmap,            \
    .munmap = below_munmap, .poll = below_poll, .read_file = below_read_file

static const struct kio_ops below_ops = {BELOW_OPS};
static const struct kio_ops watching_ops = {BELOW_OPS,
                                            .doorbell = below_doorbell};

static struct kio *
create(const char *plan)
{
    struct kio *kio;

    memset(&below, 0, sizeof(below));
    below.kio.ops = &below_ops;
    below.n_read = 30;
    expect_ok(kio_fault_create(&below.kio, plan, &kio));
    return kio;
}

/* A call of each kind; its result. */
static int
call(struct kio *kio, int kind)
{
    uint8_t bytes[64] = {0};
    void *addr = NULL;
    short revents;

    switch (kind) {
    case OPEN:
        return kio->ops->open(kio, "/dev/kfd", O_RDWR);
    case CLOSE:
        return kio->ops->close(kio, 7);
    case IOCTL:
        return kio->ops->ioctl(kio, 7, 0x80084b01, bytes);
    case MMAP:
        return kio->ops->mmap(kio, &addr, 1, 2, 3, 4, 5);
    case MUNMAP:
        return kio->ops->munmap(kio, addr, 9);
    case POLL:
        return kio->ops->poll(kio, 1, 2, 3, &revents);
    default:
        return kio->ops->read_file(kio, "/x", bytes, 40);
    }
}

static const char *const kinds[N_KINDS] = {"open",   "close", "ioctl", "mmap",
                                           "munmap", "poll",  "read"};
static const int results[N_KINDS] = {7, 0, 3, 0, 0, 1, 30};

/* ---- which call is hit --------------------------------------------------- */

static void
test_errors(void **state)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = {
        {"EPERM", EPERM},   {"ENOENT", ENOENT},
        {"EINTR", EINTR},   {"EIO", EIO},
        {"ENXIO", ENXIO},   {"EAGAIN", EAGAIN},
        {"ENOMEM", ENOMEM}, {"EACCES", EACCES},
        {"EFAULT", EFAULT}, {"EBUSY", EBUSY},
        {"ENODEV", ENODEV}, {"EINVAL", EINVAL},
        {"EMFILE", EMFILE}, {"ENOTTY", ENOTTY},
        {"ENOSPC", ENOSPC}, {"ETIMEDOUT", ETIMEDOUT},
        {"ETIME", ETIME},   {"EOVERFLOW", EOVERFLOW},
    };
    char plan[64], text[128];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(errors); i++) {
        struct kio *kio;

        snprintf(plan, sizeof(plan), "poll:2=%s", errors[i].name);
        kio = create(plan);
        assert_int_equal(call(kio, POLL), 1);
        assert_null(kio->ops->explain(kio));
        assert_int_equal(call(kio, POLL), -errors[i].error);
        snprintf(text, sizeof(text), "%s (as planned for call 2)",
                 strerror(errors[i].error));
        assert_string_equal(kio->ops->explain(kio), text);
        assert_int_equal(below.n[POLL], 1);
        assert_int_equal(kio_fault_hits(kio), 1);
        assert_int_equal(call(kio, READ), 30);
        assert_null(kio->ops->explain(kio));
        kio_destroy(kio);
    }
}

/* Each kind alone, at each number, once and from there on. */
static void
test_kinds(void **state)
{
    unsigned kind, nth, every, n, k;
    char plan[64];

    (void)state;
    for (kind = 0; kind < N_KINDS; kind++) {
        for (nth = 1; nth <= 3; nth++) {
            for (every = 0; every < 2; every++) {
                unsigned n_hits = 0;
                struct kio *kio;

                snprintf(plan, sizeof(plan), "%s:%u%s=EIO", kinds[kind], nth,
                         every ? "+" : "");
                kio = create(plan);
                for (n = 1; n <= 4; n++) {
                    bool hit = n == nth || (every && n > nth);
                    for (k = 0; k < N_KINDS; k++)
                        assert_int_equal(call(kio, (int)k),
                                         k == kind && hit ? -EIO : results[k]);
                    n_hits += hit;
                }
                assert_int_equal(kio_fault_hits(kio), n_hits);
                /* what is closed or unmapped is gone all the same */
                for (k = 0; k < N_KINDS; k++)
                    assert_int_equal(below.n[k],
                                     k == kind && k != CLOSE && k != MUNMAP
                                         ? 4 - n_hits
                                         : 4);
                kio_destroy(kio);
            }
        }
    }
}

/* Rules count on their own; the first that hits says what comes back. */
static void
test_several(void **state)
{
    struct kio *kio = create("any:3=EIO,read:2+=ENOENT,poll=EBUSY,any:3=EPERM");

    (void)state;
    assert_int_equal(call(kio, READ), 30);
    assert_int_equal(call(kio, READ), -ENOENT);
    assert_int_equal(kio_fault_hits(kio), 1);
    assert_int_equal(call(kio, READ), -EIO);
    assert_string_equal(kio->ops->explain(kio),
                        "Input/output error (as planned for call 3)");
    assert_int_equal(kio_fault_hits(kio), 4);
    assert_int_equal(call(kio, POLL), -EBUSY);
    assert_int_equal(call(kio, POLL), 1);
    assert_int_equal(call(kio, READ), -ENOENT);
    expect_ok(kio_fault_set(kio, "read=EACCES"));
    assert_int_equal(kio_fault_hits(kio), 0);
    assert_int_equal(call(kio, READ), -EACCES);
    assert_int_equal(call(kio, READ), 30);
    expect_ok(kio_fault_set(kio, ""));
    assert_int_equal(call(kio, READ), 30);
    kio_destroy(kio);
}

static void
test_plans(void **state)
{
    char plan[17 * 9 + 1] = "", name[200];
    struct kio *kio;
    int i;

    (void)state;
    for (i = 0; i < 16; i++)
        strcat(plan, i ? ",read=EIO" : "read=EIO");
    kio = create("");
    expect_ok(kio_fault_set(kio, plan));
    assert_int_equal(call(kio, READ), -EIO);
    assert_int_equal(kio_fault_hits(kio), 16);
    snprintf(name, sizeof(name), "%s,read=EIO", plan);
    expect_fails(kio_fault_set(kio, name), BELL_E_INVALID,
                 "more than 16 rules, or one of more than 159 characters");
    memset(name, 'A', sizeof(name));
    memcpy(name + 155, "=EIO", 5); /* 159 characters */
    expect_ok(kio_fault_set(kio, name));
    memcpy(name + 156, "=EIO", 5);
    name[155] = 'A';
    expect_fails(kio_fault_set(kio, name), BELL_E_INVALID, "159 characters");
    expect_fails(kio_fault_set(kio, "read=EIO,poll=EWHAT,x"), BELL_E_INVALID,
                 "fault plan: 'poll=EWHAT' is not KIND");
    expect_ok(kio_fault_set(kio, "Z=EIO"));
    expect_ok(kio_fault_set(kio, "read=EIO,"));
    expect_fails(kio_fault_set(kio, "[=EIO"), BELL_E_INVALID, "is not KIND");
    expect_fails(kio_fault_set(kio, "@=EIO"), BELL_E_INVALID, "is not KIND");
    kio_destroy(kio);
}

/* Whether doorbells come through, is as it is below. */
static void
test_doorbells(void **state)
{
    struct kio *kio = create("");

    (void)state;
    assert_null(kio->ops->doorbell);
    kio_destroy(kio);
    memset(&below, 0, sizeof(below));
    below.kio.ops = &watching_ops;
    below.kio.branch = 4;
    expect_ok(kio_fault_create(&below.kio, "", &kio));
    assert_non_null(kio->ops->doorbell);
    assert_int_equal(kio->branch, 4);
    kio->ops->doorbell(kio, &(struct kio_bell){0});
    kio_destroy(kio);
}

/* ---- what comes back ----------------------------------------------------- */

static void
test_reads(void **state)
{
    struct kio *kio = create("read=truncate=29,read:2=truncate=31,"
                             "read:3=reply=7:0x01020304,read:4=reply=8:1,"
                             "read:5=reply=0:0xffffffff,read:6=reply=0:5");
    uint8_t got[40];
    int i;

    (void)state;
    for (i = 1; i <= 6; i++) {
        uint8_t want[40];
        int n;

        memset(got, 0, sizeof(got));
        memset(want, 0, sizeof(want));
        memset(want, 0x11, 30);
        below.is_gone = i == 6;
        n = kio->ops->read_file(kio, "/x", got, 40);
        assert_int_equal(n, i == 1 ? 29 : i == 6 ? -ENOENT : 30);
        if (i == 3)
            memcpy(want + 28, "\x04\x03", 2);
        else if (i == 5)
            memset(want, 0xff, 4);
        assert_memory_equal(got, want, sizeof(got));
    }
    kio_destroy(kio);
}

/* No more of a file's last word is written than there is. */
static void
test_short_reads(void **state)
{
    static const uint8_t lie[4] = {4, 3, 2, 1};
    struct kio *kio = create("read:1+=reply=1:0x01020304");
    int n;

    (void)state;
    for (n = 0; n <= 9; n++) {
        uint8_t got[40] = {0}, want[40] = {0};

        below.n_read = n;
        memset(want, 0x11, (size_t)n);
        if (n > 4)
            memcpy(want + 4, lie, n < 8 ? (size_t)n - 4 : 4);
        assert_int_equal(kio->ops->read_file(kio, "/x", got, 40), n);
        assert_memory_equal(got, want, sizeof(got));
    }
    expect_ok(kio_fault_set(kio, "read:1+=reply=0:0x01020304"));
    for (n = 0; n <= 5; n++) {
        uint8_t got[40] = {0};

        below.n_read = n;
        assert_int_equal(kio->ops->read_file(kio, "/x", got, 40), n);
        assert_memory_equal(got, lie, n < 4 ? (size_t)n : 4);
        assert_int_equal(got[n], 0);
    }
    kio_destroy(kio);
}

/* A plan in the place of another has nothing of it. */
static void
test_another_plan(void **state)
{
    struct kio *kio = create("");
    uint8_t got[40];

    (void)state;
    expect_ok(kio_fault_set(kio, "read:1+=EIO"));
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 40), -EIO);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 40), -EIO);
    assert_int_equal(kio_fault_hits(kio), 2);
    expect_ok(kio_fault_set(kio, "read:2=EIO"));
    assert_int_equal(kio_fault_hits(kio), 0);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 40), 30);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 40), -EIO);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 40), 30);
    assert_int_equal(kio_fault_hits(kio), 1);
    expect_ok(kio_fault_set(kio, "read:1+=EIO"));
    expect_ok(kio_fault_set(kio, "read=EIO"));
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 40), -EIO);
    assert_int_equal(kio->ops->read_file(kio, "/x", got, 40), 30);
    kio_destroy(kio);
}

static void
test_replies(void **state)
{
    static const struct {
        const char *plan;
        int result;
        uint8_t want[8]; /* of the struct, which was 10, 11, ... */
        unsigned n;
    } rows[] = {
        {"", 3, {11, 12, 13, 14, 15, 16, 17, 18}, 1},
        {"ioctl=truncate=0", 3, {10, 11, 12, 13, 14, 15, 16, 17}, 1},
        {"ioctl=truncate=3", 3, {11, 12, 13, 13, 14, 15, 16, 17}, 1},
        {"ioctl=truncate=8", 3, {11, 12, 13, 14, 15, 16, 17, 18}, 1},
        {"ioctl=truncate=9", 3, {11, 12, 13, 14, 15, 16, 17, 18}, 1},
        {"ioctl=reply=0:0x04030201", 3, {1, 2, 3, 4, 15, 16, 17, 18}, 1},
        {"ioctl=reply=1:0x04030201", 3, {11, 12, 13, 14, 1, 2, 3, 4}, 1},
        {"ioctl=reply=2:0x04030201", 3, {11, 12, 13, 14, 15, 16, 17, 18}, 1},
        /* it has no place for a status */
        {"ioctl=status=5", 3, {11, 12, 13, 14, 15, 16, 17, 18}, 1},
        {"AMDKFD_IOC_GET_VERSION=EIO",
         -EIO,
         {10, 11, 12, 13, 14, 15, 16, 17},
         0},
        {"AMDKFD_IOC_GET_VERSIO=EIO", 3, {11, 12, 13, 14, 15, 16, 17, 18}, 1},
    };
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct kio *kio = create(rows[i].plan);
        uint8_t bytes[8];

        for (k = 0; k < 8; k++)
            bytes[k] = (uint8_t)(10 + k);
        assert_int_equal(call(kio, OPEN), 7);
        assert_int_equal(kio->ops->ioctl(kio, 7, 0x80084b01, bytes),
                         rows[i].result);
        assert_memory_equal(bytes, rows[i].want, 8);
        assert_int_equal(below.n[IOCTL], rows[i].n);
        kio_destroy(kio);
    }
}

/* NVIDIA's: a status in the struct, the names of commands, and the words of
 * what its pointers lead to behind those of the struct. */
static void
test_commands(void **state)
{
    struct nv0080_gpu_get_num_subdevices params = {0};
    struct nv_os54 control = {
        .cmd = NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES,
        .params = (uintptr_t)&params,
        .paramsSize = sizeof(params),
    };
    unsigned long request = nv_request(NV_ESC_RM_CONTROL, sizeof(control));
    struct nv_os54 before = control;
    struct kio *kio =
        create("NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES=status=0x51525354,"
               "NV_ESC_RM_CONTROL:2=reply=8:77,ioctl:3=reply=7:78");

    (void)state;
    assert_int_equal(kio->ops->open(kio, "/dev/nvidiactl", O_RDWR), 7);
    assert_int_equal(kio->ops->ioctl(kio, 7, request, &control), 0);
    before.status = 0x51525354;
    assert_memory_equal(&control, &before, sizeof(control));
    assert_int_equal(below.n[IOCTL], 0);
    assert_string_equal(kio->ops->explain(kio), "as planned for call 1");
    assert_int_equal(kio->ops->ioctl(kio, 7, request, &control), 3);
    assert_int_equal(params.numSubDevices, 77);
    control = before;
    assert_int_equal(kio->ops->ioctl(kio, 7, request, &control), 3);
    assert_int_equal(control.status, 78);
    assert_int_equal(params.numSubDevices, 77);
    kio_destroy(kio);
}

/* One word in eight of a reply is anything: 0, all ones or random; always the
 * same for a seed and a call's number. */
static void
test_random(void **state)
{
    struct kio *kio = create("read:1+=random=5");
    unsigned n_changed = 0, n_zero = 0, n_ones = 0, call_number;
    uint32_t first[2][10];
    uint64_t all = 0;

    (void)state;
    for (call_number = 0; call_number < 2000; call_number++) {
        uint32_t words[10] = {0};
        int i;

        assert_int_equal(kio->ops->read_file(kio, "/x", words, 40), 30);
        for (i = 0; i < 7; i++) {
            n_changed += words[i] != 0x11111111;
            n_zero += words[i] == 0;
            n_ones += words[i] == UINT32_MAX;
        }
        assert_int_equal(words[7] >> 16, 0);
        assert_int_equal(words[8], 0);
        if (call_number < 2)
            memcpy(first[call_number], words, sizeof(words));
        all = hash_bytes(words, sizeof(words), all);
    }
    assert_true(all == 0xbe0b46504bb3d25e);
    /* 14000 words */
    assert_true(n_changed > 1600 && n_changed < 1900);
    assert_true(n_ones > n_changed / 5 && n_ones < n_changed / 3);
    assert_true(n_zero > n_changed / 5 && n_zero < n_changed / 3);
    expect_ok(kio_fault_set(kio, "read:1+=random=5"));
    for (call_number = 0; call_number < 2; call_number++) {
        uint32_t words[10] = {0};

        assert_int_equal(kio->ops->read_file(kio, "/x", words, 40), 30);
        assert_memory_equal(words, first[call_number], sizeof(words));
    }
    kio_destroy(kio);
}

static uint64_t
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Delays last as long as they say, and add up; the call is made. */
static void
test_delays(void **state)
{
    static const struct {
        const char *plan;
        uint64_t ns;
        int result;
    } rows[] = {
        {"read=delay=300000us", 300000000, 30},
        {"read=delay=20ms", 20000000, 30},
        {"read=delay=1s", 1000000000, 30},
        {"read=delay=999ms,read=delay=30ms,read=ENOENT", 1029000000, -ENOENT},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        struct kio *kio = create(rows[i].plan);
        uint64_t start = now_ns();

        assert_int_equal(call(kio, READ), rows[i].result);
        assert_true(now_ns() - start >= rows[i].ns);
        assert_int_equal(kio_fault_hits(kio), i == 3 ? 3 : 1);
        kio_destroy(kio);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),      cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_several),     cmocka_unit_test(test_plans),
        cmocka_unit_test(test_doorbells),   cmocka_unit_test(test_reads),
        cmocka_unit_test(test_short_reads), cmocka_unit_test(test_another_plan),
        cmocka_unit_test(test_replies),     cmocka_unit_test(test_commands),
        cmocka_unit_test(test_random),      cmocka_unit_test(test_delays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
