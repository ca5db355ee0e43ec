/* Devices: names, enumeration, limits, several at once. */
#include "cts.h"

#include <stdio.h>
#include <stdlib.h>

static void
names(struct cts *t)
{
    struct hcq_device *dev;
    char text[160];

    FAILS(hcq_device_open("", &dev), BELL_E_INVALID, "BACKEND[:INDEX]");
    FAILS(hcq_device_open(":0", &dev), BELL_E_INVALID, "no backend");
    FAILS(hcq_device_open("@sim", &dev), BELL_E_INVALID, "no backend");
    FAILS(hcq_device_open("9CPU", &dev), BELL_E_INVALID, "letters");
    FAILS(hcq_device_open("C-U", &dev), BELL_E_INVALID, "letters");
    FAILS(hcq_device_open("AVERYLONGBACKENDNAME", &dev), BELL_E_INVALID,
          "too long");
    snprintf(text, sizeof(text), "%s:", t->info.backend);
    FAILS(hcq_device_open(text, &dev), BELL_E_INVALID, "no index");
    snprintf(text, sizeof(text), "%s:no such", t->info.backend);
    if (strcmp(t->info.backend, "CL") == 0) /* its devices have names */
        FAILS(hcq_device_open(text, &dev), BELL_E_NO_DEVICE, t->info.model);
    else
        FAILS(hcq_device_open(text, &dev), BELL_E_INVALID, "no index");
    snprintf(text, sizeof(text), "%s:0x", t->info.backend);
    FAILS(hcq_device_open(text, &dev), BELL_E_INVALID, "not a number");
    snprintf(text, sizeof(text), "%s:12345", t->info.backend);
    FAILS(hcq_device_open(text, &dev), BELL_E_INVALID, "too large");
    snprintf(text, sizeof(text), "%s:0@", t->info.backend);
    FAILS(hcq_device_open(text, &dev), BELL_E_INVALID, "no interface");
    FAILS(hcq_device_open("XYZ", &dev), BELL_E_NO_DEVICE, "known: ");
    FAILS(hcq_device_open("XYZ", &dev), BELL_E_NO_DEVICE, t->info.backend);
    snprintf(text, sizeof(text), "%s:9999", t->info.backend);
    FAILS(hcq_device_open(text, &dev), BELL_E_NO_DEVICE, ":9999");
    snprintf(text, sizeof(text), "%s:0@nothing", t->info.backend);
    FAILS(hcq_device_open(text, &dev), BELL_E_NO_DEVICE, "nothing");
    FAILS(hcq_device_open(t->device, NULL), BELL_E_INVALID, "no place");
    hcq_device_close(NULL);
}

static void
default_device(struct cts *t)
{
    struct hcq_device *dev;

    setenv("BELL_DEVICE", t->device, 1);
    OK(hcq_device_open(NULL, &dev));
    CHECK(strcmp(hcq_device_name(dev), t->info.name) == 0, "%s",
          hcq_device_name(dev));
    hcq_device_close(dev);
    setenv("BELL_DEVICE", "XYZ:1", 1);
    FAILS(hcq_device_open(NULL, &dev), BELL_E_NO_DEVICE, "XYZ");
    unsetenv("BELL_DEVICE");
    OK(hcq_device_open(NULL, &dev));
    hcq_device_close(dev);
}

static void
enumerate(struct cts *t)
{
    struct hcq_device_desc list[64];
    size_t n, n_again, i;
    bool found = false;

    OK(hcq_device_enumerate(list, ARRAY_LEN(list), &n));
    CHECK(n >= 1 && n <= ARRAY_LEN(list), "%zu", n);
    for (i = 0; i < n; i++) {
        CHECK(list[i].name[0] && list[i].description[0] && list[i].backend,
              "row %zu", i);
        CHECK(list[i].usable || list[i].why_not[0], "%s", list[i].name);
        if (strcmp(list[i].name, t->info.name) == 0)
            found = list[i].usable;
    }
    CHECK(found || strchr(t->device, '@'), "%s is not listed", t->info.name);
    OK(hcq_device_enumerate(NULL, 0, &n_again));
    CHECK(n_again == n, "%zu, then %zu", n, n_again);
    FAILS(hcq_device_enumerate(NULL, 1, &n), BELL_E_INVALID, "no place");
}

