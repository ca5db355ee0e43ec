/* The NVIDIA device: finding cards, opening and closing one, its doorbell
 * window and its clock. src: docs/hardware/nvidia-kernel.md, "Bring-up",
 * "Queries".
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/env.h"
#include "base/log.h"
#include "base/thread.h"
#include "hcq/nv/nv_control.h"
#include "hcq/nv/nv_gen.h"
#include "hcq/nv/regs/nv_mem.h"
#include "ioctl/kio_interface.h"
#include "ioctl/nv_uapi.h"

#define BACKEND "NV"

/* Grids and blocks, of every generation that is known. */
#define MAX_GRID_X     INT32_MAX
#define MAX_GRID_YZ    65535u
#define MAX_BLOCK_XY   1024u
#define MAX_BLOCK_Z    64u
#define MAX_BLOCK_SIZE 1024u

/* A comparison of the clocks: so many moments, of which two agree so well, or
 * so much time; and how long a clock that stands still is looked at. */
#define CLOCK_SAMPLES     8
#define CLOCK_AGREE_NS    5000
#define CLOCK_ENOUGH_NS   2000000ull
#define CLOCK_PATIENCE_NS 20000000ull
#define CLOCK_STUCK_NS    100000000ull

/* ---- the clock ----------------------------------------------------------- */

static uint64_t
read_card_clock(const struct nv_device *dev)
{
    uint32_t high, low;

    do {
        high = dev->gpu_time[1];
        low = dev->gpu_time[0];
    } while (high != dev->gpu_time[1]);
    return (uint64_t)high << 32 | low;
}

/* Whether n comparisons in so much time are enough. */
static bool
has_clocks(unsigned n, int64_t best_lag, int64_t next_lag, uint64_t spent_ns)
{
    if (n < 2)
        return spent_ns >= CLOCK_STUCK_NS;
    if (next_lag - best_lag > CLOCK_AGREE_NS)
        return spent_ns >= CLOCK_PATIENCE_NS;
    return n >= CLOCK_SAMPLES || spent_ns >= CLOCK_ENOUGH_NS;
}

/* Both clocks at one moment: when the card's has just moved on, and of some
 * such moments the one where it lags least. (A clock that moves in steps, as
 * the window of a simulated card, otherwise reads old by up to a step.) A
 * second one must lag as little: threads that wait for a core lag at random. */
static bell_status
nv_compare_clocks(struct hcq_device *base, struct hcq_clock_pair *out_pair)
{
    const struct nv_device *dev = nv_device_of(base);
    uint64_t start = time_now_ns(), last = read_card_clock(dev), after = start;
    int64_t best_lag = INT64_MAX, next_lag = INT64_MAX;
    unsigned n = 0;

    *out_pair = (struct hcq_clock_pair){last, start};
    while (!has_clocks(n, best_lag, next_lag, after - start)) {
        uint64_t before = time_now_ns();
        uint64_t card = read_card_clock(dev);
        int64_t lag;

        after = time_now_ns();
        if (card == last) {
            hcq_spin(after - start); /* a simulated card needs a core, too */
            continue;
        }
        last = card;
        lag = (int64_t)(after - card);
        n++;
        if (lag < best_lag) {
            next_lag = best_lag;
            best_lag = lag;
            out_pair->ticks = card;
            out_pair->host_ns = before + (after - before) / 2;
        } else if (lag < next_lag) {
            next_lag = lag;
        }
    }
    return BELL_OK;
}

/* ---- registers and doorbell ---------------------------------------------- */

static bell_status
map_window(struct nv_device *dev, struct nv_hopper_usermode_a *params,
           struct nv_window *out_window)
{
    struct nv_window window = {.map.file.fd = -1};
    bell_status status;

    BELL_TRY(nv_rm_alloc(dev->rm, dev->rm->subdevice,
                         dev->chip.usermode->number, NV_S_NV_HOPPER_USERMODE_A,
                         params, &window.usermode));
    status = nv_rm_map(dev->rm, dev->rm->subdevice, window.usermode, 0,
                       sizeof(struct nv_mem_usermode), 0, NULL, &window.map);
    if (status != BELL_OK) {
        nv_rm_free(dev->rm, dev->rm->subdevice, window.usermode);
        return status;
    }
    *out_window = window;
    return BELL_OK;
}

