/* The card: its usermode window and the thread that watches the doorbell. */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"

#define WINDOW_BYTES 65536u /* of BAR0's; BAR1's lies behind it */
/* src: docs/hardware/nvidia-kernel.md, "Bring-up", step 11 */
#define TIME_0   (0x80 / 4)
#define TIME_1   (0x84 / 4)
#define DOORBELL (0x90 / 4)
/* What the register reads as, and no token is. */
#define SILENCE 0
/* What the time reads as through BAR1. observed: H100, 2026-11-22 */
#define NO_TIME 0

/* The card's clock is the host's, but not the same number. */
#define CLOCK_OFFSET_NS UINT64_C(1700000000000000000)

uint64_t
nvgpu_time_ns(const struct nvgpu *gpu)
{
    (void)gpu;
    return time_now_ns() + CLOCK_OFFSET_NS;
}

int
nvgpu_window_fd(const struct nvgpu *gpu)
{
    return gpu->window_fd;
}

/* ---- the watcher ---- */

static void
show_time(struct nvgpu *gpu)
{
    uint64_t now = nvgpu_time_ns(gpu);
    _Atomic uint32_t *w = gpu->window;

    /* who reads high, low, high again until both highs agree sees no tear */
    atomic_store_explicit(&w[TIME_1], (uint32_t)(now >> 32),
                          memory_order_release);
    atomic_store_explicit(&w[TIME_0], (uint32_t)now, memory_order_release);
}

/* A ring looks at every channel: rings may overwrite one another. */
static void
answer_ring(struct nvgpu *gpu, uint32_t token, bool is_bar0)
{
    bool known = false;
    size_t i;

    pthread_mutex_lock(&gpu->lock);
    for (i = 0; i < gpu->n_chans; i++) {
        known |= gpu->chans[i]->token == token;
        nvgpu_chan_rung(gpu->chans[i], is_bar0);
    }
    if (!known) {
        gpu->n_bad_bells++;
        snprintf(
            gpu->bell_text, sizeof(gpu->bell_text),
            "the doorbell was rung with 0x%x, which is not a channel's token",
            token);
    }
    pthread_mutex_unlock(&gpu->lock);
    if (!known)
        LOG(LOG_PUSH, "%s: rung with 0x%x, which is not a channel's token",
            gpu->chip->board, token);
}

/* How long to sleep after so long a silence. */
static long
patience_ns(uint64_t silent_ns)
{
    if (silent_ns < 50000)
        return 0;
    if (silent_ns < 5000000)
        return 50000;
    return silent_ns < 20000000 ? 200000 : 1000000;
}

