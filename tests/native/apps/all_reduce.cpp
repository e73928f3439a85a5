// Linked with NCCL, as servers are: an all-reduce by name, one through a pointer made at its start and one
// through a pointer made now; a pointer that it has turned to a function of its own; a broadcast, and a look
// for a function that this NCCL does not have.
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

using AllReduce = int (*)(const void*, void*, size_t, int, int, Communicator*, CUstream);

static int own_all_reduce(const void*, void*, size_t, int, int, Communicator*, CUstream) { return 77; }

AllReduce volatile kept = ncclAllReduce, turned = ncclAllReduce;

int main() {
  turned = own_all_reduce;
  CUcontext context;
  CUstream stream;
  Communicator* communicator;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
      cuStreamCreate(&stream, 1) || mock_nccl_init(&communicator, 4))
    return 1;
  AllReduce volatile made_now = ncclAllReduce;
  if (ncclAllReduce(nullptr, nullptr, 1000, 9, 0, communicator, stream)) return 2;
  if (made_now(nullptr, nullptr, 1000, 9, 0, communicator, stream)) return 2;
  if (kept(nullptr, nullptr, 1000, 9, 0, communicator, stream)) return 2;
  if (turned(nullptr, nullptr, 1000, 9, 0, communicator, stream) != 77) return 4;
  if (ncclBcast(nullptr, 8, 7, 0, communicator, stream)) return 3;
  puts(ncclAlltoAll ? "all-to-all" : "no all-to-all");
  return 0;
}
