/* Language models: small ones of several families against plain loops in
 * double, by chunks, in batches and after going back; choices of tokens; what
 * is refused, and by which name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/status.h"
#include "doorbell/lm.h"
#include "tests/unit/tiny_lm.h"

static const struct tiny_kind kinds[] = {
    {.family = "llama", .rotates_neighbours = true},
    {.family = "llama",
     .rotates_neighbours = true,
     .has_freqs = true,
     .window = 5},
    {.family = "qwen2", .has_biases = true},
    {.family = "qwen3", .has_head_norms = true},
    {.family = "gemma2",
     .is_sandwich = true,
     .window = 4,
     .period = 2,
     .attention_cap = 3,
     .logit_cap = 5},
};

struct fixture {
    struct tiny_lm tiny;
    char path[32];
    struct bell_context *ctx;
    struct bell_lm *lm;
};

static void
begin(struct fixture *f, const struct tiny_kind *kind)
{
    int fd;

    f->tiny = (struct tiny_lm){*kind, 5};
    snprintf(f->path, sizeof(f->path), "/tmp/lm-XXXXXX");
    fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(tiny_write(&f->tiny, f->path, NULL, NULL, false));
    assert_int_equal(bell_context_create("CPU", &f->ctx), BELL_OK);
    assert_int_equal(bell_lm_open(f->ctx, f->path, NULL, &f->lm), BELL_OK);
}

static void
end(struct fixture *f)
{
    bell_lm_close(f->lm);
    bell_context_destroy(f->ctx);
    unlink(f->path);
}

static struct bell_lm_session *
open_session(struct bell_lm *lm, uint32_t n_sequences, int64_t context,
             int64_t chunk)
{
    const struct bell_lm_session_desc desc = {sizeof(desc), n_sequences,
                                              context, chunk};
    struct bell_lm_session *session = NULL;

    assert_int_equal(bell_lm_session_create(lm, &desc, &session), BELL_OK);
    return session;
}

/* Token i of text `which`. */
static int32_t
token_of(uint32_t which, size_t i)
{
    return (int32_t)((7 * i + 3 * i * i + 5 * which + 1) % TINY_TOKENS);
}

static void
feed(struct bell_lm_session *session, uint32_t sequence, size_t begin_at,
     size_t n)
{
    int32_t tokens[TINY_CONTEXT];
    size_t i;

    for (i = 0; i < n; i++)
        tokens[i] = token_of(sequence, begin_at + i);
    assert_int_equal(bell_lm_feed(session, sequence, tokens, n), BELL_OK);
}

/* The logits behind n tokens of a text, within 1e-4: float32 against double,
 * over 4 layers, of logits up to about 5. */
static void
check_logits(const struct fixture *f, struct bell_lm_session *session,
             uint32_t sequence, size_t n)
{
    int32_t tokens[TINY_CONTEXT], chosen;
    double want[TINY_TOKENS];
    float got[TINY_TOKENS];
    size_t i, best = 0;

    for (i = 0; i < n; i++)
        tokens[i] = token_of(sequence, i);
    tiny_logits(&f->tiny, tokens, n, want);
    assert_int_equal(bell_lm_length(session, sequence), n);
    assert_int_equal(bell_lm_logits(session, sequence, got, TINY_TOKENS),
                     BELL_OK);
    for (i = 0; i < TINY_TOKENS; i++) {
        assert_float_equal(got[i], (float)want[i], 1e-4);
        best = got[i] > got[best] ? i : best;
    }
    assert_int_equal(bell_lm_choose(session, sequence, NULL, &chosen), BELL_OK);
    assert_int_equal(chosen, best);
}

/* ---- logits ---- */

static void
check_one(const struct fixture *f)
{
    struct bell_lm_session *session = open_session(f->lm, 1, 0, 4);
    static const size_t steps[] = {1, 1, 7, 4, 5, 1, 2};
    size_t n = 0, i;

    for (i = 0; i < ARRAY_LEN(steps); i++) {
        feed(session, 0, n, steps[i]);
        n += steps[i];
        assert_int_equal(bell_lm_run(session), BELL_OK);
        check_logits(f, session, 0, n);
    }
    assert_int_equal(bell_lm_rewind(session, 0, 6), BELL_OK);
    feed(session, 0, 6, 3);
    assert_int_equal(bell_lm_run(session), BELL_OK);
    check_logits(f, session, 0, 9);
    bell_lm_session_destroy(session);
}

