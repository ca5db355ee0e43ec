/* Kernels kept on disk, as the runtime uses them: what is found does what was
 * compiled, what cannot be loaded is compiled after all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cache/cache.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "hcq/hcq_backend.h"
#include "tensor/runtime/runtime.h"
#include "tensor/core/tensor_internal.h"

static char folder[64];
static unsigned n_said;

static void
hear(void *user, const char *line)
{
    (void)user;
    n_said += strstr(line, "cannot be used") != NULL;
}

static int
setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/bell-kept-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    setenv("BELL_CACHE", folder, 1);
    log_mask |= LOG_CACHE;
    bell_log_set(hear, NULL);
    return 0;
}

static int
teardown(void **state)
{
    char command[128];

    (void)state;
    bell_log_set(NULL, NULL);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

/* x @ x + x, of small integers: exact everywhere. */
static void
run_program(const char *device, struct bell_stats *out_stats)
{
    float x[16 * 16], y[16 * 16];
    struct bell_context *ctx;
    struct bell_tensor *a;
    int i, j, k;

    for (i = 0; i < 256; i++)
        x[i] = (float)(i * 7 % 11 - 5);
    assert_int_equal(bell_context_create(device, &ctx), BELL_OK);
    a = bell_from_data(ctx, BELL_DIMS(16, 16), BELL_FLOAT32, x);
    assert_int_equal(bell_read(bell_add(bell_matmul(a, a), a), y, sizeof(y)),
                     BELL_OK);
    for (i = 0; i < 16; i++) {
        for (j = 0; j < 16; j++) {
            float sum = x[16 * i + j];
            for (k = 0; k < 16; k++)
                sum += x[16 * i + k] * x[16 * k + j];
            assert_true(sum == y[16 * i + j]);
        }
    }
    bell_context_stats(ctx, out_stats);
    bell_context_destroy(ctx);
}

static const char *const devices[] = {
    "CPU",
#if HAVE_SIM
    "NV@sim:sm_90",
    "AMD@sim:gfx1100",
#endif
};
#define N_DEVICES (sizeof(devices) / sizeof(devices[0]))

static void
test_found(void **state)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    size_t i;

    (void)state;
    for (i = 0; i < N_DEVICES; i++) {
        run_program(devices[i], &stats);
        assert_int_equal(stats.n_kernels_found, 0);
        assert_int_equal(stats.n_kernels_compiled, 1);
        run_program(devices[i], &stats);
        assert_int_equal(stats.n_kernels_found, 1);
        assert_int_equal(stats.n_kernels_compiled, 0);
        assert_int_equal(stats.compile_wall_ns, 0);
    }
}

/* The most steps of a group of the only kernel of an addition to n elements. */
static uint32_t
steps_of_sum(int n)
{
    static const float x[100000];
    struct bell_context *ctx;
    struct bell_tensor *sum;
    uint32_t steps;

    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    sum = bell_add(bell_from_data(ctx, BELL_DIMS(n), BELL_FLOAT32, x),
                   bell_full(ctx, BELL_DIMS(n), 2, BELL_FLOAT32));
    assert_int_equal(bell_realize1(sum), BELL_OK);
    assert_int_equal(ctx->runtime->n_kernels, 1);
    steps = HCQ_CONTAINER(ctx->runtime->kernel_list[0].program,
                          struct hcq_program_base, pub)
                ->max_steps;
    bell_context_destroy(ctx);
    return steps;
}

/* A kernel without a loop says how many steps it takes, found too. */
static void
test_steps(void **state)
{
    uint32_t steps;

    (void)state;
    steps = steps_of_sum(1);
    assert_true(steps >= 4 && steps < 256);
    assert_int_equal(steps_of_sum(1), steps);
    assert_int_equal(steps_of_sum(100000), 0);
    assert_int_equal(steps_of_sum(100000), 0);
}

