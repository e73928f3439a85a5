#include "emulator.h"

#include <algorithm>

#include "clock.h"
#include "config.h"
#include "driver.h"
#include "graphs.h"
#include "spin.h"
#include "turns.h"

namespace cctrace {
namespace emulator {
namespace {

uint64_t launch_ns(Operation operation) {
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

bool touches(const Copy& copy, Memory memory) {
  return (copy.memory & 15) == memory || copy.memory >> 4 == memory;
}

// Managed memory moves by other ways than the copies between host and device that are measured.
bool crosses_pcie(const Copy& copy) {
  return copy.bytes && (copy.kind == kH2D || copy.kind == kD2H) && !touches(copy, kManaged);
}

void add_copy(Toll& toll, const Copy& copy, bool synchronous) {
  if (!crosses_pcie(copy)) return;
  const Emulation& e = config().emulation;
  const bool pageable = touches(copy, kPageable);
  if (copy.kind == kH2D) {
    toll.encrypt_ns += (pageable ? e.h2d_pageable : e.h2d).ns(copy.bytes);
  } else {
    toll.decrypt_ns += (pageable ? e.d2h_pageable : e.d2h).ns(copy.bytes);
  }
  if (e.overlap && !synchronous && touches(copy, kPinned)) toll.drains = true;
}

bool charges_copies() {
  const Emulation& e = config().emulation;
  static const bool any =
      e.overlap || !(e.h2d.empty() && e.d2h.empty() && e.h2d_pageable.empty() && e.d2h_pageable.empty());
  return any;
}

// Notes what has gone by since `from_ns`. What was charged counts, even if the clock has not moved.
uint64_t note(Charges& charges, Cause cause, uint64_t from_ns, uint64_t to_ns) {
  charges.add(cause, std::max<uint64_t>(to_ns - std::min(from_ns, to_ns), 1));
  return to_ns;
}

uint64_t pass(uint64_t duration_ns, Cause cause, uint64_t from_ns, Charges& charges) {
  if (!duration_ns) return from_ns;
  return note(charges, cause, from_ns, spin::wait(from_ns, duration_ns));
}

uint64_t pass_in_turn(uint64_t duration_ns, uint64_t from_ns, Charges& charges) {
  if (!duration_ns) return from_ns;
  const uint64_t begin = turns::take(from_ns, duration_ns);
  charges.queued_ns += begin - from_ns;
  return note(charges, Cause::pcie, begin, spin::wait(begin, duration_ns));
}

uint64_t drain(CUstream stream, uint64_t from_ns, Charges& charges) {
  using Synchronize = CUresult (*)(CUstream);
  using Exchange = CUresult (*)(CUstreamCaptureMode*);
  static const auto synchronize = driver::function<Synchronize>("cuStreamSynchronize");
  static const auto exchange = driver::function<Exchange>("cuThreadExchangeStreamCaptureMode");
  if (!synchronize) return from_ns;
  // Another thread's capture must not break by a wait that the program did not ask for.
  const bool careful = exchange && graphs::captures_active();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (careful) exchange(&mode);
  // The copy returns when all that its stream held before, and itself, is done. An error stays for the
  // program to find.
  synchronize(stream);
  if (careful) exchange(&mode);
  return note(charges, Cause::overlap, from_ns, monotonic_ns());
}

}  // namespace

Toll toll_of(Operation operation, const Call& call, Shape shape, bool synchronous) {
  Toll toll;
  toll.launch_ns = launch_ns(operation);
  if (operation == Operation::host_alloc || operation == Operation::host_register)
    toll.alloc_ns = config().emulation.host_alloc.ns(last_size(call));
  if (operation == Operation::copy && charges_copies()) {
    const uint64_t count = copy_count(call, shape);
    for (uint64_t i = 0; i < count; i++) add_copy(toll, copy_at(call, shape, i), synchronous);
  }
  return toll;
}

uint64_t charge(const Toll& toll, CUstream stream, uint64_t end_ns, Charges& charges) {
  charges = {};
  end_ns = pass(toll.launch_ns, Cause::launch, end_ns, charges);
  end_ns = pass(toll.alloc_ns, Cause::pcie, end_ns, charges);
  // The host encrypts before the copy can run, and decrypts when it has arrived.
  end_ns = pass_in_turn(toll.encrypt_ns, end_ns, charges);
  if (toll.drains) end_ns = drain(stream, end_ns, charges);
  return pass_in_turn(toll.decrypt_ns, end_ns, charges);
}

}  // namespace emulator
}  // namespace cctrace
