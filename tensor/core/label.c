/* Labels: what is open, what nodes are marked with, and its text. */
#include "tensor/core/label.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "doorbell/label.h"
#include "tensor/core/tensor_internal.h"

#define PATH_BYTES    256
#define TEXT_BYTES    400
#define MAX_FUNCTIONS 3
#define MAX_BACK      3 /* gradients of gradients that are told apart */
#define SHOWN_TOPICS  (LOG_KERNELS | LOG_EXEC | LOG_SYNC | LOG_SCHED)

static const char cut[] = ".."; /* ends a text that is too long */

/* ---- a context's ---- */

static bool
is_wanted(void)
{
    const char *path = env_get("BELL_PROFILE");

    return LOG_ON(SHOWN_TOPICS) || (path && *path);
}

void
tensor_labels_init(struct bell_context *ctx)
{
    struct tensor_labels *labels = &ctx->labels;

    arena_init(&labels->text);
    map_init(&labels->scope_of);
    map_init(&labels->label_of);
    map_init(&labels->text_of);
    labels->is_on = is_wanted() &&
                    host_grow((void **)&labels->scopes, &labels->cap_scopes, 1,
                              sizeof(*labels->scopes)) == 0 &&
                    host_grow((void **)&labels->list, &labels->cap, 1,
                              sizeof(*labels->list)) == 0;
    if (!labels->is_on)
        return;
    labels->scopes[0] = (struct label_scope){.path = ""};
    labels->list[0] = (struct label){.scope = 0};
    labels->n_scopes = labels->n = 1;
    ctx->graph.has_marks = true;
    ctx->graph.mark_of = tensor_label_mark;
    ctx->graph.mark_user = ctx;
}

void
tensor_labels_fini(struct bell_context *ctx)
{
    struct tensor_labels *labels = &ctx->labels;

    host_free(labels->scopes);
    host_free(labels->list);
    map_fini(&labels->scope_of);
    map_fini(&labels->label_of);
    map_fini(&labels->text_of);
    arena_fini(&labels->text);
}

/* ---- scopes ---- */

/* The scope of that name in another, found or made; UINT32_MAX where there are
 * too many, or out of memory. */
static uint32_t
find_scope(struct tensor_labels *labels, uint32_t parent, char between,
           const char *name, size_t n_bytes)
{
    uint64_t hash =
        hash_bytes(name, n_bytes, hash_add(parent, (uint64_t)between));
    const uint64_t *found = map_get(&labels->scope_of, hash);
    const char *around = labels->scopes[parent].path;
    struct label_scope *scope;
    char path[PATH_BYTES];
    size_t i;
    int n;

    if (found)
        return (uint32_t)*found;
    if (labels->n_scopes == BELL_LABELS ||
        host_grow((void **)&labels->scopes, &labels->cap_scopes,
                  labels->n_scopes + 1, sizeof(*labels->scopes)) != 0)
        return UINT32_MAX;
    n = snprintf(path, sizeof(path), "%s%.*s%.*s", around, *around != '\0',
                 &between, (int)n_bytes, name);
    if (n >= PATH_BYTES)
        memcpy(path + PATH_BYTES - sizeof(cut), cut, sizeof(cut));
    for (i = 0; path[i]; i++) {
        if (path[i] < ' ' || path[i] > '~' || path[i] == '"' || path[i] == '\\')
            path[i] = '?';
    }
    scope = &labels->scopes[labels->n_scopes];
    scope->path = arena_printf(&labels->text, "%s", path);
    scope->parent = parent;
    scope->depth = labels->scopes[parent].depth + 1;
    if (!scope->path || map_put(&labels->scope_of, hash, labels->n_scopes) != 0)
        return UINT32_MAX;
    return (uint32_t)labels->n_scopes++;
}

bell_status
bell_label_begin(struct bell_context *ctx, const char *label)
{
    struct label_place *place;
    uint32_t scope = UINT32_MAX;

    BELL_TRY(tensor_context_usable(__func__, ctx));
    if (!label)
        return bell_fail(BELL_BAD_MISSING, "bell_label_begin: the label is "
                                           "NULL");
    if (!*label || strlen(label) > BELL_LABEL_BYTES)
        return bell_fail(BELL_BAD_NAME,
                         "bell_label_begin: the label has %zu bytes, not 1 to "
                         "%d",
                         strlen(label), BELL_LABEL_BYTES);
    place = &ctx->labels.place;
    place->n_open++;
    if (ctx->labels.is_on && !place->n_unnamed)
        scope =
            find_scope(&ctx->labels, place->user, '/', label, strlen(label));
    if (scope == UINT32_MAX)
        place->n_unnamed++;
    else
        place->user = place->scope = scope;
    return BELL_OK;
}

