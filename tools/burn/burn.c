/* `doorbell burn`: a device under load for a while, everything that it gives
 * compared with what is known, and one verdict.
 *
 * Three kinds of work take turns: a pattern is copied through memory by both
 * kinds of queues and read back; every unit multiplies and adds in registers,
 * whose results the host knows; matrices are multiplied, whose products must
 * have the same bits each time. */
#include "tools/burn/burn.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/thread.h"
#include "doorbell/ops.h"
#include "doorbell/tensor.h"
#include "base/json.h"
#include "tools/machine/print.h"
#include "tools/tools.h"

#define WAIT_NS 60000000000ull
#define FILL    0xcbcbcbcbu

#define DEVICES_MAX       32
#define DEVICE_NAME_BYTES 256

/* ---- errors -------------------------------------------------------------- */

static void
note(struct burn *b, const struct place *place)
{
    b->n_errors++;
    if (b->n_places < PLACES_MAX)
        b->places[b->n_places++] = *place;
}

/* ---- how it is ----------------------------------------------------------- */

#define SENSE_NS  250000000u
#define LINES_MAX 100000

static void
begin_moment(struct burn *b)
{
    b->moment = (struct burn_moment){.temperature_c = NAN, .power_w = NAN};
    b->moment.flops = -b->flops; /* until it ends */
}

/* A line: what was done since the one before, and how the device was. */
static void
end_moment(struct burn *b)
{
    double now_s = (double)(time_now_ns() - b->start_ns) / 1e9;
    struct burn_moment *moment = &b->moment;

    moment->time_s = now_s;
    moment->seconds =
        now_s - (b->n_series ? b->series[b->n_series - 1].time_s : 0);
    moment->flops += b->flops;
    moment->n_errors = b->n_errors;
    if (b->n_series < LINES_MAX && moment->seconds > 0 &&
        host_grow((void **)&b->series, &b->cap_series, b->n_series + 1,
                  sizeof(*b->series)) == 0) {
        b->series[b->n_series++] = *moment;
        if (!b->options->json && b->seconds == 0) {
            tool_progress(NULL);
            burn_print_moment(b, moment);
        }
    }
    begin_moment(b);
}

static uint32_t
read_clock(struct burn *b, const struct machine_sensors *sensors)
{
    uint32_t mhz;

    if (hcq_device_clock_mhz(b->dev, &mhz) == BELL_OK && mhz)
        return mhz;
    return sensors->clock_mhz > 0 ? (uint32_t)sensors->clock_mhz : 0;
}

/* which: 0 at the start, 1 at the end, -1 between. */
static void
sense_burn(struct burn *b, int which)
{
    struct machine_sensors sensors = {NAN, NAN, 0};
    struct burn_moment *moment = &b->moment;
    uint32_t mhz;
    double now;

    if (b->gpu) {
        machine_sense_gpu("", b->gpu, &sensors);
        machine_health_gpu("", b->gpu, &b->health[1]);
    } else if (b->info.flags & HCQ_DEVICE_HOST_CPU) {
        machine_sense_cpu("", &sensors);
    }
    now = sensors.temperature_c;
    if (!isfinite(b->temperature_c[0]) || now < b->temperature_c[0])
        b->temperature_c[0] = now;
    if (!isfinite(b->temperature_c[1]) || now > b->temperature_c[1])
        b->temperature_c[1] = now;
    mhz = read_clock(b, &sensors);
    if (which >= 0)
        b->clock_mhz[which] = mhz;
    if (which == 0)
        b->health[0] = b->health[1];
    if (which != 0 && mhz && (!b->clock_worst_mhz || mhz < b->clock_worst_mhz))
        b->clock_worst_mhz = mhz;
    b->throttle |= b->health[1].throttle;
    moment->throttle |= b->health[1].throttle;
    moment->tells_throttle = b->health[1].tells_throttle;
    moment->power_w = sensors.power_w;
    if (mhz && (!moment->clock_mhz || mhz < moment->clock_mhz))
        moment->clock_mhz = mhz;
    if (!isfinite(moment->temperature_c) || now > moment->temperature_c)
        moment->temperature_c = now;
    b->sensed_ns = time_now_ns();
}

static void
sense_now_and_then(struct burn *b)
{
    uint64_t now_ns = time_now_ns();
    double last_s = b->n_series ? b->series[b->n_series - 1].time_s : 0;

    if (now_ns - b->sensed_ns >= SENSE_NS)
        sense_burn(b, -1);
    if ((double)(now_ns - b->start_ns) / 1e9 - last_s >= b->options->interval_s)
        end_moment(b);
}

