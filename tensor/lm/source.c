/* Keys of a model's file: GGUF's metadata, or config.json beside safetensors.
 *
 * A key that is asked for is noted, so that those that nothing asked for can be
 * refused in the end: a model that ignores one would be another model.
 *
 * src: docs/gguf.md of the ggml project, for GGUF's keys; a config.json has the
 * names of transformers' configuration classes.
 */
#include "tensor/lm/lm_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/file.h"

#if BELL_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

#define KEY_BYTES    160
#define CONFIG_BYTES (16u << 20)

/* ---- opening ---- */

#if BELL_HAVE_CJSON

static BELL_MUST_CHECK bell_status
read_json(const char *path, void **out_json)
{
    struct file_bytes bytes;
    cJSON *root;

    BELL_TRY(file_read(path, &bytes));
    root =
        bytes.size_bytes <= CONFIG_BYTES
            ? cJSON_ParseWithLength((const char *)bytes.data, bytes.size_bytes)
            : NULL;
    file_bytes_fini(&bytes);
    if (!cJSON_IsObject(root)) {
        cJSON_Delete(root);
        return bell_fail(BELL_E_IO, "%s: not an object of JSON", path);
    }
    *out_json = root;
    return BELL_OK;
}

/* The value of a dotted key; NULL: it is absent, or null. */
static const cJSON *
find_json(const struct lm_source *s, const char *key)
{
    char part[KEY_BYTES];
    const cJSON *at = s->json;
    size_t n;

    while (at && *key) {
        n = strcspn(key, ".");
        if (n >= sizeof(part))
            return NULL;
        memcpy(part, key, n);
        part[n] = '\0';
        at = cJSON_GetObjectItemCaseSensitive(at, part);
        key += n + (key[n] == '.');
    }
    return cJSON_IsNull(at) ? NULL : at;
}

#else

typedef void cJSON;

static BELL_MUST_CHECK bell_status
read_json(const char *path, void **out_json)
{
    (void)out_json;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: built without cJSON (libcjson-dev), which reads "
                     "config.json",
                     path);
}

#endif

static BELL_MUST_CHECK bell_status
open_hf_folder(const char *path, struct lm_source *s)
{
    static const char *const names[] = {"model.safetensors.index.json",
                                        "model.safetensors"};
    char name[4096];
    struct stat st;
    size_t i;

    if (snprintf(name, sizeof(name), "%s/config.json", path) >=
        (int)sizeof(name) - 64)
        return bell_fail(BELL_E_IO, "%.200s...: the path is too long", path);
    BELL_TRY(read_json(name, &s->json));
    for (i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(name, sizeof(name), "%s/%s", path, names[i]);
        if (stat(name, &st) == 0)
            return bell_file_open(name, &s->file);
    }
    return bell_fail(BELL_E_IO, "%s: neither %s nor %s is there", path,
                     names[0], names[1]);
}

bell_status
lm_source_open(const char *path, struct lm_source *out)
{
    struct stat st;
    const char *text = "";
    size_t n = 0;

    *out = (struct lm_source){.path = path};
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_hf_folder(path, out);
    BELL_TRY(bell_file_open(path, &out->file));
    if (!bell_file_str(out->file, "general.architecture", &text, &n) ||
        n > sizeof(out->prefix) - 2)
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: neither a folder with a config.json nor a GGUF "
                         "file of a model",
                         path);
    snprintf(out->prefix, sizeof(out->prefix), "%.*s.", (int)n, text);
    return BELL_OK;
}

void
lm_source_close(struct lm_source *source)
{
    size_t i;

#if BELL_HAVE_CJSON
    cJSON_Delete(source->json);
#endif
    bell_file_close(source->file);
    for (i = 0; i < source->n_used; i++)
        host_free(source->used[i]);
    host_free(source->used);
    memset(source, 0, sizeof(*source));
}

/* ---- access ---- */

static bool
is_used(const struct lm_source *s, const char *key)
{
    size_t i;

    for (i = 0; i < s->n_used; i++) {
        if (strcmp(s->used[i], key) == 0)
            return true;
    }
    return false;
}

