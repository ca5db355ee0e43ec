/* How long a plan takes, by what is known of links: for each phase a fixed cost
 * and the time of the busiest link or port.
 */
#include "hcq/hcq_collective_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "hcq/hcq_backend.h"

/* Fixed costs in ns. guess: waits through host memory 2 us, of which one is the
 * waiter's look that crosses the bus; launches and copies 2.5 us. No card with
 * links was at hand. */
#define SIGNAL_NS 2000.0 /* until another queue sees it */
#define NEAR_NS   1000.0 /* likewise, in the memory of who waits */
#define SUM_NS    2500.0
#define COPY_NS   2500.0
#define NEXT_NS   500.0 /* a command behind another one of its queue */

/* Rates of links that nobody tells, in bytes a ns. guess: what copies reach
 * of PCI Express 4.0 x16, of 18 NVLinks of an H100 half the peak, of one XGMI
 * link 48 of 64 GB/s (ROCm/rccl, issue 1210). */
static const double assumed_rates[HCQ_LINK_KIND_COUNT] = {
    [HCQ_LINK_SELF] = 10, [HCQ_LINK_HOST] = 12,    [HCQ_LINK_PCIE] = 20,
    [HCQ_LINK_BAR1] = 20, [HCQ_LINK_NVLINK] = 200, [HCQ_LINK_XGMI] = 48,
};

#define RING_CHUNKS_MAX 64
#define RING_BYTES_MIN  4096.0 /* of a chunk */

/* Without the mathematics library: the driver half needs the C library
 * alone. */
static double
larger(double a, double b)
{
    return a > b ? a : b;
}

static double
smaller(double a, double b)
{
    return a < b ? a : b;
}

static double
signal_ns(const struct coll_task *t)
{
    return t->is_near ? NEAR_NS : SIGNAL_NS;
}

/* ---- links --------------------------------------------------------------- */

static void
take_link(struct coll_task *t, uint32_t a, uint32_t b,
          const struct hcq_device_link *link)
{
    double rate = (double)link->bytes_per_s / 1e9;

    if (link->kind == HCQ_LINK_HOST && rate > 0) {
        t->host_rate[a] = rate;
        t->is_host_assumed[a] = false;
    }
    if (link->kind <= HCQ_LINK_HOST)
        return;
    t->reads[a][b] = link->reads;
    t->writes[a][b] = link->writes;
    t->is_posted[a][b] =
        link->kind == HCQ_LINK_PCIE || link->kind == HCQ_LINK_BAR1;
    t->is_assumed[a][b] = rate == 0;
    t->rate[a][b] = rate > 0 ? rate : assumed_rates[link->kind];
    /* XGMI has a link for each pair; others share what the device has */
    if (link->kind == HCQ_LINK_XGMI)
        t->port_rate[a] += t->rate[a][b];
    else
        t->port_rate[a] = larger(t->port_rate[a], t->rate[a][b]);
}

bell_status
coll_find_links(const struct hcq_collective_rank *ranks, struct coll_task *t)
{
    uint32_t a, b;

    t->is_near = true;
    for (a = 0; a < t->n; a++) {
        t->host_rate[a] = assumed_rates[HCQ_LINK_HOST];
        t->is_host_assumed[a] = true;
        for (b = 0; b < t->n; b++) {
            struct hcq_device_link link = {.struct_size = sizeof(link)};

            if (a == b)
                continue;
            BELL_TRY(hcq_device_get_link(ranks[a].dev, ranks[b].dev, &link));
            take_link(t, a, b, &link);
            t->is_near = t->is_near && link.kind > HCQ_LINK_HOST &&
                         link.writes && ranks[b].dev->waits_near;
        }
    }
    return BELL_OK;
}

void
coll_make_links(struct coll_task *t, const struct hcq_collective_box *box)
{
    struct hcq_device_link link = {
        .struct_size = sizeof(link),
        .kind = box->kind,
        .hops = 1,
        .bytes_per_s = box->bytes_per_s,
        .reads = true,
        .writes = true,
    };
    uint32_t a, b;

    for (a = 0; a < t->n; a++) {
        t->host_rate[a] = assumed_rates[HCQ_LINK_HOST];
        t->is_host_assumed[a] = true;
        for (b = 0; b < t->n; b++) {
            if (a != b)
                take_link(t, a, b, &link);
        }
    }
}

