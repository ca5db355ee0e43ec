/* Debug lines in the program's own hands: what BELL_DEBUG prints to stderr. */
#ifndef BELL_DOORBELL_LOG_H
#define BELL_DOORBELL_LOG_H

#include "doorbell/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A line without its end, "topic: text". Not kept behind the call. */
typedef void bell_log_fn(void *user, const char *line);

/* Lines go to `write` from now on, from whatever thread made them, one at a
 * time: it calls nothing of Doorbell. NULL: to stderr again, or the file of
 * BELL_DEBUG_FILE. Any thread; when it returns, no line is on its way to what
 * was set before. */
BELL_API void bell_log_set(bell_log_fn *write, void *user);

/* Chooses the topics, as BELL_DEBUG would: "plan,time"; "" or NULL: none.
 * BELL_E_INVALID: one is not known; the message lists those that are, and
 * nothing changes. The process's first context, or device, takes the topics of
 * BELL_DEBUG in place of these if that is set; what is chosen after it stays
 * for all contexts. Any thread that no other one of the process works
 * beside. */
BELL_API BELL_MUST_CHECK bell_status bell_log_topics(const char *names);

#ifdef __cplusplus
}
#endif
#endif
