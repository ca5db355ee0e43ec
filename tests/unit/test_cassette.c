/* Cassettes from strangers, made by hand here: pointers and sizes that lead
 * nowhere, parts longer than their record, more than fits; and one that unmaps
 * parts of mappings, as programs do.
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
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "ioctl/amdkfd_uapi.h"
#include "ioctl/cassette.h"
#include "ioctl/cassette_format.h"
#include "ioctl/cassette_play.h"
#include "ioctl/kio.h"
#include "ioctl/kio_replay.h"
#include "ioctl/nv_abi.h"
#include "ioctl/nv_uapi.h"
#include "tests/unit/expect.h"

static char cassette_path[64];
static int first_fd;        /* that a test found free */
static char last_text[256]; /* of a difference */

static int
make_path(void **state)
{
    int fd;

    (void)state;
    first_fd = next_fd();
    snprintf(cassette_path, sizeof(cassette_path), "/tmp/kio-test-XXXXXX");
    last_text[0] = '\0';
    fd = mkstemp(cassette_path);
    return fd < 0 ? -1 : close(fd);
}

static int
remove_path(void **state)
{
    (void)state;
    unlink(cassette_path);
    assert_int_equal(next_fd(), first_fd);
    return 0;
}

static void
write_records(const struct cas_record *records, uint32_t n)
{
    struct cas_writer *writer;
    uint32_t i;

    assert_int_equal(cas_writer_create(cassette_path, 0, "a=b\n", &writer),
                     BELL_OK);
    for (i = 0; i < n; i++)
        assert_int_equal(cas_write(writer, &records[i]), BELL_OK);
    assert_int_equal(cas_writer_close(writer), BELL_OK);
}

/* A call on file 5, behind its opening as nvidiactl. */
static void
write_call(const struct cas_record *record)
{
    const struct cas_blob path = {.role = CAS_PATH,
                                  .size_bytes = 14,
                                  .data = (const uint8_t *)"/dev/nvidiactl"};
    struct cas_record records[2] = {
        {.kind = CAS_OPEN, .fd = 5, .result = 5, .n_blobs = 1, .blobs = &path},
        *record};

    records[1].fd = 5;
    write_records(records, 2);
}

static void
keep_text(void *user, uint32_t record, const char *text)
{
    (void)user;
    (void)record;
    snprintf(last_text, sizeof(last_text), "%s", text);
}

/* Plays the cassette on its own replay; gives how many calls differ. */
static uint32_t
play(bell_status *out_finish)
{
    struct cas_play_report report;
    struct cas_reader *reader;
    struct kio *kio;

    assert_int_equal(cas_reader_open(cassette_path, &reader), BELL_OK);
    assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
    assert_int_equal(cas_play(reader, kio, keep_text, NULL, &report), BELL_OK);
    *out_finish = kio_replay_finish(kio);
    kio_destroy(kio);
    cas_reader_close(reader);
    return report.n_differ;
}

/* ---- pointers and sizes ------------------------------------------------ */

/* A control call whose `params` is `pointer`, with these parts behind it. */
static void
write_command(uint32_t command, uint64_t pointer, uint32_t params_bytes,
              const struct cas_blob *parts, uint32_t n_parts)
{
    struct nv_os54 control = {
        .cmd = command, .params = pointer, .paramsSize = params_bytes};
    struct cas_blob blobs[4] = {{.role = CAS_ARG_IN,
                                 .size_bytes = sizeof(control),
                                 .data = (const uint8_t *)&control}};
    struct cas_record record = {
        .kind = CAS_IOCTL,
        .dev = KIO_DEV_NV_CTL,
        .args = {nv_request(NV_ESC_RM_CONTROL, sizeof(control))},
        .n_blobs = n_parts + 1,
        .blobs = blobs};

    if (n_parts)
        memcpy(blobs + 1, parts, n_parts * sizeof(*parts));
    write_call(&record);
}

static void
write_control(uint64_t pointer, uint32_t params_bytes,
              const struct cas_blob *parts, uint32_t n_parts)
{
    write_command(NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES, pointer, params_bytes,
                  parts, n_parts);
}

static void
test_wild_pointer(void **state)
{
    bell_status finish;

    (void)state;
    write_control(0x414141414140, 4, NULL, 0);
    assert_int_equal(play(&finish), 1);
    assert_non_null(strstr(last_text, "params points to more than"));
    assert_int_equal(finish, BELL_E_INTERNAL);
}

/* Two parts of one index: one that is rebuilt, short, and one that answers,
 * long. */
static void
test_long_answer(void **state)
{
    static uint8_t bytes[4096];
    struct cas_blob parts[3];
    bell_status finish;
    uint32_t i;

    (void)state;
    for (i = 0; i < 3; i++)
        parts[i] = (struct cas_blob){
            .role = i == 2 ? CAS_ARG_OUT : CAS_ARG_IN,
            .field_offset_bytes = offsetof(struct nv_os54, params),
            .size_bytes = i == 1 ? 8 : sizeof(bytes),
            .extra = 1,
            .data = bytes,
        };
    write_control(1, sizeof(bytes), parts, 3);
    assert_int_equal(play(&finish), 1);
    assert_non_null(strstr(last_text, "params points to more than"));
}

