/* What kernels do, take and need at least. */
#include "tools/kernel_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/json.h"
#include "tools/tools.h"

/* One launch. */
struct launch {
    struct tensor_ir ir;
    struct tensor_usage usage;
    struct sim_counts counts; /* n_groups 0: nothing was counted */
    struct chip_occupancy occupancy;
    uint32_t n_threads;
    double n_groups, scale; /* work-groups: all, and for each that was run */
    struct chip_time time;  /* of a known product */
};

struct kernel_stats {
    struct bell_context *ctx;
    const struct chip *chip; /* NULL: no product is named */
    const struct chip_arch *arch;
    struct launch *launches;
    size_t n_launches, cap_launches;
    bell_status status;
    struct bell_error error;
};

static const char *const insn_names[SIM_INSN_COUNT] = {
    [SIM_INSN_FLOAT] = "float",     [SIM_INSN_SPECIAL] = "special",
    [SIM_INSN_OTHER] = "other",     [SIM_INSN_SCALAR] = "scalar",
    [SIM_INSN_MATRIX] = "matrix",   [SIM_INSN_GLOBAL] = "global",
    [SIM_INSN_SHARED] = "shared",   [SIM_INSN_LOCAL] = "local",
    [SIM_INSN_CONTROL] = "control",
};

/* ---- what a launch makes of a chip ---- */

void
kernel_stats_work(const struct sim_counts *c, struct chip_work *work)
{
    double scale =
        c->n_groups_run ? (double)c->n_groups / (double)c->n_groups_run : 1;
    int i;

    work->sector_bytes =
        32.0 * (double)(c->load_sectors + c->store_sectors) * scale;
    /* what is read twice by the estimate may be kept in registers */
    if (work->sector_bytes < work->memory_bytes)
        work->memory_bytes = work->sector_bytes;
    work->n_wavefronts = (double)c->n_wavefronts * scale;
    for (i = 0; i < SIM_INSN_COUNT; i++)
        work->n_insns +=
            i == SIM_INSN_SCALAR ? 0 : (double)c->n_insns[i] * scale;
    for (i = 0; i < CHIP_RATE_COUNT; i++)
        work->matrix_flops[i] = c->matrix_flops[i] * scale;
}

static void
predict(const struct kernel_stats *stats, struct launch *l)
{
    struct chip_work work = {.n_groups = (uint64_t)l->n_groups,
                             .memory_bytes = l->ir.n_bytes};

    if (!stats->chip)
        return;
    if (l->counts.n_groups)
        kernel_stats_work(&l->counts, &work);
    else if (l->usage.has_matrix)
        work.matrix_flops[l->usage.matrix_rate] = l->ir.n_flops;
    else
        work.flops = l->ir.n_flops;
    l->time = chip_time(stats->chip, &work);
}

static bell_status
take_launch(struct kernel_stats *stats, size_t number)
{
    struct launch l = {.scale = 1};

    sim_count_take(&l.counts);
    if (!tensor_kernel_at(stats->ctx, number, &l.ir))
        return bell_fail(BELL_E_INTERNAL, "no kernel %zu", number);
    BELL_TRY(tensor_kernel_usage(stats->ctx, number, &l.usage));
    l.n_threads = l.ir.local[0] * l.ir.local[1] * l.ir.local[2];
    l.n_groups = (double)l.ir.grid[0] * l.ir.grid[1] * l.ir.grid[2];
    if (l.counts.n_groups_run)
        l.scale = (double)l.counts.n_groups / (double)l.counts.n_groups_run;
    l.occupancy = chip_occupancy(stats->arch, l.n_threads, l.usage.usage.n_regs,
                                 l.usage.usage.shared_bytes);
    predict(stats, &l);
    if (host_grow((void **)&stats->launches, &stats->cap_launches,
                  stats->n_launches + 1, sizeof(*stats->launches)) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    stats->launches[stats->n_launches++] = l;
    return BELL_OK;
}

static void
note_launch(void *user, size_t number)
{
    struct kernel_stats *stats = user;

    if (stats->status != BELL_OK)
        return;
    stats->status = take_launch(stats, number);
    if (stats->status != BELL_OK)
        stats->error = *bell_error_last();
}

/* The name of what a simulated or null device is of: behind the last colon. */
static bell_status
find_arch(struct kernel_stats *stats)
{
    const char *device = bell_context_device(stats->ctx);
    const char *form = strrchr(device, '@');
    char name[32];

    if (!form ||
        (strncmp(form, "@sim:", 5) != 0 && strncmp(form, "@null:", 6) != 0))
        return bell_fail(BELL_E_INVALID,
                         "--stats: %s is neither simulated nor @null: what it "
                         "does is not counted",
                         device);
    form = strchr(form, ':') + 1;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(form, "*,"), form);
    stats->chip = chip_of_device(device, "");
    stats->arch = chip_arch_find(stats->chip ? stats->chip->arch : name);
    if (!stats->arch || !stats->arch->warp_lanes)
        return bell_fail(BELL_E_INVALID, "--stats: %s is not a GPU", device);
    return BELL_OK;
}

