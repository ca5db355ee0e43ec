/* The suite's kernels for Adreno as text of its instructions, assembled when
 * they are needed, and ways to break such objects. Kernels that need the size
 * of a launch are left out: code of ours has no such argument. So is what takes
 * more local memory than there is. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "programs.h"
#include "render/ir3/ir3.h"

#define MAX_INSTRS 8192u

static enum ir3_gen gen;

struct kernel {
    const char *name, *text;
    uint32_t n_params, n_vars;
    uint32_t n_threads, shared_bytes;
};

/* Instructions wait by themselves for nothing: each result is waited for in
 * full. "@name" is where "name:" stands; what comes before an end on the 7xx
 * is added, and what loads constants that are in memory. */
#define R    "(rpt5)nop\n"
#define DONE "(sy)(ss)(jp)nop\nend\n"
/* 32 bits of a product, of registers that are not `d`. */
#define MUL(d, a, b)                                                           \
    "mull.u " d ", " a ", " b "\n" R "madsh.m16 " d ", " a ", " b ", " d       \
    "\n" R "madsh.m16 " d ", " b ", " a ", " d "\n" R
/* The address in constants `c`.`l`, `c`.`h` plus r0.w, to `lo`, `hi`. */
#define AT(lo, hi, l, h)                                                       \
    "add.u " lo ", r0.w, " l "\n" R "cmps.u.lt " hi ", " lo ", r0.w\n" R       \
    "add.u " hi ", " hi ", " h "\n" R