static void
unmap_window(struct nv_device *dev, struct nv_window *window)
{
    nv_rm_unmap(dev->rm, &window->map);
    nv_rm_free(dev->rm, dev->rm->subdevice, window->usermode);
}

static volatile uint32_t *
window_word(const struct nv_window *window, uint32_t offset_bytes)
{
    volatile uint8_t *base = window->map.cpu;

    return (volatile uint32_t *)(volatile void *)(base + offset_bytes);
}

/* Registers in BAR0: the clock, and a doorbell. Where that doorbell overtakes
 * stores through BAR1, the one in BAR1 is taken: it stays behind
 * them, but nothing is to be read there. Where it is not to be had, or
 * BELL_NV_DOORBELL=bar0, each ring waits until GPPut was read back.
 * src: docs/hardware/nvidia-queues.md, "Doorbell" */
static bell_status
open_windows(struct nv_device *dev)
{
    struct nv_hopper_usermode_a params = {.bBar1Mapping = 1};
    struct nv_control *control = dev->control;
    const char *text = env_get("BELL_NV_DOORBELL");
    bool has_bar1 = dev->chip.usermode->has_bar1;
    bool wants_bar0 = text && strcmp(text, "bar0") == 0;
    bell_status status;

    if (text && !wants_bar0 && strcmp(text, "bar1") != 0)
        return bell_fail(BELL_E_INVALID,
                         "BELL_NV_DOORBELL is '%.20s', not bar0 or bar1", text);
    if (text && !wants_bar0 && !has_bar1)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "BELL_NV_DOORBELL=bar1: class %s has no window there",
                         nv_class_name(dev->chip.usermode->number));
    BELL_TRY(map_window(dev, NULL, &control->registers));
    dev->gpu_time = window_word(&control->registers, NV_MEM_USERMODE_TIME_0);
    dev->doorbell = window_word(&control->registers, NV_MEM_USERMODE_DOORBELL);
    dev->reads_put = has_bar1;
    if (has_bar1 && !wants_bar0) {
        status = map_window(dev, &params, &control->bell);
        if (status == BELL_OK) {
            dev->doorbell =
                window_word(&control->bell, NV_MEM_USERMODE_DOORBELL);
            dev->reads_put = false;
        } else if (text || bell_error_last()->sys_errno) {
            return status;
        } else { /* the driver has no such window, or no room for it */
            LOG(LOG_IOCTL, "%s: rings in BAR0: %s", dev->base.info.name,
                bell_error_last()->message);
        }
    }
    return BELL_OK;
}

/* ---- what it is ---------------------------------------------------------- */

static void
nv_fill_info(struct nv_device *dev)
{
    struct hcq_device_info *info = &dev->base.info;

    info->max_grid[0] = MAX_GRID_X;
    info->max_grid[1] = info->max_grid[2] = MAX_GRID_YZ;
    info->max_local[0] = info->max_local[1] = MAX_BLOCK_XY;
    info->max_local[2] = MAX_BLOCK_Z;
    info->max_local_total = MAX_BLOCK_SIZE;
    info->timestamp_hz = 1000000000u;
    if (dev->kio->is_simulated)
        info->flags |= HCQ_DEVICE_SIMULATED;
}

/* What the queries told. */
static void
complete_info(struct nv_device *dev)
{
    struct hcq_device_info *info = &dev->base.info;

    snprintf(info->arch, sizeof(info->arch), "sm_%u", dev->chip.code_sm);
    info->n_units = dev->chip.n_sm;
    /* the card of a kernel that is simulated around the whole program */
    if (strncmp(info->model, "Simulated ", 10) == 0)
        info->flags |= HCQ_DEVICE_SIMULATED;
    info->max_shared_bytes = dev->chip.max_shared_bytes;
}

/* BELL_NV_VM: how memory gets into the card's address space. */
static bell_status
choose_vm(struct nv_control *control)
{
    static const struct nv_vm_ops *const models[] = {&nv_vm_rm, &nv_vm_uvm};
    const char *text = env_get("BELL_NV_VM");
    size_t i;

    control->vm = models[0];
    for (i = 0; text && i < ARRAY_LEN(models); i++) {
        if (strcmp(text, models[i]->name) == 0) {
            control->vm = models[i];
            return BELL_OK;
        }
    }
    if (text)
        return bell_fail(BELL_E_INVALID, "BELL_NV_VM is '%.20s', not rm or uvm",
                         text);
    return BELL_OK;
}

