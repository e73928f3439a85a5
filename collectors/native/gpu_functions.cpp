#include "gpu_functions.h"

namespace cctrace {
namespace gpu {

const Functions& cuda() {
  // Leaked: the writer works until after static destructors would have run.
  static const auto* f = new Functions;
  return *f;
}

Current::Current(CUcontext context) : pushed_(cuda().cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
  // Captures of other threads forbid unsafe calls by default; none of ours touches their streams.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (pushed_ && cuda().cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) previous_ = mode;
}

Current::~Current() {
  if (!pushed_) return;
  cuda().cuThreadExchangeStreamCaptureMode(&previous_);
  CUcontext ignored;
  cuda().cuCtxPopCurrent_v2(&ignored);
}

CUcontext context_of(CUstream stream) {
  CUcontext context = nullptr;
  const Functions& f = cuda();
  if (f.cuStreamGetCtx && f.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS && context) return context;
  return f.cuCtxGetCurrent && f.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : nullptr;
}

bool primary_context_is_gone(CUdevice device) {
  using State = CUresult (*)(CUdevice, unsigned*, int*);
  static const auto state = driver::function<State>("cuDevicePrimaryCtxGetState");
  unsigned flags = 0;
  int active = 0;
  return state && state(device, &flags, &active) == CUDA_SUCCESS && !active;
}

bool means_ended(CUresult result) {
  return result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_DEINITIALIZED ||
         result == CUDA_ERROR_INVALID_CONTEXT;
}

CUresult launch_one_thread(CUfunction kernel, void** parameters, CUstream stream) {
  return cuda().cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace gpu
}  // namespace cctrace