/* More than is recorded of one part. */
static void
test_cut_part(void **state)
{
    uint8_t *bytes = calloc(1, 1u << 20);
    struct cas_blob part = {.role = CAS_ARG_IN,
                            .field_offset_bytes =
                                offsetof(struct nv_os54, params),
                            .size_bytes = 1u << 20,
                            .extra = 1,
                            .data = bytes};
    bell_status finish;

    (void)state;
    write_control(1, 2u << 20, &part, 1);
    assert_int_equal(play(&finish), 1);
    write_control(1, 1u << 20, &part, 1);
    assert_int_equal(play(&finish), 0);
    assert_int_equal(finish, BELL_OK);
    free(bytes);
}

/* Lists that the recorder did not know of read as zeros, 16 KiB of them in
 * words of 8 bytes, and what is answered there is not compared; more is missed.
 */
static void
test_gaps(void **state)
{
    static const struct {
        uint32_t n_bytes; /* of three lists, or of one */
        bool are_three, is_played;
    } rows[] = {
        {1, true, true},      {5456, true, true},    {5457, true, false},
        {16384, false, true}, {16385, false, false}, {16384, true, false},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint64_t more = rows[i].are_three;
        struct nv0000_system_get_build_version params = {
            .sizeOfStrings = rows[i].n_bytes,
            .pDriverVersionBuffer = 1,
            .pVersionBuffer = more,
            .pTitleBuffer = more};
        const struct cas_blob part = {.role = CAS_ARG_IN,
                                      .field_offset_bytes =
                                          offsetof(struct nv_os54, params),
                                      .size_bytes = sizeof(params),
                                      .extra = 1,
                                      .data = (const uint8_t *)&params};
        bell_status finish;
        bool is_played;

        last_text[0] = '\0';
        write_command(NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION, 1,
                      sizeof(params), &part, 1);
        is_played = play(&finish) == 0;
        assert_int_equal(is_played, finish == BELL_OK);
        if (is_played != rows[i].is_played)
            fail_msg("row %zu: '%s'", i, last_text);
        if (!is_played)
            assert_non_null(strstr(last_text, "Buffer points to more than"));
    }
}

/* The same of an allocation that says no size: it is the struct's own. */
static void
test_unsized_gap(void **state)
{
    struct nv_os64 alloc = {.hRoot = 1,
                            .hObjectNew = 2,
                            .hClass = HOPPER_CHANNEL_GPFIFO_A,
                            .pAllocParms = 1};
    const struct cas_blob blob = {.role = CAS_ARG_IN,
                                  .size_bytes = sizeof(alloc),
                                  .data = (const uint8_t *)&alloc};
    const struct cas_record record = {
        .kind = CAS_IOCTL,
        .dev = KIO_DEV_NV_CTL,
        .args = {nv_request(NV_ESC_RM_ALLOC, sizeof(alloc))},
        .n_blobs = 1,
        .blobs = &blob};
    bell_status finish;

    (void)state;
    write_call(&record);
    assert_int_equal(play(&finish), 0);
    assert_int_equal(finish, BELL_OK);
    alloc.paramsSize = sizeof(struct nv_channel_alloc);
    write_call(&record);
    assert_int_equal(play(&finish), 1);
    assert_non_null(strstr(last_text, "pAllocParms points to more"));
}

/* ---- mappings ---------------------------------------------------------- */

/* A reservation trimmed at both ends, a fixed mapping in its middle, another
 * mapping where an end was, and all of it unmapped at once: as AMD's aligned
 * reservations come and go. */
static void
test_partial_unmap(void **state)
{
    const uint64_t at = 0x200000000000, page = 4096;
    const uint64_t none = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const uint64_t fixed =
        (uint64_t)(PROT_READ | PROT_WRITE) << 32 | none | MAP_FIXED;
    const struct cas_record records[] = {
        {.kind = CAS_MMAP,
         .fd = -1,
         .result = (int64_t)at,
         .args = {0, 64 * page, none}},
        {.kind = CAS_MUNMAP, .fd = -1, .args = {at, 8 * page}},
        {.kind = CAS_MUNMAP, .fd = -1, .args = {at + 40 * page, 24 * page}},
        {.kind = CAS_MMAP,
         .fd = -1,
         .result = (int64_t)(at + 16 * page),
         .args = {at + 16 * page, 8 * page, fixed}},
        {.kind = CAS_MMAP,
         .fd = -1,
         .result = (int64_t)(at + 4 * page),
         .args = {0, 4 * page, none}},
        {.kind = CAS_MUNMAP, .fd = -1, .args = {at + 8 * page, 32 * page}},
        {.kind = CAS_MUNMAP, .fd = -1, .args = {at + 4 * page, 4 * page}},
        {.kind = CAS_NOTE, .fd = -1},
    };
    const uint32_t n = sizeof(records) / sizeof(records[0]);
    bell_status finish;
    struct kio *kio;
    void *p, *q;

    (void)state;
    write_records(records, n);
    assert_int_equal(play(&finish), 0);
    assert_int_equal(finish, BELL_OK);

    /* A driver gets the recorded addresses again, also those that an unmapped
     * part left free. */
    assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
    assert_int_equal(
        kio_mmap(kio, NULL, NULL, 64 * page, PROT_NONE, (int)none, 0, &p),
        BELL_OK);
    assert_int_equal((uintptr_t)p, at);
    kio_munmap(kio, p, 8 * page);
    kio_munmap(kio, (uint8_t *)p + 40 * page, 24 * page);
    assert_int_equal(kio_mmap(kio, NULL, (uint8_t *)p + 16 * page, 8 * page,
                              PROT_READ | PROT_WRITE, (int)none | MAP_FIXED, 0,
                              &q),
                     BELL_OK);
    memset(q, 1, 8 * page);
    assert_int_equal(
        kio_mmap(kio, NULL, NULL, 4 * page, PROT_NONE, (int)none, 0, &q),
        BELL_OK);
    assert_int_equal((uintptr_t)q, at + 4 * page);
    kio_munmap(kio, (uint8_t *)p + 8 * page, 32 * page);
    kio_munmap(kio, q, 4 * page);
    assert_int_equal(kio_replay_finish(kio), BELL_OK);
    kio_destroy(kio);
    /* Nothing is left where they were. */
    p = mmap((void *)(uintptr_t)at, 64 * page, PROT_NONE, (int)none, -1, 0);
    assert_int_equal((uintptr_t)p, at);
    munmap(p, 64 * page);
}

