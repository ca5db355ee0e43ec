/* The search for a kernel's schedule: from what the rules choose to its
 * neighbours, from the best of these on, until none is better or the time is
 * over. The best ones then run in turn with the rules' kernel, which stays
 * unless one of them is clearly faster.
 */
#include "tensor/runtime/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/thread.h"
#include "tensor/runtime/run.h"
#include "tensor/core/tensor_internal.h"
#include "base/bits.h"

/* guess: all of these, so that five seconds are enough on two cores. */
#define MAX_CANDIDATES 1024
#define MAX_NEAR       384
#define BATCH          8    /* compiled together, at most */
#define BATCH_PART     0.04 /* of the time, that it should take */
#define FINAL_PART     0.2  /* of the time, for the last comparison */
#define MAX_FINALISTS  3
#define MAX_ROUNDS     40
#define MIN_ROUNDS     5
#define CLEARLY        0.97 /* of the rules' time, median and least */
#define MODEL_CLEARLY  0.98 /* where times are a model's */
#define MIN_WON        0.75 /* of the rounds */
#define MUCH_BETTER    0.95 /* than the best so far: goes on from there */
#define MAX_GROWTH     8    /* of the rules' ops */
#define LEAST_OPS      2000 /* that are not a trouble */
#define SLOW_COMPILE   0.2  /* of the time, for one: others are to be smaller */
#define MIN_LIMIT_NS   200000000ull /* before a kernel counts as hung */
#define LIMIT_TIMES    100          /* the rules' time */
#define LIMIT_PART     0.25         /* of the time there is, at most */

struct candidate {
    struct lower_made made;
    struct rt_job job;
    struct hcq_program *program; /* NULL: it is none */
    uint64_t hash;               /* of the schedule made */
    double us;
    bool is_expanded;
};

struct search {
    struct tensor_runtime *rt;
    const struct uop *sink;
    const struct rt_search_from *from; /* NULL: the rules' kernel */
    struct rt_bench bench;
    const struct tensor_tune *tune;
    struct tensor_tuned *tuned;
    struct candidate *list; /* the first is the rules', or `from` */
    struct lower_schedule *near;
    struct map seen;         /* hashes of schedules that were tried */
    uint32_t n, best, batch; /* batch: compiled together */
    uint32_t max_ops;
    uint64_t start_ns, limit_ns;
    const struct chip *chip; /* whose model ranks; NULL: times do */
};

static double
seconds_since(uint64_t start_ns)
{
    return (double)(time_now_ns() - start_ns) * 1e-9;
}

static bool
is_over(const struct search *s, double part)
{
    return (s->tune->stop && *s->tune->stop) ||
           seconds_since(s->start_ns) > s->tune->seconds * part;
}

/* ---- compiling ---- */

static uint64_t
hash_schedule(const struct lower_schedule *schedule)
{
    char text[LOWER_SCHEDULE_TEXT];

    lower_schedule_print(schedule, text);
    return hash_bytes(text, strlen(text), 0);
}

static void
drop_candidate(struct candidate *c)
{
    hcq_program_destroy(c->program);
    rt_job_fini(&c->job);
    c->program = NULL;
}

static bool
is_known(const struct search *s, uint64_t hash)
{
    uint32_t i;

    for (i = 0; i < s->n; i++) {
        if (s->list[i].hash == hash)
            return true;
    }
    return false;
}

/* ---- times ---- */

/* What the model says of a kernel: by what a simulated card counts in a run of
 * some of its work-groups, or by what the compiler expects. */
static bell_status
model_us(struct search *s, const struct candidate *c, enum rt_bench_spoil spoil,
         double *out_us)
{
    const struct rt_facts *facts = &c->job.facts;
    struct chip_work work = {.n_groups = (uint64_t)facts->grid[0] *
                                         facts->grid[1] * facts->grid[2],
                             .memory_bytes = facts->n_bytes};
    bell_status status = BELL_OK;
    double us;

    if (s->tuned->by == TENSOR_TUNE_COUNTED) {
        s->tune->count_begin(s->tune->user);
        status =
            rt_bench_run(&s->bench, c->program, facts, s->limit_ns, spoil, &us);
        s->tune->count_end(s->tune->user, &work);
    } else if (c->made.schedule.actions[0].kind == LOWER_MATRIX ||
               c->made.schedule.actions[0].kind == LOWER_WGMMA) {
        work.matrix_flops[CHIP_MATRIX_F16] = facts->n_flops;
    } else {
        work.flops = facts->n_flops;
    }
    *out_us = chip_time(s->chip, &work).us;
    return status;
}

