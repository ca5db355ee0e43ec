/* Modules' walks by their types, and the lists that these give. */
#include "doorbell/label.h"
#include "doorbell/module.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tensor/core/entry.h"
#include "tensor/train/module.h"
#include "tensor/core/tensor_internal.h"

/* Most characters of a name, prefixes and numbers included. */
#define MAX_NAME 255

/* ---- lists ---- */

void
bell_state_fini(struct bell_state *state)
{
    uint32_t i;

    if (!state)
        return;
    for (i = 0; i < state->n; i++)
        host_free((char *)(uintptr_t)state->items[i].name);
    host_free(state->items);
    memset(state, 0, sizeof(*state));
}

void
module_state_cut(struct bell_state *state, uint32_t n)
{
    while (state->n > n)
        host_free((char *)(uintptr_t)state->items[--state->n].name);
}

/* "prefix.name" into out. */
static bell_status
join_name(const char *prefix, const char *name, char out[MAX_NAME + 1])
{
    bool is_alone = !prefix || !prefix[0];
    int n = snprintf(out, MAX_NAME + 1, "%s%s%s", is_alone ? "" : prefix,
                     is_alone ? "" : ".", name);

    if (n < 0 || n > MAX_NAME)
        return bell_fail(BELL_BAD_NAME,
                         "a name of more than %d characters: %.40s..", MAX_NAME,
                         out);
    return BELL_OK;
}

static bell_status
append_item(struct bell_state *state, const char *prefix, const char *name,
            const struct bell_state_item *item)
{
    char full[MAX_NAME + 1], *copy;

    BELL_TRY(join_name(prefix, name, full));
    if (bell_state_find(state, full))
        return bell_fail(BELL_BAD_NAME, "bell_state_add: %s is there already",
                         full);
    copy = host_strdup(full);
    if (!copy || host_grow((void **)&state->items, &state->cap,
                           (size_t)state->n + 1, sizeof(*state->items)) != 0) {
        host_free(copy);
        return bell_fail(BELL_E_NO_MEMORY,
                         "bell_state_add: out of memory for %u items",
                         state->n + 1);
    }
    state->items[state->n] = *item;
    state->items[state->n++].name = copy;
    return BELL_OK;
}

bell_status
bell_state_add(struct bell_state *state, const char *prefix, const char *name,
               enum bell_state_kind kind, struct bell_tensor *t)
{
    struct bell_state_item item = {.kind = kind, .tensor = t};

    if (!state || !name)
        return bell_fail(BELL_BAD_MISSING, "bell_state_add: the %s is NULL",
                         state ? "name" : "list");
    if (!t)
        return BELL_OK;
    if (!handle_find(t))
        return tensor_usable(__func__, t);
    return append_item(state, prefix, name, &item);
}

bell_status
bell_state_add_number(struct bell_state *state, const char *prefix,
                      const char *name, double *number)
{
    struct bell_state_item item = {.kind = BELL_STATE_NUMBER, .number = number};

    if (!state || !name || !number)
        return bell_fail(BELL_BAD_MISSING,
                         "bell_state_add_number: the %s is NULL",
                         !state  ? "list"
                         : !name ? "name"
                                 : "number");
    return append_item(state, prefix, name, &item);
}

const struct bell_state_item *
bell_state_find(const struct bell_state *state, const char *name)
{
    uint32_t i;

    if (!state || !name) {
        (void)bell_fail(BELL_BAD_MISSING, "bell_state_find: the %s is NULL",
                        state ? "name" : "list");
        return NULL;
    }
    for (i = 0; i < state->n; i++) {
        if (strcmp(state->items[i].name, name) == 0)
            return &state->items[i];
    }
    return NULL;
}

/* Is `name` prefix, or does it begin with "prefix."? */
static bool
is_below(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);

    return n == 0 || (strncmp(name, prefix, n) == 0 &&
                      (name[n] == '.' || name[n] == '\0'));
}

bell_status
module_state_is_of(const char *call, const struct bell_state *state,
                   const struct bell_context *ctx)
{
    uint32_t i;

    if (!state)
        return bell_fail_at(call, BELL_BAD_MISSING, "%s: the list is NULL",
                            call);
    for (i = 0; i < state->n; i++) {
        const struct bell_context *owner =
            state->items[i].tensor ? handle_owner(state->items[i].tensor)
                                   : NULL;
        if (owner && !ctx)
            ctx = owner;
        if (owner && owner != ctx)
            return bell_fail_at(call, BELL_BAD_CONTEXT,
                                "%s: '%s' is a tensor of another context", call,
                                state->items[i].name);
    }
    return BELL_OK;
}

bell_status
bell_state_requires_grad(const struct bell_state *state, const char *prefix,
                         bool on)
{
    uint32_t i, n_found = 0;

    BELL_TRY(module_state_is_of(__func__, state, NULL));
    for (i = 0; i < state->n; i++) {
        const struct bell_state_item *item = &state->items[i];

        if (item->kind != BELL_STATE_PARAM ||
            !is_below(item->name, prefix ? prefix : ""))
            continue;
        n_found++;
        if (bell_is_error(bell_requires_grad(item->tensor, on)))
            return bell_context_status(bell_context_of(item->tensor));
        if (!on)
            bell_zero_grad(item->tensor);
    }
    if (n_found == 0)
        return bell_fail(BELL_BAD_NAME,
                         "bell_state_requires_grad: no parameter is named "
                         "\"%s\"",
                         prefix ? prefix : "");
    return BELL_OK;
}

