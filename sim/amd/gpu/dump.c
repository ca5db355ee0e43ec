/* Folders of the dump form. Memory is read through its file where it has one,
 * so that what was never touched stays so here and in the images. */
#include "sim/amd/gpu/dump.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"

#define PAGE_BYTES  4096u
#define PIECE_BYTES 65536u
#define NUMBER_MAX  16u /* of a folder's name, with its slash */

struct amd_dump {
    char *dir, *gfx; /* owned */
    pthread_mutex_t lock;
    pthread_cond_t given;
    bool is_taken;
    uint32_t next; /* number of the next folder; the turn */
};

struct segment {
    uint64_t va, size_bytes, offset;
    const void *host;
    int file;
    bool is_vram;
};

struct amd_dump_map {
    pthread_mutex_t lock;
    struct segment *segments; /* owned; by address */
    size_t n, cap;
};

struct range {
    uint64_t va, size_bytes;
};

/* A page that was stored to, as it is now. */
struct page {
    uint64_t offset; /* in the images */
    uint8_t bytes[PAGE_BYTES];
};

struct amd_dump_folder {
    struct amd_dump *dump;
    struct amd_dump_map *map;
    bool is_open;
    char *path; /* owned; of the folder, and room for a file's name */
    size_t path_len;
    int image;                /* file; -1: not open */
    struct segment *segments; /* owned: a copy of the map's */
    size_t n_segments, cap_segments;
    struct page **pages; /* owned, with what they point to */
    size_t n_pages, cap_pages;
    struct map page_of; /* offset to index */
    struct range *ignored;
    size_t n_ignored, cap_ignored;
    uint8_t piece[PIECE_BYTES];
};

static bell_status
dump_no_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "out of memory for a dump");
}

/* ---- the directory ---- */

bell_status
amd_dump_create(const char *dir, const char *gfx, struct amd_dump **out_dump)
{
    struct amd_dump *dump;

    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return bell_fail_errno(BELL_E_INVALID, errno,
                               "dump: cannot make '%s': %s", dir,
                               strerror(errno));
    /* a file in its place is told by the access to what is below it */
    if (access(dir, R_OK | W_OK | X_OK) != 0)
        return bell_fail_errno(BELL_E_INVALID, errno,
                               "dump: cannot write to '%s': %s", dir,
                               strerror(errno));
    dump = host_calloc(1, sizeof(*dump));
    if (!dump)
        return dump_no_memory();
    dump->dir = host_strdup(dir);
    dump->gfx = host_strdup(gfx);
    if (!dump->dir || !dump->gfx ||
        pthread_mutex_init(&dump->lock, NULL) != 0) {
        host_free(dump->dir);
        host_free(dump->gfx);
        host_free(dump);
        return dump_no_memory();
    }
    if (pthread_cond_init(&dump->given, NULL) != 0) {
        pthread_mutex_destroy(&dump->lock);
        host_free(dump->dir);
        host_free(dump->gfx);
        host_free(dump);
        return dump_no_memory();
    }
    *out_dump = dump;
    return BELL_OK;
}

void
amd_dump_destroy(struct amd_dump *dump)
{
    if (!dump)
        return;
    pthread_cond_destroy(&dump->given);
    pthread_mutex_destroy(&dump->lock);
    host_free(dump->dir);
    host_free(dump->gfx);
    host_free(dump);
}

