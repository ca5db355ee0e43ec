/* The runtime of a context: its device, compiled kernels and plans.
 *
 * realize.c drives it, number.c says which structure it is, and replay.c runs
 * plans; compile.c fills the kernel cache with what compiler.c makes for the
 * device, or kept.c finds on disk; plan.c turns a schedule into a memory plan.
 */
#ifndef BELL_TENSOR_RUNTIME_RUNTIME_H
#define BELL_TENSOR_RUNTIME_RUNTIME_H

#include "base/map.h"
#include "cache/cache.h"
#include "doorbell/stats.h"
#include "doorbell/tensor.h"
#include "hcq/hcq.h"
#include "lower/lower.h"
#include "lower/schedule/schedule.h"
#include "lower/tune.h"
#include "render/cl/cl.h"
#include "render/ir3/ir3.h"
#include "render/llvm/amdgpu.h"
#include "render/ptx/ptx.h"
#include "render/render.h"
#include "tensor/runtime/sizes.h"
#include "tensor/runtime/tune.h"
#include "tensor/runtime/vary.h"
#include "uops/uop.h"

struct rt_classes;
struct rt_places;
struct rt_tape;
struct rt_target;
struct tensor_given;
struct tensor_givens;
struct tensor_labels;

/* A loadable binary and what its launch needs. */
struct rt_binary {
    struct render_binary file; /* owned: render_binary_fini */
    uint32_t local[3];         /* fixed work-group; 0,0,0: any */
    uint32_t shared_bytes;     /* given at launch */
};

/* What code is made with beside this program: another one makes other code. */
enum rt_tool {
    RT_TOOL_NONE,
    RT_TOOL_LLVM,
    RT_TOOL_PTXAS
};

/* What makes binaries for the devices of one backend. Static table rows;
 * compile and text are called by several threads at once. */
struct rt_compiler {
    const char *backend;
    /* Fills the target in from what the device says of itself. */
    bell_status (*init)(const struct hcq_device_info *info, uint32_t math,
                        struct rt_target *target);
    bell_status (*compile)(const struct rt_target *target,
                           const struct lower_program *program,
                           struct rt_binary *out);
    /* The source, to be shown (host_free it). */
    bell_status (*text)(const struct rt_target *target,
                        const struct lower_program *program, char **out_text);
    /* The machine code in the assembler's language (host_free it). */
    bell_status (*assembly)(const struct rt_target *target,
                            const struct lower_program *program,
                            char **out_text);
    /* What it takes of a GPU's unit, as its assembler says; NULL: no GPU.
     * BELL_E_UNSUPPORTED: the assembler is not there. */
    bell_status (*usage)(const struct rt_target *target,
                         const struct lower_program *program,
                         struct render_usage *out_usage);
};

/* What kernels are made for. Immutable once made. */
struct rt_target {
    const struct rt_compiler *compiler;
    struct lower_target lower;
    struct ptx_target ptx;       /* of NVIDIA */
    struct amdgpu_target amdgpu; /* of AMD */
    enum ir3_gen ir3_gen;        /* of Qualcomm */
    struct cl_target cl;         /* of OpenCL */
    enum rt_tool tool;
    uint32_t math;       /* bits of enum bell_math that make a difference */
    bool is_simulated;   /* a simulated card: takes PTX in a container */
    uint32_t n_parallel; /* work-items that keep the device busy */
    uint32_t n_shared;   /* that may share a reduction */
    uint32_t max_grid[3];
    char arch[HCQ_NAME_MAX]; /* of the chip: "gfx1100" */
};

/* `math`: what is allowed, bits of enum bell_math. BELL_E_UNSUPPORTED where
 * nothing compiles for such a device. */
BELL_MUST_CHECK bell_status rt_target_init(const struct hcq_device_info *info,
                                           uint32_t math,
                                           struct rt_target *out_target);

/* What a compiled kernel is, beside its file. Plain data, kept on disk as it
 * is. */
struct rt_facts {
    uint32_t n_params, n_vars, grid[3], local[3];
    uint32_t max_steps; /* hcq_program_desc's */
    uint32_t unused;    /* 0 */
    double n_flops, n_bytes;
};

/* One kernel to compile, or found compiled. */
struct rt_job {
    const struct uop *sink;
    const struct rt_target *target;
    struct rt_binary binary; /* owned */
    char *name;              /* owned */
    struct rt_facts facts;
    const struct tensor_given *given;  /* by a caller; or NULL */
    const struct lower_schedule *told; /* NULL: as the rules choose */
    struct lower_made *made;           /* filled in, or NULL */
    uint32_t max_ops; /* of a program that is compiled; 0: any */
    uint32_t n_ops;
    bool is_found; /* on disk: not compiled */
    uint64_t lower_ns, render_ns;
    uint64_t start_ns, render_start_ns;
    uint32_t thread; /* that compiled it, of the system */
    bell_status status;
    struct bell_error error; /* of the thread that failed */
};

