/* Shared by the files of the simulated card.
 *
 * sim_template.c   the kernel driver: files, calls, memory
 * template_card.c  the card: a thread for each queue runs its commands
 */
#ifndef BELL_SIM_TEMPLATE_TEMPLATE_CARD_H
#define BELL_SIM_TEMPLATE_TEMPLATE_CARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "ioctl/template_uapi.h"

/* Memory in the process's address space on the card. */
struct template_range {
    uint64_t va, size_bytes;
    uint8_t *host;
    bool is_pinned; /* the process's; else ours */
};

struct template_card_queue {
    struct template_card *card;
    pthread_t thread;
    uint64_t ring_va, get; /* get: entries taken, for ever; its thread's */
    uint32_t n_entries, id;
    bool is_used;
    _Atomic bool quit;
    _Atomic bool is_parked; /* has seen that the card stands */
};

struct template_card {
    struct template_regs *regs;    /* a page */
    pthread_mutex_t lock;          /* the ranges, which queues are used */
    struct template_range *ranges; /* owned; by va */
    size_t n_ranges, cap_ranges;
    struct template_card_queue queues[TEMPLATE_MAX_QUEUES];
    _Atomic bool stands; /* by a fault or for a reset: nothing runs */
};

/* The host's view of [va, va + size_bytes); NULL: not all of it is mapped.
 * Where align is more than 1, va is a multiple of it. On failure the card has
 * faulted. */
void *template_card_span(struct template_card_queue *queue, uint64_t va,
                         uint64_t size_bytes, uint64_t align);
/* The card stands from now on. */
void template_card_fault(struct template_card_queue *queue,
                         enum template_fault fault, uint64_t va);
/* Whether what runs on the queue is to be left. */
static inline bool
template_card_stops(struct template_card_queue *queue)
{
    return atomic_load(&queue->quit) || atomic_load(&queue->card->stands);
}

/* A queue's thread; `arg` is the queue. */
void *template_card_body(void *arg);

#endif
