/* The table of instructions, and what packs and unpacks their words.
 *
 * An instruction is the row whose `match` the word has under `mask`. The rest
 * of the word is its fields' and bits that are not used.
 */
#include "render/ir3/ir3_isa.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "render/ir3/ir3_internal.h"

static const struct ir3_place flow_places[] = {
    {IR3_F_SY, 60, 1}, {IR3_F_JP, 59, 1},     {IR3_F_EQ, 48, 1},
    {IR3_F_SS, 44, 1}, {IR3_F_REPEAT, 40, 3},
};
static const struct ir3_place jump_places[] = {
    {IR3_F_SY, 60, 1}, {IR3_F_JP, 59, 1},     {IR3_F_EQ, 48, 1},
    {IR3_F_SS, 44, 1}, {IR3_F_REPEAT, 40, 3}, {IR3_F_IMM, 0, 32},
};
static const struct ir3_place branch_places[] = {
    {IR3_F_SY, 60, 1},     {IR3_F_JP, 59, 1},  {IR3_F_COMP1, 53, 2},
    {IR3_F_INV1, 52, 1},   {IR3_F_EQ, 48, 1},  {IR3_F_SS, 44, 1},
    {IR3_F_REPEAT, 40, 3}, {IR3_F_IMM, 0, 32},
};
static const struct ir3_place branch2_places[] = {
    {IR3_F_SY, 60, 1},   {IR3_F_JP, 59, 1}, {IR3_F_COMP1, 53, 2},
    {IR3_F_INV1, 52, 1}, {IR3_F_EQ, 48, 1}, {IR3_F_COMP2, 46, 2},
    {IR3_F_INV2, 45, 1}, {IR3_F_SS, 44, 1}, {IR3_F_REPEAT, 40, 3},
    {IR3_F_IMM, 0, 32},
};
static const struct ir3_place getlast_places[] = {
    {IR3_F_SY, 60, 1},  {IR3_F_JP, 59, 1}, {IR3_F_W, 52, 3},
    {IR3_F_EQ, 48, 1},  {IR3_F_SS, 44, 1}, {IR3_F_REPEAT, 40, 3},
    {IR3_F_IMM, 0, 32},
};
static const struct ir3_place kill_places[] = {
    {IR3_F_SY, 60, 1},     {IR3_F_JP, 59, 1}, {IR3_F_COMP1, 53, 2},
    {IR3_F_INV1, 52, 1},   {IR3_F_EQ, 48, 1}, {IR3_F_SS, 44, 1},
    {IR3_F_REPEAT, 40, 3},
};
static const struct ir3_place mov_gpr_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},      {IR3_F_ROUND, 55, 2},
    {IR3_F_SRC_TYPE, 50, 3}, {IR3_F_DST_REL, 49, 1}, {IR3_F_DST_TYPE, 46, 3},
    {IR3_F_UL, 45, 1},       {IR3_F_SS, 44, 1},      {IR3_F_SRC1_R, 43, 1},
    {IR3_F_REPEAT, 40, 2},   {IR3_F_DST, 32, 8},     {IR3_F_LAST, 10, 1},
    {IR3_F_SRC1, 0, 8},
};
static const struct ir3_place mov_relgpr_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},      {IR3_F_ROUND, 55, 2},
    {IR3_F_SRC_TYPE, 50, 3}, {IR3_F_DST_REL, 49, 1}, {IR3_F_DST_TYPE, 46, 3},
    {IR3_F_UL, 45, 1},       {IR3_F_SS, 44, 1},      {IR3_F_SRC1_R, 43, 1},
    {IR3_F_REPEAT, 40, 2},   {IR3_F_DST, 32, 8},     {IR3_F_SRC1, 0, 10},
};
static const struct ir3_place mov_relconst_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},      {IR3_F_ROUND, 55, 2},
    {IR3_F_SRC_TYPE, 50, 3}, {IR3_F_DST_REL, 49, 1}, {IR3_F_DST_TYPE, 46, 3},
    {IR3_F_UL, 45, 1},       {IR3_F_SS, 44, 1},      {IR3_F_SRC1_R, 43, 1},
    {IR3_F_REPEAT, 40, 2},   {IR3_F_DST, 32, 8},     {IR3_F_SRC1, 0, 10},
};
static const struct ir3_place mov_const_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},      {IR3_F_ROUND, 55, 2},
    {IR3_F_SRC_TYPE, 50, 3}, {IR3_F_DST_REL, 49, 1}, {IR3_F_DST_TYPE, 46, 3},
    {IR3_F_UL, 45, 1},       {IR3_F_SS, 44, 1},      {IR3_F_SRC1_R, 43, 1},
    {IR3_F_REPEAT, 40, 2},   {IR3_F_DST, 32, 8},     {IR3_F_SRC1, 0, 11},
};
static const struct ir3_place mov_immed_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},      {IR3_F_ROUND, 55, 2},
    {IR3_F_SRC_TYPE, 50, 3}, {IR3_F_DST_REL, 49, 1}, {IR3_F_DST_TYPE, 46, 3},
    {IR3_F_UL, 45, 1},       {IR3_F_SS, 44, 1},      {IR3_F_REPEAT, 40, 2},
    {IR3_F_DST, 32, 8},      {IR3_F_SRC1, 0, 32},
};
static const struct ir3_place swz_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},       {IR3_F_ROUND, 55, 2},
    {IR3_F_SRC_TYPE, 50, 3}, {IR3_F_DST_TYPE, 46, 3}, {IR3_F_UL, 45, 1},
    {IR3_F_SS, 44, 1},       {IR3_F_DST, 32, 8},      {IR3_F_SRC3, 16, 8},
    {IR3_F_SRC2, 8, 8},      {IR3_F_SRC1, 0, 8},
};
static const struct ir3_place gat_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},       {IR3_F_ROUND, 55, 2},
    {IR3_F_SRC_TYPE, 50, 3}, {IR3_F_DST_TYPE, 46, 3}, {IR3_F_UL, 45, 1},
    {IR3_F_SS, 44, 1},       {IR3_F_DST, 32, 8},      {IR3_F_SRC4, 24, 8},
    {IR3_F_SRC3, 16, 8},     {IR3_F_SRC2, 8, 8},      {IR3_F_SRC1, 0, 8},
};
static const struct ir3_place sct_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},       {IR3_F_ROUND, 55, 2},
    {IR3_F_SRC_TYPE, 50, 3}, {IR3_F_DST_TYPE, 46, 3}, {IR3_F_UL, 45, 1},
    {IR3_F_SS, 44, 1},       {IR3_F_DST, 32, 8},      {IR3_F_SRC4, 24, 8},
    {IR3_F_SRC3, 16, 8},     {IR3_F_SRC2, 8, 8},      {IR3_F_SRC1, 0, 8},
};
static const struct ir3_place movmsk_places[] = {
    {IR3_F_SY, 60, 1},      {IR3_F_JP, 59, 1},  {IR3_F_ROUND, 55, 2},
    {IR3_F_DST_REL, 49, 1}, {IR3_F_UL, 45, 1},  {IR3_F_SS, 44, 1},
    {IR3_F_REPEAT, 40, 2},  {IR3_F_DST, 32, 8},
};
static const struct ir3_place alu2_places[] = {
    {IR3_F_SY, 60, 1},     {IR3_F_JP, 59, 1},     {IR3_F_FULL, 52, 1},
    {IR3_F_SRC2_R, 51, 1}, {IR3_F_EI, 47, 1},     {IR3_F_DST_CONV, 46, 1},
    {IR3_F_UL, 45, 1},     {IR3_F_SS, 44, 1},     {IR3_F_SRC1_R, 43, 1},
    {IR3_F_SAT, 42, 1},    {IR3_F_REPEAT, 40, 2}, {IR3_F_DST, 32, 8},
    {IR3_F_SRC2, 16, 16},  {IR3_F_SRC1, 0, 16},
};
static const struct ir3_place alu1_places[] = {
    {IR3_F_SY, 60, 1},     {IR3_F_JP, 59, 1},     {IR3_F_FULL, 52, 1},
    {IR3_F_SRC2_R, 51, 1}, {IR3_F_EI, 47, 1},     {IR3_F_DST_CONV, 46, 1},
    {IR3_F_UL, 45, 1},     {IR3_F_SS, 44, 1},     {IR3_F_SRC1_R, 43, 1},
    {IR3_F_SAT, 42, 1},    {IR3_F_REPEAT, 40, 2}, {IR3_F_DST, 32, 8},
    {IR3_F_SRC1, 0, 16},
};
static const struct ir3_place compare_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},    {IR3_F_FULL, 52, 1},
    {IR3_F_SRC2_R, 51, 1},   {IR3_F_COND, 48, 3},  {IR3_F_EI, 47, 1},
    {IR3_F_DST_CONV, 46, 1}, {IR3_F_UL, 45, 1},    {IR3_F_SS, 44, 1},
    {IR3_F_SRC1_R, 43, 1},   {IR3_F_SAT, 42, 1},   {IR3_F_REPEAT, 40, 2},
    {IR3_F_DST, 32, 8},      {IR3_F_SRC2, 16, 16}, {IR3_F_SRC1, 0, 16},
};
static const struct ir3_place alu3_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},       {IR3_F_SRC2, 47, 8},
    {IR3_F_DST_CONV, 46, 1}, {IR3_F_UL, 45, 1},       {IR3_F_SS, 44, 1},
    {IR3_F_SRC1_R, 43, 1},   {IR3_F_SAT, 42, 1},      {IR3_F_REPEAT, 40, 2},
    {IR3_F_DST, 32, 8},      {IR3_F_SRC3_NEG, 31, 1}, {IR3_F_SRC2_NEG, 30, 1},
    {IR3_F_SRC3_R, 29, 1},   {IR3_F_SRC3, 16, 13},    {IR3_F_SRC2_R, 15, 1},
    {IR3_F_SRC1_NEG, 14, 1}, {IR3_F_SRC1, 0, 13},
};
static const struct ir3_place shift3_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},       {IR3_F_SRC2, 47, 8},
    {IR3_F_DST_CONV, 46, 1}, {IR3_F_UL, 45, 1},       {IR3_F_SS, 44, 1},
    {IR3_F_SRC1_R, 43, 1},   {IR3_F_FULL, 42, 1},     {IR3_F_REPEAT, 40, 2},
    {IR3_F_DST, 32, 8},      {IR3_F_SRC3_NEG, 31, 1}, {IR3_F_SRC2_NEG, 30, 1},
    {IR3_F_SRC3_R, 29, 1},   {IR3_F_SRC3, 16, 13},    {IR3_F_SRC2_R, 15, 1},
    {IR3_F_SRC1_NEG, 14, 1}, {IR3_F_SRC1, 0, 13},
};
static const struct ir3_place dot_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},     {IR3_F_SRC2, 47, 8},
    {IR3_F_UL, 45, 1},       {IR3_F_SS, 44, 1},     {IR3_F_SRC1_R, 43, 1},
    {IR3_F_SAT, 42, 1},      {IR3_F_REPEAT, 40, 2}, {IR3_F_DST, 32, 8},
    {IR3_F_SRC3_NEG, 31, 1}, {IR3_F_PACK, 30, 1},   {IR3_F_SRC3_R, 29, 1},
    {IR3_F_SRC3, 16, 13},    {IR3_F_SRC2_R, 15, 1}, {IR3_F_SIGN, 14, 1},
    {IR3_F_SRC1, 0, 13},
};
static const struct ir3_place wmm_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},       {IR3_F_SRC2, 47, 8},
    {IR3_F_DST_FULL, 46, 1}, {IR3_F_UL, 45, 1},       {IR3_F_SS, 44, 1},
    {IR3_F_SRC1_R, 43, 1},   {IR3_F_REPEAT, 40, 2},   {IR3_F_DST, 32, 8},
    {IR3_F_FULL, 31, 1},     {IR3_F_SRC2_NEG, 30, 1}, {IR3_F_SRC3_R, 29, 1},
    {IR3_F_SRC3, 16, 13},    {IR3_F_SRC2_R, 15, 1},   {IR3_F_SRC1_NEG, 14, 1},
    {IR3_F_SRC1, 0, 13},
};
static const struct ir3_place sfu_places[] = {
    {IR3_F_SY, 60, 1},       {IR3_F_JP, 59, 1},   {IR3_F_FULL, 52, 1},
    {IR3_F_DST_CONV, 46, 1}, {IR3_F_UL, 45, 1},   {IR3_F_SS, 44, 1},
    {IR3_F_SRC1_R, 43, 1},   {IR3_F_SAT, 42, 1},  {IR3_F_REPEAT, 40, 2},
    {IR3_F_DST, 32, 8},      {IR3_F_SRC1, 0, 16},
};
static const struct ir3_place isam_places[] = {
    {IR3_F_SY, 60, 1},   {IR3_F_JP, 59, 1},     {IR3_F_S2EN, 51, 1},
    {IR3_F_TYPE, 44, 3}, {IR3_F_WRMASK, 40, 4}, {IR3_F_DST, 32, 8},
    {IR3_F_TEX, 25, 7},  {IR3_F_SAMP, 21, 4},   {IR3_F_NOT_1D, 18, 1},
    {IR3_F_SRC1, 1, 8},  {IR3_F_FULL, 0, 1},
};
static const struct ir3_place sam_places[] = {
    {IR3_F_SY, 60, 1},   {IR3_F_JP, 59, 1},     {IR3_F_S2EN, 51, 1},
    {IR3_F_TYPE, 44, 3}, {IR3_F_WRMASK, 40, 4}, {IR3_F_DST, 32, 8},
    {IR3_F_TEX, 25, 7},  {IR3_F_SAMP, 21, 4},   {IR3_F_SRC1, 1, 8},
    {IR3_F_FULL, 0, 1},
};
static const struct ir3_place getsize_places[] = {
    {IR3_F_SY, 60, 1},     {IR3_F_JP, 59, 1},  {IR3_F_TYPE, 44, 3},
    {IR3_F_WRMASK, 40, 4}, {IR3_F_DST, 32, 8}, {IR3_F_TEX, 25, 7},
    {IR3_F_SRC1, 1, 8},    {IR3_F_FULL, 0, 1},
};
static const struct ir3_place brcst_places[] = {
    {IR3_F_SY, 60, 1},     {IR3_F_JP, 59, 1},  {IR3_F_TYPE, 44, 3},
    {IR3_F_WRMASK, 40, 4}, {IR3_F_DST, 32, 8}, {IR3_F_W, 19, 2},
    {IR3_F_SRC1, 1, 8},    {IR3_F_FULL, 0, 1},
};
static const struct ir3_place quad2_places[] = {
    {IR3_F_SY, 60, 1},     {IR3_F_JP, 59, 1},  {IR3_F_TYPE, 44, 3},
    {IR3_F_WRMASK, 40, 4}, {IR3_F_DST, 32, 8}, {IR3_F_SRC2, 9, 8},
    {IR3_F_SRC1, 1, 8},    {IR3_F_FULL, 0, 1},
};
static const struct ir3_place quad1_places[] = {
    {IR3_F_SY, 60, 1},     {IR3_F_JP, 59, 1},  {IR3_F_TYPE, 44, 3},
    {IR3_F_WRMASK, 40, 4}, {IR3_F_DST, 32, 8}, {IR3_F_SRC1, 1, 8},
    {IR3_F_FULL, 0, 1},
};
static const struct ir3_place ldg_places[] = {
    {IR3_F_SY, 60, 1},  {IR3_F_JP, 59, 1},   {IR3_F_TYPE, 49, 3},
    {IR3_F_DST, 32, 8}, {IR3_F_SIZE, 24, 3}, {IR3_F_SRC1, 14, 8},
    {IR3_F_OFF, 1, 13},
};
static const struct ir3_place ldg_a6_places[] = {
    {IR3_F_SY, 60, 1},    {IR3_F_JP, 59, 1},   {IR3_F_TYPE, 49, 3},
    {IR3_F_DST, 32, 8},   {IR3_F_SIZE, 24, 3}, {IR3_F_SRC1, 14, 8},
    {IR3_F_SHIFT, 12, 2}, {IR3_F_OFF, 9, 2},   {IR3_F_SRC2, 1, 8},
};
static const struct ir3_place ldg_a7_places[] = {
    {IR3_F_SY, 60, 1},   {IR3_F_JP, 59, 1},       {IR3_F_TYPE, 49, 3},
    {IR3_F_OFF, 41, 8},  {IR3_F_DST, 32, 8},      {IR3_F_SIZE, 24, 3},
    {IR3_F_SRC1, 14, 8}, {IR3_F_IS_CONST, 13, 1}, {IR3_F_SRC2, 1, 8},
};
static const struct ir3_place ldg_k_places[] = {
    {IR3_F_SY, 60, 1},  {IR3_F_JP, 59, 1},   {IR3_F_TYPE, 49, 3},
    {IR3_F_DST, 32, 9}, {IR3_F_SIZE, 23, 4}, {IR3_F_SRC1, 14, 8},
    {IR3_F_OFF, 1, 13},
};
static const struct ir3_place getid_places[] = {
    {IR3_F_SY, 60, 1},
    {IR3_F_JP, 59, 1},
    {IR3_F_TYPE, 49, 3},
    {IR3_F_DST, 32, 8},
};
static const struct ir3_place image_places[] = {
    {IR3_F_SY, 60, 1},    {IR3_F_JP, 59, 1},         {IR3_F_OFFSET, 54, 5},
    {IR3_F_TYPE, 49, 3},  {IR3_F_SLOT, 41, 8},       {IR3_F_DST, 32, 8},
    {IR3_F_SRC1, 24, 8},  {IR3_F_HAS_OFFSET, 23, 1}, {IR3_F_N, 12, 2},
    {IR3_F_TYPED, 11, 1}, {IR3_F_DIM, 9, 2},         {IR3_F_BINDLESS, 8, 1},
    {IR3_F_MODE, 6, 2},   {IR3_F_BASE, 1, 3},        {IR3_F_OFFSET, 4, 2},
};
static const struct ir3_place resinfo_places[] = {
    {IR3_F_SY, 60, 1},    {IR3_F_JP, 59, 1},  {IR3_F_TYPE, 49, 3},
    {IR3_F_SLOT, 41, 8},  {IR3_F_DST, 32, 8}, {IR3_F_N, 12, 2},
    {IR3_F_TYPED, 11, 1}, {IR3_F_DIM, 9, 2},  {IR3_F_BINDLESS, 8, 1},
    {IR3_F_MODE, 6, 2},   {IR3_F_BASE, 1, 3},
};
static const struct ir3_place ldc_places[] = {
    {IR3_F_SY, 60, 1},      {IR3_F_JP, 59, 1},   {IR3_F_SLOT, 41, 8},
    {IR3_F_DST, 32, 8},     {IR3_F_SRC1, 24, 8}, {IR3_F_IS_IMM, 23, 1},
    {IR3_F_N, 12, 2},       {IR3_F_U, 11, 1},    {IR3_F_COMP, 9, 2},
    {IR3_F_BINDLESS, 8, 1}, {IR3_F_MODE, 6, 2},  {IR3_F_BASE, 1, 3},
};
static const struct ir3_place atomic_b_places[] = {
    {IR3_F_SY, 60, 1},      {IR3_F_JP, 59, 1},    {IR3_F_TYPE, 49, 3},
    {IR3_F_SLOT, 41, 8},    {IR3_F_DST, 32, 8},   {IR3_F_SRC1, 24, 8},
    {IR3_F_N, 12, 2},       {IR3_F_TYPED, 11, 1}, {IR3_F_DIM, 9, 2},
    {IR3_F_BINDLESS, 8, 1}, {IR3_F_MODE, 6, 2},   {IR3_F_BASE, 1, 3},
};
static const struct ir3_place ldc_k_places[] = {
    {IR3_F_SY, 60, 1},      {IR3_F_JP, 59, 1},   {IR3_F_SLOT, 41, 8},
    {IR3_F_N, 32, 8},       {IR3_F_SRC1, 24, 8}, {IR3_F_IS_IMM, 23, 1},
    {IR3_F_BINDLESS, 8, 1}, {IR3_F_MODE, 6, 2},  {IR3_F_BASE, 1, 3},
};
static const struct ir3_place load_places[] = {
    {IR3_F_SY, 60, 1},  {IR3_F_JP, 59, 1},   {IR3_F_TYPE, 49, 3},
    {IR3_F_DST, 32, 8}, {IR3_F_SIZE, 24, 8}, {IR3_F_SRC1, 14, 8},
    {IR3_F_OFF, 1, 13},
};
static const struct ir3_place stg_places[] = {
    {IR3_F_SY, 60, 1},   {IR3_F_JP, 59, 1},  {IR3_F_TYPE, 49, 3},
    {IR3_F_SRC1, 41, 8}, {IR3_F_OFF, 32, 8}, {IR3_F_SIZE, 24, 3},
    {IR3_F_SRC3, 1, 8},  {IR3_F_OFF, 9, 5},
};
static const struct ir3_place stg_a6_places[] = {
    {IR3_F_SY, 60, 1},    {IR3_F_JP, 59, 1},   {IR3_F_TYPE, 49, 3},
    {IR3_F_SRC1, 41, 8},  {IR3_F_SRC2, 32, 8}, {IR3_F_SIZE, 24, 3},
    {IR3_F_SHIFT, 12, 2}, {IR3_F_OFF, 9, 2},   {IR3_F_SRC3, 1, 8},
};
static const struct ir3_place stg_a7_places[] = {
    {IR3_F_SY, 60, 1},   {IR3_F_JP, 59, 1},       {IR3_F_TYPE, 49, 3},
    {IR3_F_SRC1, 41, 8}, {IR3_F_SRC2, 32, 8},     {IR3_F_SIZE, 24, 3},
    {IR3_F_OFF, 14, 8},  {IR3_F_IS_CONST, 13, 1}, {IR3_F_SRC3, 1, 8},
};
static const struct ir3_place store_places[] = {
    {IR3_F_SY, 60, 1},   {IR3_F_JP, 59, 1},  {IR3_F_TYPE, 49, 3},
    {IR3_F_SRC1, 41, 8}, {IR3_F_OFF, 32, 8}, {IR3_F_SIZE, 24, 8},
    {IR3_F_SRC3, 1, 8},  {IR3_F_OFF, 9, 5},
};
static const struct ir3_place atomic_places[] = {
    {IR3_F_SY, 60, 1},  {IR3_F_JP, 59, 1},    {IR3_F_TYPE, 49, 3},
    {IR3_F_DST, 32, 8}, {IR3_F_SRC2, 24, 8},  {IR3_F_SRC1, 14, 8},
    {IR3_F_N, 12, 2},   {IR3_F_TYPED, 11, 1}, {IR3_F_DIM, 9, 2},
};
static const struct ir3_place shfl_places[] = {
    {IR3_F_SY, 60, 1},     {IR3_F_JP, 59, 1},  {IR3_F_TYPE, 49, 3},
    {IR3_F_MODE, 45, 3},   {IR3_F_DST, 32, 8}, {IR3_F_SRC2, 24, 8},
    {IR3_F_IS_IMM, 23, 1}, {IR3_F_SRC1, 1, 8},
};
static const struct ir3_place stc_places[] = {
    {IR3_F_SY, 60, 1},  {IR3_F_JP, 59, 1},   {IR3_F_TYPE, 49, 3},
    {IR3_F_DST, 32, 9}, {IR3_F_SIZE, 24, 3}, {IR3_F_SRC1, 1, 8},
};
static const struct ir3_place fence_places[] = {
    {IR3_F_SY, 60, 1}, {IR3_F_JP, 59, 1}, {IR3_F_G, 54, 1},
    {IR3_F_L, 53, 1},  {IR3_F_R, 52, 1},  {IR3_F_W_FLAG, 51, 1},
    {IR3_F_SS, 44, 1},
};
static const struct ir3_place sleep_places[] = {
    {IR3_F_SY, 60, 1},
    {IR3_F_JP, 59, 1},
    {IR3_F_DURATION, 51, 1},
    {IR3_F_SS, 44, 1},
};
static const struct ir3_place plain7_places[] = {
    {IR3_F_SY, 60, 1},
    {IR3_F_JP, 59, 1},
    {IR3_F_SS, 44, 1},
};
static const struct ir3_place dc_places[] = {
    {IR3_F_SY, 60, 1},
    {IR3_F_JP, 59, 1},
    {IR3_F_ALL, 51, 1},
    {IR3_F_SS, 44, 1},
};
static const struct ir3_place alias_places[] = {
    {IR3_F_SY, 60, 1},        {IR3_F_JP, 59, 1},    {IR3_F_SRC_REG_TYPE, 51, 2},
    {IR3_F_TYPE_SIZE, 50, 1}, {IR3_F_TYPE, 48, 1},  {IR3_F_SCOPE, 47, 1},
    {IR3_F_SS, 44, 1},        {IR3_F_N, 40, 4},     {IR3_F_DST, 32, 8},
    {IR3_F_IMM, 0, 32},       {IR3_F_SCOPE, 49, 1},
};