/* A compiled kernel. Owned by the runtime. */
struct rt_kernel {
    const struct uop *sink; /* in rt->kernels: its identity */
    struct hcq_program *program;
    struct rt_facts facts;
    const int64_t *values; /* its arguments behind the buffers, of one that was
                            * given; NULL: they are the plan's */
    struct hcq_program **others; /* owned: on the other devices of a mesh */
    uint32_t n_others;
    struct rt_classes
        *classes; /* owned: where sizes vary (classes.h); or NULL */
    uint64_t binary_bytes, lower_ns, compile_ns;
    /* owned, where the runtime keeps them: */
    struct rt_binary binary;
    char *entry;
};

void rt_kernel_fini(struct rt_kernel *kernel);

#define RT_NO_PLAN UINT32_MAX

/* What the symbols of a plan are now, by number, and what scratch memory is
 * for. A plan for any size has one symbol, 0. */
struct rt_counts {
    struct dim_table *table;
    int64_t now[DIM_MAX_SYMBOLS], placed[DIM_MAX_SYMBOLS];
    int64_t least[DIM_MAX_SYMBOLS], most[DIM_MAX_SYMBOLS];
};

/* A scheduled graph, ready to run again and again. Owned by the runtime. */
struct rt_plan {
    struct sched_plan sched;
    const struct uop *sink;  /* of the structure, a node of rt->graphs: its
                              * roots, the last one first */
    struct rt_value *values; /* those that it was made with */
    uint8_t *steps;          /* by value: 0: a constant of the plan; else an
                              * argument, 1 + log2 of what it is divided by */
    uint32_t n_values;
    uint32_t next;        /* plan of the same structure and sizes, or for any
                           * size as this; RT_NO_PLAN: the last */
    bool keeps_constants; /* with arguments it would be another program */
    uint32_t symbols;     /* of the context or the table, bit by number, whose
                           * values are the last of its own */
    struct dim_table *table;  /* owned: of a plan for any size; or NULL */
    uint32_t first;           /* of that: value that is its symbol, n */
    struct rt_counts *counts; /* owned: where sizes vary; or NULL */
    uint32_t *kernels;        /* by item: number in rt->kernel_list */
    uint64_t *offsets;        /* by buffer: place in the scratch buffer */
    uint32_t *takes;          /* by buffer: whose place it has, or itself */
    uint32_t n_taken;         /* that have another's */
    uint64_t scratch_bytes;   /* for values that are neither leaf nor root */
    uint64_t alive_bytes;     /* of these that are alive at once, at most */
    uint64_t result_bytes;
    struct rt_tape *tape; /* owned: one that recurs, as a graph; or NULL */
    uint32_t n_runs;      /* so far, before there was a tape */
    size_t n_tape_leaves; /* slots of the tape that are leaves */
    bool no_graph;        /* one was refused */
};

/* Memory that work in flight may still use. */
struct rt_dead {
    struct hcq_buffer *buf;
    uint64_t value; /* of the queue's timeline when it is idle */
};

/* What a node of the context's graph became when it was last numbered. */
struct rt_copy {
    const struct uop *to;     /* in rt->graphs */
    uint64_t run;             /* rt->n_numbered then */
    uint32_t value, n_values; /* its values: the first, how many */
};

/* A node whose sources are being visited. */
struct rt_visit {
    const struct uop *u;
    uint32_t n_done;
};