/* Fixed mappings inside one another: each leaves the one around it in two
 * pieces, and every number of pieces is met. */
static void
test_nested_maps(void **state)
{
    enum {
        DEPTH = 60
    };
    const uint64_t at = 0x200000000000, page = 4096;
    const uint64_t flags = (uint64_t)(PROT_READ | PROT_WRITE) << 32 |
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    struct cas_record records[DEPTH + 2] = {{0}};
    bell_status finish;
    uint64_t i;

    (void)state;
    for (i = 0; i < DEPTH; i++)
        records[i] = (struct cas_record){.kind = CAS_MMAP,
                                         .fd = -1,
                                         .result = (int64_t)(at + i * page),
                                         .args = {at + i * page,
                                                  (2 * DEPTH - 2 * i) * page,
                                                  flags | (i ? MAP_FIXED : 0)}};
    records[DEPTH] = (struct cas_record){
        .kind = CAS_MUNMAP, .fd = -1, .args = {at, 2 * DEPTH * page}};
    records[DEPTH + 1] = (struct cas_record){.kind = CAS_NOTE, .fd = -1};
    write_records(records, DEPTH + 2);
    assert_int_equal(play(&finish), 0);
    assert_int_equal(finish, BELL_OK);
}

/* ---- waits ------------------------------------------------------------- */

/* Recorded waits, made and not made now; other calls are not passed by. */
static void
test_waits(void **state)
{
    const uint64_t wait_events = 0xc0184b0c, get_version = 0x80084b01;
    struct amdkfd_wait_events wait = {.num_events = 0, .timeout = 10};
    struct amdkfd_get_version version = {0};
    const struct cas_blob path = {
        .role = CAS_PATH, .size_bytes = 8, .data = (const uint8_t *)"/dev/kfd"};
    const struct cas_blob in = {.role = CAS_ARG_IN,
                                .size_bytes = sizeof(wait),
                                .data = (const uint8_t *)&wait};
    const struct cas_blob ask = {.role = CAS_ARG_IN,
                                 .size_bytes = sizeof(version),
                                 .data = (const uint8_t *)&version};
    const struct cas_record waiting = {.kind = CAS_IOCTL,
                                       .fd = 7,
                                       .dev = KIO_DEV_KFD,
                                       .args = {wait_events},
                                       .n_blobs = 1,
                                       .blobs = &in};
    const struct cas_record records[] = {
        {.kind = CAS_OPEN,
         .fd = 7,
         .result = 7,
         .args = {O_RDWR | O_CLOEXEC},
         .n_blobs = 1,
         .blobs = &path},
        waiting,
        {.kind = CAS_POLL, .fd = 7, .result = 1, .args = {1, 10, 1}},
        waiting,
        {.kind = CAS_IOCTL,
         .fd = 7,
         .dev = KIO_DEV_KFD,
         .args = {get_version},
         .n_blobs = 1,
         .blobs = &ask},
        {.kind = CAS_CLOSE, .fd = 7},
        waiting,
    };
    int n_waits;

    (void)state;
    write_records(records, sizeof(records) / sizeof(records[0]));
    for (n_waits = 0; n_waits < 3; n_waits++) {
        struct kio_file file;
        struct kio *kio;
        int i;
        assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
        assert_int_equal(kio_open(kio, "/dev/kfd", O_RDWR, &file), BELL_OK);
        for (i = 0; i < n_waits; i++)
            assert_int_equal(kio_ioctl(&file, wait_events, &wait), BELL_OK);
        assert_int_equal(kio_ioctl(&file, get_version, &version), BELL_OK);
        kio_close(&file);
        assert_int_equal(kio_replay_finish(kio), BELL_OK);
        kio_destroy(kio);
    }
    /* A call that is left out is a difference. */
    {
        struct kio_file file;
        struct kio *kio;
        assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
        assert_int_equal(kio_open(kio, "/dev/kfd", O_RDWR, &file), BELL_OK);
        kio_close(&file);
        assert_int_equal(kio_replay_finish(kio), BELL_E_INTERNAL);
        assert_non_null(
            strstr(bell_error_last()->message, "recorded ioctl, now close"));
        kio_destroy(kio);
    }
}

/* ---- files ------------------------------------------------------------- */