/* ---- memory -------------------------------------------------------------- */

static uint32_t
word_at(uint64_t i, uint32_t seed)
{
    return (uint32_t)(i * 2654435761u) ^ seed;
}

static bell_status
copy_chunk(struct burn *b, struct hcq_queue *queue, size_t to)
{
    uint64_t value;
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(queue, &cs));
    hcq_cs_copy(cs, b->chunks[to]->va, b->chunks[0]->va, b->chunk_bytes);
    BELL_TRY(hcq_cs_submit(cs, &value));
    return hcq_signal_wait(hcq_queue_timeline(queue), value, WAIT_NS);
}

static bell_status
check_chunk(struct burn *b, size_t chunk, uint32_t seed)
{
    uint64_t i;

    BELL_TRY(hcq_buffer_read(b->chunks[chunk], 0, b->host, b->chunk_bytes));
    for (i = 0; i < b->chunk_bytes / 4; i++) {
        if (b->host[i] != word_at(i, seed))
            note(b, &(struct place){.work = "memory",
                                    .has_address = true,
                                    .at = b->chunks[chunk]->va + i * 4,
                                    .want = word_at(i, seed),
                                    .got = b->host[i],
                                    .round = b->n_rounds});
    }
    b->n_checked_bytes += b->chunk_bytes;
    return BELL_OK;
}

/* Chunks that the host compares in a round: the next ones in the next, so that
 * the device does not wait for all of its memory to be read. */
#define CHECKED_CHUNKS 4

static bell_status
burn_memory(struct burn *b)
{
    /* each bit is both, from one round to the next */
    uint32_t seed = (uint32_t)(b->n_rounds / 2 * 0x9e3779b9u);
    uint64_t i;
    size_t k;

    seed = b->n_rounds % 2 ? ~seed : seed;
    for (i = 0; i < b->chunk_bytes / 4; i++)
        b->host[i] = word_at(i, seed);
    BELL_TRY(hcq_buffer_write(b->chunks[0], 0, b->host, b->chunk_bytes));
    for (k = 1; k < b->n_chunks; k++)
        BELL_TRY(copy_chunk(b, k % 2 ? b->copy : b->compute, k));
    for (k = 0; k < b->n_chunks && k < CHECKED_CHUNKS; k++) {
        BELL_TRY(check_chunk(b, b->next_chunk, seed));
        b->next_chunk = (b->next_chunk + 1) % b->n_chunks;
    }
    return BELL_OK;
}

/* ---- multiply-adds ------------------------------------------------------- */

/* Reads `out` and compares it with what the threads of a group are to store;
 * NULL: with what it was filled with. */
static bell_status
check_out(struct burn *b, const uint32_t *want)
{
    uint64_t n = (uint64_t)b->n_groups * b->fma.n_threads, i;

    BELL_TRY(hcq_buffer_read(b->out, 0, b->host, n * 4));
    for (i = 0; i < n; i++) {
        struct place place = {.work = want ? "multiply-add" : "fill",
                              .has_address = true,
                              .at = b->out->va + i * 4,
                              .want = FILL,
                              .got = b->host[i],
                              .round = b->n_rounds,
                              .unit_group = (unsigned)(i / b->fma.n_threads)};

        if (want)
            place.want = want[i % b->fma.n_threads % CHAIN_RESULTS];
        if (place.want != place.got)
            note(b, &place);
    }
    b->n_checked_bytes += n * 4;
    return BELL_OK;
}

/* The old content differs from the new one, so that a launch that does nothing
 * shows. */
static bell_status
burn_fma(struct burn *b)
{
    uint64_t n = (uint64_t)b->n_groups * b->fma.n_threads;
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(b->compute, &cs));
    hcq_cs_fill(cs, b->out->va, FILL, n * 4);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    BELL_TRY(hcq_queue_wait(b->compute, WAIT_NS));
    BELL_TRY(check_out(b, NULL));
    BELL_TRY(hcq_queue_begin(b->compute, &cs));
    chain_launch(&b->fma, cs, b->out->va, b->n_rounds_fma, b->n_groups);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    BELL_TRY(hcq_queue_wait(b->compute, WAIT_NS));
    b->flops += (double)n * (double)b->n_rounds_fma * b->fma.ops;
    return check_out(b, b->want_fma);
}

