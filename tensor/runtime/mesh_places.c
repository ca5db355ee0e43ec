/* See places.h. */
#include "tensor/runtime/mesh_places.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "tensor/core/tensor_internal.h"

/* ---- names --------------------------------------------------------------- */

/* Names are parted by commas; options of simulated cards are, too, which begin
 * with a small letter: "NV:0@sim:sm_90*2,link=pcie,NV:1@..". */
static const char *
next_device(const char *name)
{
    const char *at;

    for (at = strchr(name, ','); at; at = strchr(at + 1, ',')) {
        if (at[1] >= 'A' && at[1] <= 'Z')
            return at + 1;
    }
    return NULL;
}

/* "BACKEND:*" and what may follow. */
static const char *
star_of(const char *name)
{
    const char *star = strstr(name, ":*");

    return star && (star[2] == '\0' || star[2] == '@') ? star + 1 : NULL;
}

bool
mesh_is_list(const char *name)
{
    name = name ? name : env_get("BELL_DEVICE");
    return name && (next_device(name) || star_of(name));
}

/* ---- opening ------------------------------------------------------------- */

static bell_status
add_place(struct bell_context *ctx, struct rt_places *places, const char *name)
{
    struct tensor_runtime *rt;
    const char *open_as = name;
    size_t n;

    /* the host's processor is one device, and as many places as are asked for
     */
    n = strlen("CPU:");
    if (strncmp(name, "CPU:", n) == 0 && name[n] >= '0' && name[n] <= '9' &&
        name[n + strspn(name + n, "0123456789")] == '\0')
        open_as = "CPU:0";
    if (places->n == BELL_MESH_PLACES)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "more than %d devices for one context",
                         BELL_MESH_PLACES);
    if (places->n == 0) {
        BELL_TRY(rt_open(ctx, open_as, false, &ctx->runtime));
        rt = ctx->runtime;
        rt->places = places;
    } else {
        BELL_TRY(rt_open(ctx, open_as, true, &rt));
    }
    places->list[places->n++] = rt;
    rt = places->list[0];
    if (strcmp(rt->target.arch, places->list[places->n - 1]->target.arch) ||
        rt->target.compiler != places->list[places->n - 1]->target.compiler)
        return bell_fail(
            BELL_E_UNSUPPORTED,
            "%s is a %s and %s a %s: the devices of one context are of one "
            "chip",
            hcq_device_name(rt->dev), rt->target.arch, name,
            places->list[places->n - 1]->target.arch);
    return BELL_OK;
}

/* Every device that there is of the name. */
static bell_status
add_all(struct bell_context *ctx, struct rt_places *places, const char *name,
        const char *star)
{
    struct bell_error_hold hold;
    char one[HCQ_NAME_MAX];
    bell_status status;
    uint32_t i;

    for (i = 0; i <= BELL_MESH_PLACES; i++) {
        if (snprintf(one, sizeof(one), "%.*s%u%s", (int)(star - name), name, i,
                     star + 1) >= (int)sizeof(one))
            return bell_fail(BELL_BAD_NAME, "device name '%.60s' is too long",
                             name);
        if (i == 0) {
            BELL_TRY(add_place(ctx, places, one));
            continue;
        }
        bell_error_hold(&hold);
        status = add_place(ctx, places, one);
        if (status == BELL_E_NO_DEVICE) {
            bell_error_clear();
            bell_error_release(&hold);
            return BELL_OK;
        }
        bell_error_release(&hold);
        BELL_TRY(status);
    }
    return BELL_OK;
}

static bell_status
add_listed(struct bell_context *ctx, struct rt_places *places, const char *name)
{
    const char *next, *star;
    char one[HCQ_NAME_MAX];
    size_t n;

    for (; name; name = next) {
        next = next_device(name);
        n = next ? (size_t)(next - 1 - name) : strlen(name);
        if (n >= sizeof(one))
            return bell_fail(BELL_BAD_NAME, "device name '%.60s' is too long",
                             name);
        memcpy(one, name, n);
        one[n] = '\0';
        star = star_of(one);
        BELL_TRY(star ? add_all(ctx, places, one, star)
                      : add_place(ctx, places, one));
    }
    return BELL_OK;
}

bell_status
mesh_open(struct bell_context *ctx, const char *name)
{
    struct rt_places *places = host_calloc(1, sizeof(*places));
    bell_status status;

    if (places)
        map_init(&places->known_of);
    ctx->mesh = host_calloc(1, sizeof(*ctx->mesh));
    if (!places || !ctx->mesh) {
        host_free(places);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a mesh");
    }
    name = name ? name : env_get("BELL_DEVICE");
    status = add_listed(ctx, places, name);
    if (places->n == 0) { /* else it is the runtime's */
        host_free(places);
        return status;
    }
    if (status == BELL_OK && places->list[0]->tune.beam)
        status = bell_fail(BELL_E_UNSUPPORTED,
                           "BELL_BEAM: a search for schedules is for one "
                           "device; the context has %u",
                           places->n);
    BELL_TRY(status);
    mesh_init(ctx->mesh, places->n);
    snprintf(ctx->device_name, sizeof(ctx->device_name), "%s", name);
    return tensor_sums_create(&places->sums);
}

bell_status
mesh_of_one(struct bell_context *ctx)
{
    struct rt_places *places;
    bell_status status;

    if (ctx->runtime->places)
        return BELL_OK;
    places = host_calloc(1, sizeof(*places));
    if (!places)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a mesh");
    status = tensor_sums_create(&places->sums);
    if (status != BELL_OK) {
        host_free(places);
        return status;
    }
    map_init(&places->known_of);
    places->list[places->n++] = ctx->runtime;
    ctx->runtime->places = places;
    return BELL_OK;
}

/* ---- programs ------------------------------------------------------------ */

bell_status
mesh_load(struct tensor_runtime *rt, const struct rt_job *job,
          struct rt_kernel *kernel)
{
    uint32_t i;

    kernel->others = host_calloc(rt->places->n, sizeof(struct hcq_program *));
    if (!kernel->others)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory loading %s",
                         job->name);
    kernel->n_others = rt->places->n - 1;
    for (i = 1; i < rt->places->n; i++)
        BELL_TRY(rt_create_program(rt->places->list[i], job,
                                   &kernel->others[i - 1]));
    return BELL_OK;
}

void
mesh_unload(struct rt_kernel *kernel)
{
    uint32_t i;

    for (i = 0; i < kernel->n_others; i++)
        hcq_program_destroy(kernel->others[i]);
    host_free(kernel->others);
}

/* ---- ending -------------------------------------------------------------- */

void
mesh_settle(struct rt_places *places)
{
    struct bell_error_hold hold;
    uint32_t i;

    bell_error_hold(&hold);
    for (i = 0; i < places->n; i++) {
        if (rt_wait(places->list[i], places->list[i]->last_value) != BELL_OK)
            bell_error_clear();
    }
    bell_error_release(&hold);
    mesh_exchange_fini(places);
    mesh_known_fini(places);
    tensor_sums_destroy(places->sums);
    places->sums = NULL;
}

void
mesh_close(struct rt_places *places)
{
    uint32_t i;

    if (!places)
        return;
    for (i = 1; i < places->n; i++)
        rt_close(places->list[i]);
    host_free(places);
}

bell_status
mesh_status(const struct rt_places *places)
{
    uint32_t i;

    for (i = 0; i < places->n; i++)
        BELL_TRY(hcq_device_status(places->list[i]->dev));
    return BELL_OK;
}
