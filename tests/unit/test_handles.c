/* Handles: random lives of contexts, scopes and tensors against a model that
 * knows which handles live and what they denote. */
#include "tests/unit/tensor_host.h"

#include <stdio.h>
#include <stdlib.h>

#define N_SEQUENCES 10000
#define N_STEPS     40
#define N_CONTEXTS  3
#define MAX_SCOPES  5
#define MAX_LIVE    24
#define MAX_DEAD    3000

struct known {
    struct bell_tensor *t;
    uint64_t world; /* which context; they are counted */
    uint32_t scope;
    double value;
    const char *ended_by; /* of a dead one */
};

struct world {
    struct bell_context *ctx; /* NULL: none */
    uint64_t number;
    uint32_t n_scopes;
    struct known live[MAX_LIVE];
    uint32_t n_live;
};

struct model {
    struct world worlds[N_CONTEXTS];
    uint64_t n_worlds;
    struct known dead[MAX_DEAD]; /* the last ones, in a ring */
    uint64_t n_dead;
    uint64_t random;
    uint64_t n_told, n_long_ago;
};

static uint32_t
draw(struct model *m, uint32_t n)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->random >> 33) % n;
}

static void
bury(struct model *m, struct world *w, uint32_t i, const char *call)
{
    w->live[i].ended_by = call;
    m->dead[m->n_dead++ % MAX_DEAD] = w->live[i];
    w->live[i] = w->live[--w->n_live];
}

static void
add_live(struct world *w, struct bell_tensor *t, double value)
{
    assert_false(bell_is_error(t));
    w->live[w->n_live++] =
        (struct known){t, w->number, w->n_scopes - 1, value, NULL};
}

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static void
check_value(const struct known *k)
{
    double value = 0;

    expect_ok(bell_item_f64(k->t, &value));
    if (value != k->value)
        fail_msg("read %g, not %g", value, k->value);
}

static struct world *
world_of(struct model *m, const struct known *k)
{
    uint32_t i;

    for (i = 0; i < N_CONTEXTS; i++) {
        if (m->worlds[i].ctx && m->worlds[i].number == k->world)
            return &m->worlds[i];
    }
    return NULL;
}

/* The last failure tells what became of it, and names the call that failed. */
static void
check_told(struct model *m, const char *call, const struct known *k)
{
    const char *message = bell_error_last()->message;
    char fate[64];

    snprintf(fate, sizeof(fate), "was ended by %s", k->ended_by);
    if (strstr(message, fate))
        m->n_told++;
    else if (strstr(message, world_of(m, k)
                                 ? "was ended long ago"
                                 : "is of a context that was destroyed"))
        m->n_long_ago++;
    else
        fail_msg("'%s' in '%s'", fate, message);
    if (strncmp(message, call, strlen(call)) != 0)
        fail_msg("'%s' is not by %s", message, call);
    assert_int_equal(bell_error_last()->status, BELL_E_INVALID);
    bell_error_clear();
}

/* What failed is the context's first failure, if that lives. */
static void
check_recorded(struct model *m, const char *call, const struct known *k,
               struct world *w)
{
    if (!w) {
        check_told(m, call, k);
        return;
    }
    bell_error_clear();
    assert_int_not_equal(bell_context_status(w->ctx), BELL_OK);
    check_told(m, call, k);
    expect_ok(bell_context_status(w->ctx));
}

/* ---- steps ---- */

static void
begin_world(struct model *m, struct world *w)
{
    expect_ok(bell_context_create(NULL, &w->ctx));
    w->number = ++m->n_worlds;
    w->n_scopes = 1;
    w->n_live = 0;
}

