/* Functions of tensors that are captured once and then replayed.
 *
 * The first call runs the function with stand-ins for its inputs and notes
 * which kernels it comes to; every call then queues those kernels, and neither
 * builds a graph nor looks for a plan.
 *
 *     static bell_status
 *     step(struct bell_context *ctx, void *user,
 *          struct bell_tensor *const *in, struct bell_tensor **out)
 *     {
 *         struct net *net = user;
 *         out[0] = loss_of(net, in[0], in[1]);
 *         bell_optimizer_zero_grad(net->opt);
 *         if (bell_backward(out[0]) != BELL_OK)
 *             return bell_error_last()->status;
 *         return bell_optimizer_step(net->opt, out, 1);
 *     }
 *     ...
 *     struct bell_jit_desc desc = {sizeof(desc), "step", step, net, 2, 1};
 *     status = bell_jit_create(ctx, &desc, &jit);
 *     for (...)
 *         status = bell_jit_call(jit, BATCH(x, y), &loss);
 *
 * State. The function finds the tensors that it uses from outside; they need
 * not be listed. Each call reads such a tensor with the value that it denotes
 * by then, and changes it if the function does: parameters by an optimiser,
 * caches by bell_assign_slice, arguments of bell_assign. Parameters, an
 * optimiser's own tensors, its step and rate, and the generator's state go on
 * from call to call as without the jit, to the bit. Changing a tensor between
 * calls is allowed; its shape and dtype stay.
 *
 * Inputs. The function may change them as any tensor: bell_assign,
 * bell_assign_slice, bell_write, bell_requires_grad, bell_zero_grad, and
 * gradients that bell_backward leaves in them. Each call does that to the
 * tensors that it is given. The function does not end its inputs, nor keep them
 * (bell_keep).
 * - One tensor may be given as several inputs, and an input as an output.
 * - An input that is also used from outside is refused where the function
 *   changes either or asks for gradients.
 * - Inputs are variables of their own: a gradient stays in them and does not go
 *   on to the tensors that they were made of.
 *
 * Not found is what the function does beside tensors: host variables that it
 * changes, numbers that it computes with (a bell_scalar is what it was), data
 * that it makes tensors of. These are as they were when it was captured. What
 * changes from call to call is an input: a bell_scalar given as input is a
 * number of one element there.
 *
 * Symbols. Sizes and offsets that are symbols (dim.h) are what they are at each
 * call. An input that had sizes of symbols at the first call may have numbers
 * at later ones, which say what the symbols are in that call: those of
 * a * symbol + b decide, and all others agree.
 *
 * Inside, values cannot be read, for there are none; realizing computes nothing
 * and may be left out. A jit that is called inside another's function is a part
 * of that. Gradients are those of the operations inside; a call from outside
 * has no history. Gradients that the function leaves in tensors from outside,
 * other than inputs, are gone after an optimiser's step has used them; else the
 * function is refused (bell_gradient gives them as tensors).
 *
 * Memory. A jit holds the memory of values between its kernels from the first
 * call on. Each call's outputs are new tensors.
 */
#ifndef BELL_DOORBELL_JIT_H
#define BELL_DOORBELL_JIT_H

#include "doorbell/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bell_jit;

struct bell_jit_desc {
    uint32_t struct_size;
    const char *name; /* for messages; NULL: "jit" */
    /* Makes out[0..n_out-1] of in[0..n_in-1]. It runs in a scope of its own,
     * and what it returns, BELL_OK or not, bell_jit_call does. */
    bell_status (*fn)(struct bell_context *ctx, void *user,
                      struct bell_tensor *const *in, struct bell_tensor **out);
    void *user;
    uint32_t n_in, n_out;
};

/* A jit of `desc`, which is copied. Calls nothing yet. */
BELL_API BELL_MUST_CHECK bell_status
bell_jit_create(struct bell_context *ctx, const struct bell_jit_desc *desc,
                struct bell_jit **out_jit);
/* Ends it, before or after its context, and not inside its function. Tensors
 * stay. NULL is allowed. */
BELL_API void bell_jit_destroy(struct bell_jit *jit);