bool
nv_same_machine(const struct nv_device *a, const struct nv_device *b)
{
    const char *x = strrchr(a->base.info.name, '@');
    const char *y = strrchr(b->base.info.name, '@');
    const struct kio *p = a->kio, *q = b->kio;

    while (p->below)
        p = p->below;
    while (q->below)
        q = q->below;
    if (p->ops != q->ops)
        return false;
    /* For backends that are not a real kernel, the name says which one. */
    return strcmp(p->ops->name, "sys") == 0 || (x && y && strcmp(x, y) == 0);
}

/* ---- life ---------------------------------------------------------------- */

static const struct hcq_device_ops nv_ops;

/* Gives back all that is there, in reverse order. */
static void
nv_device_release(struct hcq_device *base)
{
    struct nv_device *dev = nv_device_of(base);
    struct nv_control *control = dev->control;

    if (dev->move)
        nv_program_destroy(&dev->move->base);
    if (dev->rm) {
        hcq_signal_pages_destroy(dev->signals);
        hcq_signal_pages_destroy(dev->near_signals);
        nv_memory_close(dev);
        unmap_window(dev, &control->bell);
        unmap_window(dev, &control->registers);
        nv_mode_leave(dev);
        nv_rm_destroy(dev->rm);
    }
    kio_destroy(dev->kio);
    pthread_mutex_destroy(&control->lock);
    pthread_mutex_destroy(&control->grow_lock);
    pthread_mutex_destroy(&control->staging_lock);
    host_free(control);
    host_free(dev);
}

static void
nv_device_close(struct hcq_device *base)
{
    struct nv_device *dev = nv_device_of(base);

    nv_fault_end(dev);
    nv_staging_close(dev);
    hcq_device_fini(base);
    nv_device_release(base);
}

static bell_status
nv_device_tell(struct hcq_device *base, const struct kio_told *told)
{
    return kio_tell(nv_device_of(base)->kio, told);
}

static bell_status
nv_device_open(struct hcq_device *base, unsigned idx, const char *interface)
{
    struct nv_device *dev = nv_device_of(base);

    BELL_TRY(choose_vm(dev->control));
    BELL_TRY(kio_open_interface(BACKEND, interface, &dev->kio));
    dev->watched = base->is_told = kio_watches(dev->kio);
    base->waits_near = !dev->watched;
    nv_fill_info(dev);
    BELL_TRY(nv_rm_create(dev->kio, idx, &dev->rm));
    BELL_TRY(nv_mode_enter(dev));
    BELL_TRY(nv_chip_query(dev));
    complete_info(dev);
    if (dev->chip.usermode->has_bar1) /* Hopper and later can have it */
        BELL_TRY(nv_rm_check_confidential(dev->rm));
    BELL_TRY(open_windows(dev));
    BELL_TRY(nv_memory_open(dev));
    BELL_TRY(nv_signals_open(dev));
    BELL_TRY(hcq_device_init(base));
    return BELL_OK;
}

static struct hcq_device *
nv_device_alloc(void)
{
    struct nv_device *dev = host_calloc(1, sizeof(*dev));
    struct nv_control *control = host_calloc(1, sizeof(*control));

    if (!dev || !control) {
        host_free(dev);
        host_free(control);
        return NULL;
    }
    dev->control = control;
    dev->base.ops = &nv_ops;
    dev->base.timestamp_word =
        (NV_SIGNAL_RECORD_BYTES + NV_MEM_SEMAPHORE_TIMESTAMP) / 8;
    control->registers.map.file.fd = control->bell.map.file.fd = -1;
    pthread_mutex_init(&control->lock, NULL);
    pthread_mutex_init(&control->grow_lock, NULL);
    pthread_mutex_init(&control->staging_lock, NULL);
    return &dev->base;
}

static bell_status
nv_open(unsigned idx, const char *interface, struct hcq_device **out_dev)
{
    static const struct hcq_card_driver driver = {
        .backend = BACKEND,
        .alloc = nv_device_alloc,
        .open = nv_device_open,
        .release = nv_device_release,
    };

    return hcq_card_open(&driver, idx, interface, out_dev);
}

/* ---- finding cards ------------------------------------------------------- */

