/* Modules: structures of tensors whose parts have names.
 *
 * A module is any structure of C that holds tensors and other modules. A table
 * of its fields, its type, tells how they are called:
 *
 *     struct block {
 *         struct bell_nn_linear up, down;
 *     };
 *     static const struct bell_module_field block_fields[] = {
 *         BELL_CHILD(struct block, up, &bell_nn_linear_type),
 *         BELL_CHILD(struct block, down, &bell_nn_linear_type),
 *     };
 *     static const struct bell_module_type block_type =
 *         BELL_MODULE_TYPE(struct block, block_fields);
 *
 *     struct net {
 *         struct bell_nn_embedding table;
 *         struct block layers[6];
 *     };
 *
 * With BELL_CHILDREN(struct net, layers, &block_type) among the fields of the
 * net its tensors are "table.weight", "layers.0.up.weight", "layers.0.up.bias"
 * and so on: PyTorch's names where the fields have them. The layers of nn.h
 * are modules, and their types are there. A tensor that is NULL is left out.
 *
 * What walks over a module (files, optimisers, freezing) takes its list, a
 * bell_state; an optimiser gives one as well, of its states and numbers.
 */
#ifndef BELL_DOORBELL_MODULE_H
#define BELL_DOORBELL_MODULE_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- types ---- */

enum bell_field_kind {
    BELL_FIELD_PARAM,  /* struct bell_tensor *, which training changes */
    BELL_FIELD_BUFFER, /* struct bell_tensor *, which it does not: statistics */
    BELL_FIELD_CHILD,  /* a module, or `count` of them: an array */
    BELL_FIELD_LIST    /* a pointer to an array of modules, whose length is the
                        * uint32_t at count_offset; may be NULL if that is 0 */
};

/* A row of a type. The name may have points in it: "downsample.0". */
struct bell_module_field {
    const char *name;
    enum bell_field_kind kind;
    size_t offset; /* in the structure */
    const struct bell_module_type *child;
    uint32_t count;      /* of an array's elements; 0: no array, no number */
    size_t count_offset; /* in the structure; of a list */
};

/* What a structure holds. Lives as long as it is used: constant data. */
struct bell_module_type {
    size_t size_bytes; /* of the structure */
    const struct bell_module_field *fields;
    uint32_t n_fields;
};

/* Rows: a member under its own name. C only, as the next five. */
#define BELL_PARAM(type, member)                                               \
    {                                                                          \
        .name = #member, .kind = BELL_FIELD_PARAM,                             \
        .offset = offsetof(type, member)                                       \
    }
#define BELL_BUFFER(type, member)                                              \
    {                                                                          \
        .name = #member, .kind = BELL_FIELD_BUFFER,                            \
        .offset = offsetof(type, member)                                       \
    }
/* A module in a module, under its own name and under another one. */
#define BELL_CHILD(type, member, child_type)                                   \
    BELL_CHILD_AS(#member, type, member, child_type)
#define BELL_CHILD_AS(as, type, member, child_type)                            \
    {                                                                          \
        .name = (as), .kind = BELL_FIELD_CHILD,                                \
        .offset = offsetof(type, member), .child = (child_type)                \
    }
/* An array of them: member.0, member.1.. */
#define BELL_CHILDREN(type, member, child_type)                                \
    BELL_CHILDREN_AS(#member, type, member, child_type)
#define BELL_CHILDREN_AS(as, type, member, child_type)                         \
    {                                                                          \
        .name = (as), .kind = BELL_FIELD_CHILD,                                \
        .offset = offsetof(type, member), .child = (child_type),               \
        .count = sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0])  \
    }
/* An array elsewhere, as long as the uint32_t `n_member` says. */
#define BELL_CHILD_LIST(type, member, n_member, child_type)                    \
    {                                                                          \
        .name = #member, .kind = BELL_FIELD_LIST,                              \
        .offset = offsetof(type, member), .child = (child_type),               \
        .count_offset = offsetof(type, n_member)                               \
    }
/* The type of a structure with an array of rows. */
#define BELL_MODULE_TYPE(type, rows)                                           \
    {                                                                          \
        .size_bytes = sizeof(type), .fields = (rows),                          \
        .n_fields = sizeof(rows) / sizeof((rows)[0])                           \
    }

/* ---- lists of what has a name ---- */

enum bell_state_kind {
    BELL_STATE_PARAM,
    BELL_STATE_BUFFER, /* a tensor that is not a parameter */
    BELL_STATE_NUMBER  /* of the host: steps done, rates */
};

/* A tensor, or a number that may be read and set there. */
struct bell_state_item {
    const char *name; /* owned by the list */
    enum bell_state_kind kind;
    struct bell_tensor *tensor; /* not owned; NULL for a number */
    double *number;             /* of its module or optimiser; else NULL */
};

/* Items in the order of the types' rows. Start with {0}. Holds while the
 * modules and optimisers it was made of stay where they are. */
struct bell_state {
    struct bell_state_item *items;
    uint32_t n;
    size_t cap; /* the list's own */
};

/* Frees the list; tensors and numbers stay. NULL is allowed. */
BELL_API void bell_state_fini(struct bell_state *state);
/* Appends "prefix.name", or "name" where prefix is NULL or empty. A tensor that
 * is NULL is skipped. BELL_E_INVALID: there is an item of that name. After a
 * failure the list is as before, as with every call here. */
BELL_API BELL_MUST_CHECK bell_status bell_state_add(struct bell_state *state,
                                                    const char *prefix,
                                                    const char *name,
                                                    enum bell_state_kind kind,
                                                    struct bell_tensor *t);
/* The same of a number. */
BELL_API BELL_MUST_CHECK bell_status
bell_state_add_number(struct bell_state *state, const char *prefix,
                      const char *name, double *number);
/* The item of that name; NULL: there is none. A list or name that is NULL is a
 * failure that bell_error_last() has. */
BELL_API const struct bell_state_item *
bell_state_find(const struct bell_state *state, const char *name);

/* Appends all that `module`, of that type, holds. */
BELL_API BELL_MUST_CHECK bell_status
bell_module_state(const struct bell_module_type *type, const void *module,
                  const char *prefix, struct bell_state *state);

/* Turns the gradients of parameters on or off: those that are named `prefix`
 * or begin with "prefix."; NULL or "": all of them. One that is off has no
 * gradient, and optimisers leave it alone. BELL_E_INVALID: there is none. */
BELL_API BELL_MUST_CHECK bell_status bell_state_requires_grad(
    const struct bell_state *state, const char *prefix, bool on);

/* Releases the tensors of a module and of those in it, and sets them to NULL:
 * also of a module that was begun only, if what was not made yet is NULL.
 * Before the context's end. NULL for either is a failure that
 * bell_error_last() has, and nothing is released. */
BELL_API void bell_module_fini(const struct bell_module_type *type,
                               void *module);

#ifdef __cplusplus
}
#endif
#endif
