/* The simulated NVIDIA card under random words: whatever a driver sends, the
 * card goes on, waits or ends the channel, and can always be taken down. */
#include "gpu_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "base/bits.h"
#include "base/map.h"

#define N_ROUNDS 300
#define N_WORDS  120

static const char *const chips[] = {"sm_80", "sm_89", "sm_90", "sm_120"};

struct dice {
    uint64_t seed, n;
};

static uint32_t
roll(struct dice *d, uint32_t sides)
{
    return (uint32_t)(hash_add(d->seed, d->n++) >> 16) % sides;
}

static uint32_t
roll_word(struct dice *d)
{
    static const uint32_t often[] = {
        0,          1,     0xa,    0x10,       0x20,       0x30,
        0x00200010, 0x182, 0x1000, 0xab000001, 0x01000003, 0x03100001};

    switch (roll(d, 4)) {
    case 0:
        return (uint32_t)hash_add(d->seed, d->n++);
    case 1:
        return 1u << roll(d, 32);
    default:
        return often[roll(d, ARRAY_LEN(often))];
    }
}

/* Methods of all that there is, so that many words mean something. */
static uint32_t
roll_header(struct dice *d)
{
    static const uint16_t methods[] = {
        0x0,   0x8,   0x28,  0x5c,  0x60,   0x64,   0x6c,   0x78,  0x110,
        0x158, 0x168, 0x180, 0x188, 0x1b0,  0x1b4,  0x21c,  0x240, 0x248,
        0x298, 0x2a0, 0x2b4, 0x2c0, 0x2e4,  0x300,  0x318,  0x320, 0x400,
        0x410, 0x418, 0x700, 0x708, 0x1698, 0x1b00, 0x1b0c, 0x790, 0x7b0};
    static const uint8_t subchannels[] = {0, 1, 1, 1, 4, 4, 4, 5};
    static const uint8_t ops[] = {1, 1, 1, 3, 4, 5};
    uint32_t op = ops[roll(d, ARRAY_LEN(ops))],
             count = op == 4 ? roll(d, 64) : roll(d, 6);

    if (roll(d, 50) == 0)
        return roll_word(d);
    return op << 29 | count << 16 |
           (uint32_t)subchannels[roll(d, ARRAY_LEN(subchannels))] << 13 |
           methods[roll(d, ARRAY_LEN(methods))] / 4u;
}

static uint32_t
roll_segment(struct dice *d, const struct rig *rig, uint32_t *words)
{
    uint32_t n = 4, i;

    words[0] = 0x20012000;
    words[1] = rig->chip->compute_class;
    words[2] = 0x20018000;
    words[3] = rig->chip->copy_class;
    while (n < N_WORDS) {
        uint32_t header = roll_header(d), count = header >> 16 & 0x1fff;
        words[n++] = header;
        if (header >> 29 == 4)
            continue;
        for (i = 0; i < count && n < N_WORDS; i++)
            words[n++] = roll_word(d);
    }
    return n;
}

static void
test_words(void **state)
{
    uint32_t words[N_WORDS + 8], i, n_faults = 0;
    struct dice d = {.seed = 1};

    (void)state;
    for (i = 0; i < N_ROUNDS; i++) {
        struct rig rig;
        struct rig_chan *c = &rig.chans[0];
        struct nvgpu_fault f;
        bool is_lost = false;
        unsigned tries;

        rig_init(&rig, chips[i % ARRAY_LEN(chips)], NVGPU_ENGINE_GR);
        rig_push(c, words, roll_segment(&d, &rig, words));
        rig_ring(&rig, c);
        /* a machine that does much else takes longer to come to the error */
        for (tries = 0;
             tries == 0 || (tries < 20 && !is_lost && n_faults <= N_ROUNDS / 4);
             tries++) {
            rig_sleep_ms(2);
            is_lost = nvgpu_chan_fault(c->chan, &f);
        }
        n_faults += is_lost;
        rig_fini(&rig);
    }
    /* most end with an error, and the machine goes on */
    assert_true(n_faults > N_ROUNDS / 4);
}

/* A whole ring of random entries, and GPPut anywhere. */
static void
test_entries(void **state)
{
    struct dice d = {.seed = 2};
    uint32_t i, k;

    (void)state;
    for (i = 0; i < N_ROUNDS / 3; i++) {
        struct rig rig;
        struct rig_chan *c = &rig.chans[0];
        rig_init(&rig, chips[i % ARRAY_LEN(chips)], NVGPU_ENGINE_CE);
        for (k = 0; k < RIG_N_ENTRIES; k++)
            c->ring[k] = roll(&d, 2)
                             ? (uint64_t)roll_word(&d) << 32 | roll_word(&d)
                             : RIG_PUSH | (uint64_t)roll(&d, 64) << 42;
        c->put = roll(&d, RIG_N_ENTRIES + 1);
        rig_ring(&rig, c);
        rig_sleep_ms(1);
        rig_fini(&rig);
    }
}

/* Random descriptors: mostly zero, with the version right. */
static void
test_descriptors(void **state)
{
    struct dice d = {.seed = 3};
    uint32_t i, k;

    (void)state;
    for (i = 0; i < N_ROUNDS; i++) {
        struct rig rig;
        struct rig_chan *c = &rig.chans[0];
        uint32_t *qmd;
        rig_init(&rig, chips[i % ARRAY_LEN(chips)], NVGPU_ENGINE_GR);
        qmd = rig_at(RIG_QMD);
        for (k = 0; k < 12; k++)
            qmd[roll(&d, 96)] ^= 1u << roll(&d, 32);
        qmd[rig.chip->sm == 120 ? 14 : 18] = rig.chip->sm == 120  ? 0x00500100
                                             : rig.chip->sm == 90 ? 0x3c080040
                                                                  : 0x00010030;
        RIG_PUSH_WORDS(c, 0x20012000, rig.chip->compute_class, 0x200120ad,
                       0xab000001, 0x200120b0, 0xa);
        (void)rig_expect(&rig, c, 69, "QMD");
        rig_fini(&rig);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
