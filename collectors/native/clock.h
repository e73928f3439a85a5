// The clocks of a recording. Everything in a trace is CLOCK_MONOTONIC.
#pragma once

#include <time.h>

#include <cstdint>

namespace cctrace {

inline uint64_t read_clock(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

inline uint64_t monotonic_ns() { return read_clock(CLOCK_MONOTONIC); }

}  // namespace cctrace
