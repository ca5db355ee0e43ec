/* Bytes that collectives move over each link: counted, planned, by formula. */
#include "collective_moved.h"

#include <string.h>

#include "tests/unit/expect.h"

#define LINE 64u /* chunks begin at multiples of it */

bool
rig_can(struct fleet *rig, const struct rig_case *c)
{
    struct hcq_collective_info info = {.struct_size = sizeof(info)};
    struct hcq_collective_rank ranks[RIG_RANKS_MAX];
    struct hcq_collective_desc desc;
    bell_status status;

    rig_describe(rig, c, ranks, &desc);
    status = hcq_collective_explain(&desc, &info);
    if (status == BELL_E_UNSUPPORTED)
        return false;
    expect_ok(status);
    return true;
}

void
rig_count_moved(struct fleet *rig, struct rig_moved *moved)
{
    uint32_t a, b;

    memset(moved, 0, sizeof(*moved));
    for (a = 0; a < rig->n; a++) {
        for (b = 0; b < rig->n; b++) {
            struct hcq_link_bytes bytes = {.struct_size = sizeof(bytes)};
            struct hcq_device_link link = {.struct_size = sizeof(link)};

            if (a == b)
                continue;
            expect_ok(hcq_device_get_link(rig->devs[a], rig->devs[b], &link));
            if (link.kind <= HCQ_LINK_SELF)
                continue;
            expect_ok(
                hcq_device_link_bytes(rig->devs[a], rig->devs[b], &bytes));
            moved->is_counted = true;
            moved->read[a][b] = bytes.copy_read + bytes.kernel_read;
            moved->written[a][b] = bytes.copy_written + bytes.kernel_written;
        }
    }
}

void
rig_check_moved(struct fleet *rig, const struct rig_case *c,
                const struct hcq_collective *collective,
                const struct rig_moved *before)
{
    struct hcq_collective_info info = {.struct_size = sizeof(info)};
    struct rig_moved after;
    uint32_t a, b;

    hcq_collective_get_info(collective, &info);
    rig_count_moved(rig, &after);
    for (a = 0; a < rig->n && after.is_counted; a++) {
        for (b = 0; b < rig->n; b++) {
            uint64_t n = after.read[b][a] - before->read[b][a] +
                         after.written[a][b] - before->written[a][b];
            uint64_t want = info.link_bytes[a][b];

            /* multicast moves whole pieces, also behind the last element */
            if (n != want &&
                (c->by != HCQ_COLLECTIVE_NVLS || n < want || n > want + 32))
                fail_msg("%s by %s of %u x %llu %s: %llu bytes from rank %u to "
                         "%u, not %llu",
                         hcq_collective_kind_name(c->kind),
                         hcq_collective_algorithm_name(c->by), rig->n,
                         (unsigned long long)c->count, hcq_dtype_name(c->dtype),
                         (unsigned long long)n, a, b, (unsigned long long)want);
        }
    }
}

static bool
cannot_sum(struct fleet *rig, struct hcq_device *dev, enum hcq_dtype dtype)
{
    const struct hcq_sum_kernel kernel = {.dtype = dtype, .n_terms = 2};
    struct hcq_sum_program program;
    bell_status status = tensor_sums_get(rig->sums, dev, &kernel, &program);

    if (status != BELL_E_UNSUPPORTED)
        expect_ok(status);
    return status != BELL_OK;
}

bool
rig_lacks(struct fleet *rig, enum hcq_dtype dtype)
{
    uint32_t r;

    for (r = 0; r < rig->n; r++) {
        if (cannot_sum(rig, rig->devs[r], dtype))
            return true;
    }
    return false;
}

/* ---- formulas ------------------------------------------------------------ */

/* Bytes of chunk i where `bytes` are cut into n. */
static uint64_t
chunk(uint64_t bytes, uint32_t n, uint32_t i)
{
    uint64_t each = ((bytes + n - 1) / n + LINE - 1) / LINE * LINE;
    uint64_t first = i * each;

    if (first >= bytes)
        return 0;
    return bytes - first < each ? bytes - first : each;
}

