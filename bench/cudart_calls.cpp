// A program without torch: does the recorder see what the CUDA runtime does, linked statically and
// dynamically?
//
//   g++ -std=c++17 bench/cudart_calls.cpp -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -o
//   shared g++ -std=c++17 bench/cudart_calls.cpp -I/usr/local/cuda/include -L/usr/local/cuda/lib64
//   -lcudart_static -ldl -lrt
//       -lpthread -o static
//   for p in ./shared ./static; do for m in none stamps nodes; do
//     cctrace record --gpu $m -o cudart.parquet --force -- $p && cctrace info cudart.parquet; done; done
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr size_t kBytes = 1 << 20;

void check(cudaError_t result, int line) {
  if (result == cudaSuccess) return;
  std::printf("line %d: %s\n", line, cudaGetErrorString(result));
  std::exit(1);
}
#define CHECK(call) check(call, __LINE__)

void copies_and_waits(void* device, void* pinned, cudaStream_t stream) {
  std::vector<char> pageable(kBytes);
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int i = 0; i < 50; i++) {
    CHECK(cudaMemcpyAsync(device, pinned, 4096, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(pinned, device, 64, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemsetAsync(device, 0, 100, stream));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaMemcpy(device, pageable.data(), 1000, cudaMemcpyHostToDevice));
    CHECK(cudaStreamSynchronize(stream));
  }
}

void graph_replays(void* device, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < 5; i++) CHECK(cudaMemsetAsync(device, i, 100, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 30; i++) CHECK(cudaGraphLaunch(executable, stream));
}

void rarer_calls(void* device, void* pinned, cudaStream_t stream) {
  CHECK(cudaMemcpy2DAsync(device, 256, pinned, 128, 100, 8, cudaMemcpyHostToDevice, stream));
  void* ordered;
  CHECK(cudaMallocAsync(&ordered, 4096, stream));
  CHECK(cudaFreeAsync(ordered, stream));
  std::thread([=] {
    CHECK(cudaMemcpyAsync(device, pinned, 32, cudaMemcpyHostToDevice, cudaStreamPerThread));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
}

}  // namespace

int main() {
  void *device, *pinned;
  cudaStream_t stream;
  CHECK(cudaMalloc(&device, kBytes));
  CHECK(cudaMallocHost(&pinned, kBytes));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  copies_and_waits(device, pinned, stream);
  graph_replays(device, stream);
  rarer_calls(device, pinned, stream);
  CHECK(cudaDeviceSynchronize());
  std::printf("fine\n");
  return 0;
}
