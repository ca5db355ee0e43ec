/* `doorbell trace diff`: how two cassettes differ, in their calls and in what
 * was submitted. Clocks differ from run to run, and so do how often a process
 * waits and where it has its memory: none of it is a difference.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "ioctl/kio_capture.h"
#include "base/json.h"
#include "tools/tools.h"
#include "tools/trace/trace.h"

#define RESYNC 32 /* records looked ahead after a difference */

/* Memory of a and b that is one another's. */
struct diff_place {
    uint64_t a, b, size_bytes;
};

/* A cassette, without what differs from run to run. */
struct diff_side {
    const struct cas_reader *reader;
    uint32_t *kept; /* owned; which records */
    uint32_t n;
};

struct diff {
    struct json *json; /* an open array of lines, or NULL: stdout */
    struct diff_side a, b;
    uint32_t branch, i, k; /* where we are in what was kept of a and b */
    uint32_t n_found;
    struct trace_decoder decoder; /* of a's submissions, up to i */
    struct diff_place *places;    /* owned */
    size_t n_places, cap_places;
    bell_status status; /* the first failure */
};

static void
print_field(void *user, const char *field, uint64_t a, uint64_t b)
{
    struct diff *diff = user;

    diff->n_found++;
    tool_say(diff->json, "      %s: 0x%" PRIx64 " | 0x%" PRIx64, field, a, b);
}

/* ---- what is compared ---------------------------------------------------- */

static const struct cas_record *
record_of(const struct diff_side *side, uint32_t i)
{
    return cas_reader_get(side->reader, side->kept[i]);
}

/* Whether a mapping goes in part: how much a reservation has to lose to begin
 * at a multiple of something depends on where it is. */
static bool
is_trim(const struct map *mappings, const struct cas_record *record)
{
    const uint64_t *bytes =
        map_get(mappings, hash_add(hash_mix(record->args[0]), record->pid));

    return record->kind == CAS_MUNMAP && (!bytes || record->args[1] < *bytes);
}

/* Whether how many there are, and between which others, depends on how fast
 * things went: calls that wait, and what a recorder saw the device write. */
static bool
is_of_time(const struct cas_record *record)
{
    return cas_is_wait(record) || record->kind == CAS_UPDATE;
}

static bell_status
fill_side(struct diff_side *side, const struct cas_reader *reader)
{
    uint32_t n = cas_reader_count(reader), i;
    bell_status status = BELL_OK;
    struct map mappings;

    *side =
        (struct diff_side){reader, host_alloc(((size_t)n + 1) * sizeof(i)), 0};
    if (!side->kept)
        return bell_fail(BELL_E_NO_MEMORY,
                         "out of memory for %" PRIu32 " records", n);
    map_init(&mappings);
    for (i = 0; i < n && status == BELL_OK; i++) {
        const struct cas_record *record = cas_reader_get(reader, i);

        if (!is_trim(&mappings, record) && !is_of_time(record))
            side->kept[side->n++] = i;
        if (record->kind == CAS_MMAP && record->result > 0 &&
            map_put(&mappings,
                    hash_add(hash_mix((uint64_t)record->result), record->pid),
                    record->args[1]) < 0)
            status = bell_fail(BELL_E_NO_MEMORY, "out of memory for mappings");
    }
    map_fini(&mappings);
    return status;
}

/* ---- where memory lies --------------------------------------------------- */

static void
add_place(struct diff *diff, uint64_t a, uint64_t b, uint64_t size_bytes)
{
    if (a == b || !a || !b || diff->status != BELL_OK)
        return;
    if (host_grow((void **)&diff->places, &diff->cap_places, diff->n_places + 1,
                  sizeof(*diff->places)) < 0) {
        diff->status = bell_fail(BELL_E_NO_MEMORY,
                                 "out of memory for %zu "
                                 "mappings",
                                 diff->n_places + 1);
        return;
    }
    diff->places[diff->n_places++] = (struct diff_place){a, b, size_bytes};
}

