/* Programs: a code object in the card's memory, and what its launches need.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "hcq/amd/amd_command.h"
#include "hcq/amd/amd_kfd.h"
#include "hcq/amd/amd_object.h"
#include "hcq/amd/regs/amd_object.h"

static struct amd_program *
amd_program_from(struct hcq_program_base *base)
{
    return HCQ_CONTAINER(base, struct amd_program, base);
}

/* ---- what the program asks for, against what the card has ---------------- */

static bell_status
check_machine(const struct amd_device *dev, const struct amd_object *object)
{
    const struct chip_arch *chip = chip_amd_of_machine(object->machine);

    if (chip == dev->chip)
        return BELL_OK;
    return bell_fail(BELL_E_INVALID,
                     "program '%s': machine code for %s (0x%x) does not run on "
                     "%s, which is %s",
                     object->name, chip ? chip->name : "a chip",
                     object->machine, dev->base.info.name, dev->chip->name);
}

/* Arguments are words of 8 bytes, one after the other, and what the compiler
 * has added for the sizes of the launch. */
static bell_status
check_args(struct amd_program *prog, const struct amd_object *object,
           const struct hcq_program_desc *desc)
{
    uint32_t n = desc->n_bufs + desc->n_vals;

    prog->hidden_bytes = object->kernarg_bytes - n * 8;
    if (prog->hidden_bytes == 0 || prog->hidden_bytes == AMD_HIDDEN_BYTES)
        return BELL_OK;
    return bell_fail(BELL_E_INVALID,
                     "program '%s': the kernel takes %u bytes of arguments, "
                     "%u + %u words of 8 are described",
                     object->name, object->kernarg_bytes, desc->n_bufs,
                     desc->n_vals);
}

/* What registers a launch must set up. */
static bell_status
check_properties(const struct amd_device *dev, const struct amd_object *object)
{
    struct amd_object_properties has =
        amd_unpack_object_properties(object->properties);
    const char *what = has.dispatch_ptr           ? "a dispatch pointer"
                       : has.queue_ptr            ? "a queue pointer"
                       : has.dispatch_id          ? "a dispatch id"
                       : has.private_segment_size ? "the size of its scratch"
                       : has.dynamic_stack        ? "a stack of any size"
                       : object->kernarg_preload  ? "arguments in registers"
                                                  : NULL;

    if (what)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "program '%s': the kernel asks for %s", object->name,
                         what);
    if ((has.wave32 ? 32 : 64) != dev->gen->wave_lanes)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "program '%s': waves of %u lanes on %s", object->name,
                         has.wave32 ? 32 : 64, dev->chip->name);
    return BELL_OK;
}

static bell_status
set_lds(struct amd_program *prog, const struct amd_device *dev,
        const struct amd_object *object, uint32_t dynamic_bytes)
{
    uint64_t bytes = (uint64_t)object->lds_bytes + dynamic_bytes;

    prog->lds_bytes = (uint32_t)bytes;
    prog->dynamic_lds_bytes = dynamic_bytes;
    if (bytes <= dev->gen->max_lds_bytes)
        return BELL_OK;
    return bell_fail(BELL_E_INVALID,
                     "program '%s': %u + %u bytes of shared memory, static and "
                     "dynamic; a group on %s has %u",
                     object->name, object->lds_bytes, dynamic_bytes,
                     dev->base.info.name, dev->gen->max_lds_bytes);
}

/* Code that was compiled for groups of so many may have too few registers left,
 * or no barrier, for more. */
static bell_status
set_group(struct amd_program *prog, const struct amd_object *object)
{
    const uint32_t *local = prog->base.pub.local; /* 0: any */

    if (object->max_group && object->max_group < prog->base.max_local_total)
        prog->base.max_local_total = object->max_group;
    if ((uint64_t)local[0] * local[1] * local[2] <= prog->base.max_local_total)
        return BELL_OK;
    return bell_fail(BELL_E_INVALID,
                     "program '%s': %ux%ux%u work-items in a group; as "
                     "compiled, it takes %u",
                     object->name, local[0], local[1], local[2],
                     prog->base.max_local_total);
}

/* ---- life ---------------------------------------------------------------- */

static bell_status
amd_code_upload(struct amd_program *prog, struct amd_device *dev,
                const struct amd_object *object)
{
    uint8_t *image;
    bell_status status;

    assert(object->image_bytes > 0);
    BELL_TRY(
        amd_mem_alloc(dev, object->image_bytes, AMD_MEM_VISIBLE, &prog->code));
    image = host_alloc((size_t)object->image_bytes);
    if (!image)
        return bell_fail(BELL_E_NO_MEMORY,
                         "program '%s': out of memory for %llu bytes",
                         object->name, (unsigned long long)object->image_bytes);
    status =
        amd_object_link(object, prog->code.va, dev->gen->code_filler, image);
    if (status == BELL_OK)
        status = amd_buffer_write(&dev->base, prog->code.va, image,
                                  object->image_bytes);
    host_free(image);
    return status;
}

static bell_status
amd_code_load(struct amd_program *prog, struct amd_device *dev,
              const struct amd_object *object,
              const struct hcq_program_desc *desc)
{
    assert(!prog->code.va);
    BELL_TRY(check_machine(dev, object));
    BELL_TRY(check_args(prog, object, desc));
    BELL_TRY(check_properties(dev, object));
    BELL_TRY(set_lds(prog, dev, object, desc->shared_bytes));
    BELL_TRY(set_group(prog, object));
    BELL_TRY(amd_code_upload(prog, dev, object));
    prog->entry_va = prog->code.va + object->entry_offset;
    assert(prog->entry_va - prog->code.va < object->image_bytes);
    prog->descriptor_va = prog->code.va + object->descriptor_offset;
    prog->rsrc1 = object->rsrc1;
    prog->rsrc2 = object->rsrc2;
    prog->rsrc3 = object->rsrc3;
    prog->properties = object->properties;
    prog->scratch_bytes = object->scratch_bytes;
    amd_pm4_prepare(dev, prog);
    prog->base.pub.code_va = prog->entry_va;
    prog->base.pub.code_size_bytes = object->image_bytes;
    return prog->scratch_bytes ? amd_scratch_grow(dev, prog->scratch_bytes)
                               : BELL_OK;
}

bell_status
amd_program_create(struct hcq_device *base_dev,
                   const struct hcq_program_desc *desc,
                   struct hcq_program_base **out_prog)
{
    struct amd_program *prog = host_calloc(1, sizeof(*prog));
    struct amd_object object;
    bell_status status;

    if (!prog)
        return bell_fail(BELL_E_NO_MEMORY, "program '%s': out of memory",
                         desc->name);
    hcq_program_init(&prog->base, base_dev, desc);
    status = amd_object_open(desc->binary, desc->binary_size_bytes, desc->name,
                             desc->entry ? desc->entry : desc->name, &object);
    if (status == BELL_OK) {
        status = amd_code_load(prog, amd_device_of(base_dev), &object, desc);
        amd_object_close(&object);
    }
    if (status != BELL_OK) {
        amd_program_destroy(&prog->base);
        return status;
    }
    *out_prog = &prog->base;
    return BELL_OK;
}

void
amd_program_destroy(struct hcq_program_base *base)
{
    struct amd_program *prog = amd_program_from(base);

    amd_mem_free(amd_device_of(base->pub.dev), &prog->code);
    host_free(prog);
}