/* ---- matrices ------------------------------------------------------------ */

static bell_status
locate(struct burn *b, const void *first, const void *now, size_t size)
{
    const uint8_t *x = first, *y = now;
    uint64_t i, count = (uint64_t)(b->n * b->n);

    for (i = 0; i < count; i++) {
        struct place place = {
            .work = "matrix product", .at = i, .round = b->n_rounds};

        memcpy(&place.want, x + i * size, size);
        memcpy(&place.got, y + i * size, size);
        if (place.want != place.got)
            note(b, &place);
    }
    return BELL_OK;
}

/* Reads both and compares on the host: what compares on the device may be what
 * is broken. */
static bell_status
compare_products(struct burn *b, struct bell_tensor *now)
{
    size_t size = bell_dtype_size(bell_dtype_of(now));
    size_t n_bytes = (size_t)(b->n * b->n) * size;
    uint8_t *both = host_alloc(2 * n_bytes);
    bell_status status;

    if (!both)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for two products");
    status = bell_read(b->first, both, n_bytes);
    if (status == BELL_OK)
        status = bell_read(now, both + n_bytes, n_bytes);
    if (status == BELL_OK && memcmp(both, both + n_bytes, n_bytes) != 0)
        status = locate(b, both, both + n_bytes, size);
    b->n_checked_bytes += n_bytes;
    host_free(both);
    return status;
}

/* How many elements are not the first product's, as the device counts them. */
static bell_status
count_other(struct burn *b, struct bell_tensor *now, double *out_count)
{
    enum bell_dtype bits =
        bell_dtype_size(bell_dtype_of(now)) == 2 ? BELL_INT16 : BELL_INT32;
    struct bell_tensor *differs =
        bell_ne(bell_bitcast(now, bits), bell_bitcast(b->first, bits));

    return bell_item_f64(
        bell_sum(bell_cast(differs, BELL_INT32), NULL, 0, false), out_count);
}

/* One product. The device compares it, with no more than a number to be read:
 * what it says is looked at on the host where it is not 0, and in the first
 * product of each round: what compares may be what is broken. */
static bell_status
multiply(struct burn *b, bool is_first)
{
    struct bell_tensor *now = bell_matmul(b->x, b->y);
    uint64_t n_before = b->n_errors;
    double count = 0;

    BELL_TRY(bell_realize1(now));
    b->flops += 2.0 * (double)b->n * (double)b->n * (double)b->n;
    BELL_TRY(count_other(b, now, &count));
    b->n_checked_bytes +=
        (uint64_t)(b->n * b->n) * bell_dtype_size(bell_dtype_of(now));
    if (count == 0 && !is_first)
        return BELL_OK;
    BELL_TRY(compare_products(b, now));
    if (count != 0 && b->n_errors == n_before)
        note(b, &(struct place){.work = "comparison",
                                .got = (uint64_t)(int64_t)count,
                                .round = b->n_rounds});
    return BELL_OK;
}

static bool
is_interrupted(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && sigismember(&pending, SIGINT) == 1;
}

/* So many times as long as the others: this makes a device hot. */
#define MATRIX_TIMES 19

static bell_status
burn_matrix(struct burn *b, uint64_t others_ns)
{
    uint64_t start_ns = time_now_ns(), now_ns;
    bool is_first = true;

    do {
        bell_status status, ended;

        BELL_TRY(bell_scope_begin(b->ctx));
        status = multiply(b, is_first);
        ended = bell_scope_end(b->ctx);
        BELL_TRY(status != BELL_OK ? status : ended);
        is_first = false;
        sense_now_and_then(b);
        now_ns = time_now_ns();
    } while (now_ns < b->end_ns && !is_interrupted() &&
             now_ns - start_ns < MATRIX_TIMES * others_ns);
    return BELL_OK;
}

/* Small numbers that float16 holds. */
static bell_status
make_matrices(struct burn *b, enum bell_dtype dtype)
{
    const int64_t shape[2] = {b->n, b->n};
    size_t count = (size_t)(b->n * b->n), i;
    float *numbers = host_alloc(count * sizeof(float));
    bell_status status;

    if (!numbers)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a matrix");
    for (i = 0; i < count; i++)
        numbers[i] = (float)(word_at(i, 1) >> 24) / 256 - 0.5f;
    b->x = bell_cast(bell_from_data(b->ctx, shape, 2, BELL_FLOAT32, numbers),
                     dtype);
    b->y = bell_cast(
        bell_t(bell_from_data(b->ctx, shape, 2, BELL_FLOAT32, numbers)), dtype);
    status = bell_realize1(b->x);
    if (status == BELL_OK)
        status = bell_realize1(b->y);
    b->first = bell_matmul(b->x, b->y);
    if (status == BELL_OK)
        status = bell_realize1(b->first);
    host_free(numbers);
    return status;
}

