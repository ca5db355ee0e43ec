/* Opens devices beside the one under test, and looks at memory they share. */
#include "peers.h"

#include <stdio.h>
#include <stdlib.h>

/* Device `idx` behind the interface of the device under test. */
static void
name_of(const struct cts *t, unsigned idx, char *text, size_t size_bytes)
{
    const char *at = strchr(t->device, '@');

    snprintf(text, size_bytes, "%s:%u%s", t->info.backend, idx, at ? at : "");
}

static void
fill_side(struct cts *t, struct peer_side *side)
{
    OK(hcq_queue_create(side->dev, HCQ_QUEUE_COMPUTE, &side->queue));
    OK(hcq_queue_create(side->dev, HCQ_QUEUE_COPY, &side->copy));
    OK(hcq_signal_create(side->dev, 0, &side->sig));
    side->add_one = cts_load(t, side->dev, CTS_ADD_ONE, 0);
}

/* Each sees memory and signals of each, or the case ends here. */
static void
check_all_see(struct peers *p)
{
    unsigned i, k;

    for (i = 0; i < p->n; i++) {
        struct hcq_buffer *own = peers_ints(p->side[i].dev, 1, 0);

        for (k = 0; k < p->n; k++) {
            if (i != k)
                hcq_buffer_destroy(peers_see(p->side[k].dev, own));
        }
        hcq_buffer_destroy(own);
    }
}

static void
open_sides(struct cts *t, struct peers *p, unsigned n, bool same)
{
    char name[160];
    unsigned i;

    memset(p, 0, sizeof(*p));
    p->t = t;
    p->side[0].dev = t->dev;
    p->is_one_card = same;
    for (i = 1; i < n; i++) {
        struct peer_side *side = &p->side[i];

        name_of(t, i, name, sizeof(name));
        if (!p->is_one_card &&
            cts_open_other(t, name, &side->dev) == BELL_E_NO_DEVICE) {
            p->is_one_card = i == 1;
            side->dev = NULL;
        }
        if (!side->dev)
            OK(cts_open_other(t, t->device, &side->dev));
        OK(hcq_device_status(side->dev));
    }
    p->n = n;
    for (i = 0; i < n; i++)
        fill_side(t, &p->side[i]);
}

void
peers_open_any(struct cts *t, struct peers *p, unsigned n)
{
    open_sides(t, p, n, false);
}

void
peers_open(struct cts *t, struct peers *p, unsigned n)
{
    open_sides(t, p, n, false);
    check_all_see(p);
}

void
peers_open_same(struct cts *t, struct peers *p, unsigned n)
{
    open_sides(t, p, n, true);
    check_all_see(p);
}

void
peers_close(struct peers *p)
{
    cts_close_others(p->t);
    p->n = 1;
}

struct hcq_buffer *
peers_ints(struct hcq_device *dev, uint64_t n, int32_t value)
{
    int32_t *data = malloc((size_t)n * 4 + 1);
    struct hcq_buffer *buf;
    uint64_t i;

    CHECK(data, "test memory");
    for (i = 0; i < n; i++)
        data[i] = value;
    OK(hcq_buffer_create(dev, n * 4, HCQ_MEM_DEVICE, &buf));
    OK(hcq_buffer_write(buf, 0, data, n * 4));
    free(data);
    return buf;
}

bool
peers_names_both(const struct hcq_device *a, const struct hcq_device *b)
{
    const char *message = bell_error_last()->message;

    return strstr(message, hcq_device_name(a)) &&
           strstr(message, hcq_device_name(b));
}

struct hcq_buffer *
peers_see(struct hcq_device *dev, const struct hcq_buffer *of)
{
    struct hcq_buffer *buf;
    bell_status status = hcq_buffer_create_peer(dev, of, &buf);

    if (status == BELL_E_UNSUPPORTED) {
        CHECK(peers_names_both(dev, of->dev), "%s", bell_error_last()->message);
        if (cts_may_lack(dev, CTS_LACK_PEERS))
            cts_skip("%s", bell_error_last()->message);
    }
    OK(status);
    CHECK(buf->dev == dev && buf->size_bytes == of->size_bytes &&
              buf->host == of->host,
          "another buffer");
    return buf;
}

void
peers_check(struct hcq_buffer *buf, int32_t value, const char *what)
{
    int32_t data[4096];
    uint64_t at, n, i;

    for (at = 0; at < buf->size_bytes; at += n) {
        n = buf->size_bytes - at;
        n = n < sizeof(data) ? n : sizeof(data);
        OK(hcq_buffer_read(buf, at, data, n));
        for (i = 0; i < n / 4; i++)
            CHECK(data[i] == value, "%s: number %llu is %d, not %d", what,
                  (unsigned long long)(at / 4 + i), data[i], value);
    }
}

void
peers_add_one(struct hcq_cs *cs, const struct peer_side *side,
              const struct hcq_buffer *to, const struct hcq_buffer *from,
              uint64_t n)
{
    uint32_t n_groups = n % 8 ? 1 : 8;

    cts_exec(cs, side->add_one, n_groups, ARGS(to->va, from->va, n / n_groups));
}