static void
check_batch(const struct fixture *f)
{
    static const size_t turns[][3] = {
        {3, 9, 1}, {1, 1, 1}, {0, 2, 5}, {4, 0, 0}, {1, 1, 1}};
    struct bell_lm_session *session = open_session(f->lm, 3, 40, 4);
    size_t n[3] = {0}, turn;
    uint32_t k;

    for (turn = 0; turn < ARRAY_LEN(turns); turn++) {
        for (k = 0; k < 3; k++) {
            feed(session, k, n[k], turns[turn][k]);
            n[k] += turns[turn][k];
        }
        assert_int_equal(bell_lm_run(session), BELL_OK);
        for (k = 0; k < 3; k++) {
            if (turns[turn][k])
                check_logits(f, session, k, n[k]);
        }
        if (turn == 2)
            assert_int_equal(bell_lm_rewind(session, 1, n[1] -= 3), BELL_OK);
    }
    bell_lm_session_destroy(session);
}

static void
test_logits(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        struct fixture f;

        begin(&f, &kinds[i]);
        check_one(&f);
        check_batch(&f);
        end(&f);
    }
}

/* ---- folders ---- */

static void
remove_folder(const char *folder)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/config.json", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    unlink(path);
    rmdir(folder);
}

static void
test_folders(void **state)
{
    char folder[] = "/tmp/lm-XXXXXX";
    size_t i;

    (void)state;
    if (!BELL_HAVE_CJSON)
        skip();
    assert_non_null(mkdtemp(folder));
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        struct fixture f = {.tiny = {kinds[i], 5}};

        f.tiny.kind.rotates_neighbours = f.tiny.kind.has_freqs = false;
        assert_true(tiny_write_folder(&f.tiny, folder, NULL));
        assert_int_equal(bell_context_create("CPU", &f.ctx), BELL_OK);
        assert_int_equal(bell_lm_open(f.ctx, folder, NULL, &f.lm), BELL_OK);
        check_one(&f);
        bell_lm_close(f.lm);
        bell_context_destroy(f.ctx);
    }
    remove_folder(folder);
}

/* A key that changes numbers is refused by its name; one that does not, is
 * not. */
static void
test_folder_keys(void **state)
{
    static const struct {
        const char *line, *name; /* NULL: it makes no difference */
    } keys[] = {
        {"\"attention_dropout\": 0.1", NULL},
        {"\"torch_dtype\": \"bfloat16\"", NULL},
        {"\"attention_bias\": false", NULL},
        {"\"odd_scale\": null", NULL},
        {"\"odd_scale\": 0.5", "odd_scale"},
        {"\"attention_bias\": true", "attention_bias"},
        {"\"is_encoder_decoder\": true", "is_encoder_decoder"},
        {"\"hidden_act\": \"xielu\"", "xielu"},
        {"\"rope_parameters\": {\"rope_type\": \"dynamic\"}", "dynamic"},
        {"\"rope_parameters\": {\"odd\": 2}", "rope_parameters.odd"},
        {"\"layer_types\": [\"chunked_attention\"]", "chunked_attention"},
        {"\"quantization_config\": {\"quant_method\": \"awq\"}", "awq"},
        {"\"num_experts\": 4", "experts"},
    };
    char folder[] = "/tmp/lm-XXXXXX";
    struct bell_context *ctx;
    struct bell_lm *lm;
    size_t i;

    (void)state;
    if (!BELL_HAVE_CJSON)
        skip();
    assert_non_null(mkdtemp(folder));
    assert_int_equal(bell_context_create("CPU", &ctx), BELL_OK);
    for (i = 0; i < ARRAY_LEN(keys); i++) {
        const struct tiny_lm tiny = {{.family = "llama"}, 5};

        assert_true(tiny_write_folder(&tiny, folder, keys[i].line));
        if (!keys[i].name) {
            assert_int_equal(bell_lm_open(ctx, folder, NULL, &lm), BELL_OK);
            bell_lm_close(lm);
            continue;
        }
        assert_int_not_equal(bell_lm_open(ctx, folder, NULL, &lm), BELL_OK);
        if (!strstr(bell_error_last()->message, keys[i].name))
            fail_msg("%s: %s", keys[i].line, bell_error_last()->message);
    }
    bell_context_destroy(ctx);
    remove_folder(folder);
}

