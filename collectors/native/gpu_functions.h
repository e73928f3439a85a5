// What our own small kernels on the GPU need of the driver, past our own wrappers.
#pragma once

#include <cuda.h>

#include "driver.h"

namespace cctrace {
namespace gpu {

// The driver's entry points; null where it lacks one.
struct Functions {
#define CCTRACE_GPU_FUNCTIONS(X)                                                                         \
  X(cuLibraryLoadData, CUresult (*)(CUlibrary*, const void*, CUjit_option*, void**, unsigned,            \
                                    CUlibraryOption*, void**, unsigned))                                 \
  X(cuLibraryGetKernel, CUresult (*)(CUkernel*, CUlibrary, const char*))                                 \
  X(cuKernelGetFunction, CUresult (*)(CUfunction*, CUkernel))                                            \
  X(cuLaunchKernel, CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                                 unsigned, CUstream, void**, void**))                                    \
  X(cuMemAlloc_v2, CUresult (*)(CUdeviceptr*, size_t))                                                   \
  X(cuMemsetD8Async, CUresult (*)(CUdeviceptr, unsigned char, size_t, CUstream))                         \
  X(cuMemcpyDtoHAsync_v2, CUresult (*)(void*, CUdeviceptr, size_t, CUstream))                            \
  X(cuStreamCreate, CUresult (*)(CUstream*, unsigned))                                                   \
  X(cuStreamSynchronize, CUresult (*)(CUstream))                                                         \
  X(cuStreamGetCtx, CUresult (*)(CUstream, CUcontext*))                                                  \
  X(cuCtxSynchronize, CUresult (*)())                                                                    \
  X(cuCtxGetDevice, CUresult (*)(CUdevice*))                                                             \
  X(cuCtxGetCurrent, CUresult (*)(CUcontext*))                                                           \
  X(cuCtxPushCurrent_v2, CUresult (*)(CUcontext))                                                        \
  X(cuCtxPopCurrent_v2, CUresult (*)(CUcontext*))                                                        \
  X(cuThreadExchangeStreamCaptureMode, CUresult (*)(CUstreamCaptureMode*))
#define X(name, ...)            \
  using name##_t = __VA_ARGS__; \
  name##_t name = driver::function<name##_t>(#name);
  CCTRACE_GPU_FUNCTIONS(X)
#undef X

  // The first one that this driver lacks; null: none.
  const char* missing() const {
#define X(name, ...) \
  if (!name) return #name;
    CCTRACE_GPU_FUNCTIONS(X)
#undef X
    return nullptr;
  }
};

const Functions& cuda();

// Makes a context current for as long as it lives, whatever the thread had.
class Current {
 public:
  explicit Current(CUcontext context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  explicit operator bool() const { return pushed_; }

 private:
  bool pushed_;
  CUstreamCaptureMode previous_ = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

// The context of a stream; for a default stream, the thread's current one.
CUcontext context_of(CUstream stream);

// True if a device's primary context is no longer there: nobody holds it.
bool primary_context_is_gone(CUdevice device);

// True for errors that tell of the end of a context or of the process, which is no fault.
bool means_ended(CUresult result);

// One thread of a kernel of ours; `parameters` as cuLaunchKernel wants them.
CUresult launch_one_thread(CUfunction kernel, void** parameters, CUstream stream);

}  // namespace gpu
}  // namespace cctrace
