/* sim/nv/rm/rm.c, rm_object.c, rm_files.c, sim_nv.c: files, processes, clients
 * and objects of the simulated kernel driver: docs/hardware/nvidia-kernel.md,
 * "Bring-up", as far as work that is done, every documented wrong order, size,
 * handle and parent, what is left after closing at every step, two processes
 * on one machine, failing allocations, and a recorded bring-up that replays.
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
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "ioctl/kio_record.h"
#include "ioctl/kio_replay.h"
#include "ioctl/nv_uapi.h"
#include "rm_rig.h"
#include "sim/nv/gpu/gpu.h"
#include "sim/nv/sim_nv.h"

/* ---- the whole ----------------------------------------------------------- */

static void
test_bring_up(void **state)
{
    static const char *const specs[] = {"sm_80", "sm_89", "sm_90", "sm_120"};
    struct rig rig;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(specs); i++) {
        rig_init(&rig, specs[i]);
        rig_run(&rig, RIG_ALL);
        rig_check_work(&rig);
        rig_fini(&rig);
        rig_init(&rig, specs[i]);
        rig.engine = COPY(3);
        rig_run(&rig, RIG_ALL);
        rig_check_work(&rig);
        rig_fini(&rig);
    }
    assert_false(sim_nv_machine_exists());
}

static void
test_branches(void **state)
{
    struct rig rig;
    char spec[32];
    uint32_t i;

    (void)state;
    for (i = 0; nv_branch_name(i); i++) {
        snprintf(spec, sizeof(spec), "sm_90,branch=%s", nv_branch_name(i));
        rig_init(&rig, spec);
        assert_int_equal(rig.abi.branch, i);
        rig_run(&rig, RIG_ALL);
        rig_check_work(&rig);
        rig_fini(&rig);
    }
}

/* Ended after each step: by closing files, and by the process' end. */
static void
test_leaks(void **state)
{
    struct kio *watcher;
    struct rig rig;
    size_t i;

    (void)state;
    assert_int_equal(kio_sim_create("NV", "sm_90", &watcher), BELL_OK);
    for (i = 0; i <= RIG_ALL; i++) {
        rig_init(&rig, "sm_90");
        rig_run(&rig, i);
        rig_fini(&rig);
        rig_nothing_left(watcher);
        rig_init(&rig, "sm_90");
        rig_run(&rig, i);
        kio_destroy(rig.kio);
        rig_nothing_left(watcher);
    }
    kio_destroy(watcher);
    assert_false(sim_nv_machine_exists());
}

/* Every object freed on its own, from every side of the tree. */
static void
test_free_orders(void **state)
{
    static const size_t victims[] = {
        offsetof(struct rig, object),    offsetof(struct rig, channel),
        offsetof(struct rig, group),     offsetof(struct rig, notifier),
        offsetof(struct rig, memory),    offsetof(struct rig, carrier),
        offsetof(struct rig, usermode),  offsetof(struct rig, space),
        offsetof(struct rig, subdevice), offsetof(struct rig, device),
        offsetof(struct rig, client),
    };
    struct rig rig;
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(victims); i++) {
        rig_init(&rig, "sm_90");
        rig_run(&rig, RIG_ALL);
        for (k = i; k < ARRAY_LEN(victims); k++) {
            uint32_t handle;
            memcpy(&handle, (const uint8_t *)&rig + victims[k], 4);
            /* some are gone with others: a client takes all */
            (void)rig_free(&rig, handle);
        }
        assert_int_not_equal(rig_free(&rig, rig.client), 0);
        rig_fini(&rig);
    }
}

/* ---- machines and processes ---------------------------------------------- */

static void
test_specs(void **state)
{
    static const char *const wrong[] = {
        "",
        "sm_70",
        "sm_90*0",
        "sm_90*9",
        "sm_90*",
        "sm_90x2",
        "sm_90*2x",
        "sm_90,",
        "sm_90,branch=1",
        "sm_90*-1",
        "*2",
        "sm_90*1*2",
        "sm_900",
        "sm_90,b=580",
        ",branch=580",
        "sm_90,sms=3",
        "sm_90,sms=0",
        "sm_90,sms=514",
        "sm_90,sms=8x",
        "sm_90,sm=0x",
        "sm_90,sm=0x10000",
        "sm_90,sm=0xa0g",
        "sm_90,sm=900",
        "sm_90,bar1=0",
        "sm_90,bar1=100",
        "sm_90,bar1=524288",
        "sm_90,bar1=64x",
        "sm_90,ccc",
        "sm_90,cc,",
        "sm_90,branch=580,sms=4,",
    };
    struct kio *kio = NULL;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(kio_sim_create("NV", wrong[i], &kio),
                         BELL_E_NO_DEVICE);
        assert_non_null(
            strstr(bell_error_last()->message, "sm_80, sm_86, sm_89, sm_90"));
    }
    assert_int_equal(kio_sim_create("CPU", "sm_90", &kio), BELL_E_NO_DEVICE);
    assert_false(sim_nv_machine_exists());
}

