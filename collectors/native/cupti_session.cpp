#include "cupti_session.h"

#include <cupti.h>
#include <stdlib.h>

#include <atomic>
#include <string>

#include "clock.h"
#include "config.h"
#include "cupti_buffers.h"
#include "cupti_calls.h"
#include "cupti_library.h"
#include "recorder.h"
#include "spool.h"

namespace cctrace {
namespace cupti {
namespace {

constexpr const char* kStateKey = "gpu.state";

// Device buffers of 3.2 MB that CUPTI allocates with a context; further ones are allocated on a thread of the
// program in the middle of its work. Its default of 3 holds 300,000 operations, which a node-level recording
// fills in a second.
constexpr size_t kDeviceBuffers = 8;

// A flush after a fault of the GPU may never return; the program ends all the same.
constexpr int kExitTimeoutMs = 2000;

struct KindRequest {
  CUpti_ActivityKind kind;
  const char* name;
};

constexpr KindRequest kGraphs = {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "graph"};
constexpr KindRequest kKernels = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernel"};
constexpr KindRequest kOthers[] = {
    {CUPTI_ACTIVITY_KIND_MEMCPY, "copy"},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "peer copy"},
    {CUPTI_ACTIVITY_KIND_MEMSET, "memset"},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "sync"},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead"},
    {CUPTI_ACTIVITY_KIND_CONFIDENTIAL_COMPUTE_ROTATION, "rotation"},
};

enum class State : uint8_t { off, running, stopped };
std::atomic<State> g_state{State::off};
std::atomic<bool> g_exiting{false};
bool g_was_recording = true;  // at the last tick; the writer thread's own
Functions g_functions;

uint64_t CUPTIAPI timestamp() { return monotonic_ns(); }

std::string explain(const char* what, CUptiResult result, const char* other_tool = "") {
  switch (result) {
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      return "CUPTI does not trace under confidential computing (error 41); --gpu stamps works there";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "another CUPTI tool is attached" +
             (*other_tool ? " (" + std::string(other_tool) + ")" : std::string()) + " (error 39)";
    default:
      return std::string(what) + ": " + result_text(g_functions, result) + " (error " +
             std::to_string(static_cast<int>(result)) + ")";
  }
}

void refuse(const std::string& reason, CUptiResult result) {
  recorder::warn_once("no GPU rows: %s. Host calls are recorded.", reason.c_str());
  spool::note_state(kStateKey, ("refused: " + reason).c_str(), static_cast<uint64_t>(result));
}

// CUPTI reports errors that it meets after the start. A fatal one means that it has shut itself down.
void CUPTIAPI state_changed(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_STATE || !data) return;
  const auto* state = static_cast<const CUpti_StateData*>(data);
  const char* message = state->notification.message ? state->notification.message : "no message";
  const std::string reason = explain(message, state->notification.result);
  const bool fatal = id == CUPTI_CBID_STATE_FATAL_ERROR;
  if (fatal) g_state = State::stopped;
  recorder::warn_once("%s: %s. Host calls are recorded.", fatal ? "GPU rows end here" : "CUPTI reports",
                      reason.c_str());
  spool::note_state(fatal ? kStateKey : "gpu.message", ((fatal ? "stopped: " : "") + reason).c_str(),
                    static_cast<uint64_t>(state->notification.result));
}

// Subscribing is not needed for activity records; it is how two CUPTI tools learn of each other.
CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, char* other_tool, size_t size) {
  if (!g_functions.cuptiSubscribe_v2) return g_functions.cuptiSubscribe(subscriber, state_changed, nullptr);
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = "cctrace";
  params.oldSubscriberName = other_tool;
  params.oldSubscriberSize = size;
  return g_functions.cuptiSubscribe_v2(subscriber, state_changed, nullptr, &params);
}

// What may fail without harm: it is noted, and the rest goes on.
void tolerate(const char* what, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  spool::note_state((std::string("gpu.without.") + what).c_str(), result_text(g_functions, result),
                    static_cast<uint64_t>(result));
}

// Exit handlers run in reverse order: the recorder's was registered before libcupti was loaded, so by the
// time it runs CUPTI may be gone. This one comes after, and has the writer thread flush while CUPTI is still
// there.
void at_exit() {
  g_exiting = true;
  recorder::flush(kExitTimeoutMs);
}

