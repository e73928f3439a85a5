#include "nvlink_slots.h"

#include <vector>

#include "gpu_functions.h"
#include "recorder.h"
#include "spool.h"

namespace cctrace {
namespace nvlink {
namespace {

using gpu::cuda;
using gpu::Current;

// 1 MiB. A server has some hundred batch sizes and a handful of operations; prompts of every length to 8192
// tokens fit as well.
constexpr uint32_t kCapacity = 1u << 15;
// Behind them one in which the kernels' code is tried.
constexpr uint64_t kTrialAt = uint64_t{kCapacity} * sizeof(Slot);
constexpr uint64_t kBytes = kTrialAt + sizeof(Slot);

struct Kernels {
  CUkernel begin = nullptr, end = nullptr;
};

const Kernels* load_kernels() {
  static Kernels kernels;
  if (kernels.end) return &kernels;
  CUlibrary library;
  if (cuda().cuLibraryLoadData(&library, kSpinPtx, nullptr, nullptr, 0, nullptr, nullptr, 0) != CUDA_SUCCESS)
    return nullptr;
  Kernels found;
  if (cuda().cuLibraryGetKernel(&found.begin, library, kBeginName) != CUDA_SUCCESS ||
      cuda().cuLibraryGetKernel(&found.end, library, kEndName) != CUDA_SUCCESS)
    return nullptr;
  kernels = found;
  return &kernels;
}

}  // namespace

size_t Slots::Hash::operator()(const Key& key) const {
  // A multiplication by a large odd number spreads what differs in low bits; the shift brings it back down.
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t hash = 0;
  for (const uint64_t part : key) {
    hash = (hash ^ part) * kOdd;
    hash ^= hash >> 32;
  }
  return hash;
}

bool Slots::create(CUcontext context) {
  context_ = context;  // also when it fails: it is tried once per context
  if (const char* name = cuda().missing()) {
    spool::note_state("nvlink.state", name, 0);
    recorder::warn_once("NVLink is not emulated: this driver lacks %s", name);
    return false;
  }
  Current current(context);
  CUresult result = CUDA_ERROR_INVALID_CONTEXT;
  const char* step = "make the context current";
  const Kernels* kernels = nullptr;
  CUdevice device = -1;
  if (current) {
    step = "load the kernels";
    kernels = load_kernels();
    result = kernels ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  auto then = [&](const char* what, auto call) {
    if (result != CUDA_SUCCESS) return;
    step = what;
    result = call();
  };
  then("find the kernels", [&] { return cuda().cuKernelGetFunction(&begin_, kernels->begin); });
  then("find the kernels", [&] { return cuda().cuKernelGetFunction(&end_, kernels->end); });
  then("find the device", [&] { return cuda().cuCtxGetDevice(&device); });
  then("create a stream", [&] { return cuda().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING); });
  then("allocate the slots", [&] { return cuda().cuMemAlloc_v2(&memory_, kBytes); });
  then("clear the slots", [&] { return cuda().cuMemsetD8Async(memory_, 0, kBytes, stream_); });
  // A kernel on a stream of ours beside the program's own would slow the GPU for good (stamp_ring.h).
  then("wait for the context", [&] { return cuda().cuCtxSynchronize(); });
  then("run the kernels", [&] {
    // Code is loaded at its first launch. That must not happen inside a capture, nor beside a collective: it
    // may wait for the kernel that waits for us.
    const CUdeviceptr trial = memory_ + kTrialAt;
    const bool ran = begin(trial, stream_) && end(trial, Lengthening{}, stream_);
    return ran ? cuda().cuStreamSynchronize(stream_) : CUDA_ERROR_LAUNCH_FAILED;
  });
  if (result != CUDA_SUCCESS) {
    fail(step, result);
    return false;
  }
  device_ = static_cast<uint16_t>(device);
  own_ns_.resize(kCapacity);
  usable_.store(true, std::memory_order_release);
  return true;
}

void Slots::forget() {
  usable_ = false;
  context_ = nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  places_.clear();
  used_ = 0;
}

CUdeviceptr Slots::find(const Key& key, const Lengthening& how) {
  std::lock_guard<std::mutex> lock(mutex_);
  // The same transfer, launched and in a graph, has two slots: our kernels cost differently there. No key
  // uses this bit.
  Key place = key;
  place[0] ^= uint64_t{how.captured} << 63;
  const auto [found, is_new] = places_.emplace(place, used_.load(std::memory_order_relaxed));
  if (is_new) {
    if (found->second == kCapacity) {
      places_.erase(found);
      recorder::warn_once("NVLink is not emulated for some transfers: there are more than %u different ones",
                          kCapacity);
      return 0;
    }
    own_ns_[found->second] = how.own_ns();
    used_.store(found->second + 1, std::memory_order_release);
  }
  return memory_ + uint64_t{found->second} * sizeof(Slot);
}

bool Slots::begin(CUdeviceptr slot, CUstream stream) const {
  void* parameters[] = {&slot};
  return launch(begin_, parameters, stream);
}

bool Slots::end(CUdeviceptr slot, const Lengthening& how, CUstream stream) const {
  uint64_t fraction = how.fraction, added = how.added_ns, limit = how.limit_ns;
  uint64_t gap = how.cost().gap, own = how.own_ns();
  void* parameters[] = {&slot, &fraction, &added, &limit, &gap, &own};
  return launch(end_, parameters, stream);
}

bool Slots::launch(CUfunction kernel, void** parameters, CUstream stream) const {
  CUcontext now = nullptr;
  if (cuda().cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == context())
    return gpu::launch_one_thread(kernel, parameters, stream) == CUDA_SUCCESS;
  // A copy may be on a stream of another device than the thread's current one.
  Current current(context());
  return current && gpu::launch_one_thread(kernel, parameters, stream) == CUDA_SUCCESS;
}

bool Slots::read(Totals& totals) {
  const uint32_t used = used_.load(std::memory_order_acquire);
  if (!usable() || !used) return false;
  Current current(context());
  if (!current) return false;
  // Leaked: the writer works until after the static destructors of this library would have run.
  static auto& slots = *new std::vector<Slot>;
  slots.resize(used);
  CUresult result = cuda().cuMemcpyDtoHAsync_v2(slots.data(), memory_, used * sizeof(Slot), stream_);
  if (result == CUDA_SUCCESS) result = cuda().cuStreamSynchronize(stream_);
  if (result != CUDA_SUCCESS) {
    fail("read the slots", result);
    return false;
  }
  for (uint32_t i = 0; i < used; i++) {
    totals.executed += slots[i].executed;
    totals.spun_ns += slots[i].spun_ns;
    totals.own_ns += slots[i].executed * own_ns_[i];
  }
  return true;
}

void Slots::fail(const char* what, CUresult result) {
  usable_ = false;
  spool::note_state("nvlink.state", what, static_cast<uint64_t>(result));
  if (gpu::means_ended(result)) return;
  recorder::warn_once("NVLink is not emulated: cannot %s (CUDA error %d)", what, static_cast<int>(result));
}

}  // namespace nvlink
}  // namespace cctrace
