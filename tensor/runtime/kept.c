/* Kernels on disk: what they are kept by, and how.
 *
 * A kernel's key says everything that its code follows from: this very build
 * of the compiler, the tool that makes machine code (LLVM's library, ptxas) as
 * a file, the target, and the kernel in its canonical order. No address, and
 * nothing of the process: a graph that asks for the same kernel elsewhere finds
 * it. It says nothing of the kernel's driver: code is for a chip.
 *
 * A value is the facts, the name and the file, one after the other.
 */
#include "tensor/runtime/runtime.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/growing_bytes.h"
#include "base/log.h"
#include "render/ptx/ptx.h"

/* ---- the build ---- */

/* The object file that a piece of our code lies in. */
struct kept_build {
    uintptr_t place;
    struct bytes *key;
    bool found;
};

static void
find_note(struct kept_build *build, const uint8_t *at, size_t left)
{
    ElfW(Nhdr) note;

    while (left >= sizeof(note)) {
        size_t name, desc;
        memcpy(&note, at, sizeof(note));
        name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        desc = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        if (name > left - sizeof(note) || desc > left - sizeof(note) - name)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            note.n_descsz >= 8) {
            bytes_add(build->key, at + sizeof(note) + name, note.n_descsz);
            build->found = true;
            return;
        }
        at += sizeof(note) + name + desc;
        left -= sizeof(note) + name + desc;
    }
}

static int
look_at_object(struct dl_phdr_info *info, size_t size, void *user)
{
    struct kept_build *build = user;
    bool ours = false;
    int i;

    (void)size;
    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        ours |= segment->p_type == PT_LOAD &&
                build->place - info->dlpi_addr - segment->p_vaddr <
                    segment->p_memsz;
    }
    for (i = 0; ours && i < info->dlpi_phnum && !build->found; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_NOTE)
            find_note(build,
                      (const uint8_t *)(info->dlpi_addr + segment->p_vaddr),
                      segment->p_memsz);
    }
    return ours;
}

/* The linker's number of what this code was linked into. */
static bool
append_build(struct bytes *key)
{
    struct kept_build build = {(uintptr_t)append_build, key, false};

    dl_iterate_phdr(look_at_object, &build);
    if (!build.found)
        LOG(LOG_CACHE, "this program has no build id (link it with "
                       "-Wl,--build-id): nothing is kept");
    return build.found;
}

/* ---- the tool ---- */

