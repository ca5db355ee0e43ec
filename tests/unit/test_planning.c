/* Plans of training on many devices: limits, formulas of papers, and what must
 * grow or shrink with what, by random layouts.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "tests/unit/expect.h"
#include "tools/plan/plan.h"

#define GIB 1073741824.0

static const struct plan_machine *h100, *a100;
static const struct plan_model *llama, *gpt;

static int
find_rows(void **state)
{
    (void)state;
    h100 = plan_machine_find("dgx-h100");
    a100 = plan_machine_find("dgx-a100");
    llama = plan_model_find("llama-8b");
    gpt = plan_model_find("megatron-22b");
    assert_true(h100 && a100 && llama && gpt);
    return 0;
}

static struct plan_layout
plain(uint32_t data, uint32_t tensor, uint32_t pipeline)
{
    return (struct plan_layout){.data = data,
                                .tensor = tensor,
                                .pipeline = pipeline,
                                .context = 1,
                                .interleave = 1,
                                .micro = 1,
                                .batch = 64,
                                .length = 2048,
                                .gradient_bytes = 2};
}

static struct plan_prediction
predict(const struct plan_machine *machine, const struct plan_model *model,
        const struct plan_layout *layout)
{
    struct plan_prediction out;

    expect_ok(plan_predict(machine, model, layout, &out));
    return out;
}

static void
expect_near(const char *what, double got, double want, double share)
{
    if (fabs(got - want) > share * fabs(want))
        fail_msg("%s: got %.6g, expected %.6g", what, got, want);
}

/* ---- tables -------------------------------------------------------------- */

static void
test_tables(void **state)
{
    /* in 1e9: the models' cards and papers */
    static const struct {
        const char *name;
        double billions;
    } rows[] = {
        {"llama-8b", 8.03},     {"llama-70b", 70.55},   {"llama-405b", 405.85},
        {"llama2-7b", 6.738},   {"llama2-13b", 13.016}, {"llama2-70b", 68.977},
        {"mpt-7b", 6.658859},   {"mpt-13b", 12.853955}, {"mpt-30b", 29.975214},
        {"mpt-70b", 64.862437}, {"gpt3-175b", 174.6},   {"turing-530b", 529.6},
        {"megatron-1t", 1008}};
    size_t i, k;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const struct plan_model *model = plan_model_find(rows[i].name);

        assert_non_null(model);
        expect_near(rows[i].name, plan_params(model, model->length) / 1e9,
                    rows[i].billions, 0.002);
    }
    for (i = 0; i < plan_n_machines; i++) {
        const struct plan_machine *m = &plan_machines[i];

        assert_non_null(chip_find(m->chip));
        for (k = 0; k < PLAN_DTYPE_COUNT; k++)
            assert_true(m->share[k] >= 0 && m->share[k] <= 1);
        assert_true(m->link_share > 0 && m->link_share <= 1);
        assert_true(m->nic_share > 0 && m->nic_share <= 1);
        assert_ptr_equal(plan_machine_find(m->name), m);
    }
    assert_null(plan_machine_find("dgx"));
    assert_null(plan_model_find("llama"));
}

/* ---- limits -------------------------------------------------------------- */

static void
test_alone(void **state)
{
    struct plan_layout layout = plain(1, 1, 1);
    uint32_t zero;

    (void)state;
    for (zero = 0; zero <= 3; zero++) {
        struct plan_prediction x;
        double sum = 0;
        uint32_t i;

        layout.zero = zero;
        x = predict(h100, llama, &layout);
        for (i = 0; i < 2; i++)
            assert_true(x.tensor_bytes[i] == 0 && x.data_bytes[i] == 0 &&
                        x.pipeline_bytes[i] == 0 && x.context_bytes[i] == 0);
        assert_true(x.part_s[PLAN_TENSOR_WAIT] == 0);
        assert_true(x.part_s[PLAN_DATA_WAIT] == 0);
        assert_true(x.part_s[PLAN_BUBBLE] == 0);
        assert_true(x.part_s[PLAN_STRAGGLERS] == 0);
        assert_true(x.memory[PLAN_GATHERED] == 0);
        for (i = 0; i < PLAN_PART_COUNT; i++)
            sum += x.part_s[i];
        expect_near("the step", x.step_s, sum, 1e-12);
        expect_near("tokens", x.tokens_per_s, 64 * 2048 / x.step_s, 1e-12);
        assert_true(x.utilisation > 0.2 && x.utilisation < 0.7);
    }
}

