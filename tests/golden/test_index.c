/* What chains of movement ops become as an index into the first source.
 *
 * A case is the source's shape and a list of ops in the order in which a
 * tensor program applies them. The index is built backwards, from the RANGEs of
 * the result's axes, the way the scheduler does; it must print as a person
 * would write it and agree with a count through the shapes at every point.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "uops/uop.h"

#define MAX_DIMS 10
#define MAX_OPS  24

struct shape {
    int n;
    int64_t d[MAX_DIMS];
};

struct step {
    char name; /* first letter of the op: r p e P s f */
    int64_t a[2 * MAX_DIMS];
    int n;
    struct shape from, to;
};

struct chain {
    struct shape src;
    struct step steps[MAX_OPS];
    int n;
};

struct golden {
    const char *chain; /* "2 3 | reshape 6 | flip 1" */
    const char *index, *gate;
};

static int
read_ints(const char **at, int64_t *out)
{
    int n = 0;

    while (**at == ' ')
        (*at)++;
    while (**at == '-' || (**at >= '0' && **at <= '9')) {
        char *end;
        assert_true(n < 2 * MAX_DIMS);
        out[n++] = strtoll(*at, &end, 10);
        *at = end;
        while (**at == ' ')
            (*at)++;
    }
    return n;
}

static int64_t
size_of(const struct shape *s)
{
    int64_t n = 1;
    int i;

    for (i = 0; i < s->n; i++)
        n *= s->d[i];
    return n;
}

/* Shape after a step. */
static void
result_shape(struct step *s)
{
    int i;

    s->to = s->from;
    for (i = 0; i < s->n || i < s->from.n; i++) {
        if (s->name == 'r' || s->name == 'e')
            s->to.d[i] = s->a[i];
        else if (s->name == 'p')
            s->to.d[i] = s->from.d[s->a[i]];
        else if (s->name == 'P' && i < s->from.n)
            s->to.d[i] = s->from.d[i] + s->a[2 * i] + s->a[2 * i + 1];
        else if (s->name == 's' && i < s->from.n)
            s->to.d[i] = s->a[2 * i + 1] - s->a[2 * i];
    }
    if (s->name == 'r') {
        s->to.n = s->n;
        assert_int_equal(size_of(&s->from), size_of(&s->to));
    }
}

static void
parse_chain(const char *text, struct chain *c)
{
    struct shape now;
    char word[16];
    int len;

    memset(c, 0, sizeof(*c));
    c->src.n = read_ints(&text, c->src.d);
    now = c->src;
    while (*text == '|') {
        struct step *s = &c->steps[c->n++];
        assert_int_equal(sscanf(text, "| %15s%n", word, &len), 1);
        text += len;
        s->name = strcmp(word, "pad") == 0 ? 'P' : word[0];
        s->n = read_ints(&text, s->a);
        s->from = now;
        result_shape(s);
        now = s->to;
    }
    assert_int_equal(*text, '\0');
}

/* ---- as nodes ---- */

struct point {
    const struct uop *r[MAX_DIMS];
    const struct uop *gate;
};

static const struct uop *
num(struct uop_graph *g, int64_t i)
{
    return uop_const_int(g, UOP_I64, i);
}

static const struct uop *
linear_node(struct uop_graph *g, const struct uop *const *r,
            const struct shape *s)
{
    const struct uop *sum = num(g, 0);
    int64_t stride = size_of(s);
    int i;

    for (i = 0; i < s->n; i++) {
        stride = s->d[i] ? stride / s->d[i] : 0;
        sum = uop_alu2(g, UOP_ADD, sum,
                       uop_alu2(g, UOP_MUL, r[i], num(g, stride)));
    }
    return sum;
}

static void
undo_reshape(struct uop_graph *g, const struct step *s, struct point *p)
{
    const struct uop *linear = linear_node(g, p->r, &s->to);
    int64_t stride = size_of(&s->from);
    int i;

    for (i = 0; i < s->from.n; i++) {
        stride /= s->from.d[i];
        p->r[i] = uop_alu2(g, UOP_FLOORMOD,
                           uop_alu2(g, UOP_FLOORDIV, linear, num(g, stride)),
                           num(g, s->from.d[i]));
    }
}

