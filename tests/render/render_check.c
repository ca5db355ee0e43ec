/* See render_check.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "render_check.h"

#include <math.h>
#include <string.h>

const struct backend *backend;

bool
alu_is_kept(enum uop_op op, enum uop_dtype dtype)
{
    unsigned flags = uop_op_infos[op].flags;
    bool flt = uop_dtype_infos[dtype].is_float;

    if (!(flags & UOP_FLAG_ALU) || !(flags & UOP_FLAG_P))
        return false;
    if (((flags & UOP_FLAG_FLT) && !flt) || ((flags & UOP_FLAG_INT) && flt))
        return false;
    if (op == UOP_EXP2 || op == UOP_LOG2 || op == UOP_SIN || op == UOP_COS ||
        op == UOP_RECIP || op == UOP_FLOORDIV || op == UOP_FLOORMOD)
        return false;
    if (uop_dtype_is_f8(dtype))
        return op == UOP_WHERE;
    return dtype != UOP_BOOL || !(op == UOP_IDIV || op == UOP_IMOD ||
                                  op == UOP_SHL || op == UOP_SHR);
}

static size_t
buf_bytes(const struct p_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

void
check_buf(struct p_buf *buf, unsigned dtype, size_t n, uint64_t *rng)
{
    size_t i;

    buf->dtype = dtype;
    buf->n_elems = n;
    buf->data = guarded_alloc(buf_bytes(buf));
    for (i = 0; rng && i < n; i++) {
        p_set(buf, i, random_value(rng, buf->dtype));
    }
}

void
check_bufs_free(struct p_buf *bufs, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        guarded_free(bufs[i].data, buf_bytes(&bufs[i]));
}

void
check_bufs_copy(struct p_buf *to, const struct p_buf *from, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        check_buf(&to[i], from[i].dtype, from[i].n_elems, NULL);
        memcpy(to[i].data, from[i].data, buf_bytes(&from[i]));
    }
}

unsigned
check_chips(const struct backend *b, unsigned chips[8])
{
    static unsigned turn;
    unsigned n;

    for (n = 0; n < b->n_first; n++)
        chips[n] = n;
    if (b->n_chips > b->n_first)
        chips[n++] = b->n_first + turn++ % (b->n_chips - b->n_first);
    return n;
}

bool
check_can(const struct backend *b, const struct lower_program *p)
{
    uint32_t i, k;

    for (i = 0; i < p->n_ops && b->lacks_f64; i++) {
        const struct uop *u = p->ops[i];
        if (u->dtype == UOP_F64 && u->op != UOP_PARAM && u->op != UOP_INDEX &&
            u->op != UOP_LOAD)
            return false;
        for (k = 0; k < u->n_src && u->op != UOP_INDEX && u->op != UOP_LOAD;
             k++) {
            if (u->src[k]->dtype == UOP_F64 && u->dtype != UOP_F32)
                return false;
        }
    }
    return true;
}

void
check_keep(const struct lower_program *p, const char *what)
{
    unsigned chip;

    if (!check_can(backend, p))
        return;
    for (chip = 0; chip < backend->n_chips; chip++)
        backend->keep(p, chip, what);
}

static void
expect_same(const struct p_buf *got, const struct p_buf *want, const char *what,
            const char *chip)
{
    size_t i;

    for (i = 0; i < want->n_elems; i++) {
        union uop_arg a, b;
        p_get(got, i, &a);
        p_get(want, i, &b);
        if (same_value(want->dtype, a, b))
            continue;
        if (uop_dtype_infos[want->dtype].is_float)
            fail_msg("%s on %s: element %zu is %a, not %a", what, chip, i, a.f,
                     b.f);
        fail_msg("%s on %s: element %zu is %lld, not %lld", what, chip, i,
                 (long long)a.i, (long long)b.i);
    }
}

void
check_program(const struct backend *b, const struct lower_program *p,
              const struct p_buf *bufs, uint32_t n_bufs, const char *what)
{
    struct p_buf mine[CHECK_MAX_BUFS], ref[CHECK_MAX_BUFS];
    unsigned chips[8], n_chips = check_chips(b, chips), c;
    char err[256];
    uint32_t i;

    assert_true(n_bufs <= CHECK_MAX_BUFS);
    if (!check_can(b, p))
        return;
    check_bufs_copy(ref, bufs, n_bufs);
    if ((b->flushes ? p_run_flushing : p_run)(p, ref, n_bufs, err,
                                              sizeof(err)) != 0)
        fail_msg("%s: %s", what, err);
    for (c = 0; c < n_chips; c++) {
        check_bufs_copy(mine, bufs, n_bufs);
        b->run(p, chips[c], mine, n_bufs, NULL, what);
        for (i = 0; i < n_bufs; i++)
            expect_same(&mine[i], &ref[i], what, b->chips[chips[c]]);
        check_bufs_free(mine, n_bufs);
    }
    check_bufs_free(ref, n_bufs);
}

void
check_roots(struct uop_graph *g, const struct uop *const *roots, uint32_t n,
            const struct p_buf *bufs, uint32_t n_bufs, bool keep,
            const char *what)
{
    struct lower_program p;

    (backend->is_gpu ? gpu_program_of : program_of)(g, roots, n, &p);
    check_program(backend, &p, bufs, n_bufs, what);
    if (keep)
        check_keep(&p, what);
    program_free(&p);
}