/* A large product reaches the machine's share of the peak, a flat one the
 * memory's bandwidth; none is faster than either. */
static void
test_product(void **state)
{
    double s = plan_product_s(h100, PLAN_BF16, 65536, 65536, 65536);

    (void)state;
    expect_near("a large product", 2 * pow(65536, 3) / s / 1e12,
                989.4 * h100->share[PLAN_BF16], 0.002);
    s = plan_product_s(h100, PLAN_BF16, 1, 16384, 16384);
    expect_near("a flat product", 2 * 16384.0 * 16384 / s / 1e9, 3352 * 0.8,
                0.03);
}

/* The sizes of a part, by the formulas of the page. */
static void
test_parts(void **state)
{
    struct plan_layout layout = plain(8, 1, 1);
    struct plan_machine slow = *h100;
    struct plan_prediction x = predict(h100, llama, &layout);
    double s = 2048, h = 4096, peak = 989.4e12 * h100->flash_share;
    double n = 64 / 8, backward, bubble;

    (void)state;
    expect_near("attention", x.part_s[PLAN_ATTENTION],
                n * 32 * 3.5 * (4 * s * s * h / 2 / peak + 3e-6), 1e-6);
    /* all of it is hidden, or what the last micro-batch hides */
    expect_near("hidden", x.part_s[PLAN_DATA_WAIT], 0.5 * x.data_s, 1e-9);
    backward = (x.part_s[PLAN_PRODUCTS] * 2 / 3 +
                x.part_s[PLAN_ATTENTION] * 2.5 / 3.5 +
                x.part_s[PLAN_ELEMENTWISE] * 2 / 3) /
               n;
    slow.link_gb_s /= 1000;
    x = predict(&slow, llama, &layout);
    assert_true(x.data_s > 10 * backward);
    expect_near("what sticks out", x.part_s[PLAN_DATA_WAIT],
                x.data_s - 0.5 * backward, 1e-9);
    /* three micro-batches of 64, interleaved half of them */
    layout = plain(1, 1, 4);
    x = predict(h100, llama, &layout);
    bubble = 3.0 / 64 *
             (x.part_s[PLAN_PRODUCTS] + x.part_s[PLAN_ATTENTION] +
              x.part_s[PLAN_ELEMENTWISE]);
    expect_near("bubble", x.part_s[PLAN_BUBBLE], bubble, 0.01);
    layout.interleave = 2;
    expect_near("interleaved",
                predict(h100, llama, &layout).part_s[PLAN_BUBBLE], bubble / 2,
                0.02);
    /* half of the layers again, or all */
    layout = plain(1, 1, 1);
    x = predict(h100, llama, &layout);
    backward = x.part_s[PLAN_PRODUCTS] / 3 + x.part_s[PLAN_ATTENTION] / 3.5 +
               x.part_s[PLAN_ELEMENTWISE] / 3;
    layout.checkpoint = PLAN_FULL;
    expect_near("full", predict(h100, llama, &layout).part_s[PLAN_RECOMPUTE],
                backward, 1e-9);
    layout.checkpoint = PLAN_HALF;
    expect_near("half", predict(h100, llama, &layout).part_s[PLAN_RECOMPUTE],
                backward / 2, 1e-9);
}

/* ---- bytes --------------------------------------------------------------- */

/* Bytes that a device sends along the data axis. */
static void
test_data_bytes(void **state)
{
    struct plan_layout layout = plain(8, 1, 1);
    double params, n = 8;

    (void)state;
    layout.gradient_bytes = 4;
    params = predict(h100, llama, &layout).local_params;
    expect_near("all parameters", params, plan_params(llama, 2048), 1e-4);
    /* an all-reduce; a scatter and a gather; the same, a scatter for each of 8
     * micro-batches; two gathers and a scatter for each */
    expect_near("data parallel", predict(h100, llama, &layout).data_bytes[0],
                2 * (n - 1) / n * 4 * params, 1e-6);
    layout.zero = 1;
    expect_near("ZeRO 1", predict(h100, llama, &layout).data_bytes[0],
                (n - 1) / n * (4 + 2) * params, 1e-6);
    layout.zero = 2;
    expect_near("ZeRO 2", predict(h100, llama, &layout).data_bytes[0],
                (n - 1) / n * (8 * 4 + 2) * params, 1e-6);
    layout.zero = 3;
    expect_near("ZeRO 3", predict(h100, llama, &layout).data_bytes[0],
                (n - 1) / n * 8 * (2 + 2 + 4) * params, 1e-6);
    /* of two boxes each NIC carries its eighth */
    layout = plain(16, 1, 1);
    layout.gradient_bytes = 4;
    expect_near("between two boxes",
                predict(h100, llama, &layout).data_bytes[1],
                2 * 1.0 / 2 * 4 * params / 8, 1e-6);
    expect_near("within two boxes", predict(h100, llama, &layout).data_bytes[0],
                2 * 7.0 / 8 * 4 * params, 1e-6);
    /* with a tensor axis over the whole box all of it is between */
    layout = plain(2, 8, 1);
    params = predict(h100, llama, &layout).local_params;
    assert_true(predict(h100, llama, &layout).data_bytes[0] == 0);
    expect_near("between boxes", predict(h100, llama, &layout).data_bytes[1],
                2 * 1.0 / 2 * 2 * params, 1e-6);
}

