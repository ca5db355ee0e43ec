/* What is to be seen where a simulated card is held. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "hcq/hcq_facts.h"
#include "tools/step/step.h"
#include "tools/tools.h"

#define LANES_PER_LINE 8

/* Host methods that name a semaphore. src: open-gpu-doc, clc56f.h, clc86f.h */
#define NV_SEM_ADDR_LO 0x5cu
#define NV_SEM_ADDR_HI 0x60u
#define NV_SEM_EXECUTE 0x6cu
/* PM4 opcodes. src: docs/hardware/amd-queues.md, "PM4" */
#define PM4_WAIT_REG_MEM 0x3cu
#define PM4_RELEASE_MEM  0x49u
#define PM4_SET_SH_REG   0x76u
#define SH_FIRST         0x2c00u

/* ---- words --------------------------------------------------------------- */

static void
decode(struct step *step, enum sim_words format, const uint32_t *words,
       uint32_t n, uint64_t va)
{
    switch (format) {
    case SIM_WORDS_NV_RING:
        (void)decode_nv_ring(&step->nv, words, n, va);
        break;
    case SIM_WORDS_NV_PUSH:
        (void)decode_nv_push(&step->nv, words, n);
        break;
    case SIM_WORDS_NV_QMD:
        (void)decode_nv_qmd(&step->nv, words, n, 0);
        break;
    case SIM_WORDS_PM4:
    case SIM_WORDS_SDMA:
    case SIM_WORDS_AQL:
        if (!step->amd.chip)
            break;
        if (format == SIM_WORDS_PM4)
            (void)decode_amd_pm4(&step->amd, words, n);
        else if (format == SIM_WORDS_SDMA)
            (void)decode_amd_sdma(&step->amd, words, n);
        else
            (void)decode_amd_aql(&step->amd, words, n, va);
        break;
    case SIM_WORDS_NONE:
    case SIM_WORDS_CODE:
    default:
        break;
    }
}

const char *
step_kernel(struct step *step, const struct sim_place *place)
{
    if (place->kernel)
        return place->kernel;
    if (place->kind == SIM_STOP_KERNEL &&
        (!step->dev ||
         !hcq_program_name_at(step->dev, place->va, step->kernel)))
        step->kernel[0] = '\0';
    return place->kind >= SIM_STOP_KERNEL ? step->kernel : "";
}

static void
show_code(struct step *step, const struct sim_place *place)
{
    char words[40] = "";
    uint32_t i;

    for (i = 0; i < place->n_words && i < 3; i++)
        snprintf(words + strlen(words), sizeof(words) - strlen(words),
                 " %08" PRIx32, place->words[i]);
    if (place->format == SIM_WORDS_CODE)
        tool_say(step->json, "  0x%" PRIx64 ":%s %.*s", place->va, words,
                 place->text ? (int)strcspn(place->text, "\n") : 0,
                 place->text ? place->text : "");
    else if (place->text) /* PTX has lines, not addresses */
        tool_say(step->json, "  line %" PRIu64 ": %.*s", place->va,
                 (int)strcspn(place->text, "\n"), place->text);
}

void
step_show_place(struct step *step)
{
    const struct sim_place *place = step->place;
    const char *kernel = step_kernel(step, place);

    switch (place->kind) {
    case SIM_STOP_SUBMIT:
        tool_say(step->json, "submit: %s", place->queue);
        break;
    case SIM_STOP_PACKET:
        tool_say(step->json, "packet: %s, 0x%" PRIx64 ", %" PRIu32 " words",
                 place->queue, place->va, place->n_all);
        break;
    case SIM_STOP_KERNEL:
        if (place->format == SIM_WORDS_NV_QMD) {
            tool_say(step->json, "kernel: launch descriptor at 0x%" PRIx64,
                     place->va);
            break;
        }
        tool_say(step->json,
                 "kernel: %s, code at 0x%" PRIx64 ", %" PRIu32 " x %" PRIu32
                 " x %" PRIu32 " groups of %" PRIu32 " x %" PRIu32
                 " x %" PRIu32,
                 kernel[0] ? kernel : "without a name", place->va,
                 place->grid[0], place->grid[1], place->grid[2],
                 place->local[0], place->local[1], place->local[2]);
        break;
    case SIM_STOP_WAVE:
    case SIM_STOP_INSN:
        tool_say(step->json,
                 "%s: %s %" PRIu32 " of group %" PRIu32 ", %" PRIu32
                 ", %" PRIu32 "%s%s",
                 place->kind == SIM_STOP_WAVE ? "wave" : "instruction",
                 place->queue, place->wave, place->group[0], place->group[1],
                 place->group[2], kernel[0] ? " of " : "", kernel);
        show_code(step, place);
        break;
    case SIM_STOP_COUNT:
    default:
        break;
    }
    decode(step, place->format, place->words, place->n_words, place->va);
    if (place->n_words < place->n_all)
        tool_say(step->json, "  and %" PRIu32 " words more",
                 place->n_all - place->n_words);
}

/* ---- registers ----------------------------------------------------------- */

/* A queue's, as the packet that would set it is decoded. */
static void
show_queue_register(struct step *step, const struct sim_register *of)
{
    uint32_t words[3], value = (uint32_t)of->values[0];

    if (step->amd.chip) {
        words[0] = 3u << 30 | 1u << 16 | PM4_SET_SH_REG << 8;
        words[1] = of->number - SH_FIRST;
        words[2] = value;
        decode(step, SIM_WORDS_PM4, words, 3, 0);
        return;
    }
    /* a header of one method */
    words[0] = 1u << 29 | 1u << 16 | of->slot << 13 | of->number / 4;
    words[1] = value;
    decode(step, SIM_WORDS_NV_PUSH, words, 2, 0);
}

