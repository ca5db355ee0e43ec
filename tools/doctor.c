/* `doorbell doctor`: what is missing on this machine and how to fix it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "doorbell/tensor.h"
#include "hcq/hcq.h"
#include "render/nv_container.h"
#include "tools/json.h"
#include "tools/tools.h"

enum verdict {
    VERDICT_OK,
    VERDICT_NOTE,    /* worth knowing; nothing is broken */
    VERDICT_PROBLEM, /* something does not work */
    VERDICT_COUNT
};

static const char *const verdict_names[VERDICT_COUNT] = {"ok", "note",
                                                         "problem"};

#define MAX_FINDINGS 32

struct finding {
    const char *what;
    enum verdict verdict;
    char detail[256];
    const char *fix; /* or NULL */
};

struct findings {
    struct finding list[MAX_FINDINGS];
    size_t n;
};

static void add(struct findings *findings, const char *what,
                enum verdict verdict, const char *fix, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

static void
add(struct findings *findings, const char *what, enum verdict verdict,
    const char *fix, const char *fmt, ...)
{
    struct finding *finding;
    va_list args;

    if (findings->n == MAX_FINDINGS)
        return;
    finding = &findings->list[findings->n++];
    finding->what = what;
    finding->verdict = verdict;
    finding->fix = fix;
    va_start(args, fmt);
    vsnprintf(finding->detail, sizeof(finding->detail), fmt, args);
    va_end(args);
}

/* How this program was built. */
static void
check_build(struct findings *findings)
{
#if BELL_HAVE_LLVM
    add(findings, "compiler", VERDICT_OK, NULL, "LLVM 19 for host code");
#else
    add(findings, "compiler", VERDICT_NOTE,
        "install llvm-19-dev, then configure and build again",
        "built without LLVM: no kernel for the CPU can be compiled");
#endif
#if BELL_HAVE_ZLIB
    add(findings, "gzip", VERDICT_OK, NULL, "compressed data files are read");
#else
    add(findings, "gzip", VERDICT_NOTE,
        "install zlib1g-dev, then configure and build again",
        "built without zlib: .gz data files cannot be read");
#endif
}

static void
check_device(struct findings *findings)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    const char *name = getenv("BELL_DEVICE");
    struct hcq_device *dev;

    if (hcq_device_open(NULL, &dev) != BELL_OK) {
        add(findings, "default device", VERDICT_PROBLEM,
            name ? "unset BELL_DEVICE, or set it to one that `doorbell "
                   "devices` lists"
                 : NULL,
            "%s", bell_error_last()->message);
        return;
    }
    hcq_device_info(dev, &info);
    add(findings, "default device", VERDICT_OK, NULL, "%s (%s%s)", info.name,
        info.model, name ? "; from BELL_DEVICE" : "");
    hcq_device_close(dev);
}

static bell_status
add_two_numbers(double *out_sum)
{
    struct bell_context *ctx;
    bell_status status;

    BELL_TRY(bell_context_create(NULL, &ctx));
    status = bell_item_f64(bell_add(bell_full(ctx, BELL_NO_DIMS, 2, 0),
                                    bell_full(ctx, BELL_NO_DIMS, 3, 0)),
                           out_sum);
    bell_context_destroy(ctx);
    return status;
}

/* From tensors to a result: compiler, loader and queue together. */
static void
check_computing(struct findings *findings)
{
    double sum = 0;

    if (add_two_numbers(&sum) != BELL_OK)
        add(findings, "computing", VERDICT_PROBLEM, NULL, "%s",
            bell_error_last()->message);
    else if (sum != 5)
        add(findings, "computing", VERDICT_PROBLEM, NULL,
            "2 + 3 gave %g on the default device", sum);
    else
        add(findings, "computing", VERDICT_OK, NULL,
            "2 + 3 was compiled and run");
}

/* NVIDIA's cards: the kernel driver, and the assembler that kernels for a
 * card need. */
static void
check_nvidia(struct findings *findings)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    bool has_driver = access("/dev/nvidiactl", F_OK) == 0;
    struct hcq_device *dev;
    char path[256];

    if (!has_driver) {
        add(findings, "NVIDIA GPU", VERDICT_NOTE, NULL,
            "no /dev/nvidiactl: no card, or its kernel driver is not loaded; "
            "NV@sim:sm_90 is simulated");
        return;
    }
    if (hcq_device_open("NV:0", &dev) != BELL_OK) {
        add(findings, "NVIDIA GPU", VERDICT_PROBLEM,
            "`doorbell selftest NV` says which step fails", "%s",
            bell_error_last()->message);
        return;
    }
    hcq_device_info(dev, &info);
    add(findings, "NVIDIA GPU", VERDICT_OK, NULL, "%s (%s)", info.model,
        info.arch);
    hcq_device_close(dev);
    if (render_ptxas_find(path, sizeof(path)) == BELL_OK)
        add(findings, "ptxas", VERDICT_OK, NULL, "%s", path);
    else
        add(findings, "ptxas", VERDICT_PROBLEM,
            "install it (it comes with CUDA's nvcc), or name it in BELL_PTXAS",
            "%s", bell_error_last()->message);
}

/* Hardware that other backends will drive: said plainly, not guessed at. */
static void
check_hardware(struct findings *findings)
{
    static const struct {
        const char *path, *what;
    } nodes[] = {
        {"/dev/kfd", "AMD GPU"},
        {"/dev/kgsl-3d0", "Adreno GPU"},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(nodes); i++) {
        if (access(nodes[i].path, F_OK) == 0)
            add(findings, nodes[i].what, VERDICT_NOTE, NULL,
                "%s is there; this version has no driver for it",
                nodes[i].path);
    }
}

static int
print_findings(const struct findings *findings, bool as_json)
{
    bool has_problem = false;
    struct json json;
    size_t i;
    int code;

    json_init(&json);
    json_array(&json, "findings");
    for (i = 0; i < findings->n; i++) {
        const struct finding *finding = &findings->list[i];
        has_problem |= finding->verdict == VERDICT_PROBLEM;
        json_object(&json, NULL);
        json_str(&json, "what", finding->what);
        json_str(&json, "verdict", verdict_names[finding->verdict]);
        json_str(&json, "detail", finding->detail);
        if (finding->fix)
            json_str(&json, "fix", finding->fix);
        else
            json_null(&json, "fix");
        json_end(&json);
        if (!as_json) {
            printf("%-8s %-15s %s\n", verdict_names[finding->verdict],
                   finding->what, finding->detail);
            if (finding->fix)
                printf("%-24s to fix: %s\n", "", finding->fix);
        }
    }
    json_end(&json);
    json_bool(&json, "healthy", !has_problem);
    if (!as_json) {
        json_fini(&json);
        return has_problem ? TOOL_FAILED : TOOL_OK;
    }
    code = tool_print_json(&json);
    return code == TOOL_OK && has_problem ? TOOL_FAILED : code;
}

int
verb_doctor(int argc, char **argv)
{
    bool json = false;
    const struct tool_opt opts[] = {
        {"--json", NULL, TOOL_OPT_FLAG, &json, 0, 0,
         "one JSON document on stdout"},
    };
    struct findings findings = {.n = 0};
    int code;

    code = tool_parse("doctor [--json]\n\n"
                      "Says what is missing here and how to fix it; exits "
                      "with 1 if something\ndoes not work.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    check_build(&findings);
    check_device(&findings);
    check_computing(&findings);
    check_nvidia(&findings);
    check_hardware(&findings);
    return print_findings(&findings, json);
}
