/* hcq/hcq_transfer.c: a device that waits for another, which waits for a third,
 * waits as long as the third may.
 */
#include "tests/unit/expect.h"

#include <pthread.h>

#include "hcq/hcq.h"

#define N        4u
#define BYTES    4096u
#define SHORT_NS 100000000ull
#define LONG_NS  (10 * SHORT_NS)

/* Each gives its memory to the next. */
struct row {
    struct hcq_device *devs[N];
    struct hcq_queue *queues[N];
    struct hcq_buffer *bufs[N];
    struct hcq_signal *go; /* that the first waits for */
    struct hcq_transfer *transfers[N - 1];
    uint64_t values[N]; /* of the queues, when their last transfer is over */
};

static void
open_row(struct row *row, const char *const names[N])
{
    uint8_t bytes[BYTES];
    struct hcq_cs *cs;
    uint64_t src_value;
    uint32_t i;

    memset(row, 0, sizeof(*row));
    for (i = 0; i < N; i++) {
        expect_ok(hcq_device_open(names[i], &row->devs[i]));
        expect_ok(
            hcq_queue_create(row->devs[i], HCQ_QUEUE_COMPUTE, &row->queues[i]));
        expect_ok(hcq_buffer_create(row->devs[i], BYTES, 0, &row->bufs[i]));
        memset(bytes, (int)i + 1, BYTES);
        expect_ok(hcq_buffer_write(row->bufs[i], 0, bytes, BYTES));
        hcq_device_set_timeout(row->devs[i], SHORT_NS);
    }
    expect_ok(hcq_signal_create(row->devs[0], 0, &row->go));
    expect_ok(hcq_queue_begin(row->queues[0], &cs));
    hcq_cs_wait(cs, row->go, 1);
    expect_ok(hcq_cs_submit(cs, NULL));
    for (i = 0; i + 1 < N; i++)
        expect_ok(hcq_transfer_create(
            row->queues[i + 1], row->bufs[i + 1], row->queues[i], row->bufs[i],
            BYTES, &row->values[i + 1], &src_value, &row->transfers[i]));
}

static bell_status
wait_for_last(struct row *row)
{
    return hcq_transfer_wait(row->queues[N - 1], row->values[N - 1],
                             &row->transfers[N - 2], 1);
}

/* From the first or from the last on: who is left does not miss the others. */
static void
close_row(struct row *row, bool from_last)
{
    uint8_t bytes[BYTES];
    uint32_t k, i;

    for (i = 0; i < N; i++)
        expect_ok(hcq_queue_wait(row->queues[i], HCQ_WAIT_FOREVER));
    expect_ok(hcq_buffer_read(row->bufs[N - 1], 0, bytes, BYTES));
    for (i = 0; i < BYTES; i++)
        assert_int_equal(bytes[i], 1);
    for (k = 0; k < N; k++) {
        i = from_last ? N - 1 - k : k;
        if (i == 0)
            hcq_signal_destroy(row->go);
        if (from_last) /* before the releases, as who gives up does */
            hcq_queue_destroy(row->queues[i]);
        if (i > 0)
            hcq_transfer_release(row->transfers[i - 1], row->queues[i]);
        if (i + 1 < N)
            hcq_transfer_release(row->transfers[i], row->queues[i]);
        hcq_buffer_destroy(row->bufs[i]);
        if (!from_last)
            hcq_queue_destroy(row->queues[i]);
        hcq_device_close(row->devs[i]);
    }
}

static void *
let_go_later(void *arg)
{
    struct timespec nap = {.tv_nsec = (long)(LONG_NS - 1)};
    struct row *row = arg;

    nanosleep(&nap, NULL);
    hcq_signal_set(row->go, 1);
    return NULL;
}

static const char *const rows[][N] = {
    {"CPU", "CPU", "CPU", "CPU"},
    {"NV:0@sim:sm_90*2", "NV:1@sim:sm_90*2", "AMD@sim:gfx942", "CPU"},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* The first has no limit: that counts for all that wait for it. */
static void
test_first_is_slow(void **state)
{
    pthread_t thread;
    struct row row;
    size_t i;

    (void)state;
    for (i = 0; i < N_ROWS; i++) {
        open_row(&row, rows[i]);
        hcq_device_set_timeout(row.devs[0], HCQ_WAIT_FOREVER);
        assert_int_equal(pthread_create(&thread, NULL, let_go_later, &row), 0);
        expect_ok(wait_for_last(&row));
        pthread_join(thread, NULL);
        close_row(&row, false);
    }
}

/* All stand still. Then the last one alone does, and the first has no limit,
 * but the transfers between them are over. */
static void
test_all_stand_still(void **state)
{
    struct hcq_signal *stop;
    struct hcq_cs *cs;
    struct row row;
    size_t i;

    (void)state;
    for (i = 0; i < N_ROWS; i++) {
        open_row(&row, rows[i]);
        expect_fails(wait_for_last(&row), BELL_E_TIMEOUT, "neither it nor");
        hcq_signal_set(row.go, 1);
        hcq_device_set_timeout(row.devs[0], HCQ_WAIT_FOREVER);
        expect_ok(wait_for_last(&row));
        expect_ok(hcq_signal_create(row.devs[N - 1], 0, &stop));
        expect_ok(hcq_queue_begin(row.queues[N - 1], &cs));
        hcq_cs_wait(cs, stop, 1);
        expect_ok(hcq_cs_submit(cs, &row.values[N - 1]));
        expect_fails(wait_for_last(&row), BELL_E_TIMEOUT, "neither it nor");
        hcq_signal_set(stop, 1);
        expect_ok(hcq_queue_wait(row.queues[N - 1], HCQ_WAIT_FOREVER));
        hcq_signal_destroy(stop);
        close_row(&row, true);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_is_slow),
        cmocka_unit_test(test_all_stand_still),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
