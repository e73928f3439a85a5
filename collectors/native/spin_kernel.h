// The kernels around a transfer that is lengthened, as PTX: the driver compiles them for whatever GPU is
// there.
#pragma once

#include <cstdint>

namespace cctrace {
namespace nvlink {

// What both kernels keep of all transfers that are alike. Only they write it, in stream order.
struct Slot {
  uint64_t begin_ns;     // of the latest one, %globaltimer
  uint64_t shortest_ns;  // own duration so far; 0: not known
  uint64_t executed;     // how many have ended
  uint64_t spun_ns;      // by which they were lengthened beyond our kernels' own cost
};

// In units of 2^-20 the part of its own duration by which a transfer is lengthened.
constexpr int kFractionBits = 20;

// cctrace_transfer_begin(slot): notes %globaltimer.
//
// cctrace_transfer_end(slot, fraction, added, limit, gap, own): spins for fraction x shortest + added ns,
// less `own` ns that our kernels take themselves. `gap` is what lies between the two clock readings without a
// transfer. A transfer waits for the last rank, and in some execution this rank is the last: the shortest
// execution is the transfer's own duration. It is never taken to be longer than `limit`, so that a first
// execution, which waits for other ranks to start, is not lengthened by that. With fraction 0 nothing was
// noted before. No nanosleep: it may sleep for any time up to twice of what it is told.
constexpr char kBeginName[] = "cctrace_transfer_begin";
constexpr char kEndName[] = "cctrace_transfer_end";
constexpr char kSpinPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry cctrace_transfer_begin(.param .u64 p_slot)
{
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [p_slot];
  cvta.to.global.u64 %d2, %d1;
  mov.u64 %d3, %globaltimer;
  st.global.u64 [%d2], %d3;
  ret;
}
.visible .entry cctrace_transfer_end(.param .u64 p_slot, .param .u64 p_fraction, .param .u64 p_added,
                                     .param .u64 p_limit, .param .u64 p_gap, .param .u64 p_own)
{
  .reg .pred %p<4>;
  .reg .b64 %now, %arrived, %slot, %fraction, %wait, %limit, %gap, %own, %begin, %took, %shortest, %until;
  mov.u64 %arrived, %globaltimer;
  ld.param.u64 %slot, [p_slot];
  cvta.to.global.u64 %slot, %slot;
  ld.param.u64 %fraction, [p_fraction];
  ld.param.u64 %wait, [p_added];
  ld.param.u64 %limit, [p_limit];
  ld.param.u64 %gap, [p_gap];
  ld.param.u64 %own, [p_own];
  setp.eq.u64 %p1, %fraction, 0;
  @%p1 bra LESS;
  ld.global.u64 %begin, [%slot];
  ld.global.u64 %shortest, [%slot+8];
  sub.s64 %took, %arrived, %begin;
  sub.s64 %took, %took, %gap;
  max.s64 %took, %took, 0;
  min.u64 %took, %took, %limit;
  setp.eq.u64 %p2, %shortest, 0;
  @%p2 bra FIRST;
  min.u64 %took, %took, %shortest;
FIRST:
  st.global.u64 [%slot+8], %took;
  mul.lo.u64 %took, %took, %fraction;
  shr.u64 %took, %took, 20;
  add.u64 %wait, %wait, %took;
LESS:
  sub.s64 %wait, %wait, %own;
  max.s64 %wait, %wait, 0;
  add.u64 %until, %arrived, %wait;
  mov.u64 %now, %arrived;
SPIN:
  setp.ge.u64 %p3, %now, %until;
  @%p3 bra DONE;
  mov.u64 %now, %globaltimer;
  bra SPIN;
DONE:
  sub.u64 %now, %now, %arrived;
  red.global.add.u64 [%slot+16], 1;
  red.global.add.u64 [%slot+24], %now;
  ret;
}
)";

}  // namespace nvlink
}  // namespace cctrace
