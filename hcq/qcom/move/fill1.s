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
br p0.x, #18
mov.u32u32 r0.y, r0.x
(rpt5)nop
add.u r2.x, r0.y, r2.z
(rpt5)nop
cmps.u.lt r2.y, r2.x, r0.y
(rpt5)nop
add.u r2.y, r2.y, r2.w
and.b r1.y, r0.x, 3
mov.u32u32 r1.z, r3.x
(rpt5)nop
shl.b r1.y, r1.y, 3
(rpt5)nop
shr.b r1.y, r1.z, r1.y
(rpt5)nop
cov.u32u16 hr2.x, r1.y
(rpt5)nop
stg.u8 g[r2.x], hr2.x, 1
