/* ioctl/cassette_play.c on a kernel that writes down what it is asked: which
 * calls are made of a recording, with which files, handles and addresses of
 * now, and what is told to differ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "ioctl/amdkfd_uapi.h"
#include "ioctl/cassette.h"
#include "ioctl/cassette_play.h"
#include "ioctl/kio.h"
#include "ioctl/nv_uapi.h"
#include "tests/unit/expect.h"

#define PAGE 4096u
#define AT   0x200000000000u /* of recorded mappings */

#define ACQUIRE_VM   0x40084b15u
#define MAP_MEMORY   0xc0184b18u
#define FREE_MEMORY  0x40084b17u
#define ALLOC_MEMORY 0xc0284b16u
#define GET_VERSION  0x80084b01u
#define REGISTER_GPU 0x25u
#define ALLOC_PINNED 0xc0384627u

static char log_text[4096], told[4096];
static int answer;           /* of the next call */
static uint64_t answer_word; /* that a handle of a reply becomes */
static const char *contents;
static uint8_t *maps[8]; /* made, in order */
static unsigned n_maps;
static const char *uuid;   /* of the card that is registered */
static uint64_t pinned[8]; /* addresses */
static unsigned n_pinned;

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void
note(const char *fmt, ...)
{
    size_t n = strlen(log_text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(log_text + n, sizeof(log_text) - n, fmt, args);
    va_end(args);
}

/* "map 2+0x1000" */
static void
note_place(const char *what, const void *addr)
{
    unsigned i;

    for (i = n_maps; i-- > 0;) {
        if ((const uint8_t *)addr >= maps[i] &&
            (const uint8_t *)addr < maps[i] + 64 * PAGE) {
            note("%s map %u+0x%zx", what, i,
                 (size_t)((const uint8_t *)addr - maps[i]));
            return;
        }
    }
    note("%s elsewhere", what);
}

static int
fake_open(struct kio *kio, const char *path, int flags)
{
    (void)kio;
    note("open %s %x\n", path, (unsigned)flags);
    return answer;
}

static int
fake_close(struct kio *kio, int fd)
{
    (void)kio;
    note("close %d\n", fd);
    return 0;
}

static int
fake_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    (void)kio;
    if (request == ACQUIRE_VM) {
        struct amdkfd_acquire_vm *vm = arg;
        note("vm of %d: %d %u\n", fd, (int)vm->drm_fd, vm->gpu_id);
    } else if (request == ALLOC_MEMORY) {
        struct amdkfd_alloc_memory *alloc = arg;
        note("alloc of %d: 0x%llx\n", fd, (unsigned long long)alloc->size);
        alloc->handle = answer_word;
    } else if (request == FREE_MEMORY) {
        struct amdkfd_free_memory *memory = arg;
        note("free of %d: 0x%llx\n", fd, (unsigned long long)memory->handle);
    } else if (request == GET_VERSION) {
        struct amdkfd_get_version *version = arg;
        note("version of %d\n", fd);
        version->major_version = (uint32_t)answer_word;
    } else if (request == MAP_MEMORY) {
        struct amdkfd_map_memory *map = arg;
        const uint32_t *ids =
            (const void *)(uintptr_t)map->device_ids_array_ptr;
        note("map of %d: 0x%llx, %u:", fd, (unsigned long long)map->handle,
             map->n_devices);
        for (uint32_t i = 0; i < map->n_devices; i++)
            note(" %u", ids[i]);
        note("\n");
    } else if (request == REGISTER_GPU) {
        struct uvm_register_gpu *gpu = arg;
        note("gpu %.16s\n", (const char *)gpu->gpu_uuid);
        memcpy(gpu->gpu_uuid, uuid, 16);
    } else if (request == ALLOC_PINNED) {
        struct nv_os02_fd *pin = arg;
        pinned[n_pinned++] = pin->params.pMemory;
    } else {
        note("ioctl 0x%lx of %d with %s\n", request, fd,
             arg ? "memory" : "nothing");
    }
    return answer;
}

