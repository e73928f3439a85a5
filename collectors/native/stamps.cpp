#include "stamps.h"

#include <atomic>
#include <mutex>

#include "config.h"
#include "driver.h"
#include "gpu_functions.h"
#include "graphs.h"
#include "recorder.h"
#include "ring.h"
#include "spool.h"
#include "stamp_ring.h"

namespace cctrace {
namespace stamps {
namespace {

constexpr int kMaxContexts = 32;
constexpr int kMaxCaptures = 64;  // at the same time

struct Capture {
  CUstream stream;
  uint32_t thread;  // only of a thread's own default stream, which all threads call by the same handle
  uint32_t tag;
  Ring* ring;
  bool closed;
};

// Everything below is guarded by g_mutex; the writer holds it while it reads the rings.
std::mutex g_mutex;
Ring g_rings[kMaxContexts];
int g_ring_count = 0;
Capture g_captures[kMaxCaptures];
int g_capture_count = 0;
uint64_t g_stamped = 0, g_skipped = 0, g_noted = 0;

// How often a stream or a context has gone away; guarded as well.
uint32_t g_endings = 0;

std::atomic<uint32_t> g_next_tag{1};

uint32_t next_tag() { return g_next_tag.fetch_add(1) & kTagMask; }

Ring* find_ring(CUcontext context) {
  for (int i = 0; i < g_ring_count; i++) {
    if (g_rings[i].context() == context) return &g_rings[i];
  }
  return nullptr;
}

// The usable ring of the stream's context; made now if that is allowed.
Ring* ring_for(CUstream stream, bool may_create) {
  const CUcontext context = gpu::context_of(stream);
  if (!context) return nullptr;
  Ring* ring = find_ring(context);
  if (!ring && may_create && !graphs::captures_active()) {
    ring = find_ring(nullptr);  // of a context that is gone
    if (!ring && g_ring_count < kMaxContexts) ring = &g_rings[g_ring_count++];
    if (ring) ring->create(context);
  }
  return ring && ring->usable() ? ring : nullptr;
}

uint32_t owner_of(CUstream stream) { return stream == CU_STREAM_PER_THREAD ? recorder::thread_id() : 0; }

Capture* find_capture(CUstream stream) {
  for (int i = 0; i < g_capture_count; i++) {
    if (g_captures[i].stream == stream && g_captures[i].thread == owner_of(stream)) return &g_captures[i];
  }
  return nullptr;
}

// A capture of nothing stays empty: programs look at that.
bool drop_from_empty_graph(CUgraph graph) {
  using Nodes = CUresult (*)(CUgraph, CUgraphNode*, size_t*);
  using Destroy = CUresult (*)(CUgraphNode);
  static const auto nodes = driver::function<Nodes>("cuGraphGetNodes");
  static const auto destroy = driver::function<Destroy>("cuGraphDestroyNode");
  size_t count = 0;
  if (!nodes || !destroy || nodes(graph, nullptr, &count) != CUDA_SUCCESS || count != 2) return false;
  CUgraphNode both[2];
  if (nodes(graph, both, &count) != CUDA_SUCCESS) return false;
  for (CUgraphNode node : both) destroy(node);
  return true;
}

// Eager stamps pause while anything captures: on a capturing stream they would become part of the graph, and
// on the legacy stream they would break the capture.
bool open_eager(ThreadState* state, uint32_t tag, CUstream stream) {
  std::lock_guard<std::mutex> lock(g_mutex);
  if (graphs::captures_active()) return false;
  Ring* ring = ring_for(stream, true);
  state->eager_endings = g_endings;
  return ring && ring->launch(kEager | tag, stream);
}

// A stamp costs two launches per sampled step; steps of graphs carry theirs inside.
void arm(ThreadState* state, uint32_t count) {
  state->eager_armed = count % config().stamp_every == 0 && !state->launched_graph;
  state->launched_graph = false;
}

void close_eager(ThreadState* state) {
  if (!state->eager_tag) return;
  const auto stream = reinterpret_cast<CUstream>(state->eager_stream);
  const uint32_t payload = kEager | kEnd | static_cast<uint32_t>(state->eager_tag);
  state->eager_tag = 0;
  std::lock_guard<std::mutex> lock(g_mutex);
  // The stream may be the one that has gone: the step stays without an end.
  if (graphs::captures_active() || state->eager_endings != g_endings) return;
  Ring* ring = ring_for(stream, false);
  if (ring) ring->launch(payload, stream);
}

void note_counts() {
  if (g_stamped + g_skipped == g_noted) return;
  g_noted = g_stamped + g_skipped;
  spool::note_state("stamps.captures", "stamped", g_stamped);
  spool::note_state("stamps.captures_skipped", "left alone", g_skipped);
}

}  // namespace

bool enabled() { return config().gpu == GpuMode::stamps; }

void before_capture(CUstream stream) {
  if (!enabled()) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  ring_for(stream, true);
}

void open_capture(CUstream stream) {
  if (!enabled()) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  Ring* ring = ring_for(stream, false);
  const uint32_t tag = next_tag();
  if (!ring || g_capture_count == kMaxCaptures || !ring->launch(tag, stream)) {
    g_skipped++;
    return;
  }
  g_captures[g_capture_count++] = {stream, owner_of(stream), tag, ring, false};
}

void skip_capture() {
  if (!enabled()) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  g_skipped++;
}

void close_capture(CUstream stream) {
  if (!enabled()) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  Capture* capture = find_capture(stream);
  if (capture) capture->closed = capture->ring->launch(kEnd | capture->tag, stream);
}

void end_capture(CUstream stream, CUgraph graph) {
  if (!enabled()) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  Capture* capture = find_capture(stream);
  if (!capture) return;
  const Capture ended = *capture;
  *capture = g_captures[--g_capture_count];
  if (!graph || !ended.closed) {
    g_skipped++;
  } else if (!drop_from_empty_graph(graph)) {
    g_stamped++;
    graphs::tag_graph(graph, ended.tag);
  }
}

void before_wait(ThreadState* state) {
  if (state && !state->marks_steps) close_eager(state);
}

void after_wait(ThreadState* state) {
  if (state && enabled() && !state->marks_steps) arm(state, ++state->waits);
}

void before_launch(ThreadState* state, CUstream stream) {
  if (!state || !state->eager_armed) return;
  state->eager_armed = false;
  const uint32_t tag = next_tag();
  if (!open_eager(state, tag, stream)) return;
  state->eager_tag = tag;
  state->eager_stream = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(stream));
}

void after_graph(ThreadState* state) {
  if (state) state->launched_graph = true;
}

void on_step_begin(ThreadState* state) {
  if (!state || !enabled()) return;
  state->marks_steps = true;
  close_eager(state);
  arm(state, ++state->steps);
}

void on_step_end(ThreadState* state) {
  if (state) close_eager(state);
}

void on_streams_ending() {
  if (!enabled()) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  g_endings++;
}

void on_contexts_ending() {
  on_streams_ending();
  if (enabled()) on_tick();
}

void on_context_gone(CUcontext context) {
  if (!enabled() || !context) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  Ring* ring = find_ring(context);
  if (ring) ring->forget();
}

void on_primary_context_left(CUdevice device) {
  if (!enabled() || !gpu::primary_context_is_gone(device)) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  for (int i = 0; i < g_ring_count; i++) {
    if (g_rings[i].context() && g_rings[i].device() == static_cast<uint16_t>(device)) g_rings[i].forget();
  }
}

void on_tick() {
  if (!enabled()) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  for (int i = 0; i < g_ring_count; i++) g_rings[i].read();
  note_counts();
}

void on_finish() {
  on_tick();
  std::lock_guard<std::mutex> lock(g_mutex);
  for (int i = 0; i < g_ring_count; i++) g_rings[i].read_clock();
}

}  // namespace stamps
}  // namespace cctrace