static void *
watch_channels(void *arg)
{
    struct nvgpu *gpu = arg;
    uint64_t last_ns = time_now_ns();

    /* naps of the length that was asked for */
    (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
    while (!atomic_load_explicit(&gpu->quit, memory_order_relaxed)) {
        struct timespec nap = {0, 0};
        bool is_rung = false;
        unsigned bar;

        for (bar = 0; bar < 2; bar++) {
            _Atomic uint32_t *bell =
                &gpu->window[bar * WINDOW_BYTES / 4 + DOORBELL];
            uint32_t token = SILENCE;

            if (atomic_load_explicit(bell, memory_order_relaxed) != SILENCE)
                token = atomic_exchange(bell, SILENCE);
            if (bar == 0)
                show_time(gpu);
            if (token == SILENCE)
                continue;
            answer_ring(gpu, token, bar == 0);
            is_rung = true;
        }
        if (is_rung) {
            last_ns = time_now_ns();
            continue;
        }
        nap.tv_nsec = patience_ns(time_now_ns() - last_ns);
        if (nap.tv_nsec)
            (void)nanosleep(&nap, NULL);
        else
            thread_relax();
    }
    return NULL;
}

bool
nvgpu_bell_error(struct nvgpu *gpu, char *text, size_t size_bytes)
{
    bool any;

    pthread_mutex_lock(&gpu->lock);
    any = gpu->n_bad_bells > 0;
    if (any && size_bytes)
        snprintf(text, size_bytes, "%s", gpu->bell_text);
    pthread_mutex_unlock(&gpu->lock);
    return any;
}

/* ---- life ---- */

static bell_status
open_window(struct nvgpu *gpu)
{
    void *at;

    gpu->window_fd = memfd_create("nvgpu-window", MFD_CLOEXEC);
    if (gpu->window_fd < 0 || ftruncate(gpu->window_fd, 2 * WINDOW_BYTES) < 0)
        return bell_fail_errno(BELL_E_KERNEL, errno,
                               "memory of the usermode window: %s",
                               strerror(errno));
    at = mmap(NULL, 2 * WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
              gpu->window_fd, 0);
    if (at == MAP_FAILED)
        return bell_fail_errno(BELL_E_KERNEL, errno,
                               "mapping the usermode window: %s",
                               strerror(errno));
    gpu->window = at;
    gpu->window[WINDOW_BYTES / 4 + TIME_0] = NO_TIME;
    gpu->window[WINDOW_BYTES / 4 + TIME_1] = NO_TIME;
    return BELL_OK;
}

static void
close_window(struct nvgpu *gpu)
{
    if (gpu->window)
        munmap((void *)gpu->window, 2 * WINDOW_BYTES);
    if (gpu->window_fd >= 0)
        close(gpu->window_fd);
}

static bell_status
lock_fail(int error)
{
    return bell_fail_errno(BELL_E_NO_MEMORY, error,
                           "lock of a card: out of memory: %s",
                           strerror(error));
}

void
nvgpu_join(struct nvgpu *gpu, struct sim_links *traffic, uint32_t index)
{
    gpu->traffic = traffic;
    gpu->index = index;
}

bell_status
nvgpu_create(const struct nvgpu_chip *chip, struct nvgpu **out_gpu)
{
    struct nvgpu *gpu = host_calloc(1, sizeof(*gpu));
    bell_status status;
    int error;

    assert(chip->n_sm_per_tpc > 0 && chip->n_classes > 0);
    if (!gpu)
        return bell_fail(BELL_E_NO_MEMORY, "card %s: out of memory",
                         chip->name);
    gpu->chip = chip;
    gpu->next_channel_id = NVGPU_FIRST_CHANNEL;
    status = open_window(gpu);
    if (status != BELL_OK)
        goto fail_window;
    error = pthread_mutex_init(&gpu->lock, NULL);
    if (error) {
        status = lock_fail(error);
        goto fail_window;
    }
    error = pthread_mutex_init(&gpu->code_lock, NULL);
    if (error) {
        status = lock_fail(error);
        goto fail_lock;
    }
    error = pthread_mutex_init(&gpu->turn_lock, NULL);
    if (error) {
        status = lock_fail(error);
        goto fail_code_lock;
    }
    show_time(gpu);
    error = pthread_create(&gpu->watcher, NULL, watch_channels, gpu);
    if (error) {
        status = thread_fail(chip->name, error);
        goto fail_turn_lock;
    }
    *out_gpu = gpu;
    return BELL_OK;

fail_turn_lock:
    pthread_mutex_destroy(&gpu->turn_lock);
fail_code_lock:
    pthread_mutex_destroy(&gpu->code_lock);
fail_lock:
    pthread_mutex_destroy(&gpu->lock);
fail_window:
    close_window(gpu);
    host_free(gpu);
    return status;
}

void
nvgpu_destroy(struct nvgpu *gpu)
{
    if (!gpu)
        return;
    atomic_store(&gpu->quit, 1);
    pthread_join(gpu->watcher, NULL);
    pthread_mutex_destroy(&gpu->lock);
    nvgpu_code_free(gpu);
    pthread_mutex_destroy(&gpu->turn_lock);
    pthread_mutex_destroy(&gpu->code_lock);
    close_window(gpu);
    host_free(gpu->chans);
    host_free(gpu);
}
