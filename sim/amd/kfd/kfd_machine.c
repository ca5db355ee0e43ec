/* Machines: what a SPEC says, and those that processes share. */
#include "sim/amd/kfd/kfd_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/process.h"
#include "sim/amd/gpu/dump.h"
#include "sim/amd/kfd/kfd.h"
#include "sim/amd/kfd/kfd_window.h"
#include "sim/amd/sim_amd.h"
#include "sim/links.h"
#include "sim/text.h"

#define DEFAULT_MINOR 17u
#define NEWEST_MINOR  23u
#define MAX_GPUS      8u    /* of at most eight dies */
#define MAX_BAR_MIB   4096u /* less than every chip's memory */

/* What a SPEC says. */
struct plan {
    struct amdsim_chip chip;
    uint32_t n_cards, minor, flip_every, reset_in;
    uint64_t hidden, denied; /* kfd_machine's, as those that follow */
    uint32_t bar_mib;
    bool is_virtual, first_is_old, kernel_is_old, waits_block, exact_saves;
    const char *link;   /* "xgmi", "pcie", "none"; NULL: as the chip has it */
    uint32_t hive_gpus; /* 0: all */
    bool p2p_is_off, acs_redirects;
    bool is_partitioned; /* each die is a card: CPX */
    char *dump;          /* owned: the directory; NULL: none */
};

/* The machines that are there: they stand for the hardware and the kernel,
 * which are one for all processes. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kfd_machine *registry;

/* A child has its parent's machines without their threads: it makes its own. */
static void
amdsim_forget_machines(void)
{
    pthread_mutex_init(&registry_lock, NULL);
    registry = NULL;
}

__attribute__((constructor)) static void
amdsim_watch_forks(void)
{
    process_in_child(amdsim_forget_machines);
}

static void
amdsim_machine_destroy(struct kfd_machine *machine)
{
    uint32_t i;

    for (i = 0; i < machine->n_cards; i++)
        amdsim_destroy(machine->cards[i].gpu);
    amd_dump_destroy(machine->dump);
    kfd_drop_stores(machine);
    sim_links_destroy(machine->traffic);
    pthread_mutex_destroy(&machine->lock);
    host_free(machine->spec);
    host_free(machine);
}

/* Each die by itself: CPX. */
static void
divide_cards(struct kfd_machine *machine)
{
    struct amdsim_chip *chip = &machine->own_chip;
    uint32_t n = chip->n_xcc;

    machine->n_partitions = n;
    chip->n_xcc = 1;
    chip->simd_count /= n;
    chip->array_count /= n;
    chip->n_sdma = chip->n_sdma > n ? chip->n_sdma / n : 1;
    chip->vram_bytes /= n;
}

static void
connect_cards(struct kfd_machine *machine, const struct plan *plan)
{
    const char *link = plan->link            ? plan->link
                       : plan->chip.has_xgmi ? "xgmi"
                                             : "pcie";

    machine->has_p2p = strcmp(link, "none") != 0;
    machine->p2p_is_off = plan->p2p_is_off;
    machine->acs_redirects = plan->acs_redirects;
    if (strcmp(link, "xgmi") == 0)
        machine->hive_gpus = plan->hive_gpus ? plan->hive_gpus : plan->n_cards;
}

static bell_status
amdsim_machine_create(const struct plan *plan, const char *spec,
                      struct kfd_machine **out_machine)
{
    struct kfd_machine *machine = host_calloc(1, sizeof(*machine));
    uint32_t i;

    if (!machine || pthread_mutex_init(&machine->lock, NULL) != 0) {
        host_free(machine);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a machine");
    }
    machine->own_chip = plan->chip;
    machine->chip = &machine->own_chip;
    machine->kfd_minor = plan->minor;
    machine->waits_block = plan->waits_block;
    machine->hidden = plan->hidden;
    machine->denied = plan->denied;
    machine->bar_mib = plan->bar_mib;
    machine->n_partitions = 1;
    if (plan->is_partitioned)
        divide_cards(machine);
    connect_cards(machine, plan);
    machine->is_virtual = plan->is_virtual;
    machine->first_is_old = plan->first_is_old;
    machine->kernel_is_old = plan->kernel_is_old;
    machine->exact_saves = plan->exact_saves;
    if (plan->dump && amd_dump_create(plan->dump, plan->chip.name,
                                      &machine->dump) != BELL_OK) {
        amdsim_machine_destroy(machine);
        return bell_error_last()->status;
    }
    machine->spec = host_strdup(spec);
    if (!machine->spec) {
        amdsim_machine_destroy(machine);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a name");
    }
    if (sim_links_create(plan->n_cards * machine->n_partitions,
                         &machine->traffic) != BELL_OK) {
        amdsim_machine_destroy(machine);
        return bell_error_last()->status;
    }
    for (i = 0; i < plan->n_cards * machine->n_partitions; i++) {
        struct kfd_card *card = &machine->cards[i];
        card->machine = machine;
        card->index = i;
        card->gpu_id = 0x5000 + 0x111 * i + machine->chip->device_id % 0x100;
        card->render_minor = KFD_DRM_FIRST + i;
        if (amdsim_create(machine->chip, &card->gpu) != BELL_OK) {
            amdsim_machine_destroy(machine);
            return bell_error_last()->status;
        }
        amdsim_join(card->gpu, machine->traffic, i);
        amdsim_set_dump(card->gpu, machine->dump);
        amdsim_set_flip(card->gpu, plan->flip_every);
        if (plan->is_virtual)
            amdsim_set_flush(card->gpu, kfd_window_flush, card);
        if (plan->reset_in)
            amdsim_set_reset(card->gpu, plan->reset_in, kfd_card_reset, card);
        machine->n_cards++;
    }
    *out_machine = machine;
    return BELL_OK;
}

