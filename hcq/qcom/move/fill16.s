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
(sy)(rpt5)nop
cmps.u.ge p0.x, r0.x, r3.z
(rpt5)nop
br p0.x, #14
shl.b r0.y, r0.x, 4
(rpt5)nop
add.u r2.x, r0.y, r2.z
(rpt5)nop
cmps.u.lt r2.y, r2.x, r0.y
(rpt5)nop
add.u r2.y, r2.y, r2.w
mov.u32u32 r1.x, r3.x
mov.u32u32 r1.y, r3.x
mov.u32u32 r1.z, r3.x
mov.u32u32 r1.w, r3.x
(rpt5)nop
stg.u32 g[r2.x], r1.x, 4
