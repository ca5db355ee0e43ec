// Copies and fills memory on gfx942, whose command processor cannot
// copy at all. The words in ../amd_move.c are this
// text's, as LLVM assembles it: tests/golden/test_amd_move.py.
//
// Arguments: destination, source, bytes that go in pieces of 16 (a multiple of
// that), all bytes, work-items of the launch, pattern, whether it is a fill. The
// addresses are multiples of 4 unless there are no pieces; a work-item takes
// each n-th piece, and then each n-th byte behind them.
//
// src: LLVM 19, AMDGPUUsage (registers at entry), GCNHazardRecognizer.cpp
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.amdhsa_code_object_version 5
	.text
	.p2align 8
	.globl move
move:
	s_load_dwordx8 s[4:11], s[0:1], 0x0	// s4 to, s6 from, s8 pieces, s10 all
	s_load_dwordx4 s[12:15], s[0:1], 0x20	// s12 n, s13 pattern, s14 fill
	v_and_b32 v0, 0x3ff, v0
	v_lshl_add_u32 v0, s2, 8, v0		// v0: which work-item
	v_mov_b32 v1, 0
	v_lshlrev_b64 v[2:3], 4, v[0:1]		// v2: offset
	s_waitcnt lgkmcnt(0)
	s_mov_b32 s16, s12
	s_mov_b32 s17, 0
	s_lshl_b64 s[18:19], s[16:17], 4
	v_mov_b32 v4, s13
	v_mov_b32 v5, s13
	v_mov_b32 v6, s13
	v_mov_b32 v7, s13
pieces:
	v_cmp_gt_u64 vcc, s[8:9], v[2:3]
	s_and_b64 exec, exec, vcc
	s_cbranch_execz rest
	s_cmp_lg_u32 s14, 0
	s_cbranch_scc1 store
	v_lshl_add_u64 v[8:9], s[6:7], 0, v[2:3]
	global_load_dwordx4 v[4:7], v[8:9], off
	s_waitcnt vmcnt(0)
store:
	v_lshl_add_u64 v[8:9], s[4:5], 0, v[2:3]
	global_store_dwordx4 v[8:9], v[4:7], off
	v_lshl_add_u64 v[2:3], s[18:19], 0, v[2:3]
	s_branch pieces
rest:
	s_mov_b64 exec, -1
	v_lshl_add_u64 v[2:3], s[8:9], 0, v[0:1]
bytes:
	v_cmp_gt_u64 vcc, s[10:11], v[2:3]
	s_and_b64 exec, exec, vcc
	s_cbranch_execz end
	s_cmp_lg_u32 s14, 0
	s_cbranch_scc1 shift
	v_lshl_add_u64 v[8:9], s[6:7], 0, v[2:3]
	global_load_ubyte v4, v[8:9], off
	s_waitcnt vmcnt(0)
	s_branch store_byte
shift:
	v_and_b32 v10, 3, v2
	v_lshlrev_b32 v10, 3, v10
	v_lshrrev_b32_e64 v4, v10, s13
store_byte:
	v_lshl_add_u64 v[8:9], s[4:5], 0, v[2:3]
	global_store_byte v[8:9], v4, off
	v_lshl_add_u64 v[2:3], s[16:17], 0, v[2:3]
	s_branch bytes
end:
	s_endpgm

	.section .rodata,"a",@progbits
	.p2align 6
	.amdhsa_kernel move
		.amdhsa_kernarg_size 48
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_count 2
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_next_free_vgpr 12
		.amdhsa_next_free_sgpr 20
		.amdhsa_accum_offset 12
	.end_amdhsa_kernel