bell_status
kernel_stats_begin(struct bell_context *ctx, uint64_t most_groups,
                   struct kernel_stats **out_stats)
{
    struct kernel_stats *stats = host_calloc(1, sizeof(*stats));
    bell_status status;

    if (!stats)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    stats->ctx = ctx;
    status = find_arch(stats);
    if (status != BELL_OK) {
        host_free(stats);
        return status;
    }
    status = tensor_watch_kernels(ctx, note_launch, stats);
    if (status != BELL_OK) {
        host_free(stats);
        return status;
    }
    sim_count_begin(most_groups);
    *out_stats = stats;
    return BELL_OK;
}

bell_status
kernel_stats_end(struct kernel_stats *stats)
{
    bell_status stopped;

    sim_count_end();
    stopped = tensor_watch_kernels(stats->ctx, NULL, NULL);
    if (stats->status != BELL_OK)
        return bell_error_set(&stats->error);
    return stopped;
}

void
kernel_stats_destroy(struct kernel_stats *stats)
{
    if (!stats)
        return;
    host_free(stats->launches);
    host_free(stats);
}

/* ---- as text ---- */

static double
ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void
print_counts(const struct launch *l)
{
    const struct sim_counts *c = &l->counts;
    double total = 0;
    const char *before = "";
    int i;

    for (i = 0; i < SIM_INSN_COUNT; i++)
        total += (double)c->n_insns[i] * l->scale;
    if (l->scale > 1)
        tool_printf("  counted in %" PRIu64 " of %.0f work-groups\n",
                    c->n_groups_run, l->n_groups);
    tool_printf("  %.4g instructions of warps: ", total);
    for (i = 0; i < SIM_INSN_COUNT; i++) {
        if (!c->n_insns[i])
            continue;
        tool_printf("%s%s %.1f %%", before, insn_names[i],
                    100 * ratio((double)c->n_insns[i] * l->scale, total));
        before = ", ";
    }
    tool_printf(
        "\n  memory: %.4g loads of %.1f bytes a sector of 32, %.1f sectors "
        "each; %.4g stores of %.1f, %.1f each\n",
        (double)c->n_loads * l->scale,
        ratio((double)c->loaded_bytes, (double)c->load_sectors),
        ratio((double)c->load_sectors, (double)c->n_loads),
        (double)c->n_stores * l->scale,
        ratio((double)c->stored_bytes, (double)c->store_sectors),
        ratio((double)c->store_sectors, (double)c->n_stores));
    if (c->n_wavefronts)
        tool_printf(
            "  shared memory: %.4g wavefronts, %.2f of the least\n",
            (double)c->n_wavefronts * l->scale,
            ratio((double)c->n_wavefronts, (double)c->least_wavefronts));
    tool_printf("  %.0f barriers, %.4g branches, %.4g of them divergent\n",
                (double)c->n_barriers * l->scale,
                (double)c->n_branches * l->scale,
                (double)c->n_divergent * l->scale);
}

static void
print_time(const struct launch *l)
{
    const char *before = "";
    int i;

    tool_printf("  at least %.3g us, by %s:", l->time.us,
                chip_term_names[l->time.limit]);
    for (i = 0; i < CHIP_TERM_COUNT; i++) {
        if (l->time.term_us[i] <= 0)
            continue;
        tool_printf("%s %s %.3g", before, chip_term_names[i],
                    l->time.term_us[i]);
        before = ",";
    }
    tool_printf("\n");
}

static void
print_launch(const struct kernel_stats *stats, const struct launch *l)
{
    const struct render_usage *u = &l->usage.usage;

    tool_printf("%s: %.0f work-groups of %u\n", l->ir.name, l->n_groups,
                l->n_threads);
    tool_printf(
        "  %.4g operations, %.4g bytes; %u registers%s, %u bytes spilled, "
        "%u of shared memory\n",
        l->ir.n_flops, l->ir.n_bytes, u->n_regs,
        l->usage.is_estimated ? " (estimated)" : "", u->spill_bytes,
        u->shared_bytes);
    tool_printf("  %u work-groups a unit, %u of %u warps, by %s\n",
                l->occupancy.n_groups, l->occupancy.n_warps,
                stats->arch->max_warps, l->occupancy.limit);
    if (l->counts.n_groups)
        print_counts(l);
    if (stats->chip)
        print_time(l);
}

