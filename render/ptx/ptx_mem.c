/* LOAD and STORE.
 *
 * An address is the register of an INDEX, and a constant that goes into the
 * instruction. Consecutive elements are accessed two or four at once where the
 * index is known to be aligned, up to 16 bytes. Gates become predicates.
 */
#include "render/ptx/ptx_internal.h"

#include <assert.h>
#include <stdio.h>

#include "base/bits.h"

#define STATIC_SHARED_BYTES (48u * 1024)

/* ---- shared memory ---- */

static uint64_t
local_bytes(const struct uop *u)
{
    const struct uop_local *local = u->arg.data;

    return align_up(
        (uint64_t)local->n_elems * uop_dtype_infos[u->dtype].size_bytes, 16);
}

static uint64_t
all_local_bytes(const struct lower_program *p)
{
    uint64_t n = 0, mbarriers = 0;
    uint32_t i;

    for (i = 0; i < p->n_ops; i++) {
        if (p->ops[i]->op == UOP_LOCAL)
            n += local_bytes(p->ops[i]);
        else if (p->ops[i]->op == UOP_TMA_COPY)
            mbarriers = PTX_MBARRIER_BYTES;
    }
    return n + mbarriers;
}

uint32_t
render_ptx_dynamic_bytes(const struct lower_program *p)
{
    uint64_t n = all_local_bytes(p);

    return n > STATIC_SHARED_BYTES ? (uint32_t)(n < UINT32_MAX ? n : UINT32_MAX)
                                   : 0;
}

uint32_t
render_ptx_static_bytes(const struct lower_program *p)
{
    uint64_t n = all_local_bytes(p);

    return n > STATIC_SHARED_BYTES ? 0 : (uint32_t)n;
}

/* A register with the address of so many bytes of shared memory. */
static struct ptx_opnd
declare_local(struct ptx_emit *e, unsigned long long offset,
              unsigned long long n_bytes)
{
    struct ptx_opnd base = ptx_reg(e, PTX_B32);

    assert(offset % 16 == 0 && n_bytes % 16 == 0);
    if (!e->n_dynamic_bytes) {
        render_put(&e->header, "\t.shared .align %u .b8 s%llu[%llu];\n",
                   e->has_wgmma ? 1024 : 16, offset, n_bytes);
        render_put(&e->body, "\tmov.u32 %%r%u, s%llu;\n", base.reg, offset);
    } else {
        render_put(&e->body, "\tmov.u32 %%r%u, dynamic_shared;\n", base.reg);
        if (offset)
            PTX_OP(e, "add.s32 %, %, %", base, base, ptx_imm(PTX_B32, offset));
    }
    return base;
}

bell_status
ptx_declare_locals(struct ptx_emit *e)
{
    unsigned long long offset = 0;
    struct ptx_opnd base;
    uint32_t i;

    e->n_dynamic_bytes = render_ptx_dynamic_bytes(e->prog);
    for (i = 0; i < e->prog->n_ops; i++) {
        const struct uop *u = e->prog->ops[i];
        if (u->op != UOP_LOCAL)
            continue;
        base = declare_local(e, offset, local_bytes(u));
        if (map_put(&e->locals, u->id, offset << 32 | base.reg) < 0)
            return ptx_no_memory(e);
        offset += local_bytes(u);
    }
    if (e->n_maps)
        e->mbarriers = declare_local(e, offset, PTX_MBARRIER_BYTES);
    if (offset > INT32_MAX)
        return bell_fail(BELL_E_UNSUPPORTED, "%s: %llu bytes of shared memory",
                         e->prog->name, offset);
    return BELL_OK;
}

/* ---- addresses ---- */

/* Further ones do not go into an instruction, with its lanes. */
#define MAX_OFFSET (INT64_C(1) << 27)

/* What is `index` elements behind an address. */
static struct ptx_opnd
ptx_displace(struct ptx_emit *e, struct ptx_opnd base, struct ptx_opnd index,
             uint32_t elem_bytes)
{
    struct ptx_opnd r = ptx_reg(e, base.cls), low;
    const char *fmt = "mad.lo.s32 %, %, %, %";

    assert(!base.is_imm && (base.cls == PTX_B32 || base.cls == PTX_B64));
    if (base.cls == PTX_B64) {
        fmt = index.cls == PTX_B64 ? "mad.lo.s64 %, %, %, %"
                                   : "mad.wide.s32 %, %, %, %";
    } else if (index.cls == PTX_B64 && !index.is_imm) {
        low = ptx_reg(e, PTX_B32);
        PTX_OP(e, "cvt.u32.u64 %, %", low, index);
        index = low;
    }
    PTX_OP(e, fmt, r, index, ptx_imm(PTX_B32, elem_bytes), base);
    return r;
}

