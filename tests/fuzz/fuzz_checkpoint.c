/* libFuzzer target: checkpoints. A list of two tensors and two numbers is
 * loaded from the input: then all of it has changed as the file says, or none
 * of it. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell/files.h"
#include "doorbell/module.h"
#include "tests/fuzz/fuzz.h"

/* What is loaded, and its values. */
struct values {
    float weight[6];
    int64_t steps[2];
    double rate, beta;
    int64_t step;
};

struct training {
    struct bell_context *ctx;
    struct bell_state state;
    struct bell_tensor *weight, *steps;
    double rate, beta;
    int64_t step;
};

static void
begin(struct training *t)
{
    static const float weight[6] = {1, 2, 3, 4, 5, 6};
    static const int64_t steps[2] = {7, 8};

    if (bell_context_create("CPU", &t->ctx) != BELL_OK)
        abort();
    t->weight = bell_from_data(t->ctx, BELL_DIMS(2, 3), BELL_FLOAT32, weight);
    t->steps = bell_from_data(t->ctx, BELL_DIMS(2), BELL_INT64, steps);
    if (bell_state_add(&t->state, "net", "weight", BELL_STATE_PARAM,
                       t->weight) != BELL_OK ||
        bell_state_add(&t->state, "opt", "steps", BELL_STATE_BUFFER,
                       t->steps) != BELL_OK ||
        bell_state_add_number(&t->state, "opt", "rate", &t->rate) != BELL_OK ||
        bell_state_add_number(&t->state, "opt", "beta", &t->beta) != BELL_OK)
        abort();
}

/* Shapes and dtypes stay whatever is loaded. */
static void
take_values(const struct training *t, struct values *out)
{
    memset(out, 0, sizeof(*out));
    if (bell_nbytes(t->weight) != sizeof(out->weight) ||
        bell_nbytes(t->steps) != sizeof(out->steps) ||
        bell_read(t->weight, out->weight, sizeof(out->weight)) != BELL_OK ||
        bell_read(t->steps, out->steps, sizeof(out->steps)) != BELL_OK)
        abort();
    out->rate = t->rate;
    out->beta = t->beta;
    out->step = t->step;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct training t;
    static struct fuzz_file file;
    static struct values before;
    struct values after;
    bell_status status;

    if (!t.ctx) {
        begin(&t);
        take_values(&t, &before);
    }
    fuzz_file_write(&file, data, size);
    if (bell_scope_begin(t.ctx) != BELL_OK)
        abort();
    status = bell_checkpoint_load(file.path, t.ctx, &t.state, &t.step);
    if (status != BELL_OK && !bell_error_last()->message[0])
        abort();
    (void)!bell_context_status(t.ctx); /* told, and cleared */
    (void)!bell_scope_end(t.ctx);
    take_values(&t, &after);
    if (status != BELL_OK && memcmp(&before, &after, sizeof(after)) != 0)
        abort();
    if (status == BELL_OK)
        fuzz_accept();
    before = after;
    return 0;
}
