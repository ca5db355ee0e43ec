/* Inside of `doorbell viz`: what BELL_DEBUG prints, sorted by what it is of.
 * One thread at a time. */
#ifndef BELL_TOOLS_VIZ_VIZ_H
#define BELL_TOOLS_VIZ_VIZ_H

#include <stdbool.h>
#include <stddef.h>

#include "base/growing_text.h"
#include "base/status.h"

struct json;

/* What the page shows of BELL_DEBUG. */
#define VIZ_TOPICS "graph,plan,sched,mem,exec,uops,rw,opt,render,asm"

/* The IR of a kernel behind a pass. */
struct viz_stage {
    char *name;
    struct text text;
};

/* A rule that was applied between stages `stage` and the next one. */
struct viz_rewrite {
    size_t stage;
    char *rule, *before, *after;
};

/* What a kernel, or nodes first..last of a graph, compute. */
struct viz_label {
    size_t graph, first, last; /* graph: SIZE_MAX for a kernel */
    char *name;                /* of the kernel; or NULL */
    char *text;
};

struct viz_kernel {
    char *name;
    struct viz_stage *stages;
    struct viz_rewrite *rewrites;
    size_t n_stages, cap_stages, n_rewrites, cap_rewrites;
    struct text choices, source, assembly;
};

/* A thread that compiles, and what it is at. */
struct viz_thread {
    long number;
    size_t kernel; /* SIZE_MAX: none yet */
};

struct viz {
    struct viz_kernel *kernels;
    struct viz_thread *threads;
    struct text *graphs;
    struct viz_label *labels;
    size_t n_labels, cap_labels;
    size_t n_kernels, cap_kernels, n_threads, cap_threads, n_graphs, cap_graphs;
    struct text plan, schedule, memory, launches;
    bool failed; /* out of memory */
};

/* A line of BELL_DEBUG by a thread: "topic: text". Others are passed over. */
void viz_add(struct viz *viz, long thread, const char *line);
/* Lines of BELL_DEBUG_FILE: "THREAD topic: text". */
BELL_MUST_CHECK bell_status viz_read(struct viz *viz, const char *path);
/* Members of the open object: docs/schemas/viz.json. */
void viz_put(const struct viz *viz, struct json *json);
void viz_fini(struct viz *viz);

#endif
