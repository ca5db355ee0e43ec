/* The PTX interpreter with hostile text: it is refused with a message, or
 * runs, and stops at faults; whatever it says it does, memory outside of what
 * the launch gives is not touched. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/ptx.h"
#include "tests/fuzz/fuzz.h"

#define BASE       0x100000000ull
#define DATA_BYTES 4096u
#define MAX_BYTES  (64u << 10) /* of variables, for the fuzzer's memory */

struct memory {
    uint8_t *data, *globals;
    uint32_t global_bytes;
};

static void *
at(void *user, uint64_t va, uint32_t n_bytes, bool is_write)
{
    const struct memory *m = user;

    (void)is_write;
    if (va >= BASE && va - BASE <= DATA_BYTES - n_bytes)
        return m->data + (va - BASE);
    va -= BASE + 2 * DATA_BYTES;
    if (va <= m->global_bytes && n_bytes <= m->global_bytes - va)
        return m->globals + va;
    return NULL;
}

static void
run(const struct sim_ptx_module *module, uint32_t number)
{
    struct sim_ptx_module_info info;
    struct sim_ptx_kernel_info kernel;
    struct sim_ptx_report report;
    uint64_t args[8] = {BASE, 64, BASE};
    struct memory m = {.data = calloc(1, DATA_BYTES)};
    struct sim_ptx_launch l = {.args = args,
                               .args_bytes = sizeof(args),
                               .grid = {2, 1, 1},
                               .block = {64, 1, 1},
                               .dynamic_shared_bytes = 64,
                               .shared_window_va = 0x7f0000000000,
                               .local_window_va = 0x7e0000000000,
                               .max_warp_steps = 2000,
                               .global_base = BASE + 2 * DATA_BYTES,
                               .mem = {.at = at, .user = &m}};
    bell_status status;

    sim_ptx_module_info(module, &info);
    m.global_bytes = info.global_bytes;
    m.globals = calloc(1, info.global_bytes + 1u);
    l.const_bank = info.const_init;
    l.const_bytes = info.const_bytes;
    if (m.data && m.globals && info.global_bytes <= MAX_BYTES &&
        sim_ptx_kernel(module, NULL, number, &kernel) &&
        kernel.local_bytes <= MAX_BYTES) {
        l.kernel = kernel.name;
        status = sim_ptx_run(module, &l, &report);
        if (status != BELL_OK && !bell_error_last()->message[0])
            abort();
        if ((status == BELL_OK) != (report.fault == SIM_PTX_OK) &&
            status != BELL_E_NO_MEMORY)
            abort();
        if (status == BELL_OK)
            fuzz_accept();
    }
    free(m.globals);
    free(m.data);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    char *text = malloc(size_bytes + 1);
    struct sim_ptx_module *module = NULL;

    if (!text)
        return 0;
    memcpy(text, data, size_bytes);
    text[size_bytes] = 0;
    if (sim_ptx_parse(text, &module) == BELL_OK) {
        run(module, 0);
        sim_ptx_destroy(module);
    } else if (!bell_error_last()->message[0]) {
        abort();
    }
    free(text);
    return 0;
}
