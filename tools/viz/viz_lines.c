/* Lines of BELL_DEBUG, sorted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/viz/viz.h"

static bool
add_text(struct text *text, const char *line)
{
    text_add(text, "%s\n", line);
    return !text->failed;
}

/* ---- kernels, by the threads that compile them ---- */

static struct viz_thread *
thread_of(struct viz *viz, long number)
{
    size_t i;

    for (i = 0; i < viz->n_threads; i++) {
        if (viz->threads[i].number == number)
            return &viz->threads[i];
    }
    if (host_grow((void **)&viz->threads, &viz->cap_threads, viz->n_threads + 1,
                  sizeof(*viz->threads)) != 0)
        return NULL;
    viz->threads[i] = (struct viz_thread){number, SIZE_MAX};
    viz->n_threads++;
    return &viz->threads[i];
}

/* What the thread is at; NULL: nothing, or out of memory. */
static struct viz_kernel *
kernel_of(struct viz *viz, long number)
{
    struct viz_thread *thread = thread_of(viz, number);

    if (!thread)
        viz->failed = true;
    return thread && thread->kernel != SIZE_MAX ? &viz->kernels[thread->kernel]
                                                : NULL;
}

static bool
add_stage(struct viz_kernel *kernel, const char *name)
{
    struct viz_stage *stage;

    if (host_grow((void **)&kernel->stages, &kernel->cap_stages,
                  kernel->n_stages + 1, sizeof(*stage)) != 0)
        return false;
    stage = &kernel->stages[kernel->n_stages++];
    *stage = (struct viz_stage){.name = host_strdup(name)};
    return stage->name != NULL;
}

/* "NAME" begins a kernel, "NAME: stage" its next stage. */
static bool
begin_stage(struct viz *viz, long number, char *title)
{
    struct viz_thread *thread = thread_of(viz, number);
    char *colon = strchr(title, ':');
    struct viz_kernel *kernel;

    if (!thread)
        return false;
    if (colon) {
        if (thread->kernel == SIZE_MAX)
            return true;
        return add_stage(&viz->kernels[thread->kernel],
                         colon + 1 + strspn(colon + 1, " "));
    }
    if (host_grow((void **)&viz->kernels, &viz->cap_kernels, viz->n_kernels + 1,
                  sizeof(*kernel)) != 0)
        return false;
    thread->kernel = viz->n_kernels++;
    kernel = &viz->kernels[thread->kernel];
    *kernel = (struct viz_kernel){.name = host_strdup(title)};
    return kernel->name && add_stage(kernel, "scheduled");
}

/* "NAME:" at the line's start, the text behind it indented. */
static bool
add_uops(struct viz *viz, long number, const char *text)
{
    struct viz_kernel *kernel;
    size_t n = strlen(text);
    char *title;
    bool good;

    if (text[0] == ' ') {
        kernel = kernel_of(viz, number);
        return !kernel || !kernel->n_stages ||
               add_text(&kernel->stages[kernel->n_stages - 1].text,
                        text + strspn(text, " "));
    }
    title = host_strdup(text);
    if (!title)
        return false;
    if (n && title[n - 1] == ':')
        title[n - 1] = '\0';
    good = begin_stage(viz, number, title);
    host_free(title);
    return good;
}

/* "rule: before -> after" */
static bool
add_rewrite(struct viz *viz, long number, const char *text)
{
    struct viz_kernel *kernel = kernel_of(viz, number);
    const char *colon = strstr(text, ": "), *arrow = strstr(text, " -> ");
    struct viz_rewrite *r;

    if (!kernel || !colon || !arrow || arrow < colon)
        return true;
    if (host_grow((void **)&kernel->rewrites, &kernel->cap_rewrites,
                  kernel->n_rewrites + 1, sizeof(*r)) != 0)
        return false;
    r = &kernel->rewrites[kernel->n_rewrites++];
    *r = (struct viz_rewrite){
        .stage = kernel->n_stages - 1,
        .rule = host_strndup(text, (size_t)(colon - text)),
        .before = host_strndup(colon + 2, (size_t)(arrow - colon - 2)),
        .after = host_strdup(arrow + 4),
    };
    return r->rule && r->before && r->after;
}

