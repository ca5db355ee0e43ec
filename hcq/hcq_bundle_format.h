/* Bundles as they are in a file: docs/reference/bundle-format.md. Little
 * endian; every struct has no padding but what it names.
 */
#ifndef BELL_HCQ_HCQ_BUNDLE_FORMAT_H
#define BELL_HCQ_HCQ_BUNDLE_FORMAT_H

#include <stdint.h>
#include <string.h>

#define BUNDLE_MAGIC                                                           \
    "\x93"                                                                     \
    "BELL\r\n\x1a"
#define BUNDLE_VERSION    1u
#define BUNDLE_WITH_IR    2u    /* version of those with a ninth section */
#define BUNDLE_SYMBOLS    3u    /* of those with symbols, and a ninth section */
#define BUNDLE_SIZES      4u    /* of those with sizes of symbols */
#define BUNDLE_STEPS      5u    /* of those whose kernels say max_steps */
#define BUNDLE_ALIGN      64u   /* of sections, and of values in DATA */
#define BUNDLE_PAGE       4096u /* of DATA */
#define BUNDLE_RANK_MAX   8u
#define BUNDLE_NO_DATA    UINT64_MAX
#define BUNDLE_INT64      8u /* of enum bell_dtype */
#define BUNDLE_SYMBOL_MAX (1u << 20)
#define BUNDLE_SIZE_MAX   ((int64_t)1 << 40) /* of sizes and their numbers */
/* In place of a size or a number: what value number v, a symbol or a size, is.
 */
#define BUNDLE_OF(v)     ((uint64_t)1 << 62 | (v))
#define BUNDLE_IS_OF(x)  ((x) >> 32 == (uint64_t)1 << 30)
#define BUNDLE_NUMBER(x) ((uint32_t)(x))

enum bundle_section_kind {
    BUNDLE_TARGETS,
    BUNDLE_VALUES,
    BUNDLE_KERNELS,
    BUNDLE_COMMANDS,
    BUNDLE_ARGS,
    BUNDLE_NAMES,
    BUNDLE_OBJECTS,
    BUNDLE_DATA,
    BUNDLE_SECTION_COUNT,
    BUNDLE_IR = BUNDLE_SECTION_COUNT /* from version 2 on */
};

struct bundle_section {
    uint64_t offset, size_bytes, checksum;
};

struct bundle_header {
    char magic[8];
    uint32_t version, n_sections;
    uint64_t file_bytes;
    uint64_t checksum; /* of the header, with 0 here */
    struct bundle_section sections[BUNDLE_SECTION_COUNT];
};

struct bundle_header_2 {
    struct bundle_header header; /* its checksum is of all of this */
    struct bundle_section ir;
};

/* What the objects of a target are. */
enum bundle_form {
    BUNDLE_MACHINE_CODE,
    BUNDLE_PTX, /* PTX in a container, for simulated cards */
    BUNDLE_FORM_COUNT
};

struct bundle_target {
    uint32_t backend, arch; /* as a device says; here and below: in NAMES */
    uint32_t model;         /* the only one that it is for; "": all */
    uint32_t tools;         /* that made it, for people */
    uint32_t form;          /* enum bundle_form */
    uint32_t first_kernel, n_kernels;
    uint32_t first_command, n_commands;
    uint32_t math; /* from version 2 on: bits of enum bell_math; else 0 */
    uint64_t arena_bytes;
};

enum bundle_kind {
    BUNDLE_INPUT,
    BUNDLE_OUTPUT,
    BUNDLE_STATE,
    BUNDLE_WEIGHT,
    BUNDLE_SYMBOL, /* a number that arguments are made of; version 3 */
    BUNDLE_SIZE,   /* one that is computed of symbols; version 4 */
    BUNDLE_KIND_COUNT
};

