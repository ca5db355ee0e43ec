/* Programs: the checks that every backend shares. */
#include "hcq/hcq_backend.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "hcq/hcq_facts.h"
#include "hcq/hcq_tell.h"

static bell_status
check_desc(const struct hcq_device *dev, const struct hcq_program_desc *desc)
{
    const struct hcq_device_info *info = &dev->info;
    bool any_local = desc->local[0] || desc->local[1] || desc->local[2];
    uint64_t total = 1;
    int i;

    if (desc->struct_size < sizeof(*desc))
        return bell_fail(BELL_BAD_VALUE,
                         "program: descriptor of %u bytes, %zu are known",
                         desc->struct_size, sizeof(*desc));
    if (!desc->name || !desc->name[0])
        return bell_fail(BELL_BAD_MISSING, "program without a name");
    if (!desc->binary || desc->binary_size_bytes == 0)
        return bell_fail(BELL_BAD_MISSING, "program '%s': no binary",
                         desc->name);
    if ((uint64_t)desc->n_bufs + desc->n_vals > info->max_args)
        return bell_fail(
            BELL_BAD_VALUE, "program '%s': %u + %u arguments, %s takes %u",
            desc->name, desc->n_bufs, desc->n_vals, info->name, info->max_args);
    for (i = 0; any_local && i < 3; i++) {
        if (desc->local[i] == 0 || desc->local[i] > info->max_local[i])
            return bell_fail(BELL_BAD_VALUE,
                             "program '%s': local size %u on axis %d, %s "
                             "takes 1 to %u",
                             desc->name, desc->local[i], i, info->name,
                             info->max_local[i]);
        total *= desc->local[i];
    }
    if (total > info->max_local_total)
        return bell_fail(BELL_BAD_VALUE,
                         "program '%s': %llu work-items in a group, %s "
                         "takes %u",
                         desc->name, (unsigned long long)total, info->name,
                         info->max_local_total);
    if (desc->shared_bytes > info->max_shared_bytes)
        return bell_fail(BELL_BAD_VALUE,
                         "program '%s': %u bytes of shared memory, %s has %u",
                         desc->name, desc->shared_bytes, info->name,
                         info->max_shared_bytes);
    return BELL_OK;
}

void
hcq_program_init(struct hcq_program_base *prog, struct hcq_device *dev,
                 const struct hcq_program_desc *desc)
{
    assert(desc->n_bufs + desc->n_vals <= HCQ_ARGS_MAX);
    prog->pub.dev = dev;
    snprintf(prog->pub.name, sizeof(prog->pub.name), "%s", desc->name);
    prog->pub.n_bufs = desc->n_bufs;
    prog->pub.n_vals = desc->n_vals;
    memcpy(prog->pub.local, desc->local, sizeof(prog->pub.local));
    prog->pub.shared_bytes = desc->shared_bytes;
    prog->max_local_total = dev->info.max_local_total;
    prog->max_steps = desc->max_steps;
    prog->group_ns = desc->group_ns;
    hcq_link_init(&prog->link);
}

bell_status
hcq_program_create(struct hcq_device *dev, const struct hcq_program_desc *desc,
                   struct hcq_program **out_prog)
{
    BELL_TRY(hcq_program_create_in(dev, desc, NULL, out_prog));
    return BELL_OK;
}

bell_status
hcq_program_create_in(struct hcq_device *dev,
                      const struct hcq_program_desc *desc,
                      const struct hcq_code_file *file,
                      struct hcq_program **out_prog)
{
    struct hcq_program_base *prog;
    bell_status status;

    if (!dev || !desc || !out_prog)
        return bell_fail(BELL_BAD_MISSING, "program create: %s is NULL",
                         !dev    ? "the device"
                         : !desc ? "the descriptor"
                                 : "the result");
    BELL_TRY(hcq_check_process(dev));
    BELL_TRY(check_desc(dev, desc));
    if (file && dev->ops->program_use)
        BELL_TRY(dev->ops->program_use(dev, desc, file, &prog));
    else
        BELL_TRY(dev->ops->program_create(dev, desc, &prog));
    assert(prog->pub.dev == dev);
    pthread_mutex_lock(&dev->lock);
    hcq_link_add(&dev->programs, &prog->link);
    pthread_mutex_unlock(&dev->lock);
    *out_prog = &prog->pub;
    if (!dev->is_told)
        return BELL_OK;
    status = hcq_tell(dev, KIO_TOLD_PROGRAM, desc->name, prog->pub.code_va,
                      (void *)(uintptr_t)desc->binary, desc->binary_size_bytes);
    if (status != BELL_OK) {
        hcq_program_destroy(&prog->pub);
        *out_prog = NULL;
    }
    return status;
}

bool
hcq_program_name_at(struct hcq_device *dev, uint64_t code_va,
                    char out_name[HCQ_NAME_MAX])
{
    struct hcq_link *link;
    bool found = false;

    pthread_mutex_lock(&dev->lock);
    for (link = dev->programs.next; link != &dev->programs && !found;
         link = link->next) {
        const struct hcq_program_base *prog =
            HCQ_CONTAINER(link, struct hcq_program_base, link);

        found = prog->pub.code_va == code_va;
        if (found)
            memcpy(out_name, prog->pub.name, HCQ_NAME_MAX);
    }
    pthread_mutex_unlock(&dev->lock);
    return found;
}

void
hcq_program_destroy(struct hcq_program *pub)
{
    struct hcq_program_base *prog;
    struct hcq_device *dev;

    if (!pub || hcq_is_inherited(pub->dev))
        return;
    prog = HCQ_CONTAINER(pub, struct hcq_program_base, pub);
    dev = pub->dev;
    pthread_mutex_lock(&dev->lock);
    hcq_link_remove(&prog->link);
    pthread_mutex_unlock(&dev->lock);
    dev->ops->program_destroy(prog);
}