/* Where memory begins, as `u` displaces it. */
static bell_status
find_ptx_base(struct ptx_emit *e, const struct uop *u, struct ptx_place *out)
{
    const struct uop *index = uop_index_of(u), *memory = uop_memory(u);
    const uint64_t *local = map_get(&e->locals, memory->id);
    struct ptx_value v;

    if (memory->op != UOP_PARAM && (memory->op != UOP_LOCAL || !local))
        return ptx_refuse(e, u, "it is not memory");
    *out = (struct ptx_place){
        .memory = memory,
        .align = index ? uop_index_align(index) : 1u << 16,
        .step = 1,
        .elem_bytes = uop_dtype_infos[memory->dtype].size_bytes};
    if (memory->op == UOP_LOCAL && !index) {
        out->base = (struct ptx_opnd){.cls = PTX_B32, .reg = (uint32_t)*local};
        return BELL_OK;
    }
    BELL_TRY(ptx_value_of(e, index ? index : memory, &v));
    out->base = v.lanes[0];
    return BELL_OK;
}

bell_status
ptx_emit_index(struct ptx_emit *e, const struct uop *u, struct ptx_opnd *out)
{
    struct ptx_place at;
    struct ptx_value v;

    assert(u->op == UOP_INDEX && u->src[1]->lanes == 1);
    BELL_TRY(find_ptx_base(e, u->src[0], &at));
    BELL_TRY(ptx_value_of(e, u->src[1], &v));
    *out = ptx_displace(e, at.base, v.lanes[0], at.elem_bytes);
    return BELL_OK;
}

bell_status
ptx_find_place(struct ptx_emit *e, const struct uop *u, uint32_t i,
               struct ptx_place *out)
{
    const struct uop *index = u->src[i + 1];
    int64_t last;

    assert(i + 1 < u->n_src);
    BELL_TRY(find_ptx_base(e, u->src[i], out));
    if (uop_index_steps(index, &out->first, &out->step) &&
        !__builtin_mul_overflow(out->step, index->lanes, &last) &&
        !__builtin_add_overflow(out->first, last, &last) &&
        out->first <= MAX_OFFSET && out->first >= -MAX_OFFSET &&
        last <= MAX_OFFSET && last >= -MAX_OFFSET)
        return BELL_OK;
    BELL_TRY(ptx_value_of(e, index, &out->indices));
    out->first = 0;
    out->step = 1;
    if (index->lanes > 1)
        return BELL_OK;
    out->base =
        ptx_displace(e, out->base, out->indices.lanes[0], out->elem_bytes);
    out->indices.lanes = NULL;
    out->align = 1;
    return BELL_OK;
}

/* ---- single instructions ---- */

/* The type that an access names. BOOL is a byte. */
static const char *
ptx_memory_type(unsigned dtype)
{
    static const char *const types[UOP_DTYPE_COUNT] = {
        [UOP_BOOL] = "u8",    [UOP_I8] = "s8",      [UOP_U8] = "u8",
        [UOP_I16] = "s16",    [UOP_U16] = "u16",    [UOP_I32] = "b32",
        [UOP_U32] = "b32",    [UOP_I64] = "b64",    [UOP_U64] = "b64",
        [UOP_F16] = "b16",    [UOP_BF16] = "b16",   [UOP_F32] = "f32",
        [UOP_F64] = "f64",    [UOP_F8E4M3] = "u8",  [UOP_F8E5M2] = "u8",
        [UOP_F8E4M3Z] = "u8", [UOP_F8E5M2Z] = "u8",
    };

    assert(dtype < UOP_DTYPE_COUNT && types[dtype]);
    return types[dtype];
}

