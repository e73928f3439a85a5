// What happens around one wrapped driver call.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "call.h"
#include "clock.h"
#include "config.h"
#include "emulator.h"
#include "graphs.h"
#include "names.h"
#include "nccl_imports.h"
#include "nvlink.h"
#include "record.h"
#include "recorder.h"
#include "ring.h"
#include "spool.h"
#include "stamps.h"

namespace cctrace {

// One row of driver_api.def.
struct Api {
  const char* symbol;  // its name in the trace: without the suffix of per-thread streams
  const char* suffix;
  Operation operation;
  Shape shape;
  uint8_t flags;
  bool charged;  // the emulator may charge it; false only where the recorder measures itself
  mutable std::atomic<uint32_t> string_id{0};

  constexpr Api(const char* s, const char* x, Operation o, Shape h, uint8_t f, bool c = true)
      : symbol(s), suffix(x), operation(o), shape(h), flags(f), charged(c) {}

  uint32_t name() const {
    uint32_t id = string_id.load(std::memory_order_relaxed);
    if (!id) {
      id = spool::intern(symbol);
      string_id.store(id, std::memory_order_relaxed);
    }
    return id;
  }
};

constexpr bool is_submission(Operation o) { return o >= Operation::kernel && o <= Operation::unknown; }
// Followed also outside the window of a recording: what is captured before it is replayed inside it.
constexpr bool is_about_graphs(Operation o) {
  return o >= Operation::capture_begin && o <= Operation::graph_build;
}
constexpr bool is_blocking_wait(Operation o) {
  return o >= Operation::stream_sync && o <= Operation::context_sync;
}

// Handle 0 means the legacy default stream, or the thread's own one in the per-thread flavour of a call.
// Every thread's own stream is a stream of its own; no pointer has the value 2 in its low half.
inline uint64_t stream_key(uint64_t handle, bool per_thread) {
  constexpr uint64_t kLegacy = 1, kPerThread = 2;
  if (handle == kPerThread || (handle == 0 && per_thread)) {
    return kPerThread | static_cast<uint64_t>(recorder::thread_id()) << 32;
  }
  return handle == kLegacy ? 0 : handle;
}

uint16_t current_device();

// What the parts of the recorder have to do around a call, outside of its duration.
template <Operation kOperation>
void before_call(ThreadState* state, CUstream stream, bool captured) {
  if constexpr (kOperation == Operation::capture_begin) {
    stamps::before_capture(stream);
    if (nvlink::active()) nvlink::prepare(stream);
  }
  if constexpr (kOperation == Operation::capture_end) stamps::close_capture(stream);
  if constexpr (is_blocking_wait(kOperation)) stamps::before_wait(state);
  if constexpr (kOperation == Operation::kernel) {
    if (!captured) stamps::before_launch(state, stream);
  }
}

template <Operation kOperation>
void after_call(ThreadState* state) {
  if constexpr (kOperation == Operation::device_alloc) {
    // Memory is allocated before anything runs with it.
    nccl::follow_imports();
    if (nvlink::active()) nvlink::prepare(nullptr);
  }
  if constexpr (is_blocking_wait(kOperation)) stamps::after_wait(state);
  if constexpr (kOperation == Operation::graph) stamps::after_graph(state);
}

template <Operation kOperation, Shape kShape, class... A>
nvlink::Transfer begin_transfer(ThreadState* state, const Call& c, CUstream stream, bool captured,
                                A... arguments) {
  if constexpr (kOperation == Operation::kernel) {
    return nvlink::begin_kernel(names::transfer_of(state, c.function), c.function,
                                nvlink::launch_shape(arguments...), stream, captured);
  } else if constexpr (kOperation == Operation::copy) {
    return nvlink::begin_copy(c, kShape, stream, captured);
  } else {
    return {};
  }
}

// Puts a call into the rest of its record, which has its times.
inline void fill(Record& r, const Api& api, const Call& c, bool per_thread, bool captured, CUresult result) {
  r.kind = Kind::call;
  r.operation = api.operation;
  r.flags = static_cast<uint8_t>(api.flags | (captured ? kCaptured : 0));
  r.tid = recorder::thread_id();
  r.stream = stream_key(c.stream, per_thread);
  r.bytes = c.bytes;
  r.object = c.object;
  r.name = api.name();
  r.device = current_device();
  r.memory = c.memory;
  r.copy_kind = c.copy_kind;
  r.result = static_cast<int32_t>(result);
}

template <Operation kOperation, Shape kShape, class F, class... A>
CUresult record_call(const Api& api, bool per_thread, F real, A... arguments) {
  constexpr bool kTransfers = kOperation == Operation::kernel || kOperation == Operation::copy;
  Call c;
  (read(c, arguments), ...);
  const CUstream stream =
      per_thread && !c.stream ? CU_STREAM_PER_THREAD : reinterpret_cast<CUstream>(c.stream);
  bool captured = is_submission(kOperation) && graphs::captures_active() && graphs::is_capturing(stream);
  ThreadState* state = recorder::thread_state();
  const bool emulated =
      emulator::can_charge(kOperation) && api.charged && !captured && config().emulation.active;
  emulator::Toll toll;
  if (emulated) {
    if constexpr (kOperation == Operation::copy) finish(c, kShape);
    toll = emulator::toll_of(kOperation, c, kShape, (api.flags & kSynchronous) != 0);
  }
  before_call<kOperation>(state, stream, captured);
  nvlink::Transfer transfer;
  if (kTransfers && nvlink::active() && api.charged)
    transfer = begin_transfer<kOperation, kShape>(state, c, stream, captured, arguments...);

  Record r{};
  r.start_ns = monotonic_ns();
  const CUresult result = real(arguments...);
  r.end_ns = monotonic_ns();
  if (kTransfers && transfer.slots) nvlink::end(transfer, stream, result);
  // Waiting for an event of a capture takes the stream into it.
  if constexpr (kOperation == Operation::stream_wait)
    captured = captured || (graphs::captures_active() && graphs::is_capturing(stream));
  Charges charges;
  const bool charged = emulated && !captured && !toll.none() && result == CUDA_SUCCESS;
  if (charged) r.end_ns = emulator::charge(toll, stream, r.end_ns, charges);

  after_call<kOperation>(state);
  if constexpr (is_about_graphs(kOperation)) {
    c.object = graphs::after_call(result, arguments...);
  } else if (!captured && !(kOperation == Operation::copy && emulated)) {
    finish(c, kShape);
  }
  fill(r, api, c, per_thread, captured, result);
  if constexpr (kOperation == Operation::kernel) r.link = names::of(state, c.function);
  if (recorder::recording()) recorder::push(r, charged ? &charges : nullptr);
  return result;
}

// Calls that are no rows of their own, but that the recorder has to know of.
void on_stream_created(uint64_t handle);

template <class... A>
void observe_before(const char* symbol, A...) {
  if (symbol[2] != 'C' && symbol[2] != 'D') return;  // cuCtx…, cuDevicePrimaryCtx…
  nvlink::on_contexts_ending();
  stamps::on_contexts_ending();
}

inline void observe_before(const char*, CUstream) { stamps::on_streams_ending(); }  // cuStreamDestroy

template <class... A>
void observe_after(const char*, CUresult result, CUstream* stream, A...) {
  if (result == CUDA_SUCCESS && stream) on_stream_created(bits(*stream));
}
inline void observe_after(const char*, CUresult, CUmodule) { names::forget(); }
inline void observe_after(const char*, CUresult, CUlibrary) { names::forget(); }
inline void observe_after(const char*, CUresult, CUstream) {}
inline void observe_after(const char*, CUresult result, CUcontext context) {  // cuCtxDestroy
  if (result != CUDA_SUCCESS) return;
  nvlink::on_context_gone(context);
  stamps::on_context_gone(context);
}
inline void observe_after(const char*, CUresult result,
                          CUdevice device) {  // cuDevicePrimaryCtxReset, …Release
  if (result != CUDA_SUCCESS) return;
  nvlink::on_primary_context_left(device);
  stamps::on_primary_context_left(device);
}

}  // namespace cctrace
