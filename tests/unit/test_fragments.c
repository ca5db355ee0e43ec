/* The table of fragments of attention by matrix instructions against what
 * uop_wmma_place says of them. */
#include "lower/attention/decode_attention.h"
#include "tests/unit/expect.h"

/* Where element i of an operand or result lies: which query (or key or column
 * of B where `is_b`), and where along the sum or which key. */
static void
find(const struct attend_fragments *m, enum uop_wmma_operand operand,
     uint32_t thread, uint32_t i, uint32_t *out_own, uint32_t *out_along)
{
    uint32_t row, col;

    uop_wmma_place(m->shape, UOP_BF16, operand, thread, i, &row, &col);
    if (operand == UOP_WMMA_C && m->is_swapped) {
        *out_own = col;
        *out_along = row;
    } else if (operand == UOP_WMMA_B) {
        *out_own = col;
        *out_along = row;
    } else {
        *out_own = row;
        *out_along = col;
    }
}

/* Scores: queries and keys of each element. */
static void
check_results(const struct attend_fragments *m, uint32_t thread)
{
    uint32_t row = thread / m->row_every % m->span,
             part = thread / m->part_every % m->parts, query, key, i,
             n = m->halves * m->each;

    assert_int_equal(n, uop_wmma_lanes(m->shape, UOP_WMMA_C));
    for (i = 0; i < n; i++) {
        find(m, UOP_WMMA_C, thread, i, &query, &key);
        assert_int_equal(query, m->span * (i / m->each) + row);
        assert_int_equal(key, m->each * part + i % m->each);
    }
}

/* Operands: the same thread has the same places of the sum of queries and of
 * keys, and the threads of a row have all of them. *seen: those so far. */
static void
check_operands(const struct attend_fragments *m, uint32_t thread,
               uint32_t *seen)
{
    enum uop_wmma_operand queries = m->is_swapped ? UOP_WMMA_B : UOP_WMMA_A,
                          keys = m->is_swapped ? UOP_WMMA_A : UOP_WMMA_B;
    uint32_t row = thread / m->row_every % m->span, tile, h, i, own, along,
             wanted;

    assert_int_equal(m->tiles * m->each, uop_wmma_lanes(m->shape, keys));
    assert_int_equal(m->tiles * m->halves * m->each,
                     uop_wmma_lanes(m->shape, queries));
    for (tile = 0; tile < m->tiles; tile++) {
        for (i = 0; i < m->each; i++) {
            find(m, keys, thread, tile * m->each + i, &own, &wanted);
            assert_int_equal(own, row);
            assert_false(*seen >> wanted & 1);
            *seen |= 1u << wanted;
            for (h = 0; h < m->halves; h++) {
                find(m, queries, thread, (tile * m->halves + h) * m->each + i,
                     &own, &along);
                assert_int_equal(own, m->span * h + row);
                assert_int_equal(along, wanted);
            }
        }
    }
}

static void
test_fragments(void **state)
{
    uint32_t layout, thread, n = 0;

    (void)state;
    for (layout = 0; layout < UOP_WMMA_N_LAYOUTS; layout++) {
        const struct attend_fragments *m =
            attend_few_fragments((enum uop_wmma_layout)layout);
        uint32_t seen[16] = {0};
        if (!m)
            continue;
        assert_int_equal(m->span * m->parts, uop_wmma_threads(m->shape));
        for (thread = 0; thread < uop_wmma_threads(m->shape); thread++) {
            check_results(m, thread);
            check_operands(m, thread, &seen[thread / m->row_every % m->span]);
        }
        for (thread = 0; thread < m->span; thread++)
            assert_int_equal(seen[thread], (1u << m->shape.k) - 1);
        n++;
    }
    assert_int_equal(n, 3);
    assert_null(attend_few_fragments(UOP_WMMA_RDNA3));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fragments),
    };

    return cmocka_run_group_tests_name("fragments", tests, NULL, NULL);
}