static int
fake_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot, int flags,
          int fd, uint64_t offset)
{
    (void)kio;
    note("mmap %zu %x %x of %d at 0x%llx", size_bytes, (unsigned)prot,
         (unsigned)flags, fd, (unsigned long long)offset);
    if (flags & MAP_FIXED)
        note_place(",", *addr);
    note("\n");
    if (answer < 0)
        return answer;
    if (!(flags & MAP_FIXED)) {
        assert_null(*addr);
        *addr = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(*addr != MAP_FAILED && n_maps < ARRAY_LEN(maps));
        maps[n_maps++] = *addr;
    }
    return 0;
}

static int
fake_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    (void)kio;
    note("munmap %zu", size_bytes);
    note_place(" of", addr);
    note("\n");
    assert_non_null(addr);
    return munmap(addr, size_bytes);
}

static int
fake_poll(struct kio *kio, int fd, short events, int timeout_ms,
          short *out_revents)
{
    (void)kio;
    note("poll %d for %d, %d\n", fd, events, timeout_ms);
    *out_revents = 1;
    return answer;
}

static int
fake_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    size_t n = contents ? strlen(contents) : 0;

    (void)kio;
    note("read %s, at most %zu\n", path, cap);
    if (answer < 0)
        return answer;
    n = n < cap ? n : cap;
    if (n)
        memcpy(buf, contents, n);
    return (int)n;
}

static void
fake_doorbell(struct kio *kio, const struct kio_bell *bell)
{
    (void)kio;
    note("bell %llu of %u:", (unsigned long long)bell->value,
         bell->value_bytes);
    for (uint32_t i = 0; i < bell->n_regions; i++)
        note(" 0x%llx %llu %u %.2s", (unsigned long long)bell->regions[i].va,
             (unsigned long long)bell->regions[i].size_bytes,
             bell->regions[i].kind,
             (const char *)(uintptr_t)bell->regions[i].cpu);
    note("\n");
}

static const struct kio_ops fake_ops = {
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .ioctl = fake_ioctl,
    .mmap = fake_mmap,
    .munmap = fake_munmap,
    .poll = fake_poll,
    .read_file = fake_read_file,
    .doorbell = fake_doorbell,
};

static void
tell(void *user, uint32_t record, const char *text)
{
    size_t n = strlen(told);

    (void)user;
    snprintf(told + n, sizeof(told) - n, "%u: %s\n", record, text);
}

/* What is asked of the kernel, and told, when these are played. */
static void
expect_play(const struct cas_record *records, uint32_t n, const char *want,
            const char *want_told)
{
    char path[] = "/tmp/cassette_play_XXXXXX";
    struct kio kio = {.ops = &fake_ops};
    struct cas_play_report report;
    struct cas_writer *writer;
    struct cas_reader *reader;
    uint32_t i, n_lines = 0;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    expect_ok(cas_writer_create(path, 0, "a=b\n", &writer));
    for (i = 0; i < n; i++)
        expect_ok(cas_write(writer, &records[i]));
    expect_ok(cas_writer_close(writer));
    expect_ok(cas_reader_open(path, &reader));
    unlink(path);
    log_text[0] = told[0] = 0;
    n_maps = 0;
    expect_ok(cas_play(reader, &kio, tell, NULL, &report));
    cas_reader_close(reader);
    assert_string_equal(log_text, want);
    assert_string_equal(told, want_told);
    for (i = 0; told[i]; i++)
        n_lines += told[i] == '\n';
    assert_int_equal(report.n_differ, n_lines);
    for (i = 0; i < n && records[i].kind <= CAS_DOORBELL;)
        i++;
    assert_int_equal(report.n_calls, i);
}

static struct cas_blob
text_blob(uint16_t role, const char *text)
{
    return (struct cas_blob){.role = role,
                             .size_bytes = (uint32_t)strlen(text),
                             .data = (const uint8_t *)text};
}

static struct cas_record
an_open(const struct cas_blob *path, int32_t fd, int64_t result)
{
    return (struct cas_record){.kind = CAS_OPEN,
                               .fd = fd,
                               .result = result,
                               .args = {O_RDWR},
                               .n_blobs = path ? 1 : 0,
                               .blobs = path};
}

