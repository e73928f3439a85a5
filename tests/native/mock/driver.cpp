// The rest of the stand-in driver: start, look-up, contexts, modules, questions about streams and pointers.
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lookup.h"
#include "state.h"

// cuda.h renames functions to their newest versions; here each is defined under its own name.
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies
#undef cuGetProcAddress
#undef cuCtxGetDevice
#undef cuDeviceGetUuid
#undef cuDeviceTotalMem

#pragma GCC diagnostic ignored "-Wunused-parameter"

using namespace mock;

namespace {

constexpr int kVersion = 13000;
thread_local std::vector<CUcontext> t_contexts;  // the last one is current

// One context a device.
constexpr uintptr_t kFirstContext = 0x1000;

int device_count() {
  const char* text = getenv("MOCK_CUDA_DEVICES");
  return text ? atoi(text) : 1;
}

struct Lock {
  std::lock_guard<std::recursive_mutex> guard{state().mutex};
};

CUresult capture_info(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode** nodes, size_t* count) {
  Lock lock;
  const Stream& target = stream(s);
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  *status = !target.capture          ? CU_STREAM_CAPTURE_STATUS_NONE
            : target.capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!target.capture) return CUDA_SUCCESS;
  if (id) *id = target.capture->id;
  if (graph) *graph = as<CUgraph>(target.capture->graph);
  static thread_local std::vector<CUgraphNode> list;
  list.clear();
  for (Node* node : target.last) list.push_back(as<CUgraphNode>(node));
  if (nodes) *nodes = list.data();
  if (count) *count = list.size();
  return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream s, CUgraphNode* nodes, size_t count, unsigned flags) {
  Lock lock;
  Stream& target = stream(s);
  if (!target.capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) target.last.clear();
  for (size_t i = 0; i < count; i++) target.last.insert(as<Node*>(nodes[i]));
  return CUDA_SUCCESS;
}

void load_injection() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (!path || !*path) return;
  void* library = dlopen(path, RTLD_NOW);
  if (!library) {
    fprintf(stderr, "mock driver: %s\n", dlerror());
    return;
  }
  auto initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialize) initialize();
}

int device_of(CUdeviceptr p) {
  auto next = state().memory_device.upper_bound(p);
  return next == state().memory_device.begin() ? 0 : (--next)->second;
}

CUresult attribute(void* out, CUpointer_attribute which, CUdeviceptr p) {
  Lock lock;
  const bool pinned = contains(state().pinned, p), device = contains(state().device, p),
             managed = contains(state().managed, p);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(out) = pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(out) = managed;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = device_of(p);
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return pinned || device || managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  static pid_t once = 0;
  if (once && once != getpid())
    return CUDA_ERROR_NOT_INITIALIZED;  // a child of a process that used the driver
  if (once) return CUDA_SUCCESS;
  once = getpid();
  state().initialized_in = once;
  load_injection();
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* v) {
  *v = kVersion;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** text) {
  *text = "MOCK_ERROR";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) { return cuGetErrorName(CUDA_SUCCESS, text); }

