/* base/log and base/thread: BELL_DEBUG, the writer, BELL_THREADS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"

static void
test_parse(void **state)
{
    uint32_t mask = 99;

    (void)state;
    assert_int_equal(log_parse("", &mask), BELL_OK);
    assert_int_equal(mask, 0);
    assert_int_equal(log_parse("sched", &mask), BELL_OK);
    assert_int_equal(mask, LOG_SCHED);
    assert_int_equal(log_parse("ioctl,,time,", &mask), BELL_OK);
    assert_int_equal(mask, LOG_IOCTL | LOG_TIME);
}

static void
test_typo_lists_the_topics(void **state)
{
    uint32_t mask = 99;

    (void)state;
    assert_int_equal(log_parse("mem,shed", &mask), BELL_E_INVALID);
    assert_int_equal(mask, 99);
    assert_non_null(strstr(bell_error_last()->message, "'shed'"));
    assert_non_null(strstr(bell_error_last()->message, "sched"));
    assert_non_null(strstr(bell_error_last()->message, "time"));
    assert_int_equal(log_parse("helpme", &mask), BELL_E_INVALID);
    assert_int_equal(log_parse("sche", &mask), BELL_E_INVALID);
}

static void
test_init_reads_environment(void **state)
{
    (void)state;
    setenv("BELL_DEBUG", "opt,rw", 1);
    assert_int_equal(log_init(), BELL_OK);
    assert_int_equal(log_mask, LOG_OPT | LOG_RW);
    assert_true(LOG_ON(LOG_RW));
    assert_false(LOG_ON(LOG_MEM));
    setenv("BELL_DEBUG", "nonsense", 1);
    assert_int_equal(log_init(), BELL_E_INVALID);
    unsetenv("BELL_DEBUG");
    log_mask = 0;
}

static void
keep_line(void *user, const char *line)
{
    snprintf(user, 4096, "%s", line);
}

static void
test_writer(void **state)
{
    char line[4096] = "", text[8192];

    (void)state;
    log_set_writer(keep_line, line);
    LOG(LOG_SCHED, "not shown");
    assert_string_equal(line, "");
    log_mask = LOG_SCHED;
    LOG(LOG_SCHED, "%d values", 3);
    assert_string_equal(line, "sched: 3 values");
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    LOG(LOG_SCHED, "%s", text);
    assert_true(strlen(line) > 1000 && strlen(line) < 4096);
    log_set_writer(NULL, NULL);
    log_mask = 0;
}

/* Every topic by its name, and back. */
static void
test_topics(void **state)
{
    static const char *const names[] = {
        "ioctl", "push", "mem",  "graph", "plan",  "uops",
        "ir",    "dot",  "rw",   "sched", "opt",   "render",
        "asm",   "sync", "exec", "time",  "cache", "fault"};
    char line[4096], known[4096] = "known: ", expected[64];
    uint32_t mask, all = 0;
    size_t i;

    (void)state;
    log_set_writer(keep_line, line);
    for (i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(log_parse(names[i], &mask), BELL_OK);
        assert_true(is_pow2(mask) && !(all & mask));
        all |= mask;
        log_print((enum log_topic)mask, "x");
        snprintf(expected, sizeof(expected), "%s: x", names[i]);
        assert_string_equal(line, expected);
        strcat(strcat(known, i ? ", " : ""), names[i]);
    }
    log_print((enum log_topic)0, "of none");
    assert_string_equal(line, "log: of none");
    log_print((enum log_topic)(1u << 31), "of none");
    assert_string_equal(line, "log: of none");
    log_set_writer(NULL, NULL);
    assert_int_equal(log_parse("memo", &mask), BELL_E_INVALID);
    assert_int_equal(log_parse("x", &mask), BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, known));
    assert_int_equal(log_parse("hel", &mask), BELL_E_INVALID);
    assert_int_equal(log_parse("hell", &mask), BELL_E_INVALID);
}

static void
append_line(void *user, const char *line)
{
    char *text = user;

    snprintf(text + strlen(text), 4096 - strlen(text), "%s\n", line);
}

static void
test_text(void **state)
{
    char text[4096] = "";

    (void)state;
    log_set_writer(append_line, text);
    log_text(LOG_ASM, "kernel", "one\n\ntwo\n");
    log_text(LOG_ASM, "nothing", "");
    log_text(LOG_ASM, "no end", "three");
    log_set_writer(NULL, NULL);
    assert_string_equal(text, "asm: kernel:\nasm:   one\nasm:   \nasm:   two\n"
                              "asm: nothing:\nasm: no end:\nasm:   three\n");
}

/* Without a writer it goes to stderr; so does what `help` says. */
static void
test_stderr(void **state)
{
    char path[] = "/tmp/bell_log_XXXXXX", text[8192];
    int fd = mkstemp(path), kept = dup(STDERR_FILENO);
    uint32_t mask = 0;
    ssize_t n;

    (void)state;
    assert_true(fd >= 0 && kept >= 0);
    fflush(stderr);
    dup2(fd, STDERR_FILENO);
    log_print(LOG_IOCTL, "call %d", 5);
    assert_int_equal(log_parse("help,asm", &mask), BELL_OK);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    assert_int_equal(mask, LOG_ASM);
    n = pread(fd, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_memory_equal(text, "ioctl: call 5\nBELL_DEBUG takes", 29);
    assert_non_null(strstr(text, "\n  ioctl    "));
    assert_non_null(strstr(text, "\n  fault    "));
    close(fd);
    close(kept);
    unlink(path);
}

static void
test_thread_count(void **state)
{
    (void)state;
    unsetenv("BELL_THREADS");
    assert_true(thread_cpu_count() >= 1);
    setenv("BELL_THREADS", "7", 1);
    assert_int_equal(thread_cpu_count(), 7);
    unsetenv("BELL_THREADS");
}

static void
test_time_grows(void **state)
{
    uint64_t then = time_now_ns(), now = then;
    int i;

    (void)state;
    for (i = 0; i < 10000000 && now == then; i++) {
        thread_relax();
        now = time_now_ns();
        assert_true(now >= then);
    }
    assert_true(now > then);
}

static void
test_bits(void **state)
{
    (void)state;
    assert_true(is_pow2(1) && is_pow2(64));
    assert_false(is_pow2(0) || is_pow2(6));
    assert_int_equal(align_up(0, 16), 0);
    assert_int_equal(align_up(17, 16), 32);
    assert_int_equal(div_up(7, 3), 3);
    assert_int_equal(log2_floor(1), 0);
    assert_int_equal(log2_floor(1023), 9);
    assert_int_equal(floor_div(-7, 2), -4);
    assert_int_equal(floor_div(7, -2), -4);
    assert_int_equal(floor_div(-6, 2), -3);
    assert_int_equal(floor_mod(-7, 2), 1);
    assert_int_equal(floor_mod(7, -2), -1);
    assert_int_equal(floor_mod(-6, 2), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_typo_lists_the_topics),
        cmocka_unit_test(test_init_reads_environment),
        cmocka_unit_test(test_writer),
        cmocka_unit_test(test_topics),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_stderr),
        cmocka_unit_test(test_thread_count),
        cmocka_unit_test(test_time_grows),
        cmocka_unit_test(test_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
