/* Bench: several devices, and how rows of what they exchange are printed. */
#include "tools/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/tools.h"

/* ---- names --------------------------------------------------------------- */

/* The end of the name that begins at `at`: the next comma but for those before
 * an interface's option, which has a '=' and no device of its own. */
static const char *
find_end(const char *at)
{
    const char *end = at;

    for (;;) {
        size_t n;

        end += strcspn(end, ",");
        if (!*end)
            return end;
        n = strcspn(end + 1, ",=@");
        if (end[1 + n] != '=')
            return end;
        end++;
    }
}

/* Whether the name, n characters of a list, is of all devices. */
static bool
has_star(const char *name, size_t n)
{
    const char *colon = memchr(name, ':', n);

    return colon && colon + 1 < name + n && colon[1] == '*';
}

bool
bench_is_group(const char *name)
{
    return name && (*find_end(name) == ',' || has_star(name, strlen(name)));
}

static bell_status
add_name(struct bench *b, const char *name, size_t n)
{
    if (b->n_names == BENCH_RANKS_MAX)
        return bell_fail(BELL_E_INVALID, "%s: more than %u devices", b->list,
                         BENCH_RANKS_MAX);
    if (n == 0 || n >= HCQ_NAME_MAX)
        return bell_fail(BELL_E_INVALID,
                         "%s: '%.*s' is empty or too long for a device",
                         b->list, (int)n, name);
    memcpy(b->names[b->n_names], name, n);
    b->names[b->n_names++][n] = '\0';
    return BELL_OK;
}

/* As many as there are: "NV:0@sim:h100*8" and so on. */
static bell_status
add_all(struct bench *b, const char *name, size_t n)
{
    const char *star = memchr(name, '*', n);
    char one[2 * HCQ_NAME_MAX];
    struct hcq_device *dev;
    bell_status status;
    unsigned i;
    int used;

    for (i = 0; i < BENCH_RANKS_MAX; i++) {
        used = snprintf(one, sizeof(one), "%.*s%u%.*s", (int)(star - name),
                        name, i, (int)(name + n - star - 1), star + 1);
        if (used < 0 || (size_t)used >= sizeof(one))
            return add_name(b, name, HCQ_NAME_MAX);
        status = hcq_device_open(one, &dev);
        if (status == BELL_E_NO_DEVICE && i > 0) {
            bell_error_clear();
            break;
        }
        BELL_TRY(status); /* one that is there is not left out in silence */
        hcq_device_close(dev);
        BELL_TRY(add_name(b, one, (size_t)used));
    }
    return BELL_OK;
}

/* Names without an interface take that of the next name of their backend. */
static bell_status
share_interfaces(struct bench *b)
{
    unsigned i;

    for (i = b->n_names - 1; i-- > 0;) {
        const char *next = b->names[i + 1], *at = strchr(next, '@');
        size_t n = strcspn(b->names[i], ":@"), used = strlen(b->names[i]);

        if (strchr(b->names[i], '@') || !at ||
            strncmp(b->names[i], next, n) != 0 || !strchr(":@", next[n]))
            continue;
        if (used + strlen(at) >= HCQ_NAME_MAX)
            return bell_fail(BELL_E_INVALID, "%s: '%s%s' is too long", b->list,
                             b->names[i], at);
        memcpy(b->names[i] + used, at, strlen(at) + 1);
    }
    return BELL_OK;
}

bell_status
bench_group_parse(const char *list, struct bench *b)
{
    const char *at, *end;

    b->list = list;
    b->n_names = 0;
    for (at = list;; at = end + 1) {
        end = find_end(at);
        if (has_star(at, (size_t)(end - at)))
            BELL_TRY(add_all(b, at, (size_t)(end - at)));
        else
            BELL_TRY(add_name(b, at, (size_t)(end - at)));
        if (!*end)
            break;
    }
    if (b->n_names < 2)
        return bell_fail(BELL_E_INVALID,
                         "%s: expected several devices, there is 1", list);
    BELL_TRY(share_interfaces(b));
    b->device = b->names[0];
    return BELL_OK;
}

/* ---- devices ------------------------------------------------------------- */

/* A queue for each link that has engines of its own. */
static bell_status
open_links(struct bench_group *group)
{
    unsigned i, j;

    for (i = 0; i < group->n; i++) {
        for (j = 0; j < group->n; j++) {
            struct hcq_device_link link = {.struct_size = sizeof(link)};
            struct hcq_queue_desc desc = {.struct_size = sizeof(desc),
                                          .kind = HCQ_QUEUE_COPY};

            if (i == j)
                continue;
            group->links[i][j] = group->copy[i];
            BELL_TRY(
                hcq_device_get_link(group->devs[i], group->devs[j], &link));
            desc.engines = link.engines;
            if (link.engines)
                BELL_TRY(hcq_queue_create_with(group->devs[i], &desc,
                                               &group->links[i][j]));
        }
    }
    return BELL_OK;
}