/* All that the same spec names, however it is written, is one machine. */
static void
test_processes(void **state)
{
    struct nv_memory_alloc params = {.size = 0x1000};
    struct rig a, b;
    struct kio *other;
    uint32_t handle = 0;
    struct sim_nv_usage usage;

    (void)state;
    rig_init(&a, "sm_90");
    rig_init(&b, "sm_90*1,branch=580");
    assert_int_equal(kio_sim_create("NV", "sm_90*2", &other), BELL_OK);
    rig_run(&a, RIG_ALL);
    rig_run(&b, RIG_ALL);
    sim_nv_usage(a.kio, &usage);
    assert_int_equal(usage.clients, 2);
    sim_nv_usage(b.kio, &usage);
    assert_int_equal(usage.clients, 2);
    rig_nothing_left(other);
    rig_check_work(&a);
    rig_check_work(&b);
    /* another process' client is not ours */
    assert_int_not_equal(a.client, b.client);
    b.ctl.kio = b.kio;
    a.client ^= b.client;
    b.client ^= a.client;
    a.client ^= b.client;
    assert_int_equal(rig_alloc(&a, a.device, NV01_MEMORY_SYSTEM,
                               NV_S_NV_MEMORY_ALLOC, &params, &handle),
                     S_CLIENT);
    assert_int_equal(rig_free(&b, b.client), S_CLIENT);
    rig_close(&a);
    sim_nv_usage(b.kio, &usage);
    assert_int_equal(usage.clients, 1);
    kio_destroy(a.kio);
    rig_fini(&b);
    kio_destroy(other);
    assert_false(sim_nv_machine_exists());
}

static void *
run_process(void *arg)
{
    struct rig rig;
    int i;

    (void)arg;
    for (i = 0; i < 8; i++) {
        rig_init(&rig, "sm_90");
        rig.engine = i % 2 ? COPY(4) : GR0;
        rig_run(&rig, RIG_ALL);
        rig_check_work(&rig);
        rig_close(&rig);
        kio_destroy(rig.kio);
    }
    return NULL;
}

/* Machines come and go as their last process does. */
static void
test_threads(void **state)
{
    pthread_t threads[4];
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_process, NULL),
                         0);
    for (i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    assert_false(sim_nv_machine_exists());
}

/* Whether the simulated card sees loads through its window (gpu_bar.c). */
#if defined(__x86_64__)
#define SEES_LOADS true
#else
#define SEES_LOADS false
#endif

/* Who rings in BAR0 at once: how many of 40 submissions are not seen before
 * the next ring, which shows them all. */
static unsigned
count_lost(const char *spec, enum rig_bell bell)
{
    unsigned n_lost = 0, ms;
    struct rig rig;
    uint32_t i;

    rig_init(&rig, spec);
    rig.bell = bell;
    rig_run(&rig, RIG_ALL);
    for (i = 1; i <= 40; i++) {
        const volatile uint32_t *sem = rig_word(&rig, AT_SEM);

        rig_release(&rig, rig.va + AT_SEM, i);
        for (ms = 0; ms < 100 && *sem != i; ms++)
            usleep(1000);
        if (*sem == i)
            continue;
        n_lost++;
        rig.window[0x90 / 4] = rig.token;
        assert_true(rig_wait(sem, i));
    }
    rig_fini(&rig);
    return n_lost;
}

/* Stores through BAR1 and a doorbell in BAR0: from Hopper on one overtakes the
 * other, unless a read flushes them or the doorbell is in BAR1. */
