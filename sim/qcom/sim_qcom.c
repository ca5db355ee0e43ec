/* The form, the machine and the process that it is: files, mappings, life. */
#include "sim/qcom/sim_qcom.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/chip.h"
#include "sim/qcom/kernel/qk.h"
#include "sim/text.h"

struct qform {
    struct kio kio; /* first */
    struct qk_machine m;
};

static _Thread_local char why[384];

int
qk_fail(int error, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return -error;
}

const char *
qk_why(void)
{
    return why;
}

void
qk_why_clear(void)
{
    why[0] = '\0';
}

static struct qk_machine *
enter(struct kio *kio)
{
    struct qk_machine *m = &((struct qform *)kio)->m;

    qk_why_clear();
    pthread_mutex_lock(&m->lock);
    return m;
}

static int
leave(struct qk_machine *m, int result)
{
    pthread_mutex_unlock(&m->lock);
    return result;
}

/* The serial of an open file; 0: it is none. */
static uint32_t
owner_of(const struct qk_machine *m, int fd)
{
    uint32_t i = (uint32_t)(fd - QK_FIRST_FD);

    if (fd >= QK_FIRST_FD && i < QK_MAX_FILES && m->files[i])
        return m->files[i];
    (void)qk_fail(EBADF, "file %d is not open", fd);
    return 0;
}

/* ---- files ---- */

static int
qcomsim_open(struct kio *kio, const char *path, int flags)
{
    struct qk_machine *m = enter(kio);
    const char *node = m->is_msm ? "/dev/dri/renderD128" : "/dev/kgsl-3d0";
    uint32_t i;

    (void)flags;
    if (strcmp(path, node) != 0)
        return leave(m,
                     qk_fail(ENOENT, "the simulated machine has no %s", path));
    for (i = 0; i < QK_MAX_FILES && m->files[i]; i++) {
    }
    if (i == QK_MAX_FILES)
        return leave(m, qk_fail(EMFILE, "too many files"));
    m->files[i] = ++m->n_opened;
    return leave(m, QK_FIRST_FD + (int)i);
}

/* What hangs on a file of DRM, or on all of KGSL's: owner 0. */
static void
drop_of(struct qk_machine *m, uint32_t owner)
{
    size_t i;

    for (i = m->n_contexts; i-- > 0;) {
        if (m->contexts[i]->owner != owner)
            continue;
        m->contexts[i]->is_gone = true;
        qsim_stop_running(m->gpu);
        qk_context_destroy(m, m->contexts[i]);
        i = m->n_contexts;
    }
    for (i = m->n_bufs; i-- > 0;) {
        if (m->bufs[i]->owner == owner)
            qk_drop_buf(m, m->bufs[i]);
    }
}

static int
qcomsim_close(struct kio *kio, int fd)
{
    struct qk_machine *m = enter(kio);
    uint32_t owner = owner_of(m, fd), i, n_open = 0;

    if (!owner)
        return leave(m, -EBADF);
    m->files[fd - QK_FIRST_FD] = 0;
    for (i = 0; i < QK_MAX_FILES; i++)
        n_open += m->files[i] != 0;
    if (m->is_msm)
        drop_of(m, owner);
    else if (n_open == 0)
        drop_of(m, 0);
    return leave(m, 0);
}

static int
qcomsim_ioctl(struct kio *kio, int fd, unsigned long request, void *arg)
{
    struct qk_machine *m = enter(kio);
    uint32_t owner = owner_of(m, fd);

    if (!owner)
        return leave(m, -EBADF);
    return leave(m, m->is_msm ? msm_call(m, owner, request, arg)
                              : kgsl_call(m, request, arg));
}

static int
qcomsim_poll(struct kio *kio, int fd, short events, int timeout_ms,
             short *out_revents)
{
    struct qk_machine *m = enter(kio);
    bool is_open = owner_of(m, fd) != 0;
    struct timespec pause = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

    (void)events;
    (void)leave(m, 0);
    *out_revents = is_open ? 0 : POLLNVAL;
    if (!is_open)
        return 1;
    if (timeout_ms < 0)
        return qk_fail(EDEADLK, "poll without end: no event comes");
    if (timeout_ms > 0 && nanosleep(&pause, NULL) < 0)
        return -errno;
    return 0;
}

