/* Captures of submissions as freedreno's tools read them (.rd): sections of
 * type, size, bytes.
 *
 * src: docs/hardware/adreno-kernel.md, "Capture files"
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sim/qcom/kernel/qk.h"

#define RD_CMD             2u
#define RD_GPUADDR         3u
#define RD_CMDSTREAM_ADDR  6u
#define RD_BUFFER_CONTENTS 12u
#define RD_CHIP_ID         14u
/* Contents of larger buffers are left out, unless a stream lies there. */
#define MOST_BYTES (16u << 20)

struct qk_rd {
    int fd;
    bool has_failed;
};

static void
put(struct qk_rd *rd, const void *data, size_t n)
{
    const char *p = data;
    ssize_t done;

    while (n && !rd->has_failed) {
        done = write(rd->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        rd->has_failed = done <= 0;
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
}

static void
section(struct qk_rd *rd, uint32_t type, const void *data, uint32_t n_bytes)
{
    uint32_t head[2] = {type, n_bytes};

    put(rd, head, sizeof(head));
    put(rd, data, n_bytes);
}

bell_status
qk_rd_create(const char *path, uint32_t chip_id, struct qk_rd **out_rd)
{
    struct qk_rd *rd = host_calloc(1, sizeof(*rd));
    uint64_t id = chip_id;

    if (!rd)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a capture");
    rd->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (rd->fd < 0) {
        int error = errno;
        host_free(rd);
        return bell_fail_errno(BELL_E_IO, error, "rd=%s: %s", path,
                               strerror(error));
    }
    section(rd, RD_CHIP_ID, &id, sizeof(id));
    section(rd, RD_CMD, "doorbell", 8);
    *out_rd = rd;
    return BELL_OK;
}

void
qk_rd_destroy(struct qk_rd *rd)
{
    if (!rd)
        return;
    close(rd->fd);
    host_free(rd);
}

static bool
has_stream(const struct qk_buf *buf, const struct qsim_batch *batch)
{
    uint32_t i;

    for (i = 0; i < batch->n_ibs; i++) {
        if (batch->ibs[i].va >= buf->va &&
            batch->ibs[i].va < buf->va + buf->size_bytes)
            return true;
    }
    return false;
}

void
qk_rd_submission(struct qk_rd *rd, struct qk_buf *const *bufs, size_t n,
                 const struct qsim_batch *batch)
{
    uint32_t at[3], i;
    size_t k;

    for (k = 0; k < n; k++) {
        if (bufs[k]->size_bytes >= 1u << 31)
            continue;
        at[0] = (uint32_t)bufs[k]->va;
        at[1] = (uint32_t)bufs[k]->size_bytes;
        at[2] = (uint32_t)(bufs[k]->va >> 32);
        section(rd, RD_GPUADDR, at, sizeof(at));
        if (bufs[k]->size_bytes <= MOST_BYTES || has_stream(bufs[k], batch))
            section(rd, RD_BUFFER_CONTENTS, bufs[k]->dev, at[1]);
    }
    for (i = 0; i < batch->n_ibs; i++) {
        at[0] = (uint32_t)batch->ibs[i].va;
        at[1] = (uint32_t)(batch->ibs[i].size_bytes / 4);
        at[2] = (uint32_t)(batch->ibs[i].va >> 32);
        section(rd, RD_CMDSTREAM_ADDR, at, sizeof(at));
    }
}
