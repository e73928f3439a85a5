// What `cctrace record` asked for, read once from the environment.
#pragma once

#include <cstdint>

#include "cost_table.h"

namespace cctrace {

enum class GpuMode : uint8_t { none, stamps, graphs, nodes };

// What the emulator charges, by cause; nothing if nothing is emulated.
struct Emulation {
  bool active = false;  // also when everything is zero: that is how the machinery's own cost is measured
  // launch: per submission of each kind.
  uint64_t kernel_ns = 0, graph_ns = 0, copy_ns = 0, memset_ns = 0, event_ns = 0;
  // pcie: by size, direction and kind of the host memory; page-locked memory that is allocated.
  CostTable h2d, d2h, h2d_pageable, d2h_pageable, host_alloc;
  // overlap: copies between device and pinned memory block until their stream is drained.
  bool overlap = false;
  // nvlink: a transfer lasts so many times as long, and so much longer per peer.
  double collective_factor = 1, all_to_all_factor = 1, peer_copy_factor = 1;
  uint64_t peer_latency_ns = 0;
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