/* Writes "@%p ld.global.v4.f32 {...}, [%rd1+16]" or its store. */
static void
put_access(struct ptx_emit *e, const struct ptx_access *a,
           const struct ptx_opnd *gate, struct ptx_opnd addr, int64_t offset,
           const struct ptx_opnd *lanes, uint32_t n)
{
    bool store = a->u->op == UOP_STORE;
    char vec[16] = "", fmt[128], place[32], list[32];
    struct ptx_opnd o[8];
    uint32_t k = 0, i;

    assert(!addr.is_imm && (n == 1 || n == 2 || n == 4));
    if (n > 1)
        snprintf(vec, sizeof(vec), ".v%u", n);
    snprintf(list, sizeof(list),
             n == 4   ? "{%%, %%, %%, %%}"
             : n == 2 ? "{%%, %%}"
                      : "%%");
    if (offset)
        snprintf(place, sizeof(place), "[%%+%lld]", (long long)offset);
    else
        snprintf(place, sizeof(place), "[%%]");
    snprintf(fmt, sizeof(fmt), "%s%s%s%s.%s %s, %s", gate ? "@% " : "",
             store ? "st" : "ld",
             a->at.memory->op == UOP_LOCAL ? ".shared" : ".global", vec,
             ptx_memory_type(a->dtype), store ? place : list,
             store ? list : place);
    if (gate)
        o[k++] = *gate;
    if (store)
        o[k++] = addr;
    for (i = 0; i < n; i++)
        o[k++] = lanes[i];
    if (!store)
        o[k++] = addr;
    ptx_op(e, fmt, o);
}

/* Registers that memory is read into or written from: a BOOL's is .b32. */
static enum ptx_class
memory_class(unsigned dtype)
{
    return dtype == UOP_BOOL ? PTX_B32 : ptx_class_of(dtype);
}

/* Elements that one instruction may access from this one on: up to four, or
 * four words of them. */
static uint32_t
ptx_chunk_size(const struct ptx_emit *e, const struct ptx_access *a,
               uint32_t lane)
{
    uint32_t left = a->lanes - lane, n, bytes;
    uint64_t align =
        a->at.memory->op == UOP_LOCAL ? 16 : e->target->arg_align_bytes;
    int64_t at = a->at.first + lane;

    assert(lane < a->lanes);
    if (a->at.indices.lanes || a->at.step != 1 ||
        (a->gate_node && a->gate_node->lanes > 1))
        return 1;
    for (n = 4 * ptx_packed(a->dtype); n > 1; n /= 2) {
        bytes = n * a->at.elem_bytes;
        if (n <= left && bytes <= 16 && bytes <= align &&
            (a->at.align & (n - 1)) == 0 && (at & (n - 1)) == 0)
            return n;
    }
    return 1;
}

/* ---- elements of 8 and 16 bits ---- */

uint32_t
ptx_packed(unsigned dtype)
{
    if (ptx_class_of(dtype) == PTX_B16)
        return 2;
    return uop_dtype_infos[dtype].size_bytes == 1 && dtype != UOP_BOOL ? 4 : 1;
}

/* The operand of prmt that has a byte, the word that it is known to be part of
 * if there is one; which of its bytes it is. */
static uint32_t
byte_source(struct ptx_emit *e, struct ptx_opnd byte, struct ptx_opnd *out)
{
    if (!byte.word) {
        *out = ptx_in_reg(e, byte);
        return 0;
    }
    *out = (struct ptx_opnd){.cls = PTX_B32, .reg = byte.word - 1};
    return byte.part;
}

/* Two bytes in the lower half of a register. */
static struct ptx_opnd
pack_two(struct ptx_emit *e, struct ptx_opnd lo, struct ptx_opnd hi)
{
    struct ptx_opnd r = ptx_reg(e, PTX_B32), a, b;
    uint32_t select = byte_source(e, lo, &a);

    select |= (4 + byte_source(e, hi, &b)) << 4;
    PTX_OP(e, "prmt.b32 %, %, %, %", r, a, b, ptx_imm(PTX_B32, select));
    return r;
}

/* Are they the parts of one word, in order? */
static bool
is_word(const struct ptx_opnd *lanes, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (!lanes[i].word || lanes[i].word != lanes[0].word ||
            lanes[i].part != i)
            return false;
    }
    return true;
}

/* Are they constants? Then of that word. */
static bool
is_constant(const struct ptx_opnd *lanes, uint32_t n, uint64_t *out_word)
{
    uint32_t bits = 32 / n, i;
    uint64_t word = 0;

    assert(n == 2 || n == 4);
    for (i = 0; i < n; i++) {
        if (!lanes[i].is_imm)
            return false;
        word |= (lanes[i].bits & (((uint64_t)1 << bits) - 1)) << i * bits;
    }
    *out_word = word;
    return true;
}

