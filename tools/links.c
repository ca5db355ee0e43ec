/* The matrix of links. */
#include "tools/links.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/tools.h"

bell_status
links_open(struct links *links, const char *name)
{
    if (links->n == LINKS_MAX)
        return BELL_OK;
    BELL_TRY(hcq_device_open(name, &links->devs[links->n]));
    links->n++;
    return BELL_OK;
}

bell_status
links_open_box(struct links *links, const char *backend, unsigned first,
               const char *interface)
{
    bell_status status = BELL_OK;
    char name[320];

    for (; status == BELL_OK && links->n < LINKS_MAX; first++) {
        snprintf(name, sizeof(name), "%.15s:%u%s%.280s", backend, first,
                 interface[0] ? "@" : "", interface);
        status = links_open(links, name);
    }
    return status == BELL_E_NO_DEVICE ? BELL_OK : status;
}

bell_status
links_ask(struct links *links)
{
    size_t i, k;

    for (i = 0; i < links->n; i++) {
        for (k = 0; k < links->n; k++) {
            links->pair[i][k].struct_size = sizeof(links->pair[i][k]);
            BELL_TRY(hcq_device_get_link(links->devs[i], links->devs[k],
                                         &links->pair[i][k]));
        }
    }
    return BELL_OK;
}

void
links_close(struct links *links)
{
    while (links->n)
        hcq_device_close(links->devs[--links->n]);
}

/* "NV:3" of "NV:3@sim:h100*8". */
static int
short_length(const struct hcq_device *dev)
{
    return (int)strcspn(hcq_device_name(dev), "@");
}

static bool
is_same(const struct hcq_device_link *a, const struct hcq_device_link *b)
{
    return a->kind == b->kind && a->bytes_per_s == b->bytes_per_s &&
           a->atomics == b->atomics && strcmp(a->reason, b->reason) == 0;
}

/* Whether a pair before this one has the same link. */
static bool
is_told(const struct links *links, size_t a, size_t b)
{
    size_t i, k;

    for (i = 0; i <= a; i++) {
        for (k = 0; k < (i == a ? b : links->n); k++) {
            if (i != k && is_same(&links->pair[i][k], &links->pair[a][b]))
                return true;
        }
    }
    return false;
}

static void
print_kind(const struct hcq_device_link *link)
{
    tool_printf("  %s: ", hcq_link_kind_name(link->kind));
    if (link->bytes_per_s)
        tool_printf("%.0f GB/s in each direction, ",
                    (double)link->bytes_per_s / 1e9);
    if (link->kind > HCQ_LINK_HOST)
        tool_printf("%s; ", link->atomics ? "atomics" : "no atomics");
    tool_printf("%s\n", link->reason);
}

void
links_print(const struct links *links)
{
    size_t i, k;

    tool_printf("%-8s", "links");
    for (i = 0; i < links->n; i++)
        tool_printf(" %-7.*s", short_length(links->devs[i]),
                    hcq_device_name(links->devs[i]));
    tool_printf("\n");
    for (i = 0; i < links->n; i++) {
        tool_printf("%-8.*s", short_length(links->devs[i]),
                    hcq_device_name(links->devs[i]));
        for (k = 0; k < links->n; k++)
            tool_printf(" %-7s", hcq_link_kind_name(links->pair[i][k].kind));
        tool_printf("\n");
    }
    for (i = 0; i < links->n; i++) {
        for (k = 0; k < links->n; k++) {
            if (i != k && !is_told(links, i, k))
                print_kind(&links->pair[i][k]);
        }
    }
}

void
links_put(struct json *json, const struct links *links)
{
    size_t i, k;

    for (i = 0; i < links->n; i++) {
        for (k = 0; k < links->n; k++) {
            const struct hcq_device_link *link = &links->pair[i][k];

            if (i == k)
                continue;
            json_object(json, NULL);
            json_str(json, "device", hcq_device_name(links->devs[i]));
            json_str(json, "other", hcq_device_name(links->devs[k]));
            json_str(json, "kind", hcq_link_kind_name(link->kind));
            json_uint(json, "hops", link->hops);
            if (link->bytes_per_s)
                json_uint(json, "bytes_per_s", link->bytes_per_s);
            else
                json_null(json, "bytes_per_s");
            json_bool(json, "reads", link->reads);
            json_bool(json, "writes", link->writes);
            json_bool(json, "atomics", link->atomics);
            json_uint(json, "engines", link->engines);
            json_str(json, "reason", link->reason);
            json_end(json);
        }
    }
}

bool
links_next_apart(const struct links *links, size_t *a, size_t *b, size_t *out_n)
{
    size_t i, k;

    for (; *a < links->n; ++*a, *b = 0) {
        for (; *b < links->n; ++*b) {
            const struct hcq_device_link *link = &links->pair[*a][*b];

            if (*a == *b || link->kind > HCQ_LINK_HOST ||
                is_told(links, *a, *b))
                continue;
            *out_n = 0;
            for (i = 0; i < links->n; i++) {
                for (k = i + 1; k < links->n; k++)
                    *out_n += is_same(&links->pair[i][k], link);
            }
            return true;
        }
    }
    return false;
}
