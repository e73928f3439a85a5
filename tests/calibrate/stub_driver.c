// A libcuda.so.1 with just what the calibration calls: memory is that of the process, all work is done at once.
//
// STUB_GPUS: number of GPUs (default 1). STUB_FAIL: `symbol=code,…`, calls that fail with this code.
// STUB_MANAGED=1: page-locked memory is reported as managed memory. STUB_LOG: file to which calls are appended.
// STUB_COSTS: `symbol=ns,…`, what a call adds to the clock that `stub_now` reads; STUB_REFUSAL: what a call that
// fails adds. No other time passes on that clock.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef uintptr_t Handle;

enum { kInvalidValue = 1, kInvalidHandle = 400, kNotFound = 500, kAlreadyEnabled = 704 };

static Handle next_handle(void) {
  static Handle last = 0x1000;
  return last += 16;
}

static int64_t now_ns;

int64_t stub_now(void) { return now_ns; }

// The number of a symbol in a list `symbol=number,…`; 0 if it is not there.
static int listed(const char* text, const char* symbol) {
  const size_t length = strlen(symbol);
  while (text && *text) {
    if (strncmp(text, symbol, length) == 0 && text[length] == '=') return atoi(text + length + 1);
    text = strchr(text, ',');
    if (text) text++;
  }
  return 0;
}

static void note(const char* what) {
  const char* path = getenv("STUB_LOG");
  if (!path) return;
  FILE* file = fopen(path, "a");
  fprintf(file, "%s\n", what);
  fclose(file);
}

static Result refuse(Result code) {
  const char* cost = getenv("STUB_REFUSAL");
  if (cost) now_ns += atoi(cost);
  note("refused");
  return code;
}

static Result enter(const char* symbol) {
  note(symbol);
  const Result code = listed(getenv("STUB_FAIL"), symbol);
  if (code) return refuse(code);
  now_ns += listed(getenv("STUB_COSTS"), symbol);
  return 0;
}

#define ENTER                              \
  do {                                     \
    const Result code = enter(__func__);   \
    if (code) return code;                 \
  } while (0)
#define MAKES(out)         \
  do {                     \
    ENTER;                 \
    *(out) = next_handle(); \
    return 0;              \
  } while (0)
#define NEEDS(handle)                            \
  do {                                           \
    if (!(handle)) return refuse(kInvalidHandle); \
    ENTER;                                       \
    return 0;                                    \
  } while (0)

Result cuInit(unsigned flags) {
  (void)flags;
  ENTER;
  return 0;
}
Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
Result cuDeviceGetCount(int* count) {
  const char* text = getenv("STUB_GPUS");
  *count = text ? atoi(text) : 1;
  return 0;
}
Result cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
Result cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  snprintf(name, (size_t)size, "Stub GPU");
  return 0;
}
Result cuDeviceGetAttribute(int* value, int which, int device) {
  (void)device;
  *value = which == 132 ? 1 : 4;  // multicast; multiprocessors
  return 0;
}
Result cuDeviceCanAccessPeer(int* can, int from, int to) {
  *can = from != to;
  return 0;
}
Result cuDevicePrimaryCtxRetain(Handle* context, int device) {
  ENTER;
  *context = 0x100 + (Handle)device * 16;
  return 0;
}
Result cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  ENTER;
  return 0;
}
Result cuCtxSetCurrent(Handle context) { NEEDS(context); }
Result cuCtxEnablePeerAccess(Handle context, unsigned flags) {
  (void)flags;
  static Handle enabled[8];
  ENTER;
  for (int i = 0; i < 8; i++) {
    if (enabled[i] == context) return kAlreadyEnabled;
    if (!enabled[i]) {
      enabled[i] = context;
      return 0;
    }
  }
  return kInvalidValue;
}

Result cuStreamCreate(Handle* stream, unsigned flags) {
  (void)flags;
  MAKES(stream);
}
Result cuStreamDestroy_v2(Handle stream) { NEEDS(stream); }
Result cuStreamSynchronize(Handle stream) { NEEDS(stream); }
Result cuStreamBeginCapture_v2(Handle stream, int mode) {
  (void)mode;
  NEEDS(stream);
}
Result cuStreamEndCapture(Handle stream, Handle* graph) {
  (void)stream;
  MAKES(graph);
}
Result cuGraphInstantiateWithFlags(Handle* executable, Handle graph, unsigned long long flags) {
  (void)graph, (void)flags;
  MAKES(executable);
}
Result cuGraphDestroy(Handle graph) { NEEDS(graph); }
Result cuGraphExecDestroy(Handle executable) { NEEDS(executable); }
Result cuGraphLaunch(Handle executable, Handle stream) {
  (void)stream;
  NEEDS(executable);
}