static uint8_t *
load_file(size_t *out_bytes)
{
    FILE *file = fopen(cassette_path, "rb");
    uint8_t *data = malloc(1 << 16);

    assert_non_null(file);
    *out_bytes = fread(data, 1, 1 << 16, file);
    fclose(file);
    return data;
}

/* A part that goes on into the record behind its own, with the hash right. */
static void
test_part_past_record(void **state)
{
    struct cas_blob blob = {
        .role = CAS_TEXT, .size_bytes = 8, .data = (const uint8_t *)"12345678"};
    const struct cas_record records[2] = {
        {.kind = CAS_NOTE, .n_blobs = 1, .blobs = &blob},
        {.kind = CAS_NOTE, .n_blobs = 1, .blobs = &blob}};
    const size_t at_block = sizeof(struct cas_file_head) + 4;
    const size_t at_raw = at_block + sizeof(struct cas_block_head);
    struct cas_block_head block;
    struct cas_blob_head part;
    struct cas_reader *reader;
    size_t n;
    uint8_t *data;

    (void)state;
    write_records(records, 2);
    data = load_file(&n);
    memcpy(&part, data + at_raw + sizeof(struct cas_record_head), sizeof(part));
    assert_int_equal(part.size_bytes, 8);
    part.size_bytes = 16;
    memcpy(data + at_raw + sizeof(struct cas_record_head), &part, sizeof(part));
    memcpy(&block, data + at_block, sizeof(block));
    block.hash = (uint32_t)hash_bytes(data + at_raw, block.raw_bytes, 0);
    memcpy(data + at_block, &block, sizeof(block));
    assert_int_equal(cas_reader_parse("long", data, n, &reader), BELL_E_IO);
    assert_non_null(
        strstr(bell_error_last()->message, "a part that is too long"));
    free(data);
}

/* Heads that promise more than a cassette holds: nothing is unpacked. */
static void
test_too_much(void **state)
{
    struct cas_file_head file = {.version = CAS_VERSION};
    struct cas_block_head block = {.magic = CAS_BLOCK_MAGIC,
                                   .raw_bytes = CAS_BLOCK_BYTES_MAX};
    uint8_t data[sizeof(file) + 9 * sizeof(block)];
    struct cas_reader *reader;
    uint32_t i;

    (void)state;
    memcpy(file.magic, CAS_MAGIC, sizeof(file.magic));
    memcpy(data, &file, sizeof(file));
    for (i = 0; i < 9; i++)
        memcpy(data + sizeof(file) + i * sizeof(block), &block, sizeof(block));
    assert_int_equal(cas_reader_parse("bomb", data, sizeof(data), &reader),
                     BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "more than 512 MiB"));
}

/* As many as there may be, and none that unpacks: that is said. */
static void
test_just_enough(void **state)
{
    struct cas_file_head file = {.version = CAS_VERSION};
    struct cas_block_head block = {.magic = CAS_BLOCK_MAGIC,
                                   .raw_bytes = CAS_BLOCK_BYTES_MAX};
    uint8_t data[sizeof(file) + 8 * sizeof(block)];
    struct cas_reader *reader;
    uint32_t i;

    (void)state;
    memcpy(file.magic, CAS_MAGIC, sizeof(file.magic));
    memcpy(data, &file, sizeof(file));
    for (i = 0; i < 8; i++)
        memcpy(data + sizeof(file) + i * sizeof(block), &block, sizeof(block));
    assert_int_not_equal(cas_reader_parse("full", data, sizeof(data), &reader),
                         BELL_OK);
    assert_null(strstr(bell_error_last()->message, "more than 512 MiB"));
}

/* A sound file with one word of its heads changed; and all allocations. */
static void
test_heads(void **state)
{
    struct {
        struct cas_file_head file;
        struct cas_block_head block;
        struct cas_record_head record;
        struct cas_block_head end;
    } good, made;
    static const struct {
        size_t at;
        uint32_t value;
        const char *why;
    } rows[] = {
        {0, 0x12345678, "no header"},
        {4, 0x12345678, "no header"},
        {offsetof(struct cas_file_head, version), CAS_VERSION + 1, "version"},
        {16, CAS_BLOCK_MAGIC + 1, "a bad block"},
        {20, CAS_BLOCK_BYTES_MAX + 1, "a bad block"},
        {24, sizeof(struct cas_record_head) + 1, "a bad block"},
        {28, 0x12345678, "a block with a wrong hash"},
    };
    struct cas_reader *reader;
    bell_status status = BELL_E_NO_MEMORY;
    uint64_t n;
    size_t i;

    (void)state;
    assert_int_equal(sizeof(good.file), 16);
    memset(&good, 0, sizeof(good));
    memcpy(good.file.magic, CAS_MAGIC, sizeof(good.file.magic));
    good.file.version = CAS_VERSION;
    good.record.size_bytes = sizeof(good.record);
    good.record.kind = CAS_NOTE;
    good.block.magic = good.end.magic = CAS_BLOCK_MAGIC;
    good.block.raw_bytes = good.block.stored_bytes = sizeof(good.record);
    good.block.hash =
        (uint32_t)hash_bytes(&good.record, sizeof(good.record), 0);
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        made = good;
        memcpy((uint8_t *)&made + rows[i].at, &rows[i].value, 4);
        assert_int_not_equal(
            cas_reader_parse("heads", (void *)&made, sizeof(made), &reader),
            BELL_OK);
        if (!strstr(bell_error_last()->message, rows[i].why))
            fail_msg("'%s' lacks '%s'", bell_error_last()->message,
                     rows[i].why);
    }
    for (n = 1; status != BELL_OK; n++) {
        host_fail_after(n, 1);
        status =
            cas_reader_parse("heads", (void *)&good, sizeof(good), &reader);
        host_fail_after(0, 0);
        assert_true(status == BELL_OK || status == BELL_E_NO_MEMORY);
    }
    assert_true(n > 4);
    assert_false(cas_reader_truncated(reader));
    cas_reader_close(reader);
}

