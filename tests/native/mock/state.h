// What the stand-in driver remembers: streams, captures, graphs, modules, memory. One lock guards it all.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace mock {

struct Function {
  std::string name;
};

struct Node {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Function* function = nullptr;
  std::vector<std::vector<uint8_t>> parameters;
  std::set<Node*> after;
  struct Graph* child = nullptr;
  struct Graph* owner = nullptr;
};

struct Graph {
  std::vector<Node*> nodes;
  Node* add(CUgraphNodeType type, const std::set<Node*>& after);
  std::set<Node*> leaves() const;
};

struct Capture {
  uint64_t id = 0;
  Graph* graph = nullptr;
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool broken = false;
};

struct Stream {
  std::shared_ptr<Capture> capture;
  std::set<Node*> last;
};

struct Event {
  std::shared_ptr<Capture> capture;
  std::set<Node*> after;
};

struct Executable {
  Graph* graph = nullptr;
};

struct State {
  std::recursive_mutex mutex;
  pid_t initialized_in = 0;
  std::map<CUstream, Stream> streams;
  std::set<CUstream> destroyed;
  std::map<CUevent, Event> events;
  std::map<uintptr_t, size_t> pinned, device, managed;
  std::map<uintptr_t, int> memory_device;  // of device memory, by the begin of its block
  std::map<CUstream, CUcontext> stream_contexts;
  std::set<CUcontext> ended;
  std::set<Function*> functions;
  std::set<std::shared_ptr<Capture>> captures;
  std::map<std::string, uint64_t> calls;
  uint64_t next_handle = 0x10000;
};

State& state();

// The calling thread's context and its device; null and 0: none.
CUcontext current_context();
int current_device();

// The context of a device, which ends with all that was made in it.
CUcontext primary(CUdevice device);
void end_context(CUcontext context);

extern thread_local CUstreamCaptureMode t_capture_mode;

// The stream that a handle means. Every handle is valid until it is destroyed; the driver would crash then,
// so does this.
Stream& stream(CUstream handle);

// Adds what a captured call does to the graph under construction; false if the stream is not being captured.
bool capture(CUstream handle, CUgraphNodeType type, Function* function = nullptr,
             void** parameters = nullptr);

// A call that a capture forbids breaks the captures it forbids it for, as the driver does.
// (unless the thread has exchanged its mode for the relaxed one).
CUresult forbidden_during_capture(CUstream handle);
CUresult unsafe_during_capture();

// Runs a kernel: only the collector's own do anything.
void run_kernel(const Function* function, const std::vector<std::vector<uint8_t>>& parameters);
std::vector<std::vector<uint8_t>> copy_parameters(const Function* function, void** parameters);
void run_graph(const Graph& graph);
Graph* copy_graph(const Graph& graph);

// Counts a call and spends the time that MOCK_CUDA_DELAYS asks for ("symbol=microseconds,…").
void enter(const char* symbol);

bool contains(const std::map<uintptr_t, size_t>& blocks, uintptr_t p);

template <class T>
T handle() {
  return reinterpret_cast<T>(state().next_handle += 16);
}

template <class T>
T as(const void* p) {
  return reinterpret_cast<T>(const_cast<void*>(p));
}

}  // namespace mock
