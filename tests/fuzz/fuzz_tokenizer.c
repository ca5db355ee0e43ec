/* libFuzzer target: tokenizers' files of every kind. Whatever the bytes,
 * opening ends in an error or in a tokenizer that encodes, decodes and
 * streams. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell/tokenizer.h"
#include "tests/fuzz/fuzz.h"

/* Texts that each tokenizer gets. */
static const char *const texts[] = {
    "",
    " ",
    "Hello  world\n",
    "\xe4\xbd\xa0\xc3\xa9 12345 it's <s>",
    "e\xcc\x81\xef\xac\x81 \xf0\x9f\x91\x8d\xe2\x96\x81x</s>",
};

static void
check_stream(const struct bell_tokenizer *t, const int32_t *ids, size_t n)
{
    struct bell_token_stream *stream;
    const char *part;
    size_t n_part, i;

    if (bell_token_stream_create(t, 0, &stream) != BELL_OK)
        abort();
    for (i = 0; i < n; i++) {
        if (bell_token_stream_next(stream, ids[i], &part, &n_part) != BELL_OK)
            break;
    }
    (void)!bell_token_stream_end(stream, &part, &n_part);
    bell_token_stream_destroy(stream);
}

static void
check_text(const struct bell_tokenizer *t, const char *text, uint32_t flags)
{
    int32_t *ids;
    char *back;
    size_t n, n_back, i;

    if (bell_tokenizer_encode(t, text, strlen(text), flags, &ids, &n) !=
        BELL_OK)
        return;
    for (i = 0; i < n; i++) {
        const char *name;
        size_t n_name;
        if (!bell_tokenizer_name(t, ids[i], &name, &n_name))
            abort();
    }
    if (bell_tokenizer_decode(t, ids, n, flags & 1, &back, &n_back) == BELL_OK)
        bell_tokenizer_free(back);
    check_stream(t, ids, n);
    bell_tokenizer_free(ids);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file file;
    struct bell_tokenizer *t;
    uint32_t flags;
    size_t i;

    fuzz_file_write(&file, data, size);
    if (bell_tokenizer_open(file.path, &t) != BELL_OK)
        return 0;
    fuzz_accept();
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (flags = 0; flags < 4; flags++)
            check_text(t, texts[i], flags);
    }
    bell_tokenizer_close(t);
    return 0;
}
