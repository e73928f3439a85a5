// Captures that are under way, and which executable graph carries which stamps.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace cctrace {
namespace graphs {

extern std::atomic<int> g_captures;

inline bool captures_active() { return g_captures.load(std::memory_order_relaxed) > 0; }

// True if work given to the stream is recorded into a graph instead of submitted.
bool is_capturing(CUstream stream);

// A graph that was captured between stamps of this tag; clones, instances and updates follow.
void tag_graph(CUgraph graph, uint64_t tag);

namespace detail {
void instantiated(CUgraphExec executable, CUgraph graph);
void cloned(CUgraph copy, CUgraph original);
void destroyed(CUgraph graph);
void capture_ended(CUstream stream, CUgraph graph);
void capture_begun(CUstream stream);
void capture_into_graph_begun();
}  // namespace detail

// After a call about graphs; returns the handle that identifies its subject. Told apart by their argument
// types.
template <class... A>
uint64_t after_call(CUresult result, CUgraphExec* executable, CUgraph graph, A...) {  // cuGraphInstantiate…
  if (result != CUDA_SUCCESS || !executable) return 0;
  detail::instantiated(*executable, graph);
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(*executable));
}
template <class... A>
uint64_t after_call(CUresult result, CUgraphExec executable, CUgraph graph, A...) {  // cuGraphExecUpdate
  if (result == CUDA_SUCCESS) detail::instantiated(executable, graph);
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(executable));
}
inline uint64_t after_call(CUresult, CUgraphExec executable) {  // cuGraphExecDestroy
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(executable));
}
inline uint64_t after_call(CUresult, CUgraphExec executable, CUstream) {  // cuGraphUpload
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(executable));
}
inline uint64_t after_call(CUresult result, CUgraph* copy, CUgraph original) {  // cuGraphClone
  if (result != CUDA_SUCCESS || !copy) return 0;
  detail::cloned(*copy, original);
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(*copy));
}
inline uint64_t after_call(CUresult result, CUgraph graph) {  // cuGraphDestroy
  if (result == CUDA_SUCCESS) detail::destroyed(graph);
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(graph));
}
inline uint64_t after_call(CUresult result, CUstream stream, CUgraph* graph) {  // cuStreamEndCapture
  const CUgraph captured = result == CUDA_SUCCESS && graph ? *graph : nullptr;
  detail::capture_ended(stream, captured);
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(captured));
}
template <class... A>
uint64_t after_call(CUresult result, CUstream, CUgraph graph, A...) {  // cuStreamBeginCaptureToGraph
  // The graph may be the body of a conditional node, or have nodes already: it is left alone.
  if (result == CUDA_SUCCESS) detail::capture_into_graph_begun();
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(graph));
}
inline uint64_t after_call(CUresult result, CUstream stream) {  // cuStreamBeginCapture, first version
  if (result == CUDA_SUCCESS) detail::capture_begun(stream);
  return 0;
}
inline uint64_t after_call(CUresult result, CUstream stream,
                           CUstreamCaptureMode) {  // cuStreamBeginCapture_v2
  return after_call(result, stream);
}

}  // namespace graphs
}  // namespace cctrace
