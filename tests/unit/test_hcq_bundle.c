/* hcq/hcq_bundle*.c on the CPU's device, with files that are put together here:
 * what a bundle says of itself, which target it takes, where its values lie,
 * and numbers at and beside the borders of what is read. It has no kernels:
 * copies and fills do.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/hcq_backend.h"
#include "hcq/hcq_bundle.h"
#include "hcq/hcq_bundle_file.h"
#include "hcq/hcq_slot.h"
#include "tests/unit/expect.h"

#define FILE_BYTES (16u * BUNDLE_PAGE)
#define ROWS_AT    (2u * BUNDLE_PAGE)
#define NAMES_AT   (ROWS_AT + 4 * BUNDLE_PAGE)
#define DATA_AT    (14u * BUNDLE_PAGE)
#define N_COMMANDS 70u
#define BIG_BYTES  ((1u << 20) + 8) /* of a state that is cleared */

enum value {
    IN,
    OUT,
    COUNT,
    BIG,
    WEIGHT_B, /* behind the other in the file */
    WEIGHT_A,
    AGAIN, /* an output that is called as the input is */
    N_VALUES
};

struct file {
    uint8_t *data;
    uint32_t n_names;
    struct bundle_header *header;
    struct bundle_target *targets;
    struct bundle_value *values;
    struct bundle_command *commands;
    struct bundle_arg *args;
};

static struct hcq_device *dev;

static int
open_device(void **state)
{
    (void)state;
    expect_ok(hcq_device_open("CPU", &dev));
    return 0;
}

static int
close_device(void **state)
{
    (void)state;
    hcq_device_close(dev);
    return 0;
}

/* ---- a file ---- */

static uint32_t
add_name(struct file *f, const char *name)
{
    uint32_t at = f->n_names;

    strcpy((char *)f->data + NAMES_AT + at, name);
    f->n_names += (uint32_t)strlen(name) + 1;
    f->header->sections[BUNDLE_NAMES].size_bytes = f->n_names;
    return at;
}

static void
seal(struct file *f)
{
    uint32_t i;

    for (i = 0; i < BUNDLE_SECTION_COUNT; i++) {
        struct bundle_section *s = &f->header->sections[i];
        if (s->offset <= FILE_BYTES && s->size_bytes <= FILE_BYTES - s->offset)
            s->checksum = bundle_checksum(f->data + s->offset, s->size_bytes);
    }
    f->header->checksum = 0;
    f->header->checksum = bundle_checksum(f->header, sizeof(*f->header));
}

static void *
add_section(struct file *f, enum bundle_section_kind kind, uint32_t at,
            uint64_t size_bytes)
{
    f->header->sections[kind].offset = at;
    f->header->sections[kind].size_bytes = size_bytes;
    return f->data + at;
}

static void
set_value(struct file *f, enum value which, enum bundle_kind kind,
          const char *name, uint64_t n_bytes, uint64_t data_offset)
{
    struct bundle_value *v = &f->values[which];

    v->name = add_name(f, name);
    v->kind = kind;
    v->dtype = 7; /* uint32 */
    v->ndim = 2;
    v->shape[0] = 2;
    v->shape[1] = n_bytes / 8;
    v->size_bytes = n_bytes;
    v->data_offset = data_offset;
}

/* Argument `at`, of a value from 0, to be read or written. */
static void
set_arg(struct file *f, uint32_t at, enum value value, uint64_t n_bytes,
        uint32_t access)
{
    f->args[at] = (struct bundle_arg){
        .place = BUNDLE_VALUE,
        .value = value,
        .access = access,
        .size_bytes = n_bytes,
    };
}

/* Target i fills the first words of the output with 100 + i. */
static void
set_target(struct file *f, uint32_t i, const char *backend, const char *arch)
{
    struct bundle_target *t = &f->targets[i];

    t->backend = add_name(f, backend);
    t->arch = add_name(f, arch);
    t->model = 0;
    t->tools = add_name(f, "a text editor");
    t->form = BUNDLE_MACHINE_CODE;
    t->first_command = N_COMMANDS * i;
    t->n_commands = 5;
    t->arena_bytes = 640;
    f->commands[N_COMMANDS * i] = (struct bundle_command){
        .op = BUNDLE_FILL, .pattern = 100 + i, .first_arg = 0, .n_args = 1};
    /* what the arena had goes through it to AGAIN; the state counts up */
    f->commands[N_COMMANDS * i + 1] =
        (struct bundle_command){.op = BUNDLE_COPY, .first_arg = 1, .n_args = 2};
    f->commands[N_COMMANDS * i + 2] =
        (struct bundle_command){.op = BUNDLE_COPY, .first_arg = 3, .n_args = 2};
    f->commands[N_COMMANDS * i + 3] =
        (struct bundle_command){.op = BUNDLE_COPY, .first_arg = 5, .n_args = 2};
    f->commands[N_COMMANDS * i + 4] =
        (struct bundle_command){.op = BUNDLE_COPY, .first_arg = 7, .n_args = 2};
}

/* out = 100 + target, then weight a's first 8 bytes; again = in, by the
 * arena; count = in's first 8 bytes. */