/* The least of a few runs; what is clearly slower than the best runs once. */
static bell_status
time_candidate(struct search *s, const struct candidate *c, double best_us,
               enum rt_bench_spoil spoil, double *out_us)
{
    double least = 0, total = 0, us;
    int i, n = 3;

    for (i = 0; i < n; i++) {
        BELL_TRY(rt_bench_run(&s->bench, c->program, &c->job.facts, s->limit_ns,
                              spoil, &us));
        total += us;
        least = i == 0 || us < least ? us : least;
        if (best_us > 0 && us > (i == 0 ? 3 : 1.5) * best_us)
            break;
        if (i + 1 == n && n < 12 && total < 4000)
            n++;
    }
    *out_us = least;
    return BELL_OK;
}

/* Runs it for its results, on poisoned memory. */
static bell_status
check_candidate(struct search *s, const struct candidate *c, bool *out_same)
{
    double us;

    BELL_TRY(rt_bench_poison(&s->bench));
    BELL_TRY(rt_bench_run(&s->bench, c->program, &c->job.facts, s->limit_ns,
                          RT_BENCH_WELL, &us));
    return rt_bench_compare(&s->bench, out_same);
}

/* What befell a candidate, which ends it and not the search: unless the device
 * stays lost, as after a reset of its card. */
static bell_status
count_failure(struct search *s, bell_status status)
{
    if (status == BELL_E_DEVICE_LOST)
        BELL_TRY(hcq_device_status(s->rt->dev));
    if (status == BELL_E_DEVICE_LOST)
        s->tuned->n_faulted++;
    else if (status == BELL_E_TIMEOUT)
        s->tuned->n_hung++;
    else
        return status;
    LOG(LOG_OPT, "search: %s", bell_error_last()->message);
    bell_error_clear();
    return BELL_OK;
}

/* Takes the time of a candidate; one that is faster than the rules' kernel
 * shows that it is right. *out_good: it stays. */
static bell_status
measure_candidate(struct search *s, struct candidate *c, bool *out_good)
{
    enum rt_bench_spoil spoil = RT_BENCH_WELL;
    bell_status status = BELL_OK;
    bool same = true;

    *out_good = false;
    if (s->tune->bad_address && !s->tuned->n_faulted &&
        s->tuned->n_tried >= s->tune->bad_address)
        spoil = RT_BENCH_BAD_ADDRESS;
    else if (s->tune->never_ends && !s->tuned->n_hung &&
             s->tuned->n_tried >= s->tune->never_ends)
        spoil = RT_BENCH_NEVER_ENDS;
    if (s->tuned->by == TENSOR_TUNE_TIMED)
        status = time_candidate(s, c, s->list[s->best].us, spoil, &c->us);
    else
        status = model_us(s, c, spoil, &c->us);
    if (status == BELL_OK && c->us < s->list[0].us &&
        !(s->rt->info.flags & HCQ_DEVICE_NULL))
        status = check_candidate(s, c, &same);
    if (status != BELL_OK)
        return count_failure(s, status);
    s->tuned->n_wrong += !same;
    *out_good = same;
    return BELL_OK;
}

/* Adds what was compiled to the list. */
static bell_status
add_candidate(struct search *s, struct candidate *c)
{
    char text[LOWER_SCHEDULE_TEXT];
    bool good;

    s->tuned->n_tried++;
    if (c->job.status == BELL_E_UNSUPPORTED)
        s->tuned->n_large++;
    else if (c->job.status == BELL_E_INVALID ||
             c->job.status == BELL_E_INTERNAL)
        s->tuned->n_invalid++;
    else if (c->job.status != BELL_OK)
        return bell_error_set(&c->job.error);
    if (c->job.status != BELL_OK)
        return BELL_OK;
    if ((double)c->job.render_ns * 1e-9 > s->tune->seconds * SLOW_COMPILE &&
        c->job.n_ops / 2 < s->max_ops)
        s->max_ops = c->job.n_ops / 2;
    c->hash = hash_schedule(&c->made.schedule);
    if (is_known(s, c->hash)) {
        s->tuned->n_same++;
        return BELL_OK;
    }
    if (rt_create_program(s->rt, &c->job, &c->program) != BELL_OK) {
        s->tuned->n_invalid++;
        bell_error_clear();
        return BELL_OK;
    }
    BELL_TRY(measure_candidate(s, c, &good));
    if (!good)
        return BELL_OK;
    lower_schedule_print(&c->made.schedule, text);
    LOG(LOG_OPT, "search: %.2f us: %s", c->us, text);
    if (c->us < s->list[s->best].us)
        s->best = s->n;
    s->list[s->n++] = *c;
    memset(c, 0, sizeof(*c));
    return BELL_OK;
}

