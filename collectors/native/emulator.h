// Charges the costs of a platform with confidential computing to a run without it.
#pragma once

#include <cuda.h>

#include "call.h"
#include "record.h"

namespace cctrace {
namespace emulator {

// Called between the real call and the end of its record, so that the charge is part of the call, as it would
// be there. Fills the memory kinds of a copy when it needs them.
void charge(Operation operation, Call& call, Shape shape, CUstream stream, bool synchronous);

}  // namespace emulator
}  // namespace cctrace
