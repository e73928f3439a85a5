#include "stamp_ring.h"

#include <vector>

#include "clock.h"
#include "gpu_functions.h"
#include "record.h"
#include "recorder.h"
#include "spool.h"
#include "stamp_kernel.h"

namespace cctrace {
namespace stamps {
namespace {

using gpu::cuda;
using gpu::Current;

// 65536 entries, 1 MiB: a server that replays 30 graphs a step at 500 steps a second fills it in two seconds,
// and it is read every second.
constexpr uint32_t kCapacity = 1u << 16;
constexpr uint64_t kRingBytes = kHeaderBytes + uint64_t{kCapacity} * kEntryBytes;
// The tightest of so many readings is kept.
constexpr int kClockRounds = 8;
constexpr uint64_t kProbeBytes = kHeaderBytes + kEntryBytes;

struct Entry {
  uint64_t time;
  uint32_t index;
  uint32_t payload;
};
static_assert(sizeof(Entry) == kEntryBytes, "as the kernel writes it");

CUkernel load_kernel() {
  static CUkernel kernel = nullptr;
  if (kernel) return kernel;
  CUlibrary library;
  if (cuda().cuLibraryLoadData(&library, kStampPtx, nullptr, nullptr, 0, nullptr, nullptr, 0) != CUDA_SUCCESS)
    return nullptr;
  if (cuda().cuLibraryGetKernel(&kernel, library, kStampName) != CUDA_SUCCESS) kernel = nullptr;
  return kernel;
}

bool launch_into(CUfunction kernel, CUdeviceptr ring, uint32_t mask, uint32_t payload, CUstream stream) {
  void* parameters[] = {&ring, &payload, &mask};
  return gpu::launch_one_thread(kernel, parameters, stream) == CUDA_SUCCESS;
}

}  // namespace

bool Ring::create(CUcontext context) {
  context_ = context;  // also when it fails: it is tried once per context
  if (const char* name = cuda().missing()) {
    spool::note_state("stamps.state", name, 0);
    recorder::warn_once("no GPU stamps: this driver lacks %s", name);
    return false;
  }
  Current current(context);
  CUresult result = CUDA_ERROR_INVALID_CONTEXT;
  const char* step = "make the context current";
  CUdevice device = -1;
  CUkernel kernel = nullptr;
  if (current) {
    step = "load the kernel";
    kernel = load_kernel();
    result = kernel ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  auto then = [&](const char* what, auto call) {
    if (result != CUDA_SUCCESS) return;
    step = what;
    result = call();
  };
  then("find the kernel", [&] { return cuda().cuKernelGetFunction(&kernel_, kernel); });
  then("find the device", [&] { return cuda().cuCtxGetDevice(&device); });
  then("create a stream", [&] { return cuda().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING); });
  then("allocate the ring", [&] { return cuda().cuMemAlloc_v2(&memory_, kRingBytes + kProbeBytes); });
  then("clear the ring",
       [&] { return cuda().cuMemsetD8Async(memory_, 0, kRingBytes + kProbeBytes, stream_); });
  then("wait for the context", [&] { return cuda().cuCtxSynchronize(); });
  then("run the kernel", [&] {
    // Code is loaded at its first launch, which must not happen inside a capture.
    return launch_into(kernel_, memory_ + kRingBytes, 0, 0, stream_) ? cuda().cuStreamSynchronize(stream_)
                                                                     : CUDA_ERROR_LAUNCH_FAILED;
  });
  if (result != CUDA_SUCCESS) {
    fail(step, result);
    return false;
  }
  device_ = static_cast<uint16_t>(device);
  static uint64_t rings = 0;
  numbering_ = rings++ << 40;
  usable_ = true;
  read_clock();
  return usable_;
}

void Ring::forget() { *this = Ring(); }

bool Ring::launch(uint32_t payload, CUstream stream) const {
  return usable_ && launch_into(kernel_, memory_, kCapacity - 1, payload, stream);
}

void Ring::fail(const char* what, CUresult result) {
  usable_ = false;
  spool::note_state("stamps.state", what, static_cast<uint64_t>(result));
  if (gpu::means_ended(result)) return;
  recorder::warn_once("no GPU stamps: cannot %s (CUDA error %d)", what, static_cast<int>(result));
}

bool Ring::copy_out(void* to, CUdeviceptr from, uint64_t bytes) {
  CUresult result = cuda().cuMemcpyDtoHAsync_v2(to, from, bytes, stream_);
  if (result == CUDA_SUCCESS) result = cuda().cuStreamSynchronize(stream_);
  if (result != CUDA_SUCCESS) fail("read the ring", result);
  return result == CUDA_SUCCESS;
}

void Ring::read() {
  if (!usable_) return;
  Current current(context_);
  if (!current) {
    usable_ = false;
    return;
  }
  uint64_t head = 0;
  if (!copy_out(&head, memory_, sizeof head)) return;
  if (head - taken_ > kCapacity) {
    spool::note_loss("stamp ring overrun", head - taken_ - kCapacity);
    taken_ = head - kCapacity;
  }
  // Leaked: the writer works until after the static destructors of this library would have run.
  static auto& entries = *new std::vector<Entry>;
  static auto& records = *new std::vector<Record>;
  while (taken_ != head) {
    const uint64_t at = taken_ % kCapacity;
    const uint64_t count = head - taken_ < kCapacity - at ? head - taken_ : kCapacity - at;
    entries.resize(count);
    if (!copy_out(entries.data(), memory_ + kHeaderBytes + at * kEntryBytes, count * kEntryBytes)) return;
    records.clear();
    for (const Entry& e : entries) {
      // Taken from the head but not stored yet: next time.
      if (e.index != static_cast<uint32_t>(taken_)) break;
      Record r{};
      r.kind = Kind::stamp;
      r.flags =
          static_cast<uint8_t>((e.payload & kEnd ? kStampEnd : 0) | (e.payload & kEager ? kEagerStamp : 0));
      r.start_ns = r.end_ns = e.time;
      r.object = e.payload & kTagMask;
      r.bytes = numbering_ + taken_;
      r.device = device_;
      records.push_back(r);
      taken_++;
    }
    spool::write(records.data(), records.size());
    if (records.size() < count) return;
  }
}

void Ring::read_clock() {
  if (!usable_) return;
  Current current(context_);
  if (!current) return;
  const CUdeviceptr probe = memory_ + kRingBytes;
  Record best{};
  best.bytes = UINT64_MAX;
  for (int i = 0; i < kClockRounds && usable_; i++) {
    const uint64_t before = monotonic_ns();
    if (!launch_into(kernel_, probe, 0, 0, stream_)) return;
    const CUresult result = cuda().cuStreamSynchronize(stream_);
    const uint64_t after = monotonic_ns();
    if (result != CUDA_SUCCESS) return fail("read the clock", result);
    Entry e;
    if (!copy_out(&e, probe + kHeaderBytes, sizeof e)) return;
    if (after - before >= best.bytes) continue;
    best.kind = Kind::gpu_clock;
    best.start_ns = best.end_ns = before + (after - before) / 2;
    best.object = e.time;
    best.bytes = after - before;
    best.device = device_;
  }
  if (best.bytes != UINT64_MAX) spool::write(&best, 1);
}

}  // namespace stamps
}  // namespace cctrace
