#include "interposer.h"

// Keeps cuda.h from renaming older entry points to newer ones, and declares them all.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaTypedefs.h>
#include <string.h>

#include <atomic>
#include <type_traits>

#include "driver.h"
#include "hook.h"
#include "nccl_imports.h"
#include "unknown.h"

namespace cctrace {

uint16_t current_device() {
  using Query = CUresult (*)(CUdevice*);
  static const auto query = driver::function<Query>("cuCtxGetDevice");
  CUdevice device = 0;
  return query && query(&device) == CUDA_SUCCESS ? static_cast<uint16_t>(device) : kNoDevice;
}

void on_stream_created(uint64_t handle) {
  // NCCL makes streams for every communicator, so whoever will use it is loaded now.
  nccl::follow_imports();
  Record r{};
  r.kind = Kind::stream;
  r.start_ns = r.end_ns = monotonic_ns();
  r.tid = recorder::thread_id();
  r.object = handle;
  r.device = current_device();
  recorder::push(r);
}

namespace interposer {
namespace {

enum Row : int {
#define API(operation, name, version, symbol, suffix, type, shape, flags) k_##symbol##_##version,
#include "driver_api.def"
#undef API
  kRows
};

Api g_api[] = {
#define API(operation, name, version, symbol, suffix, type, shape, flags) \
  {#symbol, suffix, Operation::operation, Shape::shape, flags},
#include "driver_api.def"
#undef API
};

const Api& api(int row) { return g_api[row]; }

template <int kRow, bool kPerThread, Operation kOperation, Shape kShape, class F>
struct Hook;

// One function per row and flavour; `real` is what the driver gave for it.
template <int kRow, bool kPerThread, Operation kOperation, Shape kShape, class... A>
struct Hook<kRow, kPerThread, kOperation, kShape, CUresult (*)(A...)> {
  using Function = CUresult (*)(A...);
  static std::atomic<void*> real;

  static Function target() {
    void* known = real.load(std::memory_order_relaxed);
    if (!known) {
      // Reached through the dynamic linker, without any look-up before.
      char symbol[96];
      strcpy(symbol, api(kRow).symbol);
      if (kPerThread) strcat(symbol, api(kRow).suffix);
      known = driver::symbol(symbol);
      real.store(known, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function>(known);
  }

  static CUresult call(A... arguments) {
    const Function function = target();
    if (!function) return CUDA_ERROR_NOT_FOUND;
    if (!recorder::start()) return function(arguments...);
    if constexpr (kOperation == Operation::none) {
      observe_before(api(kRow).symbol, arguments...);
      const CUresult result = function(arguments...);
      observe_after(api(kRow).symbol, result, arguments...);
      return result;
    } else {
      // An emulated platform does not get faster when the window of the recording closes.
      const bool follow = is_about_graphs(kOperation) || config().emulation.active;
      if (!recorder::recording() && !follow) return function(arguments...);
      return record_call<kOperation, kShape>(api(kRow), kPerThread, function, arguments...);
    }
  }
};
template <int kRow, bool kPerThread, Operation kOperation, Shape kShape, class... A>
std::atomic<void*> Hook<kRow, kPerThread, kOperation, kShape, CUresult (*)(A...)>::real{nullptr};

struct Entry {
  const char* name;
  int version;
  const char* symbol;
  const char* suffix;
  void* call[2];  // legacy, per-thread default stream
  std::atomic<void*>* real[2];
};

#define CCTRACE_HOOK(operation, version, symbol, type, shape, per_thread) \
  Hook<k_##symbol##_##version, per_thread, cctrace::Operation::operation, cctrace::Shape::shape, type>
const Entry kEntries[] = {
#define API(operation, name, version, symbol, suffix, type, shape, flags)                        \
  {#name,                                                                                        \
   version,                                                                                      \
   #symbol,                                                                                      \
   suffix,                                                                                       \
   {reinterpret_cast<void*>(CCTRACE_HOOK(operation, version, symbol, type, shape, false)::call), \
    reinterpret_cast<void*>(CCTRACE_HOOK(operation, version, symbol, type, shape, true)::call)}, \
   {&CCTRACE_HOOK(operation, version, symbol, type, shape, false)::real,                         \
    &CCTRACE_HOOK(operation, version, symbol, type, shape, true)::real}},
#include "driver_api.def"
#undef API
};

void* use(const Entry& entry, int flavour, void* real) {
  if (real != entry.call[flavour]) entry.real[flavour]->store(real, std::memory_order_relaxed);
  return entry.call[flavour];
}

bool is_suffixed(const char* text, const char* stem, const char* suffix) {
  const size_t length = strlen(stem);
  return !strncmp(text, stem, length) && !strcmp(text + length, suffix);
}

// Versions of entry points that are newer than the headers of this build may take other arguments.
bool same_as_newest_known(const char* name, bool per_thread, void* real) {
  using Look = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  static const auto look = driver::function<Look>("cuGetProcAddress_v2");
  const cuuint64_t flags =
      per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
  void* known = nullptr;
  return look && look(name, &known, CUDA_VERSION, flags, nullptr) == CUDA_SUCCESS && known == real;
}

}  // namespace

void* wrap_symbol(const char* symbol, void* real) {
  for (const Entry& e : kEntries) {
    if (!strcmp(symbol, e.symbol)) return use(e, 0, real);
    if (*e.suffix && is_suffixed(symbol, e.symbol, e.suffix)) return use(e, 1, real);
  }
  return unknown::wrap_if_submission(symbol, real);
}

void* wrap_name(const char* name, int version, bool per_thread, void* real) {
  const Entry* best = nullptr;
  bool listed = false;
  for (const Entry& e : kEntries) {
    if (strcmp(name, e.name)) continue;
    listed = true;
    if (e.version <= version && (!best || e.version > best->version)) best = &e;
  }
  // Programs also ask for a versioned symbol by its full name.
  if (!listed) return wrap_symbol(name, real);
  if (!best) return unknown::wrap_if_submission(name, real);
  if (version > CUDA_VERSION && !same_as_newest_known(name, per_thread, real)) {
    return unknown::wrap_if_submission(name, real);
  }
  return use(*best, per_thread && *best->suffix ? 1 : 0, real);
}

// The third door: libraries linked with -lcuda reach the driver through these symbols. A symbol can stand in
// two rows.
#define CCTRACE_JUMP(symbol, slot)                                                        \
  asm(".ifndef " symbol "\n.text\n.globl " symbol "\n.type " symbol ",@function\n" symbol \
      ":\n endbr64\n jmp *" slot "(%rip)\n.size " symbol ",.-" symbol "\n.endif\n");
#define API(operation, name, version, symbol, suffix, type, shape, flags)                          \
  extern "C" {                                                                                     \
  __attribute__((visibility("hidden"), used)) void* cctrace_door_##symbol##_##version[2] = {       \
      reinterpret_cast<void*>(CCTRACE_HOOK(operation, version, symbol, type, shape, false)::call), \
      reinterpret_cast<void*>(CCTRACE_HOOK(operation, version, symbol, type, shape, true)::call)}; \
  }                                                                                                \
  CCTRACE_JUMP(#symbol, "cctrace_door_" #symbol "_" #version)                                      \
  CCTRACE_JUMP(#symbol suffix, "8+cctrace_door_" #symbol "_" #version)
#include "driver_api.def"
#undef API

}  // namespace interposer
}  // namespace cctrace
