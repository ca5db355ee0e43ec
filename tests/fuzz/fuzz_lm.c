/* libFuzzer target: language models' files, and configurations of folders.
 * Whatever the bytes, opening ends in an error that says why or in a model that
 * says what it is; it is not run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doorbell/lm.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/tiny_lm.h"

/* A folder with weights, which goes with the process. */
static char folder[] = "/tmp/fuzz-lm-XXXXXX";

static void
remove_folder(void)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/config.json", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    unlink(path);
    rmdir(folder);
}

static void
make_folder(void)
{
    const struct tiny_lm lm = {{.family = "qwen3", .has_head_norms = true}, 5};

    if (!mkdtemp(folder) || !tiny_write_folder(&lm, folder, NULL))
        abort();
    atexit(remove_folder);
}

/* What begins as JSON is the folder's configuration. */
static const char *
path_of(const uint8_t *data, size_t size)
{
    static struct fuzz_file file;
    char path[64];
    FILE *config;

    if (size == 0 || data[0] != '{') {
        fuzz_file_write(&file, data, size);
        return file.path;
    }
    snprintf(path, sizeof(path), "%s/config.json", folder);
    config = fopen(path, "wb");
    if (!config || fwrite(data, 1, size, config) != size || fclose(config) != 0)
        abort();
    return folder;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bell_context *ctx;
    struct bell_lm_info info = {.struct_size = sizeof(info)};
    struct bell_lm *lm;

    if (!ctx) {
        if (bell_context_create("CPU", &ctx) != BELL_OK)
            abort();
        make_folder();
    }
    if (bell_lm_open(ctx, path_of(data, size), NULL, &lm) != BELL_OK) {
        if (!bell_error_last()->message[0])
            abort();
        return 0;
    }
    fuzz_accept();
    bell_lm_get_info(lm, &info);
    if (!info.family || info.n_tokens < 1 || info.context < 1 ||
        info.n_layers < 1)
        abort();
    bell_lm_close(lm);
    return 0;
}
