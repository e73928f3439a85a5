#include "config.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace cctrace {
namespace {

// Beyond it a factor is a slip.
constexpr double kMaxFactor = 1e4;

const char* text(const char* name) {
  const char* value = getenv(name);
  return value && *value ? value : nullptr;
}

GpuMode gpu_mode(const char* value) {
  if (!value) return GpuMode::none;
  if (!strcmp(value, "stamps")) return GpuMode::stamps;
  if (!strcmp(value, "graphs")) return GpuMode::graphs;
  if (!strcmp(value, "nodes")) return GpuMode::nodes;
  return GpuMode::none;
}

uint64_t nanoseconds(const char* microseconds) {
  double value = strtod(microseconds, nullptr);
  // An hour per call is beyond anything meant; it also keeps the conversion defined.
  if (!(value > 0) || value > 3.6e9) return 0;
  return static_cast<uint64_t>(value * 1e3 + 0.5);
}

double factor(const char* text) {
  const double value = strtod(text, nullptr);
  return value > 1 && value <= kMaxFactor ? value : 1;
}

// The text behind "key=" among "key=value,key=value"; null if the key is not there.
const char* value_of(const char* key, const char* list) {
  const size_t length = strlen(key);
  for (const char* p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : nullptr) {
    if (!strncmp(p, key, length) && p[length] == '=') return p + length + 1;
  }
  return nullptr;
}

// "kernel_us=12.25,overlap=1,h2d_us=64:4.6/1048576:92,…"
Emulation emulation(const char* list) {
  Emulation e;
  e.active = list != nullptr;
  const auto set = [list](const char* key, auto& target, auto read) {
    if (const char* value = value_of(key, list)) target = read(value);
  };
  set("kernel_us", e.kernel_ns, nanoseconds);
  set("graph_us", e.graph_ns, nanoseconds);
  set("copy_us", e.copy_ns, nanoseconds);
  set("memset_us", e.memset_ns, nanoseconds);
  set("event_us", e.event_ns, nanoseconds);
  set("h2d_us", e.h2d, CostTable::parse);
  set("d2h_us", e.d2h, CostTable::parse);
  e.h2d_pageable = e.h2d;
  e.d2h_pageable = e.d2h;
  set("h2d_pageable_us", e.h2d_pageable, CostTable::parse);
  set("d2h_pageable_us", e.d2h_pageable, CostTable::parse);
  set("host_alloc_us", e.host_alloc, CostTable::parse);
  set("overlap", e.overlap,
      [](const char* value) { return value[0] == '1' && (!value[1] || value[1] == ','); });
  set("collective_factor", e.collective_factor, factor);
  set("all_to_all_factor", e.all_to_all_factor, factor);
  set("peer_copy_factor", e.peer_copy_factor, factor);
  set("peer_latency_us", e.peer_latency_ns, nanoseconds);
  return e;
}

Config read() {
  Config c;
  c.spool = text("CCTRACE_SPOOL");
  c.step_pattern = text("CCTRACE_STEP_PATTERN");
  c.libcupti = text("CCTRACE_LIBCUPTI");
  c.gpu = gpu_mode(text("CCTRACE_GPU"));
  const char* names = text("CCTRACE_KERNEL_NAMES");
  c.kernel_names = !names || strcmp(names, "0") != 0;
  const char* every = text("CCTRACE_STAMP_EVERY");
  long n = every ? strtol(every, nullptr, 10) : 0;
  if (n > 0 && n < 1000000) c.stamp_every = static_cast<uint32_t>(n);
  c.emulation = emulation(text("CCTRACE_EMULATE"));
  return c;
}

}  // namespace

const Config& config() {
  // Leaked: it is read until the very end of the process, after static destructors. The strings are copied
  // because a program may change its environment.
  static const Config* const c = [] {
    auto* copy = new Config(read());
    for (const char** s : {&copy->spool, &copy->step_pattern, &copy->libcupti}) {
      if (*s) *s = strdup(*s);
    }
    return copy;
  }();
  return *c;
}

}  // namespace cctrace
