"""The kernels of the calibration, as PTX: the driver compiles them for whatever GPU is there."""

from __future__ import annotations

from typing import Final

NOTHING: Final = "cctrace_nothing"
WAIT: Final = "cctrace_wait"
READ: Final = "cctrace_read"

VECTOR_BYTES: Final = 16
"""`READ` moves so many bytes at a time."""

PTX: Final = f"""
.version 7.0
.target sm_52
.address_size 64

// {NOTHING}(): what is left is the submission.
.visible .entry {NOTHING}()
{{
  ret;
}}

// {WAIT}(ns): returns when so many nanoseconds have passed.
.visible .entry {WAIT}(.param .u64 p_ns)
{{
  .reg .pred %p1;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [p_ns];
  mov.u64 %d2, %globaltimer;
again:
  mov.u64 %d3, %globaltimer;
  sub.u64 %d4, %d3, %d2;
  setp.lt.u64 %p1, %d4, %d1;
  @%p1 bra again;
  ret;
}}

// {READ}(to, from, vectors): all threads together copy vectors of {VECTOR_BYTES} bytes.
.visible .entry {READ}(.param .u64 p_to, .param .u64 p_from, .param .u64 p_vectors)
{{
  .reg .pred %p1;
  .reg .b32 %r<9>;
  .reg .b64 %d<12>;
  ld.param.u64 %d1, [p_to];
  ld.param.u64 %d2, [p_from];
  ld.param.u64 %d3, [p_vectors];
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %d4, %r1, %r2;
  cvt.u64.u32 %d5, %r3;
  add.u64 %d4, %d4, %d5;
  mul.wide.u32 %d6, %r4, %r2;
next:
  setp.ge.u64 %p1, %d4, %d3;
  @%p1 bra done;
  shl.b64 %d7, %d4, 4;
  add.u64 %d8, %d2, %d7;
  add.u64 %d9, %d1, %d7;
  ld.global.v4.u32 {{%r5, %r6, %r7, %r8}}, [%d8];
  st.global.v4.u32 [%d9], {{%r5, %r6, %r7, %r8}};
  add.u64 %d4, %d4, %d6;
  bra next;
done:
  ret;
}}
"""
