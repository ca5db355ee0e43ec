/* The machine this process runs on, as a compile target. Asks the processor
 * and the kernel directly, so that a program whose kernels are all cached
 * never loads LLVM. */
#include "render/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "base/map.h"
#include "base/thread.h"

#define CACHE_DIR "/sys/devices/system/cpu/cpu0/cache"

/* Reads a line of a cache's description; false where there is none. */
static bool
read_cache_file(unsigned index, const char *name, char *out, size_t size_bytes)
{
    char path[96];
    FILE *file;
    bool ok;

    snprintf(path, sizeof(path), CACHE_DIR "/index%u/%s", index, name);
    file = fopen(path, "r");
    if (!file)
        return false;
    ok = fgets(out, (int)size_bytes, file) != NULL;
    fclose(file);
    return ok;
}

/* Bytes of "32K", "1024K", "8M". */
static uint32_t
parse_size(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*end == 'K')
        n <<= 10;
    else if (*end == 'M')
        n <<= 20;
    return n <= UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* What is common, where nobody tells. */
static void
guess_caches(struct lower_target *t)
{
    t->l1_bytes = 32u << 10;
    t->l2_bytes = 512u << 10;
    t->max_packed_bytes = 2u << 20; /* hcq/cpu has larger stacks */
}

/* Processors of "00000000,0000ff0f". */
static uint32_t
count_cpus(const char *mask)
{
    uint32_t n = 0;

    for (; *mask; mask++) {
        char digit[2] = {*mask, 0};
        n += (uint32_t)__builtin_popcount((unsigned)strtoul(digit, NULL, 16));
    }
    return n;
}

/* The size of all caches, each shared by n_cpus processors, that n_threads
 * threads have. */
static uint64_t
all_caches(uint64_t size_bytes, uint32_t n_cpus, uint32_t n_threads)
{
    return n_cpus ? size_bytes * ((n_threads + n_cpus - 1) / n_cpus) : 0;
}

static void
find_caches(struct lower_target *t)
{
    char level[16], type[32], size[32], cpus[2048];
    unsigned i;

    guess_caches(t);
    for (i = 0; i < 8; i++) {
        if (!read_cache_file(i, "level", level, sizeof(level)) ||
            !read_cache_file(i, "type", type, sizeof(type)) ||
            !read_cache_file(i, "size", size, sizeof(size)))
            break;
        if (type[0] == 'I' || parse_size(size) == 0)
            continue;
        if (level[0] == '1')
            t->l1_bytes = parse_size(size);
        else if (level[0] == '2')
            t->l2_bytes = parse_size(size);
        else if (level[0] == '3' &&
                 read_cache_file(i, "shared_cpu_map", cpus, sizeof(cpus)))
            t->l3_bytes =
                all_caches(parse_size(size), count_cpus(cpus), t->n_threads);
    }
}

#if defined(__x86_64__)

/* Family and model, and a hash of every feature word: the code generator's
 * choices follow from these. */
static void
name_cpu(struct lower_target *t)
{
    static const unsigned leaves[][2] = {
        {1, 0}, {7, 0}, {7, 1}, {0x80000001, 0}, {0x80000008, 0}, {0xd, 1}};
    unsigned a = 0, b = 0, c = 0, d = 0, family, model;
    uint64_t hash = 0;
    char vendor[13] = "";
    size_t i;

    __get_cpuid(0, &a, &b, &c, &d);
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
    for (i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
        a = b = c = d = 0;
        if (!__get_cpuid_count(leaves[i][0], leaves[i][1], &a, &b, &c, &d))
            continue;
        if (leaves[i][0] == 1)
            b = a = 0, c &= ~(1u << 27); /* which core we are on; OSXSAVE */
        if (leaves[i][0] == 0xd)
            b = c = d = 0; /* sizes of the state in use */
        if (leaves[i][0] == 0x80000008)
            a = c = d = 0; /* address sizes, core count */
        hash = hash_add(hash_add(hash, (uint64_t)b << 32 | c), d);
    }
    /* which registers the kernel keeps: LLVM uses no others */
    if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE)) {
        __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
        hash = hash_add(hash, (uint64_t)d << 32 | a);
    }
    a = 0;
    __get_cpuid(1, &a, &b, &c, &d);
    family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
    model = (a >> 4 & 15) | (a >> 12 & 0xf0);
    snprintf(t->name, sizeof(t->name), "x86_64-%s-%x-%x-%08x-llvm19", vendor,
             family, model, (unsigned)hash);
}

/* src: Intel 64 and IA-32 Software Developer's Manual, CPUID leaf 7 */
#define EDX_AMX_BF16    (1u << 22)
#define EDX_AMX_TILE    (1u << 24)
#define EDX_AMX_INT8    (1u << 25)
#define EAX_AVX512_BF16 (1u << 5) /* of subleaf 1 */

/* Steps of a word. */
static void
find_words(struct lower_target *t)
{
    unsigned a, b, c, d;

    t->has_byte_dots = __builtin_cpu_supports("avx512vnni");
    if (t->has_byte_dots)
        t->tiles_k[UOP_I8] = t->tiles_k[UOP_U8] = 4;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & EAX_AVX512_BF16))
        t->tiles_k[UOP_BF16] = 2;
}

/* Steps of a tile register, 64 bytes. A machine that may not use them has
 * another name: code that was compiled for this one does not run there. */
