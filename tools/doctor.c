/* `doorbell doctor`: what is missing on this machine and how to fix it. */
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/env.h"
#include "base/json.h"
#include "cache/cache.h"
#include "doorbell/tensor.h"
#include "hcq/hcq.h"
#include "hcq/hcq_facts.h"
#include "ioctl/kfd_uapi.h"
#include "ioctl/kio.h"
#include "render/ptx/nv_container.h"
#include "render/render.h"
#include "tools/links.h"
#include "tools/machine/machine.h"
#include "tools/machine/print.h"
#include "tools/selftest/selftest.h"
#include "tools/tools.h"

enum verdict {
    VERDICT_OK,
    VERDICT_NOTE,    /* worth knowing; nothing is broken */
    VERDICT_PROBLEM, /* something does not work */
    VERDICT_COUNT
};

static const char *const verdict_names[VERDICT_COUNT] = {"ok", "note",
                                                         "problem"};

#define MAX_FINDINGS 160 /* eight GPUs may be 64 cards */

struct finding {
    const char *what;
    enum verdict verdict;
    char detail[320];
    char fix[256]; /* empty: there is none that is sure */
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
    snprintf(finding->fix, sizeof(finding->fix), "%s", fix ? fix : "");
    va_start(args, fmt);
    vsnprintf(finding->detail, sizeof(finding->detail), fmt, args);
    va_end(args);
}

#if BELL_HAVE_LLVM
#define FIX_LLVM "apt-get install libllvm19"
#else
#define FIX_LLVM "apt-get install llvm-19-dev, then configure and build again"
#endif

/* How this program was built, and what it finds. */
static void
check_build(struct findings *findings)
{
    if (render_llvm_check() == BELL_OK)
        add(findings, "compiler", VERDICT_OK, NULL,
            "LLVM 19 for host code and AMD's cards");
    else
        add(findings, "compiler", VERDICT_NOTE, FIX_LLVM, "%s",
            bell_error_last()->message);
#if BELL_HAVE_ZLIB
    add(findings, "gzip", VERDICT_OK, NULL, "compressed data files are read");
#else
    add(findings, "gzip", VERDICT_NOTE,
        "install zlib1g-dev, then configure and build again",
        "built without zlib: .gz data files cannot be read");
#endif
}

/* Code that is kept on disk may be executed: only from a folder of the
 * user's. */
static void
check_cache(struct findings *findings)
{
    struct cache cache;

    cache_init(&cache);
    if (cache.folder[0])
        add(findings, "cache", VERDICT_OK, NULL,
            "compiled kernels are kept in %.200s", cache.folder);
    else
        add(findings, "cache", VERDICT_NOTE, NULL,
            "compiled kernels are not kept: %.200s", cache.why_off);
}

/* What is in the way of a GPU of that backend (NULL: of any that our drivers
 * are for); NULL: nothing. */
static const struct machine_gpu *
find_blocked(const struct machine *machine, const char *backend)
{
    size_t i;

    for (i = 0; i < machine->n_gpus; i++) {
        const struct machine_gpu *gpu = &machine->gpus[i];

        if (gpu->backend && gpu->why_not[0] &&
            (!backend || strcmp(gpu->backend, backend) == 0))
            return gpu;
    }
    return NULL;
}

/* Whether one of that backend can be used, as far as is seen. */
static bool
has_open(const struct machine *machine, const char *backend)
{
    size_t i;

    for (i = 0; i < machine->n_gpus; i++) {
        const struct machine_gpu *gpu = &machine->gpus[i];

        if (gpu->backend && !gpu->why_not[0] &&
            strcmp(gpu->backend, backend) == 0)
            return true;
    }
    return false;
}

/* What to do about a device that does not open: what opens the way to a GPU,
 * where that is it, and the same as is said of the GPU. */
static void
find_fix(const struct machine *machine, const char *name, bell_status status,
         char *out, size_t out_bytes)
{
    static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia0",
                                        "/dev/kfd", "/dev/kgsl-3d0",
                                        "/dev/dri/renderD128"};
    const struct machine_gpu *gpu = NULL;
    char backend[8];
    size_t i;

    out[0] = '\0';
    if (!name || !strchr(name, '@')) {
        snprintf(backend, sizeof(backend), "%.*s",
                 (int)strcspn(name ? name : "", ":@"), name ? name : "");
        gpu = find_blocked(machine, name ? backend : NULL);
    }
    if (gpu) {
        snprintf(out, out_bytes, "%s", gpu->fix);
    } else if (status == BELL_E_PERMISSION) {
        for (i = 0; i < ARRAY_LEN(nodes) && !out[0]; i++)
            (void)machine_fix_node(nodes[i], out, out_bytes);
    } else if (name &&
               (status == BELL_E_NO_DEVICE || status == BELL_E_INVALID)) {
        snprintf(out, out_bytes,
                 "unset BELL_DEVICE, or set it to one that `doorbell devices` "
                 "lists");
    }
}

