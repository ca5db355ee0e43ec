/* The simulated Adreno: chips, the card's thread, submissions. */
#include "sim/qcom/gpu/gpu.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/thread.h"
#include "sim/qcom/gpu/gpu_internal.h"

/* src: hw/qcom/BRINGUP.md 3. guess: clocks; that memory is coherent differs
 * between boards, and one of each kind is here. */
/* clang-format off */
static const struct qsim_chip chips[] = {
    {.name = "a630", .model = "Adreno630v2", .gen = SHADER_A6XX,
     .chip_id = 0x06030001, .gpu_id = 630, .n_sps = 2, .n_vec4 = 96,
     .sp_threads = 2048, .n_icache = 64, .n_consts = 256,
     .is_coherent = false, .gmem_bytes = 1u << 20, .max_hz = 710000000},
    {.name = "a740", .model = "Adreno740v2", .gen = SHADER_A7XX,
     .chip_id = 0x43050a01, .gpu_id = 0, .n_sps = 6, .n_vec4 = 96,
     .sp_threads = 4096, .n_icache = 127, .n_consts = 512,
     .is_coherent = true, .gmem_bytes = 3u << 20, .max_hz = 680000000},
    {.name = "a750", .model = "Adreno750v2", .gen = SHADER_A7XX,
     .chip_id = 0x43051401, .gpu_id = 0, .n_sps = 6, .n_vec4 = 96,
     .sp_threads = 4096, .n_icache = 127, .n_consts = 512,
     .lacks_loads = true, .is_coherent = false, .gmem_bytes = 3u << 20,
     .max_hz = 770000000},
};
/* clang-format on */

const struct qsim_chip *
qsim_chip_find(const char *name, uint32_t number)
{
    size_t i;

    if (!name)
        return number < ARRAY_LEN(chips) ? &chips[number] : NULL;
    for (i = 0; i < ARRAY_LEN(chips); i++) {
        if (!strcmp(chips[i].name, name))
            return &chips[i];
    }
    return NULL;
}

uint64_t
qsim_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 19200000u + (uint64_t)t.tv_nsec * 12 / 625;
}

bool
qsim_fail(struct qsim *gpu, enum qsim_fault fault, const char *fmt, ...)
{
    struct qsim_result *r = &gpu->result;
    va_list args;
    int n;

    if (r->fault != QSIM_OK)
        return false;
    r->fault = fault;
    n = snprintf(r->text, sizeof(r->text),
                 "packet at 0x%llx: ", (unsigned long long)gpu->at_va);
    va_start(args, fmt);
    vsnprintf(r->text + n, sizeof(r->text) - (size_t)n, fmt, args);
    va_end(args);
    return false;
}

/* What a submission finds is nobody's: all that it needs it must say. */
static void
run_batch(struct qsim *gpu, struct qsim_batch *batch)
{
    uint32_t i;

    memset(&gpu->result, 0, sizeof(gpu->result));
    memset(gpu->state, 0, sizeof(*gpu->state));
    atomic_store(&gpu->stop, 0);
    gpu->serial++;
    gpu->batch = batch;
    batch->began = qsim_clock();
    qsim_memory_lock(gpu);
    memset(batch->space->recent, 0, sizeof(batch->space->recent));
    for (i = 0; i < batch->n_ibs && gpu->result.fault == QSIM_OK; i++) {
        gpu->at_va = batch->ibs[i].va;
        (void)qsim_run_stream(gpu, batch->ibs[i].va,
                              (uint32_t)(batch->ibs[i].size_bytes / 4), 0);
    }
    /* the kernel's own words behind it; a reset loses what was not written */
    if (gpu->result.fault == QSIM_OK) {
        qsim_flush(batch->space);
    } else {
        qsim_lose(batch->space);
        if (LOG_ON(LOG_PUSH | LOG_FAULT))
            log_print(LOG_FAULT, "%s", gpu->result.text);
    }
    qsim_memory_unlock(gpu);
    gpu->batch = NULL;
    batch->ended = qsim_clock();
}

static void *
run_card(void *arg)
{
    struct qsim *gpu = arg;
    struct qsim_batch *batch;
    struct qsim_result none = {0};

    host_fail_spare_thread();
    pthread_mutex_lock(&gpu->lock);
    for (;;) {
        while (!gpu->first && !gpu->is_ending)
            pthread_cond_wait(&gpu->wakes, &gpu->lock);
        batch = gpu->first;
        if (!batch)
            break;
        gpu->first = batch->next;
        if (!gpu->first)
            gpu->last = &gpu->first;
        gpu->is_running = true;
        pthread_mutex_unlock(&gpu->lock);
        if (batch->begin(batch->user, batch)) {
            run_batch(gpu, batch);
            batch->done(batch->user, batch, &gpu->result);
        } else {
            batch->done(batch->user, batch, &none);
        }
        pthread_mutex_lock(&gpu->lock);
        gpu->is_running = false;
    }
    pthread_mutex_unlock(&gpu->lock);
    return NULL;
}

bell_status
qsim_create(const struct qsim_chip *chip, struct qsim **out_gpu)
{
    struct qsim *gpu = host_calloc(1, sizeof(*gpu));
    int error;

    if (gpu)
        gpu->state = host_calloc(1, sizeof(*gpu->state));
    if (!gpu || !gpu->state) {
        host_free(gpu);
        return bell_fail(BELL_E_NO_MEMORY, "no memory for a card");
    }
    gpu->chip = chip;
    gpu->last = &gpu->first;
    gpu->seed = 1;
    pthread_mutex_init(&gpu->lock, NULL);
    pthread_mutex_init(&gpu->memory_lock, NULL);
    pthread_cond_init(&gpu->wakes, NULL);
    error = pthread_create(&gpu->thread, NULL, run_card, gpu);
    if (error) {
        host_free(gpu->state);
        host_free(gpu);
        return thread_fail(chip->name, error);
    }
    *out_gpu = gpu;
    return BELL_OK;
}

void
qsim_destroy(struct qsim *gpu)
{
    size_t i;

    if (!gpu)
        return;
    pthread_mutex_lock(&gpu->lock);
    gpu->is_ending = true;
    pthread_cond_broadcast(&gpu->wakes);
    pthread_mutex_unlock(&gpu->lock);
    pthread_join(gpu->thread, NULL);
    for (i = 0; i < ARRAY_LEN(gpu->codes); i++)
        shader_code_destroy(gpu->codes[i].code);
    pthread_cond_destroy(&gpu->wakes);
    pthread_mutex_destroy(&gpu->memory_lock);
    pthread_mutex_destroy(&gpu->lock);
    host_free(gpu->state);
    host_free(gpu);
}

void
qsim_submit(struct qsim *gpu, struct qsim_batch *batch)
{
    batch->next = NULL;
    pthread_mutex_lock(&gpu->lock);
    assert(!gpu->is_ending);
    *gpu->last = batch;
    gpu->last = &batch->next;
    pthread_cond_signal(&gpu->wakes);
    pthread_mutex_unlock(&gpu->lock);
}

void
qsim_stop_running(struct qsim *gpu)
{
    atomic_store(&gpu->stop, 1);
}
