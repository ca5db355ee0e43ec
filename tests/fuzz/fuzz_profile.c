/* libFuzzer target: traces that `doorbell profile` reads. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tools/tools.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file file;
    const char *const text[] = {"profile", file.path, NULL};
    const char *const json[] = {"profile", file.path, "--json", NULL};
    int code;

    fuzz_file_write(&file, data, size);
    code = fuzz_verb(verb_profile, text);
    if (fuzz_verb(verb_profile, json) != code)
        abort();
    if (code == TOOL_OK)
        fuzz_accept();
    return 0;
}
