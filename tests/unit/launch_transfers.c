/* Patched transfers: see launch_transfers.h. */
#include "tests/unit/launch_transfers.h"

#include "base/bits.h"
#include "base/map.h"

#define AREA 16384u /* bytes that commands work on */

struct transfer {
    uint32_t dst, src, size, at, pattern, length;
    uint64_t value;
};

static const char *const points[] = {"dst",     "src",    "size", "fill",
                                     "pattern", "length", "value"};

static void
emit_transfers(struct hcq_cs *cs, const struct rig *r, struct hcq_signal *sig,
               const uint32_t p[7])
{
    uint64_t va = r->out->va;

    hcq_cs_copy(cs, va, va + AREA, 0);
    hcq_cs_patch(cs, HCQ_FIELD_DST, p[0], 0);
    hcq_cs_patch(cs, HCQ_FIELD_SRC, p[1], 0);
    hcq_cs_patch(cs, HCQ_FIELD_SIZE, p[2], 0);
    hcq_cs_fill(cs, va, 0, 4);
    hcq_cs_patch(cs, HCQ_FIELD_ADDR, p[3], 0);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, p[4], 0);
    hcq_cs_patch(cs, HCQ_FIELD_SIZE, p[5], 0);
    hcq_cs_signal(cs, sig, 1);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, p[6], 0);
    hcq_cs_wait(cs, sig, 1);
    hcq_cs_patch(cs, HCQ_FIELD_VALUE, p[6], 0);
}

static void
model_transfers(uint8_t *area, const struct transfer *t)
{
    uint32_t i;

    memcpy(area + t->dst, area + AREA + t->src, t->size);
    for (i = 0; i < t->length; i++)
        area[t->at + i] = (uint8_t)(t->pattern >> (i % 4 * 8));
}

void
random_transfers(const struct rig *r, struct hcq_queue *queue)
{
    static uint8_t model[2 * AREA];
    struct hcq_stream *stream;
    struct hcq_signal *sig;
    uint64_t seed = 1, va = r->out->va;
    uint32_t p[7], i;

    expect_ok(hcq_signal_create(r->dev, 0, &sig));
    expect_ok(hcq_stream_create(queue, "transfers", &stream));
    for (i = 0; i < ARRAY_LEN(p); i++)
        p[i] = hcq_stream_patch_point(stream, points[i]);
    emit_transfers(hcq_stream_cs(stream), r, sig, p);
    expect_ok(hcq_stream_end(stream));
    for (i = 0; i < sizeof(model); i++)
        model[i] = (uint8_t)hash_mix(i);
    memcpy(r->out->host, model, sizeof(model));
    for (i = 0; i < 200; i++) {
        uint64_t h = seed = hash_mix(seed + i);
        struct transfer t = {
            .dst = (uint32_t)(h % 4096),
            .src = (uint32_t)(h >> 16) % 4096,
            .size = h >> 60 ? (uint32_t)(h >> 32) % 5000 : 0,
            .at = (uint32_t)(h >> 40) % 2048 * 4,
            .pattern = (uint32_t)(h >> 8),
            .length = (uint32_t)(h >> 20) % 40,
            .value = h & 1 ? h : (uint32_t)h,
        };

        expect_ok(hcq_stream_patch(stream, p[0], va + t.dst));
        expect_ok(hcq_stream_patch(stream, p[1], va + AREA + t.src));
        expect_ok(hcq_stream_patch(stream, p[2], t.size));
        expect_ok(hcq_stream_patch(stream, p[3], va + t.at));
        expect_ok(hcq_stream_patch(stream, p[4], t.pattern));
        expect_ok(hcq_stream_patch(stream, p[5], t.length));
        expect_ok(hcq_stream_patch(stream, p[6], t.value));
        expect_ok(hcq_stream_submit(stream, NULL));
        expect_ok(hcq_stream_wait(stream, LONG_NS));
        model_transfers(model, &t);
        assert_memory_equal(r->out->host, model, sizeof(model));
        assert_int_equal(hcq_signal_value(sig), t.value);
    }
    hcq_stream_destroy(stream);
}