/* ---- what a reader takes ------------------------------------------------ */

/* Parses head, identity, one block of these bytes, and an end mark. `cut` bytes
 * of the file lack at its end. NULL when it is taken, else why not. */
static const char *
why_not_taken(const uint8_t *raw, uint32_t n, size_t cut, bool *out_truncated)
{
    struct cas_file_head file = {.version = CAS_VERSION, .identity_bytes = 4};
    struct cas_block_head block = {.magic = CAS_BLOCK_MAGIC,
                                   .raw_bytes = n,
                                   .stored_bytes = n,
                                   .hash = (uint32_t)hash_bytes(raw, n, 0)};
    const struct cas_block_head end = {.magic = CAS_BLOCK_MAGIC,
                                       .hash = (uint32_t)hash_bytes("", 0, 0)};
    size_t size = sizeof(file) + 4 + sizeof(block) + n + sizeof(end) - cut;
    uint8_t *data = malloc(size + cut), *at = data, *exact;
    struct cas_reader *reader;
    bell_status status;

    memcpy(file.magic, CAS_MAGIC, sizeof(file.magic));
    memcpy(at, &file, sizeof(file));
    memcpy(at += sizeof(file), "a=b\n", 4);
    memcpy(at += 4, &block, sizeof(block));
    memcpy(at += sizeof(block), raw, n);
    memcpy(at + n, &end, sizeof(end));
    exact = malloc(size + 1); /* what is read beyond is seen */
    memcpy(exact + 1, data, size);
    status = cas_reader_parse("made", exact + 1, size, &reader);
    if (status == BELL_OK) {
        *out_truncated = cas_reader_truncated(reader);
        assert_string_equal(cas_reader_identity(reader), "a=b\n");
        cas_reader_close(reader);
    }
    free(exact);
    free(data);
    return status == BELL_OK ? NULL : bell_error_last()->message;
}

static void
expect_taken(const struct cas_record_head *head, const void *parts,
             uint32_t n_bytes, const char *expected)
{
    uint32_t n = (uint32_t)sizeof(*head) + n_bytes;
    uint8_t *raw = malloc(n);
    bool truncated = true;
    const char *why;

    memcpy(raw, head, sizeof(*head));
    if (n_bytes)
        memcpy(raw + sizeof(*head), parts, n_bytes);
    why = why_not_taken(raw, n, 0, &truncated);
    if (!expected) {
        assert_null(why);
        assert_false(truncated);
    } else if (!why || !strstr(why, expected)) {
        fail_msg("'%s' lacks '%s'", why ? why : "", expected);
    }
    free(raw);
}

/* Every limit of a record from both sides. */
static void
test_record_limits(void **state)
{
    static uint8_t parts[(CAS_BLOBS_MAX + 1) * sizeof(struct cas_blob_head)];
    struct cas_record_head head = {.size_bytes = sizeof(head),
                                   .kind = CAS_NOTE};
    struct cas_blob_head *part = (void *)parts;
    const uint32_t one = sizeof(*part);

    (void)state;
    expect_taken(&head, NULL, 0, NULL);
    head.kind = 0;
    expect_taken(&head, NULL, 0, "a bad record at byte 0");
    head.kind = CAS_EXIT;
    expect_taken(&head, NULL, 0, NULL);
    head.kind = CAS_KIND_COUNT;
    expect_taken(&head, NULL, 0, "a bad record");
    head.kind = CAS_OPEN;
    expect_taken(&head, parts, 8, "half a record at byte 72");
    head.size_bytes += 8;
    expect_taken(&head, parts, 8, "a record of the wrong size");
    expect_taken(&head, NULL, 0, "a bad record"); /* more than there is */
    head.size_bytes -= 16;
    expect_taken(&head, NULL, 0, "a bad record");
    head.size_bytes += 12;
    expect_taken(&head, parts, 4, "a bad record");
    /* parts */
    head.n_blobs = 1;
    head.size_bytes = sizeof(head) + one;
    expect_taken(&head, parts, one, NULL);
    part->size_bytes = 1;
    expect_taken(&head, parts, one, "a part that is too long at byte 104");
    head.size_bytes += 8;
    for (part->size_bytes = 1; part->size_bytes <= 8; part->size_bytes++)
        expect_taken(&head, parts, one + 8, NULL);
    expect_taken(&head, parts, one + 8, "a part that is too long");
    part->size_bytes = 0;
    expect_taken(&head, parts, one + 8, "a record of the wrong size");
    head.n_blobs = 2;
    expect_taken(&head, parts, one + 8, "half a part at byte 104");
    head.n_blobs = CAS_BLOBS_MAX;
    head.size_bytes = (uint32_t)sizeof(head) + CAS_BLOBS_MAX * one;
    expect_taken(&head, parts, CAS_BLOBS_MAX * one, NULL);
    head.n_blobs++;
    head.size_bytes += one;
    expect_taken(&head, parts, (CAS_BLOBS_MAX + 1) * one, "a bad record");
}

