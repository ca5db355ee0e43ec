/* See ptx_check.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ptx_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"

const struct ptx_target ptx_check_target = {.sm = 90, .arg_align_bytes = 16};

static const struct ptx_target targets[] = {
    {.sm = 80, .arg_align_bytes = 16},  {.sm = 86, .arg_align_bytes = 16},
    {.sm = 89, .arg_align_bytes = 16},  {.sm = 90, .arg_align_bytes = 16},
    {.sm = 100, .arg_align_bytes = 16}, {.sm = 120, .arg_align_bytes = 16},
};

static size_t
buf_bytes(const struct p_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

/* ---- running ---- */

struct memory {
    const struct p_buf *bufs;
    uint32_t n_bufs;
};

static void *
at(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    const struct memory *m = user;
    uint64_t i = (va >> 32) - 1, offset = (uint32_t)va;

    (void)is_write;
    if (i >= m->n_bufs || offset + n_bytes > buf_bytes(&m->bufs[i]))
        return NULL;
    return (char *)m->bufs[i].data + offset;
}

void
ptx_check_run(const struct lower_program *p, const char *text,
              const struct p_buf *bufs, uint32_t n_bufs, const int64_t *vars,
              const char *what)
{
    struct memory m = {bufs, n_bufs};
    uint64_t args[PTX_CHECK_MAX_BUFS + 8];
    struct sim_ptx_module *module = NULL;
    struct sim_ptx_report report;
    struct sim_ptx_launch launch = {
        .args = args,
        .args_bytes = (p->n_params + p->n_vars) * sizeof(*args),
        .dynamic_shared_bytes = render_ptx_dynamic_bytes(p),
        .max_warp_steps = 100000000,
        .mem = {at, &m},
    };
    uint32_t i;

    for (i = 0; i < p->n_params; i++)
        args[i] = (uint64_t)(i + 1) << 32;
    for (i = 0; i < p->n_vars; i++)
        args[p->n_params + i] = (uint64_t)vars[i];
    memcpy(launch.grid, p->grid, sizeof(launch.grid));
    memcpy(launch.block, p->local, sizeof(launch.block));
    if (sim_ptx_parse(text, &module) != BELL_OK)
        fail_msg("%s: %s\n%s", what, bell_error_last()->message, text);
    if (sim_ptx_run(module, &launch, &report) != BELL_OK)
        fail_msg("%s: %s\n%s", what, bell_error_last()->message, text);
    sim_ptx_destroy(module);
}

void
ptx_check_buf(struct p_buf *buf, unsigned dtype, size_t n, uint64_t *rng)
{
    size_t i;

    buf->dtype = dtype;
    buf->n_elems = n;
    buf->data = calloc(n, uop_dtype_infos[dtype].size_bytes);
    assert_non_null(buf->data);
    for (i = 0; rng && i < n; i++)
        p_set(buf, i, random_value(rng, buf->dtype));
}

static void
copy_buf(struct p_buf *to, const struct p_buf *from)
{
    ptx_check_buf(to, from->dtype, from->n_elems, NULL);
    memcpy(to->data, from->data, buf_bytes(from));
}

static void
expect_same(const struct p_buf *got, const struct p_buf *want, bool zeros,
            const char *what, const char *text)
{
    size_t i;

    for (i = 0; i < want->n_elems; i++) {
        union uop_arg a, b;
        p_get(got, i, &a);
        p_get(want, i, &b);
        if (same_value(want->dtype, a, b, zeros))
            continue;
        if (uop_dtype_infos[want->dtype].is_float)
            fail_msg("%s: element %zu is %a, not %a\n%s", what, i, a.f, b.f,
                     text);
        fail_msg("%s: element %zu is %lld, not %lld\n%s", what, i,
                 (long long)a.i, (long long)b.i, text);
    }
}

void
ptx_check_program(const struct lower_program *p, const struct p_buf *bufs,
                  uint32_t n_bufs, bool zeros, const char *what)
{
    struct p_buf mine[PTX_CHECK_MAX_BUFS], ref[PTX_CHECK_MAX_BUFS];
    char err[256], *text = NULL;
    uint32_t i;

    for (i = 0; i < n_bufs; i++) {
        copy_buf(&mine[i], &bufs[i]);
        copy_buf(&ref[i], &bufs[i]);
    }
    if (p_run(p, ref, n_bufs, err, sizeof(err)) != 0)
        fail_msg("%s: %s", what, err);
    if (render_ptx(p, &ptx_check_target, &text) != BELL_OK)
        fail_msg("%s: %s", what, bell_error_last()->message);
    ptx_check_run(p, text, mine, n_bufs, NULL, what);
    for (i = 0; i < n_bufs; i++) {
        expect_same(&mine[i], &ref[i], zeros, what, text);
        free(mine[i].data);
        free(ref[i].data);
    }
    host_free(text);
}

/* ---- assembling ---- */

static char *kept[ARRAY_LEN(targets)];
static size_t kept_bytes[ARRAY_LEN(targets)];
static uint32_t n_kept;

static void
append(size_t t, const char *text)
{
    size_t n = strlen(text);

    kept[t] = realloc(kept[t], kept_bytes[t] + n + 1);
    assert_non_null(kept[t]);
    memcpy(kept[t] + kept_bytes[t], text, n + 1);
    kept_bytes[t] += n;
}

void
ptx_check_keep(const struct lower_program *p, bool approx)
{
    struct lower_program named = *p;
    struct ptx_target target;
    char name[32], *text;
    size_t t;

    snprintf(name, sizeof(name), "kept_%u", n_kept);
    named.name = name;
    for (t = 0; t < ARRAY_LEN(targets); t++) {
        target = targets[t];
        target.approx = approx;
        if (render_ptx(&named, &target, &text) != BELL_OK)
            fail_msg("%s", bell_error_last()->message);
        /* one header for all */
        append(t, n_kept ? strstr(text, ".visible") : text);
        host_free(text);
    }
    n_kept++;
}

uint32_t
ptx_check_assemble(void)
{
    char path[1024];
    bool there = render_ptxas_find(path, sizeof(path)) == BELL_OK;
    uint32_t n = there ? n_kept : 0;
    size_t t;

    for (t = 0; t < ARRAY_LEN(targets) && n_kept; t++) {
        struct render_binary cubin;
        if (there && render_ptxas(kept[t], &targets[t], &cubin) != BELL_OK)
            fail_msg("sm_%u: %s", targets[t].sm, bell_error_last()->message);
        if (there) {
            assert_true(cubin.size_bytes > 64);
            assert_memory_equal(cubin.data, "\177ELF", 4);
            render_binary_fini(&cubin);
        }
        free(kept[t]);
        kept[t] = NULL;
        kept_bytes[t] = 0;
    }
    n_kept = 0;
    return n;
}
