/* Lists of tensors from files: what is missing, and checkpoints. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tensor/files/files.h"
#include "tensor/train/module.h"
#include "tensor/core/tensor_internal.h"

/* ---- what is there ---- */

/* A list and a file, name by name. */
struct match {
    const struct bell_state *state;
    const struct bell_file *file;
    const char *prefix;
    const struct file_tensor **found; /* by item; owned, as the next three */
    double *numbers;                  /* by item */
    bool *has_number;                 /* by item */
    bool *used;                       /* by the file's tensor */
    struct bell_load load;
    char shapes[320]; /* of the first that differs */
};

static BELL_MUST_CHECK bell_status
begin_match(struct match *m)
{
    uint32_t n = m->state->n;
    size_t n_tensors = m->file->n_tensors;

    m->found = host_calloc(n + 1u, sizeof(*m->found));
    m->numbers = host_calloc(n + 1u, sizeof(*m->numbers));
    m->has_number = host_calloc(n + 1u, sizeof(*m->has_number));
    m->used = host_calloc(n_tensors + 1, sizeof(*m->used));
    m->load.missing = host_calloc(n + 1u, sizeof(char *));
    m->load.unexpected = host_calloc(n_tensors + 1, sizeof(char *));
    if (!m->found || !m->numbers || !m->has_number || !m->used ||
        !m->load.missing || !m->load.unexpected)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a list of %u", n);
    return BELL_OK;
}

static void
end_match(struct match *m)
{
    host_free(m->found);
    host_free(m->numbers);
    host_free(m->has_number);
    host_free(m->used);
    bell_load_fini(&m->load);
}

void
bell_load_fini(struct bell_load *load)
{
    if (!load)
        return;
    host_free((void *)load->missing);
    host_free((void *)load->unexpected);
    *load = (struct bell_load){.struct_size = load->struct_size};
}

/* A number is a tensor of one element, or what stands beside the tensors. */
static BELL_MUST_CHECK bell_status
find_state_number(struct match *m, uint32_t i, const char *name,
                  bool *out_found)
{
    const struct file_tensor *tensor = file_find_tensor(m->file, name);

    *out_found = true;
    if (!tensor) {
        *out_found = bell_file_float(m->file, name, &m->numbers[i]);
        return BELL_OK;
    }
    m->used[tensor - m->file->tensors] = true;
    if (tensor->entry.dtype != BELL_FLOAT64 || tensor->entry.ndim != 0 ||
        !tensor->data || tensor->swap)
        return bell_fail(BELL_BAD_SHAPE,
                         "%s: '%.80s' is to be a number: float64 of shape ()",
                         m->file->path, name);
    memcpy(&m->numbers[i], tensor->data, sizeof(double));
    return BELL_OK;
}

static void
print_state_shape(const int64_t *shape, uint32_t ndim, char *buf,
                  size_t size_bytes)
{
    size_t n = (size_t)snprintf(buf, size_bytes, "(");
    uint32_t i;

    for (i = 0; i < ndim && n < size_bytes; i++)
        n += (size_t)snprintf(buf + n, size_bytes - n, "%s%" PRId64,
                              i ? ", " : "", shape[i]);
    if (n < size_bytes)
        snprintf(buf + n, size_bytes - n, ")");
}

static void
compare_shapes(struct match *m, const struct bell_state_item *item,
               const struct bell_file_entry *entry)
{
    uint32_t ndim = bell_ndim(item->tensor);
    char own[96], theirs[96];

    if (m->shapes[0] ||
        (ndim == entry->ndim &&
         (ndim == 0 || memcmp(bell_shape(item->tensor), entry->shape,
                              ndim * sizeof(int64_t)) == 0)))
        return;
    print_state_shape(bell_shape(item->tensor), ndim, own, sizeof(own));
    print_state_shape(entry->shape, entry->ndim, theirs, sizeof(theirs));
    snprintf(m->shapes, sizeof(m->shapes), "'%.60s' is %s, in the file %s",
             item->name, own, theirs);
}

