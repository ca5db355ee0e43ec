/* Waits that the calling thread's program may end (bell_interrupt_set).
 *
 * Loops that wait ask; what cleans up holds, as it must not free what a device
 * still uses. State is the thread's own.
 */
#ifndef BELL_BASE_INTERRUPT_H
#define BELL_BASE_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Whether the wait is to end. Asks the program at most every 50 ms; once it has
 * said so, true until the next bell_interrupt_set. False while held. */
bool interrupt_asked(uint64_t now_ns);
/* The same without asking. */
bool interrupt_is_on(void);

/* Between these nobody is asked and no wait is ended. They nest. */
void interrupt_hold(void);
void interrupt_release(void);

#endif