/* What a text has in common with the one before is not computed again. */
static void
test_feed_text(void **state)
{
    struct bell_lm_session *session;
    struct fixture f;
    int32_t tokens[20];
    size_t reused, i;

    (void)state;
    begin(&f, &kinds[0]);
    session = open_session(f.lm, 1, 0, 8);
    for (i = 0; i < 20; i++)
        tokens[i] = token_of(0, i);
    tokens[12] = (tokens[12] + 1) % TINY_TOKENS;
    assert_int_equal(bell_lm_feed_text(session, 0, tokens, 15, &reused),
                     BELL_OK);
    assert_int_equal(reused, 0);
    assert_int_equal(bell_lm_run(session), BELL_OK);
    tokens[12] = token_of(0, 12);
    assert_int_equal(bell_lm_feed_text(session, 0, tokens, 20, &reused),
                     BELL_OK);
    assert_int_equal(reused, 12);
    assert_int_equal(bell_lm_run(session), BELL_OK);
    check_logits(&f, session, 0, 20);
    assert_int_equal(bell_lm_feed_text(session, 0, tokens, 20, &reused),
                     BELL_OK);
    assert_int_equal(reused, 19);
    bell_lm_session_destroy(session);
    end(&f);
}

/* ---- drafts ---- */

/* The same tokens as one by one, with the model as its own draft and with
 * another, also beside a second sequence. */
static void
test_speculate(void **state)
{
    struct bell_lm_session *session, *draft;
    struct bell_lm *other;
    struct tiny_lm small;
    int32_t want[24], got[8];
    float hidden[TINY_DIM], before[TINY_TOKENS], after[TINY_TOKENS];
    struct fixture f;
    size_t n, n_got, n_runs, i, own;

    (void)state;
    begin(&f, &kinds[1]);
    small = f.tiny;
    small.seed = 6;
    assert_true(tiny_write(&small, f.path, NULL, NULL, false));
    assert_int_equal(bell_lm_open(f.ctx, f.path, NULL, &other), BELL_OK);
    session = open_session(f.lm, 2, 60, 8);
    feed(session, 1, 0, 5);
    assert_int_equal(bell_lm_run(session), BELL_OK);
    for (i = 0; i < 24; i++) {
        assert_int_equal(bell_lm_choose(session, 1, NULL, &want[i]), BELL_OK);
        assert_int_equal(bell_lm_feed(session, 1, &want[i], 1), BELL_OK);
        assert_int_equal(bell_lm_run(session), BELL_OK);
    }
    assert_int_equal(bell_lm_logits(session, 1, before, TINY_TOKENS), BELL_OK);
    assert_int_equal(bell_lm_hidden(session, 1, hidden, TINY_DIM), BELL_OK);
    for (own = 0; own < 2; own++) {
        draft = open_session(own ? f.lm : other, 2, 60, 8);
        assert_int_equal(bell_lm_rewind(session, 0, 0), BELL_OK);
        assert_int_equal(bell_lm_rewind(session, 1, 0), BELL_OK);
        feed(session, 0, 0, 3);
        feed(session, 1, 0, 5);
        assert_int_equal(bell_lm_run(session), BELL_OK);
        for (n = 0, n_runs = 0; n < 24; n += n_got, n_runs++) {
            uint32_t most = n + 5 <= 24 ? 4 : 1;

            assert_int_equal(
                bell_lm_speculate(session, draft, 1, most, got, &n_got),
                BELL_OK);
            assert_in_range(n_got, 1, most + 1);
            for (i = 0; i < n_got && n + i < 24; i++)
                assert_int_equal(got[i], want[n + i]);
            assert_int_equal(bell_lm_length(session, 1), 5 + n + n_got);
        }
        if (own)
            assert_true(n_runs <= 7);
        assert_int_equal(bell_lm_rewind(session, 1, 5 + 23), BELL_OK);
        assert_int_equal(bell_lm_feed(session, 1, &want[23], 1), BELL_OK);
        assert_int_equal(bell_lm_run(session), BELL_OK);
        assert_int_equal(bell_lm_logits(session, 1, after, TINY_TOKENS),
                         BELL_OK);
        for (i = 0; i < TINY_TOKENS; i++)
            assert_float_equal(before[i], after[i], 1e-5);
        bell_lm_session_destroy(draft);
    }
    bell_lm_session_destroy(session);
    bell_lm_close(other);
    end(&f);
}

/* ---- choices ---- */

static int32_t
choose(struct bell_lm_session *session, struct bell_lm_sampling sampling)
{
    int32_t token = -1;

    sampling.struct_size = sizeof(sampling);
    assert_int_equal(bell_lm_choose(session, 0, &sampling, &token), BELL_OK);
    assert_in_range(token, 0, TINY_TOKENS - 1);
    return token;
}

