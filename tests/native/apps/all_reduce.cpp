// Linked with NCCL, as servers are: one all-reduce and one broadcast, and a look for a function that this
// NCCL does not have.
#include <cuda.h>
#include <stdio.h>

#include <cstddef>

struct Communicator;

extern "C" {
int mock_nccl_init(Communicator** out, int ranks);
int ncclAllReduce(const void*, void*, size_t, int, int, Communicator*, CUstream);
int ncclBcast(void*, size_t, int, int, Communicator*, CUstream);
int ncclAlltoAll(const void*, void*, size_t, int, Communicator*, CUstream) __attribute__((weak));
}

int main() {
  CUcontext context;
  CUstream stream;
  Communicator* communicator;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
      cuStreamCreate(&stream, 1) || mock_nccl_init(&communicator, 4))
    return 1;
  for (int i = 0; i < 3; i++) {
    if (ncclAllReduce(nullptr, nullptr, 1000, 9, 0, communicator, stream)) return 2;
  }
  if (ncclBcast(nullptr, 8, 7, 0, communicator, stream)) return 3;
  puts(ncclAlltoAll ? "all-to-all" : "no all-to-all");
  return 0;
}
