// The entry points that the collector wraps, all of them, made from its own table: each counts its calls and
// does what little the tests need. Exported symbols are jumps to them, so cuGetProcAddress answers with other
// addresses, like the driver.
#include <cudaTypedefs.h>
#include <string.h>
#include <unistd.h>

#include "lookup.h"
#include "old_types.h"
#include "state.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace mock {

enum Row {
#define API(operation, name, version, symbol, suffix, type, shape, flags) row_##symbol##_##version,
#include "driver_api.def"
#undef API
  row_count
};
template <int kRow>
struct Tag {};

#define SAME_AS(symbol, version) Tag<row_##symbol##_##version>

// Kernels and graphs.
CUresult behave(SAME_AS(cuLaunchKernel, 4000), CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, CUstream s, void** parameters, void**) {
  if (!capture(s, CU_GRAPH_NODE_TYPE_KERNEL, as<Function*>(f), parameters)) {
    run_kernel(as<Function*>(f), copy_parameters(as<Function*>(f), parameters));
  }
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuLaunchKernelEx, 11060), const CUlaunchConfig* c, CUfunction f, void** parameters,
                void** extra) {
  return behave(SAME_AS(cuLaunchKernel, 4000)(), f, 1, 1, 1, 1, 1, 1, 0, c ? c->hStream : nullptr, parameters,
                extra);
}
CUresult behave(SAME_AS(cuLaunchCooperativeKernel, 9000), CUfunction f, unsigned, unsigned, unsigned,
                unsigned, unsigned, unsigned, unsigned, CUstream s, void** parameters) {
  return behave(SAME_AS(cuLaunchKernel, 4000)(), f, 1, 1, 1, 1, 1, 1, 0, s, parameters, nullptr);
}
CUresult behave(SAME_AS(cuGraphLaunch, 10000), CUgraphExec e, CUstream s) {
  if (!e) return CUDA_ERROR_INVALID_VALUE;
  if (!capture(s, CU_GRAPH_NODE_TYPE_GRAPH)) {
    run_graph(*as<Executable*>(e)->graph);
  } else {
    (*stream(s).last.begin())->child = copy_graph(*as<Executable*>(e)->graph);
  }
  return CUDA_SUCCESS;
}
CUresult instantiate(CUgraphExec* out, CUgraph g) {
  if (!out || !g) return CUDA_ERROR_INVALID_VALUE;
  *out = as<CUgraphExec>(new Executable{copy_graph(*as<Graph*>(g))});
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuGraphInstantiate, 10000), CUgraphExec* out, CUgraph g, CUgraphNode*, char*,
                size_t) {
  return instantiate(out, g);
}
CUresult behave(SAME_AS(cuGraphInstantiate_v2, 11000), CUgraphExec* out, CUgraph g, CUgraphNode*, char*,
                size_t) {
  return instantiate(out, g);
}
CUresult behave(SAME_AS(cuGraphInstantiateWithFlags, 12000), CUgraphExec* out, CUgraph g,
                unsigned long long) {
  return instantiate(out, g);
}
CUresult behave(SAME_AS(cuGraphInstantiateWithFlags, 11040), CUgraphExec* out, CUgraph g,
                unsigned long long) {
  return instantiate(out, g);
}
CUresult behave(SAME_AS(cuGraphInstantiateWithParams, 12000), CUgraphExec* out, CUgraph g,
                CUDA_GRAPH_INSTANTIATE_PARAMS*) {
  return instantiate(out, g);
}
CUresult update(CUgraphExec e, CUgraph g) {
  if (!e || !g) return CUDA_ERROR_INVALID_VALUE;
  Graph*& old = as<Executable*>(e)->graph;
  if (old->nodes.size() != as<Graph*>(g)->nodes.size()) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  old = copy_graph(*as<Graph*>(g));
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuGraphExecUpdate, 10020), CUgraphExec e, CUgraph g, CUgraphNode*,
                CUgraphExecUpdateResult*) {
  return update(e, g);
}
CUresult behave(SAME_AS(cuGraphExecUpdate_v2, 12000), CUgraphExec e, CUgraph g,
                CUgraphExecUpdateResultInfo*) {
  return update(e, g);
}
CUresult behave(SAME_AS(cuGraphClone, 10000), CUgraph* out, CUgraph g) {
  if (!out || !g) return CUDA_ERROR_INVALID_VALUE;
  *out = as<CUgraph>(copy_graph(*as<Graph*>(g)));
  return CUDA_SUCCESS;
}