static struct file
make_file(void)
{
    struct file f = {.data = aligned_alloc(BUNDLE_PAGE, FILE_BYTES)};
    uint32_t i;

    assert_non_null(f.data);
    memset(f.data, 0, FILE_BYTES);
    f.header = (void *)f.data;
    memcpy(f.header->magic, BUNDLE_MAGIC, 8);
    f.header->version = BUNDLE_VERSION;
    f.header->n_sections = BUNDLE_SECTION_COUNT;
    f.header->file_bytes = FILE_BYTES;
    f.targets = add_section(&f, BUNDLE_TARGETS, 256, 3 * sizeof(*f.targets));
    f.values =
        add_section(&f, BUNDLE_VALUES, 512, N_VALUES * sizeof(*f.values));
    add_section(&f, BUNDLE_KERNELS, 1280, 0);
    f.commands = add_section(&f, BUNDLE_COMMANDS, ROWS_AT,
                             3 * N_COMMANDS * sizeof(*f.commands));
    f.args = add_section(&f, BUNDLE_ARGS, ROWS_AT + 2 * BUNDLE_PAGE,
                         16 * sizeof(*f.args));
    add_section(&f, BUNDLE_NAMES, NAMES_AT, 0);
    add_section(&f, BUNDLE_OBJECTS, ROWS_AT + 8 * BUNDLE_PAGE, 0);
    add_section(&f, BUNDLE_DATA, DATA_AT, 512);
    add_name(&f, "");
    set_value(&f, IN, BUNDLE_INPUT, "x", 32, BUNDLE_NO_DATA);
    set_value(&f, OUT, BUNDLE_OUTPUT, "y", 32, BUNDLE_NO_DATA);
    set_value(&f, COUNT, BUNDLE_STATE, "count", 8, 448);
    set_value(&f, BIG, BUNDLE_STATE, "big", BIG_BYTES, BUNDLE_NO_DATA);
    set_value(&f, WEIGHT_B, BUNDLE_WEIGHT, "b", 72, 128);
    set_value(&f, WEIGHT_A, BUNDLE_WEIGHT, "a", 64, 0);
    set_value(&f, AGAIN, BUNDLE_OUTPUT, "x", 32, BUNDLE_NO_DATA);
    for (i = 0; i < 512; i++)
        f.data[DATA_AT + i] = (uint8_t)(i * 7 + 1);
    set_arg(&f, 0, OUT, 32, BUNDLE_WRITE);
    f.args[1] = (struct bundle_arg){BUNDLE_ARENA, 0, BUNDLE_WRITE, 0, 608, 32};
    set_arg(&f, 2, IN, 32, BUNDLE_READ);
    set_arg(&f, 3, AGAIN, 32, BUNDLE_WRITE);
    f.args[4] = (struct bundle_arg){BUNDLE_ARENA, 0, BUNDLE_READ, 0, 608, 32};
    set_arg(&f, 5, OUT, 8, BUNDLE_WRITE);
    f.args[5].offset = 24;
    set_arg(&f, 6, WEIGHT_A, 8, BUNDLE_READ);
    set_arg(&f, 7, COUNT, 8, BUNDLE_WRITE);
    set_arg(&f, 8, IN, 8, BUNDLE_READ);
    for (i = 9; i < 16; i++)
        f.args[i] = i < 15 ? f.args[0] : f.args[2];
    for (i = 0; i < 3 * N_COMMANDS; i++)
        f.commands[i] = (struct bundle_command){
            .op = BUNDLE_FILL, .pattern = 7, .first_arg = 0, .n_args = 1};
    set_target(&f, 0, "NV", "sm_90");
    set_target(&f, 1, "CPU", dev->info.arch);
    set_target(&f, 2, "AMD", "gfx942");
    seal(&f);
    return f;
}

static struct hcq_bundle *
open_file(struct file *f)
{
    struct hcq_bundle *b;

    seal(f);
    expect_ok(hcq_bundle_open_memory(dev, f->data, FILE_BYTES, &b));
    return b;
}

/* ---- tests ---- */

