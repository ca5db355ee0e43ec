/* Stacks of kio forms by name. Built twice: with all forms, and for the
 * driver half alone, which has the real kernel and nothing else. */
#include "ioctl/kio_interface.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ioctl/kio.h"
#include "ioctl/kio_fault.h"
#include "ioctl/kio_pages.h"
#include "ioctl/kio_record.h"
#include "ioctl/kio_replay.h"

/* One form of a name. */
struct form {
    const char *name;
    bool is_bottom, is_sim;
    /* One of the two, by is_bottom. `text` is what follows the colon. */
    bell_status (*stand_on)(struct kio *below, const char *text,
                            struct kio **out_kio);
    bell_status (*create)(const char *backend, const char *text,
                          struct kio **out_kio);
    /* Instead of that where nothing stands on it; may be NULL. */
    bell_status (*join)(const char *backend, const char *text,
                        struct kio **out_kio);
};

#if BELL_HAVE_FORMS
static bell_status
create_replay(const char *backend, const char *text, struct kio **out_kio)
{
    (void)backend;
    return kio_replay_create(text, out_kio);
}
#endif

static const struct form forms[] = {
#if BELL_HAVE_SIM
    {"sim", true, true, NULL, kio_sim_create, kio_sim_join},
#endif
#if BELL_HAVE_FORMS
    {"record", false, false, kio_record_create, NULL, NULL},
    {"replay", true, false, NULL, create_replay, NULL},
    {"fault", false, false, kio_fault_create, NULL, NULL},
    {"pages", false, false, kio_pages_create, NULL, NULL},
#endif
    {NULL, false, false, NULL, NULL, NULL},
};

#if BELL_HAVE_SIM
#define SIM_NAME "sim, "
#else
#define SIM_NAME ""
#endif
#if BELL_HAVE_FORMS
/* The last one is not a backend of kio: hcq makes a device of it that has no
 * kernel. */
#define OTHER_NAMES "record, replay, fault, pages; or null, alone"
#else
#define OTHER_NAMES "none"
#endif

const char *
kio_interface_list(void)
{
    return SIM_NAME OTHER_NAMES;
}

/* The last form of a stack: what follows the last '@'. */
static const char *
last_form(const char *interface)
{
    const char *at = strrchr(interface, '@');

    return at ? at + 1 : interface;
}

bool
kio_interface_is_sim(const char *interface)
{
    return strncmp(last_form(interface), "sim:", 4) == 0;
}

/* The form that `text` names, and where its argument starts. */
static bell_status
find_form(const char *text, const struct form **out_form,
          const char **out_argument)
{
    size_t len = strcspn(text, ":"), i;

    for (i = 0; forms[i].name; i++) {
        if (strlen(forms[i].name) != len ||
            strncmp(forms[i].name, text, len) != 0)
            continue;
        *out_form = &forms[i];
        *out_argument = text + len + (text[len] == ':');
        /* the simulators list what they know */
        if (**out_argument == '\0' && strcmp(forms[i].name, "sim") != 0)
            return bell_fail(BELL_BAD_NAME,
                             "interface '%.60s': nothing follows '%s:'", text,
                             forms[i].name);
        return BELL_OK;
    }
    return bell_fail(BELL_E_NO_DEVICE,
                     "no interface '%.*s' in this build; known: %s",
                     (int)(len < 60 ? len : 60), text, kio_interface_list());
}

bool
kio_interface_is_real(const char *interface)
{
    const char *form = last_form(interface);

    return strncmp(form, "sim:", 4) != 0 && strncmp(form, "replay:", 7) != 0;
}

const char *
kio_interface_marker(const char *backend)
{
    if (strcmp(backend, "AMD") == 0)
        return "/sys/module/amdgpu/doorbell_sim";
    if (strcmp(backend, "NV") == 0)
        return "/sys/module/nvidia/doorbell_sim";
    return NULL;
}

/* The kernel that this program runs on, which may be shown to it. */
static bell_status
stand_on_kernel(const char *backend, struct kio **out_kio)
{
    const char *marker = kio_interface_marker(backend);

    BELL_TRY(kio_sys_create(out_kio));
    (*out_kio)->is_simulated = marker && access(marker, F_OK) == 0;
    return BELL_OK;
}

/* Puts the form `text` on *kio; NULL: nothing is below yet. `is_last`: nothing
 * comes on it. */
static bell_status
add_form(const char *backend, const char *text, bool is_last, struct kio **kio)
{
    const struct form *form;
    const char *argument;
    bool is_simulated;

    BELL_TRY(find_form(text, &form, &argument));
    if (form->is_bottom && *kio)
        return bell_fail(BELL_BAD_NAME,
                         "interface '%s' stands on nothing: it comes last",
                         form->name);
    if (form->is_bottom) {
        BELL_TRY((is_last && form->join ? form->join : form->create)(
            backend, argument, kio));
        (*kio)->is_simulated |= form->is_sim;
        return BELL_OK;
    }
    if (!*kio)
        BELL_TRY(stand_on_kernel(backend, kio));
    is_simulated = (*kio)->is_simulated;
    BELL_TRY(form->stand_on(*kio, argument, kio));
    (*kio)->is_simulated = is_simulated;
    return BELL_OK;
}

bell_status
kio_open_interface(const char *backend, const char *interface,
                   struct kio **out_kio)
{
    struct kio *kio = NULL;
    bell_status status = BELL_OK;
    char *text, *at;

    if (interface[0] == '\0')
        return stand_on_kernel(backend, out_kio);
    text = host_alloc(strlen(interface) + 1);
    if (!text)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory opening '%.60s'",
                         interface);
    strcpy(text, interface);
    do {
        at = strrchr(text, '@');
        status = add_form(backend, at ? at + 1 : text, !at, &kio);
        if (at)
            *at = '\0';
    } while (status == BELL_OK && at);
    host_free(text);
    if (status != BELL_OK) {
        kio_destroy(kio);
        return status;
    }
    *out_kio = kio;
    return BELL_OK;
}