static void
test_doorbells(void **state)
{
    static const char *const specs[] = {"sm_80", "sm_90", "sm_120"};
    static const char *const ordered[] = {"sm_80", "sm_90,ordered",
                                          "sm_120,sms=4,ordered"};
    struct rig rig;
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(specs); i++) {
        static const enum rig_bell bells[] = {RIG_BELL_FLUSHED, RIG_BELL_BAR1};
        size_t b;

        for (b = 0; b < ARRAY_LEN(bells); b++) {
            rig_init(&rig, specs[i]);
            rig.bell = bells[b];
            rig_run(&rig, RIG_ALL);
            rig_check_work(&rig);
            rig_fini(&rig);
        }
    }
    for (i = 1; SEES_LOADS && i < ARRAY_LEN(specs); i++) {
        unsigned n_lost = count_lost(specs[i], RIG_BELL_BAR0);

        if (n_lost < 4)
            fail_msg("%s: %u of 40 rings were too early", specs[i], n_lost);
    }
    for (i = 0; i < ARRAY_LEN(ordered); i++) {
        rig_init(&rig, ordered[i]);
        rig.bell = RIG_BELL_BAR0;
        rig_run(&rig, RIG_ALL);
        rig_check_work(&rig);
        rig_fini(&rig);
    }
}

/* The window in BAR1: for ringing alone; and none that is privileged. */
static void
test_windows(void **state)
{
    struct nv_hopper_usermode_a params = {.bPriv = 1};
    uint32_t object = 0, time_0, time_1;
    struct rig rig;

    (void)state;
    rig_init(&rig, "sm_90");
    rig.bell = RIG_BELL_BAR1;
    rig_run(&rig, RIG_MEMORY);
    time_0 = rig.window[0x80 / 4];
    time_1 = rig.window[0x84 / 4];
    usleep(20000);
    assert_int_equal(rig.window[0x80 / 4], time_0);
    assert_int_equal(rig.window[0x84 / 4], time_1);
    assert_int_equal(rig_alloc(&rig, rig.subdevice, HOPPER_USERMODE_A,
                               NV_S_NV_HOPPER_USERMODE_A, &params, &object),
                     S_PARAMETER);
    params.bBar1Mapping = 1;
    assert_int_equal(rig_alloc(&rig, rig.subdevice, HOPPER_USERMODE_A,
                               NV_S_NV_HOPPER_USERMODE_A, &params, &object),
                     S_PERMISSIONS);
    rig_fini(&rig);
}

/* A token that is not a channel's is reported. */
static void
test_bell_error(void **state)
{
    struct rig rig;
    char text[128] = "";
    unsigned i;

    (void)state;
    rig_init(&rig, "sm_90*2");
    rig_run(&rig, RIG_ALL);
    rig_check_work(&rig);
    assert_false(sim_nv_bell_error(rig.kio, text, sizeof(text)));
    rig.window[0x90 / 4] = 0xabcd;
    for (i = 0; i < WAIT_MS && !sim_nv_bell_error(rig.kio, text, sizeof(text));
         i++)
        usleep(1000);
    assert_non_null(strstr(text, "0xabcd"));
    rig_fini(&rig);
    assert_false(sim_nv_bell_error(NULL, text, sizeof(text)));
}

/* The n-th allocation fails, for every n: clean, and nothing stays. */
static void
test_no_memory(void **state)
{
    volatile uint64_t n;
    volatile bool done = false;
    static struct rig rig;
    jmp_buf give_up;

    (void)state;
    for (n = 1; !done; n++) {
        struct kio *kio = NULL;
        host_fail_after(n, 0);
        if (kio_sim_create("NV", "sm_90", &kio) != BELL_OK) {
            host_fail_after(0, 0);
            assert_int_equal(bell_error_last()->status, BELL_E_NO_MEMORY);
            assert_false(sim_nv_machine_exists());
            continue;
        }
        rig_init_on(&rig, kio, "580.159.04", GR0);
        if (setjmp(give_up) == 0) {
            rig_give_up = &give_up;
            rig_run(&rig, RIG_ALL);
            done = true;
        }
        rig_give_up = NULL;
        host_fail_after(0, 0);
        rig_fini(&rig);
    }
    assert_true(n > 30);
    print_message("%u allocations failed in turn\n", (unsigned)n - 1);
}

