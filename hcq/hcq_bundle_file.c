/* Bundles: checking the file. */
#include "hcq/hcq_bundle_file.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/hcq.h"

static const struct kind {
    const char *name;
    uint32_t row_bytes;
} sections[BUNDLE_SECTION_COUNT + 1] = {
    [BUNDLE_TARGETS] = {"targets", sizeof(struct bundle_target)},
    [BUNDLE_VALUES] = {"values", sizeof(struct bundle_value)},
    [BUNDLE_KERNELS] = {"kernels", sizeof(struct bundle_kernel)},
    [BUNDLE_COMMANDS] = {"commands", sizeof(struct bundle_command)},
    [BUNDLE_ARGS] = {"arguments", sizeof(struct bundle_arg)},
    [BUNDLE_NAMES] = {"names", 1},
    [BUNDLE_OBJECTS] = {"objects", 1},
    [BUNDLE_DATA] = {"data", 1},
    [BUNDLE_IR] = {"ir", 1},
};

/* By enum bell_dtype. */
static const struct {
    const char *name;
    uint32_t size_bytes;
} dtypes[] = {
    {NULL, 0},
    {"bool", 1},
    {"int8", 1},
    {"uint8", 1},
    {"int16", 2},
    {"uint16", 2},
    {"int32", 4},
    {"uint32", 4},
    {"int64", 8},
    {"uint64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"float8_e4m3fn", 1},
    {"float8_e5m2", 1},
    {"float8_e4m3fnuz", 1},
    {"float8_e5m2fnuz", 1},
};

const char *
bundle_dtype(uint32_t dtype, uint32_t *out_size_bytes)
{
    if (dtype >= ARRAY_LEN(dtypes) || !dtypes[dtype].name)
        return NULL;
    *out_size_bytes = dtypes[dtype].size_bytes;
    return dtypes[dtype].name;
}

/* What is behind `prefix` and one or more digits; NULL: they are not there. */
static const char *
behind_number(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);

    if (strncmp(name, prefix, n) != 0 || !isdigit((unsigned char)name[n]))
        return NULL;
    return name + n + strspn(name + n, "0123456789");
}

enum bundle_naming
bundle_naming(const char *name)
{
    static const struct {
        const char *prefix;
        enum bundle_naming naming;
    } rows[] = {
        {"weight", BUNDLE_UNNAMED},
        {"state", BUNDLE_UNNAMED},
        {"data.", BUNDLE_CONSTANT},
        {"steps", BUNDLE_CONSTANT},
    };
    const char *rest;
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        rest = behind_number(name, rows[i].prefix);
        if (rest && !*rest)
            return rows[i].naming;
    }
    rest = behind_number(name, "rates");
    rest = rest ? behind_number(rest, ".") : NULL;
    if ((rest && !*rest) || strcmp(name, "random") == 0)
        return BUNDLE_CONSTANT;
    return BUNDLE_NAMED;
}

static bool
inside(uint64_t offset, uint64_t size_bytes, uint64_t whole_bytes)
{
    return size_bytes <= whole_bytes && offset <= whole_bytes - size_bytes;
}

static const struct bundle_section *
section_of(const struct bundle_file *f, uint32_t kind)
{
    assert(kind <= BUNDLE_IR);
    return kind == BUNDLE_IR
               ? &((const struct bundle_header_2 *)(const void *)f->header)->ir
               : &f->header->sections[kind];
}

