/* Files that are saved, lists that are loaded, and trainings that are killed.
 *
 * usage: test_file_save; or what it starts itself, to be killed:
 * test_file_save train FILE
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doorbell/files.h"
#include "doorbell/nn.h"

static char folder[] = "/tmp/bell-save-XXXXXX";
static const char *program;

static const char *
path_of(const char *name)
{
    static char path[4][128];
    static unsigned at;

    at = (at + 1) % 4;
    snprintf(path[at], sizeof(path[at]), "%s/%s", folder, name);
    return path[at];
}

static struct bell_context *
open_context(void)
{
    struct bell_context *ctx;

    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    return ctx;
}

/* ---- values ---- */

/* Every dtype and shape () and (0, 3) come back bit by bit. */
static void
check_format(const char *ending, bool has_bfloat16)
{
    struct bell_context *ctx = open_context();
    struct bell_state state = {0};
    double number = 0.1;
    uint8_t own[256], theirs[256];
    struct bell_file *file;
    char name[64];
    uint32_t i;
    int d;

    bell_manual_seed(ctx, 3);
    for (d = BELL_BOOL; d <= BELL_FLOAT8_E5M2; d++) {
        if (!has_bfloat16 && (d == BELL_BFLOAT16 || d > BELL_FLOAT64))
            continue;
        snprintf(name, sizeof(name), "a.%s\"\\",
                 bell_dtype_name((enum bell_dtype)d));
        assert_int_equal(
            bell_state_add(&state, "net", name, BELL_STATE_PARAM,
                           bell_cast(bell_mul(bell_randn(ctx, BELL_DIMS(3, 5),
                                                         BELL_FLOAT32),
                                              bell_scalar(ctx, 20)),
                                     (enum bell_dtype)d)),
            BELL_OK);
    }
    assert_int_equal(bell_state_add(&state, NULL, "one", BELL_STATE_BUFFER,
                                    bell_ones(ctx, BELL_NO_DIMS, BELL_INT16)),
                     BELL_OK);
    assert_int_equal(
        bell_state_add(&state, NULL, "none", BELL_STATE_BUFFER,
                       bell_ones(ctx, BELL_DIMS(0, 3), BELL_FLOAT32)),
        BELL_OK);
    assert_int_equal(bell_state_add_number(&state, NULL, "number", &number),
                     BELL_OK);
    snprintf(name, sizeof(name), "all%s", ending);
    assert_int_equal(bell_file_save(path_of(name), &state), BELL_OK);
    assert_int_equal(bell_file_open(path_of(name), &file), BELL_OK);
    assert_int_equal(bell_file_count(file), state.n);
    for (i = 0; i < state.n; i++) {
        struct bell_tensor *t = state.items[i].tensor, *read;
        const struct bell_file_entry *entry =
            bell_file_find(file, state.items[i].name);
        assert_non_null(entry);
        if (!t)
            continue;
        read = bell_file_tensor(ctx, file, state.items[i].name);
        assert_int_equal(bell_dtype_of(t), bell_dtype_of(read));
        assert_int_equal(bell_ndim(t), bell_ndim(read));
        assert_int_equal(bell_nbytes(t), bell_nbytes(read));
        assert_int_equal(bell_read(t, own, bell_nbytes(t)), BELL_OK);
        assert_int_equal(bell_read(read, theirs, bell_nbytes(t)), BELL_OK);
        assert_memory_equal(own, theirs, bell_nbytes(t));
        assert_non_null(bell_file_data(file, entry->name));
        assert_int_equal((uintptr_t)bell_file_data(file, entry->name) %
                             bell_dtype_size(entry->dtype),
                         0);
    }
    number = 0;
    assert_int_equal(
        bell_state_load(&state, file, NULL, BELL_LOAD_STRICT, NULL), BELL_OK);
    assert_true(number > 0.0999 && number < 0.1001);
    bell_file_close(file);
    bell_state_fini(&state);
    bell_context_destroy(ctx);
}

static void
test_formats(void **unused)
{
    (void)unused;
    check_format(".safetensors", true);
    check_format(".npz", false);
}

static void
expect_save(const struct bell_state *state, const char *name,
            bell_status status, const char *part)
{
    assert_int_equal(bell_file_save(path_of(name), state), status);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("\"%s\" lacks \"%s\"", bell_error_last()->message, part);
    assert_int_not_equal(access(path_of(name), F_OK), 0);
}

