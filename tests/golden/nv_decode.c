/* Text of the decoder: the vectors of docs/hardware/nvidia-queues.md,
 * "Test vectors", broken streams, packets of the other kinds
 * (regs_sample.regs). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "hcq/nv/regs/nv_ce.h"
#include "hcq/nv/regs/nv_compute.h"
#include "hcq/nv/regs/nv_host.h"
#include "hcq/nv/regs/nv_mem.h"
#include "hcq/nv/regs/nv_qmd.h"
#include "tests/golden/regs_sample.h"

static const struct regs_unit *const nv_units[] = {&nv_compute_unit,
                                                   &nv_ce_unit};

/* Lines, collected. */
struct lines {
    char text[16384];
    size_t n;
};

static void
add_line(void *user, const char *line)
{
    struct lines *lines = user;
    int n = snprintf(lines->text + lines->n, sizeof(lines->text) - lines->n,
                     "%s\n", line);

    if (n > 0 && (size_t)n < sizeof(lines->text) - lines->n)
        lines->n += (size_t)n;
}

static unsigned
decode_nv(struct lines *lines, const uint32_t *words, size_t n_dw)
{
    struct regs_stream s = {.common = &nv_host_unit,
                            .common_gen = NV_HOST_GEN_C86F,
                            .units = nv_units,
                            .n_units = ARRAY_LEN(nv_units),
                            .line = add_line,
                            .user = lines};

    lines->n = 0;
    lines->text[0] = 0;
    return regs_decode_stream(&s, words, n_dw);
}

static void
test_compute_stream(void **state)
{
    static const uint32_t words[] = {
        0x20012000, 0x0000cbc0, 0x200220a8, 0x00007294, 0x00000000,
        0x200221ec, 0x00007293, 0x00000000, 0x200125a6, 0x00001011,
        0x200120ad, 0xab000001, 0x200120b0, 0x0000000a, 0x20050017,
        0x00200010, 0x00000010, 0x00000005, 0x00000000, 0x03100001,
    };
    struct lines lines;

    (void)state;
    assert_int_equal(decode_nv(&lines, words, ARRAY_LEN(words)), 0);
    assert_string_equal(
        lines.text, "00000: 20012000 INCR SUBCHANNEL=COMPUTE COUNT=1\n"
                    "  SET_OBJECT = 0000cbc0 {NVCLASS=0xcbc0}\n"
                    "00008: 200220a8 INCR ADDRESS=0x2a0 SUBCHANNEL=COMPUTE "
                    "COUNT=2\n"
                    "  SET_SHADER_SHARED_MEMORY_WINDOW = 00007294 00000000 "
                    "{BASE_ADDRESS=0x729400000000}\n"
                    "00014: 200221ec INCR ADDRESS=0x7b0 SUBCHANNEL=COMPUTE "
                    "COUNT=2\n"
                    "  SET_SHADER_LOCAL_MEMORY_WINDOW = 00007293 00000000 "
                    "{BASE_ADDRESS=0x729300000000}\n"
                    "00020: 200125a6 INCR ADDRESS=0x1698 SUBCHANNEL=COMPUTE "
                    "COUNT=1\n"
                    "  INVALIDATE_SHADER_CACHES_NO_WFI = 00001011 "
                    "{INSTRUCTION=1 GLOBAL_DATA=1 CONSTANT=1}\n"
                    "00028: 200120ad INCR ADDRESS=0x2b4 SUBCHANNEL=COMPUTE "
                    "COUNT=1\n"
                    "  SEND_PCAS_A = ab000001 {QMD_ADDRESS=0xab00000100}\n"
                    "00030: 200120b0 INCR ADDRESS=0x2c0 SUBCHANNEL=COMPUTE "
                    "COUNT=1\n"
                    "  SEND_SIGNALING_PCAS2_B = 0000000a "
                    "{PCAS_ACTION=INVALIDATE_PREFETCH_COPY_SCHEDULE}\n"
                    "00038: 20050017 INCR ADDRESS=0x5c COUNT=5\n"
                    "  SEM = 00200010 00000010 00000005 00000000 03100001 "
                    "{OFFSET=0x1000200010 PAYLOAD=0x5 OPERATION=RELEASE "
                    "RELEASE_WFI=1 PAYLOAD_SIZE=64BIT RELEASE_TIMESTAMP=1}\n");
}