static void
test_what_it_says(void **state)
{
    struct file f = make_file();
    struct hcq_bundle *b = open_file(&f);
    struct hcq_bundle_info info = {.struct_size = sizeof(info)};
    const struct hcq_bundle_value *v;
    uint32_t i;

    (void)state;
    /* nothing is written beyond the size that a caller has, which stays */
    for (i = 0; i < sizeof(info); i += 4) {
        struct hcq_bundle_info part;
        size_t k;

        memset(&part, 0x5a, sizeof(part));
        part.struct_size = i;
        hcq_bundle_get_info(b, &part);
        assert_int_equal(part.struct_size, i);
        for (k = i < 4 ? 4 : i; k < sizeof(part); k++)
            assert_int_equal(((unsigned char *)&part)[k], 0x5a);
    }
    hcq_bundle_get_info(b, &info);
    assert_string_equal(info.arch, dev->info.arch);
    assert_string_equal(info.tools, "a text editor");
    assert_int_equal(info.n_values, N_VALUES);
    assert_int_equal(info.n_kernels, 0);
    assert_int_equal(info.n_commands, 5);
    assert_int_equal(info.weight_bytes, 200);
    assert_int_equal(info.arena_bytes, 640);
    assert_true(info.weights_in_place);
    for (i = 0; i < N_VALUES; i++) {
        v = hcq_bundle_value(b, i);
        assert_int_equal(v->kind, f.values[i].kind);
        assert_int_equal(v->dtype, 7);
        assert_int_equal(v->ndim, 2);
        assert_int_equal(v->shape[0], 2);
        assert_int_equal(v->shape[1], f.values[i].size_bytes / 8);
        assert_int_equal(v->shape[2], 0);
        assert_int_equal(v->size_bytes, f.values[i].size_bytes);
    }
    assert_null(hcq_bundle_value(b, N_VALUES));
    assert_int_equal(hcq_bundle_find(b, HCQ_BUNDLE_INPUT, "x"), IN);
    assert_int_equal(hcq_bundle_find(b, HCQ_BUNDLE_OUTPUT, "x"), AGAIN);
    assert_int_equal(hcq_bundle_find(b, HCQ_BUNDLE_WEIGHT, "x"),
                     HCQ_BUNDLE_NONE);
    assert_int_equal(hcq_bundle_find(b, HCQ_BUNDLE_INPUT, "y"),
                     HCQ_BUNDLE_NONE);
    hcq_bundle_close(b);
    free(f.data);
}

static void
expect_bytes(struct hcq_bundle *b, enum value which, const void *want, size_t n)
{
    uint8_t got[128];

    expect_ok(hcq_bundle_read(b, which, got, n));
    assert_memory_equal(got, want, n);
}

static void
test_values(void **state)
{
    struct file f = make_file();
    struct hcq_bundle *b = open_file(&f);
    uint32_t x[8] = {9, 8, 7, 6, 5, 4, 3, 2}, want[8], i;
    uint8_t *big = malloc(BIG_BYTES);
    uint64_t n_big = f.values[BIG].size_bytes, value;

    (void)state;
    assert_non_null(big);
    expect_bytes(b, COUNT, f.data + DATA_AT + 448, 8);
    expect_bytes(b, WEIGHT_A, f.data + DATA_AT, 64);
    expect_bytes(b, WEIGHT_B, f.data + DATA_AT + 128, 72);
    memset(big, 1, BIG_BYTES);
    expect_ok(hcq_bundle_read(b, BIG, big, n_big));
    assert_true(n_big > 1u << 20);
    for (i = 0; i < n_big; i++)
        assert_int_equal(big[i], 0);
    expect_fails(hcq_bundle_run(b, NULL), BELL_E_INVALID,
                 "input 'x' was not set");
    expect_ok(hcq_bundle_write(b, IN, x, 32));
    expect_ok(hcq_bundle_run(b, &value));
    assert_int_equal(value, 1);
    for (i = 0; i < 6; i++)
        want[i] = 101;
    memcpy(want + 6, f.data + DATA_AT, 8);
    expect_bytes(b, OUT, want, 32);
    expect_bytes(b, AGAIN, x, 32);
    expect_bytes(b, COUNT, x, 8);
    x[0] = 77;
    expect_ok(hcq_bundle_write(b, COUNT, x, 8));
    expect_bytes(b, COUNT, x, 8);
    assert_true(hcq_signal_value(hcq_queue_timeline(hcq_bundle_queue(b))) == 1);
    hcq_bundle_close(b);
    free(big);
    free(f.data);
}

static void *
set_later(void *user)
{
    hcq_nap(20000000);
    hcq_signal_set(user, 1);
    return NULL;
}