// Devices and contexts: one context a device.
CUresult cuDeviceGetCount(int* n) {
  *n = device_count();
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* d, int ordinal) {
  *d = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  snprintf(name, static_cast<size_t>(size), "mock GPU");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  const bool major = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
  *value = major ? 9 : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0 : 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice d) {
  Lock lock;
  *c = primary(d);
  state().ended.erase(*c);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned* flags, int* active) {
  Lock lock;
  *flags = 0;
  *active = !state().ended.count(primary(d));
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* c) {
  *c = current_context();
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext c) {
  if (!t_contexts.empty()) t_contexts.pop_back();
  if (c) t_contexts.push_back(c);
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext c) {
  Lock lock;
  if (state().ended.count(c)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  t_contexts.push_back(c);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* c) {
  if (c) *c = current_context();
  if (!t_contexts.empty()) t_contexts.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* d) {
  *d = current_device();
  return current_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuCtxGetId(CUcontext, unsigned long long* id) {
  *id = 1;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream s, CUcontext* c) {
  Lock lock;
  const auto made = state().stream_contexts.find(s);
  *c = made != state().stream_contexts.end() ? made->second : current_context();
  return *c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

// Modules: every name is found in every module.
CUresult cuModuleLoadData(CUmodule* m, const void*) {
  Lock lock;
  if (const CUresult refused = unsafe_during_capture()) return refused;
  *m = handle<CUmodule>();
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule* m, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(m, image);
}
CUresult cuModuleGetFunction(CUfunction* f, CUmodule, const char* name) {
  Lock lock;
  auto* function = new Function{name};
  state().functions.insert(function);
  *f = as<CUfunction>(function);
  return CUDA_SUCCESS;
}
CUresult cuLibraryLoadData(CUlibrary* l, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  Lock lock;
  if (const CUresult refused = unsafe_during_capture()) return refused;
  *l = handle<CUlibrary>();
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* k, CUlibrary, const char* name) {
  return cuModuleGetFunction(reinterpret_cast<CUfunction*>(k), nullptr, name);
}
CUresult cuKernelGetFunction(CUfunction* f, CUkernel k) {
  *f = reinterpret_cast<CUfunction>(k);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetName(const char** name, CUfunction f) {
  Lock lock;
  if (!state().functions.count(as<Function*>(f))) return CUDA_ERROR_INVALID_HANDLE;
  *name = as<Function*>(f)->name.c_str();
  return CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** name, CUkernel k) {
  return cuFuncGetName(name, reinterpret_cast<CUfunction>(k));
}

// Questions about pointers: host memory that the driver does not know is no pointer to it.
CUresult cuPointerGetAttribute(void* out, CUpointer_attribute which, CUdeviceptr p) {
  return attribute(out, which, p);
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** out, CUdeviceptr p) {
  enter("cuPointerGetAttributes");
  // Unlike the single question, this one succeeds for unknown pointers and answers zero.
  for (unsigned i = 0; i < count; i++) {
    if (attribute(out[i], which[i], p) != CUDA_SUCCESS) memset(out[i], 0, sizeof(unsigned));
  }
  return CUDA_SUCCESS;
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* p, unsigned) {
  *out = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}

// Questions about streams and events.
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
  return capture_info(s, status, nullptr, nullptr, nullptr, nullptr);
}
CUresult cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return capture_info(s, status, id, nullptr, nullptr, nullptr);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** nodes, size_t* count) {
  return capture_info(s, status, id, graph, nodes, count);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
  if (edges) *edges = nullptr;
  return capture_info(s, status, id, graph, nodes, count);
}
CUresult cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode* nodes, size_t count, unsigned flags) {
  return update_dependencies(s, nodes, count, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream s, CUgraphNode* nodes, const CUgraphEdgeData*,
                                              size_t count, unsigned flags) {
  return update_dependencies(s, nodes, count, flags);
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, t_capture_mode);
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* e, unsigned) {
  Lock lock;
  *e = handle<CUevent>();
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float* ms, CUevent, CUevent) {
  *ms = 0;
  return CUDA_SUCCESS;
}

// Submissions that no table of the collector names.
CUresult cuLaunchTomorrowsKernel(CUfunction, CUstream) {
  enter("cuLaunchTomorrowsKernel");
  return CUDA_SUCCESS;
}
CUresult cuMemcpyTomorrowAsync(CUdeviceptr, CUdeviceptr, size_t, CUstream) {
  enter("cuMemcpyTomorrowAsync");
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* name, void** out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* found) {
  *out = nullptr;
  const LookupRow* best = nullptr;
  bool known = false;
  for (const auto* rows : {&wrapped_rows(), &other_rows()}) {
    for (const LookupRow& row : *rows) {
      if (strcmp(row.name, name) != 0) continue;
      known = true;
      if (row.version <= version && (!best || row.version >= best->version)) best = &row;
    }
  }
  if (best)
    *out = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) && best->per_thread ? best->per_thread
                                                                                       : best->function;
  if (found) {
    *found = best    ? CU_GET_PROC_ADDRESS_SUCCESS
             : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                     : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return best ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetProcAddress(const char* name, void** out, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}

}  // extern "C"

namespace mock {

CUcontext current_context() { return t_contexts.empty() ? nullptr : t_contexts.back(); }

int current_device() {
  return current_context() ? static_cast<int>(reinterpret_cast<uintptr_t>(current_context()) - kFirstContext)
                           : 0;
}

CUcontext primary(CUdevice device) {
  return reinterpret_cast<CUcontext>(kFirstContext + static_cast<uintptr_t>(device));
}

void end_context(CUcontext context) { state().ended.insert(context); }

const std::vector<LookupRow>& other_rows() {
#define ROW(name, version, function)                             \
  {                                                              \
    name, version, reinterpret_cast<void*>(&::function), nullptr \
  }
  static const auto* rows = new std::vector<LookupRow>{
      ROW("cuInit", 2000, cuInit),
      ROW("cuDriverGetVersion", 2020, cuDriverGetVersion),
      ROW("cuGetProcAddress", 11030, cuGetProcAddress),
      ROW("cuGetProcAddress", 12000, cuGetProcAddress_v2),
      ROW("cuGetErrorName", 6000, cuGetErrorName),
      ROW("cuGetErrorString", 6000, cuGetErrorString),
      ROW("cuDeviceGetCount", 2000, cuDeviceGetCount),
      ROW("cuDeviceGet", 2000, cuDeviceGet),
      ROW("cuDeviceGetName", 2000, cuDeviceGetName),
      ROW("cuDeviceGetAttribute", 2000, cuDeviceGetAttribute),
      ROW("cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain),
      ROW("cuCtxGetCurrent", 4000, cuCtxGetCurrent),
      ROW("cuCtxSetCurrent", 4000, cuCtxSetCurrent),
      ROW("cuCtxPushCurrent", 4000, cuCtxPushCurrent),
      ROW("cuCtxPopCurrent", 4000, cuCtxPopCurrent),
      ROW("cuCtxGetDevice", 2000, cuCtxGetDevice),
      ROW("cuModuleLoadData", 2000, cuModuleLoadData),
      ROW("cuModuleGetFunction", 2000, cuModuleGetFunction),
      ROW("cuFuncGetName", 12030, cuFuncGetName),
      ROW("cuKernelGetName", 12030, cuKernelGetName),
      ROW("cuPointerGetAttribute", 4000, cuPointerGetAttribute),
      ROW("cuPointerGetAttributes", 7000, cuPointerGetAttributes),
      ROW("cuStreamIsCapturing", 10000, cuStreamIsCapturing),
      ROW("cuStreamGetCaptureInfo", 10010, cuStreamGetCaptureInfo),
      ROW("cuStreamGetCaptureInfo", 11030, cuStreamGetCaptureInfo_v2),
      ROW("cuStreamGetCaptureInfo", 12030, cuStreamGetCaptureInfo_v3),
      ROW("cuStreamUpdateCaptureDependencies", 11030, cuStreamUpdateCaptureDependencies),
      ROW("cuStreamUpdateCaptureDependencies", 12030, cuStreamUpdateCaptureDependencies_v2),
      ROW("cuEventCreate", 2000, cuEventCreate),
      ROW("cuLaunchTomorrowsKernel", 2000, cuLaunchTomorrowsKernel),
      ROW("cuMemcpyTomorrowAsync", 2000, cuMemcpyTomorrowAsync),
  };
#undef ROW
  return *rows;
}

}  // namespace mock
