/* Memory by descriptors: exported by one device, imported by another opening, a
 * second device, another process or another vendor's device.
 */
#include "peers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_INTS  1024u
#define N_BYTES (3 * 4096u)

/* Skips the case where a device's driver has no such descriptors, and has said
 * so by its name. */
static void
skip_unshared(struct hcq_device *dev, bell_status status, enum cts_lack what)
{
    if (status != BELL_E_UNSUPPORTED)
        return;
    CHECK(strstr(bell_error_last()->message, hcq_device_name(dev)), "%s",
          bell_error_last()->message);
    if (cts_may_lack(dev, what))
        cts_skip("%s", bell_error_last()->message);
}

/* Bytes of a device that others may have, each `value`. */
static struct hcq_buffer *
shareable(struct hcq_device *dev, int32_t value)
{
    int32_t data[N_BYTES / 4];
    struct hcq_buffer *buf;
    bell_status status =
        hcq_buffer_create(dev, N_BYTES, HCQ_MEM_SHAREABLE, &buf);
    unsigned i;

    skip_unshared(dev, status, CTS_LACK_EXPORTS);
    OK(status);
    for (i = 0; i < N_BYTES / 4; i++)
        data[i] = value;
    OK(hcq_buffer_write(buf, 0, data, sizeof(data)));
    return buf;
}

static int
descriptor_of(const struct hcq_buffer *buf)
{
    int fd = -1;

    OK(hcq_buffer_export(buf, &fd));
    CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC), "descriptor %d", fd);
    return fd;
}

static struct hcq_buffer *
import(struct hcq_device *dev, int fd, uint64_t offset, uint64_t size_bytes)
{
    struct hcq_buffer *buf;
    bell_status status = hcq_buffer_import(dev, fd, offset, size_bytes, &buf);

    skip_unshared(dev, status, CTS_LACK_IMPORTS);
    OK(status);
    CHECK(buf->dev == dev && buf->size_bytes == size_bytes, "another buffer");
    return buf;
}

/* All of it is `before`; a kernel adds 1, which the owner sees. */
static void
use(struct peer_side *side, struct hcq_buffer *seen, struct hcq_buffer *owner,
    int32_t before)
{
    struct hcq_cs *cs = cts_begin(side->queue);

    peers_check(seen, before, "the import");
    peers_add_one(cs, side, seen, seen, seen->size_bytes / 4);
    cts_finish(side->queue, cs);
    peers_check(seen, before + 1, "the import");
    if (owner)
        peers_check(owner, before + 1, "the owner's");
}

static void
what_may_be_exported(struct cts *t)
{
    struct hcq_buffer *buf = cts_buffer(t, 64), *own, *seen;
    int fd = -7, second;

    FAILS(hcq_buffer_export(NULL, &fd), BELL_E_INVALID, "the buffer is NULL");
    FAILS(hcq_buffer_export(buf, NULL), BELL_E_INVALID, "the result is NULL");
    FAILS(hcq_buffer_export(buf, &fd), BELL_E_INVALID, "HCQ_MEM_SHAREABLE");
    CHECK(fd == -7, "descriptor %d", fd);
    own = shareable(t->dev, 5);
    fd = descriptor_of(own);
    second = descriptor_of(own);
    CHECK(fd != second, "one descriptor twice");
    CHECK(lseek(fd, 0, SEEK_END) >= (off_t)N_BYTES, "%lld bytes",
          (long long)lseek(fd, 0, SEEK_END));
    close(fd);
    seen = import(t->dev, second, 0, N_BYTES);
    close(second);
    FAILS(hcq_buffer_export(seen, &fd), BELL_E_INVALID, "HCQ_MEM_SHAREABLE");
    hcq_buffer_destroy(seen);
    hcq_buffer_destroy(own);
    hcq_buffer_destroy(buf);
}

/* Both ways; also a part, and by two at once. */
static void
by_another(struct cts *t, bool same)
{
    struct hcq_buffer *own, *seen, *part;
    struct peers p;
    unsigned i;
    int fd;

    if (same)
        peers_open_same(t, &p, 2);
    else
        peers_open(t, &p, 2);
    for (i = 0; i < 2; i++) {
        struct peer_side *me = &p.side[i];

        own = shareable(p.side[1 - i].dev, 7);
        fd = descriptor_of(own);
        seen = import(me->dev, fd, 0, N_BYTES);
        use(me, seen, own, 7);
        part = import(me->dev, fd, 4096, 2 * 4096);
        close(fd);
        use(me, part, NULL, 8);
        CHECK(cts_int(own, 1023) == 8 && cts_int(own, 1024) == 9 &&
                  cts_int(seen, 1024) == 9,
              "%d %d", cts_int(own, 1023), cts_int(own, 1024));
        OK(hcq_buffer_write(own, 0, &(int32_t){77}, 4));
        CHECK(cts_int(seen, 0) == 77, "%d", cts_int(seen, 0));
        hcq_buffer_destroy(part);
        hcq_buffer_destroy(seen);
        hcq_buffer_destroy(own);
    }
    peers_close(&p);
}

