#include "spin.h"

#include <algorithm>
#include <cstddef>

#include "clock.h"

namespace cctrace {
namespace spin {
namespace {

constexpr int kBatches = 31;
constexpr int kReadings = 64;

// A loop of readings ends anywhere between its aim and one reading later: it aims half a reading early.
uint64_t g_early_ns = 0;

}  // namespace

void calibrate() {
  uint64_t batches[kBatches];
  for (uint64_t& batch : batches) {
    const uint64_t start = monotonic_ns();
    uint64_t end = start;
    for (int i = 0; i < kReadings; i++) end = monotonic_ns();
    batch = end - start;
  }
  std::nth_element(batches, batches + kBatches / 2, batches + kBatches);
  g_early_ns = batches[kBatches / 2] / (2 * kReadings);
}

uint64_t wait(uint64_t from_ns, uint64_t duration_ns) {
  if (!duration_ns) return from_ns;
  const uint64_t until = from_ns + duration_ns - std::min(duration_ns, g_early_ns);
  // No pause instruction: in a virtual machine a loop of them traps to the hypervisor.
  for (;;) {
    const uint64_t now = monotonic_ns();
    if (now >= until) return now;
  }
}

}  // namespace spin
}  // namespace cctrace

// For measuring how exact spins are on a machine: `count` of them, one behind the other, each with the time
// it took. Returns the time of all together.
extern "C" __attribute__((visibility("default"))) uint64_t cctrace_measure_spins(uint64_t duration_ns,
                                                                                 uint64_t* taken_ns,
                                                                                 size_t count) {
  cctrace::spin::calibrate();
  const uint64_t start = cctrace::monotonic_ns();
  for (size_t i = 0; i < count; i++) {
    const uint64_t from = cctrace::monotonic_ns();
    taken_ns[i] = cctrace::spin::wait(from, duration_ns) - from;
  }
  return cctrace::monotonic_ns() - start;
}
