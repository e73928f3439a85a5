#include "emulator.h"

#include "clock.h"
#include "config.h"
#include "driver.h"

namespace cctrace {
namespace emulator {
namespace {

uint64_t toll_ns(Operation operation) {
  const Emulation& e = config().emulation;
  switch (operation) {
    case Operation::kernel:
      return e.kernel_ns;
    case Operation::graph:
      return e.graph_ns;
    case Operation::copy:
      return e.copy_ns;
    case Operation::memset:
      return e.memset_ns;
    case Operation::event_record:
    case Operation::stream_wait:
      return e.event_ns;
    default:
      return 0;
  }
}

void spin(uint64_t duration_ns) {
  if (!duration_ns) return;
  const uint64_t until = monotonic_ns() + duration_ns;
  // No pause instruction: in a virtual machine a loop of them traps to the hypervisor.
  while (monotonic_ns() < until) {
  }
}

bool between_host_and_device(const Call& c) { return c.copy_kind == kH2D || c.copy_kind == kD2H; }

bool touches_pinned(const Call& c) { return (c.memory & 15) == kPinned || c.memory >> 4 == kPinned; }

}  // namespace

void charge(Operation operation, Call& call, Shape shape, CUstream stream, bool synchronous) {
  spin(toll_ns(operation));
  if (operation != Operation::copy || !config().emulation.overlap || synchronous) return;
  Call described = call;
  finish(described, shape);
  if (!between_host_and_device(described) || !touches_pinned(described)) return;
  using Synchronize = CUresult (*)(CUstream);
  static const auto synchronize = driver::function<Synchronize>("cuStreamSynchronize");
  // The copy returns when all that its stream held before, and itself, is done. An error stays for the
  // program to find.
  if (synchronize) synchronize(stream);
}

}  // namespace emulator
}  // namespace cctrace
