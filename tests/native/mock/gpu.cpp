// The stand-in GPU: it executes the collector's own kernels, and lists all that ran. Its clock is
// CLOCK_REALTIME, as on an H200; a kernel of the program takes as long as MOCK_CUDA_KERNEL_NS says.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <string>

#include "state.h"

namespace mock {
namespace {

struct Known {
  const char* name;
  std::vector<size_t> parameters;  // sizes in bytes
};
const Known kKnown[] = {
    {"cctrace_stamp", {8, 4, 4}},                  // ring, payload, mask
    {"cctrace_transfer_begin", {8}},               // slot
    {"cctrace_transfer_end", {8, 8, 8, 8, 8, 8}},  // slot, fraction, added, limit, gap, own
};
constexpr size_t kHeaderBytes = 64;

struct Entry {
  uint64_t time;
  uint32_t index;
  uint32_t payload;
};

struct Slot {
  uint64_t begin, shortest, executed, spun;
};

const Known* find(const Function* function) {
  if (!state().functions.count(const_cast<Function*>(function))) return nullptr;
  for (const Known& known : kKnown) {
    if (function->name == known.name) return &known;
  }
  return nullptr;
}

template <class T>
T value(const std::vector<uint8_t>& bytes) {
  T v;
  memcpy(&v, bytes.data(), sizeof v);
  return v;
}

// Time that program kernels have taken, beyond what the clock of the host says.
uint64_t g_worked_ns = 0;

uint64_t clock_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec) + g_worked_ns;
}

void stamp(const std::vector<std::vector<uint8_t>>& parameters) {
  auto* ring = reinterpret_cast<uint8_t*>(value<uint64_t>(parameters[0]));
  uint64_t head = 0;
  memcpy(&head, ring, sizeof head);
  const Entry entry = {clock_ns(), static_cast<uint32_t>(head), value<uint32_t>(parameters[1])};
  memcpy(ring + kHeaderBytes + (head & value<uint32_t>(parameters[2])) * sizeof entry, &entry, sizeof entry);
  head++;
  memcpy(ring, &head, sizeof head);
}

void begin(const std::vector<std::vector<uint8_t>>& parameters) {
  reinterpret_cast<Slot*>(value<uint64_t>(parameters[0]))->begin = clock_ns();
}

// As spin_kernel.h says it, but instead of spinning it says that it did.
void end(const std::vector<std::vector<uint8_t>>& parameters) {
  auto* slot = reinterpret_cast<Slot*>(value<uint64_t>(parameters[0]));
  const auto number = [&](size_t i) { return static_cast<int64_t>(value<uint64_t>(parameters[i])); };
  const int64_t fraction = number(1), limit = number(3), gap = number(4), own = number(5);
  int64_t wait = number(2) - own;
  if (fraction) {
    int64_t took = static_cast<int64_t>(clock_ns() - slot->begin) - gap;
    took = std::min(std::max<int64_t>(took, 0), limit);
    if (slot->shortest) took = std::min(took, static_cast<int64_t>(slot->shortest));
    slot->shortest = static_cast<uint64_t>(took);
    wait += took * fraction >> 20;
  }
  slot->executed++;
  slot->spun += static_cast<uint64_t>(std::max<int64_t>(wait, 0));
}

uint64_t kernel_ns() {
  const char* text = getenv("MOCK_CUDA_KERNEL_NS");
  return text ? strtoull(text, nullptr, 10) : 0;
}

// "name(parameter,…)" of every kernel that ran, one a line; parameters of the collector's own only.
std::string& ran() {
  static auto* text = new std::string;
  return *text;
}

void note(const Function* function, const std::vector<std::vector<uint8_t>>& parameters) {
  ran() += function->name + '(';
  for (const auto& bytes : parameters) {
    if (&bytes != &parameters[0]) ran() += ',';
    ran() += std::to_string(bytes.size() == 8 ? value<uint64_t>(bytes) : value<uint32_t>(bytes));
  }
  ran() += ")\n";
}

}  // namespace

std::vector<std::vector<uint8_t>> copy_parameters(const Function* function, void** parameters) {
  std::vector<std::vector<uint8_t>> copied;
  const Known* known = parameters ? find(function) : nullptr;
  for (size_t i = 0; known && i < known->parameters.size(); i++) {
    const auto* p = static_cast<const uint8_t*>(parameters[i]);
    copied.emplace_back(p, p + known->parameters[i]);
  }
  return copied;
}

void run_kernel(const Function* function, const std::vector<std::vector<uint8_t>>& parameters) {
  if (!state().functions.count(const_cast<Function*>(function))) return;
  note(function, parameters);
  if (function->name == kKnown[0].name) {
    stamp(parameters);
  } else if (function->name == kKnown[1].name) {
    begin(parameters);
  } else if (function->name == kKnown[2].name) {
    end(parameters);
  } else {
    g_worked_ns += kernel_ns();
  }
}

}  // namespace mock

// The kernels that ran since the last time.
extern "C" __attribute__((visibility("default"))) const char* mock_ran() {
  std::lock_guard<std::recursive_mutex> lock(mock::state().mutex);
  static thread_local std::string text;
  text = mock::ran();
  mock::ran().clear();
  return text.c_str();
}