bell_status
coll_check_team(const struct hcq_collective_rank *ranks, uint32_t n)
{
    const struct hcq_device_ops *ops = ranks[0].dev->ops;
    struct hcq_device *devs[RANKS_MAX];
    uint32_t r;

    for (r = 0; r < n; r++) {
        devs[r] = ranks[r].dev;
        if (devs[r]->ops != ops || !ops->team_check || n < 2)
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s has no switch that adds for %s",
                             devs[r]->info.name, devs[0]->info.name);
    }
    return ops->team_check(devs, n);
}

/* ---- rings --------------------------------------------------------------- */

/* As many as make (chunks + hops) * (fixed + bytes / chunks / rate) least. */
uint64_t
coll_ring_chunks(const struct coll_task *t, uint64_t n_bytes)
{
    double rate = INFINITY, hops = 2.0 * t->n - 3,
           fixed = signal_ns(t) + SUM_NS;
    double most = (double)n_bytes / RING_BYTES_MIN, square, n = 1;
    uint32_t r;

    for (r = 0; r < t->n; r++) {
        uint32_t next = (r + 1) % t->n;

        if (t->rate[next][r] > 0)
            rate = smaller(rate, t->rate[next][r]);
    }
    square = hops * (double)n_bytes / rate / fixed;
    while (n < RING_CHUNKS_MAX && n + 1 <= most && (n + 1) * (n + 1) <= square)
        n++;
    return (uint64_t)n;
}

/* ---- time ---------------------------------------------------------------- */

static uint64_t
bytes_of_to(const struct coll_task *t, const struct coll_step *step)
{
    if (step->n_terms == 0)
        return step->count;
    return step->count * (step->wide_result ? 4 : t->elem_bytes);
}

static uint64_t
bytes_of_from(const struct coll_task *t, const struct coll_step *step,
              uint32_t term)
{
    if (step->n_terms == 0)
        return step->count;
    return step->count * (step->wide_first && term == 0 ? 4 : t->elem_bytes);
}

static void
add_traffic(const struct coll_task *t, const struct coll_plan *plan,
            const struct coll_step *step, struct coll_traffic *traffic)
{
    uint32_t n_from = coll_n_from(step), i, r = step->rank;

    for (i = 0; i < n_from; i++) {
        const struct coll_ref *from = coll_from(plan, step, i);

        if (from->space == COLL_STAGE)
            traffic->down[r] += bytes_of_from(t, step, i);
        else if (from->rank != r)
            traffic->link[from->rank][r] += bytes_of_from(t, step, i);
        traffic->is_shared |= from->space == COLL_STAGE || from->rank != r;
    }
    if (step->to.space == COLL_STAGE)
        traffic->up[r] += bytes_of_to(t, step);
    else if (step->to.rank != r)
        traffic->link[r][step->to.rank] += bytes_of_to(t, step);
    for (i = 0; step->is_team && i < n_from; i++) {
        uint32_t to = coll_from(plan, step, i)->rank;

        if (to != r) /* what is written goes to all */
            traffic->link[r][to] += bytes_of_to(t, step);
    }
    if (step->is_team)
        traffic->team[r] += bytes_of_to(t, step);
    traffic->has_team |= step->is_team;
    traffic->is_shared |= step->to.rank != r;
    traffic->n_commands[r]++;
    traffic->has_sum |= step->n_terms > 0;
    traffic->has_copy |= step->n_terms == 0;
}

static double
fixed_ns(const struct coll_task *t, const struct coll_traffic *traffic)
{
    uint32_t most = 0, r;
    double ns = traffic->is_shared ? signal_ns(t) : 0;

    for (r = 0; r < t->n; r++)
        most = traffic->n_commands[r] > most ? traffic->n_commands[r] : most;
    assert(most > 0);
    ns += traffic->has_sum ? SUM_NS : COPY_NS;
    return ns + (most - 1) * NEXT_NS;
}