/* How often each token is chosen, of 4,000 times. */
static void
count(struct bell_lm_session *session, struct bell_lm_sampling sampling,
      uint32_t *counts)
{
    int i;

    memset(counts, 0, TINY_TOKENS * sizeof(*counts));
    assert_int_equal(bell_lm_seed(session, 0, 9), BELL_OK);
    for (i = 0; i < 4000; i++)
        counts[choose(session, sampling)]++;
}

static void
test_choices(void **state)
{
    uint32_t counts[TINY_TOKENS], n_kept;
    uint8_t allowed[(TINY_TOKENS + 7) / 8] = {0};
    float logits[TINY_TOKENS];
    double sum = 0, most;
    struct bell_lm_session *session;
    struct fixture f;
    int32_t best, second;
    size_t i;

    (void)state;
    begin(&f, &kinds[0]);
    session = open_session(f.lm, 1, 0, 8);
    feed(session, 0, 0, 6);
    assert_int_equal(bell_lm_run(session), BELL_OK);
    assert_int_equal(bell_lm_logits(session, 0, logits, TINY_TOKENS), BELL_OK);
    best = choose(session, (struct bell_lm_sampling){0});
    most = (double)logits[best];
    for (i = 0; i < TINY_TOKENS; i++)
        sum += exp(((double)logits[i] - most) / 2);
    /* as often as its probability says, within 5 standard deviations */
    count(session, (struct bell_lm_sampling){.temperature = 2}, counts);
    for (i = 0; i < TINY_TOKENS; i++) {
        double p = exp(((double)logits[i] - most) / 2) / sum;

        assert_true(fabs(counts[i] - 4000 * p) <=
                    5 * sqrt(4000 * p * (1 - p)) + 1);
    }
    count(session, (struct bell_lm_sampling){.temperature = 9, .top_k = 1},
          counts);
    assert_int_equal(counts[best], 4000);
    count(session, (struct bell_lm_sampling){.temperature = 9, .top_k = 3},
          counts);
    for (n_kept = 0, i = 0; i < TINY_TOKENS; i++)
        n_kept += counts[i] > 0;
    assert_int_equal(n_kept, 3);
    count(session, (struct bell_lm_sampling){.temperature = 2, .top_p = 1e-6},
          counts);
    assert_int_equal(counts[best], 4000);
    count(session, (struct bell_lm_sampling){.temperature = 2, .min_p = 0.5},
          counts);
    for (i = 0; i < TINY_TOKENS; i++)
        assert_int_equal(counts[i] > 0,
                         exp(((double)logits[i] - most) / 2) >= 0.5);
    allowed[0] = 0xff & ~(1u << (best % 8) * (best < 8));
    second = choose(session, (struct bell_lm_sampling){.allowed = allowed});
    assert_true(second < 8 && second != best);
    count(session,
          (struct bell_lm_sampling){.temperature = 9, .allowed = allowed},
          counts);
    for (i = 8; i < TINY_TOKENS; i++)
        assert_int_equal(counts[i], 0);
    /* a token of the text loses */
    for (i = 0; i < 6; i++)
        assert_true(choose(session,
                           (struct bell_lm_sampling){
                               .repetition_penalty = 1e6}) != token_of(0, i) ||
                    logits[token_of(0, i)] <= 0);
    bell_lm_session_destroy(session);
    end(&f);
}

/* ---- refusals ---- */

static void
expect_refusal(bell_status got, bell_status want, const char *part)
{
    assert_int_equal(got, want);
    if (!strstr(bell_error_last()->message, part))
        fail_msg("'%s' is not in '%s'", part, bell_error_last()->message);
}