static void
test_copy_stream(void **state)
{
    static const uint32_t words[] = {
        0x20018000, 0x0000c8b5, 0x20048100, 0x00000020, 0x00000000, 0x00000030,
        0x00000000, 0x20018106, 0x00001000, 0x200180c0, 0x00000182, 0x20038090,
        0x00000010, 0x00200020, 0x00000007, 0x200180c0, 0x00000014, 0x200281c1,
        0xdeadbeef, 0x00030005, 0x20028102, 0x00000030, 0x00000000, 0x20018106,
        0x00001000, 0x200180c0, 0x00000582,
    };
    struct lines lines;

    (void)state;
    assert_int_equal(decode_nv(&lines, words, ARRAY_LEN(words)), 0);
    assert_string_equal(
        lines.text,
        "00000: 20018000 INCR SUBCHANNEL=COPY COUNT=1\n"
        "  SET_OBJECT = 0000c8b5 {NVCLASS=0xc8b5}\n"
        "00008: 20048100 INCR ADDRESS=0x400 SUBCHANNEL=COPY COUNT=4\n"
        "  OFFSET_IN = 00000020 00000000 {ADDRESS=0x2000000000}\n"
        "  OFFSET_OUT = 00000030 00000000 {ADDRESS=0x3000000000}\n"
        "0001c: 20018106 INCR ADDRESS=0x418 SUBCHANNEL=COPY COUNT=1\n"
        "  LINE_LENGTH_IN = 00001000 {VALUE=4096}\n"
        "00024: 200180c0 INCR ADDRESS=0x300 SUBCHANNEL=COPY COUNT=1\n"
        "  LAUNCH_DMA = 00000182 {DATA_TRANSFER_TYPE=NON_PIPELINED "
        "SRC_MEMORY_LAYOUT=PITCH DST_MEMORY_LAYOUT=PITCH}\n"
        "0002c: 20038090 INCR ADDRESS=0x240 SUBCHANNEL=COPY COUNT=3\n"
        "  SET_SEMAPHORE = 00000010 00200020 00000007 "
        "{ADDRESS=0x1000200020 PAYLOAD=0x7}\n"
        "0003c: 200180c0 INCR ADDRESS=0x300 SUBCHANNEL=COPY COUNT=1\n"
        "  LAUNCH_DMA = 00000014 {DATA_TRANSFER_TYPE=NONE "
        "FLUSH_ENABLE=1 SEMAPHORE_TYPE=RELEASE_FOUR_WORD_SEMAPHORE}\n"
        "00044: 200281c1 INCR ADDRESS=0x704 SUBCHANNEL=COPY COUNT=2\n"
        "  SET_REMAP_CONST_B = deadbeef {V=0xdeadbeef}\n"
        "  SET_REMAP_COMPONENTS = 00030005 {DST_X=CONST_B "
        "COMPONENT_SIZE=FOUR}\n"
        "00050: 20028102 INCR ADDRESS=0x408 SUBCHANNEL=COPY COUNT=2\n"
        "  OFFSET_OUT = 00000030 00000000 {ADDRESS=0x3000000000}\n"
        "0005c: 20018106 INCR ADDRESS=0x418 SUBCHANNEL=COPY COUNT=1\n"
        "  LINE_LENGTH_IN = 00001000 {VALUE=4096}\n"
        "00064: 200180c0 INCR ADDRESS=0x300 SUBCHANNEL=COPY COUNT=1\n"
        "  LAUNCH_DMA = 00000582 {DATA_TRANSFER_TYPE=NON_PIPELINED "
        "SRC_MEMORY_LAYOUT=PITCH DST_MEMORY_LAYOUT=PITCH "
        "REMAP_ENABLE=1}\n");
}

