// A stand-in libcupti.so.13: hands out one record of each enabled kind at every flush, and refuses on demand.
//
// MOCK_CUPTI: ok (default) | cc41 | busy39 (another subscriber) | kernel41 (subscribes, but kernels cannot be
// enabled) |
//             fatal (reports a fatal error at the first flush) | foreign (another tool has changed the clock)
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <set>
#include <utility>
#include <vector>

namespace {

// Newer libraries append fields to records (kernels had 32 bytes more by 13.5); readers must step by
// GetNextRecord only.
constexpr size_t kGrowth = 32;

struct Call {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId id;
  const char* name;
};
constexpr Call kCalls[] = {
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel_v7000"},
    {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020, "cudaEventQuery_v3020"},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync_v2"},
    {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuEventQuery, "cuEventQuery"},
};

std::set<int>& kinds() {
  static auto* s = new std::set<int>;
  return *s;
}
std::set<std::pair<int, uint32_t>>& calls() {
  static auto* s = new std::set<std::pair<int, uint32_t>>;
  return *s;
}

CUpti_BuffersCallbackRequestFunc g_request;
CUpti_BuffersCallbackCompleteFunc g_complete;
CUpti_TimestampCallbackFunc g_timestamp;
CUpti_CallbackFunc g_callback;
bool g_zeroed = false, g_system_threads = false, g_all_syncs = true;
int g_flushes = 0;

bool is(const char* what) {
  const char* mode = getenv("MOCK_CUPTI");
  return mode && !strcmp(mode, what);
}

uint64_t now() {
  if (g_timestamp && !is("foreign")) return g_timestamp();
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

size_t size_of(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10) + kGrowth;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2) + kGrowth;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6) + kGrowth;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4) + kGrowth;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4) + kGrowth;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2) + kGrowth;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3) + kGrowth;
    case CUPTI_ACTIVITY_KIND_CONFIDENTIAL_COMPUTE_ROTATION:
      return sizeof(CUpti_ActivityConfidentialComputeRotation) + kGrowth;
    default:
      return sizeof(CUpti_ActivityAPI) + kGrowth;
  }
}

class Buffer {
 public:
  Buffer() {
    size_t records = 0;
    g_request(&data_, &size_, &records);
    for (size_t i = 0; g_zeroed && i < size_; i++) {
      if (data_[i]) {
        fprintf(stderr, "mock CUPTI: this buffer is not zeroed\n");
        abort();
      }
    }
  }
  ~Buffer() { g_complete(nullptr, 0, data_, size_, used_); }

  template <class T>
  void put(CUpti_ActivityKind kind, T record) {
    if (!kinds().count(kind) || used_ + size_of(kind) > size_) return;
    record.kind = kind;
    memcpy(data_ + used_, &record, sizeof record);
    used_ += size_of(kind);
  }

  void put_call(CUpti_ActivityKind kind, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                uint32_t correlation) {
    if (!calls().count({domain, id}) && !kinds().count(kind)) return;
    CUpti_ActivityAPI a{};
    a.cbid = id;
    a.start = now();
    a.end = a.start + 3000;
    a.threadId = g_system_threads ? 4321 : 1;
    a.correlationId = correlation;
    kinds().insert(kind);
    put(kind, a);
    if (calls().count({domain, id})) kinds().erase(kind);
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0, used_ = 0;
};

template <class T>
void place(T* r, uint64_t start, uint64_t duration, uint32_t stream, uint32_t correlation) {
  r->start = start;
  r->end = duration ? start + duration : 0;
  r->deviceId = 0;
  r->streamId = stream;
  r->correlationId = correlation;
}

void put_kernels(Buffer& buffer) {
  // With graph-level records the kernels of a graph are not recorded one by one.
  const bool nodes = !kinds().count(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  CUpti_ActivityKernel10 kernel{};
  kernel.name = "eager_kernel";
  place(&kernel, now(), 9000, 7, 11);
  buffer.put(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel);
  kernel.name = "kernel_in_a_graph_with_a_long_name_that_needs_more_than_one_block_of_64_bytes_in_the_spool";
  kernel.graphId = 5;
  kernel.graphNodeId = 77;
  place(&kernel, now(), 2000, 7, 12);
  if (nodes) buffer.put(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel);
  CUpti_ActivityKernel10 untimed{};
  untimed.name = "kernel_without_time";
  buffer.put(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, untimed);
  CUpti_ActivityGraphTrace2 graph{};
  graph.graphId = 5;
  place(&graph, now(), 40000, 7, 12);
  buffer.put(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, graph);
}

void put_copies(Buffer& buffer) {
  CUpti_ActivityMemcpy6 copy{};
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  copy.bytes = 4096;
  place(&copy, now(), 1500, 8, 13);
  buffer.put(CUPTI_ACTIVITY_KIND_MEMCPY, copy);
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  copy.flags = 0;
  copy.bytes = 64;
  place(&copy, now(), 1200, 8, 14);
  buffer.put(CUPTI_ACTIVITY_KIND_MEMCPY, copy);
  CUpti_ActivityMemcpyPtoP4 peer{};
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.srcKind = peer.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  peer.bytes = 1 << 20;
  place(&peer, now(), 5000, 9, 15);
  buffer.put(CUPTI_ACTIVITY_KIND_MEMCPY2, peer);
  CUpti_ActivityMemset4 set{};
  set.bytes = 512;
  set.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  place(&set, now(), 800, 8, 16);
  buffer.put(CUPTI_ACTIVITY_KIND_MEMSET, set);
}

void put_others(Buffer& buffer) {
  CUpti_ActivitySynchronization2 sync{};
  sync.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  sync.start = now();
  sync.end = sync.start + 700;
  sync.streamId = 8;
  sync.correlationId = 17;
  buffer.put(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, sync);
  CUpti_ActivityOverhead3 overhead{};
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL;
  overhead.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  overhead.objectId.pt.threadId = 4321;
  overhead.start = now();
  overhead.end = overhead.start + 600;
  if (kinds().count(CUPTI_ACTIVITY_KIND_OVERHEAD)) {
    overhead.overheadData = calloc(1, sizeof(CUpti_ActivityOverheadCommandBufferFullData));
  }
  buffer.put(CUPTI_ACTIVITY_KIND_OVERHEAD, overhead);
  buffer.put_call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API, kCalls[0].id, 11);
  buffer.put_call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API, kCalls[1].id, 18);
  buffer.put_call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API, kCalls[2].id, 13);
  buffer.put_call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API, kCalls[3].id, 19);
}

