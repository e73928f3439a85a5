// What `cctrace record` asked for, read once from the environment.
#pragma once

#include <cstdint>

namespace cctrace {

enum class GpuMode : uint8_t { none, stamps, graphs, nodes };

// Costs in nanoseconds that the emulator charges; all zero when nothing is emulated.
struct Emulation {
  uint64_t kernel_ns = 0, graph_ns = 0, copy_ns = 0, memset_ns = 0, event_ns = 0;
  bool overlap = false;  // copies between device and pinned memory block until their stream is drained
  bool active = false;
};

struct Config {
  const char* spool = nullptr;         // folder; null: this process is not recorded
  const char* step_pattern = nullptr;  // fnmatch patterns, separated by ';', of NVTX labels that mark steps
  const char* libcupti = nullptr;      // where to find libcupti if no other rule does
  GpuMode gpu = GpuMode::none;
  bool kernel_names = true;
  uint32_t stamp_every = 16;  // one eager step in so many is stamped
  Emulation emulation;
};

const Config& config();

}  // namespace cctrace