struct tensor_runtime {
    struct hcq_device *dev;
    struct hcq_device_info info; /* the device's */
    struct hcq_queue *queue;
    const struct tensor_givens *givens; /* the context's */
    struct rt_target target;            /* changes with what math is allowed */
    struct sched_target sched_target;
    struct uop_graph graphs;  /* structures of tensor graphs (number.c) */
    struct uop_graph kernels; /* scheduled kernels and plans */
    struct map plan_of;       /* rt_plan_key -> newest plan of it */
    struct rt_values values;  /* of the graph that is looked up */
    struct map kernel_of; /* rt_key of a SINK in kernels -> number of kernel */
    struct rt_plan *plans;
    size_t n_plans, cap_plans;
    struct rt_kernel *kernel_list;
    size_t n_kernels, cap_kernels;
    struct rt_copy *copies; /* by id in the context's graph */
    size_t cap_copies;
    struct rt_visit *visits; /* scratch */
    size_t cap_visits;
    uint64_t n_numbered; /* runs of rt_number so far */
    struct rt_dead *dead;
    size_t n_dead, cap_dead;
    /* Copies from and to devices of other contexts that are under way, and of
     * the queue's timeline when they are over. */
    struct hcq_transfer **sent;
    uint64_t *sent_until;
    size_t n_sent, cap_sent, cap_until;
    uint64_t last_value;      /* of the queue's timeline, for all work so far */
    struct rt_places *places; /* owned: devices of a mesh, of which this is the
                               * first; NULL: there is one (mesh_places.h) */
    struct bell_stats stats;
    struct cache cache; /* kernels on disk */
    bool keeps_binaries;
    bool told_plans;         /* that the program keeps compiling */
    struct tensor_tune tune; /* the search, if there is one */
    struct map schedule_of;  /* rt_key of a SINK in kernels -> number */
    struct lower_schedule *schedules; /* those found; empty: the rules' */
    size_t n_schedules, cap_schedules;
    struct rt_profile *profile; /* owned; NULL: none (profile.h) */
    /* The context's; NULL: none are recorded (named.h). */
    struct tensor_labels *labels;
    uint32_t *labels_now; /* of the graph that is run, in canonical order */
    size_t n_labels_now, cap_labels_now;
    void (*watch)(void *user, size_t number); /* after each kernel; or NULL */
    void *watch_user;
};

/* What a SINK is cached by: what is made of it depends on the math too. */
static inline uint64_t
rt_key(const struct tensor_runtime *rt, const struct uop *sink)
{
    return (uint64_t)rt->target.math << 32 | sink->id;
}

/* What a plan is known by: its structure and sizes; or 0, one for any size. */
static inline uint64_t
rt_plan_key(const struct tensor_runtime *rt, const struct uop *sink,
            uint64_t sizes_hash)
{
    return hash_add(rt_key(rt, sink), sizes_hash);
}

/* Compiles the kernels of sinks[] (nodes of rt->kernels) that are not
 * compiled yet, several at a time; out_kernels[i] is the number of each. */
BELL_MUST_CHECK bell_status rt_compile(struct tensor_runtime *rt,
                                       const struct uop *const *sinks,
                                       uint32_t n, uint32_t *out_kernels);

/* Compiles one kernel, without loading it. BELL_E_UNSUPPORTED: its program has
 * more than max_ops ops. Several threads at once, each its own job. */
BELL_MUST_CHECK bell_status rt_compile_job(struct rt_job *job);
/* The same of n jobs, by as many threads as the process may use: each has its
 * status and error. One whose schedule does not fit its kernel is compiled as
 * the rules choose, unless `made` asks. */
void rt_compile_jobs(struct rt_job *const *jobs, uint32_t n);
BELL_MUST_CHECK bell_status rt_create_program(struct tensor_runtime *rt,
                                              const struct rt_job *job,
                                              struct hcq_program **out_program);
/* The kernel that a caller has given under `sink`, or NULL. */
const struct tensor_given *rt_given_of(const struct tensor_runtime *rt,
                                       const struct uop *sink);
/* rt_compile_job of one. BELL_E_UNSUPPORTED: it has no code for the target. */
BELL_MUST_CHECK bell_status rt_compile_given(struct rt_job *job);

/* Frees what compiling made. */
void rt_job_fini(struct rt_job *job);

/* Looks for the kernels of jobs[] on disk; those found have is_found set and
 * need no compiling. *out_entries is by job and for the calls below; NULL:
 * there is no cache. */
void rt_kept_find(struct tensor_runtime *rt, struct rt_job *jobs, uint32_t n,
                  struct cache_entry **out_entries);

/* One that was found and cannot be loaded. */
void rt_kept_drop(struct tensor_runtime *rt, const struct cache_entry *entry);

/* Keeps the first n_loaded jobs, but those that were found, and frees the n
 * entries. */
void rt_kept_end(struct tensor_runtime *rt, const struct rt_job *jobs,
                 uint32_t n_loaded, struct cache_entry *entries, uint32_t n);

/* The schedule that a search of `beam` or wider found for the kernel, in
 * another process or this one. */
bool rt_kept_schedule(struct tensor_runtime *rt, const struct uop *sink,
                      uint32_t beam, struct lower_schedule *out_schedule);
void rt_keep_schedule(struct tensor_runtime *rt, const struct uop *sink,
                      uint32_t beam, const struct lower_schedule *schedule);

/* Gives every buffer that is neither leaf nor root a place in one scratch
 * buffer; values that are not alive at once share memory. Where the kernels,
 * nodes of `kernels` (NULL: they stay), hold most, results take the places of
 * what dies there (lower/schedule/overwrite.h). Again, for other sizes, it
 * begins anew. */
BELL_MUST_CHECK bell_status rt_place_buffers(struct rt_plan *plan,
                                             struct uop_graph *kernels);

#endif
