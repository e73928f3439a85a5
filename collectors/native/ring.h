// What every recording thread has to itself: a single-producer ring and a small cache of kernel names.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives.h"
#include "record.h"
#include "truth.h"

namespace cctrace {

struct ThreadState {
  // 1 MiB. The writer comes every 10 ms, so a thread may make 1.6 M calls a second before anything is lost.
  static constexpr uint32_t kCapacity = 1u << 14;
  static constexpr uint32_t kNames = 1024;

  struct Name {
    uint64_t function;
    uint32_t generation;
    uint32_t id;
    collectives::Kernel transfer;
  };

  std::atomic<uint32_t> head{0};
  alignas(64) std::atomic<uint32_t> tail{0};
  std::atomic<uint64_t> dropped{0};
  std::atomic<bool> orphan{false};  // its thread has ended
  ThreadState* next = nullptr;

  // Only its own thread touches these.
  alignas(64) uint32_t waits = 0;
  uint32_t steps = 0;
  uint64_t eager_tag = 0;
  uint64_t eager_stream = 0;
  uint32_t eager_endings = 0;
  bool marks_steps = false;
  bool launched_graph = false;
  bool eager_armed = false;
  Name names[kNames] = {};

  alignas(64) Record records[kCapacity];
  // Of the record at the same place. All zero, and never touched, where nothing is charged.
  Charges charges[kCapacity];
};

namespace recorder {
// State of the calling thread, made on first use; null if there is no memory for it.
ThreadState* thread_state();
}  // namespace recorder

}  // namespace cctrace