/* The switch takes all members' memory once, and gives all results to each. */
static double
team_ns(const struct coll_task *t, const struct coll_traffic *traffic)
{
    double ns = 0, all = 0;
    uint32_t a;

    for (a = 0; a < t->n; a++)
        all += (double)traffic->team[a];
    for (a = 0; a < t->n; a++) {
        assert(t->port_rate[a] > 0);
        ns = larger(ns, (all + (double)traffic->team[a]) / t->port_rate[a]);
    }
    return ns;
}

static double
busiest_ns(const struct coll_task *t, const struct coll_traffic *traffic)
{
    double ns = 0;
    uint32_t a, b;

    if (traffic->has_team)
        return team_ns(t, traffic);

    for (a = 0; a < t->n; a++) {
        double out = 0, in = 0;

        for (b = 0; b < t->n; b++) {
            /* of a pair, the side that the link is known of */
            double rate = larger(t->rate[b][a], t->rate[a][b]);

            if (traffic->link[a][b])
                ns = larger(ns, (double)traffic->link[a][b] / rate);
            out += (double)traffic->link[a][b];
            in += (double)traffic->link[b][a];
        }
        if (t->port_rate[a] > 0)
            ns = larger(ns, larger(out, in) / t->port_rate[a]);
        ns = larger(ns, (double)traffic->up[a] / t->host_rate[a]);
        ns = larger(ns, (double)traffic->down[a] / t->host_rate[a]);
    }
    return ns;
}

static void
end_phase(const struct coll_task *t, struct coll_traffic *traffic,
          struct hcq_collective_info *info)
{
    uint32_t a, b;

    info->predicted_ns += fixed_ns(t, traffic) + busiest_ns(t, traffic);
    info->n_steps++;
    for (a = 0; a < t->n; a++) {
        for (b = 0; b < t->n; b++) {
            info->link_bytes[a][b] += traffic->link[a][b];
            info->total_bytes += traffic->link[a][b];
            if (traffic->link[a][b] &&
                (t->rate[b][a] > 0 ? t->is_assumed[b][a] : t->is_assumed[a][b]))
                info->is_rate_known = false;
        }
        info->to_host_bytes[a] += traffic->up[a];
        info->from_host_bytes[a] += traffic->down[a];
        info->total_bytes += traffic->up[a] + traffic->down[a];
        if (traffic->up[a] + traffic->down[a] && t->is_host_assumed[a])
            info->is_rate_known = false;
    }
    memset(traffic, 0, sizeof(*traffic));
}

void
coll_measure(const struct coll_task *t, const struct coll_plan *plan,
             struct coll_traffic *traffic, struct hcq_collective_info *info)
{
    size_t i;
    uint32_t r;

    info->algorithm = plan->algorithm;
    info->n_ranks = t->n;
    info->n_sums = info->n_copies = info->n_steps = 0;
    info->scratch_bytes = info->staging_bytes = info->total_bytes = 0;
    info->predicted_ns = 0;
    info->is_rate_known = true;
    memset(traffic, 0, sizeof(*traffic));
    memset(info->link_bytes, 0, sizeof(info->link_bytes));
    memset(info->to_host_bytes, 0, sizeof(info->to_host_bytes));
    memset(info->from_host_bytes, 0, sizeof(info->from_host_bytes));
    for (i = 0; i < plan->n_steps; i++) {
        const struct coll_step *step = &plan->steps[i];

        add_traffic(t, plan, step, traffic);
        info->n_sums += step->n_terms > 0;
        info->n_copies += step->n_terms == 0;
        if (i + 1 == plan->n_steps || plan->steps[i + 1].phase != step->phase)
            end_phase(t, traffic, info);
    }
    for (r = 0; r < t->n; r++) {
        info->scratch_bytes += plan->space_bytes[COLL_COPY][r] +
                               plan->space_bytes[COLL_PART][r] +
                               plan->space_bytes[COLL_TEAM][r];
        info->staging_bytes += plan->space_bytes[COLL_STAGE][r];
    }
}
