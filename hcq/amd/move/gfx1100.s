// Copies and fills memory on gfx1100, whose command processor cannot
// copy more than 32 KiB at once. The words in ../amd_move.c are this
// text's, as LLVM assembles it: tests/golden/test_amd_move.py.
//
// Arguments: destination, source, bytes that go in pieces of 16 (a multiple of
// that), all bytes, work-items of the launch, pattern, whether it is a fill. The
// addresses are multiples of 4 unless there are no pieces; a work-item takes
// each n-th piece, and then each n-th byte behind them.
//
// src: LLVM 19, AMDGPUUsage (registers at entry), GCNHazardRecognizer.cpp
	.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
	.amdhsa_code_object_version 5
	.text
	.p2align 8
	.globl move
move:
	s_load_b256 s[4:11], s[0:1], 0x0	// s4 to, s6 from, s8 pieces, s10 all
	s_load_b128 s[16:19], s[0:1], 0x20	// s16 n, s17 pattern, s18 fill
	v_and_b32 v0, 0x3ff, v0
	v_lshl_add_u32 v0, s15, 8, v0		// v0: which work-item
	v_mov_b32 v1, 0
	v_lshlrev_b64 v[2:3], 4, v[0:1]		// v2: offset
	s_waitcnt lgkmcnt(0)
	s_mov_b32 s12, s16
	s_mov_b32 s13, 0
	s_lshl_b64 s[2:3], s[12:13], 4
	v_mov_b32 v4, s17
	v_mov_b32 v5, s17
	v_mov_b32 v6, s17
	v_mov_b32 v7, s17
pieces:
	v_cmpx_gt_u64 s[8:9], v[2:3]
	s_cbranch_execz rest
	s_cmp_lg_u32 s18, 0
	s_cbranch_scc1 store
	v_add_co_u32 v8, vcc_lo, s6, v2
	v_add_co_ci_u32 v9, vcc_lo, s7, v3, vcc_lo
	global_load_b128 v[4:7], v[8:9], off
	s_waitcnt vmcnt(0)
store:
	v_add_co_u32 v8, vcc_lo, s4, v2
	v_add_co_ci_u32 v9, vcc_lo, s5, v3, vcc_lo
	global_store_b128 v[8:9], v[4:7], off
	v_add_co_u32 v2, vcc_lo, s2, v2
	v_add_co_ci_u32 v3, vcc_lo, s3, v3, vcc_lo
	s_branch pieces
rest:
	s_mov_b32 exec_lo, -1
	v_add_co_u32 v2, vcc_lo, s8, v0
	v_add_co_ci_u32 v3, vcc_lo, s9, v1, vcc_lo
bytes:
	v_cmpx_gt_u64 s[10:11], v[2:3]
	s_cbranch_execz end
	s_cmp_lg_u32 s18, 0
	s_cbranch_scc1 shift
	v_add_co_u32 v8, vcc_lo, s6, v2
	v_add_co_ci_u32 v9, vcc_lo, s7, v3, vcc_lo
	global_load_u8 v4, v[8:9], off
	s_waitcnt vmcnt(0)
	s_branch store_byte
shift:
	v_and_b32 v10, 3, v2
	v_lshlrev_b32 v10, 3, v10
	v_lshrrev_b32_e64 v4, v10, s17
store_byte:
	v_add_co_u32 v8, vcc_lo, s4, v2
	v_add_co_ci_u32 v9, vcc_lo, s5, v3, vcc_lo
	global_store_b8 v[8:9], v4, off
	v_add_co_u32 v2, vcc_lo, s12, v2
	v_add_co_ci_u32 v3, vcc_lo, s13, v3, vcc_lo
	s_branch bytes
end:
	s_endpgm

	.section .rodata,"a",@progbits
	.p2align 6
	.amdhsa_kernel move
		.amdhsa_kernarg_size 48
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_count 15
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_next_free_vgpr 12
		.amdhsa_next_free_sgpr 20
		.amdhsa_wavefront_size32 1
	.end_amdhsa_kernel
