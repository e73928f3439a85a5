// The stand-in GPU: it executes the collector's stamp kernel, and nothing else. Its clock is CLOCK_REALTIME,
// as on an H200.
#include <string.h>
#include <time.h>

#include "state.h"

namespace mock {
namespace {

constexpr char kStampName[] = "cctrace_stamp";
constexpr size_t kStampParameters[] = {8, 4, 4};  // ring, payload, mask
constexpr size_t kHeaderBytes = 64;

struct Entry {
  uint64_t time;
  uint32_t index;
  uint32_t payload;
};

bool is_stamp(const Function* function) {
  return state().functions.count(const_cast<Function*>(function)) && function->name == kStampName;
}

template <class T>
T value(const std::vector<uint8_t>& bytes) {
  T v;
  memcpy(&v, bytes.data(), sizeof v);
  return v;
}

}  // namespace

std::vector<std::vector<uint8_t>> copy_parameters(const Function* function, void** parameters) {
  std::vector<std::vector<uint8_t>> copied;
  if (!parameters || !is_stamp(function)) return copied;
  for (size_t i = 0; i < 3; i++) {
    const auto* p = static_cast<const uint8_t*>(parameters[i]);
    copied.emplace_back(p, p + kStampParameters[i]);
  }
  return copied;
}

void run_kernel(const Function* function, const std::vector<std::vector<uint8_t>>& parameters) {
  if (!is_stamp(function)) return;
  auto* ring = reinterpret_cast<uint8_t*>(value<uint64_t>(parameters[0]));
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  uint64_t head = 0;
  memcpy(&head, ring, sizeof head);
  const Entry entry = {static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec),
                       static_cast<uint32_t>(head), value<uint32_t>(parameters[1])};
  memcpy(ring + kHeaderBytes + (head & value<uint32_t>(parameters[2])) * sizeof entry, &entry, sizeof entry);
  head++;
  memcpy(ring, &head, sizeof head);
}

}  // namespace mock