/* Notes a key; out of memory it is not noted, and refused later. */
static void
note(struct lm_source *s, const char *key)
{
    char *copy;

    if (is_used(s, key) || host_grow((void **)&s->used, &s->cap_used,
                                     s->n_used + 1, sizeof(*s->used)) != 0)
        return;
    copy = host_strndup(key, strlen(key));
    if (copy)
        s->used[s->n_used++] = copy;
}

/* GGUF's whole key: names that begin with a dot lack the family's prefix. */
static const char *
whole_key(struct lm_source *s, const char *gguf, char *text)
{
    if (*gguf == '.')
        snprintf(text, KEY_BYTES, "%s", gguf + 1);
    else
        snprintf(text, KEY_BYTES, "%s%s", s->prefix, gguf);
    note(s, text);
    return text;
}

#if BELL_HAVE_CJSON
static const cJSON *
json_value(struct lm_source *s, const char *key)
{
    if (!key)
        return NULL;
    note(s, key);
    return find_json(s, key);
}
#endif

bool
lm_get_float(struct lm_source *s, const char *gguf, const char *json,
             double *out)
{
    char key[KEY_BYTES];

#if BELL_HAVE_CJSON
    if (s->json) {
        const cJSON *item = json_value(s, json);
        if (cJSON_IsNumber(item))
            *out = item->valuedouble;
        return cJSON_IsNumber(item);
    }
#endif
    (void)json;
    return gguf && bell_file_float(s->file, whole_key(s, gguf, key), out);
}

bool
lm_get_int(struct lm_source *s, const char *gguf, const char *json,
           int64_t *out)
{
    char key[KEY_BYTES];
    double value;

    if (!s->json)
        return gguf && bell_file_int(s->file, whole_key(s, gguf, key), out);
    if (!lm_get_float(s, gguf, json, &value) || value != floor(value) ||
        fabs(value) > 1e15)
        return false;
    *out = (int64_t)value;
    return true;
}

bool
lm_get_flag(struct lm_source *s, const char *gguf, const char *json, bool *out)
{
    char key[KEY_BYTES];
    int64_t value;

#if BELL_HAVE_CJSON
    if (s->json) {
        const cJSON *item = json_value(s, json);
        if (cJSON_IsBool(item))
            *out = cJSON_IsTrue(item);
        return cJSON_IsBool(item);
    }
#endif
    (void)json;
    if (!gguf || !bell_file_int(s->file, whole_key(s, gguf, key), &value))
        return false;
    *out = value != 0;
    return true;
}

bool
lm_get_text(struct lm_source *s, const char *gguf, const char *json, char *out,
            size_t size_bytes)
{
    char key[KEY_BYTES];
    const char *text = NULL;
    size_t n = 0;

#if BELL_HAVE_CJSON
    if (s->json) {
        text = cJSON_GetStringValue(json_value(s, json));
        n = text ? strlen(text) : 0;
    } else
#endif
        if (gguf)
        (void)bell_file_str(s->file, whole_key(s, gguf, key), &text, &n);
    (void)json;
    if (!text)
        return false;
    snprintf(out, size_bytes, "%.*s", (int)(n < 4096 ? n : 4096), text);
    return true;
}

size_t
lm_get_list(struct lm_source *s, const char *gguf, const char *json)
{
    char key[KEY_BYTES];

#if BELL_HAVE_CJSON
    if (s->json) {
        const cJSON *item = json_value(s, json);
        return cJSON_IsArray(item) ? (size_t)cJSON_GetArraySize(item) : 0;
    }
#endif
    (void)json;
    return gguf ? bell_file_list(s->file, whole_key(s, gguf, key)) : 0;
}

bool
lm_get_item(struct lm_source *s, const char *gguf, const char *json, size_t i,
            double *out)
{
    char key[KEY_BYTES];
    int64_t value;

#if BELL_HAVE_CJSON
    if (s->json) {
        const cJSON *item = cJSON_GetArrayItem(json_value(s, json), (int)i);
        if (cJSON_IsNumber(item))
            *out = item->valuedouble;
        return cJSON_IsNumber(item);
    }
#endif
    (void)json;
    if (!gguf)
        return false;
    whole_key(s, gguf, key);
    if (bell_file_list_float(s->file, key, i, out))
        return true;
    if (!bell_file_list_int(s->file, key, i, &value))
        return false;
    *out = (double)value;
    return true;
}