static const struct kernel kernels[CTS_KERNEL_COUNT] =
    {
        [CTS_NOP] = {"nop", "end\n", 0, 0, 1, 0},
        [CTS_ADD_ONE] =
            {
                "add_one",
                "mov.u32u32 r0.y, r48.x\n" R "mov.u32u32 r2.z, c1.x\n" R MUL(
                    "r2.w", "r0.y",
                    "r2.z") "mov.u32u32 r0.z, 0\n" R "loop:\n"
                            "(ss)(jp)cmps.u.ge p0.x, r0.z, c1.x\n" R
                            "br p0.x, @done\n"
                            "add.u r0.w, r2.w, r0.z\n" R
                            "shl.b r0.w, r0.w, 2\n" R AT("r1.x", "r1.y", "c0.z",
                                                         "c0.w")
                                AT("r2.x", "r2.y", "c0.x",
                                   "c0.y") "ldg.u32 r3.x, g[r1.x], 1\n"
                                           "(sy)" R "add.u r3.x, r3.x, 1\n" R
                                           "stg.u32 g[r2.x], r3.x, 1\n"
                                           "add.u r0.z, r0.z, 1\n"
                                           "(ss)" R "jump @loop\n"
                                           "done:\n" DONE,
                2,
                1,
                1,
                0,
            },
        [CTS_VALUES] = {"values", NULL, 1, 3, 1, 0}, /* put_sums */
        [CTS_MANY] = {"many", NULL, 1, HCQ_ARGS_MAX - 1, 1, 0},
        [CTS_SPIN] =
            {
                "spin",
                "mov.u32u32 r1.x, c0.x\nmov.u32u32 r1.y, c0.y\n" R "loop:\n"
                "(jp)ldg.u32 r2.x, g[r1.x], 1\n"
                "(sy)" R "cmps.u.eq p0.x, r2.x, 0\n" R "br p0.x, @loop\n" DONE,
                1,
                0,
                1,
                0,
            },
        [CTS_WORK] =
            {
                "work",
                "mov.u32u32 r0.y, r48.x\n" /* x */
                "mov.u32u32 r0.z, 0\n" R "shl.b r0.w, r0.y, 2\n" R AT(
                    "r2.x", "r2.y", "c0.x",
                    "c0.y") "mov.u32u32 r3.y, 1664525\nmov.u32u32 "
                            "r3.z, 1013904223\n" R "loop:\n"
                            "(jp)cmps.u.ge p0.x, r0.z, c0.z\n" R
                            "br p0.x, @done\n"
                            "shr.b r1.x, r0.y, 15\n" R
                            "xor.b r1.x, r1.x, r0.y\n" R MUL("r1.y", "r1.x",
                                                             "r3.y") "add.u "
                                                                     "r0.y, "
                                                                     "r1.y, "
                                                                     "r3.z\n"
                                                                     "add.u "
                                                                     "r0.z, "
                                                                     "r0.z, "
                                                                     "1\n" R
                                                                     "jump "
                                                                     "@loop\n"
                                                                     "done:\n"
                                                                     "(jp)"
                                                                     "nop\nst"
                                                                     "g.u32 "
                                                                     "g[r2.x]"
                                                                     ", "
                                                                     "r0.y, "
                                                                     "1"
                                                                     "\n" DONE,
                1,
                1,
                1,
                0,
            },
        [CTS_POKE] =
            {
                "poke",
                "mov.u32u32 r0.y, r48.x\nmov.u32u32 r1.x, c1.x\n"
                "mov.u32u32 r1.y, c1.y\nmov.u32u32 r1.z, 1\n" R
                "cmps.u.ne p0.x, r0.y, c0.z\n" R "br p0.x, @done\n"
                "stg.u32 g[r1.x], r1.z, 1\n"
                "done:\n" DONE,
                1,
                2,
                1,
                0,
            },
        [CTS_COUNT] =
            {
                "count",
                "mov.u32u32 r1.x, c0.x\nmov.u32u32 r1.y, c0.y\n" R
                "add.u r2.x, r0.x, 1\nadd.u r2.y, r1.x, 4\n"
                "mov.u32u32 r3.x, 1\n" R "cmps.u.lt r2.z, r2.y, 4\n" R
                "add.u r2.z, r1.y, r2.z\n" R
                "atomic.g.add.untyped.1d.u32.1.g r3.z, r1.x, r2.x\n"
                "atomic.g.add.untyped.1d.u32.1.g r3.w, r2.y, r3.x\n"
                "(sy)(ss)nop\n"
                "add.u r2.y, r1.x, 8\n" R "cmps.u.lt r2.z, r2.y, 8\n" R
                "add.u r2.z, r1.y, r2.z\n" R
                "atomic.g.max.untyped.1d.u32.1.g r3.z, r2.y, r3.w\n" DONE,
                1,
                0,
                0,
                0,
            },
        [CTS_TRAP] = {"trap", ".word ffffffffffffffff\n" DONE, 0, 0, 1, 0},
        [CTS_REVERSE] =
            {
                "reverse",
                "mov.u32u32 r0.y, r48.x\n" R "shl.b r0.y, r0.y, 7\n" R
                "add.u r0.y, r0.y, r0.x\n" R "shl.b r0.w, r0.y, 2\n" R
                    AT("r1.x", "r1.y", "c0.z",
                       "c0.w") AT("r2.x", "r2.y", "c0.x",
                                  "c0.y") "ldg.u32 r3.x, g[r1.x], 1\n"
                                          "shl.b r3.y, r0.x, 2\n"
                                          "(sy)" R "stl.u32 l[r3.y], r3.x, 1\n"
                                          "mov.u32u32 r3.z, 508\n" R
                                          "(sy)(ss)fence.r.w\n"
                                          "(sy)(ss)bar.g\n"
                                          "(ss)(sy)" R
                                          "sub.u r3.z, r3.z, r3.y\n" R
                                          "ldl.u32 r3.w, l[r3.z], 1\n"
                                          "(ss)(sy)" R
                                          "stg.u32 g[r2.x], r3.w, 1\n" DONE,
                2,
                0,
                128,
                512,
            },
};

/* ---- text ---------------------------------------------------------------- */