static bool
check_device(struct findings *findings, const struct machine *machine)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    const char *name = env_get("BELL_DEVICE");
    struct hcq_device *dev;
    bell_status status;
    char fix[256];

    status = hcq_device_open(NULL, &dev);
    if (status != BELL_OK) {
        find_fix(machine, name, status, fix, sizeof(fix));
        add(findings, "default device", VERDICT_PROBLEM, fix, "%s",
            bell_error_last()->message);
        return false;
    }
    hcq_device_info(dev, &info);
    if (hcq_device_passed_over(dev)[0])
        add(findings, "default device", VERDICT_NOTE, NULL,
            "%s (%.60s); passed over: %.220s", info.name, info.model,
            hcq_device_passed_over(dev));
    else
        add(findings, "default device", VERDICT_OK, NULL, "%s (%s%s)",
            info.name, info.model, name ? "; from BELL_DEVICE" : "");
    hcq_device_close(dev);
    return true;
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
check_computing(struct findings *findings, bool has_device)
{
    double sum = 0;

    if (!has_device)
        add(findings, "computing", VERDICT_NOTE, NULL,
            "not tried: there is no device");
    else if (add_two_numbers(&sum) != BELL_OK)
        add(findings, "computing", VERDICT_PROBLEM,
            bell_error_last()->status == BELL_E_UNSUPPORTED ? FIX_LLVM : NULL,
            "%s", bell_error_last()->message);
    else if (sum != 5)
        add(findings, "computing", VERDICT_PROBLEM, NULL,
            "2 + 3 gave %g on the default device", sum);
    else
        add(findings, "computing", VERDICT_OK, NULL,
            "2 + 3 was compiled and run");
}

/* Looks at PCI. A GPU that no driver of ours is for is not a problem, nor is
 * one that is passed over where another of its backend is taken: a container
 * has some of the machine's. */
static void
check_gpus(struct findings *findings, const struct machine *machine,
           const char *root)
{
    char path[300];
    size_t i;

    /* src: WSL's documentation, GPU acceleration: a GPU is /dev/dxg there */
    snprintf(path, sizeof(path), "%.256s/dev/dxg", root);
    if (access(path, F_OK) == 0)
        add(findings, "GPU", VERDICT_NOTE,
            "start Linux itself, or a virtual machine that is given the GPU",
            "WSL2 has GPUs behind /dev/dxg alone, which no driver here is for");
    else if (machine->n_gpus == 0)
        add(findings, "GPU", VERDICT_NOTE, NULL,
            "PCI shows none; NV@sim:sm_90 and AMD@sim:gfx1100 are simulated");
    for (i = 0; i < machine->n_gpus; i++) {
        const struct machine_gpu *gpu = &machine->gpus[i];

        if (gpu->why_not[0])
            add(findings, "GPU",
                gpu->backend && !has_open(machine, gpu->backend)
                    ? VERDICT_PROBLEM
                    : VERDICT_NOTE,
                gpu->fix, "%s%s: %.220s", gpu->address,
                gpu->backend && has_open(machine, gpu->backend)
                    ? " is passed over"
                    : "",
                gpu->why_not);
        else if (gpu->has_small_bar)
            add(findings, "GPU", VERDICT_NOTE,
                "switch on resizable BAR in the firmware's setup",
                "%s: the CPU sees a part of its memory only: copies from and "
                "to the host are slower",
                gpu->address);
        else if (gpu->link_width && gpu->link_width < gpu->link_max_width)
            add(findings, "GPU", VERDICT_NOTE, NULL,
                "%s: PCIe x%" PRIu32 " of x%" PRIu32
                ": copies from and to the host are slower; try another slot, "
                "or seat the card anew",
                gpu->address, gpu->link_width, gpu->link_max_width);
        else if (gpu->host_memory_bytes)
            add(findings, "GPU", VERDICT_OK, NULL,
                "%s: %.80s, kernel driver %s %s; its memory is the host's: the "
                "kernel lends %.1f GiB (its parameter ttm.pages_limit)",
                gpu->address,
                gpu->device_name[0] ? gpu->device_name : gpu->backend,
                gpu->driver, gpu->driver_version,
                (double)gpu->host_memory_bytes / (1 << 30));
        else
            add(findings, "GPU", VERDICT_OK, NULL,
                "%s: %.80s, kernel driver %s %s", gpu->address,
                gpu->device_name[0] ? gpu->device_name : gpu->backend,
                gpu->driver, gpu->driver_version);
    }
}

