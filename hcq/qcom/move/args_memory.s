ldc.offset0.4.imm r2.z, 0, 0
ldc.offset0.1.imm r3.z, 1, 0
