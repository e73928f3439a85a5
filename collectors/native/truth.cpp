#include "truth.h"

#include <atomic>

#include "spool.h"

namespace cctrace {
namespace truth {
namespace {

// A total and what of it the spool already says.
class Total {
 public:
  explicit constexpr Total(const char* key) : key_(key) {}

  void add(uint64_t amount) {
    if (amount) value_.fetch_add(amount, std::memory_order_relaxed);
  }
  void note() {
    const uint64_t value = value_.load(std::memory_order_relaxed);
    if (value == noted_) return;
    noted_ = value;
    spool::note_state(key_, nullptr, value);
  }

 private:
  const char* key_;
  std::atomic<uint64_t> value_{0};
  uint64_t noted_ = 0;
};

Total g_count[kCauses] = {Total("emulated.launch.count"), Total("emulated.pcie.count"),
                          Total("emulated.overlap.count"), Total("emulated.nvlink.count")};
Total g_ns[kCauses] = {Total("emulated.launch.ns"), Total("emulated.pcie.ns"), Total("emulated.overlap.ns"),
                       Total("emulated.nvlink.ns")};
Total g_queued_ns("emulated.pcie.queued_ns");

}  // namespace

void charged(Cause cause, uint64_t count, uint64_t ns) {
  g_count[static_cast<size_t>(cause)].add(count);
  g_ns[static_cast<size_t>(cause)].add(ns);
}

void count(const Charges* charges, size_t n) {
  for (size_t i = 0; i < n; i++) {
    for (size_t cause = 0; cause < kCauses; cause++) {
      const uint64_t ns = charges[i].ns[cause];
      if (ns) charged(static_cast<Cause>(cause), 1, ns);
    }
    g_queued_ns.add(charges[i].queued_ns);
  }
}

void note() {
  for (Total& total : g_count) total.note();
  for (Total& total : g_ns) total.note();
  g_queued_ns.note();
}

}  // namespace truth
}  // namespace cctrace
