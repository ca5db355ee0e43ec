/* A card's window that holds the CPU's stores back: they are in the card's
 * memory when something is read behind them through the window, or when a
 * queue flushes it. The strictest that a card may be.
 *
 * Where accesses cannot be seen (sim/step.h) stores arrive at once.
 */
#ifndef BELL_SIM_AMD_KFD_KFD_WINDOW_H
#define BELL_SIM_AMD_KFD_KFD_WINDOW_H

#include <stddef.h>

struct kfd_card;

/* The process has mapped the card's memory there, from the start of that file.
 * Without room to note it, it is not watched. */
void kfd_window_add(const struct kfd_card *card, void *at, size_t size_bytes,
                    int fd);
/* No window is watched that is added later. */
void kfd_window_off(void);
/* Before other things are mapped there: what was stored arrives. */
void kfd_window_drop(const void *at, size_t size_bytes);
/* From the card's queues: all that was stored arrives. */
void kfd_window_flush(void *card);

#endif
