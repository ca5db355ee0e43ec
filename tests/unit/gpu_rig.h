/* A simulated NVIDIA card under test, without a kernel driver: memory at the
 * addresses of the test vectors, channels, pushbuffers of words.
 *
 * Asserts with cmocka. One thread uses a rig.
 */
#ifndef BELL_TESTS_UNIT_GPU_RIG_H
#define BELL_TESTS_UNIT_GPU_RIG_H

#include <stdatomic.h>
#include <stdint.h>

#include "sim/nv/gpu/gpu.h"

/* Regions that are mapped: the addresses of
 * docs/hardware/nvidia-queues.md, "Test vectors". */
#define RIG_SEM   0x1000200000ull /* semaphores, 64 KiB */
#define RIG_PUSH  0x1234560000ull /* pushbuffers; code from +0x7800 */
#define RIG_CODE  0x1234567800ull
#define RIG_QMD   0xab00000100ull
#define RIG_BANK0 0xf87654000ull
#define RIG_SRC   0x2000000000ull /* 8 MiB */
#define RIG_DST   0x3000000000ull /* 8 MiB */
#define RIG_RO    0x3100000000ull /* 64 KiB, read-only */
#define RIG_LOCAL 0x4000000000ull /* 16 MiB */
#define RIG_CTRL  0x5000000000ull /* rings and USERD */

/* In the semaphore region: what rig_finish waits for. */
#define RIG_DONE (RIG_SEM + 0x8000)

#define RIG_N_ENTRIES 16

struct rig_chan {
    struct nvgpu_chan *chan;
    volatile uint64_t *ring;
    _Atomic uint32_t *userd;
    _Atomic uint32_t *notifier;
    uint64_t done_va;
    uint32_t put, push_at, push_end, done;
    _Atomic uint32_t n_faults; /* calls of on_fault */
};

struct rig {
    const struct nvgpu_chip *chip;
    struct nvgpu *gpu;
    struct nvgpu_space *space;
    _Atomic uint32_t *window;
    struct rig_chan chans[2];
    uint32_t n_chans;
};

/* With one channel, of GR or of copy engine 2, its objects made. */
void rig_init(struct rig *rig, const char *chip, enum nvgpu_engine engine);
struct rig_chan *rig_add(struct rig *rig, enum nvgpu_engine engine,
                         uint32_t gpfifo_class);
void rig_fini(struct rig *rig);

/* Host address of mapped memory. */
void *rig_at(uint64_t va);
uint32_t rig_word(uint64_t va);
uint64_t rig_word64(uint64_t va);

/* Puts the words into a segment of their own, and an entry for it; returns
 * its address. */
uint64_t rig_push(struct rig_chan *c, const uint32_t *words, uint32_t n);
#define RIG_PUSH_WORDS(c, ...)                                                 \
    rig_push((c), (const uint32_t[]){__VA_ARGS__},                             \
             sizeof((const uint32_t[]){__VA_ARGS__}) / 4)
void rig_entry(struct rig_chan *c, uint64_t entry);
/* GPPut and the doorbell. */
void rig_ring(struct rig *rig, struct rig_chan *c);
/* Rings, then waits until all is done; a release with WFI is added. */
void rig_finish(struct rig *rig, struct rig_chan *c);
/* Rings, then waits for a fault, which has this code and whose text has
 * `text` in it. */
struct nvgpu_fault rig_expect(struct rig *rig, struct rig_chan *c,
                              uint32_t code, const char *text);
/* Words, ring, fault; on a card of its own. */
#define RIG_REFUSED(chip, engine, code, text, ...)                             \
    rig_refused((chip), (engine), (code), (text),                              \
                (const uint32_t[]){__VA_ARGS__},                               \
                sizeof((const uint32_t[]){__VA_ARGS__}) / 4)
void rig_refused(const char *chip, enum nvgpu_engine engine, uint32_t code,
                 const char *text, const uint32_t *words, uint32_t n);
void rig_sleep_ms(unsigned ms);

#endif
