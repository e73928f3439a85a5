// Slots in one context's device memory, one for all transfers that are alike, and the kernels that use them.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "spin_kernel.h"

namespace cctrace {
namespace nvlink {

// What makes transfers alike: operation, bytes, ranks and communicator of NCCL's, function, grid and block of
// other kernels, bytes of peer copies.
using Key = std::array<uint64_t, 4>;

// GPU time that our kernels take themselves, in nanoseconds. Measured on an H200
// (bench/groundtruth/transfers.cu, bench/RESULTS.md); nodes of a graph follow each other faster than launches
// do.
struct OwnCost {
  uint32_t end;   // the kernel behind a transfer, alone
  uint32_t both;  // one before it and one behind it
  uint32_t gap;   // from the clock reading of the one to that of the other, if nothing lies between them
};
constexpr OwnCost kInGraph = {900, 1720, 1570};
constexpr OwnCost kLaunched = {1600, 3560, 3260};

// How a transfer is lengthened.
struct Lengthening {
  uint64_t fraction = 0;  // of its own duration, in units of 2^-kFractionBits
  uint64_t added_ns = 0;
  uint64_t limit_ns = 0;  // longer than this its own duration cannot be
  bool captured = false;  // our kernels become nodes of a graph, as it does

  bool none() const { return !(fraction | added_ns); }
  const OwnCost& cost() const { return captured ? kInGraph : kLaunched; }
  uint32_t own_ns() const { return fraction ? cost().both : cost().end; }
};

// Since the context was made.
struct Totals {
  uint64_t executed = 0;
  uint64_t spun_ns = 0;
  uint64_t own_ns = 0;  // GPU time of our kernels themselves, by OwnCost
};

class Slots {
 public:
  // Loads the kernels and makes the slots in `context`. Not while anything captures. False if this driver
  // cannot do it.
  bool create(CUcontext context);

  // The context is gone, and with it all that was made in it.
  void forget();

  CUcontext context() const { return context_.load(std::memory_order_acquire); }
  uint16_t device() const { return device_; }
  bool usable() const { return usable_.load(std::memory_order_acquire); }

  // The slot of such transfers; 0 if there is no room for another.
  CUdeviceptr find(const Key& key, const Lengthening& how);

  // Around a transfer on its stream, or in the graph that it captures.
  bool begin(CUdeviceptr slot, CUstream stream) const;
  bool end(CUdeviceptr slot, const Lengthening& how, CUstream stream) const;

  // Reads the slots. Not from two threads at once. False: nothing can be read.
  bool read(Totals& totals);

 private:
  struct Hash {
    size_t operator()(const Key& key) const;
  };

  bool launch(CUfunction kernel, void** parameters, CUstream stream) const;
  void fail(const char* what, CUresult result);

  std::atomic<CUcontext> context_{nullptr};
  std::atomic<bool> usable_{false};
  CUfunction begin_ = nullptr, end_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
  uint16_t device_ = 0xffff;
  std::vector<uint32_t> own_ns_;   // of our kernels around one transfer, by slot
  std::atomic<uint32_t> used_{0};  // slots that a transfer has
  std::mutex mutex_;               // guards the rest
  std::unordered_map<Key, uint32_t, Hash> places_;
};

}  // namespace nvlink
}  // namespace cctrace