/* ---- modules ---- */

/* The modules of a field that is not a tensor: *out_n of them, one after the
 * other. */
static char *
find_children(const struct bell_module_field *field, char *module,
              uint32_t *out_n)
{
    char *at = module + field->offset;

    if (field->kind == BELL_FIELD_LIST) {
        memcpy(out_n, module + field->count_offset, sizeof(*out_n));
        memcpy(&at, module + field->offset, sizeof(at));
    } else {
        *out_n = field->count ? field->count : 1;
    }
    return at;
}

static struct bell_tensor **
find_tensor(const struct bell_module_field *field, char *module)
{
    return (struct bell_tensor **)(void *)(module + field->offset);
}

static struct bell_tensor *
module_first_tensor(const struct bell_module_type *type, const void *module)
{
    struct bell_tensor *t = NULL;
    uint32_t i, k, n;

    for (i = 0; i < type->n_fields && !t; i++) {
        const struct bell_module_field *field = &type->fields[i];
        char *at = (char *)(uintptr_t)module;

        if (field->kind == BELL_FIELD_PARAM ||
            field->kind == BELL_FIELD_BUFFER) {
            t = *find_tensor(field, at);
        } else {
            at = find_children(field, at, &n);
            for (k = 0; k < n && !t; k++)
                t = module_first_tensor(field->child,
                                        at + k * field->child->size_bytes);
        }
    }
    return t;
}

struct bell_context *
entry_module(const struct bell_module_type *type, const void *module)
{
    return type && module ? handle_owner(module_first_tensor(type, module))
                          : NULL;
}

static bell_status walk_module(const struct bell_module_type *type,
                               char *module, const char *prefix,
                               struct bell_state *state);

static bell_status
walk_children(const struct bell_module_field *field, char *module,
              const char *prefix, struct bell_state *state)
{
    bool has_number = field->kind == BELL_FIELD_LIST || field->count > 0;
    char name[MAX_NAME + 1], full[MAX_NAME + 1], *at;
    uint32_t i, n;

    at = find_children(field, module, &n);
    for (i = 0; i < n; i++) {
        if (has_number)
            snprintf(name, sizeof(name), "%s.%u", field->name, i);
        else
            snprintf(name, sizeof(name), "%s", field->name);
        BELL_TRY(join_name(prefix, name, full));
        BELL_TRY(walk_module(field->child, at + i * field->child->size_bytes,
                             full, state));
    }
    return BELL_OK;
}

static bell_status
walk_module(const struct bell_module_type *type, char *module,
            const char *prefix, struct bell_state *state)
{
    uint32_t i;

    for (i = 0; i < type->n_fields; i++) {
        const struct bell_module_field *field = &type->fields[i];

        if (field->kind == BELL_FIELD_PARAM ||
            field->kind == BELL_FIELD_BUFFER) {
            enum bell_state_kind kind = field->kind == BELL_FIELD_PARAM
                                            ? BELL_STATE_PARAM
                                            : BELL_STATE_BUFFER;
            BELL_TRY(bell_state_add(state, prefix, field->name, kind,
                                    *find_tensor(field, module)));
        } else {
            BELL_TRY(walk_children(field, module, prefix, state));
        }
    }
    return BELL_OK;
}

bell_status
bell_module_state(const struct bell_module_type *type, const void *module,
                  const char *prefix, struct bell_state *state)
{
    uint32_t n_before;
    bell_status status;

    if (!type || !module || !state)
        return bell_fail(BELL_BAD_MISSING, "bell_module_state: the %s is NULL",
                         !type     ? "type"
                         : !module ? "module"
                                   : "list");
    n_before = state->n;
    status = walk_module(type, (char *)(uintptr_t)module, prefix, state);
    if (status != BELL_OK)
        module_state_cut(state, n_before);
    return status;
}

void
bell_module_fini(const struct bell_module_type *type, void *module)
{
    uint32_t i, k, n;

    if (!type || !module) {
        (void)bell_fail(BELL_BAD_MISSING, "bell_module_fini: the %s is NULL",
                        type ? "module" : "type");
        return;
    }
    for (i = 0; i < type->n_fields; i++) {
        const struct bell_module_field *field = &type->fields[i];

        if (field->kind == BELL_FIELD_PARAM ||
            field->kind == BELL_FIELD_BUFFER) {
            struct bell_tensor **t = find_tensor(field, module);
            struct bell_context *ctx = handle_owner(*t);
            struct try_lock_owner *owner;

            if (!entry_take(__func__, ctx, &owner))
                continue; /* of a context that another thread is inside */
            bell_tensor_release(*t);
            entry_leave(ctx, owner);
            *t = NULL;
        } else {
            char *at = find_children(field, module, &n);

            for (k = 0; k < n; k++)
                bell_module_fini(field->child,
                                 at + k * field->child->size_bytes);
        }
    }
}

bell_status
bell_module_label(const struct bell_module_type *type, const void *module,
                  const char *label)
{
    struct bell_state state = {0};
    bell_status status;
    uint32_t i;

    if (!type || !module)
        return bell_fail(BELL_BAD_MISSING, "bell_module_label: the %s is NULL",
                         type ? "module" : "type");
    status = bell_module_state(type, module, label, &state);

    for (i = 0; i < state.n && status == BELL_OK; i++)
        tensor_label_param(state.items[i].tensor, state.items[i].name);
    bell_state_fini(&state);
    return status;
}
