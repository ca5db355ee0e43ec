/* Code of simulated kernels: PTX text in device memory, parsed once for each
 * text, or the machine code of one that the card knows by heart. Code that a
 * channel has run stays in its instruction cache: other bytes at the same
 * address need an invalidation first, and are refused without. */
#include "sim/nv/gpu/gpu_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"
#include "doorbell/status.h"
#include "sim/native.h"
#include "sim/ptx/ptx.h"

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

    if (module->header_bytes == 0)
        return va;
    while (n < line && at < module->text_bytes) {
        if (module->text[at++] == '\n')
            n++;
    }
    return va + HEADER_BYTES + at;
}

/* ---- modules of the card ---- */

static struct nvgpu_module *
find_module(struct nvgpu *gpu, uint64_t hash, const char *text, uint32_t bytes,
            const void *image)
{
    struct nvgpu_module *m;

    for (m = gpu->modules; m; m = m->next) {
        if (m->hash == hash && m->text_bytes == bytes &&
            m->image == (image ? image : m->text) &&
            memcmp(m->text, text, bytes) == 0)
            return m;
    }
    return NULL;
}

/* Takes the text. NULL, and the text is freed, where it does not parse. */
static struct nvgpu_module *
make_module(struct nvgpu *gpu, uint64_t hash, char *text, uint32_t bytes,
            const void *image, uint32_t image_bytes)
{
    struct nvgpu_module *m = host_calloc(1, sizeof(*m));

    assert(bytes > 0);
    if (!m) {
        (void)bell_fail(BELL_E_NO_MEMORY, "module: out of memory");
        host_free(text);
        return NULL;
    }
    m->hash = hash;
    m->text = text;
    m->text_bytes = bytes;
    m->image = image ? image : text;
    m->image_bytes = image ? image_bytes : bytes;
    m->header_bytes = image ? 0 : HEADER_BYTES;
    if (sim_ptx_parse(text, &m->ptx) != BELL_OK) {
        host_free(text);
        host_free(m);
        return NULL;
    }
    m->next = gpu->modules;
    gpu->modules = m;
    return m;
}

/* Takes the text. The image is NULL, or machine code for it. */
static struct nvgpu_module *
get_module(struct nvgpu *gpu, char *text, uint32_t bytes, const void *image,
           uint32_t image_bytes)
{
    uint64_t hash = hash_bytes(text, bytes, 0);
    struct nvgpu_module *m;

    pthread_mutex_lock(&gpu->code_lock);
    m = find_module(gpu, hash, text, bytes, image);
    if (m)
        host_free(text);
    else
        m = make_module(gpu, hash, text, bytes, image, image_bytes);
    pthread_mutex_unlock(&gpu->code_lock);
    return m;
}

/* ---- a channel's instruction cache ---- */

/* 1: the bytes are there, 0: others are, -1: fault. */
static int
compare_code(struct nvgpu_chan *chan, uint64_t va, const void *image,
             uint64_t bytes)
{
    const char *text = image;

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

/* What lies at an address: the size of a text, or which machine code. */
struct found {
    uint32_t text_bytes, native_bytes;
    const void *native; /* NULL: a text */
};

/* False after a fault. */
static bool
look(struct nvgpu_chan *chan, uint64_t va, struct found *out)
{
    uint32_t sm = chan->gpu->chip->sm;
    struct header h;
    size_t i;

    memset(out, 0, sizeof(*out));
    if (!nvgpu_read(chan, va, &h, sizeof(h), "instruction fetch"))
        return false;
    if (memcmp(h.magic, "BELL PTX", 8) == 0 && h.version == 1 &&
        h.text_bytes > 0 && h.text_bytes <= MAX_TEXT_BYTES) {
        out->text_bytes = h.text_bytes;
        return true;
    }
    for (i = 0; i < ARRAY_LEN(natives); i++) {
        int same = 0;

        if (natives[i].sm / 10 == sm / 10 && natives[i].sm <= sm &&
            memcmp(&h, natives[i].words, sizeof(h)) == 0)
            same = compare_code(chan, va, natives[i].words, natives[i].n_bytes);
        if (same < 0)
            return false;
        if (!same)
            continue;
        out->text_bytes = sizeof(native_text) - 1;
        out->native = natives[i].words;
        out->native_bytes = natives[i].n_bytes;
        return true;
    }
    return nvgpu_fail(chan, NVGPU_CODE_SM,
                      "no PTX in our container at 0x%llx, and no machine code "
                      "that is known: other SASS is not simulated",
                      (unsigned long long)va);
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
load_module(struct nvgpu_chan *chan, uint64_t va, const struct found *found)
{
    uint32_t bytes = found->text_bytes;
    char *text = host_alloc((size_t)bytes + 1);
    struct nvgpu_module *m;

    if (!text) {
        (void)nvgpu_fail(chan, NVGPU_CODE_SM, "no memory for %u bytes of code",
                         bytes);
        return NULL;
    }
    if (found->native) {
        memcpy(text, native_text, bytes);
    } else if (!nvgpu_read(chan, va + HEADER_BYTES, text, bytes,
                           "instruction fetch")) {
        host_free(text);
        return NULL;
    }
    text[bytes] = 0;
    m = get_module(chan->gpu, text, bytes, found->native, found->native_bytes);
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
check_neighbours(struct nvgpu_chan *chan, uint64_t va, uint64_t end)
{
    size_t i;

    for (i = 0; i < chan->n_cached; i++) {
        const struct nvgpu_cached *old = &chan->cached[i];
        uint64_t image_va = old->va + old->module->header_bytes,
                 first = image_va > va ? image_va : va,
                 last = image_va + old->module->image_bytes;
        int same;

        if (old->epoch != chan->n_code_invalidates || old->va == va)
            continue;
        last = last < end ? last : end;
        if (first >= last)
            continue;
        same = compare_code(
            chan, first, (const char *)old->module->image + (first - image_va),
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
    struct found found;
    int same = 0;

    if (!look(chan, va, &found))
        return NULL;
    if (entry && found.text_bytes == entry->module->text_bytes)
        same = compare_code(chan, va + entry->module->header_bytes,
                            entry->module->image, entry->module->image_bytes);
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
    if (!check_neighbours(chan, va,
                          va + (found.native
                                    ? found.native_bytes
                                    : HEADER_BYTES + found.text_bytes)))
        return NULL;
    m = load_module(chan, va, &found);
    return m ? remember(chan, entry, va, m) : NULL;
}
