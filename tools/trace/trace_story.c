/* `doorbell trace show`: objects and mappings of a cassette. One pass over the
 * records; what is let go is found by its number and process. */
#include "tools/trace/trace_story.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "ioctl/cassette.h"
#include "ioctl/kio_capture.h"
#include "base/json.h"
#include "tools/tools.h"
#include "tools/trace/trace.h"

/* A call that makes an object, or lets one go: the fields that say which. NV's
 * numbers are one space for all of a client's objects; elsewhere each kind has
 * its own. */
struct life {
    const char *call, *id;
    const char *kind; /* of numbers */
    const char *parent, *bytes, *addr;
    bool is_end;
};

static const struct life lives[] = {
    {.call = "NV_ESC_RM_ALLOC",
     .kind = "nv",
     .id = "hObjectNew",
     .parent = "hObjectParent"},
    {.call = "NV_ESC_RM_ALLOC_MEMORY",
     .kind = "nv",
     .id = "params.hObjectNew",
     .parent = "params.hObjectParent"},
    {.call = "NV_ESC_RM_FREE",
     .kind = "nv",
     .id = "hObjectOld",
     .is_end = true},
    {.call = "AMDKFD_IOC_CREATE_QUEUE",
     .kind = "queue",
     .id = "queue_id",
     .bytes = "ring_size",
     .addr = "ring_base_address"},
    {.call = "AMDKFD_IOC_DESTROY_QUEUE",
     .kind = "queue",
     .id = "queue_id",
     .is_end = true},
    {.call = "AMDKFD_IOC_CREATE_EVENT", .kind = "event", .id = "event_id"},
    {.call = "AMDKFD_IOC_DESTROY_EVENT",
     .kind = "event",
     .id = "event_id",
     .is_end = true},
    {.call = "AMDKFD_IOC_ALLOC_MEMORY_OF_GPU",
     .kind = "memory",
     .id = "handle",
     .bytes = "size",
     .addr = "va_addr"},
    {.call = "AMDKFD_IOC_FREE_MEMORY_OF_GPU",
     .kind = "memory",
     .id = "handle",
     .is_end = true},
    {.call = "IOCTL_KGSL_GPUOBJ_ALLOC",
     .kind = "object",
     .id = "id",
     .bytes = "size"},
    {.call = "IOCTL_KGSL_GPUOBJ_FREE",
     .kind = "object",
     .id = "id",
     .is_end = true},
    {.call = "IOCTL_KGSL_DRAWCTXT_CREATE",
     .kind = "context",
     .id = "drawctxt_id"},
    {.call = "IOCTL_KGSL_DRAWCTXT_DESTROY",
     .kind = "context",
     .id = "drawctxt_id",
     .is_end = true},
    {.call = "DRM_IOCTL_MSM_GEM_NEW",
     .kind = "gem",
     .id = "handle",
     .bytes = "size"},
    {.call = "DRM_IOCTL_MSM_SUBMITQUEUE_NEW", .kind = "msm queue", .id = "id"},
};

/* While records are read. */
struct reading {
    struct trace_story *story;
    uint32_t branch;
    struct map objects;  /* number, kind, process: 1 + index */
    struct map mappings; /* address, process: 1 + index */
    struct map files;    /* file number, process: 1 + record of its opening */
    const struct cas_reader *reader;
};

static bell_status
story_no_memory(void)
{
    return bell_fail(BELL_E_NO_MEMORY, "out of memory for a cassette's story");
}

static uint64_t
find_key(const char *kind, uint64_t id, uint32_t pid)
{
    return hash_add(hash_add(hash_bytes(kind, strlen(kind), 0), id), pid);
}

static bell_status
keep_key(struct map *map, uint64_t key, uint64_t value)
{
    return map_put(map, key, value) < 0 ? story_no_memory() : BELL_OK;
}

/* 1 + what was kept of it; 0: nothing. */
static uint64_t
get_key(const struct map *map, uint64_t key)
{
    const uint64_t *value = map_get(map, key);

    return value ? *value : 0;
}

/* ---- objects ---- */

static uint64_t
get_field(const struct kio_capture *capture, const char *name)
{
    const struct kio_blob *blob = &capture->blobs[0];

    return name ? kio_struct_get(capture->call.args, blob->data,
                                 blob->size_bytes, name)
                : 0;
}

/* A vendor's status that says no. */
static bool
was_refused(const struct kio_capture *capture)
{
    const struct kio_struct *args = capture->call.args;
    uint32_t i;

    for (i = 0; i < args->n_fields; i++) {
        if (args->fields[i].kind == KIO_FIELD_STATUS &&
            get_field(capture, args->fields[i].name))
            return true;
    }
    return false;
}