/* Tries schedules; *out_better: one was much better, and the others are left.
 */
static bell_status
try_schedules(struct search *s, const struct lower_schedule *list, uint32_t n,
              bool *out_better)
{
    struct candidate *work = host_calloc(BATCH, sizeof(*work));
    bell_status status = BELL_OK;
    double was = s->list[s->best].us;
    uint32_t at = 0, i;
    uint64_t start;

    *out_better = false;
    if (!work)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory searching");
    while (at < n && status == BELL_OK && !*out_better) {
        struct rt_job *jobs[BATCH];
        uint32_t n_jobs = 0;
        if (is_over(s, 1 - FINAL_PART) || s->n + BATCH > MAX_CANDIDATES)
            break;
        for (; at < n && n_jobs < s->batch; at++) {
            struct candidate *c = &work[n_jobs];
            uint64_t hash = hash_schedule(&list[at]);
            if (map_get(&s->seen, hash) || map_put(&s->seen, hash, 1) != 0)
                continue;
            jobs[n_jobs++] = &c->job;
            memset(c, 0, sizeof(*c));
            c->job = (struct rt_job){.sink = s->sink,
                                     .target = &s->rt->target,
                                     .told = &list[at],
                                     .made = &c->made,
                                     .max_ops = s->max_ops};
        }
        start = time_now_ns();
        rt_compile_jobs(jobs, n_jobs);
        s->batch = seconds_since(start) > s->tune->seconds * BATCH_PART
                       ? (s->batch + 1) / 2
                       : BATCH;
        for (i = 0; i < n_jobs; i++) {
            if (status == BELL_OK && !is_over(s, 1))
                status = add_candidate(s, &work[i]);
            drop_candidate(&work[i]);
        }
        *out_better = s->list[s->best].us < was * MUCH_BETTER;
    }
    for (i = 0; i < s->n; i++) /* they were copied there */
        s->list[i].job.made = NULL;
    host_free(work);
    return status;
}

/* ---- the beam ---- */

/* The best that was not gone on from, among the best of the beam; MAX: none. */
static uint32_t
next_to_expand(const struct search *s)
{
    uint32_t best = UINT32_MAX, i, j, n_better;

    for (i = 0; i < s->n; i++) {
        if (s->list[i].is_expanded ||
            (best != UINT32_MAX && s->list[i].us >= s->list[best].us))
            continue;
        for (n_better = 0, j = 0; j < s->n; j++)
            n_better += s->list[j].us < s->list[i].us;
        if (n_better < s->tune->beam)
            best = i;
    }
    return best;
}

/* Neighbours in a random order, always the same: where the time is over, it is
 * not always the same ones that were not tried. */
static void
shuffle(struct lower_schedule *list, uint32_t n, uint64_t seed)
{
    uint32_t i, j;

    for (i = n; i > 1; i--) {
        struct lower_schedule swap = list[i - 1];
        seed = hash_mix(seed);
        j = (uint32_t)(seed % i);
        list[i - 1] = list[j];
        list[j] = swap;
    }
}

static bell_status
search_beam(struct search *s)
{
    const struct lower_target *target = &s->rt->target.lower;
    uint32_t n = lower_alternatives(target, s->near, MAX_NEAR), at;
    bool better;

    BELL_TRY(try_schedules(s, s->near, n, &better));
    while (!is_over(s, 1 - FINAL_PART) &&
           (at = next_to_expand(s)) != UINT32_MAX) {
        n = lower_neighbours(&s->list[at].made, target, s->near, MAX_NEAR);
        shuffle(s->near, n, s->list[at].hash);
        BELL_TRY(try_schedules(s, s->near, n, &better));
        s->list[at].is_expanded = !better;
    }
    return BELL_OK;
}

