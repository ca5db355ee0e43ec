/* See ptx_run.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ptx_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "render/ptx/ptx.h"

struct memory {
    const struct ptx_run *run;
    uint8_t *globals;
    uint32_t global_bytes;
};

static uint64_t
global_base(const struct ptx_run *run)
{
    return (PTX_BASE + run->data_bytes + 4095) & ~(uint64_t)4095;
}

static void *
at(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    const struct memory *m = user;
    uint64_t base = global_base(m->run);

    (void)is_write;
    if (m->globals && va >= base && va - base <= m->global_bytes &&
        n_bytes <= m->global_bytes - (va - base))
        return m->globals + (va - base);
    if (va < PTX_BASE || va - PTX_BASE > m->run->data_bytes ||
        n_bytes > m->run->data_bytes - (va - PTX_BASE))
        return NULL;
    return (char *)m->run->data + (va - PTX_BASE);
}

enum sim_ptx_fault
ptx_run(const struct ptx_run *run, struct sim_ptx_report *report)
{
    struct memory m = {.run = run};
    struct {
        uint64_t p;
        uint32_t n, pad;
    } args = {PTX_BASE, run->n, 0};
    struct sim_ptx_launch launch = {
        .kernel = run->kernel,
        .args = &args,
        .args_bytes = sizeof(args),
        .grid = {run->blocks, 1, 1},
        .block = {run->threads, 1, 1},
        .dynamic_shared_bytes = run->dynamic_shared_bytes,
        .shared_window_va = 0x7f0000000000,
        .local_window_va = 0x7e0000000000,
        .max_warp_steps = run->max_warp_steps ? run->max_warp_steps : 1000000,
        .mem = {at, &m, run->page_bytes, NULL},
    };
    struct sim_ptx_module_info info;
    const struct sim_ptx_module *module = run->module;
    struct sim_ptx_module *mine = NULL;
    bell_status status;

    if (!module && sim_ptx_parse(run->text, &mine) != BELL_OK)
        fail_msg("%s\n%s", bell_error_last()->message, run->text);
    module = module ? module : mine;
    sim_ptx_module_info(module, &info);
    launch.const_bank = info.const_init;
    launch.const_bytes = info.const_bytes;
    launch.global_base = global_base(run);
    m.global_bytes = info.global_bytes;
    m.globals = malloc(info.global_bytes + 1u);
    assert_non_null(m.globals);
    if (info.global_bytes)
        memcpy(m.globals, info.global_init, info.global_bytes);
    status = sim_ptx_run(module, &launch, report);
    assert_int_equal(status == BELL_OK, report->fault == SIM_PTX_OK);
    sim_ptx_destroy(mine);
    free(m.globals);
    return report->fault;
}

void
ptx_run_ok(const struct ptx_run *run)
{
    struct sim_ptx_report report;

    if (ptx_run(run, &report) != SIM_PTX_OK)
        fail_msg("%s\n%s", bell_error_last()->message, run->text);
    if (!run->kernel)
        ptx_run_keep(run->text);
}

/* ---- ptxas ---- */

static char **kept;
static uint32_t n_kept;

void
ptx_run_keep(const char *text)
{
    char **more;

    if (n_kept && strcmp(kept[n_kept - 1], text) == 0)
        return;
    more = realloc(kept, (n_kept + 1) * sizeof(*kept));
    assert_non_null(more);
    kept = more;
    kept[n_kept] = strdup(text);
    assert_non_null(kept[n_kept]);
    n_kept++;
}

uint32_t
ptx_run_assemble(void)
{
    char path[1024];
    bool there = render_ptxas_find(path, sizeof(path)) == BELL_OK;
    uint32_t n = there ? n_kept : 0, i;

    for (i = 0; i < n_kept; i++) {
        const char *sm = strstr(kept[i], ".target sm_");
        struct ptx_target target = {0};
        struct render_binary cubin;
        char *end;
        assert_non_null(sm);
        target.sm = (uint32_t)strtoul(sm + strlen(".target sm_"), &end, 10);
        target.is_arch_specific = *end == 'a';
        if (there && render_ptxas(kept[i], &target, &cubin) != BELL_OK)
            fail_msg("%s\n%s", bell_error_last()->message, kept[i]);
        if (there)
            render_binary_fini(&cubin);
        free(kept[i]);
    }
    free(kept);
    kept = NULL;
    n_kept = 0;
    return n;
}