static void
test_other_bytes(void **state)
{
    struct plan_layout layout = plain(1, 8, 1);
    double sbh = 2048.0 * 4096;

    (void)state;
    /* 4 all-reduces a layer and micro-batch, 6 if it is done again */
    expect_near("tensor", predict(h100, llama, &layout).tensor_bytes[0],
                64 * 32 * 4 * 2 * 7.0 / 8 * 2 * sbh, 1e-6);
    layout.checkpoint = PLAN_FULL;
    expect_near("again", predict(h100, llama, &layout).tensor_bytes[0],
                64 * 32 * 6 * 2 * 7.0 / 8 * 2 * sbh, 1e-6);
    /* keys and values twice, their gradients once: 8 key heads for 32 */
    layout = plain(1, 1, 1);
    layout.context = 4;
    expect_near("context", predict(h100, llama, &layout).context_bytes[0],
                64 * 32 * 3 * 3.0 / 4 * 2 * 2 * sbh / 4, 1e-6);
    /* a stage sends forward and back */
    layout = plain(1, 1, 4);
    expect_near("pipeline", predict(h100, llama, &layout).pipeline_bytes[0],
                64 * 2 * 2 * sbh, 1e-12);
    layout = plain(1, 8, 4);
    layout.sequence = true;
    layout.interleave = 2;
    expect_near("pipeline", predict(h100, llama, &layout).pipeline_bytes[1],
                64 * 2 * 2 * 2 * sbh / 8, 1e-12);
}

/* ---- memory -------------------------------------------------------------- */

/* Rajbhandari et al. 2020, figure 1: 7.5e9 parameters on 64 devices take 120,
 * 31.4, 16.6 and 1.9 GB; table 1: 128e9 on 4, 16, 64, 256 and 1024. */
static void
test_zero_memory(void **state)
{
    static const struct {
        double params;
        uint32_t n;
        double gb[4];
    } rows[] = {
        {7.5e9, 64, {120, 31.4, 16.6, 1.88}},
        {7.5e9, 1, {120, 120, 120, 120}},
        {7.5e9, 4, {120, 52.5, 41.3, 30}},
        {7.5e9, 1024, {120, 30.1, 15.1, 0.12}},
        {128e9, 16, {2048, 608, 368, 128}},
        {128e9, 256, {2048, 518, 264, 8}},
        {1e12, 1024, {16000, 4011, 2013, 15.6}},
    };
    size_t i;
    uint32_t zero;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        for (zero = 0; zero <= 3; zero++) {
            struct plan_layout layout = plain(rows[i].n, 1, 1);
            struct plan_prediction x;
            double params, states;

            layout.batch = rows[i].n;
            layout.zero = zero;
            plan_memory(h100, llama, &layout, &x);
            params = x.local_params;
            states = x.memory[PLAN_WEIGHTS] + x.memory[PLAN_GRADIENTS] +
                     x.memory[PLAN_OPTIMISER];
            expect_near("weights, gradients and state",
                        states * rows[i].params / params / 1e9,
                        rows[i].gb[zero], 0.03);
        }
    }
}