static void
end_world(struct model *m, struct world *w)
{
    struct bell_context *ended = w->ctx;

    while (w->n_live)
        bury(m, w, w->n_live - 1, "bell_context_destroy");
    bell_context_destroy(w->ctx);
    w->ctx = NULL;
    assert_int_equal(bell_context_status(ended), BELL_E_INVALID);
    bell_error_clear();
    bell_context_destroy(ended);
    assert_string_equal(bell_error_last()->message,
                        "bell_context_destroy: the context was destroyed");
    bell_error_clear();
    assert_null(bell_zeros(ended, BELL_NO_DIMS, BELL_FLOAT64));
    assert_string_equal(bell_error_last()->message,
                        "bell_zeros: the context was destroyed");
    bell_error_clear();
}

static void
end_scope(struct model *m, struct world *w)
{
    uint32_t i;

    if (w->n_scopes == 1) {
        assert_int_equal(bell_scope_end(w->ctx), BELL_E_INVALID);
        bell_error_clear();
        return;
    }
    expect_ok(bell_scope_end(w->ctx));
    w->n_scopes--;
    for (i = w->n_live; i-- > 0;) {
        if (w->live[i].scope == w->n_scopes)
            bury(m, w, i, "bell_scope_end");
    }
}

static void
make_tensor(struct model *m, struct world *w)
{
    double value = draw(m, 1000);
    struct known *a, *b;

    if (w->n_live == MAX_LIVE)
        return;
    if (w->n_live < 2 || draw(m, 3) == 0) {
        add_live(w, bell_from_data(w->ctx, BELL_NO_DIMS, BELL_FLOAT64, &value),
                 value);
        return;
    }
    a = &w->live[draw(m, w->n_live)];
    b = &w->live[draw(m, w->n_live)];
    switch (draw(m, 3)) {
    case 0:
        add_live(w, bell_sub(a->t, b->t), a->value - b->value);
        break;
    case 1:
        add_live(w, bell_maximum(a->t, b->t),
                 a->value > b->value ? a->value : b->value);
        break;
    default:
        add_live(w, bell_alias(a->t), a->value);
        break;
    }
}

static void
move_tensor(struct model *m, struct world *w)
{
    uint32_t i = w->n_live ? draw(m, w->n_live) : 0;
    struct known *k = &w->live[i];

    if (!w->n_live)
        return;
    switch (draw(m, 4)) {
    case 0:
        bell_tensor_release(k->t);
        bury(m, w, i, "bell_tensor_release");
        break;
    case 1:
        assert_ptr_equal(bell_keep(k->t), k->t);
        k->scope -= k->scope > 0;
        break;
    case 2:
        assert_ptr_equal(bell_keep_forever(k->t), k->t);
        k->scope = 0;
        break;
    default:
        check_value(k);
        break;
    }
}

/* A handle that ended, given to a call: its context is told, or that of the
 * other argument. */
static void
use_dead(struct model *m, struct world *w)
{
    const struct known *k;
    struct world *told;
    double value = 17;
    uint64_t n = m->n_dead < MAX_DEAD ? m->n_dead : MAX_DEAD;

    if (!n)
        return;
    /* Half of the time one of the last. */
    k = &m->dead[(m->n_dead - 1 -
                  draw(m, n > 32 && draw(m, 2) ? 32 : (uint32_t)n)) %
                 MAX_DEAD];
    told = world_of(m, k);
    switch (draw(m, 7)) {
    case 0:
        assert_int_equal(bell_item_f64(k->t, &value), BELL_E_INVALID);
        assert_true(value == 17);
        check_told(m, "bell_item_f64", k);
        break;
    case 1:
        bell_error_clear();
        bell_tensor_release(k->t); /* once more: nothing happens */
        assert_int_equal(bell_error_last()->status, BELL_OK);
        if (told)
            expect_ok(bell_context_status(told->ctx));
        break;
    case 2:
        assert_true(bell_is_error(bell_keep(k->t)));
        check_recorded(m, "bell_keep", k, told);
        break;
    case 3:
        assert_int_equal(bell_numel(k->t), 0);
        check_recorded(m, "bell_numel", k, told);
        break;
    case 4:
        assert_null(bell_context_of(k->t));
        check_recorded(m, "bell_context_of", k, told);
        break;
    case 5:
        assert_true(bell_is_error(bell_neg(k->t)));
        check_recorded(m, "bell_neg", k, told);
        break;
    default:
        if (!w->n_live)
            break;
        told = told ? told : w;
        assert_true(
            bell_is_error(bell_add(w->live[draw(m, w->n_live)].t, k->t)));
        check_recorded(m, "bell_add", k, told);
        break;
    }
    assert_true(bell_is_error(k->t));
}