static bell_status refuse(const struct bundle_file *f,
                          enum bundle_section_kind kind, const void *row,
                          const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* What is wrong with the row at `row` in a section. */
static bell_status
refuse(const struct bundle_file *f, enum bundle_section_kind kind,
       const void *row, const char *fmt, ...)
{
    uint64_t at = (uint64_t)((const uint8_t *)row - f->data);
    char text[256];
    va_list args;

    assert(at <= f->size_bytes);
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return bell_fail(
        BELL_E_IO, "bundle: %s (section at 0x%llx), offset 0x%llx: %s",
        sections[kind].name, (unsigned long long)section_of(f, kind)->offset,
        (unsigned long long)at, text);
}

/* ---- the header ---- */

static bell_status
check_section(const struct bundle_file *f, uint32_t kind, uint64_t *end)
{
    const struct bundle_section *s = section_of(f, kind);
    uint32_t align = kind == BUNDLE_DATA ? BUNDLE_PAGE : BUNDLE_ALIGN;
    unsigned long long offset = s->offset, size_bytes = s->size_bytes;

    if (!inside(s->offset, s->size_bytes, f->size_bytes) || s->offset < *end ||
        s->offset % align)
        return refuse(f, kind, s,
                      "%llu bytes at 0x%llx, in a file of %llu: they are to "
                      "lie behind 0x%llx, at a multiple of %u",
                      size_bytes, offset, (unsigned long long)f->size_bytes,
                      (unsigned long long)*end, align);
    if (s->size_bytes % sections[kind].row_bytes ||
        s->size_bytes / sections[kind].row_bytes >= UINT32_MAX >> 1)
        if (sections[kind].row_bytes > 1 || kind == BUNDLE_NAMES ||
            kind == BUNDLE_IR)
            return refuse(f, kind, s, "%llu bytes for rows of %u", size_bytes,
                          sections[kind].row_bytes);
    if (bundle_checksum(f->data + s->offset, s->size_bytes) != s->checksum)
        return refuse(f, kind, s, "the checksum is wrong: the file is damaged");
    *end = s->offset + s->size_bytes;
    return BELL_OK;
}

static bell_status
check_header(struct bundle_file *f)
{
    const struct bundle_header *h = (const void *)f->data;
    struct bundle_header_2 copy;
    uint64_t end = sizeof(*h);
    uint32_t n_sections = BUNDLE_SECTION_COUNT, i;

    if (f->size_bytes < sizeof(*h) ||
        memcmp(f->data, BUNDLE_MAGIC, sizeof(h->magic)) != 0)
        return bell_fail(BELL_E_IO, "not a bundle");
    f->header = h;
    if (h->version < BUNDLE_VERSION || h->version > BUNDLE_STEPS)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "bundle: header, offset 8: version %u; %u to %u are "
                         "read",
                         h->version, BUNDLE_VERSION, BUNDLE_STEPS);
    if (h->file_bytes != f->size_bytes)
        return bell_fail(BELL_E_IO,
                         "bundle: header, offset 16: a file of %llu bytes; "
                         "this one has %llu: it is cut short, or has more",
                         (unsigned long long)h->file_bytes,
                         (unsigned long long)f->size_bytes);
    if (h->version >= BUNDLE_WITH_IR) {
        end = sizeof(copy);
        n_sections++;
        if (f->size_bytes < end)
            return bell_fail(BELL_E_IO, "bundle: header: it is cut short");
    }
    memcpy(&copy, h, end);
    copy.header.checksum = 0;
    if (bundle_checksum(&copy, end) != h->checksum)
        return bell_fail(BELL_E_IO, "bundle: header, offset 24: the checksum "
                                    "is wrong: the file is damaged");
    if (h->n_sections != n_sections)
        return bell_fail(BELL_E_IO,
                         "bundle: header, offset 12: %u sections, not %u",
                         h->n_sections, n_sections);
    for (i = 0; i < n_sections; i++)
        BELL_TRY(check_section(f, i, &end));
    return BELL_OK;
}

static const void *
section(const struct bundle_file *f, enum bundle_section_kind kind,
        uint32_t *out_n)
{
    const struct bundle_section *s = &f->header->sections[kind];

    assert(kind < BUNDLE_SECTION_COUNT);
    if (out_n)
        *out_n = (uint32_t)(s->size_bytes / sections[kind].row_bytes);
    return f->data + s->offset;
}

/* ---- names ---- */

/* All of them end, and can be printed. */
static bell_status
check_names(const struct bundle_file *f)
{
    uint64_t n = f->header->sections[BUNDLE_NAMES].size_bytes, i;

    if (n == 0 || f->names[0] || f->names[n - 1])
        return refuse(f, BUNDLE_NAMES, f->names,
                      "it is to begin with an empty name, and each is to end");
    for (i = 0; i < n; i++) {
        uint8_t c = (uint8_t)f->names[i];
        if ((c && c < 0x20) || c == 0x7f)
            return refuse(f, BUNDLE_NAMES, f->names + i,
                          "character 0x%02x in a name", c);
    }
    return BELL_OK;
}

static bool
is_name(const struct bundle_file *f, uint32_t name)
{
    return name < f->header->sections[BUNDLE_NAMES].size_bytes;
}

/* ---- IR ---- */

