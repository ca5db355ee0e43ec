/* The lock that nobody waits for: never two threads inside, whatever the order,
 * and never a refusal where nobody is inside. With the kernel's fence and
 * without. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/thread.h"
#include "base/try_lock.h"

static _Atomic int fence_mode; /* 0: the kernel's; 1: there is none */
static _Atomic int n_fences;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long
__wrap_syscall(long number, ...)
{
    va_list list;
    long args[3];
    size_t i;

    va_start(list, number);
    for (i = 0; i < 3; i++)
        args[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_membarrier) {
        n_fences += args[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED;
        if (fence_mode) {
            errno = ENOSYS;
            return -1;
        }
    }
    return __real_syscall(number, args[0], args[1], args[2]);
}

struct shared {
    struct try_lock lock;
    pthread_mutex_t turn;
    _Atomic int n_ready, n_threads;
    int64_t counter; /* of who is inside */
    int n_turns;
};

/* As public calls do. */
static struct try_lock_owner *
enter(struct try_lock *lock, const char *call, const char **out_other)
{
    struct try_lock_owner *owner = try_lock_enter(lock, call);

    *out_other = NULL;
    return owner ? owner : try_lock_take(lock, call, out_other);
}

static void
test_nested(void **state)
{
    struct try_lock lock = {0};
    struct try_lock_owner *owner, *again;
    const char *other = "none";
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        owner = enter(&lock, "outer", &other);
        assert_non_null(owner);
        assert_null(other);
        assert_null(enter(&lock, "inner", &other));
        assert_null(other);
        try_lock_leave(&lock, owner);
    }
    again = try_lock_enter(&lock, "fast");
    assert_ptr_equal(again, owner);
    try_lock_leave_own(again);
}

/* ---- one after the other ---- */

static void *
take_turns(void *arg)
{
    struct shared *s = arg;
    const char *other;
    int i, n_bad = 0;

    for (i = 0; i < s->n_turns; i++) {
        struct try_lock_owner *owner;

        pthread_mutex_lock(&s->turn);
        owner = enter(&s->lock, "turn", &other);
        n_bad += !owner || other;
        n_bad += enter(&s->lock, "inner", &other) || other;
        s->counter++;
        if (owner)
            try_lock_leave(&s->lock, owner);
        pthread_mutex_unlock(&s->turn);
        sched_yield();
    }
    return (void *)(intptr_t)n_bad;
}

/* A lock is handed over any number of times; the kernel fences for the first
 * ones. */
static void
hand_over(int mode)
{
    struct shared s = {.n_turns = mode ? 40 : 2000};
    void *ended;
    pthread_t threads[4];
    int i, n_bad;

    fence_mode = mode;
    n_fences = 0;
    assert_int_equal(pthread_mutex_init(&s.turn, NULL), 0);
    for (i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &s), 0);
    for (i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &ended), 0);
        n_bad = (int)(intptr_t)ended;
        assert_int_equal(n_bad, 0);
    }
    pthread_mutex_destroy(&s.turn);
    fence_mode = 0;
    assert_int_equal(s.counter, 4 * s.n_turns);
    assert_in_range(n_fences, 0, 2 * TRY_LOCK_OWNERS);
}

static void
test_hand_over(void **state)
{
    (void)state;
    hand_over(0);
    hand_over(1);
}

/* ---- at once ---- */

static void *
contend(void *arg)
{
    struct shared *s = arg;
    const char *other;
    int i, n_inside = 0;

    s->n_ready++;
    while (s->n_ready < s->n_threads)
        sched_yield();
    for (i = 0; i < s->n_turns; i++) {
        struct try_lock_owner *owner = enter(&s->lock, "contend", &other);

        if (!owner) {
            if (!other || strcmp(other, "contend") != 0)
                return (void *)(intptr_t)-1;
            continue;
        }
        s->counter++;
        n_inside++;
        try_lock_leave(&s->lock, owner);
        if (i % 64 == 0)
            sched_yield();
    }
    return (void *)(intptr_t)n_inside;
}

static void
test_contend(void **state)
{
    void *ended;
    pthread_t threads[4];
    int round, i, n, n_inside;

    (void)state;
    for (round = 0; round < 200; round++) {
        struct shared s = {.n_turns = 500, .n_threads = 2 + round % 3};

        n_inside = 0;
        for (i = 0; i < s.n_threads; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, contend, &s), 0);
        for (i = 0; i < s.n_threads; i++) {
            assert_int_equal(pthread_join(threads[i], &ended), 0);
            n = (int)(intptr_t)ended;
            assert_true(n >= 0);
            n_inside += n;
        }
        assert_int_equal(s.counter, n_inside);
    }
}

/* ---- the moment of a hand-over ---- */

#define N_LOCKS 20000

struct pair {
    struct shared locks[N_LOCKS];
    _Atomic int arrived[N_LOCKS];
};

/* Both threads come to each lock at the same time, which is new: one owns it
 * and goes in and out by plain stores while the other takes it over. */
static void *
meet(void *arg)
{
    struct pair *p = arg;
    const char *other;
    int i, k, spins, n_inside = 0;

    for (i = 0; i < N_LOCKS; i++) {
        struct shared *s = &p->locks[i];

        p->arrived[i]++;
        for (spins = 0; p->arrived[i] < 2; spins++) {
            if (spins > 2000)
                sched_yield();
        }
        for (k = 0; k < 12; k++) {
            struct try_lock_owner *owner = enter(&s->lock, "meet", &other);
            volatile int64_t *counter = &s->counter;
            int64_t before;

            if (!owner)
                continue;
            before = *counter;
            thread_relax();
            *counter = before + 1;
            n_inside++;
            try_lock_leave(&s->lock, owner);
        }
    }
    return (void *)(intptr_t)n_inside;
}

static void
test_meet(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));
    pthread_t threads[2];
    int64_t n_inside = 0, n_counted = 0;
    void *ended;
    int i;

    (void)state;
    assert_non_null(p);
    for (i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, meet, p), 0);
    for (i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &ended), 0);
        n_inside += (intptr_t)ended;
    }
    for (i = 0; i < N_LOCKS; i++)
        n_counted += p->locks[i].counter;
    free(p);
    assert_int_equal(n_counted, n_inside);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_hand_over),
        cmocka_unit_test(test_contend),
        cmocka_unit_test(test_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
