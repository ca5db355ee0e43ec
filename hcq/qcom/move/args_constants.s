(rpt3)mov.u32u32 r2.z, (r)c0.x
mov.u32u32 r3.z, c1.x
