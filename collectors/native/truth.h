// What the emulator has really injected, per cause: the truth that an analysis of the trace is held against.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cctrace {

enum class Cause : uint8_t { launch, pcie, overlap, nvlink };
constexpr size_t kCauses = 4;

// Nanoseconds injected into one call, as the clock measured them; 0: not charged. It travels with the call's
// record, so that only what is kept of both is counted. Without initial values: there is one per place of a
// ring, and what emulates nothing must not touch them.
struct Charges {
  uint64_t ns[kCauses];
  uint64_t queued_ns;  // pcie: waiting for another thread's copy in the same context, which is not in `ns`

  void add(Cause cause, uint64_t amount) { ns[static_cast<size_t>(cause)] += amount; }
  bool none() const { return !(ns[0] | ns[1] | ns[2] | ns[3] | queued_ns); }
};

namespace truth {

// Charges that no record of a call carries: so many, and what they took together. From any thread.
void charged(Cause cause, uint64_t count, uint64_t ns);

// The charges of records that were written. From the writer thread.
void count(const Charges* charges, size_t n);

// Appends the totals that have changed to the spool, as `state` records. From the writer thread.
void note();

}  // namespace truth
}  // namespace cctrace
