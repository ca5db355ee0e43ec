/* sim/nv/rm/: many random calls with handles, sizes, flags and addresses
 * that are right more often than chance would have it. Nothing may crash, and
 * nothing is left when the files are closed. The seed is fixed; a sanitizer
 * build is what this is for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/map.h"
#include "ioctl/nv_uapi.h"
#include "rm_rig.h"
#include "sim/nv/sim_nv.h"

#define N_HANDLES 48u
#define N_CALLS   6000
#define N_FILES   6

struct chaos {
    struct rig rig;
    uint64_t seed;
    struct kio_file files[N_FILES]; /* fd -1: closed */
    void *maps[N_FILES];
    size_t map_bytes[N_FILES];
    uint32_t n_done, n_refused;
};

static uint32_t
pick(struct chaos *c, uint32_t n)
{
    c->seed = hash_mix(c->seed + 0x9e3779b97f4a7c15ull);
    return (uint32_t)(c->seed >> 33) % n;
}

static void
count(struct chaos *c, uint32_t status)
{
    if (status)
        c->n_refused++;
    else
        c->n_done++;
}

static uint32_t
any_handle(struct chaos *c)
{
    struct rig *rig = &c->rig;
    const uint32_t known[] = {rig->client,
                              rig->device,
                              rig->subdevice,
                              rig->space,
                              rig->memory,
                              rig->carrier,
                              rig->group,
                              rig->channel,
                              rig->object,
                              rig->notifier,
                              0};

    if (pick(c, 4) == 0)
        return known[pick(c, ARRAY_LEN(known))];
    return 1 + pick(c, N_HANDLES);
}

static uint64_t
any_size(struct chaos *c)
{
    static const uint64_t sizes[] = {0, 1, 0x1000, 0x10000, HUGE, 4 * HUGE};

    return sizes[pick(c, ARRAY_LEN(sizes))];
}

static uint64_t
any_va(struct chaos *c)
{
    static const uint64_t bases[] = {0x200000, 0x1000000, 0x100000000,
                                     0x2000000000};

    return bases[pick(c, ARRAY_LEN(bases))] +
           pick(c, 8) * (pick(c, 2) ? HUGE : 0x1000u);
}

/* ---- calls --------------------------------------------------------------- */

static void
call_memory(struct chaos *c, uint32_t parent, uint32_t handle)
{
    static const uint32_t attrs[] = {0x19800000, 0x18000000, 0x1a000000,
                                     0x10000000, 0x0a000000};
    static const uint32_t classes[] = {0x40, 0x3e, 0x50a0};
    struct nv_memory_alloc p = {
        .flags = pick(c, 2) ? 0x1c101 : 0x80001u | pick(c, 2) << 4,
        .attr = attrs[pick(c, ARRAY_LEN(attrs))],
        .size = any_size(c),
        .alignment = any_size(c),
        .offset = any_va(c),
        .hVASpace = any_handle(c),
    };

    count(c, rig_alloc(&c->rig, parent, classes[pick(c, 3)],
                       NV_S_NV_MEMORY_ALLOC, &p, &handle));
}

static void
call_channel(struct chaos *c, uint32_t parent, uint32_t handle)
{
    struct nv_channel_alloc p = rig_channel_params(&c->rig);

    p.engineType = pick(c, 2) ? 0 : GR0;
    p.gpFifoOffset = pick(c, 2) ? c->rig.va : any_va(c);
    p.hUserdMemory[0] = any_handle(c);
    p.userdOffset[0] = 512u * pick(c, 32);
    p.hObjectError = pick(c, 2) ? 0 : any_handle(c);
    count(c, rig_alloc(&c->rig, parent, 0xc86f, NV_S_NV_CHANNEL_ALLOC, &p,
                       &handle));
}

static void
call_alloc(struct chaos *c)
{
    struct rig *rig = &c->rig;
    uint32_t parent = pick(c, 3) ? rig->device : any_handle(c);
    uint32_t handle = pick(c, 8) ? any_handle(c) : 0;
    struct nv_vaspace_alloc space = {.flags = pick(c, 2) ? 0 : 0x48};
    struct nv_channel_group_alloc group = {
        .hVASpace = any_handle(c),
        .engineType = pick(c, 2) ? GR0 : COPY(pick(c, 12)),
        .hObjectError = pick(c, 2) ? 0 : any_handle(c),
    };
    struct nv_memory_virtual_alloc dynamic = {.hVASpace = any_handle(c)};
    struct nv83de_alloc debugger = {.hAppClient = rig->client,
                                    .hClass3dObject = any_handle(c)};
    struct nv0080_alloc device = {.deviceId = pick(c, 3)};

    switch (pick(c, 10)) {
    case 0:
        count(c, rig_alloc(rig, parent, FERMI_VASPACE_A, NV_S_NV_VASPACE_ALLOC,
                           &space, &handle));
        break;
    case 1:
        count(c, rig_alloc(rig, parent, KEPLER_CHANNEL_GROUP_A,
                           NV_S_NV_CHANNEL_GROUP_ALLOC, &group, &handle));
        break;
    case 2:
        call_channel(c, any_handle(c), handle);
        break;
    case 3:
        count(c, rig_alloc(rig, any_handle(c), pick(c, 2) ? 0xcbc0 : 0xc8b5,
                           NO_STRUCT, NULL, &handle));
        break;
    case 4:
        count(c, rig_alloc(rig, parent, NV01_MEMORY_VIRTUAL,
                           NV_S_NV_MEMORY_VIRTUAL_ALLOC, &dynamic, &handle));
        break;
    case 5:
        count(c, rig_alloc(rig, parent, GT200_DEBUGGER, NV_S_NV83DE_ALLOC,
                           &debugger, &handle));
        break;
    case 6:
        count(c, rig_alloc(rig, rig->client, NV01_DEVICE_0, NV_S_NV0080_ALLOC,
                           &device, &handle));
        break;
    default:
        call_memory(c, parent, handle);
        break;
    }
}

