/* Registers, numbers and names in instructions' text. */
#include "render/ir3/ir3_token.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

void
ir3_put(struct ir3_out *o, const char *fmt, ...)
{
    size_t room = IR3_TEXT_MAX - o->len;
    va_list args;
    int n;

    assert(o->len < IR3_TEXT_MAX);
    va_start(args, fmt);
    n = vsnprintf(o->buf + o->len, room, fmt, args);
    va_end(args);
    if (n > 0)
        o->len += (size_t)n < room ? (size_t)n : room - 1;
}

int32_t
ir3_sign_extend(uint32_t value, unsigned n_bits)
{
    assert(n_bits >= 1 && n_bits <= 32);
    return (int32_t)(value << (32 - n_bits)) >> (32 - n_bits);
}

void
ir3_put_reg(struct ir3_out *o, uint32_t id, bool is_half)
{
    const char *h = is_half ? "h" : "";

    if (id == IR3_REG_A0 || id == IR3_REG_A1)
        ir3_put(o, "%sa%u.x", h, id - IR3_REG_A0);
    else if (id >= IR3_REG_P0 && id < IR3_REG_NONE)
        ir3_put(o, "%sp0.%c", h, "xyzw"[id & 3]);
    else
        ir3_put(o, "%sr%u.%c", h, id >> 2, "xyzw"[id & 3]);
}

void
ir3_put_const(struct ir3_out *o, uint32_t id, bool is_half)
{
    ir3_put(o, "%sc%u.%c", is_half ? "h" : "", id >> 2, "xyzw"[id & 3]);
}

void
ir3_put_relative(struct ir3_out *o, char file, int32_t offset, bool is_half)
{
    ir3_put(o, "%s%c<a0.x", is_half ? "h" : "", file);
    if (offset)
        ir3_put(o, " %c %d", offset < 0 ? '-' : '+', abs(offset));
    ir3_put(o, ">");
}

/* A float so that reading it gives the same bits. */
void
ir3_put_float(struct ir3_out *o, uint32_t bits, enum uop_dtype dtype)
{
    double value = uop_float_value(dtype, bits);
    char text[64];

    snprintf(text, sizeof(text), "%f", value);
    if (uop_float_bits(dtype, strtod(text, NULL)) != bits)
        snprintf(text, sizeof(text), "%.9g", value);
    if (uop_float_bits(dtype, strtod(text, NULL)) != bits)
        snprintf(text, sizeof(text), "0x%x", bits);
    ir3_put(o, "(%s)", text);
}

void
ir3_put_sign(struct ir3_out *o, bool is_abs, bool is_neg)
{
    if (is_abs || is_neg)
        ir3_put(o, "(%s%s)", is_abs ? "abs" : "", is_neg ? "neg" : "");
}

/* ---- reading ---- */

bool
ir3_eat(struct ir3_in *in, const char *text)
{
    size_t n = strlen(text);

    if (strncmp(in->p, text, n) != 0)
        return false;
    in->p += n;
    return true;
}

/* The longest of the names that is there. */
bool
ir3_eat_name(struct ir3_in *in, const char *const *names, size_t n_names,
             uint32_t *out_value)
{
    size_t best = 0, i, n;

    for (i = 0; i < n_names; i++) {
        n = names[i] ? strlen(names[i]) : 0;
        if (n > best && strncmp(in->p, names[i], n) == 0) {
            best = n;
            *out_value = (uint32_t)i;
        }
    }
    in->p += best;
    return best > 0;
}

bool
ir3_eat_int(struct ir3_in *in, int64_t min, int64_t max, int64_t *out_value)
{
    char *end;
    int64_t value;

    if (*in->p != '-' && (*in->p < '0' || *in->p > '9'))
        return false;
    value = strtoll(in->p, &end, 0);
    if (end == in->p || value < min || value > max)
        return false;
    in->p = end;
    *out_value = value;
    return true;
}

bool
ir3_eat_field(struct ir3_in *in, enum ir3_field field, uint32_t max)
{
    int64_t value;

    assert(field < IR3_F_COUNT);
    if (!ir3_eat_int(in, 0, max, &value))
        return false;
    in->instr->f[field] = (uint32_t)value;
    return true;
}

bool
ir3_eat_component(struct ir3_in *in, uint32_t *out)
{
    const char *at = *in->p ? strchr("xyzw", *in->p) : NULL;

    if (!at)
        return false;
    *out = (uint32_t)(at - "xyzw");
    in->p++;
    return true;
}

/* "file12.x", as 4 n + component. */
bool
ir3_eat_file(struct ir3_in *in, char file, uint32_t max, uint32_t *out_id)
{
    const char *start = in->p;
    uint32_t component;
    int64_t number;

    if (*in->p++ == file && ir3_eat_int(in, 0, max / 4, &number) &&
        ir3_eat(in, ".") && ir3_eat_component(in, &component)) {
        *out_id = (uint32_t)number * 4 + component;
        return true;
    }
    in->p = start;
    return false;
}

bool
ir3_eat_reg(struct ir3_in *in, uint32_t *out_id, bool *out_half)
{
    uint32_t component;

    *out_half = ir3_eat(in, "h");
    if (ir3_eat(in, "a0.x")) {
        *out_id = IR3_REG_A0;
        return true;
    }
    if (ir3_eat(in, "a1.x")) {
        *out_id = IR3_REG_A1;
        return true;
    }
    if (ir3_eat(in, "p0.") && ir3_eat_component(in, &component)) {
        *out_id = IR3_REG_P0 + component;
        return true;
    }
    return ir3_eat_file(in, 'r', 255, out_id);
}

/* "r<a0.x + 4>" of the file. */
bool
ir3_eat_relative(struct ir3_in *in, char file, unsigned n_bits,
                 uint32_t *out_field)
{
    char head[8] = {file, '<', 'a', '0', '.', 'x', 0};
    int64_t limit = INT64_C(1) << (n_bits - 1), offset = 0;
    bool is_neg = false;

    assert(n_bits >= 1 && n_bits <= 32);
    if (!ir3_eat(in, head))
        return false;
    if (ir3_eat(in, " + ") || (is_neg = ir3_eat(in, " - ")))
        if (!ir3_eat_int(in, 0, limit - !is_neg, &offset))
            return false;
    *out_field = (uint32_t)(is_neg ? -offset : offset) &
                 (uint32_t)((UINT64_C(1) << n_bits) - 1);
    return ir3_eat(in, ">");
}

bool
ir3_eat_float(struct ir3_in *in, enum uop_dtype dtype, uint32_t *out_bits)
{
    char *end;

    if (!ir3_eat(in, "("))
        return false;
    if (strncmp(in->p, "0x", 2) == 0)
        *out_bits = (uint32_t)strtoul(in->p, &end, 16);
    else
        *out_bits = (uint32_t)uop_float_bits(dtype, strtod(in->p, &end));
    if (end == in->p)
        return false;
    in->p = end;
    return ir3_eat(in, ")");
}

/* A place for registers of a known width: what the text says must agree. */
bool
ir3_eat_wide(struct ir3_in *in, enum ir3_field field, bool is_half)
{
    bool half;

    return ir3_eat_reg(in, &in->instr->f[field], &half) && half == is_half;
}
