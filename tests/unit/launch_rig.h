/* A device with a queue of each kind, for tests of launches; and counters of
 * what the test's own thread calls. The linker puts the counting functions in
 * the place of the C library's (meson.build).
 */
#ifndef BELL_TESTS_UNIT_LAUNCH_RIG_H
#define BELL_TESTS_UNIT_LAUNCH_RIG_H

#include "tests/unit/expect.h"
#include "hcq/hcq_backend.h"
#include "ioctl/kio.h"

#define LONG_NS (20ull * 1000000000)

struct rig {
    struct hcq_device *dev;
    struct hcq_queue *queue, *copy;
    struct hcq_buffer *out;    /* 64 KiB that the host sees, zero at first */
    struct hcq_program *shape; /* NULL at first: the test's own */
};

struct rig open_rig(const char *name);
void close_rig(struct rig *r);
/* The i-th word of `out`. */
uint64_t value_at(const struct rig *r, size_t i);

/* The queue does nothing until the signal is 1: what follows is the host's
 * alone. */
struct hcq_signal *hold(const struct rig *r, struct hcq_queue *queue);

struct counts {
    unsigned allocations, locks, calls;
};
extern __thread struct counts counts;

/* From now on `counts` has the calls of this kio too, of one at a time. */
void count_kio(struct kio *kio);
void stop_counting(struct kio *kio);

#endif
