/* A context is for one thread at a time: a call from a second one is refused by
 * name and touches nothing, every public call is one of those, and results are
 * right or refused where two threads call what they like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/misuse.h"

#include "tests/unit/expect.h"

/* Calls that are for any thread at any time, and why. */
static const char *const open_calls[][2] = {
    {"bell_context_of", "a handle is of one context for ever"},
    {"bell_is_error", "the error tensor is one for ever"},
    {"bell_state_add_number", "a list of its caller, and no tensor"},
    {"bell_state_find", "likewise"},
    {"bell_state_fini", "likewise"},
    {"bell_module_state", "looks at handles alone"},
    {"bell_params_add_state", "likewise"},
    {"bell_params_add_module", "likewise"},
};

static bool
is_open(const struct misuse_call *call)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(open_calls); i++) {
        if (strcmp(call->name, open_calls[i][0]) == 0)
            return true;
    }
    if (!call->n_tensors && !call->kinds && !call->wholes)
        return true; /* it is given no object */
    /* a file is of no context */
    return call->kinds == 1u << 4 && !call->n_tensors &&
           strcmp(call->name, "bell_state_load") != 0;
}

/* ---- each call ---- */

struct holder {
    struct bell_module_type type;
    struct bell_module_field field;
    struct bell_state_item item;
    struct bell_state state;
    struct {
        struct bell_tensor *weight;
    } module;
    struct misuse m;
    int n_refused, n_bad;
};

/* The second thread: all calls but the open ones are refused. */
static void *
call_all(void *arg)
{
    struct holder *h = arg;
    size_t i;

    for (i = 0; i < ARRAY_LEN(misuse_calls); i++) {
        const struct misuse_call *call = &misuse_calls[i];
        const char *message = bell_error_last()->message;
        char want[160];

        if (is_open(call))
            continue;
        snprintf(want, sizeof(want),
                 "%s: the context is in use by another thread, in bell_custom",
                 call->name);
        bell_error_clear();
        (void)call->make(&h->m);
        if (strcmp(message, want) == 0 &&
            bell_error_last()->reason == BELL_REASON_THREAD) {
            h->n_refused++;
        } else {
            fprintf(stderr, "%s: '%s'\n", call->name, message);
            h->n_bad++;
        }
    }
    return NULL;
}

static struct bell_tensor *
call_from_another(struct bell_context *ctx, void *user,
                  struct bell_tensor *const *in, uint32_t n_in)
{
    struct bell_context_info before = {.struct_size = sizeof(before)},
                             after = {.struct_size = sizeof(after)};
    struct holder *h = user;
    pthread_t thread;

    bell_context_get_info(ctx, &before);
    if (pthread_create(&thread, NULL, call_all, h) != 0 ||
        pthread_join(thread, NULL) != 0)
        h->n_bad++;
    bell_context_get_info(ctx, &after);
    h->n_bad += memcmp(&before, &after, sizeof(before)) != 0;
    return bell_add(in[0], in[n_in - 1]);
}

static bell_status
no_gradient(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
            uint32_t n_in, struct bell_tensor *out, struct bell_tensor *grad,
            struct bell_tensor **out_grads)
{
    (void)ctx, (void)user, (void)in, (void)n_in, (void)out, (void)grad;
    (void)out_grads;
    return BELL_E_UNSUPPORTED;
}