/* Who reads a text checks what it says. */
static bell_status
check_ir(struct bundle_file *f)
{
    const struct bundle_section *s;

    if (f->header->version < BUNDLE_WITH_IR)
        return BELL_OK;
    s = section_of(f, BUNDLE_IR);
    f->ir = (const char *)f->data + s->offset;
    f->ir_bytes = s->size_bytes;
    if (s->size_bytes == 0 || f->ir[0] || f->ir[s->size_bytes - 1])
        return refuse(f, BUNDLE_IR, f->ir,
                      "it is to begin with an empty text, and each is to end");
    return BELL_OK;
}

/* ---- sizes ---- */

static int64_t
floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

int64_t
bundle_size_apply(enum bundle_size_op op, int64_t a, int64_t b)
{
    switch (op) {
    case BUNDLE_ADD:
        return a + b;
    case BUNDLE_MUL:
        return a * b;
    case BUNDLE_FLOORDIV:
        return floor_divide(a, b);
    case BUNDLE_MOD:
        return a - floor_divide(a, b) * b;
    case BUNDLE_MIN:
        return a < b ? a : b;
    case BUNDLE_MAX:
    case BUNDLE_SIZE_OP_COUNT:
        break;
    }
    return a > b ? a : b;
}

/* All operations but the remainder have their extremes at those of a and b. */
bool
bundle_size_bounds(enum bundle_size_op op, const int64_t a[2],
                   const int64_t b[2], int64_t out[2])
{
    int64_t x;
    int i;

    if ((op == BUNDLE_FLOORDIV || op == BUNDLE_MOD) && b[0] < 1)
        return false;
    out[0] = op == BUNDLE_MOD ? 0 : INT64_MAX;
    out[1] = op == BUNDLE_MOD ? b[1] - 1 : INT64_MIN;
    for (i = 0; i < 4 && op != BUNDLE_MOD; i++) {
        if (op == BUNDLE_MUL && __builtin_mul_overflow(a[i & 1], b[i >> 1], &x))
            return false;
        x = bundle_size_apply(op, a[i & 1], b[i >> 1]);
        out[0] = x < out[0] ? x : out[0];
        out[1] = x > out[1] ? x : out[1];
    }
    return out[0] > -BUNDLE_SIZE_MAX && out[1] < BUNDLE_SIZE_MAX;
}

void
bundle_bounds(const struct bundle_file *f, uint64_t number, int64_t out[2])
{
    const struct bundle_value *v;

    out[0] = out[1] = (int64_t)number;
    if (!BUNDLE_IS_OF(number))
        return;
    v = &f->values[BUNDLE_NUMBER(number)];
    assert(v->kind == BUNDLE_SYMBOL || v->kind == BUNDLE_SIZE);
    memcpy(out, v->shape + (v->kind == BUNDLE_SIZE ? 3 : 0), 2 * sizeof(*out));
}

/* A number within reach, or a symbol or a size among the values up to
 * `before`. */
static bool
is_size(const struct bundle_file *f, uint64_t number, uint64_t before)
{
    uint32_t kind;

    if (!BUNDLE_IS_OF(number))
        return (int64_t)number > -BUNDLE_SIZE_MAX &&
               (int64_t)number < BUNDLE_SIZE_MAX;
    if (BUNDLE_NUMBER(number) >= before)
        return false;
    kind = f->values[BUNDLE_NUMBER(number)].kind;
    return kind == BUNDLE_SYMBOL || kind == BUNDLE_SIZE;
}

static bell_status
check_symbol(const struct bundle_file *f, const struct bundle_value *v)
{
    if (v->dtype == BUNDLE_INT64 && !v->ndim && v->shape[0] <= v->shape[1] &&
        v->shape[1] <= BUNDLE_SYMBOL_MAX)
        return BELL_OK;
    return refuse(f, BUNDLE_VALUES, v,
                  "symbol '%.40s' has dtype %u, %u axes, %llu to %llu",
                  f->names + v->name, v->dtype, v->ndim,
                  (unsigned long long)v->shape[0],
                  (unsigned long long)v->shape[1]);
}

/* The bounds that it says are those of its operands, whose rows are before it
 * and were checked: no value of the symbols leads out of them. */
