/* Steps through a cassette: what its doorbells submitted, packet by packet. No
 * card runs it: registers are those that packets set, memory is what was
 * recorded with the submissions. */
#include <string.h>

#include "base/alloc.h"
#include "ioctl/cassette.h"
#include "ioctl/kio.h"
#include "tools/step/step.h"
#include "tools/trace/trace.h"

#define N_SUBCH   8
#define N_METHODS 0x1000u /* a header's 12 bits */
#define SH_FIRST  0x2c00u
#define N_SH      0x400u

/* src: docs/hardware/amd-queues.md, "PM4", "Launch" */
#define PM4_DISPATCH_DIRECT 0x15u
#define PM4_SET_SH_REG      0x76u
#define REG_NUM_THREAD_X    0x2e07u
#define REG_PGM_LO          0x2e0cu

/* KFD's types of queues. src: docs/hardware/amd-kernel.md, "Queues" */
#define KFD_PM4 0u
#define KFD_AQL 2u
#define AQL_DW  16u

struct replay {
    struct step *step;
    const struct cas_reader *reader;
    struct trace_decoder decoder;
    uint32_t at; /* the record */
    const char *queue;
    uint32_t methods[N_SUBCH][N_METHODS]; /* NVIDIA */
    uint32_t sh[N_SH];                    /* AMD */
};

/* ---- places -------------------------------------------------------------- */

/* The newest that was recorded up to here. */
static bool
read_recorded(const struct sim_place *place, uint64_t va, void *out,
              uint32_t n_bytes)
{
    const struct replay *r = place->user;
    uint32_t at, i;

    for (at = r->at + 1; at > 0; at--) {
        const struct cas_record *record = cas_reader_get(r->reader, at - 1);

        for (i = 0; i < record->n_blobs; i++) {
            const struct cas_blob *b = &record->blobs[i];

            if (b->role != CAS_REGION || va < b->addr ||
                va - b->addr > b->size_bytes ||
                n_bytes > b->size_bytes - (va - b->addr))
                continue;
            memcpy(out, b->data + (va - b->addr), n_bytes);
            return true;
        }
    }
    return false;
}

/* Those that a packet has set to what is not 0. */
static bool
find_set(const struct sim_place *place, uint32_t index,
         struct sim_register *out)
{
    const struct replay *r = place->user;
    uint32_t subch, i;

    *out = (struct sim_register){.n_bits = 32, .n_lanes = 1, .defined = 1};
    for (i = 0; i < N_SH; i++) {
        if (r->sh[i] == 0 || index-- > 0)
            continue;
        out->number = SH_FIRST + i;
        out->values[0] = r->sh[i];
        return true;
    }
    for (subch = 0; subch < N_SUBCH; subch++) {
        for (i = 0; i < N_METHODS; i++) {
            if (r->methods[subch][i] == 0 || index-- > 0)
                continue;
            out->number = i * 4;
            out->slot = subch;
            out->values[0] = r->methods[subch][i];
            return true;
        }
    }
    return false;
}

static void
come(struct replay *r, struct sim_place *place, const uint8_t *data,
     uint32_t n_dw)
{
    uint32_t words[SIM_STEP_DW];

    place->queue = r->queue;
    place->words = words;
    place->n_all = n_dw;
    place->n_words = n_dw < SIM_STEP_DW ? n_dw : SIM_STEP_DW;
    if (place->n_words)
        memcpy(words, data, 4 * (size_t)place->n_words);
    place->read = read_recorded;
    place->find_register = find_set;
    place->user = r;
    step_come_to(r->step, place);
}

/* ---- packets ------------------------------------------------------------- */

static uint32_t
replay_word_at(const uint8_t *data, uint32_t i)
{
    uint32_t word;

    memcpy(&word, data + 4 * (size_t)i, 4);
    return word;
}

/* A header has an operation, a count, a subchannel and a method.
 * src: docs/hardware/nvidia-queues.md, "Pushbuffers" */
