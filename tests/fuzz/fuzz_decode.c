/* libFuzzer target: what `doorbell decode` reads. Any bytes are words or an
 * error that names what is wrong; any words become text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "hcq/decode/decode_nv.h"
#include "tools/words.h"
#include "tests/fuzz/fuzz.h"

static void
count_line(void *user, const char *line)
{
    size_t *n_chars = user;

    *n_chars += strlen(line);
}

/* Everything may be named or not, but no more words than there are. */
static void
decode_all(const struct words *words)
{
    size_t n_chars = 0, i;
    const struct decode_nv_chip *chip;
    struct decode_nv d;

    for (i = 0; (chip = decode_nv_chip_at(i)) != NULL; i++) {
        decode_nv_init(&d, count_line, &n_chars);
        (void)decode_nv_bind(&d, chip->gpfifo_class);
        (void)decode_nv_bind(&d, chip->compute_class);
        (void)decode_nv_bind(&d, chip->copy_class);
        (void)decode_nv_push(&d, words->w, words->n);
        if (decode_nv_ring(&d, words->w, words->n, 0) > words->n ||
            decode_nv_qmd(&d, words->w, words->n, 0) > words->n)
            abort();
    }
    if (words->n && n_chars == 0)
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct words words;

    if (words_parse("fuzz", data, size, &words) != BELL_OK) {
        if (!strstr(bell_error_last()->message, "fuzz: "))
            abort();
        return 0;
    }
    decode_all(&words);
    fuzz_accept();
    host_free(words.w);
    return 0;
}