static void
test_replay(void **state)
{
    char path[] = "/tmp/bell-sim-rm-XXXXXX";
    struct kio *kio;
    struct rig rig;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(kio_sim_create("NV", "sm_90", &kio), BELL_OK);
    assert_int_equal(kio_record_create(kio, path, &kio), BELL_OK);
    rig_init_on(&rig, kio, "580.159.04", GR0);
    rig_run(&rig, RIG_SPACE);
    rig_run_from(&rig, RIG_SPACE + 1); /* a replayed clock stands still */
    rig_close(&rig);
    assert_int_equal(kio_record_finish(kio), BELL_OK);
    rig_nothing_left(kio);
    kio_destroy(kio);

    assert_int_equal(kio_replay_create(path, &kio), BELL_OK);
    rig_init_on(&rig, kio, "580.159.04", GR0);
    rig_run(&rig, RIG_SPACE);
    rig_run_from(&rig, RIG_SPACE + 1); /* a replayed clock stands still */
    rig_close(&rig);
    assert_int_equal(kio_replay_finish(kio), BELL_OK);
    kio_destroy(kio);
    unlink(path);
}

/* ---- files --------------------------------------------------------------- */

static void
test_nodes(void **state)
{
    static const char *const absent[] = {
        "/dev/nvidia1", "/dev/nvidia-uvm-tools", "/dev/nvidia", "/dev/nvidiax",
        "/dev/null",    "/dev/nvidia0x",         "/dev/kfd",
    };
    struct rig rig;
    struct kio_file file;
    short revents = 1;
    size_t i;

    (void)state;
    rig_init(&rig, "sm_90");
    for (i = 0; i < ARRAY_LEN(absent); i++) {
        assert_int_equal(kio_open(rig.kio, absent[i], O_RDWR, &file),
                         BELL_E_NO_DEVICE);
        assert_non_null(strstr(bell_error_last()->message, absent[i]));
    }
    rig_run(&rig, RIG_NODE);
    assert_int_equal(kio_poll(&rig.node, POLLIN, 10, &revents), BELL_OK);
    assert_int_equal(revents, 0);
    file = rig.node;
    file.fd = 7;
    assert_int_not_equal(rig_errno(&file, 0xc0104629, &file), 0);
    rig_fini(&rig);
}

static void
test_text_files(void **state)
{
    static const struct {
        const char *path, *part;
    } files[] = {
        {"/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel "
                                        "Module for x86_64  580.159.04 "},
        {"/proc/driver/nvidia/params", "ModifyDeviceFiles: 1\n"},
        {"/proc/devices", "195 nvidiactl\n"},
        {"/proc/devices", " nvidia-uvm\n"},
        {"/proc/driver/nvidia/gpus/0000:51:00.0/information",
         "Device Minor: \t 1\n"},
        {"/sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n"},
        {"/sys/bus/pci/devices/0000:41:00.0/device", "0x2330\n"},
        {"/sys/bus/pci/devices/0000:51:00.0/resource", "0x0000020000000000 "},
    };
    static const char *const absent[] = {
        "/proc/driver/nvidia/gpus/0000:61:00.0/information",
        "/proc/driver/nvidia/gpus/0000:41:00.0/x",
        "/sys/bus/pci/devices/0000:41:00.0/nothing",
        "/proc/version",
    };
    char text[1024];
    struct kio *kio;
    size_t i, n;

    (void)state;
    assert_int_equal(kio_sim_create("NV", "sm_90*2", &kio), BELL_OK);
    for (i = 0; i < ARRAY_LEN(files); i++) {
        assert_int_equal(
            kio_read_file(kio, files[i].path, text, sizeof(text), &n), BELL_OK);
        assert_non_null(strstr(text, files[i].part));
    }
    for (i = 0; i < ARRAY_LEN(absent); i++) {
        assert_int_equal(kio_read_file(kio, absent[i], text, sizeof(text), &n),
                         BELL_E_IO);
        assert_non_null(strstr(bell_error_last()->message, absent[i]));
    }
    assert_int_equal(
        kio_read_file(kio, "/proc/driver/nvidia/version", text, 20, &n),
        BELL_E_IO);
    kio_destroy(kio);
}