static bool
same_in_all(const struct sim_register *of)
{
    uint32_t i, first = 0;

    while (first < of->n_lanes && !(of->defined >> first & 1))
        first++;
    for (i = first; i < of->n_lanes; i++) {
        if ((of->defined >> i & 1) && of->values[i] != of->values[first])
            return false;
    }
    return true;
}

static void
show_wave_register(struct step *step, const struct sim_register *of)
{
    int digits = of->n_bits == 1 ? 1 : (int)of->n_bits / 4;
    uint32_t i, first = 0;
    char line[256];
    size_t n = 0;

    while (first + 1 < of->n_lanes && !(of->defined >> first & 1))
        first++;
    if (of->n_lanes == 1) {
        tool_say(step->json, "  %s = 0x%0*" PRIx64, of->name, digits,
                 of->values[0]);
        return;
    }
    if (same_in_all(of)) {
        tool_say(step->json, "  %s = 0x%0*" PRIx64 " in %d lanes", of->name,
                 digits, of->values[first], __builtin_popcountll(of->defined));
        return;
    }
    for (i = 0; i < of->n_lanes; i++) {
        if (of->defined >> i & 1)
            n += (size_t)snprintf(line + n, sizeof(line) - n, " %0*" PRIx64,
                                  digits, of->values[i]);
        else
            n += (size_t)snprintf(line + n, sizeof(line) - n, " %*s", digits,
                                  "-");
        if (i % LANES_PER_LINE != LANES_PER_LINE - 1)
            continue;
        tool_say(step->json, "  %s[%" PRIu32 "]:%s", of->name,
                 i + 1 - LANES_PER_LINE, line);
        n = 0;
    }
}

void
step_show_registers(struct step *step, const char *pattern)
{
    const struct sim_place *place = step->place;
    struct sim_register of;
    uint32_t i;
    size_t len = strlen(pattern);
    bool any = false;

    for (i = 0; place->find_register(place, i, &of); i++) {
        if (strncmp(of.name, pattern, len) != 0 || of.defined == 0)
            continue;
        any = true;
        if (of.name[0])
            show_wave_register(step, &of);
        else
            show_queue_register(step, &of);
    }
    if (!any)
        tool_say(step->json, "  no register%s%s has a value", len ? " " : "",
                 pattern);
}

/* ---- memory -------------------------------------------------------------- */

void
step_show_memory(struct step *step, uint64_t va, uint32_t n_dw)
{
    const struct sim_place *place = step->place;
    uint32_t i, k, words[4];
    char line[64];

    for (i = 0; i < n_dw; i += 4) {
        uint64_t at = va + 4 * (uint64_t)i;
        uint32_t n = n_dw - i < 4 ? n_dw - i : 4;

        if (!place->read(place, at, words, 4 * n)) {
            tool_say(step->json, "  0x%010" PRIx64 ": not mapped", at);
            step->n_bad++;
            return;
        }
        line[0] = '\0';
        for (k = 0; k < n; k++)
            snprintf(line + 9 * k, sizeof(line) - 9 * k, " %08" PRIx32,
                     words[k]);
        tool_say(step->json, "  0x%010" PRIx64 ":%s", at, line);
    }
}

static void
note(struct step *step, uint64_t va)
{
    size_t i;

    for (i = 0; i < step->n_semaphores; i++) {
        if (step->semaphores[i] == va)
            return;
    }
    if (step->n_semaphores < STEP_SEMAPHORES_MAX)
        step->semaphores[step->n_semaphores++] = va;
}

/* Host methods below 0x100, of any subchannel. */
static void
note_nv(struct step *step, const struct sim_place *place)
{
    uint32_t header = place->words[0], op = header >> 29, i;
    uint32_t method = (header & 0xfff) * 4;

    for (i = 1; i < place->n_words && op != 4; i++) {
        if (method == NV_SEM_ADDR_LO)
            step->sem_addr[0] = place->words[i];
        else if (method == NV_SEM_ADDR_HI)
            step->sem_addr[1] = place->words[i];
        else if (method == NV_SEM_EXECUTE)
            note(step, (uint64_t)step->sem_addr[1] << 32 | step->sem_addr[0]);
        method += op == 1 || (op == 5 && i == 1) ? 4 : 0;
    }
}

void
step_note_semaphores(struct step *step, const struct sim_place *place)
{
    uint32_t opcode, i;

    for (i = 0; i < place->n_signals; i++)
        note(step, place->signals[i]);
    if (place->kind != SIM_STOP_PACKET || place->n_words == 0)
        return;
    if (place->format == SIM_WORDS_NV_PUSH) {
        note_nv(step, place);
    } else if (place->format == SIM_WORDS_PM4) {
        opcode = place->words[0] >> 8 & 0xff;
        if (opcode == PM4_RELEASE_MEM && place->n_words >= 5)
            note(step, place->words[3] | (uint64_t)place->words[4] << 32);
        /* of memory, not of a register */
        if (opcode == PM4_WAIT_REG_MEM && place->n_words >= 4 &&
            (place->words[1] >> 4 & 3) == 1)
            note(step, place->words[2] | (uint64_t)place->words[3] << 32);
    }
}

void
step_show_semaphores(struct step *step)
{
    const struct sim_place *place = step->place;
    uint64_t value;
    size_t i;

    for (i = 0; i < step->n_semaphores; i++) {
        uint64_t va = step->semaphores[i];

        if (place->read(place, va, &value, sizeof(value)))
            tool_say(step->json, "  0x%010" PRIx64 ": %" PRIu64, va, value);
        else
            tool_say(step->json, "  0x%010" PRIx64 ": not mapped here", va);
    }
    if (!step->n_semaphores)
        tool_say(step->json, "  none was named yet");
}