bell_status
bench_group_open(struct bench *b, struct bench_group *group)
{
    bell_status status = BELL_OK;
    unsigned i;

    memset(group, 0, sizeof(*group));
    group->devs[0] = b->dev;
    group->compute[0] = b->compute;
    group->copy[0] = b->copy;
    group->n = 1;
    for (i = 1; i < b->n_names && status == BELL_OK; i++) {
        status = hcq_device_open(b->names[i], &group->devs[i]);
        if (status != BELL_OK)
            break;
        group->n = i + 1;
        status = hcq_queue_create(group->devs[i], HCQ_QUEUE_COMPUTE,
                                  &group->compute[i]);
        if (status == BELL_OK)
            status = hcq_queue_create(group->devs[i], HCQ_QUEUE_COPY,
                                      &group->copy[i]);
    }
    if (status == BELL_OK)
        status = open_links(group);
    if (status != BELL_OK)
        bench_group_close(group);
    return status;
}

void
bench_group_close(struct bench_group *group)
{
    unsigned i, j;

    for (i = 0; i < group->n; i++) {
        for (j = 0; j < group->n; j++) {
            if (group->links[i][j] != group->copy[i])
                hcq_queue_destroy(group->links[i][j]);
        }
    }
    for (i = 1; i < group->n; i++) {
        hcq_queue_destroy(group->copy[i]);
        hcq_queue_destroy(group->compute[i]);
        hcq_device_close(group->devs[i]);
    }
    group->n = 0;
}

/* ---- text ---------------------------------------------------------------- */

void
bench_name_size(uint64_t n_bytes, char out[16])
{
    if (n_bytes >= 1u << 20 && n_bytes % (1u << 20) == 0)
        snprintf(out, 16, "%" PRIu64 "MiB", n_bytes >> 20 & 0xfffff);
    else if (n_bytes >= 1024 && n_bytes % 1024 == 0)
        snprintf(out, 16, "%" PRIu64 "KiB", n_bytes >> 10 & 0xfffffff);
    else
        snprintf(out, 16, "%" PRIu64 "B", n_bytes & 0xffffffff);
}

double
bench_alg_gb_s(const struct bench_row *row)
{
    if (row->unit == BENCH_GB_S)
        return row->median;
    return row->median > 0
               ? (double)row->exchange.size_bytes / (row->median * 1e3)
               : 0;
}

void
bench_print_columns(struct bench *b)
{
    if (!b->told || !bench_is_last_pass(b))
        return;
    tool_progress(NULL);
    tool_printf("%12s %12s %8s %6s %4s %12s %10s %8s %8s %6s  %s\n", "size",
                "count", "type", "redop", "root", "place", "time", "algbw",
                "busbw", "#wrong", "algorithm, model's time");
    tool_printf("%12s %12s %8s %6s %4s %12s %10s %8s %8s %6s\n", "(B)",
                "(elements)", "", "", "", "", "(us)", "(GB/s)", "(GB/s)", "");
}

void
bench_print_exchange(const struct bench_row *row)
{
    const struct bench_exchange *x = &row->exchange;
    double rate = bench_alg_gb_s(row);

    tool_printf("%12" PRIu64 " %12" PRIu64 " %8s %6s %4d %12s %10.2f %8.3f "
                "%8.3f %6" PRIu64 "  %s, %.1f us\n",
                x->size_bytes, x->count, x->type, x->redop, x->root,
                x->in_place ? "in-place" : "out-of-place", row->median, rate,
                rate * x->bus_factor, x->n_wrong, x->algorithm,
                x->predicted_us);
    fflush(stdout);
}

/* Rows of one kind, "peer_write" for "peer_write_0_1". */
static const struct bench_row *
find_pair(const struct bench *b, const char *kind, int from, int to)
{
    size_t i, n = strlen(kind);

    for (i = 0; i < b->n_rows; i++) {
        const struct bench_row *row = &b->rows[i];

        if (row->exchange.is_set && !row->exchange.algorithm &&
            row->exchange.from == from && row->exchange.to == to &&
            strncmp(row->name, kind, n) == 0 && row->name[n] == '_')
            return row;
    }
    return NULL;
}

void
bench_print_matrices(const struct bench *b)
{
    static const struct {
        const char *kind, *title;
    } matrices[] = {
        {"peer_write", "copies by the device of the line to the one of the "
                       "column, GB/s"},
        {"peer_read", "copies by the device of the line from the one of the "
                      "column, GB/s"},
        {"peer_both", "both at once, the bytes of both, GB/s"},
        {"peer_latency", "8 bytes to the device of the column, waited for, us"},
    };
    size_t k;
    int n = (int)b->n_names, i, j;

    for (k = 0; k < sizeof(matrices) / sizeof(matrices[0]); k++) {
        if (n < 2 || !find_pair(b, matrices[k].kind, 0, 1))
            continue;
        tool_printf("%s\n%8s", matrices[k].title, "");
        for (j = 0; j < n; j++)
            tool_printf(" %9d", j);
        for (i = 0; i < n; i++) {
            tool_printf("\n%8d", i);
            for (j = 0; j < n; j++) {
                const struct bench_row *row =
                    find_pair(b, matrices[k].kind, i, j);

                if (!row || row->why_not[0])
                    tool_printf(" %9s", i == j ? "-" : "no");
                else
                    tool_printf(" %9.3f", row->median);
            }
        }
        tool_printf("\n");
    }
}
