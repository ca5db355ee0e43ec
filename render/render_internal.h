/* Shared by the files of render/ only. */
#ifndef BELL_RENDER_RENDER_INTERNAL_H
#define BELL_RENDER_RENDER_INTERNAL_H

#include "base/arena.h"
#include "render/render.h"

/* Checks that an ELF64 object refers to no symbol outside itself; otherwise
 * BELL_E_COMPILE names the symbol. */
BELL_MUST_CHECK bell_status
render_check_object(const struct render_binary *binary);

/* A PARAM or VAR, used by an op, that the program does not have; NULL where
 * there is none: argument numbers index arrays from then on. */
const struct uop *render_bad_slot(const struct lower_program *program);

/* The program's ops in an order with shorter lifetimes, in `arena`; any order
 * is kept that the program form does not leave open, and that of a program with
 * BARRIERs. is_late: in a body, too, a value is loaded just before its first
 * use. */
BELL_MUST_CHECK bell_status render_order(const struct lower_program *program,
                                         bool is_late, struct arena *arena,
                                         const struct uop *const **out_ops);

/* LANES_REDUCE: which lane takes which, at `step` of lanes - 1. On every
 * target, with p the greatest power of two in `lanes`, lane i of the lower half
 * of p takes lane i of the upper half, until one is left; that takes the lanes
 * from p on, one after the other. */
void render_join(uint32_t lanes, uint32_t step, uint32_t *out_to,
                 uint32_t *out_from);

#endif