/* ---- the end ---- */

static double
median(double *list, uint32_t n)
{
    qsort(list, n, sizeof(*list), compare_doubles);
    return n % 2 ? list[n / 2] : (list[n / 2 - 1] + list[n / 2]) / 2;
}

/* One time of a round: short kernels run a few times. */
static bell_status
sample(struct search *s, const struct candidate *c, double *out_us)
{
    double us;
    int i, n = c->us < 1000 ? 4 : 1;

    for (i = 0; i < n; i++) {
        BELL_TRY(rt_bench_run(&s->bench, c->program, &c->job.facts, s->limit_ns,
                              RT_BENCH_WELL, &us));
        *out_us = i == 0 || us < *out_us ? us : *out_us;
    }
    return BELL_OK;
}

/* The candidates that are faster than the rules' kernel, the fastest first. */
static uint32_t
find_finalists(const struct search *s, uint32_t *out)
{
    uint32_t i, at, n = 0;

    for (i = 1; i < s->n; i++) {
        if (s->list[i].us >= s->list[0].us)
            continue;
        for (at = n < MAX_FINALISTS ? n++ : n; at > 0; at--) {
            if (s->list[out[at - 1]].us <= s->list[i].us)
                break;
            if (at < MAX_FINALISTS)
                out[at] = out[at - 1];
        }
        if (at < MAX_FINALISTS)
            out[at] = i;
    }
    return n;
}

/* Numbers 0..n-1 in an order that no other work of the machine goes by. */
static void
random_order(uint32_t *order, uint32_t n, uint64_t seed)
{
    uint32_t i, j;

    for (i = 0; i < n; i++) {
        seed = hash_mix(seed + i);
        j = (uint32_t)(seed % (i + 1));
        order[i] = i;
        order[i] = order[j];
        order[j] = i;
    }
}

/* The rules' kernel and the finalists side by side; *out_winner: the one that
 * is clearly faster, or 0. */
static bell_status
run_final(struct search *s, const uint32_t *finalists, uint32_t n,
          uint32_t *out_winner)
{
    double us[MAX_FINALISTS + 1][MAX_ROUNDS], least = 0;
    double end = s->tune->seconds,
           least_end = seconds_since(s->start_ns) + end * FINAL_PART / 2;
    double medians[MAX_FINALISTS + 1], fastest[MAX_FINALISTS + 1];
    uint32_t won[MAX_FINALISTS + 1] = {0}, order[MAX_FINALISTS + 1], round, i;

    end = end < least_end ? least_end : end;
    for (round = 0; round < MAX_ROUNDS; round++) {
        if (round >= MIN_ROUNDS && seconds_since(s->start_ns) > end)
            break;
        random_order(order, n + 1, round);
        for (i = 0; i <= n; i++) {
            uint32_t at = order[i];
            BELL_TRY(sample(s, &s->list[at ? finalists[at - 1] : 0],
                            &us[at][round]));
        }
        for (i = 0; i <= n; i++) {
            won[i] += us[i][round] < us[0][round];
            if (round == 0 || us[i][round] < fastest[i])
                fastest[i] = us[i][round];
        }
    }
    *out_winner = 0;
    for (i = 0; i <= n; i++)
        medians[i] = median(us[i], round);
    s->tuned->rules_us = s->tuned->best_us = medians[0];
    for (i = 1; i <= n; i++) {
        if (medians[i] > CLEARLY * medians[0] ||
            fastest[i] > CLEARLY * fastest[0] ||
            (double)won[i] < MIN_WON * round ||
            (*out_winner && medians[i] >= least))
            continue;
        least = medians[i];
        *out_winner = finalists[i - 1];
        s->tuned->best_us = least;
    }
    return BELL_OK;
}