/* The class's name where the call takes one, else the call's own. */
static const char *
find_what(const struct reading *reading, const struct cas_record *record,
          const struct kio_capture *capture)
{
    const struct kio_struct *args = capture->call.args;
    const char *name = NULL;
    uint32_t i;

    for (i = 0; i < args->n_fields && !name; i++) {
        if (args->fields[i].ptr)
            (void)kio_pointee_struct((enum kio_dev)record->dev, reading->branch,
                                     args, &args->fields[i],
                                     capture->blobs[0].data,
                                     capture->blobs[0].size_bytes, &name);
    }
    return name ? name : capture->call.name;
}

static bell_status
make_object(struct reading *reading, const struct life *life,
            const struct cas_record *record, const struct kio_capture *capture,
            uint32_t i)
{
    struct trace_story *story = reading->story;
    uint64_t parent = get_field(capture, life->parent);
    struct trace_object object = {
        .what = find_what(reading, record, capture),
        .id = get_field(capture, life->id),
        .parent = parent,
        .bytes = get_field(capture, life->bytes),
        .addr = get_field(capture, life->addr),
        .made = i,
        .gone = TRACE_NEVER,
    };

    if (parent)
        object.parent_at = (size_t)get_key(
            &reading->objects, find_key(life->kind, parent, record->pid));
    if (host_grow((void **)&story->objects, &story->cap_objects,
                  story->n_objects + 1, sizeof(*story->objects)) < 0)
        return story_no_memory();
    story->objects[story->n_objects++] = object;
    return keep_key(&reading->objects,
                    find_key(life->kind, object.id, record->pid),
                    story->n_objects);
}

static bell_status
read_call(struct reading *reading, const struct cas_record *record, uint32_t i)
{
    struct kio_capture capture;
    size_t k;

    trace_capture(record, reading->branch, true, &capture);
    if (!capture.n_blobs || !capture.call.args || record->result < 0 ||
        was_refused(&capture))
        return BELL_OK;
    for (k = 0; k < ARRAY_LEN(lives); k++) {
        const struct life *life = &lives[k];
        uint64_t at;

        if (strcmp(life->call, capture.call.name) != 0)
            continue;
        if (!life->is_end)
            return make_object(reading, life, record, &capture, i);
        at = get_key(
            &reading->objects,
            find_key(life->kind, get_field(&capture, life->id), record->pid));
        if (at && reading->story->objects[at - 1].gone == TRACE_NEVER)
            reading->story->objects[at - 1].gone = i;
    }
    return BELL_OK;
}

/* What had a parent went with it. Parents come first. */
static void
end_children(struct trace_story *story)
{
    size_t i;

    for (i = 0; i < story->n_objects; i++) {
        struct trace_object *object = &story->objects[i];

        if (object->parent_at &&
            story->objects[object->parent_at - 1].gone < object->gone)
            object->gone = story->objects[object->parent_at - 1].gone;
    }
}

/* ---- mappings ---- */

static bell_status
make_mapping(struct reading *reading, const struct cas_record *record,
             uint32_t i)
{
    struct trace_story *story = reading->story;
    struct trace_mapping mapping = {.addr = (uint64_t)record->result,
                                    .bytes = record->args[1],
                                    .made = i,
                                    .gone = TRACE_NEVER};
    uint64_t opened = get_key(&reading->files,
                              find_key("", (uint32_t)record->fd, record->pid));

    if (opened) {
        const struct cas_blob *path = cas_find(
            cas_reader_get(reading->reader, (uint32_t)opened - 1), CAS_PATH);

        mapping.path = (const char *)path->data;
        mapping.path_bytes = path->size_bytes;
    }
    if (host_grow((void **)&story->mappings, &story->cap_mappings,
                  story->n_mappings + 1, sizeof(*story->mappings)) < 0)
        return story_no_memory();
    story->mappings[story->n_mappings++] = mapping;
    return keep_key(&reading->mappings, find_key("", mapping.addr, record->pid),
                    story->n_mappings);
}

static void
end_mapping(struct reading *reading, const struct cas_record *record,
            uint32_t i)
{
    uint64_t at =
        get_key(&reading->mappings, find_key("", record->args[0], record->pid));

    if (at && record->args[1] >= reading->story->mappings[at - 1].bytes &&
        reading->story->mappings[at - 1].gone == TRACE_NEVER)
        reading->story->mappings[at - 1].gone = i;
}

/* ---- all ---- */

