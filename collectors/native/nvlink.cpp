#include "nvlink.h"

#include <atomic>
#include <mutex>

#include "driver.h"
#include "gpu_functions.h"
#include "graphs.h"
#include "nccl_calls.h"
#include "nccl_communicators.h"
#include "recorder.h"
#include "spool.h"
#include "truth.h"

namespace cctrace {
namespace nvlink {
namespace {

using collectives::Kind;

constexpr int kMaxContexts = 32;

// The slowest way between two GPUs that a machine with NVLink may still take (a bridge of the host, or a
// network card), and the longest that the smallest transfer lasts.
constexpr double kSlowestBytesPerNs = 5;
constexpr uint64_t kLongestSmallNs = 100'000;
// Of kernels whose bytes are not known. Their buffers hold some MiB.
constexpr uint64_t kLongestUnknownNs = 2'000'000;

// Places are taken in order and kept; g_mutex guards that and what is read from them.
std::mutex g_mutex;
Slots g_slots[kMaxContexts];
std::atomic<int> g_slot_count{0};
Totals g_read[kMaxContexts];  // what is already counted of each
uint64_t g_spun_ns = 0, g_spun_noted = 0;

Slots* find_slots(CUcontext context) {
  const int count = g_slot_count.load(std::memory_order_acquire);
  for (int i = 0; i < count; i++) {
    if (g_slots[i].context() == context) return &g_slots[i];
  }
  return nullptr;
}

// The usable slots of a context; made now if that is allowed.
Slots* slots_in(CUcontext context) {
  if (!context) return nullptr;
  Slots* slots = find_slots(context);
  if (!slots && !graphs::captures_active()) {
    std::lock_guard<std::mutex> lock(g_mutex);
    slots = find_slots(context);
    if (!slots) {
      slots = find_slots(nullptr);  // of a context that is gone
      const int count = g_slot_count.load(std::memory_order_relaxed);
      if (!slots && count < kMaxContexts) slots = &g_slots[count];
      if (slots) slots->create(context);
      if (slots == &g_slots[count]) g_slot_count.store(count + 1, std::memory_order_release);
    }
  }
  return slots && slots->usable() ? slots : nullptr;
}

double factor_of(Kind kind) {
  const Emulation& e = config().emulation;
  switch (kind) {
    case Kind::collective:
      return e.collective_factor;
    case Kind::all_to_all:
      return e.all_to_all_factor;
    case Kind::peer_copy:
      return e.peer_copy_factor;
    case Kind::none:
      break;
  }
  return 1;
}

Lengthening lengthening(Kind kind, uint32_t peers, uint64_t limit_ns, bool captured) {
  Lengthening how;
  how.fraction = static_cast<uint64_t>((factor_of(kind) - 1) * (1 << kFractionBits) + 0.5);
  how.added_ns = peers * config().emulation.peer_latency_ns;
  how.limit_ns = limit_ns;
  how.captured = captured;
  return how;
}

uint64_t limit_ns(uint64_t bytes) {
  return kLongestSmallNs + static_cast<uint64_t>(static_cast<double>(bytes) / kSlowestBytesPerNs);
}

Transfer begin(const Key& key, const Lengthening& how, CUstream stream) {
  Transfer transfer;
  if (how.none()) return transfer;
  const CUcontext context = gpu::context_of(stream);
  Slots* slots = slots_in(context);
  if (!slots) return transfer;
  transfer.slot = slots->find(key, how);
  transfer.how = how;
  if (transfer.slot && (!how.fraction || slots->begin(transfer.slot, stream))) transfer.slots = slots;
  return transfer;
}

// The device that memory lies on; -1 if it is no device memory.
int device_of(uint64_t pointer) {
  using Query = CUresult (*)(unsigned, CUpointer_attribute*, void**, CUdeviceptr);
  static const auto query = driver::function<Query>("cuPointerGetAttributes");
  unsigned type = 0;
  int device = -1;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* answers[] = {&type, &device};
  const bool known = query && query(2, wanted, answers, pointer) == CUDA_SUCCESS;
  return known && type == CU_MEMORYTYPE_DEVICE ? device : -1;
}

bool sees_several_devices() {
  using Count = CUresult (*)(int*);
  static const bool several = [] {
    const auto count = driver::function<Count>("cuDeviceGetCount");
    int devices = 0;
    return count && count(&devices) == CUDA_SUCCESS && devices > 1;
  }();
  return several;
}

bool is_peer_copy(const Call& call, Shape shape) {
  if (!sees_several_devices()) return false;
  switch (shape) {
    case Shape::copy_3d_peer:
      return call.copy_kind == kP2P;
    case Shape::copy_d2d:
    case Shape::copy_p2p:
    case Shape::copy_any: {
      if (call.pointer_count < 2) return false;
      const int to = device_of(call.pointers[0]), from = device_of(call.pointers[1]);
      return to >= 0 && from >= 0 && to != from;
    }
    default:
      return false;
  }
}

// Takes in what was executed since the last time, and counts it if calls gave rows meanwhile. With g_mutex
// held.
void read_all() {
  uint64_t executed = 0, spun_ns = 0, own_ns = 0;
  for (int i = 0; i < g_slot_count.load(std::memory_order_relaxed); i++) {
    Totals now;
    if (!g_slots[i].read(now)) continue;
    executed += now.executed - g_read[i].executed;
    spun_ns += now.spun_ns - g_read[i].spun_ns;
    own_ns += now.own_ns - g_read[i].own_ns;
    g_read[i] = now;
  }
  if (!recorder::recording()) return;
  truth::charged(Cause::nvlink, executed, spun_ns + own_ns);
  g_spun_ns += spun_ns;
}

void forget(int i) {
  g_slots[i].forget();
  g_read[i] = Totals();
}

}  // namespace

Transfer begin_kernel(collectives::Kernel kernel, CUfunction function, const LaunchShape& shape,
                      CUstream stream, bool captured) {
  if (kernel.kind == Kind::none) return {};
  const nccl::Enqueued* enqueued = kernel.nccl ? nccl::on_launch(stream) : nullptr;
  if (enqueued) {
    const Key key = {enqueued->operations, enqueued->bytes, enqueued->communicator,
                     uint64_t{enqueued->ranks} << 32 | enqueued->launches};
    // The peers are met once, however many kernels it takes.
    const uint32_t peers = enqueued->launches == 1 ? enqueued->peers : 0;
    return begin(key, lengthening(enqueued->kind, peers, limit_ns(enqueued->bytes), captured), stream);
  }
  const uint32_t ranks = kernel.ranks ? kernel.ranks : nccl::most_ranks();
  const Key key = {bits(function), shape.grid, shape.block, bits(stream)};
  // Nothing can be a transfer between fewer than two.
  return begin(key, lengthening(kernel.kind, ranks > 1 ? ranks - 1 : 1, kLongestUnknownNs, captured), stream);
}

Transfer begin_copy(const Call& call, Shape shape, CUstream stream, bool captured) {
  // A strided copy's bytes are known already; of the others the size is the last number.
  const uint64_t bytes =
      shape == Shape::copy_3d_peer || !call.size_count ? call.bytes : call.sizes[call.size_count - 1];
  const Lengthening how = lengthening(Kind::peer_copy, 1, limit_ns(bytes), captured);
  if (how.none() || !is_peer_copy(call, shape)) return {};
  return begin({static_cast<uint64_t>(Kind::peer_copy), bytes, 0, bits(stream)}, how, stream);
}

void end(const Transfer& transfer, CUstream stream, CUresult result) {
  if (transfer.slots && result == CUDA_SUCCESS) transfer.slots->end(transfer.slot, transfer.how, stream);
}

void prepare(CUstream stream) { slots_in(gpu::context_of(stream)); }

void on_contexts_ending() {
  if (active()) on_tick();
}

void on_context_gone(CUcontext context) {
  if (!active() || !context) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  for (int i = 0; i < g_slot_count.load(std::memory_order_relaxed); i++) {
    if (g_slots[i].context() == context) forget(i);
  }
}

void on_primary_context_left(CUdevice device) {
  if (!active() || !gpu::primary_context_is_gone(device)) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  for (int i = 0; i < g_slot_count.load(std::memory_order_relaxed); i++) {
    if (g_slots[i].context() && g_slots[i].device() == static_cast<uint16_t>(device)) forget(i);
  }
}

void on_tick() {
  if (!active()) return;
  std::lock_guard<std::mutex> lock(g_mutex);
  read_all();
  if (g_spun_ns == g_spun_noted) return;
  g_spun_noted = g_spun_ns;
  spool::note_state("emulated.nvlink.spun_ns", nullptr, g_spun_ns);
}

}  // namespace nvlink
}  // namespace cctrace
