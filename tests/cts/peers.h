/* Devices beside the one under test, and what they share: for the cases of
 * peers.
 */
#ifndef BELL_TESTS_CTS_PEERS_H
#define BELL_TESTS_CTS_PEERS_H

#include "cts.h"

#define PEERS_MAX 3

/* One device of them; the first is the one under test. */
struct peer_side {
    struct hcq_device *dev;
    struct hcq_queue *queue, *copy;
    struct hcq_program *add_one;
    struct hcq_signal *sig; /* 0 at first */
};

struct peers {
    struct cts *t;
    struct peer_side side[PEERS_MAX];
    unsigned n;
    bool is_one_card; /* all are openings of one device */
};

/* Opens n - 1 devices beside t->dev: those with the next numbers, or where
 * there are fewer, the device under test again. Skips the case where devices
 * of its backend cannot have peers, and says why. */
void peers_open(struct cts *t, struct peers *p, unsigned n);
/* The same where they need not have peers. */
void peers_open_any(struct cts *t, struct peers *p, unsigned n);
/* As peers_open, with openings of the device under test alone. */
void peers_open_same(struct cts *t, struct peers *p, unsigned n);
/* Closes all but the first, as the end of a case does. */
void peers_close(struct peers *p);

/* n int32 of a device, each `value`. */
struct hcq_buffer *peers_ints(struct hcq_device *dev, uint64_t n,
                              int32_t value);
/* The same memory as `dev` has it. */
struct hcq_buffer *peers_see(struct hcq_device *dev,
                             const struct hcq_buffer *of);
/* All int32 of a buffer are `value`. */
void peers_check(struct hcq_buffer *buf, int32_t value, const char *what);
/* to = from + 1, n numbers. */
void peers_add_one(struct hcq_cs *cs, const struct peer_side *side,
                   const struct hcq_buffer *to, const struct hcq_buffer *from,
                   uint64_t n);

/* A name that the device's refusals have to have in them. */
bool peers_names_both(const struct hcq_device *a, const struct hcq_device *b);

#endif