static bell_status
check_size(const struct bundle_file *f, const struct bundle_value *v)
{
    uint64_t at = (uint64_t)(v - f->values);
    int64_t a[2], b[2], bounds[2];

    if (v->dtype != BUNDLE_INT64 || v->ndim ||
        v->shape[0] >= BUNDLE_SIZE_OP_COUNT || !is_size(f, v->shape[1], at) ||
        !is_size(f, v->shape[2], at))
        return refuse(f, BUNDLE_VALUES, v,
                      "size '%.40s' has dtype %u, %u axes, operation %llu of "
                      "0x%llx and 0x%llx",
                      f->names + v->name, v->dtype, v->ndim,
                      (unsigned long long)v->shape[0],
                      (unsigned long long)v->shape[1],
                      (unsigned long long)v->shape[2]);
    bundle_bounds(f, v->shape[1], a);
    bundle_bounds(f, v->shape[2], b);
    if (!bundle_size_bounds((enum bundle_size_op)v->shape[0], a, b, bounds) ||
        memcmp(bounds, v->shape + 3, sizeof(bounds)) != 0)
        return refuse(
            f, BUNDLE_VALUES, v, "size '%.40s' is said to go from %lld to %lld",
            f->names + v->name, (long long)v->shape[3], (long long)v->shape[4]);
    return BELL_OK;
}

/* ---- values ---- */

/* The most that an axis can have; UINT64_MAX: it is not a size. */
static uint64_t
most_of_axis(const struct bundle_file *f, const struct bundle_value *v,
             uint32_t axis)
{
    uint64_t d = v->shape[axis];
    int64_t bounds[2];

    if (!BUNDLE_IS_OF(d) || f->header->version < BUNDLE_SIZES)
        return d;
    if (v->kind > BUNDLE_OUTPUT || !is_size(f, d, f->n_values))
        return UINT64_MAX;
    bundle_bounds(f, d, bounds);
    return bounds[0] < 1 ? UINT64_MAX : (uint64_t)bounds[1];
}

static bell_status
check_listed_value(struct bundle_file *f, const struct bundle_value *v)
{
    uint64_t data_bytes = f->header->sections[BUNDLE_DATA].size_bytes;
    uint32_t size_bytes, i;
    uint64_t total;

    if (!is_name(f, v->name) || !f->names[v->name] ||
        v->kind >= BUNDLE_KIND_COUNT ||
        (v->kind == BUNDLE_SYMBOL && f->header->version < BUNDLE_SYMBOLS) ||
        (v->kind == BUNDLE_SIZE && f->header->version < BUNDLE_SIZES))
        return refuse(f, BUNDLE_VALUES, v, "name 0x%x, kind %u", v->name,
                      v->kind);
    if (!bundle_dtype(v->dtype, &size_bytes) || v->ndim > BUNDLE_RANK_MAX)
        return refuse(f, BUNDLE_VALUES, v, "'%.40s' has dtype %u, %u axes",
                      f->names + v->name, v->dtype, v->ndim);
    total = size_bytes;
    for (i = 0; i < BUNDLE_RANK_MAX; i++) {
        uint64_t d = i < v->ndim ? most_of_axis(f, v, i) : 1;
        if (d > INT64_MAX || __builtin_mul_overflow(total, d, &total) ||
            total > INT64_MAX)
            return refuse(f, BUNDLE_VALUES, v,
                          "'%.40s' is too large at axis %u", f->names + v->name,
                          i);
    }
    if (total != v->size_bytes)
        return refuse(f, BUNDLE_VALUES, v,
                      "'%.40s' has %llu bytes, its shape asks for %llu",
                      f->names + v->name, (unsigned long long)v->size_bytes,
                      (unsigned long long)total);
    if (v->data_offset == BUNDLE_NO_DATA && v->kind != BUNDLE_WEIGHT)
        return BELL_OK;
    if ((v->kind != BUNDLE_STATE && v->kind != BUNDLE_WEIGHT) ||
        v->data_offset % BUNDLE_ALIGN ||
        !inside(v->data_offset, v->size_bytes, data_bytes))
        return refuse(f, BUNDLE_VALUES, v,
                      "'%.40s' has %llu bytes at 0x%llx of %llu of data",
                      f->names + v->name, (unsigned long long)v->size_bytes,
                      (unsigned long long)v->data_offset,
                      (unsigned long long)data_bytes);
    if (v->kind == BUNDLE_WEIGHT &&
        v->data_offset + v->size_bytes > f->weight_bytes)
        f->weight_bytes = v->data_offset + v->size_bytes;
    return BELL_OK;
}

/* ---- targets: kernels and commands ---- */