/* Pairs of a backend's devices whose data goes through host memory, by reason.
 */
static void
check_links(struct findings *findings, const char *backend)
{
    struct links *links = host_calloc(1, sizeof(*links));
    size_t a = 0, b = 0, n_pairs;

    if (!links)
        return;
    /* what does not open is told of elsewhere */
    if (links_open_box(links, backend, 0, "") == BELL_OK &&
        links_ask(links) == BELL_OK && links->n > 1) {
        if (!links_next_apart(links, &a, &b, &n_pairs))
            add(findings, "links", VERDICT_OK, NULL,
                "each of %zu %s devices reaches the others' memory", links->n,
                backend);
        for (; links_next_apart(links, &a, &b, &n_pairs); b++)
            add(findings, "links", VERDICT_NOTE, NULL,
                "%.40s does not reach the memory of %.40s (%zu pair%s): %s",
                hcq_device_name(links->devs[a]),
                hcq_device_name(links->devs[b]), n_pairs,
                n_pairs == 1 ? "" : "s", links->pair[a][b].reason);
    }
    links_close(links);
    host_free(links);
}

/* NVIDIA's cards: what our driver makes of the first that can be used, and the
 * assembler that kernels for a card need. */
static void
check_nvidia(struct findings *findings)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_device *dev;
    bell_status status;
    char path[256], assumed[160];
    const char *unproven;

    if (access("/dev/nvidiactl", F_OK) != 0)
        return;
    status = hcq_device_open("NV", &dev);
    if (status != BELL_OK) {
        /* who is not let in is told by whom: there is no step to look for */
        add(findings, "NVIDIA GPU", VERDICT_PROBLEM,
            status == BELL_E_PERMISSION
                ? NULL
                : "`doorbell selftest NV` says which step fails",
            "%s", bell_error_last()->message);
        return;
    }
    hcq_device_info(dev, &info);
    add(findings, "NVIDIA GPU", VERDICT_OK, NULL, "%s: %s (%s)", info.name,
        info.model, info.arch);
    if (hcq_device_passed_over(dev)[0])
        add(findings, "NVIDIA GPU", VERDICT_NOTE, NULL, "passed over: %s",
            hcq_device_passed_over(dev));
    unproven = hcq_device_unproven(dev);
    hcq_device_assumed(dev, assumed, sizeof(assumed));
    hcq_device_close(dev);
    if (assumed[0])
        add(findings, "NVIDIA GPU", VERDICT_NOTE,
            "`doorbell selftest NV` says whether it works", "%s", assumed);
    if (unproven[0])
        add(findings, "Blackwell", VERDICT_NOTE,
            "`doorbell selftest NV` says whether they work",
            "nobody is known to have run this driver's choices on %s: %s",
            info.arch, unproven);
    if (render_ptxas_find(path, sizeof(path)) == BELL_OK)
        add(findings, "ptxas", VERDICT_OK, NULL, "%s", path);
    else
        add(findings, "ptxas", VERDICT_PROBLEM,
            "install it (it comes with CUDA's nvcc), or name it in BELL_PTXAS",
            "%s", bell_error_last()->message);
}

#if BELL_HAVE_AMD
/* The kernel driver's version; false: there is nothing more to look at. */
static bool
check_kfd(struct findings *findings, struct kio *kio)
{
    struct kfd_version version = {0, 0};
    struct kio_file file;
    bell_status status;

    if (kio_open(kio, "/dev/kfd", O_RDWR, &file) != BELL_OK) {
        char fix[256] = "";

        (void)machine_fix_node("/dev/kfd", fix, sizeof(fix));
        add(findings, "KFD", VERDICT_PROBLEM, fix, "%s",
            bell_error_last()->message);
        return false;
    }
    status = kio_ioctl(&file, KFD_GET_VERSION, &version);
    kio_close(&file);
    if (status != BELL_OK)
        add(findings, "KFD", VERDICT_PROBLEM, NULL, "%s",
            bell_error_last()->message);
    else if (version.major != 1)
        add(findings, "KFD", VERDICT_PROBLEM, NULL, "KFD %u.%u; 1.x is known",
            version.major, version.minor);
    else
        add(findings, "KFD", VERDICT_OK, NULL, "/dev/kfd, version %u.%u",
            version.major, version.minor);
    return status == BELL_OK && version.major == 1;
}