/* Text of a kernel whose title is not wanted. */
static bool
add_of_kernel(struct viz *viz, long number, const char *topic, const char *text)
{
    struct viz_kernel *kernel = kernel_of(viz, number);
    struct text *to;

    if (!kernel || (text[0] != ' ' && strcmp(topic, "opt") != 0))
        return true;
    to = strcmp(topic, "opt") == 0      ? &kernel->choices
         : strcmp(topic, "render") == 0 ? &kernel->source
                                        : &kernel->assembly;
    if (strcmp(topic, "opt") == 0 && !to->len &&
        strncmp(text, kernel->name, strlen(kernel->name)) == 0)
        return true;
    return add_text(to, text + (text[0] == ' ' ? 2 : 0));
}

/* "NAME is TEXT" of a kernel, "nodes %3 to %9 are TEXT" of the last graph. */
static bool
add_label(struct viz *viz, const char *text)
{
    struct viz_label label = {.graph = SIZE_MAX};
    const char *is = strstr(text, " is "), *space = strchr(text, ' ');
    int n = 0;

    if (sscanf(text, "nodes %%%zu to %%%zu are %n", &label.first, &label.last,
               &n) == 2 &&
        n && viz->n_graphs) {
        label.graph = viz->n_graphs - 1;
        label.text = host_strdup(text + n);
    } else if (is && is == space) {
        label.name = host_strndup(text, (size_t)(is - text));
        label.text = host_strdup(is + 4);
        if (!label.name)
            return false;
    } else {
        return add_text(&viz->schedule, text);
    }
    if (!label.text || host_grow((void **)&viz->labels, &viz->cap_labels,
                                 viz->n_labels + 1, sizeof(label)) != 0)
        return false;
    viz->labels[viz->n_labels++] = label;
    return true;
}

static bool
add_graph(struct viz *viz, const char *text)
{
    if (text[0] != ' ') {
        if (host_grow((void **)&viz->graphs, &viz->cap_graphs,
                      viz->n_graphs + 1, sizeof(*viz->graphs)) != 0)
            return false;
        viz->graphs[viz->n_graphs++] = (struct text){NULL, 0, 0, false};
        return true;
    }
    return !viz->n_graphs ||
           add_text(&viz->graphs[viz->n_graphs - 1], text + strspn(text, " "));
}

void
viz_add(struct viz *viz, long thread, const char *line)
{
    const char *colon = strstr(line, ": "), *text;
    size_t n = colon ? (size_t)(colon - line) : 0;
    char topic[16];
    bool good;

    if (!colon || n >= sizeof(topic))
        return;
    memcpy(topic, line, n);
    topic[n] = '\0';
    text = colon + 2;
    if (strcmp(topic, "graph") == 0)
        good = add_graph(viz, text);
    else if (strcmp(topic, "uops") == 0)
        good = add_uops(viz, thread, text);
    else if (strcmp(topic, "rw") == 0)
        good = add_rewrite(viz, thread, text);
    else if (strcmp(topic, "opt") == 0 || strcmp(topic, "render") == 0 ||
             strcmp(topic, "asm") == 0)
        good = add_of_kernel(viz, thread, topic, text);
    else if (strcmp(topic, "plan") == 0)
        good = add_text(&viz->plan, text);
    else if (strcmp(topic, "sched") == 0)
        good = add_label(viz, text);
    else if (strcmp(topic, "mem") == 0)
        good = add_text(&viz->memory, text);
    else if (strcmp(topic, "exec") == 0)
        good = add_text(&viz->launches, text);
    else
        good = true;
    viz->failed |= !good;
}

bell_status
viz_read(struct viz *viz, const char *path)
{
    char *text, *line, *end, *save = NULL;
    long thread;

    BELL_TRY(file_read_text(path, &text));
    for (line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        thread = strtol(line, &end, 10);
        if (end != line && *end == ' ')
            viz_add(viz, thread, end + 1);
    }
    host_free(text);
    return BELL_OK;
}

/* ---- the document ---- */

/* Has an earlier label of the kernel the same text? */
static bool
is_again(const struct viz *viz, size_t at)
{
    size_t i;

    for (i = 0; i < at; i++) {
        if (viz->labels[i].name &&
            strcmp(viz->labels[i].name, viz->labels[at].name) == 0 &&
            strcmp(viz->labels[i].text, viz->labels[at].text) == 0)
            return true;
    }
    return false;
}