static void
test_save_errors(void **unused)
{
    struct bell_context *ctx = open_context();
    struct bell_state state = {0};
    double number = 1;

    (void)unused;
    assert_int_equal(
        bell_state_add(&state, NULL, "x", BELL_STATE_PARAM,
                       bell_ones(ctx, BELL_DIMS(2), BELL_BFLOAT16)),
        BELL_OK);
    expect_save(&state, "x.txt", BELL_E_UNSUPPORTED, "ends in none of");
    expect_save(&state, "x.npz", BELL_E_UNSUPPORTED, "'x' is bfloat16");
    expect_save(&state, "x.npy", BELL_E_UNSUPPORTED, "'x' is bfloat16");
    assert_int_equal(bell_state_add_number(&state, NULL, "n", &number),
                     BELL_OK);
    expect_save(&state, "y.npy", BELL_E_INVALID, "not of 2");
    expect_save(&state, "no/y.npz", BELL_E_IO, "cannot create");
    assert_int_equal(bell_state_add_number(&state, NULL, "\n", &number),
                     BELL_OK);
    expect_save(&state, "y.safetensors", BELL_E_INVALID, "byte 0x0a");
    assert_int_equal(bell_file_save(NULL, &state), BELL_E_INVALID);
    assert_int_equal(bell_file_save("x.npz", NULL), BELL_E_INVALID);
    bell_state_fini(&state);
    bell_context_destroy(ctx);
}

/* ---- loading ---- */

static void
expect_load(bell_status status, bell_status want, const char *const *parts)
{
    assert_int_equal(status, want);
    for (; *parts; parts++) {
        if (!strstr(bell_error_last()->message, *parts))
            fail_msg("\"%s\" lacks \"%s\"", bell_error_last()->message, *parts);
    }
}

static void
test_load(void **unused)
{
    struct bell_context *ctx = open_context();
    struct bell_nn_linear layer;
    struct bell_state saved = {0}, state = {0}, more = {0};
    struct bell_tensor *extra = bell_zeros(ctx, BELL_DIMS(2), BELL_FLOAT32);
    struct bell_load load = {.struct_size = sizeof(load)};
    struct bell_file *file;
    double value = 0, number = 7;
    const int64_t four = 4;

    (void)unused;
    assert_int_equal(bell_nn_linear_init(ctx, 3, 2, true, &layer), BELL_OK);
    /* saved as float64 and under a prefix */
    assert_int_equal(
        bell_state_add(&saved, "net", "weight", BELL_STATE_PARAM,
                       bell_full(ctx, BELL_DIMS(2, 3), 5, BELL_FLOAT64)),
        BELL_OK);
    assert_int_equal(
        bell_state_add(&saved, "net", "extra", BELL_STATE_PARAM,
                       bell_full(ctx, BELL_DIMS(2), 6, BELL_FLOAT32)),
        BELL_OK);
    assert_int_equal(bell_state_add(&saved, "other", "weight", BELL_STATE_PARAM,
                                    bell_full(ctx, &four, 1, 6, BELL_FLOAT32)),
                     BELL_OK);
    assert_int_equal(bell_file_save(path_of("l.safetensors"), &saved), BELL_OK);
    assert_int_equal(bell_file_open(path_of("l.safetensors"), &file), BELL_OK);
    assert_int_equal(
        bell_module_state(&bell_nn_linear_type, &layer, NULL, &state), BELL_OK);
    expect_load(bell_state_load(&state, file, "net", BELL_LOAD_STRICT, &load),
                BELL_E_INVALID,
                (const char *const[]){"1 missing: 'bias'",
                                      "1 unexpected: 'net.extra'", NULL});
    assert_int_equal(load.n_missing, 1);
    assert_string_equal(load.missing[0], "bias");
    assert_string_equal(load.unexpected[0], "net.extra");
    bell_load_fini(&load);
    expect_load(bell_state_load(&state, file, "net", BELL_LOAD_MISSING, NULL),
                BELL_E_INVALID, (const char *const[]){"unexpected", NULL});
    expect_load(
        bell_state_load(&state, file, "other",
                        BELL_LOAD_MISSING | BELL_LOAD_UNEXPECTED, NULL),
        BELL_E_INVALID,
        (const char *const[]){"'weight' is (2, 3), in the file (4)", NULL});
    assert_int_equal(
        bell_item_f64(bell_sum(layer.weight, BELL_NO_DIMS, false), &value),
        BELL_OK);
    assert_true(value < 10); /* nothing has changed */
    assert_int_equal(bell_state_load(&state, file, "net",
                                     BELL_LOAD_MISSING | BELL_LOAD_UNEXPECTED,
                                     &load),
                     BELL_OK);
    assert_int_equal(load.n_loaded, 1);
    bell_load_fini(&load);
    assert_int_equal(load.struct_size, sizeof(load));
    load.struct_size = 0;
    expect_load(bell_state_load(&state, file, "net", BELL_LOAD_MISSING, &load),
                BELL_E_INVALID,
                (const char *const[]){"the result's struct_size is 0", NULL});
    assert_int_equal(bell_dtype_of(layer.weight), BELL_FLOAT32);
    assert_int_equal(
        bell_item_f64(bell_sum(layer.weight, BELL_NO_DIMS, false), &value),
        BELL_OK);
    assert_true(value > 29.9 && value < 30.1);
    /* a number where there is a tensor of another shape */
    assert_int_equal(bell_state_add_number(&more, NULL, "extra", &number),
                     BELL_OK);
    expect_load(bell_state_load(&more, file, "net", BELL_LOAD_UNEXPECTED, NULL),
                BELL_E_INVALID,
                (const char *const[]){"is to be a number", NULL});
    expect_load(bell_state_load(&more, file, "net", 8, NULL), BELL_E_INVALID,
                (const char *const[]){"flags 0x8", NULL});
    expect_load(bell_state_load(&more, NULL, "net", 0, NULL), BELL_E_INVALID,
                (const char *const[]){"the file is NULL", NULL});
    assert_true(number > 6 && number < 8);
    assert_false(bell_is_error(extra));
    bell_file_close(file);
    bell_state_fini(&more);
    bell_state_fini(&state);
    bell_state_fini(&saved);
    bell_context_destroy(ctx);
}

