/* Exchanges between ranks of one box and of several: inside, between, inside.
 *
 * Within a box it is the model of hcq_collective.h, with the rate that
 * collectives are seen to reach. Between boxes each device has a NIC, and the
 * ranks of one box share the work: one rank of each box exchanges 1 / n of the
 * data. Chunks let both run at once, so the slower one counts, and one chunk of
 * the other.
 */
#include "tools/plan/plan.h"

#include <math.h>

/* How many chunks are under way. guess. */
#define CHUNKS 8.0
static uint32_t
divisor_of_both(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Ranks of the group in one box. */
static uint32_t
ranks_in_box(const struct plan_machine *machine, uint32_t n, uint32_t stride)
{
    uint32_t room = machine->n_per_node / stride;

    if (room == 0)
        return 1;
    return n <= room ? n : divisor_of_both(n, room);
}

static double
link_rate(const struct plan_machine *machine, enum hcq_collective_algorithm by)
{
    double share =
        by == HCQ_COLLECTIVE_NVLS ? machine->team_share : machine->link_share;

    return machine->link_gb_s * share * 1e9;
}

static bell_status
exchange_inside(const struct plan_machine *machine,
                enum hcq_collective_kind kind, enum hcq_collective_algorithm by,
                uint32_t n, double n_bytes, struct plan_exchange *out)
{
    struct hcq_collective_box box = {
        .struct_size = sizeof(box),
        .n_ranks = n,
        .kind = machine->link,
        .bytes_per_s = (uint64_t)link_rate(machine, by),
        .has_team = machine->has_team,
        .waits_near = true,
    };
    struct hcq_collective_info info = {.struct_size = sizeof(info)};
    double count = n_bytes / 2;

    if (kind != HCQ_COLLECTIVE_ALL_REDUCE)
        count /= n;
    if (count < 1)
        count = 1;
    BELL_TRY(hcq_collective_predict(&box, kind, by, HCQ_DTYPE_BF16,
                                    (uint64_t)count, &info));
    out->s = info.predicted_ns * 1e-9;
    out->bytes[0] = (double)info.total_bytes / n;
    return BELL_OK;
}

/* Between n boxes, over a NIC. */
static double
between_s(const struct plan_machine *machine, enum hcq_collective_kind kind,
          uint32_t n, double n_bytes, double *out_bytes)
{
    double rate = machine->nic_gb_s * machine->nic_share * 1e9;
    double once = n_bytes * (n - 1) / n;
    double hops_s = ceil(log2(n)) * machine->hop_us * 1e-6;

    if (kind == HCQ_COLLECTIVE_ALL_REDUCE) {
        *out_bytes = 2 * once;
        return 2 * once / rate + 2 * hops_s;
    }
    *out_bytes = once;
    return once / rate + hops_s;
}

bell_status
plan_exchange(const struct plan_machine *machine, enum hcq_collective_kind kind,
              enum hcq_collective_algorithm by, uint32_t n, uint32_t stride,
              double n_bytes, struct plan_exchange *out)
{
    uint32_t inside = ranks_in_box(machine, n, stride), boxes = n / inside;
    double between = 0;

    *out = (struct plan_exchange){0};
    if (n == 1 || n_bytes <= 0)
        return BELL_OK;
    if (kind == HCQ_COLLECTIVE_SEND) { /* to the rank that is `stride` away */
        bool near = stride < machine->n_per_node;
        double rate = near ? link_rate(machine, by)
                           : machine->nic_gb_s * machine->nic_share * 1e9;

        out->bytes[near ? 0 : 1] = n_bytes;
        out->s = n_bytes / rate + machine->hop_us * 1e-6;
        return BELL_OK;
    }
    if (inside > 1)
        BELL_TRY(exchange_inside(machine, kind, by, inside, n_bytes, out));
    if (boxes > 1) {
        between =
            between_s(machine, kind, boxes, n_bytes / inside, &out->bytes[1]);
        out->s = out->s > between ? out->s + between / CHUNKS
                                  : between + out->s / CHUNKS;
    }
    return BELL_OK;
}