/* Korthikanti et al. 2022, table 2: bytes of a layer, with scores 5as/h. */
static void
test_activations(void **state)
{
    struct plan_layout layout = plain(1, 8, 1);
    double sbh, scores, t = 8;

    (void)state;
    layout.micro = 4;
    layout.no_flash = true;
    sbh = 2048.0 * 4 * gpt->hidden;
    scores = 5.0 * gpt->n_heads * 2048 / gpt->hidden;
    expect_near("tensor", plan_layer_activations(gpt, &layout),
                sbh * (10 + 24 / t + scores / t), 1e-12);
    layout.sequence = true;
    expect_near("and sequence", plan_layer_activations(gpt, &layout),
                sbh * (34 / t + scores / t), 1e-12);
    layout.checkpoint = PLAN_SELECTIVE;
    expect_near("and selective", plan_layer_activations(gpt, &layout),
                sbh * 34 / t, 1e-12);
    layout.sequence = false;
    expect_near("tensor, selective", plan_layer_activations(gpt, &layout),
                sbh * (10 + 24 / t), 1e-12);
    layout.checkpoint = PLAN_FULL;
    expect_near("full", plan_layer_activations(gpt, &layout), 2 * sbh, 1e-12);
    layout = plain(1, 1, 1);
    layout.no_flash = true;
    sbh = 2048.0 * gpt->hidden;
    expect_near("one device", plan_layer_activations(gpt, &layout),
                sbh * (34 + scores), 1e-12);
    layout.no_flash = false;
    expect_near("flash", plan_layer_activations(gpt, &layout), sbh * 34, 1e-12);
}

/* The same paper's figure 1, in GiB, activations of the first stage. */
static void
test_stage_activations(void **state)
{
    static const struct {
        const char *model;
        uint32_t pipeline, interleave, micro, batch;
        double all, few;
    } rows[] = {
        {"megatron-22b", 1, 1, 4, 4, 59.25, 9.5625},
        {"gpt3-175b", 8, 3, 1, 64, 66.84, 12.35},
        {"turing-530b", 35, 3, 1, 280, 114.02, 23.08},
        {"megatron-1t", 64, 1, 1, 512, 131.25, 26.56},
    };
    size_t i;

    (void)state;
    for (i = 0; i < ARRAY_LEN(rows); i++) {
        const struct plan_model *model = plan_model_find(rows[i].model);
        struct plan_layout layout = plain(1, 8, rows[i].pipeline);
        struct plan_prediction x;

        layout.interleave = rows[i].interleave;
        layout.micro = rows[i].micro;
        layout.batch = rows[i].batch;
        layout.no_flash = true;
        plan_memory(a100, model, &layout, &x);
        expect_near(rows[i].model, x.memory[PLAN_ACTIVATIONS] / GIB,
                    rows[i].all, 0.01);
        layout.sequence = true;
        layout.checkpoint = PLAN_SELECTIVE;
        plan_memory(a100, model, &layout, &x);
        expect_near(rows[i].model, x.memory[PLAN_ACTIVATIONS] / GIB,
                    rows[i].few, 0.01);
    }
}

/* ---- exchanges ----------------------------------------------------------- */

static void
test_exchange(void **state)
{
    struct plan_exchange one, last = {0};
    double n_bytes = 1e9, rate = 300e9 * 0.775;
    uint32_t n;

    (void)state;
    expect_ok(plan_exchange(a100, HCQ_COLLECTIVE_ALL_REDUCE,
                            HCQ_COLLECTIVE_AUTO, 1, 1, n_bytes, &one));
    assert_true(one.s == 0 && one.bytes[0] == 0);
    /* one box: all that a link can; more boxes: no faster, and at 8 ranks of a
     * box the NICs' bound */
    for (n = 2; n <= 1024; n *= 2) {
        double busbw;

        expect_ok(plan_exchange(a100, HCQ_COLLECTIVE_ALL_REDUCE,
                                HCQ_COLLECTIVE_AUTO, n, 1, n_bytes, &one));
        busbw = 2 * (n - 1.0) / n * n_bytes / one.s;
        assert_true(busbw <= rate * 1.001);
        assert_true(one.s > last.s);
        if (n == 8)
            expect_near("a box", busbw, rate, 0.01);
        if (n == 1024)
            expect_near("128 boxes", busbw, 8 * 25e9 * 0.96, 0.2);
        last = one;
    }
    /* a rank of each box, and ranks of which 4 are in a box */
    expect_ok(plan_exchange(a100, HCQ_COLLECTIVE_ALL_GATHER,
                            HCQ_COLLECTIVE_AUTO, 4, 8, n_bytes, &one));
    assert_true(one.bytes[0] == 0);
    expect_near("one of a box", one.bytes[1], 0.75 * n_bytes, 1e-9);
    expect_ok(plan_exchange(a100, HCQ_COLLECTIVE_ALL_GATHER,
                            HCQ_COLLECTIVE_AUTO, 8, 2, n_bytes, &one));
    expect_near("four of a box", one.bytes[1], 0.5 * n_bytes / 4, 1e-9);
}