static void
by_another_opening(struct cts *t)
{
    by_another(t, true);
}

static void
by_another_device(struct cts *t)
{
    by_another(t, false);
}

/* The memory is there as long as anything of it is. */
static void
any_order(struct cts *t)
{
    struct hcq_buffer *own, *seen, *other;
    struct peers p;
    int fd;

    peers_open_same(t, &p, 2);
    own = shareable(t->dev, 11);
    fd = descriptor_of(own);
    seen = import(p.side[1].dev, fd, 0, N_BYTES);
    hcq_buffer_destroy(own); /* the owner first */
    other = shareable(t->dev, 12);
    use(&p.side[1], seen, NULL, 11);
    hcq_buffer_destroy(seen); /* then the import: a descriptor is left */
    seen = import(t->dev, fd, 0, N_BYTES);
    close(fd);
    use(&p.side[0], seen, NULL, 12);
    hcq_buffer_destroy(seen);
    peers_check(other, 12, "another's");
    fd = descriptor_of(other);
    seen = import(p.side[1].dev, fd, 0, N_BYTES);
    hcq_buffer_destroy(seen); /* the import first */
    peers_check(other, 12, "another's");
    hcq_buffer_destroy(other);
    close(fd);
    peers_close(&p);
}

/* The device that had it is closed. */
static void
owner_closes(struct cts *t)
{
    struct hcq_buffer *own, *seen;
    struct peers p;
    int fd;

    peers_open_same(t, &p, 2);
    own = shareable(p.side[1].dev, 21);
    fd = descriptor_of(own);
    peers_close(&p);
    seen = import(t->dev, fd, 0, N_BYTES);
    close(fd);
    use(&p.side[0], seen, NULL, 21);
    hcq_buffer_destroy(seen);
}

static void
bad_descriptors(struct cts *t)
{
    struct hcq_buffer *own = shareable(t->dev, 1), *seen = NULL;
    int fd = descriptor_of(own), pipes[2];
    uint64_t whole = (uint64_t)lseek(fd, 0, SEEK_END);

    FAILS(hcq_buffer_import(NULL, fd, 0, 64, &seen), BELL_E_INVALID,
          "the device is NULL");
    FAILS(hcq_buffer_import(t->dev, fd, 0, 64, NULL), BELL_E_INVALID,
          "the result is NULL");
    FAILS(hcq_buffer_import(t->dev, fd, 0, whole + 1, &seen), BELL_E_INVALID,
          "the descriptor has");
    FAILS(hcq_buffer_import(t->dev, fd, whole - 64, 65, &seen), BELL_E_INVALID,
          "the descriptor has");
    FAILS(hcq_buffer_import(t->dev, fd, UINT64_MAX - 63, 128, &seen),
          BELL_E_INVALID, "the descriptor has");
    FAILS(hcq_buffer_import(t->dev, fd, 0, 0, &seen), BELL_E_INVALID,
          "the descriptor has");
    FAILS(hcq_buffer_import(t->dev, fd, 32, 64, &seen), BELL_E_INVALID,
          "multiple of 64");
    CHECK(pipe(pipes) == 0, "a pipe");
    FAILS(hcq_buffer_import(t->dev, pipes[0], 0, 64, &seen), BELL_E_INVALID,
          "not memory");
    close(pipes[0]);
    close(pipes[1]);
    close(fd);
    FAILS(hcq_buffer_import(t->dev, fd, 0, 64, &seen), BELL_E_INVALID,
          "not open");
    FAILS(hcq_buffer_import(t->dev, -1, 0, 64, &seen), BELL_E_INVALID,
          "not open");
    CHECK(seen == NULL, "a buffer");
    hcq_buffer_destroy(own);
}

/* In a child that has its own device: what it reads, and writes by the host. */
static int
child_uses(const char *device, int fd, int32_t before)
{
    struct hcq_device *dev;
    struct hcq_buffer *seen;
    int32_t data[N_BYTES / 4];
    unsigned i;

    if (hcq_device_open(device, &dev) != BELL_OK ||
        hcq_buffer_import(dev, fd, 0, N_BYTES, &seen) != BELL_OK ||
        hcq_buffer_read(seen, 0, data, sizeof(data)) != BELL_OK) {
        fprintf(stderr, "child: %s\n", bell_error_last()->message);
        return 2;
    }
    close(fd);
    for (i = 0; i < N_BYTES / 4; i++) {
        if (data[i] != before)
            return 3;
        data[i] += 100;
    }
    if (hcq_buffer_write(seen, 0, data, sizeof(data)) != BELL_OK)
        return 4;
    hcq_buffer_destroy(seen);
    hcq_device_close(dev);
    return 0;
}

