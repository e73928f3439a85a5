#include "config.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace cctrace {
namespace {

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

// "kernel_us=12.25,graph_us=12.25,overlap=1"
Emulation emulation(const char* value) {
  Emulation e;
  struct Key {
    const char* name;
    uint64_t* target;
  };
  const Key keys[] = {{"kernel_us=", &e.kernel_ns},
                      {"graph_us=", &e.graph_ns},
                      {"copy_us=", &e.copy_ns},
                      {"memset_us=", &e.memset_ns},
                      {"event_us=", &e.event_ns}};
  for (const char* p = value; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : nullptr) {
    for (const Key& key : keys) {
      if (!strncmp(p, key.name, strlen(key.name))) *key.target = nanoseconds(p + strlen(key.name));
    }
    if (!strncmp(p, "overlap=1", 9)) e.overlap = true;
  }
  // Present but all zero still runs the machinery: that is how its own cost is measured.
  e.active = value != nullptr;
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
