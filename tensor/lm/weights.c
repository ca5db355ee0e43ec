/* Weights of a model, by the names of either kind of file.
 *
 * Each tensor of the file is taken, or refused by its name.
 */
#include "tensor/lm/lm_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/map.h"

#define NAME_BYTES 256

/* A tensor of a layer. Sizes are letters: D the width, Q and K all heads of
 * queries and of keys, A both and the values, H a head, N heads, F hidden, G
 * twice that, E experts, X hidden of an expert, Y twice that, R pairs that are
 * rotated, V tokens. */
struct row {
    enum lm_part part;
    const char *gguf; /* behind "blk.N." */
    const char *hf;   /* behind "model.layers.N."; with %d: one an expert */
    const char *shape;
    uint32_t need, without; /* flags: all of these, none of those */
    bool is_optional;
};

#define NORMS_OWN (LM_SANDWICH | LM_POST_NORM)

/* clang-format off */
static const struct row rows[] = {
    {LM_ATTN_NORM, "attn_norm.weight", "input_layernorm.weight", "D",
     0, LM_POST_NORM, false},
    {LM_Q, "attn_q.weight", "self_attn.q_proj.weight", "QD", 0, LM_FUSED,
     false},
    {LM_K, "attn_k.weight", "self_attn.k_proj.weight", "KD", 0, LM_FUSED,
     false},
    {LM_V, "attn_v.weight", "self_attn.v_proj.weight", "KD", 0, LM_FUSED,
     false},
    {LM_QKV, "attn_qkv.weight", "self_attn.qkv_proj.weight", "AD", LM_FUSED, 0,
     false},
    {LM_O, "attn_output.weight", "self_attn.o_proj.weight", "DQ", 0, 0, false},
    {LM_Q_BIAS, "attn_q.bias", "self_attn.q_proj.bias", "Q", 0, LM_FUSED,
     true},
    {LM_K_BIAS, "attn_k.bias", "self_attn.k_proj.bias", "K", 0, LM_FUSED,
     true},
    {LM_V_BIAS, "attn_v.bias", "self_attn.v_proj.bias", "K", 0, LM_FUSED,
     true},
    {LM_O_BIAS, "attn_output.bias", "self_attn.o_proj.bias", "D", 0, 0, true},
    {LM_Q_NORM, "attn_q_norm.weight", "self_attn.q_norm.weight", "H",
     LM_QK_NORM, 0, false},
    {LM_K_NORM, "attn_k_norm.weight", "self_attn.k_norm.weight", "H",
     LM_QK_NORM, 0, false},
    {LM_Q_NORM, "attn_q_norm.weight", "self_attn.q_norm.weight", "Q",
     LM_QK_NORM_ALL, 0, false},
    {LM_K_NORM, "attn_k_norm.weight", "self_attn.k_norm.weight", "K",
     LM_QK_NORM_ALL, 0, false},
    {LM_SINK, "attn_sinks.weight", "self_attn.sinks", "N", LM_SINKS, 0, false},
    {LM_ATTN_POST, "post_attention_norm.weight",
     "post_attention_layernorm.weight", "D", LM_SANDWICH, 0, false},
    {LM_ATTN_POST, "post_attention_norm.weight",
     "post_attention_layernorm.weight", "D", LM_POST_NORM, 0, false},
    {LM_FFN_POST, "post_ffw_norm.weight", "post_feedforward_layernorm.weight",
     "D", LM_SANDWICH, 0, false},
    {LM_FFN_POST, "post_ffw_norm.weight", "post_feedforward_layernorm.weight",
     "D", LM_POST_NORM, 0, false},
    {LM_FFN_NORM, "ffn_norm.weight", "pre_feedforward_layernorm.weight", "D",
     LM_SANDWICH, 0, false},
    {LM_FFN_NORM, "ffn_norm.weight", "post_attention_layernorm.weight", "D",
     0, NORMS_OWN | LM_SINKS, false},
    {LM_FFN_NORM, "post_attention_norm.weight",
     "post_attention_layernorm.weight", "D", LM_SINKS, 0, false},
    {LM_GATE, "ffn_gate.weight", "mlp.gate_proj.weight", "FD", 0,
     LM_FUSED | LM_EXPERTS, false},
    {LM_UP, "ffn_up.weight", "mlp.up_proj.weight", "FD", 0,
     LM_FUSED | LM_EXPERTS, false},
    {LM_GATE_UP, "ffn_up.weight", "mlp.gate_up_proj.weight", "GD", LM_FUSED, 0,
     false},
    {LM_DOWN, "ffn_down.weight", "mlp.down_proj.weight", "DF", 0, LM_EXPERTS,
     false},
    {LM_GATE_BIAS, "ffn_gate.bias", "mlp.gate_proj.bias", "F", 0,
     LM_FUSED | LM_EXPERTS, true},
    {LM_UP_BIAS, "ffn_up.bias", "mlp.up_proj.bias", "F", 0,
     LM_FUSED | LM_EXPERTS, true},
    {LM_DOWN_BIAS, "ffn_down.bias", "mlp.down_proj.bias", "D", 0, LM_EXPERTS,
     true},
    /* experts */
    {LM_ROUTER, "ffn_gate_inp.weight", "mlp.gate.weight", "ED",
     LM_EXPERTS, LM_SINKS | LM_WINDOW, false},
    {LM_ROUTER, "ffn_gate_inp.weight", "block_sparse_moe.gate.weight", "ED",
     LM_EXPERTS | LM_WINDOW, LM_SINKS, false},
    {LM_ROUTER, "ffn_gate_inp.weight", "mlp.router.weight", "ED",
     LM_EXPERTS | LM_SINKS, 0, false},
    {LM_ROUTER_BIAS, "ffn_gate_inp.bias", "mlp.router.bias", "E",
     LM_EXPERTS | LM_SINKS, 0, false},
    {LM_X_GATE, "ffn_gate_exps.weight", "mlp.experts.%d.gate_proj.weight",
     "EXD", LM_EXPERTS, LM_SINKS | LM_WINDOW, false},
    {LM_X_UP, "ffn_up_exps.weight", "mlp.experts.%d.up_proj.weight", "EXD",
     LM_EXPERTS, LM_SINKS | LM_WINDOW, false},
    {LM_X_DOWN, "ffn_down_exps.weight", "mlp.experts.%d.down_proj.weight",
     "EDX", LM_EXPERTS, LM_SINKS | LM_WINDOW, false},
    {LM_X_GATE, "ffn_gate_exps.weight", "block_sparse_moe.experts.%d.w1.weight",
     "EXD", LM_EXPERTS | LM_WINDOW, LM_SINKS, false},
    {LM_X_UP, "ffn_up_exps.weight", "block_sparse_moe.experts.%d.w3.weight",
     "EXD", LM_EXPERTS | LM_WINDOW, LM_SINKS, false},
    {LM_X_DOWN, "ffn_down_exps.weight", "block_sparse_moe.experts.%d.w2.weight",
     "EDX", LM_EXPERTS | LM_WINDOW, LM_SINKS, false},
    /* gpt-oss's in GGUF; take_pairs reads the others */
    {LM_X_GATE, "ffn_gate_exps.weight", NULL, "EXD", LM_EXPERTS | LM_SINKS, 0,
     false},
    {LM_X_UP, "ffn_up_exps.weight", NULL, "EXD", LM_EXPERTS | LM_SINKS, 0,
     false},
    {LM_X_DOWN, "ffn_down_exps.weight", NULL, "EDX", LM_EXPERTS | LM_SINKS, 0,
     false},
    {LM_X_GATE_BIAS, "ffn_gate_exps.bias", NULL, "EX", LM_EXPERTS | LM_SINKS,
     0, false},
    {LM_X_UP_BIAS, "ffn_up_exps.bias", NULL, "EX", LM_EXPERTS | LM_SINKS, 0,
     false},
    {LM_X_DOWN_BIAS, "ffn_down_exps.bias", "mlp.experts.down_proj_bias", "ED",
     LM_EXPERTS | LM_SINKS, 0, false},
};
/* clang-format on */

