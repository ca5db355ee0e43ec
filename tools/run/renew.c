/* `doorbell run BUNDLE --weights FILE --save NEW`: what is in the file but for
 * DATA stays as it is; checksums are made again. */
#include "tools/run/renew.h"

#include <string.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/regular_file.h"
#include "hcq/hcq_bundle_file.h"

static bell_status
replace_data(const struct bundle_file *f, const struct bundle_weights *w,
             uint8_t *file)
{
    struct bundle_header *h = (void *)file;
    struct bundle_section *data = &h->sections[BUNDLE_DATA];
    size_t header_bytes = h->version >= BUNDLE_WITH_IR
                              ? sizeof(struct bundle_header_2)
                              : sizeof(*h);
    uint32_t i;

    for (i = 0; i < w->list.n_entries; i++) {
        const struct safetensors_entry *e = &w->list.entries[i];
        const struct bundle_value *v = &f->values[w->numbers[i]];

        if (v->data_offset == BUNDLE_NO_DATA)
            return bell_fail(BELL_BAD_NAME,
                             "state '%.80s' begins as zeros, which a bundle "
                             "does not hold",
                             e->name);
        memcpy(file + data->offset + v->data_offset,
               (const uint8_t *)w->map + e->offset, e->size_bytes);
    }
    data->checksum = bundle_checksum(file + data->offset, data->size_bytes);
    h->checksum = 0;
    h->checksum = bundle_checksum(h, header_bytes);
    return BELL_OK;
}

/* `file` is a copy of its own. */
static bell_status
renew(uint8_t *file, size_t size_bytes, const char *bundle, const char *weights,
      const struct bundle_check *check, const char *to)
{
    const struct file_part part = {file, size_bytes};
    struct bundle_weights w;
    struct bundle_file f;
    bell_status status;

    if (check->fn)
        BELL_TRY(check->fn(check->user, bundle, file, size_bytes));
    if (bundle_file_open(file, size_bytes, &f) != BELL_OK) {
        bell_error_prefix("%s", bundle);
        return bell_error_last()->status;
    }
    BELL_TRY(bundle_weights_open(&f, weights, check, &w));
    status = replace_data(&f, &w, file);
    if (status != BELL_OK)
        bell_error_prefix("%s", weights);
    bundle_weights_close(&w);
    return status == BELL_OK ? file_write(to, &part, 1) : status;
}

bell_status
run_renew(const char *bundle, const char *weights,
          const struct bundle_check *check, const char *to)
{
    bell_status status;
    size_t n_bytes;
    void *map;

    BELL_TRY(regular_file_map(bundle, &map, &n_bytes));
    status = renew(map, n_bytes, bundle, weights, check, to);
    munmap(map, n_bytes);
    return status;
}
