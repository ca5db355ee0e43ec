/* Code of simulated kernels: PTX text in device memory, parsed once for each
 * text. What a channel has run stays in its instruction cache: other bytes at
 * the same address need an invalidation first, and are refused without. */
#include "sim/nv/gpu_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "doorbell/status.h"
#include "sim/nv/ptx.h"

#define HEADER_BYTES   16u
#define MAX_TEXT_BYTES (16u << 20)

/* As it lies in memory, see gpu.h. */
struct header {
    char magic[8];
    uint32_t version, text_bytes;
};

void
nvgpu_code_free(struct nvgpu *gpu)
{
    while (gpu->modules) {
        struct nvgpu_module *m = gpu->modules;
        gpu->modules = m->next;
        sim_ptx_destroy(m->ptx);
        host_free(m->text);
        host_free(m);
    }
}

uint64_t
nvgpu_code_line_va(const struct nvgpu_module *module, uint64_t va,
                   uint32_t line)
{
    uint32_t at = 0, n = 1;

    while (n < line && at < module->text_bytes) {
        if (module->text[at++] == '\n')
            n++;
    }
    return va + HEADER_BYTES + at;
}

/* ---- modules of the card ---- */

static struct nvgpu_module *
find_module(struct nvgpu *gpu, uint64_t hash, const char *text, uint32_t bytes)
{
    struct nvgpu_module *m;

    for (m = gpu->modules; m; m = m->next) {
        if (m->hash == hash && m->text_bytes == bytes &&
            memcmp(m->text, text, bytes) == 0)
            return m;
    }
    return NULL;
}

/* Takes the text. NULL, and the text is freed, where it does not parse. */
static struct nvgpu_module *
make_module(struct nvgpu *gpu, uint64_t hash, char *text, uint32_t bytes)
{
    struct nvgpu_module *m = host_calloc(1, sizeof(*m));

    if (!m) {
        (void)bell_fail(BELL_E_NO_MEMORY, "module");
        host_free(text);
        return NULL;
    }
    m->hash = hash;
    m->text = text;
    m->text_bytes = bytes;
    if (sim_ptx_parse(text, &m->ptx) != BELL_OK) {
        host_free(text);
        host_free(m);
        return NULL;
    }
    m->next = gpu->modules;
    gpu->modules = m;
    return m;
}

/* Takes the text. */
static struct nvgpu_module *
get_module(struct nvgpu *gpu, char *text, uint32_t bytes)
{
    uint64_t hash = hash_bytes(text, bytes, 0);
    struct nvgpu_module *m;

    pthread_mutex_lock(&gpu->code_lock);
    m = find_module(gpu, hash, text, bytes);
    if (m)
        host_free(text);
    else
        m = make_module(gpu, hash, text, bytes);
    pthread_mutex_unlock(&gpu->code_lock);
    return m;
}

/* ---- a channel's instruction cache ---- */

static bool
read_header(struct nvgpu_chan *chan, uint64_t va, struct header *out_header)
{
    if (!nvgpu_read(chan, va, out_header, sizeof(*out_header),
                    "instruction fetch"))
        return false;
    if (memcmp(out_header->magic, "BELL PTX", 8) != 0 ||
        out_header->version != 1 || out_header->text_bytes == 0 ||
        out_header->text_bytes > MAX_TEXT_BYTES)
        return nvgpu_fail(chan, NVGPU_CODE_SM,
                          "no PTX in our container at 0x%llx: SASS is not "
                          "simulated",
                          (unsigned long long)va);
    return true;
}

/* 1: the text is there, 0: another one is, -1: fault. */
static int
compare(struct nvgpu_chan *chan, uint64_t va, const char *text, uint64_t bytes)
{
    while (bytes > 0) {
        uint64_t n;
        const void *at = nvgpu_span(chan, va, false, &n);

        if (!at) {
            (void)nvgpu_fail_mmu(chan, va, NVGPU_READ, "instruction fetch");
            return -1;
        }
        n = n < bytes ? n : bytes;
        if (memcmp(at, text, n) != 0)
            return 0;
        va += n;
        text += n;
        bytes -= n;
    }
    return 1;
}

