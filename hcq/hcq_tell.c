/* Telling a recording of programs, memory and launches. */
#include "hcq/hcq_tell.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "hcq/hcq_backend.h"
#include "hcq/hcq_packet.h"

#define LAUNCH_WORDS 8u /* the address, groups, work-items, n_args */

bell_status
hcq_tell(struct hcq_device *dev, enum kio_told_kind kind, const char *name,
         uint64_t va, void *data, uint64_t size_bytes)
{
    const struct kio_told told = {.kind = (uint32_t)kind,
                                  .name = name,
                                  .va = va,
                                  .size_bytes = size_bytes,
                                  .data = data};

    assert(dev->is_told && dev->ops->tell);
    BELL_TRY(dev->ops->tell(dev, &told));
    return BELL_OK;
}

/* Writes a launch's words, if `to` is not NULL. Returns how many they are. */
static size_t
put_launch(const struct hcq_exec *exec, uint64_t *to)
{
    uint32_t i, n_args = hcq_exec_args(exec);

    if (!to)
        return LAUNCH_WORDS + n_args;
    *to++ = exec->prog->pub.code_va;
    for (i = 0; i < 3; i++)
        *to++ = exec->grid[i];
    for (i = 0; i < 3; i++)
        *to++ = exec->local[i];
    *to++ = n_args;
    for (i = 0; i < n_args; i++)
        *to++ = exec->args[i];
    return LAUNCH_WORDS + n_args;
}

static size_t
put_launches(const struct hcq_cs *cs, uint64_t *to)
{
    size_t n = 0;
    uint32_t pos;

    for (pos = 0; pos < cs->n_dw;
         pos += hcq_packet_at(cs->words, pos)->head.n_dw) {
        const struct hcq_packet *packet = hcq_packet_at(cs->words, pos);

        if (packet->head.op == HCQ_OP_EXEC)
            n += put_launch(hcq_exec_of(packet), to ? to + n : NULL);
    }
    return n;
}

bell_status
hcq_tell_launches(const struct hcq_cs *cs)
{
    struct hcq_device *dev = cs->queue->dev;
    const char *name = strrchr(cs->queue->name, '/');
    size_t n = put_launches(cs, NULL);
    uint64_t *words;
    bell_status status;

    if (!n)
        return BELL_OK;
    words = host_alloc(n * sizeof(*words));
    if (!words)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory to tell of launches");
    put_launches(cs, words);
    /* without the device's: that says how it was opened */
    status = hcq_tell(dev, KIO_TOLD_LAUNCHES, name ? name + 1 : "", 0, words,
                      n * sizeof(*words));
    host_free(words);
    return status;
}
