/* Whether everything takes ten times as long, so that a test asks less: the
 * release build's asks all of it. */
#ifndef BELL_TESTS_UNIT_SANITIZED_H
#define BELL_TESTS_UNIT_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

/* Before a function of plain loops by which a test judges: what is judged is
 * sanitized, and this takes a fifth of the time of some tests. */
#define UNSANITIZED __attribute__((no_sanitize("address", "undefined")))

#endif
