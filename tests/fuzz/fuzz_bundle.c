/* Hostile bundles: they load or are refused with a message, and never touch
 * memory outside of the file. Checksums are made right first, as a person who
 * means harm would. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hcq/hcq_bundle_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_seal.h"

static void
must_lie(const struct bundle_file *f, const void *at, uint64_t n)
{
    uint64_t offset = (uint64_t)((const uint8_t *)at - f->data);

    if (offset > f->size_bytes || n > f->size_bytes - offset)
        abort();
}

/* Accepted ranges are within the file, and within the range that they are a
 * part of. */
static void
look_at_target(const struct bundle_file *f, const struct bundle_target *t)
{
    uint32_t i, j;

    for (i = 0; i < t->n_commands; i++) {
        const struct bundle_command *c = &f->commands[t->first_command + i];

        must_lie(f, c, sizeof(*c));
        if (c->op == BUNDLE_EXEC)
            must_lie(f, &f->kernels[t->first_kernel + c->kernel],
                     sizeof(*f->kernels));
        for (j = 0; j < c->n_args; j++) {
            const struct bundle_arg *a = &f->args[c->first_arg + j];
            uint64_t whole = t->arena_bytes;

            must_lie(f, a, sizeof(*a));
            if (a->place == BUNDLE_WORD)
                continue;
            if (a->place == BUNDLE_TIMES) {
                must_lie(f, &f->values[a->value], sizeof(*f->values));
                if (f->values[a->value].kind < BUNDLE_SYMBOL)
                    abort();
                continue;
            }
            if (a->place == BUNDLE_VALUE)
                whole = f->values[a->value].size_bytes;
            if (a->offset > whole || a->size_bytes > whole - a->offset)
                abort();
        }
    }
}

/* No size goes beyond its bounds where symbols are at theirs, nor an input or
 * output beyond its bytes. */
static void
look_at_sizes(const struct bundle_file *f, int end)
{
    int64_t *now = calloc(f->n_values + 1, sizeof(*now)), x[2], bounds[2];
    uint32_t i, k;

    for (i = 0; now && i < f->n_values; i++) {
        const struct bundle_value *v = &f->values[i];

        if (v->kind == BUNDLE_SYMBOL)
            now[i] = (int64_t)v->shape[end];
        if (v->kind != BUNDLE_SIZE)
            continue;
        for (k = 0; k < 2; k++)
            x[k] = BUNDLE_IS_OF(v->shape[1 + k])
                       ? now[BUNDLE_NUMBER(v->shape[1 + k])]
                       : (int64_t)v->shape[1 + k];
        now[i] =
            bundle_size_apply((enum bundle_size_op)v->shape[0], x[0], x[1]);
        bundle_bounds(f, BUNDLE_OF(i), bounds);
        if (now[i] < bounds[0] || now[i] > bounds[1])
            abort();
    }
    for (i = 0; now && i < f->n_values; i++) {
        const struct bundle_value *v = &f->values[i];
        uint32_t bytes;
        uint64_t n;

        if (v->kind > BUNDLE_OUTPUT || f->header->version < BUNDLE_SIZES)
            continue;
        if (!bundle_dtype(v->dtype, &bytes))
            abort();
        n = bytes;
        for (k = 0; k < v->ndim; k++)
            n *= BUNDLE_IS_OF(v->shape[k])
                     ? (uint64_t)now[BUNDLE_NUMBER(v->shape[k])]
                     : v->shape[k];
        if (n > v->size_bytes)
            abort();
    }
    free(now);
}

static void
look(const struct bundle_file *f)
{
    const uint8_t *data = f->data + f->header->sections[BUNDLE_DATA].offset;
    uint32_t i;

    must_lie(f, data, f->weight_bytes);
    look_at_sizes(f, 0);
    look_at_sizes(f, 1);
    for (i = 0; i < f->n_values; i++) {
        const struct bundle_value *v = &f->values[i];
        must_lie(f, f->names + v->name, strlen(f->names + v->name) + 1);
        if (v->data_offset != BUNDLE_NO_DATA)
            must_lie(f, data + v->data_offset, v->size_bytes);
    }
    for (i = 0; i < f->n_kernels; i++) {
        const struct bundle_kernel *k = &f->kernels[i];
        must_lie(f, f->objects + k->object_offset, k->object_bytes);
        if (k->max_steps && f->header->version < BUNDLE_STEPS)
            abort();
        if (f->ir)
            must_lie(f, f->ir + k->ir, strlen(f->ir + k->ir) + 1);
    }
    for (i = 0; i < f->n_targets; i++)
        look_at_target(f, &f->targets[i]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    /* its end is at the end of an allocation: accesses past it are seen */
    size_t n = (size_bytes + BUNDLE_ALIGN - 1) & ~(size_t)(BUNDLE_ALIGN - 1);
    uint8_t *copy = aligned_alloc(BUNDLE_ALIGN, n ? n : BUNDLE_ALIGN);
    struct bundle_file f;

    if (!copy)
        return 0;
    memcpy(copy, data, size_bytes);
    fuzz_seal(copy, size_bytes);
    if (bundle_file_open(copy, size_bytes, &f) == BELL_OK) {
        look(&f);
        fuzz_accept();
    } else if (!bell_error_last()->message[0]) {
        abort();
    }
    free(copy);
    return 0;
}
