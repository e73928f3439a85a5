// What the calling thread has handed to NCCL and NCCL has not launched yet.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "collectives.h"

namespace cctrace {
namespace nccl {

// One call, or those that NCCL may fuse into one kernel: of one group, communicator and stream.
struct Enqueued {
  CUstream stream;
  uint64_t communicator;
  uint64_t operations;  // which, in order: alike calls have equal numbers
  uint64_t bytes;       // of all together
  collectives::Kind kind;
  uint32_t ranks;     // of the communicator; 0: not known
  uint32_t peers;     // how many others this rank exchanges data with
  int peer;           // of sends and receives; -1: none
  uint32_t launches;  // kernels so far: a large group takes several
};

// A call on this thread, before it is made.
void enqueue(const Enqueued& one);

// Groups nest; only the end of the outermost one launches.
void group_started();
bool in_group();
bool in_outermost_group();
void group_ended();

// From here on the calls so far may be launched; from here on they are forgotten.
void launching();
void launched();

// What the kernel that is being launched on the stream carries; null: not known. Counts the launch.
const Enqueued* on_launch(CUstream stream);

}  // namespace nccl
}  // namespace cctrace
