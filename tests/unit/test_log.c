/* base/log, base/thread and base/nearest: BELL_DEBUG, the writer, BELL_THREADS,
 * names that are mistyped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/nearest.h"
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
test_chosen_topics(void **state)
{
    (void)state;
    assert_int_equal(bell_log_topics("plan,mem"), BELL_OK);
    assert_int_equal(log_mask, LOG_PLAN | LOG_MEM);
    assert_int_equal(bell_log_topics("plan,men"), BELL_E_INVALID);
    assert_int_equal(log_mask, LOG_PLAN | LOG_MEM);
    assert_int_equal(bell_log_topics(NULL), BELL_OK);
    assert_int_equal(log_mask, 0);
}

/* In place of stderr, behind the thread's number; once for a process. */
static void
test_file(void **state)
{
    char path[] = "/tmp/test_log-XXXXXX", line[64], want[64];
    int fd = mkstemp(path);
    FILE *file;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    setenv("BELL_DEBUG", "mem", 1);
    setenv("BELL_DEBUG_FILE", "/nonexistent/file", 1);
    assert_int_equal(log_init(), BELL_E_IO);
    assert_non_null(strstr(bell_error_last()->message, "/nonexistent/file"));
    setenv("BELL_DEBUG_FILE", path, 1);
    assert_int_equal(log_init(), BELL_OK);
    log_print(LOG_MEM, "a line");
    snprintf(want, sizeof(want), "%ld mem: a line\n", (long)gettid());
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(line, want);
    fclose(file);
    unlink(path);
    unsetenv("BELL_DEBUG");
    unsetenv("BELL_DEBUG_FILE");
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

/* Each context reads BELL_DEBUG, which does not undo what the program chose
 * since the first one did. */
static void
test_chosen_topics_stay(void **state)
{
    (void)state;
    setenv("BELL_DEBUG", "opt,rw", 1);
    assert_int_equal(log_init(), BELL_OK);
    assert_int_equal(bell_log_topics("mem"), BELL_OK);
    assert_int_equal(log_init(), BELL_OK);
    assert_int_equal(log_mask, LOG_MEM);
    assert_int_equal(bell_log_topics(""), BELL_OK);
    assert_int_equal(log_init(), BELL_OK);
    assert_int_equal(log_mask, 0);
    setenv("BELL_DEBUG", "nonsense", 1);
    assert_int_equal(log_init(), BELL_E_INVALID);
    unsetenv("BELL_DEBUG");
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
    bell_log_set(keep_line, line);
    LOG(LOG_SCHED, "not shown");
    assert_string_equal(line, "");
    log_mask = LOG_SCHED;
    LOG(LOG_SCHED, "%d values", 3);
    assert_string_equal(line, "sched: 3 values");
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    LOG(LOG_SCHED, "%s", text);
    assert_true(strlen(line) > 1000 && strlen(line) < 4096);
    bell_log_set(NULL, NULL);
    log_mask = 0;
}

/* Every topic by its name, and back. */
static void
test_topics(void **state)
{
    static const char *const names[] = {
        "ioctl", "push", "mem",   "graph",   "plan",   "uops", "ir",
        "dot",   "rw",   "sched", "opt",     "render", "asm",  "sync",
        "exec",  "time", "cache", "kernels", "mesh",   "fault"};
    char line[4096], known[4096] = "known: ", expected[64];
    uint32_t mask, all = 0;
    size_t i;

    (void)state;
    bell_log_set(keep_line, line);
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
    bell_log_set(NULL, NULL);
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
    bell_log_set(append_line, text);
    log_text(LOG_ASM, "kernel", "one\n\ntwo\n");
    log_text(LOG_ASM, "nothing", "");
    log_text(LOG_ASM, "no end", "three");
    bell_log_set(NULL, NULL);
    assert_string_equal(text, "asm: kernel:\nasm:   one\nasm:   \nasm:   two\n"
                              "asm: nothing:\nasm: no end:\nasm:   three\n");
}

/* Each name cut, longer, or other in one letter is refused, beside others too,
 * and leaves the mask. */
static void
test_mistyped(void **state)
{
    static const char *const names[] = {"help", "ioctl", "ir", "fault", "uops"};
    char name[32], text[64], told[80];
    uint32_t mask;
    size_t i, k, n;

    (void)state;
    for (i = 0; i < ARRAY_LEN(names); i++) {
        n = strlen(names[i]);
        for (k = 0; k < 2 * n + 1; k++) {
            snprintf(name, sizeof(name), "%s%s", names[i],
                     k == 2 * n ? "x" : "");
            if (k < n)
                name[k] = '!';
            else if (k > n)
                name[k < 2 * n ? k - n : 9] = '\0';
            else
                name[0] = 'Z';
            snprintf(text, sizeof(text), "mem,%s,time", name);
            mask = 7;
            assert_int_equal(log_parse(text, &mask), BELL_E_INVALID);
            snprintf(told, sizeof(told),
                     "BELL_DEBUG: unknown topic '%s'; known", name);
            assert_memory_equal(bell_error_last()->message, told, strlen(told));
            assert_int_equal(mask, 7);
        }
    }
}

/* ---- nearest ---------------------------------------------------------- */

/* Insertions, deletions, replacements and swaps of neighbours, tried all. */
static unsigned
changes(const char *a, const char *b)
{
    unsigned best, n;

    if (!*a || !*b)
        return (unsigned)(strlen(a) + strlen(b));
    best = changes(a + 1, b + 1) + ((*a | 32) != (*b | 32));
    n = changes(a + 1, b) + 1;
    best = n < best ? n : best;
    n = changes(a, b + 1) + 1;
    best = n < best ? n : best;
    if (a[1] && b[1] && (*a | 32) == (b[1] | 32) && (a[1] | 32) == (*b | 32)) {
        n = changes(a + 2, b + 2) + 1;
        best = n < best ? n : best;
    }
    return best;
}

/* The i-th word of the letters a, b and B. */
static void
word_of(unsigned i, char *word)
{
    for (; i; i = (i - 1) / 3)
        *word++ = "abB"[(i - 1) % 3];
    *word = '\0';
}

enum {
    N_WORDS = 1 + 3 + 9 + 27 + 81
};

static void
test_nearest(void **state)
{
    static const char beginning[] = "kkkkkkkkk"; /* more may differ */
    char name[80] = "", other[80] = "";
    unsigned i, k, n, most;

    (void)state;
    for (i = 0; i < N_WORDS; i++) {
        for (k = 0; k < N_WORDS; k++) {
            struct nearest search = {.name = name};
            strcpy(name, beginning);
            strcpy(other, beginning);
            word_of(i, name + strlen(beginning));
            word_of(k, other + strlen(beginning));
            n = changes(name + strlen(beginning), other + strlen(beginning));
            most = (unsigned)strlen(name) / 3 + 2;
            nearest_try(&search, other, "means");
            assert_int_equal(search.best != NULL, n < most);
            if (n < most)
                assert_int_equal(search.distance, n);
            search = (struct nearest){.name = name + strlen(beginning)};
            nearest_try(&search, other + strlen(beginning), "means");
            most = (unsigned)strlen(search.name) / 3 + 2;
            assert_int_equal(search.best != NULL, n < most);
        }
    }
}

/* The first of several that are equally near; no name of more than 63. */
static void
test_nearest_order(void **state)
{
    struct nearest search = {.name = "abc"};
    char longer[66], other[66];

    (void)state;
    nearest_try(&search, "abx", "one");
    nearest_try(&search, "xbc", "two");
    assert_string_equal(search.best, "one");
    nearest_try(&search, "abC", "three");
    nearest_try(&search, "abc", "four");
    assert_string_equal(search.best, "three");
    memset(longer, 'a', 65);
    longer[63] = '\0';
    memcpy(other, longer, 64);
    search = (struct nearest){.name = longer};
    nearest_try(&search, other, "same");
    assert_string_equal(search.best, "same");
    strcat(other, "a");
    search = (struct nearest){.name = longer};
    nearest_try(&search, other, "longer");
    assert_null(search.best);
    search = (struct nearest){.name = other};
    nearest_try(&search, longer, "shorter");
    nearest_try(&search, other, "same");
    assert_null(search.best);
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
    cpu_set_t all, one;
    int i = 0;

    (void)state;
    unsetenv("BELL_THREADS");
    assert_true(thread_cpu_count() >= 1);
    setenv("BELL_THREADS", "7", 1);
    assert_int_equal(thread_cpu_count(), 7);
    unsetenv("BELL_THREADS");
    /* as many as this thread may run on */
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    while (!CPU_ISSET(i, &all))
        i++;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(thread_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void
test_thread_check(void **state)
{
    static const char *const good[] = {"1", "9", "01", "1024"};
    static const char *const bad[] = {
        "", "0", "1025", "-1", " 1", "1x", "x", "99999999999999999999"};
    size_t i;

    (void)state;
    unsetenv("BELL_THREADS");
    assert_int_equal(thread_check(), BELL_OK);
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        setenv("BELL_THREADS", good[i], 1);
        assert_int_equal(thread_check(), BELL_OK);
        assert_int_equal(thread_cpu_count(), strtoul(good[i], NULL, 10));
    }
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("BELL_THREADS", bad[i], 1);
        assert_int_equal(thread_check(), BELL_E_INVALID);
        assert_non_null(strstr(bell_error_last()->message, "', not 1 to 1024"));
        assert_true(thread_cpu_count() <= CPU_SETSIZE);
    }
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
        cmocka_unit_test(test_chosen_topics),
        cmocka_unit_test(test_init_reads_environment),
        cmocka_unit_test(test_writer),
        cmocka_unit_test(test_topics),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_stderr),
        cmocka_unit_test(test_mistyped),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_nearest_order),
        cmocka_unit_test(test_thread_count),
        cmocka_unit_test(test_thread_check),
        cmocka_unit_test(test_time_grows),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_chosen_topics_stay),
        cmocka_unit_test(test_file), /* last: lines go there from then on */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