static void
undo_pad(struct uop_graph *g, const struct step *s, struct point *p)
{
    int i;

    for (i = 0; i < s->from.n; i++) {
        const struct uop *r = p->r[i], *low, *high;
        low = uop_alu2(g, UOP_CMPLT, r, num(g, s->a[2 * i]));
        low = uop_alu2(g, UOP_XOR, low, uop_const_int(g, UOP_BOOL, 1));
        high = uop_alu2(g, UOP_CMPLT, r, num(g, s->a[2 * i] + s->from.d[i]));
        p->gate =
            uop_alu2(g, UOP_AND, p->gate, uop_alu2(g, UOP_AND, low, high));
        p->r[i] = uop_alu2(g, UOP_SUB, r, num(g, s->a[2 * i]));
    }
}

static void
undo_step(struct uop_graph *g, const struct step *s, struct point *p)
{
    struct point old = *p;
    int i;

    switch (s->name) {
    case 'r':
        undo_reshape(g, s, p);
        return;
    case 'P':
        undo_pad(g, s, p);
        return;
    case 'p':
        for (i = 0; i < s->n; i++)
            p->r[s->a[i]] = old.r[i];
        return;
    case 'e':
        for (i = 0; i < s->n; i++)
            p->r[i] = s->from.d[i] == 1 ? num(g, 0) : old.r[i];
        return;
    case 's':
        for (i = 0; i < s->from.n; i++)
            p->r[i] = uop_alu2(g, UOP_ADD, old.r[i], num(g, s->a[2 * i]));
        return;
    default: /* flip */
        for (i = 0; i < s->n; i++)
            p->r[s->a[i]] = uop_alu2(g, UOP_SUB, num(g, s->from.d[s->a[i]] - 1),
                                     old.r[s->a[i]]);
        return;
    }
}

static const struct shape *
final_shape(const struct chain *c)
{
    return c->n ? &c->steps[c->n - 1].to : &c->src;
}

/* Index and gate after a gated LOAD has simplified one by the other. */
static void
load_parts(struct uop_graph *g, const struct uop *index, const struct uop *gate,
           const struct uop **out_index, const struct uop **out_gate)
{
    union uop_arg none = {.bits = 0};
    const struct uop *src[4], *load;

    src[0] = uop_new(g, UOP_PARAM, UOP_F32, 1, none, NULL, 0);
    src[1] = index;
    src[2] = uop_const_float(g, UOP_F32, 0);
    src[3] = gate;
    load = uop_make(g, UOP_LOAD, UOP_F32, 1, none, src, 4);
    *out_index = load->src[1];
    *out_gate = load->n_src == 4 ? load->src[3] : uop_const_int(g, UOP_BOOL, 1);
}

static void
build_index(struct uop_graph *g, const struct chain *c,
            const struct uop **out_index, const struct uop **out_gate)
{
    const struct shape *to = final_shape(c);
    struct point p;
    int i;

    for (i = 0; i < to->n; i++)
        p.r[i] = uop_range(g, (uint32_t)i, UOP_AXIS_LOOP, to->d[i]);
    p.gate = uop_const_int(g, UOP_BOOL, 1);
    for (i = c->n; i-- > 0;)
        undo_step(g, &c->steps[i], &p);
    load_parts(g, linear_node(g, p.r, &c->src), p.gate, out_index, out_gate);
}

/* ---- as numbers ---- */