bool
lm_get_item_text(struct lm_source *s, const char *json, size_t i, char *out,
                 size_t size_bytes)
{
#if BELL_HAVE_CJSON
    const char *text =
        cJSON_GetStringValue(cJSON_GetArrayItem(json_value(s, json), (int)i));

    if (text)
        snprintf(out, size_bytes, "%s", text);
    return text != NULL;
#else
    (void)s, (void)json, (void)i, (void)out, (void)size_bytes;
    return false;
#endif
}

/* ---- keys that nothing asked for ---- */

/* What such a key may say. */
enum want {
    WANT_ANY,    /* it makes no difference */
    WANT_ZERO,   /* 0, false or "" */
    WANT_ONE,    /* 1 or true */
    WANT_TOKENS, /* rows of the embedding */
    WANT_TEXT    /* that text */
};

struct known {
    const char *key; /* GGUF's behind the prefix; one that ends in . is a
                      * prefix */
    enum want want;
    const char *text;
};

static const struct known gguf_known[] = {
    {"vocab_size", WANT_TOKENS, NULL},
    {"attention.causal", WANT_ONE, NULL},
    {"attention.clamp_kqv", WANT_ZERO, NULL},
    {"attention.max_alibi_bias", WANT_ZERO, NULL},
    {"embedding_scale", WANT_ONE, NULL},
    {"logit_scale", WANT_ONE, NULL},
    {"residual_scale", WANT_ONE, NULL},
    {"use_parallel_residual", WANT_ZERO, NULL},
    {"expert_shared_count", WANT_ZERO, NULL},
    {"tensor_data_layout", WANT_TEXT, "Meta AI original pth"},
    {"rope.scaling.finetuned", WANT_ANY, NULL},
};

static const struct known json_known[] = {
    {"vocab_size", WANT_TOKENS, NULL},
    /* how it was made, and how other programs are to run it */
    {"architectures", WANT_ANY, NULL},
    {"_name_or_path", WANT_ANY, NULL},
    {"_attn_implementation", WANT_ANY, NULL},
    {"attn_implementation", WANT_ANY, NULL},
    {"auto_map.", WANT_ANY, NULL},
    {"cache_implementation", WANT_ANY, NULL},
    {"dtype", WANT_ANY, NULL},
    {"torch_dtype", WANT_ANY, NULL},
    {"transformers_version", WANT_ANY, NULL},
    {"use_cache", WANT_ANY, NULL},
    {"initializer_range", WANT_ANY, NULL},
    {"initial_context_length", WANT_ANY, NULL},
    {"pretraining_tp", WANT_ANY, NULL},
    {"max_window_layers", WANT_ANY, NULL},
    /* of training alone */
    {"attention_dropout", WANT_ANY, NULL},
    {"embd_pdrop", WANT_ANY, NULL},
    {"hidden_dropout", WANT_ANY, NULL},
    {"resid_pdrop", WANT_ANY, NULL},
    {"router_aux_loss_coef", WANT_ANY, NULL},
    {"router_jitter_noise", WANT_ANY, NULL},
    {"output_router_logits", WANT_ANY, NULL},
    /* of generation, which the caller decides on */
    {"bos_token_id", WANT_ANY, NULL},
    {"eos_token_id", WANT_ANY, NULL},
    {"pad_token_id", WANT_ANY, NULL},
    {"sep_token_id", WANT_ANY, NULL},
    {"output_attentions", WANT_ANY, NULL},
    {"output_hidden_states", WANT_ANY, NULL},
    {"return_dict", WANT_ANY, NULL},
    {"id2label.", WANT_ANY, NULL},
    {"label2id.", WANT_ANY, NULL},
    {"problem_type", WANT_ANY, NULL},
    {"chunk_size_feed_forward", WANT_ANY, NULL},
    {"is_encoder_decoder", WANT_ZERO, NULL},
    {"is_decoder", WANT_ANY, NULL},
    {"cross_attention_hidden_size", WANT_ZERO, NULL},
    {"add_cross_attention", WANT_ZERO, NULL},
    {"use_bidirectional_attention", WANT_ZERO, NULL},
};