/* Nobody signals a stop: it is looked at now and then. */
bool
amd_dump_take(struct amd_dump *dump, const _Atomic uint32_t *stop)
{
    bool taken = false;

    pthread_mutex_lock(&dump->lock);
    while (!taken && !atomic_load(stop)) {
        struct timespec until;

        if (!dump->is_taken) {
            dump->is_taken = taken = true;
            break;
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 2000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        (void)pthread_cond_timedwait(&dump->given, &dump->lock, &until);
    }
    pthread_mutex_unlock(&dump->lock);
    return taken;
}

void
amd_dump_give(struct amd_dump *dump)
{
    pthread_mutex_lock(&dump->lock);
    dump->is_taken = false;
    pthread_cond_signal(&dump->given);
    pthread_mutex_unlock(&dump->lock);
}

/* ---- what is mapped ---- */

bell_status
amd_dump_map_create(struct amd_dump_map **out_map)
{
    struct amd_dump_map *map = host_calloc(1, sizeof(*map));

    if (!map || pthread_mutex_init(&map->lock, NULL) != 0) {
        host_free(map);
        return dump_no_memory();
    }
    *out_map = map;
    return BELL_OK;
}

void
amd_dump_map_destroy(struct amd_dump_map *map)
{
    if (!map)
        return;
    pthread_mutex_destroy(&map->lock);
    host_free(map->segments);
    host_free(map);
}

/* The first that ends behind va. */
static size_t
find_segment(const struct segment *segments, size_t n, uint64_t va)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (segments[mid].va + segments[mid].size_bytes <= va)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bell_status
amd_dump_map_add(struct amd_dump_map *map, uint64_t va, const void *host,
                 uint64_t size_bytes, bool is_vram, int file)
{
    bell_status status = BELL_OK;
    size_t at;

    assert(size_bytes > 0);
    pthread_mutex_lock(&map->lock);
    if (host_grow((void **)&map->segments, &map->cap, map->n + 1,
                  sizeof(*map->segments)) != 0) {
        status = dump_no_memory();
    } else {
        at = find_segment(map->segments, map->n, va);
        memmove(&map->segments[at + 1], &map->segments[at],
                (map->n - at) * sizeof(*map->segments));
        map->segments[at] = (struct segment){.va = va,
                                             .size_bytes = size_bytes,
                                             .host = host,
                                             .file = file,
                                             .is_vram = is_vram};
        map->n++;
    }
    pthread_mutex_unlock(&map->lock);
    return status;
}

void
amd_dump_map_remove(struct amd_dump_map *map, uint64_t va, uint64_t size_bytes)
{
    size_t i, kept = 0;

    pthread_mutex_lock(&map->lock);
    for (i = 0; i < map->n; i++) {
        if (map->segments[i].va - va >= size_bytes)
            map->segments[kept++] = map->segments[i];
    }
    map->n = kept;
    pthread_mutex_unlock(&map->lock);
}

/* ---- files ---- */

static const char *
file_path(struct amd_dump_folder *folder, const char *name)
{
    snprintf(folder->path + folder->path_len, NUMBER_MAX, "/%s", name);
    return folder->path;
}

static bell_status
file_failed(struct amd_dump_folder *folder, const char *name, const char *what)
{
    int error = errno;

    return bell_fail_errno(BELL_E_INVALID, error, "dump: %s '%s': %s", what,
                           file_path(folder, name), strerror(error));
}

static bell_status
create_file(struct amd_dump_folder *folder, const char *name, int *out_file)
{
    *out_file = open(file_path(folder, name),
                     O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *out_file < 0 ? file_failed(folder, name, "cannot make") : BELL_OK;
}

static bell_status
write_at(struct amd_dump_folder *folder, int file, const char *name,
         const void *data, uint64_t n_bytes, uint64_t offset)
{
    const uint8_t *from = data;

    while (n_bytes) {
        ssize_t n = pwrite(file, from, n_bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENOSPC;
        if (n <= 0)
            return file_failed(folder, name, "cannot write to");
        from += n;
        offset += (uint64_t)n;
        n_bytes -= (uint64_t)n;
    }
    return BELL_OK;
}

/* Reads up to n_bytes of `file` to folder->piece; 0: there is no more. */
static bell_status
read_piece(struct amd_dump_folder *folder, int file, uint64_t n_bytes,
           uint64_t offset, uint64_t *out_n)
{
    ssize_t n;

    do
        n = pread(file, folder->piece,
                  n_bytes < PIECE_BYTES ? n_bytes : PIECE_BYTES, (off_t)offset);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return file_failed(folder, "image.bin", "cannot read for");
    *out_n = (uint64_t)n;
    return BELL_OK;
}

/* The part of [at, end) of a file from *at on that is not a hole. */
static bool
next_data(int file, uint64_t *at, uint64_t end, uint64_t *out_end)
{
    off_t first = lseek(file, (off_t)*at, SEEK_DATA), last;

    *out_end = end;
    if (first < 0) /* a file system without holes: all of it is data */
        return errno != ENXIO && *at < end;
    if ((uint64_t)first >= end)
        return false;
    *at = (uint64_t)first;
    last = lseek(file, first, SEEK_HOLE);
    if (last > first && (uint64_t)last < end)
        *out_end = (uint64_t)last;
    return true;
}

/* Copies size_bytes of a file from its start; holes are left out. */
static bell_status
copy_file(struct amd_dump_folder *folder, int from, uint64_t size_bytes, int to,
          const char *name, uint64_t offset)
{
    uint64_t at = 0, end, n;

    while (at < size_bytes && next_data(from, &at, size_bytes, &end)) {
        while (at < end) {
            BELL_TRY(read_piece(folder, from, end - at, at, &n));
            if (n == 0)
                return BELL_OK;
            BELL_TRY(write_at(folder, to, name, folder->piece, n, offset + at));
            at += n;
        }
    }
    return BELL_OK;
}

/* ---- begin ---- */

bell_status
amd_dump_folder_create(struct amd_dump *dump, struct amd_dump_map *map,
                       struct amd_dump_folder **out_folder)
{
    struct amd_dump_folder *folder = host_calloc(1, sizeof(*folder));

    if (!folder)
        return dump_no_memory();
    folder->path = host_alloc(strlen(dump->dir) + 2 * NUMBER_MAX);
    if (!folder->path) {
        host_free(folder);
        return dump_no_memory();
    }
    folder->dump = dump;
    folder->map = map;
    folder->image = -1;
    map_init(&folder->page_of);
    *out_folder = folder;
    return BELL_OK;
}

static void
close_folder(struct amd_dump_folder *folder)
{
    while (folder->n_pages)
        host_free(folder->pages[--folder->n_pages]);
    map_clear(&folder->page_of);
    folder->n_ignored = 0;
    folder->n_segments = 0;
    if (folder->image >= 0)
        close(folder->image);
    folder->image = -1;
    folder->is_open = false;
}

void
amd_dump_folder_destroy(struct amd_dump_folder *folder)
{
    if (!folder)
        return;
    close_folder(folder);
    map_fini(&folder->page_of);
    host_free(folder->pages);
    host_free(folder->ignored);
    host_free(folder->segments);
    host_free(folder->path);
    host_free(folder);
}

bool
amd_dump_folder_is_open(const struct amd_dump_folder *folder)
{
    return folder->is_open;
}

/* The next number that nothing has. */
static bell_status
make_folder(struct amd_dump_folder *folder)
{
    struct amd_dump *dump = folder->dump;
    int made;

    do {
        folder->path_len = (size_t)sprintf(folder->path, "%s/%06" PRIu32,
                                           dump->dir, dump->next);
        made = mkdir(folder->path, 0777);
        if (made != 0 && errno != EEXIST)
            return bell_fail_errno(BELL_E_INVALID, errno,
                                   "dump: cannot make '%s': %s", folder->path,
                                   strerror(errno));
        dump->next++;
    } while (made != 0);
    return BELL_OK;
}

static bell_status
copy_segments(struct amd_dump_folder *folder)
{
    const struct amd_dump_map *map = folder->map;
    uint64_t offset = 0;
    size_t i;

    if (host_grow((void **)&folder->segments, &folder->cap_segments, map->n + 1,
                  sizeof(*folder->segments)) != 0)
        return dump_no_memory();
    for (i = 0; i < map->n; i++) {
        folder->segments[i] = map->segments[i];
        folder->segments[i].offset = offset;
        offset += map->segments[i].size_bytes;
    }
    folder->n_segments = map->n;
    if (ftruncate(folder->image, (off_t)offset) != 0)
        return file_failed(folder, "image.bin", "cannot size");
    for (i = 0; i < folder->n_segments; i++) {
        const struct segment *s = &folder->segments[i];
        if (s->file >= 0)
            BELL_TRY(copy_file(folder, s->file, s->size_bytes, folder->image,
                               "image.bin", s->offset));
        else
            BELL_TRY(write_at(folder, folder->image, "image.bin", s->host,
                              s->size_bytes, s->offset));
    }
    return BELL_OK;
}

bell_status
amd_dump_folder_begin(struct amd_dump_folder *folder)
{
    bell_status status;

    BELL_TRY(make_folder(folder));
    BELL_TRY(create_file(folder, "image.bin", &folder->image));
    pthread_mutex_lock(&folder->map->lock); /* memory stays */
    status = copy_segments(folder);
    pthread_mutex_unlock(&folder->map->lock);
    if (status != BELL_OK) {
        close_folder(folder);
        return status;
    }
    folder->is_open = true;
    return BELL_OK;
}

/* ---- stores ---- */

/* The page of the images at that offset, as it was at first. */
static bell_status
page_at(struct amd_dump_folder *folder, uint64_t offset, struct page **out_page)
{
    const uint64_t *known = map_get(&folder->page_of, offset);
    struct page *page;
    uint64_t n = 0;

    if (known) {
        *out_page = folder->pages[*known];
        return BELL_OK;
    }
    BELL_TRY(read_piece(folder, folder->image, PAGE_BYTES, offset, &n));
    page = host_alloc(sizeof(*page));
    if (!page ||
        host_grow((void **)&folder->pages, &folder->cap_pages,
                  folder->n_pages + 1, sizeof(struct page *)) != 0 ||
        map_put(&folder->page_of, offset, folder->n_pages) != 0) {
        host_free(page);
        return dump_no_memory();
    }
    page->offset = offset;
    memcpy(page->bytes, folder->piece, n);
    memset(page->bytes + n, 0, PAGE_BYTES - n);
    folder->pages[folder->n_pages++] = page;
    *out_page = page;
    return BELL_OK;
}

bell_status
amd_dump_folder_store(struct amd_dump_folder *folder, uint64_t va,
                      const void *data, uint64_t n_bytes)
{
    const uint8_t *from = data;

    while (n_bytes) {
        size_t i = find_segment(folder->segments, folder->n_segments, va);
        uint64_t in_page = va % PAGE_BYTES, n = PAGE_BYTES - in_page;
        struct page *page;

        n = n < n_bytes ? n : n_bytes;
        if (i < folder->n_segments && va >= folder->segments[i].va) {
            const struct segment *s = &folder->segments[i];
            BELL_TRY(
                page_at(folder, s->offset + (va - s->va) - in_page, &page));
            memcpy(page->bytes + in_page, from, n);
        }
        from += n;
        va += n;
        n_bytes -= n;
    }
    return BELL_OK;
}

bell_status
amd_dump_folder_ignore(struct amd_dump_folder *folder, uint64_t va,
                       uint64_t n_bytes)
{
    if (host_grow((void **)&folder->ignored, &folder->cap_ignored,
                  folder->n_ignored + 1, sizeof(*folder->ignored)) != 0)
        return dump_no_memory();
    folder->ignored[folder->n_ignored++] = (struct range){va, n_bytes};
    return BELL_OK;
}

/* ---- end ---- */

static bell_status
fill_after(struct amd_dump_folder *folder, int file)
{
    const struct segment *last =
        folder->n_segments ? &folder->segments[folder->n_segments - 1] : NULL;
    uint64_t size = last ? last->offset + last->size_bytes : 0;
    size_t i;

    if (ftruncate(file, (off_t)size) != 0)
        return file_failed(folder, "after.bin", "cannot size");
    BELL_TRY(copy_file(folder, folder->image, size, file, "after.bin", 0));
    for (i = 0; i < folder->n_pages; i++)
        BELL_TRY(write_at(folder, file, "after.bin", folder->pages[i]->bytes,
                          PAGE_BYTES, folder->pages[i]->offset));
    return BELL_OK;
}

/* Also a close may be the first to tell of a full disk. */
static bell_status
close_file(struct amd_dump_folder *folder, int file, const char *name,
           bell_status status)
{
    if (close(file) != 0 && status == BELL_OK)
        return file_failed(folder, name, "cannot write to");
    return status;
}

static bell_status
write_after(struct amd_dump_folder *folder)
{
    int file;

    BELL_TRY(create_file(folder, "after.bin", &file));
    return close_file(folder, file, "after.bin", fill_after(folder, file));
}

static void
put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void
put_json(const struct amd_dump_folder *folder, const struct amd_dump_run *run,
         FILE *out)
{
    size_t i;

    fprintf(out, "{\n  \"gfx\": \"%s\",\n  \"segments\": [", folder->dump->gfx);
    for (i = 0; i < folder->n_segments; i++) {
        const struct segment *s = &folder->segments[i];
        fprintf(out,
                "%s\n    {\"va\": %" PRIu64 ", \"size\": %" PRIu64
                ", \"offset\": %" PRIu64 ", \"kind\": \"%s\"}",
                i ? "," : "", s->va, s->size_bytes, s->offset,
                s->is_vram ? "vram" : "gtt");
    }
    fprintf(out,
            "\n  ],\n  \"queues\": [\n    {\"kind\": \"%s\", \"base\": %" PRIu64
            ", \"size\": %" PRIu64 ", \"rptr\": %" PRIu64 ", \"wptr\": %" PRIu64
            "}\n  ],\n  \"ignore\": [",
            run->kind, run->base, run->size_bytes, run->rptr, run->wptr);
    for (i = 0; i < folder->n_ignored; i++)
        fprintf(out, "%s\n    {\"va\": %" PRIu64 ", \"size\": %" PRIu64 "}",
                i ? "," : "", folder->ignored[i].va,
                folder->ignored[i].size_bytes);
    fprintf(out, "%s]", folder->n_ignored ? "\n  " : "");
    if (run->waited)
        fprintf(out, ",\n  \"waited\": true");
    if (run->fault) {
        fprintf(out, ",\n  \"fault\": ");
        put_string(out, run->fault);
    }
    fprintf(out, "\n}\n");
}

static bell_status
write_json(struct amd_dump_folder *folder, const struct amd_dump_run *run)
{
    FILE *out = fopen(file_path(folder, "image.json"), "we");
    bool failed;

    if (!out)
        return file_failed(folder, "image.json", "cannot make");
    put_json(folder, run, out);
    failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        return file_failed(folder, "image.json", "cannot write to");
    return BELL_OK;
}

bell_status
amd_dump_folder_end(struct amd_dump_folder *folder,
                    const struct amd_dump_run *run)
{
    bell_status status = write_after(folder);

    if (status == BELL_OK)
        status = write_json(folder, run);
    close_folder(folder);
    return status;
}