/* An input is not changed under a run that has not read it yet. */
static void
test_write_waits(void **state)
{
    struct file f = make_file();
    struct hcq_bundle *b = open_file(&f);
    uint32_t x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    struct hcq_signal *go;
    pthread_t thread;
    struct hcq_cs *cs;

    (void)state;
    expect_ok(hcq_signal_create(dev, 0, &go));
    expect_ok(hcq_bundle_write(b, IN, x, 32));
    expect_ok(hcq_queue_begin(hcq_bundle_queue(b), &cs));
    hcq_cs_wait(cs, go, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    expect_ok(hcq_bundle_run(b, NULL));
    assert_int_equal(pthread_create(&thread, NULL, set_later, go), 0);
    expect_ok(hcq_bundle_write(b, IN, y, 32));
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_bytes(b, AGAIN, x, 32);
    hcq_signal_destroy(go);
    hcq_bundle_close(b);
    free(f.data);
}

/* The caller's memory, up to its very end. */
static void
test_bound(void **state)
{
    struct file f = make_file();
    struct hcq_bundle *b = open_file(&f);
    uint32_t x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, got[8];
    struct hcq_device *other;
    struct hcq_buffer *buf, *far;

    (void)state;
    expect_ok(hcq_device_open("CPU", &other));
    expect_ok(hcq_buffer_create(other, 64, 0, &far));
    expect_ok(hcq_buffer_create(dev, 96, 0, &buf));
    expect_fails(hcq_bundle_bind(b, IN, far, 0), BELL_E_INVALID,
                 "another device");
    expect_fails(hcq_bundle_bind(b, COUNT, buf, 0), BELL_E_INVALID,
                 "'count' is not to be bound");
    expect_fails(hcq_bundle_bind(b, N_VALUES, buf, 0), BELL_E_INVALID,
                 "no value 7; it has 7");
    expect_fails(hcq_bundle_bind(b, IN, buf, 128), BELL_E_INVALID,
                 "from 128 of 96");
    expect_ok(hcq_buffer_write(buf, 64, x, 32));
    expect_ok(hcq_bundle_bind(b, IN, buf, 64));
    expect_ok(hcq_bundle_bind(b, AGAIN, buf, 0));
    expect_ok(hcq_bundle_run(b, NULL));
    expect_ok(hcq_bundle_wait(b, HCQ_TIMEOUT_NS));
    expect_ok(hcq_buffer_read(buf, 0, got, 32));
    assert_memory_equal(got, x, 32);
    expect_fails(hcq_bundle_read(b, AGAIN, got, 32), BELL_E_INVALID,
                 "'x' is in a buffer of the caller's");
    /* an output goes back to the bundle's own; the input to what is unset */
    expect_ok(hcq_bundle_bind(b, AGAIN, NULL, 0));
    x[0] = 50;
    expect_ok(hcq_buffer_write(buf, 64, x, 32));
    expect_ok(hcq_bundle_run(b, NULL));
    expect_bytes(b, AGAIN, x, 32);
    expect_ok(hcq_bundle_bind(b, IN, NULL, 0));
    expect_fails(hcq_bundle_run(b, NULL), BELL_E_INVALID, "'x' was not set");
    /* but to what was written, also where it was bound since */
    x[0] = 60;
    expect_ok(hcq_bundle_write(b, IN, x, 32));
    expect_ok(hcq_bundle_bind(b, IN, buf, 64));
    expect_ok(hcq_bundle_bind(b, IN, NULL, 0));
    expect_ok(hcq_bundle_run(b, NULL));
    expect_bytes(b, AGAIN, x, 32);
    hcq_bundle_close(b);
    hcq_buffer_destroy(buf);
    hcq_buffer_destroy(far);
    hcq_device_close(other);
    free(f.data);
}

/* More commands than go into one submission, the last of them alone in one. */
static void
test_submissions(void **state)
{
    static const uint32_t counts[] = {0, 1, 31, 32, 33, N_COMMANDS};
    struct file f = make_file();
    uint32_t x[8] = {0}, got[8], i, n;

    (void)state;
    for (i = 0; i < ARRAY_LEN(counts); i++) {
        struct hcq_bundle *b;
        uint64_t value = 99;

        n = counts[i];
        f.targets[1].n_commands = n;
        b = open_file(&f);
        expect_ok(hcq_bundle_write(b, IN, x, 32));
        memset(got, 0, 32);
        expect_ok(hcq_bundle_run(b, &value));
        assert_int_equal(value, (n + 31) / 32);
        expect_ok(hcq_bundle_read(b, OUT, got, 32));
        if (n)
            assert_int_equal(got[0], n > 5 ? 7 : 101);
        hcq_bundle_close(b);
    }
    free(f.data);
}

/* In the order of enum bell_dtype, which the file's numbers are. */
static void
test_dtypes(void **state)
{
    static const char *const names[] = {
        "bool",           "int8",          "uint8",       "int16",
        "uint16",         "int32",         "uint32",      "int64",
        "uint64",         "float16",       "bfloat16",    "float32",
        "float64",        "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
        "float8_e5m2fnuz"};
    static const uint32_t sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8,
                                     2, 2, 4, 8, 1, 1, 1, 1};
    uint32_t i, size_bytes = 99;

    (void)state;
    assert_null(hcq_bundle_dtype_name(0, &size_bytes));
    for (i = 0; i < ARRAY_LEN(names); i++) {
        assert_string_equal(hcq_bundle_dtype_name(i + 1, &size_bytes),
                            names[i]);
        assert_int_equal(size_bytes, sizes[i]);
    }
    assert_null(hcq_bundle_dtype_name(i + 1, &size_bytes));
    assert_null(hcq_bundle_dtype_name(UINT32_MAX, &size_bytes));
}

/* ---- targets ---- */

/* Which target is taken, by the number that it fills with; 0: none. */
static uint32_t
taken(struct file *f)
{
    struct hcq_bundle *b;
    uint32_t x[8] = {0}, got[8];

    seal(f);
    if (hcq_bundle_open_memory(dev, f->data, FILE_BYTES, &b) != BELL_OK)
        return 0;
    expect_ok(hcq_bundle_write(b, IN, x, 32));
    expect_ok(hcq_bundle_run(b, NULL));
    expect_ok(hcq_bundle_read(b, OUT, got, 32));
    hcq_bundle_close(b);
    return got[0];
}