/* ---- a training that is killed ---- */

#define N_STEPS 40

struct net {
    struct bell_nn_linear up, down;
    struct bell_nn_batch_norm norm;
};
static const struct bell_module_field net_fields[] = {
    BELL_CHILD(struct net, up, &bell_nn_linear_type),
    BELL_CHILD(struct net, norm, &bell_nn_batch_norm_type),
    BELL_CHILD(struct net, down, &bell_nn_linear_type),
};
static const struct bell_module_type net_type =
    BELL_MODULE_TYPE(struct net, net_fields);

static bell_status
take_step(struct bell_context *ctx, const struct net *net,
          struct bell_optimizer *opt)
{
    struct bell_tensor *x, *y, *loss;
    bell_status status;

    bell_scope_begin(ctx);
    x = bell_randn(ctx, BELL_DIMS(8, 5), BELL_FLOAT32);
    y = bell_sum(x, BELL_DIMS(1), true);
    x = bell_relu(bell_nn_batch_norm(&net->norm, bell_nn_linear(&net->up, x)));
    x = bell_nn_linear(&net->down, bell_dropout(x, 0.25));
    loss = bell_mse_loss(x, y, BELL_MEAN);
    bell_optimizer_zero_grad(opt);
    status = bell_backward(loss);
    if (status == BELL_OK)
        status = bell_optimizer_step(opt, &loss, 1);
    if (bell_scope_end(ctx) != BELL_OK)
        return BELL_E_INTERNAL;
    return status;
}

