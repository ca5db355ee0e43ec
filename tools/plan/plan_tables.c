/* Machines and models that are planned with. Each number has its source here or
 * in base/chip.c, whose peaks and memory are taken.
 */
#include "tools/plan/plan.h"

#include <string.h>

#include "base/bits.h"

/* Links, src: the boxes' data sheets of 2020 to 2024: NVLink of DGX A100 600,
 * of DGX H100 and HGX H200 900, of DGX B200 1800 GB/s of both directions
 * together; of MI300X: 7 links of 128 GB/s of both directions.
 *
 * Shares of links that collectives reach, src: A100: 232.5 of 300 GB/s
 * (NVIDIA/nccl-tests, issue 175, 2023, one box). H100: 370 of 450 GB/s by
 * rings, and by NVLS a busbw of 480 (issue 212, 2024, NVIDIA's answer): 275
 * GB/s of results, of which a link carries 9/8. MI300X: 48 of 64 GB/s
 * (ROCm/rccl, issue 1210). guess: H200 and B200 as H100; RTX 4090 two fifths of
 * PCI Express.
 *
 * NICs, src: data sheets of 2020 to 2024: DGX A100 8 of 200 Gb/s, DGX H100 and
 * B200 8 of 400 Gb/s. Grand Teton has 400 Gb/s for each GPU (torchtitan's
 * benchmark of December 2024), llm-foundry's A100 1600 Gb/s a box. Shares, src:
 * 24 of 25 GB/s (NVIDIA/nccl, issue 1576, 2025: 192 GB/s busbw of 8 NICs), 46
 * to 48 of 50 GB/s (NVIDIA/nccl-tests, issue 290, 2025, NVIDIA's answer).
 * guess: others the same.
 *
 * Hops, src: NCCL's own model of 2024 has 2.7 to 5 us over a network. a3-mega:
 * from the run that docs/explanation/planning.md names: 123 us of two ways.
 *
 * Fused attention, src: Dao 2023, "FlashAttention-2": 0.5 to 0.7 of an A100's
 * peak, forward and backward; Shah et al. 2024, "FlashAttention-3": the former
 * reaches 0.35 of an H100's. guess: others.
 *
 * Shares of the peak, and the clock at 500 W: chosen by hand by the rows that
 * docs/explanation/planning.md marks. guess: those of MI300X and RTX 4090. */
/* clang-format off */
const struct plan_machine plan_machines[] = {
    {"dgx-a100", "a100", 8, HCQ_LINK_NVLINK, 300, 0.775, false, 0, 25, 0.96, 5,
     0, 0, 1, {0.77, 0}, 0.5,
     "8 A100 SXM 80 GB, NVSwitch, 8 NICs of 200 Gb/s"},
    {"dgx-a100-40gb", "a100", 8, HCQ_LINK_NVLINK, 300, 0.775, false, 0, 25, 0.96, 5,
     40.0 * 1073741824, 1555, 1, {0.77, 0}, 0.5,
     "8 A100 SXM 40 GB, NVSwitch, 8 NICs of 200 Gb/s"},
    {"dgx-h100", "h100", 8, HCQ_LINK_NVLINK, 450, 0.82, true, 0.685, 50, 0.94, 5,
     0, 0, 1, {0.60, 0.54}, 0.35,
     "8 H100 SXM 80 GB, NVSwitch, 8 NICs of 400 Gb/s"},
    {"grand-teton", "h100", 8, HCQ_LINK_NVLINK, 450, 0.82, true, 0.685, 50, 0.94, 5,
     96.0 * 1073741824, 2400, 0.85, {0.60, 0.54}, 0.35,
     "8 H100 SXM 96 GB of HBM2e at 500 W, NVSwitch, 8 NICs of 400 Gb/s"},
    {"a3-mega", "h100", 8, HCQ_LINK_NVLINK, 450, 0.82, true, 0.685, 25, 0.94, 60,
     0, 0, 1, {0.60, 0.54}, 0.35,
     "8 H100 SXM 80 GB, NVSwitch, 8 NICs of 200 Gb/s by TCP"},
    {"hgx-h200", "h200", 8, HCQ_LINK_NVLINK, 450, 0.82, true, 0.685, 50, 0.94, 5,
     0, 0, 1, {0.60, 0.54}, 0.35,
     "8 H200 SXM 141 GB, NVSwitch, 8 NICs of 400 Gb/s"},
    {"dgx-b200", "b200", 8, HCQ_LINK_NVLINK, 900, 0.82, true, 0.685, 50, 0.94, 5,
     0, 0, 1, {0.60, 0.54}, 0.35,
     "8 B200 SXM 180 GB, NVSwitch, 8 NICs of 400 Gb/s"},
    {"mi300x", "mi300x", 8, HCQ_LINK_XGMI, 64, 0.75, false, 0, 50, 0.94, 5,
     0, 0, 1, {0.45, 0.40}, 0.3,
     "8 MI300X 192 GB, a link for each pair, 8 NICs of 400 Gb/s"},
    {"rtx4090", "rtx4090", 8, HCQ_LINK_PCIE, 32, 0.40, false, 0, 12.5, 0.94, 5,
     0, 0, 1, {0.80, 0.80}, 0.5,
     "8 RTX 4090 behind PCI Express 4.0, 8 NICs of 100 Gb/s"},
};