CUptiResult switch_call(CUpti_CallbackDomain domain, CUpti_CallbackId id, bool on) {
  if (on) {
    calls().insert({domain, id});
  } else {
    calls().erase({domain, id});
  }
  return CUPTI_SUCCESS;
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* v) {
  *v = 130001;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult r, const char** text) {
  *text = r == CUPTI_ERROR_INVALID_KIND ? "CUPTI_ERROR_INVALID_KIND" : "CUPTI_ERROR_MOCK";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* h, CUpti_CallbackFunc f, void*,
                              CUpti_SubscriberParams* p) {
  if (is("cc41")) return CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED;
  if (is("busy39")) {
    if (p && p->oldSubscriberName)
      snprintf(p->oldSubscriberName, p->oldSubscriberSize, "CUPTI for othertool");
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  g_callback = f;
  *h = reinterpret_cast<CUpti_SubscriberHandle>(1);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* h, CUpti_CallbackFunc f, void* u) {
  return cuptiSubscribe_v2(h, f, u, nullptr);
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  g_callback = nullptr;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  for (const Call& call : kCalls) {
    if (call.domain == domain && call.id == id) {
      *name = call.name;
      return CUPTI_SUCCESS;
    }
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_CONFIDENTIAL_COMPUTE_ROTATION) return CUPTI_ERROR_INVALID_KIND;
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && is("kernel41")) {
    return CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED;
  }
  kinds().insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t on) {
  return switch_call(CUPTI_CB_DOMAIN_RUNTIME_API, id, on);
}
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t on) {
  return switch_call(CUPTI_CB_DOMAIN_DRIVER_API, id, on);
}
CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t on) {
  g_all_syncs = on;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r,
                                           CUpti_BuffersCallbackCompleteFunc c) {
  g_request = r;
  g_complete = c;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc f) {
  if (!kinds().empty())
    return CUPTI_ERROR_INVALID_OPERATION;  // too late: earlier records would have another clock
  g_timestamp = f;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* n) {
  *n = 3;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute which, size_t*, void* value) {
  if (which == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) g_zeroed = *static_cast<uint8_t*>(value);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  g_system_threads = type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* next = *record ? reinterpret_cast<uint8_t*>(*record) + size_of((*record)->kind) : buffer;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flags) {
  if (is("fatal") && g_flushes++ == 0) {
    CUpti_StateData data{};
    data.notification.result = CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED;
    data.notification.message = "mock";
    g_callback(nullptr, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR, &data);
    return CUPTI_SUCCESS;
  }
  Buffer buffer;
  if (flags & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) {
    CUpti_ActivityKernel10 unfinished{};
    unfinished.name = "unfinished_kernel";
    place(&unfinished, now(), 0, 7, 20);
    buffer.put(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, unfinished);
    return CUPTI_SUCCESS;
  }
  if (g_all_syncs) {
    fprintf(stderr, "mock CUPTI: records of queries that found nothing ready are wanted\n");
    abort();
  }
  put_kernels(buffer);
  put_copies(buffer);
  put_others(buffer);
  return CUPTI_SUCCESS;
}

}  // extern "C"