static bell_status
choose_winner(struct search *s, uint32_t *out_winner)
{
    uint32_t finalists[MAX_FINALISTS], n = find_finalists(s, finalists);
    bell_status status = BELL_OK;

    *out_winner = 0;
    s->tuned->rules_us = s->tuned->best_us = s->list[0].us;
    if (n && s->tuned->by != TENSOR_TUNE_TIMED &&
        s->list[finalists[0]].us < MODEL_CLEARLY * s->list[0].us) {
        *out_winner = finalists[0];
        s->tuned->best_us = s->list[finalists[0]].us;
    } else if (n && s->tuned->by == TENSOR_TUNE_TIMED) {
        status = run_final(s, finalists, n, out_winner);
    }
    if (!*out_winner)
        s->tuned->why_rules =
            n ? "none is faster beyond noise" : "none is faster";
    return status == BELL_OK ? status : count_failure(s, status);
}

/* ---- a kernel ---- */

/* How much alike a product and a device's chip are; 0: of other vendors. */
static int
likeness(const struct chip *product, const struct hcq_device_info *info)
{
    const struct chip_arch *a = chip_arch_find(product->arch);
    const struct chip_arch *b = chip_arch_find(info->arch);

    if (!a || strcmp(a->backend, info->backend) != 0)
        return 0;
    if (strcmp(a->name, info->arch) == 0)
        return 3;
    return b && a->amd.family && b->amd.family &&
                   strcmp(a->amd.family, b->amd.family) == 0
               ? 2
               : 1;
}

/* The product that the device is, or the one most like it. */
static const struct chip *
find_chip(const struct hcq_device_info *info)
{
    const struct chip *chip = chip_of_device(info->name, info->model), *other;
    int best = 0;
    size_t i;

    if (chip)
        return chip;
    for (i = 0; (other = chip_at(i)); i++) {
        int like = likeness(other, info);

        if (like > best) {
            best = like;
            chip = other;
        }
    }
    return chip;
}

/* How candidates are ranked. */
static const char *
choose_measure(struct search *s)
{
    const struct hcq_device_info *info = &s->rt->info;

    s->tuned->by = TENSOR_TUNE_TIMED;
    if (!(info->flags & (HCQ_DEVICE_NULL | HCQ_DEVICE_SIMULATED)))
        return NULL;
    s->tuned->by = !(info->flags & HCQ_DEVICE_NULL) && s->tune->count_begin
                       ? TENSOR_TUNE_COUNTED
                       : TENSOR_TUNE_ESTIMATED;
    s->chip = find_chip(info);
    if (!s->chip || !s->rt->target.lower.is_gpu)
        return "there is no model of the chip";
    s->tuned->chip = s->chip->name;
    return NULL;
}

/* The rules' kernel: its time, its results. */
static bell_status
begin_search(struct search *s, const char **out_why_not)
{
    struct candidate *first = &s->list[0];
    uint64_t start;
    double us = 0;
    int i;

    *out_why_not = choose_measure(s);
    if (*out_why_not)
        return BELL_OK;
    if (s->from) {
        memcpy(first->job.facts.grid, s->from->grid, sizeof(s->from->grid));
        for (i = 0; i < 3; i++)
            first->job.facts.local[i] =
                s->from->program.local[0] ? s->from->program.local[i] : 1;
        first->hash = 0; /* the rules' kernel is one that is tried */
        BELL_TRY(
            hcq_program_create(s->rt->dev, &s->from->program, &first->program));
    } else {
        BELL_TRY(rt_create_program(s->rt, &first->job, &first->program));
    }
    s->limit_ns = HCQ_TIMEOUT_NS;
    if (!(s->rt->info.flags & HCQ_DEVICE_NULL)) {
        start = time_now_ns();
        BELL_TRY(rt_bench_run(&s->bench, first->program, &first->job.facts,
                              HCQ_TIMEOUT_NS, RT_BENCH_WELL, &us));
        start = time_now_ns() - start;
        BELL_TRY(rt_bench_keep(&s->bench));
        s->limit_ns = start * LIMIT_TIMES;
        if ((double)s->limit_ns > s->tune->seconds * LIMIT_PART * 1e9)
            s->limit_ns = (uint64_t)(s->tune->seconds * LIMIT_PART * 1e9);
        if (s->limit_ns < MIN_LIMIT_NS)
            s->limit_ns = MIN_LIMIT_NS;
        if ((double)start * 1e-9 > s->tune->seconds / 8)
            *out_why_not = "a run takes too long for the time there is";
    }
    if (s->tuned->by == TENSOR_TUNE_TIMED)
        BELL_TRY(time_candidate(s, first, 0, RT_BENCH_WELL, &first->us));
    else
        BELL_TRY(model_us(s, first, RT_BENCH_WELL, &first->us));
    s->n = 1;
    s->batch = BATCH;
    return BELL_OK;
}