static void
set_methods(struct replay *r, const uint8_t *data, uint32_t n_dw)
{
    uint32_t header = replay_word_at(data, 0), op = header >> 29, i;
    uint32_t *to = r->methods[header >> 13 & 7], method = header & 0xfff;

    if (op == 4)
        to[method] = header >> 16 & 0x1fff;
    for (i = 1; i < n_dw; i++) {
        to[method] = replay_word_at(data, i);
        if (op == 1 || (op == 5 && i == 1))
            method = (method + 1) & 0xfff;
    }
}

static void
step_push(struct replay *r, const struct cas_blob *b)
{
    uint32_t n_dw = b->size_bytes / 4, at = 0;

    while (at < n_dw) {
        uint32_t header = replay_word_at(b->data, at), op = header >> 29, n = 1;
        struct sim_place place = {.kind = SIM_STOP_PACKET,
                                  .va = b->addr + 4 * (uint64_t)at,
                                  .format = SIM_WORDS_NV_PUSH};

        if (op != 4 && op != 7)
            n += header >> 16 & 0x1fff;
        n = n < n_dw - at ? n : n_dw - at;
        come(r, &place, b->data + 4 * (size_t)at, n);
        set_methods(r, b->data + 4 * (size_t)at, n);
        at += n;
    }
}

/* DISPATCH_DIRECT, with the registers so far. */
static void
step_dispatch(struct replay *r, const uint8_t *data, uint32_t n_dw)
{
    const uint32_t *sh = r->sh;
    struct sim_place place = {.kind = SIM_STOP_KERNEL,
                              .va = (uint64_t)sh[REG_PGM_LO - SH_FIRST] << 8 |
                                    (uint64_t)sh[REG_PGM_LO + 1 - SH_FIRST]
                                        << 40};
    uint32_t i;

    for (i = 0; i < 3 && i + 1 < n_dw; i++) {
        place.grid[i] = replay_word_at(data, i + 1);
        place.local[i] = sh[REG_NUM_THREAD_X + i - SH_FIRST] & 0xffff;
    }
    come(r, &place, NULL, 0);
}

static void
step_pm4(struct replay *r, const struct cas_blob *b)
{
    uint32_t n_dw = b->size_bytes / 4, at = 0, i;

    while (at < n_dw) {
        const uint8_t *data = b->data + 4 * (size_t)at;
        uint32_t header = replay_word_at(data, 0), opcode = header >> 8 & 0xff;
        uint32_t count = header >> 16 & 0x3fff, n = 2 + count;
        struct sim_place place = {.kind = SIM_STOP_PACKET,
                                  .va = b->addr + 4 * (uint64_t)at,
                                  .format = SIM_WORDS_PM4};

        if (header >> 30 != 3 || (opcode == 0x10 && count == 0x3fff))
            n = 1;
        n = n < n_dw - at ? n : n_dw - at;
        come(r, &place, data, n);
        for (i = 2; opcode == PM4_SET_SH_REG && i < n; i++)
            r->sh[((replay_word_at(data, 1) & 0xffff) + i - 2) % N_SH] =
                replay_word_at(data, i);
        if (opcode == PM4_DISPATCH_DIRECT)
            step_dispatch(r, data, n);
        at += n;
    }
}

/* src: HSA runtime 1.2, 2.9: a kernel dispatch packet */
static void
step_aql(struct replay *r, const struct cas_blob *b)
{
    uint32_t n_dw = b->size_bytes / 4, at, i;

    for (at = 0; at + AQL_DW <= n_dw; at += AQL_DW) {
        const uint8_t *data = b->data + 4 * (size_t)at;
        struct sim_place place = {.kind = SIM_STOP_PACKET,
                                  .va = b->addr + 4 * (uint64_t)at,
                                  .format = SIM_WORDS_AQL};

        come(r, &place, data, AQL_DW);
        if ((replay_word_at(data, 0) & 0xff) != 2)
            continue;
        place =
            (struct sim_place){.kind = SIM_STOP_KERNEL,
                               .va = replay_word_at(data, 8) |
                                     (uint64_t)replay_word_at(data, 9) << 32,
                               .local = {replay_word_at(data, 1) & 0xffff,
                                         replay_word_at(data, 1) >> 16,
                                         replay_word_at(data, 2) & 0xffff}};
        for (i = 0; i < 3; i++)
            place.grid[i] = place.local[i]
                                ? replay_word_at(data, 3 + i) / place.local[i]
                                : 0;
        come(r, &place, NULL, 0);
    }
}

