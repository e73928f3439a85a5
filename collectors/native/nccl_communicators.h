// The communicators of this process.
#pragma once

#include <cstdint>

namespace cctrace {
namespace nccl {

struct Communicator;

// As of one call of it.
struct Membership {
  uint32_t ranks;     // 0: not known
  uint32_t sequence;  // calls before this one
};

// ncclCommCount of the library that made the communicator; null: it has none.
using CountRanks = int (*)(const Communicator*, int*);

// Counts one call.
Membership next_call(const Communicator* communicator, CountRanks count);

// It is being destroyed: its handle may come again.
void forget(const Communicator* communicator);

// Ranks of the largest one so far; 0 if there was none. Kernels that do not say how many ranks they join
// mostly join those of the engine's communicator.
uint32_t most_ranks();

}  // namespace nccl
}  // namespace cctrace