struct ptx_opnd
ptx_pack(struct ptx_emit *e, const struct ptx_opnd *lanes, uint32_t n)
{
    struct ptx_opnd r, lo, hi;
    uint64_t word;

    if (is_word(lanes, n))
        return (struct ptx_opnd){.cls = PTX_B32, .reg = lanes[0].word - 1};
    if (is_constant(lanes, n, &word))
        return ptx_in_reg(e, ptx_imm(PTX_B32, word));
    if (n == 4) {
        lo = pack_two(e, lanes[0], lanes[1]);
        hi = pack_two(e, lanes[2], lanes[3]);
        r = ptx_reg(e, PTX_B32);
        PTX_OP(e, "prmt.b32 %, %, %, %", r, lo, hi, ptx_imm(PTX_B32, 0x5410));
        return r;
    }
    r = ptx_reg(e, PTX_B32);
    lo = ptx_in_reg(e, lanes[0]);
    hi = ptx_in_reg(e, lanes[1]);
    PTX_OP(e, "mov.b32 %, {%, %}", r, lo, hi);
    return r;
}

void
ptx_unpack(struct ptx_emit *e, unsigned dtype, struct ptx_opnd word,
           struct ptx_opnd *lanes)
{
    uint32_t n = ptx_packed(dtype), i;

    assert(word.cls == PTX_B32 && !word.is_imm);
    if (n == 2)
        PTX_OP(e, "mov.b32 {%, %}, %", lanes[0], lanes[1], word);
    for (i = 0; i < n; i++) {
        if (n == 4)
            PTX_OP(
                e,
                dtype == UOP_I8 ? "bfe.s32 %, %, %, %" : "bfe.u32 %, %, %, %",
                lanes[i], word, ptx_imm(PTX_B32, 8 * i), ptx_imm(PTX_B32, 8));
        lanes[i].word = word.reg + 1;
        lanes[i].part = (uint8_t)i;
    }
}

/* put_access of whole words. `others` are what a closed gate gives. */
static void
put_words(struct ptx_emit *e, const struct ptx_access *a,
          const struct ptx_opnd *gate, struct ptx_opnd addr, int64_t offset,
          struct ptx_opnd *lanes, const struct ptx_opnd *others, uint32_t n)
{
    uint32_t pack = ptx_packed(a->dtype), i;
    bool store = a->u->op == UOP_STORE;
    struct ptx_access words = *a;
    struct ptx_opnd w[4];

    assert(pack > 1 && n % pack == 0 && n / pack <= ARRAY_LEN(w));
    words.dtype = UOP_U32;
    for (i = 0; i < n / pack; i++) {
        w[i] =
            store ? ptx_pack(e, lanes + pack * i, pack) : ptx_reg(e, PTX_B32);
        if (!store && gate)
            ptx_mov(e, w[i], ptx_pack(e, others + pack * i, pack));
    }
    put_access(e, &words, gate, addr, offset, w, n / pack);
    for (i = 0; i < n / pack && !store; i++)
        ptx_unpack(e, a->dtype, w[i], lanes + pack * i);
}

/* ---- accesses ---- */

static bell_status
take_ptx_apart(struct ptx_emit *e, const struct uop *u, struct ptx_access *a)
{
    assert(u->op == UOP_LOAD || u->op == UOP_STORE);
    a->u = u;
    a->dtype = u->src[0]->dtype;
    a->lanes = u->op == UOP_STORE ? u->src[2]->lanes : u->lanes;
    a->gate_node = u->n_src > 3 ? u->src[3] : NULL;
    if (a->gate_node)
        BELL_TRY(ptx_value_of(e, a->gate_node, &a->gate));
    if (u->src[1]->lanes != 1 && u->src[1]->lanes != a->lanes)
        return ptx_refuse(e, u, "its index has other lanes");
    return ptx_find_place(e, u, 0, &a->at);
}

/* A piece of an access: n lanes. */
static void
put_piece(struct ptx_emit *e, const struct ptx_access *a,
          const struct ptx_opnd *gate, struct ptx_opnd addr, int64_t offset,
          struct ptx_opnd *lanes, const struct ptx_opnd *others, uint32_t n)
{
    uint32_t pack = ptx_packed(a->dtype), i;