/* Another version of the file has another stamp. */
static bool
stamp_file(const char *path, char *buf, size_t size)
{
    struct stat st;
    int n;

    if (stat(path, &st) != 0)
        return false;
    n = snprintf(buf, size, "%s %llu %llu %lld.%09ld", path,
                 (unsigned long long)st.st_ino, (unsigned long long)st.st_size,
                 (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return n > 0 && (size_t)n < size;
}

#define STAMP_MAX 1200

/* What LLVM's library was when it was last loaded: that is asked of the cache,
 * because loading it takes longer than all else. Where the linker finds it
 * may depend on LD_LIBRARY_PATH and BELL_LLVM. */
static bool
stamp_llvm(struct tensor_runtime *rt, char *stamp)
{
    const char *paths = env_get("LD_LIBRARY_PATH");
    const char *named = env_get("BELL_LLVM");
    struct cache_entry entry = {.kind = "tool"};
    struct bytes key = {NULL, 0, 0, false};
    char path[1024], seen[STAMP_MAX];
    size_t length = 0;
    bool good = false;

    bytes_add_text(&key, "LLVM");
    bytes_add_text(&key, paths ? paths : "");
    bytes_add_text(&key, named ? named : "");
    if (key.failed || !append_build(&key)) {
        host_free(key.data);
        return false;
    }
    entry.key = key.data;
    entry.key_bytes = key.n;
    cache_find(&rt->cache, &entry, 1);
    if (entry.value && entry.value_bytes < STAMP_MAX) {
        memcpy(stamp, entry.value, entry.value_bytes);
        stamp[entry.value_bytes] = '\0';
        length = strcspn(stamp, " ");
        snprintf(path, sizeof(path), "%.*s", (int)length, stamp);
        good = stamp_file(path, seen, sizeof(seen)) && strcmp(seen, stamp) == 0;
    }
    host_free(entry.value);
    if (!good && render_llvm_file(path, sizeof(path)) == BELL_OK &&
        !strchr(path, ' ') && stamp_file(path, stamp, STAMP_MAX)) {
        entry.value = stamp;
        entry.value_bytes = strlen(stamp);
        cache_keep(&rt->cache, &entry, 1);
        good = true;
    }
    host_free(key.data);
    return good;
}

static bool
stamp_tool(struct tensor_runtime *rt, char *stamp)
{
    char path[1024];
    bool good = true;

    stamp[0] = '\0';
    if (rt->target.tool == RT_TOOL_LLVM)
        good = stamp_llvm(rt, stamp);
    else if (rt->target.tool == RT_TOOL_PTXAS)
        good = render_ptxas_find(path, sizeof(path)) == BELL_OK &&
               stamp_file(path, stamp, STAMP_MAX);
    if (!good)
        bell_error_clear(); /* compiling tells what is missing */
    return good;
}

/* ---- keys ---- */

/* The target without what differs between processes. */
static void
append_target(struct bytes *key, const struct rt_target *target)
{
    struct rt_target plain = *target;

    bytes_add_text(key, target->compiler->backend);
    bytes_add_text(key, target->lower.cpu ? target->lower.cpu : "");
    plain.compiler = NULL;
    plain.lower.cpu = NULL;
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&plain);
#endif
#endif
    bytes_add(key, &plain, sizeof(plain));
}

/* False: memory is out, or a node has what no bytes stand for. */
static bool
append_kernel(struct bytes *key, const struct uop *sink)
{
    const struct uop **list;
    uint32_t *place, j;
    size_t n, i;
    bool good;

    if (uop_canonical_order(sink, &list, &n) != BELL_OK)
        return false;
    place = host_alloc(((size_t)sink->id + 1) * sizeof(*place));
    good = place != NULL;
    for (i = 0; good && i < n; i++) {
        const struct uop *u = list[i];
        const struct {
            uint64_t arg;
            uint32_t n_src;
            uint8_t op, dtype;
            uint16_t lanes;
        } node = {u->arg.bits, u->n_src, u->op, u->dtype, u->lanes};
        unsigned kind = uop_op_infos[u->op].arg_kind;
        good = kind != UOP_ARG_DIMS && kind != UOP_ARG_DATA;
        bytes_add(key, &node, sizeof(node));
        for (j = 0; j < u->n_src; j++)
            bytes_add(key, &place[u->src[j]->id], sizeof(*place));
        place[u->id] = (uint32_t)i;
    }
    host_free(list);
    host_free(place);
    return good;
}

static void
free_entries(struct cache_entry *entries, uint32_t n)
{
    uint32_t i;

    for (i = 0; entries && i < n; i++) {
        host_free((void *)(uintptr_t)entries[i].key);
        host_free(entries[i].value);
    }
    host_free(entries);
}

/* What all keys begin with. */
static bool
make_head(struct tensor_runtime *rt, struct bytes *head)
{
    char stamp[STAMP_MAX];

    if (!stamp_tool(rt, stamp) || !append_build(head))
        return false;
    bytes_add_text(head, stamp);
    append_target(head, &rt->target);
    return !head->failed;
}

/* The keys of jobs; NULL: there is no cache. */
static struct cache_entry *
make_entries(struct tensor_runtime *rt, const struct rt_job *jobs, uint32_t n)
{
    struct cache_entry *entries = NULL;
    struct bytes head = {NULL, 0, 0, false};
    bool good;
    uint32_t i;

    if (!rt->cache.folder[0] || n == 0)
        return NULL;
    good = make_head(rt, &head);
    if (good)
        entries = host_calloc(n, sizeof(*entries));
    good = entries != NULL;
    for (i = 0; good && i < n; i++) {
        struct bytes key = {NULL, 0, 0, false};
        entries[i].kind = rt->target.lower.name;
        if (jobs[i].given) /* its number says nothing, and compilers change */
            continue;
        bytes_add(&key, head.data, head.n);
        if (jobs[i].told) {
            char text[LOWER_SCHEDULE_TEXT];
            lower_schedule_print(jobs[i].told, text);
            bytes_add_text(&key, text);
        }
        good = append_kernel(&key, jobs[i].sink) && !key.failed;
        entries[i].key = key.data;
        entries[i].key_bytes = key.n;
    }
    host_free(head.data);
    if (good)
        return entries;
    bell_error_clear();
    free_entries(entries, n);
    return NULL;
}

/* ---- schedules ---- */

/* The key of a kernel's schedule: other cards of the same kind have others. */
static bool
make_schedule_key(struct tensor_runtime *rt, const struct uop *sink,
                  struct bytes *key)
{
    bool good;

    if (!rt->cache.folder[0] || !make_head(rt, key))
        return false;
    bytes_add_text(key, "schedule");
    bytes_add_text(key, rt->info.model);
    bytes_add(key, &rt->info.n_units, sizeof(rt->info.n_units));
    bytes_add(key, &rt->info.flags, sizeof(rt->info.flags));
    good = append_kernel(key, sink) && !key->failed;
    if (!good)
        bell_error_clear();
    return good;
}

/* A value is the beam's width and the schedule as text. */
bool
rt_kept_schedule(struct tensor_runtime *rt, const struct uop *sink,
                 uint32_t beam, struct lower_schedule *out_schedule)
{
    struct bytes key = {NULL, 0, 0, false};
    struct cache_entry entry = {.kind = "schedule"};
    uint32_t was;
    bool good = false;

    if (make_schedule_key(rt, sink, &key)) {
        entry.key = key.data;
        entry.key_bytes = key.n;
        cache_find(&rt->cache, &entry, 1);
    }
    if (entry.value && entry.value_bytes > sizeof(was)) {
        const char *text = (const char *)entry.value + sizeof(was);
        memcpy(&was, entry.value, sizeof(was));
        good = was >= beam &&
               text[entry.value_bytes - sizeof(was) - 1] == '\0' &&
               lower_schedule_parse(text, out_schedule) == BELL_OK;
    }
    host_free(entry.value);
    host_free(key.data);
    return good;
}

void
rt_keep_schedule(struct tensor_runtime *rt, const struct uop *sink,
                 uint32_t beam, const struct lower_schedule *schedule)
{
    struct bytes key = {NULL, 0, 0, false}, value = {NULL, 0, 0, false};
    struct cache_entry entry = {.kind = "schedule"};
    char text[LOWER_SCHEDULE_TEXT];

    lower_schedule_print(schedule, text);
    bytes_add(&value, &beam, sizeof(beam));
    bytes_add_text(&value, text);
    if (!value.failed && make_schedule_key(rt, sink, &key)) {
        entry.key = key.data;
        entry.key_bytes = key.n;
        entry.value = value.data;
        entry.value_bytes = value.n;
        cache_keep(&rt->cache, &entry, 1);
    }
    host_free(key.data);
    host_free(value.data);
}

/* ---- values ---- */

struct head {
    struct rt_facts facts;
    uint32_t local[3], shared_bytes; /* of struct rt_binary */
    uint32_t name_bytes;             /* with its end */
};

static void
pack(const struct rt_job *job, struct bytes *out)
{
    struct head head;

    memset(&head, 0, sizeof(head));
    head.facts = job->facts;
    memcpy(head.local, job->binary.local, sizeof(head.local));
    head.shared_bytes = job->binary.shared_bytes;
    head.name_bytes = (uint32_t)strlen(job->name) + 1;
    bytes_add(out, &head, sizeof(head));
    bytes_add(out, job->name, head.name_bytes);
    bytes_add(out, job->binary.file.data, job->binary.file.size_bytes);
}

/* False: that is none, or memory is out. */
static bool
unpack(const struct cache_entry *entry, struct rt_job *job)
{
    const char *name = (const char *)entry->value + sizeof(struct head);
    struct head head;
    size_t left;

    if (entry->value_bytes <= sizeof(head))
        return false;
    memcpy(&head, entry->value, sizeof(head));
    left = entry->value_bytes - sizeof(head);
    if (head.name_bytes == 0 || head.name_bytes >= left ||
        name[head.name_bytes - 1] != '\0')
        return false;
    left -= head.name_bytes;
    job->name = host_strdup(name);
    job->binary.file.data = host_alloc(left);
    if (!job->name || !job->binary.file.data) {
        host_free(job->name);
        host_free(job->binary.file.data);
        job->name = NULL;
        job->binary.file.data = NULL;
        return false;
    }
    memcpy(job->binary.file.data, name + head.name_bytes, left);
    job->binary.file.size_bytes = left;
    job->facts = head.facts;
    memcpy(job->binary.local, head.local, sizeof(head.local));
    job->binary.shared_bytes = head.shared_bytes;
    return true;
}

/* ---- finding, keeping ---- */

void
rt_kept_find(struct tensor_runtime *rt, struct rt_job *jobs, uint32_t n,
             struct cache_entry **out_entries)
{
    struct cache_entry *entries = make_entries(rt, jobs, n);
    uint32_t i, n_found = 0;

    *out_entries = entries;
    /* who wants to see how a kernel is compiled is to see it */
    if (!entries || (log_mask & LOG_COMPILING))
        return;
    cache_find(&rt->cache, entries, n);
    for (i = 0; i < n; i++) {
        jobs[i].is_found = entries[i].value && unpack(&entries[i], &jobs[i]);
        n_found += jobs[i].is_found;
        host_free(entries[i].value);
        entries[i].value = NULL;
    }
    LOG(LOG_CACHE, "%s: %u of %u kernels found", rt->cache.file, n_found, n);
}

void
rt_kept_drop(struct tensor_runtime *rt, const struct cache_entry *entry)
{
    cache_drop(&rt->cache, entry);
}

void
rt_kept_end(struct tensor_runtime *rt, const struct rt_job *jobs,
            uint32_t n_loaded, struct cache_entry *entries, uint32_t n)
{
    uint32_t i;

    for (i = 0; entries && i < n_loaded; i++) {
        struct bytes value = {NULL, 0, 0, false};
        if (jobs[i].is_found || jobs[i].given)
            continue;
        pack(&jobs[i], &value);
        entries[i].value = value.failed ? NULL : value.data;
        entries[i].value_bytes = value.n;
        if (value.failed)
            host_free(value.data);
    }
    if (entries && n_loaded)
        cache_keep(&rt->cache, entries, n_loaded);
    free_entries(entries, n);
}