/* ---- submissions --------------------------------------------------------- */

static void
step_region(struct replay *r, const struct trace_queue *queue,
            const struct cas_blob *b)
{
    struct sim_place place = {
        .kind = SIM_STOP_PACKET, .va = b->addr, .format = SIM_WORDS_SDMA};

    if (b->extra == KIO_REGION_DESCRIPTOR && !queue) {
        place.kind = SIM_STOP_KERNEL;
        place.format = SIM_WORDS_NV_QMD;
        come(r, &place, b->data, b->size_bytes / 4);
    } else if (b->extra != KIO_REGION_RING && b->extra != KIO_REGION_PUSH) {
        return;
    } else if (!queue) {
        if (b->extra == KIO_REGION_PUSH)
            step_push(r, b);
    } else if (queue->type == KFD_AQL && b->extra == KIO_REGION_RING) {
        step_aql(r, b);
    } else if (queue->type == KFD_PM4 || queue->type == KFD_AQL) {
        step_pm4(r, b);
    } else {
        come(r, &place, b->data, b->size_bytes / 4);
    }
}

static void
step_submission(struct replay *r, const struct cas_record *record)
{
    const struct trace_queue *queue = trace_queue_of(&r->decoder, record);
    const struct cas_blob *ring = NULL;
    struct sim_place place = {.kind = SIM_STOP_SUBMIT};
    uint32_t i;

    for (i = 0; i < record->n_blobs && !ring; i++) {
        if (record->blobs[i].role == CAS_REGION &&
            record->blobs[i].extra == KIO_REGION_RING)
            ring = &record->blobs[i];
    }
    r->queue = !queue                   ? "a channel"
               : queue->type == KFD_PM4 ? "a PM4 queue"
               : queue->type == KFD_AQL ? "an AQL queue"
                                        : "an SDMA queue";
    if (!ring) /* of other programs, without what it made visible */
        return;
    place.va = ring->addr;
    if (!queue)
        place.format = SIM_WORDS_NV_RING;
    come(r, &place, ring->data, queue ? 0 : ring->size_bytes / 4);
    for (i = 0; i < record->n_blobs; i++) {
        if (record->blobs[i].role == CAS_REGION)
            step_region(r, queue, &record->blobs[i]);
    }
}

static void
say_nothing(void *user, const char *line)
{
    (void)user;
    (void)line;
}

bell_status
step_replay(struct step *step, const char *path)
{
    struct replay *r = host_calloc(1, sizeof(*r));
    struct cas_reader *reader;
    bell_status status;

    if (!r)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a replay");
    status = cas_reader_open(path, &reader);
    if (status != BELL_OK) {
        host_free(r);
        return status;
    }
    r->step = step;
    r->reader = reader;
    trace_decoder_init(&r->decoder, trace_branch(reader), say_nothing, step);
    for (; r->at < cas_reader_count(reader); r->at++) {
        const struct cas_record *record = cas_reader_get(reader, r->at);

        trace_decode(&r->decoder, record); /* classes, chips, queues */
        if (record->kind != CAS_DOORBELL && record->kind != CAS_SAMPLE)
            continue;
        step_use_decoders(step, &r->decoder.nv, r->decoder.amd.chip);
        step_submission(r, record);
    }
    cas_reader_close(reader);
    host_free(r);
    return BELL_OK;
}