static void
info(struct cts *t)
{
    struct hcq_device_info part;

    CHECK(strncmp(t->info.name, t->info.backend, strlen(t->info.backend)) == 0,
          "%s", t->info.name);
    CHECK(t->info.arch[0] && t->info.model[0], "empty");
    CHECK(t->info.n_units >= 1 && t->info.max_local_total >= 1, "units");
    CHECK(t->info.max_grid[0] >= 65535 && t->info.max_grid[1] >= 65535 &&
              t->info.max_grid[2] >= 65535,
          "grid");
    CHECK(t->info.max_args >= 16 && t->info.max_args <= HCQ_ARGS_MAX, "args");
    CHECK(t->info.memory_bytes >= 1u << 20, "memory");
    CHECK(t->info.timestamp_hz >= 1000000, "clock");
    /* A caller built against an older, shorter structure. */
    memset(&part, 0x5a, sizeof(part));
    part.struct_size = offsetof(struct hcq_device_info, arch);
    hcq_device_info(t->dev, &part);
    CHECK(strcmp(part.backend, t->info.backend) == 0, "%s", part.backend);
    CHECK((unsigned char)part.arch[0] == 0x5a, "wrote past the end");
}

static void
open_close_many(struct cts *t)
{
    int i;

    for (i = 0; i < 50; i++) {
        struct hcq_device *dev;
        struct hcq_queue *queue;

        OK(hcq_device_open(t->device, &dev));
        if (i & 1)
            OK(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
        hcq_device_close(dev);
    }
}

/* The device under test computes. */
static void
check_alone(struct cts *t, struct hcq_program *add_one)
{
    struct hcq_buffer *buf = cts_ints(t, 64, 6);
    struct hcq_cs *cs = cts_begin(t->queue);

    cts_exec(cs, add_one, 4, ARGS(buf->va, buf->va, 16));
    cts_finish(t->queue, cs);
    CHECK(cts_int(buf, 0) == 7 && cts_int(buf, 63) == 7, "%d", cts_int(buf, 0));
    hcq_buffer_destroy(buf);
}

/* Submits to a device that need not see another's signals. */
static void
submit_seen(struct hcq_device *dev, struct hcq_cs *cs)
{
    bell_status status = hcq_cs_submit(cs, NULL);

    if (status == BELL_E_UNSUPPORTED && cts_may_lack(dev, CTS_LACK_SIGNALS)) {
        hcq_device_close(dev);
        cts_skip("%s", bell_error_last()->message);
    }
    OK(status);
}

/* Work of one opening of a device waits for work of another. */
static void
two_devices(struct cts *t)
{
    struct hcq_device *other;
    struct hcq_queue *queue;
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE), *prog2;
    struct hcq_buffer *buf = cts_ints(t, 64, 0), *mine, *its;
    struct hcq_signal *sig = cts_signal(t, 0), *sig2;
    struct hcq_cs *cs;
    int32_t host[64] = {0}, i;

    OK(hcq_device_open(t->device, &other));
    OK(hcq_queue_create(other, HCQ_QUEUE_COMPUTE, &queue));
    OK(hcq_signal_create(other, 0, &sig2));
    prog2 = cts_load(t, other, CTS_ADD_ONE, 0);
    /* Both see the same host memory, each at its own address. */
    mine = cts_pin(t->dev, host, sizeof(host));
    its = cts_pin(other, host, sizeof(host));
    for (i = 1; i <= 20; i++) {
        cs = cts_begin(queue);
        hcq_cs_wait(cs, sig, (uint64_t)i);
        hcq_cs_barrier(cs);
        cts_exec(cs, prog2, 1, ARGS(its->va, its->va, 64));
        hcq_cs_signal(cs, sig2, (uint64_t)i);
        submit_seen(other, cs);
        cs = cts_begin(t->queue);
        hcq_cs_barrier(cs);
        cts_exec(cs, prog, 1, ARGS(mine->va, mine->va, 64));
        hcq_cs_signal(cs, sig, (uint64_t)i);
        hcq_cs_wait(cs, sig2, (uint64_t)i);
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_queue_wait(t->queue, LONG_NS));
    CHECK(host[0] == 40 && host[63] == 40, "%d, %d", host[0], host[63]);
    /* Programs belong to a device. */
    cs = cts_begin(t->queue);
    cts_exec(cs, prog2, 1, ARGS(buf->va, buf->va, 1));
    FAILS(hcq_cs_submit(cs, NULL), BELL_E_INVALID, "another device");
    hcq_device_close(other);
    hcq_buffer_destroy(mine);
    check_alone(t, prog);
}

/* The name of device `idx` behind the interface of the device under test. */
static void
name_of(const struct cts *t, unsigned idx, char *text, size_t size_bytes)
{
    const char *at = strchr(t->device, '@');

    snprintf(text, size_bytes, "%s:%u%s", t->info.backend, idx, at ? at : "");
}