uint64_t
rig_formula(const struct rig_case *c, uint32_t n, uint32_t from, uint32_t to)
{
    uint64_t s = c->count * hcq_dtype_bytes(c->dtype), wide = s;
    bool up = to == from + 1, down = from == to + 1;
    bool next = to == (from + 1) % n;

    if ((c->dtype == HCQ_DTYPE_F16 || c->dtype == HCQ_DTYPE_BF16) && from > 0)
        wide = 2 * s; /* partial sums in float32 */
    switch (c->kind) {
    case HCQ_COLLECTIVE_ALL_REDUCE:
        /* Multicast moves, between two memories, as much as two shots do:
         * ld_reduce takes a rank's chunk from all, st gives it to all. */
        return c->by == HCQ_COLLECTIVE_ONE_SHOT ? s
               : c->by == HCQ_COLLECTIVE_TWO_SHOT ||
                       c->by == HCQ_COLLECTIVE_NVLS
                   ? chunk(s, n, to) + chunk(s, n, from)
               : up   ? wide
               : down ? s
                      : 0;
    case HCQ_COLLECTIVE_REDUCE_SCATTER:
        return c->by == HCQ_COLLECTIVE_ONE_SHOT ? s
               : up                             ? n * wide
               : down                           ? (to + 1) * s
                                                : 0;
    case HCQ_COLLECTIVE_ALL_GATHER:
        return c->by == HCQ_COLLECTIVE_ONE_SHOT ? s : next ? (n - 1) * s : 0;
    case HCQ_COLLECTIVE_BROADCAST:
        if (to == c->root)
            return 0;
        if (c->by == HCQ_COLLECTIVE_TWO_SHOT)
            return from == c->root ? chunk(s, n, to) + chunk(s, n, from)
                                   : chunk(s, n, from);
        if (c->by == HCQ_COLLECTIVE_RING)
            return next ? s : 0;
        return from == c->root ? s : 0;
    case HCQ_COLLECTIVE_ALL_TO_ALL:
        return s;
    case HCQ_COLLECTIVE_GATHER:
        return to == c->root ? s : 0;
    case HCQ_COLLECTIVE_SCATTER:
        return from == c->root ? s : 0;
    case HCQ_COLLECTIVE_SEND:
        return from == c->root && to == c->target ? s : 0;
    case HCQ_COLLECTIVE_KIND_COUNT:
        break;
    }
    fail();
    return 0;
}

/* Through host memory: each byte that another rank needs goes up once, then
 * down to each that needs it. There are no rings. */
void
rig_host_formula(const struct rig_case *c, uint32_t n, uint32_t rank,
                 uint64_t *out_up, uint64_t *out_down)
{
    uint64_t s = c->count * hcq_dtype_bytes(c->dtype);
    uint64_t mine = chunk(s, n, rank), up = 0, down = 0;
    bool is_root = rank == c->root;

    assert_int_not_equal(c->by, HCQ_COLLECTIVE_RING);
    switch (c->kind) {
    case HCQ_COLLECTIVE_ALL_REDUCE:
        up = s;
        down = c->by == HCQ_COLLECTIVE_ONE_SHOT ? (n - 1) * s
                                                : (n - 1) * mine + s - mine;
        break;
    case HCQ_COLLECTIVE_REDUCE_SCATTER:
    case HCQ_COLLECTIVE_ALL_TO_ALL:
        up = down = (n - 1) * s;
        break;
    case HCQ_COLLECTIVE_ALL_GATHER:
        up = s;
        down = (n - 1) * s;
        break;
    case HCQ_COLLECTIVE_BROADCAST:
        down = is_root ? 0 : s;
        up = is_root ? s : c->by == HCQ_COLLECTIVE_TWO_SHOT && n > 2 ? mine : 0;
        break;
    case HCQ_COLLECTIVE_GATHER:
        up = is_root ? 0 : s;
        down = is_root ? (n - 1) * s : 0;
        break;
    case HCQ_COLLECTIVE_SCATTER:
        up = is_root ? (n - 1) * s : 0;
        down = is_root ? 0 : s;
        break;
    case HCQ_COLLECTIVE_SEND:
        up = is_root && rank != c->target ? s : 0;
        down = rank == c->target && !is_root ? s : 0;
        break;
    case HCQ_COLLECTIVE_KIND_COUNT:
        fail();
    }
    *out_up = up;
    *out_down = down;
}
