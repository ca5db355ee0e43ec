/* Programs: code in memory, what its launches need, and private memory. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/chip.h"
#include "hcq/qcom/qcom_move.h"

#define CODE_ALIGN     128u
#define INSTR_BYTES    8u
#define FIBER_MIN      512u /* of private memory of a thread */
#define FIBER_MAX      65536u
#define MAX_DEPTH      64u
#define OBJECT_MAGIC   0x33726941u
#define OBJECT_VERSION 1u

/* What the compiler makes; instructions follow at once. Little-endian.
 * src: render/ir3/ir3.h */
struct object {
    uint32_t magic, version;
    uint32_t gen;
    uint32_t n_instrs;
    uint32_t n_full_vec4, n_const_vec4;
    uint32_t branch_depth;
    uint32_t shared_bytes, private_bytes;
    uint32_t n_params, n_vars;
    uint32_t local[3];
};

static_assert(sizeof(struct object) == 56, "object");

/* ---- what the program asks for, against what the chip has ---------------- */

static bell_status
refuse(const struct hcq_program_desc *desc, const char *why)
{
    return bell_fail(BELL_E_INVALID, "program '%s': %s", desc->name, why);
}

static bell_status
read_shader_object(const struct qcom_device *dev,
                   const struct hcq_program_desc *desc, struct object *out)
{
    const struct qcom_gen *gen = qcom_gen_of(dev->chip);

    if (desc->binary_size_bytes < sizeof(*out))
        return refuse(desc, "no object of Adreno: too short");
    memcpy(out, desc->binary, sizeof(*out));
    if (out->magic != OBJECT_MAGIC || out->version != OBJECT_VERSION)
        return refuse(desc, "no object of Adreno, or of another version");
    if (out->n_instrs == 0 ||
        desc->binary_size_bytes !=
            sizeof(*out) + (uint64_t)out->n_instrs * INSTR_BYTES)
        return refuse(desc, "an object of Adreno that is cut off");
    if (out->gen != gen->code_gen)
        return bell_fail(BELL_E_INVALID,
                         "program '%s': machine code for another generation "
                         "than %s's",
                         desc->name, dev->chip->name);
    if (out->n_params + (uint64_t)out->n_vars !=
        desc->n_bufs + (uint64_t)desc->n_vals)
        return bell_fail(BELL_E_INVALID,
                         "program '%s': the kernel takes %u + %u arguments, "
                         "%u + %u are described",
                         desc->name, out->n_params, out->n_vars, desc->n_bufs,
                         desc->n_vals);
    if (out->n_const_vec4 > gen->max_const_vec4)
        return refuse(desc, "more constants than launches on the chip have");
    if (out->n_full_vec4 > 48 || out->branch_depth > MAX_DEPTH)
        return refuse(desc, "more registers or branches than the chip has");
    return BELL_OK;
}

static bell_status
set_shared(struct qcom_program *prog, const struct qcom_device *dev,
           const struct object *object, uint32_t dynamic_bytes)
{
    uint64_t bytes = (uint64_t)object->shared_bytes + dynamic_bytes;

    prog->shared_bytes = (uint32_t)bytes;
    if (bytes <= dev->base.info.max_shared_bytes)
        return BELL_OK;
    return bell_fail(BELL_E_INVALID,
                     "program '%s': %u + %u bytes of shared memory, static and "
                     "dynamic; a group on %s has %u",
                     prog->base.pub.name, object->shared_bytes, dynamic_bytes,
                     dev->base.info.name, dev->base.info.max_shared_bytes);
}

/* Waves are wide where a group fills more than a narrow one, and registers
 * suffice. A group must be there as a whole.
 * src: docs/hardware/adreno-queues.md, "Occupancy" */
static bell_status
set_shader_group(struct qcom_program *prog, const struct qcom_device *dev,
                 const struct object *object)
{
    const uint32_t *local = prog->base.pub.local; /* 0: any */
    uint64_t total =
        (uint64_t)object->local[0] * object->local[1] * object->local[2];
    uint32_t most;

    assert(object->n_full_vec4 <= 48);
    prog->is_wide =
        total > 64 && 2 * object->n_full_vec4 <= dev->chip->adreno.file_vec4;
    most = qcom_launch_threads(dev->chip, object->n_full_vec4, prog->is_wide);
    if (most < prog->base.max_local_total)
        prog->base.max_local_total = most;
    if ((uint64_t)local[0] * local[1] * local[2] <= prog->base.max_local_total)
        return BELL_OK;
    return bell_fail(BELL_E_INVALID,
                     "program '%s': %ux%ux%u work-items in a group; with its "
                     "%u registers it takes %u",
                     prog->base.pub.name, local[0], local[1], local[2],
                     4 * object->n_full_vec4, prog->base.max_local_total);
}

/* A power of two, for which the chip has 8 bits, in 512 bytes. What all threads
 * of a processor have is then whole pages, and has its 18 bits.
 * src: docs/hardware/adreno-queues.md, "Private memory" */
static bell_status
set_private(struct qcom_program *prog, struct qcom_device *dev,
            const struct object *object)
{
    uint64_t fiber = FIBER_MIN, sp;

    if (!object->private_bytes)
        return BELL_OK;
    while (fiber < object->private_bytes)
        fiber *= 2;
    if (fiber > FIBER_MAX)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "program '%s': %u bytes of private memory of each "
                         "thread are more than %s can have",
                         prog->base.pub.name, object->private_bytes,
                         dev->base.info.name);
    sp = fiber * dev->chip->adreno.fibers_per_sp;
    BELL_TRY(qcom_mem_alloc(dev, sp * dev->chip->n_units, QCOM_MEM_DEVICE,
                            &prog->scratch));
    prog->fiber_bytes = (uint32_t)fiber;
    prog->sp_bytes = (uint32_t)sp;
    return BELL_OK;
}

