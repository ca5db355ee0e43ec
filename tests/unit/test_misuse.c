/* Every public call with what it must not be given: handles that ended,
 * contexts that were destroyed, NULL. An error each time, by its name, and
 * never a crash (misuse_gen.py). Below: objects that are not tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

#include "tests/unit/misuse.h"

static void
expect_ok(bell_status status)
{
    if (status != BELL_OK)
        fail_msg("%s", bell_error_last()->message);
}

static struct bell_context *
open_cpu(void)
{
    struct bell_context *ctx;

    expect_ok(bell_context_create("CPU", &ctx));
    return ctx;
}

/* Fails with `text` in the message. */
static void
expect_failure(bell_status status, const char *text)
{
    assert_int_not_equal(status, BELL_OK);
    if (!strstr(bell_error_last()->message, text))
        fail_msg("'%s' is not in '%s'", text, bell_error_last()->message);
    bell_error_clear();
}

static void
expect_told(const char *text)
{
    expect_failure(bell_error_last()->status, text);
}

/* Calls that do not fail on an ended handle. */
static bool
only_asks(const char *name)
{
    return strcmp(name, "bell_is_error") == 0 ||
           strcmp(name, "bell_tensor_release") == 0;
}

/* Frees what a call that did not fail has put into a list. */
static void
empty_lists(const struct misuse_call *call, struct misuse *m)
{
    if (strcmp(call->name, "bell_state_add") == 0)
        bell_state_fini((struct bell_state *)(void *)m->rooms[0]);
    if (strncmp(call->name, "bell_params_add", 15) == 0)
        bell_params_fini((struct bell_params *)(void *)m->rooms[0]);
}

/* Makes the call; it must fail, with a reason that has `text`, if any. Returns
 * 1 if it did not. */
static int
must_fail(const struct misuse_call *call, struct misuse *m,
          struct bell_context *told, const char *text)
{
    const char *message = bell_error_last()->message;
    bool failed;

    if (getenv("BELL_TEST_NAMES"))
        fprintf(stderr, "%s tensor %d pointer %d\n", call->name,
                (int)m->bad_tensor, (int)m->null_pointer);
    bell_error_clear();
    failed = call->make(m);
    empty_lists(call, m);
    failed |= bell_error_last()->status != BELL_OK;
    if (told && bell_context_status(told) != BELL_OK)
        failed = true;
    if (only_asks(call->name) || !text || (failed && strstr(message, text)))
        return 0;
    fprintf(stderr, "%s, tensor %d: %s\n", call->name, (int)m->bad_tensor,
            failed ? message : "no failure");
    return 1;
}

static struct misuse *
make_misuse(void)
{
    struct misuse *m = calloc(1, sizeof(*m));

    assert_non_null(m);
    m->bad_tensor = m->null_pointer = UINT32_MAX - 1;
    m->ctx = open_cpu();
    m->good = bell_full(m->ctx, BELL_DIMS(1, 1), 1, BELL_FLOAT32);
    return m;
}

static void
test_ended_tensors(void **state)
{
    struct misuse *m = make_misuse();
    int n_bad = 0;
    size_t i;
    uint32_t k;

    (void)state;
    expect_ok(bell_scope_begin(m->ctx));
    m->bad = bell_zeros(m->ctx, BELL_DIMS(1, 1), BELL_FLOAT32);
    expect_ok(bell_scope_end(m->ctx));
    for (i = 0; i < ARRAY_LEN(misuse_calls); i++) {
        const struct misuse_call *call = &misuse_calls[i];
        if (!call->n_tensors)
            continue;
        expect_ok(bell_scope_begin(m->ctx));
        m->bad_tensor = UINT32_MAX;
        n_bad += must_fail(call, m, m->ctx, call->has_object ? "" : "ended");
        for (k = 0; call->n_tensors > 1 && k < call->n_tensors; k++) {
            m->bad_tensor = k;
            n_bad +=
                must_fail(call, m, m->ctx, call->has_object ? "" : "ended");
        }
        expect_ok(bell_scope_end(m->ctx));
    }
    bell_context_destroy(m->ctx);
    free(m);
    assert_int_equal(n_bad, 0);
}