struct loader {
    struct bell_context *ctx;
    struct lm_source *s;
    struct lm_config *c;
    struct lm_weights *w;
    struct map taken; /* entries, by address */
    bell_status status;
};

static int64_t
size_of(const struct lm_config *c, char letter)
{
    switch (letter) {
    case 'D':
        return c->dim;
    case 'Q':
        return c->n_heads * c->head;
    case 'K':
        return c->n_kv * c->head;
    case 'A':
        return (c->n_heads + 2 * c->n_kv) * c->head;
    case 'H':
        return c->head;
    case 'N':
        return c->n_heads;
    case 'F':
        return c->hidden;
    case 'G':
        return 2 * c->hidden;
    case 'E':
        return c->n_experts;
    case 'X':
        return c->expert_hidden;
    case 'Y':
        return 2 * c->expert_hidden;
    case 'R':
        return c->rope_dims / 2;
    default: /* V */
        return c->n_tokens;
    }
}

/* Fails for good. */
static void
fail_load(struct loader *l, bell_status status)
{
    if (l->status == BELL_OK)
        l->status = status;
}

/* The entry of that name, taken; NULL: there is none, which fails unless it
 * may lack. */
static const struct bell_file_entry *
take_named(struct loader *l, const char *name, const char *shape,
           bool is_optional)
{
    const struct bell_file_entry *entry = bell_file_find(l->s->file, name);
    size_t n = strlen(shape), i;
    bool is_same;

    if (l->status != BELL_OK || (!entry && is_optional))
        return NULL;
    is_same = entry && entry->ndim == n;
    for (i = 0; is_same && i < n; i++)
        is_same = entry->shape[i] == size_of(l->c, shape[i]);
    if (!is_same) {
        char text[128];
        size_t at = 0;

        for (i = 0; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%lld",
                                   i ? " x " : "",
                                   (long long)size_of(l->c, shape[i]));
        fail_load(l, bell_fail(BELL_E_IO, "%s: %s '%.100s' of %s", l->s->path,
                               entry ? "another shape than that of the tensor"
                                     : "no tensor",
                               name, text));
        return NULL;
    }
    if (map_put(&l->taken, (uintptr_t)entry, 1) != 0) {
        fail_load(l,
                  bell_fail(BELL_E_NO_MEMORY, "%s: out of memory", l->s->path));
        return NULL;
    }
    return entry;
}

