/* Builds nodes from S-expressions, for tests of uops/.
 *
 *   (ADD x y) (CAST.f32 x) (LANE.2 v) (BROADCAST.4 x) (LANES a b)
 *   r0:16        RANGE 0 of that size          ramp4      RAMP of 4 lanes
 *   p0:f32       PARAM 0 of that dtype         v0         VAR 0
 *   a:i32 a:i32x4  an unknown value (a LOAD of its own PARAM)
 *   5 -3 1.5 true  a constant; integers take the dtype of the first sibling
 *                  that has one, else i64 (5:i8 sets it)
 */
#ifndef BELL_TESTS_UOP_SEXP_H
#define BELL_TESTS_UOP_SEXP_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uops/uop.h"

struct sexp {
    struct uop_graph *g;
    const char *at;
    bool raw; /* uop_new instead of uop_make */
};

static inline void
sexp_die(const struct sexp *s, const char *what)
{
    fprintf(stderr, "test expression: %s at '%s'\n", what, s->at);
    abort();
}

static inline size_t
sexp_word(struct sexp *s, char *out, size_t size)
{
    size_t n = 0;

    while (s->at[n] && !strchr(" ()", s->at[n]) && n + 1 < size) {
        out[n] = s->at[n];
        n++;
    }
    out[n] = '\0';
    s->at += n;
    return n;
}

static inline enum uop_dtype
sexp_dtype(const struct sexp *s, const char *name, unsigned *out_lanes)
{
    const char *x;
    size_t n;
    int d;

    *out_lanes = 1;
    x = strchr(name, 'x');
    n = x ? (size_t)(x - name) : strlen(name);
    if (x)
        *out_lanes = (unsigned)atoi(x + 1);
    for (d = 0; d < UOP_DTYPE_COUNT; d++) {
        const char *have = uop_dtype_infos[d].short_name;
        if (strlen(have) == n && strncmp(have, name, n) == 0)
            return d;
    }
    sexp_die(s, "dtype");
    return UOP_VOID;
}

static inline const struct uop *
sexp_unknown(struct sexp *s, char name, enum uop_dtype dtype, unsigned lanes)
{
    union uop_arg arg = {.i = name}, none = {.bits = 0};
    const struct uop *src[2];

    src[0] = uop_new(s->g, UOP_PARAM, dtype, 1, arg, NULL, 0);
    src[1] = uop_const_int(s->g, UOP_I64, 0);
    return uop_new(s->g, UOP_LOAD, dtype, (uint16_t)lanes, none, src, 2);
}

/* An atom; NULL with *value set for an integer without a dtype. */
static inline const struct uop *
sexp_atom(struct sexp *s, int64_t *value)
{
    union uop_arg arg = {.bits = 0};
    char word[48], *colon;
    enum uop_dtype dtype;
    unsigned lanes;

    if (sexp_word(s, word, sizeof(word)) == 0)
        sexp_die(s, "nothing");
    colon = strchr(word, ':');
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        return uop_const_int(s->g, UOP_BOOL, word[0] == 't');
    if (strncmp(word, "ramp", 4) == 0)
        return uop_new(s->g, UOP_RAMP, UOP_I64, (uint16_t)atoi(word + 4), arg,
                       NULL, 0);
    if (isdigit((unsigned char)word[0]) || word[0] == '-') {
        dtype = colon               ? sexp_dtype(s, colon + 1, &lanes)
                : strchr(word, '.') ? UOP_F32
                                    : UOP_VOID;
        if (uop_dtype_infos[dtype].is_float)
            return uop_const_float(s->g, dtype, strtod(word, NULL));
        *value = (int64_t)strtoull(word, NULL, 10);
        return dtype == UOP_VOID ? NULL : uop_const_int(s->g, dtype, *value);
    }
    if (word[0] == 'r' && isdigit((unsigned char)word[1]) && colon)
        return uop_range(s->g, (uint32_t)atoi(word + 1), UOP_AXIS_LOOP,
                         atoll(colon + 1));
    if (word[0] == 'v' && isdigit((unsigned char)word[1])) {
        arg.i = atoi(word + 1);
        return uop_new(s->g, UOP_VAR, UOP_I64, 1, arg, NULL, 0);
    }
    if (!colon)
        sexp_die(s, "atom without a dtype");
    dtype = sexp_dtype(s, colon + 1, &lanes);
    if (word[0] == 'p' && isdigit((unsigned char)word[1])) {
        arg.i = atoi(word + 1);
        return uop_new(s->g, UOP_PARAM, dtype, 1, arg, NULL, 0);
    }
    return sexp_unknown(s, word[0], dtype, lanes);
}

