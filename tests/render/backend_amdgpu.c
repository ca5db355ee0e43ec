/* The LLVM emitter for AMD's cards; its code runs in the interpreter of
 * sim/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "amdgpu_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tests/unit/sanitized.h"

const char *const amdgpu_chips[AMDGPU_N_CHIPS] = {"gfx942", "gfx1100", "gfx90a",
                                                  "gfx1030", "gfx1201"};
static const enum isa_gen gens[AMDGPU_N_CHIPS] = {
    ISA_GFX942, ISA_GFX11, ISA_GFX90A, ISA_GFX10, ISA_GFX12};

struct amdgpu_target
amdgpu_check_target(unsigned idx)
{
    struct amdgpu_target target = {.arg_align_bytes = 64};

    snprintf(target.gfx, sizeof(target.gfx), "%s", amdgpu_chips[idx]);
    return target;
}

static size_t
buf_bytes(const struct p_buf *buf)
{
    return buf->n_elems * uop_dtype_infos[buf->dtype].size_bytes;
}

/* ---- running ---- */

/* Every buffer is a region of its own; code and arguments another. */
struct memory {
    struct arena_memory code;
    uint64_t scratch_va; /* in `code`, the rest of it */
    const struct p_buf *bufs;
    uint32_t n_bufs;
    unsigned char last[64]; /* of a buffer, and what follows it */
};

#define CODE_ROOM_BYTES (16u << 20)
#define BUF_VA(i)       ((uint64_t)((i) + 1) << 32)

static void *
at(void *user, uint64_t va, uint32_t n_bytes, enum amd_access access)
{
    struct memory *m = user;
    uint64_t i = (va >> 32) - 1, offset = (uint32_t)va;
    size_t size;

    if (va >= ARENA_VA && va + n_bytes <= ARENA_VA + m->code.size_bytes &&
        (access == AMD_ACCESS_FETCH || access == AMD_ACCESS_SCALAR ||
         va >= m->scratch_va))
        return memory_at(&m->code, va);
    if (i >= m->n_bufs || offset >= (size = buf_bytes(&m->bufs[i])))
        return NULL;
    if (offset + n_bytes <= size)
        return (char *)m->bufs[i].data + offset;
    /* what is aligned may be read whole: it is in one page */
    if (access != AMD_ACCESS_SCALAR || n_bytes > sizeof(m->last) ||
        offset % n_bytes)
        return NULL;
    memset(m->last, 0xa5, sizeof(m->last));
    memcpy(m->last, (char *)m->bufs[i].data + offset, size - offset);
    return m->last;
}

static void
fail_with_code(const struct lower_program *p,
               const struct amdgpu_target *target, const char *what)
{
    char message[BELL_ERROR_MESSAGE], *text = NULL;

    snprintf(message, sizeof(message), "%s", bell_error_last()->message);
    if (render_amdgpu_asm(p, target, &text) == BELL_OK)
        fprintf(stderr, "%s\n", text);
    host_free(text);
    fail_msg("%s on %s: %s", what, target->gfx, message);
}

static void
launch_object(struct memory *m, struct amd_object *object,
              const struct lower_program *p, unsigned chip, const int64_t *vars,
              const char *what)
{
    struct amdgpu_target target = amdgpu_check_target(chip);
    uint64_t args[CHECK_MAX_BUFS + 8], va;
    struct amd_launch launch = {.seed = 5, .max_insns = 100000000};
    struct amd_wave_report report;
    struct amd_code *code;
    uint32_t properties, i;

    for (i = 0; i < p->n_params; i++)
        args[i] = BUF_VA(i);
    for (i = 0; i < p->n_vars; i++)
        args[p->n_params + i] = (uint64_t)vars[i];
    va = memory_put(&m->code, args, (p->n_params + p->n_vars) * sizeof(*args));
    properties = object_kernel(object, p->name, &launch);
    launch.wave32 = properties >> 10 & 1;
    m->scratch_va = ARENA_VA + m->code.used;
    object_user_data(object, gens[chip], properties, va, &launch);
    launch.memory = (struct amd_memory){.at = at, .user = m};
    memcpy(launch.grid, p->grid, sizeof(launch.grid));
    memcpy(launch.local, p->local, sizeof(launch.local));
    assert_int_equal(amd_code_create(gens[chip], &code), BELL_OK);
    if (amd_wave_run(code, &launch, &report) != BELL_OK)
        fail_with_code(p, &target, what);
    amd_code_destroy(code);
}

