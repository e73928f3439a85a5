#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

namespace mock {

State& state() {
  static State* s = new State;
  return *s;
}

thread_local CUstreamCaptureMode t_capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

Stream& stream(CUstream handle) {
  if (state().destroyed.count(handle)) {
    fprintf(stderr, "mock driver: stream %p was destroyed\n", static_cast<void*>(handle));
    abort();
  }
  return state().streams[handle == CU_STREAM_LEGACY ? nullptr : handle];
}

Node* Graph::add(CUgraphNodeType type, const std::set<Node*>& after) {
  auto* node = new Node;
  node->type = type;
  node->after = after;
  node->owner = this;
  nodes.push_back(node);
  return node;
}

std::set<Node*> Graph::leaves() const {
  std::set<Node*> found(nodes.begin(), nodes.end());
  for (const Node* node : nodes) {
    for (Node* before : node->after) found.erase(before);
  }
  return found;
}

bool capture(CUstream handle, CUgraphNodeType type, Function* function, void** parameters) {
  Stream& s = stream(handle);
  if (!s.capture) return false;
  Node* node = s.capture->graph->add(type, s.last);
  node->function = function;
  node->parameters = copy_parameters(function, parameters);
  s.last = {node};
  return true;
}

CUresult forbidden_during_capture(CUstream handle) {
  Stream& s = stream(handle);
  if (!s.capture) return CUDA_SUCCESS;
  s.capture->broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult unsafe_during_capture() {
  if (t_capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (const auto& c : state().captures) {
    if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    c->broken = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

void run_graph(const Graph& graph) {
  std::set<const Node*> done;
  while (done.size() < graph.nodes.size()) {
    const size_t before = done.size();
    for (const Node* node : graph.nodes) {
      bool ready = !done.count(node);
      for (const Node* needed : node->after) ready = ready && done.count(needed);
      if (!ready) continue;
      if (node->child) run_graph(*node->child);
      if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) run_kernel(node->function, node->parameters);
      done.insert(node);
    }
    if (done.size() == before) abort();  // a cycle
  }
}

Graph* copy_graph(const Graph& graph) {
  auto* copy = new Graph;
  std::map<const Node*, Node*> twin;
  for (const Node* node : graph.nodes) {
    twin[node] = copy->add(node->type, {});
    *twin[node] = *node;
    twin[node]->owner = copy;
    if (node->child) twin[node]->child = copy_graph(*node->child);
  }
  for (Node* node : copy->nodes) {
    std::set<Node*> after;
    for (const Node* before : node->after) after.insert(twin[before]);
    node->after = after;
  }
  return copy;
}

bool contains(const std::map<uintptr_t, size_t>& blocks, uintptr_t p) {
  auto next = blocks.upper_bound(p);
  if (next == blocks.begin()) return false;
  --next;
  return p < next->first + next->second;
}

namespace {

std::map<std::string, uint64_t> read_delays() {
  std::map<std::string, uint64_t> delays;
  const char* text = getenv("MOCK_CUDA_DELAYS");
  for (const char* p = text; p && *p;) {
    const size_t name = strcspn(p, "=");
    delays[std::string(p, name)] = static_cast<uint64_t>(strtod(p + name + 1, nullptr) * 1e3);
    p += strcspn(p, ",");
    if (*p) p++;
  }
  return delays;
}

uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

void enter(const char* symbol) {
  static const auto* delays = new std::map<std::string, uint64_t>(read_delays());
  {
    std::lock_guard<std::recursive_mutex> lock(state().mutex);
    state().calls[symbol]++;
  }
  if (delays->empty()) return;
  auto found = delays->find(symbol);
  if (found == delays->end()) return;
  for (const uint64_t until = now() + found->second; now() < until;) {
  }
}

}  // namespace mock

extern "C" __attribute__((visibility("default"))) uint64_t mock_calls(const char* symbol) {
  std::lock_guard<std::recursive_mutex> lock(mock::state().mutex);
  auto found = mock::state().calls.find(symbol);
  return found == mock::state().calls.end() ? 0 : found->second;
}