bell_status
bell_label_end(struct bell_context *ctx)
{
    struct label_place *place;

    BELL_TRY(tensor_context_usable(__func__, ctx));
    place = &ctx->labels.place;
    if (place->n_open == place->n_base)
        return bell_fail(BELL_BAD_STATE, "bell_label_end: no label was begun "
                                         "that is still open");
    place->n_open--;
    if (place->n_unnamed)
        place->n_unnamed--;
    else
        place->user = place->scope = ctx->labels.scopes[place->user].parent;
    return BELL_OK;
}

struct label_place
tensor_label_enter(struct bell_context *ctx)
{
    struct label_place before = ctx->labels.place;

    ctx->labels.place.n_base = before.n_open;
    return before;
}

void
tensor_label_leave(struct bell_context *ctx, struct label_place before)
{
    ctx->labels.place = before;
}

/* ---- layers ---- */

/* As the scope of the whole name, in none. */
void
tensor_label_param(const struct bell_tensor *t, const char *name)
{
    struct tensor *param = t ? handle_find(t) : NULL;
    uint32_t scope;

    if (!param || !param->ctx->labels.is_on)
        return;
    scope = find_scope(&param->ctx->labels, 0, '/', name, strlen(name));
    if (scope != UINT32_MAX)
        param->label = scope;
}

struct label_hold
tensor_label_layer(const char *call, const struct bell_tensor *t, uint32_t n_up)
{
    const struct tensor *param = t ? handle_find(t) : NULL;
    struct label_hold hold = {.ctx = NULL};
    struct tensor_labels *labels;
    const char *name, *end, *next;
    char between = '/';
    uint32_t scope, i;

    if (!param || !param->label)
        return hold;
    labels = &param->ctx->labels;
    name = labels->scopes[param->label].path;
    end = name + strlen(name);
    for (i = 0; i <= n_up && end > name; i++) {
        while (end > name && *--end != '.')
            ;
    }
    scope = labels->place.user;
    for (; name < end && scope != UINT32_MAX; name = next + 1, between = '.') {
        next = memchr(name, '.', (size_t)(end - name));
        next = next ? next : end;
        scope = find_scope(labels, scope, between, name, (size_t)(next - name));
    }
    hold.ctx = param->ctx;
    hold.scope = labels->place.scope;
    hold.inner = labels->inner;
    labels->place.scope = scope != UINT32_MAX ? scope : labels->place.user;
    labels->inner = call;
    return hold;
}

void
tensor_label_layer_end(const struct label_hold *hold)
{
    if (!hold->ctx)
        return;
    hold->ctx->labels.place.scope = hold->scope;
    hold->ctx->labels.inner = hold->inner;
}

/* ---- marks ---- */

static uint32_t
find_label(struct tensor_labels *labels, struct label label)
{
    uint64_t hash = hash_add(hash_add(label.scope, label.n_back),
                             (uint64_t)(uintptr_t)label.call);
    const uint64_t *found = map_get(&labels->label_of, hash);

    if (found)
        return (uint32_t)*found;
    if (host_grow((void **)&labels->list, &labels->cap, labels->n + 1,
                  sizeof(*labels->list)) != 0 ||
        map_put(&labels->label_of, hash, labels->n) != 0)
        return 0;
    labels->list[labels->n] = label;
    return (uint32_t)labels->n++;
}

/* The call that the thread is inside. */
static const char *
call_now(const struct bell_context *ctx)
{
    const struct try_lock_owner *owner =
        atomic_load_explicit(&ctx->lock.owner, memory_order_relaxed);
    const char *call = NULL;

    if (ctx->labels.inner)
        return ctx->labels.inner;
    if (owner)
        call = atomic_load_explicit(&owner->call, memory_order_relaxed);
    return call ? call
                : atomic_load_explicit(&ctx->lock.shared.call,
                                       memory_order_relaxed);
}

uint32_t
tensor_label_mark(void *user)
{
    struct bell_context *ctx = user;
    struct tensor_labels *labels = &ctx->labels;
    struct label label = {.scope = labels->place.scope};

    if (labels->back_of) {
        label = labels->list[labels->back_of];
        label.n_back += label.n_back < MAX_BACK;
    } else {
        label.call = call_now(ctx);
    }
    if (label.scope == labels->last.scope && label.call == labels->last.call &&
        label.n_back == labels->last.n_back && labels->last_mark)
        return labels->last_mark;
    labels->last = label;
    labels->last_mark = find_label(labels, label);
    return labels->last_mark;
}

/* ---- texts ---- */