/* A file that ends anywhere: taken as truncated from behind its identity on. */
static void
test_every_end(void **state)
{
    struct cas_record_head head = {.size_bytes = sizeof(head),
                                   .kind = CAS_NOTE};
    const size_t size = sizeof(struct cas_file_head) + 4 +
                        2 * sizeof(struct cas_block_head) + sizeof(head);
    size_t n;

    (void)state;
    for (n = 0; n <= size; n++) {
        bool truncated = false;
        const char *why = why_not_taken((const uint8_t *)&head, sizeof(head),
                                        size - n, &truncated);
        const char *expected = n < sizeof(struct cas_file_head) ? "no header"
                               : n < sizeof(struct cas_file_head) + 4
                                   ? "a cut header"
                                   : NULL;

        if (expected) {
            assert_non_null(why);
            assert_non_null(strstr(why, expected));
        } else {
            assert_null(why);
            assert_int_equal(truncated, n < size);
        }
    }
}

/* A reader gives the records that a writer was given. */
static void
test_all_fields(void **state)
{
    const struct cas_blob blobs[2] = {
        {.role = CAS_REGION,
         .parent = 0x1234,
         .field_offset_bytes = 0x56789abc,
         .addr = 0x1122334455667788,
         .cpu = 0x99aabbccddeeff00,
         .size_bytes = 13,
         .extra = 0xfedcba98,
         .data = (const uint8_t *)"thirteen here"},
        {.role = CAS_TEXT,
         .parent = 1,
         .size_bytes = 3,
         .extra = 2,
         .data = (const uint8_t *)"abc"}};
    const struct cas_record records[3] = {
        {.kind = CAS_DOORBELL,
         .pid = 0x87654321,
         .tid = 77,
         .time_ns = 0x123456789abcdef,
         .result = -0x123456789,
         .fd = -5,
         .dev = KIO_DEV_KFD,
         .args = {1, 0x22222222222, 3, UINT64_MAX},
         .n_blobs = 2,
         .blobs = blobs},
        {.kind = CAS_CLOSE, .tid = 1, .time_ns = 5, .result = 9, .fd = 3},
        {.kind = CAS_NOTE, .n_blobs = 1, .blobs = blobs + 1}};
    struct cas_reader *reader;
    uint32_t i, k;

    (void)state;
    write_records(records, 3);
    assert_int_equal(cas_reader_open(cassette_path, &reader), BELL_OK);
    assert_int_equal(cas_reader_count(reader), 3);
    for (i = 0; i < 3; i++) {
        const struct cas_record *a = &records[i],
                                *b = cas_reader_get(reader, i);

        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->pid, b->pid);
        assert_int_equal(a->tid, b->tid);
        assert_int_equal(a->time_ns, b->time_ns);
        assert_int_equal(a->result, b->result);
        assert_int_equal(a->fd, b->fd);
        assert_int_equal(a->dev, b->dev);
        assert_memory_equal(a->args, b->args, sizeof(a->args));
        assert_int_equal(a->n_blobs, b->n_blobs);
        for (k = 0; k < a->n_blobs; k++) {
            const struct cas_blob *c = &a->blobs[k], *d = &b->blobs[k];

            assert_int_equal(c->role, d->role);
            assert_int_equal(c->parent, d->parent);
            assert_int_equal(c->field_offset_bytes, d->field_offset_bytes);
            assert_int_equal(c->addr, d->addr);
            assert_int_equal(c->cpu, d->cpu);
            assert_int_equal(c->size_bytes, d->size_bytes);
            assert_int_equal(c->extra, d->extra);
            assert_memory_equal(c->data, d->data, c->size_bytes);
            assert_int_equal((uintptr_t)d->data % 8, 0);
        }
    }
    assert_ptr_equal(cas_find(cas_reader_get(reader, 0), CAS_TEXT),
                     &cas_reader_get(reader, 0)->blobs[1]);
    assert_null(cas_find(cas_reader_get(reader, 2), CAS_REGION));
    assert_string_equal(cas_kind_name(CAS_TOLD), "told");
    assert_string_equal(cas_kind_name(CAS_KIND_COUNT), "?");
    cas_reader_close(reader);
}

/* Packed, from what only grows by it to what is mostly zeros, one more at a
 * time: between them is what comes to the same size. A block per record, if
 * that is asked for, else one of all; a block that would be longer is kept as
 * it is, and the file ends with the end mark. */
