/* Patches of copies, fills, signals and waits against a model. */
#ifndef BELL_TESTS_UNIT_LAUNCH_TRANSFERS_H
#define BELL_TESTS_UNIT_LAUNCH_TRANSFERS_H

#include "tests/unit/launch_rig.h"

/* Copies and fills of random sizes and places, zero among them, and waits, in
 * one bound stream of the queue. */
void random_transfers(const struct rig *r, struct hcq_queue *queue);

#endif
