// The emulator's cause "nvlink": every collective and every copy between GPUs lasts longer, by a kernel that
// spins behind it on the same stream. In a captured graph it is a node, and costs no submission at replay.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "call.h"
#include "collectives.h"
#include "config.h"
#include "nvlink_slots.h"

namespace cctrace {
namespace nvlink {

// True if transfers between GPUs are lengthened at all.
inline bool active() {
  const Emulation& e = config().emulation;
  return e.active && (e.collective_factor > 1 || e.all_to_all_factor > 1 || e.peer_copy_factor > 1 ||
                      e.peer_latency_ns > 0);
}

// One transfer, from before its call until after it. Without slots: it is left as it is.
struct Transfer {
  const Slots* slots = nullptr;
  CUdeviceptr slot = 0;
  Lengthening how;
};

// Grid and block of a launch, by its arguments.
struct LaunchShape {
  uint64_t grid = 0, block = 0;
};
constexpr uint64_t dimensions(uint64_t x, uint64_t y, uint64_t z) { return x | y << 31 | z << 47; }
template <class... A>
LaunchShape launch_shape(A...) {
  return {};
}
template <class... A>
LaunchShape launch_shape(CUfunction, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                         unsigned bz, A...) {
  return {dimensions(gx, gy, gz), dimensions(bx, by, bz)};
}
template <class... A>
LaunchShape launch_shape(const CUlaunchConfig* c, A...) {
  if (!c) return {};
  return {dimensions(c->gridDimX, c->gridDimY, c->gridDimZ),
          dimensions(c->blockDimX, c->blockDimY, c->blockDimZ)};
}

// Before a launch or a copy: what it has to begin with, if it is a transfer.
Transfer begin_kernel(collectives::Kernel kernel, CUfunction function, const LaunchShape& shape,
                      CUstream stream, bool captured);
Transfer begin_copy(const Call& call, Shape shape, CUstream stream, bool captured);

// After the call.
void end(const Transfer& transfer, CUstream stream, CUresult result);

// Makes what is needed in the context of a stream, or in the current one. Before the first transfer there: it
// must not happen beside one, nor inside a capture.
void prepare(CUstream stream);

// A context may go away now; it is gone. As in stamps.h.
void on_contexts_ending();
void on_context_gone(CUcontext context);
void on_primary_context_left(CUdevice device);

}  // namespace nvlink
}  // namespace cctrace
