/* Who uses the GPUs, from procfs and from KFD's files.
 * src: Linux 6.12, Documentation/gpu/drm-usage-stats.rst (fdinfo), and of KFD
 * kfd_process.c (/sys/class/kfd/kfd/proc). */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/top/top.h"

#define KFD_PROC "/sys/class/kfd/kfd/proc"

/* A new item at the end, zeroed; NULL: out of memory. */
static void *
append(struct top_list *list, size_t item_bytes)
{
    char *item;

    if (host_grow(&list->items, &list->cap, list->n + 1, item_bytes) != 0)
        return NULL;
    item = (char *)list->items + list->n++ * item_bytes;
    memset(item, 0, item_bytes);
    return item;
}

static bell_status
no_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "out of memory listing processes");
}

struct top_engine *
top_engine_of(struct top_device *dev, const char *name)
{
    size_t i;

    for (i = 0; i < dev->n_engines; i++) {
        if (strcmp(dev->engines[i].name, name) == 0)
            return &dev->engines[i];
    }
    if (dev->n_engines == TOP_ENGINES_MAX)
        return NULL;
    dev->engines[dev->n_engines] = (struct top_engine){.busy_percent = NAN};
    snprintf(dev->engines[dev->n_engines].name, sizeof(dev->engines[0].name),
             "%s", name);
    return &dev->engines[dev->n_engines++];
}

/* ---- processes ----------------------------------------------------------- */

static struct top_process *
find_process(const struct top *top, size_t first, size_t device)
{
    struct top_process *list = top->processes.items;
    size_t i;

    for (i = first; i < top->processes.n; i++) {
        if (list[i].device == device)
            return &list[i];
    }
    return NULL;
}

/* The process's line for the device; `first` is its first line. */
static struct top_process *
add_process(struct top *top, size_t first, size_t device, int64_t pid)
{
    struct top_process *process = find_process(top, first, device);
    char path[PATH_MAX];

    if (process)
        return process;
    process = append(&top->processes, sizeof(*process));
    if (!process)
        return NULL;
    process->device = device;
    process->pid = pid;
    process->memory_bytes = process->engine_s = NAN;
    snprintf(path, sizeof(path), "%.2000s/proc/%lld/comm", top->root,
             (long long)pid);
    machine_text(path, process->command, sizeof(process->command));
    process->command[strcspn(process->command, "\n")] = '\0';
    return process;
}

/* The device that an open file is of; n_devices: none. */
static size_t
find_device(const struct top *top, const char *path)
{
    size_t i, k;

    for (i = 0; i < top->n_devices; i++) {
        const struct machine_gpu *gpu = top->devices[i].gpu;

        if (!gpu)
            continue;
        if (gpu->drm_node[0] && strcmp(gpu->drm_node, path) == 0)
            return i;
        /* the control nodes are of all cards */
        for (k = 0; k < gpu->n_nodes; k++) {
            if (strcmp(gpu->nodes[k].path, path) == 0 &&
                strcmp(path, "/dev/kfd") != 0 &&
                strcmp(path, "/dev/nvidiactl") != 0)
                return i;
        }
    }
    return top->n_devices;
}