/* Without weights, without memory of its own. */
static void
test_bare(void **state)
{
    struct file f = make_file();
    struct hcq_bundle_info info = {.struct_size = sizeof(info)};
    struct hcq_bundle *b;
    uint32_t got[8], i;

    (void)state;
    f.targets[1].arena_bytes = 0;
    f.targets[1].n_commands = 1;
    for (i = 0; i < N_VALUES; i++) {
        if (f.values[i].kind == BUNDLE_WEIGHT)
            f.values[i].kind = BUNDLE_STATE;
        f.values[i].data_offset = BUNDLE_NO_DATA;
    }
    f.header->sections[BUNDLE_DATA].size_bytes = 0;
    b = open_file(&f);
    hcq_bundle_get_info(b, &info);
    assert_int_equal(info.weight_bytes, 0);
    assert_int_equal(info.arena_bytes, 0);
    memset(got, 1, sizeof(got));
    expect_ok(hcq_bundle_write(b, IN, got, 32));
    expect_ok(hcq_bundle_run(b, NULL));
    expect_ok(hcq_bundle_read(b, OUT, got, 32));
    for (i = 0; i < 8; i++)
        assert_int_equal(got[i], 101);
    hcq_bundle_close(b);
    /* a weight of no bytes, the only one */
    f.values[WEIGHT_A].kind = BUNDLE_WEIGHT;
    f.values[WEIGHT_A].shape[1] = f.values[WEIGHT_A].size_bytes = 0;
    f.values[WEIGHT_A].data_offset = 0;
    f.args[6].value = COUNT;
    b = open_file(&f);
    expect_ok(hcq_bundle_read(b, WEIGHT_A, got, 0));
    hcq_bundle_close(b);
    free(f.data);
}

/* What a device has, and what is mapped and open, once a bundle is gone. */
static void
test_leaves_nothing(void **state)
{
    struct file f = make_file();
    uint64_t live[2], cached;
    struct hcq_bundle *b;

    (void)state;
    hcq_memory_usage(dev, &live[0], &cached);
    b = open_file(&f);
    hcq_bundle_close(b);
    f.targets[1].arena_bytes = (uint64_t)1 << 60;
    seal(&f);
    expect_fails(hcq_bundle_open_memory(dev, f.data, FILE_BYTES, &b),
                 BELL_E_NO_MEMORY, "");
    hcq_memory_usage(dev, &live[1], &cached);
    assert_int_equal(live[1], live[0]);
    hcq_bundle_close(NULL);
    free(f.data);
}

static void
write_file(const char *path, const void *data, size_t size_bytes)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

/* From a file, and from what is none. */
static void
test_file(void **state)
{
    char path[] = "/tmp/test_hcq_bundle_XXXXXX";
    struct file f = make_file();
    struct hcq_bundle *b = NULL;
    int fd = mkstemp(path), next;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(path, f.data, FILE_BYTES);
    expect_ok(hcq_bundle_open(dev, path, &b));
    expect_bytes(b, WEIGHT_B, f.data + DATA_AT + 128, 72);
    hcq_bundle_close(b);
    b = NULL;
    write_file(path, f.data, FILE_BYTES - 1);
    expect_fails(hcq_bundle_open(dev, path, &b), BELL_E_IO, path);
    write_file(path, "", 0);
    expect_fails(hcq_bundle_open(dev, path, &b), BELL_E_IO, ": is empty");
    assert_int_equal(bell_error_last()->sys_errno, 0);
    unlink(path);
    expect_fails(hcq_bundle_open(dev, path, &b), BELL_E_IO,
                 ": No such file or directory");
    assert_int_equal(bell_error_last()->sys_errno, ENOENT);
    expect_fails(hcq_bundle_open(dev, "/tmp", &b), BELL_E_IO,
                 "/tmp: expected a regular file, got a folder");
    expect_ok(mkfifo(path, 0600) == 0 ? BELL_OK : BELL_E_IO);
    expect_fails(hcq_bundle_open(dev, path, &b), BELL_E_IO,
                 ": expected a regular file, got a FIFO");
    unlink(path);
    assert_null(b);
    expect_fails(hcq_bundle_open(dev, NULL, &b), BELL_E_INVALID, "the file");
    expect_fails(hcq_bundle_open(dev, path, NULL), BELL_E_INVALID,
                 "the result");
    expect_fails(hcq_bundle_open(NULL, path, &b), BELL_E_INVALID, "the device");
    expect_fails(hcq_bundle_open_memory(dev, f.data + 64, FILE_BYTES, &b),
                 BELL_E_INVALID, "not a multiple of 4096");
    next = open("/dev/null", O_RDONLY);
    assert_int_equal(next, fd); /* none is left open */
    close(next);
    free(f.data);
}

/* Target 0, which is not this device's, runs a kernel with one buffer and one
 * word. */
static struct bundle_kernel *
add_kernel(struct file *f)
{
    struct bundle_kernel *k = add_section(f, BUNDLE_KERNELS, 1280, sizeof(*k));

    k->name = add_name(f, "kernel");
    k->n_bufs = k->n_vals = 1;
    f->targets[0].n_kernels = 1;
    f->commands[0] = (struct bundle_command){
        .op = BUNDLE_EXEC, .grid = {1, 1, 1}, .first_arg = 8, .n_args = 2};
    f->args[9] = (struct bundle_arg){.offset = 5};
    return k;
}

