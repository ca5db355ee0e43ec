/* `doorbell burn`: the lines of a run, its verdict and its document. */
#include "tools/burn/burn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "tools/tools.h"

#define MIB (1024.0 * 1024)

/* The lowest bit that differs. */
static int
first_bit(const struct place *place)
{
    uint64_t differs = place->want ^ place->got;
    int bit = 0;

    while (bit < 63 && !(differs >> bit & 1))
        bit++;
    return bit;
}

static void
print_place(const struct burn *b, const struct place *place)
{
    if (place->has_address)
        tool_printf("  %s, round %" PRIu64 ": address 0x%" PRIx64, place->work,
                    place->round, place->at);
    else
        tool_printf("  %s, round %" PRIu64 ": row %" PRIu64 ", column %" PRIu64,
                    place->work, place->round, place->at / (uint64_t)b->n,
                    place->at % (uint64_t)b->n);
    tool_printf(": bit %d: %08" PRIx64 ", not %08" PRIx64, first_bit(place),
                place->got, place->want);
    if (strcmp(place->work, "multiply-add") == 0)
        tool_printf(" (work-group %u)", place->unit_group);
    tool_printf("\n");
}

/* What a counter rose by; nothing where it is not told. */
static void
print_growth(const char *what, double before, double after)
{
    if (isfinite(before) && isfinite(after))
        tool_printf("%s: %.0f more\n", what, after - before);
}

void
burn_print_moment(const struct burn *b, const struct burn_moment *moment)
{
    char throttle[MACHINE_THROTTLE_TEXT], told[256] = "";
    size_t n = 0;

    if (moment->clock_mhz)
        n += (size_t)snprintf(told + n, sizeof(told) - n, ", %" PRIu32 " MHz",
                              moment->clock_mhz);
    if (isfinite(moment->temperature_c))
        n += (size_t)snprintf(told + n, sizeof(told) - n, ", %.0f C",
                              moment->temperature_c);
    if (isfinite(moment->power_w))
        n += (size_t)snprintf(told + n, sizeof(told) - n, ", %.0f W",
                              moment->power_w);
    machine_throttle_text(moment->throttle, throttle);
    if (moment->tells_throttle)
        (void)snprintf(told + n, sizeof(told) - n, ", throttled by: %s",
                       throttle);
    tool_printf("%s%s: %.0f s: %.1f GFLOP/s%s, %" PRIu64 " errors\n",
                b->info.name,
                b->info.flags & HCQ_DEVICE_SIMULATED ? " (simulated)" : "",
                moment->time_s, moment->flops / moment->seconds / 1e9, told,
                moment->n_errors);
    fflush(stdout);
}

void
burn_print_verdict(const struct burn *b, double seconds)
{
    char throttle[MACHINE_THROTTLE_TEXT];
    size_t i;

    tool_printf("%s: %s, %s%s\n", b->info.name, b->info.model, b->info.arch,
                b->info.flags & HCQ_DEVICE_SIMULATED ? "; simulated" : "");
    tool_printf(
        "%" PRIu64 " rounds in %.1f s: %.1f MiB of results compared, %.1f "
        "GFLOP/s, %.0f MiB of memory%s\n",
        b->n_rounds, seconds, (double)b->n_checked_bytes / MIB,
        b->flops / seconds / 1e9, (double)(b->n_chunks * b->chunk_bytes) / MIB,
        b->fma.prog ? "" : "; no kernel by hand for it: no multiply-adds");
    if (b->clock_mhz[0] && b->clock_mhz[1])
        tool_printf("%" PRIu32 " MHz before, %" PRIu32 " MHz at the end\n",
                    b->clock_mhz[0], b->clock_mhz[1]);
    if (b->clock_worst_mhz)
        tool_printf("worst clock: %" PRIu32 " MHz\n", b->clock_worst_mhz);
    if (isfinite(b->temperature_c[1]))
        tool_printf("%.0f to %.0f C\n", b->temperature_c[0],
                    b->temperature_c[1]);
    machine_throttle_text(b->throttle, throttle);
    if (b->health[1].tells_throttle)
        tool_printf("throttled by: %s\n", throttle);
    print_growth("ECC errors corrected", b->health[0].ecc_corrected,
                 b->health[1].ecc_corrected);
    print_growth("ECC errors not corrected", b->health[0].ecc_uncorrected,
                 b->health[1].ecc_uncorrected);
    print_growth("PCIe replays", b->health[0].pcie_replays,
                 b->health[1].pcie_replays);
    for (i = 0; i < b->n_places; i++)
        print_place(b, &b->places[i]);
    if (b->n_errors > b->n_places)
        tool_printf("  and %" PRIu64 " more\n", b->n_errors - b->n_places);
    tool_printf("%s: %" PRIu64 " errors\n", b->n_errors ? "FAILED" : "passed",
                b->n_errors);
}