/* ---- the device ---------------------------------------------------------- */

static bell_status
make_chunks(struct burn *b, const struct burn_options *options)
{
    bool is_simulated = (b->info.flags & HCQ_DEVICE_SIMULATED) != 0;
    bool is_host = (b->info.flags & HCQ_DEVICE_HOST_CPU) != 0;
    uint64_t bytes = is_simulated ? 1u << 20
                     : is_host    ? 64u << 20
                                  : b->info.memory_bytes / 10 * 8;

    if (options->memory_mib)
        bytes = (uint64_t)options->memory_mib << 20;
    b->chunk_bytes = is_simulated ? 1u << 18 : is_host ? 16u << 20 : 256u << 20;
    while (bytes / b->chunk_bytes > CHUNKS_MAX)
        b->chunk_bytes *= 2;
    while (b->chunk_bytes * 2 > bytes && b->chunk_bytes > 4096)
        b->chunk_bytes /= 2;
    b->host = host_aligned(4096, b->chunk_bytes);
    if (!b->host)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for %" PRIu64 " bytes", b->chunk_bytes);
    while (b->n_chunks < bytes / b->chunk_bytes) {
        bell_status status = hcq_buffer_create(b->dev, b->chunk_bytes, 0,
                                               &b->chunks[b->n_chunks]);

        /* others may have the rest, unless so much was asked for */
        if (status == BELL_E_NO_MEMORY && b->n_chunks >= 2 &&
            !options->memory_mib)
            break;
        BELL_TRY(status);
        b->n_chunks++;
    }
    return BELL_OK;
}

static bell_status
make_fma(struct burn *b)
{
    bool is_simulated = (b->info.flags & HCQ_DEVICE_SIMULATED) != 0;
    bell_status status = chain_load(b->dev, CHAIN_FMA_F32, &b->fma);
    uint32_t i;

    if (status == BELL_E_UNSUPPORTED)
        return BELL_OK;
    BELL_TRY(status);
    b->n_groups = b->info.n_units * (is_simulated ? 1 : 16);
    while ((uint64_t)b->n_groups * b->fma.n_threads * 4 > b->chunk_bytes)
        b->n_groups /= 2;
    b->n_rounds_fma = is_simulated ? 2 : 1u << 18;
    for (i = 0; i < CHAIN_RESULTS; i++)
        b->want_fma[i] = (uint32_t)chain_result(&b->fma, i, b->n_rounds_fma);
    return hcq_buffer_create(b->dev, 4ull * b->n_groups * b->fma.n_threads, 0,
                             &b->out);
}

static bell_status
make_all(struct burn *b, const struct burn_options *options)
{
    bool is_host;

    BELL_TRY(hcq_device_open(b->device, &b->dev));
    b->info.struct_size = sizeof(b->info);
    hcq_device_info(b->dev, &b->info);
    is_host = (b->info.flags & HCQ_DEVICE_HOST_CPU) != 0;
    BELL_TRY(hcq_queue_create(b->dev, HCQ_QUEUE_COMPUTE, &b->compute));
    BELL_TRY(hcq_queue_create(b->dev, HCQ_QUEUE_COPY, &b->copy));
    /* first, while there is memory */
    BELL_TRY(tool_open_context(b->device, "exact", &b->ctx));
    /* large enough that comparing is little beside multiplying */
    b->n = b->info.flags & HCQ_DEVICE_SIMULATED ? 64
           : is_host                            ? 1024
           : b->info.memory_bytes < 8ull << 30  ? 4096
                                                : 8192;
    BELL_TRY(make_matrices(b, is_host ? BELL_FLOAT32 : BELL_FLOAT16));
    BELL_TRY(make_chunks(b, options));
    return make_fma(b);
}

