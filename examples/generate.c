/* Text by a language model's bundle, with the driver half alone:
 *     doorbell demo llama --model FILE --bundle llama.bundle --target NV@null:h100
 *     generate llama.bundle NV 64 1
 * The tokens of the beginning follow the number of tokens in all; each next one
 * is the likeliest (docs/tutorials/bundle.md). */
#include <hcq/hcq_bundle.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct model {
    struct hcq_bundle *bundle;
    uint32_t token, place, logits; /* values of the bundle */
    uint64_t n_tokens;
    float *scores;
};

static bool
find_values(struct model *m)
{
    m->token = hcq_bundle_find(m->bundle, HCQ_BUNDLE_INPUT, "token");
    m->place = hcq_bundle_find(m->bundle, HCQ_BUNDLE_SYMBOL, "place");
    m->logits = hcq_bundle_find(m->bundle, HCQ_BUNDLE_OUTPUT, "logits");
    if (m->token == HCQ_BUNDLE_NONE || m->place == HCQ_BUNDLE_NONE ||
        m->logits == HCQ_BUNDLE_NONE)
        return false;
    m->n_tokens = hcq_bundle_value(m->bundle, m->logits)->shape[0];
    m->scores = malloc(m->n_tokens * sizeof(*m->scores));
    return m->scores != NULL;
}

/* What follows the token at that place; the state of the bundle has those
 * before it. */
static bell_status
next(struct model *m, int32_t token, int64_t place, int32_t *out)
{
    bell_status status =
        hcq_bundle_write(m->bundle, m->token, &token, sizeof(token));
    uint64_t i;

    if (status == BELL_OK)
        status = hcq_bundle_write(m->bundle, m->place, &place, sizeof(place));
    if (status == BELL_OK)
        status = hcq_bundle_run(m->bundle, NULL);
    if (status == BELL_OK)
        status = hcq_bundle_read(m->bundle, m->logits, m->scores,
                                 m->n_tokens * sizeof(*m->scores));
    for (*out = 0, i = 1; status == BELL_OK && i < m->n_tokens; i++) {
        if (m->scores[i] > m->scores[*out])
            *out = (int32_t)i;
    }
    return status;
}

static bell_status
generate(struct model *m, int n, int n_given, char **given)
{
    bell_status status = BELL_OK;
    int32_t token = 0, i;

    for (i = 0; i < n && status == BELL_OK; i++) {
        if (i < n_given)
            token = atoi(given[i]);
        printf("%s%d", i ? " " : "", token);
        status = next(m, token, i, &token);
    }
    putchar('\n');
    return status;
}

int
main(int argc, char **argv)
{
    struct model m = {.bundle = NULL};
    struct hcq_device *dev = NULL;
    bell_status status;

    if (argc < 5) {
        fprintf(stderr, "usage: generate FILE DEVICE N TOKEN...\n");
        return EXIT_FAILURE;
    }
    status = hcq_device_open(argv[2], &dev);
    if (status == BELL_OK)
        status = hcq_bundle_open(dev, argv[1], &m.bundle);
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    else if (!find_values(&m))
        fprintf(stderr, "%s: no language model, or too large\n", argv[1]);
    else if ((status = generate(&m, atoi(argv[3]), argc - 4, argv + 4)) !=
             BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    free(m.scores);
    hcq_bundle_close(m.bundle);
    hcq_device_close(dev);
    return bell_status_exit_code(status);
}
