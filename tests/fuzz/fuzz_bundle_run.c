/* libFuzzer target: bundles that run on simulated cards, with their checksums
 * made right. Whatever is in them, opening and running ends soon, in an error
 * or in outputs that can be read, and the card can be used again. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/hcq_bundle.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_seal.h"

#define SIM_ITEMS  "16384"
#define WAIT_NS    100000000ull /* for what may loop for ever */
#define MEMORY_MAX (1u << 24) /* what an input may have: the rest is refused */

/* KFD of a version that a process recovers on from memory faults. */
static const char *const names[] = {"NV@sim:sm_90", "AMD@sim:gfx1100,kfd=1.23",
                                    "QCOM@sim:a630"};
static struct hcq_device *devices[ARRAY_LEN(names)];

/* Sets its inputs and runs it. */
static bell_status
run(struct hcq_bundle *bundle)
{
    static uint8_t data[MEMORY_MAX];
    const struct hcq_bundle_value *value;
    uint32_t i;

    for (i = 0; (value = hcq_bundle_value(bundle, i)); i++) {
        if (value->kind == HCQ_BUNDLE_INPUT)
            BELL_TRY(hcq_bundle_write(bundle, i, data, value->size_bytes));
    }
    BELL_TRY(hcq_bundle_run(bundle, NULL));
    BELL_TRY(hcq_bundle_wait(bundle, WAIT_NS));
    for (i = 0; (value = hcq_bundle_value(bundle, i)); i++) {
        if (value->kind == HCQ_BUNDLE_OUTPUT)
            BELL_TRY(hcq_bundle_read(bundle, i, data, value->size_bytes));
    }
    return BELL_OK;
}

/* The greatest values of symbols, and inputs of the most elements. */
static void
grow(struct hcq_bundle *bundle)
{
    const struct hcq_bundle_value *value;
    uint64_t shape[HCQ_BUNDLE_RANK_MAX], least;
    uint32_t i, k;

    for (i = 0; (value = hcq_bundle_value(bundle, i)); i++) {
        if (value->kind == HCQ_BUNDLE_SYMBOL &&
            hcq_bundle_write(bundle, i, &value->shape[1], sizeof(uint64_t)) !=
                BELL_OK)
            abort();
        if (value->kind > HCQ_BUNDLE_OUTPUT)
            continue;
        for (k = 0; k < value->ndim; k++)
            (void)hcq_bundle_axis(bundle, i, k, &least, &shape[k]);
        if (hcq_bundle_fit(bundle, i, shape, value->ndim) != BELL_OK &&
            !bell_error_last()->message[0])
            abort();
    }
}

/* Memory is asked for that the file does not have: large sizes are refused
 * here, or an input would be timed for what it fills with zeros. */
static bool
is_small(const uint8_t *data, size_t size_bytes)
{
    struct bundle_file f;
    uint64_t total = 0;
    uint32_t i;

    if (bundle_file_open(data, size_bytes, &f) != BELL_OK)
        return false;
    for (i = 0; i < f.n_targets; i++) {
        if (f.targets[i].arena_bytes > MEMORY_MAX)
            return false;
    }
    for (i = 0; i < f.n_values && total <= MEMORY_MAX; i++) {
        if (f.values[i].kind < BUNDLE_SYMBOL)
            total += f.values[i].size_bytes;
    }
    return total <= MEMORY_MAX;
}

static void
run_on(struct hcq_device *dev, const uint8_t *data, size_t size_bytes)
{
    struct hcq_bundle *bundle = NULL;
    bell_status status = hcq_bundle_open_memory(dev, data, size_bytes, &bundle);

    if (status == BELL_OK) {
        status = run(bundle);
        if (status == BELL_OK) {
            fuzz_accept();
            grow(bundle);
            status = run(bundle);
        }
        if (status == BELL_OK)
            bell_error_clear();
        else if (!bell_error_last()->message[0])
            abort();
        /* what hangs or faulted is dropped before it is closed */
        if (status != BELL_OK && hcq_device_recover(dev) != BELL_OK)
            abort();
    } else if (!bell_error_last()->message[0]) {
        abort();
    }
    hcq_bundle_close(bundle);
    if (hcq_device_status(dev) != BELL_OK)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    size_t n = (size_bytes + BUNDLE_PAGE - 1) & ~(size_t)(BUNDLE_PAGE - 1), i;
    uint8_t *copy;

    setenv("BELL_SIM_ITEMS", SIM_ITEMS, 1);
    for (i = 0; i < ARRAY_LEN(names) && !devices[i]; i++) {
        if (hcq_device_open(names[i], &devices[i]) != BELL_OK)
            abort();
    }
    copy = aligned_alloc(BUNDLE_PAGE, n ? n : BUNDLE_PAGE);
    if (!copy)
        return 0;
    memcpy(copy, data, size_bytes);
    fuzz_seal(copy, size_bytes);
    for (i = 0; i < ARRAY_LEN(names) && is_small(copy, size_bytes); i++)
        run_on(devices[i], copy, size_bytes);
    free(copy);
    return 0;
}