bool
kernel_stats_time(const struct kernel_stats *stats, double *out_us)
{
    size_t i;

    *out_us = 0;
    for (i = 0; i < stats->n_launches; i++)
        *out_us += stats->launches[i].time.us;
    return stats->chip != NULL;
}

void
kernel_stats_print(const struct kernel_stats *stats)
{
    double us;
    size_t i;

    for (i = 0; i < stats->n_launches; i++)
        print_launch(stats, &stats->launches[i]);
    if (kernel_stats_time(stats, &us))
        tool_printf("%s: %zu kernels, at least %.3g us\n",
                    bell_context_device(stats->ctx), stats->n_launches, us);
    else
        tool_printf("%s: %zu kernels; no times, since %s is not a product\n",
                    bell_context_device(stats->ctx), stats->n_launches,
                    stats->arch->name);
}

/* ---- as JSON ---- */

static void
put_counts(const struct launch *l, struct json *json)
{
    const struct sim_counts *c = &l->counts;
    const struct {
        const char *key;
        uint64_t n;
    } rows[] = {
        {"n_loads", c->n_loads},
        {"n_stores", c->n_stores},
        {"loaded_bytes", c->loaded_bytes},
        {"stored_bytes", c->stored_bytes},
        {"load_sectors", c->load_sectors},
        {"store_sectors", c->store_sectors},
        {"n_wavefronts", c->n_wavefronts},
        {"least_wavefronts", c->least_wavefronts},
        {"n_barriers", c->n_barriers},
        {"n_branches", c->n_branches},
        {"n_divergent", c->n_divergent},
    };
    double flops = 0;
    size_t i;

    json_uint(json, "n_groups_run", c->n_groups_run);
    json_object(json, "n_insns");
    for (i = 0; i < SIM_INSN_COUNT; i++)
        json_num(json, insn_names[i], (double)c->n_insns[i] * l->scale);
    json_end(json);
    for (i = 0; i < ARRAY_LEN(rows); i++)
        json_num(json, rows[i].key, (double)rows[i].n * l->scale);
    for (i = 0; i < CHIP_RATE_COUNT; i++)
        flops += c->matrix_flops[i] * l->scale;
    json_num(json, "matrix_flops", flops);
}

static void
put_launch(const struct kernel_stats *stats, const struct launch *l,
           struct json *json)
{
    const struct render_usage *u = &l->usage.usage;
    size_t i;

    json_object(json, NULL);
    json_str(json, "name", l->ir.name);
    json_num(json, "n_groups", l->n_groups);
    json_uint(json, "n_threads", l->n_threads);
    json_num(json, "n_flops", l->ir.n_flops);
    json_num(json, "n_bytes", l->ir.n_bytes);
    json_uint(json, "n_registers", u->n_regs);
    json_bool(json, "registers_estimated", l->usage.is_estimated);
    json_uint(json, "spill_bytes", u->spill_bytes);
    json_uint(json, "shared_bytes", u->shared_bytes);
    json_bool(json, "has_matrix", l->usage.has_matrix);
    json_uint(json, "groups_per_unit", l->occupancy.n_groups);
    json_num(json, "occupancy",
             ratio(l->occupancy.n_warps, stats->arch->max_warps));
    json_str(json, "occupancy_limit", l->occupancy.limit);
    if (l->counts.n_groups)
        put_counts(l, json);
    if (stats->chip) {
        json_num(json, "predicted_us", l->time.us);
        json_str(json, "limit", chip_term_names[l->time.limit]);
        json_object(json, "terms_us");
        for (i = 0; i < CHIP_TERM_COUNT; i++)
            json_num(json, chip_term_names[i], l->time.term_us[i]);
        json_end(json);
    }
    json_end(json);
}

void
kernel_stats_put(const struct kernel_stats *stats, struct json *json)
{
    size_t i;

    json_str(json, "device", bell_context_device(stats->ctx));
    json_str(json, "chip", stats->chip ? stats->chip->name : NULL);
    json_array(json, "kernels");
    for (i = 0; i < stats->n_launches; i++)
        put_launch(stats, &stats->launches[i], json);
    json_end(json);
}
