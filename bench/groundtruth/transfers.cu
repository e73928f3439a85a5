// Transfers of known duration on one GPU, to hold the emulated NVLink cost against: kernels that carry the name of a
// collective and keep the GPU busy for so long. Prints one JSON line: µs a transfer, eager and in a graph, by duration.
//
//   nvcc -O2 -o transfers bench/groundtruth/transfers.cu
//   cctrace record --emulate zero --emulate-set nvlink.collective_factor=1.186 … -- ./transfers
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

constexpr int kEager = 400, kNodes = 20, kReplays = 20, kRounds = 7;
constexpr unsigned long long kDurationsNs[] = {5000, 20000, 100000, 500000};

double now_us() {
  using namespace std::chrono;
  return static_cast<double>(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count()) / 1e3;
}

template <class Run>
double median_us(int transfers, Run run) {
  std::vector<double> rounds;
  for (int i = 0; i < kRounds; i++) {
    cudaDeviceSynchronize();
    const double from = now_us();
    run();
    cudaDeviceSynchronize();
    rounds.push_back((now_us() - from) / transfers);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace

// Named as vLLM's all-reduce is, so that it is taken for one of two ranks.
template <class T, int ranks>
__global__ void cross_device_reduce_1stage(unsigned long long duration_ns) {
  unsigned long long from, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(from));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - from < duration_ns);
}

int main() {
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  long executed = 0;
  const auto transfer = [&](unsigned long long ns) {
    cross_device_reduce_1stage<float, 2><<<dim3(static_cast<unsigned>(ns / 5000)), 1, 0, stream>>>(ns);
  };
  std::printf("{");
  for (const unsigned long long ns : kDurationsNs) {
    transfer(ns);
    const double eager = median_us(kEager, [&] {
      for (int i = 0; i < kEager; i++) transfer(ns);
    });
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < kNodes; i++) transfer(ns);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    const double captured = median_us(kNodes * kReplays, [&] {
      for (int i = 0; i < kReplays; i++) cudaGraphLaunch(executable, stream);
    });
    executed += 1 + kRounds * (kEager + kNodes * kReplays);
    std::printf("\"%llu\": {\"eager_us\": %.3f, \"graph_us\": %.3f}, ", ns / 1000, eager, captured);
  }
  std::printf("\"executed\": %ld, \"error\": %d}\n", executed, static_cast<int>(cudaGetLastError()));
  return 0;
}