static bell_status
check_kernel(const struct bundle_file *f, const struct bundle_kernel *k)
{
    uint64_t whole = f->header->sections[BUNDLE_OBJECTS].size_bytes;

    if (!is_name(f, k->name) || !f->names[k->name])
        return refuse(f, BUNDLE_KERNELS, k, "name 0x%x", k->name);
    if (k->object_offset % BUNDLE_ALIGN ||
        !inside(k->object_offset, k->object_bytes, whole))
        return refuse(f, BUNDLE_KERNELS, k,
                      "'%.40s' has %llu bytes at 0x%llx of %llu of objects",
                      f->names + k->name, (unsigned long long)k->object_bytes,
                      (unsigned long long)k->object_offset,
                      (unsigned long long)whole);
    if (k->max_steps && f->header->version < BUNDLE_STEPS)
        return refuse(f, BUNDLE_KERNELS, k,
                      "'%.40s' says %u steps, in a bundle of version %u",
                      f->names + k->name, k->max_steps, f->header->version);
    if (f->ir && k->ir >= f->ir_bytes)
        return refuse(f, BUNDLE_KERNELS, k, "'%.40s' has its IR at 0x%x",
                      f->names + k->name, k->ir);
    return BELL_OK;
}

static bell_status
check_arg(const struct bundle_file *f, const struct bundle_target *t,
          const struct bundle_arg *a, bool is_memory)
{
    bool is_of_value = a->place == BUNDLE_VALUE || a->place == BUNDLE_TIMES;
    bool is_word = a->place == BUNDLE_WORD || a->place == BUNDLE_TIMES;
    uint64_t whole = t->arena_bytes;

    if (a->place >= BUNDLE_PLACE_COUNT || is_memory == is_word ||
        (!is_of_value && a->value) || (a->place != BUNDLE_TIMES && a->times))
        return refuse(f, BUNDLE_ARGS, a, "place %u, value %u for %s", a->place,
                      a->value, is_memory ? "memory" : "a word");
    if (is_of_value && (a->value >= f->n_values ||
                        (f->values[a->value].kind >= BUNDLE_SYMBOL) != is_word))
        return refuse(f, BUNDLE_ARGS, a, "value %u of %u for %s", a->value,
                      f->n_values, is_memory ? "memory" : "a word");
    if (!is_memory)
        return a->access || a->size_bytes
                   ? refuse(f, BUNDLE_ARGS, a,
                            "a word of %llu bytes, access %u",
                            (unsigned long long)a->size_bytes, a->access)
                   : BELL_OK;
    if (a->place == BUNDLE_VALUE)
        whole = f->values[a->value].size_bytes;
    if (!inside(a->offset, a->size_bytes, whole))
        return refuse(f, BUNDLE_ARGS, a, "%llu bytes at 0x%llx of %llu",
                      (unsigned long long)a->size_bytes,
                      (unsigned long long)a->offset, (unsigned long long)whole);
    if (a->access == 0 || a->access > (BUNDLE_READ | BUNDLE_WRITE) ||
        (a->place == BUNDLE_VALUE && (a->access & BUNDLE_WRITE) &&
         f->values[a->value].kind != BUNDLE_OUTPUT &&
         f->values[a->value].kind != BUNDLE_STATE))
        return refuse(f, BUNDLE_ARGS, a, "access %u to value %u", a->access,
                      a->value);
    return BELL_OK;
}