/* `is_alone`: there is no other that could be used in its place. */
static void
check_amd_card(struct findings *findings, const struct hcq_card *card,
               size_t number, bool is_alone)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_device *dev;
    char name[32];

    snprintf(name, sizeof(name), "AMD:%zu", number);
    if (hcq_device_open(name, &dev) != BELL_OK) {
        bool lacks = bell_error_last()->status == BELL_E_UNSUPPORTED;

        add(findings, "AMD GPU",
            lacks && !is_alone ? VERDICT_NOTE : VERDICT_PROBLEM,
            lacks ? NULL : "`doorbell selftest AMD` says which step fails",
            "%s", bell_error_last()->message);
        return;
    }
    hcq_device_info(dev, &info);
    add(findings, "AMD GPU", VERDICT_OK, NULL,
        "%s: %s (%s), /dev/dri/renderD%d", info.name, info.model, info.arch,
        card->render_minor);
    hcq_device_close(dev);
}

static void
check_amd_cards(struct findings *findings, struct kio *kio)
{
    struct hcq_card cards[HCQ_CARDS_MAX];
    size_t n = 0, i;
    char fix[256] = "";

    if (!check_kfd(findings, kio))
        return;
    if (hcq_card_list("AMD", cards, &n) != BELL_OK) {
        (void)machine_fix_node("/dev/dri/renderD128", fix, sizeof(fix));
        add(findings, "AMD GPU", VERDICT_PROBLEM, fix, "%s",
            bell_error_last()->message);
    } else if (n == 0)
        add(findings, "AMD GPU", VERDICT_NOTE, NULL,
            "KFD is there and lists no card");
    for (i = 0; i < n; i++)
        check_amd_card(findings, &cards[i], i, n == 1);
}

/* Kernels for AMD's cards, simulated or not, are LLVM's machine code. */
static void
check_amd_code(struct findings *findings)
{
    struct hcq_device_info info = {.arch = "gfx1100", .name = "AMD"};
    struct selftest_binary binary;

    if (selftest_kernel_binary(&info, SELFTEST_STORE, &binary) == BELL_OK) {
        host_free(binary.data);
        add(findings, "AMD code", VERDICT_OK, NULL,
            "a kernel for gfx1100 was compiled");
        return;
    }
    if (render_llvm_check() != BELL_OK) /* which was told */
        return;
    add(findings, "AMD code", VERDICT_NOTE, NULL,
        "no kernel for AMD's cards can be compiled: %s",
        bell_error_last()->message);
}

/* AMD's cards: the kernel driver, and what our driver makes of each. */
static void
check_amd(struct findings *findings)
{
    struct kio *kio;

    if (access("/dev/kfd", F_OK) != 0)
        return;
    if (kio_sys_create(&kio) != BELL_OK) {
        add(findings, "AMD GPU", VERDICT_PROBLEM, NULL, "%s",
            bell_error_last()->message);
        return;
    }
    check_amd_cards(findings, kio);
    kio_destroy(kio);
}
#else
static void
check_amd_code(struct findings *findings)
{
    (void)findings;
}

static void
check_amd(struct findings *findings)
{
    if (access("/dev/kfd", F_OK) == 0)
        add(findings, "AMD GPU", VERDICT_NOTE, NULL,
            "/dev/kfd is there; this build has no driver for it");
}
#endif

/* OpenCL devices, each as it is found; a machine may well have none. */
static void
check_opencl(struct findings *findings)
{
#if BELL_HAVE_CL
    bool has_gpu = access("/dev/dri/renderD128", F_OK) == 0;
    const char *install =
        has_gpu ? "apt-get install ocl-icd-libopencl1 mesa-opencl-icd"
                : "apt-get install ocl-icd-libopencl1 pocl-opencl-icd";
#else
    const char *install =
        "apt-get install opencl-c-headers, then configure and build again";
#endif
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    bell_status status = BELL_OK;
    struct hcq_device *dev;
    char name[16];
    unsigned idx;

    for (idx = 0; idx < 16 && status != BELL_E_NO_DEVICE; idx++) {
        snprintf(name, sizeof(name), "CL:%u", idx);
        status = hcq_device_open(name, &dev);
        if (status == BELL_OK) {
            hcq_device_info(dev, &info);
            add(findings, "OpenCL", VERDICT_OK, NULL, "%s: %s (%s)", name,
                info.model, info.arch);
            hcq_device_close(dev);
        } else if (status != BELL_E_NO_DEVICE || idx == 0) {
            add(findings, "OpenCL", VERDICT_NOTE,
                status == BELL_E_UNSUPPORTED ? NULL : install, "%s",
                bell_error_last()->message);
        }
    }
}