static int
compare_clients(const void *a, const void *b)
{
    const struct top_client *x = a, *y = b;

    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* "1024 KiB" in bytes. */
static double
read_size(const char *text)
{
    char *unit;
    double value = strtod(text, &unit);

    unit += strspn(unit, " \t");
    return strncmp(unit, "KiB", 3) == 0   ? value * 1024
           : strncmp(unit, "MiB", 3) == 0 ? value * 1048576
                                          : value;
}

static void
read_process_line(const char *line, struct top_client *client, double *vram,
                  bool *is_resident)
{
    const char *value = strchr(line, ':'), *name;
    size_t n;

    if (!value)
        return;
    value += 1 + strspn(value + 1, " \t");
    if (strncmp(line, "drm-client-id:", 14) == 0) {
        client->id = strtoull(value, NULL, 10);
    } else if (strncmp(line, "drm-engine-", 11) == 0 &&
               strncmp(line, "drm-engine-capacity-", 20) != 0 &&
               client->n_engines < TOP_ENGINES_MAX) {
        name = line + 11;
        n = strcspn(name, ":");
        if (n >= sizeof(client->engines[0].name))
            n = sizeof(client->engines[0].name) - 1;
        memcpy(client->engines[client->n_engines].name, name, n);
        client->engines[client->n_engines].name[n] = '\0';
        client->engines[client->n_engines++].busy_s = strtod(value, NULL) / 1e9;
    } else if (strncmp(line, "drm-resident-vram", 17) == 0) {
        /* "vram", "vram0": parts of it */
        *vram = (*is_resident ? *vram : 0) + read_size(value);
        *is_resident = true;
    } else if (strncmp(line, "drm-memory-vram:", 16) == 0 && !*is_resident) {
        *vram = read_size(value);
    }
}

/* What the kernel's driver tells of an open file, once for each client. */
static bell_status
read_fdinfo(const char *path, struct top_process *process,
            struct top_list *clients, size_t first_client)
{
    char text[8192], *line, *rest;
    struct top_client client = {.device = process->device}, *all, *added;
    bool is_resident = false;
    double vram = NAN, busy_s = 0;
    size_t i;

    if (!machine_text(path, text, sizeof(text)))
        return BELL_OK; /* closed meanwhile, or another user's */
    for (line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        read_process_line(line, &client, &vram, &is_resident);
    if (client.id == 0)
        return BELL_OK;
    all = clients->items;
    for (i = first_client; i < clients->n; i++) {
        if (compare_clients(&all[i], &client) == 0)
            return BELL_OK;
    }
    added = append(clients, sizeof(client));
    if (!added)
        return no_memory();
    *added = client;
    for (i = 0; i < client.n_engines; i++)
        busy_s += client.engines[i].busy_s;
    if (client.n_engines)
        process->engine_s =
            busy_s + (isfinite(process->engine_s) ? process->engine_s : 0);
    if (isfinite(vram))
        process->memory_bytes =
            vram +
            (isfinite(process->memory_bytes) ? process->memory_bytes : 0);
    return BELL_OK;
}

static bell_status
read_process(struct top *top, int64_t pid, struct top_list *clients)
{
    size_t first = top->processes.n, first_client = clients->n, device;
    char folder[PATH_MAX], path[PATH_MAX], target[256];
    bell_status status = BELL_OK;
    struct dirent *entry;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%.2000s/proc/%lld/fd", top->root,
             (long long)pid);
    dir = opendir(folder);
    while (dir && status == BELL_OK && (entry = readdir(dir)) != NULL) {
        struct top_process *process;
        ssize_t n;

        snprintf(path, sizeof(path), "%.2100s/%.64s", folder, entry->d_name);
        n = readlink(path, target, sizeof(target) - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        device = find_device(top, target);
        if (device == top->n_devices)
            continue;
        process = add_process(top, first, device, pid);
        snprintf(path, sizeof(path), "%.2100sinfo/%.64s", folder,
                 entry->d_name);
        status = process ? read_fdinfo(path, process, clients, first_client)
                         : no_memory();
    }
    if (dir)
        closedir(dir);
    return status;
}

/* ---- KFD ----------------------------------------------------------------- */

static uint64_t
read_process_number(const char *folder, const char *name)
{
    char path[PATH_MAX], text[32];

    snprintf(path, sizeof(path), "%.4000s/%.64s", folder, name);
    machine_text(path, text, sizeof(text));
    return strtoull(text, NULL, 10);
}

static size_t
find_kfd(const struct top *top, uint64_t kfd_id)
{
    size_t i;

    for (i = 0; i < top->n_devices; i++) {
        const struct machine_gpu *gpu = top->devices[i].gpu;

        if (gpu && gpu->kfd_id && gpu->kfd_id == kfd_id)
            return i;
    }
    return top->n_devices;
}

/* The memory of KFD is not in fdinfo. */
static bell_status
read_kfd_memory(struct top *top, const char *folder, size_t first, int64_t pid)
{
    struct top_process *process;
    bell_status status = BELL_OK;
    struct dirent *entry;
    DIR *dir = opendir(folder);

    while (dir && status == BELL_OK && (entry = readdir(dir)) != NULL) {
        size_t device;
        double bytes;

        if (strncmp(entry->d_name, "vram_", 5) != 0)
            continue;
        device = find_kfd(top, strtoull(entry->d_name + 5, NULL, 10));
        if (device == top->n_devices)
            continue;
        bytes = (double)read_process_number(folder, entry->d_name);
        process = add_process(top, first, device, pid);
        if (!process)
            status = no_memory();
        else if (!(process->memory_bytes > bytes))
            process->memory_bytes = bytes;
    }
    if (dir)
        closedir(dir);
    return status;
}

static bell_status
read_kfd(struct top *top, int64_t pid, size_t first)
{
    char folder[PATH_MAX], path[PATH_MAX];
    bell_status status;
    struct dirent *entry;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%.2000s" KFD_PROC "/%lld", top->root,
             (long long)pid);
    status = read_kfd_memory(top, folder, first, pid);
    snprintf(path, sizeof(path), "%.2100s/queues", folder);
    dir = opendir(path);
    while (dir && status == BELL_OK && (entry = readdir(dir)) != NULL) {
        struct top_queue *queue;
        size_t device;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof(path), "%.2100s/queues/%.64s", folder,
                 entry->d_name);
        device = find_kfd(top, read_process_number(path, "gpuid"));
        if (device == top->n_devices)
            continue;
        queue = append(&top->queues, sizeof(*queue));
        if (!queue || !add_process(top, first, device, pid)) {
            status = no_memory();
            break;
        }
        queue->device = device;
        queue->pid = pid;
        queue->id = (uint32_t)strtoul(entry->d_name, NULL, 10);
        queue->type = (uint32_t)read_process_number(path, "type");
        queue->size_bytes = read_process_number(path, "size");
    }
    if (dir)
        closedir(dir);
    return status;
}