static void
test_refused_files(void **state)
{
    struct bell_lm_session *session;
    struct fixture f;
    struct bell_lm *lm;
    int32_t token;

    (void)state;
    begin(&f, &kinds[3]);
    assert_true(
        tiny_write(&f.tiny, f.path, "blk.0.attn_sub_norm.weight", NULL, false));
    expect_refusal(bell_lm_open(f.ctx, f.path, NULL, &lm), BELL_E_UNSUPPORTED,
                   "blk.0.attn_sub_norm.weight");
    assert_true(
        tiny_write(&f.tiny, f.path, NULL, "attention.clamp_kqv", false));
    expect_refusal(bell_lm_open(f.ctx, f.path, NULL, &lm), BELL_E_UNSUPPORTED,
                   "attention.clamp_kqv");
    assert_true(tiny_write(&f.tiny, f.path, NULL, "ssm.group_count", false));
    expect_refusal(bell_lm_open(f.ctx, f.path, NULL, &lm), BELL_E_UNSUPPORTED,
                   "ssm.group_count");
    f.tiny.kind.family = "another";
    assert_true(tiny_write(&f.tiny, f.path, NULL, NULL, false));
    expect_refusal(bell_lm_open(f.ctx, f.path, NULL, &lm), BELL_E_UNSUPPORTED,
                   "another");
    f.tiny.kind.family = "olmo2"; /* whose norms are others */
    assert_true(tiny_write(&f.tiny, f.path, NULL, NULL, false));
    expect_refusal(bell_lm_open(f.ctx, f.path, NULL, &lm), BELL_E_IO,
                   "attn_q_norm.weight");
    f.tiny.kind.family = "qwen3";
    assert_true(tiny_write(&f.tiny, f.path, NULL, NULL, true));
    assert_int_equal(bell_lm_open(f.ctx, f.path, NULL, &lm), BELL_OK);
    session = open_session(lm, 1, 0, 4);
    feed(session, 0, 0, 3);
    assert_int_equal(bell_lm_run(session), BELL_OK);
    expect_refusal(bell_lm_choose(session, 0, NULL, &token), BELL_E_IO,
                   "damaged");
    bell_lm_session_destroy(session);
    bell_lm_close(lm);
    expect_refusal(bell_lm_open(f.ctx, "/tmp", NULL, &lm), BELL_E_IO,
                   "config.json");
    end(&f);
}

static void
test_refused_calls(void **state)
{
    struct bell_lm_info info = {.struct_size = sizeof(info)};
    const struct bell_lm_session_desc one = {sizeof(one), 1, 0, 1};
    struct bell_lm_sampling odd = {sizeof(odd), .temperature = -1};
    const int32_t bad = TINY_TOKENS;
    struct bell_lm_session *session, *none;
    float logits[TINY_TOKENS];
    struct fixture f;
    int32_t token;

    (void)state;
    begin(&f, &kinds[0]);
    bell_lm_get_info(f.lm, &info);
    assert_string_equal(info.family, "llama");
    assert_int_equal(info.n_tokens, TINY_TOKENS);
    assert_int_equal(info.context, TINY_CONTEXT);
    assert_null(bell_lm_tokenizer(f.lm));
    expect_refusal(bell_lm_session_create(f.lm, &one, &none), BELL_E_INVALID,
                   "chunks");
    session = open_session(f.lm, 2, 10, 4);
    expect_refusal(bell_lm_run(session), BELL_E_INVALID, "nothing was fed");
    expect_refusal(bell_lm_feed(session, 0, &bad, 1), BELL_E_INVALID,
                   "token 23");
    expect_refusal(bell_lm_feed(session, 2, &bad, 1), BELL_E_INVALID,
                   "sequence 2; the session has 2");
    feed(session, 0, 0, 10);
    expect_refusal(bell_lm_feed(session, 0, &token, 1), BELL_E_INVALID,
                   "context has 10");
    assert_int_equal(bell_lm_run(session), BELL_OK);
    expect_refusal(bell_lm_logits(session, 1, logits, TINY_TOKENS),
                   BELL_E_INVALID, "no logits");
    expect_refusal(bell_lm_logits(session, 0, logits, 5), BELL_E_INVALID,
                   "5 numbers");
    expect_refusal(bell_lm_choose(session, 0, &odd, &token), BELL_E_INVALID,
                   "temperature -1");
    feed(session, 1, 0, 1);
    expect_refusal(bell_lm_run(session), BELL_E_INVALID, "slots");
    expect_refusal(bell_lm_rewind(session, 0, 11), BELL_E_INVALID, "has 10");
    assert_int_equal(bell_lm_rewind(session, 0, 4), BELL_OK);
    assert_int_equal(bell_lm_run(session), BELL_OK);
    check_logits(&f, session, 1, 1);
    bell_lm_close(f.lm);
    expect_refusal(bell_lm_run(session), BELL_E_INVALID, "closed");
    bell_lm_session_destroy(session);
    f.lm = NULL;
    end(&f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_folder_keys),
        cmocka_unit_test(test_feed_text),
        cmocka_unit_test(test_speculate),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_refused_files),
        cmocka_unit_test(test_refused_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