/* Where element `at` of the result comes from; -1 for a zero of a PAD. */
static int64_t
source_of(const struct chain *c, const int64_t *at)
{
    int64_t r[MAX_DIMS], old[MAX_DIMS], linear;
    int i, k;

    memcpy(r, at, sizeof(r));
    for (k = c->n; k-- > 0;) {
        const struct step *s = &c->steps[k];
        memcpy(old, r, sizeof(old));
        for (i = 0, linear = 0; i < s->to.n; i++)
            linear = linear * s->to.d[i] + old[i];
        for (i = s->from.n; i-- > 0;) {
            if (s->name == 'r') {
                r[i] = linear % s->from.d[i];
                linear /= s->from.d[i];
            } else if (s->name == 'p') {
                r[s->a[i]] = old[i];
            } else if (s->name == 'e') {
                r[i] = s->from.d[i] == 1 ? 0 : old[i];
            } else if (s->name == 's') {
                r[i] = old[i] + s->a[2 * i];
            } else if (s->name == 'P') {
                r[i] = old[i] - s->a[2 * i];
                if (r[i] < 0 || r[i] >= s->from.d[i])
                    return -1;
            }
        }
        for (i = 0; s->name == 'f' && i < s->n; i++)
            r[s->a[i]] = s->from.d[s->a[i]] - 1 - old[s->a[i]];
    }
    for (i = 0, linear = 0; i < c->src.n; i++)
        linear = linear * c->src.d[i] + r[i];
    return linear;
}

static void
eval_nodes(struct uop_graph *scratch, const struct uop **list, size_t n,
           const int64_t *at, const struct uop **values)
{
    size_t i;
    uint32_t k;

    for (i = 0; i < n; i++) {
        const struct uop *u = list[i], *src[3];
        union uop_arg arg = u->arg;
        if (u->op == UOP_RANGE) {
            arg.i = at[uop_range_id(u)];
        } else if (u->op != UOP_CONST) {
            for (k = 0; k < u->n_src; k++)
                src[k] = values[u->src[k]->id];
            assert_true(uop_const_eval(u->op, u->dtype, src, u->n_src, &arg));
        }
        values[u->id] = uop_const_int(scratch, u->dtype, arg.i);
    }
}

static void
check_values(const struct uop_graph *g, const struct chain *c,
             const struct uop *index, const struct uop *gate)
{
    const struct uop *roots[2] = {index, gate}, **list;
    const struct shape *to = final_shape(c);
    const struct uop **values;
    int64_t at[MAX_DIMS] = {0}, want;
    struct uop_graph scratch;
    size_t n;
    int i;

    assert_int_equal(uop_toposort(g, roots, 2, &list, &n), BELL_OK);
    uop_graph_init(&scratch);
    values = calloc(g->n_nodes, sizeof(*values));
    assert_non_null(values);
    do {
        eval_nodes(&scratch, list, n, at, values);
        want = source_of(c, at);
        assert_int_equal(values[gate->id]->arg.i, want >= 0);
        if (want >= 0)
            assert_int_equal(values[index->id]->arg.i, want);
        for (i = to->n; i-- > 0 && ++at[i] == to->d[i];)
            at[i] = 0;
    } while (i >= 0);
    uop_graph_fini(&scratch);
    free(values);
    host_free(list);
}

static void
check_goldens(const struct golden *rows, size_t n_rows)
{
    char index_text[400], gate_text[400];
    const struct uop *index, *gate;
    struct uop_graph g;
    struct chain c;
    size_t i, n_bad = 0;

    for (i = 0; i < n_rows; i++) {
        parse_chain(rows[i].chain, &c);
        uop_graph_init(&g);
        build_index(&g, &c, &index, &gate);
        assert_int_equal(uop_graph_status(&g), BELL_OK);
        check_values(&g, &c, index, gate);
        uop_expr_str(index, index_text, sizeof(index_text));
        uop_expr_str(gate, gate_text, sizeof(gate_text));
        if (strcmp(index_text, rows[i].index) != 0 ||
            strcmp(gate_text, rows[i].gate) != 0) {
            print_error("%s\n  gave %s | %s\n  not  %s | %s\n", rows[i].chain,
                        index_text, gate_text, rows[i].index, rows[i].gate);
            n_bad++;
        }
        uop_graph_fini(&g);
    }
    assert_int_equal(n_bad, 0);
}

