/* Bound streams and their patch points. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "hcq/hcq_packet.h"

bell_status
hcq_stream_create(struct hcq_queue *queue, const char *name,
                  struct hcq_stream **out_stream)
{
    struct hcq_stream *stream;

    if (!queue || !out_stream)
        return bell_fail(BELL_BAD_MISSING, "stream create: %s is NULL",
                         queue ? "the result" : "the queue");
    BELL_TRY(hcq_check_process(queue->dev));
    stream = host_calloc(1, sizeof(*stream));
    if (!stream)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a stream",
                         queue->name);
    stream->queue = queue;
    snprintf(stream->name, sizeof(stream->name), "%s", name ? name : "");
    stream->cs.queue = queue;
    stream->cs.stream = stream;
    stream->cs.open = true;
    hcq_link_add(&queue->streams, &stream->link);
    *out_stream = stream;
    return BELL_OK;
}

void
hcq_stream_destroy(struct hcq_stream *stream)
{
    if (!stream || hcq_is_inherited(stream->queue->dev))
        return;
    if (stream->state == HCQ_STREAM_READY) {
        pthread_mutex_lock(&stream->queue->dev->lock);
        hcq_link_remove(&stream->bound);
        pthread_mutex_unlock(&stream->queue->dev->lock);
        stream->queue->dev->ops->stream_unbind(stream);
    }
    hcq_link_remove(&stream->link);
    map_fini(&stream->patch_of);
    host_free(stream->patches);
    host_free(stream->names);
    host_free(stream->places);
    host_free(stream->cs.words);
    host_free(stream);
}

struct hcq_cs *
hcq_stream_cs(struct hcq_stream *stream)
{
    return &stream->cs;
}

uint32_t
hcq_stream_find_patch(const struct hcq_stream *stream, const char *name)
{
    const uint64_t *first =
        map_get(&stream->patch_of, hash_bytes(name, strlen(name), 0));
    uint32_t i;

    /* others behind it have the same hash, or are of other names */
    for (i = first ? (uint32_t)*first : UINT32_MAX; i < stream->n_patches;
         i++) {
        if (strcmp(stream->names[i].text, name) == 0)
            return i;
    }
    return HCQ_PATCH_NONE;
}

uint32_t
hcq_stream_patch_point(struct hcq_stream *stream, const char *name)
{
    void *patches = stream->patches, *names = stream->names;
    size_t n = stream->n_patches + 1;
    uint64_t hash;
    int failed;

    if (stream->cs.status != BELL_OK)
        return HCQ_PATCH_NONE;
    if (stream->state != HCQ_STREAM_BUILDING || !name || !name[0] ||
        strlen(name) >= sizeof(stream->names->text) ||
        hcq_stream_find_patch(stream, name) != HCQ_PATCH_NONE) {
        hcq_cs_fail(&stream->cs,
                    bell_fail(BELL_BAD_NAME,
                              "stream '%s': patch point '%.70s': the name is "
                              "empty, too long or taken, or the stream is "
                              "built",
                              stream->name, name ? name : ""));
        return HCQ_PATCH_NONE;
    }
    hash = hash_bytes(name, strlen(name), 0);
    failed =
        host_grow(&patches, &stream->cap_patches, n, sizeof(*stream->patches));
    stream->patches = patches;
    if (!failed)
        failed =
            host_grow(&names, &stream->cap_names, n, sizeof(*stream->names));
    stream->names = names;
    if (!failed && !map_get(&stream->patch_of, hash))
        failed = map_put(&stream->patch_of, hash, stream->n_patches);
    if (failed) {
        hcq_cs_fail(&stream->cs,
                    bell_fail(BELL_E_NO_MEMORY,
                              "stream '%s': out of memory for patch point",
                              stream->name));
        return HCQ_PATCH_NONE;
    }
    stream->patches[stream->n_patches] = (struct hcq_patch){0, 0};
    memcpy(stream->names[stream->n_patches].text, name, strlen(name) + 1);
    return (uint32_t)stream->n_patches++;
}

void
hcq_cs_patch(struct hcq_cs *cs, unsigned field, uint32_t patch, int64_t addend)
{
    struct hcq_stream *stream = cs->stream;
    struct hcq_place place = {
        .patch = patch,
        .addend = addend,
        .max = UINT64_MAX,
        .align = 1,
    };
    void *places;

    if (cs->status != BELL_OK)
        return;
    if (!stream || !cs->open || patch >= stream->n_patches) {
        hcq_cs_fail(cs,
                    bell_fail(BELL_BAD_STATE, "%s: patch %u: %s",
                              stream ? stream->name : cs->queue->name, patch,
                              !stream     ? "not a bound stream"
                              : !cs->open ? "the stream is built"
                                          : "no such patch point"));
        return;
    }
    if (!cs->has_last || !hcq_packet_locate(cs, field, &place)) {
        hcq_cs_fail(cs,
                    bell_fail(BELL_BAD_VALUE,
                              "stream '%s': patch '%s': the last command "
                              "has no field %u",
                              stream->name, stream->names[patch].text, field));
        return;
    }
    assert(place.dw + place.n_dw <= cs->n_dw && is_pow2(place.align));
    places = stream->places;
    if (host_grow(&places, &stream->cap_places, stream->n_places + 1,
                  sizeof(place)) != 0) {
        hcq_cs_fail(cs, bell_fail(BELL_E_NO_MEMORY,
                                  "stream '%s': out of memory for patch '%s'",
                                  stream->name, stream->names[patch].text));
        return;
    }
    stream->places = places;
    stream->places[stream->n_places++] = place;
}

