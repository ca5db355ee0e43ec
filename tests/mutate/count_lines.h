/*
 * For every file that count_lines.sh compiles: a child that ends with _exit
 * leaves its counts too.
 */
#ifndef BELL_TESTS_COUNT_LINES_H
#define BELL_TESTS_COUNT_LINES_H

#include <unistd.h>

void __gcov_dump(void);
#define _exit(status) (__gcov_dump(), _exit(status))

#endif