static bell_status
same(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    (void)ctx;
    (void)user;
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

static void
test_every_call(void **state)
{
    static float items[4];
    const struct bell_loader_field field = {.dtype = BELL_FLOAT32,
                                            .data = items};
    const struct bell_loader_desc loader = {.struct_size = sizeof(loader),
                                            .fields = &field,
                                            .n_fields = 1,
                                            .n_items = 4,
                                            .n_batch = 2};
    const struct bell_sgd_options sgd = {.struct_size = sizeof(sgd), .lr = 0.1};
    struct holder *h = calloc(1, sizeof(*h));
    const struct bell_custom_desc desc = {.struct_size = sizeof(desc),
                                          .forward = call_from_another,
                                          .backward = no_gradient,
                                          .user = h};
    const struct bell_jit_desc jit = {sizeof(jit), "same", same, NULL, 1, 1};
    struct misuse *m = &h->m;
    struct bell_tensor *w, *y;
    double value;

    (void)state;
    assert_non_null(h);
    expect_ok(bell_context_create("CPU", &m->ctx));
    m->bad_tensor = m->null_pointer = UINT32_MAX - 1;
    m->good = bell_full(m->ctx, BELL_DIMS(1, 1), 1, BELL_FLOAT32);
    w = bell_requires_grad(
        bell_contiguous(bell_ones(m->ctx, BELL_DIMS(3), BELL_FLOAT32)), true);
    expect_ok(bell_sgd_create(&w, 1, &sgd, &m->optimizer));
    expect_ok(bell_loader_create(m->ctx, &loader, &m->loader));
    expect_ok(bell_jit_create(m->ctx, &jit, &m->jit));
    m->onnx = misuse_open_model(m->ctx);
    assert_non_null(m->onnx);
    assert_true(misuse_open_lm(m));
    h->module.weight = w;
    h->field =
        (struct bell_module_field){.name = "weight", .kind = BELL_FIELD_PARAM};
    h->type = (struct bell_module_type){sizeof(h->module), &h->field, 1};
    h->item = (struct bell_state_item){
        .name = "weight", .kind = BELL_STATE_PARAM, .tensor = w};
    h->state = (struct bell_state){.items = &h->item, .n = 1};
    m->state = &h->state;
    m->type = &h->type;
    m->module = &h->module;

    y = bell_custom(&desc, &m->good, 1);
    expect_ok(bell_context_status(m->ctx));
    expect_ok(bell_item_f64(y, &value));
    assert_true(value == 2);
    assert_int_equal(h->n_bad, 0);
    printf("%d calls refused\n", h->n_refused);
    assert_true(h->n_refused > 350);

    bell_optimizer_destroy(m->optimizer);
    bell_loader_destroy(m->loader);
    bell_jit_destroy(m->jit);
    bell_onnx_close(m->onnx);
    misuse_close_lm(m);
    bell_context_destroy(m->ctx);
    free(h);
}

/* ---- two threads that call what they like ---- */

struct rivals {
    struct bell_context *ctx;
    _Atomic int n_ready;
    int n_rounds;
};

static bool
is_refused(void)
{
    return bell_error_last()->reason == BELL_REASON_THREAD &&
           strstr(bell_error_last()->message,
                  ": the context is in use by another thread, in bell_");
}

/* Gives a tensor back, which takes until nobody else is inside. */
static void
give_back(struct bell_tensor *t)
{
    do {
        bell_error_clear();
        bell_tensor_release(t);
    } while (is_refused());
}

/* One call's result: right, or refused, by this call or one before. */
static bool
is_fair(const struct bell_tensor *t, bool *was_refused)
{
    if (!bell_is_error(t))
        return true;
    *was_refused |= is_refused();
    return *was_refused;
}

static void *
rival(void *arg)
{
    struct rivals *r = arg;
    int k, n_bad = 0, n_right = 0, n_tries = 0;

    r->n_ready++;
    while (r->n_ready < 2)
        sched_yield();
    while (n_right < r->n_rounds && n_bad == 0) {
        struct bell_tensor *t[4];
        bool was_refused = false;
        double value = -1;
        bell_status status;

        bell_error_clear();
        n_tries++;
        t[0] = bell_full(r->ctx, BELL_DIMS(3, 5), n_right, BELL_FLOAT32);
        n_bad += !is_fair(t[0], &was_refused);
        t[1] = bell_arange(r->ctx, 0, 5, 1, BELL_FLOAT32);
        n_bad += !is_fair(t[1], &was_refused);
        t[2] = bell_add(t[0], t[1]);
        n_bad += !is_fair(t[2], &was_refused);
        t[3] = bell_sum(t[2], BELL_NO_DIMS, false);
        n_bad += !is_fair(t[3], &was_refused);
        status = bell_item_f64(t[3], &value);
        if (status == BELL_OK) {
            n_bad += value != 15.0 * n_right + 30 || was_refused;
            n_right++;
        } else if (!was_refused && !is_refused()) {
            fprintf(stderr, "%s\n", bell_error_last()->message);
            n_bad++;
        }
        for (k = 0; k < 4; k++) {
            if (!bell_is_error(t[k]))
                give_back(t[k]);
        }
        if (was_refused || status != BELL_OK)
            sched_yield();
    }
    return (void *)(intptr_t)(n_bad ? -n_bad : n_tries);
}

static void
run_rivals(const char *device, int n_rounds)
{
    struct rivals r = {.n_rounds = n_rounds};
    struct bell_context_info before = {.struct_size = sizeof(before)},
                             after = {.struct_size = sizeof(after)};
    struct bell_tensor *t;
    void *ended;
    pthread_t threads[2];
    int i, n, n_tries = 0;
    double value;

    expect_ok(bell_context_create(device, &r.ctx));
    bell_context_get_info(r.ctx, &before);
    for (i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, rival, &r), 0);
    for (i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &ended), 0);
        n = (int)(intptr_t)ended;
        assert_true(n >= 0);
        n_tries += n;
    }
    printf("%s: %d sums right, %d refused\n", device, 2 * n_rounds,
           n_tries - 2 * n_rounds);
    expect_ok(bell_context_status(r.ctx));
    bell_context_get_info(r.ctx, &after);
    assert_int_equal(after.n_tensors, before.n_tensors);
    t = bell_full(r.ctx, BELL_DIMS(4), 2, BELL_FLOAT32);
    expect_ok(bell_item_f64(bell_sum(t, BELL_NO_DIMS, false), &value));
    assert_true(value == 8);
    bell_context_destroy(r.ctx);
}