/* What a command is to have as arguments: so many of memory, then words. */
static bell_status
check_command(const struct bundle_file *f, const struct bundle_target *t,
              const struct bundle_command *c)
{
    static const uint32_t n_sides[BUNDLE_OP_COUNT] = {
        [BUNDLE_COPY] = 2,
        [BUNDLE_FILL] = 1,
    };
    const struct bundle_arg *args = f->args + c->first_arg;
    const struct bundle_kernel *k;
    uint32_t i, n_memory;
    uint64_t n;

    if (c->op >= BUNDLE_OP_COUNT || !inside(c->first_arg, c->n_args, f->n_args))
        return refuse(f, BUNDLE_COMMANDS, c, "op %u, arguments %u + %u of %u",
                      c->op, c->first_arg, c->n_args, f->n_args);
    n = n_memory = n_sides[c->op];
    if (c->op == BUNDLE_EXEC) {
        if (c->kernel >= t->n_kernels)
            return refuse(f, BUNDLE_COMMANDS, c, "kernel %u of %u", c->kernel,
                          t->n_kernels);
        if (!c->grid[0] || !c->grid[1] || !c->grid[2])
            return refuse(f, BUNDLE_COMMANDS, c, "a grid of %u x %u x %u",
                          c->grid[0], c->grid[1], c->grid[2]);
        k = &f->kernels[t->first_kernel + c->kernel];
        n_memory = k->n_bufs;
        n = (uint64_t)k->n_bufs + k->n_vals;
    }
    if (n != c->n_args)
        return refuse(f, BUNDLE_COMMANDS, c, "%u arguments, not %llu",
                      c->n_args, (unsigned long long)n);
    for (i = 0; i < c->n_args; i++)
        BELL_TRY(check_arg(f, t, &args[i], i < n_memory));
    if (c->op == BUNDLE_COPY &&
        (args[0].access != BUNDLE_WRITE || args[1].access != BUNDLE_READ ||
         args[0].size_bytes != args[1].size_bytes))
        return refuse(f, BUNDLE_COMMANDS, c,
                      "it copies %llu bytes to %llu, access %u and %u",
                      (unsigned long long)args[1].size_bytes,
                      (unsigned long long)args[0].size_bytes, args[1].access,
                      args[0].access);
    if (c->op == BUNDLE_FILL &&
        (args[0].access != BUNDLE_WRITE || args[0].offset % 4))
        return refuse(f, BUNDLE_COMMANDS, c, "it fills 0x%llx, access %u",
                      (unsigned long long)args[0].offset, args[0].access);
    return BELL_OK;
}

static bell_status
check_target(const struct bundle_file *f, const struct bundle_target *t)
{
    uint32_t i;

    if (!is_name(f, t->backend) || !is_name(f, t->arch) ||
        !is_name(f, t->model) || !is_name(f, t->tools))
        return refuse(f, BUNDLE_TARGETS, t, "names 0x%x 0x%x 0x%x 0x%x",
                      t->backend, t->arch, t->model, t->tools);
    if (t->form >= BUNDLE_FORM_COUNT || t->arena_bytes > INT64_MAX)
        return refuse(f, BUNDLE_TARGETS, t, "form %u, an arena of %llu bytes",
                      t->form, (unsigned long long)t->arena_bytes);
    if (!inside(t->first_kernel, t->n_kernels, f->n_kernels) ||
        !inside(t->first_command, t->n_commands, f->n_commands))
        return refuse(f, BUNDLE_TARGETS, t,
                      "kernels %u + %u of %u, commands %u + %u of %u",
                      t->first_kernel, t->n_kernels, f->n_kernels,
                      t->first_command, t->n_commands, f->n_commands);
    for (i = 0; i < t->n_commands; i++)
        BELL_TRY(check_command(f, t, &f->commands[t->first_command + i]));
    return BELL_OK;
}

bell_status
bundle_file_open(const void *data, uint64_t size_bytes,
                 struct bundle_file *out_file)
{
    struct bundle_file f = {.data = data, .size_bytes = size_bytes};
    uint32_t i;

    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "bundles are read on little-endian processors");
    if ((uintptr_t)data % BUNDLE_ALIGN)
        return bell_fail(BELL_BAD_VALUE,
                         "a bundle at %p, which is not a multiple of %u", data,
                         BUNDLE_ALIGN);
    BELL_TRY(check_header(&f));
    f.targets = section(&f, BUNDLE_TARGETS, &f.n_targets);
    f.values = section(&f, BUNDLE_VALUES, &f.n_values);
    f.kernels = section(&f, BUNDLE_KERNELS, &f.n_kernels);
    f.commands = section(&f, BUNDLE_COMMANDS, &f.n_commands);
    f.args = section(&f, BUNDLE_ARGS, &f.n_args);
    f.names = section(&f, BUNDLE_NAMES, NULL);
    f.objects = section(&f, BUNDLE_OBJECTS, NULL);
    BELL_TRY(check_names(&f));
    BELL_TRY(check_ir(&f));
    /* inputs and outputs come first, and may have sizes that come behind */
    for (i = 0; i < f.n_values; i++) {
        if (f.values[i].kind < BUNDLE_SYMBOL)
            continue;
        BELL_TRY(check_listed_value(&f, &f.values[i]));
        BELL_TRY(f.values[i].kind == BUNDLE_SYMBOL
                     ? check_symbol(&f, &f.values[i])
                     : check_size(&f, &f.values[i]));
    }
    for (i = 0; i < f.n_values; i++) {
        if (f.values[i].kind < BUNDLE_SYMBOL)
            BELL_TRY(check_listed_value(&f, &f.values[i]));
    }
    for (i = 0; i < f.n_kernels; i++)
        BELL_TRY(check_kernel(&f, &f.kernels[i]));
    for (i = 0; i < f.n_targets; i++)
        BELL_TRY(check_target(&f, &f.targets[i]));
    *out_file = f;
    return BELL_OK;
}