static void
test_targets(void **state)
{
    struct file f = make_file();
    uint32_t cpu = f.targets[1].backend, level[6], own = f.targets[1].arch;
    uint32_t model = add_name(&f, dev->info.model), i;
    char real[64], name[16];

    (void)state;
    snprintf(real, sizeof(real), "%s", dev->info.arch);
    snprintf(dev->info.arch, sizeof(dev->info.arch), "x86-64-v3");
    for (i = 1; i < 6; i++) {
        snprintf(name, sizeof(name), "x86-64-v%u", i);
        level[i] = add_name(&f, name);
    }
#define ARCHS(x, y, z)                                                         \
    (f.targets[0].arch = (x), f.targets[1].arch = (y), f.targets[2].arch = (z))
    for (i = 0; i < 3; i++)
        f.targets[i].backend = cpu;
    /* its own before lesser ones, the greatest of these; never a greater */
    ARCHS(level[2], level[3], level[1]);
    assert_int_equal(taken(&f), 101);
    ARCHS(level[1], level[4], level[2]);
    assert_int_equal(taken(&f), 102);
    ARCHS(level[2], level[4], level[1]);
    assert_int_equal(taken(&f), 100);
    ARCHS(level[4], level[5], level[4]);
    assert_int_equal(taken(&f), 0);
    expect_fails(bell_error_last()->status, BELL_E_UNSUPPORTED,
                 "it is for CPU x86-64-v4, CPU x86-64-v5, CPU x86-64-v4; CPU");
    /* not what begins or ends otherwise */
    ARCHS(add_name(&f, "x86-64-v"), add_name(&f, "x86-64-v10"),
          add_name(&f, "x86-64-w1"));
    assert_int_equal(taken(&f), 0);
    snprintf(dev->info.arch, sizeof(dev->info.arch), "z86-64-v3");
    ARCHS(level[1], level[2], level[3]);
    assert_int_equal(taken(&f), 0);
    /* AArch64: the least is written without a number */
    snprintf(dev->info.arch, sizeof(dev->info.arch), "armv8.6-a");
    level[1] = add_name(&f, "armv8-a");
    level[2] = add_name(&f, "armv8.2-a");
    ARCHS(level[1], level[2], level[3]);
    assert_int_equal(taken(&f), 101);
    ARCHS(add_name(&f, "armv8.9-a"), add_name(&f, "armv8.22-a"), level[1]);
    assert_int_equal(taken(&f), 102);
    ARCHS(level[3], add_name(&f, "armv8.2-"), add_name(&f, "armv8.x-a"));
    assert_int_equal(taken(&f), 0);
    snprintf(dev->info.arch, sizeof(dev->info.arch), "armv8-a");
    ARCHS(level[2], level[4], level[5]);
    assert_int_equal(taken(&f), 0);
    snprintf(dev->info.arch, sizeof(dev->info.arch), "x86-64-v4");
    ARCHS(level[1], level[2], level[1]);
    assert_int_equal(taken(&f), 0);
    snprintf(dev->info.arch, sizeof(dev->info.arch), "%s", real);

    /* of its own model before any, and of no other */
    ARCHS(own, own, own);
    assert_int_equal(taken(&f), 100);
    f.targets[1].model = model;
    assert_int_equal(taken(&f), 101);
    f.targets[0].model = f.targets[2].model = own;
    f.targets[1].backend = level[1];
    assert_int_equal(taken(&f), 0);
    expect_fails(bell_error_last()->status, BELL_E_UNSUPPORTED, " of ");
    /* PTX is for simulated cards, which a processor is not */
    f.targets[0].model = 0;
    assert_int_equal(taken(&f), 100);
    f.targets[0].form = BUNDLE_PTX;
    assert_int_equal(taken(&f), 0);
    expect_fails(bell_error_last()->status, BELL_E_UNSUPPORTED, "(simulated)");
    /* which take it before machine code, and a model before both */
    dev->info.flags |= HCQ_DEVICE_SIMULATED;
    assert_int_equal(taken(&f), 100);
    f.targets[2].model = 0;
    assert_int_equal(taken(&f), 100);
    f.targets[0].form = BUNDLE_MACHINE_CODE;
    f.targets[2].form = BUNDLE_PTX;
    assert_int_equal(taken(&f), 102);
    f.targets[0].model = model;
    f.targets[0].form = BUNDLE_PTX;
    assert_int_equal(taken(&f), 100);
    dev->info.flags &= ~HCQ_DEVICE_SIMULATED;
    /* simulated NVIDIA cards run no machine code */
    snprintf(real, sizeof(real), "%s", dev->info.backend);
    snprintf(dev->info.backend, sizeof(dev->info.backend), "NV");
    dev->info.flags |= HCQ_DEVICE_SIMULATED;
    for (i = 0; i < 3; i++)
        f.targets[i].backend = i ? cpu : add_name(&f, "NV");
    f.targets[0].arch = own;
    f.targets[0].model = 0;
    f.targets[0].form = BUNDLE_MACHINE_CODE;
    assert_int_equal(taken(&f), 100); /* there is none */
    add_kernel(&f);
    assert_int_equal(taken(&f), 0);
    expect_fails(bell_error_last()->status, BELL_E_UNSUPPORTED,
                 "save the bundle for NV@sim:");
    snprintf(dev->info.backend, sizeof(dev->info.backend), "%.15s", real);
    dev->info.flags &= ~HCQ_DEVICE_SIMULATED;
    f.header->sections[BUNDLE_TARGETS].size_bytes = 0;
    assert_int_equal(taken(&f), 0);
    expect_fails(bell_error_last()->status, BELL_E_UNSUPPORTED,
                 "it is for nothing");
    free(f.data);
}

