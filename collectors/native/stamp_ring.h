// A ring of stamps in one context's device memory, and its reader.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cctrace {
namespace stamps {

// Who wrote a stamp: number of the capture or of the sampled step, and which end of it.
constexpr uint32_t kEager = 1u << 31;
constexpr uint32_t kEnd = 1u << 30;
constexpr uint32_t kTagMask = kEnd - 1;

class Ring {
 public:
  // Loads the kernel and makes the ring in `context`. Not while anything captures. False if this driver
  // cannot do it.
  bool create(CUcontext context);

  // The context is gone, and with it all that was made in it.
  void forget();

  CUcontext context() const { return context_; }
  uint16_t device() const { return device_; }
  bool usable() const { return usable_; }

  // Puts a stamp on a stream, or into the graph that it captures. The ring's context is the caller's current
  // one.
  bool launch(uint32_t payload, CUstream stream) const;

  // Writes what came since the last time to the spool. From the writer thread, or with it locked out.
  void read();

  // Reads %globaltimer and CLOCK_MONOTONIC together. Only while the program's own kernels rest: on an H200
  // one kernel of a second stream beside a running graph made every later replay of small kernels 18 %
  // slower, for good.
  void read_clock();

 private:
  bool copy_out(void* to, CUdeviceptr from, uint64_t bytes);
  void fail(const char* what, CUresult result);

  CUcontext context_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;  // the ring, and behind it a second one of a single entry for reading the clock
  uint16_t device_ = 0xffff;
  uint64_t taken_ = 0;
  uint64_t numbering_ = 0;  // added to indices, so that those of a later ring of the same device come after
  bool usable_ = false;
};

}  // namespace stamps
}  // namespace cctrace