// Captures.
CUresult begin_capture(CUstream s, CUstreamCaptureMode mode, Graph* graph) {
  Stream& target = stream(s);
  if (!s || target.capture) return CUDA_ERROR_ILLEGAL_STATE;
  static uint64_t id = 0;
  target.capture = std::make_shared<Capture>(Capture{++id, graph, s, mode, false});
  target.last.clear();
  state().captures.insert(target.capture);
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuStreamBeginCapture, 10000), CUstream s) {
  return begin_capture(s, CU_STREAM_CAPTURE_MODE_GLOBAL, new Graph);
}
CUresult behave(SAME_AS(cuStreamBeginCapture_v2, 10010), CUstream s, CUstreamCaptureMode mode) {
  return begin_capture(s, mode, new Graph);
}
CUresult behave(SAME_AS(cuStreamBeginCaptureToGraph, 12030), CUstream s, CUgraph g, const CUgraphNode*,
                const CUgraphEdgeData*, size_t, CUstreamCaptureMode mode) {
  return g ? begin_capture(s, mode, as<Graph*>(g)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult behave(SAME_AS(cuStreamEndCapture, 10000), CUstream s, CUgraph* out) {
  const std::shared_ptr<Capture> ended = stream(s).capture;
  if (!ended || ended->origin != s || !out) return CUDA_ERROR_ILLEGAL_STATE;
  const std::set<Node*> joined = stream(s).last;
  for (auto& each : state().streams) {
    if (each.second.capture == ended) each.second = Stream();
  }
  state().captures.erase(ended);
  *out = nullptr;
  if (ended->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  for (Node* leaf : ended->graph->leaves()) {
    if (!joined.count(leaf)) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *out = as<CUgraph>(ended->graph);
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuEventRecord, 2000), CUevent e, CUstream s) {
  state().events[e] = {stream(s).capture, stream(s).last};
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuEventRecordWithFlags, 11010), CUevent e, CUstream s, unsigned) {
  return behave(SAME_AS(cuEventRecord, 2000)(), e, s);
}
CUresult behave(SAME_AS(cuStreamWaitEvent, 3020), CUstream s, CUevent e, unsigned) {
  const Event& event = state().events[e];
  if (!event.capture || !state().captures.count(event.capture)) return CUDA_SUCCESS;
  stream(s).capture = event.capture;
  stream(s).last.insert(event.after.begin(), event.after.end());
  return CUDA_SUCCESS;
}

// What a capture forbids.
CUresult behave(SAME_AS(cuStreamSynchronize, 2000), CUstream s) { return forbidden_during_capture(s); }
CUresult behave(SAME_AS(cuStreamQuery, 2000), CUstream s) { return forbidden_during_capture(s); }
CUresult behave(SAME_AS(cuCtxSynchronize, 2000)) { return unsafe_during_capture(); }
CUresult behave(SAME_AS(cuCtxSynchronize_v2, 13000), CUcontext) { return unsafe_during_capture(); }
CUresult behave(SAME_AS(cuEventQuery, 2000), CUevent e) {
  const Event& event = state().events[e];
  return event.capture && state().captures.count(event.capture) ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

// Memory.
CUresult allocate(std::map<uintptr_t, size_t>& blocks, void** out, size_t bytes) {
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult refused = unsafe_during_capture()) return refused;
  *out = calloc(1, bytes);
  blocks[reinterpret_cast<uintptr_t>(*out)] = bytes;
  return CUDA_SUCCESS;
}
CUresult release(std::map<uintptr_t, size_t>& blocks, void* p) {
  if (!blocks.erase(reinterpret_cast<uintptr_t>(p))) return CUDA_ERROR_INVALID_VALUE;
  free(p);
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuMemHostAlloc, 2020), void** out, size_t bytes, unsigned) {
  return allocate(state().pinned, out, bytes);
}
CUresult behave(SAME_AS(cuMemAllocHost_v2, 3020), void** out, size_t bytes) {
  return allocate(state().pinned, out, bytes);
}
CUresult behave(SAME_AS(cuMemFreeHost, 2000), void* p) { return release(state().pinned, p); }
CUresult behave(SAME_AS(cuMemHostRegister, 4000), void* p, size_t bytes, unsigned) {
  if (p) state().pinned[reinterpret_cast<uintptr_t>(p)] = bytes;
  return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult behave(SAME_AS(cuMemHostRegister_v2, 6050), void* p, size_t bytes, unsigned flags) {
  return behave(SAME_AS(cuMemHostRegister, 4000)(), p, bytes, flags);
}
CUresult behave(SAME_AS(cuMemHostUnregister, 4000), void* p) {
  return state().pinned.erase(reinterpret_cast<uintptr_t>(p)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult behave(SAME_AS(cuMemAlloc_v2, 3020), CUdeviceptr* out, size_t bytes) {
  const CUresult result = allocate(state().device, reinterpret_cast<void**>(out), bytes);
  if (result == CUDA_SUCCESS) state().memory_device[*out] = current_device();
  return result;
}
CUresult behave(SAME_AS(cuMemAllocManaged, 6000), CUdeviceptr* out, size_t bytes, unsigned) {
  return allocate(state().managed, reinterpret_cast<void**>(out), bytes);
}
CUresult behave(SAME_AS(cuMemFree_v2, 3020), CUdeviceptr p) {
  return release(state().device, reinterpret_cast<void*>(p));
}

// Copies really happen where both ends are memory of this process.
CUresult copy(CUstream s, uintptr_t to, uintptr_t from, size_t bytes) {
  if (capture(s, CU_GRAPH_NODE_TYPE_MEMCPY)) return CUDA_SUCCESS;
  if (to && from && bytes) memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuMemcpyHtoD_v2, 3020), CUdeviceptr to, const void* from, size_t bytes) {
  return copy(nullptr, to, reinterpret_cast<uintptr_t>(from), bytes);
}
CUresult behave(SAME_AS(cuMemcpyDtoH_v2, 3020), void* to, CUdeviceptr from, size_t bytes) {
  return copy(nullptr, reinterpret_cast<uintptr_t>(to), from, bytes);
}
CUresult behave(SAME_AS(cuMemcpyHtoDAsync_v2, 3020), CUdeviceptr to, const void* from, size_t bytes,
                CUstream s) {
  return copy(s, to, reinterpret_cast<uintptr_t>(from), bytes);
}
CUresult behave(SAME_AS(cuMemcpyDtoHAsync_v2, 3020), void* to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy(s, reinterpret_cast<uintptr_t>(to), from, bytes);
}
CUresult behave(SAME_AS(cuMemcpyAsync, 4000), CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return copy(s, to, from, bytes);
}

// Handles.
CUresult behave(SAME_AS(cuStreamCreate, 2000), CUstream* out, unsigned) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = handle<CUstream>();
  if (current_context()) state().stream_contexts[*out] = current_context();
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuStreamCreateWithPriority, 5050), CUstream* out, unsigned flags, int) {
  return behave(SAME_AS(cuStreamCreate, 2000)(), out, flags);
}

CUresult behave(SAME_AS(cuStreamDestroy_v2, 4000), CUstream s) {
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  state().streams.erase(s);
  state().destroyed.insert(s);
  return CUDA_SUCCESS;
}

CUresult behave(SAME_AS(cuCtxDestroy_v2, 4000), CUcontext context) {
  end_context(context);
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuDevicePrimaryCtxReset, 7000), CUdevice device) {
  end_context(primary(device));
  return CUDA_SUCCESS;
}
CUresult behave(SAME_AS(cuDevicePrimaryCtxReset_v2, 11000), CUdevice device) {
  return behave(SAME_AS(cuDevicePrimaryCtxReset, 7000)(), device);
}