/* ---- life ---------------------------------------------------------------- */

/* Programs come and go: the last one's memory serves the next. */
static bell_status
take_code(struct qcom_device *dev, uint64_t size_bytes, struct qcom_mem *out)
{
    struct qcom_mem spare;

    assert(size_bytes % CODE_ALIGN == 0);
    pthread_mutex_lock(&dev->map_lock);
    spare = dev->spare_code;
    if (spare.size_bytes >= size_bytes)
        dev->spare_code = (struct qcom_mem){0};
    pthread_mutex_unlock(&dev->map_lock);
    if (spare.size_bytes < size_bytes)
        return qcom_mem_alloc(dev, size_bytes, QCOM_MEM_SHARED, out);
    *out = spare;
    return BELL_OK;
}

static void
leave_code(struct qcom_device *dev, struct qcom_mem *code)
{
    struct qcom_mem old;

    pthread_mutex_lock(&dev->map_lock);
    old = dev->spare_code;
    dev->spare_code = *code;
    pthread_mutex_unlock(&dev->map_lock);
    qcom_mem_free(dev, &old);
}

/* The bytes behind the code are fetched as well. */
static bell_status
load_code(struct qcom_program *prog, struct qcom_device *dev,
          const struct hcq_program_desc *desc)
{
    uint64_t bytes = (uint64_t)prog->n_instrs * INSTR_BYTES;

    assert(prog->n_instrs > 0 && !prog->code.va);
    BELL_TRY(
        take_code(dev, align_up(bytes, CODE_ALIGN) + CODE_ALIGN, &prog->code));
    memset(prog->code.cpu, 0, (size_t)prog->code.size_bytes);
    memcpy(prog->code.cpu,
           (const uint8_t *)desc->binary + sizeof(struct object),
           (size_t)bytes);
    prog->base.pub.code_va = prog->code.va;
    prog->base.pub.code_size_bytes = bytes;
    return BELL_OK;
}

static bell_status
load_program(struct qcom_program *prog, struct qcom_device *dev,
             const struct hcq_program_desc *desc)
{
    struct object object;

    BELL_TRY(read_shader_object(dev, desc, &object));
    BELL_TRY(set_shared(prog, dev, &object, desc->shared_bytes));
    BELL_TRY(set_shader_group(prog, dev, &object));
    BELL_TRY(set_private(prog, dev, &object));
    prog->n_instrs = object.n_instrs;
    prog->n_full_vec4 = object.n_full_vec4;
    prog->n_const_vec4 = object.n_const_vec4;
    prog->branch_depth = object.branch_depth;
    BELL_TRY(load_code(prog, dev, desc));
    return qcom_launch_make(dev->chip, prog, desc->n_bufs + desc->n_vals);
}

bell_status
qcom_program_create(struct hcq_device *base,
                    const struct hcq_program_desc *desc,
                    struct hcq_program_base **out_prog)
{
    struct qcom_program *prog = host_calloc(1, sizeof(*prog));

    if (!prog)
        return bell_fail(BELL_E_NO_MEMORY, "program '%s': out of memory",
                         desc->name);
    hcq_program_init(&prog->base, base, desc);
    if (load_program(prog, qcom_device_of(base), desc) != BELL_OK) {
        qcom_program_destroy(&prog->base);
        return bell_error_last()->status;
    }
    *out_prog = &prog->base;
    return BELL_OK;
}

void
qcom_program_destroy(struct hcq_program_base *base)
{
    struct qcom_program *prog = HCQ_CONTAINER(base, struct qcom_program, base);
    struct qcom_device *dev = qcom_device_of(base->pub.dev);

    leave_code(dev, &prog->code);
    qcom_mem_free(dev, &prog->scratch);
    host_free(prog->launch.words);
    host_free(prog);
}

/* ---- the driver's own ---------------------------------------------------- */

bell_status
qcom_moves_load(struct qcom_device *dev)
{
    const uint32_t bytes = QCOM_MOVE_INSTRS * INSTR_BYTES;
    unsigned kind;

    static_assert(QCOM_MOVE_INSTRS * INSTR_BYTES % CODE_ALIGN == 0, "aligned");
    BELL_TRY(qcom_mem_alloc(dev, QCOM_MOVE_COUNT * bytes + CODE_ALIGN,
                            QCOM_MEM_SHARED, &dev->move_code));
    for (kind = 0; kind < QCOM_MOVE_COUNT; kind++) {
        uint64_t words[QCOM_MOVE_INSTRS];

        (void)qcom_move_code(qcom_gen_of(dev->chip), kind, words);
        memcpy((uint8_t *)dev->move_code.cpu + kind * bytes, words, bytes);
        BELL_TRY(qcom_move_make(dev->chip, dev->move_code.va + kind * bytes,
                                &dev->moves[kind]));
    }
    return BELL_OK;
}

void
qcom_moves_free(struct qcom_device *dev)
{
    unsigned kind;

    for (kind = 0; kind < QCOM_MOVE_COUNT; kind++)
        host_free(dev->moves[kind].launch.words);
    qcom_mem_free(dev, &dev->move_code);
    qcom_mem_free(dev, &dev->spare_code);
}