/* ---- which target ---- */

/* The level of a processor that is one of a row: "x86-64-v3" is 3, "armv8-a" 1
 * and "armv8.2-a" 3. 0: none. */
static int
level_of(const char *arch, bool *out_is_arm)
{
    size_t n = strlen(arch);

    *out_is_arm = strncmp(arch, "armv8", 5) == 0;
    if (strcmp(arch, "armv8-a") == 0)
        return 1;
    if (n == 9 && strncmp(arch, "armv8.", 6) == 0 && isdigit(arch[6]) &&
        strcmp(arch + 7, "-a") == 0)
        return arch[6] - '0' + 1;
    if (n == 9 && strncmp(arch, "x86-64-v", 8) == 0 && isdigit(arch[8]))
        return arch[8] - '0';
    return 0;
}

/* Simulated NVIDIA cards run PTX: nobody has written down what their machine
 * code is. (A null device runs nothing, and takes both.) */
static bool
runs_ptx_alone(const struct hcq_device_info *info)
{
    return strcmp(info->backend, "NV") == 0 &&
           (info->flags & (HCQ_DEVICE_SIMULATED | HCQ_DEVICE_NULL)) ==
               HCQ_DEVICE_SIMULATED;
}

/* How well a target suits the device; 0: not at all. A processor runs what is
 * for lesser ones: "x86-64-v3" on x86-64-v4. */
static int
suits(const struct bundle_file *f, const struct bundle_target *t,
      const struct hcq_device_info *info)
{
    const char *arch = f->names + t->arch, *model = f->names + t->model;
    bool is_arm, wants_arm;
    int has, wants;

    if (strcmp(f->names + t->backend, info->backend) != 0)
        return 0;
    if (model[0] && strcmp(model, info->model) != 0)
        return 0;
    if (t->form == BUNDLE_PTX && !(info->flags & HCQ_DEVICE_SIMULATED))
        return 0;
    if (t->form != BUNDLE_PTX && t->n_kernels && runs_ptx_alone(info))
        return 0;
    if (strcmp(arch, info->arch) == 0)
        return 1000 + (model[0] != 0) + (t->form == BUNDLE_PTX);
    wants = level_of(arch, &wants_arm);
    has = level_of(info->arch, &is_arm);
    return is_arm == wants_arm && wants < has ? wants : 0;
}

/* "CPU x86-64-v4, NV sm_90 (PTX)" */
static void
list_targets(const struct bundle_file *f, char *text, size_t size_bytes)
{
    size_t n = 0;
    uint32_t i;

    text[0] = 0;
    for (i = 0; i < f->n_targets && n < size_bytes; i++) {
        const struct bundle_target *t = &f->targets[i];
        const char *model = f->names + t->model;
        n += (size_t)snprintf(
            text + n, size_bytes - n, "%s%.16s %.16s%s%.32s%s", i ? ", " : "",
            f->names + t->backend, f->names + t->arch, model[0] ? " of " : "",
            model, t->form == BUNDLE_PTX ? " (simulated)" : "");
    }
}

bell_status
bundle_choose_target(const struct bundle_file *f,
                     const struct hcq_device_info *info, uint32_t *out_target)
{
    int best = 0, score;
    char text[256];
    uint32_t i;

    for (i = 0; i < f->n_targets; i++) {
        score = suits(f, &f->targets[i], info);
        if (score > best) {
            best = score;
            *out_target = i;
        }
    }
    if (best)
        return BELL_OK;
    list_targets(f, text, sizeof(text));
    return bell_fail(
        BELL_E_UNSUPPORTED, "bundle: it is for %s; %s is %s %s (%s)%s%s",
        text[0] ? text : "nothing", info->name, info->backend, info->arch,
        info->model,
        runs_ptx_alone(info) ? ", and a simulated NVIDIA card runs no machine "
                               "code: save the bundle for NV@sim:"
                             : "",
        runs_ptx_alone(info) ? info->arch : "");
}