static void
by_a_child(struct cts *t)
{
    struct hcq_buffer *own = shareable(t->dev, 31), *seen;
    int fd = descriptor_of(own), result = 0, none = -7;
    pid_t child;

    hcq_buffer_destroy(import(t->dev, fd, 0, N_BYTES)); /* or this is skipped */
    if (CTS_TSAN) { /* ends a child that starts threads after a fork */
        close(fd);
        hcq_buffer_destroy(own);
        cts_skip("the thread sanitizer allows no thread after a fork");
    }
    fflush(NULL);
    child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        alarm(120);
        if (hcq_buffer_export(own, &none) != BELL_E_INVALID ||
            hcq_buffer_import(t->dev, fd, 0, 64, &seen) != BELL_E_INVALID)
            _exit(1);
        _exit(child_uses(t->device, fd, 31));
    }
    CHECK(waitpid(child, &result, 0) == child && WIFEXITED(result) &&
              WEXITSTATUS(result) == 0,
          "the child ended with 0x%x", result);
    peers_check(own, 131, "what the child wrote");
    close(fd);
    hcq_buffer_destroy(own);
}

/* A device of another backend takes the memory, or says by its name why not;
 * and keeps it when the owner's is destroyed. */
static void
take(struct hcq_device *dev, struct hcq_device *owner)
{
    struct hcq_buffer *own, *seen;
    bell_status status =
        hcq_buffer_create(owner, N_BYTES, HCQ_MEM_SHAREABLE, &own);
    int fd;

    if (status == BELL_E_UNSUPPORTED) {
        CHECK(cts_may_lack(owner, CTS_LACK_EXPORTS), "%s",
              bell_error_last()->message);
        return;
    }
    OK(status);
    fd = descriptor_of(own);
    status = hcq_buffer_import(dev, fd, 0, N_BYTES, &seen);
    close(fd);
    if (status != BELL_OK) {
        CHECK(status == BELL_E_UNSUPPORTED || status == BELL_E_KERNEL ||
                  status == BELL_E_INVALID,
              "%s: %s", bell_status_name(status), bell_error_last()->message);
        CHECK(strstr(bell_error_last()->message, hcq_device_name(dev)), "%s",
              bell_error_last()->message);
        printf("# %s\n", bell_error_last()->message);
        hcq_buffer_destroy(own);
        return;
    }
    OK(hcq_buffer_write(own, 4096, &(int32_t){4711}, 4));
    CHECK(cts_int(seen, 1024) == 4711, "%s: %d", hcq_device_name(dev),
          cts_int(seen, 1024));
    OK(hcq_buffer_write(seen, 4096, &(int32_t){41}, 4));
    CHECK(cts_int(own, 1024) == 41, "%s: %d", hcq_device_name(dev),
          cts_int(own, 1024));
    hcq_buffer_destroy(own);
    own = peers_ints(owner, N_BYTES / 4, 3);
    CHECK(cts_int(seen, 1024) == 41, "%s: %d when the owner's is gone",
          hcq_device_name(dev), cts_int(seen, 1024));
    hcq_buffer_destroy(own);
    hcq_buffer_destroy(seen);
}

static void
by_other_backends(struct cts *t)
{
    static const char *const others[] = {"CPU", "NV@sim:sm_90",
                                         "AMD@sim:gfx1100"};
    unsigned i, n = 0;

    for (i = 0; i < ARRAY_LEN(others); i++) {
        size_t len = strlen(t->info.backend);
        struct hcq_device *dev;

        if (strncmp(others[i], t->info.backend, len) == 0)
            continue;
        if (cts_open_other(t, others[i], &dev) != BELL_OK)
            continue;
        take(dev, t->dev);
        take(t->dev, dev);
        cts_close_others(t);
        n++;
    }
    if (n == 0)
        cts_skip("there is no device of another backend");
}

/* Not from the cache, nor into it: nobody else gets what others may have. */
static void
not_reused(struct cts *t)
{
    struct hcq_buffer *own = shareable(t->dev, 51), *fresh[8], *seen;
    uint64_t live[2], cached[2];
    int fd = descriptor_of(own);
    unsigned i;

    seen = import(t->dev, fd, 0, N_BYTES);
    hcq_memory_usage(t->dev, &live[0], &cached[0]);
    hcq_buffer_destroy(own);
    hcq_memory_usage(t->dev, &live[1], &cached[1]);
    CHECK(live[1] < live[0] && cached[1] == cached[0], "%llu bytes kept",
          (unsigned long long)(cached[1] - cached[0]));
    for (i = 0; i < ARRAY_LEN(fresh); i++) {
        unsigned char data[N_BYTES] = {0};

        fresh[i] = cts_buffer(t, N_BYTES);
        OK(hcq_buffer_write(fresh[i], 0, data, sizeof(data)));
    }
    peers_check(seen, 51, "what is shared");
    for (i = 0; i < ARRAY_LEN(fresh); i++)
        hcq_buffer_destroy(fresh[i]);
    hcq_buffer_destroy(seen);
    close(fd);
}

const struct cts_case cts_peer_share_cases[] = {
    {"peer what may be exported", what_may_be_exported},
    {"peer import by another opening", by_another_opening},
    {"peer import by another device", by_another_device},
    {"peer import destroy order", any_order},
    {"peer import, owner closed", owner_closes},
    {"peer bad descriptors", bad_descriptors},
    {"peer import after a fork", by_a_child},
    {"peer import by other backends", by_other_backends},
    {"peer exported memory is not reused", not_reused},
    {NULL, NULL},
};