/* Mappings, and what a device was given addresses for. */
static void
learn_places(struct diff *diff, const struct cas_record *x,
             const struct cas_record *y)
{
    struct kio_capture p, q;
    uint64_t at[2], size_bytes;

    if (x->kind == CAS_MMAP && x->result > 0 && y->result > 0)
        add_place(diff, (uint64_t)x->result, (uint64_t)y->result, x->args[1]);
    if (x->kind != CAS_IOCTL)
        return;
    trace_capture(x, diff->branch, true, &p);
    trace_capture(y, diff->branch, true, &q);
    if (!p.n_blobs || !q.n_blobs || !p.call.args || !q.call.args)
        return;
    at[0] = kio_struct_get(p.call.args, p.blobs[0].data, p.blobs[0].size_bytes,
                           "va_addr");
    at[1] = kio_struct_get(q.call.args, q.blobs[0].data, q.blobs[0].size_bytes,
                           "va_addr");
    size_bytes = kio_struct_get(p.call.args, p.blobs[0].data,
                                p.blobs[0].size_bytes, "size");
    add_place(diff, at[0], at[1], size_bytes);
}

/* The newest mappings first: what was there before may be gone. */
static bool
is_same_place(const struct diff *diff, uint64_t a, uint64_t b)
{
    size_t i;

    if (a == b)
        return true;
    for (i = diff->n_places; i > 0; i--) {
        const struct diff_place *place = &diff->places[i - 1];

        if (a - place->a < place->size_bytes && b - place->b == a - place->a)
            return true;
    }
    return false;
}