    if (pack > 1 && n >= pack) {
        put_words(e, a, gate, addr, offset, lanes, others, n);
        return;
    }
    for (i = 0; i < n && gate && a->u->op == UOP_LOAD; i++)
        ptx_mov(e, lanes[i], others[i]);
    put_access(e, a, gate, addr, offset, lanes, n);
}

/* Runs over an access in pieces. `lanes` are what is stored, or the registers
 * to load to; `others` what a LOAD's closed gate gives. */
static void
access_lanes(struct ptx_emit *e, const struct ptx_access *a,
             struct ptx_opnd *lanes, const struct ptx_opnd *others)
{
    const struct ptx_opnd *indices = a->at.indices.lanes;
    struct ptx_opnd addr = a->at.base, gate;
    uint32_t lane, n;
    int64_t at;

    for (lane = 0; lane < a->lanes; lane += n) {
        n = ptx_chunk_size(e, a, lane);
        at = indices ? 0 : a->at.first + lane * a->at.step;
        if (indices)
            addr = ptx_displace(e, a->at.base, indices[lane], a->at.elem_bytes);
        if (a->gate_node)
            gate = ptx_in_reg(
                e, a->gate.lanes[a->gate_node->lanes > 1 ? lane : 0]);
        put_piece(e, a, a->gate_node ? &gate : NULL, addr,
                  at * (int64_t)a->at.elem_bytes, lanes + lane, others + lane,
                  n);
    }
}

/* In a register that a store can take. */
static struct ptx_opnd
ptx_to_memory(struct ptx_emit *e, const struct ptx_access *a,
              const struct ptx_value *v, uint32_t lane)
{
    struct ptx_opnd o = v->lanes[lane], r;

    if (a->dtype != UOP_BOOL)
        return ptx_in_reg(e, o);
    if (o.is_imm)
        return ptx_in_reg(e, ptx_imm(PTX_B32, o.bits));
    r = ptx_reg(e, PTX_B32);
    PTX_OP(e, "selp.b32 %, 1, 0, %", r, o);
    return r;
}

bell_status
ptx_emit_store(struct ptx_emit *e, const struct uop *u)
{
    struct ptx_opnd *lanes;
    struct ptx_value v;
    struct ptx_access a;
    uint32_t i;

    BELL_TRY(take_ptx_apart(e, u, &a));
    BELL_TRY(ptx_value_of(e, u->src[2], &v));
    lanes = arena_alloc(&e->arena, a.lanes * sizeof(*lanes));
    if (!lanes)
        return ptx_no_memory(e);
    for (i = 0; i < a.lanes; i++)
        lanes[i] = ptx_to_memory(e, &a, &v, i);
    access_lanes(e, &a, lanes, lanes);
    return BELL_OK;
}

/* What a closed gate gives: constants stay such where words are made of
 * them. */
static struct ptx_opnd
other_lane(struct ptx_emit *e, const struct ptx_access *a,
           const struct ptx_value *v, uint32_t lane)
{
    if (v->lanes[lane].is_imm && a->dtype != UOP_BOOL)
        return v->lanes[lane];
    return ptx_to_memory(e, a, v, lane);
}

bell_status
ptx_emit_load(struct ptx_emit *e, const struct uop *u, struct ptx_opnd *out)
{
    struct ptx_opnd *lanes, *others;
    struct ptx_value other;
    struct ptx_access a;
    uint32_t i;

    BELL_TRY(take_ptx_apart(e, u, &a));
    lanes = arena_calloc(&e->arena, a.lanes, 2 * sizeof(*lanes));
    if (!lanes)
        return ptx_no_memory(e);
    others = lanes + a.lanes;
    if (a.gate_node)
        BELL_TRY(ptx_value_of(e, u->src[2], &other));
    for (i = 0; i < a.lanes; i++) {
        lanes[i] = ptx_reg(e, memory_class(a.dtype));
        if (a.gate_node)
            others[i] = other_lane(e, &a, &other, i);
    }
    access_lanes(e, &a, lanes, others);
    for (i = 0; i < a.lanes; i++) {
        out[i] = lanes[i];
        if (a.dtype == UOP_BOOL) {
            out[i] = ptx_reg(e, PTX_PRED);
            PTX_OP(e, "setp.ne.s32 %, %, 0", out[i], lanes[i]);
        }
    }
    return BELL_OK;
}
