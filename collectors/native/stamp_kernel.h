// The stamp kernel, as PTX: the driver compiles it for whatever GPU is there.
#pragma once

namespace cctrace {
namespace stamps {

// cctrace_stamp(ring, payload, mask): takes the next index from the ring's head and stores {%globaltimer,
// payload << 32 | index} there. The index in the entry tells the reader whether it was already written.
constexpr char kStampName[] = "cctrace_stamp";
constexpr char kStampPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry cctrace_stamp(.param .u64 p_ring, .param .u32 p_payload, .param .u32 p_mask)
{
  .reg .b32 %r<4>;
  .reg .b64 %d<12>;
  ld.param.u64 %d1, [p_ring];
  ld.param.u32 %r1, [p_payload];
  ld.param.u32 %r2, [p_mask];
  cvta.to.global.u64 %d2, %d1;
  mov.u64 %d3, %globaltimer;
  atom.global.add.u64 %d4, [%d2], 1;
  cvt.u64.u32 %d5, %r2;
  and.b64 %d6, %d4, %d5;
  shl.b64 %d7, %d6, 4;
  add.u64 %d8, %d2, %d7;
  cvt.u32.u64 %r3, %d4;
  mov.b64 %d9, {%r3, %r1};
  st.global.v2.u64 [%d8+64], {%d3, %d9};
  ret;
}
)";

constexpr unsigned kHeaderBytes = 64;
constexpr unsigned kEntryBytes = 16;

}  // namespace stamps
}  // namespace cctrace