void enable_rest(bool graphs) {
  if (graphs) tolerate(kKernels.name, g_functions.cuptiActivityEnable(kKernels.kind));
  for (const KindRequest& request : kOthers) {
    tolerate(request.name, g_functions.cuptiActivityEnable(request.kind));
  }
  tolerate("host calls", enable_calls(g_functions));
  if (g_functions.cuptiActivityEnableAllSyncRecords) {
    // Queries that find work unfinished: programs poll, and each poll would be a record.
    tolerate("ready queries only", g_functions.cuptiActivityEnableAllSyncRecords(0));
  }
}

// Everything that must hold before the first activity kind is enabled.
CUptiResult prepare(const char** what) {
  *what = "thread ids";
  CUptiResult result = g_functions.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  if (result != CUPTI_SUCCESS) return result;
  *what = "time stamps";
  result = g_functions.cuptiActivityRegisterTimestampCallback(timestamp);
  if (result != CUPTI_SUCCESS) return result;
  size_t buffers = kDeviceBuffers;
  size_t size = sizeof buffers;
  tolerate("device buffers", g_functions.cuptiActivitySetAttribute(
                                 CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, &size, &buffers));
  *what = "buffers";
  return register_buffers(g_functions);
}

void start() {
  const bool graphs = config().gpu == GpuMode::graphs;
  std::string where;
  if (!load(&g_functions, &where)) return refuse(where, CUPTI_ERROR_UNKNOWN);
  uint32_t version = 0;
  g_functions.cuptiGetVersion(&version);
  spool::note_state("gpu.libcupti", where.c_str(), version);

  CUpti_SubscriberHandle subscriber = nullptr;
  char other_tool[128] = "";
  CUptiResult result = subscribe(&subscriber, other_tool, sizeof other_tool);
  if (result != CUPTI_SUCCESS) return refuse(explain("cuptiSubscribe", result, other_tool), result);
  tolerate("state messages", g_functions.cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_STATE));

  learn_calls(g_functions);
  const char* what = "";
  result = prepare(&what);
  if (result == CUPTI_SUCCESS) {
    const KindRequest& essential = graphs ? kGraphs : kKernels;
    what = essential.name;
    result = g_functions.cuptiActivityEnable(essential.kind);
  }
  if (result != CUPTI_SUCCESS) {
    g_functions.cuptiUnsubscribe(subscriber);
    return refuse(explain(what, result), result);
  }
  enable_rest(graphs);
  g_state = State::running;
  atexit(at_exit);
  spool::note_state(kStateKey, graphs ? "recording graphs" : "recording nodes");
}

void flush(uint32_t flags) {
  const CUptiResult result = g_functions.cuptiActivityFlushAll(flags);
  if (result == CUPTI_SUCCESS) return;
  recorder::warn_once("GPU rows may be missing: %s", explain("cuptiActivityFlushAll", result).c_str());
  spool::note_state("gpu.flush", result_text(g_functions, result), static_cast<uint64_t>(result));
}

// A buffer that comes back now may hold records of the time before this tick: it is dropped only if nothing
// was wanted then either.
void follow_window() {
  const bool recording = recorder::recording();
  keep_records(recording || g_was_recording);
  g_was_recording = recording;
}

}  // namespace

void on_tick() {
  if (g_state != State::running) return;
  follow_window();
  flush(0);
  report_losses();
  if (g_exiting) on_finish();
}

void on_finish() {
  if (g_state != State::running) return;
  // A forced flush also hands out records without an end, and they never come again: only now.
  flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  g_state = State::stopped;
  report_losses();
  size_t dropped = 0;
  if (g_functions.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS && dropped) {
    spool::note_loss("CUPTI: dropped", dropped);
  }
}

}  // namespace cupti
}  // namespace cctrace

int InitializeInjection(void) {
  using namespace cctrace;
  static std::atomic<bool> called{false};
  if (called.exchange(true)) return 1;
  if (config().gpu != GpuMode::graphs && config().gpu != GpuMode::nodes) return 1;
  if (recorder::start()) cupti::start();
  return 1;
}