static void
free_all(struct burn *b)
{
    size_t i;

    bell_context_destroy(b->ctx);
    hcq_buffer_destroy(b->out);
    for (i = 0; i < b->n_chunks; i++)
        hcq_buffer_destroy(b->chunks[i]);
    hcq_program_destroy(b->fma.prog);
    hcq_queue_destroy(b->copy);
    hcq_queue_destroy(b->compute);
    hcq_device_close(b->dev);
    host_free(b->host);
    host_free(b->series);
}

/* ---- running ------------------------------------------------------------- */

static bell_status
run_rounds(struct burn *b)
{
    do {
        uint64_t start_ns = time_now_ns();

        BELL_TRY(burn_memory(b));
        if (b->fma.prog)
            BELL_TRY(burn_fma(b));
        sense_now_and_then(b);
        BELL_TRY(burn_matrix(b, time_now_ns() - start_ns));
        b->n_rounds++;
        if (b->shows_progress)
            tool_progress("%.0f s left, round %" PRIu64 ", %" PRIu64 " errors",
                          (double)(b->end_ns > time_now_ns()
                                       ? b->end_ns - time_now_ns()
                                       : 0) /
                              1e9,
                          b->n_rounds, b->n_errors);
    } while (!is_interrupted() && time_now_ns() < b->end_ns);
    return BELL_OK;
}

/* ---- one device, or all of a backend ------------------------------------- */

/* Burns one device; a thread of its own where there are several. */
static void *
burn_one(void *arg)
{
    struct burn *b = arg;
    struct machine machine = {NULL, 0};
    bell_status status = make_all(b, b->options);
    uint64_t start;

    if (status == BELL_OK && !strchr(b->info.name, '@') &&
        machine_read("", &machine) == BELL_OK) {
        machine_number_nv(&machine);
        b->gpu = machine_find(&machine, b->info.backend, b->info.name);
    }
    if (status == BELL_OK) {
        begin_moment(b);
        sense_burn(b, 0);
        b->start_ns = start = time_now_ns();
        b->end_ns = start + (uint64_t)(b->options->seconds * 1e9);
        status = run_rounds(b);
        b->seconds = (double)(time_now_ns() - start) / 1e9;
        if (b->shows_progress)
            tool_progress(NULL);
    }
    if (status == BELL_OK) {
        sense_burn(b, 1);
        end_moment(b); /* the rest, which is told in the document */
    } else
        b->error = *bell_error_last();
    b->status = status;
    b->gpu = NULL;
    machine_free(&machine);
    return NULL;
}

/* All at once; one whose thread cannot begin is burnt after the others. */
static void
burn_all(struct burn *list, size_t n)
{
    size_t i;

    for (i = 1; i < n; i++)
        list[i].has_thread =
            pthread_create(&list[i].thread, NULL, burn_one, &list[i]) == 0;
    list[0].shows_progress = true;
    burn_one(&list[0]);
    for (i = 1; i < n; i++) {
        if (list[i].has_thread)
            pthread_join(list[i].thread, NULL);
        else
            burn_one(&list[i]);
    }
}

/* One verdict each, and one in all. */
static int
tell_all(const struct burn *list, size_t n, bool as_json)
{
    uint64_t n_errors = 0;
    int code = TOOL_OK;
    struct json json;
    size_t i, n_failed = 0;

    json_init(&json);
    if (n > 1)
        json_array(&json, "devices");
    for (i = 0; i < n; i++) {
        const struct burn *b = &list[i];

        n_errors += b->n_errors;
        n_failed += b->status != BELL_OK || b->n_errors;
        if (n > 1)
            json_object(&json, NULL);
        if (b->status != BELL_OK) {
            bell_error_set(&b->error);
            code = tool_fail(false, b->status);
            json_str(&json, "device", b->device);
            json_str(&json, "error", b->error.message);
            json_str(&json, "verdict", "failed");
        } else {
            burn_put(&json, b);
            if (!as_json)
                burn_print_verdict(b, b->seconds);
        }
        if (n > 1)
            json_end(&json);
    }
    if (n > 1) {
        json_end(&json);
        json_uint(&json, "n_devices", n);
        json_uint(&json, "n_failed", n_failed);
        json_str(&json, "verdict", n_failed ? "failed" : "passed");
        if (!as_json)
            tool_printf("%s: %zu of %zu devices, %" PRIu64 " errors\n",
                        n_failed ? "FAILED" : "passed", n - n_failed, n,
                        n_errors);
    }
    if (code == TOOL_OK && n_failed)
        code = TOOL_FAILED;
    if (as_json) {
        int printed = tool_print_json(&json);

        return code == TOOL_OK ? printed : code;
    }
    json_fini(&json);
    return code;
}

