// The door for programs and libraries that are linked with NCCL: their import slots.
#pragma once

namespace cctrace {
namespace nccl {

// Looks at what was loaded since the last time, and points what it imports of NCCL to our wrappers. Cheap
// when nothing was.
void follow_imports();

}  // namespace nccl
}  // namespace cctrace