/* ---- refusals ------------------------------------------------------------ */

static void
test_refusals(void **state)
{
    struct plan_prediction x;
    struct plan_layout layout;

#define REFUSED(model, status, part)                                           \
    expect_fails(plan_predict(h100, model, &layout, &x), status, part)
    (void)state;
    layout = plain(1, 0, 1);
    REFUSED(llama, BELL_E_INVALID, "sizes are 1 or more");
    layout = plain(65536, 8, 1);
    REFUSED(llama, BELL_E_INVALID, "524288 devices, at most 65536");
    layout = plain(1, 3, 1);
    REFUSED(llama, BELL_E_INVALID,
            "its 32 heads cannot be split over a tensor axis of 3");
    layout = plain(1, 16, 1);
    REFUSED(llama, BELL_E_INVALID,
            "its 8 key and value heads cannot be split over a tensor axis of "
            "16");
    layout = plain(3, 1, 1);
    REFUSED(llama, BELL_E_INVALID,
            "a batch of 64 is not a multiple of 3 replicas with micro-batches "
            "of 1");
    layout = plain(1, 1, 33);
    REFUSED(llama, BELL_E_INVALID, "33 parts of stages for its 32 layers");
    layout = plain(1, 1, 1);
    layout.interleave = 2;
    REFUSED(llama, BELL_E_INVALID, "--interleave 2 needs a pipeline");
    layout = plain(1, 1, 8);
    layout.interleave = 2;
    layout.batch = 12;
    REFUSED(llama, BELL_E_INVALID, "multiples of 8 micro-batches, got 12");
    layout = plain(1, 1, 1);
    layout.sequence = true;
    REFUSED(llama, BELL_E_INVALID, "--sequence splits norms");
    layout = plain(1, 8, 1);
    layout.sequence = true;
    layout.length = 2044;
    REFUSED(llama, BELL_E_INVALID, "2044 tokens cannot be split");
    layout = plain(1, 1, 1);
    layout.context = 3;
    REFUSED(llama, BELL_E_INVALID,
            "2048 tokens cannot be split over a context axis of 3");
    layout = plain(1, 1, 1);
    layout.zero = 4;
    REFUSED(llama, BELL_E_INVALID, "ZeRO 4 of 0 to 3");
    layout = plain(1, 1, 1);
    layout.dtype = PLAN_FP8;
    expect_fails(plan_predict(a100, llama, &layout, &x), BELL_E_UNSUPPORTED,
                 "its a100 has no fp8 products");
#undef REFUSED
}

/* ---- random layouts ------------------------------------------------------ */

