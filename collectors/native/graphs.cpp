#include "graphs.h"

#include <mutex>
#include <unordered_map>

#include "clock.h"
#include "driver.h"
#include "record.h"
#include "recorder.h"
#include "spool.h"
#include "stamps.h"

namespace cctrace {
namespace graphs {
namespace {

struct Tags {
  std::mutex mutex;
  std::unordered_map<CUgraph, uint64_t> of_graph;
};

// Leaked: driver calls come until the very end of the process.
Tags& tags() {
  static auto* t = new Tags;
  return *t;
}

}  // namespace

std::atomic<int> g_captures{0};

bool is_capturing(CUstream stream) {
  using Query = CUresult (*)(CUstream, CUstreamCaptureStatus*);
  static const auto query = driver::function<Query>("cuStreamIsCapturing");
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return query && query(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void tag_graph(CUgraph graph, uint64_t tag) {
  std::lock_guard<std::mutex> lock(tags().mutex);
  tags().of_graph[graph] = tag;
}

namespace detail {

void instantiated(CUgraphExec executable, CUgraph graph) {
  uint64_t tag = 0;
  {
    std::lock_guard<std::mutex> lock(tags().mutex);
    auto found = tags().of_graph.find(graph);
    if (found != tags().of_graph.end()) tag = found->second;
  }
  // Also without stamps: an executable that was updated must not keep the tag it had.
  Record r{};
  r.kind = Kind::binding;
  r.start_ns = r.end_ns = monotonic_ns();
  r.tid = recorder::thread_id();
  r.object = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(executable));
  r.bytes = tag;
  recorder::push(r);
}

void cloned(CUgraph copy, CUgraph original) {
  std::lock_guard<std::mutex> lock(tags().mutex);
  auto found = tags().of_graph.find(original);
  if (found != tags().of_graph.end()) {
    const uint64_t tag = found->second;
    tags().of_graph[copy] = tag;
  }
}

void destroyed(CUgraph graph) {
  std::lock_guard<std::mutex> lock(tags().mutex);
  tags().of_graph.erase(graph);
}

void capture_begun(CUstream stream) {
  g_captures++;
  stamps::open_capture(stream);
}

void capture_into_graph_begun() {
  g_captures++;
  stamps::skip_capture();
}

void capture_ended(CUstream stream, CUgraph graph) {
  // The count can only go wrong towards 0, which costs the mark "captured", never a call.
  int count = g_captures.load();
  while (count > 0 && !g_captures.compare_exchange_weak(count, count - 1)) {
  }
  stamps::end_capture(stream, graph);
}

}  // namespace detail
}  // namespace graphs
}  // namespace cctrace