static void
test_destroyed_contexts(void **state)
{
    struct misuse *m = make_misuse();
    int n_bad = 0;
    size_t i;

    (void)state;
    m->bad = bell_zeros(m->ctx, BELL_DIMS(1, 1), BELL_FLOAT32);
    m->bad_tensor = UINT32_MAX;
    bell_context_destroy(m->ctx);
    for (i = 0; i < ARRAY_LEN(misuse_calls); i++) {
        const struct misuse_call *call = &misuse_calls[i];
        if (!call->n_tensors && !call->has_ctx)
            continue;
        n_bad += must_fail(call, m, NULL,
                           call->has_object ? ""
                           : call->has_ctx  ? "the context was destroyed"
                                            : "ended by bell_context_destroy");
    }
    free(m);
    assert_int_equal(n_bad, 0);
}

static void make_objects(struct misuse *m);
static void end_objects(struct misuse *m);

/* A module of one tensor, and a list that has it. */
struct owned {
    struct {
        struct bell_tensor *weight;
    } module;
    struct bell_module_field field;
    struct bell_module_type type;
    struct bell_state state;
};

static void
own(struct misuse *m, struct owned *o)
{
    o->module.weight = m->good;
    o->field =
        (struct bell_module_field){.name = "weight", .kind = BELL_FIELD_PARAM};
    o->type = (struct bell_module_type){
        .size_bytes = sizeof(o->module), .fields = &o->field, .n_fields = 1};
    expect_ok(bell_module_state(&o->type, &o->module, "known", &o->state));
    m->type = &o->type;
    m->module = &o->module;
    m->state = &o->state;
}

/* A list that was never begun has nothing to free; names may be missing. */
static bool
takes_null(const char *name, uint32_t pointer)
{
    return strcmp(name, "bell_state_fini") == 0 ||
           (strcmp(name, "bell_optimizer_state") == 0 && pointer == 0);
}

static void
test_null(void **state)
{
    struct misuse *m = make_misuse();
    struct bell_context *ctx = m->ctx;
    struct owned o = {.state = {0}};
    int n_bad = 0;
    size_t i;
    uint32_t k;

    (void)state;
    make_objects(m);
    own(m, &o);
    for (i = 0; i < ARRAY_LEN(misuse_calls); i++) {
        const struct misuse_call *call = &misuse_calls[i];
        if (strcmp(call->name, "bell_context_destroy") == 0)
            continue;
        expect_ok(bell_scope_begin(ctx));
        for (k = 0; k < call->n_tensors; k++) {
            m->bad_tensor = k;
            n_bad += must_fail(call, m, ctx, NULL);
        }
        m->bad_tensor = UINT32_MAX - 1;
        for (k = 0; k < call->n_pointers; k++) {
            bool must = call->wholes & 1u << k && !takes_null(call->name, k);
            m->null_pointer = k;
            n_bad += must_fail(call, m, ctx, must ? " is NULL" : NULL);
        }
        m->null_pointer = UINT32_MAX - 1;
        if (call->has_ctx) {
            m->ctx = NULL;
            n_bad += must_fail(call, m, ctx,
                               call->has_object ? "" : "the context is NULL");
            m->ctx = ctx;
        }
        if (bell_scope_end(ctx) != BELL_OK)
            bell_error_clear();
    }
    bell_state_fini(&o.state);
    end_objects(m);
    bell_context_destroy(ctx);
    free(m);
    assert_int_equal(n_bad, 0);
}

/* ---- addresses that are nothing ---- */

static bell_status
same(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
     struct bell_tensor **out)
{
    (void)ctx;
    (void)user;
    out[0] = bell_neg(in[0]);
    return BELL_OK;
}