/* dtype and lanes of an op from its sources and the suffix of its name. */
static inline void
sexp_type(const struct sexp *s, enum uop_op op, const char *suffix,
          const struct uop *const *src, uint32_t n, enum uop_dtype *dtype,
          uint16_t *lanes, union uop_arg *arg)
{
    const struct uop *like = n ? src[op == UOP_WHERE && n > 1 ? 1 : 0] : NULL;
    unsigned width;

    *dtype = like ? like->dtype : UOP_VOID;
    *lanes = like ? like->lanes : 1;
    if (uop_op_infos[op].flags & UOP_FLAG_CMP)
        *dtype = UOP_BOOL;
    if (op == UOP_CAST || op == UOP_BITCAST)
        *dtype = sexp_dtype(s, suffix, &width);
    if (op == UOP_BROADCAST)
        *lanes = (uint16_t)atoi(suffix);
    if (op == UOP_LANES)
        *lanes = (uint16_t)n;
    if (op == UOP_LANE) {
        arg->i = atoi(suffix);
        *lanes = 1;
    }
    if (op == UOP_LOAD)
        *lanes = src[1]->lanes;
    if (op == UOP_STORE)
        *dtype = UOP_VOID;
}

static inline const struct uop *sexp_expr(struct sexp *s, int64_t *value,
                                          bool raw);

static inline const struct uop *
sexp_list(struct sexp *s, bool raw)
{
    const struct uop *src[16], *like = NULL;
    union uop_arg arg = {.bits = 0};
    char word[48], *suffix;
    enum uop_dtype dtype;
    int64_t values[16];
    uint32_t n = 0, i;
    uint16_t lanes;
    int op;

    s->at++;
    sexp_word(s, word, sizeof(word));
    suffix = strchr(word, '.');
    if (suffix)
        *suffix++ = '\0';
    for (op = 0; op < UOP_OP_COUNT; op++) {
        if (strcmp(uop_op_infos[op].name, word) == 0)
            break;
    }
    if (op == UOP_OP_COUNT)
        sexp_die(s, word);
    for (; *s->at == ' ' || n == 0; n++) {
        while (*s->at == ' ')
            s->at++;
        if (*s->at == ')')
            break;
        src[n] = sexp_expr(s, &values[n], s->raw);
        if (!like && src[n] &&
            (op == UOP_LOAD || op == UOP_STORE ? n >= 2 : 1) &&
            !(op == UOP_WHERE && n == 0))
            like = src[n];
    }
    if (*s->at != ')')
        sexp_die(s, "')' is due");
    s->at++;
    for (i = 0; i < n; i++) {
        enum uop_dtype d = like ? like->dtype : UOP_I64;
        if (src[i])
            continue;
        if ((op == UOP_LOAD || op == UOP_STORE) && i == 1)
            d = UOP_I64;
        src[i] = uop_const_int(s->g, d, values[i]);
        if (like && like->lanes > 1 && i > 0)
            src[i] =
                uop_new(s->g, UOP_BROADCAST, d, like->lanes, arg, &src[i], 1);
    }
    sexp_type(s, op, suffix, src, n, &dtype, &lanes, &arg);
    return (raw ? uop_new : uop_make)(s->g, op, dtype, lanes, arg, src, n);
}

static inline const struct uop *
sexp_expr(struct sexp *s, int64_t *value, bool raw)
{
    return *s->at == '(' ? sexp_list(s, raw) : sexp_atom(s, value);
}

/* The node of `text`, simplified on the way unless `raw`. */
static inline const struct uop *
sexp_build(struct uop_graph *g, const char *text, bool raw)
{
    struct sexp s = {g, text, raw};
    int64_t value = 0;
    const struct uop *u = sexp_expr(&s, &value, raw);

    if (*s.at)
        sexp_die(&s, "text left over");
    return u ? u : uop_const_int(g, UOP_I64, value);
}

/* The same, whose root alone is not simplified. */
static inline const struct uop *
sexp_build_root(struct uop_graph *g, const char *text)
{
    struct sexp s = {g, text, false};
    int64_t value = 0;

    return sexp_expr(&s, &value, true);
}

#endif