// Everything else only has to exist. In a capture, what carries a stream becomes a node of its own.
CUstream stream_of() { return nullptr; }
template <class... A>
CUstream stream_of(CUstream s, A...) {
  return s;
}
template <class T, class... A>
CUstream stream_of(T, A... rest) {
  return stream_of(rest...);
}
template <int kRow, class... A>
CUresult behave(Tag<kRow>, A... arguments) {
  if (const CUstream s = stream_of(arguments...)) capture(s, CU_GRAPH_NODE_TYPE_EMPTY);
  return CUDA_SUCCESS;
}

template <int kRow, bool kPerThread, class F>
struct Entry;
template <int kRow, bool kPerThread, class... A>
struct Entry<kRow, kPerThread, CUresult(CUDAAPI*)(A...)> {
  static const char* entry_name;
  static CUresult call(A... arguments) {
    enter(entry_name);
    std::lock_guard<std::recursive_mutex> lock(state().mutex);
    // As the driver says before cuInit, and in a child of a process that called it.
    if (state().initialized_in != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
    return behave(Tag<kRow>(), arguments...);
  }
};
template <int kRow, bool kPerThread, class... A>
const char* Entry<kRow, kPerThread, CUresult(CUDAAPI*)(A...)>::entry_name = nullptr;

}  // namespace mock

