#include "names.h"

#include <atomic>

#include "config.h"
#include "driver.h"
#include "nvlink.h"
#include "ring.h"
#include "spool.h"

namespace cctrace {
namespace names {
namespace {

std::atomic<uint32_t> g_generation{1};

const char* ask(CUfunction function) {
  using FunctionName = CUresult (*)(const char**, CUfunction);
  using KernelName = CUresult (*)(const char**, CUkernel);
  static const auto function_name = driver::function<FunctionName>("cuFuncGetName");
  static const auto kernel_name = driver::function<KernelName>("cuKernelGetName");
  const char* name = nullptr;
  // The runtime passes kernel handles where functions are expected, and the driver takes both.
  if (function_name && function_name(&name, function) == CUDA_SUCCESS && name) return name;
  if (kernel_name && kernel_name(&name, reinterpret_cast<CUkernel>(function)) == CUDA_SUCCESS) return name;
  return nullptr;
}

const ThreadState::Name& find(ThreadState* state, CUfunction function) {
  const uint64_t key = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(function));
  const uint32_t generation = g_generation.load(std::memory_order_relaxed);
  // Handles are addresses of objects of 16 bytes and more: the low bits say nothing.
  ThreadState::Name& slot = state->names[(key >> 4 ^ key >> 14) % ThreadState::kNames];
  if (slot.function != key || slot.generation != generation) {
    const char* symbol = ask(function);
    const uint32_t id = symbol && config().kernel_names ? spool::intern(symbol) : 0;
    // Comparing a symbol with all that are known takes a microsecond: only for who lengthens transfers.
    slot = {key, generation, id, nvlink::active() ? collectives::recognize(symbol) : collectives::Kernel()};
  }
  return slot;
}

}  // namespace

uint32_t of(ThreadState* state, CUfunction function) {
  return state && function && config().kernel_names ? find(state, function).id : 0;
}

collectives::Kernel transfer_of(ThreadState* state, CUfunction function) {
  return state && function ? find(state, function).transfer : collectives::Kernel();
}

void forget() { g_generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace names
}  // namespace cctrace