static bell_status
unknown_amd_spec(const char *spec)
{
    char chips[400];

    chip_list("AMD", chips, sizeof(chips));
    return bell_fail(
        BELL_E_NO_DEVICE,
        "no simulated AMD machine '%.60s'; known: CHIP[*1..%u][,OPTION]..., "
        "options kfd= flip= reset= waits= cpx vf bar= link= hive= p2p= acs= "
        "hide= deny= first= kernel= dump= saves=, chips %s",
        spec, MAX_GPUS, chips);
}

/* An option of n characters: "KEY" and the number of a card, which is added to
 * the set. */
static bool
parse_card(const char *text, size_t n, const char *key, uint64_t *set)
{
    size_t len = strlen(key);

    if (n != len + 1 || strncmp(text, key, len) != 0 || text[len] < '0' ||
        text[len] > '9')
        return false;
    *set |= 1ull << (text[len] - '0');
    return true;
}

/* An option of n characters about links. */
static bool
parse_link(const char *text, size_t n, struct plan *plan)
{
    static const char *const kinds[] = {"xgmi", "pcie", "none"};
    size_t i;

    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        if (n == 6 + strlen(kinds[i]) && strncmp(text, ",link=", 6) == 0 &&
            strncmp(text + 6, kinds[i], n - 6) == 0) {
            plan->link = kinds[i];
            return true;
        }
    }
    if (n == 7 && strncmp(text, ",hive=", 6) == 0 && text[6] >= '1' &&
        text[6] <= '8')
        plan->hive_gpus = (uint32_t)(text[6] - '0');
    else if (n == 8 && strncmp(text, ",p2p=off", n) == 0)
        plan->p2p_is_off = true;
    else if (n == 13 && strncmp(text, ",acs=redirect", n) == 0)
        plan->acs_redirects = true;
    else
        return false;
    return true;
}

/* What follows the commas; `text` starts with one. The plan's directory may be
 * there also after an error. */
static bell_status
parse_options(const char *spec, const char *text, struct plan *plan)
{
    char *end;

    while (*text) {
        size_t n = 1 + strcspn(text + 1, ",");

        if (strncmp(text, ",kfd=1.", 7) == 0) {
            plan->minor = (uint32_t)strtoul(text + 7, &end, 10);
            if (end != text + n)
                return unknown_amd_spec(spec);
        } else if (strncmp(text, ",flip=", 6) == 0 && text[6] >= '1' &&
                   text[6] <= '9') {
            plan->flip_every = (uint32_t)strtoul(text + 6, &end, 10);
            if (end != text + n)
                return unknown_amd_spec(spec);
        } else if (strncmp(text, ",reset=", 7) == 0 && text[7] >= '1' &&
                   text[7] <= '9') {
            plan->reset_in = (uint32_t)strtoul(text + 7, &end, 10);
            if (end != text + n)
                return unknown_amd_spec(spec);
        } else if (parse_link(text, n, plan)) {
            /* it says how cards are connected */
        } else if (n == 12 && strncmp(text, ",waits=block", n) == 0) {
            plan->waits_block = true;
        } else if (n == 3 && strncmp(text, ",vf", n) == 0) {
            plan->is_virtual = true;
        } else if (n == 4 && strncmp(text, ",cpx", n) == 0) {
            plan->is_partitioned = true;
        } else if (strncmp(text, ",bar=", 5) == 0 && text[5] >= '1' &&
                   text[5] <= '9') {
            plan->bar_mib = (uint32_t)strtoul(text + 5, &end, 10);
            if (end != text + n || plan->bar_mib > MAX_BAR_MIB)
                return unknown_amd_spec(spec);
        } else if (strncmp(text, ",dump=", 6) == 0 && n > 6 && !plan->dump) {
            plan->dump = host_alloc(n - 5);
            if (!plan->dump)
                return bell_fail(BELL_E_NO_MEMORY, "out of memory for a name");
            memcpy(plan->dump, text + 6, n - 6);
            plan->dump[n - 6] = '\0';
        } else if (n == 13 && strncmp(text, ",first=" KFD_OLD_NAME, n) == 0) {
            plan->first_is_old = true;
        } else if (n == 12 && strncmp(text, ",kernel=5.15", n) == 0) {
            plan->kernel_is_old = true;
        } else if (n == 12 && strncmp(text, ",saves=exact", n) == 0) {
            plan->exact_saves = true;
        } else if (!parse_card(text, n, ",hide=", &plan->hidden) &&
                   !parse_card(text, n, ",deny=", &plan->denied)) {
            return unknown_amd_spec(spec);
        }
        text += n;
    }
    return BELL_OK;
}