static uint32_t
draw(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

static struct plan_layout
draw_layout(uint64_t *seed)
{
    static const uint32_t powers[] = {1, 2, 4, 8};
    struct plan_layout l = plain(powers[draw(seed, 4)] * powers[draw(seed, 4)],
                                 powers[draw(seed, 4)], powers[draw(seed, 4)]);

    l.micro = powers[draw(seed, 3)];
    l.context = powers[draw(seed, 3)];
    l.batch = l.data * l.micro * 8 * (1 + draw(seed, 3));
    l.length = 1024 << draw(seed, 3);
    l.zero = draw(seed, 4);
    l.sequence = l.tensor > 1 && draw(seed, 2);
    l.checkpoint = draw(seed, PLAN_CHECKPOINT_COUNT);
    l.dtype = draw(seed, 2);
    l.gradient_bytes = draw(seed, 2) ? 2 : 4;
    l.no_flash = draw(seed, 2);
    l.overlap_tensor = draw(seed, 2);
    if (l.pipeline > 1 && draw(seed, 2))
        l.interleave = 2;
    return l;
}

/* A changed layout and what must not grow by it. */
static void
expect_order(const struct plan_layout *l, const struct plan_prediction *x)
{
    struct plan_layout other = *l;
    struct plan_machine fast = *h100;
    struct plan_prediction y;

    if (l->zero < 3) {
        other.zero++;
        y = predict(h100, llama, &other);
        assert_true(y.memory[PLAN_WEIGHTS] + y.memory[PLAN_GRADIENTS] +
                        y.memory[PLAN_OPTIMISER] <=
                    x->memory[PLAN_WEIGHTS] + x->memory[PLAN_GRADIENTS] +
                        x->memory[PLAN_OPTIMISER]);
        assert_true(y.part_s[PLAN_UPDATE] <= x->part_s[PLAN_UPDATE]);
        other = *l;
    }
    other.checkpoint = PLAN_FULL;
    y = predict(h100, llama, &other);
    assert_true(plan_layer_activations(llama, &other) <=
                plan_layer_activations(llama, l));
    assert_true(y.step_s >= x->step_s * 0.999999);
    assert_true(y.tensor_bytes[0] >= x->tensor_bytes[0]);
    other = *l;
    other.batch *= 2;
    y = predict(h100, llama, &other);
    assert_true(y.step_s > x->step_s && y.step_s < 2.000001 * x->step_s);
    assert_true(y.memory_bytes >= x->memory_bytes);
    other = *l;
    other.length *= 2;
    y = predict(h100, llama, &other);
    assert_true(y.step_s > x->step_s && y.memory_bytes > x->memory_bytes);
    fast.nic_gb_s *= 2;
    fast.link_gb_s *= 2;
    y = predict(&fast, llama, l);
    assert_true(y.step_s <= x->step_s);
    fast = *h100;
    fast.share[l->dtype] *= 1.2;
    y = predict(&fast, llama, l);
    assert_true(y.step_s <= x->step_s * 1.000001);
}

static void
test_random_layouts(void **state)
{
    uint64_t seed = 46;
    uint32_t i, k;

    (void)state;
    for (i = 0; i < 300; i++) {
        struct plan_layout layout = draw_layout(&seed);
        struct plan_prediction x = predict(h100, llama, &layout);
        double sum = 0;

        for (k = 0; k < PLAN_PART_COUNT; k++)
            assert_true(x.part_s[k] >= 0 && isfinite(x.part_s[k]));
        for (k = 0; k < PLAN_MEMORY_COUNT; k++) {
            assert_true(x.memory[k] >= 0);
            sum += x.memory[k];
        }
        expect_near("memory", x.memory_bytes, sum, 1e-12);
        assert_true(x.utilisation > 0 && x.utilisation < h100->share[0]);
        assert_true(plan_least_s(h100, llama, &layout) <= x.step_s);
        expect_order(&layout, &x);
    }
}

/* The search gives what fits, best first, and nothing twice. */
static void
test_search(void **state)
{
    struct plan_choice choices[8];
    struct plan_layout fixed = plain(1, 1, 1);
    struct plan_prediction x;
    size_t n, i, k;

    (void)state;
    fixed.batch = 128;
    expect_ok(plan_search(h100, llama, &fixed, 64, choices, 8, &n));
    assert_int_equal(n, 8);
    for (i = 0; i < n; i++) {
        const struct plan_layout *l = &choices[i].layout;

        assert_int_equal(l->data * l->context * l->tensor * l->pipeline, 64);
        assert_true(choices[i].prediction.memory_bytes <=
                    choices[i].prediction.capacity_bytes);
        if (i > 0) {
            assert_true(choices[i].prediction.step_s >=
                        choices[i - 1].prediction.step_s);
        }
        expect_ok(plan_predict(h100, llama, l, &x));
        expect_near("what is found", choices[i].prediction.step_s, x.step_s,
                    1e-12);
        assert_true(plan_least_s(h100, llama, l) < x.step_s);
        for (k = 0; k < i; k++) {
            const struct plan_layout *other = &choices[k].layout;

            assert_false(l->data == other->data && l->tensor == other->tensor &&
                         l->pipeline == other->pipeline);
        }
    }
    /* the best one is the same however many are asked for */
    x = choices[0].prediction;
    expect_ok(plan_search(h100, llama, &fixed, 64, choices, 1, &n));
    assert_int_equal(n, 1);
    assert_true(choices[0].prediction.step_s == x.step_s);
    fixed.batch = 1;
    expect_ok(plan_search(a100, plan_model_find("megatron-1t"), &fixed, 8,
                          choices, 8, &n));
    assert_int_equal(n, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_product),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_data_bytes),
        cmocka_unit_test(test_other_bytes),
        cmocka_unit_test(test_zero_memory),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_stage_activations),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_random_layouts),
        cmocka_unit_test(test_search),
    };

    return cmocka_run_group_tests_name("planning", tests, find_rows, NULL);
}
