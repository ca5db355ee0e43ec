/* Pieces of instructions' text: written to, and read from. */
#ifndef BELL_RENDER_IR3_IR3_TOKEN_H
#define BELL_RENDER_IR3_IR3_TOKEN_H

#include "render/ir3/ir3_isa.h"
#include "uops/uop.h"

/* IR3_TEXT_MAX bytes to be filled; what has no room is left out. */
struct ir3_out {
    char *buf;
    size_t len;
    enum ir3_field field; /* the directive's main one */
};

/* Text that is read, and the instruction that it becomes. The readers below
 * return false, and may have gone on, where it is not what they read. */
struct ir3_in {
    const char *p;
    struct ir3_instr *instr;
    enum ir3_field field; /* the directive's main one */
    /* of operands: */
    bool has_dst_half, dst_half, has_src_half, src_half;
};

void ir3_put(struct ir3_out *o, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int32_t ir3_sign_extend(uint32_t value, unsigned n_bits);
void ir3_put_reg(struct ir3_out *o, uint32_t id, bool is_half);
void ir3_put_const(struct ir3_out *o, uint32_t id, bool is_half);
void ir3_put_relative(struct ir3_out *o, char file, int32_t offset,
                      bool is_half);
/* A float so that reading it gives the same bits. */
void ir3_put_float(struct ir3_out *o, uint32_t bits, enum uop_dtype dtype);
void ir3_put_sign(struct ir3_out *o, bool is_abs, bool is_neg);
bool ir3_eat(struct ir3_in *in, const char *text);
/* The longest of the names that is there. */
bool ir3_eat_name(struct ir3_in *in, const char *const *names, size_t n_names,
                  uint32_t *out_value);
bool ir3_eat_int(struct ir3_in *in, int64_t min, int64_t max,
                 int64_t *out_value);
bool ir3_eat_field(struct ir3_in *in, enum ir3_field field, uint32_t max);
bool ir3_eat_component(struct ir3_in *in, uint32_t *out);
/* "file12.x", as 4 n + component. */
bool ir3_eat_file(struct ir3_in *in, char file, uint32_t max, uint32_t *out_id);
bool ir3_eat_reg(struct ir3_in *in, uint32_t *out_id, bool *out_half);
/* "r<a0.x + 4>" of the file. */
bool ir3_eat_relative(struct ir3_in *in, char file, unsigned n_bits,
                      uint32_t *out_field);
bool ir3_eat_float(struct ir3_in *in, enum uop_dtype dtype, uint32_t *out_bits);
/* A place for registers of a known width: what the text says must agree. */
bool ir3_eat_wide(struct ir3_in *in, enum ir3_field field, bool is_half);

#endif
