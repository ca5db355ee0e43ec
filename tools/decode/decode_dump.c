/* Dumps of submissions to simulated AMD cards. */
#include "tools/decode/decode_dump.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if BELL_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

#include "base/alloc.h"
#include "base/file.h"
#include "base/map.h"
#include "hcq/decode/decode_amd.h"

#if BELL_HAVE_CJSON

#define PATH_BYTES 4096
#define MAX_DEPTH  4u         /* of indirect buffers in indirect buffers */
#define MAX_DW     (4u << 20) /* of all rings and buffers together */

struct dump {
    struct decode_amd amd;
    const char *path;
    const cJSON *segments;
    FILE *image;
    struct map seen; /* addresses of indirect buffers: their words */
    size_t n_words;  /* decoded, of all folders */
    size_t n_left;   /* that this one may have yet */
    unsigned n_unknown;
};

static void tell(struct dump *dump, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
tell(struct dump *dump, const char *fmt, ...)
{
    char line[PATH_BYTES + 128];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    dump->amd.line(dump->amd.user, line);
}

/* A whole number that is not negative; false: there is none. */
static bool
number(const cJSON *object, const char *key, uint64_t *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
        item->valuedouble > 9007199254740992.0)
        return false;
    *out = (uint64_t)item->valuedouble;
    return true;
}

