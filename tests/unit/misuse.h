/* Every public call that is given tensors, contexts or other pointers, as a
 * table: misuse_gen.py writes the calls, this is what they are made with. */
#ifndef BELL_TESTS_MISUSE_H
#define BELL_TESTS_MISUSE_H

#include <stdlib.h>
#include <unistd.h>

#include "base/bits.h"
#include "doorbell/custom.h"
#include "doorbell/dlpack.h"
#include "doorbell/fft.h"
#include "doorbell/files.h"
#include "doorbell/functions.h"
#include "doorbell/jit.h"
#include "doorbell/label.h"
#include "doorbell/linalg.h"
#include "doorbell/lm.h"
#include "doorbell/loader.h"
#include "doorbell/mesh.h"
#include "doorbell/log.h"
#include "doorbell/module.h"
#include "doorbell/nn.h"
#include "doorbell/onnx.h"
#include "doorbell/ops.h"
#include "doorbell/stats.h"
#include "doorbell/tokenizer.h"
#include "doorbell/dim.h"
#include "doorbell/vision.h"

#define MAX_LIST  4
#define ROOM      4096
#define MAX_ROOMS 8

/* What a call is given. */
struct misuse {
    struct bell_context *ctx;
    struct bell_jit *jit; /* these, where they are not NULL */
    struct bell_loader *loader;
    struct bell_optimizer *optimizer;
    struct bell_file *file;
    struct bell_onnx *onnx;
    struct bell_lm *lm;
    struct bell_lm_session *session;
    struct bell_state *state;
    const struct bell_module_type *type;
    void *module;
    struct bell_tensor *good, *bad;
    struct bell_tensor *result; /* of the last call that returned a tensor */
    uint32_t bad_tensor;   /* which tensor is the bad one; UINT32_MAX: all */
    uint32_t null_pointer; /* which other pointer is NULL */
    struct bell_tensor *lists[MAX_ROOMS][MAX_LIST];
    struct bell_index_item items[MAX_LIST];
    uint64_t rooms[MAX_ROOMS][ROOM / 8];
};

struct misuse_call {
    const char *name;
    bool (*make)(struct misuse *m); /* whether it returned a failure */
    uint32_t n_tensors, n_pointers;
    bool has_ctx, has_object; /* what else it is given is empty or NULL */
    uint32_t kinds;           /* of objects that it is given: misuse_kinds */
    uint32_t wholes;          /* which pointers are a caller's objects */
    bool gives_tensor;
};

/* A kind of object, and which member of struct misuse is one. */
struct misuse_kind {
    const char *name;
    size_t offset;
};
static const struct misuse_kind misuse_kinds[] = {
    {"context", offsetof(struct misuse, ctx)},
    {"jit", offsetof(struct misuse, jit)},
    {"loader", offsetof(struct misuse, loader)},
    {"optimiser", offsetof(struct misuse, optimizer)},
    {"file", offsetof(struct misuse, file)},
    {"model", offsetof(struct misuse, onnx)},
    {"language model", offsetof(struct misuse, lm)},
    {"session", offsetof(struct misuse, session)},
};

static const int64_t misuse_ones[16] = {1, 1, 1, 1, 1, 1, 1, 1,
                                        1, 1, 1, 1, 1, 1, 1, 1};

static struct bell_tensor *
misuse_tensor(struct misuse *m, uint32_t i)
{
    return m->bad_tensor == UINT32_MAX || m->bad_tensor == i ? m->bad : m->good;
}

static void *
misuse_list(struct misuse *m, uint32_t i)
{
    uint32_t k;

    for (k = 0; k < MAX_LIST; k++)
        m->lists[i][k] = misuse_tensor(m, i);
    return m->lists[i];
}

static void *
misuse_items(struct misuse *m, uint32_t i)
{
    uint32_t k;

    for (k = 0; k < MAX_LIST; k++)
        m->items[k] = bell_by(misuse_tensor(m, i));
    return m->items;
}

static void *
misuse_room(struct misuse *m, uint32_t i)
{
    memset(m->rooms[i], 0, sizeof(m->rooms[i]));
    return m->rooms[i];
}

/* An object that the caller owns, or room for one. */
static void *
misuse_whole(struct misuse *m, uint32_t i, const void *object)
{
    return object ? (void *)(uintptr_t)object : misuse_room(m, i);
}

static void *
misuse_pointer(const struct misuse *m, uint32_t i, const void *pointer)
{
    return m->null_pointer == i ? NULL : (void *)(uintptr_t)pointer;
}

#include "misuse_calls.h"
#include "tests/unit/tiny_lm.h"

/* A model with an output that is its input, "x"; NULL: it cannot be
 * opened. */
static inline struct bell_onnx *
misuse_open_model(struct bell_context *ctx)
{
    static const char bytes[] =
        "\x08\x08\x42\x02\x10\x11\x3a\x12"
        "\x5a\x07\x0a\x01x\x12\x02\x0a\x00\x62\x07\x0a\x01x\x12\x02\x0a\x00";
    char path[] = "/tmp/misuse-XXXXXX";
    struct bell_onnx *model = NULL;
    int fd = mkstemp(path);

    if (fd < 0 ||
        write(fd, bytes, sizeof(bytes) - 1) != (ssize_t)sizeof(bytes) - 1)
        return NULL;
    close(fd);
    if (bell_onnx_open(ctx, path, &model) != BELL_OK)
        model = NULL;
    unlink(path);
    return model;
}

/* A small language model and a session of it; false: it cannot be made. */
static inline bool
misuse_open_lm(struct misuse *m)
{
    const struct tiny_lm tiny = {{.family = "qwen2"}, 1};
    const struct bell_lm_session_desc desc = {.struct_size = sizeof(desc),
                                              .context = 8};
    char path[] = "/tmp/misuse-XXXXXX";
    int fd = mkstemp(path);
    bool is_good;

    if (fd < 0)
        return false;
    close(fd);
    is_good = tiny_write(&tiny, path, NULL, NULL, false) &&
              bell_lm_open(m->ctx, path, NULL, &m->lm) == BELL_OK &&
              bell_lm_session_create(m->lm, &desc, &m->session) == BELL_OK;
    unlink(path);
    return is_good;
}

static inline void
misuse_close_lm(struct misuse *m)
{
    bell_lm_session_destroy(m->session);
    bell_lm_close(m->lm);
}

#endif
