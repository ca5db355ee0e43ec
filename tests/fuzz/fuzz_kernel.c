/* libFuzzer target: a kernel that lies. A card's whole life (open, memory, a
 * queue, a kernel, a copy, close) on a simulated card whose kernel's replies
 * come back altered. Whatever it says, the driver stays within its memory and
 * ends, with an error that says something or without one.
 *
 * Input: up to LIES_MAX lies of 8 bytes: call (u16: its number from 1, with
 * the highest bit all later ones too), word (u16; 0xffff: random words), value
 * (u32). FUZZ_BACKEND and FUZZ_INTERFACE name the card.
 *
 * lie_sweep.c goes through the replies word by word.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hcq/hcq.h"
#include "tests/cts/programs.h"
#include "tests/fuzz/fuzz_kernel.h"
#include "tests/fuzz/fuzz.h"

#define LIES_MAX  6
#define WAIT_NS   100000000ull /* for what may never end */
#define BUF_BYTES 8192u

static bell_status
launch(struct hcq_queue *queue, uint64_t wait_ns, struct hcq_program *prog,
       struct hcq_buffer *a, struct hcq_buffer *b)
{
    const uint64_t args[3] = {b->va, a->va, 4};
    const uint32_t grid[3] = {2, 1, 1};
    struct hcq_cs *cs;

    BELL_TRY(hcq_queue_begin(queue, &cs));
    hcq_cs_fill(cs, a->va, 7, BUF_BYTES);
    hcq_cs_exec(cs, prog, args, 3, grid, NULL);
    hcq_cs_copy(cs, a->va + 256, b->va, 256);
    BELL_TRY(hcq_cs_submit(cs, NULL));
    return hcq_queue_wait(queue, wait_ns);
}

static bell_status
use(struct hcq_device *dev, const struct hcq_program_desc *desc,
    uint64_t wait_ns)
{
    struct hcq_buffer *a = NULL, *b = NULL;
    struct hcq_program *prog = NULL;
    struct hcq_queue *queue = NULL;
    uint8_t bytes[64] = {0};
    bell_status status, again;

    status = hcq_buffer_create(dev, BUF_BYTES, HCQ_MEM_DEVICE, &a);
    if (status == BELL_OK)
        status = hcq_buffer_create(dev, BUF_BYTES, HCQ_MEM_HOST_VISIBLE, &b);
    if (status == BELL_OK)
        status = hcq_buffer_write(a, 0, bytes, sizeof(bytes));
    if (status == BELL_OK)
        status = hcq_program_create(dev, desc, &prog);
    if (status == BELL_OK)
        status = hcq_queue_create(dev, HCQ_QUEUE_COMPUTE, &queue);
    if (status == BELL_OK)
        status = launch(queue, wait_ns, prog, a, b);
    if (status == BELL_OK)
        status = hcq_buffer_read(a, 256, bytes, sizeof(bytes));
    /* A kernel that never ends is dropped here, not waited for when it is
     * destroyed; else by closing the device. */
    if (status != BELL_OK && queue) {
        again = hcq_device_recover(dev);
        if (again != BELL_OK)
            return status;
    }
    hcq_queue_destroy(queue);
    hcq_program_destroy(prog);
    hcq_buffer_destroy(b);
    hcq_buffer_destroy(a);
    return status;
}

/* A kernel for the card, made once with nothing but the truth. */
static const struct hcq_program_desc *
program(void)
{
    static struct hcq_program_desc desc;
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_device *dev;
    char why[256];

    if (desc.struct_size)
        return &desc;
    if (hcq_device_open(FUZZ_BACKEND "@" FUZZ_INTERFACE, &dev) != BELL_OK) {
        fprintf(stderr, "%s\n", bell_error_last()->message);
        exit(1);
    }
    hcq_device_info(dev, &info);
    desc = (struct hcq_program_desc){.struct_size = sizeof(desc),
                                     .name = "cts_add_one",
                                     .n_bufs = 2,
                                     .n_vals = 1,
                                     .local = {1, 1, 1}};
    if (!FUZZ_PROVIDER.setup(&info, why, sizeof(why)) ||
        !FUZZ_PROVIDER.find(CTS_ADD_ONE, 0, &desc) ||
        use(dev, &desc, HCQ_TIMEOUT_NS) != BELL_OK)
        abort(); /* the life itself is sound */
    hcq_device_close(dev);
    return &desc;
}

bell_status
fuzz_kernel_live(const char *forms)
{
    const struct hcq_program_desc *desc = program();
    bool is_lie = strncmp(forms, "fault:", 6) == 0;
    struct hcq_device *dev;
    char name[1024];
    bell_status status;

    snprintf(name, sizeof(name), "%s@%s%s", FUZZ_BACKEND, forms,
             FUZZ_INTERFACE);
    if (getenv("FUZZ_TELL"))
        fprintf(stderr, "%s\n", name);
    status = hcq_device_open(name, &dev);
    if (status == BELL_OK) {
        status = use(dev, desc, is_lie ? WAIT_NS : HCQ_TIMEOUT_NS);
        hcq_device_close(dev);
    }
    if (status != BELL_OK && !bell_error_last()->message[0])
        abort();
    return status;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char forms[64 * LIES_MAX + 16] = "fault:";
    size_t len = strlen(forms), i;
    size_t n = size / 8 < LIES_MAX ? size / 8 : LIES_MAX;
    bell_status status;

    if (!n)
        return 0;
    for (i = 0; i < n; i++) {
        uint16_t call, word;
        uint32_t value;
        memcpy(&call, data + i * 8, 2);
        memcpy(&word, data + i * 8 + 2, 2);
        memcpy(&value, data + i * 8 + 4, 4);
        len += (size_t)snprintf(forms + len, sizeof(forms) - len,
                                "%sany:%u%s=", i ? "," : "",
                                (call & 0x7fffu) + 1, call & 0x8000 ? "+" : "");
        if (word == 0xffff)
            len += (size_t)snprintf(forms + len, sizeof(forms) - len,
                                    "random=%u", value);
        else
            len += (size_t)snprintf(forms + len, sizeof(forms) - len,
                                    "reply=%u:0x%x", word, value);
    }
    snprintf(forms + len, sizeof(forms) - len, "@");
    status = fuzz_kernel_live(forms);
    (void)status; /* with or without an error */
    fuzz_accept();
    return 0;
}
