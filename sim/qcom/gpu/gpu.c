/* The simulated Adreno: chips, the card's thread, submissions. */
#include "sim/qcom/gpu/gpu.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "base/log.h"
#include "base/thread.h"
#include "sim/qcom/gpu/gpu_internal.h"

/* By generation. src: docs/hardware/adreno.md, "Chips" */
static const struct {
    enum shader_gen shaders;
    uint32_t n_consts;
    bool lacks_loads;
} gens[CHIP_ADRENO_GEN_COUNT] = {
    [CHIP_A6XX] = {SHADER_A6XX, 256, false},
    [CHIP_A7XX] = {SHADER_A7XX, 512, false},
    [CHIP_A7XX_FEW] = {SHADER_A7XX, 256, false},
    [CHIP_A7XX_3] = {SHADER_A7XX, 512, true},
};

/* The second revision of each chip, where ids tell revisions. */
bool
qsim_chip_make(const char *name, struct qsim_chip *out_chip)
{
    const struct chip_arch *arch = chip_arch_find(name);
    const struct chip_adreno *facts;

    if (!arch || !arch->adreno.gen)
        return false;
    facts = &arch->adreno;
    *out_chip = (struct qsim_chip){
        .name = arch->name,
        .gen = gens[facts->gen].shaders,
        .chip_id = facts->id | (1 & ~facts->id_mask),
        .n_sps = arch->n_units,
        .n_vec4 = facts->file_vec4,
        .sp_threads = facts->fibers_per_sp,
        .n_icache = facts->cache_units,
        .n_consts = gens[facts->gen].n_consts,
        .lacks_loads = gens[facts->gen].lacks_loads,
        .has_lpac = facts->has_lpac,
        .has_aaf2 = facts->sets_aaf2,
        .is_coherent = facts->is_coherent,
        .gmem_bytes = (uint64_t)facts->gmem_kib * 1024,
        .max_hz = facts->max_mhz * (uint64_t)1000000,
    };
    if (facts->gen == CHIP_A6XX)
        out_chip->gpu_id = (uint32_t)strtoul(name + 1, NULL, 10);
    snprintf(out_chip->model, sizeof(out_chip->model), "Adreno%sv%u",
             *name == 'a' ? name + 1 : name, (out_chip->chip_id & 0xf) + 1);
    return true;
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

/* A submission finds no state of its own: it must set all that it needs. */
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
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a card");
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