void
amdgpu_check_run(const struct lower_program *p, unsigned chip,
                 const struct p_buf *bufs, uint32_t n_bufs, const int64_t *vars,
                 const char *what)
{
    struct amdgpu_target target = amdgpu_check_target(chip);
    struct memory m = {.bufs = bufs, .n_bufs = n_bufs};
    struct render_binary binary;
    struct amd_object object;

    if (render_amdgpu(p, &target, &binary) != BELL_OK)
        fail_msg("%s on %s: %s", what, target.gfx, bell_error_last()->message);
    memory_init(&m.code, binary.size_bytes + CODE_ROOM_BYTES);
    object_load_data(&object, &m.code, binary.data, binary.size_bytes);
    launch_object(&m, &object, p, chip, vars, what);
    object_free(&object);
    memory_fini(&m.code);
    render_binary_fini(&binary);
}

/* ---- compiling ---- */

/* The descriptor against what the program is. src: docs/hardware/amd-code.md,
 * "Kernel descriptor", "Start of a wave". */
static void
check_descriptor(const struct lower_program *p, unsigned chip,
                 const struct render_binary *binary, const char *what)
{
    struct amd_launch launch = {.pc = 0};
    struct arena_memory memory;
    struct amd_object object;
    unsigned char kd[64];
    uint32_t properties, words[3], dims, ids;
    uint64_t kd_va;
    size_t size;

    memory_init(&memory, binary->size_bytes + 65536);
    object_load_data(&object, &memory, binary->data, binary->size_bytes);
    properties = object_kernel(&object, p->name, &launch);
    kd_va = object_section(&object, ".rodata", &size);
    assert_true(size >= sizeof(kd));
    memcpy(kd, memory_at(&memory, kd_va), sizeof(kd));
    memcpy(words, kd, sizeof(words));
    if (words[0] != p->shared_bytes)
        fail_msg("%s: %u bytes of LDS, not %u", what, words[0],
                 p->shared_bytes);
    if (words[2] > (p->n_params + p->n_vars) * 8)
        fail_msg("%s: %u bytes of arguments for %u", what, words[2],
                 p->n_params + p->n_vars);
    assert_int_equal(launch.pc & 255, 0);
    assert_int_equal(properties >> 10 & 1, chip == 1 || chip > 2); /* wave32 */
    assert_int_equal(properties & 0x36, 0); /* no dispatch, queue pointer .. */
    ids = launch.rsrc2 >> 11 & 3;
    dims = p->local[2] > 1 ? 2 : p->local[1] > 1;
    assert_true(ids >= dims || p->n_params == 0);
    object_free(&object);
    memory_fini(&memory);
}

void
amdgpu_check_compile_on(const struct lower_program *p, unsigned chip,
                        const char *what)
{
    struct amdgpu_target target = amdgpu_check_target(chip);
    struct render_binary binary;

    if (render_amdgpu(p, &target, &binary) != BELL_OK)
        fail_msg("%s on %s: %s", what, target.gfx, bell_error_last()->message);
    check_descriptor(p, chip, &binary, what);
    render_binary_fini(&binary);
}

/* ---- the backend ---- */

static bool
has_alu(enum uop_op op, enum uop_dtype dtype)
{
    return !uop_dtype_is_small(dtype) || op == UOP_WHERE;
}

/* Those of BF16, and F64 to F16, are decomposed. */
static bool
has_cast(enum uop_dtype from, enum uop_dtype to)
{
    return from != UOP_BF16 && to != UOP_BF16 &&
           (from != UOP_F64 || to != UOP_F16);
}

static bell_status
lower_target(unsigned chip, struct lower_target *out)
{
    struct amdgpu_target target = amdgpu_check_target(chip);

    return render_amdgpu_lower_target(&target, out);
}

static bell_status
render(const struct lower_program *p, unsigned chip, struct render_binary *out)
{
    struct amdgpu_target target = amdgpu_check_target(chip);

    return render_amdgpu(p, &target, out);
}

static void
finish(void)
{
}

const struct backend backend_amdgpu = {
    .name = "llvm-amdgpu",
    .chips = amdgpu_chips,
    .n_chips = AMDGPU_N_CHIPS,
    .n_first = 2,
    .n_targets = AMDGPU_N_CHIPS,
    .is_gpu = true,
    .thin = IS_SANITIZED ? 20 : 16,
    .has_alu = has_alu,
    .has_cast = has_cast,
    .lower_target = lower_target,
    .render = render,
    .run = amdgpu_check_run,
    .keep = amdgpu_check_compile_on,
    .finish = finish,
};