static bell_status
search_list(struct search *s, struct lower_schedule *out_schedule)
{
    struct lower_schedule rules = s->list[0].made.schedule;
    uint32_t winner = 0;
    bool better;

    BELL_TRY(begin_search(s, &s->tuned->why_not));
    if (s->tuned->why_not)
        return BELL_OK;
    s->max_ops = s->list[0].job.n_ops * MAX_GROWTH;
    s->max_ops = s->max_ops < LEAST_OPS ? LEAST_OPS : s->max_ops;
    if (s->from)
        BELL_TRY(try_schedules(s, &rules, 1, &better));
    BELL_TRY(search_beam(s));
    BELL_TRY(choose_winner(s, &winner));
    if (winner)
        *out_schedule = s->list[winner].made.schedule;
    return BELL_OK;
}

/* Why a kernel has nothing to be chosen; NULL: it has. */
static const char *
why_no_choice(const struct candidate *rules)
{
    if (rules->made.is_in_place)
        return "it loads what it stores";
    return rules->made.schedule.n_actions ? NULL : "it has no choice";
}

bell_status
rt_search_kernel(struct tensor_runtime *rt, const struct uop *sink,
                 const struct rt_bench_args *with,
                 const struct rt_search_from *from, struct tensor_tuned *tuned,
                 struct lower_schedule *out_schedule)
{
    struct search s = {.rt = rt,
                       .sink = sink,
                       .from = from,
                       .tune = &rt->tune,
                       .tuned = tuned,
                       .start_ns = time_now_ns()};
    char texts[2][LOWER_SCHEDULE_TEXT];
    bell_status status;
    uint32_t i;

    map_init(&s.seen);
    s.list = host_calloc(MAX_CANDIDATES, sizeof(*s.list));
    s.near = host_calloc(MAX_NEAR, sizeof(*s.near));
    if (!s.list || !s.near) {
        host_free(s.list);
        host_free(s.near);
        return bell_fail(BELL_E_NO_MEMORY, "out of memory searching");
    }
    s.list[0].job = (struct rt_job){
        .sink = sink, .target = &rt->target, .made = &s.list[0].made};
    status = rt_compile_job(&s.list[0].job);
    tuned->name = s.list[0].job.name ? s.list[0].job.name : "";
    if (status == BELL_OK)
        tuned->why_not = why_no_choice(&s.list[0]);
    if (status == BELL_OK && !tuned->why_not) {
        s.list[0].hash = hash_schedule(&s.list[0].made.schedule);
        status = rt_bench_init(&s.bench, rt, with);
        if (status == BELL_E_NO_MEMORY) {
            tuned->why_not = "there is no memory for another set of buffers";
            bell_error_clear();
            status = BELL_OK;
        } else if (status == BELL_OK) {
            status = search_list(&s, out_schedule);
            for (i = 1; i < s.n; i++)
                drop_candidate(&s.list[i]);
            hcq_program_destroy(s.list[0].program);
            rt_bench_fini(&s.bench);
        }
    }
    tuned->seconds = seconds_since(s.start_ns);
    lower_schedule_print(&s.list[0].made.schedule, texts[0]);
    lower_schedule_print(out_schedule, texts[1]);
    tuned->rules = texts[0];
    tuned->best = out_schedule->n_actions ? texts[1] : texts[0];
    if (status == BELL_OK && rt->tune.tell)
        rt->tune.tell(rt->tune.user, tuned);
    rt_job_fini(&s.list[0].job);
    map_fini(&s.seen);
    host_free(s.list);
    host_free(s.near);
    return status;
}

/* ---- all kernels of a plan ---- */

const struct lower_schedule *
rt_schedule_of(const struct tensor_runtime *rt, const struct uop *sink)
{
    const uint64_t *found;

    if (!rt->n_schedules)
        return NULL;
    found = map_get(&rt->schedule_of, rt_key(rt, sink));
    return found && rt->schedules[*found].n_actions ? &rt->schedules[*found]
                                                    : NULL;
}