/* ---- all ----------------------------------------------------------------- */

static int
compare_pids(const void *a, const void *b)
{
    return (*(const int64_t *)a > *(const int64_t *)b) -
           (*(const int64_t *)a < *(const int64_t *)b);
}

static int
compare_queues(const void *a, const void *b)
{
    const struct top_queue *x = a, *y = b;

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Clients in order, each once: several processes may have it, and the one that
 * was read last knows most. */
static void
merge_clients(struct top_list *clients)
{
    struct top_client *list = clients->items;
    size_t i, k, n = 0;

    if (clients->n)
        qsort(list, clients->n, sizeof(*list), compare_clients);
    for (i = 0; i < clients->n; i++) {
        struct top_client *last = n ? &list[n - 1] : NULL;

        if (!last || compare_clients(last, &list[i]) != 0) {
            list[n++] = list[i];
            continue;
        }
        for (k = 0; k < last->n_engines && k < list[i].n_engines; k++)
            last->engines[k].busy_s =
                fmax(last->engines[k].busy_s, list[i].engines[k].busy_s);
    }
    clients->n = n;
}

/* What each client did since the reading before goes to its device's engines.
 * A client that was not there then began since. */
static void
count_engines(struct top *top, const struct top_list *clients)
{
    const struct top_client *now = clients->items;
    size_t i, k, m;

    for (i = 0; i < clients->n; i++) {
        const struct top_client *before =
            top->clients.n
                ? bsearch(&now[i], top->clients.items, top->clients.n,
                          sizeof(*now), compare_clients)
                : NULL;

        for (k = 0; k < now[i].n_engines; k++) {
            const char *name = now[i].engines[k].name;
            struct top_engine *engine =
                top_engine_of(&top->devices[now[i].device], name);
            double was_s = 0;

            for (m = 0; before && m < before->n_engines; m++) {
                if (strcmp(before->engines[m].name, name) == 0)
                    was_s = before->engines[m].busy_s;
            }
            if (engine && top->n_readings && now[i].engines[k].busy_s > was_s)
                engine->busy_s += now[i].engines[k].busy_s - was_s;
        }
    }
}

bell_status
top_read_processes(struct top *top)
{
    struct top_list pids = {NULL, 0, 0}, clients = {NULL, 0, 0};
    bell_status status = BELL_OK;
    char path[PATH_MAX];
    struct dirent *entry;
    size_t i;
    DIR *dir;

    top->processes.n = top->queues.n = 0;
    snprintf(path, sizeof(path), "%.2000s/proc", top->root);
    dir = opendir(path);
    while (dir && status == BELL_OK && (entry = readdir(dir)) != NULL) {
        int64_t *pid;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        pid = append(&pids, sizeof(*pid));
        if (pid)
            *pid = strtoll(entry->d_name, NULL, 10);
        else
            status = no_memory();
    }
    if (dir)
        closedir(dir);
    if (pids.n)
        qsort(pids.items, pids.n, sizeof(int64_t), compare_pids);
    for (i = 0; i < pids.n && status == BELL_OK; i++) {
        int64_t pid = ((int64_t *)pids.items)[i];
        size_t first = top->processes.n;

        status = read_process(top, pid, &clients);
        if (status == BELL_OK)
            status = read_kfd(top, pid, first);
    }
    host_free(pids.items);
    if (status != BELL_OK) {
        host_free(clients.items);
        return status;
    }
    if (top->queues.n)
        qsort(top->queues.items, top->queues.n, sizeof(struct top_queue),
              compare_queues);
    merge_clients(&clients);
    count_engines(top, &clients);
    host_free(top->clients.items);
    top->clients = clients;
    return BELL_OK;
}