/* Those experts count that are chosen. */
static void
count_bytes(struct loader *l, const struct bell_file_entry *entry,
            const char *shape)
{
    double part = shape[0] == 'E' && strlen(shape) == 3
                      ? (double)l->c->n_used / (double)l->c->n_experts
                      : 1;

    l->w->token_bytes += (double)entry->size_bytes * part;
}

static struct bell_tensor *
take_weight(struct loader *l, const char *name, const char *shape,
            bool is_optional)
{
    const struct bell_file_entry *entry =
        take_named(l, name, shape, is_optional);

    if (!entry)
        return NULL;
    count_bytes(l, entry, shape);
    return bell_keep_forever(bell_file_tensor(l->ctx, l->s->file, name));
}

/* `t` in memory of its own, which stays. */
static struct bell_tensor *
settle_weight(struct loader *l, struct bell_tensor *t)
{
    struct bell_tensor *made = bell_keep_forever(bell_contiguous(t));

    if (l->status == BELL_OK)
        fail_load(l, bell_realize1(made));
    return made;
}

/* One tensor of those of all experts. */
static struct bell_tensor *
take_experts(struct loader *l, int64_t layer, const struct row *row)
{
    struct bell_tensor **list, *made = NULL;
    char name[NAME_BYTES];
    const char *mark = strstr(row->hf, "%d");
    int64_t e;

    list = host_calloc((size_t)l->c->n_experts, sizeof(*list));
    if (!list) {
        fail_load(l, bell_fail(BELL_E_NO_MEMORY, "out of memory for experts"));
        return NULL;
    }
    for (e = 0; e < l->c->n_experts && l->status == BELL_OK; e++) {
        const struct bell_file_entry *entry;

        snprintf(name, sizeof(name), "model.layers.%lld.%.*s%lld%s",
                 (long long)layer, (int)(mark - row->hf), row->hf, (long long)e,
                 mark + 2);
        entry = take_named(l, name, row->shape + 1, false);
        if (!entry)
            break;
        l->w->token_bytes += (double)entry->size_bytes * (double)l->c->n_used /
                             (double)l->c->n_experts;
        list[e] = bell_file_tensor(l->ctx, l->s->file, name);
    }
    if (l->status == BELL_OK)
        made = settle_weight(l, bell_stack(list, (uint32_t)l->c->n_experts, 0));
    host_free(list);
    return made;
}