struct text {
    char bytes[512u << 10];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void
add(struct text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text->n += (size_t)vsnprintf(text->bytes + text->n,
                                 sizeof(text->bytes) - text->n, format, args);
    va_end(args);
    if (text->n >= sizeof(text->bytes))
        abort();
}

/* r1.xy += 64 bits of constants or of r2.xy. */
static void
add_64(struct text *text, const char *to, const char *lo, const char *hi)
{
    add(text,
        "add.u %s.x, %s.x, %s\n" R "cmps.u.lt %s.z, %s.x, %s\n"
        "add.u %s.y, %s.y, %s\n" R "add.u %s.y, %s.y, %s.z\n" R,
        to, to, lo, to, to, lo, to, to, hi, to, to, to);
}

static const char *
constant(char name[16], uint32_t dword)
{
    snprintf(name, 16, "c%u.%c", dword / 4, "xyzw"[dword % 4]);
    return name;
}

/* b0[0] = sum of the values, each as often as a list says; or of value i, i + 1
 * times: sums of sums from the last to the first. */
static void
put_sums(struct text *text, enum cts_kernel kernel)
{
    static const uint32_t times[] = {1, 3, 5};
    char lo[16], hi[16];
    uint32_t i, k;

    add(text, "mov.u32u32 r1.x, 0\nmov.u32u32 r1.y, 0\nmov.u32u32 r2.x, 0\n"
              "mov.u32u32 r2.y, 0\n" R);
    for (i = 0; kernel == CTS_VALUES && i < ARRAY_LEN(times); i++) {
        for (k = 0; k < times[i]; k++)
            add_64(text, "r1", constant(lo, 2 * (1 + i)),
                   constant(hi, 2 * (1 + i) + 1));
    }
    for (i = HCQ_ARGS_MAX - 1; kernel == CTS_MANY && i-- > 0;) {
        add_64(text, "r2", constant(lo, 2 * (1 + i)),
               constant(hi, 2 * (1 + i) + 1));
        add_64(text, "r1", "r2.x", "r2.y");
    }
    add(text, "mov.u32u32 r0.y, c0.x\nmov.u32u32 r0.z, c0.y\n" R
              "stg.u32 g[r0.y], r1.x, 2\n" DONE);
}

/* ---- assembling ---------------------------------------------------------- */

struct label {
    char name[16];
    uint32_t at;
};

/* Where "name:" stands: before instruction *out_at. */
static uint32_t
find_labels(const char *text, struct label *labels)
{
    uint32_t n = 0, at = 0;
    const char *end;

    for (; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        if (end[-1] == ':') {
            snprintf(labels[n].name, sizeof(labels[n].name), "%.*s",
                     (int)(end - 1 - text), text);
            labels[n++].at = at;
        } else {
            at++;
        }
    }
    return n;
}

static void
assemble(const char *line, uint32_t at, const struct label *labels, uint32_t n,
         uint64_t *out)
{
    const char *where = strchr(line, '@');
    struct ir3_instr instr;
    char text[128];
    uint32_t i;

    if (strncmp(line, ".word ", 6) == 0) {
        *out = strtoull(line + 6, NULL, 16);
        return;
    }
    snprintf(text, sizeof(text), "%s", line);
    for (i = 0; where && i < n; i++) {
        if (strcmp(where + 1, labels[i].name) == 0)
            snprintf(text + (where - line), 16, "#%d",
                     (int)labels[i].at - (int)at);
    }
    if (ir3_parse(gen, text, &instr) != BELL_OK) {
        fprintf(stderr, "%s: %s\n", text, bell_error_last()->message);
        exit(1);
    }
    *out = ir3_encode(&instr);
}

struct object {
    struct ir3_object head;
    uint64_t code[MAX_INSTRS];
};

/* The same text where constants are in memory: each is loaded before it is
 * used, to a register that nothing else has. */
static void
load_constants(const char *from, struct text *to)
{
    const char *end, *at;
    unsigned vec4;
    char line[128], comp;

    for (; (end = strchr(from, '\n')) != NULL; from = end + 1) {
        snprintf(line, sizeof(line), "%.*s", (int)(end - from), from);
        for (at = strstr(line, ", c"); at; at = strstr(at + 1, ", c")) {
            if (sscanf(at, ", c%u.%c", &vec4, &comp) == 2)
                break;
        }
        if (!at) {
            add(to, "%s\n", line);
            continue;
        }
        add(to,
            "(sy)(ss)(jp)nop\nldc.offset%u.1.imm r4.x, %u, 0\n"
            "(sy)" R "%.*s, r4.x%s\n",
            (unsigned)(strchr("xyzw", comp) - "xyzw"), vec4, (int)(at - line),
            line, at + strcspn(at + 2, ",") + 2);
    }
}

static size_t
build(const struct kernel *kernel, const char *text, struct object *out)
{
    struct label labels[8];
    uint32_t n_labels = find_labels(text, labels), n = 0;
    const char *end;
    char line[128];

    memset(out, 0, sizeof(*out));
    for (; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        if (end[-1] == ':')
            continue;
        snprintf(line, sizeof(line), "%.*s", (int)(end - text), text);
        if (n + 8 > MAX_INSTRS)
            abort();
        if (gen != IR3_GEN_A6XX && strcmp(line, "end") == 0) {
            assemble("(sy)(ss)lock", n, NULL, 0, &out->code[n]);
            assemble("unlock", n + 1, NULL, 0, &out->code[n + 1]);
            n += 2;
        }
        assemble(line, n, labels, n_labels, &out->code[n]);
        n++;
    }
    out->head = (struct ir3_object){
        .magic = IR3_OBJECT_MAGIC,
        .version = IR3_OBJECT_VERSION,
        .gen = gen,
        .n_instrs = (uint32_t)align_up(n + 4, 16),
        .n_full_vec4 = gen == IR3_GEN_A7XX_3 ? 5 : 4,
        .n_const_vec4 = gen == IR3_GEN_A7XX_3
                            ? 0
                            : (kernel->n_params + kernel->n_vars + 7) / 8 * 4,
        .branch_depth = 2,
        .shared_bytes = kernel->shared_bytes,
        .n_params = kernel->n_params,
        .n_vars = kernel->n_vars,
        .local = {kernel->n_threads, 1, 1},
    };
    return sizeof(out->head) + out->head.n_instrs * sizeof(out->code[0]);
}

static struct object *objects[CTS_KERNEL_COUNT]; /* made when needed */
static size_t sizes[CTS_KERNEL_COUNT];

static bool
setup(const struct hcq_device_info *info, char *why, size_t size)
{
    if (render_ir3_gen(info->arch, &gen))
        return true;
    snprintf(why, size, "no code for '%s'", info->arch);
    return false;
}

static bool
find(enum cts_kernel kernel, unsigned variant, struct hcq_program_desc *desc)
{
    static struct text text, with_loads;
    const char *bytes = text.bytes;

    (void)variant;
    if (!kernels[kernel].name)
        return false;
    if (!objects[kernel]) {
        text.n = 0;
        if (kernels[kernel].text)
            add(&text, "%s", kernels[kernel].text);
        else
            put_sums(&text, kernel);
        objects[kernel] = malloc(sizeof(struct object));
        if (!objects[kernel])
            abort();
        if (gen == IR3_GEN_A7XX_3) {
            with_loads.n = 0;
            load_constants(text.bytes, &with_loads);
            bytes = with_loads.bytes;
        }
        sizes[kernel] = build(&kernels[kernel], bytes, objects[kernel]);
    }
    desc->binary = objects[kernel];
    desc->binary_size_bytes = sizes[kernel];
    return true;
}

/* ---- what has to be refused ---------------------------------------------- */

static bool
bad(unsigned idx, struct cts_bad *out)
{
    static struct object copy;
    struct hcq_program_desc desc;

    (void)find(CTS_NOP, 0, &desc);
    memcpy(&copy, desc.binary, desc.binary_size_bytes);
    *out = (struct cts_bad){
        .data = &copy,
        .size_bytes = desc.binary_size_bytes,
    };
    switch (idx) {
    case 0:
        out->what = "too short";
        out->size_bytes = sizeof(copy.head) - 1;
        out->expect = "too short";
        return true;
    case 1:
        out->what = "another file";
        copy.head.magic++;
        out->expect = "no object";
        return true;
    case 2:
        out->what = "another version";
        copy.head.version++;
        out->expect = "version";
        return true;
    case 3:
        out->what = "cut off";
        out->size_bytes -= 8;
        out->expect = "cut off";
        return true;
    case 4:
        out->what = "no instructions";
        copy.head.n_instrs = 0;
        out->size_bytes = sizeof(copy.head);
        out->expect = "cut off";
        return true;
    case 5:
        out->what = "another generation";
        copy.head.gen = gen == IR3_GEN_A7XX ? IR3_GEN_A7XX_3 : IR3_GEN_A7XX;
        out->expect = "generation";
        return true;
    case 6:
        out->what = "other arguments";
        copy.head.n_params++;
        out->expect = "arguments";
        return true;
    case 7:
        out->what = "too many constants";
        copy.head.n_const_vec4 = 516;
        out->expect = "constants";
        return true;
    case 8:
        out->what = "too many registers";
        copy.head.n_full_vec4 = 49;
        out->expect = "registers";
        return true;
    case 9:
        out->what = "too much local memory";
        copy.head.shared_bytes = 40000;
        out->expect = "shared memory";
        return true;
    default:
        return false;
    }
}

/* msm counts a queue's faults, and tells nothing of them. */
static unsigned
also_lacks(const struct hcq_device_info *info)
{
    return strstr(info->model, "(msm)") ? CTS_LACK_CAUSES : 0;
}

/* A reset loses what is in the chip's cache. The effect of a misaligned access
 * is not known. */
const struct cts_provider cts_qcom_provider = {
    .backend = "QCOM",
    .lacks = CTS_LACK_PINS | CTS_LACK_SIGNALS | CTS_LACK_TURNS |
             CTS_SLOW_RESET | CTS_LACK_ALIGNMENT | CTS_LACK_STORES |
             CTS_LACK_PEERS | CTS_LACK_EXPORTS | CTS_LACK_IMPORTS,
    .also_lacks = also_lacks,
    .setup = setup,
    .find = find,
    .n_variants = 1,
    .bad = bad,
};