static void
test_packed(void **state)
{
    static const uint32_t flags[] = {0, CAS_COMPRESS,
                                     CAS_COMPRESS | CAS_WRITE_EACH};
    uint8_t bytes[160] = {0};
    struct cas_blob blob = {.data = bytes};
    struct cas_record record = {.kind = CAS_NOTE, .n_blobs = 1, .blobs = &blob};
    const size_t start = sizeof(struct cas_file_head) + 4;
    const size_t head_bytes =
        sizeof(struct cas_record_head) + sizeof(struct cas_blob_head);
    uint64_t seed = 5;
    uint32_t i, k, n, *words = (uint32_t *)record.args;

    (void)state;
    for (i = 0; i < 96; i++)
        bytes[i] = (uint8_t)hash_mix(++seed);
    for (i = 0; i < 8; i++)
        words[i] = (uint32_t)hash_mix(++seed);
    record.pid = (uint32_t)hash_mix(++seed);
    record.tid = (uint32_t)hash_mix(++seed);
    record.time_ns = hash_mix(++seed);
    record.result = (int64_t)hash_mix(++seed);
    record.fd = (int32_t)hash_mix(++seed);
    record.dev = (uint32_t)hash_mix(++seed);
    blob.role = 0x2345;
    blob.parent = 0x6789;
    blob.field_offset_bytes = (uint32_t)hash_mix(++seed);
    blob.addr = hash_mix(++seed);
    blob.cpu = hash_mix(++seed);
    blob.extra = (uint32_t)hash_mix(++seed);
    for (i = 0; i < ARRAY_LEN(flags); i++) {
        for (n = 40; n <= sizeof(bytes); n++) {
            size_t size, at = start, raw = head_bytes + (n + 7) / 8 * 8;
            struct cas_block_head head;
            struct cas_writer *writer;
            struct cas_reader *reader;
            uint8_t file[2000];
            uint32_t n_blocks = 0;
            FILE *stream;

            blob.size_bytes = n;
            assert_int_equal(
                cas_writer_create(cassette_path, flags[i], "a=b\n", &writer),
                BELL_OK);
            for (k = 0; k < 3; k++)
                assert_int_equal(cas_write(writer, &record), BELL_OK);
            assert_int_equal(cas_writer_close(writer), BELL_OK);
            stream = fopen(cassette_path, "r");
            size = fread(file, 1, sizeof(file), stream);
            fclose(stream);
            do {
                assert_true(at + sizeof(head) <= size);
                memcpy(&head, file + at, sizeof(head));
                n_blocks += head.raw_bytes != 0;
                if (head.raw_bytes)
                    assert_int_equal(head.raw_bytes,
                                     flags[i] & CAS_WRITE_EACH ? raw : 3 * raw);
                assert_true(head.stored_bytes <= head.raw_bytes);
                if (!flags[i])
                    assert_int_equal(head.stored_bytes, head.raw_bytes);
                at += sizeof(head) + head.stored_bytes;
            } while (head.raw_bytes);
            assert_int_equal(at, size);
            assert_int_equal(n_blocks, flags[i] & CAS_WRITE_EACH ? 3 : 1);
            assert_int_equal(cas_reader_open(cassette_path, &reader), BELL_OK);
            assert_int_equal(cas_reader_count(reader), 3);
            assert_false(cas_reader_truncated(reader));
            for (k = 0; k < 3; k++) {
                const struct cas_record *got = cas_reader_get(reader, k);
                assert_int_equal(got->blobs[0].size_bytes, n);
                assert_memory_equal(got->blobs[0].data, bytes, n);
                assert_memory_equal(got->args, record.args,
                                    sizeof(record.args));
            }
            cas_reader_close(reader);
        }
    }
}

/* ---- identity --------------------------------------------------------- */

/* What stands behind `start` and blanks in a file's first line that begins with
 * it; "none". */
static void
line_of(const char *path, const char *start, char *out, size_t size_bytes)
{
    FILE *file = fopen(path, "r");
    char line[1024];

    snprintf(out, size_bytes, "none");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, start, strlen(start)) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, size_bytes, "%s",
                 line + strlen(start) + strspn(line + strlen(start), "\t: "));
        break;
    }
    if (file)
        fclose(file);
}

/* The machine as the kernel tells it; whatever room there is for it, the
 * beginning. A command of several lines is one line. */
static void
test_identity(void **state)
{
    char whole[2048], want[2048], cut[2048], cpu[128], nvidia[192];
    char own[512] = "";
    const char *when;
    struct utsname name;
    size_t n, room, used;
    int pass;
    FILE *file;

    (void)state;
    line_of("/proc/cpuinfo", "model name", cpu, sizeof(cpu));
    line_of("/proc/driver/nvidia/version", "", nvidia, sizeof(nvidia));
    assert_int_equal(uname(&name), 0);
    file = fopen("/proc/self/cmdline", "r");
    used = fread(own, 1, sizeof(own) - 1, file);
    fclose(file);
    for (n = 0; n + 1 < used; n++)
        own[n] = own[n] ? own[n] : ' ';
    for (pass = 0; pass < 4; pass++) {
        bool is_simulated = pass & 1;
        const char *command = pass & 2 ? "one two\n\rthree\n" : NULL;

        n = cas_identity(command, is_simulated, whole, sizeof(whole));
        assert_int_equal(n, strlen(whole));
        when = strstr(whole, "recorded=");
        assert_non_null(when);
        assert_true(llabs(atoll(when + 9) - (long long)time(NULL)) < 100);
        snprintf(
            want, sizeof(want),
            "system=%s %s\nmachine=%s\ncpu=%s\nnvidia=%s\n%srecorded=%.*s\n"
            "command=%s\n",
            name.sysname, name.release, name.machine, cpu, nvidia,
            is_simulated ? "simulated=yes\n" : "",
            (int)strspn(when + 9, "0123456789"), when + 9,
            command ? "one two  three " : own);
        assert_string_equal(whole, want);
        assert_int_equal(cas_identity_is_simulated(whole), is_simulated);
        for (room = 1; room < n + 3; room += room < n - 3 ? 11 : 1) {
            memset(cut, '?', sizeof(cut));
            used = cas_identity(command, is_simulated, cut, room);
            assert_int_equal(used, room <= n ? room - 1 : n);
            assert_int_equal(cut[used], '\0');
            assert_int_equal(cut[room], '?');
            if ((size_t)(when - whole) > used)
                assert_memory_equal(cut, whole, used);
        }
    }
    assert_true(cas_identity_is_simulated("simulated=yes\n"));
    assert_false(cas_identity_is_simulated("simulated=yes"));
    assert_false(cas_identity_is_simulated("a=b\ncommand=simulated=yes\n"));
    assert_false(cas_identity_is_simulated(""));
}