/* Kernels of one name share their labels: lines say no more of them. */
static void
put_kernel_labels(struct json *json, const struct viz *viz, const char *name)
{
    size_t i;

    json_array(json, "labels");
    for (i = 0; i < viz->n_labels; i++) {
        const struct viz_label *label = &viz->labels[i];
        if (label->name && strcmp(label->name, name) == 0 && !is_again(viz, i))
            json_str(json, NULL, label->text);
    }
    json_end(json);
}

static void
put_graph_labels(struct json *json, const struct viz *viz)
{
    size_t i;

    json_array(json, "labels");
    for (i = 0; i < viz->n_labels; i++) {
        const struct viz_label *label = &viz->labels[i];
        if (label->graph == SIZE_MAX)
            continue;
        json_object(json, NULL);
        json_uint(json, "graph", label->graph);
        json_uint(json, "first", label->first);
        json_uint(json, "last", label->last);
        json_str(json, "label", label->text);
        json_end(json);
    }
    json_end(json);
}

static void
put_kernel(struct json *json, const struct viz *viz,
           const struct viz_kernel *kernel)
{
    size_t i;

    json_object(json, NULL);
    json_str(json, "name", kernel->name);
    put_kernel_labels(json, viz, kernel->name);
    json_array(json, "stages");
    for (i = 0; i < kernel->n_stages; i++) {
        json_object(json, NULL);
        json_str(json, "name", kernel->stages[i].name);
        json_str(json, "text", kernel->stages[i].text.buf);
        json_end(json);
    }
    json_end(json);
    json_array(json, "rewrites");
    for (i = 0; i < kernel->n_rewrites; i++) {
        json_object(json, NULL);
        json_uint(json, "stage", kernel->rewrites[i].stage);
        json_str(json, "rule", kernel->rewrites[i].rule);
        json_str(json, "before", kernel->rewrites[i].before);
        json_str(json, "after", kernel->rewrites[i].after);
        json_end(json);
    }
    json_end(json);
    json_str(json, "choices", kernel->choices.buf);
    json_str(json, "source", kernel->source.buf);
    json_str(json, "assembly", kernel->assembly.buf);
    json_end(json);
}

void
viz_put(const struct viz *viz, struct json *json)
{
    size_t i;

    json_array(json, "graphs");
    for (i = 0; i < viz->n_graphs; i++)
        json_str(json, NULL, viz->graphs[i].buf);
    json_end(json);
    put_graph_labels(json, viz);
    json_array(json, "kernels");
    for (i = 0; i < viz->n_kernels; i++)
        put_kernel(json, viz, &viz->kernels[i]);
    json_end(json);
    json_str(json, "plan", viz->plan.buf);
    json_str(json, "schedule", viz->schedule.buf);
    json_str(json, "memory", viz->memory.buf);
    json_str(json, "launches", viz->launches.buf);
}

static void
kernel_fini(struct viz_kernel *kernel)
{
    size_t i;

    for (i = 0; i < kernel->n_stages; i++) {
        host_free(kernel->stages[i].name);
        host_free(kernel->stages[i].text.buf);
    }
    for (i = 0; i < kernel->n_rewrites; i++) {
        host_free(kernel->rewrites[i].rule);
        host_free(kernel->rewrites[i].before);
        host_free(kernel->rewrites[i].after);
    }
    host_free(kernel->stages);
    host_free(kernel->rewrites);
    host_free(kernel->choices.buf);
    host_free(kernel->source.buf);
    host_free(kernel->assembly.buf);
    host_free(kernel->name);
}

void
viz_fini(struct viz *viz)
{
    size_t i;

    for (i = 0; i < viz->n_kernels; i++)
        kernel_fini(&viz->kernels[i]);
    for (i = 0; i < viz->n_graphs; i++)
        host_free(viz->graphs[i].buf);
    for (i = 0; i < viz->n_labels; i++) {
        host_free(viz->labels[i].name);
        host_free(viz->labels[i].text);
    }
    host_free(viz->labels);
    host_free(viz->kernels);
    host_free(viz->threads);
    host_free(viz->graphs);
    host_free(viz->plan.buf);
    host_free(viz->schedule.buf);
    host_free(viz->memory.buf);
    host_free(viz->launches.buf);
}