static void
call_map(struct chaos *c)
{
    static const uint32_t flags[] = {0, 0x8000, 0x8010, 0x8110, 0x8400};
    uint64_t va = any_va(c);

    if (pick(c, 3))
        count(c, rig_map_gpu(&c->rig, any_handle(c), any_handle(c),
                             pick(c, 2) ? 0 : any_size(c), any_size(c),
                             flags[pick(c, ARRAY_LEN(flags))], &va));
    else
        count(c, rig_unmap_gpu(&c->rig, any_handle(c), any_handle(c), va,
                               any_size(c)));
}

static void
call_cpu_map(struct chaos *c)
{
    uint32_t i = pick(c, N_FILES);
    size_t n = any_size(c);

    if (c->maps[i]) {
        kio_munmap(c->rig.kio, c->maps[i], c->map_bytes[i]);
        c->maps[i] = NULL;
        return;
    }
    if (c->files[i].fd < 0) {
        rig_open(&c->rig, pick(c, 2) ? "/dev/nvidia0" : "/dev/nvidiactl",
                 &c->files[i]);
    } else if (pick(c, 4) == 0) {
        kio_close(&c->files[i]);
    } else if (pick(c, 2)) {
        count(c,
              rig_map_cpu(&c->rig, c->rig.device, any_handle(c),
                          pick(c, 2) ? 0 : any_size(c), n, &c->files[i], NULL));
    } else if (n && kio_mmap(c->rig.kio, &c->files[i], NULL, n,
                             PROT_READ | PROT_WRITE, MAP_SHARED, 0,
                             &c->maps[i]) == BELL_OK) {
        c->map_bytes[i] = n;
        *(volatile uint32_t *)c->maps[i] = 1;
    }
}

static void
call_dup(struct chaos *c)
{
    struct nv_os55 call = {
        .hClient = c->rig.client,
        .hParent = pick(c, 2) ? c->rig.device : any_handle(c),
        .hObject = any_handle(c),
        .hClientSrc = c->rig.client,
        .hObjectSrc = any_handle(c),
    };

    count(c, rig_escape(&c->rig, &c->rig.ctl, NV_ESC_RM_DUP_OBJECT,
                        NV_S_NV_OS55, &call));
}

static void
call_control(struct chaos *c)
{
    static const uint32_t commands[] = {0xc36f0108, 0xa06c0101, 0xa06f0103,
                                        0x906f0106, 0x83de0328, 0x83de0310,
                                        0x2080014a, 0x800201,   0x906f0101};
    static const uint32_t sizes[] = {4, 3, 3, 104, 72, 8, 268, 16, 16};
    uint64_t params[64] = {0};
    uint32_t i = pick(c, ARRAY_LEN(commands));

    params[0] = pick(c, 3) ? pick(c, 4) : any_handle(c);
    count(c, rig_control_sized(&c->rig, any_handle(c), commands[i], params,
                               sizes[i]));
}

static void
call_free(struct chaos *c)
{
    uint32_t handle = 1 + pick(c, N_HANDLES);

    /* now and then what the rest hangs on */
    if (pick(c, 64) == 0)
        handle = any_handle(c);
    if (handle != c->rig.client && handle != c->rig.device)
        count(c, rig_free(&c->rig, handle));
}

static void
run(struct chaos *c, uint64_t seed)
{
    int i;

    memset(c, 0, sizeof(*c));
    c->seed = seed;
    rig_init(&c->rig, "sm_90*2");
    rig_run(&c->rig, RIG_ALL);
    for (i = 0; i < N_FILES; i++)
        c->files[i].fd = -1;
    for (i = 0; i < N_CALLS; i++) {
        switch (pick(c, 12)) {
        case 0:
        case 1:
        case 2:
        case 3:
            call_alloc(c);
            break;
        case 4:
        case 5:
            call_map(c);
            break;
        case 6:
            call_cpu_map(c);
            break;
        case 7:
            call_dup(c);
            break;
        case 8:
            call_control(c);
            break;
        default:
            call_free(c);
            break;
        }
    }
    for (i = 0; i < N_FILES; i++) {
        kio_munmap(c->rig.kio, c->maps[i], c->map_bytes[i]);
        kio_close(&c->files[i]);
    }
    rig_fini(&c->rig);
}

static void
test_random(void **state)
{
    struct chaos c;
    uint32_t n_done = 0, n_refused = 0;
    uint64_t seed;

    (void)state;
    for (seed = 1; seed <= 6; seed++) {
        run(&c, seed);
        n_done += c.n_done;
        n_refused += c.n_refused;
    }
    print_message("%u calls done, %u refused\n", n_done, n_refused);
    assert_true(n_done > 1000 && n_refused > 1000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    if (log_init() != BELL_OK)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