static void
random_step(struct model *m)
{
    struct world *w = &m->worlds[draw(m, N_CONTEXTS)];
    uint32_t what = draw(m, 32);

    if (!w->ctx) {
        if (what < 8)
            begin_world(m, w);
    } else if (what < 1) {
        end_world(m, w);
    } else if (what < 4 && w->n_scopes < MAX_SCOPES) {
        expect_ok(bell_scope_begin(w->ctx));
        w->n_scopes++;
    } else if (what < 7) {
        end_scope(m, w);
    } else if (what < 16) {
        make_tensor(m, w);
    } else if (what < 24) {
        move_tensor(m, w);
    } else {
        use_dead(m, w);
    }
}

static void
test_random_lives(void **state)
{
    struct model *m = calloc(1, sizeof(*m));
    uint32_t i, k, at;

    (void)state;
    assert_non_null(m);
    m->random = 42;
    for (i = 0; i < N_SEQUENCES; i++) {
        for (k = 0; k < N_STEPS; k++)
            random_step(m);
        for (at = 0; at < N_CONTEXTS; at++) {
            struct world *w = &m->worlds[at];
            for (k = 0; k < w->n_live; k++)
                check_value(&w->live[k]);
            if (w->ctx && draw(m, 4) == 0)
                end_world(m, w);
        }
    }
    for (at = 0; at < N_CONTEXTS; at++) {
        if (m->worlds[at].ctx)
            end_world(m, &m->worlds[at]);
    }
    printf("%llu contexts, %llu handles ended; told by what %llu times, long "
           "ago %llu\n",
           (unsigned long long)m->n_worlds, (unsigned long long)m->n_dead,
           (unsigned long long)m->n_told, (unsigned long long)m->n_long_ago);
    assert_true(m->n_told > 10000);
    free(m);
}

/* ---- numbers that are not a handle ---- */

static void
test_no_handles(void **state)
{
    struct bell_tensor *x = bell_zeros(ctx, BELL_DIMS(2), BELL_FLOAT64);
    uintptr_t bits = (uintptr_t)x, bad;
    uint32_t i;
    double out[2];

    (void)state;
    assert_true(bits & 1);
    for (i = 0; i < 64; i++) {
        bad = bits ^ (uintptr_t)1 << i;
        assert_true(bell_is_error((struct bell_tensor *)bad));
        assert_int_equal(bell_read((struct bell_tensor *)bad, out, sizeof(out)),
                         BELL_E_INVALID);
        bell_error_clear();
        if (bell_context_status(ctx) != BELL_OK)
            bell_error_clear();
    }
    assert_int_equal(bell_read((struct bell_tensor *)out, out, sizeof(out)),
                     BELL_E_INVALID);
    assert_string_equal(bell_error_last()->message,
                        "bell_read: the tensor is not a tensor");
    bell_error_clear();
    EXPECT(x, 0, 0);
}

/* Slots are used again, and their handles are others each time. */
static void
test_generations(void **state)
{
    struct bell_tensor *x, *last = NULL;
    struct bell_context_info info = {.struct_size = sizeof(info)};
    uint32_t i;

    (void)state;
    for (i = 0; i < 20000; i++) {
        x = bell_scalar(ctx, i);
        assert_ptr_not_equal(x, last);
        bell_tensor_release(x);
        assert_true(bell_is_error(x));
        last = x;
    }
    bell_context_get_info(ctx, &info);
    assert_int_equal(info.n_tensors, 0);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, make_context, end_context)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_random_lives),
        TEST(test_no_handles),
        TEST(test_generations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