static void
find_tiles(struct lower_target *t)
{
    unsigned a, b, c, d = 0;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & EDX_AMX_TILE))
        return;
    if (!thread_allow_tiles()) {
        strncat(t->name, "-notiles", sizeof(t->name) - strlen(t->name) - 1);
        return;
    }
    if (d & EDX_AMX_BF16)
        t->tiles_k[UOP_BF16] = 32;
    if (d & EDX_AMX_INT8)
        t->tiles_k[UOP_I8] = t->tiles_k[UOP_U8] = 64;
}

static void
find_cpu(struct lower_target *t)
{
    unsigned a, b, c, d;

    name_cpu(t);
    t->vector_bytes = 16;
    t->n_vector_regs = 16;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        t->vector_bytes = 32;
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2")) {
        t->vector_bytes = 64;
        t->n_vector_regs = 32;
    }
    t->joins_bits = t->vector_bytes == 64;
    if (t->vector_bytes == 64) {
        find_words(t);
        find_tiles(t);
    }
    t->has_fma = __builtin_cpu_supports("fma");
    t->has_f16 = __builtin_cpu_supports("avx") &&
                 __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

void
render_host_features(char *text, size_t size_bytes)
{
    (void)snprintf(text, size_bytes, "%s", ""); /* LLVM asks the processor */
}

#elif defined(__aarch64__)

/* src: Linux 6.12, Documentation/arch/arm64/elf_hwcaps.rst; LLVM 19,
 * AArch64Features.td */
static const struct hwcap {
    unsigned type;
    unsigned long bits;
    const char *feature;
} hwcaps[] = {
    {AT_HWCAP, HWCAP_CRC32, "+crc"},
    {AT_HWCAP, HWCAP_ATOMICS, "+lse"},
    {AT_HWCAP, HWCAP_FPHP | HWCAP_ASIMDHP, "+fullfp16"},
    {AT_HWCAP, HWCAP_ASIMDRDM, "+rdm"},
    {AT_HWCAP, HWCAP_ASIMDDP, "+dotprod"},
    {AT_HWCAP, HWCAP_ASIMDFHM, "+fp16fml"},
    {AT_HWCAP, HWCAP_SVE, "+sve"},
    {AT_HWCAP2, HWCAP2_SVE2, "+sve2"},
    {AT_HWCAP2, HWCAP2_BF16, "+bf16"},
    {AT_HWCAP2, HWCAP2_I8MM, "+i8mm"},
};

void
render_host_features(char *text, size_t size_bytes)
{
    size_t i, n = 0;

    text[0] = '\0';
    for (i = 0; i < sizeof(hwcaps) / sizeof(hwcaps[0]); i++) {
        if ((getauxval(hwcaps[i].type) & hwcaps[i].bits) == hwcaps[i].bits &&
            n < size_bytes)
            n += (size_t)snprintf(text + n, size_bytes - n, "%s%s",
                                  n ? "," : "", hwcaps[i].feature);
    }
}

static void
find_cpu(struct lower_target *t)
{
    snprintf(t->name, sizeof(t->name), "aarch64-%lx-%lx-llvm19",
             getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
    t->vector_bytes = 16;
    t->n_vector_regs = 32;
    t->has_fma = true;
    t->has_f16 = true; /* the conversions are in the base instruction set */
}

#else
#error "this processor is not described here"
#endif

bell_status
render_host_target(struct lower_target *out_target)
{
    struct lower_target t;

    memset(&t, 0, sizeof(t));
    find_cpu(&t);
    t.n_threads = thread_cpu_count();
    find_caches(&t);
    *out_target = t;
    return BELL_OK;
}

/* src: the x86-64 psABI, "Micro-Architecture Levels"; Arm Architecture
 * Reference Manual, A2.2: 8.6 has matrix products of bytes and of bfloat16,
 * 8.2 may have dot products and arithmetic of half floats, and whoever makes
 * one has both. */
static const struct level {
    const char *arch, *cpu, *features;
    uint32_t vector_bytes, n_vector_regs;
    bool has_fma, has_f16, joins_bits;
} levels[] = {
    {"x86-64-v2", "x86-64-v2", NULL, 16, 16, false, false, false},
    {"x86-64-v3", "x86-64-v3", NULL, 32, 16, true, true, false},
    {"x86-64-v4", "x86-64-v4", NULL, 64, 32, true, true, true},
    {"armv8-a", "generic", NULL, 16, 32, true, true, false},
    {"armv8.2-a", "generic", "+v8.2a,+fullfp16,+dotprod", 16, 32, true, true,
     false},
    {"armv8.6-a", "generic", "+v8.6a,+fullfp16", 16, 32, true, true, false},
};

bell_status
render_host_level(const char *arch, uint32_t n_threads,
                  struct lower_target *out_target)
{
    size_t i;

    for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        const struct level *level = &levels[i];
        struct lower_target t = {
            .cpu = level->cpu,
            .features = level->features,
            .vector_bytes = level->vector_bytes,
            .n_vector_regs = level->n_vector_regs,
            .has_fma = level->has_fma,
            .has_f16 = level->has_f16,
            .joins_bits = level->joins_bits,
            .n_threads = n_threads,
        };
        if (strcmp(level->arch, arch) != 0)
            continue;
        snprintf(t.name, sizeof(t.name), "%s-llvm19", arch);
        guess_caches(&t);
        *out_target = t;
        return BELL_OK;
    }
    return bell_fail(BELL_E_UNSUPPORTED,
                     "no code is made for processors '%.40s'", arch);
}