static int
qcomsim_read_file(struct kio *kio, const char *path, void *buf, size_t cap)
{
    static const char folder[] = "/sys/class/kgsl/kgsl-3d0/";
    struct qk_machine *m = enter(kio);
    struct sim_text text = {buf, cap, 0};
    const char *name = path + sizeof(folder) - 1;

    if (m->is_msm || strncmp(path, folder, sizeof(folder) - 1) != 0)
        return leave(m,
                     qk_fail(ENOENT, "the simulated machine has no %s", path));
    if (!strcmp(name, "gpu_model"))
        sim_text_put(&text, "%s\n", m->chip->model);
    else if (!strcmp(name, "max_gpuclk") || !strcmp(name, "gpuclk"))
        sim_text_put(&text, "%llu\n", (unsigned long long)m->chip->max_hz);
    else if (!strcmp(name, "reset_count"))
        sim_text_put(&text, "%u\n", m->n_faults);
    else
        return leave(m,
                     qk_fail(ENOENT, "the simulated machine has no %s", path));
    return leave(m, (int)text.n);
}

/* ---- mappings ---- */

static int
mmap_locked(struct qk_machine *m, void **addr, size_t size_bytes, int prot,
            int flags, int fd, uint64_t offset)
{
    uint32_t owner = fd < 0 ? 0 : owner_of(m, fd);
    struct qk_buf *buf = NULL;
    void *at;

    if (fd >= 0 && !owner)
        return -EBADF;
    if (fd >= 0) {
        if (!(flags & MAP_SHARED))
            return qk_fail(EINVAL, "a mapping that is not shared");
        if (m->is_msm ? offset & UINT32_MAX : offset & (QK_PAGE - 1))
            return qk_fail(EINVAL, "nothing to map at offset 0x%llx",
                           (unsigned long long)offset);
        buf = qk_find_buf(m, (uint32_t)(offset >> (m->is_msm ? 32 : 12)));
        if (!buf || buf->is_user || (m->is_msm && buf->owner != owner))
            return qk_fail(EINVAL, "nothing to map at offset 0x%llx",
                           (unsigned long long)offset);
        if (m->is_msm ? size_bytes > buf->size_bytes
                      : (size_bytes + QK_PAGE - 1) / QK_PAGE * QK_PAGE !=
                            buf->size_bytes)
            return qk_fail(EINVAL, "%zu bytes, the memory has %llu", size_bytes,
                           (unsigned long long)buf->size_bytes);
    }
    at = mmap(*addr, size_bytes, prot, flags, buf ? buf->fd : -1,
              buf ? 0 : (off_t)offset);
    if (at == MAP_FAILED)
        return -errno;
    *addr = at;
    return 0;
}

static int
qcomsim_mmap(struct kio *kio, void **addr, size_t size_bytes, int prot,
             int flags, int fd, uint64_t offset)
{
    struct qk_machine *m = enter(kio);

    return leave(m, mmap_locked(m, addr, size_bytes, prot, flags, fd, offset));
}

static int
qcomsim_munmap(struct kio *kio, void *addr, size_t size_bytes)
{
    (void)kio;
    qk_why_clear();
    return munmap(addr, size_bytes) < 0 ? -errno : 0;
}

static const char *
qcomsim_explain(struct kio *kio)
{
    (void)kio;
    return qk_why()[0] ? qk_why() : NULL;
}

/* ---- life ---- */

static void
machine_fini(struct qk_machine *m)
{
    uint32_t i;

    pthread_mutex_lock(&m->lock);
    if (!m->is_msm)
        drop_of(m, 0);
    for (i = 0; i < QK_MAX_FILES; i++) {
        if (m->is_msm && m->files[i])
            drop_of(m, m->files[i]);
    }
    pthread_mutex_unlock(&m->lock);
    qsim_space_destroy(m->space);
    qsim_destroy(m->gpu);
    qk_rd_destroy(m->rd);
    pthread_cond_destroy(&m->retired);
    pthread_mutex_destroy(&m->lock);
    host_free(m->bufs);
    host_free(m->contexts);
}

static void
qcomsim_destroy(struct kio *kio)
{
    struct qform *form = (struct qform *)kio;

    /* the card's thread is not in a forked child */
    if (form->m.pid == getpid())
        machine_fini(&form->m);
    host_free(form);
}

static const struct kio_ops qcomsim_ops = {
    .name = "sim",
    .destroy = qcomsim_destroy,
    .open = qcomsim_open,
    .close = qcomsim_close,
    .ioctl = qcomsim_ioctl,
    .mmap = qcomsim_mmap,
    .munmap = qcomsim_munmap,
    .poll = qcomsim_poll,
    .read_file = qcomsim_read_file,
    .explain = qcomsim_explain,
};