/* Unknown words are said to be so, and nothing beyond the words is read. */
static void
test_broken_stream(void **state)
{
    static const uint32_t words[] = {
        0x00000000,             /* no header */
        0x20012040,             /* a method of an unbound subchannel */
        0x00000001, 0x20012000, /* a class that is not known */
        0x00001234, 0x80058020, /* immediate, unbound */
        0x20018000, 0x0000c8b5,
        0x20018101, /* the second word of a pair alone */
        0x44444444, 0x200180c0,
        0xf0000000,             /* reserved bits */
        0x20058100, 0x00000020, /* more words than there are */
    };
    uint32_t *copy = malloc(sizeof(words)); /* the sanitizer sees its end */
    struct lines lines;

    (void)state;
    assert_non_null(copy);
    memcpy(copy, words, sizeof(words));
    assert_int_equal(decode_nv(&lines, copy, ARRAY_LEN(words)), 3);
    free(copy);
    assert_string_equal(
        lines.text,
        "00000: 00000000 ?\n"
        "00004: 20012040 INCR ADDRESS=0x100 SUBCHANNEL=COMPUTE "
        "COUNT=1\n"
        "  ? 0x0100 = 00000001\n"
        "0000c: 20012000 INCR SUBCHANNEL=COMPUTE COUNT=1\n"
        "  SET_OBJECT = 00001234 {NVCLASS=0x1234}\n"
        "00014: 80058020 IMMD ADDRESS=0x80 SUBCHANNEL=COPY DATA=0x5\n"
        "  YIELD = 00000005 {OP=1 reserved[0]=0x4}\n"
        "00018: 20018000 INCR SUBCHANNEL=COPY COUNT=1\n"
        "  SET_OBJECT = 0000c8b5 {NVCLASS=0xc8b5}\n"
        "00020: 20018101 INCR ADDRESS=0x404 SUBCHANNEL=COPY COUNT=1\n"
        "  OFFSET_IN+4 = 44444444 {?}\n"
        "00028: 200180c0 INCR ADDRESS=0x300 SUBCHANNEL=COPY COUNT=1\n"
        "  LAUNCH_DMA = f0000000 {DATA_TRANSFER_TYPE=NONE "
        "reserved[0]=0xf0000000}\n"
        "00030: 20058100 INCR ADDRESS=0x400 SUBCHANNEL=COPY "
        "COUNT=5 truncated: 1 of 5 words\n"
        "  OFFSET_IN = 00000020 {?}\n");
}

/* Immediate, non-incrementing and increment-once headers. */
static void
test_header_kinds(void **state)
{
    static const uint32_t words[] = {
        0x20012000, 0x0000cbc0, 0x80002044, /* WAIT_FOR_IDLE */
        0x600a206d, 1,          2,          3,          4,  5,
        6,          7,          8,          9,          10, /* LOAD_INLINE_DATA */
        0xa003206c, 0x00000041, 0xaaaaaaaa, 0xbbbbbbbb,     /* and LAUNCH_DMA */
        0x6001206d, 0x00000007,
    };
    struct lines lines;

    (void)state;
    assert_int_equal(decode_nv(&lines, words, ARRAY_LEN(words)), 0);
    assert_string_equal(
        lines.text,
        "00000: 20012000 INCR SUBCHANNEL=COMPUTE COUNT=1\n"
        "  SET_OBJECT = 0000cbc0 {NVCLASS=0xcbc0}\n"
        "00008: 80002044 IMMD ADDRESS=0x110 SUBCHANNEL=COMPUTE\n"
        "  WAIT_FOR_IDLE = 00000000 {0}\n"
        "0000c: 600a206d NONINCR ADDRESS=0x1b4 SUBCHANNEL=COMPUTE "
        "COUNT=10\n"
        "  LOAD_INLINE_DATA <- 10 words: 00000001 00000002 "
        "00000003 00000004 00000005 00000006 00000007 00000008 ...\n"
        "00038: a003206c ONEINCR ADDRESS=0x1b0 SUBCHANNEL=COMPUTE "
        "COUNT=3\n"
        "  LAUNCH_DMA = 00000041 {DST_MEMORY_LAYOUT=PITCH "
        "SYSMEMBAR_DISABLE=1}\n"
        "  LOAD_INLINE_DATA <- 2 words: aaaaaaaa bbbbbbbb\n"
        "00048: 6001206d NONINCR ADDRESS=0x1b4 SUBCHANNEL=COMPUTE "
        "COUNT=1\n"
        "  LOAD_INLINE_DATA = 00000007 {V=0x7}\n");
}

