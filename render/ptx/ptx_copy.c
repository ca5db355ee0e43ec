/* Copies from global to LOCAL memory that do not go through registers.
 *
 * A LOAD whose value one STORE puts into LOCAL memory as it is becomes cp.async
 * at the STORE's place. What was copied is there after a BARRIER: each waits
 * for the copies before it first. So it must hold that
 *   - nobody writes the memory that is read: the program has no STORE there;
 *   - what is read from the LOCAL memory is read after a BARRIER, also by the
 *     thread that stored it: no LOAD from there hangs on anything else.
 * A gate becomes the number of bytes that are read, and zeros follow them.
 */
#include "render/ptx/ptx_internal.h"

#include <stdio.h>

#include "base/alloc.h"

/* What is found out of the nodes. */
struct finder {
    struct ptx_emit *e;
    struct map uses;   /* of values: how often */
    struct map stored; /* PARAMs' ids that are written */
    struct map unsafe; /* LOCALs' ids that are read before a BARRIER */
    struct map places; /* LOADs' ids: the innermost loop or condition */
    bool failed;
};

static const struct uop *
memory_of(const struct uop *u)
{
    while (u->op == UOP_AFTER)
        u = u->src[0];
    return u;
}

static void
put(struct finder *f, struct map *map, uint64_t key, uint64_t value)
{
    f->failed |= map_put(map, key, value) < 0;
}

/* Reads of LOCAL memory must hang on BARRIERs. */
static void
look_at_load(struct finder *f, const struct uop *at)
{
    bool is_safe = true, is_after = false;
    uint32_t i;

    for (; at->op == UOP_AFTER; at = at->src[0]) {
        for (i = 1; i < at->n_src; i++) {
            is_after |= at->src[i]->op == UOP_BARRIER;
            is_safe &=
                at->src[i]->op == UOP_BARRIER || at->src[i]->op == UOP_COMMIT;
        }
    }
    if (!(is_safe && is_after) && at->op == UOP_LOCAL)
        put(f, &f->unsafe, at->id, 1);
}

static void
look_at(struct finder *f, const struct uop *u)
{
    const uint64_t *n;
    uint32_t i;

    for (i = 0; i < u->n_src; i++) {
        n = map_get(&f->uses, u->src[i]->id);
        put(f, &f->uses, u->src[i]->id, n ? *n + 1 : 1);
    }
    if (u->op == UOP_LOAD)
        look_at_load(f, u->src[0]);
    if (u->op == UOP_WGMMA) {
        look_at_load(f, u->src[1]);
        look_at_load(f, u->src[3]);
    }
    if (u->op == UOP_STORE)
        put(f, &f->stored, memory_of(u->src[0])->id, 1);
}

/* Zero in all lanes, as the copy fills. */
static bool
is_zero(const struct uop *u)
{
    while (u->op == UOP_BROADCAST)
        u = u->src[0];
    return u->op == UOP_CONST && u->arg.bits == 0;
}

static bool
is_candidate(const struct finder *f, const struct uop *store)
{
    const struct uop *load = store->src[2], *to = memory_of(store->src[0]);
    const struct uop *from;
    const uint64_t *uses = map_get(&f->uses, load->id);

    if (to->op != UOP_LOCAL || load->op != UOP_LOAD)
        return false;
    from = memory_of(load->src[0]);
    if (from->op != UOP_PARAM || from->dtype != to->dtype ||
        from->dtype == UOP_BOOL || map_get(&f->stored, from->id) ||
        map_get(&f->unsafe, to->id))
        return false;
    if (store->src[1]->lanes != 1 || load->src[1]->lanes != 1 ||
        (store->n_src > 3 && store->src[3]->lanes != 1))
        return false;
    if (load->n_src > 3 && (load->src[3]->lanes != 1 || !is_zero(load->src[2])))
        return false;
    return uses && *uses == 1 &&
           ptx_place(f->e, load) == ptx_place(f->e, store);
}

/* A LOAD is put off within the body of one loop or condition, and not past a
 * BARRIER, which it may have been meant to overlap. */
static bell_status
find_all(struct finder *f)
{
    const struct lower_program *p = f->e->prog;
    uint32_t i;

    for (i = 0; i < p->n_ops; i++)
        look_at(f, p->ops[i]);
    for (i = 0; i < p->n_ops; i++) {
        if (p->ops[i]->op == UOP_STORE && is_candidate(f, p->ops[i]))
            put(f, &f->e->copies, p->ops[i]->src[2]->id, 1);
    }
    return f->failed ? ptx_no_memory(f->e) : BELL_OK;
}

