/* The decoder of a queue's words: hcq_cs_words and BELL_DEBUG=push use it. */
#include "hcq/decode/decode_queue.h"

#include <stdio.h>
#include <string.h>

#include "base/chip.h"
#include "hcq/hcq_backend.h"
#if BELL_DECODE_AMD
#include "hcq/amd/regs/amd_pm4.h"
#include "hcq/amd/regs/amd_sdma.h"
#include "hcq/decode/decode_amd.h"
#endif
#if BELL_DECODE_NV
#include "hcq/decode/decode_nv.h"
#endif
#if BELL_DECODE_QCOM
#include "hcq/qcom/regs/qcom_cp.h"
#endif

/* ---- which words --------------------------------------------------------- */

#if BELL_DECODE_NV
static bool
init_nv(struct regs_stream *stream, const char *arch)
{
    const struct decode_nv_chip *chip = decode_nv_chip_find(arch);
    struct decode_nv d;

    if (!chip)
        return false;
    decode_nv_init(&d, stream->line, stream->user);
    (void)decode_nv_bind(&d, chip->gpfifo_class);
    (void)decode_nv_bind(&d, chip->compute_class);
    (void)decode_nv_bind(&d, chip->copy_class);
    d.stream.wrong = stream->wrong;
    *stream = d.stream;
    return true;
}

#endif

#if BELL_DECODE_AMD
static bool
init_amd(struct regs_stream *stream, const char *arch, bool is_sdma)
{
    const struct decode_amd_chip *chip = decode_amd_chip_find(arch);

    if (!chip)
        return false;
    stream->common = is_sdma ? &amd_sdma_unit : &amd_pm4_unit;
    stream->common_gen = is_sdma ? chip->sdma_gen : chip->pm4_gen;
    return true;
}

#endif

#if BELL_DECODE_QCOM
static bool
init_adreno(struct regs_stream *stream, const char *arch)
{
    const struct chip_arch *chip = chip_arch_find(arch);

    if (!chip || chip->adreno.gen == CHIP_ADRENO_NONE)
        return false;
    stream->common = &qcom_cp_unit;
    stream->common_gen =
        chip->adreno.gen == CHIP_A6XX ? QCOM_CP_GEN_A6XX : QCOM_CP_GEN_A7XX;
    return true;
}

#endif

static bool
init_words(struct regs_stream *stream, enum hcq_words words, const char *arch)
{
#if BELL_DECODE_NV
    if (words == HCQ_WORDS_NV)
        return init_nv(stream, arch);
#endif
#if BELL_DECODE_AMD
    if (words == HCQ_WORDS_PM4 || words == HCQ_WORDS_SDMA)
        return init_amd(stream, arch, words == HCQ_WORDS_SDMA);
#endif
#if BELL_DECODE_QCOM
    if (words == HCQ_WORDS_PKT7)
        return init_adreno(stream, arch);
#endif
    (void)stream;
    (void)words;
    (void)arch;
    return false;
}

bool
decode_queue_init(struct regs_stream *stream, const struct hcq_queue *queue)
{
    return init_words(stream, (enum hcq_words)queue->words,
                      queue->dev->info.arch);
}

bool
decode_queue_init_other(struct regs_stream *stream,
                        const struct hcq_queue *queue)
{
    enum hcq_words other = queue->words == HCQ_WORDS_PM4    ? HCQ_WORDS_SDMA
                           : queue->words == HCQ_WORDS_SDMA ? HCQ_WORDS_PM4
                                                            : HCQ_WORDS_NONE;

    return init_words(stream, other, queue->dev->info.arch);
}

#if BELL_DECODE_QCOM
unsigned
decode_adreno_packets(unsigned series, const uint32_t *words, size_t n_dw,
                      regs_line_fn *line, void *user)
{
    struct regs_stream stream = {
        .common = &qcom_cp_unit,
        .common_gen = series == 6 ? QCOM_CP_GEN_A6XX : QCOM_CP_GEN_A7XX,
        .line = line,
        .user = user,
    };

    return regs_decode_stream(&stream, words, n_dw);
}
#endif

/* ---- the look at them ---------------------------------------------------- */

/* The first line in which something is wrong. */
struct finding {
    char line[320];
};

static void
keep_first_word(void *user, const char *line)
{
    struct finding *finding = user;

    if (!finding->line[0])
        snprintf(finding->line, sizeof(finding->line), "%s",
                 line + strspn(line, " "));
}

static void
drop_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

bell_status
decode_queue_check(const struct hcq_queue *queue, const uint32_t *words,
                   uint32_t n_words)
{
    struct finding finding = {""};
    struct regs_stream stream = {
        .line = drop_line,
        .wrong = keep_first_word,
        .user = &finding,
    };

    if (!decode_queue_init(&stream, queue))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "%s: words: those of %s cannot be decoded: "
                         "HCQ_WORDS_UNCHECKED sends them as they are",
                         queue->name, queue->dev->info.arch);
    (void)regs_decode_stream(&stream, words, n_words);
    if (finding.line[0])
        return bell_fail(BELL_E_INVALID, "%s: words: %s", queue->name,
                         finding.line);
    return BELL_OK;
}

/* ---- BELL_DEBUG=push ----------------------------------------------------- */

struct log_user {
    const struct hcq_queue *queue;
    const char *what;
};

static void
log_line(void *user, const char *line)
{
    const struct log_user *to = user;

    log_print(LOG_PUSH, "%s%s%s   %s", to->queue->name, to->what[0] ? " " : "",
              to->what, line);
}

void
hcq_decode_words(const struct hcq_queue *queue, const char *what,
                 const uint32_t *words, size_t n_words)
{
    struct log_user user = {queue, what};
    struct regs_stream stream = {.line = log_line, .user = &user};

    if (decode_queue_init(&stream, queue))
        (void)regs_decode_stream(&stream, words, n_words);
}

#if BELL_DECODE_AMD
void
hcq_decode_aql(const struct hcq_queue *queue, const uint32_t *words,
               size_t n_words)
{
    struct log_user user = {queue, ""};
    struct decode_amd d = {
        .chip = decode_amd_chip_find(queue->dev->info.arch),
        .line = log_line,
        .user = &user,
    };

    if (d.chip)
        (void)decode_amd_aql(&d, words, n_words, (uintptr_t)words);
}
#endif

/* ---- checked words ------------------------------------------------------- */

void
hcq_cs_words(struct hcq_cs *cs, const uint32_t *words, uint32_t n_words,
             uint32_t flags)
{
    bell_status status = BELL_OK;

    if (!(flags & HCQ_WORDS_UNCHECKED) && cs->open && cs->status == BELL_OK &&
        words && cs->queue->words)
        status = decode_queue_check(cs->queue, words, n_words);
    if (status != BELL_OK)
        hcq_cs_fail(cs, status);
    else
        hcq_cs_put_words(cs, words, n_words);
}