static void
put_place(struct json *json, const struct burn *b, const struct place *place)
{
    char text[32];

    json_object(json, NULL);
    json_str(json, "work", place->work);
    json_uint(json, "round", place->round);
    snprintf(text, sizeof(text), "%" PRIx64, place->at);
    json_str(json, "address", place->has_address ? text : NULL);
    if (place->has_address) {
        json_null(json, "row");
        json_null(json, "column");
    } else {
        json_uint(json, "row", place->at / (uint64_t)b->n);
        json_uint(json, "column", place->at % (uint64_t)b->n);
    }
    json_int(json, "bit", first_bit(place));
    snprintf(text, sizeof(text), "%" PRIx64, place->want);
    json_str(json, "want", text);
    snprintf(text, sizeof(text), "%" PRIx64, place->got);
    json_str(json, "got", text);
    if (strcmp(place->work, "multiply-add") == 0)
        json_uint(json, "work_group", place->unit_group);
    else
        json_null(json, "work_group");
    json_end(json);
}

static void
put_throttle(struct json *json, uint64_t bits, bool is_told)
{
    char text[MACHINE_THROTTLE_TEXT];

    machine_throttle_text(bits, text);
    json_str(json, "throttled_by", is_told ? text : NULL);
}

static void
put_growth(struct json *json, const char *key, double before, double after)
{
    if (isfinite(before) && isfinite(after) && after >= before)
        json_num(json, key, after - before);
    else
        json_null(json, key);
}

static void
put_burn_series(struct json *json, const struct burn *b)
{
    size_t i;

    json_array(json, "series");
    for (i = 0; i < b->n_series; i++) {
        const struct burn_moment *moment = &b->series[i];

        json_object(json, NULL);
        json_num(json, "time_s", moment->time_s);
        json_num(json, "rate_gflops", moment->flops / moment->seconds / 1e9);
        json_positive(json, "clock_mhz", moment->clock_mhz);
        json_positive(json, "temperature_c", moment->temperature_c);
        json_positive(json, "power_w", moment->power_w);
        put_throttle(json, moment->throttle, moment->tells_throttle);
        json_uint(json, "n_errors", moment->n_errors);
        json_end(json);
    }
    json_end(json);
}

void
burn_put(struct json *json, const struct burn *b)
{
    size_t i;

    json_str(json, "device", b->info.name);
    json_str(json, "model", b->info.model);
    json_str(json, "arch", b->info.arch);
    json_bool(json, "simulated", (b->info.flags & HCQ_DEVICE_SIMULATED) != 0);
    json_num(json, "time_s", b->seconds);
    json_uint(json, "n_rounds", b->n_rounds);
    json_uint(json, "memory_bytes", b->n_chunks * b->chunk_bytes);
    json_uint(json, "compared_bytes", b->n_checked_bytes);
    json_num(json, "rate_gflops", b->flops / b->seconds / 1e9);
    json_positive(json, "clock_before_mhz", b->clock_mhz[0]);
    json_positive(json, "clock_after_mhz", b->clock_mhz[1]);
    json_positive(json, "clock_worst_mhz", b->clock_worst_mhz);
    json_positive(json, "temperature_min_c", b->temperature_c[0]);
    json_positive(json, "temperature_max_c", b->temperature_c[1]);
    put_throttle(json, b->throttle, b->health[1].tells_throttle);
    put_growth(json, "ecc_corrected", b->health[0].ecc_corrected,
               b->health[1].ecc_corrected);
    put_growth(json, "ecc_uncorrected", b->health[0].ecc_uncorrected,
               b->health[1].ecc_uncorrected);
    put_growth(json, "pcie_replays", b->health[0].pcie_replays,
               b->health[1].pcie_replays);
    put_burn_series(json, b);
    json_uint(json, "n_errors", b->n_errors);
    json_array(json, "errors"); /* the first of them */
    for (i = 0; i < b->n_places; i++)
        put_place(json, b, &b->places[i]);
    json_end(json);
    json_str(json, "verdict", b->n_errors ? "failed" : "passed");
}