bell_status
ptx_find_copies(struct ptx_emit *e)
{
    struct finder f = {.e = e};
    bell_status status;

    map_init(&f.uses);
    map_init(&f.stored);
    map_init(&f.unsafe);
    status = find_all(&f);
    map_fini(&f.unsafe);
    map_fini(&f.stored);
    map_fini(&f.uses);
    return status;
}

bool
ptx_is_copied(const struct ptx_emit *e, const struct uop *load)
{
    return map_get(&e->copies, load->id) != NULL;
}

/* ---- instructions ---- */

/* A LOAD and its STORE. */
struct copy {
    struct ptx_access from, to;
    const struct uop *from_index, *to_index;
    int64_t from_offset, to_offset;
    struct ptx_fact from_fact, to_fact;
};

/* Elements copied at once from `lane` on; 0: that cannot be. */
static uint32_t
piece(const struct ptx_emit *e, const struct copy *c, uint32_t lane)
{
    uint32_t n =
        ptx_chunk_size(e, &c->from, c->from_fact, c->from_offset + lane, lane);
    uint32_t m =
        ptx_chunk_size(e, &c->to, c->to_fact, c->to_offset + lane, lane);

    n = n < m ? n : m;
    return n * c->from.elem_bytes >= 4 ? n : 0;
}

static bool
is_possible(const struct ptx_emit *e, const struct copy *c)
{
    uint32_t lane, n;

    for (lane = 0; lane < c->from.lanes; lane += n) {
        n = piece(e, c, lane);
        if (!n)
            return false;
    }
    return true;
}

static bell_status
begin_copy(struct ptx_emit *e, const struct uop *store, struct copy *c)
{
    struct ptx_value v;

    BELL_TRY(ptx_take_apart(e, store, &c->to));
    BELL_TRY(ptx_take_apart(e, store->src[2], &c->from));
    BELL_TRY(ptx_split_index(e, &c->to, &c->to_index, &c->to_offset));
    BELL_TRY(ptx_split_index(e, &c->from, &c->from_index, &c->from_offset));
    BELL_TRY(ptx_value_of(e, c->to_index, &v));
    c->to_fact = v.fact;
    BELL_TRY(ptx_value_of(e, c->from_index, &v));
    c->from_fact = v.fact;
    return BELL_OK;
}

/* "[%+16]" */
static void
place(char *text, size_t size_bytes, int64_t offset)
{
    if (offset)
        snprintf(text, size_bytes, "[%%+%lld]", (long long)offset);
    else
        snprintf(text, size_bytes, "[%%]");
}

static bell_status
put_piece(struct ptx_emit *e, const struct copy *c, uint32_t lane, uint32_t n)
{
    uint32_t bytes = n * c->from.elem_bytes, k = 0;
    char fmt[128], to[40], from[40];
    struct ptx_opnd o[4];
    struct ptx_fact unused;

    place(to, sizeof(to), (c->to_offset + lane) * (int64_t)c->to.elem_bytes);
    place(from, sizeof(from),
          (c->from_offset + lane) * (int64_t)c->from.elem_bytes);
    snprintf(fmt, sizeof(fmt), "%scp.async.%s.shared.global %s, %s, %u%s",
             c->to.gate_node ? "@% " : "", bytes == 16 ? "cg" : "ca", to, from,
             bytes, c->from.gate_node ? ", %" : "");
    if (c->to.gate_node)
        o[k++] = ptx_in_reg(e, c->to.gate.lanes[0]);
    BELL_TRY(ptx_find_address(e, &c->to, c->to_index, 0, &o[k++], &unused));
    BELL_TRY(ptx_find_address(e, &c->from, c->from_index, 0, &o[k++], &unused));
    if (c->from.gate_node) {
        o[k] = ptx_reg(e, PTX_B32);
        PTX_OP(e, "selp.b32 %, %, 0, %", o[k], ptx_imm(PTX_B32, bytes),
               ptx_in_reg(e, c->from.gate.lanes[0]));
    }
    ptx_op(e, fmt, o);
    return BELL_OK;
}

bell_status
ptx_emit_copy(struct ptx_emit *e, const struct uop *store, bool *out_is_done)
{
    struct copy c;
    uint32_t lane, n;

    BELL_TRY(begin_copy(e, store, &c));
    *out_is_done = is_possible(e, &c);
    if (!*out_is_done)
        return BELL_OK;
    for (lane = 0; lane < c.from.lanes; lane += n) {
        n = piece(e, &c, lane);
        BELL_TRY(put_piece(e, &c, lane, n));
    }
    return BELL_OK;
}