static bool
is_norm(enum lm_part part)
{
    return part == LM_ATTN_NORM || part == LM_Q_NORM || part == LM_K_NORM ||
           part == LM_ATTN_POST || part == LM_FFN_NORM || part == LM_FFN_POST;
}

/* transformers' norms of some families are 1 + weight. */
static struct bell_tensor *
norm_weight(struct loader *l, struct bell_tensor *t)
{
    struct bell_tensor *made;

    if (!t || !l->s->json || !(l->c->flags & LM_NORM_PLUS_ONE))
        return t;
    made = settle_weight(l, bell_add_scalar(bell_cast(t, BELL_FLOAT32), 1));
    bell_tensor_release(t);
    return made;
}

/* ---- gpt-oss ---- */

/* MXFP4's values (.., 32 n), by blocks (.., n, 16) and scales (.., n): the low
 * 4 bits of a byte, then the high ones. Exact in bfloat16.
 * src: OCP Microscaling Formats Specification 1.0, E2M1 and E8M0. */
static struct bell_tensor *
unpack_mxfp4(struct bell_context *ctx, struct bell_tensor *blocks,
             struct bell_tensor *scales)
{
    static const float values[16] = {0,    0.5f,  1,  1.5f,  2,  3,  4,  6,
                                     -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    struct bell_tensor *table =
        bell_from_data(ctx, BELL_DIMS(16), BELL_FLOAT32, values);
    struct bell_tensor *both[2], *x, *exponent;
    int64_t shape[BELL_MAX_RANK];
    uint32_t n = bell_ndim(blocks), i;

    for (i = 0; i < n; i++)
        shape[i] = bell_size(blocks, (int)i);
    shape[n - 2] *= 32;
    both[0] = bell_bitwise_and(blocks, bell_scalar_int(ctx, 15));
    both[1] = bell_rshift(blocks, bell_scalar_int(ctx, 4));
    x = bell_stack(both, 2, -1); /* neighbours, low first */
    x = bell_embedding(bell_cast(x, BELL_INT32), bell_unsqueeze(table, 1));
    x = bell_reshape(x, shape, n - 1);
    exponent = bell_sub_scalar(bell_cast(scales, BELL_FLOAT32), 127);
    shape[n - 1] = 32;
    shape[n - 2] /= 32;
    exponent = bell_expand(bell_unsqueeze(bell_exp2(exponent), -1), shape, n);
    shape[n - 2] *= 32;
    x = bell_mul(x, bell_reshape(exponent, shape, n - 1));
    return bell_cast(x, BELL_BFLOAT16);
}

/* A matrix of each expert, (E, out, in), by either kind of tensor. */
static struct bell_tensor *
take_matrix(struct loader *l, const char *prefix, const char *name)
{
    const struct bell_file_entry *entries[3];
    struct bell_tensor *t[3] = {0};
    static const char *const ends[] = {"", "_blocks", "_scales"};
    char text[NAME_BYTES];
    int i;

    for (i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "%s%s%s", prefix, name, ends[i]);
        entries[i] = bell_file_find(l->s->file, text);
        if (!entries[i])
            continue;
        if (map_put(&l->taken, (uintptr_t)entries[i], 1) != 0)
            fail_load(l, bell_fail(BELL_E_NO_MEMORY, "out of memory"));
        l->w->token_bytes += (double)entries[i]->size_bytes *
                             (double)l->c->n_used / (double)l->c->n_experts;
        t[i] = bell_file_tensor(l->ctx, l->s->file, text);
    }
    if (t[0] && entries[0]->ndim == 3)
        return bell_transpose(t[0], 1, 2);
    if (t[1] && t[2] && entries[1]->ndim == 4 && entries[2]->ndim == 3 &&
        entries[1]->shape[3] == 16)
        return unpack_mxfp4(l->ctx, t[1], t[2]);
    fail_load(l, bell_fail(BELL_E_IO,
                           "%s: neither '%s%s' nor blocks and scales of it",
                           l->s->path, prefix, name));
    return NULL;
}

/* Whether a tensor (E, out, in) is of these sizes; else the load fails. */
static bool
has_sizes(struct loader *l, struct bell_tensor *t, int64_t out, int64_t in)
{
    if (!t || l->status != BELL_OK)
        return false;
    if (bell_ndim(t) == 3 && bell_size(t, 0) == l->c->n_experts &&
        bell_size(t, 1) == out && bell_size(t, 2) == in)
        return true;
    fail_load(l, bell_fail(BELL_E_IO,
                           "%s: experts of other sizes than %lld x "
                           "%lld",
                           l->s->path, (long long)out, (long long)in));
    return false;
}