static void
test_plain(void **state)
{
    static const struct golden rows[] = {
        {"4 6", "r0*6 + r1", "true"},
        {"4 6 | permute 1 0", "r0 + r1*6", "true"},
        {"4 6 | permute 1 0 | reshape 24", "r0//4 + r0%4*6", "true"},
        {"4 6 | reshape 24", "r0", "true"},
        {"24 | reshape 4 6", "r0*6 + r1", "true"},
        {"24 | reshape 2 3 4 | permute 2 0 1 | reshape 24", "r0//6 + r0%6*4",
         "true"},
        {"2 3 4 | reshape 6 4 | reshape 24 | reshape 2 12 | reshape 2 3 4",
         "r0*12 + r1*4 + r2", "true"},
        {"2 3 4 5 | permute 0 2 3 1 | reshape 2 20 3 | permute 0 2 1 | reshape "
         "2 3 4 5",
         "r0*60 + r1*20 + r2*5 + r3", "true"},
        {"16 | flip 0", "15 - r0", "true"},
        {"16 | flip 0 | flip 0", "r0", "true"},
        {"4 6 | flip 0 1 | reshape 24", "23 - r0", "true"},
        {"4 6 | flip 0 1 | reshape 24 | flip 0", "r0", "true"},
        {"16 | shrink 3 11", "r0 + 3", "true"},
        {"16 | shrink 3 11 | shrink 1 5 | flip 0", "7 - r0", "true"},
        {"4 6 | shrink 1 3 2 6 | reshape 8", "r0//4*6 + r0%4 + 8", "true"},
        {"1 6 | expand 4 6 | reshape 24", "r0%6", "true"},
        {"6 1 | expand 6 4 | reshape 24", "r0//4", "true"},
        {"3 1 5 | expand 3 4 5 | reshape 60 | permute 0", "r0//20*5 + r0%5",
         "true"},
        {"8 8 | reshape 2 4 2 4 | permute 0 2 1 3 | reshape 4 16",
         "r0//2*32 + r0%2*4 + r1//4*8 + r1%4", "true"},
        {"8 8 | reshape 2 4 2 4 | permute 0 2 1 3 | reshape 4 4 4 | permute 0 "
         "2 1",
         "r0//2*32 + r0%2*4 + r1 + r2*8", "true"},
        {"3 5 7 | reshape 105 | shrink 7 98 | reshape 13 7", "r0*7 + r1 + 7",
         "true"},
        {"12 | reshape 3 4 | shrink 0 3 1 3 | reshape 6", "r0//2*4 + r0%2 + 1",
         "true"},
        {"12 | reshape 12 1 | expand 12 5 | reshape 60 | reshape 3 20",
         "r0*4 + r1//5", "true"},
    };

    (void)state;
    check_goldens(rows, sizeof(rows) / sizeof(rows[0]));
}

static void
test_padded(void **state)
{
    static const struct golden rows[] = {
        {"8 | pad 2 3", "r0 - 2", "1 < r0 & r0 < 10"},
        {"8 | pad 2 3 | shrink 2 10", "r0", "true"},
        {"8 | pad 2 3 | pad 1 1", "r0 - 3", "2 < r0 & r0 < 11"},
        {"4 4 | pad 1 1 1 1", "r0*4 + r1 - 5",
         "0 < r0 & r0 < 5 & 0 < r1 & r1 < 5"},
        {"4 4 | pad 1 1 1 1 | reshape 36", "r0//6*4 + r0%6 - 5",
         "5 < r0 & r0 < 30 & 0 < r0%6 & r0%6 < 5"},
        {"4 4 | pad 0 0 2 2 | reshape 32 | reshape 4 8", "r0*4 + r1 - 2",
         "1 < r1 & r1 < 6"},
        {"16 | pad 0 4 | reshape 5 4", "r0*4 + r1", "r0 < 4"},
        {"16 | pad 4 0 | reshape 5 4", "r0*4 + r1 - 4", "0 < r0"},
        {"16 | reshape 4 4 | pad 1 1 0 0 | reshape 24", "r0 - 4",
         "3 < r0 & r0 < 20"},
        {"16 | pad 2 2 | flip 0", "17 - r0", "r0 < 18 & 1 < r0"},
        {"8 | pad 0 8 | shrink 0 4", "r0", "true"},
        {"6 | pad 0 2 | reshape 2 4 | pad 0 1 0 0", "r0*4 + r1",
         "r0*4 + r1 < 6"},
    };

    (void)state;
    check_goldens(rows, sizeof(rows) / sizeof(rows[0]));
}