/* A backend without an index is all of its devices that can be used. */
static bell_status
list_names(const char *device, char (*names)[DEVICE_NAME_BYTES], size_t *out_n)
{
    struct hcq_device_desc descs[DEVICES_MAX];
    size_t n_backend = device ? strcspn(device, ":@") : 0, n = 0, i;
    const char *interface = device ? device + n_backend : "";
    struct hcq_device *dev;
    bell_status status = BELL_OK;

    *out_n = 1;
    snprintf(names[0], DEVICE_NAME_BYTES, "%s", device ? device : "");
    if (!device || *interface == ':' || strlen(device) >= DEVICE_NAME_BYTES - 8)
        return BELL_OK;
    if (*interface == '@') {
        for (i = 0; i < DEVICES_MAX && status == BELL_OK; i++) {
            snprintf(names[n], DEVICE_NAME_BYTES, "%.*s:%zu%s", (int)n_backend,
                     device, i, interface);
            status = hcq_device_open(names[n], &dev);
            if (status == BELL_OK) {
                hcq_device_close(dev);
                n++;
            }
        }
    } else {
        BELL_TRY(hcq_device_enumerate(descs, DEVICES_MAX, out_n));
        for (i = 0; i < *out_n && i < DEVICES_MAX; i++) {
            if (strcmp(descs[i].backend, device) != 0)
                continue;
            if (descs[i].usable)
                snprintf(names[n++], DEVICE_NAME_BYTES, "%.*s",
                         HCQ_NAME_MAX - 1, descs[i].name);
            else
                tool_eprintf("doorbell: %s is not tested: %s\n", descs[i].name,
                             descs[i].why_not);
        }
    }
    /* One, or none: what was asked for says which, or why not. */
    *out_n = n > 1 ? n : 1;
    if (n <= 1)
        snprintf(names[0], DEVICE_NAME_BYTES, "%s", device);
    return BELL_OK;
}

int
verb_burn(int argc, char **argv)
{
    struct burn_options options = {.seconds = 60, .interval_s = 10};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &options.device, 0, 0,
         "a backend without an index (NV, AMD@sim:gfx942*2): all of its "
         "devices at once; default: $BELL_DEVICE, or the first that works"},
        TOOL_NUMBER_OPT("--seconds", "S", &options.seconds, 0, 1000000,
                        "how long (default: 60); the last round is finished"),
        TOOL_NUMBER_OPT(
            "--interval", "S", &options.interval_s, 0, 86400,
            "between lines of rate, clock, heat and power (default: "
            "10)"),
        {"--memory", "MIB", TOOL_OPT_INT, &options.memory_mib, 1, 1 << 24,
         "memory to test, in MiB (default: 80 % of a GPU's)"},
        TOOL_JSON_OPT(&options.json),
    };
    char names[DEVICES_MAX][DEVICE_NAME_BYTES];
    struct burn *list;
    sigset_t interrupt;
    bell_status status;
    size_t n, i;
    int code;

    code = tool_parse("burn [DEVICE] [--seconds S] [--json]\n\n"
                      "Keeps a device busy and compares everything that it "
                      "gives: memory, multiply-adds,\nmatrix products. Exits "
                      "with 1 if a single bit was wrong, and says where.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    /* Ctrl-C ends it with the verdict of what there was */
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
    status = list_names(options.device, names, &n);
    if (status != BELL_OK)
        return tool_fail(options.json, status);
    list = host_calloc(n, sizeof(*list));
    if (!list)
        return tool_fail_text(options.json, BELL_E_NO_MEMORY, "out of memory");
    for (i = 0; i < n; i++) {
        list[i].options = &options;
        list[i].device = options.device ? names[i] : NULL;
        list[i].temperature_c[0] = list[i].temperature_c[1] = NAN;
        list[i].health[0] = list[i].health[1] =
            (struct machine_health){NAN, NAN, NAN, NAN, false, 0};
    }
    burn_all(list, n);
    if (n == 1 && list[0].status != BELL_OK) {
        bell_error_set(&list[0].error);
        code = tool_fail(options.json, list[0].status);
    } else {
        code = tell_all(list, n, options.json);
    }
    for (i = 0; i < n; i++)
        free_all(&list[i]);
    host_free(list);
    return code;
}
