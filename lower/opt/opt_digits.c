/* Sums over bytes on a CPU that adds up products of bytes.
 *
 * Rows of bytes come from memory, and each is read once: some rows at a time,
 * far apart, are as many streams that the processor fetches ahead. Neighbours,
 * of which it takes each for a part of another's stream, are slower than one
 * row.
 */
#include "lower/opt/opt_rules.h"

#include "base/log.h"

#define MIN_ROWS     64   /* a block's digits take as long as some; guess */
#define MIN_BLOCKS   2048 /* in all rows; guess */
#define STREAMS      4    /* of bytes, at a time; guess */
#define DIGITS_BYTES 128  /* in LOCAL memory, of a block */

void
opt_choose_digits(const struct opt_model *m, struct opt_choice *choice)
{
    const struct kernel *k = m->k;
    const struct kernel_group *group = &k->groups[0];
    struct kernel_digits d = {.bytes = NULL}, first = d;
    uint32_t i;
    int row;

    if (!k->target->has_byte_dots || k->n_groups != 1 || kernel_is_open(k))
        return;
    for (i = 0; i < group->n_members; i++) {
        if (!kernel_find_digits(k, group, group->members[i], &d) ||
            kernel_count(k, kernel_deps(k, d.bytes)) / KERNEL_DIGITS_LANES <
                MIN_BLOCKS)
            return;
        first = i ? first : d;
        if (d.block != first.block || d.lane != first.lane)
            return;
    }
    row = opt_largest_range(k, kernel_deps(k, d.bytes) & ~k->reduce_ranges);
    if (row < 0 || k->sizes[row] < MIN_ROWS ||
        (double)k->sizes[d.block] * group->n_members * DIGITS_BYTES >
            k->target->max_packed_bytes)
        return;
    choice->digits = true;
    choice->row = (uint32_t)row;
    choice->n_rows =
        group->n_members < STREAMS ? STREAMS / group->n_members : 1;
    choice->lanes[d.lane] = KERNEL_DIGITS_LANES;
    if (d.part >= 0)
        choice->unroll[d.part] = k->sizes[d.part];
    LOG(LOG_OPT, "bytes times digits: rows by range %d, %lld blocks", row,
        (long long)k->sizes[d.block]);
}