/* The device's writes go to where the memory lies now, whole or not at all, and
 * only where it is an update. */
static void
test_updates(void **state)
{
    static const uint8_t ones[3 * 4096] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const uint64_t at = 0x200000000000, bytes = 2 * 4096;
    const uint64_t none = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const struct cas_blob updates[] = {
        {.role = CAS_MEMORY, .cpu = at, .size_bytes = 2, .data = ones},
        {.role = CAS_MEMORY,
         .cpu = at + bytes - 8,
         .size_bytes = 8,
         .data = ones},
        {.role = CAS_MEMORY,
         .cpu = at + bytes - 8,
         .size_bytes = 9,
         .data = ones},
        {.role = CAS_MEMORY, .cpu = at - 1, .size_bytes = 9, .data = ones},
        {.role = CAS_MEMORY, .cpu = at + bytes, .size_bytes = 1, .data = ones},
        {.role = CAS_MEMORY, .cpu = at, .size_bytes = 3 * 4096, .data = ones},
    };
    const struct cas_blob sample = {
        .role = CAS_REGION, .cpu = at + 100, .size_bytes = 8, .data = ones};
    const struct cas_record records[] = {
        {.kind = CAS_START, .fd = -1},
        {.kind = CAS_MMAP,
         .fd = -1,
         .result = (int64_t)at,
         .args = {0, bytes, (uint64_t)PROT_READ << 32 | none}},
        {.kind = CAS_SAMPLE, .fd = -1, .n_blobs = 1, .blobs = &sample},
        {.kind = CAS_NOTE, .fd = -1, .n_blobs = 1, .blobs = &sample},
        {.kind = CAS_UPDATE, .fd = -1, .n_blobs = 6, .blobs = updates},
        {.kind = CAS_MUNMAP, .fd = -1, .args = {at, bytes}},
        {.kind = CAS_UPDATE, .fd = -1, .n_blobs = 6, .blobs = updates},
        {.kind = CAS_EXIT, .fd = -1},
    };
    uint8_t *held;
    struct kio *kio;
    uint64_t i;
    int moved;
    void *p;

    (void)state;
    write_records(records, sizeof(records) / sizeof(records[0]));
    for (moved = 0; moved < 2; moved++) {
        held = mmap((void *)(uintptr_t)(at + moved * 4096), 4096, PROT_NONE,
                    (int)none, -1, 0);
        if (!moved)
            munmap(held, 4096);
        assert_int_equal(kio_replay_create(cassette_path, &kio), BELL_OK);
        assert_int_equal(
            kio_mmap(kio, NULL, NULL, bytes, PROT_READ, (int)none, 0, &p),
            BELL_OK);
        assert_int_equal((uintptr_t)p == at, !moved);
        for (i = 0; i < bytes; i++) {
            uint64_t expected = i < 2            ? i + 1
                                : i >= bytes - 8 ? i - (bytes - 8) + 1
                                                 : 0;
            assert_int_equal(((uint8_t *)p)[i], expected);
        }
        kio_munmap(kio, p, bytes);
        assert_int_equal(kio_replay_finish(kio), BELL_OK);
        kio_destroy(kio);
        if (moved)
            munmap(held, 4096);
    }
}

/* A path that is not a file is refused, and never waited for. */
static void
test_not_a_file(void **state)
{
    static const char fifo[] = "test_cassette.fifo";
    const char *paths[] = {".", fifo};
    struct cas_reader *reader;
    uint32_t i;

    (void)state;
    (void)unlink(fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    for (i = 0; i < ARRAY_LEN(paths); i++) {
        assert_int_equal(cas_reader_open(paths[i], &reader), BELL_E_IO);
        assert_non_null(
            strstr(bell_error_last()->message, "not a file, or too large"));
    }
    assert_int_equal(unlink(fifo), 0);
    assert_int_equal(cas_reader_open(fifo, &reader), BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "cannot open"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_wild_pointer, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_long_answer, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_cut_part, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_gaps, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_unsized_gap, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_partial_unmap, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_nested_maps, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_waits, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_part_past_record, make_path,
                                        remove_path),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_just_enough),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_record_limits),
        cmocka_unit_test(test_every_end),
        cmocka_unit_test_setup_teardown(test_all_fields, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(test_packed, make_path, remove_path),
        cmocka_unit_test(test_identity),
        cmocka_unit_test_setup_teardown(test_updates, make_path, remove_path),
        cmocka_unit_test(test_not_a_file),
    };

    return cmocka_run_group_tests_name("cassette", tests, NULL, NULL);
}