// One variable and one exported jump for each symbol and each flavour.
#define API(operation, name, version, symbol, suffix, type, shape, flags)                      \
  extern "C" {                                                                                 \
  __attribute__((visibility("hidden"), used)) void* entry_##symbol##_##version =               \
      reinterpret_cast<void*>(mock::Entry<mock::row_##symbol##_##version, false, type>::call); \
  __attribute__((visibility("hidden"), used)) void* entry_pt_##symbol##_##version =            \
      reinterpret_cast<void*>(mock::Entry<mock::row_##symbol##_##version, true, type>::call);  \
  }                                                                                            \
  asm(".text\n.ifndef " #symbol "\n.globl " #symbol "\n.type " #symbol ",@function\n" #symbol  \
      ":\n jmp *entry_" #symbol "_" #version "(%rip)\n.endif\n");                              \
  asm(".text\n.ifndef " #symbol suffix "\n.globl " #symbol suffix "\n.type " #symbol suffix    \
      ",@function\n" #symbol suffix ":\n jmp *entry_pt_" #symbol "_" #version "(%rip)\n.endif\n");
#include "driver_api.def"
#undef API

namespace mock {

const std::vector<LookupRow>& wrapped_rows() {
  static const auto* rows = new std::vector<LookupRow>{
#define API(operation, name, version, symbol, suffix, type, shape, flags) \
  {#name, version, entry_##symbol##_##version, suffix[0] ? entry_pt_##symbol##_##version : nullptr},
#include "driver_api.def"
#undef API
  };
  return *rows;
}

namespace {
__attribute__((constructor)) void name_entries() {
#define API(operation, name, version, symbol, suffix, type, shape, flags) \
  Entry<row_##symbol##_##version, false, type>::entry_name = #symbol;     \
  Entry<row_##symbol##_##version, true, type>::entry_name = #symbol suffix;
#include "driver_api.def"
#undef API
}
}  // namespace
}  // namespace mock
