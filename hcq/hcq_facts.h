/* What drivers know beside the contract, as plain facts: for tools that look at
 * a machine, a card or a program. Programs that compute need none of this, and
 * a program that does not ask for it has none of it linked.
 *
 * Threads: any; a gauge is used by one at a time.
 */
#ifndef BELL_HCQ_HCQ_FACTS_H
#define BELL_HCQ_HCQ_FACTS_H

#include "hcq/hcq.h"

/* ---- cards --------------------------------------------------------------- */

#define HCQ_CARDS_MAX 64 /* of one backend */

/* A card as the kernel's driver lists it. Plain data. */
struct hcq_card {
    char address[16];     /* PCI's: "0000:65:00.0" */
    int32_t render_minor; /* of /dev/dri/renderD*; -1: it has no such node */
};

/* The cards of a backend ("NV", "AMD"), numbered as its devices are; none is
 * opened. *out_n is how many there are, at most HCQ_CARDS_MAX. On failure: the
 * kernel's driver is not there or refuses. BELL_E_UNSUPPORTED: the backend has
 * no such list. */
BELL_MUST_CHECK bell_status
hcq_card_list(const char *backend, struct hcq_card out_list[HCQ_CARDS_MAX],
              size_t *out_n);

/* ---- facts --------------------------------------------------------------- */

/* A number or bytes by a name. Valid during the call that tells it; the bytes
 * live as long as the program or device. */
struct hcq_fact {
    const char *name; /* static: "registers" */
    uint64_t value;
    const void *data; /* NULL: `value` is the fact */
    uint32_t size_bytes;
    bool is_class; /* a number that people write in hexadecimal */
};

/* Another status than BELL_OK ends the telling, and is returned by it. */
typedef bell_status hcq_fact_fn(void *user, const struct hcq_fact *fact);

/* Tells the engines of a device: classes of NVIDIA's, how many of AMD's. A
 * device that has no facts tells none. */
BELL_MUST_CHECK bell_status hcq_device_facts(struct hcq_device *dev,
                                             hcq_fact_fn *tell, void *user);

/* Tells what a launch of the program is made from: registers, sizes, parts of
 * its descriptor. */
BELL_MUST_CHECK bell_status hcq_program_facts(const struct hcq_program *prog,
                                              hcq_fact_fn *tell, void *user);

/* What of the driver nobody is known to have run on such a device, as words
 * that follow "nobody is known to have run"; "": all of it was. Static. */
const char *hcq_device_unproven(struct hcq_device *dev);

/* Says as which chip the driver uses a device that it does not know: a
 * sentence, cut to the buffer; "": it knows the device. */
void hcq_device_assumed(struct hcq_device *dev, char *text, size_t size_bytes);

/* The name of the live program whose code begins at that address; false: none
 * does. */
bool hcq_program_name_at(struct hcq_device *dev, uint64_t code_va,
                         char out_name[HCQ_NAME_MAX]);

/* From now on no limit of a wait holds on the device: somebody steps through
 * the card behind it. */
void hcq_device_wait_forever(struct hcq_device *dev);

/* Whether the queue takes words of the card's own (hcq_cs_words). */
bool hcq_queue_has_words(const struct hcq_queue *queue);

/* The timeline's value when all is done that was submitted to the queue, parts
 * of graphs, too. By the queue's thread. */
uint64_t hcq_queue_submitted(const struct hcq_queue *queue);

/* A command of a stream, as text. Valid during the call that tells it. */
struct hcq_command {
    uint32_t offset_bytes; /* in the stream */
    const char *text;      /* "copy 64 bytes 0x1000 -> 0x2000" */
    const uint32_t *words; /* of hcq_cs_words; else NULL */
    uint32_t n_words;
};
typedef void hcq_command_fn(void *user, const struct hcq_command *command);

/* Tells the commands that were emitted to a stream since it was begun, launches
 * with their arguments. The stream is open, or bound. */
void hcq_cs_tell(const struct hcq_cs *cs, hcq_command_fn *tell, void *user);

/* ---- gauges -------------------------------------------------------------- */

/* What the kernel's driver tells of a card to everyone, again and again. Owned
 * by who opened it. */
struct hcq_gauge;

struct hcq_reading {
    uint32_t struct_size;  /* set by the caller */
    uint32_t clock_mhz;    /* 0: not told, or not yet */
    uint64_t memory_bytes; /* all that there is; 0: not told */
    uint64_t used_bytes;   /* of it, by every process */
};

/* Opens a gauge of card `idx` of hcq_card_list: a client of the kernel's driver
 * alone, with no context and no memory of the card; the card stays awake. The
 * clock may be told a second later. BELL_E_UNSUPPORTED: the backend's cards are
 * asked by files, or through an open device. */
BELL_MUST_CHECK bell_status hcq_gauge_open(const char *backend, uint32_t idx,
                                           struct hcq_gauge **out_gauge);
/* For an open device, closed after the gauge. Where the driver tells nothing,
 * `used_bytes` is what this process has. */
BELL_MUST_CHECK bell_status hcq_gauge_of(struct hcq_device *dev,
                                         struct hcq_gauge **out_gauge);
/* Fills out_reading, whose struct_size is set. */
BELL_MUST_CHECK bell_status hcq_gauge_read(struct hcq_gauge *gauge,
                                           struct hcq_reading *out_reading);
/* NULL is allowed. */
void hcq_gauge_close(struct hcq_gauge *gauge);

#endif