/* The innermost scope around both. */
static uint32_t
common_scope(const struct tensor_labels *labels, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (labels->scopes[a].depth >= labels->scopes[b].depth)
            a = labels->scopes[a].parent;
        else
            b = labels->scopes[b].parent;
    }
    return a;
}

static bool
is_same_function(const struct label *a, const struct label *b)
{
    return a->n_back == b->n_back &&
           (a->call == b->call ||
            (a->call && b->call && strcmp(a->call, b->call) == 0));
}

static void
add_function(char *text, size_t *used, const struct label *label)
{
    const char *call = label->call;
    uint32_t i;

    if (strncmp(call, "bell_", 5) == 0)
        call += 5;
    for (i = 0; i <= label->n_back && *used < TEXT_BYTES - 1; i++)
        *used += (size_t)snprintf(text + *used, TEXT_BYTES - *used, "%s",
                                  i < label->n_back ? "gradient of " : call);
    if (*used < TEXT_BYTES)
        return;
    memcpy(text + TEXT_BYTES - sizeof(cut), cut, sizeof(cut));
    *used = TEXT_BYTES - 1;
}

/* The functions, in their order: all of them if they are few, else those that
 * do most, and then the last ones. */
static void
add_functions(const struct tensor_labels *labels, const uint32_t *list,
              const bool *is_main, size_t n, char *text, size_t *used)
{
    uint32_t chosen[MAX_FUNCTIONS];
    size_t n_chosen = 0, at[MAX_FUNCTIONS], i, k;
    bool many = n > MAX_FUNCTIONS;

    for (i = 0; i < n && n_chosen < MAX_FUNCTIONS; i++) {
        if (!many || is_main[i])
            at[n_chosen++] = i;
    }
    for (i = n; many && i-- > 0 && n_chosen < MAX_FUNCTIONS;) {
        if (is_main[i])
            continue;
        for (k = n_chosen++; k > 0 && at[k - 1] > i; k--)
            at[k] = at[k - 1];
        at[k] = i;
    }
    for (i = 0; i < n_chosen; i++)
        chosen[i] = list[at[i]];
    for (i = 0; i < n_chosen; i++) {
        if (i && *used + 2 < TEXT_BYTES)
            *used += (size_t)snprintf(text + *used, TEXT_BYTES - *used, ", ");
        add_function(text, used, &labels->list[chosen[i]]);
    }
    if (many && *used + 4 < TEXT_BYTES)
        *used += (size_t)snprintf(text + *used, TEXT_BYTES - *used, ", ..");
}

/* Different functions of the marks: list[] and is_main[] become these. */
static size_t
join_functions(const struct tensor_labels *labels, uint32_t *list, bool *main,
               size_t n)
{
    size_t n_left = 0, i, k;

    for (i = 0; i < n; i++) {
        const struct label *label = &labels->list[list[i]];
        if (!label->call)
            continue;
        for (k = 0; k < n_left; k++) {
            if (is_same_function(label, &labels->list[list[k]]))
                break;
        }
        if (k < n_left) {
            main[k] |= main[i];
            continue;
        }
        list[n_left] = list[i];
        main[n_left++] = main[i];
    }
    return n_left;
}

const char *
tensor_label_text(struct tensor_labels *labels, const uint32_t *marks,
                  const bool *is_main, size_t n)
{
    uint32_t *list = host_alloc(n * sizeof(*list) + 1), scope = 0;
    bool *main = host_alloc(n + 1);
    char text[TEXT_BYTES] = "";
    const uint64_t *found;
    const char *out = NULL;
    size_t used = 0, i;
    bool any = false;
    uint64_t hash;

    for (i = 0; i < n && list && main; i++) {
        uint32_t mark = marks[i] < labels->n ? marks[i] : 0;
        uint32_t of = labels->list[mark].scope;
        list[i] = mark;
        main[i] = is_main[i];
        if (of)
            scope = any ? common_scope(labels, scope, of) : of;
        any |= of != 0;
    }
    if (!list || !main)
        n = 0;
    n = join_functions(labels, list, main, n);
    if (scope)
        used = (size_t)snprintf(text, sizeof(text), "%s%s",
                                labels->scopes[scope].path, n ? ": " : "");
    add_functions(labels, list, main, n, text, &used);
    host_free(list);
    host_free(main);
    hash = hash_bytes(text, used, 0);
    found = map_get(&labels->text_of, hash);
    if (found)
        return (const char *)(uintptr_t)*found;
    if (used)
        out = arena_printf(&labels->text, "%s", text);
    if (out && map_put(&labels->text_of, hash, (uintptr_t)out) != 0)
        return NULL;
    return out;
}