static int
compare_places(const void *a, const void *b)
{
    const struct hcq_place *x = a, *y = b;

    if (x->patch != y->patch)
        return x->patch < y->patch ? -1 : 1;
    return x->dw < y->dw ? -1 : x->dw > y->dw;
}

bell_status
hcq_stream_end(struct hcq_stream *stream)
{
    size_t i;

    if (!stream || stream->state != HCQ_STREAM_BUILDING)
        return bell_fail(BELL_BAD_STATE, "stream '%s' is not being built",
                         stream ? stream->name : "(null)");
    BELL_TRY(hcq_check_process(stream->queue->dev));
    stream->state = HCQ_STREAM_BROKEN;
    stream->cs.open = false;
    BELL_TRY(hcq_cs_end(&stream->cs));
    if (stream->n_places)
        qsort(stream->places, stream->n_places, sizeof(*stream->places),
              compare_places);
    for (i = 0; i < stream->n_places; i++) {
        struct hcq_patch *patch = &stream->patches[stream->places[i].patch];

        if (patch->n_places++ == 0)
            patch->first = (uint32_t)i;
    }
    BELL_TRY(stream->queue->dev->ops->stream_bind(stream));
    pthread_mutex_lock(&stream->queue->dev->lock);
    hcq_link_add(&stream->queue->bound, &stream->bound);
    pthread_mutex_unlock(&stream->queue->dev->lock);
    stream->state = HCQ_STREAM_READY;
    return BELL_OK;
}

bool
hcq_stream_busy(const struct hcq_stream *stream)
{
    return hcq_signal_value(stream->queue->timeline) < stream->last_value;
}

bell_status
hcq_stream_wait(struct hcq_stream *stream, uint64_t timeout_ns)
{
    BELL_TRY(hcq_signal_wait(stream->queue->timeline, stream->last_value,
                             timeout_ns));
    return BELL_OK;
}

/* Whether the place can hold the value; *out is what goes there. */
static bool
place_value(const struct hcq_place *place, uint64_t value, uint64_t *out)
{
    uint64_t sum = value + (uint64_t)place->addend;

    assert(is_pow2(place->align) && place->min <= place->max);
    *out = sum;
    if (sum < place->min || sum > place->max || (sum & (place->align - 1)))
        return false;
    /* A full 64-bit place may hold a signed value: wrapping is meant. */
    if (place->max == UINT64_MAX)
        return true;
    return place->addend >= 0 ? sum >= value : sum < value;
}

bell_status
hcq_stream_put(struct hcq_stream *stream, uint32_t id, uint64_t value)
{
    void (*repack)(struct hcq_stream * stream, const struct hcq_place *place);
    const struct hcq_patch *patch = &stream->patches[id];
    struct hcq_place *place = stream->places + patch->first;
    bool any = false; /* to be packed again */
    uint64_t sum;
    uint32_t i;

    assert(stream->state == HCQ_STREAM_READY && id < stream->n_patches);
    assert(!hcq_stream_busy(stream));
    for (i = 0; i < patch->n_places; i++) {
        if (!place_value(&place[i], value, &sum))
            return bell_fail(BELL_BAD_VALUE,
                             "stream '%s': patch '%s' = %llu%+lld at byte %u "
                             "must be %llu to %llu, a multiple of %llu",
                             stream->name, stream->names[id].text,
                             (unsigned long long)value,
                             (long long)place[i].addend, place[i].dw * 4,
                             (unsigned long long)place[i].min,
                             (unsigned long long)place[i].max,
                             (unsigned long long)place[i].align);
    }
    for (i = 0; i < patch->n_places; i++) {
        uint32_t *words = stream->cs.words + place[i].dw;

        sum = value + (uint64_t)place[i].addend;
        if (place[i].n_dw == 2)
            memcpy(words, &sum, 8); /* little endian */
        else
            memcpy(words, &sum, 4);
        if (place[i].card)
            memcpy(place[i].card, &sum, 8);
        any |= !place[i].card;
    }
    repack = stream->queue->dev->ops->packet_repack;
    for (i = 0; any && repack && i < patch->n_places; i++) {
        if (!place[i].card)
            repack(stream, &place[i]);
    }
    return BELL_OK;
}

bell_status
hcq_stream_patch(struct hcq_stream *stream, uint32_t id, uint64_t value)
{
    if (!stream || stream->state != HCQ_STREAM_READY || id >= stream->n_patches)
        return bell_fail(BELL_BAD_STATE, "stream '%s': patch %u: %s",
                         stream ? stream->name : "(null)", id,
                         !stream || stream->state != HCQ_STREAM_READY
                             ? "the stream is not built"
                             : "no such patch point");
    BELL_TRY(hcq_check_process(stream->queue->dev));
    if (hcq_stream_busy(stream))
        return bell_fail(BELL_BAD_STATE,
                         "stream '%s' is in flight on %s: '%s' cannot be "
                         "patched",
                         stream->name, stream->queue->name,
                         stream->names[id].text);
    return hcq_stream_put(stream, id, value);
}