static void
test_files(void **state)
{
    const struct cas_blob path = text_blob(CAS_PATH, "/dev/kfd");
    const struct cas_record closed[] = {
        an_open(&path, 0, 0),
        {.kind = CAS_POLL, .fd = 0, .result = 5, .args = {1, 20}},
        {.kind = CAS_POLL, .fd = 4, .result = 5, .args = {4, 0}},
        {.kind = CAS_CLOSE, .fd = 0},
        {.kind = CAS_CLOSE, .fd = 0},
        {.kind = CAS_CLOSE, .fd = 9},
        {.kind = CAS_POLL, .fd = 0, .result = 4, .args = {1, 20}},
        {.kind = CAS_NOTE, .fd = -1},
    };
    const struct cas_record failed[] = {
        an_open(NULL, -1, -2),
        {.kind = CAS_CLOSE, .fd = -1},
    };

    (void)state;
    answer = 5;
    expect_play(closed, ARRAY_LEN(closed),
                "open /dev/kfd 2\npoll 5 for 1, 20\npoll -1 for 4, 0\nclose 5\n"
                "poll -1 for 1, 20\n",
                "6: poll result: recorded 0x4, now 0x5\n");
    answer = 0; /* a file of that number, too */
    expect_play(closed, 1, "open /dev/kfd 2\n", "");
    expect_play((const struct cas_record[]){closed[0], closed[3]}, 2,
                "open /dev/kfd 2\nclose 0\n", "");
    expect_play(failed, 2, "open  2\n",
                "0: open result: recorded 0xfffffffffffffffe, now 0x0\n");
    answer = -13;
    expect_play(failed, 2, "open  2\n", "");
    expect_play(closed, 1, "open /dev/kfd 2\n",
                "0: open result: recorded 0x0, now 0xfffffffffffffff3\n");
}

static void
test_reads(void **state)
{
    const struct cas_blob blobs[] = {text_blob(CAS_PATH, "/proc/x"),
                                     text_blob(CAS_CONTENTS, "abcd")};
    struct cas_record read = {
        .kind = CAS_READ, .fd = -1, .result = 4, .n_blobs = 2, .blobs = blobs};

    (void)state;
    answer = 0;
    contents = "abcd";
    expect_play(&read, 1, "read /proc/x, at most 5\n", "");
    contents = "abce";
    expect_play(&read, 1, "read /proc/x, at most 5\n",
                "0: read /proc/x: recorded 0x0, now 0x1\n");
    contents = "abcde";
    expect_play(&read, 1, "read /proc/x, at most 5\n",
                "0: read /proc/x: recorded 0x4, now 0x5\n");
    read.n_blobs = 1;
    read.result = -2;
    answer = -2;
    expect_play(&read, 1, "read /proc/x, at most 1\n", "");
    answer = -5;
    expect_play(&read, 1, "read /proc/x, at most 1\n",
                "0: read /proc/x: recorded 0xfffffffffffffffe, now "
                "0xfffffffffffffffb\n");
}

static void
test_bells(void **state)
{
    const struct cas_blob blobs[] = {{.role = CAS_REGION,
                                      .addr = 0x1000,
                                      .size_bytes = 2,
                                      .extra = 3,
                                      .data = (const uint8_t *)"hi"},
                                     {.role = CAS_REGION,
                                      .addr = 0x2000,
                                      .size_bytes = 3,
                                      .extra = 1,
                                      .data = (const uint8_t *)"yes"}};
    const struct cas_record bells[] = {
        {.kind = CAS_DOORBELL,
         .fd = -1,
         .args = {0x55, 77, 8},
         .n_blobs = 2,
         .blobs = blobs},
        {.kind = CAS_DOORBELL, .fd = -1, .args = {0x55, 78, 4}},
    };

    (void)state;
    expect_play(bells, 2,
                "bell 77 of 8: 0x1000 2 3 hi 0x2000 3 1 ye\nbell 78 of 4:\n",
                "");
}

/* ---- arguments ---- */

static struct cas_record
an_ioctl(uint32_t request, const struct cas_blob *blobs, uint32_t n)
{
    return (struct cas_record){.kind = CAS_IOCTL,
                               .fd = 7,
                               .dev = KIO_DEV_KFD,
                               .args = {request},
                               .n_blobs = n,
                               .blobs = blobs};
}

