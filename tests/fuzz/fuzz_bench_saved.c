/* libFuzzer target: documents of `doorbell bench --against`. Whatever is in
 * one, it is refused with a message, or compared with a run. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/bench/bench.h"

#define N_ROWS 4

/* A run of the host, as tests/fuzz/bench_saved/saved.json has one. */
static void
make_run(struct bench *b)
{
    static const char *const names[N_ROWS] = {"copy_1MiB", "launch", "flops",
                                              "start"};
    static const enum bench_unit units[N_ROWS] = {BENCH_GB_S, BENCH_US,
                                                  BENCH_GFLOPS, BENCH_MS};
    uint32_t i;

    memset(b, 0, sizeof(*b));
    snprintf(b->info.model, sizeof(b->info.model), "model");
    snprintf(b->info.arch, sizeof(b->info.arch), "arch");
    b->info.flags = HCQ_DEVICE_HOST_CPU;
    for (i = 0; i < N_ROWS; i++) {
        struct bench_row *row = &b->rows[b->n_rows++];

        snprintf(row->name, sizeof(row->name), "%s", names[i]);
        row->suite = row->what = "";
        row->unit = units[i];
        row->median = row->q1 = row->q3 = row->best = 10 + i;
        row->spread_percent = 2;
        row->run_ns = 1000;
        row->is_alone = i == 1;
        row->host = (struct bench_host){1, 1, 1, 2, 1.1};
    }
}

static void
check(const struct bench_row *row)
{
    if ((unsigned)row->verdict >= BENCH_VERDICT_COUNT ||
        (row->has_old && !(row->old > 0 && row->old_best > 0)) ||
        (row->has_old && isnan(bench_gain_percent(row)) &&
         isfinite(row->old_best)))
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file file;
    static struct bench b;
    struct bench_saved *saved;
    size_t i;

    fuzz_file_write(&file, data, size);
    if (bench_saved_read(file.path, &saved) != BELL_OK) {
        if (!bell_error_last()->message[0])
            abort();
        return 0;
    }
    make_run(&b);
    if (bench_saved_check(saved, &b, "exact") == BELL_OK) {
        (void)bench_saved_host_ratio(saved, &b);
        bench_saved_compare(saved, &b, 5);
        for (i = 0; i < b.n_rows; i++)
            check(&b.rows[i]);
        fuzz_accept();
    } else if (!bell_error_last()->message[0]) {
        abort();
    }
    bench_saved_close(saved);
    return 0;
}