struct bundle_value {
    uint32_t name;
    uint32_t kind;  /* enum bundle_kind */
    uint32_t dtype; /* enum bell_dtype; of a symbol int64 */
    uint32_t ndim;
    /* Symbol: its least value, and its greatest. Size: an operation (enum
     * bundle_size_op), its two operands, numbers or BUNDLE_OF a value before
     * it, then the least and the greatest that it can be. Inputs and outputs:
     * numbers, or BUNDLE_OF a value; size_bytes is then the most. */
    uint64_t shape[BUNDLE_RANK_MAX];
    uint64_t size_bytes;
    uint64_t data_offset; /* in DATA; BUNDLE_NO_DATA: none, and state is 0 */
};

/* How a size is made of a and b. */
enum bundle_size_op {
    BUNDLE_ADD,
    BUNDLE_MUL,
    BUNDLE_FLOORDIV, /* rounded down; b is 1 or more */
    BUNDLE_MOD,      /* what then remains, 0 to b - 1 */
    BUNDLE_MIN,
    BUNDLE_MAX,
    BUNDLE_SIZE_OP_COUNT
};

struct bundle_kernel {
    uint32_t name; /* and its entry point */
    uint32_t n_bufs;
    uint16_t n_vals;
    uint16_t max_steps; /* hcq_program_desc's; before version 5: 0 */
    uint32_t local[3];  /* 0,0,0: any */
    uint32_t shared_bytes;
    uint32_t ir; /* from version 2 on: in IR; 0: none */
    uint64_t object_offset, object_bytes; /* in OBJECTS */
};

enum bundle_op {
    BUNDLE_EXEC, /* args: those of the kernel */
    BUNDLE_COPY, /* args: to, from; of one size */
    BUNDLE_FILL, /* args: to; with 32-bit words of `pattern` */
    BUNDLE_OP_COUNT
};

struct bundle_command {
    uint32_t op;      /* enum bundle_op */
    uint32_t kernel;  /* of the target's, from 0 */
    uint32_t grid[3]; /* work-groups */
    uint32_t pattern;
    uint32_t first_arg, n_args;
};

enum bundle_place {
    BUNDLE_WORD,  /* `offset` is the word */
    BUNDLE_ARENA, /* memory between kernels, of undefined content at first */
    BUNDLE_VALUE, /* value number `value` */
    BUNDLE_TIMES, /* the word `times` * the symbol's or size's + `offset` */
    BUNDLE_PLACE_COUNT
};

#define BUNDLE_READ  1u
#define BUNDLE_WRITE 2u

struct bundle_arg {
    uint32_t place;  /* enum bundle_place */
    uint32_t value;  /* 0 but of BUNDLE_VALUE and BUNDLE_TIMES */
    uint32_t access; /* BUNDLE_READ, BUNDLE_WRITE or both; 0 of a word */
    int32_t times;   /* 0 but of BUNDLE_TIMES */
    uint64_t offset, size_bytes; /* that are accessed there */
};

_Static_assert(sizeof(struct bundle_header) == 224, "no padding");
_Static_assert(sizeof(struct bundle_header_2) == 248, "no padding");
_Static_assert(sizeof(struct bundle_target) == 48, "no padding");
_Static_assert(sizeof(struct bundle_value) == 96, "no padding");
_Static_assert(sizeof(struct bundle_kernel) == 48, "no padding");
_Static_assert(sizeof(struct bundle_command) == 32, "no padding");
_Static_assert(sizeof(struct bundle_arg) == 32, "no padding");

/* Any change of one word changes it: each step can be undone. */
static inline uint64_t
bundle_checksum(const void *data, uint64_t size_bytes)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t lanes[4] = {1, 2, 3, 4}, words[4], sum = size_bytes;
    const uint8_t *bytes = data;
    uint64_t left = size_bytes;
    int i;

    while (left) {
        uint64_t n = left < sizeof(words) ? left : sizeof(words);

        memset(words, 0, sizeof(words));
        memcpy(words, bytes, n);
        for (i = 0; i < 4; i++) {
            lanes[i] = (lanes[i] ^ words[i]) * odd;
            lanes[i] ^= lanes[i] >> 32;
        }
        bytes += n;
        left -= n;
    }
    for (i = 0; i < 4; i++) {
        sum = (sum ^ lanes[i]) * odd;
        sum ^= sum >> 32;
    }
    return sum;
}

#endif