/* Wrong sizes, wrong files and unknown numbers fail as system calls. */
static void
test_requests(void **state)
{
    static uint64_t buf[512]; /* as large as the largest of them */
    struct nv_card_info infos[2] = {0};
    struct nv_register_fd reg;
    struct rig rig;
    static const struct {
        uint32_t number, size_bytes;
    } wrong[] = {
        {NV_ESC_RM_ALLOC, 40},
        {NV_ESC_RM_ALLOC, 56},
        {NV_ESC_RM_FREE, 20},
        {NV_ESC_RM_CONTROL, 24},
        {NV_ESC_RM_MAP_MEMORY, 48},
        {NV_ESC_RM_MAP_MEMORY_DMA, 56},
        {NV_ESC_RM_UNMAP_MEMORY_DMA, 40},
        {NV_ESC_RM_DUP_OBJECT, 32},
        {NV_ESC_SYS_PARAMS, 4},
        {NV_ESC_IOCTL_XFER_CMD, 24},
        {NV_ESC_CARD_INFO, 71},
        {0x42, 16},
        {NV_ESC_REGISTER_FD, 4},
        {NV_ESC_RM_ALLOC_MEMORY, 56},
        {NV_ESC_EXPORT_TO_DMABUF_FD, 2608},
    };
    size_t i;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_NODE);
    for (i = 0; i < ARRAY_LEN(wrong); i++)
        assert_int_equal(
            rig_errno(&rig.ctl,
                      nv_request(wrong[i].number, wrong[i].size_bytes), buf),
            EINVAL);
    assert_int_equal(rig_errno(&rig.ctl, 0xc0104729, buf), EINVAL);
    assert_int_equal(rig_errno(&rig.ctl, 0x40104629, buf), EINVAL);
    assert_int_equal(
        rig_errno(&rig.node, nv_request(NV_ESC_RM_CONTROL, 32), buf), EINVAL);
    assert_int_equal(
        rig_errno(&rig.node, nv_request(NV_ESC_CARD_INFO, 72), buf), EINVAL);
    /* the wrapper would look at the argument for its message */
    assert_int_equal(rig.kio->ops->ioctl(rig.kio, rig.ctl.fd,
                                         nv_request(NV_ESC_RM_CONTROL, 32),
                                         (void *)16),
                     -EFAULT);
    reg.ctl_fd = rig.ctl.fd;
    assert_int_equal(
        rig_errno(&rig.node, nv_request(NV_ESC_REGISTER_FD, 4), &reg),
        EINVAL); /* a second time */
    rig_open(&rig, "/dev/nvidia0", &rig.view_file);
    reg.ctl_fd = rig.node.fd;
    assert_int_equal(
        rig_errno(&rig.view_file, nv_request(NV_ESC_REGISTER_FD, 4), &reg),
        EINVAL);
    assert_int_equal(
        rig_errno(&rig.ctl, nv_request(NV_ESC_CARD_INFO, sizeof(infos)), infos),
        0);
    assert_true(infos[0].valid && !infos[1].valid);
    rig_fini(&rig);
}

/* The small ones: parameters, the version as text, a wrapped call. */
static void
test_small_escapes(void **state)
{
    struct nv_sys_params sys = {0};
    struct nv_rm_api_version version = {.versionString = "580.159.04"};
    struct nv_wait_open_complete wait = {.rc = 5};
    struct nv_os64 alloc = {.hClass = NV01_ROOT_CLIENT};
    struct nv_os21 small = {.hClass = NV01_DEVICE_0};
    struct nv0080_alloc device = {0};
    struct nv_xfer xfer = {NV_ESC_RM_ALLOC, sizeof(alloc), (uintptr_t)&alloc};
    struct rig rig;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_NODE);
    assert_int_equal(
        rig_errno(&rig.ctl, nv_request(NV_ESC_SYS_PARAMS, 8), &sys), 0);
    assert_true(is_pow2(sys.memblock_size));
    assert_int_equal(
        rig_errno(&rig.ctl, nv_request(NV_ESC_CHECK_VERSION_STR, 72), &version),
        0);
    assert_int_equal(version.reply, 1);
    strcpy(version.versionString, "535.1");
    assert_int_equal(
        rig_errno(&rig.ctl, nv_request(NV_ESC_CHECK_VERSION_STR, 72), &version),
        0);
    assert_int_equal(version.reply, 0);
    assert_string_equal(version.versionString, "580.159.04");
    assert_int_equal(
        rig_errno(&rig.node, nv_request(NV_ESC_WAIT_OPEN_COMPLETE, 8), &wait),
        0);
    assert_int_equal(wait.rc, 0);
    assert_int_equal(
        rig_errno(&rig.ctl, nv_request(NV_ESC_IOCTL_XFER_CMD, 16), &xfer), 0);
    assert_int_equal(alloc.status, 0);
    assert_int_not_equal(alloc.hObjectNew, 0);
    xfer.cmd = NV_ESC_IOCTL_XFER_CMD;
    assert_int_equal(
        rig_errno(&rig.ctl, nv_request(NV_ESC_IOCTL_XFER_CMD, 16), &xfer),
        EINVAL);
    /* the short form of the allocation */
    small.hRoot = small.hObjectParent = rig.client;
    small.pAllocParms = (uintptr_t)&device;
    assert_int_equal(
        rig_errno(&rig.ctl, nv_request(NV_ESC_RM_ALLOC, sizeof(small)), &small),
        0);
    assert_int_equal(small.status, 0);
    assert_int_not_equal(small.hObjectNew, 0);
    rig_fini(&rig);
}