static void
test_rivals(void **state)
{
    (void)state;
    run_rivals("CPU", 2000);
    run_rivals("NV@sim:sm_90", 200);
    run_rivals("AMD@sim:gfx1100", 200);
}

/* ---- one after the other ---- */

struct relay {
    struct bell_context *ctx;
    pthread_mutex_t turn;
    int n_turns;
};

static void *
run_relay(void *arg)
{
    struct relay *r = arg;
    int i, n_bad = 0;

    for (i = 0; i < r->n_turns; i++) {
        double value = 0;

        pthread_mutex_lock(&r->turn);
        n_bad += bell_scope_begin(r->ctx) != BELL_OK;
        n_bad += bell_item_f64(
                     bell_neg(bell_full(r->ctx, BELL_NO_DIMS, i, BELL_FLOAT32)),
                     &value) != BELL_OK;
        n_bad += value != -i;
        n_bad += bell_scope_end(r->ctx) != BELL_OK;
        pthread_mutex_unlock(&r->turn);
        sched_yield();
    }
    return (void *)(intptr_t)n_bad;
}

/* A context goes from thread to thread, and none is refused. */
static void
test_relay(void **state)
{
    struct relay r = {.n_turns = 200};
    void *ended;
    pthread_t threads[3];
    int i, n_bad;

    (void)state;
    expect_ok(bell_context_create("CPU", &r.ctx));
    assert_int_equal(pthread_mutex_init(&r.turn, NULL), 0);
    for (i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_relay, &r), 0);
    for (i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], &ended), 0);
        n_bad = (int)(intptr_t)ended;
        assert_int_equal(n_bad, 0);
    }
    pthread_mutex_destroy(&r.turn);
    bell_context_destroy(r.ctx);
}

/* A call that mixes two contexts up fails in the one that it entered, and tells
 * the other nothing while another thread is in that. */
struct mixed {
    struct bell_context *own;
    struct bell_tensor *mine, *others;
    int n_bad;
};

static void *
mix_up(void *arg)
{
    struct mixed *m = arg;

    (void)bell_add(m->mine, m->others);
    if (bell_context_status(m->own) == BELL_OK ||
        !strstr(bell_error_last()->message, "different contexts"))
        m->n_bad++;
    return NULL;
}

static struct bell_tensor *
mix_inside(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
           uint32_t n_in)
{
    struct mixed *m = user;
    pthread_t thread;

    if (pthread_create(&thread, NULL, mix_up, m) != 0 ||
        pthread_join(thread, NULL) != 0)
        m->n_bad++;
    m->n_bad += bell_context_status(ctx) != BELL_OK;
    return bell_neg(in[n_in - 1]);
}

static void
test_mixed(void **state)
{
    struct mixed m = {0};
    const struct bell_custom_desc desc = {.struct_size = sizeof(desc),
                                          .forward = mix_inside,
                                          .backward = no_gradient,
                                          .user = &m};
    struct bell_context *ctx;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    expect_ok(bell_context_create("CPU", &m.own));
    m.others = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT32);
    m.mine = bell_ones(m.own, BELL_DIMS(2), BELL_FLOAT32);
    expect_ok(bell_realize1(bell_custom(&desc, &m.others, 1)));
    assert_int_equal(m.n_bad, 0);
    bell_context_destroy(m.own);
    bell_context_destroy(ctx);
}

