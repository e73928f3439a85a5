// Waiting for an exact while on the calling thread.
#pragma once

#include <cstdint>

namespace cctrace {
namespace spin {

// Measures what reading the clock costs; until then a spin ends half a reading late on average.
void calibrate();

// Returns when `duration_ns` have gone by since `from_ns`, a reading of the clock: with the time at the end,
// which is off by half the cost of a reading at most, and by nothing on average. A duration of 0 returns at
// once.
uint64_t wait(uint64_t from_ns, uint64_t duration_ns);

}  // namespace spin
}  // namespace cctrace