/* Adreno: whether the way to it is open, and, on this machine, what our driver
 * makes of the chip. */
static void
check_adreno(struct findings *findings, const char *root)
{
    struct hcq_device_info info = {.struct_size = sizeof(info)};
    struct hcq_device *dev;
    struct machine_gpu gpu;
    bool lacks;

    if (!machine_adreno(root ? root : "", &gpu))
        return;
    if (gpu.why_not[0]) {
        add(findings, "Adreno GPU", VERDICT_PROBLEM, gpu.fix, "%s",
            gpu.why_not);
    } else if (root) {
        add(findings, "Adreno GPU", VERDICT_OK, NULL, "%s, kernel driver %s",
            gpu.nodes[0].path, gpu.driver);
    } else if (hcq_device_open("QCOM:0", &dev) == BELL_OK) {
        hcq_device_info(dev, &info);
        add(findings, "Adreno GPU", VERDICT_OK, NULL, "%s: %s (%s), %s",
            info.name, info.model, info.arch, gpu.nodes[0].path);
        hcq_device_close(dev);
    } else {
        lacks = bell_error_last()->status == BELL_E_UNSUPPORTED;
        add(findings, "Adreno GPU", VERDICT_PROBLEM,
            lacks ? NULL : "`doorbell selftest QCOM` says which step fails",
            "%s: %s", gpu.nodes[0].path, bell_error_last()->message);
    }
}

/* A remedy is told with the first that needs it. */
static bool
is_first_fix(const struct findings *findings, size_t number)
{
    size_t i;

    for (i = 0; i < number; i++) {
        if (strcmp(findings->list[i].fix, findings->list[number].fix) == 0)
            return false;
    }
    return true;
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
        if (finding->fix[0])
            json_str(&json, "fix", finding->fix);
        else
            json_null(&json, "fix");
        json_end(&json);
        if (!as_json) {
            tool_printf("%-8s %-15s %s\n", verdict_names[finding->verdict],
                        finding->what, finding->detail);
            if (finding->fix[0] && is_first_fix(findings, i))
                tool_printf("%-24s to fix: %s\n", "", finding->fix);
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

/* All that is looked at on this machine. */
static void
check_here(struct findings *findings, struct machine *machine)
{
    check_build(findings);
    check_cache(findings);
    machine_number_nv(machine);
    check_computing(findings, check_device(findings, machine));
    check_gpus(findings, machine, "");
    /* what is in the way of a GPU has been said */
    if (has_open(machine, "NV") || !find_blocked(machine, "NV"))
        check_nvidia(findings);
    check_amd_code(findings);
    if (has_open(machine, "AMD") || !find_blocked(machine, "AMD"))
        check_amd(findings);
    check_links(findings, "NV");
    check_links(findings, "AMD");
    check_opencl(findings);
    check_adreno(findings, NULL);
}

int
verb_doctor(int argc, char **argv)
{
    const char *root = NULL;
    bool json = false;
    const struct tool_opt opts[] = {
        {"--root", "FOLDER", TOOL_OPT_STRING, &root, 0, 0,
         "the GPUs alone of the machine whose /sys, /proc and /dev are copied "
         "there"},
        TOOL_JSON_OPT(&json),
    };
    struct findings findings = {.n = 0};
    struct machine machine;
    bell_status status;
    int code;

    code = tool_parse("doctor [--json]\n\n"
                      "Says what is missing here and how to fix it; exits "
                      "with 1 if something\ndoes not work.",
                      opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    status = machine_read(root ? root : "", &machine);
    if (status != BELL_OK)
        return tool_fail(json, status);
    if (root) {
        check_gpus(&findings, &machine, root);
        check_adreno(&findings, root);
    } else {
        check_here(&findings, &machine);
    }
    machine_free(&machine);
    return print_findings(&findings, json);
}