/* A second card: other memory, other queues, signals that both see. */
static void
two_cards(struct cts *t)
{
    struct hcq_device *other;
    struct hcq_queue *queue, *copy;
    struct hcq_program *prog = cts_program(t, CTS_ADD_ONE), *prog2;
    struct hcq_buffer *buf = cts_ints(t, 1024, 0), *buf2, *mine, *its;
    struct hcq_signal *sig = cts_signal(t, 0), *sig2;
    static int32_t host[1024];
    struct hcq_cs *cs;
    char name[160];
    uint64_t i;

    name_of(t, 1, name, sizeof(name));
    if (hcq_device_open(name, &other) == BELL_E_NO_DEVICE)
        cts_skip("there is no %s", name);
    OK(hcq_device_status(other));
    CHECK(strcmp(hcq_device_name(other), name) == 0, "%s",
          hcq_device_name(other));
    OK(hcq_queue_create(other, HCQ_QUEUE_COMPUTE, &queue));
    OK(hcq_queue_create(other, HCQ_QUEUE_COPY, &copy));
    OK(hcq_signal_create(other, 0, &sig2));
    OK(hcq_buffer_create(other, 4096, 0, &buf2));
    prog2 = cts_load(t, other, CTS_ADD_ONE, 0);
    memset(host, 0, sizeof(host));
    OK(hcq_buffer_write(buf2, 0, host, 4096));
    mine = cts_pin(t->dev, host, 4096);
    its = cts_pin(other, host, 4096);
    /* Both ways through host memory, without the host. */
    for (i = 1; i <= 20; i++) {
        cs = cts_begin(t->queue);
        hcq_cs_wait(cs, sig2, i - 1);
        hcq_cs_copy(cs, buf->va, mine->va, 4096);
        cts_exec(cs, prog, 8, ARGS(buf->va, buf->va, 128));
        hcq_cs_copy(cs, mine->va, buf->va, 4096);
        hcq_cs_signal(cs, sig, i);
        OK(hcq_cs_submit(cs, NULL));
        cs = cts_begin(copy);
        hcq_cs_wait(cs, sig, i);
        hcq_cs_copy(cs, buf2->va, its->va, 4096);
        OK(hcq_cs_submit(cs, NULL));
        cs = cts_begin(queue);
        hcq_cs_wait(cs, hcq_queue_timeline(copy), i);
        cts_exec(cs, prog2, 8, ARGS(buf2->va, buf2->va, 128));
        hcq_cs_copy(cs, its->va, buf2->va, 4096);
        hcq_cs_signal(cs, sig2, i);
        OK(hcq_cs_submit(cs, NULL));
    }
    OK(hcq_signal_wait(sig2, 20, LONG_NS));
    CHECK(host[0] == 40 && host[1023] == 40, "%d, %d", host[0], host[1023]);
    CHECK(cts_int(buf, 7) == 39 && cts_int(buf2, 7) == 40, "%d, %d",
          cts_int(buf, 7), cts_int(buf2, 7));
    /* One that hangs leaves the other alone. */
    cs = cts_begin(queue);
    hcq_cs_wait(cs, sig2, 99);
    OK(hcq_cs_submit(cs, NULL));
    HANGS(hcq_queue_wait(queue, 20 * MS_NS), ">= 99");
    check_alone(t, prog);
    OK(hcq_device_recover(other));
    hcq_device_close(other);
    hcq_buffer_destroy(mine);
    check_alone(t, prog);
}

/* What closing finds is freed with it; the sanitizers see what is not. */
static void
close_with_everything(struct cts *t)
{
    struct hcq_device *dev;
    struct hcq_queue *queue;
    struct hcq_signal *sig;
    struct hcq_buffer *buf;
    struct hcq_stream *stream;
    struct hcq_cs *cs;

    OK(hcq_device_open(t->device, &dev));
    OK(hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue));
    OK(hcq_signal_create(dev, 0, &sig));
    OK(hcq_buffer_create(dev, 5000, 0, &buf));
    OK(hcq_buffer_create(dev, 5u << 20, 0, &buf));
    OK(hcq_stream_create(queue, "left", &stream));
    OK(hcq_stream_end(stream));
    cts_load(t, dev, CTS_NOP, 0);
    /* A wait that nobody satisfies is still queued. */
    cs = cts_begin(queue);
    hcq_cs_wait(cs, sig, 1);
    OK(hcq_cs_submit(cs, NULL));
    hcq_device_close(dev);
}

const struct cts_case cts_device_cases[] = {
    {"device names", names},
    {"device default", default_device},
    {"device enumerate", enumerate},
    {"device info", info},
    {"device open and close 50 times", open_close_many},
    {"device opened twice", two_devices},
    {"device two cards", two_cards},
    {"device close with everything left", close_with_everything},
    {NULL, NULL},
};