/* ---- clients and objects ------------------------------------------------- */

/* A client belongs to the file that it was made on. */
static void
test_clients(void **state)
{
    struct nv0080_alloc device = {0};
    struct kio_file ctl;
    struct rig rig;
    uint32_t handle = 0x1234, same = 0x1234, first;
    struct sim_nv_usage usage;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_DEVICE);
    first = rig.client;
    assert_int_equal(
        rig_alloc(&rig, 0, NV01_ROOT_CLIENT, NO_STRUCT, NULL, &handle), 0);
    assert_int_equal(handle, 0x1234);
    assert_int_equal(rig_alloc(&rig, 0, NV01_ROOT, NO_STRUCT, NULL, &same),
                     S_DUPLICATE);
    rig_open(&rig, "/dev/nvidiactl", &ctl);
    same = rig.ctl.fd;
    rig.ctl.fd = ctl.fd;
    handle = 0;
    assert_int_equal(rig_alloc(&rig, first, NV01_DEVICE_0, NV_S_NV0080_ALLOC,
                               &device, &handle),
                     S_CLIENT);
    assert_int_equal(rig_free(&rig, first), S_CLIENT);
    rig.ctl.fd = (int)same;
    kio_close(&ctl);
    sim_nv_usage(rig.kio, &usage);
    assert_int_equal(usage.clients, 2);
    assert_int_equal(rig_free(&rig, first), 0);
    assert_int_equal(rig_free(&rig, first), S_CLIENT);
    rig_fini(&rig);
}

static void
test_handles(void **state)
{
    struct nv2080_alloc sub = {0};
    struct nv_vaspace_alloc space = {0};
    struct nv0080_alloc device = {.deviceId = 1};
    struct rig rig;
    uint32_t handle = 0x77, other = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, RIG_DEVICE);
    assert_int_equal(rig_alloc(&rig, rig.device, FERMI_VASPACE_A,
                               NV_S_NV_VASPACE_ALLOC, &space, &handle),
                     0);
    assert_int_equal(handle, 0x77);
    assert_int_equal(rig_alloc(&rig, rig.device, FERMI_VASPACE_A,
                               NV_S_NV_VASPACE_ALLOC, &space, &handle),
                     S_DUPLICATE);
    /* parents that are not there, or of the wrong kind */
    assert_int_equal(rig_alloc(&rig, 0x999, NV20_SUBDEVICE_0, NV_S_NV2080_ALLOC,
                               &sub, &other),
                     S_PARENT);
    assert_int_equal(rig_alloc(&rig, rig.client, NV20_SUBDEVICE_0,
                               NV_S_NV2080_ALLOC, &sub, &other),
                     S_PARENT);
    assert_int_equal(
        rig_alloc(&rig, rig.device, HOPPER_COMPUTE_A, NO_STRUCT, NULL, &other),
        S_PARENT);
    assert_int_equal(
        rig_alloc(&rig, rig.device, HOPPER_USERMODE_A, NO_STRUCT, NULL, &other),
        S_PARENT);
    /* classes that nobody has, and that this chip has not */
    assert_int_equal(
        rig_alloc(&rig, rig.device, 0x4242, NO_STRUCT, NULL, &other), S_CLASS);
    assert_int_equal(rig_alloc(&rig, rig.subdevice, BLACKWELL_USERMODE_A,
                               NO_STRUCT, NULL, &other),
                     S_CLASS);
    /* parameters that are missing, or too many, or not there */
    assert_int_equal(
        rig_alloc(&rig, rig.device, FERMI_VASPACE_A, NO_STRUCT, NULL, &other),
        S_ARGUMENT);
    assert_int_equal(rig_alloc(&rig, rig.subdevice, TURING_USERMODE_A,
                               NV_S_NV2080_ALLOC, &sub, &other),
                     S_ARGUMENT);
    /* devices */
    assert_int_equal(rig_alloc(&rig, rig.client, NV01_DEVICE_0,
                               NV_S_NV0080_ALLOC, &device, &other),
                     S_DEVICE);
    sub.subDeviceId = 1;
    assert_int_equal(rig_alloc(&rig, rig.device, NV20_SUBDEVICE_0,
                               NV_S_NV2080_ALLOC, &sub, &other),
                     S_DEVICE);
    assert_int_equal(rig_free(&rig, 0x999), 0); /* observed: H100 */
    assert_int_equal(rig_free(&rig, handle), 0);
    assert_int_equal(rig_free(&rig, handle), 0);
    assert_int_equal(rig_control_sized(&rig, handle, 0, NULL, 0), S_HANDLE);
    assert_int_equal(other, 0);
    rig_fini(&rig);
}