static bell_status
read_record(struct reading *reading, uint32_t i)
{
    const struct cas_record *record = cas_reader_get(reading->reader, i);
    uint64_t file = find_key("", (uint32_t)record->fd, record->pid);

    if (record->kind == CAS_IOCTL)
        return read_call(reading, record, i);
    if (record->kind == CAS_OPEN && record->result >= 0 &&
        cas_find(record, CAS_PATH))
        return keep_key(&reading->files,
                        find_key("", (uint32_t)record->result, record->pid),
                        (uint64_t)i + 1);
    if (record->kind == CAS_CLOSE && get_key(&reading->files, file))
        return keep_key(&reading->files, file, 0);
    if (record->kind == CAS_MMAP && record->result > 0)
        return make_mapping(reading, record, i);
    if (record->kind == CAS_MUNMAP && record->result == 0)
        end_mapping(reading, record, i);
    return BELL_OK;
}

bell_status
trace_story_read(const struct cas_reader *reader, uint32_t branch,
                 struct trace_story *out_story)
{
    struct reading reading = {
        .story = out_story, .branch = branch, .reader = reader};
    bell_status status = BELL_OK;
    uint32_t i;

    memset(out_story, 0, sizeof(*out_story));
    map_init(&reading.objects);
    map_init(&reading.mappings);
    map_init(&reading.files);
    for (i = 0; i < cas_reader_count(reader) && status == BELL_OK; i++)
        status = read_record(&reading, i);
    end_children(out_story);
    map_fini(&reading.objects);
    map_fini(&reading.mappings);
    map_fini(&reading.files);
    if (status != BELL_OK)
        trace_story_free(out_story);
    return status;
}

void
trace_story_free(struct trace_story *story)
{
    host_free(story->objects);
    host_free(story->mappings);
    memset(story, 0, sizeof(*story));
}

/* ---- telling ---- */

static void
print_life(uint32_t made, uint32_t gone)
{
    tool_printf(", made by %" PRIu32, made);
    if (gone != TRACE_NEVER)
        tool_printf(", gone with %" PRIu32, gone);
    tool_printf("\n");
}

void
trace_story_print(const struct trace_story *story)
{
    size_t i;

    tool_printf("objects: %zu\n", story->n_objects);
    for (i = 0; i < story->n_objects; i++) {
        const struct trace_object *object = &story->objects[i];

        tool_printf("  0x%" PRIx64 " %s", object->id, object->what);
        if (object->parent)
            tool_printf(" of 0x%" PRIx64, object->parent);
        if (object->bytes)
            tool_printf(", %" PRIu64 " bytes", object->bytes);
        if (object->addr)
            tool_printf(" at 0x%" PRIx64, object->addr);
        print_life(object->made, object->gone);
    }
    tool_printf("mappings: %zu\n", story->n_mappings);
    for (i = 0; i < story->n_mappings; i++) {
        const struct trace_mapping *mapping = &story->mappings[i];

        tool_printf("  0x%" PRIx64 ", %" PRIu64 " bytes", mapping->addr,
                    mapping->bytes);
        if (mapping->path)
            tool_printf(" of %.*s", (int)mapping->path_bytes, mapping->path);
        print_life(mapping->made, mapping->gone);
    }
}

static void
put_life(struct json *json, uint32_t made, uint32_t gone)
{
    json_uint(json, "made", made);
    if (gone == TRACE_NEVER)
        json_null(json, "gone");
    else
        json_uint(json, "gone", gone);
    json_end(json);
}

static void
put_known(struct json *json, const char *key, uint64_t value)
{
    if (value)
        json_uint(json, key, value);
    else
        json_null(json, key);
}

void
trace_story_put(const struct trace_story *story, struct json *json)
{
    size_t i;

    json_array(json, "objects");
    for (i = 0; i < story->n_objects; i++) {
        const struct trace_object *object = &story->objects[i];

        json_object(json, NULL);
        json_str(json, "what", object->what);
        json_uint(json, "id", object->id);
        put_known(json, "parent", object->parent);
        put_known(json, "bytes", object->bytes);
        put_known(json, "address", object->addr);
        put_life(json, object->made, object->gone);
    }
    json_end(json);
    json_array(json, "mappings");
    for (i = 0; i < story->n_mappings; i++) {
        const struct trace_mapping *mapping = &story->mappings[i];
        char path[512];

        json_object(json, NULL);
        json_uint(json, "address", mapping->addr);
        json_uint(json, "bytes", mapping->bytes);
        snprintf(path, sizeof(path), "%.*s", (int)mapping->path_bytes,
                 mapping->path ? mapping->path : "");
        if (mapping->path)
            json_str(json, "path", path);
        else
            json_null(json, "path");
        put_life(json, mapping->made, mapping->gone);
    }
    json_end(json);
}

void
trace_tell_truncated(const char *path, const struct cas_reader *reader)
{
    if (cas_reader_truncated(reader))
        tool_eprintf("doorbell: %s is truncated: %u records were whole, what "
                     "came behind them is missing\n",
                     path, cas_reader_count(reader));
}