/* Puts another value under each key, with a sum that fits; returns how many. */
static unsigned
spoil(void (*change)(struct cache_entry *entry))
{
    struct cache_entry entries[8];
    struct cache cache;
    sqlite3_stmt *stmt;
    unsigned n = 0, i;
    sqlite3 *db;

    cache_init(&cache);
    assert_int_equal(sqlite3_open(cache.file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT kind,key FROM kernel WHERE "
                                        "kind<>'tool'",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    for (; sqlite3_step(stmt) == SQLITE_ROW; n++) {
        size_t size = (size_t)sqlite3_column_bytes(stmt, 1);
        void *key = host_alloc(size);
        assert_true(n < 8);
        memcpy(key, sqlite3_column_blob(stmt, 1), size);
        entries[n] = (struct cache_entry){
            .key = key,
            .key_bytes = size,
            .kind = host_strdup((const char *)sqlite3_column_text(stmt, 0)),
        };
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    cache_find(&cache, entries, n);
    for (i = 0; i < n; i++) {
        assert_non_null(entries[i].value);
        change(&entries[i]);
    }
    cache_keep(&cache, entries, n);
    for (i = 0; i < n; i++) {
        host_free((void *)(uintptr_t)entries[i].key);
        host_free((void *)(uintptr_t)entries[i].kind);
        host_free(entries[i].value);
    }
    return n;
}

static void
cut_file(struct cache_entry *entry)
{
    entry->value_bytes -= entry->value_bytes / 3;
}

static void
cut_head(struct cache_entry *entry)
{
    entry->value_bytes = 20;
}

static void
spoil_name(struct cache_entry *entry)
{
    memset((char *)entry->value + 80, 0xff, 8);
}

static void
spoil_elf(struct cache_entry *entry)
{
    char *elf = memmem(entry->value, entry->value_bytes, "\177ELF", 4);

    assert_non_null(elf);
    memset(elf, 'x', 64);
}

static void
test_spoilt(void **state)
{
    static void (*const changes[])(struct cache_entry *) = {
        cut_file, cut_head, spoil_name, spoil_elf};
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    size_t i, c;

    (void)state;
    for (i = 0; i < N_DEVICES; i++)
        run_program(devices[i], &stats);
    for (c = 0; c < sizeof(changes) / sizeof(changes[0]); c++) {
        assert_int_equal(spoil(changes[c]), N_DEVICES);
        n_said = 0;
        for (i = 0; i < N_DEVICES; i++) {
            run_program(devices[i], &stats);
            assert_int_equal(stats.n_kernels_found, 0);
            assert_int_equal(stats.n_kernels_compiled, 1);
            run_program(devices[i], &stats); /* kept again */
            assert_int_equal(stats.n_kernels_found, 1);
        }
        assert_true(n_said == N_DEVICES || changes[c] == cut_head ||
                    changes[c] == spoil_name);
    }
}

/* A child finds what its parent kept, and the other way round. */
static void
test_fork(void **state)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    pid_t pid;
    int how;

    (void)state;
    run_program("CPU", &stats);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run_program("CPU", &stats);
        _exit(stats.n_kernels_found == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
}

/* Whether memory is out in finding or keeping, results are right. */
static void
test_no_memory(void **state)
{
    struct bell_stats stats = {.struct_size = sizeof(stats)};
    uint64_t n, total;
    unsigned warm;

    (void)state;
    for (warm = 0; warm < 2; warm++) {
        total = host_alloc_count();
        run_program("CPU", &stats);
        total = host_alloc_count() - total;
        for (n = 1; n <= total; n += 1 + total / 60) {
            static const float x[4] = {1, 2, 3, 4};
            struct bell_context *ctx = NULL;
            struct bell_tensor *a;
            float y[4];
            bell_status status;
            if (!warm) {
                struct cache cache;
                cache_init(&cache);
                assert_int_equal(cache_clear(&cache), BELL_OK);
            }
            host_fail_after(n, 1);
            status = bell_context_create("CPU", &ctx);
            if (status == BELL_OK) {
                a = bell_from_data(ctx, BELL_DIMS(4), BELL_FLOAT32, x);
                status = bell_read(bell_add(a, a), y, sizeof(y));
            }
            host_fail_after(0, 0);
            assert_true(status != BELL_OK || y[3] == 8);
            bell_context_destroy(ctx);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spoilt, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