/* Gates and what they are multiplied with are neighbours in one tensor. */
static void
take_pairs(struct loader *l, int64_t i)
{
    static const enum lm_part parts[2][2] = {{LM_X_GATE, LM_X_UP},
                                             {LM_X_GATE_BIAS, LM_X_UP_BIAS}};
    struct bell_tensor **t = l->w->layers[i].t, *both, *bias;
    int64_t e = l->c->n_experts, x = l->c->expert_hidden, d = l->c->dim;
    char prefix[NAME_BYTES], name[NAME_BYTES];
    int k;

    snprintf(prefix, sizeof(prefix), "model.layers.%lld.mlp.experts.",
             (long long)i);
    both = take_matrix(l, prefix, "gate_up_proj");
    if (!has_sizes(l, both, 2 * x, d))
        return;
    snprintf(name, sizeof(name), "%.200sgate_up_proj_bias", prefix);
    if (!take_named(l, name, "EY", false))
        return;
    bias = bell_file_tensor(l->ctx, l->s->file, name);
    both = bell_reshape(both, BELL_DIMS(e, x, 2, d));
    bias = bell_reshape(bias, BELL_DIMS(e, x, 2));
    for (k = 0; k < 2; k++) {
        t[parts[0][k]] = settle_weight(l, bell_select(both, 2, k));
        t[parts[1][k]] = settle_weight(l, bell_select(bias, 2, k));
    }
    both = take_matrix(l, prefix, "down_proj");
    if (has_sizes(l, both, d, x))
        t[LM_X_DOWN] = settle_weight(l, both);
}

/* ---- layers ---- */

static void
take_layer(struct loader *l, int64_t i)
{
    struct bell_tensor **t = l->w->layers[i].t;
    char name[NAME_BYTES];
    size_t k;

    for (k = 0; k < ARRAY_LEN(rows) && l->status == BELL_OK; k++) {
        const struct row *row = &rows[k];
        const char *own = l->s->json ? row->hf : row->gguf;

        if ((l->c->flags & row->need) != row->need ||
            l->c->flags & row->without || !own)
            continue;
        if (l->s->json && strstr(own, "%d")) {
            t[row->part] = take_experts(l, i, row);
            continue;
        }
        snprintf(name, sizeof(name), "%s%lld.%s",
                 l->s->json ? "model.layers." : "blk.", (long long)i, own);
        t[row->part] = take_weight(l, name, row->shape, row->is_optional);
        if (is_norm(row->part))
            t[row->part] = norm_weight(l, t[row->part]);
    }
    if (l->s->json && l->c->flags & LM_SINKS && l->status == BELL_OK)
        take_pairs(l, i);
}

/* Lists of factors for the rotation, which GGUF has as tensors. */
static void
take_factors(struct loader *l)
{
    static const struct {
        const char *name;
        int which;
    } lists[] = {
        {"rope_freqs.weight", 0},
        {"rope_factors_short.weight", 0},
        {"rope_factors_long.weight", 1},
    };
    const struct bell_file_entry *entry;
    struct bell_tensor *t;
    size_t i, n = (size_t)l->c->rope_dims / 2;

    for (i = 0; i < ARRAY_LEN(lists) && l->status == BELL_OK; i++) {
        entry = bell_file_find(l->s->file, lists[i].name);
        if (!entry || l->s->json)
            continue;
        if (!take_named(l, lists[i].name, "R", false))
            return;
        if (!l->c->factors[lists[i].which])
            l->c->factors[lists[i].which] = host_calloc(n, sizeof(float));
        if (!l->c->factors[lists[i].which]) {
            fail_load(l, bell_fail(BELL_E_NO_MEMORY, "out of memory"));
            return;
        }
        if (i > 0) /* two lists are long rotation, whose kind no key has */
            l->c->rope.kind = l->c->rope_local.kind = LM_ROPE_LONG;
        t = bell_cast(bell_file_tensor(l->ctx, l->s->file, lists[i].name),
                      BELL_FLOAT32);
        fail_load(
            l, bell_read(t, l->c->factors[lists[i].which], n * sizeof(float)));
    }
}