#define ARG(role_, value)                                                      \
    {                                                                          \
        .role = role_, .size_bytes = sizeof(value),                            \
        .data = (const uint8_t *)&(value)                                      \
    }

/* Files that were open then are those of now; others are none; what is below
 * 0 stays. A call on one of another kind than was opened is not made: its
 * argument would be taken for another. */
static void
test_translates_files(void **state)
{
    const struct cas_blob path = text_blob(CAS_PATH, "/dev/kfd");
    struct amdkfd_acquire_vm vm = {.drm_fd = 7, .gpu_id = 3};
    const struct cas_blob arg = ARG(CAS_ARG_IN, vm);
    struct cas_record records[2] = {an_open(&path, 7, 7),
                                    an_ioctl(ACQUIRE_VM, &arg, 1)};

    (void)state;
    answer = 5;
    records[1].result = 5;
    expect_play(records, 2, "open /dev/kfd 2\nvm of 5: 5 3\n", "");
    vm.drm_fd = 8;
    expect_play(records, 2, "open /dev/kfd 2\nvm of 5: -1 3\n", "");
    vm.drm_fd = (uint32_t)-4;
    expect_play(records, 2, "open /dev/kfd 2\nvm of 5: -4 3\n", "");
    vm.drm_fd = 0;
    records[0].fd = 0;
    expect_play(records, 2, "open /dev/kfd 2\nvm of -1: 5 3\n", "");
    records[1].result = 1;
    expect_play(records, 2, "open /dev/kfd 2\nvm of -1: 5 3\n",
                "1: ioctl AMDKFD_IOC_ACQUIRE_VM: recorded 0x1, now 0x5\n");
    records[0].fd = vm.drm_fd = 7;
    records[1].result = 5;
    records[1].dev = KIO_DEV_NV_CTL;
    expect_play(records, 2, "open /dev/kfd 2\n",
                "1: ioctl kind of file: recorded 0x1, now 0x4\n");
    records[1].fd = 8; /* nobody has opened it */
    expect_play(records, 2, "open /dev/kfd 2\nvm of -1: 7 3\n", "");
}

/* A handle that was given is known by its new name, the first that it had;
 * what was answered beside it is compared. */
static void
test_learns_handles(void **state)
{
    struct amdkfd_alloc_memory ask = {.size = 64}, got = {.size = 64};
    struct amdkfd_free_memory end = {.handle = 0x1111};
    struct amdkfd_free_memory other = {.handle = 0x1112};
    const struct cas_blob asks[] = {ARG(CAS_ARG_IN, ask),
                                    ARG(CAS_ARG_OUT, got)};
    const struct cas_blob ends[] = {ARG(CAS_ARG_IN, end),
                                    ARG(CAS_ARG_IN, other)};
    const struct cas_record records[] = {
        an_ioctl(ALLOC_MEMORY, asks, 2),
        an_ioctl(FREE_MEMORY, &ends[0], 1),
        an_ioctl(FREE_MEMORY, &ends[1], 1),
    };

    (void)state;
    answer = 0;
    got.handle = 0x1111;
    answer_word = 0x123456789abcdef0;
    expect_play(records, 3,
                "alloc of -1: 0x40\nfree of -1: 0x123456789abcdef0\n"
                "free of -1: 0x1112\n",
                "");
    answer_word = 0x1111;
    expect_play(records, 3,
                "alloc of -1: 0x40\nfree of -1: 0x1111\nfree of -1: 0x1112\n",
                "");
    answer_word = 0; /* nothing was given */
    expect_play(records, 3,
                "alloc of -1: 0x40\nfree of -1: 0x1111\nfree of -1: 0x1112\n",
                "0: ioctl AMDKFD_IOC_ALLOC_MEMORY_OF_GPU: handle: recorded "
                "0x1111, now 0x0\n");
    got.handle = 0;
    answer_word = 6;
    expect_play(records, 1, "alloc of -1: 0x40\n",
                "0: ioctl AMDKFD_IOC_ALLOC_MEMORY_OF_GPU: handle: recorded "
                "0x0, now 0x6\n");
}

