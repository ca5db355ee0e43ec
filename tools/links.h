/* How the devices of a machine reach each other, for people and for JSON. */
#ifndef BELL_TOOLS_LINKS_H
#define BELL_TOOLS_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hcq/hcq.h"
#include "base/json.h"

#define LINKS_MAX 32 /* devices of a box */

/* Open devices of one backend and all pairs of them. Zeros at first. */
struct links {
    struct hcq_device *devs[LINKS_MAX]; /* owned */
    size_t n;
    struct hcq_device_link pair[LINKS_MAX][LINKS_MAX]; /* by who looks */
};

/* Opens one more, unless there are too many. */
BELL_MUST_CHECK bell_status links_open(struct links *links, const char *name);
/* Opens BACKEND:FIRST@INTERFACE and those after it, up to the last; the
 * interface may be "". It is not a failure if there are no more devices. */
BELL_MUST_CHECK bell_status links_open_box(struct links *links,
                                           const char *backend, unsigned first,
                                           const char *interface);
/* Asks about all pairs. */
BELL_MUST_CHECK bell_status links_ask(struct links *links);
void links_close(struct links *links);

/* A matrix, and a line for each kind of link with what is known of it. */
void links_print(const struct links *links);
/* An object for each pair, in an array that is open. */
void links_put(struct json *json, const struct links *links);

/* The next pair, from *a and *b on, that has another reason than those before
 * it for not being direct; false: there is none. *out_n: pairs with it. */
bool links_next_apart(const struct links *links, size_t *a, size_t *b,
                      size_t *out_n);

#endif