static const struct known *
find_lm_known(const struct known *rows, size_t n, const char *key)
{
    size_t i, size;

    for (i = 0; i < n; i++) {
        size = strlen(rows[i].key);
        if (strcmp(rows[i].key, key) == 0 ||
            (rows[i].key[size - 1] == '.' &&
             strncmp(rows[i].key, key, size) == 0))
            return &rows[i];
    }
    return NULL;
}

static BELL_MUST_CHECK bell_status
refuse_key(const struct lm_source *s, const char *key)
{
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: the key '%.200s' is not supported: without it this "
                     "would be another model",
                     s->path, key);
}

/* Whether a number is what a key has to be. */
static BELL_MUST_CHECK bell_status
check_number(const struct lm_source *s, const char *key,
             const struct known *known, double got, const struct lm_config *c)
{
    double want = known->want == WANT_ONE      ? 1
                  : known->want == WANT_TOKENS ? (double)c->n_tokens
                                               : 0;

    if (got == want)
        return BELL_OK;
    return bell_fail(BELL_E_UNSUPPORTED,
                     "%s: the key '%.200s' is %.9g; only %.9g is supported",
                     s->path, key, got, want);
}

static BELL_MUST_CHECK bell_status
check_gguf(const struct lm_source *s, const struct lm_config *c)
{
    size_t size = strlen(s->prefix), n;
    const char *key, *text = "";
    uint32_t i;

    for (i = 0; (key = bell_file_key(s->file, i)); i++) {
        const struct known *known;
        double got;

        if (strncmp(key, s->prefix, size) != 0 || is_used(s, key))
            continue;
        known = find_lm_known(gguf_known, ARRAY_LEN(gguf_known), key + size);
        if (!known)
            return refuse_key(s, key);
        if (known->want == WANT_ANY)
            continue;
        if (known->want == WANT_TEXT) {
            if (!bell_file_str(s->file, key, &text, &n) ||
                n != strlen(known->text) || memcmp(text, known->text, n) != 0)
                return refuse_key(s, key);
            continue;
        }
        if (!bell_file_float(s->file, key, &got))
            return refuse_key(s, key);
        BELL_TRY(check_number(s, key, known, got, c));
    }
    return BELL_OK;
}

#if BELL_HAVE_CJSON

static BELL_MUST_CHECK bell_status
check_json_value(struct lm_source *s, const char *key, const cJSON *item,
                 const struct lm_config *c)
{
    const struct known *known =
        find_lm_known(json_known, ARRAY_LEN(json_known), key);

    if (is_used(s, key) || cJSON_IsNull(item))
        return BELL_OK;
    if (!known)
        return refuse_key(s, key);
    if (known->want == WANT_ANY)
        return BELL_OK;
    if (cJSON_IsBool(item))
        return check_number(s, key, known, cJSON_IsTrue(item), c);
    if (!cJSON_IsNumber(item))
        return refuse_key(s, key);
    return check_number(s, key, known, item->valuedouble, c);
}

/* Objects inside of objects are as deep as any file has them. */
static BELL_MUST_CHECK bell_status
check_json(struct lm_source *s, const struct lm_config *c)
{
    char key[KEY_BYTES], inner[KEY_BYTES], last[KEY_BYTES];
    const cJSON *a, *b, *d;

    cJSON_ArrayForEach(a, (const cJSON *)s->json)
    {
        snprintf(key, sizeof(key), "%.60s", a->string);
        if (!cJSON_IsObject(a)) {
            BELL_TRY(check_json_value(s, key, a, c));
            continue;
        }
        cJSON_ArrayForEach(b, a)
        {
            snprintf(inner, sizeof(inner), "%.60s.%.40s", key, b->string);
            if (!cJSON_IsObject(b)) {
                BELL_TRY(check_json_value(s, inner, b, c));
                continue;
            }
            cJSON_ArrayForEach(d, b)
            {
                snprintf(last, sizeof(last), "%.110s.%.40s", inner, d->string);
                BELL_TRY(check_json_value(s, last, d, c));
            }
        }
    }
    return BELL_OK;
}

#endif

bell_status
lm_check_keys(struct lm_source *s, const struct lm_config *c)
{
#if BELL_HAVE_CJSON
    if (s->json)
        return check_json(s, c);
#endif
    return check_gguf(s, c);
}