static BELL_MUST_CHECK bell_status
match_item(struct match *m, uint32_t i)
{
    const struct bell_state_item *item = &m->state->items[i];
    bool has_prefix = m->prefix && m->prefix[0], found;
    char name[512];

    if (snprintf(name, sizeof(name), "%s%s%s", has_prefix ? m->prefix : "",
                 has_prefix ? "." : "", item->name) >= (int)sizeof(name))
        return bell_fail(BELL_BAD_NAME, "'%.80s' is too long a name",
                         item->name);
    if (item->tensor) {
        m->found[i] = file_find_tensor(m->file, name);
        found = m->found[i] != NULL;
        if (found) {
            m->used[m->found[i] - m->file->tensors] = true;
            compare_shapes(m, item, &m->found[i]->entry);
        }
    } else {
        BELL_TRY(find_state_number(m, i, name, &found));
        m->has_number[i] = found;
    }
    if (found)
        m->load.n_loaded++;
    else
        m->load.missing[m->load.n_missing++] = item->name;
    return BELL_OK;
}

static void
find_unexpected(struct match *m)
{
    size_t n_prefix = m->prefix ? strlen(m->prefix) : 0, i;

    for (i = 0; i < m->file->n_tensors; i++) {
        const char *name = m->file->tensors[i].entry.name;
        if (m->used[i] ||
            (n_prefix && (strncmp(name, m->prefix, n_prefix) != 0 ||
                          name[n_prefix] != '.')))
            continue;
        m->load.unexpected[m->load.n_unexpected++] = name;
    }
}

/* ", 3 missing: 'a', 'b', .." */
static size_t
print_names(char *buf, size_t size_bytes, size_t at, const char *what,
            const char *const *names, uint32_t n)
{
    uint32_t i;

    if (n == 0)
        return at;
    at += (size_t)snprintf(buf + at, size_bytes - at,
                           "%s%u %s:", at ? "; " : "", n, what);
    for (i = 0; i < n && i < 3; i++)
        at += (size_t)snprintf(buf + at, size_bytes - at, "%s '%.40s'",
                               i ? "," : "", names[i]);
    if (n > 3)
        at += (size_t)snprintf(buf + at, size_bytes - at, ", ..");
    return at;
}

static BELL_MUST_CHECK bell_status
judge(const struct match *m, uint32_t flags)
{
    const struct bell_load *load = &m->load;
    char text[512] = "";
    size_t at = 0;

    if (!(flags & BELL_LOAD_MISSING))
        at = print_names(text, sizeof(text), at, "missing", load->missing,
                         load->n_missing);
    if (!(flags & BELL_LOAD_UNEXPECTED))
        at = print_names(text, sizeof(text), at, "unexpected", load->unexpected,
                         load->n_unexpected);
    if (m->shapes[0])
        return bell_fail(BELL_BAD_SHAPE, "%s: %s%s%s", m->file->path, m->shapes,
                         at ? "; " : "", text);
    return at ? bell_fail(BELL_BAD_NAME, "%s: %s", m->file->path, text)
              : BELL_OK;
}

/* ---- loading ---- */

/* Every value first, so that a failure changes nothing. */
static BELL_MUST_CHECK bell_status
take_state_values(struct match *m, struct bell_tensor **values)
{
    uint32_t i;

    for (i = 0; i < m->state->n; i++) {
        struct bell_tensor *t = m->state->items[i].tensor;
        if (!m->found[i])
            continue;
        values[i] = bell_cast(bell_file_tensor(bell_context_of(t), m->file,
                                               m->found[i]->entry.name),
                              bell_dtype_of(t));
        if (bell_is_error(values[i]))
            return bell_context_status(bell_context_of(t));
        tensor_set_node(values[i], tensor_lay_as(t, tensor_node(values[i])));
    }
    return BELL_OK;
}

/* As bell_write does it: what is computed next finds values in memory. */
static BELL_MUST_CHECK bell_status
realize_values(struct bell_tensor *const *values, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (values[i])
            BELL_TRY(bell_realize1(values[i]));
    }
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
give_values(struct match *m)
{
    struct bell_tensor **values =
        host_calloc(m->state->n + 1u, sizeof(struct bell_tensor *));
    bell_status status;
    uint32_t i;

    if (!values)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a list of %u",
                         m->state->n);
    status = take_state_values(m, values);
    if (status == BELL_OK)
        status = realize_values(values, m->state->n);
    for (i = 0; i < m->state->n; i++) {
        const struct bell_state_item *item = &m->state->items[i];
        if (values[i] && status == BELL_OK)
            tensor_set_node(item->tensor, tensor_node(values[i]));
        if (m->has_number[i] && status == BELL_OK)
            *item->number = m->numbers[i];
        bell_tensor_release(values[i]);
    }
    host_free(values);
    return status;
}