/* ---- borders of what is read ---- */

static void
expect_open(struct file *f)
{
    hcq_bundle_close(open_file(f));
}

static void
expect_refused(struct file *f, const char *part)
{
    struct bundle_file out;

    seal(f);
    expect_fails(bundle_file_open(f->data, FILE_BYTES, &out), BELL_E_IO, part);
}

/* A change that is read, then one beside it that is not. */
#define BORDER(good, bad, part)                                                \
    do {                                                                       \
        struct file f = make_file();                                           \
        good;                                                                  \
        expect_open(&f);                                                       \
        bad;                                                                   \
        expect_refused(&f, part);                                              \
        free(f.data);                                                          \
    } while (0)

static void
test_borders_of_values(void **state)
{
    (void)state;
    BORDER(f.values[IN].dtype = 6, f.values[IN].dtype = 18, "has dtype 18");
    BORDER(f.values[IN].dtype = 12, f.values[IN].dtype = 13,
           "its shape asks for 64");
    BORDER((f.values[IN].ndim = 8,
            memcpy(f.values[IN].shape + 2, (uint64_t[]){1, 1, 1, 1, 1, 1}, 48)),
           f.values[IN].shape[7] = 2, "its shape asks for 64");
    BORDER((f.values[BIG].shape[0] = 0, f.values[BIG].shape[1] = INT64_MAX,
            f.values[BIG].size_bytes = 0),
           f.values[BIG].shape[1] = (uint64_t)INT64_MAX + 1,
           "'big' is too large at axis 1");
    BORDER(f.values[COUNT].data_offset = 0, f.values[COUNT].data_offset = 512,
           "8 bytes at 0x200 of 512");
    BORDER(f.values[WEIGHT_B].data_offset = 384,
           f.values[WEIGHT_B].data_offset = 448, "72 bytes at 0x1c0 of 512");
    BORDER((f.values[WEIGHT_B].size_bytes = 64, f.values[WEIGHT_B].shape[1] = 8,
            f.values[WEIGHT_B].data_offset = 448),
           f.values[WEIGHT_B].data_offset = 32, "64 bytes at 0x20 of 512");
    BORDER(, f.values[OUT].data_offset = 64, "32 bytes at 0x40 of 512");
    BORDER(, f.values[OUT].name = f.n_names, "name 0x");
    BORDER(f.values[OUT].name = f.n_names - 2, f.values[OUT].name = 0,
           "name 0x0, kind 1");
    BORDER(, f.values[COUNT].kind = BUNDLE_SYMBOL, "kind 4");
}

static void
test_borders_of_names(void **state)
{
    (void)state;
    BORDER(f.data[f.header->sections[BUNDLE_NAMES].offset + 1] = 0x20,
           f.data[f.header->sections[BUNDLE_NAMES].offset + 1] = 0x1f,
           "character 0x1f in a name");
    BORDER(f.data[f.header->sections[BUNDLE_NAMES].offset + 1] = 0x7e,
           f.data[f.header->sections[BUNDLE_NAMES].offset + 1] = 0x7f,
           "character 0x7f in a name");
    BORDER(f.data[f.header->sections[BUNDLE_NAMES].offset + 1] = 0xff,
           f.header->sections[BUNDLE_NAMES].size_bytes--, "each is to end");
    BORDER(, f.header->sections[BUNDLE_NAMES].size_bytes = 0,
           "begin with an empty name");
}