/* The driver's own words for a card: no card is woken for it. */
static void
describe_nv_card(struct kio *kio, const struct nv_rm_card *card,
                 const struct nv_abi *abi, struct hcq_device_desc *out)
{
    char path[96], text[1024];
    const char *model;
    size_t n;

    snprintf(path, sizeof(path),
             "/proc/driver/nvidia/gpus/%04x:%02x:%02x.0/information",
             card->domain, card->bus, card->slot);
    if (kio_read_file(kio, path, text, sizeof(text), &n) == BELL_OK &&
        (model = strstr(text, "Model:")) != NULL) {
        model += strlen("Model:");
        model += strspn(model, " \t");
        snprintf(out->description, sizeof(out->description), "%.*s",
                 (int)strcspn(model, "\n"), model);
        return;
    }
    snprintf(out->description, sizeof(out->description),
             "NVIDIA card 10de:%04x, driver %s", card->pci_device,
             abi->version);
}

static bell_status
list_nv_card(struct kio *kio, unsigned idx, struct hcq_device_desc *out)
{
    struct nv_rm_card cards[NV_RM_MAX_CARDS];
    struct nv_abi abi = {0};
    bell_status status;
    uint32_t n = 0;

    status = nv_rm_list(kio, cards, &n, &abi);
    if (status == BELL_E_NO_DEVICE || status == BELL_E_NO_MEMORY)
        return status;
    if (status != BELL_OK) { /* there is a driver that we cannot use */
        if (idx)
            return BELL_E_NO_DEVICE;
        snprintf(out->description, sizeof(out->description), "NVIDIA card");
        snprintf(out->why_not, sizeof(out->why_not), "%.*s",
                 (int)sizeof(out->why_not) - 1, bell_error_last()->message);
    } else if (idx < n) {
        describe_nv_card(kio, &cards[idx], &abi, out);
        out->usable = true;
    } else {
        return BELL_E_NO_DEVICE;
    }
    snprintf(out->name, sizeof(out->name), BACKEND ":%u", idx);
    return BELL_OK;
}

static bell_status
nv_enumerate(unsigned idx, struct hcq_device_desc *out)
{
    struct kio *kio;
    bell_status status;

    BELL_TRY(kio_sys_create(&kio));
    status = list_nv_card(kio, idx, out);
    kio_destroy(kio);
    return status;
}

static const struct hcq_device_ops nv_ops = {
    .packet_measure = nv_packet_measure,
    .packet_fix = nv_packet_fix,
    .packet_repack = nv_stream_repack,
    .close = nv_device_close,
    .stop = nv_fault_stop,
    .resume = nv_fault_resume,
    .describe = hcq_ring_describe_all,
    .compare_clocks = nv_compare_clocks,
    .clock_mhz = nv_clock_mhz,
    .check = nv_fault_check,
    .mem_alloc = nv_buffer_alloc,
    .mem_free = nv_buffer_free,
    .mem_pin = nv_buffer_pin,
    .mem_unpin = nv_buffer_unpin,
    .mem_peer = nv_buffer_peer,
    .mem_unpeer = nv_buffer_unpeer,
    .mem_export = nv_buffer_export,
    .mem_import = nv_buffer_import,
    .mem_unimport = nv_buffer_unimport,
    .get_link = nv_get_link,
    .link_bytes = nv_link_bytes,
    .team_check = nv_team_check,
    .team_create = nv_team_create,
    .team_destroy = nv_team_destroy,
    .mem_write = nv_buffer_write,
    .mem_read = nv_buffer_read,
    .tell = nv_device_tell,
    .signal_alloc = nv_signal_alloc,
    .signal_alloc_near = nv_signal_alloc_near,
    .signal_settle = nv_signal_settle,
    .signal_free = nv_signal_free,
    .signal_sleep = hcq_signal_nap,
    .signal_map = nv_signal_map,
    .program_create = nv_program_create,
    .program_destroy = nv_program_destroy,
    .queue_create = nv_queue_create,
    .queue_destroy = nv_queue_destroy,
    .queue_submit = nv_queue_submit,
    .stream_bind = nv_stream_bind,
    .stream_unbind = nv_stream_unbind,
    .stream_submit = nv_stream_submit,
};

const struct hcq_backend hcq_nv_backend = {
    .name = BACKEND,
    .interfaces = "sim, record, replay, fault",
    .enumerate = nv_enumerate,
    .open = nv_open,
};