/* src: llama: config.json of Meta's models on Hugging Face, Llama 2 (2023) and
 * Llama 3.1 (2024). mpt: llm-foundry's scripts/train/yamls/pretrain of 2025.
 * gpt3-175b: Brown et al. 2020, table 2.1; vocabulary as Megatron-LM pads it.
 * megatron-*, turing-530b: Korthikanti et al. 2022, table 3. gpt3-5b, gpt3-20b:
 * NeMo-Framework-Launcher of 2024, conf/training/gpt3. */
const struct plan_model plan_models[] = {
    {"llama-8b", 32, 32, 8, 4096, 14336, 128256, 8192, true, false, false, "Llama 3.1 8B"},
    {"llama-70b", 80, 64, 8, 8192, 28672, 128256, 8192, true, false, false, "Llama 3.1 70B"},
    {"llama-405b", 126, 128, 8, 16384, 53248, 128256, 8192, true, false, false, "Llama 3.1 405B"},
    {"llama2-7b", 32, 32, 32, 4096, 11008, 32000, 4096, true, false, false, "Llama 2 7B"},
    {"llama2-13b", 40, 40, 40, 5120, 13824, 32000, 4096, true, false, false, "Llama 2 13B"},
    {"llama2-70b", 80, 64, 8, 8192, 28672, 32000, 4096, true, false, false, "Llama 2 70B"},
    {"mpt-1b", 24, 16, 16, 2048, 8192, 50368, 2048, false, true, true, "MPT 1B"},
    {"mpt-3b", 32, 20, 20, 2560, 10240, 50368, 2048, false, true, true, "MPT 3B"},
    {"mpt-7b", 32, 32, 32, 4096, 16384, 50368, 2048, false, true, true, "MPT 7B"},
    {"mpt-13b", 40, 40, 40, 5120, 20480, 50368, 2048, false, true, true, "MPT 13B"},
    {"mpt-30b", 48, 56, 56, 7168, 28672, 50368, 2048, false, true, true, "MPT 30B"},
    {"mpt-70b", 80, 64, 64, 8192, 32768, 50368, 2048, false, true, true, "MPT 70B"},
    {"megatron-22b", 48, 64, 64, 6144, 24576, 51200, 2048, false, true, true, "Megatron 22B"},
    {"gpt3-5b", 24, 32, 32, 4096, 16384, 51200, 2048, false, true, true, "GPT-3 5B"},
    {"gpt3-20b", 44, 48, 48, 6144, 24576, 51200, 2048, false, true, true, "GPT-3 20B"},
    {"gpt3-175b", 96, 96, 96, 12288, 49152, 51200, 2048, false, true, true, "GPT-3 175B"},
    {"turing-530b", 105, 128, 128, 20480, 81920, 51200, 2048, false, true, true, "Megatron-Turing NLG 530B"},
    {"megatron-1t", 128, 160, 160, 25600, 102400, 51200, 2048, false, true, true, "Megatron 1T"},
};
/* clang-format on */

const size_t plan_n_machines = ARRAY_LEN(plan_machines);
const size_t plan_n_models = ARRAY_LEN(plan_models);

const char *const plan_dtype_names[PLAN_DTYPE_COUNT] = {"bf16", "fp8"};
const char *const plan_checkpoint_names[PLAN_CHECKPOINT_COUNT] = {
    "none", "selective", "half", "full"};

const struct plan_machine *
plan_machine_find(const char *name)
{
    size_t i;

    for (i = 0; i < plan_n_machines; i++) {
        if (strcmp(plan_machines[i].name, name) == 0)
            return &plan_machines[i];
    }
    return NULL;
}

const struct plan_model *
plan_model_find(const char *name)
{
    size_t i;

    for (i = 0; i < plan_n_models; i++) {
        if (strcmp(plan_models[i].name, name) == 0)
            return &plan_models[i];
    }
    return NULL;
}