static struct bell_file *
open_file(void)
{
    static const char text[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
                               "\"data_offsets\":[0,4]}}";
    uint64_t size = sizeof(text) - 1;
    char path[] = "/tmp/misuse-XXXXXX";
    int fd = mkstemp(path);
    struct bell_file *file = NULL;

    assert_true(fd >= 0 && write(fd, &size, 8) == 8 &&
                write(fd, text, size) == (ssize_t)size &&
                write(fd, "\0\0\0\0", 4) == 4);
    close(fd);
    (void)!bell_file_open(path, &file); /* NULL without a reader of JSON */
    unlink(path);
    return file;
}

/* One object of each kind, but for files where they cannot be read. */
static void
make_objects(struct misuse *m)
{
    static float items[4];
    const struct bell_loader_field field = {.dtype = BELL_FLOAT32,
                                            .data = items};
    struct bell_loader_desc loader = {.struct_size = sizeof(loader),
                                      .fields = &field,
                                      .n_fields = 1,
                                      .n_items = 4,
                                      .n_batch = 2};
    struct bell_jit_desc jit = {sizeof(jit), "same", same, NULL, 1, 1};
    struct bell_sgd_options sgd = {.struct_size = sizeof(sgd), .lr = 0.1};
    struct bell_tensor *w = bell_keep_forever(bell_requires_grad(
        bell_contiguous(bell_ones(m->ctx, BELL_DIMS(3), BELL_FLOAT32)), true));

    expect_ok(bell_jit_create(m->ctx, &jit, &m->jit));
    expect_ok(bell_loader_create(m->ctx, &loader, &m->loader));
    expect_ok(bell_sgd_create(&w, 1, &sgd, &m->optimizer));
    m->file = open_file();
    m->onnx = misuse_open_model(m->ctx);
    assert_true(misuse_open_lm(m));
}

static void
end_objects(struct misuse *m)
{
    bell_optimizer_destroy(m->optimizer);
    bell_loader_destroy(m->loader);
    bell_jit_destroy(m->jit);
    bell_file_close(m->file);
    bell_onnx_close(m->onnx);
    misuse_close_lm(m);
}

static void **
member(struct misuse *m, size_t kind)
{
    return (void **)(void *)((char *)m + misuse_kinds[kind].offset);
}

/* A number that is not an object, or an object of another kind: each call fails
 * and says so. NULL: no crash. */
static void
test_no_objects(void **state)
{
    struct misuse *m = make_misuse();
    struct bell_context *ctx = m->ctx;
    void *addresses[ARRAY_LEN(misuse_kinds) + 6], *kept;
    size_t i, k, at, n;
    char text[64];
    int n_bad = 0;

    (void)state;
    make_objects(m);
    for (k = 0; k < ARRAY_LEN(misuse_kinds); k++) {
        kept = *member(m, k);
        if (!kept)
            continue; /* no reader of files */
        n = 0;
        addresses[n++] = (void *)0x77777777777;
        addresses[n++] = (void *)1;
        addresses[n++] = (void *)UINTPTR_MAX;
        addresses[n++] = &n;
        addresses[n++] = (char *)kept + 8;
        addresses[n++] = (char *)kept + 64 * 4096;
        for (at = 0; at < ARRAY_LEN(misuse_kinds); at++) {
            if (at != k && *member(m, at))
                addresses[n++] = *member(m, at);
        }
        snprintf(text, sizeof(text), ": the %s is not a", misuse_kinds[k].name);
        for (i = 0; i < ARRAY_LEN(misuse_calls); i++) {
            if (!(misuse_calls[i].kinds & 1u << k))
                continue;
            for (at = 0; at < n; at++) {
                *member(m, k) = addresses[at];
                n_bad += must_fail(&misuse_calls[i], m, NULL, text);
            }
            *member(m, k) = NULL;
            n_bad += must_fail(&misuse_calls[i], m, NULL, NULL);
            *member(m, k) = kept;
            if (m->ctx == ctx)
                (void)!bell_context_status(ctx);
        }
    }
    end_objects(m);
    bell_context_destroy(ctx);
    for (k = 0; k < ARRAY_LEN(misuse_kinds); k++) {
        for (i = 0; i < ARRAY_LEN(misuse_calls) && *member(m, k); i++) {
            if (misuse_calls[i].kinds & 1u << k)
                n_bad += must_fail(&misuse_calls[i], m, NULL, "");
        }
    }
    free(m);
    assert_int_equal(n_bad, 0);
}

/* Numbers that are not handles: those of slots that nobody has used, with the
 * lowest bit and without it, and addresses. */
static void
test_no_tensors(void **state)
{
    struct misuse *m = make_misuse();
    struct bell_context *ctx = m->ctx;
    uintptr_t numbers[] = {
        1,           2, 3, 0x1fe, 0x200, (uintptr_t)&numbers, 0x77777777777,
        UINTPTR_MAX, 0, 0};
    int n_bad = 0;
    size_t i, at;

    (void)state;
    numbers[8] = (uintptr_t)bell_neg(m->good) & ~(uintptr_t)1;
    m->bad = bell_neg(m->good);
    bell_tensor_release(m->bad);
    numbers[9] = (uintptr_t)m->bad & ~(uintptr_t)1;
    m->bad_tensor = UINT32_MAX;
    for (at = 0; at < ARRAY_LEN(numbers); at++) {
        m->bad = (struct bell_tensor *)numbers[at];
        for (i = 0; i < ARRAY_LEN(misuse_calls); i++) {
            const struct misuse_call *call = &misuse_calls[i];
            if (call->n_tensors && !call->kinds)
                n_bad +=
                    must_fail(call, m, ctx, call->has_object ? "" : "not a t");
        }
    }
    bell_context_destroy(ctx);
    free(m);
    assert_int_equal(n_bad, 0);
}

/* ---- results ---- */

/* Calls that return their argument: they change it, or move it. */
static bool
returns_argument(const char *name)
{
    static const char *const names[] = {"bell_keep", "bell_keep_forever",
                                        "bell_requires_grad", "bell_assign",
                                        "bell_assign_slice"};
    size_t i;

    for (i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/* A result is a handle of its own, also where its value is an argument's. */
static void
test_new_results(void **state)
{
    static const enum bell_dtype dtypes[] = {BELL_BOOL, BELL_INT64,
                                             BELL_FLOAT32};
    const int64_t shape[3] = {1, 1, 1};
    struct misuse *m = make_misuse();
    int n_bad = 0, n_right = 0;
    uint32_t rank;
    size_t i, d;

    (void)state;
    for (i = 0; i < ARRAY_LEN(misuse_calls); i++) {
        const struct misuse_call *call = &misuse_calls[i];
        if (!call->n_tensors || !call->gives_tensor)
            continue;
        for (rank = 0; rank < 3; rank++) {
            for (d = 0; d < ARRAY_LEN(dtypes); d++) {
                expect_ok(bell_scope_begin(m->ctx));
                m->good = bell_full(m->ctx, shape, rank, 1, dtypes[d]);
                m->result = NULL;
                if (!call->make(m) && m->result) {
                    n_right++;
                    if (m->result == m->good && !returns_argument(call->name)) {
                        fprintf(stderr, "%s returns its argument\n",
                                call->name);
                        n_bad++;
                    }
                }
                (void)!bell_context_status(m->ctx);
                (void)!bell_scope_end(m->ctx);
            }
        }
    }
    bell_context_destroy(m->ctx);
    free(m);
    assert_true(n_right > 500);
    assert_int_equal(n_bad, 0);
}

/* A handle that ended is released again: nothing happens to its context. */
static void
test_release_again(void **state)
{
    struct bell_context *ctx = open_cpu();
    struct bell_tensor *t, *scoped, *gone;

    (void)state;
    t = bell_ones(ctx, BELL_DIMS(3), BELL_FLOAT32);
    gone = bell_neg(t);
    expect_ok(bell_scope_begin(ctx));
    scoped = bell_neg(t);
    expect_ok(bell_scope_end(ctx));
    bell_tensor_release(gone);
    bell_error_clear();
    bell_tensor_release(gone);
    bell_tensor_release(scoped);
    bell_tensor_release(NULL);
    bell_tensor_release(bell_error_tensor(ctx));
    assert_int_equal(bell_error_last()->status, BELL_OK);
    expect_ok(bell_realize1(t));
    bell_context_destroy(ctx);
    bell_tensor_release(t);
    assert_int_equal(bell_error_last()->status, BELL_OK);
    bell_tensor_release((struct bell_tensor *)0x77777777777);
    expect_told("bell_tensor_release: tensor argument 1 is not a tensor");
}

/* ---- contexts, optimisers, jits ---- */

static void
test_contexts(void **state)
{
    struct bell_context *ctx, *other;
    struct bell_tensor *t, *gone;

    (void)state;
    expect_failure(bell_context_create("CPU", NULL), "the result is NULL");
    expect_failure(bell_context_create(NULL, NULL), "the result is NULL");
    ctx = (struct bell_context *)&t;
    expect_failure(bell_context_create("NO:SUCH", &ctx), "NO");
    assert_null(ctx);
    ctx = open_cpu();
    t = bell_zeros(ctx, BELL_DIMS(3), BELL_FLOAT32);
    bell_context_destroy(ctx);
    bell_context_destroy(ctx);
    expect_told("bell_context_destroy: the context was destroyed");
    other = open_cpu();
    assert_ptr_not_equal(ctx, other);
    expect_failure(bell_scope_begin(ctx), "the context was destroyed");
    expect_failure(bell_realize1(t), "ended by bell_context_destroy");
    gone = bell_neg(t);
    assert_true(bell_is_error(gone));
    expect_told("bell_neg: tensor argument 1 was ended by "
                "bell_context_destroy");
    gone = bell_add(bell_relu(gone), gone);
    expect_told("bell_add: tensor argument 1 was ended by "
                "bell_context_destroy");
    expect_failure(bell_realize1(bell_sum(gone, BELL_NO_DIMS, false)),
                   "ended by bell_context_destroy");
    assert_true(bell_is_error(
        bell_add(bell_zeros(other, BELL_DIMS(3), BELL_FLOAT32), t)));
    expect_failure(bell_context_status(other),
                   "bell_add: tensor argument 2 is of a context that was "
                   "destroyed");
    bell_context_destroy(other);
}

/* Kept from two scopes deep: one scope further out, and no more. */
static void
test_keep_two_deep(void **state)
{
    struct bell_context *ctx = open_cpu();
    struct bell_tensor *t, *forever;
    double value;

    (void)state;
    expect_ok(bell_scope_begin(ctx));
    expect_ok(bell_scope_begin(ctx));
    t = bell_keep(bell_full(ctx, BELL_NO_DIMS, 3, BELL_FLOAT32));
    forever = bell_keep_forever(bell_full(ctx, BELL_NO_DIMS, 4, BELL_FLOAT32));
    expect_ok(bell_scope_end(ctx));
    expect_ok(bell_item_f64(t, &value));
    assert_true(value == 3);
    expect_ok(bell_scope_end(ctx));
    expect_failure(bell_item_f64(t, &value),
                   "bell_item_f64: the tensor was ended by bell_scope_end");
    (void)bell_keep(t);
    expect_failure(bell_context_status(ctx),
                   "bell_keep: tensor argument 1 was ended by bell_scope_end");
    expect_ok(bell_item_f64(forever, &value));
    assert_true(value == 4);
    bell_context_destroy(ctx);
}

static void
test_optimisers(void **state)
{
    struct bell_context *ctx = open_cpu();
    struct bell_tensor *w = bell_requires_grad(
        bell_contiguous(bell_ones(ctx, BELL_DIMS(3), BELL_FLOAT32)), true);
    struct bell_tensor *ints = bell_ones(ctx, BELL_DIMS(3), BELL_INT32);
    struct bell_sgd_options sgd = {.struct_size = sizeof(sgd), .lr = 0.1};
    struct bell_adam_options adam = {.struct_size = sizeof(adam), .lr = -1};
    struct bell_optimizer *opt = (struct bell_optimizer *)&ctx;

    (void)state;
    expect_failure(bell_adam_create(&w, 1, &adam, &opt), "lr is -1");
    assert_null(opt);
    expect_failure(bell_sgd_create(&ints, 1, &sgd, &opt), "float");
    assert_null(opt);
    expect_failure(bell_optimizer_step(opt, NULL, 0), "the optimiser is NULL");
    bell_optimizer_zero_grad(NULL);
    expect_told("bell_optimizer_zero_grad: the optimiser is NULL");
    expect_failure(bell_sgd_create(&w, 1, NULL, &opt), "options are NULL");
    expect_failure(bell_sgd_create(&w, 1, &sgd, NULL), "result is NULL");
    expect_failure(bell_sgd_create(NULL, 1, &sgd, &opt), "no parameters");

    expect_ok(bell_sgd_create(&w, 1, &sgd, &opt));
    expect_failure(bell_optimizer_step(opt, NULL, 1), "is NULL");
    expect_ok(bell_backward(bell_sum(w, NULL, 0, false)));
    expect_ok(bell_optimizer_step(opt, NULL, 0));
    bell_tensor_release(w);
    expect_failure(bell_optimizer_step(opt, NULL, 0),
                   "parameter 0 was ended by bell_tensor_release");
    bell_optimizer_zero_grad(opt);
    expect_failure(bell_context_status(ctx),
                   "parameter 0 was ended by bell_tensor_release");
    bell_optimizer_destroy(opt);
    bell_optimizer_destroy(opt);
    expect_told("bell_optimizer_destroy: the optimiser was destroyed");
    expect_failure(bell_optimizer_step(opt, NULL, 0), "was destroyed");

    w = bell_requires_grad(
        bell_contiguous(bell_ones(ctx, BELL_DIMS(3), BELL_FLOAT32)), true);
    adam.lr = 0.1;
    expect_ok(bell_adam_create(&w, 1, &adam, &opt));
    bell_context_destroy(ctx);
    expect_failure(bell_optimizer_step(opt, NULL, 0),
                   "bell_optimizer_step: the context was destroyed");
    bell_optimizer_destroy(opt);
    assert_int_equal(bell_error_last()->status, BELL_OK);
}

static bell_status
twice(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
      struct bell_tensor **out)
{
    (void)ctx;
    if (user)
        bell_jit_destroy(*(struct bell_jit **)user);
    out[0] = bell_add(in[0], in[0]);
    return BELL_OK;
}

static void
test_jits(void **state)
{
    struct bell_context *ctx = open_cpu();
    struct bell_tensor *x = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT32), *y;
    struct bell_jit *jit = (struct bell_jit *)&ctx;
    struct bell_jit_desc desc = {sizeof(desc), "twice", twice, NULL, 1, 1};
    struct bell_jit_info info = {.struct_size = sizeof(info)};

    (void)state;
    expect_failure(bell_jit_create(NULL, &desc, &jit), "the context is NULL");
    assert_null(jit);
    expect_failure(bell_jit_create(ctx, &desc, NULL), "the result is NULL");
    expect_failure(bell_jit_call(NULL, &x, &y), "the jit is NULL");
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_ok(bell_jit_call(jit, &x, &y));
    bell_tensor_release(x);
    expect_failure(bell_jit_call(jit, &x, &y), "ended by bell_tensor_release");
    bell_jit_destroy(jit);
    bell_jit_destroy(jit);
    expect_told("bell_jit_destroy: the jit was destroyed");
    expect_failure(bell_jit_call(jit, &y, &x), "the jit was destroyed");
    bell_jit_get_info(jit, &info);
    expect_told("bell_jit_get_info: the jit was destroyed");

    desc.user = &jit;
    x = bell_ones(ctx, BELL_DIMS(2), BELL_FLOAT32);
    expect_ok(bell_jit_create(ctx, &desc, &jit));
    expect_failure(bell_jit_call(jit, &x, &y),
                   "'twice' is destroyed inside its function");
    bell_context_destroy(ctx);
    expect_failure(bell_jit_call(jit, &x, &y),
                   "the context of 'twice' was destroyed");
    bell_jit_destroy(jit);
}

static void
test_files(void **state)
{
    struct bell_file *file = (struct bell_file *)&file;
    int64_t value;

    (void)state;
    expect_failure(bell_file_open("/no/such/file", &file), "/no/such/file");
    assert_null(file);
    bell_file_close(NULL);
    assert_int_equal(bell_file_count(NULL), 0);
    expect_told("bell_file_count: the file is NULL");
    file = open_file();
    if (!file)
        return;
    assert_int_equal(bell_file_count(file), 1);
    bell_file_close(file);
    assert_null(bell_file_find(file, "a"));
    expect_told("bell_file_find: the file was closed");
    assert_false(bell_file_int(file, "a", &value));
    expect_told("bell_file_int: the file was closed");
    bell_file_close(file);
    expect_told("bell_file_close: the file was closed");
}

/* ---- threads ---- */

/* A context of its own, and handles of contexts that others destroyed. */
static int
live_alone(void *arg)
{
    _Atomic(struct bell_tensor *) *left = arg;
    struct bell_tensor *t, *old;
    struct bell_context *ctx;
    double value;
    int i, k, n_bad = 0;

    for (i = 0; i < 40; i++) {
        if (bell_context_create("CPU", &ctx) != BELL_OK)
            return 1;
        for (k = 0; k < 300; k++) {
            (void)bell_scope_begin(ctx);
            t = bell_full(ctx, BELL_NO_DIMS, i * 1000 + k, BELL_FLOAT64);
            if (k % 100 == 0)
                n_bad += bell_item_f64(bell_contiguous(t), &value) != BELL_OK ||
                         value != i * 1000 + k;
            old = *left;
            n_bad += old && !bell_is_error(old);
            n_bad += old && bell_item_f64(old, &value) == BELL_OK;
            (void)bell_keep_forever(t);
            (void)bell_scope_end(ctx);
        }
        bell_context_destroy(ctx);
        *left = t;
    }
    return n_bad;
}

static void
test_threads(void **state)
{
    _Atomic(struct bell_tensor *) left = NULL;
    thrd_t threads[4];
    int n_bad, i;

    (void)state;
    for (i = 0; i < 4; i++)
        assert_int_equal(thrd_create(&threads[i], live_alone, &left),
                         thrd_success);
    for (i = 0; i < 4; i++) {
        assert_int_equal(thrd_join(threads[i], &n_bad), thrd_success);
        assert_int_equal(n_bad, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ended_tensors),
        cmocka_unit_test(test_destroyed_contexts),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_no_objects),
        cmocka_unit_test(test_no_tensors),
        cmocka_unit_test(test_new_results),
        cmocka_unit_test(test_release_again),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_keep_two_deep),
        cmocka_unit_test(test_optimisers),
        cmocka_unit_test(test_jits),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