static void
take_ends(struct loader *l)
{
    struct lm_weights *w = l->w;
    bool is_hf = l->s->json != NULL;
    double before;

    before = w->token_bytes;
    w->embedding = take_weight(
        l, is_hf ? "model.embed_tokens.weight" : "token_embd.weight", "VD",
        false);
    w->norm = norm_weight(
        l, take_weight(l, is_hf ? "model.norm.weight" : "output_norm.weight",
                       "D", false));
    w->classifier =
        take_weight(l, is_hf ? "lm_head.weight" : "output.weight", "VD", true);
    w->classifier_bias =
        take_weight(l, is_hf ? "lm_head.bias" : "output.bias", "V", true);
    if (w->classifier && l->c->is_tied) {
        bell_tensor_release(w->classifier);
        w->classifier = NULL;
    }
    if (!w->classifier && is_hf && !l->c->is_tied && l->status == BELL_OK)
        fail_load(l, bell_fail(BELL_E_IO,
                               "%s: no tensor 'lm_head.weight', and "
                               "tie_word_embeddings is false",
                               l->s->path));
    if (w->classifier && w->embedding) { /* a row of the embedding is read */
        const struct bell_file_entry *entry =
            bell_file_find(l->s->file, is_hf ? "model.embed_tokens.weight"
                                             : "token_embd.weight");
        w->token_bytes -= (double)entry->size_bytes;
    }
    if (w->token_bytes < before)
        w->token_bytes = before;
    if (!w->classifier)
        w->classifier = w->embedding;
}

/* Buffers that are computed from the configuration. */
static bool
is_buffer(const char *name)
{
    static const char end[] = "rotary_emb.inv_freq";
    size_t n = strlen(name);

    return n >= sizeof(end) - 1 &&
           strcmp(name + n - (sizeof(end) - 1), end) == 0;
}

static BELL_MUST_CHECK bell_status
check_taken(struct loader *l)
{
    const struct bell_file_entry *entry;
    uint32_t i;

    for (i = 0; (entry = bell_file_at(l->s->file, i)); i++) {
        if (!map_get(&l->taken, (uintptr_t)entry) && !is_buffer(entry->name))
            return bell_fail(BELL_E_UNSUPPORTED,
                             "%s: the tensor '%.200s' is not supported: "
                             "without it this would be another model",
                             l->s->path, entry->name);
    }
    return BELL_OK;
}

static void
take_all(struct loader *l)
{
    int64_t i;

    for (i = 0; i < l->c->n_layers && l->status == BELL_OK; i++)
        take_layer(l, i);
    if (l->status == BELL_OK)
        take_ends(l);
    if (l->status == BELL_OK)
        take_factors(l);
    if (l->status == BELL_OK)
        l->status = check_taken(l);
}

bell_status
lm_weights_load(struct bell_context *ctx, struct lm_source *s,
                struct lm_config *c, struct lm_weights *out)
{
    struct loader l = {.ctx = ctx, .s = s, .c = c, .w = out};
    bell_status ended;

    memset(out, 0, sizeof(*out));
    out->layers = host_calloc((size_t)c->n_layers, sizeof(*out->layers));
    if (!out->layers)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for %lld layers",
                         (long long)c->n_layers);
    map_init(&l.taken);
    l.status = bell_scope_begin(ctx);
    if (l.status == BELL_OK) {
        take_all(&l);
        ended = bell_scope_end(ctx);
        if (l.status == BELL_OK)
            l.status = ended;
    }
    map_fini(&l.taken);
    if (l.status != BELL_OK)
        lm_weights_fini(out, c->n_layers);
    return l.status;
}

void
lm_weights_fini(struct lm_weights *w, int64_t n_layers)
{
    int64_t i;
    int k;

    for (i = 0; w->layers && i < n_layers; i++) {
        for (k = 0; k < LM_PART_COUNT; k++)
            bell_tensor_release(w->layers[i].t[k]);
    }
    if (w->classifier != w->embedding)
        bell_tensor_release(w->classifier);
    bell_tensor_release(w->embedding);
    bell_tensor_release(w->classifier_bias);
    bell_tensor_release(w->norm);
    host_free(w->layers);
    memset(w, 0, sizeof(*w));
}