static void
test_compares_answers(void **state)
{
    struct amdkfd_get_version ask = {0}, got = {.major_version = 3};
    const struct cas_blob blobs[] = {ARG(CAS_ARG_IN, ask),
                                     ARG(CAS_ARG_OUT, got)};
    struct cas_record record = an_ioctl(GET_VERSION, blobs, 2);
    struct cas_blob cut = {
        .role = CAS_ARG_IN, .size_bytes = 7, .data = (const uint8_t *)&ask};

    (void)state;
    answer = 0;
    answer_word = 3;
    expect_play(&record, 1, "version of -1\n", "");
    answer_word = 4;
    expect_play(&record, 1, "version of -1\n",
                "0: ioctl AMDKFD_IOC_GET_VERSION: major_version: recorded 0x3, "
                "now 0x4\n");
    record.blobs = &cut;
    record.n_blobs = 1;
    expect_play(&record, 1, "",
                "0: ioctl bytes of the argument: recorded 0x7, now 0x8\n");
    cut.extra = 1; /* of a part alone */
    expect_play(&record, 1, "",
                "0: ioctl bytes of the argument: recorded 0x0, now 0x8\n");
    /* nobody knew that it has an argument, or which call it is */
    record.n_blobs = 0;
    expect_play(&record, 1, "version of -1\n", "");
    record.args[0] = 0x40084bff;
    expect_play(&record, 1, "ioctl 0x40084bff of -1 with memory\n", "");
    record.args[0] = 0x4bff;
    expect_play(&record, 1, "ioctl 0x4bff of -1 with nothing\n", "");
}

/* Parts that pointers led to lie where the pointers now lead. */
static void
test_follows_pointers(void **state)
{
    uint32_t ids[8] = {21, 22, 23, 24, 25, 26, 27, 28};
    struct amdkfd_map_memory map = {
        .handle = 9, .device_ids_array_ptr = 0x1234, .n_devices = 8};
    struct cas_blob blobs[] = {ARG(CAS_ARG_IN, map), ARG(CAS_ARG_IN, ids),
                               ARG(CAS_ARG_IN, ids)};
    const struct cas_record record = an_ioctl(MAP_MEMORY, blobs, 2);
    const struct cas_record beside = an_ioctl(MAP_MEMORY, blobs, 3);

    (void)state;
    answer = 0;
    blobs[1].extra = 1;
    blobs[1].field_offset_bytes =
        offsetof(struct amdkfd_map_memory, device_ids_array_ptr);
    expect_play(&record, 1, "map of -1: 0x9, 8: 21 22 23 24 25 26 27 28\n", "");
    /* a pointer's place that goes beyond its part: what is behind stays */
    blobs[2].extra = 2;
    blobs[2].field_offset_bytes = sizeof(map) - 7;
    expect_play(&beside, 1, "map of -1: 0x9, 8: 21 22 23 24 25 26 27 28\n", "");
    /* not there, short, or said to be of a place that is none */
    blobs[1].size_bytes = 8;
    expect_play(&record, 1, "",
                "0: ioctl AMDKFD_IOC_MAP_MEMORY_TO_GPU: "
                "device_ids_array_ptr points to more than the cassette "
                "holds\n");
    blobs[1].size_bytes = sizeof(ids);
    blobs[1].field_offset_bytes = sizeof(map) - 7;
    expect_play(&record, 1, "",
                "0: ioctl AMDKFD_IOC_MAP_MEMORY_TO_GPU: "
                "device_ids_array_ptr points to more than the cassette "
                "holds\n");
    blobs[1].field_offset_bytes =
        offsetof(struct amdkfd_map_memory, device_ids_array_ptr);
    blobs[1].parent = 1;
    expect_play(&record, 1, "",
                "0: ioctl AMDKFD_IOC_MAP_MEMORY_TO_GPU: "
                "device_ids_array_ptr points to more than the cassette "
                "holds\n");
}