bell_status
bell_state_load(const struct bell_state *state, const struct bell_file *file,
                const char *prefix, uint32_t flags, struct bell_load *out_load)
{
    struct match m = {.state = state, .file = file, .prefix = prefix};
    bell_status status;
    uint32_t i;

    BELL_TRY(module_state_is_of(__func__, state, NULL));
    if (!file_is_open(__func__, file))
        return bell_error_last()->status;
    if (flags & ~(uint32_t)(BELL_LOAD_MISSING | BELL_LOAD_UNEXPECTED))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_state_load: flags 0x%x are more than "
                         "BELL_LOAD_MISSING and BELL_LOAD_UNEXPECTED",
                         flags);
    if (out_load && out_load->struct_size < sizeof(*out_load))
        return bell_fail(BELL_BAD_VALUE,
                         "bell_state_load: the result's struct_size is %u, not "
                         "its size, %zu",
                         out_load->struct_size, sizeof(*out_load));
    if (out_load)
        tensor_no_info(__func__, out_load, sizeof(*out_load));
    status = begin_match(&m);
    for (i = 0; i < state->n && status == BELL_OK; i++)
        status = match_item(&m, i);
    if (status == BELL_OK) {
        find_unexpected(&m);
        status = judge(&m, flags);
        if (status == BELL_OK)
            status = give_values(&m);
        if (out_load) {
            tensor_give_info(__func__, &m.load, sizeof(m.load), sizeof(m.load),
                             out_load);
            memset(&m.load, 0, sizeof(m.load));
        }
    }
    end_match(&m);
    return status;
}

/* ---- checkpoints ---- */

#define STEP_KEY  "doorbell.step"
#define SEED_KEY  "doorbell.seed"
#define CALLS_KEY "doorbell.random_calls"

bell_status
bell_checkpoint_save(const char *path, struct bell_context *ctx,
                     const struct bell_state *state, int64_t step)
{
    char number[3][32];
    const struct file_text texts[] = {
        {STEP_KEY, number[0]}, {SEED_KEY, number[1]}, {CALLS_KEY, number[2]}};

    if (!path || !ctx || !state)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_checkpoint_save: an argument is NULL");
    BELL_TRY(bell_context_status(ctx));
    BELL_TRY(module_state_is_of(__func__, state, ctx));
    snprintf(number[0], sizeof(number[0]), "%" PRId64, step);
    snprintf(number[1], sizeof(number[1]), "%" PRIu64, ctx->seed);
    snprintf(number[2], sizeof(number[2]), "%" PRIu64, ctx->rng_calls);
    return file_save(path, state, texts, ARRAY_LEN(texts), true);
}

static BELL_MUST_CHECK bell_status
get_number(const struct bell_file *file, const char *key, uint64_t *out_value)
{
    char text[32], *end = text;
    const char *found;
    size_t n;

    if (bell_file_str(file, key, &found, &n) && n > 0 && n < sizeof(text)) {
        memcpy(text, found, n);
        text[n] = '\0';
        *out_value = text[0] == '-' ? (uint64_t)strtoll(text, &end, 10)
                                    : strtoull(text, &end, 10);
    }
    if (end == text || *end)
        return bell_fail(BELL_BAD_NAME, "%s: is not a checkpoint: it has no %s",
                         file->path, key);
    return BELL_OK;
}

static BELL_MUST_CHECK bell_status
restore(const struct bell_file *file, struct bell_context *ctx,
        const struct bell_state *state, int64_t *out_step)
{
    uint64_t step, seed, calls;

    BELL_TRY(get_number(file, STEP_KEY, &step));
    BELL_TRY(get_number(file, SEED_KEY, &seed));
    BELL_TRY(get_number(file, CALLS_KEY, &calls));
    BELL_TRY(bell_state_load(state, file, NULL, BELL_LOAD_STRICT, NULL));
    ctx->seed = seed;
    ctx->rng_calls = calls;
    *out_step = (int64_t)step;
    return BELL_OK;
}

bell_status
bell_checkpoint_load(const char *path, struct bell_context *ctx,
                     const struct bell_state *state, int64_t *out_step)
{
    struct bell_file *file;
    bell_status status;

    if (!path || !ctx || !state || !out_step)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_checkpoint_load: an argument is NULL");
    BELL_TRY(bell_context_status(ctx));
    BELL_TRY(module_state_is_of(__func__, state, ctx));
    BELL_TRY(bell_file_open(path, &file));
    status = restore(file, ctx, state, out_step);
    bell_file_close(file);
    return status;
}
