/* Shared by the files of render/ only. */
#ifndef BELL_RENDER_RENDER_INTERNAL_H
#define BELL_RENDER_RENDER_INTERNAL_H

#include "render/render.h"

/* Checks that an ELF64 object refers to no symbol outside itself; otherwise
 * BELL_E_COMPILE names the symbol. */
BELL_MUST_CHECK bell_status
render_check_object(const struct render_binary *binary);

#endif