/* A card that is called otherwise now is called so from then on. */
static void
test_learns_cards(void **state)
{
    struct uvm_register_gpu ask[2] = {{{0}}}, got[2];
    struct cas_blob blobs[4] = {
        ARG(CAS_ARG_IN, ask[0]), ARG(CAS_ARG_OUT, got[0]),
        ARG(CAS_ARG_IN, ask[1]), ARG(CAS_ARG_OUT, got[1])};
    struct cas_record records[4];
    int i;

    (void)state;
    memcpy(ask[0].gpu_uuid, "card of the past", 16);
    memcpy(ask[1].gpu_uuid, "card of its own.", 16);
    memcpy(got, ask, sizeof(got));
    for (i = 0; i < 4; i++) {
        records[i] = an_ioctl(REGISTER_GPU, blobs + i % 2 * 2, 2);
        records[i].dev = KIO_DEV_NV_UVM;
    }
    answer = 2;
    uuid = "card of the past";
    for (i = 0; i < 4; i++)
        records[i].result = 2;
    expect_play(records, 1, "gpu card of the past\n", "");
    uuid = "card of today...";
    expect_play(records, 4,
                "gpu card of the past\ngpu card of its own.\n"
                "gpu card of today...\ngpu card of today...\n",
                "");
}

/* What the recorded program had pinned, is ours: one place for one address,
 * parts of it within; none that is too large. */
static void
test_pins(void **state)
{
    static const uint64_t at[] = {AT, AT + 0x800, AT + 0x10000, 0, AT};
    static const uint64_t n_bytes[] = {0x2000, 0x1800, 0x1000, 0x1000,
                                       ((uint64_t)1 << 32) + 1};
    struct nv_os02_fd pins[5] = {{{0}}};
    struct cas_blob blobs[5];
    struct cas_record records[5];
    uint8_t *p;
    int i;

    (void)state;
    for (i = 0; i < 5; i++) {
        pins[i].params.hClass = 0x71;
        pins[i].params.pMemory = at[i];
        pins[i].params.limit = n_bytes[i] - 1;
        blobs[i] = (struct cas_blob)ARG(CAS_ARG_IN, pins[i]);
        records[i] = an_ioctl(ALLOC_PINNED, &blobs[i], 1);
        records[i].dev = KIO_DEV_NV_CTL;
    }
    answer = 0;
    n_pinned = 0;
    expect_play(records, 5, "", "");
    assert_int_equal(n_pinned, 5);
    assert_true(pinned[0] == AT); /* which nobody else had */
    assert_true(pinned[1] == AT + 0x800);
    assert_true(pinned[2] == AT + 0x10000);
    assert_true(pinned[3] == 0 && pinned[4] == 0);
    p = (uint8_t *)(uintptr_t)AT; /* it can be written */
    memset(p, 1, 0x2000);
    munmap(p, 0x2000);
    munmap(p + 0x10000, 0x1000);
}

/* ---- mappings ---- */

static struct cas_record
a_map(uint64_t wish, uint64_t pages, uint64_t flags, int64_t result)
{
    return (struct cas_record){.kind = CAS_MMAP,
                               .fd = -1,
                               .result = result,
                               .args = {wish, pages * PAGE,
                                        (uint64_t)PROT_READ << 32 | flags,
                                        0x3000}};
}

static struct cas_record
an_unmap(uint64_t at, uint64_t pages)
{
    return (struct cas_record){
        .kind = CAS_MUNMAP, .fd = -1, .args = {at, pages * PAGE}};
}

/* A fixed place is the same part of what was mapped, or a new one; what is left
 * of a mapping is still known, on both sides. */