static const char *
text(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static bell_status
refuse(const struct dump *dump, const char *what)
{
    return bell_fail(BELL_E_IO, "%s/image.json: %s", dump->path, what);
}

/* Words of the card's memory, host_free; *out NULL: none of it is there. */
static bell_status
read_words(const struct dump *dump, uint64_t va, uint64_t n_dw, uint32_t **out)
{
    const cJSON *segment;
    uint64_t at, size, offset;

    *out = NULL;
    if (n_dw > MAX_DW)
        return BELL_OK;
    cJSON_ArrayForEach(segment, dump->segments)
    {
        if (!number(segment, "va", &at) || !number(segment, "size", &size) ||
            !number(segment, "offset", &offset))
            return refuse(dump, "a segment without va, size or offset");
        if (va < at || va - at > size || 4 * n_dw > size - (va - at))
            continue;
        *out = host_alloc(4 * (size_t)n_dw + 4);
        if (!*out)
            return bell_fail(BELL_E_NO_MEMORY, "out of memory");
        if (fseeko(dump->image, (off_t)(offset + (va - at)), SEEK_SET) != 0 ||
            fread(*out, 4, (size_t)n_dw, dump->image) != n_dw) {
            host_free(*out);
            *out = NULL;
            return bell_fail(BELL_E_IO, "%s/image.bin: ends before 0x%" PRIx64,
                             dump->path, offset + (va - at) + 4 * n_dw);
        }
        return BELL_OK;
    }
    return BELL_OK;
}

/* Counts words that are to be decoded: a file may say the same ones often. */
static bell_status
take_words(struct dump *dump, uint64_t n_dw)
{
    if (n_dw > dump->n_left)
        return bell_fail(BELL_E_IO, "%s: more than %u words to decode",
                         dump->path, MAX_DW);
    dump->n_left -= n_dw;
    dump->n_words += n_dw;
    return BELL_OK;
}

/* ---- PM4 ----------------------------------------------------------------- */

static bell_status decode_pm4(struct dump *dump, const uint32_t *words,
                              size_t n_dw, unsigned depth);

static bell_status
follow(struct dump *dump, uint64_t va, uint64_t n_dw, unsigned depth)
{
    const uint64_t *before = map_get(&dump->seen, va);
    uint32_t *words;
    bell_status status;

    if (before && *before == n_dw) {
        tell(dump, "indirect buffer at 0x%" PRIx64 ": as above", va);
        return BELL_OK;
    }
    if (map_put(&dump->seen, va, n_dw) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory");
    tell(dump, "indirect buffer at 0x%" PRIx64 ", %" PRIu64 " words:", va,
         n_dw);
    if (depth == MAX_DEPTH) {
        tell(dump, "? nested deeper than %u", MAX_DEPTH);
        return BELL_OK;
    }
    BELL_TRY(read_words(dump, va, n_dw, &words));
    if (!words) {
        tell(dump, "? not in the image");
        dump->n_unknown++;
        return BELL_OK;
    }
    status = decode_pm4(dump, words, (size_t)n_dw, depth + 1);
    host_free(words);
    return status;
}

/* All words, then what they point to. */
static bell_status
decode_pm4(struct dump *dump, const uint32_t *words, size_t n_dw,
           unsigned depth)
{
    uint64_t va, n_there;
    size_t at = 0;

    BELL_TRY(take_words(dump, n_dw));
    dump->n_unknown += decode_amd_pm4(&dump->amd, words, n_dw);
    while (at < n_dw) {
        if (decode_amd_pm4_target(&dump->amd, words + at, n_dw - at, &va,
                                  &n_there))
            BELL_TRY(follow(dump, va, n_there, depth));
        /* a packet's count is one less than the words behind its header; all
         * ones, or not type 3: the header alone */
        at += words[at] >> 30 == 3 && (words[at] >> 16 & 0x3fff) != 0x3fff
                  ? (words[at] >> 16 & 0x3fff) + 2u
                  : 1;
    }
    return BELL_OK;
}

/* ---- rings --------------------------------------------------------------- */

/* The indirect buffers of vendor packets. */
static bell_status
decode_aql(struct dump *dump, const uint32_t *words, size_t n_dw, uint64_t va)
{
    uint64_t there, n_there;
    size_t at;

    BELL_TRY(take_words(dump, n_dw));
    dump->n_unknown += decode_amd_aql(&dump->amd, words, n_dw, va);
    for (at = 0; n_dw - at >= 16; at += 16) {
        if (decode_amd_aql_target(&dump->amd, words + at, &there, &n_there))
            BELL_TRY(follow(dump, there, n_there, 0));
    }
    return BELL_OK;
}

/* From rptr to wptr, which never wrap; the ring does. */
static bell_status
decode_queue(struct dump *dump, const cJSON *queue)
{
    const char *kind = text(queue, "kind");
    uint64_t base, size, rptr, wptr, unit_dw, first, n, i;
    uint32_t *ring, *words;
    bell_status status;

    if (!kind || !number(queue, "base", &base) ||
        !number(queue, "size", &size) || !number(queue, "rptr", &rptr) ||
        !number(queue, "wptr", &wptr) || wptr < rptr || size % 64 || size == 0)
        return refuse(dump, "a queue without kind, base, size, rptr or wptr");
    unit_dw = strcmp(kind, "aql") == 0 ? 16 : 1;
    if (strcmp(kind, "sdma") == 0) { /* bytes */
        rptr /= 4;
        wptr /= 4;
    }
    n = (wptr - rptr) * unit_dw;
    if (n > size / 4)
        return refuse(dump, "a queue with more packets than its ring has");
    tell(dump, "%s ring at 0x%" PRIx64 ", %" PRIu64 " to %" PRIu64 ":", kind,
         base, rptr, wptr);
    BELL_TRY(read_words(dump, base, size / 4, &ring));
    words = host_alloc(4 * (size_t)n + 4);
    if (!ring || !words) {
        host_free(ring);
        host_free(words);
        return ring ? bell_fail(BELL_E_NO_MEMORY, "out of memory")
                    : refuse(dump, "its ring is not in the image");
    }
    first = rptr * unit_dw % (size / 4);
    for (i = 0; i < n; i++)
        words[i] = ring[(first + i) % (size / 4)];
    host_free(ring);
    if (unit_dw == 16) {
        status = decode_aql(dump, words, (size_t)n, base + 4 * first);
    } else if (strcmp(kind, "sdma") == 0) {
        status = take_words(dump, n);
        if (status == BELL_OK)
            dump->n_unknown += decode_amd_sdma(&dump->amd, words, (size_t)n);
    } else {
        status = decode_pm4(dump, words, (size_t)n, 0);
    }
    host_free(words);
    return status;
}

/* ---- folders ------------------------------------------------------------- */

static bell_status
decode_document(struct dump *dump, const cJSON *root)
{
    const cJSON *queues = cJSON_GetObjectItemCaseSensitive(root, "queues");
    const char *gfx = text(root, "gfx"), *fault = text(root, "fault");
    const cJSON *queue;

    dump->segments = cJSON_GetObjectItemCaseSensitive(root, "segments");
    dump->amd.chip = gfx ? decode_amd_chip_find(gfx) : NULL;
    if (!dump->amd.chip || !cJSON_IsArray(dump->segments) ||
        !cJSON_IsArray(queues))
        return refuse(dump, "no dump of a chip that is known");
    tell(dump, "%s: %s", dump->path, gfx);
    cJSON_ArrayForEach(queue, queues) BELL_TRY(decode_queue(dump, queue));
    if (fault)
        tell(dump, "it ended with a fault: %s", fault);
    return BELL_OK;
}

static bell_status
decode_dump_folder(struct dump *dump)
{
    char name[PATH_BYTES];
    struct file_bytes file;
    bell_status status;
    cJSON *root;

    snprintf(name, sizeof(name), "%s/image.json", dump->path);
    BELL_TRY(file_read(name, &file));
    root = cJSON_ParseWithLength(file.data, file.size_bytes);
    file_bytes_fini(&file);
    if (!root)
        return refuse(dump, "no JSON");
    snprintf(name, sizeof(name), "%s/image.bin", dump->path);
    dump->image = fopen(name, "re");
    if (!dump->image) {
        status = bell_fail(BELL_E_IO, "%s: %s", name, strerror(errno));
    } else {
        map_init(&dump->seen);
        dump->n_left = MAX_DW;
        status = decode_document(dump, root);
        map_fini(&dump->seen);
        fclose(dump->image);
    }
    cJSON_Delete(root);
    return status;
}

bell_status
decode_dump(const char *path, regs_line_fn *line, void *user, size_t *out_words,
            unsigned *out_unknown)
{
    struct dump dump = {.amd = {NULL, line, user}, .path = path};
    char name[PATH_BYTES], folder[PATH_BYTES];
    bell_status status = BELL_OK;
    unsigned number;

    snprintf(name, sizeof(name), "%s/image.json", path);
    if (access(name, F_OK) == 0) {
        status = decode_dump_folder(&dump);
    } else {
        dump.path = folder;
        for (number = 0; status == BELL_OK && number < 1000000; number++) {
            int n = snprintf(folder, sizeof(folder), "%s/%06u", path, number);

            if (n >= (int)sizeof(folder) - 16)
                return bell_fail(BELL_E_IO, "%s: the name is too long", path);
            snprintf(name, sizeof(name), "%.*s/image.json", PATH_BYTES - 16,
                     folder);
            if (access(name, F_OK) != 0)
                break;
            status = decode_dump_folder(&dump);
        }
        if (number == 0)
            return bell_fail(BELL_E_IO,
                             "%s: no image.json in it, nor in a folder 000000",
                             path);
    }
    *out_words = dump.n_words;
    *out_unknown = dump.n_unknown;
    return status;
}

#else

bell_status
decode_dump(const char *path, regs_line_fn *line, void *user, size_t *out_words,
            unsigned *out_unknown)
{
    (void)line;
    (void)user;
    (void)out_words;
    (void)out_unknown;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: built without cJSON (libcjson-dev), which reads "
                     "image.json",
                     path);
}

#endif
