mov.u32u32 r0.w, r48.x
mov.u32u32 r1.x, r48.y
(rpt5)nop
shl.b r1.x, r1.x, 15
(rpt5)nop
add.u r0.w, r0.w, r1.x
(rpt5)nop
shl.b r0.w, r0.w, 8
(rpt5)nop
add.u r0.x, r0.w, r0.x
(rpt5)nop
cmps.u.ge p0.x, r0.x, c1.x
(rpt5)nop
br p0.x, #14
shl.b r0.y, r0.x, 4
(rpt5)nop
add.u r2.x, r0.y, c0.x
(rpt5)nop
cmps.u.lt r2.y, r2.x, r0.y
(rpt5)nop
add.u r2.y, r2.y, c0.y
mov.u32u32 r1.x, c0.z
mov.u32u32 r1.y, c0.z
mov.u32u32 r1.z, c0.z
mov.u32u32 r1.w, c0.z
(rpt5)nop
stg.u32 g[r2.x], r1.x, 4