/* From the checkpoint, if there is one, to the end. */
static bell_status
train(const char *path)
{
    const struct bell_adam_options options = {.struct_size = sizeof(options),
                                              .lr = 0.01};
    struct bell_params params = {0};
    struct bell_state state = {0};
    struct bell_context *ctx;
    struct bell_optimizer *opt;
    struct net net;
    int64_t step = 0;

    if (bell_context_create("CPU", &ctx) != BELL_OK)
        return BELL_E_INTERNAL;
    bell_manual_seed(ctx, 11);
    bell_set_training(ctx, true);
    memset(&net, 0, sizeof(net));
    if (bell_nn_linear_init(ctx, 5, 16, true, &net.up) != BELL_OK ||
        bell_nn_batch_norm_init(ctx, 16, &net.norm) != BELL_OK ||
        bell_nn_linear_init(ctx, 16, 1, true, &net.down) != BELL_OK ||
        bell_module_state(&net_type, &net, "net", &state) != BELL_OK ||
        bell_params_add_state(&params, &state) != BELL_OK ||
        bell_adamw_create(params.tensors, params.n, &options, &opt) !=
            BELL_OK ||
        bell_optimizer_state(opt, &state, "opt", &state) != BELL_OK)
        return BELL_E_INTERNAL;
    if (access(path, F_OK) == 0 &&
        bell_checkpoint_load(path, ctx, &state, &step) != BELL_OK)
        return BELL_E_IO;
    for (; step < N_STEPS; step++) {
        if (take_step(ctx, &net, opt) != BELL_OK ||
            bell_checkpoint_save(path, ctx, &state, step + 1) != BELL_OK)
            return BELL_E_INTERNAL;
    }
    bell_optimizer_destroy(opt);
    bell_params_fini(&params);
    bell_state_fini(&state);
    bell_context_destroy(ctx);
    return BELL_OK;
}

/* Returns whether it came to its end before it was killed. */
static bool
train_and_kill(const char *path, unsigned after_us)
{
    pid_t child = fork();
    int status = 0;

    assert_true(child >= 0);
    if (child == 0) {
        execl(program, program, "train", path, (char *)NULL);
        _exit(127);
    }
    if (after_us) {
        usleep(after_us);
        kill(child, SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

static size_t
read_whole(const char *path, uint8_t *buf, size_t size_bytes)
{
    FILE *file = fopen(path, "rb");
    size_t n;

    assert_non_null(file);
    n = fread(buf, 1, size_bytes, file);
    fclose(file);
    assert_true(n < size_bytes);
    return n;
}

static void
test_kill(void **unused)
{
    static uint8_t whole[1 << 16], killed[1 << 16];
    unsigned n_kills = 0, after = 100000;
    size_t n;

    (void)unused;
    srand((unsigned)getpid());
    assert_true(train_and_kill(path_of("whole.safetensors"), 0));
    /* later and later, so that it ends on slow machines too */
    while (!train_and_kill(path_of("killed.safetensors"),
                           after / 2 + (unsigned)rand() % after)) {
        n_kills++;
        after += after / 8;
    }
    print_message("# killed %u times\n", n_kills);
    n = read_whole(path_of("whole.safetensors"), whole, sizeof(whole));
    assert_int_equal(
        n, read_whole(path_of("killed.safetensors"), killed, sizeof(killed)));
    assert_memory_equal(whole, killed, n);
}

/* Neither another list's nor a plain file is taken for a checkpoint. */
static void
test_checkpoint_errors(void **unused)
{
    struct bell_context *ctx = open_context();
    struct bell_state state = {0};
    double number = 1;
    int64_t step = -1;

    (void)unused;
    assert_int_equal(bell_state_add_number(&state, NULL, "n", &number),
                     BELL_OK);
    assert_int_equal(bell_file_save(path_of("plain.safetensors"), &state),
                     BELL_OK);
    assert_int_equal(
        bell_checkpoint_load(path_of("plain.safetensors"), ctx, &state, &step),
        BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "is not a checkpoint"));
    assert_int_equal(
        bell_checkpoint_load(path_of("whole.safetensors"), ctx, &state, &step),
        BELL_E_INVALID);
    assert_non_null(strstr(bell_error_last()->message, "1 missing: 'n'"));
    assert_int_equal(
        bell_checkpoint_load(path_of("none.safetensors"), ctx, &state, &step),
        BELL_E_IO);
    assert_int_equal(step, -1);
    bell_state_fini(&state);
    bell_context_destroy(ctx);
}

static int
remove_folder(void **unused)
{
    char command[64];

    (void)unused;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_save_errors),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_checkpoint_errors),
    };

    if (argc == 3 && strcmp(argv[1], "train") == 0)
        return train(argv[2]) == BELL_OK ? 0 : 1;
    program = argv[0];
    if (!mkdtemp(folder))
        return 1;
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