/* ---- two contexts ---- */

struct visited {
    struct bell_context *ctx;
    _Atomic bool ends;
    int n_bad;
};

static void *
work_inside(void *arg)
{
    struct visited *v = arg;

    while (!v->ends) {
        double value = 0;
        struct bell_tensor *t;
        bell_status status;

        bell_error_clear();
        t = bell_full(v->ctx, BELL_DIMS(2), 3, BELL_FLOAT32);
        status = bell_item_f64(bell_sum(t, BELL_NO_DIMS, false), &value);
        v->n_bad += status == BELL_OK
                        ? value != 6
                        : bell_error_last()->reason != BELL_REASON_THREAD;
    }
    return NULL;
}

/* bell_to enters both contexts, or is refused. */
static void
test_visits(void **state)
{
    struct visited v = {.n_bad = 0};
    struct bell_context *ctx;
    struct bell_tensor *mine, *t;
    pthread_t thread;
    double value;
    int i, n_right = 0;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    expect_ok(bell_context_create("CPU", &v.ctx));
    mine = bell_contiguous(bell_ones(ctx, BELL_DIMS(3), BELL_FLOAT32));
    expect_ok(bell_realize1(mine));
    assert_int_equal(pthread_create(&thread, NULL, work_inside, &v), 0);
    for (i = 0; i < 2000; i++) {
        bell_error_clear();
        t = bell_to(mine, v.ctx);
        if (bell_is_error(t)) {
            assert_true(is_refused());
            sched_yield();
            continue;
        }
        n_right++;
        give_back(t);
    }
    v.ends = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(v.n_bad, 0);
    printf("%d of 2000 visits\n", n_right);
    expect_ok(bell_context_status(v.ctx));
    expect_ok(bell_item_f64(bell_sum(bell_to(mine, v.ctx), BELL_NO_DIMS, false),
                            &value));
    assert_true(value == 3);
    bell_context_destroy(ctx);
    bell_context_destroy(v.ctx);
}

static bell_status
destroy_it(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
           struct bell_tensor **out)
{
    (void)user;
    bell_context_destroy(ctx);
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

/* Calls that are inside one context take nothing of another, and a jit's
 * function does not end its own. */
static void
test_strangers(void **state)
{
    const struct bell_jit_desc desc = {sizeof(desc), "ends", destroy_it,
                                       NULL,         1,      1};
    struct bell_context *ctx, *other;
    struct bell_tensor *t[2], *out;
    struct bell_state_item items[2] = {{"a", BELL_STATE_PARAM, NULL, NULL},
                                       {"b", BELL_STATE_PARAM, NULL, NULL}};
    struct bell_state list = {.items = items, .n = 2};
    struct bell_arg args[1];
    struct bell_call call = {.args = args, .n_args = 1};
    struct bell_jit *jit;

    (void)state;
    expect_ok(bell_context_create("CPU", &ctx));
    expect_ok(bell_context_create("CPU", &other));
    items[0].tensor = t[0] = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT32);
    items[1].tensor = t[1] = bell_ones(other, BELL_DIMS(2), BELL_FLOAT32);
    args[0] = (struct bell_arg){NULL, bell_of_tensor(t[1])};
    call.function = bell_function_find("neg");
    expect_fails(bell_function_call(ctx, &call), BELL_E_INVALID,
                 "neg: argument 0 is a tensor of another context");
    call.function = (const struct bell_function *)(uintptr_t)64;
    expect_fails(bell_function_call(ctx, &call), BELL_E_INVALID,
                 "the function is not a row of the table");
    expect_fails(bell_state_requires_grad(&list, NULL, true), BELL_E_INVALID,
                 "'b' is a tensor of another context");
    expect_fails(bell_checkpoint_save("/nowhere/x", ctx, &list, 1),
                 BELL_E_INVALID, "'b' is a tensor of another context");
    expect_fails(bell_state_add_number(&list, "", "n", NULL), BELL_E_INVALID,
                 "the number is NULL");
    assert_int_equal(list.n, 2);
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_fails(bell_jit_call(jit, t, &out), BELL_E_INVALID,
                 "bell_context_destroy: a jit's function is running");
    bell_context_destroy(ctx);
    bell_context_destroy(other);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call), cmocka_unit_test(test_rivals),
        cmocka_unit_test(test_relay),      cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_visits),     cmocka_unit_test(test_strangers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