static bell_status
note_schedule(struct tensor_runtime *rt, const struct uop *sink,
              const struct lower_schedule *schedule)
{
    if (host_grow((void **)&rt->schedules, &rt->cap_schedules,
                  rt->n_schedules + 1, sizeof(*rt->schedules)) != 0 ||
        map_put(&rt->schedule_of, rt_key(rt, sink), rt->n_schedules) != 0)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory searching");
    rt->schedules[rt->n_schedules++] = *schedule;
    return BELL_OK;
}

static bell_status
search_item(struct tensor_runtime *rt, const struct rt_plan *plan,
            const struct sched_item *item, struct tensor_tuned *tuned,
            struct lower_schedule *out_schedule)
{
    struct rt_bench_args *with = host_calloc(1, sizeof(*with));
    bell_status status;
    uint32_t i;

    if (!with)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory searching");
    with->n_outs = item->n_outs;
    with->n_bufs = item->n_bufs;
    with->n_words = item->n_vars;
    for (i = 0; i < item->n_bufs; i++) {
        const struct sched_buf *buf = &plan->sched.bufs[item->bufs[i]];
        with->bufs[i].dtype = buf->dtype;
        with->bufs[i].n_elems = buf->n_elems;
    }
    for (i = 0; i < item->n_vars; i++)
        with->words[i] = rt_vary_word(rt, plan, item->vars[i]);
    status = rt_search_kernel(rt, item->sink, with, NULL, tuned, out_schedule);
    host_free(with);
    return status;
}

bell_status
rt_search_item(struct tensor_runtime *rt, const struct rt_plan *plan,
               const struct sched_item *item)
{
    struct lower_schedule schedule = {.n_actions = 0};
    struct tensor_tuned tuned = {.name = ""};

    if (rt->target.lower.no_opts ||
        map_get(&rt->kernel_of, rt_key(rt, item->sink)) ||
        map_get(&rt->schedule_of, rt_key(rt, item->sink)) ||
        item->sink->src[0]->op == UOP_SINK ||
        item->sink->src[0]->op == UOP_CUSTOM ||
        (rt->tune.stop && *rt->tune.stop))
        return BELL_OK;
    /* nothing else is in the queue meanwhile: what a search loses of it would
     * not come back */
    BELL_TRY(rt_wait(rt, rt->last_value));
    if (rt->tune.searches_again ||
        !rt_kept_schedule(rt, item->sink, rt->tune.beam, &schedule)) {
        BELL_TRY(search_item(rt, plan, item, &tuned, &schedule));
        /* that a search was stopped says nothing for the rules */
        if (!tuned.why_not &&
            (schedule.n_actions || !(rt->tune.stop && *rt->tune.stop)))
            rt_keep_schedule(rt, item->sink, rt->tune.beam, &schedule);
    }
    return note_schedule(rt, item->sink, &schedule);
}

bell_status
rt_search(struct tensor_runtime *rt, const struct rt_plan *plan)
{
    uint32_t i;

    for (i = 0; i < plan->sched.n_items; i++)
        BELL_TRY(rt_search_item(rt, plan, &plan->sched.items[i]));
    return BELL_OK;
}

/* ---- turning it on ---- */

bell_status
rt_search_init(struct tensor_runtime *rt)
{
    const char *text = env_get("BELL_BEAM");
    unsigned long n;
    char *end;

    rt->tune.seconds = TENSOR_TUNE_SECONDS;
    if (!text || !*text || strcmp(text, "off") == 0)
        return BELL_OK;
    n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n > TENSOR_TUNE_MAX)
        return bell_fail(BELL_BAD_VALUE, "BELL_BEAM is '%.40s', not 0 to %d",
                         text, TENSOR_TUNE_MAX);
    rt->tune.beam = (uint32_t)n;
    return BELL_OK;
}

void
rt_search_fini(struct tensor_runtime *rt)
{
    map_fini(&rt->schedule_of);
    host_free(rt->schedules);
    rt->schedules = NULL;
}

void
tensor_tune_set(struct bell_context *ctx, const struct tensor_tune *tune)
{
    struct tensor_runtime *rt = ctx->runtime;

    rt->tune = tune ? *tune : (struct tensor_tune){.beam = 0};
}