/* The function of in[], with its effects on tensors; out[] are new tensors of
 * the innermost scope, and may be the same list as in[]. Queued; does not wait.
 *
 * The function itself is run by the first call, and again where it may do
 * something else:
 * - the first call after bell_context_set_math or bell_set_training made a
 *   difference;
 * - an input requires a gradient or has one, and did not before, or the other
 *   way around;
 * - inputs are one tensor that were two, or the other way around, where the
 *   function changes inputs or asks for gradients.
 *
 * BELL_E_INVALID, and nothing changed:
 * - an input of another shape, dtype or context than at the first call, but for
 *   numbers in place of sizes of symbols; the message names the input, the
 *   axis, and the bounds, where a number is out of them;
 * - such numbers inside another jit's function;
 * - an input that the function also uses from outside, where it changes either
 *   or asks for gradients;
 * - the function ends or keeps an input, or changes a bell_scalar;
 * - a tensor that it uses was ended, or has another shape or dtype by now;
 * - its optimiser or its context was destroyed;
 * - the call is inside the function itself.
 *
 * After another failure tensors that the function writes parts of may have been
 * written. */
BELL_API BELL_MUST_CHECK bell_status
bell_jit_call(struct bell_jit *jit, struct bell_tensor *const *in,
              struct bell_tensor **out);

/* What was captured. Plain data. */
struct bell_jit_info {
    uint32_t struct_size; /* sizeof(struct bell_jit_info) */
    uint32_t n_captures;  /* times that the function was run */
    uint32_t n_kernels;   /* launches of a call */
    uint32_t n_used;      /* tensors from outside */
    uint32_t n_state;     /* of them, changed by a call */
    uint32_t n_in_place;  /* of these, in the memory that they have */
    uint64_t held_bytes;  /* of device memory, beside tensors */
};
/* Zeros before the first call. */
BELL_API void bell_jit_get_info(const struct bell_jit *jit,
                                struct bell_jit_info *out_info);

struct bell_state;

/* Where a function is saved, and for what. */
struct bell_jit_save_desc {
    uint32_t struct_size;
    /* Names of devices: "CPU" is for this very processor, "NV@null:h100" or
     * "CPU@null:x86-64-v3" for any such, wherever it is compiled. */
    const char *const *targets;
    uint32_t n_targets;
    const char *const *in_names;  /* NULL: "in0", "in1".. None is NULL */
    const char *const *out_names; /* NULL: "out0".. */
    bool is_tunable; /* the kernels' IR too, for `doorbell tune BUNDLE` */
    /* Optimisers' steps whose rates the bundle has, further ones having the
     * last's; 0: all, which is possible where rates stay the same in the
     * end. */
    uint64_t n_steps;
    /* Names of tensors from outside: those of a module (bell_module_state), of
     * an optimiser, or added by hand. NULL: no names. Items that the function
     * does not use are ignored. Not owned. */
    const struct bell_state *state;
};

/* Saves the function as a bundle, which libdoorbell-hcq alone runs
 * (hcq/hcq_bundle.h): its kernels, compiled for each target, and the tensors
 * that it uses as they are now: those that it changes as state, the others as
 * weights. `in` are inputs as for bell_jit_call, of which only shape, dtype and
 * whether they require a gradient matter; after a call with sizes of symbols
 * the bundle's inputs have these. Symbols (dim.h) are the bundle's by name.
 *
 * A tensor that `state` names has that name in the bundle. A weight has all its
 * names, state the first. Others are "weight0", "state1". Weights that have
 * names can be replaced later (docs/reference/bundle-format.md, "Other
 * weights"). A tensor of a file's blocks is a constant of the bundle, whatever
 * it is called. BELL_E_INVALID: a name is empty, is not UTF-8, has control
 * characters, or is one that bundles give: "weight0", "state0", "data.0",
 * "random", "steps0", "rates0.0".
 *
 * Inputs and outputs are found by their names, so BELL_E_INVALID also:
 * - the name of an input, output, state or symbol has '=';
 * - two inputs or two outputs have the same name;
 * - an input or output is called as a state, weight or symbol is. An output may
 *   be called as an input is.
 *
 * A training goes on in a bundle as it would have here:
 * - parameters and an optimiser's tensors are state;
 * - its rates are a table, "rates0.0" for its first group, and the state
 *   "steps0" counts the rows;
 * - the generator's words are the state "random" (seed, then number of the next
 *   call, low words first).
 *
 * BELL_E_UNSUPPORTED: the function changes an input, or leaves a gradient in
 * it; rates change for ever and n_steps is 0; a tensor from outside has a
 * symbol's size; an axis may be less than 1, or 2^40; or a target's assembler
 * is not here. */
BELL_API BELL_MUST_CHECK bell_status
bell_jit_save(struct bell_jit *jit, struct bell_tensor *const *in,
              const struct bell_jit_save_desc *desc, const char *path);

#ifdef __cplusplus
}
#endif
#endif
