// Charges the costs of a platform with confidential computing to a run without it.
#pragma once

#include <cuda.h>

#include "call.h"
#include "record.h"
#include "truth.h"

namespace cctrace {
namespace emulator {

// What one call will be charged, in nanoseconds.
struct Toll {
  uint64_t launch_ns = 0;
  uint64_t encrypt_ns = 0;  // pcie, to the device
  uint64_t decrypt_ns = 0;  // pcie, from the device
  uint64_t alloc_ns = 0;    // pcie, page-locked memory
  bool drains = false;      // overlap: the call waits for its stream

  bool none() const { return !(launch_ns | encrypt_ns | decrypt_ns | alloc_ns | drains); }
};

// Whether calls of a kind can be charged at all.
constexpr bool can_charge(Operation o) {
  return (o >= Operation::kernel && o <= Operation::stream_wait) || o == Operation::host_alloc ||
         o == Operation::host_register;
}

// Before the call, so that questions about its memory are no part of its duration. A copy must be finished.
Toll toll_of(Operation operation, const Call& call, Shape shape, bool synchronous);

// After a call that has succeeded and returned at `end_ns`: lets the toll go by, as part of the call, as it
// would be there. Returns when the call ends now, and in `charges` what was really injected.
uint64_t charge(const Toll& toll, CUstream stream, uint64_t end_ns, Charges& charges);

}  // namespace emulator
}  // namespace cctrace