static void
test_block(void **state)
{
    struct nv_qmd_launch qmd = {.qmd_type = NV_QMD_TYPE_GRID_CTA,
                                .program_address = 0x1234567800,
                                .grid_width = 132,
                                .cbuf_valid[3] = true,
                                .cbuf_addr[3] = 0xf87654000};
    uint32_t w[NV_QMD_LAUNCH_DW];
    struct lines lines = {0};

    (void)state;
    nv_pack_qmd_launch(NV_QMD_GEN_V5, &qmd, w);
    w[6] |= 0x80000000;
    regs_decode_block(regs_by_name(&nv_qmd_unit, "LAUNCH"), NV_QMD_GEN_V5, w,
                      add_line, &lines);
    assert_string_equal(lines.text, "  QMD_TYPE = GRID_CTA\n"
                                    "  CONSTANT_BUFFER_VALID[3] = 1\n"
                                    "  QMD_MAJOR_VERSION = 0x5\n"
                                    "  GRID_WIDTH = 132\n"
                                    "  PROGRAM_ADDRESS = 0x1234567800\n"
                                    "  CONSTANT_BUFFER_ADDR[3] = 0xf87654000\n"
                                    "  reserved[6] = 0x80000000\n");
}

static void
test_layout(void **state)
{
    struct nv_mem_notifier record = {
        .timestamp = 1000, .info32 = 31, .status = NV_MEM_NOTIFIER_FILLED};
    /* by bits: word 0, .. 3 */
    static const char *const known[16] = {
        "?",
        "?",
        "?",
        "TIMESTAMP=1000",
        "INFO32=MMU_FAULT",
        "INFO32=MMU_FAULT",
        "INFO32=MMU_FAULT",
        "TIMESTAMP=1000 INFO32=MMU_FAULT",
        "STATUS=0xffff",
        "STATUS=0xffff",
        "STATUS=0xffff",
        "TIMESTAMP=1000 STATUS=0xffff",
        "INFO32=MMU_FAULT STATUS=0xffff",
        "INFO32=MMU_FAULT STATUS=0xffff",
        "INFO32=MMU_FAULT STATUS=0xffff",
        "TIMESTAMP=1000 INFO32=MMU_FAULT STATUS=0xffff",
    };
    uint64_t have;
    uint32_t w[4];
    char buf[128];
    struct regs_text text;

    (void)state;
    memcpy(w, &record, sizeof(w));
    regs_text_init(&text, buf, sizeof(buf));
    regs_decode_fields(&text, regs_by_name(&nv_mem_unit, "NOTIFIER"), 0, w,
                       UINT64_MAX);
    assert_string_equal(buf, "TIMESTAMP=1000 INFO32=MMU_FAULT STATUS=0xffff");
    /* A text that does not fit is cut, and terminated. */
    regs_text_init(&text, buf, 12);
    regs_decode_fields(&text, regs_by_name(&nv_mem_unit, "NOTIFIER"), 0, w,
                       UINT64_MAX);
    assert_string_equal(buf, "TIMESTAMP=1");
    assert_int_equal(text.n_bytes, 11);
    /* Fields of words that are not known are left out. */
    for (have = 0; have < ARRAY_LEN(known); have++) {
        regs_text_init(&text, buf, sizeof(buf));
        regs_decode_fields(&text, regs_by_name(&nv_mem_unit, "NOTIFIER"), 0, w,
                           have);
        assert_string_equal(buf, known[have]);
    }
}