#define BOTH      (A6 | A7)
#define A6        IR3_GEN_A6XX
#define A7        (IR3_GEN_A7XX | IR3_GEN_A7XX_3)
#define PLACES(p) p, ARRAY_LEN(p)

/* clang-format off */
const struct ir3_row ir3_rows[IR3_OP_COUNT] = {
    [IR3_NOP] = {"nop", BOTH, 0xe7f2e0e000000000u, 0x0000000000000000u, PLACES(flow_places)},
    [IR3_BKT] = {"bkt #%i", BOTH, 0xe782000000000000u, 0x0002000000000000u, PLACES(jump_places)},
    [IR3_BR] = {"br %p, #%i", BOTH, 0xe78200e000000000u, 0x0080000000000000u, PLACES(branch_places)},
    [IR3_BRAO] = {"brao %p, %q, #%i", BOTH, 0xe78200e000000000u, 0x0080002000000000u, PLACES(branch2_places)},
    [IR3_BRAA] = {"braa %p, %q, #%i", BOTH, 0xe78200e000000000u, 0x0080004000000000u, PLACES(branch2_places)},
    [IR3_BANY] = {"bany %p, #%i", BOTH, 0xe78200e000000000u, 0x0080008000000000u, PLACES(branch_places)},
    [IR3_BALL] = {"ball %p, #%i", BOTH, 0xe78200e000000000u, 0x008000a000000000u, PLACES(branch_places)},
    [IR3_JUMP] = {"jump #%i", BOTH, 0xe782000000000000u, 0x0100000000000000u, PLACES(jump_places)},
    [IR3_CALL] = {"call #%i", BOTH, 0xe782000000000000u, 0x0180000000000000u, PLACES(jump_places)},
    [IR3_RET] = {"ret", BOTH, 0xe7f2e0e000000000u, 0x0200000000000000u, PLACES(flow_places)},
    [IR3_GETLAST] = {"getlast.w%w #%i", BOTH, 0xe782000000000000u, 0x0202000000000000u, PLACES(getlast_places)},
    [IR3_KILL] = {"kill %p", BOTH, 0xe782e0ff00000000u, 0x0280000000000000u, PLACES(kill_places)},
    [IR3_GETONE] = {"getone #%i", BOTH, 0xe782000000000000u, 0x0282000000000000u, PLACES(jump_places)},
    [IR3_END] = {"end", BOTH, 0xe7f2e0e000000000u, 0x0300000000000000u, PLACES(flow_places)},
    [IR3_SHPS] = {"shps #%i", BOTH, 0xe782000000000000u, 0x0382000000000000u, PLACES(jump_places)},
    [IR3_SHPE] = {"shpe", BOTH, 0xe7f2e0e000000000u, 0x0402000000000000u, PLACES(flow_places)},
    [IR3_PREDT] = {"predt", BOTH, 0xe7f2e0e000000000u, 0x0682000000000000u, PLACES(flow_places)},
    [IR3_PREDF] = {"predf", BOTH, 0xe7f2e0e000000000u, 0x0702000000000000u, PLACES(flow_places)},
    [IR3_PREDE] = {"prede", BOTH, 0xe7f2e0e000000000u, 0x0782000000000000u, PLACES(flow_places)},
    [IR3_MOV_GPR] = {"%m %D, %a", BOTH, 0xe6600400fffffb00u, 0x2000000000000000u, PLACES(mov_gpr_places)},
    [IR3_MOV_RELGPR] = {"%m %D, %g", BOTH, 0xe6600400fffffc00u, 0x2000000000000800u, PLACES(mov_relgpr_places)},
    [IR3_MOV_RELCONST] = {"%m %D, %g", BOTH, 0xe6600400fffffc00u, 0x2000000000000c00u, PLACES(mov_relconst_places)},
    [IR3_MOV_CONST] = {"%m %D, %c", BOTH, 0xe6600400fffff800u, 0x2020000000000000u, PLACES(mov_const_places)},
    [IR3_MOV_IMMED] = {"%m %D, %I", BOTH, 0xe660040000000000u, 0x2040000000000000u, PLACES(mov_immed_places)},
    [IR3_SWZ] = {"swz%v %D, %3, %1, %2", BOTH, 0xe6620f00ff000000u, 0x2400000000000000u, PLACES(swz_places)},
    [IR3_GAT] = {"gat%v %D, %1, %2, %3, %4", BOTH, 0xe6620f0000000000u, 0x2400010000000000u, PLACES(gat_places)},
    [IR3_SCT] = {"sct%v %D, %2, %3, %4, %1", BOTH, 0xe6620f0000000000u, 0x2400020000000000u, PLACES(sct_places)},
    [IR3_MOVMSK] = {"movmsk.w%w %D", BOTH, 0xe67dcc00ffffffffu, 0x260cc00000000000u, PLACES(movmsk_places)},
    [IR3_ADD_F] = {"add.f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4000000000000000u, PLACES(alu2_places)},
    [IR3_MIN_F] = {"min.f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4020000000000000u, PLACES(alu2_places)},
    [IR3_MAX_F] = {"max.f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4040000000000000u, PLACES(alu2_places)},
    [IR3_MUL_F] = {"mul.f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4060000000000000u, PLACES(alu2_places)},
    [IR3_SIGN_F] = {"sign.f %d, %A", BOTH, 0xe7e0000000000000u, 0x4080000000000000u, PLACES(alu1_places)},
    [IR3_CMPS_F] = {"cmps.f%f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x40a0000000000000u, PLACES(compare_places)},
    [IR3_ABSNEG_F] = {"absneg.f %d, %A", BOTH, 0xe7e0000000000000u, 0x40c0000000000000u, PLACES(alu1_places)},
    [IR3_CMPV_F] = {"cmpv.f%f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x40e0000000000000u, PLACES(compare_places)},
    [IR3_FLOOR_F] = {"floor.f %d, %A", BOTH, 0xe7e0000000000000u, 0x4120000000000000u, PLACES(alu1_places)},
    [IR3_CEIL_F] = {"ceil.f %d, %A", BOTH, 0xe7e0000000000000u, 0x4140000000000000u, PLACES(alu1_places)},
    [IR3_RNDNE_F] = {"rndne.f %d, %A", BOTH, 0xe7e0000000000000u, 0x4160000000000000u, PLACES(alu1_places)},
    [IR3_RNDAZ_F] = {"rndaz.f %d, %A", BOTH, 0xe7e0000000000000u, 0x4180000000000000u, PLACES(alu1_places)},
    [IR3_TRUNC_F] = {"trunc.f %d, %A", BOTH, 0xe7e0000000000000u, 0x41a0000000000000u, PLACES(alu1_places)},
    [IR3_ADD_U] = {"add.u %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4200000000000000u, PLACES(alu2_places)},
    [IR3_ADD_S] = {"add.s %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4220000000000000u, PLACES(alu2_places)},
    [IR3_SUB_U] = {"sub.u %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4240000000000000u, PLACES(alu2_places)},
    [IR3_SUB_S] = {"sub.s %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4260000000000000u, PLACES(alu2_places)},
    [IR3_CMPS_U] = {"cmps.u%f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4280000000000000u, PLACES(compare_places)},
    [IR3_CMPS_S] = {"cmps.s%f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x42a0000000000000u, PLACES(compare_places)},
    [IR3_MIN_U] = {"min.u %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x42c0000000000000u, PLACES(alu2_places)},
    [IR3_MIN_S] = {"min.s %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x42e0000000000000u, PLACES(alu2_places)},
    [IR3_MAX_U] = {"max.u %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4300000000000000u, PLACES(alu2_places)},
    [IR3_MAX_S] = {"max.s %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4320000000000000u, PLACES(alu2_places)},
    [IR3_ABSNEG_S] = {"absneg.s %d, %A", BOTH, 0xe7e0000000000000u, 0x4340000000000000u, PLACES(alu1_places)},
    [IR3_AND_B] = {"and.b %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4380000000000000u, PLACES(alu2_places)},
    [IR3_OR_B] = {"or.b %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x43a0000000000000u, PLACES(alu2_places)},
    [IR3_NOT_B] = {"not.b %d, %A", BOTH, 0xe7e0000000000000u, 0x43c0000000000000u, PLACES(alu1_places)},
    [IR3_XOR_B] = {"xor.b %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x43e0000000000000u, PLACES(alu2_places)},
    [IR3_CMPV_U] = {"cmpv.u%f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4420000000000000u, PLACES(compare_places)},
    [IR3_CMPV_S] = {"cmpv.s%f %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4440000000000000u, PLACES(compare_places)},
    [IR3_MUL_U24] = {"mul.u24 %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4600000000000000u, PLACES(alu2_places)},
    [IR3_MUL_S24] = {"mul.s24 %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4620000000000000u, PLACES(alu2_places)},
    [IR3_MULL_U] = {"mull.u %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4640000000000000u, PLACES(alu2_places)},
    [IR3_BFREV_B] = {"bfrev.b %d, %A", BOTH, 0xe7e0000000000000u, 0x4660000000000000u, PLACES(alu1_places)},
    [IR3_CLZ_S] = {"clz.s %d, %A", BOTH, 0xe7e0000000000000u, 0x4680000000000000u, PLACES(alu1_places)},
    [IR3_CLZ_B] = {"clz.b %d, %A", BOTH, 0xe7e0000000000000u, 0x46a0000000000000u, PLACES(alu1_places)},
    [IR3_SHL_B] = {"shl.b %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x46c0000000000000u, PLACES(alu2_places)},
    [IR3_SHR_B] = {"shr.b %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x46e0000000000000u, PLACES(alu2_places)},
    [IR3_ASHR_B] = {"ashr.b %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4700000000000000u, PLACES(alu2_places)},
    [IR3_MGEN_B] = {"mgen.b %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4740000000000000u, PLACES(alu2_places)},
    [IR3_GETBIT_B] = {"getbit.b %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x4760000000000000u, PLACES(alu2_places)},
    [IR3_SETRM] = {"setrm %d, %A", BOTH, 0xe7e0000000000000u, 0x4780000000000000u, PLACES(alu1_places)},
    [IR3_CBITS_B] = {"cbits.b %d, %A", BOTH, 0xe7e0000000000000u, 0x47a0000000000000u, PLACES(alu1_places)},
    [IR3_SHB] = {"shb %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x47c0000000000000u, PLACES(alu2_places)},
    [IR3_MSAD] = {"msad %d, %A, %B", BOTH, 0xe7e0000000000000u, 0x47e0000000000000u, PLACES(alu2_places)},
    [IR3_MAD_U16] = {"mad.u16 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6000000000000000u, PLACES(alu3_places), .is_half = true},
    [IR3_MADSH_U16] = {"madsh.u16 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6080000000000000u, PLACES(alu3_places)},
    [IR3_MAD_S16] = {"mad.s16 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6100000000000000u, PLACES(alu3_places), .is_half = true},
    [IR3_MADSH_M16] = {"madsh.m16 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6180000000000000u, PLACES(alu3_places)},
    [IR3_MAD_U24] = {"mad.u24 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6200000000000000u, PLACES(alu3_places)},
    [IR3_MAD_S24] = {"mad.s24 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6280000000000000u, PLACES(alu3_places)},
    [IR3_MAD_F16] = {"mad.f16 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6300000000000000u, PLACES(alu3_places), .is_half = true},
    [IR3_MAD_F32] = {"mad.f32 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6380000000000000u, PLACES(alu3_places)},
    [IR3_SEL_B16] = {"sel.b16 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6400000000000000u, PLACES(alu3_places), .is_half = true},
    [IR3_SHRM] = {"shrm %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6400000000002000u, PLACES(shift3_places)},
    [IR3_SEL_B32] = {"sel.b32 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6480000000000000u, PLACES(alu3_places)},
    [IR3_SHLM] = {"shlm %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6480000000002000u, PLACES(shift3_places)},
    [IR3_SEL_S16] = {"sel.s16 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6500000000000000u, PLACES(alu3_places), .is_half = true},
    [IR3_SHRG] = {"shrg %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6500000000002000u, PLACES(shift3_places)},
    [IR3_SEL_S32] = {"sel.s32 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6580000000000000u, PLACES(alu3_places)},
    [IR3_SHLG] = {"shlg %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6580000000002000u, PLACES(shift3_places)},
    [IR3_SEL_F16] = {"sel.f16 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6600000000000000u, PLACES(alu3_places), .is_half = true},
    [IR3_ANDG] = {"andg %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6600000000002000u, PLACES(shift3_places)},
    [IR3_SEL_F32] = {"sel.f32 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6680000000000000u, PLACES(alu3_places)},
    [IR3_DP2ACC] = {"dp2acc%<%> %d, %P, %Q, %R", BOTH, 0xe780400000002000u, 0x6680000000002000u, PLACES(dot_places)},
    [IR3_DP4ACC] = {"dp4acc%<%> %d, %P, %Q, %R", BOTH, 0xe780400000002000u, 0x6680400000002000u, PLACES(dot_places)},
    [IR3_SAD_S16] = {"sad.s16 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6700000000000000u, PLACES(alu3_places), .is_half = true},
    [IR3_WMM] = {"wmm %d, %P, %Q, %R", BOTH, 0xe780040000002000u, 0x6700000000002000u, PLACES(wmm_places)},
    [IR3_WMM_ACCU] = {"wmm.accu %d, %P, %Q, %R", BOTH, 0xe780040000002000u, 0x6700040000002000u, PLACES(wmm_places)},
    [IR3_SAD_S32] = {"sad.s32 %d, %P, %Q, %R", BOTH, 0xe780000000002000u, 0x6780000000000000u, PLACES(alu3_places)},
    [IR3_RCP] = {"rcp %d, %A", BOTH, 0xe7e0000000000000u, 0x8000000000000000u, PLACES(sfu_places)},
    [IR3_RSQ] = {"rsq %d, %A", BOTH, 0xe7e0000000000000u, 0x8020000000000000u, PLACES(sfu_places)},
    [IR3_LOG2] = {"log2 %d, %A", BOTH, 0xe7e0000000000000u, 0x8040000000000000u, PLACES(sfu_places)},
    [IR3_EXP2] = {"exp2 %d, %A", BOTH, 0xe7e0000000000000u, 0x8060000000000000u, PLACES(sfu_places)},
    [IR3_SIN] = {"sin %d, %A", BOTH, 0xe7e0000000000000u, 0x8080000000000000u, PLACES(sfu_places)},
    [IR3_COS] = {"cos %d, %A", BOTH, 0xe7e0000000000000u, 0x80a0000000000000u, PLACES(sfu_places)},
    [IR3_SQRT] = {"sqrt %d, %A", BOTH, 0xe7e0000000000000u, 0x80c0000000000000u, PLACES(sfu_places)},
    [IR3_HRSQ] = {"hrsq %d, %A", BOTH, 0xe7e0000000000000u, 0x8120000000000000u, PLACES(sfu_places)},
    [IR3_HLOG2] = {"hlog2 %d, %A", BOTH, 0xe7e0000000000000u, 0x8140000000000000u, PLACES(sfu_places)},
    [IR3_HEXP2] = {"hexp2 %d, %A", BOTH, 0xe7e0000000000000u, 0x8160000000000000u, PLACES(sfu_places)},
    [IR3_ISAM] = {"isam%o %t%E, %u, %l", BOTH, 0xe7c0000000000000u, 0xa000000000000000u, PLACES(isam_places)},
    [IR3_SAM] = {"sam%o %t%E, %u, %l", BOTH, 0xe7c0000000040000u, 0xa0c0000000000000u, PLACES(sam_places)},
    [IR3_GETSIZE] = {"getsize %t%E, %u, t#%x", BOTH, 0xe7c0000000040000u, 0xa280000000000000u, PLACES(getsize_places)},
    [IR3_BRCST_ACTIVE] = {"brcst.active.w%w %t%E, %u", BOTH, 0xe7e4000000040000u, 0xa7c0000000000000u, PLACES(brcst_places)},
    [IR3_QUAD_SHUFFLE_BRCST] = {"quad_shuffle.brcst %t%E, %u, %y", BOTH, 0xe7e40000001c0000u, 0xa7e0000000000000u, PLACES(quad2_places)},
    [IR3_QUAD_SHUFFLE_HORIZ] = {"quad_shuffle.horiz %t%E, %u", BOTH, 0xe7e40000001c0000u, 0xa7e0000000080000u, PLACES(quad1_places)},
    [IR3_QUAD_SHUFFLE_VERT] = {"quad_shuffle.vert %t%E, %u", BOTH, 0xe7e40000001c0000u, 0xa7e0000000100000u, PLACES(quad1_places)},
    [IR3_QUAD_SHUFFLE_DIAG] = {"quad_shuffle.diag %t%E, %u", BOTH, 0xe7e40000001c0000u, 0xa7e0000000180000u, PLACES(quad1_places)},
    [IR3_LDG] = {"ldg%T %E, g[%1%+], %n", BOTH, 0xe7f00000c0c00001u, 0xc000000000800001u, PLACES(ldg_places)},
    [IR3_LDG_A_A6] = {"ldg.a%T %E, g[%1+%~], %n", A6, 0xe7f00000c0c00001u, 0xc000000000c00001u, PLACES(ldg_a6_places)},
    [IR3_LDG_A_A7] = {"ldg.a%T %E, g[%_+%2+%O], %n", A7, 0xe7f00000c0c00001u, 0xc000000000c00001u, PLACES(ldg_a7_places)},
    [IR3_LDG_K] = {"ldg.k%T %C, g[%1%+], %n", BOTH, 0xe7f00000c0400001u, 0xc010000000000001u, PLACES(ldg_k_places)},
    [IR3_GETSPID] = {"getspid%T %E", BOTH, 0xe7e00100004fc031u, 0xc020000000490000u, PLACES(getid_places)},
    [IR3_GETWID] = {"getwid%T %E", BOTH, 0xe7e00100004fc031u, 0xc020000000494000u, PLACES(getid_places)},
    [IR3_LDIB_B] = {"ldib.b%b %E, %1%*, %L", BOTH, 0xe0300100007fc000u, 0xc020000000618000u, PLACES(image_places)},
    [IR3_RESINFO_B] = {"resinfo.b%b %E, %L", BOTH, 0xe7e0010000ffc031u, 0xc02000000063c000u, PLACES(resinfo_places)},
    [IR3_STIB_B] = {"stib.b%b %E, %1%*, %L", BOTH, 0xe0300100007fc001u, 0xc020000000674000u, PLACES(image_places)},
    [IR3_GETFIBERID] = {"getfiberid%T %E", BOTH, 0xe7e0010000cfc031u, 0xc020000000c98000u, PLACES(getid_places)},
    [IR3_LDC] = {"ldc%h %E, %r, %L", BOTH, 0xe7f60100004fc030u, 0xc026000000478000u, PLACES(ldc_places)},
    [IR3_ATOMIC_B_ADD] = {"atomic.b.add%b %e, %1, %L", BOTH, 0xe7f0010000ffc030u, 0xc030000000640000u, PLACES(atomic_b_places)},
    [IR3_ATOMIC_B_SUB] = {"atomic.b.sub%b %e, %1, %L", BOTH, 0xe7f0010000ffc030u, 0xc030000000644000u, PLACES(atomic_b_places)},
    [IR3_ATOMIC_B_XCHG] = {"atomic.b.xchg%b %e, %1, %L", BOTH, 0xe7f0010000ffc030u, 0xc030000000648000u, PLACES(atomic_b_places)},
    [IR3_ATOMIC_B_CMPXCHG] = {"atomic.b.cmpxchg%b %e, %1, %L", BOTH, 0xe7f0010000ffc030u, 0xc030000000654000u, PLACES(atomic_b_places)},
    [IR3_ATOMIC_B_MIN] = {"atomic.b.min%b %e, %1, %L", BOTH, 0xe7f0010000ffc030u, 0xc030000000658000u, PLACES(atomic_b_places)},
    [IR3_ATOMIC_B_MAX] = {"atomic.b.max%b %e, %1, %L", BOTH, 0xe7f0010000ffc030u, 0xc03000000065c000u, PLACES(atomic_b_places)},
    [IR3_ATOMIC_B_AND] = {"atomic.b.and%b %e, %1, %L", BOTH, 0xe7f0010000ffc030u, 0xc030000000660000u, PLACES(atomic_b_places)},
    [IR3_ATOMIC_B_OR] = {"atomic.b.or%b %e, %1, %L", BOTH, 0xe7f0010000ffc030u, 0xc030000000664000u, PLACES(atomic_b_places)},
    [IR3_ATOMIC_B_XOR] = {"atomic.b.xor%b %e, %1, %L", BOTH, 0xe7f0010000ffc030u, 0xc030000000668000u, PLACES(atomic_b_places)},
    [IR3_LDC_K] = {"ldc.%n.k%M c[a1.x], %r, %L", BOTH, 0xe7f60100004fc030u, 0xc036000000478000u, PLACES(ldc_k_places)},
    [IR3_LDL] = {"ldl%T %F, l[%1%+], %n", BOTH, 0xe7f0000000800001u, 0xc040000000800001u, PLACES(load_places)},
    [IR3_LDP] = {"ldp%T %E, p[%1%+], %n", BOTH, 0xe7f0000000800001u, 0xc080000000800001u, PLACES(load_places)},
    [IR3_STG] = {"stg%T g[%1%+], %H, %n", BOTH, 0xe7f00100c0800000u, 0xc0c0010000800000u, PLACES(stg_places)},
    [IR3_STG_A_A6] = {"stg.a%T g[%1+%~], %H, %n", A6, 0xe7f00100c0800000u, 0xc0d0010000800000u, PLACES(stg_a6_places)},
    [IR3_STG_A_A7] = {"stg.a%T g[%_+%2+%O], %H, %n", A7, 0xe7f00100c0c00000u, 0xc0d0010000800000u, PLACES(stg_a7_places)},
    [IR3_STL] = {"stl%T l[%1%+], %J, %n", BOTH, 0xe7c0010000800000u, 0xc100010000800000u, PLACES(store_places)},
    [IR3_STP] = {"stp%T p[%1%+], %J, %n", BOTH, 0xe7c0010000800001u, 0xc140010000800000u, PLACES(store_places)},
    [IR3_LDLW] = {"ldlw%T %F, l[%1%+], %n", BOTH, 0xe7f0000000800001u, 0xc280000000800001u, PLACES(load_places)},
    [IR3_STLW] = {"stlw%T l[%1%+], %J, %n", BOTH, 0xe7c0010000800000u, 0xc2c0010000800000u, PLACES(store_places)},
    [IR3_ATOMIC_ADD] = {"atomic.add%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc400000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_ADD] = {"atomic.g.add%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc410000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_SUB] = {"atomic.sub%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc440000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_SUB] = {"atomic.g.sub%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc450000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_XCHG] = {"atomic.xchg%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc480000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_XCHG] = {"atomic.g.xchg%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc490000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_INC] = {"atomic.inc%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc4c0000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_INC] = {"atomic.g.inc%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc4d0000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_DEC] = {"atomic.dec%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc500000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_DEC] = {"atomic.g.dec%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc510000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_CMPXCHG] = {"atomic.cmpxchg%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc540000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_CMPXCHG] = {"atomic.g.cmpxchg%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc550000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_MIN] = {"atomic.min%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc580000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_MIN] = {"atomic.g.min%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc590000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_MAX] = {"atomic.max%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc5c0000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_MAX] = {"atomic.g.max%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc5d0000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_AND] = {"atomic.and%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc600000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_AND] = {"atomic.g.and%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc610000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_OR] = {"atomic.or%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc640000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_OR] = {"atomic.g.or%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc650000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_XOR] = {"atomic.xor%z.l %e, l[%1], %2", BOTH, 0xe7f1fe00000001ffu, 0xc680000000000001u, PLACES(atomic_places)},
    [IR3_ATOMIC_G_XOR] = {"atomic.g.xor%z.g %e, %1, %2", BOTH, 0xe7f1fe00000001ffu, 0xc690000000000001u, PLACES(atomic_places)},
    [IR3_SHFL] = {"shfl%N%T %E, %U, %S", BOTH, 0xe7f00000007ffe01u, 0xc6e0000000000000u, PLACES(shfl_places)},
    [IR3_STC] = {"stc%T %C, %K, %n", BOTH, 0xe7c0000000ffc000u, 0xc700000000800000u, PLACES(stc_places)},
    [IR3_BAR] = {"bar%G", BOTH, 0xe782000000000000u, 0xe002000000000000u, PLACES(fence_places)},
    [IR3_FENCE] = {"fence%G", BOTH, 0xe782000000000000u, 0xe082000000000000u, PLACES(fence_places)},
    [IR3_SLEEP] = {"sleep%j", BOTH, 0xe780000000000000u, 0xe100000000000000u, PLACES(sleep_places)},
    [IR3_ICINV] = {"icinv", BOTH, 0xe780000000000000u, 0xe180000000000000u, PLACES(plain7_places)},
    [IR3_DCCLN] = {"dccln%V", BOTH, 0xe790000000000000u, 0xe200000000000000u, PLACES(dc_places)},
    [IR3_DCINV] = {"dcinv%V", BOTH, 0xe790000000000000u, 0xe280000000000000u, PLACES(dc_places)},
    [IR3_CCINV] = {"ccinv", A7, 0xe7fa000000000000u, 0xe2d2000000000000u, PLACES(plain7_places)},
    [IR3_DCFLU] = {"dcflu%V", BOTH, 0xe790000000000000u, 0xe300000000000000u, PLACES(dc_places)},
    [IR3_LOCK] = {"lock", A7, 0xe7ffe00000000000u, 0xe3c2000000000000u, PLACES(plain7_places)},
    [IR3_UNLOCK] = {"unlock", A7, 0xe7ffe00000000000u, 0xe3ca000000000000u, PLACES(plain7_places)},
    [IR3_ALIAS] = {"alias%Y %e, %Z", A7, 0xe7c0000000000000u, 0xe440000000000000u, PLACES(alias_places)},
};
/* clang-format on */

/* The bits of a place. */
static uint64_t
place_mask(const struct ir3_place *place)
{
    assert(place->n_bits > 0 && place->lo + place->n_bits <= 64);
    return (UINT64_MAX >> (64 - place->n_bits)) << place->lo;
}

uint64_t
ir3_encode(const struct ir3_instr *instr)
{
    const struct ir3_row *row = &ir3_rows[instr->op];
    uint64_t word = row->match;
    uint8_t n_taken[IR3_F_COUNT] = {0}; /* bits of a field that have a place */
    unsigned i;

    assert(instr->op < IR3_OP_COUNT);
    for (i = 0; i < row->n_places; i++) {
        const struct ir3_place *p = &row->places[i];
        uint64_t value = instr->f[p->field] >> n_taken[p->field];
        word |= value << p->lo & place_mask(p);
        n_taken[p->field] = (uint8_t)(n_taken[p->field] + p->n_bits);
    }
    for (i = 0; i < IR3_F_COUNT; i++)
        assert(n_taken[i] >= 32 || instr->f[i] >> n_taken[i] == 0);
    return word;
}

static void
unpack(uint64_t word, struct ir3_instr *instr)
{
    const struct ir3_row *row = &ir3_rows[instr->op];
    uint8_t n_taken[IR3_F_COUNT] = {0};
    unsigned i;

    memset(instr->f, 0, sizeof(instr->f));
    for (i = 0; i < row->n_places; i++) {
        const struct ir3_place *p = &row->places[i];
        uint32_t value = (uint32_t)((word & place_mask(p)) >> p->lo);
        instr->f[p->field] |= value << n_taken[p->field];
        n_taken[p->field] = (uint8_t)(n_taken[p->field] + p->n_bits);
    }
}

/* Clears fields that do nothing beside the others. */
static void
drop_idle(struct ir3_instr *in)
{
    uint32_t *f = in->f;

    if (!f[IR3_F_BINDLESS])
        f[IR3_F_BASE] = 0;
    if (!f[IR3_F_HAS_OFFSET])
        f[IR3_F_OFFSET] = 0;
    if (f[IR3_F_DST] >= IR3_REG_A0 && f[IR3_F_DST] < IR3_REG_NONE)
        f[IR3_F_DST_CONV] = f[IR3_F_DST_FULL] = 0;
    if (f[IR3_F_REPEAT] && !ir3_op_has(in->op, IR3_F_SRC2))
        f[IR3_F_SRC2_R] = 0;
    if (in->op == IR3_ALIAS && f[IR3_F_SRC_REG_TYPE] < 2)
        f[IR3_F_IMM] &= f[IR3_F_SRC_REG_TYPE] ? 0x7ff : 0xff;
}

bool
ir3_decode(enum ir3_gen gen, uint64_t word, struct ir3_instr *out_instr,
           uint64_t *out_unused)
{
    const struct ir3_row *row;
    unsigned op;

    for (op = 0; op < IR3_OP_COUNT; op++) {
        row = &ir3_rows[op];
        if ((row->gens & gen) && (word & row->mask) == row->match)
            break;
    }
    if (op == IR3_OP_COUNT)
        return false;
    out_instr->op = (enum ir3_op)op;
    unpack(word, out_instr);
    drop_idle(out_instr);
    *out_unused = word ^ ir3_encode(out_instr);
    return ir3_operands_are_known(out_instr);
}

bool
ir3_op_has(enum ir3_op op, enum ir3_field field)
{
    const struct ir3_row *row = &ir3_rows[op];
    unsigned i;

    for (i = 0; i < row->n_places; i++) {
        if (row->places[i].field == field)
            return true;
    }
    return false;
}

bool
ir3_type_is_half(enum ir3_type type)
{
    return type == IR3_TYPE_F16 || type == IR3_TYPE_U16 ||
           type == IR3_TYPE_S16 || type == IR3_TYPE_U8;
}

bool
ir3_src_is_half(const struct ir3_instr *instr)
{
    if (ir3_op_has(instr->op, IR3_F_SRC_TYPE))
        return ir3_type_is_half((enum ir3_type)instr->f[IR3_F_SRC_TYPE]);
    if (ir3_op_has(instr->op, IR3_F_FULL))
        return instr->f[IR3_F_FULL] == 0;
    if (ir3_op_has(instr->op, IR3_F_TYPE))
        return ir3_type_is_half((enum ir3_type)instr->f[IR3_F_TYPE]);
    return ir3_rows[instr->op].is_half;
}

bool
ir3_dst_is_half(const struct ir3_instr *instr)
{
    uint32_t dst = instr->f[IR3_F_DST];

    if (ir3_op_has(instr->op, IR3_F_DST_TYPE))
        return ir3_type_is_half((enum ir3_type)instr->f[IR3_F_DST_TYPE]);
    if (ir3_op_has(instr->op, IR3_F_TYPE))
        return ir3_type_is_half((enum ir3_type)instr->f[IR3_F_TYPE]);
    if (dst >= IR3_REG_A0 && dst < IR3_REG_NONE)
        return false; /* of an address or a predicate the width says nothing */
    if (ir3_op_has(instr->op, IR3_F_DST_FULL))
        return instr->f[IR3_F_DST_FULL] == 0;
    return ir3_src_is_half(instr) != (instr->f[IR3_F_DST_CONV] != 0);
}