/* An option that would change nothing of this machine. */
static bell_status
check_effects(const char *spec, const struct plan *plan)
{
    uint32_t n = plan->n_cards;
    char word[24];

    if (sim_option_twice(spec, word, sizeof(word)))
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated AMD machine '%.60s': '%s' is given twice",
                         spec, word);
    if (plan->is_partitioned && plan->chip.n_xcc == 1)
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated AMD machine '%.60s': 'cpx' has no effect: "
                         "%s has one die",
                         spec, plan->chip.name);
    if (plan->bar_mib && plan->chip.is_apu)
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated AMD machine '%.60s': 'bar' has no effect: "
                         "%s uses the host's memory",
                         spec, plan->chip.name);
    if (!plan->chip.has_xgmi &&
        (plan->hive_gpus || (plan->link && strcmp(plan->link, "xgmi") == 0)))
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated AMD machine '%.60s': %s has no XGMI", spec,
                         plan->chip.name);
    if (plan->hive_gpus &&
        (plan->hive_gpus > n || (plan->link && strcmp(plan->link, "xgmi"))))
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated AMD machine '%.60s': hives of %u of %u "
                         "cards",
                         spec, plan->hive_gpus, n);
    n *= plan->is_partitioned ? plan->chip.n_xcc : 1;
    if (n < 64 && (plan->hidden | plan->denied) >> n)
        return bell_fail(BELL_E_NO_DEVICE,
                         "simulated AMD machine '%.60s': hide or deny names a "
                         "card beyond the last, %u",
                         spec, n - 1);
    return BELL_OK;
}

static bell_status
parse_fail_plan(const char *spec, struct plan *plan)
{
    size_t n = strcspn(spec, "*,");
    const char *rest = spec + n;
    char chip[32] = "", *end;
    bool is_known;

    *plan = (struct plan){.n_cards = 1, .minor = DEFAULT_MINOR};
    if (n == 0 || n >= sizeof(chip))
        return unknown_amd_spec(spec);
    memcpy(chip, spec, n);
    is_known = amdsim_chip_make(chip, &plan->chip);
    if (*rest == '*') {
        if (rest[1] < '1' || rest[1] > '9')
            return unknown_amd_spec(spec);
        plan->n_cards = (uint32_t)strtoul(rest + 1, &end, 10);
        rest = end;
    }
    if (*rest && *rest != ',')
        return unknown_amd_spec(spec);
    BELL_TRY(parse_options(spec, rest, plan));
    if (!is_known || plan->n_cards < 1 || plan->n_cards > MAX_GPUS ||
        plan->minor < 11 || plan->minor > NEWEST_MINOR)
        return unknown_amd_spec(spec);
    return check_effects(spec, plan);
}

/* The lock is held. */
static bell_status
find_or_create(const char *spec, struct kfd_machine **out_machine)
{
    struct kfd_machine *m;
    struct plan plan;
    bell_status status;

    for (m = registry; m; m = m->next) {
        if (strcmp(m->spec, spec) == 0)
            break;
    }
    if (!m) {
        status = parse_fail_plan(spec, &plan);
        if (status == BELL_OK)
            status = amdsim_machine_create(&plan, spec, &m);
        host_free(plan.dump);
        BELL_TRY(status);
        m->next = registry;
        registry = m;
    }
    m->refs++;
    *out_machine = m;
    return BELL_OK;
}

bell_status
kfd_machine_get(const char *spec, struct kfd_machine **out_machine)
{
    bell_status status;

    pthread_mutex_lock(&registry_lock);
    status = find_or_create(spec, out_machine);
    pthread_mutex_unlock(&registry_lock);
    return status;
}

void
kfd_machine_put(struct kfd_machine *machine)
{
    struct kfd_machine **link = &registry;

    pthread_mutex_lock(&registry_lock);
    if (--machine->refs == 0) {
        while (*link != machine)
            link = &(*link)->next;
        *link = machine->next;
        amdsim_machine_destroy(machine);
    }
    pthread_mutex_unlock(&registry_lock);
}

void
kfd_machine_each(void (*fn)(void *user, struct kfd_machine *machine),
                 void *user)
{
    struct kfd_machine *m;

    pthread_mutex_lock(&registry_lock);
    for (m = registry; m; m = m->next)
        fn(user, m);
    pthread_mutex_unlock(&registry_lock);
}

void
sim_amd_after_fork(void)
{
    pthread_mutex_init(&registry_lock, NULL);
    registry = NULL;
}