static void
test_other_packets(void **state)
{
    static const uint32_t words[] = {
        0x000500a1, 0x00000004, 0x0004fffe, 0x01000000, /* PAIRS[1] */
        0x00000001, 0x00000000,                         /* PAIRS[2] */
        0x000200b2, 0x11111111, 0x22222222,             /* body */
        0x000200d4, 0x00000007, 0x00000008, 0x99999999, /* one word more */
        0x3fff00e5, 0x000100e5, 0x000300d4, 0x000000e5, /* fillers of 1, 3 */
        0x001001c3, 0x00000020,                         /* BIND */
        0x000003c3, 1,          2,          3,          /* no register */
        0x12999956,                                     /* no header */
    };
    static const struct regs_unit *const units[] = {&regs_sample_unit};
    struct lines lines = {0};
    struct regs_stream s = {.common = &regs_sample_unit,
                            .common_gen = REGS_SAMPLE_GEN_THREE,
                            .units = units,
                            .n_units = 1,
                            .line = add_line,
                            .user = &lines};

    (void)state;
    assert_int_equal(regs_decode_stream(&s, words, ARRAY_LEN(words)), 6);
    assert_string_equal(
        lines.text, "00000: 000500a1 SET N=5 ADDRESS=0x4\n"
                    "  PAIRS[1] = 0004fffe 01000000 {LEFT=-2 MODE=ON SPLIT=1}\n"
                    "  ? 0x0046 = 00000001\n"
                    "  ? 0x0047 = 00000000\n"
                    "00018: 000200b2 BODY N=2\n"
                    "00024: 000200d4 FULL N=2 PAYLOAD=0x800000007\n"
                    "00034: 3fff00e5 EMPTY 0\n"
                    "00038: 000100e5 FILLER N=1\n"
                    "00044: 001001c3 ONCE N=1 ADDRESS=0x10\n"
                    "  BIND = 00000020 {ID=0x20}\n"
                    "0004c: 000003c3 ONCE N=3\n"
                    "  ? 0x0000 <- 1 words: 00000001\n"
                    "  ? 0x0001 <- 2 words: 00000002 00000003\n"
                    "0005c: 12999956 ?\n");
    assert_ptr_equal(s.slots[0], &regs_sample_unit);
    assert_int_equal(s.slot_gens[0], REGS_SAMPLE_GEN_TWO);
}

/* Constants of several ranges. */
static void
test_constants(void **state)
{
    uint32_t word;

    (void)state;
    word = regs_pack_sample_mark(REGS_SAMPLE_GEN_ONE);
    assert_int_equal(word, 0x12349956);
    assert_true(regs_match_sample_mark(REGS_SAMPLE_GEN_ONE, &word));
    word ^= 0x00010000;
    assert_false(regs_match_sample_mark(REGS_SAMPLE_GEN_ONE, &word));
    assert_int_equal(REGS_SAMPLE_ANSWER, 42);
    assert_int_equal(REGS_SAMPLE_LARGE, 0x123456789abcdef0);
    assert_int_equal(REGS_SAMPLE_PAIRS(2), 0x48);
    assert_int_equal(REGS_SAMPLE_PAIRS_N, 4);
    assert_int_equal(sizeof(struct regs_sample_record), 24);
}

/* Setters of fields in arrays, of several ranges, over word borders. */
static void
test_setters(void **state)
{
    struct regs_sample_many many = {.end = 0xf}, back;
    uint32_t w[REGS_SAMPLE_MANY_DW], wide[REGS_SAMPLE_WIDE_DW] = {0};

    (void)state;
    regs_pack_sample_many(REGS_SAMPLE_GEN_TWO, many, w);
    for (unsigned i = 0; i < 20; i++)
        regs_set_sample_many_n(w, i, 31 - i);
    regs_set_sample_many_p(w, 1, 0xf0);
    regs_set_sample_many_p(w, 3, 0x50);
    regs_set_sample_many_p(w, 1, 0xa0);
    regs_set_sample_many_end(w, 0x5);
    back = regs_unpack_sample_many(REGS_SAMPLE_GEN_TWO, w);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(back.n[i], 31 - i);
    assert_int_equal(back.p[0], 0);
    assert_int_equal(back.p[1], 0xa0);
    assert_int_equal(back.p[2], 0);
    assert_int_equal(back.p[3], 0x50);
    assert_int_equal(back.end, 0x5);
    regs_set_sample_wide_d(wide, 0x7fff8);
    assert_int_equal(wide[2], 0xffff0000);
}

/* Any words decode without a fault, within their bounds. */
static void
test_random_words(void **state)
{
    uint32_t words[256];
    uint64_t x = 88172645463325252u;
    struct lines lines;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        size_t n = (size_t)(round % 256);
        uint32_t *copy = malloc(n * 4 + 1);

        assert_non_null(copy);
        for (size_t i = 0; i < n; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            words[i] = (uint32_t)x;
            if (x >> 40 & 1) /* small counts and known opcodes, often */
                words[i] = (words[i] & 0x0003ffff) | (uint32_t)(x >> 61) << 29;
        }
        memcpy(copy, words, n * 4);
        decode_nv(&lines, copy, n);
        free(copy);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compute_stream),
        cmocka_unit_test(test_copy_stream),
        cmocka_unit_test(test_broken_stream),
        cmocka_unit_test(test_header_kinds),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_other_packets),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_setters),
        cmocka_unit_test(test_random_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
