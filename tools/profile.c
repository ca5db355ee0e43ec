/* `doorbell profile`: what a trace that BELL_PROFILE wrote says, in a table:
 * kernels by their share, stages of compilation, copies. Read with cJSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if BELL_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/tools.h"

#if BELL_HAVE_CJSON

/* Spans of one kind, name and label, added up. */
struct sum {
    const char *kind, *name, *label; /* in the document */
    uint64_t n;
    double us, flops, bytes;
};

struct profile_sums {
    struct sum *list; /* owned */
    size_t n;
};

static double
number_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    return cJSON_IsNumber(item) && isfinite(item->valuedouble)
               ? item->valuedouble
               : 0;
}

static int
compare_names(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    int kind = strcmp(x->kind, y->kind);
    int name = kind ? kind : strcmp(x->name, y->name);

    return name ? name : strcmp(x->label, y->label);
}

/* The kernels first, then what takes longest. */
static int
compare_times(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    int is_x = strcmp(x->kind, "kernel") == 0;
    int is_y = strcmp(y->kind, "kernel") == 0;

    return is_x != is_y ? is_y - is_x : (x->us < y->us) - (x->us > y->us);
}

/* Each compilation, schedule, copy and call is a line of its kind. */
static const char *
name_of(const char *kind, const char *name)
{
    return strcmp(kind, "kernel") == 0 ? name : kind;
}

static bell_status
read_sums(const cJSON *events, struct profile_sums *out)
{
    size_t n = (size_t)cJSON_GetArraySize(events), used = 0, i;
    struct sum *list = host_calloc(n + 1, sizeof(*list));
    const cJSON *event;

    if (!list)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %zu events", n);
    cJSON_ArrayForEach(event, events)
    {
        const char *kind = cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(event, "cat"));
        const char *name = cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(event, "name"));
        const char *ph =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(event, "ph"));
        const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
        const char *label = cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(args, "label"));

        if (!kind || !name || !ph || strcmp(ph, "X") != 0)
            continue;
        list[used++] = (struct sum){kind,
                                    name_of(kind, name),
                                    label ? label : "",
                                    1,
                                    number_of(event, "dur"),
                                    number_of(args, "flops"),
                                    number_of(args, "bytes")};
    }
    if (used)
        qsort(list, used, sizeof(*list), compare_names);
    for (i = 0, n = 0; i < used; i++) {
        struct sum *last = n ? &list[n - 1] : NULL;

        if (!last || compare_names(last, &list[i]) != 0) {
            list[n++] = list[i];
            continue;
        }
        last->n++;
        last->us += list[i].us;
        last->flops += list[i].flops;
        last->bytes += list[i].bytes;
    }
    if (n)
        qsort(list, n, sizeof(*list), compare_times);
    *out = (struct profile_sums){list, n};
    return BELL_OK;
}

static double
kernel_time(const struct profile_sums *sums)
{
    double us = 0;
    size_t i;

    for (i = 0; i < sums->n; i++)
        us += strcmp(sums->list[i].kind, "kernel") == 0 ? sums->list[i].us : 0;
    return us;
}

static void
print_sums(const struct profile_sums *sums)
{
    double all = kernel_time(sums);
    size_t i;

    for (i = 0; i < sums->n; i++) {
        const struct sum *sum = &sums->list[i];

        tool_printf("%-28s %8llu x %12.1f us", sum->name,
                    (unsigned long long)sum->n, sum->us / (double)sum->n);
        if (strcmp(sum->kind, "kernel") == 0 && sum->us > 0)
            tool_printf("  %10.2f GFLOP/s %9.2f GB/s %5.1f %%",
                        sum->flops / sum->us / 1e3, sum->bytes / sum->us / 1e3,
                        100 * sum->us / all);
        tool_printf("%s%s\n", *sum->label ? "  " : "", sum->label);
    }
    tool_printf("kernels: %.3f ms\n", all / 1e3);
}

static int
print_document(const char *device, const struct profile_sums *sums)
{
    double all = kernel_time(sums);
    struct json json;
    size_t i;

    json_init(&json);
    json_str(&json, "device", device);
    json_num(&json, "kernel_time_us", all);
    json_array(&json, "sums");
    for (i = 0; i < sums->n; i++) {
        const struct sum *sum = &sums->list[i];
        bool is_kernel = strcmp(sum->kind, "kernel") == 0 && sum->us > 0;

        json_object(&json, NULL);
        json_str(&json, "kind", sum->kind);
        json_str(&json, "name", sum->name);
        json_str(&json, "label", *sum->label ? sum->label : NULL);
        json_uint(&json, "count", sum->n);
        json_num(&json, "time_us", sum->us);
        json_num(&json, "rate_gflops",
                 is_kernel ? sum->flops / sum->us / 1e3 : NAN);
        json_num(&json, "bandwidth_gb_s",
                 is_kernel ? sum->bytes / sum->us / 1e3 : NAN);
        json_num(&json, "share_percent",
                 is_kernel && all > 0 ? 100 * sum->us / all : NAN);
        json_end(&json);
    }
    json_end(&json);
    return tool_print_json(&json);
}

static int
summarise(const char *path, const cJSON *root, bool as_json)
{
    const cJSON *other = cJSON_GetObjectItemCaseSensitive(root, "otherData");
    const cJSON *events = cJSON_GetObjectItemCaseSensitive(root, "traceEvents");
    const char *device;
    struct profile_sums sums;
    bell_status status;
    int code = TOOL_OK;

    device =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(other, "device"));
    if (!device || number_of(other, "doorbell_profile") != 1 ||
        !cJSON_IsArray(events))
        return tool_fail_text(as_json, BELL_E_IO,
                              "%s: not what BELL_PROFILE writes", path);
    status = read_sums(events, &sums);
    if (status != BELL_OK)
        return tool_fail(as_json, status);
    if (as_json)
        code = print_document(device, &sums);
    else
        print_sums(&sums);
    host_free(sums.list);
    return code;
}

static int
show_profile(const char *path, bool as_json)
{
    struct file_bytes file;
    bell_status status = file_read(path, &file);
    cJSON *root;
    int code;

    if (status != BELL_OK)
        return tool_fail(as_json, status);
    root = cJSON_ParseWithLength(file.data, file.size_bytes);
    file_bytes_fini(&file);
    code = summarise(path, root, as_json);
    cJSON_Delete(root);
    return code;
}

#else

static int
show_profile(const char *path, bool as_json)
{
    return tool_fail_text(as_json, BELL_E_UNSUPPORTED,
                          "%s: built without cJSON (libcjson-dev): traces "
                          "cannot be read",
                          path);
}

#endif

int
verb_profile(int argc, char **argv)
{
    const char *path = NULL;
    bool json = false;
    const struct tool_opt opts[] = {
        {"FILE", NULL, TOOL_OPT_STRING, &path, 0, 0,
         "a trace: BELL_PROFILE=FILE in a program's environment writes one"},
        TOOL_JSON_OPT(&json),
    };
    int code;

    code = tool_parse("profile FILE [--json]\n\n"
                      "What a trace says: each kernel's time, rates and share, "
                      "and what scheduling,\ncompiling and copies took. "
                      "ui.perfetto.dev and chrome://tracing draw it.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (!path)
        return tool_usage(json, "profile: which trace?");
    return show_profile(path, json);
}
