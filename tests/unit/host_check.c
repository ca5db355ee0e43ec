/* See host_check.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host_check.h"

#include <string.h>

static size_t
check_buf_bytes(const struct p_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

void
check_buf_make(struct p_buf *buf, unsigned dtype, size_t n)
{
    buf->dtype = dtype;
    buf->n_elems = n;
    buf->data = guarded_alloc(n * uop_dtype_infos[dtype].size_bytes);
}

void
check_buf_random(struct p_buf *buf, uint64_t *rng)
{
    size_t i;

    for (i = 0; i < buf->n_elems; i++)
        p_set(buf, i, random_value(rng, buf->dtype));
}

void
check_buf_free(struct p_buf *buf)
{
    guarded_free(buf->data, check_buf_bytes(buf));
}

static void
check_buf_copy(struct p_buf *to, const struct p_buf *from)
{
    check_buf_make(to, from->dtype, from->n_elems);
    memcpy(to->data, from->data, check_buf_bytes(from));
}

static void
expect_same(const struct p_buf *got, const struct p_buf *want, bool zeros,
            const char *what)
{
    size_t i;

    for (i = 0; i < want->n_elems; i++) {
        union uop_arg a, b;
        p_get(got, i, &a);
        p_get(want, i, &b);
        if (same_value(want->dtype, a, b, zeros))
            continue;
        if (uop_dtype_infos[want->dtype].is_float)
            fail_msg("%s: element %zu is %a, not %a", what, i, a.f, b.f);
        fail_msg("%s: element %zu is %lld, not %lld", what, i, (long long)a.i,
                 (long long)b.i);
    }
}

/* Runs a program both ways on copies of the buffers and compares them all. */
void
check_program(const struct lower_program *p, const struct lower_target *target,
              const struct p_buf *bufs, uint32_t n_bufs, bool zeros,
              const char *what)
{
    struct p_buf mine[8], ref[8];
    void *ptrs[8];
    char err[256];
    struct host_code code;
    uint32_t i;

    for (i = 0; i < n_bufs; i++) {
        check_buf_copy(&mine[i], &bufs[i]);
        check_buf_copy(&ref[i], &bufs[i]);
        ptrs[i] = mine[i].data;
    }
    if (p_run(p, ref, n_bufs, err, sizeof(err)) != 0)
        fail_msg("%s: %s", what, err);
    host_compile(p, target, &code);
    host_call(&code, p, ptrs);
    host_release(&code);
    for (i = 0; i < n_bufs; i++) {
        expect_same(&mine[i], &ref[i], zeros, what);
        check_buf_free(&mine[i]);
        check_buf_free(&ref[i]);
    }
}

void
check_roots(struct uop_graph *g, const struct lower_target *target,
            const struct uop *const *roots, uint32_t n,
            const struct p_buf *bufs, uint32_t n_bufs, bool zeros,
            const char *what)
{
    struct lower_program p;

    program_of(g, roots, n, &p);
    check_program(&p, target, bufs, n_bufs, zeros, what);
    program_free(&p);
}