Result cuEventCreate(Handle* event, unsigned flags) {
  (void)flags;
  MAKES(event);
}
Result cuEventDestroy_v2(Handle event) { NEEDS(event); }
Result cuEventRecord(Handle event, Handle stream) {
  (void)stream;
  NEEDS(event);
}
Result cuEventQuery(Handle event) { NEEDS(event); }
Result cuEventSynchronize(Handle event) { NEEDS(event); }

Result cuModuleLoadData(Handle* module, const void* image) {
  if (!strstr(image, ".entry cctrace_nothing")) return kInvalidValue;
  MAKES(module);
}
Result cuModuleUnload(Handle module) { NEEDS(module); }
Result cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  (void)module;
  if (strncmp(name, "cctrace_", 8) != 0) return kNotFound;
  MAKES(function);
}
Result cuLaunchKernel(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, Handle stream, void** parameters, void** extra) {
  (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
  if (!gx || !bx) return kInvalidValue;
  if (parameters && !*(uint64_t*)parameters[0]) return kInvalidValue;
  NEEDS(function);
}

Result cuMemAlloc_v2(Handle* memory, size_t bytes) {
  ENTER;
  *memory = (Handle)calloc(1, bytes);
  return 0;
}
Result cuMemFree_v2(Handle memory) {
  ENTER;
  free((void*)memory);
  return 0;
}
Result cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  (void)flags;
  ENTER;
  *memory = calloc(1, bytes);
  return 0;
}
Result cuMemFreeHost(void* memory) {
  ENTER;
  free(memory);
  return 0;
}
Result cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  (void)bytes, (void)flags;
  ENTER;
  return (uintptr_t)memory % 4096 ? kInvalidValue : 0;
}
Result cuMemHostUnregister(void* memory) {
  (void)memory;
  ENTER;
  return 0;
}
Result cuPointerGetAttribute(void* out, int which, Handle memory) {
  (void)memory;
  const int managed = getenv("STUB_MANAGED") != NULL;
  if (which == 8) {  // is managed
    *(unsigned char*)out = (unsigned char)managed;
  } else {
    *(unsigned*)out = managed ? 2 : 1;
  }
  return 0;
}

static Result move(Handle to, Handle from, size_t bytes) {
  memmove((void*)to, (const void*)from, bytes);
  return 0;
}
Result cuMemcpyHtoDAsync_v2(Handle to, const void* from, size_t bytes, Handle stream) {
  (void)stream;
  ENTER;
  return move(to, (Handle)from, bytes);
}
Result cuMemcpyDtoHAsync_v2(void* to, Handle from, size_t bytes, Handle stream) {
  (void)stream;
  ENTER;
  return move((Handle)to, from, bytes);
}
Result cuMemcpyDtoDAsync_v2(Handle to, Handle from, size_t bytes, Handle stream) {
  (void)stream;
  ENTER;
  return move(to, from, bytes);
}
Result cuMemcpyAsync(Handle to, Handle from, size_t bytes, Handle stream) {
  (void)stream;
  ENTER;
  return move(to, from, bytes);
}
Result cuMemsetD8Async(Handle to, unsigned char value, size_t bytes, Handle stream) {
  (void)stream;
  ENTER;
  memset((void*)to, value, bytes);
  return 0;
}
Result cuMemsetD16Async(Handle to, unsigned short value, size_t count, Handle stream) {
  // Any address will do, as real drivers have it.
  (void)to, (void)value, (void)count, (void)stream;
  ENTER;
  return 0;
}

// The C library's own dlsym and this library's symbols, whatever is preloaded.
static void* find(const char* symbol) {
  static void* (*look)(void*, const char*);
  static void* self;
  if (!look) {
    void* found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!found) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    *(void**)&look = found;
    self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  }
  return look(self, symbol);
}

// The bindings of some versions look names up here, without the suffix of their version.
Result cuGetProcAddress_v2(const char* name, void** out, int version, uint64_t flags, int* status) {
  (void)version, (void)flags;
  const char* const suffixes[] = {"_v3", "_v2", "WithFlags", ""};
  char symbol[128];
  *out = NULL;
  for (size_t i = 0; !*out && i < sizeof suffixes / sizeof *suffixes; i++) {
    snprintf(symbol, sizeof symbol, "%s%s", name, suffixes[i]);
    *out = find(symbol);
  }
  if (status) *status = *out ? 0 : 1;
  return *out ? 0 : kNotFound;
}
Result cuGetProcAddress(const char* name, void** out, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