static uint64_t
join_words(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* Two numbers of 64 bits that are addresses of the same place, as they are or
 * as AMD cards take a program's: in units of 256 bytes. The other bits of the
 * words, above 48, have to be the same. */
static bool
are_addresses(const struct diff *diff, uint64_t a, uint64_t b)
{
    const uint64_t mask = ((uint64_t)1 << 48) - 1;

    return (a & ~mask) == (b & ~mask) &&
           (is_same_place(diff, a & mask, b & mask) ||
            is_same_place(diff, (a & mask) << 8, (b & mask) << 8));
}

/* Whether word i differs because it is half of an address, low half first or
 * high half first. */
static bool
is_address(const struct diff *diff, const uint32_t *x, const uint32_t *y,
           size_t i, size_t n)
{
    size_t at;

    for (at = i ? i - 1 : 0; at <= i && at + 1 < n; at++) {
        if (are_addresses(diff, join_words(x[at], x[at + 1]),
                          join_words(y[at], y[at + 1])) ||
            are_addresses(diff, join_words(x[at + 1], x[at]),
                          join_words(y[at + 1], y[at])))
            return true;
    }
    return false;
}

/* ---- submissions --------------------------------------------------------- */

struct diff_text {
    char *data; /* owned; lines, each with its end */
    size_t used, cap;
    bool is_cut; /* there was no memory for more */
};

static void
keep_line(void *user, const char *line)
{
    struct diff_text *text = user;
    size_t n = strlen(line);

    if (text->is_cut || host_grow((void **)&text->data, &text->cap,
                                  text->used + n + 2, 1) < 0) {
        text->is_cut = true;
        return;
    }
    memcpy(text->data + text->used, line, n);
    text->data[text->used + n] = '\n';
    text->used += n + 1;
    text->data[text->used] = '\0';
}

static void
drop_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

/* The record as text. */
static void
decode_record(const struct diff *diff, const struct cas_record *record,
              struct diff_text *text)
{
    struct trace_decoder decoder = diff->decoder;

    memset(text, 0, sizeof(*text));
    trace_decoder_say(&decoder, keep_line);
    decoder.nv.stream.user = text;
    decoder.amd.user = text;
    trace_decode(&decoder, record);
}

/* The first line that is not in both. */
static void
say_line(struct diff *diff, const struct diff_text *x,
         const struct diff_text *y)
{
    size_t start = 0, i;

    if (x->is_cut || y->is_cut || !x->data || !y->data)
        return;
    for (i = 0; x->data[i] && x->data[i] == y->data[i]; i++)
        start = x->data[i] == '\n' ? i + 1 : start;
    if (x->data[i] == y->data[i])
        return; /* no line tells these words */
    tool_say(diff->json, "      - %.*s", (int)strcspn(x->data + start, "\n"),
             x->data + start);
    tool_say(diff->json, "      + %.*s", (int)strcspn(y->data + start, "\n"),
             y->data + start);
}

/* Which packet the words from `first` to `end` of x's region are in: the one
 * that reads otherwise where they are y's. */
static void
say_packet(struct diff *diff, const struct cas_record *x, uint32_t region,
           const uint32_t *words, const uint32_t *others, size_t first,
           size_t end)
{
    struct cas_blob *blobs = host_alloc(x->n_blobs * sizeof(*blobs));
    uint32_t n_dw = x->blobs[region].size_bytes / 4;
    uint32_t *changed = host_alloc(4u * (size_t)n_dw);
    struct cas_record record = *x;
    struct diff_text was, now;

    if (blobs && changed) {
        memcpy(changed, words, 4u * (size_t)n_dw);
        memcpy(changed + first, others + first, 4 * (end - first));
        memcpy(blobs, x->blobs, x->n_blobs * sizeof(*blobs));
        blobs[region].data = (const uint8_t *)changed;
        record.blobs = blobs;
        decode_record(diff, x, &was);
        decode_record(diff, &record, &now);
        say_line(diff, &was, &now);
        host_free(was.data);
        host_free(now.data);
    }
    host_free(changed);
    host_free(blobs);
}

/* Words that differ, and the first of them by name. */
static void
diff_words(struct diff *diff, const struct cas_record *x, uint32_t region,
           const uint32_t *words, const uint32_t *others, size_t n)
{
    const struct cas_blob *blob = &x->blobs[region];
    size_t first = n, end = n, n_differ = 0, i;

    for (i = 0; i < n; i++) {
        if (words[i] == others[i] || is_address(diff, words, others, i, n)) {
            end = first < n && end == n ? i : end;
            continue;
        }
        first = first == n ? i : first;
        n_differ++;
    }
    if (!n_differ)
        return;
    diff->n_found++;
    tool_say(diff->json,
             "      %s@0x%" PRIx64 ": %zu of %zu words; the first is word %zu: "
             "0x%08" PRIx32 " | 0x%08" PRIx32,
             trace_region_name(blob->extra), blob->addr, n_differ, n, first,
             words[first], others[first]);
    say_packet(diff, x, region, words, others, first, end);
}

static void
diff_region(struct diff *diff, const struct cas_record *x,
            const struct cas_record *y, uint32_t region)
{
    const struct cas_blob *p = &x->blobs[region], *q = &y->blobs[region];
    uint32_t n_bytes =
        p->size_bytes < q->size_bytes ? p->size_bytes : q->size_bytes;
    uint32_t *words;

    if (p->role != q->role || p->extra != q->extra) {
        print_field(diff, "kind of region", p->extra, q->extra);
        return;
    }
    /* the device's own writes are not a part of what was submitted */
    if (p->role != CAS_REGION || p->extra == KIO_REGION_CONTROL ||
        p->extra == KIO_REGION_SIGNAL)
        return;
    if (!is_same_place(diff, p->addr, q->addr))
        print_field(diff, "address of region", p->addr, q->addr);
    if (p->size_bytes != q->size_bytes)
        print_field(diff, "bytes of region", p->size_bytes, q->size_bytes);
    words = host_calloc(2, (size_t)p->size_bytes + n_bytes + 8);
    if (!words) {
        diff->status = bell_fail(BELL_E_NO_MEMORY,
                                 "out of memory for a "
                                 "region of %" PRIu32 " bytes",
                                 p->size_bytes);
        return;
    }
    memcpy(words, p->data, p->size_bytes);
    memcpy(words + p->size_bytes / 4 + 1, q->data, n_bytes);
    diff_words(diff, x, region, words, words + p->size_bytes / 4 + 1,
               n_bytes / 4);
    host_free(words);
}

/* What rings, pushbuffers and descriptors hold. */
static void
diff_submission(struct diff *diff, const struct cas_record *x,
                const struct cas_record *y)
{
    uint32_t i;

    if (x->args[1] != y->args[1])
        print_field(diff, "value", x->args[1], y->args[1]);
    if (x->n_blobs != y->n_blobs)
        print_field(diff, "regions", x->n_blobs, y->n_blobs);
    for (i = 0; i < x->n_blobs && i < y->n_blobs; i++)
        diff_region(diff, x, y, i);
}

/* ---- calls --------------------------------------------------------------- */

/* Whether two records are the same call, whatever its arguments. */
static bool
same_call(const struct diff *diff, uint32_t i, uint32_t k)
{
    const struct cas_record *x = record_of(&diff->a, i);
    const struct cas_record *y = record_of(&diff->b, k);
    struct kio_capture p, q;

    if (x->kind != y->kind || x->dev != y->dev)
        return false;
    if (x->kind == CAS_OPEN || x->kind == CAS_READ) {
        const struct cas_blob *s = cas_find(x, CAS_PATH),
                              *t = cas_find(y, CAS_PATH);
        return s && t && s->size_bytes == t->size_bytes &&
               memcmp(s->data, t->data, s->size_bytes) == 0;
    }
    if (x->kind != CAS_IOCTL)
        return true;
    if (x->args[0] != y->args[0])
        return false;
    trace_capture(x, diff->branch, false, &p);
    trace_capture(y, diff->branch, false, &q);
    /* A control or an allocation is its command or class too. */
    return p.n_blobs < 2 || q.n_blobs < 2 || !p.blobs[1].name ||
           !q.blobs[1].name || strcmp(p.blobs[1].name, q.blobs[1].name) == 0;
}

static void
diff_arguments(struct diff *diff, const struct cas_record *x,
               const struct cas_record *y)
{
    struct kio_capture p, q;
    uint32_t i;

    trace_capture(x, diff->branch, true, &p);
    trace_capture(y, diff->branch, true, &q);
    for (i = 0; i < p.n_blobs && i < q.n_blobs; i++) {
        uint32_t n = p.blobs[i].size_bytes;
        if (n != q.blobs[i].size_bytes)
            print_field(diff, "bytes", n, q.blobs[i].size_bytes);
        else
            (void)kio_struct_diff(p.blobs[i].desc, p.blobs[i].data,
                                  q.blobs[i].data, n, KIO_DIFF_ANSWER,
                                  print_field, diff);
    }
    if (p.n_blobs != q.n_blobs)
        print_field(diff, "parts", p.n_blobs, q.n_blobs);
}

/* Addresses lie wherever each process had its memory, and arguments of launches
 * have such: of those their number is compared. */
static void
diff_told(struct diff *diff, const struct cas_record *x,
          const struct cas_record *y)
{
    const struct cas_blob *p = cas_find(x, CAS_TEXT),
                          *q = cas_find(y, CAS_TEXT);

    if (x->args[3] != y->args[3])
        print_field(diff, "what is told", x->args[3], y->args[3]);
    else if (x->args[1] != y->args[1])
        print_field(diff, "bytes", x->args[1], y->args[1]);
    else if (p && q &&
             (p->size_bytes != q->size_bytes ||
              memcmp(p->data, q->data, p->size_bytes) != 0)) {
        diff->n_found++;
        tool_say(diff->json, "      name: %.*s | %.*s", (int)p->size_bytes,
                 (const char *)p->data, (int)q->size_bytes,
                 (const char *)q->data);
    } else if (x->args[3] != KIO_TOLD_LAUNCHES && x->args[2] != y->args[2])
        print_field(diff, "hash", x->args[2], y->args[2]);
}

static void
diff_pair(struct diff *diff)
{
    const struct cas_record *x = record_of(&diff->a, diff->i);
    const struct cas_record *y = record_of(&diff->b, diff->k);
    char line[TRACE_LINE_BYTES];
    uint32_t before = diff->n_found;
    bool address = x->kind == CAS_MMAP && x->result > 0 && y->result > 0;

    if (x->result != y->result && !address && x->kind != CAS_OPEN)
        print_field(diff, "result", (uint64_t)x->result, (uint64_t)y->result);
    if (x->kind == CAS_IOCTL)
        diff_arguments(diff, x, y);
    else if (x->kind == CAS_MMAP && x->args[1] != y->args[1])
        print_field(diff, "bytes", x->args[1], y->args[1]);
    else if (x->kind == CAS_DOORBELL || x->kind == CAS_SAMPLE)
        diff_submission(diff, x, y);
    else if (x->kind == CAS_TOLD)
        diff_told(diff, x, y);
    learn_places(diff, x, y);
    if (diff->n_found == before)
        return;
    trace_format(x, diff->branch, line, sizeof(line));
    tool_say(diff->json, "  ^ %u | %u %.160s", diff->a.kept[diff->i],
             diff->b.kept[diff->k], line);
}

static void
print_only(struct diff *diff, const struct diff_side *side, uint32_t i,
           char sign)
{
    char line[TRACE_LINE_BYTES];

    trace_format(record_of(side, i), diff->branch, line, sizeof(line));
    tool_say(diff->json, "%c %u %s", sign, side->kept[i], line);
    diff->n_found++;
}

/* After a mismatch: prints what only one side has, up to the nearest pair
 * that matches again. */
static void
resync(struct diff *diff)
{
    uint32_t n_a = diff->a.n, n_b = diff->b.n;
    uint32_t sum, s;

    for (sum = 1; sum < 2 * RESYNC; sum++) {
        for (s = 0; s <= sum; s++) {
            uint32_t i = diff->i + s, k = diff->k + (sum - s);
            if (i >= n_a || k >= n_b || !same_call(diff, i, k))
                continue;
            while (diff->i < i)
                print_only(diff, &diff->a, diff->i++, '-');
            while (diff->k < k)
                print_only(diff, &diff->b, diff->k++, '+');
            return;
        }
    }
    print_only(diff, &diff->a, diff->i++, '-');
    print_only(diff, &diff->b, diff->k++, '+');
}

/* Up to what was kept as i of a. */
static void
follow_decoder(struct diff *diff, uint32_t *done, uint32_t i)
{
    for (; *done < diff->a.kept[i]; (*done)++)
        trace_decode(&diff->decoder, cas_reader_get(diff->a.reader, *done));
}

static void
diff_sides(struct diff *diff)
{
    uint32_t done = 0;

    while (diff->i < diff->a.n && diff->k < diff->b.n &&
           diff->status == BELL_OK) {
        if (!same_call(diff, diff->i, diff->k)) {
            resync(diff);
            continue;
        }
        follow_decoder(diff, &done, diff->i);
        diff_pair(diff);
        diff->i++;
        diff->k++;
    }
    while (diff->i < diff->a.n && diff->status == BELL_OK)
        print_only(diff, &diff->a, diff->i++, '-');
    while (diff->k < diff->b.n && diff->status == BELL_OK)
        print_only(diff, &diff->b, diff->k++, '+');
}

static bell_status
diff_all(const struct cas_reader *a, const struct cas_reader *b,
         struct json *json, uint32_t *out_n_found)
{
    struct diff diff = {.json = json, .branch = trace_branch(a)};

    trace_decoder_init(&diff.decoder, diff.branch, drop_line, NULL);
    diff.status = fill_side(&diff.a, a);
    if (diff.status == BELL_OK)
        diff.status = fill_side(&diff.b, b);
    if (diff.status == BELL_OK)
        diff_sides(&diff);
    host_free(diff.a.kept);
    host_free(diff.b.kept);
    host_free(diff.places);
    *out_n_found = diff.n_found;
    return diff.status;
}

int
trace_diff(int argc, char **argv)
{
    const char *paths[2] = {NULL, NULL};
    bool as_json = false, truncated;
    const struct tool_opt opts[] = {
        {"A", NULL, TOOL_OPT_STRING, &paths[0], 0, 0, "a cassette"},
        {"B", NULL, TOOL_OPT_STRING, &paths[1], 0, 0, "another"},
        {"--json", NULL, TOOL_OPT_FLAG, &as_json, 0, 0, "one document"},
    };
    struct cas_reader *a, *b;
    struct json json;
    bell_status status;
    uint32_t n = 0;
    int code;

    code = tool_parse("trace diff A B", opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (!paths[0] || !paths[1])
        return tool_usage(as_json, "trace diff: which two cassettes?");
    status = cas_reader_open(paths[0], &a);
    if (status != BELL_OK)
        return tool_fail(as_json, status);
    status = cas_reader_open(paths[1], &b);
    if (status != BELL_OK) {
        cas_reader_close(a);
        return tool_fail(as_json, status);
    }
    trace_tell_truncated(paths[0], a);
    trace_tell_truncated(paths[1], b);
    truncated = cas_reader_truncated(a) || cas_reader_truncated(b);
    json_init(&json);
    json_array(&json, "differences");
    status = diff_all(a, b, as_json ? &json : NULL, &n);
    json_end(&json);
    json_uint(&json, "n_differences", n);
    json_bool(&json, "truncated", truncated);
    cas_reader_close(a);
    cas_reader_close(b);
    if (as_json && status == BELL_OK) {
        code = tool_print_json(&json);
        return code == TOOL_OK && n ? TOOL_FAILED : code;
    }
    json_fini(&json);
    if (status != BELL_OK)
        return tool_fail(as_json, status);
    tool_printf("%u differences\n", n);
    return n ? TOOL_FAILED : TOOL_OK;
}