/* A card is there for RM while its node is open, or it was attached. */
static void
test_attach(void **state)
{
    struct nv0000_gpu_get_id_info_v2 id = {0};
    struct nv0000_gpu_get_probed_ids probed = {0};
    struct nv0000_gpu_get_attached_ids attached = {0};
    struct nv0000_gpu_attach_ids ids;
    struct nv0080_alloc device = {0};
    struct rig rig;
    uint32_t handle = 0;

    (void)state;
    rig_init(&rig, "sm_90");
    rig_run(&rig, 3);
    id.gpuId = rig.gpu_id;
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2,
                                 NV_S_NV0000_GPU_GET_ID_INFO_V2, &id),
                     S_ARGUMENT);
    assert_int_equal(rig_alloc(&rig, rig.client, NV01_DEVICE_0,
                               NV_S_NV0080_ALLOC, &device, &handle),
                     S_DEVICE);
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_GPU_GET_PROBED_IDS,
                                 NV_S_NV0000_GPU_GET_PROBED_IDS, &probed),
                     0);
    assert_int_equal(probed.gpuIds[0], rig.gpu_id);
    assert_int_equal(probed.gpuIds[1], 0xffffffff);
    memcpy(ids.gpuIds, probed.gpuIds, sizeof(ids.gpuIds));
    ids.failedId = 7; /* stays */
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_GPU_ATTACH_IDS,
                                 NV_S_NV0000_GPU_ATTACH_IDS, &ids),
                     0);
    assert_int_equal(ids.failedId, 7);
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS,
                                 NV_S_NV0000_GPU_GET_ATTACHED_IDS, &attached),
                     0);
    assert_int_equal(attached.gpuIds[0], rig.gpu_id);
    assert_int_equal(rig_alloc(&rig, rig.client, NV01_DEVICE_0,
                               NV_S_NV0080_ALLOC, &device, &handle),
                     0);
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_GPU_DETACH_IDS,
                                 NV_S_NV0000_GPU_DETACH_IDS, &ids),
                     0);
    ids.gpuIds[0] = 0x12345;
    assert_int_equal(rig_control(&rig, rig.client,
                                 NV0000_CTRL_CMD_GPU_ATTACH_IDS,
                                 NV_S_NV0000_GPU_ATTACH_IDS, &ids),
                     S_ARGUMENT);
    assert_int_equal(ids.failedId, 0x12345);
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bring_up),  cmocka_unit_test(test_branches),
        cmocka_unit_test(test_leaks),     cmocka_unit_test(test_free_orders),
        cmocka_unit_test(test_specs),     cmocka_unit_test(test_processes),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_doorbells),
        cmocka_unit_test(test_windows),   cmocka_unit_test(test_bell_error),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_replay),
        cmocka_unit_test(test_nodes),     cmocka_unit_test(test_text_files),
        cmocka_unit_test(test_requests),  cmocka_unit_test(test_small_escapes),
        cmocka_unit_test(test_clients),   cmocka_unit_test(test_handles),
        cmocka_unit_test(test_attach),
    };

    if (log_init() != BELL_OK)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