static void
test_borders_of_arguments(void **state)
{
    (void)state;
    BORDER(f.args[1].offset = f.args[4].offset = 0,
           f.args[1].offset = f.args[4].offset = 609,
           "32 bytes at 0x261 of 640");
    BORDER(, f.targets[1].arena_bytes = 639, "32 bytes at 0x260 of 639");
    BORDER(f.args[5].offset = 0, f.args[5].offset = 25,
           "8 bytes at 0x19 of 32");
    BORDER(f.args[0] = f.args[1], (f.args[0].offset = 2),
           "it fills 0x2, access 2");
    BORDER(, f.args[0].access = BUNDLE_READ, "it fills 0x0, access 1");
    BORDER(, f.args[0].access = 3, "it fills 0x0, access 3");
    BORDER(, f.args[0].access = 4, "access 4 to value 1");
    BORDER(, f.args[1].value = 1, "place 1, value 1 for memory");
    BORDER(f.args[3].value = OUT, f.args[3].value = WEIGHT_A,
           "access 2 to value 5");
    BORDER(, f.args[3].access = 3, "access 1 and 3");
    BORDER(, f.args[2].size_bytes = 31, "it copies 31 bytes to 32");
    BORDER(f.args[2].value = WEIGHT_B, f.args[2].value = N_VALUES,
           "value 7 of 7");
    BORDER(, f.args[0].place = BUNDLE_PLACE_COUNT, "place 4, value 1");
    BORDER(, f.args[0].place = BUNDLE_TIMES, "place 3, value 1 for memory");
    BORDER(, f.args[0].times = 1, "place 2, value 1 for memory");
    BORDER(f.commands[N_COMMANDS + 4].first_arg = 14,
           f.commands[N_COMMANDS + 4].first_arg = 15, "arguments 15 + 2 of 16");
    BORDER(, f.commands[N_COMMANDS].n_args = 2, "2 arguments, not 1");
    BORDER(f.targets[2].n_commands = N_COMMANDS,
           f.targets[2].n_commands = N_COMMANDS + 1,
           "commands 140 + 71 of 210");
    BORDER(f.targets[0].arena_bytes = INT64_MAX,
           f.targets[0].arena_bytes = 1ull << 63, "an arena of");
    BORDER(f.targets[0].form = BUNDLE_PTX, f.targets[0].form = 2, "form 2");
    BORDER(, f.targets[0].n_kernels = 1, "kernels 0 + 1 of 0");
    BORDER(f.targets[0].model = f.n_names - 1, f.targets[0].model = f.n_names,
           "names 0x");
    BORDER(, f.targets[0].tools = f.n_names, "names 0x");
    BORDER(, f.targets[0].backend = f.n_names, "names 0x");
}

static void
test_borders_of_kernels(void **state)
{
    (void)state;
    BORDER(add_kernel(&f), f.args[9].place = BUNDLE_ARENA,
           "place 1, value 0 for a word");
    BORDER(add_kernel(&f), f.args[8].place = BUNDLE_WORD,
           "place 0, value 0 for memory");
    BORDER(add_kernel(&f), f.args[9].value = 1, "place 0, value 1 for a word");
    BORDER(add_kernel(&f), f.args[9].place = BUNDLE_TIMES,
           "value 0 of 7 for a word");
    BORDER(add_kernel(&f), f.args[9].size_bytes = 1,
           "a word of 1 bytes, access 0");
    BORDER(add_kernel(&f), f.args[9].access = 1, "a word of 0 bytes, access 1");
    BORDER(add_kernel(&f), f.commands[0].kernel = 1, "kernel 1 of 1");
    BORDER(add_kernel(&f), f.commands[0].grid[0] = 0, "a grid of 0 x 1 x 1");
    BORDER(add_kernel(&f), f.commands[0].grid[2] = 0, "a grid of 1 x 1 x 0");
    BORDER(add_kernel(&f), add_kernel(&f)->n_vals = 2, "2 arguments, not 3");
    BORDER(add_kernel(&f), add_kernel(&f)->n_bufs = UINT32_MAX,
           "2 arguments, not 4294967296");
    BORDER(add_kernel(&f), add_kernel(&f)->name = 0, "name 0x0");
    BORDER(add_kernel(&f)->object_offset = 0, add_kernel(&f)->object_bytes = 1,
           "'kernel' has 1 bytes at 0x0 of 0 of objects");
    BORDER(add_kernel(&f), add_kernel(&f)->object_offset = 64, "at 0x40 of 0");
}

static void
test_borders_of_sections(void **state)
{
    (void)state;
    BORDER(f.header->sections[BUNDLE_DATA].size_bytes = 2 * BUNDLE_PAGE,
           f.header->sections[BUNDLE_DATA].size_bytes++, "they are to lie");
    BORDER(f.header->sections[BUNDLE_TARGETS].size_bytes = 240,
           f.header->sections[BUNDLE_TARGETS].size_bytes = 288,
           "they are to lie behind 0x220");
    BORDER(, f.header->sections[BUNDLE_DATA].offset += 64, "multiple of 4096");
    BORDER(, f.header->sections[BUNDLE_KERNELS].offset += 32, "multiple of 64");
    BORDER(, f.header->sections[BUNDLE_ARGS].size_bytes++, "for rows of 32");
}

/* A refused bundle takes nothing with it, and no memory is an error. */
static void
test_no_memory(void **state)
{
    struct file f = make_file();
    uint64_t n;

    (void)state;
    for (n = 1;; n++) {
        struct hcq_bundle *b = NULL;
        bell_status status;

        assert_true(n < 200);
        host_fail_after(n, 1);
        status = hcq_bundle_open_memory(dev, f.data, FILE_BYTES, &b);
        host_fail_after(0, 0);
        if (status == BELL_OK) {
            hcq_bundle_close(b);
            break;
        }
        assert_int_equal(status, BELL_E_NO_MEMORY);
        assert_null(b);
    }
    assert_true(n > 8);
    free(f.data);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_says),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_write_waits),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_bare),
        cmocka_unit_test(test_leaves_nothing),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_borders_of_values),
        cmocka_unit_test(test_borders_of_names),
        cmocka_unit_test(test_borders_of_arguments),
        cmocka_unit_test(test_borders_of_kernels),
        cmocka_unit_test(test_borders_of_sections),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, open_device, close_device);
}