static void
test_windows(void **state)
{
    static const struct golden rows[] = {
        {"6 | reshape 1 6 | expand 3 6 | reshape 18", "r0%6", "true"},
        {"6 | reshape 1 6 | expand 3 6 | reshape 18 | shrink 0 15 | reshape 3 "
         "5",
         "(r0*5 + r1)%6", "true"},
        {"8 | reshape 1 8 | expand 4 8 | reshape 32 | shrink 0 27 | reshape 3 "
         "9 | shrink 0 3 0 6 | reshape 3 6 1 | shrink 0 3 0 6 0 1 | reshape 3 "
         "6 | permute 1 0",
         "r0 + r1", "true"},
        {"8 | reshape 1 8 | expand 4 8 | reshape 32 | shrink 0 27 | reshape 3 "
         "9 | shrink 0 3 0 6 | reshape 3 3 2 | shrink 0 3 0 3 0 1 | reshape 3 "
         "3 | permute 1 0",
         "r0*2 + r1", "true"},
        {"8 | reshape 1 8 | expand 4 8 | reshape 32 | shrink 0 30 | reshape 3 "
         "10 | shrink 0 3 0 4 | permute 1 0",
         "r0 + r1*2", "true"},
        {"4 6 | reshape 2 2 3 2 | permute 0 2 1 3", "r0*12 + r1*2 + r2*6 + r3",
         "true"},
        {"5 5 | pad 1 1 1 1 | reshape 1 7 1 7 | expand 4 7 4 7 | reshape 28 28 "
         "| shrink 0 24 0 24 | reshape 3 8 3 8 | shrink 0 3 0 5 0 3 0 5 | "
         "permute 1 3 0 2",
         "r0*5 + r1 + r2*5 + r3 - 6",
         "0 < r0 + r2 & r0 + r2 < 6 & 0 < r1 + r3 & r1 + r3 < 6"},
        {"4 | reshape 4 1 | pad 0 0 0 1 | reshape 8 | shrink 0 7", "r0//2",
         "r0%2 < 1"},
        {"4 | reshape 4 1 | pad 0 0 0 1 | reshape 8 | shrink 0 7 | pad 2 2",
         "r0//2 - 1", "1 < r0 & r0 < 9 & r0%2 < 1"},
        {"6 | pad 2 2 | reshape 1 10 | expand 4 10 | reshape 40 | shrink 0 33 "
         "| reshape 3 11 | shrink 0 3 0 8 | flip 0 | permute 1 0",
         "r0 - r1", "r1 < r0 + 1 & r0 < r1 + 6"},
        {"4 4 | reshape 16 | pad 0 4 | reshape 4 5 | shrink 0 4 0 1 | reshape "
         "4",
         "r0*5", "true"},
        {"5 | reshape 5 1 | expand 5 5 | reshape 25 | pad 0 5 | reshape 5 6",
         "(r0*6 + r1)//5", "r0*6 + r1 < 25"},
        {"8 | reshape 1 8 | expand 2 8 | reshape 16 | shrink 5 13",
         "(r0 + 5)%8", "true"},
        {"1 | expand 1 | pad 3 0 | reshape 1 4 | expand 5 4 | reshape 20 | "
         "shrink 0 16 | reshape 4 4",
         "0", "2 < r1"},
    };

    (void)state;
    check_goldens(rows, sizeof(rows) / sizeof(rows[0]));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_padded),
        cmocka_unit_test(test_windows),
    };

    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