static bell_status
unknown_spec(const char *spec)
{
    char known[256];

    chip_list("QCOM", known, sizeof(known));
    return bell_fail(BELL_E_NO_DEVICE,
                     "no simulated Adreno '%.60s'; known: %s, each with -msm "
                     "behind it or without, and with ,rd=FILE or without",
                     spec, known);
}

/* CHIP[-msm][,rd=FILE]; *out_rd is within the spec. */
static bell_status
read_spec(const char *spec, struct qk_machine *m, const char **out_rd)
{
    size_t n = strcspn(spec, ",");
    char name[32] = "";

    *out_rd = NULL;
    if (n >= sizeof(name))
        return unknown_spec(spec);
    memcpy(name, spec, n);
    if (n > 4 && !strcmp(name + n - 4, "-msm")) {
        m->is_msm = true;
        name[n - 4] = '\0';
    }
    if (!qsim_chip_make(name, &m->own_chip))
        return unknown_spec(spec);
    m->chip = &m->own_chip;
    if (spec[n] == ',') {
        if (strncmp(spec + n, ",rd=", 4) != 0 || !spec[n + 4])
            return unknown_spec(spec);
        *out_rd = spec + n + 4;
    }
    return BELL_OK;
}

/* Takes back what it has made where it fails. */
static bell_status
machine_init(struct qk_machine *m, const char *spec)
{
    pthread_condattr_t attr;
    const char *rd;
    bell_status status;

    BELL_TRY(read_spec(spec, m, &rd));
    if (rd)
        BELL_TRY(qk_rd_create(rd, m->chip->chip_id, &m->rd));
    status = qsim_create(m->chip, &m->gpu);
    if (status != BELL_OK)
        goto fail_rd;
    status = qsim_space_create(m->gpu, &m->space);
    if (status != BELL_OK)
        goto fail_gpu;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->retired, &attr);
    pthread_condattr_destroy(&attr);
    m->pid = getpid();
    m->next_id = 1;
    /* src: docs/hardware/adreno-kernel.md, "KGSL memory"; guess: msm's */
    m->va_first = m->is_msm ? 0x100000000ull : 0x4000000000ull;
    m->va_end = m->is_msm ? 0x1000000000ull : 0x8000000000ull;
    m->next_va = m->va_first;
    return BELL_OK;
fail_gpu:
    qsim_destroy(m->gpu);
fail_rd:
    qk_rd_destroy(m->rd);
    return status;
}

bell_status
sim_qcom_create(const char *spec, struct kio **out_kio)
{
    struct qform *form = host_calloc(1, sizeof(*form));
    bell_status status;

    if (!form)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a form");
    status = machine_init(&form->m, spec);
    if (status != BELL_OK) {
        host_free(form);
        return status;
    }
    form->kio.ops = &qcomsim_ops;
    *out_kio = &form->kio;
    return BELL_OK;
}

/* ---- counts ---- */

static struct qk_machine *
machine_of(const struct kio *stack)
{
    while (stack && stack->below)
        stack = stack->below;
    if (!stack || stack->ops != &qcomsim_ops)
        return NULL;
    return &((struct qform *)(uintptr_t)stack)->m;
}

void
sim_qcom_held(const struct kio *stack, struct sim_qcom_usage *out_usage)
{
    struct qk_machine *m = machine_of(stack);
    size_t i;

    memset(out_usage, 0, sizeof(*out_usage));
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    for (i = 0; i < QK_MAX_FILES; i++)
        out_usage->files += m->files[i] != 0;
    out_usage->contexts = (uint32_t)m->n_contexts;
    out_usage->buffers = (uint32_t)m->n_bufs;
    for (i = 0; i < m->n_bufs; i++)
        out_usage->memory_bytes += m->bufs[i]->size_bytes;
    out_usage->va_mapped_bytes = qsim_space_mapped(m->space);
    pthread_mutex_unlock(&m->lock);
}

void
sim_qcom_fault_text(const struct kio *stack, char *text, uint32_t cap)
{
    struct qk_machine *m = machine_of(stack);

    text[0] = '\0';
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    snprintf(text, cap, "%s", m->fault_text);
    pthread_mutex_unlock(&m->lock);
}
