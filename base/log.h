/* Debug output and the BELL_DEBUG switch.
 *
 * BELL_DEBUG is a comma-separated list of the topics below; "help" prints
 * them. Off costs one predicted branch. Output goes to stderr, to the file of
 * BELL_DEBUG_FILE, behind the thread's number, or to the callback that is set.
 * Lines start with "topic: ".
 */
#ifndef BELL_BASE_LOG_H
#define BELL_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "doorbell/log.h"

enum log_topic {
    LOG_IOCTL = 1u << 0,
    LOG_PUSH = 1u << 1,
    LOG_MEM = 1u << 2,
    LOG_UOPS = 1u << 3,
    LOG_RW = 1u << 4,
    LOG_SCHED = 1u << 5,
    LOG_OPT = 1u << 6,
    LOG_RENDER = 1u << 7,
    LOG_SYNC = 1u << 8,
    LOG_EXEC = 1u << 9,
    LOG_TIME = 1u << 10,
    LOG_ASM = 1u << 11,
    LOG_FAULT = 1u << 12,
    LOG_IR = 1u << 13,
    LOG_DOT = 1u << 14,
    LOG_GRAPH = 1u << 15,
    LOG_CACHE = 1u << 16,
    LOG_PLAN = 1u << 17,
    LOG_KERNELS = 1u << 18,
    LOG_MESH = 1u << 19,
};

/* Topics that the compilation of one kernel prints on. */
#define LOG_COMPILING                                                          \
    (LOG_UOPS | LOG_RW | LOG_OPT | LOG_RENDER | LOG_ASM | LOG_IR | LOG_DOT)

/* Bits of enum log_topic. Written by log_init and bell_log_topics. */
extern uint32_t log_mask;

/* Reads BELL_DEBUG. An unknown topic is an error that lists the known ones;
 * "help" prints the table to stderr, the first time, and changes nothing. What
 * bell_log_topics chose after a first call stays. Safe to call more than once
 * and from any thread. */
BELL_MUST_CHECK bell_status log_init(void);

/* Parses a topic list as BELL_DEBUG would be. */
BELL_MUST_CHECK bell_status log_parse(const char *text, uint32_t *out_mask);

/* Whether a writer takes the lines: who asked for them wants to know what
 * cannot be printed, where a person who debugs is told by a line. */
bool log_has_writer(void);

/* Something that the environment asked for could not be written, as `what`
 * says: a line on stderr, and known from now on, to exit codes of tools. Any
 * thread. */
void log_lose(const char *what);
bool log_has_lost(void);

/* Control characters but newlines and tabs are escaped (base/text.h). */
void log_print(enum log_topic topic, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A title and a text of many lines, each of them a line of the output. */
void log_text(enum log_topic topic, const char *title, const char *text);

#define LOG_ON(topic) __builtin_expect((log_mask & (topic)) != 0, 0)
#define LOG(topic, ...)                                                        \
    do {                                                                       \
        if (LOG_ON(topic))                                                     \
            log_print(topic, __VA_ARGS__);                                     \
    } while (0)

#endif