static struct nvgpu_cached *
find_cached(struct nvgpu_chan *chan, uint64_t va)
{
    size_t i;

    for (i = 0; i < chan->n_cached; i++) {
        if (chan->cached[i].va == va)
            return &chan->cached[i];
    }
    return NULL;
}

/* NULL after a fault. */
static struct nvgpu_module *
load_module(struct nvgpu_chan *chan, uint64_t va, uint32_t bytes)
{
    char *text = host_alloc((size_t)bytes + 1);
    struct nvgpu_module *m;

    if (!text) {
        (void)nvgpu_fail(chan, NVGPU_CODE_SM, "no memory for %u bytes of code",
                         bytes);
        return NULL;
    }
    if (!nvgpu_read(chan, va + HEADER_BYTES, text, bytes,
                    "instruction fetch")) {
        host_free(text);
        return NULL;
    }
    text[bytes] = 0;
    m = get_module(chan->gpu, text, bytes);
    if (!m)
        (void)nvgpu_fail(chan, NVGPU_CODE_SM, "code at 0x%llx: %s",
                         (unsigned long long)va, bell_error_last()->message);
    return m;
}

static struct nvgpu_module *
remember(struct nvgpu_chan *chan, struct nvgpu_cached *entry, uint64_t va,
         struct nvgpu_module *module)
{
    if (!entry) {
        if (host_grow((void **)&chan->cached, &chan->cap_cached,
                      chan->n_cached + 1, sizeof(*chan->cached))) {
            (void)nvgpu_fail(chan, NVGPU_CODE_SM, "no memory for code");
            return NULL;
        }
        entry = &chan->cached[chan->n_cached++];
    }
    *entry = (struct nvgpu_cached){va, module, chan->n_code_invalidates};
    return module;
}

/* False after a fault. Code that ran at other addresses since the last
 * invalidation, where the new one lies now, is in the cache still. */
static bool
check_neighbours(struct nvgpu_chan *chan, uint64_t va, uint32_t bytes)
{
    uint64_t end = va + HEADER_BYTES + bytes;
    size_t i;

    for (i = 0; i < chan->n_cached; i++) {
        const struct nvgpu_cached *old = &chan->cached[i];
        uint64_t text_va = old->va + HEADER_BYTES,
                 first = text_va > va ? text_va : va,
                 last = text_va + old->module->text_bytes;
        int same;

        if (old->epoch != chan->n_code_invalidates || old->va == va)
            continue;
        last = last < end ? last : end;
        if (first >= last)
            continue;
        same = compare(chan, first, old->module->text + (first - text_va),
                       last - first);
        if (same < 0)
            return false;
        if (!same)
            return nvgpu_fail(chan, NVGPU_CODE_SM,
                              "stale code at 0x%llx: what ran at 0x%llx lay "
                              "there, and INVALIDATE_SHADER_CACHES has not "
                              "come since",
                              (unsigned long long)va,
                              (unsigned long long)old->va);
    }
    return true;
}

struct nvgpu_module *
nvgpu_code_find(struct nvgpu_chan *chan, uint64_t va)
{
    struct nvgpu_cached *entry = find_cached(chan, va);
    struct nvgpu_module *m;
    struct header h;
    int same = 0;

    if (!read_header(chan, va, &h))
        return NULL;
    if (entry && h.text_bytes == entry->module->text_bytes)
        same =
            compare(chan, va + HEADER_BYTES, entry->module->text, h.text_bytes);
    if (same < 0)
        return NULL;
    if (same) {
        entry->epoch = chan->n_code_invalidates;
        return entry->module;
    }
    if (entry && entry->epoch == chan->n_code_invalidates) {
        (void)nvgpu_fail(chan, NVGPU_CODE_SM,
                         "stale code at 0x%llx: it changed since it last ran, "
                         "without INVALIDATE_SHADER_CACHES",
                         (unsigned long long)va);
        return NULL;
    }
    if (!check_neighbours(chan, va, h.text_bytes))
        return NULL;
    m = load_module(chan, va, h.text_bytes);
    return m ? remember(chan, entry, va, m) : NULL;
}
