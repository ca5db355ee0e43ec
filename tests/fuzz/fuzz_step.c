/* libFuzzer target: commands of `doorbell step --script`, for a cassette and
 * for a simulated card. FUZZ_CASSETTE is the cassette. A script that the
 * program ends well with has no command that could not be done. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tools/tools.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file file;
    const char *const replay[] = {"step",     "--replay", FUZZ_CASSETTE,
                                  "--script", file.path,  NULL};
    const char *const card[] = {"step", "NV@sim:sm_90", "x + 1",   "--in",
                                "x=4",  "--script",     file.path, NULL};
    int code;

    fuzz_file_write(&file, data, size);
    (void)fuzz_verb(verb_step, replay);
    code = fuzz_verb(verb_step, card);
    if (code != TOOL_OK && code != TOOL_FAILED)
        abort();
    if (code == TOOL_OK)
        fuzz_accept();
    return 0;
}