static void
test_places(void **state)
{
    const struct cas_record records[] = {
        a_map(0, 16, MAP_PRIVATE, AT),
        an_unmap(AT + 4 * PAGE, 4),
        a_map(AT + 3 * PAGE, 1, MAP_SHARED | MAP_FIXED, AT + 3 * PAGE),
        a_map(AT + 8 * PAGE, 8, MAP_SHARED | MAP_FIXED, AT + 8 * PAGE),
        an_unmap(AT, 4),
        an_unmap(AT + 9 * PAGE, 7),
        a_map(AT + 8 * PAGE, 1, MAP_SHARED | MAP_FIXED, AT + 8 * PAGE),
        an_unmap(AT + 8 * PAGE, 1),
    };
    const struct cas_record unknown = an_unmap(AT, 1);

    (void)state;
    answer = 0;
    expect_play(records, ARRAY_LEN(records),
                "mmap 65536 1 2 of -1 at 0x3000\n"
                "munmap 16384 of map 0+0x4000\n"
                "mmap 4096 1 11 of -1 at 0x3000, map 0+0x3000\n"
                "mmap 32768 1 11 of -1 at 0x3000, map 0+0x8000\n"
                "munmap 16384 of map 0+0x0\n"
                "munmap 28672 of map 0+0x9000\n"
                "mmap 4096 1 11 of -1 at 0x3000, map 0+0x8000\n"
                "munmap 4096 of map 0+0x8000\n",
                "");
    expect_play(&unknown, 1, "munmap 4096 of elsewhere\n", "");
}

static void
test_failed_maps(void **state)
{
    const struct cas_record good[] = {
        a_map(AT, 1, MAP_SHARED | MAP_FIXED, AT),
        an_unmap(AT, 1),
    };
    const struct cas_record bad[] = {a_map(0, 1, MAP_SHARED, -4095),
                                     a_map(0, 1, MAP_SHARED, -1)};
    const struct cas_record high = a_map(0, 1, MAP_SHARED, -4096);
    const struct cas_record low = a_map(0, 1, MAP_SHARED, 0);
    const struct cas_record huge =
        a_map(AT, (uint64_t)1 << 50, MAP_SHARED | MAP_FIXED, AT);
    void *p;

    (void)state;
    answer = 0;
    expect_play(good, 2,
                "mmap 4096 1 11 of -1 at 0x3000, elsewhere\n"
                "munmap 4096 of elsewhere\n",
                "");
    expect_play(&high, 1, "mmap 4096 1 1 of -1 at 0x3000\n", "");
    munmap(maps[0], PAGE);
    expect_play(&low, 1, "mmap 4096 1 1 of -1 at 0x3000\n", "");
    munmap(maps[0], PAGE);
    expect_play(
        bad, 2,
        "mmap 4096 1 1 of -1 at 0x3000\nmmap 4096 1 1 of -1 at 0x3000\n",
        "0: mmap result: recorded 0xfffffffffffff001, now 0x0\n"
        "1: mmap result: recorded 0xffffffffffffffff, now 0x0\n");
    munmap(maps[0], PAGE);
    munmap(maps[1], PAGE);
    expect_play(&huge, 1, "",
                "0: mmap of 4611686018427387904 bytes: no room for it now\n");
    answer = -12;
    expect_play(bad, 1, "mmap 4096 1 1 of -1 at 0x3000\n", "");
    /* what was reserved for it is not left behind */
    expect_play(good, 1, "mmap 4096 1 11 of -1 at 0x3000, elsewhere\n",
                "0: mmap result: recorded 0x200000000000, now "
                "0xfffffffffffffff4\n");
    p = mmap((void *)(uintptr_t)AT, PAGE, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_true(p == (void *)(uintptr_t)AT);
    munmap(p, PAGE);
}

/* A mapping of a file is one of the file of now. */
static void
test_maps_of_files(void **state)
{
    const struct cas_blob path = text_blob(CAS_PATH, "/dev/kfd");
    struct cas_record records[3] = {
        an_open(&path, 0, 0), a_map(0, 2, MAP_SHARED, AT), an_unmap(AT, 2)};

    (void)state;
    answer = 5;
    records[1].fd = 0;
    expect_play(records, 3,
                "open /dev/kfd 2\nmmap 8192 1 1 of 5 at 0x3000\n"
                "munmap 8192 of map 0+0x0\n",
                "");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_bells),
        cmocka_unit_test(test_translates_files),
        cmocka_unit_test(test_learns_handles),
        cmocka_unit_test(test_compares_answers),
        cmocka_unit_test(test_follows_pointers),
        cmocka_unit_test(test_learns_cards),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_failed_maps),
        cmocka_unit_test(test_maps_of_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
